//! The families of cases: which links, what happens to them, which traffic.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use mpt_core::send::scheduler::law::Law;
use rand::RngExt as _;

use super::draw::{Links, log_uniform, uniform};
use super::weather::{Forecast, Weather};
use crate::delay::{Delay, MS};
use crate::link::{LinkConfig, Order, Policer};
use crate::pair::PathSpec;
use crate::rng::{SimRng, stream};

/// What is drawn. A family's place here is part of what its seeds draw from: a new one goes last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// Two links of any kind that stay as they are.
    Pairs,
    /// Two to four links, one of which changes after 8 s (nothing, rate, delay, silent death) and back
    /// 6 s later.
    Changing,
    /// Two links with a tenth of the rate back.
    Asymmetric,
    /// Two links, one of which changes its rate or delay in steps or a ramp all the time.
    Drifting,
    /// Two links, one of which others fill and leave.
    Crossed,
    /// Two links, four bulk flows and a sparse one, whose delay counts.
    Flows,
    /// Two links as people have them ([`Weather`]), for a minute.
    Field,
    /// One link: what the tunnel costs who has lost the others, or has none yet.
    Single,
    /// Two links, and pages of 30 objects over 6 connections instead of a bulk flow.
    Pages,
    /// Two links, one of which another host's bulk flow uses, too: what that keeps counts.
    Shared,
}

impl Family {
    /// All of them.
    pub const ALL: [Family; 10] = [
        Family::Pairs,
        Family::Changing,
        Family::Asymmetric,
        Family::Drifting,
        Family::Crossed,
        Family::Flows,
        Family::Field,
        Family::Single,
        Family::Pages,
        Family::Shared,
    ];

    /// As the command line names it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Family::Pairs => "pairs",
            Family::Changing => "changing",
            Family::Asymmetric => "asymmetric",
            Family::Drifting => "drifting",
            Family::Crossed => "crossed",
            Family::Shared => "shared",
            Family::Flows => "flows",
            Family::Field => "field",
            Family::Single => "single",
            Family::Pages => "pages",
        }
    }

    /// The parts of a run that are judged.
    #[must_use]
    pub const fn phases(self) -> &'static [Phase] {
        const STEADY: [Phase; 2] = [Phase::new("early", 0, 2), Phase::new("late", 6, 12)];
        const CHANGING: [Phase; 3] = [
            Phase::new("before", 3, 8),
            Phase::new("change", 8, 14),
            Phase::new("after", 15, 20),
        ];
        const MINUTE: [Phase; 2] = [Phase::new("early", 0, 2), Phase::new("late", 6, 60)];
        const PAGES: [Phase; 3] = [
            Phase::new("first", 0, 10),
            Phase::new("second", 10, 20),
            Phase::new("third", 20, 30),
        ];
        match self {
            Family::Changing => &CHANGING,
            Family::Pages => &PAGES,
            Family::Field => &MINUTE,
            Family::Pairs
            | Family::Asymmetric
            | Family::Drifting
            | Family::Crossed
            | Family::Shared
            | Family::Flows
            | Family::Single => &STEADY,
        }
    }

    fn links(self) -> Links {
        let any = Links {
            rate: 2.0..=80.0,
            back: (1.0..=1.0, 0.0),
            delay_ms: 2.0..=150.0,
            queue_ms: 10.0..=1000.0,
            independent: (0.35, 0.0005..=0.03),
            gilbert: (0.25, 0.0005..=0.03, 2.0..=20.0),
            jitter: (0.5, 0.5..=15.0, 0.3),
        };
        match self {
            Family::Pairs
            | Family::Flows
            | Family::Crossed
            | Family::Shared
            | Family::Field
            | Family::Single
            | Family::Pages => any,
            Family::Asymmetric => Links {
                back: (0.1..=0.1, 1.0),
                ..any
            },
            Family::Changing | Family::Drifting => Links {
                rate: 4.0..=60.0,
                back: (0.1..=1.0, 0.5),
                delay_ms: 4.0..=100.0,
                queue_ms: 30.0..=600.0,
                independent: (0.0, 0.0005..=0.01),
                gilbert: (0.4, 0.0005..=0.01, 2.0..=20.0),
                jitter: (0.4, 0.5..=8.0, 0.0),
            },
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Family {
    type Err = String;

    fn from_str(text: &str) -> Result<Family, String> {
        let names = Family::ALL.map(Family::name).join(", ");
        Family::ALL
            .into_iter()
            .find(|family| family.name() == text)
            .ok_or_else(|| format!("there is no family {text:?}; there are {names}"))
    }
}

/// A part of a run, in whole seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phase {
    /// As the tables name it.
    pub name: &'static str,
    /// Where it begins.
    pub from: usize,
    /// Where it ends.
    pub to: usize,
}

impl Phase {
    const fn new(name: &'static str, from: usize, to: usize) -> Phase {
        Phase { name, from, to }
    }
}

/// Something that happens to one path, both directions alike.
#[derive(Debug, Clone)]
pub struct Change {
    /// When, since the traffic began.
    pub at: Duration,
    /// Which path.
    pub path: usize,
    /// What.
    pub what: What,
}

/// What a change is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum What {
    /// The rate is this share of the first.
    Rate(f64),
    /// The mean one-way delay is this, in ms.
    DelayMs(f64),
    /// It brings nothing (`false`), or what it is given again, without a word to either end.
    Up(bool),
    /// It is as at first.
    Restore,
    /// The client is seen at another port from now on, and what is sent to the former one is lost.
    Rebind,
    /// The 5-tuple gets this share of the rate, none at all with 0, until an end goes over to another port.
    Tuple(f64),
}

/// In what the links carry together, a 5-tuple that is throttled or dead counts as replaced after this time: how soon
/// the tunnel is to be back by another port.
const RENEWED_WITHIN: Duration = Duration::from_secs(10);
/// Bytes that a throttled 5-tuple has at once: a full packet, or none would ever pass.
const THROTTLED_BURST_BYTES: usize = 1500;

impl Change {
    /// Whether it holds at a time, if nothing happens later.
    pub(super) fn holds_at(&self, at: Duration) -> bool {
        let ends = matches!(self.what, What::Tuple(_)) && at > self.at + RENEWED_WITHIN;
        self.at <= at && !ends
    }
}

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traffic {
    /// Bulk flows.
    pub bulk: usize,
    /// A page as each phase begins.
    pub pages: bool,
    /// Besides, a call of 50 packets a second.
    pub call: bool,
    /// Others put packets of their own on path 0: a bulk of this share of its rate, in percent, on for
    /// two seconds and off for two.
    pub cross_percent: u32,
    /// Another host has a bulk flow over path 0, beside the tunnel.
    pub beside: bool,
}

/// One drawn case.
#[derive(Debug, Clone)]
pub struct Case {
    /// Where it is from.
    pub family: Family,
    /// What it was drawn with.
    pub seed: u64,
    /// The links.
    pub paths: Vec<PathSpec>,
    /// What happens to them, in order of time.
    pub changes: Vec<Change>,
    /// What is sent.
    pub traffic: Traffic,
    /// To which group of its family it belongs.
    pub group: &'static str,
    /// What its links are, where they are as people have them.
    pub weathers: Vec<Weather>,
    /// The law of the tunnel's sender.
    pub law: &'static Law,
}

impl Case {
    /// Draws the case of that seed.
    #[must_use]
    pub fn draw(family: Family, seed: u64) -> Case {
        let mut rng = stream(seed, 7_000 + family as u64);
        if family == Family::Field {
            return Case::of_weather(seed, &mut rng);
        }
        let links = family.links();
        let count = match family {
            Family::Changing => rng.random_range(2..=4),
            Family::Single => 1,
            Family::Pairs
            | Family::Asymmetric
            | Family::Drifting
            | Family::Crossed
            | Family::Shared
            | Family::Flows
            | Family::Field
            | Family::Pages => 2,
        };
        let paths: Vec<PathSpec> = (0..count).map(|_| links.draw(&mut rng)).collect();
        let (changes, group) = if family == Family::Changing {
            one_change(&mut rng, &paths)
        } else if family == Family::Drifting {
            drift(&mut rng)
        } else {
            (Vec::new(), kind_of_jitter(&paths))
        };
        let traffic = Traffic {
            bulk: match family {
                Family::Flows => 4,
                Family::Pages => 0,
                Family::Pairs
                | Family::Changing
                | Family::Asymmetric
                | Family::Drifting
                | Family::Crossed
                | Family::Shared
                | Family::Field
                | Family::Single => 1,
            },
            pages: family == Family::Pages,
            call: family == Family::Flows,
            cross_percent: if family == Family::Crossed {
                rng.random_range(30..=90)
            } else {
                0
            },
            beside: family == Family::Shared,
        };
        Case {
            family,
            seed,
            paths,
            changes,
            traffic,
            group,
            weathers: Vec::new(),
            law: &Law::LAW,
        }
    }

    /// The seeds go through all pairs of weathers, and each time round draw others of them.
    fn of_weather(seed: u64, rng: &mut SimRng) -> Case {
        let all = Weather::ALL.len();
        let pairs: Vec<[Weather; 2]> = (0..all)
            .flat_map(|one| (one..all).map(move |other| [Weather::ALL[one], Weather::ALL[other]]))
            .collect();
        let mut weathers = pairs[(seed % pairs.len() as u64) as usize];
        if rng.random() {
            weathers.reverse();
        }
        Case::under(
            weathers,
            weathers.map(|weather| weather.draw(rng)),
            seed,
            &Law::LAW,
        )
    }

    /// A minute over a pair of such links with a download. With the seed 1 it is the minute that
    /// `benches/profiles --weather` has in the lab: a link's own seed is its place among all that seeds count up to.
    #[must_use]
    pub fn forecast(weathers: [Weather; 2], seed: u64, law: &'static Law) -> Case {
        let first = seed.saturating_mul(2).saturating_sub(1);
        let forecasts = [0, 1].map(|link| weathers[link].forecast(first + link as u64));
        Case::under(weathers, forecasts, seed, law)
    }

    fn under(
        weathers: [Weather; 2],
        forecasts: [Forecast; 2],
        seed: u64,
        law: &'static Law,
    ) -> Case {
        let mut changes: Vec<Change> = forecasts
            .iter()
            .enumerate()
            .flat_map(|(path, forecast)| {
                let change = move |&(at, what)| Change { at, path, what };
                forecast.changes.iter().map(change)
            })
            .collect();
        changes.sort_by_key(|change| change.at);
        Case {
            family: Family::Field,
            seed,
            paths: forecasts.map(|forecast| forecast.path).into(),
            changes,
            traffic: Traffic {
                bulk: 1,
                pages: false,
                call: false,
                cross_percent: 0,
                beside: false,
            },
            group: weathers[0].name(),
            weathers: weathers.into(),
            law,
        }
    }

    /// Only one of its links, with what happens to that one.
    #[must_use]
    pub fn alone(&self, path: usize) -> Case {
        let mut alone = self.clone();
        alone.paths = vec![self.paths[path].clone()];
        alone.changes.retain(|change| change.path == path);
        alone.changes.iter_mut().for_each(|change| change.path = 0);
        if path != 0 {
            alone.traffic.cross_percent = 0;
            alone.traffic.beside = false;
        }
        alone
    }

    /// How long it runs, in whole seconds.
    #[must_use]
    pub fn seconds(&self) -> usize {
        let ends = self.family.phases().iter().map(|phase| phase.to);
        ends.max().unwrap_or(0)
    }
}

fn kind_of_jitter(paths: &[PathSpec]) -> &'static str {
    let links = || paths.iter().map(|path| &path.links[0]);
    let jitters = |link: &LinkConfig| !matches!(link.delay, Delay::Constant { .. });
    if links().any(|link| link.order == Order::ByDelay) {
        "overtaking"
    } else if links().any(jitters) {
        "jitter in order"
    } else {
        "no jitter"
    }
}

/// One path changes after 8 s and back after 14.
fn one_change(rng: &mut SimRng, paths: &[PathSpec]) -> (Vec<Change>, &'static str) {
    let path = rng.random_range(0..paths.len());
    let (what, back, group) = match rng.random_range(0..4) {
        0 => return (Vec::new(), "nothing"),
        1 => (
            What::Rate(uniform(rng, &(0.1..=0.7))),
            What::Restore,
            "rate",
        ),
        2 => (
            What::DelayMs(log_uniform(rng, &(10.0..=250.0))),
            What::Restore,
            "delay",
        ),
        _ => (What::Up(false), What::Up(true), "death"),
    };
    let at = |seconds, what| Change {
        at: Duration::from_secs(seconds),
        path,
        what,
    };
    (vec![at(8, what), at(14, back)], group)
}

/// Path 0 changes all the time: steps of a second or two, or ramps of 50 ms steps.
fn drift(rng: &mut SimRng) -> (Vec<Change>, &'static str) {
    const END_MS: u64 = 12_000;
    let ramps = rng.random::<bool>();
    let rates = rng.random::<bool>();
    let (step_ms, group) = match (ramps, rates) {
        (true, true) => (50, "rate ramps"),
        (true, false) => (50, "delay ramps"),
        (false, true) => (rng.random_range(500..2500), "rate steps"),
        (false, false) => (rng.random_range(500..2500), "delay steps"),
    };
    let period_ms = uniform(rng, &(2_000.0..=8_000.0));
    let mut changes = Vec::new();
    for at_ms in (step_ms..END_MS).step_by(step_ms as usize) {
        // A ramp goes up and down evenly; a step goes anywhere.
        let place = match ramps {
            true => {
                let turn = (at_ms as f64 / period_ms).fract();
                1.0 - (2.0 * turn - 1.0).abs()
            }
            false => rng.random(),
        };
        let what = match rates {
            true => What::Rate(1.0 - 0.8 * place),
            false => What::DelayMs(10.0 + 140.0 * place),
        };
        changes.push(Change {
            at: Duration::from_millis(at_ms),
            path: 0,
            what,
        });
    }
    (changes, group)
}

impl What {
    /// Does it to one direction of a link that was `first` at first. What lies outside the link, a mapping or a
    /// 5-tuple's fate, is the caller's: [`What::Rebind`] changes nothing here.
    pub fn apply(self, link: &mut LinkConfig, first: &LinkConfig) {
        match self {
            What::Rate(share) => {
                link.rate_bps = first.rate_bps.map(|bps| (bps as f64 * share) as u64);
            }
            What::DelayMs(ms) => {
                let ns = (ms * MS as f64) as u64;
                link.delay = match first.delay {
                    Delay::Normal { sd_ns, .. } => Delay::Normal { mean_ns: ns, sd_ns },
                    Delay::Constant { .. }
                    | Delay::Uniform { .. }
                    | Delay::NetemUniform { .. }
                    | Delay::Exponential { .. }
                    | Delay::ExponentialCut { .. }
                    | Delay::Switching(_)
                    | Delay::Gathered { .. } => Delay::Constant { ns },
                };
            }
            What::Up(up) => link.up = up,
            What::Restore => *link = first.clone(),
            What::Rebind => {}
            What::Tuple(share) if share > 0.0 => {
                let rate = |bps| (bps as f64 * share) as u64;
                link.policer = first.rate_bps.map(|bps| Policer {
                    rate_bps: rate(bps),
                    burst_bytes: THROTTLED_BURST_BYTES,
                });
            }
            What::Tuple(_) => link.up = false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_draws_the_same_case_and_another_seed_another() {
        for family in Family::ALL {
            let text = |seed| format!("{:?}", Case::draw(family, seed));
            assert_eq!(text(1), text(1));
            assert_ne!(text(1), text(2));
        }
    }

    #[test]
    fn pairs_have_the_shares_that_they_are_said_to_have() {
        let cases: Vec<Case> = (0..4000)
            .map(|seed| Case::draw(Family::Pairs, seed))
            .collect();
        let share = |is: &dyn Fn(&LinkConfig) -> bool| {
            let links = cases.iter().flat_map(|case| &case.paths);
            let links = links.map(|path| &path.links[0]);
            links.filter(|link| is(link)).count() as f64 / 8000.0
        };
        use crate::loss::Loss;
        let lossless = share(&|link| link.loss == Loss::None);
        assert!((lossless - 0.4).abs() < 0.02, "{lossless}");
        let overtaking = share(&|link| link.order == Order::ByDelay);
        assert!((overtaking - 0.15).abs() < 0.02, "{overtaking}");
        let slow = share(&|link| link.rate_bps.unwrap() < 12_649_000);
        assert!(
            (slow - 0.5).abs() < 0.02,
            "half are below the geometric mean: {slow}"
        );
        assert!(
            cases.iter().flat_map(|case| &case.paths).all(|path| {
                (1_999_000..=80_000_000).contains(&path.links[0].rate_bps.unwrap())
            })
        );
    }

    #[test]
    fn the_first_minute_of_a_pair_is_the_lab_s() {
        let weathers = [Weather::Starlink, Weather::LteBad];
        let case = Case::forecast(weathers, 1, &Law::LAW);
        for (path, weather) in weathers.iter().enumerate() {
            // As net::profile::field::Pair::forecasts.
            let forecast = weather.forecast(path as u64 + 1);
            assert_eq!(case.paths[path].links, forecast.path.links);
            let of_path = case.changes.iter().filter(|change| change.path == path);
            assert_eq!(of_path.count(), forecast.changes.len());
        }
        let next = Case::forecast(weathers, 2, &Law::LAW);
        assert_ne!(next.paths[0].links, case.paths[0].links);
    }

    #[test]
    fn what_changes_is_restored() {
        let first = Case::draw(Family::Changing, 3).paths[0].links[0].clone();
        let mut link = first.clone();
        for what in [What::Rate(0.5), What::DelayMs(77.0), What::Up(false)] {
            what.apply(&mut link, &first);
            assert_ne!(link, first);
            What::Restore.apply(&mut link, &first);
            assert_eq!(link, first);
        }
    }
}

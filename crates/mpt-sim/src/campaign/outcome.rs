//! One case, run: over the tunnel, and over each of its links alone.

use std::time::Duration;

use mpt_core::control::trace::Decision;
use mpt_core::send::scheduler::Policy;

use super::family::{Case, Change, Family, Phase};
use super::watch::Watch;
use super::world::{BESIDE_FROM, SECOND, Traced, World, others_send};
use crate::link::LinkConfig;
use crate::pair::{Pair, PairConfig, Side};
use crate::source::Sender;

/// The ends run for this long before the traffic begins: paths are up, and probes know their delays.
const WARM_UP: Duration = Duration::from_secs(1);
/// Data in a bulk flow's packet, and what of it is on the wire: 28 bytes of IPv4 and UDP, 8 of GRE.
const PAYLOAD: f64 = 1372.0 / 1436.0;
/// The same where it is sealed: 22 bytes more.
const SEALED_PAYLOAD: f64 = 1372.0 / 1458.0;

/// What one run gave.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Run {
    /// Bytes of bulk data that arrived in order in each second.
    pub bytes: Vec<u64>,
    /// One-way delay of the call's packets that were sent after the first second and before the last two;
    /// `None` where one did not arrive.
    pub call: Vec<Option<Duration>>,
    /// How long each page took that was loaded to its end, and when it began.
    pub pages: Vec<(Duration, Duration)>,
    /// Bytes of the other host's flow that arrived in order in each second.
    pub beside: Vec<u64>,
}

/// What was measured of one phase.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// The tunnel's goodput, in bits a second.
    pub bond_bps: f64,
    /// That of the best link alone.
    pub best_bps: f64,
    /// What all links together could carry, had each of them the rate that it has then and lost what it
    /// loses.
    pub sum_bps: f64,
}

impl Measured {
    /// The tunnel's goodput in parts of the best link's.
    #[must_use]
    pub fn of_best(&self) -> f64 {
        self.bond_bps / self.best_bps.max(1.0)
    }

    /// The tunnel's goodput in parts of the sum.
    #[must_use]
    pub fn of_sum(&self) -> f64 {
        self.bond_bps / self.sum_bps.max(1.0)
    }
}

/// What became of a call's packets, beside each link alone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Call {
    /// 99th percentile of the delay of what arrived, beyond the least over a link alone, in ms.
    pub later_ms: f64,
    /// The share of its packets that did not arrive, 0 to 1.
    pub lost: f64,
    /// The least such share over a link alone.
    pub best_lost: f64,
}

/// A case with what it came to.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The case.
    pub case: Case,
    /// For each phase of its family.
    pub phases: Vec<Measured>,
    /// What became of the call, where there is one.
    pub call: Option<Call>,
    /// What the other host's flow keeps in the last phase, in parts of what it has beside a plain path, where there is one.
    pub beside_keeps: Option<f64>,
}

impl Case {
    /// Runs it over the tunnel and over each link alone.
    #[must_use]
    pub fn run(self, sender: Sender) -> Outcome {
        let alone = self.runs_alone(sender);
        self.run_beside(sender, &alone)
    }

    /// Runs it over each link alone.
    #[must_use]
    pub fn runs_alone(&self, sender: Sender) -> Vec<Run> {
        (0..self.paths.len())
            .map(|path| self.alone(path).run_once(sender, Policy::Weighted, false))
            .collect()
    }

    /// Runs it over the tunnel, to be compared with what each link alone gave.
    #[must_use]
    pub fn run_beside(self, sender: Sender, alone: &[Run]) -> Outcome {
        let bond = self.run_once(sender, Policy::Adaptive, true);
        let phases = self.family.phases().iter();
        let phases = phases.map(|phase| Measured {
            bond_bps: bond.goodput_bps(*phase),
            best_bps: alone
                .iter()
                .map(|run| run.goodput_bps(*phase))
                .fold(0.0, f64::max),
            sum_bps: self.sum_bps(*phase),
        });
        let call = bond.call_p99_ms().map(|p99_ms| {
            let alone_p99_ms = alone.iter().filter_map(Run::call_p99_ms);
            Call {
                later_ms: p99_ms - alone_p99_ms.fold(f64::INFINITY, f64::min),
                lost: bond.call_lost(),
                best_lost: alone.iter().map(Run::call_lost).fold(1.0, f64::min),
            }
        });
        let last = self.family.phases().last().filter(|_| self.traffic.beside);
        let beside_keeps = last
            .zip(alone.first())
            .map(|(phase, plain)| bond.beside_bps(*phase) / plain.beside_bps(*phase).max(1.0));
        Outcome {
            phases: phases.collect(),
            call,
            beside_keeps,
            case: self,
        }
    }

    /// Runs it once, over all links that it has.
    #[must_use]
    pub fn run_once(&self, sender: Sender, policy: Policy, recovery: bool) -> Run {
        let mut pair = self.pair(policy, recovery);
        let mut world = World::new(self, sender, &pair);
        world.run(&mut pair);
        world.run
    }

    /// Runs it once over the tunnel, and says so often what its sender believes: a line each time.
    #[must_use]
    pub fn watched(&self, sender: Sender, every: Duration) -> Vec<String> {
        let mut pair = self.bonded();
        let mut world = World::new(self, sender, &pair);
        world.watch = Some(Watch::new(every, pair.now()));
        world.run(&mut pair);
        world.watch.map(Watch::into_lines).unwrap_or_default()
    }

    /// Runs it once over the tunnel. Returns what its sender decided about the rate of a path, and why; times are
    /// since the flows began.
    #[must_use]
    pub fn traced(&self, sender: Sender, path: usize) -> Vec<Decision> {
        let mut pair = self.bonded();
        let began_us = pair.end(Side::A).local(pair.now()).as_nanos() / 1000;
        let mut world = World::new(self, sender, &pair);
        world.traced = Some(Traced::of(path));
        world.run(&mut pair);
        let mut decisions = world.traced.unwrap_or_default().decisions;
        for decision in &mut decisions {
            decision.at_us = decision.at_us.saturating_sub(began_us);
        }
        decisions
    }

    /// Both ends, over all links that it has, as people run them.
    fn bonded(&self) -> Pair {
        self.pair(Policy::Adaptive, true)
    }

    fn pair(&self, policy: Policy, recovery: bool) -> Pair {
        let mut config = PairConfig {
            policy,
            recovery,
            seed: self.seed,
            law: self.law,
            ..PairConfig::new(self.paths.clone())
        };
        if self.family == Family::Field {
            // The client is behind translators of addresses; whom it calls knows it by its key.
            config = config.sealed();
            config.waits_to_be_called = Some(Side::A);
        }
        Pair::running(config, WARM_UP)
    }

    /// What all links carry together in a phase, in bits of data a second.
    fn sum_bps(&self, phase: Phase) -> f64 {
        (0..self.paths.len())
            .map(|path| {
                let steps = (phase.to - phase.from) * 20;
                let mean = (0..steps)
                    .map(|step| {
                        let at = SECOND * phase.from as u32 + SECOND * step as u32 / 20;
                        let link = self.link_at(path, at);
                        let others = match path {
                            0 if self.traffic.beside && at >= BESIDE_FROM => 0.5,
                            0 if others_send(at) => f64::from(self.traffic.cross_percent) / 100.0,
                            _ => 0.0,
                        };
                        match link.up {
                            true => {
                                link.carries_bps() as f64
                                    * (1.0 - link.loss.mean())
                                    * (1.0 - others)
                            }
                            false => 0.0,
                        }
                    })
                    .sum::<f64>()
                    / steps as f64;
                mean * self.payload()
            })
            .sum()
    }

    /// The share of what is on the wire that is data.
    fn payload(&self) -> f64 {
        if self.family == Family::Field {
            SEALED_PAYLOAD
        } else {
            PAYLOAD
        }
    }

    /// The link there as it is at a time.
    fn link_at(&self, path: usize, at: Duration) -> LinkConfig {
        let first = &self.paths[path].links[0];
        let mut link = first.clone();
        let done = |change: &&Change| change.path == path && change.holds_at(at);
        for change in self.changes.iter().filter(done) {
            change.what.apply(&mut link, first);
        }
        link
    }
}

impl Run {
    /// Mean goodput of a phase, in bits a second; if a page was loaded in it, until it was.
    #[must_use]
    pub fn goodput_bps(&self, phase: Phase) -> f64 {
        let bytes: u64 = self.bytes[phase.from..phase.to].iter().sum();
        let from = SECOND * phase.from as u32;
        let page = self.pages.iter().find(|(began, _)| *began == from);
        let took = page.map_or(SECOND * (phase.to - phase.from) as u32, |&(_, took)| took);
        bytes as f64 * 8.0 / took.as_secs_f64()
    }

    /// Mean goodput of the other host's flow in a phase, in bits a second.
    fn beside_bps(&self, phase: Phase) -> f64 {
        let bytes: u64 = self.beside[phase.from..phase.to].iter().sum();
        bytes as f64 * 8.0 / (phase.to - phase.from) as f64
    }

    /// The share of the call's packets that did not arrive, 0 to 1.
    fn call_lost(&self) -> f64 {
        let lost = self.call.iter().filter(|delay| delay.is_none()).count();
        lost as f64 / self.call.len().max(1) as f64
    }

    /// 99th percentile of the delay of the call's packets that arrived.
    fn call_p99_ms(&self) -> Option<f64> {
        let arrived = self.call.iter().flatten();
        let mut delays: Vec<f64> = arrived.map(|delay| delay.as_secs_f64() * 1e3).collect();
        delays.sort_by(f64::total_cmp);
        let at = (delays.len() * 99).div_ceil(100).checked_sub(1)?;
        delays.get(at).copied()
    }
}

#[cfg(test)]
mod tests {
    use mpt_core::send::scheduler::law::Law;

    use super::super::family::{Family, Traffic, What};
    use super::*;
    use crate::pair::PathSpec;

    fn case(paths: Vec<PathSpec>, changes: Vec<Change>, traffic: Traffic) -> Case {
        Case {
            family: Family::Pairs,
            seed: 1,
            paths,
            changes,
            traffic,
            group: "",
            weathers: Vec::new(),
            law: &Law::LAW,
        }
    }

    const BULK: Traffic = Traffic {
        bulk: 1,
        pages: false,
        call: false,
        cross_percent: 0,
        beside: false,
    };

    #[test]
    fn two_clean_links_are_worth_their_sum() {
        let paths = vec![PathSpec::symmetric(20, 10), PathSpec::symmetric(10, 15)];
        let outcome = case(paths, Vec::new(), BULK).run(Sender::Reno);
        let late = outcome.phases[1];
        assert!((1.4..1.51).contains(&late.of_best()), "{late:?}");
        assert!((0.95..1.01).contains(&late.of_sum()), "{late:?}");
    }

    #[test]
    fn a_link_that_dies_leaves_the_sum_with_it() {
        let change = |seconds, what| Change {
            at: SECOND * seconds,
            path: 0,
            what,
        };
        let changes = vec![change(6, What::Rate(0.5)), change(9, What::Up(false))];
        let paths = vec![PathSpec::symmetric(20, 10)];
        let case = case(paths, changes, BULK);
        let late = case.sum_bps(Family::Pairs.phases()[1]);
        assert!((late / PAYLOAD - 5e6).abs() < 1e5, "{late}");
        let run = case.run_once(Sender::Reno, Policy::Weighted, false);
        assert!(run.bytes[5] > 2_000_000 && run.bytes[8] > 1_000_000);
        assert_eq!(run.bytes[11], 0);
    }

    #[test]
    fn others_on_a_link_leave_less_of_it() {
        let paths = vec![PathSpec::symmetric(20, 10)];
        let crossed = Traffic {
            cross_percent: 50,
            ..BULK
        };
        let run = case(paths, Vec::new(), crossed).run_once(Sender::Reno, Policy::Weighted, false);
        // On from 4 to 6 s, off from 6 to 8 s.
        assert!(run.bytes[5] < 1_400_000, "{:?}", run.bytes);
        assert!(run.bytes[7] > 2_000_000, "{:?}", run.bytes);
    }

    #[test]
    fn the_sum_has_others_when_they_send() {
        let paths = vec![PathSpec::symmetric(20, 10), PathSpec::symmetric(10, 10)];
        let crossed = Traffic {
            cross_percent: 50,
            ..BULK
        };
        let case = case(paths, Vec::new(), crossed);
        // Early all the time, late from 8 to 10 s.
        let sums = [20e6, 30e6 - 10e6 / 3.0].map(|bps| bps * PAYLOAD);
        for (phase, sum) in Family::Crossed.phases().iter().zip(sums) {
            let got = case.sum_bps(*phase);
            assert!((got / sum - 1.0).abs() < 1e-9, "{phase:?}: {got} of {sum}");
        }
    }

    #[test]
    fn another_hosts_flow_has_its_share_of_a_plain_path_and_keeps_what_the_tunnel_leaves() {
        let paths = vec![
            PathSpec::symmetric(20, 10).queueing(50),
            PathSpec::symmetric(10, 10).queueing(50),
        ];
        let shared = Traffic {
            beside: true,
            ..BULK
        };
        let case = case(paths, Vec::new(), shared);
        let plain = case
            .alone(0)
            .run_once(Sender::Reno, Policy::Weighted, false);
        let late = Family::Shared.phases()[1];
        let [own, other] = [plain.goodput_bps(late), plain.beside_bps(late)];
        assert_eq!(plain.beside[..2], [0, 0], "it begins later");
        assert!((17e6..19.7e6).contains(&(own + other)), "{own} and {other}");
        assert!(
            (0.3..0.7).contains(&(own / (own + other))),
            "{own} and {other}"
        );
        assert!(
            case.alone(1)
                .run_once(Sender::Reno, Policy::Weighted, false)
                .beside
                .is_empty()
        );
        let outcome = case.run_beside(Sender::Reno, &[plain]);
        let keeps = outcome.beside_keeps.unwrap();
        assert!((0.3..4.0).contains(&keeps), "{keeps}");
        // Half of the first link, and the second.
        let sum = outcome.phases[1].sum_bps / PAYLOAD;
        assert!((sum - 20e6).abs() < 1e5, "{sum}");
    }

    #[test]
    fn a_call_has_its_delay_measured() {
        let paths = vec![PathSpec::symmetric(20, 10)];
        let call = Traffic {
            bulk: 0,
            pages: false,
            call: true,
            cross_percent: 0,
            beside: false,
        };
        let run = case(paths, Vec::new(), call).run_once(Sender::Reno, Policy::Weighted, false);
        assert_eq!(run.call.len(), 450);
        let p99 = run.call_p99_ms().unwrap();
        assert!((10.0..11.0).contains(&p99), "{p99}");
    }

    #[test]
    fn what_waits_in_a_queue_at_the_end_is_not_lost() {
        let paths = vec![PathSpec::symmetric(20, 10).queueing(1000)];
        let call = Traffic { call: true, ..BULK };
        let run = case(paths, Vec::new(), call).run_once(Sender::Reno, Policy::Weighted, false);
        let p99 = run.call_p99_ms().unwrap();
        assert!((500.0..1000.0).contains(&p99), "{p99}");
    }
}

//! A profile, what came of it, and how it is said.

use std::time::Duration;

use net::profile::measure::Measured;
use net::profile::{Bound, Profile};
use serde::de::DeserializeOwned;

use crate::job::Job;
use crate::lanes::Outcomes;

/// A profile and what came of it.
pub(crate) struct Comparison<'a> {
    profile: &'a Profile,
    alone: [Option<Measured>; 2],
    ideal: Option<Measured>,
    tunnel: Option<Measured>,
    took: Duration,
}

impl<'a> Comparison<'a> {
    pub(crate) const HEADS: [&'static str; 18] = [
        "profile", "links", "first", "second", "ideal", "sum", "tunnel", "steady", "/best", "/sum",
        "voice", "asked", "verdict", "on first", "retr", "dropped", "gaps", "time",
    ];

    pub(crate) fn new(profile: &'a Profile, outcomes: &Outcomes, runs: u32) -> Self {
        let name = || profile.name.to_owned();
        let of = |job: &dyn Fn(u32) -> Job| median((1..=runs).map(job), outcomes);
        let took = outcomes
            .iter()
            .filter(|(job, _)| job.subject() == profile.name)
            .map(|(_, outcome)| outcome.took);
        Self {
            profile,
            alone: [0, 1].map(|line| {
                of(&|run| Job::Raw {
                    profile: name(),
                    line,
                    run,
                })
            }),
            ideal: of(&|run| Job::Ideal {
                profile: name(),
                run,
            }),
            tunnel: of(&|run| Job::Tunnel {
                profile: name(),
                run,
            }),
            took: took.sum(),
        }
    }

    fn best(&self) -> Option<f64> {
        let [first, second] = &self.alone;
        Some(first.as_ref()?.mbps.max(second.as_ref()?.mbps))
    }

    fn sum(&self) -> Option<f64> {
        Some(self.profile.sum_mbps(self.tunnel.as_ref()?.mtu))
    }

    /// Each bound, and whether it is met; `None` when it cannot be judged.
    fn verdicts(&self) -> Vec<(Bound, Option<bool>)> {
        let judge = |bound: Bound| -> Option<bool> {
            let tunnel = self.tunnel.as_ref()?;
            let ideal = self.ideal.as_ref().map(|ideal| ideal.mbps);
            let least = bound.least_mbps(self.best()?, self.sum()?, ideal)?;
            Some(tunnel.mbps >= least)
        };
        let bounds = self.profile.bounds.iter();
        bounds.map(|bound| (*bound, judge(*bound))).collect()
    }

    pub(crate) fn is_met(&self) -> bool {
        self.tunnel.is_some() && self.verdicts().iter().all(|(_, met)| *met == Some(true))
    }

    /// The tunnel's goodput as a share of `whole`.
    fn ratio(&self, whole: Option<f64>) -> String {
        let tunnel = self.tunnel.as_ref().map(|tunnel| tunnel.mbps);
        tunnel.zip(whole).map_or("-".to_owned(), |(part, whole)| {
            format!("{:.2}", part / whole)
        })
    }

    /// What voice beside the flow takes longer than over the nearest link without any: median, p99.
    fn voice_text(&self) -> String {
        let base = self.profile.base_ms();
        let more = |one: &Option<Measured>| {
            let [p50, p99] = one.as_ref()?.voice_ms?;
            Some(format!("+{:.0} +{:.0}", p50 - base, p99 - base))
        };
        let delay = |line: usize| self.profile.lines[line].there.base_delay();
        let nearest = usize::from(delay(1) < delay(0));
        let text = |one| more(one).unwrap_or("-".to_owned());
        format!("{} ({})", text(&self.tunnel), text(&self.alone[nearest]))
    }

    /// All that matters most, in a line.
    pub(crate) fn line(&self) -> String {
        let mut line = format!(
            "{:<15} {:<22} alone {} and {}, sum {}; tunnel {} Mbit/s ({} late), {} of best, {} of sum; \
             voice {} ms; {}",
            self.profile.name,
            self.profile.text(),
            rate(&self.alone[0]),
            rate(&self.alone[1]),
            mbps(self.sum()),
            rate(&self.tunnel),
            mbps(self.tunnel.as_ref().map(|tunnel| tunnel.steady_mbps)),
            self.ratio(self.best()),
            self.ratio(self.sum()),
            self.voice_text(),
            self.verdict_text()
        );
        if self.ideal.is_some() {
            line.push_str(&format!(" (ideal link {})", rate(&self.ideal)));
        }
        line
    }

    pub(crate) fn cells(&self) -> Vec<String> {
        let of_tunnel =
            |text: &dyn Fn(&Measured) -> String| self.tunnel.as_ref().map_or("-".to_owned(), text);
        vec![
            self.profile.name.to_owned(),
            self.profile.text(),
            rate(&self.alone[0]),
            rate(&self.alone[1]),
            rate(&self.ideal),
            mbps(self.sum()),
            rate(&self.tunnel),
            mbps(self.tunnel.as_ref().map(|tunnel| tunnel.steady_mbps)),
            self.ratio(self.best()),
            self.ratio(self.sum()),
            self.voice_text(),
            asked(self.profile),
            self.verdict_text(),
            of_tunnel(&|one| {
                one.first_path_share()
                    .map_or("-".to_owned(), |share| format!("{:.0} %", share * 100.0))
            }),
            of_tunnel(&|one| one.retransmits.to_string()),
            of_tunnel(&|one| joined(one.dropped.iter().map(u64::to_string), "+")),
            of_tunnel(&gaps),
            format!("{:.0} s", self.took.as_secs_f64()),
        ]
    }

    fn verdict_text(&self) -> String {
        if self.tunnel.is_none() {
            return "failed".to_owned();
        }
        let missed: Vec<String> = self
            .verdicts()
            .iter()
            .filter(|(_, met)| *met == Some(false))
            .map(|(bound, _)| bound.to_string())
            .collect();
        if missed.is_empty() {
            "met".to_owned()
        } else {
            format!("missed: {}", missed.join(", "))
        }
    }
}

fn mbps(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |mbps| format!("{mbps:.1}"))
}

fn rate(one: &Option<Measured>) -> String {
    mbps(one.as_ref().map(|one| one.mbps))
}

pub(crate) fn asked(profile: &Profile) -> String {
    joined(profile.bounds.iter().map(Bound::to_string), ", ")
}

fn gaps(tunnel: &Measured) -> String {
    let fields = [
        "gaps_seen",
        "gaps_filled",
        "gaps_inferred_lost",
        "gaps_timed_out",
        "gaps_overflowed",
    ];
    let number = |field: &str| {
        tunnel
            .reorder(field)
            .map_or("?".to_owned(), |n| n.to_string())
    };
    joined(fields.into_iter().map(number), "/")
}

pub(crate) fn joined(words: impl Iterator<Item = String>, by: &str) -> String {
    words.collect::<Vec<_>>().join(by)
}

/// The middle one of several runs.
fn median(jobs: impl Iterator<Item = Job>, outcomes: &Outcomes) -> Option<Measured> {
    let mut runs: Vec<Measured> = jobs.filter_map(|job| value(&job, outcomes)).collect();
    runs.sort_by(|one, other| one.mbps.total_cmp(&other.mbps));
    let middle = runs.len() / 2;
    runs.into_iter().nth(middle)
}

/// The result of a job, if it has one of this kind.
pub(crate) fn value<T: DeserializeOwned>(job: &Job, outcomes: &Outcomes) -> Option<T> {
    let value = outcomes.get(job)?.result.as_ref().ok()?;
    serde_json::from_value(value.clone()).ok()
}

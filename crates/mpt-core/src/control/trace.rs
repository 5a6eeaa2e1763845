//! What the sender decided about the rate of a path, and why: `mpt-ctl trace PATH`.
//!
//! A decision is made when an epoch of the peer's reports ends, when loss is judged, and when a path falls silent or
//! is left out. One that changes neither the phase nor the rate by a hundredth is not kept.

use std::fmt;

use serde::{Deserialize, Serialize};

/// So many decisions are kept of each path, the newest. Their JSON fits in a line of the control socket.
pub const MOST_DECISIONS: usize = 512;

/// The head of the columns of [`Decision`], as text; the time stands before them.
pub const COLUMNS: &str = "PHASE   Mbit/s CARRIES DELIVERS  QUEUE ms  AIM ms  LOSS %  WHY";

/// The decisions on a path, as far as they are kept.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Trace {
    /// The path's name in the configuration.
    pub path: String,
    /// How many were made before the first of `decisions`. A later request may name `first` and their count as
    /// `from`, to have those that came since.
    pub first: u64,
    /// The decisions, oldest first.
    pub decisions: Vec<Decision>,
}

/// One decision, and what the sender believed of the path then.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// When: microseconds since 1970-01-01 00:00 UTC; in the simulation, since it began.
    pub at_us: u64,
    /// What the rate does from now on.
    pub phase: RatePhase,
    /// The signal that decided.
    pub why: Why,
    /// What the path is paced at from now on, in bits a second; absent while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    /// What it is believed to carry when it is busy, in bits a second; 0 while that is not known.
    pub capacity_bps: u64,
    /// What it delivered in the last epoch, in bits a second.
    pub delivered_bps: u64,
    /// The queue on the way, as delay.
    pub queue_us: u64,
    /// The queue that is aimed at; more on a path with jitter.
    pub target_us: u64,
    /// Share of packets that it lost when that was judged last, 0 to 1.
    pub loss: f64,
}

/// What the rate of a path does: docs/rate-control.md has the diagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RatePhase {
    /// It has none: the path takes what there is, within a bound on what is under way.
    Open,
    /// It is what the path carries, or less while a queue is worked off.
    Cruise,
    /// It is more than that, to see whether the path carries more.
    Probe,
    /// It is less for a moment, to see whether less is lost.
    Hold,
    /// It is less for a moment, to see the delay without a queue.
    Drain,
}

impl RatePhase {
    /// The name, as in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            RatePhase::Open => "open",
            RatePhase::Cruise => "cruise",
            RatePhase::Probe => "probe",
            RatePhase::Hold => "hold",
            RatePhase::Drain => "drain",
        }
    }
}

/// The signal that decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// A probe came back from a path of which nothing was known.
    New,
    /// Packets that were sent together arrived apart.
    Trains,
    /// Packets queue.
    Queue,
    /// A long queue stands though the rate was lowered.
    Others,
    /// A short one does.
    Jitter,
    /// A long one stays the same though the rate was lowered.
    Longer,
    /// No queue stands.
    TryMore,
    /// More was tried, and carried.
    Carried,
    /// More was tried, and not carried.
    NotCarried,
    /// What is delivered changed what the path is believed to carry.
    Capacity,
    /// More is lost than usual.
    Loss,
    /// As much is lost at a lower rate.
    UsualLoss,
    /// A lower rate was held for long enough after a loss.
    Held,
    /// The path was not run dry for some seconds.
    DrainDue,
    /// It was.
    Drained,
    /// The path is faster than what is worth pacing.
    Fast,
    /// Nothing more is reported of what it took.
    Silent,
    /// It delivers again.
    Answers,
}

impl Why {
    /// Every reason.
    pub const ALL: [Why; 18] = [
        Why::New,
        Why::Trains,
        Why::Queue,
        Why::Others,
        Why::Jitter,
        Why::Longer,
        Why::TryMore,
        Why::Carried,
        Why::NotCarried,
        Why::Capacity,
        Why::Loss,
        Why::UsualLoss,
        Why::Held,
        Why::DrainDue,
        Why::Drained,
        Why::Fast,
        Why::Silent,
        Why::Answers,
    ];

    /// The name, as in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Why::New => "new",
            Why::Trains => "trains",
            Why::Queue => "queue",
            Why::Others => "others",
            Why::Jitter => "jitter",
            Why::Longer => "longer",
            Why::TryMore => "try-more",
            Why::Carried => "carried",
            Why::NotCarried => "not-carried",
            Why::Capacity => "capacity",
            Why::Loss => "loss",
            Why::UsualLoss => "usual-loss",
            Why::Held => "held",
            Why::DrainDue => "drain-due",
            Why::Drained => "drained",
            Why::Fast => "fast",
            Why::Silent => "silent",
            Why::Answers => "answers",
        }
    }

    /// What was seen, and what follows from it, in words.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Why::New => "nothing is known yet: it takes what there is",
            Why::Trains => "packets sent together arrive apart, which tells what it carries",
            Why::Queue => "packets queue for longer than is aimed at: it gets less than it carries",
            Why::Others => "a long queue stays when less is sent: others fill it, and it is opened",
            Why::Jitter => "a short queue stays when less is sent: it is taken for jitter",
            Why::Longer => {
                "a long queue stays the same when less is sent: the path takes longer now"
            }
            Why::TryMore => "no queue stands that is surely one: more is tried",
            Why::Carried => "more was carried: still more is tried",
            Why::NotCarried => "no more was carried: back to what is",
            Why::Capacity => "what is delivered changed what it carries",
            Why::Loss => "more is lost than usual: it gets less",
            Why::UsualLoss => "as much is lost at so low a rate: that is usual from now on",
            Why::Held => "less was sent for long enough after a loss",
            Why::DrainDue => "a queue may stand all the time: it is run dry for a moment",
            Why::Drained => "it was run dry for a moment",
            Why::Fast => "it is faster than what is paced: it is opened",
            Why::Silent => "nothing more arrives over it: packets go over others",
            Why::Answers => "packets arrive over it again: it is used",
        }
    }
}

/// The columns after the time: see [`COLUMNS`].
impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mbps = |bps: Option<u64>| match bps.filter(|&bps| bps > 0) {
            Some(bps) => format!("{:.1}", bps as f64 / 1e6),
            None => "–".to_owned(),
        };
        let ms = |us: u64| us as f64 / 1e3;
        write!(
            f,
            "{:<6} {:>7} {:>7} {:>8} {:>9.1} {:>7.1} {:>7.1}  {}: {}",
            self.phase.name(),
            mbps(self.rate_bps),
            mbps(Some(self.capacity_bps)),
            mbps(Some(self.delivered_bps)),
            ms(self.queue_us),
            ms(self.target_us),
            self.loss * 100.0,
            self.why.name(),
            self.why.text()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{Answer, MAX_LINE_BYTES, Reply};

    #[test]
    fn names_are_those_of_json() {
        for why in Why::ALL {
            assert_eq!(serde_json::to_value(why).unwrap(), why.name());
        }
        for phase in [
            RatePhase::Open,
            RatePhase::Cruise,
            RatePhase::Probe,
            RatePhase::Hold,
            RatePhase::Drain,
        ] {
            assert_eq!(serde_json::to_value(phase).unwrap(), phase.name());
        }
    }

    #[test]
    fn all_that_is_kept_fits_in_a_reply() {
        let longest = Decision {
            at_us: u64::MAX,
            phase: RatePhase::Cruise,
            why: Why::NotCarried,
            rate_bps: Some(u64::MAX),
            capacity_bps: u64::MAX,
            delivered_bps: u64::MAX,
            queue_us: u64::MAX,
            target_us: u64::MAX,
            loss: 0.123_456_789_012_345_67,
        };
        let trace = Trace {
            path: "p".repeat(64),
            first: u64::MAX,
            decisions: vec![longest; MOST_DECISIONS],
        };
        let line = serde_json::to_vec(&Reply::Ok(Answer::Trace(trace))).unwrap();
        assert!(line.len() < MAX_LINE_BYTES, "{} bytes", line.len());
    }
}

//! What the rate of a path is doing: one of a few phases, and which may follow which.
//!
//! ```text
//!            a queue, a train, or loss tells the capacity
//!   Open ─────────────────────────────────────────────► Cruise ◄──► Probe
//!    ▲                                                    │  ▲        │
//!    │ others fill the queue, or it is very fast          ▼  │        ▼
//!    └──────────────────── from any ◄──────────────── Drain  └───── Hold (more is lost than usual)
//! ```

use crate::control::PathPhase;
use crate::control::trace::RatePhase;
use crate::send::units::{Rate, Span};
use crate::time::Time;

/// What the rate of a path is doing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Phase {
    /// The path takes what there is.
    Open,
    /// Paced at its capacity, and not tried at more before this time.
    Cruise { until: Time },
    /// Paced at so much more than its capacity, which was `from`, since then. A queue that is no longer than `borne` may be
    /// jitter.
    Probe {
        since: Time,
        from: Rate,
        step: f64,
        borne: Span,
    },
    /// Paced lower, to see whether it loses less; once again, below what arrived.
    Hold { until: Time, is_again: bool },
    /// Let run dry, to see its least delay.
    Drain { until: Time },
}

impl Phase {
    /// Whether `next` may follow.
    pub(super) fn may_become(self, next: Phase) -> bool {
        match (self, next) {
            (Phase::Open, Phase::Probe { .. } | Phase::Drain { .. })
            | (Phase::Hold { .. }, Phase::Probe { .. } | Phase::Drain { .. })
            | (Phase::Drain { .. }, Phase::Probe { .. } | Phase::Drain { .. }) => false,
            (
                Phase::Open
                | Phase::Cruise { .. }
                | Phase::Probe { .. }
                | Phase::Hold { .. }
                | Phase::Drain { .. },
                _,
            ) => true,
        }
    }

    /// As a trace shows it.
    pub(super) fn named(self) -> RatePhase {
        match self {
            Phase::Open => RatePhase::Open,
            Phase::Cruise { .. } => RatePhase::Cruise,
            Phase::Probe { .. } => RatePhase::Probe,
            Phase::Hold { .. } => RatePhase::Hold,
            Phase::Drain { .. } => RatePhase::Drain,
        }
    }

    /// As status shows it, of a path that competes with others while it is open, or does not.
    pub(super) fn shown(self, competes: bool) -> PathPhase {
        match self {
            Phase::Open if competes => PathPhase::Competing,
            Phase::Open => PathPhase::Open,
            Phase::Cruise { .. } | Phase::Probe { .. } | Phase::Hold { .. } => PathPhase::Limited,
            Phase::Drain { .. } => PathPhase::Draining,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_is_held_or_drained_cruises_before_more_is_tried() {
        let until = Time::ZERO;
        let cruise = Phase::Cruise { until };
        let probe = Phase::Probe {
            since: until,
            from: Rate::new(1.0),
            step: 0.1,
            borne: Span::ZERO,
        };
        let is_again = true;
        for from in [Phase::Hold { until, is_again }, Phase::Drain { until }] {
            assert!(from.may_become(cruise) && from.may_become(Phase::Open));
            assert!(!from.may_become(probe));
        }
        assert!(cruise.may_become(probe) && !Phase::Open.may_become(probe));
    }
}

//! The decisions that were made about a path, the newest of them: a ring that is read by `mpt-ctl trace`.

use std::collections::VecDeque;

use crate::control::trace::{Decision, MOST_DECISIONS, Trace, Why};

/// A rate that differs from the one before by less than this share is the same.
const SAME: f64 = 0.01;

/// A ring of decisions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Decisions {
    kept: VecDeque<Decision>,
    /// How many were made before those.
    before: u64,
}

impl Decisions {
    /// Keeps a decision, unless it says nothing new.
    pub(crate) fn note(&mut self, decision: Decision) {
        if self
            .kept
            .back()
            .is_some_and(|last| repeats(last, &decision))
        {
            return;
        }
        if self.kept.len() >= MOST_DECISIONS {
            self.kept.pop_front();
            self.before += 1;
        }
        self.kept.push_back(decision);
    }

    /// Fills in those from number `from` on that are kept.
    pub(crate) fn report(&self, from: u64, trace: &mut Trace) {
        let passed = from.saturating_sub(self.before).min(self.kept.len() as u64);
        trace.first = self.before + passed;
        trace.decisions = self.kept.iter().skip(passed as usize).copied().collect();
    }
}

/// Whether `next` leaves all as `last` has put it.
fn repeats(last: &Decision, next: &Decision) -> bool {
    let is_same_rate = match (last.rate_bps, next.rate_bps) {
        (Some(last), Some(next)) => last.abs_diff(next) as f64 <= SAME * last as f64,
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    };
    let says_nothing = next.why == last.why || next.why == Why::Capacity;
    is_same_rate && says_nothing && last.phase == next.phase
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::trace::RatePhase;

    fn decision(at_us: u64, rate_bps: u64, why: Why) -> Decision {
        Decision {
            at_us,
            phase: RatePhase::Cruise,
            why,
            rate_bps: Some(rate_bps),
            capacity_bps: 0,
            delivered_bps: 0,
            queue_us: 0,
            target_us: 0,
            loss: 0.0,
        }
    }

    fn times(decisions: &Decisions, from: u64) -> (u64, Vec<u64>) {
        let mut trace = Trace::default();
        decisions.report(from, &mut trace);
        let times = trace.decisions.iter().map(|decision| decision.at_us);
        (trace.first, times.collect())
    }

    #[test]
    fn what_says_nothing_new_is_not_kept() {
        let mut decisions = Decisions::default();
        for (at_us, rate, why) in [
            (0, 1000, Why::Queue),
            (1, 1005, Why::Queue),
            (2, 1005, Why::Capacity),
            (3, 1100, Why::Capacity),
            (4, 1100, Why::Jitter),
        ] {
            decisions.note(decision(at_us, rate, why));
        }
        assert_eq!(times(&decisions, 0), (0, vec![0, 3, 4]));
    }

    #[test]
    fn the_newest_are_kept_in_memory_that_does_not_grow_and_are_told_once() {
        let mut decisions = Decisions::default();
        let made = MOST_DECISIONS as u64 + 88;
        for at_us in 0..made {
            decisions.note(decision(at_us, 1 << (at_us % 2), Why::Queue));
            assert!(decisions.kept.capacity() <= MOST_DECISIONS.next_power_of_two());
        }
        let (first, kept) = times(&decisions, 0);
        assert_eq!((first, kept.len()), (88, MOST_DECISIONS));
        assert_eq!((kept[0], kept[MOST_DECISIONS - 1]), (88, made - 1));
        assert_eq!(times(&decisions, made - 1), (made - 1, vec![made - 1]));
        assert_eq!(times(&decisions, made), (made, vec![]));
        // Whoever asked a daemon that ran before knows too much.
        assert_eq!(times(&decisions, made + 5), (made, vec![]));
    }
}

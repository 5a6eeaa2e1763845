//! What the window tells: of what is missing, of what it holds, of what has happened.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::{Reorder, ReorderConfig, ReorderCounters};
use crate::path::{PathId, PathSet};
use crate::seq::Seq;

impl<T: Copy + Default> Reorder<T> {
    /// The settings in force.
    #[must_use]
    pub fn config(&self) -> ReorderConfig {
        self.config
    }

    /// The paths that may still deliver what is missing.
    #[must_use]
    pub fn waited_for(&self) -> PathSet {
        self.inference.waited_for()
    }

    /// Whether the number that is to be delivered next is lost, and stands open for what is sent again.
    #[must_use]
    pub fn awaits_lost(&self) -> bool {
        self.high.is_after(self.next) && self.inference.is_lost(self.next)
    }

    /// The number that is to be delivered next.
    #[must_use]
    pub fn next_expected(&self) -> Seq {
        self.next
    }

    /// One past the highest number that arrived on a path that is known, or was given up. What is missing up to there is worth
    /// telling: what lies beyond may be under way.
    #[must_use]
    pub fn told_to(&self) -> Seq {
        if self.placed.is_after(self.high) {
            self.high
        } else {
            self.placed.later(self.next)
        }
    }

    /// Calls `each` with every run of missing numbers up to [`Reorder::told_to`], its first and their count, oldest first,
    /// until it returns `false`.
    pub fn for_each_missing(&self, mut each: impl FnMut(Seq, u32) -> bool) {
        let mut from = self.first_known.later(self.next);
        let to = self.told_to();
        while to.is_after(from) {
            let left = to.distance_from(from).unsigned_abs();
            let missing = self.slots.missing_from(from, left);
            if missing > 0 && !each(from, missing) {
                return;
            }
            let from_held = from.plus(missing);
            from = from_held.plus(self.slots.held_from(from_held, left - missing));
        }
    }

    /// How many numbers from `from` up to `to`, which may lie beyond the highest, are missing.
    pub(super) fn missing_between(&self, from: Seq, to: Seq) -> u32 {
        let beyond = to.distance_from(self.high.later(from)).max(0);
        let to = to.plus(beyond.unsigned_abs().wrapping_neg());
        let (mut from, mut missing) = (from, beyond.unsigned_abs());
        while to.is_after(from) {
            let left = to.distance_from(from).unsigned_abs();
            let here = self.slots.missing_from(from, left);
            missing += here;
            let held = self.slots.held_from(from.plus(here), left - here);
            from = from.plus(here + held);
        }
        missing
    }

    /// Numbers that every path had passed, in all: those that were given up for it, those that were
    /// recovered, and those that may yet be.
    #[must_use]
    #[inline]
    pub fn found_lost(&self) -> u64 {
        self.account.found_lost
    }

    /// How long a path's packets may overtake each other, as far as is known.
    #[must_use]
    pub fn displacement(&self, path: PathId) -> Duration {
        self.inference.window(path)
    }

    /// Numbers held now.
    #[must_use]
    pub fn held(&self) -> u32 {
        self.slots.held()
    }

    /// Of these, the ones whose packets have left ([`Reorder::leave`]).
    #[must_use]
    pub fn left(&self) -> u32 {
        self.slots.left()
    }

    /// Missing numbers being waited for now.
    #[must_use]
    pub fn gaps_open(&self) -> u32 {
        let unknown = self.missing_between(self.next, self.first_known);
        self.high.distance_from(self.next).unsigned_abs() - self.held() - unknown
    }

    /// What has happened since the start.
    #[must_use]
    pub fn counters(&self) -> &ReorderCounters {
        &self.account.counters
    }

    /// How long it took from the inference of a loss until the packet came again, in microseconds; `None` when
    /// none did.
    #[must_use]
    pub fn recovery_us(&self) -> Option<&Histogram<u64>> {
        self.account.recovery_us.as_deref()
    }

    /// How long held packets were held, in microseconds; `None` when none was.
    #[must_use]
    pub fn hold_us(&self) -> Option<&Histogram<u64>> {
        self.account.hold_us.as_deref()
    }
}

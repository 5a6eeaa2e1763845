//! Token buckets: one that traffic fills, where bytes may be sent as a share of others that pass, and one that time fills.

use std::time::Duration;

use crate::time::Time;

/// What may be spent. Counted in parts of a byte, so that the share is exact in integers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShareBucket {
    /// Parts that a byte costs.
    cost: u64,
    /// Parts that are saved up, and the most.
    saved: u64,
    most: u64,
}

impl ShareBucket {
    /// A full one, of which `burst` bytes may be spent at once, at so many parts each.
    pub(crate) const fn full(cost: u64, burst: u64) -> ShareBucket {
        ShareBucket {
            cost,
            saved: burst * cost,
            most: burst * cost,
        }
    }

    /// So many bytes passed, each of which earns so many parts.
    #[inline]
    pub(crate) fn earn(&mut self, bytes: u64, each: u64) {
        let earned = self.saved.saturating_add(bytes.saturating_mul(each));
        self.saved = earned.min(self.most);
    }

    /// Whether so many bytes may be spent.
    pub(crate) fn affords(&self, bytes: u64) -> bool {
        self.saved >= bytes * self.cost
    }

    /// Spends so many, for which [`ShareBucket::affords`] said yes.
    pub(crate) fn spend(&mut self, bytes: u64) {
        debug_assert!(self.affords(bytes), "who spends asks first");
        self.saved -= bytes * self.cost;
    }
}

/// Things that are had one at a time: each is earned in `EACH_US` microseconds, and `MOST` of them may be saved up.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Allowance<const EACH_US: u64, const MOST: u32> {
    /// When all are saved up again.
    full_at: Time,
}

impl<const EACH_US: u64, const MOST: u32> Allowance<EACH_US, MOST> {
    const EACH: Duration = Duration::from_micros(EACH_US);

    /// Whether none is left.
    pub(crate) fn is_spent(&self, now: Time) -> bool {
        self.full_at.since(now) >= Self::EACH * MOST
    }

    /// Spends one.
    pub(crate) fn spend(&mut self, now: Time) {
        self.full_at = self.full_at.max(now) + Self::EACH;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spent_is_the_burst_and_then_the_share() {
        let mut bucket = ShareBucket::full(8, 1000);
        let mut spent = 0;
        for _ in 0..1000 {
            while bucket.affords(10) {
                bucket.spend(10);
                spent += 10;
            }
            bucket.earn(100, 1);
        }
        assert_eq!(spent, 1000 + 999 * 100 / 8 / 10 * 10);
        bucket.earn(u64::MAX, 3);
        assert!(bucket.affords(1000) && !bucket.affords(1001));
    }

    #[test]
    fn what_is_had_is_what_was_saved_up_and_then_one_in_each_span() {
        let mut allowance = Allowance::<200, 1024>::default();
        let mut had = 0;
        for us in 0..1_000_000 {
            // It has begun long after the origin.
            let now = Time::from_nanos((3_000_000 + us) * 1000);
            while !allowance.is_spent(now) {
                allowance.spend(now);
                had += 1;
            }
        }
        assert_eq!(had, 1024 + 5000);
    }
}

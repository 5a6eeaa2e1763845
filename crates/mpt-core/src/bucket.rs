//! A token bucket that traffic fills: bytes may be sent as a share of others that pass.

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
}

//! What reports may cost: a hundredth of what the tunnel carries.
//!
//! For a byte that arrives 0.8 hundredths of a byte of reports are earned, for one that is sent, 0.2. The latter
//! is for the acknowledgements of a large flow, which are few bytes and yet must not be lost. What is saved up
//! suffices for a burst; the last quarter is kept for news of losses.

use crate::bucket::ShareBucket;

/// A thousand of this is a byte of reports; a byte that arrives earns eight, and one that is sent two.
const COST: u64 = 1000;
const ARRIVED_EARNS: u64 = 8;
const SENT_EARNS: u64 = 2;
/// Bytes of reports that may be saved up: a hundred reports on two paths with a few gaps.
const BURST_BYTES: u64 = 100 * 140;

/// Why a report is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Occasion {
    /// Every path has passed a missing number.
    Loss,
    /// Nothing comes any more.
    Pause,
    /// Data come.
    Routine,
}

impl Occasion {
    /// Bytes of reports that are kept for better occasions.
    fn reserve(self) -> u64 {
        match self {
            Occasion::Loss => 0,
            Occasion::Pause => BURST_BYTES / 4,
            Occasion::Routine => BURST_BYTES / 2,
        }
    }
}

/// How many bytes of reports may be sent.
#[derive(Debug)]
pub(super) struct Budget {
    bucket: ShareBucket,
    /// Bytes sent that have earned.
    sent: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Budget {
            bucket: ShareBucket::full(COST, BURST_BYTES),
            sent: 0,
        }
    }
}

impl Budget {
    /// So many bytes arrived.
    pub(super) fn earn(&mut self, bytes: u64) {
        self.bucket.earn(bytes, ARRIVED_EARNS);
    }

    /// So many bytes were sent until now, in all.
    pub(super) fn earn_sent(&mut self, sent: u64) {
        let bytes = sent.saturating_sub(self.sent);
        self.sent = sent;
        self.bucket.earn(bytes, SENT_EARNS);
    }

    /// Whether it can pay for a report without what is kept for better occasions.
    pub(super) fn affords(&self, bytes: usize, occasion: Occasion) -> bool {
        self.bucket.affords(bytes as u64 + occasion.reserve())
    }

    /// Pays for a report, if it can.
    pub(super) fn pay(&mut self, bytes: usize, occasion: Occasion) -> bool {
        let affordable = self.affords(bytes, occasion);
        if affordable {
            self.bucket.spend(bytes as u64);
        }
        affordable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_saved_up_and_a_part_of_it_kept_for_losses() {
        let mut budget = Budget::default();
        let mut sent = 0;
        for (occasion, so_far) in [
            (Occasion::Routine, 50),
            (Occasion::Pause, 75),
            (Occasion::Loss, 100),
        ] {
            while budget.pay(140, occasion) {
                sent += 1;
            }
            assert_eq!(sent, so_far);
        }
        budget.earn(17_500);
        assert!(budget.pay(140, Occasion::Loss) && !budget.pay(140, Occasion::Loss));
    }
}

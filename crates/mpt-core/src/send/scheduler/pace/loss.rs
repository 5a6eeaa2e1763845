//! What a path loses: by its nature, of late, and beyond that.

use super::epoch::Findings;

/// Loss is judged over at least so many packets.
const LOSS_PACKETS: u64 = 60;
/// And over so many times the packets that may have been overtaken.
const OVERTAKEN_TIMES: f64 = 16.0;
/// Weight of a judgement in the mean loss, and the packets that make a mean.
const LOSS_WEIGHT: f64 = 1.0 / 16.0;
const LOSS_KNOWN: u64 = 600;
/// More loss than usual, by this share and twice its standard error, is the rate's fault.
const LOSS_EXCESS: f64 = 0.02;
/// … when it is seen so often in a row: a burst of losses is not.
const LOSS_EXCESSES: u32 = 2;

/// What is usual, and what was seen since it was last judged.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Loss {
    pub(super) usual: f64,
    sent: u64,
    lost: i64,
    /// How often in a row it was excessive.
    excesses: u32,
    /// The mean of late, whosever fault, over how many packets.
    mean: f64,
    judged: u64,
}

/// The share that was lost, and whether that is surely more than usual.
#[derive(Debug, Clone, Copy)]
pub(super) struct Judged {
    share: f64,
    pub(super) is_excessive: bool,
}

impl Loss {
    /// Counts what an epoch found, of which so many packets may only have been overtaken. Judges once
    /// that is enough.
    pub(super) fn judge(&mut self, found: &Findings, overtaken: f64) -> Option<Judged> {
        self.sent += found.sent_packets;
        self.lost += found.lost_packets;
        let sent = self.sent as f64;
        if self.sent < LOSS_PACKETS || sent < OVERTAKEN_TIMES * overtaken {
            return None;
        }
        let lost = self.lost as f64;
        let share = lost / sent;
        self.mean += (share - self.mean) * LOSS_WEIGHT;
        self.judged += self.sent;
        self.start_again();
        let surely = ((lost - overtaken) / sent).clamp(0.0, 1.0);
        let error = (surely * (1.0 - surely) / sent).sqrt();
        let is_excessive = surely > self.usual + LOSS_EXCESS + 2.0 * error;
        if !is_excessive {
            self.excesses = 0;
        }
        Some(Judged {
            share,
            is_excessive,
        })
    }

    /// Whether it has been excessive often enough to be the rate's fault.
    pub(super) fn is_excessive_again(&mut self) -> bool {
        self.excesses = (self.excesses + 1) % LOSS_EXCESSES;
        self.excesses == 0
    }

    /// Takes what was judged for usual, or only if it is less than usual.
    pub(super) fn accept(&mut self, judged: Judged, even_more: bool) {
        if even_more || judged.share < self.usual {
            let usual = self.usual + (judged.share - self.usual) / 4.0;
            self.usual = usual.clamp(0.0, 1.0);
        }
    }

    /// What was counted and not judged yet does not count.
    pub(super) fn start_again(&mut self) {
        (self.sent, self.lost) = (0, 0);
    }

    /// The mean of late, once that is known.
    pub(super) fn mean(&self) -> Option<f64> {
        (self.judged >= LOSS_KNOWN).then_some(self.mean.max(0.0))
    }

    pub(super) fn forget_mean(&mut self) {
        (self.mean, self.judged) = (0.0, 0);
    }
}

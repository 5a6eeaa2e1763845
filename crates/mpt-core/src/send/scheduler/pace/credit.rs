//! What a path takes now: credit at its rate, and a bound on what is under way.
//!
//! A path with a rate is paced: it earns credit, which is spent by what it takes. A path without one
//! has a window that opens by what arrived, as TCP's does in slow start.

use std::time::Duration;

use crate::time::Time;

/// A path that was idle takes so much before it has answered, in bytes; then as much again for each
/// byte that arrived, until its limit is known. That is TCP's slow start, from a little more: it
/// keeps a burst from filling a slow path, and is soon no bound at all.
const FIRST_WINDOW: f64 = 32.0 * 1500.0;
/// Nor is more under way on a limited path than it delivers in its round-trip time and this.
const SPARE_TIME: f64 = 0.1;
/// What was sent before so long a silence does not count as under way any more.
const FORGOTTEN: Duration = Duration::from_secs(1);
/// Nor does what reports tell nothing of, though they come, for so long and for two round trips.
const LOST: Duration = Duration::from_millis(250);
/// Reports make room; this is for the case that none comes.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// Bytes are handed out for so long at once, in seconds.
const BURST: f64 = 1e-3;
/// And at least so many.
const LEAST_BURST: f64 = 3000.0;

/// Bytes that a path may take.
#[derive(Debug, Clone)]
pub(super) struct Credit {
    tokens: f64,
    refilled: Time,
    /// Numbered bytes that were sent, and of them those sent before what the last sample tells of.
    sent: f64,
    answered: f64,
    /// What the newest sample that told of more tells of: bytes sent by then, and arrived.
    told: (u64, u64),
    /// When that sample came.
    heard: Time,
    /// When the last sample came that told of more than the one before.
    progress: Time,
    window: f64,
    /// It was asked for more than it had, since that was last asked.
    refused: bool,
}

impl Default for Credit {
    fn default() -> Credit {
        Credit {
            tokens: 0.0,
            refilled: Time::ZERO,
            sent: 0.0,
            answered: 0.0,
            told: (0, 0),
            heard: Time::ZERO,
            progress: Time::ZERO,
            window: FIRST_WINDOW,
            refused: false,
        }
    }
}

impl Credit {
    /// How many bytes a path takes that is paced at `rate` bytes a second; none when it has to wait.
    #[inline]
    pub(super) fn paced(&mut self, now: Time, rate: f64, rtt: Duration) -> Option<usize> {
        let since = now.since(self.refilled).as_secs_f64();
        // A report is handled as of when it came, which may be before the last packet: what was
        // credited once is not credited again.
        self.refilled = self.refilled.max(now);
        self.tokens = (self.tokens + since * rate).min(burst(rate));
        if self.tokens <= 0.0 {
            self.refused = true;
            return None;
        }
        let most = FIRST_WINDOW + rate * (rtt.as_secs_f64() + SPARE_TIME);
        let room = self.within(now, most)?;
        Some(room.min(self.tokens as usize + 1))
    }

    /// The same of a path that has no rate.
    #[inline]
    pub(super) fn open(&mut self, now: Time) -> Option<usize> {
        let window = self.window;
        self.within(now, window)
    }

    /// How many bytes more may be under way, of `window`.
    fn within(&mut self, now: Time, window: f64) -> Option<usize> {
        if now.since(self.heard) > FORGOTTEN {
            self.answered = self.sent;
            self.window = FIRST_WINDOW;
            self.heard = now;
        }
        let room = window - (self.sent - self.answered);
        self.refused |= room <= 0.0;
        (room > 0.0).then_some(room as usize + 1)
    }

    /// So many bytes are under way, of which the path will tell.
    #[inline]
    pub(super) fn sent(&mut self, bytes: usize) {
        self.sent += bytes as f64;
    }

    /// So many bytes were spent of what a rate earned.
    #[inline]
    pub(super) fn spent(&mut self, bytes: usize) {
        self.tokens -= bytes as f64;
    }

    /// Of what was sent, so much had been sent before what the newest sample tells of; so much has arrived in
    /// all. What arrives while that stays the same was sent later under lower numbers: again, for another path.
    pub(super) fn answered(
        &mut self,
        now: Time,
        sent_bytes: u64,
        arrived_bytes: u64,
        rtt: Duration,
    ) {
        self.heard = now;
        if self.told.0 != sent_bytes {
            self.told = (sent_bytes, arrived_bytes);
        }
        let below = arrived_bytes.saturating_sub(self.told.1);
        let answered = (sent_bytes.saturating_add(below) as f64).min(self.sent);
        if answered > self.answered {
            self.window += answered - self.answered;
            self.answered = answered;
            self.progress = now;
        } else if now.since(self.progress) > LOST.max(rtt * 2) {
            // The last of what was sent did not arrive, and nothing behind it tells so.
            self.answered = self.sent;
            self.progress = now;
        }
    }

    /// So many bytes have arrived in all, and nothing else is known.
    pub(super) fn arrived(&mut self, now: Time, arrived_bytes: u64, rtt: Duration) {
        self.answered(now, self.told.0, arrived_bytes, rtt);
    }

    /// When the last sample came.
    pub(super) fn heard(&self) -> Time {
        self.heard
    }

    /// Nothing was earned so far.
    pub(super) fn begin(&mut self, now: Time) {
        self.refilled = now;
        self.tokens = 0.0;
    }

    /// Whether it was asked for more than it had, since this was last asked.
    pub(super) fn take_refused(&mut self) -> bool {
        std::mem::take(&mut self.refused)
    }

    /// When there will be room for a few packets.
    pub(super) fn ready_at(&self, now: Time, rate: Option<f64>) -> Time {
        let Some(rate) = rate.filter(|_| self.tokens <= 0.0) else {
            return now + LOOK_AGAIN;
        };
        let wanted = burst(rate) / 2.0 - self.tokens;
        let since = wanted.max(0.0) / rate;
        (self.refilled + Duration::from_secs_f64(since.min(1.0))).max(now)
    }

    /// All that was sent has been answered.
    #[cfg(test)]
    pub(super) fn answer_all(&mut self) {
        self.answered = self.sent;
    }
}

fn burst(rate: f64) -> f64 {
    (rate * BURST).max(LEAST_BURST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_arrives_below_the_newest_number_makes_room() {
        let now = Time::from_nanos(1_000_000_000);
        let mut credit = Credit {
            heard: now,
            ..Credit::default()
        };
        let window = FIRST_WINDOW as usize;
        credit.sent(window + 3000);
        assert_eq!(credit.open(now), None);
        credit.answered(now, 1500, 1500, Duration::ZERO);
        // It opened by what was answered.
        assert_eq!(credit.open(now), None);
        credit.answered(now, 1500, 1500, Duration::ZERO);
        assert_eq!(credit.open(now), None);
        credit.answered(now, 1500, 4500, Duration::ZERO);
        assert_eq!(credit.open(now), Some(6001));
        // What was sent later under a higher number has arrived as well: nothing counts twice.
        credit.answered(now, 4500, 4500, Duration::ZERO);
        assert_eq!(credit.open(now), Some(6001));
    }
}

//! What a path takes now: credit at its rate, and a bound on what is under way.
//!
//! A path with a rate is paced: it earns credit, which is spent by what it takes. A path without one
//! has a window that opens by what arrived, as TCP's does in slow start.

use std::time::Duration;

use crate::send::scheduler::law::Law;
use crate::send::units::Rate;
use crate::time::Time;

/// Credit is looked at again after this time, however slowly it is earned.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Bytes that a path may take.
#[derive(Debug, Clone)]
pub(super) struct Credit {
    law: &'static Law,
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
    round: Round,
    /// It was asked for more than it had, since that was last asked.
    refused: bool,
}

/// What a round trip brings.
#[derive(Debug, Clone, Copy, Default)]
struct Round {
    /// When the present one began, and the bytes that had been answered by then.
    began: Option<(Time, f64)>,
    /// Most bytes that one brought.
    most: f64,
}

impl Credit {
    pub(super) fn new(law: &'static Law) -> Credit {
        Credit {
            law,
            tokens: 0.0,
            refilled: Time::ZERO,
            sent: 0.0,
            answered: 0.0,
            told: (0, 0),
            heard: Time::ZERO,
            progress: Time::ZERO,
            window: law.first_window,
            round: Round::default(),
            refused: false,
        }
    }

    /// How many bytes a path takes that is paced at `rate`; none when it has to wait.
    #[inline]
    pub(super) fn paced(&mut self, now: Time, rate: Rate, rtt: Duration) -> Option<usize> {
        self.refill(now, rate);
        if self.tokens <= 0.0 {
            self.refused = true;
            return None;
        }
        let most = self.law.first_window + rate.bytes_in(rtt + self.law.spare_time);
        let room = self.within(now, most)?;
        Some(room.min(self.tokens as usize + 1))
    }

    /// The same of a path that has no rate, of which `most` bytes beyond the first window may be under way.
    #[inline]
    pub(super) fn open(&mut self, now: Time, most: f64) -> Option<usize> {
        let window = self.window.min(self.law.first_window + most);
        self.within(now, window)
    }

    /// The same of one whose queue others fill: what it delivers in a round trip at `rate`, and a
    /// first window more each time. All that waits, put there at once, would make a queue that is ours.
    #[inline]
    pub(super) fn competing(&mut self, now: Time, rate: Rate, rtt: Duration) -> Option<usize> {
        self.within(now, self.law.first_window + rate.bytes_in(rtt))
    }

    /// How many bytes more may be under way, of `window`.
    fn within(&mut self, now: Time, window: f64) -> Option<usize> {
        if now.since(self.heard) > self.law.outdated {
            self.answered = self.sent;
            self.window = self.law.first_window;
            self.heard = now;
        }
        let room = window - (self.sent - self.answered);
        self.refused |= room <= 0.0;
        (room > 0.0).then_some(room as usize + 1)
    }

    /// Adds what `rate` has earned since this was done last, up to a burst.
    #[inline]
    fn refill(&mut self, now: Time, rate: Rate) {
        let since = now.since(self.refilled);
        // A report is handled as of when it came, which may be before the last packet: what was
        // credited once is not credited again.
        self.refilled = self.refilled.max(now);
        // Copies and what is sent again do not wait for credit. No debt lasts longer than that.
        let debt = rate.bytes_in(LONGEST_WAIT);
        self.tokens = (self.tokens + rate.bytes_in(since)).clamp(-debt, self.burst(rate));
    }

    /// So many bytes are under way, of which the path will tell.
    #[inline]
    pub(super) fn sent(&mut self, bytes: usize) {
        self.sent += bytes as f64;
    }

    /// So many bytes were spent of what `rate` earned. What does not wait for credit does not spend what was earned in a
    /// pause before, beyond a burst.
    #[inline]
    pub(super) fn spent(&mut self, now: Time, rate: Rate, bytes: usize) {
        self.refill(now, rate);
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
        } else if now.since(self.progress) > self.law.lost_after.max(rtt * 2) {
            // The last of what was sent did not arrive, and nothing behind it tells so.
            self.answered = self.sent;
            self.progress = now;
        }
    }

    /// A sample has told: counts what a round trip brings.
    pub(super) fn note_round(&mut self, now: Time, round_trip: Duration) {
        match self.round.began {
            _ if self.progress != now => return,
            Some((began, _)) if now.since(began) < round_trip => return,
            Some((_, before)) => self.round.most = self.round.most.max(self.answered - before),
            None => {}
        }
        self.round.began = Some((now, self.answered));
    }

    /// Most bytes that a round trip brought.
    pub(super) fn most_in_a_round(&self) -> f64 {
        self.round.most
    }

    /// So many bytes have arrived in all, and nothing else is known.
    pub(super) fn arrived(&mut self, now: Time, arrived_bytes: u64, rtt: Duration) {
        self.answered(now, self.told.0, arrived_bytes, rtt);
    }

    /// Numbered bytes that are under way, as far as samples tell.
    pub(super) fn under_way(&self) -> f64 {
        self.sent - self.answered
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
    pub(super) fn ready_at(&self, now: Time, rate: Option<Rate>) -> Time {
        let Some(rate) = rate.filter(|_| self.tokens <= 0.0) else {
            return now + self.law.target * 4;
        };
        let wanted = self.burst(rate) / 2.0 - self.tokens;
        let since = rate.time_for(wanted.max(0.0)).unwrap_or(Duration::MAX);
        (self.refilled + since.min(LONGEST_WAIT)).max(now)
    }

    /// Bytes that are handed out at once.
    pub(super) fn burst(&self, rate: Rate) -> f64 {
        rate.bytes_in(self.law.burst).max(self.law.least_burst)
    }

    /// All that was sent has been answered.
    #[cfg(test)]
    pub(super) fn answer_all(&mut self) {
        self.answered = self.sent;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_competes_takes_a_little_more_than_it_delivers_in_a_round_trip() {
        let now = Time::from_nanos(1_000_000_000);
        let mut credit = Credit {
            heard: now,
            ..Credit::new(&Law::LAW)
        };
        let (rate, rtt) = (Rate::new(1e6), Duration::from_millis(200));
        credit.sent(Law::LAW.first_window as usize + 192_000);
        assert_eq!(credit.competing(now, rate, rtt), Some(8_001));
        credit.sent(8_000);
        assert_eq!(credit.competing(now, rate, rtt), None);
        credit.answered(now, 200_000, 200_000, rtt);
        assert_eq!(credit.competing(now, rate, rtt), Some(200_001));
    }

    #[test]
    fn what_does_not_wait_for_credit_leaves_no_debt_of_more_than_a_second() {
        let mut credit = Credit::new(&Law::LAW);
        let (rate, rtt) = (Rate::new(125e3), Duration::from_millis(40));
        let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
        credit.begin(at(0));
        // Three times what the path carries, for an hour.
        for second in 0..3600 {
            credit.spent(at(1000 * second), rate, 375_000);
            credit.paced(at(1000 * second), rate, rtt);
        }
        let began = 1000 * 3599;
        let waited = (0..3000).find(|ms| credit.paced(at(began + ms), rate, rtt).is_some());
        assert_eq!(waited, Some(1001));
    }

    #[test]
    fn what_does_not_wait_for_credit_spends_nothing_that_was_earned_in_a_pause() {
        let mut credit = Credit::new(&Law::LAW);
        let (rate, rtt) = (Rate::new(125e3), Duration::from_millis(40));
        let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
        credit.begin(at(0));
        // After a second in which nothing was sent: 400 ms of what the path carries, less a burst of 24 ms.
        credit.spent(at(1000), rate, 50_000);
        let waited = (0..3000).find(|ms| credit.paced(at(1000 + ms), rate, rtt).is_some());
        assert_eq!(waited, Some(377));
    }

    #[test]
    fn what_arrives_below_the_newest_number_makes_room() {
        let now = Time::from_nanos(1_000_000_000);
        let mut credit = Credit {
            heard: now,
            ..Credit::new(&Law::LAW)
        };
        let window = Law::LAW.first_window as usize;
        credit.sent(window + 3000);
        assert_eq!(credit.open(now, 1e9), None);
        credit.answered(now, 1500, 1500, Duration::ZERO);
        // It opened by what was answered.
        assert_eq!(credit.open(now, 1e9), None);
        credit.answered(now, 1500, 1500, Duration::ZERO);
        assert_eq!(credit.open(now, 1e9), None);
        credit.answered(now, 1500, 4500, Duration::ZERO);
        assert_eq!(credit.open(now, 1e9), Some(6001));
        // What was sent later under a higher number has arrived as well: nothing counts twice.
        credit.answered(now, 4500, 4500, Duration::ZERO);
        assert_eq!(credit.open(now, 1e9), Some(6001));
    }
}

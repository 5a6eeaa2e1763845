//! How much a path takes now: by its rate, or while it has none by what is under way.

use std::time::Duration;

use super::Pace;
use crate::send::silence::REPORT_INTERVAL;
use crate::send::units::{Rate, Span};
use crate::time::Time;

/// What arrives just after a report waits for the next one, and what that lets go is told of by the one after: on a path
/// of a short round trip these two take nearly all of the time.
const TOLD_WITHIN: Duration = REPORT_INTERVAL.saturating_mul(2);

impl Pace {
    /// How many bytes it takes now; none when it has to wait.
    #[inline]
    pub(crate) fn room(&mut self, now: Time) -> Option<usize> {
        match self.rate() {
            Some(rate) => self.credit.paced(now, rate, self.rtt),
            None if self.company.is_competing(now) => {
                let rate = self.delivered.max(self.company.regains(now));
                self.credit
                    .competing(now, rate, self.round_trip() + TOLD_WITHIN)
            }
            None => {
                let most = self.startup_most();
                self.credit.open(now, most)
            }
        }
    }

    /// A round trip with the queue that stands now: the last probe may have come before it.
    pub(super) fn round_trip(&self) -> Duration {
        let now = Span::from(self.rtt) - self.probe_waited + self.queue;
        now.max(self.rtt.into()).to_duration()
    }

    /// Bytes that may be under way while it is open, beyond the first window.
    fn startup_most(&self) -> f64 {
        if self.best == Rate::ZERO {
            // No epoch has told yet.
            return f64::MAX;
        }
        let mut most = self.best.bytes_within(self.empty_round_trip());
        if !self.was_limited() && self.queue <= self.doubt.target() {
            // A flow in its slow start sends a burst in each round trip and pauses: the mean of an epoch is less than a half
            // of it.
            most = most.max(self.credit.most_in_a_round());
        }
        most * self.law.startup_gain
    }

    /// How long a round trip takes without a queue, as far as reports tell.
    pub(super) fn empty_round_trip(&self) -> Span {
        let rtt = Span::from(self.rtt);
        // A packet may be this late without a queue.
        let late = self.doubt.jitter() * 2.0;
        let queue = (self.queue - late).max(Span::ZERO);
        let rtt = (rtt - queue).max(rtt / 4.0) + late;
        rtt.max(TOLD_WITHIN.into())
    }

    /// It took so many bytes with a number.
    #[inline]
    pub(crate) fn took(&mut self, now: Time, bytes: usize) {
        self.credit.sent(bytes);
        self.took_unnumbered(now, bytes);
    }

    /// It took so many bytes without a number.
    #[inline]
    pub(crate) fn took_unnumbered(&mut self, now: Time, bytes: usize) {
        if let Some(rate) = self.rate {
            self.credit.spent(now, rate, bytes);
        }
    }

    /// When it will have room for a few packets.
    pub(crate) fn ready_at(&self, now: Time) -> Time {
        self.credit.ready_at(now, self.rate())
    }

    /// So many bytes have arrived, of numbers of which it is not known when they were sent there.
    pub(crate) fn arrived(&mut self, now: Time, arrived_bytes: u64) {
        self.credit.arrived(now, arrived_bytes, self.rtt);
    }
}

#[cfg(test)]
impl Pace {
    /// Paces it at so many bytes a second, for tests of what the sender makes of that.
    pub(in super::super) fn set_paced(&mut self, now: Time, bytes_a_second: f64) {
        self.capacity = Rate::new(bytes_a_second);
        self.rate = Some(self.capacity);
        self.credit.begin(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::Answered;

    #[test]
    fn an_open_path_of_a_short_round_trip_grows_though_reports_are_further_apart() {
        let mut pace = Pace {
            rtt: Duration::from_micros(400),
            ..Pace::default()
        };
        // As much as is under way arrives until the next report tells of it.
        for _ in 0..10 {
            let most = pace.law.first_window + pace.startup_most();
            let told_after = pace.rtt + REPORT_INTERVAL;
            let best = Rate::new(most.min(1e7) / told_after.as_secs_f64());
            assert!(best > pace.best || best > pace.law.fast, "{best:?}");
            pace.best = best;
        }
        assert!(pace.best > pace.law.fast);
    }

    #[test]
    fn what_waits_now_counts_for_the_round_trip_though_the_last_probe_came_before() {
        let rtt = Duration::from_millis(80);
        for (probe_waited, queue, round_trip) in
            [(0, 0, 80), (0, 100, 180), (30, 100, 150), (30, 10, 80)]
        {
            let pace = Pace {
                rtt,
                probe_waited: Span::nanos(probe_waited as f64 * 1e6),
                queue: Span::nanos(queue as f64 * 1e6),
                ..Pace::default()
            };
            assert_eq!(pace.round_trip(), Duration::from_millis(round_trip));
        }
    }

    #[test]
    fn what_a_probe_waited_is_what_it_took_longer_than_the_least_delay() {
        let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
        let mut pace = Pace::default();
        for (ms, forward_ms, waited_ms) in [(0, 20, 0), (100, 20, 0), (200, 50, 30), (300, 20, 0)] {
            let (is_idle, forward_ns) = (ms < 200, forward_ms * 1_000_000);
            pace.probed(
                at(ms),
                &Answered {
                    sent: at(ms),
                    rtt: Duration::from_millis(forward_ms as u64 + 20),
                    forward_ns,
                    idle_ns: is_idle.then_some(forward_ns),
                    jitter_ns: 0,
                    loss: 0.0,
                },
            );
            assert_eq!(
                pace.probe_waited.to_duration(),
                Duration::from_millis(waited_ms),
                "{ms}"
            );
        }
    }

    #[test]
    fn an_open_path_takes_most_of_a_burst_twice_as_large_as_that_of_the_round_trip_before() {
        let ms = |ms: u64| Time::from_nanos(ms * 1_000_000);
        let took = |queue: Span| {
            let mut pace = Pace {
                rtt: Duration::from_millis(100),
                ..Pace::default()
            };
            let mut sent = 0;
            let mut least_share = 1.0_f64;
            // Bursts of a flow in its slow start, of which one report tells.
            for trip in 1..8 {
                let (at, burst) = (ms(101 * trip), 15_000u32 << trip);
                // An epoch tells the mean of a burst and the pauses around it.
                pace.best = Rate::of(f64::from(burst) / 8.0, pace.rtt);
                pace.queue = queue;
                let packets = (0..burst / 1500).take_while(|_| {
                    let has_room = pace.room(at).is_some();
                    if has_room {
                        pace.took(at, 1500);
                    }
                    has_room
                });
                let took = packets.count() as u64 * 1500;
                least_share = least_share.min(took as f64 / f64::from(burst));
                sent += took;
                let told = ms(101 * trip + 100);
                pace.credit.answered(told, sent, sent, pace.rtt);
                pace.credit.note_round(told, pace.rtt);
            }
            least_share
        };
        assert!(took(Span::ZERO) >= 0.9);
        assert!(took(Span::nanos(20e6)) < 0.7, "its queue grows");
    }
}

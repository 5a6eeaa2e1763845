//! How much a path takes now: by its rate, or while it has none by what is under way.

use super::Pace;
use crate::send::silence::REPORT_INTERVAL;
use crate::send::units::{Rate, Span};
use crate::time::Time;

impl Pace {
    /// How many bytes it takes now; none when it has to wait.
    #[inline]
    pub(crate) fn room(&mut self, now: Time) -> Option<usize> {
        match self.rate() {
            Some(rate) => self.credit.paced(now, rate, self.rtt),
            None if self.company.is_competing(now) => {
                self.credit.competing(now, self.delivered, self.rtt)
            }
            None => {
                let most = self.startup_most();
                self.credit.open(now, most)
            }
        }
    }

    /// Bytes that may be under way while it is open, beyond the first window.
    fn startup_most(&self) -> f64 {
        if self.best == Rate::ZERO {
            // No epoch has told yet.
            return f64::MAX;
        }
        let rtt = Span::from(self.rtt);
        // A packet may be this late without a queue.
        let late = self.doubt.jitter() * 2.0;
        let queue = (self.queue - late).max(Span::ZERO);
        let rtt = (rtt - queue).max(rtt / 4.0) + late;
        // What arrives just after a report waits for the next one, and what that lets go is told of by the one after:
        // on a path of a short round trip these two take nearly all of the time.
        let rtt = rtt.max(Span::from(REPORT_INTERVAL) * 2.0);
        (self.best * self.law.startup_gain).bytes_within(rtt)
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
        self.rate = Some(Rate::new(bytes_a_second));
        self.credit.begin(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

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
}

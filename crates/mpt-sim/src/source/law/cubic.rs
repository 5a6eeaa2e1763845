//! CUBIC (RFC 9438) with HyStart as Linux has it.

use std::time::Duration;

use mpt_core::time::Time;

use super::{Acked, INITIAL_WINDOW};

/// RFC 9438 §4.1: C, segments a second cubed, and β.
const C: f64 = 0.4;
const BETA: f64 = 0.7;
/// RFC 9438 §4.3: α of the Reno-friendly region.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// Linux (tcp_cubic.c, `bictcp_update`): until a loss has told a greatest window, the window grows by this share in a round
/// trip at least.
const LEAST_GROWTH: f64 = 0.05;
/// HyStart, tcp_cubic.c: samples of a round that are looked at, least window, bounds of the rise of
/// delay, and the longest pause within a train of acknowledgements.
const SAMPLES: u32 = 8;
const LEAST_WINDOW: f64 = 16.0;
const LEAST_RISE: Duration = Duration::from_millis(4);
const GREATEST_RISE: Duration = Duration::from_millis(16);
const TRAIN_PAUSE: Duration = Duration::from_millis(2);
/// Linux: sysctl tcp_pacing_ss_ratio and tcp_pacing_ca_ratio.
const PACE_IN_SLOW_START: f64 = 2.0;
const PACE_AFTER: f64 = 1.2;

#[derive(Debug, Clone)]
pub(in crate::source) struct Cubic {
    window: f64,
    threshold: f64,
    /// The window of the last loss; zero before the first, and after a silence.
    greatest: f64,
    /// When the window began to grow, since it was last lowered, and the window at which it grows slowest.
    epoch: Option<(Time, f64)>,
    /// The window under Reno's rules.
    reno: f64,
    paced: bool,
    smoothed: Option<Duration>,
    least: Option<Duration>,
    /// HyStart: least round trip of this round and how many samples it has; since when its train of
    /// acknowledgements runs, and the last of them.
    round_least: Option<Duration>,
    samples: u32,
    train: Option<(Time, Time)>,
}

impl Cubic {
    pub(super) fn new(paced: bool) -> Cubic {
        Cubic {
            window: INITIAL_WINDOW,
            threshold: f64::INFINITY,
            greatest: 0.0,
            epoch: None,
            reno: 0.0,
            paced,
            smoothed: None,
            least: None,
            round_least: None,
            samples: 0,
            train: None,
        }
    }

    pub(super) fn window(&self) -> f64 {
        self.window
    }

    pub(super) fn pace(&self) -> Option<f64> {
        let rtt = self.smoothed.filter(|_| self.paced)?.as_secs_f64();
        let ratio = match self.window < self.threshold {
            true => PACE_IN_SLOW_START,
            false => PACE_AFTER,
        };
        Some(ratio * self.window / rtt.max(1e-4))
    }

    pub(super) fn acked(&mut self, acked: &Acked) {
        if let Some(rtt) = acked.rtt {
            let smoothed = self.smoothed.map_or(rtt, |old| (old * 7 + rtt) / 8);
            self.smoothed = Some(smoothed);
            self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
        }
        if self.window < self.threshold {
            self.window += 1.0;
            self.hystart(acked);
        } else {
            self.grow(acked.now);
        }
    }

    /// Whether slow start ends before anything is lost.
    fn hystart(&mut self, acked: &Acked) {
        if acked.ends_round {
            (self.round_least, self.samples, self.train) = (None, 0, Some((acked.now, acked.now)));
        }
        let (Some(rtt), Some(least)) = (acked.rtt, self.least) else {
            return;
        };
        if self.window < LEAST_WINDOW {
            return;
        }
        let mut found = false;
        if let Some((began, last)) = &mut self.train
            && acked.now.since(*last) <= TRAIN_PAUSE
        {
            *last = acked.now;
            // A train as long as half the round trip has filled the link; a paced one, as the whole.
            let long = if self.paced { least } else { least / 2 };
            found = acked.now.since(*began) > long;
        }
        if self.samples < SAMPLES {
            self.samples += 1;
            let round = self.round_least.map_or(rtt, |least| least.min(rtt));
            self.round_least = Some(round);
            if self.samples == SAMPLES {
                let rise = (least / 8).clamp(LEAST_RISE, GREATEST_RISE);
                found |= round > least + rise;
            }
        }
        if found {
            self.threshold = self.window;
        }
    }

    fn grow(&mut self, now: Time) {
        let (began, origin) = *self.epoch.get_or_insert_with(|| {
            self.reno = self.window;
            (now, self.greatest.max(self.window))
        });
        let rtt = self.smoothed.unwrap_or(Duration::from_millis(100));
        let t = (now.since(began) + rtt).as_secs_f64();
        let at_start = self.threshold.min(origin);
        let k = ((origin - at_start) / C).max(0.0).cbrt();
        let target = (C * (t - k).powi(3) + origin).clamp(self.window, self.window * 1.5);
        let growth = (target - self.window) / self.window;
        let least = if self.greatest == 0.0 {
            LEAST_GROWTH
        } else {
            0.0
        };
        self.reno += ALPHA / self.window;
        self.window += growth.max(least);
        self.window = self.window.max(self.reno);
    }

    pub(super) fn lost(&mut self) {
        // RFC 9438 §4.7, fast convergence: who was not back at the last maximum gives more.
        self.greatest = match self.window < self.greatest {
            true => self.window * (1.0 + BETA) / 2.0,
            false => self.window,
        };
        self.window = (self.window * BETA).max(2.0);
        self.threshold = self.window;
        self.epoch = None;
    }

    pub(super) fn silent(&mut self) {
        self.threshold = (self.window * BETA).max(2.0);
        self.greatest = 0.0;
        self.window = INITIAL_WINDOW;
        self.epoch = None;
    }

    pub(super) fn bound(&mut self, receiver_window: f64) {
        self.window = self.window.min(receiver_window);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    /// The window after so many round trips of a hundred milliseconds in which all of it is acknowledged.
    fn after(cubic: &mut Cubic, from: Time, round_trips: u32) -> f64 {
        for trip in 0..round_trips {
            for _ in 0..cubic.window() as u32 {
                cubic.grow(from + RTT * trip);
            }
        }
        cubic.window()
    }

    #[test]
    fn the_window_grows_by_a_twentieth_in_a_round_trip_until_a_loss_has_told_the_greatest() {
        let mut cubic = Cubic::new(false);
        (cubic.window, cubic.threshold, cubic.smoothed) = (100.0, 100.0, Some(RTT));
        let grown = after(&mut cubic, Time::ZERO, 10);
        assert!((155.0..165.0).contains(&grown), "{grown}");
        // Seven tenths, and back after the cube root of three tenths of it by C: 4.9 s.
        cubic.lost();
        let (begin, lowered) = (Time::ZERO + RTT * 10, cubic.window());
        let soon = after(&mut cubic, begin, 2);
        assert!(soon < lowered * 1.12, "{soon}");
        cubic.silent();
        (cubic.window, cubic.threshold) = (100.0, 100.0);
        let grown = after(&mut cubic, begin, 10);
        assert!((155.0..165.0).contains(&grown), "{grown}");
    }
}

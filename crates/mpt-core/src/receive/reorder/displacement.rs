//! How long a packet may be overtaken by others on its own path.
//!
//! Most paths deliver in order, and then a number that a path has passed does not come on it any
//! more. Some do not (radio links with several queues, balanced links), and there inference must wait
//! for a while after the edge has passed. How long is learnt as RACK learns its reordering window
//! (RFC 8985 §6.2): nothing until a packet was overtaken; from then on a quarter of the least round
//! trip; a quarter more for each round trip in which something came that had been given up; never more
//! than the smoothed round trip; and after 16 round trips in which numbers were given up and none of
//! them came, a quarter again. A path on which nothing was overtaken for a minute is one that delivers
//! in order.
//!
//! RACK stands at the sender and learns only that it was mistaken. Here, each packet that was overtaken
//! tells by how long, and the window is never less than the longest of the last seconds and an eighth
//! more, up to the smoothed round trip with four times its variation. So it is right after the first
//! round trip, and does not forget what it has just seen.

use std::time::Duration;

use crate::path::RoundTrip;
use crate::time::Time;
use crate::windowed::Windowed;

/// Rounds without a mistake after which the window starts again.
const CLEAN_ROUNDS: u32 = 16;
/// After this long without a sign of it, overtaking is forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);
/// How far back the longest delay is remembered, at least.
const LONGEST_SPAN: Duration = Duration::from_secs(4);
/// What is taken for the round trip of a peer that answers no probes.
const UNKNOWN_RTT: Duration = Duration::from_millis(40);

/// The reordering window of one path.
#[derive(Debug, Clone, Copy)]
pub(super) struct Displacement {
    rtt: RoundTrip,
    /// The window, in quarters of the least round trip.
    quarters: u32,
    /// How long after the edge the latest packet came.
    longest: Windowed<Duration>,
    last_sign: Time,
    round_began: Time,
    /// Something came in this round that had been given up.
    mistaken: bool,
    /// Something was given up in this round.
    gave_up: bool,
    clean_rounds: u32,
}

impl Default for Displacement {
    fn default() -> Self {
        Displacement {
            rtt: RoundTrip {
                minimum: UNKNOWN_RTT,
                smoothed: UNKNOWN_RTT,
                variation: Duration::ZERO,
            },
            quarters: 0,
            longest: Windowed::greatest(LONGEST_SPAN),
            last_sign: Time::ZERO,
            round_began: Time::ZERO,
            mistaken: false,
            gave_up: false,
            clean_rounds: 0,
        }
    }
}

impl Displacement {
    pub(super) fn set_rtt(&mut self, rtt: RoundTrip) {
        self.rtt = rtt;
    }

    /// How long inference waits on this path.
    pub(super) fn window(&self) -> Duration {
        let longest = self.longest.get().unwrap_or_default();
        let guessed = (self.rtt.minimum * self.quarters / 4).min(self.rtt.smoothed);
        guessed.max((longest + longest / 8).min(self.rtt.longest()))
    }

    /// How long it is worth remembering when a number was passed.
    pub(super) fn memory(&self) -> Duration {
        self.rtt.longest()
    }

    /// A packet arrived that another one of its path had overtaken, this long ago, as far as is known;
    /// `given_up` before it came.
    pub(super) fn overtaken(&mut self, now: Time, ago: Option<Duration>, given_up: bool) {
        self.last_sign = now;
        self.longest.note(now, ago.unwrap_or_default());
        self.end_round(now);
        if self.quarters == 0 {
            self.quarters = 1;
            self.begin_round(now);
            self.mistaken = given_up;
        } else if given_up && !self.mistaken {
            self.mistaken = true;
            if self.rtt.minimum * self.quarters / 4 < self.rtt.smoothed {
                self.quarters += 1;
            }
        }
    }

    /// Numbers that the path had passed were given up.
    pub(super) fn gave_up(&mut self, now: Time) {
        if self.quarters > 0 {
            self.end_round(now);
            self.gave_up = true;
        }
    }

    /// Ends the round if it is over. To be called now and then, also when nothing is overtaken.
    pub(super) fn end_round(&mut self, now: Time) {
        if now.since(self.round_began) < self.rtt.smoothed {
            return;
        }
        if self.mistaken {
            self.clean_rounds = 0;
        } else if self.gave_up {
            self.clean_rounds += 1;
        }
        if self.clean_rounds >= CLEAN_ROUNDS {
            self.quarters = self.quarters.min(1);
            self.clean_rounds = 0;
        }
        if now.since(self.last_sign) >= FORGOTTEN_AFTER {
            self.quarters = 0;
        }
        self.longest.pass(now);
        self.begin_round(now);
    }

    fn begin_round(&mut self, now: Time) {
        self.round_began = now;
        self.mistaken = false;
        self.gave_up = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUARTER: Duration = Duration::from_millis(10);

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    /// Round trips of 40 ms at least and 60 ms in the mean.
    fn path() -> Displacement {
        let mut path = Displacement::default();
        path.set_rtt(RoundTrip {
            minimum: QUARTER * 4,
            smoothed: QUARTER * 6,
            variation: QUARTER / 2,
        });
        path
    }

    #[test]
    fn nobody_waits_on_a_path_that_delivers_in_order() {
        let mut path = path();
        path.gave_up(at(0));
        assert_eq!(path.window(), Duration::ZERO);
    }

    #[test]
    fn the_window_begins_at_a_quarter_and_grows_once_a_round_up_to_the_smoothed_round_trip() {
        let mut path = path();
        path.overtaken(at(0), None, false);
        assert_eq!(path.window(), QUARTER);
        path.overtaken(at(1), None, false);
        assert_eq!(path.window(), QUARTER, "it came in time");
        for ms in [2, 3] {
            path.overtaken(at(ms), None, true);
            assert_eq!(path.window(), 2 * QUARTER);
        }
        for round in 1..20u32 {
            path.overtaken(at(u64::from(round) * 61), None, true);
            assert_eq!(path.window(), QUARTER * (round + 2).min(6));
        }
    }

    #[test]
    fn after_sixteen_clean_rounds_the_window_starts_again() {
        let mut path = path();
        for round in 0..4 {
            path.overtaken(at(round * 60), None, true);
        }
        assert_eq!(path.window(), 4 * QUARTER);
        for round in 4..20 {
            path.gave_up(at(round * 60));
            assert_eq!(path.window(), 4 * QUARTER, "{round}");
        }
        path.gave_up(at(20 * 60));
        assert_eq!(path.window(), QUARTER);
    }

    #[test]
    fn the_window_is_an_eighth_beyond_the_longest_of_the_last_seconds() {
        let mut path = path();
        let late = |ms| Some(Duration::from_millis(ms));
        path.overtaken(at(10_000), late(32), false);
        path.overtaken(at(10_001), late(8), false);
        assert_eq!(path.window(), Duration::from_millis(36));
        path.overtaken(at(10_002), late(100), false);
        assert_eq!(path.window(), 8 * QUARTER, "more is out of the ordinary");
        path.overtaken(at(14_000), late(8), false);
        assert_eq!(path.window(), 8 * QUARTER);
        path.overtaken(at(18_000), late(16), false);
        assert_eq!(path.window(), Duration::from_millis(18));
        path.gave_up(at(22_000));
        path.gave_up(at(30_000));
        assert_eq!(path.window(), QUARTER);
    }

    #[test]
    fn what_did_not_happen_for_a_minute_is_forgotten() {
        let mut path = path();
        path.overtaken(at(0), None, true);
        path.gave_up(at(59_999));
        assert_eq!(path.window(), QUARTER);
        path.gave_up(at(61_000));
        assert_eq!(path.window(), Duration::ZERO);
        // Also where nothing is lost.
        path.overtaken(at(70_000), Some(QUARTER * 2), false);
        for second in 71..=130 {
            path.end_round(at(second * 1000));
        }
        assert_eq!(path.window(), Duration::ZERO);
    }
}

//! When the next packet is due.
//!
//! Packet k is due k/R seconds after the first. The sender sleeps until then; it never waits in a
//! loop. What is due already is sent at once, but never more than a millisecond's worth: a sender
//! that was kept from running for longer does not make up for it with one long burst, which would be
//! a stream of another kind. It moves its schedule instead, and says afterwards by how much.

/// The most that a packet may be behind its time before the schedule gives way.
const BURST_NS: u64 = 1_000_000;

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Send the packet with this number.
    Send(u32),
    /// Nothing before this time, in nanoseconds since the start.
    Wait(u64),
    /// All packets have been sent.
    Done,
}

/// A schedule of `count` packets at `rate_pps` a second.
#[derive(Debug, Clone)]
pub(crate) struct Pacer {
    count: u32,
    rate_pps: u32,
    sent: u32,
    slipped_ns: u64,
    slips: u64,
}

impl Pacer {
    /// A schedule that begins at 0; `rate_pps` is at least 1.
    pub(crate) fn new(count: u32, rate_pps: u32) -> Self {
        Pacer {
            count,
            rate_pps: rate_pps.max(1),
            sent: 0,
            slipped_ns: 0,
            slips: 0,
        }
    }

    /// What to do at `now_ns`, in nanoseconds since the start.
    pub(crate) fn turn(&mut self, now_ns: u64) -> Turn {
        if self.sent == self.count {
            return Turn::Done;
        }
        let due_ns = self.due_ns();
        if now_ns < due_ns {
            return Turn::Wait(due_ns);
        }
        let behind_ns = now_ns - due_ns;
        if behind_ns > BURST_NS {
            self.slipped_ns += behind_ns - BURST_NS;
            self.slips += 1;
        }
        self.sent += 1;
        Turn::Send(self.sent - 1)
    }

    /// Packets that were given their turn.
    pub(crate) fn sent(&self) -> u32 {
        self.sent
    }

    /// How often the schedule gave way, and by how much in all, in nanoseconds.
    pub(crate) fn slips(&self) -> (u64, u64) {
        (self.slips, self.slipped_ns)
    }

    fn due_ns(&self) -> u64 {
        let exact = u128::from(self.sent) * 1_000_000_000 / u128::from(self.rate_pps);
        u64::try_from(exact).unwrap_or(u64::MAX) + self.slipped_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a schedule on a clock that a sleep and each packet move; returns when packets went.
    fn run(mut pacer: Pacer, cost_ns: u64, mut stall: impl FnMut(u32) -> u64) -> (Vec<u64>, Pacer) {
        let (mut now, mut times) = (0, Vec::new());
        loop {
            match pacer.turn(now) {
                Turn::Send(number) => {
                    times.push(now);
                    now += cost_ns + stall(number);
                }
                Turn::Wait(until) => now = until,
                Turn::Done => return (times, pacer),
            }
        }
    }

    #[test]
    fn packets_go_at_their_exact_times() {
        let (times, pacer) = run(Pacer::new(8236, 8235), 1000, |_| 0);
        assert_eq!(times[1], 121_432);
        assert_eq!(times[8235], 1_000_000_000);
        assert_eq!(pacer.slips(), (0, 0));
    }

    #[test]
    fn a_short_delay_is_made_up_for() {
        let stall = |number| if number == 10 { 900_000 } else { 0 };
        let (times, pacer) = run(Pacer::new(100, 8235), 1000, stall);
        assert_eq!(pacer.slips().0, 0);
        assert_eq!(times[99], 99 * 1_000_000_000 / 8235);
    }

    #[test]
    fn a_long_delay_gives_no_longer_burst_than_a_millisecond() {
        let stall = |number| if number == 10 { 50_000_000 } else { 0 };
        let (times, pacer) = run(Pacer::new(1000, 8235), 0, stall);
        let at_once = times.iter().filter(|&&time| time == times[11]).count();
        assert!((8..=9).contains(&at_once), "{at_once}");
        let (slips, slipped_ns) = pacer.slips();
        assert_eq!(slips, 1);
        assert!((48_000_000..50_000_000).contains(&slipped_ns));
    }

    #[test]
    fn a_rate_beyond_reach_shows_as_slips() {
        let (times, pacer) = run(Pacer::new(10_000, 1_000_000), 2000, |_| 0);
        assert_eq!(times.len(), 10_000);
        assert!(pacer.slips().1 > 8_000_000, "{pacer:?}");
    }
}

//! A path as the peer's reports tell of it, for tests of what the sender makes of that.

use std::time::Duration;

use super::pace::{Pace, Sample};
use crate::time::Time;

/// Time between reports.
const INTERVAL: Duration = Duration::from_millis(5);
/// Packets that are sent meanwhile, and their bytes.
const PACKETS: u64 = 100;
const PACKET: u64 = 1000;
/// What the path so carries, in bytes a second.
pub(super) const RATE: u64 = PACKETS * PACKET * 200;

/// A path on which nothing queues.
#[derive(Debug)]
pub(super) struct Observed {
    delay: Duration,
    /// Of [`PACKETS`], so many are lost.
    pub(super) lost: u64,
    sent: u64,
    arrived: u64,
}

impl Observed {
    /// A path with this one-way delay, in milliseconds, and so many lost packets of a hundred.
    pub(super) fn new(delay_ms: u64, lost: u64) -> Observed {
        Observed {
            delay: Duration::from_millis(delay_ms),
            lost,
            sent: 0,
            arrived: 0,
        }
    }

    /// Sends for this long, and reports what arrives. Returns when the last report comes.
    pub(super) fn run(&mut self, pace: &mut Pace, from: Time, ms: u64) -> Time {
        let mut now = from;
        while now.since(from) < Duration::from_millis(ms) {
            now = now + INTERVAL;
            self.sent += PACKETS;
            self.arrived += PACKETS - self.lost;
            pace.took(now, (PACKETS * PACKET) as usize);
            let arrived = now + self.delay;
            pace.sample(
                arrived,
                Sample {
                    arrived,
                    one_way: self.delay.as_nanos() as i64,
                    arrived_packets: self.arrived,
                    arrived_bytes: self.arrived * PACKET,
                    sent: now,
                    sent_packets: self.sent,
                    sent_bytes: self.sent * PACKET,
                },
            );
        }
        now + self.delay
    }
}

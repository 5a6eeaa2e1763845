//! What the answers to our probes tell.

use std::time::Duration;

use crate::time::Time;

/// The round-trip time of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundTrip {
    /// The recent least.
    pub minimum: Duration,
    /// Smoothed (RFC 6298 §2).
    pub smoothed: Duration,
    /// Its mean variation (RFC 6298 §2).
    pub variation: Duration,
}

impl RoundTrip {
    /// Hardly anything takes longer: what RFC 6298 §2 makes a retransmission timeout of.
    pub(crate) fn longest(&self) -> Duration {
        self.smoothed + self.variation * 4
    }
}

/// What the answers to our probes tell of a path.
#[derive(Debug, Clone, Copy, Default)]
pub struct Answered {
    /// When what was answered last had been sent.
    pub(crate) sent: Time,
    pub(crate) rtt: Duration,
    /// One-way delay of the last, in nanoseconds, with the clocks' offset.
    pub(crate) forward_ns: i64,
    /// Its median, if the path carries nothing else.
    pub(crate) idle_ns: Option<i64>,
    /// The mean deviation from that.
    pub(crate) jitter_ns: u64,
    /// What share of what was sent there the peer misses, 0 to 1.
    pub(crate) loss: f64,
}

//! Order as the tunnel measures it, in the reply to [`Request::Reorder`](super::Request::Reorder).
//!
//! Intervals are ten seconds long and the daemon's own: it shows the last whole one, to everybody who
//! asks the same, and asking changes nothing. The metrics' names and units are those of
//! [`metrics`](crate::metrics): `_ns` nanoseconds, `_nats` nats, what has no unit is in packets.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::metrics::buffer_occupancy::OccupancyReport;
use crate::metrics::delay_variation::DelayReport;
use crate::metrics::density::DensityReport;
use crate::metrics::rfc4737::ReorderingReport;

/// Order at every point where it is measured.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct OrderStatus {
    /// As packets arrive over all paths.
    pub arriving: PointStatus,
    /// As they leave the reorder window. What was lost, or dropped as late, is missing here.
    pub leaving: PointStatus,
    /// On each path by itself, by its name in the configuration.
    pub paths: BTreeMap<String, PathOrderStatus>,
    /// How long packets were held, of those that were, since the start.
    #[serde(default)]
    pub holds: Spread,
    /// How long it took from the inference of a loss until the packet came again, since the start.
    #[serde(default)]
    pub recoveries: Spread,
}

/// How times are spread, in microseconds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Spread {
    /// How many were at most so long and longer than the bound before, for each of [`Spread::BOUNDS_US`]; and those
    /// that were longer than all. Empty where there was none.
    pub counts: Vec<u64>,
    /// Their sum, within 1 %.
    pub sum_us: u64,
}

impl Spread {
    /// Bounds, in microseconds, 1, 2.5 and 5 of each power of ten: from a packet that waits for its neighbour on a
    /// fast path to the longest hold that may be configured.
    pub const BOUNDS_US: [u64; 14] = [
        250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
        1_000_000, 2_500_000, 10_000_000,
    ];

    /// Of these values, each with how often it was; `sum_us` is that of all.
    pub(crate) fn of(values: impl Iterator<Item = (u64, u64)>, sum_us: u64) -> Spread {
        let mut counts = vec![0; Self::BOUNDS_US.len() + 1];
        for (value, count) in values {
            counts[Self::BOUNDS_US.partition_point(|bound| *bound < value)] += count;
        }
        Spread { counts, sum_us }
    }
}

/// Order at a point where all paths come together.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PointStatus {
    /// Since the tunnel started.
    pub since_start: OrderFigures,
    /// In the last whole interval; absent before the first has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_interval: Option<OrderFigures>,
}

/// All order metrics over some time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct OrderFigures {
    /// That time, in seconds.
    pub seconds: f64,
    /// RFC 4737, without the histogram of extents.
    pub reordering: ReorderingReport,
    /// Share of packets that a TCP with a duplicate-ACK threshold of 3 would take for lost: the
    /// degree of 3-reordering (RFC 4737 §5.3), 0 to 1.
    pub three_reordering: f64,
    /// Reorder Density of RFC 5236, with mean displacement and entropy. It lags by up to `threshold`
    /// packets.
    pub density: DensityReport,
    /// Reorder Buffer-occupancy Density of RFC 5236.
    pub occupancy: OccupancyReport,
    /// What would have kept every packet in its place; of use where packets arrive.
    pub enough: Enough,
}

/// The least window and hold that would have put right what was seen; all 0 when nothing was
/// reordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Enough {
    /// Window for all packets.
    pub window: u64,
    /// Window for 99 % of the reordered ones.
    pub window_p99: u64,
    /// `max_buffer_delay` for all packets, in microseconds.
    pub delay_us: u64,
    /// `max_buffer_delay` for 99 % of the reordered ones, in microseconds.
    pub delay_p99_us: u64,
}

/// Order on one path.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PathOrderStatus {
    /// Since the path was added; delay variation since the peer's last start.
    pub since_start: PathOrderFigures,
    /// In the last whole interval; absent before the first has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_interval: Option<PathOrderFigures>,
}

/// What is measured of one path.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PathOrderFigures {
    /// RFC 4737 among the packets of this path, without the histogram of extents. What the other
    /// paths carry counts as `missing` here.
    pub reordering: ReorderingReport,
    /// The degree of 3-reordering (RFC 4737 §5.3), 0 to 1.
    pub three_reordering: f64,
    /// Delay variation of the peer's probes (RFC 5481).
    pub delay: DelayReport,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_counts_at_the_least_bound_that_is_not_below_it() {
        let values = [
            (0, 1),
            (250, 2),
            (251, 4),
            (10_000_000, 8),
            (10_000_001, 16),
        ];
        let spread = Spread::of(values.into_iter(), 77);
        assert_eq!(spread.counts.len(), Spread::BOUNDS_US.len() + 1);
        assert_eq!(spread.counts[..3], [3, 4, 0]);
        assert_eq!(spread.counts[13..], [8, 16]);
        assert_eq!(spread.counts.iter().sum::<u64>(), 31);
    }
}

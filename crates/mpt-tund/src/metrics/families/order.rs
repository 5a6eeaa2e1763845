//! The reorder window and order as it is measured, in tunnels with two ends.

use mpt_core::control::ReorderStatus;
use mpt_core::control::order::{
    OrderFigures, PathOrderFigures, PathOrderStatus, PointStatus, Spread,
};
use mpt_core::metrics::Summary;

use super::super::Sample;
use super::{Family, Histogram, Things, Values, name_of, seconds, with};

/// Bounds of histograms of packets: displacements and occupancies are told apart up to 512.
const PACKETS: [u32; 11] = [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512];

/// Of the window.
pub(super) const OF_TWO_ENDS: &[Family<Sample>] = &[
    Family {
        name: "reorder",
        help: "How packets are put in order: mode, and what happens to late ones.",
        values: Values::Info(|sample| {
            let reorder = reorder(sample);
            let mode = name_of(&reorder.mode).unwrap_or_default();
            vec![
                ("mode", mode.into_owned()),
                ("late", reorder.late_policy.name().to_owned()),
            ]
        }),
    },
    Family {
        name: "reorder_window_packets",
        help: "Sequence numbers that may be held; 0 when reordering is off.",
        values: Values::Gauge(|sample| Some(f64::from(reorder(sample).window))),
    },
    Family {
        name: "reorder_window_auto",
        help: "Whether the window follows what is measured.",
        values: Values::Flag(|sample| reorder(sample).window_auto),
    },
    Family {
        name: "reorder_window_limit_packets",
        help: "Widest window that memory allows.",
        values: Values::Gauge(|sample| Some(reorder(sample).window_limit as f64)),
    },
    Family {
        name: "reorder_window_needed_packets",
        help: "Window that the delay difference and the packets of the busiest recent second ask for; absent until known.",
        values: Values::Gauge(|sample| Some(reorder(sample).window_needed? as f64)),
    },
    Family {
        name: "reorder_block_packets",
        help: "Packets in a block, with mode block.",
        values: Values::Gauge(|sample| reorder(sample).block_size.map(f64::from)),
    },
    Family {
        name: "reorder_hold_limit_seconds",
        help: "Longest that a packet may be held.",
        values: Values::Gauge(|sample| Some(seconds(reorder(sample).max_buffer_delay_us))),
    },
    Family {
        name: "reorder_hold_limit_auto",
        help: "Whether the longest hold follows what is measured.",
        values: Values::Flag(|sample| reorder(sample).max_buffer_delay_auto),
    },
    Family {
        name: "reorder_held_packets",
        help: "Packets held at this moment.",
        values: Values::Gauge(|sample| Some(reorder(sample).held as f64)),
    },
    Family {
        name: "reorder_held_max_packets",
        help: "Most packets held at once since the start.",
        values: Values::Gauge(|sample| Some(reorder(sample).held_max as f64)),
    },
    Family {
        name: "reorder_packets",
        help: "Packets by how they came: in_order, reordered (in time), late (their gap had ended), duplicate.",
        values: Values::Counters("how", |sample| {
            let reorder = reorder(sample);
            named([
                ("in_order", reorder.in_order),
                ("reordered", reorder.reordered),
                ("late", reorder.late),
                ("duplicate", reorder.duplicates),
            ])
        }),
    },
    Family {
        name: "reorder_passed_packets",
        help: "Packets that did not wait for lower numbers, since each continued its own TCP connection or only acknowledged.",
        values: Values::Counter(|sample| Some(reorder(sample).passed)),
    },
    Family {
        name: "reorder_gaps_seen",
        help: "Sequence numbers that were missing when a later packet arrived.",
        values: Values::Counter(|sample| Some(reorder(sample).gaps_seen)),
    },
    Family {
        name: "reorder_gaps_open",
        help: "Missing sequence numbers that are waited for at this moment.",
        values: Values::Gauge(|sample| Some(reorder(sample).gaps_open as f64)),
    },
    Family {
        name: "reorder_gaps_ended",
        help: "Missing sequence numbers by how the waiting ended: filled, recovered (sent again), inferred_lost, timed_out, overflowed.",
        values: Values::Counters("how", |sample| {
            let reorder = reorder(sample);
            named([
                ("filled", reorder.gaps_filled),
                ("recovered", reorder.gaps_recovered),
                ("inferred_lost", reorder.gaps_inferred_lost),
                ("timed_out", reorder.gaps_timed_out),
                ("overflowed", reorder.gaps_overflowed),
            ])
        }),
    },
    Family {
        name: "reorder_delay_difference_seconds",
        help: "From the earliest to the latest that packets come over any path, jitter included.",
        values: Values::Gauge(|sample| Some(seconds(reorder(sample).delay_difference_us))),
    },
    Family {
        name: "reorder_packets_per_second_max",
        help: "Most packets that came in a recent second.",
        values: Values::Gauge(|sample| Some(reorder(sample).packets_per_s as f64)),
    },
    Family {
        name: "reorder_hold_seconds",
        help: "How long packets were held, of those that were.",
        values: Values::Histogram(|sample| times(&sample.order.as_ref()?.holds)),
    },
    Family {
        name: "recovery_wait_seconds",
        help: "How long it took from the inference of a loss until the packet came again.",
        values: Values::Histogram(|sample| times(&sample.order.as_ref()?.recoveries)),
    },
];

/// Of a point where all paths come together.
pub(super) const OF_A_POINT: &[Family<PointStatus>] = &[
    Family {
        name: "order_packets",
        help: "Packets whose order was measured, each once (RFC 4737), at the point.",
        values: Values::Counter(|point| Some(point.since_start.reordering.received)),
    },
    Family {
        name: "order_reordered_packets",
        help: "Packets that came after one with a higher number (RFC 4737).",
        values: Values::Counter(|point| Some(point.since_start.reordering.reordered)),
    },
    Family {
        name: "order_duplicate_packets",
        help: "Packets that came again.",
        values: Values::Counter(|point| Some(point.since_start.reordering.duplicates)),
    },
    Family {
        name: "order_beyond_history_packets",
        help: "Packets that came so late that it is not known whether they came before.",
        values: Values::Counter(|point| Some(point.since_start.reordering.beyond_history)),
    },
    Family {
        name: "order_discontinuities",
        help: "Jumps of the sequence over missing numbers (RFC 4737).",
        values: Values::Counter(|point| Some(point.since_start.reordering.discontinuities)),
    },
    Family {
        name: "order_missing_packets",
        help: "Numbers that were missing when a higher one came; some came later.",
        values: Values::Counter(|point| Some(point.since_start.reordering.missing)),
    },
    Family {
        name: "order_displacement_packets",
        help: "How many places from its own each packet came, early or late (Reorder Density of RFC 5236).",
        values: Values::Histogram(|point| {
            let frequency = point.since_start.density.frequency.iter();
            packets(frequency.map(|(places, count)| (places.unsigned_abs(), *count)))
        }),
    },
    Family {
        name: "order_occupancy_packets",
        help: "Packets that a receiver would have held to put them in order, at each arrival (RFC 5236).",
        values: Values::Histogram(|point| {
            packets(point.since_start.occupancy.frequency.iter().copied())
        }),
    },
    Family {
        name: "order_reordered_ratio",
        help: "Share of packets that were reordered in the last ten seconds, 0 to 1.",
        values: Values::Gauge(|point| Some(last(point)?.reordering.ratio)),
    },
    Family {
        name: "order_three_reordered_ratio",
        help: "Share of packets that a TCP with three duplicate ACKs would take for lost, in the last ten seconds.",
        values: Values::Gauge(|point| Some(last(point)?.three_reordering)),
    },
    Family {
        name: "order_mean_displacement_packets",
        help: "Mean displacement in the last ten seconds (RFC 5236).",
        values: Values::Gauge(|point| Some(last(point)?.density.mean_displacement)),
    },
    Family {
        name: "order_entropy_nats",
        help: "Entropy of the displacements in the last ten seconds.",
        values: Values::Gauge(|point| Some(last(point)?.density.entropy_nats)),
    },
    Family {
        name: "order_enough_window_packets",
        help: "Window that would have put right what came in the last ten seconds: all of it, or 99 % (p99).",
        values: Values::Gauges("share", |point| {
            last(point).map_or_else(Vec::new, |figures| {
                shares(
                    figures.enough.window as f64,
                    figures.enough.window_p99 as f64,
                )
            })
        }),
    },
    Family {
        name: "order_enough_hold_seconds",
        help: "Longest hold that would have put right what came in the last ten seconds: all of it, or 99 % (p99).",
        values: Values::Gauges("share", |point| {
            last(point).map_or_else(Vec::new, |figures| {
                let enough = &figures.enough;
                shares(seconds(enough.delay_us), seconds(enough.delay_p99_us))
            })
        }),
    },
    Family {
        name: "order_extent_packets",
        help: "Reordering extent in the last ten seconds (RFC 4737), by figure.",
        values: Values::Gauges("figure", |point| {
            summary(point, |of| of.reordering.extent, 1.0)
        }),
    },
    Family {
        name: "order_behind_packets",
        help: "Packets with higher numbers that had come before a reordered one, in the last ten seconds, by figure.",
        values: Values::Gauges("figure", |point| {
            summary(point, |of| of.reordering.behind, 1.0)
        }),
    },
    Family {
        name: "order_lateness_seconds",
        help: "How much later than the first of those behind it a reordered packet came, in the last ten seconds, by figure.",
        values: Values::Gauges("figure", |point| {
            summary(point, |of| of.reordering.late_ns, 1e9)
        }),
    },
    Family {
        name: "order_offset_bytes",
        help: "Bytes that a receiver would have kept for a reordered packet, in the last ten seconds, by figure.",
        values: Values::Gauges("figure", |point| {
            summary(point, |of| of.reordering.byte_offset, 1.0)
        }),
    },
    Family {
        name: "order_gap_packets",
        help: "Packets between reordering discontinuities (RFC 4737) in the last ten seconds, by figure.",
        values: Values::Gauges("figure", |point| {
            summary(point, |of| of.reordering.gap, 1.0)
        }),
    },
    Family {
        name: "order_gap_seconds",
        help: "Time between reordering discontinuities (RFC 4737) in the last ten seconds, by figure.",
        values: Values::Gauges("figure", |point| {
            summary(point, |of| of.reordering.gap_ns, 1e9)
        }),
    },
];

/// Of a path by itself.
pub(super) const OF_A_PATH: &[Family<PathOrderStatus>] = &[
    Family {
        name: "path_order_packets",
        help: "Packets of the path whose order was measured, each once.",
        values: Values::Counter(|path| Some(path.since_start.reordering.received)),
    },
    Family {
        name: "path_reordered_packets",
        help: "Packets of the path that came after one of it with a higher number.",
        values: Values::Counter(|path| Some(path.since_start.reordering.reordered)),
    },
    Family {
        name: "path_duplicate_packets",
        help: "Packets that came again on the path.",
        values: Values::Counter(|path| Some(path.since_start.reordering.duplicates)),
    },
    Family {
        name: "path_delay_variation_seconds",
        help: "Delay of the peer's probes above the least (RFC 5481, PDV) in the last ten seconds, by figure.",
        values: Values::Gauges("figure", |path| {
            let interval = path.last_interval.as_ref();
            let probes = interval.map(|of: &PathOrderFigures| of.delay.pdv_ns);
            figures(probes, 1e9)
        }),
    },
    Family {
        name: "path_jitter_seconds",
        help: "Jitter of the peer's probes, as RFC 3550 has it.",
        values: Values::Gauge(|path| Some(path.since_start.delay.jitter_ns / 1e9)),
    },
];

/// Both points of each tunnel that order is known of.
pub(super) fn points<'a>(tunnels: &Things<'a, Sample>) -> Things<'a, PointStatus> {
    let mut points = Vec::new();
    for (labels, sample) in tunnels {
        if let Some(order) = &sample.order {
            points.push((with(labels, "point", "arriving"), &order.arriving));
            points.push((with(labels, "point", "leaving"), &order.leaving));
        }
    }
    points
}

/// The paths of each.
pub(super) fn paths<'a>(tunnels: &Things<'a, Sample>) -> Things<'a, PathOrderStatus> {
    let mut paths = Vec::new();
    for (labels, sample) in tunnels {
        for (name, path) in sample.order.iter().flat_map(|order| &order.paths) {
            paths.push((with(labels, "path", name), path));
        }
    }
    paths
}

fn reorder(sample: &Sample) -> &ReorderStatus {
    &sample.status.reorder
}

fn last(point: &PointStatus) -> Option<&OrderFigures> {
    point.last_interval.as_ref()
}

fn named<const N: usize>(counts: [(&str, u64); N]) -> Vec<(String, u64)> {
    counts.map(|(name, count)| (name.to_owned(), count)).into()
}

fn shares(all: f64, p99: f64) -> Vec<(String, f64)> {
    vec![("all".to_owned(), all), ("p99".to_owned(), p99)]
}

/// A distribution of the last interval, in units of which there are `per_unit` in what is counted.
fn summary(
    point: &PointStatus,
    of: fn(&OrderFigures) -> Summary,
    per_unit: f64,
) -> Vec<(String, f64)> {
    figures(last(point).map(of), per_unit)
}

fn figures(of: Option<Summary>, per_unit: f64) -> Vec<(String, f64)> {
    // Of nothing there is no mean.
    let Some(of) = of.filter(|of| of.count > 0) else {
        return Vec::new();
    };
    let figures = [
        ("mean", of.mean),
        ("p50", of.p50 as f64),
        ("p90", of.p90 as f64),
        ("p99", of.p99 as f64),
        ("max", of.max as f64),
    ];
    let figures = figures.into_iter();
    figures
        .map(|(name, value)| (name.to_owned(), value / per_unit))
        .collect()
}

/// A histogram of times; none where nothing was counted.
fn times(spread: &Spread) -> Option<Histogram> {
    let bounds = Spread::BOUNDS_US.iter().map(|us| seconds(*us));
    let bounds = bounds.chain([f64::INFINITY]);
    let counts = spread.counts.iter().copied();
    // From the first page on, so that the first value is seen to be added.
    let counts = counts.chain(std::iter::repeat(0));
    Some(Histogram {
        sum: seconds(spread.sum_us),
        buckets: bounds.zip(counts).collect(),
    })
}

/// A histogram of numbers of packets.
fn packets(frequency: impl Iterator<Item = (u32, u64)>) -> Option<Histogram> {
    let mut buckets: Vec<(f64, u64)> = PACKETS.iter().map(|bound| (f64::from(*bound), 0)).collect();
    buckets.push((f64::INFINITY, 0));
    let mut sum = 0.0;
    for (number, count) in frequency {
        buckets[PACKETS.partition_point(|bound| *bound < number)].1 += count;
        sum += f64::from(number) * count as f64;
    }
    Some(Histogram { sum, buckets })
}

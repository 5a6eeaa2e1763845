//! What RFC 4737's metrics add up to: the counts of an interval, and the report made from them.

use serde::{Deserialize, Serialize};

use super::super::tally::{Counts, Spread, Summary, ratio};
use super::{MAX_N, Reordered};

/// Extents and distances up to this are told apart in percentiles.
const EXTENT_LIMIT: u64 = 1 << 20;
/// Late times likewise, in nanoseconds: about a minute.
const LATE_LIMIT_NS: u64 = 1 << 36;
/// Byte offsets likewise.
const BYTES_LIMIT: u64 = 1 << 32;

#[derive(Debug, Clone)]
pub(super) struct ReorderingCounts {
    pub(super) arrivals: u64,
    pub(super) received: u64,
    pub(super) duplicates: u64,
    pub(super) in_order: u64,
    reordered: u64,
    beyond_history: u64,
    pub(super) discontinuities: u64,
    pub(super) missing: u64,
    reordering_discontinuities: u64,
    squared_runs: u128,
    pub(super) n_reordered: [u64; MAX_N + 1],
    extent: Spread,
    behind: Spread,
    late_ns: Spread,
    byte_offset: Spread,
    gap: Spread,
    gap_ns: Spread,
}

impl ReorderingCounts {
    pub(super) fn new() -> Self {
        ReorderingCounts {
            arrivals: 0,
            received: 0,
            duplicates: 0,
            in_order: 0,
            reordered: 0,
            beyond_history: 0,
            discontinuities: 0,
            missing: 0,
            reordering_discontinuities: 0,
            squared_runs: 0,
            n_reordered: [0; MAX_N + 1],
            extent: Spread::new(EXTENT_LIMIT),
            behind: Spread::new(EXTENT_LIMIT),
            late_ns: Spread::new(LATE_LIMIT_NS),
            byte_offset: Spread::new(BYTES_LIMIT),
            gap: Spread::new(EXTENT_LIMIT),
            gap_ns: Spread::new(LATE_LIMIT_NS),
        }
    }

    pub(super) fn count_reordered(&mut self, reordered: &Reordered) {
        self.reordered += 1;
        self.squared_runs += u128::from(reordered.run) * u128::from(reordered.run);
        self.behind.record(reordered.behind);
        if let Some(bytes) = reordered.byte_offset {
            self.byte_offset.record(bytes);
        }
        let Some(late) = reordered.late else {
            self.beyond_history += 1;
            return;
        };
        self.extent.record(late.extent);
        self.late_ns.record(late.late_ns);
        if let Some(discontinuity) = late.confirms {
            self.reordering_discontinuities += 1;
            if let Some((packets, ns)) = discontinuity.gap {
                self.gap.record(packets);
                self.gap_ns.record(ns);
            }
        }
    }

    /// Counts `more` packets that followed a reordered one directly, with consecutive numbers and at
    /// the same time: nothing had to wait for them that did not wait for it.
    pub(super) fn count_behind_reordered(&mut self, reordered: &Reordered, more: u64) {
        self.reordered += more;
        self.behind
            .record_each(reordered.behind.saturating_sub(more), more);
        if let Some(bytes) = reordered.byte_offset {
            self.byte_offset.record_n(bytes, more);
        }
        match reordered.late {
            Some(late) => {
                self.extent.record_each(late.extent + 1, more);
                self.late_ns.record_n(late.late_ns, more);
            }
            None => self.beyond_history += more,
        }
    }

    pub(super) fn report(&self, open_run: u64) -> ReorderingReport {
        let mut n_reordered = self.n_reordered[1..].to_vec();
        for n in (1..MAX_N).rev() {
            n_reordered[n - 1] += n_reordered[n];
        }
        n_reordered.truncate(
            n_reordered
                .iter()
                .rposition(|&m| m > 0)
                .map_or(0, |n| n + 1),
        );
        ReorderingReport {
            arrivals: self.arrivals,
            received: self.received,
            duplicates: self.duplicates,
            reordered: self.reordered,
            ratio: ratio(self.reordered as f64, self.received),
            beyond_history: self.beyond_history,
            discontinuities: self.discontinuities,
            missing: self.missing,
            reordering_discontinuities: self.reordering_discontinuities,
            extent: self.extent.summary(),
            extents: self.extent.bins(),
            behind: self.behind.summary(),
            late_ns: self.late_ns.summary(),
            byte_offset: self.byte_offset.summary(),
            gap: self.gap.summary(),
            gap_ns: self.gap_ns.summary(),
            runs: RunReport {
                runs: self.reordered,
                in_order: self.in_order,
                packets: self.received,
                squared: u64::try_from(self.squared_runs).unwrap_or(u64::MAX),
                open: open_run,
            },
            n_reordered,
        }
    }
}

impl Counts for ReorderingCounts {
    fn add(&mut self, other: &Self) {
        self.arrivals += other.arrivals;
        self.received += other.received;
        self.duplicates += other.duplicates;
        self.in_order += other.in_order;
        self.reordered += other.reordered;
        self.beyond_history += other.beyond_history;
        self.discontinuities += other.discontinuities;
        self.missing += other.missing;
        self.reordering_discontinuities += other.reordering_discontinuities;
        self.squared_runs += other.squared_runs;
        for (sum, count) in self.n_reordered.iter_mut().zip(&other.n_reordered) {
            *sum += count;
        }
        for (sum, spread) in self.spreads_mut().into_iter().zip(other.spreads()) {
            sum.add(spread);
        }
    }

    fn clear(&mut self) {
        self.arrivals = 0;
        self.received = 0;
        self.duplicates = 0;
        self.in_order = 0;
        self.reordered = 0;
        self.beyond_history = 0;
        self.discontinuities = 0;
        self.missing = 0;
        self.reordering_discontinuities = 0;
        self.squared_runs = 0;
        self.n_reordered.fill(0);
        for spread in self.spreads_mut() {
            spread.clear();
        }
    }

    fn rest(&mut self) {
        for spread in self.spreads_mut() {
            spread.rest();
        }
    }
}

impl ReorderingCounts {
    fn spreads(&self) -> [&Spread; 6] {
        [
            &self.extent,
            &self.behind,
            &self.late_ns,
            &self.byte_offset,
            &self.gap,
            &self.gap_ns,
        ]
    }

    fn spreads_mut(&mut self) -> [&mut Spread; 6] {
        [
            &mut self.extent,
            &mut self.behind,
            &mut self.late_ns,
            &mut self.byte_offset,
            &mut self.gap,
            &mut self.gap_ns,
        ]
    }
}

/// RFC 4737 over an interval or since the start.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ReorderingReport {
    /// Packets that arrived, copies included: n-reordering's `l` (§5.2).
    pub arrivals: u64,
    /// Packets that arrived, copies not counted: `L` (§4.1.2).
    pub received: u64,
    /// Copies.
    pub duplicates: u64,
    /// Reordered packets.
    pub reordered: u64,
    /// `reordered / received` (§4.1.3); 0 when nothing was received.
    pub ratio: f64,
    /// Reordered packets whose discontinuity was forgotten; they have no extent.
    pub beyond_history: u64,
    /// Sequence discontinuities (§3.4), from loss or reordering.
    pub discontinuities: u64,
    /// Their sizes summed: numbers that were missing when a higher one arrived.
    pub missing: u64,
    /// Discontinuities that a later arrival showed to be due to reordering (§4.5.3).
    pub reordering_discontinuities: u64,
    /// Extents (§4.2) in packets.
    pub extent: Summary,
    /// Histogram of extents: value and count, exact below 256, within 1 % above.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extents: Vec<(u64, u64)>,
    /// Distance to the highest number that had arrived: the window that would have been enough.
    pub behind: Summary,
    /// Late times (§4.3) in nanoseconds: the hold time that would have been enough.
    pub late_ns: Summary,
    /// Byte offsets (§4.4).
    pub byte_offset: Summary,
    /// Gaps (§4.5.4) in packets.
    pub gap: Summary,
    /// Gaps in nanoseconds.
    pub gap_ns: Summary,
    /// Reordering-free runs (§4.6).
    pub runs: RunReport,
    /// How many packets were n-reordered for n = 1, 2, … (§5); ends with the last that is not 0.
    pub n_reordered: Vec<u64>,
}

impl ReorderingReport {
    /// The degree of n-reordering, a fraction of all arrivals (§5.3); 0 for n = 0 and for n above
    /// [`MAX_N`].
    #[must_use]
    pub fn n_reordering(&self, n: usize) -> f64 {
        let packets = n.checked_sub(1).and_then(|at| self.n_reordered.get(at));
        ratio(packets.copied().unwrap_or(0) as f64, self.arrivals)
    }
}

/// Reordering-free runs (§4.6), by the names of the RFC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RunReport {
    /// `x`: runs that a reordered packet ended.
    pub runs: u64,
    /// `a`: in-order packets.
    pub in_order: u64,
    /// `p`: packets.
    pub packets: u64,
    /// `q`: squares of the ended runs, summed.
    pub squared: u64,
    /// Length of the run that has not ended.
    pub open: u64,
}

impl RunReport {
    /// `a / x`, the mean run length; 0 when no run has ended.
    #[must_use]
    pub fn mean(&self) -> f64 {
        ratio(self.in_order as f64, self.runs)
    }

    /// `(q / a) / (a / x)`: 1 when all runs are equally long; 0 when no run has ended.
    #[must_use]
    pub fn variation(&self) -> f64 {
        let mean = self.mean();
        if mean == 0.0 {
            return 0.0;
        }
        ratio(self.squared as f64, self.in_order) / mean
    }
}

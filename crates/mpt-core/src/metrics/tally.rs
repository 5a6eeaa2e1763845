//! Counting once, reporting twice: for the current interval and since the start.
//!
//! A packet is counted in the interval alone. Taking the interval's report adds it to what came
//! earlier and clears it; a report since the start adds the two when asked. So a packet pays for one
//! count, and both kinds of report agree to the last packet. An interval may also be ended first and
//! reported on later, as often as anybody asks: its counts are kept until the next one ends.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Counts that can be summed and cleared without allocating.
pub(crate) trait Counts: Clone {
    /// Adds `other`, which was made with the same settings.
    fn add(&mut self, other: &Self);
    /// Back to nothing counted.
    fn clear(&mut self);
}

/// The current interval and everything before it.
#[derive(Debug, Clone)]
pub(crate) struct Tally<C> {
    /// Where packets are counted.
    pub(crate) now: C,
    /// The interval before, once one has been ended; it is part of what is earlier.
    last: C,
    earlier: C,
}

impl<C: Counts> Tally<C> {
    pub(crate) fn new(empty: C) -> Self {
        Tally {
            earlier: empty.clone(),
            last: empty.clone(),
            now: empty,
        }
    }

    /// Reports what was counted since the last call and begins a new interval.
    pub(crate) fn interval<R>(&mut self, report: impl FnOnce(&C) -> R) -> R {
        let report = report(&self.now);
        self.earlier.add(&self.now);
        self.now.clear();
        report
    }

    /// Begins a new interval and keeps the one that ends. Allocates nothing.
    pub(crate) fn end_interval(&mut self) {
        self.earlier.add(&self.now);
        std::mem::swap(&mut self.now, &mut self.last);
        self.now.clear();
    }

    /// The last interval that was ended.
    pub(crate) fn last(&self) -> &C {
        &self.last
    }

    /// Back to nothing counted.
    pub(crate) fn clear(&mut self) {
        for counts in [&mut self.now, &mut self.last, &mut self.earlier] {
            counts.clear();
        }
    }

    /// What was counted since the start.
    pub(crate) fn total(&self) -> C {
        let mut total = self.earlier.clone();
        total.add(&self.now);
        total
    }
}

/// A distribution in bounded memory: a histogram exact below 256 and within 1 % above, and the exact
/// extremes and sum beside it.
#[derive(Debug, Clone)]
pub(crate) struct Spread {
    histogram: Histogram<u64>,
    max: u64,
    sum: u128,
}

impl Spread {
    /// For values up to `limit`, at least 256; larger ones count as `limit` in the percentiles.
    pub(crate) fn new(limit: u64) -> Self {
        let histogram = Histogram::new_with_bounds(1, limit.max(256), 2)
            .expect("2 digits and a limit of at least 256 are always accepted");
        Spread {
            histogram,
            max: 0,
            sum: 0,
        }
    }

    pub(crate) fn record(&mut self, value: u64) {
        self.record_n(value, 1);
    }

    /// Records the same value `count` times, at least once.
    pub(crate) fn record_n(&mut self, value: u64, count: u64) {
        self.histogram.saturating_record_n(value, count);
        self.max = self.max.max(value);
        self.sum += u128::from(value) * u128::from(count);
    }

    /// Records each of `count` consecutive values, at least one.
    pub(crate) fn record_each(&mut self, first: u64, count: u64) {
        let end = first + count;
        let mut at = first;
        while at < end {
            let alike = end.min(self.histogram.highest_equivalent(at) + 1);
            self.histogram.saturating_record_n(at, alike - at);
            at = alike;
        }
        self.max = self.max.max(end - 1);
        self.sum += (u128::from(first) + u128::from(end - 1)) * u128::from(count) / 2;
    }

    pub(crate) fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The value that the share `quantile` of all values does not exceed.
    pub(crate) fn quantile(&self, quantile: f64) -> u64 {
        self.histogram.value_at_quantile(quantile).min(self.max)
    }

    /// Recorded values and how often each, ascending.
    pub(crate) fn bins(&self) -> Vec<(u64, u64)> {
        let recorded = self.histogram.iter_recorded();
        recorded
            .map(|bin| (bin.value_iterated_to(), bin.count_at_value()))
            .collect()
    }

    pub(crate) fn summary(&self) -> Summary {
        let count = self.count();
        Summary {
            count,
            mean: ratio(self.sum as f64, count),
            p50: self.quantile(0.5),
            p90: self.quantile(0.9),
            p99: self.quantile(0.99),
            max: self.max,
        }
    }
}

impl Counts for Spread {
    fn add(&mut self, other: &Self) {
        if other.count() == 0 {
            return;
        }
        self.histogram
            .add(&other.histogram)
            .expect("made with the same limit");
        self.max = self.max.max(other.max);
        self.sum += other.sum;
    }

    fn clear(&mut self) {
        if self.count() > 0 {
            self.histogram.reset();
        }
        self.max = 0;
        self.sum = 0;
    }
}

/// A distribution in six numbers; all 0 when nothing was counted. Percentiles are within 1 %.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Summary {
    /// Values counted.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Largest, exact.
    pub max: u64,
}

/// `part / whole`, and 0 of nothing: a report never holds a NaN.
pub(crate) fn ratio(part: f64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part / whole as f64 }
}

/// Adds `other` to `sums`, element by element.
pub(crate) fn add_each(sums: &mut [u64], other: &[u64]) {
    for (sum, count) in sums.iter_mut().zip(other) {
        *sum += count;
    }
}

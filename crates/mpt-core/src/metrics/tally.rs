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
    /// Gives memory back that nothing is counted in.
    fn rest(&mut self);
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

    /// Gives memory back that nothing is counted in.
    pub(crate) fn rest(&mut self) {
        for counts in [&mut self.now, &mut self.last, &mut self.earlier] {
            counts.rest();
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
///
/// Most are of few different values, and many of none: so it begins as a short list of values, which takes what it
/// needs, and becomes a histogram, tens of KiB, when the list would take a quarter of that.
#[derive(Debug, Clone)]
pub(crate) struct Spread {
    /// The greatest value that has a bin; what is greater is counted there.
    top: u64,
    /// How often each bin was recorded, ascending; empty once there is a histogram.
    few: Vec<(u16, u32)>,
    many: Option<Box<Histogram<u64>>>,
    count: u64,
    max: u64,
    sum: u128,
}

/// Values below this have a bin each: the power of two that two digits take.
const EXACT: u64 = 256;
/// Bins of each doubling above.
const BINS: u64 = EXACT / 2;
/// Different values in a list: 4 KiB.
const MOST_FEW: usize = 512;

/// The bin of a value: those of the histogram of two digits.
fn bin_of(value: u64) -> u16 {
    let doublings = (u64::BITS - value.leading_zeros()).saturating_sub(EXACT.ilog2());
    (u64::from(doublings) * BINS + (value >> doublings)) as u16
}

/// The least and the greatest value of a bin.
fn values_of(bin: u16) -> (u64, u64) {
    let bin = u64::from(bin);
    let doublings = (bin / BINS).saturating_sub(1);
    let least = (bin - doublings * BINS) << doublings;
    (least, least + (1 << doublings) - 1)
}

impl Spread {
    /// For values up to `limit`, at least 256; larger ones count as `limit` in the percentiles.
    pub(crate) fn new(limit: u64) -> Self {
        Spread {
            top: limit.max(EXACT),
            few: Vec::new(),
            many: None,
            count: 0,
            max: 0,
            sum: 0,
        }
    }

    pub(crate) fn record(&mut self, value: u64) {
        self.record_n(value, 1);
    }

    /// Records the same value `count` times, at least once.
    pub(crate) fn record_n(&mut self, value: u64, count: u64) {
        self.put(bin_of(value.min(self.top)), count);
        self.max = self.max.max(value);
        self.sum += u128::from(value) * u128::from(count);
    }

    /// Records each of `count` consecutive values, at least one.
    pub(crate) fn record_each(&mut self, first: u64, count: u64) {
        let end = first + count;
        let mut at = first;
        while at < end {
            let bin = bin_of(at.min(self.top));
            let alike = match at <= self.top {
                true => end.min(values_of(bin).1 + 1),
                false => end,
            };
            self.put(bin, alike - at);
            at = alike;
        }
        self.max = self.max.max(end - 1);
        self.sum += (u128::from(first) + u128::from(end - 1)) * u128::from(count) / 2;
    }

    /// Counts a bin.
    fn put(&mut self, bin: u16, count: u64) {
        self.count += count;
        if let Some(many) = &mut self.many {
            many.saturating_record_n(values_of(bin).0, count);
            return;
        }
        let place = self.few.binary_search_by_key(&bin, |(known, _)| *known);
        let sum = place.map_or(0, |at| u64::from(self.few[at].1)) + count;
        match (place, u32::try_from(sum)) {
            (Ok(at), Ok(sum)) => self.few[at].1 = sum,
            (Err(at), Ok(sum)) if self.few.len() < MOST_FEW => self.few.insert(at, (bin, sum)),
            (Ok(_) | Err(_), Ok(_) | Err(_)) => {
                let mut many = self.histogram();
                many.saturating_record_n(values_of(bin).0, count);
                self.many = Some(Box::new(many));
                self.few = Vec::new();
            }
        }
    }

    /// What was recorded, as a histogram.
    fn histogram(&self) -> Histogram<u64> {
        if let Some(many) = &self.many {
            return Histogram::clone(many);
        }
        let mut histogram = Histogram::new_with_bounds(1, self.top, 2)
            .expect("2 digits and a limit of at least 256 are always accepted");
        for (bin, count) in &self.few {
            histogram.saturating_record_n(values_of(*bin).0, u64::from(*count));
        }
        histogram
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The value that the share `quantile` of all values does not exceed.
    pub(crate) fn quantile(&self, quantile: f64) -> u64 {
        match &self.many {
            Some(many) => many.value_at_quantile(quantile).min(self.max),
            None => self.histogram().value_at_quantile(quantile).min(self.max),
        }
    }

    /// Recorded values and how often each, ascending.
    pub(crate) fn bins(&self) -> Vec<(u64, u64)> {
        let few = self.few.iter();
        let few = few.map(|(bin, count)| (values_of(*bin).1, u64::from(*count)));
        let many = self.many.iter().flat_map(|many| many.iter_recorded());
        few.chain(many.map(|bin| (bin.value_iterated_to(), bin.count_at_value())))
            .collect()
    }

    pub(crate) fn summary(&self) -> Summary {
        if self.count == 0 {
            return Summary::default();
        }
        let histogram = self.histogram();
        let quantile = |quantile| histogram.value_at_quantile(quantile).min(self.max);
        Summary {
            count: self.count,
            mean: ratio(self.sum as f64, self.count),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            max: self.max,
        }
    }
}

impl Counts for Spread {
    fn add(&mut self, other: &Self) {
        for (bin, count) in &other.few {
            self.put(*bin, u64::from(*count));
        }
        if let Some(theirs) = &other.many {
            let mut many = match self.many.take() {
                Some(many) => many,
                None => Box::new(self.histogram()),
            };
            many.add(theirs.as_ref()).expect("made with the same limit");
            (self.few, self.many) = (Vec::new(), Some(many));
            self.count += other.count;
        }
        self.max = self.max.max(other.max);
        self.sum += other.sum;
    }

    fn clear(&mut self) {
        if self.count > 0
            && let Some(many) = &mut self.many
        {
            many.reset();
        }
        self.few.clear();
        self.count = 0;
        self.max = 0;
        self.sum = 0;
    }

    fn rest(&mut self) {
        if self.count == 0 {
            (self.few, self.many) = (Vec::new(), None);
        }
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
pub(crate) fn add_each(sums: &mut Vec<u64>, other: &[u64]) {
    if sums.len() < other.len() {
        sums.resize(other.len(), 0);
    }
    for (sum, count) in sums.iter_mut().zip(other) {
        *sum += count;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bins_are_those_of_the_histogram() {
        let histogram = Histogram::<u64>::new_with_bounds(1, 1 << 36, 2).unwrap();
        let values = (0..2000).chain((0..36).flat_map(|bits| [1 << bits, (1 << bits) + 77]));
        for value in values {
            let (least, greatest) = values_of(bin_of(value));
            assert_eq!(least, histogram.lowest_equivalent(value), "{value}");
            assert_eq!(greatest, histogram.highest_equivalent(value), "{value}");
        }
    }

    proptest! {
        /// A list and a histogram say the same, and nobody sees when the one becomes the other.
        #[test]
        fn few_values_are_told_as_many_are(
            values in prop::collection::vec((0..40u32, 0..3000u64, 1..5u64), 1..1500),
            ends in 1..400usize,
        ) {
            let mut histogram = Histogram::<u64>::new_with_bounds(1, 1 << 32, 2).unwrap();
            let mut tally = Tally::new(Spread::new(1 << 32));
            for (at, (bits, low, count)) in values.iter().enumerate() {
                let value = (1 << bits) + low;
                tally.now.record_each(value, *count);
                (0..*count).for_each(|more| histogram.saturating_record(value + more));
                if at % ends == 0 {
                    tally.end_interval();
                    tally.rest();
                }
            }
            let total = tally.total();
            prop_assert_eq!(total.count(), histogram.len());
            for quantile in [0.0, 0.3, 0.5, 0.9, 0.99, 1.0] {
                let expected = histogram.value_at_quantile(quantile).min(total.max);
                prop_assert_eq!(total.quantile(quantile), expected);
            }
            let bins: Vec<_> = histogram
                .iter_recorded()
                .map(|bin| (bin.value_iterated_to(), bin.count_at_value()))
                .collect();
            prop_assert_eq!(total.bins(), bins);
        }
    }

    #[test]
    fn nothing_recorded_takes_no_memory_and_what_was_cleared_gives_it_back() {
        let mut spread = Spread::new(1 << 36);
        (0..2000).for_each(|value| spread.record(value * value));
        assert!(spread.many.is_some());
        spread.clear();
        spread.record(1);
        spread.rest();
        assert!(spread.many.is_some(), "something is counted in it");
        spread.clear();
        spread.rest();
        assert!(spread.many.is_none() && spread.few.capacity() == 0);
    }
}

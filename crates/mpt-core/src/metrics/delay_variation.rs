//! Delay variation from probe timestamps (RFC 5481, RFC 3393).
//!
//! A probe's one-way delay is its time of receipt less its time of sending, each by its own end's
//! clock. The clocks disagree by an amount nobody knows, so the delay itself means nothing; its
//! *variation* does, because the disagreement cancels:
//!
//! - **PDV** (RFC 5481 §4.2): each delay less the least one of the interval. Its percentiles say what
//!   a buffer that evens out the delay must be able to hold back.
//! - **IPDV** (§4.1): each delay less that of the packet *sent* directly before. It shows how suddenly
//!   delay changes and is symmetric about 0. When that packet was lost there is none; when it arrives
//!   later, there is one then.
//! - **Interarrival jitter** (RFC 3550 §6.4.1): the running mean of |difference| between packets as
//!   they *arrive*, as RTP reports it.
//!
//! The least delay of an interval is known when the interval ends. So delays are counted by their
//! distance from the first one ever seen, and shifted in the report. Losses have no delay and copies
//! count once, the first to arrive.

use serde::{Deserialize, Serialize};

use super::tally::{Counts, Spread, Summary, Tally, ratio};

/// How far apart two neighbours in the sending order may arrive, in probes, to be compared.
const REMEMBERED: usize = 256;

/// Differences up to this, about a minute in nanoseconds, are told apart in percentiles.
const LIMIT_NS: u64 = 1 << 36;

/// What one probe's timestamps say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DelayArrival {
    /// Receipt less sending, in nanoseconds, with the clocks' unknown difference in it.
    pub delay_ns: i64,
    /// IPDV against the probe sent directly before, if that has arrived.
    pub ipdv_ns: Option<i64>,
    /// IPDV of the probe sent directly after against this one, if that has arrived already.
    pub next_ipdv_ns: Option<i64>,
}

/// Delay variation of one path.
#[derive(Debug, Clone)]
pub struct DelayVariation {
    /// Delay of the first probe; all others are counted by their distance from it.
    origin_ns: Option<i64>,
    /// The last probes by number, in slots of the number modulo the length.
    recent: Vec<Option<(i64, i64)>>,
    /// Delay of the probe that arrived last.
    last_ns: Option<i64>,
    jitter_ns: f64,
    tally: Tally<DelayCounts>,
}

impl DelayVariation {
    /// For one path, before its first probe.
    #[must_use]
    pub fn new() -> Self {
        DelayVariation {
            origin_ns: None,
            recent: vec![None; REMEMBERED],
            last_ns: None,
            jitter_ns: 0.0,
            tally: Tally::new(DelayCounts::new()),
        }
    }

    /// Takes in probe `number` (never wrapping), sent at `sent_ns` by the sender's clock and received
    /// at `received_ns` by ours. `None` for a copy, which counts for nothing.
    pub fn arrive(&mut self, number: i64, sent_ns: u64, received_ns: u64) -> Option<DelayArrival> {
        if self.delay_of(number).is_some() {
            return None;
        }
        // Clocks may differ by anything: the difference wraps rather than overflows.
        let delay_ns = received_ns.wrapping_sub(sent_ns) as i64;
        let before = self.delay_of(number.wrapping_sub(1));
        let after = self.delay_of(number.wrapping_add(1));
        self.recent[slot(number)] = Some((number, delay_ns));

        let ipdv_ns = before.map(|before| delay_ns.saturating_sub(before));
        let next_ipdv_ns = after.map(|after| after.saturating_sub(delay_ns));
        let origin_ns = *self.origin_ns.get_or_insert(delay_ns);
        self.tally.now.delay(delay_ns, origin_ns);
        ipdv_ns.into_iter().for_each(|d| self.tally.now.ipdv(d));
        next_ipdv_ns
            .into_iter()
            .for_each(|d| self.tally.now.ipdv(d));
        self.update_jitter(delay_ns);
        Some(DelayArrival {
            delay_ns,
            ipdv_ns,
            next_ipdv_ns,
        })
    }

    /// Interarrival jitter now (RFC 3550 §6.4.1), in nanoseconds.
    #[must_use]
    pub fn jitter_ns(&self) -> f64 {
        self.jitter_ns
    }

    /// Ends an interval without reporting on it: [`DelayVariation::last`] will.
    pub fn end_interval(&mut self) {
        self.tally.end_interval();
    }

    /// Gives memory back that nothing is counted in.
    pub(crate) fn rest(&mut self) {
        self.tally.rest();
    }

    /// What was counted in the last interval that was ended, against the least delay in it.
    #[must_use]
    pub fn last(&self) -> DelayReport {
        self.tally.last().report(self.origin_ns, self.jitter_ns)
    }

    /// The probes are another sender's from now on, with another clock: nothing that was counted can
    /// be compared with what comes, and so it is forgotten.
    pub fn restart(&mut self) {
        self.origin_ns = None;
        self.recent.fill(None);
        self.last_ns = None;
        self.jitter_ns = 0.0;
        self.tally.clear();
    }

    /// What was counted since the start, against the least delay since then.
    #[must_use]
    pub fn total(&self) -> DelayReport {
        self.tally.total().report(self.origin_ns, self.jitter_ns)
    }

    fn delay_of(&self, number: i64) -> Option<i64> {
        let (held, delay_ns) = self.recent[slot(number)]?;
        (held == number).then_some(delay_ns)
    }

    fn update_jitter(&mut self, delay_ns: i64) {
        if let Some(last_ns) = self.last_ns.replace(delay_ns) {
            let change_ns = delay_ns.abs_diff(last_ns) as f64;
            self.jitter_ns += (change_ns - self.jitter_ns) / 16.0;
        }
    }
}

impl Default for DelayVariation {
    fn default() -> Self {
        DelayVariation::new()
    }
}

fn slot(number: i64) -> usize {
    number.rem_euclid(REMEMBERED as i64) as usize
}

#[derive(Debug, Clone)]
struct DelayCounts {
    /// Delays at or above the origin, by distance.
    above: Spread,
    /// Delays below the origin, by distance.
    below: Spread,
    least_ns: i64,
    greatest_ns: i64,
    /// Sum of the signed distances from the origin.
    sum_ns: i128,
    ipdv_size: Spread,
    ipdv_least_ns: i64,
    ipdv_greatest_ns: i64,
    ipdv_sum_ns: i128,
}

impl DelayCounts {
    fn new() -> Self {
        DelayCounts {
            above: Spread::new(LIMIT_NS),
            below: Spread::new(LIMIT_NS),
            least_ns: i64::MAX,
            greatest_ns: i64::MIN,
            sum_ns: 0,
            ipdv_size: Spread::new(LIMIT_NS),
            ipdv_least_ns: i64::MAX,
            ipdv_greatest_ns: i64::MIN,
            ipdv_sum_ns: 0,
        }
    }

    fn delay(&mut self, delay_ns: i64, origin_ns: i64) {
        self.least_ns = self.least_ns.min(delay_ns);
        self.greatest_ns = self.greatest_ns.max(delay_ns);
        self.sum_ns += i128::from(delay_ns) - i128::from(origin_ns);
        let distance = delay_ns.abs_diff(origin_ns);
        if delay_ns >= origin_ns {
            self.above.record(distance);
        } else {
            self.below.record(distance);
        }
    }

    fn ipdv(&mut self, ipdv_ns: i64) {
        self.ipdv_size.record(ipdv_ns.unsigned_abs());
        self.ipdv_least_ns = self.ipdv_least_ns.min(ipdv_ns);
        self.ipdv_greatest_ns = self.ipdv_greatest_ns.max(ipdv_ns);
        self.ipdv_sum_ns += i128::from(ipdv_ns);
    }

    /// The delay that the share `quantile` of all delays does not exceed, less the least delay.
    fn pdv_quantile(&self, quantile: f64, origin_ns: i64) -> u64 {
        let (below, above) = (self.below.count(), self.above.count());
        let rank = ((below + above) as f64 * quantile).ceil().max(1.0);
        let from_origin = if rank <= below as f64 {
            // Counted from the far end: the lowest delays are the greatest distances.
            let share = 1.0 - (rank - 1.0) / below as f64;
            -i128::from(self.below.quantile(share))
        } else {
            i128::from(self.above.quantile((rank - below as f64) / above as f64))
        };
        let pdv = i128::from(origin_ns) + from_origin - i128::from(self.least_ns);
        u64::try_from(pdv)
            .unwrap_or(0)
            .min(self.greatest_ns.abs_diff(self.least_ns))
    }

    fn report(&self, origin_ns: Option<i64>, jitter_ns: f64) -> DelayReport {
        let count = self.below.count() + self.above.count();
        let Some(origin_ns) = origin_ns.filter(|_| count > 0) else {
            return DelayReport::default();
        };
        let least = i128::from(self.least_ns) - i128::from(origin_ns);
        let ipdv_count = self.ipdv_size.count();
        DelayReport {
            pdv_ns: Summary {
                count,
                mean: ratio(self.sum_ns as f64, count) - least as f64,
                p50: self.pdv_quantile(0.5, origin_ns),
                p90: self.pdv_quantile(0.9, origin_ns),
                p99: self.pdv_quantile(0.99, origin_ns),
                max: self.greatest_ns.abs_diff(self.least_ns),
            },
            least_delay_ns: self.least_ns,
            ipdv_size_ns: self.ipdv_size.summary(),
            ipdv_mean_ns: ratio(self.ipdv_sum_ns as f64, ipdv_count),
            ipdv_least_ns: if ipdv_count > 0 {
                self.ipdv_least_ns
            } else {
                0
            },
            ipdv_greatest_ns: if ipdv_count > 0 {
                self.ipdv_greatest_ns
            } else {
                0
            },
            jitter_ns,
        }
    }
}

impl Counts for DelayCounts {
    fn add(&mut self, other: &Self) {
        self.above.add(&other.above);
        self.below.add(&other.below);
        self.least_ns = self.least_ns.min(other.least_ns);
        self.greatest_ns = self.greatest_ns.max(other.greatest_ns);
        self.sum_ns += other.sum_ns;
        self.ipdv_size.add(&other.ipdv_size);
        self.ipdv_least_ns = self.ipdv_least_ns.min(other.ipdv_least_ns);
        self.ipdv_greatest_ns = self.ipdv_greatest_ns.max(other.ipdv_greatest_ns);
        self.ipdv_sum_ns += other.ipdv_sum_ns;
    }

    fn clear(&mut self) {
        self.above.clear();
        self.below.clear();
        self.least_ns = i64::MAX;
        self.greatest_ns = i64::MIN;
        self.sum_ns = 0;
        self.ipdv_size.clear();
        self.ipdv_least_ns = i64::MAX;
        self.ipdv_greatest_ns = i64::MIN;
        self.ipdv_sum_ns = 0;
    }

    fn rest(&mut self) {
        for spread in [&mut self.above, &mut self.below, &mut self.ipdv_size] {
            spread.rest();
        }
    }
}

/// Delay variation over an interval or since the start; all 0 when nothing was received.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct DelayReport {
    /// PDV in nanoseconds; the largest is exact, percentiles are within 1 % of the range.
    pub pdv_ns: Summary,
    /// The least delay, with the clocks' unknown difference in it.
    pub least_delay_ns: i64,
    /// |IPDV| in nanoseconds.
    pub ipdv_size_ns: Summary,
    /// Mean of IPDV with its sign; away from 0 when the clocks drift or the delay grows.
    pub ipdv_mean_ns: f64,
    /// Most negative IPDV.
    pub ipdv_least_ns: i64,
    /// Most positive IPDV.
    pub ipdv_greatest_ns: i64,
    /// Interarrival jitter (RFC 3550 §6.4.1) at the end of the interval.
    pub jitter_ns: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn ipdv_is_undefined_next_to_a_loss() {
        let mut variation = DelayVariation::new();
        for number in [1u64, 2, 4, 5] {
            variation.arrive(number as i64, number * 20 * MS, number * 21 * MS);
        }
        let report = variation.total();
        assert_eq!((report.pdv_ns.count, report.ipdv_size_ns.count), (4, 2));
    }

    #[test]
    fn a_late_probe_supplies_both_its_differences() {
        let mut variation = DelayVariation::new();
        variation.arrive(1, 0, 10);
        variation.arrive(3, 40, 52);
        let late = variation.arrive(2, 20, 55).unwrap();
        assert_eq!((late.ipdv_ns, late.next_ipdv_ns), (Some(25), Some(-23)));
    }

    #[test]
    fn the_first_copy_counts() {
        let mut variation = DelayVariation::new();
        variation.arrive(1, 0, 10);
        assert_eq!(variation.arrive(1, 0, 500), None);
        assert_eq!(variation.total().pdv_ns.count, 1);
    }

    #[test]
    fn clock_offset_cancels() {
        let delays = [20u64, 10, 20, 25, 20];
        let run = |offset: u64| {
            let mut variation = DelayVariation::new();
            for (n, delay) in delays.iter().enumerate() {
                let sent = n as u64 * 20 * MS;
                variation.arrive(n as i64, sent, (sent + delay * MS).wrapping_add(offset));
            }
            let report = variation.total();
            (report.pdv_ns, report.ipdv_size_ns, report.jitter_ns)
        };
        assert_eq!(run(0), run(1 << 60));
        assert_eq!(run(0), run(0u64.wrapping_sub(3600 * 1000 * MS)));
    }

    #[test]
    fn percentiles_hold_on_both_sides_of_the_origin() {
        let mut variation = DelayVariation::new();
        // The first probe lies in the middle of the range, so both sides are used.
        let delays = std::iter::once(500).chain((0..1000).map(|n| (n * 7) % 1000));
        for (n, delay) in delays.enumerate() {
            variation.arrive(2 * n as i64, 0, delay * MS);
        }
        let pdv = variation.total().pdv_ns;
        let close = |value: u64, ms: u64| value.abs_diff(ms * MS) <= 8 * MS;
        assert!(
            close(pdv.p50, 500) && close(pdv.p90, 900) && close(pdv.p99, 990),
            "{pdv:?}"
        );
        assert_eq!(pdv.max, 999 * MS);
    }

    #[test]
    fn absurd_times_do_no_harm() {
        let mut variation = DelayVariation::new();
        for (number, (sent, received)) in [(0, u64::MAX), (u64::MAX, 0), (1 << 63, 0), (0, 1 << 63)]
            .into_iter()
            .enumerate()
        {
            variation.arrive(number as i64, sent, received);
        }
        variation.arrive(i64::MAX, 0, 0);
        variation.arrive(i64::MIN, 0, 0);
        let report = variation.total();
        assert!(report.pdv_ns.mean.is_finite() && report.ipdv_mean_ns.is_finite());
    }

    #[test]
    fn nothing_received_reports_zeros() {
        assert_eq!(DelayVariation::new().total(), DelayReport::default());
    }
}

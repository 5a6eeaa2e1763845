//! Many outcomes, summed up.

use super::family::Family;
use super::outcome::{Call, Measured, Outcome};

/// What a family's outcomes of one group came to in one phase.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The group of the family, or `all`.
    pub group: &'static str,
    /// The phase.
    pub phase: &'static str,
    /// Cases.
    pub cases: usize,
    /// Shares of them below so much of the best link alone.
    pub below_70: f64,
    /// See above: 0.85.
    pub below_85: f64,
    /// See above: 0.95.
    pub below_95: f64,
    /// See above: 0.98.
    pub below_98: f64,
    /// The least of them, in parts of the best link alone.
    pub worst: f64,
    /// 10th percentile and median of the share of the sum.
    pub sum_p10: f64,
    /// See above.
    pub sum_median: f64,
}

/// What became of the calls of one family.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Calls {
    /// Median and 95th percentile of [`Call::later_ms`].
    pub later_ms: (f64, f64),
    /// Median and 95th percentile of the share of packets that did not arrive.
    pub lost: (f64, f64),
    /// Calls that lose nothing over one of their links alone ...
    pub good: usize,
    /// ... and those of them that lose more than one packet in 1,000 over the tunnel.
    pub spoilt: usize,
}

/// Goodput that is not less is compared, in bits a second: a hundredth of that of the slowest link that is drawn.
const LEAST_BPS: f64 = 1e4;

/// Outcomes of one family.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    outcomes: Vec<Outcome>,
}

impl Tally {
    /// Takes one more.
    pub fn add(&mut self, outcome: Outcome) {
        self.outcomes.push(outcome);
    }

    /// The same by seed, whatever the order in which they came.
    #[must_use]
    pub fn sorted(mut self) -> Tally {
        self.outcomes.sort_by_key(|outcome| outcome.case.seed);
        self
    }

    /// All of them.
    #[must_use]
    pub fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }

    /// A row for each phase and group; those of all groups together come first.
    #[must_use]
    pub fn rows(&self, family: Family) -> Vec<Row> {
        let mut groups: Vec<&'static str> = self.outcomes.iter().map(|o| o.case.group).collect();
        groups.sort_unstable();
        groups.dedup();
        let all = std::iter::once("all").chain(groups);
        let of_group = |group: &'static str| {
            family.phases().iter().enumerate().map(move |(at, phase)| {
                let belongs = |outcome: &&Outcome| group == "all" || outcome.case.group == group;
                let chosen = self.outcomes.iter().filter(belongs);
                row(group, phase.name, chosen.map(|outcome| outcome.phases[at]))
            })
        };
        all.flat_map(of_group).collect()
    }

    /// The `count` worst in a phase, by what they reach of the best link alone.
    #[must_use]
    pub fn worst(&self, phase: usize, count: usize) -> Vec<&Outcome> {
        let mut sorted: Vec<&Outcome> = self.outcomes.iter().collect();
        let key = |outcome: &Outcome| outcome.phases[phase].of_best();
        sorted.sort_by(|a, b| key(a).total_cmp(&key(b)));
        sorted.truncate(count);
        sorted
    }

    /// How much more these carried in a phase than the same cases in `base`, as a share, and its standard error: the
    /// geometric mean over all cases. `None` where the cases are not the same, or none.
    #[must_use]
    pub fn gain_over(&self, base: &Tally, phase: usize) -> Option<(f64, f64)> {
        let pairs = self.outcomes.iter().zip(&base.outcomes);
        let same = |(one, other): (&Outcome, &Outcome)| one.case.seed == other.case.seed;
        if self.outcomes.len() != base.outcomes.len() || !pairs.clone().all(same) {
            return None;
        }
        let bps = |outcome: &Outcome| outcome.phases[phase].bond_bps.max(LEAST_BPS);
        let gains: Vec<f64> = pairs
            .map(|(one, other)| (bps(one) / bps(other)).ln())
            .collect();
        let count = gains.len() as f64;
        let mean = gains.iter().sum::<f64>() / count;
        let variance = gains.iter().map(|gain| (gain - mean).powi(2)).sum::<f64>() / count;
        (count > 0.0).then(|| (mean.exp_m1(), (variance / count).sqrt()))
    }

    /// What became of the calls; `None` without any.
    #[must_use]
    pub fn calls(&self) -> Option<Calls> {
        let calls: Vec<Call> = self.outcomes.iter().filter_map(|o| o.call).collect();
        let sorted = |of: fn(&Call) -> f64| {
            let mut sorted: Vec<f64> = calls.iter().map(of).collect();
            sorted.sort_by(f64::total_cmp);
            sorted
        };
        let (later, lost) = (sorted(|call| call.later_ms), sorted(|call| call.lost));
        let good = calls.iter().filter(|call| call.best_lost == 0.0);
        let spoilt = good.clone().filter(|call| call.lost > 0.001);
        Some(Calls {
            later_ms: (percentile(&later, 50)?, percentile(&later, 95)?),
            lost: (percentile(&lost, 50)?, percentile(&lost, 95)?),
            good: good.count(),
            spoilt: spoilt.count(),
        })
    }

    /// What the other host's flow keeps of what it has beside a plain path: 10th percentile, median and 90th percentile;
    /// `None` without one.
    #[must_use]
    pub fn beside_keeps(&self) -> Option<(f64, f64, f64)> {
        let mut shares: Vec<f64> = self
            .outcomes
            .iter()
            .filter_map(|o| o.beside_keeps)
            .collect();
        shares.sort_by(f64::total_cmp);
        let [p10, median, p90] = [10, 50, 90].map(|percent| percentile(&shares, percent));
        Some((p10?, median?, p90?))
    }
}

fn row(group: &'static str, phase: &'static str, measured: impl Iterator<Item = Measured>) -> Row {
    let measured: Vec<Measured> = measured.collect();
    let mut of_best: Vec<f64> = measured.iter().map(Measured::of_best).collect();
    of_best.sort_by(f64::total_cmp);
    let mut of_sum: Vec<f64> = measured.iter().map(Measured::of_sum).collect();
    of_sum.sort_by(f64::total_cmp);
    let below = |bound: f64| {
        let count = of_best.partition_point(|&share| share < bound);
        count as f64 / of_best.len().max(1) as f64
    };
    Row {
        group,
        phase,
        cases: of_best.len(),
        below_70: below(0.70),
        below_85: below(0.85),
        below_95: below(0.95),
        below_98: below(0.98),
        worst: of_best.first().copied().unwrap_or(0.0),
        sum_p10: percentile(&of_sum, 10).unwrap_or(0.0),
        sum_median: percentile(&of_sum, 50).unwrap_or(0.0),
    }
}

/// Of sorted values, by the nearest rank.
fn percentile(sorted: &[f64], percent: usize) -> Option<f64> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::super::family::Case;
    use super::*;

    #[test]
    fn shares_and_percentiles_are_counted() {
        let mut tally = Tally::default();
        for seed in 1..=10 {
            let measured = Measured {
                bond_bps: seed as f64 / 10.0,
                best_bps: 1.0,
                sum_bps: 1.0,
            };
            let mut case = Case::draw(Family::Pairs, seed);
            case.group = if seed <= 5 { "a" } else { "b" };
            tally.add(Outcome {
                case,
                phases: vec![measured; 2],
                call: Some(Call {
                    later_ms: seed as f64,
                    lost: seed as f64 / 8000.0,
                    best_lost: if seed > 4 { 0.0 } else { 0.01 },
                }),
                beside_keeps: Some(seed as f64 / 10.0),
            });
        }
        let rows = tally.rows(Family::Pairs);
        let first = &rows[0];
        // Against a best of one bit a second, which is the least that counts.
        assert_eq!(
            (first.group, first.phase, first.cases),
            ("all", "early", 10)
        );
        assert!((first.below_95 - 0.9).abs() < 1e-9, "{first:?}");
        assert!((first.below_70 - 0.6).abs() < 1e-9, "{first:?}");
        assert_eq!(
            (first.worst, first.sum_p10, first.sum_median),
            (0.1, 0.1, 0.5)
        );
        assert_eq!(rows.len(), 6);
        assert_eq!(tally.worst(0, 2)[1].case.seed, 2);
        let calls = Calls {
            later_ms: (5.0, 10.0),
            lost: (0.000_625, 0.001_25),
            good: 6,
            spoilt: 2,
        };
        assert_eq!(tally.calls(), Some(calls));
        assert_eq!(tally.beside_keeps(), Some((0.1, 0.5, 0.9)));
    }
}

//! What was measured, and medians of it.

use std::collections::BTreeMap;

use crate::measure::{Measure, Sample};
use crate::system::{Kind, Wire};

type Key = (Wire, Measure, Kind);

/// All samples, by what they are of and by run.
#[derive(Debug, Default)]
pub(crate) struct Results {
    samples: BTreeMap<Key, BTreeMap<usize, Sample>>,
    memory: BTreeMap<Kind, u64>,
}

/// Median, least and greatest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// `None` when there are no values.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (first, last) = (*values.first()?, *values.last()?);
        let (low, high) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
        Some(Spread {
            median: (low + high) / 2.0,
            min: first,
            max: last,
        })
    }
}

impl Results {
    pub(crate) fn add(
        &mut self,
        run: usize,
        wire: Wire,
        measure: Measure,
        kind: Kind,
        sample: Sample,
    ) {
        let runs = self.samples.entry((wire, measure, kind)).or_default();
        runs.insert(run, sample);
    }

    /// Adds most memory that a daemon of this system had resident, in bytes.
    pub(crate) fn add_memory(&mut self, kind: Kind, bytes: u64) {
        self.memory.insert(kind, bytes);
    }

    /// The systems with daemons, and these daemons' most memory in bytes.
    pub(crate) fn memory(&self) -> impl Iterator<Item = (Kind, u64)> {
        self.memory.iter().map(|(kind, bytes)| (*kind, *bytes))
    }

    pub(crate) fn runs(&self) -> usize {
        self.samples.values().map(BTreeMap::len).max().unwrap_or(0)
    }

    /// What `of` makes of the samples of all runs.
    pub(crate) fn spread(
        &self,
        wire: Wire,
        measure: Measure,
        kind: Kind,
        of: fn(&Sample) -> f64,
    ) -> Option<Spread> {
        let runs = self.samples.get(&(wire, measure, kind))?;
        Spread::of(runs.values().map(of))
    }

    /// What `of` makes of the samples of two systems in the same run.
    pub(crate) fn compared(
        &self,
        wire: Wire,
        measure: Measure,
        [kind, base]: [Kind; 2],
        of: fn(&Sample, &Sample) -> f64,
    ) -> Option<Spread> {
        let runs = self.samples.get(&(wire, measure, kind))?;
        let bases = self.samples.get(&(wire, measure, base))?;
        Spread::of(
            runs.iter()
                .filter_map(|(run, sample)| Some(of(sample, bases.get(run)?))),
        )
    }
}

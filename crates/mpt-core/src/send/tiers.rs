//! Tiers: cheaper paths first, dearer ones only when the cheaper do not suffice.
//!
//! Paths of one cost are a tier. Packets go over the cheapest tier that has a usable path, as if it were alone. The next
//! one is opened for as long as more waits than the tiers before it carry within 100 ms: then their paths are
//! full, and it is no burst that would be over soon. A dearer path so takes what is beyond that, and nothing when the
//! cheaper keep up. A path whose budget is used up is dearer than any cost ([`LAST_RESORT`]), and is not opened however
//! much waits for others.
//!
//! Where all paths cost the same there is one tier, and all of this changes nothing.

use std::time::Duration;

use crate::path::{MAX_PATHS, PathId, PathSet};

/// What waits for longer than this opens dearer paths. Flows begin with bursts of ten packets (RFC 6928), a page takes
/// some of them: at 10 Mbit/s 125 kB are waited for. A call that waits behind it would be felt from 150 ms on (ITU-T
/// G.114), but those of sparse flows do not wait.
pub(crate) const PATIENCE: Duration = Duration::from_millis(100);

/// The cost of a path that is to be used when no other is there.
pub const LAST_RESORT: u32 = u32::MAX;

/// What each path costs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tiers {
    costs: [u32; MAX_PATHS],
    differ: bool,
}

impl Tiers {
    /// The paths cost this from now on.
    pub(crate) fn set(&mut self, costs: [u32; MAX_PATHS]) {
        self.differ = costs.iter().any(|cost| *cost != costs[0]);
        self.costs = costs;
    }

    /// Those of these paths that cost least.
    #[inline]
    pub(crate) fn cheapest(&self, paths: PathSet) -> PathSet {
        match self.differ {
            false => paths,
            true => self.up_to(paths, self.least(paths)),
        }
    }

    /// The paths that are open, and of the others those that cost least; none where all are open, or the others are a
    /// last resort.
    pub(crate) fn next(&self, open: PathSet, paths: PathSet) -> Option<PathSet> {
        let closed = PathSet::from_bits(paths.bits() & !open.bits());
        let least = self.least(closed).filter(|cost| *cost < LAST_RESORT)?;
        Some(self.up_to(paths, Some(least)))
    }

    /// Of these paths, those that are no last resort; all where none else is there.
    pub(crate) fn without_last_resort(&self, paths: PathSet) -> PathSet {
        if !self.differ {
            return paths;
        }
        let others = self.up_to(paths, Some(LAST_RESORT - 1));
        if others.is_empty() { paths } else { others }
    }

    /// Of these paths, those that a copy may go over of what goes over `first`: a last resort has none.
    pub(crate) fn beside(&self, first: Option<PathId>, paths: PathSet) -> PathSet {
        let is_last = |path: PathId| self.cost(path) == LAST_RESORT;
        match self.differ && first.is_some_and(|first| !is_last(first)) {
            true => self.up_to(paths, Some(LAST_RESORT - 1)),
            false => paths,
        }
    }

    fn least(&self, paths: PathSet) -> Option<u32> {
        paths.iter().map(|path| self.cost(path)).min()
    }

    fn up_to(&self, paths: PathSet, most: Option<u32>) -> PathSet {
        let mut kept = paths;
        for path in paths.iter() {
            if most.is_none_or(|most| self.cost(path) > most) {
                kept.remove(path);
            }
        }
        kept
    }

    fn cost(&self, path: PathId) -> u32 {
        self.costs[path.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: PathSet = PathSet::from_bits(0b1111);

    fn tiers(costs: [u32; 4]) -> Tiers {
        let mut tiers = Tiers::default();
        let mut all = [0; MAX_PATHS];
        all[..4].copy_from_slice(&costs);
        tiers.set(all);
        tiers
    }

    #[test]
    fn tiers_open_one_after_the_other_from_the_cheapest_that_is_there() {
        let tiers = tiers([2, 1, 1, LAST_RESORT]);
        let open = tiers.cheapest(ALL);
        assert_eq!(open.bits(), 0b0110);
        let more = tiers.next(open, ALL).unwrap();
        assert_eq!(more.bits(), 0b0111);
        assert_eq!(more, tiers.without_last_resort(ALL));
        assert_eq!(tiers.next(more, ALL), None);
        assert_eq!(tiers.cheapest(PathSet::from_bits(0b1001)).bits(), 0b0001);
        assert_eq!(tiers.cheapest(PathSet::from_bits(0b1000)).bits(), 0b1000);
        assert_eq!(tiers.cheapest(PathSet::EMPTY), PathSet::EMPTY);
    }

    #[test]
    fn paths_of_one_cost_are_one_tier() {
        for cost in [0, 7, LAST_RESORT] {
            let mut tiers = Tiers::default();
            tiers.set([cost; MAX_PATHS]);
            assert_eq!(tiers.cheapest(ALL), ALL);
            assert_eq!(tiers.without_last_resort(ALL), ALL);
            assert_eq!(tiers.next(ALL, ALL), None);
        }
    }

    #[test]
    fn a_last_resort_is_used_where_nothing_else_is() {
        let tiers = tiers([0, 5, LAST_RESORT, LAST_RESORT]);
        assert_eq!(tiers.without_last_resort(ALL).bits(), 0b0011);
        let both = PathSet::from_bits(0b1100);
        assert_eq!(tiers.without_last_resort(both), both);
        let path = PathId::new;
        let copies = |first, paths| tiers.beside(path(first), PathSet::from_bits(paths)).bits();
        assert_eq!((copies(0, 0b1110), copies(0, 0b1100)), (0b0010, 0));
        assert_eq!(copies(2, 0b1000), 0b1000);
    }
}

//! Which path a packet takes.
//!
//! The weighted scheduler shares *bytes*. Each packet of `L` bytes earns every usable path credit
//! for its share of them, `L × weight / total`; the path with the most credit takes the packet and
//! pays `L`. Credit is what a path is behind its share; it sums to zero, so after any packet no
//! path is more than that one packet ahead of its share. (It is the smooth weighted round robin
//! known from web load balancers, in bytes.) Credits are kept multiplied by the total weight, so
//! that all of it is exact in integers.
//!
//! When the set of usable paths or a weight changes, all credit is forgotten: a path that went down
//! gets nothing more, and one that returns has no arrears to burst.

use crate::path::{MAX_PATHS, PathId, PathSet};

/// Largest weight, so that credits stay far inside 64 bits (16 paths × 2^20 × 64 KiB).
pub const MAX_WEIGHT: u32 = 1_000_000;

/// Shares bytes over paths by weight.
#[derive(Debug, Clone)]
pub struct Weighted {
    weights: [u32; MAX_PATHS],
    credit: [i64; MAX_PATHS],
    usable: PathSet,
    /// Sum of the weights of the usable paths.
    total: i64,
}

impl Default for Weighted {
    fn default() -> Self {
        Weighted {
            weights: [0; MAX_PATHS],
            credit: [0; MAX_PATHS],
            usable: PathSet::EMPTY,
            total: 0,
        }
    }
}

impl Weighted {
    /// Gives a path the relative share `weight`, clamped to 1…[`MAX_WEIGHT`]. Counting starts anew.
    pub fn set_weight(&mut self, path: PathId, weight: u32) {
        self.weights[path.index()] = weight.clamp(1, MAX_WEIGHT);
        self.begin(self.usable);
    }

    /// The share of a path.
    #[must_use]
    pub fn weight(&self, path: PathId) -> u32 {
        self.weights[path.index()]
    }

    /// Picks the path for a packet of `bytes`, among those in `usable`; `None` when it is empty.
    #[inline]
    pub fn pick(&mut self, usable: PathSet, bytes: usize) -> Option<PathId> {
        if usable != self.usable {
            self.begin(usable);
        }
        let bytes = bytes as i64;
        let mut best: Option<(PathId, i64)> = None;
        for path in usable.iter() {
            let credit = &mut self.credit[path.index()];
            *credit += bytes * i64::from(self.weights[path.index()]);
            if best.is_none_or(|(_, most)| *credit > most) {
                best = Some((path, *credit));
            }
        }
        let (path, _) = best?;
        self.credit[path.index()] -= bytes * self.total;
        Some(path)
    }

    fn begin(&mut self, usable: PathSet) {
        self.usable = usable;
        self.credit = [0; MAX_PATHS];
        self.total = usable
            .iter()
            .map(|path| i64::from(self.weights[path.index()]))
            .sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn paths(weights: &[u32]) -> (Weighted, PathSet) {
        let mut scheduler = Weighted::default();
        let mut usable = PathSet::EMPTY;
        for (index, &weight) in weights.iter().enumerate() {
            let path = PathId::new(index).unwrap();
            scheduler.set_weight(path, weight);
            usable.insert(path);
        }
        (scheduler, usable)
    }

    #[test]
    fn a_path_that_returns_joins_without_a_burst() {
        let (mut scheduler, both) = paths(&[1, 1]);
        let second = PathId::new(1).unwrap();
        let first_alone = PathSet::only(PathId::new(0).unwrap());
        for _ in 0..1000 {
            scheduler.pick(first_alone, 1400);
        }
        let taken: Vec<_> = (0..4).filter_map(|_| scheduler.pick(both, 1400)).collect();
        assert_eq!(taken.iter().filter(|&&path| path == second).count(), 2);
    }

    #[test]
    fn no_usable_path_means_none() {
        let (mut scheduler, _) = paths(&[1, 1]);
        assert_eq!(scheduler.pick(PathSet::EMPTY, 100), None);
    }

    proptest! {
        /// At any moment no path is more than one packet beyond its share of the bytes.
        #[test]
        fn no_path_is_more_than_one_packet_beyond_its_share(
            weights in proptest::collection::vec(1..=MAX_WEIGHT, 1..=MAX_PATHS),
            sizes in proptest::collection::vec(20..=65_000usize, 1..400),
        ) {
            let (mut scheduler, usable) = paths(&weights);
            let total_weight: u64 = weights.iter().map(|&w| u64::from(w)).sum();
            let mut sent = vec![0u64; weights.len()];
            let mut total = 0u64;
            for size in sizes {
                let path = scheduler.pick(usable, size).unwrap();
                sent[path.index()] += size as u64;
                total += size as u64;
                for (bytes, &weight) in sent.iter().zip(&weights) {
                    let share = total as f64 * f64::from(weight) / total_weight as f64;
                    prop_assert!(*bytes as f64 <= share + 65_000.0);
                }
            }
        }
    }
}

//! The names of paths: an index within the tunnel, and sets of them.
//!
//! Both sides of a tunnel, and both lines of a side, speak of paths by these. There are so few that a
//! set is the bits of one number, which the line in hands to the line out as an atomic.

use crate::limits::MAX_PATHS;

/// The index of a path within its tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PathId(u8);

impl PathId {
    /// The path with this index; `None` from [`MAX_PATHS`] on.
    #[must_use]
    pub const fn new(index: usize) -> Option<PathId> {
        if index < MAX_PATHS {
            Some(PathId(index as u8))
        } else {
            None
        }
    }

    /// The index, below [`MAX_PATHS`].
    #[must_use]
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize % MAX_PATHS
    }
}

/// A set of paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PathSet(u16);

impl PathSet {
    /// No path.
    pub const EMPTY: PathSet = PathSet(0);

    /// The set with one path.
    #[must_use]
    pub const fn only(path: PathId) -> PathSet {
        PathSet(1 << path.0)
    }

    /// The set with these bits, path 0 the lowest.
    #[must_use]
    pub const fn from_bits(bits: u16) -> PathSet {
        PathSet(bits)
    }

    /// The set as bits, path 0 the lowest.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Adds a path.
    pub const fn insert(&mut self, path: PathId) {
        self.0 |= 1 << path.0;
    }

    /// Takes a path out.
    pub const fn remove(&mut self, path: PathId) {
        self.0 &= !(1 << path.0);
    }

    /// Whether the path is in the set.
    #[must_use]
    pub const fn contains(self, path: PathId) -> bool {
        self.0 >> path.0 & 1 == 1
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The paths in it, lowest index first.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = PathId> {
        let mut bits = self.0;
        std::iter::from_fn(move || {
            let index = bits.trailing_zeros() as u8;
            (bits != 0).then(|| {
                bits &= bits - 1;
                PathId(index)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_paths_iterates_in_order() {
        let mut set = PathSet::EMPTY;
        for index in [15, 0, 3] {
            set.insert(PathId::new(index).unwrap());
        }
        assert_eq!(
            set.iter().map(PathId::index).collect::<Vec<_>>(),
            [0, 3, 15]
        );
        assert_eq!(PathId::new(MAX_PATHS), None);
    }
}

//! Which packet numbers have been seen: each is taken once.
//!
//! A ring of bits, one a number, as RFC 6479 has it: numbers go in blocks of 64, and moving
//! ahead clears the blocks that come into use instead of shifting all. A number that lies farther
//! behind the highest than the window reaches is refused, since nobody remembers it.

const BITS: u64 = u64::BITS as u64;

/// A window of `BLOCKS - 1` times 64 numbers.
pub struct ReplayWindow<const BLOCKS: usize> {
    /// Empty until a number is taken: a session of an idle tunnel takes none.
    blocks: Vec<u64>,
    /// One past the highest number seen.
    next: u64,
}

impl<const BLOCKS: usize> ReplayWindow<BLOCKS> {
    /// How far behind the highest number one may be and still be taken.
    pub const WINDOW: u64 = (BLOCKS as u64 - 1) * BITS;

    /// A window that has seen nothing and expects `next` or what lies close behind.
    #[must_use]
    pub fn new(next: u64) -> ReplayWindow<BLOCKS> {
        ReplayWindow {
            blocks: Vec::new(),
            next,
        }
    }

    /// One past the highest number seen, or what was expected at first.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Whether the number can still be taken.
    #[must_use]
    #[inline]
    pub fn is_new(&self, number: u64) -> bool {
        if number >= self.next {
            return number < u64::MAX;
        }
        let block = self.blocks.get(block(number, BLOCKS));
        self.is_remembered(number) && block.is_none_or(|block| block & bit(number) == 0)
    }

    /// Whether the number is one of those whose fate is remembered.
    #[must_use]
    #[inline]
    pub fn is_remembered(&self, number: u64) -> bool {
        number < self.next && self.next - number <= Self::WINDOW
    }

    /// Takes a number. Returns whether it was new; if not, nothing changes.
    #[inline]
    pub fn take(&mut self, number: u64) -> bool {
        if !self.is_new(number) {
            return false;
        }
        if self.blocks.is_empty() {
            self.blocks = vec![0; BLOCKS];
        }
        if number >= self.next {
            self.advance(number);
        }
        self.blocks[block(number, BLOCKS)] |= bit(number);
        true
    }

    /// Clears the blocks behind that of the highest number so far, up to that of `number`.
    fn advance(&mut self, number: u64) {
        // Before the first number every block is clear, that of `next - 1` too.
        let newest = self.next.wrapping_sub(1) / BITS;
        let steps = if self.next == 0 {
            0
        } else {
            (number / BITS - newest).min(BLOCKS as u64)
        };
        for step in 1..=steps {
            self.blocks[((newest + step) % BLOCKS as u64) as usize] = 0;
        }
        self.next = number + 1;
    }
}

#[inline]
fn block(number: u64, blocks: usize) -> usize {
    (number / BITS % blocks as u64) as usize
}

#[inline]
fn bit(number: u64) -> u64 {
    1 << (number % BITS)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    /// 128 numbers.
    type Small = ReplayWindow<3>;

    #[test]
    fn a_number_is_taken_once_and_only_within_the_window() {
        let mut window = Small::new(0);
        assert!(window.take(0) && !window.take(0));
        assert!(window.take(200) && !window.take(0));
        assert!(window.take(201 - 128) && !window.take(200 - 128));
        assert!(!window.take(u64::MAX), "there would be none after it");
        assert!(window.take(u64::MAX - 1));
    }

    #[test]
    fn a_window_that_begins_later_takes_what_lies_close_behind() {
        let mut window = Small::new(1000);
        assert!(window.take(1000 - 128) && !window.take(1000 - 129));
        assert!(window.take(999) && window.take(1000) && !window.take(999));
    }

    proptest! {
        /// Against a set that forgets nothing.
        #[test]
        fn no_number_is_taken_twice(
            start in prop_oneof![Just(0u64), 0..1000u64, Just(u64::MAX - 5000)],
            steps in prop::collection::vec(prop_oneof![
                8 => 0..40i64, 8 => -140..0i64, 1 => 0..1000i64, 1 => -1000..0i64,
            ], 1..400),
        ) {
            let mut window = Small::new(start);
            let mut seen = HashSet::new();
            let mut next = start;
            for step in steps {
                let Some(number) = next.checked_add_signed(step).filter(|n| *n < u64::MAX) else {
                    continue;
                };
                let expected = (number >= next || next - number <= Small::WINDOW)
                    && !seen.contains(&number);
                prop_assert_eq!(window.is_new(number), expected);
                prop_assert_eq!(window.take(number), expected);
                if expected {
                    seen.insert(number);
                    next = next.max(number + 1);
                }
            }
        }
    }
}

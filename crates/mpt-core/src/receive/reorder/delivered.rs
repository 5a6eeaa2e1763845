//! One bit for each of the last [`MAX_DISTANCE`] numbers: was it delivered?

use super::MAX_DISTANCE;
use crate::seq::Seq;

const WORDS: usize = (MAX_DISTANCE / 64) as usize;

/// The bits. Those of numbers not yet passed are left over from long ago and mean nothing.
/// They take memory once there is one.
pub(super) struct Delivered(Vec<u64>);

impl Delivered {
    pub(super) fn new() -> Self {
        Delivered(Vec::new())
    }

    #[inline]
    pub(super) fn set(&mut self, seq: Seq) {
        let (word, bit) = place(seq);
        if self.0.is_empty() {
            self.0 = vec![0; WORDS];
        }
        self.0[word] |= 1 << bit;
    }

    #[inline]
    pub(super) fn get(&self, seq: Seq) -> bool {
        let (word, bit) = place(seq);
        self.0.get(word).is_some_and(|word| word >> bit & 1 == 1)
    }

    pub(super) fn set_all(&mut self) {
        self.0 = vec![u64::MAX; WORDS];
    }

    /// Clears `count` bits from `from` on, a word at a time.
    pub(super) fn clear(&mut self, from: Seq, count: u32) {
        let mut left = count.min(MAX_DISTANCE);
        let (mut word, mut bit) = place(from);
        while left > 0 && !self.0.is_empty() {
            let here = left.min(64 - bit);
            self.0[word] &= !(u64::MAX >> (64 - here) << bit);
            left -= here;
            (word, bit) = ((word + 1) % WORDS, 0);
        }
    }
}

#[inline]
fn place(seq: Seq) -> (usize, u32) {
    let at = seq.value() % MAX_DISTANCE;
    ((at / 64) as usize, at % 64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn clears_exactly_what_is_asked_for(from: u32, count in 0..200_000u32) {
            let from = Seq::new(from);
            let mut delivered = Delivered::new();
            delivered.set_all();
            delivered.clear(from, count);
            let cleared = count.min(MAX_DISTANCE);
            let zeros: u32 = delivered.0.iter().map(|word| word.count_zeros()).sum();
            prop_assert_eq!(zeros, cleared);
            if (1..MAX_DISTANCE).contains(&cleared) {
                prop_assert!(!delivered.get(from) && !delivered.get(from.plus(cleared - 1)));
                prop_assert!(delivered.get(from.plus(cleared)));
            }
        }
    }
}

//! Which numbers have arrived lately, and how large they were.
//!
//! Every standard here wants duplicates recognised, and all of them lack a way to do so in bounded
//! memory (RFC 4737 §6 and RFC 5236 §6 say as much). This is the bound: the last `span` numbers up to
//! the highest seen. In it a copy is told from an original; below it a packet counts as an original,
//! since a packet that far behind is far likelier late than doubled.
//!
//! Sizes are kept for RFC 4737's byte offset, "the bytes that arrived with a higher number": one
//! entry a number and one sum for each block of 64, so that the question costs a walk over
//! blocks and not over packets, and the answer's upkeep two additions a packet.

/// Numbers that share one sum.
const BLOCK: usize = 64;

/// Whether a number has arrived before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Novelty {
    /// It has not.
    New,
    /// It has: this is a copy.
    Duplicate,
    /// It lies below what is remembered.
    BeyondHistory,
}

/// The last numbers, up to the highest that arrived.
#[derive(Debug, Clone)]
pub struct History {
    /// Numbers that are remembered, a power of two; there is memory for them once one has arrived.
    span: usize,
    highest: Option<i64>,
    arrived: Vec<u64>,
    bytes: Vec<u32>,
    block_bytes: Vec<u64>,
}

impl History {
    /// Remembers at least `span` numbers: the next power of two, 64 at least.
    #[must_use]
    pub fn new(span: usize) -> Self {
        let span = span.clamp(BLOCK, 1 << 24).next_power_of_two();
        History {
            span,
            highest: None,
            arrived: Vec::new(),
            bytes: Vec::new(),
            block_bytes: Vec::new(),
        }
    }

    /// Gives the memory back: what has arrived is forgotten, but for the highest number.
    pub(crate) fn rest(&mut self) {
        (self.arrived, self.bytes, self.block_bytes) = Default::default();
    }

    #[cold]
    fn wake(&mut self) {
        self.arrived = vec![0; self.span / 64];
        self.bytes = vec![0; self.span];
        self.block_bytes = vec![0; self.span / BLOCK];
    }

    /// Whether there is memory, and something in it.
    fn is_awake(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// Numbers that are remembered.
    #[must_use]
    pub fn span(&self) -> usize {
        self.span
    }

    /// Notes that `number` arrived with `bytes` bytes. A copy changes nothing.
    #[inline]
    pub fn arrive(&mut self, number: i64, bytes: u32) -> Novelty {
        if !self.is_awake() {
            self.wake();
        }
        match self.highest {
            Some(highest) if number <= highest => {
                if !self.covers(number, highest) {
                    return Novelty::BeyondHistory;
                }
                if self.has(number) {
                    return Novelty::Duplicate;
                }
            }
            Some(highest) if number == highest + 1 => {
                self.clear(number);
                self.highest = Some(number);
            }
            Some(highest) => self.advance(highest, number),
            None => self.highest = Some(number),
        }
        self.put(number, bytes);
        Novelty::New
    }

    /// Notes that `count` consecutive numbers from `first` on arrived, with `bytes` bytes in all, if
    /// the same is to be said of each; otherwise, `None`, nothing changes. The answer is never
    /// [`Novelty::Duplicate`].
    ///
    /// The bytes are put down for the first of them. Nobody can tell: the question is for the bytes
    /// above a number that has just arrived, which lies above or below a run but never in it.
    pub fn arrive_run(&mut self, first: i64, count: u32, bytes: u64) -> Option<Novelty> {
        if !self.is_awake() {
            self.wake();
        }
        let end = first + i64::from(count);
        match self.highest {
            Some(highest) if first <= highest => {
                if end - 1 > highest {
                    return None;
                }
                if !self.covers(end - 1, highest) {
                    return Some(Novelty::BeyondHistory);
                }
                let known = |(word, mask): (usize, u64)| self.arrived[word] & mask != 0;
                if !self.covers(first, highest) || self.words(first, end).any(known) {
                    return None;
                }
            }
            Some(highest) => {
                self.forget(highest + 1, end);
                self.highest = Some(end - 1);
            }
            None => self.highest = Some(end - 1),
        }
        let first = first.max(end - self.span() as i64);
        for (word, mask) in self.words(first, end) {
            self.arrived[word] |= mask;
        }
        let (slot, bytes) = (self.slot(first), u32::try_from(bytes).unwrap_or(u32::MAX));
        self.bytes[slot] = bytes;
        self.block_bytes[slot / BLOCK] += u64::from(bytes);
        Some(Novelty::New)
    }

    /// Bytes that arrived with a number above `number`; `None` when that lies below what is
    /// remembered.
    #[must_use]
    pub fn bytes_above(&self, number: i64) -> Option<u64> {
        let highest = self.highest.filter(|&highest| number < highest)?;
        if !self.covers(number, highest) || !self.is_awake() {
            return None;
        }
        let mut sum = 0;
        let mut at = number + 1;
        while at <= highest {
            let slot = self.slot(at);
            let whole = slot.is_multiple_of(BLOCK) && at + BLOCK as i64 - 1 <= highest;
            if whole {
                sum += self.block_bytes[slot / BLOCK];
                at += BLOCK as i64;
            } else {
                sum += u64::from(self.bytes[slot]);
                at += 1;
            }
        }
        Some(sum)
    }

    /// Forgets everything: a new stream begins.
    pub fn restart(&mut self) {
        self.highest = None;
        self.arrived.fill(0);
        self.bytes.fill(0);
        self.block_bytes.fill(0);
    }

    fn covers(&self, number: i64, highest: i64) -> bool {
        highest - number < self.span() as i64
    }

    fn slot(&self, number: i64) -> usize {
        number as usize & (self.span() - 1)
    }

    fn has(&self, number: i64) -> bool {
        let slot = self.slot(number);
        self.arrived[slot / 64] & (1 << (slot % 64)) != 0
    }

    /// Makes `number` the highest and forgets what leaves the span.
    fn advance(&mut self, highest: i64, number: i64) {
        self.forget(highest + 1, number + 1);
        self.highest = Some(number);
    }

    /// Empties the slots of the numbers from `first` up to `end`.
    fn forget(&mut self, first: i64, end: i64) {
        if end - first >= self.span() as i64 {
            self.restart();
            return;
        }
        for (word, mask) in self.words(first, end) {
            if mask == u64::MAX {
                self.bytes[word * BLOCK..][..BLOCK].fill(0);
                self.block_bytes[word] = 0;
            } else {
                let mut arrived = self.arrived[word] & mask;
                while arrived != 0 {
                    let slot = word * BLOCK + arrived.trailing_zeros() as usize;
                    self.block_bytes[word] -= u64::from(self.bytes[slot]);
                    self.bytes[slot] = 0;
                    arrived &= arrived - 1;
                }
            }
            self.arrived[word] &= !mask;
        }
    }

    /// The words of bits, and the bits in each, of fewer than `span` numbers from `first` up to `end`
    /// or of exactly so many. A word is a block.
    fn words(&self, first: i64, end: i64) -> impl Iterator<Item = (usize, u64)> + use<> {
        let slots = self.span() as i64 - 1;
        let mut at = first;
        std::iter::from_fn(move || {
            let slot = (at & slots) as usize;
            let bit = slot % BLOCK;
            let count = (end - at).min((BLOCK - bit) as i64);
            if count <= 0 {
                return None;
            }
            at += count;
            Some((slot / BLOCK, (u64::MAX >> (BLOCK as i64 - count)) << bit))
        })
    }

    #[inline]
    fn clear(&mut self, number: i64) {
        let slot = self.slot(number);
        self.arrived[slot / 64] &= !(1 << (slot % 64));
        self.block_bytes[slot / BLOCK] -= u64::from(self.bytes[slot]);
        self.bytes[slot] = 0;
    }

    #[inline]
    fn put(&mut self, number: i64, bytes: u32) {
        let slot = self.slot(number);
        self.arrived[slot / 64] |= 1 << (slot % 64);
        self.block_bytes[slot / BLOCK] += u64::from(bytes);
        self.bytes[slot] = bytes;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::collections::btree_map::Entry;

    use super::*;

    #[test]
    fn a_copy_is_a_duplicate_and_the_far_past_is_unknown() {
        let mut history = History::new(64);
        assert_eq!(history.arrive(10, 1), Novelty::New);
        assert_eq!(history.arrive(10, 1), Novelty::Duplicate);
        assert_eq!(history.arrive(73, 1), Novelty::New);
        assert_eq!(history.arrive(10, 1), Novelty::Duplicate);
        assert_eq!(history.arrive(74, 1), Novelty::New);
        assert_eq!(history.arrive(10, 1), Novelty::BeyondHistory);
        assert_eq!(history.arrive(11, 1), Novelty::New);
    }

    #[test]
    fn a_jump_forgets_everything() {
        let mut history = History::new(64);
        history.arrive(1, 100);
        history.arrive(1 << 40, 7);
        assert_eq!(history.bytes_above((1 << 40) - 1), Some(7));
        assert_eq!(history.bytes_above(1), None);
        assert_eq!(history.arrive((1 << 40) - 63, 1), Novelty::New);
    }

    proptest! {
        /// Against a map that forgets nothing, within the span.
        #[test]
        fn agrees_with_a_map(numbers in prop::collection::vec((-200i64..600, 0u32..2000), 1..300)) {
            let mut history = History::new(256);
            let mut map = BTreeMap::new();
            for (number, bytes) in numbers {
                let highest = map.last_key_value().map_or(number, |(&n, _)| n);
                let expected = if highest - number >= 256 {
                    Novelty::BeyondHistory
                } else if let Entry::Vacant(entry) = map.entry(number) {
                    entry.insert(bytes);
                    Novelty::New
                } else {
                    Novelty::Duplicate
                };
                prop_assert_eq!(history.arrive(number, bytes), expected);
                let above: u64 = map.range(number + 1..).map(|(_, &b)| u64::from(b)).sum();
                let known = number < highest && highest - number < 256;
                prop_assert_eq!(history.bytes_above(number), known.then_some(above));
            }
        }
    }
}

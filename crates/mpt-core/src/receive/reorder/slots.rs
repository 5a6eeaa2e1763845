//! The slots of the window: where packets are held, by number modulo the slots, and one bit for each
//! that says whether it is taken. The bits let a gap be stepped over 64 numbers at a time, so that
//! a wide gap costs no more than a narrow one.

use crate::seq::Seq;
use crate::time::Time;

#[derive(Clone, Copy, Default)]
struct Slot<T> {
    item: T,
    /// [`LEFT`] when what is here has left.
    arrived: Time,
}

/// Nothing arrives at the end of time.
const LEFT: Time = Time::from_nanos(u64::MAX);

/// A power of two of slots, at least one word of bits. They take memory once something is held.
pub(super) struct Slots<T> {
    count: usize,
    slots: Box<[Slot<T>]>,
    taken: Box<[u64]>,
    held: u32,
    /// Of those held, the ones that have left before their turn.
    left: u32,
}

impl<T: Copy + Default> Slots<T> {
    pub(super) fn new(window: u32) -> Slots<T> {
        Slots {
            count: window.max(64).next_power_of_two() as usize,
            slots: Box::default(),
            taken: Box::default(),
            held: 0,
            left: 0,
        }
    }

    /// Gives the memory back, if nothing is held.
    pub(super) fn rest(&mut self) {
        if self.held == 0 {
            (self.slots, self.taken) = Default::default();
        }
    }

    /// Bytes of memory that the slots take.
    #[inline]
    pub(super) fn memory(&self) -> usize {
        size_of_val(&*self.slots)
    }

    /// Numbers held.
    #[inline]
    pub(super) fn held(&self) -> u32 {
        self.held
    }

    /// Of these, the ones whose packets have left.
    #[inline]
    pub(super) fn left(&self) -> u32 {
        self.left
    }

    /// The packet `seq`, which is held, leaves: `item` is there in its place from now on. Returns when it had arrived.
    pub(super) fn leave(&mut self, seq: Seq, item: T) -> Time {
        let index = self.index(seq);
        let slot = &mut self.slots[index];
        debug_assert!(slot.arrived != LEFT, "it left before");
        self.left += 1;
        slot.item = item;
        std::mem::replace(&mut slot.arrived, LEFT)
    }

    /// What is held of the number `seq`, in a window that begins at `next`.
    pub(super) fn get_mut(&mut self, next: Seq, seq: Seq) -> Option<&mut T> {
        if !self.contains(next, seq) {
            return None;
        }
        let index = self.index(seq);
        Some(&mut self.slots[index].item)
    }

    /// Whether `seq` is held, in a window that begins at `next`.
    #[inline]
    pub(super) fn contains(&self, next: Seq, seq: Seq) -> bool {
        // Another number, a whole window ahead of one that is late, has the same slot.
        let within = usize::try_from(seq.distance_from(next)).is_ok_and(|ahead| ahead < self.count);
        let index = self.index(seq);
        self.held > 0 && within && self.taken[index / 64] >> (index % 64) & 1 == 1
    }

    /// Holds a packet in a slot that is free.
    #[inline]
    pub(super) fn put(&mut self, seq: Seq, item: T, arrived: Time) {
        if self.slots.is_empty() {
            self.slots = vec![Slot::default(); self.count].into_boxed_slice();
            self.taken = vec![0; self.count / 64].into_boxed_slice();
        }
        let index = self.index(seq);
        debug_assert!(self.taken[index / 64] >> (index % 64) & 1 == 0);
        self.left += u32::from(arrived == LEFT);
        self.slots[index] = Slot { item, arrived };
        self.taken[index / 64] |= 1 << (index % 64);
        self.held += 1;
    }

    /// Takes what is held of the number `seq`, the first of the window, and when it arrived, unless it has left.
    #[inline]
    pub(super) fn take(&mut self, seq: Seq) -> Option<(T, Option<Time>)> {
        if self.held == 0 {
            return None;
        }
        let index = self.index(seq);
        let word = &mut self.taken[index / 64];
        if *word >> (index % 64) & 1 == 0 {
            return None;
        }
        *word &= !(1 << (index % 64));
        self.held -= 1;
        let slot = &self.slots[index];
        let has_left = slot.arrived == LEFT;
        self.left -= u32::from(has_left);
        Some((slot.item, (!has_left).then_some(slot.arrived)))
    }

    /// How many numbers from `seq` on are held in a row; at most `limit`, up to the end of the window.
    pub(super) fn held_from(&self, seq: Seq, limit: u32) -> u32 {
        let mut held = 0;
        while self.held > 0 && held < limit {
            let index = self.index(seq.plus(held));
            let here = (!self.taken[index / 64] >> (index % 64)).trailing_zeros();
            let whole = 64 - (index % 64) as u32;
            held += here.min(whole);
            if here < whole {
                break;
            }
        }
        held.min(limit)
    }

    /// How many numbers from `seq`, in the window, are not held; at most `limit`, up to its end.
    pub(super) fn missing_from(&self, seq: Seq, limit: u32) -> u32 {
        if self.held == 0 {
            return limit;
        }
        let index = self.index(seq);
        let words = self.taken.len();
        let first = self.taken[index / 64] >> (index % 64);
        if first != 0 {
            return first.trailing_zeros().min(limit);
        }
        let mut missing = 64 - (index % 64) as u32;
        // Something is held, at the latest in the low bits of the word that this began with.
        for step in 1..=words {
            let word = self.taken[(index / 64 + step) % words];
            if word != 0 || missing >= limit {
                missing += word.trailing_zeros();
                break;
            }
            missing += 64;
        }
        missing.min(limit)
    }

    /// Calls `each` with all that is held, from `next`, the first of the window, on.
    pub(super) fn for_each(&mut self, next: Seq, mut each: impl FnMut(&mut T)) {
        let mut seq = next;
        for _ in 0..self.held {
            seq = seq.plus(self.missing_from(seq, self.count as u32));
            let index = self.index(seq);
            each(&mut self.slots[index].item);
            seq = seq.next();
        }
    }

    /// The same packets in the slots for another window, which must hold them all.
    pub(super) fn resized(&self, next: Seq, window: u32) -> Slots<T> {
        let mut resized = Slots::new(window);
        for offset in 0..self.slots.len() as u32 {
            let seq = next.plus(offset);
            if self.contains(next, seq) {
                let slot = &self.slots[self.index(seq)];
                resized.put(seq, slot.item, slot.arrived);
            }
        }
        resized
    }

    #[inline]
    fn index(&self, seq: Seq) -> usize {
        seq.value() as usize & (self.count - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn counts_what_is_missing(
            window in 1..300u32,
            next: u32,
            offset in 0..300u32,
            limit in 0..100_000u32,
        ) {
            let (next, offset) = (Seq::new(next), offset % window);
            let mut slots = Slots::new(window);
            prop_assert_eq!(slots.missing_from(next, limit), limit);
            prop_assert_eq!((slots.held_from(next, limit), slots.take(next)), (0, None));
            slots.put(next.plus(offset), 1u32, Time::ZERO);
            slots.rest();
            prop_assert_eq!(slots.missing_from(next, limit), offset.min(limit));
            let resized = slots.resized(next, window * 3);
            prop_assert_eq!(resized.missing_from(next, limit), offset.min(limit));
        }
    }
}

//! The bytes of packets that wait or are kept, each once, whoever holds them.
//!
//! A packet that has to wait is written here when it comes from the TUN, one that goes at once when it is to be kept.
//! The queue, what is committed and what is kept to be sent again have no bytes of their own: each has a
//! [`Stored`], and the last that gives it back frees the buffer. A `Stored` cannot be copied, so none is given
//! back twice; one that is never given back shows as a holder too many ([`Slab::holders`]).
//!
//! Buffers have [`SIZES`] sizes, an eighth of a power of two apart, so that at most an eighth of one is not used.
//! One that is free waits for the next packet of its size. Beyond [`MOST_BYTES`] those of other sizes are given
//! back before another is made. How much is held is bounded by the holders: [`queue::MAX_BYTES`] wait,
//! [`kept::MAX_BYTES`] are kept.

use crate::send::queue;
use crate::send::recovery::kept;

/// Memory that is not exceeded for the sake of free buffers: what may wait and what may be kept.
const MOST_BYTES: usize = queue::MAX_BYTES + kept::MAX_BYTES;
/// The smallest buffer, in bytes; an empty TCP segment fits.
const LEAST_BYTES: usize = 64;
/// Sizes of buffers: 64 bytes, and eight in each of the ten doublings to 65,536.
const SIZES: usize = 81;
/// What a packet takes beside its buffer: 24 bytes here, 40 where it is kept, 40 where it waits and 16 of the allocator,
/// rounded up.
const BESIDE_BYTES: usize = 128;
/// No slot.
const NONE: u32 = u32::MAX;

/// A packet in the slab. Give it back with [`Slab::release`].
#[must_use]
#[derive(Debug)]
pub(crate) struct Stored {
    slot: u32,
    len: u16,
}

impl Stored {
    /// The packet's length in bytes.
    pub(crate) fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Bytes of memory that it takes.
    pub(crate) fn memory(&self) -> usize {
        size_for(self.len()).1
    }
}

#[derive(Debug, Default)]
struct Slot {
    bytes: Box<[u8]>,
    holders: u32,
    /// The next free one, of one that is free.
    next: u32,
}

/// The packets.
#[derive(Debug)]
pub(crate) struct Slab {
    slots: Vec<Slot>,
    /// The first slot that is free, by the size of its buffer.
    free: [u32; SIZES],
    /// The first slot that has no buffer.
    vacant: u32,
    /// Bytes of all buffers.
    memory: usize,
    holders: usize,
}

impl Default for Slab {
    fn default() -> Slab {
        Slab {
            slots: Vec::new(),
            free: [NONE; SIZES],
            vacant: NONE,
            memory: 0,
            holders: 0,
        }
    }
}

impl Slab {
    /// Stores a packet of `len` bytes, which `write` writes over what was there.
    pub(crate) fn store(&mut self, len: usize, write: impl FnOnce(&mut [u8])) -> Stored {
        debug_assert!(len <= usize::from(u16::MAX), "no IP packet is longer");
        let (class, size) = size_for(len);
        let index = match take_first(&mut self.slots, &mut self.free[class]) {
            Some(index) => index,
            None => self.add(size),
        };
        let slot = &mut self.slots[index as usize];
        slot.holders = 1;
        self.holders += 1;
        write(&mut slot.bytes[..len]);
        Stored {
            slot: index,
            len: len as u16,
        }
    }

    /// The same packet for one more holder.
    pub(crate) fn share(&mut self, packet: &Stored) -> Stored {
        self.slots[packet.slot as usize].holders += 1;
        self.holders += 1;
        Stored { ..*packet }
    }

    /// A holder is done with the packet.
    pub(crate) fn release(&mut self, packet: Stored) {
        let slot = &mut self.slots[packet.slot as usize];
        slot.holders -= 1;
        self.holders -= 1;
        if slot.holders == 0 {
            let first = &mut self.free[size_for(packet.len()).0];
            slot.next = std::mem::replace(first, packet.slot);
        }
    }

    #[inline]
    pub(crate) fn bytes(&self, packet: &Stored) -> &[u8] {
        &self.slots[packet.slot as usize].bytes[..packet.len()]
    }

    /// The same, to be changed by who alone holds it.
    pub(crate) fn bytes_mut(&mut self, packet: &Stored) -> &mut [u8] {
        let slot = &mut self.slots[packet.slot as usize];
        debug_assert_eq!(slot.holders, 1, "another would see the change");
        &mut slot.bytes[..packet.len()]
    }

    /// How many [`Stored`] there are.
    pub(crate) fn holders(&self) -> usize {
        self.holders
    }

    /// Bytes of memory that all packets take that are held, and buffers that are free.
    #[inline]
    pub(crate) fn memory(&self) -> usize {
        self.memory + self.slots.len() * BESIDE_BYTES
    }

    /// Gives memory back that no packet is in until `to` bytes are taken, as far as there is any.
    pub(crate) fn trim(&mut self, to: usize) {
        if self.memory() <= to {
            return;
        }
        if self.holders == 0 {
            return self.rest();
        }
        let beside = self.slots.len() * BESIDE_BYTES;
        for first in self.free.iter_mut().rev() {
            while self.memory + beside > to
                && let Some(index) = take_first(&mut self.slots, first)
            {
                self.memory -= std::mem::take(&mut self.slots[index as usize].bytes).len();
            }
        }
        let is_vacant = |slot: &Slot| slot.bytes.is_empty();
        while self.slots.last().is_some_and(is_vacant) {
            self.slots.pop();
        }
        self.slots.shrink_to_fit();
        self.vacant = NONE;
        for (index, slot) in (0..).zip(&mut self.slots) {
            if is_vacant(slot) {
                slot.next = std::mem::replace(&mut self.vacant, index);
            }
        }
    }

    /// Gives the memory back, unless packets are held.
    pub(crate) fn rest(&mut self) {
        if self.holders == 0 {
            *self = Slab::default();
        }
    }

    /// A slot with a new buffer of this size, at the cost of free ones of other sizes if need be.
    fn add(&mut self, size: usize) -> u32 {
        for first in self.free.iter_mut().rev() {
            while self.memory + size > MOST_BYTES
                && let Some(index) = take_first(&mut self.slots, first)
            {
                let slot = &mut self.slots[index as usize];
                self.memory -= std::mem::take(&mut slot.bytes).len();
                slot.next = std::mem::replace(&mut self.vacant, index);
            }
        }
        let index = take_first(&mut self.slots, &mut self.vacant).unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (self.slots.len() - 1) as u32
        });
        self.slots[index as usize].bytes = vec![0; size].into_boxed_slice();
        self.memory += size;
        index
    }
}

/// Takes the first of a list of slots.
fn take_first(slots: &mut [Slot], first: &mut u32) -> Option<u32> {
    let slot = slots.get(*first as usize)?;
    Some(std::mem::replace(first, slot.next))
}

/// The buffers that a packet of `len` bytes goes into: which of the [`SIZES`], and how long they are.
#[inline]
fn size_for(len: usize) -> (usize, usize) {
    // 65 to 72 bytes are the first after 64, and 65,535 the last eighth of the tenth doubling.
    let last = len.max(LEAST_BYTES) - 1;
    let doubling = last.ilog2();
    let eighth = last >> (doubling - 3);
    let before = (doubling as usize - 5) * 8;
    (before + eighth - 15, (eighth + 1) << (doubling - 3))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_buffer_wastes_an_eighth_at_most() {
        let mut before = (0, LEAST_BYTES);
        for len in 1..=usize::from(u16::MAX) {
            let (class, size) = size_for(len);
            assert!(size >= len && class < SIZES, "{len}: {class}, {size}");
            assert!(
                len <= LEAST_BYTES || (size - len) * 8 < len,
                "{len}: {size}"
            );
            // Each fills its buffer or is of the next size.
            let is_next = (class, len) == (before.0 + 1, before.1 + 1);
            assert!(is_next || (class, size) == before, "{len}");
            before = (class, size);
        }
        assert_eq!(before, (SIZES - 1, 1 << 16));
    }

    #[test]
    fn free_buffers_of_other_sizes_make_room() {
        let mut slab = Slab::default();
        let fill = |slab: &mut Slab, len: usize| {
            let count = MOST_BYTES / size_for(len).1;
            let all: Vec<Stored> = (0..count).map(|_| slab.store(len, |_| ())).collect();
            all.into_iter().for_each(|packet| slab.release(packet));
        };
        for len in [1400, 100, 9000, 40, 1400] {
            fill(&mut slab, len);
            assert!(slab.memory <= MOST_BYTES, "{} bytes", slab.memory);
            assert!(slab.memory > MOST_BYTES / 10 * 9, "{} bytes", slab.memory);
        }
        // What is held is no free buffer: it stays.
        let held = slab.store(9000, |out| out.fill(9));
        fill(&mut slab, 1400);
        assert!(slab.memory <= MOST_BYTES + size_for(9000).1);
        assert_eq!(slab.bytes(&held), [9; 9000]);
        slab.rest();
        assert_eq!((slab.holders(), slab.slots.is_empty()), (1, false));
        slab.release(held);
        slab.rest();
        assert_eq!((slab.holders(), slab.memory, slab.slots.len()), (0, 0, 0));
    }

    proptest! {
        /// Every holder reads what was stored, until it gives it back, and a buffer is used again only after that.
        #[test]
        fn holders_read_what_was_stored(
            steps in prop::collection::vec((0..5u8, any::<prop::sample::Index>(), 1..9000usize), 1..400),
        ) {
            let mut slab = Slab::default();
            let mut held: Vec<(u32, Stored)> = Vec::new();
            let mut model: HashMap<u32, Vec<u8>> = HashMap::new();
            let (mut most, mut live) = (0, 0);
            let held_bytes = |held: &[(u32, Stored)]| -> usize {
                let by_slot: HashMap<u32, usize> = held.iter().map(|(_, packet)| (packet.slot, packet.memory())).collect();
                by_slot.values().sum()
            };
            for (number, (step, which, len)) in (0u32..).zip(steps) {
                match (step, held.is_empty()) {
                    (0 | 1, _) | (_, true) => {
                        let bytes: Vec<u8> = (0..len).map(|at| (at * 7 + number as usize * 13) as u8).collect();
                        held.push((number, slab.store(len, |out| out.copy_from_slice(&bytes))));
                        model.insert(number, bytes);
                    }
                    (4, false) => {
                        let to = which.index(slab.memory() + 1);
                        let (before, held) = (slab.memory(), held_bytes(&held));
                        slab.trim(to);
                        most = 0;
                        prop_assert!(slab.memory() <= before);
                        let buffers = slab.memory() - slab.slots.len() * BESIDE_BYTES;
                        prop_assert!(slab.memory() <= to || buffers == held, "{buffers}, {held}");
                    }
                    (2, false) => {
                        let (of, packet) = &held[which.index(held.len())];
                        let shared = (*of, slab.share(packet));
                        held.push(shared);
                    }
                    (_, false) => {
                        let (of, packet) = held.swap_remove(which.index(held.len()));
                        slab.release(packet);
                        if held.iter().all(|&(other, _)| other != of) {
                            model.remove(&of);
                        } else if let [(_, packet)] = &held.iter().filter(|&&(other, _)| other == of).collect::<Vec<_>>()[..] {
                            // Alone with it, it may change it.
                            slab.bytes_mut(packet)[0] ^= 1;
                            model.get_mut(&of).unwrap()[0] ^= 1;
                        }
                    }
                }
                prop_assert_eq!(slab.holders(), held.len());
                let buffers: usize = slab.slots.iter().map(|slot| slot.bytes.len()).sum();
                prop_assert_eq!(slab.memory(), buffers + slab.slots.len() * BESIDE_BYTES);
                for (of, packet) in &held {
                    prop_assert_eq!(slab.bytes(packet), &model[of][..]);
                    prop_assert!(packet.memory() <= slab.memory);
                }
                live = model.len();
                most = most.max(live);
            }
            // No more slots than there were packets of each size at once: of all sizes together no more than stored.
            prop_assert!(slab.slots.len() >= most);
            let busy = slab.slots.iter().filter(|slot| slot.holders > 0).count();
            prop_assert_eq!(busy, live);
            held.into_iter().for_each(|(_, packet)| slab.release(packet));
            slab.rest();
            prop_assert_eq!(slab.memory, 0);
        }
    }
}

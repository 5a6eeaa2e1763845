//! What was sent and may be asked for again, by number.
//!
//! Numbers follow each other without a break; a break means that something was not kept, and what
//! came before it is forgotten. When [`MAX_BYTES`] are kept the oldest packets make room for the newest.

use std::collections::VecDeque;
use std::time::Duration;

use crate::path::PathId;
use crate::send::slab::{Slab, Stored};
use crate::seq::Seq;
use crate::time::Time;

/// Most bytes of memory that packets are kept in: half a second at 260 Mbit/s.
pub(crate) const MAX_BYTES: usize = 16 << 20;
/// Most packets that are kept.
const MAX_PACKETS: usize = 32_768;
/// Packets older than this are nobody's business any more.
const MAX_AGE: Duration = Duration::from_secs(2);

/// A packet that was sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kept {
    /// When, at last.
    pub(super) sent: Time,
    first_sent: Time,
    pub(super) path: PathId,
    pub(super) tos: u8,
    pub(super) len: u16,
    pub(super) tries: u8,
    /// Bound to its path, and not sent yet.
    pub(super) bound: bool,
    /// Waits to be sent again.
    pub(super) due: bool,
    /// Under way on a path that is suspected, and waits to be sent again over another …
    pub(super) stranded: bool,
    /// … or was.
    pub(super) rescued: bool,
}

/// The packets that are kept.
#[derive(Debug)]
pub(super) struct KeptPackets {
    /// By number, without a break.
    packets: VecDeque<(Kept, Stored)>,
    /// Number of the first.
    first: Seq,
    /// Bytes of memory that they take.
    memory: usize,
}

impl KeptPackets {
    pub(super) fn new() -> KeptPackets {
        KeptPackets {
            packets: VecDeque::new(),
            first: Seq::FIRST,
            memory: 0,
        }
    }

    /// Forgets all.
    pub(super) fn clear(&mut self, slab: &mut Slab) {
        while self.pop_oldest(slab).is_some() {}
    }

    /// Forgets all, and gives the memory back.
    pub(super) fn rest(&mut self, slab: &mut Slab) {
        self.clear(slab);
        self.packets = VecDeque::new();
    }

    /// How many are kept.
    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// The lowest number that is kept, if any is.
    pub(super) fn first(&self) -> Seq {
        self.first
    }

    pub(super) fn newest(&self) -> Option<(Seq, &Kept)> {
        let (newest, _) = self.packets.back()?;
        Some((self.first.plus(self.packets.len() as u32 - 1), newest))
    }

    pub(super) fn newest_mut(&mut self) -> Option<&mut Kept> {
        self.packets.back_mut().map(|(kept, _)| kept)
    }

    /// All that is kept, the oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Seq, &Kept)> {
        let first = self.first;
        (0..)
            .zip(&self.packets)
            .map(move |(index, (kept, _))| (first.plus(index), kept))
    }

    /// The same, to be changed.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (Seq, &mut Kept)> {
        let first = self.first;
        (0..)
            .zip(&mut self.packets)
            .map(move |(index, (kept, _))| (first.plus(index), kept))
    }

    /// Bytes of memory that they take.
    pub(super) fn memory(&self) -> usize {
        self.memory
    }

    /// Whether `seq` follows what is kept.
    pub(super) fn is_next(&self, seq: Seq) -> bool {
        !self.is_empty() && self.first.plus(self.packets.len() as u32) == seq
    }

    /// Keeps a packet at the cost of the oldest, if need be; what does not precede it is forgotten
    /// ([`KeptPackets::is_next`]).
    pub(super) fn push(
        &mut self,
        slab: &mut Slab,
        now: Time,
        seq: Seq,
        path: PathId,
        tos: u8,
        packet: Stored,
    ) {
        if !self.is_next(seq) {
            self.clear(slab);
        }
        self.memory += packet.memory();
        self.expire(slab, now);
        if self.is_empty() {
            self.first = seq;
        }
        let kept = Kept {
            sent: now,
            first_sent: now,
            path,
            tos,
            len: packet.len() as u16,
            tries: 0,
            bound: false,
            due: false,
            stranded: false,
            rescued: false,
        };
        self.packets.push_back((kept, packet));
    }

    /// Forgets the oldest, until `bytes` of memory are not taken any more or nothing is kept. Whether there was one.
    pub(super) fn forget_oldest(&mut self, slab: &mut Slab, bytes: usize) -> bool {
        let (any, before) = (!self.is_empty(), self.memory);
        while before - self.memory < bytes && self.pop_oldest(slab).is_some() {}
        self.packets.shrink_to(2 * self.packets.len());
        any
    }

    /// The receiver is done with what is before `seq`.
    pub(super) fn release_before(&mut self, slab: &mut Slab, seq: Seq) {
        while !self.is_empty() && seq.is_after(self.first) {
            self.pop_oldest(slab);
        }
    }

    fn pop_oldest(&mut self, slab: &mut Slab) -> Option<Kept> {
        let (oldest, packet) = self.packets.pop_front()?;
        self.first = self.first.next();
        self.memory -= packet.memory();
        slab.release(packet);
        Some(oldest)
    }

    fn expire(&mut self, slab: &mut Slab, now: Time) {
        while let Some((oldest, _)) = self.packets.front() {
            let is_old = now.since(oldest.first_sent) > MAX_AGE;
            if !is_old && self.packets.len() < MAX_PACKETS && self.memory <= MAX_BYTES {
                break;
            }
            self.pop_oldest(slab);
        }
    }

    fn index_of(&self, seq: Seq) -> Option<usize> {
        let index = usize::try_from(seq.distance_from(self.first)).ok()?;
        (index < self.packets.len()).then_some(index)
    }

    pub(super) fn get(&self, seq: Seq) -> Option<&Kept> {
        self.index_of(seq).map(|index| &self.packets[index].0)
    }

    pub(super) fn get_mut(&mut self, seq: Seq) -> Option<&mut Kept> {
        self.index_of(seq).map(|index| &mut self.packets[index].0)
    }

    pub(super) fn packet(&self, seq: Seq) -> Option<&Stored> {
        self.index_of(seq).map(|index| &self.packets[index].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever is kept is the packet that was sent, over growth, wrapping and eviction.
        #[test]
        fn what_is_kept_is_what_was_sent(
            lens in proptest::collection::vec(20..9000usize, 1..2000),
            first: u32,
            done_every in 1..50usize,
        ) {
            let (mut kept, mut slab) = (KeptPackets::new(), Slab::default());
            let path = PathId::new(0).unwrap();
            let now = Time::from_nanos(1_000_000);
            let content = |index: usize, len: usize| -> Vec<u8> {
                (0..len).map(|at| (at * 7 + index * 13) as u8).collect()
            };
            for (index, &len) in lens.iter().enumerate() {
                let seq = Seq::new(first.wrapping_add(index as u32));
                let packet = slab.store(len, |out| out.copy_from_slice(&content(index, len)));
                kept.push(&mut slab, now, seq, path, 0, packet);
                prop_assert!(kept.memory() <= MAX_BYTES && kept.packet(seq).is_some());
                if index % done_every == 0 {
                    kept.release_before(&mut slab, kept.first().next());
                }
                prop_assert_eq!(kept.len(), slab.holders());
            }
            for (index, &len) in lens.iter().enumerate() {
                let seq = Seq::new(first.wrapping_add(index as u32));
                if let Some(packet) = kept.packet(seq) {
                    prop_assert_eq!(slab.bytes(packet), &content(index, len)[..]);
                }
            }
            kept.clear(&mut slab);
            prop_assert_eq!((kept.memory(), slab.holders()), (0, 0));
        }
    }
}

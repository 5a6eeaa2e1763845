//! What was sent and may be asked for again: by number, with its bytes in one ring.
//!
//! Numbers follow each other without a break; a break means that something was not kept, and what
//! came before it is forgotten. The ring grows as it is needed, up to [`MAX_BYTES`]; then the
//! oldest packet makes room for the newest.

use std::collections::VecDeque;
use std::time::Duration;

use crate::path::PathId;
use crate::seq::Seq;
use crate::time::Time;

/// Most bytes of packets that are kept: half a second at 270 Mbit/s.
const MAX_BYTES: usize = 16 << 20;
/// Most packets that are kept.
const MAX_PACKETS: usize = 32_768;
/// The ring's first size.
const FIRST_BYTES: usize = 256 << 10;
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
    /// Where its bytes begin in the ring.
    start: u32,
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
    packets: VecDeque<Kept>,
    /// Number of the first.
    first: Seq,
    ring: Vec<u8>,
    /// Where the next packet goes.
    head: usize,
}

impl KeptPackets {
    pub(super) fn new() -> KeptPackets {
        KeptPackets {
            packets: VecDeque::new(),
            first: Seq::FIRST,
            ring: Vec::new(),
            head: 0,
        }
    }

    /// Forgets all; the memory stays for what comes.
    pub(super) fn clear(&mut self) {
        self.packets.clear();
    }

    /// Forgets all, and gives the memory back.
    pub(super) fn rest(&mut self) {
        *self = KeptPackets::new();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// The lowest number that is kept, if any is.
    pub(super) fn first(&self) -> Seq {
        self.first
    }

    pub(super) fn newest(&self) -> Option<(Seq, &Kept)> {
        let newest = self.packets.back()?;
        Some((self.first.plus(self.packets.len() as u32 - 1), newest))
    }

    pub(super) fn newest_mut(&mut self) -> Option<&mut Kept> {
        self.packets.back_mut()
    }

    /// All that is kept, the oldest first.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (Seq, &mut Kept)> {
        let first = self.first;
        (0..)
            .zip(&mut self.packets)
            .map(move |(index, kept)| (first.plus(index), kept))
    }

    /// Bytes of memory that the ring has.
    pub(super) fn memory(&self) -> usize {
        self.ring.len()
    }

    /// Whether `seq` follows what is kept.
    pub(super) fn is_next(&self, seq: Seq) -> bool {
        !self.is_empty() && self.first.plus(self.packets.len() as u32) == seq
    }

    /// Keeps a packet at the cost of the oldest, if need be; what does not precede it is forgotten
    /// ([`KeptPackets::is_next`]). Whether there was room at all.
    pub(super) fn push(
        &mut self,
        now: Time,
        seq: Seq,
        path: PathId,
        tos: u8,
        packet: &[u8],
    ) -> bool {
        if !self.is_next(seq) {
            self.clear();
            self.head = 0;
        }
        self.expire(now);
        let Some(start) = self.room_for(packet.len()) else {
            self.clear();
            return false;
        };
        if self.is_empty() {
            self.first = seq;
        }
        self.ring[start..start + packet.len()].copy_from_slice(packet);
        self.head = start + packet.len();
        self.packets.push_back(Kept {
            sent: now,
            first_sent: now,
            path,
            tos,
            len: packet.len() as u16,
            start: start as u32,
            tries: 0,
            bound: false,
            due: false,
            stranded: false,
            rescued: false,
        });
        true
    }

    /// The receiver is done with what is before `seq`.
    pub(super) fn release_before(&mut self, seq: Seq) {
        while !self.is_empty() && seq.is_after(self.first) {
            self.pop_oldest();
        }
    }

    fn pop_oldest(&mut self) -> Option<Kept> {
        let oldest = self.packets.pop_front()?;
        self.first = self.first.next();
        Some(oldest)
    }

    fn expire(&mut self, now: Time) {
        while let Some(oldest) = self.packets.front() {
            let is_old = now.since(oldest.first_sent) > MAX_AGE;
            if !is_old && self.packets.len() < MAX_PACKETS {
                break;
            }
            self.pop_oldest();
        }
    }

    /// Where `len` bytes fit behind one another, at the cost of the oldest packets if need be.
    fn room_for(&mut self, len: usize) -> Option<usize> {
        loop {
            if let Some(start) = self.free_at(len) {
                return Some(start);
            }
            if self.ring.len() < MAX_BYTES {
                self.grow(len);
            } else {
                self.pop_oldest()?;
            }
        }
    }

    /// Where `len` bytes are free.
    fn free_at(&self, len: usize) -> Option<usize> {
        let (Some(oldest), Some(newest)) = (self.packets.front(), self.packets.back()) else {
            return (len <= self.ring.len()).then_some(0);
        };
        let (tail, head) = (oldest.start as usize, self.head);
        if newest.start < oldest.start {
            return (head + len <= tail).then_some(head);
        }
        if head + len <= self.ring.len() {
            return Some(head);
        }
        (len <= tail).then_some(0)
    }

    /// A ring of twice the size, with the packets moved to its start.
    fn grow(&mut self, len: usize) {
        let size = (self.ring.len() * 2)
            .max(FIRST_BYTES)
            .max(len)
            .min(MAX_BYTES);
        let mut ring = vec![0; size];
        let mut at = 0;
        for kept in &mut self.packets {
            let (start, len) = (kept.start as usize, usize::from(kept.len));
            ring[at..at + len].copy_from_slice(&self.ring[start..start + len]);
            kept.start = at as u32;
            at += len;
        }
        self.ring = ring;
        self.head = at;
    }

    fn index_of(&self, seq: Seq) -> Option<usize> {
        let index = usize::try_from(seq.distance_from(self.first)).ok()?;
        (index < self.packets.len()).then_some(index)
    }

    pub(super) fn get(&self, seq: Seq) -> Option<&Kept> {
        self.index_of(seq).map(|index| &self.packets[index])
    }

    pub(super) fn get_mut(&mut self, seq: Seq) -> Option<&mut Kept> {
        self.index_of(seq).map(|index| &mut self.packets[index])
    }

    pub(super) fn bytes(&self, seq: Seq) -> Option<&[u8]> {
        let kept = self.get(seq)?;
        let start = kept.start as usize;
        Some(&self.ring[start..start + usize::from(kept.len)])
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
            let mut kept = KeptPackets::new();
            let path = PathId::new(0).unwrap();
            let now = Time::from_nanos(1_000_000);
            let content = |index: usize, len: usize| -> Vec<u8> {
                (0..len).map(|at| (at * 7 + index * 13) as u8).collect()
            };
            for (index, &len) in lens.iter().enumerate() {
                let seq = Seq::new(first.wrapping_add(index as u32));
                prop_assert!(kept.push(now, seq, path, 0, &content(index, len)));
                prop_assert_eq!(kept.bytes(seq), Some(&content(index, len)[..]));
                if index % done_every == 0 {
                    kept.release_before(kept.first().next());
                }
            }
            for (index, &len) in lens.iter().enumerate() {
                let seq = Seq::new(first.wrapping_add(index as u32));
                if let Some(packet) = kept.bytes(seq) {
                    prop_assert_eq!(packet, &content(index, len)[..]);
                }
            }
            prop_assert!(kept.memory() <= MAX_BYTES);
        }
    }
}

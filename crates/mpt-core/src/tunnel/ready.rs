//! What has left the window and is for the TUN, in its order.
//!
//! A packet leaves in the turn of its number, or before it where it continues its own TCP connection or only acknowledges
//! ([`connections`]).
//! What stays of it in the window then leaves in its turn, for the measures of order alone.
//!
//! [`connections`]: crate::receive::connections

use std::collections::VecDeque;
use std::num::NonZeroU32;

use crate::receive::block_sort::sort_blocks;
use crate::receive::buffer::{Pool, Stored};
use crate::receive::connections::{Connections, Link, Segment};
use crate::receive::reorder::Reorder;
use crate::seq::Seq;
use crate::time::Time;

/// Where packets overtake, a segment comes between two that are held. Its place is looked for from the first on, for so many
/// steps; beyond them it waits for its turn. Without a step 150 pages (`campaign --family pages --pairs 150 --seed 1`) are 10.0,
/// 7.2 and 7.7 % quicker than without all this, and 11.1, 8.2 and 8.4 % with these.
const MOST_STEPS: u32 = 64;

/// Packets for the TUN.
#[derive(Debug, Default)]
pub(super) struct Ready {
    packets: VecDeque<Stored>,
    connections: Connections,
    /// Connections that went on, and of which something is held.
    went_on: Vec<usize>,
    /// Packets that left before their turn, since start.
    passed: u64,
}

impl Ready {
    /// Takes what leaves the window in its turn.
    pub(super) fn out<'a>(&'a mut self, pool: &'a Pool) -> impl FnMut(Stored) + 'a {
        |packet| {
            if !packet.has_left()
                && let Some(segment) = Segment::of(pool.bytes(packet))
            {
                self.deliver(&segment, packet);
            }
            self.packets.push_back(packet);
        }
    }

    fn deliver(&mut self, segment: &Segment, packet: Stored) {
        let Some(number) = packet.number else {
            return;
        };
        let place = self
            .connections
            .deliver(segment, number.seq(), packet.behind);
        if let Some(place) = place
            && self.went_on.last() != Some(&place)
        {
            self.went_on.push(place);
        }
    }

    /// Takes a packet that has no number: it was in no window, and tells nothing of what was.
    pub(super) fn push(&mut self, packet: Stored) {
        self.packets.push_back(packet);
    }

    /// The window does not believe a packet's number. It leaves all the same if it only acknowledges; returns whether. A
    /// connection whose window is under way when the peer begins anew would stand still without any.
    pub(super) fn push_unbelieved(&mut self, pool: &Pool, packet: Stored) -> bool {
        let leaves =
            Segment::of(pool.bytes(packet)).is_some_and(|segment| segment.only_acknowledges());
        if leaves {
            let number = None;
            self.packets.push_back(Stored { number, ..packet });
        }
        leaves
    }

    /// The window has taken a packet as number `seq`. What need not wait leaves: the packet, if it is held, and what is held
    /// and goes on with what has left. Behind a window that is configured, and does not size itself, all waits in one order.
    pub(super) fn pass(&mut self, now: Time, pool: &Pool, window: &mut Reorder<Stored>, seq: Seq) {
        let sizes_itself = window.config().grows_to.is_some();
        let held = window.held_mut(seq).filter(|packet| !packet.has_left());
        if let Some(&mut packet) = held
            && sizes_itself
            && let Some(segment) = Segment::of(pool.bytes(packet))
        {
            if segment.only_acknowledges() {
                self.leave(now, window, seq, packet);
            } else if self.connections.is_continued_by(&segment) {
                self.deliver(&segment, packet);
                self.leave(now, window, seq, packet);
            } else {
                self.hold(window, seq, &segment);
            }
        }
        while let Some(place) = self.went_on.pop() {
            self.go_on(now, pool, window, place);
        }
    }

    /// A packet leaves before its turn.
    fn leave(&mut self, now: Time, window: &mut Reorder<Stored>, seq: Seq, packet: Stored) {
        self.passed += 1;
        window.leave(now, seq, packet.left());
        // Its number leaves in its turn.
        let number = None;
        self.packets.push_back(Stored { number, ..packet });
    }

    /// A packet is held, and does not continue its connection.
    fn hold(&mut self, window: &mut Reorder<Stored>, seq: Seq, segment: &Segment) {
        let (before, after) = match self.connections.hold(segment, seq) {
            Some(Link::After(last)) => (Some(last), None),
            Some(Link::Before(first)) => (None, Some(first)),
            Some(Link::Within(first)) => around(window, first, seq),
            None => return,
        };
        let links = [
            before.map(|before| (before, seq)),
            after.map(|after| (seq, after)),
        ];
        for (from, to) in links.into_iter().flatten() {
            if let Some(packet) = window.held_mut(from) {
                packet.behind = NonZeroU32::new(to.distance_from(from).unsigned_abs());
            }
        }
    }

    /// What is held of a connection leaves as far as it goes on.
    fn go_on(&mut self, now: Time, pool: &Pool, window: &mut Reorder<Stored>, place: usize) {
        while let Some(seq) = self.connections.first_held(place) {
            let packet = window.held_mut(seq).filter(|packet| !packet.has_left());
            let packet = packet.map(|packet| *packet);
            let segment = packet.and_then(|packet| Segment::of(pool.bytes(packet)));
            let Some((packet, segment)) = packet
                .zip(segment)
                .filter(|(_, segment)| self.connections.is_at(place, segment))
            else {
                // Another connection has the place, or numbers began anew.
                return self.connections.unlink(place);
            };
            if !self.connections.is_continued_by(&segment) {
                return;
            }
            self.deliver(&segment, packet);
            self.leave(now, window, seq, packet);
        }
    }

    /// Puts the packets in order block by block, as far as they have numbers of one numbering.
    pub(super) fn sort_blocks(&mut self, block: usize) {
        let packets = self.packets.make_contiguous();
        sort_blocks(packets, block, |a, b| a.number?.compare(b.number?));
    }

    /// The next packet for the TUN.
    pub(super) fn pop(&mut self) -> Option<Stored> {
        self.packets.pop_front()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }

    /// Packets that left before their turn, since start.
    pub(super) fn passed(&self) -> u64 {
        self.passed
    }

    /// Bytes of memory that they take, their buffers aside.
    #[inline]
    pub(super) fn memory(&self) -> usize {
        self.packets.capacity() * size_of::<Stored>() + self.connections.memory()
    }

    /// Gives memory back, once nothing is left to write.
    pub(super) fn rest(&mut self) {
        if self.packets.is_empty() {
            self.packets = VecDeque::new();
            self.went_on = Vec::new();
            self.connections.forget();
        }
    }
}

/// Between which two of a connection's segments that are held the number `seq` lies, from the first on.
fn around(window: &mut Reorder<Stored>, first: Seq, seq: Seq) -> (Option<Seq>, Option<Seq>) {
    let mut before = first;
    for _ in 0..MOST_STEPS {
        let behind = window.held_mut(before).and_then(|packet| packet.behind);
        let Some(behind) = behind else {
            break;
        };
        let after = before.plus(behind.get());
        if after.is_after(seq) {
            return (Some(before), Some(after));
        }
        before = after;
    }
    (None, None)
}

#[cfg(test)]
mod tests;

//! Packets that have their number and their path, and wait until that path can take them.
//!
//! A slower path is worth using once the faster ones are busy for as long as it adds. A packet that goes
//! over it then arrives no later than what was given to the faster ones before it. So those come first,
//! in number too: they are *committed* to the faster paths, enough of them to last until the slower one
//! delivers, and only the packet after them goes over it. All arrive nearly in order.
//!
//! What is to be sent again over a path waits its turn behind what is committed there with lower numbers: the receiver
//! needs those first anyway, and would take them for lost if it saw a higher number on that path before.
//!
//! What is committed to a path that has fallen silent is *moved* to others. When that path answers, what still waits there is
//! brought back: a path of 2 Mbit/s would take seconds for what one of 70 Mbit/s was about to send, and the receiver would
//! wait for it.

use std::collections::VecDeque;

use crate::path::{MAX_PATHS, PathId, PathSet};
use crate::send::slab::Stored;
use crate::seq::Seq;
use crate::wire::ip::Version;

/// A packet that is committed.
#[derive(Debug)]
pub(crate) struct CommittedPacket {
    pub(crate) seq: Seq,
    pub(crate) version: Version,
    /// The outer one.
    pub(crate) tos: u8,
    /// The inner packet.
    pub(crate) packet: Stored,
    /// The datagram's length.
    pub(crate) len: usize,
    /// The path that it was moved from.
    pub(crate) moved_from: Option<PathId>,
}

/// What is committed, by path.
#[derive(Debug, Default)]
pub(crate) struct Committed {
    queues: [VecDeque<CommittedPacket>; MAX_PATHS],
    bytes: [usize; MAX_PATHS],
    /// Paths from which packets were moved that may wait still.
    homes: PathSet,
}

impl Committed {
    pub(crate) fn is_empty(&self) -> bool {
        self.queues.iter().all(VecDeque::is_empty)
    }

    /// Gives memory back that no packet takes.
    pub(crate) fn rest(&mut self) {
        self.queues.iter_mut().for_each(VecDeque::shrink_to_fit);
    }

    /// Bytes of datagrams, by path.
    pub(crate) fn bytes(&self) -> &[usize; MAX_PATHS] {
        &self.bytes
    }

    pub(crate) fn packets(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum()
    }

    /// The lowest number.
    pub(crate) fn first(&self) -> Option<Seq> {
        let fronts = self.queues.iter().filter_map(VecDeque::front);
        fronts
            .map(|packet| packet.seq)
            .reduce(|a, b| if a.is_after(b) { b } else { a })
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = PathId> {
        (0..MAX_PATHS)
            .filter(|&index| !self.queues[index].is_empty())
            .filter_map(PathId::new)
    }

    /// Commits a packet whose number is the highest so far.
    pub(crate) fn push(&mut self, path: PathId, packet: CommittedPacket) {
        self.bytes[path.index()] += packet.len;
        self.queues[path.index()].push_back(packet);
    }

    /// Whether a lower number than `seq` is committed to the path.
    pub(crate) fn holds_before(&self, path: PathId, seq: Seq) -> bool {
        let first = self.queues[path.index()].front();
        first.is_some_and(|packet| seq.is_after(packet.seq))
    }

    /// Commits a packet in the order of numbers: one that is to be sent again, or whose path is gone.
    pub(crate) fn insert(&mut self, path: PathId, packet: CommittedPacket) {
        self.bytes[path.index()] += packet.len;
        let queue = &mut self.queues[path.index()];
        let place = queue.partition_point(|other| packet.seq.is_after(other.seq));
        queue.insert(place, packet);
    }

    /// Moves a packet that was taken from `home` to another path.
    pub(crate) fn move_to(&mut self, path: PathId, home: PathId, mut packet: CommittedPacket) {
        self.homes.insert(*packet.moved_from.get_or_insert(home));
        self.insert(path, packet);
    }

    /// Brings back what was moved from these paths and waits still.
    pub(crate) fn bring_back(&mut self, to: PathSet) {
        for home in PathSet::from_bits(self.homes.bits() & to.bits()).iter() {
            self.homes.remove(home);
            for path in (0..MAX_PATHS).filter_map(PathId::new) {
                for mut packet in self.take(path) {
                    if packet.moved_from == Some(home) {
                        packet.moved_from = None;
                        self.insert(home, packet);
                    } else {
                        self.insert(path, packet);
                    }
                }
            }
        }
    }

    /// What was moved from the path is not brought back: another one has its number now, and may not take it.
    pub(crate) fn forget_path(&mut self, path: PathId) {
        self.homes.remove(path);
        for packet in self.queues.iter_mut().flatten() {
            packet.moved_from = packet.moved_from.filter(|&home| home != path);
        }
    }

    pub(crate) fn pop(&mut self, path: PathId) -> Option<CommittedPacket> {
        let packet = self.queues[path.index()].pop_front()?;
        self.bytes[path.index()] -= packet.len;
        Some(packet)
    }

    /// Takes all that is committed to a path, in the order of numbers.
    pub(crate) fn take(&mut self, path: PathId) -> VecDeque<CommittedPacket> {
        self.bytes[path.index()] = 0;
        std::mem::take(&mut self.queues[path.index()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::send::slab::Slab;

    fn packet(slab: &mut Slab, seq: u32) -> CommittedPacket {
        CommittedPacket {
            seq: Seq::new(seq),
            version: Version::V4,
            tos: 0,
            packet: slab.store(100, |out| out.fill(seq as u8)),
            len: 104,
            moved_from: None,
        }
    }

    fn numbers(slab: &mut Slab, committed: &mut Committed, path: PathId) -> Vec<u32> {
        let mut numbers = Vec::new();
        while let Some(packet) = committed.pop(path) {
            slab.release(packet.packet);
            numbers.push(packet.seq.value());
        }
        assert_eq!(slab.holders(), committed.packets());
        numbers
    }

    #[test]
    fn packets_come_out_in_order_also_when_their_path_is_gone() {
        let [a, b] = [0, 1].map(|index| PathId::new(index).unwrap());
        let (mut committed, mut slab) = (Committed::default(), Slab::default());
        // Across the end of the numbers.
        for (path, seq) in [(a, u32::MAX - 1), (b, u32::MAX), (a, 0), (b, 1), (a, 2)] {
            committed.push(path, packet(&mut slab, seq));
        }
        assert_eq!(committed.first(), Some(Seq::new(u32::MAX - 1)));
        assert_eq!((committed.packets(), committed.bytes()[0]), (5, 312));
        assert_eq!(committed.paths().collect::<Vec<_>>(), [a, b]);
        for packet in committed.take(a) {
            committed.insert(b, packet);
        }
        assert_eq!((committed.bytes()[0], committed.bytes()[1]), (0, 520));
        assert_eq!(
            numbers(&mut slab, &mut committed, b),
            [u32::MAX - 1, u32::MAX, 0, 1, 2]
        );
        assert!(committed.is_empty() && committed.first().is_none());
        assert_eq!(*committed.bytes(), [0; MAX_PATHS]);
    }

    #[test]
    fn what_was_moved_comes_back_to_its_path_and_to_no_new_one_of_its_number() {
        let [a, b, c] = [0, 1, 2].map(|index| PathId::new(index).unwrap());
        for is_new in [false, true] {
            let (mut committed, mut slab) = (Committed::default(), Slab::default());
            for (path, seq) in [(a, u32::MAX), (b, 0), (a, 1), (c, 2), (a, 3), (b, 4)] {
                committed.push(path, packet(&mut slab, seq));
            }
            // Path a falls silent, and then b, to which its packets went.
            for packet in committed.take(a) {
                committed.move_to(b, a, packet);
            }
            for packet in committed.take(b) {
                committed.move_to(c, b, packet);
            }
            slab.release(committed.pop(c).unwrap().packet);
            committed.bring_back(PathSet::only(c));
            let [on_a, on_b, on_c] = [a, b, c].map(|path| committed.bytes()[path.index()] / 104);
            assert_eq!([on_a, on_b, on_c], [0, 0, 5]);
            if is_new {
                committed.forget_path(a);
                // What is moved once more, and back, does not remember it.
                for packet in committed.take(c) {
                    committed.move_to(b, c, packet);
                }
                committed.bring_back(PathSet::only(c));
            }
            committed.bring_back(PathSet::only(a));
            committed.bring_back(PathSet::only(b));
            let [on_a, on_b, on_c] = [a, b, c].map(|path| committed.bytes()[path.index()] / 104);
            assert_eq!(
                [on_a, on_b, on_c],
                if is_new { [0, 2, 3] } else { [2, 2, 1] }
            );
            assert_eq!(numbers(&mut slab, &mut committed, b), [0, 4]);
            let rest: &[u32] = if is_new { &[1, 2, 3] } else { &[2] };
            assert_eq!(numbers(&mut slab, &mut committed, c), rest);
            let back: &[u32] = if is_new { &[] } else { &[1, 3] };
            assert_eq!(numbers(&mut slab, &mut committed, a), back);
        }
    }

    #[test]
    fn what_is_sent_again_waits_behind_lower_numbers() {
        let [a, b] = [0, 1].map(|index| PathId::new(index).unwrap());
        let (mut committed, mut slab) = (Committed::default(), Slab::default());
        for seq in [u32::MAX, 1, 4] {
            committed.push(a, packet(&mut slab, seq));
        }
        let is_before = |path, seq| committed.holds_before(path, Seq::new(seq));
        assert!(is_before(a, 3) && !is_before(a, u32::MAX - 1) && !is_before(b, 3));
        committed.insert(a, packet(&mut slab, 3));
        assert_eq!(committed.bytes()[0], 416);
        assert_eq!(numbers(&mut slab, &mut committed, a), [u32::MAX, 1, 3, 4]);
    }
}

//! The queues of the sender: one for what is of no class, and of each class its own.
//!
//! A class of high priority has two: datagrams of it go by themselves, without a number, and pass what has one
//! ([`Lane::ByItself`]). All of them together have no more room than the one of a tunnel without classes.

use std::time::Duration;

use arrayvec::ArrayVec;

use crate::control::classes::ClassStatus;
use crate::limits::MAX_CLASSES;
use crate::send::classes::{Class, ClassConfig, ClassId, Classes, Priority};
use crate::send::queue::{Losses, MAX_BYTES, Queue};
use crate::send::scheduler::flow;
use crate::send::slab::{Slab, Stored};
use crate::send::sparse::Unordered;
use crate::time::Time;
use crate::windowed::Windowed;
use crate::wire::ip::Packet;

/// The round trip that the queues' patience is for is the longest of the last one or two of these spans. Radio links and
/// satellites change their delay every few seconds. A window that is halved while the delay is short does not fill the
/// links when it is long again, and grows by a packet each round trip. Shares of the sum of the links, late, beside those
/// with the present round trip (`campaign`): random pairs (`--pairs 300 --seed 3000`) 0.9 ± 0.2 % more, links as people
/// have them (`--family field --pairs 60 --seed 3000`) 3.8 ± 0.7 % more. Over six pairs of radio links (`--weather
/// lte-good+lte-bad` and the like, `--pairs 6 --seed 5000`) 0.635 becomes 0.668 with 4 s, 0.679 with 10 s, 0.680 with 30 s.
const ROUND_TRIP_SPAN: Duration = Duration::from_secs(10);

/// A queue of the sender's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// What is of no class.
    Rest,
    /// What is of a class.
    Class(ClassId),
    /// What of a class of high priority goes by itself.
    ByItself(ClassId),
}

impl Lane {
    /// The class that it is of.
    pub(crate) fn class(self) -> Option<ClassId> {
        match self {
            Lane::Rest => None,
            Lane::Class(id) | Lane::ByItself(id) => Some(id),
        }
    }
}

/// Queues of one priority, in the order of their classes.
pub(crate) type SamePriority = ArrayVec<Lane, { MAX_CLASSES + 1 }>;

/// What waits, and what is known of the classes that it is of.
#[derive(Debug)]
pub(crate) struct Lanes {
    rest: Queue,
    pub(crate) classes: Classes,
    longest_rtt: Windowed<Duration>,
}

impl Lanes {
    pub(crate) fn new() -> Lanes {
        Lanes {
            rest: Queue::new(),
            classes: Classes::default(),
            longest_rtt: Windowed::greatest(ROUND_TRIP_SPAN),
        }
    }

    fn queues(&mut self) -> impl Iterator<Item = &mut Queue> {
        let of_classes = self.classes.list.iter_mut().flat_map(Class::queues);
        of_classes.chain([&mut self.rest])
    }

    /// Packets are of these classes from now on. What waits in former ones waits as what is of none.
    pub(crate) fn set_classes(&mut self, slab: &mut Slab, now: Time, configs: &[ClassConfig]) {
        for mut former in self.classes.set(configs) {
            for queue in former.queues() {
                while let Some(packet) = queue.pop(slab, now) {
                    match Packet::parse(slab.bytes(&packet)).map(|parsed| flow::hash(&parsed)) {
                        Ok(flow) => self.rest.push(slab, now, flow, packet),
                        Err(_) => slab.release(packet),
                    }
                }
                self.rest.inherit(queue);
            }
        }
    }

    /// Paths have this round-trip time now. Suits the patience of all queues to the longest of the last seconds: see
    /// [`Queue::set_round_trip`].
    pub(crate) fn set_round_trip(&mut self, now: Time, rtt: Duration, added: Duration) {
        self.longest_rtt.note(now, rtt);
        let longest = self.longest_rtt.get().unwrap_or(rtt);
        self.queues()
            .for_each(|queue| queue.set_round_trip(longest, added));
    }

    /// Nothing was sent for some seconds: gives memory back.
    pub(crate) fn sleep(&mut self) {
        self.queues().for_each(Queue::rest);
    }

    /// Gives memory back that the packets which wait do not need.
    pub(crate) fn trim(&mut self) {
        self.queues().for_each(Queue::trim);
    }

    /// Packets that wait, and their bytes.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        let (packets, bytes) = self.classes.waiting();
        (packets + self.rest.packets(), bytes + self.rest.bytes())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting().0 == 0
    }

    /// Bytes that wait in a queue and in those that go before it or with it.
    pub(crate) fn waiting_with(&self, lane: Lane) -> usize {
        let class = lane.class().map(|id| &self.classes.list[id]);
        let priority = class.map_or(Priority::Normal, |class| class.config.priority);
        let rest = match priority {
            Priority::High => 0,
            Priority::Normal | Priority::Low => self.rest.bytes(),
        };
        rest + self.classes.waiting_before(priority)
    }

    /// Where a packet of a class waits.
    pub(crate) fn lane_of(&self, class: Option<ClassId>, packet: &Packet<'_>) -> Lane {
        let known = class.and_then(|id| Some((id, self.classes.list.get(id)?)));
        match known {
            None => Lane::Rest,
            Some((id, class))
                if class.config.priority == Priority::High
                    && Unordered::of(packet) == Some(Unordered::Datagram) =>
            {
                Lane::ByItself(id)
            }
            Some((id, _)) => Lane::Class(id),
        }
    }

    /// Whether what has a number waits of this flow, which is of this class.
    pub(crate) fn holds(&self, class: Option<ClassId>, flow: u64) -> bool {
        let class = class.and_then(|class| self.classes.list.get(class));
        let queue = class.map_or(&self.rest, |class| &class.queue);
        queue.holds(flow)
    }

    pub(crate) fn queue(&mut self, lane: Lane) -> &mut Queue {
        match lane {
            Lane::Rest => &mut self.rest,
            Lane::Class(id) => &mut self.classes.list[id].queue,
            Lane::ByItself(id) => &mut self.classes.list[id].by_itself,
        }
    }

    /// Lets a packet wait. The queue that is longest makes room where there is none.
    pub(crate) fn push(
        &mut self,
        slab: &mut Slab,
        now: Time,
        lane: Lane,
        flow: u64,
        packet: Stored,
    ) {
        while !self.classes.is_empty() && self.waiting().1 + packet.len() > MAX_BYTES {
            let Some(longest) = self.queues().max_by_key(|queue| queue.bytes()) else {
                break;
            };
            longest.shed(slab);
        }
        self.queue(lane).push(slab, now, flow, packet);
    }

    /// Drops from the longest flows, as queues do that are full, until `bytes` less wait or nothing does. Whether anything
    /// did.
    pub(crate) fn shed(&mut self, slab: &mut Slab, bytes: usize) -> bool {
        let (_, before) = self.waiting();
        while before - self.waiting().1 < bytes
            && let Some(longest) = self.queues().max_by_key(|queue| queue.bytes())
            && !longest.is_empty()
        {
            longest.shed(slab);
        }
        before > 0
    }

    /// The queues of what goes by itself.
    pub(crate) fn by_themselves(&self) -> SamePriority {
        (0..self.classes.list.len()).map(Lane::ByItself).collect()
    }

    /// The others of a priority.
    pub(crate) fn of_priority(&self, priority: Priority) -> SamePriority {
        let classes = self.classes.list.iter().enumerate();
        let known = classes.filter(|(_, class)| class.config.priority == priority);
        let rest = (priority == Priority::Normal).then_some(Lane::Rest);
        known.map(|(id, _)| Lane::Class(id)).chain(rest).collect()
    }

    /// No path takes what waits there: says how many packets are dropped.
    pub(crate) fn clear(&mut self, slab: &mut Slab, lane: Lane) -> u64 {
        let left = self.queue(lane).clear(slab);
        if let Some(id) = lane.class() {
            self.classes.list[id].counters.dropped_no_path += left;
        }
        left
    }

    /// The next packet of any queue.
    pub(crate) fn pop(&mut self, slab: &mut Slab, now: Time) -> Option<Stored> {
        self.queues().find_map(|queue| queue.pop(slab, now))
    }

    /// What was dropped and marked since this was last asked.
    pub(crate) fn take_losses(&mut self) -> Losses {
        let mut all = self.rest.take_losses();
        for class in &mut self.classes.list {
            let mut dropped = 0;
            for queue in class.queues() {
                let losses = queue.take_losses();
                dropped += losses.late + losses.overflowed;
                all.late += losses.late;
                all.overflowed += losses.overflowed;
                all.marked += losses.marked;
            }
            class.counters.dropped_queue += dropped;
        }
        all
    }

    /// Packets that were marked in place of being dropped.
    pub(crate) fn marked(&self) -> u64 {
        self.rest.losses().marked + self.classes.marked()
    }

    /// What the classes have come to.
    pub(crate) fn report(&self) -> Vec<ClassStatus> {
        let of = |class: &Class| {
            let (packets, bytes) = class.waiting();
            ClassStatus {
                queue_packets: packets as u64,
                queue_bytes: bytes as u64,
                ..class.counters.clone()
            }
        };
        self.classes.list.iter().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ecn;

    #[test]
    fn what_former_classes_marked_and_dropped_is_counted_when_there_are_others() {
        let (mut lanes, mut slab) = (Lanes::new(), Slab::default());
        lanes.set_classes(&mut slab, Time::ZERO, &[ClassConfig::default()]);
        let mut packets = [vec![0; 1000], vec![0; 1000]];
        for (packet, tos) in packets.iter_mut().zip([ecn::ECT_0, ecn::NOT_ECT]) {
            // IPv4, 1000 bytes, to and from 0.0.0.0.
            packet[..4].copy_from_slice(&[0x45, tos, 0x03, 0xe8]);
        }
        // Two a millisecond come and one goes, for a second.
        let mut now = Time::ZERO;
        for _ in 0..1000 {
            now = now + Duration::from_millis(1);
            for (flow, packet) in (0..).zip(&packets) {
                let stored = slab.store(packet.len(), |out| out.copy_from_slice(packet));
                lanes.push(&mut slab, now, Lane::Class(0), flow, stored);
            }
            if let Some(gone) = lanes.pop(&mut slab, now) {
                slab.release(gone);
            }
        }
        let told = lanes.take_losses();
        assert!(told.late > 10 && told.marked > 10, "{told:?}");
        let (marked, waiting) = (lanes.marked(), lanes.waiting().0);
        let later = now + Duration::from_secs(1);
        lanes.set_classes(&mut slab, later, &[]);
        let moving = lanes.take_losses();
        assert_eq!(lanes.marked(), marked + moving.marked);
        assert_eq!(lanes.waiting().0 as u64 + moving.late, waiting as u64);
        assert!(moving.late > 0, "what waited for a second is dropped from");
    }

    /// One packet a millisecond for a second from `start_s` on, each of which waits for 60 ms: how many are dropped.
    fn dropped(lanes: &mut Lanes, start_s: u64) -> u64 {
        let mut slab = Slab::default();
        let start = Time::ZERO + Duration::from_secs(start_s);
        for ms in 0..1060 {
            let now = start + Duration::from_millis(ms);
            if ms < 1000 {
                let stored = slab.store(1000, |out| out.fill(0));
                lanes.push(&mut slab, now, Lane::Rest, 1, stored);
            }
            if ms >= 60
                && let Some(gone) = lanes.pop(&mut slab, now)
            {
                slab.release(gone);
            }
        }
        lanes.take_losses().late
    }

    #[test]
    fn a_delay_that_was_longer_a_while_ago_is_waited_for_and_then_forgotten() {
        let mut lanes = Lanes::new();
        let rtt = Duration::from_millis;
        let second = |s| Time::ZERO + Duration::from_secs(s);
        lanes.set_round_trip(Time::ZERO, rtt(200), Duration::ZERO);
        lanes.set_round_trip(second(1), rtt(20), Duration::ZERO);
        assert_eq!(dropped(&mut lanes, 1), 0, "half of 200 ms");
        lanes.set_round_trip(second(9), rtt(20), Duration::ZERO);
        assert_eq!(dropped(&mut lanes, 9), 0, "a span is not over");
        lanes.set_round_trip(second(21), rtt(20), Duration::ZERO);
        assert!(dropped(&mut lanes, 21) > 0, "half of 20 ms");
    }
}

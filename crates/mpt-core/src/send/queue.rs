//! The sender's own queue: what the paths cannot take yet.
//!
//! When every path that would help is busy, packets wait here and not in the queue of some modem, so
//! that they are bound to a path at the last moment, and so that the wait is fair and short. It is
//! FQ-CoDel (RFC 8290): packets are hashed by flow into buckets that are served in turn (deficit
//! round robin), those of flows that just began to send first; CoDel ([`codel`], RFC 8289) drops or
//! marks from a flow whose packets keep waiting too long. The flow that fills the queue pays when it
//! is full.
//!
//! CoDel's target is no constant here. A lone loss-based flow needs about half a round trip of queue
//! to keep the paths busy when it backs off; as flows do not wait for each other, only that flow's
//! own packets are delayed by it.

pub(crate) mod codel;

use std::collections::VecDeque;
use std::time::Duration;

use codel::{Codel, Verdict};

use crate::send::slab::{Slab, Stored};
use crate::time::Time;
use crate::wire::checksum;
use crate::wire::ecn;
use crate::wire::ip::{Version, field, put_u16, u16_at};

/// Most packets that wait.
const MAX_PACKETS: usize = 12_288;
/// Most bytes that wait, of all classes together: one path's round trip of 300 ms at 300 Mbit/s.
pub(crate) const MAX_BYTES: usize = 8 << 20;
/// A path that adds more than this is not waited for.
const LONGEST_ADDED: Duration = Duration::from_millis(500);
/// Flows are hashed into so many buckets.
const BUCKETS: usize = 1024;
/// Bytes that a bucket may send in its turn (RFC 8290 §5.2: one packet of the common size).
const QUANTUM: i32 = 1514;
/// CoDel drops a packet only if at least so many bytes are behind it, four full packets. A sender learns of a loss from the
/// three packets behind it (RFC 5681 §3.2), and else waits for its timer. RFC 8289 §4.4 has one packet here; with that, pages
/// over 600 random pairs get 0.2 ± 0.1 % less of the sum of their links, and bulk flows the same (`--family pages`).
const LEAST_BEHIND: u32 = 4 * QUANTUM as u32;
/// Most packets dropped at once from the longest bucket when the queue is full (RFC 8290 §4.1.2).
const DROP_BATCH: usize = 64;
/// No packet.
const NONE: u16 = u16::MAX;

/// A packet that waits.
#[derive(Debug, Default)]
struct Slot {
    /// None in a slot that is free.
    packet: Option<Stored>,
    since: Time,
    next: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Turn {
    /// In neither list: nothing waits.
    #[default]
    Idle,
    /// Among those that just began.
    New,
    Old,
}

#[derive(Debug)]
struct Bucket {
    head: u16,
    tail: u16,
    bytes: u32,
    deficit: i32,
    turn: Turn,
    codel: Codel,
}

impl Default for Bucket {
    fn default() -> Bucket {
        Bucket {
            head: NONE,
            tail: NONE,
            bytes: 0,
            deficit: 0,
            turn: Turn::Idle,
            codel: Codel::default(),
        }
    }
}

/// What the queue did to packets that it did not hand out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Losses {
    /// Dropped since they, or those before them, had waited too long.
    pub(crate) late: u64,
    /// Dropped since the queue was full.
    pub(crate) overflowed: u64,
    /// Not dropped but marked "congestion experienced".
    pub(crate) marked: u64,
}

/// The queue.
#[derive(Debug)]
pub(crate) struct Queue {
    slots: Vec<Slot>,
    free: Vec<u16>,
    /// None while no packet has waited yet.
    buckets: Box<[Bucket]>,
    new: VecDeque<u16>,
    old: VecDeque<u16>,
    packets: usize,
    bytes: usize,
    target: Duration,
    interval: Duration,
    losses: Losses,
    /// Those of them that [`Queue::take_losses`] told of.
    told: Losses,
}

impl Queue {
    pub(crate) fn new() -> Queue {
        Queue {
            slots: Vec::new(),
            free: Vec::new(),
            buckets: Box::default(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            packets: 0,
            bytes: 0,
            target: codel::TARGET,
            interval: codel::INTERVAL,
            losses: Losses::default(),
            told: Losses::default(),
        }
    }

    /// Nothing was sent for some seconds: gives the memory back, unless packets wait.
    pub(crate) fn rest(&mut self) {
        if self.is_empty() {
            *self = Queue {
                target: self.target,
                interval: self.interval,
                losses: self.losses,
                told: self.told,
                ..Queue::new()
            };
        }
    }

    /// Gives memory back that the packets which wait do not need.
    pub(crate) fn trim(&mut self) {
        self.rest();
        while self.slots.last().is_some_and(|slot| slot.packet.is_none()) {
            self.slots.pop();
        }
        let left = self.slots.len();
        self.free.retain(|&index| usize::from(index) < left);
        self.slots.shrink_to_fit();
        self.free.shrink_to_fit();
    }

    /// Suits the patience to paths with this round-trip time, the slowest of which is used once
    /// packets wait for as long as it adds.
    pub(crate) fn set_round_trip(&mut self, rtt: Duration, added: Duration) {
        let behind = (rtt / 2).clamp(codel::TARGET, codel::INTERVAL * 2);
        self.target = behind + added.min(LONGEST_ADDED);
        self.interval = (rtt * 2).clamp(codel::INTERVAL, codel::INTERVAL * 8);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// Packets that wait.
    pub(crate) fn packets(&self) -> usize {
        self.packets
    }

    /// Bytes that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// What was dropped and marked since start.
    pub(crate) fn losses(&self) -> Losses {
        self.losses
    }

    /// Counts what a queue that is no more has dropped and marked.
    pub(crate) fn inherit(&mut self, former: &Queue) {
        for (own, of_former) in [
            (&mut self.losses, former.losses),
            (&mut self.told, former.told),
        ] {
            own.late += of_former.late;
            own.overflowed += of_former.overflowed;
            own.marked += of_former.marked;
        }
    }

    /// The same since this was last asked.
    pub(crate) fn take_losses(&mut self) -> Losses {
        let told = std::mem::replace(&mut self.told, self.losses);
        Losses {
            late: self.losses.late - told.late,
            overflowed: self.losses.overflowed - told.overflowed,
            marked: self.losses.marked - told.marked,
        }
    }

    /// Whether packets of this flow wait.
    pub(crate) fn holds(&self, flow: u64) -> bool {
        self.packets > 0 && self.buckets[flow as usize % BUCKETS].head != NONE
    }

    /// Lets a packet wait.
    pub(crate) fn push(&mut self, slab: &mut Slab, now: Time, flow: u64, packet: Stored) {
        let len = packet.len();
        while self.packets >= MAX_PACKETS || self.bytes + len > MAX_BYTES {
            self.shed(slab);
        }
        if self.buckets.is_empty() {
            self.buckets = (0..BUCKETS).map(|_| Bucket::default()).collect();
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (self.slots.len() - 1) as u16
        });
        let slot = &mut self.slots[usize::from(index)];
        *slot = Slot {
            packet: Some(packet),
            since: now,
            next: NONE,
        };
        let name = (flow as usize % BUCKETS) as u16;
        let bucket = &mut self.buckets[usize::from(name)];
        match bucket.tail {
            NONE => bucket.head = index,
            tail => self.slots[usize::from(tail)].next = index,
        }
        bucket.tail = index;
        bucket.bytes += len as u32;
        if bucket.turn == Turn::Idle {
            bucket.turn = Turn::New;
            bucket.deficit = QUANTUM;
            self.new.push_back(name);
        }
        self.packets += 1;
        self.bytes += len;
    }

    /// Forgets all that waits; says how many packets that were.
    pub(crate) fn clear(&mut self, slab: &mut Slab) -> u64 {
        let cleared = self.packets as u64;
        for name in 0..self.buckets.len() {
            while let Some((packet, _)) = self.unlink(name) {
                slab.release(packet);
            }
        }
        cleared
    }

    /// Takes the next packet out; `None` when none is left. RFC 8290 §4.2: new buckets before old ones, each as
    /// long as its deficit lasts.
    pub(crate) fn pop(&mut self, slab: &mut Slab, now: Time) -> Option<Stored> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let &name = list.front()?;
            if self.buckets[usize::from(name)].deficit <= 0 {
                list.pop_front();
                let bucket = &mut self.buckets[usize::from(name)];
                bucket.deficit += QUANTUM;
                bucket.turn = Turn::Old;
                self.old.push_back(name);
                continue;
            }
            if let Some(packet) = self.next_of_bucket(slab, now, usize::from(name)) {
                return Some(packet);
            }
            // An emptied new bucket goes through the old list once, lest it come back as new.
            let bucket = &mut self.buckets[usize::from(name)];
            if is_new {
                self.new.pop_front();
                bucket.turn = Turn::Old;
                self.old.push_back(name);
            } else {
                self.old.pop_front();
                bucket.turn = Turn::Idle;
            }
        }
    }

    /// The bucket's first packet that CoDel lets pass.
    fn next_of_bucket(&mut self, slab: &mut Slab, now: Time, name: usize) -> Option<Stored> {
        loop {
            let Some((packet, since)) = self.unlink(name) else {
                self.buckets[name].codel.emptied();
                return None;
            };
            let bucket = &mut self.buckets[name];
            let waited = now.since(since);
            let is_short = bucket.bytes < LEAST_BEHIND;
            let verdict = bucket
                .codel
                .judge(now, waited, is_short, self.target, self.interval);
            if verdict == Verdict::Drop {
                if mark(slab.bytes_mut(&packet)) {
                    self.losses.marked += 1;
                } else {
                    self.losses.late += 1;
                    slab.release(packet);
                    continue;
                }
            }
            bucket.deficit -= packet.len() as i32;
            return Some(packet);
        }
    }

    /// The bucket's first packet, and since when it has waited.
    fn unlink(&mut self, name: usize) -> Option<(Stored, Time)> {
        let bucket = &mut self.buckets[name];
        let slot = self.slots.get_mut(usize::from(bucket.head))?;
        let packet = slot.packet.take()?;
        self.free.push(bucket.head);
        bucket.head = slot.next;
        if bucket.head == NONE {
            bucket.tail = NONE;
        }
        bucket.bytes -= packet.len() as u32;
        self.packets -= 1;
        self.bytes -= packet.len();
        Some((packet, slot.since))
    }

    /// Drops from the head of the longest bucket: up to half of it.
    pub(crate) fn shed(&mut self, slab: &mut Slab) {
        let lengths = self.buckets.iter().map(|bucket| bucket.bytes).enumerate();
        let Some((longest, bytes)) = lengths.max_by_key(|&(_, bytes)| bytes) else {
            return;
        };
        for _ in 0..DROP_BATCH {
            if self.buckets[longest].bytes <= bytes / 2 {
                return;
            }
            if let Some((packet, _)) = self.unlink(longest) {
                slab.release(packet);
                self.losses.overflowed += 1;
            }
        }
    }
}

/// Marks an ECN-capable packet (RFC 3168 §5). Says whether it was one.
fn mark(packet: &mut [u8]) -> bool {
    match packet.first().copied().and_then(Version::of) {
        Some(Version::V4) => {
            let tos = packet[field::v4::TOS];
            if tos & ecn::ECN_MASK == ecn::NOT_ECT {
                return false;
            }
            let word = u16_at(packet, 0);
            packet[field::v4::TOS] = tos | ecn::CE;
            let sum = u16_at(packet, field::v4::CHECKSUM.start);
            let sum = checksum::updated(sum, word, u16_at(packet, 0));
            put_u16(packet, field::v4::CHECKSUM.start, sum);
            true
        }
        // The Traffic Class is the second and third half-byte.
        Some(Version::V6) if packet[1] >> 4 & ecn::ECN_MASK != ecn::NOT_ECT => {
            packet[1] |= ecn::CE << 4;
            true
        }
        Some(Version::V6) | None => false,
    }
}

#[cfg(test)]
mod tests;

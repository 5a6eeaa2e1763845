//! The reorder window: packets that arrive over several paths leave in the order they were sent.
//!
//! `next` is the number that is to be delivered next. A packet with that number leaves at once, and
//! with it all that were held directly behind it. A packet ahead of it is held in one of `window`
//! slots, by number modulo the slots. Numbers missing between delivered ones form the gap; each
//! missing number ends in exactly one of four ways, and each is counted:
//!
//! * **filled**: its packet arrived.
//! * **inferred lost**: paths deliver in order, so once every path that is waited for has delivered
//!   (or, by the watermark in its probes, announced) something beyond a missing number, that number
//!   is lost; what is behind it leaves at once.
//! * **timed out**: a packet behind it had been held for `max_buffer_delay`.
//! * **overflowed**: a packet arrived that the window could not hold otherwise; the head of the
//!   window is released, just as much of it as is needed.
//!
//! A packet below `next` is late: it was given up before. It is still worth delivering (TCP copes
//! better with a late packet than with a lost one) unless the policy says otherwise, but never
//! twice: one bit for each of the last 65,536 numbers remembers what was delivered.
//!
//! The cost is O(1) a packet: releasing `n` numbers was paid for by the `n` that came before.

use std::collections::VecDeque;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::control::LatePolicy;
use crate::path::{MAX_PATHS, PathId, PathSet};
use crate::seq::Seq;
use crate::time::Time;

/// Largest window, in sequence numbers.
pub const MAX_WINDOW: u32 = 32_768;

/// Numbers behind `next` whose fate is remembered, and distance ahead of `next` that is believed
/// without more proof. The second must exceed any honest skew: 1 Gbit/s of 1400-byte packets over
/// paths 500 ms apart are 45,000.
pub const MAX_DISTANCE: u32 = 65_536;

/// How the window behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReorderConfig {
    /// Sequence numbers that may be held, at most [`MAX_WINDOW`]; 0 turns reordering off.
    pub window: u32,
    /// Longest that a packet may be held.
    pub max_buffer_delay: Duration,
    /// What happens to late packets.
    pub late: LatePolicy,
}

/// What has happened since the start. `in_order + reordered + late + duplicates` is every packet
/// that was inserted and believed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReorderCounters {
    /// Packets with a number above all before them.
    pub in_order: u64,
    /// Packets with a number below one seen before, but in time (RFC 4737 §3.3's reordered).
    pub reordered: u64,
    /// Packets that came after their number was given up.
    pub late: u64,
    /// Packets that came again.
    pub duplicates: u64,
    /// Most packets held at once.
    pub held_max: u32,
    /// Numbers that were missing when a later one became known.
    pub gaps_seen: u64,
    /// Missing numbers that arrived in time.
    pub gaps_filled: u64,
    /// Missing numbers that every path had passed.
    pub gaps_inferred_lost: u64,
    /// Missing numbers given up after `max_buffer_delay`.
    pub gaps_timed_out: u64,
    /// Missing numbers given up for want of room.
    pub gaps_overflowed: u64,
}

/// What became of an inserted packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// It was delivered or is held.
    Taken,
    /// It was delivered or is held already: to be dropped.
    Duplicate,
    /// It came too late and the policy is to drop.
    LateDropped,
    /// Its number is [`MAX_DISTANCE`] or more from what is expected: nothing has changed; the
    /// caller decides whether it believes that, and if so calls [`Reorder::resync`].
    Unbelievable,
}

#[derive(Clone, Copy)]
enum Cause {
    InferredLost,
    TimedOut,
    Overflowed,
}

#[derive(Clone, Copy)]
struct Slot<T> {
    item: Option<T>,
    arrived: Time,
}

/// A reorder window over packets `T` (a small descriptor). What is released goes to `out`, in order.
pub struct Reorder<T> {
    config: ReorderConfig,
    /// The number to be delivered next.
    next: Seq,
    /// One past the highest number known to have been sent. Equal to `next` when nothing is held.
    high: Seq,
    slots: Box<[Slot<T>]>,
    held: u32,
    /// Held packets by arrival, oldest first; entries below `next` have left already. At most twice
    /// the window: behind a held entry, each number of the window can be entered once.
    arrivals: VecDeque<(Seq, Time)>,
    /// One past the highest number that each path has delivered or announced.
    edges: [Seq; MAX_PATHS],
    waited_for: PathSet,
    delivered: Delivered,
    counters: ReorderCounters,
    hold_us: Histogram<u64>,
}

impl<T: Copy> Reorder<T> {
    /// An empty window that expects `first`.
    #[must_use]
    pub fn new(config: ReorderConfig, first: Seq) -> Self {
        let config = ReorderConfig {
            window: config.window.min(MAX_WINDOW),
            ..config
        };
        Reorder {
            config,
            next: first,
            high: first,
            slots: empty_slots(config.window),
            held: 0,
            arrivals: VecDeque::with_capacity(2 * config.window as usize),
            edges: [first; MAX_PATHS],
            waited_for: PathSet::EMPTY,
            delivered: Delivered::new(),
            counters: ReorderCounters::default(),
            hold_us: hold_time_histogram(),
        }
    }

    /// Takes the packet `item` with number `seq` that arrived on `path`.
    #[inline]
    pub fn insert(
        &mut self,
        now: Time,
        path: PathId,
        seq: Seq,
        item: T,
        out: &mut impl FnMut(T),
    ) -> Verdict {
        if seq == self.next && self.held == 0 {
            self.counters.in_order += 1;
            self.delivered.set(seq, true);
            self.next = seq.next();
            self.high = self.next;
            self.edges[path.index()] = self.next;
            out(item);
            return Verdict::Taken;
        }
        self.insert_out_of_step(now, path, seq, item, out)
    }

    fn insert_out_of_step(
        &mut self,
        now: Time,
        path: PathId,
        seq: Seq,
        item: T,
        out: &mut impl FnMut(T),
    ) -> Verdict {
        let ahead = seq.distance_from(self.next);
        if ahead.unsigned_abs() >= MAX_DISTANCE {
            return Verdict::Unbelievable;
        }
        let edge = &mut self.edges[path.index()];
        *edge = seq.next().later(*edge);
        if ahead < 0 {
            return self.insert_late(seq, item, out);
        }
        if self.is_held(seq) {
            self.counters.duplicates += 1;
            return Verdict::Duplicate;
        }
        if self.high.is_after(seq) {
            self.counters.reordered += 1;
            self.counters.gaps_filled += 1;
        } else {
            self.counters.in_order += 1;
            self.raise_high(seq);
            self.high = seq.next();
        }

        let room = self.config.window.max(1);
        if ahead.unsigned_abs() >= room {
            self.advance(
                now,
                seq.plus(1u32.wrapping_sub(room)),
                Cause::Overflowed,
                out,
            );
        }
        if seq == self.next {
            self.delivered.set(seq, true);
            self.next = seq.next();
            out(item);
        } else {
            self.hold(now, seq, item);
        }
        self.release_run(now, out);
        if self.held > 0 {
            self.infer_lost(now, out);
        }
        Verdict::Taken
    }

    fn insert_late(&mut self, seq: Seq, item: T, out: &mut impl FnMut(T)) -> Verdict {
        if self.delivered.get(seq) {
            self.counters.duplicates += 1;
            return Verdict::Duplicate;
        }
        self.counters.late += 1;
        self.delivered.set(seq, true);
        match self.config.late {
            LatePolicy::Deliver => {
                out(item);
                Verdict::Taken
            }
            LatePolicy::Drop => Verdict::LateDropped,
        }
    }

    /// Says that everything below `edge` that went over `path` has been sent before: the watermark
    /// of a probe. Returns `false`, and changes nothing, when that is unbelievably far away.
    #[must_use]
    pub fn announce(
        &mut self,
        now: Time,
        path: PathId,
        edge: Seq,
        out: &mut impl FnMut(T),
    ) -> bool {
        let ahead = edge.distance_from(self.next);
        if ahead.unsigned_abs() >= MAX_DISTANCE {
            return false;
        }
        let known = &mut self.edges[path.index()];
        *known = edge.later(*known);
        self.infer_lost(now, out);
        true
    }

    /// Which paths may still deliver what is missing. A path that is no longer among them stops
    /// being waited for in that instant.
    pub fn wait_for(&mut self, now: Time, paths: PathSet, out: &mut impl FnMut(T)) {
        for path in paths.iter().filter(|&path| !self.waited_for.contains(path)) {
            self.edges[path.index()] = self.next;
        }
        self.waited_for = paths;
        self.infer_lost(now, out);
    }

    /// When [`Reorder::handle_timeout`] is to be called next.
    #[must_use]
    pub fn poll_timeout(&mut self) -> Option<Time> {
        self.oldest_held()
            .map(|(_, arrived)| arrived + self.config.max_buffer_delay)
    }

    /// Releases what has been held for `max_buffer_delay`, and what is before it.
    pub fn handle_timeout(&mut self, now: Time, out: &mut impl FnMut(T)) {
        while let Some((seq, arrived)) = self.oldest_held() {
            if arrived + self.config.max_buffer_delay > now {
                break;
            }
            self.advance(now, seq.next(), Cause::TimedOut, out);
            self.release_run(now, out);
        }
    }

    /// Expects `first`, before anything was inserted: numbers below it are late, not duplicates.
    pub fn begin_at(&mut self, first: Seq) {
        self.next = first;
        self.high = first;
        self.edges = [first; MAX_PATHS];
    }

    /// Releases everything and expects `first`: the sender began anew. Numbers below `first` count
    /// as delivered: packets of the former numbering must not come again in the guise of late ones.
    pub fn resync(&mut self, now: Time, first: Seq, out: &mut impl FnMut(T)) {
        self.advance(now, self.high, Cause::InferredLost, out);
        self.begin_at(first);
        self.arrivals.clear();
        self.delivered.0.fill(u64::MAX);
    }

    /// Changes the settings; what no longer fits is released.
    pub fn reconfigure(&mut self, now: Time, config: ReorderConfig, out: &mut impl FnMut(T)) {
        let config = ReorderConfig {
            window: config.window.min(MAX_WINDOW),
            ..config
        };
        let first_that_fits = self.high.plus(config.window.max(1).wrapping_neg());
        if self.held > 0 && first_that_fits.is_after(self.next) {
            self.advance(now, first_that_fits, Cause::Overflowed, out);
            self.release_run(now, out);
        }
        let mut slots = empty_slots(config.window);
        for offset in 0..self.slots.len() as u32 {
            let seq = self.next.plus(offset);
            let slot = self.slots[self.index(seq)];
            if slot.item.is_some() {
                slots[seq.value() as usize & (slots.len() - 1)] = slot;
            }
        }
        self.slots = slots;
        self.config = config;
        self.arrivals.reserve(2 * config.window as usize);
    }

    /// The settings in force.
    #[must_use]
    pub fn config(&self) -> ReorderConfig {
        self.config
    }

    /// The number that is to be delivered next.
    #[must_use]
    pub fn next_expected(&self) -> Seq {
        self.next
    }

    /// Packets held now.
    #[must_use]
    pub fn held(&self) -> u32 {
        self.held
    }

    /// Missing numbers being waited for now.
    #[must_use]
    pub fn gaps_open(&self) -> u32 {
        self.high.distance_from(self.next).unsigned_abs() - self.held
    }

    /// What has happened since the start.
    #[must_use]
    pub fn counters(&self) -> &ReorderCounters {
        &self.counters
    }

    /// How long held packets were held, in microseconds.
    #[must_use]
    pub fn hold_us(&self) -> &Histogram<u64> {
        &self.hold_us
    }

    fn hold(&mut self, now: Time, seq: Seq, item: T) {
        let index = self.index(seq);
        self.slots[index] = Slot {
            item: Some(item),
            arrived: now,
        };
        self.held += 1;
        self.counters.held_max = self.counters.held_max.max(self.held);
        while self
            .arrivals
            .front()
            .is_some_and(|&(seq, _)| self.next.is_after(seq))
        {
            self.arrivals.pop_front();
        }
        self.arrivals.push_back((seq, now));
    }

    /// Delivers what stands directly at `next`.
    fn release_run(&mut self, now: Time, out: &mut impl FnMut(T)) {
        while self.held > 0 && self.release_one(now, out) {}
    }

    /// Delivers the packet at `next` if it is held, and steps over it.
    fn release_one(&mut self, now: Time, out: &mut impl FnMut(T)) -> bool {
        let index = self.index(self.next);
        let Some(item) = self.slots[index].item.take() else {
            return false;
        };
        let held_for = now.since(self.slots[index].arrived);
        self.hold_us
            .saturating_record(u64::try_from(held_for.as_micros()).unwrap_or(u64::MAX));
        self.held -= 1;
        self.delivered.set(self.next, true);
        self.next = self.next.next();
        out(item);
        true
    }

    /// Gives up what is missing below `target` and delivers what is held there.
    fn advance(&mut self, now: Time, target: Seq, cause: Cause, out: &mut impl FnMut(T)) {
        if target.is_after(self.high) {
            self.raise_high(target);
        }
        let mut given_up = 0;
        while self.held > 0 && target.is_after(self.next) {
            if !self.release_one(now, out) {
                self.delivered.set(self.next, false);
                self.next = self.next.next();
                given_up += 1;
            }
        }
        let rest = target.distance_from(self.next);
        if rest > 0 {
            self.delivered.forget(self.next, rest.unsigned_abs());
            given_up += u64::from(rest.unsigned_abs());
            self.next = target;
        }
        match cause {
            Cause::InferredLost => self.counters.gaps_inferred_lost += given_up,
            Cause::TimedOut => self.counters.gaps_timed_out += given_up,
            Cause::Overflowed => self.counters.gaps_overflowed += given_up,
        }
    }

    fn infer_lost(&mut self, now: Time, out: &mut impl FnMut(T)) {
        let frontier = self
            .waited_for
            .iter()
            .map(|path| self.edges[path.index()])
            .reduce(|a, b| if a.is_after(b) { b } else { a });
        if let Some(frontier) = frontier.filter(|frontier| frontier.is_after(self.next)) {
            self.advance(now, frontier, Cause::InferredLost, out);
            self.release_run(now, out);
        }
    }

    fn raise_high(&mut self, seq: Seq) {
        self.counters.gaps_seen += u64::from(seq.distance_from(self.high).unsigned_abs());
        self.high = seq;
    }

    fn oldest_held(&mut self) -> Option<(Seq, Time)> {
        while let Some(&(seq, arrived)) = self.arrivals.front() {
            if !self.next.is_after(seq) {
                return Some((seq, arrived));
            }
            self.arrivals.pop_front();
        }
        None
    }

    fn is_held(&self, seq: Seq) -> bool {
        let within = seq.distance_from(self.next).unsigned_abs() < self.slots.len() as u32;
        within && self.slots[self.index(seq)].item.is_some()
    }

    fn index(&self, seq: Seq) -> usize {
        seq.value() as usize & (self.slots.len() - 1)
    }
}

/// One bit for each of the last [`MAX_DISTANCE`] numbers: was it delivered?
struct Delivered(Box<[u64; (MAX_DISTANCE / 64) as usize]>);

impl Delivered {
    fn new() -> Self {
        Delivered(Box::new([0; (MAX_DISTANCE / 64) as usize]))
    }

    #[inline]
    fn set(&mut self, seq: Seq, delivered: bool) {
        let (word, bit) = Delivered::place(seq);
        self.0[word] = (self.0[word] & !(1 << bit)) | (u64::from(delivered) << bit);
    }

    #[inline]
    fn get(&self, seq: Seq) -> bool {
        let (word, bit) = Delivered::place(seq);
        self.0[word] >> bit & 1 == 1
    }

    /// Clears `count` bits from `from` on.
    fn forget(&mut self, from: Seq, count: u32) {
        if count >= MAX_DISTANCE {
            self.0.fill(0);
            return;
        }
        for step in 0..count {
            self.set(from.plus(step), false);
        }
    }

    #[inline]
    fn place(seq: Seq) -> (usize, u32) {
        let at = seq.value() % MAX_DISTANCE;
        ((at / 64) as usize, at % 64)
    }
}

fn empty_slots<T: Copy>(window: u32) -> Box<[Slot<T>]> {
    let slots = window.max(1).next_power_of_two() as usize;
    vec![
        Slot {
            item: None,
            arrived: Time::ZERO
        };
        slots
    ]
    .into_boxed_slice()
}

/// Up to a minute, in microseconds, to two significant digits: a few KiB.
fn hold_time_histogram() -> Histogram<u64> {
    Histogram::new_with_max(60_000_000, 2)
        .unwrap_or_else(|_| unreachable!("constant bounds that the library accepts"))
}

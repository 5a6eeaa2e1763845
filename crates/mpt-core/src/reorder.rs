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
//! *Belief.* Anybody can forge a packet, and one packet must not move the window far. A number is
//! taken at its word when it is less than a window (or 1,024) beyond the highest that is known to
//! have been sent; to all others [`Reorder::insert`] says [`Verdict::Unbelievable`], and the caller
//! decides whether it has proof ([`Reorder::believe`], [`Reorder::resync`]).
//!
//! *Cost.* O(1) a packet: releasing `n` packets was paid for by the `n` that came before, and what is
//! missing between them is stepped over 64 numbers at a time.

mod delivered;
mod slots;

use std::collections::VecDeque;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::control::LatePolicy;
use crate::path::{MAX_PATHS, PathId, PathSet};
use crate::seq::Seq;
use crate::time::Time;
use delivered::Delivered;
use slots::Slots;

/// Largest window, in sequence numbers.
pub const MAX_WINDOW: u32 = 32_768;

/// Numbers behind `next` whose fate is remembered, and the distance from `next` at which a number
/// can only be of another numbering. It must exceed any honest skew: 1 Gbit/s of 1400-byte packets
/// over paths 500 ms apart are 45,000.
pub const MAX_DISTANCE: u32 = 65_536;

/// However small the window, so many numbers beyond the highest known are believed: paths differ
/// in delay, and a path may lose some.
const LEAST_BELIEVED: u32 = 1_024;

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
    /// Its number is too far from what is expected to be believed; nothing has changed. A caller
    /// that has proof calls [`Reorder::believe`] or, for another numbering, [`Reorder::resync`],
    /// and inserts again.
    Unbelievable,
}

#[derive(Clone, Copy)]
enum Cause {
    InferredLost,
    TimedOut,
    Overflowed,
}

/// A reorder window over packets `T` (a small descriptor). What is released goes to `out`, in order.
pub struct Reorder<T> {
    config: ReorderConfig,
    /// The number to be delivered next.
    next: Seq,
    /// One past the highest number that arrived or was given up. Equal to `next` when nothing is
    /// held.
    high: Seq,
    /// One past the highest number of which the caller knows that it was sent.
    announced: Seq,
    slots: Slots<T>,
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

impl<T: Copy + Default> Reorder<T> {
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
            announced: first,
            slots: Slots::new(config.window),
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
        if seq == self.next && self.slots.held() == 0 {
            self.counters.in_order += 1;
            self.delivered.set(seq);
            self.next = seq.next();
            self.high = self.next;
            let edge = &mut self.edges[path.index()];
            *edge = self.next.later(*edge);
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
        if !self.is_believable(seq) {
            return Verdict::Unbelievable;
        }
        let edge = &mut self.edges[path.index()];
        *edge = seq.next().later(*edge);
        if ahead < 0 {
            return self.insert_late(seq, item, out);
        }
        if self.slots.contains(self.next, seq) {
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
            self.delivered.set(seq);
            self.next = seq.next();
            out(item);
            self.release_run(now, out);
        } else {
            self.hold(now, seq, item);
        }
        if self.slots.held() > 0 {
            self.infer_lost(now, out);
        }
        Verdict::Taken
    }

    /// Whether one packet with this number is enough to believe it.
    fn is_believable(&self, seq: Seq) -> bool {
        let ahead = seq.distance_from(self.next);
        if ahead < 0 {
            return ahead > -(MAX_DISTANCE as i32);
        }
        let beyond = self.announced.distance_from(self.high);
        // What was announced further away was announced 2^31 numbers ago.
        let known = if (0..MAX_DISTANCE as i32).contains(&beyond) {
            self.announced
        } else {
            self.high
        };
        seq.distance_from(known) < self.config.window.max(LEAST_BELIEVED) as i32
    }

    fn insert_late(&mut self, seq: Seq, item: T, out: &mut impl FnMut(T)) -> Verdict {
        if self.delivered.get(seq) {
            self.counters.duplicates += 1;
            return Verdict::Duplicate;
        }
        self.counters.late += 1;
        self.delivered.set(seq);
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
        if edge.is_after(self.high) {
            self.announced = edge;
        }
        self.infer_lost(now, out);
        true
    }

    /// Counts a packet that is known to be a copy, and was not brought here.
    pub fn count_copy(&mut self) {
        self.counters.duplicates += 1;
    }

    /// Says that the packet with number `seq` has been sent, however unbelievable it looks. Only for
    /// numbers less than [`MAX_DISTANCE`] ahead; others ask for [`Reorder::resync`].
    pub fn believe(&mut self, seq: Seq) {
        if (0..MAX_DISTANCE as i32).contains(&seq.distance_from(self.next)) {
            self.announced = seq;
        }
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
        }
    }

    /// Expects `first`, before anything was inserted: numbers below it are late, not duplicates.
    pub fn begin_at(&mut self, first: Seq) {
        self.next = first;
        self.high = first;
        self.announced = first;
        self.edges = [first; MAX_PATHS];
    }

    /// Counts all numbers below the expected one as delivered: what comes late now was sent to
    /// somebody else, or is a recording.
    pub fn close_past(&mut self) {
        self.delivered.set_all();
    }

    /// Releases everything and expects `first`: the sender began anew. Numbers below `first` count
    /// as delivered: packets of the former numbering must not come again in the guise of late ones.
    pub fn resync(&mut self, now: Time, first: Seq, out: &mut impl FnMut(T)) {
        self.advance(now, self.high, Cause::InferredLost, out);
        self.begin_at(first);
        self.arrivals.clear();
        self.close_past();
    }

    /// Changes the settings; what no longer fits is released.
    pub fn reconfigure(&mut self, now: Time, config: ReorderConfig, out: &mut impl FnMut(T)) {
        let config = ReorderConfig {
            window: config.window.min(MAX_WINDOW),
            ..config
        };
        let first_that_fits = self.high.plus(config.window.max(1).wrapping_neg());
        if self.slots.held() > 0 && first_that_fits.is_after(self.next) {
            self.advance(now, first_that_fits, Cause::Overflowed, out);
        }
        let next = self.next;
        self.slots = self.slots.resized(next, config.window);
        self.config = config;
        self.arrivals.retain(|&(seq, _)| !next.is_after(seq));
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

    /// One past the highest number that arrived or was given up.
    #[must_use]
    pub fn high(&self) -> Seq {
        self.high
    }

    /// Numbers that every path had passed, in all.
    #[must_use]
    #[inline]
    pub fn inferred(&self) -> u64 {
        self.counters.gaps_inferred_lost
    }

    /// How long a path's packets may overtake each other, as far as is known.
    #[must_use]
    pub fn displacement(&self, _path: PathId) -> Duration {
        Duration::ZERO
    }

    /// Calls `each` with every run of missing numbers, its first and their count, oldest first, until
    /// it returns `false`.
    pub fn for_each_missing(&self, mut each: impl FnMut(Seq, u32) -> bool) {
        let mut from = self.next;
        while self.high.is_after(from) {
            let left = self.high.distance_from(from).unsigned_abs();
            let missing = self.slots.missing_from(from, left);
            if missing > 0 && !each(from, missing) {
                return;
            }
            let from_held = from.plus(missing);
            from = from_held.plus(self.slots.held_from(from_held, left - missing));
        }
    }

    /// Packets held now.
    #[must_use]
    pub fn held(&self) -> u32 {
        self.slots.held()
    }

    /// Missing numbers being waited for now.
    #[must_use]
    pub fn gaps_open(&self) -> u32 {
        self.high.distance_from(self.next).unsigned_abs() - self.held()
    }

    /// Calls `each` with every packet that is held, in order.
    pub fn for_each_held(&mut self, each: impl FnMut(&mut T)) {
        self.slots.for_each(self.next, each);
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
        self.slots.put(seq, item, now);
        self.counters.held_max = self.counters.held_max.max(self.slots.held());
        // Drops what has left, so that the queue stays short.
        self.oldest_held();
        self.arrivals.push_back((seq, now));
    }

    /// Delivers what stands directly at `next`.
    fn release_run(&mut self, now: Time, out: &mut impl FnMut(T)) {
        while let Some((item, arrived)) = self.slots.take(self.next) {
            let held_for = now.since(arrived);
            self.hold_us
                .saturating_record(u64::try_from(held_for.as_micros()).unwrap_or(u64::MAX));
            self.delivered.set(self.next);
            self.next = self.next.next();
            out(item);
        }
    }

    /// Gives up what is missing below `target` and delivers what is held there, and directly behind.
    fn advance(&mut self, now: Time, target: Seq, cause: Cause, out: &mut impl FnMut(T)) {
        if target.is_after(self.high) {
            self.raise_high(target);
        }
        let mut given_up = 0;
        while target.is_after(self.next) {
            let below = target.distance_from(self.next).unsigned_abs();
            let missing = self.slots.missing_from(self.next, below);
            self.delivered.clear(self.next, missing);
            self.next = self.next.plus(missing);
            given_up += u64::from(missing);
            self.release_run(now, out);
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
}

/// Up to a minute, in microseconds, to two significant digits: a few KiB.
fn hold_time_histogram() -> Histogram<u64> {
    Histogram::new_with_max(60_000_000, 2)
        .unwrap_or_else(|_| unreachable!("constant bounds that the library accepts"))
}

#[cfg(test)]
mod tests;

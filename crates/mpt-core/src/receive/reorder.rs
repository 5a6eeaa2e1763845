//! The reorder window: packets that arrive over several paths leave in the order they were sent.
//!
//! `next` is the number that is to be delivered next. A packet with that number leaves at once, and
//! with it all that were held directly behind it. A packet ahead of it is held in one of `window`
//! slots, by number modulo the slots. Numbers missing between delivered ones form the gap; each
//! missing number ends in exactly one of five ways, and each is counted:
//!
//! * **filled**: its packet arrived.
//! * **inferred lost**: paths deliver in order, so once every path that is waited for has delivered
//!   (or, by the watermark in its probes, announced) something beyond a missing number, that number
//!   is lost; what is behind it leaves at once. A path whose packets overtake each other gets a
//!   reordering window of its own, which is learnt.
//! * **recovered**: it had been inferred lost, and the peer sent it again in time. Toward a peer that
//!   does so, what is behind a lost number leaves a little later ([`Recovery`]).
//! * **timed out**: a packet behind it had been held for `max_buffer_delay`.
//! * **overflowed**: a packet arrived that the window could not hold otherwise; the head of the
//!   window is released, just as much of it as is needed.
//!
//! A packet below `next` is late: it was given up before. It is still worth delivering (TCP copes
//! better with a late packet than with a lost one) unless the policy says otherwise, but never
//! twice: one bit for each of the last 65,536 numbers remembers what was delivered.
//!
//! *The beginning.* Whoever begins to listen does not know what was sent before to somebody else. What is missing below
//! the first number that it heard of ([`Reorder::hear_of`]) may be under way on a slower path, so it is waited for; but
//! it is no gap, and nobody is asked to send it again.
//!
//! *Belief.* Anybody can forge a packet, and one packet must not move the window far. A number is
//! taken at its word when it is less than [`ReorderConfig::believed`] beyond the highest that is known to
//! have been sent; to all others [`Reorder::insert`] says [`Verdict::Unbelievable`], and the caller
//! decides whether it has proof ([`Reorder::believe`], [`Reorder::resync`]).
//!
//! *Cost.* O(1) a packet: releasing `n` packets was paid for by the `n` that came before, and what is
//! missing between them is stepped over 64 numbers at a time.

mod account;
mod beginning;
mod config;
mod delivered;
mod displacement;
mod inference;
mod passage;
mod slots;
mod told;

use std::collections::VecDeque;

use crate::control::LatePolicy;
pub use crate::limits::MAX_WINDOW;
use crate::path::{PathId, PathSet, RoundTrip};
use crate::seq::Seq;
use crate::time::{Time, earliest};
pub use account::ReorderCounters;
use account::{Account, Cause};
pub use config::ReorderConfig;
use delivered::Delivered;
use inference::Inference;
pub use inference::Recovery;
use slots::Slots;

/// Numbers behind `next` whose fate is remembered, and the distance from `next` at which a number
/// can only be of another numbering. It must exceed any honest skew: 1 Gbit/s of 1400-byte packets
/// over paths 500 ms apart are 45,000.
pub const MAX_DISTANCE: u32 = 65_536;

/// So many numbers beyond the highest known are always believed: paths differ in delay, and a path may lose some.
const LEAST_BELIEVED: u32 = 1_024;

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

/// A reorder window over packets `T` (a small descriptor). What is released goes to `out`, in order.
pub struct Reorder<T> {
    config: ReorderConfig,
    /// The number to be delivered next.
    next: Seq,
    /// One past the highest number that arrived or was found to be missing.
    high: Seq,
    /// The same of what arrived on a path that is known, or was found to be missing; of copies, too, which may be of numbers
    /// beyond `high`.
    placed: Seq,
    /// One past the highest number of which the caller knows that it was sent.
    announced: Seq,
    /// What is missing below was perhaps never sent to this end. Not after `high`.
    first_known: Seq,
    slots: Slots<T>,
    /// Held packets by arrival, oldest first; entries below `next` have left already. At most twice
    /// the window: behind a held entry, each number of the window can be entered once.
    arrivals: VecDeque<(Seq, Time)>,
    inference: Inference,
    delivered: Delivered,
    account: Account,
    /// How far ahead of `next` the farthest packet was, since that was last asked.
    widest: u32,
}

impl<T: Copy + Default> Reorder<T> {
    /// An empty window that expects `first`.
    #[must_use]
    pub fn new(config: ReorderConfig, first: Seq) -> Self {
        let config = config.bounded();
        Reorder {
            config,
            next: first,
            high: first,
            placed: first,
            announced: first,
            first_known: first,
            slots: Slots::new(config.window),
            arrivals: VecDeque::new(),
            inference: Inference::new(first),
            delivered: Delivered::new(),
            account: Account::new(),
            widest: 0,
        }
    }

    /// Gives memory back that holds nothing.
    pub(crate) fn rest(&mut self) {
        self.slots.rest();
        if self.oldest_held().is_none() {
            self.arrivals = VecDeque::new();
        }
    }

    /// Bytes of memory that it takes by what it holds, the packets themselves aside.
    #[inline]
    pub(crate) fn memory(&self) -> usize {
        self.slots.memory() + self.arrivals.capacity() * size_of::<(Seq, Time)>()
    }

    /// Releases so many of the packets that are held, those with the lowest numbers, and what then stands in order; and
    /// gives memory back: a window that may grow has room for what is left, and for `least` numbers at least.
    pub(crate) fn give_back(
        &mut self,
        now: Time,
        packets: u32,
        least: u32,
        out: &mut impl FnMut(T),
    ) {
        let left = self.held().saturating_sub(packets);
        while self.held() > left {
            let below = self.high.distance_from(self.next).unsigned_abs();
            let missing = self.slots.missing_from(self.next, below);
            self.advance(now, self.next.plus(missing + 1), Cause::Overflowed, out);
        }
        let spans = self.high.distance_from(self.next).unsigned_abs().max(least);
        if self.config.grows_to.is_some() && spans < self.config.window {
            self.resize(spans);
        }
        self.rest();
        let next = self.next;
        self.arrivals.retain(|&(seq, _)| !next.is_after(seq));
        self.arrivals.shrink_to_fit();
    }

    /// Takes the packet `item` with number `seq` that arrived on `path`; `None` if it is not known on which, so that it tells
    /// nothing of what else is under way there.
    #[inline]
    pub fn insert(
        &mut self,
        now: Time,
        path: impl Into<Option<PathId>>,
        seq: Seq,
        item: T,
        out: &mut impl FnMut(T),
    ) -> Verdict {
        let path = path.into();
        if seq == self.next && seq == self.high && self.comes_in_order(now, path, seq) {
            self.account.counters.in_order += 1;
            self.delivered.set(seq);
            self.next = seq.next();
            self.high = self.next;
            self.placed = self.next;
            out(item);
            return Verdict::Taken;
        }
        self.insert_out_of_step(now, path, seq, item, out)
    }

    /// Whether nothing overtook it on its path.
    #[inline]
    fn comes_in_order(&mut self, now: Time, path: Option<PathId>, seq: Seq) -> bool {
        let Some(path) = path else {
            return true;
        };
        self.placed = self.placed.later(seq.next());
        self.inference.comes_in_order(now, path, seq)
    }

    fn insert_out_of_step(
        &mut self,
        now: Time,
        path: Option<PathId>,
        seq: Seq,
        item: T,
        out: &mut impl FnMut(T),
    ) -> Verdict {
        let ahead = seq.distance_from(self.next);
        if !self.is_believable(seq) {
            return Verdict::Unbelievable;
        }
        let in_order = self.comes_in_order(now, path, seq);
        let came_before = if ahead < 0 {
            self.delivered.get(seq)
        } else {
            self.slots.contains(self.next, seq)
        };
        if came_before {
            self.account.counters.duplicates += 1;
            self.infer_lost(now, out);
            return Verdict::Duplicate;
        }
        let is_lost = ahead < 0 || self.inference.is_lost(seq);
        if let Some(path) = path
            && !in_order
        {
            self.inference.overtaken(now, path, seq, is_lost);
        }
        if ahead < 0 {
            return self.insert_late(seq, item, out);
        }
        if self.high.is_after(seq) {
            self.account.counters.reordered += 1;
            if !self.first_known.is_after(seq) {
                let lost = is_lost.then(|| self.inference.lost_since(seq).map(|at| now.since(at)));
                self.account.filled(lost);
            }
        } else {
            self.account.counters.in_order += 1;
            self.raise_high(seq);
            self.high = seq.next();
        }

        self.make_room(ahead.unsigned_abs());
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
        if self.high.is_after(self.next) {
            self.infer_lost(now, out);
        }
        Verdict::Taken
    }

    /// Widens the window for a number so far ahead of the next, as far as it may.
    fn make_room(&mut self, ahead: u32) {
        self.widest = self.widest.max(ahead);
        if let Some(window) = self.config.grown_for(ahead) {
            self.resize(window);
        }
    }

    fn resize(&mut self, window: u32) {
        self.config.window = window;
        self.slots = self.slots.resized(self.next, window);
    }

    fn insert_late(&mut self, seq: Seq, item: T, out: &mut impl FnMut(T)) -> Verdict {
        self.account.counters.late += 1;
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
        self.inference.announce(now, path, edge);
        // Another path may have said more.
        self.announced = self.known().later(edge);
        self.infer_lost(now, out);
        true
    }

    /// Takes note of a packet that arrived on `path` and is known to be a copy: as [`Reorder::insert`] does
    /// of one, but nothing is ever taken. Returns whether its number is believable.
    pub fn note_copy(
        &mut self,
        now: Time,
        path: impl Into<Option<PathId>>,
        seq: Seq,
        out: &mut impl FnMut(T),
    ) -> bool {
        self.account.counters.duplicates += 1;
        let is_believable = self.is_believable(seq);
        if is_believable {
            self.comes_in_order(now, path.into(), seq);
            self.infer_lost(now, out);
        }
        is_believable
    }

    /// Which paths may still deliver what is missing. A path that is no longer among them stops
    /// being waited for in that instant.
    pub fn wait_for(&mut self, now: Time, paths: PathSet, out: &mut impl FnMut(T)) {
        self.inference.wait_for(paths, self.next);
        self.infer_lost(now, out);
    }

    /// Sets a path's round-trip time, which bounds the reordering window of a path whose packets
    /// overtake each other.
    pub fn set_rtt(&mut self, now: Time, path: PathId, rtt: RoundTrip) {
        self.inference.set_rtt(now, path, rtt);
    }

    /// Forgets what was learnt of a path: it leads elsewhere now.
    pub fn forget_path(&mut self, path: PathId) {
        self.inference.forget(path);
    }

    /// Says whether, and how quickly, the peer sends lost packets again. They are held open for no
    /// longer than `max_buffer_delay`.
    pub fn set_recovery(&mut self, now: Time, recovery: Option<Recovery>) {
        let possible = recovery.filter(|_| self.config.window > 1);
        let hold = |recovery: Recovery| recovery.hold.min(self.config.max_buffer_delay);
        let bounded = possible.map(|recovery| Recovery {
            hold: hold(recovery),
            ..recovery
        });
        self.inference.set_recovery(now, bounded);
    }

    /// When [`Reorder::handle_timeout`] is to be called next.
    #[must_use]
    pub fn poll_timeout(&mut self) -> Option<Time> {
        let oldest = self.oldest_held();
        let times_out = oldest.map(|(_, arrived)| arrived + self.config.max_buffer_delay);
        earliest(times_out, self.inference.poll_timeout(self.next))
    }

    /// Releases what has been held for `max_buffer_delay`, and what is before it; and what is behind
    /// numbers that have come to be lost.
    pub fn handle_timeout(&mut self, now: Time, out: &mut impl FnMut(T)) {
        while let Some((seq, arrived)) = self.oldest_held() {
            if arrived + self.config.max_buffer_delay > now {
                break;
            }
            self.advance(now, seq.next(), Cause::TimedOut, out);
        }
        self.infer_lost(now, out);
    }

    /// Changes the settings; what no longer fits is released.
    pub fn reconfigure(&mut self, now: Time, config: ReorderConfig, out: &mut impl FnMut(T)) {
        let config = config.bounded();
        let first_that_fits = self.high.plus(config.window.max(1).wrapping_neg());
        if first_that_fits.is_after(self.next) {
            self.advance(now, first_that_fits, Cause::Overflowed, out);
        }
        let next = self.next;
        self.arrivals.retain(|&(seq, _)| !next.is_after(seq));
        let window = self.config.window;
        self.config = config;
        if config.window != window {
            self.resize(config.window);
        }
    }

    /// How far ahead of the next number the farthest packet was since this was last asked.
    pub fn take_widest(&mut self) -> u32 {
        std::mem::take(&mut self.widest)
    }

    /// What is held of the number `seq`, if anything is.
    pub fn held_mut(&mut self, seq: Seq) -> Option<&mut T> {
        self.slots.get_mut(self.next, seq)
    }

    /// The packet `seq` need not wait for those before it: the caller has taken it. `item` is released in its turn.
    pub fn leave(&mut self, now: Time, seq: Seq, item: T) {
        let held_for = now.since(self.slots.leave(seq, item));
        if !held_for.is_zero() {
            self.account.held(held_for);
        }
    }

    /// Calls `each` with all that is held, in order.
    pub fn for_each_held(&mut self, each: impl FnMut(&mut T)) {
        self.slots.for_each(self.next, each);
    }

    fn hold(&mut self, now: Time, seq: Seq, item: T) {
        self.slots.put(seq, item, now);
        self.account.counters.held_max = self
            .account
            .counters
            .held_max
            .max(self.slots.held() - self.slots.left());
        // Drops what has left, so that the queue stays short.
        self.oldest_held();
        self.arrivals.push_back((seq, now));
    }

    /// Delivers what stands directly at `next`.
    fn release_run(&mut self, now: Time, out: &mut impl FnMut(T)) {
        while let Some((item, arrived)) = self.slots.take(self.next) {
            if let Some(arrived) = arrived {
                self.account.held(now.since(arrived));
            }
            self.delivered.set(self.next);
            self.next = self.next.next();
            out(item);
        }
    }

    /// Gives up what is missing below `target` and delivers what is held there, and directly behind.
    fn advance(&mut self, now: Time, target: Seq, cause: Cause, out: &mut impl FnMut(T)) {
        if target.is_after(self.high) {
            self.raise_high(target);
            self.placed = target;
        }
        let mut given_up = 0;
        while target.is_after(self.next) {
            let below = target.distance_from(self.next).unsigned_abs();
            let missing = self.slots.missing_from(self.next, below);
            self.delivered.clear(self.next, missing);
            let known = self.first_known.later(self.next);
            self.next = self.next.plus(missing);
            given_up += u64::from(self.next.distance_from(known).max(0).unsigned_abs());
            self.release_run(now, out);
        }
        self.account.given_up(cause, given_up);
    }

    fn infer_lost(&mut self, now: Time, out: &mut impl FnMut(T)) {
        // Before it is 2^31 numbers old.
        self.first_known = self.first_known.later(self.next);
        if let Some((before, frontier)) = self.inference.infer(now, self.next) {
            let lost = self.missing_between(self.first_known.later(before), frontier);
            if lost > 0 {
                self.account.found_lost += u64::from(lost);
                self.inference.found_lost(now);
            }
            if frontier.is_after(self.high) {
                self.raise_high(frontier);
                self.placed = frontier;
            }
            // More than the window cannot stay open, nor may what nobody sends again.
            let least = frontier.plus(self.config.window.max(1).wrapping_neg());
            let unknown = match self.first_known.is_after(frontier) {
                true => frontier,
                false => self.first_known,
            };
            let least = least.later(unknown);
            if least.is_after(self.next) {
                self.advance(now, least, Cause::InferredLost, out);
            }
        }
        let given_up = self.inference.given_up(now);
        if given_up.is_after(self.next) {
            self.advance(now, given_up, Cause::InferredLost, out);
        }
    }

    fn raise_high(&mut self, seq: Seq) {
        self.account.counters.gaps_seen += u64::from(seq.distance_from(self.high).unsigned_abs());
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

#[cfg(test)]
mod tests;

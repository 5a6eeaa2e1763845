//! RFC 4737: which packets are reordered, and by how much.
//!
//! A packet is *reordered* when a higher number has arrived before it (§3). The first packet above a
//! hole opens a *sequence discontinuity*; when one of the hole's packets arrives after all, that
//! discontinuity is a *reordering* one and the packet's distance to it is its *extent* in packets
//! (§4.2), its *late time* (§4.3) and, counting only what had to wait for it, its *byte offset* (§4.4).
//! *Gaps* (§4.5) lie between reordering discontinuities, *reordering-free runs* (§4.6) between
//! reordered packets. *n-reordering* (§5) counts the higher numbers that arrived directly before a
//! packet: a TCP whose duplicate-ACK threshold is n takes an n-reordered packet for lost.
//!
//! A packet that is not the first copy counts for nothing but the duplicates (§3.6), except in §5,
//! whose definition and code run over everything received.
//!
//! Memory: a packet that fills a hole needs that hole's discontinuity and nothing else, so those are
//! what is kept, the last [`DISCONTINUITIES`] of them. A packet from before them is counted as
//! reordered, without an extent, in [`ReorderingReport::beyond_history`].

use std::collections::VecDeque;

use super::history::{History, Novelty};
use super::tally::Tally;
use report::ReorderingCounts;
pub use report::{ReorderingReport, RunReport};

mod report;

/// Sequence discontinuities remembered.
pub const DISCONTINUITIES: usize = 4096;

/// Largest n of n-reordering that is told apart, as in the code of RFC 4737 Appendix A.
pub const MAX_N: usize = 100;

/// What one packet was found to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// In order, reordered, or a copy.
    pub order: Order,
    /// The packet is n-reordered for this n and every smaller one; 0 when for none (§5.3). At most
    /// [`MAX_N`].
    pub n: usize,
}

/// The singleton metric (§3) and, for a reordered packet, what the sample metrics say of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Nothing with a higher number had arrived. `missing` numbers before it had not arrived
    /// either; when that is not 0 the packet is a sequence discontinuity of that size (§3.4).
    InOrder {
        /// Size of the sequence discontinuity.
        missing: u64,
    },
    /// A packet with a higher number had arrived.
    Reordered(Reordered),
    /// Not the first copy.
    Duplicate,
}

/// How far out of order a packet was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reordered {
    /// Distance to the packet at its discontinuity; `None` when that is forgotten.
    pub late: Option<Lateness>,
    /// Payload bytes that had arrived with higher numbers (§4.4); `None` when part of them is
    /// forgotten.
    pub byte_offset: Option<u64>,
    /// Numbers from this one to the highest that has arrived: the reorder window that would have
    /// kept its place.
    pub behind: u64,
    /// In-order packets since the last reordered one: the run that this packet ended (§4.6).
    pub run: u64,
}

/// Distance of a reordered packet to the packet at its discontinuity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lateness {
    /// In arrivals (§4.2).
    pub extent: u64,
    /// In time, nanoseconds (§4.3).
    pub late_ns: u64,
    /// The discontinuity, when this packet is the first to make it a reordering one.
    pub confirms: Option<ReorderingDiscontinuity>,
}

/// A discontinuity that turned out to be due to reordering (§4.5.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReorderingDiscontinuity {
    /// Number of the packet above the hole.
    pub number: i64,
    /// Its place among the arrivals, the first being 1, copies not counted.
    pub position: u64,
    /// Distance from the reordering discontinuity before it, in arrivals and nanoseconds; `None`
    /// for the first (§4.5.4, where it is 0).
    pub gap: Option<(u64, u64)>,
}

/// The metrics of RFC 4737 for one stream.
#[derive(Debug, Clone)]
pub struct Reordering {
    next_expected: Option<i64>,
    position: u64,
    run: u64,
    discontinuities: VecDeque<Discontinuity>,
    /// A discontinuity that was dropped from the list; what lies below its number is unknown.
    forgotten: Option<i64>,
    last_confirmed: Option<(u64, u64)>,
    recent: Recent,
    tally: Tally<ReorderingCounts>,
}

#[derive(Debug, Clone, Copy)]
struct Discontinuity {
    number: i64,
    position: u64,
    at_ns: u64,
    confirmed: bool,
}

impl Reordering {
    /// For a stream whose first packet sent bears `first`. When that is not known the first arrival
    /// is in order by definition (§3.6) and no discontinuity.
    #[must_use]
    pub fn new(first: Option<i64>) -> Self {
        Reordering {
            next_expected: first,
            position: 0,
            run: 0,
            discontinuities: VecDeque::new(),
            forgotten: None,
            last_confirmed: None,
            recent: Recent::new(),
            tally: Tally::new(ReorderingCounts::new()),
        }
    }

    /// Counts the arrival of `number` at `now_ns`. `novelty` is what `history` said of this packet.
    #[inline]
    pub fn arrive(
        &mut self,
        number: i64,
        now_ns: u64,
        novelty: Novelty,
        history: &History,
    ) -> Arrival {
        let n = self.recent.higher_before(number);
        let counts = &mut self.tally.now;
        counts.arrivals += 1;
        counts.n_reordered[n] += 1;
        if novelty == Novelty::Duplicate {
            counts.duplicates += 1;
            let order = Order::Duplicate;
            return Arrival { order, n };
        }
        self.position += 1;
        counts.received += 1;
        let order = match self.next_expected {
            Some(next) if number < next => {
                Order::Reordered(self.reordered(number, next, now_ns, history))
            }
            Some(next) => self.in_order(number, number - next, now_ns),
            None => self.in_order(number, 0, now_ns),
        };
        Arrival { order, n }
    }

    /// Counts the arrival of `count` consecutive numbers from `first` on, none of them a copy, `history`
    /// knowing them already: the same as [`Reordering::arrive`] for each, all at `now_ns`. The time of
    /// packets behind the first matters only when they are reordered.
    pub fn arrive_run(&mut self, first: i64, count: u32, now_ns: u64, history: &History) {
        let more = u64::from(count.max(1)) - 1;
        let last = first + more as i64;
        if !self.is_one_hole(first, last) {
            for number in first..=last {
                self.arrive(number, now_ns, Novelty::New, history);
            }
            return;
        }
        let n = self.recent.higher_before(first);
        self.recent.push_run(first + 1, last);
        let counts = &mut self.tally.now;
        counts.arrivals += 1 + more;
        counts.received += 1 + more;
        counts.n_reordered[n] += 1;
        counts.n_reordered[0] += more;
        self.position += 1;
        match self.next_expected {
            Some(next) if first < next => {
                let reordered = self.reordered(first, next, now_ns, history);
                if more > 0 {
                    self.tally.now.count_behind_reordered(&reordered, more);
                }
            }
            next => {
                self.in_order(first, next.map_or(0, |next| first - next), now_ns);
                self.next_expected = Some(last + 1);
                self.run += more;
                self.tally.now.in_order += more;
            }
        }
        self.position += more;
    }

    /// Whether no discontinuity is known between two numbers: only copies that the history had
    /// forgotten can have one.
    fn is_one_hole(&self, first: i64, last: i64) -> bool {
        let below = |number| self.discontinuities.partition_point(|d| d.number < number);
        let forgotten = |number| self.forgotten.is_some_and(|forgotten| number < forgotten);
        let is_late = self.next_expected.is_some_and(|next| first < next);
        !is_late || below(first) == below(last) && forgotten(first) == forgotten(last)
    }

    /// A new stream begins; what was counted stays counted.
    pub fn restart(&mut self, first: Option<i64>) {
        self.next_expected = first;
        self.position = 0;
        self.run = 0;
        self.discontinuities.clear();
        self.forgotten = None;
        self.last_confirmed = None;
        self.recent = Recent::new();
    }

    /// Ends an interval without reporting on it: [`Reordering::last`] will.
    pub fn end_interval(&mut self) {
        self.tally.end_interval();
    }

    /// Nothing has come for long: gives memory back. Of what comes late all the same it is not known how late.
    pub(crate) fn rest(&mut self) {
        if let Some(newest) = self.discontinuities.back() {
            self.forgotten = Some(newest.number);
        }
        self.discontinuities = VecDeque::new();
        self.tally.rest();
    }

    /// What was counted in the last interval that was ended.
    #[must_use]
    pub fn last(&self) -> ReorderingReport {
        self.tally.last().report(self.run)
    }

    /// What was counted since the start.
    #[must_use]
    pub fn total(&self) -> ReorderingReport {
        self.tally.total().report(self.run)
    }

    #[inline]
    fn in_order(&mut self, number: i64, missing: i64, now_ns: u64) -> Order {
        self.next_expected = Some(number + 1);
        self.run += 1;
        self.tally.now.in_order += 1;
        // The first arrival is kept as well: what comes in below it is late by its distance to it.
        if missing > 0 || self.position == 1 {
            self.open(number, now_ns);
        }
        if missing > 0 {
            self.tally.now.discontinuities += 1;
            self.tally.now.missing += missing as u64;
        }
        Order::InOrder {
            missing: missing as u64,
        }
    }

    fn open(&mut self, number: i64, now_ns: u64) {
        if self.discontinuities.len() == DISCONTINUITIES {
            let oldest = self.discontinuities.pop_front();
            self.forgotten = oldest.map(|oldest| oldest.number);
        }
        self.discontinuities.push_back(Discontinuity {
            number,
            position: self.position,
            at_ns: now_ns,
            confirmed: false,
        });
    }

    #[cold]
    fn reordered(&mut self, number: i64, next: i64, now_ns: u64, history: &History) -> Reordered {
        let reordered = Reordered {
            late: self.lateness(number, now_ns),
            byte_offset: history.bytes_above(number),
            behind: (next - number) as u64,
            run: self.run,
        };
        self.run = 0;
        self.tally.now.count_reordered(&reordered);
        reordered
    }

    /// The first arrival above `number` is the discontinuity of the hole that it lies in: the first
    /// in the list with a higher number.
    fn lateness(&mut self, number: i64, now_ns: u64) -> Option<Lateness> {
        if self.forgotten.is_some_and(|forgotten| number < forgotten) {
            return None;
        }
        let found = self.discontinuities.partition_point(|d| d.number < number);
        let at = *self.discontinuities.get(found)?;
        Some(Lateness {
            extent: self.position - at.position,
            late_ns: now_ns.saturating_sub(at.at_ns),
            confirms: (!at.confirmed).then(|| self.confirm(found, at)),
        })
    }

    /// Marks a discontinuity as one of reordering and measures the gap to the nearest before it that
    /// is already known as such.
    fn confirm(&mut self, index: usize, at: Discontinuity) -> ReorderingDiscontinuity {
        let before = self
            .last_confirmed
            .filter(|&(position, _)| position < at.position)
            .or_else(|| {
                let mut earlier = self.discontinuities.iter().take(index).rev();
                let nearest = earlier.find(|d| d.confirmed)?;
                Some((nearest.position, nearest.at_ns))
            });
        if let Some(entry) = self.discontinuities.get_mut(index) {
            entry.confirmed = true;
        }
        self.last_confirmed = self.last_confirmed.max(Some((at.position, at.at_ns)));
        let gap = before
            .map(|(position, at_ns)| (at.position - position, at.at_ns.saturating_sub(at_ns)));
        ReorderingDiscontinuity {
            number: at.number,
            position: at.position,
            gap,
        }
    }
}

/// The last [`MAX_N`] numbers as they arrived, copies included (Appendix A, example 1).
#[derive(Debug, Clone)]
struct Recent {
    ring: [i64; MAX_N],
    last: usize,
    filled: usize,
}

impl Recent {
    fn new() -> Self {
        Recent {
            ring: [0; MAX_N],
            last: MAX_N - 1,
            filled: 0,
        }
    }

    /// How many arrivals directly before this one bore a higher number; then adds this one.
    #[inline]
    fn higher_before(&mut self, number: i64) -> usize {
        let mut n = 0;
        let mut at = self.last;
        while n < self.filled && number < self.ring[at] {
            n += 1;
            at = if at == 0 { MAX_N - 1 } else { at - 1 };
        }
        self.push(number);
        n
    }

    /// Adds the numbers from `first` to `last`, those that there is room for.
    fn push_run(&mut self, first: i64, last: i64) {
        for number in first.max(last - MAX_N as i64 + 1)..=last {
            self.push(number);
        }
    }

    #[inline]
    fn push(&mut self, number: i64) {
        self.last = if self.last + 1 == MAX_N {
            0
        } else {
            self.last + 1
        };
        self.ring[self.last] = number;
        self.filled = (self.filled + 1).min(MAX_N);
    }
}

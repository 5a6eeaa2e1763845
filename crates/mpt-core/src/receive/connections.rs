//! TCP connections that come through, and the sequence number with which each goes on.
//!
//! What is missing in the tunnel's numbers is of one connection, and what waits behind it is of many. A TCP segment shows by
//! its own sequence number that nothing of its connection is missing before it. Such a segment need not wait for what others
//! miss: it leaves at once. SCTP delivers by streams for the same reason (RFC 9260 §1.5.2). Within a connection order stays
//! what it would be without this.
//!
//! A connection that lacks something since before the tunnel waits in its turn until that has come: what is sent again must
//! not be overtaken, or its sender takes it for lost again (RFC 8985 §6.2). Without that rule three of 200 cases of
//! four bulk flows have less than 0.9 of what they have late, and one has more than 1.1 (`campaign --family flows --pairs 200
//! --seed 500`).
//!
//! A bare acknowledgement never waits: it says all that those before it say (RFC 9293 §3.10.7.4). Mostly it has no number at all
//! (`send/sparse.rs`), but over paths whose rate is not known yet all have one, and a flow's first round trips are as long as
//! the slowest path's for that: of 150 random pairs (`campaign --pairs 150 --seed 3000`) 4.7 % are below 0.95 of the better
//! link in the first 2 s where they wait, and 2.0 % where they do not.
//!
//! Behind a window that is configured all waits in one order, as RFC 2890 has it: who sets one measures what a window does
//! (docs/papers.md, Table I of MPT-GRE's paper).
//!
//! What it pays: docs/performance.md, pages and several flows.

use std::num::NonZeroU32;

use crate::send::scheduler::flow;
use crate::seq::Seq;
use crate::wire::ip::{Packet, protocol};
use crate::wire::transport::tcp;

/// Connections that are known at a time, each of which takes 28 bytes, 14 KiB in all. Where two share a place the one that
/// came last has it, and the other's segments wait as those of an unknown one do. No campaign chose the number.
const PLACES: usize = 512;

/// What a TCP segment tells of its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Addresses and ports, hashed.
    connection: u64,
    /// The first sequence number that it takes, and the one after its last.
    first: u32,
    next: u32,
    /// It begins the connection.
    begins: bool,
    /// It only acknowledges.
    acknowledges: bool,
}

impl Segment {
    /// What an inner packet tells, if it is a TCP segment and whole.
    #[inline]
    pub(crate) fn of(bytes: &[u8]) -> Option<Segment> {
        let packet = Packet::parse(bytes).ok()?;
        let transport = packet.transport().ok()?;
        if transport.protocol != protocol::TCP || transport.fragment.is_some() {
            return None;
        }
        let bytes = &packet.bytes()[transport.offset..];
        let (first, next) = tcp::sequence_range(bytes)?;
        let begins = bytes[tcp::FLAGS] & tcp::SYN != 0;
        Some(Segment {
            connection: flow::hash(&packet),
            first,
            next,
            begins,
            acknowledges: tcp::only_acknowledges(bytes),
        })
    }

    /// Whether it only acknowledges.
    pub(crate) fn only_acknowledges(&self) -> bool {
        self.acknowledges
    }

    /// Whether it has what comes directly before this sequence number. What is sent again may be cut otherwise than before.
    fn reaches(&self, end: u32) -> bool {
        is_after(end, self.first) && !is_after(end, self.next)
    }
}

/// What a segment that is held is to be linked with, so that one leads to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    /// It comes behind this one, which was the last.
    After(Seq),
    /// It comes before this one, which was the first.
    Before(Seq),
    /// It comes somewhere behind this one, which is the first, and not behind the last.
    Within(Seq),
}

/// A connection that is known.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    /// Half of the hash of its addresses and ports, and never 0.
    tag: u32,
    /// The sequence number that comes next.
    next: u32,
    /// What comes before this sequence number is missing since before the tunnel.
    lacks: Option<u32>,
    /// The first and the last of its segments that are held and that [`Stored::behind`] links.
    ///
    /// [`Stored::behind`]: crate::receive::buffer::Stored::behind
    held: Option<(Seq, Seq)>,
}

/// The connections of a tunnel. They take memory once there is one.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    known: Box<[Known]>,
}

impl Connections {
    /// Whether a segment has data that continue its connection, or begins it.
    pub(crate) fn is_continued_by(&self, segment: &Segment) -> bool {
        let goes_on = |known: &Known| known.next == segment.first && known.lacks.is_none();
        let has_data = segment.next != segment.first;
        segment.begins || has_data && self.get(segment).is_some_and(goes_on)
    }

    /// A segment goes to the host, that was number `seq`; the next one that is held of the connection is `behind` it by so
    /// much. Returns the connection's place if some of it is held.
    #[inline]
    pub(crate) fn deliver(
        &mut self,
        segment: &Segment,
        seq: Seq,
        behind: Option<NonZeroU32>,
    ) -> Option<usize> {
        if self.known.is_empty() {
            self.known = vec![Known::default(); PLACES].into_boxed_slice();
        }
        let (place, tag) = place(segment);
        let known = &mut self.known[place];
        if known.tag != tag || segment.begins {
            *known = Known {
                tag,
                next: segment.next,
                ..Known::default()
            };
            return None;
        }
        if is_after(segment.first, known.next) {
            known.lacks = Some(segment.first);
        } else if known.lacks.is_some_and(|end| segment.reaches(end)) {
            known.lacks = None;
        }
        if is_after(segment.next, known.next) {
            known.next = segment.next;
        }
        let (first, last) = known.held?;
        if first == seq {
            known.held = behind.map(|behind| (seq.plus(behind.get()), last));
        }
        known.held.map(|_| place)
    }

    /// A segment of a connection is held as number `seq`. Returns what it is to be linked with.
    pub(crate) fn hold(&mut self, segment: &Segment, seq: Seq) -> Option<Link> {
        let (place, tag) = place(segment);
        let known = self.known.get_mut(place).filter(|known| known.tag == tag)?;
        let (first, last) = known.held.unwrap_or((seq, seq));
        let (held, link) = if seq.is_after(last) {
            ((first, seq), Some(Link::After(last)))
        } else if first.is_after(seq) {
            ((seq, last), Some(Link::Before(first)))
        } else {
            ((first, last), (seq != first).then_some(Link::Within(first)))
        };
        known.held = Some(held);
        link
    }

    /// The first segment that is held of the connection at this place.
    pub(crate) fn first_held(&self, place: usize) -> Option<Seq> {
        Some(self.known.get(place)?.held?.0)
    }

    /// Whether a segment is of the connection at this place.
    pub(crate) fn is_at(&self, at: usize, segment: &Segment) -> bool {
        place(segment).0 == at && self.get(segment).is_some()
    }

    /// Nothing that is held of the connection at this place is linked any more.
    pub(crate) fn unlink(&mut self, place: usize) {
        if let Some(known) = self.known.get_mut(place) {
            known.held = None;
        }
    }

    /// Nothing comes any more.
    pub(crate) fn forget(&mut self) {
        self.known = Box::default();
    }

    /// Bytes of memory that they take.
    #[inline]
    pub(crate) fn memory(&self) -> usize {
        size_of_val(&*self.known)
    }

    fn get(&self, segment: &Segment) -> Option<&Known> {
        let (place, tag) = place(segment);
        self.known.get(place).filter(|known| known.tag == tag)
    }
}

/// Where a segment's connection is kept, and by what it is known there.
#[inline]
fn place(segment: &Segment) -> (usize, u32) {
    let hash = segment.connection;
    (hash as usize % PLACES, (hash >> 32) as u32 | 1)
}

/// Whether a TCP sequence number comes after another (RFC 9293 §3.4).
#[inline]
fn is_after(number: u32, other: u32) -> bool {
    number.wrapping_sub(other) as i32 > 0
}

#[cfg(test)]
mod tests;

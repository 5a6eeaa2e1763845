//! Edges: how far each path was used, as the sender tells the receiver.
//!
//! A receiver takes a number for lost when every path has delivered past it. A path that carries
//! nothing never does, and its probes, which say how far the numbers went meanwhile, are far apart.
//! So while data go over some paths and not over others, the sender says of those others which
//! number was the last that it sent there. If that one has arrived, nothing more is to be expected
//! from the path, and a gap need not wait for it.
//!
//! The layout, in network byte order, behind a GRE header without sequence number whose Protocol
//! Type is [`crate::wire::gre::CONTROL_ETHERTYPE`]:
//!
//! | bytes | field |
//! |---|---|
//! | 0 | kind, 6 |
//! | 1 | number of entries, at most 16 |
//! | 2–3 | zero |
//! | 4–7 | next: every number below this one has been sent |
//! | 8–15 | session of the sender |
//! | 16–23 | session of the receiver |
//! | then | entries of 8 bytes |
//!
//! An entry:
//!
//! | bytes | field |
//! |---|---|
//! | 0 | path, by the index of the sender |
//! | 1 | 1 when some number was sent there, 0 when none |
//! | 2 | 1 when the sender suspects that the path swallows what it is given |
//! | 3 | zero |
//! | 4–7 | the highest number that was sent there |
//!
//! Bytes behind these are ignored.

use arrayvec::ArrayVec;

use crate::limits::MAX_PATHS;
use crate::seq::Seq;
use crate::wire::ip::{u32_at, u64_at};
use crate::wire::kind::{ControlError, Kind};

/// Length of the longest message without its GRE header, in bytes.
pub const MAX_EDGES_BYTES: usize = HEAD_BYTES + MAX_PATHS * ENTRY_BYTES;
const HEAD_BYTES: usize = 24;
const ENTRY_BYTES: usize = 8;

/// How far paths were used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edges {
    /// Every number below this one has been sent.
    pub next: Seq,
    /// The sender's session.
    pub session: u64,
    /// The receiver's session.
    pub about: u64,
    /// What there is to say of paths.
    pub paths: ArrayVec<Edge, MAX_PATHS>,
}

/// How far one path was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// The path, by the sender's index; any value may have come.
    pub path: u8,
    /// The highest number that was sent there, if any was that it may still bring.
    pub last: Option<Seq>,
    /// It seems to swallow what it is given, one way or the other.
    pub suspected: bool,
}

impl Edges {
    /// Reads a message from the payload of a GRE packet.
    ///
    /// # Errors
    /// When the payload is too short, of another kind, or has an impossible count.
    pub fn parse(payload: &[u8]) -> Result<Edges, ControlError> {
        let Some((head, rest)) = payload.split_first_chunk::<HEAD_BYTES>() else {
            return Err(ControlError::Truncated);
        };
        if Kind::of(head)? != Kind::Edges {
            return Err(ControlError::Kind(head[0]));
        }
        let count = usize::from(head[1]);
        if count > MAX_PATHS {
            return Err(ControlError::Counts);
        }
        let (session, about) = (u64_at(head, 8), u64_at(head, 16));
        if session == 0 || about == 0 {
            return Err(ControlError::NoSession);
        }
        let entries = rest
            .get(..count * ENTRY_BYTES)
            .ok_or(ControlError::Truncated)?;
        let entry = |bytes: &[u8]| {
            let last = Seq::new(u32_at(bytes, 4));
            Edge {
                path: bytes[0],
                last: (bytes[1] != 0).then_some(last),
                suspected: bytes[2] & 1 != 0,
            }
        };
        Ok(Edges {
            next: Seq::new(u32_at(head, 4)),
            session,
            about,
            paths: entries.chunks_exact(ENTRY_BYTES).map(entry).collect(),
        })
    }

    /// Length without GRE header, in bytes.
    #[must_use]
    pub fn buffer_len(&self) -> usize {
        HEAD_BYTES + self.paths.len() * ENTRY_BYTES
    }

    /// Writes the message to the start of `out`, which has room for [`Edges::buffer_len`] bytes.
    /// Returns how many it wrote.
    ///
    /// # Panics
    /// When there is too little room.
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let out = &mut out[..self.buffer_len()];
        let (head, entries) = out.split_at_mut(HEAD_BYTES);
        head[..4].copy_from_slice(&[Kind::Edges as u8, self.paths.len() as u8, 0, 0]);
        head[4..8].copy_from_slice(&self.next.value().to_be_bytes());
        head[8..16].copy_from_slice(&self.session.to_be_bytes());
        head[16..].copy_from_slice(&self.about.to_be_bytes());
        let entries = entries.chunks_exact_mut(ENTRY_BYTES);
        for (edge, entry) in self.paths.iter().zip(entries) {
            let flags = [u8::from(edge.last.is_some()), u8::from(edge.suspected)];
            entry[..4].copy_from_slice(&[edge.path, flags[0], flags[1], 0]);
            let last = edge.last.map_or(0, Seq::value);
            entry[4..].copy_from_slice(&last.to_be_bytes());
        }
        self.buffer_len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_written_is_read(
            next: u32,
            session in 1..=u64::MAX,
            about in 1..=u64::MAX,
            paths in vec((any::<u8>(), any::<Option<u32>>(), any::<bool>()), 0..=MAX_PATHS),
        ) {
            let edges = Edges {
                next: Seq::new(next),
                session,
                about,
                paths: paths
                    .into_iter()
                    .map(|(path, last, suspected)| Edge {
                        path,
                        last: last.map(Seq::new),
                        suspected,
                    })
                    .collect(),
            };
            let mut bytes = [0; MAX_EDGES_BYTES];
            let len = edges.emit(&mut bytes);
            prop_assert_eq!(len, edges.buffer_len());
            prop_assert_eq!(Edges::parse(&bytes[..len - 1]), Err(ControlError::Truncated));
            prop_assert_eq!(Edges::parse(&bytes[..len]), Ok(edges));
        }

        #[test]
        fn no_bytes_make_it_panic(mut bytes in vec(any::<u8>(), 0..200)) {
            if let Some(kind) = bytes.first_mut() {
                *kind = Kind::Edges as u8;
            }
            let _ = Edges::parse(&bytes);
        }
    }

    #[test]
    fn more_entries_than_paths_are_refused() {
        let mut bytes = [1; 400];
        bytes[0] = Kind::Edges as u8;
        bytes[1] = MAX_PATHS as u8;
        assert!(Edges::parse(&bytes).is_ok());
        bytes[1] += 1;
        assert_eq!(Edges::parse(&bytes), Err(ControlError::Counts));
    }
}

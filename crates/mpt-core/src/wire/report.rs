//! Receiver reports: what arrived, by path, and what is missing.
//!
//! A probe says a few times a second that a path lives. Whoever shares packets among paths by what
//! they deliver, or sends lost packets again, needs to know within milliseconds what arrived. So a
//! receiver whose peer asks for it (a flag in the peer's probes) reports while data come, and falls
//! silent when they do. A report is a *state*, not a change: one that is lost is made good by the
//! next, and one that is repeated changes nothing.
//!
//! For each path it tells the edge (the highest sequence number that arrived on it) with its time of
//! arrival, and how much has arrived in all. The sender, which knows when and as the how-manieth it
//! sent that number there, learns from it the one-way delay (but for the offset of the two clocks),
//! the rate of delivery and the loss. The missing numbers are what it could send again.
//!
//! The layout, in network byte order, behind a GRE header without sequence number whose Protocol
//! Type is [`crate::wire::gre::CONTROL_ETHERTYPE`]:
//!
//! | bytes | field |
//! |---|---|
//! | 0 | kind, 2 |
//! | 1 | number of path entries, at most 16 |
//! | 2 | number of missing ranges, at most 32 |
//! | 3 | number of duplicates, at most 16 |
//! | 4–7 | number of this report, from 1 |
//! | 8–15 | session of the reporter |
//! | 16–23 | session of the sender that is reported on |
//! | 24–31 | time of sending, reporter's clock, ns |
//! | 32–35 | everything below this number was delivered or given up |
//! | 36–39 | one past the highest number that arrived |
//! | then | path entries of 32 bytes, missing ranges of 8, duplicates of 4 |
//!
//! A path entry:
//!
//! | bytes | field |
//! |---|---|
//! | 0 | path, by the index of the sender that is reported on |
//! | 1–3 | zero |
//! | 4–7 | edge: highest sequence number that arrived on the path |
//! | 8–15 | when it arrived, reporter's clock, ns |
//! | 16–23 | datagrams with sequence numbers that arrived on the path in this session |
//! | 24–31 | their bytes, GRE headers included |
//!
//! A missing range is the first missing number and how many are missing from there, the oldest range
//! first. A duplicate is a number that arrived again recently: the sender sent it needlessly. Bytes
//! behind these are ignored.

use arrayvec::ArrayVec;

use crate::limits::MAX_PATHS;
use crate::seq::Seq;
use crate::time::Time;
use crate::wire::ip::{u32_at, u64_at};
use crate::wire::kind::{ControlError, Kind};

/// Most missing ranges in a report.
pub const MAX_MISSING: usize = 32;
/// Most duplicates in a report.
pub const MAX_DUPLICATES: usize = 16;
/// Length of the longest report without its GRE header, in bytes.
pub const MAX_REPORT_BYTES: usize = HEAD_BYTES
    + MAX_PATHS * PATH_BYTES
    + MAX_MISSING * RANGE_BYTES
    + MAX_DUPLICATES * DUPLICATE_BYTES;

const HEAD_BYTES: usize = 40;
const PATH_BYTES: usize = 32;
const RANGE_BYTES: usize = 8;
const DUPLICATE_BYTES: usize = 4;

/// What arrived, as its receiver tells its sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Number of this report, from 1.
    pub number: u32,
    /// The reporter's session.
    pub session: u64,
    /// The session of the sender that is reported on.
    pub about: u64,
    /// When it was sent, by the reporter's clock.
    pub sent: Time,
    /// Everything below was delivered or given up.
    pub next: Seq,
    /// One past the highest number that arrived on one of these paths or was given up.
    pub high: Seq,
    /// What arrived on each path that something arrived on.
    pub paths: ArrayVec<PathReport, MAX_PATHS>,
    /// What is missing from `next` up to `high`, oldest first, as far as there is room.
    pub missing: ArrayVec<Missing, MAX_MISSING>,
    /// What arrived again since the last report, as far as there is room.
    pub duplicates: ArrayVec<Seq, MAX_DUPLICATES>,
}

#[cfg(test)]
impl Report {
    /// A report of this session on that one, that nothing has arrived.
    pub(crate) fn of_test(number: u32, session: u64, about: u64, sent: Time) -> Report {
        Report {
            number,
            session,
            about,
            sent,
            next: Seq::FIRST,
            high: Seq::FIRST,
            paths: ArrayVec::new(),
            missing: ArrayVec::new(),
            duplicates: ArrayVec::new(),
        }
    }
}

/// What arrived on one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathReport {
    /// The path, by the data sender's index; any value may have come.
    pub path: u8,
    /// Highest sequence number that arrived on the path.
    pub edge: Seq,
    /// When it arrived, by the reporter's clock.
    pub edge_arrived: Time,
    /// Numbered datagrams that arrived on the path in this session.
    pub packets: u64,
    /// Their bytes, GRE headers included.
    pub bytes: u64,
}

/// Consecutive numbers that are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missing {
    /// The first of them.
    pub first: Seq,
    /// How many, at least 1.
    pub count: u32,
}

impl Report {
    /// Reads a report from the payload of a GRE packet.
    ///
    /// # Errors
    /// When the payload is too short, of another kind, or has impossible counts.
    pub fn parse(payload: &[u8]) -> Result<Report, ControlError> {
        let Some((head, rest)) = payload.split_first_chunk::<HEAD_BYTES>() else {
            return Err(ControlError::Truncated);
        };
        if Kind::of(head)? != Kind::Report {
            return Err(ControlError::Kind(head[0]));
        }
        let [paths, missing, duplicates] = [head[1], head[2], head[3]].map(usize::from);
        if paths > MAX_PATHS || missing > MAX_MISSING || duplicates > MAX_DUPLICATES {
            return Err(ControlError::Counts);
        }
        let (session, about) = (u64_at(head, 8), u64_at(head, 16));
        if session == 0 || about == 0 {
            return Err(ControlError::NoSession);
        }
        let (path_bytes, rest) = split(rest, paths * PATH_BYTES)?;
        let (missing_bytes, rest) = split(rest, missing * RANGE_BYTES)?;
        let (duplicate_bytes, _) = split(rest, duplicates * DUPLICATE_BYTES)?;
        let missing: ArrayVec<Missing, MAX_MISSING> = missing_bytes
            .chunks_exact(RANGE_BYTES)
            .map(Missing::parse)
            .collect();
        if missing.iter().any(|range| range.count == 0) {
            return Err(ControlError::Counts);
        }
        Ok(Report {
            number: u32_at(head, 4),
            session,
            about,
            sent: Time::from_nanos(u64_at(head, 24)),
            next: Seq::new(u32_at(head, 32)),
            high: Seq::new(u32_at(head, 36)),
            paths: path_bytes
                .chunks_exact(PATH_BYTES)
                .map(PathReport::parse)
                .collect(),
            missing,
            duplicates: duplicate_bytes
                .chunks_exact(DUPLICATE_BYTES)
                .map(|bytes| Seq::new(u32_at(bytes, 0)))
                .collect(),
        })
    }

    /// Length without GRE header, in bytes.
    #[must_use]
    pub fn buffer_len(&self) -> usize {
        HEAD_BYTES
            + self.paths.len() * PATH_BYTES
            + self.missing.len() * RANGE_BYTES
            + self.duplicates.len() * DUPLICATE_BYTES
    }

    /// Writes the report to the start of `out`, which has room for [`Report::buffer_len`] bytes.
    /// Returns how many it wrote.
    ///
    /// # Panics
    /// When there is too little room.
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let out = &mut out[..self.buffer_len()];
        let (head, rest) = out.split_at_mut(HEAD_BYTES);
        head[0] = Kind::Report as u8;
        head[1] = self.paths.len() as u8;
        head[2] = self.missing.len() as u8;
        head[3] = self.duplicates.len() as u8;
        head[4..8].copy_from_slice(&self.number.to_be_bytes());
        head[8..16].copy_from_slice(&self.session.to_be_bytes());
        head[16..24].copy_from_slice(&self.about.to_be_bytes());
        head[24..32].copy_from_slice(&self.sent.as_nanos().to_be_bytes());
        head[32..36].copy_from_slice(&self.next.value().to_be_bytes());
        head[36..40].copy_from_slice(&self.high.value().to_be_bytes());
        let (paths, rest) = rest.split_at_mut(self.paths.len() * PATH_BYTES);
        for (path, out) in self.paths.iter().zip(paths.chunks_exact_mut(PATH_BYTES)) {
            path.emit(out);
        }
        let (missing, duplicates) = rest.split_at_mut(self.missing.len() * RANGE_BYTES);
        for (range, out) in self
            .missing
            .iter()
            .zip(missing.chunks_exact_mut(RANGE_BYTES))
        {
            out[..4].copy_from_slice(&range.first.value().to_be_bytes());
            out[4..].copy_from_slice(&range.count.to_be_bytes());
        }
        let duplicates = duplicates.chunks_exact_mut(DUPLICATE_BYTES);
        for (seq, out) in self.duplicates.iter().zip(duplicates) {
            out.copy_from_slice(&seq.value().to_be_bytes());
        }
        self.buffer_len()
    }
}

impl PathReport {
    fn parse(bytes: &[u8]) -> PathReport {
        PathReport {
            path: bytes[0],
            edge: Seq::new(u32_at(bytes, 4)),
            edge_arrived: Time::from_nanos(u64_at(bytes, 8)),
            packets: u64_at(bytes, 16),
            bytes: u64_at(bytes, 24),
        }
    }

    fn emit(&self, out: &mut [u8]) {
        out[..4].copy_from_slice(&[self.path, 0, 0, 0]);
        out[4..8].copy_from_slice(&self.edge.value().to_be_bytes());
        out[8..16].copy_from_slice(&self.edge_arrived.as_nanos().to_be_bytes());
        out[16..24].copy_from_slice(&self.packets.to_be_bytes());
        out[24..32].copy_from_slice(&self.bytes.to_be_bytes());
    }
}

impl Missing {
    fn parse(bytes: &[u8]) -> Missing {
        Missing {
            first: Seq::new(u32_at(bytes, 0)),
            count: u32_at(bytes, 4),
        }
    }
}

fn split(bytes: &[u8], at: usize) -> Result<(&[u8], &[u8]), ControlError> {
    bytes.split_at_checked(at).ok_or(ControlError::Truncated)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn report() -> impl Strategy<Value = Report> {
        let path = (
            any::<u8>(),
            any::<u32>(),
            any::<u64>(),
            any::<u64>(),
            any::<u64>(),
        )
            .prop_map(|(path, edge, arrived, packets, bytes)| PathReport {
                path,
                edge: Seq::new(edge),
                edge_arrived: Time::from_nanos(arrived),
                packets,
                bytes,
            });
        let missing = (any::<u32>(), 1..=u32::MAX).prop_map(|(first, count)| Missing {
            first: Seq::new(first),
            count,
        });
        (
            (any::<u32>(), 1..=u64::MAX, 1..=u64::MAX, any::<u64>()),
            (any::<u32>(), any::<u32>()),
            vec(path, 0..=MAX_PATHS),
            vec(missing, 0..=MAX_MISSING),
            vec(any::<u32>(), 0..=MAX_DUPLICATES),
        )
            .prop_map(|(head, edges, paths, missing, duplicates)| Report {
                number: head.0,
                session: head.1,
                about: head.2,
                sent: Time::from_nanos(head.3),
                next: Seq::new(edges.0),
                high: Seq::new(edges.1),
                paths: paths.into_iter().collect(),
                missing: missing.into_iter().collect(),
                duplicates: duplicates.into_iter().map(Seq::new).collect(),
            })
    }

    proptest! {
        #[test]
        fn what_was_emitted_parses_to_the_same(report in report()) {
            let mut bytes = [0; MAX_REPORT_BYTES];
            let len = report.emit(&mut bytes);
            prop_assert_eq!(Report::parse(&bytes[..len]), Ok(report));
            prop_assert_eq!(Report::parse(&bytes[..len - 1]), Err(ControlError::Truncated));
        }

        #[test]
        fn any_bytes_parse_or_fail_without_panic(mut bytes: Vec<u8>) {
            if let Some(kind) = bytes.first_mut() {
                *kind = Kind::Report as u8;
            }
            let _ = Report::parse(&bytes);
        }
    }

    #[test]
    fn impossible_counts_are_refused() {
        let mut bytes = [0; MAX_REPORT_BYTES];
        bytes[0] = Kind::Report as u8;
        bytes[8..24].fill(1);
        assert!(Report::parse(&bytes).is_ok());
        for at in 1..4 {
            let mut bytes = bytes;
            bytes[at] = 33;
            assert_eq!(Report::parse(&bytes), Err(ControlError::Counts), "{at}");
        }
        bytes[2] = 1;
        assert_eq!(Report::parse(&bytes), Err(ControlError::Counts));
    }
}

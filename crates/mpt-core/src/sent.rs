//! What was sent under which number: where, when, and as the how-manieth on its path.
//!
//! A receiver report names numbers; what it means for a path follows from what was noted when they
//! were sent. A note is made for each *run*, packets with consecutive numbers that one path took at
//! one moment, so that a super-packet costs one note and a lone packet one too. The notes form a ring:
//! the oldest are overwritten, and a report that names them is too old to tell anything.

use crate::path::{MAX_PATHS, PathId};
use crate::seq::Seq;
use crate::time::Time;

/// Notes that are kept. At one packet a note and 1,400 bytes a packet they cover 22 MB, more than is
/// ever under way at rates where packets go out one by one.
const RUNS: usize = 16_384;

/// Running totals of the numbered datagrams sent on a path, up to and including one of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) packets: u64,
    /// GRE headers included.
    pub(crate) bytes: u64,
}

/// What is known of a number that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SentAt {
    pub(crate) path: PathId,
    pub(crate) time: Time,
    /// Of its path, with itself.
    pub(crate) totals: Totals,
}

#[derive(Debug, Clone, Copy)]
struct Run {
    first: Seq,
    packets: u32,
    bytes: u32,
    path: PathId,
    time: Time,
    before: Totals,
}

/// The notes.
#[derive(Debug)]
pub(crate) struct SentLog {
    runs: Vec<Run>,
    /// Where the next note goes once the ring is full.
    next: usize,
    totals: [Totals; MAX_PATHS],
}

impl SentLog {
    pub(crate) fn new() -> SentLog {
        SentLog {
            runs: Vec::with_capacity(RUNS),
            next: 0,
            totals: Default::default(),
        }
    }

    /// Notes that `path` took `packets` packets of `bytes` altogether, numbered from `first` on
    /// without a break since the last note.
    #[inline]
    pub(crate) fn note(&mut self, time: Time, path: PathId, first: Seq, packets: u32, bytes: u32) {
        let totals = &mut self.totals[path.index()];
        let run = Run {
            first,
            packets,
            bytes,
            path,
            time,
            before: *totals,
        };
        totals.packets += u64::from(packets);
        totals.bytes += u64::from(bytes);
        if self.runs.len() < RUNS {
            self.runs.push(run);
        } else {
            self.runs[self.next] = run;
            self.next = (self.next + 1) % RUNS;
        }
    }

    /// Notes that `path` took a packet of `bytes` that had been sent before.
    pub(crate) fn note_again(&mut self, path: PathId, bytes: u32) {
        let totals = &mut self.totals[path.index()];
        totals.packets += 1;
        totals.bytes += u64::from(bytes);
    }

    /// What is known of `seq`; `None` if it was not sent, or too long ago.
    pub(crate) fn find(&self, seq: Seq) -> Option<SentAt> {
        let at = |index: usize| &self.runs[(self.next + index) % self.runs.len()];
        let begins_by = |index: usize| !at(index).first.is_after(seq);
        let (mut low, mut high) = (0, self.runs.len());
        while low < high {
            let middle = low.midpoint(high);
            if begins_by(middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let run = at(low.checked_sub(1)?);
        let place = u32::try_from(seq.distance_from(run.first)).ok()?;
        if place >= run.packets {
            return None;
        }
        let upto = u64::from(place) + 1;
        Some(SentAt {
            path: run.path,
            time: run.time,
            totals: Totals {
                packets: run.before.packets + upto,
                bytes: run.before.bytes + u64::from(run.bytes) * upto / u64::from(run.packets),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(us: u64) -> Time {
        Time::from_nanos(us * 1000)
    }

    proptest! {
        #[test]
        fn every_number_of_late_is_found_and_no_other(
            first: u32,
            runs in proptest::collection::vec((0..3usize, 1..45u32), 1..300),
        ) {
            let mut log = SentLog::new();
            prop_assert_eq!(log.find(Seq::new(first)), None);
            let mut seq = Seq::new(first);
            let mut totals = [Totals::default(); 3];
            let mut expected = Vec::new();
            for (us, &(path, packets)) in (0..).zip(&runs) {
                let id = PathId::new(path).unwrap();
                log.note(at(us), id, seq, packets, packets * 100);
                for _ in 0..packets {
                    totals[path].packets += 1;
                    totals[path].bytes += 100;
                    expected.push((seq, SentAt { path: id, time: at(us), totals: totals[path] }));
                    seq = seq.next();
                }
            }
            for (seq, sent) in expected {
                prop_assert_eq!(log.find(seq), Some(sent));
            }
            prop_assert_eq!(log.find(seq), None);
            prop_assert_eq!(log.find(Seq::new(first.wrapping_sub(1))), None);
        }
    }

    #[test]
    fn the_oldest_notes_are_overwritten() {
        let mut log = SentLog::new();
        let path = PathId::new(1).unwrap();
        for seq in 0..RUNS as u32 + 10 {
            log.note(at(seq.into()), path, Seq::new(seq), 1, 100);
        }
        assert_eq!(log.find(Seq::new(9)), None);
        let totals = |packets| Totals {
            packets,
            bytes: packets * 100,
        };
        assert_eq!(
            log.find(Seq::new(10)).map(|sent| sent.totals),
            Some(totals(11))
        );
        assert_eq!(log.find(Seq::new(RUNS as u32 + 10)), None);
    }
}

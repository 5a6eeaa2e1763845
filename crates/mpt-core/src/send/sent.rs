//! What was sent under which number: where, when, and as the how-manieth on its path.
//!
//! A receiver report names numbers; what it means for a path follows from what was noted when they
//! were sent. A note is made for each *run*, packets with consecutive numbers that one path took at
//! one moment, so that a super-packet costs one note and a lone packet one too. The notes form a ring:
//! the oldest are overwritten, and a report that names them is too old to tell anything.

use crate::path::{MAX_PATHS, PathId};
use crate::seq::Seq;
use crate::time::Time;

/// Notes that are kept of a path. At one packet a note and 1,400 bytes a packet they cover 22 MB, more than
/// is ever under way at rates where packets go out one by one.
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
    pub(crate) time: Time,
    /// Of its path, with itself.
    pub(crate) totals: Totals,
}

#[derive(Debug, Clone, Copy)]
struct Run {
    first: Seq,
    packets: u32,
    bytes: u32,
    time: Time,
    before: Totals,
}

/// The notes, by path.
#[derive(Debug, Default)]
pub(crate) struct SentLog {
    paths: [PathLog; MAX_PATHS],
}

#[derive(Debug, Default)]
struct PathLog {
    runs: Vec<Run>,
    /// Where the next note goes once the ring is full.
    next: usize,
    totals: Totals,
}

impl SentLog {
    /// Notes that `path` took `packets` packets of `bytes` altogether, numbered from `first` on. Numbers
    /// that are not higher than those before count, but are not to be found.
    #[inline]
    pub(crate) fn note(&mut self, time: Time, path: PathId, first: Seq, packets: u32, bytes: u32) {
        let log = &mut self.paths[path.index()];
        let before = log.totals;
        log.totals.packets += u64::from(packets);
        log.totals.bytes += u64::from(bytes);
        if let Some(last) = log.last().map(|last| last.first) {
            if !first.supersedes(last) {
                return;
            }
            if !first.is_after(last) || !first.is_after(log.at(0).first) {
                // Some of these are of another time round, and a search would pass them by.
                log.forget_runs();
            }
        }
        log.push(Run {
            first,
            packets,
            bytes,
            time,
            before,
        });
    }

    /// Nothing was sent for some seconds, and all of it was reported on: the notes are forgotten, not the totals.
    pub(crate) fn rest(&mut self) {
        self.paths.iter_mut().for_each(PathLog::forget_runs);
    }

    /// Another path has this number from now on.
    pub(crate) fn forget_path(&mut self, path: PathId) {
        self.paths[path.index()] = PathLog::default();
    }

    /// Notes that `path` took a packet of `bytes` that had been sent before.
    pub(crate) fn note_again(&mut self, path: PathId, bytes: u32) {
        let totals = &mut self.paths[path.index()].totals;
        totals.packets += 1;
        totals.bytes += u64::from(bytes);
    }

    /// What is known of `seq` on `path`; `None` if it was not sent there, or too long ago.
    pub(crate) fn find(&self, path: PathId, seq: Seq) -> Option<SentAt> {
        self.paths[path.index()].find(seq)
    }

    /// Whether a packet that `path` took at `time` had gone over another path by then: it may have come that way,
    /// and be said to have come this way by who put it before this path's socket.
    pub(crate) fn went_elsewhere(&self, path: PathId, seq: Seq, time: Time) -> bool {
        let others = self.paths.iter().enumerate();
        let mut others =
            others.filter(|(index, log)| *index != path.index() && !log.runs.is_empty());
        others.any(|(_, log)| log.find(seq).is_some_and(|sent| sent.time <= time))
    }

    /// When the first number higher than `seq` was sent on `path`, if one was.
    pub(crate) fn next_after(&self, path: PathId, seq: Seq) -> Option<Time> {
        self.paths[path.index()].next_after(seq)
    }
}

impl PathLog {
    fn forget_runs(&mut self) {
        (self.runs, self.next) = (Vec::new(), 0);
    }

    fn last(&self) -> Option<&Run> {
        let len = self.runs.len();
        self.runs.get((self.next + len).checked_sub(1)? % len)
    }

    #[inline]
    fn push(&mut self, run: Run) {
        if self.runs.len() < RUNS {
            self.runs.push(run);
        } else {
            self.runs[self.next] = run;
            self.next = (self.next + 1) % RUNS;
        }
    }

    fn at(&self, index: usize) -> &Run {
        &self.runs[(self.next + index) % self.runs.len()]
    }

    /// How many of the runs begin with `seq` or before.
    fn begun_by(&self, seq: Seq) -> usize {
        let (mut low, mut high) = (0, self.runs.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.at(middle).first.is_after(seq) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }

    fn next_after(&self, seq: Seq) -> Option<Time> {
        let begun = self.begun_by(seq);
        let last = begun.checked_sub(1).map(|index| self.at(index));
        let goes_on = |run: &&Run| run.first.plus(run.packets - 1).is_after(seq);
        let next = || (begun < self.runs.len()).then(|| self.at(begun));
        last.filter(goes_on).or_else(next).map(|run| run.time)
    }

    fn find(&self, seq: Seq) -> Option<SentAt> {
        let run = self.at(self.begun_by(seq).checked_sub(1)?);
        let place = u32::try_from(seq.distance_from(run.first)).ok()?;
        if place >= run.packets {
            return None;
        }
        let upto = u64::from(place) + 1;
        Some(SentAt {
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
            let mut log = SentLog::default();
            let find = |log: &SentLog, seq| (0..3).map(|path| log.find(PathId::new(path).unwrap(), seq)).collect::<Vec<_>>();
            prop_assert_eq!(find(&log, Seq::new(first)), [None; 3]);
            let mut seq = Seq::new(first);
            let mut totals = [Totals::default(); 3];
            let mut expected = Vec::new();
            for (us, &(path, packets)) in (0..).zip(&runs) {
                let id = PathId::new(path).unwrap();
                log.note(at(us), id, seq, packets, packets * 100);
                for _ in 0..packets {
                    totals[path].packets += 1;
                    totals[path].bytes += 100;
                    let mut sent = [None; 3];
                    sent[path] = Some(SentAt { time: at(us), totals: totals[path] });
                    expected.push((seq, sent));
                    seq = seq.next();
                }
            }
            for &(seq, sent) in &expected {
                prop_assert_eq!(find(&log, seq), sent);
            }
            for (at, (seq, _)) in expected.iter().enumerate() {
                for path in 0..3 {
                    let next = expected[at + 1..].iter().find_map(|(_, sent)| sent[path]);
                    let after = log.next_after(PathId::new(path).unwrap(), *seq);
                    prop_assert_eq!(after, next.map(|sent| sent.time));
                }
            }
            prop_assert_eq!(find(&log, seq), [None; 3]);
            prop_assert_eq!(find(&log, Seq::new(first.wrapping_sub(1))), [None; 3]);
        }
    }

    #[test]
    fn the_oldest_notes_are_overwritten() {
        let mut log = SentLog::default();
        let path = PathId::new(1).unwrap();
        for seq in 0..RUNS as u32 + 10 {
            log.note(at(seq.into()), path, Seq::new(seq), 1, 100);
        }
        assert_eq!(log.find(path, Seq::new(9)), None);
        let totals = |packets| Totals {
            packets,
            bytes: packets * 100,
        };
        assert_eq!(
            log.find(path, Seq::new(10)).map(|sent| sent.totals),
            Some(totals(11))
        );
        assert_eq!(log.find(path, Seq::new(RUNS as u32 + 10)), None);
        // What comes behind others counts, but is not found.
        log.note(at(0), path, Seq::new(5), 1, 100);
        assert_eq!(log.find(path, Seq::new(5)), None);
        log.note(at(0), path, Seq::new(RUNS as u32 + 10), 1, 100);
        assert_eq!(
            log.find(path, Seq::new(RUNS as u32 + 10))
                .map(|sent| sent.totals),
            Some(totals(RUNS as u64 + 12))
        );
    }

    #[test]
    fn numbers_of_another_time_round_are_noted_and_a_path_is_forgotten_with_its_totals() {
        let mut log = SentLog::default();
        let path = PathId::new(1).unwrap();
        let later = Seq::new(10).plus((1 << 31) + 5);
        for seq in [Seq::new(10), later] {
            log.note(at(5), path, seq, 1, 100);
            assert!(log.find(path, seq).is_some());
        }
        assert_eq!(log.find(path, later).unwrap().totals.bytes, 200);
        log.forget_path(path);
        log.note(at(6), path, Seq::new(20), 1, 100);
        assert_eq!(log.find(path, Seq::new(20)).unwrap().totals.bytes, 100);
    }

    #[test]
    fn what_a_path_took_long_before_does_not_hide_what_it_took_later() {
        let mut log = SentLog::default();
        let path = PathId::new(1).unwrap();
        // Each is after the one before, and the last not after the first.
        let seqs = [0, 1 << 30, 2 << 30, 3 << 30].map(|step| Seq::new(10).plus(step));
        for seq in seqs {
            log.note(at(5), path, seq, 1, 100);
            assert!(log.find(path, seq).is_some(), "{seq:?}");
        }
    }

    #[test]
    fn what_went_over_another_path_before_is_told_from_what_did_later() {
        let mut log = SentLog::default();
        let [first, second, third] = [0, 1, 2].map(|path| PathId::new(path).unwrap());
        let seq = Seq::new(7);
        log.note(at(10), first, seq, 3, 300);
        log.note(at(10), second, seq, 1, 100);
        log.note(at(20), third, seq, 1, 100);
        let sent = |path, seq| log.find(path, seq).unwrap().time;
        for (path, elsewhere) in [(first, true), (second, true), (third, true)] {
            assert_eq!(log.went_elsewhere(path, seq, sent(path, seq)), elsewhere);
        }
        assert!(!log.went_elsewhere(first, seq.next(), at(10)));
        assert!(!log.went_elsewhere(second, seq, at(9)));
    }
}

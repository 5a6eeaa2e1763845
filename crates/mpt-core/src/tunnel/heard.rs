//! The peer's reports: which are believed, and wait for the line out.

use std::collections::VecDeque;
use std::time::Duration;

use crate::bucket::Allowance;
use crate::path::{MAX_PATHS, PathId};
use crate::time::Time;
use crate::wire::report::Report;

/// A report's number is no farther beyond the last than reports can be sent in some seconds: one that is was not
/// sent by the peer of this session.
const MAX_STEP: i32 = 1 << 13;
/// When none was believed for this long, the next is, whatever its number.
const REFUSED_FOR: Duration = Duration::from_secs(1);
/// Most of the peer's reports that wait for the other half.
const MAX_QUEUED: usize = 16;
/// A report is earned in so many microseconds: the peer sends no two within a millisecond, but one more over another path
/// every 40 ms.
const EARNED_IN_US: u64 = 800;
/// So many may come at once, after a path has held them back: usually a peer sends one in 5 ms.
const MAX_AT_ONCE: u32 = 256;

/// The peer's reports.
#[derive(Debug, Default)]
pub(super) struct HeardReports {
    /// Number of the peer's newest report, and of the newest that came over each path.
    newest: Option<u32>,
    newest_on: [Option<u32>; MAX_PATHS],
    /// Since when numbers were refused, and none believed.
    refused: Option<Time>,
    /// Those that the line out may still be told of.
    allowance: Allowance<EARNED_IN_US, MAX_AT_ONCE>,
    /// Reports for the other half of this end, with their time of arrival.
    queue: VecDeque<(Time, Report)>,
}

/// How a report of the peer's stands to those before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is newer than all.
    Newest,
    /// A newer one overtook it on another path.
    Overtaken,
    /// It came before, or is not the peer's of this session.
    Refused,
}

impl HeardReports {
    /// The peer began anew.
    pub(super) fn begin_session(&mut self) {
        *self = HeardReports::default();
    }

    /// How a report of the peer's with this number stands to those before. Somebody else's, that made all others
    /// look old, is forgotten after a while.
    pub(super) fn standing(&mut self, now: Time, path: PathId, number: u32) -> Standing {
        let beyond = |heard: Option<u32>| heard.map(|heard| number.wrapping_sub(heard) as i32);
        let is_newer_here = beyond(self.newest_on[path.index()]).is_none_or(|step| step > 0);
        let step = beyond(self.newest);
        let is_credible = is_newer_here && step.is_none_or(|step| step <= MAX_STEP);
        let is_newest = is_credible && step.is_none_or(|step| step > 0);
        let since = *self.refused.get_or_insert(now);
        if !is_newest && now.since(since) >= REFUSED_FOR {
            self.newest_on = Default::default();
        } else if !is_credible {
            return Standing::Refused;
        } else if !is_newest {
            self.newest_on[path.index()] = Some(number);
            return Standing::Overtaken;
        }
        self.newest_on[path.index()] = Some(number);
        self.newest = Some(number);
        self.refused = None;
        Standing::Newest
    }

    /// Keeps the newest report for the line out, unless the peer sends more than it may: each may make the line out look at
    /// all that it keeps. Returns whether one had to go: this one, or an older one, which says less.
    pub(super) fn push(&mut self, now: Time, report: Report) -> bool {
        if self.allowance.is_spent(now) {
            return true;
        }
        self.allowance.spend(now);
        let is_full = self.queue.len() >= MAX_QUEUED;
        if is_full {
            self.queue.pop_front();
        }
        self.queue.push_back((now, report));
        is_full
    }

    /// The next report, and when it came.
    pub(super) fn pop(&mut self) -> Option<(Time, Report)> {
        self.queue.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    fn path(index: usize) -> PathId {
        PathId::new(index).unwrap()
    }

    fn report(number: u32, now: Time) -> Report {
        Report::of_test(number, 1, 2, now)
    }

    /// How many of so many reports, one in `every`, the line out gets to see.
    fn told(reports: u32, every: Duration) -> usize {
        let mut heard = HeardReports::default();
        let told = (0..reports).filter(|number| {
            let now = at(1) + every * *number;
            heard.push(now, report(*number, now));
            heard.pop().is_some()
        });
        told.count()
    }

    #[test]
    fn a_flood_of_reports_is_bounded_and_what_a_peer_may_send_is_told() {
        let flood = told(100_000, Duration::from_micros(10));
        assert!((1400..1600).contains(&flood), "{flood} in a second");
        // One in a millisecond, and one in forty once more.
        assert_eq!(told(20_000, Duration::from_micros(975)), 20_000);
        assert_eq!(told(200, Duration::ZERO), 200);
    }

    fn is_newest(heard: &mut HeardReports, now: Time, number: u32) -> bool {
        heard.standing(now, path(0), number) == Standing::Newest
    }

    #[test]
    fn a_forged_number_ends_reports_for_no_more_than_a_second() {
        for forged in [1 << 30, 9000, u32::MAX, 1 << 31] {
            let mut heard = HeardReports::default();
            assert!(is_newest(&mut heard, at(0), 100));
            assert!(!is_newest(&mut heard, at(5), 100_u32.wrapping_add(forged)));
            assert!(is_newest(&mut heard, at(10), 101), "{forged}");
        }
        // As far ahead as is believed: those of the peer are believed again after a second.
        let mut heard = HeardReports::default();
        let mut believed = 0;
        for ms in 0..3000 {
            believed += u32::from(is_newest(&mut heard, at(ms), ms as u32 + 1));
            if ms == 1000 {
                assert!(is_newest(&mut heard, at(ms), ms as u32 + 8000));
            }
        }
        assert!((1990..=2010).contains(&believed), "{believed}");
    }

    #[test]
    fn late_reports_do_not_make_a_number_believed() {
        let mut heard = HeardReports::default();
        for ms in 0..5000 {
            assert!(is_newest(&mut heard, at(ms), 2 * ms as u32 + 2));
            assert!(!is_newest(&mut heard, at(ms), 2 * ms as u32 + 1));
        }
    }

    #[test]
    fn what_was_forged_on_one_path_does_not_silence_the_other_for_longer() {
        let mut heard = HeardReports::default();
        assert_eq!(heard.standing(at(0), path(0), 8000), Standing::Newest);
        let told = (1..3000).filter(|ms| {
            let number = 10 + *ms as u32;
            heard.standing(at(*ms), path(1), number) == Standing::Newest
        });
        assert!((1990..=2010).contains(&told.count()));
    }
}

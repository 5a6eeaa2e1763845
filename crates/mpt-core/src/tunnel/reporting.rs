//! Receiver reports: when they are sent, what is in them, and which of the peer's are believed.
//!
//! A peer that asks for reports learns what arrives every few milliseconds while data come, and once
//! more when they cease: a report is a state, and the last one has nothing behind it to make its
//! loss good. A gap that has just opened brings the next report forward; one that every path has
//! passed does so the more, and again when what was sent for it should have come.
//!
//! Reports may cost a hundredth of what the tunnel carries: for a byte that arrives 0.8 hundredths of
//! a byte of reports are earned, for one that is sent, 0.2 ([`Budget`]). The latter is for the
//! acknowledgements of a large flow, which are few bytes and yet must not be lost. What is saved up
//! suffices for a burst; the last quarter is kept for news of losses ([`Occasion`]). Where that is used up,
//! a report goes all the same when the last was [`REPORTED_WITHIN`] ago: the sender counts on it, or it would
//! take the path for dead ([`crate::send::silence`]).
//!
//! Reports go over the path that answers first. That may have died without a word, and the sender gone over
//! to another: so now and then, when data come over another, one more goes back over that.

use std::time::Duration;

use arrayvec::ArrayVec;

use super::report_budget::{Budget, Occasion};
use crate::path::{MAX_PATHS, PathId, PathSet};
use crate::receive::reorder::Reorder;
use crate::send::silence::{REPORT_INTERVAL, REPORTED_WITHIN};
use crate::seq::Seq;
use crate::time::{Time, earliest};
use crate::wire::probe::Message;
use crate::wire::report::{MAX_DUPLICATES, Missing, PathReport, Report};

/// Least time between two reports, whatever happens.
const LEAST_INTERVAL: Duration = Duration::from_millis(1);
/// Least time to one that tells of a gap that paths may still fill.
const GAP_INTERVAL: Duration = Duration::from_micros(2500);
/// What is sent again may come so much later than a round trip after it was told to be lost.
const RESEND_DELAY: Duration = Duration::from_millis(20);
/// A report on a few gaps takes no more than this.
const USUAL_BYTES: usize = 200;
/// In how many reports a duplicate stands, so that one may be lost.
const DUPLICATE_TOLD: u8 = 2;
/// What there is to report.
#[derive(Debug, Default)]
pub(super) struct Reporting {
    /// The peer's newest probe asked for reports.
    wanted: bool,
    /// It sends lost packets again.
    peer_resends: bool,
    /// The peer's index of each of our paths.
    peer_index: [Option<u8>; MAX_PATHS],
    arrived: [Arrived; MAX_PATHS],
    duplicates: ArrayVec<(Seq, u8), MAX_DUPLICATES>,
    /// Number of the last report sent.
    number: u32,
    last_sent: Option<Time>,
    /// The time between reports while data come, smoothed by an eighth as round trips are (RFC 6298 §2).
    interval: Duration,
    /// When the next report is due.
    due: Option<Time>,
    /// Something has arrived since the last report.
    news: bool,
    last_arrived: Time,
    /// The next report tells of a loss.
    urgent: bool,
    /// When what is lost is told once more, if it has not come by then.
    told_again: Option<Time>,
    /// Numbers that every path had passed, of which the last report told or the next one will.
    lost: u64,
    /// Of them, those that were given up, as far as a report told or will tell.
    given_up: u64,
    budget: Budget,
    /// Bytes of the reports that were sent, with all headers.
    sent_bytes: u64,
    /// The path that brought the newest data, and when a report went back over it for that alone.
    newest_on: Option<PathId>,
    copied: Option<Time>,
}

/// A data packet with a sequence number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Received {
    pub(super) seq: Seq,
    /// Bytes of the datagram.
    pub(super) bytes: usize,
    /// When the host received it: before it waited in the socket's buffer.
    pub(super) at: Time,
}

/// What arrived on a path with a sequence number.
#[derive(Debug, Clone, Copy, Default)]
struct Arrived {
    edge: Seq,
    edge_arrived: Time,
    packets: u64,
    bytes: u64,
}

impl Reporting {
    /// The peer began anew: what it counts begins at nothing.
    pub(super) fn begin_session(&mut self, restarted: bool) {
        if restarted {
            self.arrived = Default::default();
            self.duplicates.clear();
        }
        self.peer_index = Default::default();
        self.wanted = false;
        self.peer_resends = false;
        self.told_again = None;
        self.due = None;
        self.newest_on = None;
    }

    /// Forgets a path that was taken away.
    pub(super) fn forget_path(&mut self, path: PathId) {
        self.peer_index[path.index()] = None;
        self.arrived[path.index()] = Arrived::default();
    }

    /// A believed message says whether reports are wanted, and what the peer calls the path.
    pub(super) fn learn(&mut self, path: PathId, message: &Message) {
        // What the peer calls so may have led to another path of ours before.
        for other in &mut self.peer_index {
            other.take_if(|known| *known == message.path);
        }
        self.peer_index[path.index()] = Some(message.path);
        self.wanted = message.reports_wanted;
        self.peer_resends = message.resends;
        if !self.wanted {
            self.due = None;
            self.told_again = None;
        }
    }

    /// The path that the peer calls `index`.
    pub(super) fn path_of(&self, index: u8) -> Option<PathId> {
        let known = self
            .peer_index
            .iter()
            .position(|&known| known == Some(index));
        known.and_then(PathId::new)
    }

    /// Whether this number, or a higher one, has arrived on the path.
    pub(super) fn has_reached(&self, path: PathId, seq: Seq) -> bool {
        let arrived = &self.arrived[path.index()];
        arrived.packets > 0 && !seq.is_after(arrived.edge)
    }

    /// A believed data packet arrived.
    #[inline]
    pub(super) fn arrived(&mut self, now: Time, path: PathId, received: Received) {
        let Received { seq, bytes, at } = received;
        let arrived = &mut self.arrived[path.index()];
        if arrived.packets == 0 || seq.supersedes(arrived.edge) {
            arrived.edge = seq;
            arrived.edge_arrived = at;
        }
        arrived.packets += 1;
        arrived.bytes += bytes as u64;
        self.newest_on = Some(path);
        if self.wanted {
            self.budget.earn(bytes as u64);
            self.news = true;
            self.last_arrived = now;
            if self.due.is_none() {
                self.due = Some(now + REPORT_INTERVAL);
            }
        }
    }

    /// A packet arrived again.
    fn arrived_again(&mut self, seq: Seq) {
        if self.duplicates.is_full() {
            self.duplicates.remove(0);
        }
        self.duplicates.push((seq, DUPLICATE_TOLD));
    }

    /// The next report is due at `at`, if the last was `interval` before that.
    fn hurry(&mut self, at: Time, interval: Duration) {
        if self.wanted {
            let soonest = self.last_sent.map_or(at, |sent| sent + interval);
            self.due = earliest(self.due, Some(at.max(soonest)));
        }
    }

    /// When a report is to go whatever it costs, if there is something to report.
    fn needed_by(&self, now: Time) -> Option<Time> {
        let since = self.last_sent.map_or(now, |sent| sent + REPORTED_WITHIN);
        (self.news || self.urgent).then_some(since)
    }

    /// The time between reports while data come, smoothed: longer than usual where they tell of many gaps and the budget
    /// is short.
    pub(super) fn interval(&self) -> Duration {
        self.interval.max(REPORT_INTERVAL)
    }

    fn occasion(&self, now: Time) -> Occasion {
        if self.urgent {
            Occasion::Loss
        } else if now.since(self.last_arrived) >= REPORT_INTERVAL {
            Occasion::Pause
        } else {
            Occasion::Routine
        }
    }

    pub(super) fn peer_resends(&self) -> bool {
        self.peer_resends
    }

    pub(super) fn due(&self) -> Option<Time> {
        earliest(self.due, self.told_again)
    }

    /// The report that would be sent now.
    fn report<T: Copy + Default>(
        &self,
        now: Time,
        session: u64,
        about: u64,
        reorder: &Reorder<T>,
    ) -> Report {
        let paths = self.arrived.iter().zip(self.peer_index);
        let mut report = Report {
            number: self.number.wrapping_add(1).max(1),
            session,
            about,
            sent: now,
            next: reorder.next_expected(),
            high: reorder.told_to(),
            paths: paths
                .filter(|(arrived, _)| arrived.packets > 0)
                .filter_map(|(arrived, path)| Some(arrived.report(path?)))
                .collect(),
            missing: ArrayVec::new(),
            duplicates: self.duplicates.iter().map(|&(seq, _)| seq).collect(),
        };
        reorder.for_each_missing(|first, count| {
            report.missing.push(Missing { first, count });
            !report.missing.is_full()
        });
        report
    }

    fn sent(&mut self, now: Time, number: u32, bytes: usize) {
        self.number = number;
        self.sent_bytes += bytes as u64;
        if let Some(last) = self.last_sent.replace(now) {
            let interval = now.since(last);
            // After a longer one, data had ceased.
            if interval < REPORTED_WITHIN * 2 {
                self.interval = (self.interval * 7 + interval) / 8;
            }
        }
        for (_, told) in &mut self.duplicates {
            *told -= 1;
        }
        self.duplicates.retain(|&mut (_, told)| told > 0);
    }

    /// Notes for the next report what the reorder window made of a packet that it believes.
    /// `missing_before`: the numbers that were ever missing before it came.
    #[inline]
    pub(super) fn note_arrival<T: Copy + Default>(
        &mut self,
        now: Time,
        path: PathId,
        received: Received,
        is_copy: bool,
        missing_before: u64,
        reorder: &Reorder<T>,
    ) {
        self.arrived(now, path, received);
        if is_copy {
            self.arrived_again(received.seq);
        }
        if reorder.counters().gaps_seen != missing_before && reorder.gaps_open() > 0 {
            // Numbers are missing that were not before. They may still come, and are waited for.
            let overtaken = reorder.displacement(path);
            if self.budget.affords(USUAL_BYTES, Occasion::Routine) {
                self.hurry(now + overtaken, GAP_INTERVAL);
            }
        }
        self.note_losses(now, reorder);
    }

    /// When every path has passed a number since the last call, the peer is told without delay.
    #[inline]
    pub(super) fn note_losses<T: Copy + Default>(&mut self, now: Time, reorder: &Reorder<T>) {
        let lost = reorder.found_lost();
        if std::mem::replace(&mut self.lost, lost) != lost {
            self.hurry(now, LEAST_INTERVAL);
            self.urgent = true;
        }
        let given_up = reorder.counters().gaps_inferred_lost;
        if std::mem::replace(&mut self.given_up, given_up) != given_up {
            // Nobody needs to send them again any more.
            self.hurry(now + REPORT_INTERVAL, LEAST_INTERVAL);
        }
    }

    /// Whether a report is due now; it is not any more then.
    pub(super) fn take_due<T: Copy + Default>(&mut self, now: Time, reorder: &Reorder<T>) -> bool {
        if self.told_again.take_if(|at| *at <= now).is_some() && reorder.awaits_lost() {
            self.hurry(now, LEAST_INTERVAL);
            self.urgent = true;
        }
        self.due.take_if(|due| *due <= now).is_some()
    }

    /// The report that is due, and the paths that it goes over: none when it has to wait.
    pub(super) fn make<T: Copy + Default>(
        &mut self,
        now: Time,
        to: &Reader,
        reorder: &Reorder<T>,
    ) -> ArrayVec<(PathId, Report), 2> {
        let mut reports = ArrayVec::new();
        let report = self.report(now, to.own_session, to.session, reorder);
        let sent_len = report.buffer_len() + to.overhead;
        let occasion = self.occasion(now);
        self.budget.earn_sent(to.sent_bytes);
        if to.room == 0 {
            return reports;
        }
        if !self.budget.pay(sent_len, occasion) {
            let needed_by = self.needed_by(now);
            if needed_by.is_none_or(|needed_by| needed_by > now) {
                // Once there is a pause, more may be spent.
                let pause = self.last_arrived + REPORT_INTERVAL;
                let pause = (occasion == Occasion::Routine).then_some(pause);
                self.due = earliest(pause, needed_by);
                return reports;
            }
        }
        self.sent(now, report.number, sent_len);
        let other = self.other_way(now, to);
        reports.push((to.path, report));
        if let Some(other) = other {
            let mut copy = reports[0].1.clone();
            copy.number = copy.number.wrapping_add(1).max(1);
            self.budget.pay(sent_len, Occasion::Routine);
            self.sent(now, copy.number, sent_len);
            self.copied = Some(now);
            reports.push((other, copy));
        }
        self.urgent = false;
        if self.told_again.is_none() && reorder.awaits_lost() {
            self.told_again = to.rtt.map(|rtt| now + rtt + RESEND_DELAY);
        }
        // After the last data, one more.
        if std::mem::take(&mut self.news) {
            self.due = Some(now + REPORT_INTERVAL);
        }
        reports
    }

    /// The path that brought the newest data, if reports go back over another: that one may have died, and
    /// the sender gone over to the first.
    fn other_way(&self, now: Time, to: &Reader) -> Option<PathId> {
        let other = self.newest_on.filter(|&other| other != to.path)?;
        let is_due = self
            .copied
            .is_none_or(|at| now.since(at) >= REPORTED_WITHIN);
        (to.up.contains(other) && is_due && self.news && to.room > 1).then_some(other)
    }

    /// The path that brought the newest data.
    pub(super) fn newest_on(&self) -> Option<PathId> {
        self.newest_on
    }

    /// Bytes of the reports that were sent.
    pub(super) fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }
}

/// Whom a report goes to, and how.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader {
    pub(super) own_session: u64,
    pub(super) session: u64,
    pub(super) path: PathId,
    /// Paths that are up.
    pub(super) up: PathSet,
    /// Round-trip time of the quickest of them.
    pub(super) rtt: Option<Duration>,
    /// What a message has around it on the wire, in bytes.
    pub(super) overhead: usize,
    /// Messages that may be sent now.
    pub(super) room: usize,
    /// Bytes that were sent on all paths so far.
    pub(super) sent_bytes: u64,
}

impl Arrived {
    fn report(&self, path: u8) -> PathReport {
        PathReport {
            path,
            edge: self.edge,
            edge_arrived: self.edge_arrived,
            packets: self.packets,
            bytes: self.bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    fn asked() -> Reporting {
        Reporting {
            wanted: true,
            ..Reporting::default()
        }
    }

    fn path(index: usize) -> PathId {
        PathId::new(index).unwrap()
    }

    fn received(at: Time, seq: Seq) -> Received {
        Received {
            seq,
            bytes: 100,
            at,
        }
    }

    #[test]
    fn a_report_tells_when_the_host_received_and_not_when_it_was_looked_at() {
        let mut reporting = asked();
        reporting.arrived(at(30), path(0), received(at(10), Seq::new(0)));
        assert_eq!(reporting.arrived[0].edge_arrived, at(10));
        assert_eq!(reporting.due(), Some(at(30) + REPORT_INTERVAL));
    }

    #[test]
    fn the_edge_is_the_highest_number_and_not_the_last() {
        let mut reporting = asked();
        for (ms, seq) in [(1, u32::MAX), (2, 3), (3, 1)] {
            reporting.arrived(at(ms), path(0), received(at(ms), Seq::new(seq)));
        }
        let arrived = reporting.arrived[0];
        assert_eq!((arrived.edge, arrived.edge_arrived), (Seq::new(3), at(2)));
        assert_eq!((arrived.packets, arrived.bytes), (3, 300));
    }

    #[test]
    fn the_edge_of_a_path_that_was_not_used_for_half_the_numbers_goes_on() {
        let mut reporting = asked();
        for ahead in [0, (1 << 31) + 5, u32::MAX - 70_000] {
            let seq = Seq::new(1000).plus(ahead);
            let now = at(ahead.into());
            reporting.arrived(now, path(0), received(now, seq));
            assert_eq!(reporting.arrived[0].edge, seq);
        }
    }

    #[test]
    fn a_path_of_the_peer_leads_to_one_of_ours() {
        let mut reporting = asked();
        let called = |path| Message {
            reply_wanted: false,
            out_of_service: false,
            reports_wanted: true,
            resends: true,
            may_move: false,
            path,
            number: 1,
            session: 1,
            sent: at(0),
            tx_packets: 0,
            tx_bytes: 0,
            next_seq: Seq::FIRST,
            echo: None,
            rx_packets: 0,
            rx_bytes: 0,
            loss_ppm: 0,
        };
        reporting.learn(path(0), &called(3));
        reporting.learn(path(1), &called(3));
        assert_eq!(reporting.path_of(3), Some(path(1)));
        reporting.learn(path(0), &called(4));
        assert_eq!(
            [3, 4].map(|index| reporting.path_of(index)),
            [path(1), path(0)].map(Some)
        );
    }

    #[test]
    fn a_loss_is_told_at_once_but_a_millisecond_after_the_last_report() {
        let mut reporting = asked();
        reporting.arrived(at(10), path(0), received(at(9), Seq::new(0)));
        assert_eq!(reporting.due(), Some(at(15)));
        reporting.hurry(at(13), LEAST_INTERVAL);
        assert_eq!(reporting.due(), Some(at(13)));
        reporting.hurry(at(11), LEAST_INTERVAL);
        assert_eq!(reporting.due(), Some(at(11)));
        reporting.sent(at(11), 1, 100);
        reporting.due = None;
        reporting.hurry(at(11), LEAST_INTERVAL);
        assert_eq!(reporting.due(), Some(at(12)));
        reporting.wanted = false;
        reporting.due = None;
        reporting.hurry(at(20), LEAST_INTERVAL);
        assert_eq!(reporting.due(), None);
    }

    #[test]
    fn the_time_between_reports_is_learnt_and_pauses_do_not_count() {
        let mut reporting = asked();
        assert_eq!(reporting.interval(), REPORT_INTERVAL);
        for report in 0..40 {
            reporting.sent(at(30 * report), 1, 100);
        }
        let rare = Duration::from_millis(29)..Duration::from_millis(31);
        assert!(rare.contains(&reporting.interval()));
        reporting.sent(at(60_000), 1, 100);
        assert!(rare.contains(&reporting.interval()));
        for report in 0..80 {
            reporting.sent(at(60_000 + 2 * report), 1, 100);
        }
        assert_eq!(reporting.interval(), REPORT_INTERVAL);
    }

    #[test]
    fn a_duplicate_stands_in_two_reports() {
        let mut reporting = asked();
        for seq in 0..20 {
            reporting.arrived_again(Seq::new(seq));
        }
        assert_eq!(reporting.duplicates.len(), MAX_DUPLICATES);
        assert_eq!(reporting.duplicates[0].0, Seq::new(4));
        reporting.sent(at(0), 1, 100);
        assert_eq!(reporting.duplicates.len(), MAX_DUPLICATES);
        reporting.sent(at(0), 2, 100);
        assert!(reporting.duplicates.is_empty());
    }
}

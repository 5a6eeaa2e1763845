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

use std::collections::VecDeque;
use std::time::Duration;

use arrayvec::ArrayVec;

use super::inbound::Inbound;
use super::probing::MAX_MESSAGES_QUEUED;
use crate::control::drops::DropReason;
use crate::path::{MAX_PATHS, PathId, PathSet, PathState};
use crate::receive::reorder::{Reorder, Verdict};
use crate::send::silence::REPORTED_WITHIN;
use crate::seq::Seq;
use crate::time::{Time, earliest};
use crate::wire::probe::Message;
use crate::wire::report::{MAX_DUPLICATES, Missing, PathReport, Report};

/// Time between reports while data come.
pub(super) const REPORT_INTERVAL: Duration = Duration::from_millis(5);
/// Least time between two reports, whatever happens.
const LEAST_INTERVAL: Duration = Duration::from_millis(1);
/// Least time to one that tells of a gap that paths may still fill.
const GAP_INTERVAL: Duration = Duration::from_micros(2500);
/// A thousand of this is a byte of reports; a byte that arrives earns eight, and one that is sent two.
const COST: u64 = 1000;
const ARRIVED_EARNS: u64 = 8;
const SENT_EARNS: u64 = 2;
/// Bytes of reports that may be saved up: a hundred reports on two paths with a few gaps.
const BURST_BYTES: u64 = 100 * 140;
/// What is sent again may come so much later than a round trip after it was told to be lost.
const RESEND_DELAY: Duration = Duration::from_millis(20);
/// A report on a few gaps takes no more than this.
const USUAL_BYTES: usize = 200;
/// In how many reports a duplicate stands, so that one may be lost.
const DUPLICATE_TOLD: u8 = 2;
/// A report's number is no farther beyond the last than reports can be sent in some seconds: one that is was not
/// sent by the peer of this session.
const MAX_STEP: i32 = 1 << 13;
/// When none was believed for so long, the next is, whatever its number.
const REFUSED_FOR: Duration = Duration::from_secs(1);
/// Most of the peer's reports that wait for the other half.
const MAX_REPORTS_QUEUED: usize = 16;

/// What there is to report, and what the peer reported.
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
    /// Paths that were known to be suspected.
    suspected: PathSet,
    /// The path that brought the newest data, and when a report went back over it for that alone.
    newest_on: Option<PathId>,
    copied: Option<Time>,
    /// Number of the peer's newest report, and of the newest that came over each path.
    heard: Option<u32>,
    heard_on: [Option<u32>; MAX_PATHS],
    /// Since when numbers were refused, and none believed.
    refused: Option<Time>,
    /// The peer's reports for the other half of this end, with their time of arrival.
    queue: VecDeque<(Time, Report)>,
}

/// What arrived on a path with a sequence number.
#[derive(Debug, Clone, Copy, Default)]
struct Arrived {
    edge: Seq,
    edge_arrived: Time,
    packets: u64,
    bytes: u64,
}

/// How a report of the peer's stands to those before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It is newer than all.
    Newest,
    /// A newer one overtook it on another path.
    Overtaken,
    /// It came before, or is not the peer's of this session.
    Refused,
}

/// Why a report is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Occasion {
    /// Every path has passed a missing number.
    Loss,
    /// Nothing comes any more.
    Pause,
    /// Data come.
    Routine,
}

impl Occasion {
    /// Bytes of reports that are kept for better occasions.
    fn reserve(self) -> u64 {
        match self {
            Occasion::Loss => 0,
            Occasion::Pause => BURST_BYTES / 4,
            Occasion::Routine => BURST_BYTES / 2,
        }
    }
}

/// How many bytes of reports may be sent.
#[derive(Debug)]
struct Budget {
    /// In [`COST`]ths of a byte.
    saved: u64,
    /// Bytes sent that have earned.
    sent: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Budget {
            saved: BURST_BYTES * COST,
            sent: 0,
        }
    }
}

impl Budget {
    /// So many bytes arrived.
    fn earn(&mut self, bytes: u64) {
        self.saved = (self.saved + bytes * ARRIVED_EARNS).min(BURST_BYTES * COST);
    }

    /// So many bytes were sent until now, in all.
    fn earn_sent(&mut self, sent: u64) {
        let bytes = sent.saturating_sub(self.sent);
        self.sent = sent;
        self.saved = (self.saved + bytes * SENT_EARNS).min(BURST_BYTES * COST);
    }

    /// Whether it can pay for a report without what is kept for better occasions.
    fn affords(&self, bytes: usize, occasion: Occasion) -> bool {
        self.saved >= (bytes as u64 + occasion.reserve()) * COST
    }

    /// Pays for a report, if it can.
    fn pay(&mut self, bytes: usize, occasion: Occasion) -> bool {
        let affordable = self.affords(bytes, occasion);
        if affordable {
            self.saved -= bytes as u64 * COST;
        }
        affordable
    }
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
        self.heard = None;
        self.heard_on = Default::default();
        self.newest_on = None;
        self.refused = None;
        self.queue.clear();
    }

    /// Forgets a path that was taken away.
    pub(super) fn forget_path(&mut self, path: PathId) {
        self.peer_index[path.index()] = None;
        self.arrived[path.index()] = Arrived::default();
    }

    /// A believed message says whether reports are wanted, and what the peer calls the path.
    pub(super) fn learn(&mut self, path: PathId, message: &Message) {
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

    /// A believed data packet of `bytes` bytes arrived.
    #[inline]
    pub(super) fn arrived(&mut self, now: Time, path: PathId, seq: Seq, bytes: usize) {
        let arrived = &mut self.arrived[path.index()];
        if arrived.packets == 0 || seq.is_after(arrived.edge) {
            arrived.edge = seq;
            arrived.edge_arrived = now;
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

    fn occasion(&self, now: Time) -> Occasion {
        if self.urgent {
            Occasion::Loss
        } else if now.since(self.last_arrived) >= REPORT_INTERVAL {
            Occasion::Pause
        } else {
            Occasion::Routine
        }
    }

    /// How a report of the peer's with this number stands to those before. Somebody else's, that made all others
    /// look old, is forgotten after a while.
    fn standing(&mut self, now: Time, path: PathId, number: u32) -> Standing {
        let beyond = |heard: Option<u32>| heard.map(|heard| number.wrapping_sub(heard) as i32);
        let is_newer_here = beyond(self.heard_on[path.index()]).is_none_or(|step| step > 0);
        let step = beyond(self.heard);
        let is_credible = is_newer_here && step.is_none_or(|step| step <= MAX_STEP);
        let is_newest = is_credible && step.is_none_or(|step| step > 0);
        let since = *self.refused.get_or_insert(now);
        if !is_newest && now.since(since) >= REFUSED_FOR {
            self.heard_on = Default::default();
        } else if !is_credible {
            return Standing::Refused;
        } else if !is_newest {
            self.heard_on[path.index()] = Some(number);
            return Standing::Overtaken;
        }
        self.heard_on[path.index()] = Some(number);
        self.heard = Some(number);
        self.refused = None;
        Standing::Newest
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
            high: reorder.high(),
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
        self.last_sent = Some(now);
        for (_, told) in &mut self.duplicates {
            *told -= 1;
        }
        self.duplicates.retain(|&mut (_, told)| told > 0);
    }
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

impl Inbound {
    /// Notes for the next report what the reorder window made of a packet. `missing_before`:
    /// the numbers that were ever missing before it came.
    #[inline]
    pub(super) fn note_arrival(
        &mut self,
        now: Time,
        path: PathId,
        seq: Seq,
        bytes: usize,
        verdict: Verdict,
        missing_before: u64,
    ) {
        if verdict == Verdict::Unbelievable {
            return;
        }
        self.reporting.arrived(now, path, seq, bytes);
        if verdict == Verdict::Duplicate {
            self.reporting.arrived_again(seq);
        }
        if self.reorder.counters().gaps_seen != missing_before && self.reorder.gaps_open() > 0 {
            // Numbers are missing that were not before. They may still come, and are waited for.
            let overtaken = self.reorder.displacement(path);
            let budget = &self.reporting.budget;
            if budget.affords(USUAL_BYTES, Occasion::Routine) {
                self.reporting.hurry(now + overtaken, GAP_INTERVAL);
            }
        }
        self.note_losses(now);
    }

    /// Notes for the next report that a packet came again.
    pub(super) fn note_copy_arrival(&mut self, now: Time, path: PathId, seq: Seq, bytes: usize) {
        self.reporting.arrived(now, path, seq, bytes);
        self.reporting.arrived_again(seq);
        self.note_losses(now);
    }

    /// When every path has passed a number since the last call, the peer is told without delay.
    #[inline]
    pub(super) fn note_losses(&mut self, now: Time) {
        let lost = self.reorder.found_lost();
        if std::mem::replace(&mut self.reporting.lost, lost) != lost {
            self.reporting.hurry(now, LEAST_INTERVAL);
            self.reporting.urgent = true;
        }
        let given_up = self.reorder.counters().gaps_inferred_lost;
        if std::mem::replace(&mut self.reporting.given_up, given_up) != given_up {
            // Nobody needs to send them again any more.
            self.reporting.hurry(now + REPORT_INTERVAL, LEAST_INTERVAL);
        }
    }

    /// Sends the report that is due.
    pub(super) fn report_if_due(&mut self, now: Time) {
        if self.reporting.told_again.is_some_and(|at| at <= now) {
            self.reporting.told_again = None;
            if self.reorder.awaits_lost() {
                self.reporting.hurry(now, LEAST_INTERVAL);
                self.reporting.urgent = true;
            }
        }
        if self.reporting.due.is_none_or(|due| due > now) {
            return;
        }
        self.reporting.due = None;
        let (Some(about), Some(path)) = (self.peer.session(), self.way_back()) else {
            return;
        };
        let report = self
            .reporting
            .report(now, self.session, about, &self.reorder);
        let sent_len = self.control_len(report.buffer_len());
        let occasion = self.reporting.occasion(now);
        let paths = (0..MAX_PATHS).filter_map(PathId::new);
        let sent = paths.map(|path| self.shared.sent(path).1).sum();
        self.reporting.budget.earn_sent(sent);
        if !self.may_speak() || self.messages.len() >= MAX_MESSAGES_QUEUED {
            return;
        }
        if !self.reporting.budget.pay(sent_len, occasion) {
            let needed_by = self.reporting.needed_by(now);
            if needed_by.is_none_or(|needed_by| needed_by > now) {
                // Once there is a pause, more may be spent.
                let pause = self.reporting.last_arrived + REPORT_INTERVAL;
                let pause = (occasion == Occasion::Routine).then_some(pause);
                self.reporting.due = earliest(pause, needed_by);
                return;
            }
        }
        self.send_report(now, path, &report);
        if let Some(other) = self.other_way_back(now, path) {
            let copy = Report {
                number: report.number.wrapping_add(1).max(1),
                ..report
            };
            self.reporting.budget.pay(sent_len, Occasion::Routine);
            self.send_report(now, other, &copy);
            self.reporting.copied = Some(now);
        }
        self.reporting.urgent = false;
        if self.reporting.told_again.is_none() && self.reorder.awaits_lost() {
            self.reporting.told_again = self.quickest_rtt().map(|rtt| now + rtt + RESEND_DELAY);
        }
        // After the last data, one more.
        if std::mem::take(&mut self.reporting.news) {
            self.reporting.due = Some(now + REPORT_INTERVAL);
        }
    }

    /// The path that reports go over. The peer may know that its path is up before this end does, and send:
    /// then the one that brought it will do, or the peer would take it for dead at once.
    fn way_back(&self) -> Option<PathId> {
        let newest_on = || {
            let brought = self.reporting.newest_on?;
            let path = self.paths[brought.index()].as_ref()?;
            let may_be_used = matches!(path.state, PathState::Probing | PathState::Down);
            path.peer.filter(|_| may_be_used).map(|_| brought)
        };
        self.quickest_path().or_else(newest_on)
    }

    fn send_report(&mut self, now: Time, path: PathId, report: &Report) {
        self.queue_control(path, report.buffer_len(), |out| report.emit(out));
        let sent_len = self.control_len(report.buffer_len());
        self.reporting.sent(now, report.number, sent_len);
    }

    /// The path that brought the newest data, if reports go back over another: that one may have died, and
    /// the sender gone over to the first.
    fn other_way_back(&self, now: Time, path: PathId) -> Option<PathId> {
        let other = self.reporting.newest_on.filter(|&other| other != path)?;
        let is_up = self.paths[other.index()].as_ref()?.state == PathState::Up;
        let copied = self.reporting.copied;
        let is_due = copied.is_none_or(|at| now.since(at) >= REPORTED_WITHIN);
        (is_up && is_due && self.reporting.news && self.messages.len() < MAX_MESSAGES_QUEUED)
            .then_some(other)
    }

    /// Bytes of the reports that were sent.
    pub(super) fn report_bytes(&self) -> u64 {
        self.reporting.sent_bytes
    }

    /// The path that is up and answers first, of those that neither end suspects if there are any.
    pub(super) fn quickest_path(&self) -> Option<PathId> {
        let (suspected, doubted) = (self.shared.suspected(), self.edging.wary_of());
        (0..MAX_PATHS)
            .filter_map(PathId::new)
            .filter_map(|id| {
                let path = self.paths[id.index()].as_ref()?;
                let rtt = path.rtt.smoothed().unwrap_or(Duration::MAX);
                let order = (suspected.contains(id), doubted.contains(id), rtt, id);
                (path.state == PathState::Up).then_some(order)
            })
            .min()
            .map(|(.., id)| id)
    }

    /// Its smoothed round-trip time.
    pub(super) fn quickest_rtt(&self) -> Option<Duration> {
        let quickest = self.paths[self.quickest_path()?.index()].as_ref()?;
        quickest.rtt.smoothed()
    }

    /// A path that has come to be suspected is probed at once.
    pub(super) fn notice_suspected(&mut self, now: Time) {
        let suspected = self.shared.suspected();
        let known = std::mem::replace(&mut self.reporting.suspected, suspected);
        for path in suspected.iter().filter(|&path| !known.contains(path)) {
            if let Some(path) = &mut self.paths[path.index()] {
                path.next_probe = path.next_probe.min(now);
            }
        }
        if !suspected.is_empty() || !known.is_empty() {
            self.tell_edges(now);
        }
    }

    /// Takes a report of the path's peer, for [`Inbound::poll_report`]. It is believed when it is of
    /// the peer's session, about ours, and newer than the last.
    pub(super) fn handle_report(&mut self, now: Time, path: PathId, report: Report) {
        let is_the_peer_s =
            self.peer.session() == Some(report.session) && report.about == self.session;
        let standing = is_the_peer_s.then(|| self.reporting.standing(now, path, report.number));
        let Some(standing) = standing.filter(|standing| *standing != Standing::Refused) else {
            self.drops.count(DropReason::StaleControl, 1);
            return;
        };
        self.control_packets += 1;
        self.notice_suspected(now);
        if standing == Standing::Overtaken {
            // Those that came over a quicker path meanwhile said more.
            return;
        }
        if self.reporting.queue.len() >= MAX_REPORTS_QUEUED {
            // Newer ones say more.
            self.reporting.queue.pop_front();
            self.control_packets -= 1;
            self.drops.count(DropReason::StaleControl, 1);
        }
        self.reporting.queue.push_back((now, report));
        self.tell_edges(now);
    }

    /// The next of the peer's reports on what this end sent, and when it came: for
    /// [`super::Outbound::handle_report`]. A few wait; when they are not fetched, the oldest go.
    pub fn poll_report(&mut self) -> Option<(Time, Report)> {
        self.reporting.queue.pop_front()
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

    fn is_newest(reporting: &mut Reporting, now: Time, number: u32) -> bool {
        reporting.standing(now, path(0), number) == Standing::Newest
    }

    #[test]
    fn a_forged_number_ends_reports_for_no_more_than_a_second() {
        for forged in [1 << 30, 9000, u32::MAX, 1 << 31] {
            let mut reporting = asked();
            assert!(is_newest(&mut reporting, at(0), 100));
            assert!(!is_newest(
                &mut reporting,
                at(5),
                100_u32.wrapping_add(forged)
            ));
            assert!(is_newest(&mut reporting, at(10), 101), "{forged}");
        }
        // As far ahead as is believed: those of the peer are believed again after a second.
        let mut reporting = asked();
        let mut believed = 0;
        for ms in 0..3000 {
            believed += u32::from(is_newest(&mut reporting, at(ms), ms as u32 + 1));
            if ms == 1000 {
                assert!(is_newest(&mut reporting, at(ms), ms as u32 + 8000));
            }
        }
        assert!((1990..=2010).contains(&believed), "{believed}");
    }

    #[test]
    fn late_reports_do_not_make_a_number_believed() {
        let mut reporting = asked();
        for ms in 0..5000 {
            assert!(is_newest(&mut reporting, at(ms), 2 * ms as u32 + 2));
            assert!(!is_newest(&mut reporting, at(ms), 2 * ms as u32 + 1));
        }
    }

    #[test]
    fn what_was_forged_on_one_path_does_not_silence_the_other_for_longer() {
        let mut reporting = asked();
        assert_eq!(reporting.standing(at(0), path(0), 8000), Standing::Newest);
        let told = (1..3000).filter(|ms| {
            let number = 10 + *ms as u32;
            reporting.standing(at(*ms), path(1), number) == Standing::Newest
        });
        assert!((1990..=2010).contains(&told.count()));
    }

    fn path(index: usize) -> PathId {
        PathId::new(index).unwrap()
    }

    #[test]
    fn a_burst_is_saved_up_and_a_part_of_it_kept_for_losses() {
        let mut budget = Budget::default();
        let mut sent = 0;
        for (occasion, so_far) in [
            (Occasion::Routine, 50),
            (Occasion::Pause, 75),
            (Occasion::Loss, 100),
        ] {
            while budget.pay(140, occasion) {
                sent += 1;
            }
            assert_eq!(sent, so_far);
        }
        budget.earn(17_500);
        assert!(budget.pay(140, Occasion::Loss) && !budget.pay(140, Occasion::Loss));
    }

    #[test]
    fn the_edge_is_the_highest_number_and_not_the_last() {
        let mut reporting = asked();
        for (ms, seq) in [(1, u32::MAX), (2, 3), (3, 1)] {
            reporting.arrived(at(ms), path(0), Seq::new(seq), 100);
        }
        let arrived = reporting.arrived[0];
        assert_eq!((arrived.edge, arrived.edge_arrived), (Seq::new(3), at(2)));
        assert_eq!((arrived.packets, arrived.bytes), (3, 300));
    }

    #[test]
    fn a_loss_is_told_at_once_but_a_millisecond_after_the_last_report() {
        let mut reporting = asked();
        reporting.arrived(at(10), path(0), Seq::new(0), 100);
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

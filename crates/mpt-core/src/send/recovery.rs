//! Recovery: what a path lost is sent again before the inner flows notice.
//!
//! The sender keeps what it sent ([`Recovery::keep`]) until the peer's reports say that the receiver
//! is done with it. Loss is told as RACK does it (RFC 8985; Weinrank, Tüxen and Rathgeb for SCTP),
//! by time and for each path: paths deliver in order, so a number that is missing while one that was
//! sent later *on the same path* has arrived is lost, once the path's *reordering window* has passed.
//! That window is zero until the path has been seen to reorder, which shows when what was missing comes,
//! or the original of what was sent again since a later packet had passed it; then it is a quarter of the round-trip time, a quarter more
//! for each round trip in which something was sent again needlessly, at most one round-trip time, and
//! after 16 clean recoveries a quarter less (where RFC 8985 begins anew: each time that had cost a
//! burst of needless ones). It runs from when a report of the packet is usual: the path's round trip, or, while the window
//! is a quarter at most, what one of its slower reports takes, if that is less. And a report has to say
//! so: where packets overtake, reports tell of many gaps, are long, and so come seldom. Only one that
//! does not come for a round trip is not waited for.
//!
//! What is lost goes out again on the path where it arrives first, with its number, at most twice. The
//! second time is the last chance, and losses come in bursts: then it takes another path first, and a
//! second copy goes over the next best. That it was lost again is told by time alone, too: reports came
//! after that usual time, and do not have it. With each report as many go as were sent since the last, or a few
//! ([`burst`]). Over all, the bytes sent again are bounded by a share of the bytes sent ([`EARNED`]),
//! whatever a report claims.
//!
//! When the last packets of a burst are lost nothing is sent later that would tell. So if no report
//! comes for two round trips although something is outstanding, the newest packet is sent once more,
//! as a probe (RFC 8985 §7); the report that answers it tells the rest. When that one is not answered either, a
//! burst of losses holds on, which may be over only after so many packets, not after a time: the next probe goes
//! with all that nothing was heard of, as fast as [`burst`] and the share of what is sent again allow.
//!
//! What is not lost, but slow, goes over a path that has nothing else to carry ([`outpaced`]).
//!
//! What is kept has bounds ([`kept`]). At rates at which that is less than a round trip, nothing is kept.

mod burst;
mod detection;
pub(crate) mod kept;
mod outpaced;
mod resends;
mod stranded;

use std::collections::VecDeque;
use std::time::Duration;

use burst::BurstLimit;
use detection::{PathRecovery, REPORT_DELAY, Reported};
use kept::{Kept, KeptPackets};

use crate::bucket::ShareBucket;
use crate::path::{MAX_PATHS, PathId};
use crate::send::sent::SentLog;
use crate::send::silence::REPORTED_WITHIN;
use crate::send::slab::{Slab, Stored};
use crate::seq::Seq;
use crate::time::{Time, earliest};
use crate::wire::report::{MAX_MISSING, Missing, Report};

use arrayvec::ArrayVec;

/// Packets are not kept while more than this is sent in [`FAST_SPAN`]: above 2 Gbit/s.
const FAST_BYTES: u64 = 2_500_000;
const FAST_SPAN: Duration = Duration::from_millis(10);
/// Most times that a packet is sent again.
const MAX_TRIES: u8 = 2;
/// Most lost packets that wait to be sent again.
const MAX_DUE: usize = 2048;
/// For each so many bytes sent, one may be sent again …
const EARNED: u64 = 8;
/// … and so many may be saved up for: a path of 100 Mbit/s that is gone for 150 ms, as a satellite's is now and then, loses
/// nearly as many at once.
const SAVED_BYTES: u64 = 2 << 20;
/// Numbers recently sent again, to know a needless one when its original arrives.
const REMEMBERED: usize = 256;
/// Of what a report calls missing, no more than so many packets are looked at, the oldest: twice as many as may wait to be sent
/// again, as some of them wait already. A peer that calls all missing that is kept, 1,250 times a second, took up to nine tenths
/// of a worker's line out without this bound.
const MOST_JUDGED: usize = 2 * MAX_DUE;
/// Of a range that was missing, so many packets are looked at to tell whether they come after all.
const LOOKED_AT: usize = 16;
/// A path that lost something this long ago may lose more.
const LATELY: Duration = Duration::from_secs(2);
/// Beyond what a report may take, this time is waited before the tail is probed.
const TAIL_MARGIN: Duration = Duration::from_millis(25);
/// Probes of the tail in a row.
const MAX_PROBES: u32 = 2;

/// What was done, in packets since start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    pub(crate) lost: u64,
    pub(crate) resent: u64,
    pub(crate) resent_bytes: u64,
    pub(crate) spurious: u64,
    pub(crate) probes: u64,
}

/// A packet to be sent again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Resend {
    pub(crate) seq: Seq,
    pub(crate) tos: u8,
    /// This path is to be avoided: it lost the packet a second time, or nothing that it took since has
    /// arrived, and it may lose many in a row.
    pub(crate) lost_on: Option<PathId>,
    /// This is the last time: two copies are to go, over two paths.
    pub(crate) is_twofold: bool,
    /// Not known to be lost: the tail is probed with it, or another path brings it sooner.
    is_probe: bool,
}

impl Resend {
    /// A packet that is not known to be lost.
    fn unlost(seq: Seq, tos: u8) -> Resend {
        Resend {
            seq,
            tos,
            lost_on: None,
            is_twofold: false,
            is_probe: true,
        }
    }
}

/// What was sent and may have to be sent again.
#[derive(Debug)]
pub(crate) struct Recovery {
    enabled: bool,
    kept: KeptPackets,
    paths: [PathRecovery; MAX_PATHS],
    quickest: Duration,
    due: VecDeque<Seq>,
    /// What was under way on paths that are suspected, the oldest first.
    stranded: VecDeque<Seq>,
    burst: BurstLimit,
    /// What may be sent again.
    allowance: ShareBucket,
    /// What was sent again lately, and the path that had passed it, if one had.
    resent: VecDeque<(Seq, Option<PathId>)>,
    /// What the last report called missing, and one past the highest number that had arrived.
    missing: ArrayVec<Missing, MAX_MISSING>,
    high: Seq,
    /// The highest number that had arrived on any path. What is missing beyond it the receiver knows from
    /// the edges that all paths' probes told it.
    arrived: Option<Seq>,
    /// When what is missing is looked at again.
    recheck: Option<Time>,
    last_lost: Option<Time>,
    last_sent: Time,
    last_report: Time,
    /// When it is considered whether the tail needs a probe.
    probe_check: Option<Time>,
    probes: u32,
    /// When the tail was probed last.
    probed: Time,
    fast: (Time, u64),
    counters: Counters,
}

impl Recovery {
    pub(crate) fn new(enabled: bool) -> Recovery {
        Recovery {
            enabled,
            kept: KeptPackets::new(),
            paths: Default::default(),
            quickest: Duration::from_millis(100),
            due: VecDeque::new(),
            stranded: VecDeque::new(),
            burst: BurstLimit::default(),
            allowance: ShareBucket::full(EARNED, SAVED_BYTES),
            resent: VecDeque::new(),
            missing: ArrayVec::new(),
            high: Seq::FIRST,
            arrived: None,
            recheck: None,
            last_lost: None,
            last_sent: Time::ZERO,
            last_report: Time::ZERO,
            probe_check: None,
            probes: 0,
            probed: Time::ZERO,
            fast: (Time::ZERO, 0),
            counters: Counters::default(),
        }
    }

    pub(crate) fn set_enabled(&mut self, slab: &mut Slab, enabled: bool) {
        self.enabled = enabled;
        self.forget(slab);
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// How long what is sent now may wait at the receiver for what is sent again.
    pub(crate) fn holds(&self, now: Time) -> Duration {
        let lately = self.last_lost.is_some_and(|at| now.since(at) < LATELY);
        if lately {
            self.patience()
        } else {
            Duration::ZERO
        }
    }

    pub(crate) fn counters(&self) -> Counters {
        self.counters
    }

    /// Packets that this path lost, or swallowed, and that were sent again.
    pub(crate) fn recovered(&self, path: PathId) -> u64 {
        self.paths[path.index()].recovered
    }

    /// Another path has this number from now on.
    pub(crate) fn forget_path(&mut self, path: PathId) {
        self.paths[path.index()] = PathRecovery::default();
    }

    /// How many packets are kept.
    pub(crate) fn packets(&self) -> usize {
        self.kept.len()
    }

    /// Bytes of memory that they take.
    pub(crate) fn memory(&self) -> usize {
        self.kept.memory()
    }

    /// Nothing was sent for some seconds: nobody asks for it any more, and the memory is given back.
    pub(crate) fn rest(&mut self, slab: &mut Slab) {
        self.forget(slab);
        self.kept.rest(slab);
        (self.due, self.stranded, self.resent) = Default::default();
    }

    /// Forgets all that was sent.
    fn forget(&mut self, slab: &mut Slab) {
        self.kept.clear(slab);
        self.due.clear();
        self.stranded.clear();
        self.missing.clear();
        self.recheck = None;
        self.probe_check = None;
    }

    /// Forgets the oldest packets that take `bytes` of memory. Whether there was one.
    pub(crate) fn forget_oldest(&mut self, slab: &mut Slab, bytes: usize) -> bool {
        self.kept.forget_oldest(slab, bytes)
    }

    pub(crate) fn set_rtt(&mut self, path: PathId, rtt: Duration, quickest: Duration) {
        self.paths[path.index()].rtt = rtt;
        self.quickest = quickest;
    }

    /// Says that `bytes` are about to be sent; whether what is sent now is to be kept.
    #[inline]
    pub(crate) fn keeps(&mut self, slab: &mut Slab, now: Time, bytes: usize) -> bool {
        if !self.enabled {
            return false;
        }
        let (began, sum) = &mut self.fast;
        if now.since(*began) > FAST_SPAN {
            (*began, *sum) = (now, 0);
        }
        *sum += bytes as u64;
        if *sum > FAST_BYTES {
            if !self.kept.is_empty() {
                self.forget(slab);
            }
            return false;
        }
        true
    }

    /// Keeps the inner packet that was sent with the number `seq`, the one after the last.
    pub(crate) fn keep(
        &mut self,
        slab: &mut Slab,
        now: Time,
        seq: Seq,
        path: PathId,
        tos: u8,
        packet: Stored,
    ) {
        if !self.kept.is_next(seq) {
            self.forget(slab);
        }
        self.allowance.earn(packet.len() as u64, 1);
        self.kept.push(slab, now, seq, path, tos, packet);
        self.burst.note_sent();
        self.last_sent = now;
        self.probes = 0;
        if self.probe_check.is_none() {
            self.probe_check = Some(now + self.tail_patience());
        }
    }

    /// What was kept last is bound to its path and not sent yet.
    pub(crate) fn bind_newest(&mut self) {
        if let Some(kept) = self.kept.newest_mut() {
            kept.bound = true;
        }
    }

    /// What is to be sent again is bound to its path as well.
    pub(crate) fn bind(&mut self, seq: Seq) {
        if let Some(kept) = self.kept.get_mut(seq) {
            kept.bound = true;
        }
    }

    /// What was bound is sent now, over `path`.
    pub(crate) fn unbind(&mut self, now: Time, seq: Seq, path: PathId) {
        self.last_sent = now;
        if let Some(kept) = self.kept.get_mut(seq) {
            kept.sent = now;
            kept.path = path;
            kept.bound = false;
        }
    }

    /// What was bound is dropped: it is not sent, and not missed.
    pub(crate) fn leave(&mut self, seq: Seq) {
        if let Some(kept) = self.kept.get_mut(seq) {
            (kept.bound, kept.tries) = (false, MAX_TRIES + 1);
        }
    }

    /// A packet that is kept.
    pub(crate) fn packet(&self, seq: Seq) -> Option<&Stored> {
        self.kept.packet(seq)
    }

    /// How long what was lost is held up, until it is known and here after all.
    fn patience(&self) -> Duration {
        self.quickest * 2 + REPORT_DELAY
    }

    /// How long to wait for a report on what was sent last: it comes over the path that took that, and
    /// where little comes the peer is in no hurry to report.
    fn tail_patience(&self) -> Duration {
        let newest = self.kept.newest().map(|(_, kept)| kept.path);
        let rtt = newest.map_or(self.quickest, |path| self.paths[path.index()].rtt);
        let rtt = rtt.max(self.quickest);
        (rtt * 2 + REPORT_DELAY).max(rtt + REPORTED_WITHIN + TAIL_MARGIN)
    }

    /// Takes a believed report.
    pub(crate) fn learn(&mut self, slab: &mut Slab, now: Time, report: &Report, log: &SentLog) {
        if !self.enabled {
            return;
        }
        self.last_report = now;
        self.kept.release_before(slab, report.next);
        self.note_overtaken(now, report);
        for entry in &report.paths {
            let Some(path) = PathId::new(usize::from(entry.path)) else {
                continue;
            };
            let Some(sent) = log.find(path, entry.edge) else {
                continue;
            };
            self.paths[path.index()].arrived(now, entry.edge, sent.time);
        }
        self.note_needless(now, report);
        self.missing.clone_from(&report.missing);
        self.high = report.high;
        let edges = report.paths.iter().map(|entry| entry.edge);
        self.arrived = edges.reduce(Seq::later);
        self.reconsider_due(now);
        self.judge(now);
        self.burst.refill(now, self.quickest);
    }

    /// What the report before called missing, behind what its path had delivered, and this one does not, has
    /// been overtaken, if nothing that was sent again can have arrived since: the path reorders (RFC 8985 §6.2
    /// step 4). That shows a round trip before what is sent again proves needless. To be called while edges
    /// are those of the report before: what is missing ahead of them is under way.
    fn note_overtaken(&mut self, now: Time, report: &Report) {
        for range in &self.missing {
            let first = range.first.later(self.kept.first());
            // A path that reorders shows it soon: of long ranges the first will do.
            let count = usize::try_from(range.first.plus(range.count).distance_from(first));
            for offset in 0..count.unwrap_or(0).min(LOOKED_AT) {
                let seq = first.plus(offset as u32);
                let Some(kept) = self.kept.get(seq) else {
                    break;
                };
                let passed_on = match kept.tries {
                    0 => {
                        let path = &self.paths[kept.path.index()];
                        path.has_passed(seq, kept.sent).then_some(kept.path)
                    }
                    _ if now.since(kept.sent) < self.quickest / 2 => self.passed_on(seq),
                    _ => None,
                };
                if let Some(path) = passed_on
                    && !is_missing(&report.missing, report.high, seq)
                {
                    self.paths[path.index()].overtaken(now);
                }
            }
        }
    }

    /// The path that had passed it, of what was sent again lately.
    fn passed_on(&self, seq: Seq) -> Option<PathId> {
        let of = |&&(resent, _): &&(Seq, Option<PathId>)| resent == seq;
        self.resent.iter().find(of).and_then(|&(_, path)| path)
    }

    /// What was found lost and was not sent again yet is looked at once more: it may have arrived, or its path
    /// was seen to reorder since.
    fn reconsider_due(&mut self, now: Time) {
        for _ in 0..self.due.len() {
            let Some(seq) = self.due.pop_front() else {
                return;
            };
            let Some(kept) = self.kept.get_mut(seq) else {
                continue;
            };
            let path = &self.paths[kept.path.index()];
            if is_missing(&self.missing, self.high, seq) && !path.widened_at(now) {
                self.due.push_back(seq);
            } else {
                kept.due = false;
            }
        }
    }

    /// The original of what was sent again has arrived: a path that had passed it reorders. Where none had, it is
    /// reports that were missing, which says nothing of the path.
    fn note_needless(&mut self, now: Time, report: &Report) {
        for &seq in &report.duplicates {
            let Some(index) = self.resent.iter().position(|&(resent, _)| resent == seq) else {
                continue;
            };
            let Some((_, path)) = self.resent.remove(index) else {
                continue;
            };
            self.counters.spurious += 1;
            if let Some(path) = path {
                self.paths[path.index()].needless(now);
            }
        }
    }

    /// Looks at what is missing: what of it is lost by now? Returns how many packets it looked at.
    fn judge(&mut self, now: Time) -> usize {
        self.recheck = None;
        let ranges = self.missing.clone();
        let mut looked = 0;
        // Ranges ascend; of those that do not, nothing is looked at twice.
        let mut judged = self.kept.first();
        for range in ranges {
            let end = range.first.plus(range.count);
            let mut seq = range.first.later(judged);
            judged = judged.later(end);
            while end.is_after(seq) && looked < MOST_JUDGED {
                let Some(&kept) = self.kept.get(seq) else {
                    break;
                };
                self.judge_one(now, seq, kept);
                seq = seq.next();
                looked += 1;
            }
        }
        looked
    }

    fn judge_one(&mut self, now: Time, seq: Seq, kept: Kept) {
        let most_tries = MAX_TRIES + u8::from(kept.rescued);
        if kept.due || kept.bound || kept.stranded || kept.tries >= most_tries {
            return;
        }
        let reported = Reported {
            last: self.last_report,
            arrived: self.arrived,
        };
        let path = &self.paths[kept.path.index()];
        let lost_at = path.lost_at(now, seq, &kept, reported);
        if lost_at > now {
            self.recheck = earliest(self.recheck, Some(lost_at));
            return;
        }
        if self.due.len() >= MAX_DUE {
            return;
        }
        self.counters.lost += 1;
        self.last_lost = Some(now);
        let rtt = self.quickest;
        self.burst.begin(now, rtt);
        if kept.tries > 0 {
            self.burst.back_off(now, rtt);
        }
        self.paths[kept.path.index()].lost(now);
        if let Some(kept) = self.kept.get_mut(seq) {
            kept.due = true;
            self.due.push_back(seq);
        }
    }
}

/// Whether a number is within the ranges, or not below `high`.
fn is_missing(ranges: &[Missing], high: Seq, seq: Seq) -> bool {
    let holds =
        |range: &Missing| !range.first.is_after(seq) && range.first.plus(range.count).is_after(seq);
    !high.is_after(seq) || ranges.iter().any(holds)
}

#[cfg(test)]
mod tests;

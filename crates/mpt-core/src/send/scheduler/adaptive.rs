//! Each packet where it will arrive first, as far as the paths can take it.
//!
//! [`Pace`] knows of each path how late a packet arrives there and how much the path takes. The path
//! with the least delay takes everything as long as it can. When it is busy, packets wait for it, in
//! the sender's own queue, until that lasts as long as a slower path adds in delay. From then on the
//! slower path delivers them no later: what the faster path delivers before is *bound* to it, and the
//! next packet goes over the slower one. Sooner would cost a lone flow its rate: all of it would arrive
//! as late as what the slower path carries, with no more under way than the faster path needed.
//!
//! All of it lives on the peer's reports. Until the first, and when they stay away although there is
//! something to report, weights decide ([`Adaptive::is_informed`]).

use std::ops::{Index, IndexMut};
use std::time::Duration;

use arrayvec::ArrayVec;

use super::law::Law;
use super::pace::{Pace, Sample};
use crate::control::PathStatus;
use crate::control::trace::{Trace, Why};
use crate::path::{Answered, MAX_PATHS, PathId, PathSet};
use crate::send::sent::SentLog;
use crate::send::tiers::{self, Tiers};
use crate::send::units::{Rate, Span};
use crate::seq::Seq;
use crate::time::{Time, earliest};
use crate::wire::report::Report;

/// A path is clearly nearer than another from this difference on: what timers of hosts add to a packet.
const NEARER: Span = Span::nanos(2e6);

/// A call is impaired as much by this delay as if all of it was lost, where little is: 1 % of loss counts as 150 ms. In the
/// E-model (ITU-T G.107 §3) 1 % of G.711 with concealment costs a rating of 95 / (1 + 25.1) = 3.6 (Bpl of G.113 Table
/// I.4), and 150 ms cost as much at 0.024 a ms (Cole and Rosenbluth, "Voice over IP performance monitoring", 2001).
const LOST_AS_DELAY: Duration = Duration::from_secs(15);

/// Where a packet is to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// To this path, which takes so many bytes.
    Take(PathId, usize),
    /// To this path, which is busy, and yet delivers it sooner than a slower one that is not.
    Bind(PathId),
    /// Nowhere before this time.
    Wait(Time),
    /// No path is usable.
    Nowhere,
}

/// A path that takes nothing now.
#[derive(Debug)]
struct Busy {
    path: PathId,
    rate: Rate,
    /// By how much it is slower than the fastest.
    added: Span,
    /// The same for what is bound to it next.
    late: Span,
}

impl Busy {
    /// Bytes that it delivers before a path that adds so much, if that is known.
    fn delivers_before(&self, patience: Span, added: Option<Span>) -> f64 {
        let sooner = added.map_or(patience, |added| (added - self.added).max(Span::ZERO));
        self.rate.bytes_within(sooner)
    }
}

/// What is known of each path, by its index: few tunnels have all that there may be.
#[derive(Debug)]
struct Paces {
    law: &'static Law,
    known: Vec<Pace>,
    /// A path of which nothing is known.
    fresh: Box<Pace>,
}

impl Paces {
    fn new(law: &'static Law) -> Paces {
        Paces {
            law,
            known: Vec::new(),
            fresh: Box::new(Pace::new(law)),
        }
    }
}

impl Index<usize> for Paces {
    type Output = Pace;

    #[inline]
    fn index(&self, path: usize) -> &Pace {
        self.known.get(path).unwrap_or(&self.fresh)
    }
}

impl IndexMut<usize> for Paces {
    #[inline]
    fn index_mut(&mut self, path: usize) -> &mut Pace {
        if self.known.len() <= path {
            self.known.resize_with(path + 1, || Pace::new(self.law));
        }
        &mut self.known[path]
    }
}

/// What the sender knows of the paths.
#[derive(Debug)]
pub(crate) struct Adaptive {
    law: &'static Law,
    paces: Paces,
    pub(crate) tiers: Tiers,
    log: SentLog,
    /// When a packet was sent first, and last, since the last report, and how many bytes were.
    unreported: Option<(Time, Time, u64)>,
    silent: bool,
}

impl Adaptive {
    pub(crate) fn new(law: &'static Law) -> Adaptive {
        Adaptive {
            law,
            paces: Paces::new(law),
            tiers: Tiers::default(),
            log: SentLog::default(),
            unreported: None,
            silent: false,
        }
    }

    /// Nothing was sent for some seconds: gives memory back.
    pub(crate) fn rest(&mut self) {
        self.log.rest();
        self.unreported = None;
    }

    /// What was sent where.
    pub(crate) fn log(&self) -> &SentLog {
        &self.log
    }

    pub(crate) fn forget_path(&mut self, path: PathId) {
        if let Some(pace) = self.paces.known.get_mut(path.index()) {
            pace.forget();
        }
        self.log.forget_path(path);
    }

    /// A probe came back: see [`Pace::probed`].
    pub(crate) fn probed(&mut self, now: Time, path: PathId, probed: &Answered) {
        self.paces[path.index()].probed(now, probed);
    }

    /// Whether reports come, as far as there is something to report.
    pub(crate) fn is_informed(&self) -> bool {
        !self.silent
    }

    /// Considers what the disorder and the rising delays of `usable` make others wait, and their losses, if what is
    /// lost is sent again.
    pub(crate) fn weigh(&mut self, usable: PathSet, recovers: bool) {
        let usable = self.tiers.without_last_resort(usable);
        let all = usable.iter().fold(Rate::ZERO, |all, path| {
            all + self.paces[path.index()].carries()
        });
        let even = all / f64::from(usable.bits().count_ones());
        let carries = |path: &PathId| self.paces[path.index()].carries();
        let main = usable.iter().max_by_key(carries);
        let main = main.and_then(|path| self.paces[path.index()].least_delay());
        for path in usable.iter() {
            let pace = &mut self.paces[path.index()];
            let shares = if even > Rate::ZERO {
                pace.carries() / even
            } else {
                1.0
            };
            pace.weigh_disorder(recovers, shares, main);
        }
    }

    /// Of a set of paths, those that joined it and those that left it are told as decisions for these reasons.
    pub(crate) fn note_change(
        &mut self,
        now: Time,
        before: PathSet,
        after: PathSet,
        why: [Why; 2],
    ) {
        let changed = PathSet::from_bits(before.bits() ^ after.bits());
        for path in changed.iter() {
            let why = if after.contains(path) { why[0] } else { why[1] };
            self.paces[path.index()].note(now, why);
        }
    }

    /// Fills in what was decided about a path, from decision number `from` on.
    pub(crate) fn trace(&self, path: PathId, from: u64, trace: &mut Trace) {
        self.paces[path.index()].trace(from, trace);
    }

    /// Fills in the estimates of a path.
    pub(crate) fn report(&self, path: PathId, status: &mut PathStatus) {
        self.paces[path.index()].report(status);
    }

    /// Where the next packet goes, when `waiting` bytes wait with it and so many are bound to paths.
    #[inline]
    pub(crate) fn choose(
        &mut self,
        now: Time,
        usable: PathSet,
        waiting: usize,
        bound: &[usize; MAX_PATHS],
    ) -> Choice {
        let mut open = self.tiers.cheapest(usable);
        let mut choice = self.choose_among(now, open, waiting, bound);
        while matches!(choice, Choice::Wait(_))
            && self.is_beyond(open, waiting, bound)
            && let Some(more) = self.tiers.next(open, usable)
        {
            open = more;
            choice = self.choose_among(now, open, waiting, bound);
        }
        choice
    }

    /// Whether more waits than these paths carry within [`tiers::PATIENCE`].
    fn is_beyond(&self, open: PathSet, waiting: usize, bound: &[usize; MAX_PATHS]) -> bool {
        let patience = Span::from(tiers::PATIENCE);
        let paces = open.iter().map(|path| &self.paces[path.index()]);
        let carried: f64 = paces.map(|pace| pace.carries_within(patience)).sum();
        let bound: usize = open.iter().map(|path| bound[path.index()]).sum();
        (waiting + bound) as f64 > carried.min(self.law.patient_bytes as f64)
    }

    /// The same, whatever paths cost.
    #[inline]
    fn choose_among(
        &mut self,
        now: Time,
        usable: PathSet,
        waiting: usize,
        bound: &[usize; MAX_PATHS],
    ) -> Choice {
        let mut left = usable;
        let patience = Span::from(self.law.surely_a_queue());
        let (mut least, mut waiting) = (None, waiting);
        let mut wait: Option<Time> = None;
        let mut busy = ArrayVec::<Busy, MAX_PATHS>::new();
        while let Some((path, delay)) = self.fastest(now, left) {
            left.remove(path);
            let added = delay.map(|delay| delay - *least.get_or_insert(delay));
            let sooner: f64 = busy
                .iter()
                .map(|busy| busy.delivers_before(patience, added))
                .sum();
            if !busy.is_empty() && waiting as f64 <= sooner && waiting < self.law.patient_bytes {
                continue;
            }
            let (pace, bound) = (&mut self.paces[path.index()], bound[path.index()]);
            let room = if bound == 0 { pace.room(now) } else { None };
            if let Some(bytes) = room {
                let soonest = busy.iter().min_by_key(|busy| busy.late);
                return match (soonest, added) {
                    (Some(busy), Some(added))
                        if busy.late < added && waiting < self.law.patient_bytes =>
                    {
                        Choice::Bind(busy.path)
                    }
                    _ => Choice::Take(path, bytes),
                };
            }
            let ready = pace.ready_at(now);
            wait = Some(wait.map_or(ready, |wait| wait.min(ready)));
            let rate = pace.carries();
            let added = added.unwrap_or(Span::MAX);
            waiting += bound;
            busy.push(Busy {
                path,
                rate,
                added,
                late: added + rate.span_for(bound as f64),
            });
        }
        wait.map_or(Choice::Nowhere, Choice::Wait)
    }

    /// The path with the least delay, and that delay; one whose delay is unknown comes last.
    pub(crate) fn fastest(&self, now: Time, paths: PathSet) -> Option<(PathId, Option<Span>)> {
        let by_path = |path: PathId| (path, self.paces[path.index()].delay(now));
        let delays = paths.iter().map(by_path);
        delays.min_by_key(|&(_, delay)| delay.unwrap_or(Span::MAX))
    }

    /// The path for a packet that is not sent again when it is lost, as one of a call: that with the least delay, as which
    /// counts, too, what it loses ([`LOST_AS_DELAY`]).
    pub(crate) fn clearest(
        &self,
        now: Time,
        paths: PathSet,
        answered: &[Answered; MAX_PATHS],
    ) -> Option<PathId> {
        let impairment = |path: PathId| {
            let delay = self.paces[path.index()].delay(now);
            let loss = answered[path.index()].loss;
            delay.unwrap_or(Span::MAX / 2.0) + Span::from(LOST_AS_DELAY) * loss
        };
        paths.iter().min_by_key(|&path| impairment(path))
    }

    /// The path with the least delay when nothing waits there; the one that it was before, unless another one
    /// is clearly nearer, so that packets do not change between paths that are alike.
    pub(crate) fn nearest(&self, paths: PathSet, before: Option<PathId>) -> Option<PathId> {
        let delay = |path: PathId| {
            let pace = &self.paces[path.index()];
            let least = pace.least_delay().map(|delay| delay - pace.holds_up());
            least.unwrap_or(Span::MAX)
        };
        let paths = self.tiers.without_last_resort(paths);
        let nearest = paths.iter().min_by_key(|&path| delay(path))?;
        let before = before.filter(|&before| paths.contains(before));
        let stays = before.filter(|&before| delay(before) <= delay(nearest) + NEARER);
        Some(stays.unwrap_or(nearest))
    }

    /// The path over which a packet that must not be lost again is likely to arrive first. It does not wait for room, but
    /// the time until there is some counts: else all that is lost at once fills the queue of a small path. A path that has
    /// room left counts as four times `target` later: it has little to carry, and so little comes behind the packet that
    /// would tell that it is lost again. Flows over 300 and 400 random pairs (`campaign --pairs 300 --seed 3000`, `--pairs
    /// 400 --seed 7000`) get 0.4 ± 0.2 % more of the sum of their links early, and 0.5 ± 0.2 % more late. Without those four
    /// targets the first of these get nothing more (0.1 ± 0.2 % late).
    pub(crate) fn surest(&self, now: Time, paths: PathSet) -> Option<PathId> {
        let likely = |path: PathId| {
            let pace = &self.paces[path.index()];
            let delay = pace.delay(now).unwrap_or(Span::MAX / 2.0);
            let delay = delay + pace.ready_at(now).since(now).into();
            delay - pace.holds_up() + Span::from(self.law.lost_after) * pace.loss_now()
        };
        paths.iter().min_by_key(|&path| likely(path))
    }

    /// The longest queue on one of these paths that nobody else fills.
    pub(crate) fn longest_queue(&self, now: Time, usable: PathSet) -> Duration {
        let paces = usable.iter().map(|path| &self.paces[path.index()]);
        let own = paces.filter(|pace| !pace.is_contended(now));
        own.map(|pace| pace.queue(now)).max().unwrap_or_default()
    }

    /// By how much the slowest of these paths is slower than the fastest, with what it may rise by and without queues:
    /// to wait for the end of a queue that others fill is not worth it. A dearer path is waited before for as long as
    /// if it were that much slower.
    pub(crate) fn spread(&self, usable: PathSet) -> Duration {
        let paces = usable.iter().map(|path| &self.paces[path.index()]);
        let delays = paces.filter_map(|pace| Some(pace.least_delay()? + pace.swings()));
        let (least, most) = delays.fold(
            (Span::MAX, Span::ZERO - Span::MAX),
            |(least, most), delay| (least.min(delay), most.max(delay)),
        );
        let spread = (most - least).to_duration();
        match self.tiers.cheapest(usable) == usable {
            true => spread,
            false => spread.max(tiers::PATIENCE),
        }
    }

    /// No more bytes than these wait for a faster path.
    pub(crate) fn patient_bytes(&self) -> usize {
        self.law.patient_bytes
    }

    /// How many bytes the path takes now, if it does.
    pub(crate) fn room(&mut self, now: Time, path: PathId) -> Option<usize> {
        self.paces[path.index()].room(now)
    }

    /// The fastest of the cheapest of these paths that takes something now, of dearer ones where more than the cheaper
    /// carry soon waits, which is so many packets; if none does, when one will.
    pub(crate) fn fastest_ready(
        &mut self,
        now: Time,
        paths: PathSet,
        waiting: usize,
    ) -> Result<PathId, Option<Time>> {
        let waiting = waiting * self.law.mean_bytes as usize;
        let (mut open, mut ready) = (self.tiers.cheapest(paths), None);
        let mut left = open;
        loop {
            while let Some((path, _)) = self.fastest(now, left) {
                if self.room(now, path).is_some() {
                    return Ok(path);
                }
                ready = earliest(ready, Some(self.ready_at(now, path)));
                left.remove(path);
            }
            match self.tiers.next(open, paths) {
                Some(more) if self.is_beyond(open, waiting, &[0; MAX_PATHS]) => {
                    left = PathSet::from_bits(more.bits() & !open.bits());
                    open = more;
                }
                Some(_) | None => return Err(ready),
            }
        }
    }

    /// When it does.
    pub(crate) fn ready_at(&self, now: Time, path: PathId) -> Time {
        self.paces[path.index()].ready_at(now)
    }

    /// How long the path takes for so many bytes, if it is known to carry any.
    pub(crate) fn lasts(&self, path: PathId, bytes: usize) -> Option<Duration> {
        self.paces[path.index()].carries().time_for(bytes as f64)
    }

    /// `path` took `packets` packets of `bytes` altogether, numbered from `first` on.
    #[inline]
    pub(crate) fn took(&mut self, now: Time, path: PathId, first: Seq, packets: u32, bytes: u32) {
        self.log.note(now, path, first, packets, bytes);
        self.paces[path.index()].took(now, bytes as usize);
        // What was sent before a pause is not reported on any more.
        self.unreported = self
            .unreported
            .filter(|(_, last, _)| now.since(*last) <= self.law.unreported_for);
        let (since, last, sent) = self.unreported.get_or_insert((now, now, 0));
        *last = now;
        *sent += u64::from(bytes);
        if *sent as f64 >= self.law.first_window && now.since(*since) > self.law.unreported_for {
            self.silent = true;
        }
    }

    /// `path` took a packet of `bytes` that had been sent before.
    pub(crate) fn took_again(&mut self, now: Time, path: PathId, bytes: usize) {
        self.log.note_again(path, bytes as u32);
        self.paces[path.index()].took(now, bytes);
    }

    /// `path` took a packet of `bytes` that has no number.
    pub(crate) fn took_unnumbered(&mut self, now: Time, path: PathId, bytes: usize) {
        self.paces[path.index()].took_unnumbered(now, bytes);
    }

    /// Takes a believed report. What it says of numbers that were not sent there is passed over, and so is what came
    /// too early to have come there, where it had gone over another path as well: who has that one may have put it
    /// before this path's socket. Paths that are `suspected` get copies, which tell of them.
    pub(crate) fn learn(&mut self, now: Time, report: &Report, suspected: PathSet) {
        self.unreported = None;
        self.silent = false;
        for entry in &report.paths {
            let Some(path) = PathId::new(usize::from(entry.path)) else {
                continue;
            };
            let pace = &mut self.paces[path.index()];
            let Some(sent) = self.log.find(path, entry.edge) else {
                // The newest that came was sent again, for another path; what has lower numbers arrives meanwhile.
                pace.arrived(now, entry.bytes);
                continue;
            };
            let one_way = entry
                .edge_arrived
                .as_nanos()
                .wrapping_sub(sent.time.as_nanos()) as i64;
            if pace.is_too_early(one_way)
                && !suspected.contains(path)
                && self.log.went_elsewhere(path, entry.edge, sent.time)
            {
                pace.arrived(now, entry.bytes);
                continue;
            }
            pace.sample(
                now,
                Sample {
                    arrived: entry.edge_arrived,
                    one_way,
                    arrived_packets: entry.packets,
                    arrived_bytes: entry.bytes,
                    sent: sent.time,
                    sent_packets: sent.totals.packets,
                    sent_bytes: sent.totals.bytes,
                },
            );
        }
    }
}

#[cfg(test)]
mod tests;

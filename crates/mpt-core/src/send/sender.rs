//! The sender when the paths decide: what goes at once, what waits, what the peer reported.
//!
//! While the path that answers first takes everything, packets go straight from the TUN into its
//! trains, as with any other policy. When [`Adaptive`] says that they have to wait they are written
//! into one of the [`Lanes`], without numbers, and get their number and their path when a path has room, or
//! when they are committed to one ([`Committed`]): so a packet that the queue drops leaves no gap.
//!
//! Each owner has its own file and its own state: what is known of the paths and which one is chosen
//! ([`Adaptive`]), what waits ([`Lanes`]), what is committed, what is kept to be sent again ([`Recovery`]), which paths are
//! silent ([`Rescue`]), which flows are sparse ([`Sparse`]). Here is in which order a packet meets them; what waits
//! until a path takes it is in [`waiting`], and what was sent once and goes again in [`again`].

mod again;
mod waiting;

use crate::control::classes::ClassStatus;
use crate::control::drops::{DropReason, Drops};
use crate::control::trace::{Trace, Why};
use crate::control::{PathPhase, PathStatus, RecoveryStatus, TunnelStatus};
use crate::path::{Answered, MAX_PATHS, PathId, PathSet};
use crate::send::classes::{ClassConfig, ClassId};
use crate::send::committed::Committed;
use crate::send::lanes::{Lane, Lanes};
use crate::send::recovery::Recovery;
use crate::send::rescue::Rescue;
use crate::send::scheduler::adaptive::{Adaptive, Choice};
use crate::send::scheduler::flow;
use crate::send::scheduler::law::Law;
use crate::send::segment::Segments;
use crate::send::slab::Slab;
use crate::send::sparse::{Sparse, Unordered};
use crate::send::turn::Turn;
use crate::seq::Seq;
use crate::time::{Time, earliest};
use crate::wire::ecn;
use crate::wire::ip::Packet;
use crate::wire::report::Report;

/// What decides by what the paths turn out to deliver.
#[derive(Debug)]
pub(crate) struct Sender {
    paths: Adaptive,
    /// The packets that wait or are kept.
    slab: Slab,
    lanes: Lanes,
    committed: Committed,
    recovery: Recovery,
    rescue: Rescue,
    sparse: Sparse,
    /// What the probe told that was answered last on each path; of which paths that was not looked at yet, and whether
    /// any came since that was done last.
    answered: [Answered; MAX_PATHS],
    unseen: PathSet,
    has_answers: bool,
    /// When the queue is looked at again.
    wake: Option<Time>,
    /// Paths that were told to have fallen silent.
    told_silent: PathSet,
}

impl Sender {
    pub(crate) fn new(recovery: bool, law: &'static Law) -> Sender {
        Sender {
            paths: Adaptive::new(law),
            slab: Slab::default(),
            lanes: Lanes::new(),
            committed: Committed::default(),
            recovery: Recovery::new(recovery),
            rescue: Rescue::default(),
            sparse: Sparse::default(),
            answered: [Answered::default(); MAX_PATHS],
            unseen: PathSet::EMPTY,
            has_answers: false,
            wake: None,
            told_silent: PathSet::EMPTY,
        }
    }

    /// Sends lost packets again from now on, or stops.
    pub(crate) fn set_recovery(&mut self, enabled: bool) {
        self.recovery.set_enabled(&mut self.slab, enabled);
    }

    /// What is committed to it goes over another when the queue is looked at next.
    pub(crate) fn forget_path(&mut self, path: PathId) {
        self.paths.forget_path(path);
        self.rescue.forget_path(path);
        self.recovery.forget_path(path);
        self.committed.forget_path(path);
    }

    /// Nothing was sent for some seconds: gives memory back.
    pub(crate) fn sleep(&mut self) {
        self.lanes.sleep();
        self.sparse.rest();
        self.paths.rest();
        self.recovery.rest(&mut self.slab);
        self.committed.rest();
        self.slab.rest();
        debug_assert_eq!(self.slab.holders(), 0, "nothing waits and nothing is kept");
    }

    /// Whether reports come, as far as there is something to report.
    pub(crate) fn is_informed(&self) -> bool {
        self.paths.is_informed()
    }

    /// Paths that are suspected, and those of them for which nothing is left to be sent again.
    pub(crate) fn suspected(&self) -> (PathSet, PathSet) {
        let suspected = self.rescue.suspected();
        let is_done = !self.recovery.has_stranded();
        (suspected, if is_done { suspected } else { PathSet::EMPTY })
    }

    /// The lowest number that was given out and not sent yet.
    pub(crate) fn first_committed(&self) -> Option<Seq> {
        self.committed.first()
    }

    /// A probe was answered. That is looked at before the next packet goes.
    pub(crate) fn note_answer(&mut self, path: PathId, answered: Answered) {
        self.answered[path.index()] = answered;
        self.unseen.insert(path);
        self.has_answers = true;
    }

    /// Looks at what answered probes tell.
    #[inline]
    pub(crate) fn look_at_answers(&mut self, turn: &Turn<'_>) {
        if std::mem::take(&mut self.has_answers) {
            self.take_probes(turn);
        }
    }

    fn take_probes(&mut self, turn: &Turn<'_>) {
        let now = turn.now;
        let rtts = turn
            .usable
            .iter()
            .map(|path| self.answered[path.index()].rtt);
        let quickest = rtts.min().unwrap_or_default();
        for path in turn.usable.iter() {
            let probed = self.answered[path.index()];
            if self.unseen.contains(path) {
                self.unseen.remove(path);
                self.paths.probed(now, path, &probed);
                self.rescue.answered(now, path, &probed);
            }
            self.recovery.set_rtt(path, probed.rtt, quickest);
        }
        self.set_patience(turn);
        self.rescue.rehabilitate(&mut self.recovery);
        self.note_silence(now);
    }

    /// Which paths have fallen silent, and which are heard of again, is told as a decision.
    fn note_silence(&mut self, now: Time) {
        let suspected = self.rescue.suspected();
        let before = std::mem::replace(&mut self.told_silent, suspected);
        let paths = &mut self.paths;
        paths.note_change(now, before, suspected, [Why::Silent, Why::Answers]);
    }

    /// Lets flows wait for as long as it takes them to notice that they should slow down.
    fn set_patience(&mut self, turn: &Turn<'_>) {
        // One that is a last resort carries nothing while there is another.
        let now = turn.now;
        let usable = self.paths.tiers.without_last_resort(turn.usable);
        let rtts = usable.iter().map(|path| self.answered[path.index()].rtt);
        let slowest = rtts.max().unwrap_or_default();
        // What waits on a path or is held up at the receiver delays all that is behind it.
        let behind = self.paths.longest_queue(now, usable) + self.recovery.holds(now) * 2;
        let lasts = |path: PathId| {
            let bytes = self.committed.bytes()[path.index()];
            self.paths.lasts(path, bytes).unwrap_or_default()
        };
        let lasts = self.committed.paths().map(lasts);
        let committed = lasts.max().unwrap_or_default();
        let added = self.paths.spread(usable).saturating_sub(committed);
        self.lanes.set_round_trip(now, slowest + behind, added);
    }

    /// Packets are of these classes from now on. What waits in former ones waits as what is of none.
    pub(crate) fn set_classes(&mut self, now: Time, configs: &[ClassConfig]) {
        self.lanes.set_classes(&mut self.slab, now, configs);
    }

    /// The paths cost this from now on.
    pub(crate) fn set_costs(&mut self, costs: [u32; MAX_PATHS]) {
        self.paths.tiers.set(costs);
    }

    /// Those of these paths that cost least.
    #[inline]
    pub(crate) fn cheapest(&self, paths: PathSet) -> PathSet {
        self.paths.tiers.cheapest(paths)
    }

    /// Of these paths, those that a packet goes over.
    pub(crate) fn allowed(&mut self, packet: &Packet<'_>, usable: PathSet) -> PathSet {
        let packet = packet.bytes();
        let classes = &mut self.lanes.classes;
        classes.allowed_for(packet, usable, usable, &self.paths)
    }

    /// Where estimates are not followed, what is to be copied goes at once; what remains goes over the paths that
    /// this returns, unless there is none.
    pub(crate) fn send_by_class(
        &mut self,
        turn: &mut Turn<'_>,
        segments: &mut Segments<'_>,
    ) -> PathSet {
        let class = self.lanes.classes.of(&segments.packet());
        let usable = turn.usable;
        let classes = &mut self.lanes.classes;
        let allowed = classes.admit(turn, &self.paths, class, usable, segments);
        if !allowed.is_empty() {
            self.send_copies(turn, class, allowed, segments);
        }
        allowed
    }

    /// Sends the copies of a class that has any.
    fn send_copies(
        &mut self,
        turn: &mut Turn<'_>,
        class: Option<ClassId>,
        usable: PathSet,
        segments: &mut Segments<'_>,
    ) {
        if let Some(class) = class.and_then(|id| self.lanes.classes.list.get_mut(id)) {
            class.send_copies(turn, &mut self.paths, &self.answered, usable, segments);
        }
    }

    /// Sends what goes now and lets the rest wait.
    pub(crate) fn send(&mut self, turn: &mut Turn<'_>, mut segments: Segments<'_>) {
        let packet = segments.packet();
        let class = self.lanes.classes.of(&packet);
        let trusted = self.rescue.trusted(turn);
        let classes = &mut self.lanes.classes;
        let usable = classes.admit(turn, &self.paths, class, trusted, &segments);
        // What is of a class has been counted then.
        if usable.is_empty() && (class.is_some() || !trusted.is_empty()) {
            return;
        }
        self.send_copies(turn, class, usable, &mut segments);
        if segments.remaining() == 0 {
            return;
        }
        if segments.segments() == 1 && self.send_unnumbered(turn, class, usable, &mut segments) {
            return;
        }
        self.send_stranded(turn);
        let lane = self.lanes.lane_of(class, &packet);
        let is_in_order = !matches!(lane, Lane::ByItself(_));
        if is_in_order && self.lanes.is_empty() && !self.recovery.has_stranded() {
            self.send_at_once(turn, class, usable, &mut segments);
        }
        if segments.remaining() > 0 {
            self.enqueue(turn.now, lane, flow::hash(&packet), &mut segments);
            self.drain(turn);
        }
    }

    /// Sends a lone datagram of a sparse flow, or a lone acknowledgement, without a number, if it is one.
    fn send_unnumbered(
        &mut self,
        turn: &mut Turn<'_>,
        class: Option<ClassId>,
        usable: PathSet,
        segments: &mut Segments<'_>,
    ) -> bool {
        let packet = segments.packet();
        let Some(kind) = Unordered::of(&packet) else {
            return false;
        };
        let now = turn.now;
        let len = segments.segment_len(0);
        // What waits behind what is to be sent again for a silent path comes too late to be waited for.
        let is_stuck = self.recovery.has_stranded();
        let goes = match kind {
            Unordered::Datagram => {
                let flow = flow::hash(&packet);
                let is_behind = self.lanes.holds(class, flow) && !is_stuck;
                self.sparse.takes(now, flow, len) && !is_behind
            }
            Unordered::Acknowledgement => self.sparse.is_spread(now),
        };
        if !goes {
            return false;
        }
        let cheapest = self.cheapest(usable);
        let path = match kind {
            Unordered::Datagram => self.paths.clearest(now, cheapest, &self.answered),
            Unordered::Acknowledgement => self.paths.fastest(now, cheapest).map(|(path, _)| path),
        };
        let Some(path) = path else {
            return false;
        };
        if !self.rescue.is_told_of(now, path) && !is_stuck {
            // Nobody would notice that the path swallows it.
            return false;
        }
        let lasts = self.paths.lasts(path, len + turn.out.overhead());
        let has_share = match kind {
            Unordered::Datagram => self.sparse.has_share(now, lasts),
            Unordered::Acknowledgement => self.sparse.acknowledges(now, lasts),
        };
        if !has_share {
            return false;
        }
        let header = turn.out.unnumbered_header(packet.version(), len);
        let tos = ecn::outer_tos(packet.tos());
        let (out, bytes) = turn.out.append(path, &header, tos, len);
        segments.write_next(out);
        self.paths.took_unnumbered(now, path, bytes);
        true
    }

    /// Sends as many packets as the paths take.
    fn send_at_once(
        &mut self,
        turn: &mut Turn<'_>,
        class: Option<ClassId>,
        usable: PathSet,
        segments: &mut Segments<'_>,
    ) {
        let now = turn.now;
        let packet = segments.packet();
        let (version, tos) = (packet.version(), ecn::outer_tos(packet.tos()));
        let trusted = match class {
            Some(_) => self.rescue.trusted(turn),
            None => usable,
        };
        while segments.remaining() > 0 {
            let first = segments.segments() - segments.remaining();
            let datagram = segments.segment_len(first) + turn.out.overhead();
            let waiting = datagram * segments.remaining();
            let committed = self.committed.bytes();
            let (path, room) = match self.paths.choose(now, usable, waiting, committed) {
                Choice::Take(path, room) => (path, room),
                Choice::Bind(_) | Choice::Wait(_) | Choice::Nowhere => return,
            };
            let run = (room / datagram).clamp(1, segments.remaining());
            let number = turn.out.next_seq();
            let slab = &mut self.slab;
            let keeps = self.recovery.keeps(slab, now, run * datagram);
            let mut bytes = 0;
            for index in first..first + run {
                let inner_len = segments.segment_len(index);
                let seq = turn.out.next_seq();
                let header = turn.out.next_header(version, inner_len);
                let (out, len) = turn.out.append(path, &header, tos, inner_len);
                segments.write_next(out);
                bytes += len;
                if keeps && let Some(packet) = turn.out.last(path, inner_len) {
                    let kept = slab.store(inner_len, |out| out.copy_from_slice(packet));
                    self.recovery.keep(slab, now, seq, path, tos, kept);
                }
            }
            self.took(now, path, number, run as u32, bytes as u32);
            self.note_spread(now, trusted, path);
            let inner_len = segments.segment_len(first + run - 1);
            if !self.rescue.suspected().is_empty()
                && let Some(packet) = turn.out.last(path, inner_len)
            {
                let newest = number.plus(run as u32 - 1);
                let (paths, slab) = (&mut self.paths, &mut self.slab);
                let last = slab.store(inner_len, |out| out.copy_from_slice(packet));
                let mut own = self.lanes.classes.own(class);
                own.remove(path);
                self.rescue
                    .try_suspected(turn, paths, own, (newest, tos), slab.bytes(&last));
                slab.release(last);
            }
        }
    }

    fn note_spread(&mut self, now: Time, usable: PathSet, path: PathId) {
        let fastest = self.paths.fastest(now, self.cheapest(usable));
        if fastest.is_none_or(|(fastest, _)| fastest != path) {
            self.sparse.note_spread(now);
        }
    }

    /// Counts what the queue has dropped.
    pub(crate) fn count_losses(&mut self, drops: &mut Drops) {
        let losses = self.lanes.take_losses();
        drops.count(DropReason::QueueAqm, losses.late);
        drops.count(DropReason::QueueFull, losses.overflowed);
    }

    /// Packets that wait, whether they are bound to a path or not.
    pub(crate) fn waiting(&self) -> u64 {
        (self.lanes.waiting().0 + self.committed.packets()) as u64
    }

    /// Bytes of memory that packets take, whether they wait, are bound to a path or are kept.
    #[inline]
    pub(crate) fn memory(&self) -> usize {
        self.slab.memory()
    }

    /// Gives memory back until packets take `to` bytes at most: what is free; then of what is kept to be sent again the
    /// oldest; then what waits, as a queue drops that is full; and at last what is bound to a path.
    pub(crate) fn give_back(&mut self, to: usize, drops: &mut Drops) {
        loop {
            self.slab.trim(to);
            let over = self.slab.memory().saturating_sub(to);
            if over == 0 {
                break;
            }
            let slab = &mut self.slab;
            let gave = self.recovery.forget_oldest(slab, over)
                || self.lanes.shed(slab, over)
                || self.drop_committed(drops);
            if !gave {
                break;
            }
        }
        self.lanes.trim();
        self.committed.rest();
        self.count_losses(drops);
    }

    /// Drops what is bound to paths. Whether anything was.
    fn drop_committed(&mut self, drops: &mut Drops) -> bool {
        let any = !self.committed.is_empty();
        for path in (0..MAX_PATHS).filter_map(PathId::new) {
            for packet in self.committed.take(path) {
                let bytes = self.slab.bytes(&packet.packet);
                self.lanes.classes.count_dropped(bytes);
                drops.count(DropReason::QueueFull, 1);
                self.recovery.leave(packet.seq);
                self.slab.release(packet.packet);
            }
        }
        any
    }

    /// `path` took packets that had not been sent before, or not on it.
    fn took(&mut self, now: Time, path: PathId, first: Seq, packets: u32, bytes: u32) {
        self.paths.took(now, path, first, packets, bytes);
        self.rescue.sent(now, path, packets);
    }

    /// Takes what the peer reports. Afterwards do what is due.
    pub(crate) fn handle_report(&mut self, turn: &Turn<'_>, report: &Report) {
        let now = turn.now;
        let suspected = self.rescue.suspected();
        self.rescue.learn(now, report, self.paths.log());
        self.rescue.rehabilitate(&mut self.recovery);
        self.note_silence(now);
        self.paths.learn(now, report, suspected);
        self.paths.weigh(turn.usable, self.recovery.is_enabled());
        self.recovery
            .learn(&mut self.slab, now, report, self.paths.log());
        self.set_patience(turn);
    }

    /// When the sender is to be called at the latest.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        debug_assert_eq!(
            self.slab.holders(),
            self.lanes.waiting().0 + self.committed.packets() + self.recovery.packets(),
            "what is stored is held, once by each"
        );
        let recovery = earliest(self.rescue.poll_timeout(), self.recovery.poll_timeout());
        earliest(self.wake, recovery)
    }

    /// Nothing waits: the queue need not be looked at.
    pub(crate) fn rest(&mut self) {
        self.wake = None;
    }

    /// Fills in what waits and what was sent again.
    pub(crate) fn report(&self, status: &mut TunnelStatus) {
        let ((_, bytes), committed) = (self.lanes.waiting(), &self.committed);
        status.queue_packets = self.waiting();
        let bound = committed.bytes().iter().sum::<usize>();
        status.queue_bytes = (bytes + bound) as u64;
        status.queue_marked = self.lanes.marked();
        let recovery = self.recovery.counters();
        status.recovery = RecoveryStatus {
            lost: recovery.lost,
            resent: recovery.resent,
            resent_bytes: recovery.resent_bytes,
            spurious: recovery.spurious,
            probes: recovery.probes,
            memory_bytes: self.recovery.memory() as u64,
            report_bytes: status.recovery.report_bytes,
        };
    }

    /// What the classes have come to.
    pub(crate) fn report_classes(&self) -> Vec<ClassStatus> {
        self.lanes.report()
    }

    /// Fills in what is known of a path.
    pub(crate) fn report_path(&self, path: PathId, status: &mut PathStatus) {
        self.paths.report(path, status);
        status.tx_recovered = self.recovery.recovered(path);
        if self.rescue.suspected().contains(path) {
            status.tx_phase = PathPhase::Suspected;
        }
    }

    /// Fills in what was decided about a path, from decision number `from` on.
    pub(crate) fn trace(&self, path: PathId, from: u64, trace: &mut Trace) {
        self.paths.trace(path, from, trace);
    }
}

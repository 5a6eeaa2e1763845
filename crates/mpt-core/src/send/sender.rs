//! The sender when the paths decide: what goes at once, what waits, what the peer reported.
//!
//! While the path that answers first takes everything, packets go straight from the TUN into its
//! trains, as with any other policy. When [`Adaptive`] says that they have to wait they are written
//! into the [`Queue`], without numbers, and get their number and their path when a path has room, or
//! when they are committed to one ([`Committed`]): so a packet that the queue drops leaves no gap.
//!
//! Each owner has its own file and its own state: what is known of the paths and which one is chosen
//! ([`Adaptive`]), the queue, what is committed, what is kept to be sent again ([`Recovery`]), which paths are
//! silent ([`Rescue`]), which flows are sparse ([`Sparse`]). Here is in which order a packet meets them.

use crate::control::drops::DropReason;
use crate::control::trace::{Trace, Why};
use crate::control::{PathPhase, PathStatus, RecoveryStatus, TunnelStatus};
use crate::path::{Answered, MAX_PATHS, PathId, PathSet};
use crate::send::committed::{Committed, CommittedPacket};
use crate::send::queue::Queue;
use crate::send::recovery::{Recovery, Resend};
use crate::send::rescue::Rescue;
use crate::send::scheduler::adaptive::{Adaptive, Choice};
use crate::send::scheduler::flow;
use crate::send::scheduler::law::Law;
use crate::send::segment::Segments;
use crate::send::sparse::Sparse;
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
    queue: Queue,
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
            queue: Queue::new(),
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
        self.recovery.set_enabled(enabled);
    }

    /// What is committed to it goes over another when the queue is looked at next.
    pub(crate) fn forget_path(&mut self, path: PathId) {
        self.paths.forget_path(path);
        self.rescue.forget_path(path);
        self.recovery.forget_path(path);
    }

    /// Nothing was sent for some seconds: gives memory back.
    pub(crate) fn sleep(&mut self) {
        self.queue.rest();
        self.sparse.rest();
        self.paths.rest();
        self.recovery.rest();
        self.committed.rest();
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
            let is_contended = self.paths.is_contended(now, path);
            self.recovery.set_rtt(path, probed.rtt, quickest);
            self.recovery.set_contended(path, is_contended);
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
        let (now, usable) = (turn.now, turn.usable);
        let rtts = usable.iter().map(|path| self.answered[path.index()].rtt);
        let slowest = rtts.max().unwrap_or_default();
        // What waits on a path or is held up at the receiver delays all that is behind it.
        let behind = self.paths.longest_queue(now, usable) + self.recovery.holds(now) * 2;
        let lasts = |path: PathId| {
            let bytes = self.committed.bytes()[path.index()];
            self.paths.lasts(path, bytes)
        };
        let lasts = self.committed.paths().map(lasts);
        let committed = lasts.max().unwrap_or_default();
        let added = self.paths.spread(usable).saturating_sub(committed);
        self.queue.set_round_trip(slowest + behind, added);
    }

    /// Sends what goes now and lets the rest wait.
    pub(crate) fn send(&mut self, turn: &mut Turn<'_>, mut segments: Segments<'_>) {
        let packet = segments.packet();
        if segments.segments() == 1 && self.send_sparse(turn, &packet, &mut segments) {
            return;
        }
        self.rescue.go_on(
            turn,
            &mut self.paths,
            &mut self.recovery,
            &mut self.committed,
        );
        if self.queue.is_empty() && !self.recovery.has_stranded() {
            self.send_at_once(turn, &mut segments);
        }
        if segments.remaining() > 0 {
            self.enqueue(turn.now, flow::hash(&packet), &mut segments);
            self.drain(turn);
        }
    }

    /// Sends a lone datagram of a sparse flow without a number, if it is one.
    fn send_sparse(
        &mut self,
        turn: &mut Turn<'_>,
        packet: &Packet<'_>,
        segments: &mut Segments<'_>,
    ) -> bool {
        if !Sparse::may_overtake(packet) {
            return false;
        }
        let now = turn.now;
        let (flow, len) = (flow::hash(packet), segments.segment_len(0));
        if !self.sparse.takes(now, flow, len) || self.queue.holds(flow) {
            return false;
        }
        let usable = self.rescue.trusted(turn);
        let Some((path, _)) = self.paths.fastest(now, usable) else {
            return false;
        };
        if !self.rescue.is_told_of(now, path) {
            // Nobody would notice that the path swallows it.
            return false;
        }
        let header = turn.out.unnumbered_header(packet.version(), len);
        let tos = ecn::outer_tos(packet.tos());
        let (out, bytes) = turn.out.append(path, &header, tos, len);
        segments.write_next(out);
        self.paths.took_unnumbered(path, bytes);
        true
    }

    /// Sends as many packets as the paths take.
    fn send_at_once(&mut self, turn: &mut Turn<'_>, segments: &mut Segments<'_>) {
        let now = turn.now;
        let packet = segments.packet();
        let (version, tos) = (packet.version(), ecn::outer_tos(packet.tos()));
        let usable = self.rescue.trusted(turn);
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
            let keeps = self.recovery.keeps(now, run * datagram);
            let mut bytes = 0;
            for index in first..first + run {
                let inner_len = segments.segment_len(index);
                let seq = turn.out.next_seq();
                let header = turn.out.next_header(version, inner_len);
                let (out, len) = turn.out.append(path, &header, tos, inner_len);
                segments.write_next(out);
                bytes += len;
                if keeps && let Some(packet) = turn.out.last(path, inner_len) {
                    self.recovery.keep(now, seq, path, tos, packet);
                }
            }
            self.took(now, path, number, run as u32, bytes as u32);
            self.note_spread(now, usable, path);
            if !self.rescue.suspected().is_empty() {
                let inner_len = segments.segment_len(first + run - 1);
                let last = turn.out.last(path, inner_len).map(<[u8]>::to_vec);
                let newest = number.plus(run as u32 - 1);
                let (paths, last) = (&mut self.paths, last.unwrap_or_default());
                self.rescue.try_suspected(turn, paths, newest, tos, &last);
            }
        }
    }

    fn note_spread(&mut self, now: Time, usable: PathSet, path: PathId) {
        let fastest = self.paths.fastest(now, usable);
        if fastest.is_none_or(|(fastest, _)| fastest != path) {
            self.sparse.note_spread(now);
        }
    }

    fn enqueue(&mut self, now: Time, flow: u64, segments: &mut Segments<'_>) {
        self.sparse.note_spread(now);
        while segments.remaining() > 0 {
            let index = segments.segments() - segments.remaining();
            let len = segments.segment_len(index);
            self.queue.push(now, flow, len, |out| {
                segments.write_next(out);
            });
        }
    }

    /// Whether packets wait for a path.
    pub(crate) fn holds_packets(&self) -> bool {
        !self.queue.is_empty() || !self.committed.is_empty()
    }

    /// Sends from the queue what the paths take.
    pub(crate) fn drain(&mut self, turn: &mut Turn<'_>) {
        self.wake = None;
        if self.recovery.has_stranded() {
            // That is older.
            return;
        }
        let now = turn.now;
        let usable = self.rescue.trusted(turn);
        self.send_committed(turn, usable);
        while !self.queue.is_empty() {
            let (waiting, committed) = (self.queue.bytes(), self.committed.bytes());
            let (path, is_busy) = match self.paths.choose(now, usable, waiting, committed) {
                Choice::Take(path, _) => (path, false),
                Choice::Bind(path) => (path, true),
                Choice::Wait(until) => {
                    self.wake = earliest(self.wake, Some(until));
                    break;
                }
                Choice::Nowhere => {
                    turn.drops.count(DropReason::NoPath, self.queue.clear());
                    break;
                }
            };
            let Some(bytes) = self.queue.pop(now) else {
                break;
            };
            if let Some(packet) = self.number(turn, path, bytes) {
                if is_busy {
                    self.committed.push(path, packet);
                } else {
                    self.send_numbered(turn, path, packet);
                    self.note_spread(now, usable, path);
                }
            }
        }
        for path in self.committed.paths() {
            let ready = self.paths.ready_at(now, path);
            self.wake = earliest(self.wake, Some(ready));
        }
        self.count_losses(turn);
    }

    /// Gives a packet from the queue its number, to be sent over `path`.
    fn number(
        &mut self,
        turn: &mut Turn<'_>,
        path: PathId,
        bytes: Vec<u8>,
    ) -> Option<CommittedPacket> {
        let Ok(packet) = Packet::parse(&bytes) else {
            turn.drops.count(DropReason::NotIp, 1);
            self.queue.give_back(bytes);
            return None;
        };
        let (version, tos) = (packet.version(), ecn::outer_tos(packet.tos()));
        let seq = turn.out.next_seq();
        let header = turn.out.next_header(version, bytes.len());
        if self.recovery.keeps(turn.now, bytes.len()) {
            self.recovery.keep(turn.now, seq, path, tos, &bytes);
            self.recovery.bind_newest();
        }
        Some(CommittedPacket {
            seq,
            version,
            tos,
            len: turn.out.datagram_len(&header, bytes.len()),
            bytes,
        })
    }

    fn send_numbered(&mut self, turn: &mut Turn<'_>, path: PathId, packet: CommittedPacket) {
        let CommittedPacket {
            seq, tos, bytes, ..
        } = packet;
        let numbered = (seq, packet.version);
        let len = turn.out.append_numbered(path, numbered, tos, &bytes);
        self.recovery.unbind(turn.now, seq, path);
        self.took(turn.now, path, seq, 1, len as u32);
        let paths = &mut self.paths;
        self.rescue.try_suspected(turn, paths, seq, tos, &bytes);
        self.queue.give_back(bytes);
    }

    /// Sends what is committed to paths that can take it.
    fn send_committed(&mut self, turn: &mut Turn<'_>, usable: PathSet) {
        self.recommit(turn, usable);
        for path in usable.iter() {
            if self.committed.bytes()[path.index()] == 0 {
                continue;
            }
            while self.paths.room(turn.now, path).is_some()
                && let Some(packet) = self.committed.pop(path)
            {
                self.send_numbered(turn, path, packet);
            }
        }
    }

    /// What is committed to a path that is not usable any more goes over another.
    fn recommit(&mut self, turn: &mut Turn<'_>, usable: PathSet) {
        for path in (0..MAX_PATHS).filter_map(PathId::new) {
            if usable.contains(path) || self.committed.bytes()[path.index()] == 0 {
                continue;
            }
            match self.paths.fastest(turn.now, usable) {
                Some((other, _)) => self.committed.recommit(path, other),
                None => {
                    let left = self.committed.clear(path);
                    turn.drops.count(DropReason::NoPath, left as u64);
                }
            }
        }
    }

    /// The paths' estimates are no longer to be followed: what is committed goes. What waits in the queue
    /// ([`Sender::take_queued`]) is to go as other packets do.
    pub(crate) fn release_committed(&mut self, turn: &mut Turn<'_>) {
        let usable = turn.usable;
        self.recommit(turn, usable);
        for path in usable.iter() {
            while let Some(packet) = self.committed.pop(path) {
                self.send_numbered(turn, path, packet);
            }
        }
    }

    /// The next packet of the queue, which is to be given back.
    pub(crate) fn take_queued(&mut self, now: Time) -> Option<Vec<u8>> {
        self.queue.pop(now)
    }

    pub(crate) fn give_back(&mut self, packet: Vec<u8>) {
        self.queue.give_back(packet);
    }

    /// Counts what the queue has dropped.
    pub(crate) fn count_losses(&mut self, turn: &mut Turn<'_>) {
        let losses = self.queue.take_losses();
        turn.drops.count(DropReason::QueueAqm, losses.late);
        turn.drops.count(DropReason::QueueFull, losses.overflowed);
    }

    /// Sends a packet again, where it arrives first, or over two paths.
    fn resend(&mut self, turn: &mut Turn<'_>, resend: Resend) {
        let now = turn.now;
        let mut usable = self.rescue.trusted(turn);
        let mut others = usable;
        if let Some(path) = resend.lost_on {
            others.remove(path);
        }
        let surest = self.paths.surest(now, others);
        let Some(path) = surest.or_else(|| self.paths.surest(now, usable)) else {
            return;
        };
        usable.remove(path);
        let second = self.paths.surest(now, usable);
        let second = second.filter(|_| resend.is_twofold);
        let Some(packet) = self.recovery.packet(resend.seq) else {
            return;
        };
        let Ok(parsed) = Packet::parse(packet) else {
            return;
        };
        let (seq, version) = (resend.seq, parsed.version());
        let mut waits = false;
        for path in [Some(path), second].into_iter().flatten() {
            if self.committed.holds_before(path, seq) {
                waits = true;
                let again = turn.out.committed(seq, version, resend.tos, packet);
                self.committed.insert(path, again);
            } else {
                let len = turn
                    .out
                    .append_numbered(path, (seq, version), resend.tos, packet);
                self.paths.took_again(path, len);
            }
        }
        self.recovery.resent(now, resend, path);
        if second.is_some() {
            self.recovery.resent_copy(resend);
        }
        if waits {
            self.recovery.bind(seq);
        }
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
        self.recovery.learn(now, report, self.paths.log());
        self.set_patience(turn);
    }

    /// When the sender is to be called at the latest.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let recovery = earliest(self.rescue.poll_timeout(), self.recovery.poll_timeout());
        earliest(self.wake, recovery)
    }

    /// Probes the tail, if that is due.
    pub(crate) fn probe_tail(&mut self, turn: &mut Turn<'_>) {
        if let Some(probe) = self.recovery.handle_timeout(turn.now) {
            self.resend(turn, probe);
        }
    }

    /// Sends again what is lost, and what silent paths have swallowed; where estimates are not followed
    /// (`adapts`), no path is suspected. Returns whether one has just come to be.
    pub(crate) fn recover(&mut self, turn: &mut Turn<'_>, adapts: bool) -> bool {
        let fell_silent = adapts && self.rescue.watch(turn, &mut self.recovery);
        if !adapts {
            self.rescue.rest();
        }
        self.note_silence(turn.now);
        while let Some(resend) = self.recovery.next_resend() {
            self.resend(turn, resend);
        }
        self.rescue.go_on(
            turn,
            &mut self.paths,
            &mut self.recovery,
            &mut self.committed,
        );
        fell_silent
    }

    /// Nothing waits: the queue need not be looked at.
    pub(crate) fn rest(&mut self) {
        self.wake = None;
    }

    /// Fills in what waits and what was sent again.
    pub(crate) fn report(&self, status: &mut TunnelStatus) {
        let (queue, committed) = (&self.queue, &self.committed);
        status.queue_packets = (queue.packets() + committed.packets()) as u64;
        status.queue_bytes = (queue.bytes() + committed.bytes().iter().sum::<usize>()) as u64;
        status.queue_marked = queue.losses().marked;
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

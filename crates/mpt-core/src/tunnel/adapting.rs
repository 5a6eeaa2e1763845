//! The line out when the paths decide: what goes at once, what waits, what the peer reported.
//!
//! While the path that answers first takes everything, packets go straight from the TUN into its
//! trains, as with any other policy. When [`Adaptive`] says that they have to wait they are written
//! into the [`Queue`], without numbers, and get their number and their path when a path has room, or
//! when they are bound to one ([`Bound`]): so a packet that the queue drops leaves no gap.
//!
//! *Sparse flows.* With several paths in use, whatever has a number waits at the receiver for slower
//! paths. A call or a game need not: datagrams of flows that send little go out at once, over the
//! path that is fastest, without a number. (RFC 2890 lets the two mix; a receiver delivers what has
//! no number at once.) Of TCP even the sparse packets are numbered, to be reordered and recovered
//! like the rest.

use std::time::Duration;

use super::Outbound;
use super::bound::{Bound, BoundPacket};
use crate::control::drops::Drop;
use crate::path::{MAX_PATHS, PathId, PathSet};
use crate::send::queue::{Losses, Queue};
use crate::send::recovery::{Recovery, Resend};
use crate::send::scheduler::Policy;
use crate::send::scheduler::adaptive::{Adaptive, Choice};
use crate::send::scheduler::flow;
use crate::send::segment::Segments;
use crate::send::silence::Silence;
use crate::seq::Seq;
use crate::time::{Time, earliest};
use crate::wire::ecn;
use crate::wire::gre::Header;
use crate::wire::ip::{Packet, Version, protocol};
use crate::wire::report::Report;
use crate::wire::vnet::VnetHeader;

/// After packets went over several paths, sparse flows go without numbers for so long.
const SPREAD: Duration = Duration::from_secs(1);
/// A flow is sparse while it sends no more than this, in bytes a second …
const SPARSE_RATE: f64 = 50_000.0;
/// … and this at once.
const SPARSE_BURST: f64 = 10_000.0;
/// Flows whose rate is remembered, by hash.
const SPARSE_FLOWS: usize = 1024;

/// What the adaptive line out remembers.
#[derive(Debug)]
pub(super) struct Adapting {
    pub(super) paths: Adaptive,
    pub(super) queue: Queue,
    pub(super) bound: Bound,
    pub(super) recovery: Recovery,
    pub(super) silence: Silence,
    /// Suspected paths that had no other beside them so far.
    unrescued: PathSet,
    /// Paths that were suspected when that was last looked at.
    was_suspected: PathSet,
    /// When what is under way on suspected paths goes on being sent again.
    rescue_at: Option<Time>,
    /// Losses of the queue that were counted as drops.
    counted: Losses,
    /// Answered probes that were taken note of.
    answers: u32,
    answers_of: [u32; MAX_PATHS],
    /// When the queue is looked at again.
    wake: Option<Time>,
    /// Packets went over several paths, or waited, until lately.
    spread_until: Time,
    /// By flow: what it may send at once, and when that was so.
    sparse: Box<[(f64, Time)]>,
}

impl Adapting {
    pub(super) fn new(recovery: bool) -> Adapting {
        Adapting {
            paths: Adaptive::new(),
            queue: Queue::new(),
            bound: Bound::default(),
            recovery: Recovery::new(recovery),
            silence: Silence::default(),
            unrescued: PathSet::EMPTY,
            was_suspected: PathSet::EMPTY,
            rescue_at: None,
            counted: Losses::default(),
            answers: 0,
            answers_of: [0; MAX_PATHS],
            wake: None,
            spread_until: Time::ZERO,
            sparse: vec![(SPARSE_BURST, Time::ZERO); SPARSE_FLOWS].into_boxed_slice(),
        }
    }

    /// What is bound to it goes over another when the queue is looked at next.
    pub(super) fn forget_path(&mut self, path: PathId) {
        self.paths.forget_path(path);
        self.silence.forget(path);
        self.unrescued.remove(path);
    }

    /// Whether the flow has sent little of late, this packet included.
    fn is_sparse(&mut self, now: Time, flow: u64, bytes: usize) -> bool {
        let (allowance, then) = &mut self.sparse[flow as usize % SPARSE_FLOWS];
        let earned = now.since(*then).as_secs_f64() * SPARSE_RATE;
        *allowance = (*allowance + earned).min(SPARSE_BURST) - bytes as f64;
        *then = now;
        // A flow in debt has to be silent for a while.
        *allowance = allowance.max(-SPARSE_RATE);
        *allowance >= 0.0
    }
}

impl Outbound {
    /// Whether the paths' estimates decide where packets go.
    #[inline]
    pub(super) fn adapts(&mut self, now: Time) -> bool {
        if self.scheduler.policy() != Policy::Adaptive
            || !self.is_numbered()
            || !self.shared.peer_is_known()
            || !self.adapting.paths.is_informed()
        {
            return false;
        }
        self.note_probes(now);
        true
    }

    /// Whether weights decide because the peer sends no reports although it should.
    #[must_use]
    pub fn is_unreported(&self) -> bool {
        self.scheduler.policy() == Policy::Adaptive && !self.adapting.paths.is_informed()
    }

    /// Takes over what the line in learnt from answered probes.
    fn note_probes(&mut self, now: Time) {
        let answers = self.shared.answers();
        if answers == self.adapting.answers {
            return;
        }
        self.adapting.answers = answers;
        let usable = self.shared.usable();
        let rtts = usable.iter().map(|path| self.shared.probed(path).rtt);
        let quickest = rtts.min().unwrap_or_default();
        for path in usable.iter() {
            let probed = self.shared.probed(path);
            let known = &mut self.adapting.answers_of[path.index()];
            if *known != probed.answers {
                *known = probed.answers;
                let paths = &mut self.adapting.paths;
                paths.probed(now, path, &probed);
                let jitter = Duration::from_nanos(probed.jitter_ns);
                let silence = &mut self.adapting.silence;
                silence.answered(now, path, probed.sent, probed.rtt, jitter);
            }
            let recovery = &mut self.adapting.recovery;
            recovery.set_rtt(path, probed.rtt, quickest);
            recovery.set_contended(path, self.adapting.paths.is_contended(now, path));
        }
        self.set_patience(now);
        self.rehabilitate();
    }

    /// Lets flows wait for as long as it takes them to notice that they should slow down.
    fn set_patience(&mut self, now: Time) {
        let (adapting, usable) = (&mut self.adapting, self.shared.usable());
        let rtts = usable.iter().map(|path| self.shared.probed(path).rtt);
        let slowest = rtts.max().unwrap_or_default();
        // What waits on a path or is held up at the receiver delays all that is behind it.
        let behind = adapting.paths.longest_queue(now, usable) + adapting.recovery.holds(now) * 2;
        let lasts = |path: PathId| {
            let bytes = adapting.bound.bytes()[path.index()];
            adapting.paths.lasts(path, bytes)
        };
        let bound = adapting.bound.paths().map(lasts).max().unwrap_or_default();
        let added = adapting.paths.spread(usable).saturating_sub(bound);
        adapting.queue.set_round_trip(slowest + behind, added);
    }

    /// Sends what goes now and lets the rest wait.
    pub(super) fn adapt(&mut self, now: Time, mut segments: Segments<'_>) {
        let packet = segments.packet();
        if segments.segments() == 1 && self.send_sparse(now, &packet, &mut segments) {
            return;
        }
        self.rescue(now);
        if self.adapting.queue.is_empty() && !self.adapting.recovery.has_stranded() {
            self.send_at_once(now, &mut segments);
        }
        if segments.remaining() > 0 {
            self.enqueue(now, flow::hash(&packet), &mut segments);
            self.drain_queue(now);
        }
    }

    /// Sends as many packets as the paths take.
    fn send_at_once(&mut self, now: Time, segments: &mut Segments<'_>) {
        let packet = segments.packet();
        let (version, tos) = (packet.version(), ecn::outer_tos(packet.tos()));
        let usable = self.trusted();
        while segments.remaining() > 0 {
            let first = segments.segments() - segments.remaining();
            let datagram = segments.segment_len(first) + self.overhead();
            let waiting = datagram * segments.remaining();
            let bound = self.adapting.bound.bytes();
            let (path, room) = match self.adapting.paths.choose(now, usable, waiting, bound) {
                Choice::Take(path, room) => (path, room),
                Choice::Bind(_) | Choice::Wait(_) | Choice::Nowhere => return,
            };
            let run = (room / datagram).clamp(1, segments.remaining());
            let number = self.next_seq;
            let keeps = self.adapting.recovery.keeps(now, run * datagram);
            let mut bytes = 0;
            for index in first..first + run {
                let inner_len = segments.segment_len(index);
                let seq = self.next_seq;
                let header = self.next_header(version, inner_len);
                let (out, len) = self.append(path, &header, tos, inner_len);
                segments.write_next(out);
                bytes += len;
                if keeps {
                    self.keep(now, seq, path, tos, inner_len);
                }
            }
            self.took(now, path, number, run as u32, bytes as u32);
            self.note_spread(now, usable, path);
            if !self.adapting.silence.suspected().is_empty() {
                let tail = self.framing(&self.header(Version::V4)).tail;
                let inner_len = segments.segment_len(first + run - 1);
                let train = self.open[path.index()].as_ref();
                let last = train.map(|train| train.last(inner_len + tail)[..inner_len].to_vec());
                let newest = number.plus(run as u32 - 1);
                self.try_suspected(now, newest, tos, &last.unwrap_or_default());
            }
        }
    }

    fn note_spread(&mut self, now: Time, usable: PathSet, path: PathId) {
        let fastest = self.adapting.paths.fastest(now, usable);
        if fastest.is_none_or(|(fastest, _)| fastest != path) {
            self.adapting.spread_until = now + SPREAD;
        }
    }

    fn enqueue(&mut self, now: Time, flow: u64, segments: &mut Segments<'_>) {
        self.adapting.spread_until = now + SPREAD;
        while segments.remaining() > 0 {
            let index = segments.segments() - segments.remaining();
            let len = segments.segment_len(index);
            let queue = &mut self.adapting.queue;
            queue.push(now, flow, len, |out| {
                segments.write_next(out);
            });
        }
    }

    /// Sends from the queue what the paths take.
    fn drain_queue(&mut self, now: Time) {
        self.adapting.wake = None;
        if self.adapting.recovery.has_stranded() {
            // That is older.
            return;
        }
        let usable = self.trusted();
        self.send_bound(now, usable);
        while !self.adapting.queue.is_empty() {
            let (waiting, bound) = (self.adapting.queue.bytes(), self.adapting.bound.bytes());
            let (path, is_bound) = match self.adapting.paths.choose(now, usable, waiting, bound) {
                Choice::Take(path, _) => (path, false),
                Choice::Bind(path) => (path, true),
                Choice::Wait(until) => {
                    self.adapting.wake = earliest(self.adapting.wake, Some(until));
                    break;
                }
                Choice::Nowhere => {
                    let left = self.adapting.queue.clear();
                    self.drops.count(Drop::NoPath, left);
                    break;
                }
            };
            let Some(bytes) = self.adapting.queue.pop(now) else {
                break;
            };
            if let Some(packet) = self.number(now, path, bytes) {
                if is_bound {
                    self.adapting.bound.push(path, packet);
                } else {
                    self.send_numbered(now, path, packet);
                    self.note_spread(now, usable, path);
                }
            }
        }
        for path in self.adapting.bound.paths() {
            let ready = self.adapting.paths.ready_at(now, path);
            self.adapting.wake = earliest(self.adapting.wake, Some(ready));
        }
        self.count_queue_losses();
    }

    /// Gives a packet from the queue its number, to be sent over `path`.
    fn number(&mut self, now: Time, path: PathId, bytes: Vec<u8>) -> Option<BoundPacket> {
        let Ok(packet) = Packet::parse(&bytes) else {
            self.drops.count(Drop::NotIp, 1);
            self.adapting.queue.give_back(bytes);
            return None;
        };
        let (version, tos) = (packet.version(), ecn::outer_tos(packet.tos()));
        let seq = self.next_seq;
        let header = self.next_header(version, bytes.len());
        let recovery = &mut self.adapting.recovery;
        if recovery.keeps(now, bytes.len()) {
            recovery.keep(now, seq, path, tos, &bytes);
            recovery.bind_newest();
        }
        Some(BoundPacket {
            seq,
            version,
            tos,
            len: bytes.len() + self.framing(&header).overhead(),
            bytes,
        })
    }

    fn send_numbered(&mut self, now: Time, path: PathId, packet: BoundPacket) {
        let BoundPacket {
            seq, tos, bytes, ..
        } = packet;
        let header = Header {
            sequence: Some(seq),
            ..self.header(packet.version)
        };
        let (out, len) = self.append(path, &header, tos, bytes.len());
        out.copy_from_slice(&bytes);
        self.adapting.recovery.unbind(now, seq, path);
        self.took(now, path, seq, 1, len as u32);
        self.try_suspected(now, seq, tos, &bytes);
        self.adapting.queue.give_back(bytes);
    }

    /// Sends what is bound to paths that can take it.
    fn send_bound(&mut self, now: Time, usable: PathSet) {
        self.rebind_unusable(now, usable);
        for path in usable.iter() {
            if self.adapting.bound.bytes()[path.index()] == 0 {
                continue;
            }
            while self.adapting.paths.room(now, path).is_some()
                && let Some(packet) = self.adapting.bound.pop(path)
            {
                self.send_numbered(now, path, packet);
            }
        }
    }

    /// What is bound to a path that is not usable any more goes over another.
    fn rebind_unusable(&mut self, now: Time, usable: PathSet) {
        for path in (0..MAX_PATHS).filter_map(PathId::new) {
            if usable.contains(path) || self.adapting.bound.bytes()[path.index()] == 0 {
                continue;
            }
            match self.adapting.paths.fastest(now, usable) {
                Some((other, _)) => self.adapting.bound.rebind(path, other),
                None => {
                    let left = self.adapting.bound.clear(path);
                    self.drops.count(Drop::NoPath, left as u64);
                }
            }
        }
    }

    fn count_queue_losses(&mut self) {
        let losses = self.adapting.queue.losses();
        let counted = std::mem::replace(&mut self.adapting.counted, losses);
        self.drops.count(Drop::QueueAqm, losses.late - counted.late);
        let overflowed = losses.overflowed - counted.overflowed;
        self.drops.count(Drop::QueueFull, overflowed);
    }

    /// Sends a lone datagram of a sparse flow without a number, if it is one.
    fn send_sparse(&mut self, now: Time, packet: &Packet<'_>, segments: &mut Segments<'_>) -> bool {
        let Ok(transport) = packet.transport() else {
            return false;
        };
        if !matches!(
            transport.protocol,
            protocol::UDP | protocol::ICMP | protocol::ICMPV6
        ) {
            return false;
        }
        let (flow, len) = (flow::hash(packet), segments.segment_len(0));
        let is_sparse = self.adapting.is_sparse(now, flow, len);
        let is_spread = now < self.adapting.spread_until;
        if !is_sparse || !is_spread || self.adapting.queue.holds(flow) {
            return false;
        }
        let usable = self.trusted();
        let Some((path, _)) = self.adapting.paths.fastest(now, usable) else {
            return false;
        };
        if !self.adapting.silence.is_told_of(now, path) {
            // Nobody would notice that the path swallows it.
            return false;
        }
        let header = self.unnumbered_header(packet.version(), len);
        let tos = ecn::outer_tos(packet.tos());
        let (out, bytes) = self.append(path, &header, tos, len);
        segments.write_next(out);
        self.adapting.paths.took_unnumbered(path, bytes);
        true
    }

    /// Keeps the packet that was just written to the path's train.
    fn keep(&mut self, now: Time, seq: Seq, path: PathId, tos: u8, inner_len: usize) {
        let tail = self.framing(&self.header(Version::V4)).tail;
        if let Some(train) = &self.open[path.index()] {
            let packet = &train.last(inner_len + tail)[..inner_len];
            self.adapting.recovery.keep(now, seq, path, tos, packet);
        }
    }

    /// Sends again what is due.
    fn recover(&mut self, now: Time) {
        while let Some(resend) = self.adapting.recovery.next_resend() {
            self.resend(now, resend);
        }
    }

    /// Sends a packet again, where it arrives first, or over two paths.
    fn resend(&mut self, now: Time, resend: Resend) {
        let mut usable = self.trusted();
        let mut others = usable;
        if let Some(path) = resend.lost_on {
            others.remove(path);
        }
        let paths = &self.adapting.paths;
        let surest = paths.surest(now, others);
        let Some(path) = surest.or_else(|| paths.surest(now, usable)) else {
            return;
        };
        usable.remove(path);
        let second = paths.surest(now, usable).filter(|_| resend.is_twofold);
        let Some(packet) = self
            .adapting
            .recovery
            .packet(resend.seq)
            .map(<[u8]>::to_vec)
        else {
            return;
        };
        let Ok(parsed) = Packet::parse(&packet) else {
            return;
        };
        let header = Header {
            sequence: Some(resend.seq),
            ..self.header(parsed.version())
        };
        self.append_again(path, &header, resend.tos, &packet);
        self.adapting.recovery.resent(now, resend, path);
        if let Some(path) = second {
            self.append_again(path, &header, resend.tos, &packet);
            self.adapting.recovery.resent_copy(resend);
        }
    }

    fn append_again(&mut self, path: PathId, header: &Header, tos: u8, packet: &[u8]) {
        let (out, len) = self.append(path, header, tos, packet.len());
        out.copy_from_slice(packet);
        self.adapting.paths.took_again(path, len);
    }

    /// `path` took packets that had not been sent before, or not on it.
    fn took(&mut self, now: Time, path: PathId, first: Seq, packets: u32, bytes: u32) {
        let Adapting { paths, silence, .. } = &mut self.adapting;
        paths.took(now, path, first, packets, bytes);
        silence.sent(now, path, packets);
    }

    /// The paths that packets go over.
    fn trusted(&self) -> PathSet {
        let trusted = self.adapting.silence.trusted(self.shared.usable());
        let mut undoubted = trusted;
        for path in self.shared.doubted().iter() {
            undoubted.remove(path);
        }
        if undoubted.is_empty() {
            trusted
        } else {
            undoubted
        }
    }

    /// Looks for paths that have fallen silent.
    fn watch(&mut self, now: Time) {
        if !self.adapts(now) {
            self.adapting.silence.forget_all();
            self.adapting.unrescued = PathSet::EMPTY;
            return;
        }
        let usable = self.shared.usable();
        let silent = self.adapting.silence.handle_timeout(now);
        for path in silent.iter() {
            self.adapting.unrescued.insert(path);
            // Reports and answers are to leave it at once, too.
            self.wakes = true;
        }
        for path in self.adapting.unrescued.iter() {
            let mut others = self.trusted();
            others.remove(path);
            if !others.is_empty() {
                self.adapting.unrescued.remove(path);
                self.adapting.recovery.strand(path);
            }
            if !usable.contains(path) {
                self.adapting.unrescued.remove(path);
                self.adapting.silence.forget(path);
            }
        }
    }

    /// Sends again what is under way on suspected paths, the oldest first, as others have room.
    fn rescue(&mut self, now: Time) {
        self.adapting.rescue_at = None;
        while let Some((swallowed_by, seq, tos)) = self.adapting.recovery.next_stranded() {
            let mut others = self.trusted();
            others.remove(swallowed_by);
            let path = match self.adapting.paths.fastest_ready(now, others) {
                Ok(path) => path,
                Err(ready) => {
                    self.adapting.rescue_at = ready;
                    if ready.is_none() {
                        self.adapting.recovery.unstrand(swallowed_by);
                    }
                    return;
                }
            };
            let packet = self.adapting.recovery.packet(seq).map(<[u8]>::to_vec);
            if let Some(packet) = packet
                && let Some(len) = self.append_numbered(path, seq, tos, &packet)
            {
                self.took(now, path, seq, 1, len as u32);
                self.try_suspected(now, seq, tos, &packet);
            }
            self.adapting.recovery.rescued(now, seq, path);
        }
    }

    /// Appends a packet that has a number to the path's train. Returns the datagram's length.
    fn append_numbered(&mut self, path: PathId, seq: Seq, tos: u8, packet: &[u8]) -> Option<usize> {
        let parsed = Packet::parse(packet).ok()?;
        let header = Header {
            sequence: Some(seq),
            ..self.header(parsed.version())
        };
        let (out, len) = self.append(path, &header, tos, packet.len());
        out.copy_from_slice(packet);
        Some(len)
    }

    /// A copy of the packet that was just sent goes over suspected paths, now and then.
    fn try_suspected(&mut self, now: Time, seq: Seq, tos: u8, packet: &[u8]) {
        if self.adapting.silence.suspected().is_empty() {
            return;
        }
        let usable = self.shared.usable();
        for path in self.adapting.silence.take_tries(now, usable).iter() {
            if let Some(len) = self.append_numbered(path, seq, tos, packet) {
                let paths = &mut self.adapting.paths;
                paths.took(now, path, seq, 1, len as u32);
            }
        }
    }

    /// Paths that are not suspected any more need no others.
    fn rehabilitate(&mut self) {
        let suspected = self.adapting.silence.suspected();
        for path in (0..MAX_PATHS).filter_map(PathId::new) {
            if !suspected.contains(path) && self.adapting.was_suspected.contains(path) {
                self.adapting.unrescued.remove(path);
                self.adapting.recovery.unstrand(path);
            }
        }
        self.adapting.was_suspected = suspected;
    }

    /// Tells the line in which paths are suspected.
    pub(super) fn publish_suspected(&self) {
        let suspected = self.adapting.silence.suspected();
        let is_done = !self.adapting.recovery.has_stranded();
        let abandoned = if is_done { suspected } else { PathSet::EMPTY };
        self.shared.tell_suspected(suspected, abandoned);
    }

    /// Notes of which paths a report tells that they deliver.
    fn note_reported(&mut self, now: Time, report: &Report) {
        let Adapting { paths, silence, .. } = &mut self.adapting;
        silence.heard(now);
        for entry in &report.paths {
            let Some(path) = PathId::new(usize::from(entry.path)) else {
                continue;
            };
            let newest = paths.log.find(path, entry.edge);
            let next = || paths.log.next_after(path, entry.edge);
            let newest = newest.map(|newest| (newest.time, next()));
            let held = report.sent.since(entry.edge_arrived);
            silence.reported(now, path, entry.packets, held, newest);
        }
        self.rehabilitate();
    }

    /// Takes what the peer reports on what this end sent, which came at `now`.
    pub fn handle_report(&mut self, now: Time, report: &Report) {
        self.note_reported(now, report);
        let adapting = &mut self.adapting;
        adapting.paths.learn(now, report);
        let (recovers, flows) = (adapting.recovery.is_enabled(), adapting.queue.flows());
        adapting
            .paths
            .weigh(now, self.shared.usable(), recovers, flows);
        adapting.recovery.learn(now, report, &adapting.paths.log);
        self.set_patience(now);
        self.handle_timeout(now);
    }

    /// When [`Outbound::handle_timeout`] is to be called at the latest.
    #[must_use]
    pub fn poll_timeout(&mut self) -> Option<Time> {
        let adapting = &self.adapting;
        let silence = earliest(adapting.rescue_at, adapting.silence.poll_timeout());
        let recovery = earliest(silence, adapting.recovery.poll_timeout());
        earliest(adapting.wake, recovery)
    }

    /// Does what is due. Afterwards, poll everything.
    pub fn handle_timeout(&mut self, now: Time) {
        if let Some(probe) = self.adapting.recovery.handle_timeout(now) {
            self.resend(now, probe);
        }
        self.watch(now);
        self.recover(now);
        self.rescue(now);
        if self.adapting.queue.is_empty() && self.adapting.bound.is_empty() {
            self.adapting.wake = None;
            return;
        }
        if self.adapts(now) {
            return self.drain_queue(now);
        }
        self.adapting.wake = None;
        self.release_queue(now);
    }

    /// The paths' estimates are no longer to be followed: what waits goes as other packets do.
    fn release_queue(&mut self, now: Time) {
        let usable = self.shared.usable();
        self.rebind_unusable(now, usable);
        for path in usable.iter() {
            while let Some(packet) = self.adapting.bound.pop(path) {
                self.send_numbered(now, path, packet);
            }
        }
        while let Some(mut packet) = self.adapting.queue.pop(now) {
            self.handle_tun(now, &VnetHeader::default(), &mut packet);
            self.adapting.queue.give_back(packet);
        }
        self.count_queue_losses();
    }
}

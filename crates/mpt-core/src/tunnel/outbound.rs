//! The line out: TUN packet or super-packet → segments → sequence number → path → train.

mod too_big;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use super::sealing::Sealing;
use super::{News, Shared, Transmit, TunnelConfig};
use crate::control::classes::ClassStatus;
use crate::control::drops::{DropReason, Drops};
use crate::control::trace::Trace;
use crate::control::{PathStatus, TunnelStatus};
use crate::limits::MAX_CLASSES;
use crate::path::{MAX_PATHS, PathConfig, PathId, PathSet};
use crate::send::classes::ClassConfig;
use crate::send::datagrams::Datagrams;
use crate::send::icmp_errors::IcmpErrors;
use crate::send::scheduler::{Policy, Scheduler};
use crate::send::segment::{SegmentError, Segments};
use crate::send::sender::Sender;
use crate::send::train::Train;
use crate::send::turn::Turn;
use crate::time::{Time, earliest};
use crate::wire::ecn;
use crate::wire::ip::{Packet, Version};
use crate::wire::mss;
use crate::wire::report::Report;
use crate::wire::vnet::{Checksum, Gso, VnetHeader};

const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// Where a path's peer is.
#[derive(Debug, Clone, Copy, Default)]
struct Remote {
    /// By the configuration.
    configured: Option<SocketAddr>,
    /// In a sealed tunnel it may be elsewhere.
    now: Option<SocketAddr>,
    /// The socket that leads there, if it is not the path's own.
    socket: Option<PathId>,
}

/// The sending half of a tunnel.
pub struct Outbound {
    shared: Arc<Shared>,
    clamps_mss: bool,
    /// In a sealed tunnel.
    sealing: Option<Sealing>,
    /// The peer puts packets in order, by our own configuration.
    reordered: bool,
    scheduler: Scheduler,
    sender: Sender,
    out: Datagrams,
    remotes: [Remote; MAX_PATHS],
    icmp_errors: IcmpErrors,
    icmp_written: Vec<u8>,
    drops: Drops,
    /// Sent since [`Shared`] was last told.
    unpublished: [(u64, u64); MAX_PATHS],
    /// Something came from the TUN since then.
    was_given: bool,
    /// The line in is to be woken.
    wakes: bool,
    /// Memory was given back, and nothing has come from the TUN since.
    is_asleep: bool,
}

impl Outbound {
    pub(super) fn new(config: &TunnelConfig, shared: Arc<Shared>) -> Outbound {
        let reordered = config.reorder.is_numbered();
        let is_numbered = is_numbered(config.policy, reordered);
        Outbound {
            shared,
            clamps_mss: false,
            sealing: None,
            reordered,
            scheduler: Scheduler::new(config.policy),
            sender: Sender::new(config.recovery, config.law),
            out: Datagrams::new(config.key, is_numbered),
            remotes: Default::default(),
            icmp_errors: IcmpErrors::default(),
            icmp_written: Vec::new(),
            drops: Drops::default(),
            unpublished: [(0, 0); MAX_PATHS],
            was_given: false,
            wakes: false,
            is_asleep: false,
        }
    }

    /// Seals all that is sent.
    pub(super) fn seal(&mut self) {
        self.sealing = Some(Sealing::default());
        self.out.seal();
    }

    /// Takes what the line in has learnt ([`super::Inbound::poll_news`]), maybe before `now`: the two lines are threads.
    /// Afterwards, poll everything.
    pub fn learn(&mut self, now: Time, news: News) {
        match (news, &mut self.sealing) {
            (News::Report(came, report), _) => self.handle_report(came, now, &report),
            (News::Answered(path, answered), _) => {
                self.sender.note_answer(path, answered);
                self.sleep_if_idle();
            }
            (News::Keys(keys), Some(sealing)) => sealing.set_keys(keys),
            (News::Peer(path, socket, peer), Some(_)) => {
                let remote = &mut self.remotes[path.index()];
                (remote.now, remote.socket) = (Some(peer), Some(socket));
            }
            (News::Keys(_) | News::Peer(..), None) => {}
        }
    }

    /// While the tunnel carries nothing, probes and their answers still tell that time passes: the first of them has
    /// the memory of packets given back.
    fn sleep_if_idle(&mut self) {
        let may_sleep = !self.is_asleep && !self.was_given && !self.sender.holds_packets();
        if may_sleep && self.shared.wake.is_idle() {
            self.is_asleep = true;
            self.sender.sleep();
            self.out.rest();
        }
    }

    /// Adds a path, or changes what is configured of one. It carries packets once [`super::Inbound`]
    /// says that it is usable.
    pub fn set_path(&mut self, path: PathId, config: &PathConfig) {
        let remote = &mut self.remotes[path.index()];
        if remote.configured != config.remote {
            *remote = Remote {
                configured: config.remote,
                now: config.remote,
                socket: None,
            };
        }
        self.scheduler.set_weight(path, config.weight);
    }

    /// Takes a path away. Remove it from [`super::Inbound`] first.
    pub fn remove_path(&mut self, path: PathId) {
        let left = self.out.clear(path);
        self.drops.count(DropReason::NoPath, left as u64);
        self.remotes[path.index()] = Remote::default();
        self.sender.forget_path(path);
        self.shared.forget_sent(path);
    }

    /// Numbers packets from now on, or stops: reordering was switched on or off.
    pub fn set_numbered(&mut self, numbered: bool) {
        self.reordered = numbered;
        self.follow_numbering();
    }

    /// Sends lost packets again from now on, or stops.
    pub fn set_recovery(&mut self, recovery: bool) {
        self.sender.set_recovery(recovery);
    }

    /// Follows another policy from the next packet on.
    pub fn set_policy(&mut self, policy: Policy) {
        self.scheduler.set_policy(policy);
        self.follow_numbering();
    }

    fn follow_numbering(&mut self) {
        let is_numbered = is_numbered(self.scheduler.policy(), self.reordered);
        self.out.set_numbered(is_numbered);
    }

    /// Packets are of these classes from now on: at most [`MAX_CLASSES`], more are left out. With another policy than
    /// [`Policy::Adaptive`] they mean nothing.
    pub fn set_classes(&mut self, now: Time, classes: &[ClassConfig]) {
        let most = classes.len().min(MAX_CLASSES);
        self.sender.set_classes(now, &classes[..most]);
    }

    /// The paths cost this from now on, each by its index: packets go over the cheapest, and over dearer ones when these
    /// do not suffice, or with another policy than [`Policy::Adaptive`] when none of these is usable.
    /// [`crate::send::tiers::LAST_RESORT`] is dearer than any cost.
    pub fn set_costs(&mut self, costs: [u32; MAX_PATHS]) {
        self.sender.set_costs(costs);
    }

    /// Uses another GRE key from now on.
    pub fn set_key(&mut self, key: Option<u32>) {
        self.out.set_key(key);
    }

    /// Lowers the MSS of TCP handshakes to what the tunnel carries, or leaves it.
    pub fn set_mss_clamped(&mut self, clamped: bool) {
        self.clamps_mss = clamped;
    }

    /// Takes what was read from the TUN: a packet, or a super-packet with a header that says how to
    /// cut it. Afterwards, at the end of the batch at the latest, call [`Outbound::poll_transmit`]
    /// and [`Outbound::poll_tun`] until they have nothing.
    pub fn handle_tun(&mut self, now: Time, header: &VnetHeader, packet: &mut [u8]) {
        (self.was_given, self.is_asleep) = (true, false);
        let mtu = self.shared.mtu();
        if self.clamps_mss && header.gso == Gso::None {
            mss::clamp(
                packet,
                mtu,
                matches!(header.checksum, Checksum::Partial { .. }),
            );
        }
        match Segments::new(header, packet, usize::from(mtu)) {
            Ok(segments) => self.stripe(now, segments),
            Err(SegmentError::TooBig) => self.handle_too_big(now, header, packet, mtu),
            Err(SegmentError::Ip(_)) => self.drops.count(DropReason::NotIp, 1),
            Err(
                SegmentError::Vnet(_)
                | SegmentError::Mismatch
                | SegmentError::Flags
                | SegmentError::MtuTooSmall,
            ) => self.drops.count(DropReason::BadOffload, 1),
        }
    }

    /// The sender, and what it has at hand.
    fn turn(&mut self, now: Time) -> (&mut Sender, Turn<'_>) {
        let turn = Turn {
            now,
            usable: self.shared.usable(),
            doubted: self.shared.doubted(),
            out: &mut self.out,
            drops: &mut self.drops,
        };
        (&mut self.sender, turn)
    }

    /// Whether the paths' estimates decide where packets go.
    #[inline]
    fn adapts(&mut self, now: Time) -> bool {
        let adapts = self.scheduler.policy() == Policy::Adaptive
            && self.out.is_numbered()
            && self.shared.peer_is_known()
            && self.sender.is_informed();
        if adapts {
            let (sender, turn) = self.turn(now);
            sender.look_at_answers(&turn);
        }
        adapts
    }

    /// Whether weights decide because the peer sends no reports although it should.
    #[must_use]
    pub fn is_unreported(&self) -> bool {
        self.scheduler.policy() == Policy::Adaptive && !self.sender.is_informed()
    }

    /// Takes what the peer reports on what this end sent. The other line may have had it since `came`; what it lets go
    /// leaves now.
    fn handle_report(&mut self, came: Time, now: Time, report: &Report) {
        let (sender, turn) = self.turn(came);
        sender.handle_report(&turn, report);
        self.handle_timeout(now);
    }

    /// When [`Outbound::handle_timeout`] is to be called at the latest.
    #[must_use]
    pub fn poll_timeout(&mut self) -> Option<Time> {
        earliest(self.sender.poll_timeout(), self.out.poll_timeout())
    }

    /// Does what is due. Afterwards, poll everything.
    pub fn handle_timeout(&mut self, now: Time) {
        self.out.handle_timeout(now);
        let (sender, mut turn) = self.turn(now);
        sender.probe_tail(&mut turn);
        let adapts = self.adapts(now);
        let (sender, mut turn) = self.turn(now);
        let fell_silent = sender.recover(&mut turn, adapts);
        // Reports and answers are to leave a silent path at once, too.
        self.wakes |= fell_silent;
        if !self.sender.holds_packets() {
            return self.sender.rest();
        }
        if self.adapts(now) {
            let (sender, mut turn) = self.turn(now);
            return sender.drain(&mut turn);
        }
        self.sender.rest();
        self.release_queue(now);
    }

    /// The paths' estimates are no longer to be followed: what waits goes as other packets do.
    fn release_queue(&mut self, now: Time) {
        let (sender, mut turn) = self.turn(now);
        sender.release_committed(&mut turn);
        let mut packet = Vec::new();
        while self.sender.take_queued(now, &mut packet) {
            self.handle_tun(now, &VnetHeader::default(), &mut packet);
        }
        self.sender.count_losses(&mut self.drops);
    }

    /// Packets that wait for a path.
    pub(crate) fn waiting(&self) -> u64 {
        self.sender.waiting()
    }

    /// Bytes of memory that packets take here: those that wait, those that are kept to be sent again, and buffers for more.
    #[inline]
    pub(crate) fn memory(&self) -> usize {
        self.sender.memory() + self.out.memory()
    }

    /// Gives memory back until that is `to` bytes at most. What is dropped for it is counted
    /// ([`DropReason::QueueFull`]).
    pub(crate) fn give_back(&mut self, to: usize) {
        if self.memory() > to {
            self.out.forget_spare();
        }
        let to = to.saturating_sub(self.out.memory());
        self.sender.give_back(to, &mut self.drops);
    }

    /// Counts a packet from the TUN whose virtio header makes no sense.
    pub fn refuse_offload(&mut self) {
        self.drops.count(DropReason::BadOffload, 1);
    }

    /// Shares the packets among the paths, in runs.
    fn stripe(&mut self, now: Time, mut segments: Segments<'_>) {
        let packet = segments.packet();
        let (version, tos) = (packet.version(), ecn::outer_tos(packet.tos()));
        if self.scheduler.policy() == Policy::Redundant {
            return self.copy_to_all(version, tos, &segments);
        }
        if self.adapts(now) {
            let (sender, mut turn) = self.turn(now);
            return sender.send(&mut turn, segments);
        }
        let mut usable = self.shared.usable();
        if self.scheduler.policy() == Policy::Adaptive && !usable.is_empty() {
            let (sender, mut turn) = self.turn(now);
            usable = sender.send_by_class(&mut turn, &mut segments);
            if usable.is_empty() {
                return;
            }
        }
        self.share(now, usable, &packet, segments);
    }

    /// Shares the packets among `usable`, by the weights and by the flow of `packet`.
    fn share(
        &mut self,
        now: Time,
        usable: PathSet,
        packet: &Packet<'_>,
        mut segments: Segments<'_>,
    ) {
        let (version, tos) = (packet.version(), ecn::outer_tos(packet.tos()));
        let usable = self.sender.cheapest(usable);
        while segments.remaining() > 0 {
            let first = segments.segments() - segments.remaining();
            let len = segments.segment_len(first) + self.out.overhead();
            let run = self
                .scheduler
                .pick(usable, packet, len, segments.remaining());
            let Some((path, run)) = run else {
                self.drops
                    .count(DropReason::NoPath, segments.remaining() as u64);
                return;
            };
            let mut bytes = 0;
            for index in first..first + run {
                let inner_len = segments.segment_len(index);
                let header = self.out.next_header(version, inner_len);
                let (out, len) = self.out.append(path, &header, tos, inner_len);
                segments.write_next(out);
                bytes += len;
            }
            self.scheduler.took(now, path, bytes);
        }
    }

    /// Sends every packet over every usable path, with the same number.
    fn copy_to_all(&mut self, version: Version, tos: u8, segments: &Segments<'_>) {
        let usable = self.sender.cheapest(self.shared.usable());
        if usable == PathSet::EMPTY {
            let packets = segments.segments() as u64;
            return self.drops.count(DropReason::NoPath, packets);
        }
        for index in 0..segments.segments() {
            let inner_len = segments.segment_len(index);
            let header = self.out.next_header(version, inner_len);
            for path in usable.iter() {
                let (out, _) = self.out.append(path, &header, tos, inner_len);
                segments.write(index, out);
            }
        }
    }

    /// The next train that is complete. Unlike [`Outbound::poll_transmit`] this leaves alone those
    /// that more packets of the batch may join.
    pub fn poll_ready(&mut self) -> Option<Transmit<'_>> {
        let train = self.next_sealed(Datagrams::pop_ready)?;
        Some(self.leave(train))
    }

    /// The next train to be sent. When this returns `None`, everything handed out before must have
    /// been sent (or reported by [`Outbound::not_sent`]): the probes' watermark says so.
    pub fn poll_transmit(&mut self) -> Option<Transmit<'_>> {
        match self.next_sealed(Datagrams::pop) {
            Some(train) => Some(self.leave(train)),
            None => {
                self.publish();
                None
            }
        }
    }

    /// The next train of `next`, sealed in a sealed tunnel.
    fn next_sealed(&mut self, next: impl Fn(&mut Datagrams) -> Option<Train>) -> Option<Train> {
        self.out.recycle();
        loop {
            let mut train = next(&mut self.out)?;
            let Some(sealing) = self.sealing.as_mut().filter(|_| !train.is_copy) else {
                return Some(train);
            };
            match sealing.seal(self.out.next_seq(), &mut train) {
                Ok(()) => return Some(train),
                Err(why) => self.drops.count(why, train.datagrams as u64),
            }
            self.out.give_back(train);
        }
    }

    fn leave(&mut self, train: Train) -> Transmit<'_> {
        let remote = self.remotes[train.path.index()];
        let sent = &mut self.unpublished[train.path.index()];
        sent.0 += train.datagrams as u64;
        sent.1 += train.bytes().len() as u64;
        let train = self.out.leave(train);
        Transmit {
            path: train.path,
            socket: remote.socket.unwrap_or(train.path),
            to: remote.now.unwrap_or(NOWHERE),
            tos: train.tos,
            segment_size: train.segment_size,
            datagrams: train.datagrams,
            contents: train.bytes(),
        }
    }

    fn publish(&mut self) {
        for (index, sent) in self.unpublished.iter_mut().enumerate() {
            let (packets, bytes) = std::mem::take(sent);
            let Some(path) = PathId::new(index) else {
                continue;
            };
            if packets != 0 {
                self.shared.count_sent(path, packets, bytes);
            }
            if let Some(last) = self.out.take_last_on(path) {
                let known = self.shared.last_on(path);
                if known.is_none_or(|known| last.supersedes(known)) {
                    self.shared.set_last_on(path, last);
                }
            }
        }
        let (suspected, abandoned) = self.sender.suspected();
        self.shared.tell_suspected(suspected, abandoned);
        // All before this has been sent.
        let next = self.sender.first_committed().unwrap_or(self.out.next_seq());
        self.shared.numbers.set_next(next.value());
        if std::mem::take(&mut self.was_given) {
            self.wakes |= self.shared.wake.note_carried();
        }
    }

    /// Whether the line in has to know at once that packets come again: call [`super::Inbound::wake`].
    /// Ask this when [`Outbound::poll_transmit`] has nothing more.
    pub fn poll_wake(&mut self) -> bool {
        std::mem::take(&mut self.wakes)
    }

    /// Says that `datagrams` of the train from the last [`Outbound::poll_transmit`], of `bytes`
    /// altogether, could not be sent.
    pub fn not_sent(&mut self, path: PathId, datagrams: usize, bytes: usize, why: DropReason) {
        self.drops.count(why, datagrams as u64);
        let sent = &mut self.unpublished[path.index()];
        sent.0 = sent.0.saturating_sub(datagrams as u64);
        sent.1 = sent.1.saturating_sub(bytes as u64);
    }

    /// The next packet to be written back to the TUN: an ICMP "too big".
    pub fn poll_tun(&mut self) -> Option<&[u8]> {
        self.icmp_written = self.icmp_errors.pop()?;
        Some(&self.icmp_written)
    }

    /// Whether any path may carry packets.
    #[must_use]
    pub fn has_paths(&self) -> bool {
        !self.shared.usable().is_empty()
    }

    /// Packets and inner bytes handed to paths so far.
    #[must_use]
    pub fn sent(&self) -> (u64, u64) {
        self.out.counts()
    }

    /// What this half has dropped.
    #[must_use]
    pub fn drops(&self) -> &Drops {
        &self.drops
    }

    /// Fills in what this half knows of the tunnel.
    pub fn report(&self, status: &mut TunnelStatus) {
        (status.tx_packets, status.tx_bytes) = self.sent();
        self.drops().add_to(&mut status.drops);
        status.unreported = self.is_unreported();
        self.sender.report(status);
    }

    /// What the classes have come to, in the order of [`Outbound::set_classes`].
    #[must_use]
    pub fn report_classes(&self) -> Vec<ClassStatus> {
        self.sender.report_classes()
    }

    /// Fills in what this half knows of a path.
    pub fn report_path(&self, id: PathId, status: &mut PathStatus) {
        self.sender.report_path(id, status);
    }

    /// Fills in what the sender decided about a path's rate, from decision number `from` on; its times are the
    /// caller's, in microseconds.
    pub fn trace(&self, id: PathId, from: u64, trace: &mut Trace) {
        self.sender.trace(id, from, trace);
    }
}

/// Copies are told by their numbers; the packets of a flow that stays on a path need none.
fn is_numbered(policy: Policy, reordered: bool) -> bool {
    match policy {
        Policy::Redundant => true,
        Policy::Flow => false,
        Policy::Adaptive | Policy::Weighted | Policy::Backup => reordered,
    }
}

#[cfg(test)]
mod tests;

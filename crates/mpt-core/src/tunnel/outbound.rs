//! The line out: TUN packet or super-packet → segments → sequence number → path → train.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use super::adapting::Adapting;
use super::sealing::{Change, Framing, Sealing};
use super::{Shared, Transmit, TunnelConfig};
use crate::control::drops::{Drop, Drops};
use crate::path::{MAX_PATHS, PathConfig, PathId, PathSet};
use crate::send::scheduler::{Policy, Scheduler};
use crate::send::segment::{SegmentError, Segments};
use crate::send::train::Train;
use crate::seq::Seq;
use crate::time::Time;
use crate::wire::ecn;
use crate::wire::fragment;
use crate::wire::gre::{Header, Protocol};
use crate::wire::icmp;
use crate::wire::ip::{Packet, Version};
use crate::wire::mss;
use crate::wire::vnet::{Checksum, Gso, VnetHeader};

/// Most "too big" messages waiting to be written to the TUN.
const MAX_ICMP_QUEUED: usize = 16;
/// Least time between two of them (RFC 1812 §4.3.2.8 asks for a limit).
const ICMP_INTERVAL: Duration = Duration::from_millis(2);
/// Most used trains that are kept, 64 KiB each.
const MAX_SPARE: usize = 32;
const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// Where a path's peer is.
#[derive(Debug, Clone, Copy, Default)]
struct Remote {
    /// By the configuration.
    configured: Option<SocketAddr>,
    /// In a sealed tunnel it may be elsewhere.
    now: Option<SocketAddr>,
}

/// The sending half of a tunnel.
pub struct Outbound {
    pub(super) shared: Arc<Shared>,
    key: Option<u32>,
    clamps_mss: bool,
    /// In a sealed tunnel.
    sealing: Option<Sealing>,
    /// The peer puts packets in order, by our own configuration.
    reordered: bool,
    pub(super) next_seq: Seq,
    pub(super) scheduler: Scheduler,
    pub(super) adapting: Adapting,
    remotes: [Remote; MAX_PATHS],
    /// The train that each path's packets join.
    pub(super) open: [Option<Train>; MAX_PATHS],
    /// Trains that are complete, in the order in which they must go.
    ready: VecDeque<Train>,
    /// The train that the caller is sending.
    leaving: Option<Train>,
    /// Used trains, to be used again.
    spare: Vec<Train>,
    icmp: VecDeque<Vec<u8>>,
    icmp_written: Vec<u8>,
    next_icmp: Time,
    pub(super) drops: Drops,
    tx_packets: u64,
    tx_bytes: u64,
    /// Sent since [`Shared`] was last told.
    unpublished: [(u64, u64); MAX_PATHS],
    /// The highest number that was written for each path since the last was published.
    last_on: [Option<Seq>; MAX_PATHS],
    /// Something came from the TUN since then.
    was_given: bool,
    /// The line in is to be woken.
    pub(super) wakes: bool,
}

impl Outbound {
    pub(super) fn new(config: &TunnelConfig, shared: Arc<Shared>) -> Outbound {
        Outbound {
            shared,
            key: config.key,
            clamps_mss: false,
            sealing: None,
            reordered: config.reorder.is_numbered(),
            next_seq: Seq::FIRST,
            scheduler: Scheduler::new(config.policy),
            adapting: Adapting::new(config.recovery),
            remotes: Default::default(),
            open: Default::default(),
            ready: VecDeque::new(),
            leaving: None,
            spare: Vec::new(),
            icmp: VecDeque::with_capacity(MAX_ICMP_QUEUED),
            icmp_written: Vec::new(),
            next_icmp: Time::ZERO,
            drops: Drops::default(),
            tx_packets: 0,
            tx_bytes: 0,
            unpublished: [(0, 0); MAX_PATHS],
            last_on: [None; MAX_PATHS],
            was_given: false,
            wakes: false,
        }
    }

    /// Seals all that is sent.
    pub(super) fn seal(&mut self) {
        self.sealing = Some(Sealing::default());
    }

    /// Follows what the line in of a sealed tunnel has found out.
    pub fn follow(&mut self, change: Change) {
        match (change, &mut self.sealing) {
            (Change::Keys(keys), Some(sealing)) => sealing.set_keys(keys),
            (Change::Peer(path, peer), Some(_)) => self.remotes[path.index()].now = Some(peer),
            (_, None) => {}
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
            };
        }
        self.scheduler.set_weight(path, config.weight);
    }

    /// Takes a path away. Remove it from [`super::Inbound`] first.
    pub fn remove_path(&mut self, path: PathId) {
        debug_assert!(self.ready.is_empty(), "paths are removed between batches");
        if let Some(train) = self.open[path.index()].take() {
            self.drops.count(Drop::NoPath, train.datagrams as u64);
        }
        self.remotes[path.index()] = Remote::default();
        self.adapting.forget_path(path);
        self.shared.forget_sent(path);
    }

    /// Numbers packets from now on, or stops: reordering was switched on or off.
    pub fn set_numbered(&mut self, numbered: bool) {
        self.reordered = numbered;
    }

    /// Sends lost packets again from now on, or stops.
    pub fn set_recovery(&mut self, recovery: bool) {
        self.adapting.recovery.set_enabled(recovery);
    }

    /// Follows another policy from the next packet on.
    pub fn set_policy(&mut self, policy: Policy) {
        self.scheduler.set_policy(policy);
    }

    /// Copies are told by their numbers; the packets of a flow that stays on a path need none.
    pub(super) fn is_numbered(&self) -> bool {
        match self.scheduler.policy() {
            Policy::Redundant => true,
            Policy::Flow => false,
            Policy::Adaptive | Policy::Weighted | Policy::Backup => self.reordered,
        }
    }

    /// Uses another GRE key from now on.
    pub fn set_key(&mut self, key: Option<u32>) {
        self.key = key;
    }

    /// Lowers the MSS of TCP handshakes to what the tunnel carries, or leaves it.
    pub fn set_mss_clamped(&mut self, clamped: bool) {
        self.clamps_mss = clamped;
    }

    /// Takes what was read from the TUN: a packet, or a super-packet with a header that says how to
    /// cut it. Afterwards, at the end of the batch at the latest, call [`Outbound::poll_transmit`]
    /// and [`Outbound::poll_tun`] until they have nothing.
    pub fn handle_tun(&mut self, now: Time, header: &VnetHeader, packet: &mut [u8]) {
        self.was_given = true;
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
            Err(SegmentError::Ip(_)) => self.drops.count(Drop::NotIp, 1),
            Err(
                SegmentError::Vnet(_)
                | SegmentError::Mismatch
                | SegmentError::Flags
                | SegmentError::MtuTooSmall,
            ) => self.drops.count(Drop::BadOffload, 1),
        }
    }

    /// Counts a packet from the TUN whose virtio header makes no sense.
    pub fn refuse_offload(&mut self) {
        self.drops.count(Drop::BadOffload, 1);
    }

    /// Shares the packets among the paths, in runs.
    fn stripe(&mut self, now: Time, mut segments: Segments<'_>) {
        let packet = segments.packet();
        let (version, tos) = (packet.version(), ecn::outer_tos(packet.tos()));
        if self.scheduler.policy() == Policy::Redundant {
            return self.copy_to_all(version, tos, &segments);
        }
        if self.adapts(now) {
            return self.adapt(now, segments);
        }
        while segments.remaining() > 0 {
            let first = segments.segments() - segments.remaining();
            let run = self.pick(&packet, segments.segment_len(first), segments.remaining());
            let Some((path, run)) = run else {
                self.drops.count(Drop::NoPath, segments.remaining() as u64);
                return;
            };
            let mut bytes = 0;
            for index in first..first + run {
                let inner_len = segments.segment_len(index);
                let header = self.next_header(version, inner_len);
                let (out, len) = self.append(path, &header, tos, inner_len);
                segments.write_next(out);
                bytes += len;
            }
            self.scheduler.took(now, path, bytes);
        }
    }

    /// Sends every packet over every usable path, with the same number.
    fn copy_to_all(&mut self, version: Version, tos: u8, segments: &Segments<'_>) {
        let usable = self.shared.usable();
        if usable == PathSet::EMPTY {
            let packets = segments.segments() as u64;
            return self.drops.count(Drop::NoPath, packets);
        }
        for index in 0..segments.segments() {
            let inner_len = segments.segment_len(index);
            let header = self.next_header(version, inner_len);
            for path in usable.iter() {
                let (out, _) = self.append(path, &header, tos, inner_len);
                segments.write(index, out);
            }
        }
    }

    /// RFC 7588 §4.1: fragment the inner packet where that is allowed, else tell its sender. Of a
    /// super-packet whose datagrams must not be cut finer, each datagram by itself.
    fn handle_too_big(&mut self, now: Time, header: &VnetHeader, packet: &mut [u8], mtu: u16) {
        if header.gso == Gso::None {
            match header.complete_checksum(packet) {
                Ok(()) => self.handle_too_big_packet(now, packet, mtu),
                Err(_) => self.drops.count(Drop::BadOffload, 1),
            }
            return;
        }
        let Ok(mut datagrams) = Segments::new(header, packet, usize::MAX) else {
            self.drops.count(Drop::BadOffload, 1);
            return;
        };
        let mut datagram = vec![0; datagrams.segment_len(0)];
        while datagrams.remaining() > 0 {
            let len = datagrams.write_next(&mut datagram);
            self.handle_too_big_packet(now, &datagram[..len], mtu);
        }
    }

    fn handle_too_big_packet(&mut self, now: Time, packet: &[u8], mtu: u16) {
        let Ok(packet) = Packet::parse(packet) else {
            self.drops.count(Drop::NotIp, 1);
            return;
        };
        if packet.version() == Version::V4 && !packet.dont_fragment() {
            let fragmented = fragment::fragment(&packet, usize::from(mtu), |header, payload| {
                self.send_fragment(now, &packet, header, payload);
            });
            if fragmented.is_err() {
                self.drops.count(Drop::TooBig, 1);
            }
            return;
        }
        self.drops.count(Drop::TooBig, 1);
        if now < self.next_icmp || self.icmp.len() >= MAX_ICMP_QUEUED {
            return;
        }
        let mut message = vec![0; icmp::MAX_LEN];
        if let Some(len) = icmp::too_big(&packet, mtu, None, &mut message) {
            message.truncate(len);
            self.icmp.push_back(message);
            self.next_icmp = now + ICMP_INTERVAL;
        }
    }

    /// Sends a fragment of `packet`.
    fn send_fragment(&mut self, now: Time, packet: &Packet<'_>, head: &[u8], payload: &[u8]) {
        let (tos, inner_len) = (ecn::outer_tos(packet.tos()), head.len() + payload.len());
        let Some((picked, _)) = self.pick(packet, inner_len, 1) else {
            self.drops.count(Drop::NoPath, 1);
            return;
        };
        let paths = match self.scheduler.policy() {
            Policy::Redundant => self.shared.usable(),
            Policy::Adaptive | Policy::Weighted | Policy::Backup | Policy::Flow => {
                PathSet::only(picked)
            }
        };
        let header = self.next_header(Version::V4, inner_len);
        for path in paths.iter() {
            let (out, len) = self.append(path, &header, tos, inner_len);
            out[..head.len()].copy_from_slice(head);
            out[head.len()..].copy_from_slice(payload);
            self.scheduler.took(now, path, len);
        }
    }

    fn pick(
        &mut self,
        packet: &Packet<'_>,
        inner_len: usize,
        at_hand: usize,
    ) -> Option<(PathId, usize)> {
        let len = inner_len + self.overhead();
        let usable = self.shared.usable();
        self.scheduler.pick(usable, packet, len, at_hand)
    }

    /// Counts a packet of `inner_len` bytes, and makes its header with the next number.
    pub(super) fn next_header(&mut self, version: Version, inner_len: usize) -> Header {
        let header = self.header(version);
        self.count_out(inner_len);
        if header.sequence.is_some() {
            self.next_seq = self.next_seq.next();
        }
        header
    }

    /// Counts a packet of `inner_len` bytes, and makes its header without a number.
    pub(super) fn unnumbered_header(&mut self, version: Version, inner_len: usize) -> Header {
        self.count_out(inner_len);
        Header {
            sequence: None,
            ..self.header(version)
        }
    }

    fn count_out(&mut self, inner_len: usize) {
        self.tx_packets += 1;
        self.tx_bytes += inner_len as u64;
    }

    /// Appends a datagram to the path's train. Returns where its inner packet of `inner_len` bytes is
    /// to be written, and the datagram's length.
    pub(super) fn append(
        &mut self,
        path: PathId,
        header: &Header,
        tos: u8,
        inner_len: usize,
    ) -> (&mut [u8], usize) {
        let framing = self.framing(header);
        let len = inner_len + framing.overhead();
        if let Some(seq) = header.sequence {
            let last = &mut self.last_on[path.index()];
            *last = Some(last.map_or(seq, |last| last.later(seq)));
        }
        let (head, rest) = self
            .train_for(path, tos, len)
            .append(tos, len)
            .split_at_mut(framing.head);
        framing.emit(header, head);
        (&mut rest[..inner_len], len)
    }

    /// What GRE, and sealing, add to the next packet, in bytes.
    pub(super) fn overhead(&self) -> usize {
        self.framing(&self.header(Version::V4)).overhead()
    }

    pub(super) fn framing(&self, header: &Header) -> Framing {
        Framing::of(header, self.sealing.is_some())
    }

    pub(super) fn header(&self, version: Version) -> Header {
        Header {
            key: self.key,
            sequence: self.is_numbered().then_some(self.next_seq),
            protocol: match version {
                Version::V4 => Protocol::Ipv4,
                Version::V6 => Protocol::Ipv6,
            },
        }
    }

    /// The path's open train, or a new one when that cannot take the datagram.
    fn train_for(&mut self, path: PathId, tos: u8, len: usize) -> &mut Train {
        let open = &mut self.open[path.index()];
        if let Some(train) = open.take_if(|train| !train.fits(tos, len)) {
            self.ready.push_back(train);
        }
        let spare = &mut self.spare;
        open.get_or_insert_with(|| match spare.pop() {
            Some(mut train) => {
                train.reset(path);
                train
            }
            None => Train::new(path),
        })
    }

    /// The next train that is complete. Unlike [`Outbound::poll_transmit`] this leaves alone those
    /// that more packets of the batch may join.
    pub fn poll_ready(&mut self) -> Option<Transmit<'_>> {
        let train = self.next_sealed(|this| this.ready.pop_front())?;
        Some(self.leave(train))
    }

    /// The next train to be sent. When this returns `None`, everything handed out before must have
    /// been sent (or reported by [`Outbound::not_sent`]): the probes' watermark says so.
    pub fn poll_transmit(&mut self) -> Option<Transmit<'_>> {
        let train = self.next_sealed(|this| {
            let ready = this.ready.pop_front();
            ready.or_else(|| this.open.iter_mut().find_map(Option::take))
        });
        match train {
            Some(train) => Some(self.leave(train)),
            None => {
                self.recycle();
                self.publish();
                None
            }
        }
    }

    /// The next train of `next`, sealed in a sealed tunnel.
    fn next_sealed(&mut self, next: impl Fn(&mut Self) -> Option<Train>) -> Option<Train> {
        loop {
            let mut train = next(self)?;
            let Some(sealing) = &mut self.sealing else {
                return Some(train);
            };
            match sealing.seal(self.next_seq, &mut train) {
                Ok(()) => return Some(train),
                Err(why) => self.drops.count(why, train.datagrams as u64),
            }
            self.spare.push(train);
        }
    }

    fn leave(&mut self, train: Train) -> Transmit<'_> {
        self.recycle();
        let to = self.remotes[train.path.index()].now.unwrap_or(NOWHERE);
        let sent = &mut self.unpublished[train.path.index()];
        sent.0 += train.datagrams as u64;
        sent.1 += train.bytes().len() as u64;
        let train = self.leaving.insert(train);
        Transmit {
            path: train.path,
            to,
            tos: train.tos,
            segment_size: train.segment_size,
            datagrams: train.datagrams,
            contents: train.bytes(),
        }
    }

    /// The train that was being sent can be used again.
    fn recycle(&mut self) {
        self.spare.extend(self.leaving.take());
        self.spare.truncate(MAX_SPARE);
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
            if let Some(last) = self.last_on[index].take() {
                let known = self.shared.last_on(path);
                let last = known.map_or(last, |known| known.later(last));
                self.shared.set_last_on(path, last);
            }
        }
        self.publish_suspected();
        // All before this has been sent.
        let next = self.adapting.bound.first().unwrap_or(self.next_seq);
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
    pub fn not_sent(&mut self, path: PathId, datagrams: usize, bytes: usize, why: Drop) {
        self.drops.count(why, datagrams as u64);
        let sent = &mut self.unpublished[path.index()];
        sent.0 = sent.0.saturating_sub(datagrams as u64);
        sent.1 = sent.1.saturating_sub(bytes as u64);
    }

    /// The next packet to be written back to the TUN: an ICMP "too big".
    pub fn poll_tun(&mut self) -> Option<&[u8]> {
        self.icmp_written = self.icmp.pop_front()?;
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
        (self.tx_packets, self.tx_bytes)
    }

    /// What this half has dropped.
    #[must_use]
    pub fn drops(&self) -> &Drops {
        &self.drops
    }
}

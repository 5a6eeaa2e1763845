//! The line in: datagram → GRE → path → reorder window → super-packet for the TUN.
//!
//! What it keeps is private to its owners; each file of this room says when they are asked, and does what they
//! return.

mod activity;
mod called;
mod diagnosis;
mod messages;
mod mtus;
mod opening;
mod packets;
mod placing;
mod probing;
mod renewing;
mod status;

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::activity::Activity;
use super::delivery::Delivery;
use super::diagnosis::Diagnosis;
use super::event::{Event, Events};
use super::heard::HeardReports;
use super::look::{Content, look_at};
use super::mtus::Mtus;
use super::news::Answers;
use super::outbox::Outbox;
use super::reporting::Reporting;
use super::sealing::{Arrival, Opening};
use super::session::Peer;
use super::sizing::ReorderSettings;
use super::watermarks::Watermarks;
use super::window::Window;
use super::{Shared, TunnelConfig};
use crate::control::drops::{DropReason, Drops};
use crate::crypto::{DATA_OVERHEAD, Sessions};
use crate::path::{MAX_PATHS, Path, PathConfig, PathId, Paths, Unreachable};
use crate::receive::buffer::{Buffer, Stored};
use crate::receive::coalesce::Accepts;
use crate::receive::order::Order;
use crate::send::scheduler::Policy;
use crate::seq::Seq;
use crate::time::Time;
use crate::wire::gre::{Header, Protocol};
use crate::wire::kind::LONE_BYTE;
use crate::wire::name::PathName;
use crate::wire::vnet::VnetHeader;

/// A datagram as it was received.
#[derive(Debug)]
pub struct Datagram {
    /// The path whose socket received it; in a hub, the hub's socket.
    pub path: PathId,
    /// Who sent it.
    pub from: SocketAddr,
    /// Outer TOS or Traffic Class.
    pub tos: u8,
    /// The buffer that it is in.
    pub buffer: Buffer,
    /// Its length in bytes.
    pub len: usize,
    /// It is a train of datagrams of this many bytes, the last perhaps shorter (`UDP_GRO`).
    pub segment_size: Option<u16>,
    /// It was longer than the buffer.
    pub truncated: bool,
    /// For how long it had waited in the socket's buffer, as far as the kernel tells: that is no delay of the path.
    pub waited: Duration,
}

/// The receiving half of a tunnel, and the keeper of its paths.
pub struct Inbound {
    shared: Arc<Shared>,
    session: u64,
    key: Option<u32>,
    clamps_mss: bool,
    /// In a sealed tunnel.
    opening: Option<Opening>,
    /// When the host received the datagram in hand.
    arrived: Time,
    /// What the other half of this end does with what arrives at the peer.
    reports_wanted: bool,
    resends: bool,
    paths: Paths,
    mtus: Mtus,
    next_strange_answer: [Time; MAX_PATHS],
    peer: Peer,
    window: Window,
    order: Order,
    delivery: Delivery,
    outbox: Outbox,
    reporting: Reporting,
    heard: HeardReports,
    answers: Answers,
    watermarks: Watermarks,
    activity: Activity,
    diagnosis: Diagnosis,
    /// What each path costs: reports and edges go over those that cost least.
    costs: [u32; MAX_PATHS],
    events: Events,
    drops: Drops,
    control_packets: u64,
    /// Handshake messages that were taken.
    handshakes: u64,
    /// Single bytes that keep mappings open.
    lone_bytes: u64,
    jitter: u64,
    /// Something happened that may change a path's state.
    unsettled: bool,
    /// No path's state changes by time alone before this.
    next_settle: Option<Time>,
}

impl Inbound {
    pub(super) fn new(config: &TunnelConfig, shared: Arc<Shared>) -> Inbound {
        let mut inbound = Inbound {
            shared,
            session: config.session,
            key: config.key,
            clamps_mss: false,
            opening: None,
            arrived: Time::ZERO,
            reports_wanted: config.policy == Policy::Adaptive || config.recovery,
            resends: config.recovery,
            paths: Default::default(),
            mtus: Mtus::new(config.mtu),
            next_strange_answer: [Time::ZERO; MAX_PATHS],
            peer: Peer::default(),
            window: Window::new(config.reorder, config.mtu, config.receives_trains),
            order: Order::new(),
            delivery: Delivery::new(config.accepts),
            outbox: Outbox::default(),
            reporting: Reporting::default(),
            heard: HeardReports::default(),
            answers: Answers::default(),
            watermarks: Watermarks::default(),
            activity: Activity::default(),
            diagnosis: Diagnosis::default(),
            costs: [0; MAX_PATHS],
            events: Events::default(),
            drops: Drops::default(),
            control_packets: 0,
            handshakes: 0,
            lone_bytes: 0,
            jitter: config.session | 1,
            unsettled: true,
            next_settle: None,
        };
        inbound.set_reorder(Time::ZERO, config.reorder);
        inbound
    }

    /// Takes nothing but what is sealed.
    pub(super) fn seal(&mut self, sessions: Sessions) {
        self.opening = Some(Opening::new(sessions));
        self.peer.set_authentic();
    }

    /// Adds a path and begins to probe it, or changes what is configured of one.
    pub fn set_path(&mut self, now: Time, path: PathId, config: PathConfig) {
        match &mut self.paths[path.index()] {
            Some(known) if known.config.remote == config.remote => known.config = config,
            slot => {
                let mut new = Path::new(config, now);
                if let Some(before) = slot {
                    new.keep_service(before);
                }
                *slot = Some(Box::new(new));
                self.order.add_path(path);
                self.reporting.forget_path(path);
                self.window.forget_path(path);
                // It is to be measured at once.
                self.touch(now);
            }
        }
        self.settle(now);
    }

    /// What this end calls a path, which the peer is told where this end calls.
    pub fn set_path_name(&mut self, path: PathId, name: Option<PathName>) {
        if let Some(path) = &mut self.paths[path.index()] {
            path.names.set_own(name);
        }
    }

    /// Takes a path away.
    pub fn remove_path(&mut self, now: Time, path: PathId) {
        self.paths[path.index()] = None;
        self.order.remove_path(path);
        self.mtus.forget_path(path);
        self.reporting.forget_path(path);
        self.settle(now);
        self.search_mtus(now);
    }

    /// The path has no socket any more, and waits until it has one again.
    pub fn close_path(&mut self, now: Time, path: PathId) {
        if let Some(path) = &mut self.paths[path.index()] {
            path.close(now);
        }
        self.settle(now);
    }

    /// The path has a new socket: it is probed from there at once. Sessions, and what is known of the
    /// peer, are kept.
    pub fn open_path(&mut self, now: Time, path: PathId) {
        if let Some(path) = &mut self.paths[path.index()] {
            path.open(now);
        }
        self.settle(now);
    }

    /// Paths cost this, each by its index: see [`crate::send::tiers`].
    pub fn set_costs(&mut self, costs: [u32; MAX_PATHS]) {
        self.costs = costs;
    }

    /// Takes a path out of service, or back into it.
    pub fn set_out_of_service(&mut self, now: Time, path: PathId, out: bool) {
        if let Some(path) = &mut self.paths[path.index()] {
            path.set_out_of_service(now, out);
        }
        self.touch(now);
        self.settle(now);
    }

    /// The carrier of the device that a path leaves by went or came.
    pub fn handle_link(&mut self, now: Time, path: PathId, up: bool) {
        if let Some(path) = &mut self.paths[path.index()] {
            path.set_link(now, up);
        }
        self.touch(now);
        self.settle(now);
    }

    /// An ICMP error or the kernel says that `to` cannot be reached over `path`.
    pub fn handle_unreachable(
        &mut self,
        now: Time,
        path: PathId,
        to: SocketAddr,
        what: Unreachable,
    ) {
        if let Some(path) = &mut self.paths[path.index()]
            && path.peer.is_some_and(|peer| peer.ip() == to.ip())
        {
            // Where a peer called from may be its router's address.
            let is_gone = what == Unreachable::Port && path.config.remote.is_none();
            path.set_unreachable(now, if is_gone { Unreachable::Gone } else { what });
        }
        self.settle(now);
    }

    /// A free buffer to receive into. It comes back with [`Inbound::handle_datagram`] or
    /// [`Inbound::put_back`]. `None` only when the caller holds more than a batch.
    pub fn take_buffer(&mut self) -> Option<Buffer> {
        self.window.take_buffer()
    }

    /// Takes back a buffer that was not used.
    pub fn put_back(&mut self, buffer: Buffer) {
        let id = self.window.keep(buffer);
        self.window.release(id);
    }

    /// Takes a datagram, or a train of them. Afterwards, at the end of the batch at the latest, poll
    /// everything.
    pub fn handle_datagram(&mut self, now: Time, datagram: Datagram) {
        self.delivery.fill_limit(now);
        let Datagram {
            path,
            from,
            tos,
            buffer,
            len,
            segment_size,
            truncated,
            waited,
        } = datagram;
        self.arrived = now - waited;
        let buffer = self.window.keep(buffer);
        let step = segment_size.map_or(len, usize::from).max(1);
        let datagrams = len.div_ceil(step).max(1) as u64;
        let known = self.paths[path.index()].as_deref();
        let may_be_peer = |known: &Path| match known.peer {
            _ if self.opening.is_some() => true,
            Some(peer) => is_same_peer(peer, from),
            None => false,
        };
        let fits = len <= self.window.buffer_mut(buffer).len();
        if !self.is_called() && !known.is_some_and(may_be_peer) {
            self.note_stranger(now, path, from, datagrams);
            if fits {
                self.note_strange(now, path, from, buffer, 0..step.min(len));
            }
        } else if truncated || !fits {
            self.drops.count(DropReason::Truncated, datagrams);
        } else {
            for start in (0..len.max(1)).step_by(step) {
                let place = start..len.min(start + step);
                if self.window.buffer_mut(buffer)[place.clone()] == LONE_BYTE {
                    self.lone_bytes += 1;
                    if let Some(path) = &mut self.paths[path.index()] {
                        path.count_control(from, place.len());
                    }
                    continue;
                }
                if self.opening.is_none() {
                    if !self.handle_one(now, path, tos, buffer, place.clone()) {
                        self.note_strange(now, path, from, buffer, place);
                    }
                    continue;
                }
                let arrival = Arrival {
                    path,
                    socket: path,
                    from,
                    tos,
                    buffer,
                    place,
                };
                self.handle_sealed(now, arrival);
            }
        }
        self.window.release(buffer);
        if self.unsettled || self.next_settle.is_some_and(|at| at <= now) {
            self.settle(now);
        }
    }

    /// Takes one datagram of the path's peer, which stands at `place` in the buffer. Returns whether it is
    /// one of a plain tunnel.
    fn handle_one(
        &mut self,
        now: Time,
        id: PathId,
        tos: u8,
        buffer: u32,
        place: Range<usize>,
    ) -> bool {
        let start = place.start;
        let Some(path) = &mut self.paths[id.index()] else {
            return true;
        };
        path.rx_packets += 1;
        path.rx_bytes += place.len() as u64;
        let datagram_len = place.len();
        match look_at(&mut self.window.buffer_mut(buffer)[place], self.key, tos) {
            Err(why) => {
                self.drops.count(why, 1);
                return false;
            }
            Ok(Content::Control { offset }) => {
                if let Some(peer) = path.peer {
                    path.count_control(peer, datagram_len);
                }
                let message = start + offset..start + datagram_len;
                return self.handle_control(now, id, buffer, message);
            }
            Ok(Content::Packet {
                sequence,
                offset,
                len,
            }) => {
                self.hear_data(now, id);
                // All fit: a buffer holds 64 KiB at most.
                let packet = Stored {
                    buffer,
                    start: (start + offset) as u16,
                    len: len as u16,
                    number: sequence.map(|seq| self.order.number(seq)),
                    behind: None,
                };
                self.handle_packet(now, id, sequence, packet, datagram_len, true);
            }
        }
        true
    }

    /// Whether what is for the TUN may stay for what the other paths have ready in this moment, because
    /// block sort can then put it in order with that.
    #[must_use]
    pub fn may_gather(&self) -> bool {
        self.window.may_gather()
    }

    /// Hands everything that is for the TUN to `write`, in order and with consecutive packets of a
    /// flow joined where the TUN takes that. `write` says whether the TUN took it. Afterwards ask
    /// [`Inbound::refuses_joined`].
    pub fn drain_tun(&mut self, mut write: impl FnMut(&VnetHeader, &[u8]) -> bool) {
        self.window.sort_blocks();
        while let Some(packet) = self.window.pop() {
            self.order.leave(packet.number, packet.len);
            if packet.has_left() {
                continue;
            }
            let pushed = self.delivery.push(self.window.packet(packet), &mut write);
            if let Err(why) = pushed {
                self.drops.count(why, 1);
            }
            self.window.release(packet.buffer);
        }
        self.delivery.finish(&mut self.drops, &mut write);
        if self.window.finish() {
            self.delivery.rest();
        }
    }

    /// Whether the TUN refuses super-packets of kinds that it was to take: tell [`Inbound::set_accepts`] that it takes none.
    #[must_use]
    pub fn refuses_joined(&self) -> bool {
        self.delivery.refuses_joined()
    }

    /// The next thing that an operator may want to know.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop()
    }

    /// Follows another policy, and sends lost packets again or does not: the peer is asked for the
    /// reports that this takes.
    pub fn set_sending(&mut self, policy: Policy, recovery: bool) {
        self.reports_wanted = policy == Policy::Adaptive || recovery;
        self.resends = recovery;
    }

    /// Changes the largest inner packet. Buffers that the caller holds keep their size: put them
    /// back and take others.
    pub fn set_mtu(&mut self, now: Time, mtu: u16) {
        self.mtus.configure(mtu);
        self.window.set_mtu(mtu);
        self.set_reorder(now, self.window.settings());
        self.search_mtus(now);
    }

    /// Changes how packets are put in order.
    pub fn set_reorder(&mut self, now: Time, settings: ReorderSettings) {
        let recovery = self.recovery();
        self.window.configure(now, settings, recovery);
        self.size_window(now);
    }

    /// Packets that wait for those before them, or for the interface.
    pub(crate) fn held(&self) -> u64 {
        self.window.held()
    }

    /// Bytes of memory that packets take here: those that wait in the window for those before them, and buffers for more.
    #[inline]
    pub(crate) fn memory(&self) -> usize {
        self.window.memory() + self.delivery.memory()
    }

    /// Gives memory back until that is `to` bytes at most: what is free; then the window releases those with the lowest
    /// numbers, as one that is full does. These take theirs until [`Inbound::drain_tun`], which is to follow. Whether there was
    /// anything to give.
    pub(crate) fn give_back(&mut self, now: Time, to: usize) -> bool {
        let before = (self.memory(), self.held());
        if before.0 <= to {
            return false;
        }
        self.delivery.rest();
        let to = to.saturating_sub(self.delivery.memory());
        self.window.give_back(now, to);
        (self.memory(), self.held()) != before
    }

    /// From now on the TUN takes these super-packets.
    pub fn set_accepts(&mut self, accepts: Accepts) {
        self.delivery.set_accepts(accepts);
    }

    /// Lowers the MSS of TCP handshakes to what the tunnel carries, or leaves it.
    pub fn set_mss_clamped(&mut self, clamped: bool) {
        self.clamps_mss = clamped;
    }

    /// Uses another GRE key from now on.
    pub fn set_key(&mut self, key: Option<u32>) {
        self.key = key;
    }

    /// What GRE, and sealing, add to a packet, in bytes.
    pub(super) fn gre_len(&self) -> usize {
        if self.opening.is_some() {
            return DATA_OVERHEAD;
        }
        Header {
            key: self.key,
            sequence: Some(Seq::FIRST),
            protocol: Protocol::Ipv4,
        }
        .buffer_len()
    }

    /// Packets and inner bytes written to the TUN so far.
    #[must_use]
    pub fn received(&self) -> (u64, u64) {
        self.delivery.delivered()
    }

    /// What this half has dropped.
    #[must_use]
    pub fn drops(&self) -> &Drops {
        &self.drops
    }

    /// Control messages that were believed, handshake messages among them. With the packets for the TUN, what the reorder window
    /// holds and the drops, they are all datagrams that were handed in.
    #[must_use]
    pub fn control_packets(&self) -> u64 {
        self.control_packets + self.handshakes + self.lone_bytes
    }
}

/// Address and port are the same; IPv6 flow labels and scopes aside.
pub(super) fn is_same_peer(remote: SocketAddr, from: SocketAddr) -> bool {
    remote.ip() == from.ip() && remote.port() == from.port()
}

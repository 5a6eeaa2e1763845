//! The line in: datagram → GRE → path → reorder window → TUN packet; and the care of the paths:
//! probes, their answers, and which paths are usable.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::session::{Jump, Peer, Where};
use super::{Shared, Transmit, TunnelConfig};
use crate::buffer::{Buffer, Pool, Stored};
use crate::drops::{Drop, Drops};
use crate::ecn::{self, Decap};
use crate::gre::{self, GreError, Header, Protocol};
use crate::ip::{Packet, PacketMut, Version};
use crate::path::{
    DownReason, MAX_PATHS, Path, PathConfig, PathId, PathSet, PathState, Unreachable,
};
use crate::probe::{Echo, MESSAGE_BYTES, Message};
use crate::reorder::{MAX_DISTANCE, Reorder, ReorderConfig, ReorderCounters, Verdict};
use crate::seq::Seq;
use crate::time::{Time, earliest};

/// Buffers beyond a full window: a batch in the caller's hands and one on its way to the TUN.
const SPARE_BUFFERS: usize = 192;
/// Room in a buffer beyond the MTU: the GRE header with everything that is accepted.
const HEADER_ROOM: usize = 16;
/// Most control messages waiting to be sent.
const MAX_MESSAGES_QUEUED: usize = 64;
/// Most events waiting to be taken.
const MAX_EVENTS_QUEUED: usize = 64;
/// Least time between two answers on a path to a session that has not proved itself.
const STRANGE_SESSION_INTERVAL: Duration = Duration::from_millis(20);
/// After this long a path is tried again with its full MTU (RFC 1191 §6.3).
const PATH_MTU_EXPIRES: Duration = Duration::from_secs(600);
/// No lower MTU of a link is believed than Linux believes (`min_pmtu`) or than RFC 8200 §5 allows:
/// anybody can send ICMP errors.
const LEAST_LINK_MTU_V4: u32 = 552;
const LEAST_LINK_MTU_V6: u32 = 1280;

/// A datagram as it was received.
#[derive(Debug)]
pub struct Datagram {
    /// The path whose socket received it.
    pub path: PathId,
    /// Who sent it.
    pub from: SocketAddr,
    /// Outer TOS or Traffic Class.
    pub tos: u8,
    /// The buffer that it is in.
    pub buffer: Buffer,
    /// Its length in bytes.
    pub len: usize,
    /// It was longer than the buffer.
    pub truncated: bool,
}

/// Something that an operator may want to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A path changed its state.
    Path {
        /// The path.
        path: PathId,
        /// Its new state.
        state: PathState,
        /// Why, when it is down.
        reason: Option<DownReason>,
    },
    /// The peer's session has proved itself; `restarted` when there was another one before.
    PeerSession {
        /// The session.
        session: u64,
        /// Whether the peer was known under another session before.
        restarted: bool,
    },
    /// The peer has stopped probing but still sends: it is treated as one that never did.
    PeerStoppedProbing,
    /// A path carries less than assumed.
    PathMtu {
        /// The path.
        path: PathId,
        /// Largest inner packet now, in bytes.
        mtu: u16,
    },
}

/// The receiving half of a tunnel, and the keeper of its paths.
pub struct Inbound {
    pub(super) shared: Arc<Shared>,
    pub(super) session: u64,
    key: Option<u32>,
    config_mtu: u16,
    pub(super) paths: [Option<Path>; MAX_PATHS],
    path_mtu: [Option<(u16, Time)>; MAX_PATHS],
    next_strange_answer: [Time; MAX_PATHS],
    pub(super) peer: Peer,
    pool: Pool,
    pub(super) reorder: Reorder<Stored>,
    ready: Ready,
    messages: VecDeque<(PathId, ControlDatagram)>,
    leaving: Option<ControlDatagram>,
    events: VecDeque<Event>,
    drops: Drops,
    pub(super) rx_packets: u64,
    pub(super) rx_bytes: u64,
    control_packets: u64,
    jitter: u64,
    /// Something happened that may change a path's state.
    unsettled: bool,
    /// No path's state changes by time alone before this.
    next_settle: Option<Time>,
}

/// Packets in order for the TUN.
#[derive(Default)]
struct Ready {
    queue: VecDeque<Stored>,
    leaving: Option<Stored>,
}

#[derive(Clone, Copy)]
struct ControlDatagram {
    bytes: [u8; gre::MAX_SENT_BYTES + MESSAGE_BYTES],
    len: usize,
}

impl Inbound {
    pub(super) fn new(config: &TunnelConfig, shared: Arc<Shared>) -> Inbound {
        Inbound {
            shared,
            session: config.session,
            key: config.key,
            config_mtu: config.mtu,
            paths: Default::default(),
            path_mtu: [None; MAX_PATHS],
            next_strange_answer: [Time::ZERO; MAX_PATHS],
            peer: Peer::default(),
            pool: Pool::new(buffer_bytes_for(config.mtu), buffers_for(config.reorder)),
            reorder: Reorder::new(config.reorder, Seq::FIRST),
            ready: Ready::default(),
            messages: VecDeque::with_capacity(MAX_MESSAGES_QUEUED),
            leaving: None,
            events: VecDeque::with_capacity(MAX_EVENTS_QUEUED),
            drops: Drops::default(),
            rx_packets: 0,
            rx_bytes: 0,
            control_packets: 0,
            jitter: config.session | 1,
            unsettled: true,
            next_settle: None,
        }
    }

    /// Adds a path and begins to probe it, or changes what is configured of one.
    pub fn set_path(&mut self, now: Time, path: PathId, config: PathConfig) {
        match &mut self.paths[path.index()] {
            Some(known) if known.config.remote == config.remote => known.config = config,
            slot => *slot = Some(Path::new(config, now)),
        }
        self.settle(now);
    }

    /// Takes a path away.
    pub fn remove_path(&mut self, now: Time, path: PathId) {
        self.paths[path.index()] = None;
        self.path_mtu[path.index()] = None;
        self.settle(now);
        self.publish_mtu();
    }

    /// Takes a path out of service, or back into it.
    pub fn set_out_of_service(&mut self, now: Time, path: PathId, out: bool) {
        if let Some(path) = &mut self.paths[path.index()] {
            path.set_out_of_service(now, out);
        }
        self.settle(now);
    }

    /// The carrier of the device that a path leaves by went or came.
    pub fn handle_link(&mut self, now: Time, path: PathId, up: bool) {
        if let Some(path) = &mut self.paths[path.index()] {
            path.set_link(now, up);
        }
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
            && path.config.remote.ip() == to.ip()
        {
            path.set_unreachable(now, what);
        }
        self.settle(now);
    }

    /// An ICMP error says that datagrams to `to` must not be longer than `link_mtu` bytes, IP header
    /// included.
    pub fn handle_too_big(&mut self, now: Time, path: PathId, to: SocketAddr, link_mtu: u32) {
        let Some(known) = &self.paths[path.index()] else {
            return;
        };
        if known.config.remote.ip() != to.ip() {
            return;
        }
        let (overhead, least) = if to.is_ipv4() {
            (20 + 8, LEAST_LINK_MTU_V4)
        } else {
            (40 + 8, LEAST_LINK_MTU_V6)
        };
        let inner = link_mtu.max(least) - overhead - self.gre_len() as u32;
        let mtu = u16::try_from(inner).unwrap_or(u16::MAX);
        if mtu < self.mtu_of(path) {
            self.path_mtu[path.index()] = Some((mtu, now));
            self.publish_mtu();
            self.event(Event::PathMtu { path, mtu });
        }
    }

    /// A free buffer to receive into. It comes back with [`Inbound::handle_datagram`] or
    /// [`Inbound::put_back`]. `None` only when the caller holds more than a batch.
    pub fn take_buffer(&mut self) -> Option<Buffer> {
        self.pool.take()
    }

    /// Takes back a buffer that was not used.
    pub fn put_back(&mut self, buffer: Buffer) {
        self.pool.put_back(buffer);
    }

    /// Takes a datagram. Afterwards, at the end of the batch at the latest, poll everything.
    pub fn handle_datagram(&mut self, now: Time, mut datagram: Datagram) {
        match self.look_at(&mut datagram) {
            Err(why) => {
                self.drops.count(why, 1);
                self.pool.put_back(datagram.buffer);
            }
            Ok(Content::Control(message)) => {
                self.pool.put_back(datagram.buffer);
                self.handle_message(now, datagram.path, &message);
            }
            Ok(Content::Packet {
                sequence,
                start,
                len,
            }) => {
                if let Some(path) = &mut self.paths[datagram.path.index()] {
                    if !path.is_waited_for(now) {
                        self.unsettled = true;
                    }
                    path.heard = Some(now);
                }
                if self.peer.notice_silence(now) {
                    self.event(Event::PeerStoppedProbing);
                    self.unsettled = true;
                }
                let packet = Stored {
                    buffer: self.pool.keep(datagram.buffer),
                    start,
                    len,
                };
                self.handle_packet(now, datagram.path, sequence, packet);
            }
        }
        if self.unsettled || self.next_settle.is_some_and(|at| at <= now) {
            self.settle(now);
        }
    }

    /// Everything that can be said of a datagram by itself.
    fn look_at(&mut self, datagram: &mut Datagram) -> Result<Content, Drop> {
        let path = self.paths[datagram.path.index()]
            .as_mut()
            .filter(|path| is_same_peer(path.config.remote, datagram.from))
            .ok_or(Drop::Stranger)?;
        if datagram.truncated {
            return Err(Drop::Truncated);
        }
        let bytes = datagram
            .buffer
            .as_mut()
            .get_mut(..datagram.len)
            .ok_or(Drop::Truncated)?;
        let (header, start) = gre::parse(bytes, self.key).map_err(drop_for)?;
        path.rx_packets += 1;
        path.rx_bytes += bytes.len() as u64;
        let payload = &mut bytes[start..];
        let version = match header.protocol {
            Protocol::Ipv4 => Version::V4,
            Protocol::Ipv6 => Version::V6,
            Protocol::Control => {
                let message = Message::parse(payload).map_err(|_| Drop::BadControl)?;
                return Ok(Content::Control(message));
            }
            Protocol::Sealed => return Err(Drop::UnknownProtocol),
        };
        let packet = Packet::parse(payload).map_err(|_| Drop::BadInner)?;
        if packet.version() != version {
            return Err(Drop::BadInner);
        }
        let (inner_tos, len) = (packet.tos(), packet.total_len());
        match ecn::inner_after(datagram.tos, inner_tos) {
            Decap::Keep => {}
            Decap::Set(tos) => {
                if let Ok(mut packet) = PacketMut::parse(payload) {
                    packet.set_tos(tos);
                }
            }
            Decap::Drop => return Err(Drop::Ecn),
        }
        // Both fit: a buffer is shorter than 64 KiB.
        Ok(Content::Packet {
            sequence: header.sequence,
            start: start as u16,
            len: len as u16,
        })
    }

    fn handle_packet(&mut self, now: Time, path: PathId, sequence: Option<Seq>, packet: Stored) {
        let Some(seq) = sequence else {
            self.ready.queue.push_back(packet);
            return;
        };
        let out = &mut |packet| self.ready.queue.push_back(packet);
        if self.peer.is_first() && seq.value() >= self.reorder.config().window {
            self.reorder.begin_at(seq);
        }
        let mut verdict = self.reorder.insert(now, path, seq, packet, out);
        if let Some(whither) = whither(seq, self.reorder.next_expected(), verdict)
            && self.peer.consider_jump(now, path, seq, whither) == Jump::Believed
        {
            match whither {
                Where::Ahead => self.reorder.believe(seq),
                Where::FarAhead | Where::Behind => self.reorder.resync(now, seq, out),
            }
            verdict = self.reorder.insert(now, path, seq, packet, out);
        }
        let why = match verdict {
            Verdict::Taken => {
                self.peer.fits(path);
                return;
            }
            Verdict::Duplicate => Drop::Duplicate,
            Verdict::LateDropped => Drop::Late,
            Verdict::Unbelievable if self.reorder.next_expected().is_after(seq) => Drop::Stale,
            Verdict::Unbelievable => Drop::Jump,
        };
        self.drops.count(why, 1);
        self.pool.free(packet.buffer);
    }

    fn handle_message(&mut self, now: Time, path: PathId, message: &Message) {
        let Some(known) = &mut self.paths[path.index()] else {
            return;
        };
        let fresh_echo = known.fresh_echo(self.session, message.echo);
        if self.peer.session() != Some(message.session) {
            if self.peer.is_former(message.session) {
                self.drops.count(Drop::StaleControl, 1);
                return;
            }
            if fresh_echo.is_none() {
                self.drops.count(Drop::StaleControl, 1);
                self.answer_strange_session(now, path, message);
                return;
            }
            self.begin_session(now, message);
        }
        let Some(known) = &mut self.paths[path.index()] else {
            return;
        };
        if !known.is_newer(message) {
            self.drops.count(Drop::StaleControl, 1);
            return;
        }
        self.control_packets += 1;
        known.heard = Some(now);
        known.learn(now, message, fresh_echo);
        self.peer.heard(now);
        self.follow_watermark(now, path, message.next_seq, fresh_echo.is_some());
        if message.reply_wanted {
            self.send_probe(now, path, false);
        }
        self.settle(now);
    }

    /// An unknown session has to echo a message of ours before it is believed: give it one.
    fn answer_strange_session(&mut self, now: Time, path: PathId, message: &Message) {
        let next = &mut self.next_strange_answer[path.index()];
        if now >= *next {
            *next = now + STRANGE_SESSION_INTERVAL;
            let echo = Echo {
                number: message.number,
                session: message.session,
                sent: message.sent,
                received: now,
            };
            // Besides the probes, not instead of one: else strangers could silence us toward our peer.
            self.send_message(now, path, Some(echo), true);
        }
    }

    fn begin_session(&mut self, now: Time, message: &Message) {
        let restarted = self.peer.begin(now, message.session);
        for path in self.paths.iter_mut().flatten() {
            path.forget_peer();
        }
        self.begin_numbering(now, message.next_seq, restarted);
        self.event(Event::PeerSession {
            session: message.session,
            restarted,
        });
    }

    /// A session has proved itself and sends `next_seq` next. What came before that proof may have
    /// been a recording.
    fn begin_numbering(&mut self, now: Time, next_seq: Seq, restarted: bool) {
        let out = &mut |packet| self.ready.queue.push_back(packet);
        let first_heard = self.peer.is_first();
        let began_lately = next_seq.value() < self.reorder.config().window;
        let distance = next_seq.distance_from(self.reorder.next_expected());
        let is_elsewhere = distance.unsigned_abs() >= MAX_DISTANCE;
        if restarted || is_elsewhere || first_heard && !began_lately {
            self.reorder.resync(now, next_seq, out);
        } else if !began_lately {
            // It is we who began anew: what is old went to our former self.
            self.reorder.close_past();
        }
    }

    fn follow_watermark(&mut self, now: Time, path: PathId, watermark: Seq, proven: bool) {
        let out = &mut |packet| self.ready.queue.push_back(packet);
        if !self.reorder.announce(now, path, watermark, out)
            && proven
            && self.peer.consider_watermark(watermark) == Jump::Believed
        {
            self.reorder.resync(now, watermark, out);
        }
    }

    /// When [`Inbound::handle_timeout`] is to be called at the latest.
    pub fn poll_timeout(&mut self) -> Option<Time> {
        let probes = self
            .paths
            .iter()
            .flatten()
            .map(|path| path.next_probe)
            .min();
        earliest(
            earliest(probes, self.next_settle),
            self.reorder.poll_timeout(),
        )
    }

    /// Does what is due: probes, changes of state, the end of hold times.
    pub fn handle_timeout(&mut self, now: Time) {
        let out = &mut |packet| self.ready.queue.push_back(packet);
        self.reorder.handle_timeout(now, out);
        self.settle(now);
        for path in (0..MAX_PATHS).filter_map(PathId::new) {
            let due = self.paths[path.index()]
                .as_ref()
                .is_some_and(|path| path.next_probe <= now);
            if due {
                self.send_probe(now, path, true);
                self.sample_rates(now, path);
            }
        }
        self.expire_path_mtu(now);
    }

    /// Sends the peer a probe or the answer to one, and sets when the next probe is due.
    fn send_probe(&mut self, now: Time, id: PathId, reply_wanted: bool) {
        let leads = self.peer.session().is_none_or(|peer| self.session > peer);
        let jitter = self.next_jitter();
        let Some(path) = &mut self.paths[id.index()] else {
            return;
        };
        // The end with the higher session probes; the other probes only when that one falls silent,
        // or when no echo comes and both must find out.
        let interval = if path.is_answered(now) && !leads {
            path.config.keepalive * 3 / 2
        } else {
            path.config.keepalive
        };
        path.next_probe = now + interval.mul_f64(jitter);
        let echo = path.newest();
        self.send_message(now, id, echo, reply_wanted);
    }

    fn send_message(&mut self, now: Time, id: PathId, echo: Option<Echo>, reply_wanted: bool) {
        let Some(path) = &mut self.paths[id.index()] else {
            return;
        };
        if self.messages.len() >= MAX_MESSAGES_QUEUED {
            return;
        }
        let header = Header {
            key: self.key,
            sequence: None,
            protocol: Protocol::Control,
        };
        let len = header.buffer_len() + MESSAGE_BYTES;
        self.shared.count_sent(id, 1, len as u64);
        let (tx_packets, tx_bytes) = self.shared.sent(id);
        let message = Message {
            reply_wanted,
            out_of_service: path.out_of_service,
            path: id.index() as u8,
            number: path.number_sent(now),
            session: self.session,
            sent: now,
            tx_packets,
            tx_bytes,
            next_seq: Seq::new(self.shared.next_seq.load(Ordering::Acquire)),
            echo,
            rx_packets: path.rx_packets,
            rx_bytes: path.rx_bytes,
            loss_ppm: path.loss.ppm(),
        };
        let mut datagram = ControlDatagram { bytes: [0; _], len };
        let start = header.emit(&mut datagram.bytes);
        let mut body = [0; MESSAGE_BYTES];
        message.emit(&mut body);
        datagram.bytes[start..len].copy_from_slice(&body);
        self.messages.push_back((id, datagram));
    }

    /// The next control message to be sent.
    pub fn poll_transmit(&mut self) -> Option<Transmit<'_>> {
        let (path, to, datagram) = loop {
            let (path, datagram) = self.messages.pop_front()?;
            if let Some(known) = &self.paths[path.index()] {
                break (path, known.config.remote, datagram);
            }
        };
        let datagram = self.leaving.insert(datagram);
        Some(Transmit {
            path,
            to,
            tos: 0,
            segment_size: datagram.len,
            datagrams: 1,
            contents: &datagram.bytes[..datagram.len],
        })
    }

    /// The next packet for the TUN.
    pub fn poll_tun(&mut self) -> Option<&[u8]> {
        if let Some(left) = self.ready.leaving.take() {
            self.pool.free(left.buffer);
        }
        let packet = self.ready.queue.pop_front()?;
        self.ready.leaving = Some(packet);
        self.rx_packets += 1;
        self.rx_bytes += u64::from(packet.len);
        Some(self.pool.bytes(packet))
    }

    /// Says that the TUN did not take the packet from the last [`Inbound::poll_tun`].
    pub fn not_written(&mut self) {
        if let Some(packet) = self.ready.leaving {
            self.rx_packets -= 1;
            self.rx_bytes -= u64::from(packet.len);
            self.drops.count(Drop::TunWrite, 1);
        }
    }

    /// The next thing that an operator may want to know.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Changes the reorder window.
    pub fn set_reorder(&mut self, now: Time, config: ReorderConfig) {
        let out = &mut |packet| self.ready.queue.push_back(packet);
        self.reorder.reconfigure(now, config, out);
        self.pool.set_limit(buffers_for(config));
    }

    /// Changes the largest inner packet. Buffers that the caller holds keep their size: put them
    /// back and take others.
    pub fn set_mtu(&mut self, mtu: u16) {
        self.config_mtu = mtu;
        self.pool.set_buffer_bytes(buffer_bytes_for(mtu));
        self.publish_mtu();
    }

    /// Uses another GRE key from now on.
    pub fn set_key(&mut self, key: Option<u32>) {
        self.key = key;
    }

    /// Works out every path's state, tells of changes, and lets the other half and the reorder
    /// window know.
    fn settle(&mut self, now: Time) {
        let peer_probes = self.peer.probes();
        let (mut usable, mut waited_for) = (PathSet::EMPTY, PathSet::EMPTY);
        let mut next = None;
        for id in (0..MAX_PATHS).filter_map(PathId::new) {
            let Some(path) = &mut self.paths[id.index()] else {
                continue;
            };
            let (state, reason) = path.state_at(now, peer_probes);
            if (state, reason) != (path.state, path.reason) {
                (path.state, path.reason) = (state, reason);
                if self.events.len() < MAX_EVENTS_QUEUED {
                    self.events.push_back(Event::Path {
                        path: id,
                        state,
                        reason,
                    });
                }
            }
            if state == PathState::Up || (state == PathState::Probing && !peer_probes) {
                usable.insert(id);
            }
            if path.is_waited_for(now) {
                waited_for.insert(id);
            }
            next = earliest(next, path.state_deadline(now));
        }
        self.next_settle = next;
        self.unsettled = false;
        self.shared
            .usable
            .store(u32::from(usable.bits()), Ordering::Relaxed);
        let out = &mut |packet| self.ready.queue.push_back(packet);
        self.reorder.wait_for(now, waited_for, out);
    }

    fn sample_rates(&mut self, now: Time, id: PathId) {
        let (_, tx_bytes) = self.shared.sent(id);
        if let Some(path) = &mut self.paths[id.index()] {
            path.tx_rate.sample(now, tx_bytes);
            path.rx_rate.sample(now, path.rx_bytes);
        }
    }

    fn expire_path_mtu(&mut self, now: Time) {
        let mut expired = false;
        for found in &mut self.path_mtu {
            expired |= found
                .take_if(|(_, since)| now.since(*since) >= PATH_MTU_EXPIRES)
                .is_some();
        }
        if expired {
            self.publish_mtu();
        }
    }

    fn publish_mtu(&self) {
        let mtu = (0..MAX_PATHS)
            .filter_map(PathId::new)
            .map(|path| self.mtu_of(path))
            .fold(self.config_mtu, u16::min);
        self.shared.mtu.store(u32::from(mtu), Ordering::Relaxed);
    }

    /// Largest inner packet that fits the path, as far as is known, in bytes.
    #[must_use]
    pub fn mtu_of(&self, path: PathId) -> u16 {
        self.path_mtu[path.index()].map_or(self.config_mtu, |(mtu, _)| mtu.min(self.config_mtu))
    }

    fn gre_len(&self) -> usize {
        Header {
            key: self.key,
            sequence: Some(Seq::FIRST),
            protocol: Protocol::Ipv4,
        }
        .buffer_len()
    }

    fn event(&mut self, event: Event) {
        if self.events.len() < MAX_EVENTS_QUEUED {
            self.events.push_back(event);
        }
    }

    /// From 0.9 to 1.1 (xorshift64*): probes of several paths or tunnels must not fall in step.
    fn next_jitter(&mut self) -> f64 {
        self.jitter ^= self.jitter >> 12;
        self.jitter ^= self.jitter << 25;
        self.jitter ^= self.jitter >> 27;
        let top = self.jitter.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 40;
        0.9 + 0.2 * top as f64 / (1u64 << 24) as f64
    }

    /// What this half has dropped.
    #[must_use]
    pub fn drops(&self) -> &Drops {
        &self.drops
    }

    /// Control messages that were believed. With the packets for the TUN, what the reorder window
    /// holds and the drops, they are all datagrams that were handed in.
    #[must_use]
    pub fn control_packets(&self) -> u64 {
        self.control_packets
    }

    /// What happened in the reorder window.
    #[must_use]
    pub fn reorder_counters(&self) -> &ReorderCounters {
        self.reorder.counters()
    }
}

enum Content {
    Control(Message),
    Packet {
        sequence: Option<Seq>,
        start: u16,
        len: u16,
    },
}

/// Where a packet asks the window to go: beyond what it believes, or, when it was delivered before,
/// perhaps to the beginning.
fn whither(seq: Seq, expected: Seq, verdict: Verdict) -> Option<Where> {
    let ahead = seq.distance_from(expected);
    match verdict {
        Verdict::Taken | Verdict::LateDropped => None,
        Verdict::Duplicate => (ahead < 0).then_some(Where::Behind),
        Verdict::Unbelievable if ahead < 0 => Some(Where::Behind),
        Verdict::Unbelievable if ahead < MAX_DISTANCE as i32 => Some(Where::Ahead),
        Verdict::Unbelievable => Some(Where::FarAhead),
    }
}

fn drop_for(error: GreError) -> Drop {
    match error {
        GreError::Truncated | GreError::Version(_) | GreError::ReservedBits => Drop::BadGre,
        GreError::Checksum => Drop::BadChecksum,
        GreError::Key => Drop::BadKey,
        GreError::Protocol(_) => Drop::UnknownProtocol,
    }
}

/// Address and port are the same; IPv6 flow labels and scopes aside.
fn is_same_peer(remote: SocketAddr, from: SocketAddr) -> bool {
    remote.ip() == from.ip() && remote.port() == from.port()
}

fn buffer_bytes_for(mtu: u16) -> usize {
    (usize::from(mtu) + HEADER_ROOM).next_multiple_of(512)
}

fn buffers_for(config: ReorderConfig) -> usize {
    config.window as usize + SPARE_BUFFERS
}

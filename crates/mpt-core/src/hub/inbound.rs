//! The line in of a hub: whose a datagram is, and what all peers' lines in have due.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::waiting::{Load, Waiting};
use super::{AllowedIps, HubSlot, PeerKeys, RUSH, Schedule, Sources};
use crate::control::Protection;
use crate::control::drops::{DropReason, Drops};
use crate::crypto::{
    COOKIE_REPLY_BYTES, Caller, CryptoConfig, Entropy, INITIATION_BYTES, InitiationTag, KEY_BYTES,
    Moment, PrivateKey, PublicKey, Reception, Refused, Sender, Sessions, WallClock, claimed_answer,
    claimed_index,
};
use crate::path::{MAX_PATHS, PathConfig, PathId};
use crate::time::Time;
use crate::tunnel::{Datagram, Inbound, News, Outbound, TunnelConfig, sealed_tunnel};
use crate::wire::kind::Kind;

/// GRE header of a handshake message: no flags, Protocol Type 0x88B5.
const HANDSHAKE_GRE: [u8; 4] = [0x00, 0x00, 0x88, 0xb5];
/// What keeps a mapping open and means nothing else: RFC 3948 §2.3.
const LONE_BYTE: [u8; 1] = [0xff];
/// Copies of an initiation are known for this long at least: they come for five seconds.
const COPIES_KNOWN: Duration = Duration::from_secs(10);
/// Most initiations whose copies are known; more than are worked on in that time.
const MAX_COPIES: usize = 16_384;
/// A hub's sessions have 48 random bits: of 65,536 clients one may have a lower one.
const HUB_SESSION_SHIFT: u32 = 16;
/// Most cookie replies waiting to be sent.
const MAX_REPLIES: usize = 256;

/// What all peers of a hub have in common.
pub struct HubConfig {
    /// What each peer's halves are made with; the session is theirs.
    pub tunnel: TunnelConfig,
    /// The MSS of TCP handshakes is lowered to what a peer's paths carry.
    pub clamps_mss: bool,
    /// Who this end is.
    pub private_key: PrivateKey,
    /// This end has AES in hardware: [`crate::crypto::has_hardware_aes`].
    pub hardware_aes: bool,
    /// See [`CryptoConfig::silence`].
    pub silence: Duration,
    /// By socket: what the paths get that come into being as peers call it.
    pub called: [Option<PathConfig>; MAX_PATHS],
    /// Makes sources of random bytes, one for each peer.
    pub entropy: Box<dyn FnMut() -> Entropy + Send>,
    /// Makes wall clocks likewise.
    pub wall: Box<dyn FnMut() -> WallClock + Send>,
}

/// What the line out of a hub has to know.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are reports, and a box would be an allocation for each"
)]
pub enum HubNews {
    /// A peer has called: its half.
    Begins(HubSlot, Box<Outbound>),
    /// A peer is away.
    Ends(HubSlot),
    /// Something that a peer's line in has learnt.
    Of(HubSlot, News),
}

/// A peer as it was counted so far.
#[derive(Debug, Clone, Default)]
pub struct PeerSummary {
    /// Packets written to the TUN.
    pub rx_packets: u64,
    /// Their inner bytes.
    pub rx_bytes: u64,
    /// What its line in has dropped.
    pub drops: Drops,
}

/// See the module.
pub struct HubInbound {
    config: HubConfig,
    reception: Reception,
    entropy: Entropy,
    allowed: Arc<AllowedIps>,
    /// By slot.
    peers: Vec<Option<Row>>,
    by_key: HashMap<[u8; KEY_BYTES], HubSlot>,
    /// Whose the initiations are that were answered: lately, and before.
    answered: [HashMap<InitiationTag, HubSlot>; 2],
    answered_since: Time,
    schedule: Schedule,
    waiting: Waiting<Came>,
    /// Whose the last datagram was, a peer's or a stranger's, and when it was another's than the one before.
    last: Option<Option<HubSlot>>,
    changed: Option<Time>,
    news: VecDeque<HubNews>,
    replies: VecDeque<(PathId, SocketAddr, [u8; 4 + COOKIE_REPLY_BYTES])>,
    /// Who called last and is no peer.
    stranger: Option<PublicKey>,
    drops: Drops,
    lone_bytes: u64,
}

/// How a datagram, or a train of them, came.
struct Came {
    socket: PathId,
    from: SocketAddr,
    tos: u8,
    segment_size: Option<u16>,
}

impl Load for Came {
    fn packets(&self, len: usize) -> u64 {
        len.div_ceil(self.first(len)) as u64
    }

    fn first(&self, len: usize) -> usize {
        self.segment_size.map_or(len, usize::from).max(1)
    }
}

/// A peer.
struct Row {
    keys: PeerKeys,
    /// Its initiations up to this moment are old.
    known_until: Moment,
    /// Most that is taken of it, in bits a second.
    rate_limit: Option<u64>,
    /// While something is agreed with it.
    inbound: Option<Box<Inbound>>,
    former: PeerSummary,
}

impl Row {
    fn summary(&self) -> PeerSummary {
        let mut sum = self.former.clone();
        if let Some(inbound) = &self.inbound {
            let (packets, bytes) = inbound.received();
            sum.rx_packets += packets;
            sum.rx_bytes += bytes;
            sum.drops.add(inbound.drops());
        }
        sum
    }
}

impl HubInbound {
    /// A hub without peers.
    #[must_use]
    pub fn new(now: Time, mut config: HubConfig) -> HubInbound {
        let mut entropy = (config.entropy)();
        HubInbound {
            reception: Reception::of_hub(now, config.private_key.clone(), &mut entropy),
            entropy,
            allowed: Arc::default(),
            peers: Vec::new(),
            by_key: HashMap::new(),
            answered: Default::default(),
            answered_since: now,
            schedule: Schedule::default(),
            waiting: Waiting::default(),
            last: None,
            changed: None,
            news: VecDeque::new(),
            replies: VecDeque::new(),
            stranger: None,
            drops: Drops::default(),
            lone_bytes: 0,
            config,
        }
    }

    /// Adds a peer, or gives one other keys; with other keys it has to call again.
    pub fn set_peer(&mut self, slot: HubSlot, keys: PeerKeys) {
        let number = slot.number();
        if self.peers.len() <= number {
            self.peers.resize_with(number + 1, || None);
        }
        if self.peers[number]
            .as_ref()
            .is_some_and(|row| row.keys == keys)
        {
            return;
        }
        self.remove_peer(slot);
        self.by_key.insert(*keys.public_key.as_bytes(), slot);
        self.peers[number] = Some(Row {
            keys,
            known_until: Moment::default(),
            rate_limit: None,
            inbound: None,
            former: PeerSummary::default(),
        });
    }

    /// More than so many bits a second of inner packets of a peer are dropped from now on.
    pub fn set_rate_limit(&mut self, now: Time, slot: HubSlot, bits_per_second: Option<u64>) {
        if let Some(Some(row)) = self.peers.get_mut(slot.number()) {
            row.rate_limit = bits_per_second;
            if let Some(inbound) = &mut row.inbound {
                inbound.set_rate_limit(now, bits_per_second);
            }
        }
    }

    /// Takes a peer away, with all that is under way to and from it.
    pub fn remove_peer(&mut self, slot: HubSlot) {
        let Some(row) = self.peers.get_mut(slot.number()).and_then(Option::take) else {
            return;
        };
        self.by_key.remove(row.keys.public_key.as_bytes());
        self.waiting.forget(Some(slot));
        self.schedule.set(slot, None);
        if row.inbound.is_some() {
            self.news.push_back(HubNews::Ends(slot));
        }
    }

    /// Says whose inner addresses are.
    pub fn set_allowed(&mut self, allowed: Arc<AllowedIps>) {
        self.allowed = allowed;
        for slot in self.present() {
            let sources = Sources::new(self.allowed.clone(), slot);
            if let Some(inbound) = self.peer(slot) {
                inbound.set_sources(sources);
            }
        }
    }

    /// Changes what all peers have in common, those that are there included.
    pub fn configure(
        &mut self,
        change: impl FnOnce(&mut HubConfig),
        follow: impl Fn(&mut Inbound),
    ) {
        change(&mut self.config);
        for slot in self.present() {
            if let Some(inbound) = self.peer(slot) {
                follow(inbound);
            }
            self.schedule.touch(slot);
        }
    }

    /// The peers that have called and are not away.
    #[must_use]
    pub fn present(&self) -> Vec<HubSlot> {
        let slots = (0..).map_while(HubSlot::new).zip(&self.peers);
        let present =
            slots.filter(|(_, row)| row.as_ref().is_some_and(|row| row.inbound.is_some()));
        present.map(|(slot, _)| slot).collect()
    }

    /// The line in of a peer that is there. What is done with it is to be followed by [`HubInbound::settle`].
    pub fn peer(&mut self, slot: HubSlot) -> Option<&mut Inbound> {
        let row = self.peers.get_mut(slot.number())?.as_mut()?;
        row.inbound.as_deref_mut()
    }

    /// What was counted of a peer.
    #[must_use]
    pub fn summary(&self, slot: HubSlot) -> Option<PeerSummary> {
        let row = self.peers.get(slot.number())?.as_ref()?;
        Some(row.summary())
    }

    fn inbounds(&self) -> impl Iterator<Item = &Inbound> {
        let rows = self.peers.iter().flatten();
        rows.filter_map(|row| row.inbound.as_deref())
    }

    /// How many peers have a path up.
    #[must_use]
    pub fn up(&self) -> usize {
        self.inbounds().filter(|inbound| inbound.is_up()).count()
    }

    /// What seals, if anything is agreed with any peer.
    #[must_use]
    pub fn protection(&self) -> Option<Protection> {
        let mut all = self.inbounds().filter_map(Inbound::protection);
        all.find(|protection| *protection != Protection::Waiting)
    }

    /// What was counted of all together, and of what is no peer's.
    #[must_use]
    pub fn total(&self) -> PeerSummary {
        let mut total = PeerSummary {
            drops: self.drops.clone(),
            ..PeerSummary::default()
        };
        for row in self.peers.iter().flatten() {
            let one = row.summary();
            total.rx_packets += one.rx_packets;
            total.rx_bytes += one.rx_bytes;
            total.drops.add(&one.drops);
        }
        total
    }

    /// This end's public key, and that of the last caller who is no peer.
    #[must_use]
    pub fn public_keys(&self) -> (PublicKey, Option<PublicKey>) {
        (self.config.private_key.public_key(), self.stranger)
    }

    /// Takes a datagram, or a train of them, which came by `socket` and stands in `bytes`. `segment_size`: as in
    /// [`Datagram`]. Afterwards, at the end of the batch at the latest, poll everything.
    pub fn handle_datagram(
        &mut self,
        now: Time,
        socket: PathId,
        from: SocketAddr,
        tos: u8,
        bytes: &[u8],
        segment_size: Option<u16>,
    ) {
        let step = segment_size.map_or(bytes.len(), usize::from).max(1);
        for one in bytes.chunks(step) {
            self.handle_one(now, socket, from, tos, one);
        }
    }

    fn note_whose(&mut self, now: Time, whose: Option<HubSlot>) {
        if self.last.replace(whose).is_some_and(|last| last != whose) {
            self.changed = Some(now);
        }
    }

    /// Whether several peers send at this time: when more comes than can be handled, it is to wait by peer.
    #[must_use]
    pub fn is_shared(&self, now: Time) -> bool {
        self.changed.is_some_and(|at| now.since(at) < RUSH)
    }

    /// Takes what [`HubInbound::handle_datagram`] does, and lets it wait for its peer's turn ([`HubInbound::serve`]).
    /// All that is of no peer that is there, calls among it, has one turn.
    pub fn enqueue(
        &mut self,
        now: Time,
        socket: PathId,
        from: SocketAddr,
        tos: u8,
        bytes: &[u8],
        segment_size: Option<u16>,
    ) {
        let came = Came {
            socket,
            from,
            tos,
            segment_size,
        };
        let first = &bytes[..came.first(bytes.len()).min(bytes.len())];
        let slot = claimed_index(first).map(HubSlot::of_index);
        let slot = slot.filter(|slot| self.peer(*slot).is_some());
        if !bytes.is_empty() {
            self.waiting.push(now, slot, came, bytes);
        }
    }

    /// Whether anything waits for its peer's turn.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether what comes now is at the cost of what waits.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.waiting.is_full()
    }

    /// Handles what waits, about `most` datagrams, each peer in its turn. Returns how many those were. Afterwards poll
    /// everything.
    pub fn serve(&mut self, now: Time, most: u64) -> u64 {
        let mut served = 0;
        while served < most
            && let Some((_, came, bytes, start)) = self.waiting.pop(now)
        {
            let whole = &bytes[start..];
            served += came.packets(whole.len());
            self.handle_datagram(
                now,
                came.socket,
                came.from,
                came.tos,
                whole,
                came.segment_size,
            );
            self.waiting.give_back(bytes);
        }
        let lost = self.waiting.take_lost();
        self.drops.count(DropReason::PeerShare, lost);
        served
    }

    fn handle_one(&mut self, now: Time, socket: PathId, from: SocketAddr, tos: u8, bytes: &[u8]) {
        if let Some(index) = claimed_index(bytes) {
            return self.hand_over(now, HubSlot::of_index(index), socket, from, tos, bytes);
        }
        self.note_whose(now, None);
        if *bytes == LONE_BYTE {
            self.lone_bytes += 1;
            return;
        }
        let Some(message) = bytes.strip_prefix(&HANDSHAKE_GRE) else {
            return self.drops.count(DropReason::NotSealed, 1);
        };
        if let Some(index) = claimed_answer(message) {
            return self.hand_over(now, HubSlot::of_index(index), socket, from, tos, bytes);
        }
        let sender = Sender {
            path: socket,
            address: from,
            known: false,
        };
        match self.reception.check(message) {
            Ok(tag) => self.handle_call(now, sender, message, tag),
            Err(_) if Kind::of(message).is_ok_and(Kind::is_handshake) => {
                self.drops.count(DropReason::BadHandshake, 1);
            }
            Err(_) => self.drops.count(DropReason::NotSealed, 1),
        }
    }

    /// Gives a datagram to the peer that it says it is of.
    fn hand_over(
        &mut self,
        now: Time,
        slot: HubSlot,
        socket: PathId,
        from: SocketAddr,
        tos: u8,
        bytes: &[u8],
    ) {
        self.note_whose(now, Some(slot));
        let Some(inbound) = self.peer(slot) else {
            return self.drops.count(DropReason::UnknownSession, 1);
        };
        let Some(mut buffer) = inbound.take_buffer() else {
            return self.drops.count(DropReason::Truncated, 1);
        };
        let room = buffer.as_mut();
        let truncated = room.len() < bytes.len();
        let len = room.len().min(bytes.len());
        room[..len].copy_from_slice(&bytes[..len]);
        let datagram = Datagram {
            path: socket,
            from,
            tos,
            buffer,
            len,
            segment_size: None,
            truncated,
        };
        inbound.handle_datagram(now, datagram);
        self.schedule.touch(slot);
    }

    /// Somebody calls, who knows this end's public key.
    fn handle_call(&mut self, now: Time, sender: Sender, message: &[u8], tag: InitiationTag) {
        let known = self.answered.iter().find_map(|answered| answered.get(&tag));
        if let Some(&slot) = known
            && let Some(inbound) = self.peer(slot)
            && inbound.answer_again(now, sender, tag)
        {
            return self.schedule.touch(slot);
        }
        let Some(message) = message.first_chunk::<INITIATION_BYTES>() else {
            return self.drops.count(DropReason::BadHandshake, 1);
        };
        let opened = self
            .reception
            .open(now, sender, (message, tag), &mut self.entropy);
        match opened {
            Ok(caller) => self.handle_caller(now, sender, caller, tag),
            Err(turned_away) => {
                if let Some(reply) = turned_away.cookie_reply
                    && self.replies.len() < MAX_REPLIES
                {
                    let mut bytes = [0; 4 + COOKIE_REPLY_BYTES];
                    bytes[..4].copy_from_slice(&HANDSHAKE_GRE);
                    bytes[4..].copy_from_slice(&reply);
                    self.replies.push_back((sender.path, sender.address, bytes));
                }
                let why = match turned_away.why {
                    Refused::Unproven | Refused::RateLimited => DropReason::HandshakeLimit,
                    Refused::Replayed => DropReason::Replayed,
                    Refused::Malformed
                    | Refused::BadMac
                    | Refused::NotOpened
                    | Refused::Stranger
                    | Refused::Unexpected => DropReason::BadHandshake,
                };
                self.drops.count(why, 1);
            }
        }
    }

    fn handle_caller(&mut self, now: Time, sender: Sender, caller: Caller, tag: InitiationTag) {
        let key = caller.public_key();
        let Some(&slot) = self.by_key.get(key.as_bytes()) else {
            self.stranger = Some(key);
            return self.drops.count(DropReason::BadHandshake, 1);
        };
        let Some(row) = self.peers.get_mut(slot.number()).and_then(Option::as_mut) else {
            return;
        };
        let Some(moment) = caller.moment().filter(|moment| *moment > row.known_until) else {
            return self.drops.count(DropReason::Replayed, 1);
        };
        if row.inbound.is_none() {
            self.begin(now, slot);
        }
        let Some(row) = self.peers.get_mut(slot.number()).and_then(Option::as_mut) else {
            return;
        };
        if let Some(inbound) = &mut row.inbound
            && inbound.handle_caller(now, sender, caller).is_ok()
        {
            row.known_until = moment;
            self.note_answered(now, tag, slot);
        }
        self.schedule.touch(slot);
    }

    fn note_answered(&mut self, now: Time, tag: InitiationTag, slot: HubSlot) {
        if now.since(self.answered_since) >= COPIES_KNOWN || self.answered[0].len() >= MAX_COPIES {
            self.answered_since = now;
            self.answered.swap(0, 1);
            self.answered[0].clear();
        }
        self.answered[0].insert(tag, slot);
    }

    /// Makes the halves of a peer that has called.
    fn begin(&mut self, now: Time, slot: HubSlot) {
        let Some(row) = self.peers.get_mut(slot.number()).and_then(Option::as_mut) else {
            return;
        };
        let config = &mut self.config;
        let mut session = [0; 8];
        (self.entropy)(&mut session);
        // The end with the higher session probes and renews keys, and the other waits half as long again for it. A
        // hub is the other for nearly all: when it begins anew, it is they who can find it.
        let session = (u64::from_ne_bytes(session) >> HUB_SESSION_SHIFT).max(1);
        let tunnel = TunnelConfig {
            session,
            key: None,
            ..config.tunnel.clone()
        };
        let crypto = CryptoConfig {
            private_key: config.private_key.clone(),
            peer_public_key: row.keys.public_key,
            psk: row.keys.psk.clone(),
            session,
            hardware_aes: config.hardware_aes,
            silence: config.silence,
        };
        let mut wall = (config.wall)();
        let since_1970 = wall(now);
        let mut sessions = Sessions::new(crypto, now, since_1970, (config.entropy)());
        sessions.set_wall_clock(wall);
        let (mut outbound, mut inbound) = sealed_tunnel(&tunnel, sessions);
        let sources = Sources::new(self.allowed.clone(), slot);
        inbound.serve(slot, config.called, row.known_until, sources);
        inbound.set_rate_limit(now, row.rate_limit);
        inbound.set_mss_clamped(config.clamps_mss);
        outbound.set_mss_clamped(config.clamps_mss);
        let mut called = config.called.iter().flatten();
        if let Some(any) = called.next() {
            // They have one weight all, and where they lead is told as they come into being.
            for path in (0..MAX_PATHS).filter_map(PathId::new) {
                outbound.set_path(path, any);
            }
        }
        row.inbound = Some(Box::new(inbound));
        self.news
            .push_back(HubNews::Begins(slot, Box::new(outbound)));
    }

    /// When [`HubInbound::handle_timeout`] is to be called at the latest.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        self.schedule.next()
    }

    /// Does what peers have due.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some(slot) = self.schedule.pop_due(now) {
            if let Some(inbound) = self.peer(slot) {
                inbound.handle_timeout(now);
            }
            self.schedule.touch(slot);
        }
    }

    /// A peer's line out has packets again after a pause.
    pub fn wake(&mut self, now: Time, slot: HubSlot) {
        if let Some(inbound) = self.peer(slot) {
            inbound.wake(now);
        }
        self.schedule.touch(slot);
    }

    /// The host has slept: see [`Inbound::handle_resume`].
    pub fn handle_resume(&mut self, now: Time) {
        for slot in self.present() {
            if let Some(inbound) = self.peer(slot) {
                inbound.handle_resume(now);
            }
            self.schedule.touch(slot);
        }
    }

    /// A peer of which everything is to be polled, and that is to be settled then.
    pub fn poll_touched(&mut self) -> Option<HubSlot> {
        self.schedule.pop_touched()
    }

    /// Everything of the peer has been polled; when not (`again`), it is to be polled once more.
    pub fn settle(&mut self, slot: HubSlot, again: bool) {
        let Some(row) = self.peers.get_mut(slot.number()).and_then(Option::as_mut) else {
            return;
        };
        let Some(inbound) = &mut row.inbound else {
            return;
        };
        if inbound.is_over() {
            row.former = row.summary();
            row.inbound = None;
            self.schedule.set(slot, None);
            self.news.push_back(HubNews::Ends(slot));
            return;
        }
        self.schedule.set(slot, inbound.poll_timeout());
        if again {
            self.schedule.touch(slot);
        }
    }

    /// What the line out has to know of peers that come and go; before any news of the peers themselves.
    pub fn poll_news(&mut self) -> Option<HubNews> {
        self.news.pop_front()
    }

    /// A message to somebody who is no peer yet: the socket, where to, and the datagram.
    pub fn poll_reply(&mut self) -> Option<(PathId, SocketAddr, [u8; 4 + COOKIE_REPLY_BYTES])> {
        self.replies.pop_front()
    }
}

//! The line in of a hub: whose a datagram is, and what all peers' lines in have due.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

mod calls;
mod handed;

use super::allowed::{Exchange, Holdings, Sources};
use super::waiting::{Load, Waiting};
use super::worker::{Handed, What, Worker};
use super::{HubSlot, Memory, PeerKeys, Schedule};
use crate::control::Protection;
use crate::control::drops::{DropReason, Drops};
use crate::crypto::{
    COOKIE_REPLY_BYTES, Entropy, InitiationTag, KEY_BYTES, Moment, PrivateKey, PublicKey,
    Reception, Sender, WallClock, claimed_answer, claimed_index,
};
use crate::path::{MAX_PATHS, PathConfig, PathId};
use crate::time::Time;
use crate::tunnel::{Datagram, Inbound, News, Outbound, TunnelConfig};
use crate::wire::kind::{HANDSHAKE_GRE, Kind, LONE_BYTE};

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
    /// By socket: what the paths get that come into being as peers call it.
    pub called: [Option<PathConfig>; MAX_PATHS],
    /// Which of the hub's workers this is.
    pub worker: Worker,
    /// Bytes that the packets of all peers of this line in may take that wait for those before them. When that is full, who
    /// holds most gives back: its reorder window releases the oldest, as when it is full (`gaps_overflowed`).
    pub memory: usize,
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
    /// A peer has called, the owner of this key: its half.
    Begins(HubSlot, PublicKey, Box<Outbound>),
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

impl PeerSummary {
    fn add(&mut self, other: &PeerSummary) {
        self.rx_packets += other.rx_packets;
        self.rx_bytes += other.rx_bytes;
        self.drops.add(&other.drops);
    }
}

/// See the module.
pub struct HubInbound {
    config: HubConfig,
    reception: Reception,
    entropy: Entropy,
    allowed: Holdings,
    /// By slot.
    peers: Vec<Option<Row>>,
    by_key: HashMap<[u8; KEY_BYTES], HubSlot>,
    /// Whose the initiations are that were answered: lately, and before.
    answered: [HashMap<InitiationTag, HubSlot>; 2],
    answered_since: Time,
    schedule: Schedule,
    waiting: Waiting<Came>,
    memory: Memory,
    news: VecDeque<HubNews>,
    /// For other workers, by their number.
    handed: VecDeque<(usize, Handed)>,
    replies: VecDeque<(PathId, SocketAddr, [u8; 4 + COOKIE_REPLY_BYTES])>,
    /// Who called last and is no peer.
    stranger: Option<PublicKey>,
    /// What was counted of peers that were taken away.
    gone: PeerSummary,
    drops: Drops,
}

/// How a datagram, or a train of them, came.
#[derive(Debug, Clone, Copy)]
pub struct Came {
    /// By this socket.
    pub socket: PathId,
    /// From there.
    pub from: SocketAddr,
    /// With this traffic class.
    pub tos: u8,
    /// As in [`Datagram`].
    pub segment_size: Option<u16>,
    /// As in [`Datagram`]. What it waits for its peer's turn in the hub is not in it: that tells the peer to send less.
    pub waited: Duration,
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
            allowed: Holdings::default(),
            peers: Vec::new(),
            by_key: HashMap::new(),
            answered: Default::default(),
            answered_since: now,
            schedule: Schedule::default(),
            waiting: Waiting::default(),
            memory: Memory::new(config.memory),
            news: VecDeque::new(),
            handed: VecDeque::new(),
            replies: VecDeque::new(),
            stranger: None,
            gone: PeerSummary::default(),
            drops: Drops::default(),
            config,
        }
    }

    /// Adds a peer, or gives one other keys; with other keys it has to call again. Who calls is known by the worker that
    /// opens calls, and by the peer's owner; the others forget it at once.
    pub fn set_peer(&mut self, slot: HubSlot, keys: PeerKeys) {
        let worker = self.config.worker;
        if !worker.owns(slot) && !worker.opens_calls() {
            return;
        }
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
        // In a change of several peers another one may have its key by now.
        let key = row.keys.public_key.as_bytes();
        if self.by_key.get(key) == Some(&slot) {
            self.by_key.remove(key);
        }
        self.gone.add(&row.summary());
        // What is held for those before it comes from addresses that are nobody's now.
        let held = row.inbound.as_ref().map_or(0, |inbound| inbound.held());
        self.gone.drops.count(DropReason::NotAllowed, held);
        let lost = self.waiting.forget(Some(slot));
        self.drops.count(DropReason::PeerShare, lost);
        self.schedule.set(slot, None);
        self.memory.note(slot, 0);
        if row.inbound.is_some() {
            self.news.push_back(HubNews::Ends(slot));
        }
    }

    /// Exchanges the prefixes of peers: those of one that was taken away are none.
    pub fn set_allowed(&mut self, exchange: &Exchange) {
        // Who has the rest has to know all. He gives it back first, or all would be copied.
        for slot in self.allowed.rest() {
            if let Some(inbound) = self.peer(slot) {
                inbound.set_sources(Sources::none(slot));
            }
        }
        self.allowed.exchange(exchange);
        let changed = exchange.iter().map(|(slot, _)| *slot);
        for slot in changed.chain(self.allowed.rest()) {
            let sources = self.allowed.sources(slot);
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
        self.for_each(follow);
    }

    /// Does something with the line in of each peer that is there. Afterwards poll everything.
    fn for_each(&mut self, act: impl Fn(&mut Inbound)) {
        for slot in self.present() {
            if let Some(inbound) = self.peer(slot) {
                act(inbound);
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

    /// What was counted of all together, those that were taken away included, and of what is no peer's.
    #[must_use]
    pub fn total(&self) -> PeerSummary {
        let mut total = self.gone.clone();
        total.drops.add(&self.drops);
        for row in self.peers.iter().flatten() {
            total.add(&row.summary());
        }
        total
    }

    /// This end's public key, and that of the last caller who is no peer.
    #[must_use]
    pub fn public_keys(&self) -> (PublicKey, Option<PublicKey>) {
        (self.config.private_key.public_key(), self.stranger)
    }

    /// Takes a datagram, or a train of them, which stands in `bytes`. Afterwards, at the end of the batch at the
    /// latest, poll everything.
    pub fn handle_datagram(&mut self, now: Time, came: Came, bytes: &[u8]) {
        if bytes.is_empty() {
            return self.drops.count(DropReason::NotSealed, 1);
        }
        for one in bytes.chunks(came.first(bytes.len())) {
            self.handle_one(now, came, one);
        }
    }

    /// Whether several peers send at this time: when more comes than can be handled, it is to wait by peer.
    #[must_use]
    pub fn is_shared(&self, now: Time) -> bool {
        self.waiting.is_shared(now)
    }

    /// Takes what [`HubInbound::handle_datagram`] does, and lets it wait for its peer's turn ([`HubInbound::serve`]).
    /// All that does not come from where a peer is has one turn: calls, and whoever writes a peer's number, which
    /// anybody may read. So has a peer that comes from elsewhere, until that has been handled.
    pub fn enqueue(&mut self, now: Time, came: Came, bytes: &[u8]) {
        let step = came.first(bytes.len());
        let first = &bytes[..step.min(bytes.len())];
        let mut slot = claimed_index(first).map(HubSlot::of_index);
        if let Some(inbound) = slot.and_then(|slot| self.peer(slot)) {
            if inbound.refuses(now, bytes, step) {
                return;
            }
            slot = slot.filter(|_| inbound.is_at(came.socket, came.from));
        } else {
            slot = None;
        }
        match bytes.is_empty() {
            true => self.drops.count(DropReason::NotSealed, 1),
            false => self.waiting.push(now, slot, came, bytes),
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
            self.handle_datagram(now, came, whole);
            self.waiting.give_back(bytes);
        }
        let lost = self.waiting.take_lost();
        self.drops.count(DropReason::PeerShare, lost);
        served
    }

    fn handle_one(&mut self, now: Time, came: Came, bytes: &[u8]) {
        match self.other_owner(bytes) {
            Some(owner) => self.hand_to(owner, What::Datagram(came, bytes.to_vec())),
            None => self.handle_own(now, came, bytes),
        }
    }

    fn handle_own(&mut self, now: Time, came: Came, bytes: &[u8]) {
        if let Some(index) = claimed_index(bytes) {
            return self.hand_over(now, HubSlot::of_index(index), came, bytes);
        }
        self.waiting.note_whose(now, None);
        if *bytes == LONE_BYTE {
            return;
        }
        let Some(message) = bytes.strip_prefix(&HANDSHAKE_GRE) else {
            return self.drops.count(DropReason::NotSealed, 1);
        };
        if let Some(index) = claimed_answer(message) {
            return self.hand_over(now, HubSlot::of_index(index), came, bytes);
        }
        let sender = Sender {
            path: came.socket,
            address: came.from,
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
    fn hand_over(&mut self, now: Time, slot: HubSlot, came: Came, bytes: &[u8]) {
        self.waiting.note_whose(now, Some(slot));
        let Some(inbound) = self.peer(slot) else {
            return self.drops.count(DropReason::UnknownSession, 1);
        };
        if inbound.refuses(now, bytes, bytes.len()) {
            return;
        }
        let Some(mut buffer) = inbound.take_buffer() else {
            return self.drops.count(DropReason::Truncated, 1);
        };
        let room = buffer.as_mut();
        let truncated = room.len() < bytes.len();
        let len = room.len().min(bytes.len());
        room[..len].copy_from_slice(&bytes[..len]);
        let datagram = Datagram {
            path: came.socket,
            from: came.from,
            tos: came.tos,
            buffer,
            len,
            segment_size: None,
            truncated,
            waited: came.waited,
        };
        inbound.handle_datagram(now, datagram);
        self.schedule.touch(slot);
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
        self.for_each(|inbound| inbound.handle_resume(now));
    }

    /// The carrier of the device that has a socket's address went or came. While it is away, peers' paths there are down,
    /// but for those that answer by another device.
    pub fn handle_link(&mut self, now: Time, socket: PathId, up: bool) {
        self.for_each(|inbound| inbound.handle_socket_link(now, socket, up));
    }

    /// A peer of which everything is to be polled, and that is to be settled then.
    pub fn poll_touched(&mut self) -> Option<HubSlot> {
        self.schedule.pop_touched()
    }

    /// Everything of the peer has been polled; when not (`again`), it is to be polled once more.
    pub fn settle(&mut self, now: Time, slot: HubSlot, again: bool) {
        let Some(row) = self.peers.get_mut(slot.number()).and_then(Option::as_mut) else {
            return;
        };
        let Some(inbound) = &mut row.inbound else {
            return;
        };
        if inbound.is_over() {
            let held = inbound.held();
            row.former = row.summary();
            row.former.drops.count(DropReason::PeerAway, held);
            row.inbound = None;
            self.schedule.set(slot, None);
            self.memory.note(slot, 0);
            self.news.push_back(HubNews::Ends(slot));
            return;
        }
        self.memory.note(slot, inbound.memory());
        self.schedule.set(slot, inbound.poll_timeout());
        if again {
            self.schedule.touch(slot);
        }
        if let Some(level) = self.memory.level() {
            self.share_memory(now, level);
        }
    }

    /// Bytes that all peers hold as it is counted, and those that each holds.
    #[cfg(test)]
    pub(super) fn held(&self) -> (usize, Vec<usize>) {
        let inbounds = self.peers.iter().map(|row| row.as_ref()?.inbound.as_ref());
        let held = inbounds.map(|inbound| inbound.map_or(0, |inbound| inbound.memory()));
        (self.memory.sum(), held.collect())
    }

    /// Who holds more than `level` bytes gives back what is above. That is done when it has been polled, and counts from now
    /// on.
    fn share_memory(&mut self, now: Time, level: usize) {
        let mut from = 0;
        while let Some(slot) = self.memory.above(level, from) {
            from = slot.number() + 1;
            let gives = self
                .peer(slot)
                .is_some_and(|peer| peer.give_back(now, level));
            if gives {
                self.memory.note(slot, level);
                self.schedule.touch(slot);
            }
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

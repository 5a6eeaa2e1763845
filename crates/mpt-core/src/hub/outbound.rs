//! The line out of a hub: whose a packet from the interface is, and what all peers' lines out have due.

use super::allowed::{Exchange, Holdings};
use super::waiting::{Load, Waiting};
use super::{HubNews, HubSlot, Memory, RateLimit, Schedule, Worker};
use crate::control::drops::{DropReason, Drops};
use crate::crypto::PublicKey;
use crate::send::icmp_errors::IcmpErrors;
use crate::time::Time;
use crate::tunnel::Outbound;
use crate::wire::icmp;
use crate::wire::ip::Packet;
use crate::wire::vnet::VnetHeader;

/// See the module.
#[derive(Default)]
pub struct HubOutbound {
    worker: Worker,
    allowed: Holdings,
    /// By slot.
    peers: Vec<Peer>,
    schedule: Schedule,
    waiting: Waiting<VnetHeader>,
    memory: Memory,
    icmp_errors: IcmpErrors,
    /// Packets and bytes that went to peers that were taken away.
    gone: (u64, u64),
    /// Of what was taken away with a peer, and of what is no peer's.
    drops: Drops,
}

impl Load for VnetHeader {
    fn packets(&self, len: usize) -> u64 {
        VnetHeader::packets(self, len)
    }

    /// Of a super-packet no part goes by itself.
    fn first(&self, len: usize) -> usize {
        len
    }
}

/// A peer, there or away.
#[derive(Default)]
struct Peer {
    /// Who it is: the owner of this key.
    key: Option<PublicKey>,
    /// Whose the line out is, and the line out. The lines hear of a change one after the other, so it may be another's: of
    /// one that was here before, who called just then, or of the next, of whom this line has not heard. It waits.
    outbound: Option<(PublicKey, Box<Outbound>)>,
    /// Packets and bytes that former lines out have sent.
    former: (u64, u64),
    former_drops: Drops,
    limit: Option<RateLimit>,
}

impl Peer {
    /// Its line out, while it is there.
    fn outbound(&mut self) -> Option<&mut Outbound> {
        let (whose, outbound) = self.outbound.as_mut()?;
        (self.key == Some(*whose)).then_some(outbound)
    }

    fn sent(&self) -> (u64, u64) {
        let now = self
            .outbound
            .as_ref()
            .map_or((0, 0), |(_, outbound)| outbound.sent());
        (self.former.0 + now.0, self.former.1 + now.1)
    }

    fn drops(&self) -> Drops {
        let mut drops = self.former_drops.clone();
        if let Some((_, outbound)) = &self.outbound {
            drops.add(outbound.drops());
        }
        drops
    }

    /// It is away. What waited for its paths is dropped.
    fn end(&mut self) {
        (self.former, self.former_drops) = (self.sent(), self.drops());
        if let Some((_, outbound)) = self.outbound.take() {
            let waited = outbound.waiting();
            self.former_drops.count(DropReason::PeerAway, waited);
        }
    }
}

/// Whose a packet from the interface is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// Of this peer, who has it: [`Outbound::poll_ready`] may have something.
    By(HubSlot),
    /// Of nobody who is there, or it waits for its turn.
    Kept,
    /// Of a peer of the worker of this number, who is to be given it.
    ForWorker(usize),
}

impl HubOutbound {
    /// The line out of one of a hub's workers. `memory`: bytes that the packets of all its peers may take that wait for a path
    /// or are kept to be sent again. When that is full, who holds most gives back: the oldest that is kept is forgotten, and
    /// what waits is dropped ([`DropReason::QueueFull`]).
    #[must_use]
    pub fn new(worker: Worker, memory: usize) -> HubOutbound {
        HubOutbound {
            worker,
            memory: Memory::new(memory),
            ..HubOutbound::default()
        }
    }

    /// Exchanges the prefixes of peers: those of one that was taken away are none.
    pub fn set_allowed(&mut self, exchange: &Exchange) {
        self.allowed.exchange(exchange);
    }

    /// The peer of this slot is the owner of this key from now on: nothing goes to who was before.
    pub fn set_peer(&mut self, slot: HubSlot, key: PublicKey) {
        self.row(slot).key = Some(key);
        // He may have called already.
        self.schedule.touch(slot);
    }

    /// More than so many bits a second of inner packets to a peer are dropped from now on.
    pub fn set_rate_limit(&mut self, now: Time, slot: HubSlot, bits_per_second: Option<u64>) {
        RateLimit::set(&mut self.row(slot).limit, now, bits_per_second);
    }

    fn row(&mut self, slot: HubSlot) -> &mut Peer {
        let number = slot.number();
        if self.peers.len() <= number {
            self.peers.resize_with(number + 1, Peer::default);
        }
        &mut self.peers[number]
    }

    /// Forgets a peer that was taken away: another one may get its slot. What was counted of it stays in the sum of
    /// all.
    pub fn forget_peer(&mut self, slot: HubSlot) {
        let mut peer = std::mem::take(self.row(slot));
        let is_another = |(whose, _): &mut (PublicKey, _)| peer.key != Some(*whose);
        self.row(slot).outbound = peer.outbound.take_if(is_another);
        let (packets, bytes) = peer.sent();
        self.gone = (self.gone.0 + packets, self.gone.1 + bytes);
        self.drops.add(&peer.drops());
        let waited = peer.outbound.map_or(0, |(_, outbound)| outbound.waiting());
        self.drops.count(DropReason::NoPeer, waited);
        self.schedule.set(slot, None);
        self.note_memory(slot);
        let lost = self.waiting.forget(Some(slot));
        self.drops.count(DropReason::PeerShare, lost);
    }

    /// Takes what the line in has learnt. Afterwards poll everything.
    pub fn learn(&mut self, now: Time, news: HubNews) {
        match news {
            HubNews::Begins(slot, whose, outbound) => {
                let row = self.row(slot);
                row.end();
                row.outbound = Some((whose, outbound));
                self.schedule.touch(slot);
            }
            HubNews::Ends(slot) => {
                self.row(slot).end();
                self.schedule.set(slot, None);
                self.note_memory(slot);
            }
            HubNews::Of(slot, news) => {
                if let Some((_, outbound)) = &mut self.row(slot).outbound {
                    outbound.learn(now, news);
                    self.schedule.touch(slot);
                }
            }
        }
    }

    /// The line out of a peer that is there. What is done with it is to be followed by [`HubOutbound::settle`].
    pub fn peer(&mut self, slot: HubSlot) -> Option<&mut Outbound> {
        self.peers.get_mut(slot.number())?.outbound()
    }

    /// Takes what was read from the TUN, here or by another worker: see [`Outbound::handle_tun`]. Everything is to be
    /// polled at the end of the batch.
    pub fn handle_tun(&mut self, now: Time, header: &VnetHeader, packet: &mut [u8]) -> Taken {
        let Ok(looked) = Packet::parse(packet) else {
            self.drops.count(DropReason::NotIp, 1);
            return Taken::Kept;
        };
        let Some(slot) = self.allowed.all().peer_of(looked.destination()) else {
            self.drops
                .count(DropReason::NoPeer, header.packets(packet.len()));
            return Taken::Kept;
        };
        if !self.worker.owns(slot) {
            return Taken::ForWorker(self.worker.owner(slot));
        }
        self.waiting.note_whose(now, Some(slot));
        let row = self.peers.get_mut(slot.number());
        if let Some(row) = row
            && row.outbound().is_some_and(|outbound| outbound.has_paths())
        {
            if let Some(limit) = &mut row.limit {
                limit.fill(now);
                if !limit.take(packet.len() as u64) {
                    let packets = header.packets(packet.len());
                    row.former_drops.count(DropReason::RateLimit, packets);
                    return Taken::Kept;
                }
            }
            if let Some(outbound) = row.outbound() {
                outbound.handle_tun(now, header, packet);
            }
            self.schedule.touch(slot);
            return Taken::By(slot);
        }
        self.drops
            .count(DropReason::PeerAway, header.packets(packet.len()));
        self.tell_unreachable(now, packet);
        Taken::Kept
    }

    /// Whether packets go to several peers at this time: when more come than can be handled, they are to wait by peer.
    #[must_use]
    pub fn is_shared(&self, now: Time) -> bool {
        self.waiting.is_shared(now)
    }

    /// Takes what [`HubOutbound::handle_tun`] does, and lets it wait for its peer's turn
    /// ([`HubOutbound::pop_waiting`]). What goes to nobody who is there is handled at once.
    pub fn enqueue(&mut self, now: Time, header: &VnetHeader, packet: &mut [u8]) -> Taken {
        let looked = Packet::parse(packet).ok();
        let slot = looked.and_then(|looked| self.allowed.all().peer_of(looked.destination()));
        match slot.filter(|slot| self.peer(*slot).is_some()) {
            Some(slot) => self.waiting.push(now, Some(slot), *header, packet),
            None => return self.handle_tun(now, header, packet),
        }
        Taken::Kept
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

    /// What waits and is to be handled next: give it to [`HubOutbound::handle_tun`], and the memory back to
    /// [`HubOutbound::give_back`].
    pub fn pop_waiting(&mut self, now: Time) -> Option<(VnetHeader, Vec<u8>)> {
        let popped = self.waiting.pop(now);
        let lost = self.waiting.take_lost();
        self.drops.count(DropReason::PeerShare, lost);
        popped.map(|(_, header, packet, _)| (header, packet))
    }

    /// Takes back what [`HubOutbound::pop_waiting`] gave, to be used again.
    pub fn give_back(&mut self, packet: Vec<u8>) {
        self.waiting.give_back(packet);
    }

    /// Tells the sender of a packet that nobody is where it goes.
    fn tell_unreachable(&mut self, now: Time, packet: &[u8]) {
        self.icmp_errors.push(now, |message| {
            icmp::unreachable(&Packet::parse(packet).ok()?, None, message)
        });
    }

    /// Counts what is for a peer of another worker that has no room for it.
    pub fn not_handed(&mut self, header: &VnetHeader, packet: &[u8]) {
        let packets = header.packets(packet.len());
        self.drops.count(DropReason::PeerShare, packets);
    }

    /// Counts what another worker has handed over, and is of yet another by now: its peer has come to another place
    /// meanwhile, and was away for that moment.
    pub fn handed_astray(&mut self, header: &VnetHeader, packet: &[u8]) {
        let packets = header.packets(packet.len());
        self.drops.count(DropReason::PeerAway, packets);
    }

    /// Counts a packet from the TUN whose virtio header makes no sense.
    pub fn refuse_offload(&mut self) {
        self.drops.count(DropReason::BadOffload, 1);
    }

    /// The next packet to be written back to the TUN: an ICMP "unreachable".
    pub fn poll_tun(&mut self) -> Option<Vec<u8>> {
        self.icmp_errors.pop()
    }

    /// When [`HubOutbound::handle_due`] is to be called at the latest.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        self.schedule.next()
    }

    /// Does what one peer has due. `false` when none has. Poll everything before the next: `now` is taken for the time at
    /// which it is sent.
    pub fn handle_due(&mut self, now: Time) -> bool {
        let Some(slot) = self.schedule.pop_due(now) else {
            return false;
        };
        if let Some(outbound) = self.peer(slot) {
            outbound.handle_timeout(now);
        }
        self.schedule.touch(slot);
        true
    }

    /// A peer of which everything is to be polled, and that is to be settled then.
    pub fn poll_touched(&mut self) -> Option<HubSlot> {
        self.schedule.pop_touched()
    }

    /// Everything of the peer has been polled.
    pub fn settle(&mut self, slot: HubSlot) {
        let due = self.peer(slot).and_then(Outbound::poll_timeout);
        self.schedule.set(slot, due);
        self.note_memory(slot);
        if let Some(level) = self.memory.level() {
            self.share_memory(level);
        }
    }

    fn note_memory(&mut self, slot: HubSlot) {
        let row = self.peers.get(slot.number());
        let outbound = row.and_then(|row| row.outbound.as_ref());
        let bytes = outbound.map_or(0, |(_, outbound)| outbound.memory());
        self.memory.note(slot, bytes);
    }

    /// Bytes that all peers hold as it is counted, and those that each holds.
    #[cfg(test)]
    pub(super) fn held(&self) -> (usize, Vec<usize>) {
        let outbounds = self.peers.iter().map(|row| row.outbound.as_ref());
        let held = outbounds.map(|outbound| outbound.map_or(0, |(_, outbound)| outbound.memory()));
        (self.memory.sum(), held.collect())
    }

    /// Who holds more than `level` bytes gives back what is above.
    fn share_memory(&mut self, level: usize) {
        let mut from = 0;
        while let Some(slot) = self.memory.above(level, from) {
            from = slot.number() + 1;
            if let Some((_, outbound)) = &mut self.row(slot).outbound {
                outbound.give_back(level);
            }
            self.note_memory(slot);
            // What waited may be gone.
            let due = self.peer(slot).and_then(Outbound::poll_timeout);
            self.schedule.set(slot, due);
        }
    }

    /// The peers that are there.
    #[must_use]
    pub fn present(&self) -> Vec<HubSlot> {
        let slots = (0..).map_while(HubSlot::new).zip(&self.peers);
        let present = slots.filter(|(_, row)| row.outbound.is_some());
        present.map(|(slot, _)| slot).collect()
    }

    /// Packets and inner bytes handed to a peer's paths so far, and what was dropped on the way.
    #[must_use]
    pub fn summary(&self, slot: HubSlot) -> (u64, u64, Drops) {
        let row = self.peers.get(slot.number());
        row.map_or((0, 0, Drops::default()), |row| {
            let (packets, bytes) = row.sent();
            (packets, bytes, row.drops())
        })
    }

    /// The same of all together, those that were taken away included, and of what is no peer's.
    #[must_use]
    pub fn total(&self) -> (u64, u64, Drops) {
        let mut total = (self.gone.0, self.gone.1, self.drops.clone());
        for row in &self.peers {
            let (packets, bytes) = row.sent();
            total.0 += packets;
            total.1 += bytes;
            total.2.add(&row.drops());
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_peers_that_are_due_one_is_handled_at_a_time() {
        let slots = [3, 1].map(|number| HubSlot::new(number).unwrap());
        let at = Time::from_nanos;
        let mut hub = HubOutbound::default();
        for (slot, due) in slots.into_iter().zip([7, 8]) {
            hub.schedule.set(slot, Some(at(due)));
        }
        for slot in slots {
            assert!(hub.handle_due(at(9)));
            assert_eq!(hub.poll_touched(), Some(slot));
            assert_eq!(hub.poll_touched(), None);
        }
        assert!(!hub.handle_due(at(9)));
    }
}

//! Who calls a hub, and what is made for a peer that does.

use std::time::Duration;

use super::{HubInbound, HubNews};
use crate::control::drops::DropReason;
use crate::crypto::{
    COOKIE_REPLY_BYTES, Caller, CryptoConfig, INITIATION_BYTES, InitiationTag, Refused, Sender,
    Sessions,
};
use crate::hub::HubSlot;
use crate::hub::worker::What;
use crate::path::{MAX_PATHS, PathId};
use crate::time::Time;
use crate::tunnel::{TunnelConfig, sealed_tunnel};
use crate::wire::kind::HANDSHAKE_GRE;

/// Copies of an initiation are known for this long at least: they come for five seconds.
const COPIES_KNOWN: Duration = Duration::from_secs(10);
/// Most initiations whose copies are known; more than are worked on in that time.
const MAX_COPIES: usize = 16_384;
/// A hub's sessions have 48 random bits: of 65,536 clients one may have a lower one.
const HUB_SESSION_SHIFT: u32 = 16;
/// Most cookie replies waiting to be sent.
const MAX_REPLIES: usize = 256;

impl HubInbound {
    /// Somebody calls, who knows this end's public key.
    pub(super) fn handle_call(
        &mut self,
        now: Time,
        sender: Sender,
        message: &[u8],
        tag: InitiationTag,
    ) {
        let known = self.whose(&tag);
        let worker = self.config.worker;
        if let Some(slot) = known
            && !worker.owns(slot)
        {
            return self.hand_to(worker.owner(slot), What::Again(sender, slot, tag));
        }
        if let Some(slot) = known
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

    pub(super) fn handle_caller(
        &mut self,
        now: Time,
        sender: Sender,
        caller: Caller,
        tag: InitiationTag,
    ) {
        let key = caller.public_key();
        let Some(&slot) = self.by_key.get(key.as_bytes()) else {
            self.stranger = Some(key);
            return self.drops.count(DropReason::BadHandshake, 1);
        };
        let worker = self.config.worker;
        if !worker.owns(slot) {
            self.note_answered(now, tag, slot);
            let call = What::Call(sender, Box::new(caller), tag);
            return self.hand_to(worker.owner(slot), call);
        }
        let Some(row) = self.peers.get_mut(slot.number()).and_then(Option::as_mut) else {
            return;
        };
        let Some(moment) = caller.moment().filter(|moment| *moment > row.known_until) else {
            // Counted of the peer: its clock may have been ahead, and nothing else says why it does not come back.
            return row.former.drops.count(DropReason::Replayed, 1);
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

    /// Whose an initiation is that was answered.
    pub(super) fn whose(&self, tag: &InitiationTag) -> Option<HubSlot> {
        let mut answered = self.answered.iter();
        answered.find_map(|answered| answered.get(tag)).copied()
    }

    fn note_answered(&mut self, now: Time, tag: InitiationTag, slot: HubSlot) {
        if now.since(self.answered_since) >= COPIES_KNOWN || self.answered[0].len() >= MAX_COPIES {
            self.answered_since = now;
            self.answered.swap(0, 1);
            self.answered[0].clear();
        }
        self.answered[0].insert(tag, slot);
    }

    /// A call that was handed over has not been answered: who opens calls is to look at a copy again.
    pub(super) fn not_answered(&mut self, tag: InitiationTag) {
        match self.config.worker.opens_calls() {
            true => self.forget_answered(tag),
            false => self.hand_to(0, What::NotAnswered(tag)),
        }
    }

    /// Nobody will answer that one.
    pub(super) fn forget_answered(&mut self, tag: InitiationTag) {
        for answered in &mut self.answered {
            answered.remove(&tag);
        }
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
        };
        let mut wall = (config.wall)();
        let since_1970 = wall(now);
        let mut sessions = Sessions::new(crypto, now, since_1970, (config.entropy)());
        sessions.set_wall_clock(wall);
        let (mut outbound, mut inbound) = sealed_tunnel(&tunnel, sessions);
        let sources = self.allowed.sources(slot);
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
        let whose = row.keys.public_key;
        self.news
            .push_back(HubNews::Begins(slot, whose, Box::new(outbound)));
    }
}

//! Which sessions there are at once, and the one to send in.

use super::{KeyChange, MAX_SESSIONS, Session, SessionEvent, Sessions};
use crate::crypto::handshake::Agreed;
use crate::crypto::opener::Opener;
use crate::crypto::sealer::ControlSealer;
use crate::crypto::{Cipher, DataSealer};
use crate::time::Time;

impl Sessions {
    /// Adds what a handshake brought.
    pub(super) fn add(&mut self, now: Time, agreed: Agreed) {
        let Agreed {
            keys,
            own,
            peer,
            initiated,
        } = agreed;
        self.established += 1;
        self.is_renewing = false;
        let number = self.established;
        let cipher = match own.hardware_aes && peer.hardware_aes {
            true => Cipher::Aes256Gcm,
            false => Cipher::ChaCha20Poly1305,
        };
        let rekey_after = self.rekey_after(&own, &peer);
        let data = DataSealer::new(cipher, &keys.send, peer.index, own.next_number);
        let mut session = Session {
            number,
            own,
            peer,
            initiated,
            cipher,
            created: now,
            hoped_since: now,
            rekey_at: now + rekey_after,
            opener: Opener::new(peer.session, cipher, &keys.receive, peer.next_number),
            control: ControlSealer::new(cipher, &keys.send, peer.index),
            data: Some(Box::new(data)),
            confirmed: initiated,
            replaced: None,
            last_heard: now,
            was_used: false,
        };
        let slot = self.free_slot(initiated);
        let before = self.sessions[slot].as_deref();
        if let Some(before) = before.filter(|before| !before.confirmed) {
            // Who replays the peer's former initiations makes this end wait once, and not for each.
            session.hoped_since = before.hoped_since;
        }
        self.sessions[slot] = Some(Box::new(session));
        if initiated {
            self.last_heard = now;
            self.confirm(now, number);
        }
    }

    /// Where a session goes: for one that is not confirmed, where the last such was; else where none
    /// is; else where the oldest is that is not sent in.
    fn free_slot(&self, confirmed: bool) -> usize {
        let unconfirmed = |slot: &Option<Box<Session>>| {
            let session = slot.as_ref();
            session.is_some_and(|session| !session.confirmed)
        };
        let same = self.sessions.iter().position(unconfirmed);
        if let Some(same) = same.filter(|_| !confirmed) {
            return same;
        }
        let age = |slot: &usize| {
            let session = self.sessions[*slot].as_ref();
            session.map_or(0, |session| match self.sending == Some(session.number) {
                true => u64::MAX,
                false => session.number,
            })
        };
        (0..MAX_SESSIONS).min_by_key(age).unwrap_or(0)
    }

    /// The peer has this session's keys: it is the one to send in.
    pub(super) fn confirm(&mut self, now: Time, number: u64) {
        if self.is_of_former_life(number) {
            let mut sessions = self.sessions.iter_mut().flatten();
            if let Some(session) = sessions.find(|session| session.number == number) {
                session.confirmed = true;
                session.data = None;
                session.replaced = Some(now);
            }
            return;
        }
        self.attempts = 0;
        let session_of = |session: Option<&Session>| session.map(|session| session.peer.session);
        let peers = [self.sending(), self.session(number)].map(session_of);
        if peers[0].is_some() && peers[0] != peers[1] {
            self.changed = Some(now);
        }
        let before = self.sending.replace(number);
        let mut established = None;
        for session in self.sessions.iter_mut().flatten() {
            if Some(session.number) == before {
                session.replaced = Some(now);
            } else if session.number == number {
                session.confirmed = true;
                self.key_change = session.data.take().map(KeyChange::Use);
                established = Some(SessionEvent::Established {
                    session: number,
                    cipher: session.cipher,
                    initiated: session.initiated,
                    peer_session: session.peer.session,
                    peer_next_number: session.peer.next_number,
                });
            }
        }
        if let Some(established) = established {
            self.event(established);
        }
        // Another one would be one too many.
        self.handshake.abandon();
    }

    /// Whether the peer began anew after it agreed to this session.
    pub(super) fn is_of_former_life(&self, number: u64) -> bool {
        let (sending, session) = (self.sending(), self.session(number));
        sending.zip(session).is_some_and(|(sending, session)| {
            number < sending.number && session.peer.session != sending.peer.session
        })
    }

    pub(super) fn sending(&self) -> Option<&Session> {
        self.session(self.sending?)
    }

    pub(super) fn session(&self, number: u64) -> Option<&Session> {
        let mut sessions = self.sessions.iter().flatten();
        let found = sessions.find(|session| session.number == number);
        found.map(Box::as_ref)
    }

    /// The indices in use.
    pub(super) fn indices(&self) -> [Option<u32>; MAX_SESSIONS + 1] {
        let mut taken = [None; MAX_SESSIONS + 1];
        for (index, slot) in taken.iter_mut().zip(&self.sessions) {
            *index = slot.as_ref().map(|session| session.own.index);
        }
        taken[MAX_SESSIONS] = self.handshake.pending_index();
        taken
    }
}

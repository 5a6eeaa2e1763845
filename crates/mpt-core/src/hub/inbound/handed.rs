//! What comes to one worker of a hub and is another's.

use super::HubInbound;
use crate::control::drops::DropReason;
use crate::crypto::{claimed_answer, claimed_index};
use crate::hub::HubSlot;
use crate::hub::worker::{Handed, MAX_HANDED, What};
use crate::time::Time;
use crate::wire::kind::HANDSHAKE_GRE;

impl HubInbound {
    /// The other worker that a datagram is for, if it is for another.
    pub(super) fn other_owner(&self, bytes: &[u8]) -> Option<usize> {
        let worker = self.config.worker;
        if worker.is_alone() {
            return None;
        }
        let message = || bytes.strip_prefix(&HANDSHAKE_GRE);
        let index = claimed_index(bytes).or_else(|| claimed_answer(message()?));
        let owner = match index {
            Some(index) => worker.owner(HubSlot::of_index(index)),
            None if message().is_some() => 0,
            // It will be dropped wherever it is.
            None => return None,
        };
        (owner != worker.number()).then_some(owner)
    }

    pub(super) fn hand_to(&mut self, owner: usize, what: What) {
        match self.handed.len() < MAX_HANDED {
            true => self.handed.push_back((owner, Handed(what))),
            false => self.not_handed(Handed(what)),
        }
    }

    /// What is for another worker, by its number: give it to [`HubInbound::handle_handed`] there.
    pub fn poll_handed(&mut self) -> Option<(usize, Handed)> {
        self.handed.pop_front()
    }

    /// The other worker has no room for that: it is dropped.
    pub fn not_handed(&mut self, Handed(what): Handed) {
        let why = match what {
            What::Datagram(..) => DropReason::PeerShare,
            What::Call(_, _, tag) => {
                // A copy of it may have more luck.
                self.forget_answered(tag);
                DropReason::HandshakeLimit
            }
            What::Again(..) => DropReason::HandshakeLimit,
            // A copy of it is handed over as before.
            What::NotAnswered(_) => return,
        };
        self.drops.count(why, 1);
    }

    /// Counts calls for which the kernel had no room.
    pub fn calls_not_read(&mut self, calls: u64) {
        self.drops.count(DropReason::HandshakeLimit, calls);
    }

    /// Takes what another worker has handed over. Afterwards poll everything. Whose it is is looked up again: the peer
    /// may be gone, or another in its place.
    pub fn handle_handed(&mut self, now: Time, Handed(what): Handed) {
        match what {
            What::Datagram(came, bytes) => self.handle_own(now, came, &bytes),
            What::Call(sender, caller, tag) => {
                self.handle_caller(now, sender, *caller, tag);
                if self.whose(&tag).is_none() {
                    self.not_answered(tag);
                }
            }
            What::NotAnswered(tag) => self.forget_answered(tag),
            What::Again(sender, slot, tag) => {
                let inbound = self.peer(slot);
                match inbound.is_some_and(|inbound| inbound.answer_again(now, sender, tag)) {
                    true => self.schedule.touch(slot),
                    false => {
                        self.drops.count(DropReason::Replayed, 1);
                        self.not_answered(tag);
                    }
                }
            }
        }
    }
}

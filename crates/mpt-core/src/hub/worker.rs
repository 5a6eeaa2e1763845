//! Which of a hub's workers owns a peer, and what one worker hands to another.
//!
//! A worker is a line in and a line out with peers of their own: all that is of a peer happens there. The kernel brings
//! nearly everything to the right one. What it brings to another, and calls, which one worker opens for all, is handed
//! over. It says by itself whose it is: a packet by its inner destination, a datagram by its index, a caller by the
//! static key that he has shown to have. The owner looks again and believes nobody; so what was under way to a peer
//! that is gone by then meets what any such packet meets, and nobody has to wait for it.

use super::HubSlot;
use super::inbound::Came;
use crate::crypto::{Caller, InitiationTag, Sender};

/// Most that waits in a line's hands for other workers to take, in messages: more than the datagrams of a batch.
pub(super) const MAX_HANDED: usize = 2048;

/// One of a hub's workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Worker {
    number: usize,
    of: usize,
}

impl Default for Worker {
    fn default() -> Worker {
        Worker::ALONE
    }
}

impl Worker {
    /// The only one.
    pub const ALONE: Worker = Worker { number: 0, of: 1 };

    /// Worker `number` of so many; `None` when there is no such one.
    #[must_use]
    pub const fn new(number: usize, of: usize) -> Option<Worker> {
        if number < of {
            Some(Worker { number, of })
        } else {
            None
        }
    }

    /// Its number, from 0.
    #[must_use]
    pub const fn number(self) -> usize {
        self.number
    }

    /// Whether it has no others beside it.
    #[must_use]
    pub const fn is_alone(self) -> bool {
        self.of == 1
    }

    /// Whether it is the one that opens calls.
    #[must_use]
    pub const fn opens_calls(self) -> bool {
        self.number == 0
    }

    /// The number of the worker that owns a peer.
    #[must_use]
    #[inline]
    pub const fn owner(self, slot: HubSlot) -> usize {
        slot.number() % self.of
    }

    /// Whether it owns a peer.
    #[must_use]
    #[inline]
    pub const fn owns(self, slot: HubSlot) -> bool {
        self.is_alone() || self.owner(slot) == self.number
    }
}

/// What a line in hands to that of another worker.
pub struct Handed(pub(super) What);

pub(super) enum What {
    /// It came to the wrong one.
    Datagram(Came, Vec<u8>),
    /// A peer calls.
    Call(Sender, Box<Caller>, InitiationTag),
    /// A call that was handed over before has come again.
    Again(Sender, HubSlot, InitiationTag),
    /// To the one that opens calls: its owner has not answered it.
    NotAnswered(InitiationTag),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_peer_has_one_owner() {
        for of in 1..9 {
            for number in [0, 1, 2, 7, 8, 100, HubSlot::COUNT - 1] {
                let slot = HubSlot::new(number).unwrap();
                let owners = (0..of).filter_map(|number| Worker::new(number, of));
                let owners: Vec<_> = owners.filter(|worker| worker.owns(slot)).collect();
                assert_eq!(owners.len(), 1);
                assert_eq!(owners[0].number(), owners[0].owner(slot));
            }
        }
        assert_eq!(Worker::new(2, 2), None);
    }
}

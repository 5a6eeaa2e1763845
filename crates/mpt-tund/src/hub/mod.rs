//! A hub's two lines: as a tunnel's, but for many peers.
//!
//! A line is one thread. A hub has a pair of lines for each worker, with peers of its own; [`handover`] is what workers
//! give to each other. Peers share the interface, the sockets, and the tables of [`mpt_core::hub`], which say whose a
//! packet is. Each peer's halves are those of any sealed tunnel.

pub(crate) mod downlink;
pub(crate) mod handover;
pub(crate) mod memory;
pub(crate) mod peers;
pub(crate) mod queues;
pub(crate) mod uplink;

use std::sync::{Arc, Mutex, PoisonError};

use mpt_core::control::{PeerReport, PeerStatus};
use mpt_core::hub::{HubSlot, PeerKeys, Prefix};
use mpt_core::path::PathId;
use tokio::sync::Notify;

/// Peers that come, go and change, and nothing of any other.
pub(crate) struct PeerChanges {
    pub(crate) removed: Vec<HubSlot>,
    pub(crate) set: Vec<SetPeer>,
    /// What each of these has of addresses from now on; one that goes has none.
    pub(crate) allowed: Vec<(HubSlot, Arc<[Prefix]>)>,
}

/// A peer that comes or changes.
pub(crate) struct SetPeer {
    pub(crate) slot: HubSlot,
    pub(crate) name: String,
    pub(crate) keys: PeerKeys,
    /// In bits a second.
    pub(crate) rate_limit: Option<u64>,
}

/// Which peers' lines in have to know that packets come again: from the line out to the line in.
#[derive(Default)]
pub(crate) struct Wakes {
    slots: Mutex<Vec<HubSlot>>,
    notify: Notify,
}

impl Wakes {
    fn wake(&self, slot: HubSlot) {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.push(slot);
        self.notify.notify_one();
    }

    async fn woken(&self) -> Vec<HubSlot> {
        self.notify.notified().await;
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut slots)
    }
}

/// A peer that is asked about; each line fills in what it knows.
pub(crate) struct Listed {
    pub(crate) slot: HubSlot,
    pub(crate) peer: PeerStatus,
    /// Whose the paths are that stand in the status.
    pub(crate) ids: Vec<PathId>,
}

/// The same of one, with all that is known.
pub(crate) struct Shown {
    pub(crate) slot: HubSlot,
    pub(crate) report: Box<PeerReport>,
}

//! A hub's peers as the control thread sees them: which slot each has.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use mpt_core::control::PeerStatus;
use mpt_core::hub::{AllowedIps, HubSlot, PeerKeys};

use super::{Listed, PeerChanges};
use crate::config::Peer;

/// The peers and their slots.
#[derive(Default)]
pub(crate) struct Peers {
    slots: HashMap<String, HubSlot>,
    free: BTreeSet<usize>,
    next: usize,
}

impl Peers {
    /// The slot of a peer.
    pub(crate) fn slot(&self, name: &str) -> Option<HubSlot> {
        self.slots.get(name).copied()
    }

    /// Makes the peers those of `wanted`, whose addresses do not overlap; what the two lines are to do for that.
    pub(crate) fn follow(&mut self, wanted: &[Peer]) -> PeerChanges {
        let names: BTreeSet<&str> = wanted.iter().map(|peer| peer.name.as_str()).collect();
        let gone = |name: &&String| !names.contains(name.as_str());
        let gone: Vec<String> = self.slots.keys().filter(gone).cloned().collect();
        let removed: Vec<HubSlot> = gone
            .iter()
            .filter_map(|name| self.slots.remove(name))
            .collect();
        let mut changes = PeerChanges {
            removed,
            set: Vec::new(),
            allowed: Arc::default(),
        };
        let mut allowed = AllowedIps::default();
        for peer in wanted {
            let Some(slot) = self.slot(&peer.name).or_else(|| self.take_slot()) else {
                continue;
            };
            self.slots.insert(peer.name.clone(), slot);
            let keys = PeerKeys {
                public_key: peer.public_key,
                psk: peer.psk.clone(),
            };
            changes
                .set
                .push((slot, peer.name.clone(), keys, peer.rate_limit));
            for prefix in &peer.allowed_ips {
                // The configuration has been checked for overlaps.
                let _ = allowed.insert(*prefix, slot);
            }
        }
        // Only now: what is under way to a slot is not to meet another peer there at once.
        self.free
            .extend(changes.removed.iter().map(|slot| slot.number()));
        changes.allowed = Arc::new(allowed);
        changes
    }

    fn take_slot(&mut self) -> Option<HubSlot> {
        let number = self.free.pop_first().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        });
        HubSlot::new(number)
    }

    /// What the configuration says of a peer.
    fn listed(&self, peer: &Peer) -> Option<Listed> {
        let prefix = |(address, len): &(std::net::IpAddr, u8)| format!("{address}/{len}");
        let peer_status = PeerStatus {
            name: peer.name.clone(),
            public_key: peer.public_key.to_string(),
            allowed_ips: peer.allowed_ips.iter().map(prefix).collect(),
            rate_limit_bps: peer.rate_limit,
            ..PeerStatus::default()
        };
        Some(Listed {
            slot: self.slot(&peer.name)?,
            peer: peer_status,
            ids: Vec::new(),
        })
    }

    /// The same of all, in their order.
    pub(crate) fn list(&self, peers: &[Peer]) -> Vec<Listed> {
        peers.iter().filter_map(|peer| self.listed(peer)).collect()
    }
}

#[cfg(test)]
mod tests {
    use mpt_core::crypto::{PresharedKey, PrivateKey};

    use super::*;
    use crate::config::Origin;

    fn peer(name: &str, number: u8) -> Peer {
        Peer {
            name: name.to_owned(),
            public_key: PrivateKey::from_random([number; 32]).public_key(),
            psk: PresharedKey::none(),
            allowed_ips: vec![([10, 99, 0, number].into(), 32)],
            rate_limit: None,
            origin: Origin::Request,
        }
    }

    #[test]
    fn a_peer_keeps_its_slot_and_one_that_is_gone_leaves_it() {
        let mut peers = Peers::default();
        let [a, b, c] = [peer("a", 1), peer("b", 2), peer("c", 3)];
        peers.follow(&[a.clone(), b.clone()]);
        let [of_a, of_b] = ["a", "b"].map(|name| peers.slot(name).unwrap());
        let changes = peers.follow(&[c.clone(), b.clone()]);
        assert_eq!(changes.removed, [of_a]);
        assert_eq!(peers.slot("b"), Some(of_b));
        let of_c = peers.slot("c").unwrap();
        assert_ne!(of_c, of_a, "not at once");
        assert_eq!(changes.allowed.peer_of([10, 99, 0, 3].into()), Some(of_c));
        assert_eq!(changes.allowed.peer_of([10, 99, 0, 1].into()), None);
        peers.follow(&[a, b, c]);
        assert_eq!(peers.slot("a"), Some(of_a));
    }
}

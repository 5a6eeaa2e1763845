//! A hub's peers as the control thread sees them: which slot each has.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use mpt_core::control::{PeerStatus, Protection};
use mpt_core::hub::{HubSlot, PeerKeys};

use super::{Listed, PeerChanges, SetPeer};
use crate::config::{Peer, PeerChange};

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

    /// Follows a change of the peers; what the two lines are to do for that.
    pub(crate) fn follow(&mut self, change: &PeerChange) -> PeerChanges {
        let come = change.come.iter().map(|peer| peer.name.as_str());
        let come: HashSet<&str> = come.collect();
        let gone = change.gone.iter();
        let gone = gone.filter(|peer| !come.contains(peer.name.as_str()));
        let removed: Vec<HubSlot> = gone
            .filter_map(|peer| self.slots.remove(&peer.name))
            .collect();
        // Who comes gets none of these while there are others: what is under way to a slot is not to meet another peer
        // there at once.
        let mut left = removed.clone().into_iter();
        let mut changes = PeerChanges {
            set: Vec::with_capacity(change.come.len()),
            allowed: removed.iter().map(|&slot| (slot, Arc::default())).collect(),
            removed,
        };
        for peer in &change.come {
            let known = self.slot(&peer.name).or_else(|| self.take_slot());
            let Some(slot) = known.or_else(|| left.next()) else {
                let most = HubSlot::COUNT;
                tracing::error!(
                    "peer {}: not served: a hub has at most {most} peers",
                    peer.name
                );
                continue;
            };
            self.slots.insert(peer.name.clone(), slot);
            changes.set.push(SetPeer {
                slot,
                name: peer.name.clone(),
                keys: PeerKeys {
                    public_key: peer.public_key,
                    psk: peer.psk.clone(),
                },
                rate_limit: peer.rate_limit,
            });
            changes.allowed.push((slot, peer.allowed_ips.clone()));
        }
        self.free.extend(left.map(|slot| slot.number()));
        changes
    }

    fn take_slot(&mut self) -> Option<HubSlot> {
        if let Some(number) = self.free.pop_first() {
            return HubSlot::new(number);
        }
        let slot = HubSlot::new(self.next)?;
        self.next += 1;
        Some(slot)
    }

    /// What the configuration says of a peer.
    fn listed(&self, peer: &Peer) -> Option<Listed> {
        let prefix = |(address, len): &(std::net::IpAddr, u8)| format!("{address}/{len}");
        let peer_status = PeerStatus {
            name: peer.name.clone(),
            public_key: peer.public_key.to_string(),
            allowed_ips: peer.allowed_ips.iter().map(prefix).collect(),
            rate_limit_bps: peer.rate_limit,
            // Nothing goes to it, or comes of it, but sealed: while nothing is agreed, nothing.
            protection: Protection::Waiting,
            ..PeerStatus::default()
        };
        Some(Listed {
            slot: self.slot(&peer.name)?,
            peer: peer_status,
            ids: Vec::new(),
        })
    }

    /// The same of all, in their order.
    pub(crate) fn list<'a>(&self, peers: impl IntoIterator<Item = &'a Arc<Peer>>) -> Vec<Listed> {
        let peers = peers.into_iter();
        peers.filter_map(|peer| self.listed(peer)).collect()
    }
}

#[cfg(test)]
mod tests {
    use mpt_core::crypto::{PresharedKey, PrivateKey};

    use super::*;
    use crate::config::Origin;

    fn peer(name: &str, number: u8) -> Arc<Peer> {
        Arc::new(Peer {
            name: name.to_owned(),
            public_key: PrivateKey::from_random([number; 32]).public_key(),
            psk: PresharedKey::none(),
            allowed_ips: [([10, 99, 0, number].into(), 32)].into(),
            rate_limit: None,
            origin: Origin::Request,
        })
    }

    fn follow(peers: &mut Peers, gone: &[&Arc<Peer>], come: &[&Arc<Peer>]) -> PeerChanges {
        let of = |these: &[&Arc<Peer>]| these.iter().map(|&peer| peer.clone()).collect();
        peers.follow(&PeerChange {
            gone: of(gone),
            come: of(come),
        })
    }

    #[test]
    fn a_peer_keeps_its_slot_and_one_that_is_gone_leaves_it() {
        let mut peers = Peers::default();
        let [a, b, c] = [peer("a", 1), peer("b", 2), peer("c", 3)];
        follow(&mut peers, &[], &[&a, &b]);
        let [of_a, of_b] = ["a", "b"].map(|name| peers.slot(name).unwrap());
        let changes = follow(&mut peers, &[&a], &[&c]);
        assert_eq!(changes.removed, [of_a]);
        assert_eq!(peers.slot("b"), Some(of_b));
        let of_c = peers.slot("c").unwrap();
        assert_ne!(of_c, of_a, "not at once");
        // Of b, which stays, nothing is said.
        let set: Vec<_> = changes.set.iter().map(|set| set.slot).collect();
        assert_eq!(set, [of_c]);
        let allowed = [(of_a, Arc::default()), (of_c, c.allowed_ips.clone())];
        assert_eq!(changes.allowed, allowed);
        let changed = peer("b", 4);
        let changes = follow(&mut peers, &[&b], &[&changed, &a]);
        assert!(changes.removed.is_empty());
        assert_eq!(peers.slot("b"), Some(of_b));
        assert_eq!(peers.slot("a"), Some(of_a));
    }

    #[test]
    fn all_peers_of_a_hub_that_is_more_than_half_full_may_get_other_names() {
        const COUNT: usize = HubSlot::COUNT / 2 + 1;
        let named = |prefix: &str| -> Vec<Arc<Peer>> {
            let one = |number| {
                let mut one = Peer::clone(&peer("", 1));
                one.name = format!("{prefix}{number}");
                Arc::new(one)
            };
            (0..COUNT).map(one).collect()
        };
        let (one, other) = (named("a"), named("b"));
        let mut peers = Peers::default();
        peers.follow(&PeerChange {
            gone: Vec::new(),
            come: one.clone(),
        });
        let changes = peers.follow(&PeerChange {
            gone: one,
            come: other.clone(),
        });
        let slots: HashSet<_> = changes.set.iter().map(|set| set.slot).collect();
        assert_eq!(slots.len(), COUNT);
        assert!(other.iter().all(|peer| peers.slot(&peer.name).is_some()));
        // Who goes leaves room for others.
        let changes = peers.follow(&PeerChange {
            gone: other,
            come: Vec::new(),
        });
        assert_eq!(changes.removed.len(), COUNT);
        assert_eq!(peers.free.len(), HubSlot::COUNT, "all are free");
    }

    #[test]
    fn of_a_peer_with_which_nothing_is_agreed_it_is_not_said_that_nothing_protects_it() {
        let mut peers = Peers::default();
        let a = peer("a", 1);
        follow(&mut peers, &[], &[&a]);
        let list = peers.list([&a]);
        assert_eq!(list[0].peer.protection, Protection::Waiting);
    }
}

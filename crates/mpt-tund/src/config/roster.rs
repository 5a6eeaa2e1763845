//! The peers of a hub together: no two have a name, a key or an address in common.
//!
//! One who comes or goes costs what is his, however many there are: nothing here is made anew for a change.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use mpt_core::crypto::KEY_BYTES;
use mpt_core::hub::{AllowedIps, HubSlot, Overlap};

use super::peers::{Origin, Peer};

/// Most names in a line.
const MOST_NAMED: usize = 5;

/// All peers, in the order of the tunnel's file, then of the names of their own files, then as they were asked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Roster {
    list: Vec<Arc<Peer>>,
    taken: Taken,
}

/// Two are the same when the same peers stand in them, in the same order.
impl PartialEq for Roster {
    fn eq(&self, other: &Roster) -> bool {
        self.list == other.list
    }
}

impl Eq for Roster {}

/// Peers that go and peers that come; who does both has changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct PeerChange {
    pub(crate) gone: Vec<Arc<Peer>>,
    pub(crate) come: Vec<Arc<Peer>>,
}

/// Why two peers do not go together; with the other one.
#[derive(Debug)]
pub(crate) enum Clash {
    Name {
        with: Arc<Peer>,
    },
    Key {
        with: Arc<Peer>,
    },
    Overlap {
        prefix: (IpAddr, u8),
        taken: (IpAddr, u8),
        with: Arc<Peer>,
    },
}

impl Roster {
    /// The peers, in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Peer>> {
        self.list.iter()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// The peer of that name.
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<Peer>> {
        self.taken.get(name)
    }

    /// Adds a peer at the end, if it goes with the others.
    pub(crate) fn add(&mut self, peer: &Arc<Peer>) -> Result<(), Clash> {
        self.taken.add(peer)?;
        self.list.push(peer.clone());
        Ok(())
    }

    /// Puts a peer in another's place, if it goes with the rest; without a new one the old one goes, without an
    /// old one the new one comes. What has changed.
    pub(crate) fn exchange(
        &mut self,
        old: Option<&Arc<Peer>>,
        new: Option<Arc<Peer>>,
    ) -> Result<PeerChange, Clash> {
        let change = PeerChange {
            gone: old.cloned().into_iter().collect(),
            come: new.into_iter().collect(),
        };
        for peer in &change.gone {
            self.taken.remove(peer);
        }
        for peer in &change.come {
            if let Err(clash) = self.taken.add(peer) {
                for peer in &change.gone {
                    // It was there a moment ago.
                    let _ = self.taken.add(peer);
                }
                return Err(clash);
            }
        }
        self.follow(&change);
        Ok(change)
    }

    /// What peers have. A change of that is to be followed by [`Roster::follow`].
    pub(super) fn taken(&mut self) -> &mut Taken {
        &mut self.taken
    }

    /// Makes the list what has become of it.
    pub(super) fn follow(&mut self, change: &PeerChange) {
        let gone = names(&change.gone);
        let come = change.come.iter().map(|peer| (peer.name.as_str(), peer));
        let mut come: HashMap<&str, &Arc<Peer>> = come.collect();
        self.list.retain_mut(|peer| {
            if !gone.contains(peer.name.as_str()) {
                return true;
            }
            match come.get(peer.name.as_str()).copied() {
                // Who has changed and stands where he stood keeps his place.
                Some(new) if new.origin == peer.origin => {
                    come.remove(new.name.as_str());
                    *peer = new.clone();
                    true
                }
                Some(_) | None => false,
            }
        });
        let new = change.come.iter();
        let new = new.filter(|peer| come.contains_key(peer.name.as_str()));
        self.list.extend(new.cloned());
        if !come.is_empty() {
            self.list
                .sort_by(|one, other| place(one).cmp(&place(other)));
        }
    }

    /// The peers that these files of their own stand for.
    pub(super) fn of_files(&self, is_one: impl Fn(&Path) -> bool) -> Vec<Arc<Peer>> {
        let of = |peer: &&Arc<Peer>| peer.own_file().is_some_and(&is_one);
        self.list.iter().filter(of).cloned().collect()
    }

    /// Those without a file of their own.
    pub(super) fn without_files(&self) -> Roster {
        let mut roster = Roster::default();
        for peer in self.iter().filter(|peer| peer.own_file().is_none()) {
            // They go together here, too.
            let _ = roster.add(peer);
        }
        roster
    }
}

/// Where a peer stands among the others.
fn place(peer: &Peer) -> (u8, &OsStr) {
    match &peer.origin {
        Origin::Tunnel(_) => (0, OsStr::new("")),
        Origin::Own(file) => (1, file.as_os_str()),
        Origin::Request => (2, OsStr::new("")),
    }
}

impl PeerChange {
    /// All of these come.
    pub(crate) fn all_of(roster: &Roster) -> PeerChange {
        PeerChange {
            gone: Vec::new(),
            come: roster.list.clone(),
        }
    }

    /// What makes one roster of another, but for the order.
    pub(crate) fn between(old: &Roster, new: &Roster) -> PeerChange {
        let missing = |these: &Roster, those: &Roster| -> Vec<Arc<Peer>> {
            let is_missing = |peer: &&Arc<Peer>| those.get(&peer.name) != Some(peer);
            these.iter().filter(is_missing).cloned().collect()
        };
        PeerChange {
            gone: missing(old, new),
            come: missing(new, old),
        }
    }

    /// Whether nothing changes.
    pub(crate) fn is_empty(&self) -> bool {
        self.gone.is_empty() && self.come.is_empty()
    }

    /// The names of those who come and were not there, of those who go for good, and of those who change.
    pub(crate) fn names(&self) -> [Vec<&str>; 3] {
        let (gone, come) = (names(&self.gone), names(&self.come));
        [
            names_of(&self.come, |name| !gone.contains(name)),
            names_of(&self.gone, |name| !come.contains(name)),
            names_of(&self.come, |name| gone.contains(name)),
        ]
    }
}

/// Who comes, goes and changes, a few of each by name.
impl fmt::Display for PeerChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = std::iter::zip(self.names(), ["may call", "taken away", "changed"]);
        let parts = parts.filter(|(names, _)| !names.is_empty());
        let parts = parts.map(|(mut names, what)| {
            names.sort_unstable();
            match names.len() {
                0..=MOST_NAMED => format!("{} {what}", names.join(", ")),
                count => format!(
                    "{} and {} more {what}",
                    names[..MOST_NAMED].join(", "),
                    count - MOST_NAMED
                ),
            }
        });
        f.write_str(&parts.collect::<Vec<_>>().join("; "))
    }
}

fn names_of(peers: &[Arc<Peer>], is_one: impl Fn(&str) -> bool) -> Vec<&str> {
    let names = peers.iter().map(|peer| peer.name.as_str());
    names.filter(|name| is_one(name)).collect()
}

fn names(peers: &[Arc<Peer>]) -> HashSet<&str> {
    peers.iter().map(|peer| peer.name.as_str()).collect()
}

/// What peers have that no other may have.
#[derive(Debug, Clone, Default)]
pub(super) struct Taken {
    /// By number.
    peers: Vec<Option<Arc<Peer>>>,
    /// Numbers that are nobody's any more.
    free: Vec<usize>,
    names: HashMap<String, usize>,
    keys: HashMap<[u8; KEY_BYTES], usize>,
    allowed: AllowedIps,
}

impl Taken {
    fn get(&self, name: &str) -> Option<&Arc<Peer>> {
        self.at(*self.names.get(name)?)
    }

    fn at(&self, number: usize) -> Option<&Arc<Peer>> {
        self.peers.get(number)?.as_ref()
    }

    /// Takes what a peer has; or nothing.
    pub(super) fn add(&mut self, peer: &Arc<Peer>) -> Result<(), Clash> {
        if let Some(with) = self.get(&peer.name).cloned() {
            return Err(Clash::Name { with });
        }
        let key = *peer.public_key.as_bytes();
        if let Some(with) = self.keys.get(&key).and_then(|number| self.at(*number)) {
            return Err(Clash::Key { with: with.clone() });
        }
        let number = self.free.last().copied().unwrap_or(self.peers.len());
        if let Some(slot) = HubSlot::new(number) {
            self.take_prefixes(peer, slot)?;
        }
        if self.free.pop().is_none() {
            self.peers.push(None);
        }
        self.peers[number] = Some(peer.clone());
        self.names.insert(peer.name.clone(), number);
        self.keys.insert(key, number);
        Ok(())
    }

    /// Frees what a peer has, if it is the one that has it.
    pub(super) fn remove(&mut self, peer: &Arc<Peer>) {
        if self.get(&peer.name) != Some(peer) {
            return;
        }
        if let Some(number) = self.names.remove(&peer.name) {
            self.peers[number] = None;
            self.free.push(number);
        }
        self.keys.remove(peer.public_key.as_bytes());
        for prefix in peer.allowed_ips.iter() {
            self.allowed.remove(*prefix);
        }
    }

    fn take_prefixes(&mut self, peer: &Arc<Peer>, slot: HubSlot) -> Result<(), Clash> {
        for (at, &prefix) in peer.allowed_ips.iter().enumerate() {
            if let Err(overlap) = self.allowed.insert(prefix, slot) {
                for &taken in &peer.allowed_ips[..at] {
                    self.allowed.remove(taken);
                }
                let Overlap {
                    with,
                    prefix: taken,
                } = overlap;
                let with = self.at(with.number()).unwrap_or(peer).clone();
                return Err(Clash::Overlap {
                    prefix,
                    taken,
                    with,
                });
            }
        }
        Ok(())
    }
}

impl Clash {
    /// The key of the file that is wrong.
    pub(super) fn key(&self) -> &'static str {
        match self {
            Clash::Name { .. } => "name",
            Clash::Key { .. } => "public_key",
            Clash::Overlap { .. } => "allowed_ips",
        }
    }

    /// What is wrong about the peer, and what to do.
    pub(crate) fn told(&self, peer: &Peer) -> (String, &'static str) {
        let name_of = |other: &Peer| format!("\"{}\"{}", other.name, stands(other, peer, " of "));
        let one = &peer.name;
        match self {
            Clash::Name { with } => (
                format!(
                    "two peers are called \"{one}\"{}",
                    stands(with, peer, ", one in ")
                ),
                "give each peer a name of its own",
            ),
            Clash::Key { with } => (
                format!("peers {} and \"{one}\" have one public key", name_of(with)),
                "make each peer a key of its own, by `mpt-ctl genkey`, and give its public key here",
            ),
            Clash::Overlap {
                prefix,
                taken,
                with,
            } => (
                format!(
                    "{}/{} of peer \"{one}\" overlaps {}/{} of peer {}",
                    prefix.0,
                    prefix.1,
                    taken.0,
                    taken.1,
                    name_of(with)
                ),
                "give each address to one peer; \"0.0.0.0/0\" or \"::/0\" of one peer stands for all that no \
                 other has",
            ),
        }
    }
}

/// Where the other peer stands, if that is not where this one does.
fn stands(other: &Peer, peer: &Peer, before: &str) -> String {
    match &other.origin {
        origin if *origin == peer.origin => String::new(),
        Origin::Tunnel(file) | Origin::Own(file) => format!("{before}{}", file.display()),
        Origin::Request => ", which was added while the hub ran".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use mpt_core::crypto::{PresharedKey, PrivateKey};
    use proptest::prelude::*;

    use super::*;

    /// A peer by its name, the number of its key and of its address.
    fn peer(name: u8, key: u8, address: u8, origin: Origin) -> Arc<Peer> {
        Arc::new(Peer {
            name: format!("p{name}"),
            public_key: PrivateKey::from_random([key + 1; 32]).public_key(),
            psk: PresharedKey::none(),
            allowed_ips: [
                ([10, 99, 0, address].into(), 32),
                ([10, 98, address, 0].into(), 24),
            ]
            .into(),
            rate_limit: None,
            origin,
        })
    }

    fn told(roster: &Roster) -> Vec<&str> {
        roster.iter().map(|peer| peer.name.as_str()).collect()
    }

    proptest! {
        /// Whatever came and went, a roster takes what one that was made anew of the same peers takes.
        #[test]
        fn what_has_gone_leaves_nothing_behind(
            steps in prop::collection::vec((0..6_u8, 0..5_u8, 0..5_u8, 0..3_u8), 1..40)
        ) {
            let mut roster = Roster::default();
            for (name, key, address, what) in steps {
                let new = peer(name, key, address, Origin::Request);
                let old = roster.get(&new.name).cloned();
                let mut anew = Roster::default();
                for peer in roster.iter().filter(|peer| what == 0 || Some(*peer) != old.as_ref()) {
                    prop_assert!(anew.add(peer).is_ok());
                }
                let before = told(&roster).join(" ");
                let outcome = match what {
                    0 => roster.add(&new).is_ok(),
                    1 => roster.exchange(old.as_ref(), None).is_ok(),
                    _ => roster.exchange(old.as_ref(), Some(new.clone())).is_ok(),
                };
                prop_assert_eq!(outcome, what == 1 || anew.add(&new).is_ok());
                if !outcome {
                    prop_assert_eq!(told(&roster).join(" "), before);
                }
                for peer in roster.iter() {
                    prop_assert_eq!(roster.get(&peer.name), Some(peer));
                }
            }
        }
    }

    #[test]
    fn who_changes_keeps_his_place_and_who_comes_stands_with_his_like() {
        let own = |number: u8| Origin::Own(Path::new(&format!("/p.d/p{number}.toml")).into());
        let tunnel = || Origin::Tunnel(Path::new("/mpt0.toml").into());
        let mut roster = Roster::default();
        for peer in [
            peer(9, 9, 9, tunnel()),
            peer(1, 1, 1, tunnel()),
            peer(2, 2, 2, own(2)),
            peer(6, 6, 6, own(6)),
            peer(3, 3, 3, Origin::Request),
        ] {
            roster.add(&peer).unwrap();
        }
        let old = roster.get("p9").cloned();
        let change = roster.exchange(old.as_ref(), Some(peer(9, 9, 8, tunnel())));
        assert_eq!(change.unwrap().names(), [vec![], vec![], vec!["p9"]]);
        let change = roster.exchange(None, Some(peer(4, 4, 4, own(4))));
        assert_eq!(change.unwrap().names(), [vec!["p4"], vec![], vec![]]);
        assert_eq!(told(&roster), ["p9", "p1", "p2", "p4", "p6", "p3"]);
        let before = roster.clone();
        let old = roster.get("p2").cloned();
        let change = roster.exchange(old.as_ref(), None).unwrap();
        assert_eq!(change.names(), [vec![], vec!["p2"], vec![]]);
        assert_eq!(PeerChange::between(&before, &roster), change);
    }
}

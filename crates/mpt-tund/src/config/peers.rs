//! The list `[[peers]]`, which makes a tunnel a hub: who may call, and which inner addresses are whose.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mpt_core::crypto::{KEY_BYTES, PresharedKey, PublicKey};
use mpt_core::hub::{AllowedIps, HubSlot, Overlap};

use super::crypto::{Crypto, psk, public_key};
use super::document::{Mistake, Place, Source};
use super::section::Section;
use super::values::{self, PrefixKind};

/// Most peers of a hub.
pub(crate) const MAX_PEERS: usize = 65_536;
/// Most prefixes of a peer.
pub(crate) const MAX_ALLOWED: usize = 1024;

/// One of `[[peers]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Peer {
    /// Its name, unique in the hub.
    pub(crate) name: String,
    /// Who it is; no other peer of the hub has the key.
    pub(crate) public_key: PublicKey,
    /// A secret of it and the hub, or the key that stands for none.
    pub(crate) psk: PresharedKey,
    /// The inner addresses that are its own, host bits zero: no other peer's overlap.
    pub(crate) allowed_ips: Vec<(IpAddr, u8)>,
    /// Most that it may send, and be sent, in bits a second of inner packets.
    pub(crate) rate_limit: Option<u64>,
    /// Who says so.
    pub(crate) origin: Origin,
}

/// Where a peer stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// In the tunnel's file, which is this one.
    Tunnel(Arc<Path>),
    /// In a file of its own, in the folder of peers.
    Own(Arc<Path>),
    /// It was added while the hub ran.
    Request,
}

impl Peer {
    /// Its own file, if it has one.
    pub(crate) fn own_file(&self) -> Option<&Path> {
        match &self.origin {
            Origin::Own(file) => Some(file),
            Origin::Tunnel(_) | Origin::Request => None,
        }
    }
}

/// A peer as it was read, and where its keys stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Read {
    pub(super) peer: Peer,
    name: Option<Place>,
    public_key: Place,
    allowed_ips: Place,
    /// Its secrets that others may read, and their modes.
    pub(super) exposed: Vec<(PathBuf, u32)>,
}

impl Read {
    /// Where that stands which another peer has.
    pub(super) fn place_of(&self, clash: &Clash) -> Option<Place> {
        match clash {
            Clash::Name(_) => self.name,
            Clash::Key(_) => Some(self.public_key),
            Clash::Overlap { .. } => Some(self.allowed_ips),
        }
    }
}

/// What peers have that no other may have.
#[derive(Default)]
pub(crate) struct Taken {
    count: usize,
    names: HashMap<String, usize>,
    keys: HashMap<[u8; KEY_BYTES], usize>,
    allowed: AllowedIps,
}

/// Why two peers do not go together; with the other's place in the list.
#[derive(Debug)]
pub(crate) enum Clash {
    Name(usize),
    Key(usize),
    Overlap {
        prefix: (IpAddr, u8),
        taken: (IpAddr, u8),
        with: usize,
    },
}

impl Taken {
    /// Takes what a peer has, the next in the list; or nothing.
    pub(crate) fn add(&mut self, peer: &Peer) -> Result<(), Clash> {
        if let Some(&with) = self.names.get(&peer.name) {
            return Err(Clash::Name(with));
        }
        if let Some(&with) = self.keys.get(peer.public_key.as_bytes()) {
            return Err(Clash::Key(with));
        }
        let number = self.count;
        if let Some(slot) = HubSlot::new(number) {
            self.take_prefixes(peer, slot)?;
        }
        self.names.insert(peer.name.clone(), number);
        self.keys.insert(*peer.public_key.as_bytes(), number);
        self.count += 1;
        Ok(())
    }

    fn take_prefixes(&mut self, peer: &Peer, slot: HubSlot) -> Result<(), Clash> {
        for (at, &prefix) in peer.allowed_ips.iter().enumerate() {
            if let Err(overlap) = self.allowed.insert(prefix, slot) {
                for &taken in &peer.allowed_ips[..at] {
                    self.allowed.remove(taken);
                }
                let Overlap {
                    with,
                    prefix: taken,
                } = overlap;
                return Err(Clash::Overlap {
                    prefix,
                    taken,
                    with: with.number(),
                });
            }
        }
        Ok(())
    }
}

impl Clash {
    /// The key of the file that is wrong.
    fn key(&self) -> &'static str {
        match self {
            Clash::Name(_) => "name",
            Clash::Key(_) => "public_key",
            Clash::Overlap { .. } => "allowed_ips",
        }
    }

    /// What is wrong, and what to do.
    pub(crate) fn told(&self, peer: &Peer, others: &[Peer]) -> (String, &'static str) {
        let name_of = |number: usize| match others.get(number) {
            Some(other) => format!("\"{}\"{}", other.name, stands(other, peer, " of ")),
            None => "\"?\"".to_owned(),
        };
        let one = &peer.name;
        match *self {
            Clash::Name(with) => {
                let where_ = others.get(with);
                let where_ = where_.map_or(String::new(), |other| stands(other, peer, ", one in "));
                (
                    format!("two peers are called \"{one}\"{where_}"),
                    "give each peer a name of its own",
                )
            }
            Clash::Key(with) => (
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

/// Reads the list, of which each section's keys are known, and the files that it names.
pub(super) fn peers(
    sections: &[Section<'_>],
    crypto: &mut Crypto,
    source: Source<'_>,
) -> Result<Vec<Peer>, Mistake> {
    let mut peers: Vec<Peer> = Vec::with_capacity(sections.len());
    let mut taken = Taken::default();
    let origin = Origin::Tunnel(source.file.into());
    let own = crypto.private_key.public_key();
    for section in sections {
        let read = peer(section, own, source, (None, &origin))?;
        if let Err(clash) = taken.add(&read.peer) {
            let (what, remedy) = clash.told(&read.peer, &peers);
            return Err(section.mistake_at(section.get(clash.key()), what, remedy));
        }
        crypto.exposed.extend(read.exposed);
        peers.push(read.peer);
    }
    Ok(peers)
}

/// Reads one peer; what it is called where the section does not say, and where it stands.
pub(super) fn peer(
    section: &Section<'_>,
    own: PublicKey,
    source: Source<'_>,
    (called, origin): (Option<&str>, &Origin),
) -> Result<Read, Mistake> {
    let example = "alice";
    let named = section.get("name");
    let name = match (named, called) {
        (None, Some(called)) => called.to_owned(),
        _ => {
            let name =
                section.required("name", "add a name for the peer, like name = \"alice\"")?;
            values::name(name, values::MAX_PATH_NAME_BYTES, example)?.to_owned()
        }
    };
    let key = section.required(
        "public_key",
        "add what `mpt-ctl pubkey < private.key` prints at the peer",
    )?;
    let allowed = section.required(
        "allowed_ips",
        "add the peer's addresses inside the tunnel, and the networks behind it, like allowed_ips = \
         [\"10.99.0.2/32\"]",
    )?;
    let public_key = public_key(key)?;
    if public_key == own {
        return Err(key.mistake(
            "`public_key` is this end's own: the hub would speak with itself",
            "write what `mpt-ctl pubkey < private.key` prints at the peer, in double quotes",
        ));
    }
    let mut exposed = Vec::new();
    let psk = match section.get("psk_file") {
        Some(entry) => psk(entry, source, &mut exposed)?,
        None => PresharedKey::none(),
    };
    let mut allowed_ips = Vec::new();
    for entry in allowed.list(MAX_ALLOWED, "\"10.99.0.2/32\"")? {
        let prefix = values::prefix(entry, PrefixKind::Route)?;
        if !allowed_ips.contains(&prefix) {
            allowed_ips.push(prefix);
        }
    }
    if allowed_ips.is_empty() {
        return Err(allowed.mistake(
            "`allowed_ips` is empty: the peer could neither send nor be reached",
            "write its address inside the tunnel, like [\"10.99.0.2/32\"]",
        ));
    }
    Ok(Read {
        peer: Peer {
            name,
            public_key,
            psk,
            allowed_ips,
            rate_limit: section.get("rate_limit").map(values::rate).transpose()?,
            origin: origin.clone(),
        },
        name: named.map(|entry| entry.place()),
        public_key: key.place(),
        allowed_ips: allowed.place(),
        exposed,
    })
}

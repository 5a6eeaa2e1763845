//! The list `[[peers]]`, which makes a tunnel a hub: who may call, and which inner addresses are whose.

use std::collections::HashMap;
use std::net::IpAddr;

use mpt_core::crypto::{KEY_BYTES, PresharedKey, PublicKey};
use mpt_core::hub::{AllowedIps, HubSlot, Overlap};

use super::crypto::{Crypto, psk, public_key};
use super::document::{Mistake, Source};
use super::section::Section;
use super::values::{self, PrefixKind};

/// Most peers of a hub.
pub(super) const MAX_PEERS: usize = 65_536;
/// Most prefixes of a peer.
const MAX_ALLOWED: usize = 1024;

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
}

/// What peers have that no other may have.
#[derive(Default)]
pub(crate) struct Taken {
    names: HashMap<String, usize>,
    keys: HashMap<[u8; KEY_BYTES], usize>,
    allowed: AllowedIps,
}

/// Why two peers do not go together; with the other's place in the list.
#[derive(Debug)]
pub(crate) enum Clash {
    Name,
    Key(usize),
    Overlap {
        prefix: (IpAddr, u8),
        taken: (IpAddr, u8),
        with: usize,
    },
}

impl Taken {
    /// Takes what a peer has, the next in the list.
    pub(crate) fn add(&mut self, peer: &Peer) -> Result<(), Clash> {
        let number = self.names.len();
        if self.names.insert(peer.name.clone(), number).is_some() {
            return Err(Clash::Name);
        }
        if let Some(with) = self.keys.insert(*peer.public_key.as_bytes(), number) {
            return Err(Clash::Key(with));
        }
        let Some(slot) = HubSlot::new(number) else {
            return Ok(());
        };
        for &prefix in &peer.allowed_ips {
            let taken = self.allowed.insert(prefix, slot);
            taken.map_err(
                |Overlap {
                     with,
                     prefix: taken,
                 }| Clash::Overlap {
                    prefix,
                    taken,
                    with: with.number(),
                },
            )?;
        }
        Ok(())
    }
}

impl Clash {
    /// The key of the file that is wrong.
    fn key(&self) -> &'static str {
        match self {
            Clash::Name => "name",
            Clash::Key(_) => "public_key",
            Clash::Overlap { .. } => "allowed_ips",
        }
    }

    /// What is wrong, and what to do.
    pub(crate) fn told(&self, peer: &Peer, others: &[Peer]) -> (String, &'static str) {
        let name_of = |number: usize| others.get(number).map_or("?", |other| &other.name);
        let one = &peer.name;
        match *self {
            Clash::Name => (
                format!("two peers are called \"{one}\""),
                "give each peer a name of its own",
            ),
            Clash::Key(with) => (
                format!(
                    "peers \"{}\" and \"{one}\" have one public key",
                    name_of(with)
                ),
                "make each peer a key of its own, by `mpt-ctl genkey`, and give its public key here",
            ),
            Clash::Overlap {
                prefix,
                taken,
                with,
            } => (
                format!(
                    "{}/{} of peer \"{one}\" overlaps {}/{} of peer \"{}\"",
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

/// Reads the list, of which each section's keys are known, and the files that it names.
pub(super) fn peers(
    sections: &[Section<'_>],
    crypto: &mut Crypto,
    source: Source<'_>,
) -> Result<Vec<Peer>, Mistake> {
    let mut peers: Vec<Peer> = Vec::with_capacity(sections.len());
    let mut taken = Taken::default();
    for section in sections {
        let peer = peer(section, crypto, source)?;
        if let Err(clash) = taken.add(&peer) {
            let (what, remedy) = clash.told(&peer, &peers);
            return Err(section.mistake_at(section.get(clash.key()), what, remedy));
        }
        peers.push(peer);
    }
    Ok(peers)
}

fn peer(section: &Section<'_>, crypto: &mut Crypto, source: Source<'_>) -> Result<Peer, Mistake> {
    let name = section.required("name", "add a name for the peer, like name = \"alice\"")?;
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
    if public_key == crypto.private_key.public_key() {
        return Err(key.mistake(
            "`public_key` is this end's own: the hub would speak with itself",
            "write what `mpt-ctl pubkey < private.key` prints at the peer, in double quotes",
        ));
    }
    let psk = match section.get("psk_file") {
        Some(entry) => psk(entry, source, &mut crypto.exposed)?,
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
    let example = "alice";
    Ok(Peer {
        name: values::name(name, values::MAX_PATH_NAME_BYTES, example)?.to_owned(),
        public_key,
        psk,
        allowed_ips,
    })
}

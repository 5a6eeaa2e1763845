//! The list `[[peers]]`, which makes a tunnel a hub: who may call, and which inner addresses are whose.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mpt_core::crypto::{PresharedKey, PublicKey};

use super::crypto::{Crypto, psk, public_key};
use super::document::{Mistake, Place, Source};
use super::entry::Entry;
use super::roster::{Clash, Roster};
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
    pub(crate) allowed_ips: Arc<[(IpAddr, u8)]>,
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
    pub(super) peer: Arc<Peer>,
    name: Option<Place>,
    public_key: Option<Place>,
    allowed_ips: Option<Place>,
    /// Its secrets that others may read, and their modes.
    pub(super) exposed: Vec<(PathBuf, u32)>,
}

impl Read {
    /// Where that stands which another peer has.
    pub(super) fn place_of(&self, clash: &Clash) -> Option<Place> {
        match clash {
            Clash::Name { .. } => self.name,
            Clash::Key { .. } => self.public_key,
            Clash::Overlap { .. } => self.allowed_ips,
        }
    }
}

/// Reads the list, of which each section's keys are known, and the files that it names.
pub(super) fn peers(
    sections: &[Section<'_>],
    crypto: &mut Crypto,
    source: Source<'_>,
) -> Result<Roster, Mistake> {
    let mut roster = Roster::default();
    let origin = Origin::Tunnel(source.file.into());
    let own = crypto.private_key.public_key();
    for section in sections {
        let read = peer(section, own, source, (None, &origin))?;
        if let Err(clash) = roster.add(&read.peer) {
            let (what, remedy) = clash.told(&read.peer);
            return Err(section.mistake_at(section.get(clash.key()), what, remedy));
        }
        crypto.exposed.extend(read.exposed);
    }
    Ok(roster)
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
            let remedy = "add a name for the peer, like name = \"alice\"";
            if named.is_none()
                && let Origin::Own(file) = origin
            {
                let stem = file.file_stem().unwrap_or_default().to_string_lossy();
                let what = format!(
                    "the file's name cannot be the peer's: {stem:?}, and the file has no `name`"
                );
                return Err(section.mistake_at(None, what, remedy));
            }
            let name = section.required("name", remedy)?;
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
    let rate_limit = section.get("rate_limit").map(values::rate).transpose()?;
    // To find a place the lines before it are counted: in the tunnel's file those of all peers before, and there it is
    // asked for only where something is wrong.
    let is_own = matches!(origin, Origin::Own(_));
    let place = |entry: Entry<'_>| is_own.then(|| entry.place());
    Ok(Read {
        peer: Arc::new(Peer {
            name,
            public_key,
            psk,
            allowed_ips: allowed_ips.into(),
            rate_limit,
            origin: origin.clone(),
        }),
        name: named.and_then(place),
        public_key: place(key),
        allowed_ips: place(allowed),
        exposed,
    })
}

//! Section `[crypto]`: who this end is, whom it believes, and the files that hold the secrets.
//!
//! Secrets stand in files of their own, so that a configuration can be shown to others. They are read
//! with the configuration, `--check` included: a key that is missing or cut short would otherwise be
//! found when the tunnel is needed. A file that others than its owner may read is no mistake, but it is warned of.

use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path as FilePath, PathBuf};

use mpt_core::crypto::{KeyError, PresharedKey, PrivateKey, PublicKey};

use super::document::{Mistake, Source};
use super::entry::Entry;
use super::section::Section;

/// Most that is read of a key's file, in bytes.
const MAX_KEY_FILE_BYTES: u64 = 4096;
/// What others than owner and group may do with a file.
const WORLD_ACCESS: u32 = 0o007;
/// What the group may.
const GROUP_ACCESS: u32 = 0o070;

/// Section `[crypto]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Crypto {
    /// Who this end is.
    pub(crate) private_key: PrivateKey,
    /// Who the peer is; a hub's stand in its list of peers.
    pub(crate) peer_public_key: Option<PublicKey>,
    /// A secret of both, or the key that stands for none.
    pub(crate) psk: PresharedKey,
    /// Files of secrets that others than their owner may read or write, and their modes.
    pub(crate) exposed: Vec<(PathBuf, u32)>,
}

/// Reads the section and the files that it names.
pub(super) fn crypto(
    section: &Section<'_>,
    source: Source<'_>,
    is_hub: bool,
) -> Result<Crypto, Mistake> {
    let private_key_file = section.required(
        "private_key_file",
        "add private_key_file = \"/etc/mpt/private.key\", and make it: \
         (umask 077; mpt-ctl genkey > /etc/mpt/private.key)",
    )?;
    let peer = match is_hub {
        true => None,
        false => Some(section.required(
            "peer_public_key",
            "add what `mpt-ctl pubkey < private.key` prints at the peer",
        )?),
    };
    for key in ["peer_public_key", "psk_file"] {
        if let Some(entry) = section.get(key).filter(|_| is_hub) {
            return Err(entry.mistake(
                format!("`{key}` does not go with [[peers]]: a hub has many"),
                "remove it; what is of one peer stands with it in [[peers]]: public_key, psk_file",
            ));
        }
    }
    let mut exposed = Vec::new();
    let private_key = secret(private_key_file, source, "genkey", &mut exposed, |text| {
        PrivateKey::from_base64(text)
    })?;
    let psk = match section.get("psk_file") {
        Some(entry) => psk(entry, source, &mut exposed)?,
        None => PresharedKey::none(),
    };
    let peer_public_key = peer.map(public_key).transpose()?;
    if let Some(peer) = peer
        && peer_public_key == Some(private_key.public_key())
    {
        return Err(peer.mistake(
            "`peer_public_key` is this end's own: the tunnel would speak with itself",
            PUBLIC_KEY_REMEDY,
        ));
    }
    Ok(Crypto {
        private_key,
        peer_public_key,
        psk,
        exposed,
    })
}

const PUBLIC_KEY_REMEDY: &str =
    "write what `mpt-ctl pubkey < private.key` prints at the peer, in double quotes";

/// A public key.
pub(super) fn public_key(entry: Entry<'_>) -> Result<PublicKey, Mistake> {
    PublicKey::from_base64(entry.text("…=")?)
        .map_err(|error| entry.mistake(format!("`{}`: {error}", entry.key), PUBLIC_KEY_REMEDY))
}

/// The preshared key in the file that `entry` names.
pub(super) fn psk(
    entry: Entry<'_>,
    source: Source<'_>,
    exposed: &mut Vec<(PathBuf, u32)>,
) -> Result<PresharedKey, Mistake> {
    secret(entry, source, "genpsk", exposed, |text| {
        PresharedKey::from_base64(text)
    })
}

/// The key in the file that `entry` names; a relative name is beside the configuration.
fn secret<K>(
    entry: Entry<'_>,
    source: Source<'_>,
    command: &str,
    exposed: &mut Vec<(PathBuf, u32)>,
    read: impl Fn(&str) -> Result<K, KeyError>,
) -> Result<K, Mistake> {
    let example = match entry.key {
        "psk_file" => "/etc/mpt/psk.key",
        _ => "/etc/mpt/private.key",
    };
    let name = entry.text(example)?;
    let make = |file: &str| format!("make it: (umask 077; mpt-ctl {command} > {file})");
    if name.is_empty() || name.contains('\0') {
        let remedy = format!("write {} = \"{example}\", and {}", entry.key, make(example));
        return Err(entry.mistake(format!("`{}` names no file", entry.key), remedy));
    }
    let beside = source.file.parent();
    let file = beside.unwrap_or(FilePath::new("")).join(name);
    let make = make(&file.display().to_string());
    let mut text = zeroizing_text();
    let mode = source
        .files
        .open(&file, MAX_KEY_FILE_BYTES)
        .and_then(|opened| {
            let mode = opened.metadata()?.permissions().mode();
            opened
                .take(MAX_KEY_FILE_BYTES)
                .read_to_string(&mut text)
                .map(|_| mode)
        })
        .map_err(|error| {
            let what = format!("{} cannot be read: {error}", file.display());
            let remedy = if error.kind() == std::io::ErrorKind::NotFound {
                &*make
            } else if error.kind() == std::io::ErrorKind::PermissionDenied {
                "make it readable for the user that runs mpt-tund, and for nobody else"
            } else {
                "name a file that holds a key, and nothing else"
            };
            entry.mistake(what, remedy)
        })?;
    if mode & (WORLD_ACCESS | GROUP_ACCESS) != 0 {
        exposed.push((file.clone(), mode));
    }
    read(&text).map_err(|error| {
        let what = format!("{} holds no key: {error}", file.display());
        entry.mistake(what, make)
    })
}

/// Room for a whole file, so that no copy stays behind as it grows.
fn zeroizing_text() -> zeroize::Zeroizing<String> {
    zeroize::Zeroizing::new(String::with_capacity(MAX_KEY_FILE_BYTES as usize))
}

impl Crypto {
    /// Whether the keys are the same, wherever they stand.
    pub(super) fn has_keys_of(&self, other: &Crypto) -> bool {
        self.private_key == other.private_key
            && self.peer_public_key == other.peer_public_key
            && self.psk == other.psk
    }

    /// What an operator should mend though the tunnel runs; each ends in what to do.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = String> {
        self.exposed.iter().map(|(file, mode)| {
            let file = file.display();
            let (who, takes) = match (mode & WORLD_ACCESS, mode & GROUP_ACCESS) {
                (0, _) => ("a group", "g="),
                (_, 0) => ("everybody", "o="),
                (_, _) => ("everybody", "go="),
            };
            format!("{who} may read or write the secret {file}: chmod {takes} {file}")
        })
    }
}

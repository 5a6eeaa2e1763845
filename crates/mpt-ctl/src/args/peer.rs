//! `peer show`, `add`, `set` and `remove`.

use clap::Subcommand;
use mpt_core::control::Request;

use super::{key_value, set_once, unknown_key};

#[derive(Debug, Subcommand)]
pub(super) enum PeerCommand {
    /// Show a peer's paths, the order of its packets, what was sent again and what was dropped
    Show {
        /// The peer's name in the configuration
        name: String,
    },
    /// Let another peer call, until the next reload: public_key=KEY allowed_ips=PREFIX,…
    Add {
        /// A name for the peer
        name: String,
        /// public_key=KEY: what `mpt-ctl pubkey` prints at the peer;
        /// allowed_ips=PREFIX,…: its addresses inside the tunnel
        #[arg(required = true, value_name = "KEY=VALUE")]
        settings: Vec<String>,
    },
    /// Change a peer, until the next reload: public_key=KEY, allowed_ips=PREFIX,…
    Set {
        /// The peer's name in the configuration
        name: String,
        /// public_key=KEY, allowed_ips=PREFIX,…
        #[arg(required = true, value_name = "KEY=VALUE")]
        settings: Vec<String>,
    },
    /// Take a peer away, until the next reload
    Remove {
        /// The peer's name in the configuration
        name: String,
    },
}

/// The settings of a peer that the words give.
fn peer_settings(settings: &[String]) -> Result<(Option<String>, Option<Vec<String>>), String> {
    let (mut public_key, mut allowed_ips) = (None, None);
    for (key, value) in settings.iter().map(|word| key_value(word)) {
        match key {
            "public_key" => set_once(&mut public_key, key, value.to_owned())?,
            "allowed_ips" => {
                let prefixes = value.split(',').map(|one| one.trim().to_owned());
                set_once(&mut allowed_ips, key, prefixes.collect())?;
            }
            _ => return Err(unknown_key(key, "public_key=KEY, allowed_ips=PREFIX,…")),
        }
    }
    Ok((public_key, allowed_ips))
}

impl PeerCommand {
    /// What is to be asked.
    pub(super) fn request(&self) -> Result<Request, String> {
        Ok(match self {
            PeerCommand::Show { name } => Request::PeerShow { name: name.clone() },
            PeerCommand::Add { name, settings } => {
                let (public_key, allowed_ips) = peer_settings(settings)?;
                Request::PeerAdd {
                    name: name.clone(),
                    public_key: public_key.ok_or("public_key=KEY is missing")?,
                    allowed_ips: allowed_ips.ok_or("allowed_ips=PREFIX,… is missing")?,
                }
            }
            PeerCommand::Set { name, settings } => {
                let (public_key, allowed_ips) = peer_settings(settings)?;
                Request::PeerSet {
                    name: name.clone(),
                    public_key,
                    allowed_ips,
                }
            }
            PeerCommand::Remove { name } => Request::PeerRemove { name: name.clone() },
        })
    }
}

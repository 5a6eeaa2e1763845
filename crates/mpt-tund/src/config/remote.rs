//! Where a path's peer is: an address, or a name that DNS knows.

use std::net::SocketAddr;

use super::DEFAULT_PORT;
use super::document::Mistake;
use super::entry::Entry;
use super::values;
use mpt_core::endpoint::{End, is_host_name};

/// The `remote` of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Remote {
    /// Of the same family as the path's `local`; never unspecified.
    Address(SocketAddr),
    /// What it stands for is looked up while the tunnel runs, and again when the path is down.
    Name {
        /// The host.
        host: String,
        /// Its UDP port.
        port: u16,
    },
}

impl Remote {
    /// The address, where it is one.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match self {
            Remote::Address(address) => Some(*address),
            Remote::Name { .. } => None,
        }
    }
}

/// `ADDRESS[:PORT]` or `HOST[:PORT]`.
pub(super) fn remote(entry: Entry<'_>) -> Result<Remote, Mistake> {
    let text = entry.text("10.1.0.2")?;
    let (host, port) = text.split_once(':').unwrap_or((text, ""));
    if !is_host_name(host) || port.contains(':') {
        return values::endpoint(entry, End::Remote, DEFAULT_PORT).map(Remote::Address);
    }
    let port = match port {
        "" if host.len() == text.len() => Some(DEFAULT_PORT),
        digits => digits.parse().ok().filter(|port| *port != 0),
    };
    let port = port.ok_or_else(|| {
        entry.mistake(
            format!("\"{text}\" has no port that can be"),
            format!("write a port from 1 to 65,535 behind the colon, or only \"{host}\""),
        )
    })?;
    let host = host.to_owned();
    Ok(Remote::Name { host, port })
}

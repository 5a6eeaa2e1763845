//! Section `[metrics]`: where the numbers can be had by others.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::document::Mistake;
use super::entry::Entry;
use super::section::Section;
use super::{DEFAULT_SOCKET_MODE, values};
use crate::control::Owner;

/// What the remedy of a wrong `listen` says.
const FORMS: &str = "write an address of this host with a port, \"127.0.0.1:9754\" or \"[::1]:9754\", or the absolute path \
                     of a Unix socket, \"/run/mpt/metrics\"";

/// Where the metrics are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Metrics {
    /// The socket.
    pub(crate) listen: Listen,
    /// Whose a Unix socket is, if not the daemon's.
    pub(crate) owner: Option<Owner>,
    /// Its mode: bits of 0666.
    pub(crate) mode: u32,
}

/// What is listened at. Tunnels of one daemon that name the same share it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Listen {
    /// TCP.
    Tcp(SocketAddr),
    /// A Unix socket, by its absolute path.
    Socket(PathBuf),
}

/// As it is written, and found again in logs.
impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Tcp(address) => address.fmt(f),
            Listen::Socket(path) => path.display().fmt(f),
        }
    }
}

impl Listen {
    /// The path of the Unix socket, if it is one.
    pub(crate) fn socket(&self) -> Option<&std::path::Path> {
        match self {
            Listen::Tcp(_) => None,
            Listen::Socket(path) => Some(path),
        }
    }
}

/// Reads the section.
pub(super) fn metrics(section: &Section<'_>) -> Result<Metrics, Mistake> {
    let entry = section.required(
        "listen",
        "add listen = \"127.0.0.1:9754\", or remove [metrics]",
    )?;
    if cfg!(not(feature = "metrics")) {
        return Err(section.mistake(
            "this mpt-tund was built without metrics",
            "build it with the feature `metrics`, which is on by default, or remove [metrics]",
        ));
    }
    let listen = listen(entry)?;
    let [owner, mode] = ["owner", "mode"].map(|key| section.get(key));
    if let (Listen::Tcp(_), Some(stray)) = (&listen, owner.or(mode)) {
        return Err(stray.mistake(
            format!("`{}` is of a Unix socket, and `listen` is none", stray.key),
            "remove it, or write listen = \"/run/mpt/metrics\"",
        ));
    }
    Ok(Metrics {
        listen,
        owner: owner.map(values::owner).transpose()?,
        mode: mode.map_or(Ok(DEFAULT_SOCKET_MODE), values::socket_mode)?,
    })
}

fn listen(entry: Entry<'_>) -> Result<Listen, Mistake> {
    let text = entry.text("127.0.0.1:9754")?;
    if text.starts_with('/') || text.starts_with("unix:") {
        return values::socket_path_after(entry, "unix:").map(Listen::Socket);
    }
    let wrong = |why: &str| entry.mistake(format!("\"{}\" {why}", text.escape_debug()), FORMS);
    let Ok(address) = text.parse::<SocketAddr>() else {
        return Err(match text.parse::<std::net::IpAddr>() {
            Ok(_) => wrong("has no port"),
            Err(_) => wrong("is nothing to listen at"),
        });
    };
    if address.port() == 0 {
        return Err(wrong("has port 0"));
    }
    if address.ip().is_multicast() {
        return Err(wrong("is not the address of one host"));
    }
    Ok(Listen::Tcp(address))
}

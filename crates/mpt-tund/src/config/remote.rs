//! Where a path's peer is: an address, or a name that DNS knows.

use std::net::SocketAddr;

use super::DEFAULT_PORT;
use super::document::Mistake;
use super::entry::Entry;
use super::values::{self, End};

/// Longest name of a host and of each of its labels, in bytes (RFC 1035 §2.3.4).
const MAX_HOST_BYTES: usize = 253;
const MAX_LABEL_BYTES: usize = 63;

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
    if !is_host(host) || port.contains(':') {
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

/// Whether the text is a host's name and could not be meant for an address: its last label has a letter.
fn is_host(text: &str) -> bool {
    let of_a_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let is_label = |label: &str| {
        (1..=MAX_LABEL_BYTES).contains(&label.len())
            && label.chars().all(of_a_name)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let text = text.strip_suffix('.').unwrap_or(text);
    let last = text.rsplit('.').next().unwrap_or_default();
    text.len() <= MAX_HOST_BYTES
        && text.split('.').all(is_label)
        && last.chars().any(|c| c.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::is_host;

    #[test]
    fn names_are_told_from_addresses() {
        for name in [
            "office",
            "office.example.net",
            "office.example.net.",
            "a-b_c.1x",
        ] {
            assert!(is_host(name), "{name}");
        }
        for other in [
            "10.1.0.256",
            "10.1.0.2",
            "",
            ".",
            "a..b",
            "-a.b",
            "fd00::1",
            "[fd00::1]",
            "a b",
        ] {
            assert!(!is_host(other), "{other}");
        }
        assert!(!is_host(&"a.".repeat(200)));
    }
}

//! What may be the end of a path: an address, or the name of a host. The daemon reads files by these rules, and
//! `mpt-ctl new` writes them by the same.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// UDP port where nobody says another: that of GRE-in-UDP (RFC 8086 §3.1).
pub const DEFAULT_PORT: u16 = 4754;

/// Longest name of a host and of each of its labels, in bytes (RFC 1035 §2.3.4).
const MAX_HOST_BYTES: usize = 253;
const MAX_LABEL_BYTES: usize = 63;

/// Which end of a path an address belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// This host's.
    Local,
    /// The peer's.
    Remote,
}

/// `ADDRESS[:PORT]`, an IPv6 address in brackets when a port follows; with `port` where it names none.
#[must_use]
pub fn socket_address(text: &str, port: u16) -> Option<SocketAddr> {
    if let Ok(socket) = text.parse::<SocketAddr>() {
        return Some(socket);
    }
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let address = match bare {
        Some(inside) => inside.parse::<Ipv6Addr>().ok()?.into(),
        None => text.parse().ok()?,
    };
    Some(SocketAddr::new(address, port))
}

/// Whether such a text names its port.
#[must_use]
pub fn names_port(text: &str) -> bool {
    text.parse::<SocketAddr>().is_ok()
}

/// Why an address cannot be the end of a path. An unspecified local address is left to paths that
/// are bound to a device, whose address may not be known beforehand.
#[must_use]
pub fn unusable(address: IpAddr, end: End) -> Option<&'static str> {
    let broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    let mapped = matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some());
    if address.is_multicast() || broadcast {
        Some("is not the address of one host")
    } else if mapped {
        Some("is an IPv4 address written as IPv6")
    } else if address.is_unspecified() && end == End::Remote {
        Some("stands for any address")
    } else {
        None
    }
}

/// Whether an address says where to only together with a device.
#[must_use]
pub fn needs_device(address: IpAddr) -> bool {
    address.is_unspecified() || matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

/// Whether the text is a host's name and could not be meant for an address: its last label has a letter.
#[must_use]
pub fn is_host_name(text: &str) -> bool {
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
    use super::is_host_name;

    #[test]
    fn names_are_told_from_addresses() {
        for name in [
            "office",
            "office.example.net",
            "office.example.net.",
            "a-b_c.1x",
        ] {
            assert!(is_host_name(name), "{name}");
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
            assert!(!is_host_name(other), "{other}");
        }
        assert!(!is_host_name(&"a.".repeat(200)));
    }
}

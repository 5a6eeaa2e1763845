//! Single values: text of the file into a type that cannot be wrong.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use super::document::{Mistake, Source};
use super::entry::Entry;
use crate::control::Owner;
use mpt_core::control::units::rate_of;
use mpt_core::endpoint::{self, End, socket_address, unusable};
use mpt_core::limits::RATE_LIMITS;

/// Longest name of a network interface, in bytes: IFNAMSIZ less the closing zero.
pub(super) const MAX_INTERFACE_BYTES: usize = 15;
/// Longest name of a path, in bytes.
pub(super) const MAX_PATH_NAME_BYTES: usize = 32;
/// Longest path name of a Unix socket, in bytes: `sun_path` less the closing zero.
const MAX_SOCKET_BYTES: usize = 107;

/// A name that is safe as an interface, a file name and a word on a command line.
pub(super) fn name<'a>(
    entry: Entry<'a>,
    longest: usize,
    example: &str,
) -> Result<&'a str, Mistake> {
    let text = entry.text(example)?;
    let remedy = format!(
        "use 1 to {longest} letters, digits, '-', '_' or '.', a letter or digit first, like \"{example}\""
    );
    if text.is_empty() {
        return Err(entry.mistake("the name is empty", remedy));
    }
    if text.len() > longest {
        let what = format!("the name \"{text}\" is too long: {} bytes", text.len());
        return Err(entry.mistake(what, remedy));
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if let Some(bad) = text.chars().find(|c| !allowed(*c)) {
        let what = format!("the name \"{}\" contains {bad:?}", text.escape_debug());
        return Err(entry.mistake(what, remedy));
    }
    if !text.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        let what = format!("the name \"{text}\" starts with neither a letter nor a digit");
        return Err(entry.mistake(what, remedy));
    }
    Ok(text)
}

/// Whether a text is such a name, of a path's length at most.
pub(crate) fn is_name(text: &str) -> bool {
    mpt_core::wire::name::PathName::new(text).is_some()
}

/// A file or folder that the value names; a relative name is beside the configuration.
pub(super) fn beside(
    entry: Entry<'_>,
    source: Source<'_>,
    example: &str,
) -> Result<PathBuf, Mistake> {
    let name = entry.text(example)?;
    if name.is_empty() || name.contains('\0') {
        let what = format!("`{}` names no folder", entry.key);
        return Err(entry.mistake(what, format!("write {} = \"{example}\"", entry.key)));
    }
    let beside = source.file.parent();
    Ok(beside.unwrap_or(Path::new("")).join(name))
}

/// A rate in bits a second, within the range of a limit.
pub(super) fn rate(entry: Entry<'_>) -> Result<u64, Mistake> {
    let text = entry.text("100 Mbit/s")?;
    let rate = rate_of(text).filter(|rate| RATE_LIMITS.contains(rate));
    rate.ok_or_else(|| {
        entry.mistake(
            format!("`{}` is \"{text}\"", entry.key),
            "write a rate with its unit, like \"100 Mbit/s\", from 8 kbit/s to 100 Gbit/s; without `rate_limit` \
             there is no limit",
        )
    })
}

/// Whether a prefix names a host on a network or the network itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PrefixKind {
    /// An interface address: host bits are expected.
    Address,
    /// A route: host bits are a mistake.
    Route,
}

/// `ADDRESS/LENGTH`.
pub(super) fn prefix(entry: Entry<'_>, kind: PrefixKind) -> Result<(IpAddr, u8), Mistake> {
    let example = match kind {
        PrefixKind::Address => "10.99.0.1/30",
        PrefixKind::Route => "192.168.7.0/24",
    };
    let text = entry.text(example)?;
    let (address, length) = text.split_once('/').unwrap_or((text, ""));
    let address: IpAddr = address.parse().map_err(|_| {
        entry.mistake(
            format!("\"{text}\" is not an IP prefix"),
            format!("write ADDRESS/LENGTH, like \"{example}\" or \"2001:db8::1/64\""),
        )
    })?;
    let bits = if address.is_ipv4() { 32 } else { 128 };
    if length.is_empty() {
        return Err(entry.mistake(
            format!("\"{text}\" has no prefix length"),
            format!(
                "write \"{address}/{bits}\" for this address alone, or the length of its network"
            ),
        ));
    }
    let length = length.parse::<u8>().ok().filter(|length| *length <= bits);
    let Some(length) = length else {
        let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
        return Err(entry.mistake(
            format!("the prefix length of \"{text}\" is out of range"),
            format!("an {family} prefix has a length from 0 to {bits}"),
        ));
    };
    if kind == PrefixKind::Address
        && !address.is_unspecified()
        && let Some(what) = no_host(address, length)
    {
        return Err(entry.mistake(
            format!("\"{text}\" is the {what} of its network, and no host's"),
            format!("write an address of this host inside the tunnel, like \"{example}\""),
        ));
    }
    match kind {
        PrefixKind::Address if address.is_unspecified() || address.is_multicast() => Err(entry
            .mistake(
                format!("\"{text}\" cannot be the address of an interface"),
                format!("write an address of this host inside the tunnel, like \"{example}\""),
            )),
        PrefixKind::Route if network(address, length) != address => {
            let whole = format!("\"{}/{length}\"", network(address, length));
            Err(entry.mistake(
                format!(
                    "\"{text}\" in `{}` has bits set behind its prefix length",
                    entry.key
                ),
                match entry.key {
                    "allowed_ips" => {
                        format!("write \"{address}/{bits}\" for this address alone, or {whole}")
                    }
                    _ => format!("write {whole}"),
                },
            ))
        }
        PrefixKind::Address | PrefixKind::Route => Ok((address, length)),
    }
}

/// What an address stands for that no host of its network can have; IPv4 alone has such, and not between two hosts
/// (RFC 3021).
fn no_host(address: IpAddr, length: u8) -> Option<&'static str> {
    let IpAddr::V4(address) = address else {
        return None;
    };
    let host_bits = u32::MAX.checked_shr(length.into()).unwrap_or(0);
    match address.to_bits() & host_bits {
        _ if host_bits <= 1 => None,
        0 => Some("address"),
        bits if bits == host_bits => Some("broadcast address"),
        _ => None,
    }
}

/// The same in a request, which has no place in a file; a network without host bits.
pub(crate) fn network_of(text: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = text.split_once('/')?;
    let (address, length): (IpAddr, u8) = (address.parse().ok()?, length.parse().ok()?);
    let bits = if address.is_ipv4() { 32 } else { 128 };
    (length <= bits && network(address, length) == address).then_some((address, length))
}

/// The address with all bits behind the prefix length cleared.
fn network(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            IpAddr::V4((v4.to_bits() & mask).into())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
            IpAddr::V6((v6.to_bits() & mask).into())
        }
    }
}

/// `ADDRESS[:PORT]`, an IPv6 address in brackets when a port follows.
pub(super) fn endpoint(entry: Entry<'_>, end: End, port: u16) -> Result<SocketAddr, Mistake> {
    let (whose, example) = match end {
        End::Local => ("this host's", "10.1.0.1"),
        End::Remote => ("the peer's", "10.1.0.2"),
    };
    let text = entry.text(example)?;
    let or_name = match end {
        End::Local => "",
        End::Remote => "; or its name, like \"office.example.net\"",
    };
    let Some(socket) = socket_address(text, port) else {
        return Err(entry.mistake(
            format!("\"{text}\" is not an IP address"),
            format!(
                "write {whose} address, with a port if it is not {port}: \"{example}\", \
                 \"{example}:4755\", \"2001:db8::1\" or \"[2001:db8::1]:4755\"{or_name}"
            ),
        ));
    };
    if socket.port() == 0 {
        return Err(entry.mistake(
            format!("\"{text}\" has port 0"),
            "write a port from 1 to 65,535, or leave it out",
        ));
    }
    if let Some(why) = unusable(socket.ip(), end) {
        return Err(entry.mistake(
            format!("\"{text}\" {why}"),
            format!("write {whose} own address on this path, like \"{example}\""),
        ));
    }
    Ok(socket)
}

/// Whether an endpoint names its port.
pub(super) fn names_port(entry: Entry<'_>) -> Result<bool, Mistake> {
    Ok(endpoint::names_port(entry.text("10.1.0.1")?))
}

/// The path name of the control socket.
pub(super) fn socket_path(entry: Entry<'_>) -> Result<PathBuf, Mistake> {
    socket_path_after(entry, "")
}

/// The path name of a Unix socket, before which `scheme` may stand.
pub(super) fn socket_path_after(entry: Entry<'_>, scheme: &str) -> Result<PathBuf, Mistake> {
    let example = "/run/mpt/mpt0.sock";
    let text = entry.text(example)?;
    let text = text.strip_prefix(scheme).unwrap_or(text);
    let remedy =
        format!("write an absolute path of at most {MAX_SOCKET_BYTES} bytes, like \"{example}\"");
    let path = Path::new(text);
    if !path.is_absolute() || text.ends_with('/') || text.contains('\0') {
        let what = format!("\"{}\" is not the path of a socket", text.escape_debug());
        return Err(entry.mistake(what, remedy));
    }
    if text.len() > MAX_SOCKET_BYTES {
        let what = format!("the socket's path is too long: {} bytes", text.len());
        return Err(entry.mistake(what, remedy));
    }
    Ok(path.to_owned())
}

/// `USER`, `USER:GROUP` or `:GROUP`, names or numbers.
pub(super) fn owner(entry: Entry<'_>) -> Result<Owner, Mistake> {
    let example = "root:mpt";
    let text = entry.text(example)?;
    let (user, group) = match text.split_once(':') {
        Some((user, group)) => (user, Some(group)),
        None => (text, None),
    };
    let is_name = |name: &str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        !name.is_empty() && name.chars().all(allowed)
    };
    let user_fits = user.is_empty() && group.is_some() || is_name(user);
    if !user_fits || !group.is_none_or(is_name) {
        return Err(entry.mistake(
            format!("\"{}\" names no owner", text.escape_debug()),
            format!("write USER, USER:GROUP or :GROUP, names or numbers, like \"{example}\""),
        ));
    }
    let some = |name: &str| (!name.is_empty()).then(|| name.to_owned());
    Ok(Owner {
        user: some(user),
        group: group.and_then(some),
    })
}

/// The daemon's user, and its group if that is not the user's own.
pub(super) fn user(entry: Entry<'_>) -> Result<Owner, Mistake> {
    let owner = owner(entry)?;
    if owner.user.is_none() {
        let what = "`user` names a group and no user";
        return Err(entry.mistake(what, "write USER or USER:GROUP, like \"mpt\""));
    }
    Ok(owner)
}

/// The mode of the control socket, octal.
pub(super) fn socket_mode(entry: Entry<'_>) -> Result<u32, Mistake> {
    let text = entry.text("0660")?;
    let mode = u32::from_str_radix(text, 8).ok();
    // Who may connect may write, and `mpt-ctl` reads what it is told.
    mode.filter(|mode| mode & !0o666 == 0 && mode & 0o600 == 0o600)
        .ok_or_else(|| {
            entry.mistake(
                format!("\"{}\" is no mode of a socket", text.escape_debug()),
                "write an octal mode as chmod takes it: \"0600\" for the owner alone, \"0660\" for the \
                 group too",
            )
        })
}

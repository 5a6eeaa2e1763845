//! What several values together can get wrong: within a path, between the paths of a tunnel, and
//! between the tunnels of one daemon. Each rule is a function that ends in `Ok` or in a
//! [`Mistake`] at the value that came last.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use mpt_core::endpoint;
use mpt_core::limits::WEIGHTS;

use super::document::{Mistake, Place};
use super::entry::{Entry, grouped, in_one_unit};
use super::section::Section;
use super::{Config, DEFAULT_PORT, Family, Path, Remote};

/// Where a file says what other files must not say too.
#[derive(Debug, Clone)]
pub(super) struct Places {
    /// The daemon's user, where it is given.
    pub(super) user: Option<Place>,
    /// The tunnel's name.
    pub(super) name: Place,
    /// The control socket; the tunnel's name where it is not given.
    pub(super) socket: Place,
    /// Where the metrics are.
    pub(super) metrics: Option<Place>,
    /// The local end of each path: its `local`, or else its `interface`.
    pub(super) locals: Vec<Place>,
}

/// Least MTU of a link that carries IPv6 (RFC 8200 §5), in bytes.
const IPV6_MIN_MTU: u16 = 1280;

/// An interface with IPv6 inside has an MTU that IPv6 allows.
pub(super) fn mtu(config: &Config, tunnel: &Section<'_>) -> Result<(), Mistake> {
    let inside = config.tunnel.addresses.iter().chain(&config.tunnel.routes);
    let ipv6 = inside.into_iter().any(|(address, _)| address.is_ipv6());
    match tunnel.get("mtu") {
        Some(entry) if ipv6 && config.mtu() < IPV6_MIN_MTU => Err(entry.mistake(
            format!("mtu = {} is too small for IPv6 inside", config.mtu()),
            format!("write at least {IPV6_MIN_MTU} (RFC 8200), or remove the IPv6 prefixes"),
        )),
        Some(_) | None => Ok(()),
    }
}

/// Sealed packets carry the receiver's session in the field of the GRE key.
pub(super) fn one_use_of_the_key_field(
    config: &Config,
    tunnel: &Section<'_>,
) -> Result<(), Mistake> {
    match tunnel.get("key") {
        Some(entry) if config.crypto.is_some() => Err(entry.mistake(
            "`key` does not go with [crypto]: sealed packets use the key's field themselves",
            "remove `key`; what tells tunnels apart is [crypto] then",
        )),
        Some(_) | None => Ok(()),
    }
}

/// No path leads through the tunnel itself.
pub(super) fn paths_outside(config: &Config, sections: &[Section<'_>]) -> Result<(), Mistake> {
    let tunnel = &config.tunnel;
    for (path, section) in config.paths.iter().zip(sections) {
        let local = path.local.address;
        let is_own = |(own, _): &(IpAddr, u8)| Some(*own) == local;
        let (key, what) = if path.interface.as_ref() == Some(&tunnel.name) {
            ("interface", tunnel.name.clone())
        } else if let Some((own, _)) = tunnel.addresses.iter().find(|one| is_own(one)) {
            ("local", own.to_string())
        } else {
            continue;
        };
        return Err(section.mistake_at(
            section.get(key),
            format!(
                "path \"{}\" would lead through the tunnel itself: {what} is its own",
                path.name
            ),
            "name the uplink that the path is to take, or an address of it",
        ));
    }
    Ok(())
}

/// The metrics do not take the place of the control socket.
pub(super) fn metrics(config: &Config, section: Option<&Section<'_>>) -> Result<(), Mistake> {
    let socket = config.metrics.as_ref().and_then(|own| own.listen.socket());
    match section {
        Some(section) if socket == Some(&config.control.socket) => Err(section.mistake_at(
            section.get("listen"),
            format!(
                "the metrics and the control socket are both at {}",
                config.control.socket.display()
            ),
            "give the metrics another path, like \"/run/mpt/metrics\"",
        )),
        Some(_) | None => Ok(()),
    }
}

/// To a hub's paths peers call: it knows neither where from nor what each of their paths delivers.
pub(super) fn hub_paths(paths: &[Section<'_>], is_hub: bool) -> Result<(), Mistake> {
    fn stray<'a>(path: &Section<'a>) -> Option<Entry<'a>> {
        let keys = ["remote", "weight", "cost", "budget"];
        keys.into_iter().find_map(|key| path.get(key))
    }
    match paths.iter().find_map(stray).filter(|_| is_hub) {
        Some(entry) => Err(entry.mistake(
            format!(
                "`{}` does not go with [[peers]]: peers call here, on as many paths as each has",
                entry.key
            ),
            "remove it; a hub's path is an address where it may be reached, by name and local",
        )),
        None => Ok(()),
    }
}

/// Not all weights are 0.
pub(super) fn some_weight(paths: &[Section<'_>]) -> Result<(), Mistake> {
    let weights: Vec<Option<Entry<'_>>> = paths.iter().map(|path| path.get("weight")).collect();
    let zero = |weight: &Option<Entry<'_>>| weight.as_ref().is_some_and(Entry::is_zero);
    match weights.first() {
        Some(Some(first)) if weights.len() > 1 && weights.iter().all(zero) => Err(first.mistake(
            "every path has weight 0: the tunnel could carry nothing",
            format!(
                "give each path its relative share of bytes, 1 to {}",
                grouped((*WEIGHTS.end()).into())
            ),
        )),
        Some(_) | None => Ok(()),
    }
}

/// A path's weight is not 0.
pub(super) fn weight_not_zero(path: &Section<'_>, name: &str) -> Result<(), Mistake> {
    match path.get("weight").filter(Entry::is_zero) {
        Some(entry) => Err(entry.mistake(
            format!("path \"{name}\" has weight 0: it would carry nothing"),
            format!(
                "give it a weight from 1 to {}; to take a path out of service, run \
                 `mpt-ctl path down {name}`",
                grouped((*WEIGHTS.end()).into())
            ),
        )),
        None => Ok(()),
    }
}

/// A path's own values fit each other.
pub(super) fn path(path: &Path, section: &Section<'_>) -> Result<(), Mistake> {
    let at = |key| section.get(key);
    let address = path.remote.as_ref().and_then(Remote::address);
    let (local, remote) = (path.local.address, address.map(|remote| remote.ip()));
    if path.family().is_none() && path.remote.is_none() {
        return Err(section.mistake_at(
            at("interface"),
            format!(
                "path \"{}\" has neither `local` nor `remote`: nothing says whether it is IPv4 or IPv6",
                path.name
            ),
            "add local = \"0.0.0.0\" for IPv4, or local = \"::\" for IPv6: whatever address the device has",
        ));
    }
    if let (Some(local), Some(remote)) = (local, remote)
        && local.is_ipv4() != remote.is_ipv4()
    {
        return Err(section.mistake_at(
            at("remote"),
            format!(
                "path \"{}\" mixes IPv4 and IPv6: {local} and {remote}",
                path.name
            ),
            "give both ends an address of one family; another path may have the other",
        ));
    }
    if address.is_some() && address == local.map(|local| SocketAddr::new(local, path.local.port)) {
        return Err(section.mistake_at(
            at("remote"),
            format!("path \"{}\" leads to itself", path.name),
            "write the peer's address",
        ));
    }
    let mut ends = local.into_iter().chain(remote);
    let needs_device = ends.find(|address| endpoint::needs_device(*address));
    if let Some(address) = needs_device.filter(|_| path.interface.is_none()) {
        return Err(section.mistake_at(
            at(if Some(address) == local {
                "local"
            } else {
                "remote"
            }),
            format!("{address} says nothing without a device"),
            "add interface = \"eth0\", the device of this path, or write a full address",
        ));
    }
    if path.dead_after < 2 * path.keepalive {
        let (dead_after, keepalive) = (in_one_unit(path.dead_after), in_one_unit(path.keepalive));
        return Err(section.mistake_at(
            at("dead_after").or(at("keepalive")),
            format!("dead_after = {dead_after} is too short for keepalive = {keepalive}"),
            format!(
                "one lost probe would take the path down: write dead_after = \"{}\" or more, or a \
                 shorter keepalive",
                in_one_unit(2 * path.keepalive)
            ),
        ));
    }
    Ok(())
}

/// A path does not claim what an earlier one of the tunnel has.
pub(super) fn path_beside(
    earlier: &[Path],
    locals: &[Place],
    path: &Path,
    section: &Section<'_>,
    is_sealed: bool,
) -> Result<(), Mistake> {
    for (other, place) in earlier.iter().zip(locals) {
        if other.name == path.name {
            return Err(section.mistake_at(
                section.get("name"),
                format!("two paths are called \"{}\"", path.name),
                "give each path a name of its own",
            ));
        }
        // Two ways to the peer over one uplink, as IPv4 and IPv6.
        let may_move = path.may_move(is_sealed) && other.may_move(is_sealed);
        if same_socket(other, path) && (!may_move || other.remote == path.remote) {
            return Err(section.mistake_at(
                section.get("local").or(section.get("interface")),
                format!(
                    "paths \"{}\" (line {}) and \"{}\" have one local socket, {}",
                    other.name,
                    place.line,
                    path.name,
                    socket_of(path)
                ),
                another_port(path),
            ));
        }
        // A hub tells the paths of a sealed tunnel apart, wherever they lead.
        let remote = |path: &Path| path.remote.as_ref().and_then(Remote::address);
        if !is_sealed && let Some(shared) = remote(path).filter(|own| remote(other) == Some(*own)) {
            return Err(section.mistake_at(
                section.get("remote"),
                format!(
                    "paths \"{}\" (line {}) and \"{}\" lead to one socket of the peer, {shared}",
                    other.name, place.line, path.name
                ),
                "the peer could not tell them apart: give it a path for each, on ports of their own, \
                 and write the one of this path here",
            ));
        }
    }
    Ok(())
}

/// A tunnel does not claim what an earlier one of the daemon has.
pub(super) fn beside(
    earlier: &[(Config, Places)],
    config: Config,
    places: Places,
) -> Result<(Config, Places), Mistake> {
    let mistake = |place: Place, what: String, remedy: String| Mistake {
        file: config.file.clone(),
        place: Some(place),
        what,
        remedy,
    };
    if let Some(place) = places.user
        && let Some((other, _)) = earlier.iter().find(|(other, _)| other.user.is_some())
        && other.user != config.user
    {
        return Err(mistake(
            place,
            format!("`user` is another one than in {}", other.file.display()),
            "one daemon has one user: write the same, or leave it out of all files but one"
                .to_owned(),
        ));
    }
    for (other, theirs) in earlier {
        let told = |place: Place| format!("{}:{}", other.file.display(), place.line);
        if other.tunnel.name == config.tunnel.name {
            return Err(mistake(
                places.name,
                format!(
                    "the tunnel \"{}\" exists already in {}",
                    config.tunnel.name,
                    told(theirs.name)
                ),
                "give each tunnel a name of its own".to_owned(),
            ));
        }
        if other.control.socket == config.control.socket {
            return Err(mistake(
                places.socket,
                format!(
                    "the control socket {} is taken by {}",
                    config.control.socket.display(),
                    told(theirs.socket)
                ),
                format!(
                    "leave `socket` out, for /run/mpt/{}.sock, or write another path",
                    config.tunnel.name
                ),
            ));
        }
        if let (Some(own), Some(place)) = (&config.metrics, places.metrics) {
            let socket = own.listen.socket();
            if socket == Some(&other.control.socket) {
                return Err(mistake(
                    place,
                    format!(
                        "{} is the control socket of {}",
                        own.listen,
                        told(theirs.socket)
                    ),
                    "give the metrics another path, like \"/run/mpt/metrics\"".to_owned(),
                ));
            }
            if let (Some(shared), Some(theirs)) = (&other.metrics, theirs.metrics)
                && shared.listen == own.listen
                && (&shared.owner, shared.mode) != (&own.owner, own.mode)
            {
                return Err(mistake(
                    place,
                    format!(
                        "{} has another owner or mode in {}",
                        own.listen,
                        told(theirs)
                    ),
                    "write the same in both: tunnels of one daemon share a socket for metrics"
                        .to_owned(),
                ));
            }
        }
        if let Some(metrics) = &other.metrics
            && metrics.listen.socket() == Some(&config.control.socket)
        {
            return Err(mistake(
                places.socket,
                format!(
                    "the control socket {} is taken by the metrics of {}",
                    config.control.socket.display(),
                    theirs.metrics.map_or(String::new(), told)
                ),
                "give one of them another path".to_owned(),
            ));
        }
        for (path, place) in config.paths.iter().zip(&places.locals) {
            for (taken, theirs) in other.paths.iter().zip(&theirs.locals) {
                let may_move = path.may_move(config.crypto.is_some())
                    && taken.may_move(other.crypto.is_some());
                if same_socket(taken, path) && !may_move {
                    return Err(mistake(
                        *place,
                        format!(
                            "the local socket {} is taken by {}",
                            socket_of(path),
                            told(*theirs)
                        ),
                        another_port(path),
                    ));
                }
            }
        }
    }
    Ok((config, places))
}

/// Whether the kernel would refuse the second of two sockets: one port, and addresses of which one
/// covers the other, unless each is bound to a device of its own. Which address an interface will have
/// is not known here, but two paths that follow one interface will have the same.
fn same_socket(a: &Path, b: &Path) -> bool {
    let covers = match (a.local.address, b.local.address) {
        (Some(one), Some(other)) => one == other || one.is_unspecified() || other.is_unspecified(),
        (None, None) => true,
        (Some(one), None) | (None, Some(one)) => one.is_unspecified(),
    };
    let same_family = match (a.family(), b.family()) {
        (Some(one), Some(other)) => one == other,
        // IPv4 is preferred, so it will be the same at one time or another.
        (None, _) | (_, None) => true,
    };
    let apart = matches!((&a.interface, &b.interface), (Some(a), Some(b)) if a != b);
    a.local.port == b.local.port && same_family && covers && !apart
}

/// The path's local socket in words.
fn socket_of(path: &Path) -> String {
    match (path.local.address, &path.interface) {
        (None, Some(interface)) => format!("{} of {interface}", path.local),
        _ => path.local.to_string(),
    }
}

fn another_port(path: &Path) -> String {
    let port = if path.local.port == DEFAULT_PORT {
        DEFAULT_PORT + 1
    } else {
        DEFAULT_PORT
    };
    let example = match (path.local.address, path.family()) {
        (Some(address), _) => SocketAddr::new(address, port),
        (None, Some(Family::V6)) => SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port),
        (None, _) => SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port),
    };
    format!(
        "give one of them another port, like local = \"{example}\", and the same in the peer's `remote`, \
         if it has one"
    )
}

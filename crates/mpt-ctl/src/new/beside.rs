//! The tunnels whose files lie in the folders that are written to: what they have, a new one cannot have too.
//!
//! Only addresses and ports are looked at. A file that cannot be read as a configuration counts for nothing:
//! `mpt-tund --check` tells what is wrong with it.

use std::ffi::OsStr;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use mpt_core::endpoint::{DEFAULT_PORT, names_port, socket_address};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::network::Network;
use super::server::ServerAt;
use super::{End, NewError};

/// What the file of another tunnel says.
#[derive(Debug)]
pub(super) struct Neighbour {
    file: PathBuf,
    /// Its addresses inside, as they stand there.
    addresses: Vec<(String, Network)>,
    sockets: Vec<Socket>,
    /// Where its paths lead, as they stand there.
    remotes: Vec<String>,
}

/// A path's end at the host that the file is for.
#[derive(Debug)]
struct Socket {
    /// That of its interface where there is none.
    address: Option<IpAddr>,
    port: u16,
    interface: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Document {
    tunnel: TunnelSection,
    crypto: Option<IgnoredAny>,
    paths: Vec<PathSection>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TunnelSection {
    addresses: Vec<String>,
    port: Option<u16>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PathSection {
    local: Option<String>,
    remote: Option<String>,
    interface: Option<String>,
}

impl Neighbour {
    /// All tunnels of a folder but the one of that name, by name.
    pub(super) fn all(folder: &Path, name: &str) -> Vec<Neighbour> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        files.sort();
        let is_another = |file: &PathBuf| {
            file.extension() == Some(OsStr::new("toml"))
                && file.file_stem() != Some(OsStr::new(name))
        };
        let others = files.into_iter().filter(is_another);
        others.filter_map(Neighbour::read).collect()
    }

    fn read(file: PathBuf) -> Option<Neighbour> {
        let text = std::fs::read_to_string(&file).ok()?;
        let document: Document = toml::from_str(&text).ok()?;
        let port = document.tunnel.port;
        let is_sealed = document.crypto.is_some();
        let socket = |path: PathSection| Socket::of(path, port, is_sealed);
        let addresses = document.tunnel.addresses.into_iter();
        let remotes = document.paths.iter().filter_map(|path| path.remote.clone());
        Some(Neighbour {
            remotes: remotes.collect(),
            addresses: addresses
                .filter_map(|text| Network::of(&text).map(|network| (text, network)))
                .collect(),
            sockets: document.paths.into_iter().filter_map(socket).collect(),
            file,
        })
    }

    /// Whether it has a port of the server: at the server by its own paths, at the client by where they lead.
    fn takes(&self, server: &ServerAt, port: u16, end: End) -> bool {
        let called = &server.called;
        let leads_there = |remote: &String| {
            *remote == format!("{called}:{port}") || port == DEFAULT_PORT && remote == called
        };
        match end {
            End::Server => self.sockets.iter().any(|one| one.takes(server, port)),
            End::Client => self.remotes.iter().any(leads_there),
        }
    }
}

impl Socket {
    /// The socket of a path, unless mpt-tund takes another port for it where that one is taken.
    fn of(path: PathSection, tunnel_port: Option<u16>, is_sealed: bool) -> Option<Socket> {
        let local = path.local.as_deref();
        let may_move = is_sealed
            && path.remote.is_some()
            && !local.is_some_and(names_port)
            && tunnel_port.is_none();
        let port = tunnel_port.unwrap_or(DEFAULT_PORT);
        let named = local.and_then(|local| socket_address(local, port));
        (!may_move).then(|| Socket {
            address: named.map(|named| named.ip()),
            port: named.map_or(port, |named| named.port()),
            interface: path.interface,
        })
    }

    /// Whether the kernel would refuse the server's socket of that port beside this one.
    fn takes(&self, server: &ServerAt, port: u16) -> bool {
        let local = server.local;
        let covers = match self.address {
            Some(own) => {
                own.is_ipv4() == local.is_ipv4()
                    && (own == local || own.is_unspecified() || local.is_unspecified())
            }
            None => local.is_unspecified(),
        };
        let apart = matches!((&self.interface, &server.interface), (Some(own), Some(other)) if own != other);
        self.port == port && covers && !apart
    }
}

/// No neighbour has an address in the networks.
pub(super) fn check_networks(networks: &[Network], beside: &[Neighbour]) -> Result<(), NewError> {
    for network in networks {
        for one in beside {
            let mut addresses = one.addresses.iter();
            let Some((address, _)) = addresses.find(|(_, other)| other.overlaps(*network)) else {
                continue;
            };
            let all = beside.iter().flat_map(|one| &one.addresses);
            let mut taken: Vec<Network> = all.map(|(_, network)| *network).collect();
            taken.extend(networks);
            let example = network.next_apart(&taken);
            let example = example.map_or(String::new(), |one| {
                format!(", such as --inner {}", one.written())
            });
            return Err(NewError::Taken(format!(
                "--inner {}: {} has {address} already; give another network{example}",
                network.written(),
                one.file.display()
            )));
        }
    }
    Ok(())
}

/// No neighbour, at this end, has one of the server's ports, which are so many from `first` on.
pub(super) fn check_ports(
    server: &ServerAt,
    first: u16,
    count: usize,
    (beside, end): (&[Neighbour], End),
) -> Result<(), NewError> {
    let last = |first: u16| usize::from(first) + count - 1;
    let taken = |first: u16| {
        let ports = first..=u16::try_from(last(first)).unwrap_or(u16::MAX);
        ports.into_iter().find_map(|port| {
            let takes = |one: &&Neighbour| one.takes(server, port, end);
            beside.iter().find(takes).map(|one| (port, one))
        })
    };
    let Some((port, one)) = taken(first) else {
        return Ok(());
    };
    let fits = |first: &u16| last(*first) <= usize::from(u16::MAX) && taken(*first).is_none();
    let example = (first..=u16::MAX).find(fits);
    let example = example.map_or(String::new(), |port| format!(", such as --port {port}"));
    Err(NewError::Taken(format!(
        "--port {first}: {} has the server's port {port} already; give another one{example}",
        one.file.display()
    )))
}

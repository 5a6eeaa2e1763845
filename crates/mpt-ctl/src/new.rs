//! `mpt-ctl new`: both ends' files of a sealed tunnel, with fresh keys, and what to do with them.
//!
//! The commonest tunnel is a host with several uplinks, behind whatever NAT, and a server with one
//! address. What differs from one to the next are that address and the uplinks' devices, and these are
//! asked for; the rest follows. The client's paths are bound to their devices and have whatever address
//! those have; the server has a port for each path, and knows the client by its key, wherever it is.
//!
//! Run at the client, its own end lies ready in `/etc/mpt`, and the server's beside it in a folder to be
//! copied; run at the server, the other way round. Nothing is ever overwritten: a key that is gone is
//! gone. With `--clients` the server is a hub, and each client has a folder of its own.

mod beside;
mod ends;
mod host;
mod hub;
mod network;
mod server;

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use mpt_core::crypto::PrivateKey;
use mpt_core::endpoint::{DEFAULT_PORT, End as EndOfPath, is_host_name, needs_device, unusable};
use mpt_core::limits::RESERVED_INTERFACES;
use mpt_core::path::MAX_PATHS;
use serde::Serialize;
use thiserror::Error;
use zeroize::Zeroizing;

use crate::client::USAGE;
use crate::keys::{KeyFailure, random};
use beside::Neighbour;
use ends::Ends;
use network::Network;

/// Where the daemon looks for configurations.
const CONFIG_DIR: &str = "/etc/mpt";
/// Longest name of an interface, in bytes (IFNAMSIZ less the final 0).
const MAX_INTERFACE_BYTES: usize = 15;
/// Most clients: a hub has at most 65,536 peers.
const MAX_CLIENTS: i64 = 65_536;
/// Networks inside unless given.
const DEFAULT_INNER: &str = "10.99.0.0/30";
/// Longest name of a path, in bytes, as the configuration has it.
const MAX_PATH_NAME_BYTES: usize = 32;

/// What the tunnel is to be.
#[derive(Debug, Clone, Args)]
pub(crate) struct NewCommand {
    /// The server's address, or its name; IPv4 or IPv6
    #[arg(long, value_name = "ADDRESS")]
    server: String,

    /// The client's uplinks, one path each, such as eth0,wwan0 [default: the devices with a
    /// default route, when this host is the client]
    #[arg(long, value_name = "DEVICES", value_delimiter = ',')]
    client_interfaces: Vec<String>,

    /// Names of the paths, such as fibre,lte [default: the uplinks' devices]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    names: Vec<String>,

    /// What the server's sockets are bound to: its own address, where that is not the one that
    /// clients use (a cloud's NAT), or a device such as eth0 [default: the server's address]
    #[arg(long, value_name = "ADDRESS|DEVICE")]
    server_local: Option<String>,

    /// The tunnel's name, which is that of its interface
    #[arg(long, value_name = "NAME", default_value = "mpt0")]
    name: String,

    /// Makes the server a hub of so many clients, client-01 and so on
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=MAX_CLIENTS))]
    clients: Option<u32>,

    /// The server's UDP port for the first path; each further path has the next one, unless the server
    /// is a hub
    #[arg(long, default_value_t = DEFAULT_PORT, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,

    /// Networks inside the tunnel, IPv4 or IPv6; the client has the first address, the server the
    /// second; a hub has the first, its clients those behind it [default: 10.99.0.0/30, for a hub
    /// 10.99.0.0/16]
    #[arg(long, value_name = "PREFIXES", value_delimiter = ',')]
    inner: Vec<String>,

    /// Which end this host is [default: server if it has the server's address, else client]
    #[arg(long, value_name = "END")]
    here: Option<End>,

    /// Folder for this end's files; the other end's go into a folder of it, named for that end, and
    /// those of a hub's clients into clients/client-01 and so on
    #[arg(long, value_name = "FOLDER", default_value = CONFIG_DIR)]
    out: PathBuf,
}

/// One end of the tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum End {
    Client,
    Server,
}

impl End {
    fn name(self) -> &'static str {
        match self {
            End::Client => "client",
            End::Server => "server",
        }
    }

    fn other(self) -> End {
        match self {
            End::Client => End::Server,
            End::Server => End::Client,
        }
    }

    /// Its number among the hosts of a network inside.
    fn number(self) -> u32 {
        match self {
            End::Client => 0,
            End::Server => 1,
        }
    }
}

/// Why there is no new tunnel. Nothing was written, but for what the text names.
#[derive(Debug, Error)]
pub(crate) enum NewError {
    #[error(
        "cannot find the address of {name}: {source}; give --server-local, the address or device of the \
         server, or an address as --server"
    )]
    Lookup { name: String, source: io::Error },
    #[error(
        "this host is the server ({why}): say which devices the client's uplinks are, like \
         --client-interfaces eth0,wwan0"
    )]
    NoInterfaces { why: String },
    #[error(
        "this host has no default route, so its uplinks are not known: name the client's devices, like \
         --client-interfaces eth0,wwan0"
    )]
    NoUplinks,
    #[error("{0}")]
    Wrong(String),
    #[error(
        "{} is there already, and nothing is overwritten: remove it, or give another --name or --out",
        .0.display()
    )]
    Exists(PathBuf),
    #[error("{0}")]
    Taken(String),
    #[error(
        "cannot write {}: {source}; {}",
        file.display(),
        if source.kind() == io::ErrorKind::PermissionDenied {
            "run it as root (sudo mpt-ctl new …), or give --out"
        } else {
            "give another folder as --out"
        }
    )]
    Write { file: PathBuf, source: io::Error },
    #[error(transparent)]
    Key(#[from] KeyFailure),
}

impl NewError {
    /// What the program ends with.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            NewError::Wrong(_) => USAGE,
            NewError::Lookup { .. }
            | NewError::NoInterfaces { .. }
            | NewError::NoUplinks
            | NewError::Exists(_)
            | NewError::Taken(_)
            | NewError::Write { .. }
            | NewError::Key(_) => 1,
        }
    }
}

/// What was made and what to do now.
#[derive(Debug, Serialize)]
pub(crate) struct Made {
    /// Files of this end.
    pub(crate) here: Vec<PathBuf>,
    /// Files of the other end.
    pub(crate) there: Vec<PathBuf>,
    /// Commands to copy what is there to be copied.
    pub(crate) copy: Vec<String>,
    /// The command that starts an end.
    pub(crate) start: String,
    #[serde(skip)]
    text: String,
}

impl Made {
    /// All of it in words.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

/// A file to be written.
struct File {
    path: PathBuf,
    text: Zeroizing<String>,
    mode: u32,
}

/// Makes the files.
pub(crate) fn run(command: &NewCommand) -> Result<Made, NewError> {
    if let Some(clients) = command.clients {
        return hub::run(command, clients);
    }
    let ends = command.ends()?;
    let here = ends.here;
    let keys = [private_key()?, private_key()?];
    let there = command.out.join(here.other().name());
    for (end, folder) in [(here, &command.out), (here.other(), &there)] {
        let beside = Neighbour::all(folder, &command.name);
        beside::check_networks(&ends.inner, &beside)?;
        beside::check_ports(&ends.server, ends.port, ends.paths.len(), (&beside, end))?;
    }
    let mut files = Vec::new();
    for (end, folder) in [(here, &command.out), (here.other(), &there)] {
        let (own, peer) = match end {
            End::Client => (&keys[0], &keys[1]),
            End::Server => (&keys[1], &keys[0]),
        };
        files.push(File {
            path: folder.join(format!("{}.toml", command.name)),
            text: Zeroizing::new(ends.file(end, &peer.public_key())),
            mode: 0o644,
        });
        files.push(File {
            path: folder.join(format!("{}.key", command.name)),
            text: Zeroizing::new(format!("{}\n", *own.to_base64())),
            mode: 0o600,
        });
    }
    write_all(
        &files,
        &[(command.out.clone(), 0o755), (there.clone(), 0o700)],
    )?;
    let paths = |files: &[File]| files.iter().map(|file| file.path.clone()).collect();
    let mut made = Made {
        here: paths(&files[..2]),
        there: paths(&files[2..]),
        copy: command.copying(here, &files),
        start: "sudo systemctl enable --now mpt".to_owned(),
        text: String::new(),
    };
    made.text = ends.told(&made, command);
    Ok(made)
}

fn private_key() -> Result<PrivateKey, KeyFailure> {
    Ok(PrivateKey::from_random(*random()?))
}

impl NewCommand {
    /// What the command line alone can get wrong.
    pub(crate) fn check(&self) -> Result<(), String> {
        let interface = |what: &str, name: &str| match is_name(name, MAX_INTERFACE_BYTES) {
            true => Ok(()),
            false => Err(format!(
                "{what} {name:?}: give a device as `ip link` names it, such as eth0"
            )),
        };
        if !is_name(&self.name, MAX_INTERFACE_BYTES) {
            return Err(format!(
                "--name {:?}: use 1 to {MAX_INTERFACE_BYTES} letters, digits, '-', '_' or '.', such as mpt0",
                self.name
            ));
        }
        if RESERVED_INTERFACES.contains(&&*self.name) {
            return Err(format!(
                "--name {}: the kernel keeps that name for itself; use another, such as mpt0",
                self.name
            ));
        }
        for device in &self.client_interfaces {
            interface("--client-interfaces", device)?;
            if is_dotted_number(device) {
                return Err(format!(
                    "--client-interfaces {device:?}: this is no device; give one as `ip link` names it, such as \
                     eth0, which has whatever address it has"
                ));
            }
            if *device == self.name {
                return Err(format!(
                    "--client-interfaces: {device} is the tunnel's own interface; name the uplinks, or give the \
                     tunnel another --name"
                ));
            }
        }
        self.check_server_local()?;
        if self.client_interfaces.len() > MAX_PATHS {
            return Err(format!(
                "--client-interfaces: a tunnel has at most {MAX_PATHS} paths"
            ));
        }
        if let Some(twice) = repeated(&self.client_interfaces) {
            return Err(format!("--client-interfaces: {twice} is named twice"));
        }
        if let Some(name) = self
            .names
            .iter()
            .find(|name| !is_name(name, MAX_PATH_NAME_BYTES))
        {
            return Err(format!(
                "--names {name:?}: use letters, digits, '-', '_' or '.', such as fibre"
            ));
        }
        if let Some(twice) = repeated(&self.names) {
            return Err(format!("--names: {twice} is named twice"));
        }
        self.check_server()?;
        if let (Some(address), Some(local)) = (self.server_address(), self.server_local_address())
            && address.is_ipv6() != local.is_ipv6()
        {
            return Err(format!(
                "--server {address} --server-local {local}: one is IPv4, the other IPv6, and they never meet; \
                 give both of one kind, or the server's device as --server-local"
            ));
        }
        if self.clients.is_some() {
            return Ok(());
        }
        self.inner_networks().map(drop)
    }

    /// The server is an address or a name that a client's file may have.
    fn check_server(&self) -> Result<(), String> {
        let Some(address) = self.server_address() else {
            return match is_host_name(&self.server) {
                true => Ok(()),
                false => Err(format!(
                    "--server {:?}: give an address or a name without a port, such as 203.0.113.7; the port is \
                     --port",
                    self.server
                )),
            };
        };
        if let Some(why) = unusable(address, EndOfPath::Remote) {
            return Err(format!(
                "--server {address} {why}: give the address that clients call the server at"
            ));
        }
        let has_device = self.server_local.is_some() && self.server_local_address().is_none();
        if needs_device(address) && !has_device {
            return Err(format!(
                "--server {address} says nothing without a device: give the server's device as --server-local, \
                 or another address"
            ));
        }
        Ok(())
    }

    /// The server's sockets can be bound to what is given for them.
    fn check_server_local(&self) -> Result<(), String> {
        let Some(local) = &self.server_local else {
            return Ok(());
        };
        let remedy = "give an address that the server itself has, or its device, such as eth0";
        if let Some(address) = self.server_local_address() {
            let why = unusable(address, EndOfPath::Remote);
            let why = why.or(needs_device(address).then_some("says nothing without a device"));
            return match why {
                Some(why) => Err(format!("--server-local {address} {why}: {remedy}")),
                None => Ok(()),
            };
        }
        if is_dotted_number(local) || !is_name(local, MAX_INTERFACE_BYTES) {
            return Err(format!(
                "--server-local {local:?}: this is neither an address nor a device; {remedy}"
            ));
        }
        if *local == self.name {
            return Err(format!(
                "--server-local: {local} is the tunnel's own interface; {remedy}"
            ));
        }
        Ok(())
    }

    fn server_address(&self) -> Option<IpAddr> {
        let bare = self.server.trim_start_matches('[').trim_end_matches(']');
        bare.parse().ok()
    }

    fn server_local_address(&self) -> Option<IpAddr> {
        self.server_local.as_ref()?.parse().ok()
    }

    /// The networks inside a tunnel with two ends.
    fn inner_networks(&self) -> Result<Vec<Network>, String> {
        let default = [DEFAULT_INNER.to_owned()];
        let texts = match &self.inner[..] {
            [] => &default,
            given => given,
        };
        let mut networks: Vec<Network> = Vec::new();
        for text in texts {
            let network = Network::parse(text).ok_or_else(|| {
                format!(
                    "--inner {text}: give a network with room for two hosts, such as 10.99.0.0/30 or \
                     fd00:99::/64"
                )
            })?;
            network.check_hosts(text)?;
            network.check_apart(text, &networks)?;
            networks.push(network);
        }
        Ok(networks)
    }

    /// The name of each device's path.
    fn paths(&self, devices: Vec<String>) -> Result<Vec<(String, String)>, NewError> {
        let names = match self.names.len() {
            0 => devices.clone(),
            count if count == devices.len() => self.names.clone(),
            count => {
                return Err(NewError::Wrong(format!(
                    "{count} --names for {} uplinks ({}): give one for each",
                    devices.len(),
                    devices.join(", ")
                )));
            }
        };
        Ok(std::iter::zip(names, devices).collect())
    }

    /// All that the files say.
    fn ends(&self) -> Result<Ends, NewError> {
        let server = self.server_at()?;
        let here = self.here.unwrap_or(match server.is_here() {
            true => End::Server,
            false => End::Client,
        });
        let mut devices = self.client_interfaces.clone();
        if devices.is_empty() {
            if here == End::Server {
                return Err(NewError::NoInterfaces {
                    why: match self.here {
                        Some(_) => "--here server".to_owned(),
                        None if host::has(server.local) => {
                            format!("it has the address {}", server.local)
                        }
                        None => format!("it has the address {}", server.address),
                    },
                });
            }
            devices = host::uplinks(server.address.is_ipv6());
            devices.truncate(MAX_PATHS);
        }
        if devices.is_empty() {
            return Err(NewError::NoUplinks);
        }
        let last = usize::from(self.port) + devices.len() - 1;
        if last > usize::from(u16::MAX) {
            return Err(NewError::Wrong(format!(
                "--port {}: {} paths need as many ports, and the last is {}",
                self.port,
                devices.len(),
                u16::MAX
            )));
        }
        let inner = self.inner_networks().map_err(NewError::Wrong)?;
        inner
            .iter()
            .try_for_each(|network| network.check_outside(&server))?;
        Ok(Ends {
            here,
            name: self.name.clone(),
            paths: self.paths(devices)?,
            server,
            uplinks_found: self.client_interfaces.is_empty(),
            port: self.port,
            inner,
        })
    }

    /// The commands that bring the files, this end's two and the other's, to where they belong.
    fn copying(&self, here: End, files: &[File]) -> Vec<String> {
        let mut commands = Vec::new();
        let (own, others) = files.split_at(2);
        // What lies in the daemon's folder is root's.
        let in_place = self.out == Path::new(CONFIG_DIR);
        if !in_place {
            commands.push(format!("sudo cp -p {} {CONFIG_DIR}/", listed(own)));
        }
        let host = match here {
            End::Server => "CLIENT".to_owned(),
            End::Client => match self.server_address() {
                Some(IpAddr::V6(address)) => format!("[{address}]"),
                Some(IpAddr::V4(_)) | None => self.server.clone(),
            },
        };
        commands.push(format!(
            "{}scp -p {} root@{host}:{CONFIG_DIR}/",
            if in_place { "sudo " } else { "" },
            listed(others)
        ));
        commands
    }
}

/// Files as a command has them: each by its name, since the shell that would make names of a pattern may
/// not be let into the folder.
fn listed(files: &[File]) -> String {
    let paths = files.iter().map(|file| file.path.display().to_string());
    paths.collect::<Vec<_>>().join(" ")
}

/// Letters, digits, '-', '_' or '.', a letter or digit first, as the configuration has it.
fn is_name(text: &str, longest: usize) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=longest).contains(&text.len())
        && text.chars().all(allowed)
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
}

/// Whether a device's name looks like an address that was meant.
fn is_dotted_number(text: &str) -> bool {
    text.contains('.') && text.chars().all(|c| c.is_ascii_digit() || c == '.')
}

fn repeated(names: &[String]) -> Option<&String> {
    let mut names = names.iter().enumerate();
    let all: Vec<&String> = names.clone().map(|(_, name)| name).collect();
    names.find_map(|(at, name)| all[..at].contains(&name).then_some(name))
}

/// Writes the files into folders, which are made with their modes where they are missing. What is there stays.
fn write_all(files: &[File], folders: &[(PathBuf, u32)]) -> Result<(), NewError> {
    if let Some(known) = files
        .iter()
        .find(|file| file.path.symlink_metadata().is_ok())
    {
        return Err(NewError::Exists(known.path.clone()));
    }
    for (folder, mode) in folders {
        let mut builder = DirBuilder::new();
        let made = builder.recursive(true).mode(*mode).create(folder);
        made.map_err(|source| NewError::Write {
            file: folder.clone(),
            source,
        })?;
    }
    for (at, file) in files.iter().enumerate() {
        if let Err(source) = write_new(file) {
            for made in &files[..at] {
                // The first error says more than that of tidying up would.
                let _ = std::fs::remove_file(&made.path);
            }
            let file = file.path.clone();
            return Err(match source.kind() == io::ErrorKind::AlreadyExists {
                true => NewError::Exists(file),
                false => NewError::Write { file, source },
            });
        }
    }
    Ok(())
}

fn write_new(file: &File) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let options = options.write(true).create_new(true).mode(file.mode);
    let mut opened = options.open(&file.path)?;
    opened.write_all(file.text.as_bytes())?;
    opened.sync_all()
}

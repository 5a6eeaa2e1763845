//! The configuration: one TOML file is one tunnel.
//!
//! A file goes through three hands. `document` parses the text into a tree that remembers where
//! everything stands and refuses what no section knows; `parse` turns each section into types that
//! cannot be wrong (an address with its port, a time, a name that the kernel takes), defaults
//! filled in; `validate` looks at what only several values together can get wrong, within a file and
//! between the files of one daemon. What comes out is a [`Config`] that the daemon may use without
//! a question, and every way out on the road is a [`Mistake`] that names file, line, column and
//! remedy. All of it happens before anything is opened, so `--check` needs no privileges but
//! to read the files.
//!
//! `save` goes the other way: settings that were changed while the tunnel ran are written into the
//! file, around its comments. `difference` says what a reload has to do.
//!
//! Every key works or is not there. A later part adds one by a field here, its name in a schema in
//! `parse`, and a line in docs/configuration.md.

mod budget;
mod classes;
mod crypto;
mod difference;
mod document;
mod entry;
mod files;
mod hooks;
mod metrics;
mod parse;
mod peers;
mod peers_dir;
mod regular;
mod remote;
mod reorder;
mod replace;
mod roster;
mod save;
mod section;
mod unused;
mod validate;
mod values;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path as FilePath, PathBuf};
use std::time::Duration;

use crate::control::Owner;
use mpt_core::send::scheduler::Policy;
use mpt_core::tunnel::ReorderSettings;

pub(crate) use budget::Budget;
pub(crate) use classes::Class;
pub(crate) use crypto::Crypto;
pub(crate) use difference::{Changes, difference};
pub(crate) use document::Mistake;
pub(crate) use files::{Files, Opened};
pub(crate) use hooks::{Hook, Hooks};
pub(crate) use metrics::{Listen, Metrics};
pub(crate) use mpt_core::endpoint::DEFAULT_PORT;
pub(crate) use mpt_io::Offload;
pub(crate) use peers::{MAX_ALLOWED, MAX_PEERS, Origin, Peer};
pub(crate) use peers_dir::PeersDir;
pub(crate) use remote::Remote;
pub(crate) use replace::replace;
pub(crate) use roster::{PeerChange, Roster};
pub(crate) use save::{SaveError, replace_settings, save};
pub(crate) use unused::Unused;
pub(crate) use values::{is_name as is_path_name, network_of};

/// Weight of a path that names none.
pub(crate) const DEFAULT_WEIGHT: u32 = 100;
/// Most tunnels in one daemon.
pub(crate) const MAX_TUNNELS: usize = 64;
/// Mode of the control socket unless configured.
pub(crate) const DEFAULT_SOCKET_MODE: u32 = 0o600;
/// Most workers of a hub: threads for 128 cores. (A TUN has at most 256 queues, Linux's MAX_TAP_QUEUES.)
const MOST_WORKERS: usize = 64;
/// Largest configuration file, in bytes.
const MAX_FILE_BYTES: u64 = 32 * 1024 * 1024;

/// The configuration of one tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Config {
    /// The file that it was read from.
    pub(crate) file: PathBuf,
    /// Whom the daemon becomes once it runs.
    pub(crate) user: Option<Owner>,
    /// The tunnel as such.
    pub(crate) tunnel: Tunnel,
    /// How the receiving side keeps order.
    pub(crate) reorder: ReorderSettings,
    /// The keys, when packets are sealed.
    pub(crate) crypto: Option<Crypto>,
    /// Whom a hub serves; none where the tunnel has two ends.
    pub(crate) peers: Option<Roster>,
    /// Where peers have files of their own: their folder.
    pub(crate) peers_dir: Option<PeersDir>,
    /// Whether lost packets are sent again.
    pub(crate) recovery: Recovery,
    /// The control socket.
    pub(crate) control: Control,
    /// Commands that are run when something happens.
    pub(crate) hooks: Hooks,
    /// Where the numbers can be had by others, if at all.
    pub(crate) metrics: Option<Metrics>,
    /// The paths, in the order of the file: 1 to [`mpt_core::limits::MAX_PATHS`], names and local sockets distinct.
    pub(crate) paths: Vec<Path>,
    /// The classes, in the order of the file.
    pub(crate) classes: Vec<Class>,
    /// Keys of the file that have no effect beside the others.
    pub(crate) unused: Unused,
}

/// Section `[tunnel]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tunnel {
    /// The TUN interface, a name that the kernel accepts.
    pub(crate) name: String,
    /// Addresses of the interface with their prefix lengths, without repetition.
    pub(crate) addresses: Vec<(IpAddr, u8)>,
    /// Prefixes reached through the tunnel, host bits zero, without repetition.
    pub(crate) routes: Vec<(IpAddr, u8)>,
    /// MTU of the interface in bytes, if it is given; [`Config::mtu`] has the one to use.
    pub(crate) mtu: Option<u16>,
    /// Local UDP port of paths that name none (already part of each path's [`Local`]).
    pub(crate) port: u16,
    /// GRE key, sent and expected when given (RFC 2890 §2.1).
    pub(crate) key: Option<u32>,
    /// How packets are shared among paths.
    pub(crate) scheduler: Policy,
    /// Whether TCP handshakes are made to ask for segments that fit.
    pub(crate) clamps_mss: bool,
    /// Whether super-packets and trains are used.
    pub(crate) offload: Offload,
    /// Who sees to it that the tunnel's own packets leave as they should.
    pub(crate) routing: Routing,
    /// Folder of what is to be known after a restart, if it is given.
    pub(crate) state_dir: Option<PathBuf>,
    /// Workers of a hub, if it is given; [`Config::workers`] has how many there are.
    pub(crate) workers: Option<u8>,
}

/// Who sees to it that the tunnel's own packets stay out of the tunnel, and that each path leaves by its
/// own device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Routing {
    /// The daemon, by rules of policy routing and tables of its own.
    #[default]
    Auto,
    /// The host's administrator.
    Off,
}

impl Routing {
    /// The name in the configuration.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Routing::Auto => "auto",
            Routing::Off => "off",
        }
    }
}

/// Section `[recovery]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Recovery {
    /// Toward peers that report what arrives.
    #[default]
    Auto,
    /// Never.
    Off,
}

impl Recovery {
    /// The name in the configuration.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Recovery::Auto => "auto",
            Recovery::Off => "off",
        }
    }
}

/// Section `[control]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Control {
    /// Path name of the Unix socket that `mpt-ctl` talks to; absolute.
    pub(crate) socket: PathBuf,
    /// Whose it is, if not the daemon's.
    pub(crate) owner: Option<Owner>,
    /// Its mode: bits of 0666.
    pub(crate) mode: u32,
}

/// One of `[[paths]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Path {
    /// The path's name, unique in the tunnel.
    pub(crate) name: String,
    /// Local socket.
    pub(crate) local: Local,
    /// The peer's socket. Only a sealed tunnel can do without: it learns it from the peer.
    pub(crate) remote: Option<Remote>,
    /// Device that the socket is bound to.
    pub(crate) interface: Option<String>,
    /// Relative share of bytes, in [`mpt_core::limits::WEIGHTS`].
    pub(crate) weight: u32,
    /// Probe interval, 10 ms to 60 s.
    pub(crate) keepalive: Duration,
    /// Silence after which the path is down; at least two probe intervals.
    pub(crate) dead_after: Duration,
    /// Bytes cost money.
    pub(crate) metered: bool,
    /// What they cost: cheaper paths are used first.
    pub(crate) cost: u32,
    /// How many there may be in a month.
    pub(crate) budget: Option<Budget>,
}

impl Path {
    /// Whether its socket may have any port, as its peer follows, where the tunnel is sealed.
    pub(crate) fn may_move(&self, is_sealed: bool) -> bool {
        is_sealed && self.remote.is_some() && !self.local.port_is_given
    }
}

/// This host's end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Local {
    /// The address; unspecified only where `interface` is given. Without one, for which there must be an
    /// `interface`, it is one that the interface has.
    pub(crate) address: Option<IpAddr>,
    /// UDP port.
    pub(crate) port: u16,
    /// The file names the port, here or for the tunnel.
    pub(crate) port_is_given: bool,
}

/// As `ADDRESS:PORT`, or what there is of it.
impl fmt::Display for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(address) => SocketAddr::new(address, self.port).fmt(f),
            None => write!(f, "port {}", self.port),
        }
    }
}

/// An address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// That of an address.
    pub(crate) fn of(address: IpAddr) -> Family {
        if address.is_ipv4() {
            Family::V4
        } else {
            Family::V6
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        })
    }
}

impl Path {
    /// The family of both ends' addresses, as far as the file decides it: a peer that is known by a name
    /// may have either.
    pub(crate) fn family(&self) -> Option<Family> {
        let remote = || Some(self.remote.as_ref()?.address()?.ip());
        self.local.address.or_else(remote).map(Family::of)
    }

    /// The peer's name, if it is known by one.
    pub(crate) fn host(&self) -> Option<&str> {
        match self.remote.as_ref()? {
            Remote::Name { host, .. } => Some(host),
            Remote::Address(_) => None,
        }
    }
}

impl Config {
    /// Whether lost packets are sent again. With any scheduler but the adaptive one it is the paths'
    /// own queues that slow the flows down, and what those drop has to reach the flows.
    pub(crate) fn recovers(&self) -> bool {
        self.recovery != Recovery::Off && self.tunnel.scheduler == Policy::Adaptive
    }

    /// The Unix sockets that it names: path, owner and mode of each.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = (&FilePath, Option<&Owner>, u32)> {
        let control = &self.control;
        let metrics = self.metrics.iter().filter_map(|metrics| {
            let socket = metrics.listen.socket()?;
            Some((socket, metrics.owner.as_ref(), metrics.mode))
        });
        let control = (&*control.socket, control.owner.as_ref(), control.mode);
        std::iter::once(control).chain(metrics)
    }

    /// Folder of what is to be known after a restart: as configured, or as systemd gives it (`StateDirectory=`), or
    /// that of the file.
    pub(crate) fn state_dir(&self) -> PathBuf {
        let given = std::env::var_os("STATE_DIRECTORY");
        let given = given.and_then(|folders| std::env::split_paths(&folders).next());
        let beside = || self.file.parent().map(FilePath::to_owned);
        let configured = self.tunnel.state_dir.clone();
        configured.or(given).or_else(beside).unwrap_or_default()
    }

    /// The path of that name.
    pub(crate) fn path(&self, name: &str) -> Option<&Path> {
        self.paths.iter().find(|path| path.name == name)
    }

    /// Keeps the peers that run where a file of their own has a mistake now, or the folder of these files cannot be read.
    pub(crate) fn keep_peers_of(&mut self, running: &Config) {
        let (Some(dir), Some(peers)) = (&mut self.peers_dir, &mut self.peers) else {
            return;
        };
        if let Some(former) = &running.peers_dir {
            dir.keep_unread(former);
        }
        *peers = peers.without_files();
        dir.settle_all(peers, running.peers.as_ref());
    }

    /// What an operator should mend though the tunnel runs; each ends in what to do.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = String> {
        let one = |mistake: &Mistake| {
            let (what, remedy) = (&mistake.what, &mistake.remedy);
            format!("{}: warning: {what}; {remedy}", mistake.file_and_place())
        };
        self.unused.0.iter().map(one)
    }

    /// What is wrong with files of single peers.
    pub(crate) fn peer_mistakes(&self) -> impl Iterator<Item = &Mistake> {
        self.peers_dir.iter().flat_map(PeersDir::mistakes)
    }

    /// Reads and checks one file.
    ///
    /// # Errors
    /// The file cannot be read, or the first mistake in it.
    pub(crate) fn read_from(file: &FilePath, files: &Files) -> Result<Config, Mistake> {
        parse::file(file, files).map(|(config, _)| config)
    }

    /// The same of a file that this process may read.
    #[cfg(test)]
    pub(crate) fn read(file: &FilePath) -> Result<Config, Mistake> {
        Config::read_from(file, &Files::Own)
    }

    /// Pairs of lines that share a hub's peers: a thread a core, where the file does not say.
    pub(crate) fn workers(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let pairs = || (cores() / 2).clamp(1, MOST_WORKERS);
        match &self.peers {
            Some(_) => self.tunnel.workers.map_or_else(pairs, usize::from),
            None => 1,
        }
    }

    /// MTU of the TUN interface in bytes: the one configured, else what fits 1500-byte paths, over IPv6
    /// where the file leaves that open. The
    /// overhead is 20 (IPv4) or 40 (IPv6) + 8 (UDP) + 8 (GRE with sequence number) + 4 with a key, or
    /// + 22 when packets are sealed.
    pub(crate) fn mtu(&self) -> u16 {
        let outer = if self
            .paths
            .iter()
            .all(|path| path.family() == Some(Family::V4))
        {
            20
        } else {
            40
        };
        let gre = match (&self.crypto, self.tunnel.key) {
            (Some(_), _) => mpt_core::crypto::DATA_OVERHEAD as u16,
            (None, Some(_)) => 12,
            (None, None) => 8,
        };
        self.tunnel.mtu.unwrap_or(1500 - outer - 8 - gre)
    }
}

/// What reading all configurations of a daemon brought: the good ones and what is wrong with the
/// others. The daemon starts only when nothing is wrong.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    /// Tunnels without a mistake, in the order of the arguments and of the folders' names.
    pub(crate) configs: Vec<Config>,
    /// Mistakes, at most one a file.
    pub(crate) mistakes: Vec<Mistake>,
}

impl Loaded {
    /// Why none of it can be followed, on one line; none where nothing is wrong.
    pub(crate) fn refusal(&self) -> Option<String> {
        let first = self.mistakes.first()?;
        let (what, remedy) = (&first.what, &first.remedy);
        let first = format!("{}: {what}; {remedy}", first.file_and_place());
        Some(match self.mistakes.len() - 1 {
            0 => first,
            more => format!("{first} (and {more} more, which `mpt-tund --check` lists)"),
        })
    }
}

/// Reads all configurations: each argument is a file, or a folder whose `*.toml` are read in the
/// order of their names (hidden files are not). A file that is named twice is read once.
pub(crate) fn load(arguments: &[PathBuf]) -> Loaded {
    load_from(list(arguments), &Files::Own)
}

/// Which files the arguments stand for, and what is wrong with these.
pub(crate) fn list(arguments: &[PathBuf]) -> (Vec<PathBuf>, Vec<Mistake>) {
    let mut mistakes = Vec::new();
    let mut files = Vec::new();
    for argument in arguments {
        match files_of(argument) {
            Ok(found) => files.extend(found),
            Err(mistake) => mistakes.push(mistake),
        }
    }
    let mut seen = Vec::new();
    files.retain(|file| {
        let known_as = file.canonicalize().unwrap_or_else(|_| file.clone());
        let new = !seen.contains(&known_as);
        seen.push(known_as);
        new
    });
    if let Some(extra) = files.get(MAX_TUNNELS) {
        mistakes.push(Mistake {
            file: extra.clone(),
            place: None,
            what: format!("one tunnel too many: {} files", files.len()),
            remedy: format!("one daemon runs at most {MAX_TUNNELS} tunnels, start another one"),
        });
        files.truncate(MAX_TUNNELS);
    }
    (files, mistakes)
}

/// Reads the files of a [`list`].
pub(crate) fn load_from(list: (Vec<PathBuf>, Vec<Mistake>), from: &Files) -> Loaded {
    let (files, mistakes) = list;
    let mut loaded = Loaded {
        mistakes,
        ..Loaded::default()
    };
    let mut accepted = Vec::new();
    for file in files {
        let read = parse::file(&file, from)
            .and_then(|(config, places)| validate::beside(&accepted, config, places));
        match read {
            Ok(tunnel) => accepted.push(tunnel),
            Err(mistake) => loaded.mistakes.push(mistake),
        }
    }
    loaded.configs = accepted.into_iter().map(|(config, _)| config).collect();
    loaded
}

/// The file itself, or the `*.toml` of a folder.
fn files_of(argument: &FilePath) -> Result<Vec<PathBuf>, Mistake> {
    let trouble = |what: String, remedy: &str| Mistake {
        file: argument.to_owned(),
        place: None,
        what,
        remedy: remedy.to_owned(),
    };
    let unreadable = |error: std::io::Error| {
        trouble(
            format!("cannot be read: {error}"),
            if error.kind() == std::io::ErrorKind::NotFound {
                "create it, one .toml file for each tunnel, or name another file or folder with \
                 --config"
            } else {
                "make it readable for the user that runs mpt-tund"
            },
        )
    };
    if !argument.metadata().map_err(unreadable)?.is_dir() {
        return Ok(vec![argument.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in argument.read_dir().map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        let hidden = file
            .file_name()
            .is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
        if !hidden
            && file
                .extension()
                .is_some_and(|extension| extension == "toml")
        {
            files.push(file);
        }
    }
    if files.is_empty() {
        return Err(trouble(
            "there is no .toml file in this folder".to_owned(),
            "put one .toml file for each tunnel there; docs/configuration.md has the keys",
        ));
    }
    files.sort();
    Ok(files)
}

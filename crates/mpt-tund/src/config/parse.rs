//! A file's sections into a [`Config`]: keys, defaults and ranges.

use std::io::Read as _;
use std::ops::RangeInclusive;
use std::path::Path as FilePath;
use std::time::Duration;

use mpt_core::endpoint::End;
use mpt_core::limits::{MAX_PATHS, RESERVED_INTERFACES, WEIGHTS};
use mpt_core::send::scheduler::Policy;

use super::budget::{self, budget};
use super::classes::classes;
use super::crypto::crypto;
use super::document::{Mistake, Place, Source};
use super::entry::Entry;
use super::files::Files;
use super::hooks::{Hooks, hooks};
use super::metrics::metrics;
use super::peers::{MAX_PEERS, peers};
use super::peers_dir::PeersDir;
use super::reorder::reorder;
use super::section::{Schema, Section, USER};
use super::unused::{Sections, Unused};
use super::validate::Places;
use super::values::{self, PrefixKind};
use super::{
    Config, Control, DEFAULT_PORT, DEFAULT_SOCKET_MODE, DEFAULT_WEIGHT, Local, MAX_FILE_BYTES,
    MOST_WORKERS, Offload, Path, Recovery, Routing, Tunnel, remote, validate,
};

/// Most addresses, and most routes, of a tunnel.
const MAX_PREFIXES: usize = 1024;
/// MTU of a TUN interface, in bytes. The least is what every IPv4 host takes (RFC 791 §3.2).
const MTU_RANGE: RangeInclusive<u64> = 576..=65_000;
/// Workers of a hub.
const WORKERS: RangeInclusive<u64> = 1..=MOST_WORKERS as u64;
const KEEPALIVE_RANGE: RangeInclusive<Duration> =
    Duration::from_millis(10)..=Duration::from_secs(60);
const DEAD_AFTER_RANGE: RangeInclusive<Duration> =
    Duration::from_millis(20)..=Duration::from_secs(600);

const FILE: Schema = Schema {
    title: "",
    keys: &[
        "tunnel", "reorder", "recovery", "crypto", "control", "hooks", "metrics", "paths",
        "classes", "peers", USER,
    ],
};
const TUNNEL: Schema = Schema {
    title: "[tunnel]",
    keys: &[
        "name",
        "addresses",
        "routes",
        "mtu",
        "port",
        "key",
        "scheduler",
        "offload",
        "clamp_mss",
        "routing",
        "state_dir",
        "peers_dir",
        "workers",
    ],
};
const REORDER: Schema = Schema {
    title: "[reorder]",
    keys: &["mode", "window", "max_buffer_delay", "late", "block_size"],
};
const CRYPTO: Schema = Schema {
    title: "[crypto]",
    keys: &["private_key_file", "peer_public_key", "psk_file"],
};
const RECOVERY: Schema = Schema {
    title: "[recovery]",
    keys: &["mode"],
};
const CONTROL: Schema = Schema {
    title: "[control]",
    keys: &["socket", "owner", "mode"],
};
const HOOKS: Schema = Schema {
    title: "[hooks]",
    keys: &["on_up", "on_down", "on_path_change"],
};
const METRICS: Schema = Schema {
    title: "[metrics]",
    keys: &["listen", "owner", "mode"],
};
const PATHS: Schema = Schema {
    title: "[[paths]]",
    keys: &[
        "name",
        "local",
        "remote",
        "interface",
        "weight",
        "keepalive",
        "dead_after",
        "metered",
        "cost",
        "budget",
        "reset_day",
        "at_budget",
    ],
};
pub(super) const CLASSES: Schema = Schema {
    title: "[[classes]]",
    keys: &["name", "match", "paths", "policy", "priority", "copies"],
};
pub(super) const MATCH: Schema = Schema {
    title: "`match` of [[classes]]",
    keys: &["dscp", "ports", "to"],
};
pub(super) const PEERS: Schema = Schema {
    title: "[[peers]]",
    keys: &[
        "name",
        "public_key",
        "allowed_ips",
        "psk_file",
        "rate_limit",
    ],
};
pub(super) const ALL: [Schema; 12] = [
    FILE, TUNNEL, REORDER, RECOVERY, CRYPTO, CONTROL, HOOKS, METRICS, PATHS, CLASSES, MATCH, PEERS,
];

/// Reads and checks one file.
pub(super) fn file(file: &FilePath, files: &Files) -> Result<(Config, Places), Mistake> {
    let text = read(file, files)?;
    let text = &text;
    parse(Source { file, text, files })
}

/// Reads a file of bounded size as text.
pub(super) fn read(file: &FilePath, files: &Files) -> Result<String, Mistake> {
    let trouble = |what: String, remedy: &str| Mistake {
        file: file.to_owned(),
        place: None,
        what,
        remedy: remedy.to_owned(),
    };
    let mut bytes = Vec::new();
    files
        .open(file, MAX_FILE_BYTES)
        .and_then(|opened| opened.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| {
            if error.kind() == std::io::ErrorKind::FileTooLarge {
                return trouble(
                    "is too large for a configuration".to_owned(),
                    "a configuration has at most 32 MiB",
                );
            }
            trouble(
                format!("cannot be read: {error}"),
                "make it a file that the user who runs mpt-tund can read",
            )
        })?;
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let text = String::from_utf8_lossy(&error.as_bytes()[..valid]);
        let text = &text;
        Source { file, text, files }.mistake(
            &(valid..valid),
            "this is not text in UTF-8",
            "save the file in UTF-8",
        )
    })
}

/// Parses and checks the text of one file.
pub(super) fn parse(source: Source<'_>) -> Result<(Config, Places), Mistake> {
    let tree = source.parse()?;
    let root = Section::open(source, FILE, tree.get_ref(), 0..0, &ALL)?;

    let head = root.get("tunnel").ok_or_else(|| {
        root.mistake(
            "there is no [tunnel] section",
            "add [tunnel] with name = \"mpt0\"",
        )
    })?;
    let head = Section::of(head, TUNNEL, &ALL)?;
    let (mut tunnel, name) = tunnel(&head, source)?;
    let ordered = root
        .get("reorder")
        .map(|section| Section::of(section, REORDER, &ALL))
        .transpose()?;
    let reorder = ordered.as_ref().map(reorder).transpose()?;
    let peer_sections = peer_sections(&root)?;
    let folder = head
        .get("peers_dir")
        .map(|entry| values::beside(entry, source, "peers.d"));
    let folder = folder.transpose()?;
    let is_hub = peer_sections.is_some() || folder.is_some();
    if let Some(entry) = head.get("workers")
        && !is_hub
    {
        return Err(entry.mistake(
            "`workers` stands in a tunnel with two ends: they share the peers of a hub",
            "take it out, or add [[peers]]",
        ));
    }
    let mut crypto = match root.get("crypto") {
        Some(section) => Some(crypto(
            &Section::of(section, CRYPTO, &ALL)?,
            source,
            is_hub,
        )?),
        None => None,
    };
    let mut peers_dir = None;
    let peers = match &mut crypto {
        _ if !is_hub => None,
        Some(crypto) => {
            let mut roster = peers(&peer_sections.unwrap_or_default(), crypto, source)?;
            let own = crypto.private_key.public_key();
            peers_dir = folder.map(|folder| PeersDir::read(&folder, own, source.files, None));
            if let Some(folder) = &mut peers_dir {
                crypto.exposed.extend(folder.exposed().cloned());
                folder.settle_all(&mut roster, None);
            }
            Some(roster)
        }
        None => {
            let what = match peer_sections {
                Some(_) => "[[peers]] stand without [crypto]",
                None => "`peers_dir` stands without [crypto]",
            };
            return Err(root.mistake(
                format!("{what}: a hub knows its peers by their keys"),
                "add [crypto] with private_key_file = \"/etc/mpt/private.key\"",
            ));
        }
    };
    let recovered = root
        .get("recovery")
        .map(|section| Section::of(section, RECOVERY, &ALL))
        .transpose()?;
    let recovery = recovered.as_ref().map(recovery).transpose()?;
    let mut control = Control {
        socket: format!("/run/mpt/{}.sock", tunnel.name).into(),
        owner: None,
        mode: DEFAULT_SOCKET_MODE,
    };
    let mut socket = name;
    if let Some(section) = root.get("control") {
        let section = Section::of(section, CONTROL, &ALL)?;
        if let Some(entry) = section.get("socket") {
            control.socket = values::socket_path(entry)?;
            socket = entry.place();
        }
        control.owner = section.get("owner").map(values::owner).transpose()?;
        if let Some(entry) = section.get("mode") {
            control.mode = values::socket_mode(entry)?;
        }
    }
    let hooks = match root.get("hooks") {
        Some(section) => hooks(&Section::of(section, HOOKS, &ALL)?)?,
        None => Hooks::default(),
    };
    let listened = root
        .get("metrics")
        .map(|section| Section::of(section, METRICS, &ALL))
        .transpose()?;
    let sections = path_sections(&root)?;
    let port = (tunnel.port, head.get("port").is_some());
    let (paths, locals) = paths(&sections, port, crypto.is_some())?;
    validate::hub_paths(&sections, is_hub)?;
    tunnel.scheduler = scheduler(&head, &sections)?;
    let kind = (tunnel.scheduler, crypto.is_some(), is_hub);
    let classes = classes(&root, &paths, kind)?;

    let user = root.get(USER);
    let mut config = Config {
        file: source.file.to_owned(),
        user: user.map(values::user).transpose()?,
        tunnel,
        reorder: reorder.unwrap_or_default(),
        crypto,
        peers,
        peers_dir,
        recovery: recovery.unwrap_or_default(),
        control,
        hooks,
        metrics: listened.as_ref().map(metrics).transpose()?,
        paths,
        classes,
        unused: Unused::default(),
    };
    validate::paths_outside(&config, &sections)?;
    validate::mtu(&config, &head)?;
    validate::one_use_of_the_key_field(&config, &head)?;
    validate::metrics(&config, listened.as_ref())?;
    config.unused = Unused::of(
        &config,
        &Sections {
            tunnel: &head,
            reorder: ordered.as_ref(),
            recovery: recovered.as_ref(),
            paths: &sections,
        },
    )?;
    Ok((
        config,
        Places {
            user: user.map(|entry| entry.place()),
            name,
            socket,
            metrics: listened.and_then(|section| Some(section.get("listen")?.place())),
            locals,
        },
    ))
}

fn tunnel(section: &Section<'_>, source: Source<'_>) -> Result<(Tunnel, Place), Mistake> {
    let name = section.required("name", "add name = \"mpt0\", the TUN interface to make")?;
    let tunnel = Tunnel {
        name: interface_name(name)?.to_owned(),
        addresses: prefixes(section.get("addresses"), PrefixKind::Address)?,
        routes: prefixes(section.get("routes"), PrefixKind::Route)?,
        mtu: section.number("mtu", MTU_RANGE, "bytes")?,
        port: section
            .number("port", 1..=u64::from(u16::MAX), "")?
            .unwrap_or(DEFAULT_PORT),
        key: section.number("key", 0..=u64::from(u32::MAX), "")?,
        scheduler: Policy::Adaptive,
        offload: section
            .get("offload")
            .map_or(Ok(Offload::default()), offload)?,
        clamps_mss: section
            .get("clamp_mss")
            .map_or(Ok(false), |entry| entry.truth())?,
        routing: section
            .get("routing")
            .map_or(Ok(Routing::default()), routing)?,
        state_dir: section
            .get("state_dir")
            .map(|entry| values::beside(entry, source, "/var/lib/mpt"))
            .transpose()?,
        workers: section.number("workers", WORKERS, "")?,
    };
    Ok((tunnel, name.place()))
}

/// A name that an interface can be given.
fn interface_name(entry: Entry<'_>) -> Result<&str, Mistake> {
    let example = "mpt0";
    let name = values::name(entry, values::MAX_INTERFACE_BYTES, example)?;
    if RESERVED_INTERFACES.contains(&name) {
        return Err(entry.mistake(
            format!("no tunnel can be called \"{name}\": the kernel keeps that name for itself"),
            format!("write another name, like \"{example}\""),
        ));
    }
    Ok(name)
}

fn prefixes(
    entry: Option<Entry<'_>>,
    kind: PrefixKind,
) -> Result<Vec<(std::net::IpAddr, u8)>, Mistake> {
    let example = match kind {
        PrefixKind::Address => "\"10.99.0.1/30\"",
        PrefixKind::Route => "\"192.168.7.0/24\"",
    };
    let mut prefixes = Vec::new();
    let Some(entry) = entry else {
        return Ok(prefixes);
    };
    for element in entry.list(MAX_PREFIXES, example)? {
        let prefix = values::prefix(element, kind)?;
        if prefixes.contains(&prefix) {
            let what = format!("\"{}/{}\" stands here twice", prefix.0, prefix.1);
            return Err(element.mistake(what, "remove one of them"));
        }
        prefixes.push(prefix);
    }
    Ok(prefixes)
}

fn scheduler(tunnel: &Section<'_>, paths: &[Section<'_>]) -> Result<Policy, Mistake> {
    let Some(entry) = tunnel.get("scheduler") else {
        let weighted = paths.iter().any(|path| path.get("weight").is_some());
        return Ok(if weighted {
            Policy::Weighted
        } else {
            Policy::Adaptive
        });
    };
    let name = entry.text("weighted")?;
    let found = Policy::ALL.into_iter().find(|policy| policy.name() == name);
    found.ok_or_else(|| {
        entry.mistake(
            format!("there is no scheduler \"{name}\""),
            "write \"weighted\" (bytes by the paths' weights), \"redundant\" (every packet on every path), \
             \"backup\" (all on the path with the greatest weight that is up), \"flow\" (each flow on one \
             path) or \"adaptive\" (by what each path turns out to deliver)",
        )
    })
}

fn offload(entry: Entry<'_>) -> Result<Offload, Mistake> {
    let name = entry.text("auto")?;
    let all = [Offload::Auto, Offload::On, Offload::Off];
    let found = all.into_iter().find(|offload| offload.name() == name);
    found.ok_or_else(|| {
        entry.mistake(
            format!("`offload` is \"{name}\""),
            "write \"auto\" (super-packets where the kernel has them), \"on\" (or not at all) or \
             \"off\" (one packet at a time)",
        )
    })
}

fn routing(entry: Entry<'_>) -> Result<Routing, Mistake> {
    let name = entry.text("auto")?;
    let all = [Routing::Auto, Routing::Off];
    let found = all.into_iter().find(|routing| routing.name() == name);
    found.ok_or_else(|| {
        entry.mistake(
            format!("`routing` is \"{name}\""),
            "write \"auto\" (rules and tables of the tunnel's own keep its packets out of it and send each \
             path by its own device) or \"off\" (you see to that)",
        )
    })
}

fn recovery(section: &Section<'_>) -> Result<Recovery, Mistake> {
    let Some(entry) = section.get("mode") else {
        return Ok(Recovery::default());
    };
    let name = entry.text("auto")?;
    let all = [Recovery::Auto, Recovery::Off];
    let found = all.into_iter().find(|recovery| recovery.name() == name);
    found.ok_or_else(|| {
        entry.mistake(
            format!("`mode` is \"{name}\""),
            "write \"auto\" (lost packets are sent again toward peers that can tell of them) or \"off\"",
        )
    })
}

/// The elements of `[[peers]]`, their keys known; `None` where there are none.
fn peer_sections<'a>(root: &Section<'a>) -> Result<Option<Vec<Section<'a>>>, Mistake> {
    let Some(peers) = root.get("peers") else {
        return Ok(None);
    };
    if peers.is_section() {
        let what = "[peers] is a single section, and peers are a list";
        return Err(peers.mistake(what, "write [[peers]], once for each peer"));
    }
    let elements = peers.list(MAX_PEERS, "{ name = \"alice\", … }")?;
    let sections = elements.iter();
    sections
        .map(|element| Section::of(*element, PEERS, &ALL))
        .collect::<Result<_, _>>()
        .map(Some)
}

/// The elements of `[[paths]]`, their keys known.
fn path_sections<'a>(root: &Section<'a>) -> Result<Vec<Section<'a>>, Mistake> {
    let remedy = "add a [[paths]] section with name, local and remote for each uplink";
    let Some(paths) = root.get("paths") else {
        return Err(root.mistake("the tunnel has no paths", remedy));
    };
    if paths.is_section() {
        let what = "[paths] is a single section, and paths are a list";
        return Err(paths.mistake(what, "write [[paths]], once for each path"));
    }
    let elements = paths.list(usize::MAX, "{ name = \"fibre\", … }")?;
    if elements.is_empty() {
        return Err(paths.mistake("the tunnel has no paths", remedy));
    }
    if let Some(extra) = elements.get(MAX_PATHS) {
        let what = format!("the tunnel has {} paths", elements.len());
        return Err(extra.mistake(what, format!("a tunnel has at most {MAX_PATHS} paths")));
    }
    elements
        .iter()
        .map(|element| Section::of(*element, PATHS, &ALL))
        .collect()
}

/// The paths, and where each one's `local` stands.
fn paths(
    sections: &[Section<'_>],
    port: (u16, bool),
    is_sealed: bool,
) -> Result<(Vec<Path>, Vec<Place>), Mistake> {
    validate::some_weight(sections)?;
    let mut paths = Vec::new();
    let mut locals: Vec<Place> = Vec::new();
    for section in sections {
        let (path, local) = path(section, port, is_sealed)?;
        validate::path(&path, section)?;
        validate::path_beside(&paths, &locals, &path, section, is_sealed)?;
        paths.push(path);
        locals.push(local);
    }
    Ok((paths, locals))
}

fn path(
    section: &Section<'_>,
    (port, port_is_given): (u16, bool),
    is_sealed: bool,
) -> Result<(Path, Place), Mistake> {
    let name_entry = section.required("name", "add a name for the path, like name = \"fibre\"")?;
    let interface = section
        .get("interface")
        .map(|entry| values::name(entry, values::MAX_INTERFACE_BYTES, "eth0"))
        .transpose()?;
    let local = section.get("local");
    if local.is_none() && interface.is_none() {
        section.required(
            "local",
            "add this host's address on the path, like local = \"10.1.0.1\", or the device that it leaves \
             by, like interface = \"wwan0\", whose address is followed then",
        )?;
    }
    let peer = match section.get("remote") {
        None if is_sealed => None,
        _ => Some(section.required(
            "remote",
            "add the peer's address on the path, like remote = \"10.1.0.2\"",
        )?),
    };
    let peer = peer.map(remote::remote).transpose()?;
    let duration = |key, range, default| match section.get(key) {
        Some(entry) => entry.duration(range),
        None => Ok(default),
    };
    let name = values::name(name_entry, values::MAX_PATH_NAME_BYTES, "fibre")?.to_owned();
    validate::weight_not_zero(section, &name)?;
    let local_end = match local {
        Some(entry) => {
            let local = values::endpoint(entry, End::Local, port)?;
            Local {
                address: Some(local.ip()),
                port: local.port(),
                port_is_given: port_is_given || values::names_port(entry)?,
            }
        }
        None => Local {
            address: None,
            port,
            port_is_given,
        },
    };
    let budget = budget(section)?;
    let path = Path {
        local: local_end,
        remote: peer,
        interface: interface.map(str::to_owned),
        weight: section
            .number("weight", 1..=u64::from(*WEIGHTS.end()), "")?
            .unwrap_or(DEFAULT_WEIGHT),
        keepalive: duration("keepalive", KEEPALIVE_RANGE, Duration::from_millis(200))?,
        dead_after: duration("dead_after", DEAD_AFTER_RANGE, Duration::from_secs(1))?,
        metered: match section.get("metered") {
            Some(entry) => entry.truth()?,
            // What is counted is saved.
            None => budget.is_some(),
        },
        cost: section.number("cost", budget::COSTS, "")?.unwrap_or(0),
        budget,
        name,
    };
    let place = local.or(section.get("interface")).unwrap_or(name_entry);
    Ok((path, place.place()))
}

//! `[[classes]]`: which packets are treated otherwise than the rest, and how.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use mpt_core::control::units::rate_of;
use mpt_core::limits::{COPIES, MAX_CLASSES, MAX_MATCHES, MAX_PATHS};
use mpt_core::path::{PathId, PathSet};
use mpt_core::send::classes::{ClassConfig, ClassPolicy, Match, Priority};
use mpt_core::send::scheduler::Policy;

use super::document::Mistake;
use super::entry::Entry;
use super::parse::{ALL, CLASSES, MATCH};
use super::section::Section;
use super::values::{self, MAX_PATH_NAME_BYTES, PrefixKind};
use super::{Config, Path};

/// What copies of a class may take unless configured, in bits a second: a video call's worth.
const DEFAULT_COPIES: u64 = 5_000_000;

/// DSCPs by name: RFC 2474 §4.2.2, RFC 2597 §6, RFC 3246 §2.7, RFC 5865 §4, RFC 8622 §10.
const DSCPS: [(&str, u8); 24] = [
    ("CS0", 0),
    ("LE", 1),
    ("CS1", 8),
    ("AF11", 10),
    ("AF12", 12),
    ("AF13", 14),
    ("CS2", 16),
    ("AF21", 18),
    ("AF22", 20),
    ("AF23", 22),
    ("CS3", 24),
    ("AF31", 26),
    ("AF32", 28),
    ("AF33", 30),
    ("CS4", 32),
    ("AF41", 34),
    ("AF42", 36),
    ("AF43", 38),
    ("CS5", 40),
    ("VA", 44),
    ("EF", 46),
    ("CS6", 48),
    ("CS7", 56),
    ("DF", 0),
];

/// One of `[[classes]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Class {
    /// Its name, unique in the tunnel.
    pub(crate) name: String,
    /// Which packets are of it.
    pub(crate) matches: Match,
    /// Names of its paths: at least one, and all of the tunnel's where the file names none.
    pub(crate) paths: Vec<String>,
    /// What is done with them.
    pub(crate) policy: ClassPolicy,
    /// Before or behind what else.
    pub(crate) priority: Priority,
    /// What copies may take, in bits a second.
    pub(crate) copies: u64,
}

impl Config {
    /// The classes as the core wants them, by where each path stands.
    pub(crate) fn classes_of(&self, place: impl Fn(&str) -> Option<PathId>) -> Vec<ClassConfig> {
        let of = |class: &Class| {
            let mut paths = PathSet::EMPTY;
            let places = class.paths.iter().filter_map(|name| place(name));
            places.for_each(|path| paths.insert(path));
            ClassConfig {
                name: class.name.clone(),
                matches: class.matches.clone(),
                paths,
                policy: class.policy,
                priority: class.priority,
                copies: class.copies / 8,
            }
        };
        self.classes.iter().map(of).collect()
    }
}

/// Reads the list; `paths` are the tunnel's.
pub(super) fn classes(
    root: &Section<'_>,
    paths: &[Path],
    (scheduler, is_sealed, is_hub): (Policy, bool, bool),
) -> Result<Vec<Class>, Mistake> {
    let Some(list) = root.get("classes") else {
        return Ok(Vec::new());
    };
    if list.is_section() {
        let what = "[classes] is a single section, and classes are a list";
        return Err(list.mistake(what, "write [[classes]], once for each class"));
    }
    if is_hub {
        return Err(list.mistake(
            "[[classes]] do not go with [[peers]]: a hub's packets go over the paths that each peer has",
            "remove them; each peer may have classes of its own in its own file, for what it sends",
        ));
    }
    if scheduler != Policy::Adaptive {
        return Err(list.mistake(
            format!(
                "[[classes]] do not go with scheduler = \"{}\", which says itself what goes where",
                scheduler.name()
            ),
            "write scheduler = \"adaptive\" in [tunnel], or remove the classes",
        ));
    }
    let mut classes: Vec<Class> = Vec::new();
    for element in list.list(MAX_CLASSES, "{ name = \"calls\", … }")? {
        let section = Section::of(element, CLASSES, &ALL)?;
        let class = class(&section, paths, is_sealed)?;
        if classes.iter().any(|other| other.name == class.name) {
            return Err(section.mistake_at(
                section.get("name"),
                format!("two classes are called \"{}\"", class.name),
                "give each class a name of its own",
            ));
        }
        let mut before = classes.iter();
        if let Some(other) = before.find(|other| other.matches.covers(&class.matches)) {
            return Err(section.mistake_at(
                section.get("match"),
                format!(
                    "all that class \"{}\" matches is of class \"{}\", which stands before it",
                    class.name, other.name
                ),
                "a packet is of the first class that it fits: put this one first, or have it match something else",
            ));
        }
        classes.push(class);
    }
    Ok(classes)
}

fn class(section: &Section<'_>, all: &[Path], is_sealed: bool) -> Result<Class, Mistake> {
    let name = section.required("name", "add name = \"calls\", by which status shows it")?;
    let name = values::name(name, MAX_PATH_NAME_BYTES, "calls")?.to_owned();
    let remedy = "add match = { dscp = [\"EF\"] }, or ports or to; match = {} is all that no class before has";
    let entry = section.required("match", remedy)?;
    let matches = matches(&Section::of(entry, MATCH, &ALL)?)?;
    let policy = match section.get("policy") {
        Some(entry) => policy(entry)?,
        None => ClassPolicy::default(),
    };
    let priority = match section.get("priority") {
        Some(entry) => priority(entry)?,
        None => Priority::default(),
    };
    let copies = section.get("copies");
    if let Some(entry) = copies
        && policy != ClassPolicy::Redundant
    {
        return Err(entry.mistake(
            format!("`copies` means nothing with policy = \"{}\"", policy.name()),
            "remove it, or write policy = \"redundant\"",
        ));
    }
    let paths = paths(section, all, (&name, policy))?;
    if policy == ClassPolicy::Redundant {
        let at = section.get("policy");
        if !is_sealed {
            return Err(section.mistake_at(
                at,
                "policy = \"redundant\" needs [crypto]: copies are told by the numbers that packets are sealed under",
                "add [crypto], or use scheduler = \"redundant\" for all packets, or policy = \"fastest\"",
            ));
        }
        if paths.len() < 2 {
            return Err(section.mistake_at(
                section.get("paths").or(at),
                format!("class \"{name}\" is redundant over one path"),
                "copies go over two paths: name another one",
            ));
        }
    }
    Ok(Class {
        matches,
        paths,
        policy,
        priority,
        copies: copies.map_or(Ok(DEFAULT_COPIES), rate)?,
        name,
    })
}

/// The class's paths; a sparing one has none that is metered.
fn paths(
    section: &Section<'_>,
    all: &[Path],
    (class, policy): (&str, ClassPolicy),
) -> Result<Vec<String>, Mistake> {
    let spares = |path: &Path| policy == ClassPolicy::Sparing && path.metered;
    let Some(entry) = section.get("paths") else {
        let usable = all.iter().filter(|path| !spares(path));
        let names: Vec<String> = usable.map(|path| path.name.clone()).collect();
        if names.is_empty() {
            return Err(section.mistake_at(
                section.get("policy"),
                format!("class \"{class}\" is sparing, and all paths are metered"),
                "name those that it may use after all: paths = [\"lte\"]",
            ));
        }
        return Ok(names);
    };
    let mut names: Vec<String> = Vec::new();
    for element in entry.list(MAX_PATHS, "\"fibre\"")? {
        let name = element.text("fibre")?;
        if !all.iter().any(|path| path.name == name) {
            let known: Vec<&str> = all.iter().map(|path| &*path.name).collect();
            return Err(element.mistake(
                format!("there is no path \"{}\"", name.escape_debug()),
                format!("the paths are {}", known.join(", ")),
            ));
        }
        if names.iter().any(|known| known == name) {
            let what = format!("path \"{name}\" stands here twice");
            return Err(element.mistake(what, "remove one of them"));
        }
        names.push(name.to_owned());
    }
    if names.is_empty() {
        let what = "`paths` is an empty list: the class could go nowhere";
        return Err(entry.mistake(what, "name its paths, or leave `paths` out for all"));
    }
    Ok(names)
}

fn policy(entry: Entry<'_>) -> Result<ClassPolicy, Mistake> {
    let name = entry.text("fastest")?;
    let mut all = ClassPolicy::ALL.into_iter();
    all.find(|policy| policy.name() == name).ok_or_else(|| {
        entry.mistake(
            format!("there is no policy \"{}\"", name.escape_debug()),
            "write \"adaptive\" (where they arrive first), \"fastest\" (the path with the least delay alone), \
             \"redundant\" (copies over two paths) or \"sparing\" (no metered path, or those of `paths` alone)",
        )
    })
}

fn priority(entry: Entry<'_>) -> Result<Priority, Mistake> {
    let name = entry.text("high")?;
    let mut all = Priority::ALL.into_iter();
    all.find(|priority| priority.name() == name).ok_or_else(|| {
        entry.mistake(
            format!("there is no priority \"{}\"", name.escape_debug()),
            "write \"high\" (before all else), \"normal\" or \"low\" (when nothing else can go)",
        )
    })
}

fn matches(section: &Section<'_>) -> Result<Match, Mistake> {
    let [dscp_entry, ports_entry, to_entry] = ["dscp", "ports", "to"].map(|key| section.get(key));
    let mut matches = Match::default();
    for element in elements(dscp_entry, "\"EF\"")? {
        let bit = 1 << dscp(element)?;
        if matches.dscp & bit != 0 {
            let what = "this DSCP stands here twice";
            return Err(element.mistake(what, "remove one of them"));
        }
        matches.dscp |= bit;
    }
    for element in elements(ports_entry, "5060")? {
        let range = ports(element)?;
        let overlaps = |other: &&RangeInclusive<u16>| {
            range.start() <= other.end() && other.start() <= range.end()
        };
        if let Some(other) = matches.ports.iter().find(overlaps) {
            return Err(element.mistake(
                format!("{} and {} overlap", told(other), told(&range)),
                "write each port once",
            ));
        }
        matches.ports.push(range);
    }
    for element in elements(to_entry, "\"10.1.0.0/16\"")? {
        let prefix: (IpAddr, u8) = values::prefix(element, PrefixKind::Route)?;
        if matches.to.contains(&prefix) {
            let what = format!("\"{}/{}\" stands here twice", prefix.0, prefix.1);
            return Err(element.mistake(what, "remove one of them"));
        }
        matches.to.push(prefix);
    }
    Ok(matches)
}

fn elements<'a>(entry: Option<Entry<'a>>, example: &str) -> Result<Vec<Entry<'a>>, Mistake> {
    let Some(entry) = entry else {
        return Ok(Vec::new());
    };
    let elements = entry.list(MAX_MATCHES, example)?;
    if elements.is_empty() {
        let what = format!(
            "`{}` is an empty list, which nothing would match",
            entry.key
        );
        return Err(entry.mistake(what, "leave it out to match any"));
    }
    Ok(elements)
}

fn dscp(entry: Entry<'_>) -> Result<u8, Mistake> {
    if !entry.is_text() {
        return Ok(entry.integer(0..=63, "")? as u8);
    }
    let name = entry.text("EF")?;
    let known = DSCPS.iter();
    let mut known = known.filter(|(known, _)| known.eq_ignore_ascii_case(name));
    known.next().map(|(_, dscp)| *dscp).ok_or_else(|| {
        let number = name.parse().ok().filter(|number: &u8| *number <= 63);
        entry.mistake(
            format!("there is no DSCP \"{}\"", name.escape_debug()),
            match number {
                Some(number) => format!("write {number} without quotes"),
                None => {
                    "write a number from 0 to 63, or a name: EF, VA, LE, CS0 to CS7, AF11 to AF43"
                        .to_owned()
                }
            },
        )
    })
}

/// A port, or `"FIRST-LAST"`.
fn ports(entry: Entry<'_>) -> Result<RangeInclusive<u16>, Mistake> {
    if !entry.is_text() {
        let port = entry.integer(1..=u64::from(u16::MAX), "")? as u16;
        return Ok(port..=port);
    }
    let text = entry.text("16384-32767")?;
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let [first, last] = [first, last].map(|port| port.trim().parse::<u16>().ok());
    match (first, last) {
        (Some(first), Some(last)) if first > 0 && first <= last => Ok(first..=last),
        _ => Err(entry.mistake(
            format!("\"{}\" is no range of ports", text.escape_debug()),
            "write a port without quotes, like 5060, or \"FIRST-LAST\", like \"16384-32767\"",
        )),
    }
}

/// What copies may take, in bits a second.
fn rate(entry: Entry<'_>) -> Result<u64, Mistake> {
    let text = entry.text("5 Mbit/s")?;
    let rate = rate_of(text).filter(|rate| COPIES.contains(rate));
    rate.ok_or_else(|| {
        entry.mistake(
            format!("`copies` is \"{}\"", text.escape_debug()),
            "write a rate with its unit, like \"5 Mbit/s\", from 8 kbit/s to 1 Gbit/s",
        )
    })
}

fn told(range: &RangeInclusive<u16>) -> String {
    match (range.start(), range.end()) {
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{first}-{last}"),
    }
}

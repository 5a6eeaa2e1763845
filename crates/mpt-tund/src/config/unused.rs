//! Keys that nothing reads beside what else the file says.
//!
//! The tunnel runs as the rest says, so that they are warned of and no mistakes: what would stand for two things at once
//! is a mistake of [`validate`](super::validate) and of the sections.

use mpt_core::send::scheduler::Policy;

use super::document::Mistake;
use super::entry::Entry;
use super::section::Section;
use super::{Config, Recovery, values};

/// The sections that may have such keys.
pub(super) struct Sections<'s, 'a> {
    pub(super) tunnel: &'s Section<'a>,
    pub(super) reorder: Option<&'s Section<'a>>,
    pub(super) recovery: Option<&'s Section<'a>>,
    pub(super) paths: &'s [Section<'a>],
}

/// These keys, each with what makes it idle and what to do. They set nothing, so that configurations which differ in them
/// alone are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Unused(pub(super) Vec<Mistake>);

impl PartialEq for Unused {
    fn eq(&self, _: &Unused) -> bool {
        true
    }
}

impl Eq for Unused {}

impl Unused {
    /// Those of a file.
    ///
    /// # Errors
    /// When a value is of another type.
    pub(super) fn of(config: &Config, sections: &Sections<'_, '_>) -> Result<Unused, Mistake> {
        let mut unused = beside_no_window(config, sections);
        unused.extend(beside_the_scheduler(config, sections));
        unused.extend(port(sections)?);
        unused.sort_by_key(|one| one.place.map(|place| (place.line, place.column)));
        Ok(Unused(unused))
    }
}

fn idle(entry: Entry<'_>, why: &str, remedy: &str) -> Mistake {
    entry.mistake(format!("`{}` has no effect {why}", entry.key), remedy)
}

fn beside_no_window(config: &Config, sections: &Sections<'_, '_>) -> Vec<Mistake> {
    let mut unused = Vec::new();
    if config.reorder.block.is_some() || config.reorder.window != 0 {
        return unused;
    }
    let idle = |entry, why| idle(entry, why, "remove it, or write another `window`");
    let delay = (sections.reorder).and_then(|section| section.get("max_buffer_delay"));
    let delay = delay.filter(|delay| !delay.is_auto());
    let not_held = "beside window = 0: no packet is held";
    unused.extend(delay.map(|entry| idle(entry, not_held)));
    if config.tunnel.scheduler == Policy::Adaptive {
        let why =
            "beside window = 0: without numbers nothing is known of the paths, and weights decide";
        let scheduler = sections.tunnel.get("scheduler");
        unused.extend(scheduler.map(|entry| idle(entry, why)));
        if config.recovery == Recovery::Auto {
            let why = "beside window = 0: what has no number is not sent again";
            let mode = (sections.recovery).and_then(|section| section.get("mode"));
            unused.extend(mode.map(|entry| idle(entry, why)));
        }
    }
    unused
}

fn beside_the_scheduler(config: &Config, sections: &Sections<'_, '_>) -> Vec<Mistake> {
    let scheduler = config.tunnel.scheduler;
    let mut unused = Vec::new();
    if scheduler == Policy::Redundant {
        let why = "beside scheduler = \"redundant\": every packet goes over every path";
        let remedy =
            "remove it, or write scheduler = \"weighted\" in [tunnel] for shares by weight";
        let weights = sections.paths.iter().filter_map(|path| path.get("weight"));
        unused.extend(weights.map(|entry| idle(entry, why, remedy)));
    }
    if scheduler != Policy::Adaptive && config.recovery == Recovery::Auto {
        let why = format!(
            "beside scheduler = \"{}\"{}: what is lost is not sent again",
            scheduler.name(),
            match sections.tunnel.get("scheduler") {
                Some(_) => "",
                None => ", for which a path's `weight` stands",
            }
        );
        let remedy = "remove it, or write scheduler = \"adaptive\" in [tunnel]";
        let mode = sections.recovery.and_then(|section| section.get("mode"));
        unused.extend(mode.map(|entry| idle(entry, &why, remedy)));
    }
    unused
}

fn port(sections: &Sections<'_, '_>) -> Result<Option<Mistake>, Mistake> {
    let Some(entry) = sections.tunnel.get("port") else {
        return Ok(None);
    };
    for path in sections.paths {
        let named = path.get("local").map(values::names_port).transpose()?;
        if named != Some(true) {
            return Ok(None);
        }
    }
    let why = "since the `local` of every path names a port";
    let remedy = "remove it, or the ports in `local`";
    Ok(Some(idle(entry, why, remedy)))
}

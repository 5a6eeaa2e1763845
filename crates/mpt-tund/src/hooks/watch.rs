//! What has happened to a tunnel since it was looked at last.

use std::collections::BTreeMap;

use mpt_core::control::verdict::Level;
use mpt_core::control::{PathState, PathStatus, Status};

use crate::config::{Hook, Hooks};

const UP: &str = "up";
const DOWN: &str = "down";

/// What was seen last.
#[derive(Debug, Default)]
pub(super) struct Watch {
    up: bool,
    paths: BTreeMap<String, PathState>,
}

/// The tunnel, or one of its paths, is in another state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Event {
    /// The path; the tunnel as such where there is none.
    pub(super) path: Option<String>,
    /// What it was.
    pub(super) old: &'static str,
    /// What it is.
    pub(super) new: &'static str,
    /// Everything else that a command may want to know, as variables of its environment.
    pub(super) facts: Vec<(&'static str, String)>,
}

impl Watch {
    /// Looks at a tunnel, whose status has a verdict in it; `None` when it does not run, for this reason.
    pub(super) fn look(&mut self, tunnel: &str, status: Option<&Status>, why: &str) -> Vec<Event> {
        let mut events = Vec::new();
        let shared = shared_facts(tunnel, status);
        if let Some(status) = status {
            for path in &status.paths {
                // That a path is being probed at first goes without saying.
                let name = path.name.clone();
                let old = self.paths.insert(name, path.state);
                let old = old.unwrap_or(PathState::Probing);
                if old != path.state {
                    let facts = [path_facts(path), shared.clone()].concat();
                    let path = Some(path.name.clone());
                    let (old, new) = (named(old), named(status_of(status, &path)));
                    events.push(Event {
                        path,
                        old,
                        new,
                        facts,
                    });
                }
            }
            let is_there = |name: &String| status.paths.iter().any(|path| path.name == *name);
            self.paths.retain(|name, _| is_there(name));
        } else {
            self.paths.clear();
        }
        let up = status.is_some_and(is_up);
        if up != self.up {
            let (old, new) = if up { (DOWN, UP) } else { (UP, DOWN) };
            let worst = status.and_then(|status| status.verdict.messages.first());
            let reason = worst.map_or(why, |worst| worst.text.as_str());
            let mut facts = shared;
            if !up {
                facts.push(("MPT_REASON", reason.to_owned()));
            }
            self.up = up;
            events.push(Event {
                path: None,
                old,
                new,
                facts,
            });
        }
        events
    }
}

impl Event {
    /// The command for it.
    pub(super) fn hook<'a>(&self, hooks: &'a Hooks) -> Option<&'a Hook> {
        let hook = match (&self.path, self.new) {
            (Some(_), _) => &hooks.on_path_change,
            (None, UP) => &hooks.on_up,
            (None, _) => &hooks.on_down,
        };
        hook.as_ref()
    }

    /// Which key of `[hooks]` it is for.
    pub(super) fn name(&self) -> &'static str {
        match (&self.path, self.new) {
            (Some(_), _) => "on_path_change",
            (None, UP) => "on_up",
            (None, _) => "on_down",
        }
    }

    /// All variables.
    pub(super) fn environment(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let own = [
            ("MPT_EVENT", self.name()),
            ("MPT_STATE", self.new),
            ("MPT_OLD_STATE", self.old),
        ];
        let path = self.path.as_deref().map(|path| ("MPT_PATH", path));
        let facts = self
            .facts
            .iter()
            .map(|(name, value)| (*name, value.as_str()));
        own.into_iter().chain(path).chain(facts)
    }
}

/// Whether packets get through.
fn is_up(status: &Status) -> bool {
    status.verdict.level != Level::Down
}

fn status_of(status: &Status, path: &Option<String>) -> PathState {
    let mut paths = status.paths.iter();
    let found = paths.find(|one| Some(&one.name) == path.as_ref());
    found.map_or(PathState::Probing, |path| path.state)
}

fn named(state: PathState) -> &'static str {
    match state {
        PathState::Up => UP,
        PathState::Down => DOWN,
        PathState::Probing => "probing",
        PathState::AdminDown => "admin-down",
        PathState::Waiting => "waiting",
    }
}

fn path_facts(path: &PathStatus) -> Vec<(&'static str, String)> {
    let reason = path.reason.clone().map(|reason| ("MPT_REASON", reason));
    let interface = path.interface.clone();
    let interface = interface.map(|interface| ("MPT_PATH_INTERFACE", interface));
    let sockets = [
        ("MPT_LOCAL", path.local.clone()),
        ("MPT_REMOTE", path.remote.clone()),
    ];
    sockets.into_iter().chain(interface).chain(reason).collect()
}

fn shared_facts(tunnel: &str, status: Option<&Status>) -> Vec<(&'static str, String)> {
    let paths = |is: fn(&PathStatus) -> bool| {
        let paths = status.into_iter().flat_map(|status| &status.paths);
        let names: Vec<&str> = paths
            .filter(|path| is(path))
            .map(|path| path.name.as_str())
            .collect();
        names.join(",")
    };
    let level = status.map_or(Level::Down, |status| status.verdict.level);
    let verdict = match level {
        Level::Ok => "ok",
        Level::Degraded => "degraded",
        Level::Down => DOWN,
    };
    vec![
        ("MPT_TUNNEL", tunnel.to_owned()),
        ("MPT_VERDICT", verdict.to_owned()),
        ("MPT_PATHS_UP", paths(|path| path.state == PathState::Up)),
        ("MPT_PATHS", paths(|_| true)),
    ]
}

#[cfg(test)]
mod tests {
    use mpt_core::control::verdict::judge;

    use super::*;

    fn status(states: &[(&str, PathState)]) -> Status {
        let path = |&(name, state): &(&str, PathState)| PathStatus {
            name: name.to_owned(),
            state,
            ..PathStatus::default()
        };
        let mut status = Status {
            paths: states.iter().map(path).collect(),
            ..Status::default()
        };
        status.verdict = judge(&status);
        status
    }

    fn told(events: &[Event]) -> Vec<String> {
        let one = |event: &Event| {
            let path = event.path.as_deref().unwrap_or("-");
            format!("{} {path} {} -> {}", event.name(), event.old, event.new)
        };
        events.iter().map(one).collect()
    }

    #[test]
    fn a_tunnel_comes_up_with_its_first_path_and_goes_down_with_its_last() {
        use PathState::{Down, Probing, Up};
        let mut watch = Watch::default();
        let mut look = |lte, dsl| {
            let status = status(&[("lte", lte), ("dsl", dsl)]);
            told(&watch.look("mpt0", Some(&status), ""))
        };
        assert_eq!(look(Probing, Probing), [""; 0]);
        let up = ["on_path_change lte probing -> up", "on_up - down -> up"];
        assert_eq!(look(Up, Probing), up);
        assert_eq!(look(Up, Up), ["on_path_change dsl probing -> up"]);
        assert_eq!(look(Down, Up), ["on_path_change lte up -> down"]);
        assert_eq!(look(Down, Up), [""; 0]);
        let down = ["on_path_change dsl up -> down", "on_down - up -> down"];
        assert_eq!(look(Down, Down), down);
    }

    #[test]
    fn a_tunnel_that_is_stopped_is_down_and_says_why() {
        let mut watch = Watch::default();
        watch.look("mpt0", Some(&status(&[("lte", PathState::Up)])), "");
        let events = watch.look("mpt0", None, "it was stopped");
        assert_eq!(told(&events), ["on_down - up -> down"]);
        let environment: Vec<_> = events[0].environment().collect();
        for fact in [
            ("MPT_EVENT", "on_down"),
            ("MPT_TUNNEL", "mpt0"),
            ("MPT_STATE", "down"),
            ("MPT_OLD_STATE", "up"),
            ("MPT_VERDICT", "down"),
            ("MPT_REASON", "it was stopped"),
            ("MPT_PATHS_UP", ""),
        ] {
            assert!(environment.contains(&fact), "{fact:?} {environment:?}");
        }
        assert!(watch.look("mpt0", None, "").is_empty());
    }
}

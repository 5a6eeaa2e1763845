//! Whether a hub can be reached, and who is there.

use super::paths::missing_level;
use super::{Code, Finding, counted};
use crate::control::{HubStatus, PathState, Status};

/// Most files of peers that are named one by one.
const MOST_FILES: usize = 5;

pub(super) fn findings(status: &Status, hub: &HubStatus) -> Vec<Finding> {
    let mut found = Vec::new();
    let open = status.paths.iter().any(|path| path.state == PathState::Up);
    for path in &status.paths {
        if path.state != PathState::Waiting {
            continue;
        }
        let why = path.reason.as_deref().unwrap_or("it has no socket");
        let text = format!("Nobody reaches path {}: {why}.", path.name);
        let remedy = "It is tried again by itself.";
        found.push(match open {
            true => Finding::degraded(Code::PathWaiting, text, remedy),
            false => Finding::down(Code::PathWaiting, text, remedy),
        });
    }
    for missing in &status.tunnel.missing {
        if !missing.what.starts_with("path ") {
            let text = format!("There is no {}: {}.", missing.what, missing.why);
            let remedy = "It is tried again by itself.";
            found.push(Finding::at(
                missing_level(missing),
                Code::Missing,
                text,
                remedy,
            ));
        }
    }
    for refused in hub.refused.iter().take(MOST_FILES) {
        let text = format!("Not followed: {}: {}.", refused.file, refused.why);
        found.push(Finding::degraded(Code::PeerFile, text, &refused.remedy));
    }
    if let Some(more @ 1..) = hub.refused.len().checked_sub(MOST_FILES) {
        let text = format!("Not followed: {more} more files of peers.");
        let remedy = "`mpt-tund --check` lists what is wrong.";
        found.push(Finding::degraded(Code::PeerFile, text, remedy));
    }
    let away = hub.peers.saturating_sub(hub.up);
    if away > 0 {
        let text = match hub.up {
            0 => "No peer is there.".to_owned(),
            up => format!("Of {} {up} are there.", counted(hub.peers, "peer")),
        };
        let remedy = "`mpt-ctl peers` shows who; peers call by themselves.";
        found.push(Finding::note(Code::PeersAway, text, remedy));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::verdict::{Level, judge};
    use crate::control::{Missing, PathStatus, RefusedPeer};

    fn hub(states: &[PathState], up: u64) -> Status {
        let path = |&state| PathStatus {
            name: "isp".to_owned(),
            state,
            ..PathStatus::default()
        };
        Status {
            hub: Some(HubStatus {
                peers: 3,
                up,
                ..HubStatus::default()
            }),
            paths: states.iter().map(path).collect(),
            ..Status::default()
        }
    }

    #[test]
    fn a_hub_is_well_whoever_is_away_and_not_when_it_cannot_be_reached() {
        let judged = |states: &[PathState], up| {
            let verdict = judge(&hub(states, up));
            let codes = verdict.messages.iter().map(|found| found.code.clone());
            (verdict.level, codes.collect::<Vec<_>>())
        };
        let (up, waiting) = (PathState::Up, PathState::Waiting);
        assert_eq!(judged(&[up, up], 3), (Level::Ok, vec![]));
        let away = "peers-away".to_owned();
        assert_eq!(judged(&[up], 0), (Level::Ok, vec![away.clone()]));
        let waits = "path-waiting".to_owned();
        let both = vec![waits, away];
        assert_eq!(judged(&[up, waiting], 2), (Level::Degraded, both.clone()));
        assert_eq!(judged(&[waiting], 2), (Level::Down, both));
    }

    #[test]
    fn without_its_interface_a_hub_is_down() {
        let levels = ["interface mpt0", "route 192.0.2.0/24"].map(|what| {
            let mut status = hub(&[PathState::Up], 3);
            status.tunnel.missing.push(Missing {
                what: what.to_owned(),
                why: String::new(),
            });
            judge(&status).level
        });
        assert_eq!(levels, [Level::Down, Level::Degraded]);
    }

    #[test]
    fn files_of_peers_that_are_not_followed_are_named_up_to_a_few() {
        let mut status = hub(&[PathState::Up], 3);
        let refused = |number| RefusedPeer {
            file: format!("peers.d/p{number}.toml:1:1"),
            why: "the name is empty".to_owned(),
            remedy: "write a name".to_owned(),
        };
        for (files, findings) in [(1, 1), (5, 5), (6, 6), (99, 6)] {
            let Some(hub) = &mut status.hub else { return };
            hub.refused = (0..files).map(refused).collect();
            let verdict = judge(&status);
            let codes = verdict.messages.iter().map(|found| &*found.code);
            assert_eq!(codes.collect::<Vec<_>>(), vec!["peer-file"; findings]);
            assert_eq!(verdict.level, Level::Degraded);
        }
        let last = judge(&status).messages.pop().map(|found| found.text);
        assert_eq!(
            last.as_deref(),
            Some("Not followed: 94 more files of peers.")
        );
    }
}

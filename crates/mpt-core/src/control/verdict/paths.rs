//! Which paths work, and what they lose.

use super::{Code, Finding, Level, handshake};
use crate::control::budgets::BudgetState;
use crate::control::drops::DropReason;
use crate::control::units::percent;
use crate::control::{Missing, PathState, PathStatus, Protection, Status};
use crate::path::DownReason;

/// A share of losses from which a path is worth a word: at 1 % and 50 ms of round trip TCP gets
/// 3 Mbit/s (Mathis et al., CCR 27(3), 1997).
const NOTABLE_LOSS: f64 = 0.01;
/// The same where losses are sent again, which may take an eighth of what is sent: beyond this a
/// loss in twenty waits a round trip, one in 400 is lost twice, and bursts exceed the eighth.
const NOTABLE_LOSS_RECOVERED: f64 = 0.05;
/// So many recently lost packets are no accident: idle paths send little but probes.
const ENOUGH_LOST: f64 = 5.0;
/// So many recent packets that came by another path than theirs are no accident.
const ENOUGH_CROSSED: u64 = 3;

pub(super) fn findings(status: &Status) -> Vec<Finding> {
    let mut found = Vec::new();
    found.extend(no_path_up(status));
    found.extend(missing(status));
    let judged = status
        .paths
        .iter()
        .filter(|path| !is_used_unprobed(status, path));
    found.extend(judged.clone().filter_map(no_route));
    found.extend(judged.clone().filter_map(not_up));
    found.extend(judged.clone().filter_map(rests));
    found.extend(shared_remote(status));
    found.extend(judged.clone().filter_map(|path| wrong_device(status, path)));
    found.extend(judged.flat_map(|path| loses(status, path)));
    found.extend(unprobed(status));
    found.extend(no_reports(status));
    found
}

/// The paths that are up.
pub(super) fn up(paths: &[PathStatus]) -> impl Iterator<Item = &PathStatus> {
    paths.iter().filter(|path| path.state == PathState::Up)
}

/// Whether a path that should be up is not.
pub(super) fn is_one_missing(status: &Status) -> bool {
    let wanted = |path: &&PathStatus| path.state != PathState::AdminDown;
    let mut missing = status.paths.iter().filter(wanted);
    missing.any(|path| path.state != PathState::Up && !is_used_unprobed(status, path))
}

/// Whether the path carries packets of a peer that does not probe, and so never comes up.
pub(in crate::control) fn is_used_unprobed(status: &Status, path: &PathStatus) -> bool {
    let silent_peer = status.tunnel.peer_session.is_none() && status.tunnel.rx_packets > 0;
    silent_peer && path.state == PathState::Probing
}

fn no_path_up(status: &Status) -> Option<Finding> {
    let paths = &status.paths;
    if paths.is_empty() {
        return Some(Finding::down(
            Code::NoPaths,
            "The tunnel has no paths.",
            "Add [[paths]] to the configuration.",
        ));
    }
    let used = paths.iter().any(|path| is_used_unprobed(status, path));
    if used || up(paths).next().is_some() {
        return None;
    }
    let is_said = handshake::finding(status).is_some() || !paths.iter().any(may_be_there);
    Some(Finding::down(
        Code::NoPathUp,
        "No path is up: nothing gets through the tunnel.",
        match is_said {
            true => "",
            false => "Is mpt-tund running at the other end, and is UDP let through to its port?",
        },
    ))
}

/// Whether the other end, or the way there, may be why a path is not up: nothing on this host is.
fn may_be_there(path: &PathStatus) -> bool {
    let here = ["is not found", "is being looked up", "interface is down"];
    let reason = path.reason.as_deref().unwrap_or_default();
    matches!(path.state, PathState::Down | PathState::Probing)
        && path.routeless.is_none()
        && !here.iter().any(|words| reason.contains(words))
}

/// What is configured and not there, but for paths: those say so themselves.
fn missing(status: &Status) -> Vec<Finding> {
    let missing = status.tunnel.missing.iter();
    let missing = missing.filter(|one| !one.what.starts_with("path "));
    let finding = |one: &Missing| {
        let text = format!(
            "What is configured is not all there: {}: {}.",
            one.what, one.why
        );
        let remedy = "It is tried again by itself.";
        Finding::at(missing_level(one), Code::Missing, text, remedy)
    };
    missing.map(finding).collect()
}

/// Without its interface a tunnel carries nothing.
pub(super) fn missing_level(one: &Missing) -> Level {
    match one.what.starts_with("interface ") {
        true => Level::Down,
        false => Level::Degraded,
    }
}

fn not_up(path: &PathStatus) -> Option<Finding> {
    let name = &path.name;
    let reason = path.reason.as_deref();
    let because = reason.map_or_else(String::new, |reason| format!(": {reason}"));
    match path.state {
        PathState::Up => None,
        PathState::Down => Some(Finding::degraded(
            Code::PathDown,
            format!("Path {name} is down{because}."),
            "",
        )),
        PathState::Probing => {
            let because = match reason {
                Some(_) => &because,
                None if path.remote == "unknown" => ": the peer has not called yet",
                None => ": no probe has been answered yet",
            };
            Some(Finding::degraded(
                Code::PathProbing,
                format!("Path {name} is not up yet{because}."),
                "",
            ))
        }
        PathState::Waiting => Some(Finding::degraded(
            Code::PathWaiting,
            format!("Path {name} waits{because}."),
            "It opens by itself.",
        )),
        // That says so itself.
        PathState::AdminDown if is_used_up(path) => None,
        PathState::AdminDown => Some(Finding::note(
            Code::PathOutOfService,
            format!("Path {name} is out of service by command."),
            format!("`mpt-ctl path up {name}` brings it back."),
        )),
    }
}

/// Whether it is out of service since its budget is used up.
fn is_used_up(path: &PathStatus) -> bool {
    let budget = path.budget.as_ref();
    budget.is_some_and(|budget| budget.state == BudgetState::Off)
}

/// Whether its device is down or gone. The routes by it are gone with it then, and come back with it.
fn has_no_link(path: &PathStatus) -> bool {
    path.reason == Some(DownReason::LinkDown.to_string())
}

/// A path without a route answers no probe: that is why. One that is up has found its way all the same.
fn no_route(path: &PathStatus) -> Option<Finding> {
    let device = path.routeless.as_ref()?;
    if !matches!(path.state, PathState::Down | PathState::Probing) || has_no_link(path) {
        return None;
    }
    let ip = if path.remote.starts_with('[') {
        "ip -6"
    } else {
        "ip"
    };
    Some(Finding::degraded(
        Code::NoRoute,
        format!(
            "Path {} has no route: nothing leads to {} by {device}.",
            path.name, path.remote
        ),
        format!(
            "`{ip} route add default via GATEWAY dev {device} metric 1000` with the address of {device}'s router \
             for GATEWAY makes one, where nothing that runs here brings it back."
        ),
    ))
}

/// Two paths to one port of the peer are one path for it: it answers where it was called from last.
fn shared_remote(status: &Status) -> Option<Finding> {
    let used = |path: &&PathStatus| {
        path.state != PathState::AdminDown && !["", "unknown"].contains(&path.remote.as_str())
    };
    let is_sealed = status.tunnel.protection != Protection::None;
    let mut paths = status.paths.iter().filter(used);
    let here = paths.clone().enumerate().find_map(|(at, path)| {
        let mut others = status.paths.iter().filter(used).skip(at + 1);
        // A hub tells the paths of a sealed tunnel apart.
        let both_up = |other: &PathStatus| [path, other].map(|path| path.state == PathState::Up);
        let are_apart = |other: &PathStatus| is_sealed && both_up(other) == [true, true];
        let other = others.find(|other| other.remote == path.remote && !are_apart(other))?;
        Some((&path.name, &other.name, &path.remote))
    });
    if let Some((one, other, remote)) = here {
        return Some(Finding::degraded(
            Code::SharedRemote,
            format!("Paths {one} and {other} both lead to {remote}: the peer takes them for one."),
            "Give each path a port of its own at the peer, and name it in `remote`.",
        ));
    }
    let crossed = status.recent.dropped(DropReason::OtherPath) >= ENOUGH_CROSSED;
    let lacking = paths.any(|path| path.state != PathState::Up)
        || status.paths.iter().any(|path| path.remote == "unknown");
    (crossed && lacking).then(|| {
        Finding::degraded(
            Code::SharedRemote,
            "Packets of two of the peer's paths come to one port of this host.",
            "Each path of the peer's needs a `remote` of its own.",
        )
    })
}

fn rests(path: &PathStatus) -> Option<Finding> {
    let asks = matches!(path.state, PathState::Down | PathState::Probing);
    (path.rests && asks).then(|| {
        Finding::note(
            Code::PathRests,
            format!(
                "Path {} is asked for 5 s in every 74 s: a router on the way may keep a wrong mapping as \
                 long as anything comes.",
                path.name
            ),
            "With [crypto] and without `port` it would go on from another port.",
        )
    })
}

/// A path that leaves by another path's device adds nothing, and one that does not come up may do so for
/// that: a router sends back, or a provider drops, what comes from another's address.
fn wrong_device(status: &Status, path: &PathStatus) -> Option<Finding> {
    let (device, wanted) = (path.device.as_ref()?, path.device_wanted.as_ref()?);
    if path.state == PathState::AdminDown || has_no_link(path) || no_route(path).is_some() {
        return None;
    }
    let level = if path.state == PathState::Up && !has_company(status, path) {
        Level::Ok
    } else {
        Level::Degraded
    };
    Some(Finding::at(
        level,
        Code::WrongDevice,
        format!(
            "Path {} leaves by {device} and not by {wanted}, where it belongs.",
            path.name
        ),
        path.device_remedy.clone().unwrap_or_default(),
    ))
}

/// Whether another path leaves by the same device.
fn has_company(status: &Status, path: &PathStatus) -> bool {
    let mut others = status.paths.iter().filter(|other| other.name != path.name);
    others.any(|other| other.device == path.device)
}

/// What a path loses either way. Where losses are sent again few of them are felt.
fn loses(status: &Status, path: &PathStatus) -> Vec<Finding> {
    if path.state != PathState::Up {
        return Vec::new();
    }
    let mut found = Vec::new();
    let counted = status.recent.paths.get(&path.name);
    let (sent, received) = counted.map_or((0, 0), |recent| (recent.tx_packets, recent.rx_packets));
    let directions = [
        (path.loss, sent, "this host sends"),
        (path.rx_loss, received, "the peer sends"),
    ];
    for (share, packets, what) in directions {
        let lost = share * packets as f64;
        if !(share >= NOTABLE_LOSS && lost >= ENOUGH_LOST) {
            continue;
        }
        let recovered = status.tunnel.recovers && !status.tunnel.unreported;
        let name = &path.name;
        let text = format!(
            "Path {name} loses {} of what {what} over it.",
            percent(share)
        );
        let (level, remedy) = match recovered {
            true if share < NOTABLE_LOSS_RECOVERED => (
                Level::Ok,
                "What is lost is sent again; that takes a round trip.".to_owned(),
            ),
            true => (
                Level::Degraded,
                format!(
                    "What is lost is sent again as far as it can be. Look at its link; `mpt-ctl path \
                     down {name}` does without it."
                ),
            ),
            false => (
                Level::Degraded,
                format!("Look at its link; `mpt-ctl path down {name}` does without it."),
            ),
        };
        found.push(Finding::at(level, Code::PathLoses, text, remedy));
    }
    if path.narrow {
        let (name, mtu) = (&path.name, path.mtu);
        found.push(Finding::degraded(
            Code::PathNarrow,
            format!("Path {name} carries packets of {mtu} bytes at most and is left out."),
            "Something on its way drops larger ones; it is tried again from time to time.",
        ));
    }
    found
}

fn unprobed(status: &Status) -> Option<Finding> {
    let mut paths = status.paths.iter();
    let unprobed = paths.any(|path| is_used_unprobed(status, path));
    unprobed.then(|| {
        Finding::note(
            Code::PeerSendsNoProbes,
            "The peer sends no probes: every path carries its share, and silence is not noticed.",
            "",
        )
    })
}

fn no_reports(status: &Status) -> Option<Finding> {
    let some_up = up(&status.paths).next().is_some();
    (status.tunnel.unreported && some_up).then(|| {
        Finding::degraded(
            Code::NoReports,
            "The peer sends no reports, so that weights decide what each path gets instead of what it \
             delivers.",
            "Run this version of mpt-tund at both ends.",
        )
    })
}

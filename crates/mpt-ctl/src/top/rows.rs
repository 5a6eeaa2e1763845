//! The rows of the screen: a tunnel's paths, or a hub's peers, with the paths of those that are opened.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use mpt_core::control::{PathPhase, PathState, PathStatus, PeerState, PeerStatus, Status};
use mpt_measure::table::{Tone, clean};

use super::track::Sample;

/// A row.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    /// Tells it from others, also when it is at another place.
    pub(super) key: String,
    /// As it is shown.
    pub(super) name: String,
    /// It stands below a peer.
    pub(super) is_below: bool,
    /// What it is.
    pub(super) what: What,
    pub(super) state: (&'static str, Tone),
    pub(super) now: Sample,
}

/// What a row stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// A path of this tunnel.
    Path(PathState),
    /// A hub's peer.
    Peer,
    /// A path of a hub's peer.
    PeerPath,
}

/// By what rows are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Sort {
    #[default]
    Configured,
    Name,
    Out,
    In,
    Rtt,
    Loss,
    Queue,
}

impl Sort {
    pub(super) fn name(self) -> &'static str {
        match self {
            Sort::Configured => "as configured",
            Sort::Name => "name",
            Sort::Out => "out",
            Sort::In => "in",
            Sort::Rtt => "round trip",
            Sort::Loss => "loss",
            Sort::Queue => "queue",
        }
    }

    pub(super) fn next(self) -> Sort {
        match self {
            Sort::Configured => Sort::Name,
            Sort::Name => Sort::Out,
            Sort::Out => Sort::In,
            Sort::In => Sort::Rtt,
            Sort::Rtt => Sort::Loss,
            Sort::Loss => Sort::Queue,
            Sort::Queue => Sort::Configured,
        }
    }

    /// Names go up, numbers go down: what matters stands above.
    fn order(self, a: &Row, b: &Row) -> Ordering {
        let (x, y) = (&a.now, &b.now);
        match self {
            Sort::Configured => Ordering::Equal,
            Sort::Name => a.name.cmp(&b.name),
            Sort::Out => y.out_bps.cmp(&x.out_bps),
            Sort::In => y.in_bps.cmp(&x.in_bps),
            Sort::Rtt => y.rtt_us.cmp(&x.rtt_us),
            Sort::Loss => y.loss.total_cmp(&x.loss),
            Sort::Queue => y.queue_us.cmp(&x.queue_us),
        }
    }
}

/// The rows of a status; of a hub's peers those in `opened` with their paths.
pub(super) fn rows(
    status: &Status,
    opened: &BTreeSet<String>,
    sort: Sort,
    reversed: bool,
) -> Vec<Row> {
    if status.hub.is_none() {
        let mut rows = of_paths(&status.paths, "", What::Path);
        sorted(&mut rows, sort, reversed);
        return rows;
    }
    let total = status
        .peers
        .iter()
        .map(|peer| sum(&peer.paths, |path| path.tx_bps));
    let total = total.fold(0, u64::saturating_add);
    let mut peers: Vec<Row> = status
        .peers
        .iter()
        .map(|peer| of_peer(peer, total))
        .collect();
    sorted(&mut peers, sort, reversed);
    let mut rows = Vec::with_capacity(peers.len());
    for row in peers {
        let key = row.key.clone();
        rows.push(row);
        if opened.contains(&key)
            && let Some(peer) = status.peers.iter().find(|peer| peer.name == key)
        {
            let mut paths = of_paths(&peer.paths, &key, |_| What::PeerPath);
            sorted(&mut paths, sort, reversed);
            rows.extend(paths);
        }
    }
    rows
}

fn sorted(rows: &mut [Row], sort: Sort, reversed: bool) {
    rows.sort_by(|a, b| sort.order(a, b));
    if reversed {
        rows.reverse();
    }
}

fn of_paths(paths: &[PathStatus], peer: &str, what: fn(PathState) -> What) -> Vec<Row> {
    let total = sum(paths, |path| path.tx_bps);
    let row = |path: &PathStatus| Row {
        // No name has this between.
        key: match peer {
            "" => path.name.clone(),
            peer => format!("{peer}\0{}", path.name),
        },
        name: clean(&path.name),
        is_below: !peer.is_empty(),
        what: what(path.state),
        state: state(path),
        now: Sample {
            out_bps: path.tx_bps,
            in_bps: path.rx_bps,
            rtt_us: path.rtt_us,
            loss: path.loss,
            queue_us: path.tx_queue_us,
            share: share(path.tx_bps, total),
        },
    };
    paths.iter().map(row).collect()
}

/// What a peer's paths come to: sums of rates, the best round trip, the worst of the rest.
fn of_peer(peer: &PeerStatus, total: u64) -> Row {
    let out_bps = sum(&peer.paths, |path| path.tx_bps);
    let up = || peer.paths.iter().filter(|path| path.state == PathState::Up);
    Row {
        key: peer.name.clone(),
        name: clean(&peer.name),
        is_below: false,
        what: What::Peer,
        state: match peer.state {
            PeerState::Up => ("up", Tone::Good),
            PeerState::Down => ("down", Tone::Bad),
            PeerState::Away => ("away", Tone::Doubtful),
        },
        now: Sample {
            out_bps,
            in_bps: sum(&peer.paths, |path| path.rx_bps),
            rtt_us: up().filter_map(|path| path.rtt_us).min(),
            loss: up().map(|path| path.loss).fold(0.0, f64::max),
            queue_us: up().map(|path| path.tx_queue_us).max().unwrap_or(0),
            share: share(out_bps, total),
        },
    }
}

fn state(path: &PathStatus) -> (&'static str, Tone) {
    match (path.state, path.tx_phase) {
        (PathState::Up, PathPhase::Suspected) => ("suspected", Tone::Doubtful),
        (
            PathState::Up,
            PathPhase::Open | PathPhase::Limited | PathPhase::Draining | PathPhase::Competing,
        ) => ("up", Tone::Good),
        (PathState::Down, _) => ("down", Tone::Bad),
        (PathState::Probing, _) => ("probing", Tone::Doubtful),
        (PathState::Waiting, _) => ("waiting", Tone::Doubtful),
        (PathState::AdminDown, _) => ("admin-down", Tone::Doubtful),
    }
}

fn sum(paths: &[PathStatus], of: fn(&PathStatus) -> u64) -> u64 {
    paths.iter().map(of).fold(0, u64::saturating_add)
}

fn share(part: u64, total: u64) -> f64 {
    match total {
        0 => 0.0,
        total => part as f64 / total as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpt_core::control::HubStatus;

    fn path(name: &str, tx_bps: u64, rtt_us: u64) -> PathStatus {
        PathStatus {
            name: name.into(),
            state: PathState::Up,
            tx_bps,
            rtt_us: Some(rtt_us),
            ..PathStatus::default()
        }
    }

    fn names(rows: &[Row]) -> Vec<&str> {
        rows.iter().map(|row| &*row.name).collect()
    }

    #[test]
    fn rows_are_sorted_by_what_matters_and_the_other_way_round() {
        let status = Status {
            paths: vec![
                path("lte", 1000, 60),
                path("dsl", 3000, 20),
                path("a", 0, 40),
            ],
            ..Status::default()
        };
        let none = BTreeSet::new();
        let by = |sort, reversed| {
            let rows = rows(&status, &none, sort, reversed);
            rows.iter().map(|row| row.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(by(Sort::Configured, false), ["lte", "dsl", "a"]);
        assert_eq!(by(Sort::Name, false), ["a", "dsl", "lte"]);
        assert_eq!(by(Sort::Out, false), ["dsl", "lte", "a"]);
        assert_eq!(by(Sort::Rtt, true), ["dsl", "a", "lte"]);
        let mut all = vec![Sort::Configured];
        while all.last().unwrap().next() != Sort::Configured {
            all.push(all.last().unwrap().next());
        }
        assert_eq!(all.len(), 7);
        assert_eq!(rows(&status, &none, Sort::Out, false)[0].now.share, 0.75);
    }

    #[test]
    fn a_peer_has_the_sum_of_its_paths_which_stand_below_it_when_it_is_opened() {
        let peer = |name: &str, paths| PeerStatus {
            name: name.into(),
            state: PeerState::Up,
            paths,
            ..PeerStatus::default()
        };
        let alice = peer("alice", vec![path("lte", 1000, 60), path("dsl", 2000, 20)]);
        let status = Status {
            hub: Some(HubStatus::default()),
            paths: vec![path("isp1", 0, 0)],
            peers: vec![alice, peer("bob", vec![])],
            ..Status::default()
        };
        let shut = rows(&status, &BTreeSet::new(), Sort::Configured, false);
        assert_eq!(names(&shut), ["alice", "bob"]);
        let (sum, best) = (shut[0].now.out_bps, shut[0].now.rtt_us);
        assert_eq!((sum, best, shut[0].now.share), (3000, Some(20), 1.0));
        let opened = BTreeSet::from(["alice".to_owned()]);
        let open = rows(&status, &opened, Sort::Configured, false);
        assert_eq!(names(&open), ["alice", "lte", "dsl", "bob"]);
        assert!(open[1].is_below && open[1].what == What::PeerPath);
    }

    #[test]
    fn what_steers_a_terminal_is_no_part_of_a_name() {
        let status = Status {
            paths: vec![path("lte\u{1b}[2J", 0, 0)],
            ..Status::default()
        };
        let rows = rows(&status, &BTreeSet::new(), Sort::Configured, false);
        assert_eq!(rows[0].name, "lte\u{fffd}[2J");
    }
}

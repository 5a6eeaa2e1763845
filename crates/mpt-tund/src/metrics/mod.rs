//! The numbers of `mpt-ctl status`, `peers` and `reorder` for others: OpenMetrics over HTTP, where a configuration has
//! `[metrics]`.
//!
//! Each place that is listened at has a thread of its own ([`exporter`]), without privileges: whoever can connect there
//! has no part in the control thread's time, and packets have none in either. The thread asks the control thread for
//! [`Sample`]s, at most once a second whoever asks it; that asks the lines what `mpt-ctl status` asks, and once in ten
//! seconds what `mpt-ctl reorder` asks. Tunnels that name one place share it.
//!
//! Where nothing is configured there is nothing: no thread, no socket, and no question.

#![cfg_attr(
    not(feature = "metrics"),
    allow(dead_code, reason = "without the feature nobody asks for a sample")
)]

#[cfg_attr(not(feature = "metrics"), path = "absent.rs")]
mod exporter;
#[cfg(feature = "metrics")]
mod families;
#[cfg(feature = "metrics")]
mod page;
#[cfg(feature = "metrics")]
mod plain;
#[cfg(feature = "metrics")]
mod serve;

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;

use anyhow::Context as _;
use mpt_core::control::order::OrderStatus;
use mpt_core::control::verdict::{Level, Verdict};
use mpt_core::control::{Missing, Status};
use tokio::sync::{mpsc, oneshot};

use crate::clock;
use crate::config::{self, Listen};
use crate::control::Door;
use crate::files::Store;
use crate::wanted::retry::Retry;
use exporter::Exporter;

/// Peers of a hub that have series of their own, the first in the order of the configuration.
pub(crate) const MAX_PEERS: usize = 256;
/// Paths of a hub's peers that have, of all peers together.
pub(crate) const MAX_PEER_PATHS: usize = 512;

/// What the control thread is asked for.
#[derive(Debug)]
pub(crate) struct Asked {
    /// The tunnels that are to be measured.
    pub(crate) tunnels: Vec<String>,
    /// Order as well.
    pub(crate) with_order: bool,
    /// Where the answer goes: a sample of each of these tunnels that there is.
    pub(crate) reply: oneshot::Sender<Vec<Sample>>,
}

/// A tunnel's numbers of one moment.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    /// Everything, with a bounded number of peers and of their paths.
    pub(crate) status: Box<Status>,
    /// Order, where it was asked for and the tunnel has two ends.
    pub(crate) order: Option<Box<OrderStatus>>,
    /// The tunnel runs.
    pub(crate) runs: bool,
    /// Peers of a hub that are not in the status, being too many.
    pub(crate) peers_left_out: u64,
    /// Paths of the peers in it that are not.
    pub(crate) peer_paths_left_out: u64,
}

impl Sample {
    /// Of a tunnel that runs.
    pub(crate) fn new(mut status: Status, order: Option<Box<OrderStatus>>) -> Sample {
        let configured = status.hub.as_ref().map_or(0, |hub| hub.peers);
        status.peers.truncate(MAX_PEERS);
        let mut room = MAX_PEER_PATHS;
        let mut peer_paths_left_out = 0;
        for peer in &mut status.peers {
            peer_paths_left_out += peer.paths.len().saturating_sub(room) as u64;
            peer.paths.truncate(room);
            room -= peer.paths.len();
        }
        Sample {
            peers_left_out: configured.saturating_sub(status.peers.len() as u64),
            peer_paths_left_out,
            status: Box::new(status),
            order,
            runs: true,
        }
    }

    /// Of one that does not.
    pub(crate) fn of_none(name: &str) -> Sample {
        let mut status = Status::default();
        status.tunnel.name = name.to_owned();
        // Not that of a daemon that gives none, which is what a status has by default.
        status.verdict = Verdict {
            level: Level::Down,
            messages: Vec::new(),
        };
        Sample {
            status: Box::new(status),
            order: None,
            runs: false,
            peers_left_out: 0,
            peer_paths_left_out: 0,
        }
    }
}

/// A bound socket, on its way to the thread that listens there.
#[derive(Debug)]
pub(crate) enum Socket {
    /// TCP.
    Tcp(TcpListener),
    /// A Unix socket.
    Unix(UnixListener),
}

/// All places where metrics are to be had.
#[derive(Debug, Default)]
pub(crate) struct Exporters(Vec<Place>);

/// One of them.
#[derive(Debug)]
struct Place {
    wanted: config::Metrics,
    /// The tunnels that want it.
    tunnels: Vec<String>,
    state: State,
}

#[derive(Debug)]
enum State {
    New,
    /// It is listened there; a Unix socket has its file besides.
    Open(Exporter, Option<Door>),
    Refused(String, Retry),
}

impl Exporters {
    /// Listens where `wanted` says, each with the name of the tunnel that wants it, and nowhere else.
    pub(crate) fn reconcile<'a>(
        &mut self,
        wanted: impl Iterator<Item = (&'a config::Metrics, &'a str)>,
        files: &Store,
        measuring: &mpsc::Sender<Asked>,
    ) {
        let mut places: BTreeMap<&Listen, (&config::Metrics, Vec<String>)> = BTreeMap::new();
        for (metrics, tunnel) in wanted {
            let place = places.entry(&metrics.listen);
            let (_, tunnels) = place.or_insert((metrics, Vec::new()));
            tunnels.push(tunnel.to_owned());
        }
        let is_wanted = |place: &Place| {
            let wanted = places.get(&place.wanted.listen);
            wanted.is_some_and(|(metrics, _)| **metrics == place.wanted)
        };
        // First these: another may want their port.
        self.0.retain(is_wanted);
        for (metrics, tunnels) in places.into_values() {
            let mut known = self.0.iter();
            let at = known.position(|place| place.wanted == *metrics);
            let at = at.unwrap_or_else(|| {
                self.0.push(Place {
                    wanted: metrics.clone(),
                    tunnels: Vec::new(),
                    state: State::New,
                });
                self.0.len() - 1
            });
            self.0[at].mend(tunnels, files, measuring);
        }
    }

    /// Looks whether all that is open still is. To be called about once a second.
    pub(crate) fn look(&mut self) {
        self.0.iter_mut().for_each(Place::look);
    }

    /// The configuration was read again: what could not be had is tried at once.
    pub(crate) fn doubt(&mut self) {
        for place in &mut self.0 {
            if let State::Refused(_, retry) = &mut place.state {
                *retry = retry.at_once();
            }
        }
    }

    /// Why metrics are not to be had there, if they are not.
    pub(crate) fn lack(&self, metrics: &config::Metrics) -> Option<Missing> {
        let place = self.0.iter().find(|place| place.wanted == *metrics)?;
        match &place.state {
            State::Refused(why, _) => Some(Missing {
                what: format!("place for metrics, {}", place.wanted.listen),
                why: why.clone(),
            }),
            State::New | State::Open(..) => None,
        }
    }

    /// Ends all threads; nothing is listened at any more.
    pub(crate) fn stop(&mut self) {
        self.0.clear();
    }
}

impl Place {
    /// Opens what is not open, when it is time to try.
    fn mend(&mut self, tunnels: Vec<String>, files: &Store, measuring: &mpsc::Sender<Asked>) {
        if let State::Open(exporter, _) = &self.state
            && self.tunnels != tunnels
        {
            exporter.set_tunnels(&tunnels);
        }
        self.tunnels = tunnels;
        let now = clock::now();
        let before = match &self.state {
            State::Open(..) => return,
            State::Refused(_, retry) if !retry.is_due(now) => return,
            State::Refused(why, retry) => Some((why.clone(), *retry)),
            State::New => None,
        };
        let (listen, tunnels) = (&self.wanted.listen, self.tunnels.join(", "));
        self.state = match self.open(files, measuring) {
            Ok(open) => {
                tracing::info!("tunnel {tunnels}: metrics are to be had at {listen}");
                open
            }
            Err(error) => {
                let why = format!("{error:#}");
                if before.as_ref().is_none_or(|(told, _)| *told != why) {
                    tracing::warn!("tunnel {tunnels}: no metrics are to be had at {listen}: {why}");
                }
                let retry = before.map_or(Retry::new(now), |(_, retry)| retry.again(now));
                State::Refused(why, retry)
            }
        };
    }

    fn open(&self, files: &Store, measuring: &mpsc::Sender<Asked>) -> anyhow::Result<State> {
        let (socket, door) = match &self.wanted.listen {
            Listen::Tcp(address) => {
                let bound = TcpListener::bind(address).and_then(|socket| {
                    socket.set_nonblocking(true)?;
                    Ok(socket)
                });
                let socket = bound.with_context(|| {
                    format!("cannot listen at {address}, which `listen` in [metrics] names")
                })?;
                (Socket::Tcp(socket), None)
            }
            Listen::Socket(path) => {
                let owner = self.wanted.owner.as_ref();
                let door = files.bind(path, owner, self.wanted.mode)?;
                (Socket::Unix(door.socket()?), Some(door))
            }
        };
        let exporter = Exporter::begin(socket, &self.tunnels, measuring)?;
        Ok(State::Open(exporter, door))
    }

    /// A file that somebody has removed, or a thread that has ended, is made again.
    fn look(&mut self) {
        if let State::Open(exporter, door) = &mut self.state {
            let listen = &self.wanted.listen;
            let is_gone = match door.as_mut().map_or(Ok(false), Door::restore) {
                Ok(is_gone) => is_gone,
                Err(error) => {
                    let why = format!("{error:#}");
                    tracing::warn!(
                        "no metrics are to be had at {listen}: its file was removed, and cannot be made again: {why}"
                    );
                    // Said once; it is tried again.
                    self.state = State::Refused(why, Retry::new(clock::now()));
                    return;
                }
            };
            if is_gone || exporter.has_ended() {
                let what = match is_gone {
                    true => "its file was removed",
                    false => "its thread has ended",
                };
                tracing::warn!("the place for metrics, {listen}, is opened again: {what}");
                // The next round opens it.
                self.state = State::New;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpt_core::control::{HubStatus, PathStatus, PeerStatus};

    fn hub(peers: u64, paths: usize) -> Status {
        let peer = |number| PeerStatus {
            name: format!("p{number}"),
            paths: vec![PathStatus::default(); paths],
            ..PeerStatus::default()
        };
        Status {
            hub: Some(HubStatus {
                peers,
                ..HubStatus::default()
            }),
            peers: (0..peers.min(1000)).map(peer).collect(),
            ..Status::default()
        }
    }

    #[test]
    fn what_is_too_much_is_left_out_and_counted() {
        let sample = Sample::new(hub(10_000, 3), None);
        assert_eq!(sample.status.peers.len(), MAX_PEERS);
        assert_eq!(sample.peers_left_out, 10_000 - MAX_PEERS as u64);
        let paths: usize = sample
            .status
            .peers
            .iter()
            .map(|peer| peer.paths.len())
            .sum();
        assert_eq!(paths, MAX_PEER_PATHS);
        let all = 3 * MAX_PEERS - MAX_PEER_PATHS;
        assert_eq!(sample.peer_paths_left_out, all as u64);
        let few = Sample::new(hub(5, 2), None);
        assert_eq!((few.peers_left_out, few.peer_paths_left_out), (0, 0));
    }
}

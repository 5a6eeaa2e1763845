//! Which queue of the interface what goes to a peer comes to: that of its owner, where the kernel can be told.
//!
//! The program and its map ([`Steering`]) are made when the tunnel starts, since that takes a privilege which the daemon
//! gives up soon. They serve each interface that the tunnel comes to have. Where they are not to be had, or the map can be
//! changed no longer, queues follow flows, and workers hand more packets to each other.

use std::fmt;
use std::sync::Arc;

use mpt_core::hub::Worker;

use super::PeerChanges;
use crate::config::PeerChange;
use crate::log::Log;
use crate::tun::{Steering, Tun};

/// What chooses a queue.
pub(crate) enum Queues {
    /// There is one alone.
    One,
    /// The program, for so many.
    ByPeer(Steering, usize),
    /// The kernel, and why not the program.
    ByFlow(String),
}

impl Queues {
    /// For so many workers.
    pub(crate) fn new(workers: usize, log: &mut Log) -> Queues {
        if workers == 1 {
            return Queues::One;
        }
        match Steering::new() {
            Ok(steering) => Queues::ByPeer(steering, workers),
            Err(error) => Queues::by_flow(format!("bpf(2): {error}"), log),
        }
    }

    fn by_flow(why: String, log: &mut Log) -> Queues {
        log.info(format!(
            "the interface's queues follow flows, not peers ({why}): workers hand more packets to each other"
        ));
        Queues::ByFlow(why)
    }

    /// The tunnel has another interface, with these queues.
    pub(crate) fn opened(&mut self, queues: &[Arc<Tun>], log: &mut Log) {
        let [first, _, ..] = queues else { return };
        match self {
            Queues::ByPeer(steering, _) => {
                if let Err(error) = steering.attach(first) {
                    *self = Queues::by_flow(format!("TUNSETSTEERINGEBPF: {error}"), log);
                }
            }
            // A persistent interface may have that of an earlier daemon.
            Queues::One | Queues::ByFlow(_) => drop(Steering::detach(first)),
        }
    }

    /// Peers come, go and change; `changes` says which slots they have. `queue` is one of the interface, if there is one.
    pub(crate) fn follow(
        &mut self,
        change: &PeerChange,
        changes: &PeerChanges,
        queue: Option<&Tun>,
        log: &mut Log,
    ) {
        let Queues::ByPeer(steering, workers) = self else {
            return;
        };
        let Some(worker) = Worker::new(0, *workers) else {
            return;
        };
        let former = change.gone.iter().flat_map(|peer| peer.allowed_ips.iter());
        let now = changes.allowed.iter().flat_map(|(slot, prefixes)| {
            let owner = worker.owner(*slot);
            prefixes.iter().map(move |prefix| (*prefix, owner))
        });
        if let Err(error) = steering.exchange(former.copied(), now) {
            // By a map that is no longer right, packets of some would always come to the wrong queue.
            if let Some(queue) = queue {
                let _ = Steering::detach(queue);
            }
            *self = Queues::by_flow(format!("its map: {error}"), log);
        }
    }
}

impl fmt::Display for Queues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Queues::One => f.write_str("one queue"),
            Queues::ByPeer(..) => f.write_str("queues by peer"),
            Queues::ByFlow(why) => write!(f, "queues by flow ({why})"),
        }
    }
}

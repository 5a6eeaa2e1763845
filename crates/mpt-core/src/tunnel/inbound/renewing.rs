//! Paths on which nothing is answered for long: another port, or rest. See [`crate::path::Renewal`].

use std::net::SocketAddr;
use std::time::Duration;

use super::{Inbound, is_same_peer};
use crate::control::drops::DropReason;
use crate::path::{MAX_PATHS, Path, PathId};
use crate::time::Time;
use crate::tunnel::event::Event;

/// This long after a datagram from another port of the peer's host, a router on the way is taken to have
/// changed it.
const PORT_CHANGED: Duration = Duration::from_secs(180);

impl Inbound {
    /// Asks for another port for each path that this may help.
    pub(super) fn renew_paths(&mut self, now: Time) {
        if self.opening.is_none() {
            return;
        }
        // Of two ends that may both go, one goes first, and each knows which.
        let is_first = self.leads();
        let paths = self.paths.iter().flatten();
        let up = paths.filter(|path| path.is_up()).count();
        for id in (0..MAX_PATHS).filter_map(PathId::new) {
            let Some(path) = &mut self.paths[id.index()] else {
                continue;
            };
            let beside_others = up > usize::from(path.is_up());
            let soon = beside_others || is_first || !path.peer_may_move;
            if path.config.may_move() && path.needs_renewal(now, soon) {
                let is_faint = path.renew(now);
                self.events.push(Event::NotAnswered { path: id, is_faint });
            }
        }
    }

    /// Until when nothing is to be sent on a path that rests. In a sealed tunnel none does: there one end may
    /// only answer, and would not be heard for as long.
    pub(super) fn rests_until(&self, now: Time, id: PathId) -> Option<Time> {
        let path = self.paths[id.index()].as_ref()?;
        path.rests_until(now).filter(|_| self.opening.is_none())
    }

    /// A probe is due, on a path that may rest: whether it is put off.
    pub(super) fn puts_off(&mut self, now: Time, id: PathId) -> bool {
        let until = self.rests_until(now, id);
        let Some(path) = &mut self.paths[id.index()] else {
            return false;
        };
        // One that sends packets and no probes has never answered and works.
        let is_silent = self.peer.session().is_some() || path.rhythm.heard().is_none();
        let is_news = until.is_some() && !path.rests && is_silent;
        path.rests |= until.is_some();
        if let Some(until) = until {
            path.next_probe = until;
        }
        if is_news {
            self.events.push(Event::PathRests { path: id });
        }
        until.is_some()
    }

    /// Whether packets would keep a wrong mapping alive: the path rests, and its peer's packets come from
    /// another port than they are sent from.
    pub(super) fn is_hushed(&self, now: Time, id: PathId) -> bool {
        let path = self.paths[id.index()].as_ref();
        let changed = path.and_then(|path| path.port_changed);
        changed.is_some_and(|at| now.since(at) < PORT_CHANGED)
            && self.rests_until(now, id).is_some()
    }

    /// So many datagrams of a plain tunnel came from elsewhere than the path's peer is.
    pub(super) fn note_stranger(&mut self, now: Time, id: PathId, from: SocketAddr, count: u64) {
        let is_here = |path: &Path| path.peer.is_some_and(|peer| is_same_peer(peer, from));
        let is_another =
            self.opening.is_none() && self.paths.iter().flatten().any(|path| is_here(path));
        let why = if is_another {
            DropReason::OtherPath
        } else {
            DropReason::Stranger
        };
        self.drops.count(why, count);
        if let Some(path) = &mut self.paths[id.index()]
            && path.peer.is_some_and(|peer| peer.ip() == from.ip())
        {
            path.port_changed = Some(now);
        }
    }
}

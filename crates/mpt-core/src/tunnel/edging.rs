//! What the peer is told of paths that numbers do not go over, and what it makes of that: see
//! [`crate::wire::edges`].
//!
//! The peer's reports, which come every few milliseconds while data go out, are the occasion; so no
//! clock is needed, and a peer that sends none, because it was not asked, is told nothing.

use std::sync::atomic::Ordering;
use std::time::Duration;

use arrayvec::ArrayVec;

use super::inbound::Inbound;
use super::probing::MAX_MESSAGES_QUEUED;
use crate::control::drops::Drop;
use crate::path::{MAX_PATHS, PathId, PathSet};
use crate::seq::Seq;
use crate::time::Time;
use crate::wire::edges::Edges;

/// Least time between two messages …
const INTERVAL: Duration = Duration::from_millis(4);
/// … and least numbers, so that they are a small share of what is sent.
const NUMBERS: i32 = 16;

/// What was told last.
#[derive(Debug, Default)]
pub(super) struct Edging {
    at: Time,
    next: Seq,
    abandoned: PathSet,
}

impl Inbound {
    /// Tells the peer of paths that no number has gone over since it was told last.
    pub(super) fn tell_edges(&mut self, now: Time) {
        let next = Seq::new(self.shared.next_seq.load(Ordering::Acquire));
        let new = next.distance_from(self.edging.next);
        let usable = self.shared.usable();
        let is_only = usable.iter().nth(1).is_none();
        // What a suspected path swallowed has gone over others by now.
        let abandoned = self.shared.abandoned();
        let is_due = now.since(self.edging.at) >= INTERVAL && !(0..NUMBERS).contains(&new);
        if is_only || !is_due && abandoned == self.edging.abandoned {
            return;
        }
        let (Some(about), Some(quickest)) = (self.peer.session(), self.quickest_path()) else {
            return;
        };
        let idle = |path: &PathId| {
            let last = self.shared.last_on(*path);
            last.is_none_or(|last| self.edging.next.is_after(last))
        };
        let paths = usable
            .iter()
            .filter(|path| abandoned.contains(*path) || idle(path));
        let last_on = |path: PathId| {
            let last = self.shared.last_on(path);
            last.filter(|_| !abandoned.contains(path))
        };
        let paths: ArrayVec<_, MAX_PATHS> = paths
            .map(|path| (path.index() as u8, last_on(path)))
            .collect();
        self.edging = Edging {
            at: now,
            next,
            abandoned,
        };
        if paths.is_empty() || !self.may_speak() || self.messages.len() >= MAX_MESSAGES_QUEUED {
            return;
        }
        let edges = Edges {
            next,
            session: self.session,
            about,
            paths,
        };
        self.queue_control(quickest, edges.buffer_len(), |out| edges.emit(out));
    }

    /// Takes the peer's word for which paths bring nothing more, if it is the peer's.
    pub(super) fn handle_edges(&mut self, now: Time, edges: &Edges) {
        if self.peer.session() != Some(edges.session) || edges.about != self.session {
            self.drops.count(Drop::StaleControl, 1);
            return;
        }
        self.control_packets += 1;
        for &(index, last) in &edges.paths {
            let Some(path) = self.reporting.path_of(index) else {
                continue;
            };
            if last.is_none_or(|last| self.reporting.has_reached(path, last)) {
                let out = &mut |packet| self.ready.push_back(packet);
                // What is unbelievable changes nothing.
                let _ = self.reorder.announce(now, path, edges.next, out);
            }
        }
        self.note_losses(now);
    }
}

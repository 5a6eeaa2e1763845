//! What the peer is told of paths that numbers do not go over, and what it makes of that: see
//! [`crate::wire::edges`].
//!
//! The peer's reports, which come every few milliseconds while data go out, are the occasion; so no
//! clock is needed, and a peer that sends none, because it was not asked, is told nothing.
//!
//! A path that is suspected is named at once, and no more when it is trusted again. The peer then *doubts* it:
//! it uses others for what it sends, for a second at most, in which the path answers or is down. It may be
//! that its own way still works; but who knows that a path fails in one direction cannot know in which. Reports
//! go over others for the whole second: where it was their way that failed, the path would be trusted when
//! they come by another, and suspected again when they do not.

use std::time::Duration;

use arrayvec::ArrayVec;

use super::inbound::Inbound;
use super::probing::MAX_MESSAGES_QUEUED;
use crate::control::drops::DropReason;
use crate::path::{MAX_PATHS, PathId, PathSet};
use crate::seq::Seq;
use crate::time::Time;
use crate::wire::edges::{Edge, Edges};

/// Least time between two messages …
const INTERVAL: Duration = Duration::from_millis(4);
/// … and least numbers, so that they are a small share of what is sent.
const NUMBERS: i32 = 16;
/// A path that the peer suspects is doubted for so long at most: by then it answers again, or is down at both
/// ends.
const DOUBTED_FOR: Duration = Duration::from_secs(1);

/// What was told last.
#[derive(Debug, Default)]
pub(super) struct Edging {
    at: Time,
    next: Seq,
    abandoned: PathSet,
    suspected: PathSet,
    /// What the peer has sent before its newest message.
    heard: Option<Seq>,
    /// Paths that the peer suspected of late, and until when they are no way for reports.
    wary_of: PathSet,
    doubted_until: Option<Time>,
}

impl Edging {
    pub(super) fn deadline(&self) -> Option<Time> {
        self.doubted_until
    }

    pub(super) fn wary_of(&self) -> PathSet {
        self.wary_of
    }
}

impl Inbound {
    /// Tells the peer of paths that no number has gone over since it was told last.
    pub(super) fn tell_edges(&mut self, now: Time) {
        let next = self.shared.next_seq();
        let new = next.distance_from(self.edging.next);
        let usable = self.shared.usable();
        let is_only = usable.iter().nth(1).is_none();
        // What a suspected path swallowed has gone over others by now.
        let [suspected, abandoned] = self.shared.suspected_and_abandoned();
        let is_due = now.since(self.edging.at) >= INTERVAL && !(0..NUMBERS).contains(&new);
        let is_news = (abandoned, suspected) != (self.edging.abandoned, self.edging.suspected);
        if is_only || !is_due && !is_news {
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
            .filter(|path| suspected.contains(*path) || idle(path));
        let last_on = |path: PathId| {
            let last = self.shared.last_on(path);
            last.filter(|_| !abandoned.contains(path))
        };
        let paths: ArrayVec<_, MAX_PATHS> = paths
            .map(|path| Edge {
                path: path.index() as u8,
                last: last_on(path),
                suspected: suspected.contains(path),
            })
            .collect();
        let is_empty = paths.is_empty() && self.edging.suspected.is_empty();
        self.edging = Edging {
            at: now,
            next,
            abandoned,
            suspected,
            ..self.edging
        };
        if is_empty || !self.may_speak() || self.messages.len() >= MAX_MESSAGES_QUEUED {
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
            self.drops.count(DropReason::StaleControl, 1);
            return;
        }
        self.control_packets += 1;
        let mut doubted = PathSet::EMPTY;
        for edge in &edges.paths {
            let Some(path) = self.reporting.path_of(edge.path) else {
                continue;
            };
            if edge.suspected {
                doubted.insert(path);
            }
            if edge
                .last
                .is_none_or(|last| self.reporting.has_reached(path, last))
            {
                let out = &mut |packet| self.ready.push_back(packet);
                // What is unbelievable changes nothing.
                let _ = self.reorder.announce(now, path, edges.next, out);
            }
        }
        self.note_losses(now);
        self.doubt(now, edges.next, doubted);
    }

    /// The peer suspects these paths, and no others.
    fn doubt(&mut self, now: Time, next: Seq, paths: PathSet) {
        let distance = |heard: Seq| next.distance_from(heard);
        if self.edging.heard.is_some_and(|heard| distance(heard) < 0) && paths.is_empty() {
            // It was overtaken by one that said more.
            return;
        }
        self.edging.heard = Some(next);
        if !paths.is_empty() {
            self.edging.wary_of = paths;
            self.edging.doubted_until = Some(now + DOUBTED_FOR);
        }
        self.shared.tell_doubted(paths);
    }

    /// Ends doubts of which the peer said nothing more.
    pub(super) fn end_doubts(&mut self, now: Time) {
        if self.edging.doubted_until.is_some_and(|until| until <= now) {
            self.edging.doubted_until = None;
            self.edging.wary_of = PathSet::EMPTY;
            self.shared.tell_doubted(PathSet::EMPTY);
        }
    }
}

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

use super::Shared;
use crate::path::{MAX_PATHS, PathId, PathSet};
use crate::seq::Seq;
use crate::time::Time;
use crate::wire::edges::Edge;

/// Least time between two messages …
const INTERVAL: Duration = Duration::from_millis(4);
/// … and least numbers, so that they are a small share of what is sent.
const NUMBERS: i32 = 16;
/// The line out says over which path a number goes before it counts it as sent: fewer than this are in between.
const NOT_COUNTED: i32 = 65_536;
/// A path that the peer suspects is doubted for this long at most: by then it answers again, or is down at both
/// ends.
const DOUBTED_FOR: Duration = Duration::from_secs(1);

/// What was told last.
#[derive(Debug, Default)]
pub(super) struct Watermarks {
    at: Time,
    next: Seq,
    abandoned: PathSet,
    suspected: PathSet,
    /// What the peer has sent before its newest message.
    heard: Option<Seq>,
    /// Paths of which it was noticed that they are suspected.
    noticed: PathSet,
    /// Paths that the peer suspected lately, and until when they are no way for reports.
    wary_of: PathSet,
    doubted_until: Option<Time>,
}

impl Watermarks {
    /// The peer began anew: its numbers begin elsewhere.
    pub(super) fn begin_session(&mut self) {
        self.heard = None;
    }

    /// When doubts end.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.doubted_until
    }

    /// Paths that are no way for reports.
    pub(super) fn wary_of(&self) -> PathSet {
        self.wary_of
    }

    /// Whether the peer is to be told now.
    pub(super) fn is_due(&self, now: Time, shared: &Shared) -> bool {
        let new = shared.next_seq().distance_from(self.next);
        let is_only = shared.usable().iter().nth(1).is_none();
        let is_due = now.since(self.at) >= INTERVAL && !(0..NUMBERS).contains(&new);
        // What a suspected path swallowed has gone over others by now.
        let is_news = shared.suspected_and_abandoned() != [self.suspected, self.abandoned];
        !is_only && (is_due || is_news)
    }

    /// Up to which number all were sent, and the paths that no number has gone over since the peer was told
    /// last; it is told now. Nothing when there is nothing to tell.
    pub(super) fn take(
        &mut self,
        now: Time,
        shared: &Shared,
    ) -> Option<(Seq, ArrayVec<Edge, MAX_PATHS>)> {
        let next = shared.next_seq();
        let [suspected, abandoned] = shared.suspected_and_abandoned();
        let idle = |path: PathId| {
            let last = shared.last_on(path);
            let since_told = 0..next.distance_from(self.next).saturating_add(NOT_COUNTED);
            last.is_none_or(|last| !since_told.contains(&last.distance_from(self.next)))
        };
        let usable = shared.usable();
        let paths = usable
            .iter()
            .filter(|&path| suspected.contains(path) || idle(path));
        let last_on = |path: PathId| {
            let last = shared.last_on(path);
            last.filter(|_| !abandoned.contains(path))
        };
        let paths: ArrayVec<_, MAX_PATHS> = paths
            .map(|path| Edge {
                path: path.index() as u8,
                last: last_on(path),
                suspected: suspected.contains(path),
            })
            .collect();
        let is_empty = paths.is_empty() && self.suspected.is_empty();
        (self.at, self.next) = (now, next);
        (self.abandoned, self.suspected) = (abandoned, suspected);
        (!is_empty).then_some((next, paths))
    }

    /// The paths that have come to be suspected since this was last asked, and whether any is or was.
    pub(super) fn notice(&mut self, suspected: PathSet) -> (PathSet, bool) {
        let known = std::mem::replace(&mut self.noticed, suspected);
        let mut new = suspected;
        for path in known.iter() {
            new.remove(path);
        }
        (new, !suspected.is_empty() || !known.is_empty())
    }

    /// The peer, which has sent all below `next`, suspects these paths and no others. Returns whether that is
    /// to be believed.
    pub(super) fn doubt(&mut self, now: Time, next: Seq, paths: PathSet) -> bool {
        let distance = |heard: Seq| next.distance_from(heard);
        if self.heard.is_some_and(|heard| distance(heard) < 0) && paths.is_empty() {
            // It was overtaken by one that said more.
            return false;
        }
        self.heard = Some(next);
        if !paths.is_empty() {
            self.wary_of = paths;
            self.doubted_until = Some(now + DOUBTED_FOR);
        }
        true
    }

    /// Ends doubts of which the peer said nothing more. Returns whether there were any.
    pub(super) fn end_doubts(&mut self, now: Time) -> bool {
        let ends = self.doubted_until.take_if(|until| *until <= now).is_some();
        if ends {
            self.wary_of = PathSet::EMPTY;
        }
        ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_path_stays_idle_however_many_numbers_go_over_others() {
        let shared = Shared::new(1464);
        shared.usable.store(0b11, Ordering::Relaxed);
        let [busy, idle] = [0, 1].map(|index| PathId::new(index).unwrap());
        shared.set_last_on(idle, Seq::new(1 << 20));
        let mut watermarks = Watermarks {
            next: Seq::new(1 << 21),
            ..Watermarks::default()
        };
        for next in [1 << 30, 1 << 31, 3 << 30, u32::MAX] {
            shared.set_last_on(busy, Seq::new(next - 1));
            shared.numbers.set_next(next);
            let told = watermarks.take(Time::ZERO, &shared);
            let told: Vec<u8> = told.unwrap().1.iter().map(|edge| edge.path).collect();
            assert_eq!(told, [1], "before {next}");
        }
        // A number goes over each, and is not counted yet.
        for path in [busy, idle] {
            shared.set_last_on(path, Seq::new(u32::MAX));
        }
        assert!(watermarks.take(Time::ZERO, &shared).is_none());
    }
}

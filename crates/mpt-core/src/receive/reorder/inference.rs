//! What has not come and will not: loss told from reordering.
//!
//! Paths deliver in order. A path whose *edge* is beyond a number does not bring it any more, unless
//! its packets overtake each other, and then not for longer than its learnt reordering window. When
//! that holds for every path that is waited for, the number is lost. All below the *frontier* is so.
//!
//! A peer that sends lost packets again brings it all the same: then what is lost may stand open for
//! as long as that takes ([`Recovery`]), and only then is it given up.

use std::time::Duration;

use super::MAX_DISTANCE;
use super::displacement::Displacement;
use super::passage::Passage;
use crate::path::{PathId, PathSet, RoundTrip};
use crate::seq::Seq;
use crate::time::{Time, earliest};

/// What to expect of a peer that sends lost packets again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovery {
    /// How long a lost number stays open.
    pub hold: Duration,
    /// What is sent again does not come earlier than this after its path's edge has passed.
    pub soonest: Duration,
}

/// One path.
#[derive(Debug, Clone)]
struct Track {
    passage: Passage,
    displacement: Displacement,
}

impl Track {
    fn new(first: Seq) -> Track {
        let mut track = Track {
            passage: Passage::new(first),
            displacement: Displacement::default(),
        };
        track.follow_displacement(Time::ZERO);
        track
    }

    fn follow_displacement(&mut self, now: Time) {
        let (window, memory) = (self.displacement.window(), self.displacement.memory());
        self.passage.set_patience(now, window, memory);
    }
}

/// The edges of all paths, and what follows from them.
#[derive(Debug)]
pub(super) struct Inference {
    /// By path, up to the last of which anything is known.
    tracks: Vec<Track>,
    /// What a path has passed of which nothing is known.
    first: Seq,
    waited_for: PathSet,
    /// All below its edge is lost; all below the settled edge is given up.
    frontier: Passage,
    recovery: Option<Recovery>,
}

impl Inference {
    pub(super) fn new(first: Seq) -> Inference {
        Inference {
            tracks: Vec::new(),
            first,
            waited_for: PathSet::EMPTY,
            frontier: Passage::new(first),
            recovery: None,
        }
    }

    #[inline]
    fn track(&mut self, path: PathId) -> &mut Track {
        let index = path.index();
        if self.tracks.len() <= index {
            self.tracks.resize(index + 1, Track::new(self.first));
        }
        &mut self.tracks[index]
    }

    /// Another numbering begins at `first`. What was learnt of paths stays.
    pub(super) fn reset(&mut self, first: Seq) {
        self.first = first;
        for track in &mut self.tracks {
            track.passage.reset(first);
        }
        self.frontier.reset(first);
    }

    /// Forgets what was learnt of a path.
    pub(super) fn forget(&mut self, path: PathId) {
        if let Some(track) = self.tracks.get_mut(path.index()) {
            *track = Track::new(track.passage.edge());
        }
    }

    pub(super) fn set_rtt(&mut self, now: Time, path: PathId, rtt: RoundTrip) {
        let track = self.track(path);
        track.displacement.set_rtt(rtt);
        track.displacement.end_round(now);
        track.follow_displacement(now);
    }

    pub(super) fn set_recovery(&mut self, now: Time, recovery: Option<Recovery>) {
        self.recovery = recovery;
        let hold = recovery.map_or(Duration::ZERO, |recovery| recovery.hold);
        if hold != self.frontier.patience() {
            self.frontier.set_patience(now, hold, hold);
        }
    }

    /// How long inference waits on a path behind its edge.
    pub(super) fn window(&self, path: PathId) -> Duration {
        let track = self.tracks.get(path.index());
        track.map_or_else(
            || Displacement::default().window(),
            |track| track.passage.patience(),
        )
    }

    /// Whether the path has not passed `seq`. If so, it has now.
    #[inline]
    pub(super) fn comes_in_order(&mut self, now: Time, path: PathId, seq: Seq) -> bool {
        let passage = &mut self.track(path).passage;
        let in_order = !passage.edge().is_after(seq);
        passage.reach(now, seq.next());
        in_order
    }

    /// A packet came that had not come before, and its path had passed it.
    pub(super) fn overtaken(&mut self, now: Time, path: PathId, seq: Seq, given_up: bool) {
        let recovery = self.recovery;
        let track = self.track(path);
        let ago = track.passage.passed_at(seq).map(|at| now.since(at));
        if let Some(recovery) = recovery
            && ago.is_none_or(|ago| ago >= recovery.soonest)
        {
            return;
        }
        track.displacement.overtaken(now, ago, given_up);
        track.follow_displacement(now);
    }

    /// Everything below `edge` that went over `path` was sent before.
    pub(super) fn announce(&mut self, now: Time, path: PathId, edge: Seq) {
        self.track(path).passage.reach(now, edge);
    }

    pub(super) fn waited_for(&self) -> PathSet {
        self.waited_for
    }

    /// Which paths are waited for. One that joins has passed nothing from `next` on.
    pub(super) fn wait_for(&mut self, paths: PathSet, next: Seq) {
        let waited_for = self.waited_for;
        for path in paths.iter().filter(|&path| !waited_for.contains(path)) {
            self.track(path).passage.reset(next);
        }
        self.waited_for = paths;
    }

    /// Whether a number from the next expected one on is lost.
    #[inline]
    pub(super) fn is_lost(&self, seq: Seq) -> bool {
        let behind = self.frontier.edge().distance_from(seq);
        (1..=MAX_DISTANCE as i32).contains(&behind)
    }

    /// Since when this number, which is lost, is known to be so.
    pub(super) fn lost_since(&self, seq: Seq) -> Option<Time> {
        self.frontier.passed_at(seq)
    }

    /// Moves the frontier. Returns the former one (at least `next`) and the present one, when they
    /// differ.
    pub(super) fn infer(&mut self, now: Time, next: Seq) -> Option<(Seq, Seq)> {
        let edge = self.frontier.edge().distance_from(next);
        if !(0..=MAX_DISTANCE as i32).contains(&edge) {
            self.frontier.reset(next);
        }
        let mut settled: Option<Seq> = None;
        for path in self.waited_for.iter() {
            // Each, also behind one that has passed nothing: later arrivals put off what has not settled.
            let edge = self.track(path).passage.settle(now);
            if settled.is_none_or(|least| least.is_after(edge)) {
                settled = Some(edge);
            }
        }
        let before = self.frontier.edge();
        let settled = settled.filter(|settled| settled.is_after(before))?;
        self.frontier.reach(now, settled);
        Some((before, settled))
    }

    /// Numbers that all waited-for paths had passed were found to be lost.
    pub(super) fn found_lost(&mut self, now: Time) {
        for path in self.waited_for.iter() {
            let track = self.track(path);
            if !track.passage.patience().is_zero() {
                track.displacement.gave_up(now);
                track.follow_displacement(now);
            }
        }
    }

    /// One past the highest number that is to be given up now.
    pub(super) fn given_up(&mut self, now: Time) -> Seq {
        self.frontier.settle(now)
    }

    /// When there is more to infer or to give up.
    pub(super) fn poll_timeout(&self, next: Seq) -> Option<Time> {
        let given_up = self.frontier.settles_past(next).filter(|_| {
            // Not what was left behind long ago.
            self.is_lost(next)
        });
        let frontier = self.frontier.edge();
        let beyond = if self.is_lost(next) { frontier } else { next };
        let mut inferred = (!self.waited_for.is_empty()).then_some(Time::ZERO);
        for path in self.waited_for.iter() {
            let passage = &self.tracks[path.index()].passage;
            let passes = passage.edge().is_after(beyond);
            inferred = match (inferred, passage.settles_past(beyond).filter(|_| passes)) {
                (Some(all), Some(one)) => Some(all.max(one)),
                (None, _) | (_, None) => None,
            };
            if inferred.is_none() {
                break;
            }
        }
        earliest(given_up, inferred)
    }
}

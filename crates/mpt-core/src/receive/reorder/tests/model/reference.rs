//! The model: the rules of the window's text, on integers that do not wrap.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::receive::reorder::displacement::Displacement;

/// How far something has come, and all its history.
#[derive(Clone, Default)]
struct Edge {
    /// Where it began.
    base: i64,
    edge: i64,
    settled: i64,
    patience: Duration,
    grain: Duration,
    /// The edge, and the first and last moment of the span in which it came there.
    marks: Vec<(i64, Time, Time)>,
}

impl Edge {
    fn reset(&mut self, edge: i64) {
        (self.base, self.edge, self.settled) = (edge, edge, edge);
        self.marks.clear();
    }

    fn set_patience(&mut self, now: Time, patience: Duration, memory: Duration) {
        self.settle(now);
        self.patience = patience;
        self.grain = patience.max(memory) / 16;
    }

    fn reach(&mut self, now: Time, edge: i64) {
        if edge <= self.edge {
            return;
        }
        self.edge = edge;
        match self.marks.last_mut() {
            Some((newest, opened, at)) if now < *opened + self.grain => {
                (*newest, *at) = (edge, now);
            }
            _ => self.marks.push((edge, now, now)),
        }
    }

    fn settle(&mut self, now: Time) -> i64 {
        let due = |mark: &&(i64, Time, Time)| mark.2 + self.patience <= now;
        let settled = self.marks.iter().rfind(due).map_or(i64::MIN, |mark| mark.0);
        self.settled = self.settled.max(settled);
        if self.patience.is_zero() {
            self.settled = self.edge;
        }
        self.settled
    }

    /// When it will have settled beyond `n`.
    fn settles_past(&self, n: i64) -> Option<Time> {
        if self.settled > n {
            return Some(Time::ZERO);
        }
        let mark = self.marks.iter().find(|mark| mark.0 > n)?;
        Some(mark.2 + self.patience)
    }

    fn passed_at(&self, n: i64) -> Option<Time> {
        let first = self.marks.iter().position(|mark| mark.0 > n)?;
        // No more than so many are remembered.
        (n >= self.base && first + 32 >= self.marks.len()).then(|| self.marks[first].1)
    }
}

/// The rules of the module's text, word by word.
pub(super) struct Model {
    config: ReorderConfig,
    pub(super) next: i64,
    high: i64,
    pub(super) announced: i64,
    /// What is missing below is no gap.
    first_known: i64,
    pub(super) held: BTreeMap<i64, Time>,
    edges: [Edge; PATHS],
    displacements: [Displacement; PATHS],
    waited_for: Vec<usize>,
    /// Below its edge all is lost, below what of it has settled all is given up.
    frontier: Edge,
    soonest: Option<Duration>,
    delivered: BTreeSet<i64>,
    /// All below count as delivered.
    pub(super) closed: i64,
    pub(super) counters: ReorderCounters,
    pub(super) found_lost: u64,
    pub(super) out: Vec<i64>,
    /// Places in `out` that were late.
    pub(super) late: BTreeSet<usize>,
    pub(super) longest_hold: Duration,
}

impl Model {
    pub(super) fn new(config: ReorderConfig) -> Model {
        let mut model = Model {
            config,
            next: 0,
            high: 0,
            announced: 0,
            first_known: 0,
            held: BTreeMap::new(),
            edges: Default::default(),
            displacements: Default::default(),
            waited_for: Vec::new(),
            frontier: Edge::default(),
            soonest: None,
            delivered: BTreeSet::new(),
            closed: i64::MIN,
            counters: ReorderCounters::default(),
            found_lost: 0,
            out: Vec::new(),
            late: BTreeSet::new(),
            longest_hold: Duration::ZERO,
        };
        (0..PATHS).for_each(|path| model.follow_displacement(Time::ZERO, path));
        model
    }

    pub(super) fn room(&self) -> i64 {
        i64::from(self.config.window.max(1))
    }

    pub(super) fn insert(&mut self, now: Time, path: usize, n: i64) -> Verdict {
        let known = self.announced.max(self.high);
        let believed = i64::from(self.config.believed.max(LEAST_BELIEVED));
        if n <= self.next - i64::from(MAX_DISTANCE) || n >= known + believed {
            return Verdict::Unbelievable;
        }
        let is_overtaken = self.edges[path].edge > n;
        self.edges[path].reach(now, n + 1);
        if self.held.contains_key(&n)
            || n < self.next && (n < self.closed || self.delivered.contains(&n))
        {
            self.counters.duplicates += 1;
            self.infer_lost(now);
            return Verdict::Duplicate;
        }
        let is_lost = n < self.frontier.edge || n < self.next;
        if is_overtaken {
            self.overtaken(now, path, n, is_lost);
        }
        if n < self.next {
            self.delivered.insert(n);
            self.counters.late += 1;
            if self.config.late == LatePolicy::Drop {
                return Verdict::LateDropped;
            }
            self.late.insert(self.out.len());
            self.out.push(n);
            return Verdict::Taken;
        }
        if n < self.high {
            self.counters.reordered += 1;
            if n >= self.first_known {
                match is_lost {
                    true => self.counters.gaps_recovered += 1,
                    false => self.counters.gaps_filled += 1,
                }
            }
        } else {
            self.counters.in_order += 1;
            self.counters.gaps_seen += (n - self.high) as u64;
            self.high = n + 1;
        }
        if let Some(widest) = self.config.grows_to
            && n - self.next >= i64::from(self.config.window)
            && widest > self.config.window
        {
            let needed = (n - self.next + 1) as u32;
            self.config.window = needed.next_power_of_two().min(widest);
        }
        self.counters.gaps_overflowed += self.advance(now, n + 1 - self.room());
        self.held.insert(n, now);
        if n != self.next {
            self.counters.held_max = self.counters.held_max.max(self.held.len() as u32);
        }
        self.release_run(now);
        self.infer_lost(now);
        Verdict::Taken
    }

    pub(super) fn hear_of(&mut self, first: i64) {
        (self.high, self.first_known) = (first, first);
    }

    pub(super) fn know_from(&mut self, first: i64) {
        let gaps = (first.max(self.next)..self.first_known).filter(|n| !self.held.contains_key(n));
        self.counters.gaps_seen += gaps.count() as u64;
        self.first_known = self.first_known.min(first.max(self.next));
    }

    pub(super) fn announce(&mut self, now: Time, path: usize, edge: i64) -> bool {
        if (edge - self.next).abs() >= i64::from(MAX_DISTANCE) {
            return false;
        }
        self.edges[path].reach(now, edge);
        self.announced = self.announced.max(edge);
        self.infer_lost(now);
        true
    }

    pub(super) fn wait_for(&mut self, now: Time, paths: Vec<usize>) {
        for &path in &paths {
            if !self.waited_for.contains(&path) {
                self.edges[path].reset(self.next);
            }
        }
        self.waited_for = paths;
        self.infer_lost(now);
    }

    /// A packet that is sent again is no sign of packets that overtake each other.
    pub(super) fn overtaken(&mut self, now: Time, path: usize, n: i64, is_lost: bool) {
        let ago = self.edges[path].passed_at(n).map(|at| now.since(at));
        let again = self
            .soonest
            .is_some_and(|soonest| ago.is_none_or(|ago| ago >= soonest));
        if !again {
            self.displacements[path].overtaken(now, ago, is_lost);
            self.follow_displacement(now, path);
        }
    }

    pub(super) fn set_rtt(&mut self, now: Time, path: usize, rtt: RoundTrip) {
        self.displacements[path].set_rtt(rtt);
        self.displacements[path].end_round(now);
        self.follow_displacement(now, path);
    }

    pub(super) fn follow_displacement(&mut self, now: Time, path: usize) {
        let displacement = &self.displacements[path];
        self.edges[path].set_patience(now, displacement.window(), displacement.memory());
    }

    pub(super) fn set_recovery(&mut self, now: Time, recovery: Option<Recovery>) {
        let recovery = recovery.filter(|_| self.config.window > 1);
        self.soonest = recovery.map(|recovery| recovery.soonest);
        let hold = recovery.map_or(Duration::ZERO, |recovery| recovery.hold);
        let hold = hold.min(self.config.max_buffer_delay);
        if hold != self.frontier.patience {
            self.frontier.set_patience(now, hold, hold);
        }
    }

    pub(super) fn timeout(&self) -> Option<Time> {
        let oldest = self.held.values().min();
        let times_out = oldest.map(|&arrived| arrived + self.config.max_buffer_delay);
        let is_pending = self.frontier.edge > self.next;
        let given_up = self.frontier.settles_past(self.next);
        let given_up = given_up.filter(|_| is_pending);
        let beyond = self.frontier.edge.max(self.next);
        let inferred: Option<Vec<Time>> = self
            .waited_for
            .iter()
            .map(|&path| self.edges[path].settles_past(beyond))
            .collect();
        let inferred = inferred.and_then(|times| times.into_iter().max());
        earliest(times_out, earliest(given_up, inferred))
    }

    pub(super) fn handle_timeout(&mut self, now: Time) {
        let due = |&(_, &arrived): &(&i64, &Time)| arrived + self.config.max_buffer_delay <= now;
        if let Some((&last_due, _)) = self.held.iter().rfind(due) {
            self.counters.gaps_timed_out += self.advance(now, last_due + 1);
        }
        self.infer_lost(now);
    }

    pub(super) fn reconfigure(&mut self, now: Time, config: ReorderConfig) {
        self.config = config;
        self.counters.gaps_overflowed += self.advance(now, self.high - self.room());
    }

    pub(super) fn resync(&mut self, now: Time, first: i64) {
        self.counters.gaps_inferred_lost += self.advance(now, self.high);
        (self.next, self.high, self.announced) = (first, first, first);
        self.first_known = first;
        self.edges.iter_mut().for_each(|edge| edge.reset(first));
        self.frontier.reset(first);
        self.delivered.clear();
        self.closed = first;
    }

    pub(super) fn infer_lost(&mut self, now: Time) {
        if self.frontier.edge < self.next {
            self.frontier.reset(self.next);
        }
        let edges = &mut self.edges;
        let settled = self.waited_for.iter().map(|&path| edges[path].settle(now));
        if let Some(frontier) = settled.min().filter(|&edge| edge > self.frontier.edge) {
            self.found_lost(now, frontier);
            // No more than the window stays open.
            let least = (frontier - self.room()).max(frontier.min(self.first_known));
            self.counters.gaps_inferred_lost += self.advance(now, least);
        }
        let given_up = self.frontier.settle(now);
        self.counters.gaps_inferred_lost += self.advance(now, given_up);
    }

    pub(super) fn found_lost(&mut self, now: Time, frontier: i64) {
        let lost = (self.frontier.edge.max(self.first_known)..frontier)
            .filter(|n| !self.held.contains_key(n))
            .count();
        self.frontier.reach(now, frontier);
        self.found_lost += lost as u64;
        for path in self.waited_for.clone() {
            if lost > 0 && !self.edges[path].patience.is_zero() {
                self.displacements[path].gave_up(now);
                self.follow_displacement(now, path);
            }
        }
        if frontier > self.high {
            self.counters.gaps_seen += (frontier - self.high) as u64;
            self.high = frontier;
        }
    }

    /// Everything below `target` ends; returns how many gaps there were.
    pub(super) fn advance(&mut self, now: Time, target: i64) -> u64 {
        if target > self.high {
            self.counters.gaps_seen += (target - self.high) as u64;
            self.high = target;
        }
        let mut missing = 0;
        while self.next < target {
            if !self.release(now) {
                missing += u64::from(self.next >= self.first_known);
                self.next += 1;
            }
        }
        self.release_run(now);
        missing
    }

    pub(super) fn release_run(&mut self, now: Time) {
        while self.release(now) {}
    }

    pub(super) fn release(&mut self, now: Time) -> bool {
        let Some(arrived) = self.held.remove(&self.next) else {
            return false;
        };
        self.longest_hold = self.longest_hold.max(now.since(arrived));
        self.delivered.insert(self.next);
        self.out.push(self.next);
        self.next += 1;
        true
    }
}

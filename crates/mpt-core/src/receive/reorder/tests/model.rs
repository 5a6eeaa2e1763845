//! The window against a model that is too simple to be wrong: numbers are plain integers that do not
//! wrap, held packets stand in a map, and every step takes as long as it takes.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::receive::reorder::displacement::Displacement;

const PATHS: usize = 3;

#[derive(Debug, Clone)]
enum Op {
    /// Insert on a path, so far from the next expected number.
    Insert(usize, i64),
    /// A run in order from the next expected number on.
    Run(usize, u8),
    Announce(usize, i64),
    WaitFor(u16),
    /// Let so many milliseconds pass, with every timeout at its time.
    Pass(u16),
    Reconfigure(u32, Option<u32>, u16, bool),
    /// Expect a number so far from the next expected one.
    Resync(i64),
    Believe(i64),
    ClosePast,
    /// Round-trip times in milliseconds, the least and what the smoothed one has beyond it.
    Rtt(usize, u8, u8),
    /// The peer sends again what is lost: within so many milliseconds, and not earlier than.
    Recovery(Option<(u16, u8)>),
}

fn window() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), Just(1), 2..100u32, Just(1024u32), Just(2000u32)]
}

fn op() -> impl Strategy<Value = Op> {
    let path = 0..PATHS;
    let near = prop_oneof![
        8 => -20..40i64,
        2 => -300..1500i64,
        1 => -70_000..140_000i64,
        1 => Just(i64::from(i32::MIN)),
    ];
    prop_oneof![
        12 => (path.clone(), near.clone()).prop_map(|(path, offset)| Op::Insert(path, offset)),
        3 => (path.clone(), any::<u8>()).prop_map(|(path, count)| Op::Run(path, count)),
        3 => (path, near.clone()).prop_map(|(path, offset)| Op::Announce(path, offset)),
        2 => (0..1u16 << PATHS).prop_map(Op::WaitFor),
        3 => (0..500u16).prop_map(Op::Pass),
        3 => (0..20u16).prop_map(Op::Pass),
        1 => (window(), proptest::option::of(window()), 1..400u16, any::<bool>())
            .prop_map(|(window, grows_to, ms, drop)| Op::Reconfigure(window, grows_to, ms, drop)),
        1 => near.clone().prop_map(Op::Resync),
        1 => near.prop_map(Op::Believe),
        1 => Just(Op::ClosePast),
        1 => (0..PATHS, 0..50u8, 0..50u8).prop_map(|(path, least, more)| Op::Rtt(path, least, more)),
        1 => proptest::option::of((0..400u16, 0..50u8)).prop_map(Op::Recovery),
    ]
}

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
struct Model {
    config: ReorderConfig,
    next: i64,
    high: i64,
    announced: i64,
    held: BTreeMap<i64, Time>,
    edges: [Edge; PATHS],
    displacements: [Displacement; PATHS],
    waited_for: Vec<usize>,
    /// Below its edge all is lost, below what of it has settled all is given up.
    frontier: Edge,
    soonest: Option<Duration>,
    delivered: BTreeSet<i64>,
    /// All below count as delivered.
    closed: i64,
    counters: ReorderCounters,
    found_lost: u64,
    out: Vec<i64>,
    /// Places in `out` that were late.
    late: BTreeSet<usize>,
    longest_hold: Duration,
}

impl Model {
    fn new(config: ReorderConfig) -> Model {
        let mut model = Model {
            config,
            next: 0,
            high: 0,
            announced: 0,
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

    fn room(&self) -> i64 {
        i64::from(self.config.window.max(1))
    }

    fn insert(&mut self, now: Time, path: usize, n: i64) -> Verdict {
        let known = self.announced.max(self.high);
        let believed = match self.config.grows_to {
            Some(_) => i64::from(LEAST_BELIEVED),
            None => i64::from(self.config.window.max(LEAST_BELIEVED)),
        };
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
            if is_lost {
                self.counters.gaps_recovered += 1;
            } else {
                self.counters.gaps_filled += 1;
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

    fn announce(&mut self, now: Time, path: usize, edge: i64) -> bool {
        if (edge - self.next).abs() >= i64::from(MAX_DISTANCE) {
            return false;
        }
        self.edges[path].reach(now, edge);
        if edge > self.high {
            self.announced = edge;
        }
        self.infer_lost(now);
        true
    }

    fn wait_for(&mut self, now: Time, paths: Vec<usize>) {
        for &path in &paths {
            if !self.waited_for.contains(&path) {
                self.edges[path].reset(self.next);
            }
        }
        self.waited_for = paths;
        self.infer_lost(now);
    }

    /// A packet that is sent again is no sign of packets that overtake each other.
    fn overtaken(&mut self, now: Time, path: usize, n: i64, is_lost: bool) {
        let ago = self.edges[path].passed_at(n).map(|at| now.since(at));
        let again = self
            .soonest
            .is_some_and(|soonest| ago.is_none_or(|ago| ago >= soonest));
        if !again {
            self.displacements[path].overtaken(now, ago, is_lost);
            self.follow_displacement(now, path);
        }
    }

    fn set_rtt(&mut self, now: Time, path: usize, rtt: RoundTrip) {
        self.displacements[path].set_rtt(rtt);
        self.follow_displacement(now, path);
    }

    fn follow_displacement(&mut self, now: Time, path: usize) {
        let displacement = &self.displacements[path];
        self.edges[path].set_patience(now, displacement.window(), displacement.memory());
    }

    fn set_recovery(&mut self, now: Time, recovery: Option<Recovery>) {
        let recovery = recovery.filter(|_| self.config.window > 1);
        self.soonest = recovery.map(|recovery| recovery.soonest);
        let hold = recovery.map_or(Duration::ZERO, |recovery| recovery.hold);
        let hold = hold.min(self.config.max_buffer_delay);
        if hold != self.frontier.patience {
            self.frontier.set_patience(now, hold, hold);
        }
    }

    fn timeout(&self) -> Option<Time> {
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

    fn handle_timeout(&mut self, now: Time) {
        let due = |&(_, &arrived): &(&i64, &Time)| arrived + self.config.max_buffer_delay <= now;
        if let Some((&last_due, _)) = self.held.iter().rfind(due) {
            self.counters.gaps_timed_out += self.advance(now, last_due + 1);
        }
        self.infer_lost(now);
    }

    fn reconfigure(&mut self, now: Time, config: ReorderConfig) {
        self.config = config;
        if !self.held.is_empty() {
            self.counters.gaps_overflowed += self.advance(now, self.high - self.room());
        }
    }

    fn resync(&mut self, now: Time, first: i64) {
        self.counters.gaps_inferred_lost += self.advance(now, self.high);
        (self.next, self.high, self.announced) = (first, first, first);
        self.edges.iter_mut().for_each(|edge| edge.reset(first));
        self.frontier.reset(first);
        self.delivered.clear();
        self.closed = first;
    }

    fn infer_lost(&mut self, now: Time) {
        if self.frontier.edge < self.next {
            self.frontier.reset(self.next);
        }
        let edges = &mut self.edges;
        let settled = self.waited_for.iter().map(|&path| edges[path].settle(now));
        if let Some(frontier) = settled.min().filter(|&edge| edge > self.frontier.edge) {
            self.found_lost(now, frontier);
            // No more than the window stays open.
            let least = frontier - self.room();
            self.counters.gaps_inferred_lost += self.advance(now, least);
        }
        let given_up = self.frontier.settle(now);
        self.counters.gaps_inferred_lost += self.advance(now, given_up);
    }

    fn found_lost(&mut self, now: Time, frontier: i64) {
        let lost = (self.frontier.edge..frontier)
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

    /// Everything below `target` ends; returns how many were missing.
    fn advance(&mut self, now: Time, target: i64) -> u64 {
        if target > self.high {
            self.counters.gaps_seen += (target - self.high) as u64;
            self.high = target;
        }
        let mut missing = 0;
        while self.next < target {
            if !self.release(now) {
                missing += 1;
                self.next += 1;
            }
        }
        self.release_run(now);
        missing
    }

    fn release_run(&mut self, now: Time) {
        while self.release(now) {}
    }

    fn release(&mut self, now: Time) -> bool {
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

/// The window and the model side by side; `start` is the number on the wire of the model's zero.
struct Both {
    start: u32,
    now: Time,
    model: Model,
    reorder: Reorder<i64>,
    out: Vec<i64>,
    longest_delay: Duration,
}

impl Both {
    fn new(start: u32, window: u32) -> Both {
        let config = config(window);
        Both {
            start,
            now: Time::ZERO,
            model: Model::new(config),
            reorder: Reorder::new(config, Seq::new(start)),
            out: Vec::new(),
            longest_delay: config.max_buffer_delay,
        }
    }

    fn run(&mut self, ops: &[Op]) {
        for op in ops {
            self.apply(op);
            self.check();
        }
    }

    fn wire(&self, n: i64) -> Seq {
        Seq::new(self.start.wrapping_add(n as u32))
    }

    fn apply(&mut self, op: &Op) {
        let Both { now, out, .. } = self;
        let now = *now;
        let mut taken = std::mem::take(out);
        let sink = &mut |packet| taken.push(packet);
        match *op {
            Op::Insert(index, offset) => self.insert(sink, index, self.model.next + offset),
            Op::Run(index, count) => {
                for _ in 0..count {
                    self.insert(sink, index, self.model.next);
                }
            }
            Op::Announce(index, offset) => {
                let edge = self.model.next + offset;
                let believed = self.model.announce(now, index, edge);
                let edge = self.wire(edge);
                assert_eq!(
                    self.reorder.announce(now, path(index), edge, sink),
                    believed
                );
            }
            Op::WaitFor(bits) => {
                let set = PathSet::from_bits(bits);
                self.model
                    .wait_for(now, set.iter().map(PathId::index).collect());
                self.reorder.wait_for(now, set, sink);
            }
            Op::Pass(ms) => self.pass(sink, Duration::from_millis(u64::from(ms))),
            Op::Reconfigure(window, grows_to, ms, drop) => {
                let late = if drop {
                    LatePolicy::Drop
                } else {
                    LatePolicy::Deliver
                };
                let max_buffer_delay = Duration::from_millis(u64::from(ms));
                let config = ReorderConfig {
                    window,
                    grows_to,
                    max_buffer_delay,
                    late,
                };
                self.longest_delay = self.longest_delay.max(max_buffer_delay);
                self.model.reconfigure(now, config);
                self.reorder.reconfigure(now, config, sink);
            }
            Op::Resync(offset) => {
                let first = self.model.next + offset;
                self.model.resync(now, first);
                self.reorder.resync(now, self.wire(first), sink);
            }
            Op::Believe(offset) => {
                let n = self.model.next + offset;
                if (0..i64::from(MAX_DISTANCE)).contains(&offset) {
                    self.model.announced = n;
                }
                self.reorder.believe(self.wire(n));
            }
            Op::Rtt(index, least, more) => {
                let [least, more] = [least, more].map(|ms| Duration::from_millis(ms.into()));
                let rtt = RoundTrip {
                    minimum: least,
                    smoothed: least + more,
                    variation: more / 2,
                };
                self.model.set_rtt(now, index, rtt);
                self.reorder.set_rtt(now, path(index), rtt);
            }
            Op::Recovery(recovery) => {
                let recovery = recovery.map(|(hold, soonest)| Recovery {
                    hold: Duration::from_millis(hold.into()),
                    soonest: Duration::from_millis(soonest.into()),
                });
                self.model.set_recovery(now, recovery);
                self.reorder.set_recovery(now, recovery);
            }
            Op::ClosePast => {
                self.model.closed = self.model.next;
                self.reorder.close_past();
            }
        }
        self.out = taken;
    }

    fn insert(&mut self, sink: &mut impl FnMut(i64), index: usize, n: i64) {
        let verdict = self.model.insert(self.now, index, n);
        let seq = self.wire(n);
        assert_eq!(
            self.reorder.insert(self.now, path(index), seq, n, sink),
            verdict
        );
    }

    fn pass(&mut self, sink: &mut impl FnMut(i64), span: Duration) {
        let until = self.now + span;
        while let Some(due) = self.reorder.poll_timeout().filter(|&due| due <= until) {
            assert_eq!(self.model.timeout(), Some(due));
            self.now = self.now.max(due);
            self.model.handle_timeout(self.now);
            self.reorder.handle_timeout(self.now, sink);
            assert!(self.reorder.poll_timeout().is_none_or(|due| due > self.now));
        }
        self.now = until;
    }

    fn check(&mut self) {
        let (model, reorder) = (&self.model, &mut self.reorder);
        assert_eq!(self.out, model.out);
        assert_eq!(*reorder.counters(), model.counters);
        assert_eq!(reorder.found_lost(), model.found_lost);
        assert_eq!(reorder.held() as usize, model.held.len());
        assert_eq!(reorder.poll_timeout(), model.timeout());
        let counters = reorder.counters();
        let ended = counters.gaps_filled
            + counters.gaps_recovered
            + counters.gaps_inferred_lost
            + counters.gaps_timed_out
            + counters.gaps_overflowed;
        assert_eq!(counters.gaps_seen, ended + u64::from(reorder.gaps_open()));
        let window = reorder.config.window;
        assert!(reorder.held() <= window);
        assert!(reorder.arrivals.len() <= 2 * window as usize);
        assert!(model.longest_hold <= self.longest_delay);
    }
}

/// Found by chance: with the same hold as before, what is due stays due when it was.
#[test]
fn a_recovery_that_holds_no_longer_moves_no_timeout() {
    Both::new(0, 0).run(&[
        Op::Insert(0, 0),
        Op::Reconfigure(3, None, 1, false),
        Op::Pass(1),
        Op::WaitFor(4),
        Op::Recovery(Some((1, 0))),
        Op::Insert(2, 1),
        Op::Insert(0, 1),
        Op::Recovery(None),
        Op::Recovery(Some((0, 0))),
    ]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Verdicts, counters, what leaves and in which order, and when: all as the model has it. And
    /// each missing number ends in one way, no more is held than the window and the time allow.
    #[test]
    fn does_what_the_model_does(
        start in prop_oneof![Just(0u32), (u32::MAX - 3000)..=u32::MAX, any::<u32>()],
        window in prop_oneof![Just(0u32), Just(1u32), 2..100u32, Just(1024u32)],
        ops in proptest::collection::vec(op(), 1..120),
    ) {
        Both::new(start, window).run(&ops);
    }

    /// Whatever arrives in whatever order: each number is delivered once at most, and apart from
    /// late packets none after a higher one.
    #[test]
    fn never_twice_and_never_backwards(
        start: u32,
        window in 0..64u32,
        arrivals in proptest::collection::vec((0..PATHS, 0..400i64), 1..500),
    ) {
        let mut model = Model::new(config(window));
        let mut reorder = Reorder::new(config(window), Seq::new(start));
        let mut out = Vec::new();
        for (index, n) in arrivals {
            let seq = Seq::new(start.wrapping_add(n as u32));
            let verdict = reorder.insert(Time::ZERO, path(index), seq, n, &mut |n| out.push(n));
            prop_assert_eq!(model.insert(Time::ZERO, index, n), verdict);
        }
        let distinct: BTreeSet<_> = out.iter().collect();
        prop_assert_eq!(distinct.len(), out.len());
        let in_time: Vec<_> = (0..out.len())
            .filter(|place| !model.late.contains(place))
            .map(|place| out[place])
            .collect();
        prop_assert!(in_time.is_sorted());
    }
}

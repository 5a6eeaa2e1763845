//! The window against a model that is too simple to be wrong: numbers are plain integers that do not
//! wrap, held packets stand in a map, and every step takes as long as it takes.

mod reference;

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use reference::Model;

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
    /// Know that what is so far from the next expected number, and what follows, was sent to this end.
    KnowFrom(i64),
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
        1 => near.clone().prop_map(Op::Believe),
        1 => near.prop_map(Op::KnowFrom),
        1 => Just(Op::ClosePast),
        1 => (0..PATHS, 0..50u8, 0..50u8).prop_map(|(path, least, more)| Op::Rtt(path, least, more)),
        1 => proptest::option::of((0..400u16, 0..50u8)).prop_map(Op::Recovery),
    ]
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

    fn hear_of(&mut self, first: u32) {
        self.model.hear_of(first.into());
        self.reorder.hear_of(self.wire(first.into()));
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
                    believed: window,
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
            Op::KnowFrom(offset) => {
                let first = self.model.next + offset;
                self.model.know_from(first);
                self.reorder.know_from(self.wire(first));
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
                // A path that is waited for less long may make something due, which whoever holds the window does
                // before the next packet comes.
                self.pass(sink, Duration::ZERO);
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
        let mut missing = 0;
        reorder.for_each_missing(|_, count| {
            missing += count;
            true
        });
        assert_eq!(missing, reorder.gaps_open());
        let window = reorder.config.window;
        assert!(reorder.held() <= window);
        assert!(reorder.arrivals.len() <= 2 * window as usize);
        assert!(model.longest_hold <= self.longest_delay);
    }
}

/// Found by chance: what is due since a path is waited for less long is done before the next packet comes.
#[test]
fn a_shorter_round_trip_makes_due_what_has_waited() {
    Both::new(0, 0).run(&[
        Op::WaitFor(4),
        Op::Insert(2, 9),
        Op::Pass(100),
        Op::Insert(2, -2),
        Op::Rtt(2, 20, 31),
        Op::Announce(2, 34),
        Op::Pass(86),
        Op::Rtt(2, 0, 0),
        Op::Insert(0, 0),
    ]);
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

/// Found by chance: what has settled on a path is settled, though another path has passed nothing yet.
#[test]
fn a_path_settles_while_another_has_passed_nothing() {
    Both::new(0, 1024).run(&[
        Op::Resync(0),
        Op::Insert(2, 25),
        Op::Insert(2, 0),
        Op::Rtt(2, 14, 49),
        Op::WaitFor(6),
        Op::Insert(2, 1),
        Op::Pass(4),
        Op::Insert(0, 1),
        Op::Insert(2, 2),
        Op::Insert(1, 1),
    ]);
}

/// Found by chance: what a narrower window has no room for is open no longer, though nothing is held behind it.
#[test]
fn a_narrower_window_closes_gaps_that_it_has_no_room_for() {
    Both::new(0, 1024).run(&[
        Op::WaitFor(1),
        Op::Recovery(Some((200, 0))),
        Op::Announce(0, 291),
        Op::Reconfigure(2, None, 100, false),
        Op::Insert(1, 1),
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
        heard in prop_oneof![2 => Just(0u32), 1 => 0..1024u32],
        ops in proptest::collection::vec(op(), 1..120),
    ) {
        let mut both = Both::new(start, window);
        both.hear_of(heard % window.max(1));
        both.run(&ops);
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

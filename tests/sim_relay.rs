//! Somebody has one of two paths of a sealed tunnel in his hand: the other must not feel it.
#![allow(clippy::unwrap_used)]

#[path = "relay/delayed.rs"]
mod delayed;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use mpt_core::control::drops::DropReason;
use mpt_core::crypto::claimed_route;
use mpt_core::path::{PathId, PathState};
use mpt_core::tunnel::Event;
use mpt_sim::pair::{Caught, Pair, PairConfig, Passed, PathSpec, RELAY, Side, Wire};
use mpt_sim::source::Flow;

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// IP and UDP.
const OUTER_BYTES: usize = 28;

/// Two round trips of the slower path, and 150 ms: until then what is done to a path may be felt.
const NOTICED: Duration = Duration::from_millis(2 * 50 + 150);
/// What is left of the other path's rate during an attack, and of both paths' three seconds after it.
const LEFT: f64 = 0.9;
/// The same in its worst second: the first, of which it may be felt for [`NOTICED`].
const LEFT_AT_WORST: f64 = 0.8;
/// A lone flow of Reno adds a segment in a round trip. Halved on one path just before, it has not grown into both in
/// that time, whatever a tunnel does.
const BACK_ALONE: f64 = 0.8;
/// Flows that together grow into both paths in that time.
const FLOWS: u16 = 4;

/// How long each attack lasts: `MPT_TEST_RELAY_SECONDS`, or as long as a test has time for.
fn attack_seconds() -> u32 {
    from_environment("MPT_TEST_RELAY_SECONDS", 6) as u32
}

fn config() -> PairConfig {
    PairConfig::adaptive([PathSpec::symmetric(20, 5), PathSpec::symmetric(20, 25)]).sealed()
}

/// What he gets on path 0 he puts before the socket of `path`, as if from his own address; and what is
/// sent there he puts before the socket that the other end has for path 0.
fn lead_away(
    addresses: [std::net::SocketAddr; 2],
    path: usize,
    which: impl Fn(&Wire) -> bool,
    also_as_before: bool,
) -> impl FnMut(Caught) -> Option<Vec<Passed>> {
    move |caught| {
        let (to, at) = (caught.from.other(), addresses[caught.from as usize]);
        let on = |path: usize, from, after| Passed {
            to,
            from,
            after,
            wire: Wire {
                path: PathId::new(path).unwrap(),
                ..caught.wire.clone()
            },
        };
        let mut passed = Vec::new();
        if caught.to_relay {
            passed.push(on(0, at, MS));
        } else {
            if which(&caught.wire) {
                passed.push(on(path, RELAY, Duration::ZERO));
            }
            if also_as_before || !which(&caught.wire) {
                passed.push(on(0, at, MS));
            }
        }
        Some(passed)
    }
}

fn is_control(wire: &Wire) -> bool {
    claimed_route(&wire.bytes).is_some()
}

fn addresses(pair: &Pair) -> [std::net::SocketAddr; 2] {
    Side::BOTH.map(|side| pair.address(side, 0))
}

/// Path 1 is up at both ends, and its peer is where it is.
fn assert_untouched(pair: &Pair, what: &str) {
    for side in Side::BOTH {
        let path = pair.end(side).path(1);
        assert_eq!(path.state, PathState::Up, "{what}: {side:?}");
        let at = pair.address(side.other(), 1).to_string();
        assert_eq!(path.remote, at, "{what}: {side:?}");
        assert!(pair.end(side).status().mtu >= 1280, "{what}: {side:?}");
    }
}

/// Bulk flows, side by side.
struct Load {
    flows: Vec<Flow>,
}

impl Load {
    fn of(flows: u16) -> Load {
        let flow = |number| Flow::new(Side::A, 1400).with_port(5000 + number);
        Load {
            flows: (0..flows).map(flow).collect(),
        }
    }

    /// Runs for `span` and returns what arrived meanwhile, in Mbit/s.
    fn run_for(&mut self, pair: &mut Pair, span: Duration) -> f64 {
        let arrived = |flows: &[Flow]| flows.iter().map(Flow::arrived_bytes).sum::<u64>();
        let (before, until) = (arrived(&self.flows), pair.now() + span);
        while pair.now() < until {
            self.flows.iter_mut().for_each(|flow| flow.send(pair));
            let deadline = self.flows.iter().map(Flow::deadline).min();
            pair.step(until.min(deadline.unwrap_or(until)));
            for side in Side::BOTH {
                let arrived = pair.delivered(side);
                for flow in &mut self.flows {
                    flow.take(pair, side, &arrived);
                }
            }
            let now = pair.now();
            self.flows
                .iter_mut()
                .for_each(|flow| flow.handle_timeout(now));
        }
        (arrived(&self.flows) - before) as f64 * 8.0 / 1e6 / span.as_secs_f64()
    }

    /// What it gets of path 1 alone, and of both, in Mbit/s.
    fn undisturbed(flows: u16) -> [f64; 2] {
        [false, true].map(|both| {
            let mut pair = Pair::running(config(), SECOND);
            pair.set_links_up(0, both);
            let mut load = Load::of(flows);
            load.run_for(&mut pair, SECOND * 4);
            load.run_for(&mut pair, SECOND * 4)
        })
    }
}

/// What was measured of an attack, in Mbit/s: in each second of it, and 3 s after its end.
struct Measured {
    during: Vec<f64>,
    after: f64,
}

/// Does it to path 0 under load and measures.
fn under_attack(what: &str, flows: u16, begin: impl FnOnce(&mut Pair)) -> Measured {
    let mut pair = Pair::running(config(), SECOND);
    let mut load = Load::of(flows);
    load.run_for(&mut pair, SECOND * 3);
    begin(&mut pair);
    load.run_for(&mut pair, NOTICED);
    let during = (0..attack_seconds()).map(|_| {
        let rate = load.run_for(&mut pair, SECOND);
        assert_untouched(&pair, what);
        rate
    });
    let during = during.collect();
    pair.remove_relay();
    load.run_for(&mut pair, SECOND * 3);
    assert_untouched(&pair, what);
    let after = load.run_for(&mut pair, SECOND * 2);
    Measured { during, after }
}

type Begin = Box<dyn FnOnce(&mut Pair)>;

/// What he does.
fn attacks() -> Vec<(&'static str, Begin)> {
    vec![
        (
            "drop",
            Box::new(|pair| pair.set_relay(0, |_| Some(Vec::new()))),
        ),
        (
            "delay by 200 ms",
            Box::new(|pair| {
                let at = addresses(pair);
                pair.set_relay(0, move |caught| {
                    let from = at[caught.from as usize];
                    let passed = Passed {
                        to: caught.from.other(),
                        from,
                        after: 200 * MS,
                        wire: caught.wire,
                    };
                    Some(vec![passed])
                });
            }),
        ),
        (
            "copy",
            Box::new(|pair| {
                let at = addresses(pair);
                let copied = lead_away(at, 1, |_| true, true);
                pair.set_relay(0, copied);
            }),
        ),
        (
            "cross to path 1",
            Box::new(|pair| {
                let at = addresses(pair);
                pair.set_relay(0, lead_away(at, 1, |_| true, false));
            }),
        ),
        (
            "reports only",
            Box::new(|pair| {
                let at = addresses(pair);
                pair.set_relay(0, lead_away(at, 1, is_control, true));
            }),
        ),
        (
            "marks CE",
            Box::new(|pair| {
                let at = addresses(pair);
                pair.set_relay(0, move |mut caught| {
                    caught.wire.tos |= 0b11;
                    Some(vec![Passed {
                        to: caught.from.other(),
                        from: at[caught.from as usize],
                        after: Duration::ZERO,
                        wire: caught.wire,
                    }])
                });
            }),
        ),
        (
            "large packets swallowed",
            Box::new(|pair| {
                let at = addresses(pair);
                pair.set_relay(0, move |caught| {
                    let fits = caught.wire.bytes.len() + OUTER_BYTES <= 552;
                    let passed = Passed {
                        to: caught.from.other(),
                        from: at[caught.from as usize],
                        after: Duration::ZERO,
                        wire: caught.wire,
                    };
                    Some(fits.then_some(passed).into_iter().collect())
                });
            }),
        ),
    ]
}

#[test]
fn what_is_done_to_one_path_does_not_reach_the_other() {
    for (flows, back) in [(1, BACK_ALONE), (FLOWS, LEFT)] {
        let [one, both] = Load::undisturbed(flows);
        println!("{flows} flows: path 1 alone {one:.1} Mbit/s, both {both:.1}");
        for (what, begin) in attacks() {
            let Measured { during, after } = under_attack(what, flows, begin);
            let worst = during.iter().copied().fold(f64::MAX, f64::min);
            let mean = during.iter().sum::<f64>() / during.len() as f64;
            println!(
                "{flows} flows, {what}: {mean:.1} Mbit/s during, worst second {worst:.1}, {after:.1} 3 s after"
            );
            assert!(mean >= LEFT * one, "{what}: {during:.1?} of {one}");
            assert!(
                worst >= LEFT_AT_WORST * one,
                "{what}: {during:.1?} of {one}"
            );
            assert!(after >= back * both, "{what}: {after} of {both}");
        }
    }
}

/// The reports of path 0 and then its probes come first at path 1's socket, from somewhere else.
#[test]
fn no_message_of_one_path_moves_another() {
    for which in [is_control as fn(&Wire) -> bool, |_: &Wire| true] {
        let mut pair = Pair::running(config(), SECOND);
        for side in Side::BOTH {
            pair.events(side);
        }
        let at = addresses(&pair);
        pair.set_relay(0, lead_away(at, 1, which, true));
        let mut flow = Flow::new(Side::A, 1400);
        for _ in 0..30 {
            flow.run_for(&mut pair, 100 * MS);
            assert_untouched(&pair, "crossed");
        }
        for side in Side::BOTH {
            let moved = |event: &Event| matches!(event, Event::PeerAddress { path, .. } if path.index() == 1);
            assert!(!pair.events(side).iter().any(|(_, event)| moved(event)));
            assert!(pair.end(side).dropped(DropReason::OtherPath) > 0);
        }
    }
}

/// Copies that go over path 0 to see whether it is back come before path 1's socket, earlier than what was sent there
/// before: nothing of that is lost, and nothing of it is sent again.
#[test]
fn what_one_path_was_given_does_not_count_for_the_other() {
    for later_ms in [0, 50, 100, 150] {
        let mut pair = Pair::running(config(), SECOND);
        let mut load = Load::of(1);
        load.run_for(&mut pair, SECOND * 3 + MS * later_ms);
        let at = addresses(&pair);
        pair.set_relay(0, lead_away(at, 1, |_| true, false));
        load.run_for(&mut pair, NOTICED);
        let rate = load.run_for(&mut pair, SECOND);
        // Of 18.75 Mbit/s.
        assert!(rate > 17.8, "{later_ms} ms later: {rate} Mbit/s");
        let needless = pair.end(Side::A).status().recovery.spurious;
        // Some 500 where they counted.
        assert!(needless < 10, "{later_ms} ms later: {needless}");
    }
}

/// From the first packet on, toward an end that waits to be called.
#[test]
fn who_is_there_from_the_start_gets_one_path_and_not_two() {
    for waits in [None, Some(Side::B)] {
        for also in [false, true] {
            let mut pair = Pair::new(PairConfig {
                waits_to_be_called: waits,
                ..config()
            });
            let at = addresses(&pair);
            pair.set_relay(0, lead_away(at, 1, |_| true, also));
            pair.run_for(2 * SECOND);
            for _ in 0..10 {
                pair.run_for(SECOND / 4);
                assert_untouched(&pair, "from the start");
            }
            for side in Side::BOTH {
                pair.restart(side);
                pair.run_for(3 * SECOND);
                assert_untouched(&pair, "after a restart");
            }
        }
    }
}

/// Path 1 is not up yet. Who has path 0 puts copies of the answer to the call, which is in the clear, before its socket: they
/// are asked about once, and the path comes up beside them.
#[test]
fn a_copied_answer_is_asked_about_once_and_keeps_no_path_away() {
    let mut pair = Pair::new(PairConfig {
        waits_to_be_called: Some(Side::B),
        ..config()
    });
    pair.set_links_up(1, false);
    pair.record();
    pair.run_for(SECOND);
    let recorded = pair.recorded().into_iter();
    let [answer, ..] = &recorded
        .filter_map(|(from, wire)| (from == Side::B).then_some(wire.bytes))
        .collect::<Vec<_>>()[..]
    else {
        panic!("B was not called");
    };
    assert_eq!(pair.end(Side::A).state(0), PathState::Up);
    let asked = Rc::new(Cell::new(0));
    let count = asked.clone();
    pair.set_relay(0, move |caught| {
        count.set(count.get() + u32::from(caught.to_relay));
        None
    });
    for ms in 0..3000 {
        if ms == 1000 {
            pair.set_links_up(1, true);
        }
        for _ in 0..10 {
            pair.inject(Side::A, 1, RELAY, 0, answer);
        }
        pair.run_for(MS);
    }
    assert_untouched(&pair, "copies of the answer");
    assert_eq!(asked.get(), 1);
}

/// Who has kept a packet puts it before path 1's socket, again and again: it tells nothing of what the path carries or loses.
#[test]
fn a_packet_that_was_kept_counts_for_no_path() {
    let mut pair = Pair::running(config(), SECOND);
    pair.record();
    Load::of(1).run_for(&mut pair, SECOND);
    let recorded = pair.recorded().into_iter();
    let mut packets = recorded.filter(|(from, wire)| *from == Side::A && wire.bytes.len() > 1000);
    let (_, kept) = packets.next().unwrap();
    let before = pair.end(Side::B).path(1).rx_packets;
    for _ in 0..1000 {
        pair.inject(Side::B, 1, RELAY, kept.tos, &kept.bytes);
    }
    pair.run_for(MS);
    let counted = pair.end(Side::B).path(1).rx_packets - before;
    assert!(counted < 50, "{counted}");
    assert!(pair.end(Side::B).dropped(DropReason::Duplicate) >= 1000);
}

/// B begins anew, under load, and can only be called. Who has path 0 in his hand has kept messages of B on it for 12 s, `all`
/// of them or every third, and hands A one every half second. Returns how long path 1 is away.
fn away_with_messages_of_a_former_life(all: bool, hands_out: bool) -> Duration {
    let mut pair = Pair::running(
        PairConfig {
            waits_to_be_called: Some(Side::B),
            ..config()
        },
        SECOND,
    );
    let kept = Rc::new(RefCell::new(VecDeque::new()));
    let (keep, mut count) = (kept.clone(), 0);
    pair.set_relay(0, move |caught| {
        let is_message = caught.from == Side::B && is_control(&caught.wire);
        count += u32::from(is_message);
        let keeps = is_message && (all || count % 3 == 0);
        keeps.then(|| {
            keep.borrow_mut().push_back(caught.wire);
            Vec::new()
        })
    });
    let mut flow = Flow::new(Side::A, 1400);
    flow.run_for(&mut pair, 12 * SECOND);
    pair.set_relay(0, |_| None);
    let from = addresses(&pair)[Side::B as usize];
    pair.restart(Side::B);
    let restarted = pair.now();
    let mut kept = kept.take();
    // Those before are too old to open.
    kept.drain(..kept.len().saturating_sub(300));
    for step in 0..1200 {
        if hands_out
            && step % 5 == 0
            && let Some(wire) = kept.pop_front()
        {
            pair.inject(Side::A, 0, from, wire.tos, &wire.bytes);
        }
        flow.run_for(&mut pair, 100 * MS);
        let is_up = |side: Side| pair.end(side).state(1) == PathState::Up;
        if Side::BOTH.into_iter().all(is_up) {
            break;
        }
    }
    pair.now().since(restarted)
}

#[test]
fn what_one_path_s_relay_kept_of_a_former_life_does_not_keep_the_peer_away() {
    let undisturbed = away_with_messages_of_a_former_life(false, false);
    for all in [false, true] {
        let away = away_with_messages_of_a_former_life(all, true);
        println!("all {all}: path 1 is away for {away:?}, undisturbed for {undisturbed:?}");
        assert!(away <= undisturbed + SECOND, "{away:?}");
    }
}

/// What one path's relay holds back for long makes no message of the other old.
#[test]
fn a_path_that_is_held_back_does_not_make_others_old() {
    let mut pair = Pair::running(config(), SECOND);
    let at = addresses(&pair);
    pair.set_relay(0, move |caught| {
        Some(vec![Passed {
            to: caught.from.other(),
            from: at[caught.from as usize],
            after: 700 * MS,
            wire: caught.wire,
        }])
    });
    let mut flow = Flow::new(Side::A, 1400);
    flow.run_for(&mut pair, 8 * SECOND);
    for side in Side::BOTH {
        assert_eq!(pair.end(side).dropped(DropReason::Replayed), 0);
        assert_eq!(pair.end(side).state(0), PathState::Up);
    }
}

/// Who leads a path to himself gets it only by hearing what is sent to him, and no more than he sent.
#[test]
fn an_address_that_does_not_answer_moves_nothing_and_is_not_flooded() {
    let mut pair = Pair::running(config(), SECOND);
    let at = addresses(&pair);
    let counts = Rc::new(Cell::new([0u64; 2]));
    let count = counts.clone();
    pair.set_relay(0, move |caught| {
        let [mut put, mut got] = count.get();
        let mut passed = Vec::new();
        if caught.to_relay {
            got += caught.wire.bytes.len() as u64;
        } else {
            put += caught.wire.bytes.len() as u64;
            // The peer's newest message, from an address that hears nothing.
            passed.push(Passed {
                to: caught.from.other(),
                from: RELAY,
                after: Duration::ZERO,
                wire: caught.wire.clone(),
            });
            passed.push(Passed {
                to: caught.from.other(),
                from: at[caught.from as usize],
                after: MS,
                wire: caught.wire,
            });
        }
        count.set([put, got]);
        Some(passed)
    });
    for _ in 0..50 {
        pair.run_for(100 * MS);
        for side in Side::BOTH {
            let at = pair.address(side.other(), 0).to_string();
            assert_eq!(pair.end(side).path(0).remote, at);
        }
    }
    let [put, got] = counts.get();
    assert!(put > 1000 && got > 0 && got <= 3 * put, "{put} {got}");
}

fn from_environment(name: &str, default: u64) -> u64 {
    let asked = std::env::var(name).ok();
    asked
        .and_then(|asked| asked.parse().ok())
        .unwrap_or(default)
}

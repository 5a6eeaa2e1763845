//! What classes promise, over links in virtual time.
#![allow(clippy::unwrap_used)]

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use mpt_core::control::classes::ClassStatus;
use mpt_core::control::drops::DropReason;
use mpt_core::path::PathSet;
use mpt_core::send::classes::{ClassConfig, ClassPolicy, Match, Priority};
use mpt_core::time::Time;
use mpt_sim::packet::{Inner, id_of, source_port_of};
use mpt_sim::pair::{Pair, PairConfig, PathSpec, Side};
use mpt_sim::source::{Flow, Sender};

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);
/// Expedited forwarding, as a TOS byte and as a DSCP.
const EF_TOS: u8 = 46 << 2;
const EF: u64 = 1 << 46;
const CALL_PORT: u16 = 4001;
const BACKUP_PORT: u16 = 873;

fn path(mbps: u64, delay_ms: u64, loss: f64) -> PathSpec {
    PathSpec::symmetric(mbps, delay_ms)
        .queueing(300)
        .losing(loss)
}

fn pair(paths: impl Into<Vec<PathSpec>>, sealed: bool, seed: u64, classes: &[ClassConfig]) -> Pair {
    let config = PairConfig {
        sealed,
        seed,
        ..PairConfig::adaptive(paths)
    };
    let mut pair = Pair::running(config, 2 * SECOND);
    let now = pair.end(Side::A).local(pair.now());
    pair.end_mut(Side::A).outbound.set_classes(now, classes);
    pair
}

#[test]
fn while_no_path_is_up_a_packet_of_a_class_is_dropped_once() {
    let class = class(ef(), ClassPolicy::Adaptive);
    let mut pair = pair([path(50, 10, 0.0)], true, 1, &[class]);
    pair.set_carrier(Side::A, 0, false);
    pair.run_for(MS);
    for id in 0..10 {
        let call = Inner {
            tos: EF_TOS,
            ..Inner::default()
        };
        pair.send(Side::A, call.packet(id));
        pair.run_for(MS);
    }
    assert_eq!(pair.end(Side::A).dropped(DropReason::NoPath), 10);
    assert_eq!(counters(&pair).dropped_no_path, 10);
}

/// What has this DSCP, or this port.
fn class(matches: Match, policy: ClassPolicy) -> ClassConfig {
    ClassConfig {
        name: "calls".to_owned(),
        matches,
        paths: PathSet::from_bits(u16::MAX),
        policy,
        priority: Priority::Normal,
        copies: 5_000_000 / 8,
    }
}

fn ef() -> Match {
    Match {
        dscp: EF,
        ..Match::default()
    }
}

fn port(port: u16) -> Match {
    Match {
        ports: vec![port..=port],
        ..Match::default()
    }
}

fn counters(pair: &Pair) -> ClassStatus {
    pair.end(Side::A).outbound.report_classes().remove(0)
}

/// How a flow of single packets fared.
#[derive(Debug)]
struct Fared {
    lost: usize,
    sent: usize,
    p99: Duration,
    twice: usize,
}

/// Sends a packet of `inner` every `gap` for `span`, beside `bulk`.
fn stream(
    pair: &mut Pair,
    bulk: Option<&mut Flow>,
    inner: Inner,
    gap: Duration,
    span: Duration,
) -> Fared {
    let mut sent: Vec<Time> = Vec::new();
    let mut delays: HashMap<u64, Duration> = HashMap::new();
    let mut twice = 0;
    let mut bulk = bulk;
    if let Some(bulk) = &mut bulk {
        // Its first seconds, in which the paths are learnt.
        bulk.begin(pair.now());
        bulk.run_for(pair, 3 * SECOND);
    }
    let (mut next, end) = (pair.now(), pair.now() + span);
    while pair.now() < end + SECOND {
        if pair.now() >= next && next < end {
            pair.send(Side::A, inner.packet(sent.len() as u64));
            sent.push(pair.now());
            next = next + gap;
        }
        if let Some(bulk) = &mut bulk {
            bulk.send(pair);
        }
        let until = bulk.as_ref().map_or(next, |bulk| bulk.deadline().min(next));
        pair.step(if next < end { until } else { end + SECOND });
        for side in Side::BOTH {
            let arrived = pair.delivered(side);
            if let Some(bulk) = &mut bulk {
                bulk.take(pair, side, &arrived);
            }
            for (at, packet) in arrived.iter().filter(|_| side == Side::B) {
                if source_port_of(packet) == Some(inner.source_port) {
                    let id = id_of(packet).unwrap();
                    let delay = at.since(sent[id as usize]);
                    twice += usize::from(delays.insert(id, delay).is_some());
                }
            }
        }
        if let Some(bulk) = &mut bulk {
            bulk.handle_timeout(pair.now());
        }
    }
    let mut sorted: Vec<Duration> = delays.values().copied().collect();
    sorted.sort();
    Fared {
        lost: sent.len() - delays.len(),
        sent: sent.len(),
        p99: sorted[sorted.len() * 99 / 100],
        twice,
    }
}

fn call() -> Inner {
    Inner {
        source_port: CALL_PORT,
        tos: EF_TOS,
        ..Inner::of_len(200)
    }
}

/// A packet that the better link loses comes over it again, 5 ms later, and not only over the other. Beside bulk a call
/// waits in the link's queue as well, which the rate law keeps at some milliseconds.
#[test]
fn a_redundant_call_loses_one_in_a_thousand_and_is_as_quick_as_the_better_link() {
    let classes = [class(ef(), ClassPolicy::Redundant)];
    // Beside bulk one run's p99 differs from another's by some milliseconds: there the mean of several counts.
    for (mbps, delays, is_beside_bulk, most_late, runs) in [
        (20, [20, 20], false, 10, 1),
        (20, [20, 60], false, 10, 1),
        (20, [60, 20], false, 10, 1),
        (100, [20, 20], true, 10, 3),
        (20, [20, 20], true, 16, 3),
    ] {
        let mut p99 = Duration::ZERO;
        for seed in 1..=runs {
            let paths = delays.map(|delay| path(mbps, delay, 0.03));
            let mut pair = pair(paths, true, seed, &classes);
            let mut bulk = is_beside_bulk.then(|| Flow::new(Side::A, 1400));
            let fared = stream(&mut pair, bulk.as_mut(), call(), 20 * MS, 40 * SECOND);
            println!("{mbps} Mbit/s {delays:?} {is_beside_bulk} {fared:?}");
            assert!(fared.lost * 1000 <= fared.sent, "{delays:?} {fared:?}");
            assert_eq!(fared.twice, 0);
            let counted = counters(&pair);
            assert_eq!(counted.packets, fared.sent as u64);
            assert!(counted.copies >= counted.packets, "{counted:?}");
            assert_eq!((counted.uncopied, counted.elsewhere), (0, 0));
            p99 += fared.p99 / runs as u32;
        }
        let better = *delays.iter().min().unwrap() as u32 * MS;
        assert!(p99 <= better + most_late * MS, "{delays:?} {p99:?}");
    }
}

/// The same call without a class, to see what it is worth: links that lose that much lose of it, and the bulk beside
/// it is what it waits for.
#[test]
fn without_a_class_a_call_loses_what_its_link_loses() {
    let mut pair = pair([path(20, 20, 0.03), path(20, 20, 0.03)], true, 1, &[]);
    let mut bulk = Flow::new(Side::A, 1400);
    let fared = stream(&mut pair, Some(&mut bulk), call(), 20 * MS, 40 * SECOND);
    println!("{fared:?}");
    assert!(fared.lost * 100 > fared.sent, "{fared:?}");
}

#[test]
fn copies_take_no_more_than_is_configured() {
    let classes = [ClassConfig {
        copies: 10_000,
        ..class(ef(), ClassPolicy::Redundant)
    }];
    let mut pair = pair([path(20, 20, 0.0), path(20, 20, 0.0)], true, 1, &classes);
    let video = Inner {
        len: 1000,
        ..call()
    };
    let fared = stream(&mut pair, None, video, 4 * MS, 10 * SECOND);
    assert_eq!((fared.lost, fared.twice), (0, 0));
    let counted = counters(&pair);
    assert!(counted.copy_bytes <= 10 * 10_000 + 3_000, "{counted:?}");
    assert!(counted.copy_bytes > 90_000, "{counted:?}");
    assert_eq!(counted.copies + counted.uncopied, counted.packets);
}

/// In a plain tunnel nothing tells copies: there are none.
#[test]
fn a_plain_tunnel_makes_no_copies() {
    let classes = [class(ef(), ClassPolicy::Redundant)];
    let mut pair = pair([path(20, 20, 0.0), path(20, 20, 0.0)], false, 1, &classes);
    let fared = stream(&mut pair, None, call(), 20 * MS, SECOND);
    assert_eq!((fared.lost, fared.twice), (0, 0));
    let counted = counters(&pair);
    assert_eq!((counted.copies, counted.uncopied), (0, counted.packets));
}

/// Counts what goes over each path with this port in it; the tunnel is plain, so that it can be seen.
fn watch(pair: &mut Pair, port: u16) -> Rc<[Cell<u64>; 2]> {
    let seen = Rc::new([Cell::new(0), Cell::new(0)]);
    let counts = seen.clone();
    pair.on_the_way(move |from, wire| {
        let inner = wire.bytes.iter().position(|&byte| byte == 0x45);
        let inner = inner.map(|at| &wire.bytes[at..]);
        if from == Side::A && inner.and_then(source_port_of) == Some(port) {
            let count = &counts[wire.path.index()];
            count.set(count.get() + 1);
        }
        true
    });
    seen
}

#[test]
fn the_fastest_class_leaves_the_slow_path_alone_while_the_fast_one_lives() {
    // A flow beyond what is sparse, over a path that loses, beside bulk that uses both.
    let classes = [class(port(CALL_PORT), ClassPolicy::Fastest)];
    let paths = [path(20, 40, 0.0), path(20, 10, 0.005)];
    let mut pair = pair(paths, false, 1, &classes);
    let seen = watch(&mut pair, CALL_PORT);
    let mut bulk = Flow::new(Side::A, 1400);
    let video = Inner {
        len: 1000,
        ..call()
    };
    let fared = stream(&mut pair, Some(&mut bulk), video, 4 * MS, 10 * SECOND);
    println!("{fared:?} {:?}", [seen[0].get(), seen[1].get()]);
    assert_eq!(seen[0].get(), 0);
    assert!(seen[1].get() >= 2400, "{}", seen[1].get());
    assert!(pair.end(Side::A).path(0).tx_packets > 5_000, "bulk");
    // The fast one dies: it goes over the other.
    pair.set_links_up(1, false);
    let fared = stream(&mut pair, None, video, 4 * MS, 5 * SECOND);
    assert!(fared.lost < 100, "{fared:?}");
    assert!(seen[0].get() > 1000, "{}", seen[0].get());
}

#[test]
fn a_sparing_class_goes_over_its_own_paths_or_not_at_all() {
    let classes = [ClassConfig {
        paths: PathSet::from_bits(0b01),
        ..class(port(BACKUP_PORT), ClassPolicy::Sparing)
    }];
    let mut pair = pair([path(20, 40, 0.01), path(20, 10, 0.0)], false, 1, &classes);
    let seen = watch(&mut pair, BACKUP_PORT);
    let mut backup = Flow::new(Side::A, 1400).with_port(BACKUP_PORT);
    backup.begin(pair.now());
    let goodput = backup.goodput_bps(&mut pair, 5 * SECOND);
    assert!(goodput > 10e6, "{goodput}");
    assert_eq!(seen[1].get(), 0);
    // Its path goes down: packets of its own are dropped, and what was under way is not sent again elsewhere.
    pair.set_links_up(0, false);
    backup.run_for(&mut pair, 5 * SECOND);
    assert_eq!(seen[1].get(), 0);
    let counted = counters(&pair);
    assert!(counted.dropped_no_path > 0, "{counted:?}");
    let dropped = pair.end(Side::A).dropped(DropReason::ClassPaths);
    assert!(dropped >= counted.dropped_no_path, "{dropped}");
    // And back.
    pair.set_links_up(0, true);
    backup.run_for(&mut pair, 3 * SECOND);
    let goodput = backup.goodput_bps(&mut pair, 3 * SECOND);
    assert!(goodput > 10e6, "{goodput}");
    assert_eq!(seen[1].get(), 0);
}

/// Packets of no other class go over that path, and reports of these come more often than a probe is answered.
#[test]
fn a_sparing_class_comes_back_when_its_path_was_silent_for_a_moment() {
    const GUESTS_PORT: u16 = 4002;
    for guests_gap in [2 * MS, 20 * MS] {
        let classes = [
            ClassConfig {
                paths: PathSet::from_bits(0b01),
                ..class(port(BACKUP_PORT), ClassPolicy::Sparing)
            },
            ClassConfig {
                name: "guests".to_owned(),
                paths: PathSet::from_bits(0b10),
                ..class(port(GUESTS_PORT), ClassPolicy::Adaptive)
            },
        ];
        let mut pair = pair([path(20, 20, 0.0), path(20, 20, 0.0)], true, 1, &classes);
        let from = |source_port| Inner {
            source_port,
            ..Inner::default()
        };
        let began = pair.now();
        let mut each_second = [0; 8];
        for tick in 0..8_000 {
            pair.set_links_up(0, !(3_000..3_400).contains(&tick));
            if tick % 5 == 0 {
                pair.send(Side::A, from(BACKUP_PORT).packet(u64::from(tick)));
            }
            if tick % (guests_gap.as_millis() as u32) == 0 {
                pair.send(Side::A, from(GUESTS_PORT).packet(u64::from(tick)));
            }
            pair.run_for(MS);
            for (at, packet) in pair.delivered(Side::B) {
                if source_port_of(&packet) == Some(BACKUP_PORT) {
                    each_second[at.since(began).as_secs() as usize] += 1;
                }
            }
        }
        println!("{guests_gap:?} {each_second:?}");
        assert!(each_second[3] >= 100, "{each_second:?}");
        assert!(each_second[4..].iter().all(|&second| second >= 195));
    }
}

/// A backup that prefers the first of two paths and has run for three seconds, and what goes over each.
fn backup_over_the_first() -> (Pair, Rc<[Cell<u64>; 2]>, Flow) {
    let classes = [ClassConfig {
        paths: PathSet::from_bits(0b01),
        ..class(port(BACKUP_PORT), ClassPolicy::Adaptive)
    }];
    let mut pair = pair([path(20, 40, 0.0), path(20, 10, 0.0)], false, 1, &classes);
    let seen = watch(&mut pair, BACKUP_PORT);
    let mut backup = Flow::new(Side::A, 1400).with_port(BACKUP_PORT);
    backup.begin(pair.now());
    backup.run_for(&mut pair, 3 * SECOND);
    (pair, seen, backup)
}

#[test]
fn other_classes_prefer_their_paths_and_fall_back() {
    let (mut pair, seen, mut backup) = backup_over_the_first();
    assert_eq!((seen[1].get(), counters(&pair).elsewhere), (0, 0));
    pair.set_links_up(0, false);
    backup.run_for(&mut pair, 3 * SECOND);
    assert!(seen[1].get() > 1000);
    let counted = counters(&pair);
    assert!(counted.elsewhere > 1000, "{counted:?}");
    assert_eq!(counted.dropped_no_path, 0);
}

/// Nothing else is sent by which it would show that the path is mended.
#[test]
fn a_class_comes_back_to_its_path_that_was_silent_for_a_moment() {
    let (mut pair, seen, mut backup) = backup_over_the_first();
    pair.set_links_up(0, false);
    backup.run_for(&mut pair, 600 * MS);
    pair.set_links_up(0, true);
    assert!(seen[1].get() > 100, "it went over the other");
    backup.run_for(&mut pair, 2 * SECOND);
    let before = [seen[0].get(), seen[1].get()];
    backup.run_for(&mut pair, SECOND);
    let later = [seen[0].get() - before[0], seen[1].get() - before[1]];
    assert!(later[0] > 500 && later[1] == 0, "{later:?}");
}

/// A video call of 2 Mbit/s, which is not sparse, beside bulk.
#[test]
fn high_priority_goes_before_bulk() {
    let video = Inner {
        len: 1000,
        ..call()
    };
    let run = |priority| {
        let classes = [ClassConfig {
            priority,
            ..class(ef(), ClassPolicy::Adaptive)
        }];
        let mut pair = pair([path(20, 10, 0.0), path(20, 40, 0.0)], false, 1, &classes);
        let mut bulk = Flow::new(Side::A, 1400);
        let fared = stream(&mut pair, Some(&mut bulk), video, 4 * MS, 15 * SECOND);
        println!("{priority:?} {fared:?}");
        fared
    };
    let (high, normal) = (run(Priority::High), run(Priority::Normal));
    assert_eq!((high.lost, high.twice), (0, 0));
    // The path's 10 ms, and what the rate law lets stand on the link.
    assert!(high.p99 < 32 * MS, "{high:?}");
    assert!(high.p99 < normal.p99 * 2 / 3, "{high:?} {normal:?}");
}

/// The faster path dies, and what bulk had under way there goes over the slower one again.
#[test]
fn high_priority_goes_before_what_a_path_that_died_had_swallowed() {
    let classes = [ClassConfig {
        priority: Priority::High,
        ..class(ef(), ClassPolicy::Adaptive)
    }];
    let mut pair = pair([path(30, 40, 0.0), path(3, 55, 0.0)], false, 1, &classes);
    let mut bulk = Flow::of(Sender::Cubic, Side::A, 1400);
    bulk.begin(pair.now());
    bulk.run_for(&mut pair, 5 * SECOND);
    pair.set_links_up(0, false);
    let video = Inner { len: 700, ..call() };
    let fared = stream(&mut pair, None, video, 10 * MS, SECOND);
    // What left before the path was suspected is lost. The others had 298 ms in turn with the rest; the link has 55, and
    // before the first stand some 30 packets that were sent again before the path was suspected, without waiting for room.
    assert!(fared.lost < 25, "{fared:?}");
    assert!(fared.p99 < 170 * MS, "{fared:?}");
}

#[test]
fn low_priority_has_what_others_leave() {
    let classes = [ClassConfig {
        priority: Priority::Low,
        ..class(port(BACKUP_PORT), ClassPolicy::Adaptive)
    }];
    let mut pair = pair([path(20, 10, 0.0), path(20, 20, 0.0)], false, 1, &classes);
    let mut flows = [
        Flow::new(Side::A, 1400),
        Flow::new(Side::A, 1400).with_port(BACKUP_PORT),
    ];
    let run = |pair: &mut Pair, flows: &mut [Flow], span| {
        let before: Vec<u64> = flows.iter().map(Flow::received_bytes).collect();
        let until = pair.now() + span;
        for flow in flows.iter_mut() {
            flow.begin(pair.now());
        }
        while pair.now() < until {
            for flow in flows.iter_mut() {
                flow.send(pair);
            }
            let deadline = flows.iter().map(Flow::deadline).min().unwrap();
            pair.step(until.min(deadline));
            for side in Side::BOTH {
                let arrived = pair.delivered(side);
                for flow in flows.iter_mut() {
                    flow.take(pair, side, &arrived);
                }
            }
            for flow in flows.iter_mut() {
                flow.handle_timeout(pair.now());
            }
        }
        let each = flows.iter().zip(before);
        each.map(|(flow, before)| {
            (flow.received_bytes() - before) as f64 * 8.0 / span.as_secs_f64()
        })
        .collect::<Vec<f64>>()
    };
    run(&mut pair, &mut flows, 4 * SECOND);
    let both = run(&mut pair, &mut flows, 8 * SECOND);
    println!("{both:?}");
    assert!(both[0] > 5.0 * both[1], "{both:?}");
    assert!(both[0] + both[1] > 30e6, "{both:?}");
    // Alone it has all.
    let alone = run(&mut pair, &mut flows[1..], 8 * SECOND);
    assert!(alone[0] > 25e6, "{alone:?}");
}

#[test]
fn what_waits_in_a_class_that_goes_is_not_lost() {
    let classes = [ClassConfig {
        priority: Priority::Low,
        ..class(port(BACKUP_PORT), ClassPolicy::Adaptive)
    }];
    let mut pair = pair([path(5, 10, 0.0)], false, 1, &classes);
    let backup = Inner {
        source_port: BACKUP_PORT,
        ..Inner::of_len(1000)
    };
    // It learns the path's rate, then a burst waits.
    stream(&mut pair, None, backup, MS, 5 * SECOND);
    let before = pair.end(Side::A).status().tx_packets;
    pair.send_batch(Side::A, (0..60).map(|id| backup.packet(id)));
    assert!(counters(&pair).queue_packets > 10, "{:?}", counters(&pair));
    let now = pair.end(Side::A).local(pair.now());
    pair.end_mut(Side::A).outbound.set_classes(now, &[]);
    pair.run_for(SECOND);
    let end = pair.end(Side::A);
    assert!(end.outbound.report_classes().is_empty());
    let lost = end.dropped(DropReason::QueueAqm) + end.dropped(DropReason::QueueFull);
    assert!(end.status().tx_packets - before + lost >= 60);
}

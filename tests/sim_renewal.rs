//! Paths that a router on the way leads nowhere for as long as packets come.
#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use mpt_core::path::{PathId, PathState};
use mpt_core::send::scheduler::Policy;
use mpt_core::time::Time;
use mpt_core::tunnel::Event;
use mpt_sim::link::{Policer, QueueLimit};
use mpt_sim::loss::Loss;
use mpt_sim::pair::{Pair, PairConfig, PathSpec, Side};
use mpt_sim::source::Flow;

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

fn config(sealed: bool, paths: usize) -> PairConfig {
    PairConfig {
        sealed,
        mtu: if sealed { 1442 } else { 1464 },
        ..PairConfig::new(vec![PathSpec::symmetric(20, 10); paths])
    }
}

/// Sealed, and B waits for A to call.
fn called(paths: usize) -> PairConfig {
    PairConfig {
        waits_to_be_called: Some(Side::B),
        ..config(true, paths)
    }
}

/// When A asks for another port on path 0 while it leads nowhere, in seconds from then on.
fn asked(pair: &mut Pair, seconds: u64) -> Vec<u64> {
    let begin = pair.now();
    pair.events(Side::A);
    pair.set_links_up(0, false);
    pair.run_for(SECOND * seconds as u32);
    let path = PathId::new(0).unwrap();
    let events = pair.events(Side::A).into_iter();
    let asked = events.filter(|(_, event)| {
        *event
            == Event::NotAnswered {
                path,
                is_faint: false,
            }
    });
    asked.map(|(at, _)| at.since(begin).as_secs()).collect()
}

#[test]
fn a_sealed_path_goes_on_from_another_port() {
    let mut pair = Pair::running(called(2), 3 * SECOND);
    assert_eq!(pair.end(Side::A).state(0), PathState::Up);
    let seen = asked(&mut pair, 9);
    assert!(matches!(seen[..], [5..=9]), "{seen:?}");
    // The daemon has another socket; what comes from there is let through.
    pair.move_to(Side::A, 0, "10.1.1.1:40000".parse().unwrap());
    pair.set_links_up(0, true);
    let path = PathId::new(0).unwrap();
    let now = pair.end(Side::A).local(pair.now());
    pair.end_mut(Side::A).inbound.open_path(now, path);
    pair.run_for(2 * SECOND);
    for side in Side::BOTH {
        assert_eq!(pair.end(side).state(0), PathState::Up);
    }
    assert_eq!(pair.end(Side::B).path(0).remote, "10.1.1.1:40000");
    pair.events(Side::A);
    pair.run_for(60 * SECOND);
    let events = pair.events(Side::A);
    assert!(
        !events
            .iter()
            .any(|(_, event)| matches!(event, Event::NotAnswered { .. })),
        "{events:?}"
    );
}

/// The ports of path 0 at both ends, as the daemons choose them: who asks has another one, or its own again.
#[derive(Default)]
struct Ports {
    away: [bool; 2],
    /// When each end asked.
    asked: [Vec<Time>; 2],
}

impl Ports {
    /// Runs for this long. Returns as soon as an end has another port than before, and says whether one has.
    fn run_until_one_asks(&mut self, pair: &mut Pair, duration: Duration) -> bool {
        let until = pair.now() + duration;
        while pair.now() < until {
            pair.step(until.min(pair.now() + 50 * MS));
            if Side::BOTH.map(|side| self.follow(pair, side)) != [false; 2] {
                return true;
            }
        }
        false
    }

    fn run_for(&mut self, pair: &mut Pair, duration: Duration) {
        let until = pair.now() + duration;
        while pair.now() < until {
            self.run_until_one_asks(pair, until.since(pair.now()));
        }
    }

    fn follow(&mut self, pair: &mut Pair, side: Side) -> bool {
        let events = pair.events(side);
        let asks = |(_, event): &&(Time, Event)| matches!(event, Event::NotAnswered { .. });
        let Some(&(at, _)) = events.iter().find(asks) else {
            return false;
        };
        let (asked, away) = (
            &mut self.asked[side as usize],
            &mut self.away[side as usize],
        );
        asked.push(at);
        *away = !*away;
        let port = if *away { 40_000 + asked.len() } else { 4754 };
        let host = side as usize + 1;
        let address = format!("10.1.1.{host}:{port}");
        pair.move_to(side, 0, address.parse().unwrap());
        let now = pair.end(side).local(pair.now());
        let path = PathId::new(0).unwrap();
        pair.end_mut(side).inbound.open_path(now, path);
        true
    }

    /// When each end asked, in seconds from then on.
    fn asked_since(&self, begin: Time) -> [Vec<u64>; 2] {
        let seconds = |at: &Time| at.since(begin).as_secs();
        Side::BOTH.map(|side| self.asked[side as usize].iter().map(seconds).collect())
    }
}

fn is_up(pair: &Pair) -> bool {
    Side::BOTH.map(|side| pair.end(side).state(0)) == [PathState::Up; 2]
}

/// An only path that is up: B may have no address of A, and either end may have the higher session number.
fn only_paths() -> impl Iterator<Item = (PairConfig, Side)> {
    let configs = [called(1), config(true, 1)].into_iter();
    configs.flat_map(|config| Side::BOTH.map(|leads| (config.clone(), leads)))
}

/// Such a path in use.
fn only_path(config: PairConfig, leads: Side) -> Pair {
    let mut pair = Pair::running(config, 3 * SECOND);
    if leads == Side::B {
        // Its second session has the higher number.
        pair.restart(Side::B);
        pair.run_for(SECOND);
    }
    talk(&mut pair, 3 * SECOND);
    assert!(is_up(&pair));
    for side in Side::BOTH {
        pair.events(side);
    }
    pair
}

/// Both hosts send packets through the tunnel.
fn talk(pair: &mut Pair, duration: Duration) {
    let until = pair.now() + duration;
    while pair.now() < until {
        for side in Side::BOTH {
            pair.send(side, [0x45; 20]);
        }
        pair.run_for((100 * MS).min(until.since(pair.now())));
    }
}

#[test]
fn an_only_path_that_is_dead_for_its_ports_is_back_from_another_within_ten_seconds() {
    for (config, leads) in only_paths() {
        let is_called = config.waits_to_be_called.is_some();
        // With the first keys, and with those after.
        for warm_up in [0, 150] {
            let mut pair = only_path(config.clone(), leads);
            talk(&mut pair, warm_up * SECOND);
            let (mut ports, begin) = (Ports::default(), pair.now());
            pair.set_links_up(0, false);
            assert!(ports.run_until_one_asks(&mut pair, 10 * SECOND));
            // What comes from there is let through.
            pair.set_links_up(0, true);
            while !is_up(&pair) && pair.now() < begin + 10 * SECOND {
                ports.run_for(&mut pair, 50 * MS);
            }
            let took = pair.now().since(begin);
            assert!(
                is_up(&pair),
                "{is_called}, {leads:?} leads: not up after {took:?}"
            );
            ports.run_for(&mut pair, 60 * SECOND);
            let asked = ports.asked_since(begin);
            println!(
                "B is called: {is_called}, {leads:?} leads: asked after {asked:?} s, up after {took:?}"
            );
            assert_eq!(asked[0].len() + asked[1].len(), 1, "{asked:?}");
        }
    }
}

#[test]
fn of_two_ends_that_may_leave_their_ports_one_goes_first_and_they_are_never_away_at_once() {
    for (config, leads) in only_paths() {
        let is_called = config.waits_to_be_called.is_some();
        let mut pair = only_path(config, leads);
        let (mut ports, begin) = (Ports::default(), pair.now());
        pair.set_links_up(0, false);
        while pair.now() < begin + 100 * SECOND {
            ports.run_until_one_asks(&mut pair, SECOND);
            assert_ne!(ports.away, [true; 2]);
        }
        for asked in &ports.asked {
            let mut apart = asked.windows(2).map(|pair| pair[1].since(pair[0]));
            assert!(apart.all(|apart| apart >= 10 * SECOND), "{asked:?}");
        }
        let [by_a, by_b] = ports.asked_since(begin);
        println!(
            "B is called: {is_called}, {leads:?} leads: A asks after {by_a:?} s, B after {by_b:?}"
        );
        let (first, other) = match is_called || leads == Side::A {
            true => (by_a, by_b),
            false => (by_b, by_a),
        };
        assert!(
            matches!(first[..], [4..=9, 14..=19, 74..=79, 84..=89]),
            "{first:?}"
        );
        match is_called {
            true => assert_eq!(other, [] as [u64; 0]),
            false => assert!(matches!(other[..], [29..=34, 39..=44, ..]), "{other:?}"),
        }
    }
}

/// How long after an outage of so many ms an only path is up at both ends.
fn up_after(config: &PairConfig, leads: Side, outage_ms: u64, carries: bool) -> Duration {
    let mut pair = only_path(config.clone(), leads);
    let mut ports = Ports::default();
    let mut run_for = |pair: &mut Pair, duration: Duration| {
        let until = pair.now() + duration;
        while pair.now() < until {
            if carries {
                for side in Side::BOTH {
                    pair.send(side, [0x45; 20]);
                }
            }
            ports.run_for(pair, (50 * MS).min(until.since(pair.now())));
        }
    };
    // It is idle after five.
    run_for(&mut pair, 10 * SECOND);
    pair.set_links_up(0, false);
    run_for(&mut pair, MS * outage_ms as u32);
    let begin = pair.now();
    pair.set_links_up(0, true);
    while !is_up(&pair) {
        run_for(&mut pair, 10 * MS);
        let took = pair.now().since(begin);
        assert!(took < 60 * SECOND, "{outage_ms} ms, {leads:?} leads");
    }
    pair.now().since(begin)
}

#[test]
fn an_ordinary_outage_of_an_only_path_lasts_no_longer_where_its_port_may_change() {
    let mut random = 1_u64;
    for (round, (config, leads)) in
        (0..6).flat_map(|round| only_paths().map(move |path| (round, path)))
    {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let outage_ms = 3000 + (random >> 33) % 17_000;
        let carries = round % 2 == 0;
        let keeps = PairConfig {
            keeps_ports: true,
            ..config.clone()
        };
        let [moves, keeps] =
            [&config, &keeps].map(|config| up_after(config, leads, outage_ms, carries));
        let is_called = config.waits_to_be_called.is_some();
        println!(
            "{outage_ms} ms, B is called: {is_called}, {leads:?} leads, carries: {carries}: {moves:?}, with fixed ports {keeps:?}"
        );
        // A keepalive of 200 ms and what answers take; an idle path calls once a second.
        let more = if carries { 300 * MS } else { 1200 * MS };
        assert!(moves <= keeps + more, "{moves:?}, {keeps:?}");
    }
}

#[test]
fn who_begins_anew_at_its_own_port_and_is_refused_is_called_there() {
    let mut pair = Pair::running(called(1), 3 * SECOND);
    pair.move_to(Side::A, 0, "10.1.1.1:40000".parse().unwrap());
    talk(&mut pair, 3 * SECOND);
    assert_eq!(pair.end(Side::B).path(0).remote, "10.1.1.1:40000");
    // None of its calls opens, as with a wrong key: an initiation is of kind 3, behind 4 bytes of GRE.
    pair.on_the_way(|side, wire| {
        if side == Side::A && wire.bytes[..5] == [0, 0, 0x88, 0xb5, 3] {
            wire.bytes[20] ^= 1;
        }
        true
    });
    pair.move_to(Side::A, 0, "10.1.1.1:4754".parse().unwrap());
    pair.restart(Side::A);
    talk(&mut pair, 5 * SECOND);
    assert!(is_up(&pair));
    assert_eq!(pair.end(Side::B).path(0).remote, "10.1.1.1:4754");
}

/// When A asks for another port on path 0 beside a flow, in ms from when both ways let `rate_bps` pass of what is sent,
/// and how the path fares from then on: the daemon has another socket, and `another` says what that has.
fn asked_when_policed(paths: usize, rate_bps: u64, another: bool, seconds: u32) -> (Vec<u64>, f64) {
    let adaptive = PairConfig {
        policy: Policy::Adaptive,
        recovery: true,
        ..called(paths)
    };
    let mut pair = Pair::running(adaptive, 3 * SECOND);
    let mut flow = Flow::new(Side::B, 1300);
    flow.run_for(&mut pair, 4 * SECOND);
    let begin = pair.now();
    let police = |pair: &mut Pair, policer| {
        for side in Side::BOTH {
            pair.link(0, side).config.policer = policer;
        }
    };
    let burst_bytes = 1500;
    police(
        &mut pair,
        Some(Policer {
            rate_bps,
            burst_bytes,
        }),
    );
    let path = PathId::new(0).unwrap();
    let mut asked = Vec::new();
    let mut port = 40_000;
    while pair.now() < begin + seconds * SECOND {
        flow.send(&mut pair);
        pair.step(flow.deadline().min(pair.now() + 100 * MS));
        for side in Side::BOTH {
            let arrived = pair.delivered(side);
            flow.take(&mut pair, side, &arrived);
        }
        flow.handle_timeout(pair.now());
        for (at, event) in pair.events(Side::A) {
            if !matches!(event, Event::NotAnswered { path: on, .. } if on == path) {
                continue;
            }
            asked.push(at.since(begin).as_millis() as u64);
            pair.move_to(Side::A, 0, format!("10.1.1.1:{port}").parse().unwrap());
            port += 1;
            let now = pair.end(Side::A).local(pair.now());
            pair.end_mut(Side::A).inbound.open_path(now, path);
            if another {
                police(&mut pair, None);
            }
        }
    }
    (asked, flow.goodput_bps(&mut pair, 5 * SECOND) / 1e6)
}

#[test]
fn a_path_that_is_throttled_to_next_to_nothing_is_back_from_another_port_within_ten_seconds() {
    for (paths, rate_bps) in [(2, 300), (2, 1000), (2, 2000), (1, 1000), (1, 2000)] {
        let (asked, mbps) = asked_when_policed(paths, rate_bps, true, 15);
        println!("{paths} paths, {rate_bps} bit/s: asked after {asked:?} ms, {mbps:.1} Mbit/s");
        assert!(
            matches!(asked[..], [4_000..=9_000]),
            "{paths} paths, {rate_bps} bit/s: {asked:?}"
        );
        assert!(mbps > 17.0 * paths as f64, "{mbps}");
    }
}

#[test]
fn paths_that_die_one_after_the_other_or_at_once_each_have_another_port_within_ten_seconds() {
    for apart in [3, 0] {
        let mut pair = Pair::running(called(3), 3 * SECOND);
        let mut flow = Flow::new(Side::B, 1300);
        pair.events(Side::A);
        pair.set_links_up(0, false);
        flow.run_for(&mut pair, apart * SECOND);
        let begin = pair.now();
        pair.set_links_up(1, false);
        flow.run_for(&mut pair, 10 * SECOND);
        let mut tried = [0; 3];
        for (at, event) in pair.events(Side::A) {
            if let Event::NotAnswered { path, .. } = event {
                tried[path.index()] += 1;
                let after = at.since(begin);
                assert!(after < 8 * SECOND, "path {path:?} after {after:?}");
            }
        }
        assert_eq!(tried, [1, 1, 0]);
    }
}

#[test]
fn where_another_port_is_no_better_attempts_are_ten_seconds_apart_and_fewer_and_fewer() {
    let (asked, _) = asked_when_policed(2, 1000, false, 45);
    println!("asked after {asked:?} ms");
    let apart: Vec<u64> = asked.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!((2..=5).contains(&asked.len()), "{asked:?}");
    assert!(apart.iter().all(|&ms| ms >= 10_000), "{apart:?}");
}

#[test]
fn a_path_that_loses_two_packets_of_five_or_is_full_keeps_its_port() {
    let mut links = config(true, 2);
    for link in &mut links.paths[0].links {
        link.loss = Loss::Independent { probability: 0.4 };
    }
    let (mut lossy, mut full) = (Pair::running(links, 3 * SECOND), config(true, 2));
    for link in &mut full.paths[0].links {
        (link.rate_bps, link.queue) = (Some(300_000), QueueLimit::Bytes(100_000));
    }
    let mut full = Pair::running(full, 3 * SECOND);
    for pair in [&mut lossy, &mut full] {
        let mut flow = Flow::new(Side::B, 1300);
        flow.run_for(pair, 30 * SECOND);
        let events = pair.events(Side::A);
        let asks = |(_, event): &(Time, Event)| matches!(event, Event::NotAnswered { .. });
        assert!(!events.iter().any(asks), "{events:?}");
    }
}

#[test]
fn an_end_that_waits_to_be_called_and_one_that_keeps_its_port_ask_for_none() {
    for keeps_ports in [false, true] {
        let config = PairConfig {
            keeps_ports,
            waits_to_be_called: Some(if keeps_ports { Side::B } else { Side::A }),
            ..config(true, 2)
        };
        let mut pair = Pair::running(config, 3 * SECOND);
        assert_eq!(asked(&mut pair, 100), []);
    }
}

/// A router that leads a path nowhere until neither end has sent anything for 30 s. Returns how long it
/// takes until the path works. `lag`: by how much B starts later.
fn comes_up_after(lag: Duration) -> Duration {
    let clock = Rc::new(RefCell::new((Time::ZERO, Time::ZERO, false)));
    let mut pair = Pair::new(config(false, 1));
    let seen = clock.clone();
    pair.on_the_way(move |_, _| {
        let (now, last, mended) = &mut *seen.borrow_mut();
        *mended |= now.since(*last) > 31 * SECOND;
        *last = *now;
        *mended
    });
    pair.run_for(lag);
    pair.restart(Side::B);
    let begin = pair.now();
    for step in 0u32.. {
        pair.run_for(100 * MS);
        clock.borrow_mut().0 = pair.now();
        if Side::BOTH.map(|side| pair.end(side).state(0)) == [PathState::Up; 2] {
            break;
        }
        assert!(step < 6000, "not up after ten minutes, {lag:?}");
    }
    pair.now().since(begin)
}

#[test]
fn a_plain_path_rests_until_routers_forget_it() {
    for lag in [0, 3, 7, 20, 29] {
        let took = comes_up_after(lag * SECOND);
        assert!(took < 200 * SECOND, "{took:?} with {lag} s");
        println!("B starts {lag} s later: up after {took:?}");
    }
}

#[test]
fn a_path_that_was_up_comes_back_at_once_after_four_minutes() {
    for sealed in [false, true] {
        let mut pair = Pair::running(config(sealed, 1), 3 * SECOND);
        pair.set_links_up(0, false);
        pair.run_for(240 * SECOND);
        pair.set_links_up(0, true);
        pair.run_for(6 * SECOND);
        assert_eq!(pair.end(Side::A).state(0), PathState::Up, "{sealed}");
    }
}

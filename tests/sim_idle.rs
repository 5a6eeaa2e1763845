//! What a tunnel costs that carries nothing, and how it wakes.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use mpt_core::path::PathState;
use mpt_core::time::Time;
use mpt_core::tunnel::Event;
use mpt_sim::packet::Inner;
use mpt_sim::pair::{Pair, PairConfig, PathSpec, Side};

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);
/// Hours in a month of 30 days.
const HOURS: f64 = 720.0;
/// Until nothing of the start is measured: sessions, paths and their MTU.
const STARTED: Duration = Duration::from_secs(120);

fn two_paths(v6: bool, delay_ms: u64) -> PairConfig {
    let path = || PathSpec {
        v6,
        ..PathSpec::symmetric(100, delay_ms)
    };
    PairConfig::new([path(), path()])
}

/// Megabytes a month of each path, both ways together, with IP and UDP headers, as an idle hour tells.
fn month(config: PairConfig) -> Vec<f64> {
    let paths = config.paths.len();
    let mut pair = Pair::running(config, STARTED);
    let bytes = |pair: &mut Pair, path| -> u64 {
        let sent = Side::BOTH.map(|side| pair.link(path, side).counters().sent_bytes);
        sent.iter().sum()
    };
    let before: Vec<u64> = (0..paths).map(|path| bytes(&mut pair, path)).collect();
    pair.run_for(HOUR);
    for path in 0..paths {
        let counted = Side::BOTH.map(|side| pair.end(side).path(path).control_tx_bytes);
        assert_eq!(counted.iter().sum::<u64>(), bytes(&mut pair, path));
    }
    for side in Side::BOTH {
        for path in 0..paths {
            assert_eq!(pair.end(side).state(path), PathState::Up);
        }
    }
    let hour = (0..paths).map(|path| bytes(&mut pair, path) - before[path]);
    hour.map(|bytes| bytes as f64 * HOURS / 1e6).collect()
}

#[test]
fn an_idle_path_costs_at_most_100_megabytes_a_month_and_a_metered_one_20() {
    for (v6, delay_ms) in [(false, 20), (true, 20), (false, 300), (true, 300)] {
        for sealed in [false, true] {
            for (metered, keepalive, most) in [
                (false, 200 * MS, 100.0),
                (false, 10 * SECOND, 100.0),
                (true, 200 * MS, 20.0),
                (true, 10 * SECOND, 20.0),
            ] {
                for waits_to_be_called in [None, Some(Side::B)] {
                    if waits_to_be_called.is_some() && !sealed {
                        continue;
                    }
                    let mut config = two_paths(v6, delay_ms);
                    (config.sealed, config.metered) = (sealed, metered);
                    config.keepalive = keepalive;
                    config.dead_after = 5 * keepalive;
                    config.waits_to_be_called = waits_to_be_called;
                    let months = month(config);
                    println!(
                        "sealed {sealed:5}, metered {metered:5}, keepalive {keepalive:5?}, IPv{}, rtt {} ms, \
                         both know where: {:5}: {:.1} and {:.1} MB a month",
                        if v6 { 6 } else { 4 },
                        2 * delay_ms,
                        waits_to_be_called.is_none(),
                        months[0],
                        months[1]
                    );
                    assert!(months.iter().all(|&month| month <= most), "{months:?}");
                }
            }
        }
    }
}

#[test]
fn something_leaves_the_end_that_calls_before_30_seconds_pass_so_that_mappings_stay() {
    for metered in [false, true] {
        let mut config = two_paths(false, 20);
        config.sealed = true;
        config.metered = metered;
        config.waits_to_be_called = Some(Side::B);
        let mut pair = Pair::running(config, STARTED);
        let mut last = [pair.now(); 2];
        let mut sent = [0, 1].map(|path| pair.link(path, Side::A).counters().sent);
        for _ in 0..1800 {
            pair.run_for(SECOND);
            for path in 0..2 {
                let now_sent = pair.link(path, Side::A).counters().sent;
                if now_sent != std::mem::replace(&mut sent[path], now_sent) {
                    last[path] = pair.now();
                }
                assert!(pair.now().since(last[path]) <= 29 * SECOND, "{metered}");
            }
        }
    }
}

#[test]
fn the_first_packet_after_an_idle_hour_arrives_at_once_whoever_sends_it() {
    for sealed in [false, true] {
        for metered in [false, true] {
            for side in Side::BOTH {
                let mut config = two_paths(false, 20);
                (config.sealed, config.metered) = (sealed, metered);
                let mut pair = Pair::running(config, STARTED);
                pair.run_for(HOUR + 77 * SECOND);
                pair.delivered(side.other());
                let sent = pair.now();
                for id in 0..20 {
                    pair.send(side, Inner::default().packet(id));
                }
                pair.run_for(SECOND);
                let delivered = pair.delivered(side.other());
                assert_eq!(delivered.len(), 20);
                let last = delivered.last().unwrap().0.since(sent);
                assert!(last <= 30 * MS, "sealed {sealed}: {last:?}");
                assert_eq!(pair.end(side.other()).reorder().gaps_inferred_lost, 0);
            }
        }
    }
}

/// When `side` said first, after `from`, that a path is down.
fn down_at(pair: &mut Pair, side: Side, from: Time) -> Option<Duration> {
    let events = pair.events(side).into_iter();
    let down = events.filter(|(at, event)| {
        let is_down = matches!(
            event,
            Event::Path {
                state: PathState::Down,
                ..
            }
        );
        *at >= from && is_down
    });
    down.map(|(at, _)| at.since(from)).next()
}

#[test]
fn a_path_that_died_while_idle_is_left_as_quickly_as_one_under_traffic() {
    for sealed in [false, true] {
        let mut config = two_paths(false, 20);
        config.sealed = sealed;
        let mut pair = Pair::running(config, STARTED);
        pair.run_for(HOUR);
        pair.set_links_up(1, false);
        let began = pair.now();
        let mut down = None;
        for id in 0..300 {
            pair.send(Side::A, Inner::default().packet(id));
            pair.run_for(10 * MS);
            down = down.or_else(|| down_at(&mut pair, Side::A, began));
        }
        assert!(down.is_some_and(|down| down <= 1001 * MS), "{down:?}");
        assert_eq!(pair.end(Side::A).state(0), PathState::Up);
    }
}

#[test]
fn a_path_that_dies_in_an_idle_tunnel_is_noticed_within_two_intervals_and_its_return_within_five_seconds()
 {
    for sealed in [false, true] {
        let mut config = two_paths(false, 20);
        config.sealed = sealed;
        let mut pair = Pair::running(config, STARTED);
        pair.set_links_up(1, false);
        pair.run_for(41 * SECOND);
        for side in Side::BOTH {
            assert_eq!(pair.end(side).state(1), PathState::Down);
            assert_eq!(pair.end(side).state(0), PathState::Up);
        }
        pair.run_for(HOUR);
        pair.set_links_up(1, true);
        pair.run_for(5 * SECOND);
        for side in Side::BOTH {
            assert_eq!(pair.end(side).state(1), PathState::Up);
        }
    }
}

#[test]
fn a_tunnel_whose_peer_is_away_is_quiet_and_there_within_five_seconds_of_its_return() {
    for sealed in [false, true] {
        let mut config = two_paths(false, 20);
        config.sealed = sealed;
        let mut pair = Pair::running(config, STARTED);
        for path in 0..2 {
            pair.set_links_up(path, false);
        }
        pair.run_for(600 * SECOND);
        let before = pair.link(0, Side::A).counters().sent_bytes;
        pair.run_for(HOUR);
        let bytes = pair.link(0, Side::A).counters().sent_bytes - before;
        println!(
            "sealed {sealed}: {:.0} MB a month",
            bytes as f64 * HOURS / 1e6
        );
        assert!(bytes as f64 * HOURS / 1e6 <= 150.0);
        for path in 0..2 {
            pair.set_links_up(path, true);
        }
        pair.run_for(5 * SECOND + 500 * MS);
        for side in Side::BOTH {
            for path in 0..2 {
                assert_eq!(pair.end(side).state(path), PathState::Up, "sealed {sealed}");
            }
        }
    }
}

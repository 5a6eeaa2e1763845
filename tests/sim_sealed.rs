//! A sealed tunnel: what the peer sealed and nothing else, through losses, restarts and new keys.
#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;
use std::time::Duration;

use mpt_core::control::Protection;
use mpt_core::control::drops::DropReason;
use mpt_core::path::PathState;
use mpt_core::send::scheduler::Policy;
use mpt_core::tunnel::Event;
use mpt_sim::packet::{Inner, id_of};
use mpt_sim::pair::{Pair, PairConfig, PathSpec, Side, Wire};

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);
/// GRE header of a handshake message.
const HANDSHAKE: [u8; 4] = [0, 0, 0x88, 0xb5];
/// Protocol Type of what is sealed.
const SEALED: [u8; 2] = [0x88, 0xb6];

fn sealed() -> PairConfig {
    PairConfig::new([PathSpec::symmetric(100, 5), PathSpec::symmetric(50, 30)]).sealed()
}

/// One packet a millisecond each way.
fn talk(pair: &mut Pair, ids: std::ops::Range<u64>) {
    for id in ids {
        for side in Side::BOTH {
            pair.send(side, Inner::default().packet(id));
        }
        pair.run_for(MS);
    }
}

fn ids(pair: &mut Pair, side: Side) -> Vec<u64> {
    let delivered = pair.delivered(side);
    delivered.iter().filter_map(|(_, p)| id_of(p)).collect()
}

fn dropped(pair: &Pair, side: Side) -> Vec<(&'static str, u64)> {
    let drops = DropReason::ALL
        .iter()
        .map(|&why| (why.name(), pair.end(side).dropped(why)));
    drops.filter(|(_, count)| *count > 0).collect()
}

fn keys(pair: &mut Pair, side: Side) -> usize {
    let events = pair.events(side);
    let new = |event: &Event| matches!(event, Event::Keys { protection } if *protection != Protection::Waiting);
    events.iter().filter(|(_, event)| new(event)).count()
}

#[test]
fn everything_comes_in_order_and_nothing_in_the_clear() {
    for trains in [false, true] {
        let mut pair = Pair::new(PairConfig { trains, ..sealed() });
        pair.record();
        pair.run_for(SECOND);
        talk(&mut pair, 0..2000);
        pair.run_for(SECOND);
        for side in Side::BOTH {
            assert!(ids(&mut pair, side).into_iter().eq(0..2000));
            assert_eq!(dropped(&pair, side), []);
            assert_eq!(pair.end(side).status().protection, Protection::Aes256Gcm);
        }
        for (_, wire) in pair.recorded() {
            let handshake = wire.bytes.starts_with(&HANDSHAKE) && (3..=5).contains(&wire.bytes[4]);
            assert!(
                handshake || wire.bytes[2..4] == SEALED,
                "{:?}",
                &wire.bytes[..8]
            );
            let number = Inner::default().packet(7)[36..].to_vec();
            assert!(!wire.bytes.windows(20).any(|part| part == &number[..20]));
        }
    }
}

/// The quicker path's copies all bear a congestion mark, which anybody there can set: they count as lost.
#[test]
fn a_mark_on_one_path_does_not_cost_the_copy_on_the_other() {
    let mut pair = Pair::running(
        PairConfig {
            policy: Policy::Redundant,
            ..sealed()
        },
        SECOND,
    );
    pair.on_the_way(|_, wire| {
        wire.tos |= if wire.path.index() == 0 { 0b11 } else { 0 };
        true
    });
    talk(&mut pair, 0..1000);
    pair.run_for(SECOND);
    for side in Side::BOTH {
        assert!(ids(&mut pair, side).into_iter().eq(0..1000));
        assert_eq!(dropped(&pair, side), [("ecn", 1000)]);
    }
}

#[test]
fn paths_come_up_one_round_trip_after_the_handshake() {
    let mut pair = Pair::new(sealed());
    pair.run_for(31 * MS);
    for side in Side::BOTH {
        assert_eq!(pair.end(side).state(0), PathState::Up);
    }
    talk(&mut pair, 0..10);
    pair.run_for(100 * MS);
    assert!(ids(&mut pair, Side::B).into_iter().eq(0..10));
}

#[test]
fn rekeying_under_load_loses_and_delays_nothing() {
    let mut pair = Pair::running(sealed(), SECOND);
    for side in Side::BOTH {
        keys(&mut pair, side);
    }
    for second in 0..260 {
        talk(&mut pair, second * 1000..(second + 1) * 1000);
        for side in Side::BOTH {
            // Both paths are used: each packet is at its best behind those of the slower one.
            assert!(pair.end(side).reorder().hold_us.max < 40_000);
        }
    }
    pair.run_for(SECOND);
    for side in Side::BOTH {
        assert!(ids(&mut pair, side).into_iter().eq(0..260_000));
        let keys = keys(&mut pair, side);
        assert!((2..=4).contains(&keys), "{keys} in 260 s");
        let reorder = pair.end(side).reorder();
        assert_eq!(reorder.gaps_timed_out + reorder.gaps_inferred_lost, 0);
        assert_eq!(dropped(&pair, side), []);
    }
}

#[test]
fn either_end_may_restart_under_load() {
    for (restarted, other) in [(Side::A, Side::B), (Side::B, Side::A)] {
        let mut pair = Pair::running(sealed(), SECOND);
        talk(&mut pair, 0..3000);
        pair.restart(restarted);
        let at = pair.now();
        talk(&mut pair, 3000..5000);
        pair.run_for(SECOND);
        for side in Side::BOTH {
            let delivered = pair.delivered(side);
            let after = delivered.iter().filter(|(time, _)| *time > at + 200 * MS);
            let ids: Vec<_> = after.filter_map(|(_, packet)| id_of(packet)).collect();
            assert!(ids.is_sorted() && *ids.last().unwrap() == 4999);
            // Every packet but those of the first moments.
            assert!(ids[0] < 3400, "{restarted:?}: {} at {side:?}", ids[0]);
            assert_eq!(ids.len() as u64, 5000 - ids[0], "{restarted:?} at {side:?}");
        }
        let told =
            |event: &Event| matches!(event, Event::PeerSession { restarted, .. } if *restarted);
        assert!(pair.events(other).iter().any(|(_, event)| told(event)));
    }
}

/// However little the peer has sent before.
#[test]
fn what_the_peer_sent_before_an_end_restarted_is_not_lost_to_it() {
    for (sent, restarted) in [(40, Side::B), (2000, Side::B), (40, Side::A)] {
        let mut pair = Pair::running(sealed(), SECOND);
        talk(&mut pair, 0..sent);
        pair.restart(restarted);
        pair.run_for(2 * SECOND);
        talk(&mut pair, sent..sent + 40);
        pair.run_for(SECOND);
        let reorder = pair.end(restarted).reorder();
        let lost = reorder.gaps_timed_out + reorder.gaps_inferred_lost;
        assert_eq!(lost, 0, "of {sent}, {restarted:?}");
    }
}

#[test]
fn forged_replayed_and_changed_packets_come_to_nothing() {
    let mut pair = Pair::running(sealed(), SECOND);
    pair.record();
    talk(&mut pair, 0..1000);
    let recording = pair.recorded();
    pair.run_for(100 * MS);
    for side in Side::BOTH {
        assert_eq!(ids(&mut pair, side).len(), 1000);
    }
    let before = pair.end(Side::B).path(0).rx_packets;
    let mut changed = 0;
    for (number, (_, wire)) in recording
        .iter()
        .filter(|(from, _)| *from == Side::A)
        .enumerate()
    {
        let mut wire = wire.clone();
        let at = number % wire.bytes.len();
        wire.bytes[at] ^= 1 << (number % 8);
        pair.inject_as_peer(Side::B, &wire);
        changed += 1;
    }
    let counted = |pair: &Pair| {
        [
            DropReason::Forged,
            DropReason::NotSealed,
            DropReason::UnknownSession,
            DropReason::Replayed,
            DropReason::BadHandshake,
            DropReason::Duplicate,
        ]
        .map(|why| pair.end(Side::B).dropped(why))
    };
    assert_eq!(counted(&pair).iter().sum::<u64>(), changed);
    assert_eq!(counted(&pair)[5], 0, "{:?}", dropped(&pair, Side::B));
    assert_eq!(pair.end(Side::B).path(0).rx_packets, before, "not counted");

    let stranger: SocketAddr = "198.51.100.7:999".parse().unwrap();
    for (from, wire) in &recording {
        pair.inject(from.other(), wire.path.index(), stranger, 0, &wire.bytes);
        pair.inject_as_peer(from.other(), wire);
    }
    for side in Side::BOTH {
        assert!(ids(&mut pair, side).is_empty());
    }
    talk(&mut pair, 1000..2000);
    pair.run_for(100 * MS);
    for side in Side::BOTH {
        assert!(ids(&mut pair, side).into_iter().eq(1000..2000));
        assert_eq!(pair.end(side).state(0), PathState::Up);
    }
}

#[test]
fn what_is_in_the_clear_gets_no_answer() {
    let mut pair = Pair::running(sealed(), SECOND);
    let data = [0x10, 0, 8, 0, 0, 0, 0, 9]
        .into_iter()
        .chain(Inner::default().packet(1));
    let wire = Wire {
        path: mpt_core::path::PathId::new(0).unwrap(),
        tos: 0,
        bytes: data.collect(),
    };
    pair.record();
    pair.inject_as_peer(Side::B, &wire);
    assert!(ids(&mut pair, Side::B).is_empty());
    assert_eq!(dropped(&pair, Side::B), [("not_sealed", 1)]);
    assert!(pair.recorded().is_empty());
}

#[test]
fn without_keys_nothing_goes() {
    let mut pair = Pair::new(sealed());
    for path in 0..2 {
        pair.set_links_up(path, false);
    }
    talk(&mut pair, 0..100);
    pair.run_for(2 * SECOND);
    for side in Side::BOTH {
        assert_eq!(pair.end(side).dropped(DropReason::NoPath), 100);
        assert_eq!(pair.end(side).status().protection, Protection::Waiting);
    }
    for path in 0..2 {
        pair.set_links_up(path, true);
    }
    pair.run_for(2 * SECOND);
    talk(&mut pair, 100..200);
    pair.run_for(100 * MS);
    for side in Side::BOTH {
        assert!(ids(&mut pair, side).into_iter().eq(100..200));
    }
}

#[test]
fn a_path_may_die_while_keys_are_made() {
    let mut pair = Pair::new(sealed());
    pair.set_links_up(0, false);
    pair.run_for(200 * MS);
    talk(&mut pair, 0..1000);
    pair.run_for(SECOND);
    for side in Side::BOTH {
        assert_eq!(pair.end(side).state(1), PathState::Up);
        assert!(ids(&mut pair, side).into_iter().eq(0..1000));
    }
}

#[test]
fn copies_of_the_redundant_scheduler_are_copies_and_no_replays() {
    let mut pair = Pair::running(
        PairConfig {
            policy: Policy::Redundant,
            ..sealed()
        },
        SECOND,
    );
    talk(&mut pair, 0..1000);
    pair.run_for(SECOND);
    for side in Side::BOTH {
        assert!(ids(&mut pair, side).into_iter().eq(0..1000));
        assert_eq!(dropped(&pair, side), [("duplicate", 1000)]);
    }
}

#[test]
fn packets_without_order_are_sealed_too() {
    let mut pair = Pair::running(
        PairConfig {
            policy: Policy::Flow,
            ..sealed()
        },
        SECOND,
    );
    talk(&mut pair, 0..1000);
    pair.run_for(SECOND);
    for side in Side::BOTH {
        let mut ids = ids(&mut pair, side);
        ids.sort_unstable();
        assert!(ids.into_iter().eq(0..1000));
        assert_eq!(pair.end(side).reorder().in_order, 0);
        assert_eq!(dropped(&pair, side), []);
    }
}

#[test]
fn an_end_may_wait_to_be_called() {
    let mut pair = Pair::new(PairConfig {
        waits_to_be_called: Some(Side::B),
        ..sealed()
    });
    assert_eq!(pair.end(Side::B).path(0).remote, "unknown");
    pair.run_for(SECOND);
    talk(&mut pair, 0..1000);
    pair.run_for(SECOND);
    for side in Side::BOTH {
        assert!(ids(&mut pair, side).into_iter().eq(0..1000));
    }
    for path in 0..2 {
        let address = pair.address(Side::A, path).to_string();
        assert_eq!(pair.end(Side::B).path(path).remote, address);
    }
    // It cannot call when it begins anew: the other end has to notice.
    pair.restart(Side::B);
    let at = pair.now();
    talk(&mut pair, 1000..3000);
    pair.run_for(SECOND);
    let delivered = pair.delivered(Side::A);
    let first = delivered.iter().find(|(time, _)| *time > at + 20 * MS);
    assert!(first.unwrap().0 < at + SECOND);
}

#[test]
fn a_peer_whose_address_changes_is_followed_at_once_and_loses_little() {
    for waits in [None, Some(Side::B)] {
        let mut pair = Pair::running(
            PairConfig {
                waits_to_be_called: waits,
                ..sealed()
            },
            SECOND,
        );
        talk(&mut pair, 0..1000);
        for path in 0..2 {
            let address = SocketAddr::from(([203, 0, 113, 9], 40_000 + path as u16));
            pair.move_to(Side::A, path, address);
        }
        talk(&mut pair, 1000..3000);
        pair.run_for(SECOND);
        // From the one that moved all comes; to it, all but what went to where it was.
        assert!(ids(&mut pair, Side::B).into_iter().eq(0..3000));
        let came = ids(&mut pair, Side::A);
        assert!(came.is_sorted() && came.len() > 2700, "{}", came.len());
        let missing = 3000 - came.len() as u64;
        assert_eq!(came.last(), Some(&2999));
        assert!(missing < 300, "{missing}");
        let told = |event: &Event| matches!(event, Event::PeerAddress { .. });
        assert!(pair.events(Side::B).iter().any(|(_, event)| told(event)));
        assert_eq!(pair.end(Side::B).path(1).remote, "203.0.113.9:40001");
    }
}

#[test]
fn nothing_but_the_newest_message_of_the_peer_moves_a_path() {
    let mut pair = Pair::running(sealed(), SECOND);
    pair.record();
    talk(&mut pair, 0..1000);
    let recording = pair.recorded();
    let elsewhere: SocketAddr = "198.51.100.7:999".parse().unwrap();
    // Everything again, and everything changed, from another address.
    for (from, wire) in &recording {
        let mut changed = wire.clone();
        let last = changed.bytes.len() - 1;
        changed.bytes[last] ^= 1;
        for wire in [wire, &changed] {
            pair.inject(from.other(), wire.path.index(), elsewhere, 0, &wire.bytes);
        }
    }
    for side in Side::BOTH {
        for path in 0..2 {
            let address = pair.address(side.other(), path).to_string();
            assert_eq!(pair.end(side).path(path).remote, address);
        }
    }
}

#[test]
fn a_probe_counts_although_reports_overtake_it() {
    let spec = PathSpec::overtaking(1000, 60, 25);
    for sealed in [false, true] {
        let mut samples_ms = Vec::new();
        for seed in 1..=6 {
            let mut pair = Pair::running(
                PairConfig {
                    sealed,
                    seed,
                    ..PairConfig::adaptive([spec.clone(), spec.clone()])
                },
                SECOND,
            );
            for id in 0..20_000 {
                pair.send(Side::A, Inner::of_len(1000).packet(id));
                pair.run_for(MS);
                if id % 1000 == 999 {
                    let rtt_us = pair.end(Side::A).path(0).rtt_us.unwrap();
                    samples_ms.push(rtt_us as f64 / 1000.0);
                }
            }
            assert_eq!(pair.end(Side::A).dropped(DropReason::NoPath), 0);
        }
        // If the quick ones alone counted, the round trip would seem to be 107 ms.
        let mean_ms = samples_ms.iter().sum::<f64>() / samples_ms.len() as f64;
        assert!((113.0..127.0).contains(&mean_ms), "{sealed}: {mean_ms} ms");
    }
}

/// Its clock does not count the sleep, and keys of before may be hours old.
#[test]
fn a_host_that_slept_has_no_keys_of_before_and_new_ones_a_round_trip_later() {
    let mut pair = Pair::running(sealed(), SECOND);
    pair.record();
    talk(&mut pair, 0..50);
    let before = pair.recorded();
    pair.run_for(SECOND);
    assert_eq!(ids(&mut pair, Side::B).len(), 50);
    keys(&mut pair, Side::B);
    let now = pair.end(Side::B).local(pair.now());
    pair.end_mut(Side::B).inbound.handle_resume(now);
    let status = pair.end(Side::B).status();
    assert_eq!(status.protection, Protection::Waiting);
    for (from, wire) in before.iter().filter(|(from, _)| *from == Side::A) {
        pair.inject_as_peer(from.other(), wire);
    }
    assert!(ids(&mut pair, Side::B).is_empty());
    assert!(pair.end(Side::B).dropped(DropReason::UnknownSession) > 0);
    pair.run_for(100 * MS);
    assert_eq!(keys(&mut pair, Side::B), 1);
    ids(&mut pair, Side::A);
    talk(&mut pair, 100..200);
    pair.run_for(SECOND);
    for side in Side::BOTH {
        assert!(ids(&mut pair, side).into_iter().eq(100..200), "{side:?}");
    }
}

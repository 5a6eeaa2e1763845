//! The paths of a sealed tunnel when they are not as they were: made anew, called elsewhere, of different pace.
#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;
use std::time::Duration;

use mpt_core::control::{PathState, Protection};
use mpt_core::path::{PathConfig, PathId};
use mpt_core::tunnel::Event;
use mpt_sim::packet::Inner;
use mpt_sim::pair::{Pair, PairConfig, Passed, PathSpec, Side};

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

fn sealed() -> PairConfig {
    PairConfig::new([PathSpec::symmetric(100, 5), PathSpec::symmetric(50, 30)]).sealed()
}

fn path_config(remote: Option<SocketAddr>, keepalive: Duration) -> PathConfig {
    PathConfig {
        remote,
        weight: 100,
        keepalive,
        dead_after: 5 * keepalive,
        metered: false,
        keeps_port: false,
    }
}

fn id(path: usize) -> PathId {
    PathId::new(path).unwrap()
}

#[test]
fn a_path_that_one_end_makes_anew_is_up_in_a_second_though_the_peer_is_idle() {
    for side in Side::BOTH {
        let mut pair = Pair::running(sealed(), 30 * SECOND);
        let remote = pair.address(side.other(), 0);
        let now = pair.end(side).local(pair.now());
        let end = pair.end_mut(side);
        end.inbound.remove_path(now, id(0));
        let config = path_config(Some(remote), 200 * MS);
        end.inbound.set_path(now, id(0), config);
        pair.run_for(SECOND);
        assert_eq!(pair.end(side).state(0), PathState::Up, "{side:?}");
    }
}

#[test]
fn a_padded_probe_that_is_overtaken_counts() {
    let config = sealed();
    let mtu = u32::from(config.mtu);
    let mut pair = Pair::running(config, SECOND / 2);
    let at = Side::BOTH.map(|side| pair.address(side, 0));
    pair.set_relay(0, move |caught| {
        let is_padded = caught.wire.bytes.len() > 600;
        Some(vec![Passed {
            to: caught.from.other(),
            from: at[caught.from as usize],
            after: if is_padded { 8 * MS } else { Duration::ZERO },
            wire: caught.wire,
        }])
    });
    // A packet a second: the paths are probed and their MTU is found out again and again.
    for packet in 0..300 {
        pair.send(Side::A, Inner::default().packet(packet));
        pair.run_for(SECOND);
        for side in Side::BOTH {
            assert_eq!(pair.end(side).status().mtu, mtu, "{side:?}, {packet} s");
        }
    }
    for side in Side::BOTH {
        let lowered = |event: &Event| matches!(event, Event::PathMtu { lowered: true, .. });
        let events = pair.events(side);
        assert!(!events.iter().any(|(_, event)| lowered(event)), "{side:?}");
    }
}

#[test]
fn without_keys_nothing_is_due_that_cannot_be_done() {
    // While it is being found out what the paths carry.
    let mut pair = Pair::new(sealed());
    for path in 0..2 {
        pair.link(path, Side::A).config.mtu = 900;
    }
    pair.run_for(SECOND);
    let mut now = pair.end(Side::A).local(pair.now());
    let end = pair.end_mut(Side::A);
    end.inbound.handle_resume(now);
    assert_eq!(end.status().protection, Protection::Waiting);
    for _ in 0..800 {
        now = now + MS;
        end.inbound.handle_timeout(now);
        while end.inbound.poll_transmit().is_some() {}
        let next = end.inbound.poll_timeout().unwrap();
        assert!(next > now, "{:?} ago", now.since(next));
    }
}

/// A client with a quick path and one that is probed every 20 s.
fn of_two_paces(pair: &mut Pair, side: Side) {
    let now = pair.end(side).local(pair.now());
    for (path, keepalive) in [(0, 200 * MS), (1, 20 * SECOND)] {
        let remote = (side == Side::A).then(|| pair.address(Side::B, path));
        let config = path_config(remote, keepalive);
        pair.end_mut(side).inbound.set_path(now, id(path), config);
    }
}

#[test]
fn a_slow_path_does_not_keep_a_peer_that_began_anew_waiting() {
    let mut pair = Pair::new(PairConfig {
        keepalive: 20 * SECOND,
        dead_after: 100 * SECOND,
        waits_to_be_called: Some(Side::B),
        ..sealed()
    });
    for side in Side::BOTH {
        of_two_paces(&mut pair, side);
    }
    let talk = |pair: &mut Pair, milliseconds: u64| {
        for packet in 0..milliseconds / 10 {
            pair.send(Side::A, Inner::default().packet(packet));
            pair.run_for(10 * MS);
        }
    };
    talk(&mut pair, 3000);
    assert_eq!(pair.end(Side::A).state(1), PathState::Up);
    pair.events(Side::A);
    pair.restart(Side::B);
    of_two_paces(&mut pair, Side::B);
    talk(&mut pair, 1000);
    let agreed = |event: &Event| matches!(event, Event::Keys { protection } if *protection != Protection::Waiting);
    let events = pair.events(Side::A);
    assert!(events.iter().any(|(_, event)| agreed(event)), "{events:?}");
}

#[test]
fn a_call_at_where_nobody_is_is_no_loss_of_the_path() {
    let mut pair = Pair::new(sealed());
    let elsewhere = SocketAddr::from(([10, 9, 9, 9], 4754));
    pair.move_to(Side::B, 0, elsewhere);
    for packet in 0..300 {
        pair.send(Side::B, Inner::default().packet(packet));
        pair.run_for(100 * MS);
    }
    assert_eq!(pair.end(Side::A).path(0).remote, elsewhere.to_string());
    let [a, b] = Side::BOTH.map(|side| pair.end(side).path(0));
    assert!(a.loss < 0.02, "{}", a.loss);
    assert!(b.rx_loss < 0.02, "{}", b.rx_loss);
}

#[test]
fn what_arrives_was_counted_when_it_left() {
    let mut pair = Pair::running(sealed(), 20 * SECOND);
    pair.run_for(SECOND);
    for side in Side::BOTH {
        for path in 0..2 {
            let sent = pair.end(side).path(path).tx_packets;
            let came = pair.end(side.other()).path(path).rx_packets;
            assert_eq!(sent, came, "{side:?}, path {path}");
        }
    }
}

//! What others send: recordings, forgeries, noise.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use mpt_core::control::drops::DropReason;
use mpt_core::control::setting::Setting;
use mpt_core::path::{PathId, PathState};
use mpt_core::seq::Seq;
use mpt_core::tunnel::Datagram;
use mpt_core::wire::gre::{Header, Protocol};
use mpt_sim::packet::{Inner, id_of};
use mpt_sim::pair::{Pair, PairConfig, PathSpec, Side, Wire};
use proptest::prelude::*;

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

fn two_paths() -> PairConfig {
    PairConfig::new([PathSpec::symmetric(100, 5), PathSpec::symmetric(50, 30)])
}

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

/// A data packet with number `seq` as the peer of `to` would send it.
fn forged(path: usize, seq: u32, id: u64) -> Wire {
    let header = Header {
        key: None,
        sequence: Some(Seq::new(seq)),
        protocol: Protocol::Ipv4,
    };
    let mut bytes = vec![0; header.buffer_len()];
    header.emit(&mut bytes);
    bytes.extend(Inner::default().packet(id));
    Wire {
        path: PathId::new(path).unwrap(),
        tos: 0,
        bytes,
    }
}

/// Every datagram that came in went somewhere: out to the TUN, into the window, to the control of
/// paths, or under a drop counter. Every packet from the TUN was sent, or dropped with a reason.
fn assert_conserved(pair: &Pair, side: Side) {
    let end = pair.end(side);
    let inbound = &end.inbound;
    let dropped: u64 = DropReason::ALL
        .iter()
        .map(|&why| inbound.drops().of(why))
        .sum();
    let (status, held) = (end.status(), end.reorder().held);
    assert_eq!(
        end.received(),
        status.rx_packets + inbound.control_packets() + dropped + held + end.starved()
    );
    let out = end.outbound.drops();
    let refused: u64 = DropReason::ALL.iter().map(|&why| out.of(why)).sum();
    assert_eq!(end.handed_in(), status.tx_packets + refused);
    assert_eq!(end.starved(), 0);
}

#[test]
fn a_recording_delivers_nothing_twice_and_moves_nothing() {
    let mut pair = Pair::running(two_paths(), SECOND);
    pair.record();
    talk(&mut pair, 0..2000);
    let recording = pair.recorded();
    pair.run_for(100 * MS);
    assert_eq!(ids(&mut pair, Side::A).len(), 2000);
    assert_eq!(ids(&mut pair, Side::B).len(), 2000);
    let next = pair.end(Side::B).reorder().in_order;

    for (from, wire) in &recording {
        pair.inject_as_peer(from.other(), wire);
    }
    for side in Side::BOTH {
        assert!(ids(&mut pair, side).is_empty());
        assert_eq!(pair.end(side).reorder().in_order, next);
        assert_conserved(&pair, side);
    }
    // In another order, over another path, among new packets.
    for (number, (from, wire)) in (2000..).zip(recording.iter().rev().step_by(2)) {
        talk(&mut pair, number..number + 1);
        let path = PathId::new((number % 2) as usize).unwrap();
        pair.inject_as_peer(
            from.other(),
            &Wire {
                path,
                ..wire.clone()
            },
        );
    }
    pair.run_for(SECOND);
    for side in Side::BOTH {
        let ids = ids(&mut pair, side);
        assert!(ids.is_sorted() && ids[0] == 2000, "{:?}", ids.first());
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
        assert_eq!(ids.len() as u64, ids.last().unwrap() - 1999);
        assert_eq!(pair.end(side).state(0), PathState::Up);
        assert_conserved(&pair, side);
    }
}

#[test]
fn a_recording_of_before_the_receiver_s_restart_is_no_better() {
    let mut pair = Pair::running(two_paths(), SECOND);
    pair.record();
    talk(&mut pair, 0..3000);
    let recording = pair.recorded();
    pair.restart(Side::B);
    talk(&mut pair, 3000..3500);
    pair.run_for(100 * MS);
    ids(&mut pair, Side::B);
    for (_, wire) in recording.iter().filter(|(from, _)| *from == Side::A) {
        pair.inject_as_peer(Side::B, wire);
    }
    assert!(ids(&mut pair, Side::B).is_empty());
    talk(&mut pair, 5000..6000);
    pair.run_for(SECOND);
    assert!(ids(&mut pair, Side::B).into_iter().eq(5000..6000));
    assert_conserved(&pair, Side::B);
}

#[test]
fn probes_of_before_a_restart_do_not_pass_for_another_one() {
    let mut pair = Pair::running(two_paths(), SECOND);
    pair.record();
    talk(&mut pair, 0..1000);
    let recording = pair.recorded();
    pair.restart(Side::A);
    talk(&mut pair, 1000..2000);
    pair.run_for(100 * MS);
    let session = pair.end(Side::B).status().peer_session;
    ids(&mut pair, Side::B);
    for (_, wire) in recording.iter().filter(|(from, _)| *from == Side::A) {
        pair.inject_as_peer(Side::B, wire);
        assert_eq!(pair.end(Side::B).status().peer_session, session);
    }
    ids(&mut pair, Side::B);
    talk(&mut pair, 2000..3000);
    pair.run_for(SECOND);
    assert!(ids(&mut pair, Side::B).into_iter().eq(2000..3000));
}

#[test]
fn a_stranger_is_only_counted() {
    let mut pair = Pair::running(two_paths(), SECOND);
    pair.record();
    talk(&mut pair, 0..500);
    let recording = pair.recorded();
    pair.run_for(100 * MS);
    let strangers: [SocketAddr; 3] = [
        "203.0.113.9:4754".parse().unwrap(),
        "10.1.1.1:4755".parse().unwrap(),
        "[2001:db8::1]:4754".parse().unwrap(),
    ];
    let before = pair.end(Side::B).status();
    let mut count = 0;
    for (_, wire) in &recording {
        for from in strangers {
            pair.inject(Side::B, wire.path.index(), from, wire.tos, &wire.bytes);
            count += 1;
        }
    }
    let mut expected = before.clone();
    *expected.drops.get_mut("stranger").unwrap() += count;
    assert_eq!(pair.end(Side::B).status(), expected);
    assert_conserved(&pair, Side::B);
}

/// With a length that no buffer has, as somebody says it at the peer's host, from another port.
#[test]
fn a_stranger_s_datagram_longer_than_its_buffer_is_only_counted() {
    let mut pair = Pair::running(two_paths(), SECOND);
    let mut from = pair.address(Side::A, 0);
    from.set_port(4755);
    let now = pair.end(Side::B).local(pair.now());
    let inbound = &mut pair.end_mut(Side::B).inbound;
    let mut buffer = inbound.take_buffer().unwrap();
    let datagram = Datagram {
        path: PathId::new(0).unwrap(),
        from,
        tos: 0,
        len: buffer.as_mut().len() + 1,
        buffer,
        segment_size: None,
        truncated: true,
        waited: Duration::ZERO,
    };
    inbound.handle_datagram(now, datagram);
    assert_eq!(pair.end(Side::B).dropped(DropReason::Stranger), 1);
}

/// How many initiations B sends to another port of A's host while its only path is down, where somebody sends these 40
/// times from there.
fn calls_beside(datagram: impl Fn(&[u8]) -> Vec<u8>) -> usize {
    let config = PairConfig {
        waits_to_be_called: Some(Side::B),
        ..PairConfig::new([PathSpec::symmetric(100, 5)]).sealed()
    };
    let is_call = |(side, wire): &(Side, Wire), by| *side == by && wire.bytes[4..5] == [3];
    let mut pair = Pair::new(config);
    pair.record();
    pair.restart(Side::A);
    talk(&mut pair, 0..3000);
    let sent = pair.recorded();
    let call = sent.iter().find(|sent| is_call(sent, Side::A)).unwrap();
    let datagram = datagram(&call.1.bytes);
    pair.set_links_up(0, false);
    talk(&mut pair, 3000..5000);
    let mut from = pair.address(Side::A, 0);
    from.set_port(5000);
    // What goes to A's own port is not recorded from here on.
    pair.move_to(Side::A, 0, from);
    pair.record();
    for id in 5000..5040 {
        talk(&mut pair, id..id + 1);
        pair.inject(Side::B, 0, from, 0, &datagram);
        pair.run_for(49 * MS);
    }
    assert_conserved(&pair, Side::B);
    let sent = pair.recorded();
    sent.iter().filter(|sent| is_call(sent, Side::B)).count()
}

#[test]
fn a_forged_call_from_the_peers_host_has_one_go_there_and_a_short_one_none() {
    let none = calls_beside(|_| vec![0xff]);
    let short = calls_beside(|call| call[..call.len() - 1].to_vec());
    let forged = calls_beside(|call| {
        let mut forged = call.to_vec();
        forged[20] ^= 1;
        forged
    });
    println!("{none} calls, {short} beside short ones, {forged} beside forged ones");
    assert_eq!([none, short], [0, 0]);
    assert!((1..=40).contains(&forged), "{forged}");
}

/// The first that an end hears is forged: what is lost until its packet is held no longer is sent again all the same.
#[test]
fn a_forged_first_packet_keeps_nothing_from_being_sent_again() {
    let paths = [PathSpec::symmetric(100, 5), PathSpec::symmetric(100, 5)];
    let mut config = PairConfig::adaptive(paths);
    config.sealed = false;
    config.reorder.max_buffer_delay = (5 * SECOND).into();
    let mut pair = Pair::new(config);
    pair.inject_as_peer(Side::B, &forged(0, 900, 9000));
    pair.run_for(100 * MS);
    let mut count = 0;
    pair.on_the_way(move |from, wire| {
        count += u32::from(from == Side::A && wire.bytes[2..4] == [0x08, 0x00]);
        count % 10 != 0
    });
    talk(&mut pair, 0..500);
    pair.off_the_way();
    talk(&mut pair, 500..510);
    pair.run_for(SECOND);
    assert_eq!(ids(&mut pair, Side::B).len(), 510);
    assert!(pair.end(Side::B).reorder().gaps_recovered >= 40);
}

#[test]
fn forged_numbers_do_not_reset_the_window() {
    let mut pair = Pair::running(two_paths(), SECOND);
    talk(&mut pair, 0..1000);
    let far = [
        3000,
        20_000,
        60_000,
        100_000,
        1 << 31,
        u32::MAX - 5,
        u32::MAX - 70_000,
    ];
    for round in 0..50u32 {
        for (path, seq) in (0..2).flat_map(|path| far.map(|seq| (path, round.wrapping_add(seq)))) {
            pair.inject_as_peer(Side::B, &forged(path, seq, 1 << 40));
        }
        let first = 1000 + u64::from(round) * 20;
        talk(&mut pair, first..first + 20);
    }
    pair.run_for(SECOND);
    let real: Vec<_> = ids(&mut pair, Side::B)
        .into_iter()
        .filter(|&id| id < 1 << 40)
        .collect();
    assert!(real.into_iter().eq(0..2000));
    assert_eq!(pair.end(Side::B).reorder().gaps_overflowed, 0);
    assert_conserved(&pair, Side::B);
}

#[test]
fn a_flood_of_unknown_sessions_silences_nobody() {
    let mut pair = Pair::running(two_paths(), SECOND);
    pair.record();
    pair.run_for(SECOND);
    let recording = pair.recorded();
    let is_control = |wire: &&(Side, Wire)| wire.1.bytes[2..4] == [0x88, 0xb5];
    let probes: Vec<_> = recording.iter().filter(is_control).collect();
    pair.events(Side::A);
    pair.events(Side::B);
    for round in 0..5000u64 {
        let (from, wire) = probes[round as usize % probes.len()];
        let mut wire = wire.clone();
        wire.bytes[12..20].copy_from_slice(&(round + 1).to_be_bytes());
        pair.inject_as_peer(from.other(), &wire);
        pair.run_for(MS);
    }
    for side in Side::BOTH {
        assert_eq!(pair.events(side), [], "{side:?}");
        assert_conserved(&pair, side);
    }
}

#[test]
fn trains_are_taken_apart_and_lone_packets_of_trains_do_not_exhaust_buffers() {
    let mut config = two_paths();
    config.trains = true;
    config.reorder.max_buffer_delay = (10 * SECOND).into();
    for path in &mut config.paths {
        path.links[0].rate_bps = None;
    }
    let mut pair = Pair::running(config, SECOND);
    // The second path is dead, and so the window is full of what the first brings.
    pair.link(1, Side::A).config.up = false;
    let mut sent = 0;
    for burst in [1, 50, 1, 1, 400, 3, 1000, 1, 7]
        .into_iter()
        .cycle()
        .take(90)
    {
        let ids = sent..sent + burst;
        pair.send_batch(
            Side::A,
            ids.map(|id| Inner::of_len(1400 - (id % 3) as usize).packet(id)),
        );
        pair.run_for(MS);
        sent += burst;
    }
    assert!(pair.end(Side::B).reorder().held_max > 600);
    pair.run_for(20 * SECOND);
    let ids = ids(&mut pair, Side::B);
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
    assert!(ids.len() as u64 > sent / 2);
    assert_conserved(&pair, Side::B);
}

#[test]
fn a_flood_is_bounded_and_starves_nobody() {
    for window in [Setting::Auto, Setting::Fixed(1024)] {
        let mut config = two_paths();
        config.reorder.window = window;
        let mut pair = Pair::running(config, SECOND);
        for seq in 0..20_000u32 {
            // Every second number, as far ahead as is believed.
            pair.inject_as_peer(Side::B, &forged(0, 2 * seq + 1000, u64::from(seq)));
        }
        let reorder = pair.end(Side::B).reorder();
        let most = window.fixed().map_or(reorder.window_limit, u64::from);
        assert!(reorder.held_max <= most, "{reorder:?}");
        assert_conserved(&pair, Side::B);
    }
}

/// Everything that one path brought comes again on the other, from where it came and from elsewhere, at once and
/// later: sealed, so that it opens.
#[test]
fn a_repeat_onto_another_path_delivers_nothing_and_moves_nothing() {
    let mut config = two_paths();
    (config.sealed, config.mtu) = (true, 1442);
    let mut pair = Pair::running(config, SECOND);
    pair.record();
    let mut repeats: Vec<(Side, Wire)> = Vec::new();
    let elsewhere = "203.0.113.9:4754".parse().unwrap();
    for id in 0..1000 {
        talk(&mut pair, id..id + 1);
        repeats.extend(pair.recorded());
        pair.record();
        // One of this moment and one of some time ago.
        for back in [1, 1 + id as usize % 97] {
            let Some((from, wire)) = repeats.iter().rev().nth(back) else {
                continue;
            };
            let (to, path) = (from.other(), 1 - wire.path.index());
            let at = match id % 3 {
                0 => elsewhere,
                1 => pair.address(*from, path),
                _ => pair.address(*from, 1 - path),
            };
            let bytes = wire.bytes.clone();
            pair.inject(to, path, at, 0, &bytes);
        }
        for side in Side::BOTH {
            for path in 0..2 {
                let truth = pair.address(side.other(), path).to_string();
                let status = pair.end(side).path(path);
                assert_eq!((status.remote, status.state), (truth, PathState::Up));
            }
        }
    }
    pair.run_for(SECOND);
    for side in Side::BOTH {
        // A packet that came first over the path that it was not sent on tells wrongly what that path has
        // passed: some come out of their order, none twice.
        let mut ids = ids(&mut pair, side);
        ids.sort_unstable();
        assert!(ids.into_iter().eq(0..1000), "{side:?}");
        assert!(pair.end(side).dropped(DropReason::OtherPath) > 0);
        assert_conserved(&pair, side);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Noise, and real datagrams with something changed, among real ones that arrive: the tunnel
    /// works as before afterwards, and every datagram is accounted for. What has another number
    /// within the window now takes the place of the packet with that number; no tunnel without
    /// authentication can know better.
    #[test]
    fn noise_leaves_the_tunnel_working(
        seed: u64,
        noise in proptest::collection::vec(
            (0..2usize, any::<bool>(), proptest::collection::vec(any::<u8>(), 0..200)),
            0..100,
        ),
        changes in proptest::collection::vec(
            (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 1..=255u8, any::<bool>()),
            0..200,
        ),
    ) {
        let mut config = two_paths();
        config.seed = seed;
        let mut pair = Pair::running(config, SECOND);
        pair.record();
        talk(&mut pair, 0..300);
        let recording = pair.recorded();
        for (path, as_peer, bytes) in &noise {
            let from = if *as_peer {
                pair.address(Side::A, *path)
            } else {
                "198.51.100.7:4754".parse().unwrap()
            };
            pair.inject(Side::B, *path, from, 0, bytes);
        }
        let mut renumbered = 0;
        for (which, place, change, short) in &changes {
            let (from, wire) = which.get(&recording);
            let mut wire = wire.clone();
            let at = place.index(wire.bytes.len().min(110));
            wire.bytes[at] ^= change;
            renumbered += usize::from((4..8).contains(&at));
            if *short {
                wire.bytes.truncate(at + 1);
            }
            pair.inject_as_peer(from.other(), &wire);
            pair.run_for(MS);
        }
        pair.run_for(2 * SECOND);
        for side in Side::BOTH {
            pair.delivered(side);
            assert_conserved(&pair, side);
        }
        talk(&mut pair, 1000..1300);
        pair.run_for(SECOND);
        for side in Side::BOTH {
            let ids = ids(&mut pair, side);
            let distinct: BTreeSet<_> = ids.into_iter().filter(|id| *id >= 1000).collect();
            prop_assert!(distinct.len() + renumbered >= 300, "{} {renumbered}", distinct.len());
            prop_assert_eq!(pair.end(side).state(0), PathState::Up);
            prop_assert_eq!(pair.end(side).state(1), PathState::Up);
            assert_conserved(&pair, side);
        }
    }
}

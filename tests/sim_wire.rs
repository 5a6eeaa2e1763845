//! What is on the wire: peers that send no probes, MTU, ECN, and how much an idle tunnel says.
#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use mpt_core::control::drops::DropReason;
use mpt_core::path::PathState;
use mpt_core::time::Time;
use mpt_core::tunnel::Event;
use mpt_core::wire::ip::{Packet, Version};
use mpt_sim::packet::{Inner, id_of};
use mpt_sim::pair::{Pair, PairConfig, PathSpec, Side, Wire};

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

fn is_control(wire: &Wire) -> bool {
    wire.bytes[2..4] == [0x88, 0xb5]
}

fn one_path() -> PairConfig {
    PairConfig::new([PathSpec::symmetric(100, 5)])
}

fn two_paths() -> PairConfig {
    PairConfig::new([PathSpec::symmetric(100, 5), PathSpec::symmetric(50, 30)])
}

fn send(pair: &mut Pair, ids: std::ops::Range<u64>) {
    for id in ids {
        pair.send(Side::A, Inner::default().packet(id));
        pair.run_for(MS);
    }
    pair.run_for(500 * MS);
}

fn ids(pair: &mut Pair) -> Vec<u64> {
    let delivered = pair.delivered(Side::B);
    delivered.iter().filter_map(|(_, p)| id_of(p)).collect()
}

#[test]
fn traffic_flows_without_probes() {
    for config in [one_path(), two_paths()] {
        let mut pair = Pair::new(config);
        pair.on_the_way(|_, wire| !is_control(wire));
        send(&mut pair, 0..3000);
        assert!(ids(&mut pair).into_iter().eq(0..3000));
        assert_eq!(pair.end(Side::A).state(0), PathState::Probing);
        assert_eq!(pair.end(Side::B).status().peer_session, None);
    }
}

#[test]
fn a_restart_without_probes_is_believed_after_four_in_a_row() {
    for sent_before in [100, 5000, 90_000] {
        let mut pair = Pair::new(one_path());
        pair.on_the_way(|_, wire| !is_control(wire));
        send(&mut pair, 0..sent_before);
        pair.restart(Side::A);
        ids(&mut pair);
        send(&mut pair, 100_000..101_000);
        assert!(ids(&mut pair).into_iter().eq(100_003..101_000));
        let dropped = pair.end(Side::B).dropped(DropReason::Duplicate);
        assert_eq!(dropped + pair.end(Side::B).dropped(DropReason::Stale), 3);
    }
}

#[test]
fn a_restart_without_probes_over_unlike_paths_is_believed() {
    let mut pair = Pair::new(two_paths());
    pair.on_the_way(|_, wire| !is_control(wire));
    send(&mut pair, 0..5000);
    pair.restart(Side::A);
    ids(&mut pair);
    send(&mut pair, 100_000..101_000);
    let ids = ids(&mut pair);
    assert!(ids.len() > 960 && ids.is_sorted(), "{}", ids.len());
}

#[test]
fn a_receiver_that_restarts_without_probes_takes_up_where_it_is() {
    for sent in [100, 5000] {
        let mut pair = Pair::new(two_paths());
        pair.on_the_way(|_, wire| !is_control(wire));
        send(&mut pair, 0..sent);
        pair.restart(Side::B);
        ids(&mut pair);
        send(&mut pair, sent..sent + 1000);
        assert!(ids(&mut pair).into_iter().eq(sent..sent + 1000));
        let reorder = pair.end(Side::B).reorder();
        assert_eq!(reorder.gaps_seen, reorder.gaps_filled);
    }
}

#[test]
fn a_peer_that_stops_probing_is_served_on() {
    let mut pair = Pair::running(two_paths(), SECOND);
    send(&mut pair, 0..1000);
    pair.on_the_way(|_, wire| !is_control(wire));
    pair.restart(Side::A);
    send(&mut pair, 1000..13_000);
    assert!(
        pair.events(Side::B)
            .iter()
            .any(|(_, event)| *event == Event::PeerStoppedProbing)
    );
    ids(&mut pair);
    send(&mut pair, 13_000..14_000);
    assert_eq!(ids(&mut pair).len(), 1000);
}

#[test]
fn more_loss_than_a_window_is_overcome_without_waiting_for_a_probe() {
    let mut config = one_path();
    config.keepalive = SECOND;
    config.dead_after = 10 * SECOND;
    let mut pair = Pair::running(config, 2 * SECOND);
    send(&mut pair, 0..100);
    pair.set_links_up(0, false);
    for id in 100..3100 {
        pair.send(Side::A, Inner::default().packet(id));
    }
    pair.set_links_up(0, true);
    ids(&mut pair);
    let began = pair.now();
    send(&mut pair, 4000..4100);
    let delivered = pair.delivered(Side::B);
    assert!(delivered.len() >= 97);
    assert!(delivered[0].0.since(began) < 20 * MS);
}

#[test]
fn too_big_and_not_to_be_fragmented_is_told() {
    let mut pair = Pair::running(two_paths(), SECOND);
    for version in [Version::V4, Version::V6] {
        let inner = Inner {
            version,
            len: 1500,
            ..Inner::default()
        };
        pair.send(Side::A, inner.packet(1));
        let refused = pair.refused(Side::A);
        let message = Packet::parse(&refused[0]).unwrap();
        let icmp = message.payload();
        let mtu = match version {
            Version::V4 => u16::from_be_bytes([icmp[6], icmp[7]]).into(),
            Version::V6 => u32::from_be_bytes([icmp[4], icmp[5], icmp[6], icmp[7]]),
        };
        assert_eq!((refused.len(), mtu), (1, 1464));
        pair.run_for(10 * MS);
    }
    assert_eq!(pair.end(Side::A).dropped(DropReason::TooBig), 2);
    pair.run_for(SECOND);
    assert!(pair.delivered(Side::B).is_empty());
}

/// Puts IPv4 fragments together again, by identification.
fn reassembled(fragments: &[(Time, Vec<u8>)]) -> Vec<Vec<u8>> {
    let mut whole: BTreeMap<u16, Vec<u8>> = BTreeMap::new();
    for (_, bytes) in fragments {
        let packet = Packet::parse(bytes).unwrap();
        assert!(packet.header_is_intact() && bytes.len() <= 1464);
        let at = packet.transport().unwrap().fragment.unwrap().offset;
        let data = whole.entry(packet.id().unwrap()).or_default();
        data.resize(data.len().max(at + packet.payload().len()), 0);
        data[at..at + packet.payload().len()].copy_from_slice(packet.payload());
    }
    whole.into_values().collect()
}

#[test]
fn what_may_be_fragmented_arrives_in_fragments_that_fit_together() {
    let mut pair = Pair::running(two_paths(), SECOND);
    let inner = Inner {
        len: 4000,
        dont_fragment: false,
        ..Inner::default()
    };
    pair.send_batch(Side::A, (0..20).map(|id| inner.packet(id)));
    pair.run_for(SECOND);
    let fragments = pair.delivered(Side::B);
    assert_eq!(fragments.len(), 60);
    let whole = reassembled(&fragments);
    assert_eq!(whole.len(), 20);
    for (id, data) in (0..).zip(whole) {
        assert_eq!(data, inner.packet(id)[20..]);
    }
}

#[test]
fn a_link_with_a_smaller_mtu_lowers_the_tunnel_s_and_no_lie_lowers_it_more() {
    let mut pair = Pair::running(two_paths(), SECOND);
    pair.icmp_too_big(Side::A, 1, 1400);
    assert_eq!(pair.end(Side::A).status().mtu, 1400 - 36);
    assert_eq!(pair.end(Side::A).path(0).mtu, 1464);
    pair.send(Side::A, Inner::of_len(1364).packet(1));
    pair.send(Side::A, Inner::of_len(1365).packet(2));
    assert_eq!(pair.refused(Side::A).len(), 1);
    pair.icmp_too_big(Side::A, 1, 1500);
    assert_eq!(pair.end(Side::A).status().mtu, 1364);
    pair.icmp_too_big(Side::A, 1, 0);
    // What carries so little is left out, and makes no packet small.
    assert_eq!(pair.end(Side::A).path(1).mtu, 552 - 36);
    assert_eq!(pair.end(Side::A).status().mtu, 1464);
    pair.run_for(Duration::from_secs(601));
    assert_eq!(pair.end(Side::A).status().mtu, 1464);

    let mut config = one_path();
    config.paths[0].v6 = true;
    let mut pair = Pair::running(config, SECOND);
    pair.icmp_too_big(Side::A, 0, 0);
    assert_eq!(pair.end(Side::A).status().mtu, 1280 - 56);
}

#[test]
fn congestion_marks_on_the_way_reach_the_inside() {
    let mut pair = Pair::running(two_paths(), SECOND);
    pair.on_the_way(|_, wire| {
        if wire.tos & 0b11 != 0 {
            wire.tos |= 0b11;
        }
        true
    });
    for tos in [0b10, 0b01, 0b11, 0b00, 46 << 2 | 0b10] {
        let inner = Inner {
            tos,
            ..Inner::default()
        };
        pair.send(Side::A, inner.packet(1));
        pair.run_for(100 * MS);
        let delivered = pair.delivered(Side::B);
        let packet = Packet::parse(&delivered[0].1).unwrap();
        let expected = if tos & 0b11 == 0 { tos } else { tos | 0b11 };
        assert_eq!(packet.tos(), expected);
        assert!(id_of(packet.bytes()).is_some());
    }
    // A mark on what does not know ECN is a loss.
    pair.on_the_way(|_, wire| {
        wire.tos |= 0b11;
        true
    });
    pair.send(Side::A, Inner::default().packet(1));
    pair.run_for(100 * MS);
    assert!(pair.delivered(Side::B).is_empty());
    assert_eq!(pair.end(Side::B).dropped(DropReason::Ecn), 1);
}

/// The most control messages in any second on one path, both directions together.
fn busiest_second(pair: &mut Pair, span: Duration) -> usize {
    pair.record();
    let sent: Rc<RefCell<BTreeMap<u8, Vec<Time>>>> = Rc::default();
    let mut most = 0;
    for _ in 0..span.as_millis() / 10 {
        pair.run_for(10 * MS);
        let now = pair.now();
        for (_, wire) in pair.recorded() {
            assert!(is_control(&wire));
            let mut sent = sent.borrow_mut();
            let times = sent.entry(wire.path.index() as u8).or_default();
            times.push(now);
            times.retain(|&at| now.since(at) < SECOND);
            most = most.max(times.len());
        }
        pair.record();
    }
    most
}

#[test]
fn an_idle_path_carries_twelve_messages_a_second_at_most() {
    for delay_ms in [0, 5, 50, 200] {
        for seed in 0..4 {
            let mut config = PairConfig::new([
                PathSpec::symmetric(100, delay_ms),
                PathSpec::symmetric(100, 5),
            ]);
            config.seed = seed;
            let mut pair = Pair::running(config, 3 * SECOND);
            let most = busiest_second(&mut pair, 20 * SECOND);
            assert!(most <= 12, "{delay_ms} ms, seed {seed}: {most}");
            assert_eq!(pair.end(Side::A).state(0), PathState::Up);
        }
    }
}

#[test]
fn a_path_out_of_service_says_no_more() {
    let mut pair = Pair::running(two_paths(), SECOND);
    pair.set_out_of_service(Side::A, 0, true);
    pair.run_for(3 * SECOND);
    let most = busiest_second(&mut pair, 10 * SECOND);
    assert!(most <= 12, "{most}");
}

#[test]
fn what_is_measured_of_a_path_is_right_whatever_the_clocks() {
    let mut config = two_paths();
    config.clocks = [Duration::from_secs(1 << 32), Duration::ZERO];
    let mut pair = Pair::running(config, 5 * SECOND);
    for side in Side::BOTH {
        for (path, rtt_ms) in [(0, 10), (1, 60)] {
            let status = pair.end(side).path(path);
            let rtt = status.rtt_us.unwrap();
            assert!((rtt_ms * 1000..rtt_ms * 1000 + 200).contains(&rtt), "{rtt}");
            assert_eq!(status.loss, 0.0);
        }
        let delays: BTreeSet<_> = [0, 1]
            .map(|path| pair.end(side).path(path).rx_delay_us)
            .into();
        let later = delays.into_iter().flatten().max().unwrap();
        assert!((24_900..25_200).contains(&later), "{later}");
    }
    pair.link(1, Side::A).config.loss = mpt_sim::loss::Loss::Independent { probability: 0.1 };
    send(&mut pair, 0..5000);
    let loss = pair.end(Side::A).path(1).loss;
    assert!((0.07..0.13).contains(&loss), "{loss}");
}

//! What a sealed tunnel's paths carry is found by asking them, without ICMP.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use mpt_core::control::drops::DropReason;
use mpt_core::tunnel::Event;
use mpt_sim::packet::{Inner, id_of};
use mpt_sim::pair::{Pair, PairConfig, PathSpec, Side};

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);
/// What a 1500-byte path leaves, and what IP, UDP and sealing take.
const MTU: u16 = 1442;
const SEALING: usize = 30;
const OVERHEAD: usize = 20 + 8 + SEALING;

fn sealed() -> PairConfig {
    PairConfig {
        sealed: true,
        mtu: MTU,
        ..PairConfig::new([PathSpec::symmetric(100, 5), PathSpec::symmetric(50, 30)])
    }
}

fn set_link_mtu(pair: &mut Pair, path: usize, mtu: usize) {
    for side in Side::BOTH {
        pair.link(path, side).config.mtu = mtu;
    }
}

/// Packets as large as the tunnel says that it takes, one a millisecond each way; how many came to B.
fn talk(pair: &mut Pair, packets: u64) -> usize {
    for id in 0..packets {
        for side in Side::BOTH {
            let len = usize::from(pair.end(side).interface_mtu);
            pair.send(side, Inner::of_len(len).packet(id));
        }
        pair.run_for(MS);
    }
    let came = pair.delivered(Side::B);
    came.iter().filter_map(|(_, packet)| id_of(packet)).count()
}

/// A packet every second: the tunnel is not idle, and that is all.
fn mumble(pair: &mut Pair, seconds: u64) {
    for id in 0..seconds {
        pair.send(Side::A, Inner::of_len(100).packet(id));
        pair.run_for(SECOND);
    }
}

fn said(pair: &mut Pair, side: Side) -> Vec<(usize, u16, bool)> {
    let events = pair.events(side);
    let said = events.iter().filter_map(|(_, event)| {
        let Event::PathMtu { path, mtu, lowered } = event else {
            return None;
        };
        Some((path.index(), *mtu, *lowered))
    });
    said.collect()
}

#[test]
fn paths_that_carry_all_that_is_configured_cost_a_probe_now_and_then() {
    let mut pair = Pair::running(sealed(), SECOND);
    let count = |pair: &mut Pair| {
        let full = usize::from(MTU) + 30;
        let recorded = pair.recorded();
        let padded = recorded.iter().filter(|(_, wire)| wire.bytes.len() == full);
        padded.count()
    };
    pair.run_for(10 * SECOND);
    pair.record();
    pair.run_for(100 * SECOND);
    assert_eq!(count(&mut pair), 0, "while the tunnel is idle");
    pair.record();
    mumble(&mut pair, 100);
    let count = count(&mut pair);
    assert!(
        (30..=44).contains(&count),
        "{count} of both ends over both paths"
    );
    for side in Side::BOTH {
        assert_eq!(pair.end(side).status().mtu, u32::from(MTU));
        assert_eq!(said(&mut pair, side), []);
    }
}

#[test]
fn a_narrow_path_is_found_to_the_byte_and_the_interface_follows() {
    for link in [1338, 1400, 1492, 1499] {
        let mut pair = Pair::new(sealed());
        set_link_mtu(&mut pair, 1, link);
        pair.run_for(15 * SECOND);
        let mtu = (link - OVERHEAD) as u16;
        for side in Side::BOTH {
            assert_eq!(pair.end(side).path(0).mtu, u32::from(MTU));
            assert_eq!(pair.end(side).path(1).mtu, u32::from(mtu));
            assert_eq!(pair.end(side).interface_mtu, mtu);
            assert_eq!(said(&mut pair, side), [(1, mtu, true)]);
        }
        assert_eq!(
            talk(&mut pair, 1000),
            1000 - 30,
            "all but what is under way"
        );
        pair.send(Side::A, Inner::of_len(usize::from(mtu) + 1).packet(7));
        assert_eq!(pair.refused(Side::A).len(), 1, "and senders are told");
    }
}

/// A path that carries hardly anything makes no packet small while another carries all.
#[test]
fn a_path_that_is_much_narrower_is_left_out() {
    for link in [600, 1000, 1279, 1337] {
        let mut pair = Pair::new(sealed());
        set_link_mtu(&mut pair, 1, link);
        pair.run_for(15 * SECOND);
        let mtu = (link - OVERHEAD) as u16;
        for side in Side::BOTH {
            let path = pair.end(side).path(1);
            assert_eq!((path.mtu, path.narrow), (u32::from(mtu), true));
            assert_eq!(pair.end(side).interface_mtu, MTU);
        }
        let before = pair.end(Side::A).path(1).tx_packets;
        assert!(talk(&mut pair, 1000) >= 1000 - 5, "the other is 5 ms long");
        assert!(pair.end(Side::A).path(1).tx_packets - before < 30, "{link}");
        // Better little than nothing.
        pair.set_links_up(0, false);
        pair.run_for(2 * SECOND);
        assert_eq!(pair.end(Side::A).status().mtu, u32::from(mtu));
        assert!(talk(&mut pair, 1000) > 900, "{link}");
    }
}

#[test]
fn a_black_hole_is_noticed_and_its_end_too() {
    let mut pair = Pair::running(sealed(), 3 * SECOND);
    set_link_mtu(&mut pair, 0, 1400);
    mumble(&mut pair, 15);
    let mtu = (1400 - OVERHEAD) as u16;
    assert_eq!(pair.end(Side::A).interface_mtu, mtu);
    talk(&mut pair, 200);
    assert!(talk(&mut pair, 1000) >= 999);
    set_link_mtu(&mut pair, 0, 1500);
    mumble(&mut pair, 600);
    for side in Side::BOTH {
        assert_eq!(pair.end(side).interface_mtu, MTU);
        assert_eq!(said(&mut pair, side), [(0, mtu, true), (0, MTU, false)]);
    }
}

#[test]
fn a_path_that_loses_much_is_not_taken_for_a_narrow_one() {
    for (probability, seed) in [(0.02, 1), (0.1, 1), (0.3, 1), (0.3, 2), (0.3, 3), (0.3, 4)] {
        let spec = PathSpec::symmetric(20, 20).losing(probability);
        let mut pair = Pair::running(
            PairConfig {
                seed,
                paths: vec![spec.clone(), spec],
                ..sealed()
            },
            5 * SECOND,
        );
        for second in 0..600 {
            mumble(&mut pair, 1);
            let mtu = pair.end(Side::A).status().mtu;
            assert_eq!(mtu, u32::from(MTU), "{probability}, seed {seed}: {second}");
        }
    }
}

#[test]
fn what_icmp_says_is_looked_into() {
    let mut pair = Pair::running(sealed(), SECOND);
    for _ in 0..20 {
        pair.icmp_too_big(Side::A, 1, 600);
        pair.run_for(SECOND / 3);
        assert_eq!(pair.end(Side::A).status().mtu, u32::from(MTU), "a lie");
    }
    set_link_mtu(&mut pair, 1, 1400);
    pair.icmp_too_big(Side::A, 1, 1400);
    pair.run_for(SECOND);
    let mtu = (1400 - OVERHEAD) as u16;
    assert_eq!(pair.end(Side::A).interface_mtu, mtu, "the truth");
}

#[test]
fn a_padded_probe_that_is_lost_is_no_loss_of_the_path() {
    let mut pair = Pair::new(sealed());
    set_link_mtu(&mut pair, 0, 900);
    pair.run_for(20 * SECOND);
    for side in Side::BOTH {
        assert_eq!(pair.end(side).path(0).loss, 0.0);
        for why in [
            DropReason::Forged,
            DropReason::BadControl,
            DropReason::Truncated,
        ] {
            assert_eq!(pair.end(side).dropped(why), 0);
        }
    }
}

#[test]
fn nothing_larger_than_configured_is_tried() {
    let mut pair = Pair::new(sealed());
    let b = pair.end_mut(Side::B);
    b.inbound.set_mtu(b.local(mpt_core::time::Time::ZERO), 1300);
    pair.record();
    pair.run_for(20 * SECOND);
    assert_eq!(pair.end(Side::B).status().mtu, 1300);
    let recorded = pair.recorded();
    let of_b = recorded.iter().filter(|(side, _)| *side == Side::B);
    let longest = of_b.map(|(_, wire)| wire.bytes.len()).max();
    assert_eq!(longest, Some(1300 + SEALING), "and that is tried");
}

#[test]
fn overtaking_is_not_taken_for_a_packet_that_was_too_big() {
    for seed in 1..=8 {
        let mut pair = Pair::running(
            PairConfig {
                seed,
                ..PairConfig::adaptive([PathSpec::overtaking(1000, 60, 25)]).sealed()
            },
            SECOND,
        );
        for id in 0..20_000 {
            pair.send(Side::A, Inner::of_len(1000).packet(id));
            pair.run_for(MS);
            let mtu = pair.end(Side::A).status().mtu;
            assert_eq!(mtu, u32::from(MTU), "seed {seed}");
        }
        assert_eq!(
            pair.end(Side::A).dropped(DropReason::TooBig),
            0,
            "seed {seed}"
        );
    }
}

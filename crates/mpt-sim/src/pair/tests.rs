use mpt_core::path::PathState;

use super::*;
use crate::packet::{Inner, id_of};

fn two_paths() -> PairConfig {
    PairConfig::new([PathSpec::symmetric(100, 5), PathSpec::symmetric(50, 30)])
}

#[test]
fn paths_come_up_after_a_round_trip_and_a_half() {
    let mut pair = Pair::new(two_paths());
    pair.run_for(Duration::from_millis(18));
    assert_eq!(pair.end(Side::A).state(0), PathState::Up);
    assert_eq!(pair.end(Side::B).state(0), PathState::Up);
    assert_eq!(pair.end(Side::A).state(1), PathState::Probing);
    pair.run_for(Duration::from_millis(100));
    assert_eq!(pair.end(Side::A).state(1), PathState::Up);
    let rtt_us = pair.end(Side::A).path(1).rtt_us.unwrap();
    assert!((60_000..60_500).contains(&rtt_us), "{rtt_us}");
}

#[test]
fn packets_pass_both_ways_in_order() {
    let mut pair = Pair::running(two_paths(), Duration::from_secs(1));
    let inner = Inner::default();
    for side in Side::BOTH {
        pair.send_batch(side, (0..100).map(|id| inner.packet(id)));
    }
    pair.run_for(Duration::from_millis(100));
    for side in Side::BOTH {
        let ids: Vec<_> = pair.delivered(side).iter().map(|(_, p)| id_of(p)).collect();
        assert_eq!(ids, (0..100).map(Some).collect::<Vec<_>>());
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let mut config = two_paths();
        config.seed = seed;
        config.paths[1].links[0].loss = crate::loss::Loss::Independent { probability: 0.2 };
        let mut pair = Pair::running(config, Duration::from_secs(1));
        pair.send_batch(Side::A, (0..100).map(|id| Inner::default().packet(id)));
        pair.run_for(Duration::from_secs(1));
        pair.delivered(Side::B)
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn trains_arrive_whole_over_links_without_a_rate() {
    let mut config = two_paths();
    config.trains = true;
    for path in &mut config.paths {
        path.links[0].rate_bps = None;
    }
    let mut pair = Pair::running(config, Duration::from_secs(1));
    let before = pair.end(Side::B).received();
    pair.send_batch(Side::A, (0..500).map(|id| Inner::default().packet(id)));
    pair.run_for(Duration::from_millis(100));
    let ids: Vec<_> = pair
        .delivered(Side::B)
        .iter()
        .map(|(_, p)| id_of(p))
        .collect();
    assert_eq!(ids, (0..500).map(Some).collect::<Vec<_>>());
    assert!(pair.end(Side::B).received() - before >= 500);
}

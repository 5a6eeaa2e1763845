//! The order that a tunnel measures in itself, over simulated links.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use mpt_core::control::LatePolicy;
use mpt_core::control::order::OrderStatus;
use mpt_sim::delay::{Delay, MS};
use mpt_sim::link::Order;
use mpt_sim::loss::Loss;
use mpt_sim::packet::Inner;
use mpt_sim::pair::{Pair, PairConfig, PathSpec, Side};

const SECOND: Duration = Duration::from_secs(1);

/// Sends `count` packets of 1400 bytes, one every 83 µs (135 Mbit/s), and lets the last arrive.
fn stream(pair: &mut Pair, count: u64) {
    let inner = Inner::of_len(1400);
    for id in 0..count {
        pair.send(Side::A, inner.packet(id));
        pair.run_for(Duration::from_micros(83));
    }
    pair.run_for(2 * SECOND);
}

fn order(pair: &mut Pair) -> OrderStatus {
    let now = pair.now();
    pair.end_mut(Side::B).order(now)
}

fn paths_10_ms_apart() -> PairConfig {
    PairConfig::new([PathSpec::symmetric(100, 0), PathSpec::symmetric(50, 10)])
}

#[test]
fn what_arrives_in_disorder_leaves_in_order() {
    let mut pair = Pair::running(paths_10_ms_apart(), SECOND);
    stream(&mut pair, 20_000);
    let order = order(&mut pair);
    let arriving = order.arriving.since_start;
    assert_eq!(arriving.reordering.received, 20_000);
    // What goes over the second path is late, save the last of it.
    let ratio = arriving.reordering.ratio;
    assert!((0.3..0.36).contains(&ratio), "{ratio}");
    assert!(arriving.density.entropy_nats > 0.5);
    assert!((40..120).contains(&arriving.occupancy.max));
    let leaving = order.leaving.since_start;
    assert_eq!(leaving.reordering.received, 20_000);
    assert_eq!(
        (leaving.reordering.reordered, leaving.three_reordering),
        (0, 0.0)
    );
    assert_eq!(leaving.density.mean_displacement, 0.0);
    for path in order.paths.values() {
        assert!(path.since_start.reordering.received > 5_000);
        assert_eq!(path.since_start.reordering.reordered, 0);
    }
}

#[test]
fn what_it_says_is_enough_is_enough_and_no_less_is() {
    let mut pair = Pair::running(paths_10_ms_apart(), SECOND);
    stream(&mut pair, 5_000);
    let enough = order(&mut pair).arriving.since_start.enough;
    for (less, ordered) in [(0, true), (1, false)] {
        let mut config = paths_10_ms_apart();
        config.reorder.window = (enough.window as u32 - less).into();
        config.reorder.max_buffer_delay = Duration::from_micros(enough.delay_us).into();
        let mut pair = Pair::running(config, SECOND);
        stream(&mut pair, 5_000);
        let leaving = order(&mut pair).leaving.since_start.reordering;
        assert_eq!(leaving.reordered == 0, ordered, "{enough:?}, {less} less");
    }
}

#[test]
fn both_ends_know_what_window_they_need_whichever_of_them_probes() {
    let mut pair = Pair::running(paths_10_ms_apart(), SECOND);
    let inner = Inner::of_len(1400);
    for id in 0..40_000 {
        let side = if id % 2 == 0 { Side::A } else { Side::B };
        pair.send(side, inner.packet(id));
        pair.run_for(Duration::from_micros(83));
    }
    for side in [Side::A, Side::B] {
        let needed = pair.end(side).reorder().window_needed;
        // 10 ms at 6024 packets a second.
        assert!(
            needed.is_some_and(|needed| (50..75).contains(&needed)),
            "{side:?}: {needed:?}"
        );
    }
}

#[test]
fn late_packets_that_are_dropped_do_not_leave() {
    let mut config = paths_10_ms_apart();
    config.reorder.window = 16.into();
    config.reorder.late = LatePolicy::Drop;
    let mut pair = Pair::running(config, SECOND);
    stream(&mut pair, 5_000);
    let late = pair.end(Side::B).reorder().late;
    let order = order(&mut pair);
    let [arriving, leaving] =
        [order.arriving, order.leaving].map(|point| point.since_start.reordering);
    assert!(late > 0);
    assert_eq!(leaving.received, arriving.received - late);
    assert_eq!(leaving.reordered, 0);
}

#[test]
fn loss_is_not_reordering_and_a_path_that_reorders_is_named() {
    let mut config = PairConfig::new([PathSpec::symmetric(100, 5), PathSpec::symmetric(100, 5)]);
    config.paths[0].links[0].loss = Loss::Independent { probability: 0.01 };
    config.paths[1].links[0].delay = Delay::NetemUniform {
        mean_ns: 6 * MS,
        half_range_ns: MS,
    };
    config.paths[1].links[0].order = Order::ByDelay;
    let mut pair = Pair::running(config, SECOND);
    stream(&mut pair, 5_000);
    let order = order(&mut pair);
    let [lossy, shuffled] = ["0", "1"].map(|name| &order.paths[name].since_start);
    assert_eq!(lossy.reordering.reordered, 0);
    assert!(shuffled.reordering.ratio > 0.1, "{shuffled:?}");
    // Probes are told apart by what jitter the path has.
    assert!(lossy.delay.pdv_ns.max < 1_000_000, "{:?}", lossy.delay);
    let pdv = shuffled.delay.pdv_ns;
    assert!((1_000_000..2_100_000).contains(&pdv.max), "{pdv:?}");
}

#[test]
fn a_restart_of_the_peer_is_no_reordering() {
    let mut pair = Pair::running(PairConfig::new([PathSpec::symmetric(100, 5)]), SECOND);
    stream(&mut pair, 3_000);
    pair.restart(Side::A);
    pair.run_for(2 * SECOND);
    stream(&mut pair, 3_000);
    let order = order(&mut pair);
    for point in [&order.arriving, &order.leaving] {
        let reordering = &point.since_start.reordering;
        assert_eq!(reordering.received, 6_000);
        assert_eq!((reordering.reordered, reordering.missing), (0, 0));
        assert_eq!(point.since_start.density.lost, 0);
    }
    assert_eq!(order.paths["0"].since_start.reordering.reordered, 0);
}

#[test]
fn the_last_ten_seconds_forget_what_was_before() {
    let mut pair = Pair::running(paths_10_ms_apart(), SECOND);
    stream(&mut pair, 2_000);
    let before = order(&mut pair);
    assert_eq!(before.arriving.last_interval, None);
    assert_eq!(before.paths["1"].last_interval, None);
    pair.run_for(8 * SECOND);
    let busy = order(&mut pair).arriving.last_interval.unwrap();
    assert_eq!(busy.reordering.received, 2_000);
    pair.run_for(10 * SECOND);
    let quiet = order(&mut pair);
    let idle = quiet.arriving.last_interval.unwrap();
    assert!((10.0..10.5).contains(&idle.seconds), "{}", idle.seconds);
    assert_eq!((idle.reordering.received, idle.reordering.ratio), (0, 0.0));
    assert_eq!(quiet.arriving.since_start.reordering.received, 2_000);
    let probes = &quiet.paths["1"].last_interval.as_ref().unwrap().delay;
    assert!(probes.pdv_ns.count <= 1, "an idle path is probed seldom");
}

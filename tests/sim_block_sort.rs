//! Block sort over simulated links: what arrives together leaves in order, and nothing waits.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use mpt_core::control::drops::DropReason;
use mpt_core::control::order::OrderStatus;
use mpt_core::control::{ReorderMode, ReorderStatus};
use mpt_core::receive::block_sort::DEFAULT_BLOCK;
use mpt_core::send::scheduler::Policy;
use mpt_core::time::Time;
use mpt_core::tunnel::ReorderSettings;
use mpt_sim::delay::{Delay, MS};
use mpt_sim::link::Order;
use mpt_sim::loss::Loss;
use mpt_sim::packet::{Inner, id_of};
use mpt_sim::pair::{Pair, PairConfig, PathSpec, Side};

const SECOND: Duration = Duration::from_secs(1);
const MICROSECOND: Duration = Duration::from_micros(1);
const BLOCK: ReorderSettings = ReorderSettings {
    window: mpt_core::control::setting::Setting::Auto,
    max_buffer_delay: mpt_core::control::setting::Setting::Auto,
    late: mpt_core::control::LatePolicy::Deliver,
    block: Some(DEFAULT_BLOCK),
};

/// Sends `count` packets of 1400 bytes, one every 20 µs, with numbers from `first` on, and lets the
/// last arrive. Returns what came out.
fn stream(pair: &mut Pair, first: u64, count: u64) -> Vec<u64> {
    let inner = Inner::of_len(1400);
    for id in first..first + count {
        pair.send(Side::A, inner.packet(id));
        pair.run_for(20 * MICROSECOND);
    }
    pair.run_for(SECOND);
    let delivered = pair.delivered(Side::B);
    delivered.iter().filter_map(|(_, p)| id_of(p)).collect()
}

/// One path whose packets overtake each other by 50 µs, and a receiver that looks every 250 µs.
fn jitter(reorder: ReorderSettings) -> PairConfig {
    let mut path = PathSpec::symmetric(1000, 2);
    path.links[0].delay = Delay::NetemUniform {
        mean_ns: 2 * MS,
        half_range_ns: MS / 20,
    };
    path.links[0].order = Order::ByDelay;
    PairConfig {
        reorder,
        receives_every: 250 * MICROSECOND,
        ..PairConfig::new([path])
    }
}

/// Two paths 50 µs apart, and the same receiver.
fn two_paths(reorder: ReorderSettings) -> PairConfig {
    let mut paths = [PathSpec::symmetric(500, 2), PathSpec::symmetric(500, 2)];
    let ns = 2 * MS + MS / 20;
    paths[1].links[0].delay = Delay::Constant { ns };
    PairConfig {
        reorder,
        receives_every: 250 * MICROSECOND,
        ..PairConfig::new(paths)
    }
}

fn order(pair: &mut Pair) -> OrderStatus {
    let now = pair.now();
    pair.end_mut(Side::B).order(now)
}

fn assert_nothing_held(reorder: &ReorderStatus) {
    assert_eq!(reorder.mode, ReorderMode::Block);
    assert_eq!(reorder.block_size, Some(DEFAULT_BLOCK));
    assert_eq!((reorder.window, reorder.window_auto), (0, false));
    assert_eq!(
        (reorder.held, reorder.held_max, reorder.hold_us.max),
        (0, 0, 0)
    );
    assert_eq!(reorder.gaps_open, 0);
}

/// Packets that `side` dropped; a control message that another has overtaken is none.
fn drops(pair: &Pair, side: Side) -> u64 {
    let mut drops = pair.end(side).status().drops;
    drops.remove(DropReason::StaleControl.name());
    drops.values().sum()
}

#[test]
fn fewer_packets_leave_out_of_order_than_arrive_so_and_none_is_held_or_dropped() {
    let mut pair = Pair::running(jitter(BLOCK), SECOND);
    let mut ids = stream(&mut pair, 0, 20_000);
    let order = order(&mut pair);
    let [arriving, leaving] = [order.arriving, order.leaving].map(|point| point.since_start);
    assert!(arriving.reordering.ratio > 0.3, "{:?}", arriving.reordering);
    // Of a batch of some twelve packets, those at its edges were overtaken by the next.
    assert!(
        leaving.reordering.ratio < 0.5 * arriving.reordering.ratio,
        "{:?}",
        leaving.reordering
    );
    assert!(leaving.three_reordering < 0.1 * arriving.three_reordering);
    assert!(leaving.reordering.reordered > 0, "nothing waited");
    assert_nothing_held(&pair.end(Side::B).reorder());
    ids.sort_unstable();
    assert!(ids.into_iter().eq(0..20_000));
    assert_eq!(drops(&pair, Side::B), 0);
}

#[test]
fn every_packet_leaves_in_the_moment_in_which_it_is_received() {
    let mut pair = Pair::running(jitter(BLOCK), SECOND);
    let mut sent = Vec::new();
    let inner = Inner::of_len(1400);
    for id in 0..5_000 {
        sent.push(pair.now());
        pair.send(Side::A, inner.packet(id));
        pair.run_for(20 * MICROSECOND);
    }
    pair.run_for(SECOND);
    let longest = |(left, packet): (Time, Vec<u8>)| {
        let id = usize::try_from(id_of(&packet).unwrap()).unwrap();
        left.since(sent[id])
    };
    let longest = pair.delivered(Side::B).into_iter().map(longest).max();
    // 2 ms and the jitter, 12 µs on the transmitter for each that it finds there, and the receiver's 250 µs.
    assert!(longest.unwrap() < 2400 * MICROSECOND, "{longest:?}");
}

#[test]
fn paths_that_are_nearly_alike_leave_in_order_as_far_as_batches_reach() {
    let mut pair = Pair::running(two_paths(BLOCK), SECOND);
    stream(&mut pair, 0, 20_000);
    let order = order(&mut pair);
    let ratios = [order.arriving, order.leaving].map(|point| point.since_start.reordering.ratio);
    assert!(ratios[0] > 0.2 && ratios[1] < 0.3 * ratios[0], "{ratios:?}");
    assert_nothing_held(&pair.end(Side::B).reorder());
}

#[test]
fn copies_are_still_dropped() {
    let mut config = jitter(BLOCK);
    config.paths[0].links[0].duplicate = 0.1;
    let mut pair = Pair::running(config, SECOND);
    let mut ids = stream(&mut pair, 0, 10_000);
    ids.sort_unstable();
    assert!(ids.into_iter().eq(0..10_000));
}

#[test]
fn nothing_is_reported_missing_and_nothing_waits_for_what_the_peer_may_send_again() {
    let mut config = jitter(BLOCK);
    config.paths[0].links[0].loss = Loss::Independent { probability: 0.02 };
    config.policy = Policy::Adaptive;
    config.recovery = true;
    let mut pair = Pair::running(config, SECOND);
    let ids = stream(&mut pair, 0, 20_000);
    assert!((19_000..19_900).contains(&ids.len()), "{}", ids.len());
    let reports = pair.reports(Side::A);
    assert!(reports.len() > 50, "{}", reports.len());
    for (_, report) in &reports {
        assert!(report.missing.is_empty(), "{report:?}");
        assert_eq!(report.next, report.high);
    }
    let recovery = pair.end(Side::A).status().recovery;
    assert_eq!((recovery.lost, recovery.resent), (0, 0), "{recovery:?}");
    assert_nothing_held(&pair.end(Side::B).reorder());
}

#[test]
fn a_tunnel_changes_from_a_window_to_blocks_and_back_without_a_loss() {
    let mut pair = Pair::running(two_paths(ReorderSettings::default()), SECOND);
    let mut sorted = Vec::new();
    let inner = Inner::of_len(1400);
    for id in 0..6_000 {
        pair.send(Side::A, inner.packet(id));
        pair.run_for(20 * MICROSECOND);
        let settings = match id {
            2_000 => BLOCK,
            4_000 => ReorderSettings::default(),
            _ => continue,
        };
        let now = pair.now();
        let end = pair.end_mut(Side::B);
        sorted.push(end.reorder().mode == ReorderMode::Block);
        let local = end.local(now);
        end.inbound.set_reorder(local, settings);
        end.outbound.set_numbered(settings.is_numbered());
    }
    pair.run_for(SECOND);
    assert_eq!(sorted, [false, true]);
    let delivered = pair.delivered(Side::B);
    let mut ids: Vec<u64> = delivered.iter().filter_map(|(_, p)| id_of(p)).collect();
    assert!(ids[..1_900].is_sorted() && ids[4_200..].is_sorted());
    assert!(!ids.is_sorted());
    ids.sort_unstable();
    assert!(ids.into_iter().eq(0..6_000));
    let reorder = pair.end(Side::B).reorder();
    assert_eq!(reorder.mode, ReorderMode::Window);
    assert!(reorder.window_auto && reorder.window >= 1024, "{reorder:?}");
}

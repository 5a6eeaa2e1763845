//! Order, loss and shares of a tunnel over simulated links.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::time::Duration;

use mpt_core::control::ReorderStatus;
use mpt_core::control::drops::DropReason;
use mpt_core::send::scheduler::Policy;
use mpt_sim::delay::{Delay, MS};
use mpt_sim::link::Order;
use mpt_sim::loss::Loss;
use mpt_sim::packet::{Inner, id_of};
use mpt_sim::pair::{Pair, PairConfig, PathSpec, Side};
use mpt_sim::source::Flow;

const SECOND: Duration = Duration::from_secs(1);

/// Sends `count` packets of `len` bytes, one every `spacing`, and lets the last arrive.
fn stream(pair: &mut Pair, count: u64, len: usize, spacing: Duration) -> Vec<u64> {
    let inner = Inner::of_len(len);
    for id in 0..count {
        pair.send(Side::A, inner.packet(id));
        pair.run_for(spacing);
    }
    pair.run_for(2 * SECOND);
    let delivered = pair.delivered(Side::B);
    delivered.iter().filter_map(|(_, p)| id_of(p)).collect()
}

/// What its probes say of numbers is 75,000 packets old when it comes.
#[test]
fn the_probes_of_a_path_that_is_far_behind_move_nothing() {
    for sealed in [false, true] {
        let config = PairConfig {
            policy: Policy::Backup,
            sealed,
            ..PairConfig::new([PathSpec::symmetric(1000, 5), PathSpec::symmetric(10, 1500)])
        };
        let mut pair = Pair::running(config, 5 * SECOND);
        let ids = stream(&mut pair, 300_000, 100, Duration::from_micros(20));
        assert!(ids.into_iter().eq(0..300_000), "sealed: {sealed}");
        assert_eq!(pair.end(Side::B).dropped(DropReason::Jump), 0);
        assert_eq!(pair.end(Side::B).dropped(DropReason::Duplicate), 0);
    }
}

/// Every missing number ended in exactly one way.
fn assert_accounted(reorder: &ReorderStatus) {
    let ended = reorder.gaps_filled
        + reorder.gaps_recovered
        + reorder.gaps_inferred_lost
        + reorder.gaps_timed_out
        + reorder.gaps_overflowed;
    assert_eq!(reorder.gaps_seen, ended + reorder.gaps_open, "{reorder:?}");
}

#[test]
fn two_unequal_paths_keep_order_lose_nothing_and_share_by_weight() {
    for delay_ms in [10, 20, 30, 40, 50] {
        let paths = [
            PathSpec::symmetric(100, 0),
            PathSpec::symmetric(50, delay_ms),
        ];
        let mut pair = Pair::running(PairConfig::new(paths), SECOND);
        // 135 Mbit/s of 1400-byte packets.
        let ids = stream(&mut pair, 20_000, 1400, Duration::from_micros(83));
        assert!(ids.iter().copied().eq(0..20_000), "{delay_ms} ms");
        let reorder = pair.end(Side::B).reorder();
        assert_accounted(&reorder);
        assert_eq!(reorder.gaps_filled, reorder.gaps_seen);
        assert_eq!(reorder.late + reorder.duplicates, 0);

        let bytes = |path| pair.end(Side::A).path(path).tx_bytes as f64;
        let share = bytes(0) / (bytes(0) + bytes(1));
        assert!((share - 2.0 / 3.0).abs() < 0.001, "{share}");
    }
}

#[test]
fn a_greedy_flow_gets_the_sum_of_the_paths() {
    let limit = 150e6 * 1372.0 / 1436.0;
    for delay_ms in [10, 30, 50] {
        let paths = [
            PathSpec::symmetric(100, 0),
            PathSpec::symmetric(50, delay_ms),
        ];
        let mut pair = Pair::running(PairConfig::new(paths), SECOND);
        let mut flow = Flow::new(Side::A, 1400);
        flow.run_for(&mut pair, 5 * SECOND);
        let goodput = flow.goodput_bps(&mut pair, 3 * SECOND);
        assert!(goodput > 0.97 * limit, "{delay_ms} ms: {goodput}");
        assert_eq!(flow.silences(), 0);
    }
}

#[test]
fn without_a_window_the_delay_difference_ruins_a_greedy_flow() {
    let paths = [PathSpec::symmetric(100, 0), PathSpec::symmetric(50, 50)];
    let mut config = PairConfig::new(paths);
    config.reorder.window = 0.into();
    let mut pair = Pair::running(config, SECOND);
    let mut flow = Flow::new(Side::A, 1400);
    flow.run_for(&mut pair, 2 * SECOND);
    let goodput = flow.goodput_bps(&mut pair, 3 * SECOND);
    assert!(goodput < 50e6, "{goodput}");
}

#[test]
fn loss_stalls_nothing_and_every_gap_is_accounted_for() {
    for percent in [0.1, 1.0, 10.0] {
        let mut paths = [PathSpec::symmetric(100, 5), PathSpec::symmetric(50, 25)];
        for path in &mut paths {
            path.links[0].loss = Loss::Independent {
                probability: percent / 100.0,
            };
        }
        let mut pair = Pair::running(PairConfig::new(paths), SECOND);
        let ids = stream(&mut pair, 20_000, 1200, Duration::from_micros(100));
        assert!(ids.is_sorted(), "{percent} %");
        let reorder = pair.end(Side::B).reorder();
        assert_accounted(&reorder);
        assert_eq!(
            reorder.gaps_open + reorder.gaps_overflowed + reorder.late,
            0
        );
        // A path's next packet tells of a loss; nothing waits for the timer while packets flow.
        assert!(reorder.gaps_timed_out <= 1, "{reorder:?}");
        assert!(reorder.hold_us.p99 < 40_000, "{reorder:?}");
        let lost = 20_000 - ids.len() as u64;
        assert_eq!(reorder.gaps_seen - reorder.gaps_filled, lost);
        let seen = lost as f64 / 200.0;
        assert!((0.5 * percent..1.6 * percent).contains(&seen), "{seen} %");
    }
}

#[test]
fn the_loss_of_the_last_packets_is_noticed_by_the_watermark() {
    let mut config = PairConfig::new([PathSpec::symmetric(100, 5), PathSpec::symmetric(50, 25)]);
    config.reorder.max_buffer_delay = (10 * SECOND).into();
    let mut pair = Pair::running(config, SECOND);
    let inner = Inner::default();
    // The third goes over the first path, and the fourth is then the last of all.
    for id in 0..4 {
        pair.link(0, Side::A).config.up = id != 2;
        pair.send(Side::A, inner.packet(id));
    }
    pair.link(0, Side::A).config.up = true;
    pair.run_for(Duration::from_millis(500));
    let reorder = pair.end(Side::B).reorder();
    assert_eq!(reorder.held + reorder.gaps_open, 0);
    assert!(reorder.gaps_inferred_lost > 0 && reorder.gaps_timed_out == 0);
}

#[test]
fn links_that_duplicate_and_jitter_never_make_a_packet_arrive_twice() {
    let mut paths = [PathSpec::symmetric(100, 0), PathSpec::symmetric(50, 0)];
    for path in &mut paths {
        let link = &mut path.links[0];
        link.duplicate = 0.1;
        link.order = Order::ByDelay;
        link.loss = Loss::Independent { probability: 0.01 };
        link.delay = Delay::Normal {
            mean_ns: 20 * MS,
            sd_ns: 3 * MS,
        };
    }
    let mut pair = Pair::running(PairConfig::new(paths), SECOND);
    let ids = stream(&mut pair, 20_000, 1000, Duration::from_micros(150));
    let distinct: BTreeSet<_> = ids.iter().collect();
    assert_eq!(distinct.len(), ids.len());
    let reorder = pair.end(Side::B).reorder();
    assert_accounted(&reorder);
    assert!(reorder.duplicates > 1000 && reorder.reordered > 1000);
    assert!(ids.len() as u64 > 19_600);
    // Only packets that were late may be out of order.
    let backwards = ids.windows(2).filter(|pair| pair[0] > pair[1]).count() as u64;
    assert!(backwards <= reorder.late, "{backwards} of {}", reorder.late);
}

#[test]
fn a_path_that_jitters_is_learnt_and_hardly_anything_comes_late() {
    for jitter_ms in [3, 10, 25] {
        let mut paths = [
            PathSpec::symmetric(100, 20),
            PathSpec::overtaking(50, 40, jitter_ms),
        ];
        paths[0].links[0].loss = Loss::Independent { probability: 0.005 };
        let mut pair = Pair::running(PairConfig::new(paths), SECOND);
        let ids = stream(&mut pair, 50_000, 1200, Duration::from_micros(100));
        let reorder = pair.end(Side::B).reorder();
        assert_accounted(&reorder);
        assert_eq!(reorder.gaps_overflowed, 0);
        let late = reorder.late as f64 / ids.len() as f64;
        assert!(late < 0.001, "{jitter_ms} ms: {late}");
        assert_eq!(reorder.gaps_timed_out, 0);
    }
}

#[test]
fn an_automatic_window_keeps_order_whatever_the_delays_differ_by() {
    for (mbps, delay_ms) in [
        (50, 21),
        (50, 70),
        (50, 150),
        (50, 320),
        (5, 620),
        (800, 120),
    ] {
        let paths = [
            PathSpec::symmetric(mbps * 2, 20),
            PathSpec::symmetric(mbps, delay_ms),
        ];
        let mut pair = Pair::running(PairConfig::new(paths), SECOND);
        // Nine tenths of the sum.
        let spacing = Duration::from_nanos(1436 * 8 * 1000 / (mbps * 3) * 10 / 9);
        let ids = stream(&mut pair, 20_000, 1400, spacing);
        let reorder = pair.end(Side::B).reorder();
        assert!(
            ids.iter().copied().eq(0..20_000),
            "{delay_ms} ms: {reorder:?}"
        );
        assert_eq!(reorder.gaps_filled, reorder.gaps_seen);
        let difference_us = (delay_ms - 20) * 1000;
        let measured = reorder.delay_difference_us.abs_diff(difference_us);
        assert!(measured < 10_000, "{delay_ms} ms: {reorder:?}");
        assert!(reorder.max_buffer_delay_us > 250_000 + difference_us);
        assert!(u64::from(reorder.window) >= reorder.held_max, "{reorder:?}");
    }
}

#[test]
fn a_window_that_was_wide_is_narrow_again() {
    let paths = [PathSpec::symmetric(100, 20), PathSpec::symmetric(50, 320)];
    let mut pair = Pair::running(PairConfig::new(paths), SECOND);
    stream(&mut pair, 20_000, 1400, Duration::from_micros(83));
    assert!(pair.end(Side::B).reorder().window >= 4096);
    pair.run_for(40 * SECOND);
    assert_eq!(pair.end(Side::B).reorder().window, 1024);
}

#[test]
fn ipv6_inside_and_outside_and_a_key_change_nothing() {
    let mut paths = [PathSpec::symmetric(100, 5), PathSpec::symmetric(50, 20)];
    paths[1].v6 = true;
    let mut config = PairConfig::new(paths);
    config.key = Some(0xdead_beef);
    let mut pair = Pair::running(config, SECOND);
    let inner = Inner {
        version: mpt_core::wire::ip::Version::V6,
        len: 1300,
        ..Inner::default()
    };
    pair.send_batch(Side::B, (0..500).map(|id| inner.packet(id)));
    pair.run_for(SECOND);
    let ids = pair.delivered(Side::A);
    assert!(ids.iter().filter_map(|(_, p)| id_of(p)).eq(0..500));
}

#[test]
fn uneven_sizes_still_share_bytes_and_keep_order() {
    let paths = [PathSpec::symmetric(100, 2), PathSpec::symmetric(25, 8)];
    let mut pair = Pair::running(PairConfig::new(paths), SECOND);
    for id in 0..8000u64 {
        let len = 60 + (id * 7919 % 1400) as usize;
        pair.send(Side::A, Inner::of_len(len).packet(id));
        pair.run_for(Duration::from_micros(70));
    }
    pair.run_for(SECOND);
    let delivered = pair.delivered(Side::B);
    assert!(delivered.iter().filter_map(|(_, p)| id_of(p)).eq(0..8000));
    let bytes = |path| pair.end(Side::A).path(path).tx_bytes as f64;
    let share = bytes(0) / (bytes(0) + bytes(1));
    assert!((share - 0.8).abs() < 0.002, "{share}");
}

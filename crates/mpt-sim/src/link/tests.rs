use proptest::prelude::*;

use super::*;
use crate::delay::MS;

/// Runs the link dry; every delivery with its time.
fn drain(link: &mut Link<u32>) -> Vec<(u64, u32)> {
    let mut arrivals = Vec::new();
    while let Some(now) = link.next() {
        while let Some(item) = link.deliver(now) {
            arrivals.push((now, item));
        }
    }
    arrivals
}

/// Sends `count` packets of 1000 bytes, `spacing_ns` apart, and collects what arrives.
fn stream_over(config: LinkConfig, seed: u64, count: u32, spacing_ns: u64) -> Vec<(u64, u32)> {
    let mut link = Link::new(config, seed);
    for n in 0..count {
        link.send(u64::from(n) * spacing_ns, 1000, n);
    }
    drain(&mut link)
}

fn jittery(order: Order) -> LinkConfig {
    LinkConfig {
        delay: Delay::Normal {
            mean_ns: 20 * MS,
            sd_ns: 5 * MS,
        },
        order,
        ..LinkConfig::default()
    }
}

#[test]
fn rate_and_delay_add_up() {
    let config = LinkConfig {
        rate_bps: Some(8_000_000),
        delay: Delay::Constant { ns: 10 * MS },
        ..LinkConfig::default()
    };
    // 1000 bytes at 8 Mbit/s take 1 ms, one after another.
    let arrivals = stream_over(config, 1, 3, 0);
    assert_eq!(arrivals, [(11 * MS, 0), (12 * MS, 1), (13 * MS, 2)]);
}

#[test]
fn queue_drops_the_tail_by_packets() {
    let mut link = Link::new(
        LinkConfig {
            rate_bps: Some(8_000_000),
            queue: QueueLimit::Packets(2),
            ..LinkConfig::default()
        },
        1,
    );
    for n in 0..5 {
        link.send(0, 1000, n);
    }
    assert_eq!((link.queued_packets(), link.queued_bytes()), (2, 2000));
    assert_eq!(link.counters().dropped_queue_full, 3);
    assert_eq!(drain(&mut link), [(MS, 0), (2 * MS, 1)]);
}

#[test]
fn queue_drops_the_tail_by_bytes() {
    let mut link = Link::new(
        LinkConfig {
            rate_bps: Some(8_000_000),
            queue: QueueLimit::Bytes(2500),
            ..LinkConfig::default()
        },
        1,
    );
    link.send(0, 1000, 0);
    link.send(0, 1400, 1);
    link.send(0, 200, 2);
    link.send(0, 100, 3);
    let items: Vec<u32> = drain(&mut link).into_iter().map(|(_, item)| item).collect();
    assert_eq!(items, [0, 1, 3]);
}

#[test]
fn kept_order_never_overtakes_and_by_delay_does() {
    let sorted = |arrivals: &[(u64, u32)]| arrivals.windows(2).all(|w| w[0].1 < w[1].1);
    assert!(sorted(&stream_over(jittery(Order::Kept), 3, 2000, MS)));
    assert!(!sorted(&stream_over(jittery(Order::ByDelay), 3, 2000, MS)));
}

#[test]
fn same_seed_same_trace() {
    let config = LinkConfig {
        rate_bps: Some(10_000_000),
        loss: Loss::gilbert(0.05, 3.0),
        duplicate: 0.02,
        ..jittery(Order::ByDelay)
    };
    let run = |seed| stream_over(config.clone(), seed, 3000, MS);
    assert_eq!(run(42), run(42));
    assert_ne!(run(42), run(43));
}

#[test]
fn loss_leaves_the_delays_of_the_others_alone() {
    let clean = stream_over(jittery(Order::ByDelay), 9, 500, MS);
    let lossy = LinkConfig {
        loss: Loss::Independent { probability: 0.5 },
        ..jittery(Order::ByDelay)
    };
    let survivors = stream_over(lossy, 9, 500, MS);
    assert!((150..350).contains(&survivors.len()));
    assert!(survivors.iter().all(|arrival| clean.contains(arrival)));
}

#[test]
fn rate_changes_for_what_waits() {
    let mut link = Link::new(
        LinkConfig {
            rate_bps: Some(8_000_000),
            ..LinkConfig::default()
        },
        1,
    );
    for n in 0..3 {
        link.send(0, 1000, n);
    }
    link.config.rate_bps = Some(1_600_000);
    assert_eq!(drain(&mut link), [(MS, 0), (6 * MS, 1), (11 * MS, 2)]);
}

#[test]
fn a_link_that_goes_down_delivers_only_what_is_under_way() {
    let mut link = Link::new(
        LinkConfig {
            rate_bps: Some(8_000_000),
            delay: Delay::Constant { ns: 10 * MS },
            ..LinkConfig::default()
        },
        1,
    );
    for n in 0..3 {
        link.send(0, 1000, n);
    }
    assert_eq!(link.deliver(MS), None);
    link.config.up = false;
    link.send(MS, 1000, 3);
    assert_eq!(drain(&mut link), [(11 * MS, 0)]);
    assert_eq!(link.counters().dropped_down, 3);
    link.config.up = true;
    link.send(20 * MS, 1000, 4);
    assert_eq!(drain(&mut link), [(31 * MS, 4)]);
}

#[test]
fn packets_above_the_mtu_are_counted_and_dropped() {
    let mut link = Link::new(LinkConfig::default(), 1);
    link.send(0, 1501, 0);
    link.send(0, 1500, 1);
    assert_eq!(drain(&mut link), [(0, 1)]);
    assert_eq!(link.counters().dropped_too_big, 1);
}

proptest! {
    /// Every packet is delivered or dropped for one stated reason, and time never runs backwards.
    #[test]
    fn packets_are_conserved(
        seed: u64,
        rate_kbps in prop::option::of(0u64..100_000),
        limit in 0usize..50,
        loss in 0.0f64..1.0,
        duplicate in 0.0f64..1.0,
        by_delay: bool,
        sizes in prop::collection::vec((0u64..3_000_000, 0usize..1600), 1..200),
    ) {
        let order = if by_delay { Order::ByDelay } else { Order::Kept };
        let mut link = Link::new(LinkConfig {
            rate_bps: rate_kbps.map(|k| k * 1000),
            queue: QueueLimit::Packets(limit),
            loss: Loss::Independent { probability: loss },
            duplicate,
            ..jittery(order)
        }, seed);
        let mut now = 0;
        let (mut arrivals, mut last) = (0u64, 0);
        for (n, &(gap, bytes)) in sizes.iter().enumerate() {
            now += gap;
            while link.deliver(now).is_some() {
                arrivals += 1;
            }
            link.send(now, bytes, n as u32);
        }
        for (at, _) in drain(&mut link) {
            prop_assert!(at >= last);
            last = at;
            arrivals += 1;
        }
        let c = *link.counters();
        prop_assert_eq!(c.delivered, arrivals);
        prop_assert_eq!(
            c.sent + c.duplicated,
            c.delivered + c.dropped_down + c.dropped_too_big + c.dropped_queue_full + c.dropped_lost
        );
        prop_assert_eq!(link.queued_packets() + link.under_way(), 0);
    }
}

#[test]
fn what_others_send_takes_room_and_time_and_never_arrives() {
    let config = LinkConfig {
        rate_bps: Some(8_000_000),
        queue: QueueLimit::Packets(2),
        ..LinkConfig::default()
    };
    let mut link = Link::new(config, 1);
    link.occupy(0, 1000);
    link.send(0, 1000, 'a');
    link.send(0, 1000, 'b');
    assert_eq!(link.counters().dropped_queue_full, 1);
    assert_eq!(link.deliver(1_999_999), None);
    assert_eq!(link.deliver(2_000_000), Some('a'));
    assert_eq!(link.next(), None);
}

#[test]
fn a_policer_lets_a_burst_pass_and_then_its_rate_and_delays_nothing() {
    let config = LinkConfig {
        rate_bps: Some(80_000_000),
        policer: Some(Policer {
            rate_bps: 8_000_000,
            burst_bytes: 20_000,
        }),
        queue: QueueLimit::Packets(5),
        ..LinkConfig::default()
    };
    assert_eq!(config.carries_bps(), 8_000_000);
    // 1000 bytes each 0.2 ms are five times what it lets pass: in 100 ms 20 of the burst and 100 more.
    let arrivals = stream_over(config, 1, 500, MS / 5);
    assert!((118..=121).contains(&arrivals.len()), "{}", arrivals.len());
    let first: Vec<u32> = arrivals.iter().take(20).map(|&(_, n)| n).collect();
    assert_eq!(first, (0..20).collect::<Vec<_>>());
    // What passed had an empty queue before it.
    let late = arrivals.iter().map(|&(at, n)| at - u64::from(n) * MS / 5);
    assert!(late.max() <= Some(MS / 10));
}

#[test]
fn what_waited_is_dropped_and_what_comes_then_is_not_held_up() {
    let config = LinkConfig {
        rate_bps: Some(1_000),
        ..LinkConfig::default()
    };
    let mut link = Link::new(config, 1);
    link.send(0, 1000, 0);
    link.send(0, 1000, 1);
    link.drop_queue();
    assert_eq!((link.queued_packets(), link.queued_bytes()), (0, 0));
    assert_eq!(link.counters().dropped_down, 2);
    link.config.rate_bps = Some(8_000_000);
    link.send(MS, 1000, 2);
    assert_eq!(drain(&mut link), [(2 * MS, 2)]);
}

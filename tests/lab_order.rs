//! Order and loss: what a UDP application sees, and that every gap is accounted for.

use mpt_core::control::ReorderStatus;
use mpt_core::control::order::PointStatus;
use net::limit::udp_limit_mbps;
use net::settings::{Side, far_end_is_hub};
use net::traffic::{Iperf, ping};
use net::{Daemon, Hosts, Meter, Settings, Shape};
use std::time::{Duration, Instant};

/// UDP at 90 % of the sum over paths 30 ms apart: nothing lost, nothing out of order.
#[test]
fn udp_arrives_complete_and_in_order() {
    let Some(_turn) = net::turn() else { return };
    let tunnel = Hosts::new(&[Shape::mbps(100.0), Shape::mbps(50.0).delay_ms(30)])
        .tunnel(&Settings::new().weights(&[100, 50]).reorder(1024, 300));
    let rate = 0.9 * udp_limit_mbps(&tunnel.hosts.rates(), 1200);
    // Twice the default of iperf3's own receive buffer, which a burst of 90 datagrams fills.
    let report = Iperf::udp(Side::B.inner_v4(), 4, rate, 1200)
        .words("-w 400K")
        .run(&tunnel.hosts.a, &tunnel.hosts.b);
    println!(
        "UDP at {rate:.1} Mbit/s: {} datagrams, {} lost, {} out of order, jitter {:.3} ms",
        report.datagrams, report.lost, report.out_of_order, report.jitter_ms
    );
    assert!(report.datagrams > 25_000, "{report:?}");
    assert_eq!(
        (report.lost, report.out_of_order),
        (0, 0),
        "{:#?}",
        tunnel.b.status()
    );
}

/// Paths 10 ms apart: what arrives out of order leaves in order, and `mpt-ctl reorder` says so, and what
/// window would have done. Its output stands in docs/reordering.md.
#[test]
fn order_is_measured_before_and_behind_the_window() {
    let Some(_turn) = net::turn() else { return };
    if far_end_is_hub() {
        // A hub tells nothing of the order of its peers' packets.
        return;
    }
    let tunnel = Hosts::new(&[
        Shape::mbps(50.0).delay_ms(5),
        Shape::mbps(25.0).delay_ms(15),
    ])
    .tunnel(&Settings::new().weights(&[50, 25]).reorder(1024, 300));
    let mut flow = Iperf::udp(Side::B.inner_v4(), 14, 50.0, 1200)
        .words("-w 400K")
        .start(&tunnel.hosts.a, &tunnel.hosts.b);
    // An interval of ten seconds has ended.
    std::thread::sleep(Duration::from_secs(12));
    println!("{}", tunnel.b.ctl_text(&["reorder"]));
    let json = tunnel.b.ctl(&["reorder"]);
    assert!(flow.is_running());
    assert_eq!(flow.finish().out_of_order, 0);
    let reorder: ReorderStatus = serde_json::from_value(json).expect("an answer to reorder");
    // Worked out from delays and rates, not from what was seen.
    let needed = reorder.window_needed.expect("paths that carry traffic");
    assert!((25..=75).contains(&needed), "{needed}");
    let order = reorder.order.expect("order, in the answer to reorder");
    let lately = |point: &PointStatus| point.last_interval.clone().expect("an interval has ended");
    let (arriving, leaving) = (lately(&order.arriving), lately(&order.leaving));
    assert!(arriving.reordering.ratio > 0.2, "{arriving:?}");
    assert!(arriving.density.entropy_nats > 0.5, "{arriving:?}");
    assert_eq!(leaving.reordering.reordered, 0, "{leaving:?}");
    // 10 ms at 50 Mbit/s of 1244 bytes are fifty packets, two thirds of them on the fast path.
    assert!((25..=75).contains(&arriving.enough.window), "{arriving:?}");
    assert!(
        (8_000..=12_000).contains(&arriving.enough.delay_us),
        "{arriving:?}"
    );
    for (name, path) in &order.paths {
        assert_eq!(path.since_start.reordering.reordered, 0, "{name}");
    }
}

/// Loss of 0.1 % on each path: no stall beyond `max_buffer_delay`, and the four ends of a gap add up
/// to the gaps seen.
#[test]
fn loss_stalls_nothing_and_every_gap_is_counted() {
    let Some(_turn) = net::turn() else { return };
    let shape = |rate, delay| Shape::mbps(rate).delay_ms(delay).loss(0.1);
    let tunnel = Hosts::new(&[shape(100.0, 5), shape(50.0, 15)])
        .tunnel(&Settings::new().weights(&[100, 50]).reorder(1024, 300));
    let mut flow = Iperf::tcp(Side::B.inner_v4(), 12).start(&tunnel.hosts.a, &tunnel.hosts.b);
    std::thread::sleep(Duration::from_secs(1));
    let meter = Meter::start(tunnel.b.id(), "mpt0");
    let from = Instant::now();
    std::thread::sleep(Duration::from_secs(10));
    let to = Instant::now();
    assert!(flow.is_running());
    let silence = meter.finish().longest_silence(from, to);
    let report = flow.finish();
    let reorder = settled(&tunnel.b);
    println!(
        "loss 0.1 %: {:.1} Mbit/s, longest silence {silence:?}; gaps seen {}: filled {}, inferred \
         lost {}, timed out {}, overflowed {}; held p50 {} us, p99 {} us, max {} us",
        report.steady_mbps(),
        reorder.gaps_seen,
        reorder.gaps_filled,
        reorder.gaps_inferred_lost,
        reorder.gaps_timed_out,
        reorder.gaps_overflowed,
        reorder.hold_us.p50,
        reorder.hold_us.p99,
        reorder.hold_us.max
    );
    assert!(
        silence <= Duration::from_millis(310),
        "a stall of {silence:?}"
    );
    // The wait's granularity is a timer's, not a packet's.
    assert!(reorder.hold_us.max <= 310_000, "{reorder:?}");
    let ended = reorder.gaps_filled
        + reorder.gaps_recovered
        + reorder.gaps_inferred_lost
        + reorder.gaps_timed_out
        + reorder.gaps_overflowed;
    assert_eq!(ended + reorder.gaps_open, reorder.gaps_seen, "{reorder:?}");
    assert!(reorder.gaps_seen > reorder.gaps_filled, "{reorder:?}");
}

/// Four TCP connections over links that lose: their segments do not wait for each other, and their numbers leave in order.
#[test]
fn what_one_connection_misses_holds_up_no_other() {
    let Some(_turn) = net::turn() else { return };
    let shape = |rate, delay| Shape::mbps(rate).delay_ms(delay).loss(1.0);
    let tunnel = Hosts::new(&[shape(20.0, 10), shape(10.0, 30)]).tunnel(&Settings::new());
    let report = Iperf::tcp(Side::B.inner_v4(), 8)
        .words("-P 4")
        .start(&tunnel.hosts.a, &tunnel.hosts.b)
        .finish();
    let reorder = settled(&tunnel.b);
    println!(
        "{:.1} Mbit/s; {} of {} packets waited for no others; held p50 {} us, p99 {} us",
        report.steady_mbps(),
        reorder.passed,
        reorder.in_order + reorder.reordered + reorder.late,
        reorder.hold_us.p50,
        reorder.hold_us.p99
    );
    assert!(reorder.passed > 500, "{reorder:?}");
    if !far_end_is_hub() {
        let json = tunnel.b.ctl(&["reorder"]);
        let reorder: ReorderStatus = serde_json::from_value(json).expect("an answer to reorder");
        let order = reorder.order.expect("order, in the answer to reorder");
        let reordered = order.leaving.since_start.reordering.reordered;
        assert!(
            reordered <= reorder.late,
            "{reordered}, {} late",
            reorder.late
        );
    }
}

/// The reorder window's counters once nothing is waited for any more.
fn settled(daemon: &Daemon) -> ReorderStatus {
    net::wait_for("an empty reorder window", Duration::from_secs(3), || {
        let reorder = daemon.status().reorder;
        (reorder.held == 0).then_some(reorder)
    })
}

/// Links that duplicate, reorder and lose: each packet is delivered at most once.
#[test]
fn nothing_is_delivered_twice() {
    let Some(_turn) = net::turn() else { return };
    let shape = |delay| {
        Shape::mbps(50.0)
            .delay_ms(delay)
            .jitter_ms(3)
            .loss(1.0)
            .netem("duplicate 20%")
    };
    let tunnel = Hosts::new(&[shape(5), shape(12)])
        .tunnel(&Settings::new().weights(&[1, 1]).reorder(256, 100));
    let seen = ping(&tunnel.hosts.a, Side::B.inner_v4(), 400, 10, "");
    let reorder = settled(&tunnel.b);
    println!("{seen:?}, {} duplicates dropped", reorder.duplicates);
    assert_eq!(seen.duplicates, 0, "{reorder:?}");
    assert!(reorder.duplicates > 20, "{reorder:?}");

    let report =
        Iperf::udp(Side::B.inner_v4(), 4, 20.0, 1200).run(&tunnel.hosts.a, &tunnel.hosts.b);
    // iperf3 counts a duplicate as out of order.
    println!(
        "UDP: {} datagrams, {} out of order",
        report.datagrams, report.out_of_order
    );
    let b = tunnel.b.status();
    let a = tunnel.a.status();
    assert!(b.tunnel.rx_packets <= a.tunnel.tx_packets, "{a:#?} {b:#?}");
    assert_eq!(report.out_of_order, 0, "{b:#?}");
}

/// A lone packet is not held: the tunnel adds no delay while nothing is missing.
#[test]
fn an_idle_tunnel_adds_no_delay() {
    let Some(_turn) = net::turn() else { return };
    let shape = Shape::mbps(100.0).delay_ms(10);
    let tunnel = Hosts::new(&[shape.clone(), shape]).tunnel(&Settings::new());
    let (raw, inner) = (&tunnel.hosts.links[0].address_b, Side::B.inner_v4());
    let bare = ping(&tunnel.hosts.a, raw, 20, 50, "");
    let tunnelled = ping(&tunnel.hosts.a, inner, 20, 50, "");
    println!(
        "ping: bare {:.2} ms, tunnelled {:.2} ms",
        bare.mean_ms, tunnelled.mean_ms
    );
    assert_eq!(tunnelled.received, 20);
    assert!(tunnelled.max_ms < bare.min_ms + 1.0, "{tunnelled:?}");
}

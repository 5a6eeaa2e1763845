//! The links themselves, before any tunnel: what the other lab tests take for granted.

use net::limit::raw_limit_mbps;
use net::settings::Side;
use net::traffic::{Iperf, ping};
use net::transfer::{Source, Transport};
use net::{Family, Hosts, Place, Settings, Shape, kernel_gre};

/// A link of 100 Mbit/s carries 95.6 of TCP payload, whatever else the machine does.
#[test]
fn a_link_carries_its_rate() {
    let Some(_turn) = net::turn() else { return };
    for family in [Family::V4, Family::V6] {
        let hosts = Hosts::with_families(&[(family, Shape::mbps(100.0).delay_ms(5))]);
        let report = Iperf::tcp(&hosts.links[0].address_b, 8).run(&hosts.a, &hosts.b);
        let (steady, limit) = (report.steady_mbps(), raw_limit_mbps(100.0, family));
        println!("raw {family:?}: {steady:.1} Mbit/s, limit {limit:.1}");
        assert!(steady > 0.99 * limit && steady < 1.01 * limit, "{report:?}");
    }
}

/// Delay is what was asked for, in each direction; black holes and cuts do what they say.
#[test]
fn a_link_delays_and_breaks() {
    let Some(_turn) = net::turn() else { return };
    let shape = Shape::mbps(100.0).delay_ms(10);
    let hosts = Hosts::new(&[shape.clone(), shape.clone().loss(10.0)]);
    let target = |link: usize| hosts.links[link].address_b.as_str();

    let seen = ping(&hosts.a, target(0), 10, 100, "");
    // The least: the first one waited for the neighbour's address as well.
    assert!((seen.min_ms - 20.0).abs() < 0.1, "{seen:?}");
    let seen = ping(&hosts.a, target(1), 200, 10, "");
    assert!((10..80).contains(&(seen.sent - seen.received)), "{seen:?}");

    hosts.reshape(0, &shape.clone().loss(100.0));
    assert_eq!(ping(&hosts.a, target(0), 3, 100, "").received, 0);
    hosts.reshape(0, &shape);
    assert_eq!(ping(&hosts.a, target(0), 3, 100, "").received, 3);
    hosts.links[0].down(&hosts.a);
    assert_eq!(ping(&hosts.a, target(0), 3, 100, "").received, 0);
    hosts.links[0].up(&hosts.a);
    assert_eq!(ping(&hosts.a, target(0), 3, 100, "").received, 3);
}

/// Not even jitter that would let packets arrive before they were sent makes netem forget a rate, which
/// needs a clock that is not near zero.
#[test]
fn a_link_keeps_its_rate_after_wide_jitter() {
    let Some(_turn) = net::turn() else { return };
    let shape = Shape::mbps(20.0);
    let hosts = Hosts::new(&[shape.clone().delay_ms(1).normal_jitter_ms(900)]);
    let target = hosts.links[0].address_b.as_str();
    // Behind a rate packets keep their order: each waits for the latest of 20, 1.7 s on average, there and back.
    let seen = ping(&hosts.a, target, 20, 10, "-W 10");
    assert!(seen.received > 0, "{seen:?}");
    hosts.reshape(0, &shape);
    let report = Iperf::tcp(target, 8).run(&hosts.a, &hosts.b);
    let (steady, limit) = (report.steady_mbps(), raw_limit_mbps(20.0, Family::V4));
    assert!(steady > 0.97 * limit && steady < 1.01 * limit, "{report:?}");
}

/// Netem behind the wire delays and loses as netem on the sender's egress does, and counts it.
#[test]
fn a_link_can_be_shaped_at_either_place() {
    let Some(_turn) = net::turn() else { return };
    for place in [Place::Near, Place::Far] {
        let there = Shape::mbps(20.0).delay_ms(20).burst_loss(10.0, 4.0);
        let back = Shape::mbps(10.0).delay_ms(30).normal_jitter_ms(2);
        let hosts = Hosts::with_directions(&[[there, back]], place);
        let link = &hosts.links[0];
        let seen = ping(&hosts.a, &link.address_b, 400, 10, "");
        println!("{place:?}: {seen:?}");
        assert!((seen.mean_ms - 50.0).abs() < 2.0 && seen.max_ms - seen.min_ms > 4.0);
        let (lost, dropped) = (seen.sent - seen.received, link.counters(&hosts.a).dropped);
        assert!((3..160).contains(&lost), "{lost} lost");
        // Besides pings neighbours ask for each other's addresses, and may be asked twice.
        assert!(
            dropped.abs_diff(u64::from(lost)) <= 3,
            "{dropped} dropped, {lost} lost"
        );
        assert_eq!(link.counters(&hosts.b).dropped, 0);
    }
}

/// A train of the daemon's is cut before it comes to the link, as at any real one.
#[test]
fn a_link_takes_packets_one_by_one() {
    let Some(_turn) = net::turn() else { return };
    let settings = Settings::new().tunnel("offload = \"on\"");
    let tunnel = Hosts::new(&[Shape::mbps(50.0).delay_ms(5)]).tunnel(&settings);
    let (a, b) = (&tunnel.hosts.a, &tunnel.hosts.b);
    let source = Source::open(a, Side::A.inner_v4(), Transport::Tcp, "cubic");
    let took = source.fetch(b, 1_000_000);
    let (passed, sent) = (
        tunnel.hosts.links[0].counters(a),
        tunnel.a.status().paths[0].tx_packets,
    );
    println!("{sent} packets in {took:?}: {passed:?}");
    assert!(sent > 700 && passed.sent_packets.abs_diff(sent) < 20);
}

/// The kernel's GRE over FOU at both ends, as a check of the peer that lab_interop gives MPT.
#[test]
fn the_kernel_talks_gre_in_udp_to_itself() {
    let Some(_turn) = net::turn() else { return };
    for family in [Family::V4, Family::V6] {
        let hosts = Hosts::with_families(&[(family, Shape::mbps(100.0).delay_ms(2))]);
        kernel_gre::set_up(&hosts.a, Side::A, &hosts.links[0]);
        kernel_gre::set_up(&hosts.b, Side::B, &hosts.links[0]);
        for inner in [Side::B.inner_v4(), Side::B.inner_v6()] {
            assert_eq!(ping(&hosts.a, inner, 3, 100, "").received, 3);
        }
        let report = Iperf::tcp(Side::B.inner_v4(), 7).run(&hosts.a, &hosts.b);
        println!(
            "kernel GRE over {family:?}: {:.1} Mbit/s",
            report.steady_mbps()
        );
        assert!(report.steady_mbps() > 85.0, "{report:?}");
    }
}

//! The sum of the links, as one TCP CUBIC flow sees it: at least 97 to 99 % of the formula's limit
//! in the steady state (mean of the last six one-second intervals).

use net::settings::Side;
use net::traffic::{Iperf, Report};
use net::{Family, Hosts, Settings, Shape, Tunnel};

/// One flow from A to B for this many seconds; prints its steady state beside the limit.
fn flow(what: &str, tunnel: &Tunnel, inner: Family, seconds: u32) -> (f64, f64, Report) {
    let target = match inner {
        Family::V4 => Side::B.inner_v4(),
        Family::V6 => Side::B.inner_v6(),
    };
    let report = Iperf::tcp(target, seconds)
        .congestion("cubic")
        .run(&tunnel.hosts.a, &tunnel.hosts.b);
    let (steady, limit) = (report.steady_mbps(), tunnel.limit_mbps(inner));
    let share = steady / limit * 100.0;
    println!(
        "{what}: {steady:.1} Mbit/s, {share:.1} % of {limit:.1}, {} retransmitted; each second: {}",
        report.retransmits,
        report.intervals_text()
    );
    (steady, limit, report)
}

/// The tunnel of Al-Imareen and Lencse's measurements: 99 % of 139.9 Mbit/s; sealed, of 137.7. The queues hold what CUBIC
/// adds in 16 seconds: with netem's 1000 packets it overflows them now and then within the seconds that count. CUBIC leaves
/// slow start by chance at one window or at half of it, and has the sum after five seconds or after eight.
#[test]
fn unequal_paths_50_ms_apart_add_up() {
    let Some(_turn) = net::turn() else { return };
    let first = Shape::mbps(100.0).queue(4000);
    let second = Shape::mbps(50.0).delay_ms(50).queue(4000);
    let tunnel = Hosts::new(&[first, second])
        .tunnel(&Settings::new().weights(&[100, 50]).reorder(1024, 300));
    let (steady, limit, _) = flow("100 + 50 Mbit/s, 50 ms", &tunnel, Family::V4, 16);
    assert!(steady >= 0.991 * limit, "{:#?}", tunnel.b.status());
}

#[test]
fn two_equal_paths_add_up() {
    let Some(_turn) = net::turn() else { return };
    let shape = Shape::mbps(25.0).delay_ms(5);
    let tunnel = Hosts::new(&[shape.clone(), shape])
        .tunnel(&Settings::new().weights(&[1, 1]).reorder(1024, 300));
    let (steady, limit, _) = flow("2 x 25 Mbit/s", &tunnel, Family::V4, 8);
    assert!(steady >= 0.985 * limit, "{:#?}", tunnel.b.status());
}

#[test]
fn four_paths_of_different_delay_add_up() {
    let Some(_turn) = net::turn() else { return };
    let shapes = [5, 15, 25, 35].map(|delay| Shape::mbps(12.0).delay_ms(delay));
    let tunnel =
        Hosts::new(&shapes).tunnel(&Settings::new().weights(&[1, 1, 1, 1]).reorder(1024, 300));
    let (steady, limit, _) = flow("4 x 12 Mbit/s, 5 to 35 ms", &tunnel, Family::V4, 10);
    assert!(steady >= 0.97 * limit, "{:#?}", tunnel.b.status());
}

/// Mbit/s of each path where families are the matter: the lab pays by the packet.
const FAMILIES_RATE: f64 = 12.0;

/// Outer families of the two paths, and the inner one: 97 % of the limit.
fn families_add_up(what: &str, outer: [Family; 2], inner: Family) {
    let Some(_turn) = net::turn() else { return };
    let shape = Shape::mbps(FAMILIES_RATE).delay_ms(5);
    let tunnel = Hosts::with_families(&outer.map(|family| (family, shape.clone())))
        .tunnel(&Settings::new().weights(&[1, 1]).reorder(1024, 300));
    let (steady, limit, _) = flow(what, &tunnel, inner, 7);
    assert!(steady >= 0.97 * limit, "{:#?}", tunnel.b.status());
}

#[test]
fn ipv4_inside_ipv6() {
    families_add_up("IPv4 inside IPv6, 2 x 12", [Family::V6; 2], Family::V4);
}

#[test]
fn ipv6_inside_ipv4() {
    families_add_up("IPv6 inside IPv4, 2 x 12", [Family::V4; 2], Family::V6);
}

#[test]
fn one_path_of_each_family() {
    families_add_up(
        "over IPv4 and IPv6, 2 x 12",
        [Family::V4, Family::V6],
        Family::V4,
    );
}

/// Two conversations of the two families at once, over one path of each family.
#[test]
fn both_families_inside_at_once() {
    let Some(_turn) = net::turn() else { return };
    let shape = Shape::mbps(FAMILIES_RATE).delay_ms(5);
    let tunnel = Hosts::with_families(&[(Family::V4, shape.clone()), (Family::V6, shape)])
        .tunnel(&Settings::new().weights(&[1, 1]).reorder(1024, 300));
    let (a, b) = (&tunnel.hosts.a, &tunnel.hosts.b);
    let first = Iperf::tcp(Side::B.inner_v4(), 9).start(a, b);
    let second = Iperf::tcp(Side::B.inner_v6(), 9).start(a, b);
    let (first, second) = (first.finish().steady_mbps(), second.finish().steady_mbps());
    let limit = tunnel.limit_mbps(Family::V6);
    println!("IPv4 {first:.1} and IPv6 {second:.1} Mbit/s together, limit {limit:.1}");
    assert!(first + second >= 0.95 * limit, "{:#?}", tunnel.b.status());
}

/// Without a reorder window the flow collapses, as Fig. 5 of the paper shows. Today's TCP stands reordering of a packet
/// in eleven better than that of 2019; of a packet in three it stands nothing.
#[test]
fn without_a_window_the_sum_collapses() {
    let Some(_turn) = net::turn() else { return };
    let second = Shape::mbps(50.0).delay_ms(50);
    let tunnel = Hosts::new(&[Shape::mbps(100.0), second])
        .tunnel(&Settings::new().weights(&[100, 50]).reorder(0, 300));
    let what = "window 0, 100 + 50 Mbit/s, 50 ms";
    let (steady, limit, _) = flow(what, &tunnel, Family::V4, 6);
    assert!(steady < 35.0, "no collapse: {steady:.1} of {limit:.1}");
}

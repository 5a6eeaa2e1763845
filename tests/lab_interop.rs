//! The kernel's GRE over FOU as peer, over one path, both directions and both families.
//!
//! docs/interoperability.md gives the commands; [`net::kernel_gre`] runs the same.

use net::settings::Side;
use net::traffic::{Iperf, ping};
use net::{Daemon, Family, Hosts, Settings, Shape, kernel_gre};

fn kernel_peer(family: Family) {
    let Some(_turn) = net::turn() else { return };
    let shape = Shape::mbps(25.0).delay_ms(5);
    let hosts = Hosts::with_families(&[(family, shape)]);
    let link = &hosts.links[0];
    kernel_gre::set_up(&hosts.b, Side::B, link);
    let daemon = Daemon::start(&hosts.a, "mpt0", |socket| {
        Settings::new()
            .plain()
            .reorder(1024, 300)
            .toml(Side::A, "mpt0", &[link], socket)
    });
    for inner in [Side::B.inner_v4(), Side::B.inner_v6()] {
        let seen = ping(&hosts.a, inner, 5, 100, "");
        assert!(
            seen.received >= 4,
            "{inner}: {seen:?} {:#?}",
            daemon.status()
        );
    }
    let seen = ping(&hosts.b, Side::A.inner_v4(), 5, 100, "");
    assert_eq!(seen.received, 5, "{:#?}", daemon.status());

    let limit = net::goodput_limit_mbps(&hosts.rates(), daemon.status().tunnel.mtu, Family::V4);
    for (what, reverse) in [("to the kernel", false), ("from the kernel", true)] {
        let run = Iperf::tcp(Side::B.inner_v4(), 8);
        let run = if reverse { run.reverse() } else { run };
        let report = run.run(&hosts.a, &hosts.b);
        println!(
            "{family:?} {what}: {:.1} of {limit:.1} Mbit/s",
            report.steady_mbps()
        );
        assert!(
            report.steady_mbps() >= 0.97 * limit,
            "{:#?}",
            daemon.status()
        );
    }
    println!("{}", daemon.status_text());
}

#[test]
fn kernel_gre_over_ipv4() {
    kernel_peer(Family::V4);
}

#[test]
fn kernel_gre_over_ipv6() {
    kernel_peer(Family::V6);
}

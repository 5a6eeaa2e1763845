//! A sealed tunnel over links with delays: new keys come while traffic goes.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use mpt_core::control::Protection;
use net::settings::{Side, far_end_is_hub};
use net::traffic::Iperf;
use net::{Daemon, Hosts, Link, Settings, Shape, Tunnel};

/// Longer than keys are used, and shorter than if the end did not act whose turn it is.
const SECONDS: u32 = 128;

/// Keys are replaced after two minutes, once: no datagram is lost, none comes out of order, and none waits longer
/// than the difference of the paths' delays explains.
#[test]
fn new_keys_under_load_lose_and_delay_nothing() {
    let Some(_turn) = net::turn() else { return };
    let hosts = Hosts::new(&[
        Shape::mbps(100.0).delay_ms(10),
        Shape::mbps(50.0).delay_ms(30),
    ]);
    let links: Vec<&Link> = hosts.links.iter().collect();
    let settings = Settings::new().sealed().weights(&[2, 1]);
    let verbose = ["sh", "-c", "exec \"$0\" --log debug \"$@\""];
    let start = |host, side| {
        Daemon::start_by(host, &verbose, "mpt0", |socket| {
            settings.toml(side, "mpt0", &links, socket)
        })
    };
    let (a, b) = (start(&hosts.a, Side::A), start(&hosts.b, Side::B));
    let tunnel = Tunnel { a, b, hosts };
    tunnel.await_paths();
    let keys = |daemon: &Daemon| daemon.log().matches("new keys, for").count();
    // A hub says nothing of its peers' keys.
    let teller = match far_end_is_hub() {
        true => &tunnel.a,
        false => &tunnel.b,
    };
    let before = keys(teller);
    let report = Iperf::udp(Side::B.inner_v4(), SECONDS, 2.0, 1200)
        .words("-w 400K")
        .run(&tunnel.hosts.a, &tunnel.hosts.b);
    let replaced = keys(teller) - before;
    let status = tunnel.b.status();
    println!(
        "{} datagrams in {SECONDS} s, {} lost, {} out of order; keys replaced {replaced} times; held for {} us at most",
        report.datagrams, report.lost, report.out_of_order, status.reorder.hold_us.max
    );
    assert_eq!(replaced, 1, "{}\n{}", tunnel.a.log(), tunnel.b.log());
    assert_ne!(status.tunnel.protection, Protection::Waiting);
    assert_eq!((report.lost, report.out_of_order), (0, 0));
    assert!(status.reorder.hold_us.max <= 30_000);
    for kind in ["forged", "replayed", "unknown_session", "not_sealed"] {
        assert_eq!(status.tunnel.drops[kind], 0, "{kind}");
    }
}

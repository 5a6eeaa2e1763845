//! Classes over links with rate, delay and loss.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use net::settings::{Side, far_end_is_hub};
use net::traffic::Iperf;
use net::{Daemon, Hosts, Link, Settings, Shape, Tunnel, ping};

const CALLS: &str = "\n[[classes]]\nname = \"calls\"\nmatch = { dscp = [\"EF\"] }\npolicy = \"redundant\"\npriority = \"high\"\n";

/// A call of 50 packets a second over two links that each lose 3 %, beside a download: at most one in a thousand
/// is lost each way, and of a hundred round trips the longest is the better link's and 10 ms more each way.
#[test]
fn a_call_over_two_links_that_lose() {
    let Some(_turn) = net::turn() else { return };
    if far_end_is_hub() {
        // A hub has no classes, and the answers would be of none.
        return;
    }
    let shape = Shape::mbps(50.0).delay_ms(20).loss(3.0);
    let hosts = Hosts::new(&[shape.clone(), shape]);
    let links: Vec<&Link> = hosts.links.iter().collect();
    let settings = Settings::new().sealed();
    let start = |host, side| {
        Daemon::start(host, "mpt0", |socket| {
            settings.toml(side, "mpt0", &links, socket) + CALLS
        })
    };
    let (a, b) = (start(&hosts.a, Side::A), start(&hosts.b, Side::B));
    let tunnel = Tunnel { a, b, hosts };
    tunnel.await_paths();
    let bulk = Iperf::tcp(Side::B.inner_v4(), 14).start(&tunnel.hosts.a, &tunnel.hosts.b);
    // The first seconds, in which the paths are learnt.
    std::thread::sleep(std::time::Duration::from_secs(4));
    let (host, target) = (&tunnel.hosts.a, Side::B.inner_v4());
    let (sent, words) = (400, "-Q 0xb8 -s 172");
    let mut times = ping::round_trips_with_ms(host, target, sent, 20, words);
    let bulk = bulk.finish();
    times.sort_by(f64::total_cmp);
    let p99 = times[times.len() * 99 / 100];
    let lost = sent as usize - times.len();
    println!(
        "of {sent} round trips {lost} lost, p50 {:.1}, p99 {p99:.1} ms, beside {:.1} Mbit/s",
        times[times.len() / 2],
        bulk.steady_mbps()
    );
    println!("{}", tunnel.a.status_text());
    // One in a thousand each way would be 0.8; the simulation counts more.
    assert!(lost <= 1, "{lost}");
    assert!(p99 <= 2.0 * (20.0 + 10.0), "{p99}");
}

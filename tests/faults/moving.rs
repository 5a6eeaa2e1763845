//! A host whose uplinks get another address again and again, under load.

use std::time::{Duration, Instant};

use net::settings::Side;
use net::traffic::Iperf;
use net::{Bench, Files, Shape, Uplinks};

/// Every 5 s for 40 s; `MPT_TEST_MOVING=600` (seconds) asks for a change every 20 s for this long.
#[test]
fn a_host_that_changes_its_addresses_loses_no_connection() {
    let Some(_turn) = net::turn() else { return };
    let asked: Option<u64> = std::env::var("MPT_TEST_MOVING")
        .ok()
        .and_then(|text| text.parse().ok());
    let (lasts, every) = match asked {
        Some(seconds) => (Duration::from_secs(seconds), Duration::from_secs(20)),
        None => (Duration::from_secs(40), Duration::from_secs(5)),
    };
    // Slow, since nothing here depends on speed and the lab pays by the packet.
    let shape = |delay| Shape::mbps(2.0).delay_ms(delay).buffer(40);
    let net = Uplinks::with_shapes([&shape(10), &shape(25)]);
    let bench = Bench::new(net.tunnel(&Files::sealed()));
    assert!(bench.calm(Duration::from_secs(5)));
    let pair = &bench.pair;
    let flows = [
        Iperf::tcp(Side::B.inner_v4(), lasts.as_secs() as u32)
            .start(&pair.net.client, &pair.net.server),
        Iperf::tcp(Side::B.inner_v4(), lasts.as_secs() as u32)
            .reverse()
            .start(&pair.net.client, &pair.net.server),
    ];
    let start = Instant::now();
    let mut host = 20;
    while start.elapsed() + every < lasts {
        std::thread::sleep(every);
        host = if host < 200 { host + 1 } else { 20 };
        for uplink in [0, 1] {
            pair.net.remove_address(uplink);
            pair.net.add_address(uplink, host);
        }
    }
    let reports = flows.map(net::traffic::Flow::finish);
    let seen = bench.echo().seen(start, Instant::now());
    let changes = host - 20;
    println!(
        "{changes} changes of both addresses: longest stall of a 10 ms ping {} ms, {} of {} lost; {:.1} and {:.1} Mbit/s",
        seen.stall.as_millis(),
        seen.lost,
        seen.sent,
        reports[0].steady_mbps(),
        reports[1].steady_mbps()
    );
    // A second is what netlink's word and a rebound socket may take.
    assert!(seen.stall <= Duration::from_millis(1500), "{seen:?}");
    for report in &reports {
        let silent = report
            .intervals_mbps
            .iter()
            .filter(|mbps| **mbps < 0.01)
            .count();
        assert!(
            report.steady_mbps() > 0.5 && silent <= changes as usize,
            "{}",
            report.intervals_text()
        );
    }
}

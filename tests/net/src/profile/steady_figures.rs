//! How soon a flow has its rate, and how it stands the collapse of a link.

use std::time::{Duration, Instant};

use crate::limit::goodput_limit_mbps;
use crate::link::Family;
use crate::meter::{Meter, Record};
use crate::profile::figure::{Asked, Figure, Row};
use crate::profile::measure::{Variant, scale};
use crate::profile::{Line, SECONDS};
use crate::settings::Side;
use crate::shape::Shape;
use crate::topology::{TUNNEL, Tunnel};
use crate::traffic::Iperf;

/// Time over which a rate is taken: a second's worth would hide a stall.
const WINDOW: Duration = Duration::from_millis(250);

/// The first seconds of a flow.
pub const TRANSIENT: Figure = Figure {
    name: "transient",
    title: "time to 90 % of the steady rate, 100 Mbit/s + 50 Mbit/s with 50 ms more delay",
    take: transient,
};

/// A link falls to a fifth of its rate.
pub const COLLAPSE: Figure = Figure {
    name: "collapse",
    title: "one of 30 + 30 Mbit/s falls to a fifth after 8 s and is back after 14 s",
    take: collapse,
};

fn transient(variant: &Variant) -> Vec<Row> {
    let mut rows = Vec::new();
    for (what, nearest) in [("1 and 51 ms", 1), ("20 and 70 ms", 20)] {
        let lines = [
            Line::new(Shape::mbps(100.0).delay_ms(nearest)),
            Line::new(Shape::mbps(50.0).delay_ms(nearest + 50)),
        ];
        let tunnel = variant.tunnel(&lines);
        let record = Meter::start(tunnel.b.id(), TUNNEL);
        let flow = Iperf::tcp(Side::B.inner_v4(), 12)
            .congestion("cubic")
            .start(&tunnel.hosts.a, &tunnel.hosts.b);
        let started = Instant::now();
        let report = flow.finish();
        let record = record.finish();
        let steady = report.steady_mbps();
        let share = share_of_packets(&tunnel);
        let reached = reached_s(&record, started, 0.9 * steady / share);
        rows.push(Row::told(format!("{what}: steady rate"), steady, "Mbit/s"));
        let reached = Row::maybe(
            format!("{what}: 90 % of it"),
            reached,
            "s",
            Asked::AtMost(2.0),
        );
        rows.push(reached);
    }
    rows
}

/// Payload in a full inner packet, as a share of it: the meter counts packets.
fn share_of_packets(tunnel: &Tunnel) -> f64 {
    let mtu = f64::from(tunnel.a.status().tunnel.mtu);
    (mtu - 52.0) / mtu
}

/// Seconds from `since` to the end of the first window with at least `mbps`.
fn reached_s(record: &Record, since: Instant, mbps: f64) -> Option<f64> {
    let at = record.first_reaching(since, WINDOW, mbps)?;
    Some((at + WINDOW - since).as_secs_f64())
}

fn collapse(variant: &Variant) -> Vec<Row> {
    let lines = [20, 30].map(|delay| Line::new(Shape::mbps(30.0).delay_ms(delay)));
    let tunnel = variant.tunnel(&lines);
    let (a, b) = (&tunnel.hosts.a, &tunnel.hosts.b);
    let record = Meter::start(tunnel.b.id(), TUNNEL);
    let flow = Iperf::tcp(Side::B.inner_v4(), SECONDS)
        .congestion("cubic")
        .start(a, b);
    let started = Instant::now();
    let change = |at: u64, share| {
        std::thread::sleep(Duration::from_secs(at).saturating_sub(started.elapsed()));
        let moment = Instant::now();
        scale(&tunnel.hosts.links[1], &lines[1], a, b, share);
        moment
    };
    let fell = change(8, 0.2);
    let back = change(14, 1.0);
    let report = flow.finish();
    let record = record.finish();
    let mtu = tunnel.a.status().tunnel.mtu;
    let optimum = |second: f64| {
        let rates = [(30.0, Family::V4), (second, Family::V4)];
        goodput_limit_mbps(&rates, mtu, Family::V4) / share_of_packets(&tunnel)
    };
    let silence = record.longest_silence(fell, back).as_secs_f64() * 1e3;
    let settled = reached_s(
        &record,
        fell + Duration::from_millis(500),
        0.9 * optimum(6.0),
    );
    let mean_after = record.rx_mbps(fell + Duration::from_secs(3), back);
    let returned = reached_s(&record, back, 0.9 * optimum(30.0));
    println!("each second: {}", report.intervals_text());
    vec![
        Row::new(
            "longest stall after the fall",
            silence,
            "ms",
            Asked::AtMost(300.0),
        ),
        // What the link had queued passes for half a second after the fall.
        Row::maybe(
            "90 % of the new optimum, after 0.5 s +",
            settled,
            "s",
            Asked::AtMost(2.5),
        ),
        Row::new(
            "from the third second on, of the new optimum",
            mean_after / optimum(6.0),
            "",
            Asked::AtLeast(0.9),
        ),
        Row::maybe(
            "90 % of the old optimum, after the return",
            returned,
            "s",
            Asked::Reported,
        ),
    ]
}

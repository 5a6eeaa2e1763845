//! Flows beside each other: voice beside bulk, the tunnel beside others, many, and both ways.

use std::time::Duration;

use crate::namespace::Namespace;
use crate::ping::round_trips_ms;
use crate::profile::Line;
use crate::profile::figure::{Asked, Figure, Row};
use crate::profile::measure::{Variant, together};
use crate::settings::Side;
use crate::shape::Shape;
use crate::stream::{Stream, percentile};
use crate::topology::Tunnel;
use crate::traffic::{Iperf, Report};

/// Voice and ping beside a bulk flow.
pub const REAL_TIME: Figure = Figure {
    name: "real-time",
    title: "voice (50 datagrams a second, one way) and ping beside a bulk flow over 30 Mbit/s of \
            20 ms and 30 ms, queues of 1000 packets",
    take: real_time,
};

/// The tunnel's flow beside another, and its flows beside each other.
pub const FAIRNESS: Figure = Figure {
    name: "fairness",
    title: "a flow in the tunnel and a raw CUBIC flow on one link of 50 Mbit/s, 20 ms, whose queue holds what \
            is under way in a round trip; four flows in the tunnel",
    take: fairness,
};

/// Reversed, both ways, many.
pub const DIRECTIONS: Figure = Figure {
    name: "directions",
    title: "the other direction, both at once, 1 and 16 flows, over 40/15 + 20/40 (Mbit/s, ms)",
    take: directions,
};

fn cubic(seconds: u32) -> Iperf {
    Iperf::tcp(Side::B.inner_v4(), seconds).congestion("cubic")
}

fn ends(tunnel: &Tunnel) -> (&Namespace, &Namespace) {
    (&tunnel.hosts.a, &tunnel.hosts.b)
}

fn real_time(variant: &Variant) -> Vec<Row> {
    let lines = [20, 30].map(|delay| Line::new(Shape::mbps(30.0).delay_ms(delay)));
    let tunnel = variant.tunnel(&lines);
    let (base_ms, mut rows) = (20.0, Vec::new());
    let mut both = |what: &str, wait: u64, seconds: u64, slack: f64| {
        let (a, b) = ends(&tunnel);
        // The first three seconds of the bulk flow are its own.
        std::thread::sleep(Duration::from_secs(wait));
        let time = Duration::from_secs(seconds);
        let voice = Stream::voice(Side::B.inner_v4(), 6000, time).start(a, b);
        let pings = round_trips_ms(a, Side::B.inner_v4(), seconds as u32 * 20, 50);
        let voice = voice.finish();
        let delays = voice.delays_ms(Duration::ZERO);
        let lost = voice.lost() as f64 / voice.sent.max(1) as f64;
        let p99 = percentile(&delays, 0.99);
        let ping_p99 = percentile(&pings, 0.99);
        let most = |base: f64| Asked::AtMost(base + slack);
        rows.push(Row::told(
            format!("voice {what}, median"),
            percentile(&delays, 0.5),
            "ms",
        ));
        rows.push(Row::new(
            format!("voice {what}, p99"),
            p99,
            "ms",
            most(base_ms),
        ));
        rows.push(Row::told(format!("voice {what}, lost"), lost, ""));
        rows.push(Row::new(
            format!("ping {what}, p99"),
            ping_p99,
            "ms",
            most(2.0 * base_ms),
        ));
    };
    both("alone", 0, 6, 1.0);
    let (a, b) = ends(&tunnel);
    let bulk = cubic(18).start(a, b);
    both("beside bulk", 3, 12, 30.0);
    let mbps = bulk.finish().steady_mbps();
    rows.push(Row::told("the bulk flow", mbps, "Mbit/s"));
    rows
}

/// Packets that wait in the shared link's queue: 50 Mbit/s for 40 ms. With six times as many two raw flows do not
/// come to share the link within 30 s: the smaller has a quarter.
const SHARED_QUEUE: u32 = 165;

fn fairness(variant: &Variant) -> Vec<Row> {
    let line = Line::new(Shape::mbps(50.0).delay_ms(20).buffer(SHARED_QUEUE));
    let mut rows = Vec::new();
    let tunnel = variant.tunnel(std::slice::from_ref(&line));
    let (a, b) = ends(&tunnel);
    let raw = || Iperf::tcp(&tunnel.hosts.links[0].address_b, 30).congestion("cubic");
    let reports = together(a, b, &[cubic(30), raw()]);
    let [inside, outside] = [&reports[0], &reports[1]].map(|report| late_mean(report, 10));
    let share = inside / (inside + outside);
    rows.push(Row::new(
        "the tunnel's share, from the tenth second on",
        share,
        "",
        Asked::Within(0.35, 0.65),
    ));
    rows.push(Row::told("both together", inside + outside, "Mbit/s"));
    // What CUBIC itself makes of such a link, with the tunnel taken away.
    let reports = together(a, b, &[raw(), raw()]);
    let [one, other] = [&reports[0], &reports[1]].map(|report| late_mean(report, 10));
    let share = one.min(other) / (one + other);
    rows.push(Row::told("two raw flows: the smaller share", share, ""));
    drop(tunnel);

    let tunnel = variant.tunnel(&[line.clone(), Line::new(Shape::mbps(20.0).delay_ms(40))]);
    let (a, b) = ends(&tunnel);
    let reports = together(a, b, &vec![cubic(30); 4]);
    let each: Vec<f64> = reports.iter().map(|report| late_mean(report, 10)).collect();
    let mean = each.iter().sum::<f64>() / 4.0;
    let farthest = each
        .iter()
        .map(|mbps| (mbps / mean - 1.0).abs())
        .fold(0.0, f64::max);
    rows.push(Row::new(
        "four flows: the farthest from their mean",
        farthest,
        "",
        Asked::AtMost(0.15),
    ));
    rows.push(Row::told("four flows: together", 4.0 * mean, "Mbit/s"));
    rows
}

/// Mean of the intervals after the first `skip` seconds, in Mbit/s.
fn late_mean(report: &Report, skip: usize) -> f64 {
    let late: Vec<f64> = report.intervals_mbps.iter().copied().skip(skip).collect();
    late.iter().sum::<f64>() / late.len().max(1) as f64
}

fn directions(variant: &Variant) -> Vec<Row> {
    let lines =
        [(40.0, 15), (20.0, 40)].map(|(rate, delay)| Line::new(Shape::mbps(rate).delay_ms(delay)));
    let tunnel = variant.tunnel(&lines);
    let (a, b) = ends(&tunnel);
    let limit = tunnel.limit_mbps(crate::link::Family::V4);
    let mut rows = vec![Row::told("limit each way", limit, "Mbit/s")];
    let mut row = |what: &str, flows: &[Iperf]| {
        for (index, report) in together(a, b, flows).iter().enumerate() {
            let way = if flows.len() > 1 {
                [", there", ", back"][index]
            } else {
                ""
            };
            let mbps = late_mean(report, 3);
            rows.push(Row::told(format!("{what}{way}"), mbps, "Mbit/s"));
        }
    };
    let sixteen = cubic(12).words("-P 16");
    row("one flow", &[cubic(12)]);
    row("one flow, reversed", &[cubic(12).reverse()]);
    row("one flow each way", &[cubic(12), cubic(12).reverse()]);
    row("16 flows", std::slice::from_ref(&sixteen));
    row("16 flows, reversed", &[sixteen.clone().reverse()]);
    row("16 flows each way", &[sixteen.clone(), sixteen.reverse()]);
    rows
}

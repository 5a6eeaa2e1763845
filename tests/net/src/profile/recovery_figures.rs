//! What becomes of lost packets: how long the others wait, how soon they come again, at what price.
//!
//! What only the daemon can know is read from its status by the names that `control.rs` gives it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::profile::Line;
use crate::profile::figure::{Asked, Figure, Row, counted};
use crate::profile::measure::{Variant, dropped, numbers};
use crate::settings::Side;
use crate::shape::Shape;
use crate::stream::{Record, Stream, percentile};
use crate::topology::Tunnel;
use crate::traffic::Iperf;

/// Bytes of a stream's datagram in these figures.
const PAYLOAD: usize = 1000;

/// What waits behind a lost packet.
pub const RELEASE: Figure = Figure {
    name: "release",
    title: "from a loss to the release of what waited behind it: 1 % lost of 1000 datagrams a \
            second over 30 Mbit/s of 20 and 45 ms, without recovery",
    take: release,
};

/// When a lost packet comes again.
pub const RECOVERY_TIME: Figure = Figure {
    name: "recovery-time",
    title: "from the sending of a datagram to its arrival when it was lost once: 1 % lost of 1000 \
            datagrams a second over 30 Mbit/s of 20 and 30 ms",
    take: recovery_time,
};

/// Resends that were not needed.
pub const SPURIOUS: Figure = Figure {
    name: "spurious",
    title: "resends that were not needed, without and with loss, by jitter",
    take: spurious,
};

/// Loss that the inner TCP never sees.
pub const HIDDEN_LOSS: Figure = Figure {
    name: "hidden-loss",
    title: "loss of 1 % on both of 30 + 30 Mbit/s that the inner TCP does not see",
    take: hidden_loss,
};

/// A stream over two links of 30 Mbit/s, and the status of both ends after it.
fn stream(variant: &Variant, shapes: [Shape; 2], seconds: u64) -> (Record, Tunnel) {
    let tunnel = variant.tunnel(&shapes.map(Line::new));
    let stream = Stream {
        pace: 1000,
        payload: PAYLOAD,
        ..Stream::voice(Side::B.inner_v4(), 6000, Duration::from_secs(seconds))
    };
    let record = stream.start(&tunnel.hosts.a, &tunnel.hosts.b).finish();
    (record, tunnel)
}

fn status(tunnel: &Tunnel) -> [BTreeMap<String, f64>; 2] {
    [&tunnel.a, &tunnel.b].map(|end| numbers(&end.ctl(&["status"])))
}

fn release(variant: &Variant) -> Vec<Row> {
    let shapes = [20, 45].map(|delay| Shape::mbps(30.0).delay_ms(delay).loss(1.0));
    let without = Variant {
        recovery: "mode = \"off\"".to_owned(),
        ..variant.clone()
    };
    let (record, _tunnel) = stream(&without, shapes, 15);
    // Counted from when it would have arrived over the nearer path.
    let waits: Vec<f64> = record.releases_ms().iter().map(|ms| ms - 20.0).collect();
    let lost = record.lost() as f64;
    vec![
        Row::told("lost for good", lost, "datagrams"),
        Row::new(
            "median",
            percentile(&waits, 0.5),
            "ms",
            Asked::AtMost(25.0 + 5.0),
        ),
        Row::told("p99", percentile(&waits, 0.99), "ms"),
    ]
}

fn recovery_time(variant: &Variant) -> Vec<Row> {
    let shapes = [20, 30].map(|delay| Shape::mbps(30.0).delay_ms(delay).loss(1.0));
    let (record, tunnel) = stream(variant, shapes, 15);
    let dropped: u64 = dropped(&tunnel.hosts).iter().sum();
    let [sender, receiver] = status(&tunnel);
    let heads = record.heads_ms(Duration::from_millis(30 + 5));
    // One way on the slower path, a report every 5 ms, the fastest round trip, 5 ms.
    let most = 30.0 + 5.0 + 40.0 + 5.0;
    let lost = record.lost() as f64;
    let mut rows = vec![
        Row::told("dropped by the links", dropped as f64, "packets"),
        Row::told("lost for good", lost, "datagrams"),
        Row::told("came again", heads.len() as f64, "datagrams"),
        Row::told("median", percentile(&heads, 0.5), "ms"),
        Row::new("p95", percentile(&heads, 0.95), "ms", Asked::AtMost(most)),
    ];
    rows.extend(price(&sender, &receiver, dropped));
    rows
}

/// What recovery cost, from the daemons' own counters: sent again, of packets nearly all of one size, and
/// reported back.
fn price(
    sender: &BTreeMap<String, f64>,
    receiver: &BTreeMap<String, f64>,
    dropped: u64,
) -> Vec<Row> {
    let resent = counted(sender, &["tunnel.recovery.resent"]);
    let reports = counted(receiver, &["tunnel.recovery.report_bytes"]);
    let data = counted(receiver, &["paths.*.rx_bytes"]);
    let ratio = |part: Option<f64>, whole: Option<f64>| Some(part? / whole.filter(|w| *w > 0.0)?);
    vec![
        Row::maybe(
            "resent / dropped packets",
            ratio(resent, Some(dropped as f64)),
            "",
            Asked::AtMost(1.2),
        ),
        Row::maybe(
            "report bytes / data bytes",
            ratio(reports, data),
            "",
            Asked::AtMost(0.01),
        ),
    ]
}

fn spurious(variant: &Variant) -> Vec<Row> {
    let mut rows = Vec::new();
    for (jitter, loss, most) in [
        (5, 0.0, 0.02),
        (5, 1.0, 0.02),
        (25, 0.0, 0.1),
        (25, 1.0, 0.1),
    ] {
        // Without a rate netem's jitter reorders, packet by packet.
        for (kind, rate) in [("in order", Some(30.0)), ("reordering", None)] {
            let shapes = [60, 70].map(|delay| {
                let shape = rate.map_or_else(Shape::unshaped, Shape::mbps);
                shape.delay_ms(delay).normal_jitter_ms(jitter).loss(loss)
            });
            let (record, tunnel) = stream(variant, shapes, 8);
            let [sender, receiver] = status(&tunnel);
            let resent = counted(&sender, &["tunnel.recovery.resent"]);
            let needless = counted(&sender, &["tunnel.recovery.spurious"]);
            let what = format!("jitter {jitter} ms, {kind}, loss {loss} %");
            let share = needless.zip(resent).map(|(needless, resent)| {
                // Without loss every resend is needless: counted against what was sent.
                let whole = if loss == 0.0 {
                    record.sent as f64
                } else {
                    resent
                };
                needless / whole.max(1.0)
            });
            rows.push(Row::maybe(
                format!("{what}: needless"),
                share,
                "",
                Asked::AtMost(most),
            ));
            let late = counted(&receiver, &["reorder.late"]);
            rows.push(Row::maybe(
                format!("{what}: late"),
                late,
                "packets",
                Asked::Reported,
            ));
        }
    }
    rows
}

fn hidden_loss(variant: &Variant) -> Vec<Row> {
    let shape = Shape::mbps(30.0).delay_ms(20);
    let lines = [
        Line::new(shape.clone().loss(1.0)),
        Line::new(shape.loss(1.0)),
    ];
    let tunnel = variant.tunnel(&lines);
    let report = Iperf::tcp(Side::B.inner_v4(), 20)
        .congestion("cubic")
        .run(&tunnel.hosts.a, &tunnel.hosts.b);
    let dropped: u64 = dropped(&tunnel.hosts).iter().sum();
    let [sender, receiver] = status(&tunnel);
    let seen = report.retransmits as f64 / dropped.max(1) as f64;
    let mut rows = vec![
        Row::told("goodput", report.steady_mbps(), "Mbit/s"),
        Row::told("dropped by the links", dropped as f64, "packets"),
        Row::told("TCP retransmissions", report.retransmits as f64, "segments"),
        Row::new("TCP retransmissions / drops", seen, "", Asked::AtMost(0.01)),
    ];
    rows.extend(price(&sender, &receiver, dropped));
    rows
}

//! One bulk flow over two links of 50 Mbit/s, the second farther than the first: what CUBIC and BBR make of it
//! through the tunnel, beside the kernel's MPTCP and one link alone.

use crate::limit::goodput_limit_mbps;
use crate::link::Family;
use crate::profile::figure::{Asked, Figure, Row};
use crate::profile::measure::Variant;
use crate::profile::{Line, SECONDS};
use crate::settings::Side;
use crate::shape::Shape;
use crate::transfer::{Source, Transport, allow_subflows};

/// Rate of each link in Mbit/s.
const RATE: f64 = 50.0;
/// One-way delay of the first link in milliseconds.
const NEAR_MS: u64 = 20;
/// By how many milliseconds the second link is farther.
const APART_MS: [u64; 4] = [20, 50, 100, 300];
/// Jitter of both links in milliseconds, where there is some.
const JITTER_MS: u64 = 20;

/// BBR, which keeps two round trips under way and hardly ever fills a queue.
pub const BBR: Figure = Figure {
    name: "bbr-apart",
    title: "one BBR flow over 50 Mbit/s of 20 ms + 50 Mbit/s of 20 ms + d",
    take: bbr,
};

/// CUBIC beside MPTCP.
pub const CUBIC: Figure = Figure {
    name: "cubic-apart",
    title: "one CUBIC flow over 50 Mbit/s of 20 ms + 50 Mbit/s of 20 ms + d, beside MPTCP",
    take: cubic,
};

/// The same with jitter.
pub const CUBIC_JITTER: Figure = Figure {
    name: "cubic-jitter",
    title: "one CUBIC flow over two links of 50 Mbit/s, 20 ms, 20 ms of jitter, beside MPTCP",
    take: cubic_jitter,
};

fn lines(apart_ms: u64) -> [Line; 2] {
    [NEAR_MS, NEAR_MS + apart_ms].map(|delay| Line::new(Shape::mbps(RATE).delay_ms(delay)))
}

fn bbr(variant: &Variant) -> Vec<Row> {
    let hosts = variant.hosts(&lines(0)[..1]);
    let source = Source::open(&hosts.a, &hosts.links[0].address_a, Transport::Tcp, "bbr");
    let alone = mean("alone", &source.each_second_mbps(&hosts.b, SECONDS));
    drop(hosts);
    let mut rows = vec![Row::told("one link alone", alone, "Mbit/s")];
    for apart in APART_MS {
        let (tunnel, sum) = through_tunnel(&lines(apart), "bbr", variant);
        // What is asked at each distance: of the sum, or, where only that can be had, of one link.
        let asked = match apart {
            0..=50 => 0.85 * sum,
            51..=100 => 0.75 * sum,
            _ => 0.97 * alone,
        };
        let asked = Asked::AtLeast(asked);
        rows.push(Row::new(format!("d = {apart} ms"), tunnel, "Mbit/s", asked));
    }
    rows
}

fn cubic(variant: &Variant) -> Vec<Row> {
    let rows =
        APART_MS.map(|apart| beside_mptcp(&format!("d = {apart} ms"), &lines(apart), variant));
    rows.concat()
}

fn cubic_jitter(variant: &Variant) -> Vec<Row> {
    let shape = Shape::mbps(RATE).delay_ms(NEAR_MS);
    let line = Line::new(shape.normal_jitter_ms(JITTER_MS));
    beside_mptcp("jitter of 20 ms", &[line.clone(), line], variant)
}

/// The tunnel's goodput, of which MPTCP's is asked, and MPTCP's.
fn beside_mptcp(what: &str, lines: &[Line; 2], variant: &Variant) -> Vec<Row> {
    let mptcp = by_mptcp(lines, variant);
    let (tunnel, _) = through_tunnel(lines, "cubic", variant);
    let asked = mptcp.map_or(Asked::Reported, Asked::AtLeast);
    let told = Asked::Reported;
    vec![
        Row::new(format!("{what}: the tunnel"), tunnel, "Mbit/s", asked),
        Row::maybe(format!("{what}: MPTCP"), mptcp, "Mbit/s", told),
    ]
}

/// Mbit/s of a flow through a tunnel over these links, and the sum of what they carry.
fn through_tunnel(lines: &[Line], congestion: &str, variant: &Variant) -> (f64, f64) {
    let tunnel = variant.tunnel(lines);
    let (a, b) = (&tunnel.hosts.a, &tunnel.hosts.b);
    let source = Source::open(a, Side::A.inner_v4(), Transport::Tcp, congestion);
    let mbps = mean("tunnel", &source.each_second_mbps(b, SECONDS));
    let links = [(RATE, Family::V4); 2];
    let mtu = tunnel.a.status().tunnel.mtu;
    (mbps, goodput_limit_mbps(&links, mtu, Family::V4))
}

/// Mbit/s of an MPTCP connection over these links; `None` where the kernel has none.
fn by_mptcp(lines: &[Line], variant: &Variant) -> Option<f64> {
    let hosts = variant.hosts(lines);
    if !Transport::Mptcp.is_there(&hosts.a) {
        return None;
    }
    allow_subflows(&hosts);
    let address = &hosts.links[0].address_a;
    let source = Source::open(&hosts.a, address, Transport::Mptcp, "cubic");
    let seconds = source.each_second_mbps(&hosts.b, SECONDS);
    Some(mean("MPTCP", &seconds))
}

fn mean(what: &str, each_second: &[f64]) -> f64 {
    println!("{what}, each second: {each_second:.0?}");
    each_second.iter().sum::<f64>() / each_second.len().max(1) as f64
}

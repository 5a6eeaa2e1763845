//! One flow over a link, and over the tunnel.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::link::{Link, Place};
use crate::namespace::Namespace;
use crate::profile::{Line, Profile, SECONDS};
use crate::settings::{Settings, Side};
use crate::stream::{Stream, percentile};
use crate::topology::{Hosts, Tunnel};
use crate::traffic::{Flow, Iperf, Report};

/// How long a flow outside the tunnel has a link for itself before the measured one begins.
const HEAD_START: Duration = Duration::from_secs(2);

/// How long a flow goes on before delays beside it count.
pub const SETTLED: Duration = Duration::from_secs(3);

/// What differs between runs of the same profile; by default nothing but addresses is configured.
#[derive(Debug, Clone)]
pub struct Variant {
    /// How long the flow of a profile goes on, in seconds.
    pub seconds: u32,
    /// Lines for `[tunnel]`.
    pub tunnel: String,
    /// Lines for `[reorder]`.
    pub reorder: String,
    /// Lines for `[recovery]`.
    pub recovery: String,
    /// Where netem stands.
    pub place: Place,
}

impl Default for Variant {
    fn default() -> Self {
        Self {
            seconds: SECONDS,
            tunnel: String::new(),
            reorder: String::new(),
            recovery: String::new(),
            place: Place::default(),
        }
    }
}

/// What came of a flow.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Measured {
    /// Mean goodput of the whole run, in Mbit/s.
    pub mbps: f64,
    /// Mean of its last third.
    pub steady_mbps: f64,
    /// Each second.
    pub intervals_mbps: Vec<f64>,
    /// Segments that the sender's TCP sent again.
    pub retransmits: u64,
    /// Packets that each link dropped on the way there.
    pub dropped: Vec<u64>,
    /// What the flow outside the tunnel got meanwhile, in Mbit/s.
    #[serde(default)]
    pub outside_mbps: Option<f64>,
    /// One-way delays of 50 small datagrams a second beside it, after its first
    /// [`SETTLED`], in milliseconds: median and 99th percentile.
    #[serde(default)]
    pub voice_ms: Option<[f64; 2]>,
    /// Of the tunnel: its MTU.
    #[serde(default)]
    pub mtu: u32,
    /// Of the tunnel: every number of the sending end's status, by its place: `paths.0.tx_bytes`.
    #[serde(default)]
    pub sender: BTreeMap<String, f64>,
    /// The same of the receiving end.
    #[serde(default)]
    pub receiver: BTreeMap<String, f64>,
}

impl Variant {
    /// The configuration that it makes.
    #[must_use]
    pub fn settings(&self) -> Settings {
        let mut settings = Settings::new();
        if !self.tunnel.is_empty() {
            settings = settings.tunnel(&self.tunnel);
        }
        if !self.reorder.is_empty() {
            settings = settings.reorder_lines(&self.reorder);
        }
        if !self.recovery.is_empty() {
            settings = settings.recovery(&self.recovery);
        }
        settings
    }

    /// Two hosts with these links, their TCP windows wide open.
    #[must_use]
    pub fn hosts(&self, lines: &[Line]) -> Hosts {
        let shapes: Vec<_> = lines.iter().map(Line::shapes).collect();
        let hosts = Hosts::with_directions(&shapes, self.place);
        hosts.a.widen_windows();
        hosts.b.widen_windows();
        hosts
    }

    /// A tunnel over these links.
    #[must_use]
    pub fn tunnel(&self, lines: &[Line]) -> Tunnel {
        self.hosts(lines).tunnel(&self.settings())
    }
}

/// One CUBIC flow over a link, without any tunnel.
#[must_use]
pub fn raw(line: &Line, variant: &Variant) -> Measured {
    let hosts = variant.hosts(std::slice::from_ref(line));
    let target = hosts.links[0].address_b.clone();
    flow(&hosts, std::slice::from_ref(line), &target, variant.seconds)
}

/// One CUBIC flow through a tunnel over the pair.
#[must_use]
pub fn tunnel(profile: &Profile, variant: &Variant) -> Measured {
    let tunnel = variant.tunnel(&profile.lines);
    let target = Side::B.inner_v4();
    let mut measured = flow(&tunnel.hosts, &profile.lines, target, variant.seconds);
    measured.mtu = tunnel.a.status().tunnel.mtu;
    measured.sender = numbers(&tunnel.a.ctl(&["status"]));
    measured.receiver = numbers(&tunnel.b.ctl(&["status"]));
    measured
}

/// The flow itself, with what happens beside it.
fn flow(hosts: &Hosts, lines: &[Line], target: &str, seconds: u32) -> Measured {
    let outside = start_outside(hosts, lines, seconds);
    if outside.is_some() {
        std::thread::sleep(HEAD_START);
    }
    let flow = Iperf::tcp(target, seconds)
        .congestion("cubic")
        .start(&hosts.a, &hosts.b);
    let started = Instant::now();
    let time = Duration::from_secs(u64::from(seconds));
    let voice = Stream::voice(target, 6000, time).start(&hosts.a, &hosts.b);
    for line in lines.iter().zip(&hosts.links) {
        dip(started, line, hosts, seconds);
    }
    let report = flow.finish();
    let delays = voice.finish().delays_ms(SETTLED);
    let skip = HEAD_START.as_secs() as usize;
    let count = seconds as usize;
    Measured {
        mbps: mean(&report.intervals_mbps, 0, count),
        steady_mbps: mean(&report.intervals_mbps, count - count / 3, count),
        retransmits: report.retransmits,
        dropped: dropped(hosts),
        outside_mbps: outside.map(|flow| mean(&flow.finish().intervals_mbps, skip, count)),
        voice_ms: (!delays.is_empty()).then(|| [0.5, 0.99].map(|p| percentile(&delays, p))),
        intervals_mbps: report.intervals_mbps,
        ..Measured::default()
    }
}

fn start_outside(hosts: &Hosts, lines: &[Line], seconds: u32) -> Option<Flow> {
    let shared = lines.iter().position(|line| line.shared)?;
    let time = seconds + HEAD_START.as_secs() as u32 + 1;
    let flow = Iperf::tcp(&hosts.links[shared].address_b, time).congestion("cubic");
    Some(flow.start(&hosts.a, &hosts.b))
}

/// Lets a link's rate fall and come back, when that is in its description.
fn dip(started: Instant, (line, link): (&Line, &Link), hosts: &Hosts, seconds: u32) {
    let Some(dip) = line.dip else { return };
    for (at, share) in [(dip.from, dip.to), (dip.until, 1.0)] {
        let at = Duration::from_secs_f64(at * f64::from(seconds));
        std::thread::sleep(at.saturating_sub(started.elapsed()));
        scale(link, line, &hosts.a, &hosts.b, share);
    }
}

/// Gives both directions of a link this share of their rates.
pub fn scale(link: &Link, line: &Line, a: &Namespace, b: &Namespace, share: f64) {
    for (host, shape) in [(a, &line.there), (b, &line.back)] {
        let rate = shape.rate_mbps().unwrap_or(0.0) * share;
        link.reshape(host, &shape.clone().at_mbps(rate));
    }
}

/// Mean of `count` values after the first `skip`.
fn mean(values: &[f64], skip: usize, count: usize) -> f64 {
    let taken: Vec<f64> = values.iter().copied().skip(skip).take(count).collect();
    taken.iter().sum::<f64>() / taken.len().max(1) as f64
}

/// Packets that each link dropped on the way from A to B.
#[must_use]
pub fn dropped(hosts: &Hosts) -> Vec<u64> {
    hosts
        .links
        .iter()
        .map(|link| link.counters(&hosts.a).dropped)
        .collect()
}

/// Every number in a JSON value, by its place in it.
#[must_use]
pub fn numbers(value: &Value) -> BTreeMap<String, f64> {
    let mut all = BTreeMap::new();
    collect(value, String::new(), &mut all);
    all
}

fn collect(value: &Value, place: String, all: &mut BTreeMap<String, f64>) {
    let below = |key: &str| match place.as_str() {
        "" => key.to_owned(),
        _ => format!("{place}.{key}"),
    };
    match value {
        Value::Number(number) => {
            all.extend(number.as_f64().map(|number| (place, number)));
        }
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                collect(value, below(&index.to_string()), all);
            }
        }
        Value::Object(fields) => {
            for (key, value) in fields {
                collect(value, below(key), all);
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

impl Measured {
    /// Share of the bytes that went over the first path, 0 to 1.
    #[must_use]
    pub fn first_path_share(&self) -> Option<f64> {
        let bytes = |path: u32| self.sender.get(&format!("paths.{path}.tx_bytes"));
        let (first, second) = (bytes(0)?, bytes(1)?);
        Some(first / (first + second))
    }

    /// A number of the receiver's reorder window.
    #[must_use]
    pub fn reorder(&self, field: &str) -> Option<f64> {
        self.receiver.get(&format!("reorder.{field}")).copied()
    }
}

/// Flows started together from A to B, and what came of each.
#[must_use]
pub fn together(from: &Namespace, to: &Namespace, flows: &[Iperf]) -> Vec<Report> {
    let running: Vec<Flow> = flows.iter().map(|flow| flow.start(from, to)).collect();
    running.into_iter().map(Flow::finish).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_wherever_they_are() {
        let value: Value =
            serde_json::from_str(r#"{"a":{"b":[1,{"c":2.5}]},"d":"x","e":null}"#).unwrap();
        let found: Vec<_> = numbers(&value).into_iter().collect();
        assert_eq!(
            found,
            [("a.b.0".to_owned(), 1.0), ("a.b.1.c".to_owned(), 2.5)]
        );
    }
}

//! All families of metrics, as tables: what each is called, what it says, and what of a status it is.
//!
//! A fact has one family. Names follow Prometheus's conventions: base units (seconds, bytes), `_total` for what is
//! counted since the start. The number of series is bounded: labels are names of the configuration, reasons and states
//! that this program knows, and of a hub's peers [so many](super::MAX_PEERS).

mod classes;
mod order;
mod paths;
mod peers;
mod tunnel;

use std::borrow::Cow;
use std::fmt;

use mpt_core::control::PathStatus;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeMetric as _, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use super::Sample;

/// Before each name.
const PREFIX: &str = "mpt";

/// A family of metrics over things of one kind.
struct Family<T: 'static> {
    /// Without prefix, and without the `_total` of a counter.
    name: &'static str,
    /// A sentence.
    help: &'static str,
    values: Values<T>,
}

/// What it has for each thing.
enum Values<T> {
    /// Something counted since the start.
    Counter(fn(&T) -> Option<u64>),
    /// Something measured now.
    Gauge(fn(&T) -> Option<f64>),
    /// Something that is so or not.
    Flag(fn(&T) -> bool),
    /// Counters told apart by a label of this name.
    Counters(&'static str, fn(&T) -> Vec<(String, u64)>),
    /// Gauges told apart by a label of this name.
    Gauges(&'static str, fn(&T) -> Vec<(String, f64)>),
    /// One of several states, which a label of this name has: 1 for the one that it is, 0 for the others.
    State(
        &'static str,
        &'static [&'static str],
        fn(&T) -> Option<Cow<'static, str>>,
    ),
    /// How values are spread.
    Histogram(fn(&T) -> Option<Histogram>),
    /// Texts, as labels of a 1.
    Info(fn(&T) -> Vec<(&'static str, String)>),
}

/// Values counted by bounds.
struct Histogram {
    sum: f64,
    /// Bounds, the last of which is infinite, and how many values are at most so large and larger than the one before.
    buckets: Vec<(f64, u64)>,
}

/// Which thing of its kind.
type Labels = Vec<(&'static str, String)>;
/// Things of a kind, each with its labels.
type Things<'a, T> = Vec<(Labels, &'a T)>;

/// Writes everything in OpenMetrics' text form. `connections` is what became of those that were served.
pub(super) fn write(samples: Vec<Sample>, connections: &[(&'static str, u64)]) -> String {
    let mut registry = Registry::with_prefix(PREFIX);
    let page = Page {
        samples,
        own: Own {
            connections: connections.to_vec(),
        },
    };
    registry.register_collector(Box::new(page));
    let mut text = String::new();
    // Writing into a string does not fail.
    let _ = encode(&mut text, &registry);
    text
}

#[derive(Debug)]
struct Page {
    samples: Vec<Sample>,
    own: Own,
}

/// What there is to say of the serving itself.
#[derive(Debug)]
struct Own {
    connections: Vec<(&'static str, u64)>,
}

const OWN: &[Family<Own>] = &[
    Family {
        name: "build",
        help: "The version of mpt-tund.",
        values: Values::Info(|_| vec![("version", env!("CARGO_PKG_VERSION").to_owned())]),
    },
    Family {
        name: "metrics_connections",
        help: "Connections for metrics by what became of them: served, not_found (a request for something else), malformed, slow, cut_off (the oldest of too many).",
        values: Values::Counters("outcome", |own| {
            let named = own.connections.iter();
            named
                .map(|(name, count)| ((*name).to_owned(), *count))
                .collect()
        }),
    },
];

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let out = &mut encoder;
        write_all(out, OWN, &vec![(Labels::new(), &self.own)])?;
        let tunnels = || self.samples.iter().map(|sample| (labels(sample), sample));
        write_all(out, tunnel::FAMILIES, &tunnels().collect())?;
        let running: Things<'_, Sample> = tunnels().filter(|(_, sample)| sample.runs).collect();
        write_all(out, tunnel::OF_RUNNING, &running)?;
        let is_hub = |(_, sample): &(Labels, &Sample)| sample.status.hub.is_some();
        let (hubs, ends): (Things<'_, _>, Things<'_, _>) =
            running.iter().cloned().partition(is_hub);
        write_all(out, tunnel::OF_TWO_ENDS, &ends)?;
        write_all(out, peers::OF_HUBS, &hubs)?;
        write_all(out, order::OF_TWO_ENDS, &ends)?;
        write_all(out, paths::SOCKETS, &own_paths(&running))?;
        write_all(out, paths::OF_HUBS, &own_paths(&hubs))?;
        write_all(out, paths::BUDGETS, &own_paths(&ends))?;
        let mut all = own_paths(&ends);
        all.extend(peers::paths(&hubs));
        write_all(out, paths::FAMILIES, &all)?;
        write_all(out, classes::FAMILIES, &classes::all(&ends))?;
        write_all(out, peers::FAMILIES, &peers::all(&hubs))?;
        write_all(out, order::OF_A_POINT, &order::points(&ends))?;
        write_all(out, order::OF_A_PATH, &order::paths(&ends))
    }
}

fn labels(sample: &Sample) -> Labels {
    vec![("tunnel", sample.status.tunnel.name.clone())]
}

/// The paths of the configuration.
fn own_paths<'a>(tunnels: &Things<'a, Sample>) -> Things<'a, PathStatus> {
    let of_one = |(labels, sample): &(Labels, &'a Sample)| {
        let labels = labels.clone();
        let paths = sample.status.paths.iter();
        paths.map(move |path| (with(&labels, "path", &path.name), path))
    };
    tunnels.iter().flat_map(of_one).collect()
}

fn with(labels: &Labels, key: &'static str, value: &str) -> Labels {
    let mut labels = labels.clone();
    labels.push((key, value.to_owned()));
    labels
}

fn write_all<T>(
    out: &mut DescriptorEncoder<'_>,
    families: &[Family<T>],
    things: &Things<'_, T>,
) -> fmt::Result {
    families
        .iter()
        .try_for_each(|family| family.write(out, things))
}

impl<T> Family<T> {
    /// Writes the family, unless it has nothing to say of any of these things.
    fn write(&self, out: &mut DescriptorEncoder<'_>, things: &Things<'_, T>) -> fmt::Result {
        let (name, unit) = self.name_and_unit();
        let mut family: Option<MetricEncoder<'_>> = None;
        let mut out = Some(out);
        for (labels, thing) in things {
            let samples = self.values.of(thing);
            if samples.is_empty() {
                continue;
            }
            if let Some(out) = out.take() {
                let kind = self.values.kind();
                family = Some(out.encode_descriptor(name, self.help, unit.as_ref(), kind)?);
            }
            let Some(family) = &mut family else {
                continue;
            };
            for (more, value) in samples {
                let mut labels = labels.clone();
                labels.extend(more);
                value.encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }

    /// The unit, which the writer appends to the name.
    fn name_and_unit(&self) -> (&'static str, Option<Unit>) {
        for (suffix, unit) in [("_seconds", Unit::Seconds), ("_bytes", Unit::Bytes)] {
            if let Some(name) = self.name.strip_suffix(suffix) {
                return (name, Some(unit));
            }
        }
        (self.name, None)
    }
}

enum Value {
    Count(u64),
    Level(f64),
    Spread(Histogram),
    Info(Labels),
}

impl Value {
    fn encode(&self, mut to: MetricEncoder<'_>) -> fmt::Result {
        match self {
            Value::Count(count) => ConstCounter::new(*count).encode(to),
            Value::Level(level) => match level.fract() == 0.0 && level.abs() < 1e15 {
                true => ConstGauge::new(*level as i64).encode(to),
                false => ConstGauge::new(*level).encode(to),
            },
            Value::Spread(Histogram { sum, buckets }) => {
                let count = buckets.iter().map(|(_, count)| count).sum();
                to.encode_histogram::<NoLabelSet>(*sum, count, buckets, None)
            }
            Value::Info(labels) => to.encode_info(labels),
        }
    }
}

impl<T> Values<T> {
    fn kind(&self) -> MetricType {
        match self {
            Values::Counter(_) | Values::Counters(..) => MetricType::Counter,
            Values::Gauge(_) | Values::Gauges(..) | Values::Flag(_) | Values::State(..) => {
                MetricType::Gauge
            }
            Values::Histogram(_) => MetricType::Histogram,
            Values::Info(_) => MetricType::Info,
        }
    }

    /// The samples of a thing, with the labels that they have besides the thing's own.
    fn of(&self, thing: &T) -> Vec<(Labels, Value)> {
        let one = |value: Option<Value>| {
            value
                .map(|value| (Labels::new(), value))
                .into_iter()
                .collect()
        };
        let flag = |is: bool| Value::Level(f64::from(u8::from(is)));
        match self {
            Values::Counter(of) => one(of(thing).map(Value::Count)),
            Values::Gauge(of) => one(of(thing).map(Value::Level)),
            Values::Flag(of) => one(Some(flag(of(thing)))),
            Values::Histogram(of) => one(of(thing).map(Value::Spread)),
            Values::Info(of) => one(Some(Value::Info(of(thing)))),
            Values::Counters(label, of) => {
                let named = of(thing).into_iter();
                named
                    .map(|(name, count)| (vec![(*label, name)], Value::Count(count)))
                    .collect()
            }
            Values::Gauges(label, of) => {
                let named = of(thing).into_iter();
                named
                    .map(|(name, level)| (vec![(*label, name)], Value::Level(level)))
                    .collect()
            }
            Values::State(label, states, of) => {
                let Some(is) = of(thing) else {
                    return Vec::new();
                };
                let states = states.iter();
                states
                    .map(|state| (vec![(*label, (*state).to_owned())], flag(is == *state)))
                    .collect()
            }
        }
    }
}

/// The name that a unit variant has in JSON: one list of names for both.
fn name_of(value: &impl serde::Serialize) -> Option<Cow<'static, str>> {
    let name = serde_json::to_value(value).ok()?;
    Some(Cow::Owned(name.as_str()?.to_owned()))
}

/// Microseconds in seconds.
fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

#[cfg(test)]
mod tests;

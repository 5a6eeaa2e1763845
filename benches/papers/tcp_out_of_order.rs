//! "Modeling and Simulation of Out-of-Order Impact in TCP Protocol" (Kadry, Al-Issa), the link alone:
//! what the paper's α/β path does to the order of a saturated 3 Mbit/s stream, before any TCP
//! reacts to it.
//!
//! The table counts reordering discontinuities as RFC 4737 §4.5.3 defines them, at most one a switch;
//! the reference counts more than one a switch by a rule it does not state, and is not compared.
//!
//! Run `cargo bench -p papers --bench paper_tcp_out_of_order [-- DIR]`. It writes a table beside the
//! reference values of `tests/vectors/link-models.json` and a chart to `target/papers/tcp_out_of_order`.

mod plot;
mod report;

use std::collections::BTreeMap;
use std::process::ExitCode;

use mpt_core::metrics::{Form, MeterConfig, OrderReport};
use mpt_sim::delay::{Delay, Switching};
use mpt_sim::link::{LinkConfig, Order};
use mpt_sim::stream::Stream;
use plot::{Chart, Mark, Series};
use report::{Output, Table};
use serde::Deserialize;

const ALPHAS: [f64; 7] = [0.0, 0.2, 0.4, 0.6, 1.0, 1.5, 2.0];
const BETAS_MS: [u64; 2] = [50, 250];
const SEEDS: u64 = 4;

/// 1100 s of 1500-byte packets that fill 3 Mbit/s.
const STREAM: Stream = Stream {
    packets: 275_000,
    bytes: 1500,
    interval_ns: 4_000_000,
};

#[derive(Deserialize)]
struct Models {
    delay_switching_link_only: BTreeMap<String, Reference>,
}

/// What is measured, as fractions of packets where not said otherwise.
#[derive(Deserialize, Default, Clone, Copy)]
struct Reference {
    ratio: f64,
    n3: f64,
    n10: f64,
    n18: f64,
    /// Reordering discontinuities.
    #[serde(skip)]
    disc: f64,
    /// Largest extent, packets.
    maxext: f64,
    /// Mean displacement, packets.
    #[serde(rename = "MD")]
    md: f64,
    /// Entropy, nats.
    #[serde(rename = "Er")]
    er: f64,
}

fn main() -> ExitCode {
    let output = Output::new("tcp_out_of_order");
    let models: Models = serde_json::from_str(include_str!("../../tests/vectors/link-models.json"))
        .expect("the reference file is JSON of this form");
    let mut table = Table::new(&[
        "β ms",
        "α",
        "ratio",
        "ref",
        "n=3",
        "ref",
        "n=10",
        "ref",
        "n=18",
        "ref",
        "max extent",
        "ref",
        "MD",
        "ref",
        "Er",
        "ref",
        "discontinuities",
    ]);
    let mut series = Vec::new();
    let mut references = Vec::new();
    let mut outside = 0;
    for beta_ms in BETAS_MS {
        let mut points = Vec::new();
        for alpha in ALPHAS {
            let reference =
                models.delay_switching_link_only[&format!("beta{beta_ms}_alpha{alpha:?}")];
            let measured = mean(alpha, beta_ms);
            points.push((alpha, measured));
            references.push((alpha, 100.0 * reference.n3));
            outside += usize::from(!agrees(&measured, &reference));
            table.row(row(alpha, beta_ms, &measured, &reference));
        }
        series.push((beta_ms, points));
    }
    output.table("link_only", &table);
    output.write("n_reordering.svg", &chart(&series, references).svg());
    if outside > 0 {
        eprintln!("{outside} rows differ from the reference by more than its scatter");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn measure(alpha: f64, beta_ms: u64, seed: u64) -> OrderReport {
    let link = LinkConfig {
        rate_bps: Some(3_000_000),
        delay: Delay::Switching(Switching::tcp_out_of_order(alpha, beta_ms)),
        order: Order::ByDelay,
        ..LinkConfig::default()
    };
    let meter = MeterConfig {
        form: Form::Corrected,
        // Extents reach 300; nothing may be cut off.
        displacement_threshold: 1000,
        ..MeterConfig::default()
    };
    STREAM.measure(link, seed, meter).0
}

fn mean(alpha: f64, beta_ms: u64) -> Reference {
    let mut mean = Reference::default();
    for seed in 0..SEEDS {
        let OrderReport {
            reordering,
            density,
            ..
        } = measure(alpha, beta_ms, seed);
        let share = 1.0 / SEEDS as f64;
        mean.ratio += share * reordering.ratio;
        mean.n3 += share * reordering.n_reordering(3);
        mean.n10 += share * reordering.n_reordering(10);
        mean.n18 += share * reordering.n_reordering(18);
        let discontinuities = reordering.reordering_discontinuities as f64;
        mean.disc += share * discontinuities / reordering.received as f64;
        mean.maxext += share * reordering.extent.max as f64;
        mean.md += share * density.mean_displacement;
        mean.er += share * density.entropy_nats;
    }
    mean
}

/// 1100 s hold a few thousand switches: shares and means scatter by some per cent.
fn agrees(measured: &Reference, reference: &Reference) -> bool {
    let near = |a: f64, b: f64| (a - b).abs() <= 0.1 * b + 2e-4;
    near(measured.ratio, reference.ratio)
        && near(measured.n3, reference.n3)
        && near(measured.md, reference.md)
        && near(measured.er, reference.er)
}

fn row(alpha: f64, beta_ms: u64, measured: &Reference, reference: &Reference) -> Vec<String> {
    let mut cells = vec![beta_ms.to_string(), format!("{alpha:.1}")];
    let mut pair = |value: fn(&Reference) -> f64, digits: usize| {
        cells.push(format!("{:.digits$}", value(measured)));
        cells.push(format!("{:.digits$}", value(reference)));
    };
    pair(|r| r.ratio, 4);
    pair(|r| r.n3, 5);
    pair(|r| r.n10, 5);
    pair(|r| r.n18, 5);
    pair(|r| r.maxext, 0);
    pair(|r| r.md, 3);
    pair(|r| r.er, 3);
    cells.push(format!("{:.4}", measured.disc));
    cells
}

/// What a TCP of each duplicate-ACK threshold would take for loss.
fn chart(series: &[(u64, Vec<(f64, Reference)>)], references: Vec<(f64, f64)>) -> Chart<'static> {
    let mut lines = vec![Series {
        name: "reference, dupthresh 3".into(),
        mark: Mark::Dots,
        points: references,
    }];
    type Share = fn(&Reference) -> f64;
    let thresholds: [(u32, Share); 3] = [(3, |r| r.n3), (10, |r| r.n10), (18, |r| r.n18)];
    for (beta_ms, points) in series {
        for (n, value) in thresholds {
            lines.push(Series {
                name: format!("β = {beta_ms} ms, dupthresh {n}"),
                mark: Mark::Line,
                points: points
                    .iter()
                    .map(|(alpha, r)| (*alpha, 100.0 * value(r)))
                    .collect(),
            });
        }
    }
    Chart {
        title: "Packets that a TCP takes for lost though none is, α/β path, 3 Mbit/s",
        x_label: "α",
        y_label: "n-reordered packets, %",
        x_log: false,
        y_log: false,
        series: lines,
    }
}

//! "Packet Reordering Metrics to Enable Performance Comparison in IP-Networks" (Torres-Jr, Ribeiro,
//! 2020), in simulation: mean displacement and entropy against jitter, 62 jitters for each delay
//! distribution, and RD and RBD histograms at the paper's 1.2475 ms.
//!
//! Run `cargo bench -p papers --bench paper_reorder_density [-- DIR]`. It writes tables and charts to
//! `target/papers/reorder_density` (or DIR) and fails when a value lies outside the tolerances of
//! `tests/vectors/jitter-golden.json`.

mod plot;
mod report;

use std::collections::BTreeMap;
use std::process::ExitCode;

use mpt_core::metrics::{Form, MeterConfig, OrderReport};
use mpt_sim::delay::{Delay, MS};
use mpt_sim::link::{LinkConfig, Order};
use mpt_sim::stream::Stream;
use plot::{Chart, Mark, Series};
use report::{Output, Table};
use serde::Deserialize;

const SEEDS: u64 = 6;
const JITTERS: usize = 62;

/// Name in the golden file, name for people, and the paper's mean displacement at 1 ms.
const DISTRIBUTIONS: [(&str, &str, Option<f64>); 4] = [
    ("uniform_std", "uniform", Some(7.1)),
    ("normal_std", "normal", Some(6.6)),
    (
        "exp_trunc4_pdf",
        "exponential, cut at 4 (netem's table)",
        Some(5.3),
    ),
    ("exp_std", "exponential, whole", None),
];

#[derive(Deserialize)]
struct Golden {
    table: BTreeMap<String, BTreeMap<String, GoldenPoint>>,
}

#[derive(Deserialize, Clone, Copy)]
struct GoldenPoint {
    #[serde(rename = "MD")]
    md: f64,
    #[serde(rename = "MD_sd")]
    md_sd: f64,
    #[serde(rename = "Er")]
    er: f64,
    #[serde(rename = "Er_sd")]
    er_sd: f64,
    #[serde(rename = "MD_fixed")]
    md_fixed: f64,
    #[serde(rename = "Er_fixed")]
    er_fixed: f64,
}

/// Means over seeds at one jitter: as the RFC prints its algorithm, and repaired.
#[derive(Clone, Copy, Default)]
struct Point {
    jitter_ms: f64,
    md: f64,
    er: f64,
    md_fixed: f64,
    er_fixed: f64,
    ratio: f64,
}

fn main() -> ExitCode {
    let output = Output::new("reorder_density");
    let golden: Golden =
        serde_json::from_str(include_str!("../../tests/vectors/jitter-golden.json"))
            .expect("the golden file is JSON of this form");
    let jitters = jitters(&golden);
    let mut curves = Vec::new();
    let mut outside = 0;
    let mut checked = Table::new(&[
        "distribution",
        "jitter ms",
        "MD",
        "golden",
        "Er",
        "golden",
        "MD repaired",
        "golden",
        "Er repaired",
        "golden",
        "within",
    ]);
    for (key, name, _) in DISTRIBUTIONS {
        let curve: Vec<Point> = jitters
            .iter()
            .map(|&jitter_ms| point(key, jitter_ms))
            .collect();
        for point in &curve {
            if let Some(&golden) = golden.table[key].get(&golden_key(point.jitter_ms)) {
                let within = check(&mut checked, name, point, golden);
                outside += usize::from(!within);
            }
        }
        curves.push((name, curve));
    }
    output.table("golden", &checked);
    output.write("curves.csv", &all_points(&curves).csv());
    let claims = claims(&curves).markdown();
    println!("{claims}");
    output.write("claims.md", &claims);
    charts(&output, &golden, &curves);
    histograms(&output);
    if outside > 0 {
        eprintln!("{outside} points lie outside the golden tolerances");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// The golden jitters, 0, the paper's 0.8585 ms, and a geometric series between the least and greatest of them.
fn jitters(golden: &Golden) -> Vec<f64> {
    let keys = golden.table["normal_std"].keys();
    let mut jitters: Vec<f64> = keys.filter_map(|key| key.parse().ok()).collect();
    jitters.extend([0.0, 0.8585]);
    let more = JITTERS - jitters.len();
    let step = 400f64.powf(1.0 / (more + 1) as f64);
    jitters.extend((1..=more).map(|n| 0.025 * step.powi(n as i32)));
    jitters.sort_by(f64::total_cmp);
    jitters
}

/// The golden file writes a whole number of milliseconds as "1.0".
fn golden_key(jitter_ms: f64) -> String {
    format!("{jitter_ms:?}")
}

fn delay(distribution: &str, jitter_ms: f64) -> Delay {
    let sd_ns = (jitter_ms * MS as f64) as u64;
    let (mean_ns, least_ns) = (100 * MS, 100 * MS);
    match distribution {
        "uniform_std" => Delay::Uniform { mean_ns, sd_ns },
        "normal_std" => Delay::Normal { mean_ns, sd_ns },
        "exp_std" => Delay::Exponential { least_ns, sd_ns },
        _ => Delay::ExponentialCut { least_ns, sd_ns },
    }
}

fn measure(distribution: &str, jitter_ms: f64, form: Form, seed: u64) -> OrderReport {
    let link = LinkConfig {
        delay: delay(distribution, jitter_ms),
        order: Order::ByDelay,
        mtu: 1518,
        ..LinkConfig::default()
    };
    let meter = MeterConfig {
        form,
        ..MeterConfig::default()
    };
    Stream::REORDER_DENSITY.measure(link, seed, meter).0
}

fn point(distribution: &str, jitter_ms: f64) -> Point {
    let mut mean = Point {
        jitter_ms,
        ..Point::default()
    };
    for seed in 0..SEEDS {
        let literal = measure(distribution, jitter_ms, Form::Literal, seed).density;
        let repaired = measure(distribution, jitter_ms, Form::Corrected, seed);
        mean.md += literal.mean_displacement / SEEDS as f64;
        mean.er += literal.entropy_nats / SEEDS as f64;
        mean.md_fixed += repaired.density.mean_displacement / SEEDS as f64;
        mean.er_fixed += repaired.density.entropy_nats / SEEDS as f64;
        mean.ratio += repaired.reordering.ratio / SEEDS as f64;
    }
    mean
}

/// Whether the point lies within the golden tolerances, or within two standard deviations of the
/// golden scatter over seeds where that is wider, or within 0.0005: at the least jitters a whole run
/// displaces a few hundred packets.
fn check(table: &mut Table, name: &str, point: &Point, golden: GoldenPoint) -> bool {
    let share = if point.jitter_ms >= 0.5 { 0.015 } else { 0.04 };
    let near = |value: f64, golden: f64, tolerance: f64, sd: f64| {
        (value - golden).abs() <= tolerance.max(2.0 * sd) + 5e-4
    };
    let within = near(point.md, golden.md, share * golden.md, golden.md_sd)
        && near(point.er, golden.er, 0.02, golden.er_sd)
        && near(
            point.md_fixed,
            golden.md_fixed,
            share * golden.md_fixed,
            0.0,
        )
        && near(point.er_fixed, golden.er_fixed, 0.02, golden.er_sd);
    let mut cells = vec![name.replace(',', ";"), format!("{}", point.jitter_ms)];
    for (value, golden) in [
        (point.md, golden.md),
        (point.er, golden.er),
        (point.md_fixed, golden.md_fixed),
        (point.er_fixed, golden.er_fixed),
    ] {
        cells.extend([format!("{value:.4}"), format!("{golden:.4}")]);
    }
    cells.push(if within { "yes" } else { "NO" }.into());
    table.row(cells);
    within
}

fn all_points(curves: &[(&str, Vec<Point>)]) -> Table {
    let mut table = Table::new(&[
        "distribution",
        "jitter_ms",
        "MD",
        "Er",
        "MD_repaired",
        "Er_repaired",
        "rfc4737_ratio",
    ]);
    for (name, curve) in curves {
        for p in curve {
            let mut cells = vec![name.replace(',', ";"), format!("{:.4}", p.jitter_ms)];
            let values = [p.md, p.er, p.md_fixed, p.er_fixed, p.ratio];
            cells.extend(values.map(|value| format!("{value:.4}")));
            table.row(cells);
        }
    }
    table
}

/// What the paper says in words and numbers, and what came out.
fn claims(curves: &[(&str, Vec<Point>)]) -> Table {
    let at = |curve: usize, jitter_ms: f64| {
        let points = curves[curve].1.iter();
        points
            .min_by(|a, b| {
                let distance = |p: &Point| (p.jitter_ms - jitter_ms).abs();
                distance(a).total_cmp(&distance(b))
            })
            .copied()
            .unwrap_or_default()
    };
    let mut table = Table::new(&["claim", "paper", "here"]);
    for (curve, (_, name, paper)) in DISTRIBUTIONS.iter().enumerate() {
        if let Some(paper) = paper {
            let here = format!("{:.2}", at(curve, 1.0).md);
            table.row(vec![
                format!("MD at 1 ms, {name}"),
                format!("{paper}"),
                here,
            ]);
        }
    }
    for (jitter_ms, paper) in [(0.8585, "3.3"), (0.075, "0.75")] {
        let here = format!("{:.2}", at(1, jitter_ms).er);
        let claim = format!("Er at {jitter_ms} ms, normal");
        table.row(vec![claim, paper.into(), here]);
    }
    let (uniform, normal, exponential) = (at(0, 1.0), at(1, 1.0), at(2, 1.0));
    table.row(vec![
        "MD: uniform > normal > exponential".into(),
        "yes".into(),
        yes(uniform.md > normal.md && normal.md > exponential.md),
    ]);
    table.row(vec![
        "Er: normal > uniform > exponential".into(),
        "yes".into(),
        yes(normal.er > uniform.er && uniform.er > exponential.er),
    ]);
    for (name, curve) in &curves[..3] {
        let tail = || curve.iter().filter(|p| p.jitter_ms >= 0.5);
        let linear = correlation(tail().map(|p| (p.jitter_ms, p.md_fixed)));
        let logarithmic = correlation(tail().map(|p| (p.jitter_ms.ln(), p.er_fixed)));
        table.row(vec![
            format!("MD linear; Er logarithmic in jitter, r², {name}"),
            "1".into(),
            format!("{:.4}; {:.4}", linear, logarithmic),
        ]);
    }
    table
}

fn yes(holds: bool) -> String {
    if holds { "yes" } else { "no" }.into()
}

/// r² of a straight line through the points.
fn correlation(points: impl Iterator<Item = (f64, f64)>) -> f64 {
    let points: Vec<(f64, f64)> = points.collect();
    let n = points.len() as f64;
    let mean_x = points.iter().map(|p| p.0).sum::<f64>() / n;
    let mean_y = points.iter().map(|p| p.1).sum::<f64>() / n;
    let sum = |f: &dyn Fn(f64, f64) -> f64| -> f64 {
        points.iter().map(|&(x, y)| f(x - mean_x, y - mean_y)).sum()
    };
    sum(&|x, y| x * y).powi(2) / (sum(&|x, _| x * x) * sum(&|_, y| y * y))
}

fn charts(output: &Output, golden: &Golden, curves: &[(&str, Vec<Point>)]) {
    let series = |value: fn(&Point) -> f64, golden_value: fn(&GoldenPoint) -> f64| {
        let lines = curves.iter().map(|(name, curve)| Series {
            name: (*name).into(),
            mark: Mark::Line,
            points: curve.iter().map(|p| (p.jitter_ms, value(p))).collect(),
        });
        let dots = DISTRIBUTIONS.iter().flat_map(|(key, ..)| {
            let points = golden.table[*key].iter();
            points.filter_map(|(jitter, point)| Some((jitter.parse().ok()?, golden_value(point))))
        });
        let reference = Series {
            name: "golden values".into(),
            mark: Mark::Dots,
            points: dots.collect(),
        };
        lines.chain([reference]).collect()
    };
    let displacement = Chart {
        title: "Mean displacement against jitter (65,535 packets at 8,235/s, DT = 200)",
        x_label: "jitter: standard deviation of delay, ms",
        y_label: "mean displacement, packets",
        x_log: false,
        y_log: false,
        series: series(|p| p.md_fixed, |g| g.md_fixed),
    };
    output.write("mean_displacement.svg", &displacement.svg());
    let entropy = Chart {
        title: "Entropy of Reorder Density against jitter",
        x_label: "jitter: standard deviation of delay, ms (logarithmic)",
        y_label: "entropy, nats",
        x_log: true,
        y_log: false,
        series: series(|p| p.er_fixed, |g| g.er_fixed),
    };
    output.write("entropy.svg", &entropy.svg());
}

/// RD and RBD at the jitter of the paper's Figures 2 and 3.
fn histograms(output: &Output) {
    const JITTER_MS: f64 = 1.2475;
    let reports: Vec<(&str, OrderReport)> = DISTRIBUTIONS[..3]
        .iter()
        .map(|(key, name, _)| (*name, measure(key, JITTER_MS, Form::Corrected, 1)))
        .collect();
    let density = |(name, report): &(&str, OrderReport)| Series {
        name: (*name).into(),
        mark: Mark::Line,
        points: report
            .density
            .density()
            .map(|(d, share)| (f64::from(d), share))
            .collect(),
    };
    let rd = Chart {
        title: "Reorder Density at 1.2475 ms of jitter",
        x_label: "displacement D, packets (below 0 early, above 0 late)",
        y_label: "RD[D]",
        x_log: false,
        y_log: false,
        series: reports.iter().map(density).collect(),
    };
    output.write("rd.svg", &rd.svg());
    let occupancy = |(name, report): &(&str, OrderReport)| Series {
        name: (*name).into(),
        mark: Mark::Line,
        points: report
            .occupancy
            .density()
            .map(|(b, share)| (f64::from(b), share))
            .collect(),
    };
    let rbd = Chart {
        title: "Reorder Buffer-occupancy Density at 1.2475 ms of jitter",
        x_label: "packets in the buffer",
        y_label: "RBD[B]",
        x_log: false,
        y_log: false,
        series: reports.iter().map(occupancy).collect(),
    };
    output.write("rbd.svg", &rbd.svg());
}

//! The Reorder Density paper's curves, from the link model and the order meter: a quick subset of
//! `benches/papers/reorder_density.rs`, against the golden values of `tests/vectors`.

use std::collections::BTreeMap;

use mpt_core::metrics::{Form, MeterConfig, OrderReport};
use mpt_sim::delay::{Delay, MS};
use mpt_sim::link::{LinkConfig, Order};
use mpt_sim::stream::Stream;
use serde::Deserialize;

#[derive(Deserialize)]
struct Golden {
    table: BTreeMap<String, BTreeMap<String, Point>>,
}

/// Means over seeds; `*_sd` are the standard deviations over seeds.
#[derive(Deserialize)]
#[allow(non_snake_case, reason = "field names of the golden file")]
struct Point {
    MD: f64,
    MD_sd: f64,
    Er: f64,
    Er_sd: f64,
    MD_fixed: f64,
    MD_fixed_sd: Option<f64>,
    Er_fixed: f64,
    rfc4737_ratio: f64,
    n3_ratio: f64,
    rbd_mean: f64,
}

fn delay(distribution: &str, sd_ns: u64) -> Delay {
    let (mean_ns, least_ns) = (100 * MS, 100 * MS);
    match distribution {
        "uniform_std" => Delay::Uniform { mean_ns, sd_ns },
        "normal_std" => Delay::Normal { mean_ns, sd_ns },
        "exp_std" => Delay::Exponential { least_ns, sd_ns },
        "exp_trunc4_pdf" => Delay::ExponentialCut { least_ns, sd_ns },
        other => panic!("unknown distribution {other}"),
    }
}

fn measure(delay: Delay, form: Form) -> OrderReport {
    let link = LinkConfig {
        delay,
        order: Order::ByDelay,
        mtu: 1518,
        ..LinkConfig::default()
    };
    let meter = MeterConfig {
        form,
        // The golden occupancies are those of a buffer that never overflows.
        occupancy_threshold: 2000,
        ..MeterConfig::default()
    };
    Stream::REORDER_DENSITY.measure(link, 1, meter).0
}

/// Each golden value is a mean over six seeds. One run must lie within the file's tolerances (MD
/// 1.5 % from 0.5 ms of jitter and 4 % below, entropy 0.02) or, where the values themselves scatter
/// more than that, within three standard deviations over seeds.
fn assert_near(what: &str, value: f64, golden: f64, tolerance: f64, sd: f64) {
    let allowed = tolerance.max(3.0 * sd);
    assert!(
        (value - golden).abs() <= allowed + 1e-9,
        "{what}: {value} is not {golden} ± {allowed}"
    );
}

#[test]
fn every_distribution_and_jitter_gives_the_golden_metrics() {
    let text = include_str!("vectors/jitter-golden.json");
    let golden: Golden = serde_json::from_str(text).unwrap();
    for (distribution, points) in &golden.table {
        for (jitter_ms, point) in points {
            let at = format!("{distribution} {jitter_ms} ms");
            let jitter: f64 = jitter_ms.parse().unwrap();
            let share = if jitter >= 0.5 { 0.015 } else { 0.04 };
            let delay = delay(distribution, (jitter * MS as f64) as u64);

            let literal = measure(delay, Form::Literal).density;
            let (md, er) = (literal.mean_displacement, literal.entropy_nats);
            assert_near(
                &format!("{at} MD"),
                md,
                point.MD,
                share * point.MD,
                point.MD_sd,
            );
            assert_near(&format!("{at} Er"), er, point.Er, 0.02, point.Er_sd);

            let report = measure(delay, Form::Corrected);
            let (md, er) = (
                report.density.mean_displacement,
                report.density.entropy_nats,
            );
            let sd = point.MD_fixed_sd.unwrap_or(point.MD_sd);
            assert_near(
                &format!("{at} MD"),
                md,
                point.MD_fixed,
                share * point.MD_fixed,
                sd,
            );
            assert_near(&format!("{at} Er"), er, point.Er_fixed, 0.02, 0.0);

            let (ratio, n3) = (report.reordering.ratio, report.reordering.n_reordering(3));
            assert_near(
                &format!("{at} ratio"),
                ratio,
                point.rfc4737_ratio,
                0.005,
                0.0,
            );
            assert_near(&format!("{at} n = 3"), n3, point.n3_ratio, 0.005, 0.0);
            let rbd = report.occupancy.mean;
            let allowed = 0.03 * point.rbd_mean + 0.003;
            assert_near(&format!("{at} RBD"), rbd, point.rbd_mean, allowed, 0.0);
        }
    }
}

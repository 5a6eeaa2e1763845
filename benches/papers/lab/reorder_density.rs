//! "Packet Reordering Metrics to Enable Performance Comparison in IP-Networks" (Torres-Jr, Ribeiro,
//! 2020), over netem: the method itself by `mpt-ctl measure`, and real TCP against the disorder.
//!
//! The path has 100 ms of delay and normal jitter, as in the paper. Its bottleneck is at A: for the
//! numbered packets their own rate, 8,235 a second; for TCP 100 Mbit/s and a queue of 1,000 packets.

use std::collections::BTreeMap;
use std::time::Duration;

use net::process::program;
use net::settings::Side;
use net::{Hosts, Namespace, Process, Shape, wait_for};
use serde_json::Value;

use crate::Line;
use crate::case::{Case, Outcome, Outcomes, cell, number, outcome};
use crate::plot::{self, Chart, Mark};
use crate::report::{Output, Table};
use crate::tcp::{Flows, Tcp};

/// Jitters of the five measurements, standard deviations in milliseconds.
const MEASURED_MS: [&str; 5] = ["0.25", "1.0", "1.2475", "2.0", "5.0"];
/// Jitters that TCP is exposed to.
const EXPOSED_MS: [&str; 6] = ["0.025", "0.075", "0.25", "1.0", "2.0", "5.0"];
const CONGESTION: [&str; 5] = ["cubic", "bic", "highspeed", "westwood", "yeah"];
/// What is measured of each congestion control: which TCP, over which jitters, and the tunnel's window.
const SERIES: [Series; 4] = [
    Series {
        name: "dupthresh 3",
        jitters_ms: &EXPOSED_MS,
        tcp: |congestion| Tcp::classic(congestion, true, 3),
        window: 0,
    },
    Series {
        name: "adapting",
        jitters_ms: &["5.0"],
        tcp: Tcp::before_rack,
        window: 0,
    },
    Series {
        name: "today",
        jitters_ms: &["1.0", "5.0"],
        tcp: Tcp::today,
        window: 0,
    },
    Series {
        name: "restored",
        jitters_ms: &["1.0", "5.0"],
        tcp: |congestion| Tcp::classic(congestion, true, 3),
        window: 2048,
    },
];

/// One kind of TCP, over some jitters.
struct Series {
    name: &'static str,
    jitters_ms: &'static [&'static str],
    tcp: fn(&'static str) -> Tcp,
    /// Of the tunnel, in packets; 0 leaves the order as it is.
    window: u32,
}

const TIME: Duration = Duration::from_secs(6);
/// Slow start over a round trip of 100 ms.
const WARM_UP: Duration = Duration::from_secs(3);
/// A flow before the one that is measured, where the tunnel restores the order.
const LEARNING: Duration = Duration::from_secs(2);
/// Largest difference to the simulated value, as a fraction of it.
const TOLERANCE: f64 = 0.05;

pub(crate) fn cases() -> Vec<Case> {
    let measured = MEASURED_MS.map(|jitter_ms| {
        Case::new(format!("measure/{jitter_ms}"), 12, move || {
            measure(jitter_ms)
        })
    });
    let exposed = CONGESTION.iter().flat_map(|&congestion| {
        SERIES.iter().flat_map(move |series| {
            series.jitters_ms.iter().map(move |&jitter_ms| {
                let case = format!("tcp/{congestion}/{jitter_ms}/{}", series.name);
                Case::new(case.replace(' ', "-"), 14, move || {
                    expose((series.tcp)(congestion), jitter_ms, series.window)
                })
            })
        })
    });
    measured.into_iter().chain(exposed).collect()
}

fn delay(jitter_ms: &str) -> String {
    format!("delay 100ms {jitter_ms}ms distribution normal")
}

/// The paper's method: 65,535 frames of 1,518 bytes at 8,235 a second, DT = 200.
fn measure(jitter_ms: &str) -> Outcome {
    let unlimited = Shape::unshaped();
    let Hosts { links, a, b } = Line::new(&unlimited, &delay(jitter_ms), &unlimited).hosts;
    let mut receiver = ctl(&b, "receive --wait 20s");
    wait_for("a receiver", Duration::from_secs(5), || {
        let tables = ["udp", "udp6"].map(|table| receiver.proc_file(&format!("net/{table}")));
        // Port 5236.
        tables.concat().contains(":1474 ").then_some(())
    });
    let mut sender = ctl(&a, &format!("send {}", links[0].address_b));
    let patience = Duration::from_secs(60);
    for process in [&mut sender, &mut receiver] {
        assert!(process.wait(patience).success(), "{}", process.log());
    }
    let report: Value = serde_json::from_str(&receiver.stdout()).expect("mpt-ctl's JSON");
    let stream = &report["streams"][0];
    let at = |path: &str| {
        stream
            .pointer(path)
            .and_then(Value::as_f64)
            .unwrap_or(f64::NAN)
    };
    outcome([
        ("received", at("/received")),
        ("sent_pps", at("/sent_pps")),
        ("md", at("/order/density/mean_displacement")),
        ("entropy", at("/order/density/entropy_nats")),
        ("ratio", at("/order/reordering/ratio")),
    ])
}

fn ctl(host: &Namespace, words: &str) -> Process {
    let program = program("mpt-ctl");
    host.start(&format!("{} --json measure {words}", program.display()))
}

/// One TCP flow through a tunnel over the path.
fn expose(tcp: Tcp, jitter_ms: &str, window: u32) -> Outcome {
    let line = Line::new(&Shape::mbps(100.0), &delay(jitter_ms), &Shape::unshaped());
    let tunnel = line.tunnel(window, 300);
    let flow = Flows {
        target: Side::B.inner_v4(),
        count: 1,
        time: TIME,
        warm_up: WARM_UP,
    };
    if window > 0 {
        // Of this one the tunnel learns how far packets overtake each other.
        let first = Flows {
            time: LEARNING,
            ..flow
        };
        let _ = first.run(&tunnel.hosts, Tcp::today("cubic"));
    }
    let mut outcome = flow.run(&tunnel.hosts, tcp);
    outcome.insert("limit".into(), tunnel.limit_mbps(net::Family::V4));
    outcome
}

/// Simulated values of normal jitter: mean displacement and entropy, after the repaired algorithm.
fn golden() -> BTreeMap<String, (f64, f64)> {
    let text = include_str!("../../../tests/vectors/jitter-golden.json");
    let golden: Value = serde_json::from_str(text).expect("the golden file is JSON");
    let points = golden["table"]["normal_std"].as_object();
    let points = points.expect("values of normal jitter").iter();
    let value = |point: &Value, name: &str| point[name].as_f64().unwrap_or(f64::NAN);
    points
        .map(|(jitter, point)| {
            let values = (value(point, "MD_fixed"), value(point, "Er_fixed"));
            (jitter.clone(), values)
        })
        .collect()
}

pub(crate) fn report(outcomes: &Outcomes, output: &Output) -> Vec<String> {
    let golden = golden();
    let outside = report_measured(outcomes, output, &golden);
    report_throughput(outcomes, output, &golden);
    outside
}

fn report_measured(
    outcomes: &Outcomes,
    output: &Output,
    golden: &BTreeMap<String, (f64, f64)>,
) -> Vec<String> {
    let mut outside = Vec::new();
    let mut table = Table::new(&[
        "jitter ms",
        "received",
        "MD measured",
        "MD simulated",
        "difference %",
        "Er measured",
        "Er simulated",
        "difference %",
        "reordered ratio",
    ]);
    for jitter_ms in MEASURED_MS {
        let case = format!("measure/{jitter_ms}");
        let Some(outcome) = outcomes.get(&case) else {
            continue;
        };
        let mut cells = vec![jitter_ms.to_owned(), format!("{}", outcome["received"])];
        let (md, entropy) = golden[jitter_ms];
        for (name, expected) in [("md", md), ("entropy", entropy)] {
            let difference = outcome[name] / expected - 1.0;
            cells.extend([
                format!("{:.3}", outcome[name]),
                format!("{expected:.3}"),
                format!("{:+.1}", 100.0 * difference),
            ]);
            if difference.is_nan() || difference.abs() > TOLERANCE {
                outside.push(format!("{case}: {name} is {:.4}", outcome[name]));
            }
        }
        cells.push(format!("{:.4}", outcome["ratio"]));
        table.row(cells);
    }
    output.table("lab_measure", &table);
    outside
}

fn report_throughput(outcomes: &Outcomes, output: &Output, golden: &BTreeMap<String, (f64, f64)>) {
    let mut heading = vec!["TCP", "jitter ms", "entropy"];
    heading.extend(CONGESTION);
    let mut table = Table::new(&heading);
    let share = |congestion: &str, jitter_ms: &str, series: &Series| {
        let case = format!("tcp/{congestion}/{jitter_ms}/{}", series.name).replace(' ', "-");
        let limit = number(outcomes, &case, "limit")?;
        Some(100.0 * number(outcomes, &case, "mbps")? / limit)
    };
    for series in &SERIES {
        for jitter_ms in series.jitters_ms {
            let entropy = golden[*jitter_ms].1;
            let mut cells = vec![
                series.name.to_owned(),
                (*jitter_ms).to_owned(),
                format!("{entropy:.2}"),
            ];
            cells.extend(CONGESTION.map(|name| cell(share(name, jitter_ms, series), 1)));
            table.row(cells);
        }
    }
    output.table("lab_throughput", &table);
    let line = |congestion: &str, series: &Series, mark| plot::Series {
        name: format!("{congestion}, {}", series.name),
        mark,
        points: series
            .jitters_ms
            .iter()
            .filter_map(|jitter_ms| {
                Some((golden[*jitter_ms].1, share(congestion, jitter_ms, series)?))
            })
            .collect(),
    };
    let [exposed, .., restored] = &SERIES;
    let exposed = CONGESTION.map(|name| line(name, exposed, Mark::Line));
    let others = [&SERIES[1], &SERIES[2], restored].map(|series| line("cubic", series, Mark::Dots));
    let chart = Chart {
        title: "TCP against entropy, 100 Mbit/s, round trip 100 ms, normal jitter",
        x_label: "entropy of Reorder Density at 8,235 packets/s, nats",
        y_label: "throughput, % of the limit",
        x_log: false,
        y_log: false,
        series: exposed.into_iter().chain(others).collect(),
    };
    output.write("lab_throughput.svg", &chart.svg());
}

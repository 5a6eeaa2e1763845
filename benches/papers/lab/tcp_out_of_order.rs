//! "Modeling and Simulation of Out-of-Order Impact in TCP Protocol" (Kadry, Al-Issa), over netem: one
//! flow over 3 Mbit/s and a path whose delay keeps changing, with the tunnel's reordering off and on.
//!
//! The TCPs are the paper's: Reno with and without SACK, and Vegas, with a fixed duplicate-ACK threshold and
//! nothing of what Linux has learnt since (RACK, D-SACK, an adapting threshold). Linux as it is today is
//! measured beside them. Queue and rate are the paper's, 300 packets and 3 Mbit/s; acknowledgements
//! return over 50 ms; the flow's window is one that the queue can hold.

use std::time::Duration;

use net::settings::Side;
use net::{Family, Shape};

use crate::Line;
use crate::case::{Case, Outcome, Outcomes, cell, number, outcome};
use crate::plot::{Chart, Mark, Series};
use crate::report::{Output, Table};
use crate::switching::Switching;
use crate::tcp::{Flows, Tcp};

const BETA_MS: f64 = 250.0;
const ALPHAS: [&str; 3] = ["0.2", "1.0", "2.0"];
/// Of the experiments over thresholds.
const THRESHOLD_ALPHA: &str = "1.0";
const THRESHOLDS: [u32; 3] = [3, 10, 18];
const TIME: Duration = Duration::from_secs(60);
const WARM_UP: Duration = Duration::from_secs(10);
const TUNNELS: [(&str, u32); 2] = [("off", 0), ("on", 2048)];
/// Delays differ by half a second at α = 2, and packets wait as long for what was sent before them.
const MAX_BUFFER_DELAY_MS: u32 = 1500;

/// What B's receive buffer may take, in bytes; half to two thirds of it are offered as window: 200 to
/// 270 segments, 75 of them under way at the mean delay. The paper's 500 overflow its queue of 300,
/// and then it is loss that is measured: 300 segments lost at once take a Reno without SACK 300
/// round trips.
const RECEIVE_MEMORY: u32 = 2 * 200 * 1412;

/// The TCPs, by name: Reno without and with SACK, Vegas, and Linux' own.
const VARIANTS: [&str; 4] = ["reno", "reno+sack", "vegas", "today"];

/// The paper's values by threshold at α = 1, β = 250 ms, each of NewReno and of SACK.
struct Printed {
    threshold: u32,
    mbps: [f64; 2],
    /// Fast retransmits in per cent; not printed for 18.
    fast: Option<[f64; 2]>,
}

const PAPER: [Printed; 3] = [
    Printed {
        threshold: 3,
        mbps: [0.54, 0.6],
        fast: Some([9.0, 3.5]),
    },
    Printed {
        threshold: 10,
        mbps: [1.1, 1.1],
        fast: Some([4.0, 1.0]),
    },
    Printed {
        threshold: 18,
        mbps: [1.8, 2.0],
        fast: None,
    },
];

fn tcp(variant: &str, dupthresh: u32) -> Tcp {
    match variant {
        "reno" => Tcp::classic("reno", false, dupthresh),
        "reno+sack" => Tcp::classic("reno", true, dupthresh),
        "vegas" => Tcp::classic("vegas", true, dupthresh),
        _ => Tcp::today("cubic"),
    }
}

pub(crate) fn cases() -> Vec<Case> {
    let by_alpha = ALPHAS.iter().flat_map(|&alpha| {
        VARIANTS.iter().flat_map(move |&variant| {
            TUNNELS.map(|(tunnel, window)| {
                Case::new(format!("alpha/{alpha}/{variant}/{tunnel}"), 7, move || {
                    measure(alpha, tcp(variant, 3), window)
                })
            })
        })
    });
    let by_threshold = THRESHOLDS.iter().filter(|n| **n != 3).flat_map(|&n| {
        VARIANTS[..2].iter().flat_map(move |&variant| {
            TUNNELS.map(|(tunnel, window)| {
                Case::new(format!("dupthresh/{n}/{variant}/{tunnel}"), 7, move || {
                    measure(THRESHOLD_ALPHA, tcp(variant, n), window)
                })
            })
        })
    });
    by_alpha.chain(by_threshold).collect()
}

fn measure(alpha: &str, tcp: Tcp, window: u32) -> Outcome {
    let rate = Shape::mbps(3.0).queue(300);
    let line = Line::new(&rate, "delay 50ms", &Shape::unshaped().delay_ms(50));
    let tunnel = line.tunnel(window, MAX_BUFFER_DELAY_MS);
    let path = Switching {
        alpha: alpha.parse().expect("a number"),
        beta_ms: BETA_MS,
    };
    let memory = format!("4096 131072 {RECEIVE_MEMORY}");
    tunnel.hosts.b.sysctl("net.ipv4.tcp_rmem", &memory);
    let changes = path.start(&tunnel.hosts, 1);
    std::thread::sleep(Duration::from_secs(5));
    let flow = Flows {
        target: Side::B.inner_v4(),
        count: 1,
        time: TIME,
        warm_up: WARM_UP,
    };
    let before = Line::queue_drops(&tunnel.hosts);
    let mut numbers = flow.run(&tunnel.hosts, tcp);
    let dropped = (Line::queue_drops(&tunnel.hosts) - before) as f64;
    drop(changes);
    numbers.extend(outcome([
        ("dropped", dropped),
        ("limit", tunnel.limit_mbps(Family::V4)),
    ]));
    numbers
}

pub(crate) fn report(outcomes: &Outcomes, output: &Output) -> Vec<String> {
    let mut table = Table::new(&[
        "α",
        "TCP",
        "off: Mbit/s",
        "fast retransmits %",
        "needless %",
        "on: Mbit/s",
        "fast retransmits %",
        "needless %",
    ]);
    for alpha in ALPHAS {
        for variant in VARIANTS {
            let mut cells = vec![alpha.to_owned(), variant.to_owned()];
            for (tunnel, _) in TUNNELS {
                cells.extend(three(
                    outcomes,
                    &format!("alpha/{alpha}/{variant}/{tunnel}"),
                ));
            }
            table.row(cells);
        }
    }
    output.table("lab_alpha", &table);
    output.write("lab_alpha.svg", &alpha_chart(outcomes).svg());

    let mut table = Table::new(&[
        "dupthresh",
        "TCP",
        "off: Mbit/s",
        "fast retransmits %",
        "needless %",
        "on: Mbit/s",
        "fast retransmits %",
        "needless %",
        "paper, off: Mbit/s",
        "fast retransmits %",
    ]);
    for n in THRESHOLDS {
        for variant in &VARIANTS[..2] {
            let mut cells = vec![n.to_string(), (*variant).to_owned()];
            for (tunnel, _) in TUNNELS {
                cells.extend(three(outcomes, &threshold_case(n, variant, tunnel)));
            }
            let sack = usize::from(*variant != "reno");
            let paper = PAPER.iter().find(|printed| printed.threshold == n);
            cells.extend([
                cell(paper.map(|printed| printed.mbps[sack]), 2),
                cell(paper.and_then(|printed| Some(printed.fast?[sack])), 1),
            ]);
            table.row(cells);
        }
    }
    output.table("lab_dupthresh", &table);
    output.write("lab_dupthresh.svg", &threshold_chart(outcomes).svg());
    outcomes.iter().filter_map(outside).collect()
}

/// With the order restored next to nothing is sent again, and the link is full. Not so for Vegas, which
/// takes the hold for a queue, and at α = 2, where one fall of the delay in a few exceeds all of the
/// last seconds, from which the tunnel learns how long to wait.
fn outside((case, outcome): (&String, &Outcome)) -> Option<String> {
    if !case.ends_with("/on") || case.contains("vegas") || case.contains("/2.0/") {
        return None;
    }
    let full = outcome["mbps"] >= 0.97 * outcome["limit"];
    let calm = outcome["fast"] <= 0.002 * outcome["segments"];
    let line = || {
        format!(
            "{case}: {:.2} Mbit/s, {} fast retransmits",
            outcome["mbps"], outcome["fast"]
        )
    };
    (!full || !calm).then(line)
}

fn threshold_case(n: u32, variant: &str, tunnel: &str) -> String {
    match n {
        3 => format!("alpha/{THRESHOLD_ALPHA}/{variant}/{tunnel}"),
        _ => format!("dupthresh/{n}/{variant}/{tunnel}"),
    }
}

/// Throughput; fast retransmits in per cent of segments; what was sent again beyond what the queue
/// had dropped, likewise.
fn three(outcomes: &Outcomes, case: &str) -> [String; 3] {
    let of = |name| number(outcomes, case, name);
    let share = |count: Option<f64>| {
        let (count, all) = count.zip(of("segments"))?;
        Some(100.0 * count / all)
    };
    let needless = of("retransmits")
        .zip(of("dropped"))
        .map(|(sent_again, dropped)| (sent_again - dropped).max(0.0));
    [
        cell(of("mbps"), 2),
        cell(share(of("fast")), 2),
        cell(share(needless), 2),
    ]
}

fn alpha_chart(outcomes: &Outcomes) -> Chart<'static> {
    let series = TUNNELS.iter().flat_map(|&(tunnel, window)| {
        VARIANTS.map(|variant| Series {
            name: format!("{variant}, reordering {tunnel}"),
            mark: if window == 0 { Mark::Line } else { Mark::Dots },
            points: ALPHAS
                .iter()
                .filter_map(|alpha| {
                    let case = format!("alpha/{alpha}/{variant}/{tunnel}");
                    Some((alpha.parse().ok()?, number(outcomes, &case, "mbps")?))
                })
                .collect(),
        })
    });
    Chart {
        title: "TCP over a path of changing delay, 3 Mbit/s, β = 250 ms",
        x_label: "α",
        y_label: "throughput, Mbit/s",
        x_log: false,
        y_log: false,
        series: series.collect(),
    }
}

fn threshold_chart(outcomes: &Outcomes) -> Chart<'static> {
    let here = TUNNELS.iter().flat_map(|&(tunnel, _)| {
        VARIANTS[..2].iter().map(move |&variant| Series {
            name: format!("{variant}, reordering {tunnel}"),
            mark: Mark::Line,
            points: THRESHOLDS
                .iter()
                .filter_map(|&n| {
                    let case = threshold_case(n, variant, tunnel);
                    Some((f64::from(n), number(outcomes, &case, "mbps")?))
                })
                .collect(),
        })
    });
    let paper = Series {
        name: "the paper, SACK".into(),
        mark: Mark::Dots,
        points: PAPER
            .iter()
            .map(|printed| (f64::from(printed.threshold), printed.mbps[1]))
            .collect(),
    };
    Chart {
        title: "TCP against its duplicate-ACK threshold, α = 1, β = 250 ms, 3 Mbit/s",
        x_label: "duplicate acknowledgements taken for a loss",
        y_label: "throughput, Mbit/s",
        x_log: false,
        y_log: false,
        series: here.chain([paper]).collect(),
    }
}

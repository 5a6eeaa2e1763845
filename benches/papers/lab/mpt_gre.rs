//! "On the Impact of Packet Reordering in MPT-GRE Multipath Networks" (Al-Imareen, Lencse): one TCP
//! flow over 100 Mbit/s and a second path of less rate and more delay.
//!
//! *The paper's regime* is the original's: `late = "drop"`, weights as the rates, a fixed window, 300
//! ms, packet by packet. Table I varies the window over 100 + 50 Mbit/s; Fig. 4 and 5 vary the second
//! path's rate with windows of 900 and 0. Beside it the same with MPT's own defaults. Table II, how
//! long a flow takes to get there, comes from the same runs as Table I.
//!
//! Where the window is too small the paper's numbers follow W·MSS·8/2d, and so must ours; where it
//! suffices the flow must reach 97 % of what the links carry.

use std::time::Duration;

use net::settings::Side;
use net::{Family, Hosts, Settings, Shape};

use crate::case::{Case, Outcome, Outcomes, cell, number, outcome};
use crate::plot::{Chart, Mark, Series};
use crate::report::{Output, Table};
use crate::tcp::{Flows, Tcp};

const DELAYS_MS: [u32; 5] = [10, 20, 30, 40, 50];
const WINDOWS: [u32; 7] = [25, 50, 100, 200, 400, 800, 1600];
const RATES: [u32; 4] = [10, 40, 70, 100];
/// The window of Fig. 4 and that of Fig. 5.
const FIGURE_WINDOWS: [u32; 2] = [900, 0];
const FIGURE_DELAYS_MS: [u32; 3] = [10, 30, 50];
/// When a flow has left slow start, and has recovered from what that lost, at each delay.
const SETTLED_S: [u32; 5] = [5, 3, 5, 8, 8];
/// How long a run takes whose window does not suffice.
const LIMITED_S: u32 = 12;
/// What counts of a run whose window suffices: its end.
const STEADY_S: u32 = 3;
/// What does not count of one whose window does not: its beginning.
const BEGINNING_S: u32 = 3;
/// Inner packets of 1464 bytes carry so much.
const MSS: f64 = 1412.0;

/// What explains Fig. 4 and 5: how packets are sent, the TCP, the window, the second path's rate and
/// delay, seconds.
const CAUSES: [(Regime, &str, u32, u32, u32, u32); 25] = [
    (Regime::Trains, "today", 900, 40, 30, 30),
    (Regime::Trains, "today", 900, 100, 30, 30),
    (Regime::Trains, "today", 900, 100, 50, 30),
    (Regime::Trains, "today", 0, 10, 10, LIMITED_S),
    (Regime::Paper, "today", 0, 10, 10, LIMITED_S),
    (Regime::Trains, "adapting", 0, 10, 10, LIMITED_S),
    (Regime::Trains, "today, no undo", 0, 10, 10, LIMITED_S),
    (Regime::Trains, "dupthresh 3", 0, 10, 10, LIMITED_S),
    (Regime::Trains, "dupthresh 3", 0, 10, 30, LIMITED_S),
    (Regime::Trains, "dupthresh 3", 0, 10, 50, LIMITED_S),
    (Regime::Trains, "today", 0, 40, 10, LIMITED_S),
    (Regime::Paper, "today", 0, 40, 10, LIMITED_S),
    (Regime::Trains, "adapting", 0, 40, 10, LIMITED_S),
    (Regime::Trains, "dupthresh 3", 0, 40, 10, LIMITED_S),
    (Regime::Trains, "today", 0, 40, 10, 60),
    (Regime::Trains, "today", 0, 40, 30, LIMITED_S),
    (Regime::Paper, "today", 0, 40, 30, LIMITED_S),
    (Regime::Trains, "adapting", 0, 40, 30, LIMITED_S),
    (Regime::Trains, "today, no undo", 0, 40, 30, LIMITED_S),
    (Regime::Trains, "dupthresh 3", 0, 40, 30, LIMITED_S),
    (Regime::Trains, "today", 0, 100, 50, LIMITED_S),
    (Regime::Paper, "today", 0, 100, 50, LIMITED_S),
    (Regime::Trains, "adapting", 0, 100, 50, LIMITED_S),
    (Regime::Trains, "dupthresh 3", 0, 100, 50, LIMITED_S),
    (Regime::Trains, "today", 0, 100, 50, 60),
];

/// Table I, Mbit/s: a row for each window, a column for each delay.
const TABLE_1: [[f64; 5]; 7] = [
    [15.3, 7.43, 4.98, 3.83, 2.95],
    [28.1, 13.9, 9.88, 8.69, 5.54],
    [55.4, 26.5, 17.9, 14.2, 11.2],
    [137.0, 65.6, 35.7, 25.6, 21.1],
    [137.0, 136.0, 134.0, 62.1, 41.0],
    [137.0, 136.0, 134.0, 132.0, 130.0],
    [137.0, 136.0, 134.0, 132.0, 129.0],
];

/// Table II, seconds.
const TABLE_2: [[u32; 5]; 7] = [
    [0, 0, 0, 0, 0],
    [0, 0, 0, 0, 1],
    [0, 0, 0, 1, 2],
    [1, 1, 1, 2, 3],
    [1, 2, 3, 3, 4],
    [1, 2, 3, 5, 7],
    [1, 2, 3, 5, 8],
];

/// What the flow falls short of the sum, by the paper's text: window, second path's rate, its delay,
/// Mbit/s.
const FIGURES_SHORT: [(u32, u32, u32, f64); 6] = [
    (900, 40, 10, 1.0),
    (900, 40, 30, 5.0),
    (900, 40, 50, 8.0),
    (0, 10, 10, 70.6),
    (0, 10, 30, 72.0),
    (0, 10, 50, 75.1),
];

pub(crate) fn cases() -> Vec<Case> {
    let table = |regime: Regime| {
        WINDOWS.into_iter().flat_map(move |window| {
            DELAYS_MS.map(|delay_ms| {
                let seconds = seconds(window, delay_ms);
                let case = format!("{}/{window}/{delay_ms}", regime.name());
                Case::new(case, cost_s(seconds), move || {
                    measure(regime, Some(window), 50, delay_ms, seconds)
                })
            })
        })
    };
    let automatic = DELAYS_MS.into_iter().map(|delay_ms| {
        let seconds = seconds(1600, delay_ms);
        let case = format!("defaults/auto/{delay_ms}");
        Case::new(case, cost_s(seconds), move || {
            measure(Regime::Defaults, None, 50, delay_ms, seconds)
        })
    });
    let figures = FIGURE_WINDOWS.into_iter().flat_map(|window| {
        RATES.into_iter().flat_map(move |rate| {
            FIGURE_DELAYS_MS.map(|delay_ms| {
                let seconds = seconds(window, delay_ms);
                let case = format!("{}/{window}/{rate}/{delay_ms}", Regime::Trains.name());
                Case::new(case, cost_s(seconds), move || {
                    measure(Regime::Trains, Some(window), rate, delay_ms, seconds)
                })
            })
        })
    });
    let causes = CAUSES.into_iter().map(|cause| {
        let (regime, sender, window, rate, delay_ms, seconds) = cause;
        Case::new(cause_case(cause), cost_s(seconds), move || {
            let tcp = match sender {
                "today" => Tcp::today("cubic"),
                "today, no undo" => Tcp::without_undo("cubic"),
                "adapting" => Tcp::before_rack("cubic"),
                _ => Tcp::classic("cubic", true, 3),
            };
            measure_with(tcp, regime, Some(window), rate, delay_ms, seconds)
        })
    });
    table(Regime::Paper)
        .chain(table(Regime::Defaults))
        .chain(automatic)
        .chain(figures)
        .chain(causes)
        .collect()
}

fn cause_case(cause: (Regime, &str, u32, u32, u32, u32)) -> String {
    let (regime, sender, window, rate, delay_ms, seconds) = cause;
    let (sends, sender) = (regime.sends(), sender.replace([',', ' '], ""));
    format!("cause/{sends}/{sender}/{window}/{rate}/{delay_ms}/{seconds}")
}

/// How long a run takes: where the window suffices until a flow has settled, and [`STEADY_S`] more.
fn seconds(window: u32, delay_ms: u32) -> u32 {
    let settled = DELAYS_MS.iter().zip(SETTLED_S);
    settled
        .filter(|_| window_suffices(window, delay_ms))
        .find_map(|(delay, seconds)| (*delay == delay_ms).then_some(seconds + STEADY_S))
        .unwrap_or(LIMITED_S)
}

/// What a run costs: full links take three times as long as in the lab's own time.
fn cost_s(seconds: u32) -> u32 {
    if seconds == LIMITED_S { 9 } else { 3 * seconds }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Regime {
    /// As the original: packet by packet, so that also a window that just suffices does.
    Paper,
    /// The same with trains, which cost less.
    Trains,
    Defaults,
}

impl Regime {
    fn name(self) -> &'static str {
        match self {
            Self::Paper => "paper",
            Self::Trains => "figure",
            Self::Defaults => "defaults",
        }
    }

    fn sends(self) -> &'static str {
        match self {
            Self::Paper => "packets",
            Self::Trains | Self::Defaults => "trains",
        }
    }

    fn settings(self, window: Option<u32>, rate: u32) -> Settings {
        let paper = |offload: &str| {
            Settings::new()
                .tunnel(&format!(
                    "scheduler = \"weighted\"\noffload = \"{offload}\""
                ))
                .weights(&[100, rate])
                .reorder(window.unwrap_or_default(), 300)
                .reorder_lines("late = \"drop\"")
        };
        match (self, window) {
            (Self::Paper, _) => paper("off"),
            (Self::Trains, _) => paper("auto"),
            (Self::Defaults, Some(window)) => {
                Settings::new().reorder_lines(&format!("window = {window}"))
            }
            (Self::Defaults, None) => Settings::new(),
        }
    }
}

/// One CUBIC flow over 100 Mbit/s and `rate` Mbit/s with `delay_ms` each way.
fn measure(regime: Regime, window: Option<u32>, rate: u32, delay_ms: u32, seconds: u32) -> Outcome {
    let tcp = Tcp::today("cubic");
    measure_with(tcp, regime, window, rate, delay_ms, seconds)
}

fn measure_with(
    tcp: Tcp,
    regime: Regime,
    window: Option<u32>,
    rate: u32,
    delay_ms: u32,
    seconds: u32,
) -> Outcome {
    let second = Shape::mbps(f64::from(rate)).delay_ms(u64::from(delay_ms));
    let hosts = Hosts::new(&[Shape::mbps(100.0), second]);
    let tunnel = hosts.tunnel(&regime.settings(window, rate));
    let time = Duration::from_secs(u64::from(seconds));
    let warm_up_s = if seconds == LIMITED_S || window == Some(0) {
        BEGINNING_S
    } else {
        seconds - STEADY_S
    };
    let flow = Flows {
        target: Side::B.inner_v4(),
        count: 1,
        time,
        warm_up: Duration::from_secs(u64::from(warm_up_s)),
    };
    let (mut numbers, each_second) = flow.run_by_second(&tunnel.hosts, tcp);
    let steady = numbers["mbps"];
    let settled = each_second.iter().position(|mbps| *mbps >= 0.9 * steady);
    let counters = tunnel.b.status().reorder;
    let links = tunnel.hosts.links.iter();
    let dropped: u64 = links
        .map(|link| link.counters(&tunnel.hosts.a).dropped)
        .sum();
    numbers.extend(outcome([
        ("dropped", dropped as f64),
        ("limit", tunnel.limit_mbps(Family::V4)),
        ("transient_s", settled.unwrap_or(each_second.len()) as f64),
        ("late", counters.late as f64),
        ("inferred_lost", counters.gaps_inferred_lost as f64),
        ("overflowed", counters.gaps_overflowed as f64),
        ("timed_out", counters.gaps_timed_out as f64),
    ]));
    numbers
}

/// Packets that arrive while the slow path's are under way: d · (R₁ + R₂) / 8 · 1514.
fn window_suffices(window: u32, delay_ms: u32) -> bool {
    f64::from(window) > f64::from(delay_ms) * 1e-3 * 150e6 / (8.0 * 1514.0)
}

/// What a window that is too small lets through, Mbit/s: W·MSS·8/2d.
fn model_mbps(window: u32, delay_ms: u32) -> f64 {
    f64::from(window) * MSS * 8.0 / (2.0 * f64::from(delay_ms) * 1e3)
}

pub(crate) fn report(outcomes: &Outcomes, output: &Output) -> Vec<String> {
    let outside = table_1(outcomes, output);
    grids(outcomes, output);
    figures(outcomes, output);
    causes(outcomes, output);
    output.write("lab_table_1.svg", &chart(outcomes).svg());
    outside
}

fn table_1(outcomes: &Outcomes, output: &Output) -> Vec<String> {
    let mut outside = Vec::new();
    let mut table = Table::new(&[
        "window",
        "delay ms",
        "here",
        "paper",
        "W·MSS·8/2d",
        "limit",
        "within",
    ]);
    for (window, row) in WINDOWS.iter().zip(TABLE_1) {
        for (delay_ms, paper) in DELAYS_MS.iter().zip(row) {
            let case = format!("paper/{window}/{delay_ms}");
            let Some(mbps) = number(outcomes, &case, "mbps") else {
                continue;
            };
            let limit = number(outcomes, &case, "limit");
            let model = model_mbps(*window, *delay_ms);
            let near = |expected: f64| (mbps / expected - 1.0).abs() <= 0.25;
            let suffices = window_suffices(*window, *delay_ms);
            let within = if suffices {
                limit.is_some_and(|limit| mbps >= 0.97 * limit)
            } else {
                near(paper) || near(model)
            };
            if !within {
                outside.push(format!("{case}: {mbps:.1} Mbit/s"));
            }
            table.row(vec![
                window.to_string(),
                delay_ms.to_string(),
                format!("{mbps:.1}"),
                format!("{paper}"),
                cell((!suffices).then_some(model), 1),
                cell(limit.filter(|_| suffices), 1),
                if within { "yes" } else { "NO" }.into(),
            ]);
        }
    }
    output.table("lab_table_1", &table);
    outside
}

/// Rows of windows and columns of delays, as the paper prints them; `cell` gets a case's place in
/// the paper's table, and its name.
fn grid(regime: Regime, windows: &[String], cell: impl Fn(usize, usize, &str) -> String) -> Table {
    let mut table = Table::new(&["window", "10 ms", "20 ms", "30 ms", "40 ms", "50 ms"]);
    for (row, window) in windows.iter().enumerate() {
        let cells = DELAYS_MS.iter().enumerate().map(|(column, delay_ms)| {
            let case = format!("{}/{window}/{delay_ms}", regime.name());
            cell(row, column, &case)
        });
        table.row([window.clone()].into_iter().chain(cells).collect());
    }
    table
}

/// Tables I and II as they are printed, the paper's numbers in parentheses; and Table I again with MPT's
/// own defaults, the window given or not, and how long each flow took to settle.
fn grids(outcomes: &Outcomes, output: &Output) {
    let mut windows: Vec<String> = WINDOWS.iter().map(u32::to_string).collect();
    let here = |case: &str, name: &str, digits| cell(number(outcomes, case, name), digits);
    let grid_1 = grid(Regime::Paper, &windows, |row, column, case| {
        format!("{} ({})", here(case, "mbps", 1), TABLE_1[row][column])
    });
    output.table("lab_table_1_grid", &grid_1);
    let grid_2 = grid(Regime::Paper, &windows, |row, column, case| {
        format!(
            "{} ({})",
            here(case, "transient_s", 0),
            TABLE_2[row][column]
        )
    });
    output.table("lab_table_2", &grid_2);
    windows.push("auto".into());
    let defaults = grid(Regime::Defaults, &windows, |row, column, case| {
        // What MPT finds by itself stands beside the paper's largest window.
        let row = row.min(TABLE_1.len() - 1);
        format!(
            "{}, {} s ({}, {} s)",
            here(case, "mbps", 1),
            here(case, "transient_s", 0),
            TABLE_1[row][column],
            TABLE_2[row][column]
        )
    });
    output.table("lab_defaults", &defaults);
}

fn figures(outcomes: &Outcomes, output: &Output) {
    let mut table = Table::new(&[
        "second path Mbit/s",
        "delay ms",
        "limit",
        "window 900",
        "short of it",
        "paper short",
        "window 0",
        "short of it",
        "paper short",
    ]);
    for rate in RATES {
        for delay_ms in FIGURE_DELAYS_MS {
            let at = |window: u32, name: &str| {
                number(
                    outcomes,
                    &format!("figure/{window}/{rate}/{delay_ms}"),
                    name,
                )
            };
            let limit = at(900, "limit").or(at(0, "limit"));
            let mut cells = vec![rate.to_string(), delay_ms.to_string(), cell(limit, 1)];
            for window in FIGURE_WINDOWS {
                let here = at(window, "mbps");
                let short = limit.zip(here).map(|(limit, mbps)| (limit - mbps).max(0.0));
                let paper = FIGURES_SHORT
                    .iter()
                    .find(|(w, r, d, _)| (*w, *r, *d) == (window, rate, delay_ms));
                cells.extend([
                    cell(here, 1),
                    cell(short, 1),
                    cell(paper.map(|(.., short)| *short), 1),
                ]);
            }
            table.row(cells);
        }
    }
    output.table("lab_figures_4_5", &table);
    let series = FIGURE_WINDOWS.iter().flat_map(|window| {
        FIGURE_DELAYS_MS.map(|delay_ms| Series {
            name: format!("window {window}, {delay_ms} ms"),
            mark: Mark::Line,
            points: RATES
                .iter()
                .filter_map(|rate| {
                    let case = format!("figure/{window}/{rate}/{delay_ms}");
                    Some((f64::from(*rate), number(outcomes, &case, "mbps")?))
                })
                .collect(),
        })
    });
    let chart = Chart {
        title: "One flow over 100 Mbit/s and a second path (Fig. 4 and 5)",
        x_label: "rate of the second path, Mbit/s",
        y_label: "throughput, Mbit/s",
        x_log: false,
        y_log: false,
        series: series.collect(),
    };
    output.write("lab_figures_4_5.svg", &chart.svg());
}

/// What the flow and the links counted in the cases of [`CAUSES`].
fn causes(outcomes: &Outcomes, output: &Output) {
    let mut table = Table::new(&[
        "window",
        "second path Mbit/s",
        "delay ms",
        "seconds",
        "sent in",
        "TCP",
        "Mbit/s",
        "segments",
        "sent again",
        "% of all",
        "second path's share %",
        "dropped by the links",
    ]);
    for cause in CAUSES {
        let of = |name| number(outcomes, &cause_case(cause), name);
        let (regime, sender, window, rate, delay_ms, seconds) = cause;
        let again = of("segments")
            .zip(of("retransmits"))
            .map(|(new, again)| 100.0 * again / (new + again));
        let share = 100.0 * f64::from(rate) / f64::from(100 + rate);
        table.row(
            [window, rate, delay_ms, seconds]
                .map(|given| given.to_string())
                .into_iter()
                .chain([regime.sends().to_owned(), sender.to_owned()])
                .chain([cell(of("mbps"), 1), cell(of("segments"), 0)])
                .chain([cell(of("retransmits"), 0), cell(again, 1)])
                .chain([format!("{share:.1}"), cell(of("dropped"), 0)])
                .collect(),
        );
    }
    output.table("lab_causes", &table);
}

fn chart(outcomes: &Outcomes) -> Chart<'static> {
    let here = DELAYS_MS.iter().map(|delay_ms| Series {
        name: format!("{delay_ms} ms"),
        mark: Mark::Line,
        points: WINDOWS
            .iter()
            .filter_map(|window| {
                let case = format!("paper/{window}/{delay_ms}");
                Some((f64::from(*window), number(outcomes, &case, "mbps")?))
            })
            .collect(),
    });
    let paper = WINDOWS
        .iter()
        .zip(TABLE_1)
        .flat_map(|(window, row)| row.map(|mbps| (f64::from(*window), mbps)));
    let paper = Series {
        name: "the paper's Table I".into(),
        mark: Mark::Dots,
        points: paper.collect(),
    };
    Chart {
        title: "Throughput against the reorder window, 100 + 50 Mbit/s (Table I)",
        x_label: "window, packets (logarithmic)",
        y_label: "throughput, Mbit/s",
        x_log: true,
        y_log: false,
        series: here.chain([paper]).collect(),
    }
}

//! The tables, for people and for docs/performance.md.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::measure::{Measure, Sample, Unit};
use crate::options::Options;
use crate::results::{Results, Spread};
use crate::system::{Kind, Wire};

/// docs/performance.md has these two lines around what was measured.
const BEGIN: &str = "<!-- measured: begin -->";
const END: &str = "<!-- measured: end -->";

/// Prints everything, and fills it into the file if one was named.
pub(crate) fn print(options: &Options, results: &Results, busy_before: f64, took: Duration) {
    let style = if options.markdown {
        Style::Markdown
    } else {
        Style::Text
    };
    let mut text = heading(results, busy_before, took);
    for wire in Wire::BOTH {
        for measure in Measure::ALL {
            let rows = rows(results, wire, measure);
            if rows.is_empty() {
                continue;
            }
            let title = format!("{measure}; {wire}");
            text.push_str(&style.table(&title, &columns(wire, measure), &rows));
        }
    }
    let memory: Vec<Vec<String>> = results
        .memory()
        .map(|(kind, bytes)| vec![kind.to_string(), format!("{:.1}", bytes as f64 / 1e6)])
        .collect();
    if !memory.is_empty() {
        let columns = ["", "MB"].map(String::from);
        text.push_str(&style.table("most memory resident in a daemon", &columns, &memory));
    }
    let goals = goals(results);
    if !goals.is_empty() {
        let columns = ["goal", "wanted", "median", "min - max", ""].map(String::from);
        text.push_str(&style.table("goals, as ratios within a run", &columns, &goals));
    }
    println!("{text}");
    if let Some(file) = &options.file
        && let Err(error) = fill(file, &text)
    {
        eprintln!("{}: {error}", file.display());
        std::process::exit(1);
    }
}

fn heading(results: &Results, busy_before: f64, took: Duration) -> String {
    let said = |program: &str, words: &[&str]| {
        let output = Command::new(program).args(words).output();
        let text = output.map(|output| output.stdout).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        text.lines().next().unwrap_or_default().to_owned()
    };
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1))
        .unwrap_or("unknown CPU");
    // What a builder appends to the kernel's number says nothing to others.
    let kernel = said("uname", &["-r"]);
    let kernel = kernel.split('-').next().unwrap_or_default();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    format!(
        "{}; {cpus} x {model}; Linux {kernel}; {}.\nMedians of {} alternating runs in {} s; \
         before them the machine was {:.0} % busy.\n",
        said("date", &["+%F"]),
        said("iperf3", &["--version"]).replace("  ", " "),
        results.runs(),
        took.as_secs(),
        busy_before * 100.0
    )
}

/// What the bare ratio is taken to, over this wire.
const fn base(wire: Wire) -> Kind {
    match wire {
        Wire::Whole => Kind::Vxlan,
        // VXLAN's segmentation escapes the model: it is cut behind the link.
        Wire::PerPacket => Kind::Raw,
    }
}

fn columns(wire: Wire, measure: Measure) -> Vec<String> {
    let base = match wire {
        Wire::Whole => "VXLAN",
        Wire::PerPacket => "raw",
    };
    let all: &[&str] = match measure.unit() {
        Unit::Gbps => &[
            "Gbit/s",
            "min - max",
            "CPU ns/byte",
            "min - max",
            "x base",
            "CPU x base",
        ],
        Unit::Kpps => &[
            "kpkt/s",
            "min - max",
            "CPU ns/packet",
            "min - max",
            "x base",
            "CPU x base",
        ],
        Unit::Microseconds => &["p50 us", "min - max", "p99 us", "min - max", "p50 - raw"],
    };
    std::iter::once("")
        .chain(all.iter().copied())
        .map(|name| name.replace("base", base))
        .collect()
}

fn rows(results: &Results, wire: Wire, measure: Measure) -> Vec<Vec<String>> {
    let digits = match measure.unit() {
        Unit::Gbps => 2,
        Unit::Kpps | Unit::Microseconds => 0,
    };
    let row = |kind: Kind| {
        let first = results.spread(wire, measure, kind, |sample| sample.value)?;
        let second = results.spread(wire, measure, kind, |sample| sample.second)?;
        let mut row = vec![kind.to_string()];
        for spread in [first, second] {
            row.push(format!("{:.digits$}", spread.median));
            row.push(range(spread, digits));
        }
        let median = |spread: Option<Spread>| {
            spread.map_or_else(String::new, |spread| format!("{:.2}", spread.median))
        };
        if measure.unit() == Unit::Microseconds {
            let more = results.compared(wire, measure, [kind, Kind::Raw], |one, raw| {
                one.value - raw.value
            });
            row.push(more.map_or_else(String::new, |spread| format!("{:+.0}", spread.median)));
        } else {
            let pair = [kind, base(wire)];
            row.push(median(results.compared(wire, measure, pair, rate)));
            row.push(median(results.compared(wire, measure, pair, cost)));
        }
        Some(row)
    };
    Kind::ALL.into_iter().filter_map(row).collect()
}

fn rate(one: &Sample, base: &Sample) -> f64 {
    one.value / base.value
}

fn cost(one: &Sample, base: &Sample) -> f64 {
    one.second / base.second
}

fn range(spread: Spread, digits: usize) -> String {
    format!("{:.digits$} - {:.digits$}", spread.min, spread.max)
}

struct Goal {
    name: &'static str,
    wire: Wire,
    measure: Measure,
    pair: [Kind; 2],
    of: fn(&Sample, &Sample) -> f64,
    wanted: f64,
    at_least: bool,
}

/// What the tunnel is to reach.
fn all_goals() -> Vec<Goal> {
    use Kind::{Fixed, Offload, Plain, Raw, Relay, Sealed, Vxlan};
    let goal = |name, wire, measure, pair, wanted| Goal {
        name,
        wire,
        measure,
        pair,
        of: rate,
        wanted,
        at_least: true,
    };
    let (two, flow) = (Offload(2), Measure::OneFlow);
    vec![
        goal("two paths / VXLAN", Wire::Whole, flow, [two, Vxlan], 0.4),
        goal("two paths / plain", Wire::Whole, flow, [two, Plain], 10.0),
        Goal {
            of: cost,
            at_least: false,
            ..goal(
                "CPU a byte, two paths / VXLAN",
                Wire::Whole,
                flow,
                [two, Vxlan],
                3.0,
            )
        },
        goal(
            "per-packet wire, two paths / raw",
            Wire::PerPacket,
            flow,
            [two, Raw],
            0.8,
        ),
        goal("two paths / one", Wire::Whole, flow, [two, Offload(1)], 0.9),
        goal(
            "four paths / one",
            Wire::Whole,
            flow,
            [Offload(4), Offload(1)],
            0.8,
        ),
        goal(
            "two paths / with nothing that sets itself",
            Wire::Whole,
            flow,
            [two, Fixed(2)],
            0.95,
        ),
        goal(
            "sealed / not, two paths",
            Wire::Whole,
            flow,
            [Sealed(2), two],
            0.6,
        ),
        Goal {
            of: |one, raw| one.value - raw.value,
            at_least: false,
            ..goal(
                "idle ping, two paths - raw, us",
                Wire::Whole,
                Measure::PingIdle,
                [two, Raw],
                45.0,
            )
        },
        Goal {
            of: |one, relay| one.value - relay.value,
            at_least: false,
            ..goal(
                "idle ping, two paths - bare relay, us",
                Wire::Whole,
                Measure::PingIdle,
                [two, Relay],
                20.0,
            )
        },
        goal(
            "64-byte UDP, two paths / plain",
            Wire::Whole,
            Measure::Udp64,
            [two, Plain],
            3.0,
        ),
    ]
}

fn goals(results: &Results) -> Vec<Vec<String>> {
    let row = |goal: Goal| {
        let spread = results.compared(goal.wire, goal.measure, goal.pair, goal.of)?;
        let reached = (spread.median >= goal.wanted) == goal.at_least;
        let sign = if goal.at_least { ">=" } else { "<=" };
        Some(vec![
            goal.name.to_owned(),
            format!("{sign} {}", goal.wanted),
            format!("{:.2}", spread.median),
            range(spread, 2),
            if reached { "reached" } else { "missed" }.to_owned(),
        ])
    };
    all_goals().into_iter().filter_map(row).collect()
}

#[derive(Clone, Copy)]
enum Style {
    Text,
    Markdown,
}

impl Style {
    fn table(self, title: &str, columns: &[String], rows: &[Vec<String>]) -> String {
        let line = |cells: &[String]| match self {
            Style::Markdown => format!("| {} |\n", cells.join(" | ")),
            Style::Text => {
                let cells: Vec<String> = cells
                    .iter()
                    .enumerate()
                    .map(|(column, cell)| {
                        let all = rows.iter().map(|row| row[column].len());
                        let width = all.chain([columns[column].len()]).max().unwrap_or(0);
                        if column == 0 {
                            format!("{cell:<width$}")
                        } else {
                            format!("{cell:>width$}")
                        }
                    })
                    .collect();
                format!("{}\n", cells.join("  ").trim_end())
            }
        };
        let mut text = match self {
            Style::Markdown => format!("\n**{title}**\n\n{}", line(columns)),
            Style::Text => format!("\n{title}\n{}", line(columns)),
        };
        if matches!(self, Style::Markdown) {
            text.push_str("|---|");
            text.push_str(&"---:|".repeat(columns.len() - 1));
            text.push('\n');
        }
        text.extend(rows.iter().map(|row| line(row)));
        text
    }
}

/// Replaces what stands between the marks of a file.
fn fill(file: &Path, measured: &str) -> Result<(), String> {
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    let (head, rest) = text.split_once(BEGIN).ok_or(format!("no line {BEGIN}"))?;
    let (_, tail) = rest.split_once(END).ok_or(format!("no line {END}"))?;
    let text = format!("{head}{BEGIN}\n{measured}{END}{tail}");
    std::fs::write(file, text).map_err(|error| error.to_string())
}

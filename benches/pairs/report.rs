//! The tables.

use std::time::Duration;

use net::profile::figure::{self, Figure, Row};
use net::profile::measure::{Measured, recovers};
use net::profile::{Bound, Profile, table};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::job::Job;
use crate::lanes::Outcomes;
use crate::options::Options;

/// What there is.
pub(crate) fn list() {
    for profile in table::all() {
        println!(
            "{:<16} {}; {}",
            profile.name,
            profile.text(),
            asked(&profile)
        );
    }
    for figure in figure::ALL {
        println!("{:<16} {}", figure.name, figure.title);
    }
}

/// Prints everything; true when every bound that could be judged is met.
pub(crate) fn print(
    options: &Options,
    profiles: &[Profile],
    figures: &[Figure],
    outcomes: &Outcomes,
    took: Duration,
) -> bool {
    let given = format!(
        "{}{}{}",
        options.variant.tunnel, options.variant.reorder, options.variant.recovery
    );
    let given = if given.is_empty() {
        "addresses only"
    } else {
        given.trim()
    };
    println!(
        "One TCP CUBIC flow of {} s, Mbit/s of payload; in the configuration: {}; netem {:?}; \
         tcp_rmem and tcp_wmem up to 64 MiB; runs: {}.",
        net::profile::SECONDS,
        given.replace('\n', "; "),
        options.variant.place,
        options.runs
    );
    println!(
        "Rates in Mbit/s, delays one way in ms; gaps: seen, filled, inferred lost, timed out, \
         overflowed; *: only where lost packets are recovered.\n"
    );
    let rows: Vec<Comparison> = profiles
        .iter()
        .map(|profile| Comparison::new(profile, outcomes, options.runs))
        .collect();
    let mut met = rows.iter().all(Comparison::is_met);
    if !rows.is_empty() {
        let cells: Vec<Vec<String>> = rows.iter().map(Comparison::cells).collect();
        print_table(options.markdown, &Comparison::HEADS, &cells);
    }
    for figure in figures {
        met &= print_figure(options.markdown, figure, outcomes);
    }
    println!("{:.0} s of real time.", took.as_secs_f64());
    if let Some(file) = &options.json {
        let all: serde_json::Map<String, Value> = outcomes
            .iter()
            .map(|(job, outcome)| (job.to_string(), json!(outcome.result)))
            .collect();
        if let Err(error) = std::fs::write(file, Value::from(all).to_string()) {
            eprintln!("{}: {error}", file.display());
        }
    }
    met
}

/// A profile and what came of it.
struct Comparison<'a> {
    profile: &'a Profile,
    alone: [Option<Measured>; 2],
    ideal: Option<Measured>,
    tunnel: Option<Measured>,
    took: Duration,
}

impl<'a> Comparison<'a> {
    const HEADS: [&'static str; 17] = [
        "profile", "links", "first", "second", "ideal", "sum", "tunnel", "steady", "/best", "/sum",
        "asked", "verdict", "on first", "retr", "dropped", "gaps", "time",
    ];

    fn new(profile: &'a Profile, outcomes: &Outcomes, runs: u32) -> Self {
        let name = || profile.name.to_owned();
        let of = |job: &dyn Fn(u32) -> Job| median((1..=runs).map(job), outcomes);
        let took = outcomes
            .iter()
            .filter(|(job, _)| job.subject() == profile.name)
            .map(|(_, outcome)| outcome.took);
        Self {
            profile,
            alone: [0, 1].map(|line| {
                of(&|run| Job::Raw {
                    profile: name(),
                    line,
                    run,
                })
            }),
            ideal: of(&|run| Job::Ideal {
                profile: name(),
                run,
            }),
            tunnel: of(&|run| Job::Tunnel {
                profile: name(),
                run,
            }),
            took: took.sum(),
        }
    }

    fn best(&self) -> Option<f64> {
        let [first, second] = &self.alone;
        Some(first.as_ref()?.mbps.max(second.as_ref()?.mbps))
    }

    fn sum(&self) -> Option<f64> {
        Some(self.profile.sum_mbps(self.tunnel.as_ref()?.mtu))
    }

    /// Each bound, and whether it is met; `None` when it cannot be judged.
    fn verdicts(&self) -> Vec<(Bound, Option<bool>)> {
        let judge = |bound: Bound| -> Option<bool> {
            let tunnel = self.tunnel.as_ref()?;
            if bound.needs_recovery() && !recovers(&tunnel.sender) {
                return None;
            }
            let ideal = self.ideal.as_ref().map(|ideal| ideal.mbps);
            let least = bound.least_mbps(self.best()?, self.sum()?, ideal)?;
            Some(tunnel.mbps >= least)
        };
        let bounds = self.profile.bounds.iter();
        bounds.map(|bound| (*bound, judge(*bound))).collect()
    }

    fn is_met(&self) -> bool {
        self.tunnel.is_some() && self.verdicts().iter().all(|(_, met)| *met != Some(false))
    }

    fn cells(&self) -> Vec<String> {
        let mbps = |value: Option<f64>| value.map_or("-".to_owned(), |mbps| format!("{mbps:.1}"));
        let ratio = |whole: Option<f64>| {
            let tunnel = self.tunnel.as_ref().map(|tunnel| tunnel.mbps);
            tunnel.zip(whole).map_or("-".to_owned(), |(part, whole)| {
                format!("{:.2}", part / whole)
            })
        };
        let rate = |one: &Option<Measured>| mbps(one.as_ref().map(|one| one.mbps));
        let of_tunnel =
            |text: &dyn Fn(&Measured) -> String| self.tunnel.as_ref().map_or("-".to_owned(), text);
        vec![
            self.profile.name.to_owned(),
            self.profile.text(),
            rate(&self.alone[0]),
            rate(&self.alone[1]),
            rate(&self.ideal),
            mbps(self.sum()),
            rate(&self.tunnel),
            mbps(self.tunnel.as_ref().map(|tunnel| tunnel.steady_mbps)),
            ratio(self.best()),
            ratio(self.sum()),
            asked(self.profile),
            self.verdict_text(),
            of_tunnel(&|one| {
                one.first_path_share()
                    .map_or("-".to_owned(), |share| format!("{:.0} %", share * 100.0))
            }),
            of_tunnel(&|one| one.retransmits.to_string()),
            of_tunnel(&|one| joined(one.dropped.iter().map(u64::to_string), "+")),
            of_tunnel(&gaps),
            format!("{:.0} s", self.took.as_secs_f64()),
        ]
    }

    fn verdict_text(&self) -> String {
        if self.tunnel.is_none() {
            return "failed".to_owned();
        }
        let missed: Vec<String> = self
            .verdicts()
            .iter()
            .filter(|(_, met)| *met == Some(false))
            .map(|(bound, _)| bound.to_string())
            .collect();
        if missed.is_empty() {
            "met".to_owned()
        } else {
            format!("missed: {}", missed.join(", "))
        }
    }
}

fn asked(profile: &Profile) -> String {
    joined(profile.bounds.iter().map(Bound::to_string), ", ")
}

fn gaps(tunnel: &Measured) -> String {
    let fields = [
        "gaps_seen",
        "gaps_filled",
        "gaps_inferred_lost",
        "gaps_timed_out",
        "gaps_overflowed",
    ];
    let number = |field: &str| {
        tunnel
            .reorder(field)
            .map_or("?".to_owned(), |n| n.to_string())
    };
    joined(fields.into_iter().map(number), "/")
}

fn joined(words: impl Iterator<Item = String>, by: &str) -> String {
    words.collect::<Vec<_>>().join(by)
}

/// The middle one of several runs.
fn median(jobs: impl Iterator<Item = Job>, outcomes: &Outcomes) -> Option<Measured> {
    let mut runs: Vec<Measured> = jobs.filter_map(|job| value(&job, outcomes)).collect();
    runs.sort_by(|one, other| one.mbps.total_cmp(&other.mbps));
    let middle = runs.len() / 2;
    runs.into_iter().nth(middle)
}

fn value<T: DeserializeOwned>(job: &Job, outcomes: &Outcomes) -> Option<T> {
    let value = outcomes.get(job)?.result.as_ref().ok()?;
    serde_json::from_value(value.clone()).ok()
}

fn print_figure(markdown: bool, figure: &Figure, outcomes: &Outcomes) -> bool {
    let job = Job::Figure {
        name: figure.name.to_owned(),
    };
    let took = outcomes.get(&job).map_or(0.0, |one| one.took.as_secs_f64());
    println!("{}: {} ({took:.0} s)\n", figure.name, figure.title);
    let Some(rows) = value::<Vec<Row>>(&job, outcomes) else {
        println!("failed\n");
        return false;
    };
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let verdict = match row.is_met() {
                Some(true) => "met",
                Some(false) => "missed",
                None => "",
            };
            let text = [
                row.what.as_str(),
                &row.value_text(),
                &row.asked.to_string(),
                verdict,
            ];
            text.map(str::to_owned).to_vec()
        })
        .collect();
    print_table(markdown, &["", "value", "asked", "verdict"], &cells);
    rows.iter().all(|row| row.is_met() != Some(false))
}

/// A table in aligned columns; with bars for Markdown.
fn print_table(markdown: bool, heads: &[&str], rows: &[Vec<String>]) {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0).max(heads[column].len())
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let (open, between, close) = if markdown {
        ("| ", " | ", " |")
    } else {
        ("", "  ", "")
    };
    let line = |cells: &[String]| {
        let padded = cells
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<width$}"));
        let text = format!("{open}{}{close}", joined(padded, between));
        println!("{}", text.trim_end());
    };
    line(
        &heads
            .iter()
            .map(|head| (*head).to_owned())
            .collect::<Vec<_>>(),
    );
    if markdown {
        line(
            &widths
                .iter()
                .map(|width| "-".repeat(*width))
                .collect::<Vec<_>>(),
        );
    }
    for row in rows {
        line(row);
    }
    println!();
}

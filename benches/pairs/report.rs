//! The tables.

use net::profile::download;
use net::profile::field;
use net::profile::figure::{self, Figure, Row};
use net::profile::{Profile, table};
use serde_json::{Value, json};

use crate::comparison::{Comparison, asked, joined, value};
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
    for pair in download::pairs() {
        println!("{:<16} {}; downloads", pair.name, pair.text());
    }
    for pair in field::PAIRS {
        println!("{:<16} a minute of the weather", pair.name);
    }
}

/// Prints one line on a profile.
pub(crate) fn say(options: &Options, profile: &Profile, outcomes: &Outcomes) {
    println!(
        "{}",
        Comparison::new(profile, outcomes, options.runs).line()
    );
}

/// Prints everything, but for a lone profile of which all was said; true when every bound that could be judged is met.
pub(crate) fn print(
    options: &Options,
    profiles: &[Profile],
    figures: &[Figure],
    outcomes: &Outcomes,
) -> bool {
    let rows: Vec<Comparison> = profiles
        .iter()
        .map(|profile| Comparison::new(profile, outcomes, options.runs))
        .collect();
    let mut met = rows.iter().all(Comparison::is_met);
    let is_lone = rows.len() == 1 && figures.is_empty() && !options.markdown;
    if !is_lone {
        print_heading(options);
        if !rows.is_empty() {
            let cells: Vec<Vec<String>> = rows.iter().map(Comparison::cells).collect();
            print_table(options.markdown, &Comparison::HEADS, &cells);
        }
        for figure in figures {
            met &= print_figure(options.markdown, figure, outcomes);
        }
    }
    met
}

/// Writes all that was measured to where it is asked for.
pub(crate) fn keep(options: &Options, outcomes: &Outcomes) {
    if let Some(file) = &options.json {
        let all: serde_json::Map<String, Value> = outcomes
            .iter()
            .map(|(job, outcome)| (job.to_string(), json!(outcome.result)))
            .collect();
        if let Err(error) = std::fs::write(file, Value::from(all).to_string()) {
            eprintln!("{}: {error}", file.display());
        }
    }
}

/// Prints what the tables are about.
fn print_heading(options: &Options) {
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
        options.variant.seconds,
        given.replace('\n', "; "),
        options.variant.place,
        options.runs
    );
    println!(
        "Links: rate in Mbit/s / delay one way in ms. steady: the last third. voice: what 50 small \
         datagrams a second beside the flow take longer than the nearest link's delay, one way, \
         median and p99 in ms, from its third second on; in brackets over the nearest link alone. \
         gaps: seen, filled, inferred lost, timed out, overflowed.\n"
    );
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
pub(crate) fn print_table(markdown: bool, heads: &[&str], rows: &[Vec<String>]) {
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

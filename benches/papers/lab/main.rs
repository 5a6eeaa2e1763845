//! Runs a case of a paper's experiment here, or reports on all that ran. Started by
//! `benches/papers/run`, which builds everything and gives each case a lab of its own.
//!
//! `--list=PAPER` prints "seconds PAPER CASE" lines. `--run=PAPER --case=CASE` measures and prints the
//! result in one line. `--report=PAPER --results=FILE [DIR]` reads such lines and writes tables and
//! charts.

use std::process::ExitCode;

use papers::{Outcome, Outcomes, Paper};

/// Marks the line that is a result.
const MARK: &str = "@result ";

fn main() -> ExitCode {
    let option = |name: &str| {
        let mut args = std::env::args().skip(1);
        args.find_map(|arg| Some(arg.strip_prefix(name)?.to_owned()))
    };
    let named = |name: &str| option(name).map(|paper| (Paper::named(&paper), paper));
    let wishes = [named("--list="), named("--run="), named("--report=")];
    match wishes {
        [Some((Some(paper), _)), _, _] => list(paper),
        [_, Some((Some(paper), _)), _] => run(paper, &option("--case=").unwrap_or_default()),
        [_, _, Some((Some(paper), _))] => report(paper, &option("--results=").unwrap_or_default()),
        [None, None, None] => {
            println!("measures inside labs: run by benches/papers/run");
            ExitCode::SUCCESS
        }
        [a, b, c] => {
            let name = [a, b, c].into_iter().flatten().map(|(_, name)| name).next();
            eprintln!("no paper {}", name.unwrap_or_default());
            ExitCode::from(2)
        }
    }
}

fn list(paper: &Paper) -> ExitCode {
    for case in paper.cases() {
        println!("{} {} {}", case.cost_s, paper.name, case.name);
    }
    ExitCode::SUCCESS
}

fn run(paper: &Paper, case: &str) -> ExitCode {
    let Some(_turn) = net::turn() else {
        return ExitCode::FAILURE;
    };
    let Some(outcome) = paper.run(case) else {
        eprintln!("no case {case} of {}", paper.name);
        return ExitCode::from(2);
    };
    let numbers: Vec<String> = outcome
        .iter()
        .map(|(name, number)| format!("{name}={number}"))
        .collect();
    println!("{MARK}{case} {}", numbers.join(" "));
    ExitCode::SUCCESS
}

fn report(paper: &Paper, results: &str) -> ExitCode {
    let text = match std::fs::read_to_string(results) {
        Ok(text) => text,
        Err(error) => {
            eprintln!("{results}: {error}");
            return ExitCode::from(2);
        }
    };
    let outcomes: Outcomes = text.lines().filter_map(parse).collect();
    let missing = paper.cases().len() - outcomes.len();
    if missing > 0 {
        println!("{missing} of {} cases have no result", paper.cases().len());
    }
    let outside = paper.report(&outcomes);
    for line in &outside {
        eprintln!("outside its tolerance: {line}");
    }
    if outside.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn parse(line: &str) -> Option<(String, Outcome)> {
    let mut words = line.strip_prefix(MARK)?.split(' ');
    let case = words.next()?.to_owned();
    let numbers = words.filter_map(|word| {
        let (name, number) = word.split_once('=')?;
        Some((name.to_owned(), number.parse().ok()?))
    });
    Some((case, numbers.collect()))
}

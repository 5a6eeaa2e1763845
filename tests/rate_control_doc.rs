//! docs/rate-control.md says what the law's parameters are: its table is that of the code.

#![allow(clippy::unwrap_used, reason = "a test ends by a panic")]

use mpt_core::send::scheduler::law::{Law, Parameter};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/rate-control.md");

fn row(parameter: &Parameter) -> String {
    let Parameter {
        name,
        meaning,
        unit,
        value,
    } = parameter;
    format!("| `{name}` | {value} | {unit} | {meaning} |")
}

/// With `MPT_TEST_DOC_WRITE=1` the table is written anew.
#[test]
fn the_table_of_parameters_is_that_of_the_code() {
    let document = std::fs::read_to_string(PATH).unwrap();
    let rows: Vec<String> = Law::LAW.table().iter().map(row).collect();
    let heading =
        "| Parameter | Value | Unit | What it does, and where it comes from |\n|---|---|---|---|\n";
    let (before, rest) = document.split_once(heading).unwrap();
    let (table, after) = rest.split_once("\n\n").unwrap();
    if std::env::var_os("MPT_TEST_DOC_WRITE").is_some() {
        let written = format!("{before}{heading}{}\n\n{after}", rows.join("\n"));
        std::fs::write(PATH, written).unwrap();
        return;
    }
    assert_eq!(table.lines().collect::<Vec<_>>(), rows);
}

/// Whoever changes a value, or adds a parameter, runs its half and double.
#[test]
fn the_table_of_halves_and_doubles_is_of_these_parameters() {
    let document = std::fs::read_to_string(PATH).unwrap();
    let heading = "| Parameter | Value | Half | early | late | Double | early | late |";
    let (_, rest) = document.split_once(heading).unwrap();
    let (rows, _) = rest.split_once("\n\n").unwrap();
    let told: Vec<String> = rows
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.split(" | ").take(2).collect::<Vec<_>>().join(" | "))
        .collect();
    let table = Law::LAW.table();
    let known = table
        .iter()
        .map(|Parameter { name, value, .. }| format!("| `{name}` | {value}"));
    assert_eq!(told, known.collect::<Vec<_>>());
}

//! docs/security.md: each row of what somebody can do names the tests that show it, and they are there.

#![allow(clippy::unwrap_used, reason = "a test ends by a panic")]

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The cells of each row of the table "Against whom".
fn rows() -> Vec<Vec<String>> {
    let document = read_to_string(root().join("docs/security.md")).unwrap();
    let (_, rest) = document.split_once("\n## Against whom\n").unwrap();
    let (section, _) = rest.split_once("\n## ").unwrap();
    let rows = section.lines().filter(|line| line.starts_with('|'));
    let cells = |row: &str| {
        row.trim_matches('|')
            .split('|')
            .map(str::to_owned)
            .collect()
    };
    // Under the title, and the line beneath it.
    rows.skip(2).map(cells).collect()
}

/// What stands between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Whether there is a test of this name: `FILE` or `FILE::START` of tests/, `crypto::MODULE::START` of the core,
/// `fuzz TARGET`.
fn is_there(name: &str) -> bool {
    if let Some(target) = name.strip_prefix("fuzz ") {
        return root()
            .join(format!("fuzz/fuzz_targets/{target}.rs"))
            .exists();
    }
    let (file, start) = name.split_once("::").unwrap_or((name, ""));
    let (files, start) = if file == "crypto" {
        let (module, start) = start.split_once("::").unwrap_or((start, ""));
        let folder = root().join("crates/mpt-core/src/crypto");
        let places = [
            format!("{module}.rs"),
            format!("{module}/tests.rs"),
            format!("{module}/tests/hostile.rs"),
        ];
        (places.map(|place| folder.join(place)).to_vec(), start)
    } else {
        (vec![root().join(format!("tests/{file}.rs"))], start)
    };
    let has_it = |file: &PathBuf| {
        let text = read_to_string(file).unwrap_or_default();
        text.contains("#[test]") && text.contains(&format!("fn {start}"))
    };
    files.iter().any(has_it)
}

#[test]
fn each_row_names_tests_that_are_there() {
    let rows = rows();
    assert!(rows.len() >= 10, "{rows:?}");
    for row in rows {
        let [who, .., shown_by] = &row[..] else {
            panic!("{row:?}");
        };
        let names: Vec<&str> = quoted(shown_by).collect();
        assert!(!names.is_empty(), "{who}: shown by nothing");
        for name in names {
            assert!(is_there(name), "{who}: there is no {name}");
        }
    }
    assert!(!is_there("sim_relay::no_such_test") && !is_there("fuzz nothing"));
}

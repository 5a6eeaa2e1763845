//! The rows as docs/faults.md has them.
//!
//! What is done, who says what, and whether it mends itself are the same in every run, numbers within the
//! sentences apart: the page must say so. Stalls and losses are of the run that wrote the page; what bounds
//! them stands in the tests.

use std::path::PathBuf;

use crate::echo::Seen;

/// Set to 1, it lets the tests write their rows into the page instead of holding them against it.
const WRITE: &str = "MPT_TEST_FAULTS_WRITE";

/// One fault, as it came out.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) what: String,
    pub(super) seen: Option<Seen>,
    pub(super) mends: String,
    /// Code and sentence of the client's status and of the server's.
    pub(super) says: [String; 2],
}

impl Row {
    pub(super) fn line(&self) -> String {
        let (stall, lost) = match self.seen {
            Some(seen) => (seen.stall.as_millis().to_string(), seen.lost.to_string()),
            None => ("–".to_owned(), "–".to_owned()),
        };
        let Self {
            what,
            mends,
            says: [client, server],
            ..
        } = self;
        let cells =
            [what, &stall, &lost, mends, client, server].map(|cell| cell.replace('|', "\\|"));
        format!("| {} |", cells.join(" | "))
    }
}

/// Holds rows against those below the heading of this section, or writes them there.
///
/// # Panics
/// When they differ in what is the same in every run.
pub(super) fn compare(section: &str, rows: &[Row]) {
    let file: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../../docs/faults.md"]
        .iter()
        .collect();
    let page = std::fs::read_to_string(&file).expect("docs/faults.md");
    let lines: Vec<String> = rows.iter().map(Row::line).collect();
    let parts = Parts::of(&page, section);
    if std::env::var_os(WRITE).is_some_and(|value| value == "1") {
        let text = format!("{}{}\n{}", parts.before, lines.join("\n"), parts.after);
        std::fs::write(&file, text).expect("docs/faults.md");
        return;
    }
    let known: Vec<String> = parts.rows.iter().map(|line| constant(line)).collect();
    let found: Vec<String> = lines.iter().map(|line| constant(line)).collect();
    assert!(
        known == found,
        "docs/faults.md, section {section}, differs. It says:\n{}\nand now it is:\n{}\n{WRITE}=1 ./test NAME writes \
         the rows of a test into the page.",
        known.join("\n"),
        found.join("\n")
    );
}

/// The page around a section's rows: those lines that begin with `|` behind the head of its table.
struct Parts<'a> {
    before: &'a str,
    rows: Vec<&'a str>,
    after: &'a str,
}

impl<'a> Parts<'a> {
    fn of(page: &'a str, section: &str) -> Self {
        let mark = format!("<!-- rows: {section} -->\n");
        let place = page
            .find(&mark)
            .unwrap_or_else(|| panic!("docs/faults.md has no line {mark}"));
        let table = &page[place..];
        let head = table.find("|---").expect("a table's head");
        let first = place + head + table[head..].find('\n').map_or(0, |end| end + 1);
        let rest = &page[first..];
        let rows: Vec<&str> = rest
            .lines()
            .take_while(|line| line.starts_with('|'))
            .collect();
        let length: usize = rows.iter().map(|row| row.len() + 1).sum();
        let end = (first + length).min(page.len());
        Self {
            before: &page[..first],
            rows,
            after: &page[end..],
        }
    }
}

/// A row without what differs from run to run: stall, loss, and numbers in sentences.
fn constant(line: &str) -> String {
    let cells: Vec<&str> = line.split(" | ").collect();
    let kept = cells
        .iter()
        .enumerate()
        .filter(|(index, _)| ![1, 2].contains(index));
    kept.map(|(_, cell)| without_numbers(cell))
        .collect::<Vec<_>>()
        .join(" | ")
}

/// `77 datagrams in 1.5 s` becomes `N datagrams in N s`; addresses stay.
fn without_numbers(text: &str) -> String {
    let words = text.split(' ').map(|word| {
        let bare = word.trim_matches(|sign: char| !sign.is_ascii_alphanumeric());
        let (number, unit) = bare.split_at(
            bare.find(|sign: char| sign.is_ascii_alphabetic())
                .unwrap_or(bare.len()),
        );
        let is_number = number.parse::<f64>().is_ok() && unit.len() <= 2;
        if is_number {
            word.replacen(bare, &format!("N{unit}"), 1)
        } else {
            word.to_owned()
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_units_may_differ_and_addresses_may_not() {
        let text =
            "Path lte loses 16.3 % of 77 datagrams in 1.5s from 203.0.113.7:4754 (eth0), 12ms.";
        assert_eq!(
            without_numbers(text),
            "Path lte loses N % of N datagrams in Ns from 203.0.113.7:4754 (eth0), Nms."
        );
    }

    #[test]
    fn a_sections_rows_are_found_and_the_rest_stays() {
        let page = "# x\n<!-- rows: one -->\n| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n\nmore\n";
        let parts = Parts::of(page, "one");
        assert_eq!(parts.rows, ["| 1 | 2 |", "| 3 | 4 |"]);
        assert!(parts.before.ends_with("|---|---|\n"));
        assert_eq!(parts.after, "\nmore\n");
    }
}

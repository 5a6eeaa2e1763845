//! The rows as docs/faults.md has them.
//!
//! What is done, which code each end gives, and whether it mends itself are the same in every run: the page
//! must say so. So are the sentences but for the numbers in them: they are pinned word for word by snapshots in
//! tests/faults/snapshots. Stalls, losses and those numbers are of the run that wrote the page; what bounds
//! them stands in the tests.

use std::path::PathBuf;

use crate::echo::Seen;

/// Set to 1, it lets the tests write their rows into the page instead of holding them against it. With
/// `INSTA_UPDATE=always` the snapshots are written, too.
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

/// Holds what both ends say against the snapshot of this section.
///
/// # Panics
/// When a code or a sentence differs in more than numbers.
pub(super) fn pin(section: &str, rows: &[Row]) {
    let said = rows.iter().map(|row| {
        let [client, server] = row.says.each_ref().map(|says| without_numbers(says));
        format!("{}\n  client  {client}\n  server  {server}\n", row.what)
    });
    let said: String = said.collect();
    let mut settings = insta::Settings::clone_current();
    // Beside the tests whose rows they are.
    settings.set_snapshot_path("../../../faults/snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(section, said));
}

/// A sentence with `N` for each number that stands by itself, and several things for one.
fn without_numbers(text: &str) -> String {
    let mut was_one = false;
    let words = text.split(' ').map(|word| {
        let stem = word.trim_end_matches(|c: char| !c.is_alphabetic());
        let is_thing = std::mem::replace(&mut was_one, word == "1") && stem.len() > 1;
        match word {
            _ if word.parse::<f64>().is_ok() => "N".to_owned(),
            _ if is_thing => format!("{stem}s{}", &word[stem.len()..]),
            _ => word.to_owned(),
        }
    });
    words.collect::<Vec<_>>().join(" ")
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

/// A row without what differs from run to run: stall, loss, and the sentence that goes with a code.
fn constant(line: &str) -> String {
    let cells: Vec<&str> = line.split(" | ").collect();
    let kept = cells.iter().enumerate();
    let kept = kept.filter(|(index, _)| ![1, 2].contains(index));
    let kept = kept.map(|(index, cell)| match cell.split_once("`: ") {
        Some((code, _)) if index > 3 => code,
        _ => cell.trim_end_matches(" |"),
    });
    kept.collect::<Vec<_>>().join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_losses_and_sentences_may_differ_and_codes_may_not() {
        let line = |stall, code, text| {
            format!("| `x: y` | {stall} | 0 | yes | – | `{code}`: Path lte loses {text}. |")
        };
        let first = constant(&line(7, "path-loses", "3 %"));
        assert_eq!(first, "| `x: y` | yes | – | `path-loses");
        assert_eq!(constant(&line(900, "path-loses", "4 %")), first);
        assert_ne!(constant(&line(7, "path-down", "3 %")), first);
    }

    #[test]
    fn numbers_that_stand_by_themselves_are_not_pinned() {
        let text = "In the last 1 s 3 packets to 203.0.113.7:4755 by eth0, 8.3 % of them in 1s";
        assert_eq!(
            without_numbers(text),
            "In the last N s N packets to 203.0.113.7:4755 by eth0, N % of them in 1s"
        );
        assert_eq!(
            without_numbers("1 packet, in 1 s, or"),
            "N packets, in N s, or"
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

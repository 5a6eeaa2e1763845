//! Where an experiment leaves its results, and the table it prints.

use std::fs;
use std::path::PathBuf;

/// The directory of one experiment: `target/papers/NAME`, or below the first argument that is not
/// an option, as in `cargo bench --bench NAME -- DIR`, taken from the workspace.
pub(crate) struct Output {
    directory: PathBuf,
}

impl Output {
    /// Creates the directory.
    pub(crate) fn new(name: &str) -> Self {
        let given = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
        let base = workspace().join(given.unwrap_or_else(|| "target/papers".into()));
        let directory = base.join(name);
        fs::create_dir_all(&directory).expect("the output directory can be made");
        Output { directory }
    }

    /// Prints a table and writes it, as Markdown and as comma-separated values.
    pub(crate) fn table(&self, name: &str, table: &Table) {
        println!("{}", table.markdown());
        self.write(&format!("{name}.md"), &table.markdown());
        self.write(&format!("{name}.csv"), &table.csv());
    }

    /// Writes one file and says so.
    pub(crate) fn write(&self, file: &str, text: &str) {
        let path = self.directory.join(file);
        fs::write(&path, text).expect("the output directory can be written");
        println!("wrote {}", path.display());
    }
}

/// Benches run in their package's directory, two below the workspace.
fn workspace() -> PathBuf {
    let package = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    package
        .ancestors()
        .nth(2)
        .map_or(package.clone(), PathBuf::from)
}

/// Rows under a heading, all cells text.
pub(crate) struct Table {
    heading: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(heading: &[&str]) -> Self {
        Table {
            heading: heading.iter().map(ToString::to_string).collect(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// As Markdown, columns aligned.
    pub(crate) fn markdown(&self) -> String {
        let lines = || std::iter::once(&self.heading).chain(&self.rows);
        let width = |column: usize| {
            let cells = lines().filter_map(|line| line.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.heading.len()).map(width).collect();
        let render = |line: &[String]| {
            let cells = line.iter().zip(&widths);
            let padded: Vec<String> = cells.map(|(cell, &w)| format!("{cell:>w$}")).collect();
            format!("| {} |\n", padded.join(" | "))
        };
        let rule: Vec<String> = widths
            .iter()
            .map(|&w| format!("{}:", "-".repeat(w - 1)))
            .collect();
        let mut text = render(&self.heading) + &render(&rule);
        self.rows.iter().for_each(|row| text += &render(row));
        text
    }

    /// As comma-separated values; cells hold no commas.
    pub(crate) fn csv(&self) -> String {
        let lines = std::iter::once(&self.heading).chain(&self.rows);
        lines.map(|line| line.join(",") + "\n").collect()
    }
}

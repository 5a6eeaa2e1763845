//! Tables that fit a terminal of 80 columns.
//!
//! Every column is as wide as its widest cell, save the first, which holds names and gives way:
//! names that do not fit end in "…". Below a row may stand lines of its own, such as addresses,
//! which would break any column.

/// The width that everything fits, in columns.
pub const WIDTH: usize = 80;
/// Blanks between two columns.
const GAP: usize = 2;
/// The least that is left of the first column.
const LEAST_NAME: usize = 6;

/// How the output is shown.
#[derive(Debug, Clone, Copy, Default)]
pub struct Look {
    /// Colours; they never carry a meaning that the text does not.
    pub colour: bool,
    /// Break sentences at [`WIDTH`]; left to the reader's pager otherwise, so that they can be
    /// searched.
    pub wrap: bool,
}

/// What a text is worth to the eye.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// As everything else.
    Plain,
    /// Stands above others.
    Heading,
    /// Says little.
    Faint,
    /// As it should be.
    Good,
    /// Perhaps not as it should be.
    Doubtful,
    /// Not as it should be.
    Bad,
}

impl Look {
    /// The text in this tone.
    #[must_use]
    pub fn paint(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Heading => "1",
            Tone::Faint => "2",
            Tone::Good => "32",
            Tone::Doubtful => "33",
            Tone::Bad => "31",
            Tone::Plain => return text.into(),
        };
        if self.colour {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.into()
        }
    }

    /// A sentence on as many lines as it takes, the later ones indented under the first.
    #[must_use]
    pub fn sentence(self, tone: Tone, mark: &str, text: &str) -> String {
        let indent = mark.chars().count();
        let room = if self.wrap {
            WIDTH - indent
        } else {
            usize::MAX
        };
        let words: Vec<String> = text.split_whitespace().map(clean).collect();
        let lines = broken(&words.join(" "), room)
            .into_iter()
            .enumerate()
            .map(|(number, line)| {
                let lead = if number == 0 {
                    mark.into()
                } else {
                    " ".repeat(indent)
                };
                format!("{}\n", self.paint(tone, &format!("{lead}{line}")))
            });
        lines.collect()
    }
}

/// Breaks a text at blanks into lines of at most `room` columns; a longer word stands alone.
#[must_use]
pub fn broken(text: &str, room: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.into()),
        }
    }
    lines
}

/// On which side of its column a cell stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Texts.
    Left,
    /// Numbers.
    Right,
}

/// One cell.
#[derive(Debug)]
pub struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// A cell in this tone.
    pub fn toned(tone: Tone, text: impl ToString) -> Self {
        Self {
            text: clean(&text.to_string()),
            tone,
        }
    }
}

/// Without characters that steer a terminal: some of what is shown was told by others.
#[must_use]
pub fn clean(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
}

impl<T: ToString> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::toned(Tone::Plain, text)
    }
}

/// Rows under a heading.
#[derive(Debug)]
pub struct Table<const COLUMNS: usize> {
    sides: [Side; COLUMNS],
    heading: [&'static str; COLUMNS],
    rows: Vec<([Cell; COLUMNS], Vec<String>)>,
}

impl<const COLUMNS: usize> Table<COLUMNS> {
    /// A table without rows, its columns with their titles.
    #[must_use]
    pub fn new(columns: [(&'static str, Side); COLUMNS]) -> Self {
        Self {
            heading: columns.map(|(title, _)| title),
            sides: columns.map(|(_, side)| side),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: [Cell; COLUMNS]) {
        self.rows.push((cells, Vec::new()));
    }

    /// Puts a line of its own below the last row.
    pub fn below(&mut self, line: String) {
        if let Some((_, lines)) = self.rows.last_mut() {
            lines.push(line);
        }
    }

    /// The table as text.
    #[must_use]
    pub fn show(&self, look: Look) -> String {
        let widths = self.widths();
        let heading = self.heading.map(|title| Cell::toned(Tone::Heading, title));
        let mut text = self.line(&heading, &widths, look);
        for (cells, lines) in &self.rows {
            text += &self.line(cells, &widths, look);
            for line in lines {
                text += &format!("  {}\n", look.paint(Tone::Faint, line));
            }
        }
        text
    }

    fn widths(&self) -> [usize; COLUMNS] {
        let mut widths = self.heading.map(|title| title.chars().count());
        for (cells, _) in &self.rows {
            for (width, cell) in widths.iter_mut().zip(cells) {
                *width = (*width).max(cell.text.chars().count());
            }
        }
        let others: usize = widths[1..].iter().map(|width| width + GAP).sum();
        widths[0] = widths[0].min(WIDTH.saturating_sub(others).max(LEAST_NAME));
        widths
    }

    fn line(&self, cells: &[Cell; COLUMNS], widths: &[usize; COLUMNS], look: Look) -> String {
        let mut line = String::new();
        // Blanks are written only once something follows them: no line ends in blanks.
        let mut blanks = 0;
        for ((cell, &width), side) in cells.iter().zip(widths).zip(self.sides) {
            let text = truncated(&cell.text, width);
            let padding = width.saturating_sub(text.chars().count());
            let (before, after) = match side {
                Side::Left => (0, padding),
                Side::Right => (padding, 0),
            };
            if text.is_empty() {
                blanks += padding + GAP;
            } else {
                line.push_str(&" ".repeat(blanks + before));
                line.push_str(&look.paint(cell.tone, &text));
                blanks = after + GAP;
            }
        }
        line.push('\n');
        line
    }
}

/// The text in at most `width` columns, ended by "…" where something was cut off.
#[must_use]
pub fn truncated(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.into();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    kept + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Look = Look {
        colour: false,
        wrap: true,
    };

    #[test]
    fn the_name_gives_way_when_a_table_is_too_wide() {
        let mut table = Table::new([("PATH", Side::Left), ("X", Side::Right)]);
        table.row([
            "a-name-that-is-far-longer-than-anyone-would-give-to-a-path".into(),
            "y".repeat(40).into(),
        ]);
        for line in table.show(PLAIN).lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
        assert!(
            table
                .show(PLAIN)
                .contains("a-name-that-is-far-longer-than-anyone…")
        );
    }

    #[test]
    fn colour_takes_no_room() {
        let mut table = Table::new([
            ("PATH", Side::Left),
            ("STATE", Side::Left),
            ("N", Side::Right),
        ]);
        table.row(["a".into(), Cell::toned(Tone::Good, "up"), 12.into()]);
        let coloured = table.show(Look {
            colour: true,
            wrap: true,
        });
        assert!(
            coloured.contains("\x1b[32mup\x1b[0m     12\n"),
            "{coloured:?}"
        );
        assert!(!table.show(PLAIN).contains('\x1b'));
    }

    #[test]
    fn no_line_ends_in_blanks() {
        let mut table = Table::new([("PATH", Side::Left), ("STATE", Side::Left)]);
        table.row(["a".into(), "".into()]);
        assert!(table.show(PLAIN).lines().all(|line| !line.ends_with(' ')));
    }

    #[test]
    fn what_steers_a_terminal_is_not_printed() {
        let hostile = "lte\u{1b}[2J\u{7}\u{9b}31m\nup";
        let mut table = Table::new([("NAME", Side::Left)]);
        table.row([hostile.into()]);
        let sentence = PLAIN.sentence(Tone::Plain, "! ", hostile);
        for shown in [table.show(PLAIN), sentence] {
            let text = shown.replace('\n', "");
            assert!(!text.contains(char::is_control), "{text:?}");
            assert!(text.contains("lte\u{fffd}[2J"), "{text:?}");
        }
    }

    #[test]
    fn sentences_break_at_blanks_under_their_mark() {
        let text = "word ".repeat(20);
        let shown = PLAIN.sentence(Tone::Plain, "! ", &text);
        assert_eq!(shown.lines().count(), 2);
        assert!(shown.lines().all(|line| line.chars().count() <= WIDTH));
        assert!(shown.lines().nth(1).unwrap().starts_with("  word"));
        let piped = Look::default().sentence(Tone::Plain, "! ", &text);
        assert_eq!(piped.lines().count(), 1);
    }
}

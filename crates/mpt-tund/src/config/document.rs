//! A TOML text read by hand, so that each mistake is told where it stands and with its remedy.
//!
//! A derived deserialiser says what it expected; a person who wrote the file wants to know what to
//! write instead. So the text is parsed into a tree that keeps the byte range of each key and value
//! ([`toml::de::DeTable`]), and [`Section`](super::section::Section) and [`Entry`](super::entry::Entry) walk it: a section refuses keys that it
//! does not know before anything else is looked at, an entry turns its value into a type or into a
//! [`Mistake`].

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use toml::Spanned;
use toml::de::DeTable;

use super::files::Files;

/// Where something stands in a file; both count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    /// Line.
    pub(crate) line: usize,
    /// Column, in characters.
    pub(crate) column: usize,
}

/// Something wrong in a configuration: where, what, and what to do about it.
///
/// It is shown as two lines, the first of which editors and `grep` readers understand:
/// `FILE:LINE:COLUMN: what` and an indented `help: …`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mistake {
    /// The file or folder.
    pub(crate) file: PathBuf,
    /// The place in it; none when the file as such is the trouble.
    pub(crate) place: Option<Place>,
    /// What is wrong.
    pub(crate) what: String,
    /// What to write or to do instead.
    pub(crate) remedy: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, remedy) = (&self.what, &self.remedy);
        write!(f, "{}: {what}\n  help: {remedy}", self.file_and_place())
    }
}

impl Mistake {
    /// `FILE:LINE:COLUMN`, or what there is of it.
    pub(crate) fn file_and_place(&self) -> String {
        let file = on_one_line(self.file.display().to_string());
        match self.place {
            Some(Place { line, column }) => format!("{file}:{line}:{column}"),
            None => file,
        }
    }
}

impl std::error::Error for Mistake {}

/// The text of one file, and its name for the mistakes in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) file: &'a Path,
    pub(super) text: &'a str,
    /// Where files that it names are opened.
    pub(super) files: &'a Files,
}

impl<'a> Source<'a> {
    /// A mistake at a byte range of the text.
    pub(super) fn mistake(
        &self,
        span: &Range<usize>,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Mistake {
        Mistake {
            file: self.file.to_owned(),
            place: Some(self.place(span)),
            what: on_one_line(what.into()),
            remedy: on_one_line(remedy.into()),
        }
    }

    /// Line and column of the start of a byte range.
    pub(super) fn place(&self, span: &Range<usize>) -> Place {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Place {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }

    /// Parses the text, without a look at what it says.
    ///
    /// # Errors
    /// What TOML's syntax does not allow, a key given twice included.
    pub(super) fn parse(&self) -> Result<Spanned<DeTable<'a>>, Mistake> {
        DeTable::parse(self.text).map_err(|error| {
            if error.message() == "duplicate key" {
                return self.mistake(
                    &error.span().unwrap_or(0..0),
                    "this key or section stands in the file twice",
                    "remove one of them; only [[paths]], [[peers]] and [[classes]] may be repeated",
                );
            }
            let what = error.message().replace('\n', ", ");
            self.mistake(
                &error.span().unwrap_or(0..0),
                format!("this is not TOML: {what}"),
                "a section is [name] on a line, a setting is key = value, text and addresses \
                 stand in double quotes, each key once",
            )
        })
    }
}

/// The text without the control characters that a quoted value may have brought in: they would
/// break the two lines, or steer the terminal.
pub(super) fn on_one_line(text: String) -> String {
    text.replace(char::is_control, "\u{fffd}")
}

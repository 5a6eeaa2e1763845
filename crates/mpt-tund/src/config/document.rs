//! A TOML text read by hand, so that each mistake is told where it stands and with its remedy.
//!
//! A derived deserialiser says what it expected; a person who wrote the file wants to know what to
//! write instead. So the text is parsed into a tree that keeps the byte range of each key and value
//! ([`toml::de::DeTable`]), and [`Section`] and [`Entry`] walk it: a section refuses keys that it
//! does not know before anything else is looked at, an entry turns its value into a type or into a
//! [`Mistake`].

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use toml::Spanned;
use toml::de::DeTable;

use super::entry::Entry;
use super::files::Files;

/// The one key that stands above all sections.
pub(super) const USER: &str = "user";
/// How alike a misspelt key must be to a known one to be asked "did you mean"; 0 to 1.
const ALIKE: f64 = 0.8;

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
        write!(f, "{}:", self.file.display())?;
        if let Some(place) = self.place {
            write!(f, "{}:{}:", place.line, place.column)?;
        }
        write!(f, " {}\n  help: {}", self.what, self.remedy)
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
                    "remove one of them; only [[paths]] may be repeated",
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
fn on_one_line(text: String) -> String {
    text.replace(char::is_control, "\u{fffd}")
}

/// What a section may contain, and what is named when it contains something else.
#[derive(Debug, Clone, Copy)]
pub(super) struct Schema {
    /// As a person calls the section: `[tunnel]`; empty for the file itself.
    pub(super) title: &'static str,
    /// Keys that have a meaning here.
    pub(super) keys: &'static [&'static str],
}

/// One table of the file, all of whose keys are known.
#[derive(Debug)]
pub(super) struct Section<'a> {
    source: Source<'a>,
    schema: Schema,
    table: &'a DeTable<'a>,
    span: Range<usize>,
}

impl<'a> Section<'a> {
    /// Looks at a table as the section that `schema` describes; `elsewhere` are the other sections,
    /// for a key that stands in the wrong one.
    ///
    /// # Errors
    /// The first key, in the order of the file, that does not belong here.
    pub(super) fn open(
        source: Source<'a>,
        schema: Schema,
        table: &'a DeTable<'a>,
        span: Range<usize>,
        elsewhere: &[Schema],
    ) -> Result<Self, Mistake> {
        let stray = table
            .keys()
            .filter(|key| !schema.keys.contains(&key.get_ref().as_ref()))
            .min_by_key(|key| key.span().start);
        if let Some(key) = stray {
            return Err(stray_key(
                source,
                schema,
                key.get_ref(),
                &key.span(),
                elsewhere,
            ));
        }
        Ok(Section {
            source,
            schema,
            table,
            span,
        })
    }

    /// The value of a key, when the section has it.
    pub(super) fn get(&self, key: &'static str) -> Option<Entry<'a>> {
        debug_assert!(
            self.schema.keys.contains(&key),
            "{key} is missing in the schema"
        );
        let value = self.table.get(key)?;
        Some(Entry {
            source: self.source,
            key,
            element: false,
            value,
        })
    }

    /// The value of a key that must be given.
    ///
    /// # Errors
    /// The key is absent; `remedy` says what to add.
    pub(super) fn required(&self, key: &'static str, remedy: &str) -> Result<Entry<'a>, Mistake> {
        self.get(key)
            .ok_or_else(|| self.mistake(format!("{} has no `{key}`", self.schema.title), remedy))
    }

    /// A mistake at one of the section's values, or at its head when that one is a default.
    pub(super) fn mistake_at(
        &self,
        entry: Option<Entry<'_>>,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Mistake {
        match entry {
            Some(entry) => entry.mistake(what, remedy),
            None => self.mistake(what, remedy),
        }
    }

    /// A mistake of the section as a whole, told at its head.
    pub(super) fn mistake(&self, what: impl Into<String>, remedy: impl Into<String>) -> Mistake {
        self.source.mistake(&self.span, what, remedy)
    }
}

/// The mistake of a key that a section does not have, and the best guess at what was meant.
fn stray_key(
    source: Source<'_>,
    schema: Schema,
    key: &str,
    span: &Range<usize>,
    elsewhere: &[Schema],
) -> Mistake {
    let top = schema.title.is_empty();
    let what = if top {
        format!("unknown section or key `{key}`")
    } else {
        format!("unknown key `{key}` in {}", schema.title)
    };
    if let Some(meant) = most_alike(key, schema.keys) {
        return source.mistake(span, what, format!("did you mean `{meant}`?"));
    }
    let home = elsewhere.iter().find(|other| other.keys.contains(&key));
    if let Some(home) = home.filter(|home| !home.title.is_empty()) {
        return source.mistake(span, what, format!("`{key}` belongs in {}", home.title));
    }
    let kind = if top { "sections" } else { "keys" };
    let is_of_kind = |key: &&&str| !top || **key != USER;
    let known: Vec<&str> = schema.keys.iter().filter(is_of_kind).copied().collect();
    let remedy = format!("the {kind} here are {}", known.join(", "));
    source.mistake(span, what, remedy)
}

/// The known word that a misspelt one most likely stands for.
fn most_alike(word: &str, known: &[&'static str]) -> Option<&'static str> {
    let likeness = |candidate: &str| strsim::jaro_winkler(&word.to_lowercase(), candidate);
    known
        .iter()
        .map(|candidate| (likeness(candidate), *candidate))
        .filter(|(alike, _)| *alike >= ALIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

//! One section of the file: a table all of whose keys are known.

use std::ops::{Range, RangeInclusive};

use toml::de::DeTable;

use super::document::{Mistake, Source};
use super::entry::Entry;

/// The one key that stands above all sections.
pub(super) const USER: &str = "user";
/// How alike a misspelt key must be to a known one to be asked "did you mean"; 0 to 1.
const ALIKE: f64 = 0.8;

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

    /// A value as a section of the file; `elsewhere` as in [`Section::open`].
    ///
    /// # Errors
    /// It is no table, or has keys that the schema does not.
    pub(super) fn of(
        entry: Entry<'a>,
        schema: Schema,
        elsewhere: &[Schema],
    ) -> Result<Self, Mistake> {
        let table = entry.table(schema.title)?;
        Section::open(entry.source, schema, table, entry.span(), elsewhere)
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

    /// A number within `range`, when the section has it.
    ///
    /// # Errors
    /// It is no integer, or out of the range.
    pub(super) fn number<T: TryFrom<u64>>(
        &self,
        key: &'static str,
        range: RangeInclusive<u64>,
        unit: &str,
    ) -> Result<Option<T>, Mistake> {
        debug_assert!(
            T::try_from(*range.end()).is_ok(),
            "the range of {key} is too large"
        );
        let Some(entry) = self.get(key) else {
            return Ok(None);
        };
        Ok(T::try_from(entry.integer(range, unit)?).ok())
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

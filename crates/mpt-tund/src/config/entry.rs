//! One value of the file: its type and range, and the [`Mistake`] when it has another.

use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::document::{Mistake, Place, Source};

/// The value of one key, or one element of a list that stands there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry<'a> {
    pub(super) source: Source<'a>,
    pub(super) key: &'static str,
    /// It is one of the list that stands there.
    pub(super) element: bool,
    pub(super) value: &'a Spanned<DeValue<'a>>,
}

impl<'a> Entry<'a> {
    /// A mistake of this value.
    pub(super) fn mistake(&self, what: impl Into<String>, remedy: impl Into<String>) -> Mistake {
        self.source.mistake(&self.span(), what, remedy)
    }

    /// Bytes of the file that hold the value.
    pub(super) fn span(&self) -> Range<usize> {
        self.value.span()
    }

    /// Where the value stands.
    pub(super) fn place(&self) -> Place {
        self.source.place(&self.span())
    }

    /// Whether the value is the text "auto".
    pub(super) fn is_auto(&self) -> bool {
        self.value.get_ref().as_str() == Some("auto")
    }

    /// Whether the value is the integer 0.
    pub(super) fn is_zero(&self) -> bool {
        let integer = self.value.get_ref().as_integer();
        integer.is_some_and(|digits| {
            digits
                .as_str()
                .trim_start_matches(['-', '+', '0'])
                .is_empty()
        })
    }

    /// Whether the value is a table.
    pub(super) fn is_section(&self) -> bool {
        self.value.get_ref().is_table()
    }

    /// Whether the value is text.
    pub(super) fn is_text(&self) -> bool {
        self.value.get_ref().is_str()
    }

    /// Whether the value is a list.
    pub(super) fn is_list(&self) -> bool {
        self.value.get_ref().is_array()
    }

    fn wrong_type(&self, wanted: &str, remedy: impl Into<String>) -> Mistake {
        let found = match self.value.get_ref() {
            DeValue::String(_) => "text",
            DeValue::Integer(_) => "an integer",
            DeValue::Float(_) => "a number with a fraction",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a section",
        };
        let each = if self.element { "each of " } else { "" };
        let what = format!("{each}`{}` must be {wanted}, not {found}", self.key);
        self.mistake(what, remedy)
    }

    /// The value as text; `example` is a right one.
    ///
    /// # Errors
    /// It is of another type.
    pub(super) fn text(&self, example: &str) -> Result<&'a str, Mistake> {
        let value: &'a DeValue<'a> = self.value.get_ref();
        value.as_str().ok_or_else(|| {
            let remedy = if self.element {
                format!("write \"{example}\"")
            } else {
                format!("write {} = \"{example}\"", self.key)
            };
            self.wrong_type("text in double quotes", remedy)
        })
    }

    /// The value as true or false.
    ///
    /// # Errors
    /// It is of another type.
    pub(super) fn truth(&self) -> Result<bool, Mistake> {
        let value = self.value.get_ref().as_bool();
        value.ok_or_else(|| {
            let remedy = format!("write {} = true or {0} = false", self.key);
            self.wrong_type("true or false", remedy)
        })
    }

    /// The value as an integer within a range of at most 64 bits.
    ///
    /// # Errors
    /// It is of another type or out of the range; both say the range and `unit`.
    pub(super) fn integer(&self, range: RangeInclusive<u64>, unit: &str) -> Result<u64, Mistake> {
        let unit = if unit.is_empty() {
            String::new()
        } else {
            format!(" {unit}")
        };
        let remedy = format!(
            "write a whole number from {} to {}{unit}, without quotes",
            grouped(*range.start()),
            grouped(*range.end())
        );
        let DeValue::Integer(digits) = self.value.get_ref() else {
            return Err(self.wrong_type("an integer", remedy));
        };
        u64::from_str_radix(digits.as_str(), digits.radix())
            .ok()
            .filter(|number| range.contains(number))
            .ok_or_else(|| {
                self.mistake(format!("`{}` is {digits}: out of range", self.key), remedy)
            })
    }

    /// The value as a time with its unit, within a range.
    ///
    /// # Errors
    /// It has no unit, is not a time, or is out of the range.
    pub(super) fn duration(&self, range: RangeInclusive<Duration>) -> Result<Duration, Mistake> {
        let range_said = format!(
            "from {} to {}",
            in_one_unit(*range.start()),
            in_one_unit(*range.end())
        );
        let remedy = format!(
            "write a time with its unit, like {} = \"200ms\" or \"1s\", {range_said}",
            self.key
        );
        let DeValue::String(text) = self.value.get_ref() else {
            return Err(self.wrong_type("a time in double quotes", remedy));
        };
        let time = humantime::parse_duration(text.trim()).map_err(|error| {
            self.mistake(
                format!("`{}` is \"{text}\": {error}", self.key),
                remedy.clone(),
            )
        })?;
        if !range.contains(&time) {
            let what = format!("`{}` is \"{text}\": out of range", self.key);
            return Err(self.mistake(what, remedy));
        }
        Ok(time)
    }

    /// The elements of a list; `example` is an element.
    ///
    /// # Errors
    /// It is no list, or has more than `limit` elements.
    pub(super) fn list(&self, limit: usize, example: &str) -> Result<Vec<Entry<'a>>, Mistake> {
        let value: &'a DeValue<'a> = self.value.get_ref();
        let Some(list) = value.as_array() else {
            let remedy = format!("write {} = [{example}]", self.key);
            return Err(self.wrong_type("a list", remedy));
        };
        if list.len() > limit {
            let what = format!("`{}` has {} elements", self.key, list.len());
            return Err(self.mistake(what, format!("at most {limit} are possible")));
        }
        let entry = |value| Entry {
            value,
            element: true,
            ..*self
        };
        Ok(list.iter().map(entry).collect())
    }

    /// The value as a table, which `title` calls a section.
    ///
    /// # Errors
    /// It is no table.
    pub(super) fn table(&self, title: &str) -> Result<&'a DeTable<'a>, Mistake> {
        let value: &'a DeValue<'a> = self.value.get_ref();
        value.as_table().ok_or_else(|| {
            let remedy = format!("write {title} on a line, its keys below");
            self.wrong_type("a section", remedy)
        })
    }
}

/// An integer with its thousands apart: 32,768.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A time as a person writes it: 1500ms, not 1s 500ms.
pub(super) fn in_one_unit(time: Duration) -> String {
    let nanos = time.as_nanos();
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    let unit = units
        .iter()
        .find(|(length, _)| nanos.is_multiple_of(*length));
    let (length, unit) = unit.unwrap_or(&(1, "ns"));
    format!("{}{unit}", nanos / length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_stand_apart() {
        let written: Vec<String> = [0, 999, 1000, 1_234_567].map(grouped).into();
        assert_eq!(written, ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn times_are_written_in_one_unit() {
        let written = |micros| in_one_unit(Duration::from_micros(micros));
        assert_eq!(written(2_000_000), "2s");
        assert_eq!(written(1_500_000), "1500ms");
        assert_eq!(written(1_250), "1250us");
    }
}

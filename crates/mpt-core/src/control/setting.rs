//! A setting that is given, or left to the tunnel.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The value of a setting, or `auto`: the tunnel finds it by what it measures. In JSON the value
/// itself, or the word "auto".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "Written<T>", into = "Written<T>")]
#[serde(bound(
    serialize = "T: Clone + Serialize",
    deserialize = "T: Deserialize<'de>"
))]
pub enum Setting<T> {
    /// Found by the tunnel.
    #[default]
    Auto,
    /// This value.
    Fixed(T),
}

impl<T> Setting<T> {
    /// The value, if it is given.
    #[must_use]
    pub fn fixed(self) -> Option<T> {
        match self {
            Setting::Auto => None,
            Setting::Fixed(value) => Some(value),
        }
    }

    /// The same setting in another unit.
    #[must_use]
    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> Setting<U> {
        match self {
            Setting::Auto => Setting::Auto,
            Setting::Fixed(value) => Setting::Fixed(convert(value)),
        }
    }
}

impl<T> From<T> for Setting<T> {
    fn from(value: T) -> Setting<T> {
        Setting::Fixed(value)
    }
}

/// `auto` equals no value.
impl<T: PartialEq> PartialEq<T> for Setting<T> {
    fn eq(&self, value: &T) -> bool {
        matches!(self, Setting::Fixed(fixed) if fixed == value)
    }
}

impl<T: fmt::Display> fmt::Display for Setting<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setting::Auto => f.write_str("auto"),
            Setting::Fixed(value) => value.fmt(f),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written<T> {
    Value(T),
    Word(Word),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    Auto,
}

impl<T> From<Written<T>> for Setting<T> {
    fn from(written: Written<T>) -> Setting<T> {
        match written {
            Written::Value(value) => Setting::Fixed(value),
            Written::Word(Word::Auto) => Setting::Auto,
        }
    }
}

impl<T> From<Setting<T>> for Written<T> {
    fn from(setting: Setting<T>) -> Written<T> {
        match setting {
            Setting::Fixed(value) => Written::Value(value),
            Setting::Auto => Written::Word(Word::Auto),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_written_as_its_value_or_as_a_word() {
        for (setting, text) in [(Setting::Fixed(7u32), "7"), (Setting::Auto, "\"auto\"")] {
            assert_eq!(serde_json::to_string(&setting).unwrap(), text);
            let read: Setting<u32> = serde_json::from_str(text).unwrap();
            assert_eq!(read, setting);
        }
        serde_json::from_str::<Setting<u32>>("\"none\"").unwrap_err();
    }

    #[test]
    fn auto_equals_no_value() {
        assert!(Setting::Auto != 0 && Setting::Fixed(3) != 0 && Setting::Fixed(0) == 0);
    }
}

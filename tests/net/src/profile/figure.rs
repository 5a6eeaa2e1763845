//! Numbers that are asked for besides goodput.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::profile::measure::Variant;
use crate::profile::{apart_figures, recovery_figures, steady_figures, traffic_figures};

/// A measurement of its own.
#[derive(Debug, Clone, Copy)]
pub struct Figure {
    /// Short, for `--only`.
    pub name: &'static str,
    /// What is measured.
    pub title: &'static str,
    /// Takes it.
    pub take: fn(&Variant) -> Vec<Row>,
}

/// One number of a figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What.
    pub what: String,
    /// How much; `None` where the tunnel does not say it.
    pub value: Option<f64>,
    /// In what.
    pub unit: String,
    /// What is asked.
    pub asked: Asked,
}

/// What is asked of a number.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Asked {
    /// Nothing: it is reported.
    Reported,
    /// This, or less.
    AtMost(f64),
    /// This, or more.
    AtLeast(f64),
    /// Between the two.
    Within(f64, f64),
}

/// All of them.
pub const ALL: [Figure; 12] = [
    steady_figures::TRANSIENT,
    steady_figures::COLLAPSE,
    traffic_figures::REAL_TIME,
    traffic_figures::FAIRNESS,
    traffic_figures::DIRECTIONS,
    apart_figures::BBR,
    apart_figures::CUBIC,
    apart_figures::CUBIC_JITTER,
    recovery_figures::RELEASE,
    recovery_figures::RECOVERY_TIME,
    recovery_figures::SPURIOUS,
    recovery_figures::HIDDEN_LOSS,
];

impl Row {
    /// A number.
    #[must_use]
    pub fn new(what: impl Into<String>, value: f64, unit: &str, asked: Asked) -> Self {
        Self::maybe(what, Some(value), unit, asked)
    }

    /// A number of which nothing is asked.
    #[must_use]
    pub fn told(what: impl Into<String>, value: f64, unit: &str) -> Self {
        Self::new(what, value, unit, Asked::Reported)
    }

    /// A number that may be absent.
    #[must_use]
    pub fn maybe(what: impl Into<String>, value: Option<f64>, unit: &str, asked: Asked) -> Self {
        Self {
            what: what.into(),
            value: value.filter(|value| !value.is_nan()),
            unit: unit.to_owned(),
            asked,
        }
    }

    /// Whether it is as asked, which an absent number is not; `None` when nothing is asked.
    #[must_use]
    pub fn is_met(&self) -> Option<bool> {
        let is_met = |met: &dyn Fn(f64) -> bool| Some(self.value.is_some_and(met));
        match self.asked {
            Asked::Reported => None,
            Asked::AtMost(most) => is_met(&|value| value <= most),
            Asked::AtLeast(least) => is_met(&|value| value >= least),
            Asked::Within(least, most) => is_met(&|value| value >= least && value <= most),
        }
    }

    /// The number as text.
    #[must_use]
    pub fn value_text(&self) -> String {
        match self.value {
            Some(value) if value.abs() < 1.0 => format!("{value:.3} {}", self.unit),
            Some(value) => format!("{value:.1} {}", self.unit),
            None => "absent".to_owned(),
        }
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reported => to.write_str("-"),
            Self::AtMost(most) => write!(to, "<= {most:.3}"),
            Self::AtLeast(least) => write!(to, ">= {least:.3}"),
            Self::Within(least, most) => write!(to, "{least:.3} - {most:.3}"),
        }
    }
}

/// The sum of the numbers of a status that are at one of these places; a `*` stands for any one step.
/// `None` when there is none of them: a tunnel that does not count it.
#[must_use]
pub fn counted(status: &BTreeMap<String, f64>, places: &[&str]) -> Option<f64> {
    places.iter().find_map(|place| {
        let found: Vec<f64> = status
            .iter()
            .filter(|(key, _)| matches(key, place))
            .map(|(_, value)| *value)
            .collect();
        (!found.is_empty()).then(|| found.iter().sum())
    })
}

fn matches(key: &str, place: &str) -> bool {
    let (mut keys, mut steps) = (key.split('.'), place.split('.'));
    loop {
        match (keys.next(), steps.next()) {
            (None, None) => return true,
            (Some(key), Some(step)) if step == "*" || key == step => {}
            (Some(_) | None, Some(_) | None) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_searched_by_place() {
        let status: BTreeMap<String, f64> = [("paths.0.resent", 2.0), ("paths.1.resent", 3.0)]
            .map(|(key, value)| (key.to_owned(), value))
            .into();
        let resent = counted(&status, &["recovery.resent", "paths.*.resent"]);
        assert_eq!(resent, Some(5.0));
        assert_eq!(counted(&status, &["recovery.resent"]), None);
    }

    #[test]
    fn what_is_asked_and_absent_is_missed() {
        let asked = [
            Asked::AtMost(1.0),
            Asked::AtLeast(1.0),
            Asked::Within(0.0, 1.0),
        ];
        for asked in asked {
            let row = |value| Row::maybe("x", value, "ms", asked);
            assert_eq!(row(None).is_met(), Some(false), "{asked}");
            assert_eq!(row(Some(f64::NAN)).is_met(), Some(false), "{asked}");
            assert_eq!(row(Some(1.0)).is_met(), Some(true), "{asked}");
        }
        let told = Row::maybe("x", None, "ms", Asked::Reported);
        assert_eq!(
            (told.is_met(), told.value_text()),
            (None, "absent".to_owned())
        );
    }
}

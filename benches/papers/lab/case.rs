//! One measurement with a name, and the numbers that come of it.

use std::collections::BTreeMap;

/// Named numbers: Mbit/s, packets, nats, as the names say.
pub type Outcome = BTreeMap<String, f64>;

/// What came of each case, by its name.
pub type Outcomes = BTreeMap<String, Outcome>;

/// One measurement, on hosts and links of its own.
pub struct Case {
    /// Its name, unique in its paper: words separated by `/`.
    pub name: String,
    /// Expected real seconds on an idle CPU: long ones are started first.
    pub cost_s: u32,
    measure: Box<dyn Fn() -> Outcome>,
}

impl Case {
    /// A case that `measure` measures.
    pub(crate) fn new(name: String, cost_s: u32, measure: impl Fn() -> Outcome + 'static) -> Self {
        let measure = Box::new(measure);
        Self {
            name,
            cost_s,
            measure,
        }
    }

    /// Measures it; needs a network of its own (`tests/net/enter` or `tests/lab/run`).
    #[must_use]
    pub fn run(&self) -> Outcome {
        (self.measure)()
    }
}

/// An outcome from pairs.
pub(crate) fn outcome<const N: usize>(numbers: [(&str, f64); N]) -> Outcome {
    numbers
        .into_iter()
        .map(|(name, number)| (name.to_owned(), number))
        .collect()
}

/// One number of one case, when it ran.
pub(crate) fn number(outcomes: &Outcomes, case: &str, name: &str) -> Option<f64> {
    outcomes.get(case)?.get(name).copied()
}

/// A number for a table, or a dash.
pub(crate) fn cell(number: Option<f64>, digits: usize) -> String {
    number.map_or_else(|| "–".into(), |number| format!("{number:.digits$}"))
}

//! What a path costs, and what it may carry in a month.

use std::ops::RangeInclusive;

use mpt_core::control::budgets::AtBudget;
use mpt_core::control::units::bytes_of;

use super::document::Mistake;
use super::entry::Entry;
use super::section::Section;

/// Costs; only their order counts.
pub(super) const COSTS: RangeInclusive<u64> = 0..=1000;
/// Budgets in bytes: what smaller ones are, probes use up in a minute; the largest is exact as a number of JSON.
const LIMITS: RangeInclusive<u64> = 1_000_000..=9_000_000_000_000_000;
/// Days of a month.
const DAYS: RangeInclusive<u64> = 1..=31;
/// The day on which a month begins unless configured.
const FIRST_DAY: u8 = 1;

/// A path's budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Budget {
    /// Bytes a month, both ways, as the provider counts them.
    pub(crate) limit: u64,
    /// The day on which a month begins, 1 to 31; one that has not so many begins on its last.
    pub(crate) reset_day: u8,
    /// What becomes of the path when it is used up.
    pub(crate) at_budget: AtBudget,
}

/// The budget of a path, if it has one.
pub(super) fn budget(section: &Section<'_>) -> Result<Option<Budget>, Mistake> {
    let [day, at_budget] = ["reset_day", "at_budget"].map(|key| section.get(key));
    let Some(entry) = section.get("budget") else {
        return match day.or(at_budget) {
            None => Ok(None),
            Some(entry) => Err(entry.mistake(
                format!("`{}` means nothing without `budget`", entry.key),
                "remove it, or write what the path may carry, like budget = \"50 GB / month\"",
            )),
        };
    };
    Ok(Some(Budget {
        limit: limit(entry)?,
        reset_day: section.number("reset_day", DAYS, "")?.unwrap_or(FIRST_DAY),
        at_budget: at_budget.map_or(Ok(AtBudget::default()), at)?,
    }))
}

/// `SIZE / month`.
fn limit(entry: Entry<'_>) -> Result<u64, Mistake> {
    let text = entry.text("50 GB / month")?;
    let shown = text.escape_debug();
    let wrong = |what: String, remedy: &str| Err(entry.mistake(what, remedy));
    let Some((size, period)) = text.split_once('/') else {
        return wrong(
            format!("`budget` is \"{shown}\", and not said for how long"),
            "write how much, and a month, like \"50 GB / month\"",
        );
    };
    if period.trim() != "month" {
        return wrong(
            format!("`budget` is \"{shown}\": it is for something else than a month"),
            "write what the path may carry in a month, like \"50 GB / month\"; `reset_day` says when that begins",
        );
    }
    match bytes_of(size).filter(|limit| LIMITS.contains(limit)) {
        Some(limit) => Ok(limit),
        None => wrong(
            format!("`budget` is \"{shown}\""),
            "write an amount with its unit, like \"50 GB / month\", in kB, MB, GB, TB (thousands) or KiB, MiB, GiB, TiB \
             (of 1024), from 1 MB to 9000 TB",
        ),
    }
}

fn at(entry: Entry<'_>) -> Result<AtBudget, Mistake> {
    let name = entry.text("last resort")?;
    let mut all = AtBudget::ALL.into_iter();
    all.find(|at| at.name() == name).ok_or_else(|| {
        entry.mistake(
            format!("`at_budget` is \"{}\"", name.escape_debug()),
            "write \"last resort\" (when the budget is used up, the path carries packets when no other is there) or \
             \"off\" (it carries none)",
        )
    })
}

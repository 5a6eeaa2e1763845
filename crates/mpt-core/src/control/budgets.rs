//! What a path may carry in a month, as `mpt-ctl status` shows it.

use serde::{Deserialize, Serialize};

/// What becomes of a path whose budget is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum AtBudget {
    /// It carries packets when no other path is there.
    #[default]
    #[serde(rename = "last resort")]
    LastResort,
    /// It carries none until the next month.
    #[serde(rename = "off")]
    Off,
}

impl AtBudget {
    /// Every one.
    pub const ALL: [AtBudget; 2] = [AtBudget::LastResort, AtBudget::Off];

    /// The name in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            AtBudget::LastResort => "last resort",
            AtBudget::Off => "off",
        }
    }
}

/// What a path's budget makes of it now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum BudgetState {
    /// Something is left of the budget.
    #[default]
    #[serde(rename = "open")]
    Open,
    /// It is used up, and the path carries packets when no other is there.
    #[serde(rename = "last resort")]
    LastResort,
    /// It is used up, and the path carries none.
    #[serde(rename = "off")]
    Off,
}

/// A path's budget. Bytes are those that its provider would count: both ways, with IP and UDP headers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BudgetStatus {
    /// Bytes that it may carry in a month.
    pub limit_bytes: u64,
    /// Bytes that it carried in this one.
    pub used_bytes: u64,
    /// The day on which the next month begins, at 00:00 UTC, as RFC 3339 writes it.
    pub resets: String,
    /// Bytes that it will have carried then if it goes on as in this month so far; absent in the first hours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forecast_bytes: Option<u64>,
    /// What becomes of the path when it is used up.
    pub at_budget: AtBudget,
    /// What it makes of the path now.
    pub state: BudgetState,
}

/// Share of a budget from which there is a note, in percent.
pub const NOTED_PERCENT: u64 = 80;

impl BudgetStatus {
    /// How much of it is used, in whole percent.
    #[must_use]
    pub fn used_percent(&self) -> u64 {
        let percent = u128::from(self.used_bytes) * 100 / u128::from(self.limit_bytes.max(1));
        u64::try_from(percent).unwrap_or(u64::MAX)
    }
}

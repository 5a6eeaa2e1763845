//! What paths may still carry in their months.

use super::{Code, Finding};
use crate::control::budgets::{AtBudget, BudgetState, NOTED_PERCENT};
use crate::control::units::bytes;
use crate::control::{PathStatus, Status};

pub(super) fn findings(status: &Status) -> Vec<Finding> {
    status.paths.iter().filter_map(finding).collect()
}

/// Notes: what happens then was wanted so. Where no other path is up that is said by itself.
fn finding(path: &PathStatus) -> Option<Finding> {
    let (name, budget) = (&path.name, path.budget.as_ref()?);
    let (limit, resets) = (bytes(budget.limit_bytes), &budget.resets);
    let remedy = "A larger `budget` and `mpt-ctl reload` let it carry more.";
    let used_up = |then: &str| {
        Some(Finding::note(
            Code::BudgetUsedUp,
            format!("Path {name} has carried the {limit} of its month: {then} until {resets}."),
            remedy,
        ))
    };
    match budget.state {
        BudgetState::LastResort => used_up("it is used when no other path is up,"),
        BudgetState::Off => used_up("nothing goes over it"),
        BudgetState::Open if budget.used_percent() < NOTED_PERCENT => None,
        BudgetState::Open => {
            let then = match budget.at_budget {
                AtBudget::LastResort => "it is the last resort",
                AtBudget::Off => "nothing goes over it",
            };
            Some(Finding::note(
                Code::Budget80,
                format!(
                    "Path {name} has carried {} % of its budget of {limit}, which begins anew on {resets}.",
                    budget.used_percent()
                ),
                format!("When it is used up, {then}. {remedy}"),
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::PathState;
    use crate::control::budgets::BudgetStatus;
    use crate::control::verdict::judge;

    fn said(used: u64, state: BudgetState, at_budget: AtBudget) -> Vec<(String, String)> {
        let path = PathStatus {
            name: "lte".to_owned(),
            state: match state {
                BudgetState::Off => PathState::AdminDown,
                BudgetState::Open | BudgetState::LastResort => PathState::Up,
            },
            budget: Some(BudgetStatus {
                limit_bytes: 1_000_000_000,
                used_bytes: used,
                resets: "2026-12-01".to_owned(),
                forecast_bytes: None,
                at_budget,
                state,
            }),
            ..PathStatus::default()
        };
        let status = Status {
            paths: vec![path],
            ..Status::default()
        };
        let messages = judge(&status).messages.into_iter();
        let of_path = messages.filter(|finding| finding.text.contains("lte"));
        of_path
            .map(|finding| (finding.code.clone(), finding.sentence()))
            .collect()
    }

    #[test]
    fn budgets_are_noted_from_80_percent_on_and_when_they_are_used_up() {
        use AtBudget::{LastResort, Off};
        assert_eq!(said(799_999_999, BudgetState::Open, LastResort), []);
        let note = |code: &str, text: &str| vec![(code.to_owned(), text.to_owned())];
        assert_eq!(
            said(800_000_000, BudgetState::Open, LastResort),
            note(
                "budget-80",
                "Path lte has carried 80 % of its budget of 1.0 GB, which begins anew on 2026-12-01. When it is used up, \
                 it is the last resort. A larger `budget` and `mpt-ctl reload` let it carry more."
            )
        );
        assert_eq!(
            said(1_000_000_000, BudgetState::LastResort, LastResort),
            note(
                "budget-used-up",
                "Path lte has carried the 1.0 GB of its month: it is used when no other path is up, until 2026-12-01. A \
                 larger `budget` and `mpt-ctl reload` let it carry more."
            )
        );
        // Nothing is said of a command that nobody gave.
        assert_eq!(
            said(1_000_000_000, BudgetState::Off, Off),
            note(
                "budget-used-up",
                "Path lte has carried the 1.0 GB of its month: nothing goes over it until 2026-12-01. A larger `budget` \
                 and `mpt-ctl reload` let it carry more."
            )
        );
    }
}

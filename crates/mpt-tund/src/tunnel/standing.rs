//! What paths cost now, and which have nothing left of their budgets.

use mpt_core::control::budgets::BudgetState;
use mpt_core::path::MAX_PATHS;
use mpt_core::send::tiers::LAST_RESORT;

use super::Tunnel;
use crate::config::Budget;
use crate::{clock, downlink, uplink};

impl Tunnel {
    /// The path at this place has this budget from now on.
    pub(super) fn budget_path(&mut self, at: usize, budget: Option<Budget>) {
        let path = &self.paths[at];
        let (name, counted) = (&path.name, &path.counted);
        let (now, log) = (clock::unix_s(), &mut self.log);
        self.budgets.set(name, budget, counted, now, log);
    }

    /// Whether nothing goes over a path since its budget is used up.
    pub(crate) fn is_used_up(&self, name: &str) -> bool {
        self.budgets.state(name) == BudgetState::Off
    }

    /// Tells the lines what paths cost and which are out of service, where they were told something else.
    pub(super) async fn follow_budgets(&mut self) -> anyhow::Result<()> {
        let mut costs = [0; MAX_PATHS];
        for path in &mut self.paths {
            let state = self.budgets.state(&path.name);
            let cost = self.config.path(&path.name).map_or(0, |path| path.cost);
            costs[path.id.index()] = match state {
                BudgetState::Open | BudgetState::Off => cost,
                BudgetState::LastResort => LAST_RESORT,
            };
            let is_out = path.is_taken_out || state == BudgetState::Off;
            if path.is_out != is_out {
                let command = |_| downlink::Command::SetOutOfService(path.id, is_out);
                self.downlink.tell(command).await?;
                path.is_out = is_out;
            }
        }
        if self.costs_told != costs {
            let command = |_| uplink::Command::SetCosts(costs);
            self.uplink.tell(command).await?;
            let command = |_| downlink::Command::SetCosts(costs);
            self.downlink.tell(command).await?;
            self.costs_told = costs;
        }
        Ok(())
    }
}

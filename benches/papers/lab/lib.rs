//! The papers' experiments over emulated links, with real TCP and a real tunnel.
//!
//! The simulated halves stand in the folder above; they need no kernel. What needs one is here. An
//! experiment is a list of [`Case`]s, each of which runs by itself, in a lab of its own, and gives
//! named numbers. When all have run, [`Paper::report`] puts the numbers beside the paper's, in tables
//! and charts. `benches/papers/run` starts the cases, as many at a time as there are CPUs; a few of
//! them run in `./test` (tests/lab_papers.rs).
//!
//! All experiments share one path ([`Line`]): a rate with a queue first, then a delay that may
//! reorder. The order matters: packets that have left a bottleneck are spaced as its rate says, and
//! only then does jitter mix them, as in the papers.

mod bulk;
mod case;
mod line;
mod mpt_gre;
#[path = "../plot.rs"]
mod plot;
mod reorder_density;
#[path = "../report.rs"]
mod report;
mod srpic;
mod switching;
mod tcp;
mod tcp_out_of_order;

pub use case::{Case, Outcome, Outcomes};
pub use line::Line;

use report::Output;

/// A paper, as far as it needs emulated links.
pub struct Paper {
    /// Its name on the command line and below `target/papers`.
    pub name: &'static str,
    cases: fn() -> Vec<Case>,
    report: fn(&Outcomes, &Output) -> Vec<String>,
}

/// All papers that need emulated links.
pub const PAPERS: [Paper; 4] = [
    Paper {
        name: "reorder_density",
        cases: reorder_density::cases,
        report: reorder_density::report,
    },
    Paper {
        name: "mpt_gre",
        cases: mpt_gre::cases,
        report: mpt_gre::report,
    },
    Paper {
        name: "tcp_out_of_order",
        cases: tcp_out_of_order::cases,
        report: tcp_out_of_order::report,
    },
    Paper {
        name: "srpic",
        cases: srpic::cases,
        report: srpic::report,
    },
];

impl Paper {
    /// The paper of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        PAPERS.iter().find(|paper| paper.name == name)
    }

    /// What it measures, in the order of its tables.
    #[must_use]
    pub fn cases(&self) -> Vec<Case> {
        (self.cases)()
    }

    /// Runs one case, `None` when there is none of this name.
    #[must_use]
    pub fn run(&self, case: &str) -> Option<Outcome> {
        let cases = self.cases();
        let case = cases.iter().find(|candidate| candidate.name == case)?;
        Some(case.run())
    }

    /// Writes tables and charts of what was measured; cases that did not run are left out. Returns
    /// what lies outside its tolerance.
    #[must_use]
    pub fn report(&self, outcomes: &Outcomes) -> Vec<String> {
        (self.report)(outcomes, &Output::new(self.name))
    }
}

//! The campaign in short: fixed seeds of two families, and what the sender's law reaches over them.
//!
//! `cargo bench -p mpt-sim --bench campaign` runs as many as one likes.
#![allow(clippy::unwrap_used)]

use std::thread;

use mpt_sim::campaign::{Case, Family, Row, Tally};
use mpt_sim::source::Sender;

/// Runs the cases of seeds 1 to `count`, and returns the rows of all groups together, by phase.
fn rows(family: Family, count: u64) -> Vec<Row> {
    let lanes: Vec<_> = (0..2)
        .map(|lane| {
            thread::spawn(move || {
                let seeds = (1..=count).filter(|seed| seed % 2 == lane);
                let run = |seed| Case::draw(family, seed).run(Sender::Reno);
                seeds.map(run).collect::<Vec<_>>()
            })
        })
        .collect();
    let mut tally = Tally::default();
    for lane in lanes {
        lane.join()
            .unwrap()
            .into_iter()
            .for_each(|outcome| tally.add(outcome));
    }
    for outcome in tally.clone().sorted().outcomes() {
        let shares: Vec<_> = outcome.phases.iter().map(|m| m.of_best()).collect();
        println!(
            "{family} {}: {shares:.2?} of the best link",
            outcome.case.seed
        );
    }
    let rows = tally.rows(family);
    rows.into_iter().filter(|row| row.group == "all").collect()
}

#[test]
fn few_random_pairs_are_worse_than_their_best_link() {
    let rows = rows(Family::Pairs, 16);
    let late = &rows[1];
    assert!(late.below_95 <= 2.0 / 16.0, "{late:?}");
    assert!(late.sum_median >= 0.9, "{late:?}");
}

#[test]
fn few_random_sets_are_worse_than_their_best_link_before_one_changes() {
    let rows = rows(Family::Changing, 6);
    assert!(rows[0].below_95 <= 1.0 / 6.0, "{:?}", rows[0]);
}

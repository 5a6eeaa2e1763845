//! The campaign in short: fixed seeds of some families, and what the sender's law reaches over them.
//!
//! `cargo bench -p mpt-sim --bench campaign` runs as many as one likes.
#![allow(clippy::unwrap_used)]

use std::thread;

use mpt_core::send::scheduler::Policy;
use mpt_sim::campaign::{Case, Family, Outcome, Row, Tally, Weather, What};
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

/// The second page, over links that are known by then. Of the campaign's 600, 14.8 % are below 0.95; of these 20, one is.
#[test]
fn few_random_pages_are_slower_than_over_their_best_link() {
    let second = &rows(Family::Pages, 20)[1];
    assert!(second.below_95 <= 3.0 / 20.0, "{second:?}");
    assert!(second.sum_median >= 0.35, "{second:?}");
}

fn outcomes(family: Family, seeds: [u64; 2]) -> [Outcome; 2] {
    let runs = seeds.map(|seed| thread::spawn(move || Case::draw(family, seed).run(Sender::Reno)));
    runs.map(|run| run.join().unwrap())
}

/// What the tunnel reaches late of the better link alone, and what the other host's flow keeps, if there is one.
fn reached(family: Family, seeds: [u64; 2]) -> [(f64, Option<f64>); 2] {
    let outcomes = outcomes(family, seeds);
    let reached = outcomes.map(|outcome| (outcome.phases[1].of_best(), outcome.beside_keeps));
    println!("{family} {seeds:?}: {reached:.2?}");
    reached
}

/// The large link is taken for silent for a moment, early and late, and is not. When what was about to go over it stayed with
/// the small one, to which it was moved, these two reached 0.65 and 10.7.
#[test]
fn what_was_moved_to_a_small_link_goes_back_when_its_own_answers() {
    let [early, late] = outcomes(Family::Pairs, [20_000, 20_174]);
    let [early, late] = [early.phases[0].of_best(), late.phases[1].of_best()];
    println!("{early:.2} and {late:.2} of the better link");
    assert!(early > 0.75 && late > 14.0, "{early} and {late}");
}

/// Links that lose 2 to 3 %, and that others fill. When what was lost beside others was not sent again, the receiver held
/// back what came behind it, and these two reached 0.39 and 0.53.
#[test]
fn what_is_lost_beside_others_holds_nothing_up() {
    for (of_best, _) in reached(Family::Crossed, [9129, 9148]) {
        assert!(of_best > 1.1, "{of_best}");
    }
}

/// What a small link drops of a slow start goes again over a link of 27 ms with 14 ms of jitter. When that was waited for as if it
/// took the mean, it came 10 ms too late, and the flow had 0.15 of the better link late.
#[test]
fn what_is_sent_again_over_a_link_with_jitter_is_waited_for() {
    let late = Case::draw(Family::Asymmetric, 518).run(Sender::Reno).phases[1].of_best();
    println!("{late:.2} of the better link");
    assert!(late > 0.8, "{late}");
}

/// The large link's delay rises by 80 to 100 ms within a second, which looks like a queue of others. When the path then grew from
/// what it had been lowered to, by what the last probe had found the round trip to be, these two reached 0.41 and 0.66.
#[test]
fn a_path_whose_delay_rises_takes_again_what_it_carried_before() {
    let [early, late] = outcomes(Family::Drifting, [514, 9075]);
    let [early, late] = [early.phases[0].of_best(), late.phases[1].of_best()];
    println!("{early:.2} and {late:.2} of the better link");
    assert!(early > 0.65 && late > 0.77, "{early} and {late}");
}

/// Another host's flow keeps a queue of nearly the same length, which is taken for a longer path. When the path then kept the
/// rate that it had been lowered to, these two reached 1.01 and 0.53. How much of the path the other has in the end is a matter
/// of chance in each: of 200 such cases (`campaign --family shared --pairs 200 --seed 9000`) one in eleven leaves it less than
/// half of what it had beside a plain path, and the median is 1.2.
#[test]
fn a_path_that_another_flow_fills_has_its_share_back_and_leaves_the_flow_its_own() {
    let reached = reached(Family::Shared, [9126, 9133]);
    for ((of_best, _), least) in reached.iter().zip([1.15, 0.65]) {
        assert!(*of_best > least, "{of_best}");
    }
    let kept: f64 = reached.iter().filter_map(|&(_, keeps)| keeps).sum();
    assert!(kept / 2.0 > 0.5, "{reached:?}");
}

/// A DSL line beside an address translator that lets a 5-tuple die, and beside a line that throttles one: the client
/// goes over to another port.
#[test]
fn a_path_whose_port_is_throttled_or_dead_is_back_by_another() {
    let runs = [Weather::Cgnat, Weather::Throttled].map(|weather| {
        thread::spawn(move || {
            let spoilt_at = |case: &Case| {
                let mut spoilt = case.changes.iter();
                let spoilt = spoilt.find(|change| matches!(change.what, What::Tuple(_)));
                spoilt.map(|change| change.at.as_secs() as usize)
            };
            let mut cases = (0..).map(|seed| Case::draw(Family::Field, seed));
            let is_wanted = |case: &Case| {
                case.weathers.contains(&weather)
                    && case.weathers.contains(&Weather::Dsl)
                    && spoilt_at(case).is_some_and(|at| at < 44)
            };
            let case = cases.find(is_wanted).unwrap();
            let at = spoilt_at(&case).unwrap();
            (
                at,
                case.run_once(Sender::Cubic, Policy::Adaptive, true).bytes,
            )
        })
    });
    for run in runs {
        let (at, bytes) = run.join().unwrap();
        // The other path alone, and more than that.
        let other = bytes[at + 3];
        assert!(other * 10 < bytes[at - 2] * 7, "{at} s: {bytes:?}");
        let back = (at + 4..60).find(|&second| bytes[second] * 10 > other * 11);
        assert!(
            back.is_some_and(|back| back - at <= 14),
            "{at} s: {bytes:?}"
        );
    }
}

use super::super::observed::{Observed, RATE};
use super::*;

/// Bytes that a path carries in a millisecond.
const MS: usize = RATE as usize / 1000;

fn path(index: usize) -> PathId {
    PathId::new(index).unwrap()
}

fn first(paths: usize) -> PathSet {
    PathSet::from_bits((1 << paths) - 1)
}

/// Paths of one rate and these delays in milliseconds, all with room, and the time.
fn paths(delays_ms: &[u64]) -> (Adaptive, Time) {
    let mut adaptive = Adaptive::new(&Law::LAW);
    let mut now = Time::ZERO;
    for (index, &delay_ms) in delays_ms.iter().enumerate() {
        let pace = &mut adaptive.paces[index];
        now = now.max(Observed::new(delay_ms, 0).run(pace, Time::ZERO, 500));
    }
    (adaptive, now)
}

/// Sends over the path until it takes no more.
fn fill(adaptive: &mut Adaptive, now: Time, index: usize) {
    let pace = &mut adaptive.paces[index];
    if let Some(room) = pace.room(now) {
        pace.took(now, room);
    }
    assert_eq!(pace.room(now), None);
}

/// Where the next packet goes that is not bound to a path.
fn choose(adaptive: &mut Adaptive, now: Time, usable: PathSet, mut waiting: usize) -> Choice {
    const PACKET: usize = 1000;
    let mut bound = [0; MAX_PATHS];
    loop {
        let choice = adaptive.choose(now, usable, waiting, &bound);
        let Choice::Bind(path) = choice else {
            return choice;
        };
        bound[path.index()] += PACKET;
        waiting = waiting.saturating_sub(PACKET);
    }
}

fn waits(choice: Choice) -> bool {
    matches!(choice, Choice::Wait(_))
}

fn takes(choice: Choice, index: usize) -> bool {
    matches!(choice, Choice::Take(taker, _) if taker == path(index))
}

#[test]
fn the_fastest_path_takes_everything_while_it_has_room() {
    let (mut adaptive, now) = paths(&[40, 10, 20]);
    for waiting in [0, 20 * MS, Law::LAW.patient_bytes * 2] {
        assert!(takes(choose(&mut adaptive, now, first(3), waiting), 1));
    }
}

#[test]
fn what_a_busy_path_delivers_sooner_is_bound_to_it() {
    let (mut adaptive, now) = paths(&[10, 20, 40]);
    fill(&mut adaptive, now, 0);
    fill(&mut adaptive, now, 1);
    // 30 ms of the first and 20 ms of the second path's packets arrive before those of the third.
    let mut bound = [0; MAX_PATHS];
    let mut order = Vec::new();
    for _ in 0..49 {
        let choice = adaptive.choose(now, first(3), 100 * MS, &bound);
        let Choice::Bind(path) = choice else {
            panic!("{choice:?} after {bound:?}");
        };
        bound[path.index()] += MS;
        order.push(path.index());
    }
    assert!(order[..9].iter().all(|&path| path == 0), "{order:?}");
    let to_first = order.iter().filter(|&&path| path == 0).count();
    assert!((29..=30).contains(&to_first), "{order:?}");
    bound[0] += MS;
    bound[1] += MS;
    assert!(takes(adaptive.choose(now, first(3), MS, &bound), 2));
    // With less than that nothing is bound: it may yet be dropped, or come after another flow's.
    assert!(waits(adaptive.choose(
        now,
        first(3),
        25 * MS,
        &[0; MAX_PATHS]
    )));
}

#[test]
fn a_slower_path_is_used_once_the_queue_lasts_as_long_as_it_adds() {
    let (mut adaptive, now) = paths(&[10, 40]);
    fill(&mut adaptive, now, 0);
    for waiting in [1000, 15 * MS, 29 * MS] {
        assert!(
            waits(choose(&mut adaptive, now, first(2), waiting)),
            "{waiting}"
        );
    }
    assert!(takes(choose(&mut adaptive, now, first(2), 31 * MS), 1));
}

#[test]
fn the_queue_lasts_as_long_as_all_faster_paths_need_for_it() {
    let (mut adaptive, now) = paths(&[10, 20, 60]);
    fill(&mut adaptive, now, 0);
    fill(&mut adaptive, now, 1);
    // 50 ms of the one and 40 ms of the other.
    assert!(waits(choose(&mut adaptive, now, first(3), 88 * MS)));
    assert!(takes(choose(&mut adaptive, now, first(3), 92 * MS), 2));
}

#[test]
fn for_a_path_of_unknown_delay_packets_wait_ten_milliseconds() {
    // It comes last, however slow the others are.
    let (mut adaptive, now) = paths(&[10, 300]);
    fill(&mut adaptive, now, 0);
    assert!(waits(choose(&mut adaptive, now, first(3), 9 * MS)));
    assert!(takes(choose(&mut adaptive, now, first(3), 11 * MS), 2));
    fill(&mut adaptive, now, 2);
    assert!(waits(choose(&mut adaptive, now, first(3), 200 * MS)));
}

#[test]
fn no_more_than_four_mebibytes_wait_for_a_faster_path() {
    let (mut adaptive, now) = paths(&[10, 510]);
    fill(&mut adaptive, now, 0);
    let most = 4 << 20;
    assert!(most < 500 * MS);
    assert!(waits(choose(&mut adaptive, now, first(2), most - 1)));
    assert!(takes(choose(&mut adaptive, now, first(2), most), 1));
}

#[test]
fn what_every_path_refuses_waits_and_without_a_path_goes_nowhere() {
    let (mut adaptive, now) = paths(&[10, 40]);
    assert_eq!(
        choose(&mut adaptive, now, PathSet::EMPTY, 1000),
        Choice::Nowhere
    );
    fill(&mut adaptive, now, 0);
    fill(&mut adaptive, now, 1);
    let Choice::Wait(until) = choose(&mut adaptive, now, first(2), 100 * MS) else {
        panic!("two full paths");
    };
    assert!(until > now);
}

#[test]
fn a_path_whose_losses_make_others_wait_is_used_behind_the_other() {
    let mut adaptive = Adaptive::new(&Law::LAW);
    let (mut lossy, mut clean) = (Observed::new(10, 1), Observed::new(40, 0));
    lossy.run(&mut adaptive.paces[0], Time::ZERO, 2000);
    let now = clean.run(&mut adaptive.paces[1], Time::ZERO, 2000);
    // What is not sent again delays nothing.
    adaptive.weigh(first(2), false);
    assert!(takes(choose(&mut adaptive, now, first(2), 1000), 0));
    adaptive.weigh(first(2), true);
    assert!(takes(choose(&mut adaptive, now, first(2), 1000), 1));
    fill(&mut adaptive, now, 1);
    assert!(waits(choose(&mut adaptive, now, first(2), 1000)));
    let choice = choose(&mut adaptive, now, first(2), Law::LAW.patient_bytes);
    assert!(takes(choice, 0));
}

#[test]
fn a_small_path_whose_delay_rises_is_waited_before_for_as_long_as_it_may_be_late() {
    let (mut adaptive, now) = paths(&[10, 40]);
    for path in 0..2 {
        adaptive.paces[path].rose(now, Duration::from_millis(100));
    }
    fill(&mut adaptive, now, 0);
    // Both carry their even share.
    adaptive.weigh(first(2), false);
    assert_eq!(adaptive.spread(first(2)), Duration::from_millis(30));
    assert!(takes(choose(&mut adaptive, now, first(2), 31 * MS), 1));
    adaptive.paces[1].weigh_disorder(false, 0.0, None);
    assert_eq!(adaptive.spread(first(2)), Duration::from_millis(130));
    assert!(waits(choose(&mut adaptive, now, first(2), 129 * MS)));
    assert!(takes(choose(&mut adaptive, now, first(2), 131 * MS), 1));
}

#[test]
fn a_path_that_is_a_last_resort_makes_no_other_a_small_one() {
    let swing = |cost| {
        let (mut adaptive, now) = paths(&[10, 40]);
        let mut costs = [0; MAX_PATHS];
        costs[1] = cost;
        adaptive.tiers.set(costs);
        for (index, carries) in [0.2, 1.0].into_iter().enumerate() {
            adaptive.paces[index].set_paced(now, RATE as f64 * carries);
        }
        adaptive.paces[0].rose(now, Duration::from_millis(100));
        adaptive.weigh(first(2), false);
        adaptive.paces[0].swings()
    };
    assert!(swing(0) > Span::ZERO);
    assert_eq!(swing(tiers::LAST_RESORT), Span::ZERO);
}

#[test]
fn a_small_path_whose_delay_rises_is_not_the_first_while_it_is_quick() {
    let (mut adaptive, now) = paths(&[10, 40]);
    adaptive.paces[0].rose(now, Duration::from_millis(100));
    let chosen = |adaptive: &mut Adaptive| {
        let again = adaptive.surest(now, first(2)).map(PathId::index);
        (takes(choose(adaptive, now, first(2), MS), 0), again)
    };
    adaptive.paces[0].weigh_disorder(false, 1.0, None);
    assert_eq!(chosen(&mut adaptive), (true, Some(0)));
    adaptive.paces[0].weigh_disorder(false, 0.5, None);
    assert_eq!(chosen(&mut adaptive), (false, Some(1)));
}

#[test]
fn a_small_path_that_loses_is_not_the_first_for_being_quicker() {
    // Whether the quick path is the first, and by how much the paths' delays differ, when it carries such a share of what
    // the other one does and loses this share.
    let first_is_quick = |carries: f64, loses: f64, recovers: bool| {
        let (mut adaptive, now) = paths(&[10, 40]);
        for (index, carries) in [carries, 1.0].into_iter().enumerate() {
            adaptive.paces[index].set_paced(now, RATE as f64 * carries);
        }
        adaptive.paces[0].loses(loses);
        adaptive.weigh(first(2), recovers);
        let (fastest, _) = adaptive.fastest(now, first(2)).unwrap();
        (fastest == path(0), adaptive.spread(first(2)).as_millis())
    };
    assert_eq!(first_is_quick(0.05, 0.0, true), (true, 30));
    assert_eq!(first_is_quick(0.05, 1e-4, false), (true, 30));
    // It counts as if it was nearly as slow, and a little slower for what it makes wait itself.
    let (is_quick, differ) = first_is_quick(0.05, 1e-4, true);
    assert!(!is_quick && differ <= 10, "{differ} ms");
    // One that carries as much holds up no more than it brings.
    let (is_quick, differ) = first_is_quick(1.0, 1e-4, true);
    assert!(is_quick && differ >= 18, "{differ} ms");
}

#[test]
fn to_a_call_a_hundredth_lost_is_as_bad_as_150_ms() {
    let chosen = |slower_ms: u64| {
        let (adaptive, now) = paths(&[10, 10 + slower_ms]);
        let mut answered = [Answered::default(); MAX_PATHS];
        answered[0].loss = 0.01;
        let clearest = adaptive.clearest(now, first(2), &answered);
        clearest.map(PathId::index)
    };
    assert_eq!(chosen(140), Some(1));
    assert_eq!(chosen(160), Some(0));
}

#[test]
fn the_rises_of_a_path_that_carries_nothing_yet_count_whole() {
    let (mut adaptive, now) = paths(&[10]);
    let answered = Answered {
        rtt: Duration::from_millis(80),
        forward_ns: 40_000_000,
        idle_ns: Some(40_000_000),
        ..Answered::default()
    };
    adaptive.probed(now, path(1), &answered);
    adaptive.paces[1].rose(now, Duration::from_millis(100));
    adaptive.weigh(first(2), false);
    assert_eq!(adaptive.spread(first(2)), Duration::from_millis(130));
}

#[test]
fn what_is_sent_again_goes_where_there_is_room_for_it_first_and_rather_over_a_busy_path() {
    let again = |adaptive: &Adaptive, now| adaptive.surest(now, first(2)).map(PathId::index);
    let (mut adaptive, begin) = paths(&[10, 25]);
    for index in 0..2 {
        adaptive.paces[index].set_paced(begin, RATE as f64);
    }
    let now = begin + Duration::from_millis(1);
    // Both have credit left: the faster one.
    assert!((0..2).all(|index| adaptive.room(now, path(index)).is_some()));
    assert_eq!(again(&adaptive, now), Some(0));
    // The second is 15 ms slower and busy: what follows there tells soon whether it is lost again.
    adaptive.took_again(now, path(1), MS);
    assert_eq!(again(&adaptive, now), Some(1));
    // The first is busy, too, and then took what lasts for 20 ms beyond its rate.
    adaptive.took_again(now, path(0), MS);
    assert_eq!(again(&adaptive, now), Some(0));
    adaptive.took_again(now, path(0), 20 * MS);
    assert_eq!(again(&adaptive, now), Some(1));
}

/// The first path costs less than the second.
fn set_costs(adaptive: &mut Adaptive) {
    let mut costs = [1; MAX_PATHS];
    costs[0] = 0;
    adaptive.tiers.set(costs);
}

#[test]
fn a_first_burst_waits_for_a_cheap_path_of_which_nothing_is_known() {
    let mut adaptive = Adaptive::new(&Law::LAW);
    set_costs(&mut adaptive);
    fill(&mut adaptive, Time::ZERO, 0);
    let window = Law::LAW.first_window as usize;
    for (waiting, beyond) in [(window, false), (window + 1, true)] {
        let choice = choose(&mut adaptive, Time::ZERO, first(2), waiting);
        assert_eq!((waits(choice), takes(choice, 1)), (!beyond, beyond));
    }
}

#[test]
fn what_is_stranded_goes_over_a_dear_path_where_the_cheap_one_does_not_carry_it_soon() {
    let (mut adaptive, now) = paths(&[10, 20]);
    set_costs(&mut adaptive);
    let (few, many) = (1, 100 * MS / Law::LAW.mean_bytes as usize + 1);
    assert_eq!(adaptive.fastest_ready(now, first(2), many), Ok(path(0)));
    fill(&mut adaptive, now, 0);
    let waits = adaptive.fastest_ready(now, first(2), few);
    assert!(matches!(waits, Err(Some(_))), "{waits:?}");
    assert_eq!(adaptive.fastest_ready(now, first(2), many), Ok(path(1)));
}

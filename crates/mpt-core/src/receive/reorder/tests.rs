use std::time::Duration;

use super::*;

mod model;

const MS: u64 = 1_000_000;

fn config(window: u32) -> ReorderConfig {
    ReorderConfig {
        window,
        grows_to: None,
        believed: window,
        max_buffer_delay: Duration::from_millis(300),
        late: LatePolicy::Deliver,
    }
}

fn at(ms: u64) -> Time {
    Time::from_nanos(ms * MS)
}

fn path(index: usize) -> PathId {
    PathId::new(index).unwrap()
}

/// A window under test, whose packets are their own numbers.
struct Bench {
    reorder: Reorder<u32>,
    out: Vec<u32>,
}

impl Bench {
    fn new(window: u32, first: u32) -> Bench {
        Bench {
            reorder: Reorder::new(config(window), Seq::new(first)),
            out: Vec::new(),
        }
    }

    fn insert_on(&mut self, ms: u64, index: usize, seq: u32) -> Verdict {
        let out = &mut |packet| self.out.push(packet);
        self.reorder
            .insert(at(ms), path(index), Seq::new(seq), seq, out)
    }

    fn insert(&mut self, ms: u64, seqs: impl IntoIterator<Item = u32>) {
        self.take_on(ms, 0, seqs);
    }

    fn take_on(&mut self, ms: u64, index: usize, seqs: impl IntoIterator<Item = u32>) {
        for seq in seqs {
            assert_eq!(self.insert_on(ms, index, seq), Verdict::Taken, "{seq}");
        }
    }

    fn wait_for(&mut self, ms: u64, paths: &[usize]) {
        let mut set = PathSet::EMPTY;
        paths.iter().for_each(|&index| set.insert(path(index)));
        let out = &mut |packet| self.out.push(packet);
        self.reorder.wait_for(at(ms), set, out);
    }

    fn announce(&mut self, ms: u64, index: usize, seq: u32) -> bool {
        let out = &mut |packet| self.out.push(packet);
        self.reorder
            .announce(at(ms), path(index), Seq::new(seq), out)
    }

    fn timeout(&mut self, ms: u64) {
        let out = &mut |packet| self.out.push(packet);
        self.reorder.handle_timeout(at(ms), out);
    }

    fn reconfigure(&mut self, config: ReorderConfig) {
        let out = &mut |packet| self.out.push(packet);
        self.reorder.reconfigure(at(0), config, out);
    }

    fn counters(&self) -> ReorderCounters {
        *self.reorder.counters()
    }
}

#[test]
fn what_comes_out_of_order_leaves_in_order() {
    let mut bench = Bench::new(16, 0);
    bench.insert(0, [0, 3, 1, 4, 2, 5]);
    assert_eq!(bench.out, [0, 1, 2, 3, 4, 5]);
    let counters = bench.counters();
    assert_eq!((counters.in_order, counters.reordered), (4, 2));
    assert_eq!((counters.gaps_seen, counters.gaps_filled), (2, 2));
    assert_eq!(counters.held_max, 2);
}

#[test]
fn the_first_number_may_be_missing_for_a_while() {
    let mut bench = Bench::new(16, 0);
    bench.insert(0, [1, 2, 0]);
    assert_eq!(bench.out, [0, 1, 2]);
}

#[test]
fn what_was_perhaps_sent_to_somebody_else_is_waited_for_and_is_no_gap() {
    let recovery = Recovery {
        hold: Duration::from_millis(200),
        soonest: Duration::from_millis(10),
    };
    let mut bench = Bench::new(16, 0);
    bench.reorder.set_recovery(at(0), Some(recovery));
    bench.wait_for(0, &[0, 1]);
    bench.reorder.hear_of(Seq::new(5));
    bench.insert(0, [5, 7]);
    assert!(bench.out.is_empty());
    bench.take_on(10, 1, [3]);
    assert_eq!(bench.out, [3]);
    let mut missing = Vec::new();
    bench.reorder.for_each_missing(|first, count| {
        missing.push((first.value(), count));
        true
    });
    assert_eq!(missing, [(6, 1)]);
    bench.announce(20, 1, 8);
    assert_eq!(bench.out, [3, 5]);
    let counters = bench.counters();
    assert_eq!((counters.gaps_seen, counters.gaps_inferred_lost), (1, 0));
    assert_eq!(bench.reorder.found_lost(), 1);
    assert_eq!(bench.reorder.gaps_open(), 1);
}

#[test]
fn what_was_sent_here_after_all_is_a_gap() {
    let mut bench = Bench::new(16, 0);
    bench.reorder.hear_of(Seq::new(9));
    bench.insert(0, [9, 2]);
    bench.reorder.know_from(Seq::new(1));
    assert_eq!(bench.reorder.gaps_open(), 7);
    bench.timeout(300);
    let counters = bench.counters();
    assert_eq!((counters.gaps_seen, counters.gaps_timed_out), (7, 7));
}

#[test]
fn numbers_go_around_two_to_the_32() {
    let first = u32::MAX - 1;
    let mut bench = Bench::new(16, first);
    bench.insert(0, [first, 1, 0, u32::MAX, 2]);
    assert_eq!(bench.out, [first, u32::MAX, 0, 1, 2]);
    assert_eq!(bench.counters().gaps_filled, 2);
}

#[test]
fn a_duplicate_is_never_delivered_held_or_gone() {
    let mut bench = Bench::new(16, 0);
    bench.insert(0, [0, 2]);
    for seq in [0, 2] {
        assert_eq!(bench.insert_on(0, 0, seq), Verdict::Duplicate);
    }
    bench.insert(0, [1]);
    assert_eq!(bench.insert_on(0, 0, 1), Verdict::Duplicate);
    assert_eq!(bench.out, [0, 1, 2]);
    assert_eq!(bench.counters().duplicates, 3);
}

#[test]
fn a_packet_is_held_for_the_longest_delay_and_not_longer() {
    let mut bench = Bench::new(16, 0);
    bench.insert(10, [1, 2]);
    bench.insert(20, [4]);
    assert_eq!(bench.reorder.poll_timeout(), Some(at(310)));
    bench.timeout(309);
    assert!(bench.out.is_empty());
    bench.timeout(310);
    assert_eq!(bench.out, [1, 2]);
    assert_eq!(bench.reorder.poll_timeout(), Some(at(320)));
    bench.timeout(320);
    assert_eq!((bench.out.len(), bench.counters().gaps_timed_out), (3, 2));
    assert_eq!(bench.reorder.poll_timeout(), None);
}

#[test]
fn a_full_window_releases_its_head_and_no_more() {
    let mut bench = Bench::new(4, 0);
    bench.insert(0, [1, 3, 4]);
    assert_eq!(bench.out, [1]);
    assert_eq!(bench.counters().gaps_overflowed, 1);
    bench.insert(0, [2]);
    assert_eq!(bench.out, [1, 2, 3, 4]);
}

#[test]
fn a_number_that_every_path_has_passed_is_lost_at_once() {
    let mut bench = Bench::new(16, 0);
    bench.wait_for(0, &[0, 1]);
    bench.insert(0, [1, 2]);
    assert!(bench.out.is_empty());
    bench.take_on(0, 1, [4]);
    assert_eq!(bench.out, [1, 2]);
    assert!(bench.announce(0, 0, 5));
    assert_eq!(bench.out, [1, 2, 4]);
    assert_eq!(bench.counters().gaps_inferred_lost, 2);
}

#[test]
fn what_came_another_way_passes_nothing_and_tells_of_nothing_missing() {
    let mut bench = Bench::new(16, 0);
    bench.wait_for(0, &[0]);
    bench.insert(0, [0, 1]);
    let out = &mut |packet| bench.out.push(packet);
    let verdict = bench.reorder.insert(at(1), None, Seq::new(5), 5, out);
    assert_eq!((verdict, &bench.out[..]), (Verdict::Taken, &[0, 1][..]));
    bench
        .reorder
        .for_each_missing(|first, _| panic!("{first:?} is under way"));
    assert_eq!(bench.reorder.told_to(), Seq::new(2));
    // It comes on its path as well: now that has passed 2, 3 and 4.
    assert_eq!(bench.insert_on(2, 0, 5), Verdict::Duplicate);
    assert_eq!(bench.out, [0, 1, 5]);
}

#[test]
fn a_copy_of_what_was_not_taken_tells_of_nothing_missing() {
    let mut bench = Bench::new(16, 0);
    bench.wait_for(0, &[0, 1]);
    bench.insert(0, [0, 1]);
    let out = &mut |packet| bench.out.push(packet);
    assert!(bench.reorder.note_copy(at(1), path(0), Seq::new(9), out));
    assert_eq!(bench.reorder.told_to(), Seq::new(2));
}

#[test]
fn a_path_that_is_no_longer_waited_for_holds_nothing_up() {
    let mut bench = Bench::new(16, 0);
    bench.wait_for(0, &[0, 1]);
    bench.insert(0, [1, 3]);
    bench.wait_for(0, &[0]);
    assert_eq!(bench.out, [1, 3]);
}

#[test]
fn a_path_that_joins_has_passed_nothing_yet() {
    let mut bench = Bench::new(16, 0);
    bench.wait_for(0, &[0]);
    bench.insert(0, 0..10);
    bench.wait_for(0, &[0, 1]);
    bench.insert(0, [11, 12]);
    assert_eq!(bench.out.len(), 10);
    bench.take_on(0, 1, [10]);
    assert_eq!(bench.out.len(), 13);
}

#[test]
fn a_late_packet_is_delivered_once_or_dropped_as_the_policy_says() {
    for (late, verdict) in [
        (LatePolicy::Deliver, Verdict::Taken),
        (LatePolicy::Drop, Verdict::LateDropped),
    ] {
        let mut bench = Bench::new(4, 0);
        bench.reconfigure(ReorderConfig { late, ..config(4) });
        bench.insert(0, [0, 2]);
        bench.timeout(300);
        assert_eq!(bench.insert_on(300, 0, 1), verdict);
        assert_eq!(bench.insert_on(300, 0, 1), Verdict::Duplicate);
        let delivered = bench.out.iter().filter(|&&seq| seq == 1).count();
        assert_eq!(delivered, usize::from(late == LatePolicy::Deliver));
        assert_eq!(bench.counters().late, 1);
    }
}

#[test]
fn windows_of_none_and_one_hold_nothing() {
    for window in [0, 1] {
        let mut bench = Bench::new(window, 0);
        bench.insert(0, [0, 2, 1, 5, 3, 4]);
        assert_eq!(bench.out, [0, 2, 1, 5, 3, 4]);
        assert_eq!(bench.reorder.held(), 0);
        let counters = bench.counters();
        assert_eq!((counters.gaps_overflowed, counters.late), (3, 3));
    }
}

#[test]
fn a_window_that_shrinks_releases_what_no_longer_fits() {
    let mut bench = Bench::new(16, 0);
    bench.insert(0, [1, 5, 9, 10]);
    bench.reconfigure(config(4));
    assert_eq!(bench.out, [1, 5]);
    assert_eq!(bench.reorder.next_expected(), Seq::new(7));
    bench.reconfigure(config(64));
    bench.insert(0, [40, 7, 8]);
    assert_eq!(bench.out, [1, 5, 7, 8, 9, 10]);
}

#[test]
fn one_packet_moves_the_window_by_a_window_at_most() {
    let mut bench = Bench::new(1024, 0);
    bench.insert(0, 0..10);
    for far in [10 + 1024, 50_000, 70_000, 1 << 31, u32::MAX - 70_000] {
        assert_eq!(bench.insert_on(0, 0, far), Verdict::Unbelievable, "{far}");
    }
    assert_eq!(bench.reorder.gaps_open(), 0);
    bench.insert(0, [10 + 1023]);
    assert_eq!(bench.reorder.next_expected(), Seq::new(10));
}

#[test]
fn what_was_announced_or_proved_is_believed() {
    let mut bench = Bench::new(16, 0);
    bench.wait_for(0, &[0, 1]);
    assert!(bench.announce(0, 0, 5000));
    // A path that is behind takes nothing back.
    assert!(bench.announce(0, 1, 200));
    bench.insert(0, [5500]);
    assert_eq!(bench.insert_on(0, 0, 7000), Verdict::Unbelievable);
    bench.reorder.believe(Seq::new(7000));
    bench.insert(0, [7000]);
    assert!(!bench.announce(0, 0, 7000 + MAX_DISTANCE));
}

#[test]
fn after_a_resync_old_numbers_are_duplicates() {
    let mut bench = Bench::new(16, 1_000_000);
    bench.insert(0, [1_000_000, 1_000_003]);
    let out = &mut |packet| bench.out.push(packet);
    bench.reorder.resync(at(0), Seq::new(7), out);
    assert_eq!(bench.out, [1_000_000, 1_000_003]);
    assert_eq!(bench.counters().gaps_inferred_lost, 2);
    assert_eq!(bench.insert_on(0, 0, 5), Verdict::Duplicate);
    bench.insert(0, [8, 7]);
    assert_eq!(bench.out, [1_000_000, 1_000_003, 7, 8]);
}

#[test]
fn a_window_that_may_grow_does_so_before_it_overflows() {
    let mut bench = Bench::new(4, 0);
    bench.reconfigure(ReorderConfig {
        grows_to: Some(16),
        ..config(4)
    });
    bench.insert(0, [1, 2, 3, 4]);
    assert_eq!(bench.reorder.config().window, 8);
    bench.insert(0, [15]);
    assert_eq!(bench.reorder.config().window, 16);
    assert_eq!((bench.reorder.held(), bench.out.len()), (5, 0));
    bench.insert(0, [16]);
    assert_eq!(bench.out, [1, 2, 3, 4]);
    assert_eq!(bench.counters().gaps_overflowed, 1);
    assert_eq!(bench.reorder.take_widest(), 16);
    assert_eq!(bench.reorder.take_widest(), 0);
}

#[test]
fn a_window_that_grew_believes_no_more_than_before_unless_told() {
    let mut bench = Bench::new(4, 0);
    bench.reconfigure(ReorderConfig {
        grows_to: Some(MAX_WINDOW),
        ..config(4)
    });
    bench.insert(0, [1, 1000, 2000]);
    assert_eq!(
        bench.insert_on(0, 0, 2001 + LEAST_BELIEVED),
        Verdict::Unbelievable
    );
    bench.insert(0, [2000 + LEAST_BELIEVED]);
    assert_eq!(bench.reorder.config().window, 4096);
    let far = 2000 + LEAST_BELIEVED + 5000;
    assert_eq!(bench.insert_on(0, 0, far), Verdict::Unbelievable);
    bench.reconfigure(ReorderConfig {
        believed: 5000,
        ..bench.reorder.config()
    });
    assert_eq!(bench.insert_on(0, 0, far + 1), Verdict::Unbelievable);
    bench.insert(0, [far]);
}

#[test]
fn a_path_whose_packets_overtake_each_other_is_given_time_for_it() {
    let mut bench = Bench::new(16, 0);
    bench.wait_for(0, &[0]);
    bench.insert(0, [0, 2]);
    assert_eq!(bench.out, [0, 2], "nothing was overtaken so far");
    bench.insert(1, [1]);
    assert_eq!(
        bench.reorder.displacement(path(0)),
        Duration::from_millis(10)
    );
    bench.insert(2, [4]);
    bench.insert(8, [3, 6]);
    assert_eq!(bench.out, [0, 2, 1, 3, 4]);
    assert_eq!(bench.reorder.poll_timeout(), Some(at(18)));
    bench.timeout(17);
    assert_eq!(bench.reorder.held(), 1);
    bench.timeout(18);
    assert_eq!(bench.out, [0, 2, 1, 3, 4, 6]);
    let counters = bench.counters();
    assert_eq!((counters.gaps_inferred_lost, counters.late), (2, 1));
}

#[test]
fn what_the_peer_sends_again_is_waited_for_and_no_sign_of_overtaking() {
    let mut bench = Bench::new(16, 0);
    let recovery = Recovery {
        hold: Duration::from_millis(30),
        soonest: Duration::from_millis(5),
    };
    bench.reorder.set_recovery(at(0), Some(recovery));
    bench.wait_for(0, &[0]);
    bench.insert(0, [1, 2, 4]);
    assert_eq!(bench.reorder.found_lost(), 2);
    assert_eq!(bench.reorder.poll_timeout(), Some(at(30)));
    bench.insert(20, [0]);
    assert_eq!(bench.out, [0, 1, 2]);
    assert_eq!(bench.reorder.recovery_us().unwrap().max() / 1000, 20);
    assert_eq!(bench.reorder.displacement(path(0)), Duration::ZERO);
    bench.timeout(30);
    assert_eq!(bench.out, [0, 1, 2, 4]);
    let counters = bench.counters();
    assert_eq!(
        (counters.gaps_recovered, counters.gaps_inferred_lost),
        (1, 1)
    );
}

#[test]
fn the_last_packets_are_waited_for_when_the_peer_sends_them_again() {
    let mut bench = Bench::new(16, 0);
    let recovery = Recovery {
        hold: Duration::from_millis(30),
        soonest: Duration::from_millis(5),
    };
    bench.reorder.set_recovery(at(0), Some(recovery));
    bench.wait_for(0, &[0]);
    bench.insert(0, [0]);
    assert!(bench.announce(1, 0, 3));
    assert_eq!(bench.reorder.gaps_open(), 2);
    let mut missing = Vec::new();
    bench.reorder.for_each_missing(|first, count| {
        missing.push((first.value(), count));
        true
    });
    assert_eq!(missing, [(1, 2)]);
    bench.insert(9, [1]);
    bench.timeout(31);
    assert_eq!(bench.out, [0, 1]);
    assert_eq!(bench.reorder.next_expected(), Seq::new(3));
    // However far the peer's numbers have come, no more than the window stays open.
    assert!(bench.announce(40, 0, 1003));
    assert_eq!(bench.reorder.gaps_open(), 16);
}

use super::*;
use crate::control::history::{MINUTES, Minute};
use crate::path::MAX_PATHS;

/// A tunnel in virtual time, looked at once a second.
struct World {
    past: Past,
    calendar: Time,
    awake: Time,
    status: Status,
}

const SECOND: Duration = Duration::from_secs(1);

fn path(name: &str) -> PathStatus {
    PathStatus {
        name: name.into(),
        state: PathState::Up,
        rtt_us: Some(10_000),
        ..PathStatus::default()
    }
}

impl World {
    fn new(paths: &[&str]) -> World {
        World {
            past: Past::new("mpt0"),
            calendar: Time::from_nanos(600_000_000_000),
            awake: Time::from_nanos(5_000_000_000),
            status: Status {
                paths: paths.iter().map(|name| path(name)).collect(),
                ..Status::default()
            },
        }
    }

    /// Lets so many seconds pass, in each of which every path sends so many bytes, in packets of 1000.
    fn run(&mut self, seconds: u64, bytes: u64) {
        for _ in 0..seconds {
            self.calendar = self.calendar + SECOND;
            self.awake = self.awake + SECOND;
            for path in &mut self.status.paths {
                path.tx_bytes += bytes;
                path.tx_packets += bytes / 1000;
                path.rx_bytes += bytes / 2;
                path.rx_packets += bytes / 2000;
            }
            self.past.note(self.calendar, self.awake, &self.status);
        }
    }

    /// Lets so much pass between two looks, of which the host was awake for `awake`; each path sends so many bytes.
    fn skip(&mut self, calendar: Duration, awake: Duration, bytes: u64) {
        self.calendar = self.calendar + calendar - SECOND;
        self.awake = self.awake + awake - SECOND;
        self.run(1, bytes);
    }

    fn whole(&self) -> PathHistory {
        let history = self.past.history(None, self.calendar, 0).unwrap();
        history.whole.unwrap()
    }

    fn of(&self, name: &str) -> PathHistory {
        let history = self.past.history(Some(name), self.calendar, 0).unwrap();
        history.paths.into_iter().next().unwrap()
    }
}

fn began(minutes: &[Minute]) -> Vec<u64> {
    minutes.iter().map(|m| m.at_us / 60_000_000).collect()
}

#[test]
fn a_hub_s_sockets_lose_nothing_that_anybody_measured() {
    let mut world = World::new(&["a"]);
    world.run(70, 125_000);
    assert_eq!(world.of("a").minutes[0].loss, Some(0.0));

    let mut world = World::new(&["a"]);
    world.status.hub = Some(Default::default());
    world.run(70, 125_000);
    let minute = world.of("a").minutes.remove(0);
    assert_eq!((minute.loss, minute.rx_loss), (None, None));
}

#[test]
fn a_minute_has_its_bytes_its_mean_and_its_busiest_second() {
    let mut world = World::new(&["lte"]);
    world.run(59, 1000);
    world.run(1, 10_000);
    world.run(60, 2000);
    let minutes = world.of("lte").minutes;
    assert_eq!(began(&minutes), [10, 11]);
    // What was before the first look is not known.
    assert_eq!((minutes[0].tx_bytes, minutes[0].span_ms), (68_000, 59_000));
    assert_eq!(minutes[1].tx_bytes, 120_000);
    assert_eq!((minutes[1].tx_bps, minutes[1].tx_max_bps), (16_000, 16_000));
    assert_eq!((minutes[1].rx_bps, minutes[1].span_ms), (8_000, 60_000));
    assert_eq!(minutes[0].tx_max_bps, 80_000);
    assert_eq!(minutes[1].up_ms, 60_000);
}

#[test]
fn a_step_over_the_end_of_a_minute_is_shared_by_both() {
    let mut world = World::new(&["lte"]);
    world.calendar = world.calendar + Duration::from_millis(300);
    world.run(120, 1000);
    let minutes = world.of("lte").minutes;
    assert_eq!(minutes[1].span_ms, 60_000);
    assert_eq!(minutes[1].tx_bytes, 60_000);
    assert_eq!(minutes[1].tx_bps, 8_000);
    // By time, and the rate to the minute that most of it fell into.
    world.skip(Duration::from_millis(300), Duration::from_millis(300), 0);
    world.run(57, 0);
    let gap = Duration::from_secs(4);
    world.skip(gap, gap, 40_000);
    let minutes = world.of("lte").minutes;
    let [.., before, after] = &minutes[..] else {
        panic!("{minutes:?}")
    };
    // 300 bytes are of the last step of the minutes before.
    assert_eq!((before.tx_bytes, after.tx_bytes), (24_300, 16_000));
    assert_eq!((before.span_ms, after.span_ms), (60_000, 1_600));
    assert_eq!((before.tx_max_bps, after.tx_max_bps), (80_000, 80_000));
}

#[test]
fn the_busiest_second_may_be_any() {
    let mut world = World::new(&["lte"]);
    world.run(30, 1000);
    world.run(1, 10_000);
    world.run(40, 1000);
    let minutes = world.of("lte").minutes;
    assert_eq!(
        (minutes[0].tx_max_bps, minutes[0].rx_max_bps),
        (80_000, 40_000)
    );
    assert_eq!(minutes[1].tx_max_bps, 8_000);
}

#[test]
fn a_look_that_comes_late_says_nothing_of_the_minute_before() {
    let mut world = World::new(&["lte"]);
    world.run(50, 1000);
    let (long, longest) = (Duration::from_secs(20), Duration::from_secs(5));
    world.skip(long, long, 20_000);
    let minutes = world.of("lte").minutes;
    assert_eq!((minutes[0].span_ms, minutes[0].tx_bytes), (49_000, 49_000));
    assert_eq!((minutes[1].span_ms, minutes[1].tx_bytes), (10_000, 10_000));
    // One that is no later than it may be does.
    world.run(47, 1000);
    world.skip(longest, longest, 5_000);
    let minutes = world.of("lte").minutes;
    assert_eq!((minutes[1].span_ms, minutes[1].tx_bytes), (60_000, 60_000));
    assert_eq!((minutes[2].span_ms, minutes[2].tx_bytes), (2_000, 2_000));
}

#[test]
fn times_are_whole_seconds_by_the_clock_as_it_is_set() {
    let mut world = World::new(&["lte"]);
    world.run(10, 1000);
    let told = |origin_us| world.past.history(None, world.calendar, origin_us).unwrap();
    for (origin_us, began_us) in [(7_499_999, 607_000_000), (7_500_000, 608_000_000)] {
        let history = told(origin_us);
        assert_eq!(history.at_us, origin_us + 610_000_000);
        for told in history.paths.iter().chain(&history.whole) {
            assert_eq!(told.minutes[0].at_us, began_us);
        }
    }
}

#[test]
fn round_trips_have_least_mean_and_highest_and_none_while_down() {
    let mut world = World::new(&["lte"]);
    for rtt in [10_000, 30_000, 20_000] {
        world.status.paths[0].rtt_us = Some(rtt);
        world.run(10, 1000);
    }
    world.status.paths[0].state = PathState::Down;
    world.status.paths[0].rtt_us = Some(900_000);
    world.run(90, 0);
    let minutes = world.of("lte").minutes;
    let first = &minutes[0];
    assert_eq!(
        (first.rtt_min_us, first.rtt_us, first.rtt_max_us),
        (Some(10_000), Some(20_000), Some(30_000))
    );
    assert_eq!((first.up_ms, first.span_ms), (29_000, 59_000));
    assert_eq!(first.state, PathState::Down);
    assert_eq!((minutes[1].rtt_us, minutes[1].up_ms), (None, 0));
    assert_eq!(minutes[1].span_ms, 60_000, "down is no gap");
}

#[test]
fn loss_is_weighed_by_what_was_sent_and_unknown_where_nothing_was() {
    let mut world = World::new(&["lte"]);
    world.run(60, 1000);
    world.status.paths[0].loss = 0.1;
    world.run(30, 9000);
    world.status.paths[0].loss = 0.0;
    world.run(30, 1000);
    world.run(61, 0);
    let minutes = world.of("lte").minutes;
    assert_eq!(minutes[0].loss, Some(0.0));
    assert!((minutes[1].loss.unwrap() - 0.09).abs() < 0.001);
    assert_eq!(minutes[2].loss, None);
}

#[test]
fn a_night_asleep_is_a_gap_and_no_zeros() {
    let mut world = World::new(&["lte"]);
    world.run(60, 1000);
    world.calendar = world.calendar + Duration::from_secs(8 * 3600 + 20);
    world.run(60, 1000);
    let minutes = world.of("lte").minutes;
    assert_eq!(began(&minutes), [10, 491, 492]);
    let woken = &minutes[1];
    assert!(woken.span_ms <= 41_000, "{woken:?}");
    assert_eq!(woken.tx_bps, 8_000, "the sleep is not in the mean");
}

#[test]
fn a_path_that_goes_and_comes_back_keeps_its_history_under_its_name() {
    let mut world = World::new(&["lte", "dsl"]);
    world.run(100, 1000);
    let lte = world.status.paths.remove(0);
    world.run(200, 1000);
    assert!(!world.of("lte").present);
    // Its socket is another, and counts from 0.
    world.status.paths.push(PathStatus {
        tx_bytes: 0,
        tx_packets: 0,
        ..lte
    });
    world.run(20, 1000);
    let back = world.of("lte");
    assert!(back.present);
    assert_eq!(began(&back.minutes), [10, 11, 15]);
    assert_eq!(back.minutes[2].tx_bytes, 19_000);
    assert_eq!(began(&world.of("dsl").minutes), [10, 11, 12, 13, 14, 15]);
}

#[test]
fn a_path_that_is_away_for_seconds_has_one_minute_of_two_parts() {
    let mut world = World::new(&["lte"]);
    world.run(20, 1000);
    let lte = world.status.paths.remove(0);
    world.run(5, 0);
    world.status.paths.push(PathStatus {
        tx_bytes: 0,
        rtt_us: Some(30_000),
        ..lte
    });
    world.run(20, 2000);
    world.run(60, 0);
    let minutes = world.of("lte").minutes;
    assert_eq!(began(&minutes), [10, 11]);
    assert_eq!(minutes[0].tx_bytes, 57_000);
    assert!(minutes[0].span_ms <= 55_000, "{:?}", minutes[0]);
    assert_eq!(minutes[0].rtt_max_us, Some(30_000));
    // The second part was the busier one.
    assert_eq!(
        (minutes[0].tx_max_bps, minutes[0].rx_max_bps),
        (16_000, 8_000)
    );
}

/// The tunnel is opened anew within a minute, and another path's socket counts from where it did.
#[test]
fn the_parts_of_a_minute_are_one_by_what_they_weigh() {
    let mut world = World::new(&["lte"]);
    world.status.paths[0].loss = 0.1;
    world.status.paths[0].rx_loss = 0.2;
    world.run(1, 0);
    world.status.paths[0].tx_recovered = 3;
    world.status.tunnel.recovery.resent = 5;
    world.status.reorder.gaps_recovered = 6;
    world.run(18, 10_000);
    world.run(1, 50_000);
    world.past.pause();
    world.calendar = world.calendar + 5 * SECOND;
    let lte = &mut world.status.paths[0];
    (lte.loss, lte.rx_loss, lte.rtt_us) = (0.4, 0.6, Some(30_000));
    world.run(1, 0);
    world.status.paths[0].tx_recovered += 4;
    world.status.tunnel.recovery.resent += 7;
    world.status.reorder.gaps_recovered += 8;
    world.run(10, 20_000);
    world.status.paths[0].state = PathState::Down;
    world.run(9, 20_000);
    let going_on = world.of("lte").minutes;
    world.run(30, 0);
    let over = world.of("lte").minutes;
    let whole = world.whole().minutes.remove(0);
    let (recovered, rx_recovered) = (whole.recovered, whole.rx_recovered);
    assert_eq!((recovered, rx_recovered), (5 + 7, 6 + 8));
    let (tx, rx) = (230_000 + 380_000, 115_000 + 190_000);
    let shares = [
        (0.1 * 230.0 + 0.4 * 380.0) / 610.0,
        (0.2 * 115.0 + 0.6 * 190.0) / 305.0,
    ];
    for (joined, span_ms) in [(&going_on[0], 38_000), (&over[0], 53_000)] {
        assert_eq!((joined.span_ms, joined.up_ms), (span_ms, 29_000));
        assert_eq!((joined.tx_bytes, joined.rx_bytes), (tx, rx));
        assert_eq!((joined.tx_max_bps, joined.rx_max_bps), (400_000, 200_000));
        assert_eq!(joined.state, PathState::Down);
        assert_eq!((joined.recovered, joined.rx_recovered), (7, 0));
        let rtt = [joined.rtt_min_us, joined.rtt_us, joined.rtt_max_us];
        let mean = (10_000 * 19 + 30_000 * 10) / 29;
        assert_eq!(rtt, [Some(10_000), Some(mean), Some(30_000)]);
        for (told, share) in [joined.loss, joined.rx_loss].into_iter().zip(shares) {
            assert!((told.unwrap() - share).abs() < 2e-6, "{told:?} {share}");
        }
    }
}

#[test]
fn a_day_is_kept_and_no_more_whatever_is_added() {
    let mut world = World::new(&["lte"]);
    world.calendar = world.calendar + Duration::from_secs(30);
    for _ in 0..3 * MINUTES {
        world.calendar = world.calendar + Duration::from_secs(59);
        world.awake = world.awake + Duration::from_secs(59);
        world.run(1, 1000);
    }
    let minutes = world.of("lte").minutes;
    assert_eq!(minutes.len(), MINUTES);
    let (first, last) = (&minutes[0], &minutes[MINUTES - 1]);
    assert_eq!((last.at_us - first.at_us) / 60_000_000, MINUTES as u64 - 1);
    assert_eq!(world.whole().minutes.len(), MINUTES);
}

#[test]
fn names_are_bounded_and_who_was_away_longest_goes_first() {
    let mut world = World::new(&[]);
    for round in 0..5 {
        let names: Vec<String> = (0..MAX_PATHS).map(|n| format!("p{round}-{n}")).collect();
        world.status.paths = names.iter().map(|name| path(name)).collect();
        world.run(60, 1000);
        assert!(world.past.paths.len() <= MAX_NAMES);
    }
    world.of("p4-0");
    world.of("p3-15");
    let missing = world.past.history(Some("p2-0"), world.calendar, 0);
    assert_eq!(missing.unwrap_err().len(), MAX_NAMES);
    // After a day without them nothing is left.
    world.status.paths.truncate(1);
    world.calendar = world.calendar + Duration::from_secs(86_400);
    world.run(60, 1000);
    assert_eq!(world.past.paths.len(), 1);
}

#[test]
fn the_whole_counts_inner_bytes_and_what_was_given_up() {
    let mut world = World::new(&["lte"]);
    world.status.tunnel.rx_packets = 1;
    world.run(30, 1000);
    world.status.tunnel.rx_packets = 500;
    world.run(30, 1000);
    assert_eq!(world.whole().minutes[0].rx_loss, Some(0.0));
    world.status.tunnel.rx_packets = 1400;
    world.status.reorder.gaps_timed_out = 100;
    world.status.tunnel.recovery.resent = 7;
    world.run(1, 1000);
    let history = world.past.history(None, world.calendar, 0).unwrap();
    let whole = history.whole.unwrap();
    let last = whole.minutes.last().unwrap();
    assert_eq!(last.rx_loss, Some(0.1));
    assert_eq!((last.loss, last.recovered), (None, 7));
    assert_eq!(last.state, PathState::Up);
}

#[test]
fn what_comes_late_is_lost_only_where_late_packets_are_dropped() {
    for (late_policy, lost) in [(LatePolicy::Deliver, 0.04), (LatePolicy::Drop, 0.1)] {
        let mut world = World::new(&["lte"]);
        world.status.reorder.late_policy = late_policy;
        world.run(30, 1000);
        world.status.tunnel.rx_packets = 90;
        world.status.reorder.gaps_timed_out = 10;
        world.run(1, 1000);
        world.status.tunnel.rx_packets += match late_policy {
            LatePolicy::Deliver => 6,
            LatePolicy::Drop => 0,
        };
        world.status.reorder.late = 6;
        world.run(1, 1000);
        let told = world.whole().minutes[0].rx_loss;
        assert_eq!(told, Some(lost), "{late_policy:?}");
    }
}

#[test]
fn a_path_of_a_peer_that_does_not_probe_is_up_while_it_is_used() {
    let mut world = World::new(&["lte"]);
    world.status.paths[0].state = PathState::Probing;
    world.run(60, 1000);
    world.status.tunnel.rx_packets = 1;
    world.run(60, 1000);
    for minutes in [world.whole().minutes, world.of("lte").minutes] {
        let up_ms: Vec<u64> = minutes.iter().map(|minute| minute.up_ms).collect();
        assert_eq!(up_ms, [0, 60_000]);
    }
}

#[test]
fn while_the_tunnel_does_not_run_nothing_is_known() {
    let mut world = World::new(&["lte"]);
    world.run(70, 1000);
    world.past.pause();
    assert!(!world.of("lte").present && !world.whole().present);
    world.calendar = world.calendar + Duration::from_secs(180);
    world.awake = world.awake + Duration::from_secs(180);
    world.status.paths[0].tx_bytes = 0;
    world.run(10, 1000);
    let minutes = world.of("lte").minutes;
    assert_eq!(began(&minutes), [10, 11, 14]);
    assert_eq!(minutes[2].tx_bytes, 9_000);
    assert_eq!(minutes[2].tx_max_bps, 8_000);
    // The first look tells where counters stand, and nothing of the time before.
    assert_eq!(minutes[2].span_ms, 9_000);
    assert_eq!(world.whole().minutes[2].span_ms, 9_000);
    assert!(world.of("lte").present && world.whole().present);
}

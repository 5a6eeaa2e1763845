use proptest::prelude::*;

use super::*;

const BOUNDS: Bounds = Bounds {
    ceiling: 1442,
    base: 1222,
    least: 494,
};

/// A path that carries packets up to a size, and loses every so manyth of those.
struct Path {
    search: MtuSearch,
    carries: u16,
    loses_every: u32,
    /// What it seems to lose, 0 to 1.
    loss: f64,
    now: Time,
    number: u32,
    probes: u32,
    sent: Option<Time>,
}

impl Path {
    fn new(carries: u16) -> Path {
        Path {
            search: MtuSearch::new(BOUNDS),
            carries,
            loses_every: u32::MAX,
            loss: 0.0,
            now: Time::ZERO,
            number: 0,
            probes: 0,
            sent: None,
        }
    }

    fn run_for(&mut self, span: Duration) {
        let until = self.now + span;
        while self.search.poll_timeout() <= until {
            self.now = self.now.max(self.search.poll_timeout());
            let Some(size) = self.search.due(self.now) else {
                continue;
            };
            assert!(size <= BOUNDS.ceiling);
            let before = self.sent.replace(self.now);
            assert!(before.is_none_or(|before| self.now.since(before) >= SPACING));
            self.number += 2;
            self.probes += 1;
            self.search
                .sent(self.now, self.number, size, RTT, Duration::ZERO);
            assert!(self.search.is_companion_due(self.now));
            self.search.companion_sent(self.number + 1);
            self.now = self.now + RTT;
            let lost = self.probes % self.loses_every == self.loses_every - 1;
            if size <= self.carries && !lost {
                self.search.answered(self.now, self.number, self.loss);
            }
            self.search.answered(self.now, self.number + 1, self.loss);
        }
        self.now = until;
    }
}

const SECOND: Duration = Duration::from_secs(1);
const RTT: Duration = Duration::from_millis(40);

#[test]
fn a_path_that_carries_what_is_configured_is_asked_once_and_then_now_and_then() {
    let mut path = Path::new(1500);
    path.run_for(SECOND);
    assert_eq!((path.search.size(), path.probes), (1442, 1));
    path.run_for(100 * SECOND);
    assert_eq!(path.search.size(), 1442);
    assert!((8..=11).contains(&path.probes), "{}", path.probes);
}

#[test]
fn what_a_narrower_path_carries_is_found_to_the_byte() {
    for carries in [494, 495, 700, 1221, 1222, 1223, 1280, 1434, 1441] {
        let mut path = Path::new(carries);
        path.run_for(10 * SECOND);
        assert_eq!(path.search.size(), carries);
        assert!(path.probes < 60, "{} probes for {carries}", path.probes);
    }
}

#[test]
fn nothing_smaller_than_the_least_is_tried() {
    let mut path = Path::new(100);
    path.run_for(60 * SECOND);
    assert_eq!(path.search.size(), 494);
}

#[test]
fn a_black_hole_is_noticed_and_its_end_too() {
    let mut path = Path::new(1500);
    path.run_for(30 * SECOND);
    path.carries = 1400;
    path.run_for(15 * SECOND);
    assert_eq!(path.search.size(), 1400);
    path.carries = 1500;
    path.run_for(RAISE_INTERVAL);
    assert_eq!(path.search.size(), 1442);
}

#[test]
fn after_a_fall_the_full_size_is_tried_again_soon_and_then_seldom() {
    for hole in [3, 9, 16, 35] {
        let mut path = Path::new(1500);
        path.run_for(30 * SECOND);
        path.carries = 600;
        path.run_for(10 * SECOND + hole * SECOND);
        assert_eq!(path.search.size(), 600, "after {hole} s");
        path.carries = 1500;
        path.run_for(2 * SECOND);
        assert_eq!(path.search.size(), 1442, "after {hole} s");
    }
    let mut path = Path::new(600);
    path.run_for(180 * SECOND);
    let before = path.probes;
    path.run_for(450 * SECOND);
    assert!(path.probes - before < 60, "{}", path.probes - before);
}

#[test]
fn after_each_fall_the_size_that_it_fell_from_is_tried_again_soon() {
    let mut path = Path::new(1400);
    for _ in 0..3 {
        path.run_for(300 * SECOND);
        assert_eq!(path.search.size(), 1400);
        path.carries = 600;
        path.run_for(15 * SECOND);
        assert_eq!(path.search.size(), 600);
        path.carries = 1400;
        path.run_for(2 * SECOND);
        assert!(path.search.size() >= 1400);
    }
}

#[test]
fn where_much_is_lost_the_size_is_looked_into_at_once() {
    let mut path = Path::new(1500);
    path.run_for(15 * SECOND);
    path.carries = 600;
    path.search.doubt(path.now, 0.5);
    path.run_for(SECOND);
    assert!(path.search.size() < 1280);
}

#[test]
fn what_a_black_hole_swallows_makes_it_found_no_later() {
    let mut path = Path::new(1500);
    path.run_for(600 * SECOND);
    (path.carries, path.loss) = (600, 0.9);
    path.search.doubt(path.now, 0.9);
    path.run_for(SECOND);
    assert!(path.search.size() < 1280);
}

#[test]
fn where_probes_are_lost_as_well_that_is_not_for_the_size() {
    let mut path = Path::new(1500);
    (path.loses_every, path.loss) = (2, 0.5);
    path.run_for(3000 * SECOND);
    assert!(path.search.is_at_rest());
    path.search.doubt(path.now, 0.5);
    assert!(path.search.is_at_rest());
    path.search.doubt(path.now, 0.8);
    assert!(!path.search.is_at_rest());
    // Nor where it seems to lose nothing now.
    (path.carries, path.loss) = (600, 0.0);
    path.run_for(SECOND);
    assert_eq!(path.search.size(), 1442);
    path.run_for(3 * SECOND);
    assert!(path.search.size() < 1280);
}

#[test]
fn a_single_loss_changes_nothing() {
    let mut path = Path::new(1500);
    path.loses_every = 3;
    for _ in 0..1000 {
        path.run_for(SECOND);
        assert_eq!(path.search.size(), 1442);
    }
}

#[test]
fn what_icmp_says_is_looked_into() {
    let mut path = Path::new(1500);
    path.run_for(SECOND);
    for _ in 0..100 {
        path.search.suspect(path.now, 600);
        path.run_for(SECOND / 10);
    }
    assert_eq!(path.search.size(), 1442, "a lie");
    path.carries = 1400;
    path.search.suspect(path.now, 1400);
    path.run_for(SECOND);
    assert_eq!(path.search.size(), 1400, "the truth");
    assert!(!path.search.is_searching());
}

#[test]
fn more_probes_have_to_be_lost_where_many_are() {
    assert_eq!(needed(0.0), 3);
    assert_eq!(needed(0.05), 5);
    assert_eq!(needed(0.3), 9);
    assert_eq!(needed(0.5), 12);
    assert_eq!(needed(1.0), 19);
}

#[test]
fn a_path_that_leads_elsewhere_is_searched_anew() {
    let mut path = Path::new(1300);
    path.run_for(10 * SECOND);
    assert_eq!(path.search.size(), 1300);
    path.carries = 1500;
    path.search.begin(path.now);
    path.run_for(SECOND);
    assert_eq!(path.search.size(), 1442);
}

proptest! {
    #[test]
    fn the_size_is_within_bounds_whatever_comes_back(
        moves: Vec<(u8, u16, u32)>,
    ) {
        let mut search = MtuSearch::new(BOUNDS);
        let mut now = Time::ZERO;
        let mut number = 0;
        for (what, size, wait) in moves {
            now = now + Duration::from_millis(u64::from(wait % 5000));
            if let Some(due) = search.due(now) {
                prop_assert!((BOUNDS.least..=BOUNDS.ceiling).contains(&due));
                number += 2;
                let rtt = Duration::from_millis(u64::from(size) / 3);
                search.sent(now, number, due, rtt, Duration::from_millis(u64::from(size % 3)));
            }
            if search.is_companion_due(now) {
                search.companion_sent(number + 1);
            }
            match what % 5 {
                0 => search.suspect(now, size),
                1 => search.begin(now),
                2 => search.answered(now, number, f64::from(size) / 65_535.0),
                _ => search.answered(now, number + 1, f64::from(size) / 65_535.0),
            }
            prop_assert!((BOUNDS.least..=BOUNDS.ceiling).contains(&search.size()));
        }
    }
}

use tempfile::TempDir;

use super::*;

const MB: u64 = 1_000_000;
const HOUR_S: u64 = 3600;

/// A moment, as `date -u -d` reads it.
fn at(day: &str, hour: u64) -> u64 {
    Day::parse(day).unwrap().begins() + hour * HOUR_S
}

fn budget(limit: u64, reset_day: u8) -> Budget {
    Budget {
        limit,
        reset_day,
        at_budget: AtBudget::LastResort,
    }
}

/// A daemon with a path `lte`, which ends and starts.
struct Daemon {
    budgets: Budgets,
    counted: Arc<Counted>,
    log: Log,
    now: Time,
}

impl Daemon {
    fn start(folder: &TempDir, budget: Budget, unix_s: u64) -> Daemon {
        let mut daemon = Daemon {
            budgets: Budgets::of(folder.path().join("mpt0.budgets")),
            counted: Arc::default(),
            log: Log::new("mpt0"),
            now: Time::ZERO,
        };
        daemon.set(Some(budget), unix_s);
        daemon
    }

    fn set(&mut self, budget: Option<Budget>, unix_s: u64) {
        let (budgets, log) = (&mut self.budgets, &mut self.log);
        budgets.set("lte", budget, &self.counted, unix_s, log);
    }

    fn carry(&mut self, bytes: u64, unix_s: u64) {
        // No packets: no headers.
        let local = "10.0.0.1:1".parse().unwrap();
        self.counted.add(local, 0, usize::try_from(bytes).unwrap());
        self.now = self.now + Duration::from_secs(1);
        self.budgets.count(unix_s, self.now, &mut self.log);
    }

    fn used(&self, unix_s: u64) -> u64 {
        self.budgets.status("lte", unix_s).unwrap().used_bytes
    }

    fn end(mut self, unix_s: u64) {
        self.budgets.end(unix_s, &mut self.log);
    }

    /// What a daemon that starts now knows.
    fn kept(folder: &TempDir, budget: Budget, unix_s: u64) -> u64 {
        Daemon::start(folder, budget, unix_s).used(unix_s)
    }
}

#[test]
fn a_restart_keeps_the_count_and_a_sigkill_all_but_a_thousandth() {
    let folder = tempfile::tempdir().unwrap();
    let limit = budget(1000 * MB, 1);
    let now = at("2026-11-23", 12);
    let mut daemon = Daemon::start(&folder, limit, now);
    daemon.carry(5 * MB, now);
    daemon.carry(MB - 1, now);
    assert_eq!(daemon.used(now), 6 * MB - 1);
    assert_eq!(Daemon::kept(&folder, limit, now), 5 * MB, "SIGKILL");
    daemon.carry(1, now);
    assert_eq!(Daemon::kept(&folder, limit, now), 6 * MB);
    // Less than that after five minutes.
    daemon.carry(10, now);
    daemon.now = daemon.now + WRITTEN_EVERY;
    daemon.carry(1, now);
    assert_eq!(Daemon::kept(&folder, limit, now), 6 * MB + 11);
    daemon.carry(1, now);
    daemon.end(now);
    assert_eq!(Daemon::kept(&folder, limit, now), 6 * MB + 12, "SIGTERM");
}

/// A line that is full writes the file no oftener than is said.
#[test]
fn the_file_is_written_rarely() {
    let folder = tempfile::tempdir().unwrap();
    let limit = budget(50_000 * MB, 1);
    let now = at("2026-11-23", 12);
    let mut daemon = Daemon::start(&folder, limit, now);
    let file = folder.path().join("mpt0.budgets");
    let mut writes = 0;
    let mut last = None;
    for second in 0..600 {
        // 10 Mbit/s.
        daemon.carry(1_250_000, now + second);
        let text = std::fs::read(&file).ok();
        writes += u32::from(text != last);
        last = text;
    }
    assert_eq!(writes, 15, "once in 50 MB, and nothing at the start");
}

#[test]
fn a_month_begins_once_whatever_the_clock_does() {
    let folder = tempfile::tempdir().unwrap();
    let limit = budget(100 * MB, 1);
    let mut daemon = Daemon::start(&folder, limit, at("2026-11-23", 0));
    daemon.carry(70 * MB, at("2026-11-30", 23));
    assert_eq!(daemon.used(at("2026-11-30", 23)), 70 * MB);
    daemon.carry(MB, at("2026-12-01", 0));
    assert_eq!(
        daemon.used(at("2026-12-01", 0)),
        0,
        "what came before midnight"
    );
    assert_eq!(Daemon::kept(&folder, limit, at("2026-12-01", 0)), 0);
    daemon.carry(2 * MB, at("2026-12-01", 1));
    // Set back by a day, and right again: nothing begins anew.
    daemon.carry(MB, at("2026-11-30", 1));
    assert_eq!(daemon.used(at("2026-11-30", 1)), 3 * MB);
    daemon.carry(MB, at("2026-12-01", 2));
    assert_eq!(daemon.used(at("2026-12-01", 2)), 4 * MB);
    let status = daemon.budgets.status("lte", at("2026-11-30", 1)).unwrap();
    assert_eq!(status.resets, "2027-01-01");
    // A host that starts in 1970 until it knows the time.
    daemon.end(at("2026-12-01", 2));
    let mut daemon = Daemon::start(&folder, limit, 5);
    daemon.carry(MB, 6);
    daemon.carry(MB, at("2026-12-01", 3));
    assert_eq!(daemon.used(at("2026-12-01", 3)), 6 * MB);
    // A clock that was years ahead has begun a month, does not keep it until then, and has not erased the one before.
    daemon.carry(MB, at("2037-01-05", 0));
    assert_eq!(daemon.used(at("2037-01-05", 0)), 0);
    daemon.carry(MB, at("2026-12-05", 0));
    daemon.carry(MB, at("2026-12-31", 0));
    assert_eq!(daemon.used(at("2026-12-31", 0)), 9 * MB);
    daemon.carry(MB, at("2027-01-01", 0));
    assert_eq!(daemon.used(at("2027-01-01", 0)), 0);
}

/// A host without a clock of its own starts with the date its system was made, until it hears the time.
#[test]
fn a_clock_that_is_months_behind_until_it_is_set_begins_no_month_twice() {
    let folder = tempfile::tempdir().unwrap();
    let limit = budget(100 * MB, 1);
    let mut daemon = Daemon::start(&folder, limit, at("2026-11-20", 0));
    daemon.carry(70 * MB, at("2026-11-23", 0));
    daemon.end(at("2026-11-23", 0));
    // Once more, before anybody has set the clock; each is killed.
    for used in [71, 72] {
        let mut daemon = Daemon::start(&folder, limit, at("2026-06-10", 0));
        daemon.carry(MB, at("2026-06-10", 0));
        assert_eq!(daemon.used(at("2026-06-10", 0)), used * MB);
    }
    let mut daemon = Daemon::start(&folder, limit, at("2026-06-10", 0));
    daemon.carry(MB, at("2026-11-23", 0));
    assert_eq!(daemon.used(at("2026-11-23", 0)), 73 * MB);
    let status = daemon.budgets.status("lte", at("2026-11-23", 0)).unwrap();
    assert_eq!(status.resets, "2026-12-01");
    daemon.end(at("2026-11-23", 0));
    // It hears the time when another month has begun.
    let mut daemon = Daemon::start(&folder, limit, at("2026-06-10", 0));
    daemon.carry(MB, at("2026-12-02", 0));
    assert_eq!(daemon.used(at("2026-12-02", 0)), 0);
    daemon.end(at("2026-12-02", 0));
    assert_eq!(Daemon::kept(&folder, limit, at("2027-01-01", 0)), 0);
}

#[test]
fn a_clock_that_was_far_ahead_loses_no_count() {
    let folder = tempfile::tempdir().unwrap();
    let limit = budget(100 * MB, 1);
    let mut daemon = Daemon::start(&folder, limit, at("2026-11-20", 0));
    daemon.carry(70 * MB, at("2026-11-20", 0));
    daemon.carry(0, at("2037-01-05", 0));
    daemon.carry(2 * MB, at("2037-01-05", 0));
    // Also where it ends meanwhile.
    daemon.end(at("2037-01-05", 0));
    let mut daemon = Daemon::start(&folder, limit, at("2037-01-05", 0));
    daemon.carry(MB, at("2026-11-21", 0));
    assert_eq!(daemon.used(at("2026-11-21", 0)), 73 * MB);
    daemon.carry(MB, at("2026-11-22", 0));
    daemon.end(at("2026-11-22", 0));
    assert_eq!(Daemon::kept(&folder, limit, at("2026-11-22", 0)), 74 * MB);
    assert_eq!(Daemon::kept(&folder, limit, at("2026-12-01", 0)), 0);
}

/// The month that was left is not waited for longer than until the next one.
#[test]
fn after_a_clock_was_far_ahead_months_begin_as_ever() {
    let folder = tempfile::tempdir().unwrap();
    let limit = budget(100 * MB, 1);
    let mut daemon = Daemon::start(&folder, limit, at("2027-01-05", 0));
    daemon.carry(0, at("2026-11-23", 0));
    for month in ["2026-12-01", "2027-01-01", "2027-02-01"] {
        daemon.carry(MB, at(month, 0));
        assert_eq!(daemon.used(at(month, 0)), 0, "{month}");
        daemon.carry(MB, at(month, 1));
        assert_eq!(daemon.used(at(month, 1)), MB, "{month}");
    }
}

#[test]
fn a_daemon_that_was_away_begins_the_month_that_is() {
    let folder = tempfile::tempdir().unwrap();
    let limit = budget(100 * MB, 31);
    let mut daemon = Daemon::start(&folder, limit, at("2027-01-31", 0));
    daemon.carry(70 * MB, at("2027-02-27", 23));
    daemon.end(at("2027-02-27", 23));
    assert_eq!(Daemon::kept(&folder, limit, at("2027-02-27", 23)), 70 * MB);
    assert_eq!(Daemon::kept(&folder, limit, at("2027-02-28", 0)), 0);
}

#[test]
fn a_reload_that_changes_a_budget_keeps_what_was_carried() {
    let folder = tempfile::tempdir().unwrap();
    let now = at("2026-11-23", 0);
    let mut daemon = Daemon::start(&folder, budget(100 * MB, 1), now);
    daemon.carry(90 * MB, now);
    assert_eq!(daemon.budgets.state("lte"), BudgetState::Open);
    daemon.set(Some(budget(80 * MB, 1)), now);
    assert_eq!(daemon.budgets.state("lte"), BudgetState::LastResort);
    // Another day: how much of it came since is not known.
    for (day, resets) in [(15, "2026-12-15"), (28, "2026-11-28"), (1, "2026-12-01")] {
        daemon.set(Some(budget(100 * MB, day)), now);
        let status = daemon.budgets.status("lte", now).unwrap();
        assert_eq!((status.used_bytes, &*status.resets), (90 * MB, resets));
    }
    daemon.set(Some(budget(100 * MB, 28)), now);
    daemon.carry(0, at("2026-11-28", 0));
    assert_eq!(daemon.used(at("2026-11-28", 0)), 0);
    // Without a budget, and with one again.
    daemon.carry(5 * MB, at("2026-11-28", 0));
    daemon.set(None, at("2026-11-28", 1));
    assert_eq!(daemon.budgets.status("lte", now), None);
    assert_eq!(daemon.budgets.state("lte"), BudgetState::Open);
    daemon.carry(5 * MB, at("2026-11-28", 2));
    daemon.set(Some(budget(100 * MB, 28)), at("2026-11-28", 3));
    assert_eq!(daemon.used(at("2026-11-28", 3)), 5 * MB);
}

#[test]
fn a_damaged_file_is_put_aside_and_one_that_cannot_be_written_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let (limit, now) = (budget(100 * MB, 1), at("2026-11-23", 0));
    let file = folder.path().join("mpt0.budgets");
    std::fs::write(&file, "mpt budgets 1\nlte mon").unwrap();
    let mut daemon = Daemon::start(&folder, limit, now);
    assert_eq!(daemon.used(now), 0);
    assert!(folder.path().join("mpt0.budgets.damaged").exists());
    // A folder in its place.
    std::fs::create_dir(&file).unwrap();
    daemon.carry(MB, now);
    let missing = daemon.budgets.missing().unwrap();
    assert!(missing.what.ends_with("mpt0.budgets"), "{missing:?}");
    std::fs::remove_dir(&file).unwrap();
    daemon.carry(1, now);
    assert!(daemon.budgets.missing().is_some(), "it waits");
    daemon.now = daemon.now + TRIED_EVERY;
    daemon.carry(1, now);
    assert_eq!(daemon.budgets.missing(), None);
    assert_eq!(Daemon::kept(&folder, limit, now), MB + 2);
}

#[test]
fn a_file_that_cannot_be_read_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (limit, now) = (budget(100 * MB, 1), at("2026-11-23", 0));
    let file = folder.path().join("mpt0.budgets");
    // Root can read every file, but no link that leads to itself.
    std::os::unix::fs::symlink(&file, &file).unwrap();
    let mut daemon = Daemon::start(&folder, limit, now);
    daemon.carry(MB, now);
    assert_eq!(daemon.budgets.missing(), None);
    assert!(file.is_file());
    let aside = folder.path().join("mpt0.budgets.unread");
    assert!(aside.is_symlink());
}

#[test]
fn the_forecast_goes_on_as_so_far_and_waits_for_some_hours() {
    let folder = tempfile::tempdir().unwrap();
    let start = at("2026-11-21", 0);
    let mut daemon = Daemon::start(&folder, budget(100 * MB, 1), start);
    let mut forecast = |bytes, unix_s| {
        daemon.carry(bytes, unix_s);
        let status = daemon.budgets.status("lte", unix_s).unwrap();
        status.forecast_bytes
    };
    assert_eq!(forecast(MB, start + 6 * HOUR_S - 1), None);
    assert_eq!(
        forecast(0, start + 6 * HOUR_S),
        Some(40 * MB),
        "10 days of 4 MB"
    );
    assert_eq!(forecast(0, start + 5 * 24 * HOUR_S), Some(2 * MB));
    assert_eq!(forecast(0, start - HOUR_S), None, "the clock was set back");
}

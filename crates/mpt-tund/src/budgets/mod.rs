//! What a tunnel's paths have carried in their months, and what becomes of those that carried what they may.
//!
//! The control thread reads each path's counter ([`Counted`]) once a second and keeps the sum of the month. What it
//! comes to is a standing, which [`crate::tunnel`] tells the lines. A file (`file`) keeps the sums; it is written when a
//! thousandth of a budget has come since, after five minutes in which anything has, when a month begins, and at the end.
//! So a power cut loses no more than that of a count.
//!
//! *The clock.* A month begins once: when the clock is set back, or nobody has set it yet, the count goes on in the month
//! that was. A clock that was more than a month ahead is not believed afterwards: its count goes on in the month that is, and what
//! was counted in that month before is added where the clock came straight back to it.
//! One that is more than a month behind looks the same at first: that of a host that starts with the date its system was
//! made. So the month that was left is kept. Where the clock goes forward to just that month, it was the right one.

mod calendar;
mod file;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mpt_core::control::Missing;
use mpt_core::control::budgets::{AtBudget, BudgetState, BudgetStatus};
use mpt_core::time::Time;

use crate::config::{Budget, Config};
use crate::log::Log;
use crate::udp::Counted;
use calendar::{Day, Month};
use file::{Entry, MAX_ENTRIES, ReadError};

/// The file is written when this part of a budget has come since …
const STEP: u64 = 1000;
/// … but for no less than this, in bytes: a thousand times a budget at most, which wears no flash memory.
const LEAST_STEP: u64 = 64 * 1024;
/// And so often where anything has come at all.
const WRITTEN_EVERY: Duration = Duration::from_secs(300);
/// A file that cannot be written is tried again after this time.
const TRIED_EVERY: Duration = Duration::from_secs(30);
/// Nothing is foretold from less than this, in seconds: what is carried differs by the time of day.
const FORETOLD_AFTER_S: u64 = 6 * 3600;
/// What is earlier is shown by a clock that nobody has set yet: 2026-01-01, before there were budgets here.
const EARLIEST_S: u64 = 1_767_225_600;
/// A month that begins later than this from now was not begun by a clock that was right, in days.
const LONGEST_MONTH: u64 = 31;

/// The budgets of a tunnel.
#[derive(Debug)]
pub(crate) struct Budgets {
    file: PathBuf,
    accounts: Vec<Account>,
    /// What is known of paths that have no budget now.
    others: Vec<Entry>,
    is_read: bool,
    /// When the file was written last, or that was tried.
    tried: Option<Time>,
    /// Something has to be written at once.
    is_due: bool,
    /// Why the file cannot be written.
    fails: Option<String>,
}

/// What a path has carried.
#[derive(Debug)]
struct Account {
    budget: Budget,
    counted: Arc<Counted>,
    /// What the counter said last.
    read: u64,
    entry: Entry,
    /// What of it the file has.
    written: u64,
}

impl Account {
    /// Adds what has come since, and begins another month when it is time.
    fn count(&mut self, unix_s: u64) -> bool {
        let read = self.counted.bytes();
        self.entry.used = self.entry.used.saturating_add(read - self.read);
        self.read = read;
        self.turn(unix_s)
    }

    /// Whether another month has begun, or the one that is there is another.
    fn turn(&mut self, unix_s: u64) -> bool {
        if unix_s < EARLIEST_S {
            return false;
        }
        let first = self.month_of(today(unix_s)).first;
        let was = std::mem::replace(&mut self.entry.month, first);
        let is_near = was.0.abs_diff(first.0) <= LONGEST_MONTH;
        let began_as_now = self.month_of(was).first == was;
        if was == first {
            return false;
        }
        if began_as_now && first < was && is_near {
            // The clock was set back: what has begun has begun.
            self.entry.month = was;
            return false;
        }
        if first < was {
            // `reset_day` is another one, or the clock was far ahead, or is far behind: the count goes on.
            if !is_near {
                self.entry.left = Some(was);
                let left = self.entry.former.take_if(|(month, _)| *month == first);
                let used = left.map_or(0, |(_, used)| used);
                self.entry.used = self.entry.used.saturating_add(used);
            }
        } else if self.entry.left.take() != Some(first) && (began_as_now || !is_near) {
            self.entry.former = (!is_near).then_some((was, self.entry.used));
            self.entry.used = 0;
            self.entry.since = unix_s;
        }
        // Else `reset_day` is another one, or the clock is right again: the count goes on.
        true
    }

    fn month_of(&self, day: Day) -> Month {
        Month::around(day, self.budget.reset_day)
    }

    /// How many bytes may come until the file is written.
    fn step(&self) -> u64 {
        (self.budget.limit / STEP).max(LEAST_STEP)
    }

    fn state(&self) -> BudgetState {
        match self.budget.at_budget {
            _ if self.entry.used < self.budget.limit => BudgetState::Open,
            AtBudget::LastResort => BudgetState::LastResort,
            AtBudget::Off => BudgetState::Off,
        }
    }

    fn status(&self, unix_s: u64) -> BudgetStatus {
        // As of this moment, and not of the last second.
        let used = self.entry.used + (self.counted.bytes() - self.read);
        let next = self.month_of(self.entry.month.max(today(unix_s))).next;
        BudgetStatus {
            limit_bytes: self.budget.limit,
            used_bytes: used,
            resets: next.to_string(),
            forecast_bytes: forecast(used, self.entry.since, unix_s, next),
            at_budget: self.budget.at_budget,
            state: self.state(),
        }
    }
}

/// The day that it is, as far as the clock is to be believed.
fn today(unix_s: u64) -> Day {
    Day::of(unix_s.max(EARLIEST_S))
}

/// What will have come when `next` begins, if it goes on as since `since`.
fn forecast(used: u64, since: u64, now: u64, next: Day) -> Option<u64> {
    let elapsed = now
        .checked_sub(since)
        .filter(|&span| span >= FORETOLD_AFTER_S)?;
    let left = next.begins().saturating_sub(now);
    let more = u128::from(used) * u128::from(left) / u128::from(elapsed);
    u64::try_from(u128::from(used) + more).ok()
}

impl Budgets {
    /// Those of a tunnel; nothing is read before one of its paths has a budget.
    pub(crate) fn new(config: &Config) -> Budgets {
        let name = format!("{}.budgets", config.tunnel.name);
        Budgets::of(config.state_dir().join(name))
    }

    fn of(file: PathBuf) -> Budgets {
        Budgets {
            file,
            accounts: Vec::new(),
            others: Vec::new(),
            is_read: false,
            tried: None,
            is_due: false,
            fails: None,
        }
    }

    /// The path of this name has this budget from now on, or none. What it has carried in its month stays.
    pub(crate) fn set(
        &mut self,
        path: &str,
        budget: Option<Budget>,
        counted: &Arc<Counted>,
        unix_s: u64,
        log: &mut Log,
    ) {
        let known = self
            .accounts
            .iter()
            .position(|known| known.entry.path == path);
        let former = known.map(|at| {
            let mut former = self.accounts.swap_remove(at);
            former.count(unix_s);
            former
        });
        let Some(budget) = budget else {
            self.forget(former.map(|former| former.entry));
            return;
        };
        if !std::mem::replace(&mut self.is_read, true) {
            self.read(log);
        }
        let remembered = self.others.iter().position(|entry| entry.path == path);
        let remembered = remembered.map(|at| self.others.swap_remove(at));
        let remembered = remembered.map(|entry| (entry.used, entry));
        let known = former
            .map(|former| (former.written, former.entry))
            .or(remembered);
        let (written, entry) = known.unzip();
        let month = Month::around(today(unix_s), budget.reset_day).first;
        let mut account = Account {
            budget,
            counted: counted.clone(),
            read: counted.bytes(),
            written: written.unwrap_or_default(),
            entry: entry.unwrap_or_else(|| Entry {
                path: path.to_owned(),
                month,
                left: None,
                former: None,
                since: unix_s,
                used: 0,
            }),
        };
        self.is_due |= account.turn(unix_s);
        self.accounts.push(account);
    }

    /// Keeps what is known of a path that has no budget now, in place of what is known for longest.
    fn forget(&mut self, entry: Option<Entry>) {
        self.is_due |= entry.is_some();
        self.others.extend(entry);
        self.others
            .sort_by_key(|entry| std::cmp::Reverse(entry.month));
        self.others.truncate(MAX_ENTRIES / 2);
    }

    fn read(&mut self, log: &mut Log) {
        let file = self.file.display();
        // The next write would replace what may only be another user's.
        let (what, ending, remedy) = match file::read(&self.file) {
            Ok(entries) => {
                self.others = entries;
                return;
            }
            Err(ReadError::None) => return,
            Err(ReadError::Io(error)) => (
                format!("cannot be read ({error})"),
                "unread",
                ": to count on from it, stop mpt-tund, let its user read the file, and rename it back",
            ),
            Err(ReadError::Damaged) => ("is damaged".to_owned(), "damaged", ""),
        };
        match file::put_aside(&self.file, ending) {
            Ok(aside) => log.warn(format!(
                "{file} {what}, so budgets begin at 0; it is {} now{remedy}",
                aside.display()
            )),
            Err(error) => log.warn(format!(
                "{file} {what}, so budgets begin at 0, and cannot be put aside: {error}"
            )),
        }
    }

    /// Adds what was carried, and writes the file when it is time. To be called once a second.
    pub(crate) fn count(&mut self, unix_s: u64, now: Time, log: &mut Log) {
        for account in &mut self.accounts {
            let before = (account.entry.month, account.state());
            let turned = account.count(unix_s);
            self.is_due |= turned;
            let (name, limit) = (&account.entry.path, account.budget.limit);
            let limit = mpt_core::control::units::bytes(limit);
            match (before.1, account.state()) {
                (BudgetState::Open, BudgetState::LastResort) => log.warn(format!(
                    "path {name} has carried the {limit} of its month: it is the last resort now"
                )),
                (BudgetState::Open, BudgetState::Off) => log.warn(format!(
                    "path {name} has carried the {limit} of its month: nothing goes over it any more"
                )),
                (BudgetState::LastResort | BudgetState::Off, BudgetState::Open) => {
                    log.info(format!("path {name} may carry {limit} again"));
                }
                (BudgetState::Open, BudgetState::Open)
                | (BudgetState::LastResort | BudgetState::Off, _) => {}
            }
            // At once: what happens at a power cut is not to depend on what was not written.
            self.is_due |= before.1 != account.state();
        }
        self.write_when_due(now, log);
    }

    fn write_when_due(&mut self, now: Time, log: &mut Log) {
        let waited = |span| self.tried.is_none_or(|tried| now.since(tried) >= span);
        let unwritten = |account: &Account| account.entry.used.saturating_sub(account.written);
        let has_step = |account: &Account| unwritten(account) >= account.step();
        let mut accounts = self.accounts.iter();
        let is_due = match self.fails {
            Some(_) => waited(TRIED_EVERY),
            None => self.is_due || accounts.clone().any(has_step),
        };
        let has_some = accounts.any(|account| unwritten(account) > 0);
        if is_due || has_some && waited(WRITTEN_EVERY) {
            self.tried = Some(now);
            self.write(log);
        }
    }

    fn write(&mut self, log: &mut Log) {
        let own = self.accounts.iter().map(|account| &account.entry);
        let mut entries: Vec<Entry> = own.chain(&self.others).cloned().collect();
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        if let Err(error) = file::write(&self.file, &entries) {
            let why = format!(
                "{error}; `state_dir` in [tunnel] names a folder that mpt-tund can write into"
            );
            if self.fails.as_ref() != Some(&why) {
                let file = self.file.display();
                log.warn(format!(
                    "{file} cannot be written, so a restart forgets budgets: {why}"
                ));
            }
            self.fails = Some(why);
            return;
        }
        if self.fails.take().is_some() {
            log.info(format!("{} is written again", self.file.display()));
        }
        self.is_due = false;
        for account in &mut self.accounts {
            account.written = account.entry.used;
        }
    }

    /// Writes what was not written yet: the tunnel ends.
    pub(crate) fn end(&mut self, unix_s: u64, log: &mut Log) {
        for account in &mut self.accounts {
            account.count(unix_s);
        }
        let is_written = |account: &Account| account.entry.used == account.written;
        if self.is_due || !self.accounts.iter().all(is_written) {
            self.write(log);
        }
    }

    /// What its budget makes of a path.
    pub(crate) fn state(&self, path: &str) -> BudgetState {
        let account = self.account(path);
        account.map_or(BudgetState::Open, Account::state)
    }

    /// The budget of a path, if it has one.
    pub(crate) fn status(&self, path: &str, unix_s: u64) -> Option<BudgetStatus> {
        Some(self.account(path)?.status(unix_s))
    }

    /// What cannot be kept.
    pub(crate) fn missing(&self) -> Option<Missing> {
        Some(Missing {
            what: format!("file {}", self.file.display()),
            why: self.fails.clone()?,
        })
    }

    fn account(&self, path: &str) -> Option<&Account> {
        let mut accounts = self.accounts.iter();
        accounts.find(|account| account.entry.path == path)
    }
}

#[cfg(test)]
mod tests;

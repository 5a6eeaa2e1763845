//! Months that begin on a day of the operator's choice, in UTC.
//!
//! UTC, since no library here knows the host's time zone: where a provider counts by local time, a month begins up to
//! 14 h off. Days are counted from 1970-01-01; their calendar is the proleptic Gregorian one.

use std::fmt;

/// Seconds of a day of UTC, which has no leap seconds in Unix time.
pub(super) const DAY_S: u64 = 86_400;
/// Days from 0000-03-01 to 1970-01-01.
const EPOCH: u64 = 719_468;
/// Days of 400 years.
const ERA: u64 = 146_097;

/// A day, by its number since 1970-01-01.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Day(pub(super) u64);

impl Day {
    /// The day of a moment, in seconds since 1970.
    pub(super) fn of(unix_s: u64) -> Day {
        Day(unix_s / DAY_S)
    }

    /// When it begins, in seconds since 1970.
    pub(super) fn begins(self) -> u64 {
        self.0 * DAY_S
    }

    /// Of a date that there is; the month is 1 to 12.
    fn on(year: u64, month: u64, day: u64) -> Day {
        // Years begin in March here, so that February's last day is a year's.
        let year = if month <= 2 { year - 1 } else { year };
        let in_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
        let (era, of_era) = (year / 400, year % 400);
        let in_era = of_era * 365 + of_era / 4 - of_era / 100 + in_year;
        Day((era * ERA + in_era) - EPOCH)
    }

    /// As it is written; nothing for what is no date.
    pub(super) fn parse(text: &str) -> Option<Day> {
        let (year, rest) = text.split_once('-')?;
        let (month, day) = rest.split_once('-')?;
        let [year, month, day] = [year, month, day].map(|digits| digits.parse::<u64>().ok());
        let (year, month, day) = (year?, month?, day?);
        if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day)
        {
            return None;
        }
        let parsed = Day::on(year, month, day);
        (parsed.to_string() == text).then_some(parsed)
    }

    /// Year, month from 1 to 12, day from 1 to 31.
    fn date(self) -> (u64, u64, u64) {
        let days = self.0 + EPOCH;
        let (era, in_era) = (days / ERA, days % ERA);
        let of_era = (in_era - in_era / 1460 + in_era / 36_524 - in_era / 146_096) / 365;
        let in_year = in_era - (365 * of_era + of_era / 4 - of_era / 100);
        let from_march = (5 * in_year + 2) / 153;
        let day = in_year - (153 * from_march + 2) / 5 + 1;
        let month = (from_march + 2) % 12 + 1;
        let year = era * 400 + of_era + u64::from(month <= 2);
        (year, month, day)
    }
}

/// As RFC 3339 writes a date.
impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.date();
        write!(f, "{year:04}-{month:02}-{day:02}")
    }
}

/// A month of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Month {
    pub(super) first: Day,
    /// The first day of the next one.
    pub(super) next: Day,
}

impl Month {
    /// The month that this day is in, where they begin on `reset_day`, or on their last day where they are shorter.
    pub(super) fn around(today: Day, reset_day: u8) -> Month {
        let (year, month, _) = today.date();
        let begins = |(year, month): (u64, u64)| {
            let after = following((year, month));
            let last = Day::on(after.0, after.1, 1).0 - 1;
            let first = Day::on(year, month, 1).0;
            Day(last.min(first + u64::from(reset_day.max(1)) - 1))
        };
        let this = begins((year, month));
        match today >= this {
            true => Month {
                first: this,
                next: begins(following((year, month))),
            },
            false => Month {
                first: begins(preceding((year, month))),
                next: this,
            },
        }
    }
}

fn following((year, month): (u64, u64)) -> (u64, u64) {
    match month {
        12 => (year + 1, 1),
        month => (year, month + 1),
    }
}

fn preceding((year, month): (u64, u64)) -> (u64, u64) {
    match month {
        1 => (year - 1, 12),
        month => (year, month - 1),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn month(day: (u64, u64, u64), reset_day: u8) -> (String, String) {
        let month = Month::around(Day::on(day.0, day.1, day.2), reset_day);
        (month.first.to_string(), month.next.to_string())
    }

    #[test]
    fn months_begin_on_the_day_that_is_configured_or_on_their_last() {
        let is = |day, reset, first: &str, next: &str| {
            assert_eq!(month(day, reset), (first.to_owned(), next.to_owned()));
        };
        is((2026, 11, 23), 1, "2026-11-01", "2026-12-01");
        is((2026, 11, 1), 1, "2026-11-01", "2026-12-01");
        is((2026, 12, 31), 1, "2026-12-01", "2027-01-01");
        is((2026, 11, 23), 24, "2026-10-24", "2026-11-24");
        is((2027, 1, 5), 15, "2026-12-15", "2027-01-15");
        // Shorter months: on their last day.
        is((2026, 2, 27), 31, "2026-01-31", "2026-02-28");
        is((2026, 2, 28), 31, "2026-02-28", "2026-03-31");
        is((2026, 3, 30), 31, "2026-02-28", "2026-03-31");
        is((2028, 2, 28), 31, "2028-01-31", "2028-02-29");
        is((2028, 2, 29), 30, "2028-02-29", "2028-03-30");
        is((2026, 4, 30), 31, "2026-04-30", "2026-05-31");
        is((2100, 2, 28), 29, "2100-02-28", "2100-03-29");
    }

    #[test]
    fn days_are_those_of_the_clock() {
        assert_eq!(Day::of(0).to_string(), "1970-01-01");
        // `date -u -d @1795454434` says 2026-11-23 17:20:34.
        assert_eq!(Day::of(1_795_454_434).to_string(), "2026-11-23");
        assert_eq!(Day::of(951_827_696).to_string(), "2000-02-29");
        assert_eq!(Day::of(951_827_696).begins(), 951_782_400);
    }

    proptest! {
        /// Every day is in one month, and months follow each other without a gap, at most 31 days long.
        #[test]
        fn each_day_has_one_month(day in 40u64..80_000, reset in 1u8..=31) {
            let month = Month::around(Day(day), reset);
            prop_assert!(month.first.0 <= day && day < month.next.0);
            prop_assert!((28..=31).contains(&(month.next.0 - month.first.0)));
            prop_assert_eq!(Month::around(month.next, reset).first, month.next);
            prop_assert_eq!(Month::around(month.first, reset), month);
            let (year, of_year, of_month) = Day(day).date();
            prop_assert_eq!(Day::on(year, of_year, of_month), Day(day));
        }
    }
}

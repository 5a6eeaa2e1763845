//! `mpt-ctl history`: the last 24 hours, a line an hour or a line a minute.

use mpt_core::control::history::{History, Minute, PathHistory, together};
use mpt_core::control::units::{bytes, percent};
use mpt_measure::table::{Look, Side, Table, Tone};

use super::UNKNOWN;
use super::trace::written;

const HOUR_US: u64 = 3_600_000_000;

/// All of it; `by_minute` where one path was asked for.
pub(crate) fn show(history: &History, by_minute: bool, look: Look) -> String {
    let mut text = String::new();
    let whole = history.whole.as_ref().map(|whole| ("tunnel", whole));
    let paths = history.paths.iter().map(|path| ("path", path));
    for (what, of) in whole.into_iter().chain(paths) {
        if !text.is_empty() {
            text.push('\n');
        }
        let is_away = if of.present {
            ""
        } else {
            ", which is not there now"
        };
        let since = of.minutes.first().map_or(String::new(), |first| {
            let at = written(first.at_us);
            format!(", since {} {} UTC", &at[..10], &at[11..16])
        });
        let title = format!("{what} {}{since}{is_away}", of.name);
        text += &look.sentence(Tone::Heading, "", &title);
        text += &match of.minutes.is_empty() {
            true => "Nothing is known yet: a minute is shown once a second of it has passed.\n"
                .to_owned(),
            false => table(of, by_minute).show(look),
        };
    }
    text
}

fn table(of: &PathHistory, by_minute: bool) -> Table<9> {
    let mut table = Table::new([
        ("TIME", Side::Left),
        ("UP", Side::Right),
        ("SENT", Side::Right),
        ("RECEIVED", Side::Right),
        ("OUT", Side::Right),
        ("IN", Side::Right),
        ("RTT", Side::Right),
        ("LOSS", Side::Right),
        ("AGAIN", Side::Right),
    ]);
    let parts: Vec<&[Minute]> = match by_minute {
        true => of.minutes.chunks(1).collect(),
        false => of
            .minutes
            .chunk_by(|a, b| a.at_us / HOUR_US == b.at_us / HOUR_US)
            .collect(),
    };
    for part in parts {
        let Some(sum) = together(part) else {
            continue;
        };
        // An hour is called by its beginning, also where its first minutes are not known.
        let at_us = match by_minute {
            true => sum.at_us,
            false => sum.at_us / HOUR_US * HOUR_US,
        };
        table.row(row(&written(at_us)[11..16], &sum).map(Into::into));
    }
    table
}

fn row(time: &str, minute: &Minute) -> [String; 9] {
    let up = minute.up_ms > 0;
    let known = |text: String| if up { text } else { UNKNOWN.to_owned() };
    let loss = minute.loss.or(minute.rx_loss);
    [
        time.to_owned(),
        percent_whole(minute.up_share()),
        bytes(minute.tx_bytes),
        bytes(minute.rx_bytes),
        known(rates(minute.tx_bps, minute.tx_max_bps)),
        known(rates(minute.rx_bps, minute.rx_max_bps)),
        round_trips(minute),
        loss.filter(|_| up).map_or(UNKNOWN.to_owned(), percent),
        minute.recovered.to_string(),
    ]
}

/// "12.3/95.0": mean and highest in Mbit/s.
fn rates(mean_bps: u64, max_bps: u64) -> String {
    format!("{}/{}", mbps(mean_bps), mbps(max_bps))
}

fn mbps(bps: u64) -> String {
    match bps {
        0..999_500_000 => short(bps as f64 / 1e6),
        _ => short(bps as f64 / 1e9) + "G",
    }
}

fn round_trips(minute: &Minute) -> String {
    let ms = |us: u64| short(us as f64 / 1e3);
    match (minute.rtt_min_us, minute.rtt_us, minute.rtt_max_us) {
        (Some(least), Some(mean), Some(most)) => {
            format!("{}/{}/{}", ms(least), ms(mean), ms(most))
        }
        _ => UNKNOWN.to_owned(),
    }
}

/// Two or three digits.
fn short(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        v if v < 0.05 => "<.1".to_owned(),
        v if v < 9.95 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

/// "100", "99" where a little is missing: a column of percents without room for digits.
fn percent_whole(share: f64) -> String {
    let whole = share * 100.0;
    match () {
        () if whole > 0.0 && whole < 1.0 => "<1%".to_owned(),
        () if whole > 99.0 && whole < 100.0 => "99%".to_owned(),
        () => format!("{whole:.0}%"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::tests::PLAIN;
    use mpt_core::control::PathState;
    use mpt_measure::table::WIDTH;

    /// 2026-01-31 22:58 UTC.
    const START_US: u64 = 1_769_900_280_000_000;

    fn minute(number: u64) -> Minute {
        Minute {
            at_us: START_US + number * 60_000_000,
            span_ms: 60_000,
            up_ms: 60_000,
            state: PathState::Up,
            tx_bytes: 90_000_000,
            rx_bytes: 1_500_000,
            tx_bps: 12_000_000,
            tx_max_bps: 95_300_000,
            rx_bps: 200_000,
            rx_max_bps: 410_000,
            rtt_min_us: Some(9_800),
            rtt_us: Some(10_300),
            rtt_max_us: Some(48_000),
            loss: Some(0.0012),
            rx_loss: Some(0.0),
            recovered: 91,
            rx_recovered: 0,
        }
    }

    fn example() -> History {
        let down = Minute {
            up_ms: 0,
            state: PathState::Down,
            tx_bytes: 1_200,
            rx_bytes: 0,
            rtt_min_us: None,
            rtt_us: None,
            rtt_max_us: None,
            loss: Some(1.0),
            recovered: 0,
            ..minute(3)
        };
        let lte = PathHistory {
            name: "lte\u{1b}[2J".into(),
            present: false,
            minutes: vec![minute(0), minute(1), down, minute(65), minute(70)],
        };
        History {
            tunnel: "mpt0".into(),
            at_us: START_US + 71 * 60_000_000,
            whole: Some(PathHistory {
                name: "mpt0".into(),
                present: true,
                minutes: vec![],
            }),
            paths: vec![lte],
        }
    }

    #[test]
    fn history_reads_by_the_hour() {
        insta::assert_snapshot!(show(&example(), false, PLAIN), @r"
        tunnel mpt0
        Nothing is known yet: a minute is shown once a second of it has passed.

        path lte�[2J, since 2026-01-31 22:58 UTC, which is not there now
        TIME     UP    SENT  RECEIVED    OUT       IN        RTT    LOSS  AGAIN
        22:00  100%  180 MB    3.0 MB  12/95  0.2/0.4  9.8/10/48  0.12 %    182
        23:00    0%  1.2 kB       0 B      –        –          –       –      0
        00:00  100%  180 MB    3.0 MB  12/95  0.2/0.4  9.8/10/48  0.12 %    182
        ");
    }

    #[test]
    fn history_reads_by_the_minute() {
        insta::assert_snapshot!(show(&example(), true, PLAIN), @r"
        tunnel mpt0
        Nothing is known yet: a minute is shown once a second of it has passed.

        path lte�[2J, since 2026-01-31 22:58 UTC, which is not there now
        TIME     UP     SENT  RECEIVED    OUT       IN        RTT    LOSS  AGAIN
        22:58  100%  90.0 MB    1.5 MB  12/95  0.2/0.4  9.8/10/48  0.12 %     91
        22:59  100%  90.0 MB    1.5 MB  12/95  0.2/0.4  9.8/10/48  0.12 %     91
        23:01    0%   1.2 kB       0 B      –        –          –       –      0
        00:03  100%  90.0 MB    1.5 MB  12/95  0.2/0.4  9.8/10/48  0.12 %     91
        00:08  100%  90.0 MB    1.5 MB  12/95  0.2/0.4  9.8/10/48  0.12 %     91
        ");
    }

    #[test]
    fn a_line_fits_whatever_the_numbers() {
        let worst = Minute {
            tx_bytes: 999_400_000_000,
            rx_bytes: 999_400_000_000,
            tx_bps: 10_000_000_000,
            tx_max_bps: 10_000_000_000,
            rx_bps: 10_000_000_000,
            rx_max_bps: 10_000_000_000,
            rtt_min_us: Some(999_000),
            rtt_us: Some(999_000),
            rtt_max_us: Some(999_000),
            loss: Some(0.123),
            recovered: 9_999,
            ..minute(0)
        };
        let of = PathHistory {
            minutes: vec![worst],
            ..PathHistory::default()
        };
        for line in table(&of, true).show(PLAIN).lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
    }
}

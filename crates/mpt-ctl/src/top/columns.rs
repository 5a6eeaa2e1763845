//! The columns of the screen: which of them there is room for, and what stands in them.

use mpt_core::control::units::{percent, time_us};
use ratatui::layout::Rect;

use super::track::Sample;

/// A column of numbers; a sparkline stands below each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    Out,
    In,
    Rtt,
    Loss,
    Queue,
    Share,
}

/// Blanks between two columns.
const GAP: u16 = 1;
/// Widths of the first two columns, in columns of the terminal.
const NAME: u16 = 12;
const STATE: u16 = 10;
/// Most that a name gets.
const MOST_NAME: u16 = 32;

impl Column {
    /// In the order in which they stand.
    const ALL: [Column; 6] = [
        Column::Out,
        Column::In,
        Column::Rtt,
        Column::Loss,
        Column::Queue,
        Column::Share,
    ];
    /// Those that matter most first.
    const BY_WORTH: [Column; 6] = [
        Column::Out,
        Column::Rtt,
        Column::In,
        Column::Loss,
        Column::Share,
        Column::Queue,
    ];

    pub(super) fn title(self) -> &'static str {
        match self {
            Column::Out => "OUT bit/s",
            Column::In => "IN bit/s",
            Column::Rtt => "RTT",
            Column::Loss => "LOSS",
            Column::Queue => "QUEUE",
            Column::Share => "SHARE",
        }
    }

    fn least(self) -> u16 {
        match self {
            Column::Out | Column::In => 10,
            Column::Rtt | Column::Queue => 8,
            Column::Loss | Column::Share => 7,
        }
    }

    /// The number as it is shown.
    pub(super) fn text(self, now: &Sample) -> String {
        match self {
            Column::Out => rate(now.out_bps),
            Column::In => rate(now.in_bps),
            Column::Rtt => now.rtt_us.map_or("–".to_owned(), time_us),
            Column::Loss => percent(now.loss),
            Column::Queue => time_us(now.queue_us),
            Column::Share => percent(now.share),
        }
    }

    /// The number as it is drawn.
    pub(super) fn value(self) -> fn(&Sample) -> Option<u64> {
        match self {
            Column::Out => |sample| Some(sample.out_bps),
            Column::In => |sample| Some(sample.in_bps),
            Column::Rtt => |sample| sample.rtt_us,
            // In parts of a million.
            Column::Loss => |sample| Some((sample.loss * 1e6) as u64),
            Column::Queue => |sample| Some(sample.queue_us),
            Column::Share => |sample| Some((sample.share * 1e6) as u64),
        }
    }

    /// The least value that fills a column's height: less is not worth the eye.
    pub(super) fn full(self) -> u64 {
        match self {
            Column::Out | Column::In => 100_000,
            Column::Rtt => 1_000,
            Column::Loss => 10_000,
            Column::Queue => 10_000,
            Column::Share => 1_000_000,
        }
    }
}

/// "95.3 M": the unit stands in the title.
fn rate(bps: u64) -> String {
    let text = mpt_core::control::units::bits_per_second(bps);
    text.trim_end_matches("bit/s").trim_end().to_owned()
}

/// Where the columns of a line stand.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Places {
    pub(super) name: Rect,
    pub(super) state: Rect,
    pub(super) numbers: Vec<(Column, Rect)>,
}

/// The columns for which a line has room, the wider the more there is.
pub(super) fn places(line: Rect) -> Places {
    let mut chosen = Vec::new();
    let mut used = NAME + GAP + STATE;
    for column in Column::BY_WORTH {
        let wants = GAP + column.least();
        if used + wants <= line.width {
            used += wants;
            chosen.push(column);
        }
    }
    let spare = line.width.saturating_sub(used);
    // A third of what is left goes to the names, the rest to the numbers, for their past.
    let numbers = Column::ALL.iter().filter(|column| chosen.contains(column));
    let count = chosen.len() as u16;
    let to_name = (spare / 3).min(MOST_NAME - NAME);
    let each = (spare - to_name).checked_div(count).unwrap_or(0);
    let to_name = spare - each * count;
    let mut x = line.x;
    let mut place = |width: u16| {
        let at = Rect::new(x, line.y, width, 1).intersection(line);
        x = x.saturating_add(width + GAP);
        at
    };
    Places {
        name: place(NAME + to_name),
        state: place(STATE),
        numbers: numbers
            .map(|&column| (column, place(column.least() + each)))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_columns_fit_80_and_the_least_worthy_go_first() {
        let titles = |width| {
            let places = places(Rect::new(0, 0, width, 1));
            let titles = places.numbers.iter().map(|(column, _)| column.title());
            titles.collect::<Vec<_>>()
        };
        assert_eq!(titles(80).len(), 6);
        assert_eq!(titles(60), ["OUT bit/s", "IN bit/s", "RTT"]);
        assert_eq!(titles(40), ["OUT bit/s"]);
        assert_eq!(titles(10).len(), 0);
    }

    #[test]
    fn columns_stand_beside_each_other_and_end_with_the_line() {
        for width in 0..400 {
            let line = Rect::new(3, 5, width, 1);
            let places = places(line);
            let mut end = 0;
            let numbers = places.numbers.iter().map(|(_, at)| *at);
            for at in [places.name, places.state].into_iter().chain(numbers) {
                if at.is_empty() {
                    continue;
                }
                assert!(at.x >= end && at.right() <= line.right(), "{width}");
                end = at.right() + 1;
            }
        }
        let wide = places(Rect::new(0, 0, 200, 1));
        assert_eq!(wide.numbers.last().unwrap().1.right(), 200);
    }

    #[test]
    fn numbers_fit_their_columns() {
        let worst = Sample {
            out_bps: 999_400_000,
            in_bps: u64::MAX,
            rtt_us: Some(99_900_000),
            loss: 0.000_01,
            queue_us: 999_400,
            share: 0.999,
        };
        for column in Column::ALL {
            let text = column.text(&worst);
            let length = text.chars().count();
            assert!(length <= usize::from(column.least()), "{text}");
        }
        assert_eq!(Column::Out.text(&worst), "999 M");
    }
}

//! `mpt-ctl reorder`: the order of packets before the window, behind it, and on each path.

use mpt_core::control::ReorderStatus;
use mpt_core::control::order::{OrderFigures, OrderStatus, PathOrderStatus, PointStatus};

use super::{UNKNOWN, density};
use mpt_core::control::units::{percent, time_us};
use mpt_measure::table::{Cell, Look, Side, Table, Tone};

/// What order was like and what would have been enough, in sentences.
pub(super) fn verdict(reorder: &ReorderStatus, order: &OrderStatus, look: Look) -> String {
    let whole = &order.arriving.since_start;
    if whole.reordering.arrivals == 0 {
        let nothing =
            "No packet with a sequence number has arrived yet: there is no order to speak of.";
        return look.sentence(Tone::Plain, "", nothing);
    }
    let (lately, when) = lately(&order.arriving);
    let left = if lately == whole {
        &order.leaving.since_start
    } else {
        order
            .leaving
            .last_interval
            .as_ref()
            .unwrap_or(&order.leaving.since_start)
    };
    let [arriving, leaving] = [lately, left].map(|figures| one_in(figures.three_reordering));
    let tcp = format!(
        "Of the packets {when} a TCP that takes three duplicate ACKs for a loss would have sent \
         {arriving} again as they arrived, and {leaving} as they left."
    );
    let suffers = left.three_reordering >= 0.001;
    let tone = if suffers { Tone::Doubtful } else { Tone::Plain };
    look.sentence(tone, "", &tcp) + &enough(reorder, whole, look)
}

/// The last whole interval, when something arrived in it, or everything; and how to call that.
fn lately(point: &PointStatus) -> (&OrderFigures, String) {
    match &point.last_interval {
        Some(last) if last.reordering.arrivals > 0 => {
            (last, format!("in the last {:.0} s", last.seconds))
        }
        Some(_) | None => (&point.since_start, "since the start".into()),
    }
}

fn one_in(share: f64) -> String {
    match share {
        share if share <= 0.0 => "none".into(),
        share if share > 0.5 => "most".into(),
        share => format!("1 in {:.0}", 1.0 / share),
    }
}

fn enough(reorder: &ReorderStatus, arriving: &OrderFigures, look: Look) -> String {
    let enough = &arriving.enough;
    if arriving.reordering.reordered == 0 {
        return look.sentence(
            Tone::Plain,
            "",
            "All arrived in order: no window was needed.",
        );
    }
    let at_least = if arriving.reordering.beyond_history > 0 {
        "at least "
    } else {
        ""
    };
    let sentence = format!(
        "A window of {at_least}{} and a hold of {at_least}{} would have been enough since the start; for \
         99 % of the reordered packets {} and {}.",
        enough.window,
        time_us(enough.delay_us),
        enough.window_p99,
        time_us(enough.delay_p99_us),
    );
    let is_enough = enough.window_p99 <= reorder.window.into()
        && enough.delay_p99_us <= reorder.max_buffer_delay_us;
    let tone = if is_enough { Tone::Plain } else { Tone::Bad };
    look.sentence(tone, "", &sentence)
}

/// The figures of both points, the paths, and a picture of what arrives.
pub(super) fn tables(order: &OrderStatus, look: Look) -> String {
    if order.arriving.since_start.reordering.arrivals == 0 {
        return String::new();
    }
    let mut text = format!("\n{}", points(order).show(look));
    if !order.paths.is_empty() {
        text += &format!("\n{}", paths(order).show(look));
    }
    let (figures, when) = lately(&order.arriving);
    text + &density::picture(&figures.density, &when, look)
}

fn points(order: &OrderStatus) -> Table<5> {
    let mut table = Table::new([
        ("ORDER", Side::Left),
        ("ARRIVING", Side::Right),
        ("LATELY", Side::Right),
        ("LEAVING", Side::Right),
        ("LATELY", Side::Right),
    ]);
    let columns = [
        Some(&order.arriving.since_start),
        order.arriving.last_interval.as_ref(),
        Some(&order.leaving.since_start),
        order.leaving.last_interval.as_ref(),
    ];
    let mut row = |name: &'static str, cell: &dyn Fn(&OrderFigures) -> Option<String>| {
        let [a, b, c, d] = columns.map(|figures| text_or_unknown(figures.and_then(cell)));
        table.row([name.into(), a, b, c, d]);
    };
    row("packets", &|f| Some(f.reordering.received.to_string()));
    row("reordered", &|f| {
        some(f).map(|f| percent(f.reordering.ratio))
    });
    row("3-reordered", &|f| {
        some(f).map(|f| percent(f.three_reordering))
    });
    row("extent, mean", &|f| {
        reordered(f).map(|f| decimal(f.reordering.extent.mean))
    });
    row("extent, most", &|f| {
        reordered(f).map(|f| f.reordering.extent.max.to_string())
    });
    row("displacement, mean", &|f| {
        placed(f).map(|f| decimal(f.density.mean_displacement))
    });
    row("entropy in nats", &|f| {
        placed(f).map(|f| format!("{:.2}", f.density.entropy_nats))
    });
    row("buffer, 99 %", &|f| {
        buffered(f).map(|f| f.occupancy.p99.to_string())
    });
    table
}

fn some(figures: &OrderFigures) -> Option<&OrderFigures> {
    (figures.reordering.received > 0).then_some(figures)
}

fn reordered(figures: &OrderFigures) -> Option<&OrderFigures> {
    (figures.reordering.extent.count > 0).then_some(figures)
}

fn placed(figures: &OrderFigures) -> Option<&OrderFigures> {
    (figures.density.counted > 0).then_some(figures)
}

fn buffered(figures: &OrderFigures) -> Option<&OrderFigures> {
    (figures.occupancy.counted > 0).then_some(figures)
}

fn text_or_unknown(text: Option<String>) -> Cell {
    text.unwrap_or_else(|| UNKNOWN.into()).into()
}

fn decimal(value: f64) -> String {
    format!("{value:.1}")
}

fn paths(order: &OrderStatus) -> Table<7> {
    let mut table = Table::new([
        ("PATH", Side::Left),
        ("REORDERED", Side::Right),
        ("LATELY", Side::Right),
        ("3-REORDERED", Side::Right),
        ("LATE, 99 %", Side::Right),
        ("PDV, 99 %", Side::Right),
        ("JITTER", Side::Right),
    ]);
    for (name, path) in &order.paths {
        table.row(path_row(name, path));
    }
    table
}

fn path_row(name: &str, path: &PathOrderStatus) -> [Cell; 7] {
    let whole = &path.since_start;
    let last = path.last_interval.as_ref();
    let carried = whole.reordering.received > 0;
    let delay = last.map_or(&whole.delay, |last| &last.delay);
    let measured = delay.pdv_ns.count > 0;
    let lately = last.filter(|last| last.reordering.received > 0);
    let late = whole.reordering.late_ns;
    [
        name.into(),
        text_or_unknown(carried.then(|| percent(whole.reordering.ratio))),
        text_or_unknown(lately.map(|last| percent(last.reordering.ratio))),
        text_or_unknown(carried.then(|| percent(whole.three_reordering))),
        text_or_unknown((late.count > 0).then(|| time_us(late.p99 / 1000))),
        text_or_unknown(measured.then(|| time_us(delay.pdv_ns.p99 / 1000))),
        text_or_unknown(measured.then(|| time_us((delay.jitter_ns / 1000.0) as u64))),
    ]
}

#[cfg(test)]
mod tests {
    use mpt_core::control::order::{Enough, PathOrderFigures};
    use mpt_core::metrics::delay_variation::DelayVariation;
    use mpt_core::metrics::{MeterConfig, OrderMeter};

    use super::*;
    use crate::render::tests::PLAIN;
    use mpt_measure::table::WIDTH;

    fn figures(seconds: f64, numbers: impl IntoIterator<Item = u32>) -> OrderFigures {
        let mut meter = OrderMeter::new(MeterConfig::default());
        for (at, number) in (0u64..).zip(numbers) {
            meter.arrive(number, 1400, at * 100_000);
        }
        meter.finish();
        let report = meter.total();
        OrderFigures {
            seconds,
            three_reordering: report.reordering.n_reordering(3),
            enough: Enough {
                window: report.reordering.behind.max,
                window_p99: report.reordering.behind.p99,
                delay_us: report.reordering.late_ns.max / 1000,
                delay_p99_us: report.reordering.late_ns.p99 / 1000,
            },
            reordering: report.reordering,
            density: report.density,
            occupancy: report.occupancy,
        }
    }

    /// Two packets go the fast way, the third comes 20 packets late.
    fn two_paths(packets: u32) -> Vec<u32> {
        let mut numbers: Vec<u32> = (0..packets).collect();
        numbers.sort_by_key(|&n| if n % 3 == 2 { n + 20 } else { n });
        numbers
    }

    fn point(since_start: OrderFigures, last_interval: Option<OrderFigures>) -> PointStatus {
        PointStatus {
            since_start,
            last_interval,
        }
    }

    fn path(numbers: impl IntoIterator<Item = u32>) -> PathOrderStatus {
        let order = figures(0.0, numbers);
        let mut delay = DelayVariation::new();
        (0..100u64).for_each(|n| {
            delay.arrive(n as i64, 0, n % 7 * 300_000);
        });
        let figures = PathOrderFigures {
            reordering: order.reordering,
            three_reordering: order.three_reordering,
            delay: delay.total(),
        };
        PathOrderStatus {
            last_interval: Some(figures.clone()),
            since_start: figures,
        }
    }

    fn window() -> ReorderStatus {
        ReorderStatus {
            window: 1024,
            max_buffer_delay_us: 300_000,
            ..ReorderStatus::default()
        }
    }

    fn shown(order: &OrderStatus) -> String {
        verdict(&window(), order, PLAIN) + &tables(order, PLAIN)
    }

    #[test]
    fn order_reads() {
        let order = OrderStatus {
            arriving: point(
                figures(3600.0, two_paths(9_000)),
                Some(figures(10.0, two_paths(3_000))),
            ),
            leaving: point(figures(3600.0, 0..8_980), Some(figures(10.0, 0..2_990))),
            paths: [
                ("fibre".to_owned(), path((0..900).filter(|n| n % 3 != 2))),
                (
                    "lte".to_owned(),
                    path((0..900).map(|n| n ^ u32::from(n % 100 < 2))),
                ),
            ]
            .into(),
            ..OrderStatus::default()
        };
        insta::assert_snapshot!(shown(&order), @r"
        Of the packets in the last 10 s a TCP that takes three duplicate ACKs for a loss
        would have sent 1 in 3000 again as they arrived, and none as they left.
        A window of 20 and a hold of 1.9 ms would have been enough since the start; for
        99 % of the reordered packets 20 and 1.9 ms.

        ORDER               ARRIVING  LATELY  LEAVING  LATELY
        packets                 9000    3000     8980    2990
        reordered             33.3 %  33.3 %      0 %     0 %
        3-reordered           0.01 %  0.03 %      0 %     0 %
        extent, mean            19.0    18.9        –       –
        extent, most              19      19        –       –
        displacement, mean       8.7     8.6      0.0     0.0
        entropy in nats         1.12    1.15     0.00    0.00
        buffer, 99 %              13      13        0       0

        PATH   REORDERED  LATELY  3-REORDERED  LATE, 99 %  PDV, 99 %  JITTER
        fibre        0 %     0 %          0 %           –     1.8 ms  540 µs
        lte        1.0 %   1.0 %          0 %      100 µs     1.8 ms  540 µs

        Reorder Density where packets arrive, in the last 10 s; below 0 is early, above
        0 late.
        DISPLACED BY   SHARE
            -8 to -5  66.3 %  ████████████████████████████████████████
            -4 to -3  0.13 %  ▏
                  -2  0.07 %  ▏
                  -1  0.07 %  ▏
                   0  0.10 %  ▏
                   1     0 %
                   2  0.03 %  ▏
              3 to 4  0.03 %  ▏
              5 to 8  0.07 %  ▏
             9 to 16  33.2 %  ████████████████████
        ");
    }

    #[test]
    fn before_anything_arrived_it_says_so() {
        insta::assert_snapshot!(shown(&OrderStatus::default()), @"No packet with a sequence number has arrived yet: there is no order to speak of.");
    }

    #[test]
    fn in_the_first_seconds_there_is_no_interval_and_order_needs_no_picture() {
        let order = OrderStatus {
            arriving: point(figures(3.0, 0..500), None),
            leaving: point(figures(3.0, 0..500), None),
            paths: [("fibre".to_owned(), PathOrderStatus::default())].into(),
            ..OrderStatus::default()
        };
        insta::assert_snapshot!(shown(&order), @r"
        Of the packets since the start a TCP that takes three duplicate ACKs for a loss
        would have sent none again as they arrived, and none as they left.
        All arrived in order: no window was needed.

        ORDER               ARRIVING  LATELY  LEAVING  LATELY
        packets                  500       –      500       –
        reordered                0 %       –      0 %       –
        3-reordered              0 %       –      0 %       –
        extent, mean               –       –        –       –
        extent, most               –       –        –       –
        displacement, mean       0.0       –      0.0       –
        entropy in nats         0.00       –     0.00       –
        buffer, 99 %               0       –        0       –

        PATH   REORDERED  LATELY  3-REORDERED  LATE, 99 %  PDV, 99 %  JITTER
        fibre          –       –            –           –          –       –
        ");
    }

    #[test]
    fn a_window_that_is_too_small_stands_out() {
        let order = OrderStatus {
            arriving: point(figures(3600.0, two_paths(900)), None),
            ..OrderStatus::default()
        };
        let colour = Look {
            colour: true,
            wrap: false,
        };
        let small = ReorderStatus {
            window: 8,
            ..window()
        };
        assert!(verdict(&small, &order, colour).contains("\x1b[31mA window of"));
        assert!(!verdict(&window(), &order, colour).contains("\x1b[31m"));
    }

    #[test]
    fn the_widest_figures_fit() {
        let mut worst = figures(1e9, two_paths(3_000));
        worst.reordering.received = 9_999_999_999_999;
        worst.reordering.extent.max = u32::MAX.into();
        worst.density.discarded_late = u64::MAX;
        worst.density.frequency = vec![(-512, 1), (512, u64::MAX / 4)];
        worst.enough.delay_us = u64::MAX;
        let order = OrderStatus {
            arriving: point(worst.clone(), Some(worst.clone())),
            leaving: point(worst.clone(), Some(worst)),
            paths: [("n".repeat(56), path(two_paths(900)))].into(),
            ..OrderStatus::default()
        };
        for line in shown(&order).lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
    }
}

//! `mpt-ctl reorder`: the reorder window, what became of gaps, and how packets are ordered. Where blocks
//! are sorted nothing is held, and of gaps there is only to say how many there were.

use mpt_core::control::{HoldTimes, LatePolicy, ReorderMode, ReorderStatus};

use super::{UNKNOWN, order};
use mpt_core::control::units::{percent, time_us};
use mpt_measure::table::{Look, Side, Table, Tone};

/// The reorder window and what became of gaps.
pub(super) fn show(reorder: &ReorderStatus, look: Look) -> String {
    let mut text = look.sentence(Tone::Heading, "", &window(reorder));
    if reorder.window_auto {
        text += &look.sentence(Tone::Plain, "", &measured(reorder));
    } else if let Some(needed) = reorder.window_needed {
        let sentence = format!("The delays and rates seen now need a window of {needed}.");
        let enough = needed <= reorder.window.into();
        let tone = if enough { Tone::Plain } else { Tone::Bad };
        text += &look.sentence(tone, "", &sentence);
    }
    if let Some(order) = &reorder.order {
        text += &order::verdict(reorder, order, look);
    }
    text += &format!("\n{}", arrivals(reorder).show(look));
    text += &match reorder.mode {
        ReorderMode::Window => held(reorder, look),
        ReorderMode::Block => {
            let missing = format!(
                "{} numbers were missing when a later one came; nothing waited for them.",
                reorder.gaps_seen
            );
            format!("\n{}", look.sentence(Tone::Plain, "", &missing))
        }
    };
    if let Some(order) = &reorder.order {
        text += &order::tables(order, look);
    }
    text
}

/// What the window held, and for how long.
fn held(reorder: &ReorderStatus, look: Look) -> String {
    let mut text = format!("\n{}\n", gaps(reorder).show(look));
    if reorder.gaps_recovered > 0 {
        text += &look.sentence(Tone::Plain, "", &recovery(&reorder.recovery_us));
    }
    let held = format!(
        "Held now: {}, at most {} at once.",
        reorder.held, reorder.held_max
    );
    text += &look.sentence(Tone::Plain, "", &held);
    let [p50, p99, max] = [
        reorder.hold_us.p50,
        reorder.hold_us.p99,
        reorder.hold_us.max,
    ]
    .map(time_us);
    let times = format!("Hold time: median {p50}, 99 % within {p99}, longest {max}.");
    text += &look.sentence(Tone::Plain, "", &times);
    if reorder.passed > 0 {
        let passed = format!(
            "Waited for no others: {} packets, each next in its TCP connection.",
            reorder.passed
        );
        text += &look.sentence(Tone::Plain, "", &passed);
    }
    text
}

/// How long recovery took.
fn recovery(times: &HoldTimes) -> String {
    let [p50, p99, max] = [times.p50, times.p99, times.max].map(time_us);
    format!("Recovery took: median {p50}, 99 % within {p99}, longest {max}.")
}

/// How packets arrived; duplicates are compared with what was delivered.
fn arrivals(reorder: &ReorderStatus) -> Table<3> {
    let delivered = [
        ("in order", reorder.in_order),
        ("reordered", reorder.reordered),
        ("late", reorder.late),
    ];
    // What holds nothing does not tell late from reordered.
    let at_once = [
        ("in order", reorder.in_order),
        ("reordered", reorder.reordered.saturating_add(reorder.late)),
    ];
    let (mut table, whole) = match reorder.mode {
        ReorderMode::Window => counts("PACKETS", &delivered),
        ReorderMode::Block => counts("PACKETS", &at_once),
    };
    let duplicates = reorder.duplicates;
    table.row([
        "duplicates".into(),
        duplicates.into(),
        share(duplicates, whole).into(),
    ]);
    table
}

/// How gaps ended, and those that have not.
fn gaps(reorder: &ReorderStatus) -> Table<3> {
    let ended = [
        ("filled", reorder.gaps_filled),
        ("recovered", reorder.gaps_recovered),
        ("inferred lost", reorder.gaps_inferred_lost),
        ("timed out", reorder.gaps_timed_out),
        ("overflowed", reorder.gaps_overflowed),
    ];
    let (mut table, _) = counts("GAPS", &ended);
    if reorder.gaps_open > 0 {
        table.row(["open".into(), reorder.gaps_open.into(), "".into()]);
    }
    table
}

/// A table of counts and their shares of the sum, and that sum.
fn counts(heading: &'static str, counts: &[(&'static str, u64)]) -> (Table<3>, u64) {
    let whole = counts
        .iter()
        .fold(0, |sum: u64, (_, count)| sum.saturating_add(*count));
    let mut table = Table::new([
        (heading, Side::Left),
        ("COUNT", Side::Right),
        ("SHARE", Side::Right),
    ]);
    for (kind, count) in counts {
        table.row([kind.into(), count.into(), share(*count, whole).into()]);
    }
    (table, whole)
}

fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        UNKNOWN.into()
    } else {
        percent(part as f64 / whole as f64)
    }
}

/// The settings of the window in a sentence.
pub(super) fn window(reorder: &ReorderStatus) -> String {
    if reorder.mode == ReorderMode::Block {
        let block = reorder.block_size.unwrap_or_default();
        return format!("Block sort (mode = \"block\"), {block} packets a block: nothing is held.");
    }
    if reorder.window == 0 {
        return "Reordering is off (window = 0).".into();
    }
    let late = match reorder.late_policy {
        LatePolicy::Deliver => "delivered",
        LatePolicy::Drop => "dropped",
    };
    let longest = time_us(reorder.max_buffer_delay_us);
    let auto = |auto| if auto { " (auto)" } else { "" };
    format!(
        "Window {} packets{}, hold at most {longest}{}, late packets are {late}.",
        reorder.window,
        auto(reorder.window_auto),
        auto(reorder.max_buffer_delay_auto)
    )
}

/// What an automatic window follows.
fn measured(reorder: &ReorderStatus) -> String {
    let seconds = reorder.delay_difference_us as f64 / 1e6;
    let needed = (seconds * reorder.packets_per_s as f64).ceil();
    format!(
        "Delays differ by up to {} and {} packets a second come, so that {needed} overtake; memory allows {}.",
        time_us(reorder.delay_difference_us),
        reorder.packets_per_s,
        reorder.window_limit
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::tests::{PLAIN, example};

    #[test]
    fn reorder_reads() {
        insta::assert_snapshot!(show(&example().reorder, PLAIN), @r"
        Window 1024 packets, hold at most 300 ms, late packets are delivered.
        The delays and rates seen now need a window of 742.

        PACKETS      COUNT    SHARE
        in order    900000   98.5 %
        reordered    13578    1.5 %
        late             4  <0.01 %
        duplicates       1  <0.01 %

        GAPS           COUNT   SHARE
        filled          4700  99.6 %
        recovered         11  0.23 %
        inferred lost      8  0.17 %
        timed out          1  0.02 %
        overflowed         0     0 %
        open               2

        Recovery took: median 31.0 ms, 99 % within 38.0 ms, longest 52.0 ms.
        Held now: 12, at most 512 at once.
        Hold time: median 1.2 ms, 99 % within 12.0 ms, longest 24.5 ms.
        Waited for no others: 2345 packets, each next in its TCP connection.
        ");
        let auto = ReorderStatus {
            window: 2048,
            max_buffer_delay_us: 312_000,
            window_auto: true,
            max_buffer_delay_auto: true,
            window_limit: 32_768,
            delay_difference_us: 62_000,
            packets_per_s: 11_200,
            ..ReorderStatus::default()
        };
        let shown = show(&auto, PLAIN);
        let (head, _) = shown.split_once("\n\n").unwrap();
        insta::assert_snapshot!(head, @r"
        Window 2048 packets (auto), hold at most 312 ms (auto), late packets are
        delivered.
        Delays differ by up to 62.0 ms and 11200 packets a second come, so that 695
        overtake; memory allows 32768.
        ");
        let block = ReorderStatus {
            mode: ReorderMode::Block,
            block_size: Some(32),
            in_order: 970,
            late: 30,
            duplicates: 1,
            gaps_seen: 35,
            gaps_overflowed: 35,
            window_needed: Some(12),
            ..ReorderStatus::default()
        };
        insta::assert_snapshot!(show(&block, PLAIN), @r#"
        Block sort (mode = "block"), 32 packets a block: nothing is held.
        The delays and rates seen now need a window of 12.

        PACKETS     COUNT   SHARE
        in order      970  97.0 %
        reordered      30   3.0 %
        duplicates      1  0.10 %

        35 numbers were missing when a later one came; nothing waited for them.
        "#);
        let off = ReorderStatus {
            max_buffer_delay_us: 300_000,
            ..ReorderStatus::default()
        };
        insta::assert_snapshot!(show(&off, PLAIN), @r"
        Reordering is off (window = 0).

        PACKETS     COUNT  SHARE
        in order        0      –
        reordered       0      –
        late            0      –
        duplicates      0      –

        GAPS           COUNT  SHARE
        filled             0      –
        recovered          0      –
        inferred lost      0      –
        timed out          0      –
        overflowed         0      –

        Held now: 0, at most 0 at once.
        Hold time: median 0 µs, 99 % within 0 µs, longest 0 µs.
        ");
    }
}

//! Order metrics for people: a line for each question, and Reorder Density as a histogram.

use mpt_core::metrics::OrderReport;

use crate::table::{Look, Tone};
use mpt_core::control::units;

/// Width of the column of names.
const NAMES: usize = 18;
/// Rows of the histogram, an odd number: as many early as late, and in place.
const ROWS: i64 = 15;
/// Columns of its longest bar.
const BAR: f64 = 40.0;
/// The degree of n-reordering at which a TCP without RACK takes a packet for lost.
const DUPTHRESH: usize = 3;

/// All metrics of one stream, a line each and a histogram.
pub(crate) fn text(order: &OrderReport, look: Look) -> String {
    let (reordering, density) = (&order.reordering, &order.density);
    let us = |ns: u64| units::time_us(ns / 1000);
    let mut text = row(
        "reordered",
        &format!(
            "{} packets, {} (RFC 4737)",
            reordering.reordered,
            units::percent(reordering.ratio)
        ),
    );
    if reordering.reordered > 0 {
        text += &row(
            "extent",
            &format!(
                "mean {:.1}, 99 % {}, max {} packets; late by up to {}",
                reordering.extent.mean,
                reordering.extent.p99,
                reordering.extent.max,
                us(reordering.late_ns.max)
            ),
        );
        let doubtful = reordering.n_reordering(DUPTHRESH);
        text += &row(
            "n-reordering",
            &format!(
                "{} at n = {DUPTHRESH}: so many a TCP with that threshold takes for lost",
                units::percent(doubtful)
            ),
        );
        text += &row(
            "to restore order",
            &format!(
                "a window of {} packets and a hold of {}",
                reordering.behind.max,
                us(reordering.late_ns.max)
            ),
        );
    }
    let beyond = density.discarded_early + density.discarded_late + density.too_late;
    let beyond = if beyond > 0 {
        format!("; {beyond} packets beyond it")
    } else {
        String::new()
    };
    text += &row(
        "displacement",
        &format!(
            "mean {:.4} packets, entropy {:.4} nats (DT = {}{beyond})",
            density.mean_displacement, density.entropy_nats, density.threshold
        ),
    );
    let occupancy = &order.occupancy;
    text += &row(
        "buffer occupancy",
        &format!(
            "mean {:.2}, 99 % {}, max {} packets (BT = {})",
            occupancy.mean, occupancy.p99, occupancy.max, occupancy.threshold
        ),
    );
    if reordering.reordered > 0 {
        text += &histogram(&density.density().collect::<Vec<_>>(), look);
    }
    text
}

/// One line: what, and how much.
pub(crate) fn row(name: &str, value: &str) -> String {
    format!("  {name:NAMES$} {value}\n")
}

/// Reorder Density in [`ROWS`] rows, so wide that what lies between the outermost displacements
/// fits.
fn histogram(density: &[(i32, f64)], look: Look) -> String {
    let reach = density
        .iter()
        .map(|&(displacement, _)| i64::from(displacement).abs())
        .max()
        .unwrap_or(0);
    let half = ROWS / 2;
    // The middle row is displacement 0 alone.
    let width = (reach + half - 1).max(half) / half;
    let bin =
        |displacement: i64| displacement.signum() * ((displacement.abs() + width - 1) / width);
    let mut shares = vec![0.0; ROWS as usize];
    for &(displacement, share) in density {
        let at = bin(i64::from(displacement)) + half;
        if let Some(sum) = usize::try_from(at).ok().and_then(|at| shares.get_mut(at)) {
            *sum += share;
        }
    }
    let greatest = shares.iter().copied().fold(0.0, f64::max);
    let mut text = row(
        "Reorder Density",
        "displacement: below 0 early, above 0 late",
    );
    for (at, share) in (-half..=half).zip(&shares) {
        let (from, to) = ((at.abs() - 1) * width + 1, at.abs() * width);
        let label = match (at, width) {
            (0, _) => "0".to_owned(),
            (at, 1) => format!("{at:+}"),
            (at, _) if at < 0 => format!("-{to} … -{from}"),
            _ => format!("+{from} … +{to}"),
        };
        let columns = if greatest > 0.0 {
            share / greatest * BAR
        } else {
            0.0
        };
        let bar = "▇".repeat(columns.round() as usize);
        let tone = if at == 0 { Tone::Good } else { Tone::Plain };
        let line = format!(
            "  {label:>NAMES$} {:>8} {}",
            units::percent(*share),
            look.paint(tone, &bar)
        );
        text += line.trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpt_core::metrics::{MeterConfig, OrderMeter};

    fn shown(numbers: &[u32]) -> String {
        let mut meter = OrderMeter::new(MeterConfig {
            first: Some(1),
            ..MeterConfig::default()
        });
        for (at, &number) in (0..).zip(numbers) {
            meter.arrive(number, 100, at * 1_000_000);
        }
        meter.finish();
        text(&meter.total(), Look::default())
    }

    #[test]
    fn the_example_of_the_metrics_essay_reads_like_this() {
        insta::assert_snapshot!(shown(&[1, 6, 7, 2, 3, 4, 5, 8]), @r#"
          reordered          4 packets, 50.0 % (RFC 4737)
          extent             mean 3.5, 99 % 5, max 5 packets; late by up to 5.0 ms
          n-reordering       0 % at n = 3: so many a TCP with that threshold takes for lost
          to restore order   a window of 6 packets and a hold of 5.0 ms
          displacement       mean 2.0000 packets, entropy 1.0397 nats (DT = 200)
          buffer occupancy   mean 1.12, 99 % 2, max 2 packets (BT = 200)
          Reorder Density    displacement: below 0 early, above 0 late
                          -7      0 %
                          -6      0 %
                          -5      0 %
                          -4   25.0 % ▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇
                          -3      0 %
                          -2      0 %
                          -1      0 %
                           0   25.0 % ▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇
                          +1      0 %
                          +2   50.0 % ▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇
                          +3      0 %
                          +4      0 %
                          +5      0 %
                          +6      0 %
                          +7      0 %
        "#);
    }

    #[test]
    fn an_ordered_stream_and_an_empty_one_are_short() {
        insta::assert_snapshot!(shown(&[1, 2, 3]) + &shown(&[]), @r#"
          reordered          0 packets, 0 % (RFC 4737)
          displacement       mean 0.0000 packets, entropy 0.0000 nats (DT = 200)
          buffer occupancy   mean 0.00, 99 % 0, max 0 packets (BT = 200)
          reordered          0 packets, 0 % (RFC 4737)
          displacement       mean 0.0000 packets, entropy 0.0000 nats (DT = 200)
          buffer occupancy   mean 0.00, 99 % 0, max 0 packets (BT = 200)
        "#);
    }

    #[test]
    fn every_displacement_lies_in_a_row() {
        for reach in 1..=400 {
            let density = [(-reach, 0.25), (0, 0.25), (1, 0.25), (reach, 0.25)];
            let text = histogram(&density, Look::default());
            let shares = text.matches("25.0 %").count() + 2 * text.matches("50.0 %").count();
            assert_eq!(shares, 4, "{text}");
        }
    }
}

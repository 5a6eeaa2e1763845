//! Reorder Density as a picture in the terminal.
//!
//! One bar for each displacement near 0, and further away for twice as many each time: what matters
//! there is how far, not how far exactly.

use mpt_core::metrics::density::DensityReport;

use mpt_core::control::units::percent;
use mpt_measure::table::{Look, Side, Table, Tone};

/// Displacements are shown up to here; no threshold is larger.
const FARTHEST: i32 = 1 << 16;
/// Longest bar of the histogram, in columns.
const BAR: usize = 40;

/// Reorder Density as bars, in steps that double.
/// Empty when all packets were displaced alike.
pub(super) fn picture(density: &DensityReport, when: &str, look: Look) -> String {
    let bins = bins(density);
    if bins.len() < 2 {
        return String::new();
    }
    let largest = bins.iter().map(|bin| bin.count).max().unwrap_or(1).max(1);
    let mut table = Table::new([
        ("DISPLACED BY", Side::Right),
        ("SHARE", Side::Right),
        ("", Side::Left),
    ]);
    for bin in &bins {
        let share = percent(bin.count as f64 / density.counted as f64);
        table.row([
            bin.name().into(),
            share.into(),
            bar(bin.count, largest).into(),
        ]);
    }
    let mut title =
        format!("Reorder Density where packets arrive, {when}; below 0 is early, above 0 late.");
    let discarded = density.discarded_early + density.discarded_late;
    if discarded > 0 {
        title += &format!(
            " {discarded} packets displaced by more than {} are not in it.",
            density.threshold
        );
    }
    format!(
        "\n{}{}",
        look.sentence(Tone::Plain, "", &title),
        table.show(look)
    )
}

/// Neighbouring displacements, counted together.
#[derive(Debug, Clone, Copy)]
struct Bin {
    from: i32,
    to: i32,
    count: u64,
}

impl Bin {
    fn name(&self) -> String {
        if self.from == self.to {
            return self.from.to_string();
        }
        format!("{} to {}", self.from, self.to)
    }
}

/// …, -4 to -3, -2, -1, 0, 1, 2, 3 to 4, 5 to 8, …: all between the least and the greatest that
/// occurred.
fn bins(density: &DensityReport) -> Vec<Bin> {
    let (Some(&(least, _)), Some(&(greatest, _))) =
        (density.frequency.first(), density.frequency.last())
    else {
        return Vec::new();
    };
    let [least, greatest] = [least, greatest].map(|end| end.clamp(-FARTHEST, FARTHEST));
    let mut bins = Vec::new();
    let mut from = match least.signum() {
        -1 => -last_alike(least),
        _ => first_alike(least),
    };
    while from <= greatest {
        let to = match from.signum() {
            -1 => -first_alike(from),
            0 => 0,
            _ => last_alike(from),
        };
        let within = density
            .frequency
            .iter()
            .filter(|&&(displacement, _)| (from..=to).contains(&displacement));
        let count = within.map(|&(_, count)| count).sum();
        bins.push(Bin { from, to, count });
        from = to + 1;
    }
    bins
}

/// Least and greatest distance that are counted together with this one's.
fn first_alike(displacement: i32) -> i32 {
    match displacement.unsigned_abs() {
        0 => 0,
        1 => 1,
        distance => (1 << (distance - 1).ilog2()) + 1,
    }
}

fn last_alike(displacement: i32) -> i32 {
    displacement.unsigned_abs().next_power_of_two() as i32
}

fn bar(count: u64, largest: u64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    if count == 0 {
        return String::new();
    }
    let eighths = (count as f64 / largest as f64 * (BAR * 8) as f64)
        .round()
        .max(1.0) as usize;
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_double_on_either_side_and_hold_everything() {
        for (least, greatest) in [
            (-512, 512),
            (-5, -3),
            (3, 9),
            (0, 0),
            (0, 1),
            (-1, 0),
            (-200, 7),
        ] {
            let density = DensityReport {
                frequency: (least..=greatest)
                    .map(|displacement| (displacement, 1))
                    .collect(),
                counted: (greatest - least + 1) as u64,
                ..DensityReport::default()
            };
            let bins = bins(&density);
            assert!(bins.len() <= 21, "{bins:?}");
            let held: u64 = bins.iter().map(|bin| bin.count).sum();
            assert_eq!(held, density.counted, "{bins:?}");
            let next_to = |pair: &[Bin]| pair[0].to + 1 == pair[1].from;
            assert!(bins.windows(2).all(next_to), "{bins:?}");
        }
    }
}

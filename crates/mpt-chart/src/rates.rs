//! The rate of a path over time, and what decided it: `mpt-ctl trace --svg` and the campaign draw it.

use mpt_core::control::trace::{Decision, Why};

use crate::{Chart, Mark, Series, page};

/// The reasons for which less is sent, or the rate is given up: each has dots of its own.
const MARKED: [Why; 5] = [
    Why::Queue,
    Why::Loss,
    Why::DrainDue,
    Why::Others,
    Why::Silent,
];

/// Two charts below each other, as one SVG document: the rates, with a dot where one was lowered, and the queue.
/// Times are seconds since the first decision.
#[must_use]
pub fn svg(title: &str, decisions: &[Decision]) -> String {
    let began = decisions.first().map_or(0, |first| first.at_us);
    let seconds = |decision: &Decision| decision.at_us.saturating_sub(began) as f64 / 1e6;
    let steps = |name: &str, value: &dyn Fn(&Decision) -> f64| Series {
        name: name.to_owned(),
        mark: Mark::Steps,
        points: decisions
            .iter()
            .map(|decision| (seconds(decision), value(decision)))
            .collect(),
    };
    let mbps = |bps: u64| bps as f64 / 1e6;
    let paced = |decision: &Decision| decision.rate_bps.map_or(f64::NAN, mbps);
    let mut rates = vec![
        steps("delivers", &|decision| mbps(decision.delivered_bps)),
        steps("paced at; a gap where it is open", &paced),
    ];
    for why in MARKED {
        let here = decisions.iter().filter(|decision| decision.why == why);
        let height =
            |decision: &Decision| mbps(decision.rate_bps.unwrap_or(decision.delivered_bps));
        let points: Vec<_> = here
            .map(|decision| (seconds(decision), height(decision)))
            .collect();
        if !points.is_empty() {
            rates.push(Series {
                name: why.name().to_owned(),
                mark: Mark::Dots,
                points,
            });
        }
    }
    let ms = |us: u64| us as f64 / 1e3;
    let queue = vec![
        steps("queue", &|decision| ms(decision.queue_us)),
        steps("aimed at", &|decision| ms(decision.target_us)),
    ];
    let chart = |title, y_label, series| Chart {
        title,
        x_label: "time (s)",
        y_label,
        x_log: false,
        y_log: false,
        series,
    };
    page(&[
        chart(title, "rate (Mbit/s)", rates),
        chart("Queue on the way", "delay (ms)", queue),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpt_core::control::trace::RatePhase;

    #[test]
    fn a_lowered_rate_has_a_dot_that_says_why() {
        let decision = |at_us, why, rate_bps| Decision {
            at_us,
            phase: RatePhase::Cruise,
            why,
            rate_bps,
            capacity_bps: 0,
            delivered_bps: 20_000_000,
            queue_us: 12_000,
            target_us: 5_000,
            loss: 0.0,
        };
        let svg = svg(
            "path <lte>",
            &[
                decision(1_000_000, Why::New, None),
                decision(2_000_000, Why::Queue, Some(18_000_000)),
                decision(3_000_000, Why::Capacity, Some(19_000_000)),
            ],
        );
        assert!(
            svg.contains("path &lt;lte&gt;") && svg.contains(">queue<"),
            "{svg}"
        );
        assert!(!svg.contains(">loss<"), "{svg}");
    }
}

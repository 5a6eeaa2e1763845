//! The last 24 hours of a tunnel's paths: `mpt-ctl history --svg` draws it.

use mpt_core::control::history::{History, Minute, PathHistory};

use crate::{Chart, Mark, Series, page};

/// Microseconds in an hour.
const HOUR_US: f64 = 3_600_000_000.0;
/// Minutes that begin further apart than this have a gap between them.
const NEXT_US: u64 = 90_000_000;

/// Five charts below each other, as one SVG document: rates out and in, round trip, loss, and the share of time in
/// service. Times are hours before `until`, which says when the history was asked for. What is not known is a gap.
#[must_use]
pub fn svg(history: &History, until: &str) -> String {
    let names: Vec<&str> = history.paths.iter().map(|path| &*path.name).collect();
    let of = |what: &str| match names[..] {
        [one] => format!("{what}, path {one} of tunnel {}", history.tunnel),
        _ => format!("{what}, tunnel {}", history.tunnel),
    };
    let x_label = format!("time (hours before {until})");
    let curves = |suffix: &str, value: &dyn Fn(&Minute) -> Option<f64>| -> Vec<Series> {
        let named = |path: &PathHistory| Series {
            name: format!("{}{suffix}", path.name),
            mark: Mark::Steps,
            points: points(path, history.at_us, value),
        };
        history.paths.iter().map(named).collect()
    };
    let is_up = |minute: &Minute| minute.up_ms > 0;
    let mbps = |bps: fn(&Minute) -> u64| {
        move |minute: &Minute| is_up(minute).then(|| bps(minute) as f64 / 1e6)
    };
    let ms = |us: fn(&Minute) -> Option<u64>| {
        move |minute: &Minute| us(minute).map(|us| us as f64 / 1e3)
    };
    let alone = names.len() == 1;
    // Beside the mean, where there is room for it: the extremes of one path.
    let rates = |mean: fn(&Minute) -> u64, most: fn(&Minute) -> u64| {
        let mut series = curves("", &mbps(mean));
        if alone {
            series.extend(curves(", busiest second", &mbps(most)));
        }
        series
    };
    let out = rates(|minute| minute.tx_bps, |minute| minute.tx_max_bps);
    let inward = rates(|minute| minute.rx_bps, |minute| minute.rx_max_bps);
    let mut rtt = curves("", &ms(|minute| minute.rtt_us));
    if alone {
        rtt.extend(curves(", least", &ms(|minute| minute.rtt_min_us)));
        rtt.extend(curves(", highest", &ms(|minute| minute.rtt_max_us)));
    }
    let loss = curves("", &|minute| {
        let loss = minute.loss.filter(|_| is_up(minute));
        loss.map(|loss| loss * 100.0)
    });
    let service = curves("", &|minute| Some(minute.up_share() * 100.0));
    let titles = [
        "Sent",
        "Received",
        "Round trip",
        "Loss of what was sent",
        "In service",
    ]
    .map(of);
    let units = [
        "rate (Mbit/s)",
        "rate (Mbit/s)",
        "time (ms)",
        "packets (%)",
        "time (%)",
    ];
    let all = [out, inward, rtt, loss, service];
    let charts = titles.iter().zip(units).zip(all);
    let charts = charts.map(|((title, y_label), series)| Chart {
        title,
        x_label: &x_label,
        y_label,
        x_log: false,
        y_log: false,
        series,
    });
    page(&charts.collect::<Vec<_>>())
}

/// What holds for a minute begins with it and ends with it.
fn points(
    path: &PathHistory,
    at_us: u64,
    value: &dyn Fn(&Minute) -> Option<f64>,
) -> Vec<(f64, f64)> {
    let hours = |us: u64| (us as f64 - at_us as f64) / HOUR_US;
    let mut points = Vec::new();
    for (number, minute) in path.minutes.iter().enumerate() {
        points.push((hours(minute.at_us), value(minute).unwrap_or(f64::NAN)));
        let next = path.minutes.get(number + 1);
        if next.is_none_or(|next| next.at_us - minute.at_us.min(next.at_us) > NEXT_US) {
            points.push((hours(minute.at_us + 60_000_000), f64::NAN));
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minute(number: u64, tx_bps: u64) -> Minute {
        Minute {
            at_us: number * 60_000_000,
            span_ms: 60_000,
            up_ms: 60_000,
            tx_bps,
            rtt_us: Some(10_000),
            ..Minute::default()
        }
    }

    fn history(minutes: Vec<Minute>) -> History {
        let path = PathHistory {
            name: "lte <1>".into(),
            present: true,
            minutes,
        };
        History {
            tunnel: "mpt0".into(),
            at_us: 7_200_000_000,
            whole: None,
            paths: vec![path],
        }
    }

    #[test]
    fn a_gap_breaks_the_line_and_is_no_zero() {
        let minutes = vec![minute(60, 8_000_000), minute(61, 9_000_000), minute(90, 0)];
        let history = history(minutes);
        let value = |minute: &Minute| Some(minute.tx_bps as f64 / 1e6);
        let points = points(&history.paths[0], history.at_us, &value);
        let shown: Vec<(i64, Option<f64>)> = points
            .iter()
            .map(|&(x, y)| ((x * 60.0).round() as i64, y.is_finite().then_some(y)))
            .collect();
        let expected = [
            (-60, Some(8.0)),
            (-59, Some(9.0)),
            (-58, None),
            (-30, Some(0.0)),
            (-29, None),
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn names_are_escaped_and_all_that_is_measured_is_drawn() {
        let svg = svg(
            &history(vec![minute(60, 8_000_000)]),
            "2026-01-31 12:34 UTC",
        );
        assert!(svg.contains("lte &lt;1&gt;, busiest second"), "{svg}");
        for title in ["Sent", "Received", "Round trip", "Loss of", "In service"] {
            assert!(svg.contains(title), "{title}");
        }
        assert!(svg.contains("hours before 2026-01-31 12:34 UTC"));
        assert!(!svg.contains("NaN"), "{svg}");
    }

    #[test]
    fn nothing_known_is_drawn_as_nothing() {
        let svg = svg(&history(vec![]), "now");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}

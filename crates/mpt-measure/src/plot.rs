//! Reorder Density and Buffer-occupancy Density of all streams, as SVG.

use mpt_chart::{Chart, Mark, Series, page};

use super::report::{Report, StreamReport};

/// Streams that a chart can tell apart.
const SHOWN: usize = 8;

/// Where the greatest share is so many times the least, bars of the least are below a pixel on a linear
/// scale (345 pixels of height).
const LINEAR_UP_TO: f64 = 100.0;

/// Two charts below each other, that of `date` in their titles.
pub(crate) fn svg(report: &Report, date: &str) -> String {
    // Bars of several streams would hide each other.
    let mark = if report.streams.len() > 1 {
        Mark::Line
    } else {
        Mark::Bars
    };
    let rd = |stream: &StreamReport| {
        let density = &stream.order.density;
        Series {
            name: format!(
                "{}: MD {:.3}, entropy {:.3}",
                stream.name, density.mean_displacement, density.entropy_nats
            ),
            mark,
            points: density
                .density()
                .map(|(d, share)| (f64::from(d), share))
                .collect(),
        }
    };
    let rbd = |stream: &StreamReport| {
        let occupancy = &stream.order.occupancy;
        Series {
            name: format!("{}: mean {:.2}", stream.name, occupancy.mean),
            mark,
            points: occupancy
                .density()
                .map(|(b, share)| (f64::from(b), share))
                .collect(),
        }
    };
    let shown = || report.streams.iter().take(SHOWN);
    let about = about(report, date);
    let charts: [Vec<Series>; 2] = [shown().map(rd).collect(), shown().map(rbd).collect()];
    let [rd, rbd] = charts;
    page(&[
        Chart {
            title: &format!("Reorder Density, {about}"),
            x_label: "displacement, packets (below 0 early, above 0 late)",
            y_label: "share of packets",
            x_log: false,
            y_log: spans_much(&rd),
            series: rd,
        },
        Chart {
            title: &format!("Reorder Buffer-occupancy Density, {about}"),
            x_label: "packets in the buffer",
            y_label: "share of arrivals",
            x_log: false,
            y_log: spans_much(&rbd),
            series: rbd,
        },
    ])
}

/// When, and at which rate: displacement is counted in packets, so charts compare at one rate only.
fn about(report: &Report, date: &str) -> String {
    let rates = report.streams.iter().filter_map(|stream| {
        let planned = stream.plan.map(|plan| f64::from(plan.rate_pps));
        stream.sent_pps.or(planned).or(stream.received_pps)
    });
    let (least, most) = rates.fold((f64::INFINITY, 0.0), |(least, most), rate: f64| {
        (rate.min(least), rate.max(most))
    });
    match (least.is_finite(), least.round() == most.round()) {
        (false, _) => date.to_owned(),
        (true, true) => format!("{most:.0} packets a second, {date}"),
        (true, false) => format!("{least:.0} to {most:.0} packets a second, {date}"),
    }
}

/// Whether a linear scale would hide what is there.
fn spans_much(series: &[Series]) -> bool {
    let shares = series.iter().flat_map(|series| &series.points);
    let shares = shares.map(|&(_, share)| share).filter(|share| *share > 0.0);
    let (least, most) = shares.fold((f64::INFINITY, 0.0), |(least, most), share: f64| {
        (share.min(least), share.max(most))
    });
    most > least * LINEAR_UP_TO
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_that_would_be_below_a_pixel_get_a_logarithmic_scale() {
        let of = |points: &[(f64, f64)]| {
            spans_much(&[Series {
                name: String::new(),
                mark: Mark::Bars,
                points: points.to_vec(),
            }])
        };
        assert!(of(&[(0.0, 0.65), (1.0, 0.0), (2.0, 0.001)]));
        assert!(!of(&[(0.0, 0.65), (1.0, 0.0), (2.0, 0.35)]));
        assert!(!of(&[]));
    }
}

//! Reorder Density and Buffer-occupancy Density of all streams, as SVG.

use mpt_chart::{Chart, Mark, Series, page};

use super::report::{Report, StreamReport};

/// Streams that a chart can tell apart.
const SHOWN: usize = 8;

/// Two charts below each other.
pub(crate) fn svg(report: &Report) -> String {
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
    page(&[
        Chart {
            title: "Reorder Density",
            x_label: "displacement, packets (below 0 early, above 0 late)",
            y_label: "share of packets",
            x_log: false,
            series: shown().map(rd).collect(),
        },
        Chart {
            title: "Reorder Buffer-occupancy Density",
            x_label: "packets in the buffer",
            y_label: "share of arrivals",
            x_log: false,
            series: shown().map(rbd).collect(),
        },
    ])
}

//! What was measured, as `mpt-ctl reorder` shows it.

use super::{Order, PathOrder, Point, order_meter, path_meter};
use crate::control::order::{
    Enough, OrderFigures, OrderStatus, PathOrderFigures, PathOrderStatus, PointStatus,
};
use crate::metrics::delay_variation::DelayReport;
use crate::metrics::rfc4737::ReorderingReport;
use crate::metrics::{OrderMeter, OrderReport};
use crate::path::{MAX_PATHS, PathId};
use crate::time::Time;

impl Order {
    /// Both points, and the paths, each by the name that `name_of` has for it.
    pub(crate) fn status(
        &mut self,
        now: Time,
        mut name_of: impl FnMut(PathId) -> Option<String>,
    ) -> OrderStatus {
        let since_start = self
            .began
            .map_or(0.0, |began| now.since(began).as_secs_f64());
        let interval = self.last_interval.map(|interval| interval.as_secs_f64());
        let point = |point: &mut Point<OrderMeter>| {
            let (total, last) = match &mut point.meter {
                Some(meter) => (meter.settled().total(), meter.settled().last()),
                None => (order_meter().total(), order_meter().last()),
            };
            PointStatus {
                since_start: figures(since_start, total),
                last_interval: interval.map(|seconds| figures(seconds, last)),
            }
        };
        OrderStatus {
            arriving: point(&mut self.arriving),
            leaving: point(&mut self.leaving),
            paths: (0..MAX_PATHS)
                .filter_map(PathId::new)
                .filter_map(|id| {
                    let path = self.paths[id.index()].as_mut()?;
                    Some((name_of(id)?, path.status()))
                })
                .collect(),
            ..OrderStatus::default()
        }
    }
}

impl PathOrder {
    /// Order and delay variation of the path.
    pub(super) fn status(&mut self) -> PathOrderStatus {
        let (total, last) = match &mut self.arriving.meter {
            Some(meter) => (meter.settled().total(), meter.settled().last()),
            None => (path_meter().total(), path_meter().last()),
        };
        PathOrderStatus {
            since_start: path_figures(total, self.delays.total()),
            last_interval: self
                .has_interval
                .then(|| path_figures(last, self.delays.last())),
        }
    }
}

fn figures(seconds: f64, report: OrderReport) -> OrderFigures {
    OrderFigures {
        seconds,
        three_reordering: report.reordering.n_reordering(3),
        enough: enough(&report.reordering),
        reordering: without_histogram(report.reordering),
        density: report.density,
        occupancy: report.occupancy,
    }
}

fn path_figures(reordering: ReorderingReport, delay: DelayReport) -> PathOrderFigures {
    PathOrderFigures {
        three_reordering: reordering.n_reordering(3),
        reordering: without_histogram(reordering),
        delay,
    }
}

/// The histogram of extents can be long, and a reply is limited.
fn without_histogram(mut reordering: ReorderingReport) -> ReorderingReport {
    reordering.extents.clear();
    reordering
}

fn enough(reordering: &ReorderingReport) -> Enough {
    let micros = |ns: u64| ns.div_ceil(1000);
    Enough {
        window: reordering.behind.max,
        window_p99: reordering.behind.p99,
        delay_us: micros(reordering.late_ns.max),
        delay_p99_us: micros(reordering.late_ns.p99),
    }
}

//! A report as comma-separated values: a line a value, `stream,metric,x,value`, so that one file holds scalars
//! (without x) and distributions alike. What is of no single stream, as a round trip is, has an empty first column.
//!
//! Every number of the JSON form is in it. Reports are taken apart field by field, so that none is forgotten that
//! is added to them.

use std::fmt::Display;

use mpt_core::metrics::Summary;
use mpt_core::metrics::buffer_occupancy::OccupancyReport;
use mpt_core::metrics::delay_variation::DelayReport;
use mpt_core::metrics::density::DensityReport;
use mpt_core::metrics::rfc4737::{ReorderingReport, RunReport};

use super::{Ignored, PlanReport, Report, RoundTrip, StreamReport};

/// The table, with a line that names its columns.
pub(super) fn table(report: &Report) -> String {
    let mut table = Table {
        text: "stream,metric,x,value\n".into(),
        stream: String::new(),
    };
    for stream in &report.streams {
        table.stream = stream.name.replace(['"', ','], " ");
        table.stream(stream);
    }
    table.stream.clear();
    if let Some(round_trip) = &report.round_trip {
        table.round_trip(round_trip);
    }
    table.ignored(&report.ignored);
    table.text
}

/// Lines so far, and the stream that the next ones are about.
struct Table {
    text: String,
    stream: String,
}

impl Table {
    fn line(&mut self, metric: &str, x: impl Display, value: impl Display) {
        let stream = &self.stream;
        self.text += &format!("{stream},{metric},{x},{value}\n");
    }

    fn scalar(&mut self, metric: &str, value: impl Display) {
        self.line(metric, "", value);
    }

    fn scalars<V: Display>(&mut self, scalars: impl IntoIterator<Item = (&'static str, V)>) {
        for (metric, value) in scalars {
            self.scalar(metric, value);
        }
    }

    /// A distribution's values, `metric` in front of their names.
    fn summary(&mut self, metric: &str, summary: &Summary) {
        let &Summary {
            count,
            mean,
            p50,
            p90,
            p99,
            max,
        } = summary;
        self.scalar(&format!("{metric}_mean"), mean);
        for (name, value) in [
            ("count", count),
            ("p50", p50),
            ("p90", p90),
            ("p99", p99),
            ("max", max),
        ] {
            self.scalar(&format!("{metric}_{name}"), value);
        }
    }

    fn stream(&mut self, stream: &StreamReport) {
        let StreamReport {
            name: _,
            numbering: _,
            from: _,
            to: _,
            stream: _,
            plan,
            sent,
            received,
            lost,
            duplicates,
            seconds,
            sent_pps,
            received_pps,
            payload_bytes,
            restarts,
            strays,
            order,
            delay,
        } = stream;
        if let Some(plan) = plan {
            self.plan(plan);
        }
        self.scalars(sent.map(|sent| ("sent", sent)));
        self.scalar("received", received);
        self.scalars(lost.map(|lost| ("lost", lost)));
        self.scalar("duplicates", duplicates);
        self.scalar("seconds", seconds);
        self.scalars(sent_pps.map(|rate| ("sent_pps", rate)));
        self.scalars(received_pps.map(|rate| ("received_pps", rate)));
        self.scalars([
            ("payload_bytes", payload_bytes),
            ("restarts", restarts),
            ("strays", strays),
        ]);
        self.reordering(&order.reordering);
        self.density(&order.density);
        self.occupancy(&order.occupancy);
        if let Some(delay) = delay {
            self.delay(delay);
        }
    }

    fn plan(&mut self, plan: &PlanReport) {
        let &PlanReport {
            packets,
            frame_bytes,
            rate_pps,
        } = plan;
        self.scalar("plan_packets", packets);
        self.scalar("plan_frame_bytes", frame_bytes);
        self.scalar("plan_rate_pps", rate_pps);
    }

    /// RFC 4737. What is received and the copies stand with the stream.
    fn reordering(&mut self, reordering: &ReorderingReport) {
        let ReorderingReport {
            arrivals,
            received: _,
            duplicates: _,
            reordered,
            ratio,
            beyond_history,
            discontinuities,
            missing,
            reordering_discontinuities,
            extent,
            extents,
            behind,
            late_ns,
            byte_offset,
            gap,
            gap_ns,
            runs,
            n_reordered,
        } = reordering;
        self.scalar("reordered_ratio", ratio);
        self.scalars([
            ("arrivals", arrivals),
            ("reordered", reordered),
            ("beyond_history", beyond_history),
            ("discontinuities", discontinuities),
            ("missing", missing),
            ("reordering_discontinuities", reordering_discontinuities),
        ]);
        for (metric, summary) in [
            ("extent", extent),
            ("behind", behind),
            ("late_ns", late_ns),
            ("byte_offset", byte_offset),
            ("gap", gap),
            ("gap_ns", gap_ns),
        ] {
            self.summary(metric, summary);
        }
        let &RunReport {
            runs,
            in_order,
            packets,
            squared,
            open,
        } = runs;
        self.scalars([
            ("runs", runs),
            ("runs_in_order", in_order),
            ("runs_packets", packets),
            ("runs_squared", squared),
            ("runs_open", open),
        ]);
        for (n, count) in (1..).zip(n_reordered) {
            let n: u32 = n;
            self.line("n_reordered", n, count);
        }
        for (extent, count) in extents {
            self.line("extent", extent, count);
        }
    }

    /// Reorder Density. Its shares tell the frequencies, with their sum.
    fn density(&mut self, density: &DensityReport) {
        let DensityReport {
            threshold,
            frequency: _,
            counted,
            mean_displacement,
            entropy_nats,
            lost,
            duplicates,
            too_late,
            discarded_early,
            discarded_late,
        } = density;
        self.scalar("mean_displacement", mean_displacement);
        self.scalar("entropy_nats", entropy_nats);
        self.scalar("rd_threshold", threshold);
        self.scalars([
            ("rd_counted", counted),
            ("rd_lost", lost),
            ("rd_duplicates", duplicates),
            ("rd_too_late", too_late),
            ("rd_discarded_early", discarded_early),
            ("rd_discarded_late", discarded_late),
        ]);
        for (displacement, share) in density.density() {
            self.line("rd", displacement, share);
        }
    }

    /// Reorder Buffer-occupancy Density, likewise.
    fn occupancy(&mut self, occupancy: &OccupancyReport) {
        let OccupancyReport {
            threshold,
            frequency: _,
            counted,
            mean,
            p99,
            max,
            lost,
            duplicates,
            too_late,
        } = occupancy;
        self.scalar("rbd_mean", mean);
        self.scalars([
            ("rbd_threshold", threshold),
            ("rbd_p99", p99),
            ("rbd_max", max),
        ]);
        self.scalars([
            ("rbd_counted", counted),
            ("rbd_lost", lost),
            ("rbd_duplicates", duplicates),
            ("rbd_too_late", too_late),
        ]);
        for (held, share) in occupancy.density() {
            self.line("rbd", held, share);
        }
    }

    fn delay(&mut self, delay: &DelayReport) {
        let DelayReport {
            pdv_ns,
            least_delay_ns,
            ipdv_size_ns,
            ipdv_mean_ns,
            ipdv_least_ns,
            ipdv_greatest_ns,
            jitter_ns,
        } = delay;
        self.summary("pdv_ns", pdv_ns);
        self.summary("ipdv_size_ns", ipdv_size_ns);
        self.scalars([
            ("least_delay_ns", least_delay_ns),
            ("ipdv_least_ns", ipdv_least_ns),
            ("ipdv_greatest_ns", ipdv_greatest_ns),
        ]);
        self.scalar("ipdv_mean_ns", ipdv_mean_ns);
        self.scalar("jitter_ns", jitter_ns);
    }

    fn round_trip(&mut self, round_trip: &RoundTrip) {
        let &RoundTrip {
            min_ns,
            mean_ns,
            p50_ns,
            p99_ns,
            max_ns,
        } = round_trip;
        self.scalars([
            ("round_trip_ns_min", min_ns),
            ("round_trip_ns_mean", mean_ns),
            ("round_trip_ns_p50", p50_ns),
            ("round_trip_ns_p99", p99_ns),
            ("round_trip_ns_max", max_ns),
        ]);
    }

    fn ignored(&mut self, ignored: &Ignored) {
        let Ignored {
            strangers,
            malformed,
            socket_drops,
            other_streams: _,
            other_packets,
            frames: _,
        } = ignored;
        self.scalars([
            ("ignored_strangers", strangers),
            ("ignored_malformed", malformed),
            ("ignored_socket_drops", socket_drops),
            ("ignored_other_packets", other_packets),
        ]);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use mpt_core::metrics::Form;
    use serde_json::Value;

    use super::super::super::numbering::Numbering;
    use super::super::super::stamp::{Kind, Plan, Stamp};
    use super::super::super::stream::{Measured, Metrics};
    use super::*;

    /// 1, 6, 7, 2, 3, 4, 5, 8 with 0 in front and a copy, each of its own size and time.
    fn report() -> Report {
        let plan = Plan {
            count: 20,
            frame_bytes: 1234,
            rate_pps: 77,
        };
        let metrics = Metrics {
            displacement_threshold: 30,
            occupancy_threshold: 40,
            form: Form::Corrected,
        };
        let stamp = |number: u32| Stamp {
            kind: Kind::Data,
            stream: 1,
            number,
            plan,
            sent_ns: u64::from(number) * 1_000_003,
        };
        let ends = (None, None);
        let mut measured = Measured::of_stamp(Numbering::Udp, &stamp(0), ends, metrics);
        for (at, number) in (0..).zip([0, 1, 6, 7, 2, 3, 4, 5, 8, 8, 12, 11]) {
            let bytes = 100 + at as u32;
            measured.take_stamp(&stamp(number), number, bytes, at * 1_700_021);
        }
        measured.end(17);
        let mut stream = measured.report("from 10.0.0.1");
        (stream.restarts, stream.strays) = (501, 502);
        Report {
            streams: vec![stream],
            round_trip: RoundTrip::of(vec![1001, 2002, 4004]),
            ignored: Ignored {
                strangers: 601,
                malformed: 602,
                socket_drops: 603,
                other_packets: 604,
                ..Ignored::default()
            },
            ..Report::default()
        }
    }

    /// The scalars of a table by stream and metric.
    fn scalars(table: &str) -> BTreeMap<(String, String), f64> {
        let mut scalars = BTreeMap::new();
        for line in table.lines().skip(1) {
            let [stream, metric, x, value] = line.split(',').collect::<Vec<_>>()[..] else {
                panic!("{line}");
            };
            if x.is_empty() {
                let name = (stream.to_owned(), metric.to_owned());
                let before = scalars.insert(name, value.parse().unwrap());
                assert_eq!(before, None, "{metric} twice");
            }
        }
        scalars
    }

    /// Every number that is not in a list, by its path.
    fn numbers(value: &Value, path: &str, found: &mut Vec<(String, f64)>) {
        match value {
            Value::Object(fields) => {
                for (name, field) in fields {
                    numbers(field, &format!("{path}/{name}"), found);
                }
            }
            Value::Number(number) => found.push((path.into(), number.as_f64().unwrap())),
            Value::Null | Value::Bool(_) | Value::String(_) | Value::Array(_) => {}
        }
    }

    #[test]
    fn every_number_of_the_json_form_is_in_the_table() {
        let report = report();
        let table = scalars(&table(&report));
        let mut found = Vec::new();
        let json = serde_json::to_value(&report).unwrap();
        numbers(&json["streams"][0], "", &mut found);
        numbers(&json["round_trip"], "", &mut found);
        numbers(&json["ignored"], "", &mut found);
        assert!(found.len() > 70, "{found:?}");
        for (path, number) in found {
            let values = table.values();
            let is_there = values.into_iter().any(|&value| value == number);
            assert!(is_there, "{path} is {number}, which is nowhere: {table:?}");
        }
    }

    #[test]
    fn what_sizes_a_window_and_the_round_trip_are_found_by_name() {
        let table = scalars(&table(&report()));
        let of = |stream: &str, metric: &str| {
            let name = (stream.to_owned(), metric.to_owned());
            *table.get(&name).unwrap_or_else(|| panic!("{metric}"))
        };
        let stream = |metric| of("from 10.0.0.1", metric);
        for metric in ["extent", "behind", "late_ns", "byte_offset", "pdv_ns"] {
            for value in ["mean", "p50", "p90", "p99", "max"] {
                let name = format!("{metric}_{value}");
                assert!(of("from 10.0.0.1", &name) >= 0.0);
            }
        }
        assert_eq!((stream("behind_max"), stream("rbd_max")), (6.0, 2.0));
        assert_eq!(stream("plan_frame_bytes"), 1234.0);
        assert!(stream("received_pps") > 0.0 && stream("byte_offset_max") > 0.0);
        assert_eq!(of("", "round_trip_ns_p50"), 2002.0);
        assert_eq!(of("", "ignored_socket_drops"), 603.0);
    }
}

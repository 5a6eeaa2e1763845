//! The golden vectors of `tests/vectors/reorder-vectors.json`, every field of each.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::buffer_occupancy::BufferOccupancy;
use super::delay_variation::DelayVariation;
use super::density::{Density, Form, Step};
use super::history::History;
use super::rfc4737::{Order, Reordered, Reordering, RunReport};
use super::unwrap::Unwrapper;
use super::{Measures, MeterConfig, OrderMeter, OrderReport, SequenceBits};

const MS: u64 = 1_000_000;

#[derive(Deserialize)]
struct File {
    vectors: Vec<Vector>,
    freeruns_4_6_4: Vec<FreeRuns>,
    delay_variation: DelayVector,
    wrap: BTreeMap<String, Wrap>,
}

#[derive(Deserialize)]
struct Vector {
    id: String,
    arrivals: Vec<u32>,
    first_seq: u32,
    #[serde(rename = "DT")]
    dt: u16,
    #[serde(rename = "BT")]
    bt: u16,
    #[serde(default)]
    arrival_ms: Vec<u64>,
    #[serde(default)]
    payload_bytes: u32,
    rd: Rd,
    rd_fixed: Option<Rd>,
    rbd: Rbd,
    rfc4737: Rfc4737,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rd {
    trace: Vec<(i64, i64, i64)>,
    #[serde(rename = "FD")]
    fd: BTreeMap<String, u64>,
    #[serde(rename = "N")]
    n: Option<u64>,
    #[serde(rename = "MD")]
    md: f64,
    #[serde(rename = "Er")]
    er: f64,
    lost: Option<Vec<i64>>,
    duplicates: Option<u64>,
    discarded: Vec<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rbd {
    #[serde(rename = "FB")]
    fb: BTreeMap<String, u64>,
    #[serde(rename = "E_before_and_B_after")]
    trace: Vec<(i64, Option<i64>, Option<usize>)>,
    #[serde(rename = "FB_rfc_literal")]
    fb_rfc_literal: Option<BTreeMap<String, u64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rfc4737 {
    received_unique: u64,
    duplicates: u64,
    reordered: Vec<i64>,
    ratio: String,
    extent: BTreeMap<String, u64>,
    n: BTreeMap<String, usize>,
    seq_discontinuities: Vec<(i64, u64)>,
    reordering_discontinuities: Vec<(i64, u64)>,
    gaps: BTreeMap<String, u64>,
    runs_closed: Vec<u64>,
    run_open: u64,
    x: u64,
    a: u64,
    p: u64,
    q: u64,
    n_reordered_count_raw: BTreeMap<String, u64>,
    raw_l: u64,
    byte_offset: Option<BTreeMap<String, u64>>,
    late_ms: Option<BTreeMap<String, u64>>,
}

#[derive(Deserialize)]
struct FreeRuns {
    runs: Vec<u64>,
    p: u64,
    x: u64,
    a: u64,
    q: u64,
    mean: f64,
    q_over_a: f64,
    ratio: f64,
}

#[derive(Deserialize)]
struct DelayVector {
    delay_ms: Vec<u64>,
    ipdv: Vec<Option<i64>>,
    pdv: Vec<u64>,
    rfc1889_jitter: Vec<f64>,
}

#[derive(Deserialize)]
struct Wrap {
    wire: Vec<u32>,
    unwrapped: Vec<i64>,
}

fn file() -> File {
    let text = include_str!("../../../../tests/vectors/reorder-vectors.json");
    serde_json::from_str(text).unwrap()
}

fn keyed<V: Copy>(map: &BTreeMap<String, V>) -> BTreeMap<i64, V> {
    map.iter().map(|(k, &v)| (k.parse().unwrap(), v)).collect()
}

impl Vector {
    fn numbers(&self) -> impl Iterator<Item = i64> + '_ {
        self.arrivals.iter().map(|&n| i64::from(n))
    }

    /// Reorder Density in one form, with every packet's step.
    fn density(&self, form: Form) -> (Density, Vec<Step>) {
        let mut history = History::new(8192);
        let mut density = Density::new(self.dt, form, Some(i64::from(self.first_seq)));
        let mut steps = Vec::new();
        for number in self.numbers() {
            let novelty = history.arrive(number, 0);
            steps.extend(density.arrive(number, novelty));
        }
        while let Some(step) = density.finish() {
            steps.push(step);
        }
        (density, steps)
    }

    fn check_density(&self, expected: &Rd, form: Form) {
        let at = format!("{} {form:?}", self.id);
        let (density, steps) = self.density(form);
        let trace: Vec<_> = steps
            .iter()
            .filter(|s| s.counted)
            .map(|s| (s.number, s.receive_index, s.displacement()))
            .collect();
        assert_eq!(trace, expected.trace, "{at}: trace");
        let discarded: Vec<_> = steps
            .iter()
            .filter(|s| !s.counted)
            .map(|s| s.number)
            .collect();
        assert_eq!(discarded, expected.discarded, "{at}: discarded");

        let report = density.total();
        let frequency: BTreeMap<i64, u64> = report
            .frequency
            .iter()
            .map(|&(d, f)| (i64::from(d), f))
            .collect();
        assert_eq!(frequency, keyed(&expected.fd), "{at}: FD");
        assert!(
            (report.mean_displacement - expected.md).abs() < 1e-9,
            "{at}: MD"
        );
        assert!((report.entropy_nats - expected.er).abs() < 1e-9, "{at}: Er");
        assert_eq!(
            report.discarded_early + report.discarded_late,
            expected.discarded.len() as u64
        );
        if let Some(n) = expected.n {
            assert_eq!(report.counted, n, "{at}: N");
        }
        if let Some(lost) = &expected.lost {
            let given_up: Vec<i64> = steps
                .iter()
                .flat_map(|s| s.receive_index - s.lost as i64..s.receive_index)
                .collect();
            assert_eq!(&given_up, lost, "{at}: lost");
            assert_eq!(report.lost, lost.len() as u64, "{at}: lost");
        }
        if let Some(duplicates) = expected.duplicates {
            assert_eq!(report.duplicates, duplicates, "{at}: duplicates");
        }
    }

    fn occupancy(&self, form: Form) -> BTreeMap<i64, u64> {
        let mut history = History::new(8192);
        let first = Some(i64::from(self.first_seq));
        let mut occupancy = BufferOccupancy::new(self.bt, form, first);
        let mut trace = Vec::new();
        for number in self.numbers() {
            let novelty = history.arrive(number, 0);
            let around = occupancy.arrive(number, novelty);
            let expected_before = around.map(|o| o.expected_before);
            trace.push((number, expected_before, around.map(|o| o.held_after)));
        }
        if form == Form::Corrected {
            assert_eq!(trace, self.rbd.trace, "{}: E and B", self.id);
        }
        let report = occupancy.total();
        assert_eq!(
            report.counted,
            report.frequency.iter().map(|&(_, f)| f).sum::<u64>()
        );
        report
            .frequency
            .iter()
            .map(|&(b, f)| (i64::from(b), f))
            .collect()
    }

    fn check_reordering(&self) {
        let (id, expected) = (&self.id, &self.rfc4737);
        let mut history = History::new(8192);
        let mut meter = Reordering::new(Some(i64::from(self.first_seq)));
        let mut found = Found::default();
        for (at, number) in self.numbers().enumerate() {
            let now_ns = self.arrival_ms.get(at).copied().unwrap_or(at as u64) * MS;
            let novelty = history.arrive(number, self.payload_bytes);
            let arrival = meter.arrive(number, now_ns, novelty, &history);
            match arrival.order {
                Order::InOrder { missing: 0 } | Order::Duplicate => {}
                Order::InOrder { missing } => found.discontinuities.push((number, missing)),
                Order::Reordered(reordered) => found.note(number, arrival.n, reordered),
            }
        }
        found
            .reordering_discontinuities
            .sort_unstable_by_key(|&(_, position)| position);
        assert_eq!(found.reordered, expected.reordered, "{id}: reordered");
        assert_eq!(found.extent, keyed(&expected.extent), "{id}: extent");
        assert_eq!(found.n, keyed(&expected.n), "{id}: n");
        assert_eq!(found.discontinuities, expected.seq_discontinuities, "{id}");
        assert_eq!(
            found.reordering_discontinuities, expected.reordering_discontinuities,
            "{id}"
        );
        assert_eq!(found.gaps, keyed(&expected.gaps), "{id}: gaps");
        assert_eq!(found.runs, expected.runs_closed, "{id}: runs");
        if let Some(byte_offset) = &expected.byte_offset {
            assert_eq!(found.byte_offset, keyed(byte_offset), "{id}: byte offset");
        }
        if let Some(late_ms) = &expected.late_ms {
            assert_eq!(found.late_ms, keyed(late_ms), "{id}: late time");
        }
        self.check_reordering_report(&meter);
    }

    fn check_reordering_report(&self, meter: &Reordering) {
        let (id, expected) = (&self.id, &self.rfc4737);
        let report = meter.total();
        assert_eq!(report.received, expected.received_unique, "{id}");
        assert_eq!(report.duplicates, expected.duplicates, "{id}");
        assert_eq!(report.arrivals, expected.raw_l, "{id}");
        let ratio = format!("{}/{}", report.reordered, report.received);
        assert_eq!(ratio, expected.ratio, "{id}");
        let runs = RunReport {
            runs: expected.x,
            in_order: expected.a,
            packets: expected.p,
            squared: expected.q,
            open: expected.run_open,
        };
        assert_eq!(report.runs, runs, "{id}");
        let n_reordered: BTreeMap<i64, u64> = (1..).zip(report.n_reordered.clone()).collect();
        assert_eq!(n_reordered, keyed(&expected.n_reordered_count_raw), "{id}");
        assert_eq!(
            report.extent.max,
            expected.extent.values().max().copied().unwrap_or(0)
        );
        assert_eq!(report.gap.count, expected.gaps.len() as u64, "{id}");
        assert_eq!(
            report.discontinuities,
            expected.seq_discontinuities.len() as u64
        );
        assert_eq!(
            report.reordering_discontinuities,
            expected.reordering_discontinuities.len() as u64
        );
    }

    fn meter(&self, form: Form) -> OrderMeter {
        OrderMeter::new(MeterConfig {
            first: Some(self.first_seq),
            displacement_threshold: self.dt,
            occupancy_threshold: self.bt,
            form,
            ..MeterConfig::default()
        })
    }
}

/// What the meter said of single packets.
#[derive(Default)]
struct Found {
    reordered: Vec<i64>,
    discontinuities: Vec<(i64, u64)>,
    reordering_discontinuities: Vec<(i64, u64)>,
    runs: Vec<u64>,
    n: BTreeMap<i64, usize>,
    extent: BTreeMap<i64, u64>,
    late_ms: BTreeMap<i64, u64>,
    byte_offset: BTreeMap<i64, u64>,
    gaps: BTreeMap<i64, u64>,
}

impl Found {
    fn note(&mut self, number: i64, n: usize, reordered: Reordered) {
        self.reordered.push(number);
        self.n.insert(number, n);
        self.runs.push(reordered.run);
        self.byte_offset
            .extend(reordered.byte_offset.map(|bytes| (number, bytes)));
        let late = reordered.late.unwrap();
        self.extent.insert(number, late.extent);
        self.late_ms.insert(number, late.late_ns / MS);
        if let Some(discontinuity) = late.confirms {
            self.reordering_discontinuities
                .push((discontinuity.number, discontinuity.position));
            self.gaps.extend(
                discontinuity
                    .gap
                    .map(|(packets, _)| (discontinuity.number, packets)),
            );
        }
    }
}

#[test]
fn reorder_density_literal() {
    for vector in file().vectors {
        vector.check_density(&vector.rd, Form::Literal);
    }
}

#[test]
fn reorder_density_corrected() {
    for mut vector in file().vectors {
        // Where no corrected form is given the two agree.
        let expected = vector.rd_fixed.take().unwrap_or_else(|| Rd {
            trace: vector.rd.trace.clone(),
            fd: vector.rd.fd.clone(),
            discarded: vector.rd.discarded.clone(),
            lost: vector.rd.lost.clone(),
            ..vector.rd
        });
        vector.check_density(&expected, Form::Corrected);
    }
}

#[test]
fn a_late_first_copy_is_a_duplicate_only_in_the_literal_form() {
    let vectors = file().vectors;
    let drift = vectors.iter().find(|v| v.id == "x-drift").unwrap();
    let counts = |form| {
        let report = drift.density(form).0.total();
        (report.duplicates, report.too_late)
    };
    assert_eq!(counts(Form::Literal), (1, 0));
    assert_eq!(counts(Form::Corrected), (0, 1));
}

#[test]
fn buffer_occupancy_in_both_forms() {
    for vector in file().vectors {
        let corrected = vector.occupancy(Form::Corrected);
        assert_eq!(corrected, keyed(&vector.rbd.fb), "{}: FB", vector.id);
        let literal = vector.rbd.fb_rfc_literal.as_ref().unwrap_or(&vector.rbd.fb);
        assert_eq!(
            vector.occupancy(Form::Literal),
            keyed(literal),
            "{}: literal FB",
            vector.id
        );
    }
}

#[test]
fn rfc_4737() {
    for vector in file().vectors {
        vector.check_reordering();
    }
}

#[test]
fn reordering_free_runs() {
    for vector in file().freeruns_4_6_4 {
        // Each run ends with a packet that is late by one run: 11 in order, then an old number.
        let mut history = History::new(64);
        let mut meter = Reordering::new(None);
        let mut next = 1000;
        for (old, run) in (0..).zip(&vector.runs) {
            for _ in 0..*run {
                let novelty = history.arrive(next, 0);
                meter.arrive(next, 0, novelty, &history);
                next += 1;
            }
            let novelty = history.arrive(old, 0);
            meter.arrive(old, 0, novelty, &history);
        }
        let runs = meter.total().runs;
        let expected = RunReport {
            runs: vector.x,
            in_order: vector.a,
            packets: vector.p,
            squared: vector.q,
            open: 0,
        };
        assert_eq!(runs, expected);
        assert_eq!(runs.mean(), vector.mean);
        assert!((runs.squared as f64 / runs.in_order as f64 - vector.q_over_a).abs() < 1e-4);
        assert!((runs.variation() - vector.ratio).abs() < 1e-4);
    }
}

#[test]
fn delay_variation() {
    let vector = file().delay_variation;
    let mut variation = DelayVariation::new();
    let mut delays = Vec::new();
    for (n, delay_ms) in vector.delay_ms.iter().enumerate() {
        let sent_ns = n as u64 * 20 * MS;
        let arrival = variation
            .arrive(n as i64, sent_ns, sent_ns + delay_ms * MS)
            .unwrap();
        assert_eq!(arrival.ipdv_ns, vector.ipdv[n].map(|ms| ms * MS as i64));
        let jitter_ms = variation.jitter_ns() / MS as f64;
        assert!(
            (jitter_ms - vector.rfc1889_jitter[n]).abs() < 1e-8,
            "{jitter_ms}"
        );
        delays.push(arrival.delay_ns);
    }
    let report = variation.total();
    let pdv: Vec<u64> = delays
        .iter()
        .map(|d| (d - report.least_delay_ns) as u64 / MS)
        .collect();
    assert_eq!(pdv, vector.pdv);
    assert_eq!(report.pdv_ns.max, *vector.pdv.iter().max().unwrap() * MS);
    assert_eq!(report.pdv_ns.mean, 9.0 * MS as f64);
}

#[test]
fn wrap_around() {
    for (bits, vector) in file().wrap {
        let bits = match bits.as_str() {
            "bits16" => SequenceBits::Sixteen,
            "bits32" => SequenceBits::ThirtyTwo,
            other => panic!("{other}"),
        };
        let mut unwrapper = Unwrapper::new(bits);
        let unwrapped: Vec<i64> = vector.wire.iter().map(|&w| unwrapper.unwrap(w)).collect();
        assert_eq!(unwrapped, vector.unwrapped);
    }
}

#[test]
fn the_meter_feeds_every_family() {
    for vector in file().vectors {
        let mut meter = vector.meter(Form::Literal);
        for (at, &number) in vector.arrivals.iter().enumerate() {
            meter.arrive(number, vector.payload_bytes, at as u64);
        }
        meter.finish();
        let report = meter.total();
        assert_eq!(
            report.reordering.reordered, vector.rfc4737.x,
            "{}",
            vector.id
        );
        assert!((report.density.mean_displacement - vector.rd.md).abs() < 1e-9);
        let literal = vector.rbd.fb_rfc_literal.as_ref().unwrap_or(&vector.rbd.fb);
        assert_eq!(
            report.occupancy.frequency.len(),
            literal.len(),
            "{}",
            vector.id
        );
    }
}

#[test]
fn intervals_add_up_to_the_total() {
    for vector in file().vectors {
        let mut whole = vector.meter(Form::Corrected);
        let mut cut = vector.meter(Form::Corrected);
        let mut received = 0;
        for (at, &number) in vector.arrivals.iter().enumerate() {
            whole.arrive(number, 100, at as u64);
            cut.arrive(number, 100, at as u64);
            cut.end_interval();
            received += cut.last().reordering.received;
        }
        assert_eq!(received, vector.rfc4737.received_unique);
        assert_eq!(cut.total(), whole.total(), "{}", vector.id);
        cut.end_interval();
        let idle = cut.last();
        assert_eq!((idle.reordering.received, idle.density.counted), (0, 0));
    }
}

#[test]
fn a_report_is_json_without_nan_also_for_nothing() {
    let empty = OrderMeter::new(MeterConfig::default()).total();
    let text = serde_json::to_string(&empty).unwrap();
    assert!(!text.contains("null"), "{text}");
    assert_eq!(serde_json::from_str::<OrderReport>(&text).unwrap(), empty);
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["density"]["mean_displacement"], 0.0);
}

//! One measured stream: its order, its delays, its beginning and end.

use std::net::IpAddr;

use mpt_core::metrics::delay_variation::DelayVariation;
use mpt_core::metrics::{Form, MeterConfig, OrderMeter};

use super::numbering::Numbering;
use super::report::{PlanReport, StreamReport};
use super::span::Span;
use super::stamp::{Plan, Stamp};

/// How order is measured: the thresholds of RFC 5236 and the form of its algorithms.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Metrics {
    pub(crate) displacement_threshold: u16,
    pub(crate) occupancy_threshold: u16,
    pub(crate) form: Form,
}

/// A stream while it is measured.
#[derive(Debug)]
pub(crate) struct Measured {
    numbering: Numbering,
    /// Who sends, and to whom, where that is known.
    ends: (Option<IpAddr>, Option<IpAddr>),
    id: Option<u64>,
    plan: Option<Plan>,
    meter: OrderMeter,
    delays: DelayVariation,
    /// Packets with a time of sending.
    stamped: u64,
    span: Span,
    /// When the last packet came.
    last_ns: Option<u64>,
    payload_bytes: u64,
    /// Number and time of sending of the least and the greatest number received.
    least: Option<(u32, u64)>,
    greatest: Option<(u32, u64)>,
    /// What the end marker said.
    sent: Option<u32>,
    restarts: u64,
    strays: u64,
}

impl Measured {
    /// A stream of our own, of which `stamp` is the first packet seen.
    pub(crate) fn of_stamp(
        numbering: Numbering,
        stamp: &Stamp,
        ends: (Option<IpAddr>, Option<IpAddr>),
        metrics: Metrics,
    ) -> Self {
        Measured {
            id: Some(stamp.stream),
            plan: Some(stamp.plan),
            ..Self::new(numbering, ends, metrics)
        }
    }

    /// A stream that begins.
    pub(crate) fn new(
        numbering: Numbering,
        ends: (Option<IpAddr>, Option<IpAddr>),
        metrics: Metrics,
    ) -> Self {
        let ours = numbering != Numbering::Gre;
        Measured {
            numbering,
            ends,
            id: None,
            plan: None,
            meter: OrderMeter::new(MeterConfig {
                bits: numbering.bits(),
                first: ours.then_some(0),
                displacement_threshold: metrics.displacement_threshold,
                occupancy_threshold: metrics.occupancy_threshold,
                form: metrics.form,
                ..MeterConfig::default()
            }),
            delays: DelayVariation::new(),
            stamped: 0,
            span: Span::default(),
            last_ns: None,
            payload_bytes: 0,
            least: None,
            greatest: None,
            sent: None,
            restarts: 0,
            strays: 0,
        }
    }

    /// The run that it is.
    pub(crate) fn id(&self) -> Option<u64> {
        self.id
    }

    /// Whether a packet of this run can look so: its plan is the same in all of them.
    pub(crate) fn fits(&self, stamp: &Stamp) -> bool {
        self.plan == Some(stamp.plan)
    }

    /// Takes in a data packet of our own; `wire` is the number that its carrier shows.
    pub(crate) fn take_stamp(&mut self, stamp: &Stamp, wire: u32, bytes: u32, now_ns: u64) {
        self.take(wire, bytes, now_ns);
        self.stamped += 1;
        self.delays
            .arrive(i64::from(stamp.number), stamp.sent_ns, now_ns);
        let this = (stamp.number, stamp.sent_ns);
        self.least = Some(self.least.map_or(this, |least| least.min(this)));
        self.greatest = Some(self.greatest.map_or(this, |greatest| greatest.max(this)));
    }

    /// Takes in a packet of which only the number is known.
    pub(crate) fn take(&mut self, number: u32, bytes: u32, now_ns: u64) {
        self.meter.arrive(number, bytes, now_ns);
        self.payload_bytes += u64::from(bytes);
        self.span.take(now_ns);
        self.last_ns = Some(now_ns);
    }

    /// The sender says that it is done, after this many packets.
    pub(crate) fn end(&mut self, sent: u32) {
        self.sent = Some(sent);
    }

    /// The sender began anew, at another number.
    pub(crate) fn restart(&mut self) {
        self.meter.restart();
        self.restarts += 1;
    }

    /// A number that belongs nowhere.
    pub(crate) fn stray(&mut self, count: u64) {
        self.strays += count;
    }

    /// When its last packet came.
    pub(crate) fn last_ns(&self) -> Option<u64> {
        self.last_ns
    }

    /// How long it took, by a clock that may have been set meanwhile.
    pub(crate) fn span(&self) -> Span {
        self.span
    }

    /// How far it has come, from 0 to 1; 0 where nobody knows.
    pub(crate) fn progress(&self) -> f64 {
        match (self.plan, self.greatest) {
            (Some(plan), Some((number, _))) if plan.count > 0 => {
                f64::from(number) / f64::from(plan.count)
            }
            _ => 0.0,
        }
    }

    /// Ends the stream and sums it up.
    pub(crate) fn report(mut self, name: &str) -> StreamReport {
        self.meter.finish();
        let order = self.meter.total();
        let received = order.reordering.received;
        let expected = match (self.sent, self.greatest) {
            (Some(sent), _) => Some(u64::from(sent)),
            (None, Some((greatest, _))) => Some(u64::from(greatest) + 1),
            (None, None) => None,
        };
        let seconds = self.span.seconds();
        let sent_pps = self.least.zip(self.greatest).and_then(|(least, greatest)| {
            rate(
                u64::from(greatest.0 - least.0),
                greatest.1.saturating_sub(least.1) as f64 / 1e9,
            )
        });
        StreamReport {
            name: name.into(),
            numbering: self.numbering,
            from: self.ends.0,
            to: self.ends.1,
            stream: self.id.map(|id| format!("{id:016x}")),
            plan: self.plan.map(|plan| PlanReport {
                packets: plan.count,
                frame_bytes: plan.frame_bytes,
                rate_pps: plan.rate_pps,
            }),
            sent: self.sent,
            received,
            lost: expected.map(|expected| expected.saturating_sub(received)),
            duplicates: order.reordering.duplicates,
            seconds,
            sent_pps,
            received_pps: rate(order.reordering.arrivals.saturating_sub(1), seconds),
            payload_bytes: self.payload_bytes,
            restarts: self.restarts,
            strays: self.strays,
            order,
            delay: (self.stamped > 0).then(|| self.delays.total()),
        }
    }
}

/// `None` over no time at all, which has no rate.
fn rate(packets: u64, seconds: f64) -> Option<f64> {
    (seconds > 0.0).then(|| packets as f64 / seconds)
}

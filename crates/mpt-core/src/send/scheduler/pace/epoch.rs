//! What a run of reports tells of a path: its delay and how that varied, what it delivered, what was lost.

use std::time::Duration;

use crate::send::scheduler::law::Law;
use crate::send::units::{Rate, Span};
use crate::time::Time;

/// What a report tells of one path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// When the newest number arrived, by the receiver's clock.
    pub(crate) arrived: Time,
    /// That less the time of its sending by ours, in nanoseconds.
    pub(crate) one_way: i64,
    /// Datagrams and bytes that had arrived by then.
    pub(crate) arrived_packets: u64,
    pub(crate) arrived_bytes: u64,
    /// When that number was sent, and what had been sent by then, itself included.
    pub(crate) sent: Time,
    pub(crate) sent_packets: u64,
    pub(crate) sent_bytes: u64,
}

impl Sample {
    /// Whether `next` follows, no more than `longest_gap` later.
    pub(super) fn goes_on(&self, next: &Sample, longest_gap: Duration) -> bool {
        next.arrived > self.arrived
            && next.arrived.since(self.arrived) <= longest_gap
            && next.sent >= self.sent
            && next.arrived_packets >= self.arrived_packets
            && next.arrived_bytes >= self.arrived_bytes
            && next.sent_packets > self.sent_packets
    }
}

/// What an epoch tells.
#[derive(Debug, Clone, Copy)]
pub(super) struct Findings {
    pub(super) one_way: Span,
    pub(super) noise: Span,
    pub(super) delivered: Rate,
    /// The same while a queue stood, where one did.
    pub(super) delivered_busy: Option<Rate>,
    pub(super) offered: Rate,
    pub(super) packets_a_second: f64,
    /// Less arrived than was sent meanwhile: the rest queues, or is lost.
    pub(super) is_dispersed: bool,
    /// By how much the delay grew in time: 0.1 is a tenth of a second in a second.
    pub(super) trend: f64,
    /// When the first of the packets that it tells of was sent.
    pub(super) sent: Time,
}

/// Samples since `first`; sums of a linear regression of delay over time of arrival.
#[derive(Debug, Clone, Copy)]
pub(super) struct Epoch {
    law: &'static Law,
    pub(super) first: Sample,
    pub(super) last: Sample,
    pub(super) samples: u32,
    t: f64,
    tt: f64,
    x: f64,
    xx: f64,
    tx: f64,
    /// What arrived while a queue stood, and for how long one did.
    busy_packets: u64,
    busy_bytes: f64,
    busy_for: f64,
}

impl Epoch {
    pub(super) fn new(law: &'static Law, first: Sample) -> Epoch {
        Epoch {
            law,
            first,
            last: first,
            samples: 0,
            t: 0.0,
            tt: 0.0,
            x: 0.0,
            xx: 0.0,
            tx: 0.0,
            busy_packets: 0,
            busy_bytes: 0.0,
            busy_for: 0.0,
        }
    }

    /// Adds a sample; the least delay is `least`, as far as it is known.
    pub(super) fn add(&mut self, sample: Sample, least: Span) {
        let since_last = sample.arrived.since(self.last.arrived).as_nanos() as f64;
        // Who waited for longer than that found the path busy all the while.
        if sample.one_way as f64 - least.as_nanos() > since_last {
            self.busy_packets += sample.arrived_packets - self.last.arrived_packets;
            let arrived = sample.arrived_bytes - self.last.arrived_bytes;
            let sent = sample.sent_bytes.saturating_sub(self.last.sent_bytes);
            self.busy_bytes += arrived.min(sent) as f64;
            self.busy_for += since_last / 1e9;
        }
        let t = sample.arrived.since(self.first.arrived).as_nanos() as f64;
        let x = sample.one_way.wrapping_sub(self.first.one_way) as f64;
        self.last = sample;
        self.samples += 1;
        self.t += t;
        self.tt += t * t;
        self.x += x;
        self.xx += x * x;
        self.tx += t * x;
    }

    pub(super) fn span(&self) -> Duration {
        self.last.arrived.since(self.first.arrived)
    }

    /// The mean one-way delay, with the clocks' offset.
    pub(super) fn mean_one_way(&self) -> Span {
        Span::nanos(self.first.one_way as f64 + self.x / f64::from(self.samples))
    }

    pub(super) fn packets(&self) -> u64 {
        self.last.sent_packets - self.first.sent_packets
    }

    pub(super) fn findings(&self) -> Findings {
        let n = f64::from(self.samples);
        let (tt, xx, tx) = (
            self.tt - self.t * self.t / n,
            self.xx - self.x * self.x / n,
            self.tx - self.t * self.x / n,
        );
        let scatter = if tt > 0.0 { xx - tx * tx / tt } else { xx };
        let arrived = (self.last.arrived_bytes - self.first.arrived_bytes) as f64;
        let sent = (self.last.sent_bytes - self.first.sent_bytes) as f64;
        let sent_for = self.last.sent.since(self.first.sent);
        let busy_for = self.busy_for >= self.law.target.as_secs_f64();
        let is_busy = busy_for && self.busy_packets >= self.law.train_packets;
        // More than was sent cannot have arrived.
        let delivered = Rate::of(arrived.min(sent), self.span());
        let offered = Rate::of(sent, sent_for);
        Findings {
            one_way: self.mean_one_way(),
            noise: Span::nanos((scatter.max(0.0) / (n - 2.0).max(1.0)).sqrt()),
            delivered,
            delivered_busy: is_busy.then(|| Rate::new(self.busy_bytes / self.busy_for)),
            offered,
            packets_a_second: self.packets() as f64 / sent_for.as_secs_f64(),
            is_dispersed: delivered < offered * self.law.dispersed,
            trend: if tt > 0.0 { tx / tt } else { 0.0 },
            sent: self.first.sent,
        }
    }
}

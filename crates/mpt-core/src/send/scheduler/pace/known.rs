//! What is known of a path, for whoever chooses among paths or asks why.

use std::time::Duration;

use super::Pace;
use crate::control::PathStatus;
use crate::control::trace::{Decision, Trace, Why};
use crate::send::units::{Rate, Span};
use crate::time::Time;

impl Pace {
    /// Whether a packet that took this long came earlier than any does on the path.
    pub(crate) fn is_too_early(&self, one_way: i64) -> bool {
        let early = |least: Span| Span::nanos(one_way as f64) < least - self.doubt.of_one();
        self.base.get().is_some_and(early)
    }

    /// The delay to expect of the next packet, with the clocks' offset and what the delay may rise by ([`Pace::swings`]).
    #[inline]
    pub(crate) fn delay(&self, now: Time) -> Option<Span> {
        let queue = Span::from(self.queue(now));
        let least = self.least_delay();
        least.map(|least| least + queue + self.swings())
    }

    /// The delay that it would have without a queue, with what its disorder and its losses make others wait.
    pub(crate) fn least_delay(&self) -> Option<Span> {
        let least = self.base.get().or(self.probed)?;
        Some(least + self.holds_up)
    }

    /// By how much later than it should a packet is expected where another path would do, since the path's delay
    /// rises now and then.
    #[inline]
    pub(crate) fn swings(&self) -> Span {
        self.swing.late()
    }

    /// What it takes, or delivers while it is open.
    pub(crate) fn carries(&self) -> Rate {
        self.rate.unwrap_or(self.delivered)
    }

    /// Bytes that it carries within this time; of one whose limit is not known, no less than it takes at once.
    pub(crate) fn carries_within(&self, span: Span) -> f64 {
        let carried = self.carries().bytes_within(span);
        match self.rate {
            Some(_) => carried,
            None => carried.max(self.law.first_window),
        }
    }

    /// For how long what comes over it makes others wait.
    pub(crate) fn holds_up(&self) -> Span {
        self.holds_up
    }

    /// How long the queue lasts. What was not looked at for long has worked off what was of this end. What others fill, or what
    /// is no queue but a path that takes longer now, is there until something tells otherwise.
    #[inline]
    pub(crate) fn queue(&self, now: Time) -> Duration {
        let passed = now.since(self.queue_holds_until);
        let worked_off = passed.min(self.own_queue.to_duration());
        self.queue.to_duration().saturating_sub(worked_off)
    }

    /// What it takes; none while open.
    pub(crate) fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// Fills in the estimates.
    pub(crate) fn report(&self, status: &mut PathStatus) {
        let competes = self.company.is_competing(self.credit.heard());
        status.tx_phase = self.phase.shown(competes);
        status.tx_limit_bps = self.rate.map(Rate::bits_a_second);
        status.tx_delivered_bps = self.delivered.bits_a_second();
        status.tx_queue_us = self.queue.as_micros();
        status.tx_usual_loss = self.loss.usual;
    }

    /// The share of packets that it lost just now.
    pub(crate) fn loss_now(&self) -> f64 {
        self.loss.now()
    }

    /// Whether others fill its queue.
    pub(crate) fn is_contended(&self, now: Time) -> bool {
        self.rate.is_none() && self.company.is_competing(now)
    }

    /// Keeps what was decided, for whoever asks why.
    pub(crate) fn note(&mut self, now: Time, why: Why) {
        self.decisions.note(Decision {
            at_us: now.as_nanos() / 1000,
            phase: self.phase.named(),
            why,
            rate_bps: self.rate.map(Rate::bits_a_second),
            capacity_bps: self.capacity.bits_a_second(),
            delivered_bps: self.delivered.bits_a_second(),
            queue_us: self.queue.as_micros(),
            target_us: self.doubt.target().as_micros(),
            loss: self.loss.now(),
        });
    }

    /// Fills in the decisions from number `from` on that are kept.
    pub(crate) fn trace(&self, from: u64, trace: &mut Trace) {
        self.decisions.report(from, trace);
    }
}

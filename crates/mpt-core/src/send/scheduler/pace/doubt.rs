//! How much of a queue may be none: what jitter adds to the delay of a path under load.
//!
//! A path whose jitter does not reorder delivers all behind the latest of its packets. Its mean delay then
//! grows with the load though no queue stands. How much, the jitter of probes tells while the path has
//! nothing else to carry. Few probes may agree by chance, and say too little: then the mean delay that differs from
//! epoch to epoch tells.

use crate::send::scheduler::law::Law;
use crate::send::units::Span;

/// What is known of a path's jitter.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Doubt {
    law: &'static Law,
    /// Mean deviation of probes, of an idle path.
    jitter: Span,
    /// Scatter of delays about their trend in an epoch, smoothed.
    scatter: Span,
    /// By how much the queue of an epoch differs from that of the one before, smoothed.
    step: Span,
    /// The queue of the last epoch.
    queue: Option<Span>,
}

impl Doubt {
    pub(super) fn new(law: &'static Law) -> Doubt {
        Doubt {
            law,
            ..Doubt::default()
        }
    }

    /// What probes tell.
    pub(super) fn probed(&mut self, jitter: Span) {
        self.jitter = jitter;
    }

    /// Mean deviation of probes, of an idle path.
    pub(super) fn jitter(&self) -> Span {
        self.jitter
    }

    /// What an epoch tells.
    pub(super) fn epoch(&mut self, scatter: Span, queue: Span) {
        let before = self.queue.replace(queue).unwrap_or(queue);
        let step = (queue - before).abs().min(self.law.latest.into());
        self.step = self.step + (step - self.step) / 4.0;
        self.scatter = self.scatter + (scatter - self.scatter) / 4.0;
    }

    /// Whether packets keep the distances in which the path delivers them.
    pub(super) fn is_steady(&self) -> bool {
        self.jitter < Span::from(self.law.steady)
    }

    /// How much later packets come under load without any queue.
    pub(super) fn lateness(&self) -> Span {
        let by_steps = match self.is_steady() {
            true => Span::ZERO,
            false => self.step * self.law.late_by_step,
        };
        let by_jitter = self.jitter * self.law.late_by_jitter;
        by_jitter.max(by_steps).min(self.law.latest.into())
    }

    /// Whether the queue is longer than jitter would make it seem.
    pub(super) fn is_exceeded(&self, queue: Span) -> bool {
        queue > self.lateness() + self.law.stuck.into()
    }

    /// What a lone packet's delay has to exceed to tell of a queue.
    pub(super) fn of_one(&self) -> Span {
        Span::from(self.law.surely_a_queue()) + self.jitter * 2.0
    }

    /// The queue that is aimed at.
    pub(super) fn target(&self) -> Span {
        Span::from(self.law.target) + self.scatter().max(self.lateness())
    }

    /// What the queue has to exceed for the path to be limited.
    pub(super) fn limit_above(&self) -> Span {
        Span::from(self.law.surely_a_queue()) + self.lateness().max(self.scatter() * 2.0)
    }

    /// What it has to exceed by far to end an epoch at once.
    pub(super) fn alarming(&self) -> Span {
        self.limit_above().max(self.scatter) * 3.0
    }

    fn scatter(&self) -> Span {
        self.scatter.min(self.law.latest.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(ms: f64) -> Span {
        Span::nanos(ms * 1e6)
    }

    #[test]
    fn where_probes_agree_by_chance_the_steps_of_the_queue_tell_how_late_packets_come() {
        for (jitter_ms, least, most) in [(0.5, 2.0, 2.5), (1.5, 30.0, 45.0), (12.0, 54.0, 54.1)] {
            let mut doubt = Doubt::new(&Law::LAW);
            doubt.probed(span(jitter_ms));
            for epoch in 0..40 {
                doubt.epoch(Span::ZERO, span(if epoch % 2 == 0 { 10.0 } else { 30.0 }));
            }
            let lateness = doubt.lateness();
            assert!(
                lateness >= span(least) && lateness <= span(most),
                "{jitter_ms} ms: {lateness:?}"
            );
        }
    }

    #[test]
    fn the_first_queue_and_a_steady_one_are_no_step() {
        let mut doubt = Doubt::new(&Law::LAW);
        doubt.probed(span(1.5));
        for _ in 0..10 {
            doubt.epoch(Span::ZERO, span(80.0));
        }
        assert_eq!(doubt.lateness().as_micros(), 6750);
    }
}

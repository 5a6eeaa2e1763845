//! How much of a queue may be none: what jitter adds to the delay of a path under load.
//!
//! A path whose jitter does not reorder delivers all behind the latest of its packets. Its mean delay then
//! grows with the load though no queue stands. How much, the jitter of probes tells while the path has
//! nothing else to carry; and where that says too little, a queue that does not shrink when less is sent.

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
    /// What was taken for a queue and did not shrink.
    stuck: Span,
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
    pub(super) fn epoch(&mut self, scatter: Span) {
        self.stuck = self.stuck * self.law.stuck_stays;
        self.scatter = self.scatter + (scatter - self.scatter) / 4.0;
    }

    /// A queue that was lowered for does not shrink: this long is what jitter makes of none.
    pub(super) fn allow(&mut self, queue: Span) {
        self.stuck = queue;
    }

    /// Whether packets keep the distances in which the path delivers them.
    pub(super) fn is_steady(&self) -> bool {
        self.jitter < Span::from(self.law.steady)
    }

    /// How much later packets come under load without any queue.
    pub(super) fn lateness(&self) -> Span {
        self.by_jitter().max(self.stuck)
    }

    fn by_jitter(&self) -> Span {
        (self.jitter * self.law.late_by_jitter).min(self.law.latest.into())
    }

    /// Whether the queue is longer than jitter would make it seem.
    pub(super) fn is_exceeded(&self, queue: Span) -> bool {
        queue > self.by_jitter() + self.law.stuck.into()
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
        self.scatter.min(self.law.most_scatter.into())
    }
}

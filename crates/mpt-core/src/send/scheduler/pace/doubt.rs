//! How much of a queue may be none: what jitter adds to the delay of a path under load.
//!
//! A path whose jitter does not reorder delivers all behind the latest of its packets. Its mean delay then
//! grows with the load though no queue stands. How much, the jitter of probes tells while the path has
//! nothing else to carry; and where that says too little, a queue that does not shrink when less is sent.

use crate::send::scheduler::law::{Law, ns};

/// What is known of a path's jitter.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Doubt {
    law: &'static Law,
    /// Mean deviation of probes, of an idle path.
    jitter: f64,
    /// Scatter of delays about their trend in an epoch, smoothed.
    scatter: f64,
    /// What was taken for a queue and did not shrink.
    stuck: f64,
}

impl Doubt {
    pub(super) fn new(law: &'static Law) -> Doubt {
        Doubt {
            law,
            ..Doubt::default()
        }
    }

    /// What probes tell.
    pub(super) fn probed(&mut self, jitter: f64) {
        self.jitter = jitter;
    }

    /// Mean deviation of probes, of an idle path.
    pub(super) fn jitter(&self) -> f64 {
        self.jitter
    }

    /// What an epoch tells.
    pub(super) fn epoch(&mut self, scatter: f64) {
        self.stuck *= self.law.stuck_stays;
        self.scatter += (scatter - self.scatter) / 4.0;
    }

    /// A queue that was lowered for does not shrink: so long is what jitter makes of none.
    pub(super) fn allow(&mut self, queue: f64) {
        self.stuck = queue;
    }

    /// Whether packets keep the distances in which the path delivers them.
    pub(super) fn is_steady(&self) -> bool {
        self.jitter < ns(self.law.steady)
    }

    /// How much later packets come under load without any queue.
    pub(super) fn lateness(&self) -> f64 {
        self.by_jitter().max(self.stuck)
    }

    fn by_jitter(&self) -> f64 {
        (self.jitter * self.law.late_by_jitter).min(ns(self.law.latest))
    }

    /// Whether the queue is longer than jitter would make it seem.
    pub(super) fn is_exceeded(&self, queue: f64) -> bool {
        queue > self.by_jitter() + ns(self.law.stuck)
    }

    /// What a lone packet's delay has to exceed to tell of a queue.
    pub(super) fn of_one(&self) -> f64 {
        ns(self.law.limit_above) + 2.0 * self.jitter
    }

    /// The queue that is aimed at.
    pub(super) fn target(&self) -> f64 {
        ns(self.law.target) + self.scatter().max(self.lateness())
    }

    /// What the queue has to exceed for the path to be limited.
    pub(super) fn limit_above(&self) -> f64 {
        ns(self.law.limit_above) + self.lateness().max(2.0 * self.scatter())
    }

    /// What it has to exceed by far to end an epoch at once.
    pub(super) fn alarming(&self) -> f64 {
        3.0 * self.limit_above().max(self.scatter)
    }

    fn scatter(&self) -> f64 {
        self.scatter.min(ns(self.law.most_scatter))
    }
}

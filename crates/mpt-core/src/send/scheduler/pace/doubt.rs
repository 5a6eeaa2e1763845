//! How much of a queue may be none: what jitter adds to the delay of a path under load.
//!
//! A path whose jitter does not reorder delivers all behind the latest of its packets. Its mean delay then
//! grows with the load though no queue stands. How much, the jitter of probes tells while the path has
//! nothing else to carry; and where that says too little, a queue that does not shrink when less is sent.

/// The queue that is aimed at on a path without jitter, in nanoseconds as all here.
pub(super) const TARGET: f64 = 5e6;
/// What is surely a queue, without jitter.
pub(super) const LIMIT_ABOVE: f64 = 10e6;
/// Scatter about the trend says no more than this about the mean.
const MOST_SCATTER: f64 = 30e6;
/// Behind the latest of its packets a busy path with jitter is so many times the jitter late …
const LATE_BY_JITTER: f64 = 4.5;
/// … and no more than this.
const LATEST: f64 = 150e6;
/// What does not shrink when less is sent, and is no more than this, is jitter's doing …
const LATENESS: f64 = 50e6;
/// … and fades, by epoch; more than that are others' packets.
const LATENESS_FADES: f64 = 0.999;
/// A path with more jitter than this takes trains apart, and makes packets come together.
const STEADY: f64 = 1e6;

/// What is known of a path's jitter.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Doubt {
    /// Mean deviation of probes, of an idle path.
    jitter: f64,
    /// Scatter of delays about their trend in an epoch, smoothed.
    scatter: f64,
    /// What was taken for a queue and did not shrink.
    stuck: f64,
}

impl Doubt {
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
        self.stuck *= LATENESS_FADES;
        self.scatter += (scatter - self.scatter) / 4.0;
    }

    /// A queue that was lowered for does not shrink: so long is what jitter makes of none.
    pub(super) fn allow(&mut self, queue: f64) {
        self.stuck = queue;
    }

    /// Whether packets keep the distances in which the path delivers them.
    pub(super) fn is_steady(&self) -> bool {
        self.jitter < STEADY
    }

    /// How much later packets come under load without any queue.
    pub(super) fn lateness(&self) -> f64 {
        self.by_jitter().max(self.stuck)
    }

    fn by_jitter(&self) -> f64 {
        (self.jitter * LATE_BY_JITTER).min(LATEST)
    }

    /// Whether the queue is longer than jitter would make it seem.
    pub(super) fn is_exceeded(&self, queue: f64) -> bool {
        queue > self.by_jitter() + LATENESS
    }

    /// What a lone packet's delay has to exceed to tell of a queue.
    pub(super) fn of_one(&self) -> f64 {
        LIMIT_ABOVE + 2.0 * self.jitter
    }

    /// The queue that is aimed at.
    pub(super) fn target(&self) -> f64 {
        TARGET + self.scatter().max(self.lateness())
    }

    /// What the queue has to exceed for the path to be limited.
    pub(super) fn limit_above(&self) -> f64 {
        LIMIT_ABOVE + self.lateness().max(2.0 * self.scatter())
    }

    /// What it has to exceed by far to end an epoch at once.
    pub(super) fn alarming(&self) -> f64 {
        3.0 * self.limit_above().max(self.scatter)
    }

    fn scatter(&self) -> f64 {
        self.scatter.min(MOST_SCATTER)
    }
}

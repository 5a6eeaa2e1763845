//! How wide the window is, how long it holds, and how far it may grow.

use std::time::Duration;

use super::{LEAST_BELIEVED, MAX_WINDOW};
use crate::control::LatePolicy;

/// How the window behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReorderConfig {
    /// Sequence numbers that may be held, at most [`MAX_WINDOW`]; 0 turns reordering off.
    pub window: u32,
    /// A packet that lies beyond the window makes it wider, up to so many numbers.
    pub grows_to: Option<u32>,
    /// A number is believed less than so many beyond the highest known: at most [`MAX_WINDOW`], at least 1,024.
    pub believed: u32,
    /// Longest that a packet may be held.
    pub max_buffer_delay: Duration,
    /// What happens to late packets.
    pub late: LatePolicy,
}

impl ReorderConfig {
    pub(super) fn bounded(self) -> ReorderConfig {
        ReorderConfig {
            window: self.window.min(MAX_WINDOW),
            grows_to: self.grows_to.map(|widest| widest.min(MAX_WINDOW)),
            believed: self.believed.clamp(LEAST_BELIEVED, MAX_WINDOW),
            ..self
        }
    }

    /// The window that has room for a number so far ahead, if it may grow to it, or the widest.
    pub(super) fn grown_for(&self, ahead: u32) -> Option<u32> {
        let widest = self.grows_to.filter(|&widest| widest > self.window)?;
        (ahead >= self.window).then(|| (ahead + 1).next_power_of_two().min(widest))
    }
}

//! What the tunnel's reorder window makes of arrivals over one path, in virtual time.

use std::time::Duration;

use mpt_core::control::LatePolicy;
use mpt_core::path::{PathId, PathSet};
use mpt_core::receive::reorder::{Reorder, ReorderConfig, Verdict};
use mpt_core::seq::Seq;
use mpt_core::time::Time;

use crate::Arrival;

const CONFIG: ReorderConfig = ReorderConfig {
    window: 1024,
    grows_to: None,
    believed: 1024,
    max_buffer_delay: Duration::from_millis(300),
    late: LatePolicy::Deliver,
};

/// What left the window.
#[derive(Default)]
pub(crate) struct Restored {
    /// Numbers in the order in which they left.
    pub(crate) order: Vec<u32>,
    /// How long each was held, in nanoseconds, shortest first.
    pub(crate) held_ns: Vec<u64>,
}

/// Puts numbers in order as the tunnel does.
pub(crate) fn restore(arrivals: &[Arrival]) -> Restored {
    let path = PathId::new(0).expect("a path");
    let mut window = Reorder::new(CONFIG, Seq::FIRST);
    let mut restored = Restored::default();
    window.wait_for(Time::ZERO, PathSet::only(path), &mut |_: Arrival| ());
    for &(number, at_ns) in arrivals {
        while let Some(due) = window.poll_timeout().filter(|due| due.as_nanos() <= at_ns) {
            window.handle_timeout(due, &mut |arrival| restored.leave(arrival, due));
        }
        let now = Time::from_nanos(at_ns);
        let mut out = |arrival| restored.leave(arrival, now);
        let verdict = window.insert(now, path, Seq::new(number), (number, at_ns), &mut out);
        assert_eq!(verdict, Verdict::Taken);
    }
    while let Some(due) = window.poll_timeout() {
        window.handle_timeout(due, &mut |arrival| restored.leave(arrival, due));
    }
    restored.held_ns.sort_unstable();
    restored
}

impl Restored {
    fn leave(&mut self, (number, arrived_ns): Arrival, now: Time) {
        self.order.push(number);
        self.held_ns.push(now.as_nanos() - arrived_ns);
    }

    /// Mean and 99th percentile of the time held, in microseconds.
    pub(crate) fn held_us(&self) -> [f64; 2] {
        let total: u64 = self.held_ns.iter().sum();
        let rank = self.held_ns.len() * 99 / 100;
        let high = self.held_ns.get(rank).copied().unwrap_or_default();
        [total / self.held_ns.len().max(1) as u64, high].map(|ns| ns as f64 / 1e3)
    }
}

//! One clock for a measurement: it never steps, and tells the time of day.
//!
//! Stamps and captures bear the time of day, so that they can be compared. But the time of day may
//! be set while a measurement runs; so it is looked at once, and counted on by the monotonic clock.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// A clock that began at 0 when it was made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    start_ns: u64,
    unix_ns: u64,
}

impl Clock {
    pub(crate) fn start() -> Self {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        let unix_ns = since_1970.map_or(0, |since| since.as_nanos());
        Clock {
            start_ns: monotonic_ns(),
            unix_ns: u64::try_from(unix_ns).unwrap_or(u64::MAX),
        }
    }

    /// Nanoseconds since the start.
    pub(crate) fn elapsed_ns(&self) -> u64 {
        monotonic_ns().saturating_sub(self.start_ns)
    }

    /// The time of day, in nanoseconds since 1970, when `elapsed_ns` had passed.
    pub(crate) fn unix_ns(&self, elapsed_ns: u64) -> u64 {
        self.unix_ns.saturating_add(elapsed_ns)
    }

    /// Sleeps until then, or until a signal comes.
    pub(crate) fn sleep_until(&self, elapsed_ns: u64) {
        let at_ns = self.start_ns.saturating_add(elapsed_ns);
        let request = Timespec {
            tv_sec: i64::try_from(at_ns / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: (at_ns % 1_000_000_000) as _,
        };
        // Interrupted: whoever sleeps looks at the clock again.
        let _ = clock_nanosleep_absolute(ClockId::Monotonic, &request);
    }
}

fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

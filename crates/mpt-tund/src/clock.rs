//! The clock of a tunnel, and a timer finer than the runtime's.
//!
//! tokio's timers tick in milliseconds; a hold time or a pause between trains is shorter. A timerfd
//! wakes its thread at the nanosecond, and costs a system call only when the moment moves forward.

use std::io;
use std::os::fd::OwnedFd;

use mpt_core::time::Time;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

const SECOND_NS: u64 = 1_000_000_000;

/// Now, by `CLOCK_MONOTONIC`.
pub(crate) fn now() -> Time {
    let now = clock_gettime(ClockId::Monotonic);
    Time::from_nanos(now.tv_sec as u64 * SECOND_NS + now.tv_nsec as u64)
}

/// A timer for one moment at a time.
#[derive(Debug)]
pub(crate) struct Timer {
    fd: AsyncFd<OwnedFd>,
    /// The moment that the kernel has been told, until it has come.
    armed: Option<Time>,
}

impl Timer {
    /// A timer that is not set. To be called within the runtime that will wait.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub(crate) fn new() -> io::Result<Timer> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // SAFETY: the descriptor is owned by the `AsyncFd` and never exchanged.
        let fd = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE)? };
        Ok(Timer { fd, armed: None })
    }

    /// Wakes [`Timer::elapsed`] at `at` at the latest. A later moment than the one set before is
    /// not told to the kernel: the earlier wake-up finds nothing due and sets the timer again.
    pub(crate) fn wake_by(&mut self, at: Option<Time>) {
        let Some(at) = at.filter(|&at| self.armed.is_none_or(|armed| at < armed)) else {
            return;
        };
        // A zero moment would disarm it.
        let ns = at.as_nanos().max(1);
        let value = Itimerspec {
            it_interval: Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            },
            it_value: Timespec {
                tv_sec: (ns / SECOND_NS) as i64,
                tv_nsec: (ns % SECOND_NS) as i64,
            },
        };
        if timerfd_settime(self.fd.get_ref(), TimerfdTimerFlags::ABSTIME, &value).is_ok() {
            self.armed = Some(at);
        }
    }

    /// Waits until the moment has come.
    pub(crate) async fn elapsed(&mut self) {
        loop {
            let Ok(mut guard) = self.fd.readable().await else {
                return;
            };
            let mut expirations = [0; 8];
            match rustix::io::read(guard.get_inner(), &mut expirations) {
                Ok(_) => {
                    self.armed = None;
                    return;
                }
                Err(_) => guard.clear_ready(),
            }
        }
    }
}

//! The clock of a tunnel, and a timer finer than the runtime's.
//!
//! tokio's timers tick in milliseconds; a hold time or a pause between trains is shorter. A timerfd
//! wakes its thread at the nanosecond, and costs a system call only when the moment moves forward.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use mpt_core::time::Time;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

const SECOND_NS: u64 = 1_000_000_000;

/// Now, by `CLOCK_MONOTONIC`.
pub fn now() -> Time {
    let now = clock_gettime(ClockId::Monotonic);
    Time::from_nanos(now.tv_sec as u64 * SECOND_NS + now.tv_nsec as u64)
}

/// Nanoseconds from 1970-01-01 00:00 UTC, by the host's wall clock.
pub fn wall_ns() -> u64 {
    let wall = clock_gettime(ClockId::Realtime);
    wall.tv_sec.max(0) as u64 * SECOND_NS + wall.tv_nsec as u64
}

/// The clocks may drift apart by this between two readings, in nanoseconds: NTP steers the wall clock by 500 ppm at most
/// (RFC 5905 §11.3), 0.5 ms in a second. More is a clock that was set, or one that was not read for long.
const DRIFT_NS: u64 = 1_000_000;

/// The wall clock, by which the kernel stamps what it receives, as long as nobody sets it.
#[derive(Debug, Default)]
pub struct StampClock {
    /// Ahead of [`now`] by this when it was last read.
    ahead_ns: u64,
}

impl StampClock {
    /// [`wall_ns`] at `now`; none where it was set since it was last read, or drifted.
    pub fn read(&mut self, now: Time) -> Option<u64> {
        self.at(now, wall_ns())
    }

    fn at(&mut self, now: Time, wall_ns: u64) -> Option<u64> {
        let ahead_ns = wall_ns.wrapping_sub(now.as_nanos());
        let before_ns = std::mem::replace(&mut self.ahead_ns, ahead_ns);
        (ahead_ns.abs_diff(before_ns) <= DRIFT_NS).then_some(wall_ns)
    }
}

/// Microseconds from 1970-01-01 00:00 UTC to the origin of [`now`], by the host's wall clock as it is set now.
pub fn origin_us() -> u64 {
    (wall_ns() / 1000).saturating_sub(now().as_nanos() / 1000)
}

/// Seconds from 1970-01-01 00:00 UTC, by the host's wall clock.
pub fn unix_s() -> u64 {
    wall_ns() / SECOND_NS
}

/// A clock that goes on while the host sleeps, and that nobody sets. It begins its minutes where the host's wall clock
/// began them when it was made.
#[derive(Debug)]
pub struct Calendar {
    /// Ahead of `CLOCK_BOOTTIME` by this.
    ahead: Duration,
}

/// The wall clock's minute, in microseconds.
const MINUTE_US: u64 = 60_000_000;

impl Default for Calendar {
    /// One that begins its minutes as the wall clock does now.
    fn default() -> Calendar {
        let ahead = Duration::from_micros(boot_origin_us() % MINUTE_US);
        Calendar { ahead }
    }
}

impl Calendar {
    /// Now.
    pub fn now(&self) -> Time {
        now() + ahead() + self.ahead
    }

    /// Microseconds from 1970-01-01 00:00 UTC to its origin, by the wall clock as it is set now.
    pub fn origin_us(&self) -> u64 {
        boot_origin_us().saturating_sub(self.ahead.as_micros() as u64)
    }
}

/// Microseconds from 1970-01-01 00:00 UTC to the origin of `CLOCK_BOOTTIME`, likewise.
fn boot_origin_us() -> u64 {
    origin_us().saturating_sub(ahead().as_micros() as u64)
}

/// Clocks that stand still and that do not while the host sleeps differ by more than this afterwards; otherwise by
/// what passes from one reading to the other.
const LEAST_SLEEP: Duration = Duration::from_millis(500);

/// Tells that the host has slept, which [`now`] does not count.
#[derive(Debug)]
pub struct Sleeps {
    /// By how much `CLOCK_BOOTTIME` was ahead.
    ahead: Duration,
}

impl Default for Sleeps {
    /// What was slept until now does not count.
    fn default() -> Sleeps {
        Sleeps { ahead: ahead() }
    }
}

impl Sleeps {
    /// How long the host has slept since this was asked last, if it has.
    pub fn since_asked(&mut self) -> Option<Duration> {
        self.slept(ahead())
    }

    fn slept(&mut self, ahead: Duration) -> Option<Duration> {
        let before = std::mem::replace(&mut self.ahead, ahead);
        let slept = ahead.saturating_sub(before);
        (slept >= LEAST_SLEEP).then_some(slept)
    }
}

/// By how much `CLOCK_BOOTTIME` is ahead of `CLOCK_MONOTONIC`: the host has slept for this time.
fn ahead() -> Duration {
    let monotonic = now();
    let boot = clock_gettime(ClockId::Boottime);
    let boot = Duration::new(boot.tv_sec as u64, boot.tv_nsec as u32);
    boot.saturating_sub(Duration::from_nanos(monotonic.as_nanos()))
}

/// A timer for one moment at a time.
#[derive(Debug)]
pub struct Timer {
    fd: AsyncFd<OwnedFd>,
    /// The moment that the kernel has been told, until it has come.
    armed: Option<Time>,
}

impl Timer {
    /// A timer that is not set. To be called within the runtime that will wait.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn new() -> io::Result<Timer> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // SAFETY: the descriptor is owned by the `AsyncFd` and never exchanged.
        let fd = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE)? };
        Ok(Timer { fd, armed: None })
    }

    /// Wakes [`Timer::elapsed`] at `at` at the latest. A later moment than the one set before is
    /// not told to the kernel: the earlier wake-up finds nothing due and sets the timer again.
    pub fn wake_by(&mut self, at: Option<Time>) {
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
    pub async fn elapsed(&mut self) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_stamps_nothing_for_one_reading() {
        let mut clock = StampClock::default();
        let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
        let mut read = |ms, wall_ms: u64| clock.at(at(ms), wall_ms * 1_000_000).is_some();
        let told = [
            (1, 5001),
            (3, 5003),
            (5, 5305),
            (6, 5306),
            (8, 4000),
            (9, 4002),
        ];
        let told = told.map(|(ms, wall_ms)| read(ms, wall_ms));
        assert_eq!(told, [false, true, false, true, false, true]);
    }

    #[test]
    fn minutes_of_the_calendar_begin_with_those_of_the_wall_clock() {
        let calendar = Calendar::default();
        let off = calendar.origin_us() % MINUTE_US;
        // The clocks are read one after the other.
        assert!(off.min(MINUTE_US - off) < 1_000_000, "{off} µs");
        let before = calendar.now();
        assert!(calendar.now() >= before);
    }

    #[test]
    fn a_host_that_sleeps_is_noticed_once_and_one_that_is_busy_is_not() {
        let second = Duration::from_secs(1);
        let mut sleeps = Sleeps { ahead: 5 * second };
        assert_eq!(sleeps.slept(5 * second + second / 10), None);
        assert_eq!(sleeps.slept(65 * second), Some(60 * second - second / 10));
        assert_eq!(sleeps.slept(65 * second), None);
        assert_eq!(Sleeps::default().since_asked(), None, "nobody slept");
    }
}

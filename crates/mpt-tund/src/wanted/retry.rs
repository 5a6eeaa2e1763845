//! When what failed is tried again, and how often at most anything is mended.
//!
//! Most causes end with an event of netlink, and then there is no need to wait for a turn. For those
//! without one (a port that another program has) there is [`Retry`]. [`Ration`] bounds what goes on when
//! somebody else keeps undoing what we do, or a log would fill.

use std::time::Duration;

use mpt_core::time::Time;

/// Pause between two attempts, at first.
const SHORT_PAUSE: Duration = Duration::from_secs(1);
/// What has failed for this long fails for a while yet …
const PATIENCE: Duration = Duration::from_secs(60);
/// … and is tried again after this. An attempt is a few system calls.
const LONG_PAUSE: Duration = Duration::from_secs(5);

/// Something that failed and is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Retry {
    since: Time,
    next: Time,
}

impl Retry {
    /// It has failed for the first time.
    pub(crate) fn new(now: Time) -> Retry {
        Retry {
            since: now,
            next: now + SHORT_PAUSE,
        }
    }

    /// It has failed once more.
    pub(crate) fn again(self, now: Time) -> Retry {
        let pause = if now.since(self.since) < PATIENCE {
            SHORT_PAUSE
        } else {
            LONG_PAUSE
        };
        Retry {
            since: self.since,
            next: now + pause,
        }
    }

    /// It is tried at once, not when its turn comes.
    pub(crate) fn at_once(self) -> Retry {
        Retry {
            next: self.since,
            ..self
        }
    }

    /// Whether it is to be tried again.
    pub(crate) fn is_due(&self, now: Time) -> bool {
        now >= self.next
    }
}

/// So many at once, and then one in each interval.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ration {
    most: u32,
    interval: Duration,
    left: u32,
    /// Up to when intervals are counted.
    counted: Time,
}

impl Ration {
    /// A full one.
    pub(crate) const fn new(most: u32, interval: Duration) -> Ration {
        Ration {
            most,
            interval,
            left: most,
            counted: Time::ZERO,
        }
    }

    /// Takes one, if there is one.
    pub(crate) fn take(&mut self, now: Time) -> bool {
        while self.left < self.most && now.since(self.counted) >= self.interval {
            self.counted = self.counted + self.interval;
            self.left += 1;
        }
        if self.left == self.most {
            self.counted = now;
        }
        let granted = self.left > 0;
        self.left = self.left.saturating_sub(1);
        granted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn what_fails_is_tried_each_second_and_after_a_minute_each_five() {
        let mut retry = Retry::new(at(0));
        let (mut attempts, mut last) = (Vec::new(), 0);
        for ms in (0..100_000).step_by(500) {
            if retry.is_due(at(ms)) {
                attempts.push(ms - last);
                last = ms;
                retry = retry.again(at(ms));
            }
        }
        assert!(attempts[..60].iter().all(|&pause| pause == 1000));
        assert!(attempts[60..].iter().all(|&pause| pause == 5000));
        assert_eq!(attempts.len(), 60 + 7);
    }

    #[test]
    fn a_ration_is_used_up_and_comes_back_one_by_one() {
        let mut ration = Ration::new(3, Duration::from_secs(1));
        let granted: Vec<bool> = [0, 0, 0, 0, 999, 1000, 1001, 3500, 3500, 3500]
            .map(|ms| ration.take(at(ms)))
            .to_vec();
        let expected = [
            true, true, true, false, false, true, false, true, true, false,
        ];
        assert_eq!(granted, expected);
        let later = 1_000_000;
        let granted = (0..10).filter(|_| ration.take(at(later))).count();
        assert_eq!(granted, 3, "no more than a full one");
    }
}

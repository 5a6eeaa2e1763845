//! A peer's rate limit: what goes beyond it is dropped, in each direction by itself.
//!
//! It is a policer and not a queue: a packet that is within the limit goes on at once, one beyond it is gone. TCP finds
//! the rate by its losses, and what it sends in a round trip goes as one burst, so a tenth of a second's bytes may come at once.

use std::time::Duration;

use crate::bucket::ShareBucket;
use crate::time::Time;

/// What may come at once, in time at the limit's rate: a round trip between continents, and half as much again.
const BURST: Duration = Duration::from_millis(150);
/// And at least, in bytes: two super-packets, since one is taken whole.
const LEAST_BURST: u64 = 2 * 65_536;
/// What a byte costs, in bits times nanoseconds.
const COST: u64 = 8 * 1_000_000_000;

/// So many bits a second of inner packets, and what may be had of them now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RateLimit {
    bits_per_second: u64,
    bucket: ShareBucket,
    filled: Time,
}

impl RateLimit {
    /// A full one. `bits_per_second` is within [`crate::limits::RATE_LIMITS`].
    pub(crate) fn new(now: Time, bits_per_second: u64) -> RateLimit {
        let burst = bits_per_second / 8 * BURST.as_millis() as u64 / 1000;
        RateLimit {
            bits_per_second,
            bucket: ShareBucket::full(COST, burst.max(LEAST_BURST)),
            filled: now,
        }
    }

    /// Goes over to another limit, or to none; the same one goes on.
    pub(crate) fn set(this: &mut Option<RateLimit>, now: Time, bits_per_second: Option<u64>) {
        if this.map(|limit| limit.bits_per_second) != bits_per_second {
            *this = bits_per_second.map(|rate| RateLimit::new(now, rate));
        }
    }

    /// It is this late.
    pub(crate) fn fill(&mut self, now: Time) {
        let passed = now.since(self.filled).as_nanos();
        let passed = u64::try_from(passed).unwrap_or(u64::MAX);
        self.bucket.earn(passed, self.bits_per_second);
        self.filled = self.filled.max(now);
    }

    /// Whether a packet of so many bytes may go on.
    pub(crate) fn take(&mut self, bytes: u64) -> bool {
        let affords = self.bucket.affords(bytes);
        if affords {
            self.bucket.spend(bytes);
        }
        affords
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::RATE_LIMITS;

    #[test]
    fn what_passes_is_the_rate_and_a_burst() {
        for (rate, seconds) in [
            (*RATE_LIMITS.start(), 100),
            (100_000_000, 10),
            (*RATE_LIMITS.end(), 1),
        ] {
            let start = Time::from_nanos(7);
            let mut limit = RateLimit::new(start, rate);
            let (mut passed, steps) = (0, 1000);
            for step in 1..=seconds * steps {
                limit.fill(start + Duration::from_micros(1000 * step));
                let offered = (rate / 8 / 1000 * 3 / 1500).max(1);
                passed += (0..offered).filter(|_| limit.take(1500)).count() as u64 * 1500;
            }
            let burst = (rate / 8 * 150 / 1000).max(LEAST_BURST);
            let most = rate / 8 * seconds + burst;
            assert!(
                passed <= most && passed + 3000 > most * 99 / 100,
                "{rate}: {passed} of {most}"
            );
        }
    }

    #[test]
    fn the_same_limit_goes_on_and_another_begins_anew() {
        let mut limit = None;
        let now = Time::from_nanos(7);
        RateLimit::set(&mut limit, now, Some(8000));
        while limit.as_mut().is_some_and(|limit| limit.take(1000)) {}
        RateLimit::set(&mut limit, now, Some(8000));
        assert!(limit.as_mut().is_some_and(|limit| !limit.take(1000)));
        RateLimit::set(&mut limit, now, Some(16_000));
        assert!(limit.as_mut().is_some_and(|limit| limit.take(1000)));
        RateLimit::set(&mut limit, now, None);
        assert!(limit.is_none());
    }
}

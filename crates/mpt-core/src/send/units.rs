//! The sender's two quantities: rates and spans of time, as numbers that cannot be taken for each other.
//!
//! A `Duration` cannot be negative and counts whole nanoseconds. Delays here carry the offset of two clocks, which
//! may be anything, and are means; so a `Span` is a real number.

use std::cmp::Ordering;
use std::ops::{Add, Div, Mul, Sub};
use std::time::Duration;

/// A rate, in bytes a second.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rate(f64);

/// A delay or a difference of delays, in nanoseconds; below zero where clocks differ.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Span(f64);

impl Rate {
    pub(crate) const ZERO: Rate = Rate(0.0);
    /// A rate of which less is asked than this, in a time, is not divided by.
    const LEAST_TIME_S: f64 = 1e-6;

    /// So many bytes a second.
    #[must_use]
    pub const fn new(bytes_a_second: f64) -> Rate {
        Rate(bytes_a_second)
    }

    /// In bytes a second.
    #[must_use]
    #[inline]
    pub const fn bytes_a_second(self) -> f64 {
        self.0
    }

    /// So many bytes in this time, of which a microsecond at least is counted.
    pub(crate) fn of(bytes: f64, time: Duration) -> Rate {
        Rate(bytes / time.as_secs_f64().max(Rate::LEAST_TIME_S))
    }

    /// In whole bits a second.
    pub(crate) fn bits_a_second(self) -> u64 {
        (self.0 * 8.0) as u64
    }

    /// Bytes in this time.
    #[inline]
    pub(crate) fn bytes_in(self, time: Duration) -> f64 {
        self.0 * time.as_secs_f64()
    }

    /// Bytes in this span.
    #[inline]
    pub(crate) fn bytes_within(self, span: Span) -> f64 {
        self.0 * span.0 / 1e9
    }

    /// The time that so many bytes take; `None` when it is no time at all, or for ever.
    #[inline]
    pub(crate) fn time_for(self, bytes: f64) -> Option<Duration> {
        Duration::try_from_secs_f64(bytes / self.0).ok()
    }

    /// The same as a span; at no rate it is longer than any, also for no bytes.
    #[inline]
    pub(crate) fn span_for(self, bytes: f64) -> Span {
        if self.0 > 0.0 {
            Span(bytes / self.0 * 1e9)
        } else {
            Span::MAX
        }
    }

    /// By how much they differ.
    pub(crate) fn abs_diff(self, other: Rate) -> Rate {
        Rate((self.0 - other.0).abs())
    }
}

impl Span {
    pub(crate) const ZERO: Span = Span(0.0);
    /// Longer than any.
    pub(crate) const MAX: Span = Span(f64::MAX);

    /// So many nanoseconds.
    #[inline]
    pub(crate) const fn nanos(ns: f64) -> Span {
        Span(ns)
    }

    /// In nanoseconds.
    #[inline]
    pub(crate) const fn as_nanos(self) -> f64 {
        self.0
    }

    /// In seconds.
    #[inline]
    pub(crate) fn as_secs(self) -> f64 {
        self.0 / 1e9
    }

    /// In whole microseconds; what is below zero is none.
    pub(crate) fn as_micros(self) -> u64 {
        (self.0 / 1e3) as u64
    }

    /// In whole nanoseconds; what is below zero is none.
    #[inline]
    pub(crate) fn to_duration(self) -> Duration {
        Duration::from_nanos(self.0.max(0.0) as u64)
    }

    /// Its length, in either direction.
    pub(crate) fn abs(self) -> Span {
        Span(self.0.abs())
    }
}

impl From<Duration> for Span {
    #[inline]
    fn from(time: Duration) -> Span {
        Span(time.as_nanos() as f64)
    }
}

/// Operations of a quantity: a total order, sums, and multiples.
macro_rules! quantity {
    ($($name:ident)+) => {$(
        impl PartialEq for $name {
            #[inline]
            fn eq(&self, other: &$name) -> bool {
                self.cmp(other).is_eq()
            }
        }

        impl Eq for $name {}

        impl PartialOrd for $name {
            #[inline]
            fn partial_cmp(&self, other: &$name) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl Ord for $name {
            #[inline]
            fn cmp(&self, other: &$name) -> Ordering {
                self.0.total_cmp(&other.0)
            }
        }

        impl Add for $name {
            type Output = $name;
            #[inline]
            fn add(self, other: $name) -> $name {
                $name(self.0 + other.0)
            }
        }

        impl Sub for $name {
            type Output = $name;
            #[inline]
            fn sub(self, other: $name) -> $name {
                $name(self.0 - other.0)
            }
        }

        impl Mul<f64> for $name {
            type Output = $name;
            #[inline]
            fn mul(self, times: f64) -> $name {
                $name(self.0 * times)
            }
        }

        impl Div<f64> for $name {
            type Output = $name;
            #[inline]
            fn div(self, parts: f64) -> $name {
                $name(self.0 / parts)
            }
        }

        /// How many times the one is the other.
        impl Div for $name {
            type Output = f64;
            #[inline]
            fn div(self, other: $name) -> f64 {
                self.0 / other.0
            }
        }
    )+};
}

quantity!(Rate Span);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_times_and_rates_belong_together() {
        let rate = Rate::of(1500.0, Duration::from_millis(2));
        assert_eq!(rate, Rate::new(750_000.0));
        assert_eq!(rate.bits_a_second(), 6_000_000);
        assert_eq!(rate.bytes_in(Duration::from_secs(2)), 1_500_000.0);
        assert_eq!(rate.bytes_within(Span::nanos(2e6)), 1500.0);
        assert_eq!(rate.time_for(750.0), Some(Duration::from_millis(1)));
        assert_eq!(rate.span_for(750.0), Span::from(Duration::from_millis(1)));
        assert_eq!(Rate::ZERO.time_for(1.0), None);
        assert_eq!(Rate::ZERO.span_for(0.0), Span::MAX);
        assert!(Rate::of(1.0, Duration::ZERO) < Rate::new(f64::INFINITY));
    }

    #[test]
    fn a_span_below_zero_is_no_duration() {
        let span = Span::nanos(1e6) - Span::nanos(3e6);
        assert!(span < Span::ZERO && span.abs() == Span::nanos(2e6));
        assert_eq!((span.to_duration(), span.as_micros()), (Duration::ZERO, 0));
    }
}

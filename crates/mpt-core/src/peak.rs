//! The greatest value of late.

use std::time::Duration;

use crate::time::Time;

/// The greatest of the values that were noted in the present span of time and the one before it: so
/// nothing younger than a span is forgotten, and nothing older than two is remembered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peak<T> {
    span: Duration,
    began: Time,
    present: T,
    former: T,
}

impl<T: Copy + Ord + Default> Peak<T> {
    /// Nothing noted; spans last so long.
    pub(crate) fn over(span: Duration) -> Peak<T> {
        Peak {
            span,
            began: Time::ZERO,
            present: T::default(),
            former: T::default(),
        }
    }

    /// Notes a value.
    pub(crate) fn note(&mut self, now: Time, value: T) {
        self.pass(now);
        self.present = self.present.max(value);
    }

    /// Lets time pass without a value.
    pub(crate) fn pass(&mut self, now: Time) {
        let since = now.since(self.began);
        if since >= self.span {
            let elapsed = since >= self.span * 2;
            self.former = if elapsed { T::default() } else { self.present };
            self.present = T::default();
            self.began = now;
        }
    }

    /// The greatest value; the least there is when none was noted.
    pub(crate) fn get(&self) -> T {
        self.present.max(self.former)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_remembered_for_one_to_two_spans() {
        let at = |second: u64| Time::from_nanos(second * 1_000_000_000);
        let mut peak = Peak::over(Duration::from_secs(4));
        peak.note(at(10), 7);
        peak.note(at(13), 3);
        assert_eq!(peak.get(), 7);
        peak.pass(at(14));
        peak.note(at(15), 2);
        assert_eq!(peak.get(), 7);
        peak.pass(at(18));
        assert_eq!(peak.get(), 2);
        peak.pass(at(26));
        assert_eq!(peak.get(), 0, "two spans and nothing");
    }
}

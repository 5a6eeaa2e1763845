//! The greatest or the least value of a while: a windowed filter of two spans.

use std::time::Duration;

use crate::time::Time;

/// The best of the values that were noted in the present span of time and the one before it: so
/// nothing younger than a span is forgotten, and nothing older than three is remembered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Windowed<T> {
    span: Duration,
    better: fn(T, T) -> T,
    began: Time,
    present: Option<T>,
    former: Option<T>,
}

impl<T: Copy + Ord> Windowed<T> {
    /// The greatest; nothing noted, spans last this long.
    pub(crate) fn greatest(span: Duration) -> Windowed<T> {
        Windowed {
            span,
            better: T::max,
            began: Time::ZERO,
            present: None,
            former: None,
        }
    }

    /// The least.
    pub(crate) fn least(span: Duration) -> Windowed<T> {
        Windowed {
            better: T::min,
            ..Windowed::greatest(span)
        }
    }

    /// Notes a value.
    pub(crate) fn note(&mut self, now: Time, value: T) {
        self.pass(now);
        self.present = Some(self.best(self.present, value));
    }

    /// Lets time pass without a value.
    pub(crate) fn pass(&mut self, now: Time) {
        let since = now.since(self.began);
        if since >= self.span {
            let elapsed = since >= self.span * 2;
            self.former = self.present.take().filter(|_| !elapsed);
            self.began = now;
        }
    }

    /// The best value, if any was noted.
    pub(crate) fn get(&self) -> Option<T> {
        let present = self.present.map(|value| self.best(self.former, value));
        present.or(self.former)
    }

    fn best(&self, known: Option<T>, value: T) -> T {
        known.map_or(value, |known| (self.better)(known, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_remembered_for_one_to_two_spans() {
        let at = |second: u64| Time::from_nanos(second * 1_000_000_000);
        let span = Duration::from_secs(4);
        let (mut greatest, mut least) = (Windowed::greatest(span), Windowed::least(span));
        let noted = [(10, 7), (13, 3), (15, 5)];
        for (second, value) in noted {
            greatest.note(at(second), value);
            least.note(at(second), 10 - value);
        }
        assert_eq!((greatest.get(), least.get()), (Some(7), Some(3)));
        for (second, left) in [(17, Some(7)), (19, Some(5)), (26, None)] {
            greatest.pass(at(second));
            least.pass(at(second));
            let found = (greatest.get(), least.get());
            assert_eq!(found, (left, left.map(|value| 10 - value)), "{second}");
        }
    }
}

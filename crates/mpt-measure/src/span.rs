//! How long a stream took, by a clock that somebody may set meanwhile.

/// A time that lies back by more than this means that the clock was set back, or that one capture was put behind
/// another; in nanoseconds. By less, frames of several interfaces merely stand in another order than they came: dumpcap
/// reads each of them up to 250 ms late (`CAP_READ_TIMEOUT` in its source).
const STEP_NS: u64 = 1_000_000_000;

/// The time that a stream takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Span {
    /// The least and the greatest time since the clock was last set back, in nanoseconds.
    now: Option<(u64, u64)>,
    /// What had passed until then.
    before_ns: u64,
    steps: u64,
    /// By how much at most it was set back.
    farthest_ns: u64,
}

impl Span {
    /// A packet came at this time.
    pub(crate) fn take(&mut self, now_ns: u64) {
        let (least, greatest) = self.now.unwrap_or((now_ns, now_ns));
        let back = greatest.saturating_sub(now_ns);
        if back > STEP_NS {
            self.steps += 1;
            self.farthest_ns = self.farthest_ns.max(back);
            self.before_ns = self.before_ns.saturating_add(greatest - least);
            self.now = Some((now_ns, now_ns));
        } else {
            self.now = Some((least.min(now_ns), greatest.max(now_ns)));
        }
    }

    /// How long it took, without the intervals in which the clock was set back.
    pub(crate) fn seconds(&self) -> f64 {
        let now = self.now.map_or(0, |(least, greatest)| greatest - least);
        self.before_ns.saturating_add(now) as f64 / 1e9
    }

    /// How often the clock was set back, and by how many seconds at most; if it was.
    pub(crate) fn steps(&self) -> Option<(u64, f64)> {
        (self.steps > 0).then_some((self.steps, self.farthest_ns as f64 / 1e9))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(ms: &[u64]) -> Span {
        let mut span = Span::default();
        ms.iter().for_each(|ms| span.take(ms * 1_000_000));
        span
    }

    #[test]
    fn what_passed_before_and_after_a_step_back_counts_and_the_step_does_not() {
        let stepped = span(&[10_000, 14_000, 2_000, 5_000]);
        assert_eq!((stepped.seconds(), stepped.steps()), (7.0, Some((1, 12.0))));
    }

    #[test]
    fn frames_in_another_order_are_no_step() {
        let disordered = span(&[10_000, 9_800, 12_000, 11_500]);
        assert_eq!((disordered.seconds(), disordered.steps()), (2.2, None));
    }

    #[test]
    fn nothing_and_one_packet_take_no_time() {
        assert_eq!((span(&[]).seconds(), span(&[5]).seconds()), (0.0, 0.0));
    }
}

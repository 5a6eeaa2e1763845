//! Whose a queue is: one of our making shrinks when less is sent.
//!
//! If it does not, others fill it, and yielding to them would leave them all. The path then *competes*: it is left open
//! for some seconds, or until the queue is found empty. After that the rate is lowered once to see whether they are gone;
//! if that is in vain they are not, and it competes for twice as long.
//!
//! What others send varies, and so does their queue. One that stays the same, whatever the rate, is none: the path takes
//! that much longer than before.

use std::time::Duration;

use super::epoch::Findings;
use crate::send::scheduler::law::Law;
use crate::send::units::Span;
use crate::time::Time;

/// What became of a queue that is above its target since the rate was lowered for it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Company {
    law: &'static Law,
    /// The longest that it was since it is above its target or was last looked at, and
    /// when it was this long.
    longest: Option<(Time, Span)>,
    /// When the rate was lowered last, and by what share.
    lowered_at: Time,
    lowered_by: f64,
    /// How often in a row that did not help.
    in_vain: u32,
    /// The shortest and the longest that the queue was meanwhile.
    range: (Span, Span),
    /// Until when a queue that stays the same is not taken for delay again.
    longer_until: Time,
    /// Until when it competes, or did, and for how long, if nothing has shown since that others are gone.
    competes_until: Time,
    competes_for: Duration,
}

impl Company {
    pub(super) fn new(law: &'static Law) -> Company {
        Company {
            law,
            ..Company::default()
        }
    }

    /// Whether a queue above its target stays, this long, though the rate was lowered for it
    /// for long.
    pub(super) fn stays(&mut self, now: Time, queue: Span, rtt: Duration) -> bool {
        let (since, then) = match self.longest {
            Some(longest) if queue <= longest.1 => longest,
            Some(_) | None => {
                self.longest = Some((now, queue));
                return false;
            }
        };
        if now.since(since) < (rtt * self.law.company_trips).max(self.law.company_patience) {
            return false;
        }
        self.longest = Some((now, queue));
        queue >= then * self.law.company_shrunk
    }

    /// Whether the rate was lowered in vain several times, as far as `found` tells; once, if others filled
    /// the queue before. Notes how long the queue was meanwhile.
    pub(super) fn is_vain(&mut self, found: &Findings, queue: Span) -> bool {
        if self.shows_in(found) && self.lowered_by >= self.law.company_lowered {
            let helped = found.trend < -self.lowered_by * self.law.company_helped;
            self.in_vain = if helped { 0 } else { self.in_vain + 1 };
            let (least, most) = self.range;
            self.range = match self.in_vain {
                0 | 1 => (queue, queue),
                _ => (least.min(queue), most.max(queue)),
            };
        }
        let enough = if self.competes_for.is_zero() {
            self.law.company_in_vain
        } else {
            1
        };
        self.in_vain >= enough
    }

    /// Whether the queue, for which the rate was lowered in vain, is none, but the path takes longer. That is believed
    /// once in `base_span`: a queue that others always fill to its end looks alike.
    pub(super) fn is_delay(&mut self, now: Time) -> bool {
        let (least, most) = self.range;
        let is_constant = self.in_vain >= self.law.company_in_vain
            && most - least < most * self.law.company_constant;
        let is_delay = is_constant && now >= self.longer_until;
        if is_delay {
            self.longer_until = now + self.law.base_span;
            self.relieved();
        }
        is_delay
    }

    /// Whether `found` tells of what was sent since the rate was lowered last.
    pub(super) fn shows_in(&self, found: &Findings) -> bool {
        found.sent >= self.lowered_at
    }

    /// The rate is lowered by this share.
    pub(super) fn lowered(&mut self, now: Time, by: f64) {
        (self.lowered_at, self.lowered_by) = (now, by);
    }

    /// There is no queue above its target.
    pub(super) fn relieved(&mut self) {
        self.forget_queue();
        self.competes_for = Duration::ZERO;
    }

    /// What became of the queue is not to be judged.
    pub(super) fn forget_queue(&mut self) {
        self.longest = None;
        self.in_vain = 0;
    }

    /// Others fill the queue.
    pub(super) fn compete(&mut self, now: Time) {
        self.competes_for = self.competes_for.saturating_mul(2).max(self.law.base_span);
        self.competes_until = now + self.competes_for;
    }

    /// The queue that others filled is empty: it does not compete any more. If they are only resting, lowering the
    /// rate in vain once will show that.
    pub(super) fn left(&mut self, now: Time) {
        self.competes_until = self.competes_until.min(now);
    }

    /// Whether it competes with others.
    #[inline]
    pub(super) fn is_competing(&self, now: Time) -> bool {
        now < self.competes_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::send::units::Rate;

    const QUEUE: Span = Span::nanos(60e6);

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    /// What an epoch tells whose packets were sent since `sent` and whose delay grew by `trend`.
    fn found(sent: Time, trend: f64) -> Findings {
        Findings {
            one_way: Span::ZERO,
            noise: Span::ZERO,
            delivered: Rate::ZERO,
            delivered_busy: None,
            offered: Rate::ZERO,
            is_dispersed: false,
            trend,
            sent,
        }
    }

    #[test]
    fn others_are_there_when_lowering_was_in_vain_three_times_in_a_row() {
        let mut company = Company::default();
        let mut verdicts = Vec::new();
        for (step, trend) in [0.1, -0.1, -0.3, 0.1, -0.1, 0.0].into_iter().enumerate() {
            let now = at(100 * step as u64);
            company.lowered(now, 0.4);
            // What was sent before says nothing.
            assert!(!company.shows_in(&found(at(0), 0.0)) || step == 0);
            verdicts.push(company.is_vain(&found(now, trend), QUEUE));
        }
        assert_eq!(verdicts, [false, false, false, false, false, true]);
    }

    #[test]
    fn a_queue_that_stays_the_same_is_delay_but_not_twice_in_ten_seconds() {
        let told = |company: &mut Company, from_ms: u64, queues: [f64; 3]| {
            let vain = queues.into_iter().enumerate().map(|(step, queue_ms)| {
                let now = at(from_ms + 100 * step as u64);
                company.lowered(now, 0.5);
                company.is_vain(&found(now, 0.0), Span::nanos(queue_ms * 1e6))
            });
            assert_eq!(vain.last(), Some(true));
            company.is_delay(at(from_ms + 300))
        };
        let mut company = Company::default();
        assert!(!told(&mut company, 0, [61.4, 61.1, 65.0]));
        company.relieved();
        assert!(told(&mut company, 1_000, [61.4, 61.1, 61.1]));
        assert!(!told(&mut company, 9_000, [61.4, 61.1, 61.1]));
        assert!(told(&mut company, 12_000, [61.4, 61.1, 61.1]));
    }

    #[test]
    fn after_competing_lowering_in_vain_once_is_enough_and_it_competes_for_longer() {
        let mut company = Company::default();
        company.compete(at(0));
        assert!(company.is_competing(at(9_999)) && !company.is_competing(at(10_000)));
        company.forget_queue();
        company.lowered(at(10_000), 0.5);
        assert!(company.is_vain(&found(at(10_000), -0.2), QUEUE));
        company.compete(at(10_500));
        assert!(company.is_competing(at(30_499)) && !company.is_competing(at(30_500)));
        // The queue was empty for a moment: it is judged again, sooner than at first.
        company.left(at(25_000));
        assert!(!company.is_competing(at(25_000)));
        company.lowered(at(25_100), 0.5);
        assert!(company.is_vain(&found(at(25_100), 0.0), QUEUE));
        company.compete(at(40_000));
        assert!(company.is_competing(at(79_999)) && !company.is_competing(at(80_000)));
        // They are gone: all begins anew.
        company.relieved();
        company.lowered(at(200_000), 0.5);
        assert!(!company.is_vain(&found(at(200_000), 0.0), QUEUE));
        company.compete(at(200_000));
        assert!(!company.is_competing(at(210_000)));
    }

    #[test]
    fn a_queue_that_shrinks_is_ours_and_one_that_does_not_in_six_round_trips_stays() {
        let rtt = Duration::from_millis(200);
        for (after, stays) in [(60e6, false), (80e6, true)] {
            let after = Span::nanos(after);
            let mut company = Company::default();
            assert!(!company.stays(at(0), Span::nanos(100e6), rtt));
            assert!(!company.stays(at(1_100), after, rtt));
            assert_eq!(company.stays(at(1_200), after, rtt), stays);
        }
    }
}

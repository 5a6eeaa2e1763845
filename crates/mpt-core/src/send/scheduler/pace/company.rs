//! Whose a queue is: one of our making shrinks when less is sent.
//!
//! If it does not, others fill it, and yielding to them would leave them all. The path then *competes*: it is left open
//! for some seconds, or until the queue is found empty. After that the rate is lowered once to see whether they are gone;
//! if that is in vain they are not, and it competes for twice as long. What is lost on it is sent again all the same: the
//! receiver would wait for it in vain, and the inner flows would fall to what the path leaves them.
//!
//! What others send varies, and so does their queue. One that stays the same, whatever the rate, is none: the path takes
//! that much longer than before, and has the rate that it had. Where the rate was lowered by little, a queue of our own may
//! stay, too. So for a long queue that stays for some round trips the rate is lowered by as much as would run it dry.
//!
//! What that paid when it came, with [`Company::carried_if_delay`] by the delay and [`Company::forget_trials`]: of 60 pairs of links as
//! people have them (`campaign --family field --pairs 60 --seed 3000`) 11.7 % were below 0.95 of the better link late, and
//! 15.0 % without; a tenth had less than 0.36 of the sum, and 0.30 without. What stands now is in docs/performance.md.

use std::time::Duration;

use super::epoch::Findings;
use crate::send::scheduler::law::Law;
use crate::send::units::{Rate, Span};
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
    /// What the path carried before it was lowered the first time for this queue.
    before: Option<Rate>,
    /// How often in a row that did not help.
    in_vain: u32,
    /// Whether a long queue stayed.
    is_pressed: bool,
    /// How long the queue was after the rate was lowered last.
    seen: Option<Span>,
    /// Whether it was as long after the time before.
    is_same: bool,
    /// The delay that a queue that stayed the same was taken for last, and until when it is not again.
    longer: Option<(Span, Time)>,
    /// Until when it competes, or did, and for how long, if nothing has shown since that others are gone.
    competes_until: Time,
    competes_for: Duration,
    /// What the path carried before it yielded, and until when it may take as much again.
    regains: (Rate, Time),
    /// What the path carries, as a share of the mean of all paths.
    share: f64,
}

impl Company {
    pub(super) fn new(law: &'static Law) -> Company {
        Company {
            law,
            share: 1.0,
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

    /// A long queue stays: the rate is lowered by no less than to run it dry from now on, since by less it may stay
    /// whosever it is.
    pub(super) fn press(&mut self) {
        self.is_pressed = true;
    }

    /// By what share the rate is to be lowered at least.
    pub(super) fn pressed(&self) -> f64 {
        if self.is_pressed {
            1.0 - self.law.drain_rate
        } else {
            0.0
        }
    }

    /// Whether the rate was lowered in vain several times, as far as `found` tells; once, if others filled
    /// the queue before. Notes whether the queue was the same meanwhile.
    pub(super) fn is_vain(&mut self, found: &Findings, queue: Span) -> bool {
        if self.shows_in(found) && self.lowered_by >= self.law.company_lowered {
            let helped = found.trend < -self.lowered_by * self.law.step_helped;
            self.in_vain = if helped { 0 } else { self.in_vain + 1 };
            let seen = self.seen.replace(queue);
            let is_same = |seen| (queue - seen).abs() < seen * self.law.differs;
            self.is_same = !helped && seen.is_some_and(is_same);
        }
        let enough = if self.competes_for.is_zero() {
            self.law.company_in_vain
        } else {
            1
        };
        self.in_vain >= enough
    }

    /// Whether the rate was lowered in vain for this queue.
    pub(super) fn was_in_vain(&self) -> bool {
        self.in_vain > 0
    }

    /// What the path carried before the rate was lowered, if it was lowered in vain for a queue that is none: it was the same
    /// the last two times, and the path takes `one_way`. That is believed of the same delay once in `base_span`: a queue that
    /// others always fill to its end looks alike.
    ///
    /// Where all times had to agree, and one that agreed with the one before put off what was made of it, links of which one
    /// drifts (`campaign --family drifting --pairs 200`, the seeds 500 and 9000) had 0.6 ± 0.2 and 0.8 ± 0.4 % less late;
    /// those that are shared with another host (`shared`, 9200) 0.6 ± 0.3 % less; the others did not differ. When it is
    /// believed after two times, not `company_in_vain`, drifting ones have 0.2 and 0.4 % more yet. But clients that share a slow
    /// hub take each other for delay then, and one of eight gets nothing
    /// (`hub::tests::clients_that_all_send_what_they_can_get_even_shares_of_a_slow_hub`).
    pub(super) fn carried_if_delay(
        &mut self,
        now: Time,
        one_way: Span,
        queue: Span,
    ) -> Option<Rate> {
        let within = queue * self.law.differs;
        let was_believed = self
            .longer
            .is_some_and(|(longer, until)| now < until && (one_way - longer).abs() < within);
        if !self.is_same || was_believed {
            return None;
        }
        let carried = self.before;
        self.longer = Some((one_way, now + self.law.base_span));
        self.relieved();
        carried
    }

    /// Whether `found` tells of what was sent since the rate was lowered last.
    pub(super) fn shows_in(&self, found: &Findings) -> bool {
        found.sent >= self.lowered_at
    }

    /// The rate of a path that is said to carry so much is lowered by this share.
    pub(super) fn lowered(&mut self, now: Time, by: f64, carries: Rate) {
        (self.lowered_at, self.lowered_by) = (now, by);
        self.before.get_or_insert(carries);
    }

    /// There is no queue above its target.
    pub(super) fn relieved(&mut self) {
        self.forget_queue();
        self.competes_for = Duration::ZERO;
    }

    /// What became of the queue is not to be judged.
    pub(super) fn forget_queue(&mut self) {
        self.longest = None;
        self.before = None;
        self.lowered_by = 0.0;
        self.forget_trials();
    }

    /// It is no long queue that the rate was lowered for.
    pub(super) fn forget_trials(&mut self) {
        self.in_vain = 0;
        self.is_pressed = false;
        (self.seen, self.is_same) = (None, false);
    }

    /// The path carries this share of the mean of all paths.
    pub(super) fn weigh(&mut self, share: f64) {
        self.share = share;
    }

    /// Whether it carries enough, beside other paths, to compete where others fill its queue, and to be used again as soon
    /// as a single packet tells that the queue is gone.
    pub(super) fn is_worth_it(&self) -> bool {
        self.share >= self.law.company_worth
    }

    /// Others fill the queue. For two round trips of so long the path takes what it carried before it yielded to them:
    /// then reports tell what it gets beside them. Four, or all of the time, are the same in the campaign (`drifting`, `shared`).
    pub(super) fn compete(&mut self, now: Time, round_trip: Duration) {
        self.regains = (self.before.unwrap_or_default(), now + round_trip * 2);
        self.competes_for = self.competes_for.saturating_mul(2).max(self.law.base_span);
        self.competes_until = now + self.competes_for;
    }

    /// No less than this does the path take while it competes.
    #[inline]
    pub(super) fn regains(&self, now: Time) -> Rate {
        let (rate, until) = self.regains;
        if now < until { rate } else { Rate::ZERO }
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

    const QUEUE: Span = Span::nanos(60e6);
    const RTT: Duration = Duration::from_millis(100);

    fn rate() -> Rate {
        Rate::of(1e6, Duration::from_secs(1))
    }

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
            packets_a_second: 0.0,
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
            company.lowered(now, 0.4, rate());
            // What was sent before says nothing.
            assert!(!company.shows_in(&found(at(0), 0.0)) || step == 0);
            verdicts.push(company.is_vain(&found(now, trend), QUEUE));
        }
        assert_eq!(verdicts, [false, false, false, false, false, true]);
    }

    fn ms(ms: f64) -> Span {
        Span::nanos(ms * 1e6)
    }

    /// The rate is lowered in vain, every 100 ms, while the queue is this long: after how many times that showed whose it
    /// is, and whether it is delay, if a path with that queue takes `one_way_ms`.
    fn told(
        company: &mut Company,
        from_ms: u64,
        queues: &[f64],
        one_way_ms: f64,
    ) -> Option<(usize, bool)> {
        let mut now = at(from_ms);
        for (step, &queue_ms) in queues.iter().enumerate() {
            company.lowered(now, 0.5, rate());
            if company.is_vain(&found(now, 0.0), ms(queue_ms)) {
                let carried = company.carried_if_delay(now, ms(one_way_ms), ms(queue_ms));
                return Some((step + 1, carried.is_some()));
            }
            now = now + Duration::from_millis(100);
        }
        None
    }

    #[test]
    fn a_queue_that_stays_the_same_is_delay_and_one_that_varies_is_of_others() {
        // What is known first may be of the time before the delay changed.
        for (queues, verdict) in [
            (&[61.4, 61.1, 61.1][..], Some((3, true))),
            (&[36.0, 45.0, 45.2], Some((3, true))),
            (&[61.4, 61.1, 65.0], Some((3, false))),
            (&[61.4, 65.0, 70.0], Some((3, false))),
            (&[36.0, 45.0], None),
        ] {
            let mut company = Company::default();
            assert_eq!(told(&mut company, 0, queues, 100.0), verdict, "{queues:?}");
        }
    }

    #[test]
    fn a_path_that_takes_longer_carries_what_it_carried_before_it_was_lowered() {
        let mut company = Company::default();
        for (step, share) in [1.0, 0.5, 0.25].into_iter().enumerate() {
            let now = at(100 * step as u64);
            company.lowered(now, 0.5, rate() * share);
            company.is_vain(&found(now, 0.0), QUEUE);
        }
        let carried = company.carried_if_delay(at(300), ms(100.0), QUEUE);
        assert!(
            carried.is_some_and(|carried| carried == rate()),
            "{carried:?}"
        );
        // Of the next queue nothing is known.
        company.lowered(at(400), 0.5, rate() * 0.25);
        company.relieved();
        company.lowered(at(500), 0.5, rate() * 0.5);
        assert!(company.before == Some(rate() * 0.5));
    }

    #[test]
    fn the_same_delay_is_not_believed_twice_in_ten_seconds_and_another_is() {
        let same = &[61.4, 61.1, 61.1];
        let mut company = Company::default();
        assert_eq!(told(&mut company, 1_000, same, 100.0), Some((3, true)));
        assert_eq!(told(&mut company, 5_000, same, 103.0), Some((3, false)));
        company.relieved();
        assert_eq!(told(&mut company, 7_000, same, 106.5), Some((3, true)));
        assert_eq!(told(&mut company, 12_000, same, 106.5), Some((3, false)));
        company.relieved();
        assert_eq!(told(&mut company, 18_000, same, 106.5), Some((3, true)));
    }

    #[test]
    fn what_was_lowered_for_a_short_queue_tells_nothing_of_a_long_one() {
        let mut company = Company::default();
        company.lowered(at(0), 0.5, rate());
        company.forget_queue();
        for step in 1..10 {
            assert!(!company.is_vain(&found(at(100 * step), 0.0), QUEUE));
        }
        for step in 10..12 {
            company.lowered(at(100 * step), 0.5, rate());
            assert!(!company.is_vain(&found(at(100 * step), 0.0), ms(10.0 * step as f64)));
        }
        company.forget_trials();
        company.lowered(at(1_200), 0.5, rate());
        assert!(!company.is_vain(&found(at(1_200), 0.0), QUEUE));
    }

    #[test]
    fn for_a_long_queue_that_stays_the_rate_is_lowered_by_a_quarter_until_it_is_gone() {
        let mut company = Company::default();
        assert_eq!(company.pressed(), 0.0);
        company.press();
        assert_eq!(company.pressed(), 0.25);
        company.relieved();
        assert_eq!(company.pressed(), 0.0);
    }

    #[test]
    fn after_competing_lowering_in_vain_once_is_enough_and_it_competes_for_longer() {
        let mut company = Company::default();
        company.compete(at(0), RTT);
        assert!(company.is_competing(at(9_999)) && !company.is_competing(at(10_000)));
        company.forget_queue();
        company.lowered(at(10_000), 0.5, rate());
        assert!(company.is_vain(&found(at(10_000), -0.2), QUEUE));
        company.compete(at(10_500), RTT);
        assert!(company.is_competing(at(30_499)) && !company.is_competing(at(30_500)));
        // The queue was empty for a moment: it is judged again, sooner than at first.
        company.forget_queue();
        company.left(at(25_000));
        assert!(!company.is_competing(at(25_000)));
        company.lowered(at(25_100), 0.5, rate());
        assert!(company.is_vain(&found(at(25_100), 0.0), QUEUE));
        // What was seen before that does not make it delay.
        let carried = company.carried_if_delay(at(25_100), ms(100.0), QUEUE);
        assert!(carried.is_none());
        company.compete(at(40_000), RTT);
        assert!(company.is_competing(at(79_999)) && !company.is_competing(at(80_000)));
        // They are gone: all begins anew.
        company.relieved();
        company.lowered(at(200_000), 0.5, rate());
        assert!(!company.is_vain(&found(at(200_000), 0.0), QUEUE));
        company.compete(at(200_000), RTT);
        assert!(!company.is_competing(at(210_000)));
    }

    #[test]
    fn what_it_carried_before_it_yielded_it_takes_again_for_two_round_trips() {
        let mut company = Company::default();
        company.lowered(at(0), 0.25, rate());
        company.lowered(at(100), 0.25, rate() * 0.75);
        assert!(company.regains(at(200)) == Rate::ZERO);
        company.compete(at(200), RTT);
        // Whoever opens the path judges the queue no more.
        company.forget_queue();
        assert!(company.regains(at(399)) == rate());
        assert!(company.regains(at(400)) == Rate::ZERO);
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

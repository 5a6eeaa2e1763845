//! How much of a queue may be none: what jitter adds to the delay of a path under load.
//!
//! A path whose jitter does not reorder delivers all behind the latest of its packets. Its mean delay then
//! grows with the load though no queue stands. How much, the jitter of probes tells while the path has
//! nothing else to carry. Few probes may agree by chance, and say too little: then the mean delay that differs from
//! epoch to epoch tells, and a queue with which far more was carried than before, as a full path cannot.
//!
//! So does the scatter of delays while the path is paced, beyond what the pacer's own bursts make: a path that is busy from
//! the start has no idle probes, and jitter of 14 ms was taken for a queue at a seventh of what it carries. Of 1,000
//! random pairs (`campaign --pairs 1000 --seed 20000`) the sum is 0.2 ± 0.2 % more late with it. Of the 51 of 10,000
//! (`--seed 100000`) that had less than 0.85 of the better link late, 9 have more.

use crate::send::scheduler::law::Law;
use crate::send::units::Span;
use crate::time::Time;
use crate::windowed::Windowed;

/// What is known of a path's jitter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Doubt {
    law: &'static Law,
    /// Mean deviation of probes, of an idle path.
    probed: Span,
    /// Scatter of delays of the paced path beyond that of its bursts, smoothed.
    noise: Span,
    /// Scatter of delays about their trend in an epoch, smoothed.
    scatter: Span,
    /// By how much the queue of an epoch differs from that of the one before, smoothed.
    step: Span,
    /// The queue of the last epoch.
    queue: Option<Span>,
    /// The longest queue beyond the target with which half as much again was carried.
    carried: Windowed<Span>,
}

impl Doubt {
    pub(super) fn new(law: &'static Law) -> Doubt {
        Doubt {
            law,
            probed: Span::ZERO,
            noise: Span::ZERO,
            scatter: Span::ZERO,
            step: Span::ZERO,
            queue: None,
            carried: Windowed::greatest(law.base_span),
        }
    }

    /// When half as much again was sent, that was carried, and no more than this queue showed: it is none.
    pub(super) fn carried(&mut self, now: Time, queue: Span) {
        self.carried.note(now, queue - self.law.target.into());
    }

    /// What probes tell. Where the path has nothing else to carry (`is_idle`), they also tell that what it scattered under
    /// load is over: a path that is left for its jitter is paced no more, and would keep it for ever.
    pub(super) fn probed(&mut self, jitter: Span, is_idle: bool) {
        self.probed = jitter;
        let calm = jitter + self.law.steady.into();
        if is_idle && self.noise > calm {
            self.noise = self.noise + (calm - self.noise) / 16.0;
        }
    }

    /// Mean deviation of a packet's delay: that of probes of an idle path, or the scatter while it is paced, as far as it
    /// is more than a steady path's may be.
    pub(super) fn jitter(&self) -> Span {
        self.probed.max(self.noise - self.law.steady.into())
    }

    /// What an epoch tells of a path that is paced, in bursts that it takes so long to deliver. Delays within a burst are
    /// evenly spread, and half of its length apart where it has two packets: they scatter by a quarter. The gain is that of
    /// RFC 3550 section 6.4.1.
    pub(super) fn paced(&mut self, scatter: Span, burst: Span) {
        let beyond = (scatter - burst / 4.0).max(Span::ZERO);
        let beyond = beyond.min(self.law.latest.into());
        self.noise = self.noise + (beyond - self.noise) / 16.0;
    }

    /// What an epoch tells.
    pub(super) fn epoch(&mut self, now: Time, scatter: Span, queue: Span) {
        self.carried.pass(now);
        let before = self.queue.replace(queue).unwrap_or(queue);
        let step = (queue - before).abs().min(self.law.latest.into());
        self.step = self.step + (step - self.step) / 4.0;
        self.scatter = self.scatter + (scatter - self.scatter) / 4.0;
    }

    /// Whether packets keep the distances in which the path delivers them.
    pub(super) fn is_steady(&self) -> bool {
        self.jitter() < Span::from(self.law.steady)
    }

    /// How much later packets come under load without any queue.
    pub(super) fn lateness(&self) -> Span {
        let by_jitter = self.jitter() * self.law.late_by_jitter;
        let by_queue = match self.is_steady() {
            true => Span::ZERO,
            false => {
                (self.step * self.law.late_by_step).max(self.carried.get().unwrap_or(Span::ZERO))
            }
        };
        by_jitter.max(by_queue).min(self.law.latest.into())
    }

    /// Whether the queue is longer than jitter would make it seem.
    pub(super) fn is_exceeded(&self, queue: Span) -> bool {
        queue > self.lateness() + self.law.stuck.into()
    }

    /// What a lone packet's delay has to exceed to tell of a queue.
    pub(super) fn of_one(&self) -> Span {
        Span::from(self.law.surely_a_queue()) + self.jitter() * 2.0
    }

    /// The queue that is aimed at.
    pub(super) fn target(&self) -> Span {
        Span::from(self.law.target) + self.scatter().max(self.lateness())
    }

    /// What the queue has to exceed for the path to be limited.
    pub(super) fn limit_above(&self) -> Span {
        Span::from(self.law.surely_a_queue()) + self.lateness().max(self.scatter() * 2.0)
    }

    /// What it has to exceed by far to end an epoch at once.
    pub(super) fn alarming(&self) -> Span {
        self.limit_above().max(self.scatter) * 3.0
    }

    fn scatter(&self) -> Span {
        self.scatter.min(self.law.latest.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(ms: f64) -> Span {
        Span::nanos(ms * 1e6)
    }

    #[test]
    fn where_probes_agree_by_chance_the_steps_of_the_queue_tell_how_late_packets_come() {
        for (jitter_ms, least, most) in [(0.5, 2.0, 2.5), (1.5, 30.0, 45.0), (12.0, 54.0, 54.1)] {
            let mut doubt = Doubt::new(&Law::LAW);
            doubt.probed(span(jitter_ms), false);
            for epoch in 0..40 {
                doubt.epoch(
                    Time::ZERO,
                    Span::ZERO,
                    span(if epoch % 2 == 0 { 10.0 } else { 30.0 }),
                );
            }
            let lateness = doubt.lateness();
            assert!(
                lateness >= span(least) && lateness <= span(most),
                "{jitter_ms} ms: {lateness:?}"
            );
        }
    }

    #[test]
    fn the_scatter_of_a_paced_path_beyond_that_of_its_bursts_is_jitter() {
        for (scatter_ms, burst_ms, jitter_ms, is_steady) in [
            (8.0, 4.0, 6.0, false),
            (1.0, 4.0, 0.0, true),
            (2.0, 1.0, 0.75, true),
            (400.0, 1.0, 149.0, false),
        ] {
            let mut doubt = Doubt::new(&Law::LAW);
            doubt.paced(span(10.0), span(burst_ms));
            assert!(doubt.is_steady(), "one epoch may be of others' packets");
            for _ in 0..200 {
                doubt.paced(span(scatter_ms), span(burst_ms));
            }
            let differs = (doubt.jitter() - span(jitter_ms)).abs();
            assert!(
                differs < span(0.01),
                "{scatter_ms} ms: {:?}",
                doubt.jitter()
            );
            assert_eq!(doubt.is_steady(), is_steady, "{scatter_ms} ms");
            doubt.probed(span(200.0), false);
            assert_eq!(doubt.jitter(), span(200.0), "probes say more");
        }
    }

    #[test]
    fn the_first_queue_and_a_steady_one_are_no_step() {
        let mut doubt = Doubt::new(&Law::LAW);
        doubt.probed(span(1.5), false);
        for _ in 0..10 {
            doubt.epoch(Time::ZERO, Span::ZERO, span(80.0));
        }
        assert_eq!(doubt.lateness().as_micros(), 6750);
    }

    #[test]
    fn a_queue_with_which_much_more_was_carried_is_lateness_for_a_while() {
        let mut doubt = Doubt::new(&Law::LAW);
        let at = |second: u64| Time::from_nanos(second * 1_000_000_000);
        doubt.probed(span(1.5), false);
        doubt.carried(at(1), span(30.0));
        doubt.carried(at(2), span(20.0));
        assert_eq!((doubt.lateness(), doubt.target()), (span(25.0), span(30.0)));
        for (second, lateness) in [(10, 25.0), (21, 6.75)] {
            doubt.epoch(at(second), Span::ZERO, Span::ZERO);
            assert_eq!(doubt.lateness(), span(lateness), "{second} s");
        }
        doubt.carried(at(22), span(400.0));
        assert_eq!(doubt.lateness(), span(150.0));
        // Where none jitters, a queue is one.
        doubt.probed(span(0.5), false);
        assert_eq!(doubt.lateness(), span(2.25));
    }

    #[test]
    fn idle_probes_end_what_was_scattered_under_load() {
        let mut doubt = Doubt::new(&Law::LAW);
        for _ in 0..100 {
            doubt.paced(span(40.0), span(0.0));
        }
        let under_load = doubt.jitter();
        assert!(under_load > span(30.0));
        for _ in 0..100 {
            doubt.probed(span(1.0), false);
        }
        assert_eq!(doubt.jitter(), under_load, "it is busy");
        for _ in 0..100 {
            doubt.probed(span(1.0), true);
        }
        assert!(doubt.jitter() < span(1.5), "{:?}", doubt.jitter());
    }
}

//! By how much the delay of a path rises at once: a cell, a satellite or a radio at the edge of what works does that
//! every few seconds, by tens or hundreds of milliseconds.
//!
//! What is under way then arrives by so much later than was expected when the path was chosen, and at the receiver
//! all waits for it that went over the others. On a path that carries little this costs more than the path brings: it
//! is used as if a packet always came so late, also while it is the quickest, and for what is sent again. On one that
//! carries its even share or more nothing is added, since the others would wait in vain for what they cannot carry
//! themselves.
//!
//! Six pairs of radio links have 0.721 of their sum late with this and 0.679 without (`campaign --weather
//! lte-good+lte-bad` and the like, `--pairs 6 --seed 5000`). Over links as people have them (`--family field --pairs 60
//! --seed 3000`) the mean is even (-0.2 ± 0.6 %), and 3.3 % in place of 5.0 % are below 0.85 of the better link. Random
//! pairs (`--pairs 300 --seed 3000`) do not differ. That it counts for the quickest path and for what is sent again,
//! too, gives links as people have them (`--seed 4000`) 0.5 ± 0.4 % more, with 8.3 % in place of 10.0 % below 0.95,
//! and sets of which one link changes (`--family changing --pairs 96 --seed 107`) 0.2 ± 0.15 % more during the change.
//!
//! On a path without a limit rises count as well. Where they did not, acknowledgements went over a path whose delay
//! changes between 100 and 1200 ms each second, and the flow had 0.81 of what the other link gives alone
//! (`--family field --one 4004`); it has 0.99.

use super::JUMP;
use crate::path::DRIFTS_AFTER;
use crate::send::scheduler::law::Law;
use crate::send::units::Span;
use crate::time::Time;
use crate::windowed::Windowed;

/// The rises of a path's delay.
#[derive(Debug, Clone, Copy)]
pub(super) struct Swing {
    /// When the last epoch ended, and its mean delay.
    before: Option<(Time, Span)>,
    rises: Windowed<Span>,
    /// What is counted for them.
    late: Span,
}

impl Swing {
    pub(super) fn new(law: &Law) -> Swing {
        Swing {
            before: None,
            rises: Windowed::greatest(law.base_span),
            late: Span::ZERO,
        }
    }

    /// An epoch's mean delay was this. Rises of no more than `noise` are none, nor is one of [`JUMP`]: the clock is another.
    /// After [`DRIFTS_AFTER`] without an epoch the clocks may have drifted apart by as much as a rise.
    pub(super) fn epoch(&mut self, now: Time, one_way: Span, noise: Span) {
        if let Some((at, before)) = self.before.replace((now, one_way))
            && now.since(at) < DRIFTS_AFTER
        {
            let rise = one_way - before;
            let is_rise = rise > noise && rise <= JUMP;
            self.rises
                .note(now, if is_rise { rise } else { Span::ZERO });
        }
    }

    /// The path carries this many times its even share. Only epochs let time pass for the rises: a path is left for them, and
    /// they come again. When time alone forgot them, a recording with a second of nothing in each ten, beside another link, had
    /// 23.8 Mbit/s in place of 28 or more (`cargo test -p mpt-sim --lib what_was_recorded`).
    pub(super) fn weigh(&mut self, shares: f64) {
        self.late = self.rises.get().unwrap_or_default() * (1.0 - shares).max(0.0);
    }

    /// By how much later than it should a packet is expected where another path would do.
    pub(super) fn late(&self) -> Span {
        self.late
    }
}

#[cfg(test)]
impl super::Pace {
    /// Its delay rose by so much, for tests of what the sender makes of that.
    pub(in super::super) fn rose(&mut self, now: Time, rise: std::time::Duration) {
        self.swing.rises.note(now, rise.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn span(ms: f64) -> Span {
        Span::nanos(ms * 1e6)
    }

    /// A path with these mean delays in milliseconds, one a second; what is counted for their rises then.
    fn late(delays_ms: &[f64], shares: f64) -> Span {
        let mut swing = Swing::new(&Law::LAW);
        for (second, &ms) in (0..).zip(delays_ms) {
            let now = Time::ZERO + Duration::from_secs(second);
            swing.epoch(now, span(ms), span(30.0));
        }
        swing.weigh(shares);
        swing.late()
    }

    #[test]
    fn what_clocks_drift_in_a_pause_is_no_rise() {
        let mut swing = Swing::new(&Law::LAW);
        let after = Time::ZERO + DRIFTS_AFTER;
        swing.epoch(Time::ZERO, span(50.0), span(30.0));
        swing.epoch(after, span(122.0), span(30.0));
        swing.weigh(0.0);
        assert_eq!(swing.late(), Span::ZERO);
    }

    #[test]
    fn the_greatest_rise_counts_by_how_little_the_path_carries() {
        let delays = [50.0, 90.0, 40.0, 140.0, 60.0, 100.0];
        assert_eq!(late(&delays, 0.0), span(100.0));
        assert_eq!(late(&delays, 0.25), span(75.0));
        for shares in [1.0, 1.8] {
            assert_eq!(late(&delays, shares), Span::ZERO);
        }
    }

    #[test]
    fn falls_noise_and_another_clock_are_no_rises() {
        let jump_ms = JUMP.as_secs() * 1e3;
        assert_eq!(late(&[50.0, 51.0 + jump_ms], 0.0), Span::ZERO);
        assert_eq!(late(&[140.0, 50.0, 20.0], 0.0), Span::ZERO);
        assert_eq!(late(&[50.0, 79.0, 50.0, 80.0], 0.0), Span::ZERO);
    }

    #[test]
    fn a_rise_is_forgotten_after_two_spans() {
        let mut delays = vec![50.0, 150.0];
        delays.resize(11, 150.0);
        assert_eq!(late(&delays, 0.0), span(100.0));
        delays.resize(25, 150.0);
        assert_eq!(late(&delays, 0.0), Span::ZERO);
    }
}

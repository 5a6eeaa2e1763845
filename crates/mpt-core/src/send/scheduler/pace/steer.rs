//! How the rate of a limited path is steered: by its queue, and by what it carries when more is tried.
//!
//! Where packets jitter, what looks like a queue may be none. When it has done so for long, it is put to the proof: more is
//! tried in spite of it, and when half as much again is carried and no more waits, it was jitter. Without that a path on
//! which a few probes had agreed by chance stayed at a fifth of what it carries (`campaign --one 3296`: 0.29 of the better
//! link alone late, and 0.84 with it). Of 1,000 random pairs (`--pairs 1000 --seed 20000`) 0.5 % are below 0.95 of the better link late, and 0.9 %
//! without; the sum is 0.3 ± 0.3 % more.

use super::Pace;
use super::epoch::Findings;
use super::phase::Phase;
use crate::control::trace::Why;
use crate::send::units::Span;
use crate::time::Time;

impl Pace {
    /// The share by which the rate should differ from what is delivered.
    fn correction(&self) -> f64 {
        let over = Span::from(self.law.correction).max(self.feedback() * 2.0);
        (self.doubt.target() - self.queue) / over
    }

    /// How long it takes until what is sent now shows in an epoch, were there no queue.
    fn feedback(&self) -> Span {
        let rtt = Span::from(self.rtt);
        (rtt - self.queue).max(rtt / 4.0) + self.epoch_span().into()
    }

    fn after_feedback(&self, now: Time, times: u32) -> Time {
        now + self.feedback().to_duration() * times
    }

    /// Paces the path so that its queue comes down to its target.
    pub(super) fn work_off(&mut self, now: Time) {
        let fall = (-self.correction()).clamp(0.0, 1.0 - self.law.least_gain);
        let fall = fall.max(self.company.pressed());
        self.company.lowered(now, fall, self.capacity);
        // Where jitter takes the queue above its target now and then, the pause counts from the last trial.
        let until = match self.phase {
            Phase::Cruise { until } if !self.doubt.is_steady() => until,
            Phase::Open
            | Phase::Cruise { .. }
            | Phase::Probe { .. }
            | Phase::Hold { .. }
            | Phase::Drain { .. } => self.after_feedback(now, self.pause),
        };
        self.limit(now, Phase::Cruise { until }, 1.0 - fall, Why::Queue);
    }

    /// Adapts the rate of a limited path.
    pub(super) fn steer(&mut self, now: Time, refused: bool, found: &Findings) {
        if let Phase::Drain { until } = self.phase {
            if now < until {
                return;
            }
            self.ran_dry(now);
            let phase = Phase::Cruise { until: now };
            self.limit(now, phase, 1.0, Why::Drained);
        }
        if self.correction() < 0.0 {
            if self.tries_in_spite(now, refused) {
                return self.search(now, refused, found);
            }
            if let Phase::Probe { .. } = self.phase {
                self.note_excess();
            }
            if !self.yields_to_others(now, found) && self.company.shows_in(found) {
                self.work_off(now);
            }
            return;
        }
        self.company.relieved();
        self.search(now, refused, found);
        if refused && now >= self.drain_at && !matches!(self.phase, Phase::Hold { .. }) {
            let standing = self.queue.max(self.law.target.into());
            let empty_after = (standing / (1.0 - self.law.drain_rate)).to_duration();
            let rest = self.rtt + self.law.epoch_span + empty_after;
            let phase = Phase::Drain { until: now + rest };
            self.limit(now, phase, self.law.drain_rate, Why::DrainDue);
        }
    }

    /// Whether a queue above its target may be jitter, and more is tried in spite of it: what it is shows when more is
    /// carried, or when it grows. Else one that is above the target at most times would never be tried at more.
    pub(super) fn tries_in_spite(&self, now: Time, refused: bool) -> bool {
        let may_be_jitter = !self.doubt.is_steady() && !self.doubt.is_exceeded(self.queue);
        may_be_jitter
            && match self.phase {
                Phase::Cruise { until } => {
                    refused && now >= self.after_feedback(until, self.pause * 2)
                }
                Phase::Probe { borne, .. } => self.queue <= borne,
                Phase::Open | Phase::Hold { .. } | Phase::Drain { .. } => false,
            }
    }

    /// Tries whether the path carries more, while no queue stands, or none that is known to be one.
    fn search(&mut self, now: Time, refused: bool, found: &Findings) {
        match self.phase {
            Phase::Probe {
                since, from, step, ..
            } if found.sent >= since => {
                self.step = (step * 2.0).min(self.law.last_step);
                self.pause = self.law.first_pause;
                if self.capacity > from * (1.0 + step * self.law.step_helped) {
                    if step >= self.law.last_step {
                        self.doubt.carried(now, self.queue);
                    }
                    self.probe(now, Why::Carried);
                } else {
                    self.cruise(now, Why::NotCarried);
                }
            }
            Phase::Probe { step, .. } => self.follow(now, 1.0 + step),
            Phase::Hold { until, .. } if now < until => self.follow(now, self.law.tried_rate),
            Phase::Cruise { until } if refused && now >= until => self.probe(now, Why::TryMore),
            Phase::Cruise { .. } => self.follow(now, 1.0),
            Phase::Hold { .. } => self.cruise(now, Why::Held),
            Phase::Drain { .. } => self.cruise(now, Why::Drained),
            Phase::Open => {}
        }
    }

    /// The rate follows the capacity.
    fn follow(&mut self, now: Time, gain: f64) {
        self.limit(now, self.phase, gain, Why::Capacity);
    }

    fn cruise(&mut self, now: Time, why: Why) {
        let until = self.after_feedback(now, self.pause);
        self.limit(now, Phase::Cruise { until }, 1.0, why);
    }

    /// More than the path carries was tried.
    pub(super) fn note_excess(&mut self) {
        self.step = self.law.first_step;
        self.pause = (self.pause * 2).min(self.law.last_pause);
    }

    fn probe(&mut self, now: Time, why: Why) {
        let (from, step) = (self.capacity, self.step);
        let phase = Phase::Probe {
            since: now,
            from,
            step,
            borne: self.queue + self.law.target.into(),
        };
        self.limit(now, phase, 1.0 + step, why);
    }

    /// Whether the queue, which is above its target, is not ours to shorten. A long one is of others, or, if it never
    /// changes, delay; a short one is left alone until it is judged again, since jitter looks like it.
    fn yields_to_others(&mut self, now: Time, found: &Findings) -> bool {
        let stays = self.company.stays(now, self.queue, self.rtt);
        if !self.doubt.is_exceeded(self.queue) {
            self.company.forget_trials();
            if stays {
                self.note(now, Why::Jitter);
            }
            return stays;
        }
        if stays {
            self.company.press();
        }
        if !self.company.is_vain(found, self.queue) {
            return false;
        }
        if let Some(carried) = self
            .company
            .carried_if_delay(now, found.one_way, self.queue)
        {
            // What was delivered since was no more than was let go.
            self.capacity = self.capacity.max(carried);
            self.begin_base(now, found.one_way);
            self.cruise(now, Why::Longer);
            return true;
        }
        if !self.company.is_worth_it() {
            return false;
        }
        self.company.compete(now, self.round_trip());
        self.open(now, Why::Others);
        true
    }
}

//! The largest packet that a path carries, found by probes that are padded to a size (RFC 8899).
//!
//! ICMP tells of a packet that was too big, where it is let through, and anybody can send it. So a
//! sealed tunnel asks the path itself: a probe that is padded to a size and answered proves that packets
//! of that size arrive. One that is not answered may have been lost like any other packet. Therefore
//! each is followed by a small companion, late enough not to overtake it as far as is known, and only when
//! that one comes back and the padded one does not within another round trip, several times in a row, is the
//! size taken for too big. How many times depends on what the path loses anyway: what it lost of sizes that it was
//! then seen to carry, and what it seems to lose now. Of the latter a black hole is itself the cause, so that it counts
//! no more than is likely where nothing that should come was lost of late.
//!
//! * *Confirm*: is the size that is in use still carried? Asked when a path comes up or moves, every
//!   [`CONFIRM_INTERVAL`] after that, and when ICMP says otherwise. If not, the path is a black hole
//!   for such packets: the size falls, to what ICMP said, or to the base that nearly every path carries,
//!   or to the least.
//! * *Search*: between what is carried and what is not, by halves.
//! * *Raise*: the size has fallen, and the one that it fell from is tried once, then the full one.
//! * *Rest*: the two meet. What made the size fall may pass soon, so that is done every
//!   [`RETRY_INTERVAL`] at first; then all is searched again after [`RAISE_AFTER`], and every
//!   [`RAISE_INTERVAL`].
//!
//! Until the first answer a path is believed to carry what is configured: most do, and a tunnel need
//! not begin narrow to find that out.

use std::time::Duration;

use crate::time::Time;

/// The time between two proofs that what is in use is still carried.
const CONFIRM_INTERVAL: Duration = Duration::from_secs(10);
/// After this long the full size is tried again: PMTU_RAISE_TIMER of RFC 8899 §5.1.1.
const RAISE_INTERVAL: Duration = Duration::from_secs(600);
/// So often the full size is tried after a fall …
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// … for this long,
const RETRIED_FOR: Duration = Duration::from_secs(60);
/// and then all is searched again after these pauses.
const RAISE_AFTER: [Duration; 3] = [
    Duration::from_secs(10),
    Duration::from_secs(20),
    Duration::from_secs(40),
];
/// Least time between two probes, so that one full queue does not swallow several.
const SPACING: Duration = Duration::from_millis(100);
/// An answer takes hardly longer than so many smoothed round trips, and than this.
const PATIENCE: u32 = 3;
const LEAST_PATIENCE: Duration = Duration::from_millis(200);
/// A path that loses so much more of all packets than of probes, 0 to 1, may be one that swallows large ones. With this and
/// [`SMOOTHED_OVER`] none of 200 tunnels seemed narrow within 600 s over paths that lose 30 % each way.
const MORE_LOST: f64 = 0.075;
/// A hint that turned out to be false makes the next ones wait for this long.
const HINT_INTERVAL: Duration = Duration::from_secs(1);
/// Probes of one size that are lost before it is taken for too big: MAX_PROBES of RFC 8899 §5.1.2 ...
const LEAST_LOST: u32 = 3;
/// ... or more, until that happens by chance with this probability. A path is confirmed 360 times an hour, so that it
/// seems narrow by chance once in 1,400 hours.
const BY_CHANCE: f64 = 2e-6;
/// What a path loses of probes is smoothed over so many that came back.
const SMOOTHED_OVER: f64 = 64.0;
/// Before the first, so many are taken to have come back and none to be lost.
const KNOWN_FIRST: f64 = 8.0;
/// Where none of `n` is lost, hardly more than `3 / n` of all are: the "rule of three", with a confidence of 95 %.
const RULE_OF_THREE: f64 = 3.0;

/// The sizes between which the search goes, in bytes of the inner packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// What is configured: nothing larger is tried.
    pub(crate) ceiling: u16,
    /// What nearly every path carries.
    pub(crate) base: u16,
    /// What every path has to carry.
    pub(crate) least: u16,
}

/// The search on one path.
#[derive(Debug, Clone)]
pub(crate) struct MtuSearch {
    bounds: Bounds,
    /// What is in use.
    size: u16,
    /// The least that is known not to be carried; beyond the ceiling when nothing is.
    too_big: u16,
    step: Step,
    /// What ICMP says that the path carries, and nothing has shown.
    hint: Option<u16>,
    next_hint: Time,
    probe: Option<Probe>,
    /// Probes of this size that were lost in a row, though their companions came back.
    lost: u32,
    /// The share of probes that the path loses of what it carries, smoothed, 0 to 1 in the long run.
    loss: f64,
    /// Over so many probes that came back.
    known: f64,
    /// Probes in a row that came back, and none before them was lost but by its size.
    clean: u32,
    next: Time,
    /// No other probe is sent before.
    spaced_until: Time,
    raise_at: Time,
    /// When the size fell below the full one, and how often it was searched for since.
    fell: Option<(Time, usize)>,
    /// What it fell from.
    fell_from: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Confirm,
    Search,
    Raise,
    Rest,
}

/// A padded probe that is under way.
#[derive(Debug, Clone, Copy)]
struct Probe {
    number: u32,
    size: u16,
    /// When it is sent again if neither it nor its companion came back.
    again_at: Time,
    /// How long after its companion it may come back.
    grace: Duration,
    companion: Companion,
}

/// The small message behind a padded one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Companion {
    /// To be sent then: it must not overtake the padded one.
    Due(Time),
    /// Sent, with this number.
    Sent(u32),
    /// It came back. The padded one is lost if it does not come until then: the last of so many in a row
    /// that are hardly lost by chance.
    Answered(Time, u32),
}

impl MtuSearch {
    pub(crate) fn new(bounds: Bounds) -> MtuSearch {
        let mut search = MtuSearch {
            bounds,
            size: bounds.ceiling,
            too_big: 0,
            step: Step::Confirm,
            hint: None,
            next_hint: Time::ZERO,
            probe: None,
            lost: 0,
            loss: 0.0,
            known: KNOWN_FIRST,
            clean: 0,
            next: Time::ZERO,
            spaced_until: Time::ZERO,
            raise_at: Time::ZERO,
            fell: None,
            fell_from: 0,
        };
        search.begin(Time::ZERO);
        search
    }

    /// The largest inner packet that the path is taken to carry, in bytes.
    pub(crate) fn size(&self) -> u16 {
        self.size
    }

    /// What is being tried is not known to be carried, so that the size may change soon.
    pub(crate) fn is_searching(&self) -> bool {
        self.step == Step::Search
            || self.step == Step::Confirm && self.too_big <= self.bounds.ceiling
    }

    /// Nothing is being found out.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.step == Step::Rest && self.probe.is_none()
    }

    /// The path has come up, or leads elsewhere: nothing of before need hold.
    pub(crate) fn begin(&mut self, now: Time) {
        self.too_big = self.bounds.ceiling.saturating_add(1);
        self.turn_to(Step::Confirm, now);
    }

    /// Searches between other bounds.
    pub(crate) fn set_bounds(&mut self, now: Time, bounds: Bounds) {
        if self.bounds != bounds {
            *self = MtuSearch::new(bounds);
            self.begin(now);
        }
    }

    /// ICMP says that the path carries packets of `size` bytes only. That is looked into, not believed.
    pub(crate) fn suspect(&mut self, now: Time, size: u16) {
        let size = size.max(self.bounds.least);
        if size < self.size && now >= self.next_hint {
            self.hint = Some(size);
            self.next_hint = now + HINT_INTERVAL;
            if self.step != Step::Confirm {
                self.turn_to(Step::Confirm, now);
            }
        }
    }

    /// `loss` of all packets are lost on the way there, 0 to 1: where that is more than of probes, it may be for their
    /// size. Of a probe's losses half are on the way there.
    pub(crate) fn doubt(&mut self, now: Time, loss: f64) {
        let is_more = loss >= self.loss / 2.0 + MORE_LOST;
        if is_more && self.step == Step::Rest && now >= self.next_hint {
            self.next_hint = now + HINT_INTERVAL;
            self.turn_to(Step::Confirm, now);
        }
    }

    /// When to ask [`MtuSearch::due`] next.
    pub(crate) fn poll_timeout(&self) -> Time {
        match self.probe {
            None => self.next,
            Some(Probe {
                companion: Companion::Due(at) | Companion::Answered(at, _),
                ..
            }) => at,
            Some(probe) => probe.again_at,
        }
    }

    /// The size of the probe that is due, if one is: send it with a small one behind it and say so by
    /// [`MtuSearch::sent`].
    pub(crate) fn due(&mut self, now: Time) -> Option<u16> {
        if now < self.poll_timeout() || self.is_companion_due(now) {
            return None;
        }
        self.give_up(now);
        if now < self.poll_timeout() {
            return None;
        }
        if self.step == Step::Rest && now >= self.raise_at && self.size < self.bounds.ceiling {
            if self.is_retried(now) {
                self.step = Step::Raise;
            } else {
                self.too_big = self.bounds.ceiling.saturating_add(1);
                self.step = Step::Search;
            }
        }
        Some(match self.step {
            Step::Raise if self.size < self.fell_from => self.fell_from,
            Step::Raise => self.bounds.ceiling,
            Step::Search if self.too_big > self.bounds.ceiling => self.bounds.ceiling,
            Step::Search => self.size + (self.too_big - self.size) / 2,
            Step::Confirm | Step::Rest => self.size,
        })
    }

    /// The probe that is under way does not come back: it was lost, if its companion did.
    fn give_up(&mut self, now: Time) {
        let Some(probe) = self.probe.take() else {
            return;
        };
        let Companion::Answered(_, needed) = probe.companion else {
            self.clean = 0;
            return;
        };
        self.lost += 1;
        self.next = now;
        if self.lost >= needed || self.step == Step::Raise {
            self.not_carried(now, probe.size);
        }
    }

    /// Whether the small message behind the padded one is due: say by [`MtuSearch::companion_sent`] that
    /// it was sent.
    pub(crate) fn is_companion_due(&self, now: Time) -> bool {
        let companion = self.probe.map(|probe| probe.companion);
        matches!(companion, Some(Companion::Due(at)) if at <= now)
    }

    pub(crate) fn companion_sent(&mut self, number: u32) {
        if let Some(probe) = &mut self.probe {
            probe.companion = Companion::Sent(number);
        }
    }

    /// A probe of `size` with this number was sent, on a path with this smoothed round-trip time, on which
    /// nothing that is sent `overtaking` later overtakes it.
    pub(crate) fn sent(
        &mut self,
        now: Time,
        number: u32,
        size: u16,
        rtt: Duration,
        overtaking: Duration,
    ) {
        if self.step == Step::Rest {
            self.step = Step::Confirm;
        }
        self.spaced_until = now + SPACING;
        self.probe = Some(Probe {
            number,
            size,
            again_at: now + overtaking + (rtt * PATIENCE).max(LEAST_PATIENCE),
            grace: rtt.max(SPACING),
            companion: Companion::Due(now + overtaking),
        });
    }

    /// The message with this number came back, on a path that seems to lose `loss` of its round trips, 0 to 1: packets
    /// that are too big are among them.
    pub(crate) fn answered(&mut self, now: Time, number: u32, loss: f64) {
        let Some(probe) = &mut self.probe else {
            return;
        };
        if number == probe.number {
            let size = probe.size;
            self.probe = None;
            return self.carried(now, size);
        }
        // What was sent in between may have overtaken it.
        if matches!(probe.companion, Companion::Sent(companion) if number >= companion) {
            let likely = RULE_OF_THREE / f64::from(self.clean);
            let needed = needed(loss.min(likely).max(self.loss));
            probe.companion = Companion::Answered(now + probe.grace, needed);
        }
    }

    fn carried(&mut self, now: Time, size: u16) {
        // So the losses before it were not for its size. Of `q` that are lost, one that comes back stands for `q` that
        // do not while their companions do: `q (1 - q)` of all against `1 - q`.
        self.known = (self.known + 1.0).min(SMOOTHED_OVER);
        self.loss += (f64::from(self.lost) - self.loss) / self.known;
        self.clean = if self.lost == 0 { self.clean + 1 } else { 0 };
        self.size = self.size.max(size);
        if self.size >= self.too_big {
            self.too_big = self.bounds.ceiling.saturating_add(1);
        }
        if self.size >= self.bounds.ceiling {
            self.fell = None;
        }
        if self.hint.take() == Some(size) {
            // It was true: there is nothing to be found above it.
            self.too_big = size + 1;
        }
        if self.too_big - self.size > 1 {
            self.turn_to(Step::Search, now);
        } else {
            self.rest(now);
        }
    }

    fn not_carried(&mut self, now: Time, size: u16) {
        if self.step == Step::Raise {
            return self.rest(now);
        }
        self.too_big = size;
        if self.step == Step::Search {
            if self.too_big - self.size > 1 {
                self.turn_to(Step::Search, now);
            } else {
                self.rest(now);
            }
            return;
        }
        let Bounds { base, least, .. } = self.bounds;
        if self.size <= least {
            return self.rest(now);
        }
        if !self.is_retried(now) {
            self.fell = Some((now, 0));
            self.fell_from = self.size;
        }
        let hint = self.hint.filter(|hint| *hint < self.size);
        self.size = hint.unwrap_or(if self.size > base { base } else { least });
        self.turn_to(Step::Confirm, now);
    }

    fn turn_to(&mut self, step: Step, now: Time) {
        self.step = step;
        self.probe = None;
        self.lost = 0;
        self.next = now.max(self.spaced_until);
    }

    fn rest(&mut self, now: Time) {
        if matches!(self.step, Step::Search | Step::Raise) || self.raise_at <= now {
            self.raise_at = now + self.until_raised(now);
        }
        let confirmed_at = now + CONFIRM_INTERVAL;
        let next = match self.size < self.bounds.ceiling {
            true => confirmed_at.min(self.raise_at),
            false => confirmed_at,
        };
        self.turn_to(Step::Rest, next);
    }

    /// Whether the full size is to be tried soon again.
    fn is_retried(&self, now: Time) -> bool {
        self.fell.is_some_and(|(at, _)| now.since(at) < RETRIED_FOR)
    }

    fn until_raised(&mut self, now: Time) -> Duration {
        if self.is_retried(now) {
            return RETRY_INTERVAL;
        }
        let Some((_, searches)) = &mut self.fell else {
            return RAISE_INTERVAL;
        };
        let pause = RAISE_AFTER.get(*searches).copied();
        *searches += 1;
        pause.unwrap_or(RAISE_INTERVAL)
    }
}

/// How many probes have to be lost in a row before that is hardly chance, where `loss` of all are. Those whose companions
/// are lost as well tell nothing; of the others `loss / (1 + loss)` are lost.
fn needed(loss: f64) -> u32 {
    let loss = loss.clamp(1e-6, 1.0);
    let needed = BY_CHANCE.ln() / (loss / (1.0 + loss)).ln();
    (needed.ceil() as u32).max(LEAST_LOST)
}

#[cfg(test)]
mod tests;

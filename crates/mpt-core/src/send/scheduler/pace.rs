//! How much a path takes, learnt from what arrives.
//!
//! A path begins *open*: it takes what there is, as in TCP's slow start, and no more than twice what it delivers in
//! a round trip, so that its buffer need not tell (compare BBR's Startup, draft-ietf-ccwg-bbr). Each receiver report gives a
//! sample: the newest number that arrived on the path, when, and how much arrived by then. A few make
//! an *epoch*, and an epoch tells
//!
//! - the queue on the path, as delay: the mean one-way delay less the least such mean of the last seconds. The
//!   clocks' offset is in both and cancels; means, not single samples, since a path with jitter
//!   has no least delay worth the name;
//! - the noise of that, as the scatter about the trend (jitter may also make a queue seem to stand
//!   where none does: [`doubt`]);
//! - what was delivered in a second, and the same while a queue stood, which is the path's capacity;
//! - what was lost.
//!
//! Once a queue shows, the path is *limited* to its capacity ([`phase`]): what it delivers while a queue stands,
//! or more, if it ever delivered more. The capacity is remembered apart from the rate, so that a queue is worked
//! off at less, and the rate is back at once when that is done. While no queue shows the path is tried at a
//! little more, and, as long as nothing speaks against it, at ever more: so a rate that was too low is right
//! after a few round trips, and one that is right costs a twentieth more for a round trip now and then (compare
//! BBR, draft-ietf-ccwg-bbr, which tries a quarter more each time; Copa, NSDI 2018; and RFC 6817 on delay as a
//! signal). As a queue that stands all the time would become the new normal, the path is let run dry every few
//! seconds. A trickle, as a call is, tells nothing of all that: what is delivered of it is what was offered.
//!
//! *Loss.* A path with a very short buffer drops before any delay can be seen; a radio link drops at
//! any rate. When more is lost than usual, the path is held below what it delivered: if as much is lost then, it
//! is the link's nature and from now on usual; if not, it was the rate. Packets are counted all the time, not by
//! epoch: bursts with pauses between them make none.
//!
//! *Disorder.* What a path delays or loses makes all that is behind it wait at the receiver. That counts as
//! delay of the path when paths are chosen, so that a small bad path is used when it helps, and not first. So does
//! a delay that rises by itself now and then ([`swing`]).
//!
//! *Company.* Others may fill the same queue. Pacing then only yields to them. If a long queue does not
//! shrink though the path takes less several times over, it is not ours ([`company`]): the path is opened
//! for some seconds, and the inner flows' own congestion control competes, as it would without a tunnel, unless
//! the path carries little beside other paths. If the queue stays the same meanwhile, it is none, and the path takes
//! longer than before. If it is a short one that does not shrink, jitter makes it seem to be there, and it is allowed
//! for. How much of it is jitter shows when more is tried in spite of it ([`steer`]). On a path that carries little, probes
//! and single packets tell of the queues of others.

mod company;
mod credit;
mod doubt;
mod epoch;
mod known;
mod loss;
mod phase;
mod room;
mod steer;
mod swing;
mod train;

use std::time::Duration;

use company::Company;
use credit::Credit;
use doubt::Doubt;
use epoch::{Epoch, Findings};
use loss::Loss;
use phase::Phase;
use swing::Swing;
use train::Trains;

use super::law::Law;
use super::trace::Decisions;
use crate::control::trace::Why;
use crate::path::{Answered, CLOCK_JUMP};
use crate::send::units::{Rate, Span};
use crate::time::Time;
use crate::windowed::Windowed;

pub(crate) use epoch::Sample;

/// A delay that differs by more is one by another clock.
const JUMP: Span = Span::nanos(CLOCK_JUMP as f64);
/// No two samples of an epoch are further apart, however slow the path.
const LONGEST_GAP: Duration = Duration::from_secs(2);

/// The estimates of a path and the rate that follows from them.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    law: &'static Law,
    phase: Phase,
    /// What it is paced at; none while open.
    rate: Option<Rate>,
    /// What it carries when it is busy all the time, as far as that is known.
    capacity: Rate,
    /// Feedback times until the next step, and by how much more than the capacity that will be.
    pause: u32,
    step: f64,
    credit: Credit,
    trains: Trains,
    epoch: Option<Epoch>,
    rtt: Duration,
    /// For how long of that the probe waited in a queue on the way there.
    probe_waited: Span,
    /// The least mean delay.
    base: Windowed<Span>,
    /// What a probe took.
    probed: Option<Span>,
    /// What the last probe took, when that was far less than the least delay.
    faster: Option<Span>,
    /// For how long what comes over it makes others wait.
    holds_up: Span,
    swing: Swing,
    doubt: Doubt,
    queue: Span,
    /// When an epoch told of the queue …
    queue_told: Time,
    /// … until when the queue is believed to be as long as what told of it last said …
    queue_holds_until: Time,
    /// … and how much of it was what was under way from here: that has been worked off soon after, and the rest may stay.
    own_queue: Span,
    delivered: Rate,
    /// The most that it delivered.
    best: Rate,
    /// The last epoch found the queue too long for an open path.
    above_before: bool,
    /// When it is let run dry next; zero before its first limit.
    drain_at: Time,
    loss: Loss,
    /// What was sent later than this was sent at the rate that is held.
    held_since: Time,
    company: Company,
    /// It is not limited before.
    fast_until: Time,
    decisions: Decisions,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace::new(&Law::LAW)
    }
}

impl Pace {
    /// A path of which nothing is known.
    pub(crate) fn new(law: &'static Law) -> Pace {
        Pace {
            law,
            phase: Phase::Open,
            rate: None,
            capacity: Rate::ZERO,
            pause: law.first_pause,
            step: law.first_step,
            credit: Credit::new(law),
            trains: Trains::new(law),
            epoch: None,
            rtt: Duration::from_millis(100),
            probe_waited: Span::ZERO,
            base: Windowed::least(law.base_span),
            probed: None,
            faster: None,
            holds_up: Span::ZERO,
            swing: Swing::new(law),
            doubt: Doubt::new(law),
            queue: Span::ZERO,
            queue_told: Time::ZERO,
            queue_holds_until: Time::ZERO,
            own_queue: Span::ZERO,
            delivered: Rate::ZERO,
            best: Rate::ZERO,
            above_before: false,
            drain_at: Time::ZERO,
            loss: Loss::new(law),
            held_since: Time::ZERO,
            company: Company::new(law),
            fast_until: Time::ZERO,
            decisions: Decisions::default(),
        }
    }

    /// The path is another one now: nothing is known of it. What was decided until now stays told.
    pub(crate) fn forget(&mut self) {
        let decisions = std::mem::take(&mut self.decisions);
        *self = Pace {
            decisions,
            ..Pace::new(self.law)
        };
    }

    /// A probe came back.
    pub(crate) fn probed(&mut self, now: Time, probed: &Answered) {
        self.rtt = probed.rtt;
        self.doubt.probed(
            Span::nanos(probed.jitter_ns as f64),
            probed.idle_ns.is_some(),
        );
        let one_way = Span::nanos(probed.idle_ns.unwrap_or(probed.forward_ns) as f64);
        let is_new = self.probed.replace(one_way).is_none();
        if let Some(median) = probed.idle_ns {
            let median = Span::nanos(median as f64);
            match self.base.get() {
                Some(least) if (median - least).abs() > JUMP => self.begin_base(now, median),
                Some(_) | None => self.base.note(now, median),
            }
        }
        let waited = self.behind(probed.forward_ns).unwrap_or(Span::ZERO);
        self.probe_waited = waited.max(Span::ZERO).min(self.rtt.into());
        self.glimpse(now, probed.forward_ns);
        self.consider_faster(now, Span::nanos(probed.forward_ns as f64));
        if is_new {
            self.note(now, Why::New);
        }
    }

    /// Two probes in a row that are far earlier than the least delay tell that the path leads another way now,
    /// or is no more held up. What is known of its queue was said of the former one.
    fn consider_faster(&mut self, now: Time, one_way: Span) {
        let far = self.doubt.of_one() * 2.0;
        let is_far = self.base.get().is_some_and(|least| one_way < least - far);
        if !is_far {
            self.faster = None;
        } else if let Some(before) = self.faster.replace(one_way) {
            self.begin_base(now, one_way.max(before));
            (self.faster, self.epoch) = (None, None);
        }
    }

    /// The path takes this long now, without a queue: what was its least delay is forgotten.
    fn begin_base(&mut self, now: Time, one_way: Span) {
        self.base = Windowed::least(self.law.base_span);
        self.base.note(now, one_way);
        self.queue = Span::ZERO;
    }

    /// By how much a packet that took so many nanoseconds took longer than the least delay, if that is known.
    fn behind(&self, one_way: i64) -> Option<Span> {
        Some(Span::nanos(one_way as f64) - self.base.get()?)
    }

    /// A lone packet took this long: where few are sent it tells of the queue, which others may fill, and that a queue is gone,
    /// or was none but a gap in which nothing passed.
    fn glimpse(&mut self, now: Time, one_way: i64) {
        let Some(behind) = self.behind(one_way) else {
            return;
        };
        let is_news = now.since(self.queue_told) > self.law.seen && behind < JUMP;
        if !is_news {
            return;
        }
        let (own, of_one) = (self.own_queue_now(), self.doubt.of_one());
        // A packet that waited for nobody tells that the queue is gone, but for what is under way from here.
        let shorter = behind.max(own);
        let queue = match behind > of_one {
            true => behind,
            false if shorter + of_one < self.queue => shorter,
            false => return,
        };
        (self.queue, self.own_queue) = (queue, own.min(queue));
        self.queue_holds_until = now + self.law.glimpsed;
    }

    /// How long what is under way lasts, at the rate that the path takes.
    fn own_queue_now(&self) -> Span {
        self.carries().span_for(self.credit.under_way())
    }

    /// Considers for how long what comes over it makes others wait at the receiver: for packets that jitter
    /// delays and, if it `recovers`, for lost ones until they came again; and what the rises of its delay count for, and
    /// whether it is worth competing for and coming back to at once, when it carries so many times its even `shares`.
    ///
    /// All that goes over other paths waits for what is lost here. A path that carries less than its even share is
    /// therefore hardly used before the one that carries most, which takes as long as `main`, for being quicker alone. Of
    /// 1,000 random pairs (`campaign --pairs 1000 --seed 20000`) 0.3 % are below 0.95 of the better link late, and 0.7 %
    /// without; the sum is the same (+0.0 ± 0.3 %).
    pub(crate) fn weigh_disorder(&mut self, recovers: bool, shares: f64, main: Option<Span>) {
        self.swing.weigh(shares);
        self.company.weigh(shares);
        let late = self.doubt.jitter() * self.law.tail_jitters;
        let again = self.rtt.as_secs_f64() + late.as_secs();
        let lost_per_second =
            (self.delivered * self.loss.smoothed()).bytes_a_second() / self.law.mean_bytes;
        // Half the packets that come meanwhile wait for less than half of it.
        let mean = (lost_per_second * again).min(1.0) * again * 1e9 / 2.0;
        let lost = Span::nanos(if recovers { mean } else { 0.0 });
        let own = self.base.get().or(self.probed);
        let ahead = main.zip(own).map_or(Span::ZERO, |(main, own)| main - own);
        let ahead = ahead.max(Span::ZERO) * (1.0 - shares).max(0.0);
        let of_others = lost * self.law.losses_weigh / shares.max(f64::MIN_POSITIVE);
        self.holds_up = late + lost + of_others.min(ahead);
    }

    /// Takes a sample.
    pub(crate) fn sample(&mut self, now: Time, sample: Sample) {
        let (sent, arrived) = (sample.sent_bytes, sample.arrived_bytes);
        self.credit.answered(now, sent, arrived, self.rtt);
        if !self.was_limited() {
            let round_trip = self.empty_round_trip().to_duration();
            self.credit.note_round(now, round_trip);
        }
        let known = self.epoch.map(|epoch| epoch.last.sent_packets);
        if known == Some(sample.sent_packets) {
            // Nothing came meanwhile.
            return;
        }
        self.glimpse(now, sample.one_way);
        self.loss.count(&sample, self.held_since);
        self.judge_loss(now);
        let longest_gap = self.longest_gap();
        let Some(epoch) = self
            .epoch
            .as_mut()
            .filter(|epoch| epoch.last.goes_on(&sample, longest_gap))
        else {
            let last = self.epoch.replace(Epoch::new(self.law, sample));
            let rested = |last: Epoch| sample.sent.since(last.last.sent) > self.law.glimpsed;
            if self.was_limited() && last.is_some_and(rested) {
                self.ran_dry(now);
            }
            return;
        };
        let last = epoch.last;
        epoch.add(sample, self.base.get().unwrap_or(Span::MAX));
        self.consider_train(now, last, sample);
        if self.epoch_is_over() {
            self.conclude(now);
        }
    }

    /// An open path gets a limit when trains tell its capacity.
    fn consider_train(&mut self, now: Time, last: Sample, sample: Sample) {
        if !self.doubt.is_steady() {
            return;
        }
        let capacity = self.trains.observe(last, sample);
        let Some(capacity) = capacity.filter(|&capacity| capacity < self.law.fastest) else {
            return;
        };
        if self.rate.is_none() && self.may_be_limited(now) {
            self.capacity = capacity;
            self.limit(now, Phase::Cruise { until: now }, 1.0, Why::Trains);
        }
    }

    /// How far apart samples of an epoch may be.
    fn longest_gap(&self) -> Duration {
        let slow = self.rate.map_or(Duration::ZERO, |rate| {
            let train = self.law.train_packets as f64 * self.law.mean_bytes;
            let takes = rate.time_for(train);
            takes.unwrap_or(Duration::MAX).min(LONGEST_GAP)
        });
        self.law.epoch_gap.max(self.rtt).max(slow)
    }

    fn epoch_is_over(&self) -> bool {
        let Some(epoch) = &self.epoch else {
            return false;
        };
        if epoch.samples < self.law.epoch_samples {
            return false;
        }
        let enough =
            epoch.packets() >= self.law.epoch_packets || epoch.span() >= self.law.epoch_span * 4;
        let least = self.base.get().unwrap_or(Span::MAX);
        // A queue that grows fast is not watched for long.
        let alarming = epoch.mean_one_way() - least > self.doubt.alarming();
        enough && (alarming || epoch.span() >= self.epoch_span())
    }

    fn epoch_span(&self) -> Duration {
        let jitters = (self.doubt.jitter() * self.law.epoch_jitters).to_duration();
        self.law.epoch_span.max(self.rtt / 3).max(jitters)
    }

    fn conclude(&mut self, now: Time) {
        let Some(epoch) = self.epoch.take() else {
            return;
        };
        self.epoch = Some(Epoch::new(self.law, epoch.last));
        let found = epoch.findings();
        let is_jump = |least: Span| (found.one_way - least).abs() > JUMP;
        if self.base.get().is_some_and(is_jump) {
            self.base = Windowed::least(self.law.base_span);
        }
        self.swing.epoch(now, found.one_way, self.doubt.alarming());
        self.base.note(now, found.one_way);
        let least = self.base.get().unwrap_or(found.one_way);
        self.queue = found.one_way - least;
        (self.queue_told, self.queue_holds_until) = (now, now + self.law.seen);
        self.own_queue = self.own_queue_now().min(self.queue);
        self.doubt.epoch(now, found.noise, self.queue);
        if let Some(rate) = self.rate {
            let burst = rate.span_for(self.credit.burst(rate));
            self.doubt.paced(found.noise, burst);
        }
        if self.queue <= self.doubt.target() {
            self.company.left(now);
        }
        self.delivered = found.delivered;
        self.best = self.best.max(found.delivered);
        if found.delivered > self.law.fast {
            self.fast_until = now + self.law.base_span;
            self.open(now, Why::Fast);
        }
        // Who offers bursts with pauses between them is refused something now and then, too.
        let offers_enough = |rate: Rate| found.offered > rate * self.law.backlogged;
        let refused = self.credit.take_refused() && self.rate.is_none_or(offers_enough);
        self.learn_capacity(&found, refused);
        match self.phase {
            Phase::Open => self.consider_limit(now, refused, &found),
            Phase::Cruise { .. }
            | Phase::Probe { .. }
            | Phase::Hold { .. }
            | Phase::Drain { .. } => {
                self.steer(now, refused, &found);
            }
        }
        if self.rate.is_some_and(|rate| rate > self.law.fastest) {
            self.open(now, Why::Fast);
        }
    }

    /// What is delivered is the capacity where it is more than was known, or where a queue stands and it differs from what is
    /// sent.
    ///
    /// Where the rate was lowered in vain, the queue may be delay that rises, and then what is delivered is what was let go a
    /// moment before. A delay that rises for seconds would make the capacity of 12 Mbit/s one of 1.5. The capacity
    /// is less only if no more than `drain_rate` of what is sent arrives then: a rate that is far too high cannot
    /// show whose the queue is by being lowered a little, and of eight clients of a slow hub some would get little. With that,
    /// links of which one drifts (`campaign --family drifting --pairs 200`, the seeds 500 and 9000) have 1.7 ± 0.8 and
    /// 1.7 ± 0.7 % more late; those shared with another host 0.7 ± 0.7 % (`shared`, 9000); random pairs 0.05 ± 0.04 % less.
    fn learn_capacity(&mut self, found: &Findings, refused: bool) {
        let is_steady = self.doubt.is_steady();
        let busy = found.delivered_busy.filter(|_| is_steady);
        let delivered = busy.map_or(found.delivered, |busy| busy.max(found.delivered));
        let carried = delivered / self.arrives();
        let differs = found.delivered.abs_diff(found.offered) > found.offered * self.law.differs;
        let stands = self.queue > self.doubt.target();
        let is_busy = busy.is_some() || refused || !is_steady;
        let nearly_all = found.delivered > found.offered * self.law.drain_rate;
        let may_be_delay = self.company.was_in_vain() && nearly_all;
        let tells_less = is_busy && !may_be_delay && !self.is_trickle(found.packets_a_second);
        if carried > self.capacity || stands && differs && tells_less {
            self.capacity = self.capacity + (carried - self.capacity) / 2.0;
        }
    }

    /// Fewer packets than a train are sent in `spare_time`: what is delivered tells of the flow then, and not of the path
    /// ("application-limited" in draft-ietf-ccwg-bbr). A call over a cell whose delay moves, or which loses packets, is no reason
    /// for a limit, nor for a lower one. While it was one, 300 packets that came after forty seconds of a call over two such
    /// links of 20 Mbit/s took more than 2.9 s in 8 of 12 runs, and now 0.5 s (`burst_after_a_call` of tests/sim_adaptive.rs).
    ///
    /// Packets count, and not bytes: acknowledgements fill a slow uplink with few bytes. While a train of as many bytes in a
    /// round trip and `spare_time` was asked, such an uplink kept a limit that was too high (`campaign --family asymmetric
    /// --pairs 100 --seed 500`: 2.8 ± 1.0 % less early, 1.0 ± 1.0 % less late).
    fn is_trickle(&self, packets_a_second: f64) -> bool {
        packets_a_second * self.law.spare_time.as_secs_f64() < self.law.train_packets as f64
    }

    /// Of what is sent, what arrives less what is usually lost.
    fn arrives(&self) -> f64 {
        (1.0 - self.loss.usual).max(self.law.least_gain)
    }

    fn open(&mut self, now: Time, why: Why) {
        self.rate = None;
        self.phase = Phase::Open;
        self.company.forget_queue();
        self.above_before = false;
        self.note(now, why);
    }

    /// Whether it ever had a limit: since then it is to be let run dry at some time.
    fn was_limited(&self) -> bool {
        self.drain_at != Time::ZERO
    }

    /// No queue of its own stands there now, or none that is known.
    fn ran_dry(&mut self, now: Time) {
        self.drain_at = now + self.law.base_span;
    }

    /// Paces the path at `gain` times its capacity.
    fn limit(&mut self, now: Time, phase: Phase, gain: f64, why: Why) {
        if self.rate.is_none() {
            self.credit.begin(now);
            if !self.was_limited() {
                if !self.doubt.is_steady() {
                    // Jitter may have seemed to be a queue long before one stood.
                    self.step = self.law.last_step;
                }
                // What it lost in its first slow start may be what its buffer had no room for.
                self.held_since = now;
                self.loss.forget_smoothed();
                self.loss.start_again();
            }
            self.ran_dry(now);
        }
        debug_assert!(
            self.phase.may_become(phase),
            "{:?} to {phase:?}",
            self.phase
        );
        self.phase = phase;
        self.rate = Some((self.capacity * gain).max(self.law.slowest));
        self.note(now, why);
    }

    fn may_be_limited(&self, now: Time) -> bool {
        !self.company.is_competing(now) && now >= self.fast_until
    }

    /// An open path whose packets queue gets a limit.
    fn consider_limit(&mut self, now: Time, refused: bool, found: &Findings) {
        let above = self.queue > self.doubt.limit_above();
        let stands = std::mem::replace(&mut self.above_before, above);
        let is_dispersed = found.is_dispersed;
        let is_unused = !refused && self.is_trickle(found.packets_a_second);
        if is_unused || !above || !(is_dispersed || stands) || !self.may_be_limited(now) {
            return;
        }
        let is_busy = refused || is_dispersed || !self.doubt.is_steady();
        if let Some(delivered) = found.delivered_busy.or(is_busy.then_some(found.delivered)) {
            if is_dispersed {
                self.capacity = delivered.max(found.delivered);
            }
            self.work_off(now);
        }
    }

    /// Looks at what is lost beyond the usual: whether the rate is at fault shows when it is lower.
    ///
    /// A path that still loses more than usual can leave (`1.0 - least_gain`) overflows, and carries what arrives in that time.
    /// What was delivered before may have been a burst that a policer let pass. While all that was lost at a third look was
    /// usual, the policer of `campaign --family field --one 12035`, 20 Mbit/s, was taken for a path of 60 to 99 Mbit/s that loses
    /// 2 to 50 % by its nature. It got most packets, and for 25 s the tunnel had 10 to 30 of 70 Mbit/s, where the other link
    /// alone has 50.
    fn judge_loss(&mut self, now: Time) {
        let is_steady = self.doubt.is_steady();
        let lateness = if is_steady {
            Span::ZERO
        } else {
            self.doubt.lateness()
        };
        let Some(judged) = self.loss.judge(lateness) else {
            return;
        };
        let is_held = matches!(self.phase, Phase::Hold { .. });
        let is_held_again = matches!(self.phase, Phase::Hold { is_again: true, .. });
        if !judged.is_excessive || !self.may_be_limited(now) {
            return self.loss.accept(judged, is_held);
        }
        if !self.loss.is_excessive_again() {
            return;
        }
        let overflows = judged.share > 1.0 - self.law.least_gain;
        if is_held_again && !overflows || self.is_trickle(judged.packets_a_second) {
            // That was low enough: the link loses so much by its nature.
            self.loss.accept(judged, true);
            return self.note(now, Why::UsualLoss);
        }
        if is_held {
            // Less was sent and it loses still. It carries no more than arrives, or loses so much by its nature.
            let arrives = match overflows {
                true => judged.arrives,
                false => self.delivered / self.arrives(),
            };
            self.capacity = self.capacity.min(arrives);
        }
        self.note_excess();
        let until = now + self.rtt * 4 + self.law.loss_hold;
        let phase = Phase::Hold {
            until,
            is_again: is_held && !overflows,
        };
        self.limit(now, phase, self.law.tried_rate, Why::Loss);
        self.held_since = now;
        self.loss.start_again();
    }
}

#[cfg(test)]
mod tests;

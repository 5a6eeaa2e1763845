//! How much a path takes, learnt from what arrives.
//!
//! A path begins *open*: it takes what there is, as in TCP's slow start. Each receiver report gives a
//! sample: the newest number that arrived on the path, when, and how much arrived by then. A few make
//! an *epoch*, and an epoch tells
//!
//! - the queue on the path, as delay: the mean one-way delay less the least such mean of late. The
//!   clocks' offset is in both and cancels; means, not single samples, since a path with jitter
//!   has no least delay worth the name;
//! - the noise of that, as the scatter about the trend (jitter may also make a queue seem to stand
//!   where none does: [`doubt`]);
//! - what was delivered in a second, and the same while a queue stood, which is the path's capacity;
//! - what was lost.
//!
//! Once a queue shows, the path is *limited*: it is paced, and the queue is steered to a few
//! milliseconds. The rate is what is being delivered, more while the queue is below its target, less
//! above it (compare BBR, draft-ietf-ccwg-bbr; Copa, NSDI 2018; and RFC 6817 on delay as a signal).
//! So a rate follows a path that gets faster or slower, and a path that never shows a queue is never
//! paced. As a queue that stands all the time would become the new normal, the path is let run dry
//! every few seconds.
//!
//! *Loss.* A path with a very short buffer drops before any delay can be seen; a radio link drops at
//! any rate. When more is lost than usual, the rate falls to what was delivered and stays there for
//! a while: if as much is lost then, it is the link's nature and from now on usual; if not, it was the
//! rate, and later attempts to exceed it will tell again.
//!
//! *Company.* Others may fill the same queue. Pacing then only yields to them. If a long queue does not
//! shrink though the path takes less several times over, it is not ours ([`company`]): the path is opened
//! for some seconds, and the inner flows' own congestion control competes, as it would without a tunnel. If
//! it is a short one that does not shrink, jitter makes it seem to be there, and it is allowed for. On a
//! path that carries little, probes and single packets tell of the queues of others.

mod company;
mod credit;
mod doubt;
mod epoch;
mod loss;
mod train;

use std::time::Duration;

use company::Company;
use credit::Credit;
use doubt::{Doubt, TARGET};
use epoch::{Base, Epoch, Findings};
use loss::Loss;
use train::Trains;

use crate::control::{PathPhase, PathStatus};
use crate::path::{Answered, CLOCK_JUMP};
use crate::time::Time;

pub(crate) use epoch::Sample;

/// The least time in which an excess of queue is worked off, in nanoseconds.
const CORRECTION: f64 = 100e6;
/// No path is paced at more than this, in bytes a second: 2 Gbit/s.
const FASTEST: f64 = 250e6;
/// Nor at less: 80 kbit/s.
const SLOWEST: f64 = 10e3;
/// A path that delivered more than this, 1.2 Gbit/s, is not limited for some time: at such rates the
/// processors are what packets wait for, and pacing would only take more of them.
const FAST: f64 = 150e6;
const FAST_FOR: Duration = Duration::from_secs(10);
/// Least number of samples, time and packets of an epoch.
const EPOCH_SAMPLES: u32 = 4;
const EPOCH_SPAN: Duration = Duration::from_millis(25);
const EPOCH_PACKETS: u64 = 16;
/// Samples further apart than this are of different epochs.
const EPOCH_GAP: Duration = Duration::from_millis(60);
/// … if the path has time for more than this between them.
const EPOCH_GAP_BYTES: f64 = 8.0 * 1500.0;
/// What an epoch told of the queue holds for so long. Then single packets and probes tell, who find
/// the queues of others …
const SEEN: Duration = Duration::from_millis(100);
/// … and that holds for so long. Then the queue is taken to be worked off.
const GLIMPSED: Duration = Duration::from_millis(500);
/// A limited path is let run dry so often.
const DRAIN_INTERVAL: Duration = Duration::from_secs(8);
/// Share of its rate that it takes meanwhile.
const DRAIN_RATE: f64 = 0.75;
/// A limited path that was offered less than this share of its rate was not busy all the time.
const BACKLOGGED: f64 = 0.5;
/// Most that a rate grows in an epoch.
const FASTEST_GROWTH: f64 = 0.25;
/// Most that it falls in one.
const FASTEST_FALL: f64 = 0.5;
/// Nor does it fall further below what it was, where nothing tells that the path was asked for more.
const UNASKED_FALL: f64 = 0.1;
/// Its peak is exceeded by no more than this …
const BEYOND_PEAK: f64 = 0.05;
/// … until it has been without much of a queue for so many round trips; then by as much more a round trip.
const NEW_GROUND: f64 = 6.0;
/// By epoch.
const PEAK_FADES: f64 = 0.999;
/// Usual loss makes up for no more than this of what was sent and did not arrive.
const MOST_USUAL_LOSS: f64 = 0.5;

/// The estimates of a path and the rate that follows from them. Delays in nanoseconds, rates in bytes
/// a second.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    /// None while open.
    rate: Option<f64>,
    credit: Credit,
    trains: Trains,
    epoch: Option<Epoch>,
    rtt: Duration,
    base: Base,
    /// What a probe took.
    probed: Option<f64>,
    doubt: Doubt,
    queue: f64,
    /// When an epoch told of the queue …
    queue_told: Time,
    /// … and until when the queue is believed to be as long as what told of it last said.
    queue_holds_until: Time,
    delivered: f64,
    /// By the epoch before.
    delivered_before: f64,
    /// The most that it delivered, fading.
    peak: f64,
    /// The last epoch found the queue too long for an open path.
    above_before: bool,
    /// Since when the rate grows without a queue.
    growing_since: Option<Time>,
    drain_at: Time,
    draining_until: Option<Time>,
    loss: Loss,
    /// The rate is not raised before.
    hold_until: Time,
    /// What was sent later than this was sent at the rate that is held.
    held_since: Time,
    company: Company,
    /// It is not limited before.
    fast_until: Time,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            rate: None,
            credit: Credit::default(),
            trains: Trains::default(),
            epoch: None,
            rtt: Duration::from_millis(100),
            base: Base::default(),
            probed: None,
            doubt: Doubt::default(),
            queue: 0.0,
            queue_told: Time::ZERO,
            queue_holds_until: Time::ZERO,
            delivered: 0.0,
            delivered_before: 0.0,
            peak: 0.0,
            above_before: false,
            growing_since: None,
            drain_at: Time::ZERO,
            draining_until: None,
            loss: Loss::default(),
            hold_until: Time::ZERO,
            held_since: Time::ZERO,
            company: Company::default(),
            fast_until: Time::ZERO,
        }
    }
}

impl Pace {
    /// A probe came back.
    pub(crate) fn probed(&mut self, now: Time, probed: &Answered) {
        self.rtt = probed.rtt;
        self.doubt.probed(probed.jitter_ns as f64);
        self.probed = Some(probed.idle_ns.unwrap_or(probed.forward_ns) as f64);
        if let Some(median) = probed.idle_ns {
            self.base.note(now, median as f64);
        }
        self.glimpse(now, probed.forward_ns);
    }

    /// A lone packet took so long: where few are sent it tells of the queue, which others may fill.
    fn glimpse(&mut self, now: Time, one_way: i64) {
        let Some(least) = self.base.least() else {
            return;
        };
        let behind = one_way as f64 - least;
        let is_news = now.since(self.queue_told) > SEEN && behind < CLOCK_JUMP as f64;
        if is_news && behind > self.doubt.of_one() {
            self.queue = behind;
            self.queue_holds_until = now + GLIMPSED;
        }
    }

    /// The delay that the next packet would have, with the clocks' offset, in nanoseconds.
    #[inline]
    pub(crate) fn delay(&self, now: Time) -> Option<f64> {
        let queue = self.queue(now).as_nanos() as f64;
        self.least_delay().map(|least| least + queue)
    }

    /// The delay that it would have without a queue.
    pub(crate) fn least_delay(&self) -> Option<f64> {
        self.base.least().or(self.probed)
    }

    /// How long the queue lasts. What was not looked at for long has been working it off.
    #[inline]
    pub(crate) fn queue(&self, now: Time) -> Duration {
        let queue = Duration::from_nanos(self.queue.max(0.0) as u64);
        queue.saturating_sub(now.since(self.queue_holds_until))
    }

    /// Bytes a second that it takes; none while open.
    pub(crate) fn rate(&self) -> Option<f64> {
        let rate = self.rate?;
        Some(match self.draining_until {
            Some(_) => rate * DRAIN_RATE,
            None => rate,
        })
    }

    /// Fills in the estimates.
    pub(crate) fn report(&self, status: &mut PathStatus) {
        status.tx_phase = match (self.rate, self.draining_until) {
            (Some(_), Some(_)) => PathPhase::Draining,
            (Some(_), None) => PathPhase::Limited,
            (None, _) if self.company.is_competing(self.credit.heard()) => PathPhase::Competing,
            (None, _) => PathPhase::Open,
        };
        status.tx_limit_bps = self.rate.map(|rate| (rate * 8.0) as u64);
        status.tx_delivered_bps = (self.delivered * 8.0) as u64;
        status.tx_queue_us = (self.queue / 1e3) as u64;
        status.tx_usual_loss = self.loss.usual;
    }

    /// Bytes a second that it delivered of late.
    pub(crate) fn delivered(&self) -> f64 {
        self.delivered
    }

    /// The share of packets that it loses, once that is known.
    pub(crate) fn loss(&self) -> Option<f64> {
        self.loss.mean()
    }

    /// What it lost is of the past.
    pub(crate) fn forget_loss(&mut self) {
        self.loss.forget_mean();
    }

    pub(crate) fn rtt(&self) -> Duration {
        self.rtt
    }

    /// Whether others fill its queue.
    pub(crate) fn is_contended(&self, now: Time) -> bool {
        self.rate.is_none() && self.company.is_competing(now)
    }

    /// How many bytes it takes now; none when it has to wait.
    #[inline]
    pub(crate) fn room(&mut self, now: Time) -> Option<usize> {
        match self.rate() {
            Some(rate) => self.credit.paced(now, rate, self.rtt),
            None if self.company.is_competing(now) => Some(usize::MAX),
            None => self.credit.open(now),
        }
    }

    /// It took so many bytes with a number.
    #[inline]
    pub(crate) fn took(&mut self, bytes: usize) {
        self.credit.sent(bytes);
        self.took_unnumbered(bytes);
    }

    /// It took so many bytes without a number.
    #[inline]
    pub(crate) fn took_unnumbered(&mut self, bytes: usize) {
        if self.rate.is_some() {
            self.credit.spent(bytes);
        }
    }

    /// When it will have room for a few packets.
    pub(crate) fn ready_at(&self, now: Time) -> Time {
        self.credit.ready_at(now, self.rate())
    }

    /// Takes a sample.
    pub(crate) fn sample(&mut self, now: Time, sample: Sample) {
        self.credit
            .answered(now, sample.sent_bytes, sample.arrived_bytes);
        let known = self.epoch.map(|epoch| epoch.last.sent_packets);
        if known == Some(sample.sent_packets) {
            // Nothing came meanwhile.
            return;
        }
        self.glimpse(now, sample.one_way);
        let longest_gap = self.longest_gap();
        let Some(epoch) = self
            .epoch
            .as_mut()
            .filter(|epoch| epoch.last.goes_on(&sample, longest_gap))
        else {
            self.epoch = Some(Epoch::new(sample));
            return;
        };
        let last = epoch.last;
        epoch.add(sample, self.base.least().unwrap_or(f64::MAX));
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
        let Some(capacity) = capacity.filter(|&capacity| capacity < FASTEST) else {
            return;
        };
        if self.rate.is_none() && self.may_be_limited(now) {
            self.limit(now, capacity);
        }
    }

    /// How far apart samples of an epoch may be.
    fn longest_gap(&self) -> Duration {
        let slow = self.rate().map_or(0.0, |rate| EPOCH_GAP_BYTES / rate);
        let slow = Duration::from_secs_f64(slow.min(2.0));
        EPOCH_GAP.max(self.rtt).max(slow)
    }

    fn epoch_is_over(&self) -> bool {
        let Some(epoch) = &self.epoch else {
            return false;
        };
        if epoch.samples < EPOCH_SAMPLES {
            return false;
        }
        let enough = epoch.packets() >= EPOCH_PACKETS || epoch.span() >= EPOCH_SPAN * 4;
        let least = self.base.least().unwrap_or(f64::MAX);
        // A queue that grows fast is not watched for long.
        let alarming = epoch.mean_one_way() - least > self.doubt.alarming();
        enough && (alarming || epoch.span() >= EPOCH_SPAN.max(self.rtt / 3))
    }

    fn conclude(&mut self, now: Time) {
        let Some(epoch) = self.epoch.take() else {
            return;
        };
        self.epoch = Some(Epoch::new(epoch.last));
        let found = epoch.findings();
        let is_jump = |least: f64| (found.one_way - least).abs() > CLOCK_JUMP as f64;
        if self.base.least().is_some_and(is_jump) {
            self.base = Base::default();
        }
        self.base.note(now, found.one_way);
        let least = self.base.least().unwrap_or(found.one_way);
        self.queue = found.one_way - least;
        (self.queue_told, self.queue_holds_until) = (now, now + SEEN);
        self.doubt.epoch(found.noise);
        if self.queue <= self.doubt.target() {
            self.company.left(now);
        }
        self.delivered_before = std::mem::replace(&mut self.delivered, found.delivered);
        if found.delivered > FAST {
            self.fast_until = now + FAST_FOR;
            self.open();
        }
        // Who offers bursts with pauses between them is refused something now and then, too.
        let offers_enough = |rate: f64| found.offered > BACKLOGGED * rate;
        let refused = self.credit.take_refused() && self.rate.is_none_or(offers_enough);
        let capacity = self.capacity(&found, refused);
        self.peak = capacity
            .unwrap_or(found.delivered)
            .max(self.peak * PEAK_FADES);
        self.judge_loss(now, refused, &found);
        match self.rate {
            None => self.consider_limit(now, capacity, &found),
            Some(rate) => self.steer(now, rate, capacity, refused, &found),
        }
        if self.rate.is_some_and(|rate| rate > FASTEST) {
            self.open();
        }
    }

    fn open(&mut self) {
        self.rate = None;
        self.draining_until = None;
        self.growing_since = None;
        self.company.forget_queue();
        self.above_before = false;
    }

    fn limit(&mut self, now: Time, rate: f64) {
        if self.rate.is_none() {
            self.credit.begin(now);
            self.drain_at = now + DRAIN_INTERVAL;
        }
        self.rate = Some(rate.max(SLOWEST));
    }

    fn may_be_limited(&self, now: Time) -> bool {
        !self.company.is_competing(now) && now >= self.fast_until
    }

    /// The share by which the rate should differ from what is delivered.
    fn correction(&self) -> f64 {
        (self.doubt.target() - self.queue) / CORRECTION.max(2.0 * self.feedback())
    }

    /// How long it takes until what is sent now shows in an epoch, were there no queue.
    fn feedback(&self) -> f64 {
        let rtt = self.rtt.as_nanos() as f64;
        (rtt - self.queue).max(rtt / 4.0) + EPOCH_SPAN.as_nanos() as f64
    }

    /// What the path delivers when it is busy all the time, as far as the epoch shows that.
    fn capacity(&self, found: &Findings, refused: bool) -> Option<f64> {
        let is_steady = self.doubt.is_steady();
        match found.delivered_busy {
            Some(busy) if is_steady => Some(busy.max(found.delivered)),
            // Jitter makes packets come together, so that it only seems busy.
            _ if refused || found.is_dispersed() || !is_steady => Some(found.delivered),
            _ => None,
        }
    }

    /// An open path whose packets queue gets a limit.
    fn consider_limit(&mut self, now: Time, capacity: Option<f64>, found: &Findings) {
        let above = self.queue > self.doubt.limit_above();
        let stands = std::mem::replace(&mut self.above_before, above);
        if !above || !(found.is_dispersed() || stands) || !self.may_be_limited(now) {
            return;
        }
        if let Some(capacity) = capacity {
            let fall = (-self.correction()).clamp(0.0, FASTEST_FALL);
            self.company.lowered(now, fall);
            self.limit(now, capacity * (1.0 - fall));
        }
    }

    /// Adapts the rate of a limited path, of which so much is known.
    fn steer(
        &mut self,
        now: Time,
        rate: f64,
        capacity: Option<f64>,
        refused: bool,
        found: &Findings,
    ) {
        if let Some(until) = self.draining_until {
            if now < until {
                return;
            }
            self.draining_until = None;
            self.drain_at = now + DRAIN_INTERVAL;
        }
        // What arrives is less than what the path has carried by what it usually loses.
        let arrives = 1.0 - self.loss.usual.min(MOST_USUAL_LOSS);
        let carried = capacity.map(|capacity| capacity / arrives);
        let correction = self.correction();
        if correction < 0.0 {
            self.growing_since = None;
            if !self.yields_to_others(now, found)
                && let Some(carried) = carried
            {
                self.lower(now, rate, carried, correction, refused, found);
            }
            return;
        }
        self.company.relieved();
        if let Some(carried) = carried.filter(|_| refused && now >= self.hold_until) {
            self.raise(now, rate, carried, correction);
        }
        if refused && now >= self.drain_at {
            let empty_after = self.queue.max(TARGET) / (1.0 - DRAIN_RATE);
            let rest = self.rtt + EPOCH_SPAN + Duration::from_nanos(empty_after as u64);
            self.draining_until = Some(now + rest);
        }
    }

    /// Whether the queue, which is above its target, is not ours to shorten. A long one is of others, a short
    /// one is none.
    fn yields_to_others(&mut self, now: Time, found: &Findings) -> bool {
        let stays = self.company.stays(now, self.queue, self.rtt);
        let is_vain = self.company.is_vain(found);
        let is_long = self.doubt.is_exceeded(self.queue);
        let is_others = is_vain && is_long;
        if !stays && !is_others {
            return false;
        }
        if is_long {
            self.company.compete(now);
            self.open();
        } else {
            self.doubt.allow(self.queue);
        }
        true
    }

    /// Lowers the rate for a queue above its target.
    fn lower(
        &mut self,
        now: Time,
        rate: f64,
        carried: f64,
        correction: f64,
        refused: bool,
        found: &Findings,
    ) {
        // Where flows of others send bursts, what an epoch delivers is a matter of chance.
        let carried = carried.max(self.delivered_before.min(rate));
        // What was lowered shows first in what was sent since.
        if !self.company.shows_in(found) {
            return;
        }
        let fall = (-correction).min(FASTEST_FALL);
        self.company.lowered(now, fall);
        let slower = carried * (1.0 - fall);
        let rate = if refused {
            slower
        } else {
            slower.max(rate * (1.0 - UNASKED_FALL)).min(rate)
        };
        self.limit(now, rate);
    }

    /// Raises the rate while the queue is shorter than its target.
    fn raise(&mut self, now: Time, rate: f64, carried: f64, correction: f64) {
        let since = *self.growing_since.get_or_insert(now);
        let trips = now.since(since).as_nanos() as f64 / self.feedback();
        let correction = correction.min(TARGET / CORRECTION);
        let growth = (correction * (1.0 + trips)).min(FASTEST_GROWTH);
        // Beyond what it is known to deliver a path is led slowly, and farther the longer it shows no queue.
        let beyond = BEYOND_PEAK * (1.0 + (trips - NEW_GROUND).max(0.0));
        let known = (self.peak * (1.0 + beyond)).max(carried * (1.0 + correction));
        let wanted = rate.max((carried * (1.0 + growth)).min(known));
        self.limit(now, wanted);
    }

    fn judge_loss(&mut self, now: Time, refused: bool, found: &Findings) {
        if found.sent < self.held_since {
            return self.loss.start_again();
        }
        // What was overtaken is not lost, and may come in the next epoch.
        let mean_bytes = (found.sent_bytes / found.sent_packets.max(1) as f64).max(1.0);
        let overtaken = found.delivered / mean_bytes * self.doubt.lateness() / 1e9;
        let Some(judged) = self.loss.judge(found, overtaken) else {
            return;
        };
        if judged.is_excessive && now >= self.hold_until && self.may_be_limited(now) {
            if self.loss.is_excessive_again() {
                self.limit(now, found.delivered);
                self.growing_since = None;
                self.hold_until = now + self.rtt * 4 + Duration::from_millis(200);
                self.held_since = now;
            }
            return;
        }
        // What is lost while the rate grows may be its fault; what is lost besides is usual.
        self.loss.accept(judged, !refused || now < self.hold_until);
    }
}

#[cfg(test)]
mod tests;

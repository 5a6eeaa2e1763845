//! How much a path takes, learnt from what arrives.
//!
//! A path begins *open*: it takes what there is, as in TCP's slow start. Each receiver report gives a sample: the newest
//! number that arrived on the path, when, and how much arrived by then. A few make an *epoch*, and an
//! epoch tells
//!
//! - the queue on the path, as delay: the mean one-way delay less the least such mean of late. The
//!   clocks' offset is in both and cancels; means, not single samples, since a path with jitter
//!   has no least delay worth the name;
//! - the noise of that, as the scatter about the trend. A path whose jitter does not reorder delivers
//!   all behind the latest of its packets, so that its mean delay grows with the load though no queue
//!   stands; how much, the jitter of probes tells while the path has nothing else to carry;
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
//! shrink though the path takes less several times over, it is not ours: the path is opened for some
//! seconds, and the inner flows' own congestion control competes, as it would without a tunnel. If it is a
//! short one that does not shrink, jitter makes it seem to be there, and it is allowed for. On a path that
//! carries little, probes and single packets tell of the queues of others.

mod epoch;
mod loss;

use std::time::Duration;

use epoch::{Base, Epoch, Findings};
use loss::Loss;

use crate::control::{PathPhase, PathStatus};
use crate::time::Time;
use crate::tunnel::Answered;

pub(crate) use epoch::Sample;

/// The queue that is aimed at, as delay, on a path without noise.
const TARGET: f64 = 5e6;
/// A path is limited when its queue exceeds this, without noise.
const LIMIT_ABOVE: f64 = 10e6;
/// The least time in which an excess of queue is worked off.
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
/// A delay that differs by more means that a clock was set.
const CLOCK_JUMP: f64 = 10e9;
/// A limited path is let run dry so often.
const DRAIN_INTERVAL: Duration = Duration::from_secs(8);
/// Share of its rate that it takes meanwhile.
const DRAIN_RATE: f64 = 0.75;
/// Most that a rate grows in an epoch.
const FASTEST_GROWTH: f64 = 0.25;
/// Its peak is exceeded by no more than this …
const BEYOND_PEAK: f64 = 0.05;
/// … until it has been without much of a queue for so many round trips; then by as much more a round trip.
const NEW_GROUND: f64 = 6.0;
/// By epoch.
const PEAK_FADES: f64 = 0.999;
/// Scatter about the trend says no more than this about the mean.
const MOST_NOISE: f64 = 30e6;
/// Behind the latest of its packets a busy path with jitter is so many times the jitter late …
const LATE_BY_JITTER: f64 = 4.5;
/// … and no more than this.
const LATEST: f64 = 150e6;
/// What does not shrink when less is sent, and is no more than this, is jitter's doing …
const LATENESS: f64 = 50e6;
/// … and fades, by epoch; more than that are others' packets.
const LATENESS_FADES: f64 = 0.999;
/// Lowering the rate by this share has to show in a queue …
const LOWERED_MUCH: f64 = -0.15;
/// … and if it does not so often in a row, others fill it.
const IN_VAIN: u32 = 3;
/// For how long a path whose queue others fill is left open.
const COMPETE: Duration = Duration::from_secs(10);
/// A path that was idle takes so much before it has answered, in bytes; then as much again for each
/// byte that arrived, until its limit is known. That is TCP's slow start, from a little more: it
/// keeps a burst from filling a slow path, and is soon no bound at all.
const FIRST_WINDOW: f64 = 32.0 * 1500.0;
/// Nor is more under way on a limited path than it delivers in its round-trip time and this.
const SPARE_TIME: f64 = 0.1;
/// What was sent before so long a silence does not count as under way any more.
const FORGOTTEN: Duration = Duration::from_secs(1);
/// A train of at least so many packets that arrive in twice the time in which they were sent shows
/// the path's capacity …
const TRAIN_PACKETS: u64 = 12;
/// … when as many in a row agree, within this share.
const TRAINS: u32 = 3;
const TRAIN_AGREEMENT: f64 = 0.15;
/// On a path with more jitter trains show nothing.
const TRAIN_JITTER: f64 = 1e6;
/// Reports make room; this is for the case that none comes.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// Bytes are handed out for so long at once.
const BURST: f64 = 1e-3;
/// And at least so many.
const LEAST_BURST: f64 = 3000.0;

/// The estimates of a path and the rate that follows from them.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    /// Bytes a second; none while open.
    rate: Option<f64>,
    tokens: f64,
    refilled: Time,
    /// It was asked for more than it took, since the epoch began.
    refused: bool,
    /// Numbered bytes that were sent, and of them those sent before what the last sample tells of.
    sent: f64,
    answered: f64,
    window: f64,
    /// What trains of late say that the path delivers, and how many in a row say so.
    train: (f64, u32),
    epoch: Option<Epoch>,
    sampled: Time,
    rtt: Duration,
    base: Base,
    /// What a probe took, of late and on an idle path, and how that varied there.
    probed: Option<f64>,
    jitter: f64,
    queue: f64,
    /// What of it was found not to be one.
    late: f64,
    /// When an epoch told of it, and until when it is believed.
    queue_told: Time,
    queue_holds_until: Time,
    noise: f64,
    delivered: f64,
    /// The most that it delivered, fading.
    peak: f64,
    above_before: bool,
    /// Round trips of growth without a queue.
    growing_since: Option<Time>,
    drain_at: Time,
    draining_until: Option<Time>,
    loss: Loss,
    /// The rate is not raised before.
    hold_until: Time,
    /// What was sent later than this was sent at the rate that is held.
    held_since: Time,
    /// The longest queue since it is above its target, and when it was so long.
    above: Option<(Time, f64)>,
    /// When the rate was lowered last, and by what share.
    lowered: (Time, f64),
    /// How often in a row that did not help.
    in_vain: u32,
    competing_until: Time,
    /// It is not limited before.
    fast_until: Time,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            rate: None,
            tokens: 0.0,
            refilled: Time::ZERO,
            refused: false,
            sent: 0.0,
            answered: 0.0,
            window: FIRST_WINDOW,
            train: (0.0, 0),
            epoch: None,
            sampled: Time::ZERO,
            rtt: Duration::from_millis(100),
            base: Base::default(),
            probed: None,
            jitter: 0.0,
            queue: 0.0,
            late: 0.0,
            queue_told: Time::ZERO,
            queue_holds_until: Time::ZERO,
            noise: 0.0,
            delivered: 0.0,
            peak: 0.0,
            above_before: false,
            growing_since: None,
            drain_at: Time::ZERO,
            draining_until: None,
            loss: Loss::default(),
            hold_until: Time::ZERO,
            held_since: Time::ZERO,
            above: None,
            lowered: (Time::ZERO, 0.0),
            in_vain: 0,
            competing_until: Time::ZERO,
            fast_until: Time::ZERO,
        }
    }
}

impl Pace {
    /// A probe came back.
    pub(crate) fn probed(&mut self, now: Time, probed: &Answered) {
        self.rtt = probed.rtt;
        self.jitter = probed.jitter_ns as f64;
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
        let is_news = now.since(self.queue_told) > SEEN && behind < CLOCK_JUMP;
        if is_news && behind > LIMIT_ABOVE + 2.0 * self.jitter {
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

    /// How long the queue lasts. What was not looked at for long has been working it off.
    #[inline]
    pub(crate) fn queue(&self, now: Time) -> Duration {
        let queue = Duration::from_nanos(self.queue.max(0.0) as u64);
        queue.saturating_sub(now.since(self.queue_holds_until))
    }

    /// The same without a queue.
    pub(crate) fn least_delay(&self) -> Option<f64> {
        self.base.least().or(self.probed)
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
            (None, _) if self.sampled < self.competing_until => PathPhase::Competing,
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
        self.rate.is_none() && now < self.competing_until
    }

    fn burst(rate: f64) -> f64 {
        (rate * BURST).max(LEAST_BURST)
    }

    /// How many bytes it takes now; none when it has to wait.
    #[inline]
    pub(crate) fn room(&mut self, now: Time) -> Option<usize> {
        let Some(rate) = self.rate() else {
            if now < self.competing_until {
                return Some(usize::MAX);
            }
            let window = self.window;
            return self.room_within(now, window);
        };
        let since = now.since(self.refilled).as_secs_f64();
        // A report is handled as of when it came, which may be before the last packet: what was
        // credited once is not credited again.
        self.refilled = self.refilled.max(now);
        self.tokens = (self.tokens + since * rate).min(Pace::burst(rate));
        if self.tokens <= 0.0 {
            self.refused = true;
            return None;
        }
        let most = FIRST_WINDOW + rate * (self.rtt.as_secs_f64() + SPARE_TIME);
        let room = self.room_within(now, most)?;
        Some(room.min(self.tokens as usize + 1))
    }

    /// How many bytes more may be under way, of `window`.
    fn room_within(&mut self, now: Time, window: f64) -> Option<usize> {
        if now.since(self.sampled) > FORGOTTEN {
            self.answered = self.sent;
            self.window = FIRST_WINDOW;
            self.sampled = now;
        }
        let room = window - (self.sent - self.answered);
        self.refused |= room <= 0.0;
        (room > 0.0).then_some(room as usize + 1)
    }

    /// It took so many bytes with a number.
    #[inline]
    pub(crate) fn took(&mut self, bytes: usize) {
        self.sent += bytes as f64;
        self.took_unnumbered(bytes);
    }

    /// It took so many bytes without a number.
    #[inline]
    pub(crate) fn took_unnumbered(&mut self, bytes: usize) {
        if self.rate.is_some() {
            self.tokens -= bytes as f64;
        }
    }

    /// When it will have room for a few packets.
    pub(crate) fn ready_at(&self, now: Time) -> Time {
        let Some(rate) = self.rate() else {
            return now + LOOK_AGAIN;
        };
        if self.tokens > 0.0 {
            return now + LOOK_AGAIN;
        }
        let wanted = Pace::burst(rate) / 2.0 - self.tokens;
        let since = wanted.max(0.0) / rate;
        (self.refilled + Duration::from_secs_f64(since.min(1.0))).max(now)
    }

    /// Takes a sample.
    pub(crate) fn sample(&mut self, now: Time, sample: Sample) {
        self.sampled = now;
        let answered = (sample.sent_bytes as f64).min(self.sent);
        if answered > self.answered {
            self.window += answered - self.answered;
            self.answered = answered;
        }
        let known = self.epoch.map(|epoch| epoch.last.sent_packets);
        if known == Some(sample.sent_packets) {
            // Nothing came meanwhile.
            return;
        }
        self.glimpse(now, sample.one_way);
        let longest_gap = self.longest_gap();
        let Some(epoch) = &mut self.epoch else {
            self.epoch = Some(Epoch::new(sample));
            return;
        };
        let last = epoch.last;
        let goes_on = sample.arrived > last.arrived
            && sample.arrived.since(last.arrived) <= longest_gap
            && sample.sent >= last.sent
            && sample.arrived_packets >= last.arrived_packets
            && sample.arrived_bytes >= last.arrived_bytes
            && sample.sent_packets > last.sent_packets;
        if !goes_on {
            self.epoch = Some(Epoch::new(sample));
            return;
        }
        epoch.add(sample, self.base.least().unwrap_or(f64::MAX));
        self.consider_train(now, last, sample);
        if self.epoch_is_over() {
            self.conclude(now);
        }
    }

    /// Packets that were sent together and arrived apart tell the path's capacity, long before a
    /// queue stands: a short buffer would drop them by then.
    fn consider_train(&mut self, now: Time, last: Sample, sample: Sample) {
        let packets = sample.sent_packets - last.sent_packets;
        let arrived_for = sample.arrived.since(last.arrived);
        // Jitter takes trains apart, too.
        let shows_rate = self.jitter < TRAIN_JITTER && packets >= TRAIN_PACKETS;
        if !shows_rate || sample.sent.since(last.sent) * 2 > arrived_for {
            return;
        }
        let bytes = (sample.arrived_bytes - last.arrived_bytes) as f64;
        let rate = bytes / arrived_for.as_secs_f64().max(1e-6);
        let (known, agreed) = self.train;
        self.train = if (rate - known).abs() <= TRAIN_AGREEMENT * known {
            (known + (rate - known) / 4.0, agreed + 1)
        } else {
            (rate, 1)
        };
        if self.train.1 >= TRAINS
            && self.rate.is_none()
            && self.train.0 < FASTEST
            && self.may_be_limited(now)
        {
            self.limit(now, self.train.0);
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
        let alarming = epoch.mean_one_way() - least > 3.0 * self.limit_above().max(self.noise);
        enough && (alarming || epoch.span() >= EPOCH_SPAN.max(self.rtt / 3))
    }

    fn conclude(&mut self, now: Time) {
        let Some(epoch) = self.epoch.take() else {
            return;
        };
        self.epoch = Some(Epoch::new(epoch.last));
        let found = epoch.findings();
        let is_jump = |least: f64| (found.one_way - least).abs() > CLOCK_JUMP;
        if self.base.least().is_some_and(is_jump) {
            self.base = Base::default();
        }
        self.base.note(now, found.one_way);
        let least = self.base.least().unwrap_or(found.one_way);
        self.queue = found.one_way - least;
        (self.queue_told, self.queue_holds_until) = (now, now + SEEN);
        self.late *= LATENESS_FADES;
        self.noise += (found.noise - self.noise) / 4.0;
        self.delivered = found.delivered;
        if found.delivered > FAST {
            self.fast_until = now + FAST_FOR;
            self.open();
        }
        let refused = std::mem::take(&mut self.refused);
        let capacity = self.capacity(&found, refused).unwrap_or(found.delivered);
        self.peak = capacity.max(self.peak * PEAK_FADES);
        self.judge_loss(now, &epoch, refused, &found);
        match self.rate {
            None => self.consider_limit(now, refused, &found),
            Some(rate) => self.steer(now, rate, refused, &found),
        }
        if self.rate.is_some_and(|rate| rate > FASTEST) {
            self.open();
        }
    }

    fn open(&mut self) {
        self.rate = None;
        self.draining_until = None;
        self.growing_since = None;
        self.in_vain = 0;
        self.above = None;
        self.above_before = false;
    }

    fn limit(&mut self, now: Time, rate: f64) {
        if self.rate.is_none() {
            self.refilled = now;
            self.tokens = 0.0;
            self.drain_at = now + DRAIN_INTERVAL;
        }
        self.rate = Some(rate.max(SLOWEST));
    }

    fn may_be_limited(&self, now: Time) -> bool {
        now >= self.competing_until && now >= self.fast_until
    }

    /// How much the queue may vary by chance.
    fn noise(&self) -> f64 {
        self.noise.min(MOST_NOISE)
    }

    /// How much later packets come under load, all behind the latest, without any queue.
    fn lateness(&self) -> f64 {
        self.jitter_lateness().max(self.late)
    }

    fn jitter_lateness(&self) -> f64 {
        (self.jitter * LATE_BY_JITTER).min(LATEST)
    }

    fn target(&self) -> f64 {
        TARGET + self.noise().max(self.lateness())
    }

    /// What the queue has to exceed for the path to be limited.
    fn limit_above(&self) -> f64 {
        LIMIT_ABOVE + self.lateness().max(2.0 * self.noise())
    }

    /// The share by which the rate should differ from what is delivered.
    fn correction(&self) -> f64 {
        (self.target() - self.queue) / CORRECTION.max(2.0 * self.feedback())
    }

    /// How long it takes until what is sent now shows in an epoch, were there no queue.
    fn feedback(&self) -> f64 {
        let rtt = self.rtt.as_nanos() as f64;
        (rtt - self.queue).max(rtt / 4.0) + EPOCH_SPAN.as_nanos() as f64
    }

    /// What the path delivers when it is busy all the time, as far as the epoch shows that.
    fn capacity(&self, found: &Findings, refused: bool) -> Option<f64> {
        let is_steady = self.jitter < TRAIN_JITTER;
        match found.delivered_busy {
            Some(busy) if is_steady => Some(busy.max(found.delivered)),
            // Jitter makes packets come together, so that it only seems busy.
            _ if refused || found.is_dispersed() || !is_steady => Some(found.delivered),
            _ => None,
        }
    }

    /// An open path whose packets queue gets a limit.
    fn consider_limit(&mut self, now: Time, refused: bool, found: &Findings) {
        let above = self.queue > self.limit_above();
        let stands = std::mem::replace(&mut self.above_before, above);
        if !above || !(found.is_dispersed() || stands) || !self.may_be_limited(now) {
            return;
        }
        if let Some(capacity) = self.capacity(found, refused) {
            self.limit(now, capacity * (1.0 + self.correction()).clamp(0.5, 1.0));
        }
    }

    /// Adapts the rate of a limited path.
    fn steer(&mut self, now: Time, rate: f64, refused: bool, found: &Findings) {
        if let Some(until) = self.draining_until {
            if now < until {
                return;
            }
            self.draining_until = None;
            self.drain_at = now + DRAIN_INTERVAL;
        }
        // What arrives is less than what the path has carried by what it usually loses.
        let carried = self
            .capacity(found, refused)
            .map(|capacity| capacity / (1.0 - self.loss.usual).max(0.5));
        let correction = self.correction();
        if correction < 0.0 {
            self.growing_since = None;
            let is_ours = self.is_ours(now);
            if self.is_others(found) || !is_ours {
                if self.is_long() {
                    self.competing_until = now + COMPETE;
                    return self.open();
                }
                self.late = self.queue;
                return;
            }
            let Some(carried) = carried else {
                return;
            };
            // What was lowered shows first in what was sent since.
            if found.sent < self.lowered.0 {
                return self.limit(now, carried.max(rate * 0.5).min(rate));
            }
            let correction = correction.max(-0.5);
            self.lowered = (now, correction);
            let slower = carried * (1.0 + correction);
            let rate = if refused {
                slower
            } else {
                slower.max(rate * 0.9).min(rate)
            };
            return self.limit(now, rate);
        }
        self.above = None;
        self.in_vain = 0;
        if let Some(carried) = carried.filter(|_| refused && now >= self.hold_until) {
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
        if refused && now >= self.drain_at {
            let empty_after = self.queue.max(TARGET) / (1.0 - DRAIN_RATE);
            let rest = self.rtt + EPOCH_SPAN + Duration::from_nanos(empty_after as u64);
            self.draining_until = Some(now + rest);
        }
    }

    /// Whether the queue, which is above its target, is of our making: it shrinks when less is sent.
    fn is_ours(&mut self, now: Time) -> bool {
        let (since, then) = match self.above {
            Some((since, then)) if self.queue <= then => (since, then),
            Some(_) | None => {
                self.above = Some((now, self.queue));
                return true;
            }
        };
        let patience = (self.rtt * 6).max(Duration::from_millis(600));
        if now.since(since) < patience {
            return true;
        }
        self.above = Some((now, self.queue));
        self.queue < 0.7 * then || self.queue < self.limit_above()
    }

    /// Whether others keep a long queue up though less is sent, several times.
    fn is_others(&mut self, found: &Findings) -> bool {
        let (since, share) = self.lowered;
        if found.sent >= since && share <= LOWERED_MUCH {
            let helped = found.trend < share / 2.0;
            self.in_vain = if helped { 0 } else { self.in_vain + 1 };
        }
        self.in_vain >= IN_VAIN && self.is_long()
    }

    /// Whether the queue is longer than jitter would make it seem.
    fn is_long(&self) -> bool {
        self.queue > self.jitter_lateness() + LATENESS
    }

    fn judge_loss(&mut self, now: Time, epoch: &Epoch, refused: bool, found: &Findings) {
        if epoch.first.sent < self.held_since {
            return self.loss.start_again();
        }
        // What was overtaken is not lost, and may come in the next epoch.
        let mean_bytes = (found.sent_bytes / found.sent_packets.max(1) as f64).max(1.0);
        let overtaken = found.delivered / mean_bytes * self.lateness() / 1e9;
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

//! One direction of a link, in virtual time.
//!
//! A packet meets, in this order: the MTU; a drop-tail queue in front of a transmitter that sends at
//! `rate_bps`, or when a [`Recording`] says; loss and duplication on the wire; and a delay. The order of the stages is that of a
//! real link: what is lost on the air has used the air, and what waits in the queue does not know
//! yet whether it will arrive.
//!
//! A wire keeps order: with [`Order::Kept`], the default, a packet that drew a short delay arrives
//! together with the one before it, never sooner. [`Order::ByDelay`] lets it overtake, as `netem`
//! without a rate does and as a path of many parallel hops does.
//!
//! The link does no I/O and reads no clock. The caller sends, asks [`Link::next`] when something may
//! happen, moves its own time there and collects with [`Link::deliver`] until that returns `None`.
//! [`Link::config`] may be changed at any time between calls. What is on the transmitter finishes at
//! the old rate; what waits behind it leaves at the new one; what is under way arrives regardless.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use rand::RngExt as _;

use crate::delay::{Delay, DelaySource};
use crate::loss::{Loss, LossSource};
use crate::recording::{Cursor, Recording};
use crate::rng::{self, SimRng};

/// Everything that can be set on a link, also in mid-run.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkConfig {
    /// Bits a second that the transmitter sends; `None` sends in no time.
    pub rate_bps: Option<u64>,
    /// What the queue holds, the packet on the transmitter included.
    pub queue: QueueLimit,
    /// Time from transmitter to receiver.
    pub delay: Delay,
    /// Whether a packet may overtake another.
    pub order: Order,
    /// Loss on the wire.
    pub loss: Loss,
    /// Probability that a packet arrives twice; the copy draws its own delay.
    pub duplicate: f64,
    /// Largest packet, in bytes as given to [`Link::send`].
    pub mtu: usize,
    /// A link that is down drops what is sent and what leaves its queue.
    pub up: bool,
    /// Drops what comes faster, before the queue.
    pub policer: Option<Policer>,
    /// When it sends, in place of a rate; [`LinkConfig::rate_bps`] is then only what others take for it.
    pub recording: Option<Recording>,
}

impl Default for LinkConfig {
    /// A perfect wire: no delay, no loss, any rate, 1500-byte packets, a queue of 1000.
    fn default() -> Self {
        LinkConfig {
            rate_bps: None,
            queue: QueueLimit::Packets(1000),
            delay: Delay::Constant { ns: 0 },
            order: Order::Kept,
            loss: Loss::None,
            duplicate: 0.0,
            mtu: 1500,
            up: true,
            policer: None,
            recording: None,
        }
    }
}

impl LinkConfig {
    /// Bits a second that pass it all the time: the transmitter's, or the policer's.
    #[must_use]
    pub fn carries_bps(&self) -> u64 {
        let policed = self.policer.map_or(u64::MAX, |policer| policer.rate_bps);
        self.rate_bps.unwrap_or(0).min(policed)
    }
}

/// A token bucket that lets pass what it has tokens for and drops the rest: it has no queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policer {
    /// Bits a second.
    pub rate_bps: u64,
    /// Bytes that pass at once after a pause.
    pub burst_bytes: usize,
}

/// The most that a drop-tail queue holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueLimit {
    /// So many packets of any size.
    Packets(usize),
    /// So many bytes.
    Bytes(usize),
}

/// Whether packets may overtake each other after the transmitter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// First in, first out.
    Kept,
    /// Each packet arrives after its own delay.
    ByDelay,
}

/// What became of the packets given to a link, since it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkCounters {
    /// Packets given to [`Link::send`].
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets that [`Link::deliver`] returned, copies included.
    pub delivered: u64,
    /// Their bytes.
    pub delivered_bytes: u64,
    /// Copies that duplication made.
    pub duplicated: u64,
    /// Dropped because the link was down.
    pub dropped_down: u64,
    /// Dropped because they were larger than the MTU.
    pub dropped_too_big: u64,
    /// Dropped because the queue was full.
    pub dropped_queue_full: u64,
    /// Dropped because they came faster than a policer lets pass.
    pub dropped_policed: u64,
    /// Lost on the wire.
    pub dropped_lost: u64,
}

/// One direction of a link that carries packets of type `T`.
#[derive(Debug, Clone)]
pub struct Link<T> {
    /// The link's settings; change them at will.
    pub config: LinkConfig,
    counters: LinkCounters,
    queue: VecDeque<Queued<T>>,
    queued_bytes: usize,
    /// When the packet at the head of the queue has left the transmitter.
    head_leaves_ns: u64,
    under_way: BinaryHeap<Flying<T>>,
    last_arrival_ns: u64,
    launched: u64,
    /// Bytes that the policer has let nobody have yet, and since when.
    tokens: Option<(u64, f64)>,
    /// Where it is in its recording.
    cursor: Cursor,
    loss: LossSource,
    delay: DelaySource,
    copy_delay: DelaySource,
    duplicate: SimRng,
}

#[derive(Debug, Clone)]
struct Queued<T> {
    bytes: usize,
    /// `None`: somebody else's, which leaves this link for elsewhere.
    item: Option<T>,
}

/// A packet on the wire. Ordered so that the heap's top is the next to arrive; at the same time,
/// the first to have left.
#[derive(Debug, Clone)]
struct Flying<T> {
    arrives_ns: u64,
    serial: u64,
    packet: Queued<T>,
}

impl<T: Clone> Link<T> {
    /// A link whose every random choice follows from `seed`.
    #[must_use]
    pub fn new(config: LinkConfig, seed: u64) -> Self {
        Link {
            config,
            counters: LinkCounters::default(),
            queue: VecDeque::new(),
            queued_bytes: 0,
            head_leaves_ns: 0,
            under_way: BinaryHeap::new(),
            last_arrival_ns: 0,
            launched: 0,
            tokens: None,
            cursor: Cursor::default(),
            loss: LossSource::new(rng::stream(seed, 1)),
            delay: DelaySource::new(rng::stream(seed, 2)),
            copy_delay: DelaySource::new(rng::stream(seed, 3)),
            duplicate: rng::stream(seed, 4),
        }
    }

    /// Gives the link a packet of `bytes` bytes at `now_ns`. Times must not run backwards.
    pub fn send(&mut self, now_ns: u64, bytes: usize, item: T) {
        self.enqueue(now_ns, bytes, Some(item));
    }

    /// Somebody else's packet of `bytes` bytes comes at `now_ns`: it takes its place in the queue and its
    /// time on the transmitter, and goes elsewhere from there. [`LinkCounters::sent`] counts it.
    pub fn occupy(&mut self, now_ns: u64, bytes: usize) {
        self.enqueue(now_ns, bytes, None);
    }

    fn enqueue(&mut self, now_ns: u64, bytes: usize, item: Option<T>) {
        self.transmit(now_ns);
        self.counters.sent += 1;
        self.counters.sent_bytes += bytes as u64;
        if !self.config.up {
            self.counters.dropped_down += 1;
        } else if bytes > self.config.mtu {
            self.counters.dropped_too_big += 1;
        } else if !self.is_let_pass(now_ns, bytes) {
            self.counters.dropped_policed += 1;
        } else if self.is_full(bytes) {
            self.counters.dropped_queue_full += 1;
        } else {
            if self.queue.is_empty() {
                self.head_leaves_ns = self.leaves_ns(now_ns, bytes);
            }
            self.queue.push_back(Queued { bytes, item });
            self.queued_bytes += bytes;
            self.transmit(now_ns);
        }
    }

    /// When to call [`Link::deliver`] next: the next arrival, or the end of a transmission, after
    /// which an arrival will be known. `None` when the link is empty.
    #[must_use]
    pub fn next(&self) -> Option<u64> {
        let arrival = self.under_way.peek().map(|flying| flying.arrives_ns);
        let leaves = (!self.queue.is_empty()).then_some(self.head_leaves_ns);
        match (arrival, leaves) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (one, None) | (None, one) => one,
        }
    }

    /// The next packet that has arrived by `now_ns`. Call until it returns `None`, which it may do
    /// at once when the time that [`Link::next`] named was that of a transmission.
    pub fn deliver(&mut self, now_ns: u64) -> Option<T> {
        self.transmit(now_ns);
        if self.under_way.peek()?.arrives_ns > now_ns {
            return None;
        }
        let flying = self.under_way.pop()?;
        self.counters.delivered += 1;
        self.counters.delivered_bytes += flying.packet.bytes as u64;
        flying.packet.item
    }

    /// Drops what waits, the packet on the transmitter included.
    pub fn drop_queue(&mut self) {
        self.counters.dropped_down += self.queue.len() as u64;
        self.queue.clear();
        self.queued_bytes = 0;
        self.cursor = Cursor::default();
    }

    /// What became of the packets so far.
    #[must_use]
    pub fn counters(&self) -> &LinkCounters {
        &self.counters
    }

    /// Packets in the queue, the one on the transmitter included.
    #[must_use]
    pub fn queued_packets(&self) -> usize {
        self.queue.len()
    }

    /// Bytes in the queue, those of the packet on the transmitter included.
    #[must_use]
    pub fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// Packets that have left the transmitter and not been delivered.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// Moves to the wire what has left the transmitter by `now_ns`.
    fn transmit(&mut self, now_ns: u64) {
        while self.head_leaves_ns <= now_ns {
            let Some(packet) = self.queue.pop_front() else {
                return;
            };
            self.queued_bytes -= packet.bytes;
            let left_ns = self.head_leaves_ns;
            if let Some(bytes) = self.queue.front().map(|head| head.bytes) {
                self.head_leaves_ns = self.leaves_ns(left_ns, bytes);
            }
            self.leave(left_ns, packet);
        }
    }

    /// Loss, duplication and delay of a packet that left the transmitter at `left_ns`. Every packet
    /// draws from every stream, lost or not, so that changing one model leaves the others' draws.
    fn leave(&mut self, left_ns: u64, packet: Queued<T>) {
        if packet.item.is_none() {
            return;
        }
        let lost = self.loss.is_lost(&self.config.loss);
        let delay_ns = self.delay.draw(&self.config.delay, left_ns);
        let copied = self.duplicate.random::<f64>() < self.config.duplicate;
        if !self.config.up {
            self.counters.dropped_down += 1;
            return;
        }
        if lost {
            self.counters.dropped_lost += 1;
            return;
        }
        if copied {
            self.counters.duplicated += 1;
            let delay_ns = self.copy_delay.draw(&self.config.delay, left_ns);
            self.launch(left_ns.saturating_add(delay_ns), packet.clone());
        }
        self.launch(left_ns.saturating_add(delay_ns), packet);
    }

    fn launch(&mut self, mut arrives_ns: u64, packet: Queued<T>) {
        if self.config.order == Order::Kept {
            arrives_ns = arrives_ns.max(self.last_arrival_ns);
        }
        self.last_arrival_ns = self.last_arrival_ns.max(arrives_ns);
        self.launched += 1;
        self.under_way.push(Flying {
            arrives_ns,
            serial: self.launched,
            packet,
        });
    }

    /// Whether the policer, if there is one, has tokens for a packet, which it then takes.
    fn is_let_pass(&mut self, now_ns: u64, bytes: usize) -> bool {
        let Some(policer) = self.config.policer else {
            return true;
        };
        let burst = policer.burst_bytes as f64;
        let (since_ns, left) = self.tokens.unwrap_or((now_ns, burst));
        let earned = now_ns.saturating_sub(since_ns) as f64 * policer.rate_bps as f64 / 8e9;
        let tokens = (left + earned).min(burst);
        let passes = tokens >= bytes as f64;
        let left = if passes {
            tokens - bytes as f64
        } else {
            tokens
        };
        self.tokens = Some((now_ns, left));
        passes
    }

    fn is_full(&self, bytes: usize) -> bool {
        match self.config.queue {
            QueueLimit::Packets(limit) => self.queue.len() >= limit,
            QueueLimit::Bytes(limit) => self.queued_bytes + bytes > limit,
        }
    }

    /// When a packet that is on the transmitter from `from_ns` on has left it. A rate of 0 counts as 1 bit a second, so that
    /// the sum stays finite.
    fn leaves_ns(&mut self, from_ns: u64, bytes: usize) -> u64 {
        if let Some(recording) = &self.config.recording {
            return self.cursor.take(recording, from_ns, bytes);
        }
        let takes_ns = self.config.rate_bps.map_or(0, |rate_bps| {
            let ns = bytes as u128 * 8 * 1_000_000_000 / u128::from(rate_bps.max(1));
            u64::try_from(ns).unwrap_or(u64::MAX)
        });
        from_ns.saturating_add(takes_ns)
    }
}

impl<T> Flying<T> {
    fn key(&self) -> (u64, u64) {
        (self.arrives_ns, self.serial)
    }
}

impl<T> Ord for Flying<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl<T> PartialOrd for Flying<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Flying<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for Flying<T> {}

#[cfg(test)]
mod tests;

//! A greedy flow: as much of TCP as it takes to see what a tunnel does to TCP.
//!
//! The source keeps a window of segments under way, opens it as acknowledgements arrive (slow start,
//! then one segment a round trip) and halves it once a round trip when it sees loss. Loss is what
//! TCP takes for it: three segments that were sent later have been acknowledged (RFC 6675's rule,
//! with the sink acknowledging each segment by itself), or nothing at all came for a second. So
//! disorder that the reorder window lets through costs rate here as it does there, and what a test
//! measures is [`Flow::received_bytes`], in order and without duplicates.
//!
//! Not modelled: delayed acknowledgements, pacing, the early end of slow start when delay grows,
//! the undoing of false halvings. The receiver's window is fixed; it keeps slow start from drowning
//! the links' queues.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use mpt_core::time::Time;

use crate::packet::{Inner, id_of};
use crate::pair::{Pair, Side};

/// Later segments that must be acknowledged before one counts as lost.
const REORDERING: u64 = 3;
/// Silence after which everything under way counts as lost.
const SILENCE: Duration = Duration::from_secs(1);
/// The window begins with as many segments (RFC 6928).
const INITIAL_WINDOW: f64 = 10.0;
/// The receiver takes so many segments: 2 MB, enough for 150 Mbit/s and 110 ms.
const RECEIVER_WINDOW: f64 = 1500.0;
/// Headers of IPv4 and UDP in front of a segment's data, in bytes.
const HEADERS: usize = 28;

/// One greedy flow from one side of a [`Pair`] to the other.
pub struct Flow {
    from: Side,
    inner: Inner,
    window: f64,
    threshold: f64,
    /// The next new segment.
    next: u64,
    /// Transmissions so far; a segment's own is its place in the order of sending.
    sent: u64,
    /// Under way: segment, and the place of its last transmission.
    under_way: BTreeMap<u64, u64>,
    by_place: BTreeMap<u64, u64>,
    lost: VecDeque<u64>,
    /// The place beyond which a loss halves the window again.
    halved_at: u64,
    last_progress: Time,
    halvings: u64,
    silences: u64,
    sink: Sink,
}

/// The receiving end: what came, in order.
#[derive(Default)]
struct Sink {
    next: u64,
    beyond: BTreeSet<u64>,
}

impl Flow {
    /// A flow of packets of `len` bytes that starts when first run.
    #[must_use]
    pub fn new(from: Side, len: usize) -> Flow {
        Flow {
            from,
            inner: Inner {
                lite: true,
                ..Inner::of_len(len)
            },
            window: INITIAL_WINDOW,
            threshold: f64::INFINITY,
            next: 0,
            sent: 0,
            under_way: BTreeMap::new(),
            by_place: BTreeMap::new(),
            lost: VecDeque::new(),
            halved_at: 0,
            last_progress: Time::ZERO,
            halvings: 0,
            silences: 0,
            sink: Sink::default(),
        }
    }

    /// Runs the pair, and the flow over it, for `span`.
    pub fn run_for(&mut self, pair: &mut Pair, span: Duration) {
        let until = pair.now() + span;
        self.last_progress = self.last_progress.max(pair.now());
        loop {
            self.send(pair);
            let silence = self.last_progress + SILENCE;
            pair.step(until.min(silence));
            self.receive(pair);
            if pair.now() >= silence {
                self.fall_silent(pair.now());
            }
            if pair.now() >= until {
                return;
            }
        }
    }

    /// Data that arrived, in order and each once, in bytes.
    #[must_use]
    pub fn received_bytes(&self) -> u64 {
        self.sink.next * (self.inner.len - HEADERS) as u64
    }

    /// Runs for `span` and returns the goodput meanwhile, in bits a second.
    pub fn goodput_bps(&mut self, pair: &mut Pair, span: Duration) -> f64 {
        let before = self.received_bytes();
        self.run_for(pair, span);
        (self.received_bytes() - before) as f64 * 8.0 / span.as_secs_f64()
    }

    /// How often the window was halved.
    #[must_use]
    pub fn halvings(&self) -> u64 {
        self.halvings
    }

    /// How often nothing came for a second.
    #[must_use]
    pub fn silences(&self) -> u64 {
        self.silences
    }

    fn send(&mut self, pair: &mut Pair) {
        let mut batch = Vec::new();
        while (self.under_way.len() as f64) < self.window {
            let segment = self.lost.pop_front().unwrap_or_else(|| {
                self.next += 1;
                self.next - 1
            });
            self.under_way.insert(segment, self.sent);
            self.by_place.insert(self.sent, segment);
            self.sent += 1;
            batch.push(self.inner.packet(segment));
        }
        if !batch.is_empty() {
            pair.send_batch(self.from, batch);
        }
    }

    fn receive(&mut self, pair: &mut Pair) {
        let arrived = pair.delivered(self.from.other());
        let acks: Vec<_> = arrived
            .iter()
            .filter_map(|(_, packet)| id_of(packet))
            .map(|segment| {
                self.sink.take(segment);
                let ack = Inner {
                    len: 60,
                    ..self.inner
                };
                ack.packet(segment)
            })
            .collect();
        if !acks.is_empty() {
            pair.send_batch(self.from.other(), acks);
        }
        for (at, packet) in pair.delivered(self.from) {
            if let Some(segment) = id_of(&packet) {
                self.acknowledged(at, segment);
            }
        }
    }

    fn acknowledged(&mut self, now: Time, segment: u64) {
        self.last_progress = now;
        self.lost.retain(|&lost| lost != segment);
        let Some(place) = self.under_way.remove(&segment) else {
            return;
        };
        self.by_place.remove(&place);
        self.window += if self.window < self.threshold {
            1.0
        } else {
            1.0 / self.window
        };
        self.window = self.window.min(RECEIVER_WINDOW);
        while let Some((&first, &segment)) = self.by_place.first_key_value()
            && first + REORDERING <= place
        {
            self.by_place.pop_first();
            self.under_way.remove(&segment);
            self.lost.push_back(segment);
            if first >= self.halved_at {
                self.halved_at = self.sent;
                self.halvings += 1;
                self.window = (self.window / 2.0).max(2.0);
                self.threshold = self.window;
            }
        }
    }

    fn fall_silent(&mut self, now: Time) {
        self.last_progress = now;
        if self.under_way.is_empty() {
            return;
        }
        self.silences += 1;
        self.lost.extend(self.under_way.keys());
        self.under_way.clear();
        self.by_place.clear();
        self.halved_at = self.sent;
        self.threshold = (self.window / 2.0).max(2.0);
        self.window = INITIAL_WINDOW;
    }
}

impl Sink {
    fn take(&mut self, segment: u64) {
        if segment >= self.next {
            self.beyond.insert(segment);
        }
        while self.beyond.remove(&self.next) {
            self.next += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pair::{PairConfig, PathSpec};

    #[test]
    fn one_path_is_filled() {
        let mut pair = Pair::running(
            PairConfig::new([PathSpec::symmetric(20, 20)]),
            Duration::from_secs(1),
        );
        let mut flow = Flow::new(Side::A, 1400);
        flow.run_for(&mut pair, Duration::from_secs(5));
        let goodput = flow.goodput_bps(&mut pair, Duration::from_secs(5));
        // 1372 bytes of data in 1436 on the wire.
        let limit = 20e6 * 1372.0 / 1436.0;
        assert!((0.97 * limit..=limit).contains(&goodput), "{goodput}");
    }
}

//! A greedy flow: as much of TCP as it takes to see what a tunnel does to TCP.
//!
//! The source keeps a window of segments under way, which a [`Sender`]'s law opens as acknowledgements
//! arrive and lowers once a round trip when it sees loss. Loss is what TCP takes for it: three segments
//! that were sent later have been acknowledged (RFC 6675's rule, by the order of sending as in RFC 8985), or
//! nothing at all came for a second. Each segment is answered by an acknowledgement that tells of all that
//! arrived until then (RFC 9293 section 3.4, RFC 2018), so that one that is lost on its way costs nothing.
//! Disorder that the reorder window lets through costs rate here as it does there, and what a test measures is
//! [`Flow::received_bytes`], in order and without duplicates.
//!
//! Not modelled: delayed acknowledgements, the undoing of false halvings, and the window of one segment after a
//! timeout (RFC 5681 section 3.1): after a silence it is the initial one of ten. The receiver's window is fixed;
//! it keeps slow start from drowning the links' queues.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use mpt_core::time::Time;

use crate::packet::{Inner, Kind, id_of, source_port_of};
use crate::pair::{Pair, Side};

mod law;

pub use law::Sender;
use law::{Acked, Law};

/// Later segments that must be acknowledged before one counts as lost.
const REORDERING: u64 = 3;
/// Silence after which everything under way counts as lost (RFC 6298 section 2.4).
const SILENCE: Duration = Duration::from_secs(1);
/// The same of a flow that ends, beyond its longest round trip: the least that Linux waits for (TCP_RTO_MIN).
const SILENCE_BEYOND_ROUND_TRIP: Duration = Duration::from_millis(200);
/// The receiver takes so many segments: 2 MB, enough for 150 Mbit/s and 110 ms.
const RECEIVER_WINDOW: f64 = 1500.0;
/// Headers of IPv4 and UDP in front of a segment's data, in bytes.
const HEADERS: usize = 28;
/// Length of an acknowledgement, in bytes.
const ACK_BYTES: usize = 60;

/// One greedy flow from one side of a [`Pair`] to the other.
pub struct Flow {
    from: Side,
    /// The path over whose link it goes, if that is not the tunnel.
    beside: Option<usize>,
    inner: Inner,
    law: Law,
    receiver_window: f64,
    /// The next new segment, and where new ones end.
    next: u64,
    end: u64,
    /// Transmissions so far; a segment's own is its place in the order of sending.
    sent: u64,
    under_way: BTreeMap<u64, UnderWay>,
    by_place: BTreeMap<u64, u64>,
    lost: VecDeque<u64>,
    /// The place beyond which a loss halves the window again.
    halved_at: u64,
    /// The place whose acknowledgement ends the round trip.
    round_at: u64,
    last_progress: Time,
    least_rtt: Duration,
    longest_rtt: Duration,
    /// When the next segment may leave, where the sender is paced.
    paced_until: Time,
    /// Segments that were acknowledged.
    delivered: u64,
    halvings: u64,
    silences: u64,
    sink: Sink,
}

/// A segment that was sent and is neither acknowledged nor known to be lost.
#[derive(Debug, Clone, Copy)]
struct UnderWay {
    /// The place of its last transmission.
    place: u64,
    sent_at: Time,
    /// How much was acknowledged then, and when the last of that was.
    delivered: u64,
    delivered_at: Time,
    is_repeated: bool,
}

/// The receiving end: what came, in order.
#[derive(Default)]
struct Sink {
    next: u64,
    beyond: BTreeSet<u64>,
    /// Segments that arrived and of which no acknowledgement has told the source, in order of arrival, and how many
    /// arrived before these.
    untold: VecDeque<u64>,
    told: u64,
    /// How many segments had arrived when a segment was acknowledged last.
    acknowledged_at: BTreeMap<u64, u64>,
}

impl Flow {
    /// A flow of packets of `len` bytes that starts when first run.
    #[must_use]
    pub fn new(from: Side, len: usize) -> Flow {
        Flow::of(Sender::default(), from, len)
    }

    /// The same with another sender.
    #[must_use]
    pub fn of(sender: Sender, from: Side, len: usize) -> Flow {
        Flow {
            from,
            beside: None,
            inner: Inner {
                kind: Kind::Segment,
                ..Inner::of_len(len)
            },
            law: Law::of(sender),
            receiver_window: RECEIVER_WINDOW,
            next: 0,
            end: u64::MAX,
            sent: 0,
            under_way: BTreeMap::new(),
            by_place: BTreeMap::new(),
            lost: VecDeque::new(),
            halved_at: 0,
            round_at: 0,
            last_progress: Time::ZERO,
            least_rtt: Duration::MAX,
            longest_rtt: Duration::ZERO,
            paced_until: Time::ZERO,
            delivered: 0,
            halvings: 0,
            silences: 0,
            sink: Sink::default(),
        }
    }

    /// The same from this port, by which it is told from other flows.
    #[must_use]
    pub fn with_port(mut self, source_port: u16) -> Flow {
        self.inner.source_port = source_port;
        self
    }

    /// The same of another host, over the link of a path and beside the tunnel.
    #[must_use]
    pub fn beside(mut self, path: usize) -> Flow {
        self.beside = Some(path);
        self
    }

    /// The same with nothing to send, until [`Flow::offer`] gives it something.
    #[must_use]
    pub fn on_demand(mut self) -> Flow {
        self.end = 0;
        self
    }

    /// So many segments more are to be sent.
    pub fn offer(&mut self, now: Time, segments: u64) {
        if self.under_way.is_empty() {
            self.begin(now);
        }
        self.end = self.end.saturating_add(segments);
    }

    /// Segments that arrived in order.
    #[must_use]
    pub fn received_segments(&self) -> u64 {
        self.sink.next
    }

    /// The port that it comes from.
    #[must_use]
    pub fn source_port(&self) -> u16 {
        self.inner.source_port
    }

    /// Runs the pair, and the flow over it, for `span`. Packets of others that come out are lost.
    pub fn run_for(&mut self, pair: &mut Pair, span: Duration) {
        let until = pair.now() + span;
        self.last_progress = self.last_progress.max(pair.now());
        loop {
            self.send(pair);
            pair.step(until.min(self.deadline()));
            for side in Side::BOTH {
                let arrived = self.delivered(pair, side);
                self.take(pair, side, &arrived);
            }
            self.handle_timeout(pair.now());
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

    /// The same in any order: what waits behind a segment that the sender's queue dropped counts, too.
    #[must_use]
    pub fn arrived_bytes(&self) -> u64 {
        (self.sink.next + self.sink.beyond.len() as u64) * (self.inner.len - HEADERS) as u64
    }

    /// Runs for `span` and returns the goodput meanwhile, in bits a second.
    pub fn goodput_bps(&mut self, pair: &mut Pair, span: Duration) -> f64 {
        let before = self.received_bytes();
        self.run_for(pair, span);
        (self.received_bytes() - before) as f64 * 8.0 / span.as_secs_f64()
    }

    /// Segments that may be under way.
    #[must_use]
    pub fn window(&self) -> f64 {
        self.law.window().min(self.receiver_window)
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

    /// Sends what the window and the pace allow.
    pub fn send(&mut self, pair: &mut Pair) {
        let now = pair.now();
        let mut batch = Vec::new();
        while self.has_room() {
            if let Some(pace) = self.law.pace() {
                if now < self.paced_until {
                    break;
                }
                let gap = Duration::from_secs_f64(1.0 / pace.max(1.0));
                self.paced_until = self.paced_until.max(now) + gap;
            }
            let repeated = self.lost.pop_front();
            let segment = repeated.unwrap_or(self.next);
            self.next += u64::from(repeated.is_none());
            let delivered_at = match self.under_way.is_empty() {
                // After a pause nothing was being delivered.
                true => now,
                false => self.last_progress,
            };
            let under_way = UnderWay {
                place: self.sent,
                sent_at: now,
                delivered: self.delivered,
                delivered_at,
                is_repeated: repeated.is_some(),
            };
            self.under_way.insert(segment, under_way);
            self.by_place.insert(self.sent, segment);
            self.sent += 1;
            batch.push(self.inner.packet(segment));
        }
        if !batch.is_empty() {
            self.put(pair, self.from, batch);
        }
    }

    fn has_room(&self) -> bool {
        let has_more = self.next < self.end || !self.lost.is_empty();
        has_more && (self.under_way.len() as f64) < self.law.window().min(self.receiver_window)
    }

    /// How long nothing may come until everything under way counts as lost. A greedy flow sees losses by what it sent
    /// later; one that ends has nothing later.
    fn patience(&self) -> Duration {
        if self.end == u64::MAX || self.longest_rtt.is_zero() {
            return SILENCE;
        }
        self.longest_rtt + SILENCE_BEYOND_ROUND_TRIP
    }

    /// When [`Flow::send`] or [`Flow::handle_timeout`] is to be called at the latest.
    #[must_use]
    pub fn deadline(&self) -> Time {
        let silence = self.last_progress + self.patience();
        if self.law.pace().is_some() && self.has_room() {
            return silence.min(self.paced_until);
        }
        silence
    }

    /// What came out at `side` since the last call, where the flow's host is.
    pub fn delivered(&self, pair: &mut Pair, side: Side) -> Vec<(Time, Vec<u8>)> {
        match self.beside {
            Some(_) => pair.delivered_beside(side),
            None => pair.delivered(side),
        }
    }

    /// Takes what came out at `side`; packets of others are passed over.
    pub fn take(&mut self, pair: &mut Pair, side: Side, arrived: &[(Time, Vec<u8>)]) {
        let is_ours =
            |packet: &&(Time, Vec<u8>)| source_port_of(&packet.1) == Some(self.inner.source_port);
        let ours: Vec<_> = arrived
            .iter()
            .filter(is_ours)
            .filter_map(|(at, packet)| Some((*at, id_of(packet)?)))
            .collect();
        if side == self.from {
            for (at, segment) in ours {
                for told in self.sink.told_by(segment) {
                    self.acknowledged(at, told, told == segment);
                }
            }
            return;
        }
        let ack = Inner {
            len: ACK_BYTES,
            kind: Kind::Acknowledgement,
            ..self.inner
        };
        let acks = ours.iter().map(|&(_, segment)| {
            self.sink.take(segment);
            ack.packet(segment)
        });
        let acks: Vec<_> = acks.collect();
        if !acks.is_empty() {
            self.put(pair, side, acks);
        }
    }

    fn put(&self, pair: &mut Pair, side: Side, packets: Vec<Vec<u8>>) {
        match self.beside {
            Some(path) => pair.send_beside(side, path, packets),
            None => pair.send_batch(side, packets),
        }
    }

    /// Does what time alone has made due.
    pub fn handle_timeout(&mut self, now: Time) {
        if now >= self.last_progress + self.patience() {
            self.fall_silent(now);
        }
    }

    /// The flow begins now: nothing was to be heard before.
    pub fn begin(&mut self, now: Time) {
        self.last_progress = now;
        self.paced_until = now;
    }

    /// It is known of a segment that it arrived; if it `is_newest`, its own acknowledgement says so.
    fn acknowledged(&mut self, now: Time, segment: u64, is_newest: bool) {
        self.last_progress = now;
        self.lost.retain(|&lost| lost != segment);
        let Some(acked) = self.under_way.remove(&segment) else {
            return;
        };
        let place = acked.place;
        self.by_place.remove(&place);
        self.delivered += 1;
        let ends_round = place >= self.round_at;
        if ends_round {
            self.round_at = self.sent;
        }
        let span = now.since(acked.delivered_at).max(now.since(acked.sent_at));
        let delivered = (self.delivered - acked.delivered) as f64;
        self.law.acked(&Acked {
            now,
            rtt: (is_newest && !acked.is_repeated).then(|| now.since(acked.sent_at)),
            rate: (!span.is_zero()).then(|| delivered / span.as_secs_f64()),
            ends_round,
            under_way: self.under_way.len(),
        });
        self.law.bound(self.receiver_window);
        let since_sent = now.since(acked.sent_at);
        if acked.is_repeated && since_sent < self.least_rtt {
            // It was the first copy that arrived, which tells nothing of what was sent with the second (RFC 8985
            // section 6.2, step 2).
            return;
        }
        if is_newest {
            self.least_rtt = self.least_rtt.min(since_sent);
            self.longest_rtt = self.longest_rtt.max(since_sent);
        }
        while let Some((&first, &segment)) = self.by_place.first_key_value()
            && first + REORDERING <= place
        {
            self.by_place.pop_first();
            self.under_way.remove(&segment);
            self.lost.push_back(segment);
            if first >= self.halved_at {
                self.halved_at = self.sent;
                self.halvings += 1;
                self.law.lost();
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
        self.law.silent();
    }
}

impl Sink {
    fn take(&mut self, segment: u64) {
        self.untold.push_back(segment);
        let arrived = self.told + self.untold.len() as u64;
        self.acknowledged_at.insert(segment, arrived);
        if segment >= self.next {
            self.beyond.insert(segment);
        }
        while self.beyond.remove(&self.next) {
            self.next += 1;
        }
    }
    /// Segments of which the acknowledgement of this one is the first to tell.
    fn told_by(&mut self, segment: u64) -> Vec<u64> {
        let Some(arrived) = self.acknowledged_at.remove(&segment) else {
            return Vec::new();
        };
        let told = arrived.saturating_sub(self.told);
        self.told += told;
        self.untold.drain(..told as usize).collect()
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

    /// Goodput of each sender over one link of 20 Mbit/s, 20 ms and so much queue, and its halvings.
    fn over_one_link(sender: Sender, queue_bytes: usize, loss: f64) -> (f64, u64) {
        use crate::link::QueueLimit;
        use crate::loss::Loss;
        let mut path = PathSpec::symmetric(20, 20);
        for link in &mut path.links {
            link.queue = QueueLimit::Bytes(queue_bytes);
        }
        path.links[0].loss = Loss::Independent { probability: loss };
        let mut pair = Pair::running(PairConfig::new([path]), Duration::from_secs(1));
        let mut flow = Flow::of(sender, Side::A, 1400);
        flow.run_for(&mut pair, Duration::from_secs(5));
        let goodput = flow.goodput_bps(&mut pair, Duration::from_secs(10));
        (goodput / (20e6 * 1372.0 / 1436.0), flow.halvings())
    }

    #[test]
    fn all_senders_fill_a_link_with_a_queue() {
        for sender in [Sender::Reno, Sender::Cubic, Sender::PacedCubic, Sender::Bbr] {
            let (share, _) = over_one_link(sender, 100_000, 0.0);
            assert!((0.93..=1.0).contains(&share), "{sender:?}: {share}");
        }
    }

    #[test]
    fn a_lost_acknowledgement_costs_nothing() {
        use crate::loss::Loss;
        let mut path = PathSpec::symmetric(20, 20);
        path.links[1].loss = Loss::Independent { probability: 0.05 };
        let mut pair = Pair::running(PairConfig::new([path]), Duration::from_secs(1));
        let mut flow = Flow::new(Side::A, 1400);
        flow.run_for(&mut pair, Duration::from_secs(5));
        let goodput = flow.goodput_bps(&mut pair, Duration::from_secs(5));
        let share = goodput / (20e6 * 1372.0 / 1436.0);
        assert!(share > 0.97, "{share}, {} halvings", flow.halvings());
    }

    #[test]
    fn the_answer_to_a_first_copy_tells_nothing_of_what_left_with_the_second() {
        let mut pair = Pair::running(
            PairConfig::new([PathSpec::symmetric(20, 20)]),
            Duration::from_secs(1),
        );
        let mut flow = Flow::new(Side::A, 1400);
        flow.send(&mut pair);
        let last = flow.next - 1;
        let sent_at = pair.now();
        let rtt = Duration::from_millis(40);
        for segment in 1..=REORDERING {
            flow.acknowledged(sent_at + rtt, segment, true);
        }
        assert_eq!(flow.halvings(), 1);
        pair.run_for(rtt);
        flow.send(&mut pair);
        assert!(flow.under_way[&0].is_repeated);
        // The first copy was only late. Its second has left behind all that is still under way.
        flow.acknowledged(pair.now() + Duration::from_millis(1), 0, true);
        assert!(flow.under_way.contains_key(&last) && flow.lost.is_empty());
        assert_eq!(flow.halvings(), 1);
    }

    #[test]
    fn hystart_ends_slow_start_before_a_loss() {
        let (_, reno) = over_one_link(Sender::Reno, 2_000_000, 0.0);
        let (_, cubic) = over_one_link(Sender::Cubic, 2_000_000, 0.0);
        assert!(cubic <= reno, "{cubic} {reno}");
        let (share, _) = over_one_link(Sender::Cubic, 2_000_000, 0.0);
        assert!(share > 0.95, "{share}");
    }

    #[test]
    fn loss_slows_cubic_and_not_bbr() {
        let (cubic, _) = over_one_link(Sender::Cubic, 100_000, 0.02);
        let (bbr, _) = over_one_link(Sender::Bbr, 100_000, 0.02);
        assert!(cubic < 0.5 && bbr > 0.85, "{cubic} {bbr}");
    }
}

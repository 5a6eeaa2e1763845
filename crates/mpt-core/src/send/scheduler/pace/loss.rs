//! What a path loses: by its nature, recently, and beyond that.

use super::epoch::Sample;
use crate::send::scheduler::law::Law;
use crate::send::units::{Rate, Span};
use crate::time::Time;

/// More packets than this were not sent between two samples: somebody's numbers are wrong.
const MOST_PACKETS: u64 = 1 << 20;

/// No time is divided by less.
const NANOSECOND: Span = Span::nanos(1.0);

/// What is usual, and what was seen since it was last judged.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Loss {
    law: &'static Law,
    pub(super) usual: f64,
    /// What was sent after the first of these samples, up to the last, is counted.
    counted: Option<[Sample; 2]>,
    /// Packets that arrived since one was last seen to come after what was sent later. What is sent again over the path
    /// for a lower number seems to, so that one tells little.
    in_order: u64,
    /// How often in a row it was excessive.
    excesses: u32,
    /// The share that was judged last.
    last: f64,
    /// The same, smoothed over a few judgements, but for what was excessive.
    smoothed: f64,
}

/// The share that was lost, and whether that is surely more than usual.
#[derive(Debug, Clone, Copy)]
pub(super) struct Judged {
    pub(super) share: f64,
    pub(super) is_excessive: bool,
    /// At what rate the packets were sent of which this tells.
    pub(super) packets_a_second: f64,
    /// At what rate they arrived.
    pub(super) arrives: Rate,
}

impl Loss {
    pub(super) fn new(law: &'static Law) -> Loss {
        Loss {
            law,
            ..Loss::default()
        }
    }

    /// Counts what a sample tells. What was sent before `since` is passed over.
    pub(super) fn count(&mut self, sample: &Sample, since: Time) {
        let [first, told] = self.counted.unwrap_or([*sample; 2]);
        self.counted = Some([first, *sample]);
        let went_back = sample.sent_packets < told.sent_packets
            || sample.sent_bytes < told.sent_bytes
            || sample.arrived_packets < told.arrived_packets;
        if sample.sent < since || went_back {
            return self.start_again();
        }
        let sent = sample.sent_packets - told.sent_packets;
        let arrived = sample.arrived_packets - told.arrived_packets;
        if sent > MOST_PACKETS || arrived > MOST_PACKETS {
            return self.start_again();
        }
        self.in_order = match arrived > sent {
            true => 0,
            false => (self.in_order + arrived).min(self.law.order_known),
        };
    }

    /// How many packets are counted, and how many of them did not arrive.
    fn sent_and_lost(&self) -> (u64, i64) {
        self.counted.map_or((0, 0), |[first, last]| {
            let sent = last.sent_packets - first.sent_packets;
            let arrived = last.arrived_packets - first.arrived_packets;
            (sent, sent as i64 - arrived as i64)
        })
    }

    /// Judges what was counted once that is enough. Packets of the last `lateness` may only have been
    /// overtaken.
    pub(super) fn judge(&mut self, lateness: Span) -> Option<Judged> {
        let [first, last] = self.counted?;
        let (packets, lost) = self.sent_and_lost();
        let (sent, lost) = (packets as f64, lost as f64);
        let sent_for = last.sent.since(first.sent);
        let arrived_for = last.arrived.since(first.arrived);
        let arrived_bytes = last.arrived_bytes.saturating_sub(first.arrived_bytes);
        let is_in_order = self.in_order >= self.law.order_known;
        let span = Span::from(sent_for);
        // Of what was sent ever faster, more was sent at last.
        let share = if is_in_order {
            0.0
        } else {
            lateness * 2.0 / span.max(lateness * 2.0).max(NANOSECOND)
        };
        let overtaken = sent * share;
        let is_long =
            packets >= self.law.loss_packets && sent >= self.law.loss_overtaken * overtaken;
        let is_plain = lost >= self.law.loss_plain + overtaken;
        if !is_long && !is_plain {
            return None;
        }
        let share = lost / sent;
        let surely = ((lost - overtaken) / sent).clamp(0.0, 1.0);
        let error = (surely * (1.0 - surely) / sent).sqrt();
        let is_excessive = surely > self.usual + self.law.loss_excess + 2.0 * error;
        if !is_excessive && packets < self.law.loss_final {
            return None;
        }
        self.last = share;
        self.start_again();
        if !is_excessive {
            self.excesses = 0;
        }
        Some(Judged {
            share,
            is_excessive,
            packets_a_second: sent / span.as_secs(),
            arrives: Rate::of(arrived_bytes as f64, sent_for.max(arrived_for)),
        })
    }

    /// The share that the path loses by its nature, smoothed. What is overtaken at the end of one count arrives in the
    /// next, which then has less than none.
    pub(super) fn smoothed(&self) -> f64 {
        self.smoothed.max(0.0)
    }

    /// The share that is being lost, or was when that was judged last.
    pub(super) fn now(&self) -> f64 {
        let (sent, lost) = self.sent_and_lost();
        if sent < self.law.loss_packets {
            return self.last;
        }
        (lost as f64 / sent as f64).max(0.0)
    }

    /// Whether it has been excessive often enough to be the rate's fault.
    pub(super) fn is_excessive_again(&mut self) -> bool {
        self.excesses = (self.excesses + 1) % self.law.loss_excesses;
        self.excesses == 0
    }

    /// Takes what was judged for usual, or only if it is less than usual. What the rate may be at fault for is not
    /// the path's loss.
    pub(super) fn accept(&mut self, judged: Judged, even_more: bool) {
        if even_more || !judged.is_excessive {
            self.smoothed += (judged.share - self.smoothed) / 4.0;
        }
        if even_more || judged.share < self.usual {
            let usual = self.usual + (judged.share - self.usual) / 2.0;
            self.usual = usual.clamp(0.0, 1.0);
        }
    }

    /// What was counted and not judged yet does not count.
    pub(super) fn start_again(&mut self) {
        self.counted = self.counted.map(|[_, last]| [last; 2]);
    }

    /// What was lost so far was the rate's fault.
    pub(super) fn forget_smoothed(&mut self) {
        self.smoothed = 0.0;
    }
}

#[cfg(test)]
impl super::Pace {
    /// It loses this share by its nature, for tests of what the sender makes of that.
    pub(in super::super) fn loses(&mut self, share: f64) {
        self.loss.smoothed = share;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes samples of 100 packets each, of which `arrives` arrive, until that is judged.
    fn judge(loss: &mut Loss, from: &mut Sample, arrives: u64) -> Judged {
        for _ in 0..100 {
            from.sent_packets += 100;
            from.arrived_packets += arrives;
            from.sent = from.sent + std::time::Duration::from_millis(1);
            loss.count(from, Time::ZERO);
            if let Some(judged) = loss.judge(Span::ZERO) {
                return judged;
            }
        }
        panic!("nothing was judged");
    }

    fn sample() -> Sample {
        Sample {
            arrived: Time::ZERO,
            one_way: 0,
            arrived_packets: 0,
            arrived_bytes: 0,
            sent: Time::ZERO,
            sent_packets: 0,
            sent_bytes: 0,
        }
    }

    #[test]
    fn a_path_that_was_seen_to_overtake_once_keeps_order_again_after_a_hundred_packets() {
        let lateness = Span::from(std::time::Duration::from_millis(40));
        let mut loss = Loss::new(&Law::LAW);
        let mut from = sample();
        let mut count = |loss: &mut Loss, sent, arrived| {
            from.sent_packets += sent;
            from.arrived_packets += arrived;
            from.sent = from.sent + std::time::Duration::from_millis(10);
            loss.count(&from, Time::ZERO);
        };
        count(&mut loss, 0, 0);
        count(&mut loss, 120, 120);
        count(&mut loss, 4, 5);
        count(&mut loss, 90, 60);
        assert!(loss.judge(lateness).is_none(), "they may be late");
        count(&mut loss, 90, 60);
        assert!(loss.judge(lateness).is_some());
    }

    #[test]
    fn what_a_buffer_drops_of_a_slow_start_is_not_the_nature_of_the_path() {
        let (mut loss, mut from) = (Loss::new(&Law::LAW), sample());
        loss.count(&from, Time::ZERO);
        let judged = judge(&mut loss, &mut from, 90);
        assert!(judged.is_excessive);
        loss.accept(judged, false);
        assert_eq!(loss.smoothed(), 0.0);
        // As much is lost at a rate that is low enough.
        loss.accept(judged, true);
        assert_eq!(loss.smoothed(), 0.1 / 4.0);
        loss.forget_smoothed();
        assert_eq!(loss.smoothed(), 0.0);
    }

    #[test]
    fn what_is_overtaken_at_the_end_of_a_count_is_no_loss() {
        let mut loss = Loss::new(&Law::LAW);
        let of = |share| Judged {
            share,
            is_excessive: false,
            packets_a_second: 0.0,
            arrives: Rate::ZERO,
        };
        for _ in 0..20 {
            loss.accept(of(0.02), false);
            loss.accept(of(-0.02), false);
            assert_eq!(loss.smoothed(), 0.0);
        }
    }
}

//! A meter in front of which consecutive numbers are gathered into runs.
//!
//! A tunnel's packets come in trains, and a train's numbers are consecutive. As long as each number
//! follows the one before, all that a packet costs is to see that it does; the meter behind is fed
//! when order breaks, once a run, with the same result as packet by packet. Packets that are in order
//! stay one run for as long as they are. A run that comes late is a run only within one moment: how
//! late each packet is depends on the time. Of a run only its bytes in all are kept: exact for every
//! byte offset, save that where some of its packets were copies all are taken to be of one size.

/// A meter that takes runs.
pub trait Measures {
    /// Whether this number or a higher one has arrived.
    fn is_behind(&self, sequence: u32) -> bool;

    /// Takes in `count` consecutive numbers from `sequence` on, with `bytes` bytes in all, the first of
    /// which arrived at `now_ns`, and the others too where they are late.
    fn arrive_run(&mut self, sequence: u32, count: u32, bytes: u64, now_ns: u64);

    /// The sender began anew; what was counted stays counted.
    fn restart(&mut self);

    /// Ends an interval. Its counts are kept until the next one ends.
    fn end_interval(&mut self);

    /// Nothing has arrived for long: gives memory back.
    fn rest(&mut self);
}

/// Longest run: all its bytes, with packets of 64 KiB, fit 32 bits.
const MAX_RUN: u32 = 65_536;

/// A meter of 32-bit numbers, with the run that has not been taken in yet.
#[derive(Debug, Clone)]
pub struct RunMeter<M> {
    meter: M,
    /// The number that continues the run.
    next: u32,
    count: u32,
    bytes: u64,
    began_ns: u64,
    /// The run can be continued until then.
    open_until_ns: u64,
}

impl<M: Measures> RunMeter<M> {
    /// In front of a meter that nothing has arrived at.
    #[must_use]
    pub fn new(meter: M) -> Self {
        RunMeter {
            meter,
            next: 0,
            count: 0,
            bytes: 0,
            began_ns: 0,
            open_until_ns: 0,
        }
    }

    /// Takes in a packet: its number on the wire, its payload in bytes, and when it arrived.
    #[inline]
    pub fn arrive(&mut self, sequence: u32, bytes: u32, now_ns: u64) {
        // A run that has not begun is not open, unless at the origin of time.
        if sequence == self.next && now_ns <= self.open_until_ns && self.count < MAX_RUN {
            self.next = sequence.wrapping_add(1);
            self.count += 1;
            self.bytes += u64::from(bytes);
        } else {
            self.begin_run(sequence, bytes, now_ns);
        }
    }

    #[inline(never)]
    fn begin_run(&mut self, sequence: u32, bytes: u32, now_ns: u64) {
        self.settle();
        self.next = sequence.wrapping_add(1);
        self.count = 1;
        self.bytes = u64::from(bytes);
        self.began_ns = now_ns;
        self.open_until_ns = if self.meter.is_behind(sequence) {
            now_ns
        } else {
            u64::MAX
        };
    }

    /// Feeds the meter with what it has not seen yet.
    pub fn settle(&mut self) {
        if self.count > 0 {
            let first = self.next.wrapping_sub(self.count);
            self.meter
                .arrive_run(first, self.count, self.bytes, self.began_ns);
        }
        (self.count, self.open_until_ns) = (0, 0);
    }

    /// The sender began anew, at an unknown number.
    pub fn restart(&mut self) {
        self.settle();
        self.meter.restart();
    }

    /// Ends an interval. Its counts are kept until the next one ends.
    pub fn end_interval(&mut self) {
        self.settle();
        self.meter.end_interval();
    }

    /// Nothing has arrived for long: gives memory back.
    pub fn rest(&mut self) {
        self.settle();
        self.meter.rest();
    }

    /// The meter, which has seen everything.
    pub fn settled(&mut self) -> &M {
        self.settle();
        &self.meter
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    use super::super::{Form, MeterConfig, OrderMeter, ReorderingMeter};
    use super::*;

    fn config(form: Form) -> MeterConfig {
        MeterConfig {
            displacement_threshold: 20,
            occupancy_threshold: 9,
            form,
            history: 256,
            ..MeterConfig::default()
        }
    }

    /// Packets in trains: jumps of any size, losses, copies, late ones; the time stands still within
    /// a batch, and some trains are spread over several.
    fn trains() -> impl Strategy<Value = Vec<(u32, u32, bool)>> {
        let train = (-90i32..90, 1u32..40, prop::bool::weighted(0.3));
        let far = (-900i32..900, 1u32..300, any::<bool>());
        let trains = prop::collection::vec(prop_oneof![9 => train, 1 => far], 1..120);
        trains.prop_map(|trains| {
            let mut next = u32::MAX - 700;
            let mut packets = Vec::new();
            for (jump, len, spread) in trains {
                // Mostly on from where the last one ended, or back into a hole.
                let first = next.wrapping_add_signed(if jump > 40 { 0 } else { jump });
                for at in 0..len {
                    packets.push((first.wrapping_add(at), 100 + at, spread || at == 0));
                }
                next = first.wrapping_add(len);
            }
            packets
        })
    }

    proptest! {
        /// Runs are a way to be faster, not to measure something else.
        #[test]
        fn runs_are_measured_as_packets_are(
            mut packets in trains(),
            corrected: bool,
            alike: bool,
        ) {
            // Where part of a run are copies, all its packets are taken to be of one size.
            let mut seen = BTreeSet::new();
            packets.retain_mut(|(sequence, bytes, _)| {
                *bytes = if alike { 1400 } else { *bytes };
                seen.insert(*sequence) || alike
            });
            let form = if corrected { Form::Corrected } else { Form::Literal };
            let mut single = OrderMeter::new(config(form));
            let mut runs = RunMeter::new(OrderMeter::new(config(form)));
            let mut basic = RunMeter::new(ReorderingMeter::new(&config(form)));
            let mut now_ns = 1000;
            for (at, &(sequence, bytes, later)) in packets.iter().enumerate() {
                now_ns += u64::from(later) * 10;
                single.arrive(sequence, bytes, now_ns);
                runs.arrive(sequence, bytes, now_ns);
                basic.arrive(sequence, bytes, now_ns);
                if at % 500 == 499 {
                    single.restart();
                    runs.restart();
                    basic.restart();
                }
                if at % 700 == 699 {
                    Measures::end_interval(&mut single);
                    runs.end_interval();
                    prop_assert_eq!(runs.settled().last(), single.last());
                }
            }
            prop_assert_eq!(runs.settled().total(), single.total());
            prop_assert_eq!(basic.settled().total(), single.total().reordering);
            single.finish();
            runs.meter.finish();
            prop_assert_eq!(runs.meter.total(), single.total());
        }
    }

    #[test]
    fn in_order_packets_are_one_run_however_long_they_take() {
        let mut meter = RunMeter::new(OrderMeter::new(MeterConfig::default()));
        for number in 0..1000u32 {
            meter.arrive(
                number.wrapping_sub(500),
                1400,
                u64::from(number) * 1_000_000,
            );
        }
        assert_eq!(meter.count, 1000);
        assert_eq!(meter.meter.total().reordering.received, 0);
        assert_eq!(meter.settled().total().reordering.received, 1000);
    }

    #[test]
    fn the_first_packet_may_come_at_the_origin_of_time() {
        let mut meter = RunMeter::new(OrderMeter::new(MeterConfig::default()));
        meter.arrive(0, 1, 0);
        meter.arrive(1, 1, 5);
        assert_eq!(meter.settled().total().reordering.received, 2);
    }
}

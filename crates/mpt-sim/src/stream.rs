//! A measuring stream over one link: evenly spaced numbered packets into an order meter.
//!
//! This is the method of the Reorder Density paper (65,535 packets of 1518 bytes at 8,235 a second,
//! DT = 200) without the network, and the ground of every experiment that asks what a *link* does to
//! order, before any transport reacts to it.

use mpt_core::metrics::{MeterConfig, OrderMeter, OrderReport};

use crate::link::{Link, LinkConfig, LinkCounters};

/// Evenly spaced packets of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream {
    /// How many; the first bears number 0.
    pub packets: u32,
    /// Size of each, in bytes.
    pub bytes: usize,
    /// Time between two, in nanoseconds.
    pub interval_ns: u64,
}

impl Stream {
    /// The stream of the Reorder Density paper.
    pub const REORDER_DENSITY: Stream = Stream {
        packets: 65_535,
        bytes: 1518,
        interval_ns: 1_000_000_000 / 8_235,
    };

    /// Sends the stream over `link` and gives each packet that arrives to `arrive`, with its number
    /// and the time in nanoseconds.
    pub fn run(&self, link: &mut Link<u32>, mut arrive: impl FnMut(u32, u64)) {
        for number in 0..self.packets {
            let now_ns = u64::from(number) * self.interval_ns;
            deliver_until(link, now_ns, &mut arrive);
            link.send(now_ns, self.bytes, number);
        }
        deliver_until(link, u64::MAX, &mut arrive);
    }

    /// Sends the stream over a link of `config`, seeded with `seed`, into a meter that knows the first
    /// number. What the link did comes with the meter's report.
    #[must_use]
    pub fn measure(
        &self,
        config: LinkConfig,
        seed: u64,
        meter: MeterConfig,
    ) -> (OrderReport, LinkCounters) {
        let mut link = Link::new(config, seed);
        let mut meter = OrderMeter::new(MeterConfig {
            first: Some(0),
            ..meter
        });
        let bytes = u32::try_from(self.bytes).unwrap_or(u32::MAX);
        self.run(&mut link, |number, now_ns| {
            meter.arrive(number, bytes, now_ns);
        });
        meter.finish();
        (meter.total(), *link.counters())
    }
}

/// Every arrival up to `until_ns`, in order of time.
fn deliver_until(link: &mut Link<u32>, until_ns: u64, arrive: &mut impl FnMut(u32, u64)) {
    while let Some(now_ns) = link.next().filter(|&next_ns| next_ns <= until_ns) {
        while let Some(number) = link.deliver(now_ns) {
            arrive(number, now_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delay::{Delay, MS};
    use crate::link::Order;

    const STREAM: Stream = Stream {
        packets: 5000,
        bytes: 1000,
        interval_ns: MS,
    };

    #[test]
    fn a_wire_delivers_in_order() {
        let config = LinkConfig {
            rate_bps: Some(100_000_000),
            ..LinkConfig::default()
        };
        let (report, counters) = STREAM.measure(config, 1, MeterConfig::default());
        assert_eq!(report.density.frequency, [(0, 5000)]);
        assert_eq!(report.reordering.reordered, 0);
        assert_eq!(counters.delivered, 5000);
    }

    #[test]
    fn jitter_reorders_and_a_rate_in_order_does_not() {
        let jittery = |order| LinkConfig {
            delay: Delay::Normal {
                mean_ns: 50 * MS,
                sd_ns: 2 * MS,
            },
            order,
            ..LinkConfig::default()
        };
        let reordered = |order| {
            let (report, _) = STREAM.measure(jittery(order), 1, MeterConfig::default());
            report.reordering.reordered
        };
        assert!(reordered(Order::ByDelay) > 1000);
        assert_eq!(reordered(Order::Kept), 0);
    }
}

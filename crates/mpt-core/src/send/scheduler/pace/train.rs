//! Trains: packets that were sent together and arrived apart.
//!
//! They tell a path's capacity long before a queue stands, when a short buffer would drop them
//! (compare packet pairs: Keshav, SIGCOMM 1991). Jitter takes trains apart, too; there they tell nothing.

use super::epoch::Sample;
use crate::send::scheduler::law::Law;
use crate::send::units::Rate;

/// What recent trains say.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Trains {
    law: &'static Law,
    /// How fast they arrived, and how many in a row say so.
    rate: Rate,
    agreed: u32,
}

impl Trains {
    pub(super) fn new(law: &'static Law) -> Trains {
        Trains {
            law,
            ..Trains::default()
        }
    }

    /// Looks at what arrived between two samples. The capacity, if this is another train that agrees
    /// with those before.
    pub(super) fn observe(&mut self, last: Sample, sample: Sample) -> Option<Rate> {
        let packets = sample.sent_packets - last.sent_packets;
        let arrived_for = sample.arrived.since(last.arrived);
        if packets < self.law.train_packets || sample.sent.since(last.sent) * 2 > arrived_for {
            return None;
        }
        let bytes = (sample.arrived_bytes - last.arrived_bytes) as f64;
        let rate = Rate::of(bytes, arrived_for);
        if rate.abs_diff(self.rate) <= self.rate * self.law.trains_agree {
            self.rate = self.rate + (rate - self.rate) / 4.0;
            self.agreed += 1;
        } else {
            (self.rate, self.agreed) = (rate, 1);
        }
        (self.agreed >= self.law.trains).then_some(self.rate)
    }
}

//! Trains: packets that were sent together and arrived apart.
//!
//! They tell a path's capacity long before a queue stands, when a short buffer would drop them
//! (compare packet pairs: Keshav, SIGCOMM 1991). Jitter takes trains apart, too; there they tell nothing.

use super::epoch::Sample;
use crate::send::scheduler::law::Law;

/// What trains of late say.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Trains {
    law: &'static Law,
    /// Bytes a second, and how many in a row say so.
    rate: f64,
    agreed: u32,
}

impl Trains {
    pub(super) fn new(law: &'static Law) -> Trains {
        Trains {
            law,
            ..Trains::default()
        }
    }

    /// Looks at what arrived between two samples. The capacity in bytes a second, if this is another
    /// train that agrees with those before.
    pub(super) fn observe(&mut self, last: Sample, sample: Sample) -> Option<f64> {
        let packets = sample.sent_packets - last.sent_packets;
        let arrived_for = sample.arrived.since(last.arrived);
        if packets < self.law.train_packets || sample.sent.since(last.sent) * 2 > arrived_for {
            return None;
        }
        let bytes = (sample.arrived_bytes - last.arrived_bytes) as f64;
        let rate = bytes / arrived_for.as_secs_f64().max(1e-6);
        if (rate - self.rate).abs() <= self.law.trains_agree * self.rate {
            self.rate += (rate - self.rate) / 4.0;
            self.agreed += 1;
        } else {
            (self.rate, self.agreed) = (rate, 1);
        }
        (self.agreed >= self.law.trains).then_some(self.rate)
    }
}

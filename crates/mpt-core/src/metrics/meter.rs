//! All order metrics of one stream, fed once a packet.
//!
//! The tunnel has such a meter at every point where order matters: on each path, where all paths come
//! together, and behind the reorder window.

use serde::{Deserialize, Serialize};

use super::buffer_occupancy::{BufferOccupancy, OccupancyReport};
use super::density::{Density, DensityReport, Form};
use super::history::History;
use super::rfc4737::{Arrival, Reordering, ReorderingReport};
use super::unwrap::{SequenceBits, Unwrapper};

/// How a meter measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeterConfig {
    /// Width of the sequence numbers.
    pub bits: SequenceBits,
    /// Wire number of the first packet that the sender sends, when it is known.
    pub first: Option<u32>,
    /// DT of Reorder Density, in packets. The Reorder Density paper uses 200.
    pub displacement_threshold: u16,
    /// BT of Reorder Buffer-occupancy Density, in packets.
    pub occupancy_threshold: u16,
    /// Which form of RFC 5236's algorithms.
    pub form: Form,
    /// Numbers within which copies are recognised and byte offsets known.
    pub history: usize,
}

impl Default for MeterConfig {
    /// 32-bit numbers from an unknown first, DT = BT = 200, repaired algorithms, 8192 numbers.
    fn default() -> Self {
        MeterConfig {
            bits: SequenceBits::ThirtyTwo,
            first: None,
            displacement_threshold: 200,
            occupancy_threshold: 200,
            form: Form::Corrected,
            history: 8192,
        }
    }
}

/// All order metrics of one stream. Takes a fixed amount of memory, about half a megabyte with the
/// default settings, and allocates none of it while packets arrive.
#[derive(Debug, Clone)]
pub struct OrderMeter {
    unwrapper: Unwrapper,
    history: History,
    reordering: Reordering,
    density: Density,
    occupancy: BufferOccupancy,
}

impl OrderMeter {
    /// A meter for a stream that begins.
    #[must_use]
    pub fn new(config: MeterConfig) -> Self {
        let first = config.first.map(i64::from);
        let mut unwrapper = Unwrapper::new(config.bits);
        if let Some(first) = config.first {
            unwrapper.unwrap(first);
        }
        OrderMeter {
            unwrapper,
            history: History::new(config.history),
            reordering: Reordering::new(first),
            density: Density::new(config.displacement_threshold, config.form, first),
            occupancy: BufferOccupancy::new(config.occupancy_threshold, config.form, first),
        }
    }

    /// Takes in a packet: its number on the wire, its payload in bytes, and when it arrived. Times
    /// may have any origin; they should not run backwards.
    #[inline]
    pub fn arrive(&mut self, sequence: u32, bytes: u32, now_ns: u64) -> Arrival {
        let number = self.unwrapper.unwrap(sequence);
        let novelty = self.history.arrive(number, bytes);
        self.density.arrive(number, novelty);
        self.occupancy.arrive(number, novelty);
        self.reordering
            .arrive(number, now_ns, novelty, &self.history)
    }

    /// The sender began anew, at an unknown number: nothing that arrives is compared with what came
    /// before. What was counted stays counted.
    pub fn restart(&mut self) {
        self.unwrapper.restart();
        self.history.restart();
        self.reordering.restart(None);
        self.density.restart(None);
        self.occupancy.restart(None);
    }

    /// The stream has ended: Reorder Density, which lags by DT packets, catches up.
    pub fn finish(&mut self) {
        while self.density.finish().is_some() {}
    }

    /// What was counted since the last call.
    pub fn interval(&mut self) -> OrderReport {
        OrderReport {
            reordering: self.reordering.interval(),
            density: self.density.interval(),
            occupancy: self.occupancy.interval(),
        }
    }

    /// What was counted since the start.
    #[must_use]
    pub fn total(&self) -> OrderReport {
        OrderReport {
            reordering: self.reordering.total(),
            density: self.density.total(),
            occupancy: self.occupancy.total(),
        }
    }
}

/// All order metrics, over an interval or since the start.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct OrderReport {
    /// RFC 4737.
    pub reordering: ReorderingReport,
    /// Reorder Density of RFC 5236, with mean displacement and entropy.
    pub density: DensityReport,
    /// Reorder Buffer-occupancy Density of RFC 5236.
    pub occupancy: OccupancyReport,
}

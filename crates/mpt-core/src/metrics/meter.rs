//! All order metrics of one stream, fed once a packet.
//!
//! The tunnel has such a meter at every point where order matters: on each path, where all paths come
//! together, and behind the reorder window.

use serde::{Deserialize, Serialize};

use super::buffer_occupancy::{BufferOccupancy, OccupancyReport};
use super::density::{Density, DensityReport, Form};
use super::history::History;
use super::rfc4737::{Arrival, Reordering, ReorderingReport};
use super::run_meter::Measures;
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

/// RFC 4737 alone, with what it needs: numbers unwrapped, copies recognised.
#[derive(Debug, Clone)]
pub struct ReorderingMeter {
    unwrapper: Unwrapper,
    history: History,
    reordering: Reordering,
}

impl ReorderingMeter {
    /// A meter for a stream that begins.
    #[must_use]
    pub fn new(config: &MeterConfig) -> Self {
        let mut unwrapper = Unwrapper::new(config.bits);
        if let Some(first) = config.first {
            unwrapper.unwrap(first);
        }
        ReorderingMeter {
            unwrapper,
            history: History::new(config.history),
            reordering: Reordering::new(config.first.map(i64::from)),
        }
    }

    /// What was counted in the last interval that was ended.
    #[must_use]
    pub fn last(&self) -> ReorderingReport {
        self.reordering.last()
    }

    /// What was counted since the start.
    #[must_use]
    pub fn total(&self) -> ReorderingReport {
        self.reordering.total()
    }
}

impl Measures for ReorderingMeter {
    fn is_behind(&self, sequence: u32) -> bool {
        self.unwrapper.is_behind(sequence)
    }

    fn arrive_run(&mut self, sequence: u32, count: u32, bytes: u64, now_ns: u64) {
        let first = self.unwrapper.unwrap_run(sequence, count);
        if self.history.arrive_run(first, count, bytes).is_some() {
            self.reordering
                .arrive_run(first, count, now_ns, &self.history);
            return;
        }
        for (number, bytes) in one_by_one(first, count, bytes) {
            let novelty = self.history.arrive(number, bytes);
            self.reordering
                .arrive(number, now_ns, novelty, &self.history);
        }
    }

    fn restart(&mut self) {
        self.unwrapper.restart();
        self.history.restart();
        self.reordering.restart(None);
    }

    fn end_interval(&mut self) {
        self.reordering.end_interval();
    }

    fn rest(&mut self) {
        self.history.rest();
        self.reordering.rest();
    }
}

/// The numbers of a run, each with its share of the bytes, the first with what is left over.
fn one_by_one(first: i64, count: u32, bytes: u64) -> impl Iterator<Item = (i64, u32)> {
    let count = u64::from(count.max(1));
    let (share, rest) = (bytes / count, bytes % count);
    (0..count).map(move |at| {
        let bytes = if at == 0 { share + rest } else { share };
        (first + at as i64, u32::try_from(bytes).unwrap_or(u32::MAX))
    })
}

/// All order metrics of one stream. Takes memory as it is needed, half a megabyte at most with the default
/// settings: for each kind of disorder once, when it first occurs, and none for one packet more.
#[derive(Debug, Clone)]
pub struct OrderMeter {
    basic: ReorderingMeter,
    density: Density,
    occupancy: BufferOccupancy,
}

impl OrderMeter {
    /// A meter for a stream that begins.
    #[must_use]
    pub fn new(config: MeterConfig) -> Self {
        let first = config.first.map(i64::from);
        OrderMeter {
            basic: ReorderingMeter::new(&config),
            density: Density::new(config.displacement_threshold, config.form, first),
            occupancy: BufferOccupancy::new(config.occupancy_threshold, config.form, first),
        }
    }

    /// Takes in a packet: its number on the wire, its payload in bytes, and when it arrived. Times
    /// may have any origin; they should not run backwards.
    #[inline]
    pub fn arrive(&mut self, sequence: u32, bytes: u32, now_ns: u64) -> Arrival {
        let number = self.basic.unwrapper.unwrap(sequence);
        self.arrive_unwrapped(number, bytes, now_ns)
    }

    #[inline]
    fn arrive_unwrapped(&mut self, number: i64, bytes: u32, now_ns: u64) -> Arrival {
        let ReorderingMeter {
            history,
            reordering,
            ..
        } = &mut self.basic;
        let novelty = history.arrive(number, bytes);
        self.density.arrive(number, novelty);
        self.occupancy.arrive(number, novelty);
        reordering.arrive(number, now_ns, novelty, history)
    }

    /// The stream has ended: Reorder Density, which lags by DT packets, catches up.
    pub fn finish(&mut self) {
        while self.density.finish().is_some() {}
    }

    /// What was counted in the last interval that was ended.
    #[must_use]
    pub fn last(&self) -> OrderReport {
        OrderReport {
            reordering: self.basic.last(),
            density: self.density.last(),
            occupancy: self.occupancy.last(),
        }
    }

    /// What was counted since the start.
    #[must_use]
    pub fn total(&self) -> OrderReport {
        OrderReport {
            reordering: self.basic.total(),
            density: self.density.total(),
            occupancy: self.occupancy.total(),
        }
    }

    /// The sender began anew, at an unknown number: nothing that arrives is compared with what came
    /// before. What was counted stays counted.
    pub fn restart(&mut self) {
        Measures::restart(self);
    }
}

impl Measures for OrderMeter {
    fn is_behind(&self, sequence: u32) -> bool {
        self.basic.is_behind(sequence)
    }

    fn arrive_run(&mut self, sequence: u32, count: u32, bytes: u64, now_ns: u64) {
        let ReorderingMeter {
            unwrapper,
            history,
            reordering,
        } = &mut self.basic;
        let first = unwrapper.unwrap_run(sequence, count);
        if history.arrive_run(first, count, bytes).is_some() {
            self.density.arrive_run(first, count);
            self.occupancy.arrive_run(first, count);
            reordering.arrive_run(first, count, now_ns, history);
            return;
        }
        for (number, bytes) in one_by_one(first, count, bytes) {
            self.arrive_unwrapped(number, bytes, now_ns);
        }
    }

    fn restart(&mut self) {
        self.basic.restart();
        self.density.restart(None);
        self.occupancy.restart(None);
    }

    fn end_interval(&mut self) {
        self.basic.end_interval();
        self.density.end_interval();
        self.occupancy.end_interval();
    }

    fn rest(&mut self) {
        self.basic.rest();
        self.density.rest();
        self.occupancy.rest();
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

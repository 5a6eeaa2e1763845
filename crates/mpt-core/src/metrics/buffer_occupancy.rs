//! Reorder Buffer-occupancy Density (RFC 5236 §3.11, §7.2): what restoring order costs.
//!
//! Imagine a buffer that holds every packet which came before its turn and lets it go when the ones
//! below it have come. RBD is the distribution of its occupancy after each arrival, 0…BT. Its upper
//! percentiles are what a receiver must be able to hold; its share at 0 is how often it held nothing.
//! When BT packets wait and another must, the expected packet is given up as lost.
//!
//! The RFC's overflow branch frees the run of packets above the lost ones and forgets the packet that
//! caused it, unless it happened to continue that run: the expected number later waits for a packet
//! that has arrived. [`Form::Corrected`] stores it; [`Form::Literal`] does as printed. As in
//! [`density`](super::density), the corrected form tells a very late first copy from a duplicate.

use serde::{Deserialize, Serialize};

use super::density::Form;
use super::history::Novelty;
use super::runs::{Run, Runs};
use super::tally::{Counts, Tally, add_each, ratio};

/// The imagined buffer's state around one arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occupancy {
    /// E before the arrival.
    pub expected_before: i64,
    /// B after it.
    pub held_after: usize,
}

/// Reorder Buffer-occupancy Density of one stream.
#[derive(Debug, Clone)]
pub struct BufferOccupancy {
    threshold: usize,
    form: Form,
    expected: Option<i64>,
    /// Numbers in the imagined buffer, ascending; BT at most.
    held: Runs,
    tally: Tally<OccupancyCounts>,
}

impl BufferOccupancy {
    /// With occupancy threshold `threshold` (BT), for a stream whose first packet sent bears
    /// `first`; when that is not known the first arrival is taken for it.
    #[must_use]
    pub fn new(threshold: u16, form: Form, first: Option<i64>) -> Self {
        let threshold = usize::from(threshold);
        BufferOccupancy {
            threshold,
            form,
            expected: first,
            held: Runs::default(),
            tally: Tally::new(OccupancyCounts::default()),
        }
    }

    /// Takes in the arrival of `number`; `None` when it counts for nothing, being a copy or late.
    #[inline]
    pub fn arrive(&mut self, number: i64, novelty: Novelty) -> Option<Occupancy> {
        let expected_before = *self.expected.get_or_insert(number);
        if number < expected_before {
            let first_copy = novelty != Novelty::Duplicate && self.form == Form::Corrected;
            if first_copy {
                self.tally.now.too_late += 1;
            } else {
                self.tally.now.duplicates += 1;
            }
            return None;
        }
        if number == expected_before {
            self.release_from(number + 1);
        } else if !self.hold(number) {
            self.tally.now.duplicates += 1;
            return None;
        }
        let held_after = self.held.len() as usize;
        self.tally.now.left(held_after, 1);
        Some(Occupancy {
            expected_before,
            held_after,
        })
    }

    /// Takes in `count` consecutive numbers from `first` on, none of them a copy: the same as
    /// [`BufferOccupancy::arrive`] for each.
    pub fn arrive_run(&mut self, first: i64, count: u32) {
        let expected = *self.expected.get_or_insert(first);
        let end = first + i64::from(count);
        let passed = (end.min(expected) - first).max(0);
        match self.form {
            Form::Corrected => self.tally.now.too_late += passed as u64,
            Form::Literal => self.tally.now.duplicates += passed as u64,
        }
        let mut at = first + passed;
        while at < end {
            at = self.take_part(Run { first: at, end });
        }
    }

    /// Takes in as much of `run` as one rule covers. Returns the number to go on at.
    fn take_part(&mut self, run: Run) -> i64 {
        let held = self.held.len() as usize;
        if self.expected == Some(run.first) {
            let next_held = self.held.front().map_or(run.end, |front| front.first);
            let stop = next_held.clamp(run.first + 1, run.end);
            // All but the last leave the buffer as it is.
            self.tally.now.left(held, (stop - run.first - 1) as u64);
            self.release_from(stop);
            self.tally.now.left(self.held.len() as usize, 1);
            return stop;
        }
        let fits = run.len().min((self.threshold - held) as u64) as usize;
        let part = Run {
            end: run.first + fits as i64,
            ..run
        };
        let is_early = self.expected.is_none_or(|expected| run.first > expected);
        if fits > 0 && is_early && self.held.insert(part) {
            // The last first, so that room is made once.
            (held + 1..=held + fits)
                .rev()
                .for_each(|held| self.tally.now.left(held, 1));
            return part.end;
        }
        // No room, or a copy that the history had forgotten.
        self.arrive(run.first, Novelty::New);
        run.first + 1
    }

    /// A new stream begins; what was counted stays counted.
    pub fn restart(&mut self, first: Option<i64>) {
        self.held.clear();
        self.expected = first;
    }

    /// Ends an interval without reporting on it: [`BufferOccupancy::last`] will.
    pub fn end_interval(&mut self) {
        self.tally.end_interval();
    }

    /// Gives memory back that nothing is counted in.
    pub(crate) fn rest(&mut self) {
        self.tally.rest();
        self.held.rest();
    }

    /// What was counted in the last interval that was ended.
    #[must_use]
    pub fn last(&self) -> OccupancyReport {
        self.tally.last().report(self.threshold)
    }

    /// What was counted since the start.
    #[must_use]
    pub fn total(&self) -> OccupancyReport {
        self.tally.total().report(self.threshold)
    }

    /// Puts an early packet into the buffer; `false` when it is there already.
    fn hold(&mut self, number: i64) -> bool {
        if !self.held.insert(Run::one(number)) {
            return false;
        }
        // One more than BT for a moment; there is room for it.
        if self.held.len() > self.threshold as u64 {
            self.overflow(number);
        }
        true
    }

    /// Gives up what is below the first packet held, `number` among them, and frees the run that
    /// begins there.
    fn overflow(&mut self, number: i64) {
        if let Some(front) = self.held.front() {
            if let Some(expected) = self.expected {
                self.tally.now.lost += (front.first - expected) as u64;
            }
            self.release_from(front.first);
        }
        let still_held = self.expected.is_some_and(|expected| number >= expected);
        if self.form == Form::Literal && still_held {
            self.held.remove(Run::one(number));
        }
    }

    /// Makes `expected` the expected number, then frees the packets that continue from it.
    #[inline]
    fn release_from(&mut self, expected: i64) {
        let mut expected = expected;
        while let Some(front) = self.held.front().filter(|run| run.first == expected) {
            self.held.take_front(front.len());
            expected = front.end;
        }
        self.expected = Some(expected);
    }
}

#[derive(Debug, Clone, Default)]
struct OccupancyCounts {
    /// By occupancy, up to the greatest that occurred.
    frequency: Vec<u64>,
    lost: u64,
    duplicates: u64,
    too_late: u64,
}

impl OccupancyCounts {
    /// So many arrivals left so many held.
    #[inline]
    fn left(&mut self, held: usize, arrivals: u64) {
        if self.frequency.len() <= held {
            self.frequency.resize(held + 1, 0);
        }
        self.frequency[held] += arrivals;
    }

    fn report(&self, threshold: usize) -> OccupancyReport {
        let frequency: Vec<(u32, u64)> = self
            .frequency
            .iter()
            .zip(0u32..)
            .filter(|&(&count, _)| count > 0)
            .map(|(&count, held)| (held, count))
            .collect();
        let counted = frequency.iter().map(|&(_, count)| count).sum();
        let sum: f64 = frequency
            .iter()
            .map(|&(held, count)| f64::from(held) * count as f64)
            .sum();
        OccupancyReport {
            threshold: threshold as u32,
            counted,
            mean: ratio(sum, counted),
            p99: quantile(&frequency, counted, 0.99),
            max: frequency.last().map_or(0, |&(held, _)| held),
            frequency,
            lost: self.lost,
            duplicates: self.duplicates,
            too_late: self.too_late,
        }
    }
}

impl Counts for OccupancyCounts {
    fn add(&mut self, other: &Self) {
        add_each(&mut self.frequency, &other.frequency);
        self.lost += other.lost;
        self.duplicates += other.duplicates;
        self.too_late += other.too_late;
    }

    fn clear(&mut self) {
        self.frequency.clear();
        self.lost = 0;
        self.duplicates = 0;
        self.too_late = 0;
    }

    fn rest(&mut self) {
        self.frequency.shrink_to_fit();
    }
}

fn quantile(frequency: &[(u32, u64)], counted: u64, quantile: f64) -> u32 {
    let wanted = (counted as f64 * quantile).ceil() as u64;
    let mut below = 0;
    let reached = frequency.iter().find(|&&(_, count)| {
        below += count;
        below >= wanted
    });
    reached.map_or(0, |&(held, _)| held)
}

/// Reorder Buffer-occupancy Density over an interval or since the start.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct OccupancyReport {
    /// BT, in packets.
    pub threshold: u32,
    /// FB: occupancy and how many arrivals left it, ascending, those that occurred.
    pub frequency: Vec<(u32, u64)>,
    /// N′: their sum.
    pub counted: u64,
    /// Mean occupancy in packets (§9); 0 when nothing was counted.
    pub mean: f64,
    /// 99th percentile of occupancy.
    pub p99: u32,
    /// Largest occupancy.
    pub max: u32,
    /// Numbers given up because the buffer was full.
    pub lost: u64,
    /// Copies (and, in the literal form, what is `too_late` in the corrected one).
    pub duplicates: u64,
    /// First copies that arrived after their number had been given up.
    pub too_late: u64,
}

impl OccupancyReport {
    /// RBD: occupancy and share, ascending.
    pub fn density(&self) -> impl Iterator<Item = (u32, f64)> + '_ {
        let frequency = self.frequency.iter();
        frequency.map(|&(held, count)| (held, ratio(count as f64, self.counted)))
    }
}

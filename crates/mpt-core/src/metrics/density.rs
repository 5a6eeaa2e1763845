//! Reorder Density (RFC 5236 §3, §7.1): the distribution of displacements.
//!
//! Give every packet that arrives the next *receive index* (RI), skipping the numbers of lost
//! packets. In an ordered stream index and number agree; the *displacement* D = RI − number is above
//! 0 for a late packet and below 0 for an early one. RD is the distribution of D over −DT…DT. Unlike
//! RFC 4737, which charges the packet that comes too late, it shows both sides of a swap, and it does
//! not confuse loss with reordering.
//!
//! Which numbers are lost is known only later, so evaluation stays back by DT packets (§6 b): RD lags
//! the stream by up to DT arrivals until [`Density::finish`].
//!
//! Two numbers sum RD up: the *mean displacement* Σ|D|·RD\[D\], how far
//! packets are from their places, and the *entropy* −Σ RD·ln RD in nats, how unpredictable that
//! distance is.
//!
//! The RFC's procedure searches two lists for the index and counts it up by one while it is missing.
//! Both lists together hold the numbers that have arrived and that the index has not reached; kept
//! sorted, the index's next value is the first of them. Both are kept as runs of consecutive numbers:
//! packets that arrive in blocks are worked off in blocks, and a jump of 2³¹ costs as much as one of 1.
//!
//! # Where the RFC's procedure is defective
//!
//! - A packet later than DT is discarded and the index stays (§7.1). Its place had been used by then,
//!   by the packet that arrived in its stead, and that one's place by the next; with the index left
//!   behind, every packet after it is early by one, for good. [`Form::Corrected`] lets the discarded
//!   packet consume an index, which restores step; [`Form::Literal`] does as the RFC prints.
//! - A packet whose number the index has passed is called a duplicate, also when it is the first copy
//!   and merely very late. The corrected form counts those in [`DensityReport::too_late`].

use serde::{Deserialize, Serialize};

use super::history::Novelty;
use super::runs::{Run, Runs};
use super::tally::{Counts, Tally, add_each, ratio};

/// Which reading of a defective algorithm to follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// With its defects repaired.
    #[default]
    Corrected,
    /// As the RFC prints it.
    Literal,
}

/// What became of one packet when its turn came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Its number.
    pub number: i64,
    /// The receive index that it was compared with.
    pub receive_index: i64,
    /// Numbers directly before that index which were given up as lost in this step.
    pub lost: u64,
    /// Whether |D| was at most DT, so that it counts.
    pub counted: bool,
}

impl Step {
    /// D: above 0 when late, below 0 when early.
    #[must_use]
    pub fn displacement(&self) -> i64 {
        self.receive_index - self.number
    }
}

/// Reorder Density of one stream.
#[derive(Debug, Clone)]
pub struct Density {
    threshold: u64,
    form: Form,
    /// The next receive index, once known.
    index: Option<i64>,
    /// Arrivals that wait for their turn, oldest first: the RFC's `window`, DT + 1 at most.
    waiting: Runs,
    /// Arrived and not below the index, ascending: what of `window` and `buffer` is ahead.
    ahead: Runs,
    tally: Tally<DensityCounts>,
}

impl Density {
    /// With displacement threshold `threshold` (DT), for a stream whose first packet sent bears
    /// `first`. When that is not known the index begins at the least of the first DT + 1 numbers.
    #[must_use]
    pub fn new(threshold: u16, form: Form, first: Option<i64>) -> Self {
        Density {
            threshold: u64::from(threshold),
            form,
            index: first,
            waiting: Runs::default(),
            ahead: Runs::default(),
            tally: Tally::new(DensityCounts::default()),
        }
    }

    /// Takes in the arrival of `number`. From the DT + 1st on, each arrival gives one earlier packet
    /// its turn; what became of that one is returned.
    #[inline]
    pub fn arrive(&mut self, number: i64, novelty: Novelty) -> Option<Step> {
        if self.index.is_some_and(|index| number < index) {
            let first_copy = novelty != Novelty::Duplicate && self.form == Form::Corrected;
            if first_copy {
                self.tally.now.too_late += 1;
            } else {
                self.tally.now.duplicates += 1;
            }
            return None;
        }
        if !self.ahead.insert(Run::one(number)) {
            self.tally.now.duplicates += 1;
            return None;
        }
        self.waiting.push_back(Run::one(number));
        if self.waiting.len() <= self.threshold {
            return None;
        }
        self.step()
    }

    /// Takes in `count` consecutive numbers from `first` on, none of them a copy: the same as
    /// [`Density::arrive`] for each.
    pub fn arrive_run(&mut self, first: i64, count: u32) {
        let mut run = Run {
            first,
            end: first + i64::from(count),
        };
        if let Some(index) = self.index.filter(|&index| first < index) {
            let passed = (run.end.min(index) - first) as u64;
            match self.form {
                Form::Corrected => self.tally.now.too_late += passed,
                Form::Literal => self.tally.now.duplicates += passed,
            }
            run.first += passed as i64;
        }
        if run.first == run.end {
            return;
        }
        if !self.ahead.insert(run) {
            // A copy that the history had forgotten.
            for number in run.first..run.end {
                self.arrive(number, Novelty::New);
            }
            return;
        }
        // That the later numbers of the run stand in the lists already when the earlier ones make
        // others take their turn changes nothing: an index is the least number that is ahead.
        self.waiting.push_back(run);
        while self.waiting.len() > self.threshold {
            self.steps(self.waiting.len() - self.threshold);
        }
    }

    /// At the end of a stream: gives the packets that still wait their turns, one a call.
    pub fn finish(&mut self) -> Option<Step> {
        self.step()
    }

    /// A new stream begins: what waits is given its turn, what was counted stays counted.
    pub fn restart(&mut self, first: Option<i64>) {
        while self.steps(u64::MAX).is_some() {}
        self.ahead.clear();
        self.index = first;
    }

    /// Ends an interval without reporting on it: [`Density::last`] will.
    pub fn end_interval(&mut self) {
        self.tally.end_interval();
    }

    /// Gives memory back that nothing is counted in.
    pub(crate) fn rest(&mut self) {
        self.tally.rest();
        self.waiting.rest();
        self.ahead.rest();
    }

    /// What was counted in the last interval that was ended.
    #[must_use]
    pub fn last(&self) -> DensityReport {
        self.tally.last().report(self.threshold as usize)
    }

    /// What was counted since the start.
    #[must_use]
    pub fn total(&self) -> DensityReport {
        self.tally.total().report(self.threshold as usize)
    }

    #[inline]
    fn step(&mut self) -> Option<Step> {
        self.steps(1)
    }

    /// Gives the packet that waits longest its turn, and up to `limit` in all of those behind it that
    /// fare just as it does. Returns what became of the first.
    #[inline]
    fn steps(&mut self, limit: u64) -> Option<Step> {
        let turn = self.waiting.front()?;
        let number = turn.first;
        // Numbers that wait and are behind the index are as many as early ones counted before and
        // still ahead, so something is ahead; if not, the packet itself is the next best index.
        let ahead = self.ahead.front().unwrap_or(Run::one(number));
        let receive_index = ahead.first;
        let lost = self.index.map_or(0, |index| receive_index - index) as u64;
        let displacement = receive_index - number;
        let counted = displacement.unsigned_abs() <= self.threshold;
        let same = turn.len().min(ahead.len()).min(limit);
        let counts = &mut self.tally.now;
        counts.lost += lost;
        self.index = Some(receive_index);
        let taken = if counted {
            counts.displaced(displacement, same);
            self.consume(receive_index, same);
            same
        } else if displacement < 0 {
            // Those behind it are earlier still.
            let all = turn.len().min(limit);
            counts.discarded_early += all;
            self.ahead.remove(Run {
                first: number,
                end: number + all as i64,
            });
            all
        } else if self.form == Form::Corrected {
            counts.discarded_late += same;
            self.consume(receive_index, same);
            same
        } else {
            counts.discarded_late += 1;
            1
        };
        self.waiting.take_front(taken);
        Some(Step {
            number,
            receive_index,
            lost,
            counted,
        })
    }

    #[inline]
    fn consume(&mut self, receive_index: i64, count: u64) {
        self.ahead.take_front(count);
        self.index = Some(receive_index + count as i64);
    }
}

#[derive(Debug, Clone, Default)]
struct DensityCounts {
    /// By displacement: 0, 1, -1, 2, -2, …, up to the greatest that occurred.
    frequency: Vec<u64>,
    lost: u64,
    duplicates: u64,
    too_late: u64,
    discarded_early: u64,
    discarded_late: u64,
}

impl DensityCounts {
    /// So many had this displacement.
    #[inline]
    fn displaced(&mut self, displacement: i64, packets: u64) {
        let twice = 2 * displacement.unsigned_abs() as usize;
        let at = twice - usize::from(displacement > 0);
        if self.frequency.len() <= at {
            self.frequency.resize(at + 1, 0);
        }
        self.frequency[at] += packets;
    }

    fn report(&self, threshold: usize) -> DensityReport {
        let displacements = (0..).zip(&self.frequency).map(|(at, count)| match at % 2 {
            0 => (-(at / 2), *count),
            _ => (at / 2 + 1, *count),
        });
        let mut frequency: Vec<(i32, u64)> =
            displacements.filter(|(_, count)| *count > 0).collect();
        frequency.sort_unstable_by_key(|(displacement, _)| *displacement);
        let counted = frequency.iter().map(|&(_, count)| count).sum();
        DensityReport {
            threshold: threshold as u32,
            counted,
            mean_displacement: mean_displacement(&frequency, counted),
            entropy_nats: entropy(&frequency, counted),
            frequency,
            lost: self.lost,
            duplicates: self.duplicates,
            too_late: self.too_late,
            discarded_early: self.discarded_early,
            discarded_late: self.discarded_late,
        }
    }
}

impl Counts for DensityCounts {
    fn add(&mut self, other: &Self) {
        add_each(&mut self.frequency, &other.frequency);
        self.lost += other.lost;
        self.duplicates += other.duplicates;
        self.too_late += other.too_late;
        self.discarded_early += other.discarded_early;
        self.discarded_late += other.discarded_late;
    }

    fn clear(&mut self) {
        self.frequency.clear();
        self.lost = 0;
        self.duplicates = 0;
        self.too_late = 0;
        self.discarded_early = 0;
        self.discarded_late = 0;
    }

    fn rest(&mut self) {
        self.frequency.shrink_to_fit();
    }
}

fn mean_displacement(frequency: &[(i32, u64)], counted: u64) -> f64 {
    let distances = frequency.iter();
    let sum: f64 = distances
        .map(|&(displacement, count)| f64::from(displacement.abs()) * count as f64)
        .sum();
    ratio(sum, counted)
}

fn entropy(frequency: &[(i32, u64)], counted: u64) -> f64 {
    let shares = frequency
        .iter()
        .map(|&(_, count)| ratio(count as f64, counted));
    // Σ of nothing and of a certainty are −0; adding 0 makes that 0.
    -shares.map(|share| share * share.ln()).sum::<f64>() + 0.0
}

/// Reorder Density over an interval or since the start.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct DensityReport {
    /// DT, in packets.
    pub threshold: u32,
    /// FD: displacement and how many packets had it, ascending, those that occurred.
    pub frequency: Vec<(i32, u64)>,
    /// N′: their sum.
    pub counted: u64,
    /// Σ|D|·RD\[D\] in packets; 0 when nothing was counted.
    pub mean_displacement: f64,
    /// −Σ RD·ln RD in nats; 0 when nothing was counted.
    pub entropy_nats: f64,
    /// Numbers that the receive index skipped.
    pub lost: u64,
    /// Copies (and, in the literal form, what is `too_late` in the corrected one).
    pub duplicates: u64,
    /// First copies that arrived after their number had been given up as lost.
    pub too_late: u64,
    /// Packets early by more than DT, not counted.
    pub discarded_early: u64,
    /// Packets late by more than DT, not counted.
    pub discarded_late: u64,
}

impl DensityReport {
    /// RD: displacement and share, ascending.
    pub fn density(&self) -> impl Iterator<Item = (i32, f64)> + '_ {
        let frequency = self.frequency.iter();
        frequency.map(|&(displacement, count)| (displacement, ratio(count as f64, self.counted)))
    }
}

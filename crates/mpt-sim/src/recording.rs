//! Links that somebody recorded: Mahimahi's packet-delivery traces.
//!
//! Such a file has a line for each opportunity to deliver 1500 bytes: the millisecond at which it comes, from the beginning
//! of the recording, never less than the line before. Bytes are what counts: an opportunity takes several small packets, and
//! a packet may need what is left of one and a part of the next. What nobody uses is lost. After its last line the recording
//! begins anew (mm-link(1)). The traces of Mahimahi itself, of LeoCC (Starlink) and of others have this form.
//!
//! A [`crate::link::Link`] with a recording sends packet by packet as it says. Where a link has one rate at a time, as netem
//! has, [`Recording::steps`] says which: of each 10 ms.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::delay::MS;

/// Bytes of one opportunity (mm-link(1)).
pub const OPPORTUNITY_BYTES: usize = 1500;
/// A file with more lines is none of ours: an hour of 1 Gbit/s has 300 million, ten minutes of 400 Mbit/s have 20.
const MOST_LINES: usize = 20_000_000;

/// When a link delivers.
#[derive(Clone, PartialEq, Eq)]
pub struct Recording {
    /// Milliseconds, in order of time; the last is more than 0.
    at_ms: Arc<[u64]>,
    /// When it begins anew: with its last line, or later where that is a part of a longer one.
    length_ms: u64,
}

/// Why a text is no recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unreadable {
    /// A line, counted from 1, is no number of milliseconds.
    NoNumber(usize),
    /// A line, counted from 1, comes before the one ahead of it.
    Backwards(usize),
    /// It has no line, or lasts no time: it could not begin anew.
    Empty,
    /// It has more than twenty million lines.
    TooLong,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreadable::NoNumber(line) => write!(to, "line {line} is no number of milliseconds"),
            Unreadable::Backwards(line) => {
                write!(to, "line {line} is earlier than the one before it")
            }
            Unreadable::Empty => write!(to, "it says nothing after its first millisecond"),
            Unreadable::TooLong => write!(to, "it has more than {MOST_LINES} lines"),
        }
    }
}

impl std::error::Error for Unreadable {}

impl Recording {
    /// Reads a trace.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(text: &str) -> Result<Self, Unreadable> {
        let mut at_ms = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let at = line.trim().parse::<u64>();
            // Sums of milliseconds and nanoseconds stay within 64 bits: a year is long enough.
            let at = at.ok().filter(|at| *at < 365 * 86_400_000);
            let at = at.ok_or(Unreadable::NoNumber(index + 1))?;
            if at_ms.last().is_some_and(|last| at < *last) {
                return Err(Unreadable::Backwards(index + 1));
            }
            if index == MOST_LINES {
                return Err(Unreadable::TooLong);
            }
            at_ms.push(at);
        }
        let length_ms = at_ms.last().copied().unwrap_or(0);
        Self::of(at_ms, length_ms)
    }

    fn of(at_ms: Vec<u64>, length_ms: u64) -> Result<Self, Unreadable> {
        if at_ms.last().is_none_or(|last| *last == 0) {
            return Err(Unreadable::Empty);
        }
        Ok(Self {
            at_ms: at_ms.into(),
            length_ms,
        })
    }

    /// The part from `from` on that is so long: a minute of a recording of ten. What is silent at its end is a part of it;
    /// the whole recording's end is the latest.
    ///
    /// # Errors
    /// When nothing is delivered in that part.
    pub fn cut(&self, from: Duration, length: Duration) -> Result<Self, Unreadable> {
        let (from, length) = (from.as_millis() as u64, length.as_millis() as u64);
        let within = |at: u64| at.checked_sub(from).filter(|at| *at <= length);
        let at_ms = self.at_ms.iter().filter_map(|at| within(*at)).collect();
        Self::of(at_ms, length.min(self.length_ms.saturating_sub(from)))
    }

    /// How long it lasts until it begins anew.
    #[must_use]
    pub fn length(&self) -> Duration {
        Duration::from_millis(self.length_ms)
    }

    /// Bits a second, its mean.
    #[must_use]
    pub fn mean_bps(&self) -> u64 {
        let bits = self.at_ms.len() as u64 * OPPORTUNITY_BYTES as u64 * 8;
        bits * 1000 / self.length_ms
    }

    /// Bits a second in each step of this length, until it begins anew; the last step may be shorter and counts as a whole
    /// one.
    #[must_use]
    pub fn steps(&self, step: Duration) -> Vec<u64> {
        let step_ms = (step.as_millis() as u64).max(1);
        // A line that says 10 is of the milliseconds until then.
        let of = |at: u64| (at.saturating_sub(1) / step_ms) as usize;
        let mut bits = vec![0; of(self.length_ms) + 1];
        for at in self.at_ms.iter() {
            bits[of(*at)] += OPPORTUNITY_BYTES as u64 * 8;
        }
        bits.iter().map(|bits| bits * 1000 / step_ms).collect()
    }

    /// When the opportunity of this number comes, in nanoseconds.
    fn at_ns(&self, number: u64) -> u64 {
        let count = self.at_ms.len() as u64;
        let (round, place) = (number / count, (number % count) as usize);
        (round.saturating_mul(self.length_ms) + self.at_ms[place]).saturating_mul(MS)
    }

    /// The number of the first opportunity after `now_ns`.
    fn first_after(&self, now_ns: u64) -> u64 {
        let now_ms = now_ns / MS;
        let round = now_ms / self.length_ms;
        let place = self
            .at_ms
            .partition_point(|at| *at <= now_ms % self.length_ms);
        // At the very end of a round this is the first of the next one but those at its millisecond 0.
        round * self.at_ms.len() as u64 + place as u64
    }
}

impl fmt::Debug for Recording {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            to,
            "Recording({:.3} s, {} bit/s, {} lines)",
            self.length().as_secs_f64(),
            self.mean_bps(),
            self.at_ms.len()
        )
    }
}

/// Where a link is in its recording.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cursor {
    /// The next opportunity.
    next: u64,
    /// Bytes of the last one that are left, and when that was.
    left: usize,
    at_ns: u64,
}

impl Cursor {
    /// When a packet that may go from `from_ns` on has left.
    pub(crate) fn take(&mut self, recording: &Recording, from_ns: u64, bytes: usize) -> u64 {
        if from_ns > self.at_ns || self.next == 0 {
            self.left = 0;
            self.next = self.next.max(recording.first_after(from_ns));
        }
        let mut bytes = bytes;
        while bytes > self.left {
            bytes -= self.left;
            self.left = OPPORTUNITY_BYTES;
            self.at_ns = recording.at_ns(self.next);
            self.next += 1;
        }
        self.left -= bytes;
        self.at_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::{Link, LinkConfig};

    fn recording(text: &str) -> Recording {
        Recording::parse(text).unwrap()
    }

    #[test]
    fn what_is_no_recording_is_told_by_line() {
        let told = |text| Recording::parse(text).unwrap_err();
        assert_eq!(told(""), Unreadable::Empty);
        assert_eq!(told("0\n0\n"), Unreadable::Empty);
        assert_eq!(told("1\ntwo\n"), Unreadable::NoNumber(2));
        assert_eq!(told("1\n-2\n"), Unreadable::NoNumber(2));
        assert_eq!(told("1\n\n2\n"), Unreadable::NoNumber(2));
        assert_eq!(told("1\n18446744073709551615\n"), Unreadable::NoNumber(2));
        assert_eq!(told("5\n7\n6\n"), Unreadable::Backwards(3));
        let cut = recording("5\n700\n").cut(Duration::from_millis(6), Duration::from_millis(9));
        assert_eq!(cut, Err(Unreadable::Empty));
    }

    #[test]
    fn its_rate_is_that_of_its_lines() {
        let two_in_five_ms = recording("0\n5\n");
        assert_eq!(two_in_five_ms.mean_bps(), 4_800_000);
        let lines = recording("1\n2\n10\n11\n30\n");
        let steps = lines.steps(Duration::from_millis(10));
        assert_eq!(steps, [3_600_000, 1_200_000, 1_200_000]);
        let cut = lines.cut(Duration::from_millis(2), Duration::from_millis(10));
        let cut = cut.unwrap();
        assert_eq!(*cut.at_ms, [0, 8, 9]);
        assert_eq!(cut.length(), Duration::from_millis(10));
        // Silence at its end lasts until it begins anew.
        assert_eq!(cut.steps(Duration::from_millis(5)), [2_400_000, 4_800_000]);
        assert_eq!(cut.at_ns(3), 10 * MS);
        let last = lines.cut(Duration::from_millis(5), Duration::from_secs(60));
        assert_eq!(last.unwrap().length(), Duration::from_millis(25));
    }

    /// Sends packets of these sizes at these times, in milliseconds; when each arrived.
    fn sent(lines: &str, packets: &[(u64, usize)]) -> Vec<u64> {
        let mut link = Link::new(
            LinkConfig {
                recording: Some(recording(lines)),
                ..LinkConfig::default()
            },
            1,
        );
        let (mut arrived, mut waiting) = (Vec::new(), packets.iter().peekable());
        loop {
            let sends = waiting.peek().map(|(at, _)| at * MS);
            let Some(now) = sends.into_iter().chain(link.next()).min() else {
                return arrived;
            };
            while let Some(&&(at, bytes)) = waiting.peek().filter(|(at, _)| at * MS <= now) {
                link.send(at * MS, bytes, ());
                waiting.next();
            }
            while link.deliver(now).is_some() {
                arrived.push(now / MS);
            }
        }
    }

    #[test]
    fn a_packet_goes_at_each_line_and_then_the_recording_begins_anew() {
        let all = [(0, 1500); 6];
        assert_eq!(sent("3\n3\n20\n", &all), [3, 3, 20, 23, 23, 40]);
    }

    #[test]
    fn bytes_count_and_what_nobody_uses_is_lost() {
        // Three of 500 bytes share a line; the second of 1000 needs what is left and the next line.
        assert_eq!(sent("3\n7\n9\n", &[(0, 500); 4]), [3, 3, 3, 7]);
        assert_eq!(sent("3\n7\n9\n", &[(0, 1000); 2]), [3, 7]);
        // At 3 nobody is there; at 7 half is used, and the rest is not there any more at 8.
        assert_eq!(sent("3\n7\n9\n", &[(4, 700), (8, 700)]), [7, 9]);
        // Rounds later, too.
        assert_eq!(sent("3\n7\n9\n", &[(9 * 1000 + 4, 700)]), [9007]);
    }

    #[test]
    fn a_queue_that_is_dropped_has_used_nothing_that_comes_later() {
        let config = LinkConfig {
            recording: Some(recording("3\n7\n9\n")),
            ..LinkConfig::default()
        };
        let mut link = Link::new(config, 1);
        (0..3).for_each(|_| link.send(0, 1500, ()));
        link.drop_queue();
        link.send(MS, 1500, ());
        assert_eq!(link.next(), Some(3 * MS));
    }
}

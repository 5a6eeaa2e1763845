//! What has become of packets and gaps, and how long it took.

use std::time::Duration;

use hdrhistogram::Histogram;

/// What has happened since the start. `in_order + reordered + late + duplicates` is every packet
/// that was inserted and believed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReorderCounters {
    /// Packets with a number above all before them.
    pub in_order: u64,
    /// Packets with a number below one seen before, but in time (RFC 4737 §3.3's reordered).
    pub reordered: u64,
    /// Packets that came after their number was given up.
    pub late: u64,
    /// Packets that came again.
    pub duplicates: u64,
    /// Most packets held at once.
    pub held_max: u32,
    /// Numbers that were missing when a later one became known.
    pub gaps_seen: u64,
    /// Missing numbers that arrived in time.
    pub gaps_filled: u64,
    /// Missing numbers that every path had passed, and that came again in time.
    pub gaps_recovered: u64,
    /// Missing numbers that every path had passed.
    pub gaps_inferred_lost: u64,
    /// Missing numbers given up after `max_buffer_delay`.
    pub gaps_timed_out: u64,
    /// Missing numbers given up for want of room.
    pub gaps_overflowed: u64,
}

/// The counters, and distributions of times in microseconds.
pub(super) struct Account {
    pub(super) counters: ReorderCounters,
    /// Numbers that were found to be lost, recovered or not.
    pub(super) found_lost: u64,
    /// These are made when the first is recorded.
    pub(super) hold_us: Option<Box<Histogram<u64>>>,
    pub(super) recovery_us: Option<Box<Histogram<u64>>>,
}

impl Account {
    pub(super) fn new() -> Account {
        Account {
            counters: ReorderCounters::default(),
            found_lost: 0,
            hold_us: None,
            recovery_us: None,
        }
    }

    /// A packet was held for this long.
    pub(super) fn held(&mut self, span: Duration) {
        record(&mut self.hold_us, span);
    }

    /// A missing number came; if it had been found to be lost, this long ago, as far as is known.
    pub(super) fn filled(&mut self, lost: Option<Option<Duration>>) {
        match lost {
            None => self.counters.gaps_filled += 1,
            Some(ago) => {
                self.counters.gaps_recovered += 1;
                if let Some(ago) = ago {
                    record(&mut self.recovery_us, ago);
                }
            }
        }
    }

    /// Missing numbers were given up.
    pub(super) fn given_up(&mut self, cause: Cause, count: u64) {
        match cause {
            Cause::InferredLost => self.counters.gaps_inferred_lost += count,
            Cause::TimedOut => self.counters.gaps_timed_out += count,
            Cause::Overflowed => self.counters.gaps_overflowed += count,
        }
    }
}

/// Why a number was given up.
#[derive(Debug, Clone, Copy)]
pub(super) enum Cause {
    InferredLost,
    TimedOut,
    Overflowed,
}

fn record(histogram: &mut Option<Box<Histogram<u64>>>, span: Duration) {
    let histogram = histogram.get_or_insert_with(|| Box::new(times()));
    histogram.saturating_record(u64::try_from(span.as_micros()).unwrap_or(u64::MAX));
}

/// Up to a minute, in microseconds, to two significant digits: a few KiB.
fn times() -> Histogram<u64> {
    Histogram::new_with_max(60_000_000, 2)
        .unwrap_or_else(|_| unreachable!("constant bounds that the library accepts"))
}

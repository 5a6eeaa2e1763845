//! What a row of the screen shows, and what it showed before.

use std::collections::VecDeque;

/// Moments that are remembered of a row: more than a sparkline has columns.
const MOST: usize = 160;

/// What is shown of a path, or of a hub's peer.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Sample {
    pub(super) out_bps: u64,
    pub(super) in_bps: u64,
    pub(super) rtt_us: Option<u64>,
    /// 0 to 1.
    pub(super) loss: f64,
    pub(super) queue_us: u64,
    /// Of all that is sent, 0 to 1.
    pub(super) share: f64,
}

/// The past of a row, the newest last; `None` where nothing was known.
#[derive(Debug, Clone, Default)]
pub(super) struct Track {
    samples: VecDeque<Option<Sample>>,
}

impl Track {
    pub(super) fn add(&mut self, sample: Option<Sample>) {
        if self.samples.len() >= MOST {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    /// The last `count` values, the newest first.
    pub(super) fn last(&self, count: usize, value: fn(&Sample) -> Option<u64>) -> Vec<Option<u64>> {
        let newest = self.samples.iter().rev().take(count);
        newest
            .map(|sample| sample.as_ref().and_then(value))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_track_has_the_newest_first_a_gap_where_nothing_was_known_and_an_end() {
        let mut track = Track::default();
        for out_bps in 0..10_000 {
            track.add(Some(Sample {
                out_bps,
                ..Sample::default()
            }));
        }
        track.add(None);
        let last = track.last(3, |sample| Some(sample.out_bps));
        assert_eq!(last, [None, Some(9_999), Some(9_998)]);
        assert_eq!(track.last(usize::MAX, |_| None).len(), MOST);
    }
}

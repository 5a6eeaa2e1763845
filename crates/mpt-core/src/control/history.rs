//! The last 24 hours of a tunnel, minute by minute: `mpt-ctl history`.
//!
//! The daemon looks at its counters once a second and lets [`Past`] add them up. What is kept of a minute is
//! [`Minute`] in 64 bytes, so that a path's day takes 92,160 bytes. A minute of which nothing is known is not there:
//! the path was away, the daemon did not run, or the host slept. It is a gap, and no minute of zeros.

mod past;
mod series;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::PathState;
pub use past::Past;

/// Minutes that are kept: a day.
pub const MINUTES: usize = 24 * 60;
/// Paths of which something is kept, those included that are away: twice as many as a tunnel may have.
pub const MAX_NAMES: usize = 2 * crate::path::MAX_PATHS;
/// The length of a minute.
pub const MINUTE: Duration = Duration::from_secs(60);

/// The last 24 hours, as `mpt-ctl history --json` prints them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct History {
    /// The tunnel's name.
    pub tunnel: String,
    /// When it was asked for: microseconds since 1970-01-01 00:00 UTC.
    pub at_us: u64,
    /// The tunnel as a whole, by inner packets; absent where a path was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<PathHistory>,
    /// Its paths, those that were there first before others.
    pub paths: Vec<PathHistory>,
}

/// The last 24 hours of a path, or of the tunnel as a whole.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PathHistory {
    /// The path's name in the configuration.
    pub name: String,
    /// It is configured now.
    pub present: bool,
    /// What is known, oldest first. The last one may be going on; one that is not there is a gap.
    pub minutes: Vec<Minute>,
}

/// A minute.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Minute {
    /// When it began: microseconds since 1970-01-01 00:00 UTC, by the clock as it is set now.
    pub at_us: u64,
    /// How much of it is known, in milliseconds.
    pub span_ms: u64,
    /// How much of that the path was up, or any path of the tunnel.
    pub up_ms: u64,
    /// What the path did at its end.
    pub state: PathState,
    /// Bytes sent: by a path all of its datagrams, GRE header included; by the tunnel inner packets.
    pub tx_bytes: u64,
    /// Bytes received, likewise.
    pub rx_bytes: u64,
    /// Bits a second sent, mean of what is known of the minute.
    pub tx_bps: u64,
    /// The same of the busiest second.
    pub tx_max_bps: u64,
    /// Bits a second received, mean of what is known of the minute.
    pub rx_bps: u64,
    /// The same of the busiest second.
    pub rx_max_bps: u64,
    /// Smoothed round-trip time: the least of those seen once a second while the path was up; absent where none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_min_us: Option<u64>,
    /// Their mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_us: Option<u64>,
    /// The highest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_max_us: Option<u64>,
    /// Share of what was sent on the path that the peer missed, 0 to 1; absent where nothing was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// Share of what the peer sent on the path that was missing here; of the tunnel, of its packets that were given up
    /// here. Absent where nothing came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rx_loss: Option<f64>,
    /// Packets that the path lost and that were sent again; of the tunnel, all that were sent again.
    pub recovered: u64,
    /// Of the tunnel: missing packets that the peer sent again in time.
    #[serde(default)]
    pub rx_recovered: u64,
}

impl Minute {
    /// Share of what is known of it in which the path was up.
    #[must_use]
    pub fn up_share(&self) -> f64 {
        match self.span_ms {
            0 => 0.0,
            span => self.up_ms as f64 / span as f64,
        }
    }
}

/// Several minutes as one, such as an hour's; `None` of none.
#[must_use]
pub fn together(minutes: &[Minute]) -> Option<Minute> {
    let (first, last) = (minutes.first()?, minutes.last()?);
    let sum = |of: fn(&Minute) -> u64| minutes.iter().map(of).fold(0, u64::saturating_add);
    let greatest = |of: fn(&Minute) -> u64| minutes.iter().map(of).max().unwrap_or(0);
    let span_ms = sum(|minute| minute.span_ms);
    let rate = |bytes: u64| match span_ms {
        0 => 0,
        span => (bytes as f64 * 8000.0 / span as f64) as u64,
    };
    let (tx_bytes, rx_bytes) = (sum(|minute| minute.tx_bytes), sum(|minute| minute.rx_bytes));
    let mean = |of: fn(&Minute) -> Option<f64>, weight: fn(&Minute) -> u64| {
        let known = minutes.iter().filter_map(|minute| {
            // What weighs nothing is seen all the same where nothing else is.
            Some((of(minute)?, weight(minute).max(1) as f64))
        });
        let (sum, weights) = known.fold((0.0, 0.0), |(sum, weights), (value, weight)| {
            (sum + value * weight, weights + weight)
        });
        (weights > 0.0).then(|| sum / weights)
    };
    let rtt = mean(|minute| minute.rtt_us.map(|us| us as f64), |m| m.up_ms);
    Some(Minute {
        at_us: first.at_us,
        span_ms,
        up_ms: sum(|minute| minute.up_ms),
        state: last.state,
        tx_bytes,
        rx_bytes,
        tx_bps: rate(tx_bytes),
        tx_max_bps: greatest(|minute| minute.tx_max_bps),
        rx_bps: rate(rx_bytes),
        rx_max_bps: greatest(|minute| minute.rx_max_bps),
        rtt_min_us: minutes.iter().filter_map(|minute| minute.rtt_min_us).min(),
        rtt_us: rtt.map(|us| us as u64),
        rtt_max_us: minutes.iter().filter_map(|minute| minute.rtt_max_us).max(),
        loss: mean(|minute| minute.loss, |minute| minute.tx_bytes),
        rx_loss: mean(|minute| minute.rx_loss, |minute| minute.rx_bytes),
        recovered: sum(|minute| minute.recovered),
        rx_recovered: sum(|minute| minute.rx_recovered),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_together_have_the_sum_the_mean_by_weight_and_the_extremes() {
        let quiet = Minute {
            at_us: 60_000_000,
            span_ms: 60_000,
            up_ms: 60_000,
            tx_bytes: 1_000,
            tx_max_bps: 500,
            rtt_min_us: Some(9_000),
            rtt_us: Some(10_000),
            rtt_max_us: Some(12_000),
            loss: Some(0.5),
            recovered: 1,
            ..Minute::default()
        };
        let busy = Minute {
            at_us: 120_000_000,
            span_ms: 30_000,
            up_ms: 15_000,
            state: PathState::Down,
            tx_bytes: 999_000,
            tx_max_bps: 400_000,
            rtt_min_us: Some(20_000),
            rtt_us: Some(60_000),
            rtt_max_us: Some(80_000),
            loss: Some(0.0),
            recovered: 2,
            ..Minute::default()
        };
        assert_eq!(together(&[]), None);
        let both = together(&[quiet, busy]).unwrap();
        assert_eq!((both.at_us, both.state), (60_000_000, PathState::Down));
        assert_eq!((both.span_ms, both.up_ms), (90_000, 75_000));
        assert_eq!((both.tx_bytes, both.tx_bps), (1_000_000, 88_888));
        assert_eq!((both.tx_max_bps, both.recovered), (400_000, 3));
        assert_eq!(
            (both.rtt_min_us, both.rtt_us, both.rtt_max_us),
            (Some(9_000), Some(20_000), Some(80_000))
        );
        assert_eq!(both.loss, Some(0.0005));
        assert_eq!(both.rx_loss, None);
        assert!((both.up_share() - 75.0 / 90.0).abs() < 1e-9);
    }

    #[test]
    fn what_weighs_nothing_is_seen_where_nothing_else_is() {
        let unsent = Minute {
            loss: Some(0.25),
            rtt_us: Some(7_000),
            ..Minute::default()
        };
        let alone = together(&[unsent]).unwrap();
        assert_eq!((alone.loss, alone.rtt_us), (Some(0.25), Some(7_000)));
        assert_eq!(alone.tx_bps, 0);
        assert_eq!(alone.up_share(), 0.0, "of no time no share");
    }
}

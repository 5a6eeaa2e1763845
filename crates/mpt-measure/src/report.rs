//! What a measurement found: the form that `--json` prints and all others are made from.

use std::net::{IpAddr, SocketAddr};

use mpt_core::metrics::OrderReport;
use mpt_core::metrics::delay_variation::DelayReport;
use serde::Serialize;

use super::numbering::Numbering;

mod csv;

/// A measurement's result. Nothing in it is ever NaN: what has no value is absent.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub(crate) struct Report {
    /// Where it was measured: a receiver's address, a sender of echoes, a file.
    pub(crate) at: String,
    /// How it came to its end.
    pub(crate) ended: String,
    /// What the reader must know to judge the numbers, a sentence each.
    pub(crate) notes: Vec<String>,
    /// Each stream.
    pub(crate) streams: Vec<StreamReport>,
    /// There and back, where packets come back with their times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) round_trip: Option<RoundTrip>,
    /// What came and was not measured.
    pub(crate) ignored: Ignored,
}

/// Round-trip times, without what the far end took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct RoundTrip {
    pub(crate) min_ns: u64,
    pub(crate) mean_ns: u64,
    pub(crate) p50_ns: u64,
    pub(crate) p99_ns: u64,
    pub(crate) max_ns: u64,
}

impl RoundTrip {
    /// Sums them up, if there are any.
    pub(crate) fn of(mut times_ns: Vec<u64>) -> Option<RoundTrip> {
        times_ns.sort_unstable();
        let count = times_ns.len();
        // The least that so many of a hundred do not exceed.
        let percentile = |percent: usize| {
            let rank = (count * percent).div_ceil(100).max(1);
            times_ns.get(rank - 1).copied()
        };
        let sum: u128 = times_ns.iter().map(|&ns| u128::from(ns)).sum();
        Some(RoundTrip {
            min_ns: *times_ns.first()?,
            mean_ns: u64::try_from(sum / count as u128).unwrap_or(u64::MAX),
            p50_ns: percentile(50)?,
            p99_ns: percentile(99)?,
            max_ns: *times_ns.last()?,
        })
    }
}

/// One stream.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct StreamReport {
    /// For people: "10.1.0.1 → 10.1.0.2".
    pub(crate) name: String,
    pub(crate) numbering: Numbering,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) to: Option<IpAddr>,
    /// The run's random number, in hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stream: Option<String>,
    /// What the sender meant to send.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) plan: Option<PlanReport>,
    /// Packets sent, when the sender's end marker said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sent: Option<u32>,
    /// Packets received, copies not counted.
    pub(crate) received: u64,
    /// Packets sent and not received; without an end marker, of those up to the greatest number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lost: Option<u64>,
    pub(crate) duplicates: u64,
    /// From the first packet received to the last, without steps of the clock back.
    pub(crate) seconds: f64,
    /// Packets a second as they were sent, from their stamps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sent_pps: Option<f64>,
    /// Packets a second as they arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) received_pps: Option<f64>,
    pub(crate) payload_bytes: u64,
    /// How often the numbers began anew.
    pub(crate) restarts: u64,
    /// Packets whose number lay far from all others; they are not measured.
    pub(crate) strays: u64,
    /// RFC 4737, RFC 5236, mean displacement and entropy.
    pub(crate) order: OrderReport,
    /// RFC 5481, of stamped packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) delay: Option<DelayReport>,
}

/// What the sender meant to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct PlanReport {
    pub(crate) packets: u32,
    pub(crate) frame_bytes: u16,
    pub(crate) rate_pps: u32,
}

/// What came and was not measured.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub(crate) struct Ignored {
    /// Packets that are none of a measurement.
    pub(crate) strangers: u64,
    /// Packets that begin like a measurement's and make no sense.
    pub(crate) malformed: u64,
    /// Packets that the kernel dropped because the receiver's socket was full.
    pub(crate) socket_drops: u64,
    /// Other runs, as many as are kept apart.
    pub(crate) other_streams: Vec<OtherStream>,
    /// Packets of further runs.
    pub(crate) other_packets: u64,
    /// What a capture held that could not be read, by reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) frames: Vec<Unread>,
}

/// A run that is not measured: another one is, or none of its packets came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct OtherStream {
    pub(crate) stream: String,
    pub(crate) from: SocketAddr,
    pub(crate) packets: u64,
    /// What the sender says it sent, where nothing but its end marker came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) only_end_of: Option<u32>,
}

/// Frames of a capture that were passed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Unread {
    pub(crate) why: String,
    pub(crate) frames: u64,
}

impl Report {
    /// The report as indented JSON.
    pub(crate) fn json(&self) -> String {
        // Plain numbers, texts and lists: there is nothing in it that JSON cannot hold.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// The report as comma-separated values: a line a value, `stream,metric,x,value`.
    pub(crate) fn csv(&self) -> String {
        csv::table(self)
    }
}

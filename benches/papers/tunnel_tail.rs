//! The last 100 of 2000 packets, one a millisecond, are lost; the bottleneck's queue holds ten.
//!
//! The tunnel as it is, five times over one path, and beside it what a model of a sender does with
//! other burst limits ([`crate::tail_model`]), reports paced as the tunnel's or for each packet as SCTP's.

use std::time::Duration;

use mpt_core::time::Time;
use mpt_sim::delay::MS;
use mpt_sim::link::{LinkConfig, QueueLimit};
use mpt_sim::loss::Loss;
use mpt_sim::pair::Side;

use crate::ms;
use crate::report::{Output, Table};
use crate::signaling::RTT_NS;
use crate::tail_model::{Limit, Reports, recover};
use crate::tunnel_path::TunnelPath;

/// The tail: of so many packets so many are lost.
const TAIL_SENT: usize = 2000;
const TAIL_LOST: usize = 100;
const TAIL_PAYLOAD: usize = 1000;
/// With the headers of outer and inner packet.
const TAIL_BYTES: usize = TAIL_PAYLOAD + 28 + 8 + 28;
const TAILS: usize = 5;

fn bottleneck() -> LinkConfig {
    LinkConfig {
        rate_bps: Some(10_000_000),
        queue: QueueLimit::Packets(10),
        ..LinkConfig::default()
    }
}

/// What came of one tail in the tunnel.
#[derive(Debug, Clone, Copy, Default)]
struct TunnelTail {
    noticed_ms: f64,
    /// From the first resend that was no probe until the last arrived.
    recovered_ms: f64,
    sent: usize,
    dropped: u64,
    rounds: [usize; 2],
    /// Numbers that the receiver gave up before they came, if they did.
    given_up: u64,
    never: usize,
}

/// What was counted when a tail had been recovered, or not.
struct Ended {
    /// When the stream had ended.
    at: Time,
    dropped: u64,
    given_up: u64,
}

/// Tails one after another over the same path.
fn tunnel_tails() -> Vec<TunnelTail> {
    let mut path = TunnelPath::new(bottleneck(), TAIL_PAYLOAD, 1);
    let mut marks = Vec::new();
    for _ in 0..TAILS {
        let mut at = path.pair.now();
        for index in 0..TAIL_SENT {
            path.run_until(at);
            if index == TAIL_SENT - TAIL_LOST {
                path.pair.link(0, Side::A).config.loss = Loss::Independent { probability: 1.0 };
            }
            path.send();
            at = at + Duration::from_millis(1);
        }
        // The last has left the bottleneck by then.
        path.run_until(at + Duration::from_millis(20));
        path.pair.link(0, Side::A).config.loss = Loss::None;
        let before = *path.pair.link(0, Side::A).counters();
        let given_up = |path: &TunnelPath| path.pair.end(Side::B).reorder().gaps_inferred_lost;
        let given_up_before = given_up(&path);
        path.run_until(at + Duration::from_secs(4));
        let after = *path.pair.link(0, Side::A).counters();
        marks.push(Ended {
            at,
            dropped: after.dropped_queue_full - before.dropped_queue_full,
            given_up: given_up(&path) - given_up_before,
        });
    }
    let (outcome, sent) = path.end();
    let tails = marks.iter().enumerate();
    tails
        .map(|(tail, ended)| {
            let ids = tail * TAIL_SENT..(tail + 1) * TAIL_SENT;
            let lost = ids.end - TAIL_LOST..ids.end;
            let last_sent = sent[ids.end - 1];
            let of_tail = outcome.resent.iter().filter(|(id, _)| lost.contains(id));
            let times: Vec<_> = of_tail.map(|&(id, after)| sent[id] + after).collect();
            // The first may be a probe.
            let first = times.get(1).copied().unwrap_or(ended.at);
            let arrived = lost
                .clone()
                .filter_map(|id| Some(sent[id] + outcome.delays[id]?));
            let rtt = Duration::from_nanos(RTT_NS);
            let in_round = |round: u32| {
                let began = first + rtt * round;
                let is_in = |at: &&Time| **at >= began && **at < began + rtt;
                times.iter().filter(is_in).count()
            };
            TunnelTail {
                noticed_ms: ms(first.since(last_sent)),
                recovered_ms: arrived
                    .clone()
                    .max()
                    .map_or(f64::NAN, |last| ms(last.since(first))),
                sent: times.len(),
                dropped: ended.dropped,
                given_up: ended.given_up,
                rounds: [in_round(0), in_round(1)],
                never: TAIL_LOST - arrived.count(),
            }
        })
        .collect()
}

/// Table of tails; how many of the tunnel's resends the queue dropped.
pub(crate) fn tail(output: &Output) -> u64 {
    let mut table = Table::new(&[
        "sender",
        "reports",
        "tail",
        "noticed after ms",
        "then recovered in ms",
        "sent again",
        "first round trip",
        "second",
        "dropped by the queue",
        "given up at first",
        "never came",
    ]);
    let tunnel = tunnel_tails();
    for (index, tail) in tunnel.iter().enumerate() {
        table.row(vec![
            "the tunnel".into(),
            "paced".into(),
            (index + 1).to_string(),
            format!("{:.0}", tail.noticed_ms),
            format!("{:.0}", tail.recovered_ms),
            tail.sent.to_string(),
            tail.rounds[0].to_string(),
            tail.rounds[1].to_string(),
            tail.dropped.to_string(),
            tail.given_up.to_string(),
            tail.never.to_string(),
        ]);
    }
    for (reports, how) in [
        (Reports::Paced, "paced"),
        (Reports::EachPacket, "each packet"),
    ] {
        for (name, limit) in [
            ("model, adaptive", Limit::ADAPTIVE),
            ("model, fixed 4", Limit::Fixed(4.0)),
            ("model, fixed 3", Limit::Fixed(3.0)),
            ("model, no limit", Limit::Unlimited),
        ] {
            let mut limit = limit;
            for index in 0..TAILS {
                // What the probe did not bring.
                let tail = recover(
                    TAIL_LOST - 1,
                    TAIL_BYTES,
                    &bottleneck(),
                    &mut limit,
                    reports,
                );
                // Of those that learn nothing one is as another.
                let learns = matches!(limit, Limit::Adaptive { .. });
                if index > 0 && !(learns && index + 1 == TAILS) {
                    continue;
                }
                table.row(vec![
                    name.into(),
                    how.into(),
                    (index + 1).to_string(),
                    String::new(),
                    format!("{:.0}", tail.took_ns as f64 / MS as f64),
                    tail.sent.to_string(),
                    tail.rounds[0].to_string(),
                    tail.rounds[1].to_string(),
                    tail.dropped.to_string(),
                    String::new(),
                    String::new(),
                ]);
            }
        }
    }
    output.table("tunnel_tail", &table);
    tunnel.iter().map(|tail| tail.dropped).sum()
}

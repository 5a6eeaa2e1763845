//! A case of links that somebody recorded.

use mpt_core::send::scheduler::law::Law;

use super::draw::nanos;
use super::family::{Case, Family, Traffic};
use super::weather::QUEUE_MS;
use crate::delay::Delay;
use crate::link::{LinkConfig, QueueLimit};
use crate::pair::PathSpec;
use crate::recording::Recording;

/// A link as recorded.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// To the client, and from it.
    pub ways: [Recording; 2],
    /// Milliseconds each way, which a recording does not tell.
    pub delay_ms: f64,
}

impl Recorded {
    /// The link, sending as it was recorded. Its queue holds what a queue holds where no source says, at its mean rate.
    #[must_use]
    pub fn path(&self) -> PathSpec {
        let link = |way: &Recording| {
            let bps = way.mean_bps();
            LinkConfig {
                rate_bps: Some(bps),
                // A queue of less than two packets is none.
                queue: QueueLimit::Bytes(((bps as f64 / 8e3 * QUEUE_MS) as usize).max(3_000)),
                delay: Delay::Constant {
                    ns: nanos(self.delay_ms),
                },
                recording: Some(way.clone()),
                ..LinkConfig::default()
            }
        };
        PathSpec {
            weight: (self.ways[0].mean_bps() as f64 / 1e6).round().max(1.0) as u32,
            v6: false,
            links: [link(&self.ways[0]), link(&self.ways[1])],
        }
    }
}

impl Case {
    /// A minute over these links, with a download. A recording that is shorter begins anew, of one that is longer this is the
    /// first minute.
    #[must_use]
    pub fn replayed(links: &[Recorded], seed: u64, law: &'static Law) -> Case {
        Case {
            family: Family::Field,
            seed,
            paths: links.iter().map(Recorded::path).collect(),
            changes: Vec::new(),
            traffic: Traffic {
                bulk: 1,
                pages: false,
                call: false,
                cross_percent: 0,
                beside: false,
            },
            group: "recorded",
            weathers: Vec::new(),
            law,
        }
    }
}

#[cfg(test)]
mod tests {
    use mpt_core::send::scheduler::Policy;

    use super::*;
    use crate::source::Sender;

    /// So many packets in each millisecond of ten seconds, but for `gap`.
    fn even(each_ms: usize, gap: std::ops::Range<u64>) -> Recording {
        let lines = (1..=10_000_u64).filter(|at| !gap.contains(at));
        let text: String = lines.map(|at| format!("{at}\n").repeat(each_ms)).collect();
        Recording::parse(&text).unwrap()
    }

    #[test]
    fn what_was_recorded_is_what_a_flow_gets() {
        // 12 Mbit/s with a second of nothing, and 24 without.
        let links = [even(1, 4_000..5_000), even(2, 0..0)].map(|down| Recorded {
            ways: [down, even(1, 0..0)],
            delay_ms: 10.0,
        });
        let mbps = |bytes: &[u64]| bytes.iter().sum::<u64>() as f64 * 8e-6 / bytes.len() as f64;
        let runs = (1..=4).map(|seed| {
            let case = Case::replayed(&links, seed, &Law::LAW);
            let alone = case
                .alone(0)
                .run_once(Sender::Cubic, Policy::Weighted, false);
            let bond = case.run_once(Sender::Cubic, Policy::Adaptive, true);
            // The recording begins anew each ten seconds, and a second earlier for what has run before.
            assert_eq!(alone.bytes.len(), 60);
            assert!(alone.bytes[2..60].iter().any(|bytes| *bytes < 300_000));
            (mbps(&alone.bytes[10..60]), mbps(&bond.bytes[10..60]))
        });
        let runs: Vec<_> = runs.collect();
        let alone = runs.iter().map(|run| run.0).sum::<f64>() / 4.0;
        let bond = runs.iter().map(|run| run.1).sum::<f64>() / 4.0;
        // Data are 0.94 of a sealed packet; nine tenths of 12 Mbit/s, and 24. Of both the tunnel's flow has less: the second of
        // nothing cuts its window.
        assert!((9.0..10.2).contains(&alone), "{alone}");
        assert!((28.0..33.0).contains(&bond), "{bond}");
    }
}

//! What the adaptive scheduler promises, over links in virtual time.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use mpt_core::control::LatePolicy;
use mpt_core::reorder::ReorderConfig;
use mpt_core::scheduler::Policy;
use mpt_sim::link::QueueLimit;
use mpt_sim::loss::Loss;
use mpt_sim::pair::{Pair, PairConfig, PathSpec, Side};
use mpt_sim::source::Flow;

const SECOND: Duration = Duration::from_secs(1);

fn pair(paths: impl Into<Vec<PathSpec>>) -> Pair {
    let mut config = PairConfig {
        policy: Policy::Adaptive,
        recovery: true,
        ..PairConfig::new(paths)
    };
    config.reorder = ReorderConfig {
        window: 8192,
        max_buffer_delay: SECOND,
        late: LatePolicy::Deliver,
    };
    Pair::running(config, SECOND)
}

fn path(mbps: u64, delay_ms: u64, queue: u32) -> PathSpec {
    let mut path = PathSpec::symmetric(mbps, delay_ms);
    for link in &mut path.links {
        link.queue = QueueLimit::Packets(queue as usize);
    }
    path
}

fn lossy(mbps: u64, delay_ms: u64, probability: f64) -> PathSpec {
    let mut path = path(mbps, delay_ms, 1000);
    path.links[0].loss = Loss::Independent { probability };
    path
}

fn show(pair: &mut Pair, flow: &mut Flow, seconds: u32) {
    for second in 0..seconds {
        for part in 0..4 {
            let bps = flow.goodput_bps(pair, SECOND / 4);
            let end = pair.end(Side::A);
            let line: Vec<String> = (0..2)
                .map(|index| {
                    let path = end.path(index);
                    format!(
                        "{:?} {:5.1} lim {:5.1} q {:5.1} loss {:.3}",
                        path.tx_phase,
                        path.tx_delivered_bps as f64 / 1e6,
                        path.tx_limit_bps.unwrap_or(0) as f64 / 1e6,
                        path.tx_queue_us as f64 / 1e3,
                        path.tx_usual_loss,
                    )
                })
                .collect();
            println!(
                "{second}.{part} {:6.1} | {} | queue {} halved {}",
                bps / 1e6,
                line.join(" | "),
                end.status().queue_packets,
                flow.halvings(),
            );
        }
    }
}

#[test]
fn explore() {
    for (a, b) in [
        (path(50, 10, 1000), path(50, 10, 1000)),
        (path(100, 10, 1000), path(50, 35, 1000)),
        (path(50, 10, 20), path(20, 10, 20)),
        (path(50, 10, 1000), path(10, 100, 1000)),
        (lossy(50, 20, 0.01), lossy(50, 20, 0.01)),
        (lossy(50, 20, 0.03), lossy(30, 40, 0.03)),
    ] {
        println!("---");
        let mut pair = pair([a, b]);
        let mut flow = Flow::new(Side::A, 1400);
        show(&mut pair, &mut flow, 10);
        println!("{:?}", pair.end(Side::A).status().recovery);
        println!("{:?}", pair.end(Side::B).reorder());
    }
}

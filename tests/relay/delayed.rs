//! A relay that holds back all of one path for as long as it likes.

use std::time::Duration;

use mpt_sim::pair::{Pair, PairConfig, Passed, PathSpec, Side};
use mpt_sim::rng::stream;
use mpt_sim::source::{Flow, Sender};
use rand::RngExt as _;

use super::{LEFT, MS, SECOND, addresses, config, from_environment};

/// A tunnel of two links, whose first a relay delays from some moment on.
#[derive(Debug)]
struct Delayed {
    rates: [u64; 2],
    delays_ms: [u64; 2],
    /// By so much.
    by: Duration,
    /// After the flow began.
    after: Duration,
    sender: Sender,
}

impl Delayed {
    /// Draws one: the relay on the faster or the slower link.
    fn draw(seed: u64) -> Delayed {
        let mut rng = stream(seed, 16);
        let mut log = |from: f64, to: f64| {
            let between: f64 = rng.random_range(0.0..1.0);
            (from.ln() + (to / from).ln() * between).exp() as u64
        };
        Delayed {
            rates: [log(5.0, 61.0), log(5.0, 61.0)],
            delays_ms: [log(2.0, 61.0), log(2.0, 61.0)],
            by: log(50.0, 1001.0) as u32 * MS,
            after: log(10_000.0, 25_000.0) as u32 * MS,
            sender: if log(1.0, 4.0) == 1 {
                Sender::Reno
            } else {
                Sender::Cubic
            },
        }
    }

    fn config(&self) -> PairConfig {
        let [a, b] = [0, 1].map(|path| PathSpec::symmetric(self.rates[path], self.delays_ms[path]));
        PairConfig {
            paths: vec![a, b],
            ..config()
        }
    }

    /// What path 1 carries alone, in Mbit/s.
    fn alone(&self) -> f64 {
        let mut pair = Pair::running(self.config(), SECOND);
        pair.set_links_up(0, false);
        let mut flow = Flow::of(self.sender, Side::A, 1400);
        flow.run_for(&mut pair, SECOND * 8);
        flow.goodput_bps(&mut pair, SECOND * 8) / 1e6
    }

    /// The tunnel and its flow at the moment when the relay begins.
    fn begun(&self) -> (Pair, Flow) {
        let mut pair = Pair::running(self.config(), SECOND);
        let mut flow = Flow::of(self.sender, Side::A, 1400);
        flow.run_for(&mut pair, self.after);
        let (at, after) = (addresses(&pair), self.by);
        pair.set_relay(0, move |caught| {
            Some(vec![Passed {
                to: caught.from.other(),
                from: at[caught.from as usize],
                after,
                wire: caught.wire,
            }])
        });
        (pair, flow)
    }

    /// What the tunnel brings in each of so many seconds, after the first two round trips and 150 ms.
    fn seconds(&self, count: usize) -> Vec<f64> {
        let (mut pair, mut flow) = self.begun();
        let trip = 2 * self.delays_ms[0].max(self.delays_ms[1]) as u32 * MS;
        flow.run_for(&mut pair, trip * 2 + 150 * MS);
        let second = |_| {
            let before = flow.arrived_bytes();
            flow.run_for(&mut pair, SECOND);
            (flow.arrived_bytes() - before) as f64 * 8.0 / 1e6
        };
        (0..count).map(second).collect()
    }
}

/// Any delay, any rates, the faster or the slower path, whenever it begins. `MPT_TEST_RELAY_DELAYS` says how many
/// are drawn, `MPT_TEST_RELAY_FIRST` from which on.
#[test]
fn a_path_that_is_delayed_leaves_the_other_its_rate() {
    let first = from_environment("MPT_TEST_RELAY_FIRST", 0);
    for seed in first..first + from_environment("MPT_TEST_RELAY_DELAYS", 3) {
        let case = Delayed::draw(seed);
        let alone = case.alone();
        let shares = case.seconds(25).into_iter().map(|rate| rate / alone);
        let shares: Vec<f64> = shares.collect();
        let worst = shares.iter().copied().fold(f64::MAX, f64::min);
        let mean = shares.iter().sum::<f64>() / shares.len() as f64;
        let below = shares.iter().filter(|share| **share < LEFT).count();
        println!(
            "{seed}: {case:?}: path 1 alone {alone:.1} Mbit/s; of that {mean:.2}, worst second {worst:.2}, {below} below {LEFT}"
        );
        assert!(mean >= LEFT, "{shares:.2?}");
        // A flow that the sender's queue made halve its window may take this long to fill a path again.
        assert!(below <= 2, "{shares:.2?}");
    }
}

//! Cheaper paths first, over links in virtual time: what a dearer one carries, and when.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use mpt_core::control::PathState;
use mpt_core::control::drops::DropReason;
use mpt_core::path::MAX_PATHS;
use mpt_core::send::scheduler::Policy;
use mpt_core::send::tiers::LAST_RESORT;
use mpt_sim::packet::Inner;
use mpt_sim::pair::{Pair, PairConfig, PathSpec, Side};
use mpt_sim::source::Flow;

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);
/// What probes and their answers take of a path, in bytes a second: 480, and 720 sealed; with room.
const PROBES: u64 = 900;

/// The first path: cheap, 20 Mbit/s. The dear one is quicker.
const CHEAP: usize = 0;
const DEAR: usize = 1;

fn path(mbps: u64, delay_ms: u64, loss: f64) -> PathSpec {
    PathSpec::symmetric(mbps, delay_ms)
        .queueing(300)
        .losing(loss)
}

fn pair_of(paths: impl Into<Vec<PathSpec>>, policy: Policy, costs: &[u32]) -> Pair {
    let config = PairConfig {
        policy,
        recovery: policy == Policy::Adaptive,
        ..PairConfig::new(paths)
    };
    let mut pair = Pair::running(config, 2 * SECOND);
    set_costs(&mut pair, costs);
    pair
}

fn pair(costs: &[u32]) -> Pair {
    let paths = [path(20, 30, 0.0), path(40, 10, 0.0)];
    pair_of(paths, Policy::Adaptive, costs)
}

fn set_costs(pair: &mut Pair, costs: &[u32]) {
    let mut all = [0; MAX_PATHS];
    all[..costs.len()].copy_from_slice(costs);
    for side in Side::BOTH {
        pair.end_mut(side).outbound.set_costs(all);
        pair.end_mut(side).inbound.set_costs(all);
    }
}

/// What the paths carried of what A sent, in bytes, and how many packets B was not given.
#[derive(Debug, Clone, Copy)]
struct Carried {
    bytes: [u64; 2],
    lost: u64,
}

impl Carried {
    /// Mean over so long of a path, in Mbit/s.
    fn mbps(&self, path: usize, span: Duration) -> f64 {
        self.bytes[path] as f64 * 8e-6 / span.as_secs_f64()
    }
}

fn sent_on(pair: &Pair, path: usize) -> u64 {
    pair.end(Side::A).path(path).tx_bytes
}

/// Sends `burst` packets of 1,400 bytes every `gap` for `span`.
fn stream(pair: &mut Pair, burst: u64, gap: Duration, span: Duration) -> Carried {
    let inner = Inner::of_len(1400);
    let before = [0, 1].map(|path| sent_on(pair, path));
    let (mut sent, mut received) = (0, 0);
    pair.delivered(Side::B);
    let (mut next, end) = (pair.now(), pair.now() + span);
    while pair.now() < end {
        if pair.now() >= next {
            pair.send_batch(Side::A, (0..burst).map(|id| inner.packet(sent + id)));
            sent += burst;
            next = next + gap;
        }
        pair.step(next.min(end));
        received += pair.delivered(Side::B).len() as u64;
    }
    pair.run_for(SECOND / 2);
    received += pair.delivered(Side::B).len() as u64;
    Carried {
        bytes: [0, 1].map(|path| sent_on(pair, path) - before[path]),
        lost: sent - received,
    }
}

/// One in bursts of ten, as flows begin.
#[test]
fn a_dearer_path_carries_nothing_while_the_cheaper_one_suffices() {
    for (burst, gap) in [(1, 800 * MS / 1000), (10, 7 * MS), (40, 30 * MS)] {
        let mut pair = pair(&[0, 1]);
        // Until the cheap one is learnt.
        stream(&mut pair, burst, gap, 2 * SECOND);
        let carried = stream(&mut pair, burst, gap, 10 * SECOND);
        println!("{burst} every {gap:?}: {carried:?}");
        assert!(carried.bytes[DEAR] < 11 * PROBES, "{burst}: {carried:?}");
        assert_eq!(carried.lost, 0);
        // Of one cost, the quicker one has most.
        set_costs(&mut pair, &[3, 3]);
        let carried = stream(&mut pair, burst, gap, 2 * SECOND);
        assert!(carried.bytes[DEAR] > carried.bytes[CHEAP], "{carried:?}");
    }
}

#[test]
fn a_dearer_path_takes_what_is_beyond_the_cheaper_one() {
    let mut pair = pair(&[0, 1]);
    stream(&mut pair, 1, 400 * MS / 1000, 3 * SECOND);
    // 28 Mbit/s, of which the cheap one carries 20.
    let span = 10 * SECOND;
    let carried = stream(&mut pair, 1, 400 * MS / 1000, span);
    let [cheap, dear] = [CHEAP, DEAR].map(|path| carried.mbps(path, span));
    println!("{cheap:.1} + {dear:.1} Mbit/s {carried:?}");
    assert!(cheap > 17.0, "{cheap}");
    assert!((7.0..12.5).contains(&dear), "{dear}");
    assert!(carried.lost < 100, "{carried:?}");
    // And no more when that is over.
    stream(&mut pair, 1, MS, SECOND);
    let carried = stream(&mut pair, 1, MS, 10 * SECOND);
    assert!(carried.bytes[DEAR] < 11 * PROBES, "{carried:?}");
}

/// A greedy flow wants all that there is.
#[test]
fn a_greedy_flow_has_both() {
    let goodput = |costs: &[u32]| {
        let mut pair = pair(costs);
        let mut flow = Flow::new(Side::A, 1400);
        flow.begin(pair.now());
        flow.run_for(&mut pair, 5 * SECOND);
        let before = [CHEAP, DEAR].map(|path| sent_on(&pair, path));
        let goodput = flow.goodput_bps(&mut pair, 10 * SECOND) / 1e6;
        let each = [CHEAP, DEAR].map(|path| (sent_on(&pair, path) - before[path]) as f64 * 8e-7);
        println!("costs {costs:?}: {goodput:.1} Mbit/s, {each:.1?}");
        goodput
    };
    let (alike, tiers) = (goodput(&[0, 0]), goodput(&[0, 1]));
    assert!(tiers > 0.85 * alike, "{tiers} of {alike}");
}

#[test]
fn a_dearer_path_carries_all_when_the_cheaper_one_dies() {
    for costs in [[0, 1], [0, LAST_RESORT]] {
        let mut pair = pair(&costs);
        stream(&mut pair, 1, MS, 3 * SECOND);
        pair.set_links_up(CHEAP, false);
        let carried = stream(&mut pair, 1, MS, 5 * SECOND);
        println!("{carried:?}");
        assert!(carried.bytes[DEAR] > 4 * 1_400_000, "{carried:?}");
        assert!(carried.lost < 100, "{carried:?}");
        pair.set_links_up(CHEAP, true);
        stream(&mut pair, 1, MS, 3 * SECOND);
        let carried = stream(&mut pair, 1, MS, 5 * SECOND);
        assert!(carried.bytes[DEAR] < 6 * PROBES, "{carried:?}");
        assert_eq!(carried.lost, 0);
    }
}

/// A path whose budget is used up is out of service, and metered: probes are no more than of an idle one. It is found
/// again at once.
#[test]
fn a_metered_path_out_of_service_is_hardly_probed_and_comes_back_at_once() {
    for side in Side::BOTH {
        let config = PairConfig {
            policy: Policy::Adaptive,
            metered: true,
            ..PairConfig::new([path(20, 30, 0.0), path(40, 10, 0.0)])
        };
        let mut pair = Pair::running(config, 2 * SECOND);
        stream(&mut pair, 1, 4 * MS, SECOND);
        pair.set_out_of_service(side, DEAR, true);
        stream(&mut pair, 1, 4 * MS, SECOND);
        let both = |pair: &Pair| Side::BOTH.map(|side| pair.end(side).path(DEAR).tx_bytes);
        let before = both(&pair);
        let carried = stream(&mut pair, 1, 4 * MS, 60 * SECOND);
        assert_eq!(carried.lost, 0);
        let probes: u64 = both(&pair).iter().sum::<u64>() - before.iter().sum::<u64>();
        println!("{side:?}: {probes} bytes in a minute");
        assert!(probes < 3_000, "{probes}");
        pair.set_out_of_service(side, DEAR, false);
        stream(&mut pair, 1, 4 * MS, SECOND);
        let states = Side::BOTH.map(|side| pair.end(side).state(DEAR));
        assert_eq!(states, [PathState::Up; 2]);
    }
}

/// What is lost on the cheaper path goes again there.
#[test]
fn what_is_sent_again_is_no_reason_for_a_dearer_path() {
    let paths = [path(20, 30, 0.02), path(40, 10, 0.0)];
    let mut pair = pair_of(paths, Policy::Adaptive, &[0, 1]);
    stream(&mut pair, 1, MS, 3 * SECOND);
    let carried = stream(&mut pair, 1, MS, 10 * SECOND);
    println!("{carried:?}");
    assert!(carried.bytes[DEAR] < 11 * PROBES, "{carried:?}");
    assert!(carried.lost < 30, "{carried:?}");
}

/// Where nothing is known of rates, the dearer path is there for when the cheaper one is not.
#[test]
fn other_schedulers_keep_to_the_cheapest_that_is_up() {
    for policy in [
        Policy::Weighted,
        Policy::Redundant,
        Policy::Backup,
        Policy::Flow,
    ] {
        let paths = [path(20, 30, 0.0), path(40, 10, 0.0)];
        let mut pair = pair_of(paths, policy, &[0, 1]);
        let carried = stream(&mut pair, 1, MS, 3 * SECOND);
        assert!(carried.bytes[DEAR] < 4 * PROBES, "{policy:?} {carried:?}");
        assert_eq!(carried.lost, 0);
        pair.set_links_up(CHEAP, false);
        stream(&mut pair, 1, MS, 2 * SECOND);
        let carried = stream(&mut pair, 1, MS, 2 * SECOND);
        assert!(carried.bytes[DEAR] > 2_500_000, "{policy:?} {carried:?}");
        assert_eq!(pair.end(Side::A).dropped(DropReason::ClassPaths), 0);
    }
}

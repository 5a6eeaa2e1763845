//! Recovery over links in virtual time: how much of what they lose the receiver still gives up, how much is sent again
//! needlessly where packets only overtake each other, and what reports take.

use std::time::Duration;

use mpt_core::control::ReorderStatus;
use mpt_sim::delay::Delay;
use mpt_sim::link::Order;
use mpt_sim::loss::Loss;
use mpt_sim::packet::Inner;
use mpt_sim::pair::{Pair, PairConfig, PathSpec, Side};
use mpt_sim::source::Flow;

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

fn pair(paths: impl Into<Vec<PathSpec>>, seed: u64) -> Pair {
    let config = PairConfig {
        seed,
        ..PairConfig::adaptive(paths)
    };
    Pair::running(config, SECOND)
}

fn path(mbps: u64, delay_ms: u64, queue: usize) -> PathSpec {
    PathSpec::symmetric(mbps, delay_ms).queueing(queue)
}

#[test]
fn what_links_lose_is_recovered_before_the_flow_misses_it() {
    let mut paths = [path(50, 20, 1000), path(50, 20, 1000)];
    for path in &mut paths {
        // The way back carries an acknowledgement for each packet, which no TCP sends.
        path.links[0].loss = Loss::Independent { probability: 0.02 };
    }
    let mut pair = pair(paths, 1);
    let mut flow = Flow::new(Side::A, 1400);
    flow.run_for(&mut pair, SECOND * 8);
    let reorder = pair.end(Side::B).reorder();
    let lost = reorder.gaps_inferred_lost + reorder.gaps_timed_out;
    assert!(reorder.gaps_recovered > 500, "{reorder:?}");
    assert!(lost * 200 <= reorder.gaps_recovered, "{reorder:?}");
    let recovery = pair.end(Side::A).status().recovery;
    assert!(recovery.spurious * 50 <= recovery.resent, "{recovery:?}");
    assert!(recovery.resent * 10 <= recovery.lost * 12, "{recovery:?}");
    let receiver = pair.end(Side::B);
    let reports = receiver.status().recovery.report_bytes;
    let received: u64 = (0..2).map(|index| receiver.path(index).rx_bytes).sum();
    assert!(
        reports > 0 && reports * 100 <= received,
        "{reports} bytes of reports on {received}"
    );
}

#[test]
fn where_both_ways_lose_packets_reports_and_resends_hardly_any_is_given_up() {
    let paths = [path(50, 20, 1000), path(50, 20, 1000)].map(|path| path.losing(0.03));
    let (mut resent, mut lost) = (0, 0);
    for seed in 1..=4 {
        let mut pair = pair(paths.clone(), seed);
        // Acknowledgements have hardly any numbers: each side has a flow to itself.
        for side in Side::BOTH {
            let mut flow = Flow::new(side, 1400).with_port(4000 + side as u16);
            flow.run_for(&mut pair, SECOND * 10);
        }
        for side in Side::BOTH {
            let reorder = pair.end(side).reorder();
            let given_up = reorder.gaps_inferred_lost + reorder.gaps_timed_out;
            assert!(given_up <= 2, "{seed} {side:?} {reorder:?}");
            assert!(reorder.gaps_recovered > 300, "{seed} {side:?} {reorder:?}");
            let recovery = pair.end(side).status().recovery;
            // A path that took one packet, which was lost, may be taken for silent: of all that is under way there
            // much is sent again at once.
            assert!(recovery.resent * 2 <= recovery.lost * 3, "{recovery:?}");
            resent += recovery.resent;
            lost += recovery.lost;
        }
    }
    assert!(resent * 10 <= lost * 11, "{resent} of {lost}");
}

/// Where packets overtake, reports tell of many gaps, are long, and the budget sends them seldom: what is lost is known
/// late, and its place is held for as long.
#[test]
fn where_reports_are_seldom_a_lost_packet_is_waited_for_all_the_same() {
    let jitters = [
        (32, 7, 9.7, Order::ByDelay, 0.017),
        (80, 5, 9.6, Order::Kept, 0.02),
    ];
    let paths = jitters.map(|(mbps, mean_ms, sd_ms, order, probability)| {
        let mut path = path(mbps, mean_ms, 2000);
        for link in &mut path.links {
            (link.order, link.loss) = (order, Loss::Independent { probability });
            link.delay = Delay::Normal {
                mean_ns: mean_ms * 1_000_000,
                sd_ns: (sd_ms * 1e6) as u64,
            };
        }
        path
    });
    let (mut given_up, mut recovered) = (0, 0);
    for seed in 1..=6 {
        let mut pair = pair(paths.clone(), seed);
        let mut flow = Flow::new(Side::A, 1400);
        flow.run_for(&mut pair, SECOND);
        let before = pair.end(Side::B).reorder();
        flow.run_for(&mut pair, SECOND * 6);
        let after = pair.end(Side::B).reorder();
        let lost = |counters: &ReorderStatus| counters.gaps_inferred_lost + counters.gaps_timed_out;
        given_up += lost(&after) - lost(&before);
        recovered += after.gaps_recovered - before.gaps_recovered;
    }
    assert!(given_up * 5000 <= recovered, "{given_up} of {recovered}");
}

#[test]
fn over_paths_that_reorder_hardly_a_resend_is_needless() {
    const SEEDS: u64 = 8;
    const SENT: u64 = 20_000;
    // At most so many are needless: of all packets where nothing is lost, so that every resend is
    // needless; else of the resends.
    for (sd_ms, loss, most) in [
        (5, 0.0, 0.0001),
        (5, 0.01, 0.005),
        (25, 0.0, 0.0005),
        (25, 0.01, 0.08),
    ] {
        // What netem makes of jitter without a rate: each packet arrives after its own delay.
        let paths = [60, 70].map(|delay_ms| {
            let mut path = PathSpec::overtaking(1000, delay_ms, sd_ms);
            if loss > 0.0 {
                path.links[0].loss = Loss::Independent { probability: loss };
            }
            path
        });
        let (mut begun, mut needless, mut resent, mut given_up) = (0, 0, 0, 0);
        for seed in 1..=SEEDS {
            let mut pair = pair(paths.clone(), seed);
            let mut send = |count: u64| {
                for id in 0..count {
                    pair.send(Side::A, Inner::of_len(1000).packet(id));
                    pair.run_for(MS);
                }
                pair.end(Side::A).status().recovery
            };
            // That they reorder shows in the first round trips.
            let first = send(2_000);
            let last = send(SENT);
            begun += first.spurious;
            needless += last.spurious - first.spurious;
            resent += last.resent - first.resent;
            let reorder = pair.end(Side::B).reorder();
            given_up += reorder.gaps_inferred_lost + reorder.gaps_timed_out;
        }
        // Each seed may have a bad beginning.
        let mean = begun / SEEDS;
        assert!(mean < 60, "{sd_ms} ms, {loss}: {mean} of 2000");
        let whole = if loss == 0.0 { SEEDS * SENT } else { resent };
        assert!(
            needless as f64 <= most * whole as f64,
            "{sd_ms} ms, {loss}: {needless} of {whole}, asked {most}"
        );
        // Nor does it take too long to be sure.
        assert!(
            given_up * 200 <= resent,
            "{sd_ms} ms, {loss}: {given_up} of {resent}"
        );
    }
}

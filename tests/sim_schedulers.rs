//! What each scheduler promises, over links in virtual time.
#![allow(clippy::unwrap_used)]

use std::collections::HashSet;
use std::time::Duration;

use mpt_core::control::drops::DropReason;
use mpt_core::send::scheduler::Policy;
use mpt_sim::packet::{Inner, id_of};
use mpt_sim::pair::{Pair, PairConfig, PathSpec, Side};

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

fn pair(policy: Policy, paths: [PathSpec; 2]) -> Pair {
    let config = PairConfig {
        policy,
        ..PairConfig::new(paths)
    };
    Pair::running(config, SECOND)
}

/// A packet of 1000 bytes from A each millisecond, made by `packet` from its number; returns which
/// numbers came, in order.
fn stream(pair: &mut Pair, ids: std::ops::Range<u64>, packet: impl Fn(u64) -> Vec<u8>) -> Vec<u64> {
    for id in ids {
        pair.send(Side::A, packet(id));
        pair.run_for(MS);
    }
    pair.run_for(SECOND);
    let delivered = pair.delivered(Side::B);
    delivered
        .iter()
        .filter_map(|(_, packet)| id_of(packet))
        .collect()
}

/// Data packets that A has sent on the path: what is beyond its 5 to 15 probes a second.
fn sent_on(pair: &Pair, path: usize) -> u64 {
    pair.end(Side::A).path(path).tx_packets
}

#[test]
fn redundant_loses_only_what_every_path_loses() {
    let paths = [(100, 5), (50, 30)];
    let paths = paths.map(|(mbps, delay_ms)| PathSpec::symmetric(mbps, delay_ms).losing(0.1));
    let mut pair = pair(Policy::Redundant, paths);
    let came = stream(&mut pair, 0..10_000, |id| Inner::default().packet(id));
    assert!(came.is_sorted(), "in order");
    assert_eq!(
        came.iter().collect::<HashSet<_>>().len(),
        came.len(),
        "once"
    );
    // One in a hundred, where either path loses one in ten.
    assert!((9_850..9_950).contains(&came.len()), "{}", came.len());
    let copies = pair.end(Side::B).dropped(DropReason::Duplicate);
    assert!((7_800..8_400).contains(&copies), "{copies} of about 8100");
}

#[test]
fn redundant_arrives_with_the_fastest_path() {
    let mut pair = pair(
        Policy::Redundant,
        [PathSpec::symmetric(100, 40), PathSpec::symmetric(100, 5)],
    );
    let sent = pair.now();
    pair.send(Side::A, Inner::default().packet(0));
    pair.run_for(SECOND);
    let (arrived, _) = pair.delivered(Side::B)[0];
    assert!(arrived.since(sent) < 6 * MS);
}

#[test]
fn backup_uses_the_second_path_only_while_the_first_is_down() {
    let mut pair = pair(
        Policy::Backup,
        [PathSpec::symmetric(50, 5), PathSpec::symmetric(100, 5)],
    );
    let before = [sent_on(&pair, 0), sent_on(&pair, 1)];
    let came = stream(&mut pair, 0..1000, |id| Inner::default().packet(id));
    assert_eq!(came.len(), 1000);
    assert!(sent_on(&pair, 0) - before[0] < 50, "the one of less weight");
    pair.set_links_up(1, false);
    for side in Side::BOTH {
        pair.set_carrier(side, 1, false);
    }
    let came = stream(&mut pair, 1000..2000, |id| Inner::default().packet(id));
    assert!(came.len() >= 990, "{}", came.len());
    assert!(sent_on(&pair, 0) - before[0] >= 990);
}

#[test]
fn flow_keeps_each_flow_on_its_path_and_waits_for_no_other() {
    let mut pair = pair(
        Policy::Flow,
        [PathSpec::symmetric(100, 5), PathSpec::symmetric(100, 50)],
    );
    let came = stream(&mut pair, 0..6400, |id| {
        let flow = Inner {
            source_port: 4000 + (id % 64) as u16,
            ..Inner::default()
        };
        flow.packet(id)
    });
    assert_eq!(came.len(), 6400);
    for flow in 0..64 {
        assert!(came.iter().filter(|id| *id % 64 == flow).is_sorted());
    }
    let shares = [sent_on(&pair, 0), sent_on(&pair, 1)];
    assert!(shares.iter().all(|&packets| packets > 1_500), "{shares:?}");
    assert_eq!(pair.end(Side::B).reorder().held_max, 0, "nothing is held");
}

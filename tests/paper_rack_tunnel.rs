//! Figure 3 of *RACK for SCTP* with the tunnel's own code: a part of `benches/papers/rack_tunnel.rs`.

use std::time::Duration;

use mpt_sim::delay::MS;
use signaling::{REORDERED, RTT_NS, acknowledgements, dupthresh, extra_delays};
use tunnel_path::{Fate, stream};

#[path = "../benches/papers/signaling.rs"]
mod signaling;
#[path = "../benches/papers/tunnel_path.rs"]
mod tunnel_path;

const MESSAGES: usize = 40_000;
const INTERVAL_NS: u64 = 10 * MS;

#[test]
fn what_is_reordered_is_seldom_sent_again_and_less_often_than_by_counting() {
    let extra_ns = extra_delays(MESSAGES, REORDERED, 7);
    let fate = |&extra_ns| Fate {
        extra_ns,
        lost: false,
    };
    let fates: Vec<Fate> = extra_ns.iter().map(fate).collect();
    let outcome = stream(1000, INTERVAL_NS, &fates, 7);
    assert_eq!(outcome.waited, 0, "fates passed datagrams by");
    assert!(outcome.reports > MESSAGES / 20, "{}", outcome.reports);
    assert!(outcome.delays.iter().all(Option::is_some));
    let counting = dupthresh(&acknowledgements(INTERVAL_NS, &extra_ns));
    let resent = outcome.resent.len();
    assert!(resent < counting, "{resent}, by counting {counting}");
    // What an acknowledgement would not have prevented: 60 of 100,000 at most.
    let mistaken = outcome
        .resent
        .iter()
        .filter(|&&(id, after)| after <= Duration::from_nanos(RTT_NS + extra_ns[id]));
    let mistaken = mistaken.count();
    assert!(
        mistaken * 100_000 <= 60 * MESSAGES,
        "{mistaken} of {resent}"
    );
}

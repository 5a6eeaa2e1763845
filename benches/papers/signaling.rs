//! The traffic of *RACK for SCTP*'s Figure 3: small messages at a fixed interval over a path of 50 ms
//! round trip, of which 5 % are delayed by a further Exp(10 ms), and none is lost.

use std::collections::BTreeMap;

use mpt_sim::delay::{Delay, DelaySource, MS};
use mpt_sim::loss::{Loss, LossSource};
use mpt_sim::rng;

pub(crate) const RTT_NS: u64 = 50 * MS;
pub(crate) const REORDERED: f64 = 0.05;
pub(crate) const EXTRA_MEAN_NS: u64 = 10 * MS;
/// Later acknowledgements after which a sender that counts takes a message for lost.
pub(crate) const DUPTHRESH: usize = 3;

/// By how much each message is delayed beyond the others.
pub(crate) fn extra_delays(messages: usize, reordered: f64, seed: u64) -> Vec<u64> {
    let mut is_reordered = LossSource::new(rng::stream(seed, 1));
    let mut delay = DelaySource::new(rng::stream(seed, 2));
    let model = Loss::Independent {
        probability: reordered,
    };
    let extra = Delay::Exponential {
        least_ns: 0,
        sd_ns: EXTRA_MEAN_NS,
    };
    let mut draw = || {
        let drawn_ns = delay.draw(&extra, 0);
        if is_reordered.is_lost(&model) {
            drawn_ns
        } else {
            0
        }
    };
    (0..messages).map(|_| draw()).collect()
}

/// When the acknowledgement of each message reaches the sender: (time, message), in order of time.
pub(crate) fn acknowledgements(interval_ns: u64, extra_ns: &[u64]) -> Vec<(u64, usize)> {
    let mut acks: Vec<(u64, usize)> = extra_ns
        .iter()
        .enumerate()
        .map(|(message, extra_ns)| (message as u64 * interval_ns + RTT_NS + extra_ns, message))
        .collect();
    acks.sort_unstable();
    acks
}

/// Messages of which three later ones were acknowledged first.
pub(crate) fn dupthresh(acks: &[(u64, usize)]) -> usize {
    let mut missing: BTreeMap<usize, usize> = BTreeMap::new();
    let mut highest = None;
    let mut spurious = 0;
    for &(_, message) in acks {
        missing.remove(&message);
        for (_, reports) in missing.range_mut(..message) {
            *reports += 1;
            spurious += usize::from(*reports == DUPTHRESH);
        }
        let first_new = highest.map_or(0, |highest| highest + 1);
        missing.extend((first_new..message).map(|skipped| (skipped, 1)));
        highest = highest.max(Some(message));
    }
    spurious
}

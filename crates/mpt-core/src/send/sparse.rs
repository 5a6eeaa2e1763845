//! Sparse flows: what a call or a game sends goes out at once, without a number.
//!
//! With several paths in use, whatever has a number waits at the receiver for slower paths. A call or a
//! game need not: datagrams of flows that send little go out at once, over the path that is fastest, without
//! a number. (RFC 2890 lets the two mix; a receiver delivers what has no number at once.) Of TCP even the
//! sparse packets are numbered, to be reordered and recovered like the rest. While what a silent path had taken goes again
//! over another they do not wait for that either: of one that carries a fiftieth it is seconds.

use std::time::Duration;

use crate::time::Time;
use crate::wire::ip::{Packet, protocol};

/// After packets went over several paths, sparse flows go without numbers for this long.
const SPREAD: Duration = Duration::from_secs(1);
/// A flow is sparse while it sends no more than this, in bytes a second …
const RATE: f64 = 50_000.0;
/// … and this at once.
const BURST: f64 = 10_000.0;
/// Flows whose rate is remembered, by hash.
const FLOWS: usize = 1024;

/// Which flows are sparse, and whether they go by themselves.
#[derive(Debug)]
pub(crate) struct Sparse {
    /// Packets went over several paths, or waited, until lately.
    spread_until: Time,
    /// By flow: what it may send at once, in bytes, and when that was so. Empty while all may send a burst.
    flows: Box<[(f64, Time)]>,
}

impl Default for Sparse {
    fn default() -> Sparse {
        Sparse {
            spread_until: Time::ZERO,
            flows: Box::default(),
        }
    }
}

impl Sparse {
    /// Whether packets of this protocol may overtake others of their flow.
    pub(crate) fn may_overtake(packet: &Packet<'_>) -> bool {
        packet.transport().is_ok_and(|transport| {
            matches!(
                transport.protocol,
                protocol::UDP | protocol::ICMP | protocol::ICMPV6
            )
        })
    }

    /// Packets wait, or go over other paths than the fastest.
    pub(crate) fn note_spread(&mut self, now: Time) {
        self.spread_until = now + SPREAD;
    }

    /// Nothing was sent for some seconds: whoever was in debt is no more.
    pub(crate) fn rest(&mut self) {
        self.flows = Box::default();
    }

    /// The flow sends a packet of so many bytes. Whether it is to go by itself: the flow has sent little
    /// lately, this packet included, and other packets have to wait.
    pub(crate) fn takes(&mut self, now: Time, flow: u64, bytes: usize) -> bool {
        if self.flows.is_empty() {
            self.flows = vec![(BURST, Time::ZERO); FLOWS].into_boxed_slice();
        }
        let (allowance, then) = &mut self.flows[flow as usize % FLOWS];
        let earned = now.since(*then).as_secs_f64() * RATE;
        *allowance = (*allowance + earned).min(BURST) - bytes as f64;
        *then = now;
        // A flow in debt has to be silent for a while.
        *allowance = allowance.max(-RATE);
        *allowance >= 0.0 && now < self.spread_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn a_flow_that_sends_little_goes_by_itself_while_others_wait() {
        let mut sparse = Sparse::default();
        assert!(!sparse.takes(at(0), 1, 200), "nobody waits");
        sparse.note_spread(at(0));
        assert!((0..49).all(|step| sparse.takes(at(20 * step), 1, 200)));
        assert!(
            !sparse.takes(at(1000), 1, 200),
            "nobody has waited for a second"
        );
    }

    #[test]
    fn a_flow_in_debt_is_silent_before_it_is_sparse_again() {
        let mut sparse = Sparse::default();
        let mut taken = 0;
        for ms in 0..1000 {
            sparse.note_spread(at(ms));
            taken += u32::from(sparse.takes(at(ms), 1, 1000));
        }
        assert_eq!(taken, 10, "the burst");
        sparse.note_spread(at(2500));
        assert!(sparse.takes(at(2500), 1, 1000));
    }
}

//! What another path would bring sooner goes over that one as well, while it has nothing else to carry.
//!
//! Where a slower path has taken more than it should, for its rate is not known yet, or fell, or its delay rose, all that
//! came over the others waits at the receiver for what is under way there. The flow has all of its window under way then, and
//! nothing new to send: the path that answers first stands idle. MPTCP calls it opportunistic retransmission (Raiciu et al., "How
//! Hard Can It Be? Designing and Implementing a Deployable Multipath TCP", NSDI 2012, §4.2). It takes no room from what is new, and
//! counts for the share of what is sent again.

use std::time::Duration;

use arrayvec::ArrayVec;

use super::detection::PathRecovery;
use super::kept::Kept;
use super::{Recovery, Resend, is_missing};
use crate::path::PathId;
use crate::seq::Seq;
use crate::time::Time;

/// Of what is kept, so many packets are looked at, the oldest: it is these that the receiver waits for.
const LOOKED_AT: usize = 256;
/// So many packets go at a time. Reports come every 25 ms at least while something is missing, and at each is looked anew.
const MOST: usize = 32;

impl Recovery {
    /// Packets that are under way on other paths than `fast`, the oldest first, and that `fast` would bring sooner.
    pub(crate) fn outpaced(&self, now: Time, fast: PathId) -> ArrayVec<Seq, MOST> {
        let is_outpaced = |(seq, kept): &(Seq, &Kept)| {
            kept.path != fast
                && kept.tries == 0
                && !(kept.due || kept.bound || kept.stranded)
                && is_missing(&self.missing, self.high, *seq)
                && outpaces(
                    &self.paths[fast.index()],
                    &self.paths[kept.path.index()],
                    now.since(kept.sent),
                )
        };
        let oldest = self.kept.iter().take(LOOKED_AT);
        oldest
            .filter(is_outpaced)
            .map(|(seq, _)| seq)
            .take(MOST)
            .collect()
    }

    /// One of these is to go now, if what may be sent again is not used up.
    pub(crate) fn outpace(&mut self, seq: Seq) -> Option<Resend> {
        let kept = self.kept.get(seq)?;
        let (tos, len) = (kept.tos, u64::from(kept.len));
        if !self.allowance.affords(len) {
            return None;
        }
        self.allowance.spend(len);
        Some(Resend {
            seq,
            tos,
            lost_on: None,
            is_twofold: false,
            is_probe: true,
        })
    }
}

/// Whether `fast` brings a packet sooner that another path took so long ago: it would have by now, and it is told of before what
/// the other path brings usually is, or that is overdue by a quarter.
fn outpaces(fast: &PathRecovery, other: &PathRecovery, age: Duration) -> bool {
    let (there, usual) = (fast.usual_report(), other.usual_report());
    age > fast.rtt / 2 && (age + there < usual || age > usual + usual / 4)
}

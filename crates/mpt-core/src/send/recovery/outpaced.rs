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

/// So many packets of what is kept are looked at, the oldest: it is these that the receiver waits for. With 64 or 1,024 the goodput
/// of a flow's first 2 s differs by 0.7 ± 0.3 and 0.1 ± 0.2 % (`campaign --pairs 300 --seed 20000`), and about as many are below 0.95.
const OLDEST: usize = 256;
/// So many packets go at a time. Reports come every 25 ms at least while something is missing, and with each all is looked at
/// anew. With 8 or 128 packets the goodput differs by 0.5 ± 0.5 and 0.1 ± 0.1 % in the same campaign.
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
        let oldest = self.kept.iter().take(OLDEST);
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
        Some(Resend::unlost(seq, tos))
    }
}

/// Whether `fast` brings a packet sooner that another path took so long ago: it would have by now, and it is told of before what
/// the other path brings usually is, or that is overdue by a quarter, as a path that reorders has a quarter of its round trip to
/// bring it (RFC 8985 §6.2 step 4). With nothing, or with all of it, the goodput of the first 2 s differs by 0.7 ± 0.5 % and 0.1 ±
/// 0.5 % (`campaign --pairs 300 --seed 20000`).
fn outpaces(fast: &PathRecovery, other: &PathRecovery, age: Duration) -> bool {
    let (there, usual) = (fast.usual_report(), other.usual_report());
    age > fast.rtt / 2 && (age + there < usual || age > usual + usual / 4)
}

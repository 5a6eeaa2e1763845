//! Copies of what is [`ClassPolicy::Redundant`]: over two paths at once, and how much they may take.

use std::time::Duration;

use super::{Class, ClassPolicy};
use crate::path::{Answered, MAX_PATHS, PathSet};
use crate::send::scheduler::adaptive::Adaptive;
use crate::send::scheduler::flow;
use crate::send::segment::Segments;
use crate::send::turn::Turn;
use crate::time::Time;
use crate::wire::ecn;

/// A class may send copies at once that it earns in this time …
const COPIES_SAVED: Duration = Duration::from_millis(250);
/// … and two full packets at least.
pub(super) const LEAST_SAVED: f64 = 3_000.0;
/// Where the faster path loses more than this share, a third copy goes. The hundredth that is latest is then not what it
/// lost.
const LOSSY: f64 = 0.005;
/// A third copy follows after this time: a burst of losses may be over by then, and it is early enough for a call.
const AGAIN_AFTER: Duration = Duration::from_millis(5);

impl Class {
    /// Sends packets of a redundant class at once over two paths, as far as its copies may take so much.
    pub(crate) fn send_copies(
        &mut self,
        turn: &mut Turn<'_>,
        paths: &mut Adaptive,
        answered: &[Answered; MAX_PATHS],
        usable: PathSet,
        segments: &mut Segments<'_>,
    ) {
        let now = turn.now;
        if self.config.policy != ClassPolicy::Redundant {
            return;
        }
        let cheapest = paths.tiers.cheapest(usable);
        let first = paths.fastest(now, cheapest).map(|(path, _)| path);
        let mut others = self.allowed(turn.usable, turn.usable, paths);
        first.into_iter().for_each(|path| others.remove(path));
        let trusted = PathSet::from_bits(others.bits() & usable.bits());
        if !trusted.is_empty() {
            // One that is suspected may deliver after all, but is the last to be tried.
            others = trusted;
        }
        let others = paths.tiers.beside(first, others);
        let second = paths.fastest(now, others).map(|(path, _)| path);
        let (Some(first), Some(second)) = (first, second.filter(|_| turn.out.tells_copies()))
        else {
            self.counters.uncopied += segments.remaining() as u64;
            return;
        };
        let loss = answered[first.index()].loss;
        let again = (loss > LOSSY).then_some((first, Some(now + AGAIN_AFTER)));
        let copies = [Some((second, None)), again];
        let count = copies.iter().flatten().count();
        let packet = segments.packet();
        let (version, tos) = (packet.version(), ecn::outer_tos(packet.tos()));
        let flow = flow::hash(&packet);
        if self.queue.holds(flow) {
            // What of its flow went without copies is not to be overtaken.
            self.counters.uncopied += segments.remaining() as u64;
            return;
        }
        while segments.remaining() > 0 {
            let len = segments.segment_len(segments.segments() - segments.remaining());
            let bytes = (len + turn.out.overhead()) * count;
            if !self.takes_copies(now, bytes) {
                self.counters.uncopied += segments.remaining() as u64;
                return;
            }
            let header = turn.out.unnumbered_header(version, len);
            let (out, bytes) = turn
                .out
                .append_with_copies(first, copies, &header, tos, len);
            segments.write_next(out);
            paths.took_unnumbered(now, first, bytes);
            for (path, _) in copies.into_iter().flatten() {
                paths.took_unnumbered(now, path, bytes);
                self.counters.copies += 1;
                self.counters.copy_bytes += bytes as u64;
            }
        }
    }

    /// Whether copies of so many bytes may go now.
    pub(super) fn takes_copies(&mut self, now: Time, bytes: usize) -> bool {
        let rate = self.config.copies as f64;
        let most = (rate * COPIES_SAVED.as_secs_f64()).max(LEAST_SAVED);
        let (allowance, then) = &mut self.allowance;
        let earned = now.since(*then).as_secs_f64() * rate;
        (*allowance, *then) = ((*allowance + earned).min(most), now);
        let takes = *allowance >= bytes as f64;
        if takes {
            *allowance -= bytes as f64;
        }
        takes
    }
}

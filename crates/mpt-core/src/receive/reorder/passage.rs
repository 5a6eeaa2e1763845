//! How far something has come, and since when: the edge of a path, or that of all paths.
//!
//! Where packets overtake each other, what stands behind the edge may still come for a while. So the
//! edge is trusted only when it has *settled*, that is, stood for some patience. For that it must be
//! known when it passed a number: a few [`Mark`]s tell, each for a span of time (the grain), so that
//! their number depends on the patience and not on the rate.

use std::time::Duration;

use crate::seq::Seq;
use crate::time::Time;

/// Marks kept. A grain is at most a sixteenth of the patience, so that half of them suffice for what
/// has not settled; the others tell of numbers passed a little longer ago.
const MARKS: usize = 32;
/// Grains in the time that marks have to cover.
const GRAINS: u32 = 16;

/// The edge had come so far by `at`.
#[derive(Debug, Clone, Copy, Default)]
struct Mark {
    edge: Seq,
    opened: Time,
    at: Time,
}

/// An edge, its history, and how far it has settled.
#[derive(Debug, Clone)]
pub(super) struct Passage {
    edge: Seq,
    settled: Seq,
    patience: Duration,
    grain: Duration,
    /// Where the edge was before the oldest mark.
    base: Seq,
    /// A ring; the newest mark is at `newest`.
    marks: [Mark; MARKS],
    newest: usize,
    len: usize,
    /// How many of the newest marks have not settled.
    unsettled: usize,
}

impl Passage {
    /// An edge at `edge`, which settles at once.
    pub(super) fn new(edge: Seq) -> Passage {
        Passage {
            edge,
            settled: edge,
            patience: Duration::ZERO,
            grain: Duration::ZERO,
            base: edge,
            marks: [Mark::default(); MARKS],
            newest: 0,
            len: 0,
            unsettled: 0,
        }
    }

    /// Begins at another edge, with the same patience.
    pub(super) fn reset(&mut self, edge: Seq) {
        self.edge = edge;
        self.settled = edge;
        self.base = edge;
        self.len = 0;
        self.unsettled = 0;
    }

    /// The edge settles after `patience` from now on, and marks cover `memory` at least.
    pub(super) fn set_patience(&mut self, now: Time, patience: Duration, memory: Duration) {
        self.settle(now);
        self.patience = patience;
        self.grain = patience.max(memory) / GRAINS;
    }

    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    #[inline]
    pub(super) fn edge(&self) -> Seq {
        self.edge
    }

    /// Moves the edge to `edge`, if that is ahead of it.
    #[inline]
    pub(super) fn reach(&mut self, now: Time, edge: Seq) {
        if !edge.is_after(self.edge) {
            return;
        }
        self.edge = edge;
        let mark = &mut self.marks[self.newest % MARKS];
        if self.len > 0 && now < mark.opened + self.grain {
            mark.edge = edge;
            mark.at = now;
            self.unsettled = self.unsettled.max(1);
        } else {
            self.mark(now, edge);
        }
    }

    fn mark(&mut self, now: Time, edge: Seq) {
        self.newest = (self.newest + 1) % MARKS;
        if self.len == MARKS {
            self.base = self.marks[self.newest].edge;
        }
        self.marks[self.newest] = Mark {
            edge,
            opened: now,
            at: now,
        };
        // A mark that goes before it has settled makes the edge settle later, not earlier.
        self.len = (self.len + 1).min(MARKS);
        self.unsettled = (self.unsettled + 1).min(MARKS);
    }

    /// The edge that has stood for the patience.
    pub(super) fn settle(&mut self, now: Time) -> Seq {
        if self.patience.is_zero() {
            self.settled = self.edge;
            self.unsettled = 0;
        }
        while self.unsettled > 0 {
            let mark = self.back(self.unsettled - 1);
            if mark.at + self.patience > now {
                break;
            }
            self.settled = mark.edge;
            self.unsettled -= 1;
        }
        self.settled
    }

    /// When the settled edge passes `seq`; `None` when the edge itself has not.
    pub(super) fn settles_past(&self, seq: Seq) -> Option<Time> {
        if self.settled.is_after(seq) {
            return Some(Time::ZERO);
        }
        (0..self.unsettled)
            .rev()
            .map(|back| self.back(back))
            .find(|mark| mark.edge.is_after(seq))
            .map(|mark| mark.at + self.patience)
    }

    /// When the edge passed `seq`, which it has; `None` when that was before the oldest mark.
    pub(super) fn passed_at(&self, seq: Seq) -> Option<Time> {
        let mut passed = None;
        for back in 0..self.len {
            let mark = self.back(back);
            if !mark.edge.is_after(seq) {
                return passed;
            }
            passed = Some(mark.opened);
        }
        passed.filter(|_| !self.base.is_after(seq))
    }

    /// The mark that stands so many before the newest.
    fn back(&self, count: usize) -> Mark {
        self.marks[(self.newest + MARKS - count) % MARKS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PATIENCE: Duration = Duration::from_micros(1600);

    fn at(us: u64) -> Time {
        Time::from_nanos(us * 1000)
    }

    #[test]
    fn without_patience_an_edge_settles_at_once_and_is_remembered() {
        let mut passage = Passage::new(Seq::FIRST);
        passage.set_patience(at(0), Duration::ZERO, PATIENCE);
        for us in 0..1000 {
            passage.reach(at(us), Seq::new(us as u32 + 1));
            assert_eq!(passage.settle(at(us)), Seq::new(us as u32 + 1));
        }
        assert_eq!(passage.passed_at(Seq::new(450)), Some(at(400)));
        let lately = passage.passed_at(Seq::new(999)).unwrap();
        assert!(at(999).since(lately) < PATIENCE / 16);
    }

    #[test]
    fn an_edge_that_was_reset_has_no_history() {
        let mut passage = Passage::new(Seq::FIRST);
        passage.set_patience(at(0), PATIENCE, PATIENCE);
        passage.reach(at(1), Seq::new(10));
        passage.reset(Seq::new(5));
        assert_eq!(passage.settle(at(9999)), Seq::new(5));
        passage.reach(at(2), Seq::new(6));
        assert_eq!(passage.passed_at(Seq::new(5)), Some(at(2)));
        assert_eq!(passage.passed_at(Seq::new(4)), None);
    }

    proptest! {
        /// Between the patience and a grain more: never earlier, and not much later.
        #[test]
        fn an_edge_settles_after_its_patience(
            start: u32,
            steps in proptest::collection::vec((0..400u64, 0..5u32), 1..300),
        ) {
            let mut passage = Passage::new(Seq::new(start));
            passage.set_patience(at(0), PATIENCE, PATIENCE);
            let mut history = vec![(Time::ZERO, start)];
            let (mut now, mut edge) = (10_000, start);
            for (us, ahead) in steps {
                now += us;
                edge = edge.wrapping_add(ahead);
                passage.reach(at(now), Seq::new(edge));
                history.push((at(now), edge));
                let settled = passage.settle(at(now));
                let edge_at = |time: Time| {
                    let before = history.iter().rev().find(|(at, _)| *at <= time);
                    Seq::new(before.map_or(start, |&(_, edge)| edge))
                };
                prop_assert!(!settled.is_after(edge_at(at(now) - PATIENCE)));
                prop_assert!(!edge_at(at(now) - PATIENCE * 17 / 16).is_after(settled));
                match passage.settles_past(settled) {
                    Some(due) => prop_assert!(due > at(now) && due <= at(now) + PATIENCE),
                    None => prop_assert_eq!(settled, Seq::new(edge)),
                }
            }
        }
    }
}

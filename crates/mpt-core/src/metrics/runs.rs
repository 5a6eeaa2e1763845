//! Numbers kept as runs of consecutive ones.
//!
//! What arrives in blocks is remembered in blocks: a queue or a set of a thousand numbers that stand
//! in three runs takes three entries, and work on it is done a run at a time. In the worst case every
//! number is a run of its own, and nothing is lost but a few bytes.

use std::collections::VecDeque;

/// Consecutive numbers, at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) first: i64,
    /// One past the last.
    pub(super) end: i64,
}

impl Run {
    pub(super) fn one(number: i64) -> Run {
        Run {
            first: number,
            end: number + 1,
        }
    }

    pub(super) fn len(self) -> u64 {
        (self.end - self.first) as u64
    }
}

/// Runs as a queue (`push_back`, `take_front`), or as an ascending set (`insert`, `remove`,
/// `take_front`).
#[derive(Debug, Clone, Default)]
pub(super) struct Runs {
    runs: VecDeque<Run>,
    len: u64,
}

impl Runs {
    /// Gives memory back that no run takes.
    pub(super) fn rest(&mut self) {
        self.runs.shrink_to_fit();
    }

    /// Numbers in all runs.
    #[inline]
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    #[inline]
    pub(super) fn front(&self) -> Option<Run> {
        self.runs.front().copied()
    }

    pub(super) fn clear(&mut self) {
        self.runs.clear();
        self.len = 0;
    }

    /// Puts a run behind all others of a queue.
    #[inline]
    pub(super) fn push_back(&mut self, run: Run) {
        self.len += run.len();
        match self.runs.back_mut() {
            Some(back) if back.end == run.first => back.end = run.end,
            Some(_) | None => self.runs.push_back(run),
        }
    }

    /// Takes the first `count` numbers of the first run away, or as many as it has.
    #[inline]
    pub(super) fn take_front(&mut self, count: u64) {
        let Some(front) = self.runs.front_mut() else {
            return;
        };
        if count < front.len() {
            front.first += count as i64;
            self.len -= count;
        } else {
            self.len -= front.len();
            self.runs.pop_front();
        }
    }

    /// Puts a run into its place in a set; `false`, and no change, when one of its numbers is there.
    #[inline]
    pub(super) fn insert(&mut self, run: Run) -> bool {
        if self.runs.back().is_none_or(|back| back.end <= run.first) {
            self.push_back(run);
            return true;
        }
        let at = self.runs.partition_point(|known| known.end <= run.first);
        if self.runs.get(at).is_some_and(|next| next.first < run.end) {
            return false;
        }
        self.len += run.len();
        let joins_next = self.runs.get(at).is_some_and(|next| next.first == run.end);
        let before = at
            .checked_sub(1)
            .filter(|&before| self.runs[before].end == run.first);
        match (before, joins_next) {
            (Some(before), true) => {
                self.runs[before].end = self.runs[at].end;
                self.runs.remove(at);
            }
            (Some(before), false) => self.runs[before].end = run.end,
            (None, true) => self.runs[at].first = run.first,
            (None, false) => self.runs.insert(at, run),
        }
        true
    }

    /// Takes a run out of a set, when all of it stands in one run there.
    pub(super) fn remove(&mut self, run: Run) {
        let at = self.runs.partition_point(|known| known.end <= run.first);
        let Some(known) = self.runs.get_mut(at) else {
            return;
        };
        if known.first > run.first || known.end < run.end {
            return;
        }
        self.len -= run.len();
        let whole = *known;
        match (known.first == run.first, known.end == run.end) {
            (true, true) => {
                self.runs.remove(at);
            }
            (true, false) => known.first = run.end,
            (false, true) => known.end = run.first,
            (false, false) => {
                known.end = run.first;
                let rest = Run {
                    first: run.end,
                    end: whole.end,
                };
                self.runs.insert(at + 1, rest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    use super::*;

    proptest! {
        /// Against a set that knows nothing of runs.
        #[test]
        fn a_set_of_runs_is_a_set(steps in prop::collection::vec((0u8..4, 0i64..60, 1i64..9), 1..200)) {
            let mut runs = Runs::default();
            let mut set = BTreeSet::new();
            for (kind, first, len) in steps {
                let run = Run { first, end: first + len };
                let all = || run.first..run.end;
                match kind {
                    0 | 1 => {
                        let free = all().all(|number| !set.contains(&number));
                        prop_assert_eq!(runs.insert(run), free);
                        if free {
                            set.extend(all());
                        }
                    }
                    2 => {
                        runs.remove(run);
                        if all().all(|number| set.contains(&number)) {
                            set.retain(|number| !all().contains(number));
                        }
                    }
                    _ => {
                        let front = runs.front().map_or(0, Run::len).min(len as u64);
                        runs.take_front(len as u64);
                        (0..front).for_each(|_| { set.pop_first(); });
                    }
                }
                prop_assert_eq!(runs.len(), set.len() as u64);
                let flat: Vec<i64> = runs.runs.iter().flat_map(|run| run.first..run.end).collect();
                prop_assert_eq!(flat, set.iter().copied().collect::<Vec<_>>());
                let apart = |pair: (&Run, &Run)| pair.0.end < pair.1.first;
                prop_assert!(runs.runs.iter().zip(runs.runs.iter().skip(1)).all(apart));
            }
        }
    }
}

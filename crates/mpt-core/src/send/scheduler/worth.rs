//! Which paths are worth what they lose.
//!
//! A flow's rate is bounded by the loss that it sees: by 1.22/√p segments a round trip (Mathis,
//! Semke, Mahdavi and Ott 1997), or CUBIC's 1.054·RTT^¾/p^¾ where that is more (RFC 9438 §5.1). One lossy
//! path beside a clean one can so cost the flows more than it adds. Where lost packets are not sent
//! again, of the paths those that lose least are taken as long as each adds something to
//!
//! min(what the paths take, what flows get at the loss of them all);
//!
//! the others are left out. After some time they are tried again, each time after twice as long.

use std::time::Duration;

use arrayvec::ArrayVec;

use super::law::Law;
use super::pace::Pace;
use crate::path::{MAX_PATHS, PathId, PathSet};
use crate::send::units::Rate;
use crate::time::Time;

/// Bytes of a segment.
const SEGMENT: f64 = 1400.0;

/// Which paths are left out.
#[derive(Debug, Default)]
pub(crate) struct Worth {
    law: &'static Law,
    next: Time,
    left_out: PathSet,
    retry: [Retry; MAX_PATHS],
}

#[derive(Debug, Clone, Copy, Default)]
struct Retry {
    at: Time,
    after: Duration,
}

/// A path as it is judged.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    path: PathId,
    loss: f64,
    takes: Rate,
    carries: Rate,
    rtt: Duration,
}

impl Worth {
    pub(crate) fn new(law: &'static Law) -> Worth {
        Worth {
            law,
            ..Worth::default()
        }
    }

    pub(crate) fn forget(&mut self, path: PathId) {
        self.left_out.remove(path);
        self.retry[path.index()] = Retry::default();
    }

    /// Those that are left out.
    pub(crate) fn left_out(&self) -> PathSet {
        self.left_out
    }

    /// Those of the paths that are used.
    #[inline]
    pub(crate) fn of(&self, usable: PathSet) -> PathSet {
        if self.left_out.is_empty() {
            return usable;
        }
        let mut used = usable;
        for path in self.left_out.iter() {
            used.remove(path);
        }
        if used.is_empty() { usable } else { used }
    }

    /// Considers what is used of `usable`, for so many flows at once.
    pub(crate) fn consider(
        &mut self,
        now: Time,
        usable: PathSet,
        paces: &mut [Pace; MAX_PATHS],
        flows: usize,
    ) {
        if now < self.next {
            return;
        }
        self.next = now + self.law.worth_interval;
        for path in self.left_out.iter() {
            if self.retry[path.index()].at <= now {
                self.left_out.remove(path);
                paces[path.index()].forget_loss();
            }
        }
        let mut candidates: ArrayVec<Candidate, MAX_PATHS> = self
            .of(usable)
            .iter()
            .filter_map(|path| {
                let pace = &paces[path.index()];
                Some(Candidate {
                    path,
                    loss: pace.loss()?,
                    takes: pace.rate().unwrap_or(Rate::UNLIMITED),
                    carries: pace.delivered(),
                    rtt: pace.rtt(),
                })
            })
            .collect();
        candidates.sort_by(|a, b| a.loss.total_cmp(&b.loss));
        let all = attainable(&candidates, flows);
        let best = (1..candidates.len())
            .map(|count| (count, attainable(&candidates[..count], flows)))
            .max_by_key(|&(_, attained)| attained);
        let Some((count, _)) = best.filter(|best| best.1 > all * self.law.worth_advantage) else {
            return;
        };
        for candidate in &candidates[count..] {
            if candidate.loss >= self.law.worth_least_loss {
                self.left_out.insert(candidate.path);
                let retry = &mut self.retry[candidate.path.index()];
                retry.after =
                    (retry.after * 2).clamp(self.law.worth_first_retry, self.law.worth_last_retry);
                retry.at = now + retry.after;
            }
        }
    }
}

/// What flows get of these paths together.
fn attainable(paths: &[Candidate], flows: usize) -> Rate {
    let (mut takes, mut carries, mut lost) = (Rate::ZERO, Rate::ZERO, Rate::ZERO);
    let mut rtt = Duration::ZERO;
    for path in paths {
        takes = takes + path.takes;
        carries = carries + path.carries;
        lost = lost + path.carries * path.loss;
        rtt = rtt.max(path.rtt);
    }
    if lost <= Rate::ZERO {
        return takes;
    }
    let (loss, rtt) = (lost / carries, rtt.as_secs_f64().max(1e-3));
    let reno = 1.22 / loss.sqrt();
    let cubic = 1.054 * (rtt / loss).powf(0.75);
    takes.min(Rate::new(
        reno.max(cubic) * SEGMENT / rtt * flows.max(1) as f64,
    ))
}

#[cfg(test)]
mod tests {
    use super::super::observed::Observed;
    use super::*;

    fn candidate(index: usize, mbps: f64, rtt_ms: u64, loss: f64) -> Candidate {
        Candidate {
            path: PathId::new(index).unwrap(),
            loss,
            takes: Rate::new(mbps * 125_000.0),
            carries: Rate::new(mbps * 125_000.0),
            rtt: Duration::from_millis(rtt_ms),
        }
    }

    #[test]
    fn a_lossy_path_beside_a_clean_one_costs_more_than_it_adds() {
        let fibre = candidate(0, 300.0, 16, 0.0);
        let lte = candidate(1, 30.0, 80, 0.005);
        assert!(attainable(&[fibre], 1) > attainable(&[fibre, lte], 1) * 5.0);
        // Many flows share the loss.
        assert!(attainable(&[fibre], 100) < attainable(&[fibre, lte], 100));
    }

    #[test]
    fn two_paths_of_one_loss_are_better_than_one() {
        let paths = [candidate(0, 50.0, 40, 0.0), candidate(1, 50.0, 40, 0.0)];
        assert_eq!(attainable(&paths, 1), attainable(&paths[..1], 1) * 2.0);
        let paths = [candidate(0, 50.0, 40, 0.02), candidate(1, 50.0, 40, 0.02)];
        assert_eq!(attainable(&paths, 1), attainable(&paths[..1], 1));
    }

    fn path(index: usize) -> PathId {
        PathId::new(index).unwrap()
    }

    /// A clean path 0 and a lossy path 1, and what is known of them.
    struct Pair {
        worth: Worth,
        paces: [Pace; MAX_PATHS],
        links: [Observed; 2],
        now: Time,
    }

    impl Pair {
        fn new() -> Pair {
            Pair {
                worth: Worth::default(),
                paces: Default::default(),
                links: [Observed::new(20, 0), Observed::new(20, 1)],
                now: Time::ZERO,
            }
        }

        /// Sends over what is used for this long, and considers it. Says whether path 1 is left out.
        fn run(&mut self, ms: u64) -> bool {
            let usable = PathSet::from_bits(3);
            let end = self.now + Duration::from_millis(ms);
            while self.now < end {
                let from = self.now;
                for path in self.worth.of(usable).iter() {
                    let index = path.index();
                    let told = self.links[index].run(&mut self.paces[index], from, 250);
                    self.now = self.now.max(told);
                }
                let paces = &mut self.paces;
                self.worth.consider(self.now, usable, paces, 1);
            }
            self.worth.left_out().contains(path(1))
        }
    }

    #[test]
    fn a_path_left_out_is_tried_again_and_taken_back_when_it_is_clean() {
        let mut pair = Pair::new();
        assert!(pair.run(2000));
        pair.links[1].lost = 0;
        assert!(pair.run(17_000), "not for twenty seconds");
        assert!(!pair.run(5000));
        assert!(!pair.run(60_000));
    }

    #[test]
    fn one_that_loses_as_before_is_left_out_for_twice_as_long() {
        let mut pair = Pair::new();
        assert!(pair.run(2000));
        // It was tried meanwhile.
        assert!(pair.run(24_000));
        pair.links[1].lost = 0;
        assert!(pair.run(30_000), "not for forty seconds");
        assert!(!pair.run(15_000));
    }
}

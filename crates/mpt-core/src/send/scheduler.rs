//! Which path a packet takes: by the tunnel's [`Policy`].
//!
//! The weighted scheduler shares *bytes*. Each packet of `L` bytes earns every usable path credit
//! for its share of them, `L × weight / total`; the path with the most credit takes the packet and
//! pays `L`. Credit is what a path is behind its share; it sums to zero, so after any packet no
//! path is more than that one packet ahead of its share. (It is the smooth weighted round robin
//! known from web load balancers, in bytes.) Credits are kept multiplied by the total weight, so
//! that all of it is exact in integers.
//!
//! *Runs.* Packets that go to one path together cost one system call, so where many are at hand, a
//! path takes several in a row: as many as it carries in a millisecond ([`RUN_TIME`]) at the rate of
//! late. That is what a run adds, at most, to the time that the reorder window waits. At low rates
//! runs are single packets; a run counts as one packet in the sums above.
//!
//! When a weight changes, all credit is forgotten. A path that is not usable keeps its own, which is a few runs'
//! at most: so one that returns has no arrears to burst, and packets that may use different paths (see
//! [`crate::send::classes`]) share each set of them by weight, in whatever order they come.

pub(crate) mod adaptive;
pub mod flow;
pub mod law;
#[cfg(test)]
mod observed;
pub(crate) mod pace;
pub(crate) mod trace;

use std::time::Duration;

use crate::limits::WEIGHTS;
use crate::path::{MAX_PATHS, PathId, PathSet};
use crate::time::Time;
use crate::wire::ip::Packet;

/// How packets are shared among paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// By what each path turns out to deliver; by weight toward peers that send no reports.
    #[default]
    Adaptive,
    /// Bytes in proportion to the paths' weights.
    Weighted,
    /// Every packet on every path; the first copy wins.
    Redundant,
    /// All on the path with the greatest weight among those that are usable.
    Backup,
    /// The packets of a flow stay on one path, flows are shared by weight.
    Flow,
}

impl Policy {
    /// Every policy.
    pub const ALL: [Policy; 5] = [
        Policy::Adaptive,
        Policy::Weighted,
        Policy::Redundant,
        Policy::Backup,
        Policy::Flow,
    ];

    /// The name in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Policy::Adaptive => "adaptive",
            Policy::Weighted => "weighted",
            Policy::Redundant => "redundant",
            Policy::Backup => "backup",
            Policy::Flow => "flow",
        }
    }
}

/// The scheduler of a tunnel: the policy in force, and what it has to remember.
#[derive(Debug, Clone, Default)]
pub struct Scheduler {
    policy: Policy,
    weighted: Weighted,
}

impl Scheduler {
    /// A scheduler without paths.
    #[must_use]
    pub fn new(policy: Policy) -> Scheduler {
        Scheduler {
            policy,
            weighted: Weighted::default(),
        }
    }

    /// The policy in force.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Follows another policy from the next packet on.
    pub fn set_policy(&mut self, policy: Policy) {
        self.policy = policy;
        self.weighted.begin();
    }

    /// Gives a path the relative share `weight`, clamped to [`WEIGHTS`].
    pub fn set_weight(&mut self, path: PathId, weight: u32) {
        self.weighted.set_weight(path, weight);
    }

    /// Picks the path for the next packets of the flow that `packet` belongs to, of which `at_hand`
    /// are there, each of `bytes` bytes: the path and how many it takes, at least one. Tell
    /// [`Scheduler::took`] what it took. `None` when no path is usable.
    ///
    /// With [`Policy::Redundant`] it is the first of the usable paths; the others take copies.
    #[inline]
    pub fn pick(
        &mut self,
        usable: PathSet,
        packet: &Packet<'_>,
        bytes: usize,
        at_hand: usize,
    ) -> Option<(PathId, usize)> {
        let path = match self.policy {
            Policy::Adaptive | Policy::Weighted => {
                return self.weighted.pick(usable, bytes, at_hand);
            }
            Policy::Redundant => usable.iter().next(),
            Policy::Backup => self.first_in_rank(usable),
            Policy::Flow => flow::path(flow::hash(packet), usable, &self.weighted.weights),
        };
        path.map(|path| (path, at_hand.max(1)))
    }

    /// The path that was picked took this many bytes.
    #[inline]
    pub fn took(&mut self, now: Time, path: PathId, bytes: usize) {
        match self.policy {
            Policy::Adaptive | Policy::Weighted => self.weighted.took(now, path, bytes),
            Policy::Redundant | Policy::Backup | Policy::Flow => {}
        }
    }

    /// The usable path with the greatest weight, and of equal ones the first.
    fn first_in_rank(&self, usable: PathSet) -> Option<PathId> {
        let weight = |path: PathId| self.weighted.weights[path.index()];
        usable.iter().reduce(|best, path| {
            if weight(path) > weight(best) {
                path
            } else {
                best
            }
        })
    }
}

/// How long a path may be busy with one run.
pub const RUN_TIME: Duration = Duration::from_millis(1);

/// Rates are measured over spans of this length, and each counts a quarter.
const RATE_SPAN: Duration = Duration::from_millis(8);
/// After a pause of this length the former rate says nothing.
const RATE_STALE: Duration = Duration::from_millis(100);

/// Shares bytes over paths by weight.
#[derive(Debug, Clone)]
pub struct Weighted {
    weights: [u32; MAX_PATHS],
    credit: [i64; MAX_PATHS],
    rates: [RunRate; MAX_PATHS],
    usable: PathSet,
    /// How many are usable.
    count: u32,
    /// Sum of the weights of the usable paths.
    total: i64,
}

impl Default for Weighted {
    fn default() -> Self {
        Weighted {
            weights: [0; MAX_PATHS],
            credit: [0; MAX_PATHS],
            rates: [RunRate::default(); MAX_PATHS],
            usable: PathSet::EMPTY,
            count: 0,
            total: 0,
        }
    }
}

impl Weighted {
    /// Gives a path the relative share `weight`, clamped to [`WEIGHTS`]. Counting starts anew.
    pub fn set_weight(&mut self, path: PathId, weight: u32) {
        self.weights[path.index()] = weight.clamp(*WEIGHTS.start(), *WEIGHTS.end());
        self.begin();
    }

    /// Picks the path for the next packets, of which `at_hand` are there, each of `bytes` bytes: the
    /// path and how many it takes, at least one. Tell [`Weighted::took`] what it took. `None` when
    /// no path is usable.
    #[inline]
    pub fn pick(
        &mut self,
        usable: PathSet,
        bytes: usize,
        at_hand: usize,
    ) -> Option<(PathId, usize)> {
        if usable != self.usable {
            self.follow(usable);
        }
        if self.count == 1 {
            return usable.iter().next().map(|path| (path, at_hand));
        }
        let earned = |path: PathId| {
            self.credit[path.index()] + bytes as i64 * i64::from(self.weights[path.index()])
        };
        let mut best: Option<(PathId, i64)> = None;
        for path in usable.iter() {
            let credit = earned(path);
            if best.is_none_or(|(_, most)| credit > most) {
                best = Some((path, credit));
            }
        }
        let (path, _) = best?;
        let run = self.rates[path.index()].bytes_in_run_time as usize / bytes.max(1);
        Some((path, run.clamp(1, at_hand.max(1))))
    }

    /// The path that was picked took this many bytes.
    #[inline]
    pub fn took(&mut self, now: Time, path: PathId, bytes: usize) {
        if self.count == 1 {
            return;
        }
        let bytes = bytes as i64;
        for path in self.usable.iter() {
            self.credit[path.index()] += bytes * i64::from(self.weights[path.index()]);
        }
        self.credit[path.index()] -= bytes * self.total;
        self.rates[path.index()].count(now, bytes as u64);
    }

    /// All credit is forgotten.
    fn begin(&mut self) {
        self.credit = [0; MAX_PATHS];
        self.follow(self.usable);
    }

    /// The next packets may go over these.
    fn follow(&mut self, usable: PathSet) {
        self.usable = usable;
        self.count = usable.bits().count_ones();
        self.total = usable
            .iter()
            .map(|path| i64::from(self.weights[path.index()]))
            .sum();
    }
}

/// What a path was given recently.
#[derive(Debug, Clone, Copy, Default)]
struct RunRate {
    began: Time,
    bytes: u64,
    bytes_in_run_time: u64,
}

impl RunRate {
    #[inline]
    fn count(&mut self, now: Time, bytes: u64) {
        let span = now.since(self.began);
        if span >= RATE_SPAN {
            let span_ns = span.as_nanos() as u64;
            let measured = self.bytes.saturating_mul(RUN_TIME.as_nanos() as u64) / span_ns;
            self.bytes_in_run_time = match span >= RATE_STALE {
                true => measured,
                false => (self.bytes_in_run_time * 3 + measured) / 4,
            };
            self.began = now;
            self.bytes = 0;
        }
        self.bytes += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn paths(weights: &[u32]) -> (Weighted, PathSet) {
        let mut scheduler = Weighted::default();
        let mut usable = PathSet::EMPTY;
        for (index, &weight) in weights.iter().enumerate() {
            let path = PathId::new(index).unwrap();
            scheduler.set_weight(path, weight);
            usable.insert(path);
        }
        (scheduler, usable)
    }

    fn take(scheduler: &mut Weighted, usable: PathSet, bytes: usize) -> PathId {
        let (path, run) = scheduler.pick(usable, bytes, 1).unwrap();
        assert_eq!(run, 1);
        scheduler.took(Time::ZERO, path, bytes);
        path
    }

    /// The longest run among super-packets of 44 packets that come at `gbps`.
    fn longest_run_at(gbps: f64) -> usize {
        let (mut scheduler, both) = paths(&[1, 1]);
        let mut longest = 0;
        for super_packet in 0..2000 {
            let sent_bits = f64::from(super_packet) * 44.0 * 1472.0 * 8.0;
            let now = Time::from_nanos((sent_bits / gbps) as u64);
            let mut at_hand = 44;
            while at_hand > 0 {
                let (path, run) = scheduler.pick(both, 1472, at_hand).unwrap();
                scheduler.took(now, path, run * 1472);
                at_hand -= run;
                longest = longest.max(run);
            }
        }
        longest
    }

    #[test]
    fn runs_are_what_a_path_carries_in_a_millisecond() {
        assert_eq!(longest_run_at(10.0), 44);
        // 100 Mbit/s on each of two paths: 8.5 packets of 1472 bytes, and the spans do not divide
        // super-packets evenly.
        assert!(
            (6..=12).contains(&longest_run_at(0.2)),
            "{}",
            longest_run_at(0.2)
        );
        assert_eq!(longest_run_at(0.01), 1);
    }

    #[test]
    fn a_path_that_returns_joins_without_a_burst() {
        let (mut scheduler, both) = paths(&[1, 1]);
        let second = PathId::new(1).unwrap();
        let first_alone = PathSet::only(PathId::new(0).unwrap());
        for _ in 0..1000 {
            take(&mut scheduler, first_alone, 1400);
        }
        let taken: Vec<_> = (0..4).map(|_| take(&mut scheduler, both, 1400)).collect();
        assert_eq!(taken.iter().filter(|&&path| path == second).count(), 2);
    }

    #[test]
    fn packets_that_may_use_different_paths_share_each_set_by_weight() {
        for (sets, shares) in [
            ([0b001, 0b011], [1500, 500, 0]),
            ([0b011, 0b110], [500, 1000, 500]),
        ] {
            let (mut scheduler, _) = paths(&[1, 1, 1]);
            let mut taken = [0; 3];
            for _ in 0..1000 {
                for set in sets {
                    taken[take(&mut scheduler, PathSet::from_bits(set), 1400).index()] += 1;
                }
            }
            assert_eq!(taken, shares, "{sets:?}");
        }
    }

    #[test]
    fn no_usable_path_means_none() {
        let (mut scheduler, _) = paths(&[1, 1]);
        assert_eq!(scheduler.pick(PathSet::EMPTY, 100, 1), None);
    }

    proptest! {
        /// At any moment no path is more than one packet beyond its share of the bytes.
        #[test]
        fn no_path_is_more_than_one_packet_beyond_its_share(
            weights in proptest::collection::vec(WEIGHTS, 1..=MAX_PATHS),
            sizes in proptest::collection::vec(20..=65_000usize, 1..400),
        ) {
            let (mut scheduler, usable) = paths(&weights);
            let total_weight: u64 = weights.iter().map(|&w| u64::from(w)).sum();
            let mut sent = vec![0u64; weights.len()];
            let mut total = 0u64;
            for size in sizes {
                let path = take(&mut scheduler, usable, size);
                sent[path.index()] += size as u64;
                total += size as u64;
                for (bytes, &weight) in sent.iter().zip(&weights) {
                    let share = total as f64 * f64::from(weight) / total_weight as f64;
                    prop_assert!(*bytes as f64 <= share + 65_000.0);
                }
            }
        }
    }
}

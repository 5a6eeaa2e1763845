//! What the answers to our probes tell: from the line in, which receives them, to the line out.

use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::answered::Answered;
use super::estimate::IdleDelay;
use super::set::PathId;
use crate::limits::MAX_PATHS;
use crate::time::Time;

/// What the answers to our probes tell of each path: written by the line in, read by the line out.
#[derive(Debug, Default)]
pub(crate) struct ProbeBoard {
    /// How many probes were answered; after it changes, the paths have news.
    answers: AtomicU32,
    paths: [Noted; MAX_PATHS],
}

/// Instead of a delay that is not known.
const NOT_KNOWN: i64 = i64::MIN;

/// [`Answered`], field by field.
#[derive(Debug, Default)]
struct Noted {
    answers: AtomicU32,
    sent_ns: AtomicU64,
    rtt_ns: AtomicU64,
    forward_ns: AtomicI64,
    /// [`NOT_KNOWN`] on a path that is not idle.
    idle_ns: AtomicI64,
    jitter_ns: AtomicU64,
}

impl ProbeBoard {
    /// Notes a path's answered probe.
    pub(crate) fn note(
        &self,
        path: PathId,
        sent: Time,
        rtt: Duration,
        forward_ns: i64,
        idle: &IdleDelay,
    ) {
        let noted = &self.paths[path.index()];
        noted.sent_ns.store(sent.as_nanos(), Ordering::Relaxed);
        let rtt_ns = u64::try_from(rtt.as_nanos()).unwrap_or(u64::MAX);
        noted.rtt_ns.store(rtt_ns, Ordering::Relaxed);
        noted.forward_ns.store(forward_ns, Ordering::Relaxed);
        let median = idle.median().unwrap_or(NOT_KNOWN);
        noted.idle_ns.store(median, Ordering::Relaxed);
        noted.jitter_ns.store(idle.jitter(), Ordering::Relaxed);
        noted.answers.fetch_add(1, Ordering::Release);
        self.answers.fetch_add(1, Ordering::Release);
    }

    /// How many probes were answered, of all paths.
    pub(crate) fn answers(&self) -> u32 {
        self.answers.load(Ordering::Acquire)
    }

    /// What is known of a path.
    pub(crate) fn of(&self, path: PathId) -> Answered {
        let noted = &self.paths[path.index()];
        Answered {
            answers: noted.answers.load(Ordering::Acquire),
            sent: Time::from_nanos(noted.sent_ns.load(Ordering::Relaxed)),
            rtt: Duration::from_nanos(noted.rtt_ns.load(Ordering::Relaxed)),
            forward_ns: noted.forward_ns.load(Ordering::Relaxed),
            idle_ns: Some(noted.idle_ns.load(Ordering::Relaxed)).filter(|&ns| ns != NOT_KNOWN),
            jitter_ns: noted.jitter_ns.load(Ordering::Relaxed),
        }
    }
}

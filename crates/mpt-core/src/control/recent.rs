//! What was counted in the last seconds.
//!
//! Counters since start tell what a tunnel has been through, not how it does: what went wrong a week
//! ago would speak for ever, and what goes wrong now would be lost in a week's packets. So the daemon
//! keeps the counters of the last [`SPAN`], one set a second, and a verdict weighs what was added since
//! the oldest of them.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Status;
use crate::time::Time;

/// How far back the last seconds go, and up to a second more: long enough for a share to mean something at a
/// few packets a second, short enough that whoever mends something is told so within 5 s.
pub const SPAN: Duration = Duration::from_secs(4);

/// Counters, either since start or of the last seconds. What was not counted does not appear in a table.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Recent {
    /// The time in which this was counted, in milliseconds.
    pub span_ms: u64,
    /// Packets that came from the TUN and were handed to a path.
    pub tx_packets: u64,
    /// Packets that were written to the TUN.
    pub rx_packets: u64,
    /// Packets dropped, by reason; those with 0 are left out.
    pub drops: BTreeMap<String, u64>,
    /// Packets sent again.
    pub resent: u64,
    /// Of these, needless.
    pub spurious: u64,
    /// See [`super::ReorderStatus`].
    pub gaps_seen: u64,
    /// Likewise.
    pub gaps_inferred_lost: u64,
    /// Likewise.
    pub gaps_timed_out: u64,
    /// Likewise.
    pub gaps_overflowed: u64,
    /// Likewise.
    pub late: u64,
    /// By path.
    pub paths: BTreeMap<String, PathRecent>,
}

/// Of one path.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PathRecent {
    /// Datagrams sent on it, probes included.
    pub tx_packets: u64,
    /// Datagrams of the peer received on it, probes included.
    pub rx_packets: u64,
    /// Datagrams that the kernel dropped because the receive buffer was full.
    pub socket_drops: u64,
}

impl Recent {
    /// The counters of a status, since start.
    fn total(status: &Status, since_start: Duration) -> Recent {
        let (tunnel, reorder) = (&status.tunnel, &status.reorder);
        let counted = tunnel.drops.iter().filter(|(_, count)| **count > 0);
        let paths = status.paths.iter().map(|path| {
            let counters = PathRecent {
                tx_packets: path.tx_packets,
                rx_packets: path.rx_packets,
                socket_drops: path.socket_drops,
            };
            (path.name.clone(), counters)
        });
        Recent {
            span_ms: u64::try_from(since_start.as_millis()).unwrap_or(u64::MAX),
            tx_packets: tunnel.tx_packets,
            rx_packets: tunnel.rx_packets,
            drops: counted.map(|(why, count)| (why.clone(), *count)).collect(),
            resent: tunnel.recovery.resent,
            spurious: tunnel.recovery.spurious,
            gaps_seen: reorder.gaps_seen,
            gaps_inferred_lost: reorder.gaps_inferred_lost,
            gaps_timed_out: reorder.gaps_timed_out,
            gaps_overflowed: reorder.gaps_overflowed,
            late: reorder.late,
            paths: paths.collect(),
        }
    }

    /// What was counted after `before`.
    fn since(&self, before: &Recent) -> Recent {
        let drops = self.drops.iter().map(|(why, &count)| {
            let earlier = before.drops.get(why).copied().unwrap_or(0);
            (why.clone(), added(count, earlier))
        });
        let nothing = PathRecent::default();
        let paths = self.paths.iter().map(|(name, path)| {
            let earlier = before.paths.get(name).unwrap_or(&nothing);
            let added = PathRecent {
                tx_packets: added(path.tx_packets, earlier.tx_packets),
                rx_packets: added(path.rx_packets, earlier.rx_packets),
                socket_drops: added(path.socket_drops, earlier.socket_drops),
            };
            (name.clone(), added)
        });
        Recent {
            span_ms: added(self.span_ms, before.span_ms),
            tx_packets: added(self.tx_packets, before.tx_packets),
            rx_packets: added(self.rx_packets, before.rx_packets),
            drops: drops.filter(|(_, count)| *count > 0).collect(),
            resent: added(self.resent, before.resent),
            spurious: added(self.spurious, before.spurious),
            gaps_seen: added(self.gaps_seen, before.gaps_seen),
            gaps_inferred_lost: added(self.gaps_inferred_lost, before.gaps_inferred_lost),
            gaps_timed_out: added(self.gaps_timed_out, before.gaps_timed_out),
            gaps_overflowed: added(self.gaps_overflowed, before.gaps_overflowed),
            late: added(self.late, before.late),
            paths: paths.collect(),
        }
    }

    /// How many packets were dropped for this reason.
    #[must_use]
    pub fn dropped(&self, why: crate::control::drops::DropReason) -> u64 {
        self.drops.get(why.name()).copied().unwrap_or(0)
    }
}

/// A counter that is lower than before began anew, as that of a path does whose socket is another.
fn added(now: u64, before: u64) -> u64 {
    now.checked_sub(before).unwrap_or(now)
}

/// The counters of the last [`SPAN`]. At one note a second it holds six.
#[derive(Debug)]
pub struct History {
    started: Time,
    notes: VecDeque<(Time, Recent)>,
}

impl History {
    /// That of a tunnel that starts now, with all counters at 0.
    #[must_use]
    pub fn new(now: Time) -> History {
        History {
            started: now,
            notes: VecDeque::from([(now, Recent::default())]),
        }
    }

    /// Notes the counters. To be called about once a second.
    pub fn note(&mut self, now: Time, status: &Status) {
        let total = Recent::total(status, now.since(self.started));
        self.notes.push_back((now, total));
        // The one before the last that is old enough goes: the rest covers the span without it.
        while self
            .notes
            .get(1)
            .is_some_and(|(at, _)| now.since(*at) >= SPAN)
        {
            self.notes.pop_front();
        }
    }

    /// What was counted in the last seconds.
    #[must_use]
    pub fn recent(&self, now: Time, status: &Status) -> Recent {
        let total = Recent::total(status, now.since(self.started));
        let old_enough = |(at, _): &&(Time, Recent)| now.since(*at) >= SPAN;
        let before = self.notes.iter().rev().find(old_enough);
        let before = before.or(self.notes.front());
        before.map_or_else(|| total.clone(), |(_, before)| total.since(before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::PathStatus;

    fn at(s: u64) -> Time {
        Time::from_nanos(s * 1_000_000_000)
    }

    fn counted(tx_packets: u64, strangers: u64, path_rx: u64) -> Status {
        let mut status = Status::default();
        status.tunnel.tx_packets = tx_packets;
        status.tunnel.drops.insert("stranger".into(), strangers);
        status.paths.push(PathStatus {
            name: "lte".into(),
            rx_packets: path_rx,
            ..PathStatus::default()
        });
        status
    }

    #[test]
    fn what_was_bad_once_is_forgotten_after_the_span() {
        let mut history = History::new(at(0));
        let then = history.recent(at(3), &counted(90, 7, 9));
        assert_eq!((then.span_ms, then.tx_packets), (3000, 90));
        assert_eq!(then.drops["stranger"], 7);
        for second in 1..=100 {
            history.note(at(second), &counted(30 * second, 7, 3 * second));
            assert!(history.notes.len() <= 6);
        }
        let now = history.recent(at(100), &counted(3000, 7, 300));
        assert_eq!((now.span_ms, now.tx_packets), (4000, 120));
        assert!(now.drops.is_empty());
        assert_eq!(now.paths["lte"].rx_packets, 12);
    }

    #[test]
    fn a_counter_that_began_anew_counts_from_0() {
        let mut history = History::new(at(0));
        history.note(at(1), &counted(500, 0, 500));
        history.note(at(11), &counted(600, 0, 20));
        assert_eq!(
            history.recent(at(12), &counted(610, 0, 25)).paths["lte"].rx_packets,
            25
        );
    }

    #[test]
    fn after_a_pause_the_span_is_as_long_as_it_was() {
        let mut history = History::new(at(0));
        history.note(at(1), &counted(10, 0, 0));
        let late = history.recent(at(61), &counted(70, 0, 0));
        assert_eq!((late.span_ms, late.tx_packets), (60_000, 60));
    }
}

//! Detection: when a packet counts as lost, by what is known of its path. It changes nothing but what it knows.

use std::time::Duration;

use super::kept::Kept;
use crate::seq::Seq;
use crate::time::Time;

/// RFC 8985 §6.2: for so many recoveries a widened window stays wide.
const PERSISTENCE: u32 = 16;
/// Reports may come so late after what they tell of.
pub(super) const REPORT_DELAY: Duration = Duration::from_millis(15);

/// The longest time that a report took is forgotten by a sixteenth with each later report: half of it after 11 reports. Of
/// 1,000 random pairs (`campaign --pairs 1000 --seed 20000`) the tenth with the least has 0.80 of the sum late with it and
/// with what counts as overtaken ([`PathRecovery::has_passed`]), and 0.79 without.
const SLOW_REPORTS: u32 = 16;

/// What is known of a path.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PathRecovery {
    /// The newest number that arrived, when it was sent, and how long its report took to come.
    pub(super) edge: Option<(Seq, Time, Duration)>,
    /// When that became known.
    progress: Time,
    pub(super) rtt: Duration,
    /// How long one of its slower reports takes: the longest of the last ones, a little less with each.
    slow_report: Option<Duration>,
    /// Quarters of the round-trip time in the reordering window.
    quarters: u32,
    widened: Time,
    /// When the last recovery began, and how many there were since one was needless.
    episode: Time,
    clean: u32,
    /// Packets that it lost, or swallowed, and that were sent again.
    pub(super) recovered: u64,
}

/// What reports have told, whichever path they tell of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reported {
    /// When the last one came.
    pub(super) last: Time,
    /// The highest number that had arrived on any path.
    pub(super) arrived: Option<Seq>,
}

impl PathRecovery {
    /// The reordering window.
    fn window(&self) -> Duration {
        (self.rtt * self.quarters / 4).min(self.rtt)
    }

    /// How long one of its slower reports takes, and no longer than its round trip.
    pub(super) fn usual_report(&self) -> Duration {
        self.slow_report.map_or(self.rtt, |slow| slow.min(self.rtt))
    }

    /// A report tells that `edge` has arrived, which was sent at `sent`.
    pub(super) fn arrived(&mut self, now: Time, edge: Seq, sent: Time) {
        if self.edge.is_none_or(|(known, ..)| edge.supersedes(known)) {
            let took = now.since(sent);
            self.edge = Some((edge, sent, took));
            let slow = self.slow_report.unwrap_or(self.rtt);
            self.slow_report = Some(took.max(slow - slow / SLOW_REPORTS));
            self.progress = now;
        }
    }

    /// A packet has come that was missing, and that the path had passed: it reorders.
    pub(super) fn overtaken(&mut self, now: Time) {
        if self.quarters == 0 {
            (self.quarters, self.widened) = (1, now);
        }
    }

    /// What was sent again had not been lost.
    pub(super) fn needless(&mut self, now: Time) {
        self.clean = 0;
        if now.since(self.widened) >= self.rtt {
            self.quarters = (self.quarters + 1).min(4);
            self.widened = now;
        }
    }

    /// Whether the window was widened at this moment.
    pub(super) fn widened_at(&self, now: Time) -> bool {
        self.widened == now
    }

    /// A packet was found lost.
    pub(super) fn lost(&mut self, now: Time) {
        if now.since(self.episode) >= self.rtt {
            self.episode = now;
            self.clean += 1;
        }
        if self.clean >= PERSISTENCE && self.quarters > 1 {
            self.clean = 0;
            self.quarters -= 1;
        }
    }

    /// Whether something has arrived that was sent after this packet. Numbers alone do not tell: what was bound to
    /// another path, and came here when that fell silent, is sent after higher ones.
    pub(super) fn has_passed(&self, seq: Seq, sent: Time) -> bool {
        let is_later = |(edge, edge_sent, _): (Seq, Time, _)| {
            edge_sent > sent || (edge_sent == sent && edge.is_after(seq))
        };
        self.edge.is_some_and(is_later)
    }

    /// When a packet that is missing, and was sent over this path, counts as lost: `now`, or later if nothing
    /// more is known by then.
    pub(super) fn lost_at(&self, now: Time, seq: Seq, kept: &Kept, reported: Reported) -> Time {
        let has_passed = match kept.tries {
            0 => self.has_passed(seq, kept.sent),
            _ => self.edge.is_some_and(|(_, sent, _)| sent > kept.sent),
        };
        let took = self.edge.map_or(Duration::ZERO, |(.., took)| took);
        // Where packets overtake, the newest to arrive was a quick one. Where they hardly do, reports may take much less
        // than the path's own round trip: they come over the path that answers first.
        let usual = match self.quarters {
            0 | 1 => self.usual_report(),
            _ => self.rtt,
        };
        let told = kept.sent + took.max(usual) + self.window();
        let is_beyond = reported.arrived.is_some_and(|edge| seq.is_after(edge));
        match has_passed {
            true if self.quarters > 0 => told_by(reported.last, told, self.rtt),
            true => now,
            // All paths have passed it, says the receiver, which has waited for its own window.
            false if kept.tries == 0 && is_beyond => now,
            false if kept.tries > 0 => told_by(reported.last, told + REPORT_DELAY, Duration::ZERO),
            // Nothing that was sent later came. If nothing does, it is not the packet, but the path.
            false => {
                let usual = kept.sent + took.max(self.rtt);
                usual.max(self.progress) + self.window().max(self.rtt / 4) + REPORT_DELAY * 2
            }
        }
    }
}

/// When it is known whether a packet arrived of which a report would tell by `time`: then, if one has
/// come since (the last came at `last`). Else one is waited for, `patience` long and no less than reports are
/// apart.
fn told_by(last: Time, time: Time, patience: Duration) -> Time {
    if last >= time {
        time
    } else {
        time + patience.max(REPORT_DELAY * 2)
    }
}

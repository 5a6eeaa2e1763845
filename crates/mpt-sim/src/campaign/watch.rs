//! What the sender believes of its paths while a case runs, beside what is true of the links.

use std::fmt::Write as _;
use std::time::Duration;

use mpt_core::control::drops::DropReason;
use mpt_core::time::Time;

use super::family::Case;
use crate::pair::{Pair, Side};
use crate::source::Flow;

/// A line each so often.
#[derive(Debug)]
pub(super) struct Watch {
    every: Duration,
    next: Time,
    lines: Vec<String>,
}

impl Watch {
    pub(super) fn new(every: Duration, now: Time) -> Watch {
        Watch {
            every,
            next: now + every,
            lines: Vec::new(),
        }
    }

    pub(super) fn into_lines(self) -> Vec<String> {
        self.lines
    }

    /// Adds a line if it is time. Of each path: its phase, limit and delivery in Mbit/s, the queue that the
    /// sender believes in and the true one in ms, and the packets that the link dropped and lost. Then the
    /// sender's queue and recovery, the receiver's gaps, and the first flow.
    pub(super) fn look(&mut self, pair: &mut Pair, case: &Case, began: Time, flows: &[Flow]) {
        let now = pair.now();
        if now < self.next {
            return;
        }
        self.next = now + self.every;
        let mut line = format!("{:6.2} s", now.since(began).as_secs_f64());
        for path in 0..case.paths.len() {
            let believed = pair.end(Side::A).path(path);
            let link = pair.link(path, Side::A);
            let rate = link.config.rate_bps.unwrap_or(1) as f64;
            let counters = link.counters();
            let limit = believed.tx_limit_bps.map_or(-1.0, |bps| bps as f64 / 1e6);
            let _ = write!(
                line,
                " | {:?} limit {limit:.1} delivers {:.1} queue {} true {:.0} usual {:.3} dropped {} lost {}",
                believed.tx_phase,
                believed.tx_delivered_bps as f64 / 1e6,
                believed.tx_queue_us / 1000,
                link.queued_bytes() as f64 * 8e3 / rate,
                believed.tx_usual_loss,
                counters.dropped_queue_full + counters.dropped_policed,
                counters.dropped_lost,
            );
        }
        let (sender, receiver) = (pair.end(Side::A), pair.end(Side::B).reorder());
        let status = sender.status();
        let _ = write!(
            line,
            " | waiting {} given up {} | lost {} resent {} needless {} | late {} inferred {} held {}",
            status.queue_packets,
            sender.dropped(DropReason::QueueAqm),
            status.recovery.lost,
            status.recovery.resent,
            status.recovery.spurious,
            receiver.late,
            receiver.gaps_inferred_lost,
            receiver.held,
        );
        if let Some(flow) = flows.first() {
            let (window, halvings) = (flow.window(), flow.halvings());
            let _ = write!(line, " | window {window:.0} halvings {halvings}");
        }
        self.lines.push(line);
    }
}

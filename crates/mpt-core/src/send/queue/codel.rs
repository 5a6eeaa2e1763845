//! CoDel (RFC 8289): a queue whose packets waited longer than a target for a whole interval is
//! standing, and gives up a packet; another ever sooner, by the square root of how many it was, until
//! the wait falls below the target.

use std::time::Duration;

use crate::time::Time;

/// The least target.
pub(crate) const TARGET: Duration = Duration::from_millis(10);
/// The least interval, RFC 8289 §4.3.
pub(crate) const INTERVAL: Duration = Duration::from_millis(100);

/// What is to become of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Pass,
    /// Drop or mark it.
    Drop,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Codel {
    /// When the wait will have been above the target for an interval.
    first_above: Option<Time>,
    /// When the next packet is given up; none while not dropping.
    next_drop: Option<Time>,
    count: u32,
    /// `count` when dropping last began, and when it ended.
    count_then: u32,
    ended: Time,
}

impl Codel {
    /// Nothing is left in the queue.
    pub(crate) fn emptied(&mut self) {
        self.first_above = None;
        if self.next_drop.take().is_some() {
            self.count_then = self.count;
        }
    }

    /// What is to become of the packet at the head, which waited for `waited`. `is_short`: too
    /// little is behind it for a queue that stands.
    pub(crate) fn judge(
        &mut self,
        now: Time,
        waited: Duration,
        is_short: bool,
        target: Duration,
        interval: Duration,
    ) -> Verdict {
        if waited < target || is_short {
            self.first_above = None;
            if self.next_drop.take().is_some() {
                self.ended = now;
            }
            return Verdict::Pass;
        }
        let Some(first_above) = self.first_above else {
            self.first_above = Some(now + interval);
            return Verdict::Pass;
        };
        match self.next_drop {
            Some(next) if now < next => Verdict::Pass,
            Some(next) => {
                self.count = self.count.saturating_add(1);
                self.next_drop = Some(self.after(next, interval));
                Verdict::Drop
            }
            None if now < first_above => Verdict::Pass,
            None => {
                // RFC 8289 §5.4: if dropping ended lately, go on where its rate was right.
                let delta = self.count.saturating_sub(self.count_then);
                let lately = now.since(self.ended) < interval * 16;
                self.count = if lately && delta > 1 { delta } else { 1 };
                self.count_then = self.count;
                self.next_drop = Some(self.after(now, interval));
                Verdict::Drop
            }
        }
    }

    fn after(&self, at: Time, interval: Duration) -> Time {
        at + interval.div_f64(f64::from(self.count).sqrt())
    }
}

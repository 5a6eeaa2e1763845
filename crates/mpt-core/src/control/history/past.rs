//! What is kept of a tunnel's last 24 hours.

use std::time::Duration;

use super::series::{Counted, Seen, Series, Step};
use super::{History, MAX_NAMES, MINUTE, PathHistory};
use crate::control::verdict::is_used_unprobed;
use crate::control::{LatePolicy, PathState, PathStatus, Status};
use crate::time::Time;

/// A look that comes later than this after the one before says nothing of the minute before.
const JOINS: Duration = Duration::from_secs(5);

/// The last 24 hours of a tunnel and of its paths. It has two clocks of its caller's, of which it reads neither: a
/// calendar, which goes on while the host sleeps and is never set, and one that stands still then.
#[derive(Debug)]
pub struct Past {
    whole: Series,
    paths: Vec<Series>,
    before: Option<Look>,
}

#[derive(Debug, Clone, Copy)]
struct Look {
    calendar: Time,
    awake: Time,
}

impl Past {
    /// Of the tunnel of this name, of which nothing is known yet.
    #[must_use]
    pub fn new(tunnel: &str) -> Past {
        Past {
            whole: Series::new(tunnel),
            paths: Vec::new(),
            before: None,
        }
    }

    /// Adds what has happened since the call before. To be called about once a second while the tunnel runs; seconds
    /// without a call are not known.
    pub fn note(&mut self, calendar: Time, awake: Time, status: &Status) {
        let look = Look { calendar, awake };
        let before = self.before.replace(look).unwrap_or(look);
        let step = step(before, look);
        self.whole.note(step, &whole(status));
        for path in &status.paths {
            if let Some(series) = self.series(&path.name) {
                series.note(step, &seen(status, path));
            }
        }
        for series in &mut self.paths {
            if series.is_here && !status.paths.iter().any(|path| path.name == series.name) {
                series.leave();
            }
            series.forget(step.minute);
        }
        self.whole.forget(step.minute);
        self.paths
            .retain(|series| series.is_here || !series.is_empty());
    }

    /// The tunnel does not run now.
    pub fn pause(&mut self) {
        self.before = None;
        self.whole.leave();
        self.paths.iter_mut().for_each(Series::leave);
    }

    /// What is known, of one path or of all; `origin_us` are the microseconds from 1970-01-01 00:00 UTC to the
    /// calendar's origin.
    ///
    /// # Errors
    /// The names of which something is known, when there is nothing of that one.
    pub fn history(
        &self,
        path: Option<&str>,
        calendar: Time,
        origin_us: u64,
    ) -> Result<History, Vec<&str>> {
        let at_us = |minute: u32| {
            // To the second: clocks that are set by a second clock differ by parts of it.
            let at_us = origin_us.saturating_add(u64::from(minute) * MINUTE.as_micros() as u64);
            at_us.saturating_add(500_000) / 1_000_000 * 1_000_000
        };
        let told = |series: &Series| PathHistory {
            name: series.name.clone(),
            present: series.is_here,
            minutes: series.minutes(at_us),
        };
        let is_meant = |series: &&Series| path.is_none_or(|path| path == series.name);
        let paths: Vec<PathHistory> = self.paths.iter().filter(is_meant).map(told).collect();
        if path.is_some() && paths.is_empty() {
            return Err(self.paths.iter().map(|series| &*series.name).collect());
        }
        Ok(History {
            tunnel: self.whole.name.clone(),
            at_us: origin_us.saturating_add(calendar.as_nanos() / 1000),
            whole: path.is_none().then(|| told(&self.whole)),
            paths,
        })
    }

    /// What is kept of the path of this name. A new name takes the place of the one that has been away longest, where
    /// there are too many.
    fn series(&mut self, name: &str) -> Option<&mut Series> {
        if let Some(at) = self.paths.iter().position(|series| series.name == name) {
            return self.paths.get_mut(at);
        }
        if self.paths.len() >= MAX_NAMES {
            let away = self.paths.iter().enumerate().filter(|(_, s)| !s.is_here);
            let (at, _) = away.min_by_key(|(_, series)| series.last_minute())?;
            self.paths.remove(at);
        }
        self.paths.push(Series::new(name));
        self.paths.last_mut()
    }
}

fn step(before: Look, look: Look) -> Step {
    let minute_ns = MINUTE.as_nanos() as u64;
    let into = Duration::from_nanos(look.calendar.as_nanos() % minute_ns);
    let passed = look.calendar.since(before.calendar);
    Step {
        minute: u32::try_from(look.calendar.as_nanos() / minute_ns).unwrap_or(u32::MAX),
        into,
        awake: look.awake.since(before.awake),
        joins: passed <= JOINS && passed > into,
    }
}

/// A path that a peer uses which does not probe is up, as far as anybody knows.
fn state(status: &Status, path: &PathStatus) -> PathState {
    match is_used_unprobed(status, path) {
        true => PathState::Up,
        false => path.state,
    }
}

fn seen(status: &Status, path: &PathStatus) -> Seen {
    // A hub's own paths are sockets: what is lost is measured on each peer's paths.
    let measured = |loss: f64| status.hub.is_none().then_some(loss);
    Seen {
        counted: Counted {
            tx_bytes: path.tx_bytes,
            rx_bytes: path.rx_bytes,
            tx_packets: path.tx_packets,
            rx_packets: path.rx_packets,
            recovered: path.tx_recovered,
            ..Counted::default()
        },
        state: state(status, path),
        rtt_us: path.rtt_us,
        loss: measured(path.loss),
        rx_loss: measured(path.rx_loss),
    }
}

/// The tunnel, which is up while one of its paths is.
fn whole(status: &Status) -> Seen {
    let (tunnel, reorder) = (&status.tunnel, &status.reorder);
    let gaps = [
        reorder.gaps_inferred_lost,
        reorder.gaps_timed_out,
        reorder.gaps_overflowed,
    ];
    let mut paths = status.paths.iter();
    let up = paths.any(|path| state(status, path) == PathState::Up);
    Seen {
        counted: Counted {
            tx_bytes: tunnel.tx_bytes,
            rx_bytes: tunnel.rx_bytes,
            tx_packets: tunnel.tx_packets,
            rx_packets: tunnel.rx_packets,
            given_up: gaps.into_iter().fold(0, u64::saturating_add),
            late: match reorder.late_policy {
                LatePolicy::Deliver => reorder.late,
                LatePolicy::Drop => 0,
            },
            recovered: tunnel.recovery.resent,
            rx_recovered: reorder.gaps_recovered,
        },
        state: if up { PathState::Up } else { PathState::Down },
        rtt_us: None,
        loss: None,
        // A hub's window is each peer's own.
        rx_loss: status.hub.is_none().then_some(0.0),
    }
}

#[cfg(test)]
mod tests;

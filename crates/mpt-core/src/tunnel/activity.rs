//! Whether the tunnel carries anything: see [`crate::path`] for what paths make of it.
//!
//! Packets of either direction count, and those that found no path. The line in sees what arrives. What
//! leaves it learns from a count that the line out keeps; and while the tunnel is idle, and the line in
//! sleeps for long, the first packet out has the line out wake it ([`super::Outbound::poll_wake`]). So
//! each packet costs nothing, and the first one a wake-up.

use std::time::Duration;

use super::inbound::Inbound;
use crate::crypto::Calm;
use crate::path::{MAX_PATHS, Path, PathId, PathSet, PathState};
use crate::time::Time;

/// After so long without a packet the tunnel is idle. A conversation pauses for less.
const BUSY_FOR: Duration = Duration::from_secs(5);

/// What is known of it.
#[derive(Debug, Default)]
pub(super) struct Activity {
    /// Since when packets have come, without a pause of [`BUSY_FOR`]; `None` while the tunnel is idle.
    quick_since: Option<Time>,
    /// When it is idle if nothing more comes.
    busy_until: Time,
    /// The line out's count, as it was last seen.
    carried: u32,
    /// While it is idle: when the first probe missed its answer since anything of the peer came.
    missed: Option<Time>,
}

impl Activity {
    pub(super) fn is_idle(&self) -> bool {
        self.quick_since.is_none()
    }

    /// From when on the peer should have sent something.
    pub(super) fn expected_since(&self) -> Time {
        self.quick_since.unwrap_or_default()
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.quick_since.map(|_| self.busy_until)
    }

    /// Something of the peer came.
    pub(super) fn hear(&mut self) {
        self.missed = None;
    }
}

impl Inbound {
    /// The line out has packets again after a pause ([`super::Outbound::poll_wake`]). Afterwards poll
    /// everything.
    pub fn wake(&mut self, now: Time) {
        self.follow_carried(now);
        self.handle_timeout(now);
    }

    /// The tunnel carries something.
    pub(super) fn touch(&mut self, now: Time) {
        self.activity.busy_until = now + BUSY_FOR;
        if !self.activity.is_idle() {
            return;
        }
        self.activity.quick_since = Some(now);
        self.activity.missed = None;
        self.shared.wake.stay();
        for path in self.paths.iter_mut().flatten() {
            path.set_quick(Some(now));
        }
        if let Some(opening) = &mut self.opening {
            opening.hurry(now);
        }
        self.unsettled = true;
    }

    fn follow_carried(&mut self, now: Time) {
        let carried = self.shared.wake.carried();
        if std::mem::replace(&mut self.activity.carried, carried) != carried {
            self.touch(now);
        }
    }

    /// Notes what the line out has carried, and when the tunnel has become idle.
    pub(super) fn follow_activity(&mut self, now: Time) {
        self.follow_carried(now);
        if self.activity.is_idle() || now < self.activity.busy_until {
            return;
        }
        self.activity.quick_since = None;
        for path in self.paths.iter_mut().flatten() {
            path.set_quick(None);
        }
        self.shared.wake.sleep();
        // What was carried in this moment woke nobody.
        self.follow_carried(now);
        self.unsettled = true;
    }

    /// Lets the sessions know what they may make of silence, and how much handshakes matter.
    pub(super) fn tell_sessions(&mut self, now: Time) {
        let Some(opening) = &mut self.opening else {
            return;
        };
        if let Some(quick) = self.activity.quick_since {
            return opening.set_calm(Some(quick), None);
        }
        if self.activity.missed.is_none() {
            // The probes that follow the first are the occasion to notice.
            let paths = self.paths.iter().flatten();
            let missed = paths.filter_map(|path| path.missed());
            self.activity.missed = missed.filter(|&at| at <= now).min();
        }
        let paths = || self.paths.iter().flatten();
        let is_up = |path: &&Path| path.state == PathState::Up;
        let (path, patience) = calm_path(&self.paths);
        let calm = Calm {
            path,
            patience,
            metered: match paths().any(|path| is_up(&path)) {
                true => paths().filter(is_up).all(|path| path.config.metered),
                false => paths().all(|path| path.config.metered),
            },
        };
        opening.set_calm(self.activity.missed, Some(calm));
    }
}

/// The path that a handshake may take alone while nothing is carried: of those that are up the one that
/// costs least, then the one that answers first. And how long an answer takes on it.
fn calm_path(paths: &[Option<Path>; MAX_PATHS]) -> (PathSet, Duration) {
    let candidates = (0..MAX_PATHS).filter_map(PathId::new).filter_map(|id| {
        let path = paths[id.index()].as_ref()?;
        let rtt = path.rtt.smoothed().unwrap_or(Duration::MAX);
        (path.state == PathState::Up).then_some((path.config.metered, rtt, id))
    });
    let chosen = candidates.min();
    chosen.map_or((PathSet::EMPTY, Duration::ZERO), |(_, rtt, id)| {
        let rtt = if rtt == Duration::MAX {
            Duration::ZERO
        } else {
            rtt
        };
        (PathSet::only(id), rtt * 5 / 4)
    })
}

//! Whether the tunnel carries anything: see [`crate::path`] for what paths make of it.
//!
//! Packets of either direction count, and those that found no path. The line in sees what arrives. What
//! leaves it learns from a count that the line out keeps; and while the tunnel is idle, and the line in
//! sleeps for long, the first packet out has the line out wake it ([`super::Outbound::poll_wake`]). So
//! each packet costs nothing, and the first one a wake-up.

use std::time::Duration;

use crate::crypto::Calm;
use crate::path::{Path, PathSet, Paths};
use crate::time::Time;

/// After this long without a packet the tunnel is idle. A conversation pauses for less.
const BUSY_FOR: Duration = Duration::from_secs(5);

/// Keepalives without a sign of the peer after which it may have begun anew: a lost probe or two are no sign of that.
const SILENT_KEEPALIVES: u32 = 3;

/// A path's answers are not waited for longer to take them for a sign of the peer: who holds them back would otherwise say
/// how long that is. Twice the time that RFC 6298 §2.1 allows for where nothing was measured.
const LONGEST_ANSWER: Duration = Duration::from_secs(2);

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
    /// How long the peer may be silent, as the paths that were up have it since it was heard last.
    silence: Option<Duration>,
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
        self.silence = None;
    }

    /// How long nothing may come of a peer that should send something: it is heard as often as the quickest path that
    /// is up is probed, but for what answers take. A path that goes down in this silence counts on; where none is up,
    /// all do.
    pub(super) fn silence(&mut self, paths: &Paths) -> Duration {
        let each = || paths.iter().filter_map(Option::as_deref);
        let are_up = each().any(Path::is_up);
        let asked = || each().filter(|path| !are_up || path.is_up());
        let keepalive = asked().map(|path| path.config.keepalive).min();
        let answers = asked().filter_map(|path| path.rtt.round_trip());
        let longest = answers.map(|rtt| rtt.longest()).max();
        // Probes come a tenth early or late by chance.
        let answer = longest.unwrap_or_default() * 5 / 4;
        let silence = (keepalive.unwrap_or_default() * SILENT_KEEPALIVES).max(answer);
        let silence = self.silence.map_or(silence, |before| before.min(silence));
        self.silence = Some(silence);
        silence
    }

    /// The tunnel carries something. Returns whether it was idle before.
    pub(super) fn touch(&mut self, now: Time) -> bool {
        self.busy_until = now + BUSY_FOR;
        if !self.is_idle() {
            return false;
        }
        self.quick_since = Some(now);
        self.missed = None;
        true
    }

    /// The line out's count is this. Returns whether it has carried anything since.
    pub(super) fn note_carried(&mut self, carried: u32) -> bool {
        std::mem::replace(&mut self.carried, carried) != carried
    }

    /// Returns whether the tunnel has just become idle.
    pub(super) fn rest(&mut self, now: Time) -> bool {
        let rests = !self.is_idle() && now >= self.busy_until;
        if rests {
            self.quick_since = None;
        }
        rests
    }

    /// What the sessions may make of silence, and how much handshakes matter: for [`Sessions::set_calm`].
    ///
    /// [`Sessions::set_calm`]: crate::crypto::Sessions::set_calm
    pub(super) fn calm(&mut self, now: Time, paths: &Paths) -> (Option<Time>, Option<Calm>) {
        if let Some(quick) = self.quick_since {
            return (Some(quick), None);
        }
        let each = || paths.iter().filter_map(Option::as_deref);
        let are_up = each().any(Path::is_up);
        if self.missed.is_none() {
            // The probes that follow the first are the occasion to notice. Where no path is up, none may have been since
            // keys were agreed: perhaps the peer has others.
            let asked = each().filter(|path| !are_up || path.is_up());
            let missed = asked.filter_map(Path::missed);
            self.missed = missed.filter(|&at| at <= now).min();
        }
        let (path, patience) = calm_path(paths);
        let mut chosen = each().filter(|path| !are_up || path.is_up());
        let metered = chosen.all(|path| path.config.metered);
        let calm = Calm {
            path,
            patience,
            metered,
        };
        (self.missed, Some(calm))
    }
}

/// From when on it means something that the peer, which owes answers since `owed`, has answered on no path. What counts is
/// when a probe that was answered was sent, not when the answer came: somebody may have held that back.
pub(super) fn unanswered_from(owed: Time, paths: &Paths) -> Time {
    let answers = Path::each(paths).filter_map(|(_, path)| {
        let longest = path.rtt.round_trip().map(|rtt| rtt.longest());
        let answer = longest.unwrap_or_default().min(LONGEST_ANSWER);
        Some(path.echoes.answered()?.max(owed) + path.config.dead_after + answer)
    });
    answers.fold(owed, Time::max)
}

/// The path that a handshake may take alone while nothing is carried: of those that are up the one that
/// costs least, then the one that answers first. And how long an answer takes on it.
fn calm_path(paths: &Paths) -> (PathSet, Duration) {
    let candidates = Path::each(paths).filter_map(|(id, path)| {
        let rtt = path.rtt.smoothed().unwrap_or(Duration::MAX);
        path.is_up().then_some((path.config.metered, rtt, id))
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

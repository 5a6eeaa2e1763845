//! When a handshake begins, over which paths it goes, and when a session ends.
//!
//! A new handshake begins two minutes after the last, after 2^32 packets, when there is no session, and when
//! nothing has come for a few keepalives, or no path is answered any more, whatever comes: the peer may have begun
//! anew, and what it sends be lost. So a peer whose clock went back, which cannot prove itself by an initiation, is asked
//! and can answer. Its initiation itself begins nothing: anybody may have recorded it.
//!
//! While the tunnel carries nothing, a handshake is most of what it costs. Then it goes over one path, and
//! over all only when that brings no answer; on metered paths it begins as late as it may; nobody is
//! taken for silent that was asked nothing; and where nobody answers for long, the next initiation waits
//! (`Calm`). There is a session all the same, so that the first packet finds one.
//!
//! When keys are two minutes old one end begins, and the other only some seconds later, for the case that it
//! does not. Which is which cannot hang on who began the session: of two that began at once each end may send in
//! the other's, and both would wait. So it is the end whose session number, random and new at each start, is
//! the higher: the ends always agree on that.

use std::time::Duration;

use super::{Session, Sessions};
use crate::crypto::handshake::Haste;
use crate::crypto::sealer::REKEY_AFTER_PACKETS;
use crate::crypto::wire::End;
use crate::time::Time;

/// Age of a session at which the end with the higher session number begins the next.
pub const REKEY_AFTER: Duration = Duration::from_secs(120);
/// Age at which the other end does, if the first did not; less than [`REKEY_SPREAD`] more.
const REKEY_SECOND_AFTER: Duration = Duration::from_secs(130);
const REKEY_SPREAD: Duration = Duration::from_secs(8);
/// Age at which either does while nothing but metered paths are up and the tunnel carries nothing.
const REKEY_METERED_AFTER: Duration = Duration::from_secs(165);
const REKEY_METERED_SECOND_AFTER: Duration = Duration::from_secs(174);
/// An idle tunnel waits for this long from one initiation to the next when [`HASTY_ATTEMPTS`] were in vain …
const CALM_ATTEMPT: Duration = Duration::from_secs(5);
/// … and where that costs money for this long.
const CALM_METERED_ATTEMPT: Duration = Duration::from_secs(20);
const HASTY_ATTEMPTS: u32 = 6;
/// Age at which a session ends, whatever happens.
pub const REJECT_AFTER: Duration = Duration::from_secs(180);
/// How long a session that was replaced is kept after the last packet in it.
pub const OLD_KEYS_KEPT: Duration = Duration::from_secs(5);
/// How long a session that the peer began may take to be confirmed before this end begins one, with all that take its
/// place meanwhile.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(1);
/// How long a new session has until a probe in it is answered: a lost probe, another, and an answer that takes 2 s. Of a peer
/// that is heard and answers nothing, as over a path that leads one way, new keys are asked no more often.
const ANSWERED_WITHIN: Duration = Duration::from_secs(3);
/// Pause after an initiation that could not be written.
const FAILED_PAUSE: Duration = Duration::from_secs(5);

impl Sessions {
    /// When this end is to begin a handshake.
    pub(super) fn next_due(&self) -> Option<Time> {
        if self.paths.is_empty() {
            return None;
        }
        let due = match self.sending() {
            None => Time::ZERO,
            Some(session) if self.is_used_up(session) => Time::ZERO,
            Some(session) => {
                let silent = self.silent_at(session);
                let rekey_at = self.rekey_at(session);
                silent.map_or(rekey_at, |silent| silent.min(rekey_at))
            }
        };
        let sessions = self.sessions.iter().flatten();
        let hoped_for = sessions
            .filter(|session| !session.confirmed)
            .map(|session| session.hoped_since + CONFIRMED_WITHIN);
        let not_before = hoped_for.fold(self.next_initiation, Time::max);
        Some(due.max(not_before))
    }

    /// When the peer has been silent for too long, if something is due. What opens is no sign of it where no path is
    /// answered: who held it back can hand it out for as long as he likes, but cannot answer.
    fn silent_at(&self, session: &Session) -> Option<Time> {
        let heard = self.owed_since?.max(self.last_heard) + self.silence;
        let unanswered = self.unanswered_since;
        let unanswered = unanswered.map(|at| at.max(session.created + ANSWERED_WITHIN));
        Some(unanswered.map_or(heard, |at| at.min(heard)))
    }

    /// When a session is dropped, as things stand.
    pub(super) fn ends(&self, session: &Session) -> Time {
        let end = session.created + REJECT_AFTER;
        let mut others = self.sessions.iter().flatten();
        let is_left = others.any(|other| other.was_used && other.last_heard > session.last_heard)
            || self.is_of_former_life(session.number);
        match session.replaced.filter(|_| is_left) {
            Some(at) => end.min(at.max(session.last_heard) + OLD_KEYS_KEPT),
            None => end,
        }
    }

    fn rekey_at(&self, session: &Session) -> Time {
        if !self.calm.is_some_and(|calm| calm.metered) {
            return session.rekey_at;
        }
        let is_first = session.own.session > session.peer.session;
        let after = match is_first {
            true => REKEY_METERED_AFTER,
            false => REKEY_METERED_SECOND_AFTER,
        };
        session.created + after
    }

    fn is_used_up(&self, session: &Session) -> bool {
        self.next_number.saturating_sub(session.own.next_number) >= REKEY_AFTER_PACKETS
    }

    pub(super) fn initiate(&mut self, now: Time) {
        let own = self.next_end()(self.handshake.entropy());
        let is_routine = self.sending().is_some_and(|session| {
            let silent = self.silent_at(session);
            silent.is_none_or(|at| now < at) && !self.is_used_up(session)
        });
        let (paths, haste) = match self.calm {
            Some(calm) if is_routine && self.attempts == 0 && !calm.path.is_empty() => {
                (calm.path, Haste::CopyAfter(calm.patience))
            }
            Some(calm) if self.attempts >= HASTY_ATTEMPTS => {
                let attempt = match calm.metered {
                    true => CALM_METERED_ATTEMPT,
                    false => CALM_ATTEMPT,
                };
                (self.paths, Haste::OnceIn(attempt))
            }
            _ => (self.paths, Haste::CopyAfter(Duration::ZERO)),
        };
        self.attempts = self.attempts.saturating_add(1);
        self.handshake.initiate(now, paths, own, haste);
        if !self.handshake.is_pending() {
            self.next_initiation = now + FAILED_PAUSE;
        }
    }

    /// After how long this end begins the next session after one between these ends.
    pub(super) fn rekey_after(&mut self, own: &End, peer: &End) -> Duration {
        match own.session > peer.session {
            true => REKEY_AFTER,
            false => REKEY_SECOND_AFTER + self.spread(),
        }
    }

    /// By chance, less than [`REKEY_SPREAD`].
    fn spread(&mut self) -> Duration {
        let mut byte = [0; 1];
        (self.handshake.entropy())(&mut byte);
        REKEY_SPREAD * u32::from(byte[0]) / 256
    }
}

//! The sessions with the peer: which keys seal, which open, and when new ones are due.
//!
//! A session is what one handshake brought: a key for each direction and an index at each end, by which
//! a sealed packet finds its session. The initiator may seal in it as soon as the response has come. The
//! responder knows that the response arrived only when the first packet opens; until then it goes on in the
//! session before. So no packet is sealed that the other end cannot open, and rekeying loses none.
//!
//! Both ends may initiate at once: then there are two sessions, each end perhaps sending in another one, and
//! both are good. A packet of a former life of the peer, which comes late, makes this end send in no session
//! of that life. A session that was replaced is kept as long as the peer still sends in it, which its last
//! packet shows, however long ago it came, and five seconds more, for what is under way; three minutes after
//! its handshake any session ends. So a recording
//! can be opened by nobody, the two ends included, after that time.
//!
//! When a handshake begins, and when a session ends: [`due`].

mod agreed;
mod due;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use zeroize::Zeroizing;

use super::handshake::{Handshake, HandshakeTransmit, Refused, Sender};
use super::index::{HubSlot, fresh_index};
use super::mac::AddressCodes;
use super::opener::Opener;
use super::packet::{Route, SealedHeader};
use super::reception::{Caller, InitiationTag, Moment};
use super::sealer::ControlSealer;
use super::wire::End;
use super::{Cipher, CryptoConfig, DataSealer, Entropy, OpenError, Opened, PublicKey, WallClock};
use crate::control::Protection;
use crate::path::{MAX_PATHS, PathId, PathSet};
use crate::time::{Time, earliest};
pub use due::{OLD_KEYS_KEPT, REJECT_AFTER, REKEY_AFTER};

/// Sessions at once: the one to send in, one not confirmed, two that were replaced.
const MAX_SESSIONS: usize = 4;
/// This long without a packet of the peer, though it should send some, and a new handshake begins, until
/// [`Sessions::set_calm`] says how long: three keepalives as they are where none is configured.
const SILENCE: Duration = Duration::from_millis(600);
/// Most events waiting to be taken.
const MAX_EVENTS_QUEUED: usize = 16;

/// A peer whose key another host uses as well takes turns with that one: each change keeps the next away for this long.
const CHANGE_PAUSE: Duration = Duration::from_secs(5);

/// What the line out is to seal with.
pub enum KeyChange {
    /// With these keys from now on.
    Use(Box<DataSealer>),
    /// With none: the session has ended and there is no other. Nothing may be sent.
    Stop,
}

/// What handshakes may cost while the tunnel carries nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calm {
    /// The path on which the next session is asked for first; all if none is named.
    pub path: PathSet,
    /// An answer takes this long on it.
    pub patience: Duration,
    /// All paths that could be used are metered.
    pub metered: bool,
}

/// Something that the caller is to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionEvent {
    /// There is a new session to send in. The end that initiated it must send something at once,
    /// so that the other may use it too.
    Established {
        /// The session.
        session: u64,
        /// What seals in it.
        cipher: Cipher,
        /// This end began it.
        initiated: bool,
        /// The peer's session: another one than before when the peer has begun anew.
        peer_session: u64,
        /// The number that the peer's next data packet had when it agreed.
        peer_next_number: u64,
    },
    /// The last session has ended.
    Ended,
}

/// All that is agreed, and being agreed, with the peer.
pub struct Sessions {
    handshake: Handshake,
    /// In a hub.
    slot: Option<HubSlot>,
    /// When the peer was another one than before.
    changed: Option<Time>,
    silence: Duration,
    own_session: u64,
    hardware_aes: bool,
    paths: PathSet,
    /// The number of the next data packet, or a little less.
    next_number: u64,
    /// By path.
    next_control: [u64; MAX_PATHS],
    /// At most one of them is not confirmed.
    sessions: [Option<Box<Session>>; MAX_SESSIONS],
    /// The number of the session to send in.
    sending: Option<u64>,
    /// How many sessions there were.
    established: u64,
    last_heard: Time,
    /// From when on the peer should have sent something.
    owed_since: Option<Time>,
    /// Since when no path is answered, though answers had time.
    unanswered_since: Option<Time>,
    calm: Option<Calm>,
    /// Initiations since the last session.
    attempts: u32,
    /// No handshake may begin before.
    next_initiation: Time,
    /// All sessions were ended, and the handshake that is to bring the next is under way.
    is_renewing: bool,
    codes: AddressCodes,
    key_change: Option<KeyChange>,
    events: VecDeque<SessionEvent>,
}

struct Session {
    number: u64,
    own: End,
    peer: End,
    initiated: bool,
    cipher: Cipher,
    created: Time,
    /// Since when the peer might have confirmed it, or those not confirmed in whose place it is.
    hoped_since: Time,
    rekey_at: Time,
    opener: Opener,
    control: ControlSealer,
    /// Until it is handed to the line out.
    data: Option<Box<DataSealer>>,
    /// The peer has the keys.
    confirmed: bool,
    /// Since when another one is sent in.
    replaced: Option<Time>,
    /// When its last packet came, or when it was made.
    last_heard: Time,
    /// A packet of the peer has opened in it.
    was_used: bool,
}

impl Sessions {
    /// No session yet. `since_1970` is the wall clock `now`, from which it goes on evenly unless
    /// [`Sessions::set_wall_clock`] gives one that can be asked. `entropy` fills a slice with random bytes that nobody
    /// can foresee.
    #[must_use]
    pub fn new(
        config: CryptoConfig,
        now: Time,
        since_1970: Duration,
        mut entropy: Entropy,
    ) -> Sessions {
        let even = Box::new(move |at: Time| since_1970 + at.since(now));
        let mut secret = Zeroizing::new([0; 32]);
        entropy(secret.as_mut());
        Sessions {
            codes: AddressCodes::new(secret),
            slot: None,
            changed: None,
            silence: SILENCE,
            own_session: config.session,
            hardware_aes: config.hardware_aes,
            handshake: Handshake::new(config, now, even, entropy),
            paths: PathSet::EMPTY,
            next_number: 0,
            next_control: [0; MAX_PATHS],
            sessions: Default::default(),
            sending: None,
            established: 0,
            last_heard: now,
            owed_since: Some(now),
            unanswered_since: None,
            calm: None,
            attempts: 0,
            next_initiation: now,
            is_renewing: false,
            key_change: None,
            events: VecDeque::new(),
        }
    }

    /// They are those of a hub with one of its peers, whose initiations up to this moment are old.
    pub fn serve(&mut self, slot: HubSlot, until: Moment) {
        self.slot = Some(slot);
        self.handshake.forget_until(until);
    }

    /// Asks this wall clock for each handshake: one that is set right while the tunnel runs counts.
    pub fn set_wall_clock(&mut self, wall: WallClock) {
        self.handshake.set_wall_clock(wall);
    }

    /// Says over which paths initiations may go: those whose peer's address is known and that are
    /// not out of service. Call [`Sessions::handle_timeout`] afterwards.
    pub fn set_paths(&mut self, paths: PathSet) {
        self.paths = paths;
    }

    /// Says from when on the peer should have sent something, after how long without a packet of it a new
    /// handshake begins then, and, while the tunnel carries nothing, how handshakes go.
    pub fn set_calm(&mut self, owed_since: Option<Time>, silence: Duration, calm: Option<Calm>) {
        self.owed_since = owed_since;
        self.silence = silence;
        self.calm = calm;
    }

    /// Says since when no path is answered, though answers had time; `None` while one is. What comes of the peer then may be
    /// what somebody held back.
    pub fn set_unanswered(&mut self, since: Option<Time>) {
        self.unanswered_since = since;
    }

    /// The tunnel carries something again: an initiation that waits need not. Call
    /// [`Sessions::handle_timeout`] afterwards.
    pub fn hurry(&mut self, now: Time) {
        self.attempts = 0;
        if self.handshake.is_calm() {
            self.handshake.abandon();
            self.next_initiation = now;
        }
    }

    /// Says which number the next data packet has; it may have grown when it is used. Call this
    /// before the other functions, when it has changed.
    pub fn set_next_number(&mut self, number: u64) {
        self.next_number = number;
    }

    /// Takes a control message of kinds 3 to 5 that is not sealed, without its GRE header. Afterwards
    /// poll everything.
    ///
    /// # Errors
    /// Why nothing came of it; count it.
    pub fn handle_message(
        &mut self,
        now: Time,
        sender: Sender,
        message: &[u8],
    ) -> Result<(), Refused> {
        let own = self.next_end();
        match self.handshake.handle_message(now, sender, message, own) {
            Ok(None) => Ok(()),
            Ok(Some(agreed)) => {
                self.add(now, agreed);
                Ok(())
            }
            Err(why) => Err(why),
        }
    }

    /// Takes a caller whom a hub's [`super::Reception`] has heard, and who is the peer. Afterwards poll everything.
    ///
    /// # Errors
    /// Why nothing came of it; count it.
    pub fn accept(&mut self, now: Time, sender: Sender, caller: Caller) -> Result<(), Refused> {
        let calls_from = caller.offer.map(|offer| offer.end.session);
        let is_another =
            |sending: &Session| calls_from.is_some_and(|session| session != sending.peer.session);
        if self.sending().is_some_and(is_another)
            && self.changed.is_some_and(|at| now < at + CHANGE_PAUSE)
        {
            return Err(Refused::RateLimited);
        }
        let own = self.next_end();
        let agreed = self.handshake.accept(now, sender, caller, own)?;
        self.add(now, agreed);
        Ok(())
    }

    /// Answers a copy of the last initiation that was answered, if this is one.
    pub fn answer_again(
        &mut self,
        now: Time,
        sender: Sender,
        tag: InitiationTag,
    ) -> Option<Result<(), Refused>> {
        self.handshake.answer_again(now, sender, tag)
    }

    /// Whether there is no session, to send in or not, and none to come in place of those that
    /// [`Sessions::end_all`] has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        !self.is_renewing && self.sessions.iter().all(Option::is_none)
    }

    /// Opens a sealed packet in place. Afterwards poll everything: it may have confirmed a
    /// session.
    ///
    /// # Errors
    /// Why the packet is to be dropped; count it.
    #[inline]
    pub fn open(&mut self, now: Time, datagram: &mut [u8]) -> Result<Opened, OpenError> {
        self.open_with_tos(now, 0, datagram)
    }

    /// The same of a packet whose outer header has this TOS byte.
    ///
    /// # Errors
    /// As of [`Sessions::open`], and [`OpenError::Marked`].
    #[inline]
    pub fn open_with_tos(
        &mut self,
        now: Time,
        tos: u8,
        datagram: &mut [u8],
    ) -> Result<Opened, OpenError> {
        let header = SealedHeader::parse(datagram).ok_or(OpenError::Malformed)?;
        let session = self
            .sessions
            .iter_mut()
            .flatten()
            .find(|session| session.own.index == header.index)
            .filter(|session| now < session.created + REJECT_AFTER)
            .ok_or(OpenError::UnknownSession)?;
        let opened = session.opener.open(header, tos, datagram)?;
        // Anybody can repeat a packet: it shows neither that the peer lives nor that it has keys.
        if matches!(opened, Opened::Copy { .. }) {
            return Ok(opened);
        }
        session.last_heard = now;
        session.was_used = true;
        self.last_heard = now;
        if !session.confirmed {
            let number = session.number;
            self.confirm(now, number);
        }
        Ok(opened)
    }

    /// Seals a control message for the peer into `out`, GRE header included: one for `path`, which the
    /// peer calls `peer_path`, as far as is known. Returns the length; `None` when there is no session or
    /// no room.
    pub fn seal_control(
        &mut self,
        path: PathId,
        peer_path: Option<u8>,
        message: &[u8],
        out: &mut [u8],
    ) -> Option<usize> {
        let number = self.next_control[path.index()];
        let route = Route {
            from: path.index() as u8,
            to: peer_path,
        };
        let len = self.sending()?.control.seal(route, number, message, out)?;
        self.next_control[path.index()] += 1;
        Some(len)
    }

    /// What somebody at this address has to send back over this path, to show that he hears what is
    /// sent there: nobody else can know it. It changes every [`super::CODE_LIFETIME`]. Never 0. `way`: the path, and
    /// this end's socket.
    #[must_use]
    pub fn code(&self, now: Time, way: [PathId; 2], address: SocketAddr) -> u64 {
        self.codes.code(now, way, address)
    }

    /// Whether this is what he has to send back, or was until a moment ago.
    #[must_use]
    pub fn is_code(&self, now: Time, way: [PathId; 2], address: SocketAddr, code: u64) -> bool {
        self.codes.is_code(now, way, address, code)
    }

    /// The next handshake message to be sent.
    pub fn poll_transmit(&mut self) -> Option<HandshakeTransmit<'_>> {
        self.handshake.poll_transmit()
    }

    /// What the line out is to seal with, when that has changed.
    pub fn poll_keys(&mut self) -> Option<KeyChange> {
        self.key_change.take()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<SessionEvent> {
        self.events.pop_front()
    }

    /// When [`Sessions::handle_timeout`] is to be called at the latest.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let ends = self.sessions.iter().flatten().map(|held| self.ends(held));
        let deadline = self.handshake.deadline();
        earliest(ends.min(), deadline.or_else(|| self.next_due()))
    }

    /// Does what is due: ends sessions, begins handshakes, sends initiations again.
    pub fn handle_timeout(&mut self, now: Time) {
        for slot in 0..MAX_SESSIONS {
            let session = self.sessions[slot].as_ref();
            if session.is_some_and(|session| self.ends(session) <= now) {
                self.sessions[slot] = None;
            }
        }
        if self.sending.is_some() && self.sending().is_none() {
            self.sending = None;
            self.key_change = Some(KeyChange::Stop);
            self.event(SessionEvent::Ended);
        }
        let past_its_time = self.handshake.handle_timeout(now, self.paths);
        if past_its_time {
            self.handshake.abandon();
            self.is_renewing = false;
        }
        if !self.handshake.is_pending() && self.next_due().is_some_and(|due| due <= now) {
            self.initiate(now);
        }
    }

    /// The host has slept, and `now` does not count that: no key is to outlive its time by it. All sessions end,
    /// and a handshake begins.
    pub fn end_all(&mut self, now: Time) {
        self.sessions = Default::default();
        self.handshake.abandon();
        self.attempts = 0;
        self.next_initiation = now;
        self.handle_timeout(now);
        self.is_renewing = self.handshake.is_pending();
    }

    /// Whether there is a session to send in.
    #[must_use]
    pub fn has_keys(&self) -> bool {
        self.sending().is_some()
    }

    /// What `mpt-ctl status` is to show.
    #[must_use]
    pub fn protection(&self) -> Protection {
        self.sending()
            .map_or(Protection::Waiting, |session| session.cipher.protection())
    }

    /// This end's public key.
    #[must_use]
    pub fn public_key(&self) -> PublicKey {
        self.handshake.public_key()
    }

    /// The public key of the last caller whose initiation opened and who is not the peer.
    #[must_use]
    pub fn stranger(&self) -> Option<PublicKey> {
        self.handshake.stranger()
    }

    /// What this end says of itself in a new session.
    fn next_end(&self) -> impl FnOnce(&mut Entropy) -> End + use<> {
        let (taken, slot, known) = (self.indices(), self.slot, self.own_end());
        move |entropy| End {
            index: fresh_index(entropy, slot, &taken),
            ..known
        }
    }

    /// What this end says of itself, but for the index.
    fn own_end(&self) -> End {
        End {
            index: 0,
            next_number: self.next_number,
            session: self.own_session,
            hardware_aes: self.hardware_aes,
        }
    }

    fn event(&mut self, event: SessionEvent) {
        if self.events.len() < MAX_EVENTS_QUEUED {
            self.events.push_back(event);
        }
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

//! The edges of a sealed tunnel: trains are sealed before they leave, datagrams opened when they have
//! come, and nothing in between knows.
//!
//! The line out lays datagrams out for sealing and seals a train as a whole when it is complete,
//! with the keys that the line in has handed over by then. The line in keeps the sessions. What
//! arrives is a handshake message, or opens, or is dropped before it has changed anything, whoever sent
//! it: an address proves nothing. What opened goes the way of every packet.
//!
//! A control message counts on the path that it was made for, and only one of kind 1 can move the peer's
//! address, when who is there has answered: see [`crate::path::Place`].
//!
//! An opened packet is the peer's, so there is less to doubt than in a plain tunnel. Its number is
//! believed however far ahead it is. And the peer's session comes with the handshake: a peer that
//! began anew is known before its first packet, and what is late from its former life is dropped by the
//! session in which it was sealed.

use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use super::Shared;
use super::outbox::ControlDatagram;
use crate::bucket::Allowance;
use crate::control::Protection;
use crate::control::drops::DropReason;
use crate::crypto::{Calm, DataSealer, KeyChange, PublicKey, Sessions, restore};
use crate::path::{DownReason, MAX_PATHS, PathConfig, PathId, PathSet, PathState};
use crate::send::train::Train;
use crate::seq::Seq;
use crate::time::Time;

/// What the line out needs of a sealed tunnel.
#[derive(Default)]
pub(super) struct Sealing {
    sealer: Option<Box<DataSealer>>,
    /// The number of the next packet, 64 bits of it.
    next: u64,
}

impl Sealing {
    pub(super) fn set_keys(&mut self, change: KeyChange) {
        self.sealer = match change {
            KeyChange::Use(sealer) => Some(sealer),
            KeyChange::Stop => None,
        };
    }

    /// Seals a train that is complete. `next_seq` is the next sequence number to be given out.
    pub(super) fn seal(&mut self, next_seq: Seq, train: &mut Train) -> Result<(), DropReason> {
        self.next = restore(next_seq.value(), self.next);
        let sealer = self.sealer.as_mut().ok_or(DropReason::NoKeys)?;
        let segment_size = train.segment_size;
        let sealed = sealer.seal_train(self.next, segment_size, train.bytes_mut());
        sealed.map_err(|_| DropReason::NoKeys)
    }
}

/// A datagram that has arrived, and where it stands.
pub(super) struct Arrival {
    pub(super) path: PathId,
    /// The socket that it came by: the path's own, but in a hub any of the hub's.
    pub(super) socket: PathId,
    pub(super) from: SocketAddr,
    pub(super) tos: u8,
    pub(super) buffer: u32,
    pub(super) place: Range<usize>,
}

/// In a hub, by the socket that is called: what is configured of the paths that come into being.
pub(crate) type CalledPaths = [Option<PathConfig>; MAX_PATHS];

/// In a hub, control messages that are opened of a peer. One is earned in 200 us, and what a path has held back may come at
/// once: 1,024. A peer that keeps the protocol sends no more than 4,500 a second: 1,025 reports (1 ms apart, and one in
/// 40 ms more), 250 edges (4 ms apart), and over 16 paths with the least keepalive, 10 ms, 1,600 probes and as many answers.
type ControlAllowance = Allowance<200, 1024>;

/// What the line in needs of a sealed tunnel.
pub(super) struct Opening {
    pub(super) sessions: Sessions,
    /// In a hub.
    pub(super) called: Option<Box<CalledPaths>>,
    /// Control messages that may still be opened. What somebody else has made of the peer's name does not open, and spends none.
    pub(super) control: ControlAllowance,
    /// The number of the line out's next data packet, or a little less.
    next_number: u64,
    /// Paths whose peer is elsewhere, and the line out does not know.
    pub(super) moved: PathSet,
    /// Paths on which who answered the last handshake from elsewhere was asked: see [`super::Inbound::ask_who_answered`].
    pub(super) asked: PathSet,
    /// The last initiation once more, to where the path's peer may be as well: see [`crate::path::Path::elsewhere`].
    pub(super) elsewhere: Option<(PathId, (PathId, SocketAddr), ControlDatagram)>,
}

impl Opening {
    pub(super) fn new(sessions: Sessions) -> Opening {
        Opening {
            sessions,
            called: None,
            control: ControlAllowance::default(),
            next_number: 0,
            moved: PathSet::EMPTY,
            asked: PathSet::EMPTY,
            elsewhere: None,
        }
    }

    /// Lets the sessions know how far the line out has come.
    pub(super) fn catch_up(&mut self, shared: &Shared) {
        let next_seq = shared.numbers.next();
        self.next_number = restore(next_seq, self.next_number);
        self.sessions.set_next_number(self.next_number);
    }

    /// Whether anything can be sealed.
    pub(super) fn has_keys(&self) -> bool {
        self.sessions.has_keys()
    }

    pub(super) fn protection(&self) -> Protection {
        self.sessions.protection()
    }

    /// This end's, and that of somebody who called with another one than the peer's.
    pub(super) fn public_keys(&self) -> (PublicKey, Option<PublicKey>) {
        (self.sessions.public_key(), self.sessions.stranger())
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.sessions.poll_timeout()
    }

    /// See [`Sessions::set_calm`].
    pub(super) fn set_calm(
        &mut self,
        owed_since: Option<Time>,
        silence: Duration,
        calm: Option<Calm>,
    ) {
        self.sessions.set_calm(owed_since, silence, calm);
    }

    /// See [`Sessions::set_unanswered`].
    pub(super) fn set_unanswered(&mut self, since: Option<Time>) {
        self.sessions.set_unanswered(since);
    }

    /// See [`Sessions::end_all`].
    pub(super) fn end_sessions(&mut self, now: Time) {
        self.sessions.end_all(now);
    }

    /// See [`Sessions::hurry`].
    pub(super) fn hurry(&mut self, now: Time) {
        self.sessions.hurry(now);
    }

    /// Says over which paths handshakes may go.
    pub(super) fn set_paths(&mut self, paths: PathSet) {
        self.sessions.set_paths(paths);
    }
}

/// Whether a handshake may go over a path in this state: one that is down may be so for want of keys.
pub(super) fn may_carry_handshakes(state: PathState, reason: Option<DownReason>) -> bool {
    match state {
        PathState::Up | PathState::Probing => true,
        PathState::Down => reason != Some(DownReason::LinkDown),
        PathState::AdminDown | PathState::Waiting => false,
    }
}

//! What an operator may want to know.

use std::collections::VecDeque;
use std::net::SocketAddr;

use crate::control::Protection;
use crate::path::{DownReason, PathId, PathState};

/// Most events waiting to be taken.
const MAX_QUEUED: usize = 64;

/// Something that an operator may want to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A path changed its state.
    Path {
        /// The path.
        path: PathId,
        /// Its new state.
        state: PathState,
        /// Why, when it is down.
        reason: Option<DownReason>,
    },
    /// The peer's session has proved itself; `restarted` when there was another one before.
    PeerSession {
        /// The session.
        session: u64,
        /// Whether the peer was known under another session before.
        restarted: bool,
    },
    /// The peer has stopped probing but still sends: it is treated as one that never did.
    PeerStoppedProbing,
    /// A sealed tunnel has other keys, or none.
    Keys {
        /// What is sealed with them.
        protection: Protection,
    },
    /// The peer of a path is elsewhere now.
    PeerAddress {
        /// The path.
        path: PathId,
        /// Where it is.
        address: SocketAddr,
    },
    /// Nothing is answered on a path for long, or too few probes are, and nothing says why: it may work from another port, with
    /// [`super::Inbound::open_path`] for the new socket; or from the one before, if this was said a little before.
    NotAnswered {
        /// The path.
        path: PathId,
        /// Some probes are: somebody lets next to nothing of this flow through, and the port should be a new one.
        is_faint: bool,
    },
    /// The same in a plain tunnel, whose ports are fixed: the path rests now and then.
    PathRests {
        /// The path.
        path: PathId,
    },
    /// No path works, and why has been found out, or has changed: see [`super::Inbound::handshake`].
    NoHandshake,
    /// A path carries less, or more, than was assumed.
    PathMtu {
        /// The path.
        path: PathId,
        /// Largest inner packet now, in bytes.
        mtu: u16,
        /// It is less than before.
        lowered: bool,
    },
}

/// Events that wait to be taken; when there are too many, those that come are not told.
#[derive(Debug, Default)]
pub(super) struct Events(VecDeque<Event>);

impl Events {
    pub(super) fn push(&mut self, event: Event) {
        if self.0.len() < MAX_QUEUED {
            self.0.push_back(event);
        }
    }

    pub(super) fn pop(&mut self) -> Option<Event> {
        self.0.pop_front()
    }
}

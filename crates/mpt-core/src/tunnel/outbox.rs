//! Control messages that wait to be sent.

use std::collections::VecDeque;
use std::net::SocketAddr;

use crate::crypto::CONTROL_OVERHEAD;
use crate::path::PathId;
use crate::wire::gre::{Header, Protocol};
use crate::wire::name::LONGEST_NAME;
use crate::wire::probe::{MESSAGE_BYTES, PROOF_BYTES};
use crate::wire::report::MAX_REPORT_BYTES;

/// Most control messages waiting to be sent.
const MAX_QUEUED: usize = 64;

/// A control message as a datagram, before it is sealed.
#[derive(Clone, Copy)]
pub(super) struct ControlDatagram {
    pub(super) bytes: [u8; CONTROL_OVERHEAD + LONGEST_CONTROL],
    pub(super) len: usize,
    /// The message is to be followed by zeros up to this length, in bytes.
    pub(super) padded_to: usize,
    /// By which socket and where to; `None` for where the path's peer is.
    pub(super) to: Option<(PathId, SocketAddr)>,
    /// What the peer calls the path, if that is known and the path works.
    pub(super) peer_path: Option<u8>,
    /// It is [`crate::wire::kind::LONE_BYTE`], and goes as it is.
    pub(super) is_lone: bool,
}

const LONGEST_MESSAGE: usize = MESSAGE_BYTES + PROOF_BYTES + LONGEST_NAME;
const LONGEST_CONTROL: usize = if MAX_REPORT_BYTES > LONGEST_MESSAGE {
    MAX_REPORT_BYTES
} else {
    LONGEST_MESSAGE
};

impl ControlDatagram {
    pub(super) fn new(len: usize) -> ControlDatagram {
        ControlDatagram {
            bytes: [0; CONTROL_OVERHEAD + LONGEST_CONTROL],
            len,
            padded_to: 0,
            to: None,
            peer_path: None,
            is_lone: false,
        }
    }
}

/// The messages, each for a path.
#[derive(Default)]
pub(super) struct Outbox {
    waiting: VecDeque<(PathId, ControlDatagram)>,
    /// What the caller is sending.
    leaving: Option<ControlDatagram>,
}

impl Outbox {
    /// How many more may wait.
    pub(super) fn room(&self) -> usize {
        MAX_QUEUED - self.waiting.len()
    }

    /// Leaves a message to be sent, for which there is room.
    pub(super) fn push(&mut self, path: PathId, message: ControlDatagram) {
        debug_assert!(self.room() > 0, "who leaves a message asks for room");
        self.waiting.push_back((path, message));
    }

    /// Gives memory back that no message takes.
    pub(super) fn rest(&mut self) {
        self.waiting.shrink_to_fit();
    }

    /// The next one.
    pub(super) fn pop(&mut self) -> Option<(PathId, ControlDatagram)> {
        self.waiting.pop_front()
    }

    /// Keeps a datagram until the caller has sent it.
    pub(super) fn leave(&mut self, datagram: ControlDatagram) -> &[u8] {
        let datagram = self.leaving.insert(datagram);
        &datagram.bytes[..datagram.len]
    }
}

/// The header of a control message, which is not sealed.
pub(super) fn control_header(key: Option<u32>) -> Header {
    Header {
        key,
        sequence: None,
        protocol: Protocol::Control,
    }
}

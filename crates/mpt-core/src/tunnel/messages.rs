//! Control messages: what each kind is given to, and how one is left to be sent.

use std::ops::Range;

use super::inbound::{ControlDatagram, Inbound};
use super::probing::control_header;
use crate::control::drops::DropReason;
use crate::path::{PathId, PathState};
use crate::time::Time;
use crate::wire::control::Control;

impl Inbound {
    /// Takes a control message of the path's peer, which stands at `place` in the buffer. Returns whether it
    /// is one.
    pub(super) fn handle_control(
        &mut self,
        now: Time,
        path: PathId,
        buffer: u32,
        place: Range<usize>,
    ) -> bool {
        let message = &self.pool.bytes_mut(buffer)[place];
        match Control::parse(message) {
            Ok(Control::Probe(message)) => self.handle_message(now, path, &message),
            Ok(Control::Report(report)) => self.handle_report(now, path, report),
            Ok(Control::Edges(edges)) => self.handle_edges(now, &edges),
            Err(_) => {
                self.drops.count(DropReason::BadControl, 1);
                return false;
            }
        }
        true
    }

    /// Leaves a control message of `len` bytes, which `emit` writes, to be sent on the path. There has
    /// to be room for it.
    pub(super) fn queue_control(
        &mut self,
        path: PathId,
        len: usize,
        emit: impl FnOnce(&mut [u8]) -> usize,
    ) {
        let header = control_header(self.key);
        let mut datagram = ControlDatagram::new(header.buffer_len() + len);
        let start = header.emit(&mut datagram.bytes);
        emit(&mut datagram.bytes[start..]);
        let sent_len = self.control_len(len);
        self.shared.count_sent(path, 1, sent_len as u64);
        datagram.peer_path = self.paths[path.index()]
            .as_ref()
            .filter(|path| path.state == PathState::Up)
            .and_then(|path| path.place.peer_path());
        self.messages.push_back((path, datagram));
    }
}

//! Why the two ends do not come to speak: what the line in sees of it.

use std::net::SocketAddr;
use std::ops::Range;

use super::Inbound;
use crate::control::Handshake;
use crate::crypto::Refused;
use crate::path::{PathId, PathSet};
use crate::time::Time;
use crate::tunnel::diagnosis::Situation;
use crate::tunnel::event::Event;
use crate::tunnel::sealing::{Arrival, Opening};
use crate::wire::kind::Kind;

impl Inbound {
    /// Whether the two ends have come to speak, and if not, why.
    #[must_use]
    pub fn handshake(&self) -> Option<Handshake> {
        self.diagnosis
            .report(self.opening.as_ref().map(Opening::public_keys))
    }

    /// Whether what came from there may be taken for a sign of the peer.
    fn may_be_of_peer(&self, id: PathId, from: SocketAddr) -> bool {
        let path = self.paths[id.index()].as_ref();
        path.is_some_and(|path| {
            let home = path.config.remote;
            home.is_none_or(|home| home.ip() == from.ip())
        })
    }

    /// What became of a handshake message.
    pub(super) fn note_handshake(
        &mut self,
        now: Time,
        arrival: &Arrival,
        kind: Kind,
        outcome: Result<(), Refused>,
    ) {
        if self.may_be_of_peer(arrival.path, arrival.from) {
            self.diagnosis.note_handshake(now, kind, outcome);
        }
    }

    /// A datagram of a sealed tunnel that is not sealed.
    pub(super) fn note_unsealed(&mut self, now: Time, arrival: &Arrival) {
        if self.may_be_of_peer(arrival.path, arrival.from) {
            let datagram = &self.window.buffer_mut(arrival.buffer)[arrival.place.clone()];
            self.diagnosis.note_unsealed(now, datagram);
        }
    }

    /// A datagram of a plain tunnel that is no packet of it, wherever it came from.
    pub(super) fn note_strange(
        &mut self,
        now: Time,
        id: PathId,
        from: SocketAddr,
        buffer: u32,
        place: Range<usize>,
    ) {
        if self.may_be_of_peer(id, from) {
            let datagram = &self.window.buffer_mut(buffer)[place];
            self.diagnosis.note_strange(now, datagram);
        }
    }

    /// Works out what keeps the two ends apart, if anything does. Handshakes may go over `reachable`.
    pub(super) fn diagnose(&mut self, now: Time, reachable: PathSet) {
        let asks = self.opening.is_some() && !reachable.is_empty();
        let situation = Situation::of(now, &self.paths, asks);
        if self.diagnosis.consider(now, situation) {
            self.events.push(Event::NoHandshake);
        }
    }
}

//! What arrives in a sealed tunnel: a handshake message, or what opens, or nothing that changes anything.

use std::net::SocketAddr;
use std::ops::Range;

use super::{Inbound, is_same_peer};
use crate::control::Protection;
use crate::control::drops::DropReason;
use crate::crypto::{
    CONTROL_OVERHEAD, DATA_OVERHEAD, OpenError, Opened, Refused, Sender, SessionEvent,
    claimed_route,
};
use crate::path::{Path, PathId, PathSet, PathState};
use crate::receive::buffer::Stored;
use crate::seq::Seq;
use crate::time::Time;
use crate::tunnel::event::Event;
use crate::tunnel::look::look_into;
use crate::tunnel::outbox::{ControlDatagram, control_header};
use crate::tunnel::sealing::{Arrival, Opening};
use crate::tunnel::{News, Transmit};
use crate::wire::gre::Protocol;
use crate::wire::ip::Version;
use crate::wire::kind::{HANDSHAKE_GRE, Kind};
use crate::wire::name::LONGEST_NAME;
use crate::wire::probe::{MESSAGE_BYTES, PROOF_BYTES, Proof};

impl Inbound {
    /// The host has slept: time has passed that `now` does not count. Keys may be older than they seem, so the
    /// sessions of a sealed tunnel end, and a handshake begins. Afterwards poll everything.
    pub fn handle_resume(&mut self, now: Time) {
        let Some(opening) = &mut self.opening else {
            return;
        };
        opening.catch_up(&self.shared);
        opening.end_sessions(now);
        self.follow_sessions(now);
        self.handle_timeout(now);
    }

    /// Takes one datagram of a sealed tunnel, whoever sent it.
    pub(super) fn handle_sealed(&mut self, now: Time, mut arrival: Arrival) {
        let datagram = self.window.part(arrival.buffer, arrival.place.clone());
        let id = self.path_of(&arrival, datagram);
        arrival.path = id;
        if let Some(route) = claimed_route(datagram)
            && !self.may_be_for(now, id, route, arrival.from)
        {
            return self.drops.count(DropReason::OtherPath, 1);
        }
        let is_called = self.is_called();
        let (Some(opening), path) = (&mut self.opening, &mut self.paths[id.index()]) else {
            return;
        };
        if path.is_none() && !is_called {
            return;
        }
        let datagram = &mut self.window.buffer_mut(arrival.buffer)[arrival.place.clone()];
        let message = datagram.strip_prefix(&HANDSHAKE_GRE);
        if let Some(message) = message
            && let Ok(kind) = Kind::of(message)
            && kind.is_handshake()
        {
            opening.catch_up(&self.shared);
            let sender = Sender {
                path: id,
                address: arrival.from,
                known: path
                    .as_ref()
                    .and_then(|path| path.peer)
                    .is_some_and(|peer| is_same_peer(peer, arrival.from)),
            };
            let outcome = opening.sessions.handle_message(now, sender, message);
            match outcome {
                Ok(()) => {
                    if let Some(path) = path {
                        path.count_control(arrival.from, arrival.place.len());
                    }
                    self.handshakes += 1;
                }
                Err(why) => self.drops.count(drop_for_refusal(why), 1),
            }
            // A shorter one would have a longer one sent.
            if kind == Kind::Initiation
                && outcome != Err(Refused::Malformed)
                && let Some(path) = &mut self.paths[id.index()]
            {
                path.note_caller(arrival.from);
            }
            self.note_handshake(now, &arrival, kind, outcome);
            self.follow_sessions(now);
            if kind == Kind::Response && outcome.is_ok() {
                self.ask_who_answered(now, &arrival);
            }
            return;
        }
        match opening.sessions.open_with_tos(now, arrival.tos, datagram) {
            Ok(opened) => {
                if matches!(opened, Opened::Control { .. }) {
                    opening.control.spend(now);
                }
                self.meet_path(now, &arrival, &opened);
                let is_padded = self.is_padded(&arrival, &opened);
                let from_peer = self.is_from_peer(&arrival);
                let is_control = matches!(opened, Opened::Control { .. });
                let Some(path) = &mut self.paths[id.index()] else {
                    self.follow_sessions(now);
                    return self.drops.count(DropReason::OtherPath, 1);
                };
                // Who sends a padded probe does not count it: see `send_message`.
                // A control message says for which path it was made; where one from elsewhere leads is judged later.
                if !is_padded && (is_control || from_peer) {
                    path.rx_packets += 1;
                    path.rx_bytes += arrival.place.len() as u64;
                }
                if is_control {
                    path.count_control(arrival.from, arrival.place.len());
                }
                if !matches!(opened, Opened::Copy { .. }) {
                    self.activity.hear();
                    self.diagnosis.hear(now);
                }
                self.follow_sessions(now);
                self.handle_opened(now, &arrival, opened, from_peer);
            }
            Err(why) => {
                self.drops.count(drop_for(why), 1);
                if why == OpenError::Malformed {
                    self.note_unsealed(now, &arrival);
                } else if why == OpenError::Marked
                    && self.is_from_peer(&arrival)
                    && let Some(path) = &mut self.paths[id.index()]
                {
                    // It is the peer's, and came.
                    path.rx_packets += 1;
                    path.rx_bytes += arrival.place.len() as u64;
                }
            }
        }
    }

    /// Whether it is a probe with more behind it than a name.
    fn is_padded(&mut self, arrival: &Arrival, opened: &Opened) -> bool {
        let Opened::Control { message, .. } = opened else {
            return false;
        };
        let start = arrival.place.start;
        let place = start + message.start..start + message.end;
        message.len() > MESSAGE_BYTES + PROOF_BYTES + LONGEST_NAME
            && Proof::parse(&self.window.buffer_mut(arrival.buffer)[place]).is_some()
    }

    /// Takes what a datagram carried. A packet counts for the path if it came `from_peer`: from where the path's peer is known
    /// to be.
    fn handle_opened(&mut self, now: Time, arrival: &Arrival, opened: Opened, from_peer: bool) {
        let present = self.peer.session();
        let start = arrival.place.start;
        match opened {
            Opened::Data { session, .. } | Opened::Copy { session, .. }
                if Some(session) != present =>
            {
                self.drops.count(DropReason::Stale, 1);
            }
            Opened::Control { session, .. } if Some(session) != present => {
                self.drops.count(DropReason::StaleControl, 1);
            }
            Opened::Data {
                number,
                protocol,
                packet,
                ..
            } => {
                let place = start + packet.start..start + packet.end;
                let packet = (number, protocol, place);
                self.handle_opened_packet(now, arrival, packet, from_peer);
            }
            Opened::Copy {
                number: Some(number),
                ..
            } => self.note_copy(now, arrival, number, from_peer),
            Opened::Copy { number: None, .. } => self.drops.count(DropReason::Duplicate, 1),
            Opened::Control {
                message,
                route,
                number,
                ..
            } => {
                let place = start + message.start..start + message.end;
                if self.place_control(now, arrival, route, number, place.clone()) {
                    self.handle_control(now, arrival.path, arrival.buffer, place);
                }
            }
        }
    }

    /// What shows whoever is at `to` that this end hears, and asks the same of him. `answer`: what he asked
    /// for, if he is not the peer.
    pub(super) fn proof(
        &self,
        now: Time,
        id: PathId,
        (socket, to): (PathId, SocketAddr),
        answer: Option<u64>,
    ) -> Option<Proof> {
        let (opening, path) = (self.opening.as_ref()?, self.paths[id.index()].as_ref()?);
        Some(Proof {
            code: opening.sessions.code(now, [id, socket], to),
            answer: answer.unwrap_or(path.place.answer()),
        })
    }

    /// Length of a message of kind 1, in bytes.
    pub(super) fn message_len(&self) -> usize {
        match &self.opening {
            Some(_) => MESSAGE_BYTES + PROOF_BYTES,
            None => MESSAGE_BYTES,
        }
    }

    /// Takes an inner packet, which stands at `place` in the buffer.
    fn handle_opened_packet(
        &mut self,
        now: Time,
        arrival: &Arrival,
        (number, protocol, place): (Option<u64>, Protocol, Range<usize>),
        from_peer: bool,
    ) {
        let start = place.start;
        let payload = &mut self.window.buffer_mut(arrival.buffer)[place];
        let looked = match protocol {
            Protocol::Ipv4 => look_into(payload, Version::V4, arrival.tos),
            Protocol::Ipv6 => look_into(payload, Version::V6, arrival.tos),
            Protocol::Control | Protocol::Sealed => Err(DropReason::BadInner),
        };
        match looked {
            Ok(len) => {
                if from_peer {
                    self.hear_data(now, arrival.path);
                } else {
                    self.touch(now);
                }
                let sequence = number.map(|number| Seq::new(number as u32));
                let packet = Stored {
                    buffer: arrival.buffer,
                    start: start as u16,
                    len: len as u16,
                    number: sequence.map(|seq| self.order.number(seq)),
                    behind: None,
                };
                let len = arrival.place.len();
                self.handle_packet(now, arrival.path, sequence, packet, len, from_peer);
            }
            Err(why) => self.drops.count(why, 1),
        }
    }

    /// A packet came again: that tells of this path as much as another packet would.
    fn note_copy(&mut self, now: Time, arrival: &Arrival, number: u64, from_peer: bool) {
        let (path, seq) = (arrival.path, Seq::new(number as u32));
        self.drops.count(DropReason::Duplicate, 1);
        let counts_for = from_peer.then_some(path);
        if self.window.note_copy(now, counts_for, seq) {
            let number = self.order.number(seq);
            let len = arrival.place.len().saturating_sub(DATA_OVERHEAD) as u16;
            self.order.arrive(now, path, number, len);
            if from_peer {
                let missing = self.window.reorder().counters().gaps_seen;
                self.report_arrival(now, path, seq, arrival.place.len(), true, missing);
            }
        }
    }

    /// Does what the sessions have due.
    pub(super) fn handle_session_timeout(&mut self, now: Time) {
        let Some(opening) = &mut self.opening else {
            return;
        };
        if opening.poll_timeout().is_some_and(|at| at <= now) {
            opening.catch_up(&self.shared);
            opening.sessions.handle_timeout(now);
            self.follow_sessions(now);
        }
    }

    /// Follows what the sessions have come to.
    pub(super) fn follow_sessions(&mut self, now: Time) {
        while let Some(event) = self
            .opening
            .as_mut()
            .and_then(|opening| opening.sessions.poll_event())
        {
            match event {
                SessionEvent::Established {
                    cipher,
                    initiated,
                    peer_session,
                    peer_next_number,
                    ..
                } => {
                    if self.peer.session() != Some(peer_session) {
                        let next_seq = Seq::new(peer_next_number as u32);
                        self.begin_session(now, peer_session, next_seq);
                    }
                    if let Some(opening) = &mut self.opening {
                        opening.asked = PathSet::EMPTY;
                    }
                    self.events.push(Event::Keys {
                        protection: cipher.protection(),
                    });
                    self.probe_after_handshake(now, initiated);
                }
                SessionEvent::Ended => self.events.push(Event::Keys {
                    protection: Protection::Waiting,
                }),
            }
            self.unsettled = true;
        }
    }

    /// The peer may use a session that this end began when it has something that opens in it. While the
    /// tunnel is idle one probe does.
    fn probe_after_handshake(&mut self, now: Time, initiated: bool) {
        let only = self.activity.is_idle().then(|| self.quickest_path());
        for (index, path) in self.paths.iter_mut().enumerate() {
            let is_chosen = match only {
                None | Some(None) => true,
                Some(Some(only)) => initiated && only.index() == index,
            };
            if let Some(path) = path
                && is_chosen
            {
                path.next_probe = now;
            }
        }
    }

    /// The next change of keys or of a peer's address.
    pub(super) fn poll_change(&mut self) -> Option<News> {
        let opening = self.opening.as_mut()?;
        while let Some(id) = opening.moved.iter().next() {
            opening.moved.remove(id);
            if let Some(path) = &self.paths[id.index()]
                && let Some(peer) = path.peer
            {
                return Some(News::Peer(id, path.socket(id), peer));
            }
        }
        opening.sessions.poll_keys().map(News::Keys)
    }

    /// Whether a control message could be sent.
    pub(super) fn may_speak(&self) -> bool {
        self.opening.as_ref().is_none_or(Opening::has_keys)
    }

    /// Length of the datagram that a control message of `len` bytes travels in.
    pub(super) fn control_len(&self, len: usize) -> usize {
        match &self.opening {
            Some(_) => CONTROL_OVERHEAD + len,
            None => control_header(self.key).buffer_len() + len,
        }
    }

    /// The next handshake message, or control message, sealed.
    pub(super) fn poll_sealed_transmit(&mut self) -> Option<Transmit<'_>> {
        let opening = self.opening.as_mut()?;
        let mut next = opening.elsewhere.take();
        // In a hub an answer names the socket that was called.
        let mut names_socket = false;
        while next.is_none()
            && let Some(message) = opening.sessions.poll_transmit()
        {
            let known = self.paths[message.path.index()].as_mut();
            let there =
                (known.as_ref()).and_then(|known| Some((known.socket(message.path), known.peer?)));
            let caller = message.to.map(|to| (message.path, to));
            let to = caller.or(there);
            let mut datagram = ControlDatagram::new(message.contents.len());
            datagram.bytes[..datagram.len].copy_from_slice(message.contents);
            next = to.map(|to| (message.path, to, datagram));
            names_socket = opening.called.is_some() && caller.is_some();
            if let (Some(known), Some((_, to))) = (known, to)
                && message.to.is_none()
                && known.state != PathState::Up
            {
                let elsewhere = known.elsewhere(to);
                opening.elsewhere =
                    elsewhere.map(|to| (message.path, (message.path, to), datagram));
            }
        }
        while next.is_none() {
            let (path, message) = self.outbox.pop()?;
            if message.is_lone {
                let known = self.paths[path.index()].as_ref();
                let there = known.and_then(|known| Some((known.socket(path), known.peer?)));
                next = there.map(|there| (path, there, message));
                continue;
            }
            let plain = &message.bytes[HANDSHAKE_GRE.len()..message.len];
            let peer_path = message.peer_path;
            let known = self.paths[path.index()].as_ref();
            let peer = known.and_then(|known| Some((known.socket(path), known.peer?)));
            if message.padded_to > 0 {
                let (plain, sealed) = self.mtus.pad(plain, message.padded_to);
                if let Some((socket, to)) = peer
                    && let Some(len) = opening
                        .sessions
                        .seal_control(path, peer_path, plain, sealed)
                {
                    if let Some(known) = &mut self.paths[path.index()] {
                        known.count_control_sent(to, len);
                    }
                    let contents = self.mtus.padded(len);
                    return Some(Transmit::single([path, socket], to, contents));
                }
                continue;
            }
            let mut datagram = ControlDatagram::new(0);
            let out = &mut datagram.bytes;
            if let Some(to) = message.to.or(peer)
                && let Some(len) = opening.sessions.seal_control(path, peer_path, plain, out)
            {
                datagram.len = len;
                next = Some((path, to, datagram));
            }
        }
        let (path, (socket, to), datagram) = next?;
        let counted = Path::each(&self.paths).find(|(id, known)| match names_socket {
            true => known.is_at(*id, socket, to),
            false => *id == path,
        });
        if let Some(id) = counted.map(|(id, _)| id)
            && let Some(known) = &mut self.paths[id.index()]
        {
            known.count_control_sent(to, datagram.len);
        }
        let contents = self.outbox.leave(datagram);
        Some(Transmit::single([path, socket], to, contents))
    }
}

fn drop_for(error: OpenError) -> DropReason {
    match error {
        OpenError::Malformed => DropReason::NotSealed,
        OpenError::UnknownSession => DropReason::UnknownSession,
        OpenError::Replayed => DropReason::Replayed,
        OpenError::Forged => DropReason::Forged,
        OpenError::Protocol => DropReason::BadInner,
        OpenError::Marked => DropReason::Ecn,
    }
}

pub(super) fn drop_for_refusal(refused: Refused) -> DropReason {
    match refused {
        Refused::Malformed
        | Refused::BadMac
        | Refused::NotOpened
        | Refused::Stranger
        | Refused::Unexpected => DropReason::BadHandshake,
        Refused::Unproven | Refused::RateLimited => DropReason::HandshakeLimit,
        Refused::Replayed => DropReason::Replayed,
    }
}

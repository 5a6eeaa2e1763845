//! In a hub: paths that come into being as the peer calls, and which of them a datagram is of.
//!
//! All peers of a hub share its sockets, and two paths of one peer may go to the same of them. So the socket does
//! not say which path a datagram is of. A control message says it itself, under the seal: the path has the index
//! that the peer has given it, at both ends. A data packet is taken to be of the path whose peer is where it
//! came from; for which path it counts says little ([docs/security.md](../../../../../docs/security.md)).
//!
//! Where a path leads is the place it calls from *and* the socket that it calls. Either moves only when who is there has
//! shown that he hears what is sent to there by that socket, as in any sealed tunnel.

use std::net::SocketAddr;

use super::Inbound;
use super::opening::drop_for_refusal;
use crate::control::Protection;
use crate::control::drops::DropReason;
#[cfg(test)]
use crate::crypto::CONTROL_OVERHEAD;
use crate::crypto::{
    Caller, HubSlot, InitiationTag, Moment, Opened, Refused, Sender, claimed_route,
};
use crate::hub::Sources;
use crate::path::{MAX_PATHS, Path, PathConfig, PathId};
use crate::time::Time;
use crate::tunnel::sealing::{Arrival, CalledPaths, Opening};
use crate::wire::name::PathName;
use crate::wire::probe::Proof;

impl Inbound {
    /// It is a hub's with one of its peers: a path that the peer calls on gets what `called` says of the socket;
    /// initiations up to `until` are old; of what comes for the TUN only what `sources` allow is taken.
    pub(crate) fn serve(
        &mut self,
        slot: HubSlot,
        called: CalledPaths,
        until: Moment,
        sources: Sources,
    ) {
        self.delivery.set_sources(sources);
        // A hub tells nobody how its peers' packets are ordered.
        self.order.switch_off();
        if let Some(opening) = &mut self.opening {
            opening.called = Some(Box::new(called));
            opening.sessions.serve(slot, until);
        }
    }

    /// The peer may send other inner packets now.
    pub(crate) fn set_sources(&mut self, sources: Sources) {
        self.delivery.set_sources(sources);
    }

    /// More than so many bits a second for the TUN are dropped from now on.
    pub(crate) fn set_rate_limit(&mut self, now: Time, bits_per_second: Option<u64>) {
        self.delivery.set_rate_limit(now, bits_per_second);
    }

    /// Whether paths come into being as the peer calls.
    pub(super) fn is_called(&self) -> bool {
        self.opening
            .as_ref()
            .is_some_and(|opening| opening.called.is_some())
    }

    fn called_by(&self, socket: PathId) -> Option<PathConfig> {
        let called = self.opening.as_ref()?.called.as_deref()?;
        called[socket.index()]
    }

    /// What is configured of the sockets that peers call is this now.
    pub fn set_called(&mut self, now: Time, called: [Option<PathConfig>; MAX_PATHS]) {
        let opening = self.opening.as_mut();
        let before = opening.and_then(|opening| opening.called.replace(Box::new(called)));
        for id in self.paths().collect::<Vec<_>>() {
            if let Some(config) = called[self.socket_of(id).index()] {
                self.set_path(now, id, config);
            }
        }
        let Some(before) = before else {
            return;
        };
        for socket in (0..MAX_PATHS).filter_map(PathId::new) {
            let [was, is] = [&*before, &called].map(|called| called[socket.index()].is_some());
            if was != is {
                // Nothing is sent by a socket that is not there.
                self.handle_socket_link(now, socket, is);
            }
        }
    }

    /// See [`HubInbound::handle_link`](crate::hub::HubInbound::handle_link).
    pub(crate) fn handle_socket_link(&mut self, now: Time, socket: PathId, up: bool) {
        for id in self.paths().collect::<Vec<_>>() {
            if self.socket_of(id) == socket
                && let Some(path) = &mut self.paths[id.index()]
            {
                path.set_link(now, up);
            }
        }
        self.touch(now);
        self.settle(now);
    }

    /// What the peer calls a path, if it has told.
    #[must_use]
    pub fn peer_name_of(&self, id: PathId) -> Option<PathName> {
        self.paths[id.index()].as_ref()?.names.peer()
    }

    /// What seals, if anything is agreed.
    pub(crate) fn protection(&self) -> Option<Protection> {
        self.opening.as_ref().map(Opening::protection)
    }

    /// Takes an initiation of the peer, which a hub has opened.
    ///
    /// # Errors
    /// Why nothing came of it; it is counted.
    pub(crate) fn handle_caller(
        &mut self,
        now: Time,
        sender: Sender,
        caller: Caller,
    ) -> Result<(), Refused> {
        let Some(opening) = &mut self.opening else {
            return Err(Refused::Unexpected);
        };
        opening.catch_up(&self.shared);
        let outcome = opening.sessions.accept(now, sender, caller);
        self.note_call(now, outcome);
        outcome
    }

    /// Answers a copy of the peer's last initiation. `false` when it is none.
    pub(crate) fn answer_again(&mut self, now: Time, sender: Sender, tag: InitiationTag) -> bool {
        let Some(opening) = &mut self.opening else {
            return false;
        };
        let Some(outcome) = opening.sessions.answer_again(now, sender, tag) else {
            return false;
        };
        self.note_call(now, outcome);
        true
    }

    fn note_call(&mut self, now: Time, outcome: Result<(), Refused>) {
        match outcome {
            Ok(()) => self.handshakes += 1,
            Err(why) => self.drops.count(drop_for_refusal(why), 1),
        }
        self.follow_sessions(now);
    }

    /// Whether nothing is agreed with the peer any more, and no attempt at that is under way: it is away.
    pub(crate) fn is_over(&self) -> bool {
        let opening = self.opening.as_ref();
        opening.is_some_and(|opening| opening.sessions.is_over())
    }

    /// The paths that there are.
    pub fn paths(&self) -> impl Iterator<Item = PathId> {
        Path::each(&self.paths).map(|(id, _)| id)
    }

    /// Whether any path is up.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.paths.iter().flatten().any(|path| path.is_up())
    }

    /// The socket that leads to the path's peer.
    #[must_use]
    pub fn socket_of(&self, id: PathId) -> PathId {
        let path = self.paths[id.index()].as_ref();
        path.map_or(id, |path| path.socket(id))
    }

    /// The path that a datagram is of, as far as it can be told before it is opened.
    pub(super) fn path_of(&self, arrival: &Arrival, datagram: &[u8]) -> PathId {
        if !self.is_called() {
            return arrival.path;
        }
        let said = claimed_route(datagram).and_then(|route| PathId::new(route.from.into()));
        said.unwrap_or_else(|| self.path_at(arrival.socket, arrival.from))
    }

    /// Whether these are control messages that are not worth opening: more were opened than a peer that keeps the protocol
    /// sends. They are counted. `step`: how long each is, the last perhaps shorter.
    pub(crate) fn refuses(&mut self, now: Time, messages: &[u8], step: usize) -> bool {
        let opening = self.opening.as_ref();
        if !opening.is_some_and(|opening| opening.control.is_spent(now)) {
            return false;
        }
        let mut count = 0;
        for message in messages.chunks(step.max(1)) {
            if claimed_route(message).is_none() {
                return false;
            }
            count += 1;
        }
        self.drops.count(DropReason::PeerShare, count);
        true
    }

    /// This end's session.
    #[cfg(test)]
    pub(crate) fn own_session(&self) -> u64 {
        self.session
    }

    /// Seals a control message for the peer over a path, as a client does that keeps to nothing.
    #[cfg(test)]
    pub(crate) fn seal_control(&mut self, path: PathId, message: &[u8]) -> Vec<u8> {
        let mut sealed = vec![0; message.len() + CONTROL_OVERHEAD];
        let sessions = &mut self.opening.as_mut().unwrap().sessions;
        let to = self.paths[path.index()].as_ref().unwrap().place.peer_path();
        let len = sessions.seal_control(path, to, message, &mut sealed);
        sealed.truncate(len.unwrap());
        sealed
    }

    /// Whether a path's peer is there.
    pub(crate) fn is_at(&self, socket: PathId, from: SocketAddr) -> bool {
        Path::each(&self.paths).any(|(id, path)| path.is_at(id, socket, from))
    }

    /// The path whose peer is there, or else one that is near.
    fn path_at(&self, socket: PathId, from: SocketAddr) -> PathId {
        let mut near = None;
        for (id, path) in Path::each(&self.paths) {
            if path.is_at(id, socket, from) {
                return id;
            }
            if near.is_none() || path.socket(id) == socket {
                near = Some(id);
            }
        }
        near.unwrap_or(socket)
    }

    /// The peer calls on a path for the first time.
    pub(super) fn meet_path(&mut self, now: Time, arrival: &Arrival, opened: &Opened) {
        let called = self.called_by(arrival.socket);
        let (Some(called), Opened::Control { message, .. }) = (called, opened) else {
            return;
        };
        let start = arrival.place.start;
        let place = start + message.start..start + message.end;
        let calls = Proof::parse(&self.window.buffer_mut(arrival.buffer)[place]).is_some();
        if calls && self.paths[arrival.path.index()].is_none() {
            self.set_path(now, arrival.path, called);
        }
    }
}

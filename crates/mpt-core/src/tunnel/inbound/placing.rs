//! Which path of the peer a sealed datagram is of, and where that one leads.

use std::net::SocketAddr;
use std::ops::Range;

use super::probing::{Extent, STRANGE_SESSION_INTERVAL};
use super::{Inbound, is_same_peer};
use crate::control::drops::DropReason;
use crate::crypto::Route;
use crate::path::{Call, Path, PathId, Rank, Ruling};
use crate::time::Time;
use crate::tunnel::event::Event;
use crate::tunnel::sealing::Arrival;
use crate::wire::probe::{Echo, Message, Proof};

impl Inbound {
    /// Whether a control message that says so of itself may have been made for this path.
    pub(super) fn may_be_for(
        &mut self,
        now: Time,
        id: PathId,
        route: Route,
        from: SocketAddr,
    ) -> bool {
        let is_here = route.to.is_none_or(|to| usize::from(to) == id.index());
        if self.paths[id.index()].is_none() {
            return is_here && self.is_called();
        }
        let Some(path) = self.paths[id.index()].as_ref().filter(|_| is_here) else {
            return false;
        };
        if path.place.is_bound_to(route.from) {
            return true;
        }
        let rank = rank(path, id, route, from);
        let keeps = |path: &Path| path.is_answered(now) && path.place.withstands(rank);
        let mut paths = self.paths.iter().flatten();
        let elsewhere = paths.any(|path| path.place.is_bound_to(route.from) && keeps(path));
        let too_early = rank < Rank::Configured && path.awaits_home(now);
        !keeps(path) && !elsewhere && !too_early
    }

    /// Finds out from a control message where the peer is. Returns whether it is one of this path.
    pub(super) fn place_control(
        &mut self,
        now: Time,
        arrival: &Arrival,
        route: Route,
        number: u64,
        place: Range<usize>,
    ) -> bool {
        let (id, from) = (arrival.path, arrival.from);
        let message = &self.window.buffer_mut(arrival.buffer)[place];
        let called = Proof::parse(message).zip(Message::parse(message).ok());
        let (Some(opening), Some(path)) = (&self.opening, &mut self.paths[id.index()]) else {
            return false;
        };
        let Some((proof, message)) = called else {
            // Nothing but a probe says where a path leads.
            let bound = path.place.is_bound_to(route.from);
            self.drops.count(DropReason::OtherPath, u64::from(!bound));
            return bound;
        };
        if message.path != route.from {
            self.drops.count(DropReason::BadControl, 1);
            return false;
        }
        let call = Call {
            from,
            peer_path: route.from,
            number,
            rank: rank(path, id, route, from),
            code: proof.code,
            answers: opening
                .sessions
                .is_code(now, [id, arrival.socket], from, proof.answer),
        };
        let peer = path
            .peer
            .filter(|&peer| path.is_at(id, arrival.socket, peer));
        let ruling = path.place.judge(peer, &call);
        match ruling {
            Ruling::Take => {}
            Ruling::TakeAndAsk => self.ask(now, arrival, &call, &message),
            Ruling::Ask => {
                self.control_packets += 1;
                self.ask(now, arrival, &call, &message);
            }
            Ruling::Bind => {
                path.forget_peer();
                self.order.forget_peer(id);
                self.release_elsewhere(id, route.from);
                self.move_peer(now, arrival);
            }
            Ruling::Move => self.move_peer(now, arrival),
        }
        ruling != Ruling::Ask
    }

    /// Asks who is there to show that he hears, as briefly as he spoke. That answers the message: another answer would
    /// go to where the peer was before.
    fn ask(&mut self, now: Time, arrival: &Arrival, call: &Call, message: &Message) {
        self.next_strange_answer[arrival.path.index()] = now + STRANGE_SESSION_INTERVAL;
        let echo = Echo {
            number: message.number,
            session: message.session,
            sent: message.sent,
            received: self.arrived,
        };
        let extent = Extent::ToCaller {
            socket: arrival.socket,
            to: call.from,
            answer: call.code,
            peer_path: Some(call.peer_path),
        };
        self.send_message(now, arrival.path, Some(echo), true, extent);
    }

    /// A call was answered: where that came from elsewhere than this end's messages go, which are lost there, one goes to
    /// who answered, once for each handshake: the answer is in the clear, and whoever has it may send it again from anywhere.
    pub(super) fn ask_who_answered(&mut self, now: Time, arrival: &Arrival) {
        let (id, socket, to) = (arrival.path, arrival.socket, arrival.from);
        let path = self.paths[id.index()].as_ref();
        if path.is_none_or(|path| path.is_up() || path.is_at(id, socket, to)) {
            return;
        }
        match &mut self.opening {
            Some(opening) if !opening.asked.contains(id) => opening.asked.insert(id),
            _ => return,
        }
        let extent = Extent::ToCaller {
            socket,
            to,
            answer: 0,
            peer_path: None,
        };
        self.send_message(now, id, None, true, extent);
    }

    /// One of the peer's paths leads to one of ours.
    fn release_elsewhere(&mut self, here: PathId, peer_path: u8) {
        for (index, path) in self.paths.iter_mut().enumerate() {
            if let Some(path) = path
                && index != here.index()
                && path.place.is_bound_to(peer_path)
            {
                path.place.release();
            }
        }
    }

    /// Whether it came from where the path's peer has shown that it is. What comes from elsewhere was sealed by the peer, but
    /// whoever holds another of its paths may have put it before this path's socket: it does not count for the path, or all
    /// that was sent there before would be believed to have arrived or to be lost.
    pub(super) fn is_from_peer(&self, arrival: &Arrival) -> bool {
        let path = self.paths[arrival.path.index()].as_ref();
        path.is_some_and(|path| path.is_at(arrival.path, arrival.socket, arrival.from))
    }

    /// The peer of a path has shown that it is there.
    pub(super) fn move_peer(&mut self, now: Time, arrival: &Arrival) {
        let (id, socket, from) = (arrival.path, arrival.socket, arrival.from);
        let Some(path) = &mut self.paths[id.index()] else {
            return;
        };
        if let Some(opening) = &mut self.opening
            && !path.is_at(id, socket, from)
        {
            path.move_peer(now, socket, from);
            opening.moved.insert(id);
            self.mtus.begin_search(now, id);
            self.events.push(Event::PeerAddress {
                path: id,
                address: from,
            });
            self.unsettled = true;
        }
    }
}

/// What speaks for somebody who calls from there.
fn rank(path: &Path, id: PathId, route: Route, from: SocketAddr) -> Rank {
    let home = path.config.remote;
    let is_home = home.is_some_and(|home| is_same_peer(home, from));
    match (is_home, usize::from(route.from) == id.index()) {
        (true, true) => Rank::ConfiguredWithSameIndex,
        (true, false) => Rank::Configured,
        (false, true) => Rank::SameIndex,
        (false, false) => Rank::Caller,
    }
}

//! The care of the paths: probes, their answers, sessions, and which paths are usable.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Inbound;
use crate::control::drops::DropReason;
use crate::path::{
    Answered, DRIFTS_AFTER, MAX_PATHS, PathId, PathSet, PathState, Paths, SmoothedDelay,
};
use crate::receive::reorder::Recovery;
use crate::seq::Seq;
use crate::time::{Time, earliest};
use crate::tunnel::Transmit;
use crate::tunnel::event::Event;
use crate::tunnel::outbox::{ControlDatagram, control_header};
use crate::tunnel::sealing::{Opening, may_carry_handshakes};
use crate::tunnel::session::{Jump, Where};
use crate::tunnel::window::Began;
use crate::wire::kind::LONE_BYTE;
use crate::wire::probe::{Echo, MESSAGE_BYTES, Message};

/// Least time between two answers on a path to a session that has not proved itself.
pub(super) const STRANGE_SESSION_INTERVAL: Duration = Duration::from_millis(20);
/// A lost packet is waited for so many round trips: it is sent again, and once more when that is lost,
/// too, which takes half a round trip longer to be told. The rest is for a report that is lost.
const ROUND_TRIPS: u32 = 4;
/// In each of them so many reports are waited for: one tells of the loss, and where packets overtake, the next one confirms
/// it. Random pairs (`campaign --pairs 300 --seed 3000`) carry 0.5 % more late with one, and 1.5 % more with two, than with
/// one that is taken to come after `REPORT_INTERVAL`.
const REPORTS_A_ROUND_TRIP: u32 = 2;
/// What resends may be delayed by besides, in queues and by clocks that tick.
const RECOVERY_MARGIN: Duration = Duration::from_millis(5);

impl Inbound {
    pub(super) fn handle_message(&mut self, now: Time, path: PathId, message: &Message) {
        let Some(known) = &mut self.paths[path.index()] else {
            return;
        };
        let echo_sent = known.echoes.fresh(self.session, message.echo);
        if self.opening.is_some() && self.peer.session() != Some(message.session) {
            // The handshake has said which session it is.
            return self.drops.count(DropReason::StaleControl, 1);
        }
        if self.peer.session() != Some(message.session) {
            let is_former = self.peer.is_former(now, message.session);
            if echo_sent.is_none() || is_former {
                self.drops.count(DropReason::StaleControl, 1);
                if !is_former {
                    self.answer_strange_session(now, path, message);
                }
                return;
            }
            self.begin_session(now, message.session, message.next_seq);
        }
        if echo_sent.is_none() {
            // A padded probe that was overtaken comes back behind a newer one.
            self.note_carried(now, path, message.echo);
        }
        let Some(known) = &mut self.paths[path.index()] else {
            return;
        };
        let is_sealed = self.opening.is_some();
        if echo_sent.is_none() && !known.echoes.continues(message, is_sealed) {
            self.drops.count(DropReason::StaleControl, 1);
            // After a long outage the peer's numbers are far ahead, and it has no fresh echo of ours. Sealed, it is the
            // peer: it has made the path anew, or its probe was overtaken.
            if is_sealed && message.reply_wanted || !known.is_answered(now) {
                self.answer_strange_session(now, path, message);
            }
            return;
        }
        self.control_packets += 1;
        self.peer.heard(now);
        let arrived = self.arrived;
        known.hear(arrived, message);
        self.order.hear(arrived, path, message.number, message.sent);
        // What came without proof and matters has to be said again, with an echo of our answer.
        let doubtful = echo_sent.is_none() && known.is_news(now, message);
        if let Some(echo_sent) = echo_sent {
            known.learn(now, arrived, message, echo_sent);
            if let (Some(rtt), Some(forward)) = (known.rtt.smoothed(), known.forward) {
                known.idle.probed(now, forward, self.shared.sent(path).1);
                let answered = Answered {
                    sent: echo_sent,
                    rtt,
                    forward_ns: forward,
                    idle_ns: known.idle.median(),
                    jitter_ns: known.idle.jitter(),
                    loss: known.loss_at_peer,
                };
                self.answers.note(path, answered);
            }
            self.reporting.learn(path, message);
            if let Some(rtt) = known.rtt.round_trip() {
                self.window.set_rtt(now, path, rtt);
            }
            self.put_off_probe(now, path);
            self.note_carried(now, path, message.echo);
            self.follow_watermark(now, path, message.next_seq);
        }
        if message.reply_wanted {
            self.send_probe(now, path, doubtful);
        }
        self.settle(now);
    }

    /// What is not believed has to echo a message of ours first: give it one.
    fn answer_strange_session(&mut self, now: Time, path: PathId, message: &Message) {
        let next = &mut self.next_strange_answer[path.index()];
        if now >= *next {
            *next = now + STRANGE_SESSION_INTERVAL;
            let echo = Echo {
                number: message.number,
                session: message.session,
                sent: message.sent,
                received: self.arrived,
            };
            // Besides the probes, not instead of one: else strangers could silence us toward our peer.
            self.send_message(now, path, Some(echo), true, Extent::Plain);
        }
    }

    pub(super) fn begin_session(&mut self, now: Time, session: u64, next_seq: Seq) {
        let restarted = self.peer.begin(now, session);
        for id in (0..MAX_PATHS).filter_map(PathId::new) {
            if let Some(path) = &mut self.paths[id.index()] {
                path.forget_peer();
                path.meet_peer(now);
                self.order.forget_peer(id);
            }
        }
        // The paths are to be measured, toward whoever is there now.
        self.touch(now);
        self.reporting.begin_session(restarted);
        self.heard.begin_session();
        self.watermarks.begin_session();
        let began = Began {
            is_restart: restarted,
            is_first: self.peer.is_first(),
            is_sealed: self.opening.is_some(),
        };
        if self.window.begin_session(now, next_seq, began) {
            self.order.begin_numbering();
        }
        self.events.push(Event::PeerSession { session, restarted });
    }

    fn follow_watermark(&mut self, now: Time, path: PathId, watermark: Seq) {
        if self.window.announce(now, path, watermark) {
            self.peer.watermark_fits();
        } else {
            let place = match watermark.is_after(self.window.reorder().next_expected()) {
                true => Where::FarAhead,
                false => Where::Behind,
            };
            if self.peer.consider_watermark(now, watermark, place) == Jump::Believed {
                self.window.resync(now, watermark);
                self.order.begin_numbering();
            }
        }
        self.reporting.note_losses(now, self.window.reorder());
    }

    /// When [`Inbound::handle_timeout`] is to be called at the latest.
    pub fn poll_timeout(&mut self) -> Option<Time> {
        let probes = self
            .paths
            .iter()
            .flatten()
            .map(|path| path.next_probe)
            .min();
        let probes = earliest(probes, self.activity.deadline());
        let probes = earliest(probes, self.next_lone_byte());
        let probes = earliest(probes, self.reporting.due());
        let probes = earliest(probes, self.watermarks.deadline());
        let sessions = self.opening.as_ref().and_then(Opening::poll_timeout);
        let probes = earliest(probes, sessions);
        // Without keys no padded probe can be sent.
        let is_idle = self.activity.is_idle();
        let mtus = match self.may_speak() {
            true => self.mtus.deadline(&self.paths, is_idle),
            false => None,
        };
        let probes = earliest(probes, mtus);
        earliest(
            earliest(probes, self.next_settle),
            self.window.poll_timeout(),
        )
    }

    /// Does what is due: probes, reports, changes of state, the end of hold times.
    pub fn handle_timeout(&mut self, now: Time) {
        self.delivery.fill_limit(now);
        self.follow_activity(now);
        self.handle_session_timeout(now);
        self.window.handle_timeout(now);
        self.settle(now);
        self.reporting.note_losses(now, self.window.reorder());
        self.notice_suspected(now);
        self.end_doubts(now);
        self.report_if_due(now);
        self.renew_paths(now);
        for path in (0..MAX_PATHS).filter_map(PathId::new) {
            let due = self.paths[path.index()]
                .as_ref()
                .is_some_and(|path| path.next_probe <= now);
            if due && !self.puts_off(now, path) {
                self.send_probe(now, path, true);
            }
        }
        self.keep_mappings(now);
        self.search_mtus(now);
        self.order.tick(now);
    }

    /// Sends the peer a probe or the answer to one, and sets when the next probe is due.
    fn send_probe(&mut self, now: Time, id: PathId, reply_wanted: bool) {
        self.sample_rates(now, id);
        let leads = self.leads();
        let jitter = self.next_jitter();
        let Some(path) = &mut self.paths[id.index()] else {
            return;
        };
        if reply_wanted {
            path.rhythm.ask(now);
        }
        path.next_probe = now + path.interval(now, leads).mul_f64(jitter);
        let (echo, home) = (path.echoes.newest(), path.home_to_call(now));
        self.send_message(now, id, echo, reply_wanted, Extent::Plain);
        if let Some(to) = home.filter(|_| self.opening.is_some()) {
            let extent = Extent::ToCaller {
                socket: id,
                to,
                answer: 0,
                peer_path: None,
            };
            self.send_message(now, id, echo, true, extent);
        }
    }

    /// The end with the higher session probes; the other probes only when that one falls silent, or when
    /// no echo comes and both must find out.
    pub(super) fn leads(&self) -> bool {
        self.peer.session().is_none_or(|peer| self.session > peer)
    }

    /// A probe was answered: while the tunnel is idle the next is not due soon.
    fn put_off_probe(&mut self, now: Time, id: PathId) {
        if !self.activity.is_idle() {
            return;
        }
        let (leads, jitter) = (self.leads(), self.next_jitter());
        if let Some(path) = &mut self.paths[id.index()] {
            path.next_probe = now + path.interval(now, leads).mul_f64(jitter);
        }
    }

    fn next_lone_byte(&self) -> Option<Time> {
        let paths = self.paths.iter().flatten();
        paths.filter_map(|path| path.next_byte()).min()
    }

    /// Sends one byte on idle metered paths on which nothing was sent for long.
    fn keep_mappings(&mut self, now: Time) {
        for id in (0..MAX_PATHS).filter_map(PathId::new) {
            let Some(path) = &mut self.paths[id.index()] else {
                continue;
            };
            if path.next_byte().is_some_and(|at| at <= now) && self.outbox.room() > 0 {
                path.sent(now);
                let mut datagram = ControlDatagram::new(LONE_BYTE.len());
                datagram.bytes[..LONE_BYTE.len()].copy_from_slice(&LONE_BYTE);
                datagram.is_lone = true;
                self.outbox.push(id, datagram);
            }
        }
    }

    /// Sends a message, to where the path's peer is if nothing else is said, and returns its number.
    pub(super) fn send_message(
        &mut self,
        now: Time,
        id: PathId,
        echo: Option<Echo>,
        reply_wanted: bool,
        extent: Extent,
    ) -> Option<u32> {
        let (may_speak, header) = (self.may_speak(), control_header(self.key));
        let known = self.paths[id.index()].as_ref()?;
        let calls = self.opening.is_some() && known.config.remote.is_some();
        let name = match extent {
            Extent::Plain if calls => known.names.to_tell(),
            Extent::Plain | Extent::Padded(_) | Extent::ToCaller { .. } => None,
        };
        let body_len = self.message_len() + name.map_or(0, |name| name.buffer_len());
        let sent_len = self.control_len(body_len);
        let (padded_to, caller) = match extent {
            Extent::Plain => (0, None),
            Extent::Padded(padded_to) => (padded_to, None),
            Extent::ToCaller {
                socket,
                to,
                answer,
                peer_path,
            } => (0, Some(((socket, to), answer, peer_path))),
        };
        let there = known.peer.map(|peer| (known.socket(id), peer));
        let to = caller.map(|(to, ..)| to).or(there)?;
        if self.outbox.room() == 0 || !may_speak || !known.is_open() {
            return None;
        }
        let proof = self.proof(now, id, to, caller.map(|(_, answer, _)| answer));
        let path = self.paths[id.index()].as_mut()?;
        let len = header.buffer_len() + body_len;
        // That a padded one, or a call at where nobody may be, does not arrive is no loss that anybody should know of.
        if padded_to == 0 && Some(to) == there {
            self.shared.count_sent(id, 1, sent_len as u64);
        }
        let (tx_packets, tx_bytes) = self.shared.sent(id);
        let number = path.number_sent(now);
        let message = Message {
            reply_wanted,
            out_of_service: path.out_of_service,
            reports_wanted: self.reports_wanted,
            resends: self.resends,
            may_move: self.opening.is_some() && path.config.may_move(),
            path: id.index() as u8,
            number,
            session: self.session,
            sent: now,
            tx_packets,
            tx_bytes,
            next_seq: self.shared.next_seq(),
            echo,
            rx_packets: path.rx_packets,
            rx_bytes: path.rx_bytes,
            loss_ppm: path.loss.ppm(),
        };
        let mut datagram = ControlDatagram::new(len);
        let start = header.emit(&mut datagram.bytes);
        let mut body = [0; MESSAGE_BYTES];
        message.emit(&mut body);
        let (out, rest) = datagram.bytes[start..len].split_at_mut(MESSAGE_BYTES);
        out.copy_from_slice(&body);
        if let (Some(proof), Some((out, rest))) = (proof, rest.split_first_chunk_mut()) {
            proof.emit(out);
            if let Some(name) = name {
                name.emit(rest);
                path.names.told(number);
            }
        }
        datagram.padded_to = padded_to;
        datagram.to = caller.map(|(to, ..)| to);
        datagram.peer_path = match caller {
            Some((_, _, peer_path)) => peer_path,
            None => path.place.peer_path().filter(|_| path.is_answered(now)),
        };
        self.outbox.push(id, datagram);
        Some(number)
    }

    /// The next control message to be sent.
    pub fn poll_transmit(&mut self) -> Option<Transmit<'_>> {
        if self.opening.is_some() {
            return self.poll_sealed_transmit();
        }
        let (path, to, datagram) = loop {
            let (path, datagram) = self.outbox.pop()?;
            if let Some(known) = &mut self.paths[path.index()]
                && let Some(peer) = known.peer
            {
                known.count_control_sent(peer, datagram.len);
                break (path, peer, datagram);
            }
        };
        Some(Transmit::single([path; 2], to, self.outbox.leave(datagram)))
    }

    /// Works out every path's state, tells of changes, and lets the other half and the reorder
    /// window know.
    pub(super) fn settle(&mut self, now: Time) {
        let (peer_probes, may_speak) = (self.peer.probes(), self.may_speak());
        let may_be_silent = !peer_probes && self.opening.is_none();
        let (mut usable, mut waited_for) = (PathSet::EMPTY, PathSet::EMPTY);
        let mut reachable = PathSet::EMPTY;
        let mut next = None;
        let mut has_come_up = false;
        for id in (0..MAX_PATHS).filter_map(PathId::new) {
            let is_hushed = self.is_hushed(now, id);
            let Some(path) = &mut self.paths[id.index()] else {
                continue;
            };
            let (state, reason) = path.state_at(now, peer_probes);
            if (state, reason) != (path.state, path.reason) {
                if state == PathState::Up {
                    self.mtus.begin_search(now, id);
                    has_come_up = true;
                }
                (path.state, path.reason) = (state, reason);
                self.events.push(Event::Path {
                    path: id,
                    state,
                    reason,
                });
            }
            let may_work = state == PathState::Probing && may_be_silent && path.peer.is_some();
            let may_work = may_work && !is_hushed;
            if may_speak && state == PathState::Up || may_work {
                usable.insert(id);
            }
            if path.peer.is_some() && may_carry_handshakes(state, reason) {
                reachable.insert(id);
            }
            if path.is_waited_for(now) {
                waited_for.insert(id);
            } else if path
                .rhythm
                .heard()
                .is_some_and(|heard| now.since(heard) >= DRIFTS_AFTER)
            {
                path.one_way = SmoothedDelay::default();
            }
            next = earliest(next, path.state_deadline(now));
        }
        let narrow = self.mtus.narrow(&self.paths);
        for id in narrow.iter() {
            usable.remove(id);
        }
        if let Some(opening) = &mut self.opening {
            opening.set_paths(reachable);
        }
        self.diagnose(now, reachable);
        next = earliest(next, self.tell_sessions(now));
        let recovery = self.recovery();
        self.window.set_recovery(now, recovery);
        self.next_settle = next;
        self.shared.peer_known.store(peer_probes, Ordering::Relaxed);
        self.unsettled = false;
        if has_come_up {
            self.touch(now);
        }
        self.shared
            .usable
            .store(u32::from(usable.bits()), Ordering::Relaxed);
        self.window.wait_for(now, waited_for);
        self.size_window(now);
        self.reporting.note_losses(now, self.window.reorder());
        if self.mtus.left_out() != narrow {
            self.follow_mtus();
        }
    }

    /// Follows what is measured, where the settings leave that to the tunnel.
    pub(super) fn size_window(&mut self, now: Time) {
        follow_clock(&mut self.paths);
        let recovery = self.recovery().map(|recovery| recovery.hold);
        self.window.follow(now, &self.paths, recovery);
    }

    /// How quickly the peer's resends can be here, if it sends any: a report and a packet, each over
    /// the path that answers first. What is sent again may be lost again, and so may a report.
    pub(super) fn recovery(&self) -> Option<Recovery> {
        if self.peer.session().is_none() || !self.reporting.peer_resends() {
            return None;
        }
        let quickest = self.quickest_rtt()?;
        let paths = self.paths.iter().flatten();
        let up = paths.filter(|path| path.state == PathState::Up);
        let least = up.clone().filter_map(|path| path.rtt.minimum()).min()?;
        // The last chance may take the slowest path, and be one of the latest packets there. With the mean of its round trips flows
        // get 0.4 ± 0.2 % less late over 400 random pairs (`campaign --pairs 400 --seed 7000`), and 0.5 ± 0.2 % less over 300
        // (`--pairs 300 --seed 3000`).
        let round_trips = up.filter_map(|path| path.rtt.round_trip());
        let slowest = round_trips.map(|rtt| rtt.longest()).max()?;
        let window = self.window.widest_displacement();
        Some(Recovery {
            hold: (quickest + self.reporting.interval() * REPORTS_A_ROUND_TRIP) * ROUND_TRIPS
                + slowest / 2
                + window
                + RECOVERY_MARGIN,
            soonest: least / 2,
        })
    }

    /// With every probe and every answer: the end that only answers has no other occasion.
    fn sample_rates(&mut self, now: Time, id: PathId) {
        let (_, tx_bytes) = self.shared.sent(id);
        if let Some(path) = &mut self.paths[id.index()] {
            path.tx_rate.sample(now, tx_bytes);
            path.rx_rate.sample(now, path.rx_bytes);
        }
    }

    /// From 0.9 to 1.1 (xorshift64*): probes of several paths or tunnels must not fall in step.
    fn next_jitter(&mut self) -> f64 {
        self.jitter ^= self.jitter >> 12;
        self.jitter ^= self.jitter << 25;
        self.jitter ^= self.jitter >> 27;
        let top = self.jitter.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 40;
        0.9 + 0.2 * top as f64 / (1u64 << 24) as f64
    }
}

/// How far a message goes, and where.
#[derive(Debug, Clone, Copy)]
pub(super) enum Extent {
    /// To where the path's peer is.
    Plain,
    /// The same, followed by zeros until the datagram has so many bytes.
    Padded(usize),
    /// To somebody who may be the peer: with the code that he asked to have back, and what he calls the path,
    /// if he has said so.
    ToCaller {
        socket: PathId,
        to: SocketAddr,
        answer: u64,
        peer_path: Option<u8>,
    },
}

/// When the peer's clock was set, the first message to show it corrects the delays of all paths.
fn follow_clock(paths: &mut Paths) {
    let mut all = paths.iter_mut().flatten();
    if let Some(set) = all.find_map(|path| path.one_way.take_clock_step()) {
        for path in paths.iter_mut().flatten() {
            path.one_way.follow_clock_step(set);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::path::{PathConfig, PathId};
    use crate::tunnel::{TunnelConfig, tunnel};

    #[test]
    fn what_was_measured_of_a_path_that_is_not_heard_any_more_is_forgotten() {
        let (_, mut inbound) = tunnel(&TunnelConfig::of_test(1, 1464));
        for index in [0, 1] {
            let path = PathConfig::of_test();
            inbound.set_path(Time::ZERO, PathId::new(index).unwrap(), path);
            let path = inbound.paths[index].as_mut().unwrap();
            path.one_way.sample(5_000_000, 0);
            inbound.hear_data(Time::ZERO, PathId::new(index).unwrap());
        }
        let later = Time::ZERO + Duration::from_secs(61);
        inbound.hear_data(later, PathId::new(0).unwrap());
        inbound.settle(later);
        let known = [0, 1].map(|index| inbound.paths[index].as_ref().unwrap().one_way.ns());
        assert_eq!(known, [Some(5_000_000), None]);
    }
}

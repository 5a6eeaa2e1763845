//! One path: whether it works, how long it takes, what it loses.
//!
//! The state is a function of a few facts (is the link up, when did an echo of our own probes last
//! come back, did the operator or the peer take it out of service), worked out afresh whenever one
//! of them changes or a time passes:
//!
//! * *administratively down* while the operator says so;
//! * *waiting* while it has no socket, because its interface or address is not there;
//! * *down* while the link has no carrier (unless a later probe is answered: by another device then), the peer says "out of
//!   service", an ICMP error said "unreachable" within the last `dead_after`, or no echo came for `dead_after`;
//! * *up* while echoes come, or while the tunnel is idle and none is owed (`rhythm`);
//! * *probing* before the first echo.
//!
//! Only an echo proves that what we send arrives; hearing the peer proves the other direction. So a
//! path may be down for sending while the reorder window still waits for what it brings.

mod answered;
mod echoes;
mod estimate;
#[cfg(test)]
mod model;
mod names;
mod place;
mod reason;
mod renewal;
mod rhythm;
mod search;
mod set;

use std::net::SocketAddr;
use std::time::Duration;

pub use crate::control::PathState;
pub use crate::limits::MAX_PATHS;
use crate::time::{Time, earliest};
use crate::wire::probe::Message;
pub use answered::{Answered, RoundTrip};
use echoes::Echoes;
pub(crate) use estimate::{CLOCK_JUMP, DRIFTS_AFTER, IdleDelay, SmoothedDelay};
use estimate::{Loss, Rate, Rtt};
pub(crate) use names::Names;
pub(crate) use place::{Call, Place, Rank, Ruling};
pub use reason::{DownReason, Unreachable};
pub(crate) use renewal::Renewal;
pub(crate) use rhythm::Rhythm;
pub(crate) use search::{Bounds, MtuSearch};
pub use set::{PathId, PathSet};

/// A recovery this soon after an ICMP error shows that the error was false.
const FALSE_ALARM_WITHIN: Duration = Duration::from_secs(1);
/// What the peer held for longer before it answered says little about the round trip: the two clocks may
/// go at rates that differ by 100 in a million.
const LONGEST_HELD: Duration = Duration::from_secs(2);
/// How long ICMP errors are then ignored on that path: anyone can send them.
const ICMP_DISTRUST: Duration = Duration::from_secs(30);

/// What is configured of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathConfig {
    /// Where the peer is, to begin with; without it, which only a sealed tunnel can do, the peer has to
    /// call.
    pub remote: Option<SocketAddr>,
    /// Relative share of bytes.
    pub weight: u32,
    /// Time between probes.
    pub keepalive: Duration,
    /// Silence after which the path is down.
    pub dead_after: Duration,
    /// Bytes cost money: hardly any are sent while the tunnel is idle.
    pub metered: bool,
    /// The port that it sends from is not to change: others may count on it.
    pub keeps_port: bool,
}

impl PathConfig {
    /// Whether a sealed tunnel's path may go on from another port where nothing is answered.
    pub(crate) fn may_move(&self) -> bool {
        self.remote.is_some() && !self.keeps_port
    }
}

#[cfg(test)]
impl PathConfig {
    /// A path of weight 1 to a peer that is known, probed as often as by default.
    pub(crate) fn of_test() -> PathConfig {
        PathConfig {
            remote: Some(([192, 0, 2, 1], 4754).into()),
            weight: 1,
            keepalive: Duration::from_millis(200),
            dead_after: Duration::from_secs(1),
            metered: false,
            keeps_port: false,
        }
    }
}

/// One path as the line in sees it.
pub(crate) struct Path {
    pub(crate) config: PathConfig,
    /// Where the peer is now, if that is known.
    pub(crate) peer: Option<SocketAddr>,
    /// Which of this end's sockets leads there, if it is not the path's own: in a hub.
    socket: Option<PathId>,
    pub(crate) names: Names,
    /// From which other port of the peer's host an initiation came last.
    caller: Option<SocketAddr>,
    /// In a sealed tunnel: which of the peer's paths it leads to.
    pub(crate) place: Place,
    pub(crate) state: PathState,
    pub(crate) reason: Option<DownReason>,
    pub(crate) out_of_service: bool,
    /// Since when the device that it leaves by has no carrier.
    link_down: Option<Time>,
    /// It has no socket.
    waiting: bool,
    out_of_service_at_peer: bool,
    unreachable: Option<(Time, Unreachable)>,
    icmp_ignored_until: Time,
    pub(crate) rhythm: Rhythm,
    pub(crate) renewal: Renewal,
    /// The peer's end of it may go on from another port as well.
    pub(crate) peer_may_move: bool,
    /// It rests now and then, and that was said.
    pub(crate) rests: bool,
    /// When something came last from the peer's host and another port.
    pub(crate) port_changed: Option<Time>,
    pub(crate) next_probe: Time,
    /// When anything was sent last but data.
    last_sent: Time,
    pub(crate) echoes: Echoes,
    pub(crate) rtt: Rtt,
    pub(crate) loss: Loss,
    /// What share of what is sent here the peer misses, 0 to 1.
    pub(crate) loss_at_peer: f64,
    pub(crate) one_way: SmoothedDelay,
    /// One-way delay of our own newest probe that was answered, with the clocks' offset, ns.
    pub(crate) forward: Option<i64>,
    pub(crate) idle: IdleDelay,
    pub(crate) rx_packets: u64,
    pub(crate) rx_bytes: u64,
    /// Of all that is not data, with IP and UDP headers.
    pub(crate) control_tx_bytes: u64,
    pub(crate) control_rx_bytes: u64,
    pub(crate) tx_rate: Rate,
    pub(crate) rx_rate: Rate,
}

/// A tunnel's paths, by their index.
pub(crate) type Paths = [Option<Box<Path>>; MAX_PATHS];

impl Path {
    /// Those that there are.
    pub(crate) fn each(paths: &Paths) -> impl Iterator<Item = (PathId, &Path)> {
        let ids = (0..MAX_PATHS).filter_map(PathId::new);
        ids.filter_map(|id| Some((id, paths[id.index()].as_deref()?)))
    }

    pub(crate) fn new(config: PathConfig, now: Time) -> Path {
        Path {
            peer: config.remote,
            config,
            socket: None,
            names: Names::default(),
            caller: None,
            place: Place::default(),
            state: PathState::Probing,
            reason: None,
            out_of_service: false,
            link_down: None,
            waiting: false,
            out_of_service_at_peer: false,
            unreachable: None,
            icmp_ignored_until: Time::ZERO,
            rhythm: Rhythm::new(now),
            renewal: Renewal::default(),
            peer_may_move: false,
            rests: false,
            port_changed: None,
            next_probe: now,
            last_sent: now,
            echoes: Echoes::default(),
            rtt: Rtt::default(),
            loss: Loss::default(),
            loss_at_peer: 0.0,
            one_way: SmoothedDelay::default(),
            forward: None,
            idle: IdleDelay::default(),
            rx_packets: 0,
            rx_bytes: 0,
            control_tx_bytes: 0,
            control_rx_bytes: 0,
            tx_rate: Rate::default(),
            rx_rate: Rate::default(),
        }
    }

    /// The state that the facts amount to. `peer_probes`: the peer is known to answer probes.
    pub(crate) fn state_at(&self, now: Time, peer_probes: bool) -> (PathState, Option<DownReason>) {
        let down = |reason| (PathState::Down, Some(reason));
        if self.out_of_service {
            return (PathState::AdminDown, None);
        }
        if self.waiting {
            return (PathState::Waiting, None);
        }
        if self.peer.is_none() && self.link_down.is_none() {
            return (PathState::Probing, None);
        }
        if self.link_down.is_some() {
            return down(DownReason::LinkDown);
        }
        if self.out_of_service_at_peer {
            return down(DownReason::OutOfServiceAtPeer);
        }
        let dead_after = self.config.dead_after;
        let stands = match peer_probes {
            true => self.rhythm.error_stands(&self.config),
            false => dead_after,
        };
        if let Some((at, what)) = self.unreachable
            && now.since(at) < stands
        {
            return down(DownReason::Unreachable(what));
        }
        if self.rhythm.is_answered(now, dead_after) {
            (PathState::Up, None)
        } else if peer_probes && !self.rhythm.is_young(now, dead_after) {
            down(DownReason::NoAnswer(dead_after))
        } else {
            (PathState::Probing, None)
        }
    }

    /// The configured address, if the peer is elsewhere and it is time to call there.
    pub(crate) fn home_to_call(&mut self, now: Time) -> Option<SocketAddr> {
        let home = self.config.remote.filter(|&home| self.peer != Some(home))?;
        let works = self.is_answered(now);
        self.place.calls_home(now, works).then_some(home)
    }

    /// An initiation came from there, whatever became of it.
    pub(crate) fn note_caller(&mut self, from: SocketAddr) {
        let is_neighbour = |peer: SocketAddr| peer.ip() == from.ip() && peer.port() != from.port();
        if self.peer.is_some_and(is_neighbour) {
            self.caller = Some(from);
        }
    }

    /// Where besides `to` this end calls the peer, which does not answer: where it is configured to be; or, once, from where
    /// else on its host somebody called. A peer that has begun anew is there, at its own port, and can learn only from a
    /// call what is wrong at its end: a key, or its clock. Who forges calls has one datagram of the same length go to the
    /// peer's host for each.
    pub(crate) fn elsewhere(&mut self, to: SocketAddr) -> Option<SocketAddr> {
        let home = self.config.remote.filter(|&home| home != to);
        home.or_else(|| self.caller.take())
    }

    /// Whether the peer may still turn up where it is configured to be, and others have to wait.
    pub(crate) fn awaits_home(&self, now: Time) -> bool {
        self.config.remote.is_some()
            && self.place.peer_path().is_none()
            && self.rhythm.is_new(now, self.config.dead_after)
    }

    /// Whether echoes come, in service or not.
    pub(crate) fn is_answered(&self, now: Time) -> bool {
        self.rhythm.is_answered(now, self.config.dead_after)
    }

    /// Whether it carries packets, as far as probes tell.
    pub(crate) fn is_up(&self) -> bool {
        self.state == PathState::Up
    }

    /// Whether somebody says why nothing is answered: an error came back, or the peer's operator does not
    /// want it.
    pub(crate) fn is_refused(&self) -> bool {
        let refuses = |reason| {
            matches!(
                reason,
                DownReason::Unreachable(_) | DownReason::OutOfServiceAtPeer
            )
        };
        self.reason.is_some_and(refuses)
    }

    /// Whether what somebody says would be so whatever the ports. That a port is refused may be what comes of
    /// a router's mapping, which an earlier packet made.
    fn is_cut_off(&self) -> bool {
        use Unreachable::{Host, Network, NextHop};
        matches!(
            self.reason,
            Some(
                DownReason::Unreachable(Network | Host | NextHop)
                    | DownReason::OutOfServiceAtPeer
                    | DownReason::LinkDown
            )
        )
    }

    /// Whether probes leave, and other ports might be answered.
    fn is_asked(&self) -> bool {
        let leaves = !self.out_of_service && !self.waiting && self.link_down.is_none();
        leaves && !self.is_cut_off() && self.config.remote.is_some()
    }

    /// Since when probes stay without answer, though they leave, and other ports might be answered.
    fn unanswered_since(&self, now: Time) -> Option<Time> {
        let since = self.rhythm.silent_since().filter(|_| self.is_asked())?;
        (!self.is_answered(now)).then_some(since)
    }

    /// Since when so few probes are answered that other ports might be better.
    fn faint_since(&self, now: Time) -> Option<Time> {
        let rtt = self.rtt.round_trip();
        let since = self.rhythm.faint_since(now, &self.config, rtt);
        since.filter(|_| self.is_asked())
    }

    /// Whether another port is to be tried: see [`Renewal::is_due`].
    pub(crate) fn needs_renewal(&self, now: Time, soon: bool) -> bool {
        let is_silent = self
            .unanswered_since(now)
            .is_some_and(|since| self.renewal.is_due(now, since, soon));
        let is_faint = |since| self.renewal.is_due_when_faint(now, since);
        is_silent || self.faint_since(now).is_some_and(is_faint)
    }

    /// Another port is tried. Returns whether that is since too few probes are answered, and not none.
    pub(crate) fn renew(&mut self, now: Time) -> bool {
        let faint_since = self.faint_since(now);
        match faint_since {
            Some(since) => self.renewal.tried_when_faint(now, since),
            None => self.renewal.tried(now),
        }
        faint_since.is_some()
    }

    /// Until when it rests, if it does.
    pub(crate) fn rests_until(&self, now: Time) -> Option<Time> {
        let since = self.unanswered_since(now)?;
        let since = self.rhythm.heard().map_or(since, |heard| heard.max(since));
        self.renewal.rests_until(now, since)
    }

    /// When the state may change by the passing of time alone.
    pub(crate) fn state_deadline(&self, now: Time) -> Option<Time> {
        let dead_after = self.config.dead_after;
        let stands = self.rhythm.error_stands(&self.config);
        let ends = |after: Duration| {
            let (at, _) = self.unreachable?;
            Some(at + after).filter(|&end| end > now)
        };
        let unreachable = earliest(ends(dead_after), ends(stands));
        earliest(self.rhythm.deadline(now, dead_after), unreachable)
    }

    /// Whether the reorder window should wait for what this path may still bring.
    pub(crate) fn is_waited_for(&self, now: Time) -> bool {
        !self.out_of_service
            && self.link_down.is_none()
            && !self.waiting
            && !self.out_of_service_at_peer
            && self.rhythm.is_waited_for(now, self.config.dead_after)
    }

    /// What share of round trips is lost, 0 to 1.
    pub(crate) fn round_trips_lost(&self) -> f64 {
        1.0 - (1.0 - self.loss.share()) * (1.0 - self.loss_at_peer)
    }

    /// Hardly ever does it take longer until a message tells what is not under way on the path.
    pub(crate) fn longest_until_probed(&self) -> Duration {
        self.config.keepalive * 5 / 4
    }

    /// The carrier of the device that the path leaves by went or came.
    pub(crate) fn set_link(&mut self, now: Time, up: bool) {
        if self.link_down.is_some() == up {
            self.link_down = (!up).then_some(now);
            self.begin_probing(now);
        }
    }

    /// The path has no socket any more.
    pub(crate) fn close(&mut self, now: Time) {
        if !self.waiting {
            self.waiting = true;
            self.begin_probing(now);
        }
    }

    /// The path has a socket, which may have another address than the one before: whether what is sent
    /// from there arrives has to be found out.
    pub(crate) fn open(&mut self, now: Time) {
        self.waiting = false;
        self.begin_probing(now);
    }

    /// What this host says of the path's service holds wherever its peer is.
    pub(crate) fn keep_service(&mut self, before: &Path) {
        self.out_of_service = before.out_of_service;
        self.link_down = before.link_down;
        self.waiting = before.waiting;
        self.names.set_own(before.names.own());
    }

    /// Whether anything can be sent.
    pub(crate) fn is_open(&self) -> bool {
        !self.waiting
    }

    pub(crate) fn set_out_of_service(&mut self, now: Time, out: bool) {
        if self.out_of_service != out {
            self.out_of_service = out;
            self.begin_probing(now);
        }
    }

    /// An ICMP error or the kernel says that the peer cannot be reached.
    pub(crate) fn set_unreachable(&mut self, now: Time, what: Unreachable) {
        if now < self.icmp_ignored_until && self.is_answered(now) {
            return;
        }
        if self.unreachable.is_none() {
            self.next_probe = now;
        }
        self.unreachable = Some((now, what));
        self.rhythm.doubt(now);
    }

    fn begin_probing(&mut self, now: Time) {
        self.unreachable = None;
        self.rests = false;
        self.rhythm.begin(now);
        self.next_probe = now;
    }

    /// The tunnel begins to carry something, at `since`, or carries nothing any more.
    pub(crate) fn set_quick(&mut self, since: Option<Time>) {
        self.rhythm.set_quick(since);
        if let Some(now) = since {
            self.next_probe = self.next_probe.min(now);
        }
    }

    /// A peer that was not known before: nothing can have been answered until now.
    pub(crate) fn meet_peer(&mut self, now: Time) {
        if !self.rhythm.was_ever_answered() {
            self.rhythm.begin(now);
        }
    }

    /// How long after a probe that is sent now the next is due: see [`Rhythm::interval`].
    pub(crate) fn interval(&self, now: Time, leads: bool) -> Duration {
        if self.rests && !self.config.metered {
            return self.config.keepalive;
        }
        // Each attempt at another port begins anew, and may not cost more than silence would.
        if self.renewal.was_tried() && !self.rhythm.is_quick() && !self.is_answered(now) {
            return self.config.longest_pause();
        }
        // Nobody waits for it, and a budget may be used up.
        if self.config.metered && (self.out_of_service || self.out_of_service_at_peer) {
            return self.config.longest_pause();
        }
        let rtt = self.rtt.round_trip();
        let interval = self.rhythm.interval(now, &self.config, rtt, leads);
        match self.idle.is_known() {
            true => interval,
            false => self
                .rhythm
                .interval_while_measured(now, &self.config, rtt, interval),
        }
    }

    /// When a probe of this path has been without answer for longer than answers take.
    pub(crate) fn missed(&self) -> Option<Time> {
        self.rhythm.missed(&self.config, self.rtt.round_trip())
    }

    /// When one byte is to be sent, so that mappings on the way stay.
    pub(crate) fn next_byte(&self) -> Option<Time> {
        let may_send = !self.out_of_service && self.link_down.is_none() && !self.rests;
        let may_send = may_send && !self.rhythm.is_quick();
        let after = self.config.mapping_kept().filter(|_| may_send)?;
        Some(self.last_sent + after)
    }

    /// A control message of `len` bytes arrived.
    pub(crate) fn count_control(&mut self, from: SocketAddr, len: usize) {
        self.control_rx_bytes += (ip_and_udp(from) + len) as u64;
    }

    /// One is sent.
    pub(crate) fn count_control_sent(&mut self, to: SocketAddr, len: usize) {
        self.control_tx_bytes += (ip_and_udp(to) + len) as u64;
    }

    /// A datagram was sent that is not data.
    pub(crate) fn sent(&mut self, now: Time) {
        self.last_sent = now;
    }

    /// The number for a message that is sent now.
    pub(crate) fn number_sent(&mut self, now: Time) -> u32 {
        self.sent(now);
        self.echoes.number_sent(now)
    }

    /// Whether the message, were it believed, would change more than figures.
    pub(crate) fn is_news(&self, now: Time, message: &Message) -> bool {
        !self.is_answered(now) || message.out_of_service != self.out_of_service_at_peer
    }

    /// A message of the peer's session arrived, then: it will be echoed.
    pub(crate) fn hear(&mut self, arrived: Time, message: &Message) {
        self.echoes.hear(arrived, message);
    }

    /// Believes a message that echoes what we sent at `echo_sent`. The host received it at `arrived`.
    pub(crate) fn learn(&mut self, now: Time, arrived: Time, message: &Message, echo_sent: Time) {
        if self.link_down.is_some_and(|since| echo_sent > since) {
            // It leads on by another device.
            self.link_down = None;
        }
        if let Some(echo) = message.echo {
            self.echoes.came_back(echo);
            self.names.came_back(echo.number);
            let peer_held = message.sent.since(echo.received);
            let longest_held = LONGEST_HELD.max(self.config.keepalive * 2);
            let is_precise = peer_held <= longest_held || self.rtt.smoothed().is_none();
            if let Some(rtt) = arrived.since(echo_sent).checked_sub(peer_held)
                && is_precise
            {
                self.rtt.sample(now, rtt);
            }
            let received = echo.received.as_nanos();
            self.forward = Some(received.wrapping_sub(echo_sent.as_nanos()) as i64);
        }
        let unreachable = self.unreachable.take();
        if unreachable.is_some_and(|(at, _)| now.since(at) < FALSE_ALARM_WITHIN) {
            self.icmp_ignored_until = now + ICMP_DISTRUST;
        }
        self.rhythm.answered(now);
        self.renewal.answered();
        self.peer_may_move = message.may_move;
        self.rests = false;
        self.out_of_service_at_peer = message.out_of_service;
        self.loss_at_peer = f64::from(message.loss_ppm) / 1e6;
        self.loss.sample(message.tx_packets, self.rx_packets);
        let one_way = arrived.as_nanos().wrapping_sub(message.sent.as_nanos()) as i64;
        let longest = self.rtt.round_trip().map(|rtt| rtt.longest());
        let longest_ns = longest.map_or(u64::MAX, |rtt| rtt.as_nanos() as u64);
        self.one_way.sample(one_way, longest_ns);
    }

    /// The socket that leads to the peer. `own`: the path's own.
    pub(crate) fn socket(&self, own: PathId) -> PathId {
        self.socket.unwrap_or(own)
    }

    /// Whether the peer is known to be there.
    pub(crate) fn is_at(&self, own: PathId, socket: PathId, address: SocketAddr) -> bool {
        self.peer == Some(address) && self.socket(own) == socket
    }

    /// The peer is elsewhere now, and reached by this socket.
    pub(crate) fn move_peer(&mut self, now: Time, socket: PathId, to: SocketAddr) {
        self.set_link(now, true);
        self.socket = Some(socket);
        self.peer = Some(to);
        self.unreachable = None;
        self.next_probe = now;
    }

    /// Forgets what belonged to the peer's former session.
    pub(crate) fn forget_peer(&mut self) {
        self.place.forget_numbers();
        self.names.tell_again();
        self.echoes.forget_peer();
        self.loss = Loss::default();
        self.one_way = SmoothedDelay::default();
        self.forward = None;
        self.idle = IdleDelay::default();
        self.out_of_service_at_peer = false;
    }
}

/// Length of the IP header without options (RFC 791 §3.1, RFC 8200 §3) and of the UDP header.
fn ip_and_udp(peer: SocketAddr) -> usize {
    match peer {
        SocketAddr::V4(_) => 20 + 8,
        SocketAddr::V6(_) => 40 + 8,
    }
}

#[cfg(test)]
mod tests;

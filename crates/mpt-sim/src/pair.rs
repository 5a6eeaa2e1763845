//! Two ends of a tunnel, joined by links, in virtual time: every behaviour test is ten lines.
//!
//! A [`Pair`] does what the daemon does and nothing more. It hands packets from the "TUN" to the line
//! out, cuts the trains into datagrams and puts them on the links; takes what arrives into buffers
//! of the line in, polls packets, messages and events, and calls `handle_timeout` when
//! `poll_timeout` says so. What it adds is the world around the two ends: a [`Link`] for each path
//! and direction, whose rate, delay, loss and queue a test can change in mid-run; the operator, the
//! carrier and ICMP; a [`Side`] that restarts while packets are under way; and an attacker who
//! records, changes and injects datagrams.
//!
//! The two ends have different clocks, as two hosts do: nothing in the tunnel may compare times of
//! both. Times that tests see are those of the simulation, which begin at zero.
//!
//! A run is deterministic: links draw from seeds, and the order of simultaneous events is fixed
//! (arrivals before timeouts, side A before side B, paths by index).

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use mpt_core::path::{PathId, Unreachable};
use mpt_core::time::Time;
use mpt_core::tunnel::{Event, Inbound};
use mpt_core::wire::report::Report;

use crate::delay::Delay;
use crate::link::Link;

mod config;
mod end;
mod relay;

pub use config::{PairConfig, PathSpec, Side, is_sealed};
pub use end::{Carried, End, Wire};
use relay::Relay;
pub use relay::{Caught, Passed, Plan, RELAY};

/// More simultaneous rounds than this at one moment are a livelock.
const MAX_ROUNDS_AT_ONCE: u32 = 10_000;

/// What stands between the ends: sees each datagram with the side that sent it, may change it, and
/// says whether it goes on.
pub type OnTheWay = Box<dyn FnMut(Side, &mut Wire) -> bool>;

/// Two ends and the links between them.
pub struct Pair {
    config: PairConfig,
    now: Time,
    ends: [End; 2],
    /// By path, then by the side that sends.
    links: Vec<[Link<Carried>; 2]>,
    /// What came over the links beside the tunnel, by the side that it came to.
    beside: [Vec<(Time, Vec<u8>)>; 2],
    /// Where each side is on each path, if not where it began.
    moved: HashMap<(Side, usize), SocketAddr>,
    on_the_way: Option<OnTheWay>,
    relay: Option<Relay>,
    recording: Option<Vec<(Side, Wire)>>,
    /// How many daemons were started so far: sessions differ by it.
    starts: u64,
}

impl Pair {
    /// Both ends start at time zero and have not yet sent anything.
    #[must_use]
    pub fn new(config: PairConfig) -> Pair {
        let links = (0u64..)
            .zip(&config.paths)
            .map(|(path, spec)| {
                let seed = config.seed.wrapping_mul(1000).wrapping_add(2 * path);
                let [there, back] = spec.links.clone();
                [Link::new(there, seed), Link::new(back, seed + 1)]
            })
            .collect();
        let ends = Side::BOTH.map(|side| config.start(side, side as u64, Time::ZERO));
        let mut pair = Pair {
            config,
            now: Time::ZERO,
            ends,
            links,
            beside: Default::default(),
            moved: HashMap::new(),
            on_the_way: None,
            relay: None,
            recording: None,
            starts: 2,
        };
        for side in Side::BOTH {
            pair.flush(side);
        }
        pair
    }

    /// A pair that has run for `warm_up` already, so that all paths are up.
    #[must_use]
    pub fn running(config: PairConfig, warm_up: Duration) -> Pair {
        let mut pair = Pair::new(config);
        pair.run_for(warm_up);
        pair
    }

    /// The simulation's time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// An end, to read its counters.
    #[must_use]
    pub fn end(&self, side: Side) -> &End {
        &self.ends[side.index()]
    }

    /// An end, to change its settings.
    pub fn end_mut(&mut self, side: Side) -> &mut End {
        &mut self.ends[side.index()]
    }

    /// The link of path `path` over which `from` sends.
    pub fn link(&mut self, path: usize, from: Side) -> &mut Link<Carried> {
        &mut self.links[path][from.index()]
    }

    /// Stops or restores both directions of a path without a word to either end.
    pub fn set_links_up(&mut self, path: usize, up: bool) {
        for link in &mut self.links[path] {
            link.config.up = up;
        }
    }

    /// A path takes this long each way from now on, and has no jitter.
    pub fn set_delay(&mut self, path: usize, delay: Duration) {
        let ns = delay.as_nanos() as u64;
        for link in &mut self.links[path] {
            link.config.delay = Delay::Constant { ns };
        }
    }

    /// The daemon of `side` starts anew: another session, nothing remembered. What is under way
    /// stays under way.
    pub fn restart(&mut self, side: Side) {
        let mut end = self.config.start(side, self.starts, self.now);
        self.starts += 1;
        end.keep_from(&mut self.ends[side.index()]);
        self.ends[side.index()] = end;
    }

    /// Where `side` is reached over a path.
    #[must_use]
    pub fn address(&self, side: Side, path: usize) -> SocketAddr {
        let moved = self.moved.get(&(side, path)).copied();
        moved.unwrap_or_else(|| self.config.address(side, path))
    }

    /// From now on `side` sends from, and is reached at, another address on a path, as behind a NAT that
    /// forgot it. What is sent to the address of before is lost.
    pub fn move_to(&mut self, side: Side, path: usize, address: SocketAddr) {
        self.moved.insert((side, path), address);
    }

    /// The host at `side` sends a packet into the tunnel.
    pub fn send(&mut self, side: Side, packet: impl AsRef<[u8]>) {
        self.send_batch(side, [packet]);
    }

    /// The host at `side` sends packets into the tunnel that the daemon reads as one batch.
    pub fn send_batch(&mut self, side: Side, packets: impl IntoIterator<Item = impl AsRef<[u8]>>) {
        for packet in packets {
            self.ends[side.index()].handle_tun(self.now, packet.as_ref());
        }
        self.flush(side);
    }

    /// Another host at `side` sends packets over the link of a path, beside the tunnel.
    pub fn send_beside(
        &mut self,
        side: Side,
        path: usize,
        packets: impl IntoIterator<Item = Vec<u8>>,
    ) {
        let link = &mut self.links[path][side.index()];
        for packet in packets {
            link.send(self.now.as_nanos(), packet.len(), Carried::Beside(packet));
        }
    }

    /// Packets that came to the other host at `side` since the last call, with the time.
    pub fn delivered_beside(&mut self, side: Side) -> Vec<(Time, Vec<u8>)> {
        std::mem::take(&mut self.beside[side.index()])
    }

    /// A datagram from anywhere arrives at `to` on the socket of path `path`.
    pub fn inject(&mut self, to: Side, path: usize, from: SocketAddr, tos: u8, bytes: &[u8]) {
        let Some(path) = PathId::new(path) else {
            return;
        };
        let wire = Wire {
            path,
            tos,
            bytes: bytes.to_vec(),
        };
        self.ends[to.index()].receive(self.now, from, &[wire]);
        self.flush(to);
    }

    /// A datagram arrives at `to` that looks as if its peer had sent it.
    pub fn inject_as_peer(&mut self, to: Side, wire: &Wire) {
        let from = self.address(to.other(), wire.path.index());
        self.inject(to, wire.path.index(), from, wire.tos, &wire.bytes);
    }

    /// From now on, keeps a copy of each datagram that is put on a link.
    pub fn record(&mut self) {
        self.recording = Some(Vec::new());
    }

    /// What was recorded, with the side that sent it; recording ends.
    pub fn recorded(&mut self) -> Vec<(Side, Wire)> {
        self.recording.take().unwrap_or_default()
    }

    /// Puts something between the ends; see [`OnTheWay`].
    pub fn on_the_way(&mut self, tap: impl FnMut(Side, &mut Wire) -> bool + 'static) {
        self.on_the_way = Some(Box::new(tap));
    }

    /// Lets datagrams pass untouched again.
    pub fn off_the_way(&mut self) {
        self.on_the_way = None;
    }

    /// From now on somebody has the path in his hand; see [`Plan`]. What either end sends to [`RELAY`]
    /// over whichever path goes to him as well.
    pub fn set_relay(
        &mut self,
        path: usize,
        plan: impl FnMut(Caught) -> Option<Vec<Passed>> + 'static,
    ) {
        self.relay = Some(Relay::new(path, Box::new(plan)));
    }

    /// He is gone, with all that he held back.
    pub fn remove_relay(&mut self) {
        self.relay = None;
    }

    /// The operator of `side` takes a path out of service, or back into it.
    pub fn set_out_of_service(&mut self, side: Side, path: usize, out: bool) {
        self.tell(side, path, |inbound, now, path, _| {
            inbound.set_out_of_service(now, path, out);
        });
    }

    /// The device of a path at `side` loses its carrier or gets it back.
    pub fn set_carrier(&mut self, side: Side, path: usize, up: bool) {
        self.tell(side, path, |inbound, now, path, _| {
            inbound.handle_link(now, path, up);
        });
    }

    /// An ICMP error says to `side` that its peer cannot be reached over a path.
    pub fn icmp_unreachable(&mut self, side: Side, path: usize, what: Unreachable) {
        self.tell(side, path, |inbound, now, path, to| {
            inbound.handle_unreachable(now, path, to, what);
        });
    }

    /// An ICMP error says to `side` that a link of a path takes `link_mtu` bytes at most.
    pub fn icmp_too_big(&mut self, side: Side, path: usize, link_mtu: u32) {
        self.tell(side, path, |inbound, now, path, to| {
            inbound.handle_too_big(now, path, to, link_mtu);
        });
    }

    /// Packets that came out of the tunnel at `side` since the last call, with the time.
    pub fn delivered(&mut self, side: Side) -> Vec<(Time, Vec<u8>)> {
        std::mem::take(&mut self.ends[side.index()].delivered)
    }

    /// ICMP messages that the tunnel itself wrote to the TUN of `side` since the last call.
    pub fn refused(&mut self, side: Side) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.ends[side.index()].refused)
    }

    /// What `side` reported since the last call, with the time.
    pub fn events(&mut self, side: Side) -> Vec<(Time, Event)> {
        std::mem::take(&mut self.ends[side.index()].events)
    }

    /// The peer's reports that `side` believed since the last call, with the time.
    pub fn reports(&mut self, side: Side) -> Vec<(Time, Report)> {
        std::mem::take(&mut self.ends[side.index()].reports)
    }

    /// Lets time pass.
    pub fn run_for(&mut self, span: Duration) {
        self.run_until(self.now + span);
    }

    /// Lets time pass up to `until`.
    pub fn run_until(&mut self, until: Time) {
        while self.step(until) {}
    }

    /// Goes to the next moment at which something happens, at most to `until`, and does what is due
    /// there. Returns `false` when time has reached `until` and nothing is due any more.
    ///
    /// # Panics
    /// When an end asks for a timeout at the same moment for ever.
    pub fn step(&mut self, until: Time) -> bool {
        let next = self.next_event().map(|at| at.max(self.now));
        let Some(next) = next.filter(|&at| at <= until) else {
            self.now = self.now.max(until);
            return false;
        };
        self.now = next;
        for round in 0.. {
            assert!(round < MAX_ROUNDS_AT_ONCE, "nothing ends at {next:?}");
            self.arrivals();
            for side in Side::BOTH {
                self.ends[side.index()].handle_timeout(next);
                self.flush(side);
            }
            if self.next_event().is_none_or(|at| at > next) {
                break;
            }
        }
        true
    }

    fn next_event(&mut self) -> Option<Time> {
        let links = self.links.iter().flatten().filter_map(Link::next).min();
        let ends = self.ends.iter_mut().filter_map(End::next_timeout).min();
        let links = links.map(|at_ns| at_ns.next_multiple_of(self.receives_every_ns()));
        let relay = self.relay.as_ref().and_then(Relay::next);
        let all = links.map(Time::from_nanos).into_iter().chain(ends);
        all.chain(relay).min()
    }

    fn receives_every_ns(&self) -> u64 {
        let every = self.config.receives_every.as_nanos();
        u64::try_from(every).unwrap_or(u64::MAX).max(1)
    }

    fn arrivals(&mut self) {
        if !self.now.as_nanos().is_multiple_of(self.receives_every_ns()) {
            return;
        }
        for side in Side::BOTH {
            for path in 0..self.links.len() {
                let from = self.address(side.other(), path);
                let link = &mut self.links[path][side.other().index()];
                let end = &mut self.ends[side.index()];
                let now_ns = self.now.as_nanos();
                let mut arrived: Vec<Wire> = Vec::new();
                for carried in std::iter::from_fn(|| link.deliver(now_ns)) {
                    match carried {
                        Carried::Own(wire) => arrived.push(wire),
                        Carried::Beside(packet) => {
                            self.beside[side.index()].push((self.now, packet));
                        }
                    }
                }
                if let Some(relay) = self.relay.as_mut().filter(|relay| relay.path == path) {
                    arrived.retain(|wire| {
                        let caught = Caught {
                            from: side.other(),
                            to_relay: false,
                            wire: wire.clone(),
                        };
                        !relay.take(self.now, caught)
                    });
                }
                end.receive(self.now, from, &arrived);
            }
            self.flush(side);
        }
        while let Some(passed) = self
            .relay
            .as_mut()
            .and_then(|relay| relay.deliver(self.now))
        {
            let (to, from) = (passed.to, passed.from);
            self.ends[to.index()].receive(self.now, from, &[passed.wire]);
            self.flush(to);
        }
    }

    fn tell(
        &mut self,
        side: Side,
        path: usize,
        what: impl FnOnce(&mut Inbound, Time, PathId, SocketAddr),
    ) {
        let to = self.address(side.other(), path);
        if let Some(path) = PathId::new(path) {
            let end = &mut self.ends[side.index()];
            let local = end.local(self.now);
            what(&mut end.inbound, local, path, to);
            self.flush(side);
        }
    }

    /// The end of a batch: takes from an end all that it has, and puts on the links what it sends.
    fn flush(&mut self, side: Side) {
        let end = &mut self.ends[side.index()];
        end.poll(self.now);
        let sent = end.poll_transmits(self.now);
        for (to, mut wire) in sent {
            if to == RELAY {
                if let Some(relay) = &mut self.relay {
                    let caught = Caught {
                        from: side,
                        to_relay: true,
                        wire,
                    };
                    relay.take(self.now, caught);
                }
                continue;
            }
            if to != self.address(side.other(), wire.path.index()) {
                continue;
            }
            let goes_on = match &mut self.on_the_way {
                Some(tap) => tap(side, &mut wire),
                None => true,
            };
            if !goes_on {
                continue;
            }
            if let Some(recording) = &mut self.recording {
                recording.push((side, wire.clone()));
            }
            let path = wire.path.index();
            let overhead = if self.config.paths[path].v6 { 48 } else { 28 };
            let link = &mut self.links[path][side.index()];
            link.send(
                self.now.as_nanos(),
                wire.bytes.len() + overhead,
                Carried::Own(wire),
            );
        }
    }
}

#[cfg(test)]
mod tests;

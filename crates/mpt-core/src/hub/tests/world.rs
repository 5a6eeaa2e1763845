//! The world of the tests: a hub with two sockets, clients with two paths, and what is under way between them.

mod ends;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

pub(super) use ends::{Client, Spec, address, call_of, caller_keys, worker_of_two};
use ends::{PATHS, client, client_key, config, cut, hub, hub_address, packet};

use crate::control::PathStatus;
use crate::control::drops::{DropReason, Drops};
use crate::crypto::PresharedKey;
use crate::hub::{Came, HubInbound, HubNews, HubOutbound, HubSlot, PeerKeys, Prefix, Worker};
use crate::path::{MAX_PATHS, PathId};
use crate::time::{Time, earliest};
use crate::tunnel::{Datagram, Event};
use crate::wire::report::{MAX_REPORT_BYTES, Report};
use crate::wire::vnet::VnetHeader;

/// From where nobody's peer is.
fn stranger() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], 9))
}

/// By path, one way.
const DELAYS: [Duration; PATHS] = [Duration::from_millis(10), Duration::from_millis(35)];

pub(super) struct World {
    pub(super) now: Time,
    pub(super) hub_inbound: HubInbound,
    pub(super) hub_outbound: HubOutbound,
    memory: usize,
    pub(super) clients: Vec<Client>,
    pub(super) slots: Vec<HubSlot>,
    specs: Vec<Spec>,
    /// By arrival and number.
    wire: BTreeMap<(Time, u64), Flight>,
    flights: u64,
    /// Datagrams that the hub has sent to each client.
    pub(super) sent_to: Vec<u64>,
    hub_events: Vec<(HubSlot, Event)>,
    pub(super) records: bool,
    recorded: Vec<Flight>,
    starts: u8,
    /// Those that clients were made to send.
    reports: u32,
    /// Datagrams that the hub's line in can handle in a millisecond, if that is little.
    pub(super) handles: Option<u64>,
    served: Time,
    /// Nothing passes to this socket of the hub or from it.
    cut: Option<usize>,
}

#[derive(Clone)]
struct Flight {
    from: SocketAddr,
    to: SocketAddr,
    tos: u8,
    bytes: Vec<u8>,
}

/// A datagram of a packet of this length is one that a client may lose.
const LONG: usize = 1000;

fn client_loses(client: &mut Client, path: usize, len: usize) -> bool {
    let is_lost = path == 1 && client.loses_second || len > LONG && client.loses > 0;
    if is_lost && len > LONG {
        client.loses = client.loses.saturating_sub(1);
    }
    is_lost
}

const MILLISECOND: Duration = Duration::from_millis(1);

impl World {
    pub(super) fn new(specs: &[Spec]) -> World {
        World::with_memory(specs, usize::MAX)
    }

    /// Of a hub whose lines have so many bytes each for the packets of all peers.
    pub(super) fn with_memory(specs: &[Spec], memory: usize) -> World {
        let now = Time::from_nanos(1_000_000_000);
        let mut world = World {
            now,
            hub_inbound: hub(now, 0, memory),
            hub_outbound: HubOutbound::new(Worker::ALONE, memory),
            memory,
            clients: Vec::new(),
            slots: Vec::new(),
            specs: specs.to_vec(),
            wire: BTreeMap::new(),
            flights: 0,
            sent_to: vec![0; specs.len()],
            hub_events: Vec::new(),
            records: false,
            recorded: Vec::new(),
            starts: 0,
            reports: 1_000_000,
            handles: None,
            served: now,
            cut: None,
        };
        world.set_peers();
        for (number, spec) in specs.iter().enumerate() {
            let client = client(now, number, spec);
            world.clients.push(client);
        }
        world.flush();
        world
    }

    fn set_peers(&mut self) {
        let mut exchange = Vec::new();
        self.slots.clear();
        for (client, spec) in self.specs.iter().enumerate() {
            let slot = HubSlot::new(spec.twin_of.unwrap_or(client)).unwrap();
            self.slots.push(slot);
            let mut prefixes = Vec::new();
            if spec.twin_of.is_none() && !spec.is_stranger {
                let keys = PeerKeys {
                    public_key: client_key(client).public_key(),
                    psk: PresharedKey::from_random([client as u8; 32]),
                };
                self.hub_outbound.set_peer(slot, keys.public_key);
                self.hub_inbound.set_peer(slot, keys);
                prefixes.push((address(client).into(), 32));
                prefixes.extend(spec.has_rest.then(|| (Ipv4Addr::UNSPECIFIED.into(), 0)));
            }
            if spec.twin_of.is_none() {
                let prefixes: Arc<[Prefix]> = prefixes.into();
                exchange.push((slot, prefixes));
            }
        }
        self.hub_inbound.set_allowed(&exchange);
        self.hub_outbound.set_allowed(&exchange);
    }

    /// The hub is killed.
    pub(super) fn stop_hub(&mut self) {
        self.hub_inbound = hub(self.now, 0, self.memory);
        self.hub_outbound = HubOutbound::new(Worker::ALONE, self.memory);
    }

    /// The hub is killed and starts anew.
    pub(super) fn restart_hub(&mut self) {
        self.starts += 1;
        self.hub_inbound = hub(self.now, self.starts.into(), self.memory);
        self.hub_outbound = HubOutbound::new(Worker::ALONE, self.memory);
        self.set_peers();
        self.flush();
    }

    /// The client may send and be sent so many bits a second.
    pub(super) fn limit(&mut self, client: usize, bits_per_second: Option<u64>) {
        let (now, slot) = (self.now, self.slots[client]);
        self.hub_inbound.set_rate_limit(now, slot, bits_per_second);
        self.hub_outbound.set_rate_limit(now, slot, bits_per_second);
    }

    pub(super) fn remove(&mut self, client: usize) {
        let slot = self.slots[client];
        self.specs[client].is_stranger = true;
        self.hub_inbound.remove_peer(slot);
        self.set_peers();
        self.flush();
        self.hub_outbound.forget_peer(slot);
    }

    /// The client's path calls another of the hub's sockets.
    pub(super) fn move_path(&mut self, client: usize, path: usize, socket: usize) {
        let config = config(Some(hub_address(socket)));
        let id = PathId::new(path).unwrap();
        let client = &mut self.clients[client];
        client.inbound.set_path(self.now, id, config);
        client.outbound.set_path(id, &config);
        self.flush();
    }

    /// The client's host sends so many packets.
    pub(super) fn send(&mut self, client: usize, from: Ipv4Addr, to: Ipv4Addr, packets: u64) {
        self.send_long(client, from, to, (packets, 200));
    }

    /// The same, of packets of that length in bytes.
    pub(super) fn send_long(
        &mut self,
        client: usize,
        from: Ipv4Addr,
        to: Ipv4Addr,
        (packets, len): (u64, u16),
    ) {
        for _ in 0..packets {
            self.clients[client].outbound.handle_tun(
                self.now,
                &VnetHeader::default(),
                &mut packet(from, to, len),
            );
        }
        self.flush();
    }

    /// The hub's host sends so many packets of that length to the client.
    pub(super) fn send_to(&mut self, client: usize, (packets, len): (u64, u16)) {
        let (header, from) = (VnetHeader::default(), Ipv4Addr::new(10, 99, 0, 1));
        for _ in 0..packets {
            let mut packet = packet(from, address(client), len);
            let _ = self.hub_outbound.handle_tun(self.now, &header, &mut packet);
        }
        self.flush();
    }

    pub(super) fn run_for(&mut self, span: Duration) {
        let end = self.now + span;
        let mut rounds = 0u64;
        loop {
            let mut next = self.wire.first_key_value().map(|((at, _), _)| *at);
            next = earliest(next, self.hub_inbound.poll_timeout());
            next = earliest(next, self.hub_outbound.poll_timeout());
            for client in &mut self.clients {
                next = earliest(next, client.inbound.poll_timeout());
                next = earliest(next, client.outbound.poll_timeout());
            }
            if self.hub_inbound.is_waiting() {
                next = earliest(next, Some(self.served + MILLISECOND));
            }
            let Some(at) = next.filter(|at| *at <= end) else {
                break;
            };
            rounds += 1;
            assert!(rounds < 10_000_000, "it does not come to rest");
            self.now = self.now.max(at);
            self.deliver();
            self.serve();
            self.time_out();
            self.flush();
        }
        self.now = end;
    }

    /// A slow hub handles what it can.
    fn serve(&mut self) {
        if let Some(most) = self.handles
            && self.now >= self.served + MILLISECOND
        {
            self.served = self.now;
            self.hub_inbound.serve(self.now, most);
        }
    }

    fn deliver(&mut self) {
        while let Some(entry) = self.wire.first_entry() {
            if entry.key().0 > self.now {
                return;
            }
            let flight = entry.remove();
            self.arrive(flight);
        }
    }

    fn arrive(&mut self, flight: Flight) {
        let now = self.now;
        if let Some(socket) = (0..PATHS).find(|&socket| hub_address(socket) == flight.to) {
            let socket = PathId::new(socket).unwrap();
            let came = Came {
                socket,
                from: flight.from,
                tos: flight.tos,
                segment_size: None,
                waited: Duration::ZERO,
            };
            return match self.handles {
                Some(_) => self.hub_inbound.enqueue(now, came, &flight.bytes),
                None => self.hub_inbound.handle_datagram(now, came, &flight.bytes),
            };
        }
        for client in &mut self.clients {
            let path = client.local.iter().position(|local| *local == flight.to);
            if let Some(path) = path.and_then(PathId::new)
                && !client.is_off
            {
                client.heard += 1;
                let mut buffer = client.inbound.take_buffer().expect("one is free");
                buffer.as_mut()[..flight.bytes.len()].copy_from_slice(&flight.bytes);
                let datagram = Datagram {
                    path,
                    from: flight.from,
                    tos: flight.tos,
                    buffer,
                    len: flight.bytes.len(),
                    segment_size: None,
                    truncated: false,
                    waited: Duration::ZERO,
                };
                client.inbound.handle_datagram(now, datagram);
            }
        }
    }

    fn time_out(&mut self) {
        let now = self.now;
        self.hub_inbound.handle_timeout(now);
        while self.hub_outbound.handle_due(now) {}
        for client in &mut self.clients {
            if client.inbound.poll_timeout().is_some_and(|at| at <= now) {
                client.inbound.handle_timeout(now);
            }
            if client.outbound.poll_timeout().is_some_and(|at| at <= now) {
                client.outbound.handle_timeout(now);
            }
        }
    }

    /// Polls everything, and puts what is sent on its way.
    fn flush(&mut self) {
        for client in 0..self.clients.len() {
            self.flush_client(client);
        }
        self.flush_hub();
    }

    fn flush_client(&mut self, number: usize) {
        let now = self.now;
        let mut sent = Vec::new();
        let client = &mut self.clients[number];
        client.inbound.drain_tun(|_, packet| {
            match packet[9] {
                1 => client.unreachable += 1,
                _ => client.delivered += 1,
            }
            true
        });
        while let Some(news) = client.inbound.poll_news() {
            client.outbound.learn(now, news);
        }
        while let Some(transmit) = client.outbound.poll_transmit() {
            cut(&transmit, &mut sent);
        }
        if client.outbound.poll_wake() {
            client.inbound.wake(now);
        }
        while let Some(transmit) = client.inbound.poll_transmit() {
            cut(&transmit, &mut sent);
        }
        while client.inbound.poll_event().is_some() {}
        let (local, is_silent) = (client.local, client.is_off || client.is_mute);
        for (path, _, to, tos, bytes) in sent {
            let is_lost = client_loses(&mut self.clients[number], path, bytes.len());
            if !is_silent && !is_lost {
                let flight = Flight {
                    from: local[path],
                    to,
                    tos,
                    bytes,
                };
                if self.records {
                    self.recorded.push(flight.clone());
                }
                self.put(DELAYS[path], flight);
            }
        }
    }

    fn flush_hub(&mut self) {
        let now = self.now;
        let (mut sent, mut for_tun) = (Vec::new(), Vec::new());
        loop {
            while let Some(news) = self.hub_inbound.poll_news() {
                self.hub_outbound.learn(now, news);
            }
            let Some(slot) = self.hub_inbound.poll_touched() else {
                break;
            };
            if let Some(inbound) = self.hub_inbound.peer(slot) {
                inbound.drain_tun(|_, packet| {
                    for_tun.push(packet.to_vec());
                    true
                });
                while let Some(news) = inbound.poll_news() {
                    self.hub_outbound.learn(now, HubNews::Of(slot, news));
                }
                while let Some(transmit) = inbound.poll_transmit() {
                    cut(&transmit, &mut sent);
                }
                while let Some(event) = inbound.poll_event() {
                    self.hub_events.push((slot, event));
                }
            }
            self.hub_inbound.settle(now, slot, false);
        }
        // The hub's host forwards from client to client.
        for mut packet in for_tun {
            let header = VnetHeader::default();
            self.hub_outbound.handle_tun(now, &header, &mut packet);
        }
        while let Some(mut message) = self.hub_outbound.poll_tun() {
            let header = VnetHeader::default();
            self.hub_outbound.handle_tun(now, &header, &mut message);
        }
        let mut woken = Vec::new();
        while let Some(slot) = self.hub_outbound.poll_touched() {
            if let Some(outbound) = self.hub_outbound.peer(slot) {
                while let Some(transmit) = outbound.poll_transmit() {
                    cut(&transmit, &mut sent);
                }
                if outbound.poll_wake() {
                    woken.push(slot);
                }
            }
            self.hub_outbound.settle(slot);
        }
        while let Some((socket, to, bytes)) = self.hub_inbound.poll_reply() {
            sent.push((0, socket.index(), to, 0, bytes.to_vec()));
        }
        for (_, socket, to, tos, bytes) in sent {
            let whose = |client: &Client| client.local.iter().position(|local| *local == to);
            let found = self.clients.iter().enumerate();
            let mut found = found.filter_map(|(number, client)| Some((number, whose(client)?)));
            let Some((client, path)) = found.next() else {
                continue;
            };
            self.sent_to[client] += 1;
            let from = hub_address(socket);
            let flight = Flight {
                from,
                to,
                tos,
                bytes,
            };
            self.put(DELAYS[path], flight);
        }
        if !woken.is_empty() {
            for slot in woken {
                self.hub_inbound.wake(now, slot);
            }
            self.flush_hub();
        }
    }

    fn put(&mut self, delay: Duration, flight: Flight) {
        let cut = self.cut.map(hub_address);
        if cut.is_some_and(|cut| [flight.from, flight.to].contains(&cut)) {
            return;
        }
        self.flights += 1;
        self.wire.insert((self.now + delay, self.flights), flight);
    }

    /// What was recorded of initiations comes again.
    pub(super) fn repeat_initiations(&mut self) {
        for flight in std::mem::take(&mut self.recorded) {
            if flight.bytes.starts_with(&[0, 0, 0x88, 0xb5, 3]) {
                self.put(DELAYS[0], flight);
            }
        }
    }

    /// Somebody sends the hub so many initiations that are none.
    pub(super) fn flood(&mut self, packets: u64) {
        let mut bytes = vec![7; 160];
        bytes[..5].copy_from_slice(&[0, 0, 0x88, 0xb5, 3]);
        self.flood_with(stranger(), packets, &bytes);
    }

    /// Somebody sends the hub so many datagrams that say they are of that peer, and are not.
    pub(super) fn flood_as(&mut self, client: usize, packets: u64) {
        let index = (self.slots[client].number() as u32) << HubSlot::OWN_BITS | 2;
        let mut bytes = vec![7; 1400];
        bytes[..4].copy_from_slice(&[0x30, 0, 0x88, 0xb6]);
        bytes[4..8].copy_from_slice(&index.to_be_bytes());
        self.flood_with(stranger(), packets, &bytes);
    }

    /// The client sends so many reports over its first path, each newer than the last.
    pub(super) fn report(&mut self, client: usize, reports: u64) {
        let (now, session) = (self.now, 500 + client as u64);
        let inbound = self.hub_inbound.peer(self.slots[client]);
        let about = inbound.map_or(1, |inbound| inbound.own_session());
        for _ in 0..reports {
            self.reports += 1;
            let report = Report::of_test(self.reports, session, about, now);
            let mut message = [0; MAX_REPORT_BYTES];
            let len = report.emit(&mut message);
            let client = &mut self.clients[client];
            let bytes = client
                .inbound
                .seal_control(PathId::new(0).unwrap(), &message[..len]);
            let flight = Flight {
                from: client.local[0],
                to: hub_address(0),
                tos: 0,
                bytes,
            };
            self.put(DELAYS[0], flight);
        }
    }

    /// Somebody sends from the client's address so many messages that look like the client's newest, and that it has not sealed.
    pub(super) fn forge(&mut self, client: usize, messages: u64) {
        let mut bytes = self.clients[client]
            .inbound
            .seal_control(PathId::new(0).unwrap(), &[1; 64]);
        // The tag is another's.
        *bytes.last_mut().unwrap() ^= 1;
        self.flood_with(self.clients[client].local[0], messages, &bytes);
    }

    fn flood_with(&mut self, from: SocketAddr, packets: u64, bytes: &[u8]) {
        for _ in 0..packets {
            let flight = Flight {
                from,
                to: hub_address(0),
                tos: 0,
                bytes: bytes.to_vec(),
            };
            self.put(DELAYS[0], flight);
        }
    }

    /// The carrier of a socket's device is there, or it is not. `cut`: nobody comes by another.
    pub(super) fn set_link(&mut self, socket: usize, up: bool, cut: bool) {
        self.cut = cut.then_some(socket);
        let socket = PathId::new(socket).unwrap();
        self.hub_inbound.handle_link(self.now, socket, up);
        self.flush();
    }

    /// A socket is taken out of the hub's configuration.
    pub(super) fn remove_socket(&mut self, socket: usize) {
        let now = self.now;
        let mut called = [Some(config(None)); MAX_PATHS];
        called[socket] = None;
        self.cut = Some(socket);
        self.hub_inbound.configure(
            |config| config.called = called,
            |peer| peer.set_called(now, called),
        );
        self.flush();
    }

    /// The hub's host has slept.
    pub(super) fn resume_hub(&mut self) {
        self.hub_inbound.handle_resume(self.now);
        self.flush();
    }

    pub(super) fn paths_at_hub(&mut self, client: usize) -> Vec<PathStatus> {
        let Some(inbound) = self.hub_inbound.peer(self.slots[client]) else {
            return Vec::new();
        };
        let ids: Vec<PathId> = inbound.paths().collect();
        let status = |id| {
            let mut status = PathStatus::default();
            inbound.report_path(id, &mut status);
            status
        };
        ids.into_iter().map(status).collect()
    }

    /// What the hub has dropped, by reason.
    pub(super) fn hub_drops(&self) -> Vec<(DropReason, u64)> {
        let mut drops: Drops = self.hub_inbound.total().drops;
        drops.add(&self.hub_outbound.total().2);
        let all = DropReason::ALL.iter().map(|why| (*why, drops.of(*why)));
        all.filter(|(_, count)| *count > 0).collect()
    }

    /// How often the client was another one than before.
    pub(super) fn restarts(&self, client: usize) -> usize {
        let slot = self.slots[client];
        let is_one = |(of, event): &&(HubSlot, Event)| {
            *of == slot && matches!(event, Event::PeerSession { restarted, .. } if *restarted)
        };
        self.hub_events.iter().filter(is_one).count()
    }
}

//! All lines of two workers in threads of their own, as the daemon runs them, while a peer comes and goes.
//!
//! The third worker is the test: it hands packets, stray datagrams and calls to the other two, which have a peer each.
//! The peers' ends are cores over real sockets.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mpt_core::crypto::{CryptoConfig, Entropy, PresharedKey, PrivateKey, Sessions};
use mpt_core::hub::{Came, HubConfig, HubInbound, HubSlot, PeerKeys, Prefix, Worker};
use mpt_core::path::{MAX_PATHS, PathConfig, PathId};
use mpt_core::receive::coalesce::Accepts;
use mpt_core::send::scheduler::Policy;
use mpt_core::send::scheduler::law::Law;
use mpt_core::tunnel::{Datagram, Inbound, Outbound, ReorderSettings, TunnelConfig, sealed_tunnel};
use tokio::sync::oneshot;

use super::*;
use crate::config::Offload;
use crate::hub::{PeerChanges, SetPeer, Wakes, downlink, uplink};
use crate::udp::{HubSockets, PathSocket};
use crate::{clock, downlink as lines_in, uplink as lines_out};

/// Rounds in which bob comes and goes.
const ROUNDS: u64 = 8;
/// What a round waits for comes within this, on a machine that has other things to do as well.
const PATIENCE: Duration = Duration::from_secs(20);
const WORKERS: usize = 3;
/// Alice is the first worker's, bob the second's; the third, which is the test, has nobody.
const ALICE: usize = 0;
const BOB: usize = 1;
const TEST: usize = 2;

fn entropy() -> Entropy {
    Box::new(|out| {
        let flags = rustix::rand::GetRandomFlags::empty();
        assert_eq!(rustix::rand::getrandom(&mut *out, flags), Ok(out.len()));
    })
}

fn since_1970() -> Duration {
    std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap()
}

fn key(number: usize) -> PrivateKey {
    PrivateKey::from_random([number as u8 + 1; 32])
}

fn hub_key() -> PrivateKey {
    PrivateKey::from_random([77; 32])
}

fn slot(peer: usize) -> HubSlot {
    HubSlot::new(peer).unwrap()
}

fn path() -> PathId {
    PathId::new(0).unwrap()
}

fn path_config(remote: Option<SocketAddr>) -> PathConfig {
    PathConfig {
        remote,
        weight: 100,
        keepalive: Duration::from_millis(200),
        dead_after: Duration::from_secs(1),
        metered: false,
        keeps_port: true,
    }
}

fn tunnel_config(session: u64) -> TunnelConfig {
    TunnelConfig {
        session,
        key: None,
        mtu: 1400,
        reorder: ReorderSettings::default(),
        policy: Policy::Adaptive,
        recovery: true,
        accepts: Accepts::NONE,
        receives_trains: false,
        law: &Law::LAW,
    }
}

fn hub_config(number: usize) -> HubConfig {
    let mut called = [None; MAX_PATHS];
    called[0] = Some(path_config(None));
    HubConfig {
        tunnel: tunnel_config(1),
        clamps_mss: true,
        private_key: hub_key(),
        hardware_aes: mpt_core::crypto::has_hardware_aes(),
        called,
        worker: Worker::new(number, WORKERS).unwrap(),
        memory: usize::MAX,
        entropy: Box::new(entropy),
        wall: Box::new(|| Box::new(|_| since_1970())),
    }
}

const HUB: [u8; 4] = [10, 99, 0, 1];

fn inner(peer: usize) -> [u8; 4] {
    [10, 99, 0, 2 + peer as u8]
}

fn packet(from: [u8; 4], to: [u8; 4]) -> Vec<u8> {
    let mut bytes = vec![0; 600];
    bytes[0] = 0x45;
    bytes[2..4].copy_from_slice(&600u16.to_be_bytes());
    (bytes[8], bytes[9]) = (64, 253);
    bytes[12..16].copy_from_slice(&from);
    bytes[16..20].copy_from_slice(&to);
    bytes
}

/// A peer's own end.
struct Peer {
    inbound: Inbound,
    outbound: Outbound,
    socket: UdpSocket,
    /// Packets that have come out of its tunnel.
    delivered: u64,
    sent: u64,
}

impl Peer {
    fn new(number: usize, hub: SocketAddr) -> Peer {
        let mut random = [0; 8];
        entropy()(&mut random);
        let session = u64::from_ne_bytes(random).max(1);
        let crypto = CryptoConfig {
            private_key: key(number),
            peer_public_key: hub_key().public_key(),
            psk: PresharedKey::none(),
            session,
            hardware_aes: mpt_core::crypto::has_hardware_aes(),
        };
        let now = clock::now();
        let sessions = Sessions::new(crypto, now, since_1970(), entropy());
        let (mut outbound, mut inbound) = sealed_tunnel(&tunnel_config(session), sessions);
        let config = path_config(Some(hub));
        outbound.set_path(path(), &config);
        inbound.set_path(now, path(), config);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        Peer {
            inbound,
            outbound,
            socket,
            delivered: 0,
            sent: 0,
        }
    }

    fn send_up(&mut self, number: usize) {
        let mut packet = packet(inner(number), HUB);
        let header = VnetHeader::default();
        self.outbound.handle_tun(clock::now(), &header, &mut packet);
    }

    /// Takes what has come.
    fn receive(&mut self) {
        let mut room = [0; 2048];
        for _ in 0..64 {
            let Ok((len, from)) = self.socket.recv_from(&mut room) else {
                return;
            };
            let mut buffer = self.inbound.take_buffer().unwrap();
            buffer.as_mut()[..len].copy_from_slice(&room[..len]);
            let datagram = Datagram {
                path: path(),
                from,
                tos: 0,
                buffer,
                len,
                segment_size: None,
                truncated: false,
                waited: Duration::ZERO,
            };
            self.inbound.handle_datagram(clock::now(), datagram);
        }
    }

    /// Takes what has come, and gives each datagram that is to be sent to `send`, with its number.
    fn turn(&mut self, mut send: impl FnMut(&UdpSocket, u64, &[u8])) {
        self.receive();
        let now = clock::now();
        self.inbound.handle_timeout(now);
        self.outbound.handle_timeout(now);
        let delivered = &mut self.delivered;
        self.inbound.drain_tun(|_, _| {
            *delivered += 1;
            true
        });
        while let Some(news) = self.inbound.poll_news() {
            self.outbound.learn(now, news);
        }
        let (socket, sent) = (&self.socket, &mut self.sent);
        let mut send_train = |contents: &[u8], segment_size: usize| {
            for datagram in contents.chunks(segment_size.max(1)) {
                *sent += 1;
                send(socket, *sent, datagram);
            }
        };
        while let Some(train) = self.outbound.poll_transmit() {
            send_train(train.contents, train.segment_size);
        }
        if self.outbound.poll_wake() {
            self.inbound.wake(now);
        }
        while let Some(message) = self.inbound.poll_transmit() {
            send_train(message.contents, message.segment_size);
        }
        while self.inbound.poll_event().is_some() {}
    }
}

type ToLines = (
    mpsc::Sender<lines_out::Command>,
    mpsc::Sender<lines_in::Command>,
);

/// The lines of the first two workers, and what the third has of them.
struct World {
    at: SocketAddr,
    lines: Vec<ToLines>,
    threads: Vec<JoinHandle<()>>,
    packets: Ways<Packet>,
    messages: Ways<Message>,
    /// The third worker's line in.
    stray: HubInbound,
    /// Packets that were taken for each peer.
    handed: [u64; 2],
    /// The third one's is read by nobody.
    _sockets: Vec<Arc<PathSocket>>,
}

fn spawn<F: Future<Output = io::Result<()>>>(
    line: impl FnOnce() -> F + Send + 'static,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_io().build().unwrap();
        let result = tokio::task::LocalSet::new().block_on(&runtime, line());
        result.unwrap();
    })
}

impl World {
    fn new() -> World {
        let local = "127.0.0.1:0".parse().unwrap();
        let HubSockets { workers, calls } =
            PathSocket::open_hub(local, None, Offload::Auto, WORKERS).unwrap();
        let sockets: Vec<_> = workers.into_iter().map(Arc::new).collect();
        let calls = calls.map(Arc::new);
        let (mut lines, mut threads) = (Vec::new(), Vec::new());
        let mut ways = Others::all(WORKERS).into_iter().enumerate();
        for (number, (out_others, in_others)) in ways.by_ref().take(TEST) {
            let (to_out, out_commands) = mpsc::channel(16);
            let (to_in, in_commands) = mpsc::channel(16);
            let (news, told) = mpsc::channel(64);
            let wakes = Arc::new(Wakes::default());
            let outlets = downlink::Outlets {
                tunnel: "together".to_owned(),
                news,
                sockets: mpsc::channel(1).0,
                wakes: wakes.clone(),
            };
            let config = hub_config(number);
            let worker = config.worker;
            threads.push(spawn(move || {
                uplink::run((worker, usize::MAX), told, out_commands, wakes, out_others)
            }));
            threads.push(spawn(move || {
                downlink::run(config, outlets, in_others, in_commands)
            }));
            let socket = Some(sockets[number].clone());
            let to = lines_out::Command::SetPath(path(), path_config(None), socket.clone());
            assert!(to_out.blocking_send(to).is_ok());
            let to = lines_in::Command::SetPath {
                id: path(),
                name: "isp".to_owned(),
                config: path_config(None),
                socket,
                calls: calls.clone().filter(|_| number == 0),
            };
            assert!(to_in.blocking_send(to).is_ok());
            lines.push((to_out, to_in));
        }
        let (_, (packets, messages)) = ways.next().unwrap();
        World {
            at: sockets[0].local_addr(),
            lines,
            threads,
            packets: packets.to,
            messages: messages.to,
            stray: HubInbound::new(clock::now(), hub_config(TEST)),
            handed: [0; 2],
            _sockets: sockets,
        }
    }

    /// Adds a peer or takes it away: the lines hear of it one after the other, in an order that `round` gives.
    fn set_peer(&self, peer: usize, is_there: bool, round: u64) {
        let set = is_there.then(|| SetPeer {
            slot: slot(peer),
            name: format!("peer {peer}"),
            keys: PeerKeys {
                public_key: key(peer).public_key(),
                psk: PresharedKey::none(),
            },
            rate_limit: None,
        });
        let prefix: Prefix = (IpAddr::from(inner(peer)), 32);
        let prefixes: &[Prefix] = if is_there { &[prefix] } else { &[] };
        let changes = Arc::new(PeerChanges {
            removed: (!is_there).then_some(slot(peer)).into_iter().collect(),
            set: set.into_iter().collect(),
            allowed: vec![(slot(peer), prefixes.into())],
        });
        for step in 0..4 {
            let line = (step + round as usize) % 4;
            let (to_out, to_in) = &self.lines[line / 2];
            let changes = changes.clone();
            let is_taken = match line % 2 {
                0 => to_out
                    .blocking_send(lines_out::Command::SetPeers(changes))
                    .is_ok(),
                _ => to_in
                    .blocking_send(lines_in::Command::SetPeers(changes))
                    .is_ok(),
            };
            assert!(is_taken, "a line has ended");
        }
    }

    /// A packet for a peer comes to the third worker's queue of the interface.
    fn hand_packet(&mut self, peer: usize) {
        let packet = packet(HUB, inner(peer));
        let is_taken = self.packets.hand(peer, &VnetHeader::default(), &packet);
        self.handed[peer] += u64::from(is_taken);
    }

    /// A peer's turn: of each four datagrams that it sends, one comes to the third worker.
    fn turn(&mut self, peer: &mut Peer) {
        let stray = &mut self.stray;
        peer.turn(|socket, number, datagram| {
            if number % 4 == 3 {
                let came = Came {
                    socket: path(),
                    from: socket.local_addr().unwrap(),
                    tos: 0,
                    segment_size: None,
                    waited: Duration::ZERO,
                };
                return stray.handle_datagram(clock::now(), came, datagram);
            }
            let _ = socket.send_to(datagram, self.at);
        });
        while let Some((worker, message)) = self.stray.poll_handed() {
            assert!(worker < TEST, "the third worker owns nobody");
            if let Err(message) = self.messages.hand(worker, message) {
                self.stray.not_handed(message);
            }
        }
    }

    /// What the two lines of a worker have dropped so far.
    fn drops(&self, worker: usize) -> BTreeMap<String, u64> {
        let (to_out, to_in) = &self.lines[worker];
        let (reply, told) = oneshot::channel();
        let asked = lines_out::Command::Report(Box::default(), reply);
        assert!(to_out.blocking_send(asked).is_ok());
        let report = told.blocking_recv().unwrap();
        let (reply, told) = oneshot::channel();
        assert!(
            to_in
                .blocking_send(lines_in::Command::Report(report, reply))
                .is_ok()
        );
        told.blocking_recv().unwrap().tunnel.drops
    }
}

/// Repeats `step` until it says so.
fn until(what: &str, mut step: impl FnMut() -> bool) {
    let began = Instant::now();
    while !step() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_micros(500));
    }
}

#[test]
fn a_peer_that_goes_while_its_packets_are_in_every_queue_costs_the_other_none() {
    let mut world = World::new();
    world.set_peer(ALICE, true, 0);
    let mut alice = Peer::new(ALICE, world.at);
    until("alice is up", || {
        world.hand_packet(ALICE);
        world.turn(&mut alice);
        alice.delivered > 0
    });
    for round in 0..ROUNDS {
        world.set_peer(BOB, true, round);
        let mut bob = Peer::new(BOB, world.at);
        until("bob is up", || {
            for _ in 0..8 {
                world.hand_packet(BOB);
                bob.send_up(BOB);
            }
            world.hand_packet(ALICE);
            world.turn(&mut bob);
            world.turn(&mut alice);
            bob.delivered > 200
        });
        // Another call of his, what he sends, and what is sent to him: all queues have something when he goes.
        let mut another = Peer::new(BOB, world.at);
        another.sent = round;
        for is_gone in [false, true] {
            (0..64).for_each(|_| world.hand_packet(BOB));
            (0..64).for_each(|_| bob.send_up(BOB));
            world.turn(&mut bob);
            world.turn(&mut another);
            if !is_gone {
                world.set_peer(BOB, false, round);
            }
        }
        // A line that answers has heard of it: from here on nothing goes to him.
        let _ = world.drops(BOB);
        until("what was under way has come", || {
            let before = bob.delivered;
            world.turn(&mut bob);
            bob.delivered == before
        });
        let last = bob.delivered;
        (0..64).for_each(|_| world.hand_packet(BOB));
        let _ = world.drops(BOB);
        std::thread::sleep(Duration::from_millis(1));
        world.turn(&mut bob);
        assert_eq!(bob.delivered, last, "round {round}");
    }
    let drops = world.drops(BOB);
    for why in ["no_peer", "unknown_session"] {
        assert!(drops.get(why) > Some(&0), "{why}: {drops:?}");
    }
    // Of alice's nothing is lost but what came before she was there.
    let early = world.drops(ALICE).get("peer_away").copied().unwrap_or(0);
    until("all of alice's packets have come", || {
        world.turn(&mut alice);
        alice.delivered + early == world.handed[ALICE]
    });
    let taken = [ALICE, BOB].map(|peer| world.packets.0[peer].1.taken());
    assert_eq!(taken, [0, 0], "all room is back");
    // When nobody commands any more, the lines end.
    drop(world.lines);
    for thread in world.threads {
        thread.join().unwrap();
    }
}

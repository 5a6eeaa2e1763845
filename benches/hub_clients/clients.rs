//! Clients of a hub: the cores of their tunnels in one thread, over real sockets, and one interface for all of them.
//!
//! A client is what `mpt-tund` is for the hub: the same core over the same sockets. But a thousand of them have no two
//! thousand threads, which on a machine of a few processors would be all that is measured.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd as _;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use mpt_core::control::{PathState, PathStatus};
use mpt_core::crypto::{CryptoConfig, Entropy, PresharedKey, PrivateKey, PublicKey, Sessions};
use mpt_core::path::{PathConfig, PathId};
use mpt_core::receive::buffer::Buffer;
use mpt_core::receive::coalesce::Accepts;
use mpt_core::send::scheduler::Policy;
use mpt_core::send::scheduler::law::Law;
use mpt_core::time::{Time, earliest};
use mpt_core::tunnel::{
    Event, Inbound, Outbound, ReorderSettings, Transmit, TunnelConfig, sealed_tunnel,
};
use mpt_core::wire::vnet::VnetHeader;
use mpt_io::Offload;
use mpt_io::clock::{self, StampClock};
use mpt_io::tun::{MAX_READ, Tun};
use mpt_io::udp::{PathSocket, RecvMeta, Sent};
use rustix::event::epoll;
use rustix::fd::OwnedFd;

pub(crate) const PATHS: usize = 2;
/// Largest inner packet, in bytes: that of 1500 bytes of IPv4 outside.
pub(crate) const MTU: u16 = 1442;
/// What the interface stands for among the sockets.
const TUN: u64 = u64::MAX;
/// Datagrams, or trains, of a client and packets of the interface before others have their turn, as in the daemon.
const BATCH_IN: usize = 4;
const BATCH_OUT: usize = 64;

/// The private key of a client.
pub(crate) fn key_of(client: usize) -> PrivateKey {
    let mut bytes = [1; 32];
    // Of the first and the last byte some bits are the same in all keys (RFC 7748 §5).
    bytes[8..16].copy_from_slice(&(client as u64 + 1).to_le_bytes());
    PrivateKey::from_random(bytes)
}

/// The inner address of a client.
pub(crate) fn inner(client: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 100, (client / 250) as u8, (client % 250 + 1) as u8)
}

/// Who has this inner address.
pub(crate) fn client_at(address: IpAddr) -> Option<usize> {
    match address {
        IpAddr::V4(address) => {
            let [10, 100, net, host] = address.octets() else {
                return None;
            };
            (usize::from(net) * 250 + usize::from(host)).checked_sub(1)
        }
        IpAddr::V6(_) => None,
    }
}

/// A hub's `[[peers]]` for so many clients.
pub(crate) fn peers(clients: usize) -> String {
    let one = |client| {
        format!(
            "[[peers]]\nname = \"p{client}\"\npublic_key = \"{}\"\nallowed_ips = [\"{}/32\"]\n",
            key_of(client).public_key(),
            inner(client)
        )
    };
    (0..clients).map(one).collect()
}

/// Random bytes, from the kernel.
pub(crate) fn entropy() -> Entropy {
    Box::new(|out| {
        let flags = rustix::rand::GetRandomFlags::empty();
        assert_eq!(rustix::rand::getrandom(&mut *out, flags), Ok(out.len()));
    })
}

/// Where the hub is, from where it is called, a path each, and how.
#[derive(Clone, Copy)]
pub(crate) struct Hub {
    pub(crate) key: PublicKey,
    pub(crate) locals: [Ipv4Addr; PATHS],
    pub(crate) remotes: [SocketAddr; PATHS],
    /// Whether trains pass whole.
    pub(crate) offload: Offload,
}

struct Client {
    inbound: Inbound,
    outbound: Outbound,
    sockets: Vec<PathSocket>,
    up: [bool; PATHS],
    due: Option<Time>,
}

impl Client {
    fn new(number: usize, hub: &Hub, accepts: Accepts) -> Client {
        let now = clock::now();
        let mut session = [0; 8];
        entropy()(&mut session);
        let session = u64::from_ne_bytes(session).max(1);
        let crypto = CryptoConfig {
            private_key: key_of(number),
            peer_public_key: hub.key,
            psk: PresharedKey::none(),
            session,
            hardware_aes: mpt_core::crypto::has_hardware_aes(),
        };
        let since_1970 = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
        let config = TunnelConfig {
            session,
            key: None,
            mtu: MTU,
            reorder: ReorderSettings::default(),
            policy: Policy::Adaptive,
            recovery: true,
            accepts,
            receives_trains: mpt_io::udp::receives_trains(hub.offload),
            law: &Law::LAW,
        };
        let sessions = Sessions::new(crypto, now, since_1970, entropy());
        let (mut outbound, mut inbound) = sealed_tunnel(&config, sessions);
        let mut sockets = Vec::new();
        for (path, (&local, &remote)) in hub.locals.iter().zip(&hub.remotes).enumerate() {
            let path = PathId::new(path).unwrap();
            let config = PathConfig {
                remote: Some(remote),
                weight: 100,
                keepalive: Duration::from_millis(200),
                dead_after: Duration::from_secs(1),
                metered: false,
                keeps_port: true,
            };
            outbound.set_path(path, &config);
            inbound.set_path(now, path, config);
            sockets.push(PathSocket::open((local, 0).into(), None, hub.offload).unwrap());
        }
        Client {
            inbound,
            outbound,
            sockets,
            up: [false; PATHS],
            due: None,
        }
    }

    /// Takes what came on a path.
    fn receive(&mut self, path: usize, hands: &mut Hands) {
        while hands.buffers.len() < BATCH_IN
            && let Some(buffer) = self.inbound.take_buffer()
        {
            hands.buffers.push(buffer);
        }
        // The hub may be gone for a while: then there is an error to be taken.
        let received = self.sockets[path].recv_batch(&mut hands.buffers, &mut hands.metas);
        let now = clock::now();
        let wall_ns = hands.stamps.read(now);
        let id = PathId::new(path).unwrap();
        let mut buffers = hands.buffers.drain(..);
        let received = received.unwrap_or(0);
        for (buffer, meta) in buffers.by_ref().take(received).zip(&hands.metas) {
            let datagram = meta.datagram(id, buffer, wall_ns);
            self.inbound.handle_datagram(now, datagram);
        }
        buffers.for_each(|buffer| self.inbound.put_back(buffer));
    }

    /// Sends what there is. Returns how many more paths are up.
    fn flush(&mut self, now: Time, tun: Option<&Tun>) -> isize {
        while let Some(news) = self.inbound.poll_news() {
            self.outbound.learn(clock::now(), news);
        }
        while let Some(train) = self.outbound.poll_transmit() {
            let (path, size, sent) = (train.path, train.segment_size, send(&self.sockets, &train));
            count_lost(&mut self.outbound, path, size, &sent);
        }
        self.inbound
            .drain_tun(|header, packet| tun.is_none_or(|tun| tun.send(header, packet).is_ok()));
        while self.outbound.poll_tun().is_some() {}
        if self.outbound.poll_wake() {
            self.inbound.wake(now);
        }
        while let Some(message) = self.inbound.poll_transmit() {
            // A probe that was not sent is one that gets no answer.
            let _ = send(&self.sockets, &message);
        }
        let mut more = 0;
        while let Some(event) = self.inbound.poll_event() {
            if let Event::Path { path, state, .. } = event {
                let is_up = state == PathState::Up;
                let before = std::mem::replace(&mut self.up[path.index()], is_up);
                more += isize::from(is_up) - isize::from(before);
            }
        }
        more
    }

    /// Takes a packet of the interface, and sends the trains that are full.
    fn take(&mut self, now: Time, header: &VnetHeader, packet: &mut [u8]) {
        self.outbound.handle_tun(now, header, packet);
        while let Some(train) = self.outbound.poll_ready() {
            let (path, size, sent) = (train.path, train.segment_size, send(&self.sockets, &train));
            count_lost(&mut self.outbound, path, size, &sent);
        }
    }
}

fn send(sockets: &[PathSocket], train: &Transmit<'_>) -> Sent {
    let (contents, size) = (train.contents, train.segment_size);
    sockets[train.path.index()].send_train(train.to, train.tos, contents, size)
}

fn count_lost(outbound: &mut Outbound, path: PathId, size: usize, sent: &Sent) {
    for (datagrams, why) in sent.lost() {
        outbound.not_sent(path, datagrams, datagrams * size, why);
    }
}

/// What a batch is received with.
struct Hands {
    buffers: Vec<Buffer>,
    metas: Vec<RecvMeta>,
    stamps: StampClock,
}

/// What is asked of the clients while they run.
pub(crate) type Question = Box<dyn FnOnce(&Clients) + Send>;

/// All clients, and what waits for them.
pub(crate) struct Clients {
    all: Vec<Client>,
    tun: Option<Tun>,
    bytes: Vec<u8>,
    hands: Hands,
    epoll: OwnedFd,
    due: BTreeSet<(Time, usize)>,
    /// Paths that are up.
    up: isize,
}

impl Clients {
    /// So many, which begin to call the hub. What the interface has goes to the client whose inner address it is from.
    pub(crate) fn new(clients: usize, hub: &Hub, tun: Option<Tun>) -> Clients {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let watch = |fd: std::os::fd::BorrowedFd<'_>, data| {
            let data = epoll::EventData::new_u64(data);
            epoll::add(&epoll, fd, data, epoll::EventFlags::IN).unwrap();
        };
        let accepts = tun.as_ref().map_or(Accepts::NONE, Tun::accepts);
        let all: Vec<_> = (0..clients)
            .map(|number| {
                let client = Client::new(number, hub, accepts);
                for (path, socket) in client.sockets.iter().enumerate() {
                    watch(socket.as_fd(), (number * PATHS + path) as u64);
                }
                client
            })
            .collect();
        if let Some(tun) = &tun {
            watch(tun.as_fd(), TUN);
        }
        let mut this = Clients {
            all,
            tun,
            bytes: vec![0; MAX_READ],
            hands: Hands {
                buffers: Vec::new(),
                metas: vec![RecvMeta::default(); BATCH_IN],
                stamps: StampClock::default(),
            },
            epoll,
            due: BTreeSet::new(),
            up: 0,
        };
        (0..clients).for_each(|number| this.settle(number));
        this
    }

    /// Sends what a client has, and notes when it is due.
    fn settle(&mut self, number: usize) {
        let client = &mut self.all[number];
        self.up += client.flush(clock::now(), self.tun.as_ref());
        let due = earliest(
            client.inbound.poll_timeout(),
            client.outbound.poll_timeout(),
        );
        if due == client.due {
            return;
        }
        if let Some(before) = std::mem::replace(&mut client.due, due) {
            self.due.remove(&(before, number));
        }
        if let Some(due) = due {
            self.due.insert((due, number));
        }
    }

    /// Takes a batch of what the interface has.
    fn take_batch(&mut self) {
        let mut touched = Vec::new();
        for _ in 0..BATCH_OUT {
            let Some(tun) = &self.tun else {
                return;
            };
            let Ok(len) = tun.recv(&mut self.bytes) else {
                break;
            };
            let (header, start) = match tun.has_header() {
                false => (VnetHeader::default(), 0),
                true => {
                    let (header, packet) = VnetHeader::parse(&self.bytes[..len]).unwrap();
                    (header, len - packet.len())
                }
            };
            let packet = &mut self.bytes[start..len];
            // The source of an IPv4 header (RFC 791 §3.1).
            let from: Option<[u8; 4]> = packet.get(12..16).and_then(|from| from.try_into().ok());
            let number = from.and_then(|from| client_at(from.into()));
            let Some(number) = number.filter(|&number| number < self.all.len()) else {
                continue;
            };
            self.all[number].take(clock::now(), &header, packet);
            if !touched.contains(&number) {
                touched.push(number);
            }
        }
        touched.into_iter().for_each(|number| self.settle(number));
    }

    /// Does what there is to do until then, or until `done`. Returns whether that was so.
    pub(crate) fn run(&mut self, until: Instant, done: impl Fn(&Clients) -> bool) -> bool {
        let mut events = Vec::with_capacity(256);
        while Instant::now() < until {
            if done(self) {
                return true;
            }
            let now = clock::now();
            while let Some(&(at, number)) = self.due.first()
                && at <= now
            {
                let client = &mut self.all[number];
                client.inbound.handle_timeout(now);
                client.outbound.handle_timeout(now);
                self.settle(number);
            }
            let soon = Duration::from_millis(20);
            let next = self
                .due
                .first()
                .map_or(soon, |(at, _)| at.since(now).min(soon));
            let wait = rustix::event::Timespec {
                tv_sec: 0,
                tv_nsec: next.as_nanos() as i64,
            };
            events.clear();
            let waited = epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut events),
                Some(&wait),
            );
            if waited.is_err() {
                continue;
            }
            for event in &events {
                match event.data.u64() {
                    TUN => self.take_batch(),
                    place => {
                        let (number, path) = (place as usize / PATHS, place as usize % PATHS);
                        self.all[number].receive(path, &mut self.hands);
                        self.settle(number);
                        // What is answered does not wait for what else came.
                        self.take_batch();
                    }
                }
            }
        }
        done(self)
    }

    /// Runs and answers until nobody can ask any more.
    pub(crate) fn serve(&mut self, questions: &Receiver<Question>) {
        loop {
            match questions.try_recv() {
                Ok(question) => question(self),
                Err(TryRecvError::Disconnected) => return,
                Err(TryRecvError::Empty) => {
                    self.run(Instant::now() + Duration::from_millis(20), |_| false);
                }
            }
        }
    }

    pub(crate) fn are_up(&self) -> bool {
        self.up as usize == self.all.len() * PATHS
    }

    /// How many paths are up, and how many there are.
    pub(crate) fn up(&self) -> (isize, usize) {
        (self.up, self.all.len() * PATHS)
    }

    /// What is known of a client's paths.
    pub(crate) fn paths_of(&self, number: usize) -> Vec<PathStatus> {
        let client = &self.all[number];
        let known = |path| {
            let mut status = PathStatus::default();
            client.inbound.report_path(path, &mut status);
            client.outbound.report_path(path, &mut status);
            status
        };
        client.inbound.paths().map(known).collect()
    }

    /// What is known of one that is not up.
    pub(crate) fn tell_of_one(&self) {
        let mut all = self.all.iter().enumerate();
        let Some((number, client)) = all.find(|(_, client)| client.up.contains(&false)) else {
            return;
        };
        for status in self.paths_of(number) {
            println!("client {number}: {status:?}");
        }
        println!("client {number}: {:?}", client.inbound.drops());
    }
}

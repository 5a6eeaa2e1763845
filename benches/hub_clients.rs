//! Many clients of a hub in one process, over real sockets: how soon all are up, and what the hub takes while
//! they are idle. `benches/hub` sets the stage and runs it.
//!
//! `hub_clients peers N`: the `[[peers]]` of N clients, for the hub's file. `hub_clients run N PUBLIC_KEY ADDRESS:PORT PID SECONDS`: N
//! clients of two paths each call there; PID is the hub's.

#![allow(clippy::unwrap_used, reason = "a bench ends by a panic")]

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use mpt_core::control::{PathState, PathStatus};
use mpt_core::crypto::{CryptoConfig, Entropy, PresharedKey, PrivateKey, PublicKey, Sessions};
use mpt_core::path::{PathConfig, PathId};
use mpt_core::receive::coalesce::Accepts;
use mpt_core::send::scheduler::Policy;
use mpt_core::send::scheduler::law::Law;
use mpt_core::time::{Time, earliest};
use mpt_core::tunnel::{
    Datagram, Event, Inbound, Outbound, ReorderSettings, TunnelConfig, sealed_tunnel,
};
use rustix::event::epoll;
use rustix::fd::OwnedFd;

const PATHS: usize = 2;
/// Largest inner packet, in bytes: that of 1500 bytes of IPv4 outside.
const MTU: u16 = 1442;
/// All are to be up within this.
const PATIENCE: Duration = Duration::from_secs(60);
/// What follows a start is not what an idle client costs.
const SETTLING: Duration = Duration::from_secs(15);

fn key_of(client: usize) -> PrivateKey {
    let mut bytes = [1; 32];
    // Of the first and the last byte some bits are the same in all keys (RFC 7748 §5).
    bytes[8..16].copy_from_slice(&(client as u64 + 1).to_le_bytes());
    PrivateKey::from_random(bytes)
}

fn entropy() -> Entropy {
    Box::new(|out| {
        let flags = rustix::rand::GetRandomFlags::empty();
        assert_eq!(rustix::rand::getrandom(&mut *out, flags), Ok(out.len()));
    })
}

struct Client {
    inbound: Inbound,
    outbound: Outbound,
    sockets: Vec<UdpSocket>,
    up: [bool; PATHS],
    due: Option<Time>,
}

impl Client {
    fn new(number: usize, hub: PublicKey, remote: SocketAddr, now: Time) -> Client {
        let mut session = [0; 8];
        entropy()(&mut session);
        let session = u64::from_ne_bytes(session).max(1);
        let crypto = CryptoConfig {
            private_key: key_of(number),
            peer_public_key: hub,
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
            accepts: Accepts::NONE,
            receives_trains: false,
            law: &Law::LAW,
        };
        let sessions = Sessions::new(crypto, now, since_1970, entropy());
        let (mut outbound, mut inbound) = sealed_tunnel(&config, sessions);
        let mut sockets = Vec::new();
        for path in (0..PATHS).filter_map(PathId::new) {
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
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
            socket.set_nonblocking(true).unwrap();
            sockets.push(socket);
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
    fn receive(&mut self, now: Time, path: usize) {
        let mut buffer = self.inbound.take_buffer().unwrap();
        // The hub may be gone for a while: then there is an error to be taken.
        match self.sockets[path].recv_from(buffer.as_mut()) {
            Ok((len, from)) => {
                let path = PathId::new(path).unwrap();
                let datagram = Datagram {
                    path,
                    from,
                    tos: 0,
                    buffer,
                    len,
                    segment_size: None,
                    truncated: false,
                    waited: Duration::ZERO,
                };
                self.inbound.handle_datagram(now, datagram);
            }
            Err(_) => self.inbound.put_back(buffer),
        }
    }

    /// Sends what there is. Returns how many more paths are up.
    fn flush(&mut self, now: Time) -> isize {
        self.inbound.drain_tun(|_, _| true);
        while let Some(news) = self.inbound.poll_news() {
            self.outbound.learn(news);
        }
        while let Some(train) = self.outbound.poll_transmit() {
            let _ = self.sockets[train.path.index()].send_to(train.contents, train.to);
        }
        if self.outbound.poll_wake() {
            self.inbound.wake(now);
        }
        while let Some(message) = self.inbound.poll_transmit() {
            let socket = &self.sockets[message.path.index()];
            let _ = socket.send_to(message.contents, message.to);
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
}

/// All clients, and what waits for them.
struct Clients {
    origin: Instant,
    all: Vec<Client>,
    epoll: OwnedFd,
    due: BTreeSet<(Time, usize)>,
    /// Paths that are up.
    up: isize,
}

impl Clients {
    fn new(clients: usize, hub: PublicKey, remote: SocketAddr) -> Clients {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let mut this = Clients {
            origin: Instant::now(),
            all: Vec::new(),
            epoll,
            due: BTreeSet::new(),
            up: 0,
        };
        for number in 0..clients {
            let client = Client::new(number, hub, remote, this.now());
            for (path, socket) in client.sockets.iter().enumerate() {
                let data = epoll::EventData::new_u64((number * PATHS + path) as u64);
                epoll::add(&this.epoll, socket, data, epoll::EventFlags::IN).unwrap();
            }
            this.all.push(client);
        }
        (0..clients).for_each(|number| this.settle(number));
        this
    }

    fn now(&self) -> Time {
        Time::from_nanos(self.origin.elapsed().as_nanos() as u64 + 1)
    }

    /// Sends what a client has, and notes when it is due.
    fn settle(&mut self, number: usize) {
        let now = self.now();
        let client = &mut self.all[number];
        self.up += client.flush(now);
        let due = earliest(
            client.inbound.poll_timeout(),
            client.outbound.poll_timeout(),
        );
        if let Some(before) = std::mem::replace(&mut client.due, due) {
            self.due.remove(&(before, number));
        }
        if let Some(due) = due {
            self.due.insert((due, number));
        }
    }

    /// Does what there is to do until then, or until `done`. Returns whether that was so.
    fn run(&mut self, until: Instant, done: impl Fn(&Clients) -> bool) -> bool {
        let mut events = Vec::with_capacity(256);
        while Instant::now() < until {
            if done(self) {
                return true;
            }
            let now = self.now();
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
                let place = event.data.u64() as usize;
                let now = self.now();
                self.all[place / PATHS].receive(now, place % PATHS);
                self.settle(place / PATHS);
            }
        }
        done(self)
    }

    fn are_up(&self) -> bool {
        self.up as usize == self.all.len() * PATHS
    }

    /// Waits until all are up, and tells how long that took.
    fn come_up(&mut self) {
        let began = Instant::now();
        for second in 1..=PATIENCE.as_secs() {
            let up = self.run(began + Duration::from_secs(second), Clients::are_up);
            if up {
                let took = began.elapsed().as_secs_f64();
                return println!("all {} up after {took:.2} s", self.all.len());
            }
            println!(
                "{} of {} paths are up after {second} s",
                self.up,
                self.all.len() * PATHS
            );
        }
        self.tell_of_one();
    }

    /// What is known of one that is not up.
    fn tell_of_one(&self) {
        let mut all = self.all.iter().enumerate();
        let Some((number, client)) = all.find(|(_, client)| client.up.contains(&false)) else {
            return;
        };
        for path in client.inbound.paths() {
            let mut status = PathStatus::default();
            client.inbound.report_path(path, &mut status);
            println!("client {number}: {status:?}");
        }
        println!("client {number}: {:?}", client.inbound.drops());
    }
}

/// Processor time of a process so far, in seconds, and its resident memory, in MiB.
fn taken(pid: u32) -> Option<(f64, f64)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: f64 = fields[11].parse::<f64>().ok()? + fields[12].parse::<f64>().ok()?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let resident = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: f64 = resident.split_whitespace().next()?.parse().ok()?;
    Some((ticks / 100.0, kib / 1024.0))
}

fn run(clients: usize, hub: PublicKey, remote: SocketAddr, pid: u32, seconds: u64) {
    let mut clients = Clients::new(clients, hub, remote);
    clients.come_up();
    clients.run(Instant::now() + SETTLING, |_| false);
    let Some((before, _)) = taken(pid) else {
        return;
    };
    clients.run(Instant::now() + Duration::from_secs(seconds), |_| false);
    let Some((after, resident)) = taken(pid) else {
        return;
    };
    println!(
        "idle: {:.1} % of a core, {resident:.0} MiB",
        (after - before) / seconds as f64 * 100.0
    );
    println!("READY");
    // The stage kills the hub now, starts another one, and asks that who is there.
    clients.run(Instant::now() + PATIENCE, |_| false);
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match *words {
        ["peers", clients, ..] => {
            for client in 0..clients.parse().unwrap() {
                println!(
                    "[[peers]]\nname = \"p{client}\"\npublic_key = \"{}\"\nallowed_ips = [\"10.100.{}.{}/32\"]",
                    key_of(client).public_key(),
                    client / 250,
                    client % 250 + 1
                );
            }
        }
        ["run", clients, key, remote, pid, seconds, ..] => run(
            clients.parse().unwrap(),
            PublicKey::from_base64(key).unwrap(),
            remote.parse().unwrap(),
            pid.parse().unwrap(),
            seconds.parse().unwrap(),
        ),
        // `cargo bench` without words only sees that it builds.
        _ => println!("benches/hub runs it"),
    }
}

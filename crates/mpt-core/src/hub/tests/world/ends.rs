//! What the world's ends are made of: keys, addresses, halves and packets.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use crate::crypto::{CryptoConfig, Entropy, PresharedKey, PrivateKey, Sessions};
use crate::hub::{HubConfig, HubInbound, PeerKeys, Worker};
use crate::path::{PathConfig, PathId};
use crate::time::Time;
use crate::tunnel::{Inbound, Outbound, Transmit, TunnelConfig, sealed_tunnel};
use crate::wire::name::PathName;

const HUB_KEY: [u8; 32] = [77; 32];
pub(super) const PATHS: usize = 2;
const MTU: u16 = 1400;

/// What is special about a client.
#[derive(Debug, Clone)]
pub(in crate::hub::tests) struct Spec {
    /// The hub's socket that each path calls.
    pub(in crate::hub::tests) sockets: [usize; PATHS],
    /// All who have this number are behind one address.
    pub(in crate::hub::tests) nat: Option<u8>,
    /// It has this one's keys.
    pub(in crate::hub::tests) twin_of: Option<usize>,
    /// The hub does not know it.
    pub(in crate::hub::tests) is_stranger: bool,
    /// It has all addresses that no other has, besides its own.
    pub(in crate::hub::tests) has_rest: bool,
}

impl Default for Spec {
    fn default() -> Spec {
        Spec {
            sockets: [0, 1],
            nat: None,
            twin_of: None,
            is_stranger: false,
            has_rest: false,
        }
    }
}

pub(in crate::hub::tests) struct Client {
    pub(in crate::hub::tests) outbound: Outbound,
    pub(in crate::hub::tests) inbound: Inbound,
    pub(super) local: [SocketAddr; PATHS],
    /// It takes and sends nothing.
    pub(in crate::hub::tests) is_off: bool,
    /// It sends nothing.
    pub(in crate::hub::tests) is_mute: bool,
    /// What it sends over its second path is lost.
    pub(in crate::hub::tests) loses_second: bool,
    /// So many of the next long packets that it sends are lost.
    pub(in crate::hub::tests) loses: u64,
    pub(in crate::hub::tests) heard: u64,
    pub(in crate::hub::tests) delivered: u64,
    pub(in crate::hub::tests) unreachable: u64,
}

/// The inner address of a client.
pub(in crate::hub::tests) fn address(client: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 99, 0, 2 + client as u8)
}

pub(super) fn hub_address(socket: usize) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::new(203, 0, 113, socket as u8).into(), 4754)
}

fn client_address(client: usize, path: usize, nat: Option<u8>) -> SocketAddr {
    match nat {
        Some(nat) => {
            let port = 10_000 + 10 * client + path;
            SocketAddr::new(Ipv4Addr::new(198, 51, 100, nat).into(), port as u16)
        }
        None => SocketAddr::new(
            Ipv4Addr::new(172, 16, path as u8, client as u8).into(),
            4754,
        ),
    }
}

pub(super) fn config(remote: Option<SocketAddr>) -> PathConfig {
    PathConfig {
        remote,
        weight: 100,
        keepalive: Duration::from_millis(200),
        dead_after: Duration::from_secs(1),
        metered: false,
        keeps_port: false,
    }
}

fn entropy(seed: u64) -> Entropy {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    Box::new(move |out| {
        for byte in out {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *byte = (state >> 32) as u8;
        }
    })
}

pub(super) fn client_key(client: usize) -> PrivateKey {
    PrivateKey::from_random([client as u8 + 1; 32])
}

/// An IPv4 packet of that length from one inner address to another.
pub(super) fn packet(from: Ipv4Addr, to: Ipv4Addr, len: u16) -> Vec<u8> {
    let mut bytes = vec![0; len.into()];
    bytes[0] = 0x45;
    bytes[2..4].copy_from_slice(&len.to_be_bytes());
    bytes[8] = 64;
    bytes[9] = 253;
    bytes[12..16].copy_from_slice(&from.octets());
    bytes[16..20].copy_from_slice(&to.octets());
    crate::wire::ip::seal_v4_header(&mut bytes[..20]);
    bytes
}

pub(super) fn hub(now: Time, start: u64, memory: usize) -> HubInbound {
    hub_of(now, start, Worker::ALONE, memory)
}

/// One of two.
pub(in crate::hub::tests) fn worker_of_two(now: Time, number: usize) -> HubInbound {
    hub_of(
        now,
        number as u64,
        Worker::new(number, 2).unwrap(),
        usize::MAX,
    )
}

/// Whom a client without a twin is.
pub(in crate::hub::tests) fn caller_keys(number: usize) -> PeerKeys {
    PeerKeys {
        public_key: client_key(number).public_key(),
        psk: PresharedKey::from_random([number as u8; 32]),
    }
}

/// What a client that begins now says first.
pub(in crate::hub::tests) fn call_of(now: Time, number: usize, spec: &Spec) -> Vec<u8> {
    let mut client = client(now, number, spec);
    client.inbound.handle_timeout(now);
    let mut sent = Vec::new();
    while let Some(transmit) = client.inbound.poll_transmit() {
        cut(&transmit, &mut sent);
    }
    sent.swap_remove(0).4
}

fn hub_of(now: Time, start: u64, worker: Worker, memory: usize) -> HubInbound {
    let mut seeds = 1000 * (start + 1);
    HubInbound::new(
        now,
        HubConfig {
            tunnel: TunnelConfig::of_test(0, MTU),
            clamps_mss: false,
            private_key: PrivateKey::from_random(HUB_KEY),
            hardware_aes: true,
            called: [Some(config(None)); 16],
            worker,
            memory,
            entropy: Box::new(move || {
                seeds += 1;
                entropy(seeds)
            }),
            wall: Box::new(|| Box::new(|at| Duration::from_nanos(at.as_nanos()))),
        },
    )
}

pub(super) fn client(now: Time, number: usize, spec: &Spec) -> Client {
    let whose = spec.twin_of.unwrap_or(number);
    let session = 500 + number as u64;
    let crypto = CryptoConfig {
        private_key: client_key(whose),
        peer_public_key: PrivateKey::from_random(HUB_KEY).public_key(),
        psk: PresharedKey::from_random([whose as u8; 32]),
        session,
        hardware_aes: true,
    };
    let since_1970 = Duration::from_nanos(now.as_nanos()) + Duration::from_nanos(number as u64);
    let sessions = Sessions::new(crypto, now, since_1970, entropy(number as u64 + 1));
    let (mut outbound, mut inbound) = sealed_tunnel(&TunnelConfig::of_test(session, MTU), sessions);
    let remote = spec.sockets.map(hub_address);
    for (path, name) in ["fibre", "lte"].into_iter().enumerate() {
        let id = PathId::new(path).unwrap();
        let config = config(Some(remote[path]));
        outbound.set_path(id, &config);
        inbound.set_path(now, id, config);
        inbound.set_path_name(id, PathName::new(name));
    }
    Client {
        outbound,
        inbound,
        local: [0, 1].map(|path| client_address(number, path, spec.nat)),
        is_off: false,
        is_mute: false,
        loses_second: false,
        loses: 0,
        heard: 0,
        delivered: 0,
        unreachable: 0,
    }
}

pub(super) type Sent = (usize, usize, SocketAddr, u8, Vec<u8>);

/// A train as datagrams: path, socket, where to, TOS, bytes.
pub(super) fn cut(transmit: &Transmit<'_>, sent: &mut Vec<Sent>) {
    let datagrams = transmit.contents.chunks(transmit.segment_size.max(1));
    sent.extend(datagrams.map(|bytes| {
        let (path, socket) = (transmit.path.index(), transmit.socket.index());
        (path, socket, transmit.to, transmit.tos, bytes.to_vec())
    }));
}

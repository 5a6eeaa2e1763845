//! Super-packets in, trains over paths that overtake each other, super-packets out: the streams are
//! what they were, and whatever is held, there is memory for what comes.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::time::Duration;

use allocation_counter::measure;
use mpt_core::control::LatePolicy;
use mpt_core::control::drops::DropReason;
use mpt_core::path::{PathConfig, PathId};
use mpt_core::receive::buffer::Buffer;
use mpt_core::receive::coalesce::Accepts;
use mpt_core::send::scheduler::Policy;
use mpt_core::send::scheduler::law::Law;
use mpt_core::time::Time;
use mpt_core::tunnel::{Datagram, Inbound, Outbound, ReorderSettings, TunnelConfig, tunnel};
use mpt_core::wire::ip::Version;
use mpt_core::wire::vnet::VnetHeader;
use mpt_sim::flow::{Flow, Kind, Receiver};
use mpt_sim::packet::{Inner, id_of};
use mpt_sim::rng::{SimRng, stream};
use proptest::collection::vec;
use proptest::prelude::*;

const MTU: u16 = 1464;
const WINDOW: u32 = 1024;
/// Buffers that the daemon has in hand while it receives.
const BATCH: usize = 32;
/// Twice a window of packets and some buffers, of 64 KiB each, as buffer.rs promises; and the queues.
const MOST_BYTES: u64 = 12 << 20;

fn peer(path: PathId) -> SocketAddr {
    SocketAddr::from(([10, 1, path.index() as u8, 2], 4754))
}

/// A tunnel whose line out leads into its own line in, over so many paths. Nobody answers probes.
fn looped(paths: usize, accepts: Accepts) -> (Outbound, Inbound) {
    let (mut outbound, mut inbound) = tunnel(&TunnelConfig {
        session: 1,
        key: None,
        mtu: MTU,
        reorder: ReorderSettings {
            window: WINDOW.into(),
            max_buffer_delay: Duration::from_millis(300).into(),
            late: LatePolicy::Deliver,
            block: None,
        },
        policy: Policy::Weighted,
        recovery: false,
        accepts,
        receives_trains: true,
        law: &Law::LAW,
    });
    for path in (0..paths).filter_map(PathId::new) {
        let config = PathConfig {
            remote: Some(peer(path)),
            weight: 1 + path.index() as u32,
            keepalive: Duration::from_secs(10),
            dead_after: Duration::from_secs(100),
            metered: false,
            keeps_port: false,
        };
        outbound.set_path(path, &config);
        inbound.set_path(Time::ZERO, path, config);
    }
    (outbound, inbound)
}

/// Datagrams of equal size, the last perhaps shorter, on a path.
#[derive(Debug)]
struct OnTheWay {
    path: PathId,
    tos: u8,
    segment_size: usize,
    bytes: Vec<u8>,
}

impl OnTheWay {
    fn datagrams(&self) -> usize {
        self.bytes.len().div_ceil(self.segment_size)
    }

    /// Takes so many datagrams off its front, as GRO may.
    fn split(&mut self, datagrams: usize) -> OnTheWay {
        let rest = self.bytes.split_off(datagrams * self.segment_size);
        OnTheWay {
            bytes: std::mem::replace(&mut self.bytes, rest),
            ..*self
        }
    }

    fn into_datagram(self, mut buffer: Buffer) -> Datagram {
        buffer.as_mut()[..self.bytes.len()].copy_from_slice(&self.bytes);
        Datagram {
            path: self.path,
            from: peer(self.path),
            tos: self.tos,
            buffer,
            len: self.bytes.len(),
            segment_size: (self.datagrams() > 1).then_some(self.segment_size as u16),
            truncated: false,
            waited: Duration::ZERO,
        }
    }
}

/// What the host sends in one step.
#[derive(Debug, Clone, Copy)]
struct Send {
    flow: usize,
    /// Segment size; `None` for a packet by itself.
    size: Option<NonZeroU16>,
    payload: usize,
}

/// The payloads that this makes, at the tunnel's MTU.
fn sizes(send: Send, flow: usize) -> Vec<usize> {
    let (kind, version) = FLOWS[flow];
    let headers = match (kind, version) {
        (Kind::Tcp, Version::V4) => 20 + 32,
        (Kind::Tcp, Version::V6) => 40 + 32,
        (Kind::Udp, _) => 0,
    };
    let step = send.size.map_or(usize::MAX, |size| {
        usize::from(size.get()).min(usize::from(MTU) - headers)
    });
    let mut left = send.payload;
    let mut sizes = Vec::new();
    while sizes.is_empty() || left > 0 {
        sizes.push(left.min(step));
        left -= left.min(step);
    }
    sizes
}

const FLOWS: [(Kind, Version); 4] = [
    (Kind::Tcp, Version::V4),
    (Kind::Tcp, Version::V6),
    (Kind::Udp, Version::V4),
    (Kind::Udp, Version::V6),
];

fn any_send() -> impl Strategy<Value = Send> {
    let size = (200u16..=1448).prop_map(NonZeroU16::new);
    (
        0..FLOWS.len(),
        prop::option::weighted(0.7, size),
        0usize..65_000,
    )
        .prop_map(|(flow, size, payload)| {
            let size = size.flatten();
            let payload = match (size, FLOWS[flow].0) {
                (None, _) => payload % 1300,
                (Some(size), Kind::Tcp) => payload.max(usize::from(size.get())),
                // Linux makes no UDP super-packet of more datagrams than this.
                (Some(size), Kind::Udp) => payload.clamp(1, 64 * usize::from(size.get())),
            };
            // A UDP datagram that exceeds the MTU is another matter (icmp.rs, fragment.rs).
            let size = match FLOWS[flow].0 {
                Kind::Tcp => size,
                Kind::Udp => size.and_then(|size| NonZeroU16::new(size.get().min(1400))),
            };
            let payload = match (size, FLOWS[flow].0) {
                (Some(size), Kind::Udp) => payload.min(64 * usize::from(size.get())),
                (Some(_) | None, _) => payload,
            };
            Send {
                flow,
                size,
                payload,
            }
        })
}

/// One way through a tunnel, and all that is under way in it.
struct Line {
    outbound: Outbound,
    inbound: Inbound,
    paths: Vec<VecDeque<OnTheWay>>,
    under_way: usize,
    host: Receiver,
    now: Time,
    rng: SimRng,
}

impl Line {
    fn new(paths: usize, seed: u64) -> Line {
        let (outbound, inbound) = looped(paths, Accepts::ALL);
        Line {
            outbound,
            inbound,
            paths: (0..paths).map(|_| VecDeque::new()).collect(),
            under_way: 0,
            host: Receiver::default(),
            now: Time::ZERO,
            rng: stream(seed, 0),
        }
    }

    fn send(&mut self, header: &VnetHeader, mut packet: Vec<u8>) {
        self.now = self.now + Duration::from_micros(10);
        self.outbound.handle_tun(self.now, header, &mut packet);
    }

    /// Ends the sender's batch: its trains are on their paths.
    fn flush(&mut self) {
        while let Some(transmit) = self.outbound.poll_transmit() {
            self.under_way += transmit.datagrams;
            self.paths[transmit.path.index()].push_back(OnTheWay {
                path: transmit.path,
                tos: transmit.tos,
                segment_size: transmit.segment_size,
                bytes: transmit.contents.to_vec(),
            });
        }
    }

    /// A train, or the first part of one, arrives from one of the paths.
    fn arrive(&mut self) {
        let busy: Vec<usize> = (0..self.paths.len())
            .filter(|path| !self.paths[*path].is_empty())
            .collect();
        let path = busy[self.rng.random_range(0..busy.len())];
        let front = self.paths[path].front_mut().unwrap();
        let taken = if self.rng.random_bool(0.3) {
            self.rng.random_range(1..=front.datagrams())
        } else {
            front.datagrams()
        };
        let train = if taken < front.datagrams() {
            front.split(taken)
        } else {
            self.paths[path].pop_front().unwrap()
        };
        self.under_way -= train.datagrams();
        let buffer = self.inbound.take_buffer().expect("a buffer");
        self.inbound
            .handle_datagram(self.now, train.into_datagram(buffer));
        if self.rng.random_bool(0.3) {
            self.drain();
        }
    }

    fn drain(&mut self) {
        let host = &mut self.host;
        self.inbound.drain_tun(|header, packet| {
            host.receive(header, packet).unwrap();
            true
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 100,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Nothing is lost, changed, cut or joined otherwise than it was, whichever way it went.
    #[test]
    fn streams_come_out_as_they_went_in(
        sends in vec(any_send(), 1..40),
        paths in 1usize..=4,
        seed: u64,
    ) {
        let mut line = Line::new(paths, seed);
        let mut flows: Vec<Flow> = (0u16..)
            .zip(FLOWS)
            .map(|(port, (kind, version))| Flow::new(kind, version, port))
            .collect();
        let mut expected = vec![Vec::new(); FLOWS.len()];
        for send in sends {
            expected[send.flow].extend(sizes(send, send.flow));
            let flow = &mut flows[send.flow];
            let (header, packet) = match send.size {
                Some(size) => flow.super_packet(send.payload, size),
                None => flow.packet(send.payload),
            };
            line.send(&header, packet);
            if line.rng.random_bool(0.5) {
                line.flush();
                // Less is under way than the window holds: what is missing is not given up.
                let leave = line.rng.random_range(0..WINDOW as usize / 2);
                while line.under_way > leave {
                    line.arrive();
                }
            }
        }
        line.flush();
        while line.under_way > 0 {
            line.arrive();
        }
        line.drain();
        for (port, flow) in (0u16..).zip(&flows) {
            prop_assert_eq!(line.host.arrived(port), flow.sent());
            prop_assert_eq!(line.host.sizes(port), &expected[usize::from(port)]);
        }
        let mut drops = BTreeMap::new();
        line.outbound.drops().add_to(&mut drops);
        line.inbound.drops().add_to(&mut drops);
        prop_assert_eq!(drops.values().sum::<u64>(), 0, "{:?}", drops);
    }

    /// Any pattern of loss, copies and disorder, in trains of any length: the daemon always finds
    /// the buffers of its next batch, memory stays within its limit, and nothing comes twice.
    #[test]
    fn there_are_always_buffers_and_they_are_bounded(
        seed: u64,
        alone in 0.0..1.0f64,
        loss in 0.0..0.5f64,
        disorder in 1usize..3000,
        sizes in vec(60usize..1464, 1..4),
    ) {
        let (mut outbound, mut inbound) = looped(2, Accepts::NONE);
        let mut rng = stream(seed, 0);
        let mut flood = Vec::new();
        for (id, size) in (0u64..8000).zip(sizes.into_iter().cycle()) {
            let mut packet = Inner::of_len(size).packet(id);
            outbound.handle_tun(Time::ZERO, &VnetHeader::default(), &mut packet);
            while let Some(transmit) = outbound.poll_transmit() {
                if !rng.random_bool(loss) {
                    flood.push((transmit.path, transmit.contents.to_vec()));
                }
                if rng.random_bool(0.02) {
                    flood.push((transmit.path, transmit.contents.to_vec()));
                }
            }
        }
        for at in 0..flood.len() {
            let other = (at + rng.random_range(0..disorder)).min(flood.len() - 1);
            flood.swap(at, other);
        }
        let trains = gathered(flood, alone, &mut rng);
        let mut came = vec![0u8; 8000];
        let mut starved = 0;
        let used = measure(|| {
            let mut now = Time::ZERO;
            for batch in trains.chunks(BATCH) {
                now = now + Duration::from_millis(1);
                inbound.handle_timeout(now);
                while inbound.poll_transmit().is_some() {}
                let in_hand: Vec<Buffer> = (0..BATCH).filter_map(|_| inbound.take_buffer()).collect();
                starved += BATCH - in_hand.len();
                let mut in_hand = in_hand.into_iter();
                for ((path, segment_size, bytes), mut buffer) in batch.iter().zip(&mut in_hand) {
                    buffer.as_mut()[..bytes.len()].copy_from_slice(bytes);
                    inbound.handle_datagram(now, Datagram {
                        path: *path,
                        from: peer(*path),
                        tos: 0,
                        buffer,
                        len: bytes.len(),
                        segment_size: Some(*segment_size as u16),
                        truncated: false,
                        waited: Duration::ZERO,
                    });
                }
                in_hand.for_each(|buffer| inbound.put_back(buffer));
                inbound.drain_tun(|_, packet| {
                    came[id_of(packet).expect("an intact packet") as usize] += 1;
                    true
                });
            }
        });
        prop_assert_eq!(starved, 0);
        prop_assert!(used.bytes_max <= MOST_BYTES, "{} bytes", used.bytes_max);
        prop_assert!(came.iter().all(|times| *times <= 1));
        prop_assert!(came.contains(&1));
    }
}

/// Puts neighbours of one path and size into trains, as GRO does, but for the share `alone`.
fn gathered(
    flood: Vec<(PathId, Vec<u8>)>,
    alone: f64,
    rng: &mut SimRng,
) -> Vec<(PathId, usize, Vec<u8>)> {
    let mut trains: Vec<(PathId, usize, Vec<u8>)> = Vec::new();
    for (path, datagram) in flood {
        match trains.last_mut() {
            Some((last, size, bytes))
                if *last == path
                    && *size == datagram.len()
                    && bytes.len() + datagram.len() <= 65_507
                    && !rng.random_bool(alone) =>
            {
                bytes.extend(datagram);
            }
            Some(_) | None => trains.push((path, datagram.len(), datagram)),
        }
    }
    trains
}

#[test]
fn of_a_super_packet_that_is_too_big_the_shorter_last_datagram_goes() {
    let (mut outbound, _) = looped(1, Accepts::NONE);
    for version in [Version::V4, Version::V6] {
        let mut flow = Flow::new(Kind::Udp, version, 4000);
        let size = NonZeroU16::new(MTU - 20).unwrap();
        let (header, mut packet) = flow.super_packet(3 * usize::from(size.get()) + 100, size);
        outbound.handle_tun(Time::ZERO, &header, &mut packet);
    }
    let mut datagrams = 0;
    while let Some(transmit) = outbound.poll_transmit() {
        datagrams += transmit.datagrams;
    }
    assert_eq!(datagrams, 2);
    assert_eq!(outbound.drops().of(DropReason::TooBig), 2 * 3);
}

/// The worst case for memory: each packet alone in a buffer for a train, and all of them held because
/// the first is missing.
#[test]
fn lone_packets_that_are_held_are_packed_together() {
    let (mut outbound, mut inbound) = looped(2, Accepts::NONE);
    let mut datagrams = Vec::new();
    for id in 0..u64::from(WINDOW) {
        outbound.handle_tun(
            Time::ZERO,
            &VnetHeader::default(),
            &mut Inner::of_len(1464).packet(id),
        );
        while let Some(transmit) = outbound.poll_transmit() {
            datagrams.push(transmit.contents.to_vec());
        }
    }
    let path = PathId::new(0).unwrap();
    let mut in_order = Vec::with_capacity(datagrams.len());
    let used = measure(|| {
        for datagram in datagrams[1..].iter().chain(&datagrams[..1]) {
            let mut buffer = inbound.take_buffer().expect("a buffer");
            buffer.as_mut()[..datagram.len()].copy_from_slice(datagram);
            inbound.handle_datagram(
                Time::ZERO,
                Datagram {
                    path,
                    from: peer(path),
                    tos: 0,
                    buffer,
                    len: datagram.len(),
                    segment_size: None,
                    truncated: false,
                    waited: Duration::ZERO,
                },
            );
            inbound.drain_tun(|_, packet| {
                in_order.push(id_of(packet).unwrap());
                true
            });
        }
    });
    assert!(in_order.into_iter().eq(0..u64::from(WINDOW)));
    assert!(used.bytes_max <= MOST_BYTES, "{} bytes", used.bytes_max);
    println!(
        "at most {} KiB for {WINDOW} held packets",
        used.bytes_max >> 10
    );
}

//! Once the tunnel is warm, packets take no memory: super-packets go through both lines, and their order
//! is measured at every point, without one allocation. So it is with the adaptive scheduler and recovery: packets
//! wait in the queue, are committed to paths, are reported on, lost, and sent again.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::time::Duration;

use allocation_counter::measure;
use mpt_core::control::{LatePolicy, TunnelStatus};
use mpt_core::path::{PathConfig, PathId, PathSet};
use mpt_core::receive::block_sort::{BLOCKS, DEFAULT_BLOCK};
use mpt_core::receive::buffer::Buffer;
use mpt_core::receive::coalesce::Accepts;
use mpt_core::send::classes::{ClassConfig, Match, Priority};
use mpt_core::send::scheduler::Policy;
use mpt_core::send::scheduler::law::Law;
use mpt_core::time::Time;
use mpt_core::tunnel::{
    Datagram, Inbound, Outbound, ReorderSettings, Transmit, TunnelConfig, tunnel,
};
use mpt_core::wire::ip::Version;
use mpt_core::wire::vnet::VnetHeader;
use mpt_sim::flow::{Flow, Kind};

const PATHS: usize = 3;
const REMOTE: ([u8; 4], u16) = ([10, 1, 0, 2], 4754);
/// Datagrams that the network keeps, so that the paths overtake each other.
const BATCHES_UNDER_WAY: usize = 2;

/// Order is counted by intervals of this length.
const INTERVAL: Duration = Duration::from_secs(10);

/// Both lines of a tunnel, the one leading into the other, and the network between them.
struct Line {
    outbound: Outbound,
    inbound: Inbound,
    now: Time,
    /// Trains on their way, with path, TOS, segment size and length; each in a buffer of its own.
    under_way: Vec<(PathId, u8, usize, usize, Buffer)>,
    written: usize,
    bytes_out: usize,
}

impl Line {
    fn new(reorder: ReorderSettings) -> Line {
        let (mut outbound, mut inbound) = tunnel(&TunnelConfig {
            session: 1,
            key: Some(7),
            mtu: 1464,
            reorder,
            policy: Policy::Weighted,
            recovery: false,
            accepts: Accepts::ALL,
            receives_trains: true,
            law: &Law::LAW,
        });
        for path in (0..PATHS).filter_map(PathId::new) {
            let config = PathConfig {
                remote: Some(SocketAddr::from(REMOTE)),
                weight: 1,
                keepalive: Duration::from_millis(200),
                dead_after: Duration::from_secs(1000),
                metered: false,
                keeps_port: false,
            };
            outbound.set_path(path, &config);
            inbound.set_path(Time::ZERO, path, config);
        }
        Line {
            outbound,
            inbound,
            now: Time::ZERO,
            under_way: Vec::with_capacity(256),
            written: 0,
            bytes_out: 0,
        }
    }

    /// One batch: what the host sends goes out, and what went out some batches ago comes in, the
    /// paths in the other order.
    fn batch(&mut self, packets: &mut [(VnetHeader, Vec<u8>)]) {
        self.now = self.now + Duration::from_millis(12);
        for (header, packet) in packets {
            self.outbound.handle_tun(self.now, header, packet);
        }
        let fresh = self.under_way.len();
        while let Some(transmit) = self.outbound.poll_transmit() {
            let mut buffer = self.inbound.take_buffer().expect("a buffer");
            buffer.as_mut()[..transmit.contents.len()].copy_from_slice(transmit.contents);
            let len = transmit.contents.len();
            self.under_way.push((
                transmit.path,
                transmit.tos,
                transmit.segment_size,
                len,
                buffer,
            ));
        }
        // By path, the last first; of one path in order.
        self.under_way[fresh..].sort_unstable_by_key(|(path, ..)| usize::MAX - path.index());
        let due = self
            .under_way
            .len()
            .saturating_sub(fresh * (BATCHES_UNDER_WAY - 1));
        for (path, tos, segment_size, len, buffer) in self.under_way.drain(..due) {
            let datagram = Datagram {
                path,
                from: SocketAddr::from(REMOTE),
                tos,
                buffer,
                len,
                segment_size: Some(segment_size as u16),
                truncated: false,
                waited: Duration::ZERO,
            };
            self.inbound.handle_datagram(self.now, datagram);
        }
        self.inbound.handle_timeout(self.now);
        while self.inbound.poll_transmit().is_some() {}
        while self.inbound.poll_event().is_some() {}
        let (written, bytes_out) = (&mut self.written, &mut self.bytes_out);
        self.inbound.drain_tun(|_, packet| {
            *written += 1;
            *bytes_out += packet.len();
            true
        });
    }
}

/// A batch of super-packets of two flows and a few packets by themselves.
fn host_sends(flows: &mut [Flow; 3]) -> Vec<(VnetHeader, Vec<u8>)> {
    let size = NonZeroU16::new(1408).unwrap();
    let [tcp, udp, small] = flows;
    vec![
        tcp.super_packet(64_000, size),
        udp.super_packet(40_000, size),
        small.packet(64),
        tcp.super_packet(30_000, size),
        small.packet(1200),
        small.packet(0),
    ]
}

/// Lets super-packets pass, and counts what is allocated once the tunnel is warm.
fn pass(reorder: ReorderSettings) -> Line {
    let mut line = Line::new(reorder);
    let mut flows = [
        Flow::new(Kind::Tcp, Version::V4, 1),
        Flow::new(Kind::Udp, Version::V6, 2),
        Flow::new(Kind::Tcp, Version::V6, 3),
    ];
    for batch in 0..500 {
        // Each kind of count takes its memory once, those of an interval when it has ended, too.
        if [250, 400].contains(&batch) {
            line.now = line.now + INTERVAL;
        }
        line.batch(&mut host_sends(&mut flows));
    }
    let (written, bytes) = (line.written, line.bytes_out);
    let mut counted = 0;
    for _ in 0..1000 {
        let mut packets = host_sends(&mut flows);
        counted += measure(|| line.batch(&mut packets)).count_total;
    }
    assert_eq!(counted, 0);
    line.written -= written;
    line.bytes_out -= bytes;
    let bytes = line.bytes_out;
    assert!(bytes > 130_000_000, "only {bytes} bytes came through");
    let mut drops = BTreeMap::new();
    line.inbound.drops().add_to(&mut drops);
    assert_eq!(drops.values().sum::<u64>(), 0, "{drops:?}");
    line
}

#[test]
fn no_allocation_while_super_packets_pass() {
    let mut line = pass(ReorderSettings {
        window: 1024.into(),
        max_buffer_delay: Duration::from_millis(300).into(),
        late: LatePolicy::Deliver,
        block: None,
    });
    let (written, bytes) = (line.written, line.bytes_out);
    assert!(
        bytes / written > 10_000,
        "{written} writes: nothing was joined"
    );
    let order = line
        .inbound
        .report_order(line.now, |path| Some(path.index().to_string()));
    let interval = order.arriving.last_interval.unwrap();
    assert!(interval.reordering.reordered > 10_000, "{interval:?}");
    assert!(interval.density.entropy_nats > 0.1, "{interval:?}");
    assert_eq!(order.leaving.since_start.reordering.reordered, 0);
    assert!(
        order
            .paths
            .values()
            .all(|path| path.since_start.reordering.received > 10_000)
    );
}

#[test]
fn no_allocation_while_blocks_are_sorted() {
    for block in [DEFAULT_BLOCK, *BLOCKS.end()] {
        let mut line = pass(ReorderSettings {
            block: Some(block),
            ..ReorderSettings::default()
        });
        let order = line.inbound.report_order(line.now, |_| None);
        let [arriving, leaving] =
            [order.arriving, order.leaving].map(|point| point.since_start.reordering.reordered);
        assert!(
            arriving > 10_000 && leaving < arriving,
            "{leaving} of {arriving}"
        );
    }
}

/// One-way delay of a path in milliseconds, and what it carries in bytes a millisecond.
const LINKS: [(u64, usize); 2] = [(10, 2500), (25, 1250)];
/// Of the trains, one in so many is lost; more of them while buffers become warm.
const ONE_LOST_IN: usize = 40;
const ONE_LOST_IN_AT_FIRST: usize = 8;
const AT_FIRST: Duration = Duration::from_secs(2);
const MS: Duration = Duration::from_millis(1);

/// A train on its way, in a buffer of the end that it goes to.
struct Flying {
    arrives: Time,
    to: usize,
    path: PathId,
    tos: u8,
    segment_size: usize,
    len: usize,
    buffer: Buffer,
}

/// A super-packet comes so often, in milliseconds: all of them are more than the first link carries.
const EVERY_MS: u64 = 15;
const SUPER_PACKET: usize = 39_000;

/// Two ends whose scheduler is adaptive, over links that are slower than a super-packet comes.
struct Bonded {
    ends: [(Outbound, Inbound); 2],
    now: Time,
    flying: Vec<Flying>,
    /// When each link, by the end that sends and by path, has sent what it was given.
    busy_until: [[Time; LINKS.len()]; 2],
    trains: usize,
    received: usize,
}

fn address(end: usize) -> SocketAddr {
    SocketAddr::from(([10, 1, 0, end as u8 + 1], 4754))
}

impl Bonded {
    fn new() -> Bonded {
        let ends = [0, 1].map(|end| {
            let (mut outbound, mut inbound) = tunnel(&TunnelConfig {
                session: end as u64 + 1,
                key: None,
                mtu: 1464,
                reorder: ReorderSettings::default(),
                policy: Policy::Adaptive,
                recovery: true,
                accepts: Accepts::ALL,
                receives_trains: true,
                law: &Law::LAW,
            });
            for path in (0..LINKS.len()).filter_map(PathId::new) {
                let config = PathConfig {
                    remote: Some(address(1 - end)),
                    weight: 1,
                    keepalive: Duration::from_millis(200),
                    dead_after: Duration::from_secs(1),
                    metered: false,
                    keeps_port: false,
                };
                outbound.set_path(path, &config);
                inbound.set_path(Time::ZERO, path, config);
            }
            // As many buffers as may be in anybody's hands have been there.
            let taken: Vec<Buffer> = std::iter::from_fn(|| inbound.take_buffer()).collect();
            taken
                .into_iter()
                .for_each(|buffer| inbound.put_back(buffer));
            (outbound, inbound)
        });
        Bonded {
            ends,
            now: Time::ZERO,
            flying: Vec::with_capacity(1024),
            busy_until: Default::default(),
            trains: 0,
            received: 0,
        }
    }

    /// A millisecond passes, at whose beginning the host at the first end may send a super-packet.
    fn step(&mut self, sent: &mut Option<(VnetHeader, Vec<u8>)>) {
        self.now = self.now + MS;
        if let Some((header, packet)) = sent {
            self.ends[0].0.handle_tun(self.now, header, packet);
        }
        while let Some(at) = self
            .flying
            .iter()
            .position(|train| train.arrives <= self.now)
        {
            let train = self.flying.remove(at);
            let datagram = Datagram {
                path: train.path,
                from: address(1 - train.to),
                tos: train.tos,
                buffer: train.buffer,
                len: train.len,
                segment_size: Some(train.segment_size as u16),
                truncated: false,
                waited: Duration::ZERO,
            };
            self.ends[train.to].1.handle_datagram(self.now, datagram);
        }
        for end in 0..2 {
            self.settle(end);
        }
    }

    fn settle(&mut self, end: usize) {
        let [a, b] = &mut self.ends;
        let ((outbound, inbound), peer) = match end {
            0 => (a, &mut b.1),
            _ => (b, &mut a.1),
        };
        while let Some(news) = inbound.poll_news() {
            outbound.learn(self.now, news);
        }
        outbound.handle_timeout(self.now);
        inbound.handle_timeout(self.now);
        let received = &mut self.received;
        inbound.drain_tun(|_, packet| {
            *received += packet.len();
            true
        });
        while inbound.poll_event().is_some() {}
        let mut put = |transmit: Transmit<'_>, peer: &mut Inbound| {
            let (delay_ms, rate) = LINKS[transmit.path.index()];
            let len = transmit.contents.len();
            let busy = &mut self.busy_until[end][transmit.path.index()];
            *busy = (*busy).max(self.now) + MS * len as u32 / rate as u32;
            self.trains += 1;
            // A queue of 50 ms, and now and then a loss.
            let one_in = match self.now.since(Time::ZERO) < AT_FIRST {
                true => ONE_LOST_IN_AT_FIRST,
                false => ONE_LOST_IN,
            };
            if busy.since(self.now) > MS * 50 || self.trains.is_multiple_of(one_in) {
                return;
            }
            let Some(mut buffer) = peer.take_buffer() else {
                return;
            };
            buffer.as_mut()[..len].copy_from_slice(transmit.contents);
            self.flying.push(Flying {
                arrives: *busy + MS * delay_ms as u32,
                to: 1 - end,
                path: transmit.path,
                tos: transmit.tos,
                segment_size: transmit.segment_size,
                len,
                buffer,
            });
        };
        while let Some(transmit) = outbound.poll_transmit() {
            put(transmit, peer);
        }
        if outbound.poll_wake() {
            inbound.wake(self.now);
        }
        while let Some(transmit) = inbound.poll_transmit() {
            put(transmit, peer);
        }
    }
}

#[test]
fn no_allocation_while_packets_wait_and_are_sent_again() {
    packets_wait_and_are_sent_again(&[]);
}

#[test]
fn no_allocation_while_packets_of_a_class_wait_and_are_sent_again() {
    let matches = Match {
        ports: vec![1..=1, 1000..=u16::MAX],
        ..Match::default()
    };
    let class = ClassConfig {
        name: "all".to_owned(),
        matches,
        paths: PathSet::from_bits(u16::MAX),
        priority: Priority::Low,
        ..ClassConfig::default()
    };
    let bonded = packets_wait_and_are_sent_again(&[class]);
    let classes = bonded.ends[0].0.report_classes();
    assert!(classes[0].packets > 10_000, "{classes:?}");
}

fn packets_wait_and_are_sent_again(classes: &[ClassConfig]) -> Bonded {
    let mut bonded = Bonded::new();
    bonded.ends[0].0.set_classes(Time::ZERO, classes);
    let mut flow = Flow::new(Kind::Tcp, Version::V4, 1);
    let size = NonZeroU16::new(1400).unwrap();
    let status = |bonded: &Bonded| {
        let mut status = TunnelStatus::default();
        bonded.ends[0].0.report(&mut status);
        status
    };
    let (mut counted, mut waited, mut before) = (0, 0, (0, 0));
    // After two intervals all counts have their memory.
    for ms in 0..30_000 {
        // More comes at first, so that the queue has been longer than it will be.
        let every = if ms < 2000 { EVERY_MS / 3 } else { EVERY_MS };
        let comes = ms % every == 0;
        // The last packet of each has another length.
        let len = SUPER_PACKET - (ms % 1000) as usize;
        let mut packet = comes.then(|| flow.super_packet(len, size));
        if ms == 26_000 {
            before = (bonded.received, status(&bonded).recovery.resent);
        }
        let allocated = measure(|| bonded.step(&mut packet)).count_total;
        if ms >= 26_000 {
            counted += allocated;
            waited += u64::from(status(&bonded).queue_packets > 0);
        }
    }
    let (received, resent) = before;
    let resent = status(&bonded).recovery.resent - resent;
    let received = bonded.received - received;
    assert!(waited > 1000, "packets waited for {waited} ms of 4000");
    assert!(resent > 100, "{resent} packets were sent again");
    assert!(received > 5_000_000, "only {received} bytes came through");
    // A ring may have to grow once more: packets by the thousand take nothing.
    assert!(counted <= 16, "{counted} allocations");
    bonded
}

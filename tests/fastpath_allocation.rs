//! Once the tunnel is warm, packets take no memory: super-packets go through both lines, and their order
//! is measured at every point, without one allocation.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::time::Duration;

use allocation_counter::measure;
use mpt_core::control::LatePolicy;
use mpt_core::path::{PathConfig, PathId};
use mpt_core::receive::block_sort::{BLOCKS, DEFAULT_BLOCK};
use mpt_core::receive::buffer::Buffer;
use mpt_core::receive::coalesce::Accepts;
use mpt_core::send::scheduler::Policy;
use mpt_core::send::scheduler::law::Law;
use mpt_core::time::Time;
use mpt_core::tunnel::{Datagram, Inbound, Outbound, ReorderSettings, TunnelConfig, tunnel};
use mpt_core::wire::ip::Version;
use mpt_core::wire::vnet::VnetHeader;
use mpt_sim::flow::{Flow, Kind};

const PATHS: usize = 3;
const REMOTE: ([u8; 4], u16) = ([10, 1, 0, 2], 4754);
/// Datagrams that the network keeps, so that the paths overtake each other.
const BATCHES_UNDER_WAY: usize = 2;

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
    for _ in 0..500 {
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

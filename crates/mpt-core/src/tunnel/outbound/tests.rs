use std::sync::atomic::Ordering;

use std::time::Duration;

use super::*;
use crate::seq::Seq;
use crate::tunnel::tunnel;
use crate::wire::gre;
use crate::wire::ip::{put_u16, seal_v4_header};
use crate::wire::report::{Missing, PathReport};

const PATH: PathId = match PathId::new(0) {
    Some(path) => path,
    None => panic!("a path"),
};

fn at(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

/// A line out with one path, whose peer reports.
fn reported_on() -> Outbound {
    let (mut outbound, _) = tunnel(&TunnelConfig::of_test(1, 1400));
    let config = PathConfig {
        remote: Some(SocketAddr::from(([192, 0, 2, 1], 4754))),
        weight: 1,
        keepalive: Duration::from_secs(1),
        dead_after: Duration::from_secs(3),
        metered: false,
        keeps_port: false,
    };
    outbound.set_path(PATH, &config);
    let shared = &outbound.shared;
    shared.usable.store(1, Ordering::Relaxed);
    shared.peer_known.store(true, Ordering::Relaxed);
    outbound
}

/// A UDP datagram that may be fragmented, of so many bytes with its headers.
fn datagram(len: u16) -> Vec<u8> {
    let mut packet = vec![0; len.into()];
    (packet[0], packet[8], packet[9]) = (0x45, 64, 17);
    put_u16(&mut packet, 2, len);
    packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    put_u16(&mut packet, 24, len - 20);
    seal_v4_header(&mut packet[..20]);
    packet
}

/// The numbers and inner lengths of what is sent.
fn sent(outbound: &mut Outbound) -> Vec<(u32, usize)> {
    let mut sent = Vec::new();
    while let Some(train) = outbound.poll_transmit() {
        for one in train.contents.chunks(train.segment_size) {
            let (header, offset) = gre::parse(one, None).unwrap();
            sent.push((header.sequence.unwrap().value(), one.len() - offset));
        }
    }
    sent
}

#[test]
fn a_lost_fragment_goes_again_and_so_does_what_was_lost_before_it() {
    let mut outbound = reported_on();
    for len in [500, 1500, 600] {
        outbound.handle_tun(at(0), &VnetHeader::default(), &mut datagram(len));
    }
    let first = Seq::FIRST;
    let [n0, n1, n2, n3] = [0, 1, 2, 3].map(|n| first.plus(n).value());
    let all = [(n0, 500), (n1, 1396), (n2, 124), (n3, 600)];
    assert_eq!(sent(&mut outbound), all);

    let edge = PathReport {
        path: 0,
        edge: first.plus(3),
        edge_arrived: at(20),
        packets: 2,
        bytes: 740,
    };
    let report = Report {
        number: 1,
        session: 2,
        about: 1,
        sent: at(20),
        next: first,
        high: first.plus(4),
        paths: [edge].into_iter().collect(),
        missing: [Missing { first, count: 2 }].into_iter().collect(),
        duplicates: Default::default(),
    };
    outbound.learn(at(40), News::Report(at(40), report));
    assert_eq!(sent(&mut outbound), all[..2]);
}

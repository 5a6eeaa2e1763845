use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::send::segment::Segments;
use crate::wire::ip::{Packet, Version, put_u16};
use crate::wire::sample::{Sample, TCP, any_sample};
use crate::wire::vnet::{Checksum, Gso};

type Out = Vec<(VnetHeader, Vec<u8>)>;

fn join_accepting(accepts: Accepts, packets: &[Vec<u8>]) -> Out {
    let mut coalescer = Coalescer::new(accepts);
    let mut out = Out::new();
    let mut sink = |header: &VnetHeader, packet: &[u8]| out.push((*header, packet.to_vec()));
    for packet in packets {
        coalescer.push(packet, &mut sink);
    }
    coalescer.flush(&mut sink);
    assert!(coalescer.is_empty());
    out
}

fn join(packets: &[Vec<u8>]) -> Out {
    join_accepting(Accepts::ALL, packets)
}

/// How many packets each of the outputs stands for.
fn counts(out: &Out) -> Vec<usize> {
    out.iter().map(|output| cut(output).len()).collect()
}

/// What the kernel makes of an output.
fn cut((header, packet): &(VnetHeader, Vec<u8>)) -> Vec<Vec<u8>> {
    if header.gso == Gso::None {
        assert_eq!(header.checksum, Checksum::Stated);
        return vec![packet.clone()];
    }
    let segments = Segments::new(header, packet, usize::MAX).unwrap();
    let mut packets = Vec::new();
    for index in 0..segments.segments() {
        let mut packet = vec![0; segments.segment_len(index)];
        segments.write(index, &mut packet);
        packets.push(packet);
    }
    packets
}

/// Segments of one TCP flow, `size` bytes each and `length` in all.
fn train(version: Version, size: usize, length: usize) -> Vec<Sample> {
    let payload: Vec<u8> = (0..length).map(|byte| (byte * 7) as u8).collect();
    Sample::tcp(version, &payload).cut(size)
}

fn bytes(samples: &[Sample]) -> Vec<Vec<u8>> {
    samples.iter().map(Sample::bytes).collect()
}

#[test]
fn segments_in_order_become_one_super_packet() {
    for version in [Version::V4, Version::V6] {
        let out = join(&bytes(&train(version, 1000, 10_000)));
        assert_eq!(counts(&out), [10]);
        let (header, packet) = &out[0];
        let expected = Sample::tcp(
            version,
            &(0..10_000).map(|byte| (byte * 7) as u8).collect::<Vec<_>>(),
        );
        assert_eq!((*header, packet.clone()), expected.super_packet(1000));
    }
}

#[test]
fn datagrams_of_one_size_become_one_super_packet() {
    for version in [Version::V4, Version::V6] {
        let sample = Sample::udp(version, &[5; 2999]);
        let out = join(&bytes(&sample.cut(1000)));
        assert_eq!(out, [sample.super_packet(1000)]);
    }
}

#[test]
fn a_lone_packet_passes_as_it_came() {
    let packet = Sample::tcp(Version::V4, &[1; 500]).bytes();
    assert_eq!(
        join(std::slice::from_ref(&packet)),
        [(VnetHeader::default(), packet)]
    );
}

#[test]
fn a_shorter_payload_ends_the_super_packet() {
    let mut samples = train(Version::V4, 100, 250);
    let mut next = samples[2].clone();
    next.sequence = next.sequence.wrapping_add(50);
    samples.push(next);
    assert_eq!(counts(&join(&bytes(&samples))), [3, 1]);
}

#[test]
fn a_longer_payload_begins_another() {
    let mut samples = train(Version::V4, 100, 200);
    let mut next = Sample::tcp(Version::V4, &[7; 101]);
    next.sequence = next.sequence.wrapping_add(200);
    samples.push(next);
    assert_eq!(counts(&join(&bytes(&samples))), [2, 1]);
}

#[test]
fn psh_ends_the_super_packet_and_is_kept() {
    let mut samples = train(Version::V4, 100, 500);
    samples[2].flags |= 0x08;
    let out = join(&bytes(&samples));
    assert_eq!(counts(&out), [3, 2]);
    assert_eq!(out[0].1[33], 0x18);
    assert_eq!(out[1].1[33], 0x10);
}

#[test]
fn a_gap_or_a_repeat_is_not_joined() {
    let mut samples = train(Version::V4, 100, 400);
    samples.remove(1);
    assert_eq!(counts(&join(&bytes(&samples))), [1, 2]);
    let mut samples = train(Version::V4, 100, 200);
    samples.push(samples[1].clone());
    assert_eq!(counts(&join(&bytes(&samples))), [2, 1]);
}

#[test]
fn packets_that_differ_in_a_header_field_are_not_joined() {
    type Change = fn(&mut Sample);
    let changes: [(&str, Change); 9] = [
        ("ECN", |s| s.tos ^= 3),
        ("DSCP", |s| s.tos ^= 0x40),
        ("TTL", |s| s.ttl -= 1),
        ("flow label", |s| s.flow_label ^= 1),
        ("acknowledgment", |s| s.ack += 1),
        ("window", |s| s.window += 1),
        ("urgent pointer", |s| s.urgent += 1),
        ("options", |s| s.tcp_options[11] ^= 1),
        ("options' length", |s| s.tcp_options.truncate(8)),
    ];
    for (name, change) in changes {
        let mut samples = train(Version::V6, 100, 200);
        change(&mut samples[1]);
        assert_eq!(counts(&join(&bytes(&samples))), [1, 1], "{name}");
    }
    let mut samples = train(Version::V4, 100, 200);
    samples[1].dont_fragment = false;
    assert_eq!(counts(&join(&bytes(&samples))), [1, 1], "DF");
}

#[test]
fn other_flags_pass_alone_and_in_their_place() {
    for flag in [0x01, 0x02, 0x04, 0x20, 0x40, 0x80] {
        let mut samples = train(Version::V4, 100, 500);
        samples[2].flags |= flag;
        let out = join(&bytes(&samples));
        assert_eq!(counts(&out), [2, 1, 2], "flag {flag:#x}");
        assert_eq!(out[1].1, samples[2].bytes());
    }
}

#[test]
fn a_segment_without_payload_passes_in_its_place() {
    let mut samples = train(Version::V4, 100, 400);
    samples.insert(2, {
        let mut empty = samples[2].clone();
        empty.payload.clear();
        empty
    });
    assert_eq!(counts(&join(&bytes(&samples))), [2, 1, 2]);
}

#[test]
fn identifications_must_count_up_unless_df_is_set() {
    for (dont_fragment, expected) in [(true, vec![3]), (false, vec![1, 2])] {
        let mut samples = train(Version::V4, 100, 300);
        samples[0].id = 9;
        for sample in &mut samples {
            sample.dont_fragment = dont_fragment;
        }
        assert_eq!(counts(&join(&bytes(&samples))), expected);
    }
}

#[test]
fn a_packet_with_a_wrong_checksum_passes_alone_untouched_and_in_its_place() {
    for protocol in [TCP, 17] {
        let mut sample = Sample::tcp(Version::V4, &[3; 500]);
        sample.protocol = protocol;
        for place in [8, 30, 60] {
            let mut packets = bytes(&sample.cut(100));
            packets[2][place] ^= 0x10;
            let out = join(&packets);
            assert_eq!(out[1], (VnetHeader::default(), packets[2].clone()));
            assert_eq!(counts(&out), [2, 1, 2]);
        }
    }
}

#[test]
fn a_udp_datagram_without_checksum_passes_alone() {
    let mut packets = bytes(&Sample::udp(Version::V4, &[3; 300]).cut(100));
    put_u16(&mut packets[1], 26, 0);
    assert_eq!(counts(&join(&packets)), [1, 1, 1]);
}

#[test]
fn fragments_and_options_pass_in_their_place() {
    let samples = train(Version::V4, 100, 400);
    let mut packets = bytes(&samples);
    let mut later = packets[1].clone();
    put_u16(&mut later, 6, 3); // A later fragment has no ports to tell its flow by.
    crate::wire::ip::seal_v4_header(&mut later[..20]);
    packets.insert(2, later.clone());
    let out = join(&packets);
    assert_eq!(out.len(), 3);
    assert_eq!(out[1].1, later);

    let mut packets = bytes(&samples);
    let mut with_option = packets[1][..20].to_vec();
    with_option[0] = 0x46;
    with_option.extend([1, 1, 1, 1]);
    with_option.extend(&packets[1][20..]);
    put_u16(&mut with_option, 2, packets[1].len() as u16 + 4);
    crate::wire::ip::seal_v4_header(&mut with_option[..24]);
    packets.insert(2, with_option.clone());
    let out = join(&packets);
    assert_eq!((out.len(), &out[1].1), (3, &with_option));
}

#[test]
fn flows_are_joined_side_by_side() {
    let mut flows = vec![train(Version::V4, 100, 500), train(Version::V6, 100, 500)];
    let mut third = Sample::udp(Version::V4, &[1; 500]).cut(100);
    third.iter_mut().for_each(|sample| sample.source_port = 9);
    flows.push(third);
    let packets: Vec<_> = (0..5)
        .flat_map(|at| flows.iter().map(move |flow| flow[at].bytes()))
        .collect();
    assert_eq!(counts(&join(&packets)), [5, 5, 5]);
}

#[test]
fn the_flow_opened_first_makes_room() {
    let mut packets = Vec::new();
    for port in 0..=MAX_FLOWS as u16 {
        let mut sample = Sample::tcp(Version::V4, &[1; 100]);
        sample.source_port = port;
        packets.push(sample.bytes());
    }
    let out: Vec<_> = join(&packets)
        .into_iter()
        .map(|(_, packet)| packet)
        .collect();
    assert_eq!(out, packets);
}

#[test]
fn super_packets_keep_their_limits() {
    let out = join(&bytes(&train(Version::V4, 1448, 200_000)));
    assert!(out.iter().all(|(_, packet)| packet.len() <= 65_535));
    assert_eq!(counts(&out)[0], 65_483 / 1448);
    let out = join(&bytes(&train(Version::V6, 100, 10_000)));
    assert_eq!(counts(&out), [64, 36]);
}

#[test]
fn what_the_tun_does_not_take_passes() {
    let mut packets = bytes(&train(Version::V4, 100, 300));
    packets.extend(bytes(&train(Version::V6, 100, 300)));
    packets.extend(bytes(&Sample::udp(Version::V6, &[1; 300]).cut(100)));
    let out = join_accepting(Accepts::NONE, &packets);
    assert_eq!(
        out.into_iter()
            .map(|(_, packet)| packet)
            .collect::<Vec<_>>(),
        packets
    );
    let no_uso = Accepts {
        udp: false,
        ..Accepts::ALL
    };
    assert_eq!(join_accepting(no_uso, &packets).len(), 5);
}

#[test]
fn a_corrupt_packet_passes_alone() {
    let mut coalescer = Coalescer::new(Accepts::ALL);
    let mut packet = Sample::tcp(Version::V4, &[3; 100]).bytes();
    packet[90] ^= 1;
    coalescer.push(&packet, &mut |_, out| assert_eq!(out, packet));
    assert!(coalescer.is_empty());
}

/// Version, protocol, addresses and ports, where they can be seen.
fn flow_of(packet: &[u8]) -> Option<Vec<u8>> {
    let parsed = Packet::parse(packet).ok()?;
    let transport = parsed.transport().ok().filter(|found| found.is_first())?;
    let ports = parsed.bytes().get(transport.offset..transport.offset + 4)?;
    let (source, destination) = (parsed.source(), parsed.destination());
    Some(
        [
            format!("{source} {destination} {}", transport.protocol).as_bytes(),
            ports,
        ]
        .concat(),
    )
}

/// With DF the identification has no meaning, and a super-packet's packets get consecutive ones.
fn meaning(packet: &[u8]) -> Vec<u8> {
    let mut bytes = packet.to_vec();
    let is_atomic = Packet::parse(packet).is_ok_and(|packet| {
        packet.version() == Version::V4 && packet.dont_fragment() && packet.header_is_intact()
    });
    if is_atomic {
        bytes[4..6].fill(0);
        bytes[10..12].fill(0);
    }
    bytes
}

/// Each flow's packets in order; the flows sorted.
fn by_flow(packets: &[Vec<u8>]) -> BTreeMap<Option<Vec<u8>>, Vec<Vec<u8>>> {
    let mut flows = BTreeMap::<_, Vec<_>>::new();
    for packet in packets {
        flows
            .entry(flow_of(packet))
            .or_default()
            .push(meaning(packet));
    }
    flows
}

/// A few flows' packets, mixed, with oddities among them.
fn traffic() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let flow =
        (any_sample(4000), 1usize..1500, any::<bool>()).prop_map(|(mut sample, size, bulk)| {
            sample.source_port %= 4;
            if bulk {
                sample.flags = 0x10;
            }
            sample.cut(size.max(60))
        });
    let oddity = (
        any::<prop::sample::Index>(),
        any::<prop::sample::Index>(),
        0u8..6,
    );
    (
        vec(flow, 1..6),
        vec(any::<prop::sample::Index>(), 0..200),
        vec(oddity, 0..4),
    )
        .prop_map(|(mut flows, picks, oddities)| {
            let mut packets = Vec::new();
            for pick in picks {
                flows.retain(|flow| !flow.is_empty());
                if !flows.is_empty() {
                    let flow = pick.index(flows.len());
                    packets.push(flows[flow].remove(0).bytes());
                }
            }
            packets.extend(flows.iter().flat_map(|flow| bytes(flow)));
            for (at, place, kind) in oddities {
                let (at, other) = (at.index(packets.len()), place.index(packets.len()));
                match kind {
                    0 => packets.swap(at, other),
                    1 => packets.insert(at, packets[other].clone()),
                    2 if packets.len() > 1 => drop(packets.remove(at)),
                    _ => {
                        let bit = place.index(packets[at].len() * 8);
                        packets[at][bit / 8] ^= 1 << (bit % 8);
                    }
                }
            }
            packets
        })
}

proptest! {
    #[test]
    fn joining_what_was_cut_gives_the_super_packet_back(
        mut sample in any_sample(20_000),
        size in 400u16..3000,
        push: bool,
    ) {
        sample.flags = if push { 0x18 } else { 0x10 };
        sample.payload.resize(sample.payload.len() + usize::from(size) + 1, 0x5a);
        let out = join(&bytes(&sample.cut(size.into())));
        prop_assert_eq!(out, [sample.super_packet(size)]);
    }

    /// Cut again, super-packets give the packets that came: every byte, every flow in order, those
    /// with flipped bits as they were.
    #[test]
    fn cutting_what_was_joined_gives_the_packets_back(packets in traffic()) {
        let out = join(&packets);
        let back: Vec<_> = out.iter().flat_map(cut).collect();
        prop_assert_eq!(by_flow(&back), by_flow(&packets));
    }

    #[test]
    fn a_flipped_bit_is_never_laundered(sample in any_sample(3000), at: prop::sample::Index, bit: prop::sample::Index) {
        let mut packets = bytes(&sample.cut(200));
        let at = at.index(packets.len());
        let bit = bit.index(packets[at].len() * 8);
        packets[at][bit / 8] ^= 1 << (bit % 8);
        let back: Vec<_> = join(&packets).iter().flat_map(cut).collect();
        prop_assert!(back.contains(&packets[at]));
        prop_assert_eq!(by_flow(&back), by_flow(&packets));
    }

    #[test]
    fn random_bytes_never_panic(packets in vec(vec(any::<u8>(), 0..120), 0..20)) {
        prop_assert_eq!(join(&packets).len(), packets.len());
    }

    #[test]
    fn damaged_headers_never_panic(
        sample in any_sample(2000),
        damage in vec((any::<prop::sample::Index>(), 0usize..80, any::<u8>()), 0..8),
    ) {
        let mut packets = bytes(&sample.cut(150));
        for (packet, place, byte) in damage {
            let at = packet.index(packets.len());
            let place = place % packets[at].len();
            packets[at][place] = byte;
        }
        let back: Vec<_> = join(&packets).iter().flat_map(cut).collect();
        prop_assert_eq!(by_flow(&back), by_flow(&packets));
    }
}

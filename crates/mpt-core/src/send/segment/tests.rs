use proptest::prelude::*;

use super::*;
use crate::wire::ip::{u16_at, u32_at};
use crate::wire::sample::{Sample, any_sample, ones_sum};

fn cut(header: &VnetHeader, packet: &[u8], mtu: usize) -> Result<Vec<Vec<u8>>, SegmentError> {
    let mut segments = Segments::new(header, packet, mtu)?;
    let mut packets = Vec::new();
    for index in 0..segments.segments() {
        assert_eq!(segments.remaining(), segments.segments() - index);
        let mut out = vec![0xaa; segments.segment_len(index)];
        assert_eq!(segments.write_next(&mut out), out.len());
        packets.push(out);
    }
    assert_eq!(segments.write_next(&mut []), 0);
    Ok(packets)
}

fn error(header: &VnetHeader, packet: &[u8], mtu: usize) -> SegmentError {
    Segments::new(header, packet, mtu).map(|_| ()).unwrap_err()
}

fn bytes(samples: &[Sample]) -> Vec<Vec<u8>> {
    samples.iter().map(Sample::bytes).collect()
}

#[test]
fn fin_and_psh_go_on_the_last_and_cwr_on_the_first() {
    let mut sample = Sample::tcp(Version::V4, &[7; 300]);
    sample.flags = 0x10 | 0x80 | 0x08 | 0x01;
    let (header, packet) = sample.super_packet(100);
    let flags: Vec<_> = cut(&header, &packet, 1500)
        .unwrap()
        .iter()
        .map(|segment| segment[33])
        .collect();
    assert_eq!(flags, [0x90, 0x10, 0x19]);
}

#[test]
fn ipv4_identifications_and_sequence_numbers_count_up_and_wrap() {
    let (header, packet) = Sample::tcp(Version::V4, &[7; 300]).super_packet(100);
    let packets = cut(&header, &packet, 1500).unwrap();
    let ids: Vec<_> = packets.iter().map(|packet| u16_at(packet, 4)).collect();
    assert_eq!(ids, [0xfffe, 0xffff, 0]);
    let sequences: Vec<_> = packets.iter().map(|packet| u32_at(packet, 24)).collect();
    assert_eq!(sequences, [0xffff_ff00, 0xffff_ff64, 0xffff_ffc8]);
}

#[test]
fn every_segment_keeps_the_super_packets_ecn_field() {
    for version in [Version::V4, Version::V6] {
        let mut sample = Sample::tcp(version, &[7; 300]);
        sample.tos = 0x03;
        let (header, packet) = sample.super_packet(100);
        for packet in cut(&header, &packet, 1500).unwrap() {
            assert_eq!(Packet::parse(&packet).unwrap().tos(), 0x03);
        }
    }
}

#[test]
fn tcp_is_cut_finer_where_the_mtu_wants_it() {
    let sample = Sample::tcp(Version::V6, &[7; 5000]);
    let (header, packet) = sample.super_packet(1440);
    let packets = cut(&header, &packet, 1280).unwrap();
    assert_eq!(packets, bytes(&sample.cut(1280 - 72)));
    assert_eq!(error(&header, &packet, 72), SegmentError::MtuTooSmall);
    assert_eq!(cut(&header, &packet, 73).unwrap().len(), 5000);
}

#[test]
fn udp_datagrams_that_do_not_fit_are_for_the_caller() {
    let sample = Sample::udp(Version::V4, &[7; 5000]);
    let (header, packet) = sample.super_packet(1400);
    assert_eq!(error(&header, &packet, 1427), SegmentError::TooBig);
    let whole = cut(&header, &packet, usize::MAX).unwrap();
    assert_eq!(whole, cut(&header, &packet, 1428).unwrap());
    assert_eq!(whole, bytes(&sample.cut(1400)));
}

#[test]
fn a_lone_packet_is_copied_and_its_checksum_completed() {
    for sample in [
        Sample::tcp(Version::V4, b"odd"),
        Sample::udp(Version::V6, b"odd"),
    ] {
        let (header, partial) = sample.super_packet(3);
        let header = VnetHeader {
            gso: Gso::None,
            ..header
        };
        let whole = sample.bytes();
        let completed = cut(&header, &partial, 1500).unwrap();
        assert_eq!(completed.concat(), whole);
        let copied = cut(&VnetHeader::default(), &whole, whole.len()).unwrap();
        assert_eq!(copied.concat(), whole);
        assert_eq!(
            error(&header, &partial, whole.len() - 1),
            SegmentError::TooBig
        );
    }
}

#[test]
fn a_zero_udp_checksum_is_sent_as_ones() {
    // The payload's last word is what brings the sum to all ones.
    let mut sample = Sample::udp(Version::V4, &[0; 4]);
    let checksum = u16_at(&sample.bytes(), 26);
    sample.payload[2..].copy_from_slice(&checksum.to_be_bytes());
    let (header, packet) = sample.super_packet(1000);
    assert_eq!(u16_at(&cut(&header, &packet, 1500).unwrap()[0], 26), 0xffff);
}

#[test]
fn a_zero_tcp_checksum_is_sent_as_zero() {
    let mut sample = Sample::tcp(Version::V4, &[0; 4]);
    let checksum = u16_at(&sample.bytes(), 36);
    sample.payload[2..].copy_from_slice(&checksum.to_be_bytes());
    let (mut header, packet) = sample.super_packet(1000);
    assert_eq!(u16_at(&cut(&header, &packet, 1500).unwrap()[0], 36), 0);
    header.gso = Gso::None;
    assert_eq!(u16_at(&cut(&header, &packet, 1500).unwrap()[0], 36), 0);
}

#[test]
fn a_routing_header_with_segments_left_keeps_its_final_destination_in_the_sum() {
    let sample = Sample::tcp(Version::V6, &[7; 300]);
    let (mut header, packet) = sample.super_packet(100);
    // The sum was made for the destination that the sample has; the header now says another.
    let mut routed = packet[..40].to_vec();
    routed[6] = 43;
    routed[39] = 0x99;
    routed.extend([6, 0, 4, 1, 0, 0, 0, 0]);
    routed.extend(&packet[40..]);
    put_u16(&mut routed, 4, (packet.len() - 40 + 8) as u16);
    header.checksum = Checksum::Partial {
        start: 48,
        offset: 16,
    };
    let plain = bytes(&sample.cut(100));
    for (cut, plain) in cut(&header, &routed, 1500).unwrap().iter().zip(plain) {
        assert_eq!(cut[48..], plain[40..]);
    }
}

#[test]
fn headers_that_do_not_describe_the_packet_are_errors() {
    let (good, packet) = Sample::tcp(Version::V4, &[7; 300]).super_packet(100);
    let (six, packet6) = Sample::tcp(Version::V6, &[7; 300]).super_packet(100);
    let (udp, datagrams) = Sample::udp(Version::V4, &[7; 300]).super_packet(100);
    assert_eq!(error(&six, &packet, 1500), SegmentError::Mismatch);
    assert_eq!(error(&good, &packet6, 1500), SegmentError::Mismatch);
    assert_eq!(error(&udp, &packet, 1500), SegmentError::Mismatch);
    assert_eq!(error(&good, &datagrams, 1500), SegmentError::Mismatch);

    let mut fragment = packet.clone();
    fragment[6] |= 0x20;
    assert_eq!(error(&good, &fragment, 1500), SegmentError::Mismatch);
    let mut cut_short = packet.clone();
    cut_short[32] = 0xf0;
    put_u16(&mut cut_short, 2, 70);
    assert_eq!(error(&good, &cut_short, 1500), SegmentError::Mismatch);
    for flag in [tcp::SYN, tcp::RST] {
        let mut flagged = packet.clone();
        flagged[33] |= flag;
        assert_eq!(error(&good, &flagged, 1500), SegmentError::Flags);
    }
    assert_eq!(
        error(&good, &packet[..100], 1500),
        SegmentError::Ip(ParseError::Truncated)
    );
    let inside_ip = VnetHeader {
        gso: Gso::None,
        checksum: Checksum::Partial {
            start: 4,
            offset: 6,
        },
        headers_len: 0,
    };
    assert_eq!(error(&inside_ip, &packet, 1500), SegmentError::Mismatch);
}

#[test]
fn bytes_behind_the_packet_are_not_cut_along() {
    let sample = Sample::tcp(Version::V4, &[7; 300]);
    let (header, mut packet) = sample.super_packet(100);
    packet.extend([0xee; 50]);
    assert_eq!(
        cut(&header, &packet, 1500).unwrap(),
        bytes(&sample.cut(100))
    );
}

proptest! {
    /// Against packets written field by field, in every byte.
    #[test]
    fn segments_are_the_packets_that_the_super_packet_stands_for(
        sample in any_sample(6000),
        size in 1u16..3000,
        // The longest headers of a sample, IPv6 and TCP with ten words of options, are 100 bytes.
        mtu in 101usize..4000,
    ) {
        let (header, packet) = sample.super_packet(size);
        match cut(&header, &packet, mtu) {
            Ok(packets) => {
                let headers = usize::from(header.headers_len);
                let size = if sample.protocol == 6 { usize::from(size).min(mtu - headers) } else { size.into() };
                prop_assert!(packets.iter().all(|packet| packet.len() <= mtu));
                prop_assert_eq!(packets, bytes(&sample.cut(size)));
            }
            Err(error) => {
                prop_assert_eq!(error, SegmentError::TooBig);
                prop_assert!(sample.protocol == 17 && sample.cut(size.into())[0].bytes().len() > mtu);
            }
        }
    }

    #[test]
    fn any_order_of_writing_gives_the_same_packets(sample in any_sample(3000), size in 100u16..1000) {
        let (header, packet) = sample.super_packet(size);
        let segments = Segments::new(&header, &packet, usize::MAX).unwrap();
        let expected = bytes(&sample.cut(size.into()));
        for index in (0..segments.segments()).rev() {
            let mut out = vec![0; 4000];
            let length = segments.write(index, &mut out);
            prop_assert_eq!(&out[..length], &expected[index][..]);
        }
    }

    #[test]
    fn a_completed_checksum_equals_the_naive_one(sample in any_sample(200)) {
        let (header, mut packet) = sample.super_packet(1);
        let header = VnetHeader { gso: Gso::None, ..header };
        header.complete_checksum(&mut packet).unwrap();
        prop_assert_eq!(packet, sample.bytes());
    }

    #[test]
    fn hostile_headers_and_packets_never_panic(
        sample in any_sample(300),
        vnet: [u8; vnet::LEN],
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        keep_vnet: bool,
        mtu in 0usize..400,
    ) {
        let (header, mut packet) = sample.super_packet(64);
        for (place, byte) in damage {
            let place = place.index(packet.len());
            packet[place] = byte;
        }
        let vnet = if keep_vnet { header.to_bytes() } else { vnet };
        let read = [&vnet[..], &packet].concat();
        if let Ok((header, packet)) = VnetHeader::parse(&read)
            && let Ok(packets) = cut(&header, packet, mtu)
        {
            for packet in packets {
                prop_assert!(packet.len() <= mtu);
                prop_assert!(packet[0] >> 4 != 4 || header.gso == Gso::None
                    || ones_sum(&packet[..usize::from(packet[0] & 15) * 4]) == 0xffff);
            }
        }
    }

    #[test]
    fn random_bytes_never_panic(read: Vec<u8>) {
        if let Ok((header, packet)) = VnetHeader::parse(&read) {
            let _ = cut(&header, packet, 1500);
        }
    }
}

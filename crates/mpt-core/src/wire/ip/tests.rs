use super::*;
use proptest::prelude::*;

fn v4(payload: usize) -> Vec<u8> {
    let mut packet = vec![0x45, 0x28, 0, 0, 0x12, 0x34, 0x40, 0, 64, 17, 0, 0];
    packet.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    packet.resize(IPV4_HEADER + payload, 7);
    put_u16(&mut packet, 2, (IPV4_HEADER + payload) as u16);
    seal_v4_header(&mut packet[..IPV4_HEADER]);
    packet
}

fn v6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x62, 0x8a, 0xbc, 0xde, 0, 0, next, 63];
    packet.extend([0xfd; 16]);
    packet.extend([0xfe; 16]);
    packet.extend(payload);
    put_u16(&mut packet, 4, payload.len() as u16);
    packet
}

#[test]
fn bytes_after_the_total_length_are_trimmed() {
    for mut bytes in [v4(8), v6(17, &[7; 8])] {
        let whole = bytes.clone();
        bytes.extend([0xee; 30]);
        assert_eq!(Packet::parse(&bytes).unwrap().bytes(), whole);
    }
}

#[test]
fn a_packet_cut_short_is_an_error_at_every_length() {
    for bytes in [v4(8), v6(17, &[7; 8])] {
        for length in 0..bytes.len() {
            assert_eq!(Packet::parse(&bytes[..length]), Err(ParseError::Truncated));
        }
    }
}

#[test]
fn contradicting_lengths_and_other_versions_are_errors() {
    let mut bytes = v4(8);
    bytes[0] = 0x44;
    assert_eq!(Packet::parse(&bytes), Err(ParseError::Length));
    bytes[0] = 0x48; // A header of 32 bytes in a packet of 28.
    assert_eq!(Packet::parse(&bytes), Err(ParseError::Length));
    bytes[0] = 0x55;
    assert_eq!(Packet::parse(&bytes), Err(ParseError::Version));
}

#[test]
fn fields_of_ipv4() {
    let bytes = v4(8);
    let packet = Packet::parse(&bytes).unwrap();
    assert_eq!(packet.version(), Version::V4);
    assert_eq!(packet.tos(), 0x28);
    assert_eq!(packet.id(), Some(0x1234));
    assert!(packet.dont_fragment() && packet.header_is_intact());
    assert_eq!(packet.source(), IpAddr::from([10, 0, 0, 1]));
    assert_eq!(packet.destination(), IpAddr::from([10, 0, 0, 2]));
    let transport = packet.transport().unwrap();
    assert_eq!((transport.protocol, transport.offset), (17, 20));
    assert_eq!(transport.fragment, None);
}

#[test]
fn fields_of_ipv6() {
    let bytes = v6(6, &[7; 20]);
    let packet = Packet::parse(&bytes).unwrap();
    assert_eq!(packet.version(), Version::V6);
    assert_eq!(packet.tos(), 0x28);
    assert_eq!(packet.id(), None);
    assert!(packet.dont_fragment() && packet.header_is_intact());
    assert_eq!(packet.source(), IpAddr::from([0xfd; 16]));
    assert_eq!(packet.destination(), IpAddr::from([0xfe; 16]));
    let transport = packet.transport().unwrap();
    assert_eq!((transport.protocol, transport.offset), (6, 40));
}

#[test]
fn ipv4_fragments_are_flagged() {
    let mut bytes = v4(8);
    put_u16(&mut bytes, 6, 0x2000 | 3);
    let transport = Packet::parse(&bytes).unwrap().transport().unwrap();
    assert_eq!(
        transport.fragment,
        Some(Fragment {
            offset: 24,
            more: true
        })
    );
    assert!(!transport.is_first());
}

#[test]
fn ipv6_extension_headers_are_walked() {
    // Hop-by-hop (8), destination (16), authentication (12), then UDP.
    let mut chain = vec![60, 0, 1, 4, 0, 0, 0, 0];
    chain.extend([51, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    chain.extend([17, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1]);
    chain.extend([0; 8]);
    let bytes = v6(0, &chain);
    let transport = Packet::parse(&bytes).unwrap().transport().unwrap();
    assert_eq!(
        (transport.protocol, transport.offset),
        (17, 40 + 8 + 16 + 12)
    );
}

#[test]
fn the_walk_stops_at_a_later_fragment() {
    let mut chain = vec![60, 0, 0x05, 0xa9, 0, 0, 0, 1]; // Offset 1448, more to come.
    chain.extend([0xff; 16]);
    let bytes = v6(44, &chain);
    let transport = Packet::parse(&bytes).unwrap().transport().unwrap();
    assert_eq!((transport.protocol, transport.offset), (60, 48));
    let fragment = transport.fragment.unwrap();
    assert_eq!((fragment.offset, fragment.more), (1448, true));
}

#[test]
fn extension_headers_are_bounded() {
    let bytes = v6(60, &[60, 0, 1, 4, 0, 0, 0, 0].repeat(9));
    let packet = Packet::parse(&bytes).unwrap();
    assert_eq!(packet.transport(), Err(ParseError::TooManyExtensions));
    let bytes = v6(60, &[60, 2, 1, 4, 0, 0, 0, 0]);
    let packet = Packet::parse(&bytes).unwrap();
    assert_eq!(packet.transport(), Err(ParseError::Truncated));
}

#[test]
fn a_wrong_header_checksum_stays_wrong_when_tos_changes() {
    let mut bytes = v4(0);
    bytes[8] ^= 1;
    PacketMut::parse(&mut bytes).unwrap().set_tos(3);
    assert!(!Packet::parse(&bytes).unwrap().header_is_intact());
}

proptest! {
    #[test]
    fn tos_reads_back_and_changes_nothing_else(tos: u8) {
        for before in [v4(4), v6(17, &[1; 4])] {
            let mut bytes = before.clone();
            PacketMut::parse(&mut bytes).unwrap().set_tos(tos);
            let packet = Packet::parse(&bytes).unwrap();
            prop_assert_eq!(packet.tos(), tos);
            prop_assert!(packet.header_is_intact());
            PacketMut::parse(&mut bytes).unwrap().set_tos(0x28);
            prop_assert_eq!(bytes, before);
        }
    }

    #[test]
    fn random_bytes_never_panic(mut bytes: Vec<u8>, first in prop::sample::select(vec![0x45, 0x46, 0x4f, 0x60])) {
        if let Some(byte) = bytes.first_mut() {
            *byte = first;
        }
        if let Ok(packet) = Packet::parse(&bytes) {
            prop_assert!(packet.header_len() <= packet.total_len());
            let _ = (packet.tos(), packet.id(), packet.source(), packet.destination());
            if let Ok(transport) = packet.transport() {
                prop_assert!(transport.offset <= packet.total_len());
            }
        }
    }
}

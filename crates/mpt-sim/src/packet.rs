//! Inner packets: IPv4 and IPv6 with UDP or a bare TCP header, each with a number in its payload by which a test knows
//! it again.

use mpt_core::wire::checksum::{Sum, pseudo_v4, pseudo_v6};
use mpt_core::wire::ip::{IPV4_HEADER, IPV6_HEADER, Packet, Version, protocol};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const UDP_HEADER: usize = 8;
const TCP_HEADER: usize = 20;
/// TCP's flags.
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
/// Protocol number of UDP-Lite.
const UDP_LITE: u8 = 136;

/// What an inner packet looks like.
#[derive(Debug, Clone, Copy)]
pub struct Inner {
    /// IPv4 or IPv6.
    pub version: Version,
    /// Length of the whole packet, in bytes. What has no room for the number is made longer.
    pub len: usize,
    /// TOS or Traffic Class.
    pub tos: u8,
    /// IPv4's DF bit.
    pub dont_fragment: bool,
    /// UDP source port: what tells flows apart.
    pub source_port: u16,
    /// What follows the IP header.
    pub kind: Kind,
}

/// What a packet is to a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// UDP, of which the tunnel lets single datagrams overtake others.
    Udp,
    /// UDP-Lite (RFC 3828), all of which is kept in order.
    UdpLite,
    /// TCP's data. Number 0 is a SYN, and what has the next number is the next segment, if all of the others are as long.
    Segment,
    /// TCP's bare acknowledgement, which may overtake others. Its number is that of the segment and of the
    /// acknowledgement.
    Acknowledgement,
}

impl Kind {
    /// Where the number and the checksum lie, from the end of the IP header.
    fn fields(self) -> (usize, usize) {
        match self {
            Kind::Udp | Kind::UdpLite => (8, 6),
            Kind::Segment => (TCP_HEADER, 16),
            Kind::Acknowledgement => (4, 16),
        }
    }

    fn protocol(self) -> u8 {
        match self {
            Kind::Udp => protocol::UDP,
            Kind::UdpLite => UDP_LITE,
            Kind::Segment | Kind::Acknowledgement => protocol::TCP,
        }
    }
}

impl Default for Inner {
    /// IPv4, 1000 bytes, DF.
    fn default() -> Self {
        Inner {
            version: Version::V4,
            len: 1000,
            tos: 0,
            dont_fragment: true,
            source_port: 4000,
            kind: Kind::Udp,
        }
    }
}

impl Inner {
    /// As the default, of this length.
    #[must_use]
    pub fn of_len(len: usize) -> Inner {
        Inner {
            len,
            ..Inner::default()
        }
    }

    /// The packet with number `id`; all checksums are right.
    #[must_use]
    pub fn packet(&self, id: u64) -> Vec<u8> {
        let header_len = match self.version {
            Version::V4 => IPV4_HEADER,
            Version::V6 => IPV6_HEADER,
        };
        let least = match self.kind {
            Kind::Udp | Kind::UdpLite => UDP_HEADER + 8,
            Kind::Segment => TCP_HEADER + 8,
            Kind::Acknowledgement => TCP_HEADER,
        };
        let len = self.len.max(header_len + least);
        let inner_len = (len - header_len) as u16;
        let mut packet = vec![0; len];
        match self.version {
            Version::V4 => self.write_v4(&mut packet, id),
            Version::V6 => self.write_v6(&mut packet, inner_len),
        }
        let inner = &mut packet[header_len..];
        for (at, byte) in inner[least..].iter_mut().enumerate() {
            *byte = (id as usize).wrapping_add(at) as u8;
        }
        inner[0..2].copy_from_slice(&self.source_port.to_be_bytes());
        inner[2..4].copy_from_slice(&5000u16.to_be_bytes());
        match self.kind {
            Kind::Udp | Kind::UdpLite => inner[4..6].copy_from_slice(&inner_len.to_be_bytes()),
            Kind::Segment => {
                let payload = u32::from(inner_len) - TCP_HEADER as u32;
                let (first, flags) = match id.checked_sub(1) {
                    Some(before) => ((before as u32).wrapping_mul(payload), ACK),
                    // A SYN takes a number, too.
                    None => (0u32.wrapping_sub(1 + payload), SYN),
                };
                inner[4..8].copy_from_slice(&first.to_be_bytes());
                (inner[12], inner[13]) = ((TCP_HEADER / 4) as u8 * 16, flags);
            }
            Kind::Acknowledgement => (inner[12], inner[13]) = ((inner_len / 4) as u8 * 16, ACK),
        }
        let (number, checksum) = self.kind.fields();
        inner[number..number + 8].copy_from_slice(&id.to_be_bytes());
        let pseudo = match self.version {
            Version::V4 => pseudo_v4(V4[0], V4[1], self.kind.protocol(), inner_len),
            Version::V6 => pseudo_v6(V6[0], V6[1], self.kind.protocol(), u32::from(inner_len)),
        };
        let sum = pseudo + Sum::of(inner);
        let sum = match self.kind {
            Kind::Udp | Kind::UdpLite => sum.udp_checksum(),
            Kind::Segment | Kind::Acknowledgement => sum.checksum(),
        };
        inner[checksum..checksum + 2].copy_from_slice(&sum.to_be_bytes());
        packet
    }

    fn write_v4(&self, packet: &mut [u8], id: u64) {
        let total_len = packet.len() as u16;
        packet[0] = 0x45;
        packet[1] = self.tos;
        packet[2..4].copy_from_slice(&total_len.to_be_bytes());
        packet[4..6].copy_from_slice(&(id as u16).to_be_bytes());
        packet[6] = if self.dont_fragment { 0x40 } else { 0 };
        packet[8] = 64;
        packet[9] = self.kind.protocol();
        packet[12..16].copy_from_slice(&V4[0].octets());
        packet[16..20].copy_from_slice(&V4[1].octets());
        let sum = Sum::of(&packet[..IPV4_HEADER]).checksum();
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    }

    fn write_v6(&self, packet: &mut [u8], payload_len: u16) {
        packet[0] = 0x60 | self.tos >> 4;
        packet[1] = self.tos << 4;
        packet[4..6].copy_from_slice(&payload_len.to_be_bytes());
        packet[6] = self.kind.protocol();
        packet[7] = 64;
        packet[8..24].copy_from_slice(&V6[0].octets());
        packet[24..40].copy_from_slice(&V6[1].octets());
    }
}

const V4: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 99, 0, 1), Ipv4Addr::new(10, 99, 0, 2)];
const V6: [Ipv6Addr; 2] = [
    Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1),
    Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2),
];

/// The source port of a packet that [`Inner::packet`] made: which flow it belongs to.
#[must_use]
pub fn source_port_of(packet: &[u8]) -> Option<u16> {
    let parsed = Packet::parse(packet).ok()?;
    let port = parsed.payload().first_chunk::<2>()?;
    Some(u16::from_be_bytes(*port))
}

/// The number of a packet that [`Inner::packet`] made, if it came through intact to the last byte
/// (the TOS byte aside).
#[must_use]
pub fn id_of(packet: &[u8]) -> Option<u64> {
    let parsed = Packet::parse(packet).ok()?;
    let inner = parsed.payload();
    let protocol = match parsed.version() {
        Version::V4 => packet[9],
        Version::V6 => packet[6],
    };
    let kind = match protocol {
        protocol::TCP => match inner.get(12).map(|offset| usize::from(offset >> 4) * 4) {
            Some(headers) if headers < inner.len() => Kind::Segment,
            Some(_) | None => Kind::Acknowledgement,
        },
        UDP_LITE => Kind::UdpLite,
        _ => Kind::Udp,
    };
    let (number, _) = kind.fields();
    let id = u64::from_be_bytes(*inner.get(number..)?.first_chunk::<8>()?);
    let sum = match (parsed.source(), parsed.destination()) {
        (IpAddr::V4(a), IpAddr::V4(b)) => pseudo_v4(a, b, protocol, inner.len() as u16),
        (IpAddr::V6(a), IpAddr::V6(b)) => pseudo_v6(a, b, protocol, inner.len() as u32),
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => return None,
    };
    let intact = parsed.header_is_intact()
        && parsed.total_len() == packet.len()
        && (sum + Sum::of(inner)).is_intact();
    intact.then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_tells_its_number_and_any_flipped_bit_hides_it() {
        for version in [Version::V4, Version::V6] {
            for (kind, len) in [
                (Kind::Udp, 1000),
                (Kind::UdpLite, 1000),
                (Kind::Segment, 1000),
                (Kind::Acknowledgement, 80),
            ] {
                let inner = Inner {
                    version,
                    kind,
                    ..Inner::of_len(len)
                };
                let packet = inner.packet(77);
                assert_eq!((packet.len(), id_of(&packet)), (len, Some(77)));
                let mut flipped = packet;
                flipped[len / 2] ^= 4;
                assert_eq!(id_of(&flipped), None);
            }
        }
    }
}

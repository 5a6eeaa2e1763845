//! What the tunnel tells a sender whose packet does not fit and must not be fragmented, or goes to a peer that is not
//! there.
//!
//! ICMPv4 "fragmentation needed and DF set" with the next hop's MTU (RFC 792, RFC 1191 §4), ICMPv6
//! "packet too big" (RFC 4443 §3.2); "host unreachable" (RFC 792) and "address unreachable" (RFC 4443 §3.1). All are
//! written as whole IP packets, to go back into the TUN.
//!
//! *Source address.* A tunnel need not have an address of the packet's family, and a source that the
//! host would not accept makes the message vanish without a word. Unless the caller names one,
//! the message comes from the address that the offended packet was going to: the host routes that
//! address into the tunnel, so a reverse-path filter lets it in from there, and the sender's TCP
//! looks only at the quoted packet.
//!
//! *Silence.* An error about an error could loop, an error to many or to nobody is an attack or a
//! nuisance: RFC 1122 §3.2.2, RFC 1812 §4.3.2.7 and RFC 4443 §2.4 (e) list the packets that must never
//! be answered. [`too_big`] and [`unreachable()`] return `None` for all of them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::wire::checksum::{self, Sum};
use crate::wire::ip::{
    self, IPV4_HEADER, IPV6_HEADER, Packet, Transport, Version, field, protocol, put_u16, put_u32,
};

/// The longest message, in bytes: no buffer that [`too_big`] writes to need be longer.
pub const MAX_LEN: usize = MAX_LEN_V6;

/// As much as fits a datagram of 576 bytes (RFC 1812 §4.3.2.3).
const MAX_LEN_V4: usize = 576;
/// "As much of invoking packet as possible without the ICMPv6 packet exceeding the minimum IPv6 MTU"
/// (RFC 4443 §3.2).
const MAX_LEN_V6: usize = 1280;
/// The ICMP header in front of the quoted packet, in both versions.
const ICMP_HEADER: usize = 8;
const TTL: u8 = 64;
/// DSCP CS6: "internetwork control" (RFC 1812 §4.3.2.5).
const TOS_CONTROL: u8 = 0xc0;

const V4_UNREACHABLE: u8 = 3;
const V4_HOST_UNREACHABLE: u8 = 1;
const V4_FRAGMENTATION_NEEDED: u8 = 4;
const V6_UNREACHABLE: u8 = 1;
const V6_ADDRESS_UNREACHABLE: u8 = 3;
const V6_PACKET_TOO_BIG: u8 = 2;
const V6_REDIRECT: u8 = 137;

/// Writes the message that `packet` exceeds `mtu` to the front of `out`; returns its length in bytes.
///
/// `source` overrides the message's source address where it is of the packet's family. `None` comes
/// back when the packet must not be answered (see the module's text), when it is IPv4 without DF,
/// and when `out` has not room for [`MAX_LEN`] bytes.
#[must_use]
pub fn too_big(
    packet: &Packet<'_>,
    mtu: u16,
    source: Option<IpAddr>,
    out: &mut [u8],
) -> Option<usize> {
    answer(packet, What::TooBig(mtu), source, out)
}

/// Writes the message that nobody is where `packet` goes to the front of `out`; returns its length in bytes.
///
/// `source`, and when `None` comes back, as with [`too_big`]; DF does not matter.
#[must_use]
pub fn unreachable(packet: &Packet<'_>, source: Option<IpAddr>, out: &mut [u8]) -> Option<usize> {
    answer(packet, What::Unreachable, source, out)
}

/// What a message says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// No more than so many bytes fit.
    TooBig(u16),
    Unreachable,
}

fn answer(
    packet: &Packet<'_>,
    what: What,
    source: Option<IpAddr>,
    out: &mut [u8],
) -> Option<usize> {
    let transport = packet.transport().ok()?;
    if !transport.is_first() || is_icmp_error(packet, &transport) {
        return None;
    }
    let out = out.get_mut(..MAX_LEN)?;
    match (packet.source(), packet.destination()) {
        (IpAddr::V4(sender), IpAddr::V4(target)) => {
            let source = match source {
                Some(IpAddr::V4(source)) => source,
                Some(IpAddr::V6(_)) | None => target,
            };
            let is_refused = what == What::Unreachable || packet.dont_fragment();
            let answered = is_host_v4(sender) && is_host_v4(target) && is_refused;
            answered.then(|| answer_v4(packet, what, source, sender, out))
        }
        (IpAddr::V6(sender), IpAddr::V6(target)) => {
            let source = match source {
                Some(IpAddr::V6(source)) => source,
                Some(IpAddr::V4(_)) | None => target,
            };
            let answered = is_host_v6(sender) && is_host_v6(target);
            answered.then(|| answer_v6(packet, what, source, sender, out))
        }
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => None,
    }
}

fn answer_v4(
    packet: &Packet<'_>,
    what: What,
    source: Ipv4Addr,
    destination: Ipv4Addr,
    out: &mut [u8],
) -> usize {
    let quote = quoted(packet, MAX_LEN_V4 - IPV4_HEADER - ICMP_HEADER);
    let length = IPV4_HEADER + ICMP_HEADER + quote.len();
    let (header, icmp) = out[..length].split_at_mut(IPV4_HEADER);

    header.fill(0);
    header[field::v4::VERSION_IHL] = 0x45;
    header[field::v4::TOS] = TOS_CONTROL;
    put_u16(header, field::v4::TOTAL_LENGTH.start, length as u16);
    // An atomic datagram's ID has no meaning (RFC 6864 §4.1).
    put_u16(header, field::v4::FLAGS_OFFSET.start, field::v4::DF);
    header[field::v4::TTL] = TTL;
    header[field::v4::PROTOCOL] = protocol::ICMP;
    header[field::v4::SOURCE].copy_from_slice(&source.octets());
    header[field::v4::DESTINATION].copy_from_slice(&destination.octets());
    ip::seal_v4_header(header);

    icmp[..ICMP_HEADER].fill(0);
    icmp[0] = V4_UNREACHABLE;
    match what {
        What::TooBig(mtu) => {
            icmp[1] = V4_FRAGMENTATION_NEEDED;
            put_u16(icmp, 6, mtu);
        }
        What::Unreachable => icmp[1] = V4_HOST_UNREACHABLE,
    }
    let sum = Sum::copy(quote, &mut icmp[ICMP_HEADER..]) + Sum::of(&icmp[..ICMP_HEADER]);
    put_u16(icmp, 2, sum.checksum());
    length
}

fn answer_v6(
    packet: &Packet<'_>,
    what: What,
    source: Ipv6Addr,
    destination: Ipv6Addr,
    out: &mut [u8],
) -> usize {
    let quote = quoted(packet, MAX_LEN_V6 - IPV6_HEADER - ICMP_HEADER);
    let icmp_len = ICMP_HEADER + quote.len();
    let length = IPV6_HEADER + icmp_len;
    let (header, icmp) = out[..length].split_at_mut(IPV6_HEADER);

    header.fill(0);
    header[0] = 0x60 | TOS_CONTROL >> 4;
    put_u16(header, field::v6::PAYLOAD_LENGTH.start, icmp_len as u16);
    header[field::v6::NEXT_HEADER] = protocol::ICMPV6;
    header[field::v6::HOP_LIMIT] = TTL;
    header[field::v6::SOURCE].copy_from_slice(&source.octets());
    header[field::v6::DESTINATION].copy_from_slice(&destination.octets());

    icmp[..ICMP_HEADER].fill(0);
    match what {
        What::TooBig(mtu) => {
            icmp[0] = V6_PACKET_TOO_BIG;
            put_u32(icmp, 4, u32::from(mtu));
        }
        What::Unreachable => {
            icmp[0] = V6_UNREACHABLE;
            icmp[1] = V6_ADDRESS_UNREACHABLE;
        }
    }
    let sum = checksum::pseudo_v6(source, destination, protocol::ICMPV6, icmp_len as u32)
        + Sum::copy(quote, &mut icmp[ICMP_HEADER..])
        + Sum::of(&icmp[..ICMP_HEADER]);
    put_u16(icmp, 2, sum.checksum());
    length
}

fn quoted<'a>(packet: &Packet<'a>, most: usize) -> &'a [u8] {
    let bytes = packet.bytes();
    &bytes[..bytes.len().min(most)]
}

/// Whether the packet is an ICMP error, or might be one for all that can be seen of it.
fn is_icmp_error(packet: &Packet<'_>, transport: &Transport) -> bool {
    let kind = packet.bytes().get(transport.offset).copied();
    match (packet.version(), transport.protocol) {
        // Unreachable, source quench, redirect, time exceeded, parameter problem.
        (Version::V4, protocol::ICMP) => {
            kind.is_none_or(|kind| matches!(kind, 3 | 4 | 5 | 11 | 12))
        }
        // "Error messages have message types from 0 to 127" (RFC 4443 §2.1).
        (Version::V6, protocol::ICMPV6) => {
            kind.is_none_or(|kind| kind < 128 || kind == V6_REDIRECT)
        }
        (Version::V4 | Version::V6, _) => false,
    }
}

/// Network zero, loopback, multicast and broadcast are no host's address (RFC 1812 §5.3.7).
fn is_host_v4(address: Ipv4Addr) -> bool {
    address.octets()[0] != 0
        && !address.is_loopback()
        && !address.is_multicast()
        && !address.is_broadcast()
}

fn is_host_v6(address: Ipv6Addr) -> bool {
    !address.is_unspecified() && !address.is_loopback() && !address.is_multicast()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn v4(payload: &[u8], protocol: u8) -> Vec<u8> {
        let mut bytes = vec![0x45, 0, 0, 0, 0, 9, 0x40, 0, 64, protocol, 0, 0];
        bytes.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        bytes.extend(payload);
        let length = bytes.len() as u16;
        put_u16(&mut bytes, 2, length);
        ip::seal_v4_header(&mut bytes[..IPV4_HEADER]);
        bytes
    }

    fn v6(payload: &[u8], protocol: u8) -> Vec<u8> {
        let mut bytes = vec![0x60, 0, 0, 0, 0, 0, protocol, 64];
        bytes.extend([0xfd; 16]);
        bytes.extend([0xfc; 16]);
        bytes.extend(payload);
        put_u16(&mut bytes, 4, payload.len() as u16);
        bytes
    }

    fn answer(bytes: &[u8], mtu: u16, source: Option<IpAddr>) -> Option<Vec<u8>> {
        let mut out = [0xaa; MAX_LEN];
        let packet = Packet::parse(bytes).unwrap();
        let length = too_big(&packet, mtu, source, &mut out)?;
        Some(out[..length].to_vec())
    }

    #[test]
    fn fragmentation_needed_carries_the_mtu_and_quotes_up_to_576_bytes() {
        let offended = v4(&[7; 1480], 17);
        let bytes = answer(&offended, 1464, None).unwrap();
        assert_eq!(bytes.len(), 576);
        let packet = Packet::parse(&bytes).unwrap();
        assert!(packet.header_is_intact());
        assert_eq!(packet.source(), IpAddr::from([10, 0, 0, 2]));
        assert_eq!(packet.destination(), IpAddr::from([10, 0, 0, 1]));
        let icmp = packet.payload();
        assert_eq!((icmp[0], icmp[1]), (3, 4));
        assert_eq!(ip::u32_at(icmp, 4), 1464);
        assert!(Sum::of(icmp).is_intact());
        assert_eq!(icmp[8..], offended[..548]);
    }

    #[test]
    fn packet_too_big_carries_the_mtu_and_quotes_up_to_1280_bytes() {
        let offended = v6(&[7; 1460], 6);
        let bytes = answer(&offended, 1444, None).unwrap();
        assert_eq!(bytes.len(), 1280);
        let packet = Packet::parse(&bytes).unwrap();
        assert_eq!(packet.source(), IpAddr::from([0xfc; 16]));
        assert_eq!(packet.destination(), IpAddr::from([0xfd; 16]));
        let icmp = packet.payload();
        assert_eq!((icmp[0], icmp[1]), (2, 0));
        assert_eq!(ip::u32_at(icmp, 4), 1444);
        let sum = packet.pseudo_header(protocol::ICMPV6, icmp.len()) + Sum::of(icmp);
        assert!(sum.is_intact());
        assert_eq!(icmp[8..], offended[..1232]);
    }

    #[test]
    fn a_short_packet_is_quoted_whole() {
        let offended = v4(&[7; 101], 17);
        let bytes = answer(&offended, 68, None).unwrap();
        assert_eq!(bytes[28..], offended);
    }

    #[test]
    fn the_caller_may_name_the_source_of_the_same_family() {
        let own = IpAddr::from([192, 0, 2, 1]);
        let bytes = answer(&v4(&[7; 1480], 17), 1464, Some(own)).unwrap();
        assert_eq!(Packet::parse(&bytes).unwrap().source(), own);
        let bytes = answer(&v6(&[7; 1480], 17), 1464, Some(own)).unwrap();
        assert_eq!(
            Packet::parse(&bytes).unwrap().source(),
            IpAddr::from([0xfc; 16])
        );
    }

    #[test]
    fn icmp_errors_are_not_answered_and_echoes_are() {
        for kind in [3, 4, 5, 11, 12] {
            assert_eq!(answer(&v4(&[kind, 0, 0, 0], 1), 1000, None), None);
        }
        assert!(answer(&v4(&[8, 0, 0, 0], 1), 1000, None).is_some());
        assert_eq!(answer(&v4(&[], 1), 1000, None), None);
        for kind in [0, 1, 2, 127, 137] {
            assert_eq!(answer(&v6(&[kind, 0, 0, 0], 58), 1000, None), None);
        }
        assert!(answer(&v6(&[128, 0, 0, 0], 58), 1000, None).is_some());
    }

    #[test]
    fn later_fragments_are_not_answered_and_first_ones_are() {
        let mut bytes = v4(&[7; 1480], 17);
        put_u16(&mut bytes, 6, 0x4000 | 0x2000);
        assert!(answer(&bytes, 1000, None).is_some());
        put_u16(&mut bytes, 6, 0x4000 | 1);
        assert_eq!(answer(&bytes, 1000, None), None);
        let mut chain = vec![17, 0, 0, 1, 0, 0, 0, 1];
        chain.extend([0; 1400]);
        assert!(answer(&v6(&chain, 44), 1000, None).is_some());
        chain[3] = 9;
        assert_eq!(answer(&v6(&chain, 44), 1000, None), None);
    }

    #[test]
    fn addresses_of_many_or_of_nobody_are_not_answered() {
        for wrong in [[224, 0, 0, 1], [255; 4], [0; 4], [127, 0, 0, 1]] {
            for place in [12, 16] {
                let mut bytes = v4(&[7; 1480], 17);
                bytes[place..place + 4].copy_from_slice(&wrong);
                assert_eq!(answer(&bytes, 1000, None), None, "{wrong:?}");
            }
        }
        for wrong in [
            Ipv6Addr::UNSPECIFIED,
            Ipv6Addr::LOCALHOST,
            [0xff; 16].into(),
        ] {
            for place in [8, 24] {
                let mut bytes = v6(&[7; 1480], 17);
                bytes[place..place + 16].copy_from_slice(&wrong.octets());
                assert_eq!(answer(&bytes, 1000, None), None, "{wrong:?}");
            }
        }
    }

    #[test]
    fn ipv4_without_df_is_for_fragmentation() {
        let mut bytes = v4(&[7; 1480], 17);
        put_u16(&mut bytes, 6, 0);
        assert_eq!(answer(&bytes, 1000, None), None);
    }

    proptest! {
        #[test]
        fn random_packets_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 40..200), six: bool) {
            bytes[0] = if six { 0x60 } else { 0x45 };
            let length = bytes.len() as u16;
            if six { put_u16(&mut bytes, 4, length - 40) } else { put_u16(&mut bytes, 2, length) }
            bytes[6] &= 0x7f;
            if let Some(message) = answer(&bytes, 1400, None) {
                prop_assert!(Packet::parse(&message).is_ok());
            }
        }
    }
}

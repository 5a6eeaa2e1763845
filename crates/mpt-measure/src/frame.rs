//! From a captured frame to what it carries.
//!
//! A capture may cut frames short (`tcpdump -s`); what is there is read. What is not there, such as
//! the second datagram of a cut train, is the reader's to notice: [`Datagram::length`] is what the
//! UDP header says.

use std::net::IpAddr;

use etherparse::{EtherType, LaxNetSlice, LaxSlicedPacket, TransportSlice};

use super::icmp;

/// How a capture's frames begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkType {
    Ethernet,
    /// BSD loopback: four bytes of address family.
    Null,
    RawIp,
    LinuxCooked,
    LinuxCooked2,
    /// One that is not read, by its number.
    Other(i32),
    /// The file does not say.
    Undescribed,
}

impl LinkType {
    /// By the number that capture files use.
    pub(crate) fn new(number: i32) -> Self {
        match number {
            0 | 108 => LinkType::Null,
            1 => LinkType::Ethernet,
            // DLT_RAW of several systems, LINKTYPE_RAW, _IPV4, _IPV6.
            12 | 14 | 101 | 228 | 229 => LinkType::RawIp,
            113 => LinkType::LinuxCooked,
            276 => LinkType::LinuxCooked2,
            _ => LinkType::Other(number),
        }
    }
}

/// What a frame carries that may be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Packet<'a> {
    pub(crate) from: IpAddr,
    pub(crate) to: IpAddr,
    pub(crate) content: Content<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content<'a> {
    Udp(Datagram<'a>),
    Echo(icmp::Echo<'a>),
}

/// A UDP datagram; of one that the capture cut short, the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Datagram<'a> {
    pub(crate) from_port: u16,
    pub(crate) to_port: u16,
    pub(crate) payload: &'a [u8],
    /// Length of the whole payload.
    pub(crate) length: usize,
}

/// Why a frame is passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Skip {
    /// ARP, TCP and all else that is not measured.
    Other,
    /// A fragment of an IP packet; they are not put together.
    Fragment,
    /// Too short, or contradicts itself.
    Broken,
    /// Of a link type that is not read.
    LinkType(i32),
    /// Of an interface that the file does not describe.
    Undescribed,
}

impl Skip {
    /// For people.
    pub(crate) fn name(self) -> String {
        match self {
            Skip::Other => "neither UDP nor ICMP echo".into(),
            Skip::Fragment => "IP fragments, which are not put together".into(),
            Skip::Broken => "cut short or broken".into(),
            Skip::LinkType(number) => format!("of link type {number}, which is not read"),
            Skip::Undescribed => "of interfaces that the file does not describe".into(),
        }
    }
}

/// Finds the UDP datagram or ICMP echo in a frame.
pub(crate) fn parse(link: LinkType, frame: &[u8]) -> Result<Packet<'_>, Skip> {
    let sliced = match link {
        LinkType::Ethernet => LaxSlicedPacket::from_ethernet(frame).map_err(|_| Skip::Broken)?,
        LinkType::Null => ip(frame.get(4..).ok_or(Skip::Broken)?)?,
        LinkType::RawIp => ip(frame)?,
        LinkType::LinuxCooked => cooked(frame, 14, 16)?,
        LinkType::LinuxCooked2 => cooked(frame, 0, 20)?,
        LinkType::Other(number) => return Err(Skip::LinkType(number)),
        LinkType::Undescribed => return Err(Skip::Undescribed),
    };
    let (from, to, fragment, ipv6) = match &sliced.net {
        Some(LaxNetSlice::Ipv4(v4)) => (
            v4.header().source_addr().into(),
            v4.header().destination_addr().into(),
            v4.is_payload_fragmented(),
            false,
        ),
        Some(LaxNetSlice::Ipv6(v6)) => (
            v6.header().source_addr().into(),
            v6.header().destination_addr().into(),
            v6.is_payload_fragmented(),
            true,
        ),
        Some(LaxNetSlice::Arp(_)) => return Err(Skip::Other),
        None if sliced.stop_err.is_some() => return Err(Skip::Broken),
        None => return Err(Skip::Other),
    };
    if fragment {
        return Err(Skip::Fragment);
    }
    let content = match &sliced.transport {
        Some(TransportSlice::Udp(udp)) => Content::Udp(Datagram {
            from_port: udp.source_port(),
            to_port: udp.destination_port(),
            payload: udp.payload(),
            length: usize::from(udp.length())
                .saturating_sub(8)
                .max(udp.payload().len()),
        }),
        Some(TransportSlice::Icmpv4(icmp)) => echo(icmp.slice(), ipv6)?,
        Some(TransportSlice::Icmpv6(icmp)) => echo(icmp.slice(), ipv6)?,
        Some(TransportSlice::Tcp(_) | TransportSlice::Igmp(_)) => return Err(Skip::Other),
        None if sliced.stop_err.is_some() => return Err(Skip::Broken),
        None => return Err(Skip::Other),
    };
    Ok(Packet { from, to, content })
}

fn ip(packet: &[u8]) -> Result<LaxSlicedPacket<'_>, Skip> {
    LaxSlicedPacket::from_ip(packet).map_err(|_| Skip::Broken)
}

/// Linux's cooked captures, as of the pseudo-device "any": an EtherType at `ethertype`, the packet
/// at `packet`.
fn cooked(frame: &[u8], ethertype: usize, packet: usize) -> Result<LaxSlicedPacket<'_>, Skip> {
    let (Some(kind), Some(packet)) = (frame.get(ethertype..ethertype + 2), frame.get(packet..))
    else {
        return Err(Skip::Broken);
    };
    let kind = u16::from_be_bytes([kind[0], kind[1]]);
    Ok(LaxSlicedPacket::from_ether_type(EtherType(kind), packet))
}

fn echo(message: &[u8], ipv6: bool) -> Result<Content<'_>, Skip> {
    icmp::parse(message, ipv6)
        .map(Content::Echo)
        .ok_or(Skip::Other)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use etherparse::PacketBuilder;
    use proptest::prelude::*;

    /// A UDP datagram over IPv4, from 10.1.PATH.1 to 10.1.PATH.2, as a raw IP packet.
    pub(crate) fn udp(path: u8, ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
        let builder = PacketBuilder::ipv4([10, 1, path, 1], [10, 1, path, 2], 64);
        let mut bytes = Vec::new();
        builder
            .udp(ports.0, ports.1)
            .write(&mut bytes, payload)
            .unwrap();
        bytes
    }

    fn payload_of(link: LinkType, frame: &[u8]) -> Vec<u8> {
        match parse(link, frame).unwrap().content {
            Content::Udp(datagram) => datagram.payload.to_vec(),
            Content::Echo(echo) => echo.data.to_vec(),
        }
    }

    #[test]
    fn the_same_packet_is_found_in_every_link_type() {
        let packet = udp(1, (4754, 4754), b"hello");
        let with = |header: &[u8]| [header, &packet].concat();
        assert_eq!(payload_of(LinkType::RawIp, &packet), b"hello");
        let null = with(&[2, 0, 0, 0]);
        assert_eq!(payload_of(LinkType::Null, &null), b"hello");
        let ethernet = with(&[0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 6, 8, 0]);
        assert_eq!(payload_of(LinkType::Ethernet, &ethernet), b"hello");
        let vlan = with(&[0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 6, 0x81, 0, 0, 7, 8, 0]);
        assert_eq!(payload_of(LinkType::Ethernet, &vlan), b"hello");
        let stacked = [
            &[0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 6][..],
            &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 8, 8, 0],
        ];
        let stacked = with(&stacked.concat());
        assert_eq!(payload_of(LinkType::Ethernet, &stacked), b"hello");
        let cooked = with(&[0, 0, 0, 1, 0, 6, 0, 1, 2, 3, 4, 5, 0, 0, 8, 0]);
        assert_eq!(payload_of(LinkType::LinuxCooked, &cooked), b"hello");
        let cooked = with(&[8, 0, 0, 0, 0, 0, 0, 2, 0, 1, 0, 6, 0, 1, 2, 3, 4, 5, 0, 0]);
        assert_eq!(payload_of(LinkType::LinuxCooked2, &cooked), b"hello");
    }

    #[test]
    fn a_cut_datagram_keeps_its_length() {
        let packet = udp(1, (1, 2), &[7; 1000]);
        let Content::Udp(datagram) = parse(LinkType::RawIp, &packet[..100]).unwrap().content else {
            panic!("UDP");
        };
        assert_eq!((datagram.payload.len(), datagram.length), (72, 1000));
    }

    #[test]
    fn fragments_and_other_links_are_passed_over() {
        let mut packet = udp(1, (1, 2), b"hello");
        packet[6] = 0x20;
        assert_eq!(parse(LinkType::RawIp, &packet), Err(Skip::Fragment));
        let builder = PacketBuilder::ipv6([1; 16], [2; 16], 64).udp(1, 2);
        let mut packet_v6 = Vec::new();
        builder.write(&mut packet_v6, b"hello").unwrap();
        // A fragment header in front of UDP, with more to come.
        let header = [17, 0, 0, 1, 0, 0, 0, 9];
        packet_v6[6] = 44;
        packet_v6[5] += 8;
        packet_v6.splice(40..40, header);
        assert_eq!(parse(LinkType::RawIp, &packet_v6), Err(Skip::Fragment));
        let wifi = LinkType::new(105);
        assert_eq!(parse(wifi, &packet), Err(Skip::LinkType(105)));
        assert_eq!(parse(LinkType::RawIp, &[]), Err(Skip::Broken));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(
            link in prop_oneof![Just(0), Just(1), Just(101), Just(113), Just(276)],
            bytes in proptest::collection::vec(any::<u8>(), 0..120),
            ethertype: bool,
        ) {
            let mut bytes = bytes;
            if ethertype && bytes.len() > 24 {
                bytes[12..15].copy_from_slice(&[8, 0, 0x45]);
                bytes[20] = 0x45;
            }
            let _ = parse(LinkType::new(link), &bytes);
        }
    }
}

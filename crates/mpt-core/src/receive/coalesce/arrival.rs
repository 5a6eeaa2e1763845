//! What an arriving packet is to the coalescer: joinable, a bar to its flow, or none of its business.

use super::{Accepts, MIN_TCP_SIZE};
use crate::wire::ip::{IPV4_HEADER, IPV6_HEADER, Packet, Version, field, protocol, u16_at, u32_at};
use crate::wire::transport::{self, tcp, udp};

/// The longest super-packet, IP header included: what an IPv4 total length can say.
pub(super) const MAX_LEN: usize = 65_535;

/// What may be done with a packet.
pub(super) enum Arrival<'a> {
    /// It can be joined with its neighbours.
    Joinable(Joinable<'a>),
    /// It goes alone, after what its flow holds.
    Alone(Key),
    /// A later fragment: it goes alone, after whatever is held between the same hosts.
    PortsUnknown((Version, [u8; 32])),
    /// It belongs to no flow that could be held.
    NoFlow,
}

/// The flow that a packet belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    ports: u32,
    protocol: u8,
    version: Version,
    /// Source and destination; IPv4's fill the first eight bytes.
    addresses: [u8; 32],
}

/// A packet that can be joined, as far as one sees without its neighbours.
pub(super) struct Joinable<'a> {
    pub(super) packet: Packet<'a>,
    pub(super) key: Key,
    /// Where the transport header begins.
    pub(super) transport: usize,
    /// Where the payload begins.
    pub(super) headers_len: usize,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Tcp { sequence: u32, push: bool },
    Udp,
}

impl Key {
    fn new(packet: &Packet<'_>, protocol: u8, ports: u32) -> Self {
        Self {
            ports,
            protocol,
            version: packet.version(),
            addresses: addresses(packet),
        }
    }

    /// The two ends, whatever they speak.
    pub(super) const fn hosts(&self) -> (Version, [u8; 32]) {
        (self.version, self.addresses)
    }
}

impl<'a> Arrival<'a> {
    #[inline]
    pub(super) fn of(bytes: &'a [u8], accepts: Accepts) -> Self {
        let Ok(packet) = Packet::parse(bytes) else {
            return Self::NoFlow;
        };
        let (protocol, transport, is_plain) = match packet.version() {
            Version::V4 => (
                packet.bytes()[field::v4::PROTOCOL],
                IPV4_HEADER,
                packet.header_len() == IPV4_HEADER && packet.flags_offset() & !field::v4::DF == 0,
            ),
            Version::V6 => {
                let next = packet.bytes()[field::v6::NEXT_HEADER];
                (next, IPV6_HEADER, is_held(next))
            }
        };
        if !is_plain {
            return Self::of_unusual(&packet);
        }
        let Some(ports) = ports(&packet, protocol, transport) else {
            return Self::NoFlow;
        };
        let key = Key::new(&packet, protocol, ports);
        let joinable = match (protocol, packet.version()) {
            (protocol::TCP, Version::V4) if accepts.tcp4 => Joinable::tcp(packet, key, transport),
            (protocol::TCP, Version::V6) if accepts.tcp6 => Joinable::tcp(packet, key, transport),
            (protocol::UDP, _) if accepts.udp => Joinable::udp(packet, key, transport),
            _ => return Self::NoFlow, // Nothing of this kind is ever held.
        };
        joinable.map_or(Self::Alone(key), Self::Joinable)
    }

    /// Options, extension headers, fragments: never joined, but they belong to a flow all the same.
    fn of_unusual(packet: &Packet<'_>) -> Self {
        let Ok(found) = packet.transport() else {
            return Self::NoFlow;
        };
        if !found.is_first() {
            return Self::PortsUnknown((packet.version(), addresses(packet)));
        }
        ports(packet, found.protocol, found.offset).map_or(Self::NoFlow, |ports| {
            Self::Alone(Key::new(packet, found.protocol, ports))
        })
    }
}

impl<'a> Joinable<'a> {
    fn tcp(packet: Packet<'a>, key: Key, transport: usize) -> Option<Self> {
        let segment = &packet.bytes()[transport..];
        let headers_len = transport + tcp::header_len(segment)?;
        let push = match segment[tcp::FLAGS] {
            tcp::ACK_FLAG => false,
            tcp::ACK_AND_PSH => true,
            _ => return None,
        };
        let has_payload = packet.total_len() > headers_len;
        (has_payload && packet.header_is_intact()).then(|| Self {
            packet,
            key,
            transport,
            headers_len,
            kind: Kind::Tcp {
                sequence: u32_at(segment, tcp::SEQUENCE),
                push,
            },
        })
    }

    fn udp(packet: Packet<'a>, key: Key, transport: usize) -> Option<Self> {
        let datagram = &packet.bytes()[transport..];
        let is_whole = datagram.len() > udp::HEADER
            && usize::from(u16_at(datagram, udp::LENGTH)) == datagram.len();
        // No checksum: nothing to verify, and a super-packet would give it one.
        let has_checksum = is_whole && u16_at(datagram, udp::CHECKSUM) != 0;
        (has_checksum && packet.header_is_intact()).then_some(Self {
            packet,
            key,
            transport,
            headers_len: transport + udp::HEADER,
            kind: Kind::Udp,
        })
    }

    /// IP header and transport header.
    pub(super) fn headers(&self) -> &'a [u8] {
        &self.packet.bytes()[..self.headers_len]
    }

    pub(super) fn payload(&self) -> &'a [u8] {
        &self.packet.bytes()[self.headers_len..]
    }

    pub(super) const fn protocol(&self) -> u8 {
        self.key.protocol
    }

    /// Whether it can be the first packet of a super-packet.
    pub(super) fn may_be_followed(&self) -> bool {
        // IPv6 alone can be longer than a super-packet.
        self.packet.total_len() <= MAX_LEN
            && match self.kind {
                Kind::Tcp { push, .. } => !push && self.payload().len() >= MIN_TCP_SIZE,
                Kind::Udp => true,
            }
    }
}

const fn is_held(protocol: u8) -> bool {
    matches!(protocol, protocol::TCP | protocol::UDP)
}

/// The ports of a protocol that can be held; `None` for another, or a header too short for them.
fn ports(packet: &Packet<'_>, protocol: u8, transport: usize) -> Option<u32> {
    let header = packet.bytes().get(transport..)?;
    (is_held(protocol) && header.len() >= transport::PORTS.end)
        .then(|| u32_at(header, transport::PORTS.start))
}

fn addresses(packet: &Packet<'_>) -> [u8; 32] {
    let mut addresses = [0; 32];
    match packet.version() {
        Version::V4 => {
            let range = field::v4::SOURCE.start..field::v4::DESTINATION.end;
            addresses[..8].copy_from_slice(&packet.bytes()[range]);
        }
        Version::V6 => {
            let range = field::v6::SOURCE.start..field::v6::DESTINATION.end;
            addresses.copy_from_slice(&packet.bytes()[range]);
        }
    }
    addresses
}

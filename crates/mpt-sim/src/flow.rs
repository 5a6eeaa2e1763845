//! Flows whose every byte is known: TCP and UDP packets and super-packets, and the host that gets
//! them and sees that nothing is missing, changed or out of its place.
//!
//! [`Flow`] is a sender as a TUN with offloads presents it: up to 64 KiB at once, with a virtio header
//! that says how to cut them and a checksum that holds only the pseudo header's sum. [`Receiver`] is
//! the far host: it accepts packets and super-packets, whichever way they were cut and joined, and
//! compares each byte with what the flow must have sent there. Neither uses the code that cuts and
//! joins in mpt-core.

use std::collections::BTreeMap;
use std::num::NonZeroU16;

use mpt_core::wire::checksum::Sum;
use mpt_core::wire::ip::{Packet, Version, protocol};
use mpt_core::wire::vnet::{Checksum, Gso, VnetHeader};

const TCP_HEADER: usize = 32; // With timestamps, as Linux sends it.
const UDP_HEADER: usize = 8;
const ACK: u8 = 0x10;
const PSH: u8 = 0x08;

/// TCP or UDP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A TCP byte stream.
    Tcp,
    /// UDP datagrams, whose sizes are kept.
    Udp,
}

impl Kind {
    const fn protocol(self) -> u8 {
        match self {
            Kind::Tcp => protocol::TCP,
            Kind::Udp => protocol::UDP,
        }
    }

    const fn header_len(self) -> usize {
        match self {
            Kind::Tcp => TCP_HEADER,
            Kind::Udp => UDP_HEADER,
        }
    }

    const fn checksum_offset(self) -> usize {
        match self {
            Kind::Tcp => 16,
            Kind::Udp => 6,
        }
    }
}

/// A sender. Its source port is its name.
#[derive(Debug, Clone)]
pub struct Flow {
    kind: Kind,
    version: Version,
    port: u16,
    sent: u64,
    id: u16,
}

impl Flow {
    /// A flow that has sent nothing yet.
    #[must_use]
    pub const fn new(kind: Kind, version: Version, port: u16) -> Flow {
        Flow {
            kind,
            version,
            port,
            sent: 0,
            id: 0,
        }
    }

    /// Payload bytes sent so far.
    #[must_use]
    pub const fn sent(&self) -> u64 {
        self.sent
    }

    /// The next `payload` bytes as one packet, its checksum complete.
    pub fn packet(&mut self, payload: usize) -> (VnetHeader, Vec<u8>) {
        let (mut packet, start) = self.next(payload);
        let sum = pseudo(&packet, self.kind) + Sum::of(&packet[start..]);
        let place = start + self.kind.checksum_offset();
        packet[place..place + 2].copy_from_slice(&sum.udp_checksum().to_be_bytes());
        (VnetHeader::default(), packet)
    }

    /// The next `payload` bytes as a super-packet, to be cut into segments of `size` bytes.
    pub fn super_packet(&mut self, payload: usize, size: NonZeroU16) -> (VnetHeader, Vec<u8>) {
        let (mut packet, start) = self.next(payload);
        let offset = self.kind.checksum_offset();
        let sum = pseudo(&packet, self.kind).folded();
        packet[start + offset..start + offset + 2].copy_from_slice(&sum.to_be_bytes());
        let header = VnetHeader {
            gso: match (self.kind, self.version) {
                (Kind::Tcp, Version::V4) => Gso::Tcp4 { size, ecn: false },
                (Kind::Tcp, Version::V6) => Gso::Tcp6 { size, ecn: false },
                (Kind::Udp, _) => Gso::Udp { size },
            },
            checksum: Checksum::Partial {
                start: start as u16,
                offset: offset as u16,
            },
            headers_len: 0,
        };
        (header, packet)
    }

    /// The packet without its checksum, and where its transport header begins.
    fn next(&mut self, payload: usize) -> (Vec<u8>, usize) {
        let transport_len = self.kind.header_len() + payload;
        let mut packet = self.ip_header(transport_len);
        let start = packet.len();
        packet.extend(self.port.to_be_bytes());
        packet.extend(5000u16.to_be_bytes());
        match self.kind {
            Kind::Tcp => {
                packet.extend((self.sent as u32).to_be_bytes());
                packet.extend(1u32.to_be_bytes());
                packet.extend([(TCP_HEADER as u8 / 4) << 4, ACK, 1, 0, 0, 0, 0, 0]);
                packet.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
            }
            Kind::Udp => {
                packet.extend((transport_len as u16).to_be_bytes());
                packet.extend([0, 0]);
            }
        }
        packet.extend((self.sent..self.sent + payload as u64).map(|at| byte_at(self.port, at)));
        self.sent += payload as u64;
        self.id = self.id.wrapping_add(64);
        (packet, start)
    }

    fn ip_header(&self, transport_len: usize) -> Vec<u8> {
        let protocol = self.kind.protocol();
        match self.version {
            Version::V4 => {
                let mut header = vec![0x45, 0];
                header.extend((20 + transport_len as u16).to_be_bytes());
                header.extend(self.id.to_be_bytes());
                header.extend([0x40, 0, 64, protocol, 0, 0]);
                header.extend([10, 99, 0, 1, 10, 99, 0, 2]);
                let sum = Sum::of(&header).checksum();
                header[10..12].copy_from_slice(&sum.to_be_bytes());
                header
            }
            Version::V6 => {
                let mut header = vec![0x60, 0, 0, 0];
                header.extend((transport_len as u16).to_be_bytes());
                header.extend([protocol, 64]);
                for last in [1, 2] {
                    header.extend([0xfd, 0x99, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
                }
                header
            }
        }
    }
}

/// Byte number `at` of a flow.
fn byte_at(port: u16, at: u64) -> u8 {
    let mixed = (at ^ u64::from(port) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 56) as u8
}

fn pseudo(packet: &[u8], kind: Kind) -> Sum {
    match Packet::parse(packet) {
        Ok(packet) => packet.pseudo_header(kind.protocol(), packet.payload().len()),
        Err(_) => Sum::default(),
    }
}

/// The far host: what has arrived of each flow.
#[derive(Debug, Default)]
pub struct Receiver {
    arrived: BTreeMap<u16, u64>,
    sizes: BTreeMap<u16, Vec<usize>>,
    packets: u64,
    writes: u64,
}

impl Receiver {
    /// Payload bytes of a flow that have arrived, all in order.
    #[must_use]
    pub fn arrived(&self, port: u16) -> u64 {
        self.arrived.get(&port).copied().unwrap_or(0)
    }

    /// Payload bytes of each packet of a flow, in the order of arrival.
    #[must_use]
    pub fn sizes(&self, port: u16) -> &[usize] {
        self.sizes.get(&port).map_or(&[], Vec::as_slice)
    }

    /// Packets that arrived, those within super-packets counted one by one.
    #[must_use]
    pub const fn packets(&self) -> u64 {
        self.packets
    }

    /// Packets and super-packets that arrived.
    #[must_use]
    pub const fn writes(&self) -> u64 {
        self.writes
    }

    /// Takes what is written to the TUN.
    ///
    /// # Errors
    /// What is wrong with it: a checksum, its form, or bytes that are not the next of its flow.
    pub fn receive(&mut self, header: &VnetHeader, packet: &[u8]) -> Result<(), String> {
        let parsed = Packet::parse(packet).map_err(|error| error.to_string())?;
        let kind = match parsed.transport().map(|transport| transport.protocol) {
            Ok(protocol::TCP) => Kind::Tcp,
            Ok(protocol::UDP) => Kind::Udp,
            other => return Err(format!("a packet of protocol {other:?}")),
        };
        if !parsed.header_is_intact() || parsed.total_len() != packet.len() {
            return Err("an IP header that is not right".to_owned());
        }
        let transport = parsed.payload();
        if transport.len() < kind.header_len() {
            return Err("a packet that is cut short".to_owned());
        }
        check_checksum(header, &parsed, kind)?;
        let payload = &transport[kind.header_len()..];
        let size = match (header.gso, kind, parsed.version()) {
            (Gso::None, _, _) => payload.len().max(1),
            (Gso::Tcp4 { size, .. }, Kind::Tcp, Version::V4)
            | (Gso::Tcp6 { size, .. }, Kind::Tcp, Version::V6)
            | (Gso::Udp { size }, Kind::Udp, _) => usize::from(size.get()),
            (other, _, _) => return Err(format!("{other:?} of a {kind:?} packet")),
        };
        self.writes += 1;
        self.accept(kind, transport, payload, size)
    }

    fn accept(
        &mut self,
        kind: Kind,
        transport: &[u8],
        payload: &[u8],
        size: usize,
    ) -> Result<(), String> {
        let port = u16::from_be_bytes([transport[0], transport[1]]);
        let next = self.arrived.entry(port).or_default();
        if kind == Kind::Tcp {
            let sequence = [4, 5, 6, 7].map(|at| transport[at]);
            let sequence = u32::from_be_bytes(sequence);
            if sequence != *next as u32 {
                return Err(format!("flow {port}: {sequence} comes where {next} should"));
            }
            if transport[13] & !PSH != ACK {
                return Err(format!("flow {port}: flags {:#04x}", transport[13]));
            }
        }
        let wrong = (*next..)
            .zip(payload)
            .find(|(at, byte)| byte_at(port, *at) != **byte);
        if let Some((at, _)) = wrong {
            return Err(format!("flow {port}: byte {at} is not what was sent there"));
        }
        *next += payload.len() as u64;
        let sizes = self.sizes.entry(port).or_default();
        let known = sizes.len();
        sizes.extend(payload.chunks(size).map(<[u8]>::len));
        if payload.is_empty() {
            sizes.push(0);
        }
        self.packets += (sizes.len() - known) as u64;
        Ok(())
    }
}

/// Complete in a packet, the pseudo header's sum in one whose checksum is partial.
fn check_checksum(header: &VnetHeader, packet: &Packet<'_>, kind: Kind) -> Result<(), String> {
    let transport = packet.payload();
    let pseudo = packet.pseudo_header(kind.protocol(), transport.len());
    let offset = kind.checksum_offset();
    let right = match header.checksum {
        Checksum::Stated | Checksum::Verified => (pseudo + Sum::of(transport)).is_intact(),
        Checksum::Partial { start, offset: at } => {
            let stated = u16::from_be_bytes([transport[offset], transport[offset + 1]]);
            usize::from(start) == packet.total_len() - transport.len()
                && usize::from(at) == offset
                && stated == pseudo.folded()
        }
    };
    if right {
        Ok(())
    } else {
        Err(format!("a wrong checksum ({:?})", header.checksum))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_takes_what_a_flow_sends_and_nothing_else() {
        let size = NonZeroU16::new(1000).unwrap();
        for kind in [Kind::Tcp, Kind::Udp] {
            for version in [Version::V4, Version::V6] {
                let mut flow = Flow::new(kind, version, 7);
                let mut host = Receiver::default();
                let (header, first) = flow.packet(900);
                host.receive(&header, &first).unwrap();
                let (header, second) = flow.super_packet(5001, size);
                host.receive(&header, &second).unwrap();
                assert_eq!((host.arrived(7), host.packets()), (5901, 7));
                host.receive(&header, &second).unwrap_err();
                let (header, mut third) = flow.packet(100);
                third[70] ^= 1;
                host.receive(&header, &third).unwrap_err();
            }
        }
    }
}

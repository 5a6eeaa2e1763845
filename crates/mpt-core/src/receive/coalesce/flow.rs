//! One flow that is being joined: a super-packet under construction.

use std::num::NonZeroU16;
use std::ops::Range;

use super::MAX_SEGMENTS;
use super::arrival::{Joinable, Kind, MAX_LEN};
use crate::wire::checksum::Sum;
use crate::wire::ip::{self, IPV4_HEADER, IPV6_HEADER, Packet, Version, field, put_u16};
use crate::wire::transport::{tcp, udp};
use crate::wire::vnet::{Checksum, Gso, VnetHeader};

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Append {
    /// It is in, and more may follow.
    Open,
    /// It is in, and nothing may follow.
    Ended,
    /// It does not continue this super-packet.
    Refused,
    /// It would, but its checksum is wrong.
    Corrupt,
}

/// A super-packet under construction; between two of them, a buffer with nothing of interest.
#[derive(Debug)]
pub(super) struct Flow {
    /// The first packet's headers as they came, and the payloads.
    buffer: Box<[u8]>,
    /// Bytes in use.
    length: usize,
    count: usize,
    version: Version,
    transport: usize,
    headers_len: usize,
    /// The pseudo header's sum without the length.
    pseudo_header: Sum,
    /// Payload bytes of the first packet.
    size: usize,
    /// The identification that the next packet must have; `None` where it has no meaning.
    next_id: Option<u16>,
    /// The next packet's sequence number, and that PSH has not been seen; UDP stays UDP.
    next: Kind,
}

impl Flow {
    pub(super) fn new() -> Self {
        Self {
            buffer: vec![0; MAX_LEN].into_boxed_slice(),
            length: 0,
            count: 0,
            version: Version::V4,
            transport: IPV4_HEADER,
            headers_len: IPV4_HEADER + udp::HEADER,
            pseudo_header: Sum::ZERO,
            size: 0,
            next_id: None,
            next: Kind::Udp,
        }
    }

    /// Begins anew with a flow's first packet. `false` when its checksum is wrong: the flow is not to
    /// be used then.
    #[inline]
    pub(super) fn open(&mut self, packet: &Joinable<'_>) -> bool {
        let bytes = packet.packet.bytes();
        let (ip_header, segment) = bytes.split_at(packet.transport);
        let (ip_buffer, rest) = self.buffer.split_at_mut(packet.transport);
        ip_buffer.copy_from_slice(ip_header);
        self.pseudo_header = packet.packet.pseudo_header(packet.protocol(), 0);
        let sum = self.pseudo_header.word(segment.len() as u16) + Sum::copy(segment, rest);
        self.length = bytes.len();
        self.count = 1;
        self.version = packet.packet.version();
        self.transport = packet.transport;
        self.headers_len = packet.headers_len;
        self.size = packet.payload().len();
        self.next_id = following_id(&packet.packet);
        self.next = following(packet);
        sum.is_intact()
    }

    /// Adds the next packet of the flow if it is one.
    #[inline]
    pub(super) fn append(&mut self, packet: &Joinable<'_>) -> Append {
        let payload = packet.payload();
        let end = self.length + payload.len();
        let fits = self.count < MAX_SEGMENTS && payload.len() <= self.size && end <= MAX_LEN;
        if !fits || !self.is_continued_by(packet) {
            return Append::Refused;
        }
        let header = &packet.packet.bytes()[self.transport..self.headers_len];
        let length = header.len() + payload.len();
        let sum = self.pseudo_header.word(length as u16)
            + Sum::of(header)
            + Sum::copy(payload, &mut self.buffer[self.length..end]);
        if !sum.is_intact() {
            return Append::Corrupt;
        }
        self.length = end;
        self.count += 1;
        self.next_id = following_id(&packet.packet);
        self.next = following(packet);
        if payload.len() < self.size || self.has_push() {
            Append::Ended
        } else {
            Append::Open
        }
    }

    /// The super-packet with its virtio header; a packet that stayed alone as it came.
    pub(super) fn finish(&mut self) -> (VnetHeader, &[u8]) {
        let (push, is_tcp) = (self.has_push(), matches!(self.next, Kind::Tcp { .. }));
        let packet = &mut self.buffer[..self.length];
        let Some(size) = NonZeroU16::new(self.size as u16).filter(|_| self.count > 1) else {
            return (VnetHeader::default(), packet);
        };
        put_ip_length(self.version, packet);
        let length = (self.length - self.transport) as u16;
        let checksum_offset = if is_tcp {
            packet[self.transport + tcp::FLAGS] |= if push { tcp::PSH } else { 0 };
            tcp::CHECKSUM
        } else {
            put_u16(packet, self.transport + udp::LENGTH, length);
            udp::CHECKSUM
        };
        let partial = self.pseudo_header.word(length).folded();
        put_u16(packet, self.transport + checksum_offset, partial);
        let header = VnetHeader {
            gso: match (is_tcp, self.version) {
                (true, Version::V4) => Gso::Tcp4 { size, ecn: false },
                (true, Version::V6) => Gso::Tcp6 { size, ecn: false },
                (false, _) => Gso::Udp { size },
            },
            checksum: Checksum::Partial {
                start: self.transport as u16,
                offset: checksum_offset as u16,
            },
            headers_len: self.headers_len as u16,
        };
        (header, packet)
    }

    const fn has_push(&self) -> bool {
        matches!(self.next, Kind::Tcp { push: true, .. })
    }

    /// Whether the packet's headers say that it comes next: all that a cut would copy is the same, and
    /// all that it would count up is the next.
    #[inline]
    fn is_continued_by(&self, packet: &Joinable<'_>) -> bool {
        if packet.headers_len != self.headers_len || packet.packet.version() != self.version {
            return false;
        }
        let is_next = match (self.next, packet.kind) {
            (Kind::Tcp { sequence: next, .. }, Kind::Tcp { sequence, .. }) => next == sequence,
            (Kind::Udp, Kind::Udp) => true,
            (Kind::Tcp { .. }, Kind::Udp) | (Kind::Udp, Kind::Tcp { .. }) => false,
        };
        let (ours, theirs) = (&self.buffer[..self.headers_len], packet.headers());
        let same = |range: Range<usize>| ours[range.clone()] == theirs[range];
        // Addresses, ports and protocol are the flow's key.
        let same_ip = match self.version {
            // TOS; flags, TTL.
            Version::V4 => {
                same(field::v4::VERSION_IHL..field::v4::TOTAL_LENGTH.start)
                    && same(field::v4::FLAGS_OFFSET.start..field::v4::CHECKSUM.start)
                    && self.next_id.is_none_or(|id| packet.packet.id() == Some(id))
            }
            // Traffic class and flow label; hop limit.
            Version::V6 => {
                same(0..field::v6::PAYLOAD_LENGTH.start)
                    && ours[field::v6::HOP_LIMIT] == theirs[field::v6::HOP_LIMIT]
            }
        };
        let at = |place: usize| self.transport + place;
        let same_transport = match packet.kind {
            Kind::Udp => true,
            // The flags are ACK, or ACK and PSH, in either.
            Kind::Tcp { .. } => {
                same(at(tcp::ACK.start)..at(tcp::FLAGS))
                    && same(at(tcp::WINDOW.start)..at(tcp::WINDOW.end))
                    && same(at(tcp::URGENT.start)..self.headers_len)
            }
        };
        is_next && same_ip && same_transport
    }
}

/// What continues the packet: a TCP sequence number. Keeps whether this packet had PSH.
fn following(packet: &Joinable<'_>) -> Kind {
    match packet.kind {
        Kind::Udp => Kind::Udp,
        Kind::Tcp { sequence, push } => Kind::Tcp {
            sequence: sequence.wrapping_add(packet.payload().len() as u32),
            push,
        },
    }
}

/// The identification of the packet after this; `None` with DF, where nobody reads it, and in IPv6.
fn following_id(packet: &Packet<'_>) -> Option<u16> {
    packet
        .id()
        .filter(|_| !packet.dont_fragment())
        .map(|id| id.wrapping_add(1))
}

fn put_ip_length(version: Version, packet: &mut [u8]) {
    let length = packet.len();
    match version {
        Version::V4 => {
            put_u16(packet, field::v4::TOTAL_LENGTH.start, length as u16);
            ip::seal_v4_header(&mut packet[..IPV4_HEADER]);
        }
        Version::V6 => {
            let payload_len = (length - IPV6_HEADER) as u16;
            put_u16(packet, field::v6::PAYLOAD_LENGTH.start, payload_len);
        }
    }
}

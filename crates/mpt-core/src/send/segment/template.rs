//! What the headers of a super-packet's segments have in common, summed once, and what each adds.

use crate::wire::checksum::Sum;
use crate::wire::ip::{IPV6_HEADER, Packet, Version, field, put_u16, put_u32, u16_at, u32_at};
use crate::wire::transport::{tcp, udp};

/// What all segments' IP headers have in common.
#[derive(Debug, Clone)]
pub(super) struct IpTemplate {
    /// Sum of the IPv4 header without total length, identification and checksum.
    sum: Sum,
    /// Identification of the first segment.
    id: u16,
}

/// What all segments' TCP headers have in common.
#[derive(Debug, Clone)]
pub(super) struct TcpTemplate {
    /// Where the TCP header begins.
    pub(super) start: usize,
    /// Sum of pseudo header and TCP header without segment length, sequence number, flags and urgent
    /// pointer.
    sum: Sum,
    sequence: u32,
    flags: u8,
    urgent: u16,
}

#[derive(Debug, Clone)]
pub(super) struct UdpTemplate {
    pub(super) start: usize,
    /// Sum of pseudo header and ports, without the length that stands in both.
    sum: Sum,
}

impl IpTemplate {
    pub(super) fn new(packet: &Packet<'_>) -> Self {
        let mut header = [0; 60];
        let header = &mut header[..packet.header_len()];
        header.copy_from_slice(packet.header());
        header[field::v4::TOTAL_LENGTH].fill(0);
        header[field::v4::ID].fill(0);
        header[field::v4::CHECKSUM].fill(0);
        Self {
            sum: Sum::of(header),
            id: packet.id().unwrap_or(0),
        }
    }

    /// Length, identification and header checksum of a packet of `length` bytes.
    #[inline]
    pub(super) fn write(&self, version: Version, index: usize, length: usize, headers: &mut [u8]) {
        match version {
            Version::V4 => {
                let id = self.id.wrapping_add(index as u16);
                let checksum = self.sum.word(length as u16).word(id).checksum();
                put_u16(headers, field::v4::TOTAL_LENGTH.start, length as u16);
                put_u16(headers, field::v4::ID.start, id);
                put_u16(headers, field::v4::CHECKSUM.start, checksum);
            }
            Version::V6 => {
                let payload_len = length - IPV6_HEADER;
                put_u16(headers, field::v6::PAYLOAD_LENGTH.start, payload_len as u16);
            }
        }
    }
}

/// Where in its super-packet a TCP segment stands.
pub(super) struct Place {
    /// Of its first payload byte.
    pub(super) offset: usize,
    /// Of TCP header and payload.
    pub(super) length: usize,
    pub(super) is_first: bool,
    pub(super) is_last: bool,
}

impl TcpTemplate {
    pub(super) fn new(segment: &[u8], start: usize, header_len: usize) -> Self {
        let sequence = u32_at(segment, tcp::SEQUENCE);
        let flags = segment[tcp::FLAGS];
        let urgent = u16_at(segment, tcp::URGENT.start);
        // The checksum's place holds the pseudo header's sum with the super-packet's length; a
        // subtraction is the addition of the complement.
        let sum = Sum::of(&segment[..header_len])
            .long(!sequence)
            .word(!u16::from(flags))
            .word(!urgent)
            .word(!(segment.len() as u16));
        Self {
            start,
            sum,
            sequence,
            flags,
            urgent,
        }
    }

    #[inline]
    pub(super) fn write(&self, place: &Place, payload: Sum, header: &mut [u8]) {
        let sequence = self.sequence.wrapping_add(place.offset as u32);
        let mut flags = self.flags;
        if !place.is_first {
            flags &= !tcp::CWR; // It is for the first new data packet (RFC 3168 §6.1.2).
        }
        if !place.is_last {
            flags &= !(tcp::FIN | tcp::PSH);
        }
        let mut urgent = self.urgent;
        if flags & tcp::URG != 0 {
            // The pointer counts from its segment's sequence number (RFC 9293 §3.1).
            urgent = urgent.saturating_sub(place.offset.min(0xffff) as u16);
            if urgent == 0 && !place.is_first {
                flags &= !tcp::URG;
            }
        }
        let sum = self.sum
            + payload
                .long(sequence)
                .word(u16::from(flags))
                .word(urgent)
                .word(place.length as u16);
        put_u32(header, tcp::SEQUENCE, sequence);
        header[tcp::FLAGS] = flags;
        put_u16(header, tcp::URGENT.start, urgent);
        put_u16(header, tcp::CHECKSUM, sum.checksum());
    }
}

impl UdpTemplate {
    pub(super) fn new(datagram: &[u8], start: usize) -> Self {
        // As for TCP; the header's own length is left out.
        let sum = Sum::of(&datagram[..udp::LENGTH])
            .word(u16_at(datagram, udp::CHECKSUM))
            .word(!(datagram.len() as u16));
        Self { start, sum }
    }

    #[inline]
    pub(super) fn write(&self, length: usize, payload: Sum, header: &mut [u8]) {
        let length = length as u16;
        // The length counts twice, in the pseudo header and in the header.
        let sum = self.sum + payload.word(length).word(length);
        put_u16(header, udp::LENGTH, length);
        put_u16(header, udp::CHECKSUM, sum.udp_checksum());
    }
}

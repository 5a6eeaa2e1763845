//! Packets for tests: written field by field, with checksums by a naive sum of their own.

use std::num::NonZeroU16;

use proptest::collection::vec;
use proptest::prelude::*;

use crate::wire::ip::Version;
use crate::wire::vnet::{Checksum, Gso, VnetHeader};

pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;

/// One packet's fields.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub(crate) version: Version,
    pub(crate) protocol: u8,
    pub(crate) tos: u8,
    pub(crate) ttl: u8,
    pub(crate) id: u16,
    pub(crate) dont_fragment: bool,
    pub(crate) flow_label: u32,
    pub(crate) source_port: u16,
    pub(crate) sequence: u32,
    pub(crate) ack: u32,
    pub(crate) flags: u8,
    pub(crate) window: u16,
    pub(crate) urgent: u16,
    pub(crate) tcp_options: Vec<u8>,
    pub(crate) payload: Vec<u8>,
}

impl Sample {
    pub(crate) fn tcp(version: Version, payload: &[u8]) -> Self {
        Self {
            version,
            protocol: TCP,
            tos: 0x28,
            ttl: 64,
            id: 0xfffe,
            dont_fragment: true,
            flow_label: 0xabcde,
            source_port: 5201,
            sequence: 0xffff_ff00,
            ack: 77,
            flags: 0x10,
            window: 500,
            urgent: 0,
            tcp_options: vec![1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8],
            payload: payload.to_vec(),
        }
    }

    pub(crate) fn udp(version: Version, payload: &[u8]) -> Self {
        Self {
            protocol: UDP,
            ..Self::tcp(version, payload)
        }
    }

    /// The packet with right checksums.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let (mut bytes, start) = self.without_checksum();
        let place = start + self.checksum_offset();
        let sum = ones_sum(
            &[
                self.pseudo_header(bytes.len() - start),
                bytes[start..].into(),
            ]
            .concat(),
        );
        let checksum = if self.protocol == UDP && sum == 0xffff {
            0xffff
        } else {
            !sum
        };
        bytes[place..place + 2].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }

    /// The super-packet of these fields, to be cut into payloads of `size`.
    pub(crate) fn super_packet(&self, size: u16) -> (VnetHeader, Vec<u8>) {
        let (mut bytes, start) = self.without_checksum();
        let place = start + self.checksum_offset();
        let partial = ones_sum(&self.pseudo_header(bytes.len() - start));
        bytes[place..place + 2].copy_from_slice(&partial.to_be_bytes());
        let size = NonZeroU16::new(size).unwrap();
        let ecn = self.flags & 0x80 != 0;
        let header = VnetHeader {
            gso: match (self.protocol, self.version) {
                (TCP, Version::V4) => Gso::Tcp4 { size, ecn },
                (TCP, Version::V6) => Gso::Tcp6 { size, ecn },
                _ => Gso::Udp { size },
            },
            checksum: Checksum::Partial {
                start: start as u16,
                offset: self.checksum_offset() as u16,
            },
            headers_len: (bytes.len() - self.payload.len()) as u16,
        };
        (header, bytes)
    }

    /// The packets that the super-packet stands for.
    pub(crate) fn cut(&self, size: usize) -> Vec<Self> {
        let count = self.payload.len().div_ceil(size).max(1);
        let piece = |index: usize| {
            let offset = index * size;
            let mut piece = self.clone();
            piece.payload = self.payload[offset..].iter().copied().take(size).collect();
            piece.id = self.id.wrapping_add(index as u16);
            piece.sequence = self.sequence.wrapping_add(offset as u32);
            if index > 0 {
                piece.flags &= !0x80;
            }
            if index + 1 < count {
                piece.flags &= !0x09;
            }
            if self.flags & 0x20 != 0 {
                piece.urgent = self.urgent.saturating_sub(offset.min(65_535) as u16);
                if index > 0 && piece.urgent == 0 {
                    piece.flags &= !0x20;
                }
            }
            piece
        };
        (0..count).map(piece).collect()
    }

    fn checksum_offset(&self) -> usize {
        if self.protocol == TCP { 16 } else { 6 }
    }

    fn addresses(&self) -> Vec<u8> {
        match self.version {
            Version::V4 => vec![10, 0, 0, 1, 10, 0, 0, 2],
            Version::V6 => [[0xfd; 16], [0xfc; 16]].concat(),
        }
    }

    fn pseudo_header(&self, length: usize) -> Vec<u8> {
        let mut bytes = self.addresses();
        bytes.extend((length as u32).to_be_bytes());
        bytes.extend([0, 0, 0, self.protocol]);
        bytes
    }

    fn without_checksum(&self) -> (Vec<u8>, usize) {
        let transport = self.transport();
        let mut bytes = Vec::new();
        match self.version {
            Version::V4 => {
                bytes.extend([0x45, self.tos]);
                bytes.extend((20 + transport.len() as u16).to_be_bytes());
                bytes.extend(self.id.to_be_bytes());
                bytes.extend([if self.dont_fragment { 0x40 } else { 0 }, 0]);
                bytes.extend([self.ttl, self.protocol, 0, 0]);
                bytes.extend(self.addresses());
                let checksum = !ones_sum(&bytes);
                bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
            }
            Version::V6 => {
                let first = 6 << 28 | u32::from(self.tos) << 20 | self.flow_label & 0xf_ffff;
                bytes.extend(first.to_be_bytes());
                bytes.extend((transport.len() as u16).to_be_bytes());
                bytes.extend([self.protocol, self.ttl]);
                bytes.extend(self.addresses());
            }
        }
        let start = bytes.len();
        bytes.extend(transport);
        (bytes, start)
    }

    fn transport(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(self.source_port.to_be_bytes());
        bytes.extend(443u16.to_be_bytes());
        if self.protocol == TCP {
            bytes.extend(self.sequence.to_be_bytes());
            bytes.extend(self.ack.to_be_bytes());
            let words = 5 + self.tcp_options.len() as u8 / 4;
            bytes.extend([words << 4, self.flags]);
            bytes.extend(self.window.to_be_bytes());
            bytes.extend([0, 0]);
            bytes.extend(self.urgent.to_be_bytes());
            bytes.extend(&self.tcp_options);
        } else {
            bytes.extend((8 + self.payload.len() as u16).to_be_bytes());
            bytes.extend([0, 0]);
        }
        bytes.extend(&self.payload);
        bytes
    }
}

/// RFC 1071 word by word.
pub(crate) fn ones_sum(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        let low = pair.get(1).copied().unwrap_or(0);
        sum += u32::from(u16::from_be_bytes([pair[0], low]));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Any TCP or UDP packet of either version with up to `longest` bytes of payload.
pub(crate) fn any_sample(longest: usize) -> impl Strategy<Value = Sample> {
    let ip = (
        any::<bool>(),
        any::<bool>(),
        any::<u8>(),
        any::<u8>(),
        any::<u16>(),
        any::<bool>(),
    );
    // ACK with any of FIN, PSH, URG, ECE and CWR.
    let flags = any::<u8>().prop_map(|flags| flags & 0xe9 | 0x10);
    let tcp = (
        any::<u32>(),
        any::<u32>(),
        flags,
        any::<u16>(),
        any::<u16>(),
        0usize..=10,
    );
    let payload = vec(any::<u8>(), 0..=longest);
    (ip, tcp, any::<u32>(), any::<u16>(), payload).prop_map(
        |((six, tcp, tos, ttl, id, dont_fragment), fields, flow_label, source_port, payload)| {
            let (sequence, ack, flags, window, urgent, words) = fields;
            Sample {
                version: if six { Version::V6 } else { Version::V4 },
                protocol: if tcp { TCP } else { UDP },
                tos,
                ttl,
                id,
                dont_fragment,
                flow_label,
                source_port,
                sequence,
                ack,
                flags,
                window,
                urgent,
                tcp_options: (0..words * 4).map(|byte| byte as u8).collect(),
                payload,
            }
        },
    )
}

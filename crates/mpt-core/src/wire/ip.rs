//! IPv4 and IPv6 packets: what the tunnel must know of what it carries.
//!
//! [`Packet::parse`] is the cheap look that every packet gets: version, header length, total length.
//! What it returns cannot be wrong about these, and each plain getter after it is a load or two.
//! [`Packet::transport`] is the deep look: it walks IPv6 extension headers and finds where TCP or
//! UDP begins. Only segmentation, coalescing and ICMP need that.
//!
//! Neither verifies the IPv4 header checksum: a tunnel is a link, and a packet with a bad checksum is
//! the receiver's to drop. What builds *new* headers out of old ones (fragments, super-packets)
//! asks [`Packet::header_is_intact`] first, so that a corrupt header never gets a good checksum.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::wire::checksum::{self, Sum};

/// Length of an IPv4 header without options, in bytes.
pub const IPV4_HEADER: usize = 20;
/// Length of the fixed IPv6 header, in bytes.
pub const IPV6_HEADER: usize = 40;

/// Protocol numbers (IANA) that the tunnel looks at.
pub mod protocol {
    /// ICMP for IPv4.
    pub const ICMP: u8 = 1;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// ICMP for IPv6.
    pub const ICMPV6: u8 = 58;
}

/// Extension headers of RFC 8200 §4 and RFC 7045 that are walked over.
mod extension {
    pub(super) const HOP_BY_HOP: u8 = 0;
    pub(super) const ROUTING: u8 = 43;
    pub(super) const FRAGMENT: u8 = 44;
    pub(super) const AUTHENTICATION: u8 = 51;
    pub(super) const DESTINATION: u8 = 60;
    pub(super) const MOBILITY: u8 = 135;
    pub(super) const HIP: u8 = 139;
    pub(super) const SHIM6: u8 = 140;
    /// How many are walked. RFC 8200 names seven for a sane packet; more is an attack.
    pub(super) const LIMIT: usize = 8;
}

/// Field maps: where each field lies in its header.
pub(crate) mod field {
    use std::ops::Range;

    pub(crate) mod v4 {
        use super::Range;
        pub(crate) const VERSION_IHL: usize = 0;
        pub(crate) const TOS: usize = 1;
        pub(crate) const TOTAL_LENGTH: Range<usize> = 2..4;
        pub(crate) const ID: Range<usize> = 4..6;
        pub(crate) const FLAGS_OFFSET: Range<usize> = 6..8;
        pub(crate) const TTL: usize = 8;
        pub(crate) const PROTOCOL: usize = 9;
        pub(crate) const CHECKSUM: Range<usize> = 10..12;
        pub(crate) const SOURCE: Range<usize> = 12..16;
        pub(crate) const DESTINATION: Range<usize> = 16..20;

        pub(crate) const DF: u16 = 0x4000;
        pub(crate) const MF: u16 = 0x2000;
        pub(crate) const OFFSET: u16 = 0x1fff;
    }

    pub(crate) mod v6 {
        use super::Range;
        pub(crate) const PAYLOAD_LENGTH: Range<usize> = 4..6;
        pub(crate) const NEXT_HEADER: usize = 6;
        pub(crate) const HOP_LIMIT: usize = 7;
        pub(crate) const SOURCE: Range<usize> = 8..24;
        pub(crate) const DESTINATION: Range<usize> = 24..40;
    }
}

/// The version of the Internet Protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Version {
    /// RFC 791.
    V4,
    /// RFC 8200.
    V6,
}

impl Version {
    /// What the first byte of a packet says; `None` for anything but 4 and 6.
    #[inline]
    #[must_use]
    pub const fn of(first_byte: u8) -> Option<Self> {
        match first_byte >> 4 {
            4 => Some(Self::V4),
            6 => Some(Self::V6),
            _ => None,
        }
    }
}

/// Why bytes are not an IP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The version is neither 4 nor 6.
    #[error("neither IPv4 nor IPv6")]
    Version,
    /// Fewer bytes than the header or the packet claims.
    #[error("the packet is cut short")]
    Truncated,
    /// The IPv4 header length is below 20, or the total length below the header length.
    #[error("a length in the header contradicts another")]
    Length,
    /// More extension headers than anyone sends.
    #[error("too many IPv6 extension headers")]
    TooManyExtensions,
}

/// A packet whose version and lengths have been checked. Bytes after its total length are not part
/// of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    bytes: &'a [u8],
    version: Version,
    header_len: usize,
}

/// A fragment's place in its packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fragment {
    /// Where its data belong, in bytes.
    pub offset: usize,
    /// Whether more fragments follow.
    pub more: bool,
}

/// What the deep look finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transport {
    /// The protocol after the IP header and its extensions (see [`protocol`]).
    pub protocol: u8,
    /// Where it begins, in bytes from the packet's start; at most the packet's length.
    pub offset: usize,
    /// Set when the packet is a fragment. With an offset other than 0, `offset` is where the data go
    /// on and not where a transport header stands.
    pub fragment: Option<Fragment>,
}

impl Transport {
    /// Whether a transport header stands at `offset`: not so in a later fragment.
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.fragment.is_none_or(|fragment| fragment.offset == 0)
    }
}

impl<'a> Packet<'a> {
    /// The cheap look: version, header length and total length, and nothing else.
    ///
    /// An IPv6 payload length of zero is taken at its word: jumbograms (RFC 2675) do not pass.
    ///
    /// # Errors
    /// [`ParseError::Version`], [`ParseError::Truncated`] or [`ParseError::Length`].
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let first = *bytes.first().ok_or(ParseError::Truncated)?;
        let version = Version::of(first).ok_or(ParseError::Version)?;
        let (header_len, total_len) = match version {
            Version::V4 => {
                if bytes.len() < IPV4_HEADER {
                    return Err(ParseError::Truncated);
                }
                let header_len = usize::from(first & 0x0f) * 4;
                let total_len = usize::from(u16_at(bytes, field::v4::TOTAL_LENGTH.start));
                if header_len < IPV4_HEADER || total_len < header_len {
                    return Err(ParseError::Length);
                }
                (header_len, total_len)
            }
            Version::V6 => {
                if bytes.len() < IPV6_HEADER {
                    return Err(ParseError::Truncated);
                }
                let payload_len = usize::from(u16_at(bytes, field::v6::PAYLOAD_LENGTH.start));
                (IPV6_HEADER, IPV6_HEADER + payload_len)
            }
        };
        let bytes = bytes.get(..total_len).ok_or(ParseError::Truncated)?;
        Ok(Self {
            bytes,
            version,
            header_len,
        })
    }

    /// The packet without anything that followed it.
    #[inline]
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// IPv4 or IPv6.
    #[inline]
    #[must_use]
    pub const fn version(&self) -> Version {
        self.version
    }

    /// Length of the IPv4 header with its options, or of the fixed IPv6 header, in bytes.
    #[inline]
    #[must_use]
    pub const fn header_len(&self) -> usize {
        self.header_len
    }

    /// Length of header and payload, in bytes; at most 65,535 (IPv4) or 65,575 (IPv6).
    #[inline]
    #[must_use]
    pub const fn total_len(&self) -> usize {
        self.bytes.len()
    }

    /// The IPv4 header with options, or the fixed IPv6 header.
    #[inline]
    #[must_use]
    pub fn header(&self) -> &'a [u8] {
        &self.bytes[..self.header_len]
    }

    /// What follows [`Packet::header`], extension headers included.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.header_len..]
    }

    /// The TOS byte or traffic class: DSCP in the upper six bits, ECN in the lower two.
    #[inline]
    #[must_use]
    pub const fn tos(&self) -> u8 {
        match self.version {
            Version::V4 => self.bytes[field::v4::TOS],
            Version::V6 => self.bytes[0] << 4 | self.bytes[1] >> 4,
        }
    }

    /// The IPv4 identification field; `None` in IPv6.
    #[inline]
    #[must_use]
    pub fn id(&self) -> Option<u16> {
        match self.version {
            Version::V4 => Some(u16_at(self.bytes, field::v4::ID.start)),
            Version::V6 => None,
        }
    }

    /// Whether routers must not fragment the packet: IPv4's DF bit; always so in IPv6.
    #[inline]
    #[must_use]
    pub fn dont_fragment(&self) -> bool {
        match self.version {
            Version::V4 => self.flags_offset() & field::v4::DF != 0,
            Version::V6 => true,
        }
    }

    /// IPv4's reserved bit, DF, MF and fragment offset in units of 8 bytes; 0 in IPv6.
    #[inline]
    #[must_use]
    pub(crate) fn flags_offset(&self) -> u16 {
        match self.version {
            Version::V4 => u16_at(self.bytes, field::v4::FLAGS_OFFSET.start),
            Version::V6 => 0,
        }
    }

    /// The source address.
    #[must_use]
    pub fn source(&self) -> IpAddr {
        match self.version {
            Version::V4 => v4_at(self.bytes, field::v4::SOURCE.start).into(),
            Version::V6 => v6_at(self.bytes, field::v6::SOURCE.start).into(),
        }
    }

    /// The destination address.
    #[must_use]
    pub fn destination(&self) -> IpAddr {
        match self.version {
            Version::V4 => v4_at(self.bytes, field::v4::DESTINATION.start).into(),
            Version::V6 => v6_at(self.bytes, field::v6::DESTINATION.start).into(),
        }
    }

    /// Whether the IPv4 header checksum is right; always so in IPv6, which has none.
    #[inline]
    #[must_use]
    pub fn header_is_intact(&self) -> bool {
        match self.version {
            Version::V4 => Sum::of(self.header()).is_intact(),
            Version::V6 => true,
        }
    }

    /// The sum over the pseudo header of `protocol` with `length` bytes of transport header and data.
    ///
    /// The destination is the header's own: with a routing header that has segments left, it is not
    /// the one that the sender summed (RFC 8200 §8.1).
    pub fn pseudo_header(&self, protocol: u8, length: usize) -> Sum {
        let addresses = match self.version {
            Version::V4 => &self.bytes[field::v4::SOURCE.start..field::v4::DESTINATION.end],
            Version::V6 => &self.bytes[field::v6::SOURCE.start..field::v6::DESTINATION.end],
        };
        // A length is at most 65,535 here; IPv4 and IPv6 then sum the same words.
        Sum::of(addresses)
            .word(u16::from(protocol))
            .long(length as u32)
    }

    /// The deep look: where the transport header begins and what it is, past at most eight IPv6
    /// extension headers.
    ///
    /// # Errors
    /// [`ParseError::Truncated`] when an extension header runs past the packet's end,
    /// [`ParseError::TooManyExtensions`].
    pub fn transport(&self) -> Result<Transport, ParseError> {
        match self.version {
            Version::V4 => {
                let flags = self.flags_offset();
                let fragment = Fragment {
                    offset: usize::from(flags & field::v4::OFFSET) * 8,
                    more: flags & field::v4::MF != 0,
                };
                Ok(Transport {
                    protocol: self.bytes[field::v4::PROTOCOL],
                    offset: self.header_len,
                    fragment: (fragment.offset != 0 || fragment.more).then_some(fragment),
                })
            }
            Version::V6 => self.walk_extensions(),
        }
    }

    fn walk_extensions(&self) -> Result<Transport, ParseError> {
        let mut found = Transport {
            protocol: self.bytes[field::v6::NEXT_HEADER],
            offset: IPV6_HEADER,
            fragment: None,
        };
        for _ in 0..extension::LIMIT {
            let rest = &self.bytes[found.offset..];
            let length = match found.protocol {
                extension::HOP_BY_HOP
                | extension::ROUTING
                | extension::DESTINATION
                | extension::MOBILITY
                | extension::HIP
                | extension::SHIM6 => 8 + 8 * usize::from(byte_at(rest, 1)?),
                extension::AUTHENTICATION => 8 + 4 * usize::from(byte_at(rest, 1)?),
                extension::FRAGMENT => {
                    let word = u16::from_be_bytes([byte_at(rest, 2)?, byte_at(rest, 3)?]);
                    found.fragment = Some(Fragment {
                        offset: usize::from(word & 0xfff8),
                        more: word & 1 != 0,
                    });
                    8
                }
                _ => return Ok(found),
            };
            if rest.len() < length {
                return Err(ParseError::Truncated);
            }
            found.protocol = rest[0];
            found.offset += length;
            if !found.is_first() {
                return Ok(found); // What follows is the middle of something.
            }
        }
        Err(ParseError::TooManyExtensions)
    }
}

/// A packet that may be changed in place; checked as [`Packet`] is.
#[derive(Debug)]
pub struct PacketMut<'a> {
    bytes: &'a mut [u8],
    version: Version,
}

impl<'a> PacketMut<'a> {
    /// As [`Packet::parse`].
    ///
    /// # Errors
    /// As [`Packet::parse`].
    #[inline]
    pub fn parse(bytes: &'a mut [u8]) -> Result<Self, ParseError> {
        let packet = Packet::parse(bytes)?;
        let (version, total_len) = (packet.version, packet.total_len());
        Ok(Self {
            bytes: &mut bytes[..total_len],
            version,
        })
    }

    /// Writes the TOS byte or traffic class. The IPv4 header checksum follows by RFC 1624, so that a
    /// wrong one stays wrong.
    #[inline]
    pub fn set_tos(&mut self, tos: u8) {
        match self.version {
            Version::V4 => {
                let old = u16_at(self.bytes, 0);
                self.bytes[field::v4::TOS] = tos;
                let new = u16_at(self.bytes, 0);
                let checksum = u16_at(self.bytes, field::v4::CHECKSUM.start);
                put_u16(
                    self.bytes,
                    field::v4::CHECKSUM.start,
                    checksum::updated(checksum, old, new),
                );
            }
            Version::V6 => {
                self.bytes[0] = self.bytes[0] & 0xf0 | tos >> 4;
                self.bytes[1] = self.bytes[1] & 0x0f | tos << 4;
            }
        }
    }
}

/// Writes the checksum of an IPv4 header; `header` is the header with its options.
pub(crate) fn seal_v4_header(header: &mut [u8]) {
    put_u16(header, field::v4::CHECKSUM.start, 0);
    let checksum = Sum::of(header).checksum();
    put_u16(header, field::v4::CHECKSUM.start, checksum);
}

#[inline]
pub(crate) const fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

#[inline]
pub(crate) const fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[inline]
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) << 32 | u64::from(u32_at(bytes, at + 4))
}

#[inline]
pub(crate) fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

#[inline]
pub(crate) fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

fn byte_at(bytes: &[u8], at: usize) -> Result<u8, ParseError> {
    bytes.get(at).copied().ok_or(ParseError::Truncated)
}

fn v4_at(bytes: &[u8], at: usize) -> Ipv4Addr {
    Ipv4Addr::from(u32_at(bytes, at))
}

fn v6_at(bytes: &[u8], at: usize) -> Ipv6Addr {
    let mut octets = [0; 16];
    octets.copy_from_slice(&bytes[at..at + 16]);
    Ipv6Addr::from(octets)
}

#[cfg(test)]
mod tests;

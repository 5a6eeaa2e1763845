//! The header that stands before each packet of a TUN with `IFF_VNET_HDR`: `struct virtio_net_hdr`.
//!
//! With it the kernel hands over TCP and UDP *super-packets* of up to 64 KiB, whose cutting into
//! segments it leaves to the reader, and packets whose checksum is still to be completed; it accepts
//! the same on the way back. Ten bytes, in the machine's byte order (VIRTIO 1.2 §5.1.6, where it
//! is little-endian; a TUN uses the machine's unless told otherwise):
//!
//! ```text
//!  0       1          2        4         6           8            10
//!  | flags | gso_type | hdr_len | gso_size | csum_start | csum_offset |
//! ```
//!
//! `hdr_len` is a hint and is not believed: the headers themselves say where they end. The form with
//! `num_buffers` (12 bytes) belongs to virtio devices and is not used by a TUN unless asked for.

use std::num::NonZeroU16;

use crate::wire::checksum::Sum;
use crate::wire::ip::put_u16;
use crate::wire::transport::udp;

/// Length of the header, in bytes: what `TUNSETVNETHDRSZ` is set to.
pub const LEN: usize = 10;

const NEEDS_CSUM: u8 = 1;
const DATA_VALID: u8 = 2;
const KNOWN_FLAGS: u8 = NEEDS_CSUM | DATA_VALID;

const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
const GSO_ECN: u8 = 0x80;

/// What the packet is to be cut into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Gso {
    /// Nothing: it is one packet.
    #[default]
    None,
    /// TCP segments over IPv4.
    Tcp4 {
        /// Payload bytes in each segment but the last.
        size: NonZeroU16,
        /// The TCP header has CWR set, which belongs to the first segment alone (RFC 3168 §6.1.2).
        ecn: bool,
    },
    /// TCP segments over IPv6.
    Tcp6 {
        /// As in [`Gso::Tcp4`].
        size: NonZeroU16,
        /// As in [`Gso::Tcp4`].
        ecn: bool,
    },
    /// UDP datagrams over either version (`VIRTIO_NET_HDR_GSO_UDP_L4`, USO).
    Udp {
        /// Payload bytes in each datagram but the last.
        size: NonZeroU16,
    },
}

/// What is known of the packet's transport checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Checksum {
    /// It is in its place, and nobody vouches for it.
    #[default]
    Stated,
    /// It is in its place and has been verified (`DATA_VALID`).
    Verified,
    /// Its place holds the folded sum of the pseudo header; the rest is to be added (`NEEDS_CSUM`).
    Partial {
        /// Where the checksummed bytes begin, from the packet's start.
        start: u16,
        /// Where the checksum lies, from `start`.
        offset: u16,
    },
}

/// A header that makes sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VnetHeader {
    /// What the packet is to be cut into.
    pub gso: Gso,
    /// What is known of its checksum; [`Checksum::Partial`] wherever `gso` is not [`Gso::None`].
    pub checksum: Checksum,
    /// Length of the packet's headers in bytes, as a hint for the kernel's allocation; 0 for none,
    /// and always 0 after [`VnetHeader::parse`].
    pub headers_len: u16,
}

/// Why a header makes no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VnetError {
    /// Fewer than ten bytes.
    #[error("the virtio header is cut short")]
    Truncated,
    /// A flag that no negotiated feature allows.
    #[error("unknown flags {0:#04x} in the virtio header")]
    Flags(u8),
    /// A segmentation type that was not asked for.
    #[error("unknown segmentation type {0:#04x} in the virtio header")]
    GsoType(u8),
    /// A super-packet whose segments have no size.
    #[error("a super-packet without a segment size")]
    GsoSize,
    /// A super-packet whose checksum is not left to be completed.
    #[error("a super-packet whose checksum is not partial")]
    NotPartial,
    /// The checksum lies outside the packet, or at an odd place.
    #[error("the checksum's place is not in the packet")]
    ChecksumPlace,
}

impl VnetHeader {
    /// Splits what was read from the TUN into header and packet.
    ///
    /// # Errors
    /// Each variant of [`VnetError`].
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), VnetError> {
        let (header, packet) = bytes
            .split_first_chunk::<LEN>()
            .ok_or(VnetError::Truncated)?;
        let [flags, gso_type, _, _, rest @ ..] = *header;
        let [gso_size, start, offset] = words(rest);
        if flags & !KNOWN_FLAGS != 0 {
            return Err(VnetError::Flags(flags));
        }
        let gso = parse_gso(gso_type, gso_size)?;
        let checksum = if flags & NEEDS_CSUM != 0 {
            check_place(start, offset, packet.len())?;
            Checksum::Partial { start, offset }
        } else if gso != Gso::None {
            return Err(VnetError::NotPartial);
        } else if flags & DATA_VALID != 0 {
            Checksum::Verified
        } else {
            Checksum::Stated
        };
        let header = Self {
            gso,
            checksum,
            headers_len: 0,
        };
        Ok((header, packet))
    }

    /// How many packets a super-packet of `len` bytes stands for; 1 where it is none.
    #[must_use]
    pub fn packets(&self, len: usize) -> u64 {
        let size = match self.gso {
            Gso::None => return 1,
            Gso::Tcp4 { size, .. } | Gso::Tcp6 { size, .. } | Gso::Udp { size } => size,
        };
        let payload = len.saturating_sub(usize::from(self.headers_len));
        payload.div_ceil(usize::from(size.get())).max(1) as u64
    }

    /// The ten bytes to be written before the packet.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; LEN] {
        let (gso_type, gso_size) = match self.gso {
            Gso::None => (GSO_NONE, 0),
            Gso::Tcp4 { size, ecn } => (GSO_TCPV4 | ecn_bit(ecn), size.get()),
            Gso::Tcp6 { size, ecn } => (GSO_TCPV6 | ecn_bit(ecn), size.get()),
            Gso::Udp { size } => (GSO_UDP_L4, size.get()),
        };
        let (flags, start, offset) = match self.checksum {
            Checksum::Stated => (0, 0, 0),
            Checksum::Verified => (DATA_VALID, 0, 0),
            Checksum::Partial { start, offset } => (NEEDS_CSUM, start, offset),
        };
        let [h0, h1] = self.headers_len.to_ne_bytes();
        let [g0, g1] = gso_size.to_ne_bytes();
        let [s0, s1] = start.to_ne_bytes();
        let [o0, o1] = offset.to_ne_bytes();
        [flags, gso_type, h0, h1, g0, g1, s0, s1, o0, o1]
    }

    /// Completes the checksum of a packet that is not a super-packet, in its place; does nothing where
    /// the checksum is not partial. What must be fragmented needs this first.
    ///
    /// # Errors
    /// [`VnetError::ChecksumPlace`] when this is not the packet that the header came with.
    pub fn complete_checksum(&self, packet: &mut [u8]) -> Result<(), VnetError> {
        if let Checksum::Partial { start, offset } = self.checksum {
            check_place(start, offset, packet.len())?;
            let covered = &mut packet[usize::from(start)..];
            let checksum = completed(Sum::of(covered), usize::from(offset));
            put_u16(covered, usize::from(offset), checksum);
        }
        Ok(())
    }
}

/// The checksum as it is stored at `offset` of a transport header. Only UDP writes zero as ones: there
/// zero means that there is no checksum. It is told by the offset, the one thing that a partial
/// checksum says of its protocol: 6 in UDP, 16 in TCP, 2 in ICMPv6.
pub(crate) fn completed(sum: Sum, offset: usize) -> u16 {
    match offset {
        udp::CHECKSUM => sum.udp_checksum(),
        _ => sum.checksum(),
    }
}

/// `start` and `offset` must name two bytes in a packet of `length`, an even distance apart.
pub(crate) fn check_place(start: u16, offset: u16, length: usize) -> Result<(), VnetError> {
    if offset.is_multiple_of(2) && usize::from(start) + usize::from(offset) + 2 <= length {
        Ok(())
    } else {
        Err(VnetError::ChecksumPlace)
    }
}

fn parse_gso(gso_type: u8, size: u16) -> Result<Gso, VnetError> {
    let ecn = gso_type & GSO_ECN != 0;
    let size = NonZeroU16::new(size).ok_or(VnetError::GsoSize);
    match (gso_type & !GSO_ECN, ecn) {
        (GSO_NONE, false) => Ok(Gso::None),
        (GSO_TCPV4, _) => Ok(Gso::Tcp4 { size: size?, ecn }),
        (GSO_TCPV6, _) => Ok(Gso::Tcp6 { size: size?, ecn }),
        (GSO_UDP_L4, false) => Ok(Gso::Udp { size: size? }),
        _ => Err(VnetError::GsoType(gso_type)),
    }
}

const fn ecn_bit(ecn: bool) -> u8 {
    if ecn { GSO_ECN } else { 0 }
}

fn words(bytes: [u8; 6]) -> [u16; 3] {
    let [a0, a1, b0, b1, c0, c1] = bytes;
    [[a0, a1], [b0, b1], [c0, c1]].map(u16::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn raw(flags: u8, gso_type: u8, size: u16, start: u16, offset: u16) -> Vec<u8> {
        let mut bytes = vec![flags, gso_type, 0xff, 0xff];
        for word in [size, start, offset] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.resize(LEN + 100, 0);
        bytes
    }

    fn error(bytes: &[u8]) -> VnetError {
        VnetHeader::parse(bytes).unwrap_err()
    }

    #[test]
    fn what_is_written_reads_back() {
        let size = NonZeroU16::new(1400).unwrap();
        let kinds = [
            Gso::Tcp4 { size, ecn: false },
            Gso::Tcp4 { size, ecn: true },
            Gso::Tcp6 { size, ecn: true },
            Gso::Udp { size },
        ];
        let partial = Checksum::Partial {
            start: 20,
            offset: 16,
        };
        let mut headers: Vec<_> = kinds.map(|gso| (gso, partial)).into();
        headers.extend([Checksum::Stated, Checksum::Verified, partial].map(|c| (Gso::None, c)));
        for (gso, checksum) in headers {
            let header = VnetHeader {
                gso,
                checksum,
                headers_len: 0,
            };
            let mut bytes = header.to_bytes().to_vec();
            bytes.extend([7; 60]);
            assert_eq!(VnetHeader::parse(&bytes), Ok((header, &[7; 60][..])));
        }
    }

    #[test]
    fn hdr_len_is_not_believed() {
        let bytes = raw(1, 1, 1400, 20, 16);
        assert_eq!(VnetHeader::parse(&bytes).unwrap().0.headers_len, 0);
    }

    #[test]
    fn what_makes_no_sense_is_an_error() {
        assert_eq!(error(&[0; 9]), VnetError::Truncated);
        assert_eq!(error(&raw(0x10, 0, 0, 0, 0)), VnetError::Flags(0x10));
        assert_eq!(error(&raw(1, 3, 9, 20, 16)), VnetError::GsoType(3));
        assert_eq!(error(&raw(1, 0x80, 9, 20, 16)), VnetError::GsoType(0x80));
        assert_eq!(error(&raw(1, 0x85, 9, 20, 6)), VnetError::GsoType(0x85));
        assert_eq!(error(&raw(1, 1, 0, 20, 16)), VnetError::GsoSize);
        assert_eq!(error(&raw(0, 1, 9, 20, 16)), VnetError::NotPartial);
        assert_eq!(error(&raw(1, 0, 0, 90, 9)), VnetError::ChecksumPlace);
        assert_eq!(error(&raw(1, 0, 0, 90, 10)), VnetError::ChecksumPlace);
        assert_eq!(
            error(&raw(1, 0, 0, u16::MAX, u16::MAX - 1)),
            VnetError::ChecksumPlace
        );
        assert!(VnetHeader::parse(&raw(1, 0, 0, 90, 8)).is_ok());
    }

    #[test]
    fn a_partial_checksum_is_completed_in_place() {
        let mut packet = vec![9; 20];
        packet.extend([0x12, 0x34, 0, 0, 0xab, 0xcd, 0x56]); // The middle holds a pseudo header.
        put_u16(&mut packet, 24, 0x4321);
        let header = VnetHeader {
            checksum: Checksum::Partial {
                start: 20,
                offset: 4,
            },
            ..VnetHeader::default()
        };
        header.complete_checksum(&mut packet).unwrap();
        let sum = Sum::of(&packet[20..]).word(0x4321);
        assert!(sum.is_intact());
        assert_eq!(
            header.complete_checksum(&mut packet[..25]),
            Err(VnetError::ChecksumPlace)
        );
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes: Vec<u8>) {
            if let Ok((header, packet)) = VnetHeader::parse(&bytes) {
                prop_assert_eq!(packet.len() + LEN, bytes.len());
                header.complete_checksum(&mut packet.to_vec()).unwrap();
            }
        }
    }
}

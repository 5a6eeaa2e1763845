//! GRE (RFC 2784) with key and sequence number (RFC 2890), as GRE-in-UDP (RFC 8086) carries it.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |C|0|K|S|   Reserved0     | Ver |         Protocol Type         |
//! |      Checksum (if C)          |       Reserved1 (if C)        |
//! |                         Key (if K)                            |
//! |                 Sequence Number (if S)                        |
//! ```
//!
//! Sent: K and S as configured, never C. Accepted: C as well, and then verified. Everything else
//! that is not plain zero is refused: RFC 2784 §2.3 has a receiver discard on bits 1–5 and leaves
//! bits 6–12 to the future; both ends of this tunnel are of the present, so any of them is refused.

use crate::seq::Seq;
use crate::wire::checksum::Sum;

/// Largest header that is sent: base, key, sequence number. In bytes.
pub const MAX_SENT_BYTES: usize = 12;

/// Protocol Type of control messages: IEEE Std 802 local experimental EtherType 1.
pub const CONTROL_ETHERTYPE: u16 = 0x88B5;
/// Protocol Type of sealed payloads: IEEE Std 802 local experimental EtherType 2.
pub const SEALED_ETHERTYPE: u16 = 0x88B6;

const FLAG_CHECKSUM: u16 = 0x8000;
const FLAG_KEY: u16 = 0x2000;
const FLAG_SEQUENCE: u16 = 0x1000;
const VERSION_MASK: u16 = 0x0007;
const RESERVED_MASK: u16 = !(FLAG_CHECKSUM | FLAG_KEY | FLAG_SEQUENCE | VERSION_MASK);

/// What a GRE packet carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// An IPv4 packet, EtherType 0x0800.
    Ipv4,
    /// An IPv6 packet, EtherType 0x86DD (RFC 7676).
    Ipv6,
    /// A control message, [`CONTROL_ETHERTYPE`].
    Control,
    /// A sealed packet, [`SEALED_ETHERTYPE`].
    Sealed,
}

impl Protocol {
    /// The Protocol Type on the wire.
    #[must_use]
    pub const fn ethertype(self) -> u16 {
        match self {
            Protocol::Ipv4 => 0x0800,
            Protocol::Ipv6 => 0x86DD,
            Protocol::Control => CONTROL_ETHERTYPE,
            Protocol::Sealed => SEALED_ETHERTYPE,
        }
    }

    const fn from_ethertype(value: u16) -> Option<Protocol> {
        match value {
            0x0800 => Some(Protocol::Ipv4),
            0x86DD => Some(Protocol::Ipv6),
            CONTROL_ETHERTYPE => Some(Protocol::Control),
            SEALED_ETHERTYPE => Some(Protocol::Sealed),
            _ => None,
        }
    }
}

/// A GRE header, parsed or to be emitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The key, when the K bit is set.
    pub key: Option<u32>,
    /// The sequence number, when the S bit is set.
    pub sequence: Option<Seq>,
    /// What follows.
    pub protocol: Protocol,
}

/// Why a datagram is not GRE that this tunnel accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GreError {
    /// The datagram ends within its header.
    #[error("the datagram ends within its GRE header")]
    Truncated,
    /// The version is not 0.
    #[error("GRE version {0} where 0 is spoken")]
    Version(u8),
    /// A reserved bit of RFC 2784 §2.3 is set.
    #[error("a reserved GRE bit is set (RFC 2784 section 2.3)")]
    ReservedBits,
    /// The checksum is present and wrong.
    #[error("the GRE checksum is wrong")]
    Checksum,
    /// The key is missing, wrong, or there and none is configured.
    #[error("the GRE key is not the configured one")]
    Key,
    /// The Protocol Type is none that a tunnel carries.
    #[error("GRE Protocol Type {0:#06x} is not carried")]
    Protocol(u16),
}

/// Reads the header of `datagram`, which must carry exactly the key `key`, and tells where the
/// payload starts, in bytes.
///
/// # Errors
/// [`GreError`] names the first rule that the datagram breaks; it is then to be dropped.
#[inline]
pub fn parse(datagram: &[u8], key: Option<u32>) -> Result<(Header, usize), GreError> {
    let Some((base, rest)) = datagram.split_first_chunk::<4>() else {
        return Err(GreError::Truncated);
    };
    let flags = u16::from_be_bytes([base[0], base[1]]);
    if flags & RESERVED_MASK != 0 {
        return Err(GreError::ReservedBits);
    }
    if flags & VERSION_MASK != 0 {
        return Err(GreError::Version((flags & VERSION_MASK) as u8));
    }

    let mut at = 4;
    if flags & FLAG_CHECKSUM != 0 {
        if rest.len() < 4 {
            return Err(GreError::Truncated);
        }
        if !Sum::of(datagram).is_intact() {
            return Err(GreError::Checksum);
        }
        at += 4;
    }
    let mut word = |present: bool| -> Result<Option<u32>, GreError> {
        if !present {
            return Ok(None);
        }
        let bytes = datagram.get(at..).and_then(|rest| rest.first_chunk::<4>());
        at += 4;
        bytes
            .map(|bytes| Some(u32::from_be_bytes(*bytes)))
            .ok_or(GreError::Truncated)
    };
    let found_key = word(flags & FLAG_KEY != 0)?;
    let sequence = word(flags & FLAG_SEQUENCE != 0)?.map(Seq::new);
    if found_key != key {
        return Err(GreError::Key);
    }

    let ethertype = u16::from_be_bytes([base[2], base[3]]);
    let protocol = Protocol::from_ethertype(ethertype).ok_or(GreError::Protocol(ethertype))?;
    Ok((
        Header {
            key: found_key,
            sequence,
            protocol,
        },
        at,
    ))
}

impl Header {
    /// Length of the header on the wire, in bytes.
    #[must_use]
    #[inline]
    pub const fn buffer_len(&self) -> usize {
        4 + if self.key.is_some() { 4 } else { 0 } + if self.sequence.is_some() { 4 } else { 0 }
    }

    /// Writes the header to the start of `out` and returns its length in bytes.
    ///
    /// # Panics
    /// When `out` is shorter than [`Header::buffer_len`].
    #[inline]
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let mut flags = 0;
        let mut at = 4;
        if let Some(key) = self.key {
            flags |= FLAG_KEY;
            out[at..at + 4].copy_from_slice(&key.to_be_bytes());
            at += 4;
        }
        if let Some(sequence) = self.sequence {
            flags |= FLAG_SEQUENCE;
            out[at..at + 4].copy_from_slice(&sequence.value().to_be_bytes());
            at += 4;
        }
        out[0..2].copy_from_slice(&flags.to_be_bytes());
        out[2..4].copy_from_slice(&self.protocol.ethertype().to_be_bytes());
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn emitted(header: Header) -> Vec<u8> {
        let mut bytes = vec![0; MAX_SENT_BYTES];
        let len = header.emit(&mut bytes);
        assert_eq!(len, header.buffer_len());
        bytes.truncate(len);
        bytes
    }

    #[test]
    fn sequence_and_key_have_the_layout_of_rfc_2890() {
        let header = Header {
            key: Some(0x0102_0304),
            sequence: Some(Seq::new(0x0A0B_0C0D)),
            protocol: Protocol::Ipv6,
        };
        assert_eq!(
            emitted(header),
            [0x30, 0, 0x86, 0xDD, 1, 2, 3, 4, 0x0A, 0x0B, 0x0C, 0x0D]
        );
    }

    #[test]
    fn reserved_bits_and_versions_are_refused() {
        for bit in 0..16u16 {
            let flags = 1u16 << bit;
            let bytes = [&flags.to_be_bytes()[..], &[8, 0, 0, 0, 0, 0, 0, 0, 0, 0]].concat();
            let expected = match bit {
                0..=2 => Err(GreError::Version(flags as u8)),
                12 => Ok(()),
                13 => Err(GreError::Key),
                15 => Err(GreError::Checksum),
                _ => Err(GreError::ReservedBits),
            };
            assert_eq!(parse(&bytes, None).map(|_| ()), expected, "bit {bit}");
        }
    }

    #[test]
    fn a_key_must_be_the_configured_one() {
        let keyed = emitted(Header {
            key: Some(7),
            sequence: None,
            protocol: Protocol::Ipv4,
        });
        let plain = emitted(Header {
            key: None,
            sequence: None,
            protocol: Protocol::Ipv4,
        });
        assert!(parse(&keyed, Some(7)).is_ok());
        assert_eq!(parse(&keyed, Some(8)), Err(GreError::Key));
        assert_eq!(parse(&keyed, None), Err(GreError::Key));
        assert_eq!(parse(&plain, Some(7)), Err(GreError::Key));
    }

    #[test]
    fn a_checksum_is_verified_and_skipped() {
        let mut bytes = vec![0x90, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0x45, 1, 2];
        let sum = Sum::of(&bytes).checksum();
        bytes[4..6].copy_from_slice(&sum.to_be_bytes());
        let (header, payload) = parse(&bytes, None).unwrap();
        assert_eq!((header.sequence, payload), (Some(Seq::new(9)), 12));
        bytes[14] ^= 1;
        assert_eq!(parse(&bytes, None), Err(GreError::Checksum));
    }

    #[test]
    fn unknown_protocols_are_refused_by_number() {
        assert_eq!(
            parse(&[0, 0, 0x65, 0x58], None),
            Err(GreError::Protocol(0x6558))
        );
    }

    proptest! {
        #[test]
        fn what_was_emitted_parses_to_the_same(key: Option<u32>, seq: Option<u32>, which in 0..4usize) {
            let protocol =
                [Protocol::Ipv4, Protocol::Ipv6, Protocol::Control, Protocol::Sealed][which];
            let header = Header { key, sequence: seq.map(Seq::new), protocol };
            let bytes = emitted(header);
            prop_assert_eq!(parse(&bytes, key), Ok((header, bytes.len())));
            for cut in 0..bytes.len() {
                prop_assert!(parse(&bytes[..cut], key).is_err());
            }
        }

        #[test]
        fn any_bytes_parse_or_fail_without_panic(bytes: Vec<u8>, key: Option<u32>) {
            if let Ok((_, payload)) = parse(&bytes, key) {
                prop_assert!(payload <= bytes.len());
            }
        }
    }
}

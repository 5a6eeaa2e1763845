//! ICMP and ICMPv6 echo messages (RFC 792, RFC 4443 §4).
//!
//! ```text
//!  0        1        2                 4                 6                 8
//! +--------+--------+-----------------+-----------------+-----------------+----
//! |  type  |  code  |    checksum     |   identifier    | sequence number | data
//! +--------+--------+-----------------+-----------------+-----------------+----
//! ```
//!
//! The checksum of ICMPv6 covers addresses that only the kernel knows; it fills it in.

use mpt_core::wire::checksum::Sum;

/// Length of an echo's header, in bytes.
pub(crate) const HEADER_BYTES: usize = 8;

const V4_REQUEST: u8 = 8;
const V4_REPLY: u8 = 0;
const V6_REQUEST: u8 = 128;
const V6_REPLY: u8 = 129;

/// Which half of an echo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Half {
    Request,
    Reply,
}

/// An echo message, parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Echo<'a> {
    pub(crate) half: Half,
    pub(crate) number: u16,
    pub(crate) data: &'a [u8],
}

/// Reads an echo message; `None` when it is another ICMP message or cut off.
pub(crate) fn parse(message: &[u8], ipv6: bool) -> Option<Echo<'_>> {
    let (header, data) = message.split_first_chunk::<HEADER_BYTES>()?;
    let half = match (ipv6, header[0], header[1]) {
        (false, V4_REQUEST, 0) | (true, V6_REQUEST, 0) => Half::Request,
        (false, V4_REPLY, 0) | (true, V6_REPLY, 0) => Half::Reply,
        _ => return None,
    };
    Some(Echo {
        half,
        number: u16::from_be_bytes([header[6], header[7]]),
        data,
    })
}

/// Writes the header of an echo request in front of the data that stand from [`HEADER_BYTES`] on.
///
/// # Panics
/// When `message` is shorter than the header.
pub(crate) fn emit_request(message: &mut [u8], identifier: u16, number: u16, ipv6: bool) {
    message[0] = if ipv6 { V6_REQUEST } else { V4_REQUEST };
    message[1..4].fill(0);
    message[4..6].copy_from_slice(&identifier.to_be_bytes());
    message[6..8].copy_from_slice(&number.to_be_bytes());
    if !ipv6 {
        let checksum = Sum::of(message).checksum();
        message[2..4].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// What follows the IPv4 header that a raw socket leaves in front.
pub(crate) fn behind_ipv4_header(packet: &[u8]) -> Option<&[u8]> {
    let words = usize::from(packet.first()? & 0x0f);
    packet.get(words * 4..)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_request_is_what_ping_sends() {
        let mut message = *b"________abc";
        emit_request(&mut message, 0x1234, 7, false);
        assert_eq!(&message[..2], [8, 0]);
        assert_eq!(&message[4..8], [0x12, 0x34, 0, 7]);
        assert!(Sum::of(&message).is_intact());
        let echo = parse(&message, false).unwrap();
        assert_eq!((echo.half, echo.number), (Half::Request, 7));
        assert_eq!(echo.data, b"abc");
    }

    #[test]
    fn families_have_types_of_their_own() {
        let reply = [129, 0, 0, 0, 0, 0, 0, 5];
        assert_eq!(parse(&reply, true).unwrap().half, Half::Reply);
        assert_eq!(parse(&reply, false), None);
        assert_eq!(parse(&reply[..7], true), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = parse(&bytes, false);
            let _ = parse(&bytes, true);
            let _ = behind_ipv4_header(&bytes);
        }
    }
}

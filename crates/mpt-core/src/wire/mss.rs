//! MSS clamping: a TCP handshake that passes through the tunnel is made to ask for no larger segments than
//! the tunnel carries.
//!
//! Path MTU discovery does that by itself where ICMP gets through. Where it does not, a flow that crosses
//! the tunnel stalls at its first full segment. The maximum segment size that either end names in its SYN
//! (RFC 9293 §3.7.1) is therefore lowered to what fits, never raised. Only the option and the checksum
//! change; a checksum that was wrong stays wrong.

use crate::wire::checksum;
use crate::wire::ip::{Packet, Version, put_u16, u16_at};
use crate::wire::transport::tcp;

const PROTOCOL_TCP: u8 = 6;
const OPTION_END: u8 = 0;
const OPTION_NOP: u8 = 1;
const OPTION_MSS: u8 = 2;
const OPTION_MSS_LEN: u8 = 4;
/// IPv4 and IPv6 header, each with TCP's, in bytes.
const V4_HEADERS: u16 = 20 + 20;
const V6_HEADERS: u16 = 40 + 20;

/// Lowers the MSS of a packet, if it is a TCP SYN with that option, to what fits packets of `mtu` bytes.
/// `is_partial`: its checksum is that of the pseudo header alone, which the option does not change.
/// Returns whether it was lowered.
#[inline]
pub fn clamp(packet: &mut [u8], mtu: u16, is_partial: bool) -> bool {
    let Some((tcp_at, headers)) = syn(packet) else {
        return false;
    };
    let segment = &mut packet[tcp_at..];
    let most = mtu.saturating_sub(headers).max(1);
    let Some(at) = mss_at(segment) else {
        return false;
    };
    let old = u16_at(segment, at);
    if old <= most {
        return false;
    }
    put_u16(segment, at, most);
    if !is_partial {
        // The sum goes by words; an option at an odd place lies across two.
        let swapped = |value: u16| {
            if at % 2 == 0 {
                value
            } else {
                value.swap_bytes()
            }
        };
        let checksum = u16_at(segment, tcp::CHECKSUM);
        let checksum = checksum::updated(checksum, swapped(old), swapped(most));
        put_u16(segment, tcp::CHECKSUM, checksum);
    }
    true
}

/// Where the TCP header of a SYN begins, and how long its headers are at least.
#[inline]
fn syn(bytes: &[u8]) -> Option<(usize, u16)> {
    let packet = Packet::parse(bytes).ok()?;
    let transport = packet.transport().ok()?;
    if transport.protocol != PROTOCOL_TCP || !transport.is_first() {
        return None;
    }
    let flags = packet.bytes().get(transport.offset + tcp::FLAGS)?;
    let headers = match packet.version() {
        Version::V4 => V4_HEADERS,
        Version::V6 => V6_HEADERS,
    };
    (flags & tcp::SYN != 0).then_some((transport.offset, headers))
}

/// Where the value of the MSS option lies in a TCP segment.
fn mss_at(segment: &[u8]) -> Option<usize> {
    let end = tcp::header_len(segment)?;
    let mut at = tcp::HEADER;
    while at < end {
        let len = match segment[at] {
            OPTION_END => return None,
            OPTION_NOP => 1,
            kind => {
                let len = *segment.get(at + 1)?;
                if kind == OPTION_MSS {
                    let fits = len == OPTION_MSS_LEN && at + usize::from(len) <= end;
                    return fits.then_some(at + 2);
                }
                usize::from(len).max(2)
            }
        };
        at += len;
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::checksum::Sum;

    /// A TCP packet with these flags and options.
    fn packet(is_v6: bool, flags: u8, options: &[u8]) -> Vec<u8> {
        let mut options = options.to_vec();
        options.resize(options.len().next_multiple_of(4), OPTION_END);
        let tcp_len = 20 + options.len() + 3;
        let mut bytes = if is_v6 {
            let mut header = vec![0x60, 0, 0, 0, 0, tcp_len as u8, 6, 64];
            header.extend([0xfd; 32]);
            header
        } else {
            let mut header = vec![0x45, 0, 0, 20 + tcp_len as u8, 0, 0, 0x40, 0, 64, 6, 0, 0];
            header.extend([10; 8]);
            header
        };
        let at = bytes.len();
        bytes.extend([0x12, 0x34, 0, 80, 1, 2, 3, 4, 0, 0, 0, 0]);
        bytes.extend([
            (5 + options.len() / 4) as u8 * 16,
            flags,
            0xff,
            0xff,
            0,
            0,
            0,
            0,
        ]);
        bytes.extend(&options);
        bytes.extend(b"abc");
        let whole = Packet::parse(&bytes).unwrap();
        let sum = whole.pseudo_header(PROTOCOL_TCP, tcp_len) + Sum::of(&bytes[at..]);
        put_u16(&mut bytes, at + tcp::CHECKSUM, sum.checksum());
        bytes
    }

    fn is_intact(bytes: &[u8]) -> bool {
        let packet = Packet::parse(bytes).unwrap();
        let at = packet.transport().unwrap().offset;
        let sum = packet.pseudo_header(PROTOCOL_TCP, bytes.len() - at) + Sum::of(&bytes[at..]);
        sum.is_intact()
    }

    #[test]
    fn a_syn_asks_for_no_more_than_fits() {
        for (is_v6, fits) in [(false, 1402), (true, 1382)] {
            for before in [
                &[][..],
                &[1],
                &[1, 1],
                &[3, 3, 7],
                &[8, 10, 0, 0, 0, 0, 0, 0, 0, 0],
            ] {
                for flags in [tcp::SYN, tcp::SYN | tcp::ACK_FLAG] {
                    let options = [before, &[2, 4, 0x05, 0xb4]].concat();
                    let mut bytes = packet(is_v6, flags, &options);
                    assert!(clamp(&mut bytes, 1442, false));
                    assert!(is_intact(&bytes), "{before:?}");
                    let at =
                        bytes.len() - 3 - options.len().next_multiple_of(4) + options.len() - 2;
                    assert_eq!(u16_at(&bytes, at), fits);
                    assert!(!clamp(&mut bytes, 1442, false), "once");
                }
            }
        }
    }

    #[test]
    fn nothing_else_is_touched() {
        let mss = [2, 4, 0x05, 0xb4];
        for (flags, options, mtu) in [
            (tcp::ACK_FLAG, &mss[..], 1000),
            (tcp::SYN, &mss[..], 1500),
            (tcp::SYN, &[0, 2, 4, 5], 1000),
            (tcp::SYN, &[2, 3, 5], 1000),
            (tcp::SYN, &[1, 1, 2, 4], 1000),
            (tcp::SYN, &[], 1000),
        ] {
            let mut bytes = packet(false, flags, options);
            let before = bytes.clone();
            assert!(!clamp(&mut bytes, mtu, false));
            assert_eq!(bytes, before);
        }
    }

    #[test]
    fn the_sum_of_the_pseudo_header_alone_stays() {
        let mut bytes = packet(false, tcp::SYN, &[2, 4, 0x05, 0xb4]);
        let before = u16_at(&bytes, 20 + tcp::CHECKSUM);
        assert!(clamp(&mut bytes, 1000, true));
        assert_eq!(u16_at(&bytes, 20 + tcp::CHECKSUM), before);
    }

    proptest! {
        #[test]
        fn any_bytes_are_borne_and_keep_their_length(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..120),
            mtu: u16,
            options in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let len = bytes.len();
            clamp(&mut bytes, mtu, false);
            prop_assert_eq!(bytes.len(), len);
            let mut bytes = packet(false, tcp::SYN, &options);
            clamp(&mut bytes, mtu, false);
            prop_assert!(is_intact(&bytes));
        }
    }
}

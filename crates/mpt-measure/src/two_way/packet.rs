//! STAMP's test packets, unauthenticated mode (RFC 8762 §4.2.1 and §4.3.1), with the session identifier and the TLVs of
//! RFC 8972 §3 and §4.
//!
//! ```text
//!  0  sequence number      | what the sender sends, and the reflector with a number,
//!  4  timestamp            | a time and an error of its own
//! 12  error estimate       |
//! 14  session identifier
//! 16  receive timestamp    \
//! 24  sender's number       |
//! 28  sender's timestamp    | by the reflector; the sender sends zeros
//! 36  sender's error        |
//! 40  sender's TTL         /
//! 44  TLVs
//! ```

/// Bytes of a packet without TLVs.
pub(crate) const BYTES: usize = 44;
/// Bytes of a TLV's header.
pub(crate) const TLV_BYTES: usize = 4;
/// Not synchronised (S = 0), NTP's format (Z = 0), and an error of about a millisecond: 1 · 2^(22 − 32) s (RFC 4656
/// §4.1.2).
const ERROR_ESTIMATE: [u8; 2] = [22, 1];
/// The timestamps are in PTP's truncated format.
const PTP_FORMAT: u8 = 0x40;
/// A reflector that is not told the TTL of what came says so (RFC 5357 §4.2.1).
const UNKNOWN_TTL: u8 = 255;
/// Seconds from 1900 to 1970.
const NTP_EPOCH: u64 = 2_208_988_800;
const SECOND_NS: u64 = 1_000_000_000;

/// Flags and types of TLVs (RFC 8972 §4, §4.1).
const UNRECOGNIZED: u8 = 0x80;
const MALFORMED: u8 = 0x40;
const RESERVED: u8 = 0;
const EXTRA_PADDING: u8 = 1;

/// A reflector's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reply {
    /// The reflector's number: how many it had reflected before, or the sender's once more.
    pub(crate) number: u32,
    /// When it was sent and the test packet had come, by the reflector's clock, in nanoseconds since 1970.
    pub(crate) sent_ns: u64,
    pub(crate) received_ns: u64,
    pub(crate) session: u16,
    /// Number and time of the test packet.
    pub(crate) test_number: u32,
    pub(crate) test_sent_ns: u64,
}

/// A test packet of `bytes`, at least [`BYTES`]; what is more is a padding TLV, and takes [`TLV_BYTES`] at least.
pub(crate) fn test(number: u32, session: u16, now_ns: u64, bytes: usize) -> Vec<u8> {
    let mut packet = Vec::with_capacity(bytes);
    packet.extend(number.to_be_bytes());
    packet.extend(ntp(now_ns));
    packet.extend(ERROR_ESTIMATE);
    packet.extend(session.to_be_bytes());
    packet.resize(BYTES, 0);
    if let Some(padding) = bytes.checked_sub(BYTES + TLV_BYTES) {
        packet.extend([UNRECOGNIZED, EXTRA_PADDING]);
        packet.extend(u16::try_from(padding).unwrap_or(u16::MAX).to_be_bytes());
        packet.resize(bytes, 0);
    }
    packet
}

/// The identifier of a test packet's session, and its number; `None` of what is too short to be one.
pub(crate) fn session_of(packet: &[u8]) -> Option<(u16, u32)> {
    let head = packet.first_chunk::<BYTES>()?;
    Some((u16_at(head, 14), u32_at(head, 0)))
}

/// Makes the answer of a test packet, in its place. It is as long: a reflector sends nobody more than it got.
pub(crate) fn reflect(packet: &mut [u8], number: u32, received_ns: u64, now_ns: u64) {
    let Some((head, tlvs)) = packet.split_first_chunk_mut::<BYTES>() else {
        return;
    };
    let test = *head;
    head[..4].copy_from_slice(&number.to_be_bytes());
    head[4..12].copy_from_slice(&ntp(now_ns));
    head[12..14].copy_from_slice(&ERROR_ESTIMATE);
    head[16..24].copy_from_slice(&ntp(received_ns));
    head[24..38].copy_from_slice(&test[..14]);
    head[38..].copy_from_slice(&[0, 0, UNKNOWN_TTL, 0, 0, 0]);
    mark(tlvs);
}

/// Says of each TLV whether it was understood.
fn mark(mut tlvs: &mut [u8]) {
    while let Some((head, rest)) = tlvs.split_first_chunk_mut::<TLV_BYTES>() {
        let length = usize::from(u16::from_be_bytes([head[2], head[3]]));
        head[0] = match head[1] {
            // Padding of a sender that knows no TLVs (RFC 8762 §4.6).
            RESERVED => return,
            _ if length > rest.len() => {
                head[0] = MALFORMED;
                return;
            }
            EXTRA_PADDING => 0,
            _ => UNRECOGNIZED,
        };
        tlvs = &mut rest[length..];
    }
}

/// Reads an answer; `None` of what is too short to be one.
pub(crate) fn reply(packet: &[u8]) -> Option<Reply> {
    let head = packet.first_chunk::<BYTES>()?;
    Some(Reply {
        number: u32_at(head, 0),
        sent_ns: unix_ns(head, 4, head[12]),
        received_ns: unix_ns(head, 16, head[12]),
        session: u16_at(head, 14),
        test_number: u32_at(head, 24),
        test_sent_ns: unix_ns(head, 28, head[36]),
    })
}

fn u16_at(head: &[u8; BYTES], at: usize) -> u16 {
    u16::from_be_bytes([head[at], head[at + 1]])
}

fn u32_at(head: &[u8; BYTES], at: usize) -> u32 {
    (u32::from(u16_at(head, at)) << 16) | u32::from(u16_at(head, at + 2))
}

/// NTP's 64 bits: seconds since 1900 modulo 2³², and 2⁻³² s (RFC 5905 §6).
fn ntp(unix_ns: u64) -> [u8; 8] {
    let seconds = (unix_ns / SECOND_NS + NTP_EPOCH) & 0xffff_ffff;
    let fraction = ((unix_ns % SECOND_NS) << 32) / SECOND_NS;
    (seconds << 32 | fraction).to_be_bytes()
}

/// A timestamp in the format that the error estimate beside it names.
fn unix_ns(head: &[u8; BYTES], at: usize, error: u8) -> u64 {
    let (seconds, fraction) = (u64::from(u32_at(head, at)), u64::from(u32_at(head, at + 4)));
    if error & PTP_FORMAT != 0 {
        return seconds * SECOND_NS + fraction;
    }
    // The second era begins in 2036.
    let seconds = (seconds + (1 << 32) - NTP_EPOCH) & 0xffff_ffff;
    // Rounded up, so that what was a whole number of nanoseconds is the same again.
    seconds * SECOND_NS + (fraction * SECOND_NS).div_ceil(1 << 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: u64 = 1_795_446_000_123_456_789;

    #[test]
    fn what_is_reflected_tells_all_four_times() {
        let mut packet = test(7, 0xbeef, NOW, BYTES);
        assert_eq!(session_of(&packet), Some((0xbeef, 7)));
        reflect(&mut packet, 5, NOW + 1_000, NOW + 2_500);
        assert_eq!(packet.len(), BYTES);
        let expected = Reply {
            number: 5,
            sent_ns: NOW + 2_500,
            received_ns: NOW + 1_000,
            session: 0xbeef,
            test_number: 7,
            test_sent_ns: NOW,
        };
        assert_eq!(reply(&packet), Some(expected));
        assert_eq!(packet[40], UNKNOWN_TTL);
    }

    #[test]
    fn tlvs_come_back_marked() {
        let mut packet = test(0, 1, NOW, 100);
        assert_eq!(
            packet[BYTES..BYTES + 4],
            [UNRECOGNIZED, EXTRA_PADDING, 0, 52]
        );
        packet[60..64].copy_from_slice(&[0xff; 4]);
        reflect(&mut packet, 0, NOW, NOW);
        assert_eq!(packet[BYTES..BYTES + 4], [0, EXTRA_PADDING, 0, 52]);
        assert_eq!(packet[60..64], [0xff; 4]);

        let mut packet = test(0, 1, NOW, BYTES);
        // One of a type that nobody knows, and one that claims more than there is.
        packet.extend([0, 200, 0, 2, 9, 9, 0, EXTRA_PADDING, 0, 9, 1]);
        reflect(&mut packet, 0, NOW, NOW);
        let expected = [
            UNRECOGNIZED,
            200,
            0,
            2,
            9,
            9,
            MALFORMED,
            EXTRA_PADDING,
            0,
            9,
            1,
        ];
        assert_eq!(packet[BYTES..], expected);
    }

    #[test]
    fn padding_of_old_senders_is_left_alone() {
        let mut packet = vec![0; 300];
        reflect(&mut packet, 0, NOW, NOW);
        assert_eq!(packet[BYTES..], [0; 256]);
    }

    #[test]
    fn the_format_of_ptp_is_read_where_it_is_named() {
        let mut packet = test(0, 1, NOW, BYTES);
        reflect(&mut packet, 0, NOW, NOW);
        packet[12] |= PTP_FORMAT;
        packet[4..8].copy_from_slice(&9_u32.to_be_bytes());
        packet[8..12].copy_from_slice(&7_u32.to_be_bytes());
        let reply = reply(&packet).unwrap();
        assert_eq!(
            (reply.sent_ns, reply.test_sent_ns),
            (9 * SECOND_NS + 7, NOW)
        );
    }

    proptest! {
        #[test]
        fn no_bytes_panic_and_none_are_added(mut packet: Vec<u8>, number: u32, now: u64) {
            let length = packet.len();
            let (read, session) = (reply(&packet), session_of(&packet));
            prop_assert_eq!((read.is_some(), session.is_some()), (length >= BYTES, length >= BYTES));
            reflect(&mut packet, number, now, now);
            prop_assert_eq!(packet.len(), length);
        }

        #[test]
        fn times_until_2106_survive(ns in 0..4_294_967_296_000_000_000_u64) {
            let mut head = [0; BYTES];
            head[..8].copy_from_slice(&ntp(ns));
            prop_assert_eq!(unix_ns(&head, 0, 0), ns);
        }
    }
}

//! What a measuring packet carries.
//!
//! Every packet says which run it belongs to (a random number, so that a stranger's packets and a
//! second sender's are told apart), its number, what its sender plans, and when it was sent. The
//! rest is zeros up to the size that was asked for. All integers are in network byte order:
//!
//! ```text
//!  0       4    5    6       8                16       20       24       28               36
//! +-------+----+----+-------+----------------+--------+--------+--------+----------------+
//! | magic | v  |kind| frame |  stream        | number | count  |  rate  |  sent, ns      |
//! +-------+----+----+-------+----------------+--------+--------+--------+----------------+
//! ```
//!
//! `frame` is the Ethernet frame in bytes, `count` how many packets the sender means to send, `rate`
//! how many a second, and `sent` its clock in nanoseconds since 1970. An end marker has kind 1 and in
//! `number` how many packets were sent.
//!
//! The size of a measuring packet is that of its *Ethernet frame*, checksum included, since that is
//! what the Reorder Density paper counts: its 1518 bytes are the largest untagged frame, an IP
//! packet of 1500 bytes, a UDP payload of 1472 over IPv4.

/// Length of the stamp at the start of each payload, in bytes.
pub(crate) const STAMP_BYTES: usize = 36;

/// Ethernet header and frame check sequence, in bytes.
pub(crate) const ETHERNET_BYTES: usize = 14 + 4;
/// Header of UDP and of an ICMP echo alike, in bytes.
const TRANSPORT_BYTES: usize = 8;

const MAGIC: [u8; 4] = *b"MPTm";
const VERSION: u8 = 1;
const KIND_DATA: u8 = 0;
const KIND_END: u8 = 1;

/// What a packet is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It is measured.
    Data,
    /// It says that the sender is done.
    End,
}

/// The sender's plan, the same in all packets of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Packets to be sent.
    pub(crate) count: u32,
    /// Their size as Ethernet frames, in bytes.
    pub(crate) frame_bytes: u16,
    /// Packets a second.
    pub(crate) rate_pps: u32,
}

/// The stamp of one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) kind: Kind,
    /// The run that it belongs to.
    pub(crate) stream: u64,
    /// Its number, from 0; of an end marker, how many were sent.
    pub(crate) number: u32,
    pub(crate) plan: Plan,
    /// When it was sent, by the sender's clock, in nanoseconds since 1970.
    pub(crate) sent_ns: u64,
}

/// Why a payload is not part of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotOurs {
    /// It does not begin as a measuring packet does.
    Stranger,
    /// It does, and then makes no sense: cut off, of another version, a number beyond its count.
    Malformed,
}

impl Stamp {
    /// Reads the stamp at the start of a payload.
    pub(crate) fn parse(payload: &[u8]) -> Result<Self, NotOurs> {
        if !payload.starts_with(&MAGIC) {
            return Err(NotOurs::Stranger);
        }
        let Some(bytes) = payload.first_chunk::<STAMP_BYTES>() else {
            return Err(NotOurs::Malformed);
        };
        let kind = match (bytes[4], bytes[5]) {
            (VERSION, KIND_DATA) => Kind::Data,
            (VERSION, KIND_END) => Kind::End,
            _ => return Err(NotOurs::Malformed),
        };
        let stamp = Stamp {
            kind,
            stream: u64::from_be_bytes(part(bytes, 8)),
            number: u32::from_be_bytes(part(bytes, 16)),
            plan: Plan {
                count: u32::from_be_bytes(part(bytes, 20)),
                frame_bytes: u16::from_be_bytes(part(bytes, 6)),
                rate_pps: u32::from_be_bytes(part(bytes, 24)),
            },
            sent_ns: u64::from_be_bytes(part(bytes, 28)),
        };
        let sensible = match kind {
            Kind::Data => stamp.number < stamp.plan.count,
            Kind::End => stamp.number <= stamp.plan.count,
        };
        if sensible {
            Ok(stamp)
        } else {
            Err(NotOurs::Malformed)
        }
    }

    /// The stamp as bytes.
    pub(crate) fn bytes(&self) -> [u8; STAMP_BYTES] {
        let mut bytes = [0; STAMP_BYTES];
        bytes[0..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        bytes[5] = match self.kind {
            Kind::Data => KIND_DATA,
            Kind::End => KIND_END,
        };
        bytes[6..8].copy_from_slice(&self.plan.frame_bytes.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.stream.to_be_bytes());
        bytes[16..20].copy_from_slice(&self.number.to_be_bytes());
        bytes[20..24].copy_from_slice(&self.plan.count.to_be_bytes());
        bytes[24..28].copy_from_slice(&self.plan.rate_pps.to_be_bytes());
        bytes[28..36].copy_from_slice(&self.sent_ns.to_be_bytes());
        bytes
    }
}

/// `N` bytes at `at`; all offsets above lie within the stamp.
fn part<const N: usize>(bytes: &[u8; STAMP_BYTES], at: usize) -> [u8; N] {
    let mut part = [0; N];
    part.copy_from_slice(&bytes[at..at + N]);
    part
}

/// Payload of a frame of `frame_bytes`, in bytes; `None` when not even the stamp fits.
pub(crate) fn payload_bytes(frame_bytes: u16, ipv6: bool) -> Option<usize> {
    let headers = headers_bytes(ipv6);
    let payload = usize::from(frame_bytes).checked_sub(headers)?;
    (payload >= STAMP_BYTES).then_some(payload)
}

/// All headers of a frame, and its check sequence, in bytes.
pub(crate) fn headers_bytes(ipv6: bool) -> usize {
    ETHERNET_BYTES + if ipv6 { 40 } else { 20 } + TRANSPORT_BYTES
}

/// The smallest frame that a stamp fits into, in bytes.
pub(crate) fn least_frame(ipv6: bool) -> usize {
    headers_bytes(ipv6) + STAMP_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stamp() -> Stamp {
        Stamp {
            kind: Kind::Data,
            stream: 0x0102_0304_0506_0708,
            number: 9,
            plan: Plan {
                count: 10,
                frame_bytes: 1518,
                rate_pps: 8235,
            },
            sent_ns: 11,
        }
    }

    #[test]
    fn fields_lie_where_the_map_says() {
        let bytes = stamp().bytes();
        assert_eq!(&bytes[..8], b"MPTm\x01\x00\x05\xee");
        assert_eq!(&bytes[8..16], [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(&bytes[16..24], [0, 0, 0, 9, 0, 0, 0, 10]);
        assert_eq!(&bytes[24..], [0, 0, 0x20, 0x2b, 0, 0, 0, 0, 0, 0, 0, 11]);
    }

    #[test]
    fn a_number_beyond_the_count_is_malformed() {
        let last = stamp();
        assert_eq!(Stamp::parse(&last.bytes()), Ok(last));
        let beyond = Stamp { number: 10, ..last };
        assert_eq!(Stamp::parse(&beyond.bytes()), Err(NotOurs::Malformed));
        let end = Stamp {
            kind: Kind::End,
            ..beyond
        };
        assert_eq!(Stamp::parse(&end.bytes()), Ok(end));
    }

    #[test]
    fn what_does_not_begin_like_ours_is_a_strangers() {
        assert_eq!(Stamp::parse(b""), Err(NotOurs::Stranger));
        assert_eq!(Stamp::parse(&[0; 1472]), Err(NotOurs::Stranger));
        assert_eq!(Stamp::parse(b"MPTm"), Err(NotOurs::Malformed));
        let mut later = stamp().bytes();
        later[4] = 2;
        assert_eq!(Stamp::parse(&later), Err(NotOurs::Malformed));
    }

    #[test]
    fn the_paper_s_frame_is_an_ip_packet_of_1500() {
        assert_eq!(payload_bytes(1518, false), Some(1472));
        assert_eq!(payload_bytes(1518, true), Some(1452));
        assert_eq!(payload_bytes(81, false), None);
        assert_eq!(least_frame(false), 82);
        assert_eq!(payload_bytes(82, false), Some(STAMP_BYTES));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..80),
            ours: bool,
        ) {
            if ours && bytes.len() > 6 {
                bytes[..6].copy_from_slice(b"MPTm\x01\x00");
            }
            if let Ok(stamp) = Stamp::parse(&bytes) {
                prop_assert_eq!(&stamp.bytes()[..], &bytes[..STAMP_BYTES]);
            }
        }
    }
}

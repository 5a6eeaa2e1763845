//! Where the fields of TCP (RFC 9293 §3.1) and UDP (RFC 768) lie, from the transport header's start.

use std::ops::Range;

/// Both ports, which TCP and UDP keep in the same place.
pub(crate) const PORTS: Range<usize> = 0..4;

pub(crate) mod tcp {
    use super::Range;
    use crate::wire::ip::u32_at;

    pub(crate) const SEQUENCE: usize = 4;
    pub(crate) const ACK: Range<usize> = 8..12;
    pub(crate) const DATA_OFFSET: usize = 12;
    pub(crate) const FLAGS: usize = 13;
    pub(crate) const WINDOW: Range<usize> = 14..16;
    pub(crate) const CHECKSUM: usize = 16;
    pub(crate) const URGENT: Range<usize> = 18..20;
    /// Length of a header without options, in bytes.
    pub(crate) const HEADER: usize = 20;

    pub(crate) const FIN: u8 = 0x01;
    pub(crate) const SYN: u8 = 0x02;
    pub(crate) const RST: u8 = 0x04;
    pub(crate) const PSH: u8 = 0x08;
    pub(crate) const ACK_FLAG: u8 = 0x10;
    pub(crate) const ACK_AND_PSH: u8 = ACK_FLAG | PSH;
    pub(crate) const URG: u8 = 0x20;
    pub(crate) const ECE: u8 = 0x40;
    pub(crate) const CWR: u8 = 0x80;

    /// The length of the TCP header with its options that begins `bytes`; `None` when it is below 20
    /// or beyond the end.
    pub(crate) fn header_len(bytes: &[u8]) -> Option<usize> {
        let length = usize::from(bytes.get(DATA_OFFSET)? >> 4) * 4;
        (HEADER..=bytes.len()).contains(&length).then_some(length)
    }

    /// The first sequence number that the segment takes, and the one after its last: SYN and FIN take one each (RFC 9293
    /// §3.4). `None` when its header is not whole.
    pub(crate) fn sequence_range(segment: &[u8]) -> Option<(u32, u32)> {
        let payload = segment.len() - header_len(segment)?;
        let flags = segment[FLAGS];
        let taken = payload as u32 + u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0);
        let first = u32_at(segment, SEQUENCE);
        Some((first, first.wrapping_add(taken)))
    }

    /// Whether the segment carries nothing and changes nothing: it acknowledges, and may echo a mark of ECN.
    pub(crate) fn only_acknowledges(segment: &[u8]) -> bool {
        header_len(segment) == Some(segment.len()) && segment[FLAGS] & !ECE == ACK_FLAG
    }
}

pub(crate) mod udp {
    pub(crate) const LENGTH: usize = 4;
    pub(crate) const CHECKSUM: usize = 6;
    /// Length of the header, in bytes.
    pub(crate) const HEADER: usize = 8;
}

#[cfg(test)]
mod tests {
    use super::tcp;

    #[test]
    fn only_a_bare_acknowledgement_is_one() {
        let mut segment = [0; 32];
        (segment[tcp::DATA_OFFSET], segment[tcp::FLAGS]) = (8 << 4, tcp::ACK_FLAG);
        assert!(tcp::only_acknowledges(&segment));
        for cut in 0..segment.len() {
            assert!(!tcp::only_acknowledges(&segment[..cut]));
        }
        let with_data = [&segment[..], &[0]].concat();
        assert!(!tcp::only_acknowledges(&with_data));
        for flags in 0..=u8::MAX {
            segment[tcp::FLAGS] = flags;
            let is_bare = [tcp::ACK_FLAG, tcp::ACK_FLAG | tcp::ECE].contains(&flags);
            assert_eq!(tcp::only_acknowledges(&segment), is_bare);
        }
    }
}

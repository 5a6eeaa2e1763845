//! Fragmentation of inner IPv4 packets that do not fit the tunnel and allow it (RFC 791 §3.2).
//!
//! RFC 7588 §3.3.1.1 wants a GRE tunnel to fragment the payload packet rather than the delivery packet
//! where the payload allows it: the receiving *host* then reassembles, the tunnel's far end need not,
//! and the loss of an outer fragment cannot take its neighbours along.
//!
//! A fragment is handed out as two pieces, a new header and a part of the original payload, so
//! that the payload is copied once, by the caller, to where it is sent from. All fragments but the
//! last carry the same amount of payload: they make a train of equal datagrams.

use crate::wire::ip::{self, IPV4_HEADER, Packet, Version, field, put_u16};

/// Fragments begin at multiples of this many bytes.
const UNIT: usize = 8;
/// The longest IPv4 header.
const MAX_HEADER: usize = 60;
/// The longest packet that can be put together again, header excluded.
const MAX_REASSEMBLED: usize = 65_535 - IPV4_HEADER;

const OPTION_END: u8 = 0;
const OPTION_NOP: u8 = 1;
/// "Copied into all fragments" (RFC 791 §3.1).
const OPTION_COPIED: u8 = 0x80;

/// Why a packet was not fragmented.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FragmentError {
    /// IPv6, or IPv4 with DF: its sender wants "too big" (see [`crate::wire::icmp`]).
    #[error("the packet must not be fragmented")]
    DontFragment,
    /// The header checksum or the options are wrong. New headers would hide that.
    #[error("the packet's header is corrupt")]
    Corrupt,
    /// The packet is itself a fragment that lies beyond the longest packet there can be.
    #[error("the fragment lies beyond 65,535 bytes")]
    BeyondEnd,
    /// Header and eight bytes do not fit.
    #[error("the MTU has no room for a header and eight bytes")]
    MtuTooSmall,
}

/// Cuts `packet` into fragments of at most `mtu` bytes and hands each, in order, to `emit` as header
/// and payload. Returns how many there were; a packet that fits is emitted as it is.
///
/// # Errors
/// See [`FragmentError`]; nothing has been emitted then.
pub fn fragment(
    packet: &Packet<'_>,
    mtu: usize,
    mut emit: impl FnMut(&[u8], &[u8]),
) -> Result<usize, FragmentError> {
    if packet.total_len() <= mtu {
        emit(packet.header(), packet.payload());
        return Ok(1);
    }
    let plan = Plan::new(packet, mtu)?;
    let payload = packet.payload();
    let (first, rest) = payload.split_at(plan.step);

    let mut header = [0; MAX_HEADER];
    let header = &mut header[..packet.header_len()];
    header.copy_from_slice(packet.header());
    set_place(header, first.len(), plan.flags | field::v4::MF);
    emit(header, first);

    let mut header = later_header(packet.header());
    let header = &mut header.0[..header.1];
    let mut count = 1;
    for piece in rest.chunks(plan.step) {
        let offset = plan.flags + (count * plan.step / UNIT) as u16;
        count += 1;
        let is_last = count == plan.count;
        // The last piece of a fragment that was not the last one is not the last one either.
        let more = if is_last { plan.more } else { field::v4::MF };
        set_place(header, piece.len(), offset | more);
        emit(header, piece);
    }
    Ok(count)
}

/// The length of the longest fragment that [`fragment`] would emit, in bytes: what a train of them
/// has to be sized for.
#[must_use]
pub fn longest(packet: &Packet<'_>, mtu: usize) -> usize {
    if packet.total_len() <= mtu {
        return packet.total_len();
    }
    let step = mtu.saturating_sub(packet.header_len()) / UNIT * UNIT;
    packet.header_len() + step
}

/// What is decided before the first fragment is written.
struct Plan {
    /// Payload bytes in each fragment but the last.
    step: usize,
    /// Number of fragments, at least 2.
    count: usize,
    /// Reserved bit and fragment offset of the original.
    flags: u16,
    /// The original's MF bit.
    more: u16,
}

impl Plan {
    fn new(packet: &Packet<'_>, mtu: usize) -> Result<Self, FragmentError> {
        if packet.version() == Version::V6 || packet.dont_fragment() {
            return Err(FragmentError::DontFragment);
        }
        if !packet.header_is_intact() || !options_are_sane(&packet.header()[IPV4_HEADER..]) {
            return Err(FragmentError::Corrupt);
        }
        let step = mtu.saturating_sub(packet.header_len()) / UNIT * UNIT;
        if step == 0 {
            return Err(FragmentError::MtuTooSmall);
        }
        let flags = packet.flags_offset() & !field::v4::MF;
        let offset = usize::from(flags & field::v4::OFFSET) * UNIT;
        let payload_len = packet.payload().len();
        if offset + payload_len > MAX_REASSEMBLED {
            return Err(FragmentError::BeyondEnd);
        }
        Ok(Self {
            step,
            count: payload_len.div_ceil(step),
            flags,
            more: packet.flags_offset() & field::v4::MF,
        })
    }
}

/// Writes what differs from fragment to fragment: total length, flags and offset, checksum.
fn set_place(header: &mut [u8], payload_len: usize, flags_offset: u16) {
    let total_len = header.len() + payload_len;
    put_u16(header, field::v4::TOTAL_LENGTH.start, total_len as u16);
    put_u16(header, field::v4::FLAGS_OFFSET.start, flags_offset);
    ip::seal_v4_header(header);
}

/// The header of the fragments after the first: options with the copied flag only, padded to a
/// multiple of four bytes.
fn later_header(header: &[u8]) -> ([u8; MAX_HEADER], usize) {
    let mut later = [OPTION_END; MAX_HEADER];
    later[..IPV4_HEADER].copy_from_slice(&header[..IPV4_HEADER]);
    let mut length = IPV4_HEADER;
    for option in Options(&header[IPV4_HEADER..]).flatten() {
        if option[0] & OPTION_COPIED != 0 {
            later[length..length + option.len()].copy_from_slice(option);
            length += option.len();
        }
    }
    let length = length.next_multiple_of(4);
    later[field::v4::VERSION_IHL] = 0x40 | (length / 4) as u8;
    (later, length)
}

fn options_are_sane(options: &[u8]) -> bool {
    Options(options).all(|option| option.is_some())
}

/// The options one by one, without padding; a `None` ends them where a length is impossible.
struct Options<'a>(&'a [u8]);

impl<'a> Iterator for Options<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        while let [OPTION_NOP, rest @ ..] = self.0 {
            self.0 = rest;
        }
        let length = match self.0 {
            [] | [OPTION_END, ..] => return None,
            [_, length, ..] => usize::from(*length),
            [_] => 0,
        };
        if length < 2 || length > self.0.len() {
            self.0 = &[];
            return Some(None);
        }
        let (option, rest) = self.0.split_at(length);
        self.0 = rest;
        Some(Some(option))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packet(options: &[u8], flags_offset: u16, payload: &[u8]) -> Vec<u8> {
        let header_len = IPV4_HEADER + options.len();
        let mut bytes = vec![0x40 | (header_len / 4) as u8, 3, 0, 0, 0xab, 0xcd, 0, 0];
        bytes.extend([64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        bytes.extend(options);
        bytes.extend(payload);
        set_place(&mut bytes[..header_len], payload.len(), flags_offset);
        bytes
    }

    fn cut(bytes: &[u8], mtu: usize) -> Result<Vec<Vec<u8>>, FragmentError> {
        let mut fragments = Vec::new();
        let packet = Packet::parse(bytes).unwrap();
        let count = fragment(&packet, mtu, |header, payload| {
            fragments.push([header, payload].concat());
        })?;
        assert_eq!(count, fragments.len());
        Ok(fragments)
    }

    /// What the receiving host does; fragments in any order.
    fn reassemble(fragments: &[Vec<u8>]) -> (Vec<u8>, bool) {
        let mut payload = Vec::new();
        let mut more = true;
        for bytes in fragments {
            let packet = Packet::parse(bytes).unwrap();
            assert!(packet.header_is_intact());
            assert_eq!(packet.id(), Some(0xabcd));
            let place = packet.transport().unwrap().fragment.unwrap();
            let end = place.offset + packet.payload().len();
            payload.resize(payload.len().max(end), 0);
            payload[place.offset..end].copy_from_slice(packet.payload());
            more &= place.more;
        }
        (payload, more)
    }

    #[test]
    fn what_fits_passes_untouched_even_with_df() {
        let bytes = packet(&[], 0x4000, &[1; 100]);
        assert_eq!(cut(&bytes, 120).unwrap(), [bytes]);
    }

    #[test]
    fn df_and_ipv6_are_refused() {
        let bytes = packet(&[], 0x4000, &[1; 100]);
        assert_eq!(cut(&bytes, 119), Err(FragmentError::DontFragment));
        let mut bytes = vec![0x60, 0, 0, 0, 0, 100, 17, 64];
        bytes.resize(140, 1);
        assert_eq!(cut(&bytes, 119), Err(FragmentError::DontFragment));
    }

    #[test]
    fn a_corrupt_header_gets_no_good_checksum() {
        let mut bytes = packet(&[], 0, &[1; 100]);
        bytes[8] ^= 1;
        assert_eq!(cut(&bytes, 60), Err(FragmentError::Corrupt));
        let bytes = packet(&[0x83, 9, 0, 0], 0, &[1; 100]);
        assert_eq!(cut(&bytes, 60), Err(FragmentError::Corrupt));
    }

    #[test]
    fn an_mtu_below_header_and_eight_bytes_is_refused() {
        let bytes = packet(&[], 0, &[1; 100]);
        assert_eq!(cut(&bytes, 27), Err(FragmentError::MtuTooSmall));
        assert_eq!(cut(&bytes, 28).unwrap().len(), 13);
    }

    #[test]
    fn a_fragment_beyond_the_longest_packet_is_refused() {
        let bytes = packet(&[], 0x1ff0, &[1; 200]);
        assert_eq!(cut(&bytes, 60), Err(FragmentError::BeyondEnd));
    }

    #[test]
    fn only_options_with_the_copied_flag_go_into_later_fragments() {
        // NOP, record route (not copied, 7 bytes), router alert (copied, 4 bytes).
        let options = [1, 7, 7, 4, 0, 0, 0, 0, 0x94, 4, 0, 0];
        let fragments = cut(&packet(&options, 0, &[1; 100]), 72).unwrap();
        assert_eq!(fragments[0][20..32], options);
        assert_eq!(fragments[1][0], 0x46);
        assert_eq!(fragments[1][20..24], [0x94, 4, 0, 0]);
    }

    proptest! {
        #[test]
        fn fragments_reassemble_to_the_original(
            payload in proptest::collection::vec(any::<u8>(), 1500..5000),
            mtu in 80usize..1500,
            again in 80usize..1500,
            options in prop::sample::select(vec![vec![], vec![0x94, 4, 0, 0], vec![7, 3, 4, 1]]),
        ) {
            let bytes = packet(&options, 0, &payload);
            let mut fragments = Vec::new();
            for once in cut(&bytes, mtu).unwrap() {
                prop_assert!(once.len() <= mtu);
                prop_assert!(once.len() <= longest(&Packet::parse(&bytes).unwrap(), mtu));
                fragments.extend(cut(&once, again).unwrap());
            }
            prop_assert!(fragments.iter().all(|fragment| fragment.len() <= mtu.min(again)));
            prop_assert_eq!(reassemble(&fragments), (payload, false));
        }

        #[test]
        fn random_packets_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 60..200), words in 5u8..16, mtu in 0usize..200) {
            bytes[0] = 0x40 | words;
            bytes[6] &= 0x3f;
            let length = bytes.len() as u16;
            put_u16(&mut bytes, 2, length);
            ip::seal_v4_header(&mut bytes[..usize::from(words) * 4]);
            let _ = cut(&bytes, mtu);
        }
    }
}

//! The internet checksum (RFC 1071), its pseudo headers, and its update in place (RFC 1624).
//!
//! A [`Sum`] is a one's complement sum that has not been folded yet. Bytes are added in the machine's
//! own order, 32 bits at a time into 64-bit lanes: RFC 1071 §2 shows that the sum does not depend on
//! the byte order (B) nor on the width in which it is added (C), as long as the result is stored
//! the way it was read. Values that the caller has as numbers are turned to network order first.
//!
//! [`Sum::copy`] copies while it sums: a segment's payload has to be moved into its train in any
//! case, and summing it costs little while its bytes are in the first cache.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Add;

/// How much is copied before it is summed: a part of the first cache, and even.
const TILE: usize = 4096;

/// A one's complement sum under way; not folded, not complemented.
///
/// Holds 2³² words of 32 bits before it could overflow, far beyond any packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[must_use]
pub struct Sum(u64);

impl Sum {
    /// The sum of nothing.
    pub const ZERO: Self = Self(0);

    /// The sum of `bytes`. An odd last byte is padded with a zero (RFC 1071 §4.1).
    #[inline]
    pub fn of(bytes: &[u8]) -> Self {
        // One plain loop over two lanes that need no carry: compilers turn it into wide registers, unless each sum
        // is checked. No lane can wrap: that takes 32 GiB.
        let (words, rest) = bytes.as_chunks::<8>();
        let mut lanes = [0_u64; 2];
        for word in words {
            let word = u64::from_ne_bytes(*word);
            lanes[0] = lanes[0].wrapping_add(word & 0xffff_ffff);
            lanes[1] = lanes[1].wrapping_add(word >> 32);
        }
        let mut sum = lanes[0] + lanes[1];
        let (words, rest) = rest.as_chunks::<4>();
        for word in words {
            sum += u64::from(u32::from_ne_bytes(*word));
        }
        let (words, rest) = rest.as_chunks::<2>();
        for word in words {
            sum += u64::from(u16::from_ne_bytes(*word));
        }
        if let [last] = rest {
            sum += u64::from(u16::from_ne_bytes([*last, 0]));
        }
        Self(sum)
    }

    /// Copies `from` to the front of `to` and returns the sum of what was copied.
    ///
    /// # Panics
    /// When `to` is shorter than `from`.
    #[inline]
    pub fn copy(from: &[u8], to: &mut [u8]) -> Self {
        let mut sum = Self::ZERO;
        for (from, to) in from.chunks(TILE).zip(to[..from.len()].chunks_mut(TILE)) {
            to.copy_from_slice(from);
            sum = sum + Self::of(from);
        }
        sum
    }

    /// Adds one 16-bit value.
    #[inline]
    pub const fn word(self, value: u16) -> Self {
        Self(self.0 + value.to_be() as u64)
    }

    /// Adds one 32-bit value.
    #[inline]
    pub const fn long(self, value: u32) -> Self {
        Self(self.0 + value.to_be() as u64)
    }

    /// The sum folded to 16 bits, not complemented. This is what a partial checksum
    /// (VIRTIO_NET_HDR_F_NEEDS_CSUM) holds of the pseudo header.
    #[inline]
    #[must_use]
    pub const fn folded(self) -> u16 {
        let sum = (self.0 & 0xffff_ffff) + (self.0 >> 32);
        let sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        u16::from_be(sum as u16)
    }

    /// The checksum: the complement of the folded sum, to be stored in network order.
    #[inline]
    #[must_use]
    pub const fn checksum(self) -> u16 {
        !self.folded()
    }

    /// The checksum as UDP stores it: zero means "none" there, so that a sum which comes to zero
    /// is sent as 0xFFFF (RFC 768).
    #[inline]
    #[must_use]
    pub const fn udp_checksum(self) -> u16 {
        match self.checksum() {
            0 => 0xffff,
            checksum => checksum,
        }
    }

    /// Whether this sum, taken over data and their checksum, says that they are intact
    /// (RFC 1071 §1: "if the result is all 1 bits").
    #[inline]
    #[must_use]
    pub const fn is_intact(self) -> bool {
        self.folded() == 0xffff
    }
}

/// Joins the sums of two pieces. The second piece must begin at an even distance from the first.
impl Add for Sum {
    type Output = Self;

    #[inline]
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

/// The pseudo header of TCP (RFC 9293 §3.1) and UDP (RFC 768) over IPv4.
///
/// `length` is that of the transport header and its data, in bytes.
#[inline]
pub fn pseudo_v4(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, length: u16) -> Sum {
    let addresses = Sum::of(&source.octets()) + Sum::of(&destination.octets());
    addresses.word(u16::from(protocol)).word(length)
}

/// The pseudo header of IPv6 (RFC 8200 §8.1).
///
/// `length` is that of the upper-layer header and its data, in bytes.
#[inline]
pub fn pseudo_v6(source: Ipv6Addr, destination: Ipv6Addr, protocol: u8, length: u32) -> Sum {
    let addresses = Sum::of(&source.octets()) + Sum::of(&destination.octets());
    addresses.word(u16::from(protocol)).long(length)
}

/// A checksum after one of the 16-bit words under it changed from `old` to `new`.
///
/// RFC 1624 equation 3: HC' = ~(~HC + ~m + m'). A checksum that was wrong stays wrong.
#[inline]
#[must_use]
pub const fn updated(checksum: u16, old: u16, new: u16) -> u16 {
    let sum = !checksum as u32 + !old as u32 + new as u32;
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 1071 word by word, as slowly as it reads.
    fn naive(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            let low = pair.get(1).copied().unwrap_or(0);
            sum += u32::from(u16::from_be_bytes([pair[0], low]));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    #[test]
    fn the_example_of_rfc_1071() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::of(&bytes).folded(), 0xddf2);
        assert_eq!(Sum::of(&bytes).checksum(), !0xddf2);
    }

    #[test]
    fn the_example_of_rfc_1624() {
        // §4: the sum was 0xDD2F, a word changes from 0x5555 to 0x3285, the result is 0x0000.
        assert_eq!(updated(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn udp_never_sends_a_zero_checksum() {
        assert_eq!(Sum::of(&[0xff, 0xff]).checksum(), 0);
        assert_eq!(Sum::of(&[0xff, 0xff]).udp_checksum(), 0xffff);
    }

    #[test]
    fn a_maximal_sum_folds_without_loss() {
        let ones = vec![0xff; 65_535];
        assert_eq!(Sum::of(&ones).checksum(), naive(&ones));
        assert_eq!(Sum(u64::MAX).folded(), 0xffff);
    }

    #[test]
    fn pseudo_headers_are_the_sum_of_their_bytes() {
        let (a, b) = (Ipv4Addr::new(10, 1, 2, 3), Ipv4Addr::new(192, 168, 255, 9));
        let bytes = [10, 1, 2, 3, 192, 168, 255, 9, 0, 6, 0x12, 0x34];
        assert_eq!(
            pseudo_v4(a, b, 6, 0x1234).folded(),
            Sum::of(&bytes).folded()
        );

        let (a, b) = (Ipv6Addr::LOCALHOST, Ipv6Addr::from([0xfe; 16]));
        let mut bytes = [a.octets(), b.octets()].concat();
        bytes.extend([0, 1, 2, 3, 0, 0, 0, 17]);
        assert_eq!(
            pseudo_v6(a, b, 17, 0x0001_0203).folded(),
            Sum::of(&bytes).folded()
        );
    }

    proptest! {
        #[test]
        fn equals_the_naive_sum(bytes: Vec<u8>, long in proptest::collection::vec(any::<u8>(), 0..3000)) {
            prop_assert_eq!(Sum::of(&bytes).checksum(), naive(&bytes));
            prop_assert_eq!(Sum::of(&long).checksum(), naive(&long));
        }

        #[test]
        fn copying_sums_and_copies(bytes in proptest::collection::vec(any::<u8>(), 0..3000), room in 0usize..9) {
            let mut to = vec![0xaa; bytes.len() + room];
            let sum = Sum::copy(&bytes, &mut to);
            prop_assert_eq!(sum.checksum(), naive(&bytes));
            prop_assert_eq!(&to[..bytes.len()], &bytes[..]);
            prop_assert!(to[bytes.len()..].iter().all(|&byte| byte == 0xaa));
        }

        #[test]
        fn pieces_at_even_offsets_add_up(bytes: Vec<u8>, at in any::<prop::sample::Index>()) {
            let at = at.index(bytes.len() + 1) & !1;
            let (front, back) = bytes.split_at(at);
            prop_assert_eq!((Sum::of(front) + Sum::of(back)).checksum(), naive(&bytes));
        }

        #[test]
        fn data_with_their_checksum_are_intact(mut bytes in proptest::collection::vec(any::<u8>(), 2..200)) {
            bytes[..2].fill(0);
            let checksum = Sum::of(&bytes).checksum();
            bytes[..2].copy_from_slice(&checksum.to_be_bytes());
            prop_assert!(Sum::of(&bytes).is_intact());
        }

        #[test]
        fn an_update_equals_a_new_sum(mut words in proptest::collection::vec(any::<u8>(), 20), new: u16) {
            words[0] = 0x45; // An IP header is never all zero, where RFC 1624 and a new sum would differ.
            let old = u16::from_be_bytes([words[2], words[3]]);
            let before = Sum::of(&words).checksum();
            words[2..4].copy_from_slice(&new.to_be_bytes());
            prop_assert_eq!(updated(before, old, new), Sum::of(&words).checksum());
        }
    }
}

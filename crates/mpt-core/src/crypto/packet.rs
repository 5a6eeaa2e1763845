//! Sealed packets: data and control messages that only the peer can have sent, and only once.
//!
//! # Data
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |0|0|1|1|       0         |  0  |     Protocol Type 0x88B6      |
//! |               Key: index of the receiver's session          |U|
//! |    Sequence Number: low 32 bits of the packet's number        |
//! +---------------------------------------------------------------+
//! | inner Protocol Type, encrypted| inner packet, encrypted …     |
//! | authentication tag, 16 bytes                                  |
//! ```
//!
//! The 12 bytes of GRE are the associated data. Packets have numbers of 64 bits, one space for the
//! tunnel as ever, dense, going on when a session replaces another; the receiver restores the upper
//! half, [`restore`]. The sequence number stays in clear, so that reordering needs no key and happens
//! as it does without sealing. Overhead: 12 bytes of GRE, 2 of Protocol Type, 16 of tag, [`DATA_OVERHEAD`].
//!
//! A packet that is not to be put in order must not take a number of that space, or the reorder window
//! would see a gap. Such packets have numbers of their own, from 0 in each session; the lowest bit
//! of the key, U, tells them from the others, and an index has it clear.
//!
//! # Control messages
//!
//! Probes and reports come from the thread of the line in, data from the thread of the line out. They
//! have a third space, so that the threads share no counter, and no Sequence Number, by which a receiver
//! tells them from data:
//!
//! ```text
//! |0|0|1|0|       0         |  0  |     Protocol Type 0x88B6      |
//! |               Key: index of the receiver's session          |0|
//! | path from     | path to       | number of the control message |
//! |                           …, 48 bits                          |
//! +---------------------------------------------------------------+
//! | control message, encrypted …                                  |
//! | authentication tag, 16 bytes                                  |
//! ```
//!
//! Here the associated data are the 8 bytes of GRE and the 8 behind them: the [`Route`] that the message was
//! made for, which paths of its sender and of its receiver, and its number on that path of the sender's.
//! So somebody who has one path in his hand can pass its messages for no other's, and cannot use up the
//! numbers of others by holding back his own.
//!
//! # Nonces
//!
//! The nonce of 12 bytes is: 4 bytes that say which space, 0 data in order, 1 control, 2 data without
//! order, and the number in 8, in network byte order; of a control message, the 8 bytes of route and number. Each direction has a key of its own, so no nonce
//! occurs twice with a key as long as a number stands for one packet. A packet that is sent again, or over
//! several paths, has one number and must be the same, bit for bit: then it is sealed into the same bytes
//! under the same key, and into others under the key of a later session, and neither tells anything.

use super::aead::TAG_BYTES;
use crate::path::MAX_PATHS;
use crate::seq::Seq;
use crate::wire::gre::Protocol;

/// Bytes before the inner packet: GRE and the inner Protocol Type.
pub const DATA_HEAD_BYTES: usize = DATA_GRE_BYTES + 2;
/// What sealing adds to an inner packet, GRE included, in bytes: 22 more than without.
pub const DATA_OVERHEAD: usize = DATA_HEAD_BYTES + TAG_BYTES;
/// Bytes before a control message: GRE and its number.
pub const CONTROL_HEAD_BYTES: usize = 16;
/// What sealing adds to a control message, GRE included, in bytes.
pub const CONTROL_OVERHEAD: usize = CONTROL_HEAD_BYTES + TAG_BYTES;

pub(super) const DATA_GRE_BYTES: usize = 12;
/// K, S, version 0, Protocol Type 0x88B6.
pub(super) const DATA_GRE: [u8; 4] = [0x30, 0x00, 0x88, 0xb6];
/// K, version 0, Protocol Type 0x88B6.
pub(super) const CONTROL_GRE: [u8; 4] = [0x20, 0x00, 0x88, 0xb6];
/// The bit of the key that says "without order".
pub(super) const UNORDERED: u32 = 1;

/// Instead of a path's index: not known.
const NO_PATH: u8 = 0xff;
/// Control messages have numbers below this on each path.
pub(super) const CONTROL_NUMBERS: u64 = 1 << 48;

/// Which way a control message was made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The path, by its sender's index: below [`MAX_PATHS`].
    pub from: u8,
    /// The path, by its receiver's index, if its sender knows.
    pub to: Option<u8>,
}

impl Route {
    /// The 8 bytes that stand behind the GRE header.
    pub(super) fn with_number(self, number: u64) -> [u8; 8] {
        let mut bytes = number.to_be_bytes();
        bytes[0] = self.from;
        bytes[1] = self.to.unwrap_or(NO_PATH);
        bytes
    }

    /// Route and number. `None` for a path that no tunnel has.
    fn parse([from, to, number @ ..]: [u8; 8]) -> Option<(Route, u64)> {
        let is_path = |path: u8| usize::from(path) < MAX_PATHS;
        let to = (to != NO_PATH).then_some(to);
        let number = number
            .into_iter()
            .fold(0, |number, byte| number << 8 | u64::from(byte));
        let is_route = is_path(from) && to.is_none_or(is_path);
        is_route.then_some((Route { from, to }, number))
    }
}

/// The way that a control message says it was made for: nobody has vouched for it yet. `None` for
/// anything else.
#[must_use]
#[inline]
pub fn claimed_route(datagram: &[u8]) -> Option<Route> {
    match SealedHeader::parse(datagram)?.number {
        Number::Control(route, _) => Some(route),
        Number::Ordered(_) | Number::Unordered(_) => None,
    }
}

/// Which session of the receiver's a sealed packet says that it is of: nobody has vouched for it yet. `None` for
/// anything else.
#[must_use]
#[inline]
pub fn claimed_index(datagram: &[u8]) -> Option<u32> {
    SealedHeader::parse(datagram).map(|header| header.index)
}

/// Which numbers a data packet's number is one of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Space {
    Ordered,
    Unordered,
}

/// Lays a data packet out for [`super::DataSealer::seal`]: writes what stands before it, and says under
/// which sequence number it is to be put in order, if it is.
///
/// # Panics
/// When `head` has not [`DATA_HEAD_BYTES`] bytes.
#[inline]
pub fn lay_out(sequence: Option<Seq>, protocol: Protocol, head: &mut [u8]) {
    let key = if sequence.is_some() { 0 } else { UNORDERED };
    head[..4].copy_from_slice(&DATA_GRE);
    head[4..8].copy_from_slice(&key.to_be_bytes());
    head[8..12].copy_from_slice(&sequence.map_or(0, Seq::value).to_be_bytes());
    head[12..14].copy_from_slice(&protocol.ethertype().to_be_bytes());
}

/// A sealed packet's header, not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SealedHeader {
    pub(super) index: u32,
    pub(super) number: Number,
}

/// As much of a packet's number as its header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Number {
    Ordered(u32),
    Unordered(u32),
    Control(Route, u64),
}

impl SealedHeader {
    /// Reads the header; `None` when this is no sealed packet or too short for one.
    #[inline]
    pub(super) fn parse(datagram: &[u8]) -> Option<SealedHeader> {
        let (gre, rest) = datagram.split_first_chunk::<4>()?;
        let (key, rest) = rest.split_first_chunk()?;
        let key = u32::from_be_bytes(*key);
        let number = match *gre {
            DATA_GRE if datagram.len() >= DATA_OVERHEAD => {
                let low = u32::from_be_bytes(*rest.first_chunk()?);
                match key & UNORDERED {
                    0 => Number::Ordered(low),
                    _ => Number::Unordered(low),
                }
            }
            CONTROL_GRE if datagram.len() >= CONTROL_OVERHEAD && key & UNORDERED == 0 => {
                let (route, number) = Route::parse(*rest.first_chunk()?)?;
                Number::Control(route, number)
            }
            _ => return None,
        };
        let index = key & !UNORDERED;
        Some(SealedHeader { index, number })
    }
}

/// The nonce of a packet.
#[inline]
pub(super) fn nonce(space: Space, number: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[3] = match space {
        Space::Ordered => 0,
        Space::Unordered => 2,
    };
    nonce[4..].copy_from_slice(&number.to_be_bytes());
    nonce
}

/// The nonce of a control message.
pub(super) fn control_nonce(route: Route, number: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[3] = 1;
    nonce[4..].copy_from_slice(&route.with_number(number));
    nonce
}

/// The number of 64 bits with these low 32 bits that is nearest to `expected`: right for every
/// packet that is less than 2^31 away.
#[must_use]
#[inline]
pub fn restore(low: u32, expected: u64) -> u64 {
    let ahead = low.wrapping_sub(expected as u32) as i32;
    expected
        .checked_add_signed(i64::from(ahead))
        .unwrap_or(u64::from(low) | expected & !u64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_route_is_read_as_it_was_written_and_none_but_a_tunnel_s() {
        for (from, to) in [(0, None), (15, Some(0)), (3, Some(15))] {
            let route = Route { from, to };
            let bytes = route.with_number(CONTROL_NUMBERS - 1);
            assert_eq!(Route::parse(bytes), Some((route, CONTROL_NUMBERS - 1)));
        }
        for bytes in [[16, 0], [0xff, 0], [0, 16], [0, 0xfe]] {
            let [from, to] = bytes;
            assert_eq!(Route::parse([from, to, 0, 0, 0, 0, 0, 1]), None);
        }
    }

    #[test]
    fn a_message_without_order_is_none() {
        let mut datagram = [0; CONTROL_OVERHEAD];
        datagram[..4].copy_from_slice(&CONTROL_GRE);
        assert!(SealedHeader::parse(&datagram).is_some());
        datagram[7] = 1;
        assert!(SealedHeader::parse(&datagram).is_none());
    }

    proptest! {
        #[test]
        fn a_header_is_read_as_it_was_laid_out(sequence: Option<u32>, v6: bool) {
            let protocol = if v6 { Protocol::Ipv6 } else { Protocol::Ipv4 };
            let mut datagram = [0; DATA_OVERHEAD];
            lay_out(sequence.map(Seq::new), protocol, &mut datagram);
            let number = match sequence {
                Some(low) => Number::Ordered(low),
                None => Number::Unordered(0),
            };
            prop_assert_eq!(
                SealedHeader::parse(&datagram),
                Some(SealedHeader { index: 0, number })
            );
        }

        #[test]
        fn a_number_is_restored(expected: u64, distance: i32) {
            if let Some(number) = expected.checked_add_signed(distance.into()) {
                prop_assert_eq!(restore(number as u32, expected), number);
            }
            prop_assert_eq!(restore(expected as u32 ^ 0xffff, expected) as u32, expected as u32 ^ 0xffff);
        }
    }
}

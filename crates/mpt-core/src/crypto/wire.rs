//! The three handshake messages, in network byte order, behind a GRE header without key and sequence
//! number whose Protocol Type is [`crate::wire::gre::CONTROL_ETHERTYPE`].
//!
//! The initiation, 168 bytes:
//!
//! | bytes | field |
//! |---|---|
//! | 0 | kind, 3 |
//! | 1–3 | zero |
//! | 4–35 | initiator's ephemeral public key |
//! | 36–83 | initiator's static public key, encrypted |
//! | 84–135 | payload of 36 bytes, encrypted |
//! | 136–151 | mac1 over bytes 0–135 |
//! | 152–167 | mac2 over bytes 0–151, or zeros |
//!
//! Its payload:
//!
//! | bytes | field |
//! |---|---|
//! | 0–7 | time of the initiation: seconds since 1970, plus 2^62 |
//! | 8–11 | … and nanoseconds: as a whole greater than in any initiation before |
//! | 12–15 | the initiator's index, even and not 0: what the responder puts into K |
//! | 16–23 | the number that the initiator's next data packet will have, or one before it |
//! | 24–31 | the initiator's session: random, new at each start |
//! | 32 | 1 where the initiator has AES-256-GCM in hardware, else 0 |
//! | 33–35 | zero |
//!
//! The response, 96 bytes:
//!
//! | bytes | field |
//! |---|---|
//! | 0 | kind, 4 |
//! | 1–3 | zero |
//! | 4–7 | the initiator's index |
//! | 8–39 | responder's ephemeral public key |
//! | 40–79 | payload of 24 bytes, encrypted |
//! | 80–95 | mac1 over bytes 0–79 |
//!
//! Its payload is the last 24 bytes of the initiation's, told by the responder.
//!
//! The cookie reply, 60 bytes:
//!
//! | bytes | field |
//! |---|---|
//! | 0 | kind, 5 |
//! | 1–3 | zero |
//! | 4–27 | random |
//! | 28–59 | cookie of 16 bytes, encrypted |
//!
//! Each has exactly its length: padding would let a flood pass for less than it is. No answer is
//! longer than what it answers, so nobody can be flooded through a tunnel's end.

use std::time::Duration;

use super::mac::{COOKIE_NONCE_BYTES, MAC_BYTES, SEALED_COOKIE_BYTES, Tag};
use super::noise::{FIRST_BYTES, SECOND_BYTES};
use super::packet::UNORDERED;
use crate::wire::ip::u32_at;
use crate::wire::kind::Kind;

/// Length of an initiation without its GRE header, in bytes.
pub const INITIATION_BYTES: usize = 4 + FIRST_BYTES + OFFER_BYTES + 2 * MAC_BYTES;
/// Length of a response without its GRE header, in bytes.
pub const RESPONSE_BYTES: usize = 8 + SECOND_BYTES + ACCEPT_BYTES + MAC_BYTES;
/// Length of a cookie reply without its GRE header, in bytes.
pub const COOKIE_REPLY_BYTES: usize = 4 + COOKIE_NONCE_BYTES + SEALED_COOKIE_BYTES;

const OFFER_BYTES: usize = 36;
const ACCEPT_BYTES: usize = 24;
const INITIATION_NOISE: std::ops::Range<usize> = 4..INITIATION_BYTES - 2 * MAC_BYTES;
const INITIATION_MAC1: usize = INITIATION_BYTES - 2 * MAC_BYTES;
const INITIATION_MAC2: usize = INITIATION_BYTES - MAC_BYTES;
const RESPONSE_NOISE: std::ops::Range<usize> = 8..RESPONSE_BYTES - MAC_BYTES;
const RESPONSE_MAC1: usize = RESPONSE_BYTES - MAC_BYTES;
/// TAI64's origin (D. J. Bernstein): seconds since 1970 are counted from here.
const TAI64_EPOCH: u64 = 1 << 62;

/// A handshake message as it was received, its parts apart and none of them believed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Message<'a> {
    Initiation(Initiation<'a>),
    Response(Response<'a>),
    CookieReply {
        nonce: &'a [u8; COOKIE_NONCE_BYTES],
        sealed: &'a [u8; SEALED_COOKIE_BYTES],
    },
}

/// An initiation as it was received.
#[derive(Debug, Clone, Copy)]
pub(super) struct Initiation<'a>(&'a [u8; INITIATION_BYTES]);

/// A response as it was received.
#[derive(Debug, Clone, Copy)]
pub(super) struct Response<'a>(&'a [u8; RESPONSE_BYTES]);

impl<'a> Message<'a> {
    /// Takes a message apart; `None` when it is none of the three.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Message<'a>> {
        let [_, 0, 0, 0, rest @ ..] = bytes else {
            return None;
        };
        match Kind::of(bytes).ok()? {
            Kind::Initiation => Some(Message::Initiation(Initiation(bytes.try_into().ok()?))),
            Kind::Response => Some(Message::Response(Response(bytes.try_into().ok()?))),
            Kind::CookieReply => {
                let (nonce, sealed) = rest.split_first_chunk()?;
                let sealed = sealed.try_into().ok()?;
                Some(Message::CookieReply { nonce, sealed })
            }
            Kind::Probe | Kind::Report | Kind::Edges => None,
        }
    }
}

impl<'a> Initiation<'a> {
    pub(super) fn noise(self) -> &'a [u8] {
        &self.0[INITIATION_NOISE]
    }

    /// What mac1 is over, and mac1.
    pub(super) fn mac1(self) -> (&'a [u8], &'a [u8]) {
        (
            &self.0[..INITIATION_MAC1],
            &self.0[INITIATION_MAC1..INITIATION_MAC2],
        )
    }

    /// What mac2 is over, and mac2, when there is one.
    pub(super) fn mac2(self) -> Option<(&'a [u8], &'a [u8])> {
        let (over, mac2) = self.0.split_at(INITIATION_MAC2);
        (*mac2 != [0; MAC_BYTES]).then_some((over, mac2))
    }
}

impl<'a> Response<'a> {
    pub(super) fn receiver(self) -> u32 {
        u32_at(self.0, 4)
    }

    pub(super) fn noise(self) -> &'a [u8] {
        &self.0[RESPONSE_NOISE]
    }

    /// What mac1 is over, and mac1.
    pub(super) fn mac1(self) -> (&'a [u8], &'a [u8]) {
        self.0.split_at(RESPONSE_MAC1)
    }
}

/// A moment of the wall clock that only grows: what tells a new initiation from a recorded one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Timestamp([u8; 12]);

impl Timestamp {
    /// The moment this long after 1970.
    pub(super) fn at(since_1970: Duration) -> Timestamp {
        let mut bytes = [0; 12];
        let seconds = TAI64_EPOCH.saturating_add(since_1970.as_secs());
        bytes[..8].copy_from_slice(&seconds.to_be_bytes());
        bytes[8..].copy_from_slice(&since_1970.subsec_nanos().to_be_bytes());
        Timestamp(bytes)
    }

    /// The least moment after this one.
    pub(super) fn next(self) -> Timestamp {
        let mut bytes = self.0;
        for byte in bytes.iter_mut().rev() {
            *byte = byte.wrapping_add(1);
            if *byte != 0 {
                break;
            }
        }
        Timestamp(bytes)
    }
}

/// The payload of an initiation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) timestamp: Timestamp,
    pub(super) end: End,
}

/// What each end says of itself, in either payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct End {
    pub(super) index: u32,
    pub(super) next_number: u64,
    pub(super) session: u64,
    pub(super) hardware_aes: bool,
}

impl Offer {
    pub(super) const EMPTY: [u8; OFFER_BYTES] = [0; OFFER_BYTES];

    pub(super) fn emit(&self) -> [u8; OFFER_BYTES] {
        let mut bytes = Self::EMPTY;
        bytes[..12].copy_from_slice(&self.timestamp.0);
        bytes[12..].copy_from_slice(&self.end.emit());
        bytes
    }

    pub(super) fn parse(bytes: &[u8; OFFER_BYTES]) -> Option<Offer> {
        let (timestamp, end) = bytes.split_first_chunk()?;
        let end = End::parse(end.try_into().ok()?)?;
        let timestamp = Timestamp(*timestamp);
        Some(Offer { timestamp, end })
    }
}

impl End {
    pub(super) const EMPTY: [u8; ACCEPT_BYTES] = [0; ACCEPT_BYTES];

    pub(super) fn emit(&self) -> [u8; ACCEPT_BYTES] {
        let mut bytes = Self::EMPTY;
        bytes[..4].copy_from_slice(&self.index.to_be_bytes());
        bytes[4..12].copy_from_slice(&self.next_number.to_be_bytes());
        bytes[12..20].copy_from_slice(&self.session.to_be_bytes());
        bytes[20] = u8::from(self.hardware_aes);
        bytes
    }

    /// `None` for an index or a session that no end has. What else is not known is for later versions.
    pub(super) fn parse(bytes: &[u8; ACCEPT_BYTES]) -> Option<End> {
        let (index, rest) = bytes.split_first_chunk()?;
        let (next_number, rest) = rest.split_first_chunk()?;
        let (session, rest) = rest.split_first_chunk()?;
        let index = u32::from_be_bytes(*index);
        let session = u64::from_be_bytes(*session);
        (is_index(index) && session != 0).then_some(End {
            index,
            next_number: u64::from_be_bytes(*next_number),
            session,
            hardware_aes: rest[0] & 1 == 1,
        })
    }
}

/// Whether this can be an end's index: not 0, and with room for the bit of packets without order.
pub(super) const fn is_index(index: u32) -> bool {
    index != 0 && index & UNORDERED == 0
}

/// Writes an initiation without its MACs, by `noise`, which gets the place of the Noise message.
pub(super) fn initiation<E>(
    noise: impl FnOnce(&mut [u8]) -> Result<E, super::noise::NotOpened>,
    mac1: impl FnOnce(&[u8]) -> Tag,
) -> Result<([u8; INITIATION_BYTES], E), super::noise::NotOpened> {
    let mut bytes = [0; INITIATION_BYTES];
    bytes[0] = Kind::Initiation as u8;
    let state = noise(&mut bytes[INITIATION_NOISE])?;
    let tag = mac1(&bytes[..INITIATION_MAC1]);
    bytes[INITIATION_MAC1..INITIATION_MAC2].copy_from_slice(&tag);
    Ok((bytes, state))
}

/// Sets mac2 of an initiation.
pub(super) fn prove(bytes: &mut [u8; INITIATION_BYTES], cookie: &Tag) {
    let tag = super::mac::mac2(cookie, &bytes[..INITIATION_MAC2]);
    bytes[INITIATION_MAC2..].copy_from_slice(&tag);
}

/// The mac1 of an initiation.
pub(super) fn mac1_of(bytes: &[u8; INITIATION_BYTES]) -> Tag {
    let mut tag = [0; MAC_BYTES];
    tag.copy_from_slice(&bytes[INITIATION_MAC1..INITIATION_MAC2]);
    tag
}

/// Writes a response.
pub(super) fn response<E>(
    receiver: u32,
    noise: impl FnOnce(&mut [u8]) -> Result<E, super::noise::NotOpened>,
    mac1: impl FnOnce(&[u8]) -> Tag,
) -> Result<([u8; RESPONSE_BYTES], E), super::noise::NotOpened> {
    let mut bytes = [0; RESPONSE_BYTES];
    bytes[0] = Kind::Response as u8;
    bytes[4..8].copy_from_slice(&receiver.to_be_bytes());
    let keys = noise(&mut bytes[RESPONSE_NOISE])?;
    let tag = mac1(&bytes[..RESPONSE_MAC1]);
    bytes[RESPONSE_MAC1..].copy_from_slice(&tag);
    Ok((bytes, keys))
}

/// Writes a cookie reply.
pub(super) fn cookie_reply(
    nonce: &[u8; COOKIE_NONCE_BYTES],
    sealed: &[u8; SEALED_COOKIE_BYTES],
) -> [u8; COOKIE_REPLY_BYTES] {
    let mut bytes = [0; COOKIE_REPLY_BYTES];
    bytes[0] = Kind::CookieReply as u8;
    bytes[4..4 + COOKIE_NONCE_BYTES].copy_from_slice(nonce);
    bytes[4 + COOKIE_NONCE_BYTES..].copy_from_slice(sealed);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn no_answer_is_longer_than_its_question() {
        assert_eq!(
            (INITIATION_BYTES, RESPONSE_BYTES, COOKIE_REPLY_BYTES),
            (168, 96, 60)
        );
    }

    #[test]
    fn timestamps_grow_as_numbers_do() {
        let at = |seconds, nanos| Timestamp::at(Duration::new(seconds, nanos));
        assert!(at(1, 999_999_999) < at(2, 0) && at(2, 0) < at(2, 1));
        assert_eq!(at(2, 0).next(), at(2, 1));
        assert!(Timestamp::default() < at(0, 0) && at(255, 0xff).next() > at(255, 0xff));
    }

    proptest! {
        #[test]
        fn payloads_survive(
            index in 1..=u32::MAX / 2,
            next_number: u64,
            session in 1..u64::MAX,
            hardware_aes: bool,
            ns: u64,
        ) {
            let end = End { index: 2 * index, next_number, session, hardware_aes };
            prop_assert_eq!(End::parse(&end.emit()), Some(end));
            let offer = Offer { timestamp: Timestamp::at(Duration::from_nanos(ns)), end };
            prop_assert_eq!(Offer::parse(&offer.emit()), Some(offer));
        }

        #[test]
        fn any_bytes_are_a_message_or_not(
            kind in 0..7u8,
            rest in prop::collection::vec(any::<u8>(), 0..200),
            zeros: bool,
        ) {
            let mut bytes = vec![kind];
            bytes.extend(zeros.then_some([0; 3]).into_iter().flatten());
            bytes.extend(rest);
            if let Some(Message::Initiation(initiation)) = Message::parse(&bytes) {
                prop_assert_eq!(bytes.len(), INITIATION_BYTES);
                prop_assert_eq!(initiation.noise().len(), 132);
            }
        }
    }
}

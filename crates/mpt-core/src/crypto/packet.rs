//! Sealed packets: data and control messages that only the peer can have sent, and only once.
//!
//! # Data
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |0|0|1|1|       0             |0|       Protocol Type 0x88B6    |
//! |            Key: index of the receiver's session               |
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
//! # Control messages
//!
//! Probes and reports must not use numbers of that space: a probe's watermark and the reorder window
//! want data numbers without holes. Nor could they: they come from the thread of the line in, data from
//! the thread of the line out. So they have a space of their own, and no Sequence Number, by which a
//! receiver tells the two apart:
//!
//! ```text
//! |0|0|1|0|       0             |0|       Protocol Type 0x88B6    |
//! |            Key: index of the receiver's session               |
//! |            number of the control message, 64 bits             |
//! |                                                               |
//! +---------------------------------------------------------------+
//! | control message, encrypted …                                  |
//! | authentication tag, 16 bytes                                  |
//! ```
//!
//! Here the associated data are the 8 bytes of GRE and the 8 of the number.
//!
//! # Nonces
//!
//! The nonce of 12 bytes is: 4 bytes that say which space, 0 data or 1 control, and the number in 8, in
//! network byte order. Each direction has a key of its own, so no nonce occurs twice with a key as long
//! as a number stands for one packet. A lost packet that is sent again has its number again and must be
//! the same packet, bit for bit: then it is sealed into the same bytes under the same key, and into
//! others under the key of a later session, and neither tells anything.

use std::ops::Range;

use super::aead::{AeadKey, Cipher, TAG_BYTES};
use super::keys::KEY_BYTES;
use super::replay::ReplayWindow;
use crate::gre::Protocol;

/// Bytes before the inner packet: GRE and the inner Protocol Type.
pub const DATA_HEAD_BYTES: usize = DATA_GRE_BYTES + 2;
/// What sealing adds to an inner packet, GRE included, in bytes: 22 more than without.
pub const DATA_OVERHEAD: usize = DATA_HEAD_BYTES + TAG_BYTES;
/// Bytes before a control message: GRE and its number.
pub const CONTROL_HEAD_BYTES: usize = 16;
/// What sealing adds to a control message, GRE included, in bytes.
pub const CONTROL_OVERHEAD: usize = CONTROL_HEAD_BYTES + TAG_BYTES;

const DATA_GRE_BYTES: usize = 12;
/// K, S, version 0, Protocol Type 0x88B6.
const DATA_GRE: [u8; 4] = [0x30, 0x00, 0x88, 0xb6];
/// K, version 0, Protocol Type 0x88B6.
const CONTROL_GRE: [u8; 4] = [0x20, 0x00, 0x88, 0xb6];

/// Packets of a session after which it must be replaced.
pub(super) const REKEY_AFTER_PACKETS: u64 = 1 << 60;
/// Packets of a session after which nothing more is sealed.
pub(super) const REJECT_AFTER_PACKETS: u64 = 1 << 61;

/// How far behind the highest a data packet's number may be.
pub const DATA_WINDOW: u64 = DataWindow::WINDOW;
type DataWindow = ReplayWindow<1025>;
/// 1,024 control messages.
type ControlWindow = ReplayWindow<17>;

/// Which numbers a packet's number is one of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Space {
    Data,
    Control,
}

/// Why a packet was not sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The session has sealed as many packets as it may; a new one was due long ago.
    #[error("the session has sealed as many packets as a session may")]
    Exhausted,
    /// There is no room for header and tag.
    #[error("there is no room for header and tag")]
    NoRoom,
}

/// Why a packet was not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// It is not laid out as a sealed packet.
    #[error("not a sealed packet")]
    Malformed,
    /// No session has its index: it is old, or of before a restart.
    #[error("a packet of no known session")]
    UnknownSession,
    /// Its number was received before, or so long ago that nobody remembers.
    #[error("a packet number that was received before")]
    Replayed,
    /// It was not sealed by the peer, or was changed on the way.
    #[error("a packet that the peer did not seal")]
    Forged,
    /// The peer sealed something that is neither IPv4 nor IPv6.
    #[error("a sealed packet of unknown protocol")]
    Protocol,
}

/// What a sealed packet carried. Ranges are of the datagram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opened {
    /// A packet for the TUN.
    Data {
        /// The session that it came in; later ones have greater numbers.
        session: u64,
        /// The packet's number; its low 32 bits are the sequence number.
        number: u64,
        /// What the inner packet is.
        protocol: Protocol,
        /// Where it stands.
        packet: Range<usize>,
    },
    /// A control message.
    Control {
        /// The session that it came in; later ones have greater numbers.
        session: u64,
        /// Its number. Within a session, messages with greater numbers were sent later.
        number: u64,
        /// Where it stands.
        message: Range<usize>,
    },
}

/// Seals data packets of one session: what the line out has of it.
pub struct DataSealer {
    key: AeadKey,
    index: [u8; 4],
    cipher: Cipher,
    /// The first number of the session, give or take what was on its way then.
    first: u64,
}

impl DataSealer {
    pub(super) fn new(cipher: Cipher, key: &[u8; KEY_BYTES], index: u32, first: u64) -> DataSealer {
        DataSealer {
            key: AeadKey::new(cipher, key),
            index: index.to_be_bytes(),
            cipher,
            first,
        }
    }

    /// The cipher that was agreed.
    #[must_use]
    pub fn cipher(&self) -> Cipher {
        self.cipher
    }

    /// Seals in place. `datagram` has the inner packet at [`DATA_HEAD_BYTES`] and 16 bytes of room
    /// behind it; the header is written here. A number stands for one packet: never seal another
    /// one under it.
    ///
    /// # Errors
    /// When the session is used up, or there is less room; then nothing may be sent.
    #[inline]
    pub fn seal(
        &self,
        number: u64,
        protocol: Protocol,
        datagram: &mut [u8],
    ) -> Result<(), SealError> {
        if number.saturating_sub(self.first) >= REJECT_AFTER_PACKETS {
            return Err(SealError::Exhausted);
        }
        if datagram.len() < DATA_OVERHEAD {
            return Err(SealError::NoRoom);
        }
        let (header, rest) = datagram.split_at_mut(DATA_GRE_BYTES);
        header[..4].copy_from_slice(&DATA_GRE);
        header[4..8].copy_from_slice(&self.index);
        header[8..12].copy_from_slice(&(number as u32).to_be_bytes());
        let (text, tag) = rest.split_at_mut(rest.len() - TAG_BYTES);
        text[..2].copy_from_slice(&protocol.ethertype().to_be_bytes());
        tag.copy_from_slice(&self.key.seal(nonce(Space::Data, number), header, text));
        Ok(())
    }
}

/// Seals control messages of one session: what the line in has of it.
pub(super) struct ControlSealer {
    key: AeadKey,
    index: [u8; 4],
}

impl ControlSealer {
    pub(super) fn new(cipher: Cipher, key: &[u8; KEY_BYTES], index: u32) -> ControlSealer {
        ControlSealer {
            key: AeadKey::new(cipher, key),
            index: index.to_be_bytes(),
        }
    }

    /// Writes the sealed message to `out` and returns its length; `None` when there is no room.
    pub(super) fn seal(&self, number: u64, message: &[u8], out: &mut [u8]) -> Option<usize> {
        let len = CONTROL_OVERHEAD + message.len();
        let (header, rest) = out.get_mut(..len)?.split_at_mut(CONTROL_HEAD_BYTES);
        header[..4].copy_from_slice(&CONTROL_GRE);
        header[4..8].copy_from_slice(&self.index);
        header[8..].copy_from_slice(&number.to_be_bytes());
        let (text, tag) = rest.split_at_mut(message.len());
        text.copy_from_slice(message);
        tag.copy_from_slice(&self.key.seal(nonce(Space::Control, number), header, text));
        Some(len)
    }
}

/// A sealed packet's header, not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SealedHeader {
    pub(super) index: u32,
    number: Number,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Number {
    Data(u32),
    Control(u64),
}

impl SealedHeader {
    /// Reads the header; `None` when this is no sealed packet or too short for one.
    #[inline]
    pub(super) fn parse(datagram: &[u8]) -> Option<SealedHeader> {
        let (gre, rest) = datagram.split_first_chunk::<4>()?;
        let (index, rest) = rest.split_first_chunk()?;
        let number = match *gre {
            DATA_GRE if datagram.len() >= DATA_OVERHEAD => {
                Number::Data(u32::from_be_bytes(*rest.first_chunk()?))
            }
            CONTROL_GRE if datagram.len() >= CONTROL_OVERHEAD => {
                Number::Control(u64::from_be_bytes(*rest.first_chunk()?))
            }
            _ => return None,
        };
        let index = u32::from_be_bytes(*index);
        Some(SealedHeader { index, number })
    }
}

/// Opens what the peer sealed for one session, each number once.
pub(super) struct Opener {
    session: u64,
    key: AeadKey,
    data: DataWindow,
    control: ControlWindow,
}

impl Opener {
    /// `next_number` is what the peer said of its data packets' numbers.
    pub(super) fn new(
        session: u64,
        cipher: Cipher,
        key: &[u8; KEY_BYTES],
        next_number: u64,
    ) -> Opener {
        Opener {
            session,
            key: AeadKey::new(cipher, key),
            data: DataWindow::new(next_number),
            control: ControlWindow::new(0),
        }
    }

    /// Opens in place. A packet that is refused has changed nothing but, when it is forged, its own
    /// bytes.
    #[inline]
    pub(super) fn open(
        &mut self,
        header: SealedHeader,
        datagram: &mut [u8],
    ) -> Result<Opened, OpenError> {
        match header.number {
            Number::Data(low) => self.open_data(low, datagram),
            Number::Control(number) => self.open_control(number, datagram),
        }
    }

    #[inline]
    fn open_data(&mut self, low: u32, datagram: &mut [u8]) -> Result<Opened, OpenError> {
        let number = restore(low, self.data.next());
        if !self.data.is_new(number) {
            return Err(OpenError::Replayed);
        }
        let (header, sealed) = datagram.split_at_mut(DATA_GRE_BYTES);
        let len = self.key.open(nonce(Space::Data, number), header, sealed);
        let len = len.ok_or(OpenError::Forged)?;
        self.data.take(number);
        let protocol = match [sealed[0], sealed[1]] {
            [0x08, 0x00] => Protocol::Ipv4,
            [0x86, 0xdd] => Protocol::Ipv6,
            _ => return Err(OpenError::Protocol),
        };
        Ok(Opened::Data {
            session: self.session,
            number,
            protocol,
            packet: DATA_HEAD_BYTES..DATA_GRE_BYTES + len,
        })
    }

    fn open_control(&mut self, number: u64, datagram: &mut [u8]) -> Result<Opened, OpenError> {
        if !self.control.is_new(number) {
            return Err(OpenError::Replayed);
        }
        let (header, sealed) = datagram.split_at_mut(CONTROL_HEAD_BYTES);
        let len = self.key.open(nonce(Space::Control, number), header, sealed);
        let len = len.ok_or(OpenError::Forged)?;
        self.control.take(number);
        Ok(Opened::Control {
            session: self.session,
            number,
            message: CONTROL_HEAD_BYTES..CONTROL_HEAD_BYTES + len,
        })
    }
}

/// The nonce of a packet.
#[inline]
fn nonce(space: Space, number: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[3] = match space {
        Space::Data => 0,
        Space::Control => 1,
    };
    nonce[4..].copy_from_slice(&number.to_be_bytes());
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

    const KEY: [u8; KEY_BYTES] = [7; KEY_BYTES];

    fn sealed(cipher: Cipher, number: u64, packet: &[u8]) -> Vec<u8> {
        let mut datagram = vec![0; DATA_OVERHEAD + packet.len()];
        datagram[DATA_HEAD_BYTES..][..packet.len()].copy_from_slice(packet);
        DataSealer::new(cipher, &KEY, 99, 0)
            .seal(number, Protocol::Ipv4, &mut datagram)
            .unwrap();
        datagram
    }

    fn open(opener: &mut Opener, datagram: &mut [u8]) -> Result<Opened, OpenError> {
        let header = SealedHeader::parse(datagram).ok_or(OpenError::Malformed)?;
        assert_eq!(header.index, 99);
        opener.open(header, datagram)
    }

    #[test]
    fn what_is_sealed_is_opened_once() {
        for cipher in [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305] {
            let mut opener = Opener::new(1, cipher, &KEY, 0);
            let datagram = sealed(cipher, 5, b"packet");
            assert_eq!(
                datagram[..12],
                [0x30, 0, 0x88, 0xb6, 0, 0, 0, 99, 0, 0, 0, 5]
            );
            let mut copy = datagram.clone();
            let opened = open(&mut opener, &mut copy).unwrap();
            let Opened::Data {
                session: 1,
                number: 5,
                protocol: Protocol::Ipv4,
                packet,
            } = opened
            else {
                panic!("{opened:?}");
            };
            assert_eq!(copy[packet], *b"packet");
            assert_eq!(
                open(&mut opener, &mut datagram.clone()),
                Err(OpenError::Replayed)
            );
        }
    }

    #[test]
    fn the_spaces_have_nonces_of_their_own() {
        let mut opener = Opener::new(1, Cipher::Aes256Gcm, &KEY, 0);
        let sealer = ControlSealer::new(Cipher::Aes256Gcm, &KEY, 99);
        let mut control = [0; 64];
        let len = sealer.seal(5, b"report", &mut control).unwrap();
        assert_eq!(len, CONTROL_OVERHEAD + 6);
        let opened = open(&mut opener, &mut control[..len]).unwrap();
        let Opened::Control {
            session: 1,
            number: 5,
            message,
        } = opened
        else {
            panic!("{opened:?}");
        };
        assert_eq!(control[message], *b"report");
        open(&mut opener, &mut sealed(Cipher::Aes256Gcm, 5, b"data")).unwrap();
        assert_eq!(sealer.seal(6, b"report", &mut control[..len - 1]), None);
    }

    #[test]
    fn a_session_has_an_end() {
        let sealer = DataSealer::new(Cipher::Aes256Gcm, &KEY, 99, 1000);
        let mut datagram = [0; 40];
        let mut seal = |number| sealer.seal(number, Protocol::Ipv6, &mut datagram);
        assert_eq!(seal(999), Ok(()), "sent again from before");
        assert_eq!(seal(999 + REJECT_AFTER_PACKETS), Ok(()));
        assert_eq!(seal(1000 + REJECT_AFTER_PACKETS), Err(SealError::Exhausted));
        assert_eq!(
            sealer.seal(1000, Protocol::Ipv6, &mut [0; 29]),
            Err(SealError::NoRoom)
        );
    }

    #[test]
    fn the_replay_window_is_no_smaller_than_what_the_reorder_window_remembers() {
        assert_eq!(DATA_WINDOW, 65_536);
    }

    #[test]
    fn a_protocol_that_is_no_packet_is_refused() {
        let mut datagram = sealed(Cipher::Aes256Gcm, 5, b"packet");
        let sealer = DataSealer::new(Cipher::Aes256Gcm, &KEY, 99, 0);
        sealer.seal(6, Protocol::Control, &mut datagram).unwrap();
        let mut opener = Opener::new(1, Cipher::Aes256Gcm, &KEY, 0);
        assert_eq!(open(&mut opener, &mut datagram), Err(OpenError::Protocol));
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..80), data: bool) {
            let mut opener = Opener::new(1, Cipher::ChaCha20Poly1305, &KEY, 0);
            if let Some(gre) = bytes.first_chunk_mut() {
                *gre = if data { DATA_GRE } else { CONTROL_GRE };
            }
            if let Some(header) = SealedHeader::parse(&bytes) {
                prop_assert!(opener.open(header, &mut bytes).is_err());
            }
        }

        #[test]
        fn a_flipped_bit_is_never_opened(at: prop::sample::Index, bit in 0..8u8, aes: bool) {
            let cipher = if aes { Cipher::Aes256Gcm } else { Cipher::ChaCha20Poly1305 };
            let mut datagram = sealed(cipher, 70_000, b"an inner packet");
            let at = at.index(datagram.len());
            datagram[at] ^= 1 << bit;
            let mut opener = Opener::new(1, cipher, &KEY, 70_000);
            if let Some(header) = SealedHeader::parse(&datagram).filter(|header| header.index == 99) {
                let refused = opener.open(header, &mut datagram).unwrap_err();
                prop_assert!(matches!(refused, OpenError::Forged | OpenError::Replayed));
            }
            let unharmed = sealed(cipher, 70_000, b"an inner packet");
            prop_assert!(open(&mut opener, &mut unharmed.clone()).is_ok());
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

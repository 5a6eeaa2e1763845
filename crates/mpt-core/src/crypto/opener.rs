//! What opens the peer's packets, and takes each once.

use std::ops::Range;

use super::aead::{AeadKey, Cipher};
use super::keys::KEY_BYTES;
use super::packet::{
    CONTROL_HEAD_BYTES, DATA_GRE_BYTES, DATA_HEAD_BYTES, Number, Route, SealedHeader, Space,
    control_nonce, nonce, restore,
};
use super::replay::ReplayWindow;
use crate::path::MAX_PATHS;
use crate::wire::ecn::{self, CE, Decap, ECN_MASK};
use crate::wire::gre::Protocol;
use crate::wire::ip::Packet;

/// How far behind the highest a data packet's number may be.
pub const DATA_WINDOW: u64 = DataWindow::WINDOW;
type DataWindow = ReplayWindow<1025>;
/// 1,024 control messages.
type ControlWindow = ReplayWindow<17>;

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
    /// The outer header has a congestion mark and the inner one knows none (RFC 6040): the packet counts as lost on the
    /// way. Anybody there can set the mark, so its number can still be taken: a copy without it is the packet.
    #[error("a congestion mark on a packet without ECN")]
    Marked,
}

/// What a sealed packet carried. Ranges are of the datagram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opened {
    /// A packet for the TUN, for the first time.
    Data {
        /// The session of the peer's tunnel: another one after the peer began anew.
        session: u64,
        /// The packet's number, when it is to be put in order; its low 32 bits are the sequence number.
        number: Option<u64>,
        /// What the inner packet is.
        protocol: Protocol,
        /// Where it stands.
        packet: Range<usize>,
    },
    /// A packet that was opened before: sent over several paths, or again, or
    /// repeated by somebody on the way. It is not to be delivered.
    Copy {
        /// The session of the peer's tunnel.
        session: u64,
        /// The packet's number, when it was to be put in order.
        number: Option<u64>,
    },
    /// A control message.
    Control {
        /// The session of the peer's tunnel: another one after the peer began anew.
        session: u64,
        /// The way that it was made for.
        route: Route,
        /// Its number among those of that path. Messages of the same session and path with greater numbers
        /// were sent later.
        number: u64,
        /// Where it stands.
        message: Range<usize>,
    },
}

/// Opens what the peer sealed for one session.
pub(super) struct Opener {
    session: u64,
    key: AeadKey,
    ordered: DataWindow,
    unordered: DataWindow,
    /// By the peer's index of the path: who holds one path's messages back makes none of another old.
    control: [Option<ControlWindow>; MAX_PATHS],
}

impl Opener {
    /// `session` and `next_number` are what the peer said of its tunnel and its data packets' numbers.
    pub(super) fn new(
        session: u64,
        cipher: Cipher,
        key: &[u8; KEY_BYTES],
        next_number: u64,
    ) -> Opener {
        Opener {
            session,
            key: AeadKey::new(cipher, key),
            ordered: DataWindow::new(next_number),
            unordered: DataWindow::new(0),
            control: [const { None }; MAX_PATHS],
        }
    }

    /// Opens in place. `tos` is the outer header's. A packet that is refused has changed nothing but its own
    /// bytes, and of one of unknown protocol its number.
    #[inline]
    pub(super) fn open(
        &mut self,
        header: SealedHeader,
        tos: u8,
        datagram: &mut [u8],
    ) -> Result<Opened, OpenError> {
        match header.number {
            Number::Ordered(low) => self.open_numbered(true, low, tos, datagram),
            Number::Unordered(low) => self.open_numbered(false, low, tos, datagram),
            Number::Control(route, number) => self.open_control(route, number, datagram),
        }
    }

    /// Opens a data packet whose number ends with `low`.
    #[inline]
    fn open_numbered(
        &mut self,
        is_ordered: bool,
        low: u32,
        tos: u8,
        datagram: &mut [u8],
    ) -> Result<Opened, OpenError> {
        let (window, space) = match is_ordered {
            true => (&self.ordered, Space::Ordered),
            false => (&self.unordered, Space::Unordered),
        };
        let number = restore(low, window.next());
        let is_new = window.is_new(number);
        if !is_new && !window.is_remembered(number) {
            return Err(OpenError::Replayed);
        }
        let (protocol, packet) = self.open_data(nonce(space, number), datagram)?;
        let (session, shown) = (self.session, is_ordered.then_some(number));
        if !is_new {
            return Ok(Opened::Copy {
                session,
                number: shown,
            });
        }
        if is_marked(tos, &datagram[packet.clone()]) {
            return Err(OpenError::Marked);
        }
        let window = match is_ordered {
            true => &mut self.ordered,
            false => &mut self.unordered,
        };
        window.take(number);
        Ok(Opened::Data {
            session,
            number: shown,
            protocol: protocol.ok_or(OpenError::Protocol)?,
            packet,
        })
    }

    /// Opens a data packet: what is in it and where.
    #[inline]
    fn open_data(
        &self,
        nonce: [u8; 12],
        datagram: &mut [u8],
    ) -> Result<(Option<Protocol>, Range<usize>), OpenError> {
        let (header, sealed) = datagram.split_at_mut(DATA_GRE_BYTES);
        let len = self.key.open(nonce, header, sealed);
        let len = len.ok_or(OpenError::Forged)?;
        let protocol = match [sealed[0], sealed[1]] {
            [0x08, 0x00] => Some(Protocol::Ipv4),
            [0x86, 0xdd] => Some(Protocol::Ipv6),
            _ => None,
        };
        Ok((protocol, DATA_HEAD_BYTES..DATA_GRE_BYTES + len))
    }

    fn open_control(
        &mut self,
        route: Route,
        number: u64,
        datagram: &mut [u8],
    ) -> Result<Opened, OpenError> {
        let window = self.control.get_mut(usize::from(route.from));
        let window = window.ok_or(OpenError::Malformed)?;
        if window.as_ref().is_some_and(|window| !window.is_new(number)) {
            return Err(OpenError::Replayed);
        }
        let (header, sealed) = datagram.split_at_mut(CONTROL_HEAD_BYTES);
        let len = self.key.open(control_nonce(route, number), header, sealed);
        let len = len.ok_or(OpenError::Forged)?;
        window
            .get_or_insert_with(|| ControlWindow::new(0))
            .take(number);
        Ok(Opened::Control {
            session: self.session,
            route,
            number,
            message: CONTROL_HEAD_BYTES..CONTROL_HEAD_BYTES + len,
        })
    }
}

/// Whether a congestion mark of the outer header is to be taken for the loss of the packet.
#[inline]
fn is_marked(tos: u8, packet: &[u8]) -> bool {
    tos & ECN_MASK == CE
        && Packet::parse(packet)
            .is_ok_and(|packet| ecn::inner_after(tos, packet.tos()) == Decap::Drop)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::packet::{CONTROL_GRE, CONTROL_OVERHEAD, DATA_GRE, DATA_OVERHEAD, lay_out};
    use super::super::sealer::{ControlSealer, DataSealer};
    use super::*;
    use crate::seq::Seq;

    const KEY: [u8; KEY_BYTES] = [7; KEY_BYTES];
    const INDEX: u32 = 98;
    const ROUTE: Route = Route {
        from: 3,
        to: Some(2),
    };

    fn laid_out(number: Option<u64>, protocol: Protocol, packet: &[u8]) -> Vec<u8> {
        let mut datagram = vec![0; DATA_OVERHEAD + packet.len()];
        let sequence = number.map(|number| Seq::new(number as u32));
        lay_out(sequence, protocol, &mut datagram);
        datagram[DATA_HEAD_BYTES..][..packet.len()].copy_from_slice(packet);
        datagram
    }

    fn sealed(cipher: Cipher, number: Option<u64>, packet: &[u8]) -> Vec<u8> {
        let mut datagram = laid_out(number, Protocol::Ipv4, packet);
        DataSealer::new(cipher, &KEY, INDEX, 0)
            .seal(number.unwrap_or(0), &mut datagram)
            .unwrap();
        datagram
    }

    fn open(opener: &mut Opener, datagram: &mut [u8]) -> Result<Opened, OpenError> {
        let header = SealedHeader::parse(datagram).ok_or(OpenError::Malformed)?;
        assert_eq!(header.index, INDEX);
        opener.open(header, 0, datagram)
    }

    #[test]
    fn what_is_sealed_is_delivered_once() {
        for cipher in [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305] {
            let mut opener = Opener::new(1, cipher, &KEY, 0);
            for (number, again) in [
                (
                    Some(5),
                    Ok(Opened::Copy {
                        session: 1,
                        number: Some(5),
                    }),
                ),
                (
                    None,
                    Ok(Opened::Copy {
                        session: 1,
                        number: None,
                    }),
                ),
            ] {
                let datagram = sealed(cipher, number, b"packet");
                let mut copy = datagram.clone();
                let packet = DATA_HEAD_BYTES..DATA_HEAD_BYTES + 6;
                let expected = Opened::Data {
                    session: 1,
                    number,
                    protocol: Protocol::Ipv4,
                    packet: packet.clone(),
                };
                assert_eq!(open(&mut opener, &mut copy), Ok(expected));
                assert_eq!(copy[packet], *b"packet");
                assert_eq!(open(&mut opener, &mut datagram.clone()), again);
            }
        }
    }

    #[test]
    fn a_packet_that_counts_as_lost_for_its_mark_is_taken_when_it_comes_without() {
        let mut packet = [0; 20];
        (packet[0], packet[3]) = (0x45, 20);
        for number in [Some(5), None] {
            let mut opener = Opener::new(1, Cipher::Aes256Gcm, &KEY, 0);
            let datagram = sealed(Cipher::Aes256Gcm, number, &packet);
            for (tos, opens) in [(CE, false), (CE, false), (0, true), (0, true)] {
                let mut copy = datagram.clone();
                let header = SealedHeader::parse(&copy).unwrap();
                let opened = opener.open(header, tos, &mut copy);
                assert_eq!(opened.is_ok(), opens, "{opened:?}");
            }
        }
    }

    #[test]
    fn a_copy_must_be_the_peers_too() {
        let mut opener = Opener::new(1, Cipher::Aes256Gcm, &KEY, 0);
        let mut datagram = sealed(Cipher::Aes256Gcm, Some(5), b"packet");
        open(&mut opener, &mut datagram.clone()).unwrap();
        datagram[20] ^= 1;
        assert_eq!(open(&mut opener, &mut datagram), Err(OpenError::Forged));
        let mut late = sealed(Cipher::Aes256Gcm, Some(6), b"packet");
        let far = Some(6 + DATA_WINDOW + 1);
        open(&mut opener, &mut sealed(Cipher::Aes256Gcm, far, b"packet")).unwrap();
        assert_eq!(open(&mut opener, &mut late), Err(OpenError::Replayed));
    }

    #[test]
    fn the_spaces_have_nonces_of_their_own() {
        let mut opener = Opener::new(1, Cipher::Aes256Gcm, &KEY, 0);
        let sealer = ControlSealer::new(Cipher::Aes256Gcm, &KEY, INDEX);
        let mut control = [0; 64];
        let len = sealer.seal(ROUTE, 0, b"report", &mut control).unwrap();
        assert_eq!(len, CONTROL_OVERHEAD + 6);
        let opened = open(&mut opener, &mut control[..len]).unwrap();
        let Opened::Control {
            session: 1,
            route: ROUTE,
            number: 0,
            message,
        } = opened
        else {
            panic!("{opened:?}");
        };
        assert_eq!(control[message], *b"report");
        assert_eq!(
            sealer.seal(ROUTE, 6, b"report", &mut control[..len - 1]),
            None
        );
        let ordered = sealed(Cipher::Aes256Gcm, Some(0), b"data");
        let unordered = sealed(Cipher::Aes256Gcm, None, b"data");
        assert_eq!(ordered[8..12], unordered[8..12]);
        assert_ne!(ordered[12..], unordered[12..]);
        open(&mut opener, &mut ordered.clone()).unwrap();
        open(&mut opener, &mut unordered.clone()).unwrap();
        let mut passed_off = unordered;
        passed_off[7] ^= 1;
        assert_eq!(open(&mut opener, &mut passed_off), Err(OpenError::Forged));
    }

    #[test]
    fn a_control_message_cannot_be_passed_for_another_path_s() {
        let mut opener = Opener::new(1, Cipher::Aes256Gcm, &KEY, 0);
        let sealer = ControlSealer::new(Cipher::Aes256Gcm, &KEY, INDEX);
        let mut sealed = [0; 64];
        let len = sealer.seal(ROUTE, 0, b"probe", &mut sealed).unwrap();
        for (at, path) in [(8, 2), (9, 3), (9, 0xff)] {
            let mut changed = sealed;
            changed[at] = path;
            let opened = open(&mut opener, &mut changed[..len]);
            assert_eq!(opened, Err(OpenError::Forged));
        }
        assert!(open(&mut opener, &mut sealed[..len]).is_ok());
    }

    #[test]
    fn each_path_has_a_replay_window_of_its_own() {
        let mut opener = Opener::new(1, Cipher::Aes256Gcm, &KEY, 0);
        let sealer = ControlSealer::new(Cipher::Aes256Gcm, &KEY, INDEX);
        let sealed = |from: u8, number: u64| {
            let mut out = [0; 64];
            let route = Route { from, to: None };
            let len = sealer.seal(route, number, b"probe", &mut out).unwrap();
            out[..len].to_vec()
        };
        for number in 10..5000 {
            open(&mut opener, &mut sealed(1, number)).unwrap();
        }
        // Path 0 was held back all the while.
        assert!(open(&mut opener, &mut sealed(0, 3)).is_ok());
        for old in [sealed(0, 3), sealed(1, 3), sealed(1, 4999)] {
            let opened = open(&mut opener, &mut old.clone());
            assert_eq!(opened, Err(OpenError::Replayed));
        }
    }

    #[test]
    fn the_replay_window_is_no_smaller_than_what_the_reorder_window_remembers() {
        assert_eq!(DATA_WINDOW, 65_536);
    }

    #[test]
    fn a_protocol_that_is_no_packet_is_refused() {
        let mut opener = Opener::new(1, Cipher::Aes256Gcm, &KEY, 0);
        for number in [Some(6), None] {
            let mut datagram = laid_out(number, Protocol::Control, b"packet");
            let mut sealer = DataSealer::new(Cipher::Aes256Gcm, &KEY, INDEX, 0);
            sealer.seal(6, &mut datagram).unwrap();
            assert_eq!(open(&mut opener, &mut datagram), Err(OpenError::Protocol));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..80), data: bool) {
            let mut opener = Opener::new(1, Cipher::ChaCha20Poly1305, &KEY, 0);
            if let Some(gre) = bytes.first_chunk_mut() {
                *gre = if data { DATA_GRE } else { CONTROL_GRE };
            }
            if let Some(header) = SealedHeader::parse(&bytes) {
                prop_assert!(opener.open(header, 0, &mut bytes).is_err());
            }
        }

        #[test]
        fn a_flipped_bit_is_never_opened(
            at: prop::sample::Index,
            bit in 0..8u8,
            aes: bool,
            ordered: bool,
        ) {
            let cipher = if aes { Cipher::Aes256Gcm } else { Cipher::ChaCha20Poly1305 };
            let mut datagram = sealed(cipher, ordered.then_some(70_000), b"an inner packet");
            let unharmed = datagram.clone();
            let at = at.index(datagram.len());
            datagram[at] ^= 1 << bit;
            let mut opener = Opener::new(1, cipher, &KEY, 70_000);
            if let Some(header) = SealedHeader::parse(&datagram).filter(|header| header.index == INDEX) {
                let refused = opener.open(header, 0, &mut datagram).unwrap_err();
                prop_assert!(matches!(refused, OpenError::Forged | OpenError::Replayed));
            }
            prop_assert!(open(&mut opener, &mut unharmed.clone()).is_ok());
        }
    }
}

//! What seals: data packets on the line out, control messages on the line in.

use super::aead::{AeadKey, Cipher, TAG_BYTES};
use super::keys::KEY_BYTES;
use super::packet::{
    CONTROL_GRE, CONTROL_HEAD_BYTES, CONTROL_NUMBERS, CONTROL_OVERHEAD, DATA_GRE_BYTES,
    DATA_OVERHEAD, Route, Space, UNORDERED, control_nonce, nonce, restore,
};

/// Packets of a session after which it must be replaced: what NIST SP 800-38D §8.3 allows AES-GCM under one key. With
/// packets of 94 blocks that are 2^38.6 blocks, and by RFC 9001 B.1.1 who could tell them from random bytes has
/// an advantage of about 2^-50.
pub(super) const REKEY_AFTER_PACKETS: u64 = 1 << 32;
/// Packets of a session after which nothing more is sealed.
pub(super) const REJECT_AFTER_PACKETS: u64 = 1 << 33;

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

/// Seals data packets of one session: what the line out has of it.
pub struct DataSealer {
    key: AeadKey,
    index: u32,
    /// The first number of the session, give or take what was on its way then.
    first: u64,
    /// The number of the next packet without order.
    next_unordered: u64,
}

impl DataSealer {
    pub(super) fn new(cipher: Cipher, key: &[u8; KEY_BYTES], index: u32, first: u64) -> DataSealer {
        DataSealer {
            key: AeadKey::new(cipher, key),
            index,
            first,
            next_unordered: 0,
        }
    }

    /// Seals a train in place: datagrams of `segment_size` bytes, the last perhaps shorter, one behind the
    /// other; see [`DataSealer::seal`].
    ///
    /// # Errors
    /// As for one datagram; then nothing of the train may be sent.
    pub fn seal_train(
        &mut self,
        next: u64,
        segment_size: usize,
        train: &mut [u8],
    ) -> Result<(), SealError> {
        for datagram in train.chunks_mut(segment_size.max(1)) {
            self.seal(next, datagram)?;
        }
        Ok(())
    }

    /// Seals in place. The first [`super::DATA_HEAD_BYTES`] of `datagram` are as [`super::lay_out`]
    /// wrote them, the inner packet stands behind, and behind that are 16 bytes of room. `next` is near
    /// the packet's number, of which the datagram has the low 32 bits: the next number that a packet
    /// will get is. A number stands for one packet: never seal another one under it.
    ///
    /// # Errors
    /// When the session is used up, or there is less room; then nothing may be sent.
    #[inline]
    pub fn seal(&mut self, next: u64, datagram: &mut [u8]) -> Result<(), SealError> {
        if datagram.len() < DATA_OVERHEAD {
            return Err(SealError::NoRoom);
        }
        let (header, rest) = datagram.split_at_mut(DATA_GRE_BYTES);
        let (space, number) = if u32::from(header[7]) & UNORDERED == 0 {
            let mut low = [0; 4];
            low.copy_from_slice(&header[8..12]);
            let number = restore(u32::from_be_bytes(low), next);
            if number.saturating_sub(self.first) >= REJECT_AFTER_PACKETS {
                return Err(SealError::Exhausted);
            }
            header[4..8].copy_from_slice(&self.index.to_be_bytes());
            (Space::Ordered, number)
        } else {
            let number = self.next_unordered;
            if number >= REJECT_AFTER_PACKETS {
                return Err(SealError::Exhausted);
            }
            self.next_unordered += 1;
            header[4..8].copy_from_slice(&(self.index | UNORDERED).to_be_bytes());
            header[8..12].copy_from_slice(&(number as u32).to_be_bytes());
            (Space::Unordered, number)
        };
        let (text, tag) = rest.split_at_mut(rest.len() - TAG_BYTES);
        tag.copy_from_slice(&self.key.seal(nonce(space, number), header, text));
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

    /// Writes the sealed message to `out` and returns its length; `None` when there is no room, or no
    /// number left. A path's number stands for one message.
    pub(super) fn seal(
        &self,
        route: Route,
        number: u64,
        message: &[u8],
        out: &mut [u8],
    ) -> Option<usize> {
        if number >= CONTROL_NUMBERS {
            return None;
        }
        let len = CONTROL_OVERHEAD + message.len();
        let (header, rest) = out.get_mut(..len)?.split_at_mut(CONTROL_HEAD_BYTES);
        header[..4].copy_from_slice(&CONTROL_GRE);
        header[4..8].copy_from_slice(&self.index);
        header[8..].copy_from_slice(&route.with_number(number));
        let (text, tag) = rest.split_at_mut(message.len());
        text.copy_from_slice(message);
        tag.copy_from_slice(&self.key.seal(control_nonce(route, number), header, text));
        Some(len)
    }
}

#[cfg(test)]
mod tests {
    use super::super::packet::lay_out;
    use super::*;
    use crate::seq::Seq;
    use crate::wire::gre::Protocol;

    const KEY: [u8; KEY_BYTES] = [7; KEY_BYTES];

    #[test]
    fn a_session_has_an_end() {
        let mut sealer = DataSealer::new(Cipher::Aes256Gcm, &KEY, 98, 1000);
        let mut datagram = [0; 40];
        let mut seal = |number: u64| {
            let sequence = Seq::new(number as u32);
            lay_out(Some(sequence), Protocol::Ipv6, &mut datagram);
            sealer.seal(number, &mut datagram)
        };
        assert_eq!(seal(999), Ok(()), "sent again from before");
        assert_eq!(seal(999 + REJECT_AFTER_PACKETS), Ok(()));
        assert_eq!(seal(1000 + REJECT_AFTER_PACKETS), Err(SealError::Exhausted));
        assert_eq!(sealer.seal(1000, &mut [0; 29]), Err(SealError::NoRoom));
    }

    #[test]
    fn a_train_is_sealed_as_its_datagrams_are_one_by_one() {
        let mut train = vec![5; 40 * 3 + 35];
        for (at, sequence) in [Some(9), None, None, Some(8)].into_iter().enumerate() {
            let datagram = &mut train[40 * at..];
            lay_out(sequence.map(Seq::new), Protocol::Ipv4, datagram);
        }
        let mut alone = train.clone();
        let new = || DataSealer::new(Cipher::ChaCha20Poly1305, &KEY, 98, 0);
        new().seal_train(10, 40, &mut train).unwrap();
        let mut sealer = new();
        for datagram in alone.chunks_mut(40) {
            sealer.seal(10, datagram).unwrap();
        }
        assert_eq!(train, alone);
        let heads: Vec<_> = train.chunks(40).map(|datagram| &datagram[4..12]).collect();
        assert_eq!(heads[0], [0, 0, 0, 98, 0, 0, 0, 9]);
        assert_eq!(heads[1], [0, 0, 0, 99, 0, 0, 0, 0]);
        assert_eq!(heads[2], [0, 0, 0, 99, 0, 0, 0, 1]);
        assert_eq!(heads[3], [0, 0, 0, 98, 0, 0, 0, 8]);
        assert_eq!(
            sealer.seal_train(10, 40, &mut train[..45]),
            Err(SealError::NoRoom)
        );
    }
}

//! Keys as people handle them: 32 bytes, written in base64, one to a file.
//!
//! The habits are WireGuard's, and so is the format: a key made by `wg genkey`, `wg pubkey` or
//! `wg genpsk` is one of `mpt-ctl genkey`, `pubkey` or `genpsk` and the other way round. (Use each key
//! for one tunnel only, all the same.) A public key may be shown to anybody; the two other kinds are
//! wiped from memory when they are dropped and never appear in a debug output. Base64 is read and written
//! without a look-up table, so that a secret leaves no trace in the cache.

use std::fmt;

use base64ct::{Base64, Encoding};
use zeroize::{Zeroize, Zeroizing};

/// Length of every key, in bytes.
pub const KEY_BYTES: usize = 32;
/// Length of a key in base64, in characters.
pub const KEY_CHARACTERS: usize = 44;

/// Why a text is not a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Another length than [`KEY_CHARACTERS`].
    #[error("a key has 44 characters of base64, and this has {0}")]
    Length(usize),
    /// A character that is not base64, or bits behind the last byte.
    #[error("this is not base64")]
    Base64,
}

/// A Curve25519 private key: who this end is.
#[derive(Clone, PartialEq, Eq)]
pub struct PrivateKey(Zeroizing<[u8; KEY_BYTES]>);

/// A secret of both ends, mixed into every handshake: what was recorded stays closed even to one who
/// learns to break Curve25519.
#[derive(Clone, PartialEq, Eq)]
pub struct PresharedKey(Zeroizing<[u8; KEY_BYTES]>);

/// A Curve25519 public key: who an end is to others.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey([u8; KEY_BYTES]);

impl PrivateKey {
    /// The key made of 32 random bytes, five of whose bits RFC 7748 §5 fixes.
    #[must_use]
    pub fn from_random(random: [u8; KEY_BYTES]) -> PrivateKey {
        let mut key = PrivateKey(Zeroizing::new(random));
        key.0[0] &= 0b1111_1000;
        key.0[31] = key.0[31] & 0b0111_1111 | 0b0100_0000;
        key
    }

    /// Reads a key.
    ///
    /// # Errors
    /// The text, less white space around it, is not 32 bytes in base64.
    pub fn from_base64(text: &str) -> Result<PrivateKey, KeyError> {
        decode(text).map(PrivateKey)
    }

    /// The key in base64.
    #[must_use]
    pub fn to_base64(&self) -> Zeroizing<String> {
        Zeroizing::new(encode(&self.0))
    }

    /// What others may know of it.
    #[must_use]
    pub fn public_key(&self) -> PublicKey {
        let secret = x25519_dalek::StaticSecret::from(*self.0);
        PublicKey(x25519_dalek::PublicKey::from(&secret).to_bytes())
    }

    pub(super) fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    /// The key of the vectors.
    #[cfg(test)]
    pub(super) fn from_bytes(bytes: Zeroizing<[u8; KEY_BYTES]>) -> PrivateKey {
        PrivateKey(bytes)
    }
}

impl PresharedKey {
    /// The key made of 32 random bytes.
    #[must_use]
    pub fn from_random(random: [u8; KEY_BYTES]) -> PresharedKey {
        PresharedKey(Zeroizing::new(random))
    }

    /// What the handshake uses where none is configured.
    #[must_use]
    pub fn none() -> PresharedKey {
        PresharedKey(Zeroizing::new([0; KEY_BYTES]))
    }

    /// Reads a key.
    ///
    /// # Errors
    /// The text, less white space around it, is not 32 bytes in base64.
    pub fn from_base64(text: &str) -> Result<PresharedKey, KeyError> {
        decode(text).map(PresharedKey)
    }

    /// The key in base64.
    #[must_use]
    pub fn to_base64(&self) -> Zeroizing<String> {
        Zeroizing::new(encode(&self.0))
    }

    pub(super) fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

impl PublicKey {
    pub(super) fn from_bytes(bytes: [u8; KEY_BYTES]) -> PublicKey {
        PublicKey(bytes)
    }

    /// The key as it is.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    /// Reads a key.
    ///
    /// # Errors
    /// The text, less white space around it, is not 32 bytes in base64.
    pub fn from_base64(text: &str) -> Result<PublicKey, KeyError> {
        decode(text).map(|bytes| PublicKey(*bytes))
    }

    pub(super) fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

/// Base64.
impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&encode(&self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(…)")
    }
}

impl fmt::Debug for PresharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PresharedKey(…)")
    }
}

fn encode(bytes: &[u8; KEY_BYTES]) -> String {
    let mut text = [0; KEY_CHARACTERS];
    // 32 bytes fill 44 characters exactly.
    let encoded = Base64::encode(bytes, &mut text)
        .unwrap_or_default()
        .to_owned();
    text.zeroize();
    encoded
}

fn decode(text: &str) -> Result<Zeroizing<[u8; KEY_BYTES]>, KeyError> {
    let text = text.trim();
    let characters = text.chars().count();
    if characters != KEY_CHARACTERS {
        return Err(KeyError::Length(characters));
    }
    let mut bytes = Zeroizing::new([0; KEY_BYTES + 1]);
    let decoded = Base64::decode(text, bytes.as_mut()).map_err(|_| KeyError::Base64)?;
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    if decoded.len() != KEY_BYTES {
        return Err(KeyError::Base64);
    }
    key.copy_from_slice(decoded);
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 7748 §6.1: Alice's keys.
    const ALICE: (&str, &str) = (
        "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo=",
        "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=",
    );

    #[test]
    fn a_public_key_is_that_of_rfc_7748() {
        let private = PrivateKey::from_base64(ALICE.0).unwrap();
        assert_eq!(private.public_key().to_string(), ALICE.1);
        assert_eq!(*private.to_base64(), ALICE.0);
    }

    #[test]
    fn a_generated_key_has_the_bits_of_rfc_7748() {
        let key = PrivateKey::from_random([0xff; KEY_BYTES]);
        assert_eq!((key.bytes()[0], key.bytes()[31]), (0xf8, 0x7f));
        let key = PrivateKey::from_random([0; KEY_BYTES]);
        assert_eq!((key.bytes()[0], key.bytes()[31]), (0, 0x40));
    }

    #[test]
    fn what_is_no_key_is_refused_and_says_why() {
        let read = |text: &str| PublicKey::from_base64(text).unwrap_err();
        assert_eq!(read(""), KeyError::Length(0));
        assert_eq!(read("hSDwCYkwp1R0i33c"), KeyError::Length(16));
        assert_eq!(read(&"ü".repeat(22)), KeyError::Length(22));
        assert_eq!(read(&"ü".repeat(44)), KeyError::Base64);
        assert_eq!(read(&"!".repeat(44)), KeyError::Base64);
        assert_eq!(read(&ALICE.1.replace('=', "A")), KeyError::Base64);
        assert_eq!(read(&ALICE.1.replace("mo=", "mp=")), KeyError::Base64);
        PublicKey::from_base64(&format!(" {}\n", ALICE.1)).unwrap();
    }

    #[test]
    fn a_secret_is_not_in_a_debug_output() {
        let shown = format!(
            "{:?} {:?}",
            PrivateKey::from_base64(ALICE.0).unwrap(),
            PresharedKey::from_base64(ALICE.0).unwrap()
        );
        assert_eq!(shown, "PrivateKey(…) PresharedKey(…)");
    }

    proptest! {
        #[test]
        fn a_key_survives_its_text(bytes: [u8; KEY_BYTES]) {
            let key = PresharedKey::from_random(bytes);
            prop_assert_eq!(PresharedKey::from_base64(&key.to_base64()).unwrap(), key);
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,60}") {
            let _ = PublicKey::from_base64(&text);
        }
    }
}

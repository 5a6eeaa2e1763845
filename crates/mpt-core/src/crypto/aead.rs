//! Authenticated encryption by `ring`, with keys that are wiped.
//!
//! `ring` does not wipe its keys, and this crate has no `unsafe` to do it with. So a key stands in a
//! box, does not move, and when it is dropped another key is written over it, behind a
//! [`black_box`] that keeps the compiler from finding out that nobody will read it.

use std::hint::black_box;

use ring::aead::{
    AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, MAX_TAG_LEN, Nonce, UnboundKey,
};

use super::keys::KEY_BYTES;
use crate::control::Protection;

/// Length of an authentication tag, in bytes.
pub const TAG_BYTES: usize = MAX_TAG_LEN;

/// What seals packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cipher {
    /// AES-256-GCM, where both ends have AES in hardware.
    Aes256Gcm,
    /// ChaCha20-Poly1305 (RFC 8439), fast everywhere and without tables that the cache gives away.
    ChaCha20Poly1305,
}

impl Cipher {
    /// How `mpt-ctl status` tells it.
    #[must_use]
    pub const fn protection(self) -> Protection {
        match self {
            Cipher::Aes256Gcm => Protection::Aes256Gcm,
            Cipher::ChaCha20Poly1305 => Protection::ChaCha20Poly1305,
        }
    }

    fn algorithm(self) -> &'static Algorithm {
        match self {
            Cipher::Aes256Gcm => &AES_256_GCM,
            Cipher::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        }
    }
}

/// Whether this machine computes AES-GCM in hardware.
#[must_use]
pub fn has_hardware_aes() -> bool {
    #[cfg(target_arch = "x86_64")]
    let has = std::arch::is_x86_feature_detected!("aes")
        && std::arch::is_x86_feature_detected!("pclmulqdq");
    #[cfg(target_arch = "aarch64")]
    let has = std::arch::is_aarch64_feature_detected!("aes")
        && std::arch::is_aarch64_feature_detected!("pmull");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let has = false;
    has
}

/// A key that seals, or one that opens.
pub(super) struct AeadKey(Box<LessSafeKey>);

impl AeadKey {
    pub(super) fn new(cipher: Cipher, key: &[u8; KEY_BYTES]) -> AeadKey {
        AeadKey(Box::new(expand(cipher.algorithm(), key)))
    }

    /// Encrypts in place and returns the tag.
    #[inline]
    pub(super) fn seal(
        &self,
        nonce: [u8; 12],
        associated: &[u8],
        plaintext: &mut [u8],
    ) -> [u8; TAG_BYTES] {
        let tag = self
            .0
            .seal_in_place_separate_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(associated),
                plaintext,
            )
            .expect("a datagram is shorter than either cipher's limit of 64 GiB");
        let mut bytes = [0; TAG_BYTES];
        bytes.copy_from_slice(tag.as_ref());
        bytes
    }

    /// Decrypts `ciphertext`, its tag at the end, in place. Returns the length of the plaintext, or
    /// `None` when it was not sealed with this key, nonce and associated data; then the bytes are
    /// spoilt.
    #[inline]
    pub(super) fn open(
        &self,
        nonce: [u8; 12],
        associated: &[u8],
        ciphertext: &mut [u8],
    ) -> Option<usize> {
        let nonce = Nonce::assume_unique_for_key(nonce);
        let opened = self
            .0
            .open_in_place(nonce, Aad::from(associated), ciphertext);
        opened.ok().map(|plaintext| plaintext.len())
    }
}

fn expand(algorithm: &'static Algorithm, key: &[u8; KEY_BYTES]) -> LessSafeKey {
    let key = UnboundKey::new(algorithm, key).expect("both ciphers have keys of 32 bytes");
    LessSafeKey::new(key)
}

impl Drop for AeadKey {
    fn drop(&mut self) {
        *self.0 = expand(&CHACHA20_POLY1305, &[0; KEY_BYTES]);
        black_box(&mut self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8439 §2.8.2.
    #[test]
    fn chacha20_poly1305_is_that_of_rfc_8439() {
        let mut key = [0; KEY_BYTES];
        (0..).zip(&mut key).for_each(|(n, byte)| *byte = 0x80 + n);
        let mut nonce = [
            0x07, 0, 0, 0, 0x40, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47,
        ];
        let associated = [
            0x50, 0x51, 0x52, 0x53, 0xc0, 0xc1, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7,
        ];
        let text = b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip \
                     for the future, sunscreen would be it.";
        let mut bytes = text.to_vec();
        let key = AeadKey::new(Cipher::ChaCha20Poly1305, &key);
        let tag = key.seal(nonce, &associated, &mut bytes);
        assert_eq!(bytes[..4], [0xd3, 0x1a, 0x8d, 0x34]);
        assert_eq!(tag[..4], [0x1a, 0xe1, 0x0b, 0x59]);
        bytes.extend(tag);
        let mut opened = bytes.clone();
        assert_eq!(key.open(nonce, &associated, &mut opened), Some(text.len()));
        assert_eq!(opened[..text.len()], *text);
        nonce[11] ^= 1;
        assert_eq!(key.open(nonce, &associated, &mut bytes), None);
    }
}

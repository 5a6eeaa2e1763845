//! Initiations as a stranger can make them who knows the responder's public key: with a right mac1, and, once he
//! has a cookie, a right mac2. Only their Noise message does not open, which takes a Diffie-Hellman to find out.
//!
//! Made from docs/protocol.md, "Sealed tunnels", without MPT's own code.

use base64ct::{Base64, Encoding as _};
use blake2::digest::consts::{U16, U32};
use blake2::digest::{KeyInit as _, Mac as _};
use blake2::{Blake2s256, Blake2sMac, Digest as _};
use mpt_core::crypto::{COOKIE_REPLY_BYTES, INITIATION_BYTES};
use mpt_core::wire::kind::Kind;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};

/// GRE header of a handshake message.
const GRE: [u8; 4] = [0, 0, 0x88, 0xb5];

/// A datagram with an initiation, GRE header included.
pub type Initiation = [u8; GRE.len() + INITIATION_BYTES];

/// What a cookie is.
pub type Cookie = [u8; 16];

/// Makes initiations for one responder, no two of them the same.
#[derive(Debug)]
pub struct Initiations {
    mac1_key: [u8; 32],
    cookie_key: [u8; 32],
    number: u64,
}

impl Initiations {
    /// For the end with this public key.
    ///
    /// # Panics
    /// When it is no key.
    #[must_use]
    pub fn to(public_key: &str) -> Self {
        let mut bytes = [0; 32];
        Base64::decode(public_key, &mut bytes).expect("a public key");
        let labelled = |label: &[u8]| {
            let hash = Blake2s256::new().chain_update(label).chain_update(bytes);
            hash.finalize().into()
        };
        Self {
            mac1_key: labelled(b"mpt mac1"),
            cookie_key: labelled(b"mpt cook"),
            number: 0,
        }
    }

    /// The next one, with the mac2 of a cookie if there is one.
    pub fn next(&mut self, cookie: Option<&Cookie>) -> Initiation {
        self.number += 1;
        let mut datagram = [0; GRE.len() + INITIATION_BYTES];
        let (gre, message) = datagram.split_at_mut(GRE.len());
        gre.copy_from_slice(&GRE);
        message[0] = Kind::Initiation as u8;
        message[4..12].copy_from_slice(&self.number.to_be_bytes());
        message[12] = 9;
        let mac1 = mac(&self.mac1_key, &message[..136]);
        message[136..152].copy_from_slice(&mac1);
        if let Some(cookie) = cookie {
            let mac2 = mac(cookie, &message[..152]);
            message[152..].copy_from_slice(&mac2);
        }
        datagram
    }

    /// The cookie in the reply to an initiation.
    ///
    /// # Panics
    /// Never: the keys have the lengths that their algorithms ask for.
    #[must_use]
    pub fn cookie(&self, initiation: &Initiation, reply: &[u8]) -> Option<Cookie> {
        let reply = reply.strip_prefix(&GRE)?;
        if reply.len() != COOKIE_REPLY_BYTES || reply[0] != Kind::CookieReply as u8 {
            return None;
        }
        let key = Blake2sMac::<U32>::new_from_slice(&self.cookie_key).expect("32 bytes");
        let key = key.chain_update(&reply[4..28]).finalize().into_bytes();
        let key = UnboundKey::new(&CHACHA20_POLY1305, &key).expect("32 bytes");
        let mut sealed = reply[28..].to_vec();
        let opened = LessSafeKey::new(key).open_in_place(
            Nonce::assume_unique_for_key([0; 12]),
            Aad::from(&initiation[GRE.len() + 136..GRE.len() + 152]),
            &mut sealed,
        );
        opened.ok()?.try_into().ok()
    }
}

fn mac(key: &[u8], message: &[u8]) -> [u8; 16] {
    let keyed = Blake2sMac::<U16>::new_from_slice(key).expect("16 or 32 bytes");
    keyed.chain_update(message).finalize().into_bytes().into()
}

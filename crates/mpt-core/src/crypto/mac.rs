//! What keeps strangers out before any public key is touched: the two MACs of a handshake message and
//! the cookie, as WireGuard has them (Donenfeld, NDSS 2017, §5.3 and §5.4.4 to §5.4.7).
//!
//! *mac1* shows that the sender knows the receiver's public key, so that one who does not gets no
//! answer at all. *mac2* shows that the sender receives what is sent to its address: it is keyed with a
//! cookie that the receiver made of the address and a secret of its own, and sent there. So a receiver
//! under load keeps nothing for an address and does nothing costly until the address has proved itself.
//! A cookie travels encrypted with a key that again takes the receiver's public key to know, and bound to
//! the mac1 of the message that it answers: nobody can make an initiator take a false cookie who has
//! not seen that message. (WireGuard uses XChaCha20-Poly1305 there; here the 24 random bytes and the
//! public key are hashed into the key of ChaCha20-Poly1305, which serves the same end.)

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use blake2::digest::consts::{U16, U32};
use blake2::digest::{KeyInit, Mac};
use blake2::{Blake2s256, Blake2sMac, Digest};
use zeroize::Zeroizing;

use super::aead::{AeadKey, Cipher, TAG_BYTES};
use super::keys::PublicKey;
use crate::path::PathId;
use crate::time::Time;

/// Length of a MAC and of a cookie, in bytes.
pub(super) const MAC_BYTES: usize = 16;
/// Length of a cookie's nonce, in bytes.
pub(super) const COOKIE_NONCE_BYTES: usize = 24;
/// Length of an encrypted cookie, in bytes.
pub(super) const SEALED_COOKIE_BYTES: usize = MAC_BYTES + TAG_BYTES;
/// How long a receiver's secret, and so a cookie, is good for.
pub(super) const COOKIE_LIFETIME: Duration = Duration::from_secs(120);

/// Hashed before a public key to make the key of mac1.
const MAC1_LABEL: &[u8; 8] = b"mpt mac1";
/// Hashed before a public key to make the key of cookies.
const COOKIE_LABEL: &[u8; 8] = b"mpt cook";

/// A MAC, or a cookie, which is one.
pub(super) type Tag = [u8; MAC_BYTES];

/// What is computed with the public key of the end that a message goes to.
pub(super) struct Addressee {
    mac1_key: [u8; 32],
    cookie_key: [u8; 32],
}

impl Addressee {
    pub(super) fn new(key: &PublicKey) -> Addressee {
        let labelled = |label: &[u8]| {
            Blake2s256::new()
                .chain_update(label)
                .chain_update(key.bytes())
        };
        Addressee {
            mac1_key: labelled(MAC1_LABEL).finalize().into(),
            cookie_key: labelled(COOKIE_LABEL).finalize().into(),
        }
    }

    pub(super) fn mac1(&self, message: &[u8]) -> Tag {
        mac(&self.mac1_key, message)
    }

    pub(super) fn is_mac1(&self, message: &[u8], tag: &[u8]) -> bool {
        is_mac(&self.mac1_key, message, tag)
    }

    /// Encrypts a cookie for the sender of the message with this mac1.
    pub(super) fn seal_cookie(
        &self,
        nonce: &[u8; COOKIE_NONCE_BYTES],
        mac1: &Tag,
        cookie: &Tag,
    ) -> [u8; SEALED_COOKIE_BYTES] {
        let mut sealed = [0; SEALED_COOKIE_BYTES];
        let (text, tag) = sealed.split_at_mut(MAC_BYTES);
        text.copy_from_slice(cookie);
        tag.copy_from_slice(&self.cookie_cipher(nonce).seal([0; 12], mac1, text));
        sealed
    }

    /// Decrypts a cookie that answers the message with this mac1.
    pub(super) fn open_cookie(
        &self,
        nonce: &[u8; COOKIE_NONCE_BYTES],
        mac1: &Tag,
        mut sealed: [u8; SEALED_COOKIE_BYTES],
    ) -> Option<Tag> {
        let cipher = self.cookie_cipher(nonce);
        cipher.open([0; 12], mac1, &mut sealed)?;
        sealed.first_chunk().copied()
    }

    /// Each nonce makes a key that is used once.
    fn cookie_cipher(&self, nonce: &[u8; COOKIE_NONCE_BYTES]) -> AeadKey {
        let key = keyed::<U32>(&self.cookie_key)
            .chain_update(nonce)
            .finalize();
        AeadKey::new(Cipher::ChaCha20Poly1305, &key.into_bytes().into())
    }
}

/// The MAC of `message` by a cookie: mac2.
pub(super) fn mac2(cookie: &Tag, message: &[u8]) -> Tag {
    mac(cookie, message)
}

/// The secret that a receiver makes cookies with.
pub(super) struct CookieSecret {
    secret: Zeroizing<[u8; 32]>,
    made: Time,
}

impl CookieSecret {
    pub(super) fn new(now: Time, secret: Zeroizing<[u8; 32]>) -> CookieSecret {
        CookieSecret { secret, made: now }
    }

    pub(super) fn is_stale(&self, now: Time) -> bool {
        now.since(self.made) >= COOKIE_LIFETIME
    }

    /// The cookie of an address and port.
    pub(super) fn cookie(&self, of: SocketAddr) -> Tag {
        let port = of.port().to_be_bytes();
        let keyed = keyed::<U16>(self.secret.as_ref());
        let keyed = match of.ip() {
            IpAddr::V4(ip) => keyed.chain_update(ip.octets()),
            IpAddr::V6(ip) => keyed.chain_update(ip.octets()),
        };
        keyed.chain_update(port).finalize().into_bytes().into()
    }

    /// Whether `tag` is the mac2 of a sender at this address.
    pub(super) fn is_mac2(&self, of: SocketAddr, message: &[u8], tag: &[u8]) -> bool {
        is_mac(&self.cookie(of), message, tag)
    }

    /// A number for the host, or the /64 of IPv6 that a host may have whole, that strangers cannot
    /// foresee.
    pub(super) fn bucket(&self, of: SocketAddr) -> u8 {
        let keyed = keyed::<U16>(self.secret.as_ref());
        let keyed = match of.ip() {
            IpAddr::V4(ip) => keyed.chain_update(ip.octets()),
            IpAddr::V6(ip) => keyed.chain_update(&ip.octets()[..8]),
        };
        keyed.finalize().into_bytes()[0]
    }
}

/// How long a code is asked for; it is taken for as long again.
pub const CODE_LIFETIME: Duration = Duration::from_secs(10);

/// What an address has to send back to show that it hears (RFC 9000 §8.2). It follows from the address,
/// the way (the path, and the socket that it is asked from), the time and a secret, so that nothing is kept for an address.
pub(super) struct AddressCodes {
    secret: Zeroizing<[u8; 32]>,
}

impl AddressCodes {
    pub(super) fn new(secret: Zeroizing<[u8; 32]>) -> AddressCodes {
        AddressCodes { secret }
    }

    pub(super) fn code(&self, now: Time, way: [PathId; 2], of: SocketAddr) -> u64 {
        self.of_period(period(now), way, of)
    }

    /// Whether it is the code of now or of the period before.
    pub(super) fn is_code(&self, now: Time, way: [PathId; 2], of: SocketAddr, code: u64) -> bool {
        let now = period(now);
        let is = |period| code == self.of_period(period, way, of);
        code != 0 && (is(now) || now.checked_sub(1).is_some_and(is))
    }

    fn of_period(&self, period: u64, way: [PathId; 2], of: SocketAddr) -> u64 {
        let keyed = keyed::<U16>(self.secret.as_ref())
            .chain_update(period.to_be_bytes())
            .chain_update(way.map(|one| one.index() as u8))
            .chain_update(of.port().to_be_bytes());
        let keyed = match of.ip() {
            IpAddr::V4(ip) => keyed.chain_update(ip.octets()),
            IpAddr::V6(ip) => keyed.chain_update(ip.octets()),
        };
        let mac: Tag = keyed.finalize().into_bytes().into();
        mac.iter()
            .take(8)
            .fold(0, |code, byte| code << 8 | u64::from(*byte))
            .max(1)
    }
}

fn period(now: Time) -> u64 {
    now.as_nanos() / CODE_LIFETIME.as_nanos() as u64
}

fn keyed<N>(key: &[u8]) -> Blake2sMac<N>
where
    N: blake2::digest::array::ArraySize
        + blake2::digest::typenum::IsLessOrEqual<U32, Output = blake2::digest::typenum::True>,
{
    Blake2sMac::new_from_slice(key).expect("every key here has 16 or 32 bytes")
}

fn mac(key: &[u8], message: &[u8]) -> Tag {
    let tag = keyed::<U16>(key).chain_update(message).finalize();
    tag.into_bytes().into()
}

/// Compares in constant time.
fn is_mac(key: &[u8], message: &[u8], tag: &[u8]) -> bool {
    let mac = keyed::<U16>(key).chain_update(message);
    mac.verify_slice(tag).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::PrivateKey;

    fn secret(byte: u8) -> CookieSecret {
        CookieSecret::new(Time::ZERO, Zeroizing::new([byte; 32]))
    }

    #[test]
    fn a_cookie_is_good_for_one_address_and_port() {
        let own = secret(1);
        let at: SocketAddr = "192.0.2.1:4754".parse().unwrap();
        let cookie = own.cookie(at);
        let tag = mac2(&cookie, b"message");
        assert!(own.is_mac2(at, b"message", &tag));
        for other in ["192.0.2.1:4755", "192.0.2.2:4754", "[2001:db8::1]:4754"] {
            assert!(!own.is_mac2(other.parse().unwrap(), b"message", &tag));
        }
        assert!(!own.is_mac2(at, b"massage", &tag));
        assert!(!secret(2).is_mac2(at, b"message", &tag));
    }

    #[test]
    fn a_cookie_is_opened_by_who_sent_the_message_alone() {
        let to = Addressee::new(&PrivateKey::from_random([1; 32]).public_key());
        let other = Addressee::new(&PrivateKey::from_random([2; 32]).public_key());
        let nonce = [3; COOKIE_NONCE_BYTES];
        let sealed = to.seal_cookie(&nonce, &[4; 16], &[5; 16]);
        assert_eq!(to.open_cookie(&nonce, &[4; 16], sealed), Some([5; 16]));
        assert_eq!(to.open_cookie(&nonce, &[6; 16], sealed), None);
        assert_eq!(to.open_cookie(&[7; 24], &[4; 16], sealed), None);
        assert_eq!(other.open_cookie(&nonce, &[4; 16], sealed), None);
    }

    #[test]
    fn a_code_is_of_one_address_path_and_socket_and_of_its_time() {
        let codes = AddressCodes::new(Zeroizing::new([1; 32]));
        let id = |index| PathId::new(index).unwrap();
        let [first, second, elsewhere] = [[0, 0], [1, 0], [0, 1]].map(|way| way.map(id));
        let at: SocketAddr = "192.0.2.1:4754".parse().unwrap();
        let now = Time::ZERO + CODE_LIFETIME * 7;
        let code = codes.code(now, first, at);
        let is = |now, path, at| codes.is_code(now, path, at, code);
        assert!(is(now, first, at) && is(now + CODE_LIFETIME, first, at));
        assert!(!is(now + CODE_LIFETIME * 2, first, at));
        assert!(!is(now, second, at) && !is(now, elsewhere, at));
        for other in ["192.0.2.1:4755", "192.0.2.2:4754", "[2001:db8::1]:4754"] {
            assert!(!is(now, first, other.parse().unwrap()));
        }
        assert!(!codes.is_code(now, first, at, 0));
    }

    #[test]
    fn hosts_with_a_whole_network_are_one_host() {
        let bucket = |at: &str| secret(1).bucket(at.parse().unwrap());
        assert_eq!(bucket("[2001:db8::1]:1"), bucket("[2001:db8::ffff]:2"));
    }
}

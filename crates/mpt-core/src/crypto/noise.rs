//! The key exchange: `Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s` by `snow`.
//!
//! IK means that the initiator knows the responder's static key beforehand and sends its own,
//! encrypted to it, in the first message: one round trip, and nobody on the way learns who calls.
//! psk2 mixes a preshared key in at the end of the second message. Each side adds an ephemeral key,
//! so what was recorded stays closed when a static key is stolen later.
//!
//! `snow` gets its primitives from here: ChaCha20-Poly1305 from `ring`, X25519 from
//! `x25519-dalek` and BLAKE2s from `blake2` (neither of which `ring` offers in a form that Noise can
//! use). That has two more ends. Randomness is an argument: an ephemeral key is made of 32 bytes that
//! the caller hands in. And secrets are wiped: each primitive wipes its own, and what `snow` keeps in
//! its state, chaining key and preshared key among it, is overwritten by a blank state. What the
//! functions of `snow` leave on the stack is out of reach.

use std::hint::black_box;

use blake2::{Blake2s256, Digest};
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::CryptoResolver;
use snow::types;
use snow::{Builder, Error, HandshakeState};
use x25519_dalek::{PublicKey as Point, StaticSecret};
use zeroize::Zeroizing;

use super::aead::{AeadKey, Cipher, TAG_BYTES};
use super::keys::{KEY_BYTES, PresharedKey, PrivateKey, PublicKey};

/// The protocol's name, which is hashed into everything.
const NOISE_NAME: &str = "Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s";
/// What is hashed in behind it: this tunnel's protocol and version.
const PROLOGUE: &[u8] = b"MPT 2";

/// What the first Noise message has beside its payload: ephemeral key, static key and tag, tag.
pub(super) const FIRST_BYTES: usize = KEY_BYTES + KEY_BYTES + 2 * TAG_BYTES;
/// What the second has: ephemeral key, tag.
pub(super) const SECOND_BYTES: usize = KEY_BYTES + TAG_BYTES;

/// Noise could not go on: the message was made for another key, or by another, or changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the handshake message does not open")]
pub(super) struct NotOpened;

/// What both ends have in common after a handshake, as this end uses it.
pub(super) struct Keys {
    pub(super) send: Zeroizing<[u8; KEY_BYTES]>,
    pub(super) receive: Zeroizing<[u8; KEY_BYTES]>,
}

/// This end's identity and whom it speaks with.
#[derive(Clone, Copy)]
pub(super) struct Identity<'a> {
    pub(super) private: &'a PrivateKey,
    pub(super) peer: &'a PublicKey,
    pub(super) psk: &'a PresharedKey,
}

/// An initiator that waits for the answer.
pub(super) struct Initiator(State);

impl Initiator {
    /// Writes the first message, [`FIRST_BYTES`] longer than `payload`, to `out`.
    pub(super) fn start(
        identity: Identity<'_>,
        ephemeral: Zeroizing<[u8; KEY_BYTES]>,
        payload: &[u8],
        out: &mut [u8],
    ) -> Result<Initiator, NotOpened> {
        let mut state = State::new(identity, ephemeral, true)?;
        let written = state.0.write_message(payload, out);
        written.map_err(|_| NotOpened)?;
        Ok(Initiator(state))
    }

    /// Reads the answer. One that does not open changes nothing: the right one may still come.
    pub(super) fn finish(&mut self, message: &[u8], payload: &mut [u8]) -> Result<Keys, NotOpened> {
        let read = self.0.0.read_message(message, payload);
        read.map_err(|_| NotOpened)?;
        let (send, receive) = self.0.0.dangerously_get_raw_split();
        Ok(Keys {
            send: Zeroizing::new(send),
            receive: Zeroizing::new(receive),
        })
    }
}

/// A responder that has read the first message.
pub(super) struct Responder(State);

impl Responder {
    /// Reads the first message and its payload. It is the caller's to look whether the peer wrote
    /// it: [`Responder::initiator`].
    pub(super) fn read(
        identity: Identity<'_>,
        ephemeral: Zeroizing<[u8; KEY_BYTES]>,
        message: &[u8],
        payload: &mut [u8],
    ) -> Result<Responder, NotOpened> {
        let mut state = State::new(identity, ephemeral, false)?;
        let read = state.0.read_message(message, payload);
        read.map_err(|_| NotOpened)?;
        Ok(Responder(state))
    }

    /// Who wrote the first message.
    pub(super) fn initiator(&self) -> Option<PublicKey> {
        let key = self.0.0.get_remote_static()?.first_chunk()?;
        Some(PublicKey::from_bytes(*key))
    }

    /// Writes the second message, [`SECOND_BYTES`] longer than `payload`, to `out`. The preshared key is mixed in
    /// here, whatever [`Responder::read`] was given.
    pub(super) fn answer(
        mut self,
        psk: &PresharedKey,
        payload: &[u8],
        out: &mut [u8],
    ) -> Result<Keys, NotOpened> {
        let set = self.0.0.set_psk(2, psk.bytes());
        set.map_err(|_| NotOpened)?;
        let written = self.0.0.write_message(payload, out);
        written.map_err(|_| NotOpened)?;
        let (receive, send) = self.0.0.dangerously_get_raw_split();
        Ok(Keys {
            send: Zeroizing::new(send),
            receive: Zeroizing::new(receive),
        })
    }
}

/// `snow`'s state in one place in memory, overwritten in the end.
struct State(Box<HandshakeState>);

impl State {
    fn new(
        identity: Identity<'_>,
        ephemeral: Zeroizing<[u8; KEY_BYTES]>,
        initiator: bool,
    ) -> Result<State, NotOpened> {
        let build = || {
            let builder = builder(NOISE_NAME, ephemeral)?
                .prologue(PROLOGUE)?
                .local_private_key(identity.private.bytes())?
                .psk(2, identity.psk.bytes())?;
            if initiator {
                let builder = builder.remote_public_key(identity.peer.bytes())?;
                builder.build_initiator()
            } else {
                builder.build_responder()
            }
        };
        match build() {
            Ok(state) => Ok(State(Box::new(state))),
            Err(_) => Err(NotOpened),
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        let blank = builder(
            "Noise_NN_25519_ChaChaPoly_BLAKE2s",
            Zeroizing::new([0; KEY_BYTES]),
        );
        if let Ok(blank) = blank.and_then(Builder::build_initiator) {
            *self.0 = blank;
            black_box(&mut self.0);
        }
    }
}

fn builder<'a>(name: &str, ephemeral: Zeroizing<[u8; KEY_BYTES]>) -> Result<Builder<'a>, Error> {
    let primitives = Box::new(Primitives { ephemeral });
    Ok(Builder::with_resolver(name.parse()?, primitives))
}

/// Where `snow` gets its primitives from.
struct Primitives {
    ephemeral: Zeroizing<[u8; KEY_BYTES]>,
}

impl CryptoResolver for Primitives {
    fn resolve_rng(&self) -> Option<Box<dyn types::Random>> {
        Some(Box::new(Handed(Some(self.ephemeral.clone()))))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn types::Dh>> {
        matches!(choice, DHChoice::Curve25519).then(|| Box::new(X25519::default()) as _)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn types::Hash>> {
        matches!(choice, HashChoice::Blake2s).then(|| Box::new(Blake2s(Blake2s256::new())) as _)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn types::Cipher>> {
        let blank = || AeadKey::new(Cipher::ChaCha20Poly1305, &[0; KEY_BYTES]);
        matches!(choice, CipherChoice::ChaChaPoly).then(|| Box::new(ChaChaPoly(blank())) as _)
    }
}

/// The bytes that an ephemeral key is made of; they are given out once.
struct Handed(Option<Zeroizing<[u8; KEY_BYTES]>>);

impl types::Random for Handed {
    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Error> {
        let bytes = self.0.take().ok_or(Error::Rng)?;
        if out.len() != bytes.len() {
            return Err(Error::Rng);
        }
        out.copy_from_slice(bytes.as_ref());
        Ok(())
    }
}

#[derive(Default)]
struct X25519 {
    private: Zeroizing<[u8; KEY_BYTES]>,
    public: [u8; KEY_BYTES],
}

impl types::Dh for X25519 {
    fn name(&self) -> &'static str {
        "25519"
    }

    fn pub_len(&self) -> usize {
        KEY_BYTES
    }

    fn priv_len(&self) -> usize {
        KEY_BYTES
    }

    fn set(&mut self, private: &[u8]) {
        self.private.copy_from_slice(private);
        self.public = Point::from(&StaticSecret::from(*self.private)).to_bytes();
    }

    fn generate(&mut self, random: &mut dyn types::Random) -> Result<(), Error> {
        let mut private = Zeroizing::new([0; KEY_BYTES]);
        random.try_fill_bytes(private.as_mut())?;
        self.set(private.as_ref());
        Ok(())
    }

    fn pubkey(&self) -> &[u8] {
        &self.public
    }

    fn privkey(&self) -> &[u8] {
        self.private.as_ref()
    }

    fn dh(&self, public: &[u8], out: &mut [u8]) -> Result<(), Error> {
        let public: [u8; KEY_BYTES] = match public.first_chunk() {
            Some(public) => *public,
            None => return Err(Error::Dh),
        };
        let shared = StaticSecret::from(*self.private).diffie_hellman(&Point::from(public));
        // A point of low order makes a secret that is none (RFC 7748 §6.1).
        if !shared.was_contributory() {
            return Err(Error::Dh);
        }
        out[..KEY_BYTES].copy_from_slice(shared.as_bytes());
        Ok(())
    }
}

struct Blake2s(Blake2s256);

impl types::Hash for Blake2s {
    fn name(&self) -> &'static str {
        "BLAKE2s"
    }

    fn block_len(&self) -> usize {
        64
    }

    fn hash_len(&self) -> usize {
        32
    }

    fn reset(&mut self) {
        self.0 = Blake2s256::new();
    }

    fn input(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    fn result(&mut self, out: &mut [u8]) {
        out[..32].copy_from_slice(&std::mem::take(&mut self.0).finalize());
    }
}

struct ChaChaPoly(AeadKey);

impl ChaChaPoly {
    /// Noise §12.3: 32 bits of zeros and the number, little end first.
    fn nonce(number: u64) -> [u8; 12] {
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&number.to_le_bytes());
        nonce
    }
}

impl types::Cipher for ChaChaPoly {
    fn name(&self) -> &'static str {
        "ChaChaPoly"
    }

    fn set(&mut self, key: &[u8; KEY_BYTES]) {
        self.0 = AeadKey::new(Cipher::ChaCha20Poly1305, key);
    }

    fn encrypt(&self, number: u64, associated: &[u8], plaintext: &[u8], out: &mut [u8]) -> usize {
        let (text, rest) = out.split_at_mut(plaintext.len());
        text.copy_from_slice(plaintext);
        let tag = self.0.seal(Self::nonce(number), associated, text);
        rest[..TAG_BYTES].copy_from_slice(&tag);
        plaintext.len() + TAG_BYTES
    }

    fn decrypt(
        &self,
        number: u64,
        associated: &[u8],
        ciphertext: &[u8],
        out: &mut [u8],
    ) -> Result<usize, Error> {
        let mut text = Zeroizing::new(ciphertext.to_vec());
        let len = self.0.open(Self::nonce(number), associated, &mut text);
        let len = len.ok_or(Error::Decrypt)?;
        let out = out.get_mut(..len).ok_or(Error::Decrypt)?;
        out.copy_from_slice(&text[..len]);
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(seed: u8) -> (PrivateKey, PublicKey) {
        let private = PrivateKey::from_random([seed; KEY_BYTES]);
        let public = private.public_key();
        (private, public)
    }

    fn ephemeral(seed: u8) -> Zeroizing<[u8; KEY_BYTES]> {
        Zeroizing::new([seed; KEY_BYTES])
    }

    #[test]
    fn both_ends_get_each_others_keys() {
        let ((a, a_public), (b, b_public)) = (end(1), end(2));
        let psk = PresharedKey::from_random([3; KEY_BYTES]);
        let (from_a, from_b) = (
            Identity {
                private: &a,
                peer: &b_public,
                psk: &psk,
            },
            Identity {
                private: &b,
                peer: &a_public,
                psk: &psk,
            },
        );
        let mut first = [0; FIRST_BYTES + 5];
        let mut a = Initiator::start(from_a, ephemeral(4), b"hello", &mut first).unwrap();
        let mut payload = [0; 5];
        let b = Responder::read(from_b, ephemeral(5), &first, &mut payload).unwrap();
        assert_eq!(payload, *b"hello");
        assert_eq!(b.initiator(), Some(a_public));
        let mut second = [0; SECOND_BYTES + 3];
        let b = b.answer(&psk, b"you", &mut second).unwrap();

        let mut payload = [0; 3];
        for at in 0..second.len() {
            let mut forged = second;
            forged[at] ^= 1;
            assert!(a.finish(&forged, &mut payload).is_err(), "{at}");
        }
        let a = a.finish(&second, &mut payload).unwrap();
        assert_eq!(payload, *b"you");
        assert_eq!((&a.send, &a.receive), (&b.receive, &b.send));
        assert_ne!(a.send, a.receive);
    }

    #[test]
    fn a_point_of_low_order_makes_no_secret() {
        let (private, _) = end(1);
        let mut out = [0; KEY_BYTES];
        let mut dh = X25519::default();
        types::Dh::set(&mut dh, private.bytes());
        assert!(types::Dh::dh(&dh, &[0; KEY_BYTES], &mut out).is_err());
    }
}

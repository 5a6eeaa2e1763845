//! Trust: only the peer can read what is sent, and only what the peer sent is taken.
//!
//! Without keys a tunnel is open to anybody on the way. With them, two ends that know each other's public
//! keys agree on keys of their own for every session, and seal every packet with those. The design is
//! WireGuard's (Donenfeld, NDSS 2017), fitted to a tunnel of many paths:
//!
//! * [`Sessions`] is the state machine: handshakes, which keys seal and open, when new ones are due.
//!   It belongs to the line in. Messages and times go in, messages, keys and events come out; time is
//!   an argument, and so is randomness ([`Entropy`]).
//! * [`DataSealer`] is what the line out gets of a session. Data and control messages have numbers, and so
//!   nonces, of their own: the two threads share no counter.
//! * [`PrivateKey`], [`PublicKey`], [`PresharedKey`] are what a person handles.
//!
//! What arrives in a tunnel with keys is one of two things: a datagram of Protocol Type 0x88B6, for
//! [`Sessions::open`], or a control message of kinds 3 to 5, for [`Sessions::handle_message`]. All else is
//! dropped.
//!
//! The primitives are those of audited crates: AES-256-GCM and ChaCha20-Poly1305 of `ring`, X25519 of
//! `x25519-dalek`, BLAKE2s of `blake2`, put together by `snow` (see `noise.rs`, and `aead.rs` on how
//! keys are wiped).

mod aead;
mod budget;
mod handshake;
mod index;
mod keys;
mod mac;
mod noise;
mod opener;
mod packet;
mod reception;
mod replay;
mod sealer;
mod sessions;
#[cfg(test)]
mod vectors;
mod wire;

use std::time::Duration;

use crate::time::Time;

pub use aead::{Cipher, TAG_BYTES, has_hardware_aes};
pub use handshake::{HandshakeTransmit, Refused, Sender};
pub use index::HubSlot;
pub use keys::{KEY_BYTES, KEY_CHARACTERS, KeyError, PresharedKey, PrivateKey, PublicKey};
pub use mac::CODE_LIFETIME;
pub use opener::{DATA_WINDOW, OpenError, Opened};
pub use packet::{
    CONTROL_HEAD_BYTES, CONTROL_OVERHEAD, DATA_HEAD_BYTES, DATA_OVERHEAD, Route, claimed_index,
    claimed_route, lay_out, restore,
};
pub use reception::{Caller, InitiationTag, Moment, Reception, TurnedAway, claimed_answer};
pub use replay::ReplayWindow;
pub use sealer::{DataSealer, SealError};
pub use sessions::{
    Calm, KeyChange, OLD_KEYS_KEPT, REJECT_AFTER, REKEY_AFTER, SessionEvent, Sessions,
};
pub use wire::{COOKIE_REPLY_BYTES, INITIATION_BYTES, RESPONSE_BYTES};

/// Fills a slice with random bytes that nobody can foresee: `getrandom`, or a seeded generator
/// in a simulation.
pub type Entropy = Box<dyn FnMut(&mut [u8]) + Send>;

/// How long after 1970 it is at this moment: the wall clock, which may be set at any time.
pub type WallClock = Box<dyn FnMut(Time) -> Duration + Send>;

/// Who the two ends are.
#[derive(Debug, Clone)]
pub struct CryptoConfig {
    /// This end.
    pub private_key: PrivateKey,
    /// The peer.
    pub peer_public_key: PublicKey,
    /// A secret of both; [`PresharedKey::none`] where there is none.
    pub psk: PresharedKey,
    /// This end's session: random, new at each start, not 0. The peer tells by it that it has to do with
    /// one that has begun anew.
    pub session: u64,
    /// This end has AES in hardware: [`has_hardware_aes`].
    pub hardware_aes: bool,
}

//! Trust: keys.

mod keys;

pub use keys::{KEY_BYTES, KEY_CHARACTERS, KeyError, PresharedKey, PrivateKey, PublicKey};

//! Trust: keys.

mod keys;

pub use keys::{KEY_BYTES, KEY_CHARACTERS, KeyError, PresharedKey, PrivateKey, PublicKey};

/// Overhead.
pub const DATA_OVERHEAD: usize = 30;

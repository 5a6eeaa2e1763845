//! `mpt-ctl genkey`, `pubkey` and `genpsk`: keys to standard output, as `wg` makes them. No daemon is
//! asked. A secret that goes into a file which everybody may read gets a warning on the way.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;

use mpt_core::crypto::{KEY_BYTES, KEY_CHARACTERS, KeyError, PresharedKey, PrivateKey};
use rustix::rand::{GetRandomFlags, getrandom};
use thiserror::Error;
use zeroize::Zeroizing;

/// Longest input that is read for a key, in bytes: the key and white space around it.
const MAX_INPUT_BYTES: u64 = 4 * KEY_CHARACTERS as u64;
/// What others than owner and group may do.
const WORLD_ACCESS: u32 = 0o007;

/// What to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyCommand {
    /// A private key.
    Generate,
    /// A preshared key.
    GeneratePreshared,
    /// The public key to the private key on standard input.
    Public,
}

/// Why there is no key.
#[derive(Debug, Error)]
pub(crate) enum KeyFailure {
    #[error("no random numbers to be had: {0}")]
    Random(io::Error),
    #[error(
        "standard input cannot be read: {0}; give a private key, as in `mpt-ctl pubkey < private.key`"
    )]
    Input(io::Error),
    #[error("standard input is not a private key: {0}; `mpt-ctl genkey` makes one")]
    NotAKey(KeyError),
    #[error("cannot write the key: {0}")]
    Output(#[from] io::Error),
}

/// Makes the key and writes it to standard output, on a line of its own.
pub(crate) fn run(command: KeyCommand) -> Result<(), KeyFailure> {
    let text = match command {
        KeyCommand::Generate => PrivateKey::from_random(*random()?).to_base64(),
        KeyCommand::GeneratePreshared => PresharedKey::from_random(*random()?).to_base64(),
        KeyCommand::Public => Zeroizing::new(read_private_key()?.public_key().to_string()),
    };
    if command != KeyCommand::Public && goes_where_all_may_read() {
        eprintln!(
            "mpt-ctl: warning: the secret goes into a file that everybody may read or write; \
             set `umask 077` and make another one"
        );
    }
    let mut out = io::stdout().lock();
    writeln!(out, "{}", *text)?;
    out.flush()?;
    Ok(())
}

/// Random bytes for a key.
pub(crate) fn random() -> Result<Zeroizing<[u8; KEY_BYTES]>, KeyFailure> {
    let mut bytes = Zeroizing::new([0; KEY_BYTES]);
    let mut filled = 0;
    while filled < KEY_BYTES {
        // Interrupted it may be, short it is not below 256 bytes.
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(KeyFailure::Random(error.into())),
        }
    }
    Ok(bytes)
}

fn read_private_key() -> Result<PrivateKey, KeyFailure> {
    let mut text = Zeroizing::new(String::with_capacity(MAX_INPUT_BYTES as usize));
    io::stdin()
        .lock()
        .take(MAX_INPUT_BYTES)
        .read_to_string(&mut text)
        .map_err(KeyFailure::Input)?;
    PrivateKey::from_base64(&text).map_err(KeyFailure::NotAKey)
}

/// Whether standard output is a file that others than its owner and group may read or write.
fn goes_where_all_may_read() -> bool {
    let metadata = io::stdout()
        .as_fd()
        .try_clone_to_owned()
        .and_then(|descriptor| File::from(descriptor).metadata());
    metadata.is_ok_and(|file| file.is_file() && file.permissions().mode() & WORLD_ACCESS != 0)
}

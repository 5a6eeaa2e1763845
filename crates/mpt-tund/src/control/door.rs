//! A Unix socket that the daemon listens at, whoever made it.

use std::os::unix::net::UnixListener;
use std::path::Path;

use super::Listener;
use crate::files::KeptDoor;

/// A bound socket. Dropping it removes the file.
#[derive(Debug)]
pub(crate) enum Door {
    /// This process made it.
    Own(Listener),
    /// The process that keeps the files did.
    Kept(KeptDoor),
}

impl Door {
    /// The socket itself, non-blocking.
    pub(crate) fn socket(&self) -> std::io::Result<UnixListener> {
        match self {
            Door::Own(listener) => listener.socket(),
            Door::Kept(door) => door.socket(),
        }
    }

    /// Looks whether its file is still there; if not, another takes its place. Whether one did.
    ///
    /// # Errors
    /// When none can be made.
    pub(crate) fn restore(&mut self) -> anyhow::Result<bool> {
        match self {
            Door::Own(listener) => match listener.restored() {
                Some(restored) => {
                    *listener = restored?;
                    Ok(true)
                }
                None => Ok(false),
            },
            Door::Kept(door) => Ok(door.look()?),
        }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Door::Own(listener) => listener.path(),
            Door::Kept(door) => door.path(),
        }
    }
}

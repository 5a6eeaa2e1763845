//! Bytes that one line may have under way to another. In every order of two threads: `tests/halves`.

use super::counts::{Arc, AtomicUsize, Ordering};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Room(AtomicUsize);

/// Some of it, until it is dropped.
#[derive(Debug)]
pub(super) struct Held(Arc<Room>, usize);

impl Room {
    /// Takes so many bytes, if there are as many of `most`. One thread alone takes, so that it is enough to look first.
    pub(super) fn take(room: &Arc<Room>, bytes: usize, most: usize) -> Option<Held> {
        if room.taken() + bytes > most {
            return None;
        }
        room.0.fetch_add(bytes, Ordering::Relaxed);
        Some(Held(room.clone(), bytes))
    }

    /// Bytes that are taken. A mere count: what it counts is passed on by the channel.
    pub(super) fn taken(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.0.fetch_sub(self.1, Ordering::Relaxed);
    }
}

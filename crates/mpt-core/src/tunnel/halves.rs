//! What the two halves tell each other without a lock, where it matters in which order the other sees it.
//!
//! `tests/halves` includes this file with loom's atomics, and goes through every order in which two threads may
//! see each other's accesses; and once more with all orderings relaxed, which has to go wrong.

use super::atomics::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

/// What has been sent. Written by the line out, after the fact: who sees that everything below a number has been
/// sent sees on which paths, too.
#[derive(Debug)]
pub(crate) struct Numbers<const PATHS: usize> {
    /// Everything below has been sent.
    next: AtomicU32,
    /// One more than the highest number that was sent on each path; 0 for none.
    last_on: [AtomicU64; PATHS],
}

impl<const PATHS: usize> Numbers<PATHS> {
    pub(crate) fn new(next: u32) -> Self {
        Numbers {
            next: AtomicU32::new(next),
            last_on: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Everything below has been sent. To be read before [`Numbers::last_on`].
    pub(crate) fn next(&self) -> u32 {
        self.next.load(Ordering::Acquire)
    }

    /// Everything below has been sent. To be written after [`Numbers::set_last_on`].
    pub(crate) fn set_next(&self, next: u32) {
        self.next.store(next, Ordering::Release);
    }

    /// The highest number that was sent on the path, if any was.
    pub(crate) fn last_on(&self, path: usize) -> Option<u32> {
        let last = self.last_on[path].load(Ordering::Acquire);
        last.checked_sub(1).map(|last| last as u32)
    }

    pub(crate) fn set_last_on(&self, path: usize, last: u32) {
        self.last_on[path].store(u64::from(last) + 1, Ordering::Release);
    }

    pub(crate) fn forget(&self, path: usize) {
        self.last_on[path].store(0, Ordering::Relaxed);
    }
}

/// Paths that swallow what they are given, as the line out sees it, and those of them for which nothing is left to
/// be sent again: bits in one word, so that both are of one moment. Written by the line out.
#[derive(Debug)]
pub(crate) struct Suspicion(AtomicU32);

impl Suspicion {
    pub(crate) fn new() -> Suspicion {
        Suspicion(AtomicU32::new(0))
    }

    /// To be written before [`Numbers::set_next`]: who sees that a number was sent over a path sees that it is
    /// not given up any more.
    pub(crate) fn tell(&self, suspected: u16, abandoned: u16) {
        let bits = u32::from(suspected) | u32::from(abandoned) << 16;
        self.0.store(bits, Ordering::Relaxed);
    }

    /// Which paths are suspected, and which abandoned. To be read after [`Numbers::next`].
    pub(crate) fn told(&self) -> (u16, u16) {
        let bits = self.0.load(Ordering::Relaxed);
        (bits as u16, (bits >> 16) as u16)
    }
}

/// How the line out wakes the line in, which sleeps for long while nothing is carried: either the line in sees
/// that something was carried, or the line out sees that the line in is to be woken, or both.
#[derive(Debug)]
pub(crate) struct Wake {
    /// Changes whenever the line out was given packets; written by it.
    carried: AtomicU32,
    /// Nothing is carried, and the line in wants to be woken when that changes; written by both.
    idle: AtomicBool,
}

impl Wake {
    pub(crate) fn new() -> Wake {
        Wake {
            carried: AtomicU32::new(0),
            idle: AtomicBool::new(false),
        }
    }

    /// The line out has handed on what it was given. Returns whether the line in is to be woken.
    pub(crate) fn note_carried(&self) -> bool {
        self.carried.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        // Only a change is written: a second "awake" must not follow the next "asleep".
        self.idle.load(Ordering::Relaxed)
            && self
                .idle
                .compare_exchange(true, false, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    /// Another number than before: something was carried.
    pub(crate) fn carried(&self) -> u32 {
        self.carried.load(Ordering::Relaxed)
    }

    /// The line in goes to sleep. It has to look at [`Wake::carried`] once more: what was carried in this moment
    /// wakes nobody.
    pub(crate) fn sleep(&self) {
        self.idle.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Whether nothing is carried, as the line in saw it last.
    #[allow(dead_code, reason = "the models of the orders of accesses do not ask")]
    pub(crate) fn is_idle(&self) -> bool {
        self.idle.load(Ordering::Relaxed)
    }

    /// The line in is awake.
    pub(crate) fn stay(&self) {
        self.idle.store(false, Ordering::Relaxed);
    }
}

//! All orderings relaxed, and no fences.

pub(crate) mod atomics {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

    pub(crate) fn fence(_: loom::sync::atomic::Ordering) {}

    /// In the place of the type of that name.
    #[allow(non_snake_case, non_upper_case_globals)]
    pub(crate) mod Ordering {
        use loom::sync::atomic::Ordering;

        pub(crate) const Relaxed: Ordering = Ordering::Relaxed;
        pub(crate) const Acquire: Ordering = Ordering::Relaxed;
        pub(crate) const Release: Ordering = Ordering::Relaxed;
        pub(crate) const SeqCst: Ordering = Ordering::Relaxed;
    }
}

#[path = "../../crates/mpt-core/src/tunnel/halves.rs"]
#[allow(dead_code, unreachable_pub, reason = "the core uses all of it")]
pub(crate) mod halves;

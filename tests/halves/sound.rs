//! The orderings as they are.

pub(crate) mod atomics {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
}

#[path = "../../crates/mpt-core/src/tunnel/halves.rs"]
#[allow(dead_code, unreachable_pub, reason = "the core uses all of it")]
pub(crate) mod halves;

//! What tests of several modules share.

use tokio::runtime::{Builder, Runtime};

/// A runtime in which time stands still unless all wait.
pub(crate) fn paused_runtime() -> Runtime {
    Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime of one thread")
}

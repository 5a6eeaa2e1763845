//! The threads of a tunnel's two lines.

use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::thread::{self, JoinHandle};

use anyhow::Context as _;
use rustix::thread::CapabilitySet;
use tokio::runtime;
use tokio::sync::mpsc;

use crate::privileges;

/// A tunnel's thread has ended.
#[derive(Debug)]
pub(crate) struct Ending {
    /// The tunnel's name.
    pub(crate) tunnel: String,
    /// The session that it ran: the tunnel may have been started again since.
    pub(crate) session: u64,
    /// Why.
    pub(crate) result: io::Result<()>,
}

/// Says that a tunnel's thread has ended, and why.
pub(crate) type Ended = mpsc::UnboundedSender<Ending>;

/// Runs a line on a thread of its own with a runtime of its own. `whose` are the tunnel's name and its
/// session.
pub(super) fn spawn<F, L>(
    thread_name: &str,
    whose: (&str, u64),
    ended: &Ended,
    line: L,
) -> anyhow::Result<JoinHandle<()>>
where
    L: FnOnce() -> F + Send + 'static,
    F: Future<Output = io::Result<()>>,
{
    let (ended, tunnel, session) = (ended.clone(), whose.0.to_owned(), whose.1);
    let body = move || {
        // From here on packets of strangers come in.
        if let Err(error) = privileges::keep(CapabilitySet::empty()) {
            tracing::warn!("tunnel {tunnel}: a thread keeps its privileges: {error}");
        }
        let run = || {
            runtime::Builder::new_current_thread()
                .enable_io()
                .build()
                .and_then(|runtime| tokio::task::LocalSet::new().block_on(&runtime, line()))
        };
        // The tunnel cannot go on with one line; the daemon must hear of it.
        let result = panic::catch_unwind(AssertUnwindSafe(run))
            .unwrap_or_else(|_| Err(io::Error::other("one of its threads panicked")));
        // At the end of the daemon nobody listens any more.
        let _ = ended.send(Ending {
            tunnel,
            session,
            result,
        });
    };
    thread::Builder::new()
        .name(thread_name.to_owned())
        .spawn(body)
        .context("cannot start a thread")
}

//! The thread that listens at one place.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use anyhow::Context as _;
use rustix::thread::CapabilitySet;
use tokio::runtime;
use tokio::sync::{mpsc, oneshot};

use super::page::Pages;
use super::{Asked, Socket, serve};
use crate::privileges;

/// Its name in `ps`.
const NAME: &str = "mpt-metrics";

/// A thread that listens. Dropping it ends it, and waits for that.
#[derive(Debug)]
pub(super) struct Exporter {
    tunnels: Arc<Mutex<Vec<String>>>,
    /// Hanging up ends the thread.
    goes_on: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Exporter {
    /// Begins to serve these tunnels' numbers there.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub(super) fn begin(
        socket: Socket,
        tunnels: &[String],
        measuring: &mpsc::Sender<Asked>,
    ) -> anyhow::Result<Exporter> {
        let tunnels = Arc::new(Mutex::new(tunnels.to_vec()));
        let (goes_on, ended) = oneshot::channel();
        let pages = Pages::new(tunnels.clone(), measuring.clone());
        let thread = thread::Builder::new()
            .name(NAME.to_owned())
            .spawn(move || run(socket, pages, ended))
            .context("cannot start a thread")?;
        Ok(Exporter {
            tunnels,
            goes_on: Some(goes_on),
            thread: Some(thread),
        })
    }

    /// Serves these from now on.
    pub(super) fn set_tunnels(&self, tunnels: &[String]) {
        let mut own = self.tunnels.lock().unwrap_or_else(PoisonError::into_inner);
        *own = tunnels.to_vec();
    }

    /// Whether it has ended by itself, which is not meant to happen.
    pub(super) fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.goes_on = None;
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported.
            let _ = thread.join();
        }
    }
}

fn run(socket: Socket, pages: Pages, ended: oneshot::Receiver<()>) {
    // From here on requests of strangers come in.
    if let Err(error) = privileges::keep(CapabilitySet::empty()) {
        tracing::warn!("the thread for metrics keeps its privileges: {error}");
    }
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    let served = runtime.and_then(|runtime| {
        runtime.block_on(async {
            tokio::select! {
                served = serve::serve(socket, &pages) => served,
                // Nothing is sent.
                _ = ended => Ok(()),
            }
        })
    });
    if let Err(error) = served {
        tracing::warn!("metrics cannot be served: {error}");
    }
}

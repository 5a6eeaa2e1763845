//! A path's socket, and the task that waits for it and hands what comes to a line in.
//!
//! All tasks of a line run on its thread and share it; none holds it while it waits.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use mpt_core::path::PathId;
use tokio::io::Ready;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

use crate::udp::PathSocket;

/// Batches that are still taken from a socket that is to be closed.
const MAX_LAST_BATCHES: usize = 64;
/// So often in a row a socket may fail to receive, as with a flood of errors from the network …
const MAX_FAILURES: u32 = 20;
/// … with a pause of this after each.
const FAILURE_PAUSE: Duration = Duration::from_millis(50);

/// A line in, as the tasks of its sockets see it.
pub(crate) trait Line {
    /// A path, as lines of the log name it.
    fn place(&self, id: PathId) -> String;

    /// Receives one batch. Returns whether more may wait.
    fn receive(&mut self, id: PathId, socket: &PathSocket) -> io::Result<bool>;

    /// Reads what the network said of datagrams that did not arrive. Returns whether more may wait.
    fn take_errors(&mut self, id: PathId, socket: &PathSocket) -> bool;

    /// Asks the control thread for another socket in place of one that fails.
    fn replace(&self, id: PathId);

    /// Takes what waits in a socket that is to be closed.
    fn receive_last(&mut self, id: PathId, socket: &PathSocket) {
        for _ in 0..MAX_LAST_BATCHES {
            if !self.receive(id, socket).unwrap_or(false) {
                break;
            }
        }
    }
}

/// A path's socket, and the task that waits for it.
pub(crate) struct Open {
    pub(crate) socket: Arc<PathSocket>,
    task: JoinHandle<()>,
    /// Datagrams that the socket dropped.
    pub(crate) drops: u32,
}

impl Open {
    /// Watches `socket` for `line`; `wake` is told when something came.
    pub(crate) fn new<L: Line + 'static>(
        line: &Rc<RefCell<L>>,
        wake: &Rc<Notify>,
        id: PathId,
        socket: Arc<PathSocket>,
    ) -> Open {
        let task = watch(line.clone(), wake.clone(), id, socket.clone());
        Open {
            socket,
            task: tokio::task::spawn_local(task),
            drops: 0,
        }
    }

    /// Says when the socket, if there is one, is closed.
    pub(crate) fn close(open: Option<Open>, done: oneshot::Sender<()>) {
        tokio::task::spawn_local(async move {
            if let Some(mut open) = open {
                // The task has the socket, too, until it is ended.
                open.task.abort();
                let _ = (&mut open.task).await;
            }
            let _ = done.send(());
        });
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Waits for one path's socket and works off what comes.
async fn watch<L: Line>(
    line: Rc<RefCell<L>>,
    wake: Rc<Notify>,
    id: PathId,
    socket: Arc<PathSocket>,
) {
    let place = line.borrow().place(id);
    let fd = match socket.register() {
        Ok(fd) => fd,
        Err(error) => {
            tracing::error!("{place} cannot watch its socket: {error}");
            return;
        }
    };
    let mut failures = 0;
    loop {
        match wait_and_receive(&line, id, &fd).await {
            Ok(()) => failures = 0,
            Err(error) if failures == MAX_FAILURES => {
                tracing::error!("{place} cannot receive, and is to have another socket: {error}");
                return line.borrow().replace(id);
            }
            Err(error) => {
                tracing::debug!("{place} cannot receive: {error}");
                failures += 1;
                tokio::time::sleep(FAILURE_PAUSE).await;
            }
        }
        wake.notify_one();
        tokio::task::yield_now().await;
    }
}

async fn wait_and_receive<L: Line>(
    line: &RefCell<L>,
    id: PathId,
    fd: &AsyncFd<Arc<PathSocket>>,
) -> io::Result<()> {
    let mut ready = fd.ready(PathSocket::INTEREST).await?;
    let mut line = line.borrow_mut();
    if ready.ready().is_error() && !line.take_errors(id, fd.get_ref()) {
        ready.clear_ready_matching(Ready::ERROR);
    }
    // Also after an error: a pending one ends a batch before the socket is empty.
    if !line.receive(id, fd.get_ref())? {
        ready.clear_ready_matching(Ready::READABLE);
    }
    Ok(())
}

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

use crate::clock::{self, Timer};
use crate::udp::PathSocket;

/// Batches that are still taken from a socket that is to be closed.
const MAX_LAST_BATCHES: usize = 64;
/// So often in a row a socket may fail to receive, as with a flood of errors from the network …
const MAX_FAILURES: u32 = 20;
/// … with a pause of this after each.
const FAILURE_PAUSE: Duration = Duration::from_millis(50);
/// A socket that cannot be watched is replaced after this.
const START_PAUSE: Duration = Duration::from_secs(1);

/// After a batch of calls others have their turn for this long. So at most 16,000 calls a second are read, of which a hub
/// works on 200 as they come; with 99,000 a second its line in was busy for 0.54 and 0.55 of a processor, where it is for 0.52
/// when these go to a port where nobody reads (`benches/hub --greedy 20`).
const CALLS_PAUSE: Duration = Duration::from_millis(1);

/// A line in, as the tasks of its sockets see it.
pub(crate) trait Line {
    /// A path, as lines of the log name it.
    fn place(&self, id: PathId) -> String;

    /// Receives one batch. Returns whether more may wait.
    fn receive(&mut self, id: PathId, socket: &PathSocket) -> io::Result<bool>;

    /// Reads what the network said of datagrams that did not arrive. Returns whether more may wait.
    fn take_errors(&mut self, id: PathId, socket: &PathSocket) -> bool;

    /// Asks the control thread for another socket in place of one that fails. Returns whether it was asked: it may
    /// have no time now.
    fn replace(&self, id: PathId) -> bool;

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

    /// Says when the sockets, if there are any, are closed.
    pub(crate) fn close(open: impl IntoIterator<Item = Open> + 'static, done: oneshot::Sender<()>) {
        tokio::task::spawn_local(async move {
            for mut open in open {
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
    let is_for_calls = socket.is_for_calls();
    let place = line.borrow().place(id);
    // The line's runtime has no timers.
    let begun = socket
        .register()
        .and_then(|fd| Timer::new().map(|timer| (fd, timer)));
    let (fd, mut timer) = match begun {
        Ok(begun) => begun,
        // Mostly there are no descriptors left.
        Err(error) => {
            tracing::error!("{place} cannot watch its socket, and is to have another one: {error}");
            loop {
                let pause = || std::thread::sleep(START_PAUSE);
                let _ = tokio::task::spawn_blocking(pause).await;
                if line.borrow().replace(id) {
                    return;
                }
            }
        }
    };
    let mut failures = 0;
    loop {
        match wait_and_receive(&line, id, &fd).await {
            Ok(()) => failures = 0,
            Err(error) => {
                tracing::debug!("{place} cannot receive: {error}");
                if failures == MAX_FAILURES {
                    tracing::error!(
                        "{place} cannot receive, and is to have another socket: {error}"
                    );
                    if line.borrow().replace(id) {
                        return;
                    }
                    failures = 0;
                }
                failures += 1;
                timer.wake_by(Some(clock::now() + FAILURE_PAUSE));
                timer.elapsed().await;
            }
        }
        wake.notify_one();
        if is_for_calls {
            timer.wake_by(Some(clock::now() + CALLS_PAUSE));
            timer.elapsed().await;
        } else {
            tokio::task::yield_now().await;
        }
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::net::UdpSocket;

    use super::*;
    use mpt_io::Offload;

    /// A line whose socket always fails.
    #[derive(Default)]
    struct Failing {
        failed: u32,
        asked: Cell<u32>,
        replaced: Rc<Notify>,
    }

    impl Line for Failing {
        fn place(&self, _: PathId) -> String {
            String::new()
        }

        fn receive(&mut self, _: PathId, _: &PathSocket) -> io::Result<bool> {
            self.failed += 1;
            Err(io::Error::other("of a test"))
        }

        fn take_errors(&mut self, _: PathId, _: &PathSocket) -> bool {
            false
        }

        fn replace(&self, _: PathId) -> bool {
            self.asked.set(self.asked.get() + 1);
            // The first time the control thread has no time.
            let is_heard = self.asked.get() > 1;
            if is_heard {
                self.replaced.notify_one();
            }
            is_heard
        }
    }

    #[test]
    fn a_socket_that_fails_is_tried_again_for_a_second_until_another_is_asked_for() {
        let local = "127.0.0.1:0".parse().unwrap();
        let socket = Arc::new(PathSocket::open(local, None, Offload::Off).unwrap());
        let sender = UdpSocket::bind(local).unwrap();
        sender.send_to(&[1], socket.local_addr()).unwrap();
        let line = Failing::default();
        let replaced = line.replaced.clone();
        let line = Rc::new(RefCell::new(line));
        // As a line's thread has it.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .unwrap();
        let began = std::time::Instant::now();
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let id = PathId::new(0).unwrap();
            let wake = Rc::new(Notify::new());
            let _open = Open::new(&line, &wake, id, socket);
            replaced.notified().await;
        });
        assert_eq!(line.borrow().failed, 2 * MAX_FAILURES + 1);
        assert!(began.elapsed() >= FAILURE_PAUSE * 2 * MAX_FAILURES);
    }
}

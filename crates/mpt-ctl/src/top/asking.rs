//! The thread that asks the daemon: how the tunnel does, at an interval, and what somebody wishes, at once.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use mpt_core::control::{Answer, Request, Status};

use crate::client::{self, ClientError};

/// Answers that may wait to be seen, and wishes to be asked.
const MAX_WAITING: usize = 4;

/// What the daemon has said; in words where it has not.
#[derive(Debug)]
pub(super) enum News {
    /// How the tunnel does.
    Status(Result<Box<Status>, String>),
    /// What was wished for.
    Done(Result<String, String>),
}

/// The thread's other end. The thread ends with it, after the question that is under way.
pub(super) struct Asking {
    wishes: SyncSender<Request>,
    news: Receiver<News>,
}

impl Asking {
    /// Asks at `socket` from now on.
    pub(super) fn start(socket: PathBuf, interval: Duration) -> Asking {
        let (wishes, wished) = mpsc::sync_channel(MAX_WAITING);
        let (told, news) = mpsc::sync_channel(MAX_WAITING);
        thread::spawn(move || {
            // Whoever hears nothing any more has ended.
            let _ = ask_on(&socket, interval, &wished, &told);
        });
        Asking { wishes, news }
    }

    /// Asks for this as soon as the daemon has answered. More wishes than wait already are not heard.
    pub(super) fn wish(&self, request: Request) {
        let _ = self.wishes.try_send(request);
    }

    /// What is new.
    pub(super) fn news(&self) -> Option<News> {
        self.news.try_recv().ok()
    }
}

fn ask_on(
    socket: &Path,
    interval: Duration,
    wished: &Receiver<Request>,
    told: &SyncSender<News>,
) -> Result<(), mpsc::SendError<News>> {
    let mut due = Instant::now() + interval;
    loop {
        match wished.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Ok(request) => {
                let done = client::ask(socket, &request).and_then(sentence);
                told.send(News::Done(done.map_err(|error| error.to_string())))?;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        // Also after a wish, to see what came of it.
        due = Instant::now() + interval;
        let answer = client::ask(socket, &Request::Status).and_then(status);
        told.send(News::Status(answer.map_err(|error| error.to_string())))?;
    }
}

/// A status, if it is one.
pub(super) fn status(answer: Answer) -> Result<Box<Status>, ClientError> {
    let Answer::Status(status) = answer else {
        return Err(client::unasked());
    };
    Ok(status)
}

fn sentence(answer: Answer) -> Result<String, ClientError> {
    let Answer::Done(sentence) = answer else {
        return Err(client::unasked());
    };
    Ok(sentence)
}

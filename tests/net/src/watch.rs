//! Asks both ends for their status while things break, and holds what they say against the pings.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::echo::Ears;

/// Time between two questions.
const STEP: Duration = Duration::from_millis(100);
/// Pings that fail for this long cannot go with "all is well".
const TELLING: Duration = Duration::from_secs(2);
/// Time until what is said is asked for again.
const SECOND_LOOK: Duration = Duration::from_millis(400);
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Watches the status of two daemons.
#[derive(Debug)]
pub struct Watch {
    over: Arc<AtomicBool>,
    lies: Arc<Mutex<Vec<Lie>>>,
    thread: Option<JoinHandle<()>>,
}

/// "All is well" while pings fail.
#[derive(Debug, Clone)]
pub struct Lie {
    /// When it was said.
    pub at: Instant,
    /// Which end said it: 0 for the client, 1 for the server.
    pub end: usize,
    /// How long no ping had been answered.
    pub silence: Duration,
}

impl Watch {
    /// Watches the daemons that answer at these sockets.
    #[must_use]
    pub fn start(sockets: [PathBuf; 2], ears: Ears) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let lies = Arc::new(Mutex::new(Vec::new()));
        let (until, found) = (Arc::clone(&over), Arc::clone(&lies));
        let thread = std::thread::spawn(move || {
            while !until.load(Ordering::Relaxed) {
                for (end, socket) in sockets.iter().enumerate() {
                    let (at, silence) = (Instant::now(), ears.silence());
                    if silence <= TELLING {
                        continue;
                    }
                    // Twice: the first ping over a path that has just come up is under way.
                    let is_well = || ask(socket).is_some_and(|status| level(&status) == "ok");
                    let insists = is_well() && {
                        std::thread::sleep(SECOND_LOOK);
                        ears.silence() > silence && is_well()
                    };
                    if insists {
                        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                        found.push(Lie { at, end, silence });
                    }
                }
                std::thread::sleep(STEP);
            }
        });
        Self {
            over,
            lies,
            thread: Some(thread),
        }
    }

    /// What was said since `from` that was not so.
    #[must_use]
    pub fn lies(&self, from: Instant) -> Vec<Lie> {
        let lies = self.lies.lock().unwrap_or_else(PoisonError::into_inner);
        lies.iter().filter(|lie| lie.at >= from).cloned().collect()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The status that the daemon at this socket gives, as `mpt-ctl --json status` prints it; `None` when it
/// does not answer.
#[must_use]
pub fn ask(socket: &Path) -> Option<Value> {
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.write_all(b"{\"command\":\"status\"}\n").ok()?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).ok()?;
    let mut reply: Value = serde_json::from_str(&line).ok()?;
    Some(reply.get_mut("ok")?.get_mut("status")?.take())
}

/// The level of a status' verdict.
#[must_use]
pub fn level(status: &Value) -> &str {
    status["verdict"]["level"].as_str().unwrap_or_default()
}

/// Codes and sentences of a status' verdict, the most important first.
#[must_use]
pub fn messages(status: &Value) -> Vec<(String, String)> {
    let messages = status["verdict"]["messages"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let field = |message: &Value, name: &str| message[name].as_str().unwrap_or_default().to_owned();
    (messages.iter())
        .map(|message| {
            let sentence = format!("{} {}", field(message, "text"), field(message, "remedy"));
            (field(message, "code"), sentence.trim().to_owned())
        })
        .collect()
}

/// Whether every path of a status is up and nothing is missing.
#[must_use]
pub fn is_as_configured(status: &Value) -> bool {
    let paths = status["paths"].as_array();
    let up = paths.is_some_and(|paths| paths.iter().all(|path| path["state"] == "up"));
    let missing = status["tunnel"]["missing"].as_array();
    up && missing.is_none_or(Vec::is_empty)
}

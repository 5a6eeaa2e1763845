//! What an end thinks of its paths, from moment to moment.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::watch;

/// What is noted of a path.
const OF_PATH: [&str; 11] = [
    "state",
    "remote",
    "mtu",
    "rtt_us",
    "loss",
    "tx_phase",
    "tx_limit_bps",
    "tx_delivered_bps",
    "tx_queue_us",
    "tx_packets",
    "rx_packets",
];

/// Looks at one end's status again and again.
#[derive(Debug)]
pub struct Trace {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Vec<(Duration, String)>>,
}

impl Trace {
    /// Looks every `step` at the daemon that answers at this socket. Lines say how long after `begin` they
    /// were noted, and of which end.
    #[must_use]
    pub fn start(begin: Instant, end: &'static str, socket: PathBuf, step: Duration) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            let mut seen = Vec::new();
            while !until.load(Ordering::Relaxed) {
                let at = begin.elapsed();
                if let Some(status) = watch::ask(&socket) {
                    let line = format!("{:5} ms {end} {}", at.as_millis(), told(&status));
                    seen.push((at, line));
                }
                std::thread::sleep(step);
            }
            seen
        });
        Self { over, thread }
    }

    /// Ends them, and returns their lines in the order of time.
    ///
    /// # Panics
    /// When the thread of one did.
    #[must_use]
    pub fn finish_all(traces: impl IntoIterator<Item = Self>) -> Vec<String> {
        let mut lines = Vec::new();
        for trace in traces {
            trace.over.store(true, Ordering::Relaxed);
            lines.extend(trace.thread.join().expect("the thread of a trace"));
        }
        lines.sort_by_key(|(at, _)| *at);
        lines.into_iter().map(|(_, line)| line).collect()
    }
}

/// What is thought of each path, what was dropped, lost, and held.
fn told(status: &Value) -> String {
    let paths = status["paths"].as_array().cloned().unwrap_or_default();
    let paths = paths.iter().map(|path| {
        let fields = OF_PATH.map(|field| format!("{field} {}", path[field]));
        format!("{}: {}", path["name"], fields.join(", "))
    });
    let (tunnel, reorder) = (&status["tunnel"], &status["reorder"]);
    format!(
        "mtu {} {} | drops {} recovery {} held {} timed out {} lost {}",
        tunnel["mtu"],
        paths.collect::<Vec<_>>().join(" | "),
        counted(&tunnel["drops"]),
        counted(&tunnel["recovery"]),
        reorder["held"],
        reorder["gaps_timed_out"],
        reorder["gaps_inferred_lost"]
    )
}

/// Counters that are not zero.
fn counted(counters: &Value) -> String {
    let counters = counters.as_object().cloned().unwrap_or_default();
    let counters = counters.iter().filter(|(_, count)| **count != 0);
    let counters = counters.map(|(name, count)| format!("{name} {count}"));
    format!("({})", counters.collect::<Vec<_>>().join(", "))
}

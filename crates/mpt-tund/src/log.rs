//! What the control thread says of one tunnel: each line names it, and there are not too many.
//!
//! Whoever logs says what has changed, not what goes on failing; but a cable with a loose contact changes
//! ten times a second.

use std::fmt::Display;
use std::time::Duration;

use crate::clock;
use crate::wanted::retry::Ration;

/// Lines at once; then one in each interval.
const MOST_LINES: u32 = 30;
/// Ten lines an hour.
const INTERVAL: Duration = Duration::from_secs(360);

/// The log of one tunnel.
#[derive(Debug)]
pub(crate) struct Log {
    tunnel: String,
    ration: Ration,
    left_out: u32,
}

impl Log {
    /// Of the tunnel of this name.
    pub(crate) fn new(tunnel: &str) -> Log {
        Log {
            tunnel: tunnel.to_owned(),
            ration: Ration::new(MOST_LINES, INTERVAL),
            left_out: 0,
        }
    }

    /// A change for the better, or one that was asked for.
    pub(crate) fn info(&mut self, text: impl Display) {
        let tunnel = self.tunnel.clone();
        match self.admit() {
            Some(note) => tracing::info!("tunnel {tunnel}: {text}{note}"),
            None => tracing::debug!("tunnel {tunnel}: {text}"),
        }
    }

    /// Something that an operator should know.
    pub(crate) fn warn(&mut self, text: impl Display) {
        let tunnel = self.tunnel.clone();
        match self.admit() {
            Some(note) => tracing::warn!("tunnel {tunnel}: {text}{note}"),
            None => tracing::debug!("tunnel {tunnel}: {text}"),
        }
    }

    /// What to add to the next line, if there may be one.
    fn admit(&mut self) -> Option<String> {
        if !self.ration.take(clock::now()) {
            self.left_out += 1;
            return None;
        }
        Some(match std::mem::take(&mut self.left_out) {
            0 => String::new(),
            left_out => format!(" ({left_out} lines before this were left out)"),
        })
    }
}

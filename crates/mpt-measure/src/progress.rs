//! A progress bar on the standard error output, when that is a terminal.

use std::io::{self, IsTerminal, Write};

/// Between two looks, in nanoseconds.
const PERIOD_NS: u64 = 100_000_000;
/// Columns of the bar itself.
const BAR: usize = 30;

/// A bar; nothing where nobody would see it.
#[derive(Debug)]
pub(crate) struct Progress {
    shown: bool,
    next_ns: u64,
    drawn: bool,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Progress {
            shown: io::stderr().is_terminal(),
            next_ns: 0,
            drawn: false,
        }
    }

    /// Draws `share`, from 0 to 1, and what `text` says beside it, ten times a second at most.
    pub(crate) fn draw(&mut self, now_ns: u64, share: f64, text: impl FnOnce() -> String) {
        if !self.shown || now_ns < self.next_ns {
            return;
        }
        self.next_ns = now_ns + PERIOD_NS;
        self.drawn = true;
        // A terminal that is gone is no reason to stop measuring.
        let _ = write!(io::stderr(), "\r\x1b[2K{}", line(share, &text()));
    }
}

impl Drop for Progress {
    /// Wipes the bar, so that what is printed next stands alone.
    fn drop(&mut self) {
        if self.drawn {
            let _ = write!(io::stderr(), "\r\x1b[2K");
        }
    }
}

fn line(share: f64, text: &str) -> String {
    let share = share.clamp(0.0, 1.0);
    let full = (share * BAR as f64) as usize;
    format!(
        "[{}{}] {:3.0} %  {text}",
        "█".repeat(full),
        "·".repeat(BAR - full),
        share * 100.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_has_the_same_width_from_start_to_end() {
        assert_eq!(
            line(0.5, "x"),
            format!("[{}{}]  50 %  x", "█".repeat(15), "·".repeat(15))
        );
        let width = |share| line(share, "").chars().count();
        assert_eq!(width(0.0), width(1.0));
        assert_eq!(width(2.0), width(f64::EPSILON));
    }
}

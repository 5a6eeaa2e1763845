//! The terminal: taken, and given back as it was, however the program ends.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{process, thread};

use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use ratatui::{DefaultTerminal, Frame};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

/// The whole screen of the terminal, in raw mode. A panic gives it back before it is told, a signal by way of
/// [`ending`].
pub(super) struct Screen {
    terminal: DefaultTerminal,
}

impl Screen {
    /// Takes the terminal.
    pub(super) fn open() -> io::Result<Screen> {
        let terminal = ratatui::try_init().inspect_err(|_| {
            // Part of it may have been done.
            let _ = ratatui::try_restore();
        })?;
        Ok(Screen { terminal })
    }

    /// Draws what has changed.
    pub(super) fn draw(&mut self, picture: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(picture).map(drop)
    }

    /// The keys that are pressed within `patience`, and `None` for each other thing that happens to the terminal, such
    /// as another size.
    pub(super) fn keys(&mut self, patience: Duration) -> io::Result<Vec<Option<KeyEvent>>> {
        let mut keys = Vec::new();
        let mut wait = patience;
        while keys.len() < MAX_KEYS && event::poll(wait)? {
            wait = Duration::ZERO;
            let key = match event::read()? {
                Event::Key(key) => Some(key).filter(|key| key.kind != KeyEventKind::Release),
                Event::Resize(..)
                | Event::FocusGained
                | Event::FocusLost
                | Event::Mouse(_)
                | Event::Paste(_) => None,
            };
            keys.push(key);
        }
        Ok(keys)
    }
}

/// Keys that are taken at once.
const MAX_KEYS: usize = 64;

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that has gone needs nothing.
        let _ = self.terminal.show_cursor();
        let _ = ratatui::try_restore();
    }
}

/// Who does not end within this time after a signal is ended: reading from a terminal that is gone never returns.
const GRACE: Duration = Duration::from_millis(500);

/// Whether a signal wants the program to end, from now on. One that comes while the terminal is waited for, and that
/// nobody looks at for [`GRACE`], gives the terminal back and ends the program.
pub(super) fn ending() -> io::Result<impl Fn() -> bool> {
    let ends = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&ends);
    let mut signals = Signals::new([SIGTERM, SIGHUP, SIGINT, SIGQUIT])?;
    let wait = move || {
        if let Some(signal) = signals.forever().next() {
            told.store(true, Ordering::Relaxed);
            thread::sleep(GRACE);
            let _ = ratatui::try_restore();
            // As shells tell of a program that a signal ended.
            process::exit(128 + signal);
        }
    };
    thread::Builder::new().name("signals".into()).spawn(wait)?;
    Ok(move || ends.load(Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;
    use std::time::Instant;

    use super::*;

    /// Set where the test below runs this one in a terminal.
    const IN_A_TERMINAL: &str = "MPT_TEST_IN_A_TERMINAL";

    /// Ends on the terminal of the test below, and does nothing elsewhere.
    #[test]
    fn a_fault() {
        if std::env::var_os(IN_A_TERMINAL).is_none() {
            return;
        }
        let mut screen = Screen::open().unwrap();
        let drawn = screen.draw(|frame| frame.render_widget("drawn", frame.area()));
        drawn.unwrap();
        panic!("a fault of its own");
    }

    #[test]
    fn a_panic_gives_the_terminal_back_before_it_is_told() {
        if Command::new("tmux").arg("-V").output().is_err() {
            return println!("skipped: no tmux (tests/need net)");
        }
        let dir = tempfile::tempdir().unwrap();
        let tmux = |words: &[&str]| {
            let mut command = Command::new("tmux");
            command
                .env_remove("TMUX")
                .args(["-u", "-f", "/dev/null", "-S"]);
            command.arg(dir.path().join("tmux")).args(words);
            String::from_utf8(command.output().unwrap().stdout).unwrap()
        };
        let this = std::env::current_exe().unwrap();
        let faulty = format!(
            "{IN_A_TERMINAL}=1 {} --exact top::terminal::tests::a_fault --nocapture; echo ended: $?; stty -a; sleep 60",
            this.display()
        );
        tmux(&["new-session", "-d", "-x", "80", "-y", "40", &faulty]);
        let deadline = Instant::now() + Duration::from_secs(10);
        let screen = loop {
            let screen = tmux(&["capture-pane", "-p"]);
            if screen.contains(" echo ") || Instant::now() > deadline {
                break screen;
            }
            thread::sleep(Duration::from_millis(50));
        };
        let state = tmux(&["display-message", "-p", "#{alternate_on} #{cursor_flag}"]);
        tmux(&["kill-server"]);
        assert_eq!(state.trim(), "0 1", "{screen}");
        for seen in ["a fault of its own", "ended: 101", " icanon", " echo "] {
            assert!(screen.contains(seen), "{seen}: {screen}");
        }
    }

    /// As [`a_fault`], for the test below: waits for keys for ever.
    #[test]
    fn a_wait() {
        if std::env::var_os(IN_A_TERMINAL).is_none() {
            return;
        }
        let mut screen = Screen::open().unwrap();
        let ends = ending().unwrap();
        while !ends() {
            let _ = screen.keys(Duration::from_millis(50));
        }
    }

    #[test]
    fn who_waits_for_keys_of_a_terminal_that_is_gone_ends() {
        if Command::new("tmux").arg("-V").output().is_err() {
            return println!("skipped: no tmux (tests/need net)");
        }
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("tmux");
        let tmux = |words: &[&str]| {
            let mut command = Command::new("tmux");
            command.env_remove("TMUX").args(["-f", "/dev/null", "-S"]);
            let done = command.arg(&socket).args(words).output().unwrap();
            String::from_utf8(done.stdout).unwrap()
        };
        let this = std::env::current_exe().unwrap();
        let waiting = format!(
            "exec env {IN_A_TERMINAL}=1 {} --exact top::terminal::tests::a_wait",
            this.display()
        );
        tmux(&["new-session", "-d", &waiting]);
        let deadline = Instant::now() + Duration::from_secs(10);
        let waits_until = |is: &dyn Fn() -> bool| {
            while !is() && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(50));
            }
            assert!(is());
        };
        waits_until(&|| tmux(&["display-message", "-p", "#{alternate_on}"]).trim() == "1");
        let pid = tmux(&["display-message", "-p", "#{pane_pid}"]);
        let process = Path::new("/proc").join(pid.trim());
        assert!(process.exists(), "{pid}");
        tmux(&["kill-server"]);
        waits_until(&|| !process.exists());
    }
}

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

    use tempfile::TempDir;

    use super::*;

    /// Set where a test below runs another one in a terminal.
    const IN_A_TERMINAL: &str = "MPT_TEST_IN_A_TERMINAL";

    /// How long something may take to be seen.
    const PATIENCE: Duration = Duration::from_secs(10);

    /// A server of tmux of the test's own, whose one terminal a test below runs in.
    struct Tmux(TempDir);

    impl Tmux {
        /// None where there is no tmux.
        fn new() -> Option<Tmux> {
            if Command::new("tmux").arg("-V").output().is_err() {
                println!("skipped: no tmux (tests/need net)");
                return None;
            }
            Some(Tmux(tempfile::tempdir().unwrap()))
        }

        fn run(&self, words: &[&str]) -> String {
            let mut command = Command::new("tmux");
            command
                .env_remove("TMUX")
                .args(["-u", "-f", "/dev/null", "-S"]);
            command.arg(self.0.path().join("tmux")).args(words);
            String::from_utf8(command.output().unwrap().stdout).unwrap()
        }

        fn start(&self, shell_command: &str) {
            self.run(&["new-session", "-d", "-x", "80", "-y", "40", shell_command]);
        }

        /// What the terminal says of itself: tmux's FORMATS.
        fn says(&self, format: &str) -> String {
            let said = self.run(&["display-message", "-p", format]);
            said.trim().to_owned()
        }
    }

    impl Drop for Tmux {
        fn drop(&mut self) {
            self.run(&["kill-server"]);
        }
    }

    /// The command that runs a test of these.
    fn command(test: &str) -> String {
        let this = std::env::current_exe().unwrap();
        let this = this.display();
        format!("env {IN_A_TERMINAL}=1 {this} --exact top::terminal::tests::{test} --nocapture")
    }

    /// Whether it is so within [`PATIENCE`].
    fn comes_true(is: impl Fn() -> bool) -> bool {
        let deadline = Instant::now() + PATIENCE;
        while !is() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(50));
        }
        is()
    }

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
        let Some(tmux) = Tmux::new() else { return };
        let fault = command("a_fault");
        tmux.start(&format!("{fault}; echo ended: $?; stty -a; sleep 60"));
        let screen = || tmux.run(&["capture-pane", "-p"]);
        comes_true(|| screen().contains(" echo "));
        let (screen, state) = (screen(), tmux.says("#{alternate_on} #{cursor_flag}"));
        assert_eq!(state, "0 1", "{screen}");
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
        let Some(tmux) = Tmux::new() else { return };
        tmux.start(&format!("exec {}", command("a_wait")));
        let waits = comes_true(|| tmux.says("#{alternate_on}") == "1");
        let pid = tmux.says("#{pane_pid}");
        let process = Path::new("/proc").join(&pid);
        assert!(waits && !pid.is_empty() && process.exists(), "{pid}");
        drop(tmux);
        let ended = comes_true(|| !process.exists());
        if !ended {
            Command::new("kill").args(["-9", &pid]).status().unwrap();
        }
        assert!(ended);
    }
}

//! The terminal: taken, and given back as it was, however the program ends.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use ratatui::{DefaultTerminal, Frame};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

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

/// Whether a signal wants the program to end, from now on.
pub(super) fn ending() -> io::Result<impl Fn() -> bool> {
    let ends = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGHUP, SIGINT, SIGQUIT] {
        signal_hook::flag::register(signal, Arc::clone(&ends))?;
    }
    Ok(move || ends.load(Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Instant;

    use super::*;

    /// Ends on the terminal of the test below.
    #[test]
    #[ignore = "takes the terminal, and panics"]
    fn a_fault() {
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
            "{} --ignored --exact top::terminal::tests::a_fault --nocapture; echo ended: $?; stty -a; sleep 60",
            this.display()
        );
        tmux(&["new-session", "-d", "-x", "80", "-y", "40", &faulty]);
        let deadline = Instant::now() + Duration::from_secs(10);
        let screen = loop {
            let screen = tmux(&["capture-pane", "-p"]);
            if screen.contains(" echo ") || Instant::now() > deadline {
                break screen;
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        let state = tmux(&["display-message", "-p", "#{alternate_on} #{cursor_flag}"]);
        tmux(&["kill-server"]);
        assert_eq!(state.trim(), "0 1", "{screen}");
        for seen in ["a fault of its own", "ended: 101", " icanon", " echo "] {
            assert!(screen.contains(seen), "{seen}: {screen}");
        }
    }
}

//! `mpt-ctl top` on a real terminal: tmux's, whose screen is compared.

use std::io::Write;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mpt_core::control::{Answer, PathState, PathStatus, Reply, Request, Status, TunnelStatus};

use crate::{judged, line, read_request, text};

/// How long something may take to be seen.
const PATIENCE: Duration = Duration::from_secs(10);

/// A daemon with two paths that answers until it is stopped, and takes paths out of service.
struct Answering {
    socket: PathBuf,
    ends: Arc<AtomicBool>,
    asked: Arc<Mutex<Vec<Request>>>,
    thread: Option<JoinHandle<()>>,
}

impl Answering {
    fn start(socket: &Path) -> Self {
        let listener = UnixListener::bind(socket).unwrap();
        let ends = Arc::new(AtomicBool::new(false));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (until, heard) = (Arc::clone(&ends), Arc::clone(&asked));
        let thread = thread::spawn(move || {
            let mut lte = PathState::Up;
            for stream in listener.incoming() {
                if until.load(Ordering::Relaxed) {
                    return;
                }
                let stream = stream.unwrap();
                let request = read_request(&stream);
                let done = |what: &str| Answer::Done(format!("path lte is {what}"));
                let answer = if matches!(request, Request::PathDown { .. }) {
                    lte = PathState::AdminDown;
                    done("out of service")
                } else if matches!(request, Request::PathUp { .. }) {
                    lte = PathState::Up;
                    done("back in service")
                } else {
                    Answer::Status(Box::new(tunnel(lte)))
                };
                if request != Request::Status {
                    heard.lock().unwrap().push(request);
                }
                // Who asked may have been killed.
                let _ = (&stream).write_all(line(&Reply::Ok(answer)).as_bytes());
            }
        });
        Self {
            socket: socket.to_owned(),
            ends,
            asked,
            thread: Some(thread),
        }
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        drop(std::os::unix::net::UnixStream::connect(&self.socket));
        let _ = std::fs::remove_file(&self.socket);
        let _ = self.thread.take().unwrap().join();
    }
}

fn tunnel(lte: PathState) -> Status {
    let path = |name: &str, state, tx_bps, rtt_us| PathStatus {
        name: name.into(),
        state,
        tx_bps,
        rx_bps: tx_bps / 10,
        rtt_us: Some(rtt_us),
        tx_packets: 1000,
        rx_packets: 1000,
        mtu: 1464,
        ..PathStatus::default()
    };
    judged(Status {
        tunnel: TunnelStatus {
            name: "mpt0".into(),
            uptime_s: 7980,
            scheduler: "weighted".into(),
            peer_session: Some("77aa01b2c3d4e5f6".into()),
            tx_bytes: 3_600_000_000,
            rx_bytes: 91_000_000,
            ..TunnelStatus::default()
        },
        paths: vec![
            path("fibre", PathState::Up, 90_000_000, 10_340),
            // A name that would clear the screen, were it printed as it is.
            path("lte\u{1b}[2J", lte, 30_000_000, 48_200),
        ],
        ..Status::default()
    })
}

/// A tmux of its own, with a shell on a screen of 80 × 24. It ends with the test.
struct Tmux {
    dir: tempfile::TempDir,
}

impl Tmux {
    /// `None`, and a word on it, where there is no tmux.
    fn start(width: u16, height: u16, environment: &[(&str, &str)]) -> Option<Self> {
        if Command::new("tmux").arg("-V").output().is_err() {
            println!("skipped: no tmux (tests/need net)");
            return None;
        }
        let tmux = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        let (width, height) = (width.to_string(), height.to_string());
        let mut command = tmux.command();
        command.args(["new-session", "-d", "-x", &width, "-y", &height]);
        let set = environment
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        let shell = format!(
            "exec env -u NO_COLOR PS1=shell: {} sh",
            set.collect::<Vec<_>>().join(" ")
        );
        let started = command.arg(shell).output().unwrap();
        assert!(started.status.success(), "{started:?}");
        tmux.await_screen("a shell", |screen| screen.starts_with("shell:"));
        Some(tmux)
    }

    fn command(&self) -> Command {
        let mut command = Command::new("tmux");
        command
            .env_remove("TMUX")
            .env("LC_ALL", "C.UTF-8")
            .args(["-u", "-f", "/dev/null", "-S"])
            .arg(self.dir.path().join("tmux"));
        command
    }

    fn run(&self, words: &[&str]) -> String {
        let output = self.command().args(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        text(&output.stdout)
    }

    /// Types a line into the shell.
    fn types(&self, line: &str) {
        self.run(&["send-keys", "-l", line]);
        self.run(&["send-keys", "Enter"]);
    }

    fn press(&self, key: &str) {
        self.run(&["send-keys", key]);
    }

    fn screen(&self) -> String {
        self.run(&["capture-pane", "-p"])
    }

    fn await_screen(&self, what: &str, is_it: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let screen = self.screen();
            if is_it(&screen) {
                return screen;
            }
            assert!(Instant::now() < deadline, "{what} in vain:\n{screen}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Runs top on this terminal, on the socket of [`Tmux::socket`]; afterwards the shell says how it ended.
    fn top(&self) {
        let ctl = env!("CARGO_BIN_EXE_mpt-ctl");
        let socket = self.socket();
        let socket = socket.display();
        self.types(&format!(
            "clear; {ctl} --socket {socket} --watch 0.1 top; echo ended: $?"
        ));
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("mpt0.sock")
    }

    /// The terminal is as it was: the other screen, echo and lines, a cursor.
    fn assert_restored(&self) {
        let state = "#{alternate_on} #{cursor_flag}";
        assert_eq!(self.run(&["display-message", "-p", state]).trim(), "0 1");
        self.types("stty -a");
        self.await_screen("an echo", |screen| {
            screen.contains(" icanon") && screen.contains(" echo ")
        });
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let _ = self.command().arg("kill-server").output();
    }
}

/// What the screen shows once the past fills its columns.
const SCREEN: &str = "\
tunnel mpt0, running for 2 h 13 min, sorted: as configured                    ok
All is well: 2 paths up.


PATH          STATE       OUT bit/s   IN bit/s      RTT    LOSS    QUEUE   SHARE
fibre         up             90.0 M      9.0 M  10.3 ms     0 %     0 µs  75.0 %
                         ██████████ ██████████ ████████                  ▆▆▆▆▆▆▆
lte\u{fffd}[2J       up             30.0 M      3.0 M  48.2 ms     0 %     0 µs  25.0 %
                         ██████████ ██████████ ████████                  ▂▂▂▂▂▂▂









tunnel    out 120 Mbit/s, in 12.0 Mbit/s
reorder   off
bytes     3.6 GB out, 91.0 MB in
recovery  0 found lost, 0 sent again, 0 needlessly

↑↓ choose  s sort  r reverse  p pause  d out of service  u back  ? help  q quit
";

#[test]
fn top_shows_paths_and_their_past_takes_one_out_of_service_and_leaves_the_terminal_as_it_was() {
    let Some(tmux) = Tmux::start(80, 24, &[]) else {
        return;
    };
    let daemon = Answering::start(&tmux.socket());
    tmux.top();
    let is_full = |screen: &str| screen.matches("██████████ ██████████ ████████").count() == 2;
    let screen = tmux.await_screen("a past", is_full);
    assert_eq!(screen, SCREEN, "{screen}");

    // Out of service, after a question; and back.
    tmux.press("j");
    tmux.press("d");
    tmux.await_screen("a question", |screen| {
        screen.contains("out of service? (y/n)")
    });
    assert_eq!(*daemon.asked.lock().unwrap(), []);
    tmux.press("y");
    tmux.await_screen("out of service", |screen| screen.contains("admin-down"));
    tmux.press("u");
    tmux.await_screen("in service", |screen| !screen.contains("admin-down"));
    let name = "lte\u{1b}[2J".to_owned();
    let asked = [
        Request::PathDown { name: name.clone() },
        Request::PathUp { name },
    ];
    assert_eq!(*daemon.asked.lock().unwrap(), asked);

    // The daemon goes away and comes back.
    drop(daemon);
    tmux.await_screen("the trouble", |screen| {
        screen.contains("No answer for") && screen.contains("fibre")
    });
    let _daemon = Answering::start(&tmux.socket());
    tmux.await_screen("the daemon", |screen| !screen.contains("No answer for"));

    // Another size, too small and back.
    tmux.run(&["set-option", "-g", "window-size", "manual"]);
    tmux.run(&["resize-window", "-x", "30", "-y", "6"]);
    tmux.await_screen("too small", |screen| screen.contains("too small"));
    tmux.run(&["resize-window", "-x", "80", "-y", "24"]);
    tmux.await_screen("all of it", |screen| screen.contains("SHARE"));

    tmux.press("q");
    tmux.await_screen("the end", |screen| screen.contains("ended: 0"));
    tmux.assert_restored();
}

#[test]
fn a_signal_ends_top_and_leaves_the_terminal_as_it_was() {
    let Some(tmux) = Tmux::start(80, 24, &[("NO_COLOR", "1")]) else {
        return;
    };
    let _daemon = Answering::start(&tmux.socket());
    for signal in ["TERM", "HUP"] {
        tmux.top();
        tmux.await_screen("paths", |screen| screen.contains("fibre"));
        let painted = tmux.run(&["capture-pane", "-e", "-p"]);
        let colour = painted.split("\u{1b}[").skip(1).find(|code| {
            let mut numbers = code.split('m').next().unwrap().split(';');
            numbers.any(|n| matches!(n.parse::<u8>(), Ok(30..=38 | 40..=48 | 90..=107)))
        });
        assert_eq!(colour, None, "NO_COLOR is obeyed");
        // The shell's child, of which there is one.
        let shell = tmux.run(&["display-message", "-p", "#{pane_pid}"]);
        let children = format!("/proc/{0}/task/{0}/children", shell.trim());
        let child = std::fs::read_to_string(children).unwrap();
        let sent = Command::new("kill")
            .args(["-s", signal, child.trim()])
            .status()
            .unwrap();
        assert!(sent.success(), "{child}");
        tmux.await_screen("the end", |screen| screen.contains("ended: 0"));
        tmux.assert_restored();
    }
}

#[test]
fn top_without_a_terminal_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let output = crate::run(&dir.path().join("mpt0.sock"), "top");
    assert_eq!(output.status.code(), Some(64));
    let said = text(&output.stderr);
    assert!(
        said.contains("needs a terminal") && said.contains("mpt-ctl status"),
        "{said}"
    );
}

#[test]
fn top_without_a_daemon_leaves_the_screen_alone() {
    let Some(tmux) = Tmux::start(80, 24, &[]) else {
        return;
    };
    tmux.top();
    let screen = tmux.await_screen("the end", |screen| screen.contains("ended: 3"));
    assert!(screen.contains("mpt-tund is not running"), "{screen}");
    tmux.assert_restored();
}

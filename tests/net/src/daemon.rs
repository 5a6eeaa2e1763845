//! An `mpt-tund` in a namespace, and `mpt-ctl` to ask it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use mpt_core::control::{PathState, PathStatus, PeerReport, Status};
use serde_json::Value;
use tempfile::TempDir;

use crate::namespace::Namespace;
use crate::process::{self, Process, program};
use crate::settings::{PEER, far_end_is_hub};
use crate::wait_for;

/// How long a daemon may take to answer on its socket, and to end after SIGTERM.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// A running daemon with one tunnel. When dropped it gets SIGTERM, and must end well and leave
/// neither interface nor socket behind.
#[derive(Debug)]
pub struct Daemon {
    process: Process,
    tunnel: String,
    namespace: String,
    folder: TempDir,
}

impl Daemon {
    /// Starts `mpt-tund` with the configuration that `settings` makes of a socket's path, and waits
    /// until it answers.
    ///
    /// # Panics
    /// When it ends or does not answer in time, with its log.
    #[must_use]
    pub fn start(host: &Namespace, tunnel: &str, settings: impl FnOnce(&str) -> String) -> Self {
        Self::start_by(host, &[], tunnel, settings)
    }

    /// The same, started by another program, to which these words and `mpt-tund`'s own command line are
    /// given.
    ///
    /// # Panics
    /// As [`Daemon::start`].
    #[must_use]
    pub fn start_by(
        host: &Namespace,
        starter: &[&str],
        tunnel: &str,
        settings: impl FnOnce(&str) -> String,
    ) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("mpt-test-")
            .tempdir()
            .expect("a temporary folder");
        let socket = folder.path().join("control.sock");
        let text = settings(&socket.display().to_string());
        let file = folder.path().join("tunnel.toml");
        std::fs::write(&file, text).expect("a configuration file");
        let process = Self::launch(host, starter, &file);
        let mut daemon = Self {
            process,
            tunnel: tunnel.to_owned(),
            namespace: host.name().to_owned(),
            folder,
        };
        daemon.await_answer();
        daemon
    }

    fn launch(host: &Namespace, starter: &[&str], file: &Path) -> Process {
        let mut command = match starter.split_first() {
            None => host.command(program("mpt-tund")),
            Some((first, words)) => {
                let mut command = host.command(first);
                command.args(words).arg(program("mpt-tund"));
                command
            }
        };
        command.arg("--config").arg(file);
        Process::start("mpt-tund", &command)
    }

    fn await_answer(&mut self) {
        let mut ended = None;
        wait_for("an answer from mpt-tund", PATIENCE, || {
            ended = self.process.ended();
            let answers = self.socket().exists() && self.answer().is_some();
            (answers || ended.is_some()).then_some(())
        });
        if let Some(status) = ended {
            panic!("mpt-tund ended at once ({status})\n{}", self.log());
        }
    }

    /// Its control socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("control.sock")
    }

    /// Its configuration file.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.folder.path().join("tunnel.toml")
    }

    /// The process, for signals, logs and accounts.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// All that it logged.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Runs `mpt-ctl --json` with these words and returns its answer.
    ///
    /// # Panics
    /// When it fails or prints no JSON.
    pub fn ctl(&self, words: &[&str]) -> Value {
        let output = self.ctl_output(words);
        // `status` says by its code how the tunnel does.
        let answered = match words {
            ["status"] => matches!(output.status.code(), Some(0..=2)),
            _ => output.status.success(),
        };
        assert!(
            answered,
            "mpt-ctl {words:?} failed ({}): {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
            panic!(
                "mpt-ctl --json {words:?} printed no JSON ({error}): {}",
                String::from_utf8_lossy(&output.stdout)
            )
        })
    }

    /// Runs `mpt-ctl --json` with these words, whatever comes of it.
    #[must_use]
    pub fn ctl_output(&self, words: &[&str]) -> Output {
        let mut command = Command::new(program("mpt-ctl"));
        command.arg("--socket").arg(self.socket()).arg("--json");
        process::output(command.args(words))
    }

    /// `mpt-ctl status`, parsed.
    ///
    /// # Panics
    /// When it does not answer.
    #[must_use]
    pub fn status(&self) -> Status {
        let answer = self.answer();
        let answer = answer.unwrap_or_else(|| panic!("no status from mpt-tund\n{}", self.log()));
        let status: Status =
            serde_json::from_value(answer).expect("a status as control.rs describes it");
        match stands_in(&status) {
            true => self.as_of_two_ends(status),
            false => status,
        }
    }

    /// The status of a hub with one peer as an end of a tunnel of two would have it.
    fn as_of_two_ends(&self, mut status: Status) -> Status {
        let shown = self.ctl(&["peer", "show", PEER]);
        let report: PeerReport =
            serde_json::from_value(shown).expect("a peer as control.rs describes it");
        // The hub's own say where it may be reached, and have the links' names, as the peer's have.
        let has_socket = |path: &&mut PathStatus| path.state != PathState::Waiting;
        for path in status.paths.iter_mut().filter(has_socket) {
            let called = report.peer.paths.iter().find(|one| one.name == path.name);
            *path = called.cloned().unwrap_or_else(|| PathStatus {
                name: path.name.clone(),
                state: PathState::Probing,
                local: path.local.clone(),
                remote: "unknown".to_owned(),
                ..PathStatus::default()
            });
        }
        status.reorder = report.reorder;
        status.tunnel.recovery = report.recovery;
        status
    }

    /// What `mpt-ctl --json status` prints, whether all is well or not; `None` when the daemon does not
    /// answer.
    #[must_use]
    pub fn answer(&self) -> Option<Value> {
        serde_json::from_slice(&self.ctl_output(&["status"]).stdout).ok()
    }

    /// The status as people see it.
    #[must_use]
    pub fn status_text(&self) -> String {
        self.ctl_text(&["status"])
    }

    /// What `mpt-ctl` shows people.
    #[must_use]
    pub fn ctl_text(&self, words: &[&str]) -> String {
        let mut command = Command::new(program("mpt-ctl"));
        command.arg("--socket").arg(self.socket()).args(words);
        String::from_utf8_lossy(&process::output(&mut command).stdout).into_owned()
    }

    /// Kills it as a crash would, and starts it again with the same file.
    pub fn crash_and_restart(&mut self, host: &Namespace) {
        self.process.kill();
        // Left behind, as by a crash: the next daemon has to cope. Only our own waiting must not
        // take it for an answer.
        self.start_again(host);
    }

    /// Ends it by SIGTERM, and starts it again with the same file.
    pub fn restart(&mut self, host: &Namespace) {
        self.terminate();
        self.start_again(host);
    }

    /// Starts it with the same file, after it has ended.
    pub fn start_again(&mut self, host: &Namespace) {
        self.process = Self::launch(host, &[], &self.config());
        self.await_answer();
    }

    /// SIGTERM: it must end in time, with exit code 0, and leave nothing behind.
    ///
    /// # Panics
    /// When it does not.
    pub fn terminate(&mut self) {
        self.process.signal("TERM");
        let status = self.process.wait(PATIENCE);
        assert!(
            status.success(),
            "mpt-tund ended with {status} after SIGTERM\n{}",
            self.log()
        );
        assert!(!self.socket().exists(), "the control socket is left behind");
        assert!(!self.interface_exists(), "{} is left behind", self.tunnel);
    }

    /// The kernel's counters of the TUN interface.
    fn interface_text(&self) -> String {
        let mut command = Command::new("ip");
        command.args([
            "-s",
            "-n",
            &self.namespace,
            "link",
            "show",
            "dev",
            &self.tunnel,
        ]);
        String::from_utf8_lossy(&process::output(&mut command).stdout).into_owned()
    }

    fn interface_exists(&self) -> bool {
        let mut command = Command::new("ip");
        command.args(["-n", &self.namespace, "link", "show", "dev", &self.tunnel]);
        process::output(&mut command).status.success()
    }
}

/// Whether this is of a hub in place of an end of a tunnel of two, and not of one that a test of hubs has made.
fn stands_in(status: &Status) -> bool {
    far_end_is_hub() && status.peers.iter().any(|peer| peer.name == PEER)
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}{}", self.status_text(), self.interface_text());
            self.process.kill();
            let log = self.log();
            // The end is what matters; all of it may be megabytes.
            let lines: Vec<&str> = log.lines().collect();
            let tail = lines.len().saturating_sub(60);
            eprintln!("{}", lines[tail..].join("\n"));
        } else if self.process.ended().is_none() {
            self.terminate();
        }
    }
}

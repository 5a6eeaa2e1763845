//! A child process that cannot outlive its test.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A running child. Its output goes into files; it is killed when dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    output: TempDir,
    ended: Option<ExitStatus>,
}

impl Process {
    /// Starts `command`. It gets no input, and a SIGKILL when the thread that started it ends.
    ///
    /// # Panics
    /// When the program cannot be started.
    #[must_use]
    pub fn start(name: &str, command: &Command) -> Self {
        let output = tempfile::Builder::new()
            .prefix("mpt-test-")
            .tempdir()
            .expect("a temporary folder");
        let file = |kind: &str| File::create(output.path().join(kind)).expect("a file for output");
        let mut guarded = Command::new("setpriv");
        guarded
            .args(["--pdeathsig", "KILL", "--"])
            .arg(command.get_program())
            .args(command.get_args())
            .stdin(Stdio::null())
            .stdout(file("stdout"))
            .stderr(file("stderr"));
        for (key, value) in command.get_envs() {
            match value {
                Some(value) => guarded.env(key, value),
                None => guarded.env_remove(key),
            };
        }
        let child = guarded
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {name} ({guarded:?}): {error}"));
        Self {
            name: name.to_owned(),
            child,
            output,
            ended: None,
        }
    }

    /// Its process id; it stays the same from `setpriv` over `nsenter` to the program itself.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has printed on standard output so far.
    #[must_use]
    pub fn stdout(&self) -> String {
        self.printed("stdout")
    }

    /// What it has printed on standard error so far.
    #[must_use]
    pub fn stderr(&self) -> String {
        self.printed("stderr")
    }

    fn printed(&self, kind: &str) -> String {
        let bytes = std::fs::read(self.output.path().join(kind)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// How it ended, `None` while it runs.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().expect("a child of ours");
        }
        self.ended
    }

    /// Waits until it has ended; panics with what it printed when it has not after `limit`.
    pub fn wait(&mut self, limit: Duration) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.ended() {
                return status;
            }
            if start.elapsed() > limit {
                self.kill();
                panic!("{} did not end within {limit:?}\n{}", self.name, self.log());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Sends it a signal, by name: "TERM", "HUP".
    pub fn signal(&mut self, signal: &str) {
        // It is not reaped before `ended` says so: the id is still its own.
        if self.ended().is_none() {
            let id = self.id().to_string();
            let sent = Command::new("sh")
                .args(["-c", "kill -\"$0\" \"$1\"", signal, &id])
                .status();
            assert!(
                sent.is_ok_and(|status| status.success()),
                "kill -{signal} {id}"
            );
        }
    }

    /// Kills it, and waits for its end.
    pub fn kill(&mut self) {
        if self.ended().is_none() {
            // Fails only when it has just ended by itself.
            let _ = self.child.kill();
            self.ended = self.child.wait().ok();
        }
    }

    /// All that it printed, for a failing test's message.
    #[must_use]
    pub fn log(&self) -> String {
        format!(
            "--- {}: standard output\n{}--- {}: standard error\n{}---",
            self.name,
            self.stdout(),
            self.name,
            self.stderr()
        )
    }

    /// Processor time used so far, user and system.
    #[must_use]
    pub fn processor_time(&self) -> Duration {
        let text = self.proc_file("stat");
        // Fields 14 and 15 of proc(5)'s stat; the second, the name, ends with the last parenthesis.
        let ticks: u64 = text
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .skip(11)
            .take(2)
            .filter_map(|field| field.parse::<u64>().ok())
            .sum();
        // USER_HZ is 100 on every Linux.
        Duration::from_millis(ticks * 10)
    }

    /// Most memory that was ever resident, in bytes.
    #[must_use]
    pub fn peak_resident_bytes(&self) -> u64 {
        self.proc_file("status")
            .lines()
            .find_map(|line| {
                line.strip_prefix("VmHWM:")?
                    .split_whitespace()
                    .next()?
                    .parse()
                    .ok()
            })
            .map_or(0, |kib: u64| kib * 1024)
    }

    /// The text of a file in its /proc folder, empty when it has ended.
    #[must_use]
    pub fn proc_file(&self, file: &str) -> String {
        let path: PathBuf = ["/proc", &self.id().to_string(), file].iter().collect();
        std::fs::read_to_string(path).unwrap_or_default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs a command to its end; panics with its output when it fails.
///
/// # Panics
/// When the command cannot be started or fails.
pub fn run(command: &mut Command) -> String {
    let output = output(command);
    assert!(
        output.status.success(),
        "{command:?} failed ({}):\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a command to its end, whatever that is.
///
/// # Panics
/// When the command cannot be started.
pub fn output(command: &mut Command) -> Output {
    command
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"))
}

/// A program of this workspace, beside the folder of the test binary that runs; or of another build,
/// in the folder that `MPT_TEST_PROGRAMS` names.
///
/// # Panics
/// When it has not been built.
#[must_use]
pub fn program(name: &str) -> OsString {
    if let Some(folder) = std::env::var_os("MPT_TEST_PROGRAMS") {
        let path = Path::new(&folder).join(name);
        assert!(path.is_file(), "no {}", path.display());
        return path.into();
    }
    program_of_tests(name)
}

/// A program of this workspace that only tests use, beside the folder of the test binary that runs.
///
/// # Panics
/// When it has not been built.
#[must_use]
pub fn program_of_tests(name: &str) -> OsString {
    let test = std::env::current_exe().expect("this program's own path");
    let path = test
        .ancestors()
        .skip(1)
        .take(3)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
        .unwrap_or_else(|| panic!("no {name} near {}: cargo build", test.display()));
    path.into()
}

//! Runs a tunnel's commands: one at a time, each for [`LONGEST`] at most, on a thread without privileges.
//!
//! The thread gives up all capabilities and what could bring them back before it begins its first command, so that
//! a command has none either, root's included. Of what waits there is one for each path and one for the tunnel: the
//! newest, and none where all is again as it was told last.

use std::collections::VecDeque;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use rustix::thread::CapabilitySet;

use super::Ended;
use super::watch::Event;
use crate::config::Hook;
use crate::wanted::retry::Ration;
use crate::{clock, privileges};

/// How long a command may take before it and all that it began are killed.
const LONGEST: Duration = Duration::from_secs(10);
/// Commands that may be run one after the other, …
const MOST: u32 = 20;
/// … and the time after which there may be one more.
const INTERVAL: Duration = Duration::from_secs(10);
/// How often it is asked whether a command has ended, and whether there may be one more.
const LOOK: Duration = Duration::from_millis(20);
/// Where programs are found.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What runs them.
#[derive(Debug)]
pub(super) struct Runner {
    shared: Arc<Shared>,
    ended: Option<Ended>,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<(Hook, Event)>,
    /// Nothing more will come.
    closed: bool,
}

impl Runner {
    /// Begins the thread.
    ///
    /// # Errors
    /// When there is none to be had.
    pub(super) fn begin(tunnel: &str) -> io::Result<Runner> {
        let shared = Arc::new(Shared::default());
        let (running, ended) = mpsc::channel();
        let (thread_shared, tunnel) = (shared.clone(), tunnel.to_owned());
        thread::Builder::new()
            .name(format!("{tunnel}-hooks"))
            .spawn(move || run(&thread_shared, &tunnel, running))?;
        let ended = Some(ended);
        Ok(Runner { shared, ended })
    }

    /// Has a command run for an event.
    pub(super) fn add(&self, hook: Hook, event: Event) {
        self.shared.lock().add(hook, event);
        self.shared.changed.notify_one();
    }

    /// Runs what is still to be said of the tunnel as such, and ends.
    pub(super) fn end(mut self) -> Ended {
        let mut queue = self.shared.lock();
        queue.waiting.retain(|(_, event)| event.path.is_none());
        drop(queue);
        self.ended.take().unwrap_or_else(|| mpsc::channel().1)
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Nothing is done half under it.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next command; `None` when there will be none.
    fn next(&self, ration: &mut Ration) -> Option<(Hook, Event)> {
        let mut queue = self.lock();
        loop {
            match queue.waiting.is_empty() {
                true if queue.closed => return None,
                true => {
                    let waited = self.changed.wait(queue);
                    queue = waited.unwrap_or_else(PoisonError::into_inner);
                }
                // The last ones are not waited for: whoever stops the daemon waits.
                false if queue.closed || ration.take(clock::now()) => {
                    return queue.waiting.pop_front();
                }
                false => {
                    let waited = self.changed.wait_timeout(queue, Duration::from_secs(1));
                    queue = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
    }
}

impl Queue {
    fn add(&mut self, hook: Hook, mut event: Event) {
        let about_same = |(_, other): &(Hook, Event)| other.path == event.path;
        if let Some(at) = self.waiting.iter().position(about_same)
            && let Some((_, before)) = self.waiting.remove(at)
        {
            event.old = before.old;
        }
        if event.old != event.new {
            self.waiting.push_back((hook, event));
        }
    }
}

fn run(shared: &Shared, tunnel: &str, running: Sender<()>) {
    if let Err(error) = privileges::keep(CapabilitySet::empty()) {
        tracing::warn!("tunnel {tunnel}: no hook is run, as its privileges would stay: {error}");
        return;
    }
    let mut ration = Ration::new(MOST, INTERVAL);
    while let Some((hook, event)) = shared.next(&mut ration) {
        match carry_out(&hook, &event, LONGEST) {
            Ok(how) => tracing::debug!("tunnel {tunnel}: {} {how}", event.name()),
            Err(error) => tracing::warn!("tunnel {tunnel}: {}: {error}", event.name()),
        }
    }
    drop(running);
}

/// Runs a command to its end, or for `longest`. Nothing that it began goes on then.
fn carry_out(hook: &Hook, event: &Event, longest: Duration) -> io::Result<String> {
    let (program, words) = hook.words();
    let told = |error: io::Error| io::Error::new(error.kind(), format!("{program}: {error}"));
    let mut child = Command::new(program)
        .args(words)
        .env_clear()
        .env("PATH", PATH)
        .envs(event.environment())
        .current_dir("/")
        .stdin(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(told)?;
    let begun = Instant::now();
    let ended = await_end(&mut child, longest);
    // Before it is reaped nobody else can have its number.
    if let Some(group) = Pid::from_raw(child.id().cast_signed()) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let status = child.wait().map_err(told)?;
    match (ended, status.success()) {
        (false, _) => Err(io::Error::other(format!(
            "{program} was killed: it took more than {} s",
            longest.as_secs()
        ))),
        (true, false) => Err(io::Error::other(format!("{program} failed: {status}"))),
        (true, true) => Ok(format!("took {} ms", begun.elapsed().as_millis())),
    }
}

/// Whether it ends in time. It is not reaped yet.
fn await_end(child: &mut Child, longest: Duration) -> bool {
    let begun = Instant::now();
    let Some(id) = Pid::from_raw(child.id().cast_signed()) else {
        return true;
    };
    let only_look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    loop {
        match waitid(WaitId::Pid(id), only_look) {
            Ok(None) if begun.elapsed() < longest => thread::sleep(LOOK),
            Ok(None) => return false,
            Ok(Some(_)) | Err(_) => return true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(path: Option<&str>, old: &'static str, new: &'static str) -> Event {
        Event {
            path: path.map(str::to_owned),
            old,
            new,
            facts: vec![("MPT_TUNNEL", "mpt0".to_owned())],
        }
    }

    fn shell(line: &str) -> Hook {
        Hook::line(line)
    }

    fn waiting(queue: &Queue) -> Vec<(Option<&str>, &str, &str)> {
        let one = |(_, event): &'_ (Hook, Event)| (event.old, event.new);
        let paths = queue.waiting.iter().map(|(_, event)| event.path.as_deref());
        let states = queue.waiting.iter().map(one);
        paths
            .zip(states)
            .map(|(path, (old, new))| (path, old, new))
            .collect()
    }

    #[test]
    fn of_one_path_the_newest_waits_and_none_where_all_is_as_before() {
        let mut queue = Queue::default();
        for _ in 0..1000 {
            queue.add(shell("true"), event(Some("lte"), "up", "down"));
            queue.add(shell("true"), event(Some("lte"), "down", "up"));
        }
        assert!(queue.waiting.is_empty());
        queue.add(shell("true"), event(Some("lte"), "up", "down"));
        queue.add(shell("true"), event(None, "up", "down"));
        queue.add(shell("true"), event(Some("lte"), "down", "probing"));
        let expected = [(None, "up", "down"), (Some("lte"), "up", "probing")];
        assert_eq!(waiting(&queue), expected);
    }

    #[test]
    fn a_command_has_the_facts_and_nothing_of_the_daemons_environment() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("said");
        let line = format!("env | sort > {}", file.display());
        let event = event(Some("lte"), "up", "down");
        carry_out(&shell(&line), &event, LONGEST).unwrap();
        let said = std::fs::read_to_string(file).unwrap();
        for fact in [
            "MPT_EVENT=on_path_change",
            "MPT_PATH=lte",
            "MPT_STATE=down",
            "MPT_OLD_STATE=up",
            "MPT_TUNNEL=mpt0",
        ] {
            assert!(said.lines().any(|line| line == fact), "{fact}\n{said}");
        }
        assert!(!said.contains("CARGO") && !said.contains("HOME="), "{said}");
    }

    #[test]
    fn a_command_that_hangs_is_killed_with_all_that_it_began() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("id");
        let line = format!("sleep 77 & echo $! > {}; sleep 77", file.display());
        let begun = Instant::now();
        let longest = Duration::from_millis(500);
        let error = carry_out(&shell(&line), &event(None, "down", "up"), longest).unwrap_err();
        assert!(error.to_string().contains("was killed"), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(5));
        let id = std::fs::read_to_string(file).unwrap();
        let gone = || match std::fs::read_to_string(format!("/proc/{}/stat", id.trim())) {
            Ok(stat) => stat.contains(" Z "),
            Err(_) => true,
        };
        while !gone() {
            assert!(begun.elapsed() < Duration::from_secs(5), "{id} goes on");
            thread::sleep(LOOK);
        }
    }

    #[test]
    fn a_command_that_fails_or_is_not_there_is_said_with_its_name() {
        let down = event(None, "up", "down");
        let error = carry_out(&shell("exit 3"), &down, LONGEST).unwrap_err();
        assert_eq!(error.to_string(), "/bin/sh failed: exit status: 3");
        let error = carry_out(&Hook::program("/nowhere/it"), &down, LONGEST).unwrap_err();
        assert!(error.to_string().starts_with("/nowhere/it: "), "{error}");
    }

    /// What stands in CapEff, CapPrm and CapBnd of a command, whoever runs it.
    #[test]
    fn a_command_has_no_capability_and_can_gain_none() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("said");
        let line = format!(
            "grep -E '^Cap(Inh|Eff|Prm|Bnd|Amb)' /proc/self/status > {}",
            file.display()
        );
        let runner = Runner::begin("mpt0").unwrap();
        runner.add(shell(&line), event(None, "down", "up"));
        let ended = runner.end();
        assert!(ended.recv_timeout(Duration::from_secs(10)).is_err());
        let said = std::fs::read_to_string(file).unwrap();
        assert_eq!(said.lines().count(), 5, "{said}");
        let root = rustix::process::geteuid().is_root();
        for line in said.lines() {
            // Who is not root may not take from the last set, and needs not.
            let counts = root || !line.starts_with("CapBnd");
            assert!(!counts || line.ends_with("0000000000000000"), "{said}");
        }
    }
}

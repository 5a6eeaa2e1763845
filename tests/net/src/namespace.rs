//! A host: a network namespace with a name of its own.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::process;
use crate::process::Process;

/// A network namespace, deleted when dropped.
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Makes a namespace whose name holds this process's id and `role`, with its loopback up.
    ///
    /// # Panics
    /// When `ip` fails: not root, or no namespaces in this kernel.
    #[must_use]
    pub fn new(role: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("mpt-{}-{count}-{role}", std::process::id());
        process::run(Command::new("ip").args(["netns", "add", &name]));
        let namespace = Self { name };
        namespace.run("ip link set lo up");
        // A link that was down keeps its IPv6 addresses, as it keeps its IPv4 ones.
        namespace.sysctl("net.ipv6.conf.all.keep_addr_on_down", "1");
        namespace.sysctl("net.ipv6.conf.default.keep_addr_on_down", "1");
        namespace
    }

    /// Its name, for `ip -n NAME`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A command that will run inside.
    ///
    /// `nsenter` rather than `ip netns exec`: it leaves the mounts alone and works without root in a
    /// user namespace as well.
    #[must_use]
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        Self::command_in(&self.name, program)
    }

    /// A command that will run inside the namespace of this name.
    pub(crate) fn command_in(name: &str, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net=/run/netns/{name}"))
            .arg("--")
            .arg(program);
        command
    }

    /// Lets TCP's windows grow to 64 MiB, so that none of them is what limits a flow: the kernel's
    /// default is too small for 100 Mbit/s over 300 ms and a queue of 1000 packets. What an earlier
    /// connection learnt of a path is not used for the next.
    pub fn widen_windows(&self) {
        self.sysctl("net.ipv4.tcp_rmem", "4096 131072 67108864");
        self.sysctl("net.ipv4.tcp_wmem", "4096 131072 67108864");
        self.sysctl("net.ipv4.tcp_no_metrics_save", "1");
    }

    /// A command line that will run inside, its words separated by blanks.
    #[must_use]
    pub fn words(&self, line: &str) -> Command {
        let mut words = line.split_whitespace();
        let mut command = self.command(words.next().expect("a program"));
        command.args(words);
        command
    }

    /// Runs a command line (words separated by blanks) to its end and returns what it printed.
    ///
    /// # Panics
    /// When it fails, with its output.
    pub fn run(&self, line: &str) -> String {
        process::run(&mut self.words(line))
    }

    /// Runs a command line to its end, whatever that is.
    pub fn output(&self, line: &str) -> Output {
        process::output(&mut self.words(line))
    }

    /// Starts a command line that goes on while the test does other things.
    #[must_use]
    pub fn start(&self, line: &str) -> Process {
        Process::start(line, &self.words(line))
    }

    /// Sets a kernel parameter of this namespace, when the kernel has it.
    pub fn sysctl(&self, key: &str, value: &str) {
        let file = format!("/proc/sys/{}", key.replace('.', "/"));
        let mut write = self.command("sh");
        write.args(["-c", "echo \"$0\" >\"$1\"", value, &file]);
        let _ = process::output(&mut write);
    }

    /// Runs `make` on a thread inside; sockets that it makes stay there wherever they are used.
    ///
    /// # Panics
    /// When the namespace cannot be entered, or `make` panics.
    pub fn inside<T: Send>(&self, make: impl FnOnce() -> T + Send) -> T {
        let file = File::open(format!("/run/netns/{}", self.name)).expect("the namespace's file");
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let kind = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(file.as_fd(), kind).expect("the right to enter");
                make()
            });
            thread.join().expect("a thread inside the namespace")
        })
    }

    /// Names of its network devices.
    #[must_use]
    pub fn devices(&self) -> Vec<String> {
        self.run("ip -o link show")
            .lines()
            .filter_map(|line| line.split(": ").nth(1))
            .map(|name| name.split('@').next().unwrap_or(name).to_owned())
            .collect()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = process::output(Command::new("ip").args(["netns", "del", &self.name]));
    }
}

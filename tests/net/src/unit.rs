//! Unit tests that change the network do so in a network namespace of their own.

use std::env;
use std::fs::File;
use std::future::Future;
use std::io::ErrorKind;
use std::process::Command;

/// Set in the process that runs inside.
const INSIDE: &str = "MPT_TEST_NAMESPACE";

/// Runs `body` in a network namespace that is made for it and gone at its end.
///
/// `test` is the test's own full name: the test program runs it once more, under `unshare`. Where
/// that is not allowed, or TUN is out of reach, the test is skipped and says so.
///
/// # Panics
/// When the test fails there.
pub fn in_network_namespace(test: &str, body: impl Future<Output = ()>) {
    inside(test, &["--user", "--map-root-user", "--net"], body);
}

/// The same in the user namespace that the test is in, for what the kernel allows to root of the first one alone, as
/// bpf(2): of anybody else the test is skipped.
///
/// # Panics
/// When the test fails there.
pub fn in_network_namespace_as_root(test: &str, body: impl Future<Output = ()>) {
    inside(test, &["--net"], body);
}

fn inside(test: &str, unshared: &[&str], body: impl Future<Output = ()>) {
    if env::var_os(INSIDE).is_some() {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime")
            .block_on(body);
        return;
    }
    let tun = File::options().read(true).write(true).open("/dev/net/tun");
    if let Err(error) = tun {
        eprintln!("skipped: /dev/net/tun: {error}");
        return;
    }
    let output = Command::new("unshare")
        .args(unshared)
        .arg(env::current_exe().expect("the test program"))
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, "1")
        .output();
    let output = match output {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            eprintln!("skipped: there is no unshare");
            return;
        }
        other => other.expect("a process"),
    };
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    if stderr.starts_with("unshare:") {
        eprintln!("skipped: {stderr}");
        return;
    }
    assert!(
        output.status.success() && stdout.contains("1 passed"),
        "{stdout}{stderr}"
    );
}

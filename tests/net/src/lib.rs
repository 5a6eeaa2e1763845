//! Two hosts, the links between them, and traffic: what MPT's integration tests are made of.
//!
//! A host is a network namespace ([`Namespace`]); a link is a veth pair whose two ends are shaped by
//! `tc netem` ([`Link`], [`Shape`]), the way the papers shape theirs: rate and delay on the egress of
//! each end. [`Hosts`] puts two hosts and any number of links together, [`Tunnel`] starts an
//! `mpt-tund` on each, and [`traffic`] drives iperf3 and ping through it.
//!
//! Everything is made by ordinary tools (`ip`, `tc`, `ethtool`, `nsenter`) in ordinary processes, so
//! that a failing test can be repeated by hand. Names carry this process's id. What a test started
//! is stopped by process id when its value is dropped, and a process whose test was killed dies with
//! it (`PR_SET_PDEATHSIG`).
//!
//! The tests run natively and inside the lab (tests/lab), where time is virtual: it stands still
//! while anything computes. So nothing here may spin; whatever waits, sleeps and looks again.
//!
//! These tests need a network namespace to themselves and, most of them, netem. `./test` gives them
//! both; under a plain `cargo test` they do nothing and say so, see [`turn`].

pub mod daemon;
pub mod echo;
pub mod faults;
pub mod initiation;
pub mod inject;
pub mod kernel_gre;
pub mod limit;
pub mod link;
pub mod meter;
pub mod names;
pub mod namespace;
pub mod ping;
pub mod process;
pub mod profile;
pub mod quic;
pub mod random;
pub mod settings;
pub mod shape;
pub mod stream;
pub mod topology;
pub mod trace;
pub mod traffic;
pub mod transfer;
pub mod unit;
pub mod uplinks;
pub mod watch;
pub mod weather;

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub use daemon::Daemon;
pub use echo::Echo;
pub use faults::{Bench, Fault};
pub use limit::goodput_limit_mbps;
pub use link::{Family, Link, Place};
pub use meter::Meter;
pub use namespace::Namespace;
pub use process::Process;
pub use random::Random;
pub use settings::Settings;
pub use shape::Shape;
pub use topology::{Hosts, Tunnel};
pub use trace::Trace;
pub use uplinks::{Files, Uplinked, Uplinks};
pub use weather::{Passing, Who};

static TURN: Mutex<()> = Mutex::new(());

/// The right to use the machine's network, one test at a time; `None` under a plain `cargo test`.
///
/// A test that measures must not share its processor with another of the same process. Set
/// `MPT_TEST_NET=1`, as `./test` does, to run these tests.
#[must_use]
pub fn turn() -> Option<MutexGuard<'static, ()>> {
    if std::env::var_os("MPT_TEST_NET").is_none_or(|value| value != "1") {
        println!("needs network namespaces of its own: run by ./test, which sets MPT_TEST_NET=1");
        return None;
    }
    Some(TURN.lock().unwrap_or_else(PoisonError::into_inner))
}

/// True inside the lab, where the clock stands still while a program computes.
#[must_use]
pub fn in_lab() -> bool {
    std::env::var_os("MPT_LAB").is_some()
}

/// Says that a test could not run here, in the words that `./test` counts.
pub fn skip(reason: &str) {
    println!("skipped: {reason}");
}

/// The folder of programs that `tests/need` gets and does not install.
#[must_use]
pub fn tools() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let cache = || variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    variable("MPT_TOOLS").or_else(|| Some(cache()?.join("mpt-tests")))
}

/// Looks every 10 ms until `ready` gives a value, for at most `limit`; panics with `what` then.
pub fn wait_for<T>(what: &str, limit: Duration, mut ready: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(
            start.elapsed() < limit,
            "waited {limit:?} in vain for: {what}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

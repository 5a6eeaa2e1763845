//! A download by QUIC: the program of tests/quic at both ends.

use std::ffi::OsString;
use std::process::Command;
use std::time::Duration;

use crate::namespace::Namespace;
use crate::process::{Process, program_of_tests};
use crate::wait_for;

/// Where the server listens.
const PORT: u16 = 4433;
/// The program gives up before.
const PATIENCE: Duration = Duration::from_secs(40);

/// Mbit/s that arrive at `client` in each of so many seconds from the first packet of a new connection to `server`,
/// which has this address.
///
/// # Panics
/// When the connection breaks.
#[must_use]
pub fn each_second_mbps(
    server: &Namespace,
    client: &Namespace,
    address: &str,
    seconds: u32,
) -> Vec<f64> {
    let program: OsString = program_of_tests("quic-transfer");
    let to = format!("{address}:{PORT}");
    let command = |host: &Namespace, words: &[&str]| -> Command {
        let mut command = host.command(&program);
        command.args(words);
        command
    };
    let mut serving = Process::start("quic-transfer", &command(server, &["serve", &to]));
    wait_for("a QUIC server", PATIENCE, || {
        let ended = serving.ended();
        assert!(ended.is_none(), "{}", serving.log());
        serving.stdout().contains("ready").then_some(())
    });
    let words = ["fetch", &to, &seconds.to_string()];
    let mut fetching = Process::start("quic-transfer", &command(client, &words));
    let ended = fetching.wait(PATIENCE + Duration::from_secs(u64::from(seconds)));
    assert!(ended.success(), "{}", fetching.log());
    // What its packets met.
    wait_for("the connection's end", PATIENCE, || {
        serving.stdout().contains("lost").then_some(())
    });
    println!(
        "QUIC: {}; {} found the socket's buffer full",
        serving.stdout().lines().last().unwrap_or_default(),
        socket_drops(client)
    );
    let lines = fetching.stdout();
    let each: Vec<f64> = lines.lines().filter_map(|line| line.parse().ok()).collect();
    assert_eq!(each.len(), seconds as usize, "{}", fetching.log());
    each
}

/// Datagrams for which a socket of this host had no room, since it was made.
fn socket_drops(host: &Namespace) -> u64 {
    let text = host.run("cat /proc/net/snmp");
    let mut udp = text.lines().filter(|line| line.starts_with("Udp:"));
    let (names, values) = (
        udp.next().unwrap_or_default(),
        udp.next().unwrap_or_default(),
    );
    let mut both = names.split_whitespace().zip(values.split_whitespace());
    let drops = both.find(|(name, _)| *name == "RcvbufErrors");
    drops.and_then(|(_, count)| count.parse().ok()).unwrap_or(0)
}

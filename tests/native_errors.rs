//! What a daemon says when it cannot start: each text names the cause and the remedy.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use std::process::Output;

use net::settings::Side;
use net::{Daemon, Hosts, Link, Settings, Shape, process};

fn hosts() -> Hosts {
    Hosts::new(&[Shape::unshaped()])
}

/// Runs mpt-tund on host A, with its configuration changed by `change` and behind the words
/// `before`, and returns what it said when it ended.
fn refused(hosts: &Hosts, before: &[&str], change: impl Fn(String) -> String) -> String {
    let devices = hosts.a.devices();
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("control.sock").display().to_string();
    let links: Vec<&Link> = hosts.links.iter().collect();
    let file = folder.path().join("tunnel.toml");
    let text = Settings::new().toml(Side::A, "mpt0", &links, &socket);
    std::fs::write(&file, change(text)).unwrap();
    // A daemon that starts after all must not stay: `timeout` ends it, with exit code 124.
    let mut command = hosts.a.words("timeout 5");
    command.args(before).arg(process::program("mpt-tund"));
    let output: Output = process::output(command.arg("--config").arg(&file));
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    println!("{}", words.trim_end());
    assert!(matches!(output.status.code(), Some(1..=99)), "{output:?}");
    assert!(!words.contains("panicked"), "{words}");
    assert_eq!(hosts.a.devices(), devices, "an interface is left behind");
    words
}

fn names(words: &str, expected: &[&str]) {
    for part in expected {
        assert!(words.contains(part), "no '{part}' in: {words}");
    }
}

fn unchanged(text: String) -> String {
    text
}

#[test]
fn without_privilege() {
    let Some(_turn) = net::turn() else { return };
    let bare = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"];
    let words = refused(&hosts(), &bare, unchanged);
    names(&words, &["CAP_NET_ADMIN"]);
}

#[test]
fn no_tun_device() {
    let Some(_turn) = net::turn() else { return };
    let hidden = "mount -t tmpfs tmpfs /dev/net && exec \"$0\" \"$@\"";
    let words = refused(
        &hosts(),
        &["unshare", "--mount", "sh", "-c", hidden],
        unchanged,
    );
    names(&words, &["/dev/net/tun", "modprobe tun"]);
}

#[test]
fn interface_name_taken() {
    let Some(_turn) = net::turn() else { return };
    let hosts = hosts();
    hosts.a.run("ip link add taken0 type veth peer name taken1");
    let words = refused(&hosts, &[], |text| text.replace("\"mpt0\"", "\"taken0\""));
    names(&words, &["taken0", "name"]);
}

#[test]
fn tunnel_that_runs_already() {
    let Some(_turn) = net::turn() else { return };
    let hosts = hosts();
    let _first = running(&hosts, "mpt0");
    let words = refused(&hosts, &[], unchanged);
    names(&words, &["mpt0"]);
}

fn running(hosts: &Hosts, tunnel: &str) -> Daemon {
    let links: Vec<&Link> = hosts.links.iter().collect();
    Daemon::start(&hosts.a, tunnel, |socket| {
        Settings::new().toml(Side::A, tunnel, &links, socket)
    })
}

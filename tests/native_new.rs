//! From nothing to a tunnel, as docs/two-hosts.md has it: `mpt-ctl new`, copy, start.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use std::path::Path;

use net::process::program;
use net::traffic::ping;
use net::uplinks::{SERVER, has_nat};
use net::{Daemon, Namespace, Uplinked, Uplinks};

/// A daemon with the files of a folder as they were made, but for the control socket: both hosts of
/// this test share one /run.
fn start(host: &Namespace, name: &str, files: &Path) -> Daemon {
    Daemon::start(host, name, |socket| {
        let key = format!("{name}.key");
        let beside = Path::new(socket).with_file_name(&key);
        std::fs::copy(files.join(&key), beside).unwrap();
        let text = std::fs::read_to_string(files.join(format!("{name}.toml"))).unwrap();
        format!("{text}\n[control]\nsocket = \"{socket}\"\n")
    })
}

/// Runs `mpt-ctl new` on the client with these words, and starts both ends.
fn make(net: &Uplinks, name: &str, words: &str) -> (Daemon, Daemon) {
    let folder = tempfile::tempdir().unwrap();
    let mut new = net.client.command(program("mpt-ctl"));
    new.args(["new", "--server", SERVER, "--name", name, "--out"])
        .arg(folder.path())
        .args(words.split_whitespace());
    let output = new.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains("default route here: eth0, wwan0"), "{told}");
    let server = start(&net.server, name, &folder.path().join("server"));
    (start(&net.client, name, folder.path()), server)
}

#[test]
fn three_commands_make_a_tunnel_from_behind_two_nat_routers() {
    let Some(_turn) = net::turn() else { return };
    if !has_nat() {
        return net::skip("this kernel has no NAT by nftables");
    }
    let net = Uplinks::new();
    let (client, server) = make(&net, "mpt0", "");
    let tunnel = Uplinked {
        client,
        server,
        net,
    };
    tunnel.await_paths();
    let seen = ping(&tunnel.net.client, "10.99.0.2", 10, 20, "");
    assert_eq!(seen.received, 10);
    let status = tunnel.client.ctl_output(&["status"]);
    assert_eq!(
        status.status.code(),
        Some(0),
        "{}",
        tunnel.client.status_text()
    );
}

/// As the table of docs/two-hosts.md has it; the client's uplinks are the same.
#[test]
fn a_second_tunnel_goes_over_the_same_uplinks() {
    let Some(_turn) = net::turn() else { return };
    if !has_nat() {
        return net::skip("this kernel has no NAT by nftables");
    }
    let net = Uplinks::new();
    let _first = make(&net, "mpt0", "");
    let _second = make(&net, "mpt1", "--port 5000 --inner 10.7.0.0/30");
    for inner in ["10.99.0.2", "10.7.0.2"] {
        net::wait_for("both tunnels", std::time::Duration::from_secs(10), || {
            (ping(&net.client, inner, 1, 20, "").received == 1).then_some(())
        });
        assert_eq!(ping(&net.client, inner, 10, 20, "").received, 10);
    }
}

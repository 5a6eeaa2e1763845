//! From nothing to a tunnel, as docs/two-hosts.md has it: `mpt-ctl new`, copy, start.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use std::path::Path;

use net::process::program;
use net::traffic::ping;
use net::uplinks::{SERVER, has_nat};
use net::{Daemon, Namespace, Uplinked, Uplinks};

/// A daemon with the files of a folder as they were made, but for the control socket: both hosts of
/// this test share one /run.
fn start(host: &Namespace, files: &Path) -> Daemon {
    Daemon::start(host, "mpt0", |socket| {
        let key = Path::new(socket).with_file_name("mpt0.key");
        std::fs::copy(files.join("mpt0.key"), key).unwrap();
        let text = std::fs::read_to_string(files.join("mpt0.toml")).unwrap();
        format!("{text}\n[control]\nsocket = \"{socket}\"\n")
    })
}

#[test]
fn three_commands_make_a_tunnel_from_behind_two_nat_routers() {
    let Some(_turn) = net::turn() else { return };
    if !has_nat() {
        return net::skip("this kernel has no NAT by nftables");
    }
    let net = Uplinks::new();
    let folder = tempfile::tempdir().unwrap();
    let mut new = net.client.command(program("mpt-ctl"));
    new.args(["new", "--server", SERVER, "--out"])
        .arg(folder.path());
    let output = new.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains("default route here: eth0, wwan0"), "{told}");

    let server = start(&net.server, &folder.path().join("server"));
    let client = start(&net.client, folder.path());
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

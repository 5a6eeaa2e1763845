//! What the daemon tells the service manager, and the commands of `[hooks]`, at a real tunnel whose links fail.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

use net::settings::Side;
use net::{Daemon, Hosts, Link, Settings, Shape, Tunnel, wait_for};

/// How long what is looked at each second may take, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A tunnel over two links; A is started by these words and has these lines besides.
fn tunnel(starter: &[&str], lines: &str) -> Tunnel {
    let hosts = Hosts::new(&[Shape::unshaped(), Shape::unshaped()]);
    let links: Vec<&Link> = hosts.links.iter().collect();
    let settings = Settings::new();
    let text = |side, socket: &str| settings.toml(side, "mpt0", &links, socket);
    // First the other end: it answers the first probe.
    let b = Daemon::start(&hosts.b, "mpt0", |socket| text(Side::B, socket));
    let a = Daemon::start_by(&hosts.a, starter, "mpt0", |socket| {
        format!("{}\n{lines}\n", text(Side::A, socket))
    });
    Tunnel { a, b, hosts }
}

/// Waits for a datagram with this in it.
fn await_told(socket: &UnixDatagram, what: &str) {
    let mut told = Vec::new();
    wait_for(what, PATIENCE, || {
        let mut bytes = [0; 4096];
        let length = socket.recv(&mut bytes).ok()?;
        told.push(String::from_utf8_lossy(&bytes[..length]).into_owned());
        told.last()?.contains(what).then_some(())
    });
}

/// sd_notify(3) against a socket: ready, how the tunnel does, that it is alive, and that it stops.
#[test]
fn systemd_hears_of_readiness_state_and_life() {
    let Some(_turn) = net::turn() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    let place = format!("NOTIFY_SOCKET={}", path.display());
    let mut tunnel = tunnel(&["env", &place, "WATCHDOG_USEC=30000000"], "");
    await_told(&socket, "READY=1");
    await_told(&socket, "STATUS=mpt0: ok, 2 of 2 paths are up");
    await_told(&socket, "WATCHDOG=1");
    tunnel.hosts.links[0].down(&tunnel.hosts.a);
    await_told(&socket, "STATUS=mpt0: degraded, 1 of 2 paths are up: ");
    tunnel.a.process().signal("TERM");
    await_told(&socket, "STOPPING=1");
    tunnel.a.process().wait(PATIENCE);
}

fn lines(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn await_line(file: &Path, what: &str) {
    await_any(file, what, |line| line == what);
}

fn await_any(file: &Path, what: &str, is_it: impl Fn(&str) -> bool) {
    wait_for(what, PATIENCE, || {
        lines(file).iter().any(|line| is_it(line)).then_some(())
    });
}

/// Each event has its command, with the facts and without privileges or the daemon's descriptors; one that hangs holds up
/// neither packets nor the daemon's end.
#[test]
fn hooks_are_run_with_the_facts_and_without_privileges() {
    let Some(_turn) = net::turn() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (said, held) = (folder.path().join("said"), folder.path().join("held"));
    let script = folder.path().join("hook");
    let text = format!(
        "#!/bin/sh\n{{ grep -E '^Cap(Prm|Eff)' /proc/self/status; ls -l /proc/self/fd; }} >> {}\n\
         echo \"$1 $MPT_TUNNEL $MPT_EVENT $MPT_PATH $MPT_OLD_STATE $MPT_STATE $MPT_PATHS_UP\" >> {}\n",
        held.display(),
        said.display()
    );
    std::fs::write(&script, text).unwrap();
    net::process::run(std::process::Command::new("chmod").arg("755").arg(&script));
    let script = script.display();
    let commands = format!(
        "[hooks]\non_up = [\"{script}\", \"list\"]\non_down = \"{script} line\"\n\
         on_path_change = [\"{script}\", \"list\"]"
    );
    let mut tunnel = tunnel(&[], &commands);
    // Which of the paths is up first, or whether both are at once, is open.
    for path in ["path0", "path1"] {
        let up = format!("list mpt0 on_path_change {path} probing up path");
        await_any(&said, &up, |line| line.starts_with(&up));
    }
    let (change, both) = ("list mpt0 on_path_change ", " probing up path0,path1");
    await_any(&said, both, |line| {
        line.starts_with(change) && line.ends_with(both)
    });
    let up = "list mpt0 on_up  down up path";
    await_any(&said, up, |line| line.starts_with(up));
    let bits = lines(&held);
    assert!(bits.len() >= 3, "{bits:?}");
    for bits in &bits[..2] {
        assert!(bits.ends_with("0000000000000000"), "{bits}");
    }
    for what in ["socket:", "anon_inode:", "/dev/net/tun"] {
        assert!(!bits.iter().any(|line| line.contains(what)), "{bits:#?}");
    }

    tunnel.hosts.links[0].down(&tunnel.hosts.a);
    await_line(&said, "list mpt0 on_path_change path0 up down path1");

    // Other commands with a reload; this one hangs as long as it is let.
    let text = std::fs::read_to_string(tunnel.a.config()).unwrap();
    let changed = text.replace(&format!("[\"{script}\", \"list\"]"), "\"sleep 77\"");
    std::fs::write(tunnel.a.config(), changed).unwrap();
    tunnel.a.ctl(&["reload"]);
    tunnel.hosts.links[0].up(&tunnel.hosts.a);
    wait_for("path0", PATIENCE, || {
        (tunnel.a.status().verdict.messages.is_empty()).then_some(())
    });
    tunnel.a.process().signal("TERM");
    tunnel.a.process().wait(PATIENCE);
    await_line(&said, "line mpt0 on_down  up down ");
}

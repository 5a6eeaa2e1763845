//! The daemon as a process: what it may do, who may speak with it, and peers that are known by name.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::Command;
use std::time::Duration;

use mpt_core::control::PathState;
use net::names::KnownNames;
use net::settings::Side;
use net::traffic::ping;
use net::{Daemon, Hosts, Link, Settings, Shape, process, wait_for};

const NET_ADMIN: u64 = 1 << 12;

fn two_links() -> Hosts {
    Hosts::new(&[Shape::unshaped(), Shape::unshaped()])
}

/// A line of /proc/PID/task/TID/status for each thread, with the thread's name.
fn threads(id: u32, key: &str) -> Vec<(String, String)> {
    let tasks = std::fs::read_dir(format!("/proc/{id}/task")).unwrap();
    let status = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("status")));
    let field = |text: &str, key: &str| {
        let line = text.lines().find(|line| line.starts_with(key)).unwrap();
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    let each = |text: String| (field(&text, "Name:"), field(&text, key));
    status.map(|text| each(text.unwrap())).collect()
}

/// After set-up the control thread has CAP_NET_ADMIN, those that packets go through have nothing, and
/// reloads still work.
#[test]
fn privileges_are_given_up_after_set_up() {
    let Some(_turn) = net::turn() else { return };
    let mut tunnel = two_links().tunnel(&Settings::new());
    for key in ["CapEff:", "CapPrm:"] {
        let held = threads(tunnel.a.id(), key);
        assert!(held.len() >= 3, "{held:?}");
        for (name, bits) in held {
            let bits = u64::from_str_radix(&bits, 16).unwrap();
            let line = name.ends_with("-out") || name.ends_with("-in");
            assert_eq!(bits, if line { 0 } else { NET_ADMIN }, "{name}, {key}");
        }
    }
    for (name, set) in threads(tunnel.a.id(), "NoNewPrivs:") {
        assert_eq!(set, "1", "{name}");
    }
    let limits = tunnel.a.process().proc_file("limits");
    let core = limits
        .lines()
        .find(|line| line.starts_with("Max core file size"));
    assert!(
        core.unwrap().split_whitespace().any(|word| word == "0"),
        "{limits}"
    );

    // Nor would one that somebody makes all the same have memory in it.
    let filter = tunnel.a.process().proc_file("coredump_filter");
    assert_eq!(filter.trim(), "00000000");

    // A path, an address and an MTU change all the same.
    let text = std::fs::read_to_string(tunnel.a.config()).unwrap();
    let changed = text
        .replace("local = \"10.1.1.1\"", "local = \"10.1.1.1:4755\"")
        .replace(
            "addresses = [",
            "mtu = 1400\naddresses = [\"10.98.0.1/32\", ",
        );
    std::fs::write(tunnel.a.config(), changed).unwrap();
    tunnel.a.ctl(&["reload"]);
    let addresses = tunnel.hosts.a.run("ip address show mpt0");
    assert!(
        addresses.contains("10.98.0.1/32") && addresses.contains("mtu 1400"),
        "{addresses}"
    );
    assert!(tunnel.a.status().paths[1].local.ends_with(":4755"));
}

/// The user of tests, and its group: no name, so that no host has to know it.
const USER: &str = "65533:65533";

/// With `user` no thread is root, nothing belongs to that user, and all goes on that went on as root: files that
/// root alone may read are read again, saved and replaced, sockets and the interface made again.
#[test]
fn with_a_user_of_its_own_it_saves_reloads_and_makes_sockets() {
    let Some(_turn) = net::turn() else { return };
    let uids = std::fs::read_to_string("/proc/self/uid_map").unwrap();
    if uids.split_whitespace().nth(2) == Some("1") {
        return net::skip("this user namespace has one user alone");
    }
    let hosts = two_links();
    let links: Vec<&Link> = hosts.links.iter().collect();
    let settings = Settings::new().sealed();
    let start = |host, side| {
        Daemon::start(host, "mpt0", |socket| {
            let text = settings.toml(side, "mpt0", &links, socket);
            format!("user = \"{USER}\"\n{text}")
        })
    };
    let (a, b) = (start(&hosts.a, Side::A), start(&hosts.b, Side::B));
    let mut tunnel = net::Tunnel { a, b, hosts };
    tunnel.await_paths();
    for key in ["Uid:", "Gid:"] {
        for (name, id) in threads(tunnel.a.id(), key) {
            assert_eq!(id, "65533", "{name}, {key}");
        }
    }
    for (name, bits) in threads(tunnel.a.id(), "CapPrm:") {
        let bits = u64::from_str_radix(&bits, 16).unwrap();
        let line = name.ends_with("-out") || name.ends_with("-in");
        assert_eq!(bits, if line { 0 } else { NET_ADMIN }, "{name}");
    }
    // A folder that the user may not even look into.
    let closed = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(tunnel.a.config().parent().unwrap(), closed).unwrap();

    // It saves what runs into a file that is root's.
    let mode = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(tunnel.a.config(), mode).unwrap();
    tunnel.a.ctl(&["reorder", "set", "window=777"]);
    tunnel.a.ctl(&["save"]);
    let text = std::fs::read_to_string(tunnel.a.config()).unwrap();
    assert!(text.contains("window = 777"), "{text}");
    let file = tunnel.a.config().metadata().unwrap();
    assert_eq!((file.uid(), file.mode() & 0o777), (0, 0o600));

    // It reads that file and the keys again, for `mpt-ctl` and for a signal, and opens a new path's socket.
    let changed = text.replace("local = \"10.1.1.1\"", "local = \"10.1.1.1:4755\"");
    std::fs::write(tunnel.a.config(), &changed).unwrap();
    tunnel.a.ctl(&["reload"]);
    assert!(tunnel.a.status().paths[1].local.ends_with(":4755"));
    std::fs::write(tunnel.a.config(), &text).unwrap();
    tunnel.a.process().signal("HUP");
    wait_for("the port of before", Duration::from_secs(5), || {
        tunnel.a.status().paths[1]
            .local
            .ends_with(":4754")
            .then_some(())
    });
    let metrics = tunnel.a.socket().with_file_name("metrics.sock");
    let measured = format!("{text}[metrics]\nlisten = {metrics:?}\n");
    std::fs::write(tunnel.a.config(), &measured).unwrap();
    tunnel.a.ctl(&["reload"]);
    assert!(metrics.exists());
    std::fs::write(tunnel.a.config(), changed.replace(USER, "65532:65532")).unwrap();
    let refused = tunnel.a.ctl_output(&["reload"]);
    let refused = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        refused.contains("restart mpt-tund to change the user"),
        "{refused}"
    );
    // What goes on as it was is looked after as it was.
    std::fs::remove_file(&metrics).unwrap();
    wait_for("the socket for metrics", Duration::from_secs(5), || {
        metrics.exists().then_some(())
    });
    std::fs::write(tunnel.a.config(), &text).unwrap();

    // A control socket, an address and an interface that somebody removes are there again.
    std::fs::remove_file(tunnel.a.socket()).unwrap();
    wait_for("the control socket", Duration::from_secs(5), || {
        tunnel.a.answer().map(|_| ())
    });
    tunnel.hosts.a.run("ip -4 address flush dev path1");
    tunnel.hosts.a.run("ip address add 10.1.1.1/24 dev path1");
    tunnel.hosts.a.run("ip link delete mpt0");
    tunnel.await_paths();
    let inner = Side::B.inner_v4();
    wait_for("the tunnel", Duration::from_secs(10), || {
        (ping(&tunnel.hosts.a, inner, 1, 20, "").received == 1).then_some(())
    });
}

/// What cannot be become is said before anything is opened.
#[test]
fn a_user_that_is_not_known_ends_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mpt0.toml");
    let text = "user = \"nobody-of-that-name\"\n[tunnel]\nname = \"mpt0\"\n[[paths]]\nname = \"a\"\n\
                local = \"127.0.0.1\"\nremote = \"127.0.0.2\"\n";
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(process::program("mpt-tund"));
    let output = command.arg("--config").arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{said}");
    assert!(
        said.contains("useradd --system nobody-of-that-name"),
        "{said}"
    );
}

/// CAP_NET_ADMIN alone is enough to begin with.
#[test]
fn a_daemon_with_net_admin_alone_works() {
    let Some(_turn) = net::turn() else { return };
    let hosts = two_links();
    let links: Vec<&Link> = hosts.links.iter().collect();
    let settings = Settings::new().sealed();
    let alone = [
        "setpriv",
        "--bounding-set=-all,+net_admin",
        "--inh-caps=-all",
        "--",
    ];
    let start = |host, side| {
        Daemon::start_by(host, &alone, "mpt0", |socket| {
            settings.toml(side, "mpt0", &links, socket)
        })
    };
    let (a, b) = (start(&hosts.a, Side::A), start(&hosts.b, Side::B));
    let tunnel = net::Tunnel { a, b, hosts };
    tunnel.await_paths();
    let inner = Side::B.inner_v4();
    assert_eq!(ping(&tunnel.hosts.a, inner, 5, 20, "").received, 5);
    assert!(
        !tunnel.a.log().contains("cannot be given up"),
        "{}",
        tunnel.a.log()
    );
}

/// The control socket's owner and mode are those of the configuration.
#[test]
fn the_control_socket_belongs_to_whom_the_configuration_says() {
    let Some(_turn) = net::turn() else { return };
    let hosts = two_links();
    let links: Vec<&Link> = hosts.links.iter().collect();
    // In a user namespace there is no other number to give it to.
    let uids = std::fs::read_to_string("/proc/self/uid_map").unwrap();
    let group = if uids.split_whitespace().nth(2) == Some("1") {
        0
    } else {
        7
    };
    let daemon = Daemon::start(&hosts.a, "mpt0", |socket| {
        let text = Settings::new().toml(Side::A, "mpt0", &links, socket);
        let lines = format!("[control]\nowner = \":{group}\"\nmode = \"0660\"\n");
        text.replace("[control]\n", &lines)
    });
    let file = daemon.socket().metadata().unwrap();
    assert_eq!(file.permissions().mode() & 0o7777, 0o660);
    assert_eq!((file.uid(), file.gid()), (0, group));

    // Whoever removes it, it comes back as it was.
    std::fs::remove_file(daemon.socket()).unwrap();
    wait_for("the control socket", Duration::from_secs(5), || {
        let file = daemon.socket().metadata().ok()?;
        let is_as_before = file.mode() & 0o7777 == 0o660 && file.gid() == group;
        (is_as_before && daemon.answer().is_some()).then_some(())
    });
    let log = daemon.log();
    assert!(log.contains("was removed: made again"), "{log}");
}

/// A peer's name is looked up at the start, and again when its path is down: it may be elsewhere.
#[test]
fn a_peer_is_found_by_its_name_and_found_again() {
    let Some(_turn) = net::turn() else { return };
    let known = KnownNames::cover("10.1.0.2 office.mpt.test\n");
    let hosts = two_links();
    let links = [&hosts.links[0]];
    let settings = Settings::new();
    let start = |host, side| {
        Daemon::start(host, "mpt0", |socket| {
            let text = settings.toml(side, "mpt0", &links, socket);
            text.replace("remote = \"10.1.0.2\"", "remote = \"office.mpt.test\"")
        })
    };
    let (a, b) = (start(&hosts.a, Side::A), start(&hosts.b, Side::B));
    let tunnel = net::Tunnel { a, b, hosts };
    tunnel.await_paths();
    assert_eq!(tunnel.a.status().paths[0].remote, "10.1.0.2:4754");

    // B moves; A's path goes down and finds it at its new address.
    let text = std::fs::read_to_string(tunnel.b.config()).unwrap();
    tunnel.hosts.b.run("ip address add 10.1.0.66/24 dev path0");
    tunnel.hosts.a.run("ip route add 10.1.0.66 dev path0");
    let moved = text.replace("local = \"10.1.0.2\"", "local = \"10.1.0.66\"");
    std::fs::write(tunnel.b.config(), moved).unwrap();
    known.change("10.1.0.66 office.mpt.test\n");
    tunnel.b.ctl(&["reload"]);
    wait_for(
        "the path by the new address",
        Duration::from_secs(45),
        || {
            let path = tunnel.a.status().paths.remove(0);
            (path.state == PathState::Up && path.remote == "10.1.0.66:4754").then_some(())
        },
    );
    let inner = Side::B.inner_v4();
    assert_eq!(ping(&tunnel.hosts.a, inner, 5, 20, "").received, 5);
}

/// The systemd unit is as tight as docs/security.md says.
#[test]
fn the_unit_has_the_figure_that_is_documented() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let unit = format!("{root}/conf/mpt.service");
    let words = ["security", "--offline=true", "--no-pager", &unit];
    let Ok(output) = Command::new("systemd-analyze").args(words).output() else {
        return net::skip("there is no systemd-analyze");
    };
    let figure = |text: &str| -> Option<f64> {
        let (_, rest) = text.split_once("Overall exposure level for mpt.service: ")?;
        rest.split_whitespace().next()?.parse().ok()
    };
    let Some(measured) = figure(&String::from_utf8_lossy(&output.stdout)) else {
        return net::skip("this systemd-analyze cannot look at a file");
    };
    let document = std::fs::read_to_string(format!("{root}/docs/security.md")).unwrap();
    println!("exposure level {measured}");
    // Versions of systemd weigh things a little differently.
    assert!(measured <= figure(&document).unwrap() + 0.3);
}

//! A daemon's life: start, reload, several tunnels, end; and what an idle one costs.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use std::process::Command;
use std::time::Duration;

use mpt_core::control::PathState;
use net::daemon::PATIENCE;
use net::settings::Side;
use net::traffic::{Iperf, ping};
use net::{Daemon, Hosts, Link, Process, Settings, Shape, process, wait_for};

fn two_links() -> Hosts {
    Hosts::new(&[Shape::unshaped(), Shape::unshaped()])
}

/// Traffic passes both ways, and SIGTERM leaves neither interface, route, socket nor process.
#[test]
fn a_tunnel_comes_and_goes_without_a_trace() {
    let Some(_turn) = net::turn() else { return };
    let hosts = two_links();
    let before = (hosts.a.devices(), hosts.a.run("ip route show table all"));
    let settings = Settings::new().tunnel("routes = [\"192.0.2.0/24\", \"2001:db8::/32\"]");
    let mut tunnel = hosts.tunnel(&settings);
    for inner in [Side::B.inner_v4(), Side::B.inner_v6()] {
        assert_eq!(
            ping(&tunnel.hosts.a, inner, 5, 20, "").received,
            5,
            "{inner}"
        );
    }
    assert_eq!(
        ping(&tunnel.hosts.b, Side::A.inner_v4(), 5, 20, "").received,
        5
    );
    let routes = tunnel.hosts.a.run("ip route show dev mpt0")
        + &tunnel.hosts.a.run("ip -6 route show dev mpt0");
    assert!(
        routes.contains("192.0.2.0/24") && routes.contains("2001:db8::/32"),
        "{routes}"
    );
    tunnel.a.terminate();
    tunnel.b.terminate();
    let hosts = &tunnel.hosts;
    let after = (hosts.a.devices(), hosts.a.run("ip route show table all"));
    assert_eq!(after, before);
}

/// The other end's death is noticed, and its return, with the new session.
#[test]
fn a_restarted_peer_is_taken_back() {
    let Some(_turn) = net::turn() else { return };
    let mut tunnel = two_links().tunnel(&Settings::new());
    let session = tunnel.a.status().tunnel.peer_session;
    tunnel.b.terminate();
    wait_for("paths down", Duration::from_secs(3), || {
        let paths = tunnel.a.status().paths;
        paths
            .iter()
            .all(|path| path.state != PathState::Up)
            .then_some(())
    });
    let hosts = &tunnel.hosts;
    tunnel.b.start_again(&hosts.b);
    tunnel.await_paths();
    assert_eq!(
        ping(&tunnel.hosts.a, Side::B.inner_v4(), 3, 20, "").received,
        3
    );
    assert_ne!(tunnel.a.status().tunnel.peer_session, session);
}

/// SIGHUP with a changed file: the new settings hold, and a flow over the unchanged path loses
/// nothing.
#[test]
fn a_reload_drops_nothing() {
    let Some(_turn) = net::turn() else { return };
    let mut tunnel = two_links().tunnel(&Settings::new().weights(&[100, 100]).reorder(512, 200));
    // A receive buffer for 80 ms: on a busy machine iperf3 itself must not be what loses.
    let run = Iperf::udp(Side::B.inner_v4(), 3, 20.0, 1200).words("-w 400K");
    let flow = run.start(&tunnel.hosts.a, &tunnel.hosts.b);
    std::thread::sleep(Duration::from_secs(1));
    let file = tunnel.a.config();
    let text = std::fs::read_to_string(&file).unwrap();
    let text = text.replacen("weight = 100", "weight = 30", 1);
    let text = text.replace("window = 512", "window = 256");
    std::fs::write(&file, &text).unwrap();
    let session = tunnel.a.status().tunnel.session;
    tunnel.a.process().signal("HUP");
    wait_for("the new settings", PATIENCE, || {
        let status = tunnel.a.status();
        (status.paths[0].weight == 30 && status.reorder.window == 256).then_some(())
    });
    let report = flow.finish();
    assert_eq!((report.lost, report.out_of_order), (0, 0), "{report:?}");
    assert_eq!(
        tunnel.a.status().tunnel.session,
        session,
        "the daemon was not restarted"
    );

    // A file that is wrong changes nothing and is refused in words.
    std::fs::write(&file, "[tunnel]\nnmae = \"mpt0\"\n").unwrap();
    let refused = tunnel.a.ctl_output(&["reload"]);
    assert!(!refused.status.success());
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(words.contains("nmae"), "{words}");
    assert_eq!(tunnel.a.status().paths[0].weight, 30);

    // What is not followed is told until it is; a signal has no other answer.
    let await_refusal = |daemon: &Daemon, wanted: bool| {
        wait_for("the verdict", PATIENCE, || {
            let verdict = daemon.status().verdict;
            let mut codes = verdict.messages.iter().map(|found| &*found.code);
            (codes.any(|code| code == "reload-refused") == wanted).then_some(())
        });
    };
    tunnel.a.process().signal("HUP");
    await_refusal(&tunnel.a, true);
    std::fs::write(&file, &text).unwrap();
    tunnel.a.ctl(&["reload"]);
    await_refusal(&tunnel.a, false);
    let with_restart = text.replacen("[tunnel]", "[tunnel]\nclamp_mss = true", 1);
    let name = text
        .lines()
        .find(|line| line.starts_with("name = "))
        .unwrap();
    let renamed = text.replacen(name, "name = \"another\"", 1);
    for new in [with_restart, renamed] {
        for (text, refused) in [(&new, true), (&text, false)] {
            std::fs::write(&file, text).unwrap();
            tunnel.a.process().signal("HUP");
            await_refusal(&tunnel.a, refused);
        }
    }
    assert_eq!(tunnel.a.status().tunnel.session, session);
}

/// Paths are added and removed by a reload while another carries on.
#[test]
fn a_reload_adds_and_removes_paths() {
    let Some(_turn) = net::turn() else { return };
    let hosts = two_links();
    let links: Vec<&Link> = hosts.links.iter().collect();
    let settings = Settings::new().weights(&[100, 100]);
    let both = |side, socket: &str| settings.toml(side, "mpt0", &links, socket);
    let one = |side, socket: &str| settings.toml(side, "mpt0", &links[..1], socket);
    let a = Daemon::start(&hosts.a, "mpt0", |socket| one(Side::A, socket));
    let b = Daemon::start(&hosts.b, "mpt0", |socket| both(Side::B, socket));
    let set = |daemon: &Daemon, text: String| {
        std::fs::write(daemon.config(), text).unwrap();
        daemon.ctl(&["reload"]);
    };
    set(&a, both(Side::A, &a.socket().display().to_string()));
    wait_for("the second path", PATIENCE, || {
        let paths = a.status().paths;
        (paths.len() == 2 && paths.iter().all(|path| path.state == PathState::Up)).then_some(())
    });
    assert_eq!(ping(&hosts.a, Side::B.inner_v4(), 10, 20, "").received, 10);
    set(&a, one(Side::A, &a.socket().display().to_string()));
    set(&b, one(Side::B, &b.socket().display().to_string()));
    assert_eq!(a.status().paths.len(), 1);
    assert_eq!(ping(&hosts.a, Side::B.inner_v4(), 10, 20, "").received, 10);
}

/// A folder with two tunnels, mpt0 and mpt1, one over each link.
fn two_tunnels(hosts: &Hosts, side: Side) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (index, link) in hosts.links.iter().enumerate() {
        let name = format!("mpt{index}");
        let socket = folder.path().join(format!("{name}.sock"));
        let text = Settings::new()
            .port(4754)
            .toml(side, &name, &[link], &socket.display().to_string())
            .replace("10.99.0.", &format!("10.99.{index}."))
            .replace("fd99::", &format!("fd99:{index}::"));
        std::fs::write(folder.path().join(format!("{name}.toml")), text).unwrap();
    }
    folder
}

/// A daemon of all tunnels of a folder.
fn start_all(host: &net::Namespace, folder: &tempfile::TempDir) -> Process {
    let mut command = host.command(process::program("mpt-tund"));
    Process::start("mpt-tund", command.arg("--config").arg(folder.path()))
}

/// The other one is, and the daemon goes on.
#[test]
fn a_tunnel_whose_interface_is_another_s_is_not_called_open() {
    let Some(_turn) = net::turn() else { return };
    let hosts = two_links();
    hosts.a.run("ip tuntap add mpt1 mode tap");
    let folder = two_tunnels(&hosts, Side::A);
    let daemon = start_all(&hosts.a, &folder);
    wait_for("mpt0", PATIENCE, || {
        daemon.log().contains("tunnel mpt0 is open").then_some(())
    });
    let log = daemon.log();
    assert!(log.contains("interface mpt1 is missing"), "{log}");
    assert!(!log.contains("tunnel mpt1 is open"), "{log}");
}

/// Two tunnels from one folder in one daemon; each end of each carries traffic.
#[test]
fn one_daemon_runs_all_tunnels_of_a_folder() {
    let Some(_turn) = net::turn() else { return };
    let hosts = two_links();
    let folders = [Side::A, Side::B].map(|side| two_tunnels(&hosts, side));
    let mut daemons = [
        start_all(&hosts.a, &folders[0]),
        start_all(&hosts.b, &folders[1]),
    ];
    for index in 0..2 {
        let target = format!("10.99.{index}.2");
        wait_for("traffic in each tunnel", PATIENCE, || {
            (ping(&hosts.a, &target, 1, 20, "-W 1").received == 1).then_some(())
        });
    }
    // What no daemon would start with is no reload of one tunnel either.
    let file = |index: usize| folders[0].path().join(format!("mpt{index}.toml"));
    let texts = [0, 1].map(|index| std::fs::read_to_string(file(index)).unwrap());
    let [local, others] = [0, 1].map(|index| {
        let mut lines = texts[index].lines();
        lines.find(|line| line.starts_with("local")).unwrap()
    });
    std::fs::write(file(0), texts[0].replace(local, others)).unwrap();
    let mut command = hosts.a.command(process::program("mpt-ctl"));
    let socket = folders[0].path().join("mpt0.sock");
    let refused = process::output(command.arg("--socket").arg(socket).arg("reload"));
    assert!(!refused.status.success(), "{refused:?}");
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(words.contains("mpt1.toml"), "{words}");
    for (daemon, host) in daemons.iter_mut().zip([&hosts.a, &hosts.b]) {
        daemon.signal("TERM");
        assert!(daemon.wait(PATIENCE).success(), "{}", daemon.log());
        assert!(!host.devices().iter().any(|name| name.starts_with("mpt")));
    }
}

/// Less than 1 % of a core, at most 12 probes a second for each path, at most 32 MiB.
#[test]
fn an_idle_tunnel_costs_next_to_nothing() {
    let Some(_turn) = net::turn() else { return };
    if net::in_lab() {
        return net::skip("the lab's clock does not see what a program computes");
    }
    let mut tunnel = two_links().tunnel(&Settings::new());
    std::thread::sleep(Duration::from_secs(1));
    let before = tunnel.a.status();
    let used = tunnel.a.process().processor_time();
    std::thread::sleep(Duration::from_secs(5));
    let used = tunnel.a.process().processor_time() - used;
    let after = tunnel.a.status();
    let memory = tunnel.a.process().peak_resident_bytes();
    for (before, after) in before.paths.iter().zip(&after.paths) {
        let sent = (after.tx_packets - before.tx_packets) as f64 / 5.0;
        println!("{}: {sent:.1} packets a second when idle", after.name);
        assert!(sent <= 12.0, "{sent}");
    }
    println!(
        "idle: {:?} of processor time in 5 s, {} KiB resident",
        used,
        memory / 1024
    );
    assert!(used <= Duration::from_millis(50), "{used:?}");
    assert!(memory <= 32 << 20, "{memory}");
}

/// `--check` reads, judges and stops: it opens nothing.
#[test]
fn check_needs_no_rights_and_opens_nothing() {
    let Some(_turn) = net::turn() else { return };
    let hosts = two_links();
    let links: Vec<&Link> = hosts.links.iter().collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tunnel.toml");
    let text = Settings::new().toml(Side::A, "mpt0", &links, "/run/mpt/mpt0.sock");
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(process::program("mpt-tund"));
    let output = process::output(command.arg("--check").arg("--config").arg(&file));
    assert!(output.status.success(), "{output:?}");
    assert!(!hosts.a.devices().contains(&"mpt0".to_owned()));
}

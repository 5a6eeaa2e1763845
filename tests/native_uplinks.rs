//! Uplinks come and go, and so does what the tunnel has of the host: addresses, routes, its interface.
//! Everything mends itself, within a second of when that is possible. The limits here are longer: the
//! machine may be busy.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use mpt_core::control::{PathState, PathStatus, Status};
use net::daemon::PATIENCE;
use net::names::KnownNames;
use net::settings::Side;
use net::stream::Stream;
use net::traffic::ping;
use net::{Daemon, Hosts, Link, Namespace, Process, Settings, Shape, Tunnel, process, wait_for};

/// What may pass until something has mended itself.
const SOON: Duration = Duration::from_secs(6);

fn two_links() -> Hosts {
    Hosts::new(&[Shape::unshaped(), Shape::unshaped()])
}

/// Not sealed, and sealed.
fn both_kinds() -> [Settings; 2] {
    [Settings::new().plain(), Settings::new().sealed()]
}

/// A tunnel over the two links whose configuration at A is changed by `change`.
fn tunnel_of(settings: &Settings, change: impl Fn(String) -> String) -> Tunnel {
    let hosts = two_links();
    let links: Vec<&Link> = hosts.links.iter().collect();
    let a = Daemon::start(&hosts.a, "mpt0", |socket| {
        change(settings.toml(Side::A, "mpt0", &links, socket))
    });
    let b = Daemon::start(&hosts.b, "mpt0", |socket| {
        settings.toml(Side::B, "mpt0", &links, socket)
    });
    Tunnel { hosts, a, b }
}

/// The second path of A names its device.
fn with_interface(text: String) -> String {
    text.replace(
        "name = \"path1\"\n",
        "name = \"path1\"\ninterface = \"path1\"\n",
    )
}

/// The second path of A has a device, and no `local`.
fn with_interface_alone(text: String) -> String {
    with_interface(text).replace("local = \"10.1.1.1\"\n", "")
}

/// Lays the second link, as `Link::lay` does.
fn lay_second(hosts: &Hosts) {
    let peer = hosts.b.name();
    hosts.a.run(&format!(
        "ip link add path1 type veth peer name path1 netns {peer}"
    ));
    for (host, address) in [(&hosts.a, "10.1.1.1"), (&hosts.b, "10.1.1.2")] {
        host.run(&format!("ip addr add {address}/30 dev path1"));
        host.run("ip link set path1 up");
    }
}

fn second(daemon: &Daemon) -> PathStatus {
    daemon.status().paths.remove(1)
}

/// Waits until A's second path waits, for this.
fn await_waiting(tunnel: &Tunnel, reason: &str) {
    wait_for(reason, SOON, || {
        let path = second(&tunnel.a);
        (path.state == PathState::Waiting && path.reason.as_deref() == Some(reason)).then_some(())
    });
    let missing = tunnel.a.status().tunnel.missing;
    assert!(
        missing
            .iter()
            .any(|one| one.what == "path path1" && one.why == reason),
        "{missing:?}"
    );
}

/// Waits until all paths are up at both ends, and packets pass.
fn await_all(tunnel: &Tunnel, what: &str) {
    wait_for(what, SOON, || {
        let is_whole = |daemon: &Daemon| {
            let status = daemon.status();
            let up = status.paths.iter().all(|path| path.state == PathState::Up);
            up && status.tunnel.missing.is_empty()
        };
        (is_whole(&tunnel.a) && is_whole(&tunnel.b)).then_some(())
    });
    let inner = Side::B.inner_v4();
    assert_eq!(
        ping(&tunnel.hosts.a, inner, 5, 20, "").received,
        5,
        "{what}"
    );
}

fn session(daemon: &Daemon) -> (String, Option<String>) {
    let tunnel = daemon.status().tunnel;
    (tunnel.session, tunnel.peer_session)
}

/// Lines of the log with this text.
fn lines(daemon: &Daemon, text: &str) -> usize {
    daemon
        .log()
        .lines()
        .filter(|line| line.contains(text))
        .count()
}

/// A modem that is not there at the start, is plugged in, unplugged, and plugged in again.
#[test]
fn a_device_that_is_not_there_is_waited_for() {
    let Some(_turn) = net::turn() else { return };
    for settings in both_kinds() {
        let hosts = two_links();
        hosts.a.run("ip link del path1");
        let links: Vec<&Link> = hosts.links.iter().collect();
        let start = |host, side, change: &dyn Fn(String) -> String| {
            Daemon::start(host, "mpt0", |socket| {
                change(settings.toml(side, "mpt0", &links, socket))
            })
        };
        // A's path names the device, B's knows it by its address.
        let a = start(&hosts.a, Side::A, &with_interface);
        let b = start(&hosts.b, Side::B, &|text| text);
        let tunnel = Tunnel { hosts, a, b };
        await_waiting(&tunnel, "interface path1 is not there");
        let other = second(&tunnel.b);
        assert_eq!(
            (other.state, other.reason.as_deref()),
            (
                PathState::Waiting,
                Some("no interface has the address 10.1.1.2")
            )
        );
        wait_for("the other path", SOON, || {
            (tunnel.a.status().paths[0].state == PathState::Up).then_some(())
        });
        let inner = Side::B.inner_v4();
        assert_eq!(ping(&tunnel.hosts.a, inner, 5, 20, "").received, 5);
        let before = session(&tunnel.a);
        for round in 1..=2 {
            lay_second(&tunnel.hosts);
            await_all(&tunnel, "the path over the device that came");
            assert_eq!(second(&tunnel.a).local, "10.1.1.1:4754");
            tunnel.hosts.a.run("ip link del path1");
            await_waiting(&tunnel, "interface path1 is not there");
            assert_eq!(ping(&tunnel.hosts.a, inner, 5, 20, "").received, 5);
            let said = lines(&tunnel.a, "tunnel mpt0: path path1 waits: interface path1");
            assert_eq!(said, round + 1, "{}", tunnel.a.log());
        }
        assert_eq!(session(&tunnel.a), before, "the session is kept");
    }
}

/// A device that is deleted and made again in one moment has another index.
#[test]
fn a_device_that_is_replaced_in_a_moment_is_used_anew() {
    let Some(_turn) = net::turn() else { return };
    for settings in both_kinds() {
        let tunnel = tunnel_of(&settings, with_interface_alone);
        await_all(&tunnel, "the start");
        let before = session(&tunnel.a);
        for _ in 0..3 {
            tunnel.hosts.a.run("ip link del path1");
            lay_second(&tunnel.hosts);
            wait_for("packets over the new device", SOON, || {
                let path = second(&tunnel.a);
                let (sent, up) = (path.rx_packets, path.state == PathState::Up);
                std::thread::sleep(Duration::from_millis(300));
                (up && second(&tunnel.a).rx_packets > sent).then_some(())
            });
            await_all(&tunnel, "after the exchange");
        }
        assert_eq!(session(&tunnel.a), before);
    }
}

/// The same of a daemon that has a user of its own, whose device is also unplugged for a while.
#[test]
fn a_daemon_with_a_user_of_its_own_uses_a_replaced_device_anew() {
    let Some(_turn) = net::turn() else { return };
    let uids = std::fs::read_to_string("/proc/self/uid_map").unwrap();
    if uids.split_whitespace().nth(2) == Some("1") {
        return net::skip("this user namespace has one user alone");
    }
    for change in [with_interface, with_interface_alone] {
        let mut tunnel = tunnel_of(&Settings::new().sealed(), |text| {
            format!("user = \"65533:65533\"\n{}", change(text))
        });
        await_all(&tunnel, "the start");
        let status = tunnel.a.process().proc_file("status");
        let user = status.lines().find(|line| line.starts_with("Uid:"));
        assert_eq!(user, Some("Uid:\t65533\t65533\t65533\t65533"));
        let before = session(&tunnel.a);
        for at_once in [true, false, true] {
            tunnel.hosts.a.run("ip link del path1");
            if !at_once {
                await_waiting(&tunnel, "interface path1 is not there");
            }
            lay_second(&tunnel.hosts);
            wait_for("packets over the new device", SOON, || {
                let path = second(&tunnel.a);
                let (received, up) = (path.rx_packets, path.state == PathState::Up);
                std::thread::sleep(Duration::from_millis(300));
                (up && second(&tunnel.a).rx_packets > received).then_some(())
            });
            await_all(&tunnel, "after the exchange");
        }
        assert_eq!(session(&tunnel.a), before);
    }
}

/// An address that goes and comes back; and, where the interface alone is named, another one.
#[test]
fn an_address_is_followed() {
    let Some(_turn) = net::turn() else { return };
    for settings in both_kinds() {
        let tunnel = tunnel_of(&settings, |text| text);
        await_all(&tunnel, "the start");
        for _ in 0..2 {
            tunnel.hosts.a.run("ip addr del 10.1.1.1/30 dev path1");
            await_waiting(&tunnel, "no interface has the address 10.1.1.1");
            tunnel.hosts.a.run("ip addr add 10.1.1.1/30 dev path1");
            await_all(&tunnel, "the address is back");
        }
    }
    let tunnel = tunnel_of(&Settings::new().sealed(), with_interface_alone);
    await_all(&tunnel, "the start without `local`");
    let before = session(&tunnel.a);
    assert_eq!(second(&tunnel.a).local, "10.1.1.1:4754");
    for host in [&tunnel.hosts.a, &tunnel.hosts.b] {
        host.run("ip route add 10.1.1.0/24 dev path1");
    }
    let mut old = "10.1.1.1/30".to_owned();
    for last in [33, 34, 35] {
        let new = format!("10.1.1.{last}/30");
        tunnel.hosts.a.run(&format!("ip addr del {old} dev path1"));
        await_waiting(&tunnel, "path1 has no IPv4 address");
        tunnel.hosts.a.run(&format!("ip addr add {new} dev path1"));
        tunnel.hosts.a.run("ip route replace 10.1.1.0/24 dev path1");
        let local = format!("10.1.1.{last}:4754");
        wait_for("the new address", SOON, || {
            let (ours, theirs) = (second(&tunnel.a), second(&tunnel.b));
            (ours.local == local && theirs.remote == local).then_some(())
        });
        await_all(&tunnel, "at the new address");
        old = new;
    }
    assert_eq!(session(&tunnel.a), before);
}

/// An address whose prefix is made longer has not gone: the new one is added first, then the old one removed.
#[test]
fn an_address_with_another_prefix_is_still_there() {
    let Some(_turn) = net::turn() else { return };
    let tunnel = tunnel_of(&Settings::new().sealed(), |text| text);
    await_all(&tunnel, "the start");
    let waited = lines(&tunnel.a, "path path1 waits");
    for (new, old) in [(29, 30), (30, 29)] {
        let run = |line: &str| tunnel.hosts.a.run(line);
        run(&format!("ip addr add 10.1.1.1/{new} dev path1"));
        run(&format!("ip addr del 10.1.1.1/{old} dev path1"));
        // A daemon that believes in the removal closes the path within a moment.
        std::thread::sleep(Duration::from_secs(1));
        await_all(&tunnel, "with another prefix");
    }
    assert_eq!(lines(&tunnel.a, "path path1 waits"), waited);
}

/// Of a path whose own link is down, nothing is to be learnt of its peer's addresses: the one in use stays. One whose
/// interface has lost IPv4 goes over to the peer's IPv6 address.
#[test]
fn a_peer_of_several_addresses_is_sought_where_the_link_leads_on() {
    let Some(_turn) = net::turn() else { return };
    let _known = KnownNames::cover(
        "10.1.0.2 fibre.mpt.test\n10.1.0.66 fibre.mpt.test\n\
         10.1.1.2 lte.mpt.test\nfd01::2 lte.mpt.test\n",
    );
    let by_names = |text: String| {
        with_interface_alone(text)
            .replace("remote = \"10.1.0.2\"", "remote = \"fibre.mpt.test\"")
            .replace("remote = \"10.1.1.2\"", "remote = \"lte.mpt.test\"")
    };
    let tunnel = tunnel_of(&Settings::new().sealed(), by_names);
    await_all(&tunnel, "the start");
    let Hosts { a, b, .. } = &tunnel.hosts;
    b.run("ip link set path0 down");
    a.run("ip -6 addr add fd01::1/64 dev path1 nodad");
    a.run("ip addr del 10.1.1.1/30 dev path1");
    // A path that was up is looked at after 30 s, and then every 10.
    let over_ipv6 = wait_for("the other family", Duration::from_secs(45), || {
        let lte = second(&tunnel.a);
        (lte.remote == "[fd01::2]:4754").then_some(lte)
    });
    assert!(over_ipv6.local.starts_with("[fd01::1]:"), "{over_ipv6:?}");
    let first = || tunnel.a.status().paths.remove(0);
    // Another address would be tried by now, and this one again after 10 s more.
    for _ in 0..24 {
        assert_eq!(first().remote, "10.1.0.2:4754", "{}", tunnel.a.log());
        std::thread::sleep(Duration::from_millis(500));
    }
    b.run("ip link set path0 up");
    wait_for("the first path", SOON, || {
        let fibre = first();
        assert_eq!(fibre.remote, "10.1.0.2:4754", "{}", tunnel.a.log());
        (fibre.state == PathState::Up).then_some(())
    });
    // And back, with the addresses.
    a.run("ip -6 addr del fd01::1/64 dev path1");
    a.run("ip addr add 10.1.1.1/30 dev path1");
    wait_for("the first family", Duration::from_secs(45), || {
        (second(&tunnel.a).remote == "10.1.1.2:4754").then_some(())
    });
    await_all(&tunnel, "both paths");
}

/// What the far end sends without a pause comes in again soon after the device that it came by was replaced, and
/// after its address changed, though this end sends nothing of its own.
#[test]
fn a_download_goes_on_over_another_socket() {
    let Some(_turn) = net::turn() else { return };
    for (sealed, settings) in [false, true].into_iter().zip(both_kinds()) {
        let tunnel = tunnel_of(&settings, with_interface_alone);
        await_all(&tunnel, "the start");
        // All of it comes by the path whose device is replaced.
        tunnel.a.ctl(&["path", "down", "path0"]);
        for host in [&tunnel.hosts.a, &tunnel.hosts.b] {
            host.run("ip route add 10.1.1.0/24 dev path1");
        }
        for other_address in [false, true] {
            // A plain path's peer is where the file says.
            if other_address && !sealed {
                continue;
            }
            let download = Stream {
                to: SocketAddr::new(Side::A.inner_v4().parse().unwrap(), 9000),
                pace: 500,
                payload: 1000,
                time: Duration::from_secs(6),
            };
            let download = download.start(&tunnel.hosts.b, &tunnel.hosts.a);
            std::thread::sleep(Duration::from_secs(2));
            if other_address {
                tunnel.hosts.a.run("ip addr del 10.1.1.1/30 dev path1");
                tunnel.hosts.a.run("ip addr add 10.1.1.33/30 dev path1");
                tunnel.hosts.a.run("ip route replace 10.1.1.0/24 dev path1");
            } else {
                tunnel.hosts.a.run("ip link del path1");
                lay_second(&tunnel.hosts);
                tunnel.hosts.b.run("ip route add 10.1.1.0/24 dev path1");
                tunnel.hosts.a.run("ip route add 10.1.1.0/24 dev path1");
            }
            let record = download.finish();
            let times = record.arrivals.iter().map(|one| one.arrived);
            let mut times: Vec<Duration> = times.collect();
            times.sort_unstable();
            let pauses = times.windows(2).map(|pair| pair[1] - pair[0]);
            let longest = pauses.max().unwrap();
            println!(
                "sealed {sealed}, other address {other_address}: {} of {} lost, longest pause {longest:?}",
                record.lost(),
                record.sent
            );
            // A second, and what a busy machine adds.
            assert!(longest < Duration::from_secs(2), "{longest:?}");
            let last = times.last().unwrap();
            assert!(*last > Duration::from_millis(5900), "it ends {last:?}");
        }
        tunnel.a.ctl(&["path", "up", "path0"]);
        await_all(&tunnel, "both paths");
    }
}

/// Whatever is taken from the tunnel's interface comes back, and so does the interface.
#[test]
fn the_interface_is_kept_as_it_is_wanted() {
    let Some(_turn) = net::turn() else { return };
    for settings in both_kinds() {
        let routes = "routes = [\"192.0.2.0/24\", \"2001:db8::/32\"]\nmtu = 1400";
        let tunnel = tunnel_of(&settings.clone().tunnel(routes), |text| text);
        await_all(&tunnel, "the start");
        let host = &tunnel.hosts.a;
        let (before, wanted) = (session(&tunnel.a), state_of(host));
        assert!(wanted.contains("route 192.0.2.0/24"), "{wanted:?}");
        let damages = [
            ("ip link set mpt0 down", "restored"),
            ("ip addr flush dev mpt0", "10.99.0.1/30"),
            ("ip addr del 10.99.0.1/30 dev mpt0", "10.99.0.1/30"),
            ("ip addr del fd99::1/64 dev mpt0", "fd99::1/64"),
            ("ip route del 192.0.2.0/24 dev mpt0", "192.0.2.0/24"),
            ("ip -6 route del 2001:db8::/32 dev mpt0", "2001:db8::/32"),
            ("ip route del 10.99.0.0/30 dev mpt0", "10.99.0.0/30"),
            ("ip link set mpt0 mtu 1300", "MTU 1400"),
            ("ip link set mpt0 mtu 1000", "MTU 1400"),
            ("ip link del mpt0", "the interface mpt0 was removed"),
            ("ip link del mpt0", "the interface mpt0 was removed"),
        ];
        for (damage, said) in damages {
            let (all, about) = (warnings(&tunnel.a), lines(&tunnel.a, said));
            host.run(damage);
            wait_for(damage, SOON, || (state_of(host) == wanted).then_some(()));
            await_all(&tunnel, damage);
            assert!(
                lines(&tunnel.a, said) > about,
                "{damage}: {}",
                tunnel.a.log()
            );
            assert!(
                warnings(&tunnel.a) <= all + 2,
                "{damage}: {}",
                tunnel.a.log()
            );
        }
        assert_eq!(session(&tunnel.a), before, "sessions are kept");
        let host_of_both = ping(host, Side::B.inner_v6(), 5, 20, "");
        assert_eq!(host_of_both.received, 5);
    }
}

fn warnings(daemon: &Daemon) -> usize {
    daemon.log().matches(" WARN ").count()
}

/// MTU, flags, addresses and routes of mpt0, without what changes by itself.
fn state_of(host: &Namespace) -> BTreeSet<String> {
    let text = |words: &str| String::from_utf8_lossy(&host.output(words).stdout).into_owned();
    let mut state = BTreeSet::new();
    let link = text("ip -o link show dev mpt0");
    for word in ["UP,", "mtu 1400"] {
        if link.contains(word) {
            state.insert(word.to_owned());
        }
    }
    let addresses = text("ip -o addr show dev mpt0");
    let mut words = addresses.split_whitespace();
    while let Some(word) = words.next() {
        let address = match word.starts_with("inet") {
            true => words.next().unwrap_or_default(),
            false => continue,
        };
        // The kernel's own, once an MTU was too small for IPv6.
        if !address.starts_with("fe80:") {
            state.insert(format!("address {address}"));
        }
    }
    for routes in ["ip route show dev mpt0", "ip -6 route show dev mpt0"] {
        for line in text(routes).lines() {
            let destination = line.split_whitespace().next().unwrap_or_default();
            // Likewise.
            if destination == "fe80::/64" {
                continue;
            }
            state.insert(format!("route {destination}"));
        }
    }
    state
}

/// What a reload could not do stays wanted, is said, and is done when it can be.
#[test]
fn what_a_reload_cannot_do_is_done_later() {
    let Some(_turn) = net::turn() else { return };
    for settings in both_kinds() {
        let tunnel = tunnel_of(&settings, |text| text);
        await_all(&tunnel, "the start");
        let host = &tunnel.hosts.a;
        host.run("ip route add 192.0.2.0/24 dev path0");
        let text = std::fs::read_to_string(tunnel.a.config()).unwrap();
        let third = "\n[[paths]]\nname = \"lte\"\ninterface = \"wwan7\"\nremote = \"10.9.0.2\"\n";
        let changed = text.replace(
            "addresses = [",
            "routes = [\"192.0.2.0/24\"]\naddresses = [",
        );
        std::fs::write(tunnel.a.config(), changed + third).unwrap();
        for round in [
            "read again; still missing",
            "nothing has changed; still missing",
        ] {
            let said = tunnel.a.ctl(&["reload"]).to_string();
            for part in [
                round,
                "route 192.0.2.0/24",
                "there is a route to 192.0.2.0/24 already",
                "path lte (interface wwan7 is not there)",
            ] {
                assert!(said.contains(part), "no '{part}' in {said}");
            }
        }
        let missing = tunnel.a.status().tunnel.missing;
        let what: Vec<&str> = missing.iter().map(|one| one.what.as_str()).collect();
        assert_eq!(what, ["route 192.0.2.0/24", "path lte"]);

        host.run("ip route del 192.0.2.0/24 dev path0");
        host.run("ip link add wwan7 type veth peer name far7");
        host.run("ip link set far7 up");
        host.run("ip addr add 10.9.0.1/24 dev wwan7");
        host.run("ip link set wwan7 up");
        wait_for("what was missing", SOON, || {
            let status = tunnel.a.status();
            let whole =
                status.tunnel.missing.is_empty() && status.paths[2].local == "10.9.0.1:4754";
            whole.then_some(())
        });
        assert!(host.run("ip route show dev mpt0").contains("192.0.2.0/24"));
        assert_eq!(lines(&tunnel.a, "route 192.0.2.0/24 is missing"), 1);
    }
}

/// A port that another has is waited for, too, though nothing tells when it is free.
#[test]
fn a_port_that_is_taken_is_waited_for() {
    let Some(_turn) = net::turn() else { return };
    let hosts = two_links();
    let links: Vec<&Link> = hosts.links.iter().collect();
    let start = |name: &str| {
        Daemon::start(&hosts.a, name, |socket| {
            let text = Settings::new()
                .port(4754)
                .toml(Side::A, name, &links, socket);
            text.replace("10.99.0.", "10.98.0.")
                .replace("fd99::", "fd98::")
        })
    };
    let mut first = start("mpt1");
    let second = start("mpt2");
    let status = second.status();
    for path in &status.paths {
        assert_eq!(path.state, PathState::Waiting);
        let reason = path.reason.clone().unwrap_or_default();
        assert!(
            reason.contains(":4754 is in use by another program or path"),
            "{reason}"
        );
    }
    first.terminate();
    wait_for("the port", SOON, || {
        let paths = second.status().paths;
        paths
            .iter()
            .all(|path| path.state != PathState::Waiting)
            .then_some(())
    });
    assert_eq!(lines(&second, "path path0 waits"), 1, "{}", second.log());
}

/// One daemon, two tunnels: one whose interface's name is taken, one whose control socket cannot be made.
#[test]
fn a_tunnel_ends_no_other() {
    let Some(_turn) = net::turn() else { return };
    let hosts = two_links();
    hosts.a.run("ip link add mpt1 type veth peer name far1");
    let folder = tempfile::tempdir().unwrap();
    let socket = |index: usize| folder.path().join(format!("mpt{index}.sock"));
    std::fs::write(socket(0), "no socket").unwrap();
    for (index, link) in hosts.links.iter().enumerate() {
        let name = format!("mpt{index}");
        let text = Settings::new()
            .plain()
            .toml(
                Side::A,
                &name,
                &[link],
                &socket(index).display().to_string(),
            )
            .replace("10.99.0.", &format!("10.99.{index}."))
            .replace("fd99::", &format!("fd99:{index}::"));
        std::fs::write(folder.path().join(format!("{name}.toml")), text).unwrap();
    }
    let mut command = hosts.a.command(process::program("mpt-tund"));
    let mut daemon = Process::start("mpt-tund", command.arg("--config").arg(folder.path()));
    let ask = |index: usize| -> Option<Status> {
        let mut command = Command::new(process::program("mpt-ctl"));
        command.arg("--json").arg("--socket").arg(socket(index));
        let output = process::output(command.arg("status"));
        serde_json::from_slice(&output.stdout).ok()
    };
    let missing = wait_for("an answer of the second tunnel", PATIENCE, || ask(1))
        .tunnel
        .missing;
    assert_eq!(missing[0].what, "interface mpt1");
    assert!(
        missing[0]
            .why
            .contains("belongs to an interface of another kind"),
        "{missing:?}"
    );
    assert!(
        hosts.a.devices().contains(&"mpt0".to_owned()),
        "the first tunnel runs"
    );
    assert!(ask(0).is_none(), "it cannot be asked");

    std::fs::remove_file(socket(0)).unwrap();
    hosts.a.run("ip link del mpt1");
    let whole = |status: Status| status.tunnel.missing.is_empty().then_some(());
    for index in 0..2 {
        wait_for("a whole tunnel", SOON, || ask(index).and_then(whole));
        assert!(hosts.a.devices().contains(&format!("mpt{index}")));
    }
    let log = daemon.log();
    for line in [
        "tunnel mpt1: interface mpt1 is missing",
        "tunnel mpt0: its control socket is missing",
        "tunnel mpt0: its control socket is there now",
    ] {
        assert_eq!(log.matches(line).count(), 1, "{line} in {log}");
    }
    daemon.signal("TERM");
    assert!(daemon.wait(PATIENCE).success());
}

/// Hundreds of changes leave nothing behind, and few lines in the log.
#[test]
fn nothing_is_left_behind_by_many_changes() {
    let Some(_turn) = net::turn() else { return };
    let settings = Settings::new()
        .sealed()
        .tunnel("routes = [\"192.0.2.0/24\"]");
    let mut tunnel = tunnel_of(&settings, with_interface_alone);
    await_all(&tunnel, "the start");
    let id = tunnel.a.id();
    let count = |what: &str| {
        std::fs::read_dir(format!("/proc/{id}/{what}"))
            .unwrap()
            .count()
    };
    // Link-local addresses come when they have been checked for duplicates, in their own time.
    let rules = |host: &Namespace| -> Vec<String> {
        let all =
            host.run("ip route show table all") + &host.run("ip rule") + &host.run("ip -6 rule");
        let lines = all.lines().filter(|line| !line.contains("fe80:"));
        lines.map(str::to_owned).collect()
    };
    let before = (count("fd"), count("task"), rules(&tunnel.hosts.a));
    let resident = tunnel.a.process().peak_resident_bytes();
    let script = "for i in $(seq 60); do \
        ip addr del 10.1.1.1/30 dev path1; ip addr add 10.1.1.1/30 dev path1; \
        ip link set path1 down; ip link set path1 up; \
        ip link set path1 name path9; ip link set path9 name path1; \
        ip addr flush dev mpt0; ip route flush dev mpt0; \
        [ $((i % 6)) -ne 0 ] || ip link del mpt0; sleep 0.02; done; true";
    let mut command = tunnel.hosts.a.command("sh");
    process::output(command.args(["-c", script]));
    let host = &tunnel.hosts.a;
    let end = std::time::Instant::now() + SOON;
    while rules(host) != before.2 && std::time::Instant::now() < end {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(rules(host), before.2, "everything is as it was");
    await_all(&tunnel, "after all changes");
    assert_eq!((count("fd"), count("task")), (before.0, before.1));
    let grown = tunnel.a.process().peak_resident_bytes() - resident;
    assert!(grown < 8 << 20, "{grown} bytes");
    let log = tunnel.a.log();
    println!("{} lines of log for 500 changes", log.lines().count());
}

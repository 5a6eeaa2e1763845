//! Routing of the tunnel's own: what goes where, and that nothing of it remains.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use std::net::UdpSocket;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::Command;
use std::time::Duration;

use mpt_core::control::PathState;
use net::daemon::PATIENCE;
use net::settings::Side;
use net::traffic::ping;
use net::uplinks::{By, SERVER, UPLINKS, Uplinked, has_nat};
use net::{Daemon, Files, Namespace, Uplinks, process, wait_for};
use rustix::process::Uid;

#[path = "routing/ipv6.rs"]
mod ipv6;

/// Reached through the tunnel alone: the server has it, and nobody else knows the way.
const BEYOND: &str = "198.18.0.1";
const BEYOND6: &str = "2001:db8:18::1";
/// A name server on the internet.
const NAME_SERVER: &str = "9.9.9.9";
/// What it knows.
const NAME: &str = "server.mpt.test";
/// Within this a rule that somebody deleted is there again.
const SOON: Duration = Duration::from_secs(1);

/// Whether this kernel can do what is tested here.
fn can(needed: &str) -> bool {
    let host = Namespace::new("rules");
    if !has_nat() || !host.output("ip rule show").status.success() {
        net::skip(needed);
        return false;
    }
    true
}

/// Client, routers, internet and server, with something to be reached beyond the server, and a name server.
fn internet() -> (Uplinks, NameServer) {
    let net = Uplinks::new();
    net.server.run(&format!("ip addr add {BEYOND}/32 dev lo"));
    net.server
        .run(&format!("ip -6 addr add {BEYOND6}/128 dev lo"));
    net.middle
        .run(&format!("ip addr add {NAME_SERVER}/32 dev lo"));
    let server = NameServer::start(&net.middle);
    // The client has IPv6 on the fibre, which does not lead to the server.
    net.client
        .run("ip -6 addr add 2001:db8:1::10/64 dev eth0 nodad");
    net.client
        .run("ip -6 route add default via 2001:db8:1::1 dev eth0 metric 1024");
    await_addresses(&net.client);
    (net, server)
}

fn await_addresses(host: &Namespace) {
    wait_for("the link-local addresses", PATIENCE, || {
        host.run("ip -6 addr show tentative")
            .is_empty()
            .then_some(())
    });
}

fn everything() -> Files {
    Files::sealed()
        .by(By::Address)
        .remote(NAME)
        .tunnel(Side::A, "routes = [\"0.0.0.0/0\", \"::/0\"]")
}

/// Everything that policy routing consists of.
fn routing_of(host: &Namespace) -> String {
    [
        "ip rule",
        "ip route show table all",
        "ip -6 rule",
        "ip -6 route show table all",
    ]
    .map(|line| host.run(line))
    .join("--\n")
}

/// Both paths are up, each by its own uplink, and what lies beyond is reached.
fn assert_works(tunnel: &Uplinked) {
    tunnel.await_paths();
    assert_leaves_by_own_devices(tunnel);
    for beyond in [Side::B.inner_v4(), BEYOND, BEYOND6] {
        assert_reached(tunnel, beyond);
    }
}

/// On a busy machine ping may be gone when the last answer comes.
fn assert_reached(tunnel: &Uplinked, address: &str) {
    wait_for(address, PATIENCE, || {
        (ping(&tunnel.net.client, address, 3, 20, "-W 1").received > 0).then_some(())
    });
}

fn assert_leaves_by_own_devices(tunnel: &Uplinked) {
    for (path, uplink) in tunnel.client.status().paths.iter().zip(UPLINKS) {
        assert_eq!(path.device.as_deref(), Some(uplink.device), "{path:?}");
        assert_eq!(path.device_wanted, None, "{path:?}");
    }
    // Each comes by its own router.
    wait_for("each path by its own router", PATIENCE, || {
        let paths = tunnel.server.status().paths;
        let by_own = (paths.iter().zip(UPLINKS))
            .all(|(path, uplink)| path.remote.starts_with(&format!("{}:", uplink.public)));
        by_own.then_some(())
    });
}

/// The tunnel carries everything, whatever the default routes that are there: with a name as `remote`, and a
/// name server that only the uplinks reach. Nothing remains, not even of a daemon that was killed.
#[test]
fn a_default_route_does_not_catch_the_tunnels_own_packets() {
    let Some(_turn) = net::turn() else { return };
    if !can("this kernel has no policy routing") {
        return;
    }
    for metrics in [Some([0, 700]), Some([100, 100_000]), Some([600, 50]), None] {
        let (net, _names) = internet();
        for (number, uplink) in UPLINKS.iter().enumerate() {
            net.remove_default_route(number);
            let route = format!("default via {}.1 dev {}", uplink.network, uplink.device);
            let place = match metrics {
                Some(metrics) => format!("metric {}", metrics[number]),
                // As systems have it that keep uplinks apart.
                None => format!("table {}", 101 + number),
            };
            net.client.run(&format!("ip route add {route} {place}"));
        }
        let before = routing_of(&net.client);
        let mut tunnel = net.start(&everything());
        assert_works(&tunnel);
        println!("{metrics:?}\n{}", routing_of(&tunnel.net.client));
        tunnel.client.terminate();
        assert_eq!(routing_of(&tunnel.net.client), before, "{metrics:?}");

        tunnel.client.start_again(&tunnel.net.client);
        tunnel.await_paths();
        tunnel.client.crash_and_restart(&tunnel.net.client);
        assert_works(&tunnel);
        tunnel.client.terminate();
        assert_eq!(routing_of(&tunnel.net.client), before, "{metrics:?}");
    }
}

/// Two halves in place of a default route, and a prefix that the server lies in.
#[test]
fn no_route_that_covers_the_peer_catches_the_tunnels_own_packets() {
    let Some(_turn) = net::turn() else { return };
    if !can("this kernel has no policy routing") {
        return;
    }
    for routes in [
        "\"0.0.0.0/1\", \"128.0.0.0/1\"",
        "\"203.0.113.0/24\", \"9.9.9.0/24\", \"198.18.0.0/15\"",
    ] {
        let (net, _names) = internet();
        let before = routing_of(&net.client);
        let files = Files::sealed()
            .by(By::Address)
            .remote(NAME)
            .tunnel(Side::A, &format!("routes = [{routes}]"));
        let mut tunnel = net.start(&files);
        tunnel.await_paths();
        assert_leaves_by_own_devices(&tunnel);
        assert_reached(&tunnel, BEYOND);
        // What is nobody's but the host's goes into the tunnel.
        let way = tunnel.net.client.run(&format!("ip route get {SERVER}"));
        assert!(way.contains("dev mpt0"), "{way}");
        tunnel.client.terminate();
        assert_eq!(routing_of(&tunnel.net.client), before, "{routes}");
    }
}

/// Devices that take a packet only if the answer would leave by them, as some distributions have it; also where
/// the daemon does not see `/proc/sys`, as under the unit.
#[test]
fn strict_reverse_path_filters_let_the_tunnel_in() {
    let Some(_turn) = net::turn() else { return };
    if !can("this kernel has no policy routing") {
        return;
    }
    let (net, _names) = internet();
    net.client.sysctl("net.ipv4.conf.all.rp_filter", "1");
    for uplink in UPLINKS {
        let of_device = format!("net.ipv4.conf.{}.rp_filter", uplink.device);
        net.client.sysctl(&of_device, "1");
    }
    let before = routing_of(&net.client);
    let _hidden = Hidden::new("/proc/sys");
    let mut tunnel = net.start(&everything());
    assert_works(&tunnel);
    let log = tunnel.client.log();
    assert!(!log.contains("had been removed"), "{log}");
    tunnel.client.terminate();
    assert_eq!(routing_of(&tunnel.net.client), before);
}

/// A filter that becomes strict while the tunnel runs is noticed.
#[test]
fn a_filter_that_becomes_strict_is_noticed() {
    let Some(_turn) = net::turn() else { return };
    if !can("this kernel has no policy routing") {
        return;
    }
    let (net, _names) = internet();
    let tunnel = net.start(&everything());
    assert_works(&tunnel);
    tunnel.net.client.sysctl("net.ipv4.conf.all.rp_filter", "1");
    for uplink in UPLINKS {
        let of_device = format!("net.ipv4.conf.{}.rp_filter", uplink.device);
        tunnel.net.client.sysctl(&of_device, "1");
    }
    // Longer than a path without an answer is up.
    std::thread::sleep(Duration::from_millis(1500));
    assert_works(&tunnel);
}

/// A folder that looks empty while this lives, in the mount namespace of tests/net/enter.
struct Hidden(&'static str);

impl Hidden {
    fn new(folder: &'static str) -> Self {
        process::run(Command::new("mount").args(["-t", "tmpfs", "none", folder]));
        Self(folder)
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        let _ = process::output(Command::new("umount").arg(self.0));
    }
}

/// A rule, a route and a gateway that go are noticed; one that changes is followed.
#[test]
fn what_is_deleted_comes_back_and_a_new_gateway_is_used() {
    let Some(_turn) = net::turn() else { return };
    if !can("this kernel has no policy routing") {
        return;
    }
    let (net, _names) = internet();
    let tunnel = net.start(&everything());
    tunnel.await_paths();
    let client = &tunnel.net.client;
    let made = routing_of(client);
    let rules = client.run("ip rule");
    let ours = rules.lines().filter_map(|line| line.split_once(':'));
    let ours: Vec<&str> = ours
        .map(|(priority, _)| priority)
        .filter(|priority| !["0", "32766", "32767"].contains(priority))
        .collect();
    assert!(ours.len() >= 3, "{rules}");
    for priority in ours {
        client.run(&format!("ip rule del priority {priority}"));
    }
    client.run("ip route flush table 475400");
    client.run("ip route flush table 475402");
    wait_for("what was deleted", SOON * 3, || {
        (routing_of(client) == made).then_some(())
    });
    assert!(tunnel.client.log().contains("had been removed"));

    // The LTE router gets another address; while none is known, status says so.
    client.run("ip route del default dev wwan0");
    wait_for("the path that has no gateway", PATIENCE, || {
        let lte = tunnel.client.status().paths.remove(1);
        (lte.device_wanted.as_deref() == Some("wwan0")).then_some(())
    });
    let lte = tunnel.client.status().paths.remove(1);
    assert_eq!(lte.device, None, "by no other uplink: {lte:?}");
    let remedy = lte.device_remedy.unwrap();
    assert!(remedy.contains("ip route add default via"), "{remedy}");
    await_code(&tunnel.client, "no-route");
    tunnel.net.routers[1].run("ip addr add 192.168.2.254/24 dev lan");
    client.run("ip route add default via 192.168.2.254 dev wwan0 metric 300");
    wait_for("the new gateway", PATIENCE, || {
        let table = client.run("ip route show table 475402");
        table.contains("via 192.168.2.254").then_some(())
    });
    tunnel.await_paths();
    assert_leaves_by_own_devices(&tunnel);
}

/// Waits until status says this.
fn await_code(daemon: &Daemon, code: &str) {
    wait_for(code, PATIENCE, || {
        let messages = daemon.status().verdict.messages;
        let mut codes = messages.iter().map(|finding| &finding.code);
        codes.any(|one| one == code).then_some(())
    });
}

/// A path by its address alone whose uplink loses its route, beside one whose budget is used up: nothing goes over that.
#[test]
fn a_path_without_a_route_does_not_spend_the_budget_of_another() {
    let Some(_turn) = net::turn() else { return };
    if !can("this kernel has no policy routing") {
        return;
    }
    let net = Uplinks::new();
    await_addresses(&net.client);
    let before = routing_of(&net.client);
    let files = Files::sealed().by(By::Address);
    let with_budget = |text: String| {
        let name = "name = \"lte\"\n";
        let budget = "cost = 10\nbudget = \"1 MB / month\"\nat_budget = \"off\"\n";
        text.replace(name, &format!("{name}{budget}"))
    };
    let start = |host: &Namespace, side, change: &dyn Fn(String) -> String| {
        Daemon::start(host, "mpt0", |socket| change(files.toml(side, socket)))
    };
    let mut tunnel = Uplinked {
        server: start(&net.server, Side::B, &|text| text),
        client: start(&net.client, Side::A, &with_budget),
        net,
    };
    tunnel.await_paths();
    let (client, inner) = (&tunnel.net.client, Side::B.inner_v4());
    let state = |number: usize| tunnel.client.status().paths.remove(number).state;
    tunnel.client.ctl(&["path", "down", "fibre"]);
    wait_for("the budget to be used up", PATIENCE * 4, || {
        let _ = ping(client, inner, 100, 2, "-s 1300 -W 1");
        (state(1) == PathState::AdminDown).then_some(())
    });
    tunnel.client.ctl(&["path", "up", "fibre"]);
    wait_for("the fibre", PATIENCE, || {
        (state(0) == PathState::Up).then_some(())
    });

    tunnel.net.remove_default_route(0);
    await_code(&tunnel.client, "no-route");
    assert_eq!(state(0), PathState::Down);
    let sent = sent_by(client, "wwan0");
    let received = ping(client, inner, 300, 2, "-s 1300 -W 1").received;
    let over_lte = sent_by(client, "wwan0") - sent;
    println!("{over_lte} bytes over the uplink whose budget is used up");
    assert!(over_lte < 20_000 && received == 0, "{over_lte} {received}");

    tunnel.net.add_default_route(0);
    wait_for("the fibre again", PATIENCE, || {
        (state(0) == PathState::Up).then_some(())
    });
    assert_eq!(ping(client, inner, 10, 20, "-W 1").received, 10);
    let log = tunnel.client.log();
    assert!(!log.contains("had been removed"), "{log}");
    tunnel.net.remove_default_route(0);
    await_code(&tunnel.client, "no-route");
    tunnel.client.crash_and_restart(client);
    await_code(&tunnel.client, "no-route");
    tunnel.net.add_default_route(0);
    wait_for("the fibre after a crash", PATIENCE, || {
        let fibre = tunnel.client.status().paths.remove(0);
        (fibre.state == PathState::Up).then_some(())
    });
    tunnel.client.terminate();
    assert_eq!(routing_of(&tunnel.net.client), before);
}

/// Bytes that a device has sent.
fn sent_by(host: &Namespace, device: &str) -> u64 {
    let line = format!("ip -s -j link show dev {device}");
    let links: serde_json::Value = serde_json::from_str(&host.run(&line)).unwrap();
    links[0]["stats64"]["tx"]["bytes"].as_u64().unwrap()
}

/// Anybody may bind the names by which daemons claim their numbers. Who is neither root nor the daemon's user keeps
/// nobody from them: two daemons find numbers, each its own.
#[test]
fn a_program_of_another_user_keeps_no_tunnel_from_its_numbers() {
    let Some(_turn) = net::turn() else { return };
    if !can("this kernel has no policy routing") {
        return;
    }
    let (net, _names) = internet();
    let Some(_taken) = net.client.inside(names_as_nobody) else {
        return net::skip("this user may become no other");
    };
    let before = routing_of(&net.client);
    let mut tunnel = net.start(&everything());
    assert_works(&tunnel);
    let log = tunnel.client.log();
    assert_eq!(log.matches("a program of another user").count(), 1, "{log}");
    let mut second = Daemon::start(&tunnel.net.client, "mpt1", |socket| {
        beside(everything().toml(Side::A, socket))
    });
    assert_works(&tunnel);
    let rules = tunnel.net.client.run("ip rule");
    for word in ["0x1280", "0x1281"] {
        assert!(rules.contains(word), "{word} in {rules}");
    }
    second.terminate();
    assert_works(&tunnel);
    tunnel.client.terminate();
    assert_eq!(routing_of(&tunnel.net.client), before);
}

/// Sockets with all the names of claims, made by a user who has no rights here; `None` where nobody can be that.
fn names_as_nobody() -> Option<Vec<UnixDatagram>> {
    // Of this thread alone, which ends with this.
    let nobody = Uid::from_raw(65_534);
    rustix::thread::set_thread_res_uid(nobody, nobody, nobody).ok()?;
    let bind = |number: u32| {
        let address = SocketAddr::from_abstract_name(format!("mpt/routing/{number}"));
        UnixDatagram::bind_addr(&address.unwrap()).unwrap()
    };
    Some((0..64).map(bind).collect())
}

/// The file of a second tunnel beside the first, whose peer is not there: the server is the first one's.
fn beside(text: String) -> String {
    text.replace("mpt0", "mpt1")
        .replace("10.99.0.", "10.99.1.")
        .replace("fd99::", "fd99:1::")
        .replace("local = \"192.168.1.10\"", "local = \"192.168.1.10:5001\"")
        .replace("local = \"192.168.2.10\"", "local = \"192.168.2.10:5002\"")
        .replace(&format!("{NAME}:475"), &format!("{NAME}:575"))
}

/// An LTE modem that speaks MBIM is an Ethernet device on which nobody asks for link addresses (`NOARP`), and there
/// may be no gateway: what is sent comes out at the provider's.
#[test]
fn a_device_without_link_addresses_needs_no_gateway() {
    let Some(_turn) = net::turn() else { return };
    if !can("this kernel has no policy routing") {
        return;
    }
    let net = Uplinks::new();
    net.remove_default_route(1);
    // Without ARP each end takes its own link address for the other's.
    for (host, device) in [(&net.client, "wwan0"), (&net.routers[1], "lan")] {
        host.run(&format!("ip link set {device} address 02:00:00:00:00:07"));
        host.run(&format!("ip link set {device} arp off"));
    }
    await_addresses(&net.client);
    let before = routing_of(&net.client);
    let mut tunnel = net.start(&Files::sealed().by(By::Address));
    tunnel.await_paths();
    assert_leaves_by_own_devices(&tunnel);
    let client = &tunnel.net.client;
    let rules = client.run("ip rule");
    let is_its = |line: &str| line.contains("from 192.168.2.10 ") && line.contains("475402");
    assert!(rules.lines().any(is_its), "{rules}");
    let table = client.run("ip route show table 475402");
    assert!(table.contains("default dev wwan0"), "{table}");
    tunnel.client.terminate();
    assert_eq!(routing_of(&tunnel.net.client), before);
}

/// Two daemons, each with a tunnel that carries everything, keep out of each other's way.
#[test]
fn two_daemons_use_numbers_of_their_own() {
    let Some(_turn) = net::turn() else { return };
    if !can("this kernel has no policy routing") {
        return;
    }
    let (net, _names) = internet();
    let before = routing_of(&net.client);
    // Somebody else uses the first block's table.
    net.client
        .run("ip route add unreachable 198.51.100.99 table 475400");
    net.client
        .run("ip route add 192.0.2.99 dev eth0 table 475400");
    let with_foreign = routing_of(&net.client);
    let mut tunnel = net.start(&everything());
    let mut second = Daemon::start(&tunnel.net.client, "mpt1", |socket| {
        beside(everything().toml(Side::A, socket))
    });
    assert_works(&tunnel);
    let rules = tunnel.net.client.run("ip rule");
    for word in ["0x1281", "0x1282", "475500", "475600"] {
        assert!(rules.contains(word), "{word} in {rules}");
    }
    second.terminate();
    assert_works(&tunnel);
    tunnel.client.terminate();
    let client = &tunnel.net.client;
    assert_eq!(routing_of(client), with_foreign);
    client.run("ip route flush table 475400");
    assert_eq!(routing_of(client), before);
}

/// With `routing = "off"` nothing is made, and status says which device the kernel takes.
#[test]
fn with_routing_off_nothing_is_made_and_status_says_what_is_wrong() {
    let Some(_turn) = net::turn() else { return };
    if !can("this kernel has no policy routing") {
        return;
    }
    let (net, _names) = internet();
    let rules = net.client.run("ip rule");
    let files = Files::sealed()
        .by(By::Address)
        .tunnel(Side::A, "routing = \"off\"");
    let tunnel = net.start(&files);
    wait_for("the first path", PATIENCE, || {
        (tunnel.client.status().paths[0].state == PathState::Up).then_some(())
    });
    assert_eq!(tunnel.net.client.run("ip rule"), rules);
    let lte = tunnel.client.status().paths.remove(1);
    assert_eq!(lte.device.as_deref(), Some("eth0"), "{lte:?}");
    assert_eq!(lte.device_wanted.as_deref(), Some("wwan0"), "{lte:?}");
    assert!(lte.device_remedy.unwrap().contains("routing = \"auto\""));
}

/// Knows one name. While it lives, this test's programs ask it and nobody else.
struct NameServer;

impl NameServer {
    fn start(host: &Namespace) -> NameServer {
        let socket = host.inside(|| UdpSocket::bind((NAME_SERVER, 53)).unwrap());
        std::thread::spawn(move || {
            let mut question = [0; 512];
            while let Ok((length, from)) = socket.recv_from(&mut question) {
                if let Some(answer) = answer_to(&question[..length]) {
                    let _ = socket.send_to(&answer, from);
                }
            }
        });
        // `tests/net/enter` gives this process a mount namespace of its own.
        let file = std::env::temp_dir().join(format!("mpt-resolv-{}.conf", std::process::id()));
        std::fs::write(
            &file,
            format!("nameserver {NAME_SERVER}\noptions timeout:1\n"),
        )
        .unwrap();
        process::run(
            Command::new("mount")
                .arg("--bind")
                .arg(&file)
                .arg("/etc/resolv.conf"),
        );
        std::fs::remove_file(&file).unwrap();
        NameServer
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        let _ = process::output(Command::new("umount").arg("/etc/resolv.conf"));
    }
}

/// RFC 1035 §4.1: the question again, and an address for [`NAME`].
fn answer_to(question: &[u8]) -> Option<Vec<u8>> {
    let name = NAME.split('.').flat_map(|label| {
        let length = u8::try_from(label.len()).unwrap();
        std::iter::once(length).chain(label.bytes())
    });
    let name: Vec<u8> = name.chain([0]).collect();
    let end = 12 + name.len() + 4;
    let asked = question.get(12..end)?;
    let is_known = asked[..name.len()].eq_ignore_ascii_case(&name);
    let is_a = asked[name.len()..] == [0, 1, 0, 1];
    let mut answer = question[..2].to_vec();
    let code = if is_known { 0x80 } else { 0x83 };
    answer.extend([0x81, code, 0, 1, 0, u8::from(is_known && is_a), 0, 0, 0, 0]);
    answer.extend(asked);
    if is_known && is_a {
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
        answer.extend(SERVER.parse::<std::net::Ipv4Addr>().unwrap().octets());
    }
    Some(answer)
}

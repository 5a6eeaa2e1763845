//! A hub and three clients of two paths, between namespaces.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

#[path = "hub/workers.rs"]
mod workers;
#[path = "hub/world.rs"]
mod world;

use std::net::UdpSocket;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use mpt_core::control::{PathState, PeerState, PeerStatus, Protection};
use net::initiation::Initiations;
use net::process::program;
use net::traffic::{Iperf, ping};
use net::{Daemon, Namespace, wait_for};
use serde_json::Value;
use world::{
    AT, World, all_reach_each_other_also_after_a_crash, await_peers, await_state, inner, peers,
    state_of,
};

#[test]
fn three_clients_reach_the_hub_and_each_other_also_after_it_was_killed() {
    let Some(_turn) = net::turn() else { return };
    let world = World::new();
    let clients: Vec<Daemon> = (0..3).map(|client| world.start_client(client)).collect();
    let mut hub = world.start_hub();
    all_reach_each_other_also_after_a_crash(&world, &mut hub);
    let run = Iperf::tcp(&inner(1), 2).run(&world.hosts[0], &world.hosts[1]);
    assert!(run.intervals_mbps.iter().all(|mbps| *mbps > 1.0), "{run:?}");
    assert_eq!(
        hub.ctl_output(&["status"]).status.code(),
        Some(0),
        "{}",
        hub.status_text()
    );
    let told: Value = hub.ctl(&["peer", "show", "carol"]);
    assert_eq!(told["name"], "carol");
    let paths = told["paths"].as_array().unwrap();
    assert!(
        paths.iter().all(|path| path["local"] == "203.0.113.1:4754"),
        "{told}"
    );
    drop(clients);
}

#[test]
fn a_peer_sends_from_its_own_addresses_alone_and_goes_with_its_section() {
    let Some(_turn) = net::turn() else { return };
    let world = World::new();
    let clients: Vec<Daemon> = (0..3).map(|client| world.start_client(client)).collect();
    let hub = world.start_hub();
    await_peers(&hub);
    world.hosts[0].run("ip address add 10.99.7.7/32 dev mpt0");
    let seen = ping(&world.hosts[0], "10.99.0.1", 5, 20, "-I 10.99.7.7");
    assert_eq!(seen.received, 0);
    let alice = peers(&hub).remove(0);
    assert!(alice.drops["not_allowed"] >= 5, "{alice:?}");

    let socket = hub.socket();
    let text = world.hub_text(&socket.display().to_string(), &[0, 2]);
    std::fs::write(hub.config(), text).unwrap();
    hub.ctl(&["reload"]);
    assert_eq!(peers(&hub).len(), 2);
    assert_eq!(ping(&world.hosts[1], "10.99.0.1", 3, 20, "").received, 0);
    assert_eq!(ping(&world.hosts[0], &inner(2), 5, 20, "").received, 5);
    // Who sends to an address that is nobody's any more is not left waiting for a peer.
    let drops = hub.status().tunnel.drops;
    assert_eq!(ping(&world.hosts[0], &inner(1), 3, 20, "").received, 0);
    assert!(hub.status().tunnel.drops["no_peer"] > drops["no_peer"]);
    drop(clients);
}

/// The user of tests, and its group: no name, so that no host has to know it.
const USER: &str = "65533:65533";

/// As the daemon's own files, and as those of root that another process keeps for it.
#[test]
fn a_folder_of_peers_is_followed_while_the_hub_runs() {
    let Some(_turn) = net::turn() else { return };
    let uids = std::fs::read_to_string("/proc/self/uid_map").unwrap();
    let one_user_alone = uids.split_whitespace().nth(2) == Some("1");
    let users = [String::new(), format!("user = \"{USER}\"\n")];
    for user in &users[..if one_user_alone { 1 } else { 2 }] {
        let world = World::new();
        let clients: Vec<Daemon> = (0..2).map(|client| world.start_client(client)).collect();
        let mut hub = Daemon::start(&world.hub_host, "mpt0", |socket| {
            let folder = Path::new(socket).with_file_name("peers.d");
            let first = Path::new(socket).with_file_name("closed").join("first");
            std::fs::create_dir_all(&first).unwrap();
            symlink(first, &folder).unwrap();
            std::fs::write(folder.join("alice.toml"), world.peer_file(0)).unwrap();
            let peers_dir = "[tunnel]\npeers_dir = \"peers.d\"";
            user.clone() + &world.hub_text(socket, &[]).replace("[tunnel]", peers_dir)
        });
        let folder = hub.config().with_file_name("peers.d");
        if !user.is_empty() {
            let closed = std::fs::Permissions::from_mode(0o700);
            std::fs::set_permissions(folder.with_file_name("closed"), closed).unwrap();
        }
        await_state(&hub, "alice", Some(PeerState::Up));
        assert_eq!(state_of(&hub, "bob"), None);

        // As an editor does it: beside, and renamed.
        let beside = folder.join(".bob.toml.new");
        std::fs::write(&beside, world.peer_file(1)).unwrap();
        std::fs::rename(&beside, folder.join("bob.toml")).unwrap();
        await_state(&hub, "bob", Some(PeerState::Up));

        // What is asked of a peer stands in no file, and the answers say in which it would.
        let answer = |words: &[&str]| {
            let output = hub.ctl_output(words);
            let text = [output.stdout, output.stderr].concat();
            (output.status.success(), String::from_utf8(text).unwrap())
        };
        let (right, said) = answer(&["peer", "set", "bob", "rate_limit=20 Mbit/s"]);
        assert!(right && said.contains("peers.d/bob.toml"), "{said}");
        let (right, said) = answer(&["save"]);
        assert!(right && said.contains("bob changed"), "{said}");
        hub.ctl(&["reload"]);
        let (right, said) = answer(&["save"]);
        assert!(right && said.contains("says all of this already"), "{said}");
        let (right, said) = answer(&["reorder", "set", "window=64"]);
        assert!(!right && said.contains("peer show NAME"), "{said}");

        // A mistake in one file costs nobody anything, and is told.
        std::fs::write(folder.join("alice.toml"), "public_key = ").unwrap();
        wait_for("the mistake to be told", Duration::from_secs(5), || {
            let verdict = hub.status().verdict;
            verdict
                .messages
                .iter()
                .any(|found| found.code == "peer-file")
                .then_some(())
        });
        assert_eq!(hub.ctl_output(&["status"]).status.code(), Some(1));
        for (host, name) in world.hosts.iter().zip(["alice", "bob"]) {
            assert_eq!(ping(host, "10.99.0.1", 5, 20, "").received, 5, "{name}");
        }
        assert!(hub.log().contains("alice.toml:1:"), "{}", hub.log());
        // Nor is a reload refused for it: what else has changed holds.
        let config = hub.config();
        let text = std::fs::read_to_string(&config).unwrap();
        let carol = format!("[[peers]]\nname = \"carol\"\n{}", world.peer_file(2));
        std::fs::write(&config, text + &carol).unwrap();
        let checked = |check: &str| {
            let mut command = Command::new(program("mpt-tund"));
            let checked = command.arg(check).arg("--config").arg(&config).output();
            checked.unwrap().status.code()
        };
        assert_eq!(checked("--check=reload"), Some(0));
        assert_eq!(checked("--check"), Some(1));
        hub.process().signal("HUP");
        await_state(&hub, "carol", Some(PeerState::Away));
        assert_eq!(state_of(&hub, "alice"), Some(PeerState::Up));
        assert_eq!(ping(&world.hosts[0], "10.99.0.1", 5, 20, "").received, 5);
        // Nothing is agreed with her, and nothing would go to her unprotected.
        let carol = peers(&hub).into_iter().find(|peer| peer.name == "carol");
        assert_eq!(carol.unwrap().protection, Protection::Waiting);

        std::fs::remove_file(folder.join("bob.toml")).unwrap();
        await_state(&hub, "bob", None);
        std::fs::write(folder.join("alice.toml"), world.peer_file(0)).unwrap();
        wait_for("the mistake to be mended", Duration::from_secs(5), || {
            (hub.ctl_output(&["status"]).status.code() == Some(0)).then_some(())
        });
        assert_eq!(ping(&world.hosts[0], "10.99.0.1", 5, 20, "").received, 5);

        // Its name leads to another folder, which is followed from then on.
        let second = folder.with_file_name("closed").join("second");
        std::fs::create_dir(&second).unwrap();
        std::fs::write(second.join("bob.toml"), world.peer_file(1)).unwrap();
        let beside = folder.with_file_name("peers.new");
        symlink(second, &beside).unwrap();
        std::fs::rename(beside, &folder).unwrap();
        await_state(&hub, "alice", None);
        await_state(&hub, "bob", Some(PeerState::Up));
        std::fs::write(folder.join("alice.toml"), world.peer_file(0)).unwrap();
        await_state(&hub, "alice", Some(PeerState::Up));
        drop(clients);
    }
}

/// `mpt-ctl new --clients 70`, copied, two of them started. So many peers are asked about in two goes.
#[test]
fn a_hub_and_its_clients_that_were_made_by_one_command_find_each_other() {
    let Some(_turn) = net::turn() else { return };
    let world = World::new();
    let folder = tempfile::tempdir().unwrap();
    let mut new = world.hub_host.command(program("mpt-ctl"));
    new.args([
        "new",
        "--server",
        AT[0],
        "--clients",
        "70",
        "--inner",
        "10.99.0.0/24,fd99::/64",
    ]);
    new.args([
        "--client-interfaces",
        "u0,u1",
        "--names",
        "fibre,lte",
        "--out",
    ]);
    let output = new.arg(folder.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    // But for the control socket: the hosts of this test share one /run.
    let start = |host: &Namespace, files: &Path| {
        Daemon::start(host, "mpt0", |socket| {
            let key = Path::new(socket).with_file_name("mpt0.key");
            std::fs::copy(files.join("mpt0.key"), key).unwrap();
            let text = std::fs::read_to_string(files.join("mpt0.toml")).unwrap();
            format!("{text}\n[control]\nsocket = \"{socket}\"\n")
        })
    };
    let hub = start(&world.hub_host, folder.path());
    let clients: Vec<Daemon> = (1..=2)
        .map(|number| {
            let files = folder.path().join(format!("clients/client-{number:02}"));
            start(&world.hosts[number - 1], &files)
        })
        .collect();
    wait_for("both clients to be up", Duration::from_secs(20), || {
        let all = peers(&hub);
        let is_up = |peer: &PeerStatus| {
            let up = peer.paths.iter().filter(|path| path.state == PathState::Up);
            up.map(|path| path.name.as_str()).eq(["fibre", "lte"])
        };
        let names = all.iter().map(|peer| peer.name.clone());
        assert!(names.eq((1..=70).map(|number| format!("client-{number:02}"))));
        all[..2].iter().all(is_up).then_some(())
    });
    for (from, to) in [
        (0, "10.99.0.1"),
        (0, "10.99.0.3"),
        (1, "10.99.0.2"),
        (1, "fd99::1"),
    ] {
        let seen = ping(&world.hosts[from], to, 5, 20, "");
        assert_eq!(seen.received, 5, "{from} to {to}");
    }
    drop(clients);
}

/// The blocks of code of docs/hub.md that begin so.
fn document_blocks(begin: &str) -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/hub.md");
    let document = std::fs::read_to_string(file).unwrap();
    let blocks = document.split("\n```").skip(1).step_by(2);
    let bodies = blocks.filter_map(|block| Some(block.split_once('\n')?.1.to_owned()));
    bodies.filter(|body| body.starts_with(begin)).collect()
}

/// The files and commands of docs/hub.md as they stand there, but for the keys, which are made, and the devices' names.
#[test]
fn the_set_up_of_the_document_works() {
    let Some(_turn) = net::turn() else { return };
    if !net::uplinks::has_nat() {
        return net::skip("this kernel has no NAT by nftables");
    }
    let world = World::new();
    world.hub_host.sysctl("net.ipv4.ip_forward", "0");
    let web = Namespace::new("web");
    let there = web.name();
    world.hub_host.run(&format!(
        "ip link add out type veth peer name in netns {there}"
    ));
    world.hub_host.run("ip address add 198.51.100.1/30 dev out");
    world.hub_host.run("ip link set out up");
    web.run("ip address add 198.51.100.2/30 dev in");
    web.run("ip link set in up");

    let files = document_blocks("[tunnel]\nname");
    let [hub_file, client_file] = &files[..] else {
        panic!("two files, not {}", files.len());
    };
    let start = |host: &Namespace, text: &str, private: &str| {
        Daemon::start(host, "mpt0", |socket| {
            std::fs::write(Path::new(socket).with_file_name("mpt0.key"), private).unwrap();
            format!("{text}\n[control]\nsocket = \"{socket}\"\n")
        })
    };
    let mut keys = world.keys.iter().map(|(_, public)| public);
    let with_key = |line: &str| match line.starts_with("public_key") {
        true => format!("public_key = \"{}\"\n", keys.next().unwrap()),
        false => format!("{line}\n"),
    };
    let text: String = hub_file.lines().map(with_key).collect();
    let hub = start(&world.hub_host, &text, &world.hub_keys.0);
    let client = |number: usize| {
        let own = |line: &str| match line {
            _ if line.starts_with("peer_public_key") => {
                format!("peer_public_key = \"{}\"\n", world.hub_keys.1)
            }
            _ if line.starts_with("addresses") => {
                let last = number + 2;
                format!(
                    "addresses = [\"10.99.0.{last}/16\", \"fd99::{last}/64\"]\nroutes = [\"0.0.0.0/0\"]\n"
                )
            }
            _ => format!("{line}\n"),
        };
        let text: String = client_file.lines().map(own).collect();
        let text = text
            .replace("\"eth0\"", "\"u0\"")
            .replace("\"wwan0\"", "\"u1\"");
        start(&world.hosts[number], &text, &world.keys[number].0)
    };
    let clients: Vec<Daemon> = (0..3).map(client).collect();
    await_peers(&hub);
    let reaches = |from: usize, to: &str| ping(&world.hosts[from], to, 1, 20, "").received == 1;
    assert!(reaches(0, "10.99.0.1") && reaches(0, "fd99::1"));
    assert!(
        !reaches(0, "10.99.0.3") && !reaches(0, "198.51.100.2"),
        "it does not forward yet"
    );

    let run_block = |begin: &str| {
        for block in document_blocks(begin) {
            for line in block.lines().filter_map(|line| line.strip_prefix("# ")) {
                let mut command = world.hub_host.command("sh");
                let output = command.args(["-c", line]).output().unwrap();
                assert!(output.status.success(), "{line}: {output:?}");
            }
        }
    };
    run_block("# sysctl");
    for (from, to) in [
        (0, "10.99.0.3"),
        (1, "10.99.0.4"),
        (2, "fd99::2"),
        (0, "198.51.100.2"),
        (2, "198.51.100.2"),
    ] {
        assert!(reaches(from, to), "{from} to {to}");
    }
    run_block("# nft 'add chain ip hub forward");
    assert!(!reaches(0, "10.99.0.3"), "clients apart");
    assert!(reaches(0, "198.51.100.2"));
    drop(clients);
}

/// What `peer set` changes, without touching what it does not name.
#[test]
fn a_peer_gets_no_more_than_its_rate_limit_and_comes_back_with_a_preshared_key() {
    let Some(_turn) = net::turn() else { return };
    let world = World::new();
    let mut client = world.start_client(0);
    let hub = Daemon::start(&world.hub_host, "mpt0", |socket| {
        world.hub_text(socket, &[0])
    });
    let await_up = || {
        wait_for("alice to be up", Duration::from_secs(20), || {
            (peers(&hub)[0].state == PeerState::Up).then_some(())
        });
    };
    await_up();
    hub.ctl(&["peer", "set", "alice", "rate_limit=20 Mbit/s"]);
    for iperf in [
        Iperf::tcp("10.99.0.1", 2),
        Iperf::tcp("10.99.0.1", 2).reverse(),
    ] {
        let run = iperf.run(&world.hosts[0], &world.hub_host);
        // The first second has the bucket, too: 3 Mbit.
        let mean = run.intervals_mbps.iter().sum::<f64>() / run.intervals_mbps.len() as f64;
        println!("of 20 Mbit/s {mean:.1}");
        assert!((2.0..=22.5).contains(&mean), "{run:?}");
    }
    let shown: Value = hub.ctl(&["peer", "show", "alice"]);
    assert_eq!(shown["rate_limit_bps"], 20_000_000);
    assert!(shown["drops"]["rate_limit"].as_u64() > Some(0), "{shown}");
    hub.ctl(&["peer", "set", "alice", "rate_limit=none"]);
    let shown: Value = hub.ctl(&["peer", "show", "alice"]);
    assert_eq!(shown.get("rate_limit_bps"), None);

    let psk = client.config().with_file_name("psk.key");
    let made = Command::new(program("mpt-ctl"))
        .arg("genpsk")
        .output()
        .unwrap();
    std::fs::write(&psk, made.stdout).unwrap();
    hub.ctl(&[
        "peer",
        "set",
        "alice",
        &format!("psk_file={}", psk.display()),
    ]);
    let reaches = || ping(&world.hosts[0], "10.99.0.1", 1, 20, "").received == 1;
    assert!(!reaches(), "it does not know the key");
    let text = std::fs::read_to_string(client.config()).unwrap();
    let with_psk = format!("psk_file = \"{}\"\npeer_public_key", psk.display());
    std::fs::write(client.config(), text.replace("peer_public_key", &with_psk)).unwrap();
    client.restart(&world.hosts[0]);
    await_up();
    wait_for("the tunnel", Duration::from_secs(10), || {
        reaches().then_some(())
    });
}

/// Calls have a socket of their own: what is more than the hub would work on stays in the kernel, and takes no peer's place.
#[test]
fn a_flood_of_calls_is_not_read_and_costs_no_peer_a_datagram() {
    const CALLS: u64 = 60_000;
    let Some(_turn) = net::turn() else { return };
    let world = World::new();
    let clients: Vec<Daemon> = (0..2).map(|client| world.start_client(client)).collect();
    let hub = Daemon::start(&world.hub_host, "mpt0", |socket| {
        world.hub_text(socket, &[0, 1])
    });
    for name in ["alice", "bob"] {
        await_state(&hub, name, Some(PeerState::Up));
    }
    let stranger = world.hosts[2].inside(|| UdpSocket::bind("0.0.0.0:0").unwrap());
    stranger.connect((AT[0], 4754)).unwrap();
    let mut initiations = Initiations::to(&world.hub_keys.1);
    let read = |hub: &Daemon| {
        let paths = hub.status().paths;
        paths.iter().map(|path| path.rx_packets).sum::<u64>()
    };
    let before = read(&hub);
    let seen = std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..CALLS {
                let _ = stranger.send(&initiations.next(None));
            }
        });
        ping(&world.hosts[0], "10.99.0.1", 50, 20, "")
    });
    assert_eq!(seen.received, 50);
    // The kernel tells what it dropped with what comes next.
    stranger
        .send(&Initiations::to(&world.hub_keys.1).next(None))
        .unwrap();
    let refused = wait_for("the calls to be counted", Duration::from_secs(5), || {
        let drops = hub.status().tunnel.drops;
        let refused = drops["handshake_limit"] + drops["bad_handshake"];
        (refused > CALLS / 2).then_some(refused)
    });
    let read = read(&hub) - before;
    println!("of {CALLS} calls {refused} were refused; {read} datagrams were read");
    assert!(read < refused / 2, "{read}");
    let status = hub.status();
    assert!(
        status.paths.iter().all(|path| path.socket_drops == 0),
        "{status:?}"
    );
    drop(clients);
}

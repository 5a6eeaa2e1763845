//! A hub and three clients of two paths, between namespaces, and what is asked of them.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use mpt_core::control::{PathState, PeerState, PeerStatus};
use net::process::program;
use net::settings::{hub_workers, workers_line};
use net::traffic::ping;
use net::{Daemon, Namespace, wait_for};

pub(crate) const NAMES: [&str; 3] = ["alice", "bob", "carol"];
/// Where the hub may be reached: what its two paths are bound to.
pub(crate) const AT: [&str; 2] = ["203.0.113.1", "203.0.113.2"];

/// A key pair by `mpt-ctl`, in base64.
pub(crate) fn key_pair() -> (String, String) {
    let made = Command::new(program("mpt-ctl")).arg("genkey").output();
    let private = String::from_utf8(made.unwrap().stdout).unwrap();
    let mut asked = Command::new(program("mpt-ctl"))
        .arg("pubkey")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = asked.stdin.take().unwrap();
    input.write_all(private.as_bytes()).unwrap();
    drop(input);
    let public = String::from_utf8(asked.wait_with_output().unwrap().stdout).unwrap();
    (private, public.trim().to_owned())
}

pub(crate) struct World {
    pub(crate) hub_host: Namespace,
    pub(crate) hosts: Vec<Namespace>,
    pub(crate) hub_keys: (String, String),
    pub(crate) keys: Vec<(String, String)>,
    /// Of the hub, if its file says so: in all tests as many as `MPT_TEST_HUB_WORKERS` says.
    pub(crate) workers: Option<String>,
}

/// The inner address of a client.
pub(crate) fn inner(client: usize) -> String {
    format!("10.99.0.{}", client + 2)
}

impl World {
    /// Each client has two links to the hub, and a default route by each.
    pub(crate) fn new() -> World {
        let hub_host = Namespace::new("hub");
        let hosts: Vec<Namespace> = NAMES.iter().map(|name| Namespace::new(name)).collect();
        hub_host.run("ip link set lo up");
        for at in AT {
            hub_host.run(&format!("ip address add {at}/32 dev lo"));
        }
        hub_host.sysctl("net.ipv4.ip_forward", "1");
        for (client, host) in hosts.iter().enumerate() {
            host.run("ip link set lo up");
            for path in 0..2 {
                let (near, far) = (format!("u{path}"), format!("c{client}p{path}"));
                let net = format!("10.{}.{client}", 10 + path);
                let there = host.name();
                hub_host.run(&format!(
                    "ip link add {far} type veth peer name {near} netns {there}"
                ));
                hub_host.run(&format!("ip address add {net}.1/30 dev {far}"));
                hub_host.run(&format!("ip link set {far} up"));
                host.run(&format!("ip address add {net}.2/30 dev {near}"));
                host.run(&format!("ip link set {near} up"));
                let metric = 10 + path;
                host.run(&format!(
                    "ip route add default via {net}.1 dev {near} metric {metric}"
                ));
            }
        }
        World {
            hub_host,
            hosts,
            hub_keys: key_pair(),
            keys: NAMES.iter().map(|_| key_pair()).collect(),
            workers: hub_workers(),
        }
    }

    pub(crate) fn hub_text(&self, socket: &str, peers: &[usize]) -> String {
        let key = Path::new(socket).with_file_name("hub.key");
        std::fs::write(&key, &self.hub_keys.0).unwrap();
        let mut text = format!(
            "[tunnel]\nname = \"mpt0\"\naddresses = [\"10.99.0.1/16\"]\n{}[control]\nsocket = \"{socket}\"\n\
             [crypto]\nprivate_key_file = \"{}\"\n",
            workers_line(self.workers.as_deref()),
            key.display()
        );
        for (path, at) in AT.iter().enumerate() {
            text += &format!(
                "[[paths]]\nname = \"isp{}\"\nlocal = \"{at}:4754\"\n",
                path + 1
            );
        }
        for &peer in peers {
            text += &format!("[[peers]]\nname = \"{}\"\n", NAMES[peer]);
            text += &self.peer_file(peer);
        }
        text
    }

    /// What stands in a peer's own file.
    pub(crate) fn peer_file(&self, peer: usize) -> String {
        let (key, inner) = (&self.keys[peer].1, inner(peer));
        format!("public_key = \"{key}\"\nallowed_ips = [\"{inner}/32\"]\n")
    }

    pub(crate) fn start_hub(&self) -> Daemon {
        Daemon::start(&self.hub_host, "mpt0", |socket| {
            self.hub_text(socket, &[0, 1, 2])
        })
    }

    /// The last client's paths both go to one address and port.
    pub(crate) fn start_client(&self, client: usize) -> Daemon {
        self.start_client_as(client, client)
    }

    /// A client's host with the key and the inner address of a peer.
    pub(crate) fn start_client_as(&self, client: usize, peer: usize) -> Daemon {
        Daemon::start(&self.hosts[client], "mpt0", |socket| {
            let key = Path::new(socket).with_file_name("client.key");
            std::fs::write(&key, &self.keys[peer].0).unwrap();
            let mut text = format!(
                "[tunnel]\nname = \"mpt0\"\naddresses = [\"{}/16\"]\n[control]\nsocket = \"{socket}\"\n\
                 [crypto]\nprivate_key_file = \"{}\"\npeer_public_key = \"{}\"\n",
                inner(peer),
                key.display(),
                self.hub_keys.1
            );
            for (path, name) in ["fibre", "lte"].iter().enumerate() {
                let remote = AT[if client == 2 { 0 } else { path }];
                text += &format!(
                    "[[paths]]\nname = \"{name}\"\nlocal = \"10.{}.{client}.2\"\nremote = \"{remote}:4754\"\n",
                    10 + path
                );
            }
            text
        })
    }
}

pub(crate) fn peers(hub: &Daemon) -> Vec<PeerStatus> {
    serde_json::from_value(hub.ctl(&["peers"])).unwrap()
}

pub(crate) fn state_of(hub: &Daemon, name: &str) -> Option<PeerState> {
    let all = peers(hub);
    all.iter()
        .find(|peer| peer.name == name)
        .map(|peer| peer.state)
}

pub(crate) fn await_state(hub: &Daemon, name: &str, state: Option<PeerState>) {
    let what = format!("{name} to be {state:?}");
    wait_for(&what, Duration::from_secs(20), || {
        (state_of(hub, name) == state).then_some(())
    });
}

/// Waits until all peers have two paths up each, by the names that they have told.
pub(crate) fn await_peers(hub: &Daemon) {
    wait_for("all peers to be up", Duration::from_secs(20), || {
        let all = peers(hub);
        let is_there = |peer: &PeerStatus| {
            let paths = peer.paths.iter();
            let up: Vec<&str> = paths
                .filter(|path| path.state == PathState::Up)
                .map(|path| path.name.as_str())
                .collect();
            peer.state == PeerState::Up && up == ["fibre", "lte"]
        };
        (all.len() == 3 && all.iter().all(is_there)).then_some(())
    });
}

/// Every client reaches the hub and the next client, and does so again after the hub was killed.
pub(crate) fn all_reach_each_other_also_after_a_crash(world: &World, hub: &mut Daemon) {
    for round in ["at first", "after it was killed"] {
        await_peers(hub);
        for (from, name) in NAMES.iter().enumerate() {
            for to in ["10.99.0.1".to_owned(), inner((from + 1) % 3)] {
                let seen = ping(&world.hosts[from], &to, 5, 20, "");
                assert_eq!(seen.received, 5, "{round}: {name} to {to}");
            }
        }
        if round == "at first" {
            hub.crash_and_restart(&world.hub_host);
        }
    }
}

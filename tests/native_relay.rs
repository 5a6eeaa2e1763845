//! Somebody has one of two paths of a sealed tunnel in his hand, with sockets of his own between two daemons: the
//! other path does not feel it. tests/sim_relay.rs measures the same in virtual time.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use mpt_core::control::PathState;
use mpt_core::crypto::claimed_route;
use net::settings::{Side, far_end_is_hub};
use net::traffic::{Iperf, ping};
use net::{Daemon, Hosts, Link, Settings, Shape, Tunnel, wait_for};

/// What the relay does with what comes to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Attack {
    /// Passes it on.
    None,
    /// Drops it.
    Drop,
    /// Puts it before path 1's socket instead.
    Cross,
    /// Puts it before both.
    Copy,
    /// Puts control messages before path 1's socket first.
    Reports,
    /// Passes small ones alone.
    Small,
}

const ATTACKS: [Attack; 6] = [
    Attack::None,
    Attack::Drop,
    Attack::Cross,
    Attack::Copy,
    Attack::Reports,
    Attack::Small,
];

/// Stands at host B: A takes it for B's end of path 0, and B takes it for A's.
struct Relay {
    attack: Arc<AtomicU8>,
    ends: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Relay {
    const TOWARD_A: &str = "10.1.0.2:5754";
    const TOWARD_B: &str = "10.1.0.2:5755";

    fn start(hosts: &Hosts) -> Relay {
        let socket = |address| {
            let socket = hosts.b.inside(|| UdpSocket::bind(address).unwrap());
            let wait = Some(Duration::from_millis(50));
            socket.set_read_timeout(wait).unwrap();
            Arc::new(socket)
        };
        let (front, back) = (socket(Relay::TOWARD_A), socket(Relay::TOWARD_B));
        let attack = Arc::new(AtomicU8::new(Attack::None as u8));
        let ends = Arc::new(AtomicBool::new(false));
        let threads = [(true, front.clone(), back.clone()), (false, back, front)].map(
            |(from_a, from, to)| {
                let (attack, ends) = (attack.clone(), ends.clone());
                std::thread::spawn(move || {
                    let mut bytes = [0; 65_536];
                    while !ends.load(Ordering::Relaxed) {
                        if let Ok(len) = from.recv(&mut bytes) {
                            let attack = ATTACKS[usize::from(attack.load(Ordering::Relaxed))];
                            pass_on(attack, from_a, &to, &bytes[..len]);
                        }
                    }
                })
            },
        );
        Relay {
            attack,
            ends,
            threads: threads.into(),
        }
    }
}

/// What is lost on the way is lost.
fn pass_on(attack: Attack, from_a: bool, to: &UdpSocket, datagram: &[u8]) {
    let (straight, across) = match from_a {
        true => ("10.1.0.2:4754", "10.1.1.2:4754"),
        false => ("10.1.0.1:4754", "10.1.1.1:4754"),
    };
    let is_control = claimed_route(datagram).is_some();
    let crosses = match attack {
        Attack::Cross | Attack::Copy => true,
        Attack::Reports => is_control,
        Attack::None | Attack::Drop | Attack::Small => false,
    };
    // A's sockets are on another host: toward A only B's messages for path 0 go, and straight.
    if crosses && from_a {
        let _ = to.send_to(datagram, across);
    }
    let goes_straight = match attack {
        Attack::None | Attack::Copy | Attack::Reports => true,
        Attack::Drop => false,
        Attack::Cross => !from_a,
        Attack::Small => datagram.len() <= 524,
    };
    if goes_straight {
        let _ = to.send_to(datagram, straight);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[test]
fn what_is_done_to_one_path_does_not_reach_the_other() {
    let Some(_turn) = net::turn() else { return };
    let hosts = Hosts::new(&[Shape::unshaped(), Shape::unshaped()]);
    let relay = Relay::start(&hosts);
    let links: Vec<&Link> = hosts.links.iter().collect();
    let settings = Settings::new().sealed();
    let b = Daemon::start(&hosts.b, "mpt0", |socket| {
        let text = settings.toml(Side::B, "mpt0", &links, socket);
        let lines = text.lines().filter(|line| !line.starts_with("remote"));
        lines.collect::<Vec<_>>().join("\n")
    });
    let a = Daemon::start(&hosts.a, "mpt0", |socket| {
        let text = settings.toml(Side::A, "mpt0", &links, socket);
        let line = text
            .lines()
            .find(|line| line.starts_with("remote") && line.contains("10.1.0.2"))
            .unwrap();
        text.replace(line, &format!("remote = \"{}\"", Relay::TOWARD_A))
    });
    let tunnel = Tunnel { a, b, hosts };
    tunnel.await_paths();
    assert_eq!(tunnel.b.status().paths[0].remote, Relay::TOWARD_B);
    let whole = tunnel.b.status().paths[1].remote.clone();
    for (index, attack) in (0..).zip(ATTACKS) {
        relay.attack.store(index, Ordering::Relaxed);
        let flow = Iperf::udp(Side::B.inner_v4(), 3, 5.0, 1200);
        let flow = flow.start(&tunnel.hosts.a, &tunnel.hosts.b);
        for _ in 0..12 {
            for daemon in [&tunnel.a, &tunnel.b] {
                let status = daemon.status();
                assert_eq!(status.paths[1].state, PathState::Up, "{attack:?}");
                assert!(status.tunnel.mtu >= 1280, "{attack:?}: {status:?}");
            }
            assert_eq!(tunnel.b.status().paths[1].remote, whole, "{attack:?}");
            std::thread::sleep(Duration::from_millis(200));
        }
        let report = flow.finish();
        println!(
            "{attack:?}: {} of {} datagrams lost",
            report.lost, report.datagrams
        );
        let answered = ping(&tunnel.hosts.a, Side::B.inner_v4(), 5, 20, "").received;
        assert!(answered >= 4, "{attack:?}: {answered} of 5 answered");
    }
    if !far_end_is_hub() {
        // In a hub a datagram's path is not that of its socket.
        let crossed = tunnel.b.status().tunnel.drops["other_path"];
        assert!(crossed > 0, "nothing was crossed");
    }
    relay.attack.store(Attack::None as u8, Ordering::Relaxed);
    wait_for("path 0", Duration::from_secs(15), || {
        let up = |daemon: &Daemon| daemon.status().paths[0].state == PathState::Up;
        (up(&tunnel.a) && up(&tunnel.b)).then_some(())
    });
}

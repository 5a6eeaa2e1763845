//! Sealed tunnels between two daemons: what goes through, what is seen on the way, who gets in.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use std::time::{Duration, Instant};

use mpt_core::control::{PathState, Protection};
use net::inject::read_capture;
use net::settings::Side;
use net::traffic::{Iperf, ping};
use net::{Daemon, Hosts, Link, Meter, Process, Settings, Shape, wait_for};

const IP_AND_UDP: usize = 20 + 8;

fn two_links() -> Hosts {
    Hosts::new(&[Shape::unshaped(), Shape::unshaped()])
}

/// Super-packets both ways, IPv4 and IPv6, and on the links nothing but handshakes and sealed packets.
#[test]
fn all_traffic_is_sealed() {
    let Some(_turn) = net::turn() else { return };
    let hosts = two_links();
    let folder = tempfile::tempdir().unwrap();
    let files = [folder.path().join("0"), folder.path().join("1")];
    let mut captures: Vec<Process> = (hosts.links.iter().zip(&files))
        .map(|(link, file)| {
            let (device, file) = (&link.device, file.display());
            let words = format!("tcpdump -U -n -s 80 -i {device} -w {file} udp port 4754");
            hosts.b.start(&words)
        })
        .collect();
    for capture in &captures {
        wait_for("tcpdump to listen", Duration::from_secs(5), || {
            capture.stderr().contains("listening on").then_some(())
        });
    }
    let tunnel = hosts.tunnel(&Settings::new().sealed());
    for daemon in [&tunnel.a, &tunnel.b] {
        let status = daemon.status().tunnel;
        let expected = [Protection::Aes256Gcm, Protection::ChaCha20Poly1305];
        assert!(expected.contains(&status.protection), "{status:?}");
        assert!(!daemon.log().contains("not protected"));
    }
    for inner in [Side::B.inner_v4(), Side::B.inner_v6()] {
        assert_eq!(ping(&tunnel.hosts.a, inner, 5, 20, "").received, 5);
        for run in [Iperf::tcp(inner, 2), Iperf::tcp(inner, 2).reverse()] {
            let mbps = run.run(&tunnel.hosts.a, &tunnel.hosts.b).intervals_mbps;
            assert!(mbps.iter().all(|mbps| *mbps > 1.0), "{mbps:?}");
        }
    }
    let drops = tunnel.b.status().tunnel.drops;
    for kind in [
        "forged",
        "not_sealed",
        "unknown_session",
        "bad_handshake",
        "bad_inner",
    ] {
        assert_eq!(drops[kind], 0, "{kind}");
    }
    for capture in &mut captures {
        capture.signal("TERM");
        capture.wait(Duration::from_secs(5));
    }
    let mut seen = 0;
    for packet in files.iter().flat_map(|file| read_capture(file)) {
        let gre = &packet[IP_AND_UDP..];
        let handshake = gre.starts_with(&[0, 0, 0x88, 0xb5]) && matches!(gre[4], 3..=5);
        assert!(
            handshake || gre[2..4] == [0x88, 0xb6],
            "{:02x?}",
            &gre[..12]
        );
        seen += 1;
    }
    assert!(seen > 100, "{seen} packets");
}

/// Two ends of which one has other keys say nothing to each other.
#[test]
fn who_has_other_keys_gets_nothing() {
    let Some(_turn) = net::turn() else { return };
    let hosts = two_links();
    let links: Vec<&Link> = hosts.links.iter().collect();
    let settings = Settings::new().strange_keys(Side::A);
    let start = |host, side| {
        Daemon::start(host, "mpt0", |socket| {
            settings.toml(side, "mpt0", &links, socket)
        })
    };
    let (a, b) = (start(&hosts.a, Side::A), start(&hosts.b, Side::B));
    std::thread::sleep(Duration::from_secs(3));
    for daemon in [&a, &b] {
        let status = daemon.status();
        assert_eq!(status.tunnel.protection, Protection::Waiting);
        assert!(status.paths.iter().all(|path| path.state != PathState::Up));
    }
    assert!(b.status().tunnel.drops["bad_handshake"] > 0);
    assert_eq!(ping(&hosts.a, Side::B.inner_v4(), 3, 20, "").received, 0);
}

/// A plain end and a sealed one say nothing to each other either.
#[test]
fn a_plain_end_gets_nothing() {
    let Some(_turn) = net::turn() else { return };
    if std::env::var_os("MPT_TEST_SEALED").is_some() {
        return net::skip("there is no plain end when all are sealed");
    }
    let hosts = two_links();
    let links: Vec<&Link> = hosts.links.iter().collect();
    let (plain, sealed) = (Settings::new(), Settings::new().sealed());
    let start = |host, side, settings: &Settings| {
        Daemon::start(host, "mpt0", |socket| {
            settings.toml(side, "mpt0", &links, socket)
        })
    };
    let a = start(&hosts.a, Side::A, &plain);
    let b = start(&hosts.b, Side::B, &sealed);
    assert!(a.log().contains("not protected"), "{}", a.log());
    assert_eq!(a.status().tunnel.protection, Protection::None);
    assert_eq!(ping(&hosts.a, Side::B.inner_v4(), 3, 20, "").received, 0);
    assert!(b.status().tunnel.drops["not_sealed"] > 0);
    assert_eq!(b.status().tunnel.rx_packets, 0);
}

/// The first path swallows everything from the start: the second carries the handshake.
#[test]
fn keys_are_agreed_over_whichever_path_works() {
    let Some(_turn) = net::turn() else { return };
    for dead in [0, 1] {
        let hosts = two_links();
        let links: Vec<&Link> = hosts.links.iter().collect();
        let settings = Settings::new().sealed();
        let start = |host, side| {
            Daemon::start(host, "mpt0", |socket| {
                settings.toml(side, "mpt0", &links, socket)
            })
        };
        let b = start(&hosts.b, Side::B);
        hosts.links[dead].down(&hosts.b);
        let a = start(&hosts.a, Side::A);
        wait_for("the path that works", Duration::from_secs(5), || {
            let up = |daemon: &Daemon| daemon.status().paths[1 - dead].state == PathState::Up;
            (up(&a) && up(&b)).then_some(())
        });
        assert_eq!(ping(&hosts.a, Side::B.inner_v4(), 5, 20, "").received, 5);
    }
}

/// Either end is killed and started anew under load: traffic goes on within a second of the start.
#[test]
fn either_end_may_be_killed_and_started_anew() {
    let Some(_turn) = net::turn() else { return };
    let mut tunnel = two_links().tunnel(&Settings::new().sealed());
    for restarted in [Side::A, Side::B] {
        let hosts = &tunnel.hosts;
        match restarted {
            Side::A => tunnel.a.crash_and_restart(&hosts.a),
            Side::B => tunnel.b.crash_and_restart(&hosts.b),
        }
        let start = Instant::now();
        wait_for("an answered ping", Duration::from_secs(5), || {
            let answered = ping(&tunnel.hosts.a, Side::B.inner_v4(), 1, 20, "").received;
            (answered == 1).then_some(())
        });
        println!(
            "{restarted:?} carries traffic {:?} after its start",
            start.elapsed()
        );
        assert!(start.elapsed() < Duration::from_millis(1500));
    }
}

/// A server that is told no address, and a client whose address changes under load: the server follows.
#[test]
fn a_client_whose_address_changes_is_followed() {
    let Some(_turn) = net::turn() else { return };
    let hosts = two_links();
    let links: Vec<&Link> = hosts.links.iter().collect();
    let settings = Settings::new().sealed();
    let b = Daemon::start(&hosts.b, "mpt0", |socket| {
        let text = settings.toml(Side::B, "mpt0", &links, socket);
        let lines = text.lines().filter(|line| !line.starts_with("remote"));
        lines.collect::<Vec<_>>().join("\n")
    });
    assert_eq!(b.status().paths[0].remote, "unknown");
    let a = Daemon::start(&hosts.a, "mpt0", |socket| {
        let text = settings.toml(Side::A, "mpt0", &links, socket);
        text.replace(
            "local = \"10.1.0.1\"",
            "local = \"0.0.0.0:4764\"\ninterface = \"path0\"",
        )
    });
    hosts.b.run("ip route add 10.1.0.77 dev path0");
    let tunnel = net::Tunnel { a, b, hosts };
    tunnel.await_paths();
    assert_eq!(tunnel.b.status().paths[0].remote, "10.1.0.1:4764");

    // The other path is out of service, so that all depends on the one that changes.
    tunnel.a.ctl(&["path", "down", "path1"]);
    let flow = Iperf::udp(Side::B.inner_v4(), 5, 20.0, 1200).words("-w 400K");
    let flow = flow.start(&tunnel.hosts.a, &tunnel.hosts.b);
    let meter = Meter::start(tunnel.b.id(), "mpt0");
    std::thread::sleep(Duration::from_secs(1));
    let changed = Instant::now();
    for words in [
        "address delete 10.1.0.1/30 dev path0",
        "address add 10.1.0.77/32 dev path0",
        "route add 10.1.0.2 dev path0 src 10.1.0.77",
    ] {
        tunnel.hosts.a.run(&format!("ip {words}"));
    }
    wait_for("the server to follow", Duration::from_secs(1), || {
        let remote = tunnel.b.status().paths.remove(0).remote;
        (remote == "10.1.0.77:4764").then_some(())
    });
    println!("followed after {:?}", changed.elapsed());
    std::thread::sleep(Duration::from_secs(2));
    let record = meter.finish();
    let silence = record.longest_silence(changed, Instant::now());
    println!("longest silence {silence:?}");
    assert!(silence <= Duration::from_secs(1));
    let report = flow.finish();
    println!("{} of {} datagrams lost", report.lost, report.datagrams);
    assert_eq!(tunnel.b.status().tunnel.drops["forged"], 0);
    assert_eq!(
        ping(&tunnel.hosts.a, Side::B.inner_v4(), 5, 20, "").received,
        5
    );
}

/// How fast a sealed tunnel is beside a plain one, in one run. Asserted with room: machines that
/// run tests are busy; docs/performance.md says what a quiet one does.
#[test]
fn sealing_costs_less_than_half_of_the_speed() {
    let Some(_turn) = net::turn() else { return };
    if net::in_lab() {
        return net::skip("the lab's clock does not see what a processor does");
    }
    let mut best = [0.0_f64; 2];
    for round in 0..4 {
        let settings = match round % 2 {
            0 => Settings::new(),
            _ => Settings::new().sealed(),
        };
        let tunnel = two_links().tunnel(&settings);
        let flow = Iperf::tcp(Side::B.inner_v4(), 8);
        let mbps = flow.run(&tunnel.hosts.a, &tunnel.hosts.b).steady_mbps();
        best[round % 2] = best[round % 2].max(mbps);
    }
    let [plain, sealed] = best;
    println!(
        "plain {plain:.0} Mbit/s, sealed {sealed:.0} Mbit/s: {:.2}",
        sealed / plain
    );
    assert!(sealed >= 0.4 * plain);
}

/// A flood of initiations, each from another address, leaves an established tunnel its speed.
#[test]
fn a_flood_of_initiations_costs_little() {
    let Some(_turn) = net::turn() else { return };
    let hosts = Hosts::new(&[Shape::mbps(50.0), Shape::mbps(50.0), Shape::unshaped()]);
    for interface in ["all", "path2"] {
        hosts
            .b
            .sysctl(&format!("net.ipv4.conf.{interface}.rp_filter"), "0");
    }
    let settings = Settings::new().sealed().weights(&[1, 1]);
    let links: Vec<&Link> = hosts.links.iter().take(2).collect();
    let start = |host, side| {
        Daemon::start(host, "mpt0", |socket| {
            settings.toml(side, "mpt0", &links, socket)
        })
    };
    let (a, b) = (start(&hosts.a, Side::A), start(&hosts.b, Side::B));
    let injector = net::inject::Injector::new(&hosts.a, "path2");
    let mut tunnel = net::Tunnel { a, b, hosts };
    tunnel.await_paths();
    let flow = Iperf::tcp(Side::B.inner_v4(), 12).start(&tunnel.hosts.a, &tunnel.hosts.b);
    std::thread::sleep(Duration::from_secs(2));
    let meter = Meter::start(tunnel.b.id(), "mpt0");
    let calm = Instant::now();
    std::thread::sleep(Duration::from_secs(3));
    let memory = tunnel.b.process().peak_resident_bytes();
    let flood = Instant::now();
    let to = "10.1.0.2:4754".parse().unwrap();
    let mut initiation = [0; 4 + mpt_core::crypto::INITIATION_BYTES];
    initiation[..5].copy_from_slice(&[0, 0, 0x88, 0xb5, 3]);
    let rate = 100_000;
    let mut sent = 0u32;
    while flood.elapsed() < Duration::from_secs(4) {
        let due = (flood.elapsed().as_secs_f64() * f64::from(rate)) as u32;
        while sent < due {
            sent += 1;
            let address = std::net::Ipv4Addr::from(0x6440_0000 + sent % 0x3f_ffff);
            initiation[20..24].copy_from_slice(&sent.to_be_bytes());
            injector.send_udp(std::net::SocketAddrV4::new(address, 4754), to, &initiation);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let end = Instant::now();
    let record = meter.finish();
    let (calm, stormy) = (record.rx_mbps(calm, flood), record.rx_mbps(flood, end));
    let grown = tunnel.b.process().peak_resident_bytes() - memory;
    println!(
        "{} initiations a second: {calm:.1} Mbit/s before, {stormy:.1} during, {} KiB more",
        u64::from(sent) / 4,
        grown / 1024
    );
    let _ = flow.finish();
    assert!(stormy >= 0.9 * calm);
    assert!(grown <= 4 << 20);
}

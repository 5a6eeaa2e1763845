//! Hostile datagrams at a path's port: they may cost counters, never traffic.
//!
//! They come over a third link that the tunnel does not use, addressed to a path's socket: so the
//! tunnel's own links keep their rate for the flow that must go on.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant};

use mpt_core::control::{PathState, Status};
use net::inject::{Injector, read_capture};
use net::settings::Side;
use net::traffic::{Iperf, ping};
use net::{Daemon, Hosts, Link, Meter, Random, Settings, Shape, Tunnel, wait_for};

const TARGET: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 1, 0, 2), 4754);
const PEER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 1, 0, 1), 4754);
const STRANGER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(198, 51, 100, 7), 4754);

/// A tunnel over two links of 50 Mbit/s, and a third link for the attacker.
fn besieged() -> (Tunnel, Injector) {
    let hosts = Hosts::new(&[Shape::mbps(50.0), Shape::mbps(50.0), Shape::unshaped()]);
    for interface in ["all", "path2"] {
        hosts
            .b
            .sysctl(&format!("net.ipv4.conf.{interface}.rp_filter"), "0");
    }
    let settings = Settings::new().weights(&[1, 1]).reorder(1024, 300);
    let links: Vec<&Link> = hosts.links.iter().take(2).collect();
    let start = |host, side| {
        Daemon::start(host, "mpt0", |socket| {
            settings.toml(side, "mpt0", &links, socket)
        })
    };
    let (a, b) = (start(&hosts.a, Side::A), start(&hosts.b, Side::B));
    let injector = Injector::new(&hosts.a, "path2");
    let tunnel = Tunnel { a, b, hosts };
    tunnel.await_paths();
    (tunnel, injector)
}

/// All that was dropped or put aside, for whatever reason.
fn turned_away(status: &Status) -> u64 {
    let sockets: u64 = status.paths.iter().map(|path| path.socket_drops).sum();
    status.tunnel.drops.values().sum::<u64>() + sockets
}

/// A million datagrams, random ones and mutated real ones, from the peer's address and port, from
/// its address and another port, and from a stranger.
#[test]
fn a_million_hostile_datagrams_change_nothing() {
    let Some(_turn) = net::turn() else { return };
    let (mut tunnel, injector) = besieged();
    let samples = capture_of_traffic(&tunnel);
    let flow = Iperf::tcp(Side::B.inner_v4(), 26).start(&tunnel.hosts.a, &tunnel.hosts.b);
    std::thread::sleep(Duration::from_secs(3));
    let before = tunnel.b.status();
    let meter = Meter::start(tunnel.b.id(), "mpt0");
    let start = Instant::now();
    std::thread::sleep(Duration::from_secs(3));
    let flood = Instant::now();

    let count: u64 = 1_000_000;
    let mut random = Random(0x4d50_545f_4752_4531);
    let mut noise = vec![0; 1400];
    for index in 0..count {
        let payload = if index % 2 == 0 {
            let length = random.below(noise.len());
            for byte in noise.iter_mut().take(length.min(64)) {
                *byte = random.next_u64() as u8;
            }
            &noise[..length]
        } else {
            let sample = &samples[random.below(samples.len())];
            noise[..sample.len()].copy_from_slice(sample);
            for _ in 0..=random.below(8) {
                let at = random.below(sample.len().min(48));
                noise[at] ^= 1 << random.below(8);
            }
            &noise[..sample.len()]
        };
        let from = match random.below(4) {
            0 | 1 => PEER,
            2 => SocketAddrV4::new(*PEER.ip(), 1024 + index as u16 % 50_000),
            _ => STRANGER,
        };
        injector.send_udp(from, TARGET, payload);
        // About 80,000 a second: the machine has two processors for both hosts and the attacker.
        if index % 400 == 0 {
            let due = Duration::from_secs_f64(index as f64 / 80_000.0);
            std::thread::sleep(due.saturating_sub(flood.elapsed()));
        }
    }
    let end = Instant::now();
    let record = meter.finish();
    let (calm, stormy) = (record.rx_mbps(start, flood), record.rx_mbps(flood, end));
    let silence = record.longest_silence(flood, end);
    let after = tunnel.b.status();
    let away = turned_away(&after) - turned_away(&before);
    println!(
        "{count} hostile datagrams in {:?}: {calm:.1} Mbit/s before, {stormy:.1} during, longest \
         silence {silence:?}, {away} turned away",
        end - flood
    );
    println!("{}", tunnel.b.status_text());
    assert!(flow.finish().intervals_mbps.len() >= 20);
    assert!(stormy >= 0.95 * calm, "the flow suffers");
    assert!(silence <= Duration::from_millis(320), "the flow stalls");
    assert!(away >= count * 9 / 10, "{after:#?}");
    assert_eq!(after.tunnel.session, before.tunnel.session);
    assert_eq!(after.tunnel.peer_session, before.tunnel.peer_session);
    for (now, then) in after.paths.iter().zip(&before.paths) {
        assert_eq!((&now.remote, now.state), (&then.remote, PathState::Up));
    }
    let memory = tunnel.b.process().peak_resident_bytes();
    println!("{} KiB resident at most", memory / 1024);
    assert!(memory <= 64 << 20);
}

/// Payloads of the tunnel's own datagrams on path0.
fn capture_of_traffic(tunnel: &Tunnel) -> Vec<Vec<u8>> {
    let traffic = || {
        let seen = ping(&tunnel.hosts.a, Side::B.inner_v4(), 50, 10, "-s 1000");
        assert_eq!(seen.received, 50);
    };
    capture(tunnel, traffic)
        .into_iter()
        .map(|packet| packet[28..].to_vec())
        .collect()
}

/// IP packets from A to B's port on path0 while `traffic` runs.
fn capture(tunnel: &Tunnel, traffic: impl FnOnce()) -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("path0.pcap");
    let line = format!(
        "tcpdump -n -U --immediate-mode -i path0 -w {} udp and dst host 10.1.0.2",
        file.display()
    );
    let mut capture = tunnel.hosts.b.start(&line);
    wait_for("tcpdump to listen", Duration::from_secs(5), || {
        capture.stderr().contains("listening on").then_some(())
    });
    traffic();
    std::thread::sleep(Duration::from_millis(300));
    capture.signal("TERM");
    capture.wait(Duration::from_secs(5));
    let packets = read_capture(&file);
    assert!(
        packets.len() > 20,
        "only {} packets captured",
        packets.len()
    );
    packets
}

/// Real traffic played again, twice and shuffled, straight after it and much later: nothing is
/// delivered a second time.
#[test]
fn replayed_traffic_is_delivered_once() {
    let Some(_turn) = net::turn() else { return };
    let (tunnel, injector) = besieged();
    let packets = capture(&tunnel, || {
        let run = Iperf::udp(Side::B.inner_v4(), 2, 20.0, 1200);
        let report = run.run(&tunnel.hosts.a, &tunnel.hosts.b);
        assert!(report.datagrams > 3000, "{report:?}");
    });
    let mut random = Random(7);
    let before = tunnel.b.status();
    for _ in 0..2 {
        let mut order: Vec<usize> = (0..packets.len()).collect();
        for index in (1..order.len()).rev() {
            order.swap(index, random.below(index + 1));
        }
        for (sent, index) in order.into_iter().enumerate() {
            injector.send_packet(*TARGET.ip(), &packets[index]);
            if sent % 100 == 0 {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }
    std::thread::sleep(Duration::from_millis(500));
    let after = tunnel.b.status();
    let again = after.tunnel.rx_packets - before.tunnel.rx_packets;
    println!(
        "{} packets replayed twice, {again} delivered; {:?}",
        packets.len(),
        after.reorder
    );
    // The kernel itself says a word now and then (IPv6 router solicitations).
    assert!(again <= 4, "{again} delivered again: {after:#?}");
    // And the tunnel goes on as if nothing had been.
    assert_eq!(
        ping(&tunnel.hosts.a, Side::B.inner_v4(), 10, 20, "").received,
        10
    );
}

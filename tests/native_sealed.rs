//! Sealed tunnels between two daemons: what goes through, what is seen on the way, who gets in.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use std::collections::VecDeque;
use std::net::{SocketAddrV4, UdpSocket};
use std::time::{Duration, Instant};

use mpt_core::control::{PathState, Protection};
use net::initiation::{Cookie, Initiation, Initiations};
use net::inject::{Injector, read_capture};
use net::settings::{Side, far_end_is_hub, public_key};
use net::traffic::{Iperf, ping};
use net::{Daemon, Hosts, Link, Meter, Process, Random, Settings, Shape, Tunnel, wait_for};

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
    let hosts = two_links();
    let links: Vec<&Link> = hosts.links.iter().collect();
    let (plain, sealed) = (Settings::new().plain(), Settings::new().sealed());
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

/// Either end is killed and started anew under load: traffic goes on within a second of the start; also where that is
/// a hub, which does not know where its clients are and waits until the client finds out.
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
            // A ping that is lost is not waited for as long as others are.
            let answered = ping(&tunnel.hosts.a, Side::B.inner_v4(), 1, 20, "-W 0.1").received;
            (answered == 1).then_some(())
        });
        println!(
            "{restarted:?} carries traffic {:?} after its start",
            start.elapsed()
        );
        assert!(start.elapsed() < Duration::from_secs(1));
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
    let tunnel = Tunnel { a, b, hosts };
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
            0 => Settings::new().plain(),
            _ => Settings::new().sealed(),
        };
        let tunnel = two_links().tunnel(&settings);
        let flow = Iperf::tcp(Side::B.inner_v4(), 6);
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

/// A sealed tunnel over two links, and a third link for the attacker.
fn besieged(shape: Shape) -> (Tunnel, Injector) {
    let hosts = Hosts::new(&[shape.clone(), shape, Shape::unshaped()]);
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
    let injector = Injector::new(&hosts.a, "path2");
    let tunnel = Tunnel { a, b, hosts };
    tunnel.await_paths();
    (tunnel, injector)
}

/// Initiations a second in a flood …
const FLOOD: u32 = 100_000;
/// … of which so many come when others use the machine as well.
const LEAST_FLOOD: f64 = 20_000.0;
/// A flood, and the calm before it, last this long; both come so many times, since others use the machine.
const SPELL: Duration = Duration::from_millis(1250);
const SPELLS: usize = 4;

/// A flood of initiations, each from another address, leaves an established tunnel its speed. That of the
/// best calm and of the best storm are compared: whoever else uses the machine does not do so all the time.
#[test]
fn a_flood_of_initiations_costs_little() {
    let Some(_turn) = net::turn() else { return };
    let (mut tunnel, injector) = besieged(Shape::mbps(50.0));
    let flow = Iperf::tcp(Side::B.inner_v4(), 14).start(&tunnel.hosts.a, &tunnel.hosts.b);
    std::thread::sleep(Duration::from_secs(2));
    let memory = tunnel.b.process().peak_resident_bytes();
    let meter = Meter::start(tunnel.b.id(), "mpt0");
    let mut initiations = Initiations::to(public_key(Side::B));
    let (mut sent, mut spells) = (0, Vec::new());
    for _ in 0..SPELLS {
        let calm = Instant::now();
        std::thread::sleep(SPELL);
        let storm = Instant::now();
        let before = sent;
        flood(&injector, &mut initiations, &mut sent);
        spells.push((calm, storm, Instant::now(), sent - before));
    }
    let record = meter.finish();
    let grown = tunnel.b.process().peak_resident_bytes() - memory;
    let (mut calm, mut stormy) = (0.0, 0.0);
    for (began, storm, end, sent) in spells {
        let rate = f64::from(sent) / (end - storm).as_secs_f64();
        let mbps = [record.rx_mbps(began, storm), record.rx_mbps(storm, end)];
        println!(
            "{:.1} Mbit/s, and {:.1} with {rate:.0} initiations a second",
            mbps[0], mbps[1]
        );
        calm = f64::max(calm, mbps[0]);
        if rate >= LEAST_FLOOD {
            stormy = f64::max(stormy, mbps[1]);
        }
    }
    println!("{} KiB more", grown / 1024);
    let _ = flow.finish();
    assert!(calm > 0.0 && stormy >= 0.9 * calm);
    assert!(grown <= 4 << 20);
}

/// Initiations with a right mac1 from addresses that cannot hear, for one spell; `sent` counts on.
fn flood(injector: &Injector, initiations: &mut Initiations, sent: &mut u32) {
    let to = "10.1.0.2:4754".parse().unwrap();
    let (start, mut last) = (Instant::now(), Instant::now());
    while start.elapsed() < SPELL {
        // Who was held up does not make up for it: that would be a burst, which is another thing.
        let due = last.elapsed().min(Duration::from_millis(5));
        last = Instant::now();
        for _ in 0..(due.as_secs_f64() * f64::from(FLOOD)) as u32 {
            *sent += 1;
            let address = std::net::Ipv4Addr::from(0x6440_0000 + *sent % 0x3f_ffff);
            let initiation = initiations.next(None);
            injector.send_udp(SocketAddrV4::new(address, 4754), to, &initiation);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Somebody who knows the public key floods with right mac1s from his own address, hears the cookies, and shows
/// them: right mac2s. Diffie-Hellman is computed for as many as the budget allows, which shows in
/// `bad_handshake`; the rest is `handshake_limit`. The tunnel goes on.
#[test]
fn initiations_with_right_cookies_are_worked_on_within_the_budget() {
    let Some(_turn) = net::turn() else { return };
    let (tunnel, _) = besieged(Shape::unshaped());
    let hosts = &tunnel.hosts;
    for interface in ["all", "path2"] {
        let key = format!("net.ipv4.conf.{interface}.rp_filter");
        hosts.a.sysctl(&key, "0");
    }
    let socket = hosts.a.inside(|| {
        let socket = UdpSocket::bind("10.1.2.1:4999").unwrap();
        socket2::SockRef::from(&socket)
            .bind_device(Some(b"path2"))
            .unwrap();
        socket
    });
    socket.set_nonblocking(true).unwrap();
    let mut attacker = Attacker {
        socket,
        initiations: Initiations::to(public_key(Side::B)),
        recent: VecDeque::new(),
        cookie: None,
        replies: 0,
    };
    let counted = || {
        let drops = tunnel.b.status().tunnel.drops;
        [drops["bad_handshake"], drops["handshake_limit"]]
    };
    for shows_cookies in [false, true] {
        let (before, replies, start) = (counted(), attacker.replies, Instant::now());
        let sent = attacker.flood(Duration::from_secs(2), shows_cookies);
        let seconds = start.elapsed().as_secs() + 2;
        let replies = attacker.replies - replies;
        let after = counted();
        let [worked_on, refused] = [0, 1].map(|at| after[at] - before[at]);
        println!(
            "{sent} initiations, cookies shown: {shows_cookies}: {worked_on} worked on, {refused} refused, \
             {replies} cookies"
        );
        // docs/protocol.md, Rules: 20 a second as they come, 200 at a hub, then 5 a second of a host with a right mac2; each
        // at once after a pause. The first flood used up what the second would have had at once.
        let a_second = if far_end_is_hub() { 200 } else { 20 };
        let as_they_come = a_second * (1 + seconds);
        let with_cookies = if shows_cookies { 5 + 5 * seconds } else { 0 };
        assert!(worked_on <= as_they_come + with_cookies);
        assert!(worked_on >= 20, "the flood was to reach the arithmetic");
        assert!(refused > 1000, "the flood was to be one");
        // Who has shown a cookie gets no other: what is more than a host's share is dropped without a word.
        assert!((replies > 20) != shows_cookies, "{replies} cookies");
        let inner = Side::B.inner_v4();
        assert_eq!(ping(&hosts.a, inner, 10, 20, "").received, 10);
    }
    let status = tunnel.b.status();
    assert!(status.paths.iter().all(|path| path.state == PathState::Up));
    assert_eq!(status.paths[0].remote, "10.1.0.1:4754");
}

/// Initiations among which the one is that a cookie answers. A hub reads calls once in a millisecond, in which at most 50 are
/// sent, 20 µs apart.
const RECENT: usize = 100;

/// Who hears what is sent to his address.
struct Attacker {
    socket: UdpSocket,
    initiations: Initiations,
    /// The last that were sent: a cookie opens with the one that it answers.
    recent: VecDeque<Initiation>,
    cookie: Option<Cookie>,
    /// How many cookies came that opened.
    replies: u64,
}

impl Attacker {
    /// Sends for this long, and takes the cookies that come. Returns how many it sent.
    fn flood(&mut self, span: Duration, shows_cookies: bool) -> u64 {
        let (start, mut sent) = (Instant::now(), 0);
        while start.elapsed() < span {
            for _ in 0..20 {
                let cookie = self.cookie.filter(|_| shows_cookies);
                let initiation = self.initiations.next(cookie.as_ref());
                let _ = self.socket.send_to(&initiation, "10.1.0.2:4754");
                sent += 1;
                self.recent.push_front(initiation);
                self.recent.truncate(RECENT);
                let mut reply = [0; 256];
                std::thread::sleep(Duration::from_micros(20));
                while let Ok(len) = self.socket.recv(&mut reply) {
                    let opens = |one| self.initiations.cookie(one, &reply[..len]);
                    if let Some(cookie) = self.recent.iter().find_map(opens) {
                        self.cookie = Some(cookie);
                        self.replies += 1;
                    }
                }
            }
        }
        sent
    }
}

/// How many forged, replayed and changed packets come: `MPT_TEST_FORGED`, or as many as a test has time
/// for.
fn forgeries() -> u64 {
    let asked = std::env::var("MPT_TEST_FORGED").ok();
    asked
        .and_then(|count| count.parse().ok())
        .unwrap_or(300_000)
}

/// Packets that were made up behind a true header, that were recorded and come again, and that had a bit
/// changed on the way, from the peer's address and others: none is delivered, none moves an address, each
/// is counted.
#[test]
fn forged_replayed_and_changed_packets_are_counted_and_no_more() {
    let Some(_turn) = net::turn() else { return };
    let (mut tunnel, injector) = besieged(Shape::unshaped());
    let samples = recorded(&tunnel);
    let sent_by_peer = |tunnel: &Tunnel| -> u64 {
        let paths = tunnel.a.status().paths;
        paths.iter().map(|path| path.tx_packets).sum()
    };
    let (peers, before) = (sent_by_peer(&tunnel), tunnel.b.status());
    let (count, start) = (forgeries(), Instant::now());
    let mut random = Random(0x5345_414c_4544);
    let target = SocketAddrV4::new([10, 1, 0, 2].into(), 4754);
    let mut packet = Vec::new();
    for index in 0..count {
        packet.clear();
        packet.extend_from_slice(&samples[random.below(samples.len())]);
        match index % 3 {
            0 => {
                for chunk in packet[12..].chunks_mut(8) {
                    chunk.copy_from_slice(&random.next_u64().to_ne_bytes()[..chunk.len()]);
                }
            }
            1 => {}
            _ => {
                let at = random.below(packet.len());
                packet[at] ^= 1 << random.below(8);
            }
        }
        let from = match random.below(3) {
            0 => SocketAddrV4::new([10, 1, 0, 1].into(), 4754),
            1 => SocketAddrV4::new([10, 1, 0, 1].into(), 1024 + index as u16 % 50_000),
            _ => SocketAddrV4::new([198, 51, 100, 7].into(), 4754),
        };
        injector.send_udp(from, target, &packet);
        if index % 100 == 0 {
            let due = Duration::from_secs_f64(index as f64 / 80_000.0);
            std::thread::sleep(due.saturating_sub(start.elapsed()));
        }
    }
    std::thread::sleep(Duration::from_millis(500));
    let after = tunnel.b.status();
    let counted: Vec<(&str, u64)> = (after.tunnel.drops.iter())
        .map(|(kind, drops)| (kind.as_str(), drops - before.tunnel.drops[kind]))
        .filter(|(_, drops)| *drops > 0)
        .collect();
    let overflowed: u64 = after.paths.iter().map(|path| path.socket_drops).sum();
    let peers = sent_by_peer(&tunnel) - peers;
    println!(
        "{count} packets in {:?}: {counted:?}, {overflowed} not taken by the sockets",
        start.elapsed()
    );
    let delivered = after.tunnel.rx_packets - before.tunnel.rx_packets;
    println!("{delivered} packets delivered meanwhile");
    // The kernel itself says a word now and then (IPv6 router solicitations).
    assert!(delivered <= 4);
    for kind in ["forged", "duplicate", "not_sealed", "unknown_session"] {
        assert!(counted.iter().any(|(known, _)| *known == kind), "{kind}");
    }
    let counted: u64 = counted.iter().map(|(_, drops)| drops).sum();
    assert!(counted <= count, "{counted} of {count}");
    // A buffer that overflows, on a machine that is busy, has no room for the peer's own probes either.
    let accounted = count * 99 / 100..=count + overflowed.min(peers);
    assert!(
        accounted.contains(&(counted + overflowed)),
        "{counted} and {overflowed} of {count}"
    );
    for (now, then) in after.paths.iter().zip(&before.paths) {
        assert_eq!((&now.remote, now.state), (&then.remote, PathState::Up));
    }
    assert_eq!(after.tunnel.peer_session, before.tunnel.peer_session);
    assert!(tunnel.b.process().peak_resident_bytes() <= 64 << 20);
    let inner = Side::B.inner_v4();
    assert_eq!(ping(&tunnel.hosts.a, inner, 10, 20, "").received, 10);
}

/// Datagrams from A to B's port on path0: data, and control messages.
fn recorded(tunnel: &Tunnel) -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("path0.pcap");
    let mut capture = tunnel.hosts.b.start(&format!(
        "tcpdump -n -U --immediate-mode -i path0 -w {} udp and dst host 10.1.0.2",
        file.display()
    ));
    wait_for("tcpdump to listen", Duration::from_secs(5), || {
        capture.stderr().contains("listening on").then_some(())
    });
    let seen = ping(&tunnel.hosts.a, Side::B.inner_v4(), 100, 10, "-s 300");
    assert_eq!(seen.received, 100);
    std::thread::sleep(Duration::from_millis(300));
    capture.signal("TERM");
    capture.wait(Duration::from_secs(5));
    let packets = read_capture(&file);
    assert!(packets.len() > 30, "{} packets", packets.len());
    let payload = |packet: Vec<u8>| packet[IP_AND_UDP..].to_vec();
    packets.into_iter().map(payload).collect()
}

/// A device in the middle begins to swallow large packets and says nothing: the path's MTU is found, and
/// the interface has it.
#[test]
fn a_black_hole_is_found_and_the_interface_follows() {
    let Some(_turn) = net::turn() else { return };
    let tunnel = two_links().tunnel(&Settings::new().sealed());
    let full = tunnel.a.status().tunnel.mtu;
    // The far end of a veth pair drops what is longer than its own MTU, without a word to the near end.
    tunnel.hosts.b.run("ip link set path1 mtu 1400");
    let start = Instant::now();
    // The kernel leaves room for a VLAN tag.
    let expected = 1400 - IP_AND_UDP as u32 - 30;
    let narrow = wait_for("the interface's MTU", Duration::from_secs(20), || {
        // An idle tunnel does not look for what it would carry.
        tunnel
            .hosts
            .a
            .run(&format!("ping -c 1 -W 1 {}", Side::B.inner_v4()));
        let (status, link) = (tunnel.a.status(), tunnel.hosts.a.run("ip link show mpt0"));
        let mtu = status.paths[1].mtu;
        let found = (expected..=expected + 4).contains(&mtu);
        (found && link.contains(&format!("mtu {mtu} "))).then_some(status)
    });
    println!(
        "{} bytes found after {:?}",
        narrow.paths[1].mtu,
        start.elapsed()
    );
    assert_eq!(narrow.paths[0].mtu, full);
    let inner = Side::B.inner_v4();
    for flow in [Iperf::tcp(inner, 2), Iperf::tcp(inner, 2).reverse()] {
        let mbps = flow.run(&tunnel.hosts.a, &tunnel.hosts.b).intervals_mbps;
        assert!(mbps.iter().all(|mbps| *mbps > 1.0), "{mbps:?}");
    }
}

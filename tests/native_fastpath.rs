//! Random data both ways at once over four paths, and the same bytes out as in: with super-packets and
//! trains and without, over links that keep everything in order and over links that do not.

use std::hash::{DefaultHasher, Hasher as _};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use net::settings::Side;
use net::{Family, Hosts, Link, Namespace, Random, Settings, Shape, Tunnel};

const PATHS: usize = 4;
/// Bytes written and hashed at a time.
const CHUNK: usize = 1 << 16;
/// No byte for this long is the end of a connection that ought to go on.
const PATIENCE: Duration = Duration::from_secs(20);

const MIB: usize = 1 << 20;

/// Writes so many random bytes, and returns their hash.
fn write(mut stream: &TcpStream, seed: u64, bytes: usize) -> u64 {
    let (mut random, mut hash) = (Random(seed), DefaultHasher::new());
    let mut chunk = vec![0; CHUNK];
    for _ in 0..bytes / CHUNK {
        random.fill(&mut chunk);
        hash.write(&chunk);
        stream.write_all(&chunk).expect("the peer takes the data");
    }
    hash.finish()
}

/// Reads so many bytes, and returns their hash.
fn read(mut stream: &TcpStream, bytes: usize) -> u64 {
    let mut hash = DefaultHasher::new();
    let mut chunk = vec![0; CHUNK];
    for _ in 0..bytes / CHUNK {
        stream.read_exact(&mut chunk).expect("all of the data");
        hash.write(&chunk);
    }
    hash.finish()
}

/// Sends so many bytes through the tunnel in each direction at once, and compares hashes.
fn exchange(what: &str, tunnel: &Tunnel, bytes: usize) {
    let at: SocketAddr = format!("{}:7000", Side::B.inner_v4())
        .parse()
        .expect("an address");
    let listener = tunnel
        .hosts
        .b
        .inside(|| TcpListener::bind(at))
        .expect("a port");
    let client = tunnel
        .hosts
        .a
        .inside(|| TcpStream::connect_timeout(&at, PATIENCE));
    let client = client.expect("a connection");
    let (server, _) = listener.accept().expect("the connection");
    for stream in [&client, &server] {
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
    }
    let begun = Instant::now();
    let (there, back) = std::thread::scope(|scope| {
        let there = [
            scope.spawn(|| write(&client, 11, bytes)),
            scope.spawn(|| read(&server, bytes)),
        ];
        let back = [
            scope.spawn(|| write(&server, 22, bytes)),
            scope.spawn(|| read(&client, bytes)),
        ];
        let join = |ends: [std::thread::ScopedJoinHandle<'_, u64>; 2]| {
            ends.map(|end| end.join().expect("the connection holds"))
        };
        (join(there), join(back))
    });
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{what}: {} MiB each way in {seconds:.1} s, {:.2} Gbit/s together",
        bytes / MIB,
        bytes as f64 * 16.0 / seconds / 1e9
    );
    assert_eq!(there[0], there[1], "from A to B");
    assert_eq!(back[0], back[1], "from B to A");
}

fn settings(offload: &str) -> Settings {
    Settings::new().tunnel(&format!("offload = \"{offload}\""))
}

/// What was asked for is what is tried.
fn check_back_end(tunnel: &Tunnel, offload: &str) {
    let chosen = tunnel.a.status().tunnel.offload;
    let wanted = if offload == "on" { "offload" } else { "plain" };
    println!("back end: {chosen}");
    assert!(chosen.starts_with(wanted), "{chosen}");
}

/// In the lab every byte takes longer; the sizes there suffice to see that it works.
fn scaled(bytes: usize) -> usize {
    if net::in_lab() { bytes / 16 } else { bytes }
}

/// Over links that pass trains whole.
fn over_plain_links(offload: &str, bytes: usize) {
    let Some(_turn) = net::turn() else { return };
    let hosts = Hosts::new(&std::array::from_fn::<_, PATHS, _>(|_| Shape::unshaped()));
    for host in [&hosts.a, &hosts.b] {
        for link in &hosts.links {
            let device = &link.device;
            host.run(&format!("ethtool -K {device} tx on tso on gso on gro on"));
        }
    }
    let tunnel = hosts.tunnel(&settings(offload));
    check_back_end(&tunnel, offload);
    exchange(&format!("offload {offload}"), &tunnel, scaled(bytes));
}

#[test]
fn data_each_way_with_offload() {
    over_plain_links("on", 256 * MIB);
}

#[test]
fn data_each_way_without_offload() {
    over_plain_links("off", 256 * MIB);
}

/// Every path leads through a relay that changes the order and doubles one datagram in a hundred.
struct Disorder {
    stop: Arc<AtomicBool>,
    /// Datagrams that went on twice.
    doubled: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
    /// They hold the far ends of the links.
    namespaces: [Namespace; 2],
}

/// How many datagrams a relay holds, of which it sends any.
const HELD: usize = 8;
/// One datagram in so many goes on twice.
const DOUBLED: usize = 100;
/// When nothing comes for this long, what is held goes on.
const RELAY_IDLE: Duration = Duration::from_millis(2);

impl Disorder {
    /// Two hosts with such paths. To A the relay is B, and to B it is A: it has a namespace on each
    /// side, with the other host's addresses.
    fn between_hosts() -> (Hosts, Disorder) {
        let [a, left, right, b] = ["a", "left", "right", "b"].map(Namespace::new);
        let mut links = Vec::new();
        let mut disorder = Disorder {
            stop: Arc::default(),
            doubled: Arc::default(),
            threads: Vec::new(),
            namespaces: [left, right],
        };
        let [left, right] = &disorder.namespaces;
        for index in 0..PATHS {
            let link = Link::lay(&a, left, index, Family::V4, &Shape::unshaped());
            let _far = Link::lay(right, &b, index, Family::V4, &Shape::unshaped());
            let [to_a, to_b] = [&link.address_a, &link.address_b].map(|address| {
                format!("{address}:4754")
                    .parse::<SocketAddr>()
                    .expect("an address")
            });
            let open = |host: &Namespace, at| host.inside(|| UdpSocket::bind(at)).expect("a port");
            let (left, right) = (Arc::new(open(left, to_b)), Arc::new(open(right, to_a)));
            for (from, by, to) in [(&left, &right, to_b), (&right, &left, to_a)] {
                let (from, by) = (from.clone(), by.clone());
                let (stop, doubled) = (disorder.stop.clone(), disorder.doubled.clone());
                let random = Random(1 + disorder.threads.len() as u64);
                let relay = move || relay(&from, &by, to, random, &stop, &doubled);
                disorder.threads.push(std::thread::spawn(relay));
            }
            links.push(link);
        }
        (Hosts { links, a, b }, disorder)
    }
}

impl Drop for Disorder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// One direction of one path.
fn relay(
    from: &UdpSocket,
    by: &UdpSocket,
    to: SocketAddr,
    mut random: Random,
    stop: &AtomicBool,
    doubled: &AtomicU64,
) {
    from.set_read_timeout(Some(RELAY_IDLE)).expect("a timeout");
    let mut held: Vec<Vec<u8>> = Vec::new();
    let mut datagram = vec![0; 2048];
    // An error is an unreachable port: the daemon there has not begun, or has ended.
    let send = |datagram: Vec<u8>| drop(by.send_to(&datagram, to));
    while !stop.load(Ordering::Relaxed) {
        match from.recv(&mut datagram) {
            Ok(len) => {
                if random.below(DOUBLED) == 0 {
                    held.push(datagram[..len].to_vec());
                    doubled.fetch_add(1, Ordering::Relaxed);
                }
                held.push(datagram[..len].to_vec());
                while held.len() > HELD {
                    send(held.swap_remove(random.below(held.len())));
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                while !held.is_empty() {
                    send(held.swap_remove(random.below(held.len())));
                }
            }
            Err(_) => {}
        }
    }
}

fn over_disorder(offload: &str, bytes: usize) {
    let Some(_turn) = net::turn() else { return };
    let (hosts, disorder) = Disorder::between_hosts();
    // Each datagram crosses by itself, and GRO at the receiver may make trains of them again.
    for host in [&hosts.a, &hosts.b] {
        for link in &hosts.links {
            host.run(&format!("ethtool -K {} gro on", link.device));
        }
    }
    let tunnel = hosts.tunnel(&settings(offload));
    check_back_end(&tunnel, offload);
    exchange(
        &format!("disorder, offload {offload}"),
        &tunnel,
        scaled(bytes),
    );
    let doubled = disorder.doubled.load(Ordering::Relaxed);
    for daemon in [&tunnel.a, &tunnel.b] {
        let reorder = daemon.status().reorder;
        println!(
            "  reordered {}, late {}, duplicates dropped {}",
            reorder.reordered, reorder.late, reorder.duplicates
        );
        assert!(reorder.reordered > 1000, "{reorder:?}");
        assert!(reorder.duplicates > doubled / 10, "{reorder:?}");
    }
}

#[test]
fn data_each_way_with_offload_over_links_that_reorder_and_duplicate() {
    over_disorder("on", 256 * MIB);
}

#[test]
fn data_each_way_without_offload_over_links_that_reorder_and_duplicate() {
    over_disorder("off", 256 * MIB);
}

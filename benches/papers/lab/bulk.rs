//! TCP flows that send all they can, and what arrives of them over time.
//!
//! iperf3 would do, were it not for virtual time: while its two ends agree to begin and to end, a round
//! trip each, its client asks the clock in a loop, and the lab's clock hardly moves by being asked.
//! Over a second's worth of queue that takes minutes. Here a thread sends and another receives, for
//! each flow; both block, and nobody asks the clock but who has just received.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use net::{Hosts, Namespace};
use socket2::{Domain, Protocol, Socket, Type};

/// Bytes of a write and of a read.
const PIECE: usize = 128 * 1024;

/// Arrivals are counted for each of these.
pub(crate) const PART: Duration = Duration::from_millis(100);

/// Bytes that arrived in each part of the time since the start.
struct Arrivals {
    start: Instant,
    parts: Vec<AtomicU64>,
}

/// One flow under way.
struct Flow {
    ends: [TcpStream; 2],
    threads: [JoinHandle<()>; 2],
}

/// Sends `count` flows from A to `target`, an address of B, for a time; gives the megabits of payload
/// that arrived in each [`PART`] of it.
pub(crate) fn run(
    hosts: &Hosts,
    target: &str,
    congestion: &str,
    count: u32,
    time: Duration,
) -> Vec<f64> {
    let target: IpAddr = target.parse().expect("an address");
    let listener = hosts.b.inside(|| TcpListener::bind((target, 0)));
    let listener = listener.expect("an address of B");
    let to = listener.local_addr().expect("a port");
    let ends: Vec<_> = (0..count)
        .map(|_| connect(&hosts.a, &listener, to, congestion))
        .collect();
    let arrivals = Arc::new(Arrivals {
        start: Instant::now(),
        parts: (0..time.as_nanos() / PART.as_nanos())
            .map(|_| AtomicU64::new(0))
            .collect(),
    });
    let flows: Vec<Flow> = ends
        .into_iter()
        .map(|ends| start(ends, &arrivals))
        .collect();
    std::thread::sleep(time);
    for flow in flows {
        for end in &flow.ends {
            // Wakes who waits for it; the other end may have gone already.
            let _ = end.shutdown(Shutdown::Both);
        }
        for thread in flow.threads {
            thread.join().expect("a flow's thread");
        }
    }
    let bytes = arrivals.parts.iter();
    bytes
        .map(|bytes| bytes.load(Ordering::Relaxed) as f64 * 8.0 / 1e6)
        .collect()
}

/// A connection from A: its sending end and its receiving end.
fn connect(
    a: &Namespace,
    listener: &TcpListener,
    to: SocketAddr,
    congestion: &str,
) -> [TcpStream; 2] {
    let socket =
        a.inside(|| Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP)));
    let socket = socket.expect("a socket on A");
    socket
        .set_tcp_congestion(congestion.as_bytes())
        .unwrap_or_else(|error| panic!("congestion control {congestion}: {error}"));
    socket.connect(&to.into()).expect("B listens");
    let (receiving, _) = listener.accept().expect("a connection");
    [socket.into(), receiving]
}

fn start(ends: [TcpStream; 2], arrivals: &Arc<Arrivals>) -> Flow {
    let [mut sending, mut receiving] =
        [&ends[0], &ends[1]].map(|end| end.try_clone().expect("a descriptor"));
    let sender = std::thread::spawn(move || {
        let piece = vec![0; PIECE];
        while sending.write_all(&piece).is_ok() {}
    });
    let arrivals = Arc::clone(arrivals);
    let receiver = std::thread::spawn(move || {
        let mut piece = vec![0; PIECE];
        while let Ok(bytes @ 1..) = receiving.read(&mut piece) {
            let part = arrivals.start.elapsed().as_nanos() / PART.as_nanos();
            if let Some(part) = arrivals.parts.get(part as usize) {
                part.fetch_add(bytes as u64, Ordering::Relaxed);
            }
        }
    });
    Flow {
        ends,
        threads: [sender, receiver],
    }
}

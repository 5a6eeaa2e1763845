//! A generator of UDP datagrams and its counterpart, for packet rates.
//!
//! iperf3 does much for each datagram (a header with its time, a timer, select), so that it would be
//! measured and not what it sends through. Here sender and receiver make one system call for each
//! datagram and nothing else, like a plain application.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// How long nothing may come before the receiver takes it for the end.
const SILENCE: Duration = Duration::from_millis(250);
/// The receiver ends when nothing ever comes.
const PATIENCE: Duration = Duration::from_secs(5);
/// Datagrams between two looks at the clock.
const BURST: usize = 64;

/// Sends datagrams of `len` bytes as fast as they are taken.
pub(crate) fn send(to: SocketAddr, len: usize, time: Duration) {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    socket.connect(to).expect("a route");
    let datagram = vec![0x5a; len];
    let begun = Instant::now();
    while begun.elapsed() < time {
        for _ in 0..BURST {
            // A full queue or a closed port shows in what arrives.
            let _ = socket.send(&datagram);
        }
    }
}

/// Counts datagrams until they end, and prints how many came within how many nanoseconds.
pub(crate) fn receive(at: SocketAddr) {
    let socket = UdpSocket::bind(at).expect("the port");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut datagram = [0; 2048];
    let mut packets = 0u64;
    if socket.recv(&mut datagram).is_ok() {
        socket.set_read_timeout(Some(SILENCE)).expect("a timeout");
        let first = Instant::now();
        let mut last = first;
        while socket.recv(&mut datagram).is_ok() {
            packets += 1;
            last = Instant::now();
        }
        println!("{packets} {}", (last - first).as_nanos());
    } else {
        println!("0 0");
    }
}

//! The least that a userspace tunnel can do: two threads that copy packets between a TUN and a UDP
//! socket, each blocked in a read until one comes. No numbers, no paths, no batches. What a packet
//! takes through it is what the machine's wake-ups and system calls take.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use tun_tap::{Iface, Mode};

const LONGEST: usize = 65_536;

/// Copies until the process is ended.
pub(crate) fn run(tun: &str, local: SocketAddr, remote: SocketAddr) {
    let tun = Arc::new(Iface::without_packet_info(tun, Mode::Tun).expect("the TUN"));
    let socket = Arc::new(UdpSocket::bind(local).expect("the socket"));
    socket.connect(remote).expect("the peer");
    let out = std::thread::spawn({
        let (tun, socket) = (tun.clone(), socket.clone());
        move || {
            let mut bytes = vec![0; LONGEST];
            while let Ok(len) = tun.recv(&mut bytes) {
                // The peer may not be there yet.
                let _ = socket.send(&bytes[..len]);
            }
        }
    });
    let mut bytes = vec![0; LONGEST];
    while !out.is_finished() {
        if let Ok(len) = socket.recv(&mut bytes) {
            let _ = tun.send(&bytes[..len]);
        }
    }
}

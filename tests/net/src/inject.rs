//! Datagrams of any source, forged or captured, put on a link as a stranger on the way could.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::namespace::Namespace;

/// IPPROTO_RAW: what is sent is a whole IPv4 packet, its source included.
const RAW: i32 = 255;

/// Sends IPv4 packets that name any source, from one host over one device.
#[derive(Debug)]
pub struct Injector {
    socket: Socket,
}

impl Injector {
    /// An injector on `host` that sends over `device`, whatever the routes say.
    ///
    /// # Panics
    /// Without the right to open raw sockets.
    #[must_use]
    pub fn new(host: &Namespace, device: &str) -> Self {
        let socket = host.inside(|| {
            let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(RAW)))
                .expect("a raw socket");
            socket
                .bind_device(Some(device.as_bytes()))
                .expect("binding to a device");
            socket
        });
        Self { socket }
    }

    /// Sends one UDP datagram; full queues lose it, as links do.
    pub fn send_udp(&self, from: SocketAddrV4, to: SocketAddrV4, payload: &[u8]) {
        let mut packet = Vec::with_capacity(28 + payload.len());
        let length = u16::try_from(payload.len()).expect("a datagram's length");
        packet.extend([0x45, 0]);
        packet.extend((length + 28).to_be_bytes());
        // No fragmentation, 64 hops, UDP; the kernel writes the checksum.
        packet.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
        packet.extend(from.ip().octets());
        packet.extend(to.ip().octets());
        packet.extend(from.port().to_be_bytes());
        packet.extend(to.port().to_be_bytes());
        packet.extend((length + 8).to_be_bytes());
        // "No checksum", as IPv4 allows.
        packet.extend([0, 0]);
        packet.extend(payload);
        self.send_packet(*to.ip(), &packet);
    }

    /// Sends a whole IPv4 packet as it is; full queues lose it, as links do.
    pub fn send_packet(&self, to: Ipv4Addr, packet: &[u8]) {
        let _ = self
            .socket
            .send_to(packet, &SockAddr::from(SocketAddrV4::new(to, 0)));
    }
}

/// The IP packets in a capture file of an Ethernet device, as tcpdump writes it on this machine.
///
/// # Panics
/// When the file is no such capture.
#[must_use]
pub fn read_capture(file: &Path) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(file).expect("the capture file");
    assert!(bytes.len() >= 24, "an empty capture");
    let word = |at: usize| {
        let field: [u8; 4] = bytes[at..at + 4].try_into().expect("four bytes");
        u32::from_ne_bytes(field)
    };
    assert_eq!(word(20), 1, "Ethernet");
    let mut packets = Vec::new();
    let mut at = 24;
    while at + 16 <= bytes.len() {
        let length = word(at + 8) as usize;
        let Some(frame) = bytes.get(at + 16..at + 16 + length) else {
            break;
        };
        packets.push(frame[14..].to_vec());
        at += 16 + length;
    }
    packets
}

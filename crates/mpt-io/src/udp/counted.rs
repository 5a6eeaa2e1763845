//! What a path's provider counts: IP packets, both ways.
//!
//! An IP packet's bytes, its header included and the link's not, are what mobile providers and most others account, and
//! what a `wwan` device counts. An Ethernet device counts 14 bytes a packet more. Each datagram of a train is a packet
//! with headers of its own. What strangers send to the socket counts: it came over the link. What does not count: ARP,
//! neighbour discovery and ICMP, and what the socket dropped since its buffer was full.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

/// IP and UDP headers of a datagram without options, in bytes (RFC 791 §3.1, RFC 8200 §3, RFC 768).
fn headers(local: SocketAddr) -> usize {
    match local {
        SocketAddr::V4(_) => 20 + 8,
        SocketAddr::V6(_) => 40 + 8,
    }
}

/// Bytes that a path carried both ways, whatever sockets it had. Both lines add to it.
#[derive(Debug, Default)]
pub struct Counted(AtomicU64);

impl Counted {
    /// Adds `datagrams` of `bytes` altogether, which a socket at `local` sent or received.
    #[inline]
    pub fn add(&self, local: SocketAddr, datagrams: usize, bytes: usize) {
        let packets = datagrams * headers(local) + bytes;
        self.0.fetch_add(packets as u64, Ordering::Relaxed);
    }

    /// Bytes so far.
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::testing::{loopback_pairs, recv_exactly};
    use super::*;

    /// Trains that cross the kernel whole included, sent and received.
    #[test]
    fn each_datagram_counts_with_its_headers_at_both_ends() {
        for (from, to) in loopback_pairs() {
            let counted: [Arc<Counted>; 2] = Default::default();
            let [sent, received] = [0, 1].map(|at| counted[at].clone());
            let (from, to) = (from.counting(sent), to.counting(received));
            // Five datagrams, the last of which is short.
            let train = vec![7; 4 * 1000 + 300];
            let outcome = from.send_train(to.local_addr(), 0, &train, 1000);
            assert_eq!(outcome.datagrams, 5);
            recv_exactly(&to, 5);
            let headers = match to.local_addr() {
                SocketAddr::V4(_) => 28,
                SocketAddr::V6(_) => 48,
            };
            let each = counted.map(|counted| counted.bytes());
            assert_eq!(each, [4300 + 5 * headers; 2], "{from:?} {to:?}");
        }
    }
}

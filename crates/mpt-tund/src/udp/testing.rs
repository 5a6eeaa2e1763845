//! Loopback sockets for the tests of this module.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::{PathSocket, RECV_BATCH, RecvMeta};

/// The loopback addresses that this host has, any port: IPv4, and IPv6 unless it is switched off.
pub(super) fn loopbacks() -> Vec<SocketAddr> {
    ["127.0.0.1:0", "[::1]:0"]
        .into_iter()
        .map(|address| address.parse().unwrap())
        .filter(|&address| PathSocket::open(address, None).is_ok())
        .collect()
}

/// Two sockets on `local`.
pub(super) fn loopback_pair(local: SocketAddr) -> (PathSocket, PathSocket) {
    let open = || PathSocket::open(local, None).unwrap();
    (open(), open())
}

/// Exactly `count` datagrams from `socket`, within a second, and then no more.
pub(super) fn recv_exactly(socket: &PathSocket, count: usize) -> Vec<(Vec<u8>, RecvMeta)> {
    let deadline = Instant::now() + Duration::from_secs(1);
    let mut received = Vec::new();
    let mut buffers = vec![[0; 2000]; RECV_BATCH];
    let mut metas = [RecvMeta::default(); RECV_BATCH];
    while received.len() < count {
        assert!(Instant::now() < deadline, "{} came", received.len());
        let Ok(new) = socket.recv_batch(&mut buffers, &mut metas) else {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        };
        for (buffer, meta) in buffers.iter().zip(&metas[..new]) {
            received.push((buffer[..meta.len].to_vec(), *meta));
        }
    }
    assert_eq!(received.len(), count);
    received
}

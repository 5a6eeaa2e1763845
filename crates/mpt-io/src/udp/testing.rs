//! Loopback sockets for the tests of this module.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::receive::RECV_BATCH;
use super::{PathSocket, RecvMeta};
use crate::Offload;

/// The loopback addresses that this host has, any port: IPv4, and IPv6 unless it is switched off.
pub(super) fn loopbacks() -> Vec<SocketAddr> {
    ["127.0.0.1:0", "[::1]:0"]
        .into_iter()
        .map(|address| address.parse().unwrap())
        .filter(|&address| PathSocket::open(address, None, Offload::Off).is_ok())
        .collect()
}

/// Two sockets on `local` that know no trains.
pub(super) fn loopback_pair(local: SocketAddr) -> (PathSocket, PathSocket) {
    loopback_pair_with(local, Offload::Off, Offload::Off)
}

/// Two sockets on `local`: one to send, one to receive.
pub(super) fn loopback_pair_with(
    local: SocketAddr,
    from: Offload,
    to: Offload,
) -> (PathSocket, PathSocket) {
    let open = |offload| PathSocket::open(local, None, offload).unwrap();
    (open(from), open(to))
}

/// Pairs on each address, with trains sent whole or not, and received whole or not.
pub(super) fn loopback_pairs() -> Vec<(PathSocket, PathSocket)> {
    let mut pairs = Vec::new();
    for local in loopbacks() {
        for from in [Offload::Off, Offload::Auto] {
            for to in [Offload::Off, Offload::Auto] {
                pairs.push(loopback_pair_with(local, from, to));
            }
        }
    }
    pairs
}

/// Exactly `count` datagrams from `socket`, within a second, and then no more. Trains come cut, each
/// datagram with what is known of its train.
pub(super) fn recv_exactly(socket: &PathSocket, count: usize) -> Vec<(Vec<u8>, RecvMeta)> {
    let deadline = Instant::now() + Duration::from_secs(1);
    let mut received = Vec::new();
    let room = if socket.receives_trains() {
        65_536
    } else {
        2000
    };
    let mut buffers = vec![vec![0; room]; RECV_BATCH];
    let mut metas = [RecvMeta::default(); RECV_BATCH];
    while received.len() < count {
        assert!(Instant::now() < deadline, "{} came", received.len());
        let Ok(new) = socket.recv_batch(&mut buffers, &mut metas) else {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        };
        for (buffer, meta) in buffers.iter().zip(&metas[..new]) {
            let size = meta.segment_size.map_or(meta.len, usize::from).max(1);
            for datagram in buffer[..meta.len].chunks(size) {
                received.push((datagram.to_vec(), *meta));
            }
        }
    }
    assert_eq!(received.len(), count);
    received
}

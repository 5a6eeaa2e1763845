//! What sealing costs, in nanoseconds a packet: `cargo bench -p mpt-core --bench crypto`.
//!
//! Aim: sealing and opening a packet of 1400 bytes together at most 700 ns. `flood` is what an
//! initiation costs that is not worked on: 100,000 a second of them must leave a tunnel its speed.
#![allow(clippy::unwrap_used, missing_docs)]

use std::hint::black_box;
use std::net::SocketAddr;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use mpt_core::crypto::{
    CryptoConfig, DATA_HEAD_BYTES, DATA_OVERHEAD, DataSealer, KeyChange, PresharedKey, PrivateKey,
    Sender, Sessions, lay_out,
};
use mpt_core::path::{PathId, PathSet};
use mpt_core::seq::Seq;
use mpt_core::time::Time;
use mpt_core::wire::gre::Protocol;

const PACKET_BYTES: usize = 1400;

fn sender(address: SocketAddr) -> Sender {
    Sender {
        path: PathId::new(0).unwrap(),
        address,
        known: false,
    }
}

fn ends(hardware_aes: bool) -> [Sessions; 2] {
    [(1, 2), (2, 1)].map(|(own, peer)| {
        let private = |seed| PrivateKey::from_random([seed; 32]);
        let config = CryptoConfig {
            private_key: private(own),
            peer_public_key: private(peer).public_key(),
            psk: PresharedKey::none(),
            session: own.into(),
            hardware_aes,
        };
        let mut state = u64::from(own);
        let entropy = Box::new(move |out: &mut [u8]| {
            for byte in out {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                *byte = (state >> 56) as u8;
            }
        });
        Sessions::new(config, Time::ZERO, Duration::from_secs(1), entropy)
    })
}

/// Carries handshake messages until nobody has any.
fn carry(ends: &mut [Sessions; 2]) -> usize {
    let mut carried = 0;
    for from in [0, 1, 0] {
        while let Some(transmit) = ends[from].poll_transmit() {
            let message = transmit.contents[4..].to_vec();
            let at = sender(SocketAddr::from(([192, 0, 2, from as u8], 4754)));
            let _ = ends[1 - from].handle_message(Time::ZERO, at, &message);
            carried += 1;
        }
    }
    carried
}

/// The sealer of one end and the other end.
fn established(hardware_aes: bool) -> (Box<DataSealer>, Sessions) {
    let mut ends = ends(hardware_aes);
    ends[0].set_paths(PathSet::from_bits(1));
    ends[0].handle_timeout(Time::ZERO);
    assert_eq!(carry(&mut ends), 2);
    let [mut a, b] = ends;
    match a.poll_keys() {
        Some(KeyChange::Use(sealer)) => (sealer, b),
        Some(KeyChange::Stop) | None => panic!("no session"),
    }
}

fn seal(sealer: &mut DataSealer, number: u64, datagram: &mut [u8]) {
    let sequence = Seq::new(number as u32);
    lay_out(Some(sequence), Protocol::Ipv4, datagram);
    sealer.seal(number, black_box(datagram)).unwrap();
}

fn packets(c: &mut Criterion) {
    for (name, aes) in [("aes_256_gcm", true), ("chacha20_poly1305", false)] {
        let mut group = c.benchmark_group(name);
        group.throughput(Throughput::Bytes(PACKET_BYTES as u64));
        let (mut sealer, mut opener) = established(aes);
        let mut datagram = vec![0; DATA_OVERHEAD + PACKET_BYTES];
        datagram[DATA_HEAD_BYTES] = 0x45;
        let mut number = 0;
        group.bench_function("seal", |b| {
            b.iter(|| {
                number += 1;
                seal(&mut sealer, number, &mut datagram);
            });
        });
        group.bench_function("seal_open", |b| {
            b.iter(|| {
                number += 1;
                seal(&mut sealer, number, &mut datagram);
                opener.open(Time::ZERO, black_box(&mut datagram)).unwrap()
            });
        });
        datagram[20] ^= 1;
        group.bench_function("forged", |b| {
            b.iter(|| {
                opener
                    .open(Time::ZERO, black_box(&mut datagram))
                    .unwrap_err()
            });
        });
        group.finish();
    }
}

fn handshakes(c: &mut Criterion) {
    c.bench_function("handshake", |b| {
        let start = || {
            let mut ends = ends(true);
            ends[0].set_paths(PathSet::from_bits(1));
            ends
        };
        let whole = |mut ends: [Sessions; 2]| {
            ends[0].handle_timeout(Time::ZERO);
            carry(&mut ends);
            ends
        };
        b.iter_batched(start, whole, BatchSize::SmallInput);
    });
    let mut ends = ends(true);
    ends[0].set_paths(PathSet::from_bits(1));
    ends[0].handle_timeout(Time::ZERO);
    let own = ends[0].poll_transmit().unwrap().contents[4..].to_vec();
    let mut n = 0u32;
    let mut flood = |c: &mut Criterion, name: &str, message: &[u8]| {
        c.bench_function(name, |b| {
            b.iter(|| {
                n = n.wrapping_add(1);
                let at = SocketAddr::from((n.to_be_bytes(), 4754));
                let _ = ends[1].handle_message(Time::ZERO, sender(at), black_box(message));
                while ends[1].poll_transmit().is_some() {}
            });
        });
    };
    // The peer's own, copied: the first is answered and the others get what is left of the budget.
    flood(c, "flood/copy", &own);
    let mut other = own.clone();
    other[150] ^= 1;
    other[10] ^= 1;
    flood(c, "flood/bad_mac", &other);
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    targets = packets, handshakes
}
criterion_main!(benches);

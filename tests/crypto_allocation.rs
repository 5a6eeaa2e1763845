//! Sealing and opening take no memory: a packet costs nothing but arithmetic, whether it is the
//! peer's or not.

#![allow(clippy::unwrap_used, reason = "a test ends by a panic")]

use std::net::SocketAddr;
use std::time::Duration;

use allocation_counter::measure;
use mpt_core::crypto::{
    CONTROL_OVERHEAD, CryptoConfig, DATA_HEAD_BYTES, DATA_OVERHEAD, DataSealer, KeyChange,
    PresharedKey, PrivateKey, Sender, Sessions, lay_out,
};
use mpt_core::path::{PathId, PathSet};
use mpt_core::seq::Seq;
use mpt_core::time::Time;
use mpt_core::wire::gre::Protocol;

const PACKET_BYTES: usize = 1400;

fn end(own: u8, peer: u8, hardware_aes: bool) -> Sessions {
    let private = |seed| PrivateKey::from_random([seed; 32]);
    let config = CryptoConfig {
        private_key: private(own),
        peer_public_key: private(peer).public_key(),
        psk: PresharedKey::none(),
        session: own.into(),
        hardware_aes,
    };
    let mut state = own;
    let entropy = Box::new(move |out: &mut [u8]| {
        for byte in out {
            state = state.wrapping_mul(5).wrapping_add(1);
            *byte = state;
        }
    });
    Sessions::new(config, Time::ZERO, Duration::from_secs(1), entropy)
}

/// Carries handshake messages from one end to the other.
fn carry(from: &mut Sessions, to: &mut Sessions) {
    let sender = Sender {
        path: PathId::new(0).unwrap(),
        address: SocketAddr::from(([192, 0, 2, 1], 4754)),
        known: true,
    };
    while let Some(transmit) = from.poll_transmit() {
        let message = &transmit.contents[4..];
        to.handle_message(Time::ZERO, sender, message).unwrap();
    }
}

/// The end that initiated with what seals its data, and the other end.
fn established(hardware_aes: bool) -> (Sessions, Box<DataSealer>, Sessions) {
    let (mut a, mut b) = (end(1, 2, hardware_aes), end(2, 1, hardware_aes));
    a.set_paths(PathSet::from_bits(1));
    a.handle_timeout(Time::ZERO);
    carry(&mut a, &mut b);
    carry(&mut b, &mut a);
    match a.poll_keys() {
        Some(KeyChange::Use(sealer)) => (a, sealer, b),
        Some(KeyChange::Stop) | None => panic!("no session"),
    }
}

fn seal(sealer: &mut DataSealer, number: u64, datagram: &mut [u8]) {
    let sequence = (number % 3 != 1).then_some(Seq::new(number as u32));
    lay_out(sequence, Protocol::Ipv4, datagram);
    sealer.seal(number, datagram).unwrap();
}

#[test]
fn no_allocation_while_packets_are_sealed_and_opened() {
    for hardware_aes in [true, false] {
        let (mut a, mut sealer, mut b) = established(hardware_aes);
        let mut datagram = [0; DATA_OVERHEAD + PACKET_BYTES];
        let mut copy = datagram;
        let mut message = [0; CONTROL_OVERHEAD + 92];
        let mut round = |number| {
            datagram[DATA_HEAD_BYTES] = 0x45;
            seal(&mut sealer, number, &mut datagram);
            copy.copy_from_slice(&datagram);
            b.open(Time::ZERO, &mut copy).unwrap();
            copy.copy_from_slice(&datagram);
            let _ = b.open(Time::ZERO, &mut copy);
            datagram[8] ^= 1;
            b.open(Time::ZERO, &mut datagram).unwrap_err();
            let len = a
                .seal_control(PathId::new(0).unwrap(), Some(0), &[1; 92], &mut message)
                .unwrap();
            b.open(Time::ZERO, &mut message[..len]).unwrap();
            b.set_next_number(number);
        };
        // The first one confirms the session, and the first of each kind of number takes the memory of its window.
        (0..2).for_each(&mut round);
        let used = measure(|| (2..10_000).for_each(&mut round));
        assert_eq!(used.count_total, 0);
    }
}

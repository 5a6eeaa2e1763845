//! Whether what is done with secrets takes a time that depends on them: `cargo bench -p mpt-core --bench constant_time`.
//!
//! As dudect does it (Reparaz, Balasch, Verbauwhede: "Dude, is my code constant time?", DATE 2017): two kinds of input,
//! in random order, each run timed; the slowest tenth is cut off; Welch's t-test says whether the two differ.
//! |t| above 4.5 is a difference, below it none was seen. Reported, not asserted: a busy machine blurs times.
//! The first line is a comparison that stops at the first difference, which the test has to see.
#![allow(clippy::unwrap_used, missing_docs)]

use std::hint::black_box;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use blake2::digest::consts::U16;
use blake2::digest::{KeyInit, Mac};
use blake2::{Blake2s256, Blake2sMac, Digest};
use mpt_core::crypto::{
    CryptoConfig, INITIATION_BYTES, PresharedKey, PrivateKey, Sender, Sessions,
};
use mpt_core::path::{PathId, PathSet};
use mpt_core::time::Time;
use mpt_core::wire::kind::Kind;

/// |t| from which on the two kinds differ.
const DIFFERENT: f64 = 4.5;
/// Runs of each kind; `MPT_BENCH_RUNS` changes it.
const RUNS: usize = 200_000;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

/// Times `run` with inputs of the two kinds.
fn compare<T>(name: &str, mut make: impl FnMut(usize) -> T, mut run: impl FnMut(&mut T)) {
    let runs = std::env::var("MPT_BENCH_RUNS").ok();
    let runs = runs.and_then(|runs| runs.parse().ok()).unwrap_or(RUNS);
    let mut random = Random(0x6475_6465_6374);
    let mut times: [Vec<f64>; 2] = Default::default();
    for n in 0..2 * runs + 1000 {
        let kind = (random.next() >> 63) as usize;
        let mut input = black_box(make(kind));
        let start = Instant::now();
        run(&mut input);
        let taken = start.elapsed();
        black_box(input);
        // The first warm everything up.
        if n >= 1000 {
            times[kind].push(taken.as_nanos() as f64);
        }
    }
    let mut all: Vec<f64> = times.iter().flatten().copied().collect();
    all.sort_by(f64::total_cmp);
    let limit = all[all.len() * 9 / 10];
    let [first, second] = times.map(|times| {
        let kept: Vec<f64> = times.into_iter().filter(|time| *time <= limit).collect();
        let count = kept.len() as f64;
        let mean = kept.iter().sum::<f64>() / count;
        let variance = kept.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / (count - 1.0);
        (mean, variance / count)
    });
    let t = (first.0 - second.0) / (first.1 + second.1).sqrt();
    let said = if t.abs() > DIFFERENT {
        "DIFFERENT"
    } else {
        "no difference seen"
    };
    println!(
        "{name:<34} {:>8.1} ns {:>8.1} ns   t = {t:>8.2}   {said}",
        first.0, second.0
    );
}

fn private(seed: u8) -> PrivateKey {
    PrivateKey::from_random([seed; 32])
}

fn end(own: u8, peer: u8) -> Sessions {
    let config = CryptoConfig {
        private_key: private(own),
        peer_public_key: private(peer).public_key(),
        psk: PresharedKey::none(),
        session: own.into(),
        hardware_aes: true,
    };
    let mut random = Random(u64::from(own));
    let entropy = Box::new(move |out: &mut [u8]| out.fill_with(|| random.next() as u8));
    Sessions::new(config, Time::ZERO, Duration::from_secs(1), entropy)
}

fn sender() -> Sender {
    Sender {
        path: PathId::new(0).unwrap(),
        address: SocketAddr::from(([192, 0, 2, 1], 4754)),
        known: false,
    }
}

/// An initiation with a right mac1, whose Noise message does not open.
fn initiation() -> [u8; INITIATION_BYTES] {
    let mut message = [0; INITIATION_BYTES];
    message[0] = Kind::Initiation as u8;
    message[4] = 9;
    let mut public = [0; 32];
    use base64ct::{Base64, Encoding as _};
    Base64::decode(private(2).public_key().to_string(), &mut public).unwrap();
    let key = Blake2s256::new()
        .chain_update(b"mpt mac1")
        .chain_update(public)
        .finalize();
    let mac = Blake2sMac::<U16>::new_from_slice(&key).unwrap();
    let mac1 = mac.chain_update(&message[..136]).finalize().into_bytes();
    message[136..152].copy_from_slice(&mac1);
    message
}

fn main() {
    println!("{:<34} {:>11} {:>11}", "", "first kind", "second");
    let secret = [7_u8; 256];
    compare(
        "a comparison that stops (visible)",
        |kind| {
            let mut guess = secret;
            guess[[0, 255][kind]] ^= 1;
            guess
        },
        |guess| {
            let same = guess.iter().zip(black_box(&secret)).all(|(a, b)| a == b);
            black_box(same);
        },
    );

    // Wrong in the first byte or in the last.
    let right = initiation();
    let mut b = end(2, 1);
    compare(
        "mac1",
        |kind| {
            let mut message = right;
            message[[136, 151][kind]] ^= 1;
            message
        },
        |message| {
            let _ = black_box(b.handle_message(Time::ZERO, sender(), message));
        },
    );
    // Under load: what may be worked on and answered is used up, and time stands still.
    for _ in 0..2000 {
        let _ = b.handle_message(Time::ZERO, sender(), &right);
        while b.poll_transmit().is_some() {}
    }
    compare(
        "mac2, against the cookie",
        |kind| {
            let mut message = right;
            message[152..].fill(3);
            message[[152, 167][kind]] ^= 1;
            message
        },
        |message| {
            let _ = black_box(b.handle_message(Time::ZERO, sender(), message));
        },
    );

    let mut ends = [end(1, 2), end(2, 1)];
    ends[0].set_paths(PathSet::from_bits(1));
    ends[0].handle_timeout(Time::ZERO);
    for from in [0, 1] {
        while let Some(next) = ends[from].poll_transmit() {
            let message = next.contents[4..].to_vec();
            ends[1 - from]
                .handle_message(Time::ZERO, sender(), &message)
                .unwrap();
        }
    }
    let path = PathId::new(0).unwrap();
    let mut sealed = [0; 128];
    let len = ends[0]
        .seal_control(path, None, &[5; 92], &mut sealed)
        .unwrap();
    let [_, mut opening] = ends;
    compare(
        "tag of a control message",
        |kind| {
            let mut datagram = sealed;
            datagram[[len - 16, len - 1][kind]] ^= 1;
            datagram
        },
        |datagram| {
            let _ = black_box(opening.open(Time::ZERO, &mut datagram[..len]));
        },
    );
    compare(
        "code of an address",
        |kind| {
            let code = opening.code(Time::ZERO, [path; 2], sender().address);
            [code ^ 1 << 63, code ^ 1][kind]
        },
        |code| {
            black_box(opening.is_code(Time::ZERO, [path; 2], sender().address, *code));
        },
    );
    // Both kinds are made by the same steps, so that caches are as warm for either.
    let mut random = Random(9);
    let mut key = |kind: usize| {
        let bytes = std::array::from_fn(|_| random.next() as u8);
        PresharedKey::from_random([[0; 32], bytes][kind])
    };
    compare(
        "key from base64: zeros, or random",
        |kind| key(kind).to_base64(),
        |text| {
            let _ = black_box(PresharedKey::from_base64(text));
        },
    );
    compare("key to base64: zeros, or random", &mut key, |key| {
        black_box(key.to_base64());
    });
}

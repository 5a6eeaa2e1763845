//! Two ends over a link that delays, loses and repeats, in virtual time.

pub(super) mod hostile;

use std::net::SocketAddr;

use proptest::prelude::*;

use super::*;
use crate::crypto::mac::Addressee;
use crate::crypto::{
    CONTROL_OVERHEAD, DATA_HEAD_BYTES, DATA_OVERHEAD, INITIATION_BYTES, KEY_BYTES, PresharedKey,
    PrivateKey, lay_out,
};
use crate::path::PathId;
use crate::seq::Seq;
use crate::wire::gre::Protocol;
use crate::wire::kind::Kind;

pub(super) const WALL: Duration = Duration::from_secs(1_700_000_000);
const PATHS: usize = 2;

/// xorshift64*: which stream it is, the seed says.
pub(super) fn entropy(seed: u64) -> Entropy {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    Box::new(move |out| {
        for byte in out {
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            *byte = (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 56) as u8;
        }
    })
}

fn private(end: usize) -> PrivateKey {
    PrivateKey::from_random([end as u8 + 1; KEY_BYTES])
}

pub(super) fn config(end: usize) -> CryptoConfig {
    CryptoConfig {
        private_key: private(end),
        peer_public_key: private(1 - end).public_key(),
        psk: PresharedKey::from_random([9; KEY_BYTES]),
        session: end as u64 + 1,
        hardware_aes: true,
    }
}

pub(super) fn address(end: usize) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, end as u8], 4754))
}

pub(super) fn path(index: usize) -> PathId {
    PathId::new(index).unwrap()
}

pub(super) fn sender(end: usize) -> Sender {
    Sender {
        path: path(0),
        address: address(end),
        known: true,
    }
}

/// One end, what it sends and what came of what it received.
struct Peer {
    sessions: Sessions,
    data: Option<Box<DataSealer>>,
    next_number: u64,
    next_probe: Time,
    established: Vec<(Time, u64)>,
    /// Messages and data that opened, by the session.
    opened: Vec<(Time, u64)>,
    refused: Vec<OpenError>,
}

struct Link {
    random: Entropy,
    /// In 256ths.
    loss: u8,
    least_delay: Duration,
    /// Delay by chance on top.
    jitter: Duration,
}

struct World {
    now: Time,
    ends: [Option<Peer>; 2],
    link: Link,
    under_way: Vec<(Time, usize, usize, Vec<u8>)>,
    probe_every: Duration,
    seed: u64,
}

impl Peer {
    fn new(config: CryptoConfig, now: Time, wall: Duration, seed: u64) -> Peer {
        let mut sessions = Sessions::new(config, now, wall, entropy(seed));
        sessions.set_paths(PathSet::from_bits((1 << PATHS) - 1));
        Peer {
            sessions,
            data: None,
            next_number: 0,
            next_probe: now,
            established: Vec::new(),
            opened: Vec::new(),
            refused: Vec::new(),
        }
    }

    /// A probe and a data packet, sealed, if there are keys.
    fn probe(&mut self) -> Vec<Vec<u8>> {
        let mut out = [0; 64];
        let mut sent = Vec::new();
        if let Some(len) = self
            .sessions
            .seal_control(path(0), None, b"probe", &mut out)
        {
            sent.push(out[..len].to_vec());
        }
        if let Some(sealer) = &mut self.data {
            let mut out = vec![0; DATA_OVERHEAD + 4];
            let low = self.next_number as u32;
            lay_out(Some(Seq::new(low)), Protocol::Ipv4, &mut out);
            out[DATA_HEAD_BYTES..][..4].copy_from_slice(&low.to_be_bytes());
            sealer.seal(self.next_number, &mut out).unwrap();
            self.next_number += 1;
            self.sessions.set_next_number(self.next_number);
            sent.push(out);
        }
        sent
    }

    fn receive(&mut self, now: Time, from: usize, path: usize, mut bytes: Vec<u8>) {
        if let Some(message) = bytes.strip_prefix(&[0, 0, 0x88, 0xb5]) {
            let sender = Sender {
                path: PathId::new(path).unwrap(),
                ..sender(from)
            };
            let _ = self.sessions.handle_message(now, sender, message);
            return;
        }
        match self.sessions.open(now, &mut bytes) {
            Ok(Opened::Control { session, .. }) => self.opened.push((now, session)),
            Ok(Opened::Data {
                session,
                number: Some(number),
                packet,
                ..
            }) => {
                assert_eq!(bytes[packet], (number as u32).to_be_bytes());
                self.opened.push((now, session));
            }
            Ok(other @ (Opened::Data { .. } | Opened::Copy { .. })) => panic!("{other:?}"),
            Err(why) => self.refused.push(why),
        }
    }
}

impl World {
    fn new(link: Link, seed: u64) -> World {
        World {
            now: Time::from_nanos(1_000_000_000),
            ends: [None, None],
            link,
            under_way: Vec::new(),
            probe_every: Duration::from_millis(200),
            seed,
        }
    }

    fn start(&mut self, end: usize) {
        self.start_as(end, config(end), WALL);
    }

    fn start_as(&mut self, end: usize, config: CryptoConfig, wall: Duration) {
        self.seed += 1;
        let wall = wall + self.now.since(Time::ZERO);
        self.ends[end] = Some(Peer::new(config, self.now, wall, self.seed));
    }

    fn end(&mut self, end: usize) -> &mut Peer {
        self.ends[end].as_mut().unwrap()
    }

    fn send(&mut self, from: usize, path: usize, bytes: Vec<u8>) {
        let mut chance = [0; 3];
        (self.link.random)(&mut chance);
        if chance[0] >= self.link.loss {
            let part = u32::from(chance[1]) << 8 | u32::from(chance[2]);
            let delay = self.link.least_delay + self.link.jitter * part / 65_536;
            self.under_way
                .push((self.now + delay, 1 - from, path, bytes));
        }
    }

    /// Takes what an end has, and does what it asks for.
    fn settle(&mut self, end: usize) {
        let mut sent = Vec::new();
        let now = self.now;
        let Some(peer) = &mut self.ends[end] else {
            return;
        };
        if peer.sessions.poll_timeout().is_some_and(|at| at <= now) {
            peer.sessions.handle_timeout(now);
            let again = peer.sessions.poll_timeout();
            assert!(again.is_none_or(|at| at > now), "would be called forever");
        }
        match peer.sessions.poll_keys() {
            Some(KeyChange::Use(sealer)) => peer.data = Some(sealer),
            Some(KeyChange::Stop) => peer.data = None,
            None => {}
        }
        while let Some(event) = peer.sessions.poll_event() {
            if let SessionEvent::Established { session, .. } = event {
                peer.established.push((now, session));
                peer.next_probe = now;
            }
        }
        if peer.next_probe <= now {
            peer.next_probe = now + self.probe_every;
            let at = peer.next_number as usize % PATHS;
            sent.extend(peer.probe().into_iter().map(|bytes| (at, bytes)));
        }
        while let Some(transmit) = peer.sessions.poll_transmit() {
            sent.push((transmit.path.index(), transmit.contents.to_vec()));
        }
        for (path, bytes) in sent {
            self.send(end, path, bytes);
        }
    }

    fn run(&mut self, span: Duration) {
        let end = self.now + span;
        for _ in 0..10_000_000 {
            self.settle(0);
            self.settle(1);
            let arrivals = self.under_way.iter().map(|(at, ..)| *at);
            let peers = self.ends.iter().flatten();
            let timeouts = peers.flat_map(|peer| {
                [Some(peer.next_probe), peer.sessions.poll_timeout()]
                    .into_iter()
                    .flatten()
            });
            let next = arrivals.chain(timeouts).min().unwrap_or(end);
            if next > end {
                self.now = end;
                return;
            }
            self.now = self.now.max(next);
            let (now, mut due) = (self.now, Vec::new());
            self.under_way.retain(|arrival| {
                let arrived = arrival.0 <= now;
                due.extend(arrived.then(|| arrival.clone()));
                !arrived
            });
            for (_, to, path, bytes) in due {
                if let Some(peer) = &mut self.ends[to] {
                    peer.receive(now, 1 - to, path, bytes);
                }
            }
        }
        panic!("it does not come to an end");
    }

    /// Both ends open what the other seals, now.
    fn assert_in_common(&mut self) {
        self.link.loss = 0;
        for end in [0, 1] {
            self.end(end).opened.clear();
        }
        self.run(Duration::from_millis(1500));
        for end in [0, 1] {
            assert!(self.end(end).opened.len() >= 2, "end {end} opens nothing");
        }
    }
}

fn clean() -> Link {
    Link {
        random: entropy(1),
        loss: 0,
        least_delay: Duration::from_millis(20),
        jitter: Duration::ZERO,
    }
}

fn both(link: Link) -> World {
    let mut world = World::new(link, 100);
    world.start(0);
    world.start(1);
    world
}

#[test]
fn one_round_trip_and_packets_go() {
    let mut world = World::new(clean(), 1);
    world.start(1);
    world.end(1).sessions.set_paths(PathSet::EMPTY); // waits to be called
    world.start(0);
    let start = world.now;
    world.run(Duration::from_millis(100));
    let rtt = Duration::from_millis(40);
    assert_eq!(world.end(0).established, [(start + rtt, 1)]);
    assert_eq!(world.end(1).established, [(start + rtt * 3 / 2, 1)]);
    assert!(world.end(0).opened.len() >= 2 && world.end(1).opened.len() >= 2);
    assert_eq!(world.end(0).sessions.protection(), Protection::Aes256Gcm);
}

#[test]
fn both_may_begin_at_once() {
    let mut world = both(clean());
    world.run(Duration::from_secs(100));
    for end in [0, 1] {
        let peer = world.end(end);
        assert!((1..=2).contains(&peer.established.len()));
        assert!(peer.refused.is_empty(), "{:?}", peer.refused);
        assert!(peer.opened.len() > 900, "{}", peer.opened.len());
    }
}

/// Both begin at once, so that each end sends in a session that the other began. Still it is one end's turn to
/// begin the next, and only one's.
#[test]
fn new_keys_come_after_two_minutes_whoever_began() {
    for seed in 0..20 {
        let mut world = World::new(clean(), 10 * seed);
        world.start(0);
        world.start(1);
        let start = world.now;
        world.run(Duration::from_secs(2 * 130));
        for end in [0, 1] {
            let established = &world.end(end).established;
            let ages = established.iter().map(|(at, _)| at.since(start).as_secs());
            let ages: Vec<_> = ages.skip_while(|age| *age == 0).collect();
            assert_eq!(ages, [120, 240], "end {end}, seed {seed}");
        }
    }
}

#[test]
fn rekeying_loses_no_packet() {
    let mut world = both(Link {
        jitter: Duration::from_millis(400),
        ..clean()
    });
    world.probe_every = Duration::from_millis(50);
    world.run(Duration::from_secs(3600));
    for end in [0, 1] {
        let sent = world.end(1 - end).next_number;
        let peer = world.end(end);
        // What is under way at the end has not come.
        assert!(peer.opened.len() as u64 + 40 > 2 * sent);
        assert!(peer.refused.is_empty(), "{:?}", peer.refused);
        let sessions = peer.established.len();
        assert!((30..=33).contains(&sessions), "{sessions} in an hour");
    }
}

#[test]
fn either_end_may_restart() {
    for end in [0, 1] {
        let mut world = both(clean());
        world.run(Duration::from_secs(10));
        world.start(end);
        let restarted = world.now;
        world.run(Duration::from_millis(1000));
        for end in [0, 1] {
            let peer = world.end(end);
            let (at, _) = *peer.established.last().unwrap();
            assert!(at >= restarted && at <= restarted + Duration::from_millis(100));
        }
        world.assert_in_common();
    }
}

#[test]
fn an_end_that_nobody_can_call_is_found_again() {
    let mut world = both(clean());
    world.run(Duration::from_secs(10));
    world.start(1);
    world.end(1).sessions.set_paths(PathSet::EMPTY);
    let restarted = world.now;
    world.run(Duration::from_millis(1000));
    let (at, _) = *world.end(0).established.last().unwrap();
    assert!(at <= restarted + SILENCE + Duration::from_millis(100));
    world.assert_in_common();
}

#[test]
fn a_clock_that_went_back_does_not_lock_an_end_out() {
    let mut world = both(clean());
    world.run(Duration::from_secs(10));
    world.start_as(0, config(0), Duration::from_secs(1000));
    world.run(Duration::from_millis(1000));
    world.assert_in_common();
}

#[test]
fn keys_end_when_the_peer_is_gone() {
    let mut world = both(clean());
    world.run(Duration::from_secs(10));
    world.ends[1] = None;
    world.run(Duration::from_secs(171));
    let gone = world.end(0);
    assert!(gone.data.is_none() && gone.sessions.sessions.iter().all(Option::is_none));
    assert_eq!(gone.sessions.protection(), Protection::Waiting);
    world.start(1);
    world.run(Duration::from_secs(1));
    world.assert_in_common();
}

#[test]
fn old_keys_go_a_few_seconds_after_the_last_packet() {
    let mut world = both(clean());
    world.run(Duration::from_secs(150));
    for end in [0, 1] {
        let held = &world.end(end).sessions.sessions;
        let held: Vec<_> = held.iter().flatten().map(|held| held.number).collect();
        assert_eq!(held.len(), 1, "{held:?}");
    }
}

#[test]
fn the_cipher_is_aes_where_both_have_it() {
    for (a, b, protection) in [
        (true, true, Protection::Aes256Gcm),
        (true, false, Protection::ChaCha20Poly1305),
        (false, true, Protection::ChaCha20Poly1305),
    ] {
        let mut world = World::new(clean(), 7);
        for (end, hardware_aes) in [(0, a), (1, b)] {
            let config = CryptoConfig {
                hardware_aes,
                ..config(end)
            };
            world.start_as(end, config, WALL);
        }
        world.run(Duration::from_millis(200));
        for end in [0, 1] {
            assert_eq!(world.end(end).sessions.protection(), protection);
        }
    }
}

#[test]
fn who_has_another_key_gets_no_session() {
    let other = || PrivateKey::from_random([77; KEY_BYTES]);
    for change in [
        |config: &mut CryptoConfig, _| config.psk = PresharedKey::none(),
        |config: &mut CryptoConfig, other: PrivateKey| config.private_key = other,
        |config: &mut CryptoConfig, other: PrivateKey| config.peer_public_key = other.public_key(),
    ] {
        let mut world = World::new(clean(), 8);
        world.start(0);
        let mut changed = config(1);
        change(&mut changed, other());
        world.start_as(1, changed, WALL);
        world.run(Duration::from_secs(20));
        for end in [0, 1] {
            assert!(world.end(end).established.is_empty());
            assert!(
                world
                    .end(end)
                    .sessions
                    .seal_control(path(0), None, b"x", &mut [0; 64])
                    .is_none()
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Whatever is lost, late, restarted: in the end there is a session in common.
    #[test]
    fn two_ends_always_end_with_a_common_session(
        seed in 1..u64::MAX / 2,
        loss in 0..180u8,
        least_delay in 0..300u64,
        jitter in 0..400u64,
        later in 0..3000u64,
        restart in 0..3usize,
    ) {
        let link = Link {
            random: entropy(seed),
            loss,
            least_delay: Duration::from_millis(least_delay),
            jitter: Duration::from_millis(jitter),
        };
        let mut world = World::new(link, seed);
        world.start(0);
        world.run(Duration::from_millis(later));
        world.start(1);
        world.run(Duration::from_secs(30));
        if restart < 2 {
            world.start(restart);
            world.run(Duration::from_secs(30));
        }
        for end in [0, 1] {
            let sessions = &world.end(end).sessions;
            prop_assert!(sessions.sending().is_some(), "end {end}");
        }
        world.run(Duration::from_secs(2));
        for end in [0, 1] {
            world.end(end).opened.clear();
        }
        world.link.loss = 0;
        world.run(Duration::from_secs(3));
        for end in [0, 1] {
            prop_assert!(!world.end(end).opened.is_empty(), "end {end}");
        }
    }
}

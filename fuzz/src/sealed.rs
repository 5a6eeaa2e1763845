//! What must hold of two ends with keys, whatever the network does: it reads, drops, delays, repeats
//! and changes messages, makes up others, and an end may begin anew at any time.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::Duration;

use mpt_core::crypto::{
    CONTROL_OVERHEAD, CryptoConfig, DATA_HEAD_BYTES, DATA_OVERHEAD, DataSealer, Entropy,
    INITIATION_BYTES, KeyChange, OpenError, Opened, PresharedKey, PrivateKey, Sender, Sessions,
    lay_out,
};
use mpt_core::path::{PathId, PathSet};
use mpt_core::seq::Seq;
use mpt_core::time::Time;
use mpt_core::wire::gre::Protocol;

/// Of what was sent, so much is remembered to be delivered later.
const REMEMBERED: usize = 64;
const GRE_BYTES: usize = 4;
const PATHS: u8 = 2;

/// One end of the tunnel.
struct End {
    sessions: Sessions,
    sealer: Option<Box<DataSealer>>,
    next_number: u64,
    /// How many packets and messages it has sealed.
    sealed: u64,
    /// What has opened.
    opened: HashSet<Vec<u8>>,
}

/// Something that was sent, and by which life of which end.
#[derive(Clone)]
struct Sent {
    from: usize,
    life: u64,
    bytes: Vec<u8>,
}

struct World {
    now: Time,
    ends: [End; 2],
    lives: [u64; 2],
    seed: u64,
    messages: Vec<Sent>,
    packets: Vec<Sent>,
}

/// Any network between two ends. Of `bytes`, each step takes four.
pub(crate) fn pair(bytes: &[u8]) {
    let mut world = World::new();
    let (steps, _) = bytes.as_chunks();
    for step in steps.iter().take(2048) {
        world.step(*step);
    }
}

/// Any bytes at an end that has a session: the first says what they pretend to be.
pub(crate) fn datagram(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else {
        return;
    };
    let mut world = World::new();
    world.meet();
    let index = world.seal(0, 0).bytes[4..8].to_vec();
    let head = match kind % 4 {
        0 => [&[0x30, 0, 0x88, 0xb6], &index[..]].concat(),
        1 => [&[0x20, 0, 0x88, 0xb6], &index[..]].concat(),
        _ => Vec::new(),
    };
    let mut made_up = [&head, rest].concat();
    let end = &mut world.ends[1];
    assert!(end.sessions.open(world.now, &mut made_up).is_err());
    for kind in [None, Some(3), Some(4), Some(5)] {
        let mut message = rest.to_vec();
        message.splice(0..0, kind.into_iter().flat_map(|kind| [kind, 0, 0, 0]));
        let taken = end
            .sessions
            .handle_message(world.now, sender(0, 0), &message);
        assert!(taken.is_err());
        assert!(end.sessions.poll_transmit().is_none());
    }
}

impl World {
    fn new() -> World {
        let now = Time::from_nanos(1_000_000_000);
        World {
            now,
            ends: [End::new(0, now, 1), End::new(1, now, 2)],
            lives: [0, 0],
            seed: 2,
            messages: Vec::new(),
            packets: Vec::new(),
        }
    }

    fn step(&mut self, [what, which, a, b]: [u8; 4]) {
        let end = usize::from(which & 1);
        match what % 12 {
            0 => self.pass(Duration::from_millis(u64::from(a) * u64::from(b))),
            1 => self.pass(Duration::from_secs(u64::from(a))),
            2 => self.send_messages(end),
            3 => self.deliver_message(a, 0, 0, b),
            4 => self.deliver_message(a, usize::from(which), b, b),
            5 => self.remember_packet(end, a),
            6 => self.deliver_packet(a, 0, 0),
            7 => self.deliver_packet(a, usize::from(which), b),
            8 => self.restart(end),
            9 => self.ends[end]
                .sessions
                .set_paths(PathSet::from_bits(u16::from(a % 4))),
            10 => self.meet(),
            _ => self.made_up(end, a, b),
        }
        self.settle();
    }

    fn pass(&mut self, span: Duration) {
        self.now = self.now + span;
    }

    fn settle(&mut self) {
        for end in &mut self.ends {
            if end.sessions.poll_timeout().is_some_and(|at| at <= self.now) {
                end.sessions.handle_timeout(self.now);
                let again = end.sessions.poll_timeout();
                assert!(
                    again.is_none_or(|at| at > self.now),
                    "would be called forever"
                );
            }
            match end.sessions.poll_keys() {
                Some(KeyChange::Use(sealer)) => end.sealer = Some(sealer),
                Some(KeyChange::Stop) => end.sealer = None,
                None => {}
            }
            while end.sessions.poll_event().is_some() {}
        }
    }

    /// Begins anew, as after a crash: nothing but the keys is left.
    fn restart(&mut self, end: usize) {
        self.seed += 1;
        self.lives[end] += 1;
        self.ends[end] = End::new(end, self.now, self.seed);
    }

    fn send_messages(&mut self, from: usize) {
        let end = &mut self.ends[from];
        while let Some(transmit) = end.sessions.poll_transmit() {
            let life = self.lives[from];
            let bytes = transmit.contents[GRE_BYTES..].to_vec();
            remember(&mut self.messages, Sent { from, life, bytes });
        }
    }

    /// Delivers the message `which`, with `change` at `at`.
    fn deliver_message(&mut self, which: u8, at: usize, change: u8, path: u8) {
        let Some(mut sent) = pick(&self.messages, which) else {
            return;
        };
        let at = at % sent.bytes.len();
        sent.bytes[at] ^= change;
        let to = &mut self.ends[1 - sent.from];
        let from = sender(sent.from, path);
        let taken = to.sessions.handle_message(self.now, from, &sent.bytes);
        // mac2 of an initiation is only looked at under load.
        let looked_at = sent.bytes.len() != INITIATION_BYTES || at < INITIATION_BYTES - 16;
        if change != 0 && looked_at {
            assert!(taken.is_err(), "a changed message");
        }
    }

    fn remember_packet(&mut self, from: usize, control: u8) {
        if self.ends[from].sealer.is_some() {
            let sent = self.seal(from, control);
            remember(&mut self.packets, sent);
        }
    }

    /// Seals a control message, or data in order or without.
    fn seal(&mut self, from: usize, kind: u8) -> Sent {
        let (life, end) = (self.lives[from], &mut self.ends[from]);
        let text = content(from, life, end.sealed);
        end.sealed += 1;
        let mut bytes = vec![0; DATA_OVERHEAD + text.len()];
        if kind % 3 == 1 {
            bytes = vec![0; CONTROL_OVERHEAD + text.len()];
            let path = path_of(kind / 3);
            let len = end
                .sessions
                .seal_control(path, Some(kind / 3 % PATHS), &text, &mut bytes);
            assert_eq!(len.is_some(), end.sealer.is_some());
        } else if let Some(sealer) = &mut end.sealer {
            let sequence = kind
                .is_multiple_of(3)
                .then_some(Seq::new(end.next_number as u32));
            lay_out(sequence, Protocol::Ipv4, &mut bytes);
            bytes[DATA_HEAD_BYTES..][..text.len()].copy_from_slice(&text);
            assert_eq!(sealer.seal(end.next_number, &mut bytes), Ok(()));
            end.next_number += u64::from(sequence.is_some());
            end.sessions.set_next_number(end.next_number);
        }
        Sent { from, life, bytes }
    }

    /// Delivers the packet `which`, with `change` at `at`.
    fn deliver_packet(&mut self, which: u8, at: usize, change: u8) {
        let Some(mut sent) = pick(&self.packets, which) else {
            return;
        };
        let at = at % sent.bytes.len();
        sent.bytes[at] ^= change;
        let to = &mut self.ends[1 - sent.from];
        let range = match to.sessions.open(self.now, &mut sent.bytes) {
            Ok(Opened::Data {
                protocol, packet, ..
            }) => {
                assert_eq!(protocol, Protocol::Ipv4);
                packet
            }
            Ok(Opened::Control { message, .. }) => message,
            Ok(Opened::Copy { .. }) => return assert_eq!(change, 0, "a changed packet"),
            Err(OpenError::Protocol) => panic!("no end seals that"),
            Err(_) => return,
        };
        assert_eq!(change, 0, "a changed packet");
        let text = &sent.bytes[range];
        assert_eq!(text[..2], content(sent.from, sent.life, 0)[..2]);
        assert!(to.opened.insert(text.to_vec()), "opened twice");
    }

    /// A handshake without mishap, begun by end 0.
    fn meet(&mut self) {
        for end in &mut self.ends {
            end.sessions.set_paths(PathSet::from_bits(1));
        }
        for _ in 0..4 {
            self.settle();
            for from in [0, 1] {
                self.send_messages(from);
                if let Some(last) = self.messages.last().filter(|last| last.from == from) {
                    let message = last.bytes.clone();
                    let to = &mut self.ends[1 - from].sessions;
                    let _ = to.handle_message(self.now, sender(from, 0), &message);
                }
            }
        }
        self.settle();
    }

    fn made_up(&mut self, at: usize, a: u8, b: u8) {
        let end = &mut self.ends[at];
        let mut bytes = vec![a; usize::from(b)];
        assert!(end.sessions.open(self.now, &mut bytes).is_err());
        let from = sender(1 - at, a);
        assert!(end.sessions.handle_message(self.now, from, &bytes).is_err());
    }
}

impl End {
    fn new(end: usize, now: Time, seed: u64) -> End {
        let private = |end| PrivateKey::from_random([end as u8 + 1; 32]);
        let config = CryptoConfig {
            private_key: private(end),
            peer_public_key: private(1 - end).public_key(),
            psk: PresharedKey::none(),
            session: seed,
            hardware_aes: true,
        };
        let wall = Duration::from_secs(1_700_000_000) + now.since(Time::ZERO);
        let mut sessions = Sessions::new(config, now, wall, entropy(seed));
        sessions.set_paths(PathSet::from_bits(1));
        End {
            sessions,
            sealer: None,
            next_number: 0,
            sealed: 0,
            opened: HashSet::new(),
        }
    }
}

/// What an end seals: who it is, which life it leads, the how-manieth it is.
fn content(end: usize, life: u64, number: u64) -> [u8; 5] {
    let number = number as u32;
    let [_, high, middle, low] = number.to_be_bytes();
    [0x40 | end as u8, life as u8, high, middle, low]
}

fn sender(end: usize, path: u8) -> Sender {
    Sender {
        path: path_of(path),
        address: SocketAddr::from(([192, 0, 2, end as u8], 4754 + u16::from(path))),
        known: path & 4 == 0,
    }
}

fn path_of(path: u8) -> PathId {
    PathId::new(usize::from(path % PATHS)).expect("a tunnel has as many paths")
}

fn remember(sent: &mut Vec<Sent>, one: Sent) {
    if sent.len() == REMEMBERED {
        sent.remove(0);
    }
    sent.push(one);
}

/// Counted from the newest.
fn pick(sent: &[Sent], which: u8) -> Option<Sent> {
    let back = usize::from(which) % sent.len().max(1);
    sent.iter().rev().nth(back).cloned()
}

/// xorshift64*: which stream it is, the seed says.
fn entropy(seed: u64) -> Entropy {
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

//! Somebody has the peer's keys and says what he likes: any fields, in any order, from anywhere. He is the peer, so the
//! tunnel is his to spoil while he is there; but no more, and not for longer.
#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use mpt_core::crypto::{Opened, Sender, Sessions};
use mpt_core::path::{PathId, PathState};
use mpt_core::seq::Seq;
use mpt_core::time::Time;
use mpt_core::wire::edges::{Edge, Edges, MAX_EDGES_BYTES};
use mpt_core::wire::probe::{Echo, MESSAGE_BYTES, Message, PROOF_BYTES, Proof};
use mpt_core::wire::report::{MAX_REPORT_BYTES, Missing, PathReport, Report};
use mpt_sim::packet::{Inner, id_of};
use mpt_sim::pair::{Pair, PairConfig, PathSpec, Side, Wire};

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);
/// He says so much in each of this many milliseconds.
const LIES: usize = 5;
const MILLISECONDS: u64 = 1500;
/// Nobody hears what is sent here.
const DEAF: [u8; 4] = [198, 51, 100, 9];
const GRE_BYTES: usize = 4;

/// What he knows of the honest end, and a stream of random numbers (xorshift64*).
struct Liar {
    sessions: Sessions,
    random: u64,
    session: u64,
    peer_session: u64,
    /// The honest end's last message on each path, when it came, and the code that it wants back.
    heard: [Option<(Message, Time, u64)>; 2],
    bytes_said: u64,
}

impl Liar {
    fn next(&mut self) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Mostly something near what is true, at times anything.
    fn near(&mut self, truth: u64) -> u64 {
        match self.next() % 4 {
            0 => self.next(),
            1 => truth.wrapping_add(1 << (self.next() % 64)),
            _ => truth.wrapping_add(self.next() % 64),
        }
    }

    fn seq(&mut self) -> Seq {
        Seq::new(self.near(0) as u32)
    }

    /// Takes in what the honest end sent.
    fn hear(&mut self, now: Time, path: usize, at: SocketAddr, mut bytes: Vec<u8>) {
        let sender = Sender {
            path: PathId::new(path).unwrap(),
            address: at,
            known: true,
        };
        if let Some(message) = bytes.strip_prefix(&[0, 0, 0x88, 0xb5]) {
            let _ = self.sessions.handle_message(now, sender, message);
        } else if let Ok(Opened::Control {
            message, session, ..
        }) = self.sessions.open(now, &mut bytes)
        {
            self.peer_session = session;
            let message = &bytes[message];
            if let (Ok(said), Some(proof)) = (Message::parse(message), Proof::parse(message)) {
                self.heard[path] = Some((said, now, proof.code));
            }
        }
    }

    /// A probe that may be believed, but for what it says.
    fn probe(&mut self, now: Time, path: usize) -> Vec<u8> {
        let heard = self.heard[path];
        let message = Message {
            reply_wanted: self.next().is_multiple_of(4),
            out_of_service: self.next().is_multiple_of(16),
            reports_wanted: self.next().is_multiple_of(2),
            resends: self.next().is_multiple_of(2),
            may_move: self.next().is_multiple_of(2),
            path: match self.next() % 8 {
                0 => self.next() as u8,
                _ => path as u8,
            },
            number: self.near(1) as u32,
            session: match self.next() % 8 {
                0 => self.next(),
                _ => self.session,
            },
            sent: Time::from_nanos(self.near(now.as_nanos())),
            tx_packets: self.near(0),
            tx_bytes: self.near(0),
            next_seq: self.seq(),
            echo: heard.map(|(said, at, _)| Echo {
                number: said.number,
                session: said.session,
                sent: said.sent,
                received: Time::from_nanos(self.near(at.as_nanos())),
            }),
            rx_packets: self.near(0),
            rx_bytes: self.near(0),
            loss_ppm: self.near(0) as u32,
        };
        let mut bytes = vec![0; MESSAGE_BYTES + PROOF_BYTES];
        let (head, tail) = bytes.split_first_chunk_mut::<MESSAGE_BYTES>().unwrap();
        message.emit(head);
        let code = heard.map_or(0, |(.., code)| code);
        let proof = Proof {
            code: self.next(),
            answer: self.near(code),
        };
        proof.emit(tail.first_chunk_mut().unwrap());
        bytes
    }

    fn report(&mut self, now: Time) -> Vec<u8> {
        let count = self.next() % 5;
        let report = Report {
            number: self.near(1) as u32,
            session: self.session,
            about: self.peer_session,
            sent: Time::from_nanos(self.near(now.as_nanos())),
            next: self.seq(),
            high: self.seq(),
            paths: (0..count)
                .map(|path| PathReport {
                    path: path as u8 % 3,
                    edge: self.seq(),
                    edge_arrived: Time::from_nanos(self.near(now.as_nanos())),
                    packets: self.near(0),
                    bytes: self.near(0),
                })
                .collect(),
            missing: (0..count)
                .map(|_| Missing {
                    first: self.seq(),
                    count: self.near(1) as u32,
                })
                .collect(),
            duplicates: (0..count).map(|_| self.seq()).collect(),
        };
        let mut bytes = [0; MAX_REPORT_BYTES];
        let len = report.emit(&mut bytes);
        bytes[..len].to_vec()
    }

    fn edges(&mut self) -> Vec<u8> {
        let edges = Edges {
            next: self.seq(),
            session: self.session,
            about: self.peer_session,
            paths: (0..3)
                .map(|path| Edge {
                    path,
                    last: Some(self.seq()),
                    suspected: self.next().is_multiple_of(2),
                })
                .collect(),
        };
        let mut bytes = [0; MAX_EDGES_BYTES];
        let len = edges.emit(&mut bytes);
        bytes[..len].to_vec()
    }

    /// Says something, on some path, from the peer's address there or from one that hears nothing.
    fn lie(&mut self, now: Time, pair: &mut Pair) {
        let path = self.next() as usize % 2;
        let mut message = match self.next() % 4 {
            0 | 1 => self.probe(now, path),
            2 => self.report(now),
            _ => self.edges(),
        };
        if self.next().is_multiple_of(8) {
            let at = self.next() as usize % message.len();
            message[at] ^= self.next() as u8;
            message.truncate(message.len() - self.next() as usize % 8);
        }
        let claims = (!self.next().is_multiple_of(4)).then_some(self.next() as u8 % 3);
        let mut sealed = [0; 1500];
        let of = PathId::new(match self.next() % 8 {
            0 => 1 - path,
            _ => path,
        });
        let len = self
            .sessions
            .seal_control(of.unwrap(), claims, &message, &mut sealed);
        let from = match self.next() % 3 {
            0 => SocketAddr::from((DEAF, 1000 + self.next() as u16 % 4)),
            _ => pair.address(Side::A, path),
        };
        if let Some(len) = len {
            self.bytes_said += len as u64;
            pair.inject(Side::B, path, from, 0, &sealed[..len]);
        }
    }
}

type Overheard = Rc<RefCell<Vec<(Side, Wire)>>>;

fn run(seed: u64) {
    let config = PairConfig {
        recovery: true,
        policy: mpt_core::send::scheduler::Policy::Adaptive,
        seed,
        ..PairConfig::new([PathSpec::symmetric(20, 5), PathSpec::symmetric(20, 25)]).sealed()
    };
    let clock = config.clocks[0];
    let session = seed | 1;
    let mut liar = Liar {
        sessions: config.sessions(Side::A, session, Time::ZERO),
        random: seed | 1,
        session,
        peer_session: 0,
        heard: [None; 2],
        bytes_said: 0,
    };
    liar.sessions
        .set_paths(mpt_core::path::PathSet::from_bits(3));
    let mut pair = Pair::new(config);
    // The true A is not heard, and what B sends is the liar's to hear.
    let overheard = Overheard::default();
    let tap = overheard.clone();
    pair.on_the_way(move |from, wire| {
        tap.borrow_mut().push((from, wire.clone()));
        false
    });
    let (mut answered, mut held_most) = (0, 0);
    for ms in 0..MILLISECONDS {
        pair.run_for(MS);
        let now = pair.now() + clock;
        let came: Vec<_> = overheard.borrow_mut().drain(..).collect();
        for (from, wire) in came {
            if from == Side::B {
                answered += wire.bytes.len() as u64;
                let path = wire.path.index();
                liar.hear(now, path, pair.address(Side::B, path), wire.bytes);
            }
        }
        liar.sessions.handle_timeout(now);
        let _ = liar.sessions.poll_keys();
        while liar.sessions.poll_event().is_some() {}
        while let Some(transmit) = liar.sessions.poll_transmit() {
            let (path, bytes) = (transmit.path.index(), transmit.contents.to_vec());
            let from = pair.address(Side::A, path);
            assert!(bytes.len() > GRE_BYTES);
            pair.inject(Side::B, path, from, 0, &bytes);
        }
        for _ in 0..LIES {
            liar.lie(now, &mut pair);
        }
        // The honest end has something to send, too.
        pair.send(Side::B, Inner::of_len(1000).packet(1 << 40 | ms));
        for path in 0..2 {
            let remote = pair.end(Side::B).path(path).remote;
            let truth = pair.address(Side::A, path).to_string();
            assert_eq!(remote, truth, "an address moved that hears nothing");
        }
        let (end, reorder) = (pair.end(Side::B), pair.end(Side::B).reorder());
        held_most = held_most.max(reorder.held);
        assert!(reorder.held <= 32_768 && end.starved() == 0);
        assert!(end.status().queue_bytes <= (12 << 20) + 65_536);
    }
    assert!(liar.bytes_said > 0, "he had no keys");
    // Its own packets, with as much again and half for resends and copies, and what answers his questions.
    let own = MILLISECONDS * 1100;
    assert!(
        answered <= 3 * own + 3 * liar.bytes_said,
        "{answered} bytes for {} said",
        liar.bytes_said
    );

    // He is gone, and the true peer is heard again.
    pair.off_the_way();
    pair.restart(Side::A);
    pair.run_for(2 * SECOND);
    pair.delivered(Side::A);
    pair.delivered(Side::B);
    for id in 0..500 {
        for side in Side::BOTH {
            pair.send(side, Inner::default().packet(id));
        }
        pair.run_for(MS);
    }
    pair.run_for(SECOND);
    for side in Side::BOTH {
        let came = pair.delivered(side);
        let came: Vec<_> = came
            .iter()
            .filter_map(|(_, packet)| id_of(packet))
            .collect();
        let fresh = came.iter().filter(|id| **id < 1 << 40).count();
        println!("{side:?}: {fresh} of 500");
        assert_eq!(fresh, 500, "{side:?}");
        assert!(!pair.end(side).outbound.is_unreported(), "{side:?}");
        for path in 0..2 {
            assert_eq!(
                pair.end(side).state(path),
                PathState::Up,
                "{side:?}, {path}"
            );
        }
    }
}

/// `MPT_TEST_LIARS` says how many there are.
#[test]
fn who_lies_with_the_peer_s_keys_moves_no_address_and_leaves_nothing_behind() {
    let asked = std::env::var("MPT_TEST_LIARS").ok();
    let liars = asked.and_then(|liars| liars.parse().ok()).unwrap_or(12);
    for seed in 1..=liars {
        println!("liar {seed}");
        run(seed);
    }
}

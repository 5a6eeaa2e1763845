//! What must hold of a tunnel as a whole, whatever happens to it: any packets from either TUN, any
//! datagrams at either port, a network that loses, changes and repeats them, restarts, operators, ICMP.
//!
//! * No datagram is lost sight of: what came was delivered, is held, was a control message, or is counted
//!   among the drops.
//! * Memory has bounds: no datagram finds no buffer, the window holds no more than it may, the queue
//!   neither.
//! * Every gap ends, and is counted once.
//! * No address of a sealed tunnel is another than where somebody answers: nobody does where strangers are.
//! * In a sealed tunnel what comes out is what went in at the other end, each packet once a life.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::time::Duration;

use mpt_core::control::drops::DropReason;
use mpt_core::path::{PathId, Unreachable};
use mpt_core::receive::block_sort::DEFAULT_BLOCK;
use mpt_core::receive::reorder::MAX_WINDOW;
use mpt_core::send::scheduler::Policy;
use mpt_core::time::Time;
use mpt_core::tunnel::ReorderSettings;
use mpt_sim::loss::Loss;
use mpt_sim::packet::{Inner, id_of};
use mpt_sim::pair::{Pair, PairConfig, Passed, PathSpec, RELAY, Side, Wire};

const MS: Duration = Duration::from_millis(1);
/// Most steps of a run.
const MAX_STEPS: usize = 200;
/// Most that waits for the paths, in bytes: 12 MiB and the packet that exceeds them.
const MAX_QUEUED: u64 = (12 << 20) + 65_536;
const PATHS: usize = 2;

/// Anything that can happen. The first three bytes are the configuration; then each step takes four, and
/// those that bring bytes of their own take these behind it.
pub(crate) fn any(bytes: &[u8]) {
    let Some(([kind, policy, window], mut rest)) = bytes.split_first_chunk::<3>() else {
        return;
    };
    let mut run = Run::new(*kind, *policy, *window);
    for _ in 0..MAX_STEPS {
        let Some((step, behind)) = rest.split_first_chunk::<4>() else {
            break;
        };
        let used = run.step(*step, behind);
        rest = &behind[used..];
        run.check();
    }
    run.pair.run_for(MS * 100);
    run.check();
}

struct Run {
    pair: Pair,
    is_sealed: bool,
    next_id: u64,
    /// How often each packet may come out, by number: once in each life of the end that it goes to.
    sent: HashMap<u64, Side>,
    came: HashMap<(u64, usize), u32>,
    lives: [u32; 2],
    /// Where somebody hears what is sent there.
    answering: HashSet<String>,
    /// Packets of no number went into the tunnel too.
    any_packets: bool,
    recorded: Vec<(Side, Wire)>,
}

impl Run {
    fn new(kind: u8, policy: u8, window: u8) -> Run {
        let is_sealed = kind & 1 != 0;
        let reorder = match window {
            0..64 => ReorderSettings::default(),
            u8::MAX => ReorderSettings {
                block: Some(DEFAULT_BLOCK),
                ..ReorderSettings::default()
            },
            _ => ReorderSettings {
                window: (u32::from(window) - 64).into(),
                max_buffer_delay: (MS * u32::from(window)).into(),
                ..ReorderSettings::default()
            },
        };
        let paths = [PathSpec::symmetric(20, 5), PathSpec::symmetric(5, 40)];
        let config = PairConfig {
            sealed: is_sealed,
            mtu: if is_sealed { 1442 } else { 1464 },
            trains: kind & 2 != 0,
            recovery: kind & 4 != 0,
            key: (kind & 8 != 0).then_some(7),
            policy: Policy::ALL[usize::from(policy) % Policy::ALL.len()],
            reorder,
            ..PairConfig::new(paths)
        };
        let mut pair = Pair::running(config, MS * 500);
        pair.record();
        let ends = Side::BOTH
            .into_iter()
            .flat_map(|side| [(side, 0), (side, 1)]);
        let ends = ends.map(|(side, path)| pair.address(side, path));
        let answering = ends.chain([RELAY]).map(|at| at.to_string()).collect();
        Run {
            pair,
            is_sealed,
            next_id: 0,
            sent: HashMap::new(),
            came: HashMap::new(),
            lives: [1, 1],
            answering,
            any_packets: false,
            recorded: Vec::new(),
        }
    }

    /// Does what the step says, and returns how many of the bytes behind it it took.
    fn step(&mut self, [what, which, a, b]: [u8; 4], behind: &[u8]) -> usize {
        let side = Side::BOTH[usize::from(which & 1)];
        let path = usize::from(which >> 1) % PATHS;
        let own = &behind[..behind.len().min(usize::from(a))];
        match what % 15 {
            0 => self.pair.run_for(MS * u32::from(a)),
            1 => self.pair.run_for(MS * u32::from(a) * 20),
            2 | 3 => self.send(side, a, b),
            4 => {
                self.any_packets = true;
                self.pair.send(side, own);
                return own.len();
            }
            5 => {
                let wire = Wire {
                    path: path_id(path),
                    tos: b,
                    bytes: own.to_vec(),
                };
                self.pair.inject_as_peer(side, &wire);
                return own.len();
            }
            6 => {
                self.pair.inject(side, path, stranger(b), b, own);
                return own.len();
            }
            7 => self.repeat(a, b, None),
            8 => self.repeat(a, b, Some(which)),
            9 => self.pair.link(path, side).config.loss = lossy(a),
            10 => self.pair.set_out_of_service(side, path, a & 1 != 0),
            11 => self.pair.set_carrier(side, path, a & 1 != 0),
            12 => self.icmp(side, path, a, b),
            13 => self.relay(path, a, b),
            _ => self.upheaval(side, path, a),
        }
        0
    }

    fn send(&mut self, side: Side, a: u8, b: u8) {
        let inner = Inner {
            len: usize::from(a) * 8,
            dont_fragment: b & 1 != 0,
            tos: b & 3,
            ..Inner::default()
        };
        let batch: Vec<Vec<u8>> = (0..1 + u64::from(b >> 2))
            .map(|_| {
                self.sent.insert(self.next_id, side);
                self.next_id += 1;
                inner.packet(self.next_id - 1)
            })
            .collect();
        self.pair.send_batch(side, batch);
    }

    /// Delivers something again that was on a link, perhaps with a bit changed.
    fn repeat(&mut self, a: u8, b: u8, change: Option<u8>) {
        self.recorded.extend(self.pair.recorded());
        self.pair.record();
        let at = usize::from(a) << 8 | usize::from(b);
        let count = self.recorded.len();
        let Some((from, wire)) = self.recorded.get(count.wrapping_sub(1 + at % count.max(1)))
        else {
            return;
        };
        let (to, mut wire) = (from.other(), wire.clone());
        if let Some(change) = change {
            let at = usize::from(b) % wire.bytes.len().max(1);
            if let Some(byte) = wire.bytes.get_mut(at) {
                *byte ^= change | 1;
            }
        }
        match a % 4 {
            0 => self
                .pair
                .inject(to, wire.path.index(), stranger(b), 0, &wire.bytes),
            1 => {
                // Onto the other path.
                wire.path = path_id(1 - wire.path.index());
                self.pair.inject_as_peer(to, &wire);
            }
            _ => self.pair.inject_as_peer(to, &wire),
        }
    }

    /// From now on somebody has the path: he drops, delays, copies, crosses to the other one, or lets pass what
    /// is small alone; or he is gone.
    fn relay(&mut self, path: usize, a: u8, b: u8) {
        let at = Side::BOTH.map(|side| self.pair.address(side, path));
        let after = MS * u32::from(b);
        if a % 7 == 6 {
            return self.pair.remove_relay();
        }
        self.pair.set_relay(path, move |caught| {
            let passed = |path: usize, from: SocketAddr| Passed {
                to: caught.from.other(),
                from,
                after,
                wire: Wire {
                    path: path_id(path),
                    ..caught.wire.clone()
                },
            };
            let straight = passed(path, at[caught.from as usize]);
            let crossed = passed(1 - path, RELAY);
            Some(match a % 7 {
                0 => vec![],
                1 => vec![straight],
                2 => vec![straight.clone(), straight],
                3 if !caught.to_relay => vec![crossed],
                4 if !caught.to_relay => vec![crossed, straight],
                5 if caught.wire.bytes.len() > 500 => vec![],
                _ => vec![straight],
            })
        });
    }

    fn icmp(&mut self, side: Side, path: usize, a: u8, b: u8) {
        match a % 3 {
            0 => self.pair.icmp_unreachable(side, path, Unreachable::Port),
            1 => self.pair.icmp_too_big(side, path, u32::from(b) * 8),
            _ => self.pair.icmp_too_big(side, path, u32::MAX - u32::from(b)),
        }
    }

    fn upheaval(&mut self, side: Side, path: usize, a: u8) {
        match a % 5 {
            0 => {
                self.pair.restart(side);
                self.lives[side as usize] += 1;
            }
            1 => self.pair.set_links_up(path, false),
            2 => self.pair.set_links_up(path, true),
            3 => self.pair.link(path, side).config.mtu = 600 + usize::from(a) * 4,
            _ => {
                self.answering.insert(stranger(a).to_string());
                self.pair.move_to(side, path, stranger(a));
            }
        }
    }

    fn check(&mut self) {
        for side in Side::BOTH {
            self.check_packets(side);
            let end = self.pair.end(side);
            for path in 0..PATHS {
                let at = end.path(path).remote;
                assert!(self.answering.contains(&at), "led to {at}, where nobody is");
            }
            let (status, reorder) = (end.status(), end.reorder());
            assert_eq!(end.starved(), 0);
            assert!(
                status.queue_bytes <= MAX_QUEUED,
                "{} queued",
                status.queue_bytes
            );
            assert!(reorder.held <= u64::from(reorder.window.min(MAX_WINDOW)));
            let ended = reorder.gaps_filled
                + reorder.gaps_recovered
                + reorder.gaps_inferred_lost
                + reorder.gaps_timed_out
                + reorder.gaps_overflowed;
            assert_eq!(reorder.gaps_seen, reorder.gaps_open + ended);
            let dropped: u64 = DropReason::ALL
                .iter()
                .map(|why| end.inbound.drops().of(*why))
                .sum();
            let seen = status.rx_packets + end.inbound.control_packets() + dropped + reorder.held;
            assert_eq!(seen, end.received(), "a datagram lost sight of");
        }
    }

    fn check_packets(&mut self, side: Side) {
        for (_, packet) in self.pair.delivered(side) {
            let Some(id) = id_of(&packet) else {
                continue;
            };
            if !self.is_sealed || self.any_packets {
                continue;
            }
            assert_eq!(self.sent.get(&id), Some(&side.other()), "made up");
            let times = self.came.entry((id, side as usize)).or_default();
            *times += 1;
            assert!(
                *times <= self.lives[side as usize],
                "{id} came {times} times"
            );
        }
        let _ = self.pair.events(side);
        let _ = self.pair.reports(side);
        let _ = self.pair.refused(side);
        let poll: Option<Time> = self.pair.end_mut(side).inbound.poll_timeout();
        assert!(poll.is_some(), "probes are due for ever");
    }
}

fn path_id(path: usize) -> PathId {
    PathId::new(path).expect("few paths")
}

fn stranger(which: u8) -> SocketAddr {
    SocketAddr::from(([198, 51, 100, which], 1000 + u16::from(which)))
}

fn lossy(a: u8) -> Loss {
    match a {
        0..100 => Loss::None,
        _ => Loss::Independent {
            probability: f64::from(a - 100) / 200.0,
        },
    }
}

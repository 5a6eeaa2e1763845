//! Traces of seeded runs, by which a change that is to change no behaviour can be told from one that does.
//!
//! `MPT_TRACES=DIR cargo test -p mpt-sim --test sim_traces` writes one file a run: a line for each twentieth of
//! a second, with a hash over every datagram sent, every packet delivered and every event, each with its time.
//! Write them before and after the change; `diff -r` then names the run and the moment from which they differ.
#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use mpt_core::path::Unreachable;
use mpt_core::send::scheduler::Policy;
use mpt_core::time::Time;
use mpt_sim::delay::{Delay, MS};
use mpt_sim::link::Order;
use mpt_sim::loss::Loss;
use mpt_sim::packet::Inner;
use mpt_sim::pair::{Pair, PairConfig, PathSpec, Side};
use mpt_sim::source::{Flow, Sender};

/// A line of a trace tells of so much time.
const LINE: Duration = Duration::from_millis(50);
/// Without `MPT_TRACES` runs are so much shorter: what is asserted then is that they repeat themselves.
const SHORTER: u32 = 6;

/// FNV-1a, 64 bits.
struct Hash(u64);

impl Hash {
    fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn add_at(&mut self, now: Time, what: &str, bytes: &[u8]) {
        self.add(&now.as_nanos().to_be_bytes());
        self.add(what.as_bytes());
        self.add(bytes);
    }
}

/// Something that happens in the middle of a run.
type Change = (Duration, fn(&mut Pair));

/// A run.
struct Run {
    name: &'static str,
    config: PairConfig,
    sender: Sender,
    /// Bulk flows from A to B.
    flows: u16,
    /// And a packet of 200 bytes each 20 ms.
    call: bool,
    lasts: Duration,
    changes: Vec<Change>,
}

fn run(name: &'static str, paths: impl Into<Vec<PathSpec>>) -> Run {
    Run {
        name,
        config: PairConfig {
            seed: 7,
            sealed: false,
            mtu: 1464,
            ..PairConfig::adaptive(paths)
        },
        sender: Sender::Cubic,
        flows: 1,
        call: false,
        lasts: Duration::from_secs(6),
        changes: Vec::new(),
    }
}

fn sealed(name: &'static str, paths: impl Into<Vec<PathSpec>>) -> Run {
    let mut run = run(name, paths);
    (run.config.sealed, run.config.mtu) = (true, 1442);
    run
}

fn path(mbps: u64, delay_ms: u64) -> PathSpec {
    PathSpec::symmetric(mbps, delay_ms)
}

fn with(mut path: PathSpec, change: impl Fn(&mut mpt_sim::link::LinkConfig)) -> PathSpec {
    path.links.iter_mut().for_each(change);
    path
}

fn lossy(path: PathSpec, share: f64) -> PathSpec {
    with(path, |link| link.loss = Loss::gilbert(share, 4.0))
}

fn jittery(path: PathSpec, sd_ms: u64, order: Order) -> PathSpec {
    with(path, |link| {
        let Delay::Constant { ns } = link.delay else {
            return;
        };
        link.order = order;
        link.delay = Delay::Normal {
            mean_ns: ns,
            sd_ns: sd_ms * MS,
        };
    })
}

const fn at(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn set_rate(pair: &mut Pair, path: usize, mbps: u64) {
    for side in Side::BOTH {
        pair.link(path, side).config.rate_bps = Some(mbps * 1_000_000);
    }
}

/// Every run: the sender's law over all that links do, then what the other policies, the paths' states and
/// sealing make of it.
fn runs() -> Vec<Run> {
    let mut rate = run("rate-falls", [path(30, 20), path(15, 30)]);
    rate.changes = vec![
        (at(2000), |pair| set_rate(pair, 0, 8)),
        (at(4000), |pair| set_rate(pair, 0, 30)),
    ];
    let mut delay = run("delay-grows", [path(20, 10), path(20, 20)]);
    delay.changes = vec![
        (at(2000), |pair| {
            pair.set_delay(0, Duration::from_millis(90))
        }),
        (at(4000), |pair| {
            pair.set_delay(0, Duration::from_millis(10))
        }),
    ];
    let mut death = run("silent-death", [path(12, 12), path(40, 60)]);
    death.changes = vec![
        (at(2000), |pair| pair.set_links_up(0, false)),
        (at(4000), |pair| pair.set_links_up(0, true)),
    ];
    let mut call = run("call", [path(20, 10), path(20, 80)]);
    call.call = true;
    let mut bbr = run("bbr", [lossy(path(20, 20), 0.01), path(20, 40)]);
    (bbr.sender, bbr.flows) = (Sender::Bbr, 3);
    let mut plain = run("no-recovery", [path(30, 15), lossy(path(20, 30), 0.01)]);
    plain.config.recovery = false;
    let mut blocks = run("blocks", [path(20, 10), path(20, 12)]);
    blocks.config.policy = Policy::Weighted;
    blocks.config.reorder.block = Some(64);
    let mut copies = run("redundant", [lossy(path(20, 10), 0.03), path(20, 25)]);
    copies.config.policy = Policy::Redundant;
    let mut states = run("states", [path(20, 10), path(20, 15), path(5, 40)]);
    states.call = true;
    states.changes = vec![
        (at(1000), |pair| pair.set_out_of_service(Side::A, 1, true)),
        (at(2000), |pair| pair.set_out_of_service(Side::A, 1, false)),
        (at(2500), |pair| pair.set_carrier(Side::B, 0, false)),
        (at(3000), |pair| pair.set_carrier(Side::B, 0, true)),
        (at(3500), |pair| {
            pair.icmp_unreachable(Side::A, 2, Unreachable::Host);
        }),
        (at(4000), |pair| pair.icmp_too_big(Side::A, 0, 1400)),
        (at(4500), |pair| pair.restart(Side::B)),
    ];
    let mut keys = sealed("sealed", [lossy(path(20, 20), 0.01), path(20, 40)]);
    keys.call = true;
    let mut trains = sealed("sealed-trains", [path(60, 10), path(30, 30)]);
    (trains.config.trains, trains.config.receives_every) = (true, at(1));
    let mut moves = sealed("sealed-moves", [path(20, 20), path(10, 30)]);
    moves.config.waits_to_be_called = Some(Side::B);
    moves.changes = vec![
        (at(2000), |pair| {
            pair.move_to(Side::A, 0, ([192, 0, 2, 7], 4000).into());
        }),
        (at(3000), |pair| pair.set_links_up(1, false)),
        (at(4500), |pair| pair.restart(Side::A)),
    ];
    let narrow = with(path(20, 20), |link| link.mtu = 1300);
    let idle = Run {
        flows: 0,
        call: false,
        lasts: Duration::from_secs(60),
        ..sealed("sealed-idle", [path(20, 20), lossy(path(10, 30), 0.05)])
    };
    let three = [path(50, 10), path(10, 60), lossy(path(25, 30), 0.005)];
    vec![
        run("clean", [path(50, 10), path(20, 25)]),
        run("gilbert", [lossy(path(20, 20), 0.02), path(30, 40)]),
        run(
            "jitter",
            [jittery(path(30, 30), 6, Order::Kept), path(10, 80)],
        ),
        run(
            "overtaking",
            [jittery(path(20, 25), 3, Order::ByDelay), path(20, 30)],
        ),
        run("far-apart", [path(20, 2), path(40, 140)]),
        run("short-queue", [path(37, 20).queueing(20), path(12, 18)]),
        run("three", three),
        rate,
        delay,
        death,
        call,
        bbr,
        plain,
        blocks,
        copies,
        states,
        keys,
        trains,
        moves,
        sealed("sealed-narrow", [narrow, path(20, 30)]),
        idle,
    ]
}

impl Run {
    /// Runs it for its time in `parts`, and writes its trace.
    fn trace(&self, parts: u32) -> String {
        let mut pair = Pair::new(self.config.clone());
        let mut trace = Trace {
            text: String::new(),
            hash: Hash(0xcbf2_9ce4_8422_2325),
            counts: [0; 5],
        };
        let mut flows: Vec<_> = (0..self.flows)
            .map(|number| Flow::of(self.sender, Side::A, 1400).with_port(5000 + number))
            .collect();
        let end = pair.now() + self.lasts / parts;
        let (mut changes, mut next_line, mut calls) = (self.changes.iter(), pair.now() + LINE, 0);
        let mut change = changes.next();
        while pair.now() < end {
            let now = pair.now();
            if let Some((at, what)) = change.filter(|(at, _)| Time::ZERO + *at <= now) {
                let _ = at;
                what(&mut pair);
                change = changes.next();
            }
            pair.record();
            if self.call && now >= Time::ZERO + at(20) * calls {
                let call = Inner {
                    source_port: 4001,
                    ..Inner::of_len(200)
                };
                pair.send(Side::A, call.packet(u64::from(calls)));
                calls += 1;
            }
            let mut until = next_line.min(end);
            if self.call {
                until = until.min(Time::ZERO + at(20) * calls);
            }
            for flow in &mut flows {
                flow.handle_timeout(now);
                flow.send(&mut pair);
                until = until.min(flow.deadline());
            }
            trace.sent(&mut pair);
            pair.record();
            pair.step(until);
            trace.sent(&mut pair);
            for side in Side::BOTH {
                let arrived = pair.delivered(side);
                trace.came_out(&mut pair, side, &arrived);
                pair.record();
                for flow in &mut flows {
                    flow.take(&mut pair, side, &arrived);
                }
                trace.sent(&mut pair);
            }
            if pair.now() >= next_line {
                trace.line(pair.now());
                next_line = next_line + LINE;
            }
        }
        for side in Side::BOTH {
            let end = pair.end(side);
            let status = serde_json::to_string(&end.status()).unwrap();
            writeln!(trace.text, "{side:?} {status}").unwrap();
            for path in 0..self.config.paths.len() {
                let status = serde_json::to_string(&end.path(path)).unwrap();
                writeln!(trace.text, "{side:?} {status}").unwrap();
            }
            let reorder = serde_json::to_string(&end.reorder()).unwrap();
            writeln!(trace.text, "{side:?} {reorder}").unwrap();
        }
        trace.text
    }
}

/// What is written of a run.
struct Trace {
    text: String,
    hash: Hash,
    /// Datagrams sent and packets delivered by either side, and reports, since the start.
    counts: [u64; 5],
}

impl Trace {
    fn sent(&mut self, pair: &mut Pair) {
        for (side, wire) in pair.recorded() {
            self.counts[side as usize] += 1;
            self.hash.add_at(pair.now(), "sent", &wire.bytes);
            let path = wire.path.index() as u8;
            self.hash.add(&[side as u8, path, wire.tos]);
        }
    }

    fn came_out(&mut self, pair: &mut Pair, side: Side, arrived: &[(Time, Vec<u8>)]) {
        for (at, packet) in arrived {
            self.counts[2 + side as usize] += 1;
            self.hash.add_at(*at, "delivered", packet);
        }
        for (at, event) in pair.events(side) {
            let event = format!("{side:?} {event:?}");
            self.hash.add_at(at, &event, &[]);
            writeln!(self.text, "{} {event}", at.as_nanos()).unwrap();
        }
        for (at, report) in pair.reports(side) {
            self.counts[4] += 1;
            self.hash.add_at(at, &format!("{side:?} {report:?}"), &[]);
        }
        for packet in pair.refused(side) {
            self.hash.add_at(pair.now(), "refused", &packet);
        }
    }

    fn line(&mut self, now: Time) {
        let ms = now.as_nanos() / MS;
        writeln!(self.text, "{ms} ms {:?} {:016x}", self.counts, self.hash.0).unwrap();
    }
}

/// Runs that are seeded alike are alike, to the bit and the nanosecond.
#[test]
fn runs_repeat_themselves() {
    if let Some(folder) = std::env::var_os("MPT_TRACES").map(PathBuf::from) {
        std::fs::create_dir_all(&folder).unwrap();
        for run in runs() {
            std::fs::write(folder.join(run.name), run.trace(1)).unwrap();
        }
        return;
    }
    for run in runs().iter().filter(|run| run.flows > 0).step_by(4) {
        assert_eq!(run.trace(SHORTER), run.trace(SHORTER), "{}", run.name);
    }
}

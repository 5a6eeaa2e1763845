//! TCP connections through a tunnel whose links lose and overtake: what one misses holds up no other, and each of them
//! keeps its order.
//!
//! `cargo test -p mpt-sim --test sim_connections -- --nocapture` prints how long segments take beside others, and alone.
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::time::Duration;

use mpt_core::control::ReorderStatus;
use mpt_core::time::Time;
use mpt_sim::packet::{Inner, Kind, id_of, source_port_of};
use mpt_sim::pair::{Pair, PairConfig, PathSpec, Side};

const SECOND: Duration = Duration::from_secs(1);
/// The connections' ports begin here.
const PORTS: u16 = 10_000;
/// Of each connection one segment in so many is missing before the tunnel, as one that a queue drops …
const LEFT_OUT: u64 = 40;
/// … and is sent again when so many that were sent after it have come.
const OVERTAKEN: usize = 3;

/// A connection's sender, and what came of what it sent.
#[derive(Default)]
struct Connection {
    next: u64,
    /// It was left out, and is to be sent again.
    owed: Option<u64>,
    /// The numbers of its segments, as they were sent and as they came.
    sent: Vec<u64>,
    sent_at: HashMap<u64, Time>,
    came: Vec<u64>,
}

impl Connection {
    /// The number of the segment that is sent next.
    fn next_id(&mut self) -> u64 {
        let is_missed = |owed: &u64| {
            let came = self.came.iter().rev().take_while(|id| *id > owed);
            came.count() >= OVERTAKEN
        };
        if let Some(owed) = self.owed.take_if(|owed| is_missed(owed)) {
            return owed;
        }
        if self.owed.is_none() && self.next % LEFT_OUT == LEFT_OUT - 1 {
            self.owed = Some(self.next);
            self.next += 1;
        }
        self.next += 1;
        self.next - 1
    }
}

/// What became of the segments of some connections.
struct Fared {
    connections: Vec<Connection>,
    /// How long each segment took, the shortest first.
    delays: Vec<Duration>,
    reorder: ReorderStatus,
    /// Packets whose number left the window behind a higher one.
    left_reordered: u64,
}

impl Fared {
    fn percentile(&self, percent: usize) -> Duration {
        self.delays[(self.delays.len() - 1) * percent / 100]
    }
}

/// Sends so many segments, one each millisecond, of so many connections in turn.
fn run(config: PairConfig, connections: u16, segments: u64) -> Fared {
    let mut pair = Pair::running(config, 2 * SECOND);
    let mut all: Vec<Connection> = (0..connections).map(|_| Connection::default()).collect();
    let mut delays = Vec::new();
    for turn in 0..segments + 2000 {
        if turn < segments {
            let index = (turn % u64::from(connections)) as u16;
            let connection = &mut all[usize::from(index)];
            let id = connection.next_id();
            connection.sent.push(id);
            connection.sent_at.insert(id, pair.now());
            let inner = Inner {
                kind: Kind::Segment,
                source_port: PORTS + index,
                ..Inner::default()
            };
            pair.send(Side::A, inner.packet(id));
        }
        pair.run_for(Duration::from_millis(1));
        for (at, packet) in pair.delivered(Side::B) {
            let index = source_port_of(&packet).unwrap() - PORTS;
            let connection = &mut all[usize::from(index)];
            let id = id_of(&packet).unwrap();
            connection.came.push(id);
            delays.push(at.since(connection.sent_at[&id]));
        }
    }
    delays.sort();
    let now = pair.now();
    let order = pair.end_mut(Side::B).order(now);
    Fared {
        connections: all,
        delays,
        reorder: pair.end(Side::B).reorder(),
        left_reordered: order.leaving.since_start.reordering.reordered,
    }
}

fn links() -> [[PathSpec; 2]; 3] {
    [
        [
            PathSpec::symmetric(5, 10).losing(0.02),
            PathSpec::symmetric(5, 25),
        ],
        [
            PathSpec::symmetric(6, 60),
            PathSpec::overtaking(4, 20, 5).losing(0.01),
        ],
        [
            PathSpec::symmetric(20, 40).losing(0.03),
            PathSpec::symmetric(2, 40),
        ],
    ]
}

#[test]
fn each_connection_keeps_its_order_and_waits_for_no_other() {
    println!("ms, in the median and for 90 and 99 %: twelve connections, one");
    for (at, paths) in links().into_iter().enumerate() {
        let config = PairConfig::adaptive(paths);
        let [many, one] = [12, 1].map(|count| run(config.clone(), count, 20_000));
        let ms = |fared: &Fared| {
            [50, 90, 99].map(|percent| fared.percentile(percent).as_secs_f64() * 1e3)
        };
        let passed = [&many, &one].map(|fared| fared.reorder.passed);
        println!(
            "{at}: {:.1?}, {:.1?}; {passed:?} waited for no others",
            ms(&many),
            ms(&one)
        );
        for fared in [&many, &one] {
            for (port, connection) in fared.connections.iter().enumerate() {
                assert_eq!(connection.sent, connection.came, "{at}: {port}");
            }
            assert_eq!((fared.left_reordered, fared.reorder.held), (0, 0), "{at}");
        }
        assert!(many.percentile(90) < one.percentile(90), "{at}");
        assert!(passed[0] > 1000 && passed[1] == 0, "{at}: {passed:?}");
    }
}

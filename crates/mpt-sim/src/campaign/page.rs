//! A page: objects over a few connections, as browsers load what HTTP/1.1 brings.
//!
//! The client is at [`Side::B`]. Each connection begins with a round trip for its handshake; then the client asks for one
//! object after the other, each when the one before has come. A request or its answer that is lost is sent again after a
//! second (RFC 6298 section 2.1).

use std::time::Duration;

use mpt_core::time::Time;

use crate::packet::{Inner, Kind, id_of, source_port_of};
use crate::pair::{Pair, Side};
use crate::source::{Flow, Sender};

/// Connections, as browsers open them to one host.
const CONNECTIONS: u16 = 6;
/// Objects over each, and full segments in one: 50 kB, as in the lab's page of 30 objects.
const OBJECTS: u64 = 5;
const OBJECT_SEGMENTS: u64 = 37;
/// Bytes of a segment's packet, of a SYN, and of a request.
const SEGMENT_BYTES: usize = 1400;
const SYN_BYTES: usize = 60;
const REQUEST_BYTES: usize = 400;
/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(1);
/// Ports: a flow's own, and that of its requests, count up from these, 100 a page.
const FLOW_PORT: u16 = 6000;
const REQUEST_PORT: u16 = 6050;
const PORTS_A_PAGE: u16 = 100;

/// One page that is being loaded.
pub(super) struct Page {
    began: Time,
    /// Which of a run it is.
    number: u16,
    connections: Vec<Connection>,
    is_done: bool,
}

/// The client asks for this: first the handshake, then an object each.
struct Connection {
    flow: Flow,
    /// What its requests are.
    inner: Inner,
    /// The request that was made last; 0 is the handshake's.
    asked: u64,
    /// When it is made again, if it is not answered.
    again_at: Option<Time>,
    /// How many requests the server has seen.
    seen: u64,
}

impl Page {
    /// A page that begins now, after another one of the same run.
    pub(super) fn new(sender: Sender, now: Time, before: Option<&Page>) -> Page {
        let number = before.map_or(0, |before| before.number + 1);
        let connection = |index| {
            let port = number * PORTS_A_PAGE + index;
            Connection {
                flow: Flow::of(sender, Side::A, SEGMENT_BYTES)
                    .with_port(FLOW_PORT + port)
                    .on_demand(),
                inner: Inner {
                    source_port: REQUEST_PORT + port,
                    kind: Kind::Segment,
                    ..Inner::default()
                },
                asked: 0,
                again_at: Some(now),
                seen: 0,
            }
        };
        Page {
            began: now,
            number,
            connections: (0..CONNECTIONS).map(connection).collect(),
            is_done: false,
        }
    }

    /// When it began.
    pub(super) fn began(&self) -> Time {
        self.began
    }

    /// Data that arrived in order, in bytes.
    pub(super) fn received_bytes(&self) -> u64 {
        let flows = self.connections.iter().map(|connection| &connection.flow);
        flows.map(Flow::received_bytes).sum()
    }

    /// When [`Page::act`] is to be called at the latest.
    pub(super) fn deadline(&self) -> Option<Time> {
        if self.is_done {
            return None;
        }
        let connections = self.connections.iter();
        connections
            .flat_map(|one| [one.again_at, Some(one.flow.deadline())])
            .flatten()
            .min()
    }

    /// Does what is due.
    pub(super) fn act(&mut self, pair: &mut Pair) {
        if self.is_done {
            return;
        }
        for connection in &mut self.connections {
            if connection.again_at.is_some_and(|at| at <= pair.now()) {
                connection.ask(pair);
            }
            connection.flow.handle_timeout(pair.now());
            connection.flow.send(pair);
        }
    }

    /// Takes what came out at `side`. Returns how long the page took, if that was the last of it.
    pub(super) fn take(
        &mut self,
        pair: &mut Pair,
        side: Side,
        arrived: &[(Time, Vec<u8>)],
    ) -> Option<Duration> {
        if self.is_done {
            return None;
        }
        for connection in &mut self.connections {
            connection.take(pair, side, arrived);
        }
        let objects = OBJECTS * OBJECT_SEGMENTS;
        let mut connections = self.connections.iter();
        self.is_done = connections.all(|one| one.flow.received_segments() == objects);
        self.is_done.then(|| pair.now().since(self.began))
    }
}

impl Connection {
    fn ask(&mut self, pair: &mut Pair) {
        let request = Inner {
            len: match self.asked {
                0 => SYN_BYTES,
                _ => REQUEST_BYTES,
            },
            ..self.inner
        };
        self.again_at = Some(pair.now() + PATIENCE);
        pair.send(Side::B, request.packet(self.asked));
    }

    fn take(&mut self, pair: &mut Pair, side: Side, arrived: &[(Time, Vec<u8>)]) {
        self.flow.take(pair, side, arrived);
        let is_ours =
            |packet: &&(Time, Vec<u8>)| source_port_of(&packet.1) == Some(self.inner.source_port);
        let ids: Vec<u64> = arrived
            .iter()
            .filter(is_ours)
            .filter_map(|(_, packet)| id_of(packet))
            .collect();
        for id in ids {
            match side {
                Side::A => self.serve(pair, id),
                Side::B if self.asked == 0 => self.ask_next(pair),
                Side::B => {}
            }
        }
        if side == Side::B && self.asked > 0 {
            let received = self.flow.received_segments();
            if received > (self.asked - 1) * OBJECT_SEGMENTS {
                self.again_at = None;
            }
            if received == self.asked * OBJECT_SEGMENTS && self.asked < OBJECTS {
                self.ask_next(pair);
            }
        }
    }

    fn ask_next(&mut self, pair: &mut Pair) {
        self.asked += 1;
        self.ask(pair);
    }

    /// The server answers: a handshake with one packet, a request, the first time, with an object.
    fn serve(&mut self, pair: &mut Pair, id: u64) {
        if id == 0 {
            let answer = Inner {
                len: SYN_BYTES,
                ..self.inner
            };
            pair.send(Side::A, answer.packet(0));
        } else if id > self.seen {
            self.seen = id;
            self.flow.offer(pair.now(), OBJECT_SEGMENTS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::family::{Case, Family};
    use super::*;
    use crate::pair::PathSpec;
    use mpt_core::send::scheduler::Policy;

    #[test]
    fn a_page_takes_its_round_trips_and_its_bytes() {
        let mut case = Case::draw(Family::Pages, 1);
        case.paths = vec![PathSpec::symmetric(20, 10)];
        let run = case.run_once(Sender::Cubic, Policy::Weighted, false);
        let bytes = u64::from(CONNECTIONS) * OBJECTS * OBJECT_SEGMENTS * 1372;
        assert_eq!(run.bytes.iter().sum::<u64>(), 3 * bytes);
        assert_eq!(run.pages.len(), 3);
        for (_, took) in run.pages {
            // 20 Mbit/s take 637 ms, the first round trips 40 ms; the last object of each connection comes alone.
            assert!((660..1100).contains(&took.as_millis()), "{took:?}");
        }
    }
}

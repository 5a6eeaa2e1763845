//! A tunnel over one path, and who sends into it sees each numbered datagram that leaves.
//!
//! Both ends are the tunnel's own code with the adaptive scheduler and recovery, as the daemon has them
//! by default, in virtual time. What [`stream`] sends can be delayed or lost by the datagram; what is
//! sent again, and what comes back, is neither.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use mpt_core::send::scheduler::Policy;
use mpt_core::time::Time;
use mpt_core::wire::gre;
use mpt_sim::delay::Delay;
use mpt_sim::link::{LinkConfig, Order};
use mpt_sim::loss::Loss;
use mpt_sim::packet::{Inner, id_of};
use mpt_sim::pair::{Pair, PairConfig, PathSpec, Side};

use crate::signaling::RTT_NS;

/// IPv4 and UDP of the inner packets.
const INNER_HEADERS: usize = 28;
/// The path is probed for this long before anything is sent.
const WARM_UP: Duration = Duration::from_secs(2);
/// What the last datagrams are given to arrive.
const AFTERWARDS: Duration = Duration::from_secs(2);

/// What happens to a datagram on its way, the first time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Fate {
    pub(crate) extra_ns: u64,
    pub(crate) lost: bool,
}

/// What came of a stream.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// From sending into the tunnel until it came out, by datagram.
    pub(crate) delays: Vec<Option<Duration>>,
    /// Datagrams that were sent again, and how long after they were sent into the tunnel.
    pub(crate) resent: Vec<(usize, Duration)>,
    /// Reports that the sender got.
    pub(crate) reports: usize,
    /// Datagrams that the sender's own queue held back for a while; their fates passed them by.
    pub(crate) waited: usize,
}

/// One path, watched at its beginning.
pub(crate) struct TunnelPath {
    pub(crate) pair: Pair,
    payload: usize,
    /// Numbers that left since they were last looked at.
    left: Rc<RefCell<Vec<u32>>>,
    /// Number of the first datagram.
    first: Option<u32>,
    /// When each datagram was sent into the tunnel.
    sent: Vec<Time>,
    /// How many of them have left.
    begun: usize,
    outcome: Outcome,
}

impl TunnelPath {
    /// A path whose two directions are as `link` with half the round trip of delay, running.
    pub(crate) fn new(link: LinkConfig, payload: usize, seed: u64) -> TunnelPath {
        let link = LinkConfig {
            delay: Delay::Constant { ns: RTT_NS / 2 },
            ..link
        };
        let spec = PathSpec {
            links: [link.clone(), link],
            ..PathSpec::symmetric(10, 0)
        };
        let config = PairConfig {
            policy: Policy::Adaptive,
            recovery: true,
            // So that numbers can be read on the way.
            sealed: false,
            seed: seed + 1,
            ..PairConfig::new([spec])
        };
        let mut pair = Pair::running(config, WARM_UP);
        let left = Rc::new(RefCell::new(Vec::new()));
        let tap = Rc::clone(&left);
        pair.on_the_way(move |from, wire| {
            let header = gre::parse(&wire.bytes, None).ok().map(|(header, _)| header);
            let number = header.and_then(|header| header.sequence);
            let ours = number.filter(|_| from == Side::A);
            tap.borrow_mut().extend(ours.map(|seq| seq.value()));
            true
        });
        TunnelPath {
            pair,
            payload,
            left,
            first: None,
            sent: Vec::new(),
            begun: 0,
            outcome: Outcome::default(),
        }
    }

    /// Sends the next datagram into the tunnel.
    pub(crate) fn send(&mut self) {
        let id = self.sent.len();
        self.sent.push(self.pair.now());
        self.outcome.delays.push(None);
        let inner = Inner::of_len(INNER_HEADERS + self.payload);
        self.pair.send(Side::A, inner.packet(id as u64));
        self.look();
    }

    pub(crate) fn run_until(&mut self, until: Time) {
        while self.pair.step(until) {
            self.look();
        }
        self.collect();
    }

    /// Everything that came of it until now and a while later, and when each datagram was sent.
    pub(crate) fn end(mut self) -> (Outcome, Vec<Time>) {
        self.run_until(self.pair.now() + AFTERWARDS);
        assert_eq!(self.begun, self.sent.len(), "a datagram never left");
        (self.outcome, self.sent)
    }

    /// What left at this moment: new, or again?
    fn look(&mut self) {
        let now = self.pair.now();
        for number in self.left.borrow_mut().drain(..) {
            let first = *self.first.get_or_insert(number);
            let id = number.wrapping_sub(first) as usize;
            if id < self.begun {
                let after = now.since(self.sent[id]);
                self.outcome.resent.push((id, after));
            } else {
                self.outcome.waited += usize::from(now != self.sent[id]);
                self.begun += 1;
            }
        }
    }

    fn collect(&mut self) {
        self.outcome.reports += self.pair.reports(Side::A).len();
        for (at, packet) in self.pair.delivered(Side::B) {
            let id = id_of(&packet).and_then(|id| usize::try_from(id).ok());
            if let Some(id) = id.filter(|&id| id < self.sent.len()) {
                let delay = at.since(self.sent[id]);
                self.outcome.delays[id].get_or_insert(delay);
            }
        }
    }
}

/// A datagram of `payload` bytes every `interval_ns`, each with its fate.
pub(crate) fn stream(payload: usize, interval_ns: u64, fates: &[Fate], seed: u64) -> Outcome {
    let link = LinkConfig {
        order: Order::ByDelay,
        ..LinkConfig::default()
    };
    let mut path = TunnelPath::new(link, payload, seed);
    let mut at = path.pair.now();
    for fate in fates {
        path.run_until(at);
        let usual = path.pair.link(0, Side::A).config.clone();
        let link = &mut path.pair.link(0, Side::A).config;
        link.delay = Delay::Constant {
            ns: RTT_NS / 2 + fate.extra_ns,
        };
        if fate.lost {
            link.loss = Loss::Independent { probability: 1.0 };
        }
        path.send();
        path.pair.link(0, Side::A).config = usual;
        at = at + Duration::from_nanos(interval_ns);
    }
    path.end().0
}

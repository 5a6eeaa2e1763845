//! A sender that fills up a lost tail, as *RACK for SCTP* §5 has it, with whichever burst limit.
//!
//! The tunnel has one burst limit and no knob for it. What others would do is modelled: all that was
//! lost is known at time zero; each report lets a portion go; what a report shows to have been overtaken
//! is lost again; after two round trips of silence the newest goes again. Packets meet a bottleneck with
//! a short queue, reports do not.

use std::collections::VecDeque;

use mpt_sim::delay::{Delay, MS};
use mpt_sim::link::{Link, LinkConfig};

use crate::signaling::RTT_NS;

/// Time goes in steps of this.
const TICK_NS: u64 = MS / 20;
/// A recovery that takes longer is ended.
const LONGEST_NS: u64 = 60_000 * MS;
/// As the tunnel's reports.
const REPORT_INTERVAL_NS: u64 = 5 * MS;

/// How many packets each report lets go.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Limit {
    Unlimited,
    Fixed(f64),
    /// In the first round trip and later; what is lost again takes off 1 or 0.25, down to 2 and 1.25.
    Adaptive {
        first: f64,
        later: f64,
    },
}

impl Limit {
    pub(crate) const ADAPTIVE: Limit = Limit::Adaptive {
        first: 4.0,
        later: 2.0,
    };

    fn portion(self, is_first_round: bool) -> f64 {
        match self {
            Limit::Unlimited => f64::INFINITY,
            Limit::Fixed(packets) => packets,
            Limit::Adaptive { first, .. } if is_first_round => first,
            Limit::Adaptive { later, .. } => later,
        }
    }

    fn back_off(&mut self, is_first_round: bool) {
        if let Limit::Adaptive { first, later } = self {
            if is_first_round {
                *first = (*first - 1.0).max(2.0);
            } else {
                *later = (*later - 0.25).max(1.25);
            }
        }
    }
}

/// When the receiver reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reports {
    /// On each packet, as SCTP's acknowledgements of what is out of order.
    EachPacket,
    /// Every 5 ms, and a portion goes every 5 ms even without, as the tunnel does it.
    Paced,
}

/// What came of it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Recovered {
    /// Until the last has arrived.
    pub(crate) took_ns: u64,
    pub(crate) sent: u64,
    pub(crate) dropped: u64,
    /// Packets sent in the first round trip and in the second.
    pub(crate) rounds: [usize; 2],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Packet {
    Lost,
    /// As the how-manieth of all.
    Sent(u64),
    Known,
}

/// What a report says: which arrived, and the newest of what was sent.
struct Report {
    comes_ns: u64,
    arrived: Vec<bool>,
    newest: u64,
}

struct Tail {
    limit: Limit,
    link: Link<(usize, u64)>,
    packets: Vec<Packet>,
    reports: VecDeque<Report>,
    arrived: Vec<bool>,
    newest: u64,
    due_ns: Option<u64>,
    allowance: f64,
    heard_ns: u64,
    refilled_ns: u64,
    sent: Vec<u64>,
}

/// Sends `packets` lost packets again, of `bytes` each; the limit keeps what it learnt.
pub(crate) fn recover(
    packets: usize,
    bytes: usize,
    link: &LinkConfig,
    limit: &mut Limit,
    reports: Reports,
) -> Recovered {
    let config = LinkConfig {
        delay: Delay::Constant { ns: RTT_NS / 2 },
        ..link.clone()
    };
    let mut tail = Tail {
        limit: *limit,
        link: Link::new(config, 1),
        packets: vec![Packet::Lost; packets],
        reports: VecDeque::new(),
        arrived: vec![false; packets],
        newest: 0,
        due_ns: None,
        allowance: limit.portion(true),
        heard_ns: 0,
        refilled_ns: 0,
        sent: Vec::new(),
    };
    let mut now_ns = 0;
    while now_ns < LONGEST_NS && !tail.arrived.iter().all(|&arrived| arrived) {
        tail.receive(now_ns, reports);
        tail.hear(now_ns, reports);
        tail.send(now_ns, bytes);
        now_ns += TICK_NS;
    }
    *limit = tail.limit;
    Recovered {
        took_ns: now_ns,
        sent: tail.sent.len() as u64,
        dropped: tail.link.counters().dropped_queue_full,
        rounds: [0, 1].map(|round| tail.in_round(round)),
    }
}

impl Tail {
    fn receive(&mut self, now_ns: u64, reports: Reports) {
        while let Some((packet, serial)) = self.link.deliver(now_ns) {
            self.arrived[packet] = true;
            self.newest = self.newest.max(serial);
            match reports {
                Reports::EachPacket => self.report(now_ns),
                Reports::Paced if self.due_ns.is_none() => {
                    self.due_ns = Some(now_ns + REPORT_INTERVAL_NS);
                }
                Reports::Paced => {}
            }
        }
        if self.due_ns.is_some_and(|due_ns| due_ns <= now_ns) {
            self.due_ns = None;
            self.report(now_ns);
        }
    }

    fn report(&mut self, now_ns: u64) {
        self.reports.push_back(Report {
            comes_ns: now_ns + RTT_NS / 2,
            arrived: self.arrived.clone(),
            newest: self.newest,
        });
    }

    fn hear(&mut self, now_ns: u64, reports: Reports) {
        let is_first_round = now_ns < RTT_NS;
        while self.reports.front().is_some_and(|r| r.comes_ns <= now_ns) {
            if let Some(report) = self.reports.pop_front() {
                self.learn(&report, is_first_round);
                self.heard_ns = now_ns;
                self.refill(now_ns, is_first_round);
            }
        }
        if reports == Reports::Paced && now_ns - self.refilled_ns >= REPORT_INTERVAL_NS {
            self.refill(now_ns, is_first_round);
        }
        let last_sent_ns = self.sent.last().copied().unwrap_or_default();
        let nothing_waits = !self.packets.contains(&Packet::Lost);
        if nothing_waits && now_ns - last_sent_ns.max(self.heard_ns) >= 2 * RTT_NS {
            let newest = |packet: &&mut Packet| matches!(packet, Packet::Sent(_));
            if let Some(packet) = self.packets.iter_mut().rev().find(newest) {
                *packet = Packet::Lost;
                self.allowance = self.allowance.max(1.0);
            }
        }
    }

    fn learn(&mut self, report: &Report, is_first_round: bool) {
        for (packet, &arrived) in self.packets.iter_mut().zip(&report.arrived) {
            match *packet {
                _ if arrived => *packet = Packet::Known,
                Packet::Sent(serial) if serial < report.newest => {
                    *packet = Packet::Lost;
                    self.limit.back_off(is_first_round);
                }
                Packet::Sent(_) | Packet::Lost | Packet::Known => {}
            }
        }
    }

    /// A whole packet that was not used is not saved up, except for reports that come together.
    fn refill(&mut self, now_ns: u64, is_first_round: bool) {
        let portion = self.limit.portion(is_first_round);
        let kept = if self.refilled_ns == now_ns {
            self.allowance
        } else {
            self.allowance % 1.0
        };
        self.allowance = if portion.is_finite() {
            kept + portion
        } else {
            portion
        };
        self.refilled_ns = now_ns;
    }

    fn send(&mut self, now_ns: u64, bytes: usize) {
        let lost = |packet: &(usize, &mut Packet)| *packet.1 == Packet::Lost;
        for (index, packet) in self.packets.iter_mut().enumerate().filter(lost) {
            if self.allowance < 1.0 {
                return;
            }
            self.allowance -= 1.0;
            self.sent.push(now_ns);
            let serial = self.sent.len() as u64;
            *packet = Packet::Sent(serial);
            self.link.send(now_ns, bytes, (index, serial));
        }
    }

    /// Packets sent in this round trip.
    fn in_round(&self, round: u64) -> usize {
        let began_ns = round * RTT_NS;
        let is_in = |at_ns: &&u64| (began_ns..began_ns + RTT_NS).contains(*at_ns);
        self.sent.iter().filter(is_in).count()
    }
}

//! A run: the hosts at both ends of a case's links, what they send, and what happens to the links meanwhile.

use std::time::Duration;

use mpt_core::control::trace::Decision;
use mpt_core::time::Time;
use mpt_core::tunnel::Event;

use super::family::{Case, Change, Family, What};
use super::outcome::Run;
use super::page::Page;
use super::watch::Watch;
use crate::packet::{Inner, id_of, source_port_of};
use crate::pair::{Pair, Side};
use crate::source::{Flow, Sender};

/// The first of the ports to which a client goes over, or is put.
const OTHER_PORT: u16 = 40_000;
/// Bytes of a bulk flow's packets.
const BULK_BYTES: usize = 1400;
/// Ports: bulk flows count up from the first.
const FIRST_PORT: u16 = 4000;
const CALL_PORT: u16 = 3999;
const BESIDE_PORT: u16 = 3998;
/// A call: a packet of so many bytes each 20 ms (G.711 with headers).
const CALL_BYTES: usize = 200;
const CALL_EVERY: Duration = Duration::from_millis(20);
/// What was sent in this time before the end may still be under way, and does not count.
const CALL_UNDER_WAY: Duration = Duration::from_secs(2);
/// Others' packets, in bytes, and how long they come and pause.
const CROSS_BYTES: usize = 1500;
const CROSS_SPELL: Duration = Duration::from_secs(2);
/// When the other host's flow begins: the tunnel's has had its early phase alone.
pub(super) const BESIDE_FROM: Duration = Duration::from_secs(2);
pub(super) const SECOND: Duration = Duration::from_secs(1);

/// Whether others send at this time.
pub(super) fn others_send(at: Duration) -> bool {
    (at.as_nanos() / CROSS_SPELL.as_nanos()).is_multiple_of(2)
}

/// Does something to both directions of a path.
fn change_links(case: &Case, pair: &mut Pair, path: usize, what: What) {
    for side in Side::BOTH {
        let first = &case.paths[path].links[side as usize];
        what.apply(&mut pair.link(path, side).config, first);
    }
}

/// The decisions about a path so far.
#[derive(Debug, Default)]
pub(super) struct Traced {
    path: usize,
    next: u64,
    pub(super) decisions: Vec<Decision>,
}

impl Traced {
    pub(super) fn of(path: usize) -> Traced {
        Traced {
            path,
            ..Traced::default()
        }
    }

    /// Adds what is new: the sender itself does not keep all of it.
    fn take(&mut self, pair: &Pair) {
        let new = pair.end(Side::A).trace(self.path, self.next);
        self.next = new.first + new.decisions.len() as u64;
        self.decisions.extend(new.decisions);
    }
}

/// A bulk flow from this port that begins now.
fn bulk(sender: Sender, port: u16, now: Time) -> Flow {
    let mut flow = Flow::of(sender, Side::A, BULK_BYTES).with_port(port);
    flow.begin(now);
    flow
}

/// The hosts at both ends, and what happens to the links.
pub(super) struct World<'a> {
    case: &'a Case,
    sender: Sender,
    began: Time,
    flows: Vec<Flow>,
    next_change: usize,
    /// The port that is used next where one is given up.
    next_port: u16,
    next_call: Option<Time>,
    call_sent: Vec<Time>,
    next_cross: Option<Time>,
    next_beside: Option<Time>,
    /// The other host's flow, once it has begun.
    beside: Option<Flow>,
    page: Option<Page>,
    /// Bytes of pages that are over.
    paged: u64,
    pub(super) run: Run,
    pub(super) watch: Option<Watch>,
    pub(super) traced: Option<Traced>,
}

impl World<'_> {
    pub(super) fn new<'a>(case: &'a Case, sender: Sender, pair: &Pair) -> World<'a> {
        let began = pair.now();
        let flows = (0..case.traffic.bulk).map(|number| {
            let port = FIRST_PORT + number as u16;
            bulk(sender, port, began)
        });
        World {
            case,
            sender,
            began,
            flows: flows.collect(),
            next_change: 0,
            next_port: OTHER_PORT,
            next_call: case.traffic.call.then_some(began),
            call_sent: Vec::new(),
            next_cross: (case.traffic.cross_percent > 0).then_some(began),
            next_beside: case.traffic.beside.then_some(began + BESIDE_FROM),
            beside: None,
            page: None,
            paged: 0,
            run: Run::default(),
            watch: None,
            traced: None,
        }
    }

    pub(super) fn run(&mut self, pair: &mut Pair) {
        let (mut before, mut before_beside) = (0, 0);
        for second in 1..=self.case.seconds() as u32 {
            let phases = self.case.family.phases();
            if self.case.traffic.pages && phases.iter().any(|p| p.from as u32 + 1 == second) {
                self.open_page(pair);
            }
            let until = self.began + SECOND * second;
            while pair.now() < until {
                self.act(pair);
                let next = self.next().map_or(until, |next| next.min(until));
                pair.step(next);
                self.take(pair);
                if self.case.family == Family::Field {
                    self.renew(pair);
                }
                if let Some(watch) = &mut self.watch {
                    watch.look(pair, self.case, self.began, &self.flows);
                }
            }
            if let Some(traced) = &mut self.traced {
                traced.take(pair);
            }
            let pages = self.paged + self.page.as_ref().map_or(0, Page::received_bytes);
            let bulk: u64 = self.flows.iter().map(Flow::received_bytes).sum();
            let received = pages + bulk;
            self.run.bytes.push(received - before);
            before = received;
            if self.case.traffic.beside {
                let received = self.beside.as_ref().map_or(0, Flow::received_bytes);
                self.run.beside.push(received - before_beside);
                before_beside = received;
            }
        }
        let under_way = CALL_UNDER_WAY.as_micros() / CALL_EVERY.as_micros();
        let counts = self.run.call.len().saturating_sub(under_way as usize);
        self.run.call.truncate(counts);
    }

    /// When something is to be done at the latest.
    fn next(&self) -> Option<Time> {
        let change = self.case.changes.get(self.next_change);
        let change = change.map(|change| self.began + change.at);
        let flows = self.flows.iter().chain(&self.beside).map(Flow::deadline);
        let page = self.page.as_ref().and_then(Page::deadline);
        let others = [
            change,
            self.next_call,
            self.next_cross,
            self.next_beside,
            page,
        ];
        flows.chain(others.into_iter().flatten()).min()
    }

    fn act(&mut self, pair: &mut Pair) {
        let now = pair.now();
        while let Some(change) = self.case.changes.get(self.next_change)
            && self.began + change.at <= now
        {
            self.next_change += 1;
            change_links(self.case, pair, change.path, change.what);
            if change.what == What::Rebind {
                self.go_over(pair, change.path);
            }
        }
        if let Some(at) = self.next_call.filter(|&at| at <= now) {
            self.next_call = Some(at + CALL_EVERY);
            let call = Inner {
                source_port: CALL_PORT,
                ..Inner::of_len(CALL_BYTES)
            };
            pair.send(Side::A, call.packet(self.call_sent.len() as u64));
            self.call_sent.push(now);
            if now >= self.began + SECOND {
                self.run.call.push(None);
            }
        }
        if let Some(at) = self.next_cross.filter(|&at| at <= now) {
            self.cross(pair, at);
        }
        if self.next_beside.take_if(|at| *at <= now).is_some() {
            self.beside = Some(bulk(self.sender, BESIDE_PORT, now).beside(0));
        }
        for flow in self.flows.iter_mut().chain(&mut self.beside) {
            flow.handle_timeout(now);
            flow.send(pair);
        }
        if let Some(page) = &mut self.page {
            page.act(pair);
        }
    }

    /// Another page is asked for; what is left of the one before is given up.
    fn open_page(&mut self, pair: &Pair) {
        let next = Page::new(self.sender, pair.now(), self.page.as_ref());
        if let Some(before) = self.page.replace(next) {
            self.paged += before.received_bytes();
        }
    }

    /// The client, when it is not answered on a path, goes over to another port, as the daemon does: what was done to
    /// the 5-tuple of before is over. The server's port is known to all, and stays.
    fn renew(&mut self, pair: &mut Pair) {
        pair.events(Side::A);
        for (_, event) in pair.events(Side::B) {
            let Event::NotAnswered { path, .. } = event else {
                continue;
            };
            self.go_over(pair, path.index());
            let now = pair.end(Side::B).local(pair.now());
            pair.end_mut(Side::B).inbound.open_path(now, path);
            let mut past = self.case.changes[..self.next_change].iter();
            let is_spoilt = |change: &Change| {
                change.path == path.index() && matches!(change.what, What::Tuple(_))
            };
            if past.any(is_spoilt) {
                change_links(self.case, pair, path.index(), What::Restore);
                for side in Side::BOTH {
                    pair.link(path.index(), side).drop_queue();
                }
            }
        }
    }

    /// The client's packets come from another port from now on.
    fn go_over(&mut self, pair: &mut Pair, path: usize) {
        let mut address = pair.address(Side::B, path);
        address.set_port(self.next_port);
        self.next_port = self.next_port.wrapping_add(1).max(OTHER_PORT);
        pair.move_to(Side::B, path, address);
    }

    /// Others send a packet over path 0.
    fn cross(&mut self, pair: &mut Pair, at: Time) {
        let since = at.since(self.began);
        if !others_send(since) {
            let spell = (since.as_nanos() / CROSS_SPELL.as_nanos()) as u32;
            self.next_cross = Some(self.began + CROSS_SPELL * (spell + 1));
            return;
        }
        let rate = self.case.paths[0].links[0].rate_bps.unwrap_or(0);
        let bps = rate as f64 * f64::from(self.case.traffic.cross_percent) / 100.0;
        pair.link(0, Side::A).occupy(at.as_nanos(), CROSS_BYTES);
        let gap = CROSS_BYTES as f64 * 8.0 / bps.max(1.0);
        self.next_cross = Some(at + Duration::from_secs_f64(gap));
    }

    fn take(&mut self, pair: &mut Pair) {
        for side in Side::BOTH {
            if let Some(flow) = &mut self.beside {
                let arrived = flow.delivered(pair, side);
                flow.take(pair, side, &arrived);
            }
            let arrived = pair.delivered(side);
            if arrived.is_empty() {
                continue;
            }
            for flow in &mut self.flows {
                flow.take(pair, side, &arrived);
            }
            if let Some(page) = &mut self.page
                && let Some(took) = page.take(pair, side, &arrived)
            {
                self.run.pages.push((page.began().since(self.began), took));
            }
            if self.next_call.is_some() && side == Side::B {
                self.take_call(&arrived);
            }
        }
    }

    fn take_call(&mut self, arrived: &[(Time, Vec<u8>)]) {
        let skipped = self.call_sent.len() - self.run.call.len();
        for (at, packet) in arrived {
            if source_port_of(packet) == Some(CALL_PORT)
                && let Some(number) = id_of(packet)
                && let Some(sent) = self.call_sent.get(number as usize)
                && let Some(place) = (number as usize).checked_sub(skipped)
                && let Some(delay) = self.run.call.get_mut(place)
            {
                delay.get_or_insert(at.since(*sent));
            }
        }
    }
}

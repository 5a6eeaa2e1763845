//! One case, run: over the tunnel, and over each of its links alone.

use std::time::Duration;

use mpt_core::control::trace::Decision;
use mpt_core::send::scheduler::Policy;
use mpt_core::time::Time;
use mpt_core::tunnel::Event;

use super::family::{Case, Change, Family, Phase, What};
use super::page::Page;
use super::watch::Watch;
use crate::link::LinkConfig;
use crate::packet::{Inner, id_of, source_port_of};
use crate::pair::{Pair, PairConfig, Side};
use crate::source::{Flow, Sender};

/// The ends run for this long before the traffic begins: paths are up, and probes know their delays.
const WARM_UP: Duration = Duration::from_secs(1);
/// The first of the ports to which a client goes over, or is put.
const OTHER_PORT: u16 = 40_000;
/// Bytes of a bulk flow's packets.
const BULK_BYTES: usize = 1400;
/// Data in one, and what of it is on the wire: 28 bytes of IPv4 and UDP, 8 of GRE.
const PAYLOAD: f64 = 1372.0 / 1436.0;
/// The same where it is sealed: 22 bytes more.
const SEALED_PAYLOAD: f64 = 1372.0 / 1458.0;
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
const BESIDE_FROM: Duration = Duration::from_secs(2);
const SECOND: Duration = Duration::from_secs(1);

/// What one run gave.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Run {
    /// Bytes of bulk data that arrived in order in each second.
    pub bytes: Vec<u64>,
    /// One-way delay of the call's packets that were sent after the first second and before the last two;
    /// `None` where one did not arrive.
    pub call: Vec<Option<Duration>>,
    /// How long each page took that was loaded to its end, and when it began.
    pub pages: Vec<(Duration, Duration)>,
    /// Bytes of the other host's flow that arrived in order in each second.
    pub beside: Vec<u64>,
}

/// What was measured of one phase.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// The tunnel's goodput, in bits a second.
    pub bond_bps: f64,
    /// That of the best link alone.
    pub best_bps: f64,
    /// What all links together could carry, had each of them the rate that it has then and lost what it
    /// loses.
    pub sum_bps: f64,
}

impl Measured {
    /// The tunnel's goodput in parts of the best link's.
    #[must_use]
    pub fn of_best(&self) -> f64 {
        self.bond_bps / self.best_bps.max(1.0)
    }

    /// The tunnel's goodput in parts of the sum.
    #[must_use]
    pub fn of_sum(&self) -> f64 {
        self.bond_bps / self.sum_bps.max(1.0)
    }
}

/// A case with what it came to.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The case.
    pub case: Case,
    /// For each phase of its family.
    pub phases: Vec<Measured>,
    /// 99th percentile of the call's delay beyond that of the best link alone, in ms, where there is a call.
    pub call_later_ms: Option<f64>,
    /// What the other host's flow keeps in the last phase, in parts of what it has beside a plain path, where there is one.
    pub beside_keeps: Option<f64>,
}

impl Case {
    /// Runs it over the tunnel and over each link alone.
    #[must_use]
    pub fn run(self, sender: Sender) -> Outcome {
        let alone = self.runs_alone(sender);
        self.run_beside(sender, &alone)
    }

    /// Runs it over each link alone.
    #[must_use]
    pub fn runs_alone(&self, sender: Sender) -> Vec<Run> {
        (0..self.paths.len())
            .map(|path| self.alone(path).run_once(sender, Policy::Weighted, false))
            .collect()
    }

    /// Runs it over the tunnel, to be compared with what each link alone gave.
    #[must_use]
    pub fn run_beside(self, sender: Sender, alone: &[Run]) -> Outcome {
        let bond = self.run_once(sender, Policy::Adaptive, true);
        let phases = self.family.phases().iter();
        let phases = phases.map(|phase| Measured {
            bond_bps: bond.goodput_bps(*phase),
            best_bps: alone
                .iter()
                .map(|run| run.goodput_bps(*phase))
                .fold(0.0, f64::max),
            sum_bps: self.sum_bps(*phase),
        });
        let call_later_ms = bond.call_p99_ms().map(|bond| {
            let best = alone.iter().filter_map(Run::call_p99_ms);
            bond - best.fold(f64::INFINITY, f64::min)
        });
        let last = self.family.phases().last().filter(|_| self.traffic.beside);
        let beside_keeps = last
            .zip(alone.first())
            .map(|(phase, plain)| bond.beside_bps(*phase) / plain.beside_bps(*phase).max(1.0));
        Outcome {
            phases: phases.collect(),
            call_later_ms,
            beside_keeps,
            case: self,
        }
    }

    /// Runs it once, over all links that it has.
    #[must_use]
    pub fn run_once(&self, sender: Sender, policy: Policy, recovery: bool) -> Run {
        let mut pair = self.pair(policy, recovery);
        let mut world = World::new(self, sender, &pair);
        world.run(&mut pair);
        world.run
    }

    /// Runs it once over the tunnel, and says so often what its sender believes: a line each time.
    #[must_use]
    pub fn watched(&self, sender: Sender, every: Duration) -> Vec<String> {
        let mut pair = self.bonded();
        let mut world = World::new(self, sender, &pair);
        world.watch = Some(Watch::new(every, pair.now()));
        world.run(&mut pair);
        world.watch.map(Watch::into_lines).unwrap_or_default()
    }

    /// Runs it once over the tunnel. Returns what its sender decided about the rate of a path, and why; times are
    /// since the flows began.
    #[must_use]
    pub fn traced(&self, sender: Sender, path: usize) -> Vec<Decision> {
        let mut pair = self.bonded();
        let began_us = pair.end(Side::A).local(pair.now()).as_nanos() / 1000;
        let mut world = World::new(self, sender, &pair);
        world.traced = Some(Traced::of(path));
        world.run(&mut pair);
        let mut decisions = world.traced.unwrap_or_default().decisions;
        for decision in &mut decisions {
            decision.at_us = decision.at_us.saturating_sub(began_us);
        }
        decisions
    }

    /// Both ends, over all links that it has, as people run them.
    fn bonded(&self) -> Pair {
        self.pair(Policy::Adaptive, true)
    }

    fn pair(&self, policy: Policy, recovery: bool) -> Pair {
        let mut config = PairConfig {
            policy,
            recovery,
            seed: self.seed,
            law: self.law,
            ..PairConfig::new(self.paths.clone())
        };
        if self.family == Family::Field {
            // The client is behind translators of addresses; whom it calls knows it by its key.
            config = config.sealed();
            config.waits_to_be_called = Some(Side::A);
        }
        Pair::running(config, WARM_UP)
    }

    /// What all links carry together in a phase, in bits of data a second.
    fn sum_bps(&self, phase: Phase) -> f64 {
        (0..self.paths.len())
            .map(|path| {
                let steps = (phase.to - phase.from) * 20;
                let mean = (0..steps)
                    .map(|step| {
                        let at = SECOND * phase.from as u32 + SECOND * step as u32 / 20;
                        let link = self.link_at(path, at);
                        let others = match path {
                            0 if self.traffic.beside && at >= BESIDE_FROM => 0.5,
                            0 if others_send(at) => f64::from(self.traffic.cross_percent) / 100.0,
                            _ => 0.0,
                        };
                        match link.up {
                            true => {
                                link.carries_bps() as f64
                                    * (1.0 - link.loss.mean())
                                    * (1.0 - others)
                            }
                            false => 0.0,
                        }
                    })
                    .sum::<f64>()
                    / steps as f64;
                mean * self.payload()
            })
            .sum()
    }

    /// The share of what is on the wire that is data.
    fn payload(&self) -> f64 {
        if self.family == Family::Field {
            SEALED_PAYLOAD
        } else {
            PAYLOAD
        }
    }

    /// The link there as it is at a time.
    fn link_at(&self, path: usize, at: Duration) -> LinkConfig {
        let first = &self.paths[path].links[0];
        let mut link = first.clone();
        let done = |change: &&Change| change.path == path && change.holds_at(at);
        for change in self.changes.iter().filter(done) {
            change.what.apply(&mut link, first);
        }
        link
    }
}

impl Run {
    /// Mean goodput of a phase, in bits a second; if a page was loaded in it, until it was.
    #[must_use]
    pub fn goodput_bps(&self, phase: Phase) -> f64 {
        let bytes: u64 = self.bytes[phase.from..phase.to].iter().sum();
        let from = SECOND * phase.from as u32;
        let page = self.pages.iter().find(|(began, _)| *began == from);
        let took = page.map_or(SECOND * (phase.to - phase.from) as u32, |&(_, took)| took);
        bytes as f64 * 8.0 / took.as_secs_f64()
    }

    /// Mean goodput of the other host's flow in a phase, in bits a second.
    fn beside_bps(&self, phase: Phase) -> f64 {
        let bytes: u64 = self.beside[phase.from..phase.to].iter().sum();
        bytes as f64 * 8.0 / (phase.to - phase.from) as f64
    }

    /// 99th percentile of the call's delay; a packet that did not arrive took for ever.
    fn call_p99_ms(&self) -> Option<f64> {
        let ms = |delay: &Option<Duration>| delay.map_or(10_000.0, |d| d.as_secs_f64() * 1e3);
        let mut delays: Vec<f64> = self.call.iter().map(ms).collect();
        delays.sort_by(f64::total_cmp);
        let at = (delays.len() * 99).div_ceil(100).checked_sub(1)?;
        delays.get(at).copied()
    }
}

/// Whether others send at this time.
fn others_send(at: Duration) -> bool {
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
struct Traced {
    path: usize,
    next: u64,
    decisions: Vec<Decision>,
}

impl Traced {
    fn of(path: usize) -> Traced {
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

/// The hosts at both ends, and what happens to the links.
struct World<'a> {
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
    /// The other host's flow.
    beside: Option<Flow>,
    page: Option<Page>,
    /// Bytes of pages that are over.
    paged: u64,
    run: Run,
    watch: Option<Watch>,
    traced: Option<Traced>,
}

impl World<'_> {
    fn new<'a>(case: &'a Case, sender: Sender, pair: &Pair) -> World<'a> {
        let began = pair.now();
        let flows = (0..case.traffic.bulk).map(|number| {
            let port = FIRST_PORT + number as u16;
            let mut flow = Flow::of(sender, Side::A, BULK_BYTES).with_port(port);
            flow.begin(began);
            flow
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
            beside: None,
            page: None,
            paged: 0,
            run: Run::default(),
            watch: None,
            traced: None,
        }
    }

    fn run(&mut self, pair: &mut Pair) {
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
        let beside =
            (self.case.traffic.beside && self.beside.is_none()).then_some(self.began + BESIDE_FROM);
        let flows = self.flows.iter().chain(&self.beside).map(Flow::deadline);
        let page = self.page.as_ref().and_then(Page::deadline);
        let others = [change, self.next_call, self.next_cross, beside, page];
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
        if self.beside.is_none() && self.case.traffic.beside && now >= self.began + BESIDE_FROM {
            let flow = Flow::of(self.sender, Side::A, BULK_BYTES).with_port(BESIDE_PORT);
            let mut flow = flow.beside(0);
            flow.begin(now);
            self.beside = Some(flow);
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
                let arrived = pair.delivered_beside(side);
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

#[cfg(test)]
mod tests {
    use mpt_core::send::scheduler::law::Law;

    use super::super::family::{Family, Traffic, What};
    use super::*;
    use crate::pair::PathSpec;

    fn case(paths: Vec<PathSpec>, changes: Vec<Change>, traffic: Traffic) -> Case {
        Case {
            family: Family::Pairs,
            seed: 1,
            paths,
            changes,
            traffic,
            group: "",
            weathers: Vec::new(),
            law: &Law::LAW,
        }
    }

    const BULK: Traffic = Traffic {
        bulk: 1,
        pages: false,
        call: false,
        cross_percent: 0,
        beside: false,
    };

    #[test]
    fn two_clean_links_are_worth_their_sum() {
        let paths = vec![PathSpec::symmetric(20, 10), PathSpec::symmetric(10, 15)];
        let outcome = case(paths, Vec::new(), BULK).run(Sender::Reno);
        let late = outcome.phases[1];
        assert!((1.4..1.51).contains(&late.of_best()), "{late:?}");
        assert!((0.95..1.01).contains(&late.of_sum()), "{late:?}");
    }

    #[test]
    fn a_link_that_dies_leaves_the_sum_with_it() {
        let change = |seconds, what| Change {
            at: SECOND * seconds,
            path: 0,
            what,
        };
        let changes = vec![change(6, What::Rate(0.5)), change(9, What::Up(false))];
        let paths = vec![PathSpec::symmetric(20, 10)];
        let case = case(paths, changes, BULK);
        let late = case.sum_bps(Family::Pairs.phases()[1]);
        assert!((late / PAYLOAD - 5e6).abs() < 1e5, "{late}");
        let run = case.run_once(Sender::Reno, Policy::Weighted, false);
        assert!(run.bytes[5] > 2_000_000 && run.bytes[8] > 1_000_000);
        assert_eq!(run.bytes[11], 0);
    }

    #[test]
    fn others_on_a_link_leave_less_of_it() {
        let paths = vec![PathSpec::symmetric(20, 10)];
        let crossed = Traffic {
            cross_percent: 50,
            ..BULK
        };
        let run = case(paths, Vec::new(), crossed).run_once(Sender::Reno, Policy::Weighted, false);
        // On from 4 to 6 s, off from 6 to 8 s.
        assert!(run.bytes[5] < 1_400_000, "{:?}", run.bytes);
        assert!(run.bytes[7] > 2_000_000, "{:?}", run.bytes);
    }

    #[test]
    fn the_sum_has_others_when_they_send() {
        let paths = vec![PathSpec::symmetric(20, 10), PathSpec::symmetric(10, 10)];
        let crossed = Traffic {
            cross_percent: 50,
            ..BULK
        };
        let case = case(paths, Vec::new(), crossed);
        // Early all the time, late from 8 to 10 s.
        let sums = [20e6, 30e6 - 10e6 / 3.0].map(|bps| bps * PAYLOAD);
        for (phase, sum) in Family::Crossed.phases().iter().zip(sums) {
            let got = case.sum_bps(*phase);
            assert!((got / sum - 1.0).abs() < 1e-9, "{phase:?}: {got} of {sum}");
        }
    }

    #[test]
    fn another_hosts_flow_has_its_share_of_a_plain_path_and_keeps_what_the_tunnel_leaves() {
        let paths = vec![
            PathSpec::symmetric(20, 10).queueing(50),
            PathSpec::symmetric(10, 10).queueing(50),
        ];
        let shared = Traffic {
            beside: true,
            ..BULK
        };
        let case = case(paths, Vec::new(), shared);
        let plain = case
            .alone(0)
            .run_once(Sender::Reno, Policy::Weighted, false);
        let late = Family::Shared.phases()[1];
        let [own, other] = [plain.goodput_bps(late), plain.beside_bps(late)];
        assert_eq!(plain.beside[..2], [0, 0], "it begins later");
        assert!((17e6..19.7e6).contains(&(own + other)), "{own} and {other}");
        assert!(
            (0.3..0.7).contains(&(own / (own + other))),
            "{own} and {other}"
        );
        assert!(
            case.alone(1)
                .run_once(Sender::Reno, Policy::Weighted, false)
                .beside
                .is_empty()
        );
        let outcome = case.run_beside(Sender::Reno, &[plain]);
        let keeps = outcome.beside_keeps.unwrap();
        assert!((0.3..4.0).contains(&keeps), "{keeps}");
        // Half of the first link, and the second.
        let sum = outcome.phases[1].sum_bps / PAYLOAD;
        assert!((sum - 20e6).abs() < 1e5, "{sum}");
    }

    #[test]
    fn a_call_has_its_delay_measured() {
        let paths = vec![PathSpec::symmetric(20, 10)];
        let call = Traffic {
            bulk: 0,
            pages: false,
            call: true,
            cross_percent: 0,
            beside: false,
        };
        let run = case(paths, Vec::new(), call).run_once(Sender::Reno, Policy::Weighted, false);
        assert_eq!(run.call.len(), 450);
        let p99 = run.call_p99_ms().unwrap();
        assert!((10.0..11.0).contains(&p99), "{p99}");
    }

    #[test]
    fn what_waits_in_a_queue_at_the_end_is_not_lost() {
        let paths = vec![PathSpec::symmetric(20, 10).queueing(1000)];
        let call = Traffic { call: true, ..BULK };
        let run = case(paths, Vec::new(), call).run_once(Sender::Reno, Policy::Weighted, false);
        let p99 = run.call_p99_ms().unwrap();
        assert!((500.0..1000.0).contains(&p99), "{p99}");
    }
}

//! One end: the daemon's loop around the two halves of a tunnel.

use std::net::SocketAddr;
use std::time::Duration;

use mpt_core::control::drops::DropReason;
use mpt_core::control::order::OrderStatus;
use mpt_core::control::trace::Trace;
use mpt_core::control::{PathStatus, ReorderStatus, TunnelStatus};
use mpt_core::crypto::Sessions;
use mpt_core::path::{PathConfig, PathId, PathState};
use mpt_core::time::{Time, earliest};
use mpt_core::tunnel::{
    Datagram, Event, Inbound, News, Outbound, Transmit, TunnelConfig, sealed_tunnel, tunnel,
};
use mpt_core::wire::report::Report;
use mpt_core::wire::vnet::VnetHeader;

/// Datagrams that the daemon receives before it polls.
const BATCH: usize = 64;
/// Most datagrams, and most bytes, that the kernel joins into one.
const MAX_TRAIN: usize = 64;
const MAX_TRAIN_BYTES: usize = 65_507;

/// A datagram between the two ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wire {
    /// The path.
    pub path: PathId,
    /// Outer TOS or Traffic Class.
    pub tos: u8,
    /// UDP payload.
    pub bytes: Vec<u8>,
}

/// What a link carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Carried {
    /// The tunnel's own.
    Own(Wire),
    /// A packet of a host beside the tunnel.
    Beside(Vec<u8>),
}

/// One end of the tunnel and what came of it.
pub struct End {
    /// What its clock shows at the simulation's zero.
    clock: Duration,
    /// The line out.
    pub outbound: Outbound,
    /// The line in.
    pub inbound: Inbound,
    /// The MTU of its TUN.
    pub interface_mtu: u16,
    /// Datagrams arrive in trains.
    trains: bool,
    in_batch: usize,
    pub(super) delivered: Vec<(Time, Vec<u8>)>,
    pub(super) refused: Vec<Vec<u8>>,
    pub(super) events: Vec<(Time, Event)>,
    pub(super) reports: Vec<(Time, Report)>,
    handed_in: u64,
    received: u64,
    starved: u64,
}

impl End {
    pub(super) fn new(
        clock: Duration,
        now: Time,
        config: &TunnelConfig,
        paths: &[PathConfig],
        sessions: Option<Sessions>,
    ) -> End {
        let (outbound, inbound) = match sessions {
            Some(sessions) => sealed_tunnel(config, sessions),
            None => tunnel(config),
        };
        let mut end = End {
            clock,
            outbound,
            inbound,
            interface_mtu: config.mtu,
            trains: config.receives_trains,
            in_batch: 0,
            delivered: Vec::new(),
            refused: Vec::new(),
            events: Vec::new(),
            reports: Vec::new(),
            handed_in: 0,
            received: 0,
            starved: 0,
        };
        for (path, config) in (0..).filter_map(PathId::new).zip(paths) {
            end.outbound.set_path(path, config);
            end.inbound.set_path(now + clock, path, *config);
        }
        end
    }

    /// What this end's clock shows at the simulation's time `at`.
    #[must_use]
    pub fn local(&self, at: Time) -> Time {
        at + self.clock
    }

    /// Packets that its host sent into the tunnel since it started.
    #[must_use]
    pub fn handed_in(&self) -> u64 {
        self.handed_in
    }

    /// Datagrams that arrived since it started.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Datagrams for which no buffer was free: never any, by the contract of
    /// [`Inbound::take_buffer`].
    #[must_use]
    pub fn starved(&self) -> u64 {
        self.starved
    }

    /// Drops of both halves for this reason.
    #[must_use]
    pub fn dropped(&self, why: DropReason) -> u64 {
        self.outbound.drops().of(why) + self.inbound.drops().of(why)
    }

    /// The tunnel as `mpt-ctl status` shows it.
    #[must_use]
    pub fn status(&self) -> TunnelStatus {
        let mut status = TunnelStatus::default();
        self.outbound.report(&mut status);
        self.inbound.report(&mut status);
        status
    }

    /// A path as `mpt-ctl paths` shows it.
    #[must_use]
    pub fn path(&self, path: usize) -> PathStatus {
        let mut status = PathStatus::default();
        if let Some(path) = PathId::new(path) {
            self.inbound.report_path(path, &mut status);
            self.outbound.report_path(path, &mut status);
        }
        status
    }

    /// What was decided about a path's rate, from decision number `from` on, as `mpt-ctl trace` shows it; times are
    /// of this end's clock.
    #[must_use]
    pub fn trace(&self, path: usize, from: u64) -> Trace {
        let mut trace = Trace::default();
        if let Some(path) = PathId::new(path) {
            self.outbound.trace(path, from, &mut trace);
        }
        trace
    }

    /// What a path is doing.
    #[must_use]
    pub fn state(&self, path: usize) -> PathState {
        self.path(path).state
    }

    /// The reorder window as `mpt-ctl reorder` shows it.
    #[must_use]
    pub fn reorder(&self) -> ReorderStatus {
        self.inbound.report_reorder()
    }

    /// How packets were ordered, as `mpt-ctl reorder` shows it; paths go by their index.
    pub fn order(&mut self, now: Time) -> OrderStatus {
        let local = self.local(now);
        self.inbound
            .report_order(local, |path| Some(path.index().to_string()))
    }

    pub(super) fn handle_tun(&mut self, now: Time, packet: &[u8]) {
        self.handed_in += 1;
        let local = self.local(now);
        self.outbound
            .handle_tun(local, &VnetHeader::default(), &mut packet.to_vec());
    }

    /// Takes what arrived on one path at one moment, as trains where the kernel would make some;
    /// polls whenever a batch is full.
    pub(super) fn receive(&mut self, now: Time, from: SocketAddr, mut wires: &[Wire]) {
        while !wires.is_empty() {
            let count = if self.trains { train_len(wires) } else { 1 };
            let (train, rest) = wires.split_at(count);
            self.receive_train(now, from, train);
            wires = rest;
        }
    }

    fn receive_train(&mut self, now: Time, from: SocketAddr, train: &[Wire]) {
        self.received += train.len() as u64;
        let Some(mut buffer) = self.inbound.take_buffer() else {
            self.starved += train.len() as u64;
            return;
        };
        let bytes = train.iter().flat_map(|wire| &wire.bytes);
        let whole: usize = train.iter().map(|wire| wire.bytes.len()).sum();
        let mut len = 0;
        for (room, &byte) in buffer.as_mut().iter_mut().zip(bytes) {
            *room = byte;
            len += 1;
        }
        let first = &train[0];
        let segment_size = u16::try_from(first.bytes.len()).ok();
        let datagram = Datagram {
            path: first.path,
            from,
            tos: first.tos,
            buffer,
            len,
            segment_size: segment_size.filter(|_| train.len() > 1),
            truncated: len < whole,
            waited: Duration::ZERO,
        };
        let local = self.local(now);
        self.inbound.handle_datagram(local, datagram);
        self.in_batch += 1;
        if self.in_batch == BATCH {
            self.poll(now);
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Time) {
        let local = self.local(now);
        if self.inbound.poll_timeout().is_some_and(|at| at <= local) {
            self.inbound.handle_timeout(local);
        }
        if self.outbound.poll_timeout().is_some_and(|at| at <= local) {
            self.outbound.handle_timeout(local);
        }
    }

    /// When this end wants to be called, in the simulation's time.
    pub(super) fn next_timeout(&mut self) -> Option<Time> {
        let clock = self.clock;
        earliest(self.inbound.poll_timeout(), self.outbound.poll_timeout())
            .map(|local| local - clock)
    }

    /// Polls everything that is not sent: packets for the TUN, reports for the line out, and events.
    pub(super) fn poll(&mut self, now: Time) {
        self.in_batch = 0;
        self.inbound.drain_tun(|_, packet| {
            self.delivered.push((now, packet.to_vec()));
            true
        });
        while let Some(news) = self.inbound.poll_news() {
            if let News::Report(_, report) = &news {
                self.reports.push((now, report.clone()));
            }
            self.outbound.learn(self.local(now), news);
        }
        while let Some(message) = self.outbound.poll_tun() {
            self.refused.push(message.to_vec());
        }
        if let Some(mtu) = self.inbound.poll_mtu() {
            self.interface_mtu = mtu;
        }
        while let Some(event) = self.inbound.poll_event() {
            self.events.push((now, event));
        }
    }

    /// All that is to be sent now, and where to: the line out's trains first, then control messages.
    pub(super) fn poll_transmits(&mut self, now: Time) -> Vec<(SocketAddr, Wire)> {
        let mut wires = Vec::new();
        while let Some(transmit) = self.outbound.poll_transmit() {
            cut(&transmit, &mut wires);
        }
        if self.outbound.poll_wake() {
            let local = self.local(now);
            self.inbound.wake(local);
            self.poll(now);
        }
        while let Some(transmit) = self.inbound.poll_transmit() {
            cut(&transmit, &mut wires);
        }
        wires
    }

    /// What came of the former daemon stays to be read; the counters begin anew.
    pub(super) fn keep_from(&mut self, former: &mut End) {
        self.delivered.append(&mut former.delivered);
        self.refused.append(&mut former.refused);
        self.events.append(&mut former.events);
        self.reports.append(&mut former.reports);
    }
}

/// How many datagrams at the front the kernel would hand over as one (`UDP_GRO`): equal ones and a
/// shorter last one.
fn train_len(wires: &[Wire]) -> usize {
    let (first, mut bytes, mut closed) = (&wires[0], 0, false);
    let joins = |wire: &&Wire| {
        let fits = !closed
            && wire.tos == first.tos
            && (1..=first.bytes.len()).contains(&wire.bytes.len())
            && bytes + wire.bytes.len() <= MAX_TRAIN_BYTES;
        bytes += wire.bytes.len();
        closed = wire.bytes.len() < first.bytes.len();
        fits
    };
    wires
        .iter()
        .take(MAX_TRAIN)
        .take_while(joins)
        .count()
        .max(1)
}

/// A train as the datagrams that the kernel makes of it.
fn cut(transmit: &Transmit<'_>, wires: &mut Vec<(SocketAddr, Wire)>) {
    let datagrams = transmit.contents.chunks(transmit.segment_size.max(1));
    assert_eq!(datagrams.len(), transmit.datagrams, "a train miscounted");
    wires.extend(datagrams.map(|bytes| {
        let wire = Wire {
            path: transmit.path,
            tos: transmit.tos,
            bytes: bytes.to_vec(),
        };
        (transmit.to, wire)
    }));
}

//! The thread of a hub's line out: TUN → whose it is → that peer's core → UDP.
//!
//! It works in batches, as [`crate::uplink`] does.

use std::io;
use std::sync::Arc;

use mpt_core::control::drops::Drops;
use mpt_core::control::{PathStatus, TunnelStatus};
use mpt_core::hub::{HubNews, HubOutbound, HubSlot, Taken, Worker};
use mpt_core::path::MAX_PATHS;
use mpt_core::time::Time;
use mpt_core::tunnel::Transmit;
use mpt_core::wire::vnet::VnetHeader;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;

use super::handover::{Others, Packet, Ways};
use super::{PeerChanges, Wakes};
use crate::clock::{self, Timer};
use crate::tun::{self, Tun};
use crate::uplink::{
    BATCH, BATCH_BYTES, Command, Outcome, Sockets, readable, take_batch, write_icmp,
};

/// In a rush so many batches are read before anything of them is handled.
const MAX_BATCHES: usize = 4;
/// News are learnt so many at a time; then packets are looked at, for all that one peer's reports may say.
const MAX_NEWS: usize = 16;
/// Peers that have something due and are handled before anything else is looked at: a batch, as with packets.
const MAX_DUE: usize = BATCH;

/// Runs until `commands` is closed. Without an interface it waits for one. `memory`: as [`HubOutbound::new`] has it.
///
/// # Errors
/// When the TUN fails or cannot be watched, or there is no descriptor for the timer.
pub(crate) async fn run(
    (worker, memory): (Worker, usize),
    mut news: mpsc::Receiver<HubNews>,
    mut commands: mpsc::Receiver<Command>,
    wakes: Arc<Wakes>,
    mut others: Others<Packet>,
) -> io::Result<()> {
    let mut timer = Timer::new()?;
    let mut uplink = HubUplink {
        hub: HubOutbound::new(worker, memory),
        worker,
        sockets: Default::default(),
        sent: [(0, 0); MAX_PATHS],
        tun: None,
        shared: None,
        is_behind: false,
        wakes,
        handed_over: 0,
    };
    let mut bytes = vec![0; tun::MAX_READ];
    let mut learnt = 0;
    loop {
        tokio::select! {
            biased;
            command = commands.recv() => match command {
                Some(Command::SetTun(tun)) => uplink.tun = Some(tun.register()?),
                Some(Command::ShareTun(tun)) => uplink.shared = Some(tun),
                Some(command) => uplink.obey(command),
                None => return Ok(()),
            },
            () = timer.elapsed() => {}
            Some(news) = news.recv() => {
                uplink.hub.learn(clock::now(), news);
                learnt += 1;
                if learnt == MAX_NEWS {
                    learnt = 0;
                    uplink.take_packets(&mut bytes, &mut others)?;
                }
            }
            ready = readable(uplink.tun.as_ref()) => {
                ready?;
                learnt = 0;
                uplink.take_packets(&mut bytes, &mut others)?;
                // As in a tunnel of two ends.
                tokio::task::consume_budget().await;
            }
            // From another worker, whose queue of the interface it came to.
            Some(packet) = others.from.recv(), if !worker.is_alone() => uplink.take_handed(packet, &mut others.from),
            // What waits for its peer's turn has no other to wake it.
            () = tokio::task::yield_now(), if uplink.hub.is_waiting() => uplink.serve(),
        }
        uplink.send();
        uplink.handle_due();
        timer.wake_by(uplink.hub.poll_timeout());
    }
}

struct HubUplink {
    hub: HubOutbound,
    worker: Worker,
    sockets: Sockets,
    /// Datagrams and bytes by socket.
    sent: [(u64, u64); MAX_PATHS],
    tun: Option<AsyncFd<Arc<Tun>>>,
    /// Another worker's, to write to, where it has none of its own.
    shared: Option<Arc<Tun>>,
    /// The last batch was as large as one may be: more comes than is handled.
    is_behind: bool,
    wakes: Arc<Wakes>,
    /// Packets that came to this worker's queue and were handed to their peer's owner.
    handed_over: u64,
}

impl HubUplink {
    fn obey(&mut self, command: Command) {
        match command {
            Command::SetPath(id, _, socket) => {
                if socket.is_some() {
                    self.sockets[id.index()] = socket;
                }
            }
            Command::RemovePath(id) => {
                self.sockets[id.index()] = None;
                self.sent[id.index()] = (0, 0);
            }
            Command::Close(id, done) => {
                self.sockets[id.index()] = None;
                let _ = done.send(());
            }
            Command::SetNumbered(numbered) => self.each(|peer| peer.set_numbered(numbered)),
            Command::SetPolicy(policy) => self.each(|peer| peer.set_policy(policy)),
            Command::SetRecovery(recovery) => self.each(|peer| peer.set_recovery(recovery)),
            // Sealed packets have none, and without a path of its own nothing is decided.
            Command::SetTun(_) | Command::ShareTun(_) | Command::SetKey(_) | Command::Trace(..) => {
            }
            // The configuration refuses them.
            Command::SetClasses(_) | Command::SetCosts(_) => {}
            Command::SetPeers(changes) => self.set_peers(&changes),
            Command::Report(mut report, reply) => {
                self.report(&mut report.tunnel);
                report.handed_over += self.handed_over;
                for (id, path) in &mut report.paths {
                    self.report_socket(id.index(), path);
                }
                let _ = reply.send(report);
            }
            Command::ReportPeers(mut list, reply) => {
                for one in list.iter_mut().filter(|one| self.worker.owns(one.slot)) {
                    let drops;
                    let peer = &mut one.peer;
                    (peer.tx_packets, peer.tx_bytes, drops) = self.hub.summary(one.slot);
                    add_drops(&drops, &mut peer.drops);
                    if let Some(outbound) = self.hub.peer(one.slot) {
                        for (id, path) in one.ids.iter().zip(&mut peer.paths) {
                            outbound.report_path(*id, path);
                        }
                    }
                }
                let _ = reply.send(list);
            }
            Command::ReportPeer(mut one, reply) => {
                if let Some(outbound) = self.hub.peer(one.slot) {
                    let mut status = TunnelStatus::default();
                    outbound.report(&mut status);
                    let recovery = &mut one.report.recovery;
                    status.recovery.report_bytes = recovery.report_bytes;
                    *recovery = status.recovery;
                }
                let _ = reply.send(one);
            }
        }
    }

    fn each(&mut self, change: impl Fn(&mut mpt_core::tunnel::Outbound)) {
        for slot in self.hub.present() {
            if let Some(peer) = self.hub.peer(slot) {
                change(peer);
            }
        }
    }

    fn set_peers(&mut self, changes: &PeerChanges) {
        for slot in &changes.removed {
            self.hub.forget_peer(*slot);
        }
        let now = clock::now();
        for peer in &changes.set {
            self.hub.set_peer(peer.slot, peer.keys.public_key);
            self.hub.set_rate_limit(now, peer.slot, peer.rate_limit);
        }
        self.hub.set_allowed(&changes.allowed);
    }

    fn report(&self, status: &mut TunnelStatus) {
        let (packets, bytes, drops) = self.hub.total();
        status.tx_packets += packets;
        status.tx_bytes += bytes;
        drops.add_to(&mut status.drops);
    }

    fn report_socket(&self, socket: usize, path: &mut PathStatus) {
        let (packets, bytes) = self.sent[socket];
        path.tx_packets += packets;
        path.tx_bytes += bytes;
    }

    /// Takes a batch of what the interface has, and one of what other workers have handed over: neither waits until the
    /// other has nothing more.
    fn take_packets(&mut self, bytes: &mut [u8], others: &mut Others<Packet>) -> io::Result<()> {
        self.take_batch(bytes, &others.to)?;
        if !self.worker.is_alone()
            && let Ok(packet) = others.from.try_recv()
        {
            self.take_handed(packet, &mut others.from);
        }
        Ok(())
    }

    fn take_batch(&mut self, bytes: &mut [u8], others: &Ways<Packet>) -> io::Result<()> {
        for _ in 0..MAX_BATCHES {
            let now = clock::now();
            let is_rushed = self.hub.is_waiting() || self.is_behind && self.hub.is_shared(now);
            let (mut packets, mut sum) = (0, 0);
            self.tun = take_batch(self.tun.take(), bytes, |packet| {
                packets += 1;
                sum += packet.as_ref().map_or(0, |(_, packet)| packet.len());
                let Some((header, packet)) = packet else {
                    return self.hub.refuse_offload();
                };
                let taken = match is_rushed {
                    true => self.hub.enqueue(now, &header, packet),
                    // What is sent meanwhile takes its time.
                    false => self.take(clock::now(), &header, packet),
                };
                if let Taken::ForWorker(owner) = taken {
                    match others.hand(owner, &header, packet) {
                        true => self.handed_over += header.packets(packet.len()),
                        false => self.hub.not_handed(&header, packet),
                    }
                }
            })?;
            self.is_behind = packets >= BATCH || sum >= BATCH_BYTES;
            if !self.is_behind || !self.hub.is_waiting() || self.hub.is_full() {
                break;
            }
        }
        self.serve();
        Ok(())
    }

    /// Handles a batch of what waits, each peer in its turn.
    fn serve(&mut self) {
        let mut sum = 0;
        while sum < BATCH_BYTES
            && let Some((header, mut packet)) = self.hub.pop_waiting(clock::now())
        {
            sum += packet.len();
            if let Taken::ForWorker(_) = self.take(clock::now(), &header, &mut packet) {
                self.hub.handed_astray(&header, &packet);
            }
            self.hub.give_back(packet);
        }
    }

    /// Takes what another worker's queue has brought, and what came after it, up to a batch.
    fn take_handed(&mut self, first: Packet, others: &mut mpsc::Receiver<Packet>) {
        let (now, mut sum) = (clock::now(), 0);
        let is_rushed = self.hub.is_waiting();
        let mut next = Some(first);
        while let Some(Packet {
            header, mut bytes, ..
        }) = next
        {
            sum += bytes.len();
            let taken = match is_rushed {
                true => self.hub.enqueue(now, &header, &mut bytes),
                false => self.take(now, &header, &mut bytes),
            };
            if let Taken::ForWorker(_) = taken {
                self.hub.handed_astray(&header, &bytes);
            }
            next = (sum < BATCH_BYTES)
                .then(|| others.try_recv().ok())
                .flatten();
        }
        if is_rushed {
            self.serve();
        }
    }

    fn take(&mut self, now: Time, header: &VnetHeader, packet: &mut [u8]) -> Taken {
        let taken = self.hub.handle_tun(now, header, packet);
        if let Taken::By(slot) = taken
            && let Some(outbound) = self.hub.peer(slot)
        {
            while let Some(train) = outbound.poll_ready() {
                let outcome = send_train(&train, &self.sockets, &mut self.sent);
                outcome.report(outbound);
            }
        }
        taken
    }

    /// Does what peers have due by the clock, and sends what comes of it: what a peer sends is not to be delayed by those
    /// before it. The timer is not seen while the interface has packets.
    fn handle_due(&mut self) {
        for _ in 0..MAX_DUE {
            if !self.hub.handle_due(clock::now()) {
                return;
            }
            self.send();
        }
    }

    /// Sends everything that the peers' cores have.
    fn send(&mut self) {
        while let Some(slot) = self.hub.poll_touched() {
            self.send_of(slot);
            self.hub.settle(slot);
        }
        while let Some(message) = self.hub.poll_tun() {
            write_icmp(written(&self.tun, &self.shared), &message);
        }
    }

    fn send_of(&mut self, slot: HubSlot) {
        let tun = written(&self.tun, &self.shared);
        let Some(outbound) = self.hub.peer(slot) else {
            return;
        };
        while let Some(train) = outbound.poll_transmit() {
            let outcome = send_train(&train, &self.sockets, &mut self.sent);
            outcome.report(outbound);
        }
        while let Some(message) = outbound.poll_tun() {
            write_icmp(tun, message);
        }
        if outbound.poll_wake() {
            self.wakes.wake(slot);
        }
    }
}

/// The queue of the interface to write to: a line's own, or another worker's.
fn written<'a>(
    own: &'a Option<AsyncFd<Arc<Tun>>>,
    shared: &'a Option<Arc<Tun>>,
) -> Option<&'a Tun> {
    let own = own.as_ref().map(|tun| &**tun.get_ref());
    own.or(shared.as_deref())
}

/// Sends a train and counts it.
fn send_train(train: &Transmit<'_>, sockets: &Sockets, sent: &mut [(u64, u64)]) -> Outcome {
    let sent = &mut sent[train.socket.index()];
    sent.0 += train.datagrams as u64;
    sent.1 += train.contents.len() as u64;
    Outcome::of(train, sockets)
}

/// Those that there were.
pub(super) fn add_drops(drops: &Drops, to: &mut std::collections::BTreeMap<String, u64>) {
    for why in mpt_core::control::drops::DropReason::ALL {
        if drops.of(*why) > 0 {
            *to.entry(why.name().to_owned()).or_default() += drops.of(*why);
        }
    }
}

//! The thread of a hub's line in: UDP → whose it is → that peer's core → TUN; and what the cores send from here.
//!
//! Each socket has a task that waits for it ([`crate::watch`]).

mod report;
mod told;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use mpt_core::hub::{Came, HubConfig, HubInbound, HubNews, HubSlot, Worker};
use mpt_core::path::{MAX_PATHS, PathConfig, PathId};
use mpt_core::receive::coalesce::Accepts;
use mpt_core::send::scheduler::Policy;
use mpt_core::time::{Time, earliest};
use mpt_core::tunnel::{Event, Inbound};
use tokio::sync::{Notify, mpsc};

use super::handover::{Message, Others, Ways};
use super::{PeerChanges, Wakes};
use crate::clock::{self, Sleeps, StampClock, Timer};
use crate::downlink::{Another, Command, Sockets, warn_of_refusals};
use crate::journal::Journal;
use crate::tun::Tun;
use crate::udp::errqueue;
use crate::udp::{PathSocket, RecvMeta};
use crate::watch::{Line, Open};

/// Datagrams, or trains of 64, that a system call may bring.
const BATCH: usize = 16;
/// Datagrams after which the peers are polled: each goes to a peer's own buffers, which have room for so many beside a
/// full window.
const MAX_IN_HAND: u64 = 128;
/// In a rush so many batches are received before anything of them is handled, or until the queues of all peers are full …
/// What stays in the kernel's queue is lost whosever it is, so that is read faster than what was in it is handled, one datagram at
/// a time as well: 2,048 are 20 ms of a flood of 100,000 a second. With 16 batches such a flood of reports filled the queue
/// for good, with 64 at times (`benches/hub --greedy 20`; figures in docs/hub.md).
const MAX_BATCHES: usize = 128;
/// … and so many datagrams handled before more is received.
const MAX_SERVED: u64 = 512;
/// Room for any train, in bytes.
const TRAIN_BYTES: usize = 65_536;
/// When the line out has no room for news, they are offered again after this.
const NEWS_PAUSE: Duration = Duration::from_millis(1);

/// Where the line in tells what it finds out.
pub(crate) struct Outlets {
    /// The tunnel's name.
    pub(crate) tunnel: String,
    /// To the line out: what it has to know.
    pub(crate) news: mpsc::Sender<HubNews>,
    /// To the control thread: the path that is to have another socket, with the tunnel's name.
    pub(crate) sockets: Sockets,
    /// From the line out: packets for peers come again.
    pub(crate) wakes: Arc<Wakes>,
}

/// Runs until `commands` is closed.
///
/// # Errors
/// When there is no descriptor for the timer.
pub(crate) async fn run(
    config: HubConfig,
    outlets: Outlets,
    others: Others<Message>,
    mut commands: mpsc::Receiver<Command>,
) -> io::Result<()> {
    let mut timer = Timer::new()?;
    let mut sleeps = Sleeps::default();
    let wake = Rc::new(Notify::new());
    let (wakes, worker) = (outlets.wakes.clone(), config.worker);
    let Others { to, mut from } = others;
    let downlink = Rc::new(RefCell::new(HubDownlink {
        mtu: config.tunnel.mtu,
        hub: HubInbound::new(clock::now(), config),
        worker,
        others: to,
        tun: None,
        outlets,
        sockets: Default::default(),
        journals: Vec::new(),
        to_say: BTreeSet::new(),
        next_line: None,
        buffers: (0..BATCH).map(|_| vec![0; TRAIN_BYTES]).collect(),
        metas: vec![RecvMeta::default(); BATCH],
        stamps: StampClock::default(),
    }));
    loop {
        tokio::select! {
            biased;
            command = commands.recv() => match command {
                Some(command) => obey(&downlink, &wake, command),
                None => return Ok(()),
            },
            () = timer.elapsed() => downlink.borrow_mut().hub.handle_timeout(clock::now()),
            slots = wakes.woken() => {
                let mut downlink = downlink.borrow_mut();
                let now = clock::now();
                slots.into_iter().for_each(|slot| downlink.hub.wake(now, slot));
            }
            Some(message) = from.recv(), if !worker.is_alone() => {
                downlink.borrow_mut().take_handed(message, &mut from);
            }
            // A socket's task has worked; the timer may have to go off earlier.
            () = wake.notified() => {}
        }
        let mut downlink = downlink.borrow_mut();
        if let Some(slept) = sleeps.since_asked() {
            let (name, slept) = (&downlink.outlets.tunnel, slept.as_secs());
            tracing::info!("tunnel {name}: the host has slept for {slept} s: keys are agreed anew");
            downlink.hub.handle_resume(clock::now());
        }
        timer.wake_by(downlink.flush());
    }
}

struct HubDownlink {
    hub: HubInbound,
    worker: Worker,
    others: Ways<Message>,
    mtu: u16,
    tun: Option<Arc<Tun>>,
    outlets: Outlets,
    sockets: [Option<Attached>; MAX_PATHS],
    /// By slot: what is said of peers.
    journals: Vec<Option<Journal>>,
    /// Peers of which something is to be written into the log, and when the next line is.
    to_say: BTreeSet<HubSlot>,
    next_line: Option<Time>,
    buffers: Vec<Vec<u8>>,
    metas: Vec<RecvMeta>,
    stamps: StampClock,
}

/// A path of the hub's configuration: a place where peers call.
struct Attached {
    name: String,
    config: PathConfig,
    /// None while it waits.
    open: Option<Open>,
    /// Where calls come, at the worker that answers them.
    calls: Option<Open>,
    /// Datagrams that the sockets before this one dropped.
    former_drops: u64,
    received: (u64, u64),
    sent: (u64, u64),
}

fn obey(downlink: &Rc<RefCell<HubDownlink>>, wake: &Rc<Notify>, command: Command) {
    let now = clock::now();
    let mut this = downlink.borrow_mut();
    match command {
        Command::SetPath {
            id,
            name,
            config,
            socket,
            calls,
        } => {
            if socket.is_some() {
                drop(this.close(id));
            }
            let attached = this.sockets[id.index()].get_or_insert_with(|| Attached {
                name,
                config,
                open: None,
                calls: None,
                former_drops: 0,
                received: (0, 0),
                sent: (0, 0),
            });
            attached.config = config;
            if let Some(socket) = socket {
                let open = |socket| Open::new(downlink, wake, id, socket);
                attached.open = Some(open(socket));
                attached.calls = calls.map(open);
            }
            this.follow_paths(now);
        }
        Command::Close(id, done) => {
            let open = this.close(id);
            Open::close(open, done);
        }
        Command::SetTun(tun) => {
            this.join(tun.accepts());
            this.tun = Some(tun);
        }
        Command::RemovePath(id) => {
            this.sockets[id.index()] = None;
            this.follow_paths(now);
        }
        // None of these has a meaning without a peer at the other end: `requests` refuses the first.
        Command::SetOutOfService(..) | Command::SetCosts(_) | Command::SetKey(_) => {}
        Command::SetLink(id, up) => this.hub.handle_link(now, id, up),
        Command::SetSending(policy, recovery) => this.set_sending(policy, recovery),
        Command::SetReorder(reorder) => this.hub.configure(
            |config| config.tunnel.reorder = reorder,
            |peer| peer.set_reorder(now, reorder),
        ),
        Command::SetMtu(mtu) => {
            this.mtu = mtu;
            this.hub.configure(
                |config| config.tunnel.mtu = mtu,
                |peer| peer.set_mtu(now, mtu),
            );
        }
        Command::SetPeers(changes) => this.set_peers(now, &changes),
        Command::Report(mut report, reply) => {
            this.report(&mut report);
            // Whoever asked may have gone.
            let _ = reply.send(report);
        }
        Command::ReportOrder(reply) => {
            let _ = reply.send(Box::default());
        }
        Command::ReportPeers(mut list, reply) => {
            list.iter_mut().for_each(|one| this.report_peer(one));
            let _ = reply.send(list);
        }
        Command::ReportPeer(mut shown, reply) => {
            this.show_peer(&mut shown);
            let _ = reply.send(shown);
        }
    }
}

impl HubDownlink {
    /// Takes the sockets from a path, after what waits in that of the peers.
    fn close(&mut self, id: PathId) -> Vec<Open> {
        let Some(attached) = &mut self.sockets[id.index()] else {
            return Vec::new();
        };
        let (open, calls) = (attached.open.take(), attached.calls.take());
        if let Some(open) = &open {
            self.receive_last(id, &open.socket);
        }
        if let Some(attached) = &mut self.sockets[id.index()] {
            attached.former_drops += open.as_ref().map_or(0, |open| u64::from(open.drops));
        }
        open.into_iter().chain(calls).collect()
    }

    /// What peers' paths get follows the socket that they call.
    fn follow_paths(&mut self, now: Time) {
        let mut called = [None; MAX_PATHS];
        for (called, attached) in called.iter_mut().zip(&self.sockets) {
            *called = attached.as_ref().map(|attached| attached.config);
        }
        self.hub.configure(
            |config| config.called = called,
            |peer| peer.set_called(now, called),
        );
    }

    /// Of peers' packets these super-packets are made.
    fn join(&mut self, accepts: Accepts) {
        self.hub.configure(
            |config| config.tunnel.accepts = accepts,
            |peer| peer.set_accepts(accepts),
        );
    }

    fn set_sending(&mut self, policy: Policy, recovery: bool) {
        self.hub.configure(
            |config| {
                config.tunnel.policy = policy;
                config.tunnel.recovery = recovery;
            },
            |peer| peer.set_sending(policy, recovery),
        );
    }

    fn set_peers(&mut self, now: Time, changes: &PeerChanges) {
        for slot in &changes.removed {
            self.hub.remove_peer(*slot);
            self.to_say.remove(slot);
            if let Some(journal) = self.journals.get_mut(slot.number()) {
                *journal = None;
            }
        }
        for peer in &changes.set {
            self.hub.set_peer(peer.slot, peer.keys.clone());
            if !self.worker.owns(peer.slot) {
                continue;
            }
            self.hub.set_rate_limit(now, peer.slot, peer.rate_limit);
            let number = peer.slot.number();
            if self.journals.len() <= number {
                self.journals.resize_with(number + 1, || None);
            }
            let (tunnel, name) = (&self.outlets.tunnel, &peer.name);
            self.journals[number]
                .get_or_insert_with(|| Journal::new(&format!("{tunnel}: peer {name}"), now));
        }
        self.hub.set_allowed(&changes.allowed);
    }

    /// Takes everything that the cores have ready; returns when they want to be called again.
    fn flush(&mut self) -> Option<Time> {
        let now = clock::now();
        let is_left = self.flush_peers(now);
        self.say(now);
        let again = is_left.then(|| now + NEWS_PAUSE);
        earliest(earliest(self.hub.poll_timeout(), again), self.next_line)
    }

    /// The same of the peers with which something was done. Whether any has news for which there is no room.
    fn flush_peers(&mut self, now: Time) -> bool {
        let mut left = Vec::new();
        loop {
            let has_room = self.tell_of_peers();
            let Some(slot) = self.hub.poll_touched() else {
                break;
            };
            let is_left = self.flush_peer(now, slot, has_room);
            self.hub.settle(now, slot, false);
            if is_left {
                left.push(slot);
            }
        }
        for slot in &left {
            self.hub.settle(now, *slot, true);
        }
        self.hand_over();
        while let Some((socket, to, bytes)) = self.hub.poll_reply() {
            send(&mut self.sockets, socket, to, 0, &bytes, bytes.len());
        }
        !left.is_empty()
    }

    /// Takes what other workers have handed over, as much as a batch brings.
    fn take_handed(&mut self, first: Message, from: &mut mpsc::Receiver<Message>) {
        let now = clock::now();
        let rest = std::iter::from_fn(|| from.try_recv().ok());
        for message in std::iter::once(first)
            .chain(rest)
            .take(MAX_IN_HAND as usize)
        {
            self.hub.handle_handed(now, message);
        }
        self.flush_peers(now);
    }

    /// Hands over what is of other workers.
    fn hand_over(&mut self) {
        while let Some((worker, message)) = self.hub.poll_handed() {
            if let Err(message) = self.others.hand(worker, message) {
                self.hub.not_handed(message);
            }
        }
    }

    /// Tells the line out which peers come and go. Whether there is room for more.
    fn tell_of_peers(&mut self) -> bool {
        while let Ok(room) = self.outlets.news.try_reserve() {
            match self.hub.poll_news() {
                Some(news) => room.send(news),
                None => return true,
            }
        }
        false
    }

    fn flush_peer(&mut self, now: Time, slot: HubSlot, mut has_room: bool) -> bool {
        let Some(peer) = self.hub.peer(slot) else {
            return false;
        };
        let tun = self.tun.as_deref();
        peer.drain_tun(|header, packet| tun.is_some_and(|tun| tun.send(header, packet).is_ok()));
        if peer.refuses_joined() {
            self.join(Accepts::NONE);
            warn_of_refusals(&self.outlets.tunnel);
        }
        let Some(peer) = self.hub.peer(slot) else {
            return false;
        };
        while has_room {
            match self.outlets.news.try_reserve() {
                Ok(room) => match peer.poll_news() {
                    Some(news) => room.send(HubNews::Of(slot, news)),
                    None => break,
                },
                Err(_) => has_room = false,
            }
        }
        // The interface keeps its MTU: what a peer's paths carry, its senders are told.
        let _ = peer.poll_mtu();
        while let Some(message) = peer.poll_transmit() {
            let (socket, to, tos) = (message.socket, message.to, message.tos);
            let size = message.segment_size;
            send(&mut self.sockets, socket, to, tos, message.contents, size);
        }
        let mut events = Vec::new();
        while let Some(event) = peer.poll_event() {
            let name = match event {
                Event::Path { path, .. }
                | Event::PeerAddress { path, .. }
                | Event::PathMtu { path, .. } => path_name(peer, path),
                Event::PeerSession { .. }
                | Event::Keys { .. }
                | Event::PeerStoppedProbing
                | Event::NotAnswered { .. }
                | Event::PathRests { .. }
                | Event::NoHandshake => String::new(),
            };
            events.push((event, name));
        }
        for (event, name) in events {
            self.log(now, slot, &event, &name);
        }
        !has_room
    }
}

impl Line for HubDownlink {
    fn place(&self, id: PathId) -> String {
        let attached = self.sockets[id.index()].as_ref();
        let name = attached.map_or("?", |attached| attached.name.as_str());
        format!("tunnel {}: path {name}", self.outlets.tunnel)
    }

    fn receive(&mut self, id: PathId, socket: &PathSocket) -> io::Result<bool> {
        let mut is_left = self.receive_batch(id, socket)?;
        if socket.is_for_calls() || !self.hub.is_waiting() {
            return Ok(is_left);
        }
        // The kernel's queue knows no peers: what it has waits here instead, by peer.
        for _ in 0..MAX_BATCHES {
            if !is_left || self.hub.is_full() {
                break;
            }
            is_left = self.receive_batch(id, socket)?;
        }
        let mut served = 0;
        while self.hub.is_waiting() && served < MAX_SERVED {
            let now = clock::now();
            served += self.hub.serve(now, MAX_IN_HAND / 2).max(1);
            self.flush_peers(now);
        }
        Ok(is_left || self.hub.is_waiting())
    }

    /// Which peer an error is about is not looked up: its probes tell as much, a little later.
    fn take_errors(&mut self, _: PathId, socket: &PathSocket) -> bool {
        errqueue::drain(socket, |_| {})
    }

    fn replace(&self, id: PathId) -> bool {
        let asked = (self.outlets.tunnel.clone(), id, Another::Socket);
        self.outlets.sockets.try_send(asked).is_ok()
    }
}

impl HubDownlink {
    /// Receives what one system call brings. Returns whether more may wait. While more comes of several peers than is
    /// handled, it is put where each waits for its turn.
    fn receive_batch(&mut self, id: PathId, socket: &PathSocket) -> io::Result<bool> {
        let received = match socket.recv_batch(&mut self.buffers, &mut self.metas) {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        };
        let now = clock::now();
        let wall_ns = self.stamps.read(now);
        let (mut packets, mut bytes, mut drops) = (0, 0, 0);
        let mut in_hand = 0;
        let for_calls = socket.is_for_calls();
        let is_rushed =
            !for_calls && (self.hub.is_waiting() || received == BATCH && self.hub.is_shared(now));
        for at in 0..received {
            let (buffer, meta) = (&self.buffers[at], &self.metas[at]);
            let len = meta.len.min(buffer.len());
            let step = meta.segment_size.map_or(len, usize::from).max(1);
            let datagrams = len.div_ceil(step).max(1) as u64;
            packets += datagrams;
            bytes += len as u64;
            drops = meta.socket_drops;
            if !is_rushed && in_hand + datagrams > MAX_IN_HAND {
                self.flush_peers(now);
                in_hand = 0;
            }
            in_hand += datagrams;
            let (buffer, meta) = (&self.buffers[at], &self.metas[at]);
            let came = Came {
                socket: id,
                from: meta.from,
                tos: meta.tos,
                segment_size: meta.segment_size,
                waited: meta.waited(wall_ns),
            };
            match is_rushed {
                true => self.hub.enqueue(now, came, &buffer[..len]),
                false => self.hub.handle_datagram(now, came, &buffer[..len]),
            }
        }
        if let Some(attached) = &mut self.sockets[id.index()] {
            attached.received.0 += packets;
            attached.received.1 += bytes;
            let open = match for_calls {
                true => &mut attached.calls,
                false => &mut attached.open,
            };
            let before = open
                .as_mut()
                .map(|open| std::mem::replace(&mut open.drops, drops));
            if for_calls && let Some(before) = before {
                self.hub.calls_not_read(drops.wrapping_sub(before).into());
            }
        }
        self.flush_peers(now);
        Ok(received == BATCH)
    }
}

/// What the peer calls it, or its number.
fn path_name(peer: &Inbound, id: PathId) -> String {
    let told = peer.peer_name_of(id).map(|name| name.to_string());
    told.unwrap_or_else(|| format!("number {}", id.index() + 1))
}

fn send(
    sockets: &mut [Option<Attached>; MAX_PATHS],
    socket: PathId,
    to: std::net::SocketAddr,
    tos: u8,
    contents: &[u8],
    segment_size: usize,
) {
    if let Some(attached) = &mut sockets[socket.index()]
        && let Some(open) = &attached.open
    {
        attached.sent.0 += 1;
        attached.sent.1 += contents.len() as u64;
        // A probe that was not sent is one that gets no answer.
        let _ = open.socket.send_train(to, tos, contents, segment_size);
    }
}

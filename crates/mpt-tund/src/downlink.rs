//! The thread of the line in: UDP → core → TUN; and the probes, which the core sends from here.
//!
//! Each path has a task that waits for its socket ([`crate::watch`]).

use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

use mpt_core::control::classes::ClassStatus;
use mpt_core::control::order::OrderStatus;
use mpt_core::control::{PathState, PathStatus, Protection, ReorderStatus, TunnelStatus};
use mpt_core::path::{MAX_PATHS, PathConfig, PathId, Unreachable};
use mpt_core::receive::buffer::Buffer;
use mpt_core::receive::coalesce::Accepts;
use mpt_core::send::scheduler::Policy;
use mpt_core::time::{Time, earliest};
use mpt_core::tunnel::{Event, Inbound, News, ReorderSettings};
use mpt_core::wire::name::PathName;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::clock::{self, Sleeps, StampClock, Timer};
use crate::hub::{Listed, PeerChanges, Shown};
use crate::journal::{Journal, Level};
use crate::tun::Tun;
use crate::udp::errqueue::{self, PathError};
use crate::udp::{PathSocket, RecvMeta};
use crate::watch::{Line, Open};

/// Datagrams that a system call may bring where each comes by itself.
pub(crate) const BATCH: usize = 32;
/// The same where each may be a train of 64: while one path's are worked off, those of the others
/// wait, and the reorder window with them.
const BATCH_OF_TRAINS: usize = 4;

/// What the control thread tells this one.
pub(crate) enum Command {
    /// Add a path or change one; with a socket when it is a new one.
    SetPath {
        id: PathId,
        name: String,
        config: PathConfig,
        socket: Option<Arc<PathSocket>>,
        /// At which a hub is called, of the worker that answers.
        calls: Option<Arc<PathSocket>>,
    },
    /// Take a path away.
    RemovePath(PathId),
    /// Let go of a path's socket, and say when it is closed. The path waits then.
    Close(PathId, oneshot::Sender<()>),
    /// Use another interface: the one before is gone.
    SetTun(Arc<Tun>),
    /// Take a path out of service, or back into it.
    SetOutOfService(PathId, bool),
    /// Paths cost this, each by its index.
    SetCosts([u32; MAX_PATHS]),
    /// The carrier of a path's device went or came.
    SetLink(PathId, bool),
    /// Change how packets are put in order.
    SetReorder(ReorderSettings),
    /// Ask the peer for what another policy needs, and recovery.
    SetSending(Policy, bool),
    /// Change the largest inner packet.
    SetMtu(u16),
    /// Use another GRE key.
    SetKey(Option<u32>),
    /// Fill in this half of the status.
    Report(Box<Report>, oneshot::Sender<Box<Report>>),
    /// Tell how packets were ordered.
    ReportOrder(oneshot::Sender<Box<OrderStatus>>),
    /// In a hub: peers come and go.
    SetPeers(Arc<PeerChanges>),
    /// In a hub: fill in what this line knows of peers.
    ReportPeers(Vec<Listed>, oneshot::Sender<Vec<Listed>>),
    /// The same of one.
    ReportPeer(Shown, oneshot::Sender<Shown>),
}

/// This half of the status.
#[derive(Default)]
pub(crate) struct Report {
    /// The tunnel as such.
    pub(crate) tunnel: TunnelStatus,
    /// One for each path to report on.
    pub(crate) paths: Vec<(PathId, PathStatus)>,
    /// The reorder window.
    pub(crate) reorder: ReorderStatus,
    /// In a hub: peers that have a path up.
    pub(crate) peers_up: usize,
    /// Packets from the interface that one worker has handed to another.
    pub(crate) handed_over: u64,
    /// The classes.
    pub(crate) classes: Vec<ClassStatus>,
}

/// Asks for another socket for a path of a tunnel.
pub(crate) type Sockets = mpsc::Sender<(String, PathId, Another)>;

/// Why a path is to have another socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Another {
    /// Nothing is answered: another port may help, or its own again.
    Port,
    /// Too few probes are answered, as if this flow were throttled: one that it did not have may help.
    NewPort,
    /// The one that it has fails.
    Socket,
}

/// Where the line in tells what it finds out.
pub(crate) struct Outlets {
    /// The tunnel's name.
    pub(crate) tunnel: String,
    /// To the line out: what it has to know.
    pub(crate) news: mpsc::Sender<News>,
    /// To the control thread: the MTU that the interface is to have, with the tunnel's name.
    pub(crate) mtus: mpsc::Sender<(String, u16)>,
    /// To the control thread: the path that is to have another socket, with the tunnel's name.
    pub(crate) sockets: Sockets,
    /// From the line out: packets come again.
    pub(crate) carries: Arc<Notify>,
}

/// Runs until `commands` is closed.
///
/// # Errors
/// When there is no descriptor for the timer.
pub(crate) async fn run(
    inbound: Inbound,
    receives_trains: bool,
    outlets: Outlets,
    mut commands: mpsc::Receiver<Command>,
) -> io::Result<()> {
    let mut timer = Timer::new()?;
    let mut sleeps = Sleeps::default();
    let wake = Rc::new(Notify::new());
    let carries = outlets.carries.clone();
    let journal = Journal::new(&outlets.tunnel, clock::now());
    let downlink = Rc::new(RefCell::new(Downlink {
        inbound,
        journal,
        tun: None,
        outlets,
        paths: Default::default(),
        buffers: Vec::with_capacity(BATCH),
        metas: vec![RecvMeta::default(); BATCH],
        stamps: StampClock::default(),
        batch: if receives_trains {
            BATCH_OF_TRAINS
        } else {
            BATCH
        },
    }));
    loop {
        tokio::select! {
            biased;
            command = commands.recv() => match command {
                Some(command) => obey(&downlink, &wake, command),
                None => return Ok(()),
            },
            () = timer.elapsed() => downlink.borrow_mut().inbound.handle_timeout(clock::now()),
            () = carries.notified() => downlink.borrow_mut().inbound.wake(clock::now()),
            // A path's task has worked; the timer may have to go off earlier.
            () = wake.notified() => {}
        }
        let mut downlink = downlink.borrow_mut();
        if let Some(slept) = sleeps.since_asked() {
            let name = &downlink.outlets.tunnel;
            tracing::info!(
                "tunnel {name}: the host has slept for {} s: keys are agreed anew",
                slept.as_secs()
            );
            downlink.inbound.handle_resume(clock::now());
        }
        timer.wake_by(downlink.flush());
    }
}

struct Downlink {
    inbound: Inbound,
    journal: Journal,
    tun: Option<Arc<Tun>>,
    outlets: Outlets,
    paths: [Option<Attached>; MAX_PATHS],
    /// Buffers in hand for the next batch.
    buffers: Vec<Buffer>,
    metas: Vec<RecvMeta>,
    stamps: StampClock,
    batch: usize,
}

/// A path.
struct Attached {
    name: String,
    /// None while it waits.
    open: Option<Open>,
    /// Datagrams that the sockets before this one dropped.
    former_drops: u64,
}

fn obey(downlink: &Rc<RefCell<Downlink>>, wake: &Rc<Notify>, command: Command) {
    let now = clock::now();
    let mut this = downlink.borrow_mut();
    match command {
        Command::SetPath {
            id,
            name,
            config,
            socket,
            calls: _,
        } => {
            let this = &mut *this;
            if socket.is_some() {
                drop(this.close(id));
            }
            this.inbound.set_path(now, id, config);
            this.inbound.set_path_name(id, PathName::new(&name));
            let attached = this.paths[id.index()].get_or_insert_with(|| Attached {
                name,
                open: None,
                former_drops: 0,
            });
            if let Some(socket) = socket {
                let has_room = this.batch == BATCH_OF_TRAINS;
                debug_assert!(has_room || !socket.receives_trains(), "no room for trains");
                attached.open = Some(Open::new(downlink, wake, id, socket));
                this.inbound.open_path(now, id);
            } else if attached.open.is_none() {
                this.inbound.close_path(now, id);
            }
            this.inbound.handle_timeout(now);
        }
        Command::Close(id, done) => {
            let open = this.close(id);
            this.inbound.close_path(now, id);
            Open::close(open, done);
        }
        Command::SetTun(tun) => {
            this.inbound.set_accepts(tun.accepts());
            this.tun = Some(tun);
        }
        Command::RemovePath(id) => {
            this.inbound.remove_path(now, id);
            this.journal.forget_path(id);
            this.paths[id.index()] = None;
        }
        Command::SetOutOfService(id, out) => {
            this.inbound.set_out_of_service(now, id, out);
            this.inbound.handle_timeout(now);
        }
        Command::SetCosts(costs) => this.inbound.set_costs(costs),
        Command::SetLink(id, up) => {
            this.inbound.handle_link(now, id, up);
            this.inbound.handle_timeout(now);
        }
        Command::SetSending(policy, recovery) => this.inbound.set_sending(policy, recovery),
        Command::SetReorder(config) => this.inbound.set_reorder(now, config),
        Command::SetMtu(mtu) => {
            let this = &mut *this;
            this.buffers
                .drain(..)
                .for_each(|buffer| this.inbound.put_back(buffer));
            this.inbound.set_mtu(now, mtu);
        }
        Command::SetKey(key) => this.inbound.set_key(key),
        Command::Report(mut report, reply) => {
            this.report(&mut report);
            // Whoever asked may have gone.
            let _ = reply.send(report);
        }
        Command::ReportOrder(reply) => {
            let this = &mut *this;
            let attached = &this.paths;
            let name_of = |id: PathId| Some(attached[id.index()].as_ref()?.name.clone());
            let order = this.inbound.report_order(now, name_of);
            let _ = reply.send(Box::new(order));
        }
        // A tunnel of two ends has none.
        Command::SetPeers(_) | Command::ReportPeers(..) | Command::ReportPeer(..) => {}
    }
}

impl Downlink {
    /// Takes the socket from a path, after what waits in it.
    fn close(&mut self, id: PathId) -> Option<Open> {
        let attached = self.paths[id.index()].as_mut()?;
        let open = attached.open.take()?;
        attached.former_drops += u64::from(open.drops);
        self.receive_last(id, &open.socket);
        Some(open)
    }

    /// Asks the control thread for another socket. While that has no time it is asked again later, or the
    /// path stays as it is. Returns whether it was asked.
    fn ask_for(&self, id: PathId, what: Another) -> bool {
        let asked = (self.outlets.tunnel.clone(), id, what);
        self.outlets.sockets.try_send(asked).is_ok()
    }

    /// Takes everything that the core has ready; returns when it wants to be called again.
    fn flush(&mut self) -> Option<Time> {
        self.write_tun();
        // While the other line has no time, news wait in the core, which lets the oldest go.
        while let Ok(room) = self.outlets.news.try_reserve() {
            match self.inbound.poll_news() {
                Some(news) => room.send(news),
                None => break,
            }
        }
        if let Ok(room) = self.outlets.mtus.try_reserve()
            && let Some(mtu) = self.inbound.poll_mtu()
        {
            room.send((self.outlets.tunnel.clone(), mtu));
        }
        while let Some(message) = self.inbound.poll_transmit() {
            if let Some(attached) = &self.paths[message.path.index()]
                && let Some(open) = &attached.open
            {
                // A probe that was not sent is one that gets no answer.
                let _ = open.socket.send_train(
                    message.to,
                    message.tos,
                    message.contents,
                    message.segment_size,
                );
            }
        }
        let now = clock::now();
        while let Some(event) = self.inbound.poll_event() {
            self.log(now, &event);
        }
        while let Some(line) = self.journal.take(now) {
            line.write();
        }
        earliest(self.inbound.poll_timeout(), self.journal.due())
    }

    fn write_tun(&mut self) {
        let tun = self.tun.as_deref();
        self.inbound
            .drain_tun(|header, packet| tun.is_some_and(|tun| tun.send(header, packet).is_ok()));
        if self.inbound.refuses_joined() {
            self.inbound.set_accepts(Accepts::NONE);
            warn_of_refusals(&self.outlets.tunnel);
        }
    }

    fn log(&mut self, now: Time, event: &Event) {
        let attached = &self.paths;
        let name = |id: PathId| {
            let attached = attached[id.index()].as_ref();
            attached.map_or("?", |attached| attached.name.as_str())
        };
        let tunnel = &self.outlets.tunnel;
        let (thing, level, text) = match *event {
            Event::Path {
                path,
                state,
                reason,
            } => {
                if state == PathState::Waiting {
                    // The control thread has said so, and for what.
                    return self.journal.forget_path(path);
                }
                let reason = reason.map(|reason| reason.to_string());
                return self.journal.path(now, path, name(path), state, reason);
            }
            Event::PeerSession { restarted, .. } => {
                let text = match restarted {
                    false => "the peer answers",
                    true => "the peer has restarted",
                };
                (text.to_owned(), Level::Info, text.to_owned())
            }
            Event::Keys { protection } => match protection {
                Protection::None => return,
                Protection::Waiting => {
                    let text = "the keys have expired, and the peer agrees to no new ones";
                    (text.to_owned(), Level::Warn, text.to_owned())
                }
                Protection::Aes256Gcm => {
                    return tracing::debug!("tunnel {tunnel}: new keys, for AES-256-GCM");
                }
                Protection::ChaCha20Poly1305 => {
                    return tracing::debug!("tunnel {tunnel}: new keys, for ChaCha20-Poly1305");
                }
            },
            Event::PeerAddress { path, address } => {
                let name = name(path);
                let text = format!("the peer of path {name} is at {address} now");
                (format!("{name} moved"), Level::Info, text)
            }
            Event::NotAnswered { path, is_faint } => {
                let what = if is_faint {
                    Another::NewPort
                } else {
                    Another::Port
                };
                self.ask_for(path, what);
                return;
            }
            Event::PathRests { path } => {
                let name = name(path);
                let text = format!(
                    "path {name} is not answered; from now on it is asked for 5 s in every 74 s, so that routers \
                     on the way can forget a wrong mapping"
                );
                (format!("{name} rests"), Level::Info, text)
            }
            Event::NoHandshake => {
                let Some(handshake) = self.inbound.handshake() else {
                    return;
                };
                let thing = format!("{:?}", handshake.state);
                let text = format!("{} {}", handshake.text, handshake.remedy);
                (thing, Level::Warn, text)
            }
            Event::PeerStoppedProbing => {
                let text = "the peer sends data but no probes any more; going on without them";
                (text.to_owned(), Level::Warn, text.to_owned())
            }
            Event::PathMtu { path, mtu, lowered } => {
                let (level, most) = match lowered {
                    true => (Level::Warn, " at most"),
                    false => (Level::Info, ""),
                };
                let name = name(path);
                let text = format!("path {name} carries inner packets of {mtu} bytes{most}");
                (text.clone(), level, text)
            }
        };
        if let Some(line) = self.journal.happened(now, &thing, level, &text) {
            line.write();
        }
    }

    fn report(&self, report: &mut Report) {
        self.inbound.report(&mut report.tunnel);
        for (id, status) in &mut report.paths {
            self.inbound.report_path(*id, status);
            if let Some(attached) = &self.paths[id.index()] {
                let drops = attached.open.as_ref().map_or(0, |open| open.drops);
                status.socket_drops = attached.former_drops + u64::from(drops);
            }
        }
        report.reorder = self.inbound.report_reorder();
    }
}

impl Line for Downlink {
    fn place(&self, id: PathId) -> String {
        let attached = self.paths[id.index()].as_ref();
        let name = attached.map_or("?", |attached| attached.name.as_str());
        format!("tunnel {}: path {name}", self.outlets.tunnel)
    }

    fn receive(&mut self, id: PathId, socket: &PathSocket) -> io::Result<bool> {
        while self.buffers.len() < self.batch
            && let Some(buffer) = self.inbound.take_buffer()
        {
            self.buffers.push(buffer);
        }
        let asked = self.buffers.len();
        let received = match socket.recv_batch(&mut self.buffers, &mut self.metas) {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        };
        let now = clock::now();
        let wall_ns = self.stamps.read(now);
        for (buffer, meta) in self.buffers.drain(..received).zip(&self.metas) {
            let datagram = meta.datagram(id, buffer, wall_ns);
            self.inbound.handle_datagram(now, datagram);
        }
        if let Some(attached) = &mut self.paths[id.index()]
            && let Some(open) = &mut attached.open
            && let Some(last) = received.checked_sub(1)
        {
            open.drops = self.metas[last].socket_drops;
        }
        // What block sort may put in order with what other paths' tasks bring in this turn is written
        // at its end, when the line flushes.
        if !self.inbound.may_gather() {
            self.write_tun();
        }
        Ok(received == asked)
    }

    fn take_errors(&mut self, id: PathId, socket: &PathSocket) -> bool {
        let (now, place) = (clock::now(), self.place(id));
        let inbound = &mut self.inbound;
        errqueue::drain(socket, |error| match error {
            PathError::TooBig { mtu, to } => inbound.handle_too_big(now, id, to, mtu),
            PathError::Unreachable {
                reason,
                to,
                from_icmp,
            } => {
                tracing::debug!("{place}: {reason:?}, says {from_icmp:?}");
                let local = socket.local_addr().ip();
                if let Some(what) = unreachable(reason, to, from_icmp, local) {
                    inbound.handle_unreachable(now, id, to, what);
                }
            }
            PathError::Local(error) => tracing::debug!("{place}: {error}"),
        })
    }

    fn replace(&self, id: PathId) -> bool {
        self.ask_for(id, Another::Socket)
    }
}

/// Says why packets are not joined any more.
pub(crate) fn warn_of_refusals(tunnel: &str) {
    tracing::warn!(
        "tunnel {tunnel}: the kernel refuses joined packets, as some releases do by mistake: they are written to the \
         interface one by one from now on, which takes more processor time; a newer kernel will help"
    );
}

/// What somebody (`by`) says of what was sent to `to`; this host itself, at `local`, when nobody answered ARP.
fn unreachable(
    reason: errqueue::Unreachable,
    to: SocketAddr,
    by: Option<IpAddr>,
    local: IpAddr,
) -> Option<Unreachable> {
    let other = by.filter(|by| by.to_canonical() != to.ip().to_canonical());
    match reason {
        errqueue::Unreachable::Network | errqueue::Unreachable::HopLimit => {
            Some(Unreachable::Network)
        }
        errqueue::Unreachable::Host if by == Some(local) => Some(Unreachable::NextHop),
        errqueue::Unreachable::Host => Some(Unreachable::Host),
        errqueue::Unreachable::Port => Some(other.map_or(Unreachable::Port, Unreachable::PortAt)),
        errqueue::Unreachable::Prohibited => Some(Unreachable::Prohibited),
        errqueue::Unreachable::Other { .. } => None,
    }
}

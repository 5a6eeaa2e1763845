//! A tunnel's paths: which socket each has, or what it waits for.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use mpt_core::control::{Missing, PathState, PathStatus};
use mpt_core::path::{MAX_PATHS, PathConfig, PathId};
use mpt_core::time::Time;

use super::Tunnel;
use super::names::{Lookup, leads_on};
use crate::config::{self, Remote};
use crate::downlink::Another;
use crate::netlink::Links;
use crate::udp::{BufferSizes, Counted, HubSockets, PathSocket, SocketError};
use crate::wanted::binding::{Binding, Waits, binding, link_of};
use crate::wanted::retry::Retry;
use crate::{clock, downlink, uplink};

/// That a path is tried from other ports is said so often at most.
const SAID_AGAIN: Duration = Duration::from_secs(3600);

/// A path in the order of the configuration.
pub(super) struct RunningPath {
    pub(super) id: PathId,
    pub(super) name: String,
    /// What its peer's name stands for, if it has one.
    pub(super) lookup: Option<Lookup>,
    /// Where its peer was heard of, when the file does not say.
    pub(super) heard_of: Option<SocketAddr>,
    socket: Option<Bound>,
    /// What it waits for while it has no socket.
    waits: Option<Waits>,
    /// What was refused, and when it is tried again.
    refused: Option<(Binding, Retry)>,
    /// Any port will do: the one that others know seems to lead nowhere.
    takes_any_port: bool,
    /// When that was said.
    said_any_port: Option<Time>,
    /// Where the lines were told that its peer is.
    told_remote: Option<SocketAddr>,
    was_open: bool,
    /// Whether its link can carry packets, as the line in was told.
    link_up: bool,
    /// Whether a packet to some address or other would leave by its link now.
    leads_on: bool,
    /// What it has carried.
    pub(super) counted: Arc<Counted>,
    /// Whether it was taken out of service by command; and whether the line in was told that it is out of service.
    pub(super) is_taken_out: bool,
    pub(super) is_out: bool,
}

/// What a path is opened with: a socket for each worker, and a hub's for calls.
#[derive(Default)]
pub(super) struct Sockets {
    workers: Vec<Arc<PathSocket>>,
    calls: Option<Arc<PathSocket>>,
}

/// A path's socket as this thread knows it.
struct Bound {
    binding: Binding,
    buffers: BufferSizes,
}

impl RunningPath {
    /// Where the peer is, as far as the configuration and its name tell.
    pub(super) fn remote(&self, configured: &config::Path) -> Option<SocketAddr> {
        let found = || self.lookup.as_ref().and_then(Lookup::address);
        configured
            .remote
            .as_ref()
            .and_then(Remote::address)
            .or_else(found)
    }

    /// What its socket is bound to, while it has one.
    pub(super) fn binding(&self) -> Option<&Binding> {
        self.socket.as_ref().map(|bound| &bound.binding)
    }

    /// What its socket is to be bound to.
    fn wanted(&self, configured: &config::Path, links: &Links) -> Result<Binding, Waits> {
        let now = self.socket.as_ref().map(|bound| &bound.binding);
        let mut wanted = binding(configured, self.remote(configured), now, links)?;
        if self.takes_any_port && !configured.local.port_is_given {
            wanted.local.set_port(0);
        }
        Ok(wanted)
    }

    /// Whether another address of its peer may do where this one does not. While its own link is down, or it is out
    /// of service, that would say nothing of either.
    pub(super) fn tries_others(&self) -> bool {
        self.leads_on && !self.is_out
    }

    /// What this thread knows of the path.
    pub(super) fn status(&self, configured: &config::Path) -> PathStatus {
        let (local, granted, asked) = match &self.socket {
            Some(bound) => {
                let local = bound.binding.local.to_string();
                (local, bound.buffers.receive, bound.buffers.receive_wanted)
            }
            None => (configured.local.to_string(), 0, 0),
        };
        PathStatus {
            name: self.name.clone(),
            local,
            interface: configured.interface.clone(),
            cost: configured.cost,
            receive_buffer_bytes: granted as u64,
            receive_buffer_wanted_bytes: asked as u64,
            ..PathStatus::default()
        }
    }

    /// Adds what it waits for to what the line in has said.
    pub(super) fn explain(&self, status: &mut PathStatus) {
        let unknown = self.lookup.as_ref().and_then(Lookup::unknown);
        match status.state {
            PathState::Waiting => {
                let waits = self.waits.as_ref();
                let name = unknown.filter(|_| matches!(waits, Some(Waits::Name(_))));
                status.reason = name.or_else(|| waits.map(ToString::to_string));
            }
            PathState::Probing | PathState::Down if unknown.is_some() => status.reason = unknown,
            PathState::Probing | PathState::Down | PathState::Up | PathState::AdminDown => {}
        }
    }

    /// What it waits for, for the list of what is missing.
    pub(super) fn missing(&self) -> Option<Missing> {
        Some(Missing {
            what: format!("path {}", self.name),
            why: self.waits.as_ref()?.to_string(),
        })
    }
}

impl Tunnel {
    /// Compares the paths' sockets with what the configuration and the host's links ask for, and mends
    /// them.
    pub(super) async fn mend_paths(&mut self, links: &Links, now: Time) -> anyhow::Result<()> {
        let (mut opening, mut waiting) = (Vec::new(), Vec::new());
        for (at, path) in self.paths.iter().enumerate() {
            let Some(configured) = self.config.path(&path.name) else {
                continue;
            };
            match path.wanted(configured, links) {
                Err(waits) => waiting.push((at, waits)),
                Ok(wanted) => {
                    let bound = path.socket.as_ref();
                    let serves = bound.is_some_and(|bound| bound.binding.serves(&wanted));
                    let is_to_wait = |(refused, retry): &(Binding, Retry)| {
                        *refused == wanted && !retry.is_due(now)
                    };
                    if !serves && !path.refused.as_ref().is_some_and(is_to_wait) {
                        opening.push((at, wanted));
                    }
                }
            }
        }
        // All that go first: one may have the address and port that another is to have.
        for at in opening
            .iter()
            .map(|(at, _)| *at)
            .chain(waiting.iter().map(|(at, _)| *at))
        {
            self.close(at).await?;
        }
        for (at, waits) in waiting {
            self.paths[at].refused = None;
            self.wait(at, waits);
        }
        for (at, wanted) in opening {
            self.open(at, wanted, now).await?;
        }
        self.follow_links(links).await
    }

    /// Gives a path another socket. Where its peer does not answer, that is one with a port that the kernel
    /// chooses, or, if the one that it has is such a one and nothing at all is answered, with that of the configuration:
    /// only in a sealed tunnel, whose peer follows, and where the configuration names no port.
    pub(crate) async fn reopen(&mut self, id: PathId, what: Another) -> anyhow::Result<()> {
        let Some(at) = self.paths.iter().position(|path| path.id == id) else {
            return Ok(());
        };
        if what == Another::Socket {
            // The next comparison of what is wanted with what is there opens it.
            return self.close(at).await;
        }
        let path = &mut self.paths[at];
        let (Some(configured), Some(bound)) = (self.config.path(&path.name), &path.socket) else {
            return Ok(());
        };
        if !configured.may_move(self.config.crypto.is_some()) {
            return Ok(());
        }
        let (now, before) = (clock::now(), bound.binding.local.port());
        let mut wanted = bound.binding.clone();
        path.takes_any_port = what == Another::NewPort || !path.takes_any_port;
        wanted.local.set_port(match path.takes_any_port {
            true => 0,
            false => configured.local.port,
        });
        if path.takes_any_port
            && path
                .said_any_port
                .is_none_or(|at| now.since(at) >= SAID_AGAIN)
        {
            path.said_any_port = Some(now);
            self.log.warn(format!(
                "path {}: {} is answered to port {before}; it is tried from other ports",
                path.name,
                if what == Another::NewPort {
                    "little"
                } else {
                    "nothing"
                }
            ));
        }
        self.open(at, wanted, now).await
    }

    /// Opens a path's socket, in place of the one that it has; the path waits when it cannot be had.
    async fn open(&mut self, at: usize, wanted: Binding, now: Time) -> anyhow::Result<()> {
        let device = wanted.device.as_ref().map(|(name, _)| name.as_str());
        let offload = self.config.tunnel.offload;
        let mark = self.routing.mark();
        let path = &mut self.paths[at];
        let workers = self.config.workers();
        let is_hub = self.config.peers.is_some();
        let open_at = |local| match is_hub {
            true => PathSocket::open_hub(local, device, offload, workers),
            false => PathSocket::open(local, device, offload).map(|socket| HubSockets {
                workers: vec![socket],
                calls: None,
            }),
        };
        let configured = self.config.path(&path.name);
        let is_sealed = self.config.crypto.is_some();
        let mut opened = open_at(wanted.local);
        if matches!(opened, Err(SocketError::PortTaken { .. }))
            && configured.is_some_and(|path| path.may_move(is_sealed))
        {
            path.takes_any_port = true;
            let mut any_port = wanted.local;
            any_port.set_port(0);
            opened = open_at(any_port);
        }
        let marked = opened.and_then(|opened| {
            let mut all = opened.workers.iter().chain(&opened.calls);
            all.try_for_each(|socket| socket.set_mark(mark))?;
            Ok(opened)
        });
        let sockets = match marked {
            Ok(opened) => {
                let counting = |socket: PathSocket| Arc::new(socket.counting(path.counted.clone()));
                Sockets {
                    workers: opened.workers.into_iter().map(counting).collect(),
                    calls: opened.calls.map(counting),
                }
            }
            Err(error) => {
                let retry = match path.refused.take() {
                    Some((refused, retry)) if refused == wanted => retry.again(now),
                    _ => Retry::new(now),
                };
                path.refused = Some((wanted, retry));
                if path.socket.is_none() {
                    self.wait(at, Waits::Refused(error.to_string()));
                }
                return Ok(());
            }
        };
        let Some(first) = sockets.workers.first() else {
            return Ok(());
        };
        let buffers = first.buffers();
        let local = first.local_addr();
        let is_moved = path.socket.as_ref().is_none_or(|before| {
            let before = &before.binding;
            before.local.ip() != local.ip() || before.device != wanted.device
        });
        path.socket = Some(Bound {
            binding: Binding { local, ..wanted },
            buffers,
        });
        path.refused = None;
        let waited = path.waits.take().is_some();
        let is_first = !waited && !std::mem::replace(&mut path.was_open, true);
        let name = &path.name;
        if waited || (is_moved && !is_first) {
            self.log.info(format!("path {name} is open at {local}"));
        } else if !is_first {
            // While its peer is silent it goes to another port and back again and again.
            tracing::debug!("path {name} is open at {local}");
        } else if buffers.receive < buffers.receive_wanted {
            self.log.warn(format!(
                "path {name}: the kernel grants a receive buffer of {} bytes where {wanted} were asked for, and may \
                 drop bursts: sysctl -w net.core.rmem_max={wanted}",
                buffers.receive,
                wanted = buffers.receive_wanted,
            ));
        }
        self.set_path(at, &sockets).await
    }

    /// Closes a path's socket, if it has one, and waits until its port is free.
    async fn close(&mut self, at: usize) -> anyhow::Result<()> {
        let path = &mut self.paths[at];
        if path.socket.take().is_none() {
            return Ok(());
        }
        let id = path.id;
        let command = |done| uplink::Command::Close(id, done);
        let mut closed = self.uplink.order(command).await?;
        let command = |done| downlink::Command::Close(id, done);
        closed.extend(self.downlink.order(command).await?);
        for closed in closed {
            closed.await?;
        }
        Ok(())
    }

    /// Closes all of them: they are opened again by the next [`Tunnel::mend_paths`].
    pub(super) async fn close_all(&mut self) -> anyhow::Result<()> {
        for at in 0..self.paths.len() {
            self.close(at).await?;
        }
        Ok(())
    }

    /// Says what a path waits for, when that is news.
    fn wait(&mut self, at: usize, waits: Waits) {
        let path = &mut self.paths[at];
        if path.waits.as_ref() != Some(&waits) {
            self.log.warn(format!("path {} waits: {waits}", path.name));
            path.waits = Some(waits);
        }
    }

    /// Notes whose links lead on, and tells the line in of the paths whose links went or came.
    async fn follow_links(&mut self, links: &Links) -> anyhow::Result<()> {
        for path in &mut self.paths {
            let Some(configured) = self.config.path(&path.name) else {
                continue;
            };
            let link = link_of(configured, path.binding(), links);
            let up = link
                .and_then(|index| links.link(index))
                .is_some_and(|link| link.up);
            path.leads_on = up && leads_on(path.waits.as_ref(), links);
            // The line in knows of links from its sockets.
            if path.socket.is_some() && up != path.link_up {
                path.link_up = up;
                let command = |_| downlink::Command::SetLink(path.id, up);
                self.downlink.tell(command).await?;
            }
        }
        Ok(())
    }

    /// Adds a path, which waits for its socket.
    pub(super) async fn add_path(&mut self, name: &str) -> anyhow::Result<()> {
        let taken = |index: &usize| self.paths.iter().any(|path| path.id.index() == *index);
        let id = (0..MAX_PATHS)
            .find(|index| !taken(index))
            .and_then(PathId::new);
        let Some(id) = id else {
            bail!("a tunnel has at most {MAX_PATHS} paths");
        };
        let at = self.paths.len();
        self.paths.push(RunningPath {
            id,
            name: name.to_owned(),
            lookup: None,
            heard_of: None,
            socket: None,
            waits: None,
            refused: None,
            takes_any_port: false,
            said_any_port: None,
            told_remote: None,
            was_open: false,
            link_up: true,
            leads_on: false,
            counted: Arc::default(),
            is_taken_out: false,
            is_out: false,
        });
        let budget = self.config.path(name).and_then(|path| path.budget);
        self.budget_path(at, budget);
        self.set_path(at, &Sockets::default()).await
    }

    /// Takes a path away and waits until its socket is closed.
    pub(super) async fn remove_path(&mut self, name: &str) -> anyhow::Result<()> {
        if let Some(at) = self.paths.iter().position(|path| path.name == name) {
            self.close(at).await?;
            self.budget_path(at, None);
            let id = self.paths.remove(at).id;
            let command = |_| downlink::Command::RemovePath(id);
            self.downlink.tell(command).await?;
            let command = |_| uplink::Command::RemovePath(id);
            self.uplink.tell(command).await?;
        }
        Ok(())
    }

    /// Tells the lines what is configured of a path, and its sockets when those are new ones.
    pub(super) async fn set_path(&mut self, at: usize, sockets: &Sockets) -> anyhow::Result<()> {
        let path = &mut self.paths[at];
        let Some(configured) = self.config.path(&path.name) else {
            return Ok(());
        };
        let lookup = Lookup::of(configured);
        let is_same = |old: &Lookup| lookup.as_ref().is_some_and(|new| new.is_for(old));
        if !path.lookup.as_ref().is_some_and(is_same) {
            path.lookup = lookup;
        }
        let remote = path.remote(configured);
        // Of another peer nothing was tried: the line in counts from its own port on, too.
        if std::mem::replace(&mut path.told_remote, remote) != remote {
            path.takes_any_port = false;
        }
        let (id, name) = (path.id, path.name.clone());
        let config = PathConfig {
            remote,
            weight: configured.weight,
            keepalive: configured.keepalive,
            dead_after: configured.dead_after,
            metered: configured.metered,
            keeps_port: configured.local.port_is_given,
        };
        let socket = |worker: usize| sockets.workers.get(worker).cloned();
        let command = |worker| uplink::Command::SetPath(id, config, socket(worker));
        self.uplink.tell(command).await?;
        let command = |worker| downlink::Command::SetPath {
            id,
            name: name.clone(),
            config,
            socket: socket(worker),
            calls: sockets.calls.clone().filter(|_| worker == 0),
        };
        self.downlink.tell(command).await
    }
}

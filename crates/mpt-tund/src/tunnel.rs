//! One running tunnel as the control thread sees it: its interface, its sockets, its two threads,
//! and the settings in force.
//!
//! The threads own the two halves of the core. What is asked or changed here reaches them through
//! a bounded channel of commands, and never waits in the way of a packet.

mod names;

use std::net::SocketAddr;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use anyhow::{Context as _, bail};
use mpt_core::control::recent::History;
use mpt_core::control::verdict::judge;
use mpt_core::control::{PathStatus, ReorderStatus, Status, TunnelStatus};
use mpt_core::drops::Drop;
use mpt_core::path::{MAX_PATHS, PathConfig, PathId};
use mpt_core::time::Time;
use mpt_core::tunnel::{ReorderSettings, TunnelConfig, sealed_tunnel, tunnel};
use names::Lookup;
use rustix::thread::CapabilitySet;
use tokio::runtime;
use tokio::sync::{mpsc, oneshot};

use crate::config::{self, Changes, Config, Offload, Remote};
use crate::daemon::Host;
use crate::netlink::{LinkWatch, Netlink};
use crate::tun::Tun;
use crate::udp::{BUFFER_WANTED, PathSocket};
use crate::{clock, downlink, privileges, sealing, uplink};

/// Commands that may wait for a thread.
const MAX_COMMANDS: usize = 64;
/// Reports of the peer that may wait on their way from the line in to the line out.
const MAX_REPORTS: usize = 16;

/// Changes of keys and peers' addresses that may wait there.
const MAX_CHANGES: usize = 16;

/// The least MTU of an interface that keeps its IPv6 addresses (RFC 8200 §5).
const IPV6_MIN_MTU: u16 = 1280;

pub(crate) use names::{Finds, Found};

/// A running tunnel. [`Tunnel::stop`] ends it; its interface and sockets go with it.
pub(crate) struct Tunnel {
    /// The settings in force: the file's, and what was changed since.
    pub(crate) config: Config,
    paths: Vec<RunningPath>,
    index: u32,
    /// The TUN's back end, in words.
    offload: String,
    started: Time,
    history: History,
    uplink: mpsc::Sender<uplink::Command>,
    downlink: mpsc::Sender<downlink::Command>,
    threads: Vec<JoinHandle<()>>,
}

/// A path in the order of the configuration.
struct RunningPath {
    id: PathId,
    name: String,
    /// What its peer's name stands for, if it has one.
    lookup: Option<Lookup>,
    local: SocketAddr,
    interface: Option<String>,
    /// Granted by the kernel, in bytes.
    receive_buffer: usize,
    link_up: bool,
}

/// Says that a tunnel's thread has ended, and why.
pub(crate) type Ended = mpsc::UnboundedSender<(String, std::io::Result<()>)>;
/// Says which MTU a tunnel's interface is to have, in bytes.
pub(crate) type Mtus = mpsc::Sender<(String, u16)>;

impl Tunnel {
    /// Opens the interface and the sockets and starts both lines.
    ///
    /// # Errors
    /// What could not be had; the text says what the operator can do.
    pub(crate) async fn start(
        config: Config,
        host: &Host,
        ended: &Ended,
        mtus: &Mtus,
    ) -> anyhow::Result<Tunnel> {
        let name = config.tunnel.name.clone();
        sealing::announce(&config);
        let sockets = config
            .paths
            .iter()
            .map(|path| open_socket(path, config.tunnel.offload))
            .collect::<Result<Vec<_>, _>>()?;
        let tun = Arc::new(Tun::open(&name, config.tunnel.offload)?);
        let offload = tun.describe();
        let index = host
            .netlink
            .configure(
                &name,
                &config.tunnel.addresses,
                config.mtu().into(),
                &config.tunnel.routes,
            )
            .await?;

        let receives_trains = sockets.iter().any(PathSocket::receives_trains);
        let tunnel_config = TunnelConfig {
            session: new_session()?,
            key: config.tunnel.key,
            mtu: config.mtu(),
            reorder: config.reorder,
            policy: config.tunnel.scheduler,
            recovery: config.recovers(),
            accepts: tun.accepts(),
            receives_trains,
        };
        let (mut outbound, mut inbound) = match sealing::sessions(&config, tunnel_config.session) {
            Some(sessions) => sealed_tunnel(&tunnel_config, sessions),
            None => tunnel(&tunnel_config),
        };
        outbound.set_mss_clamped(config.tunnel.clamps_mss);
        inbound.set_mss_clamped(config.tunnel.clamps_mss);
        let (changes, changed) = mpsc::channel(MAX_CHANGES);
        let (reports, reported) = mpsc::channel(MAX_REPORTS);
        let (uplink, uplink_commands) = mpsc::channel(MAX_COMMANDS);
        let (downlink, downlink_commands) = mpsc::channel(MAX_COMMANDS);
        let threads = vec![
            spawn(&format!("{name}-out"), &name, ended, {
                let tun = tun.clone();
                || uplink::run(outbound, tun, reported, changed, uplink_commands)
            })?,
            spawn(&format!("{name}-in"), &name, ended, {
                let outlets = downlink::Outlets {
                    tunnel: name.clone(),
                    reports,
                    changes,
                    mtus: mtus.clone(),
                };
                move || downlink::run(inbound, tun, receives_trains, outlets, downlink_commands)
            })?,
        ];
        let mut this = Tunnel {
            paths: Vec::new(),
            index,
            offload,
            started: clock::now(),
            history: History::new(clock::now()),
            uplink,
            downlink,
            threads,
            config,
        };
        for (path, socket) in this.config.paths.clone().iter().zip(sockets) {
            this.attach(path, socket).await?;
        }
        this.links_changed(&host.links).await?;
        Ok(this)
    }

    /// Ends both threads and waits for them; afterwards interface and sockets are gone.
    pub(crate) fn stop(self) {
        drop((self.uplink, self.downlink));
        for thread in self.threads {
            // A panic there has been reported.
            let _ = thread.join();
        }
    }

    /// Tells the paths whose links went or came.
    pub(crate) async fn links_changed(&mut self, links: &LinkWatch) -> anyhow::Result<()> {
        for path in &mut self.paths {
            let link = links.link_of_path(path.interface.as_deref(), path.local.ip());
            let up = link
                .and_then(|index| links.link(index))
                .is_some_and(|link| link.up);
            if up != path.link_up {
                path.link_up = up;
                self.downlink
                    .send(downlink::Command::SetLink(path.id, up))
                    .await?;
            }
        }
        Ok(())
    }

    /// Gives the interface the MTU that the paths turned out to carry. With IPv6 inside it keeps what that
    /// needs: less, and the kernel would take the addresses away.
    pub(crate) async fn set_interface_mtu(
        &self,
        mtu: u16,
        netlink: &Netlink,
    ) -> anyhow::Result<()> {
        let inside = self.config.tunnel.addresses.iter();
        let mut inside = inside.chain(&self.config.tunnel.routes);
        let least = if inside.any(|(address, _)| address.is_ipv6()) {
            IPV6_MIN_MTU.min(self.config.mtu())
        } else {
            0
        };
        netlink.set_mtu(self.index, mtu.max(least).into()).await?;
        tracing::info!("tunnel {}: its MTU is {mtu} now", self.config.tunnel.name);
        Ok(())
    }

    /// Everything, as `mpt-ctl status` shows it.
    pub(crate) async fn status(&self, netlink: &Netlink) -> anyhow::Result<Status> {
        let mut status = self.counted(netlink).await?;
        status.recent = self.history.recent(clock::now(), &status);
        status.verdict = judge(&status);
        Ok(status)
    }

    /// Keeps the counters of this moment. Called once a second, it lets a status tell what is so now
    /// from what once was.
    pub(crate) async fn note_counters(&mut self, netlink: &Netlink) -> anyhow::Result<()> {
        let status = self.counted(netlink).await?;
        self.history.note(clock::now(), &status);
        Ok(())
    }

    /// What the two threads and the kernel have counted.
    async fn counted(&self, netlink: &Netlink) -> anyhow::Result<Status> {
        let mut status = self.report().await?;
        if let Some(dropped) = netlink.tx_dropped(self.index).await {
            let name = Drop::TunQueue.name().to_owned();
            status.tunnel.drops.insert(name, dropped);
        }
        Ok(status)
    }

    /// The reorder window, and how packets were ordered before it and behind it.
    pub(crate) async fn reorder(&self) -> anyhow::Result<ReorderStatus> {
        let mut reorder = self.report().await?.reorder;
        let (reply, answer) = oneshot::channel();
        self.downlink
            .send(downlink::Command::ReportOrder(reply))
            .await?;
        reorder.order = Some(answer.await?);
        Ok(reorder)
    }

    /// What the two threads know.
    async fn report(&self) -> anyhow::Result<Status> {
        let paths = self
            .paths
            .iter()
            .map(|path| (path.id, path.status()))
            .collect();
        let tunnel = TunnelStatus {
            name: self.config.tunnel.name.clone(),
            uptime_s: clock::now().since(self.started).as_secs(),
            config: self.config.file.display().to_string(),
            scheduler: self.config.tunnel.scheduler.name().to_owned(),
            recovers: self.config.recovers(),
            offload: self.offload.clone(),
            ..TunnelStatus::default()
        };
        let report = Box::new(downlink::Report {
            tunnel,
            paths,
            ..Default::default()
        });
        let (reply, answer) = oneshot::channel();
        self.downlink
            .send(downlink::Command::Report(report, reply))
            .await?;
        let report = *answer.await?;
        let (reply, answer) = oneshot::channel();
        self.uplink
            .send(uplink::Command::Report(Box::new(report), reply))
            .await?;
        let report = *answer.await?;
        Ok(Status {
            tunnel: report.tunnel,
            paths: report.paths.into_iter().map(|(_, path)| path).collect(),
            reorder: report.reorder,
            ..Status::default()
        })
    }

    /// Takes a path out of service, or back into it. `false` when there is no such path.
    pub(crate) async fn set_out_of_service(&self, name: &str, out: bool) -> anyhow::Result<bool> {
        let Some(path) = self.paths.iter().find(|path| path.name == name) else {
            return Ok(false);
        };
        self.downlink
            .send(downlink::Command::SetOutOfService(path.id, out))
            .await?;
        Ok(true)
    }

    /// Gives a path another share. `false` when there is no such path.
    pub(crate) async fn set_weight(&mut self, name: &str, weight: u32) -> anyhow::Result<bool> {
        let mut paths = self.config.paths.iter_mut();
        let Some(path) = paths.find(|path| path.name == name) else {
            return Ok(false);
        };
        path.weight = weight;
        let path = path.clone();
        self.set_path(&path, None).await?;
        Ok(true)
    }

    /// Changes how packets that arrive are put in order.
    pub(crate) async fn set_reorder(&mut self, reorder: ReorderSettings) -> anyhow::Result<()> {
        self.config.reorder = reorder;
        let numbered = reorder.is_numbered();
        self.uplink
            .send(uplink::Command::SetNumbered(numbered))
            .await?;
        self.downlink
            .send(downlink::Command::SetReorder(reorder))
            .await?;
        Ok(())
    }

    /// Goes over to the settings of `new`. Paths that do not change lose no packet.
    ///
    /// # Errors
    /// When `new` asks for what only a restart can change, and then nothing has changed; or when the
    /// system refuses something, and then the text says what.
    ///
    /// Returns whether anything changed.
    pub(crate) async fn reload(&mut self, new: Config, host: &Host) -> anyhow::Result<bool> {
        let changes = config::difference(&self.config, &new);
        if !changes.needs_restart.is_empty() {
            bail!(
                "restart mpt-tund to change {}",
                changes.needs_restart.join(", and ")
            );
        }
        let paths = self.replace_paths(&changes).await;
        let interface = self.change_interface(&changes, &host.netlink).await;
        if changes.key {
            self.uplink
                .send(uplink::Command::SetKey(new.tunnel.key))
                .await?;
            self.downlink
                .send(downlink::Command::SetKey(new.tunnel.key))
                .await?;
        }
        if let Some(scheduler) = changes.scheduler {
            let command = uplink::Command::SetPolicy(scheduler);
            self.uplink.send(command).await?;
        }
        if changes.scheduler.is_some() || changes.recovery.is_some() {
            let command = uplink::Command::SetRecovery(new.recovers());
            self.uplink.send(command).await?;
            let (policy, recovers) = (new.tunnel.scheduler, new.recovers());
            self.downlink
                .send(downlink::Command::SetSending(policy, recovers))
                .await?;
        }
        if let Some(reorder) = changes.reorder {
            self.set_reorder(reorder).await?;
        }
        self.config = new;
        let position = |path: &RunningPath| {
            self.config
                .paths
                .iter()
                .position(|configured| configured.name == path.name)
        };
        self.paths.sort_by_key(position);
        self.links_changed(&host.links).await?;
        paths.and(interface)?;
        Ok(!changes.is_empty())
    }

    async fn replace_paths(&mut self, changes: &Changes) -> anyhow::Result<()> {
        let new_sockets = changes.paths_changed.iter().filter(|change| change.socket);
        let leaving = new_sockets.clone().map(|change| &change.path.name);
        for name in changes.paths_removed.iter().chain(leaving) {
            self.detach(name).await?;
        }
        for change in changes.paths_changed.iter().filter(|change| !change.socket) {
            self.set_path(&change.path, None).await?;
        }
        let mut first_error = Ok(());
        for path in changes
            .paths_added
            .iter()
            .chain(new_sockets.map(|change| &change.path))
        {
            match open_socket(path, self.config.tunnel.offload) {
                Ok(socket) => self.attach(path, socket).await?,
                Err(error) => first_error = first_error.and(Err(error)),
            }
        }
        first_error
    }

    async fn change_interface(&self, changes: &Changes, netlink: &Netlink) -> anyhow::Result<()> {
        if let Some(mtu) = changes.mtu {
            netlink.set_mtu(self.index, mtu.into()).await?;
            self.downlink.send(downlink::Command::SetMtu(mtu)).await?;
        }
        for &route in &changes.routes.removed {
            netlink.remove_route(self.index, route).await?;
        }
        for &address in &changes.addresses.removed {
            netlink.remove_address(self.index, address).await?;
        }
        for &address in &changes.addresses.added {
            netlink.add_address(self.index, address).await?;
        }
        for &route in &changes.routes.added {
            netlink.add_route(self.index, route).await?;
        }
        Ok(())
    }

    async fn attach(&mut self, path: &config::Path, socket: PathSocket) -> anyhow::Result<()> {
        let taken = |index: &usize| self.paths.iter().any(|path| path.id.index() == *index);
        let id = (0..MAX_PATHS)
            .find(|index| !taken(index))
            .and_then(PathId::new);
        let Some(id) = id else {
            bail!("a tunnel has at most {MAX_PATHS} paths");
        };
        self.paths.push(RunningPath {
            id,
            name: path.name.clone(),
            lookup: None,
            local: socket.local_addr(),
            interface: path.interface.clone(),
            receive_buffer: socket.buffers().receive,
            link_up: true,
        });
        self.set_path(path, Some(Arc::new(socket))).await
    }

    /// Takes a path away and waits until its socket is closed.
    async fn detach(&mut self, name: &str) -> anyhow::Result<()> {
        if let Some(at) = self.paths.iter().position(|path| path.name == name) {
            let id = self.paths.remove(at).id;
            self.downlink
                .send(downlink::Command::RemovePath(id))
                .await?;
            self.uplink.send(uplink::Command::RemovePath(id)).await?;
            self.report().await?;
        }
        Ok(())
    }

    async fn set_path(
        &mut self,
        path: &config::Path,
        socket: Option<Arc<PathSocket>>,
    ) -> anyhow::Result<()> {
        let mut known = self.paths.iter_mut();
        let Some(known) = known.find(|known| known.name == path.name) else {
            return Ok(());
        };
        let lookup = Lookup::of(path);
        let is_same = |old: &Lookup| lookup.as_ref().is_some_and(|new| new.is_for(old));
        if !known.lookup.as_ref().is_some_and(is_same) {
            known.lookup = lookup;
        }
        let id = known.id;
        let found = known.lookup.as_ref().and_then(Lookup::address);
        let config = PathConfig {
            remote: path.remote.as_ref().and_then(Remote::address).or(found),
            weight: path.weight,
            keepalive: path.keepalive,
            dead_after: path.dead_after,
        };
        let command = uplink::Command::SetPath(id, config, socket.clone());
        self.uplink.send(command).await?;
        let name = path.name.clone();
        self.downlink
            .send(downlink::Command::SetPath {
                id,
                name,
                config,
                socket,
            })
            .await?;
        Ok(())
    }
}

impl RunningPath {
    /// What this thread knows of the path.
    fn status(&self) -> PathStatus {
        PathStatus {
            name: self.name.clone(),
            local: self.local.to_string(),
            interface: self.interface.clone(),
            receive_buffer_bytes: self.receive_buffer as u64,
            receive_buffer_wanted_bytes: BUFFER_WANTED as u64,
            ..PathStatus::default()
        }
    }
}

fn open_socket(path: &config::Path, offload: Offload) -> anyhow::Result<PathSocket> {
    let socket = PathSocket::open(path.local, path.interface.as_deref(), offload)
        .with_context(|| format!("path {}", path.name))?;
    let granted = socket.buffers().receive;
    if granted < BUFFER_WANTED {
        tracing::warn!(
            "path {}: the kernel grants a receive buffer of {granted} bytes where {BUFFER_WANTED} \
             were asked for, and may drop bursts: sysctl -w net.core.rmem_max={BUFFER_WANTED}",
            path.name
        );
    }
    Ok(socket)
}

/// Random and not 0.
fn new_session() -> anyhow::Result<u64> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .context("no random numbers to be had")?;
    Ok(u64::from_ne_bytes(bytes).max(1))
}

/// Runs a line on a thread of its own with a runtime of its own.
fn spawn<F, L>(
    thread_name: &str,
    tunnel: &str,
    ended: &Ended,
    line: L,
) -> anyhow::Result<JoinHandle<()>>
where
    L: FnOnce() -> F + Send + 'static,
    F: Future<Output = std::io::Result<()>>,
{
    let (ended, tunnel) = (ended.clone(), tunnel.to_owned());
    let body = move || {
        // All is open: from here on packets of strangers come in.
        if let Err(error) = privileges::keep(CapabilitySet::empty()) {
            tracing::warn!("a thread keeps its privileges: {error}");
        }
        let run = || {
            runtime::Builder::new_current_thread()
                .enable_io()
                .build()
                .and_then(|runtime| tokio::task::LocalSet::new().block_on(&runtime, line()))
        };
        // The tunnel cannot go on with one line; the daemon must hear of it.
        let result = panic::catch_unwind(AssertUnwindSafe(run))
            .unwrap_or_else(|_| Err(std::io::Error::other("one of its threads panicked")));
        // At the end of the daemon nobody listens any more.
        let _ = ended.send((tunnel, result));
    };
    thread::Builder::new()
        .name(thread_name.to_owned())
        .spawn(body)
        .context("cannot start a thread")
}

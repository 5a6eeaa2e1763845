//! One running tunnel as the control thread sees it: its interface, its paths, its two threads, and the
//! settings in force.
//!
//! The threads own the two halves of the core. What is asked or changed here reaches them through
//! a bounded channel of commands, and never waits in the way of a packet.
//!
//! The settings are what is wanted, and [`Tunnel::reconcile`] makes them so as far as the host allows. So a
//! tunnel starts with what there is, and a reload only says what is wanted from now on.

mod dropped;
mod folder;
mod interface;
mod lines;
mod names;
mod paths;
mod peers;
mod routes;
mod standing;
mod threads;
mod told;

use std::cell::Cell;
use std::thread::JoinHandle;

use anyhow::{Context as _, bail};
use dropped::Dropped;
use folder::PeerFolder;
use interface::Interface;
use lines::Lines;
use mpt_core::control::classes::ClassStatus;
use mpt_core::control::drops::DropReason;
use mpt_core::control::order::OrderStatus;
use mpt_core::control::recent::History;
use mpt_core::control::trace::Trace;
use mpt_core::control::verdict::{Verdict, judge};
use mpt_core::control::{HubStatus, Missing, ReorderStatus, Status, TunnelStatus};
use mpt_core::path::MAX_PATHS;
use mpt_core::receive::coalesce::Accepts;
use mpt_core::send::scheduler::law::Law;
use mpt_core::time::Time;
use mpt_core::tunnel::{ReorderSettings, TunnelConfig};
use paths::{RunningPath, Sockets};
use routes::{MainRoutes, Ways};
use tokio::sync::mpsc;
use told::Told;

use crate::budgets::Budgets;
use crate::config::{self, Changes, Config, PeerChange, Roster};
use crate::host::Host;
use crate::hub::peers::Peers;
use crate::hub::queues::Queues;
use crate::log::Log;
use crate::netlink::{Change, Netlink};
use crate::{clock, downlink, sealing, udp, uplink};

/// Commands that may wait for a thread.
const MAX_COMMANDS: usize = 64;

/// Peers that a status lists: with three paths each they stay below
/// [`MAX_LINE_BYTES`](mpt_core::control::MAX_LINE_BYTES).
const MAX_LISTED: usize = 8192;

pub(crate) use names::{Finds, Found};
pub(crate) use threads::{Ended, Ending};

/// A running tunnel. [`Tunnel::stop`] ends it; its interface and sockets go with it.
pub(crate) struct Tunnel {
    /// The settings that are wanted: the file's, and what was changed since.
    pub(crate) config: Config,
    /// This end's session.
    pub(crate) session: u64,
    interface: Interface,
    dropped: Cell<Dropped>,
    routing: Ways,
    paths: Vec<RunningPath>,
    log: Log,
    started: Time,
    history: History,
    uplink: Told<uplink::Command>,
    downlink: Told<downlink::Command>,
    threads: Vec<JoinHandle<()>>,
    /// In a hub: which slots its peers have.
    peers: Peers,
    /// And what chooses the interface's queue for what goes to them.
    queues: Queues,
    /// And what is followed of their folder.
    folder: PeerFolder,
    /// The control socket, if there is none.
    lacks_socket: Option<Missing>,
    /// Where metrics are to be had, if they are not.
    lacks_metrics: Option<Missing>,
    /// Why the last reload by a signal was refused, if it was.
    refused_reload: Option<String>,
    budgets: Budgets,
    /// What the line out knows of paths' costs, by their index.
    costs_told: [u32; MAX_PATHS],
}

/// Says which MTU a tunnel's interface is to have, in bytes.
pub(crate) type Mtus = mpsc::Sender<(String, u16)>;

impl Tunnel {
    /// Starts both lines, without an interface and with paths that wait: [`Tunnel::reconcile`] gives them
    /// what there is.
    ///
    /// # Errors
    /// When there are no threads or no random numbers to be had.
    pub(crate) async fn start(
        config: Config,
        host: &Host,
        ended: &Ended,
        mtus: &Mtus,
        sockets: &downlink::Sockets,
    ) -> anyhow::Result<Tunnel> {
        let name = config.tunnel.name.clone();
        sealing::announce(&config);
        let session = new_session()?;
        let receives_trains = udp::receives_trains(config.tunnel.offload);
        let tunnel_config = TunnelConfig {
            session,
            key: config.tunnel.key,
            mtu: config.mtu(),
            reorder: config.reorder,
            policy: config.tunnel.scheduler,
            recovery: config.recovers(),
            accepts: Accepts::NONE,
            receives_trains,
            law: &Law::LAW,
        };
        let workers = config.workers();
        let (uplink, uplink_commands) = Told::new(workers, MAX_COMMANDS);
        let (downlink, downlink_commands) = Told::new(workers, MAX_COMMANDS);
        let lines = Lines {
            whose: (&name, session),
            ended,
            mtus,
            sockets,
            commands: uplink_commands.into_iter().zip(downlink_commands).collect(),
        };
        let threads = match &config.peers {
            Some(_) => lines.of_hub(|worker| sealing::hub(&config, &tunnel_config, worker))?,
            None => lines.of_two_ends(&config, &tunnel_config)?,
        };
        let mut log = Log::new(&name);
        let mut this = Tunnel {
            session,
            interface: Interface::new(&config),
            dropped: Cell::default(),
            routing: Ways::new(&config, host).await,
            paths: Vec::new(),
            queues: Queues::new(workers, &mut log),
            log,
            started: clock::now(),
            history: History::new(clock::now()),
            uplink,
            downlink,
            threads,
            peers: Peers::default(),
            folder: PeerFolder::default(),
            lacks_socket: None,
            lacks_metrics: None,
            refused_reload: None,
            budgets: Budgets::new(&config),
            costs_told: [0; MAX_PATHS],
            config,
        };
        if let Some(roster) = &this.config.peers {
            let change = PeerChange::all_of(roster);
            this.follow_peers(&change).await?;
        }
        this.tell_refused();
        for path in this.config.paths.clone() {
            this.add_path(&path.name).await?;
        }
        if !this.config.classes.is_empty() {
            this.tell_classes().await?;
        }
        Ok(this)
    }

    /// Ends both threads and waits for them; afterwards interface, sockets, rules and routes are gone.
    pub(crate) async fn stop(self, host: &Host) {
        let Tunnel {
            interface,
            routing,
            uplink,
            downlink,
            threads,
            mut budgets,
            mut log,
            ..
        } = self;
        routing.remove(host).await;
        drop((uplink, downlink));
        for thread in threads {
            // A panic there has been reported.
            let _ = thread.join();
        }
        budgets.end(clock::unix_s(), &mut log);
        drop(interface);
    }

    /// The host has changed; what that is to the tunnel shows in [`Tunnel::reconcile`].
    pub(crate) fn note(&mut self, change: &Change) {
        self.interface.note(&self.config, change);
    }

    /// Compares what is wanted with what the host has, and mends what differs. To be called at each change
    /// of the host and of the settings, and besides a few times a second: what could not be done is tried again
    /// when its time has come. What cannot be done is no error, but shows in [`Tunnel::missing`].
    ///
    /// # Errors
    /// When one of the tunnel's threads has ended.
    pub(crate) async fn reconcile(&mut self, host: &Host) -> anyhow::Result<()> {
        let (now, links) = (clock::now(), host.links.table());
        self.claim_routing(host, now).await?;
        let MainRoutes { staying, moving } = self.main_routes(links);
        let with_moving = [&staying[..], &moving].concat();
        self.mend_interface(&with_moving, host, now).await?;
        self.mend_paths(links, now).await?;
        self.follow_budgets().await?;
        self.mend_routing(host, now).await;
        if !moving.is_empty() && self.interface.index().is_some() {
            // They stand in the tunnel's own table now, so that no packet has gone another way.
            self.interface.doubt();
            self.mend_interface(&staying, host, now).await?;
        }
        self.follow_folder(host).await
    }

    /// What is wanted and not there now.
    pub(crate) fn missing(&self) -> Vec<Missing> {
        let interface = self.interface.missing().iter().cloned();
        let paths = self.paths.iter().filter_map(RunningPath::missing);
        let socket = self.lacks_socket.iter().cloned();
        let metrics = self.lacks_metrics.iter().cloned();
        let budgets = self.budgets.missing();
        interface
            .chain(self.routing.missing())
            .chain(paths)
            .chain(socket)
            .chain(metrics)
            .chain(budgets)
            .collect()
    }

    /// Notes the control socket, if there is none.
    pub(crate) fn note_socket(&mut self, lacking: Option<Missing>) {
        self.lacks_socket = lacking;
    }

    /// Notes where metrics are to be had and are not, if so.
    pub(crate) fn note_metrics(&mut self, lacking: Option<Missing>) {
        self.lacks_metrics = lacking;
    }

    /// What the files say now cannot be followed: that is part of the verdict until a reload succeeds. Who sends a
    /// signal has no other answer.
    pub(crate) fn refuse_reload(&mut self, why: &str) {
        self.refused_reload = Some(why.to_owned());
    }

    /// Whether it has its interface.
    pub(crate) fn has_interface(&self) -> bool {
        self.interface.index().is_some()
    }

    /// Gives the interface the MTU that the paths turned out to carry, at the next
    /// [`Tunnel::reconcile`].
    pub(crate) fn set_interface_mtu(&mut self, mtu: u16) {
        self.interface.set_mtu(&self.config, mtu);
        self.log.info(format!("its MTU is {mtu} now"));
    }

    /// Everything, as `mpt-ctl status` shows it.
    pub(crate) async fn status(&self, host: &Host) -> anyhow::Result<Status> {
        let mut status = self.counted(&host.netlink).await?;
        self.add_devices(&mut status.paths, host).await;
        status.peers = self.list_first_peers(MAX_LISTED).await?;
        if let Some(hub) = &mut status.hub {
            hub.unlisted = hub.peers.saturating_sub(status.peers.len() as u64);
        }
        status.recent = self.history.recent(clock::now(), &status);
        status.verdict = self.verdict(&status);
        Ok(status)
    }

    /// What metrics are made of: the same, with so many peers at most, and order where it is asked for.
    pub(crate) async fn measured(
        &self,
        host: &Host,
        peers: usize,
        with_order: bool,
    ) -> anyhow::Result<(Status, Option<Box<OrderStatus>>)> {
        let mut status = self.counted(&host.netlink).await?;
        self.judge(&mut status, host).await;
        status.peers = self.list_first_peers(peers).await?;
        let order = match with_order && self.config.peers.is_none() {
            true => Some(self.order().await?),
            false => None,
        };
        Ok((status, order))
    }

    /// Keeps the counters of this moment, and returns them. Called once a second, it lets a status tell what is so
    /// now from what once was.
    pub(crate) async fn note_counters(&mut self, netlink: &Netlink) -> anyhow::Result<Status> {
        let status = self.counted(netlink).await?;
        self.hear_of_peers(&status.paths);
        let (wall, now) = (clock::unix_s(), clock::now());
        self.budgets.count(wall, now, &mut self.log);
        self.history.note(clock::now(), &status);
        Ok(status)
    }

    /// Gives a status of this moment the verdict that [`Tunnel::status`] would have.
    pub(crate) async fn judge(&self, status: &mut Status, host: &Host) {
        self.add_devices(&mut status.paths, host).await;
        status.recent = self.history.recent(clock::now(), status);
        status.verdict = self.verdict(status);
    }

    fn verdict(&self, status: &Status) -> Verdict {
        let verdict = judge(status);
        match &self.refused_reload {
            Some(why) => verdict.with_refused_reload(why),
            None => verdict,
        }
    }

    /// What the two threads and the kernel have counted.
    async fn counted(&self, netlink: &Netlink) -> anyhow::Result<Status> {
        let mut status = self.report().await?;
        for path in &mut status.paths {
            if let Some(known) = self.paths.iter().find(|known| known.name == path.name) {
                known.explain(path);
            }
            path.budget = self.budgets.status(&path.name, clock::unix_s());
        }
        status.tunnel.missing = self.missing();
        let counter = self.tx_dropped(netlink).await;
        let mut dropped = self.dropped.get();
        let name = DropReason::TunQueue.name().to_owned();
        status.tunnel.drops.insert(name, dropped.count(counter));
        self.dropped.set(dropped);
        Ok(status)
    }

    /// What the interface's counter says, as far as it is known.
    async fn tx_dropped(&self, netlink: &Netlink) -> Option<u64> {
        netlink.tx_dropped(self.interface.index()?).await
    }

    /// The reorder window, and how packets were ordered before it and behind it.
    pub(crate) async fn reorder(&self) -> anyhow::Result<ReorderStatus> {
        let mut reorder = self.report().await?.reorder;
        reorder.order = Some(self.order().await?);
        Ok(reorder)
    }

    async fn order(&self) -> anyhow::Result<Box<OrderStatus>> {
        self.downlink
            .ask_first(downlink::Command::ReportOrder)
            .await
    }

    /// What was decided about a path's rate, from decision number `from` on.
    pub(crate) async fn trace(&self, name: &str, from: u64) -> anyhow::Result<Trace> {
        let mut trace = Trace::default();
        // A path that waits for its device has no place yet, and nothing was decided.
        if let Some(path) = self.paths.iter().find(|path| path.name == name) {
            let command = |reply| uplink::Command::Trace(path.id, from, reply);
            trace = self.uplink.ask_first(command).await?;
        }
        let origin_us = clock::origin_us();
        for decision in &mut trace.decisions {
            decision.at_us += origin_us;
        }
        trace.path = name.to_owned();
        Ok(trace)
    }

    /// What the two threads know.
    async fn report(&self) -> anyhow::Result<Status> {
        let paths = self
            .paths
            .iter()
            .filter_map(|path| Some((path.id, path.status(self.config.path(&path.name)?))))
            .collect();
        let tunnel = TunnelStatus {
            name: self.config.tunnel.name.clone(),
            session: format!("{:016x}", self.session),
            uptime_s: clock::now().since(self.started).as_secs(),
            config: self.config.file.display().to_string(),
            scheduler: self.config.tunnel.scheduler.name().to_owned(),
            recovers: self.config.recovers(),
            offload: self.interface.describe(&self.queues),
            ..TunnelStatus::default()
        };
        let report = Box::new(downlink::Report {
            tunnel,
            paths,
            ..Default::default()
        });
        let report = self.downlink.ask(report, downlink::Command::Report).await?;
        let report = *self.uplink.ask(report, uplink::Command::Report).await?;
        let configured = self.config.peers.as_ref().map(Roster::len);
        Ok(Status {
            hub: configured.map(|peers| HubStatus {
                peers: peers as u64,
                up: report.peers_up as u64,
                handed_over: report.handed_over,
                refused: self.refused_peers(),
                ..HubStatus::default()
            }),
            tunnel: report.tunnel,
            paths: report.paths.into_iter().map(|(_, path)| path).collect(),
            classes: self.name_paths(report.classes),
            reorder: report.reorder,
            ..Status::default()
        })
    }

    /// Takes a path out of service, or back into it. `false` when there is no such path.
    pub(crate) async fn set_out_of_service(
        &mut self,
        name: &str,
        out: bool,
    ) -> anyhow::Result<bool> {
        let Some(path) = self.paths.iter_mut().find(|path| path.name == name) else {
            return Ok(false);
        };
        path.is_taken_out = out;
        self.follow_budgets().await?;
        Ok(true)
    }

    /// Gives a path another share. `false` when there is no such path.
    pub(crate) async fn set_weight(&mut self, name: &str, weight: u32) -> anyhow::Result<bool> {
        let mut paths = self.config.paths.iter_mut();
        let Some(path) = paths.find(|path| path.name == name) else {
            return Ok(false);
        };
        path.weight = weight;
        if let Some(at) = self.paths.iter().position(|path| path.name == name) {
            self.set_path(at, &Sockets::default()).await?;
        }
        Ok(true)
    }

    /// Changes how packets that arrive are put in order.
    pub(crate) async fn set_reorder(&mut self, reorder: ReorderSettings) -> anyhow::Result<()> {
        self.config.reorder = reorder;
        let numbered = reorder.is_numbered();
        self.uplink
            .tell(|_| uplink::Command::SetNumbered(numbered))
            .await?;
        self.downlink
            .tell(|_| downlink::Command::SetReorder(reorder))
            .await?;
        Ok(())
    }

    /// Goes over to the settings of `new`, which are what is wanted from now on. Paths that do not change
    /// lose no packet. What the host does not allow now is tried again by itself: see
    /// [`Tunnel::missing`].
    ///
    /// # Errors
    /// When `new` asks for what only a restart can change, and then nothing has changed; or when one of the
    /// tunnel's threads has ended.
    ///
    /// Returns whether anything changed.
    pub(crate) async fn reload(&mut self, mut new: Config, host: &Host) -> anyhow::Result<bool> {
        new.keep_peers_of(&self.config);
        let changes = config::difference(&self.config, &new);
        if !changes.needs_restart.is_empty() {
            bail!(
                "restart mpt-tund to change {}",
                changes.needs_restart.join(", and ")
            );
        }
        self.refused_reload = None;
        self.config = new;
        if !changes.is_empty() {
            self.tell_lines(&changes).await?;
            self.exchange_paths(&changes).await?;
            if changes.classes || !self.config.classes.is_empty() {
                self.tell_classes().await?;
            }
        }
        self.tell_refused();
        self.interface.doubt();
        self.reconcile(host).await?;
        Ok(!changes.is_empty())
    }

    /// Tells the lines of settings that need nothing of the host.
    async fn tell_lines(&mut self, changes: &Changes) -> anyhow::Result<()> {
        if changes.key {
            let key = self.config.tunnel.key;
            self.uplink.tell(|_| uplink::Command::SetKey(key)).await?;
            self.downlink
                .tell(|_| downlink::Command::SetKey(key))
                .await?;
        }
        if let Some(scheduler) = changes.scheduler {
            let command = |_| uplink::Command::SetPolicy(scheduler);
            self.uplink.tell(command).await?;
        }
        if changes.scheduler.is_some() || changes.recovery.is_some() {
            let (policy, recovers) = (self.config.tunnel.scheduler, self.config.recovers());
            let command = |_| uplink::Command::SetRecovery(recovers);
            self.uplink.tell(command).await?;
            self.downlink
                .tell(|_| downlink::Command::SetSending(policy, recovers))
                .await?;
        }
        if let Some(reorder) = changes.reorder {
            self.set_reorder(reorder).await?;
        }
        self.follow_peers(&changes.peers).await?;
        if let Some(mtu) = changes.mtu {
            self.interface.set_mtu(&self.config, mtu);
            self.downlink
                .tell(|_| downlink::Command::SetMtu(mtu))
                .await?;
        }
        Ok(())
    }

    /// Tells the line out of the classes, and where their paths stand.
    async fn tell_classes(&self) -> anyhow::Result<()> {
        let place = |name: &str| {
            let path = self.paths.iter().find(|path| path.name == name)?;
            Some(path.id)
        };
        let classes = self.config.classes_of(place);
        let command = |_| uplink::Command::SetClasses(classes.clone());
        self.uplink.tell(command).await?;
        Ok(())
    }

    /// Gives the classes the names of their paths.
    fn name_paths(&self, mut classes: Vec<ClassStatus>) -> Vec<ClassStatus> {
        for (status, class) in classes.iter_mut().zip(&self.config.classes) {
            status.paths.clone_from(&class.paths);
        }
        classes
    }

    /// Makes the paths those of the configuration, in its order.
    async fn exchange_paths(&mut self, changes: &Changes) -> anyhow::Result<()> {
        for name in &changes.paths_removed {
            self.remove_path(name).await?;
        }
        for changed in &changes.paths_changed {
            let mut paths = self.paths.iter();
            if let Some(at) = paths.position(|path| path.name == changed.name) {
                self.budget_path(at, changed.budget);
                self.set_path(at, &Sockets::default()).await?;
            }
        }
        for path in &changes.paths_added {
            self.add_path(&path.name).await?;
        }
        let position = |path: &RunningPath| {
            let mut configured = self.config.paths.iter();
            configured.position(|configured| configured.name == path.name)
        };
        self.paths.sort_by_key(position);
        Ok(())
    }
}

/// Random and not 0.
fn new_session() -> anyhow::Result<u64> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .context("no random numbers to be had")?;
    Ok(u64::from_ne_bytes(bytes).max(1))
}

//! The control thread: keeps the tunnels as they are wanted, answers `mpt-ctl`, hears of the host's
//! changes, obeys signals.
//!
//! One loop does one thing at a time and owns everything, so nothing here needs a lock. The tasks
//! that speak with `mpt-ctl` hand it each request with a place for the reply.
//!
//! A tunnel that cannot start, or cannot go on, is tried again and ends no other. Only when at the start
//! not one tunnel can have its interface does the daemon end with an error: then mostly a privilege or a
//! device is missing, or another daemon runs, and whoever started this one is to know.

use std::time::Duration;

use anyhow::{Context as _, bail};
use mpt_core::control::{Answer, Reply, Request};
use mpt_core::path::PathId;
use rustix::thread::CapabilitySet;
use tokio::runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::LocalSet;
use tokio::time::{Instant, MissedTickBehavior};

use crate::config::Config;
use crate::downlink::Another;
use crate::files::Store;
use crate::host::Host;
use crate::logging::Logging;
use crate::metrics::{self, Exporters};
use crate::netlink::{Change, LinkWatch, Netlink};
use crate::privileges;
use crate::routing::Routing;
use crate::served::{Asked, Outlets, Served};
use crate::service::Service;
use crate::tunnel::{Ending, Found};

/// Requests of `mpt-ctl` that may wait.
const MAX_REQUESTS: usize = 16;
/// Questions for metrics that may wait: each thread that listens has one at most.
const MAX_QUESTIONS: usize = 64;
/// Names that were looked up, and interfaces' MTUs, that may wait.
const MAX_NEWS: usize = 16;
/// How often names are looked at that may have to be looked up, and counters noted.
const CARE_INTERVAL: Duration = Duration::from_secs(1);
/// How often it is asked what is to be tried again.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// How long the last hooks are waited for; each is killed before.
const LAST_HOOKS: Duration = Duration::from_secs(25);

/// Runs all tunnels until a signal ends them. `files` are read again on SIGHUP.
///
/// # Errors
/// When at the start not one tunnel can have its interface.
pub(crate) fn run(files: Store, logging: Logging, configs: Vec<Config>) -> anyhow::Result<()> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let result = LocalSet::new().block_on(&runtime, async {
        let (ended, endings) = mpsc::unbounded_channel();
        let (asking, requests) = mpsc::channel(MAX_REQUESTS);
        let (finds, found) = mpsc::channel(MAX_NEWS);
        let (mtus, interface_mtus) = mpsc::channel(MAX_NEWS);
        let (sockets, wanted_sockets) = mpsc::channel(MAX_NEWS);
        let (measuring, questions) = mpsc::channel(MAX_QUESTIONS);
        let news = News {
            endings,
            requests,
            found,
            interface_mtus,
            wanted_sockets,
            questions,
        };
        let mut daemon = Daemon {
            host: Host {
                files,
                netlink: Netlink::open()?,
                links: LinkWatch::open().await.context("cannot watch links")?,
                routing: Routing::open().await.context("cannot ask for routes")?,
            },
            outlets: Outlets {
                ended,
                finds,
                mtus,
                sockets,
                asking,
                measuring,
            },
            tunnels: Vec::new(),
            exporters: Exporters::default(),
            routing_due: None,
            service: Service::from_environment(),
            logging,
        };
        let result = daemon.serve(configs, news).await;
        daemon.service.stopping();
        daemon.exporters.stop();
        let mut hooks = Vec::new();
        for served in daemon.tunnels.drain(..) {
            hooks.extend(served.stop(&daemon.host).await);
        }
        for ended in hooks {
            // It hangs up; nothing is sent.
            let _ = ended.recv_timeout(LAST_HOOKS);
        }
        result
    });
    // A name may be being looked up: nobody waits for that.
    runtime.shutdown_background();
    result
}

struct Daemon {
    host: Host,
    outlets: Outlets,
    tunnels: Vec<Served>,
    /// Where their metrics are to be had.
    exporters: Exporters,
    /// When rules and routes that have changed are looked at.
    routing_due: Option<Instant>,
    service: Service,
    logging: Logging,
}

/// What the loop hears of.
struct News {
    endings: mpsc::UnboundedReceiver<Ending>,
    requests: mpsc::Receiver<Asked>,
    found: mpsc::Receiver<Found>,
    interface_mtus: mpsc::Receiver<(String, u16)>,
    wanted_sockets: mpsc::Receiver<(String, PathId, Another)>,
    questions: mpsc::Receiver<metrics::Asked>,
}

impl Daemon {
    async fn serve(&mut self, configs: Vec<Config>, mut news: News) -> anyhow::Result<()> {
        let mut signals = Signals::new().context("cannot listen for signals")?;
        let needed = privileges::needed(&configs);
        let has_owner = configs
            .iter()
            .any(|config| config.sockets().any(|(_, owner, _)| owner.is_some()));
        self.tunnels = configs.into_iter().map(Served::new).collect();
        self.reconcile().await?;
        self.check_start()?;
        self.give_up_privileges(needed, has_owner);
        self.service.ready();
        let mut look = tokio::time::interval(LOOK_INTERVAL);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut care = tokio::time::interval(CARE_INTERVAL);
        care.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                wanted = signals.next() => match wanted {
                    Wanted::Stop => return Ok(()),
                    Wanted::Reload => self.reload_all().await,
                },
                Some(ending) = news.endings.recv() => {
                    let mut tunnels = self.tunnels.iter_mut();
                    if let Some(served) = tunnels.find(|served| served.name() == ending.tunnel) {
                        served.ended(ending, &self.host).await;
                    }
                }
                changed = self.host.links.next() => {
                    let change = changed.context("cannot watch links any more")?;
                    self.note(&change);
                }
                () = until(self.routing_due) => {
                    self.routing_due = None;
                    self.host.routing.note();
                }
                Some(asked) = news.requests.recv() => self.answer(asked).await?,
                Some(asked) = news.questions.recv() => self.measure(asked).await,
                _ = look.tick() => {}
                _ = care.tick() => {
                    let mut lines = Vec::new();
                    for served in &mut self.tunnels {
                        served.look_up(&self.outlets).await;
                        lines.push(served.take_stock(&self.host, self.service.listens()).await);
                    }
                    self.exporters.look();
                    self.service.status(&lines);
                    self.service.alive();
                }
                Some(found) = news.found.recv() => {
                    let mut tunnels = self.tunnels.iter_mut();
                    if let Some(served) = tunnels.find(|served| served.name() == found.tunnel) {
                        served.found(found, self.host.links.table()).await;
                    }
                }
                Some((name, path, what)) = news.wanted_sockets.recv() => {
                    if let Some(served) = self.tunnel(&name) {
                        served.reopen(path, what).await;
                    }
                }
                Some((name, mtu)) = news.interface_mtus.recv() => {
                    if let Some(served) = self.tunnel(&name) {
                        served.mtu_found(mtu);
                    }
                }
            }
            self.reconcile().await?;
        }
    }

    fn tunnel(&mut self, name: &str) -> Option<&mut Served> {
        self.tunnels.iter_mut().find(|served| served.name() == name)
    }

    /// Lets every tunnel know what the host has come to.
    fn catch_up(&mut self) -> anyhow::Result<()> {
        let caught_up = self.host.links.catch_up();
        caught_up.context("cannot watch links any more")?;
        while let Some(change) = self.host.links.take_change() {
            self.note(&change);
        }
        Ok(())
    }

    /// The host has changed.
    fn note(&mut self, change: &Change) {
        self.tunnels
            .iter_mut()
            .for_each(|served| served.note(change));
        if self.host.routing.is_concerned(change) {
            self.routing_due.get_or_insert(self.host.routing.settled());
        }
    }

    /// Compares what is wanted with what the host has, and mends what differs.
    async fn reconcile(&mut self) -> anyhow::Result<()> {
        self.catch_up()?;
        for served in &mut self.tunnels {
            served.reconcile(&self.host, &self.outlets).await;
        }
        // Afterwards: they may be at an address of a tunnel's interface.
        let wanted = self.tunnels.iter().filter_map(|served| {
            let metrics = served.metrics()?;
            Some((metrics, served.name()))
        });
        self.exporters
            .reconcile(wanted, &self.host.files, &self.outlets.measuring);
        for served in &mut self.tunnels {
            let lacking = served
                .metrics()
                .and_then(|metrics| self.exporters.lack(metrics));
            served.note_metrics(lacking);
        }
        Ok(())
    }

    /// Answers a question for metrics.
    async fn measure(&mut self, asked: metrics::Asked) {
        let mut samples = Vec::new();
        for name in &asked.tunnels {
            if let Some(served) = self.tunnels.iter().find(|served| served.name() == name) {
                samples.push(served.measured(&self.host, &asked).await);
            }
        }
        // Whoever asked may have gone.
        let _ = asked.reply.send(samples);
    }

    /// At the start, somebody may wait to hear whether it works.
    fn check_start(&self) -> anyhow::Result<()> {
        let lack = |served: &Served| Some((served.name().to_owned(), served.lacks_interface()?));
        let lacking: Vec<_> = self.tunnels.iter().filter_map(lack).collect();
        if let Some((name, why)) = lacking.first()
            && lacking.len() == self.tunnels.len()
        {
            bail!("no tunnel can have its interface; tunnel {name}: {why}");
        }
        let is_open = |served: &&Served| served.lacks_interface().is_none();
        for served in self.tunnels.iter().filter(is_open) {
            tracing::info!("tunnel {} is open", served.name());
        }
        Ok(())
    }

    fn give_up_privileges(&self, mut needed: CapabilitySet, has_owner: bool) {
        // For those that are open, too: where somebody removes its file, a socket is made again and given away again.
        if has_owner && !self.host.files.gives_sockets() {
            needed |= CapabilitySet::CHOWN;
        }
        match privileges::keep(needed) {
            Ok(()) => tracing::debug!(
                "of all privileges only {} is kept",
                privileges::names(needed)
            ),
            Err(error) => tracing::warn!("privileges cannot be given up: {error}"),
        }
    }

    async fn answer(&mut self, asked: Asked) -> anyhow::Result<()> {
        // Of all tunnels, and also where this one does not run.
        if let Request::Log { level } = asked.request {
            asked.answer(match self.logging.answer(level) {
                Ok(log) => Reply::Ok(Answer::Log(log)),
                Err(error) => Reply::Error(format!("{error:#}")),
            });
            return Ok(());
        }
        self.catch_up()?;
        if let Request::Reload = asked.request {
            return self.reload(asked).await;
        }
        let mut tunnels = self.tunnels.iter_mut();
        if let Some(served) = tunnels.find(|served| served.name() == asked.tunnel) {
            served.answer(&self.host, asked).await;
        }
        Ok(())
    }

    /// A tunnel is asked to reload. It answers for itself, once all that its file asks for was tried.
    async fn reload(&mut self, asked: Asked) -> anyhow::Result<()> {
        self.reload_others(&asked.tunnel).await;
        let mut tunnels = self.tunnels.iter_mut();
        let Some(served) = tunnels.find(|served| served.name() == asked.tunnel) else {
            return Ok(());
        };
        let reloaded = served.reload_own(&self.host).await;
        self.exporters.doubt();
        self.reconcile().await?;
        let told = match (reloaded, self.tunnel(&asked.tunnel)) {
            (Ok(changed), Some(served)) => served.reloaded(changed),
            (Err(error), _) => Err(error),
            (Ok(_), None) => return Ok(()),
        };
        asked.answer(match told {
            Ok(told) => Reply::Ok(Answer::Done(told)),
            Err(error) => Reply::Error(format!("{error:#}")),
        });
        Ok(())
    }

    /// SIGHUP: all files are read again. With a mistake in any, nothing changes.
    async fn reload_all(&mut self) {
        let loaded = self.host.files.load();
        if let Some(why) = loaded.refusal() {
            for mistake in &loaded.mistakes {
                tracing::error!("{mistake}");
            }
            tracing::error!("the configuration has mistakes; everything goes on as it was");
            for served in &mut self.tunnels {
                served.refuse_reload(&why);
            }
            return;
        }
        self.follow(loaded.configs, None).await;
    }

    /// The same for all tunnels but the one that was asked to reload, which answers for itself, with a mistake, too.
    async fn reload_others(&mut self, asked: &str) {
        let loaded = self.host.files.load();
        let own = self.tunnels.iter().find(|served| served.name() == asked);
        let own = own.map(|served| served.file().to_owned());
        if loaded.mistakes.is_empty()
            && let Some(file) = own
        {
            let mut others = loaded.configs;
            others.retain(|config| config.file != file);
            self.follow(others, Some(asked)).await;
        }
    }

    /// Goes over to these configurations. What `except` names stays. A tunnel whose file has another name for it now stays
    /// as well, and refuses that.
    async fn follow(&mut self, configs: Vec<Config>, except: Option<&str>) {
        let wanted = |served: &Served| {
            let mut configs = configs.iter();
            let is_except = except == Some(served.name());
            is_except || configs.any(|config| is_of(config, served))
        };
        let (kept, gone) = self.tunnels.drain(..).partition(wanted);
        self.tunnels = kept;
        for served in gone {
            tracing::info!(
                "tunnel {} is closed: no file asks for it any more",
                served.name()
            );
            served.stop(&self.host).await;
        }
        for config in configs {
            let name = config.tunnel.name.clone();
            let tunnels = &self.tunnels;
            let known = tunnels.iter().position(|served| served.name() == name);
            let known = known.or_else(|| tunnels.iter().position(|served| is_of(&config, served)));
            let Some(served) = known.map(|at| &mut self.tunnels[at]) else {
                tracing::info!("tunnel {name} is new");
                self.tunnels.push(Served::new(config));
                continue;
            };
            let warnings: Vec<String> = config.warnings().collect();
            match served.reload(config, &self.host).await {
                Ok(()) => {
                    tracing::info!("tunnel {name}: configuration read again");
                    for warning in warnings {
                        tracing::warn!("tunnel {name}: {warning}");
                    }
                }
                Err(error) => tracing::error!("tunnel {name}: {error:#}"),
            }
        }
    }
}

/// Whether that is the tunnel's configuration: by its name, or by its file.
fn is_of(config: &Config, served: &Served) -> bool {
    config.tunnel.name == served.name() || config.file == served.file()
}

/// Waits until then; for ever where there is no such time.
async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

enum Wanted {
    Stop,
    Reload,
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Wanted {
        tokio::select! {
            _ = self.terminate.recv() => Wanted::Stop,
            _ = self.interrupt.recv() => Wanted::Stop,
            _ = self.hang_up.recv() => Wanted::Reload,
        }
    }
}

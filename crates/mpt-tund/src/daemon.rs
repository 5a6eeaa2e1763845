//! The control thread: starts the tunnels, answers `mpt-ctl`, hears of links, obeys signals.
//!
//! One loop does one thing at a time and owns everything, so nothing here needs a lock. The tasks
//! that speak with `mpt-ctl` hand it each request with a place for the reply.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use mpt_core::control::{Reply, Request};
use tokio::runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, LocalSet};
use tokio::time::MissedTickBehavior;

use crate::config::{self, Config};
use crate::control;
use crate::netlink::{LinkWatch, Netlink};
use crate::privileges;
use crate::requests;
use crate::tunnel::{Ended, Finds, Found, Mtus, Tunnel};

/// Requests of `mpt-ctl` that may wait.
const MAX_REQUESTS: usize = 16;
/// Names that were looked up, and interfaces' MTUs, that may wait.
const MAX_NEWS: usize = 16;
/// How often names are looked at that may have to be looked up, and counters noted.
const CARE_INTERVAL: Duration = Duration::from_secs(1);

/// Runs all tunnels until a signal ends them. `arguments` are read again on SIGHUP.
///
/// # Errors
/// When a tunnel cannot start, or none is left running.
pub(crate) fn run(arguments: Vec<PathBuf>, configs: Vec<Config>) -> anyhow::Result<()> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let result = LocalSet::new().block_on(&runtime, async {
        let (ended, endings) = mpsc::unbounded_channel();
        let (asking, requests) = mpsc::channel(MAX_REQUESTS);
        let (finds, found) = mpsc::channel(MAX_NEWS);
        let (mtus, interface_mtus) = mpsc::channel(MAX_NEWS);
        let news = News {
            endings,
            requests,
            found,
            interface_mtus,
        };
        let mut daemon = Daemon {
            arguments,
            host: Host {
                netlink: Netlink::open()?,
                links: LinkWatch::open().await.context("cannot watch links")?,
            },
            ended,
            finds,
            mtus,
            asking,
            tunnels: Vec::new(),
        };
        let result = daemon.serve(configs, news).await;
        for served in daemon.tunnels.drain(..) {
            served.stop().await;
        }
        result
    });
    // A name may be being looked up: nobody waits for that.
    runtime.shutdown_background();
    result
}

struct Daemon {
    arguments: Vec<PathBuf>,
    host: Host,
    ended: Ended,
    finds: Finds,
    mtus: Mtus,
    asking: mpsc::Sender<Asked>,
    tunnels: Vec<Served>,
}

/// What the loop hears of.
struct News {
    endings: mpsc::UnboundedReceiver<(String, std::io::Result<()>)>,
    requests: mpsc::Receiver<Asked>,
    found: mpsc::Receiver<Found>,
    interface_mtus: mpsc::Receiver<(String, u16)>,
}

/// The kernel's network configuration.
pub(crate) struct Host {
    pub(crate) netlink: Netlink,
    pub(crate) links: LinkWatch,
}

/// A running tunnel, and the task that speaks with `mpt-ctl` for it.
struct Served {
    name: String,
    tunnel: Tunnel,
    speaking: JoinHandle<()>,
}

/// What `mpt-ctl` asks of the tunnel of that name.
struct Asked {
    tunnel: String,
    request: Request,
    reply: oneshot::Sender<Reply>,
}

impl Daemon {
    async fn serve(&mut self, configs: Vec<Config>, mut news: News) -> anyhow::Result<()> {
        let mut signals = Signals::new().context("cannot listen for signals")?;
        let needed = privileges::needed(&configs);
        for config in configs {
            self.start(config).await?;
        }
        match privileges::keep(needed) {
            Ok(()) => tracing::debug!(
                "of all privileges only {} is kept",
                privileges::names(needed)
            ),
            Err(error) => tracing::warn!("privileges cannot be given up: {error}"),
        }
        let mut care = tokio::time::interval(CARE_INTERVAL);
        care.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                wanted = signals.next() => match wanted {
                    Wanted::Stop => return Ok(()),
                    Wanted::Reload => self.reload_all().await,
                },
                Some((name, result)) = news.endings.recv() => {
                    self.tunnel_ended(&name, result).await;
                    anyhow::ensure!(!self.tunnels.is_empty(), "no tunnel is left");
                }
                changed = self.host.links.next() => {
                    changed.context("cannot watch links any more")?;
                    self.links_changed().await;
                }
                Some(asked) = news.requests.recv() => self.answer(asked).await,
                _ = care.tick() => {
                    self.look_up().await;
                    self.note_counters().await;
                }
                Some(found) = news.found.recv() => self.found(found).await,
                Some((name, mtu)) = news.interface_mtus.recv() => self.mtu_found(&name, mtu).await,
            }
        }
    }

    async fn start(&mut self, config: Config) -> anyhow::Result<()> {
        let name = config.tunnel.name.clone();
        let context = || format!("tunnel {name}");
        let listener = {
            let control = &config.control;
            control::bind(&control.socket, control.owner.as_ref(), control.mode)
                .with_context(context)?
        };
        let tunnel = Tunnel::start(config, &self.host, &self.ended, &self.mtus)
            .await
            .with_context(context)?;
        let asking = (name.clone(), self.asking.clone());
        let speaking = tokio::task::spawn_local(async move {
            let answer = |request| ask(asking.0.clone(), asking.1.clone(), request);
            if let Err(error) = control::serve(listener, answer).await {
                tracing::error!("the control socket fails: {error}");
            }
        });
        tracing::info!("tunnel {name} is open");
        self.tunnels.push(Served {
            name,
            tunnel,
            speaking,
        });
        Ok(())
    }

    async fn answer(&mut self, asked: Asked) {
        let served = self
            .tunnels
            .iter_mut()
            .find(|served| served.name == asked.tunnel);
        let reply = match served {
            Some(served) => requests::answer(&self.host, &mut served.tunnel, asked.request).await,
            None => Reply::Error("the tunnel is being closed".to_owned()),
        };
        // Whoever asked may have gone.
        let _ = asked.reply.send(reply);
    }

    async fn tunnel_ended(&mut self, name: &str, result: std::io::Result<()>) {
        // Both threads say so; the second time the tunnel is gone.
        if let Some(at) = self.tunnels.iter().position(|served| served.name == name) {
            match result {
                Ok(()) => tracing::error!("tunnel {name} has ended"),
                Err(error) => tracing::error!(
                    "tunnel {name} cannot go on: {error} (was its interface removed?)"
                ),
            }
            self.tunnels.remove(at).stop().await;
        }
    }

    async fn look_up(&mut self) {
        for served in &mut self.tunnels {
            if let Err(error) = served.tunnel.look_up(&self.finds).await {
                tracing::error!("tunnel {}: {error:#}", served.name);
            }
        }
    }

    async fn note_counters(&mut self) {
        for served in &mut self.tunnels {
            if let Err(error) = served.tunnel.note_counters(&self.host.netlink).await {
                // A line has ended, and says so itself.
                tracing::debug!(
                    "tunnel {}: its counters are not known: {error:#}",
                    served.name
                );
            }
        }
    }

    async fn found(&mut self, found: Found) {
        let mut tunnels = self.tunnels.iter_mut();
        if let Some(served) = tunnels.find(|served| served.name == found.tunnel)
            && let Err(error) = served.tunnel.found(found).await
        {
            tracing::error!("tunnel {}: {error:#}", served.name);
        }
    }

    async fn mtu_found(&mut self, name: &str, mtu: u16) {
        let mut tunnels = self.tunnels.iter();
        if let Some(served) = tunnels.find(|served| served.name == name)
            && let Err(error) = served
                .tunnel
                .set_interface_mtu(mtu, &self.host.netlink)
                .await
        {
            tracing::error!("tunnel {name}: {error:#}");
        }
    }

    async fn links_changed(&mut self) {
        for served in &mut self.tunnels {
            if let Err(error) = served.tunnel.links_changed(&self.host.links).await {
                tracing::error!("tunnel {}: {error:#}", served.name);
            }
        }
    }

    /// SIGHUP: all files are read again. With a mistake in any, nothing changes.
    async fn reload_all(&mut self) {
        let loaded = config::load(&self.arguments);
        if !loaded.mistakes.is_empty() {
            for mistake in &loaded.mistakes {
                tracing::error!("{mistake}");
            }
            tracing::error!("the configuration has mistakes; everything goes on as it was");
            return;
        }
        let wanted = |name: &str| {
            loaded
                .configs
                .iter()
                .any(|config| config.tunnel.name == name)
        };
        let (kept, gone) = self
            .tunnels
            .drain(..)
            .partition(|served| wanted(&served.name));
        self.tunnels = kept;
        for served in gone {
            tracing::info!(
                "tunnel {} is closed: no file asks for it any more",
                served.name
            );
            served.stop().await;
        }
        for config in loaded.configs {
            let name = config.tunnel.name.clone();
            let known = self.tunnels.iter_mut().find(|served| served.name == name);
            let result = match known {
                Some(served) => served.tunnel.reload(config, &self.host).await.map(|_| ()),
                None => self.start(config).await,
            };
            match result {
                Ok(()) => tracing::info!("tunnel {name}: configuration read again"),
                Err(error) => tracing::error!("tunnel {name}: {error:#}"),
            }
        }
    }
}

impl Served {
    async fn stop(self) {
        self.speaking.abort();
        // It removes the control socket as it ends.
        let _ = self.speaking.await;
        self.tunnel.stop();
    }
}

/// Hands a request to the daemon's loop and waits for the reply.
async fn ask(tunnel: String, asking: mpsc::Sender<Asked>, request: Request) -> Reply {
    let (reply, answer) = oneshot::channel();
    let sent = asking
        .send(Asked {
            tunnel,
            request,
            reply,
        })
        .await;
    match (sent, answer.await) {
        (Ok(()), Ok(reply)) => reply,
        _ => Reply::Error("mpt-tund is stopping".to_owned()),
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

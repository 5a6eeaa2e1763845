//! A configured tunnel: it runs, with a control socket, as far as the host allows; and what does not is
//! tried again.

use std::path::Path;

use anyhow::bail;
use mpt_core::control::history::Past;
use mpt_core::control::{Answer, Missing, Reply, Request, Status};
use mpt_core::path::PathId;
use mpt_core::time::Time;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::clock::Calendar;
use crate::config::{self, Config};
use crate::downlink::{Another, Sockets};
use crate::hooks::{self, Hooks};
use crate::host::Host;
use crate::log::Log;
use crate::netlink::{Change, Links};
use crate::tunnel::{Ended, Ending, Finds, Found, Mtus, Tunnel};
use crate::wanted::retry::Retry;
use crate::{clock, control, metrics, requests, service};

/// What `mpt-ctl` asks of the tunnel of that name.
pub(crate) struct Asked {
    /// The tunnel's name.
    pub(crate) tunnel: String,
    /// What is asked.
    pub(crate) request: Request,
    reply: oneshot::Sender<Reply>,
}

impl Asked {
    /// Gives the answer to whoever asked.
    pub(crate) fn answer(self, reply: Reply) {
        // He may have gone.
        let _ = self.reply.send(reply);
    }
}

/// Where what a tunnel's threads and tasks have to say goes.
#[derive(Clone)]
pub(crate) struct Outlets {
    /// The end of a thread.
    pub(crate) ended: Ended,
    /// What names stand for.
    pub(crate) finds: Finds,
    /// The MTU that an interface is to have.
    pub(crate) mtus: Mtus,
    /// Paths that are to have another socket.
    pub(crate) sockets: Sockets,
    /// Requests.
    pub(crate) asking: mpsc::Sender<Asked>,
    /// Questions for metrics.
    pub(crate) measuring: mpsc::Sender<metrics::Asked>,
}

/// A configured tunnel.
pub(crate) struct Served {
    /// What it begins with. While it runs, what was changed since is the tunnel's own.
    config: Config,
    running: Wish<Tunnel>,
    speaking: Wish<JoinHandle<()>>,
    hooks: Hooks,
    log: Log,
    past: Past,
    calendar: Calendar,
}

/// Something that is wanted.
enum Wish<T> {
    /// It was not tried yet.
    New,
    /// It is there.
    Granted(T),
    /// It could not be had, for this reason.
    Refused(String, Retry),
}

impl<T> Wish<T> {
    fn granted(&self) -> Option<&T> {
        match self {
            Wish::Granted(value) => Some(value),
            Wish::New | Wish::Refused(..) => None,
        }
    }

    fn granted_mut(&mut self) -> Option<&mut T> {
        match self {
            Wish::Granted(value) => Some(value),
            Wish::New | Wish::Refused(..) => None,
        }
    }

    /// What it is, where it could not be had.
    fn lacking(&self, what: impl FnOnce() -> String) -> Option<Missing> {
        match self {
            Wish::Refused(why, _) => Some(Missing {
                what: what(),
                why: why.clone(),
            }),
            Wish::New | Wish::Granted(_) => None,
        }
    }

    fn is_due(&self, now: Time) -> bool {
        match self {
            Wish::New => true,
            Wish::Granted(_) => false,
            Wish::Refused(_, retry) => retry.is_due(now),
        }
    }

    /// What came of an attempt. Something is said of it when that is news.
    fn take(&mut self, what: &str, result: anyhow::Result<T>, log: &mut Log) {
        let now = clock::now();
        *self = match (result, &*self) {
            (Ok(value), Wish::Refused(..)) => {
                log.info(format!("{what} is there now"));
                Wish::Granted(value)
            }
            (Ok(value), _) => Wish::Granted(value),
            (Err(error), Wish::Refused(before, retry)) => {
                let why = format!("{error:#}");
                if why != *before {
                    log.warn(format!("{what} is missing: {why}"));
                }
                Wish::Refused(why, retry.again(now))
            }
            (Err(error), _) => {
                let why = format!("{error:#}");
                log.warn(format!("{what} is missing: {why}"));
                Wish::Refused(why, Retry::new(now))
            }
        };
    }
}

impl Served {
    /// A tunnel that runs once [`Served::reconcile`] has been called.
    pub(crate) fn new(config: Config) -> Served {
        Served {
            log: Log::new(&config.tunnel.name),
            hooks: Hooks::new(&config.tunnel.name),
            past: Past::new(&config.tunnel.name),
            calendar: Calendar::default(),
            config,
            running: Wish::New,
            speaking: Wish::New,
        }
    }

    /// The tunnel's name.
    pub(crate) fn name(&self) -> &str {
        &self.config.tunnel.name
    }

    /// The file that configures it.
    pub(crate) fn file(&self) -> &Path {
        &self.config.file
    }

    /// The host has changed.
    pub(crate) fn note(&mut self, change: &Change) {
        if let Some(tunnel) = self.running.granted_mut() {
            tunnel.note(change);
        }
    }

    /// Compares what is wanted with what there is, and mends what differs.
    pub(crate) async fn reconcile(&mut self, host: &Host, outlets: &Outlets) {
        let now = clock::now();
        if self.speaking.granted().is_some_and(JoinHandle::is_finished) {
            let failed = Err(anyhow::anyhow!("it has ended, and the log says why"));
            self.speaking
                .take("its control socket", failed, &mut self.log);
        }
        if self.speaking.is_due(now) {
            let socket = self.speak(host, outlets);
            self.speaking
                .take("its control socket", socket, &mut self.log);
        }
        if self.running.is_due(now) {
            let Outlets {
                ended,
                mtus,
                sockets,
                ..
            } = outlets;
            let started = Tunnel::start(self.config.clone(), host, ended, mtus, sockets).await;
            self.running.take("the tunnel", started, &mut self.log);
        }
        let socket = &self.config.control.socket;
        let lacking = self
            .speaking
            .lacking(|| format!("socket {}", socket.display()));
        if let Some(tunnel) = self.running.granted_mut() {
            tunnel.note_socket(lacking);
            if let Err(error) = tunnel.reconcile(host).await {
                // Its end is told by the thread itself.
                tracing::debug!("tunnel {}: {error:#}", self.config.tunnel.name);
            }
        }
    }

    /// Opens the control socket and begins to speak there.
    fn speak(&self, host: &Host, outlets: &Outlets) -> anyhow::Result<JoinHandle<()>> {
        let control = &self.config.control;
        let owner = control.owner.as_ref();
        let door = host.files.bind(&control.socket, owner, control.mode)?;
        let (name, asking) = (self.name().to_owned(), outlets.asking.clone());
        Ok(tokio::task::spawn_local(async move {
            let answer = |request| ask(name.clone(), asking.clone(), request);
            if let Err(error) = control::serve(door, answer).await {
                tracing::error!("tunnel {name}: the control socket fails: {error}");
            }
        }))
    }

    /// Why the tunnel has no interface, if it has none.
    pub(crate) fn lacks_interface(&self) -> Option<String> {
        match &self.running {
            Wish::Granted(tunnel) if tunnel.has_interface() => None,
            Wish::Granted(tunnel) => {
                let missing = tunnel.missing().into_iter().next();
                Some(missing.map_or_else(String::new, |missing| missing.why))
            }
            Wish::Refused(why, _) => Some(why.clone()),
            Wish::New => Some("it was not started".to_owned()),
        }
    }

    /// Where its metrics are to be had.
    pub(crate) fn metrics(&self) -> Option<&config::Metrics> {
        in_force(&self.running, &self.config).metrics.as_ref()
    }

    /// Notes why they are not to be had there, if so.
    pub(crate) fn note_metrics(&mut self, lacking: Option<Missing>) {
        if let Some(tunnel) = self.running.granted_mut() {
            tunnel.note_metrics(lacking);
        }
    }

    /// What metrics are made of.
    pub(crate) async fn measured(&self, host: &Host, asked: &metrics::Asked) -> metrics::Sample {
        let name = self.name();
        let measured = match &self.running {
            Wish::Granted(tunnel) => {
                let most = metrics::MAX_PEERS;
                tunnel.measured(host, most, asked.with_order).await.ok()
            }
            Wish::New | Wish::Refused(..) => None,
        };
        match measured {
            Some((status, order)) => metrics::Sample::new(status, order),
            None => metrics::Sample::of_none(name),
        }
    }

    /// Carries out what `mpt-ctl` asks.
    pub(crate) async fn answer(&mut self, host: &Host, asked: Asked) {
        // Also of a tunnel that does not run now.
        if let Request::History { path } = &asked.request {
            let reply = self.history(path.as_deref());
            return asked.answer(reply);
        }
        let reply = match self.running() {
            Ok(tunnel) => requests::answer(host, tunnel, asked.request.clone()).await,
            Err(why) => Reply::Error(why.to_string()),
        };
        asked.answer(reply);
    }

    /// The tunnel.
    ///
    /// # Errors
    /// Why it does not run.
    fn running(&mut self) -> anyhow::Result<&mut Tunnel> {
        match &mut self.running {
            Wish::Granted(tunnel) => Ok(tunnel),
            Wish::Refused(why, _) => bail!("the tunnel does not run: {why}"),
            Wish::New => bail!("the tunnel is being started"),
        }
    }

    /// Reads the tunnel's file again, as `mpt-ctl` asks, and wants what it says from now on. Whether that is anything
    /// else than before.
    ///
    /// # Errors
    /// When the tunnel does not run, and when it cannot follow what the files say.
    pub(crate) async fn reload_own(&mut self, host: &Host) -> anyhow::Result<bool> {
        requests::reload(host, self.running()?).await
    }

    /// What that has come to. To be asked once all was tried that is wanted now.
    ///
    /// # Errors
    /// When the tunnel does not run.
    pub(crate) fn reloaded(&mut self, changed: bool) -> anyhow::Result<String> {
        Ok(requests::reloaded(self.running()?, changed))
    }

    /// The last 24 hours.
    fn history(&self, path: Option<&str>) -> Reply {
        let (now, origin_us) = (self.calendar.now(), self.calendar.origin_us());
        match self.past.history(path, now, origin_us) {
            Ok(history) => Reply::Ok(Answer::History(Box::new(history))),
            Err(known) => Reply::Error(requests::no_history(path.unwrap_or_default(), &known)),
        }
    }

    /// Wants what `config` says from now on; asked by a signal.
    ///
    /// # Errors
    /// As [`Tunnel::reload`].
    pub(crate) async fn reload(&mut self, config: Config, host: &Host) -> anyhow::Result<()> {
        match &mut self.running {
            Wish::Granted(tunnel) => {
                let refused = tunnel.reload(config, host).await.err();
                if let Some(error) = refused {
                    tunnel.refuse_reload(&format!("{error:#}"));
                    return Err(error);
                }
            }
            Wish::New | Wish::Refused(..) => {
                self.config = config;
                self.running = Wish::New;
            }
        }
        Ok(())
    }

    /// What the files say now cannot be followed.
    pub(crate) fn refuse_reload(&mut self, why: &str) {
        if let Some(tunnel) = self.running.granted_mut() {
            tunnel.refuse_reload(why);
        }
    }

    /// Begins to look up names that are due.
    pub(crate) async fn look_up(&mut self, outlets: &Outlets) {
        if let Some(tunnel) = self.running.granted_mut()
            && let Err(error) = tunnel.look_up(&outlets.finds).await
        {
            tracing::debug!("tunnel {}: {error:#}", self.config.tunnel.name);
        }
    }

    /// Keeps the counters of this moment, and has hooks run when it is time for them. Where `is_asked`: how the tunnel
    /// does, in a line.
    pub(crate) async fn take_stock(&mut self, host: &Host, is_asked: bool) -> String {
        let counted = self.count(host, is_asked).await;
        let commands = &in_force(&self.running, &self.config).hooks;
        let why = match counted {
            Ok(Some(status)) => {
                self.hooks.look(commands, Some(&status), "");
                return service::line(&status);
            }
            Ok(None) => return String::new(),
            Err(why) => why,
        };
        self.hooks.look(commands, None, &why);
        format!("{}: down: {why}", self.name())
    }

    /// What is counted now, judged where somebody wants to know; or why the tunnel does not run.
    async fn count(&mut self, host: &Host, is_asked: bool) -> Result<Option<Status>, String> {
        let counted = self.look(host, is_asked).await;
        if counted.is_err() {
            self.past.pause();
        }
        counted
    }

    async fn look(&mut self, host: &Host, is_asked: bool) -> Result<Option<Status>, String> {
        let tunnel = match &mut self.running {
            Wish::Granted(tunnel) => tunnel,
            Wish::Refused(why, _) => return Err(why.clone()),
            Wish::New => return Err("it is being started".to_owned()),
        };
        match tunnel.note_counters(&host.netlink).await {
            Ok(mut status) => {
                self.past.note(self.calendar.now(), clock::now(), &status);
                if !is_asked && tunnel.config.hooks.is_empty() {
                    return Ok(None);
                }
                tunnel.judge(&mut status, host).await;
                Ok(Some(status))
            }
            // A line has ended, and says so itself.
            Err(error) => Err(format!("its counters are not known: {error:#}")),
        }
    }

    /// Uses what a name was found to stand for.
    pub(crate) async fn found(&mut self, found: Found, links: &Links) {
        if let Some(tunnel) = self.running.granted_mut()
            && let Err(error) = tunnel.found(found, links).await
        {
            tracing::debug!("tunnel {}: {error:#}", self.config.tunnel.name);
        }
    }

    /// A path is to have another socket.
    pub(crate) async fn reopen(&mut self, path: PathId, what: Another) {
        if let Some(tunnel) = self.running.granted_mut()
            && let Err(error) = tunnel.reopen(path, what).await
        {
            tracing::debug!("tunnel {}: {error:#}", self.config.tunnel.name);
        }
    }

    /// The paths turned out to carry this much.
    pub(crate) fn mtu_found(&mut self, mtu: u16) {
        if let Some(tunnel) = self.running.granted_mut() {
            tunnel.set_interface_mtu(mtu);
        }
    }

    /// One of the tunnel's threads has ended: the tunnel cannot go on, and is started again.
    pub(crate) async fn ended(&mut self, ending: Ending, host: &Host) {
        let is_this = |tunnel: &Tunnel| tunnel.session == ending.session;
        if !self.running.granted().is_some_and(is_this) {
            return;
        }
        let why = match ending.result {
            Ok(()) => "it has ended".to_owned(),
            Err(error) => format!("it cannot go on: {error}"),
        };
        tracing::error!("tunnel {}: {why}; it is started again", self.name());
        let refused = Wish::Refused(why, Retry::new(clock::now()));
        if let Wish::Granted(tunnel) = std::mem::replace(&mut self.running, refused) {
            self.config = tunnel.config.clone();
            tunnel.stop(host).await;
        }
    }

    /// Ends the tunnel. What is returned, if anything, says when its last hook has ended.
    pub(crate) async fn stop(self, host: &Host) -> Option<hooks::Ended> {
        if let Wish::Granted(speaking) = self.speaking {
            speaking.abort();
            // It removes the control socket as it ends.
            let _ = speaking.await;
        }
        let commands = in_force(&self.running, &self.config).hooks.clone();
        if let Wish::Granted(tunnel) = self.running {
            tunnel.stop(host).await;
        }
        self.hooks.end(&commands)
    }
}

/// The settings in force: those that the tunnel has, if it runs.
fn in_force<'a>(running: &'a Wish<Tunnel>, config: &'a Config) -> &'a Config {
    running.granted().map_or(config, |tunnel| &tunnel.config)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_had_is_missing_until_it_is_there() {
        let mut log = Log::new("mpt0");
        let mut speaking = Wish::New;
        let lacking = |wish: &Wish<()>| wish.lacking(|| "socket mpt0.sock".to_owned());
        assert_eq!(lacking(&speaking), None);
        speaking.take("it", Err(anyhow::anyhow!("no folder")), &mut log);
        let missing = lacking(&speaking).unwrap();
        assert_eq!(missing.what, "socket mpt0.sock");
        assert_eq!(missing.why, "no folder");
        speaking.take("it", Ok(()), &mut log);
        assert_eq!(lacking(&speaking), None);
    }
}

//! Commands of the configuration that are run when a tunnel comes up, goes down, or a path changes.
//!
//! [`watch`] finds out what happened, from the counters of each second; [`runner`] runs the commands, one at a time,
//! on a thread of the tunnel's own that holds no privilege. What happens faster than commands may run is told as
//! what it has come to.

mod runner;
mod watch;

use std::sync::mpsc::Receiver;

use mpt_core::control::Status;

use crate::config;
use runner::Runner;
use watch::Watch;

/// A tunnel's commands.
#[derive(Debug)]
pub(crate) struct Hooks {
    tunnel: String,
    watch: Watch,
    runner: Option<Runner>,
}

/// Says by hanging up that the last command has ended.
pub(crate) type Ended = Receiver<()>;

impl Hooks {
    /// Of the tunnel of this name, which is down.
    pub(crate) fn new(tunnel: &str) -> Hooks {
        Hooks {
            tunnel: tunnel.to_owned(),
            watch: Watch::default(),
            runner: None,
        }
    }

    /// Looks at what the tunnel has come to, with a verdict in it; `None` while it does not run. Has commands run where
    /// that is something else than before.
    pub(crate) fn look(&mut self, commands: &config::Hooks, status: Option<&Status>, why: &str) {
        let happened = self.watch.look(&self.tunnel, status, why);
        if commands.is_empty() {
            // What waits is still run.
            self.runner = None;
            return;
        }
        for event in happened {
            let Some(hook) = event.hook(commands) else {
                continue;
            };
            if self.runner.is_none() {
                match Runner::begin(&self.tunnel) {
                    Ok(runner) => self.runner = Some(runner),
                    Err(error) => {
                        tracing::warn!("tunnel {}: no hook can be run: {error}", self.tunnel);
                        return;
                    }
                }
            }
            if let Some(runner) = &self.runner {
                runner.add(hook.clone(), event);
            }
        }
    }

    /// The tunnel has ended. What is returned says when its last command has.
    pub(crate) fn end(mut self, commands: &config::Hooks) -> Option<Ended> {
        self.look(commands, None, "it was stopped");
        self.runner.map(Runner::end)
    }
}

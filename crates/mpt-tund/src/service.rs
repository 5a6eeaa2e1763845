//! What systemd is told, where it has started the daemon with `Type=notify`: that it is ready, how each tunnel does,
//! and that it is alive (sd_notify(3)).
//!
//! Alive means that the control thread got an answer of every line: a line that hangs has the daemon started again
//! when its unit has `WatchdogSec=`.

use mpt_core::control::verdict::Level;
use mpt_core::control::{PathState, Status};
use sd_notify::NotifyState;

/// Longest status line that is sent, in bytes: a screen's width or a few.
const MAX_STATUS: usize = 500;

/// The service manager, if there is one.
#[derive(Debug)]
pub(crate) struct Service {
    listens: bool,
    is_watching: bool,
    said: String,
}

impl Service {
    /// What the environment says of it.
    pub(crate) fn from_environment() -> Service {
        Service {
            listens: std::env::var_os("NOTIFY_SOCKET").is_some(),
            is_watching: sd_notify::watchdog_enabled().is_some(),
            said: String::new(),
        }
    }

    /// Whether somebody listens.
    pub(crate) fn listens(&self) -> bool {
        self.listens
    }

    /// All tunnels have been tried, and one at least has its interface.
    pub(crate) fn ready(&self) {
        self.tell(&NotifyState::Ready);
    }

    /// The daemon ends, as it was asked to.
    pub(crate) fn stopping(&self) {
        self.tell(&NotifyState::Stopping);
    }

    /// Everything goes on. To be called more often than half of `WatchdogSec=`.
    pub(crate) fn alive(&self) {
        if self.is_watching {
            self.tell(&NotifyState::Watchdog);
        }
    }

    /// How the tunnels do, for `systemctl status`. Said when it is something new.
    pub(crate) fn status(&mut self, lines: &[String]) {
        let mut line = lines.join("; ").replace('\n', " ");
        if line.len() > MAX_STATUS {
            let mut letters = line.char_indices().map(|(at, _)| at);
            let end = letters.rfind(|&at| at <= MAX_STATUS);
            line.truncate(end.unwrap_or_default());
            line.push('…');
        }
        if self.listens && line != self.said {
            self.tell(&NotifyState::Status(&line));
            self.said = line;
        }
    }

    fn tell(&self, state: &NotifyState<'_>) {
        if self.listens
            && let Err(error) = sd_notify::notify(std::slice::from_ref(state))
        {
            tracing::debug!("systemd was not told: {error}");
        }
    }
}

/// How a tunnel does, in one line: its verdict, its paths, and what is wrong first.
pub(crate) fn line(status: &Status) -> String {
    let up = status
        .paths
        .iter()
        .filter(|path| path.state == PathState::Up);
    let (up, all) = (up.count(), status.paths.len());
    let level = match status.verdict.level {
        Level::Ok => "ok",
        Level::Degraded => "degraded",
        Level::Down => "down",
    };
    let mut line = format!("{}: {level}, ", status.tunnel.name);
    line += &match &status.hub {
        Some(hub) => format!("{} of {} peers are there", hub.up, hub.peers),
        None => format!("{up} of {all} paths are up"),
    };
    let worst = status.verdict.messages.first();
    if let Some(worst) = worst.filter(|worst| worst.level != Level::Ok) {
        line += &format!(": {}", worst.text);
    }
    line
}

#[cfg(test)]
mod tests {
    use mpt_core::control::verdict::judge;
    use mpt_core::control::{PathStatus, TunnelStatus};

    use super::*;

    fn status(states: &[PathState]) -> Status {
        let path = |(number, state): (usize, &PathState)| PathStatus {
            name: format!("p{number}"),
            state: *state,
            ..PathStatus::default()
        };
        let mut status = Status {
            tunnel: TunnelStatus {
                name: "mpt0".to_owned(),
                ..TunnelStatus::default()
            },
            paths: states.iter().enumerate().map(path).collect(),
            ..Status::default()
        };
        status.verdict = judge(&status);
        status
    }

    #[test]
    fn a_line_has_the_verdict_the_paths_and_what_is_wrong() {
        let well = line(&status(&[PathState::Up, PathState::AdminDown]));
        assert!(well.starts_with("mpt0: ok, 1 of 2 paths are up"), "{well}");
        let bad = line(&status(&[PathState::Down]));
        assert!(
            bad.starts_with("mpt0: down, 0 of 1 paths are up: "),
            "{bad}"
        );
    }

    #[test]
    fn a_long_status_is_cut_between_letters() {
        let mut service = Service {
            listens: false,
            is_watching: false,
            said: String::new(),
        };
        service.listens = true;
        service.status(&["ä".repeat(MAX_STATUS)]);
        assert_eq!(service.said.chars().count(), MAX_STATUS / 2 + 1);
    }
}

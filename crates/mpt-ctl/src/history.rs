//! `mpt-ctl history [PATH]`: the last 24 hours as text, JSON or a chart.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::Args;
use mpt_core::control::history::History;
use mpt_core::control::{Answer, Request};
use mpt_measure::table::Look;

use crate::client::{self, ClientError};
use crate::render::history::show;
use crate::render::trace::written;
use crate::{Failure, draw_into, json, print};

/// Stands for the standard output.
const HERE: &str = "-";

pub(crate) const AFTER_HELP: &str = "\
Columns:
  TIME       when it began, in UTC
  UP         share of the time in which the path was up; of the tunnel, any path
  SENT       bytes, of paths with GRE headers and probes, of the tunnel inner
  RECEIVED   likewise
  OUT, IN    Mbit/s (G: Gbit/s): mean, and after the slash the busiest second
  RTT        smoothed round trip in ms: least / mean / highest of what was seen
             once a second while the path was up
  LOSS       share of what was sent on the path that the peer missed; of the
             tunnel, of what the peer sent and this end gave up
  AGAIN      packets that the path lost and that were sent again; of the tunnel
             all that were

A time that is not there was not seen: the path was not configured, mpt-tund did
not run, or the host slept. \"–\" stands where a path was not up, or nothing was
sent. The daemon keeps 24 hours of 32 paths in memory, 92 kB each, and nothing
on disk. With --json each minute is an object; docs/watching.md has the fields.";

/// Of what, and how it is shown.
#[derive(Debug, Clone, Args)]
pub(crate) struct HistoryCommand {
    /// The path's name in the configuration: a minute a line. Without it the tunnel and all of its paths,
    /// an hour a line
    #[arg(value_name = "PATH")]
    path: Option<String>,
    /// Draw rates, round trip and loss over time into this file as well; without FILE, on the standard
    /// output instead of text
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = HERE)]
    svg: Option<PathBuf>,
}

impl HistoryCommand {
    /// What the command line alone can get wrong: a PATH behind `--svg` would be the file, and what is there lost.
    pub(crate) fn check(&self) -> Result<(), String> {
        match &self.svg {
            Some(file) if !self.draws_here() && file.extension() != Some(OsStr::new("svg")) => {
                let file = file.display();
                Err(format!(
                    "--svg {file}: this does not end in .svg; name a file such as {file}.svg, or give the path \
                     before --svg, as in `mpt-ctl history {file} --svg`"
                ))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Whether the chart goes to the standard output.
    pub(crate) fn draws_here(&self) -> bool {
        self.svg.as_deref() == Some(Path::new(HERE))
    }
}

/// Asks, and shows it.
pub(crate) fn run(
    socket: &Path,
    command: &HistoryCommand,
    as_json: bool,
    look: Look,
) -> Result<(), Failure> {
    let history = ask(socket, command.path.as_deref())?;
    if command.draws_here() {
        return Ok(print(&drawn(&history))?);
    }
    if let Some(file) = &command.svg {
        draw_into(file, &drawn(&history))?;
    }
    match as_json {
        true => print(&json(&history, true)?)?,
        false => print(&show(&history, command.path.is_some(), look))?,
    }
    Ok(())
}

fn ask(socket: &Path, path: Option<&str>) -> Result<History, ClientError> {
    let path = path.map(str::to_owned);
    let Answer::History(history) = client::ask(socket, &Request::History { path })? else {
        return Err(client::unasked());
    };
    Ok(*history)
}

fn drawn(history: &History) -> String {
    let until = written(history.at_us);
    mpt_chart::history::svg(history, &format!("{} {} UTC", &until[..10], &until[11..16]))
}

//! `mpt-ctl trace PATH`: why a path's rate is what it is, a line a decision, and a chart.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use mpt_chart::rates;
use mpt_core::control::trace::{Decision, Trace};
use mpt_core::control::{Answer, Request};

use crate::client::{self, ClientError};
use crate::render::trace::{head, lines, show, written};
use crate::{Failure, draw_into, json, print, stop_signals};

/// How often the daemon is asked for what is new. It keeps what is decided in ten times as long and more.
const ASK_EVERY: Duration = Duration::from_millis(500);

pub(crate) const AFTER_HELP: &str = "\
Columns, rates in Mbit/s:
  PHASE     what the rate does: open (there is none: the path takes what there
            is), cruise, probe (more than it carries is tried), hold (less, as
            packets are lost), drain (less, to see the delay without a queue)
  Mbit/s    what it is paced at from then on
  CARRIES   what it is believed to carry when it is busy
  DELIVERS  what it delivered in the last epoch of reports, 25 ms or more
  QUEUE     queue on the way, as delay
  AIM       the queue that is aimed at; more on a path with jitter
  LOSS      share of packets that it lost when that was judged last
  WHY       the signal that decided

The daemon keeps the last 512 decisions of each path; one that changes neither
the phase nor the rate by a hundredth is not kept. With --json the times are
`at_us`, microseconds since 1970 (UTC); with --follow a line is an object.
docs/rate-control.md explains phases and signals.";

/// What is to be traced, and how it is shown.
#[derive(Debug, Clone, Args)]
pub(crate) struct TraceCommand {
    /// The path's name in the configuration
    #[arg(value_name = "PATH")]
    path: String,
    /// Go on with what is decided from now on, until Ctrl-C
    #[arg(long, short)]
    follow: bool,
    /// Draw rate and queue over time into this file as well, with --follow at its end
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Shows what was decided, and goes on if that is wanted.
pub(crate) fn run(socket: &Path, command: &TraceCommand, as_json: bool) -> Result<(), Failure> {
    let mut trace = ask(socket, &command.path, 0)?;
    match (as_json, command.follow) {
        (false, _) => print(&show(&trace))?,
        (true, false) => print(&json(&trace, true)?)?,
        (true, true) => print(&json_lines(&trace.decisions)?)?,
    }
    let ended = match command.follow {
        true => follow(socket, &mut trace, as_json),
        false => Ok(()),
    };
    if let Some(file) = &command.svg {
        draw(file, &trace)?;
    }
    ended
}

/// Adds what is new, and shows it, until Ctrl-C.
fn follow(socket: &Path, trace: &mut Trace, as_json: bool) -> Result<(), Failure> {
    let stop = stop_signals()?;
    let mut next = trace.first + trace.decisions.len() as u64;
    while stop.recv_timeout(ASK_EVERY).is_err() {
        let new = ask(socket, &trace.path, next)?;
        next = new.first + new.decisions.len() as u64;
        let Some(first) = new.decisions.first() else {
            continue;
        };
        match as_json {
            true => print(&json_lines(&new.decisions)?)?,
            false if trace.decisions.is_empty() => {
                print(&(head(&trace.path, first) + &lines(&new.decisions)))?;
            }
            false => print(&lines(&new.decisions))?,
        }
        trace.decisions.extend(new.decisions);
    }
    Ok(())
}

fn ask(socket: &Path, path: &str, from: u64) -> Result<Trace, ClientError> {
    let name = path.to_owned();
    let Answer::Trace(trace) = client::ask(socket, &Request::Trace { name, from })? else {
        return Err(client::unasked());
    };
    Ok(trace)
}

fn json_lines(decisions: &[Decision]) -> Result<String, ClientError> {
    decisions
        .iter()
        .map(|decision| json(decision, false))
        .collect()
}

fn draw(file: &Path, trace: &Trace) -> io::Result<()> {
    let since = match trace.decisions.first() {
        Some(first) => format!(" since {}", written(first.at_us)),
        None => String::new(),
    };
    let title = format!("Rate of path {}{since}", trace.path);
    draw_into(file, &rates::svg(&title, &trace.decisions))
}

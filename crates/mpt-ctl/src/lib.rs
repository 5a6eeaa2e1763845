//! Inspect and steer a running MPT tunnel.
//!
//! One request, one answer: `args` turns the command line into a request, `client` finds the
//! daemon and asks, `render` shows the answer to people, with the daemon's verdict on
//! what is wrong. `--json` prints the answer as it came. `trace` asks again and again, and so does `top`, on a whole
//! screen.
//!
//! [`mpt_measure`] is a tool of its own, which asks no daemon; neither do `keys` and `new`.
//!
//! A library so that manual pages and completions are made of the same [`command`] as `--help`.

mod args;
mod client;
mod history;
mod keys;
mod new;
mod render;
#[cfg(feature = "top")]
mod top;
mod trace;

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use mpt_core::control::verdict::Level;
use mpt_core::control::{Answer, Request};
use mpt_measure::table::Look;
use mpt_measure::{MeasureCommand, MeasureError};
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use args::{Cli, Task};
use client::{ClientError, NO_ANSWER};
use history::HistoryCommand;
use keys::KeyFailure;
use new::{NewCommand, NewError};
use trace::TraceCommand;

/// Moves the cursor home and clears the screen.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// The command line: names, values and all that `--help` says.
#[must_use]
pub fn command() -> clap::Command {
    args::command()
}

/// Runs the program with the arguments of this process. Its exit code is what `--help` promises.
#[must_use]
pub fn run() -> ExitCode {
    let (cli, task) = Cli::from_arguments();
    let done = match &task {
        Task::Ask(request) => answer(&cli, request).map(ExitCode::from),
        Task::Trace(command) => trace(&cli, command).map(|()| ExitCode::SUCCESS),
        Task::History(command) => history(&cli, command).map(|()| ExitCode::SUCCESS),
        #[cfg(feature = "top")]
        Task::Top => watch_top(&cli).map(|()| ExitCode::SUCCESS),
        Task::Measure(command) => measure(&cli, command).map(|found| match found {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        }),
        Task::New(command) => make(&cli, command).map(|()| ExitCode::SUCCESS),
        Task::Key(command) => keys::run(*command)
            .map(|()| ExitCode::SUCCESS)
            .map_err(Failure::Key),
    };
    match done {
        Ok(code) => code,
        Err(Failure::Measure(error)) => {
            eprintln!("mpt-ctl: {error}");
            ExitCode::FAILURE
        }
        Err(Failure::Client(error)) => {
            eprintln!("mpt-ctl: {error}");
            ExitCode::from(if let Task::Ask(request) = &task {
                failed(request, &error)
            } else {
                error.exit_code()
            })
        }
        // `mpt-ctl paths | head -1` has got what it wanted.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(Failure::Output(error)) => {
            eprintln!("mpt-ctl: cannot write the answer: {error}");
            if let Task::Ask(Request::Status) = task {
                ExitCode::from(NO_ANSWER)
            } else {
                ExitCode::FAILURE
            }
        }
        #[cfg(feature = "top")]
        Err(Failure::Top(error)) => {
            eprintln!("mpt-ctl: {error}");
            ExitCode::from(error.exit_code())
        }
        Err(Failure::Key(error)) => {
            eprintln!("mpt-ctl: {error}");
            ExitCode::FAILURE
        }
        Err(Failure::New(error)) => {
            eprintln!("mpt-ctl: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

/// Why the program ends without having shown the answer.
enum Failure {
    Client(ClientError),
    Measure(MeasureError),
    Output(io::Error),
    Key(KeyFailure),
    New(NewError),
    #[cfg(feature = "top")]
    Top(top::TopError),
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// Asks and shows the answer. Returns the exit code.
fn answer(cli: &Cli, request: &Request) -> Result<u8, Failure> {
    let socket = socket(cli)?;
    let look = look();
    if let Some(interval) = cli.watch {
        return watch(&socket, request, interval, cli.json, look);
    }
    let answer = client::ask(&socket, request)?;
    let text = if cli.json {
        as_json(&answer, true)?
    } else {
        render::text(&answer, look)
    };
    match print(&text) {
        // `mpt-ctl status | head -1` has got what it wanted.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        other => other?,
    }
    Ok(exit_code(&answer))
}

/// Shows why a path's rate is what it is.
fn trace(cli: &Cli, command: &TraceCommand) -> Result<(), Failure> {
    trace::run(&socket(cli)?, command, cli.json)
}

/// Shows the last 24 hours.
fn history(cli: &Cli, command: &HistoryCommand) -> Result<(), Failure> {
    history::run(&socket(cli)?, command, cli.json, look())
}

/// Shows the tunnel as it goes on.
#[cfg(feature = "top")]
fn watch_top(cli: &Cli) -> Result<(), Failure> {
    top::check_terminal().map_err(Failure::Top)?;
    let interval = cli.watch.unwrap_or(top::INTERVAL);
    top::run(&socket(cli)?, interval, look()).map_err(Failure::Top)
}

/// The socket of the tunnel that is meant.
fn socket(cli: &Cli) -> Result<PathBuf, ClientError> {
    client::locate(
        cli.socket.as_deref(),
        cli.tunnel.as_deref(),
        Path::new(client::RUN_DIR),
    )
}

/// What an answer says by the exit code: how the tunnel does, in the way of monitoring plugins.
fn exit_code(answer: &Answer) -> u8 {
    let Answer::Status(status) = answer else {
        return 0;
    };
    match status.verdict.level {
        Level::Ok => 0,
        Level::Degraded => 1,
        Level::Down => 2,
    }
}

/// What the exit code says where there is no answer. Of a status 1 and 2 would say how the tunnel does, and that is not
/// known.
fn failed(request: &Request, error: &ClientError) -> u8 {
    match (request, error) {
        (Request::Status, ClientError::Refused(_)) => NO_ANSWER,
        _ => error.exit_code(),
    }
}

/// Measures and shows the report; `false` when nothing was measured.
fn measure(cli: &Cli, command: &MeasureCommand) -> Result<bool, Failure> {
    let outcome = mpt_measure::run(command, cli.json, look()).map_err(Failure::Measure)?;
    print(&outcome.text)?;
    Ok(outcome.found)
}

/// Makes a tunnel's files and says what to do with them.
fn make(cli: &Cli, command: &NewCommand) -> Result<(), Failure> {
    let made = new::run(command).map_err(Failure::New)?;
    match cli.json {
        true => print(&json(&made, true)?)?,
        false => print(made.text())?,
    }
    Ok(())
}

/// How the standard output is to look.
fn look() -> Look {
    let terminal = io::stdout().is_terminal();
    let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    Look {
        colour: terminal && !no_colour,
        wrap: terminal,
    }
}

/// Shows the answer again and again until Ctrl-C. A daemon that goes away ends it, unless someone
/// is looking: a person wants to see it come back. Returns the exit code of the last answer.
fn watch(
    socket: &Path,
    request: &Request,
    interval: Duration,
    json: bool,
    look: Look,
) -> Result<u8, Failure> {
    let stop = stop_signals()?;
    let screen = io::stdout().is_terminal() && !json;
    let mut seen = false;
    loop {
        let started = Instant::now();
        let (text, code) = match client::ask(socket, request) {
            Ok(answer) if json => (as_json(&answer, false)?, exit_code(&answer)),
            Ok(answer) => (render::text(&answer, look), exit_code(&answer)),
            Err(error) if screen && seen => (format!("{error}\n"), failed(request, &error)),
            Err(error) => return Err(error.into()),
        };
        let before = match (screen, seen && !json) {
            (true, _) => CLEAR,
            (false, true) => "\n",
            (false, false) => "",
        };
        match print(&format!("{before}{text}")) {
            // Who reads it has seen enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(code),
            other => other?,
        }
        seen = true;
        let pause = interval.saturating_sub(started.elapsed());
        if stop.recv_timeout(pause).is_ok() {
            return Ok(code);
        }
    }
}

/// A channel that hears of the first Ctrl-C or SIGTERM; a second one ends the program at once.
fn stop_signals() -> io::Result<Receiver<()>> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let (told, stop) = mpsc::channel();
    std::thread::spawn(move || {
        for (count, _signal) in signals.forever().enumerate() {
            if count > 0 || told.send(()).is_err() {
                std::process::exit(0);
            }
        }
    });
    Ok(stop)
}

/// The answer as JSON, without the envelope that it came in: indented for people, or on one line.
fn as_json(answer: &Answer, indented: bool) -> Result<String, ClientError> {
    match answer {
        Answer::Status(status) => json(status, indented),
        Answer::Paths(paths) => json(paths, indented),
        Answer::Peers(peers) => json(peers, indented),
        Answer::Peer(peer) => json(peer, indented),
        Answer::Reorder(reorder) => json(reorder, indented),
        Answer::Trace(trace) => json(trace, indented),
        Answer::History(history) => json(history, indented),
        Answer::Log(log) => json(log, indented),
        Answer::Done(sentence) => json(&BTreeMap::from([("done", sentence)]), indented),
    }
}

fn json(value: &impl Serialize, indented: bool) -> Result<String, ClientError> {
    let format = if indented {
        serde_json::to_string_pretty
    } else {
        serde_json::to_string
    };
    match format(value) {
        Ok(text) => Ok(text + "\n"),
        Err(error) => Err(ClientError::Protocol(error.to_string())),
    }
}

/// Writes a chart into a file, and says so where it disturbs no answer.
fn draw_into(file: &Path, chart: &str) -> io::Result<()> {
    std::fs::write(file, chart)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", file.display())))?;
    eprintln!("mpt-ctl: drawn into {}", file.display());
    Ok(())
}

fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

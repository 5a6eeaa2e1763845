//! The command line: what may be asked, and how it becomes a [`Task`].
//!
//! Settings are given as `key=value` words. A word that cannot be understood ends the program
//! before anything is sent, with a text that lists what would have been understood: a setting is
//! either applied as a whole or not at all.

mod peer;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use mpt_core::control::setting::Setting;
use mpt_core::control::{LatePolicy, LogLevel, Request};
use mpt_core::limits::{HOLDS, MAX_WINDOW, WEIGHTS};

use crate::client::USAGE;
use crate::history::{self, HistoryCommand};
use crate::keys::KeyCommand;
use crate::new::NewCommand;
use crate::trace::{self, TraceCommand};
use mpt_measure::{self as measure, MeasureCommand};
use peer::PeerCommand;

/// Seconds between refreshes where `--watch` names none.
const DEFAULT_WATCH: &str = "2";
/// The shortest refresh; below it a screen is not read but flickers.
const SHORTEST_WATCH: Duration = Duration::from_millis(100);
/// The longest refresh, a day.
const LONGEST_WATCH: Duration = Duration::from_secs(86_400);

const AFTER_HELP: &str = "\
Exit codes:
   0  done
   1  the daemon refused, or `new` or a key command failed; the text says why
   3  the daemon cannot be reached: not running, no permission, no answer
   4  the daemon's answer cannot be understood
  64  the command line is wrong, or several tunnels run and none was chosen
  `status` says by them how the tunnel does, also with --json, and with --watch
  by the last answer: 0 well, 1 degraded, 2 down, 3 no answer
  `measure` asks no daemon: 0 something was measured, 1 nothing was; the text says why

Examples:
  mpt-ctl status                  how the tunnel does, and what is wrong with it
  mpt-ctl status --watch          the same every 2 seconds, until Ctrl-C
  mpt-ctl --json paths            each path for a script (jq '.[].rtt_us')
  mpt-ctl top                     the same on the whole screen, with keys
  mpt-ctl history                 the last 24 hours; `history lte --svg lte.svg` draws
  mpt-ctl trace lte --follow      why its rate rises and falls
  mpt-ctl log debug               say more in the log, until `mpt-ctl log info`
  mpt-ctl path down lte           out of service, until `mpt-ctl path up lte`
  mpt-ctl path set lte weight=40  a share of 40 beside the other paths' weights
  mpt-ctl reorder set window=2048 max_buffer_delay=300ms
  mpt-ctl save                    keep the running settings; comments stay
  mpt-ctl new --server 203.0.113.7 --client-interfaces eth0,wwan0
                                  a sealed tunnel: files and keys of both ends
  (umask 077; mpt-ctl genkey > private.key); mpt-ctl pubkey < private.key
                                  this end's key, and what the peer must know of it
  mpt-ctl measure receive         how far a path is from order (`measure --help`)

Colours appear on a terminal only, and not where NO_COLOR is set.";

const PATHS_HELP: &str = "\
Columns:
  RTT        round trip of the probes, smoothed
  LEAST      the least of the last half to whole minute
  LATER BY   how much later than over the fastest path packets come in here,
             one way: what the reorder window has to hold
  LOSS       share of what was sent here recently that the peer misses
  MTU        the largest inner packet that the path carries
  TAKES      what the adaptive scheduler gives it at most; all while its
             limit has not shown
  DELIVERS   what it delivered recently, by the peer's reports
  QUEUE      how long packets wait in a queue on the way
  LOSES      share that it loses at any rate, which no slowing down avoids";

/// Inspect and steer a running MPT tunnel.
#[derive(Debug, Parser)]
#[command(name = "mpt-ctl", version, after_help = AFTER_HELP, max_term_width = 80)]
pub(crate) struct Cli {
    /// Control socket of the daemon [default: the only *.sock in /run/mpt]
    #[arg(
        long,
        short,
        global = true,
        value_name = "PATH",
        conflicts_with = "tunnel"
    )]
    pub(crate) socket: Option<PathBuf>,

    /// Tunnel to speak to, short for --socket /run/mpt/NAME.sock
    #[arg(long, short, global = true, value_name = "NAME", value_parser = tunnel_name)]
    pub(crate) tunnel: Option<String>,

    /// Print JSON for scripts; errors are still text on the standard error output
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Refresh status, paths, peers, peer show, reorder or top every SECONDS [default: 2] until
    /// Ctrl-C; with --json one line each time
    #[arg(
        long,
        short,
        global = true,
        value_name = "SECONDS",
        num_args = 0..=1,
        default_missing_value = DEFAULT_WATCH,
        value_parser = refresh_interval,
    )]
    pub(crate) watch: Option<Duration>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the tunnel as a whole, and say what is wrong with it
    Status,
    /// Show each path: state, round-trip time, loss, traffic
    #[command(after_help = PATHS_HELP)]
    Paths,
    /// Show a hub's peers: who is there, over which paths, and how much goes
    Peers,
    /// Show one of a hub's peers in full, add one, change one, or take one away
    #[command(subcommand)]
    Peer(PeerCommand),
    /// Show the reorder window and how gaps ended; `reorder set` changes it
    #[command(args_conflicts_with_subcommands = true)]
    Reorder {
        #[command(subcommand)]
        change: Option<ReorderCommand>,
    },
    /// Show what was decided about a path's rate and why, a line a decision
    #[command(after_help = trace::AFTER_HELP)]
    Trace(TraceCommand),
    /// Show the last 24 hours: an hour a line, or of one path a minute a line; or draw them
    #[command(after_help = history::AFTER_HELP)]
    History(HistoryCommand),
    /// Show peers and paths as they go on, on the whole screen; `?` there lists the keys
    #[cfg(feature = "top")]
    #[command(after_help = crate::top::AFTER_HELP)]
    Top,
    /// What was left out, so that it can be said
    #[cfg(not(feature = "top"))]
    #[command(hide = true)]
    Top,
    /// Show how much mpt-tund logs, or change it while it runs
    ///
    /// The level is that of the daemon, of all its tunnels, until it ends; `mpt-tund --log` says what it begins with.
    Log {
        /// What is to be logged from now on
        #[arg(value_parser = log_levels())]
        level: Option<LogLevel>,
    },
    /// Take a path out of service, bring it back, or change its settings
    #[command(subcommand)]
    Path(PathCommand),
    /// Read the configuration file again, as on SIGHUP
    Reload,
    /// Write the running settings into the configuration file; comments stay
    Save,
    /// Make both ends' files of a sealed tunnel, with keys: a client with several uplinks, behind
    /// NAT or not, and a server with one address
    New(NewCommand),
    /// Make a private key, for `private_key_file`
    Genkey,
    /// Work out the public key to the private key on standard input, for the peer's `peer_public_key`
    Pubkey,
    /// Make a preshared key, for `psk_file` at both ends
    Genpsk,
    /// Measure the order of packets over any path, or in a capture file; needs no daemon
    #[command(subcommand, after_help = measure::AFTER_HELP)]
    Measure(MeasureCommand),
}

/// The levels by name, each with what it logs.
fn log_levels() -> impl TypedValueParser<Value = LogLevel> {
    let shown = |level: LogLevel| PossibleValue::new(level.name()).help(level.about());
    let names = PossibleValuesParser::new(LogLevel::ALL.map(shown));
    names.try_map(|name| LogLevel::named(&name).ok_or("no such level"))
}

/// What the command line wants done.
#[derive(Debug)]
pub(crate) enum Task {
    /// Ask a daemon.
    Ask(Request),
    /// Ask a daemon for decisions.
    Trace(TraceCommand),
    /// Ask a daemon for the last 24 hours.
    History(HistoryCommand),
    /// Show what a daemon says as it goes on.
    #[cfg(feature = "top")]
    Top,
    /// Measure.
    Measure(MeasureCommand),
    /// Make a key, without a daemon.
    Key(KeyCommand),
    /// Make a tunnel's files, without a daemon.
    New(NewCommand),
}

#[derive(Debug, Subcommand)]
enum PathCommand {
    /// Put a path back in service
    Up {
        /// The path's name in the configuration
        name: String,
    },
    /// Take a path out of service until `path up`
    Down {
        /// The path's name in the configuration
        name: String,
    },
    /// Change a path's settings while it runs: weight=N
    Set {
        /// The path's name in the configuration
        name: String,
        /// weight=N: relative share of bytes, 1 to 1000000
        #[arg(required = true, value_name = "KEY=VALUE")]
        settings: Vec<String>,
    },
}

#[derive(Debug, Subcommand)]
enum ReorderCommand {
    /// Change the window while it runs: window=N, max_buffer_delay=D, late=deliver|drop
    Set {
        /// window=N: packets that may be held, 0 turns reordering off;
        /// max_buffer_delay=D: longest hold, such as 300ms or 1.5s;
        /// either may be auto: the tunnel finds it by what it measures;
        /// late=deliver or late=drop: what happens to packets that come after their gap has ended
        #[arg(required = true, value_name = "KEY=VALUE")]
        settings: Vec<String>,
    },
}

impl Cli {
    /// Parses the program's arguments, or ends it with a text and exit code [`USAGE`] (0 for `--help`).
    pub(crate) fn from_arguments() -> (Self, Task) {
        Self::parse_words(std::env::args_os()).unwrap_or_else(|error| {
            // Whoever does not take the text has the code.
            let _ = error.print();
            let code = if error.use_stderr() { USAGE } else { 0 };
            std::process::exit(code.into())
        })
    }

    fn parse_words(words: impl IntoIterator<Item = OsString>) -> Result<(Self, Task), clap::Error> {
        let mut command = command();
        command.build();
        let matches = command.try_get_matches_from_mut(bind_watch(words))?;
        let cli = Self::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
        let asked = asked(&command, &matches);
        let wrong = |text| asked.clone().error(ErrorKind::ValueValidation, text);
        let task = cli.command.task().map_err(wrong)?;
        let alone = match &task {
            Task::Measure(_) => Some("measure"),
            Task::New(_) => Some("new"),
            Task::Key(_) => Some("a key command"),
            Task::Ask(_) | Task::Trace(_) | Task::History(_) => None,
            #[cfg(feature = "top")]
            Task::Top => None,
        };
        if let Some(word) = alone.filter(|_| cli.socket.is_some() || cli.tunnel.is_some()) {
            return Err(wrong(format!(
                "{word} asks no daemon: no --socket, no --tunnel"
            )));
        }
        let views = match &task {
            Task::Ask(request) => is_view(request),
            #[cfg(feature = "top")]
            Task::Top => true,
            Task::Trace(_) | Task::History(_) | Task::Measure(_) | Task::Key(_) | Task::New(_) => {
                false
            }
        };
        if cli.watch.is_some() && !views {
            return Err(wrong(
                "--watch goes with status, paths, peers, peer show, reorder and top".into(),
            ));
        }
        #[cfg(feature = "top")]
        if cli.json && matches!(task, Task::Top) {
            return Err(wrong(
                "top is for people; `mpt-ctl --json --watch status` is a line each time, for scripts".into(),
            ));
        }
        if cli.json && matches!(task, Task::Key(_)) {
            return Err(wrong(
                "a key is one line of text, for scripts as for people: leave --json out".into(),
            ));
        }
        if cli.json && matches!(&task, Task::History(history) if history.draws_here()) {
            return Err(wrong(
                "--json and --svg both go to the standard output; name a FILE after --svg".into(),
            ));
        }
        Ok((cli, task))
    }
}

/// The options of all commands that some refuse, with those below them: these do not list them.
const REFUSED: [(&str, &[&str]); 16] = [
    ("top", &["json"]),
    ("trace", &["watch"]),
    ("history", &["watch"]),
    ("log", &["watch"]),
    ("path", &["watch"]),
    ("reload", &["watch"]),
    ("save", &["watch"]),
    ("reorder set", &["watch"]),
    ("peer add", &["watch"]),
    ("peer set", &["watch"]),
    ("peer remove", &["watch"]),
    ("new", &["socket", "tunnel", "watch"]),
    ("measure", &["socket", "tunnel", "watch"]),
    ("genkey", &["socket", "tunnel", "watch", "json"]),
    ("pubkey", &["socket", "tunnel", "watch", "json"]),
    ("genpsk", &["socket", "tunnel", "watch", "json"]),
];

/// The command line. A command does not list an option that it refuses.
pub(crate) fn command() -> clap::Command {
    let command = Cli::command();
    let options: Vec<clap::Arg> = command.get_arguments().cloned().collect();
    REFUSED.into_iter().fold(command, |command, (words, ids)| {
        let refused = |one: &&clap::Arg| ids.contains(&one.get_id().as_str());
        let hidden = options.iter().filter(refused);
        let hidden: Vec<_> = hidden.map(|one| one.clone().hide(true)).collect();
        without(command, words, &hidden)
    })
}

/// With these for what is `words` below it.
fn without(command: clap::Command, words: &str, hidden: &[clap::Arg]) -> clap::Command {
    match words.split_once(' ') {
        Some((word, words)) => command.mut_subcommand(word, |below| without(below, words, hidden)),
        None => command.mut_subcommand(words, |below| below.args(hidden)),
    }
}

/// The command that was given, down to its last word: its usage helps, and not that of the whole program.
fn asked<'a>(command: &'a clap::Command, matches: &clap::ArgMatches) -> &'a clap::Command {
    let below = matches
        .subcommand()
        .and_then(|(word, matches)| Some((command.find_subcommand(word)?, matches)));
    match below {
        Some((below, matches)) => asked(below, matches),
        None => command,
    }
}

impl Command {
    fn task(&self) -> Result<Task, String> {
        Ok(Task::Ask(match self {
            Self::New(new) => {
                new.check()?;
                return Ok(Task::New(new.clone()));
            }
            Self::Genkey => return Ok(Task::Key(KeyCommand::Generate)),
            Self::Pubkey => return Ok(Task::Key(KeyCommand::Public)),
            Self::Genpsk => return Ok(Task::Key(KeyCommand::GeneratePreshared)),
            Self::Status => Request::Status,
            Self::Paths => Request::Paths,
            Self::Peers => Request::Peers,
            Self::Peer(peer) => peer.request()?,
            Self::Reorder { change: None } => Request::Reorder,
            Self::Reorder {
                change: Some(ReorderCommand::Set { settings }),
            } => {
                let mut window = None;
                let mut max_buffer_delay_us = None;
                let mut late = None;
                for (key, value) in settings.iter().map(|word| key_value(word)) {
                    match key {
                        "window" => set_once(&mut window, key, or_auto(count, key, value)?)?,
                        "max_buffer_delay" => {
                            set_once(&mut max_buffer_delay_us, key, or_auto(hold_us, key, value)?)?;
                        }
                        "late" => set_once(&mut late, key, late_policy(value)?)?,
                        _ => {
                            return Err(unknown_key(
                                key,
                                "window=N, max_buffer_delay=D, late=deliver|drop",
                            ));
                        }
                    }
                }
                Request::ReorderSet {
                    window,
                    max_buffer_delay_us,
                    late,
                }
            }
            Self::Trace(trace) => return Ok(Task::Trace(trace.clone())),
            Self::History(history) => {
                history.check()?;
                return Ok(Task::History(history.clone()));
            }
            #[cfg(feature = "top")]
            Self::Top => return Ok(Task::Top),
            #[cfg(not(feature = "top"))]
            Self::Top => {
                return Err(
                    "this mpt-ctl was built without top: build it with the feature `top`, which is on by default, \
                     or use `mpt-ctl --watch status`"
                        .into(),
                );
            }
            Self::Log { level } => Request::Log { level: *level },
            Self::Path(PathCommand::Up { name }) => Request::PathUp { name: name.clone() },
            Self::Path(PathCommand::Down { name }) => Request::PathDown { name: name.clone() },
            Self::Path(PathCommand::Set { name, settings }) => {
                let mut weight = None;
                for (key, value) in settings.iter().map(|word| key_value(word)) {
                    match key {
                        "weight" => set_once(&mut weight, key, path_weight(value)?)?,
                        _ => return Err(unknown_key(key, "weight=N")),
                    }
                }
                Request::PathSet {
                    name: name.clone(),
                    weight,
                }
            }
            Self::Reload => Request::Reload,
            Self::Save => Request::Save,
            Self::Measure(measure) => {
                measure.check()?;
                return Ok(Task::Measure(measure.clone()));
            }
        }))
    }
}

/// Whether the request only looks, so that it may be repeated by `--watch`.
fn is_view(request: &Request) -> bool {
    matches!(
        request,
        Request::Status
            | Request::Paths
            | Request::Peers
            | Request::PeerShow { .. }
            | Request::Reorder
    )
}

/// Keeps `--watch status` from reading "status" as a number of seconds: a bare `--watch` gets its
/// default bound to it unless a number follows.
fn bind_watch(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut words = words.into_iter().peekable();
    let mut bound = Vec::new();
    while let Some(word) = words.next() {
        let bare = word == "--watch" || word == "-w";
        let number = |next: &OsString| {
            next.to_str()
                .is_some_and(|text| text.starts_with(|c: char| c.is_ascii_digit() || c == '.'))
        };
        if bare && words.peek().is_some_and(|next| !number(next)) {
            bound.push(format!("--watch={DEFAULT_WATCH}").into());
        } else {
            bound.push(word);
        }
    }
    bound
}

fn tunnel_name(text: &str) -> Result<String, String> {
    if text.is_empty() || text.starts_with('.') || text.contains('/') {
        return Err("a tunnel's name is that of its interface, such as mpt0".into());
    }
    Ok(text.into())
}

fn refresh_interval(text: &str) -> Result<Duration, String> {
    let seconds = text
        .parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds
        .filter(|interval| (SHORTEST_WATCH..=LONGEST_WATCH).contains(interval))
        .ok_or_else(|| "give a number of seconds from 0.1 to 86400".into())
}

/// Splits `key=value`; a word without `=` is a key with an empty value.
fn key_value(word: &str) -> (&str, &str) {
    word.split_once('=').unwrap_or((word, ""))
}

fn set_once<T>(slot: &mut Option<T>, key: &str, value: T) -> Result<(), String> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(format!("{key} is given twice")),
    }
}

fn unknown_key(key: &str, known: &str) -> String {
    format!("unknown setting \"{key}\"; known here: {known}")
}

/// The value as `parse` reads it, or the word "auto".
fn or_auto<T>(
    parse: impl FnOnce(&str, &str) -> Result<T, String>,
    key: &str,
    value: &str,
) -> Result<Setting<T>, String> {
    match value {
        "auto" => Ok(Setting::Auto),
        _ => parse(key, value).map(Setting::Fixed),
    }
}

fn count(key: &str, value: &str) -> Result<u32, String> {
    let window = value.parse().ok();
    let window = window.filter(|&window| window <= MAX_WINDOW);
    window.ok_or_else(|| {
        format!("{key}={value}: give a whole number of packets from 0 to {MAX_WINDOW}, or auto")
    })
}

fn path_weight(value: &str) -> Result<u32, String> {
    let weight = value.parse().ok().filter(|weight| WEIGHTS.contains(weight));
    weight.ok_or_else(|| {
        format!(
            "weight={value}: give a whole number from {} to {}; \
             `mpt-ctl path down` takes a path out of service",
            WEIGHTS.start(),
            WEIGHTS.end()
        )
    })
}

fn hold_us(key: &str, value: &str) -> Result<u64, String> {
    let hold = humantime::parse_duration(value)
        .ok()
        .filter(|hold| HOLDS.contains(hold));
    hold.and_then(|hold| u64::try_from(hold.as_micros()).ok())
        .ok_or_else(|| {
            let (least, most) = HOLDS.into_inner();
            format!("{key}={value}: give a time with its unit, such as 300ms, {least:?} to {most:?}, or auto")
        })
}

fn late_policy(value: &str) -> Result<LatePolicy, String> {
    LatePolicy::named(value).ok_or_else(|| format!("late={value}: give deliver or drop"))
}

#[cfg(test)]
mod tests;

//! The MPT daemon: command line and logs. What it does stands in `daemon`.
//!
//! A library so that manual pages and completions are made of the same [`command`] as `--help`.

// System calls on a packet's way are mpt-io's.
#![deny(unsafe_code)]

mod budgets;
mod config;
mod control;
mod daemon;
mod downlink;
#[allow(
    unsafe_code,
    reason = "a process of its own, made by fork, keeps the configuration's files"
)]
mod files;
mod hooks;
mod host;
#[cfg(test)]
mod hostile;
mod hub;
mod journal;
mod log;
mod logging;
mod metrics;
mod netlink;
mod privileges;
mod requests;
mod resolver;
mod routing;
mod sealing;
mod served;
mod service;
#[cfg(test)]
mod testing;
mod tunnel;
mod uplink;
mod wanted;
mod watch;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{CommandFactory as _, Parser, ValueEnum};
use mpt_core::control::LogLevel;
use mpt_io::{clock, tun, udp};

/// A multipath tunnel: one TUN interface over several UDP paths.
///
/// mpt-tund opens a TUN interface for each configuration, shares the packets that are routed into
/// it among several UDP paths (GRE-in-UDP, RFC 8086), and puts those of the peer back in order.
/// mpt-ctl shows and changes a running tunnel.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 80, after_long_help = AFTER_HELP)]
struct Arguments {
    /// A tunnel's file, or a folder of them; may be repeated
    ///
    /// A folder stands for every *.toml in it, in the order of their names. Each file is one
    /// tunnel; one daemon runs them all.
    #[arg(
        long,
        short,
        value_name = "FILE|DIR",
        default_value = "/etc/mpt",
        value_hint = clap::ValueHint::AnyPath
    )]
    config: Vec<PathBuf>,

    /// Check the configuration and stop
    ///
    /// Prints a line for each tunnel that is right, and FILE:LINE:COLUMN with what is wrong and
    /// what to write instead for each file that is not. Opens nothing else and needs no
    /// privileges but to read these files and their keys.
    #[arg(
        long,
        value_name = "WHAT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "all"
    )]
    check: Option<Check>,

    /// How much to log; `mpt-ctl log` shows and changes it later
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = log_levels())]
    log: LogLevel,
}

/// Which mistakes make a check fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Check {
    /// Any
    All,
    /// Only what keeps a daemon from starting, and from reading the files again: a mistake in the file of
    /// one peer (peers_dir) is told, and costs that peer alone
    Reload,
}

/// The levels by name, each with what it logs.
fn log_levels() -> impl TypedValueParser<Value = LogLevel> {
    let shown = |level: LogLevel| PossibleValue::new(level.name()).help(level.about());
    let names = PossibleValuesParser::new(LogLevel::ALL.map(shown));
    names.try_map(|name| LogLevel::named(&name).ok_or("no such level"))
}

const AFTER_HELP: &str = "\
Files:
  /etc/mpt/*.toml     One tunnel each. configuration.md explains every key;
                      it and examples/ are in /usr/share/doc/mpt where a
                      package put them, else in docs/ and conf/ of the source.
  /run/mpt/NAME.sock  Control socket of the tunnel NAME, for mpt-ctl.
  /dev/net/tun        Must exist (modprobe tun).

Signals:
  SIGTERM, SIGINT     Stop: interfaces, routes and sockets are removed.
  SIGHUP              Read the configuration again. Paths that did not change
                      lose no packet; a mistake in a file changes nothing.

Privileges:
  Root, which `user` in a configuration gives up for another user, or
  CAP_NET_ADMIN; on kernels before 5.7 also CAP_NET_RAW for paths that name an
  interface; CAP_CHOWN for a control socket with an owner. What is not needed
  any more is given up once all tunnels run. --check needs none but to read the
  files and their keys.

Exit status:
  0  Stopped by a signal; with --check: everything is right.
  1  The configuration is wrong, or at the start no tunnel can have its
     interface; standard error has why. What else is missing, or goes missing
     later, is waited for: see mpt-ctl status.
  2  The command line is wrong.

Examples:
  mpt-tund
      Run every tunnel of /etc/mpt.
  mpt-tund --check -c ./office.toml
      Is this file right?
  mpt-tund -c office.toml -c lab.toml --log debug
      Run two tunnels, and say why things happen.
  systemctl reload mpt
      After a change of a file, under systemd.";

/// The command line: names, values and all that `--help` says.
#[must_use]
pub fn command() -> clap::Command {
    Arguments::command().name("mpt-tund")
}

/// The keys that name a user or a group that this host does not know. No mistake: the file may be another host's.
fn unknown_users(config: &config::Config) -> Vec<String> {
    let socket = config.control.owner.as_ref();
    let metrics = config
        .metrics
        .as_ref()
        .and_then(|metrics| metrics.owner.as_ref());
    let user = config.user.as_ref();
    let known = [
        ("user", user.map(|user| user.identity().map(drop))),
        ("[control] owner", socket.map(|owner| owner.ids().map(drop))),
        (
            "[metrics] owner",
            metrics.map(|owner| owner.ids().map(drop)),
        ),
    ];
    let unknown = |(key, known): (&str, Option<std::io::Result<()>>)| {
        let error = known?.err()?;
        Some(format!("`{key}` cannot be used on this host: {error}"))
    };
    known.into_iter().filter_map(unknown).collect()
}

/// Runs the program with the arguments of this process. Its exit code is what `--help` promises.
#[must_use]
pub fn run() -> ExitCode {
    let arguments = Arguments::parse();
    let loaded = config::load(&arguments.config);
    // Of those the daemon starts without a peer, and follows the file when it is right.
    let mut peers_are_right = true;
    if let Some(check) = arguments.check {
        for config in &loaded.configs {
            let mistakes = config.peer_mistakes();
            mistakes.for_each(|mistake| eprintln!("{mistake}"));
            if check == Check::All && config.peer_mistakes().next().is_some() {
                peers_are_right = false;
                continue;
            }
            let peers = config.peers.as_ref();
            let peers = peers.map_or(String::new(), |peers| format!(", {} peers", peers.len()));
            println!(
                "{}: ok ({}, {} paths{peers})",
                config.tunnel.name,
                config.file.display(),
                config.paths.len()
            );
            config.warnings().for_each(|warning| eprintln!("{warning}"));
            let secrets = config.crypto.iter().flat_map(config::Crypto::warnings);
            for warning in secrets.chain(unknown_users(config)) {
                eprintln!("{}: warning: {warning}", config.file.display());
            }
        }
    }
    for mistake in &loaded.mistakes {
        eprintln!("{mistake}");
    }
    if !loaded.mistakes.is_empty() {
        return ExitCode::FAILURE;
    }
    if arguments.check.is_some() {
        return match peers_are_right {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        };
    }
    let logging = logging::Logging::start(arguments.log);
    if let Err(error) = privileges::hide_memory() {
        tracing::debug!("a core dump, were there one, would have all memory: {error}");
    }
    // Another user may be dumpable again: first who, then what.
    let files = files::Store::open(arguments.config, &loaded.configs);
    if let Err(error) = privileges::renounce() {
        tracing::warn!("privileges cannot be renounced: {error}");
    }
    match files.and_then(|files| daemon::run(files, logging, loaded.configs)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

//! How far a path is from order: the tool behind `mpt-ctl measure`.
//!
//! The method is that of the Reorder Density paper (Torres-Jr and Ribeiro, 2020): packets of one
//! size, numbered, sent at one rate, and at the far end the metrics of RFC 4737 and RFC 5236. It
//! needs no tunnel and no daemon. Four parts:
//!
//! - `send` sends what `stamp` makes, when `pace` says, through a `channel`.
//! - `receive` gives what comes to a `session`, which measures one `stream`.
//! - `two_way` sends and reflects STAMP's packets (RFC 8762), to measure with what others have.
//! - `read` takes packets from a `capture`, finds in each `frame` what may be measured, and
//!   believes GRE's numbers as far as `follow` does.
//!
//! All end in a `report`, which is shown as `text`, JSON, CSV or a `plot`.

mod args;
mod capture;
mod channel;
mod clock;
mod files;
mod follow;
mod frame;
#[cfg(test)]
mod hostile;
mod icmp;
mod numbering;
mod order;
mod pace;
mod plot;
mod progress;
mod read;
mod receive;
mod report;
mod send;
mod session;
mod span;
mod stamp;
mod stream;
pub mod table;
mod target;
mod text;
mod two_way;

use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::table::Look;
pub use args::{
    AFTER_HELP, MeasureCommand, ReadArgs, ReceiveArgs, ReflectArgs, SendArgs, StampCommand,
    StampSendArgs,
};
use capture::CaptureError;
use channel::{Carrier, Channel, ChannelError};
use files::{FileError, Files, Identity};
use read::Wanted;
use report::Report;
use send::{SendError, Sending};
use session::Patience;
use stamp::Plan;
use target::NoAddress;

/// Exit code after a second Ctrl-C.
const INTERRUPTED: i32 = 130;

/// Why a measurement came to nothing.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct MeasureError(#[from] Failure);

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Target(#[from] NoAddress),
    #[error("{0}")]
    Unfit(String),
    #[error(transparent)]
    Channel(#[from] ChannelError),
    #[error(transparent)]
    Send(#[from] SendError),
    #[error("cannot receive: {0}")]
    Receive(#[source] io::Error),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{}: {source}", path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("{}: the file {source}", path.display())]
    Capture { path: PathBuf, source: CaptureError },
    #[error("cannot set up: {0}")]
    SetUp(#[source] io::Error),
}

/// What a measurement has to show.
pub struct Outcome {
    /// For the standard output.
    pub text: String,
    /// Whether anything was measured, or sent to somebody who listens.
    pub found: bool,
}

/// Measures, and gives the report as text or, with `json`, as JSON.
///
/// # Errors
/// A file or a socket cannot be had, or nothing can be sent.
pub fn run(command: &MeasureCommand, json: bool, look: Look) -> Result<Outcome, MeasureError> {
    let files = Files::check(command.output(), input(command), json).map_err(Failure::from)?;
    let report = match command {
        MeasureCommand::Send(args) => match send(args, json)? {
            Sendings::Report(report) => *report,
            Sendings::Done { text, found } => return Ok(Outcome { text, found }),
        },
        MeasureCommand::Receive(args) => receive(args)?,
        MeasureCommand::Stamp(StampCommand::Send(args)) => send_stamp(args)?,
        MeasureCommand::Stamp(StampCommand::Reflect(args)) => return reflect(args, json),
        MeasureCommand::Read(args) => read(args)?,
    };
    Ok(show(&report, files, json, look)?)
}

/// Writes the report's files, if there is anything to write, and gives what the standard output gets.
fn show(report: &Report, files: Files<'_>, json: bool, look: Look) -> Result<Outcome, Failure> {
    let found = !report.streams.is_empty();
    let is_stdout_taken = files.take_stdout();
    let instead = match found || is_stdout_taken {
        true => files.write(|| report.csv(), || plot::svg(report, &today()))?,
        false => None,
    };
    let text = match instead {
        Some(instead) => {
            eprint!("{}", text::remarks(report, Look::default()));
            instead
        }
        None if json => report.json(),
        None => text::text(report, look),
    };
    Ok(Outcome { text, found })
}

/// What comes of sending: what there is to say, or the replies' report.
enum Sendings {
    Done { text: String, found: bool },
    Report(Box<Report>),
}

fn send(args: &SendArgs, json: bool) -> Result<Sendings, Failure> {
    let target = args.target.resolve(args::PORT, args.from)?;
    args.check_for(target.is_ipv6()).map_err(Failure::Unfit)?;
    let stop = stop_flag()?;
    let carrier = carrier(args.icmp);
    let channel = Channel::to(target, carrier, args.from)?;
    let sending = Sending {
        target,
        plan: Plan {
            count: args.count,
            frame_bytes: args.size.unwrap_or_else(|| channel.whole_frame()),
            rate_pps: args.rate,
        },
        stream: random()?,
    };
    if args.replies {
        let metrics = args.output.metrics();
        let (sent, report) = sending.run_with_replies(&channel, metrics, &stop)?;
        for sentence in sent.sentences(&sending.plan, target, carrier) {
            eprintln!("{sentence}");
        }
        return Ok(Sendings::Report(Box::new(report)));
    }
    let sent = sending.run(&channel, &stop)?;
    let text = if json {
        let value = serde_json::json!({
            "stream": format!("{:016x}", sending.stream),
            "target": carrier.name(target),
            "packets": sent.packets,
            "frame_bytes": sending.plan.frame_bytes,
            "seconds": sent.seconds,
            "slips": sent.slips,
            "slipped_s": sent.slipped_s,
            "refused": sent.refused,
            "no_room": sent.no_room,
        });
        format!("{value:#}\n")
    } else {
        sent.sentences(&sending.plan, target, carrier).join("\n") + "\n"
    };
    Ok(Sendings::Done {
        text,
        found: sent.went_out(),
    })
}

fn receive(args: &ReceiveArgs) -> Result<Report, Failure> {
    let stop = stop_flag()?;
    let carrier = carrier(args.icmp);
    let channel = listen(args.on, args.port, carrier)?;
    tell_port(&channel, args.port);
    let patience = Patience {
        idle: args.idle,
        first: args.wait,
    };
    let metrics = args.output.metrics();
    receive::receive(&channel, carrier, metrics, patience, &stop).map_err(Failure::Receive)
}

fn listen(on: Option<IpAddr>, port: u16, carrier: Carrier) -> Result<Channel, ChannelError> {
    match (on, carrier) {
        (Some(address), _) => Channel::listen(SocketAddr::new(address, port), carrier),
        (None, Carrier::Icmp) => Channel::listen((Ipv4Addr::UNSPECIFIED, port).into(), carrier),
        // Where IPv6 is off, IPv4 alone.
        (None, Carrier::Udp) => Channel::listen((Ipv6Addr::UNSPECIFIED, port).into(), carrier)
            .or_else(|_| Channel::listen((Ipv4Addr::UNSPECIFIED, port).into(), carrier)),
    }
}

/// Says which port a sender must name, where it was the kernel's choice.
fn tell_port(channel: &Channel, asked: u16) {
    if let (0, Some(local)) = (asked, channel.local()) {
        eprintln!("listening on UDP port {}", local.port());
    }
}

fn send_stamp(args: &StampSendArgs) -> Result<Report, Failure> {
    let target = args.target.resolve(two_way::PORT, args.from)?;
    args.check_for(target.is_ipv6()).map_err(Failure::Unfit)?;
    let stop = stop_flag()?;
    let channel = Channel::to(target, Carrier::Udp, args.from)?;
    let headers = stamp::headers_bytes(target.is_ipv6());
    let payload_bytes = match args.size {
        Some(size) => usize::from(size) - headers,
        None => two_way::LEAST_BYTES,
    };
    let session = two_way::sender::Session {
        target,
        plan: Plan {
            count: args.count,
            frame_bytes: u16::try_from(payload_bytes + headers).unwrap_or(u16::MAX),
            rate_pps: args.rate,
        },
        payload_bytes,
        id: (random()? as u16).max(1),
    };
    let metrics = args.output.metrics();
    Ok(session.run(&channel, metrics, &stop)?)
}

fn reflect(args: &ReflectArgs, json: bool) -> Result<Outcome, MeasureError> {
    let stop = stop_flag()?;
    let channel = listen(args.on, args.port, Carrier::Udp).map_err(Failure::from)?;
    tell_port(&channel, args.port);
    let reflected =
        two_way::reflector::reflect(&channel, args.idle, &stop).map_err(Failure::Receive)?;
    Ok(Outcome {
        text: if json {
            serde_json::to_string_pretty(&reflected).unwrap_or_default() + "\n"
        } else {
            reflected.text()
        },
        found: reflected.packets > 0,
    })
}

fn read(args: &ReadArgs) -> Result<Report, Failure> {
    let wanted = Wanted {
        ports: args.ports.clone(),
        from: args.from.iter().map(IpAddr::to_canonical).collect(),
        metrics: args.output.metrics(),
    };
    let named = |source| Failure::Capture {
        path: args.file.clone(),
        source,
    };
    if args.is_stdin() {
        // A Ctrl-C ends what writes there, and then the input ends.
        let _stop = flag_of(&[SIGINT])?;
        return read::read("standard input".into(), io::stdin(), wanted).map_err(named);
    }
    let file = File::open(&args.file).map_err(|source| Failure::Open {
        path: args.file.clone(),
        source,
    })?;
    read::read(args.file.display().to_string(), file, wanted).map_err(named)
}

/// The file that is read, where it is one and is there.
fn input(command: &MeasureCommand) -> Option<Identity> {
    match command {
        MeasureCommand::Read(args) if args.is_stdin() => Identity::of(io::stdin()),
        MeasureCommand::Read(args) => Identity::at(&args.file),
        MeasureCommand::Send(_) | MeasureCommand::Receive(_) | MeasureCommand::Stamp(_) => None,
    }
}

/// This moment, such as "2026-03-01 17:05 UTC".
fn today() -> String {
    let text = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    format!("{} {} UTC", &text[..10], &text[11..16])
}

fn carrier(icmp: bool) -> Carrier {
    if icmp { Carrier::Icmp } else { Carrier::Udp }
}

/// Set by Ctrl-C or SIGTERM, so that the report so far is shown; a second one ends the program.
fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    flag_of(&[SIGINT, SIGTERM])
}

/// Set by the first of these signals.
fn flag_of(signals: &[i32]) -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for &signal in signals {
        flag::register_conditional_shutdown(signal, INTERRUPTED, Arc::clone(&stop))
            .and_then(|_| flag::register(signal, Arc::clone(&stop)))
            .map_err(Failure::SetUp)?;
    }
    Ok(stop)
}

/// A number that no other run has.
fn random() -> Result<u64, Failure> {
    let mut bytes = [0; 8];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    match filled {
        Ok(_) => Ok(u64::from_ne_bytes(bytes)),
        Err(error) => Err(Failure::SetUp(error.into())),
    }
}

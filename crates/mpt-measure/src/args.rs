//! The command line of `mpt-ctl measure`.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use mpt_core::metrics::Form;

use super::stamp;
use super::stream::Metrics;
use super::target::Target;
use super::two_way;

/// UDP port of measurements: the number of the RFC whose metrics they give.
pub(crate) const PORT: u16 = 5236;
/// The longest time that can be asked for, a day.
const LONGEST: Duration = Duration::from_secs(86_400);

/// What follows the help.
pub const AFTER_HELP: &str = "\
Order across a path, with or without a tunnel on it. On host B, then on host A:
  mpt-ctl measure receive
  mpt-ctl measure send 10.99.0.2

Two paths at once, as GRE's numbers in a capture show them:
  tcpdump -i any -s 0 -w trace.pcap udp
  mpt-ctl measure read trace.pcap

To a host that runs nothing, there and back:
  mpt-ctl measure send --icmp --replies 192.0.2.1

With a host that reflects STAMP, or is to:
  mpt-ctl measure stamp reflect --port 8620
  mpt-ctl measure stamp send 10.99.0.2:8620

docs/measuring.md explains the method, docs/reordering.md the metrics.";

/// What `measure` does.
#[derive(Debug, Clone, Subcommand)]
pub enum MeasureCommand {
    /// Send numbered packets of one size at one rate
    Send(SendArgs),
    /// Receive what `send` sends, and report on its order
    Receive(ReceiveArgs),
    /// Measure with other hosts' tools: STAMP (RFC 8762, RFC 8972)
    #[command(subcommand)]
    Stamp(StampCommand),
    /// Report on the order of packets in a capture file: MPT's and other GRE-in-UDP, and `send`'s
    Read(ReadArgs),
}

/// `measure stamp`.
#[derive(Debug, Clone, Subcommand)]
pub enum StampCommand {
    /// Send test packets to a reflector, and report on both directions
    Send(StampSendArgs),
    /// Answer test packets, until Ctrl-C
    Reflect(ReflectArgs),
}

/// `measure stamp send`.
#[derive(Debug, Clone, Args)]
pub struct StampSendArgs {
    /// Where a reflector is: an address or name, with a port after a colon if it is not 862
    #[arg(value_name = "HOST[:PORT]", value_parser = reflector)]
    pub(crate) target: Target,

    /// Packets to send
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) count: u32,

    /// Packets a second
    #[arg(long, value_name = "PPS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) rate: u32,

    /// Size of the Ethernet frame, check sequence included [default: that of a packet without padding, 90 for
    /// IPv4, 110 for IPv6]
    #[arg(long, value_name = "BYTES")]
    pub(crate) size: Option<u16>,

    /// Address to send from [default: the route's]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) from: Option<IpAddr>,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// `measure stamp reflect`.
#[derive(Debug, Clone, Args)]
pub struct ReflectArgs {
    /// Address to listen on [default: all]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) on: Option<IpAddr>,

    /// UDP port to listen on; below 1024 that needs CAP_NET_BIND_SERVICE, 0 takes a free one and says which
    #[arg(long, value_name = "PORT", default_value_t = two_way::PORT)]
    pub(crate) port: u16,

    /// End when nothing has come for this long [default: go on]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) idle: Option<Duration>,
}

/// `measure send`. Without `--replies` there is nothing to report here.
#[derive(Debug, Clone, Args)]
#[command(mut_arg("dt", |arg| arg.requires("replies")))]
#[command(mut_arg("bt", |arg| arg.requires("replies")))]
#[command(mut_arg("literal", |arg| arg.requires("replies")))]
#[command(mut_arg("csv", |arg| arg.requires("replies")))]
#[command(mut_arg("plot", |arg| arg.requires("replies")))]
pub struct SendArgs {
    /// Where to: an address or name, with a port after a colon if it is not 5236
    #[arg(value_name = "HOST[:PORT]", value_parser = target)]
    pub(crate) target: Target,

    /// Packets to send
    #[arg(long, value_name = "N", default_value_t = 65_535, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) count: u32,

    /// Size of the Ethernet frame, check sequence included: the IP packet is 18 bytes smaller,
    /// the UDP payload 46 (IPv4) or 66 (IPv6) [default: 1518, or what the route carries where that
    /// is less, such as a tunnel's MTU + 18]
    #[arg(long, value_name = "BYTES")]
    pub(crate) size: Option<u16>,

    /// Packets a second
    #[arg(long, value_name = "PPS", default_value_t = 8235, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) rate: u32,

    /// Address to send from [default: the route's]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) from: Option<IpAddr>,

    /// Send ICMP echo requests, with 16-bit numbers, instead of UDP
    #[arg(long)]
    pub(crate) icmp: bool,

    /// Measure the replies to --icmp here: order there and back, and no receiver needed
    #[arg(long, requires = "icmp")]
    pub(crate) replies: bool,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// `measure receive`.
#[derive(Debug, Clone, Args)]
pub struct ReceiveArgs {
    /// Address to listen on [default: all; of IPv4 with --icmp, :: for ICMPv6]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) on: Option<IpAddr>,

    /// UDP port to listen on; 0 takes a free one and says which
    #[arg(long, value_name = "PORT", default_value_t = PORT, conflicts_with = "icmp")]
    pub(crate) port: u16,

    /// Receive ICMP echo requests instead of UDP; needs CAP_NET_RAW. The kernel answers them all
    /// the same, unless net.ipv4.icmp_echo_ignore_all is 1
    #[arg(long)]
    pub(crate) icmp: bool,

    /// End when nothing has come for this long after the first packet
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    pub(crate) idle: Duration,

    /// End when no first packet has come in this time [default: wait for it]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) wait: Option<Duration>,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// `measure read`.
#[derive(Debug, Clone, Args)]
pub struct ReadArgs {
    /// A pcap or pcapng file; - reads the standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// UDP port that GRE-in-UDP is sent to (repeatable) [default: every port to or from which
    /// numbered GRE goes]
    #[arg(long = "port", value_name = "PORT")]
    pub(crate) ports: Vec<u16>,

    /// Take only what these addresses sent, and GRE from them as one stream: all paths of one
    /// direction of a tunnel (separated by commas)
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    pub(crate) from: Vec<IpAddr>,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// How order is measured and shown.
#[derive(Debug, Clone, Args)]
pub(crate) struct OutputArgs {
    /// Displacement threshold DT of Reorder Density, in packets
    #[arg(long, value_name = "PACKETS", default_value_t = 200)]
    pub(crate) dt: u16,

    /// Occupancy threshold BT of Reorder Buffer-occupancy Density, in packets
    #[arg(long, value_name = "PACKETS", default_value_t = 200)]
    pub(crate) bt: u16,

    /// Follow RFC 5236's algorithms to the letter, their defects included
    #[arg(long)]
    pub(crate) literal: bool,

    /// Write every number as CSV too, a line a value: stream,metric,x,value; - writes it to the standard output, in
    /// the report's stead
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,

    /// Draw Reorder Density and Buffer-occupancy Density too; - as with --csv
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
}

impl ReadArgs {
    /// Whether the capture comes from the standard input.
    pub(crate) fn is_stdin(&self) -> bool {
        self.file == Path::new("-")
    }
}

impl OutputArgs {
    fn check(&self) -> Result<(), String> {
        match (&self.csv, &self.plot) {
            (Some(csv), Some(plot)) if csv == plot => Err(format!(
                "--csv and --plot are both {}: give each its own file",
                csv.display()
            )),
            (Some(_) | None, Some(_) | None) => Ok(()),
        }
    }

    pub(crate) fn metrics(&self) -> Metrics {
        Metrics {
            displacement_threshold: self.dt,
            occupancy_threshold: self.bt,
            form: if self.literal {
                Form::Literal
            } else {
                Form::Corrected
            },
        }
    }
}

impl MeasureCommand {
    /// How the report is wanted.
    pub(crate) fn output(&self) -> Option<&OutputArgs> {
        match self {
            MeasureCommand::Send(send) => Some(&send.output),
            MeasureCommand::Receive(receive) => Some(&receive.output),
            MeasureCommand::Stamp(StampCommand::Send(send)) => Some(&send.output),
            MeasureCommand::Stamp(StampCommand::Reflect(_)) => None,
            MeasureCommand::Read(read) => Some(&read.output),
        }
    }

    /// What clap cannot check by itself.
    ///
    /// # Errors
    /// What is wrong with the arguments.
    pub fn check(&self) -> Result<(), String> {
        if let Some(output) = self.output() {
            output.check()?;
        }
        match self {
            MeasureCommand::Send(send) => {
                if let (true, Some(port)) = (send.icmp, send.target.port) {
                    return Err(format!("an echo goes to no port: leave out :{port}"));
                }
                match send.target.is_ipv6() {
                    Some(ipv6) => send.check_for(ipv6),
                    None => Ok(()),
                }
            }
            MeasureCommand::Stamp(StampCommand::Send(send)) => match send.target.is_ipv6() {
                Some(ipv6) => send.check_for(ipv6),
                None => Ok(()),
            },
            MeasureCommand::Stamp(StampCommand::Reflect(_))
            | MeasureCommand::Receive(_)
            | MeasureCommand::Read(_) => Ok(()),
        }
    }
}

impl SendArgs {
    /// What depends on the family of the target, which of a name is known once it is looked up.
    ///
    /// # Errors
    /// What is wrong with the arguments.
    pub(crate) fn check_for(&self, ipv6: bool) -> Result<(), String> {
        let too_small = |size: &u16| stamp::payload_bytes(*size, ipv6).is_none();
        if let Some(size) = self.size.filter(too_small) {
            return Err(format!(
                "--size {size}: a frame is at least {} bytes here, for the headers and what is measured",
                stamp::least_frame(ipv6)
            ));
        }
        same_family(self.from, &self.target, ipv6)
    }
}

impl StampSendArgs {
    /// What depends on the family of the target, which of a name is known once it is looked up.
    ///
    /// # Errors
    /// What is wrong with the arguments.
    pub(crate) fn check_for(&self, ipv6: bool) -> Result<(), String> {
        let headers = stamp::headers_bytes(ipv6);
        let may_be = |size: u16| {
            let bytes = usize::from(size).checked_sub(headers);
            bytes.is_some_and(two_way::may_have)
        };
        if let Some(size) = self.size.filter(|&size| !may_be(size)) {
            let least = headers + two_way::LEAST_BYTES;
            return Err(format!(
                "--size {size}: a frame is {least} bytes here, or at least {} with padding",
                least + 4
            ));
        }
        same_family(self.from, &self.target, ipv6)
    }
}

fn same_family(from: Option<IpAddr>, target: &Target, ipv6: bool) -> Result<(), String> {
    match from {
        Some(from) if from.is_ipv6() != ipv6 => Err(format!(
            "--from {from} and {target} are of different families"
        )),
        Some(_) | None => Ok(()),
    }
}

fn target(text: &str) -> Result<Target, String> {
    Target::parse(text, PORT)
}

fn reflector(text: &str) -> Result<Target, String> {
    Target::parse(text, two_way::PORT)
}

fn time(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .ok()
        .filter(|time| !time.is_zero() && *time <= LONGEST)
        .ok_or_else(|| "give a time with its unit, such as 10s, at most 1day".into())
}

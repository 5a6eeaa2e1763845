//! The measurements.

use std::fmt;
use std::time::{Duration, Instant};

use net::stream::percentile;
use net::{Process, wait_for};
use serde_json::Value;

use crate::system::{System, Wire, start_self};

const TCP_PORT: u16 = 5201;
const UDP_PORT: u16 = 5202;
/// How much longer than planned a program may run.
const GRACE: Duration = Duration::from_secs(20);
/// Between two pings.
const PING_STEP: Duration = Duration::from_millis(5);
/// `USER_HZ` is 100 on every Linux.
const TICK_NS: u64 = 10_000_000;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Measure {
    OneFlow,
    EightFlows,
    BothWays,
    Udp1400,
    Udp64,
    PingIdle,
    PingLoaded,
}

/// What a [`Sample`]'s values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Gbit/s, and CPU nanoseconds a byte.
    Gbps,
    /// Thousands of packets a second, and CPU nanoseconds a packet.
    Kpps,
    /// Round-trip time in microseconds: median and 99th percentile.
    Microseconds,
}

/// What one measurement gave; [`Unit`] says what.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sample {
    pub(crate) value: f64,
    pub(crate) second: f64,
}

impl Measure {
    pub(crate) const ALL: [Measure; 7] = [
        Measure::OneFlow,
        Measure::EightFlows,
        Measure::BothWays,
        Measure::Udp1400,
        Measure::Udp64,
        Measure::PingIdle,
        Measure::PingLoaded,
    ];

    pub(crate) const fn unit(self) -> Unit {
        match self {
            Measure::OneFlow | Measure::EightFlows | Measure::BothWays => Unit::Gbps,
            Measure::Udp1400 | Measure::Udp64 => Unit::Kpps,
            Measure::PingIdle | Measure::PingLoaded => Unit::Microseconds,
        }
    }

    /// Whether it is taken over this wire: all over the one, over the other what its cutting changes
    /// most, so that there is time for five runs.
    pub(crate) fn is_taken(self, wire: Wire, quick: bool) -> bool {
        match self {
            Measure::OneFlow | Measure::PingIdle => true,
            Measure::EightFlows | Measure::BothWays | Measure::Udp1400 => {
                wire == Wire::Whole || !quick
            }
            Measure::Udp64 | Measure::PingLoaded => wire == Wire::Whole,
        }
    }

    /// Measures a system for about this long.
    pub(crate) fn take(self, system: &System, time: Duration) -> Sample {
        match self {
            Measure::OneFlow => tcp(system, time, ""),
            Measure::EightFlows => tcp(system, time, "-P 8"),
            Measure::BothWays => tcp(system, time, "--bidir"),
            Measure::Udp1400 => udp(system, time, 1400),
            Measure::Udp64 => udp(system, time, 64),
            Measure::PingIdle => ping(system, time),
            Measure::PingLoaded => {
                let load = Load::start(system, time + Duration::from_secs(1), "");
                std::thread::sleep(Duration::from_millis(300));
                let sample = ping(system, time);
                load.finish();
                sample
            }
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Measure::OneFlow => "one TCP flow",
            Measure::EightFlows => "eight TCP flows",
            Measure::BothWays => "one TCP flow each way at once",
            Measure::Udp1400 => "1400-byte UDP datagrams",
            Measure::Udp64 => "64-byte UDP datagrams",
            Measure::PingIdle => "ping, idle",
            Measure::PingLoaded => "ping beside one TCP flow",
        })
    }
}

/// An iperf3 client and its server.
pub(crate) struct Load {
    client: Process,
    server: Process,
    limit: Duration,
}

impl Load {
    pub(crate) fn start(system: &System, time: Duration, words: &str) -> Load {
        let server = system.b.start(&format!("iperf3 -s -1 -p {TCP_PORT}"));
        await_port(&server, TCP_PORT, &["net/tcp", "net/tcp6"], " 0A ");
        let (target, seconds) = (system.target(), time.as_secs().max(1));
        let client = system.a.start(&format!(
            "iperf3 -c {target} -p {TCP_PORT} -t {seconds} -J {words}"
        ));
        Load {
            client,
            server,
            limit: time + GRACE,
        }
    }

    /// Waits for the end, and returns the client's report.
    pub(crate) fn finish(mut self) -> Value {
        let status = self.client.wait(self.limit);
        assert!(status.success(), "iperf3 failed\n{}", self.client.log());
        self.server.wait(GRACE);
        serde_json::from_str(&self.client.stdout()).expect("iperf3's report")
    }
}

/// Bytes received a second, both directions together, and the CPU time that each cost.
fn tcp(system: &System, time: Duration, words: &str) -> Sample {
    let before = busy_ns();
    let report = Load::start(system, time, words).finish();
    let busy = busy_ns() - before;
    let (mut bytes, mut rate) = (0.0, 0.0);
    for direction in ["sum_received", "sum_received_bidir_reverse"] {
        let sum = &report["end"][direction];
        bytes += sum["bytes"].as_f64().unwrap_or(0.0);
        rate += sum["bits_per_second"].as_f64().unwrap_or(0.0);
    }
    Sample {
        value: rate / 1e9,
        second: busy as f64 / bytes,
    }
}

/// Datagrams received a second of those that were sent without restraint, and the CPU time that each
/// cost.
fn udp(system: &System, time: Duration, len: usize) -> Sample {
    let target = system.target();
    let mut receiver = start_self(&system.b, &["udp-receive", &format!("{target}:{UDP_PORT}")]);
    await_port(&receiver, UDP_PORT, &["net/udp"], "");
    let before = busy_ns();
    let to = format!("{target}:{UDP_PORT}");
    let (len, millis) = (len.to_string(), time.as_millis().to_string());
    let mut sender = start_self(&system.a, &["udp-send", &to, &len, &millis]);
    sender.wait(time + GRACE);
    receiver.wait(GRACE);
    let busy = busy_ns() - before;
    let printed = receiver.stdout();
    let mut numbers = printed
        .split_whitespace()
        .filter_map(|word| word.parse::<f64>().ok());
    let (packets, ns) = (numbers.next().unwrap_or(0.0), numbers.next().unwrap_or(0.0));
    Sample {
        value: packets / ns.max(1.0) * 1e6,
        second: busy as f64 / packets.max(1.0),
    }
}

fn ping(system: &System, time: Duration) -> Sample {
    let count = time.as_millis() / PING_STEP.as_millis();
    let (step, target) = (PING_STEP.as_secs_f64(), system.target());
    let printed = system
        .a
        .run(&format!("ping -n -i {step} -c {count} -W 2 {target}"));
    let times: Vec<f64> = printed
        .lines()
        .filter_map(|line| {
            line.split("time=")
                .nth(1)?
                .split_whitespace()
                .next()?
                .parse()
                .ok()
        })
        .map(|milliseconds: f64| milliseconds * 1000.0)
        .collect();
    Sample {
        value: percentile(&times, 0.5),
        second: percentile(&times, 0.99),
    }
}

/// Waits until the process's namespace has a socket on this port, in this state.
fn await_port(process: &Process, port: u16, tables: &[&str], state: &str) {
    let (started, mark) = (Instant::now(), format!(":{port:04X} "));
    wait_for("a listening port", Duration::from_secs(5), || {
        // Until it has entered its namespace, /proc shows another's sockets; that takes no longer.
        let entered = started.elapsed() > Duration::from_millis(20);
        let listens = tables.iter().any(|table| {
            let text = process.proc_file(table);
            text.lines()
                .any(|line| line.contains(&mark) && line.contains(state))
        });
        (entered && listens).then_some(())
    });
}

/// CPU time of the whole machine so far, all CPUs together, that was neither idle nor stolen.
fn busy_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/stat").expect("/proc/stat");
    let ticks: Vec<u64> = text
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(1)
        .filter_map(|field| field.parse().ok())
        .collect();
    // proc(5): user nice system idle iowait irq softirq steal; guest time is in user and nice.
    [0, 1, 2, 5, 6]
        .iter()
        .filter_map(|field| ticks.get(*field))
        .sum::<u64>()
        * TICK_NS
}

/// How much of the machine something else uses, 0 to 1.
pub(crate) fn share_busy() -> f64 {
    let (before, begun) = (busy_ns(), Instant::now());
    std::thread::sleep(Duration::from_secs(1));
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    (busy_ns() - before) as f64 / begun.elapsed().as_nanos() as f64 / cpus as f64
}

//! iperf3, and what it reports.

use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::namespace::Namespace;
pub use crate::ping::{Ping, ping};
use crate::process::Process;
use crate::wait_for;

/// One iperf3 run, in the making.
#[derive(Debug, Clone)]
pub struct Iperf {
    target: String,
    seconds: u32,
    words: String,
    reverse: bool,
}

/// A run under way: the client and its server.
#[derive(Debug)]
pub struct Flow {
    client: Process,
    server: Process,
    seconds: u32,
    reverse: bool,
}

/// What came of a run, as the receiving end saw it.
#[derive(Debug, Clone)]
pub struct Report {
    /// Mbit/s of payload received in each full one-second interval.
    pub intervals_mbps: Vec<f64>,
    /// TCP segments that the sender sent again.
    pub retransmits: u64,
    /// UDP datagrams sent, lost, and received out of order.
    pub datagrams: u64,
    /// Of these, never received.
    pub lost: u64,
    /// Of these, received after a later one.
    pub out_of_order: u64,
    /// UDP jitter as iperf3 computes it (RFC 1889), in milliseconds.
    pub jitter_ms: f64,
}

impl Iperf {
    /// One TCP flow to `target` for this many seconds.
    #[must_use]
    pub fn tcp(target: &str, seconds: u32) -> Self {
        Self {
            target: target.to_owned(),
            seconds,
            words: String::new(),
            reverse: false,
        }
    }

    /// One UDP flow of `payload`-byte datagrams at `rate_mbps` of payload.
    #[must_use]
    pub fn udp(target: &str, seconds: u32, rate_mbps: f64, payload: u32) -> Self {
        let bits = (rate_mbps * 1e6).round();
        Self::tcp(target, seconds).words(&format!("-u -b {bits} -l {payload}"))
    }

    /// The server sends instead of the client.
    #[must_use]
    pub fn reverse(mut self) -> Self {
        self.reverse = true;
        self.words("-R")
    }

    /// With this congestion control.
    #[must_use]
    pub fn congestion(self, name: &str) -> Self {
        self.words(&format!("-C {name}"))
    }

    /// Further words for the client.
    #[must_use]
    pub fn words(mut self, words: &str) -> Self {
        self.words = format!("{} {words}", self.words);
        self
    }

    /// Starts a server on `to` and the client on `from`.
    ///
    /// # Panics
    /// When the server does not come to listen.
    #[must_use]
    pub fn start(&self, from: &Namespace, to: &Namespace) -> Flow {
        static PORT: AtomicU16 = AtomicU16::new(5201);
        let port = PORT.fetch_add(1, Ordering::Relaxed);
        let server = to.start(&format!("iperf3 -s -1 -J -i 1 -p {port}"));
        let listening = format!(":{port:04X} ");
        wait_for("iperf3's server", Duration::from_secs(5), || {
            let mut tables = server.proc_file("net/tcp");
            tables.push_str(&server.proc_file("net/tcp6"));
            // State 0A is LISTEN.
            tables
                .lines()
                .any(|line| line.contains(&listening) && line.contains(" 0A "))
                .then_some(())
        });
        let (target, seconds, words) = (&self.target, self.seconds, &self.words);
        let client = from.start(&format!(
            "iperf3 -c {target} -p {port} -t {seconds} -i 1 -J {words}"
        ));
        Flow {
            client,
            server,
            seconds,
            reverse: self.reverse,
        }
    }

    /// Runs it from `from` to `to` and returns what the receiver saw.
    #[must_use]
    pub fn run(&self, from: &Namespace, to: &Namespace) -> Report {
        self.start(from, to).finish()
    }
}

impl Flow {
    /// True as long as the client goes on.
    pub fn is_running(&mut self) -> bool {
        self.client.ended().is_none()
    }

    /// Waits for the end and reads the reports.
    ///
    /// # Panics
    /// When the flow broke, with what iperf3 said.
    #[must_use]
    pub fn finish(mut self) -> Report {
        let limit = Duration::from_secs(u64::from(self.seconds) + 30);
        let status = self.client.wait(limit);
        assert!(status.success(), "iperf3 failed\n{}", self.client.log());
        self.server.wait(Duration::from_secs(20));
        let parse = |process: &Process| -> Value {
            serde_json::from_str(&process.stdout())
                .unwrap_or_else(|error| panic!("iperf3 -J: {error}\n{}", process.log()))
        };
        let (client, server) = (parse(&self.client), parse(&self.server));
        if self.reverse {
            Report::read(&client, &server)
        } else {
            Report::read(&server, &client)
        }
    }
}

impl Report {
    fn read(receiver: &Value, sender: &Value) -> Self {
        let number = |value: &Value| value.as_f64().unwrap_or(0.0);
        let count = |value: &Value| value.as_u64().unwrap_or(0);
        let empty = Vec::new();
        let intervals_mbps = receiver["intervals"]
            .as_array()
            .unwrap_or(&empty)
            .iter()
            .map(|interval| &interval["sum"])
            // The last interval may be a stub.
            .filter(|sum| (number(&sum["seconds"]) - 1.0).abs() < 0.1)
            .map(|sum| number(&sum["bits_per_second"]) / 1e6)
            .collect();
        let sum = &receiver["end"]["sum"];
        Self {
            intervals_mbps,
            retransmits: count(&sender["end"]["sum_sent"]["retransmits"]),
            datagrams: count(&sum["packets"]),
            lost: count(&sum["lost_packets"]),
            out_of_order: receiver["end"]["streams"]
                .as_array()
                .unwrap_or(&empty)
                .iter()
                .map(|stream| count(&stream["udp"]["out_of_order"]))
                .sum(),
            jitter_ms: number(&sum["jitter_ms"]),
        }
    }

    /// Mean of the last six one-second intervals, in Mbit/s: the steady state.
    ///
    /// # Panics
    /// When the run was shorter.
    #[must_use]
    pub fn steady_mbps(&self) -> f64 {
        let all = &self.intervals_mbps;
        assert!(all.len() >= 6, "too short for a steady state: {all:?}");
        let last = &all[all.len() - 6..];
        last.iter().sum::<f64>() / 6.0
    }

    /// The intervals, short enough for a line.
    #[must_use]
    pub fn intervals_text(&self) -> String {
        let each: Vec<_> = self
            .intervals_mbps
            .iter()
            .map(|mbps| format!("{mbps:.0}"))
            .collect();
        each.join(" ")
    }
}

//! The TCP that an experiment wants, one flow or several of it, and what the kernel counted.

use std::collections::BTreeMap;
use std::time::Duration;

use net::{Hosts, Namespace};

use crate::bulk;
use crate::case::{Outcome, outcome};

/// Which TCP, by the kernel's knobs. What is `None` stays as the kernel has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tcp {
    /// Congestion control.
    pub(crate) congestion: &'static str,
    /// Selective acknowledgements.
    pub(crate) sack: bool,
    /// Timestamps; they also tell a needless retransmission from a needed one (RFC 3522).
    pub(crate) timestamps: bool,
    /// Duplicate acknowledgements that a TCP takes for a loss, and how far it may raise that when it
    /// sees reordering. Given, it counts acknowledgements alone, as TCP did before RACK.
    pub(crate) dupthresh: Option<(u32, u32)>,
    /// Takes back what it did by mistake, when D-SACK or F-RTO says so.
    pub(crate) undo: bool,
}

impl Tcp {
    /// As Linux has it today: SACK, RACK, a duplicate-ACK threshold that adapts up to 300.
    pub(crate) fn today(congestion: &'static str) -> Self {
        Self {
            congestion,
            sack: true,
            timestamps: true,
            dupthresh: None,
            undo: true,
        }
    }

    /// The same, but what it did by mistake stays done: neither D-SACK nor F-RTO nor timestamps tell it.
    pub(crate) fn without_undo(congestion: &'static str) -> Self {
        Self {
            timestamps: false,
            undo: false,
            ..Self::today(congestion)
        }
    }

    /// As Linux was before RACK (4.4, 2016): it counts duplicate acknowledgements, and adapts.
    pub(crate) fn before_rack(congestion: &'static str) -> Self {
        Self {
            dupthresh: Some((3, 300)),
            ..Self::today(congestion)
        }
    }

    /// As in the papers: a fixed duplicate-ACK threshold and nothing that undoes a mistake.
    pub(crate) fn classic(congestion: &'static str, sack: bool, dupthresh: u32) -> Self {
        Self {
            congestion,
            sack,
            timestamps: false,
            dupthresh: Some((dupthresh, dupthresh)),
            undo: false,
        }
    }

    fn set(self, host: &Namespace) {
        let set =
            |key: &str, value: u32| host.sysctl(&format!("net.ipv4.{key}"), &value.to_string());
        // What one flow learnt must not tell the next.
        set("tcp_no_metrics_save", 1);
        set("tcp_sack", u32::from(self.sack));
        set("tcp_timestamps", u32::from(self.timestamps));
        if !self.undo {
            set("tcp_frto", 0);
            set("tcp_dsack", 0);
        }
        let Some((first, greatest)) = self.dupthresh else {
            return;
        };
        set("tcp_reordering", first);
        set("tcp_max_reordering", greatest);
        set("tcp_recovery", 0);
        set("tcp_early_retrans", 0);
    }
}

/// One or several flows from A to `target`, for a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flows<'a> {
    pub(crate) target: &'a str,
    pub(crate) count: u32,
    pub(crate) time: Duration,
    /// At the beginning; does not count for `mbps`.
    pub(crate) warm_up: Duration,
}

impl Flows<'_> {
    /// Runs them; gives `mbps` after the warm-up and as means of everything `retransmits`, `fast`,
    /// `timeouts`, `segments` (sent by A), `behind_hole` (received by B out of order), `received`.
    pub(crate) fn run(self, hosts: &Hosts, tcp: Tcp) -> Outcome {
        self.run_by_second(hosts, tcp).0
    }

    /// The same, and Mbit/s in each second.
    pub(crate) fn run_by_second(self, hosts: &Hosts, tcp: Tcp) -> (Outcome, Vec<f64>) {
        tcp.set(&hosts.a);
        tcp.set(&hosts.b);
        let before = [&hosts.a, &hosts.b].map(counters);
        let Flows {
            target,
            count,
            time,
            warm_up,
        } = self;
        let arrived = bulk::run(hosts, target, tcp.congestion, count, time);
        let after = [&hosts.a, &hosts.b].map(counters);
        let counted = |host: usize, name: &str| {
            let read = |counters: &Counters| counters.get(name).copied().unwrap_or(0);
            read(&after[host]).saturating_sub(read(&before[host])) as f64
        };
        let mbps = |megabits: &[f64]| {
            let time = bulk::PART * megabits.len().max(1) as u32;
            megabits.iter().sum::<f64>() / time.as_secs_f64()
        };
        let parts_in = |time: Duration| time.as_nanos().div_ceil(bulk::PART.as_nanos()) as usize;
        let steady = arrived.get(parts_in(warm_up)..).unwrap_or_default();
        let seconds = arrived.chunks(parts_in(Duration::from_secs(1)));
        let each_second: Vec<f64> = seconds.map(mbps).collect();
        println!("each second: {each_second:.1?}");
        let numbers = outcome([
            ("mbps", mbps(steady)),
            ("megabits", arrived.iter().sum::<f64>()),
            ("retransmits", counted(0, "RetransSegs")),
            ("fast", counted(0, "TCPFastRetrans")),
            ("timeouts", counted(0, "TCPTimeouts")),
            ("segments", counted(0, "OutSegs")),
            ("behind_hole", counted(1, "TCPOFOQueue")),
            ("received", counted(1, "InSegs")),
        ]);
        (numbers, each_second)
    }
}

type Counters = BTreeMap<String, u64>;

/// TCP's counters of a namespace: a line of names and a line of numbers for each group.
fn counters(host: &Namespace) -> Counters {
    let text = host.run("cat /proc/self/net/snmp /proc/self/net/netstat");
    let lines: Vec<&str> = text.lines().collect();
    let groups = lines.chunks_exact(2);
    groups
        .filter(|group| group[0].starts_with("Tcp"))
        .flat_map(|group| {
            let names = group[0].split_whitespace().skip(1);
            let numbers = group[1].split_whitespace().skip(1);
            names.zip(numbers)
        })
        .filter_map(|(name, number)| Some((name.to_owned(), number.parse().ok()?)))
        .collect()
}

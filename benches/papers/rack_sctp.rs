//! "RACK for SCTP" (Weinrank, Tüxen, Rathgeb), Figures 2 and 3 in simulation.
//!
//! Figure 3: how often a sender takes a reordered message for lost. 100,000 messages, one every T; 5 %
//! of them are delayed by a further Exp(10 ms) on a path of 50 ms round trip; nothing is lost, so
//! every retransmission is spurious. Counting three later acknowledgements (dupthresh) fails as
//! soon as 3 T is small against the delay; RACK waits a reordering window that grows by a quarter of
//! the round trip each time a retransmission proves needless.
//!
//! Figure 2: how long one real loss takes to be noticed in a steady stream: three packets more for
//! dupthresh; a quarter of the round trip or one packet, whichever is longer, for RACK. The lines
//! cross at 12 packets a round trip.
//!
//! The same with the tunnel's own code: rack_tunnel.rs.
//!
//! Run `cargo bench -p papers --bench paper_rack_sctp [-- DIR]`; results go to `target/papers/rack_sctp`.

mod plot;
mod report;
mod signaling;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::process::ExitCode;

use mpt_sim::delay::MS;
use plot::{Chart, Mark, Series};
use report::{Output, Table};
use signaling::{
    DUPTHRESH, EXTRA_MEAN_NS, REORDERED, RTT_NS, acknowledgements, dupthresh, extra_delays,
};

const MESSAGES: usize = 100_000;
/// Recoveries without a needless retransmission after which the window starts anew.
const PERSIST: u32 = 16;
const SEEDS: u64 = 3;

/// Interval in ms, and the reference results for dupthresh and RACK.
const REFERENCE: [(f64, &str, &str); 5] = [
    (1.0, "3638", "48"),
    (1.4, "3206", "41"),
    (2.0, "2662", "38"),
    (10.0, "235; 240; 234 (paper 236)", "38; 47; 22 (paper 40)"),
    (20.0, "12", "35"),
];

fn main() -> ExitCode {
    let output = Output::new("rack_sctp");
    let spurious = figure_3(&output);
    let crossover = figure_2(&output);
    // At 10 ms the issue is 236 ± 30 against 20 to 60; the lines cross where 3 T = RTT / 4.
    let (dupthresh, rack) = spurious;
    let holds = (206.0..=266.0).contains(&dupthresh)
        && (20.0..=60.0).contains(&rack)
        && (11.5..=12.5).contains(&crossover);
    if !holds {
        eprintln!("dupthresh {dupthresh}, RACK {rack}, crossover {crossover}: not as in the paper");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Table and chart of spurious retransmissions; returns those of both at 10 ms.
fn figure_3(output: &Output) -> (f64, f64) {
    let mut table = Table::new(&[
        "T ms",
        "dupthresh",
        "N p e^(-3T/µ)",
        "reference",
        "RACK",
        "reference",
    ]);
    let mut at_10_ms = (0.0, 0.0);
    for (interval_ms, dupthresh_reference, rack_reference) in REFERENCE {
        let (dupthresh, rack) = spurious(interval_ms);
        if interval_ms == 10.0 {
            at_10_ms = (dupthresh, rack);
        }
        let closed = closed_form(interval_ms);
        table.row(vec![
            format!("{interval_ms}"),
            format!("{dupthresh:.0}"),
            format!("{closed:.0}"),
            dupthresh_reference.into(),
            format!("{rack:.0}"),
            rack_reference.into(),
        ]);
    }
    output.table("figure_3", &table);
    let intervals = || (0..12).map(|n| 1.5f64.powi(n) * 0.5);
    let results: Vec<(f64, (f64, f64))> = intervals().map(|t| (t, spurious(t))).collect();
    let chart = Chart {
        title: "Spurious retransmissions in 100,000 messages, 5 % reordered by Exp(10 ms)",
        x_label: "send interval, ms (logarithmic)",
        y_label: "spurious retransmissions",
        x_log: true,
        y_log: false,
        series: vec![
            line("dupthresh 3", results.iter().map(|&(t, (d, _))| (t, d))),
            line("RACK", results.iter().map(|&(t, (_, r))| (t, r))),
            Series {
                name: "dupthresh 3, closed form".into(),
                mark: Mark::Dots,
                points: intervals().map(|t| (t, closed_form(t))).collect(),
            },
        ],
    };
    output.write("figure_3.svg", &chart.svg());
    at_10_ms
}

/// N p exp(−3 T / µ): three more packets are sent before the delayed one arrives.
fn closed_form(interval_ms: f64) -> f64 {
    let extra_mean_ms = EXTRA_MEAN_NS as f64 / MS as f64;
    MESSAGES as f64 * REORDERED * (-3.0 * interval_ms / extra_mean_ms).exp()
}

fn line(name: &str, points: impl Iterator<Item = (f64, f64)>) -> Series {
    Series {
        name: name.into(),
        mark: Mark::Line,
        points: points.collect(),
    }
}

/// Mean over seeds of spurious retransmissions: dupthresh, RACK.
fn spurious(interval_ms: f64) -> (f64, f64) {
    let interval_ns = (interval_ms * MS as f64) as u64;
    let mut sum = (0.0, 0.0);
    for seed in 0..SEEDS {
        let acks = acknowledgements(interval_ns, &extra_delays(MESSAGES, REORDERED, seed));
        sum.0 += dupthresh(&acks) as f64 / SEEDS as f64;
        sum.1 += rack(&acks, interval_ns) as f64 / SEEDS as f64;
    }
    sum
}

/// RACK's sender (RFC 8985 §6.2, in the paper's form: RTT / 4 a step, capped at the RTT).
struct Rack {
    /// When the latest-sent message that was acknowledged had been sent.
    sent_ns: u64,
    /// Quarters of the round trip in the reordering window; 0 until reordering was seen.
    quarters: u64,
    persist: u32,
    /// The window grows once a round: until this time it has.
    round_ends_ns: u64,
    /// When the news of a duplicate will reach the sender.
    duplicates: BinaryHeap<Reverse<u64>>,
}

impl Rack {
    fn window_ns(&self) -> u64 {
        (self.quarters * RTT_NS / 4).min(RTT_NS)
    }

    fn hear_duplicates(&mut self, now_ns: u64) {
        while let Some(&Reverse(at_ns)) = self.duplicates.peek() {
            if at_ns > now_ns {
                return;
            }
            self.duplicates.pop();
            if at_ns >= self.round_ends_ns {
                self.quarters += 1;
                self.persist = PERSIST;
                self.round_ends_ns = at_ns + RTT_NS;
            }
        }
    }

    /// A recovery ended without news of a duplicate yet.
    fn recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.quarters = self.quarters.min(1);
            self.persist = PERSIST;
        }
    }
}

/// Messages that RACK sent again before their acknowledgement came.
fn rack(acks: &[(u64, usize)], interval_ns: u64) -> usize {
    let mut rack = Rack {
        sent_ns: 0,
        quarters: 0,
        persist: PERSIST,
        round_ends_ns: 0,
        duplicates: BinaryHeap::new(),
    };
    let ack_of: BTreeMap<usize, u64> = acks
        .iter()
        .map(|&(at_ns, message)| (message, at_ns))
        .collect();
    let mut missing: BTreeMap<usize, bool> = BTreeMap::new();
    let mut highest = None;
    let mut spurious = 0;
    for (at, &(now_ns, message)) in acks.iter().enumerate() {
        rack.hear_duplicates(now_ns);
        if missing.remove(&message).is_some() {
            // Late, not lost: reordering has been seen.
            rack.quarters = rack.quarters.max(1);
        }
        let first_new = highest.map_or(0, |highest| highest + 1);
        missing.extend((first_new..message).map(|skipped| (skipped, false)));
        highest = highest.max(Some(message));
        rack.sent_ns = rack.sent_ns.max(message as u64 * interval_ns);
        let next_ns = acks.get(at + 1).map_or(u64::MAX, |&(next_ns, _)| next_ns);
        for (&late, resent) in missing.iter_mut().filter(|(_, resent)| !**resent) {
            let deadline_ns = late as u64 * interval_ns + RTT_NS + rack.window_ns();
            let due_ns = deadline_ns.max(now_ns);
            if due_ns < next_ns {
                *resent = true;
                spurious += 1;
                rack.recovered();
                // The second of original and copy to arrive is reported as a duplicate.
                let copy_ns = due_ns + RTT_NS;
                rack.duplicates.push(Reverse(copy_ns.max(ack_of[&late])));
            }
        }
    }
    spurious
}

/// Table and chart of the time to notice a loss; returns the packets a round trip at which they
/// cross.
fn figure_2(output: &Output) -> f64 {
    let mut table = Table::new(&["packets a RTT", "T ms", "dupthresh ms", "RACK ms"]);
    let mut points = Vec::new();
    for per_rtt in [1, 2, 3, 4, 6, 8, 10, 11, 12, 13, 14, 16, 20, 24, 32, 48] {
        let interval_ns = RTT_NS / per_rtt;
        let dup_ns = noticed(interval_ns, |later, now_ns, _| {
            (later >= DUPTHRESH as u64).then_some(now_ns)
        });
        let rack_ns = noticed(interval_ns, |_, now_ns, sent_ns| {
            Some(now_ns.max(sent_ns + RTT_NS + RTT_NS / 4))
        });
        let ms = |ns: u64| ns as f64 / MS as f64;
        points.push((per_rtt as f64, ms(dup_ns), ms(rack_ns)));
        table.row(vec![
            per_rtt.to_string(),
            format!("{:.2}", ms(interval_ns)),
            format!("{:.2}", ms(dup_ns)),
            format!("{:.2}", ms(rack_ns)),
        ]);
    }
    output.table("figure_2", &table);
    let chart = Chart {
        title: "Time until a lone loss is noticed, round trip 50 ms",
        x_label: "packets a round trip (logarithmic)",
        y_label: "ms after it was sent",
        x_log: true,
        y_log: false,
        series: vec![
            line("dupthresh 3", points.iter().map(|&(n, dup, _)| (n, dup))),
            line(
                "RACK, window RTT/4",
                points.iter().map(|&(n, _, rack)| (n, rack)),
            ),
        ],
    };
    output.write("figure_2.svg", &chart.svg());
    let crossed = points.iter().find(|(_, dup, rack)| dup <= rack);
    crossed.map_or(f64::INFINITY, |&(per_rtt, ..)| per_rtt)
}

/// How long after message 0 was sent, and lost, a sender knows. `detect` is asked at each
/// acknowledgement of a later message, with how many there were, the time, and when 0 was sent.
fn noticed(interval_ns: u64, detect: impl Fn(u64, u64, u64) -> Option<u64>) -> u64 {
    let sent_ns = 0;
    (1..1000)
        .find_map(|later| detect(later, later * interval_ns + RTT_NS, sent_ns))
        .map_or(u64::MAX, |at_ns| at_ns - sent_ns)
}

//! "Sorting Reordered Packets with Interrupt Coalescing" (SRPIC), Table 4's conditions over netem: TCP
//! over a gigabit whose delay of 2.5 ms spreads by 0.2 to 10 %, with the tunnel's reordering off and on.
//!
//! In the paper the host that delays packets takes them from its network card in blocks of about seven,
//! which interrupt coalescing makes, and so packets 12 µs apart are mixed by a spread of 5 µs. Here
//! netem lets packets go every 85 µs.
//!
//! As in the paper SACK is off, and the sender either takes three duplicate acknowledgements for a
//! loss (S) or raises the threshold up to 127 when it was wrong (A). Counted by the kernel: segments
//! sent again, and segments that came behind a hole, each of which is answered with a duplicate
//! acknowledgement.

use std::time::Duration;

use net::settings::Side;
use net::{Family, Shape};

use crate::Line;
use crate::case::{Case, Outcome, Outcomes, cell, number, outcome};
use crate::plot::{Chart, Mark, Series};
use crate::report::{Output, Table};
use crate::tcp::{Flows, Tcp};

/// Standard deviation in per cent of the mean, and in microseconds.
const SPREADS: [(&str, u32); 4] = [("10", 250), ("2", 50), ("1", 25), ("0.2", 5)];
/// The paper's senders, how far each raises its threshold, and streams at once.
const SENDERS: [(&str, u32, u32); 3] = [("S", 3, 1), ("S", 3, 10), ("A", 127, 1)];
const TUNNELS: [(&str, u32); 2] = [("off", 0), ("on", 1024)];
/// Packets leave A once in this time, seven at a gigabit.
const SLOT: &str = "slot 85us 85us";
const TIME: Duration = Duration::from_millis(1200);
/// What counts is the end.
const COUNTED: Duration = Duration::from_millis(500);
/// What explains where Table 4 differs, without the tunnel's window: a sender, the spread, whether
/// packets leave in blocks, how long.
const CAUSES: [(&str, u32, &str, bool, Duration); 5] = [
    ("A", 127, "2", true, Duration::from_secs(3)),
    ("A", 127, "1", true, Duration::from_secs(3)),
    ("A", 127, "0.2", false, TIME),
    ("S", 3, "1", false, TIME),
    ("S", 3, "0.2", false, TIME),
];
const PAPER_SECONDS: f64 = 50.0;

/// Table 4 without and with sorting: Mbit/s; retransmissions and duplicate ACKs in its 50 seconds for
/// each Mbit/s, which is for each 50 megabits.
struct Printed {
    sender: &'static str,
    streams: u32,
    spread: &'static str,
    unsorted: [f64; 3],
    sorted: [f64; 3],
}

const fn printed(
    sender: &'static str,
    streams: u32,
    spread: &'static str,
    unsorted: [f64; 3],
    sorted: [f64; 3],
) -> Printed {
    Printed {
        sender,
        streams,
        spread,
        unsorted,
        sorted,
    }
}

const TABLE_4: [Printed; 12] = [
    printed("S", 1, "10", [59.7, 1094.2, 2959.9], [62.5, 1061.5, 2882.1]),
    printed("S", 1, "2", [132.0, 1014.2, 2252.1], [176.7, 771.6, 1742.2]),
    printed("S", 1, "1", [145.3, 985.1, 2148.9], [240.3, 553.0, 1242.3]),
    printed("S", 1, "0.2", [225.0, 794.6, 1660.1], [472.0, 311.6, 694.1]),
    printed(
        "S",
        10,
        "10",
        [536.7, 1058.9, 2897.5],
        [585.3, 1036.5, 2818.4],
    ),
    printed(
        "S",
        10,
        "2",
        [759.7, 1041.4, 2374.6],
        [776.7, 932.6, 1988.1],
    ),
    printed(
        "S",
        10,
        "1",
        [762.7, 1023.5, 2253.7],
        [787.0, 847.8, 1800.7],
    ),
    printed(
        "S",
        10,
        "0.2",
        [804.0, 768.1, 1662.8],
        [894.7, 248.2, 706.9],
    ),
    printed("A", 1, "10", [338.7, 0.5, 3344.3], [440.7, 0.4, 3349.0]),
    printed("A", 1, "2", [800.0, 0.3, 3031.2], [944.0, 0.4, 2490.9]),
    printed("A", 1, "1", [944.0, 0.6, 2817.9], [944.0, 0.3, 2268.9]),
    printed("A", 1, "0.2", [944.6, 0.8, 1601.1], [944.3, 0.5, 744.1]),
];

pub(crate) fn cases() -> Vec<Case> {
    let table = SENDERS.iter().flat_map(|&(sender, greatest, streams)| {
        SPREADS.iter().flat_map(move |&(spread, spread_us)| {
            TUNNELS.map(|(tunnel, window)| {
                let case = format!("{sender}/{streams}/{spread}/{tunnel}");
                Case::new(case, 20, move || {
                    measure(SLOT, greatest, streams, spread_us, window, TIME)
                })
            })
        })
    });
    let causes = CAUSES.into_iter().map(|cause| {
        let (_, greatest, spread, in_blocks, time) = cause;
        let slot = if in_blocks { SLOT } else { "" };
        let of = SPREADS.iter().find(|(name, _)| *name == spread);
        let (_, spread_us) = of.expect("a spread of Table 4");
        let cost_s = time.as_secs() as u32 * 30;
        Case::new(cause_case(cause), cost_s.max(20), move || {
            measure(slot, greatest, 1, *spread_us, 0, time)
        })
    });
    table.chain(causes).collect()
}

fn cause_case((sender, _, spread, in_blocks, time): (&str, u32, &str, bool, Duration)) -> String {
    let leave = if in_blocks { "blocks" } else { "singly" };
    format!("cause/{leave}/{sender}/{spread}/{}", time.as_millis())
}

fn measure(
    slot: &str,
    greatest: u32,
    streams: u32,
    spread_us: u32,
    window: u32,
    time: Duration,
) -> Outcome {
    let delay = format!("delay 2.5ms {spread_us}us distribution normal");
    let rate = Shape::mbps(1000.0).netem(slot);
    let line = Line::new(&rate, &delay, &Shape::unshaped());
    let tunnel = line.tunnel(window, 300);
    let flows = Flows {
        target: Side::B.inner_v4(),
        count: streams,
        time,
        warm_up: time - COUNTED,
    };
    let tcp = Tcp {
        congestion: "cubic",
        sack: false,
        timestamps: true,
        dupthresh: Some((3, greatest)),
        undo: false,
    };
    let mut numbers = flows.run(&tunnel.hosts, tcp);
    numbers.extend(outcome([("limit", tunnel.limit_mbps(Family::V4))]));
    numbers
}

pub(crate) fn report(outcomes: &Outcomes, output: &Output) -> Vec<String> {
    let mut table = Table::new(&[
        "sender",
        "streams",
        "spread %",
        "off: Mbit/s",
        "retransmits/Mbit",
        "dupACKs/Mbit",
        "on: Mbit/s",
        "retransmits/Mbit",
        "dupACKs/Mbit",
        "paper unsorted",
        "paper sorted",
    ]);
    for row in &TABLE_4 {
        let mut cells = vec![
            row.sender.to_owned(),
            row.streams.to_string(),
            row.spread.to_owned(),
        ];
        for (tunnel, _) in TUNNELS {
            let case = format!("{}/{}/{}/{tunnel}", row.sender, row.streams, row.spread);
            cells.extend(here(outcomes, &case));
        }
        cells.extend([row.unsorted, row.sorted].map(of_paper));
        table.row(cells);
    }
    output.table("lab_table_4", &table);
    causes(outcomes, output);
    output.write("lab_table_4.svg", &chart(outcomes).svg());
    Vec::new()
}

/// Without the tunnel's window: longer runs, and packets that leave one by one.
fn causes(outcomes: &Outcomes, output: &Output) {
    let mut table = Table::new(&[
        "sender",
        "spread %",
        "packets leave",
        "seconds",
        "Mbit/s",
        "retransmits/Mbit",
        "dupACKs/Mbit",
        "paper unsorted",
    ]);
    for cause in CAUSES {
        let (sender, _, spread, in_blocks, time) = cause;
        let paper = TABLE_4
            .iter()
            .find(|row| (row.sender, row.streams, row.spread) == (sender, 1, spread));
        let leave = if in_blocks {
            "seven at once"
        } else {
            "one by one"
        };
        table.row(
            [sender, spread, leave]
                .map(str::to_owned)
                .into_iter()
                .chain([format!("{}", time.as_secs_f64())])
                .chain(here(outcomes, &cause_case(cause)))
                .chain(paper.map(|row| of_paper(row.unsorted)))
                .collect(),
        );
    }
    output.table("lab_causes", &table);
}

/// Mbit/s, and for each megabit what was sent again and what came behind a hole.
fn here(outcomes: &Outcomes, case: &str) -> [String; 3] {
    let of = |name| number(outcomes, case, name);
    let a_megabit = |name| Some(of(name)? / of("megabits")?);
    [
        cell(of("mbps"), 0),
        cell(a_megabit("retransmits"), 1),
        cell(a_megabit("behind_hole"), 1),
    ]
}

fn of_paper([mbps, retransmits, dupacks]: [f64; 3]) -> String {
    let a_megabit = [retransmits, dupacks].map(|count| count / PAPER_SECONDS);
    format!("{mbps}; {:.1}; {:.1}", a_megabit[0], a_megabit[1])
}

/// One stream of the fixed threshold.
fn chart(outcomes: &Outcomes) -> Chart<'static> {
    let here = TUNNELS.map(|(tunnel, _)| Series {
        name: format!("here, reordering {tunnel}"),
        mark: Mark::Line,
        points: SPREADS
            .iter()
            .filter_map(|(spread, _)| {
                let case = format!("S/1/{spread}/{tunnel}");
                Some((spread.parse().ok()?, number(outcomes, &case, "mbps")?))
            })
            .collect(),
    });
    let paper = |name: &str, value: fn(&Printed) -> f64| Series {
        name: name.to_owned(),
        mark: Mark::Dots,
        points: TABLE_4[..4]
            .iter()
            .filter_map(|row| Some((row.spread.parse().ok()?, value(row))))
            .collect(),
    };
    let paper = [
        paper("the paper, unsorted", |row| row.unsorted[0]),
        paper("the paper, sorted", |row| row.sorted[0]),
    ];
    Chart {
        title: "One stream, dupthresh 3, 1 Gbit/s, 2.5 ms (Table 4)",
        x_label: "spread of delay, % (logarithmic)",
        y_label: "throughput, Mbit/s",
        x_log: true,
        y_log: false,
        series: here.into_iter().chain(paper).collect(),
    }
}

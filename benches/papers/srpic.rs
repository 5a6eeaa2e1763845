//! "Sorting Reordered Packets with Interrupt Coalescing" (SRPIC), on a simulated stream: what sorting
//! within blocks of arrivals does to the order that TCP sees.
//!
//! Table 1 and 2 on the paper's own sequences, then the block-size model: a gigabit stream over a
//! path of 2.5 ms ± α, sent one by one or in trains of seven, received in blocks of 1 (unsorted), 7
//! and 32, beside the reference values of `tests/vectors/link-models.json`. Last, sorting against the
//! tunnel's reorder window, which waits.
//!
//! Run `cargo bench -p papers --bench paper_srpic [-- DIR]`; results go to `target/papers/srpic`.

mod plot;
mod report;
mod window;

use std::collections::BTreeMap;
use std::process::ExitCode;

use mpt_core::metrics::{MeterConfig, OrderMeter, OrderReport};
use mpt_core::receive::block_sort;
use mpt_sim::delay::Delay;
use mpt_sim::link::{Link, LinkConfig, Order, QueueLimit};
use plot::{Chart, Mark, Series};
use report::{Output, Table};
use serde::Deserialize;

const PACKETS: u32 = 200_000;
/// 1538 bytes on the wire at 1 Gbit/s.
const SPACING_NS: u64 = 12_304;
const MEAN_DELAY_NS: u64 = 2_500_000;
const ALPHAS: [f64; 4] = [0.1, 0.02, 0.01, 0.002];
const BLOCKS: [(&str, usize); 3] = [("raw", 1), ("block7", 7), ("block32", 32)];

/// Figure 3 A of the paper, reconstructed: 20 packets, 6 reordered, largest extent 3.
const FIGURE_3A: [u32; 20] = [
    1, 3, 2, 6, 4, 7, 5, 8, 9, 11, 10, 12, 14, 13, 15, 16, 18, 17, 19, 20,
];

#[derive(Deserialize)]
struct Models {
    block_sort: BTreeMap<String, BTreeMap<String, Reference>>,
}

#[derive(Deserialize, Clone, Copy)]
struct Reference {
    ratio: f64,
    n3: f64,
    dupack: f64,
    #[serde(rename = "MD")]
    md: f64,
}

fn main() -> ExitCode {
    let output = Output::new("srpic");
    let models: Models = serde_json::from_str(include_str!("../../tests/vectors/link-models.json"))
        .expect("the reference file is JSON of this form");
    let small = table_1().markdown() + "\n" + &table_2().markdown();
    println!("{small}");
    output.write("tables_1_2.md", &small);
    let mut table = Table::new(&[
        "train",
        "α %",
        "block",
        "ratio",
        "ref",
        "n=3",
        "ref",
        "dupACKs/packet",
        "ref",
        "MD",
        "ref",
    ]);
    let mut outside = 0;
    for train in [1, 7] {
        for alpha in ALPHAS {
            let arrivals = numbers(&arrivals(train, alpha));
            let references = &models.block_sort[&format!("batch{train}_alpha{alpha}")];
            for (key, block) in BLOCKS {
                let measured = measure(&sort_blocks(&arrivals, block));
                let reference = references[key];
                outside += usize::from(!agrees(&measured, &reference));
                table.row(row(train, alpha, block, &measured, &reference));
            }
        }
    }
    output.table("block_sort", &table);
    output.write("block_size.svg", &chart(&models).svg());
    output.table("strategies", &strategies());
    if outside > 0 {
        eprintln!("{outside} rows differ from the reference by more than its scatter");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// A number, and when it arrived, in nanoseconds.
type Arrival = (u32, u64);

/// Arrivals of [`PACKETS`] numbers sent in trains of `train` at the link's rate over a path whose
/// delay has a standard deviation of `alpha` times its mean.
fn arrivals(train: u32, alpha: f64) -> Vec<Arrival> {
    let config = LinkConfig {
        delay: Delay::Normal {
            mean_ns: MEAN_DELAY_NS,
            sd_ns: (MEAN_DELAY_NS as f64 * alpha) as u64,
        },
        order: Order::ByDelay,
        queue: QueueLimit::Packets(usize::MAX),
        ..LinkConfig::default()
    };
    let mut link = Link::new(config, 1);
    let mut arrivals = Vec::with_capacity(PACKETS as usize);
    let mut until = |link: &mut Link<u32>, now_ns| {
        while let Some(at_ns) = link.next().filter(|at_ns| *at_ns <= now_ns) {
            while let Some(number) = link.deliver(at_ns) {
                arrivals.push((number, at_ns));
            }
        }
    };
    for number in 0..PACKETS {
        let now_ns = u64::from(number / train * train) * SPACING_NS;
        until(&mut link, now_ns);
        link.send(now_ns, 1500, number);
    }
    until(&mut link, u64::MAX);
    arrivals
}

fn numbers(arrivals: &[Arrival]) -> Vec<u32> {
    arrivals.iter().map(|&(number, _)| number).collect()
}

/// What the tunnel hands on with block sort, every `block` arrivals being one batch.
fn sort_blocks(arrivals: &[u32], block: usize) -> Vec<u32> {
    let mut sorted = arrivals.to_vec();
    block_sort::sort_blocks(&mut sorted, block, |a, b| Some(a.cmp(b)));
    sorted
}

fn report(arrivals: &[u32], first: u32) -> OrderReport {
    let mut meter = OrderMeter::new(MeterConfig {
        first: Some(first),
        displacement_threshold: 1000,
        ..MeterConfig::default()
    });
    for (at, &number) in arrivals.iter().enumerate() {
        meter.arrive(number, 1500, at as u64);
    }
    meter.finish();
    meter.total()
}

fn measure(arrivals: &[u32]) -> Reference {
    let OrderReport {
        reordering,
        density,
        ..
    } = report(arrivals, 0);
    Reference {
        ratio: reordering.ratio,
        n3: reordering.n_reordering(3),
        dupack: dupacks(arrivals),
        md: density.mean_displacement,
    }
}

/// Share of arrivals that leave a hole below them, each of which a receiver answers with a duplicate
/// acknowledgement.
fn dupacks(arrivals: &[u32]) -> f64 {
    let mut arrived = vec![false; arrivals.len() + 1];
    let mut expected = 0;
    let mut duplicate = 0;
    for &number in arrivals {
        arrived[number as usize] = true;
        duplicate += u32::from(number as usize != expected);
        while arrived[expected] {
            expected += 1;
        }
    }
    f64::from(duplicate) / arrivals.len() as f64
}

fn agrees(measured: &Reference, reference: &Reference) -> bool {
    let near = |a: f64, b: f64| (a - b).abs() <= (0.03 * b).max(0.005);
    near(measured.ratio, reference.ratio)
        && near(measured.n3, reference.n3)
        && near(measured.dupack, reference.dupack)
        && near(measured.md, reference.md)
}

fn row(
    train: u32,
    alpha: f64,
    block: usize,
    measured: &Reference,
    reference: &Reference,
) -> Vec<String> {
    let mut cells = vec![
        train.to_string(),
        format!("{}", alpha * 100.0),
        block.to_string(),
    ];
    let mut pair = |value: fn(&Reference) -> f64| {
        cells.push(format!("{:.4}", value(measured)));
        cells.push(format!("{:.4}", value(reference)));
    };
    pair(|r| r.ratio);
    pair(|r| r.n3);
    pair(|r| r.dupack);
    pair(|r| r.md);
    cells
}

/// What sorting and waiting leave of the disorder, and how long packets wait for it.
fn strategies() -> Table {
    let mut table = Table::new(&[
        "train",
        "α %",
        "strategy",
        "ratio",
        "n=3",
        "dupACKs/packet",
        "held µs, mean",
        "held µs, 99 %",
    ]);
    for (train, alpha) in [1, 7].into_iter().flat_map(|t| ALPHAS.map(|a| (t, a))) {
        let arrivals = arrivals(train, alpha);
        let mut row = |strategy: &str, order: &[u32], held: [String; 2]| {
            let left = measure(order);
            let mut cells = vec![train.to_string(), format!("{}", alpha * 100.0)];
            cells.push(strategy.into());
            cells.extend([left.ratio, left.n3, left.dupack].map(|share| format!("{share:.4}")));
            cells.extend(held);
            table.row(cells);
        };
        for (name, block) in [("none", 1), ("blocks of 7", 7), ("blocks of 32", 32)] {
            let sorted = sort_blocks(&numbers(&arrivals), block);
            row(name, &sorted, ["0".into(), "0".into()]);
        }
        let restored = window::restore(&arrivals);
        let held = restored.held_us().map(|us| format!("{us:.0}"));
        row("window", &restored.order, held);
    }
    table
}

/// Table 1: incidents, ratio and largest extent by block size. The paper prints 3 incidents for
/// blocks of 5, but 10 % of 20 packets is 2, and its text names two.
fn table_1() -> Table {
    let paper = [
        (1, "6; 30 %; 3"),
        (5, "3 (its text: 2); 10 %; 1"),
        (10, "1; 5 %; 1"),
    ];
    let mut table = Table::new(&["block", "incidents; ratio; max extent", "paper's Table 1"]);
    for (block, printed) in paper {
        let found = report(&sort_blocks(&FIGURE_3A, block), 1).reordering;
        let here = format!(
            "{}; {:.0} %; {}",
            found.reordered,
            100.0 * found.ratio,
            found.extent.max
        );
        table.row(vec![block.to_string(), here, printed.into()]);
    }
    table
}

/// Table 2: where each packet of the paper's example goes. The first one sets the expected number.
fn table_2() -> Table {
    let mut lists = Lists::default();
    for number in [2, 3, 1, 4, 6, 7, 5] {
        lists.arrive(number);
    }
    let mut table = Table::new(&["list", "here", "paper's Table 2"]);
    for (name, list, printed) in [
        ("Prev", &lists.before, "[1]"),
        ("Curr", &lists.current, "[2; 3; 4; 5]"),
        ("After", &lists.after, "[6; 7]"),
    ] {
        table.row(vec![
            name.into(),
            format!("{list:?}").replace(',', ";"),
            printed.into(),
        ]);
    }
    table
}

/// The three lists of one flow's block: below the expected number, in sequence, beyond it.
#[derive(Default)]
struct Lists {
    expected: Option<u32>,
    before: Vec<u32>,
    current: Vec<u32>,
    after: Vec<u32>,
}

impl Lists {
    fn arrive(&mut self, number: u32) {
        let expected = *self.expected.get_or_insert(number);
        if number == expected {
            self.current.push(number);
            self.expected = Some(number + 1);
            return;
        }
        let list = if number < expected {
            &mut self.before
        } else {
            &mut self.after
        };
        let at = list.partition_point(|&other| other < number);
        list.insert(at, number);
    }
}

/// Duplicate ACKs against block size, packets sent one by one.
fn chart(models: &Models) -> Chart<'static> {
    let series = ALPHAS.iter().map(|&alpha| {
        let arrivals = numbers(&arrivals(1, alpha));
        let sizes = (0..=9).map(|power| 1usize << power);
        Series {
            name: format!("delay sd {} % of mean", alpha * 100.0),
            mark: Mark::Line,
            points: sizes
                .map(|size| (size as f64, dupacks(&sort_blocks(&arrivals, size))))
                .collect(),
        }
    });
    let references = ALPHAS.iter().flat_map(|alpha| {
        let blocks = &models.block_sort[&format!("batch1_alpha{alpha}")];
        BLOCKS.map(|(key, size)| (size as f64, blocks[key].dupack))
    });
    let references = Series {
        name: "reference".into(),
        mark: Mark::Dots,
        points: references.collect(),
    };
    Chart {
        title: "Duplicate ACKs against block size, 1 Gbit/s, 2.5 ms",
        x_label: "block, packets (logarithmic)",
        y_label: "duplicate ACKs a packet",
        x_log: true,
        y_log: false,
        series: series.chain([references]).collect(),
    }
}

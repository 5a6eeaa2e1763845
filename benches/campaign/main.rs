//! The campaign over random links: is a bond ever worse than its best link?
//!
//! `cargo bench -p mpt-sim --bench campaign -- --pairs 500 --seed 1 [--family NAME] [--sender NAME]` draws so
//! many cases of a family, runs each over the tunnel and over each link alone in virtual time
//! ([`mpt_sim::campaign`]), and prints how many are below 0.95 and 0.98 of the best link, which share of the
//! sum they reach, and the twenty worst. `--one SEED` runs one and prints it second by second; with `--trace PATH`
//! it prints what was decided about a path's rate, as `mpt-ctl trace` does, and draws it. A CSV of all and charts go
//! to `target/campaign/`. `--weather LINK+LINK` stays with one pair of the links that people have, `--replay DOWN,UP` with
//! links that somebody recorded, in Mahimahi's form, and `--steps` says what one of them carries in each 10 ms.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use clap::{Parser, ValueEnum};
use mpt_chart::{Chart, Mark, Series, rates};
use mpt_core::control::trace::COLUMNS;
use mpt_core::send::scheduler::Policy;
use mpt_core::send::scheduler::law::{Law, Parameter};
use mpt_sim::campaign::{Case, Family, Outcome, Recorded, Tally, Weather};
use mpt_sim::delay::Delay;
use mpt_sim::link::{LinkConfig, Order, QueueLimit};
use mpt_sim::recording::Recording;
use mpt_sim::source::Sender;

/// How many of the worst are printed.
const WORST: usize = 20;

/// Random links in virtual time: is a bond ever worse than its best link?
#[derive(Debug, Parser)]
struct Options {
    /// How many cases
    #[arg(long, default_value_t = 500)]
    pairs: u64,
    /// The first case's seed; those after it count up
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Which family
    #[arg(long, default_value_t = Family::Pairs)]
    family: Family,
    /// Which sender
    #[arg(long, value_enum, default_value_t = Named::Reno)]
    sender: Named,
    /// In place of a family: minutes over this pair of links as people have them, by the names of `field`. The seed 1 is the
    /// minute of benches/profiles --weather
    #[arg(long, value_name = "LINK+LINK", conflicts_with_all = ["family", "replay"], value_parser = weathers)]
    weather: Option<[Weather; 2]>,
    /// Only the case of this seed, second by second
    #[arg(long)]
    one: Option<u64>,
    /// With --one: what the sender believes, so often, in ms
    #[arg(long, requires = "one")]
    watch: Option<u64>,
    /// With --one: what was decided about the rate of this path, which is 0 or more, and why
    #[arg(long, requires = "one", value_name = "PATH", conflicts_with = "watch")]
    trace: Option<usize>,
    /// Links that were recorded, in place of a family: Mahimahi's traces down and up, and the delay each way in ms, which they
    /// do not tell (30). Once for each link
    #[arg(long, value_name = "DOWN,UP[,MS]")]
    replay: Vec<String>,
    /// Begin so many seconds into the recordings
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    from: u64,
    /// Only print what a recording carries in each 10 ms of its minute: milliseconds and Mbit/s
    #[arg(long, value_name = "FILE")]
    steps: Option<PathBuf>,
    /// Another value of a parameter of the law (docs/rate-control.md): NAME=VALUE
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Halves and doubles each of these parameters by itself, or `all`, and prints a row for each value
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    vary: Vec<String>,
    /// cargo bench says so
    #[arg(long, hide = true)]
    bench: bool,
}

impl Options {
    fn family(&self) -> Family {
        self.weather.map_or(self.family, |_| Family::Field)
    }

    fn draw(&self, seed: u64, law: &'static Law) -> Case {
        match self.weather {
            Some(weathers) => Case::forecast(weathers, seed, law),
            None => Case {
                law,
                ..Case::draw(self.family, seed)
            },
        }
    }
}

/// Two names with a plus between them.
fn weathers(text: &str) -> Result<[Weather; 2], String> {
    let (one, other) = text.split_once('+').ok_or("expected LINK+LINK")?;
    Ok([one.parse()?, other.parse()?])
}

/// A sender's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Named {
    Reno,
    Cubic,
    PacedCubic,
    Bbr,
}

impl Named {
    fn sender(self) -> Sender {
        match self {
            Named::Reno => Sender::Reno,
            Named::Cubic => Sender::Cubic,
            Named::PacedCubic => Sender::PacedCubic,
            Named::Bbr => Sender::Bbr,
        }
    }
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), String> {
    let law = law(&options.set)?;
    if let Some(file) = &options.steps {
        return steps(file, options.from);
    }
    let recorded = recorded(&options.replay, options.from)?;
    let draw = |seed| match recorded.as_slice() {
        [] => options.draw(seed, law),
        links => Case::replayed(links, seed, law),
    };
    let only = options
        .one
        .or((!recorded.is_empty()).then_some(options.seed));
    let sender = options.sender.sender();
    if let (Some(seed), Some(ms)) = (only, options.watch) {
        let case = draw(seed);
        println!("{}", describe(&case));
        for line in case.watched(sender, Duration::from_millis(ms)) {
            println!("{line}");
        }
        return Ok(());
    }
    if let (Some(seed), Some(path)) = (only, options.trace) {
        return trace(&draw(seed), sender, path)
            .map_err(|error| format!("cannot write the chart: {error}"));
    }
    if let Some(seed) = only {
        print!("{}", one(draw(seed), sender));
        return Ok(());
    }
    let began = Instant::now();
    if !options.vary.is_empty() {
        vary(options, law, &parameters(&options.vary, law)?);
        return Ok(());
    }
    let tally = run_all(options, law, |case| case.run(sender));
    let family = options.family();
    println!(
        "{} cases of the family {family}, seeds {} to {}, {:?}, in {:.0} s",
        options.pairs,
        options.seed,
        options.seed + options.pairs - 1,
        options.sender,
        began.elapsed().as_secs_f64()
    );
    print!("{}", table(&tally, family));
    if let Some(calls) = tally.calls() {
        let ((later, latest), (lost, most)) = (calls.later_ms, calls.lost);
        println!(
            "call: p99 of its delay, beyond that over the best link alone: median {later:.1} ms, 95th percentile \
             {latest:.1} ms; lost: median {:.1} of 1000, 95th percentile {:.1}; more than 1 of 1000 in {} of {} cases in \
             which a link alone loses none",
            lost * 1000.0,
            most * 1000.0,
            calls.spoilt,
            calls.good
        );
    }
    if let Some((p10, median, p90)) = tally.beside_keeps() {
        println!(
            "the other host's flow keeps, of what it has beside a plain path: p10 {p10:.2}, median {median:.2}, p90 {p90:.2}"
        );
    }
    print!("{}", worst(&tally, family));
    let folder = write_files(&tally, family)
        .map_err(|error| format!("cannot write the results: {error}"))?;
    println!("all cases and a chart: {}", folder.display());
    Ok(())
}

/// How long one way of a recorded link takes where nobody says: as long as assumed of a cell elsewhere.
const RECORDED_MS: f64 = 30.0;
/// What the lab's links change in.
const STEP: Duration = Duration::from_millis(10);
const MINUTE: Duration = Duration::from_secs(60);

/// The links of these files.
fn recorded(words: &[String], from: u64) -> Result<Vec<Recorded>, String> {
    let link = |word: &String| {
        let fields: Vec<&str> = word.split(',').collect();
        let (down, up, ms) = match fields[..] {
            [down, up] => (down, up, None),
            [down, up, ms] => (down, up, Some(ms)),
            _ => return Err(format!("--replay {word}: expected DOWN,UP or DOWN,UP,MS")),
        };
        let delay_ms = ms.map_or(Ok(RECORDED_MS), str::parse);
        let delay_ms = delay_ms.map_err(|_| format!("--replay {word}: how many ms?"))?;
        if !(0.0..=10_000.0).contains(&delay_ms) {
            return Err(format!("--replay {word}: 0 to 10000 ms"));
        }
        let ways = [
            recording(down.as_ref(), from)?,
            recording(up.as_ref(), from)?,
        ];
        Ok(Recorded { ways, delay_ms })
    };
    words.iter().map(link).collect()
}

/// A minute of the recording in this file.
fn recording(file: &Path, from: u64) -> Result<Recording, String> {
    let told = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let text = fs::read_to_string(file).map_err(|error| told(&error))?;
    let whole = Recording::parse(&text).map_err(|error| told(&error))?;
    let from = Duration::from_secs(from);
    whole.cut(from, MINUTE).map_err(|error| told(&error))
}

/// What a recording carries in each step.
fn steps(file: &Path, from: u64) -> Result<(), String> {
    for (number, bps) in recording(file, from)?.steps(STEP).iter().enumerate() {
        let at = STEP.as_millis() * number as u128;
        println!("{at} {:.1}", *bps as f64 / 1e6);
    }
    Ok(())
}

/// The law with these parameters changed.
fn law(set: &[String]) -> Result<&'static Law, String> {
    let mut law = Law::LAW;
    for one in set {
        let wrong =
            || format!("--set {one}: expected NAME=VALUE, of the table in docs/rate-control.md");
        let (name, value) = one.split_once('=').ok_or_else(wrong)?;
        let value = value.parse().map_err(|_| wrong())?;
        if !law.set(name, value) {
            return Err(wrong());
        }
    }
    Ok(Box::leak(Box::new(law)))
}

/// The parameters of these names, or all.
fn parameters(names: &[String], law: &Law) -> Result<Vec<Parameter>, String> {
    let mut table = law.table();
    if names == ["all"] {
        return Ok(table);
    }
    let is_known = |name: &String| table.iter().any(|parameter| parameter.name == name);
    if let Some(unknown) = names.iter().find(|name| !is_known(name)) {
        return Err(format!(
            "--vary {unknown}: expected names of the table in docs/rate-control.md, or all"
        ));
    }
    table.retain(|parameter| names.iter().any(|name| name == parameter.name));
    Ok(table)
}

/// What becomes of the family when parameters are halved and doubled, each by itself.
fn vary(options: &Options, law: &'static Law, parameters: &[Parameter]) {
    let sender = options.sender.sender();
    // The gain is of the tunnel alone: no link is run by itself.
    let run = |law: &'static Law| run_all(options, law, |case| case.run_beside(sender, &[]));
    let phases = options.family().phases();
    let base = run(law);
    let names: Vec<&str> = phases.iter().map(|phase| phase.name).collect();
    let names = names.join(" | ");
    println!("| Parameter | Value | Half | {names} | Double | {names} |");
    println!("|---|---{}", "|---".repeat(2 + 2 * phases.len()) + "|");
    for Parameter { name, value, .. } in parameters {
        let mut row = format!("| `{name}` | {value} |");
        for value in [value / 2.0, value * 2.0] {
            let mut other = *law;
            other.set(name, value);
            // A whole number has no half of its own.
            let set = other.table().into_iter().find(|set| set.name == *name);
            let _ = write!(row, " {} |", set.map_or(value, |set| set.value));
            let tally = run(Box::leak(Box::new(other)));
            for at in 0..phases.len() {
                let _ = match tally.gain_over(&base, at) {
                    Some((gain, error)) => {
                        write!(row, " {:+.1} ± {:.1} % |", gain * 100.0, error * 100.0)
                    }
                    None => write!(row, " – |"),
                };
            }
        }
        println!("{row}");
    }
}

/// Runs all cases, one at a time on each processor.
fn run_all(options: &Options, law: &'static Law, run: impl Fn(Case) -> Outcome + Sync) -> Tally {
    let next = AtomicU64::new(0);
    let tally = Mutex::new(Tally::default());
    let lanes = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= options.pairs {
                        return;
                    }
                    let outcome = run(options.draw(options.seed + number, law));
                    if let Ok(mut tally) = tally.lock() {
                        tally.add(outcome);
                    }
                }
            });
        }
    });
    tally.into_inner().unwrap_or_default().sorted()
}

fn table(tally: &Tally, family: Family) -> String {
    let mut text = format!(
        "{:<18} {:<7} {:>6} {:>7} {:>7} {:>7} {:>7} {:>6} {:>8} {:>10}\n",
        "GROUP",
        "PHASE",
        "CASES",
        "<0.70",
        "<0.85",
        "<0.95",
        "<0.98",
        "WORST",
        "SUM P10",
        "SUM MEDIAN"
    );
    for row in tally.rows(family) {
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let _ = writeln!(
            text,
            "{:<18} {:<7} {:>6} {:>7} {:>7} {:>7} {:>7} {:>6.2} {:>8.2} {:>10.2}",
            row.group,
            row.phase,
            row.cases,
            percent(row.below_70),
            percent(row.below_85),
            percent(row.below_95),
            percent(row.below_98),
            row.worst,
            row.sum_p10,
            row.sum_median
        );
    }
    text
}

fn worst(tally: &Tally, family: Family) -> String {
    let mut text = String::new();
    for (at, phase) in family.phases().iter().enumerate() {
        let _ = writeln!(text, "the worst, {}:", phase.name);
        for outcome in tally.worst(at, WORST) {
            let measured = outcome.phases[at];
            let _ = writeln!(
                text,
                "  {:.2} = {:5.1} of {:5.1} Mbit/s  --one {:<6} {}",
                measured.of_best(),
                measured.bond_bps / 1e6,
                measured.best_bps / 1e6,
                outcome.case.seed,
                describe(&outcome.case)
            );
        }
    }
    text
}

/// A case in words.
fn describe(case: &Case) -> String {
    let paths = case.paths.iter().map(|path| link_in_words(&path.links[0]));
    let mut text = paths.collect::<Vec<_>>().join(" + ");
    if let [one, other] = case.weathers[..] {
        return format!("{one} + {other}: {text}");
    }
    if !case.changes.is_empty() {
        let _ = write!(text, "; path {} {}", case.changes[0].path, case.group);
        if case.changes.len() <= 2 {
            let _ = write!(text, " {:?}", case.changes[0].what);
        }
    }
    text
}

fn link_in_words(link: &LinkConfig) -> String {
    let rate = link.rate_bps.unwrap_or(0) as f64 / 1e6;
    let (mean_ns, sd_ns) = match link.delay {
        Delay::Constant { ns } => (ns, 0),
        Delay::Normal { mean_ns, sd_ns } => (mean_ns, sd_ns),
        Delay::Uniform { .. }
        | Delay::NetemUniform { .. }
        | Delay::Exponential { .. }
        | Delay::ExponentialCut { .. }
        | Delay::Switching(_) => (0, 0),
        Delay::Gathered { least_ns, .. } => (least_ns, 0),
    };
    let mut text = format!("{rate:.0} Mbit/s {:.0} ms", mean_ns as f64 / 1e6);
    if sd_ns > 0 {
        let order = if link.order == Order::Kept {
            ""
        } else {
            " overtaking"
        };
        let _ = write!(text, " ±{:.1}{order}", sd_ns as f64 / 1e6);
    }
    if link.loss.mean() > 0.0 {
        let _ = write!(text, " loss {:.2} %", link.loss.mean() * 100.0);
    }
    if let QueueLimit::Bytes(bytes) = link.queue {
        let _ = write!(text, " queue {:.0} ms", bytes as f64 * 8.0 / rate / 1e3);
    }
    text
}

/// One case, second by second.
fn one(case: Case, sender: Sender) -> String {
    let mut text = describe(&case) + "\n";
    for weather in &case.weathers {
        let _ = writeln!(text, "  {weather}: {}", weather.source());
    }
    for change in case.changes.iter().take(20) {
        let _ = writeln!(
            text,
            "  {:?}: path {} {:?}",
            change.at, change.path, change.what
        );
    }
    let mbps = |bytes: &[u64]| -> String {
        let each = bytes
            .iter()
            .map(|&bytes| format!("{:5.1}", bytes as f64 * 8e-6));
        each.collect::<Vec<_>>().join(" ")
    };
    let bond = case.run_once(sender, Policy::Adaptive, true);
    let _ = writeln!(
        text,
        "Mbit/s in each second\n  tunnel  {}",
        mbps(&bond.bytes)
    );
    if case.traffic.beside {
        let _ = writeln!(text, "  beside  {}", mbps(&bond.beside));
    }
    for path in 0..case.paths.len() {
        let alone = case.alone(path).run_once(sender, Policy::Weighted, false);
        let _ = writeln!(text, "  path {path}  {}", mbps(&alone.bytes));
        if !alone.beside.is_empty() {
            let _ = writeln!(text, "  beside  {}", mbps(&alone.beside));
        }
    }
    text
}

/// What was decided about a path's rate in one case: a line each, and a chart.
fn trace(case: &Case, sender: Sender, path: usize) -> io::Result<()> {
    let decisions = case.traced(sender, path);
    println!("{}\n   TIME  {COLUMNS}", describe(case));
    for decision in &decisions {
        println!("{:7.3}  {decision}", decision.at_us as f64 / 1e6);
    }
    let title = format!("Path {path} of {}", describe(case));
    let file = folder()?.join(format!("trace-{}-{path}.svg", case.seed));
    fs::write(&file, rates::svg(&title, &decisions))?;
    println!("a chart: {}", file.display());
    Ok(())
}

fn folder() -> io::Result<PathBuf> {
    let folder = PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../target/campaign"
    ));
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

fn write_files(tally: &Tally, family: Family) -> io::Result<PathBuf> {
    let folder = folder()?;
    let mut csv = String::from(
        "seed,group,phase,bond_mbps,best_mbps,sum_mbps,beside_keeps,call_later_ms,call_lost,links\n",
    );
    for outcome in tally.outcomes() {
        let Outcome { case, phases, .. } = outcome;
        let keeps = outcome.beside_keeps.map(|share| format!("{share:.3}"));
        let call = outcome
            .call
            .map(|call| format!("{:.1},{:.4}", call.later_ms, call.lost));
        for (phase, measured) in family.phases().iter().zip(phases) {
            let _ = writeln!(
                csv,
                "{},{},{},{:.3},{:.3},{:.3},{},{},\"{}\"",
                case.seed,
                case.group,
                phase.name,
                measured.bond_bps / 1e6,
                measured.best_bps / 1e6,
                measured.sum_bps / 1e6,
                keeps.as_deref().unwrap_or_default(),
                call.as_deref().unwrap_or(","),
                describe(case)
            );
        }
    }
    fs::write(folder.join(format!("{family}.csv")), csv)?;
    let series = family.phases().iter().enumerate().map(|(at, phase)| {
        let mut shares: Vec<f64> = tally
            .outcomes()
            .iter()
            .map(|outcome| outcome.phases[at].of_best())
            .collect();
        shares.sort_by(f64::total_cmp);
        let count = shares.len().max(1) as f64;
        let place = |(rank, share): (usize, f64)| (share, (rank + 1) as f64 * 100.0 / count);
        Series {
            name: phase.name.to_owned(),
            mark: Mark::Line,
            points: shares.into_iter().enumerate().map(place).collect(),
        }
    });
    let chart = Chart {
        title: &format!("Tunnel against the best link alone, family {family}"),
        x_label: "tunnel / best link alone",
        y_label: "share of cases below (%)",
        x_log: false,
        y_log: false,
        series: series.collect(),
    };
    fs::write(folder.join(format!("{family}.svg")), chart.svg())?;
    Ok(folder)
}

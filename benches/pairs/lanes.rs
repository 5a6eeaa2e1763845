//! Runs jobs, several at a time, each in a lab of its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::job::{Job, MARK};
use crate::options::Options;

/// Seconds of real time that a job may take.
const LIMIT_S: u32 = 1500;

/// What came of a job.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    /// The result, or what the job said when it failed.
    pub(crate) result: Result<Value, String>,
    /// Real time that it took; nothing when it was kept from before.
    pub(crate) took: Duration,
}

pub(crate) type Outcomes = BTreeMap<Job, Outcome>;

/// What links carry alone, kept from run to run.
struct Kept {
    file: PathBuf,
    values: BTreeMap<String, Value>,
}

/// Everything that lanes share.
struct Board<'a> {
    waiting: std::slice::Iter<'a, Job>,
    /// Jobs that come out like another.
    alike: Vec<(&'a Job, &'a Job)>,
    outcomes: Outcomes,
    /// Hears of every outcome.
    listener: &'a mut (dyn FnMut(&Outcomes) + Send),
    kept: Kept,
}

/// Runs all jobs and returns what came of each; `listener` is shown the outcomes each time that there
/// is a new one.
pub(crate) fn run(
    options: &Options,
    jobs: &[Job],
    listener: &mut (dyn FnMut(&Outcomes) + Send),
) -> Outcomes {
    let cpus = cpus();
    let in_lab = std::env::var_os("MPT_PROFILES").is_some_and(|place| place == "lab");
    // Natively they would disturb each other.
    let lanes = if in_lab {
        options.lanes.unwrap_or_else(|| idle(cpus.len()))
    } else {
        1
    };
    // Links that are alike are measured once.
    let mut keys = BTreeMap::new();
    let (mut distinct, mut alike) = (Vec::new(), Vec::new());
    for job in jobs {
        match job
            .key(&options.variant)
            .map(|key| keys.entry(key).or_insert(job))
        {
            Some(first) if *first != job => alike.push((job, *first)),
            Some(_) | None => distinct.push(job.clone()),
        }
    }
    let lanes = lanes.min(distinct.len());
    eprintln!("{} jobs, {lanes} at a time", distinct.len());
    let board = Mutex::new(Board {
        waiting: distinct.iter(),
        alike,
        outcomes: Outcomes::new(),
        listener,
        kept: Kept::load(options.fresh),
    });
    std::thread::scope(|scope| {
        for lane in 0..lanes {
            let (board, cpu) = (&board, cpus[lane % cpus.len()]);
            scope.spawn(move || work(options, board, in_lab.then_some(cpu)));
        }
    });
    board.into_inner().expect("no lane panics").outcomes
}

/// One lane: takes jobs until there are none.
fn work(options: &Options, board: &Mutex<Board<'_>>, cpu: Option<u32>) {
    loop {
        let (job, kept) = {
            let mut board = board.lock().expect("no lane panics");
            let Some(job) = board.waiting.next() else {
                return;
            };
            let key = job.key(&options.variant);
            (
                job,
                key.and_then(|key| board.kept.values.get(&key).cloned()),
            )
        };
        let started = Instant::now();
        let result = match kept {
            Some(value) => Ok(value),
            None => take(options, job, cpu).or_else(|message| {
                eprintln!("{job} failed, is tried once more: {message}");
                take(options, job, cpu)
            }),
        };
        let took = started.elapsed();
        let mut board = board.lock().expect("no lane panics");
        match (&result, job.key(&options.variant)) {
            (Ok(value), Some(key)) => board.kept.add(key, value),
            (Ok(_), None) => {}
            (Err(message), _) => eprintln!("{job} failed: {message}"),
        }
        if took > Duration::from_secs(1) {
            eprintln!("{job}: {:.0} s", took.as_secs_f64());
        }
        board.settle(job, Outcome { result, took });
    }
}

impl Board<'_> {
    /// Notes what came of a job, for those too that come out alike.
    fn settle(&mut self, job: &Job, outcome: Outcome) {
        for (other, first) in &self.alike {
            if *first == job {
                let result = outcome.result.clone();
                let took = Duration::ZERO;
                self.outcomes
                    .insert((*other).clone(), Outcome { result, took });
            }
        }
        self.outcomes.insert(job.clone(), outcome);
        (self.listener)(&self.outcomes);
    }
}

/// Takes a job in a lab on this CPU, or in namespaces of this kernel.
fn take(options: &Options, job: &Job, cpu: Option<u32>) -> Result<Value, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command;
    if let Some(cpu) = cpu {
        command = Command::new("tests/lab/run");
        command.args(["--cpu", &cpu.to_string(), "--timeout", &LIMIT_S.to_string()]);
        command.arg("--");
    } else {
        command = Command::new("timeout");
        command.args(["-k", "5", &LIMIT_S.to_string(), "tests/net/enter"]);
    }
    command
        .arg(program)
        .args(options.job_words(job))
        .env("MPT_TEST_NET", "1")
        .stdin(Stdio::null());
    if let Some(folder) = &options.programs {
        command.env("MPT_TEST_PROGRAMS", folder);
    }
    let output = command.output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let said = text.lines().find_map(|line| line.strip_prefix(MARK));
    let Some(said) = said else {
        let error = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{}, {}", output.status, error.trim_end()));
    };
    for line in text.lines().filter(|line| !line.starts_with(MARK)) {
        eprintln!("{job}: {line}");
    }
    serde_json::from_str(said).map_err(|error| error.to_string())
}

/// The CPUs that this process may use.
fn cpus() -> Vec<u32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .unwrap_or("0");
    list.trim()
        .split(',')
        .filter_map(|range| {
            let mut ends = range.split('-').map(|word| word.parse::<u32>().ok());
            let first = ends.next()??;
            Some(first..=ends.next().flatten().unwrap_or(first))
        })
        .flatten()
        .collect()
}

/// How many of this many CPUs have nothing to do; at least one.
fn idle(count: usize) -> usize {
    // The second line that counts: all CPUs together; the fourth and fifth numbers are idle time.
    let ticks = || -> Option<(u64, u64)> {
        let stat = std::fs::read_to_string("/proc/stat").ok()?;
        let numbers: Vec<u64> = stat
            .lines()
            .next()?
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        Some((numbers.iter().sum(), numbers.get(3)? + numbers.get(4)?))
    };
    let before = ticks();
    std::thread::sleep(Duration::from_secs(1));
    let share = before.zip(ticks()).map_or(1.0, |(before, after)| {
        (after.1 - before.1) as f64 / (after.0 - before.0).max(1) as f64
    });
    ((count as f64 * share).round() as usize).clamp(1, count.max(1))
}

impl Kept {
    fn load(fresh: bool) -> Self {
        let folder = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
        let file = Path::new(&folder).join("profiles/links.json");
        let values = if fresh {
            BTreeMap::new()
        } else {
            Self::read(&file)
        };
        Self { file, values }
    }

    fn read(file: &Path) -> BTreeMap<String, Value> {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    fn add(&mut self, key: String, value: &Value) {
        self.values.insert(key, value.clone());
        // What another run has added meanwhile stays.
        let mut all = Self::read(&self.file);
        all.extend(self.values.clone());
        let text = serde_json::to_string_pretty(&all).unwrap_or_default();
        let folder = self.file.parent().unwrap_or(Path::new("."));
        let written =
            std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&self.file, text));
        if let Err(error) = written {
            eprintln!("{}: {error}", self.file.display());
        }
    }
}

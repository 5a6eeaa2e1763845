//! Where the two daemons spend their time: perf's view of one TCP flow over two paths.

use std::process::Command;
use std::time::Duration;

use net::process::{output, run};

use crate::measure::Load;
use crate::system::{Kind, System, Wire};

/// Where the record stays, from the folder in which `benches/throughput` runs.
const RECORD: &str = "target/perf.data";
/// Symbols with a smaller share are left out, in percent.
const LEAST_PERCENT: &str = "0.7";

/// Records both daemons for so many seconds and prints what took most, by thread.
pub(crate) fn run_for(seconds: u32) {
    let system = System::set_up(Kind::Offload(2));
    system.set_wire(Wire::Whole);
    let Some((a, b)) = &system.daemons else {
        return;
    };
    let (sender, receiver) = (a.id().to_string(), b.id().to_string());
    let load = Load::start(&system, Duration::from_secs(u64::from(seconds) + 3), "");
    std::thread::sleep(Duration::from_secs(1));
    let both = format!("{sender},{receiver}");
    let mut record = Command::new("perf");
    record.args([
        "record", "-q", "-F", "1999", "-g", "-o", RECORD, "-p", &both,
    ]);
    record.args(["--", "sleep", &seconds.to_string()]);
    let recorded = output(&mut record);
    let report = load.finish();
    if !recorded.status.success() {
        eprintln!("perf record: {}", String::from_utf8_lossy(&recorded.stderr));
        eprintln!("(kernel.perf_event_paranoid must allow it, or be root)");
        std::process::exit(1);
    }
    let rate = report["end"]["sum_received"]["bits_per_second"].as_f64();
    println!(
        "one TCP flow over two paths, under perf: {:.2} Gbit/s",
        rate.unwrap_or(0.0) / 1e9
    );
    for (side, process) in [("sending side", sender), ("receiving side", receiver)] {
        println!("\n{side}: share of its time, thread, symbol");
        let mut report = Command::new("perf");
        report.args([
            "report",
            "-i",
            RECORD,
            "--stdio",
            "--no-children",
            "--no-inline",
            "-q",
        ]);
        report.args([
            "-g",
            "none",
            "-s",
            "comm,symbol",
            "--percentage",
            "relative",
        ]);
        report.args(["--percent-limit", LEAST_PERCENT, "--pid", &process]);
        let text = run(&mut report);
        for line in text
            .lines()
            .map(str::trim_end)
            .filter(|line| !line.is_empty())
        {
            let line: String = line.chars().take(100).collect();
            println!("{}", line.trim_end());
        }
    }
    println!("\nthe record: {RECORD}");
}

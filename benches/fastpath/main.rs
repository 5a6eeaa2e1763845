//! How fast the tunnel is, beside what it can be compared with, in one run.
//!
//! Absolute speeds say more of the machine than of the tunnel. So every run measures all systems one
//! after the other: the bare veth, the kernel's VXLAN over it, the tunnel packet by packet, and the
//! tunnel with super-packets over one, two and four paths. What counts is each one's ratio to another
//! in the *same* run, and of these the median. The order turns round from run to run, so that a
//! machine that slows down does not favour any.
//!
//! All that twice, over two models of a wire. A veth passes super-packets on whole: that is how fast
//! the tunnel itself is. A real network card cuts them into packets on the way and joins what it can
//! on arrival: that is what a user gets.
//!
//! Started by `benches/throughput`, which builds everything and enters a network namespace.

mod measure;
mod options;
mod profile;
mod relay;
mod report;
mod results;
mod system;
mod udp;

use std::time::Instant;

use measure::Measure;
use options::{Job, Options};
use results::Results;
use system::{Kind, System, Wire};

fn main() -> std::process::ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("benches/throughput: {message}");
            return std::process::ExitCode::from(2);
        }
    };
    match &options.job {
        // These run within the namespaces of a measurement.
        Job::UdpSend { to, len, time } => udp::send(*to, *len, *time),
        Job::UdpReceive { at } => udp::receive(*at),
        Job::Relay { tun, local, remote } => relay::run(tun, *local, *remote),
        Job::Profile { seconds } if has_namespace() => profile::run_for(*seconds),
        Job::Measure if has_namespace() => measure_all(&options),
        Job::Profile { .. } | Job::Measure => {
            println!("needs a network namespace of its own: run by benches/throughput");
        }
    }
    std::process::ExitCode::SUCCESS
}

fn has_namespace() -> bool {
    std::env::var_os("MPT_TEST_NET").is_some_and(|value| value == "1")
}

fn measure_all(options: &Options) {
    let busy_before = measure::share_busy();
    let kinds: Vec<Kind> = Kind::ALL
        .into_iter()
        .filter(|kind| options.wants_system(&kind.to_string()))
        .collect();
    let systems: Vec<System> = kinds.iter().map(|kind| System::set_up(*kind)).collect();
    let mut results = Results::default();
    let started = Instant::now();
    let mut longest_run = std::time::Duration::ZERO;
    for run in 0..options.runs {
        if started.elapsed() + longest_run > options.limit {
            eprintln!("no time for another run: {run} of {}", options.runs);
            break;
        }
        let begun = Instant::now();
        for wire in Wire::BOTH {
            eprintln!("run {} of {}: {wire}", run + 1, options.runs);
            let mut order: Vec<&System> =
                systems.iter().filter(|one| one.runs_over(wire)).collect();
            if run % 2 == 1 {
                order.reverse();
            }
            for system in order {
                system.set_wire(wire);
                measure_one(options, &mut results, run, wire, system);
            }
        }
        longest_run = longest_run.max(begun.elapsed());
    }
    for system in &systems {
        if let Some(bytes) = system.peak_resident_bytes() {
            results.add_memory(system.kind, bytes);
        }
    }
    report::print(options, &results, busy_before, started.elapsed());
}

fn measure_one(options: &Options, results: &mut Results, run: usize, wire: Wire, system: &System) {
    let wanted = Measure::ALL
        .into_iter()
        .filter(|measure| options.wants_measure(&measure.to_string()))
        .filter(|measure| measure.is_taken(wire, options.quick))
        // The relay is there for what a packet takes, not for how many it can do at once.
        .filter(|measure| {
            system.kind != Kind::Relay
                || matches!(
                    measure,
                    Measure::OneFlow | Measure::Udp64 | Measure::PingIdle
                )
        });
    for measure in wanted {
        let sample = measure.take(system, options.time(measure));
        results.add(run, wire, measure, system.kind, sample);
    }
}

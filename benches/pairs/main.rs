//! What the tunnel makes of many pairs of links, beside what each link carries alone.
//!
//! Each measurement is a job: one flow over one link, or through a tunnel over a pair, downloads over
//! either, or a figure of its own. A job runs this program again, inside a lab, where time is virtual and many may run at
//! once without disturbing each other; or in namespaces of this kernel, one by one, where it has
//! netem. What a link carries alone depends on the link only and is kept from run to run.
//!
//! Started by `benches/profiles`, which builds everything.

mod comparison;
mod downloads;
mod field;
mod job;
mod lanes;
mod options;
mod report;

use std::process::ExitCode;
use std::time::Instant;

use net::profile::Profile;

use job::Job;
use options::{Options, Wish};

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("benches/profiles: {message}");
            return ExitCode::from(2);
        }
    };
    match &options.wish {
        Wish::Job(job) => {
            if let Some(_turn) = net::turn() {
                println!("{}{}", job::MARK, job.run(&options.variant));
            }
        }
        Wish::List => report::list(),
        Wish::Measure if std::env::var_os("MPT_PROFILES").is_none() => {
            println!("measures inside labs: run by benches/profiles");
        }
        Wish::Measure => return measure(&options),
    }
    ExitCode::SUCCESS
}

fn measure(options: &Options) -> ExitCode {
    let started = Instant::now();
    let (profiles, figures) = (options.profiles(), options.figures());
    let downloads = options.downloads();
    let pairs = options.pairs();
    if profiles.is_empty() && figures.is_empty() && downloads.is_empty() && pairs.is_empty() {
        eprintln!("benches/profiles: no such profile; see --list");
        return ExitCode::from(2);
    }
    let mut jobs = Job::needed(&profiles, &figures, &downloads, options.runs);
    jobs.extend(field::jobs(&pairs, &options.measures));
    let mut unsaid = profiles.clone();
    let outcomes = lanes::run(options, &jobs, &mut |outcomes| {
        let is_done = |profile: &Profile| {
            let mut own = jobs.iter().filter(|job| job.subject() == profile.name);
            own.all(|job| outcomes.contains_key(job))
        };
        unsaid.retain(|profile| {
            let done = is_done(profile);
            if done {
                report::say(options, profile, outcomes);
            }
            !done
        });
    });
    let mut all_met = true;
    if !profiles.is_empty() || !figures.is_empty() {
        all_met &= report::print(options, &profiles, &figures, &outcomes);
    }
    if !downloads.is_empty() {
        all_met &= downloads::print(options.markdown, &downloads, &outcomes);
    }
    if !pairs.is_empty() {
        all_met &= field::print(options.markdown, &pairs, &options.measures, &outcomes);
    }
    report::keep(options, &outcomes);
    println!("{:.0} s of real time.", started.elapsed().as_secs_f64());
    if all_met {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

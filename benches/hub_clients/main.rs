//! Many clients of a hub in one process. `benches/hub` sets the stage and runs it.
//!
//! `hub_clients peers N`: the `[[peers]]` of N clients, for the hub's file. `hub_clients run N PUBLIC_KEY ADDRESS:PORT PID SECONDS`: N
//! clients of two paths each call there; PID is the hub's. `hub_clients shares|flows|greedy N RUNS SECONDS`: what N get under
//! load.

#![allow(clippy::unwrap_used, reason = "a bench ends by a panic")]

mod clients;
mod flood;
mod idle;
mod load;
mod outcome;
mod reports;

use mpt_core::crypto::PublicKey;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match *words {
        ["peers", clients, ..] => print!("{}", clients::peers(clients.parse().unwrap())),
        ["run", clients, key, remote, pid, seconds, ..] => idle::run(
            clients.parse().unwrap(),
            PublicKey::from_base64(key).unwrap(),
            remote.parse().unwrap(),
            pid.parse().unwrap(),
            seconds.parse().unwrap(),
        ),
        [
            what @ ("shares" | "flows" | "greedy"),
            clients,
            runs,
            seconds,
        ] => load::run(
            what,
            clients.parse().unwrap(),
            runs.parse().unwrap(),
            seconds.parse().unwrap(),
        ),
        // `cargo bench` without words only sees that it builds.
        _ => println!("benches/hub runs it"),
    }
}

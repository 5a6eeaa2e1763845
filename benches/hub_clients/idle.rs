//! How soon many clients are up, and what the hub takes while they are idle.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use mpt_core::crypto::PublicKey;
use mpt_io::Offload;

use crate::clients::{Clients, Hub, PATHS};

/// All are to be up within this.
const PATIENCE: Duration = Duration::from_secs(60);
/// What follows a start is not what an idle client costs.
const SETTLING: Duration = Duration::from_secs(15);

/// Waits until all are up, and tells how long that took.
fn come_up(clients: &mut Clients) {
    let began = Instant::now();
    for second in 1..=PATIENCE.as_secs() {
        let up = clients.run(began + Duration::from_secs(second), Clients::are_up);
        let (paths, all) = clients.up();
        if up {
            let took = began.elapsed().as_secs_f64();
            return println!("all {} up after {took:.2} s", all / PATHS);
        }
        println!("{paths} of {all} paths are up after {second} s");
    }
    clients.tell_of_one();
}

/// Processor time of a process so far, in seconds, and its resident memory, in MiB.
fn taken(pid: u32) -> Option<(f64, f64)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: f64 = fields[11].parse::<f64>().ok()? + fields[12].parse::<f64>().ok()?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let resident = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: f64 = resident.split_whitespace().next()?.parse().ok()?;
    Some((ticks / 100.0, kib / 1024.0))
}

/// So many clients of two paths call there, and are then idle; `pid` is the hub's.
pub(crate) fn run(clients: usize, key: PublicKey, remote: SocketAddr, pid: u32, seconds: u64) {
    let hub = Hub {
        key,
        locals: [Ipv4Addr::UNSPECIFIED; PATHS],
        remotes: [remote; PATHS],
        // Idle clients have no use for buffers with room for a train.
        offload: Offload::Off,
    };
    let mut clients = Clients::new(clients, &hub, None);
    come_up(&mut clients);
    clients.run(Instant::now() + SETTLING, |_| false);
    let Some((before, _)) = taken(pid) else {
        return;
    };
    clients.run(Instant::now() + Duration::from_secs(seconds), |_| false);
    let Some((after, resident)) = taken(pid) else {
        return;
    };
    println!(
        "idle: {:.1} % of a core, {resident:.0} MiB",
        (after - before) / seconds as f64 * 100.0
    );
    println!("READY");
    // The stage kills the hub now, starts another one, and asks that who is there.
    clients.run(Instant::now() + PATIENCE, |_| false);
}

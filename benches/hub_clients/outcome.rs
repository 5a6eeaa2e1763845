//! What clients got between two moments, and what that took.

use std::collections::BTreeMap;
use std::time::Instant;

/// Processor time so far, in seconds, of a process's threads whose names begin like each of these.
pub(crate) fn thread_time<const N: usize>(pid: u32, names: [&str; N]) -> [f64; N] {
    let mut times = [0.0; N];
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))
        .unwrap()
        .flatten()
    {
        let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        let time = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        let ns: f64 = time
            .split(' ')
            .next()
            .and_then(|ns| ns.parse().ok())
            .unwrap_or(0.0);
        if let Some(place) = names.iter().position(|start| name.starts_with(start)) {
            times[place] += ns / 1e9;
        }
    }
    times
}

/// What has been counted by then.
pub(crate) struct Moment {
    pub(crate) at: Instant,
    /// Of each client's flows.
    pub(crate) bytes: Vec<u64>,
    /// Of the hub's lines of all its workers, out and in, and of the clients' thread: see [`thread_time`].
    pub(crate) hub_time: [f64; 2],
    pub(crate) client_time: f64,
    pub(crate) drops: BTreeMap<String, u64>,
}

/// What there was between two moments.
pub(crate) struct Outcome {
    /// Of each client, in Mbit/s.
    pub(crate) rates: Vec<f64>,
    /// Of each line of the hub, in processors.
    hub: [f64; 2],
    /// Of all clients.
    clients: f64,
    /// Packets that the hub dropped, by why.
    drops: BTreeMap<String, u64>,
}

impl Moment {
    pub(crate) fn until(&self, later: &Moment) -> Outcome {
        let took = (later.at - self.at).as_secs_f64();
        let bytes = later.bytes.iter().zip(&self.bytes);
        let drops = later.drops.iter().map(|(why, count)| {
            (
                why.clone(),
                count - self.drops.get(why).copied().unwrap_or(0),
            )
        });
        Outcome {
            rates: bytes
                .map(|(now, then)| (now - then) as f64 * 8e-6 / took)
                .collect(),
            hub: [0, 1].map(|line| (later.hub_time[line] - self.hub_time[line]) / took),
            clients: (later.client_time - self.client_time) / took,
            drops: drops.filter(|(_, count)| *count > 0).collect(),
        }
    }
}

impl Outcome {
    /// Of all clients, in Mbit/s.
    pub(crate) fn sum(&self) -> f64 {
        self.rates.iter().sum()
    }

    /// Nanoseconds of the hub's processor for a byte.
    pub(crate) fn hub_ns(&self) -> f64 {
        (self.hub[0] + self.hub[1]) * 8e3 / self.sum()
    }

    pub(crate) fn tell(&self, what: &str) {
        let least = self.rates.iter().copied().fold(f64::INFINITY, f64::min);
        let most = self.rates.iter().copied().fold(0.0, f64::max);
        println!(
            "  {what}: {:.0} Mbit/s (least {least:.1}, most {most:.1}); hub's lines {:.2} out, {:.2} in, {:.2} ns a byte; \
             clients' {:.2}; hub's drops {:?}",
            self.sum(),
            self.hub[0],
            self.hub[1],
            self.hub_ns(),
            self.clients,
            self.drops
        );
    }
}

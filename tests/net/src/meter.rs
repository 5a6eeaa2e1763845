//! An interface's counters over time, finer than iperf3's seconds.
//!
//! A failover takes milliseconds. A thread reads /proc/PID/net/dev, which shows the interfaces of
//! that process's namespace, every few milliseconds without starting a process for it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the counters are read.
const STEP: Duration = Duration::from_millis(5);

/// Counters at one moment.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// When.
    pub at: Instant,
    /// Bytes received since the interface was made.
    pub rx_bytes: u64,
    /// Bytes sent since the interface was made.
    pub tx_bytes: u64,
}

/// A running record of one interface.
#[derive(Debug)]
pub struct Meter {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Sample>>,
}

/// A finished record.
#[derive(Debug)]
pub struct Record {
    samples: Vec<Sample>,
}

impl Meter {
    /// Starts to record `device` in the namespace of process `id`, which must outlive the meter.
    #[must_use]
    pub fn start(id: u32, device: &str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (until, device) = (Arc::clone(&stop), device.to_owned());
        let path: PathBuf = ["/proc", &id.to_string(), "net/dev"].iter().collect();
        let thread = std::thread::spawn(move || {
            let mut samples = Vec::new();
            while !until.load(Ordering::Relaxed) {
                let text = std::fs::read_to_string(&path).unwrap_or_default();
                if let Some((rx_bytes, tx_bytes)) = counters(&text, &device) {
                    samples.push(Sample {
                        at: Instant::now(),
                        rx_bytes,
                        tx_bytes,
                    });
                }
                std::thread::sleep(STEP);
            }
            samples
        });
        Self { stop, thread }
    }

    /// Stops recording.
    ///
    /// # Panics
    /// When the interface never was there.
    #[must_use]
    pub fn finish(self) -> Record {
        self.stop.store(true, Ordering::Relaxed);
        let samples = self.thread.join().expect("the recording thread");
        assert!(!samples.is_empty(), "no such interface");
        Record { samples }
    }
}

/// Received and sent bytes of a device in the text of /proc/net/dev.
fn counters(text: &str, device: &str) -> Option<(u64, u64)> {
    let line = text
        .lines()
        .find_map(|line| line.trim_start().strip_prefix(device)?.strip_prefix(':'))?;
    let mut fields = line.split_whitespace();
    let rx = fields.next()?.parse().ok()?;
    let tx = fields.nth(7)?.parse().ok()?;
    Some((rx, tx))
}

impl Record {
    /// Longest time between `from` and `to` in which nothing was received. Time in which the
    /// interface was away counts as well.
    #[must_use]
    pub fn longest_silence(&self, from: Instant, to: Instant) -> Duration {
        let mut longest = Duration::ZERO;
        let (mut since, mut bytes) = (from, None);
        for sample in self.between(from, to) {
            if bytes != Some(sample.rx_bytes) {
                longest = longest.max(sample.at - since);
                since = sample.at;
                bytes = Some(sample.rx_bytes);
            }
        }
        longest.max(to.saturating_duration_since(since))
    }

    /// Longest time between `from` and `to` in which no `step` brought at least so many bytes.
    #[must_use]
    pub fn longest_lull(
        &self,
        from: Instant,
        to: Instant,
        step: Duration,
        least_bytes: u64,
    ) -> Duration {
        let (mut longest, mut since) = (Duration::ZERO, from);
        let (mut began, mut bytes) = (from, None);
        for sample in self.between(from, to) {
            let before = *bytes.get_or_insert(sample.rx_bytes);
            if sample.rx_bytes.saturating_sub(before) >= least_bytes {
                longest = longest.max(sample.at - since);
                since = sample.at;
            } else if sample.at - began < step {
                continue;
            }
            (began, bytes) = (sample.at, Some(sample.rx_bytes));
        }
        longest.max(to.saturating_duration_since(since))
    }

    /// Mean Mbit/s received between `from` and `to`, whole packets counted.
    #[must_use]
    pub fn rx_mbps(&self, from: Instant, to: Instant) -> f64 {
        self.mbps(from, to, |sample| sample.rx_bytes)
    }

    /// Mean Mbit/s sent between `from` and `to`, whole packets counted.
    #[must_use]
    pub fn tx_mbps(&self, from: Instant, to: Instant) -> f64 {
        self.mbps(from, to, |sample| sample.tx_bytes)
    }

    /// First moment after `from` at which `window` brings at least `mbps`, `None` when never.
    #[must_use]
    pub fn first_reaching(&self, from: Instant, window: Duration, mbps: f64) -> Option<Instant> {
        self.samples
            .iter()
            .map(|sample| sample.at)
            .filter(|at| *at >= from)
            .find(|at| self.rx_mbps(*at, *at + window) >= mbps)
    }

    /// End of the last `window` between `from` and `to` in which at least `mbps` was sent; `from`
    /// when there is none.
    #[must_use]
    pub fn last_sending(&self, from: Instant, to: Instant, window: Duration, mbps: f64) -> Instant {
        let ends: Vec<_> = self.between(from, to).map(|sample| sample.at).collect();
        ends.into_iter()
            .rev()
            .find(|end| *end >= from + window && self.tx_mbps(*end - window, *end) >= mbps)
            .map_or(from, |end| end - window)
    }

    fn between(&self, from: Instant, to: Instant) -> impl Iterator<Item = &Sample> {
        self.samples
            .iter()
            .filter(move |sample| sample.at >= from && sample.at <= to)
    }

    fn mbps(&self, from: Instant, to: Instant, bytes: impl Fn(&Sample) -> u64) -> f64 {
        let (first, last) = (self.between(from, to).next(), self.between(from, to).last());
        let (Some(first), Some(last)) = (first, last) else {
            return 0.0;
        };
        let seconds = (last.at - first.at).as_secs_f64();
        if seconds <= 0.0 {
            return 0.0;
        }
        // An interface that was made anew counts from zero again.
        bytes(last).saturating_sub(bytes(first)) as f64 * 8.0 / seconds / 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lull_is_a_lull_though_pings_go_on() {
        let from = Instant::now();
        let at = |ms: u64| from + Duration::from_millis(ms);
        let mut rx_bytes = 0;
        let samples = (0..=100).map(|number| {
            // A flow but for 100 ms, and a ping every 10 ms.
            rx_bytes += if (20..40).contains(&number) { 42 } else { 5000 };
            Sample {
                at: at(5 * number),
                rx_bytes,
                tx_bytes: 0,
            }
        });
        let record = Record {
            samples: samples.collect(),
        };
        let step = Duration::from_millis(10);
        let lull = record.longest_lull(from, at(500), step, 1000);
        assert_eq!(lull, Duration::from_millis(105));
        assert!(record.longest_silence(from, at(500)) < step);
    }

    #[test]
    fn reads_the_kernels_table() {
        let text = "Inter-|   Receive                                                |  Transmit\n\
            \u{20}face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets\n\
            \u{20}   lo:      10       1    0    0    0     0          0         0       20       1\n\
            \u{20} mpt0: 4235    12    0    0    0     0          0         0   987654 9 0 0 0 0 0 0\n";
        assert_eq!(counters(text, "mpt0"), Some((4235, 987_654)));
        assert_eq!(counters(text, "mpt"), None);
    }
}

//! A stream of UDP datagrams at a constant rate, and how long each took.
//!
//! Voice, games and remote shells send small packets at a steady pace and ask for delay, not for
//! rate. Each datagram carries its number and the time it was sent; both ends run in this process and
//! read the same clock, so that what is measured is the one-way delay.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::namespace::Namespace;

/// How long after the last datagram was sent the receiver still waits for late ones.
const TAIL: Duration = Duration::from_secs(2);

/// A stream in the making.
#[derive(Debug, Clone, Copy)]
pub struct Stream {
    /// Where it goes.
    pub to: SocketAddr,
    /// Datagrams a second.
    pub pace: u32,
    /// Bytes of each, at least 16.
    pub payload: usize,
    /// How long it goes on.
    pub time: Duration,
}

/// A stream under way.
#[derive(Debug)]
pub struct Running {
    time: Duration,
    sender: JoinHandle<u64>,
    receiver: JoinHandle<Vec<Arrival>>,
    done: Arc<AtomicBool>,
}

/// A datagram that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Its number; the first sent is 0.
    pub number: u64,
    /// When it was sent, from the beginning of the stream.
    pub sent: Duration,
    /// When it arrived, from the beginning of the stream.
    pub arrived: Duration,
}

impl Arrival {
    /// How long it took.
    #[must_use]
    pub fn delay(&self) -> Duration {
        self.arrived.saturating_sub(self.sent)
    }
}

/// What came of a stream.
#[derive(Debug, Clone)]
pub struct Record {
    /// How long the stream went on.
    pub time: Duration,
    /// Datagrams sent.
    pub sent: u64,
    /// Those that arrived, in the order of their arrival.
    pub arrivals: Vec<Arrival>,
}

impl Stream {
    /// Fifty datagrams of 172 bytes a second, as a telephone sends.
    ///
    /// # Panics
    /// When `to` is no IPv4 or IPv6 address.
    #[must_use]
    pub fn voice(to: &str, port: u16, time: Duration) -> Self {
        let to = SocketAddr::new(to.parse().expect("an address"), port);
        Self {
            to,
            pace: 50,
            payload: 172,
            time,
        }
    }

    /// Starts it between two hosts.
    ///
    /// # Panics
    /// When the port is taken.
    #[must_use]
    pub fn start(self, from: &Namespace, to: &Namespace) -> Running {
        let any = |port: u16| -> SocketAddr {
            if self.to.is_ipv4() {
                ([0, 0, 0, 0], port).into()
            } else {
                ([0u16; 8], port).into()
            }
        };
        // Of all addresses: a translator's is none of its own.
        let receiving = to
            .inside(|| UdpSocket::bind(any(self.to.port())))
            .expect("the port");
        receiving
            .set_read_timeout(Some(Duration::from_millis(50)))
            .expect("a timeout");
        let sending = from.inside(|| UdpSocket::bind(any(0))).expect("a port");
        let done = Arc::new(AtomicBool::new(false));
        let (start, over) = (Instant::now(), Arc::clone(&done));
        let receiver = std::thread::spawn(move || receive(&receiving, start, &over));
        let sender = std::thread::spawn(move || self.send(&sending, start));
        Running {
            time: self.time,
            sender,
            receiver,
            done,
        }
    }

    fn send(self, socket: &UdpSocket, start: Instant) -> u64 {
        let mut datagram = vec![0u8; self.payload.max(16)];
        let count = (f64::from(self.pace) * self.time.as_secs_f64()) as u64;
        for number in 0..count {
            let due = Duration::from_secs_f64(number as f64 / f64::from(self.pace));
            if let Some(wait) = due.checked_sub(start.elapsed()) {
                std::thread::sleep(wait);
            }
            datagram[..8].copy_from_slice(&number.to_be_bytes());
            let now = start.elapsed().as_nanos() as u64;
            datagram[8..16].copy_from_slice(&now.to_be_bytes());
            // What the kernel does not take is lost like what the link does not.
            let _ = socket.send_to(&datagram, self.to);
        }
        count
    }
}

fn receive(socket: &UdpSocket, start: Instant, done: &AtomicBool) -> Vec<Arrival> {
    let mut arrivals = Vec::new();
    let mut buffer = [0u8; 2048];
    while !done.load(Ordering::Relaxed) {
        let Ok(len) = socket.recv(&mut buffer) else {
            continue;
        };
        let arrived = start.elapsed();
        let field = |at: usize| buffer[at..at + 8].try_into().map(u64::from_be_bytes).ok();
        if len >= 16
            && let (Some(number), Some(sent)) = (field(0), field(8))
        {
            arrivals.push(Arrival {
                number,
                sent: Duration::from_nanos(sent),
                arrived,
            });
        }
    }
    arrivals
}

impl Running {
    /// Waits for its end.
    ///
    /// # Panics
    /// When one of its threads did.
    #[must_use]
    pub fn finish(self) -> Record {
        let sent = self.sender.join().expect("the sending thread");
        std::thread::sleep(TAIL);
        self.done.store(true, Ordering::Relaxed);
        let arrivals = self.receiver.join().expect("the receiving thread");
        Record {
            time: self.time,
            sent,
            arrivals,
        }
    }
}

impl Record {
    /// Datagrams that never arrived.
    #[must_use]
    pub fn lost(&self) -> u64 {
        let mut numbers: Vec<u64> = self.arrivals.iter().map(|one| one.number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        self.sent.saturating_sub(numbers.len() as u64)
    }

    /// The longest time without an arrival, from the stream's beginning to its end.
    #[must_use]
    pub fn longest_silence(&self) -> Duration {
        let mut times: Vec<Duration> = self.arrivals.iter().map(|one| one.arrived).collect();
        times.extend([Duration::ZERO, self.time]);
        times.sort_unstable();
        let silences = times.windows(2).map(|pair| pair[1] - pair[0]);
        silences.max().unwrap_or_default()
    }

    /// Delays in milliseconds of the datagrams sent from `since` on.
    #[must_use]
    pub fn delays_ms(&self, since: Duration) -> Vec<f64> {
        self.arrivals
            .iter()
            .filter(|one| one.sent >= since)
            .map(|one| one.delay().as_secs_f64() * 1e3)
            .collect()
    }

    /// For each run of datagrams that never arrived: how long after the first of them was sent the
    /// next one arrived, in milliseconds.
    #[must_use]
    pub fn releases_ms(&self) -> Vec<f64> {
        let mut in_order = self.arrivals.clone();
        in_order.sort_unstable_by_key(|one| (one.number, one.arrived));
        let pairs = in_order.iter().zip(in_order.iter().skip(1));
        pairs
            .filter(|(before, after)| after.number > before.number + 1)
            .map(|(before, after)| {
                // Sent at a constant pace.
                let runs = (after.number - before.number) as u32;
                let lost = before.sent + after.sent.saturating_sub(before.sent) / runs;
                after.arrived.saturating_sub(lost).as_secs_f64() * 1e3
            })
            .collect()
    }

    /// Delays in milliseconds of the datagrams that took longer than `usual` though the one before
    /// them did not: each is the head of what waited for it, and came again.
    #[must_use]
    pub fn heads_ms(&self, usual: Duration) -> Vec<f64> {
        let mut in_order = self.arrivals.clone();
        in_order.sort_unstable_by_key(|one| (one.number, one.arrived));
        let pairs = in_order.iter().zip(in_order.iter().skip(1));
        pairs
            .filter(|(before, after)| before.delay() <= usual && after.delay() > usual)
            .map(|(_, after)| after.delay().as_secs_f64() * 1e3)
            .collect()
    }
}

/// The value below which this share of the values lies; NaN without any.
#[must_use]
pub fn percentile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted
        .get(rank.saturating_sub(1))
        .copied()
        .unwrap_or(f64::NAN)
}

/// The value in the middle, or the mean of the two there; NaN without any.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(arrivals: &[(u64, u64)]) -> Record {
        let arrivals = arrivals.iter().map(|(number, arrived)| Arrival {
            number: *number,
            sent: Duration::from_millis(number * 10),
            arrived: Duration::from_millis(*arrived),
        });
        Record {
            time: Duration::from_millis(60),
            sent: 6,
            arrivals: arrivals.collect(),
        }
    }

    #[test]
    fn a_release_is_counted_from_what_was_lost() {
        let record = record(&[(0, 20), (2, 70), (3, 70), (5, 71)]);
        assert_eq!(record.lost(), 2);
        // Number 1 would have been sent at 10 ms and number 4 at 40.
        assert_eq!(record.releases_ms(), [60.0, 31.0]);
    }

    #[test]
    fn the_head_of_a_delay_is_what_came_again() {
        let record = record(&[(0, 20), (1, 80), (2, 80), (3, 80), (4, 60), (5, 70)]);
        assert_eq!(record.heads_ms(Duration::from_millis(25)), [70.0]);
    }

    #[test]
    fn silence_lasts_from_the_beginning_to_the_end() {
        let silence = |arrivals| record(arrivals).longest_silence().as_millis();
        assert_eq!(silence(&[(0, 20), (2, 50)]), 30, "between two");
        assert_eq!(silence(&[(3, 40), (4, 41)]), 40, "before the first");
        assert_eq!(silence(&[(0, 10), (1, 20)]), 40, "after the last");
        assert_eq!(silence(&[]), 60);
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let values = [5.0, 1.0, 4.0, 2.0, 3.0];
        assert_eq!(percentile(&values, 0.5), 3.0);
        assert_eq!(percentile(&values, 0.99), 5.0);
        assert!(percentile(&[], 0.5).is_nan());
    }
}

//! A ping every 10 ms that goes on while things break, with the time of every answer.
//!
//! Ping itself prints a summary, ends when its socket does, and knows no event in the middle. These are
//! UDP datagrams to an echo at the far end, by threads of the test. Sockets are bound to no address: what
//! happens to the tunnel's interface does not end them.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::namespace::Namespace;

/// Time between two pings.
pub const INTERVAL: Duration = Duration::from_millis(10);
/// The port of the echo: RFC 862's, where nothing else listens.
const PORT: u16 = 7;
/// Bytes of a ping's payload: as ping(8) sends.
const PAYLOAD: usize = 56;

/// Pings under way.
#[derive(Debug)]
pub struct Echo {
    record: Arc<Record>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Record {
    over: AtomicBool,
    /// When each ping was sent and answered first.
    pings: Mutex<Vec<(Instant, Option<Instant>)>>,
}

/// What pings saw in a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Pings sent.
    pub sent: u64,
    /// Of these, never answered.
    pub lost: u64,
    /// Longest time without an answer, less the interval at which they come anyway.
    pub stall: Duration,
}

impl Echo {
    /// Starts to ping `target`, an IPv4 address of host `to`, from host `from`.
    ///
    /// # Panics
    /// When `target` is no address, or sockets cannot be made.
    #[must_use]
    pub fn start(from: &Namespace, to: &Namespace, target: &str) -> Self {
        let target = SocketAddr::new(target.parse().expect("an address"), PORT);
        let open = |host: &Namespace, port: u16| {
            let socket = host.inside(|| UdpSocket::bind(("0.0.0.0", port)).expect("a UDP port"));
            let patience = Some(Duration::from_millis(50));
            socket.set_read_timeout(patience).expect("a timeout");
            Arc::new(socket)
        };
        let (near, far) = (open(from, 0), open(to, PORT));
        let record = Arc::new(Record::default());
        let [sending, hearing, echoing] = [(); 3].map(|()| Arc::clone(&record));
        let source = Arc::clone(&near);
        let threads = vec![
            std::thread::spawn(move || echoing.echo(&far)),
            std::thread::spawn(move || hearing.hear(&near)),
            std::thread::spawn(move || sending.send(&source, target)),
        ];
        Self { record, threads }
    }

    /// How long ago the last answer came, or the pinging began.
    #[must_use]
    pub fn silence(&self) -> Duration {
        self.ears().silence()
    }

    /// Something that knows how long it has been silent, for another thread.
    #[must_use]
    pub fn ears(&self) -> Ears {
        Ears(Arc::clone(&self.record))
    }

    /// Waits until every ping sent in a time of `calm` was answered, those under way apart, for at most `limit`; whether it was so.
    pub fn await_answers(&self, calm: Duration, limit: Duration) -> bool {
        let start = Instant::now();
        while start.elapsed() < limit {
            if self.is_answered(calm) {
                return true;
            }
            std::thread::sleep(INTERVAL);
        }
        false
    }

    /// How old a ping must be to count as not answered: longer than any round trip of a test.
    #[must_use]
    pub fn under_way() -> Duration {
        Duration::from_millis(if crate::in_lab() { 700 } else { 100 })
    }

    fn is_answered(&self, calm: Duration) -> bool {
        let now = Instant::now();
        let under_way = Self::under_way();
        let recent = |sent: &Instant| {
            let age = now.saturating_duration_since(*sent);
            age >= under_way && age <= under_way + calm
        };
        let pings = self.record.lock();
        let mut recent = pings
            .iter()
            .rev()
            .take(4096)
            .filter(|(sent, _)| recent(sent))
            .peekable();
        recent.peek().is_some() && recent.all(|(_, back)| back.is_some())
    }

    /// What pings sent between two moments saw.
    #[must_use]
    pub fn seen(&self, from: Instant, to: Instant) -> Seen {
        let pings = self.record.lock();
        let sent: Vec<_> = pings
            .iter()
            .filter(|(sent, _)| (from..=to).contains(sent))
            .collect();
        let lost = sent.iter().filter(|(_, back)| back.is_none()).count();
        let mut answers: Vec<Instant> = (pings.iter())
            .filter_map(|(_, back)| *back)
            .filter(|back| (from..=to).contains(back))
            .collect();
        answers.sort_unstable();
        let ends = std::iter::once(from).chain(answers.iter().copied());
        let starts = answers.iter().copied().chain(std::iter::once(to));
        let longest = ends.zip(starts).map(|(end, start)| start - end).max();
        Seen {
            sent: sent.len() as u64,
            lost: lost as u64,
            stall: longest.unwrap_or_default().saturating_sub(INTERVAL),
        }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.record.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Hears the answers of an [`Echo`].
#[derive(Debug, Clone)]
pub struct Ears(Arc<Record>);

impl Ears {
    /// How long ago the last answer came, or the pinging began; zero before.
    #[must_use]
    pub fn silence(&self) -> Duration {
        let pings = self.0.lock();
        let Some((began, _)) = pings.first() else {
            return Duration::ZERO;
        };
        let last = pings.iter().rev().find_map(|(_, back)| *back);
        last.unwrap_or(*began).elapsed()
    }
}

impl Record {
    fn lock(&self) -> MutexGuard<'_, Vec<(Instant, Option<Instant>)>> {
        self.pings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn send(&self, socket: &UdpSocket, target: SocketAddr) {
        let start = Instant::now();
        for number in 0u32.. {
            if self.is_over() {
                return;
            }
            let mut ping = [0; PAYLOAD];
            ping[..4].copy_from_slice(&number.to_be_bytes());
            self.lock().push((Instant::now(), None));
            // What the kernel does not take is lost like what the tunnel does not deliver.
            let _ = socket.send_to(&ping, target);
            let due = INTERVAL * (number + 1);
            std::thread::sleep(due.saturating_sub(start.elapsed()));
        }
    }

    fn hear(&self, socket: &UdpSocket) {
        let mut answer = [0; 2 * PAYLOAD];
        while !self.is_over() {
            let Ok(PAYLOAD) = socket.recv(&mut answer) else {
                continue;
            };
            let [a, b, c, d, ..] = answer;
            let number = u32::from_be_bytes([a, b, c, d]) as usize;
            if let Some((_, back)) = self.lock().get_mut(number) {
                back.get_or_insert_with(Instant::now);
            }
        }
    }

    fn echo(&self, socket: &UdpSocket) {
        let mut ping = [0; 2 * PAYLOAD];
        while !self.is_over() {
            if let Ok((length, from)) = socket.recv_from(&mut ping) {
                let _ = socket.send_to(&ping[..length], from);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_is_the_longest_time_without_an_answer() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let pings = vec![
            (at(0), Some(at(1))),
            (at(10), Some(at(71))),
            (at(20), None),
            (at(30), Some(at(72))),
        ];
        let record = Record {
            pings: Mutex::new(pings),
            ..Record::default()
        };
        let echo = Echo {
            record: Arc::new(record),
            threads: Vec::new(),
        };
        let seen = echo.seen(start, at(80));
        assert_eq!(
            (seen.sent, seen.lost, seen.stall),
            (4, 1, Duration::from_millis(60))
        );
        assert_eq!(echo.seen(at(72), at(172)).stall, Duration::from_millis(90));
    }
}

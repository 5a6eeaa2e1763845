//! The thread of the line out: TUN → core → UDP.
//!
//! It works in batches: when the TUN is readable it reads until the batch is full or the TUN is
//! empty, and then sends what the core made of it. Nothing waits for more to come.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use mpt_core::control::trace::Trace;
use mpt_core::path::{MAX_PATHS, PathConfig, PathId};
use mpt_core::send::classes::ClassConfig;
use mpt_core::send::scheduler::Policy;
use mpt_core::time::Time;
use mpt_core::tunnel::{News, Outbound, Transmit};
use mpt_core::wire::vnet::VnetHeader;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::clock::{self, Timer};
use crate::downlink;
use crate::hub::{Listed, PeerChanges, Shown};
use crate::tun::{self, Tun};
use crate::udp::{PathSocket, Sent};

/// Packets read from the TUN before what came of them is sent.
pub(crate) const BATCH: usize = 64;
/// The same in bytes: what is on its way should still be in the cache.
pub(crate) const BATCH_BYTES: usize = 256 * 1024;
/// Reports that stay away for this long while paths are up do not come; less may be a path that has just
/// failed.
const UNREPORTED_FOR: Duration = Duration::from_secs(15);
/// That is said so often at most.
const SAID_EVERY: Duration = Duration::from_secs(3600);

/// What the control thread tells this one.
pub(crate) enum Command {
    /// Add a path or change one; with a socket when it is a new one.
    SetPath(PathId, PathConfig, Option<Arc<PathSocket>>),
    /// Take a path away.
    RemovePath(PathId),
    /// Let go of a path's socket, and say when that is done.
    Close(PathId, oneshot::Sender<()>),
    /// Use another interface: the one before is gone.
    SetTun(Arc<Tun>),
    /// In a hub: write to this one, which another worker reads.
    ShareTun(Arc<Tun>),
    /// Number packets, or stop.
    SetNumbered(bool),
    /// Share packets in another way.
    SetPolicy(Policy),
    /// Send lost packets again, or stop.
    SetRecovery(bool),
    /// Use these classes.
    SetClasses(Vec<ClassConfig>),
    /// Paths cost this, each by its index.
    SetCosts([u32; MAX_PATHS]),
    /// Use another GRE key.
    SetKey(Option<u32>),
    /// Fill in this half of the status.
    Report(
        Box<downlink::Report>,
        oneshot::Sender<Box<downlink::Report>>,
    ),
    /// Fill in what was decided about a path, from this decision on.
    Trace(PathId, u64, oneshot::Sender<Trace>),
    /// In a hub: peers come and go.
    SetPeers(Arc<PeerChanges>),
    /// In a hub: fill in what this line knows of peers.
    ReportPeers(Vec<Listed>, oneshot::Sender<Vec<Listed>>),
    /// The same of one.
    ReportPeer(Shown, oneshot::Sender<Shown>),
}

/// Where the line out tells what it finds out.
pub(crate) struct Outlets {
    /// The tunnel's name.
    pub(crate) tunnel: String,
    /// To the line in: packets come again.
    pub(crate) carries: Arc<Notify>,
}

/// Runs until `commands` is closed. Without an interface it waits for one.
///
/// # Errors
/// When the TUN fails or cannot be watched, or there is no descriptor for the timer.
pub(crate) async fn run(
    outbound: Outbound,
    mut news: mpsc::Receiver<News>,
    mut commands: mpsc::Receiver<Command>,
    outlets: Outlets,
) -> io::Result<()> {
    let mut timer = Timer::new()?;
    let mut uplink = Uplink {
        outbound,
        sockets: Default::default(),
        tun: None,
        outlets,
        unreported: Unreported::default(),
    };
    let mut bytes = vec![0; tun::MAX_READ];
    loop {
        tokio::select! {
            biased;
            command = commands.recv() => match command {
                Some(Command::SetTun(tun)) => uplink.tun = Some(tun.register()?),
                Some(command) => uplink.obey(command),
                None => return Ok(()),
            },
            () = timer.elapsed() => {}
            Some(news) = news.recv() => uplink.outbound.learn(clock::now(), news),
            ready = readable(uplink.tun.as_ref()) => {
                ready?;
                uplink.take_batch(&mut bytes)?;
                // Readiness costs no budget, and without a pause the runtime looks at nothing else.
                tokio::task::consume_budget().await;
            }
        }
        uplink.handle_due();
        uplink.send();
        if uplink.outbound.poll_wake() {
            uplink.outlets.carries.notify_one();
        }
        uplink.tell_scheduler();
        timer.wake_by(uplink.outbound.poll_timeout());
    }
}

/// Waits for packets; without an interface, for ever.
pub(crate) async fn readable(tun: Option<&AsyncFd<Arc<Tun>>>) -> io::Result<()> {
    match tun {
        // Readiness is cleared by who finds the interface empty.
        Some(tun) => tun.readable().await.map(drop),
        None => std::future::pending().await,
    }
}

struct Uplink {
    outbound: Outbound,
    sockets: Sockets,
    tun: Option<AsyncFd<Arc<Tun>>>,
    outlets: Outlets,
    unreported: Unreported,
}

/// Whether the peer sends no reports, and what was said of that.
#[derive(Default)]
struct Unreported {
    since: Option<Time>,
    is_said: bool,
    said: Option<Time>,
}

pub(crate) type Sockets = [Option<Arc<PathSocket>>; MAX_PATHS];

/// Why no more packets are read for now.
enum Batch {
    /// There may be more.
    Full,
    /// There are none.
    Emptied,
    /// The interface was deleted.
    Gone,
}

impl Uplink {
    fn obey(&mut self, command: Command) {
        match command {
            Command::SetPath(id, config, socket) => {
                self.outbound.set_path(id, &config);
                if socket.is_some() {
                    self.sockets[id.index()] = socket;
                }
            }
            Command::RemovePath(id) => {
                self.outbound.remove_path(id);
                self.sockets[id.index()] = None;
            }
            Command::Close(id, done) => {
                self.sockets[id.index()] = None;
                let _ = done.send(());
            }
            Command::SetTun(_) | Command::ShareTun(_) => {}
            Command::SetNumbered(numbered) => self.outbound.set_numbered(numbered),
            Command::SetPolicy(policy) => self.outbound.set_policy(policy),
            Command::SetRecovery(recovery) => self.outbound.set_recovery(recovery),
            Command::SetKey(key) => self.outbound.set_key(key),
            Command::SetCosts(costs) => self.outbound.set_costs(costs),
            Command::SetClasses(classes) => self.outbound.set_classes(clock::now(), &classes),
            Command::Report(mut status, reply) => {
                self.outbound.report(&mut status.tunnel);
                status.classes = self.outbound.report_classes();
                for (id, path) in &mut status.paths {
                    self.outbound.report_path(*id, path);
                }
                // Whoever asked may have gone.
                let _ = reply.send(status);
            }
            Command::Trace(id, from, reply) => {
                let mut trace = Trace::default();
                self.outbound.trace(id, from, &mut trace);
                let _ = reply.send(trace);
            }
            // A tunnel of two ends has none.
            Command::SetPeers(_) | Command::ReportPeers(..) | Command::ReportPeer(..) => {}
        }
    }

    /// Takes what waits, up to a batch, and sends the trains that come full meanwhile.
    fn take_batch(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        let mut now = clock::now();
        self.tun = take_batch(self.tun.take(), bytes, |packet| {
            if self.take(now, packet) {
                // Else the time that sending takes would be a delay of the path for what comes next.
                now = clock::now();
            }
        })?;
        Ok(())
    }

    /// Returns whether anything was sent.
    fn take(&mut self, now: Time, packet: Offered<'_>) -> bool {
        let Some((header, packet)) = packet else {
            self.outbound.refuse_offload();
            return false;
        };
        self.outbound.handle_tun(now, &header, packet);
        let mut has_sent = false;
        while let Some(train) = self.outbound.poll_ready() {
            let outcome = Outcome::of(&train, &self.sockets);
            outcome.report(&mut self.outbound);
            has_sent = true;
        }
        has_sent
    }

    /// Does what is due by the clock: the timer is not seen while the interface has packets.
    fn handle_due(&mut self) {
        let now = clock::now();
        if self.outbound.poll_timeout().is_some_and(|at| at <= now) {
            self.outbound.handle_timeout(now);
        }
    }

    /// Says when weights begin or cease to stand in for the peer's reports.
    fn tell_scheduler(&mut self) {
        // While no path works nothing is reported, and that is not what is wrong.
        let is_unreported = self.outbound.is_unreported() && self.outbound.has_paths();
        if let Some(text) = self.unreported.note(clock::now, is_unreported) {
            tracing::info!("tunnel {}: {text}", self.outlets.tunnel);
        }
    }

    /// Sends everything that the core has.
    fn send(&mut self) {
        while let Some(train) = self.outbound.poll_transmit() {
            let outcome = Outcome::of(&train, &self.sockets);
            outcome.report(&mut self.outbound);
        }
        while let Some(message) = self.outbound.poll_tun() {
            write_icmp(self.tun.as_ref().map(|tun| &**tun.get_ref()), message);
        }
    }
}

/// A packet that was read from the interface; none where its header makes no sense, or the kernel finds none for it.
pub(crate) type Offered<'a> = Option<(VnetHeader, &'a mut [u8])>;

/// Hands the packets that wait to `take`, up to a batch. Lets go of the interface when it was deleted.
pub(crate) fn take_batch(
    tun: Option<AsyncFd<Arc<Tun>>>,
    bytes: &mut [u8],
    mut take: impl FnMut(Offered<'_>),
) -> io::Result<Option<AsyncFd<Arc<Tun>>>> {
    let Some(tun) = tun else {
        return Ok(None);
    };
    let has_header = tun.get_ref().has_header();
    let recv = |bytes: &mut [u8]| tun.get_ref().recv(bytes);
    let batch = read_batch(recv, bytes, |bytes| {
        let Some(bytes) = bytes else {
            return take(None);
        };
        let (header, start) = match has_header.then(|| VnetHeader::parse(bytes)) {
            None => (VnetHeader::default(), 0),
            Some(Ok((header, packet))) => (header, bytes.len() - packet.len()),
            Some(Err(_)) => return take(None),
        };
        take(Some((header, &mut bytes[start..])));
    })?;
    match batch {
        Batch::Full => {}
        Batch::Emptied => {
            // Ready by now: this only takes the mark away.
            if let Some(ready) = tun.readable().now_or_never() {
                ready?.clear_ready();
            }
        }
        Batch::Gone => return Ok(None),
    }
    Ok(Some(tun))
}

/// An ICMP message that the host does not take is lost, as any may be.
pub(crate) fn write_icmp(tun: Option<&Tun>, message: &[u8]) {
    if let Some(tun) = tun {
        let _ = tun.send(&VnetHeader::default(), message);
    }
}

/// Hands what waits to `take`, up to a batch, and says why it ends.
fn read_batch(
    recv: impl Fn(&mut [u8]) -> io::Result<usize>,
    bytes: &mut [u8],
    mut take: impl FnMut(Option<&mut [u8]>),
) -> io::Result<Batch> {
    let (mut taken, mut unread) = (0, 0);
    for _ in 0..BATCH {
        match recv(bytes) {
            Ok(len) => {
                take(Some(&mut bytes[..len]));
                taken += len;
            }
            // A packet of a kind that was not asked for, which is gone. Where a whole batch is of that kind all will be.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) && unread + 1 < BATCH => {
                take(None);
                unread += 1;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Ok(Batch::Emptied);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // The interface is down; its packets are the kernel's to drop.
            Err(error) if error.raw_os_error() == Some(libc::EIO) => return Ok(Batch::Emptied),
            Err(error) if tun::is_gone(&error) => return Ok(Batch::Gone),
            Err(error) => return Err(error),
        }
        if taken >= BATCH_BYTES {
            break;
        }
    }
    Ok(Batch::Full)
}

impl Unreported {
    /// What is to be said now, if anything is.
    fn note(&mut self, clock: impl Fn() -> Time, is_unreported: bool) -> Option<&'static str> {
        if !is_unreported {
            self.since = None;
            return std::mem::take(&mut self.is_said).then_some(
                "the peer's reports are back: packets are shared by what the paths deliver",
            );
        }
        if self.is_said {
            return None;
        }
        let now = clock();
        let since = *self.since.get_or_insert(now);
        let is_repeated = self.said.is_some_and(|said| now.since(said) < SAID_EVERY);
        if now.since(since) < UNREPORTED_FOR || is_repeated {
            return None;
        }
        (self.is_said, self.said) = (true, Some(now));
        Some("the peer sends no reports on what arrives: packets are shared by the paths' weights")
    }
}

/// What became of a train.
pub(crate) struct Outcome {
    path: PathId,
    segment_size: usize,
    sent: Sent,
}

impl Outcome {
    /// Sends the train and tells.
    pub(crate) fn of(train: &Transmit<'_>, sockets: &Sockets) -> Outcome {
        let sent = match &sockets[train.socket.index()] {
            Some(socket) => {
                socket.send_train(train.to, train.tos, train.contents, train.segment_size)
            }
            None => Sent {
                failed: train.datagrams,
                ..Sent::default()
            },
        };
        Outcome {
            path: train.path,
            segment_size: train.segment_size,
            sent,
        }
    }

    /// Counts what was not sent.
    pub(crate) fn report(self, outbound: &mut Outbound) {
        for (datagrams, why) in self.sent.lost() {
            outbound.not_sent(self.path, datagrams, datagrams * self.segment_size, why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_without_a_header_is_counted_and_a_batch_of_them_ends_the_line() {
        let error = |errno| Err(io::Error::from_raw_os_error(errno));
        let read = |invalid: usize| {
            let (reads, mut taken) = (std::cell::Cell::new(0), Vec::new());
            let recv = |_: &mut [u8]| match reads.replace(reads.get() + 1) {
                read if read < invalid => error(libc::EINVAL),
                read if read == invalid => Ok(20),
                _ => error(libc::EAGAIN),
            };
            let batch = read_batch(recv, &mut [0; 100], |packet| {
                taken.push(packet.map(|packet| packet.len()));
            });
            (batch, taken)
        };
        let (batch, taken) = read(2);
        assert!(matches!(batch, Ok(Batch::Emptied)));
        assert_eq!(taken, [None, None, Some(20)]);
        let (batch, taken) = read(BATCH);
        assert!(batch.is_err_and(|error| error.raw_os_error() == Some(libc::EINVAL)));
        assert_eq!(taken.len(), BATCH - 1);
    }

    #[test]
    fn reports_that_stay_away_for_a_moment_are_no_line_and_for_an_hour_are_two() {
        let mut unreported = Unreported::default();
        let mut said = Vec::new();
        for second in 0..3600u64 {
            let now = || Time::from_nanos(second * 1_000_000_000);
            // Away for 10 s now and then, and twice for 20 s.
            let is_away = second % 100 < 10 || matches!(second % 1500, 1000..=1020);
            said.extend(unreported.note(now, is_away));
        }
        assert_eq!(said.len(), 2, "{said:?}");
    }
}

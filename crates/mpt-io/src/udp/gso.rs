//! Trains out whole: one `sendmsg` with `UDP_SEGMENT` (Linux 4.18).
//!
//! The kernel takes the train as one packet through its stack, the queueing discipline included, and
//! cuts it as late as it can, in the network card where that can do it. So a train has one fate: the
//! queueing discipline drops all of it or nothing (`ENOBUFS`).
//!
//! It may also be refused, though each of its datagrams would pass: by a kernel that leaves
//! checksums to the device, where the device has none (`EIO`, up to Linux 6.10), on a route with
//! IPsec (`EIO`), by a socket that sends no checksums (`EINVAL`). That depends on the route of the
//! moment and may change. So a refused train goes datagram by datagram and nothing is lost; if they
//! pass, the socket goes on like that for [`SHORTEST_PAUSE`], and tries whole trains again then. Each
//! time that they are refused again, the pause is twice as long, up to [`LONGEST_PAUSE`].
//!
//! `EMSGSIZE` has two meanings: that, too, or that a datagram exceeds the interface's MTU. The
//! datagrams tell: each of them is too big then, the error queue gets to know the MTU (which it does
//! not from a train), and trains are not to blame.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use mpt_core::send::train::MAX_DATAGRAMS;
use mpt_core::time::Time;

use super::option::set_option;
use super::send::{Envelope, Sent};
use super::socket::PathSocket;
use crate::clock;

/// Most bytes of a train. UDP would allow 65,507, but a packet of 64 KiB or more with all its headers
/// is more than devices take whole (`gso_max_size`): the processor cuts it before, which costs nine
/// times as much as to send it, and again what it costs to receive the pieces. Taken off here: IPv6,
/// UDP, Ethernet and two VLAN tags.
const MAX_WHOLE: usize = 65_535 - (40 + 8 + 14 + 2 * 4);

/// How long datagrams go one by one after trains were refused for the first time.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
/// And how long at most. Trains that pass for as long make it the first time again.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Whether the kernel knows whole trains. One that does not would send a train as one datagram.
pub(super) fn is_known(socket: BorrowedFd<'_>) -> bool {
    set_option(socket, libc::SOL_UDP, libc::UDP_SEGMENT, 0).is_ok()
}

impl PathSocket {
    /// Sends `contents` as whole trains as long as they are not refused, the rest one by one.
    pub(super) fn send_whole(
        &self,
        envelope: &Envelope,
        contents: &[u8],
        segment_size: usize,
    ) -> Sent {
        let mut sent = Sent::default();
        let mut rest = contents;
        while !rest.is_empty() {
            let (train, later) = rest.split_at(train_len(rest.len(), segment_size));
            rest = later;
            if sent.would_block > 0 {
                sent.would_block += train.len().div_ceil(segment_size);
            } else if train.len() > segment_size && self.segmentation.is_on(clock::now) {
                self.send_one_train(envelope, train, segment_size, &mut sent);
            } else {
                self.send_each(envelope, train, segment_size, &mut sent);
            }
        }
        sent
    }

    fn send_one_train(
        &self,
        envelope: &Envelope,
        train: &[u8],
        segment_size: usize,
        sent: &mut Sent,
    ) {
        let datagrams = train.len().div_ceil(segment_size);
        let mut result = self.send_segmented(envelope, train);
        if matches!(&result, Err(error) if may_be_another_s(error)) {
            result = self.send_segmented(envelope, train);
        }
        let error = match result {
            Ok(()) => {
                sent.datagrams += datagrams;
                if self.segmentation.passed() {
                    tracing::info!(
                        "{}: trains of datagrams pass whole again",
                        self.local_addr()
                    );
                }
                return;
            }
            Err(error) => error,
        };
        match error.raw_os_error() {
            Some(libc::EAGAIN) => sent.would_block += datagrams,
            Some(libc::ENOBUFS) => sent.queue_full += datagrams,
            Some(libc::EMSGSIZE | libc::EINVAL | libc::EIO | libc::EOPNOTSUPP) => {
                let mut each = Sent::default();
                self.send_each(envelope, train, segment_size, &mut each);
                if each.datagrams > 0 && each.too_big == 0 {
                    self.refused(&error);
                }
                sent.add(each);
                return;
            }
            _ => sent.failed += datagrams,
        }
        sent.error = Some(error);
    }

    /// Notes that the datagrams of a train passed one by one, but not as a train.
    fn refused(&self, error: &io::Error) {
        let (local, pause) = (self.local_addr(), self.segmentation.refused(clock::now()));
        if pause == SHORTEST_PAUSE {
            tracing::info!(
                "{local}: trains of datagrams do not pass whole ({error}), datagrams go one by \
                 one until they do"
            );
        } else {
            tracing::debug!("{local}: no whole trains for another {pause:?}: {error}");
        }
    }

    /// Hands a train to the kernel whole.
    fn send_segmented(&self, envelope: &Envelope, train: &[u8]) -> io::Result<()> {
        offer(envelope, train, |header| {
            // SAFETY: the header points at the train, an address and ancillary data that live through
            // the call, each with its true length (see `offer`); the kernel only reads them.
            let result = unsafe {
                libc::sendmsg(
                    self.as_raw_fd(),
                    header,
                    libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
                )
            };
            if result < 0 {
                Err(io::Error::last_os_error())
            } else {
                Ok(())
            }
        })
    }
}

/// Has `send` take a train through a header that points at it. All pointers are made here, so that Miri can watch
/// them (`tests/miri`), with somebody in the kernel's place.
fn offer<T>(envelope: &Envelope, train: &[u8], send: impl FnOnce(&libc::msghdr) -> T) -> T {
    let mut part = libc::iovec {
        iov_base: train.as_ptr().cast_mut().cast(),
        iov_len: train.len(),
    };
    let mut header = super::EMPTY_MSGHDR;
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    envelope.address_train(&mut header);
    send(&header)
}

/// How many of `len` bytes go as one train. Never 0.
fn train_len(len: usize, segment_size: usize) -> usize {
    if len <= MAX_WHOLE.min(MAX_DATAGRAMS * segment_size) {
        return len;
    }
    let datagrams = (MAX_WHOLE / segment_size).clamp(1, MAX_DATAGRAMS);
    len.min(datagrams * segment_size)
}

/// A pending ICMP error, which fails the next send, may have any number but these.
fn may_be_another_s(error: &io::Error) -> bool {
    !matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOBUFS))
}

/// Whether a socket sends whole trains at the moment. Both lines may send on it; what they read
/// here of each other is a hint, so no order between the fields is needed.
#[derive(Debug)]
pub(super) struct Segmentation {
    /// The moment in ns from when on whole trains are tried; never if this is [`u64::MAX`].
    resume_at: AtomicU64,
    /// The last pause in ns; 0 if there was none.
    pause: AtomicU64,
    /// There was a pause, and no train has passed since.
    on_trial: AtomicBool,
}

impl Segmentation {
    /// On, or off for good.
    pub(super) fn new(on: bool) -> Segmentation {
        Segmentation {
            resume_at: AtomicU64::new(if on { 0 } else { u64::MAX }),
            pause: AtomicU64::new(0),
            on_trial: AtomicBool::new(false),
        }
    }

    /// Whether there are whole trains at all, be it after a pause.
    pub(super) fn is_possible(&self) -> bool {
        self.resume_at.load(Relaxed) != u64::MAX
    }

    /// Whether a train is to be tried. The clock is not read before the first pause.
    fn is_on(&self, now: impl FnOnce() -> Time) -> bool {
        match self.resume_at.load(Relaxed) {
            0 => true,
            u64::MAX => false,
            at => at <= now().as_nanos(),
        }
    }

    /// A train has passed. Returns whether that is news.
    fn passed(&self) -> bool {
        self.on_trial.load(Relaxed) && self.on_trial.swap(false, Relaxed)
    }

    /// A train was refused whose datagrams passed. Returns how long the pause is.
    fn refused(&self, now: Time) -> Duration {
        let resumed = Time::from_nanos(self.resume_at.load(Relaxed));
        let last = Duration::from_nanos(self.pause.load(Relaxed));
        let pause = if now.since(resumed) >= LONGEST_PAUSE {
            SHORTEST_PAUSE
        } else {
            (2 * last).clamp(SHORTEST_PAUSE, LONGEST_PAUSE)
        };
        let ns = u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX);
        self.pause.store(ns, Relaxed);
        self.on_trial.store(true, Relaxed);
        self.resume_at.store((now + pause).as_nanos(), Relaxed);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{loopback_pair_with, loopbacks, recv_exactly};
    use super::*;
    use crate::Offload;
    use net::unit::in_network_namespace;
    use std::os::fd::AsFd as _;
    use std::process::Command;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    fn contents(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i / 7) as u8).collect()
    }

    fn arrives_in_order(to: &PathSocket, contents: &[u8], size: usize) -> bool {
        let received = recv_exactly(to, contents.len().div_ceil(size));
        let joined: Vec<u8> = received.into_iter().flat_map(|(bytes, _)| bytes).collect();
        joined == contents
    }

    /// Miri runs this one: `tests/miri`.
    #[test]
    fn pointers_lead_the_kernel_to_a_train_and_its_envelope() {
        let to: std::net::SocketAddr = "192.0.2.7:4754".parse().unwrap();
        let envelope = Envelope::new(to, 0xb8, 10);
        let train = contents(37);
        let taken = offer(&envelope, &train, |said| {
            // SAFETY: as the kernel does, this reads what the header points at and no more than it says.
            let (train, name, control) = unsafe {
                let part = *said.msg_iov;
                assert_eq!(said.msg_iovlen, 1);
                (
                    std::slice::from_raw_parts(part.iov_base.cast::<u8>(), part.iov_len),
                    std::slice::from_raw_parts(
                        said.msg_name.cast::<u8>(),
                        said.msg_namelen as usize,
                    ),
                    std::slice::from_raw_parts(
                        said.msg_control.cast::<u8>(),
                        super::super::as_c(said.msg_controllen),
                    ),
                )
            };
            assert_eq!(super::super::address::parse(name), Some(to));
            let mut read = super::super::cmsg::Control::<64>::EMPTY;
            read.0[..control.len()].copy_from_slice(control);
            let kinds = read.messages(control.len()).map(|message| message.kind);
            let kinds: Vec<_> = kinds.collect();
            assert!(kinds.contains(&libc::UDP_SEGMENT), "{kinds:?}");
            train.to_vec()
        });
        assert_eq!(taken, train);
    }

    #[test]
    fn refused_trains_pause_longer_each_time_up_to_a_minute() {
        let segmentation = Segmentation::new(true);
        assert!(segmentation.is_on(|| panic!("no clock before the first pause")));
        let mut now = at(1000);
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            let pause = segmentation.refused(now);
            assert_eq!(pause, Duration::from_secs(seconds));
            assert!(!segmentation.is_on(|| now));
            assert!(!segmentation.is_on(|| now + pause - Duration::from_nanos(1)));
            now = now + pause;
            assert!(segmentation.is_on(|| now));
        }
    }

    #[test]
    fn a_minute_of_trains_that_pass_makes_the_next_pause_short_again() {
        let segmentation = Segmentation::new(true);
        assert_eq!(segmentation.refused(at(1000)), SHORTEST_PAUSE);
        assert_eq!(segmentation.refused(at(1001)), 2 * SHORTEST_PAUSE);
        assert!(segmentation.passed() && !segmentation.passed());
        assert_eq!(segmentation.refused(at(1003 + 60)), SHORTEST_PAUSE);
    }

    #[test]
    fn a_kernel_without_trains_is_never_asked() {
        let segmentation = Segmentation::new(false);
        assert!(!segmentation.is_possible() && !segmentation.is_on(|| at(u64::MAX >> 40)));
    }

    #[test]
    fn what_exceeds_a_train_goes_in_several() {
        for local in loopbacks() {
            let (from, to) = loopback_pair_with(local, Offload::Auto, Offload::Auto);
            // By count: 64, 64 and one alone. By bytes: 3 × 21,000, and 2.
            for (size, len) in [(10, 129 * 10), (21_000, 5 * 21_000), (40_000, 3 * 40_000)] {
                let contents = contents(len);
                let sent = from.send_train(to.local_addr(), 0, &contents, size);
                assert_eq!(sent.datagrams, len / size, "{sent:?}");
                assert!(arrives_in_order(&to, &contents, size), "{size}");
            }
        }
    }

    #[test]
    fn a_refused_train_goes_datagram_by_datagram_until_the_pause_is_over() {
        let (from, to) = loopback_pair_with(loopbacks()[0], Offload::Auto, Offload::Auto);
        // A socket without checksums cannot have its datagrams cut by the kernel.
        let without_checksums =
            |on| set_option(from.as_fd(), libc::SOL_SOCKET, libc::SO_NO_CHECK, on).unwrap();
        without_checksums(1);
        let contents = contents(64 * 1000 + 1);
        let train_passes = || {
            let sent = from.send_train(to.local_addr(), 0xb8, &contents, 1000);
            assert_eq!(sent.datagrams, 65, "{sent:?}");
            assert!(arrives_in_order(&to, &contents, 1000));
        };
        train_passes();
        assert!(!from.segmentation.is_on(clock::now), "a pause");
        without_checksums(0);
        train_passes();
        assert!(from.segmentation.on_trial.load(Relaxed), "one by one");
        from.segmentation.resume_at.store(1, Relaxed);
        train_passes();
        assert!(!from.segmentation.on_trial.load(Relaxed), "whole");
    }

    #[test]
    fn datagrams_beyond_the_mtu_are_too_big_and_trains_not_to_blame() {
        in_network_namespace(
            "udp::gso::tests::datagrams_beyond_the_mtu_are_too_big_and_trains_not_to_blame",
            async {
                let ip = ["link", "set", "lo", "up", "mtu", "1500"];
                assert!(Command::new("ip").args(ip).status().unwrap().success());
                for (local, fits) in loopbacks().into_iter().zip([1472, 1452]) {
                    let (from, to) = loopback_pair_with(local, Offload::Auto, Offload::Auto);
                    let contents = contents(10 * fits);
                    let sent = from.send_train(to.local_addr(), 0, &contents, fits);
                    assert_eq!(sent.datagrams, 10, "{sent:?}");
                    assert!(arrives_in_order(&to, &contents, fits));
                    let too_long = vec![1; 5 * (fits + 1) + 100];
                    let sent = from.send_train(to.local_addr(), 0, &too_long, fits + 1);
                    assert_eq!((sent.datagrams, sent.too_big), (1, 5), "{sent:?}");
                    assert_eq!(recv_exactly(&to, 1)[0].0.len(), 100);
                    assert!(from.segmentation.is_on(|| panic!("no pause")));
                }
            },
        );
    }

    #[test]
    fn a_full_queue_drops_a_train_as_a_whole_and_all_of_it_is_counted() {
        in_network_namespace(
            "udp::gso::tests::a_full_queue_drops_a_train_as_a_whole_and_all_of_it_is_counted",
            async {
                let run = |command: &str| {
                    let arguments = command.split(' ');
                    let status = Command::new("ip").args(arguments).status().unwrap();
                    assert!(status.success(), "ip {command}");
                };
                run("link set lo up");
                let status = Command::new("tc")
                    .args("qdisc add dev lo root tbf rate 100mbit burst 70kb limit 80kb".split(' '))
                    .status();
                if !status.is_ok_and(|status| status.success()) {
                    eprintln!("skipped: there is no tbf");
                    return;
                }
                let (from, to) = loopback_pair_with(loopbacks()[0], Offload::Auto, Offload::Auto);
                let mut sum = Sent::default();
                for _ in 0..10 {
                    sum.add(from.send_train(to.local_addr(), 0, &vec![0; 60_000], 1000));
                }
                assert_eq!(sum.datagrams + sum.queue_full, 600, "{sum:?}");
                assert!(sum.queue_full > 0 && sum.queue_full % 60 == 0, "{sum:?}");
                assert!(from.segmentation.is_on(|| panic!("no pause")));
            },
        );
    }
}

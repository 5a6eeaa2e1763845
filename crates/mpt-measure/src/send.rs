//! The sending part: numbered packets of one size at one rate.

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use std::{io, thread};

use rustix::thread::set_current_timer_slack;

use super::channel::{Carrier, Channel, ChannelError, LARGEST_DATAGRAM};
use super::clock::Clock;
use super::numbering::Numbering;
use super::pace::{Pacer, Turn};
use super::progress::Progress;
use super::report::Report;
use super::session::{Ending, Patience, Session};
use super::stamp::{self, Kind, Plan, Stamp};
use super::stream::Metrics;

/// End markers, in case some are lost.
const END_MARKERS: u32 = 5;
/// Between the last packet, the first end marker and the next ones.
const END_PAUSE: Duration = Duration::from_millis(100);
/// How long a sender waits when its own host has no room for a packet.
const NO_ROOM_PAUSE: Duration = Duration::from_millis(1);

/// What to send, and how.
#[derive(Debug, Clone)]
pub(crate) struct Sending {
    pub(crate) target: SocketAddr,
    pub(crate) plan: Plan,
    /// The run's number.
    pub(crate) stream: u64,
}

/// A host where nobody listens has said so within this time, in seconds: a round trip to the other side of the Earth takes
/// less. Over a satellite that is far out it is not known whether anybody does.
const REFUSED_WITHIN_S: f64 = 0.4;
/// It says so again within this time: Linux once a second (net.ipv4.icmp_ratelimit, ip-sysctl), twice that for one that
/// is lost.
const REFUSED_AGAIN_S: f64 = 2.0;

/// What was sent.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Sent {
    pub(crate) packets: u32,
    pub(crate) seconds: f64,
    /// How often the sender was behind its schedule by more than a millisecond, and by how much in
    /// all.
    pub(crate) slips: u64,
    pub(crate) slipped_s: f64,
    /// Sends that were answered "port unreachable".
    pub(crate) refused: u64,
    /// When the first and the last of these were, in seconds from the start.
    pub(crate) refused_s: Option<[f64; 2]>,
    /// Sends that the host had no room for.
    pub(crate) no_room: u64,
    pub(crate) interrupted: bool,
}

/// Why nothing, or not all, was sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    #[error(transparent)]
    Channel(#[from] ChannelError),
    #[error(
        "frames of {frame_bytes} bytes (IP packets of {}) do not fit the path{}: try --size {fitting}",
        .frame_bytes - 18,
        .mtu.map_or(String::new(), |mtu| format!(", whose MTU is {mtu}"))
    )]
    TooBig {
        frame_bytes: u16,
        mtu: Option<u32>,
        fitting: u32,
    },
    #[error("cannot send: {0}")]
    Io(#[from] io::Error),
}

impl SendError {
    /// What the kernel's `error` means: of a frame that does not fit, which size does, `least_bytes` at least.
    pub(crate) fn of(
        error: io::Error,
        channel: &Channel,
        frame_bytes: u16,
        least_bytes: usize,
    ) -> SendError {
        if error.raw_os_error() != Some(rustix::io::Errno::MSGSIZE.raw_os_error()) {
            return SendError::Io(error);
        }
        let mtu = channel.path_mtu();
        let fitting = mtu.map_or(1300, |mtu| mtu + stamp::ETHERNET_BYTES as u32);
        SendError::TooBig {
            frame_bytes,
            mtu,
            fitting: fitting.max(least_bytes as u32),
        }
    }
}

impl Sending {
    /// Sends all packets and the end markers, or until `stop` is set.
    pub(crate) fn run(&self, channel: &Channel, stop: &AtomicBool) -> Result<Sent, SendError> {
        let mut progress = Progress::new();
        let sent = self.send_all(channel, stop, &mut progress)?;
        for _ in 0..END_MARKERS {
            thread::sleep(END_PAUSE);
            // Lost markers are what there are five of them for.
            let _ = self.send_one(
                channel,
                &mut self.packet(channel),
                Kind::End,
                sent.packets,
                0,
            );
        }
        Ok(sent)
    }

    fn send_all(
        &self,
        channel: &Channel,
        stop: &AtomicBool,
        progress: &mut Progress,
    ) -> Result<Sent, SendError> {
        // A timer may be late by 50 µs otherwise, half the distance of two packets.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        let clock = Clock::start();
        let mut pacer = Pacer::new(self.plan.count, self.plan.rate_pps);
        let mut packet = self.packet(channel);
        let mut sent = Sent::default();
        loop {
            let now_ns = clock.elapsed_ns();
            if stop.load(Ordering::Relaxed) {
                sent.interrupted = true;
                break;
            }
            match pacer.turn(now_ns) {
                Turn::Send(number) => {
                    let sent_ns = clock.unix_ns(clock.elapsed_ns());
                    let mut send =
                        || self.send_one(channel, &mut packet, Kind::Data, number, sent_ns);
                    let result = match send() {
                        // That was the answer to an earlier packet; this one has not been sent.
                        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                            sent.refuse(now_ns);
                            send()
                        }
                        result => result,
                    };
                    result.or_else(|error| self.bear(channel, error, now_ns, &mut sent))?;
                }
                Turn::Wait(until_ns) => clock.sleep_until(until_ns),
                Turn::Done => break,
            }
            let share = f64::from(pacer.sent()) / f64::from(self.plan.count.max(1));
            progress.draw(now_ns, share, || format!("{} sent", pacer.sent()));
        }
        sent.packets = pacer.sent();
        sent.seconds = clock.elapsed_ns() as f64 / 1e9;
        let (slips, slipped_ns) = pacer.slips();
        (sent.slips, sent.slipped_s) = (slips, slipped_ns as f64 / 1e9);
        Ok(sent)
    }

    /// Room for a packet, zeros behind the stamp.
    fn packet(&self, channel: &Channel) -> Vec<u8> {
        let ipv6 = self.target.is_ipv6();
        let payload = stamp::payload_bytes(self.plan.frame_bytes, ipv6);
        vec![0; channel.headroom() + payload.unwrap_or(stamp::STAMP_BYTES)]
    }

    fn send_one(
        &self,
        channel: &Channel,
        packet: &mut [u8],
        kind: Kind,
        number: u32,
        sent_ns: u64,
    ) -> io::Result<()> {
        let stamp = Stamp {
            kind,
            stream: self.stream,
            number,
            plan: self.plan,
            sent_ns,
        };
        let at = channel.headroom();
        packet[at..at + stamp::STAMP_BYTES].copy_from_slice(&stamp.bytes());
        channel.send(packet, self.stream, number)
    }

    /// What a failed send means: a count, or the end.
    fn bear(
        &self,
        channel: &Channel,
        error: io::Error,
        now_ns: u64,
        sent: &mut Sent,
    ) -> Result<(), SendError> {
        match error
            .raw_os_error()
            .map(rustix::io::Errno::from_raw_os_error)
        {
            Some(rustix::io::Errno::CONNREFUSED) => sent.refuse(now_ns),
            Some(rustix::io::Errno::NOBUFS | rustix::io::Errno::AGAIN) => {
                sent.no_room += 1;
                thread::sleep(NO_ROOM_PAUSE);
            }
            Some(rustix::io::Errno::INTR) => {}
            Some(_) | None => {
                let least = stamp::least_frame(self.target.is_ipv6());
                let frame_bytes = self.plan.frame_bytes;
                return Err(SendError::of(error, channel, frame_bytes, least));
            }
        }
        Ok(())
    }

    /// Sends echo requests and measures their replies, on a thread of their own.
    pub(crate) fn run_with_replies(
        &self,
        channel: &Channel,
        metrics: Metrics,
        stop: &AtomicBool,
    ) -> Result<(Sent, Report), SendError> {
        let finished = AtomicBool::new(false);
        let sent_count = AtomicU32::new(0);
        thread::scope(|scope| {
            let replies =
                scope.spawn(|| self.measure_replies(channel, metrics, &finished, &sent_count));
            let mut progress = Progress::new();
            let sent = self.send_all(channel, stop, &mut progress);
            if let Ok(sent) = &sent {
                sent_count.store(sent.packets, Ordering::Relaxed);
            }
            finished.store(true, Ordering::Release);
            let report = replies.join();
            let sent = sent?;
            match report {
                Ok(Ok(report)) => Ok((sent, report)),
                Ok(Err(error)) => Err(error.into()),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    fn measure_replies(
        &self,
        channel: &Channel,
        metrics: Metrics,
        finished: &AtomicBool,
        sent: &AtomicU32,
    ) -> io::Result<Report> {
        let clock = Clock::start();
        let patience = Patience {
            idle: Duration::MAX,
            first: None,
        };
        let own = Stamp {
            kind: Kind::Data,
            stream: self.stream,
            number: 0,
            plan: self.plan,
            sent_ns: 0,
        };
        let start_ns = clock.unix_ns(clock.elapsed_ns());
        let mut session = Session::new(Numbering::IcmpReply, metrics, patience, start_ns)
            .of_own(&own, self.target);
        let mut buffer = vec![0; LARGEST_DATAGRAM];
        let mut done = false;
        loop {
            let received = channel.receive(&mut buffer)?;
            let now_ns = clock.unix_ns(clock.elapsed_ns());
            if let Some(received) = received {
                session.take(&received, now_ns);
            }
            if !done && finished.load(Ordering::Acquire) {
                done = true;
                session.sender_done(sent.load(Ordering::Relaxed), now_ns);
            }
            if session.ended(now_ns).is_some() {
                break;
            }
        }
        let at = format!("replies of {}", self.target.ip());
        let drops = channel.dropped().unwrap_or(0);
        Ok(session.report(at, Ending::Complete, drops))
    }
}

impl Sent {
    fn refuse(&mut self, now_ns: u64) {
        let now_s = now_ns as f64 / 1e9;
        self.refused += 1;
        self.refused_s = Some([self.refused_s.map_or(now_s, |[first, _]| first), now_s]);
    }

    /// Whether packets left this host and somebody listened for them at some time: the answers that nobody does did
    /// not begin at once, or had ended.
    pub(crate) fn went_out(&self) -> bool {
        let is_refused = self.refused_s.is_some_and(|[first, last]| {
            first < REFUSED_WITHIN_S && last > self.seconds - REFUSED_AGAIN_S
        });
        !is_refused && self.no_room < u64::from(self.packets)
    }

    /// What a sender has to say when it is done, a sentence a line.
    pub(crate) fn sentences(
        &self,
        plan: &Plan,
        target: SocketAddr,
        carrier: Carrier,
    ) -> Vec<String> {
        let target = carrier.name(target);
        let rate = if self.seconds > 0.0 {
            f64::from(self.packets) / self.seconds
        } else {
            0.0
        };
        let mut sentences = vec![format!(
            "{} packets of {} bytes sent to {target} in {:.2} s, {rate:.0} a second{}",
            self.packets,
            plan.frame_bytes,
            self.seconds,
            if self.interrupted {
                "; interrupted"
            } else {
                ""
            }
        )];
        if self.slipped_s > 0.001 {
            sentences.push(format!(
                "the rate was not held: behind by more than a millisecond {} times, {:.1} ms in all",
                self.slips,
                self.slipped_s * 1e3
            ));
        }
        if self.no_room > 0 {
            sentences.push(format!(
                "{} packets found no room in this host's own queue and were not sent",
                self.no_room
            ));
        }
        if self.refused > 0 {
            sentences.push(format!(
                "nobody listens at {target}: {} packets were refused. Start `mpt-ctl measure \
                 receive` there first",
                self.refused
            ));
        }
        sentences
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn packets_that_nobody_listens_for_did_not_go_out() {
        let send = |target| {
            let sending = Sending {
                target,
                plan: Plan {
                    count: 5,
                    frame_bytes: 100,
                    rate_pps: 1000,
                },
                stream: 1,
            };
            let channel = Channel::to(target, Carrier::Udp, None).unwrap();
            sending.run(&channel, &AtomicBool::new(false)).unwrap()
        };
        let listener = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        let target = listener.local_addr().unwrap();
        let heard = send(target);
        assert!(heard.went_out(), "{heard:?}");
        drop(listener);
        let refused = send(target);
        assert!(refused.refused > 0 && !refused.went_out(), "{refused:?}");
    }

    #[test]
    fn a_port_is_told_where_there_is_one() {
        let plan = Plan {
            count: 5,
            frame_bytes: 100,
            rate_pps: 1000,
        };
        let told = |target: &str, carrier| {
            let target = target.parse().unwrap();
            Sent::default().sentences(&plan, target, carrier).join("\n")
        };
        assert_eq!(
            told("10.99.0.2:5236", Carrier::Udp),
            "0 packets of 100 bytes sent to 10.99.0.2:5236 in 0.00 s, 0 a second"
        );
        for target in ["10.99.0.2:5236", "[fd99::2]:5236"] {
            let told = told(target, Carrier::Icmp);
            assert!(!told.contains("5236") && !told.contains('['), "{told}");
        }
    }

    #[test]
    fn who_began_late_or_ended_early_listened() {
        let refused = |first: u64, last: u64| {
            let mut sent = Sent {
                packets: 1000,
                seconds: 10.0,
                ..Sent::default()
            };
            for ms in [first, 5000, last] {
                sent.refuse(ms * 1_000_000);
            }
            sent.went_out()
        };
        assert!(!refused(1, 9_999));
        assert!(!refused(300, 9_000));
        assert!(refused(700, 9_999));
        assert!(refused(1, 7_000));
    }
}

//! STAMP's Session-Sender (RFC 8762 §4.2).

use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use super::packet::{self, Reply};
use crate::channel::{Channel, LARGEST_DATAGRAM};
use crate::clock::Clock;
use crate::numbering::Numbering;
use crate::pace::{Pacer, Turn};
use crate::progress::Progress;
use crate::report::{Ignored, Report, RoundTrip};
use crate::send::SendError;
use crate::stamp::{self, Kind, Plan, Stamp};
use crate::stream::{Measured, Metrics};

/// An answer that comes later than this counts as lost.
const LOST_AFTER: Duration = Duration::from_secs(2);

/// What is sent, to whom.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) target: SocketAddr,
    pub(crate) plan: Plan,
    /// UDP payload of a packet.
    pub(crate) payload_bytes: usize,
    /// The session's identifier (RFC 8972 §3), not 0.
    pub(crate) id: u16,
}

/// What came of sending.
#[derive(Debug, Clone, Copy, Default)]
struct Sent {
    packets: u32,
    slips: (u64, u64),
}

/// An answer, and when it came.
#[derive(Debug, Clone, Copy)]
struct Answer {
    reply: Reply,
    came_ns: u64,
}

impl Session {
    /// Sends all, and reports on what came back.
    pub(crate) fn run(
        &self,
        channel: &Channel,
        metrics: Metrics,
        stop: &AtomicBool,
    ) -> Result<Report, SendError> {
        let clock = Clock::start();
        let (finished, sent_count) = (AtomicBool::new(false), AtomicU32::new(0));
        thread::scope(|scope| {
            let answers = scope.spawn(|| self.collect(channel, clock, &finished, &sent_count));
            let sent = self.send(channel, clock, stop);
            if let Ok(sent) = &sent {
                sent_count.store(sent.packets, Ordering::Relaxed);
            }
            finished.store(true, Ordering::Release);
            let answers = answers.join();
            let sent = sent?;
            let (answers, strangers) = match answers {
                Ok(answers) => answers?,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            let was_stopped = stop.load(Ordering::Relaxed);
            let mut report = self.report(&answers, sent, was_stopped, metrics);
            report.ignored = Ignored {
                strangers,
                socket_drops: channel.dropped().unwrap_or(0),
                ..Ignored::default()
            };
            Ok(report)
        })
    }

    fn send(&self, channel: &Channel, clock: Clock, stop: &AtomicBool) -> Result<Sent, SendError> {
        let mut pacer = Pacer::new(self.plan.count, self.plan.rate_pps);
        let mut progress = Progress::new();
        while !stop.load(Ordering::Relaxed) {
            let elapsed_ns = clock.elapsed_ns();
            match pacer.turn(elapsed_ns) {
                Turn::Done => break,
                Turn::Wait(until_ns) => {
                    let share = f64::from(pacer.sent()) / f64::from(self.plan.count);
                    progress.draw(elapsed_ns, share, || format!("{} sent", pacer.sent()));
                    clock.sleep_until(until_ns);
                }
                Turn::Send(number) => {
                    let now_ns = clock.unix_ns(clock.elapsed_ns());
                    let mut test = packet::test(number, self.id, now_ns, self.payload_bytes);
                    let mut send = || channel.send(&mut test, 0, number);
                    let sent = match send() {
                        // Nobody listens for one that was sent before; this one has not been sent.
                        Err(error) if is_refusal(&error) => send(),
                        sent => sent,
                    };
                    match sent {
                        Ok(()) => {}
                        Err(error) if is_refusal(&error) => {}
                        Err(error) => return Err(self.send_error(error, channel)),
                    }
                }
            }
        }
        Ok(Sent {
            packets: pacer.sent(),
            slips: pacer.slips(),
        })
    }

    fn send_error(&self, error: io::Error, channel: &Channel) -> SendError {
        let least = stamp::headers_bytes(self.target.is_ipv6()) + super::LEAST_BYTES;
        SendError::of(error, channel, self.plan.frame_bytes, least)
    }

    /// Takes answers until all are there, or none is to be waited for any more. Says how many packets were none.
    fn collect(
        &self,
        channel: &Channel,
        clock: Clock,
        finished: &AtomicBool,
        sent: &AtomicU32,
    ) -> io::Result<(Vec<Answer>, u64)> {
        let mut answers = Vec::new();
        let mut answered = HashSet::new();
        let mut strangers = 0;
        let mut buffer = vec![0; LARGEST_DATAGRAM];
        let mut until_ns = None;
        loop {
            let received = channel.receive(&mut buffer)?;
            let now_ns = clock.elapsed_ns();
            if let Some(received) = received {
                match packet::reply(received.payload).filter(|reply| self.is_own(reply)) {
                    Some(reply) if answers.len() < 2 * self.plan.count as usize => {
                        let came_ns = clock.unix_ns(now_ns);
                        answered.insert(reply.test_number);
                        answers.push(Answer { reply, came_ns });
                    }
                    Some(_) | None => strangers += 1,
                }
            }
            if until_ns.is_none() && finished.load(Ordering::Acquire) {
                until_ns = Some(now_ns + LOST_AFTER.as_nanos() as u64);
            }
            let is_complete = || answered.len() >= sent.load(Ordering::Relaxed) as usize;
            if until_ns.is_some_and(|until_ns| now_ns >= until_ns || is_complete()) {
                return Ok((answers, strangers));
            }
        }
    }

    /// Whether it answers this session. A reflector that does not know session identifiers sends 0.
    fn is_own(&self, reply: &Reply) -> bool {
        (reply.session == self.id || reply.session == 0) && reply.test_number < self.plan.count
    }

    fn report(
        &self,
        answers: &[Answer],
        sent: Sent,
        was_stopped: bool,
        metrics: Metrics,
    ) -> Report {
        let mut notes = Vec::new();
        let direction = |numbering| {
            let stamp = self.stamp(0, 0);
            Measured::of_stamp(numbering, &stamp, (None, None), metrics)
        };
        let bytes = self.payload_bytes as u32;
        let is_numbered = answers
            .iter()
            .any(|answer| answer.reply.number != answer.reply.test_number);
        let mut there = direction(Numbering::StampThere);
        let mut by_arrival: Vec<&Reply> = answers.iter().map(|answer| &answer.reply).collect();
        by_arrival.sort_by_key(|reply| (reply.received_ns, reply.number));
        for reply in by_arrival {
            let stamp = self.stamp(reply.test_number, reply.test_sent_ns);
            there.take_stamp(&stamp, reply.test_number, bytes, reply.received_ns);
        }
        let mut back = direction(Numbering::StampBack);
        for Answer { reply, came_ns } in answers {
            let stamp = self.stamp(reply.number, reply.sent_ns);
            back.take_stamp(&stamp, reply.number, bytes, *came_ns);
        }
        there.end(sent.packets);
        let (mut there, mut back) = (
            there.report(&format!("to {}", self.target)),
            back.report(&format!("from {}", self.target)),
        );
        let numbers = answers.iter().map(|answer| answer.reply.number);
        let reflected = numbers.max().map_or(0, |number| u64::from(number) + 1);
        let lost = u64::from(sent.packets).saturating_sub(back.received);
        // More than each packet and a copy of it: it counts on from an earlier session, or from anywhere.
        let is_from_zero = reflected <= 2 * u64::from(sent.packets);
        if lost == 0 && !is_from_zero {
            (there.lost, back.lost) = (Some(0), Some(0));
        } else if lost == 0 || is_numbered && is_from_zero {
            there.lost = Some(u64::from(sent.packets).saturating_sub(reflected));
            back.sent = u32::try_from(reflected).ok();
            back.lost = Some(reflected.saturating_sub(back.received));
        } else if answers.is_empty() {
            notes.push(format!(
                "nobody answered. Start a reflector at {}, such as `mpt-ctl measure stamp reflect --port {}`, and let UDP \
                 to that port through; where that host has several addresses, give it this one with `--on`, since answers \
                 go out from the route's",
                self.target.ip(),
                self.target.port()
            ));
        } else {
            (there.lost, back.lost) = (None, None);
            notes.push(format!(
                "{lost} packets did not come back: the reflector's numbers do not tell in which direction they were lost"
            ));
        }
        (there.received_pps, back.sent_pps) = (None, None);
        if sent.slips.1 > 1_000_000 {
            notes.push(format!(
                "the rate was not held: behind by more than a millisecond {} times",
                sent.slips.0
            ));
        }
        let streams = if answers.is_empty() {
            Vec::new()
        } else {
            vec![there, back]
        };
        Report {
            at: format!("STAMP session {:04x} with {}", self.id, self.target),
            ended: match was_stopped {
                true => "interrupted".into(),
                false => format!("{} packets sent, {} answers", sent.packets, answers.len()),
            },
            notes,
            streams,
            round_trip: RoundTrip::of(answers.iter().map(Answer::round_trip_ns).collect()),
            ignored: Ignored::default(),
        }
    }

    fn stamp(&self, number: u32, sent_ns: u64) -> Stamp {
        Stamp {
            kind: Kind::Data,
            stream: u64::from(self.id),
            number,
            plan: self.plan,
            sent_ns,
        }
    }
}

fn is_refusal(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionRefused
}

impl Answer {
    /// Less what the reflector took.
    fn round_trip_ns(&self) -> u64 {
        let took = self.reply.sent_ns.saturating_sub(self.reply.received_ns);
        let all = self.came_ns.saturating_sub(self.reply.test_sent_ns);
        all.saturating_sub(took)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    use mpt_core::metrics::Form;

    const MS: u64 = 1_000_000;
    const METRICS: Metrics = Metrics {
        displacement_threshold: 200,
        occupancy_threshold: 200,
        form: Form::Corrected,
    };

    fn session(count: u32) -> Session {
        Session {
            target: ([192, 0, 2, 1], super::super::PORT).into(),
            plan: Plan {
                count,
                frame_bytes: 90,
                rate_pps: 100,
            },
            payload_bytes: packet::BYTES,
            id: 9,
        }
    }

    /// The answer to `test`, reflected as `number`: 10 ms there, by a clock that is a day ahead, 3 ms at the reflector and
    /// 20 ms back.
    fn answer(number: u32, test: u32, later_ms: u64) -> Answer {
        let sent = 1_000_000 * MS + u64::from(test) * 10 * MS;
        let received_ns = sent + (86_400_000 + 10 + later_ms) * MS;
        Answer {
            reply: Reply {
                number,
                sent_ns: received_ns + 3 * MS,
                received_ns,
                session: 9,
                test_number: test,
                test_sent_ns: sent,
            },
            came_ns: sent + (33 + later_ms) * MS,
        }
    }

    fn report(answers: &[Answer], packets: u32) -> Report {
        let sent = Sent {
            packets,
            ..Sent::default()
        };
        session(packets).report(answers, sent, false, METRICS)
    }

    #[test]
    fn loss_and_disorder_are_told_apart_by_direction() {
        // 2 is lost on the way there; 3 overtakes 1; the answer to 4, the reflector's fourth, is lost.
        let answers = [
            answer(0, 0, 0),
            answer(1, 3, 0),
            answer(2, 1, 25),
            answer(4, 5, 0),
        ];
        let report = report(&answers, 6);
        let [there, back] = &report.streams[..] else {
            panic!("{report:?}");
        };
        assert_eq!((there.lost, back.lost), (Some(1), Some(1)));
        assert_eq!(there.order.reordering.reordered, 1);
        assert_eq!(back.order.reordering.reordered, 0);
        let round_trip = report.round_trip.unwrap();
        assert_eq!((round_trip.min_ns, round_trip.max_ns), (30 * MS, 55 * MS));
        let delay = there.delay.as_ref().unwrap();
        assert_eq!(delay.pdv_ns.max / MS, 25);
        assert_eq!(back.delay.as_ref().unwrap().pdv_ns.max / MS, 0);
    }

    #[test]
    fn a_copy_is_no_answer_to_another_packet() {
        let reflector = UdpSocket::bind("127.0.0.1:0").unwrap();
        let session = Session {
            target: reflector.local_addr().unwrap(),
            ..session(2)
        };
        let channel = Channel::to(session.target, crate::channel::Carrier::Udp, None).unwrap();
        let report = thread::scope(|scope| {
            scope.spawn(|| {
                let mut packet = [0; packet::BYTES];
                for number in 0..2 {
                    let (_, from) = reflector.recv_from(&mut packet).unwrap();
                    packet::reflect(&mut packet, number, 1, 1);
                    // The second is answered long after it was sent, the first twice at once.
                    thread::sleep(Duration::from_millis(300) * number);
                    reflector.send_to(&packet, from).unwrap();
                    reflector.send_to(&packet, from).unwrap();
                }
            });
            session.run(&channel, METRICS, &AtomicBool::new(false))
        });
        assert_eq!(report.unwrap().streams[1].received, 2);
    }

    #[test]
    fn a_reflector_that_counts_on_from_an_earlier_session_lost_none_of_its_packets() {
        let whole = report(&[answer(u32::MAX, 0, 0)], 1);
        let lost = |report: &Report, direction: usize| report.streams[direction].lost;
        assert_eq!((lost(&whole, 0), lost(&whole, 1)), (Some(0), Some(0)));
        let lossy = report(&[answer(1000, 0, 0), answer(1001, 2, 0)], 3);
        assert_eq!((lost(&lossy, 0), lost(&lossy, 1)), (None, None));
        assert!(lossy.notes[0].starts_with("1 packets did not come back"));
        // A packet that was doubled on the way there is no such thing.
        let doubled = report(&[answer(0, 0, 0), answer(2, 0, 0)], 2);
        assert_eq!((lost(&doubled, 0), lost(&doubled, 1)), (Some(0), Some(1)));
    }

    #[test]
    fn a_packet_that_an_earlier_ones_refusal_kept_back_is_sent_all_the_same() {
        let reflector = UdpSocket::bind("127.0.0.1:0").unwrap();
        let target = reflector.local_addr().unwrap();
        drop(reflector);
        let session = Session {
            target,
            ..session(2)
        };
        let channel = Channel::to(target, crate::channel::Carrier::Udp, None).unwrap();
        channel.send(&mut [0; 44], 0, 0).unwrap();
        thread::sleep(Duration::from_millis(100));
        // Its refusal has come; now somebody listens.
        let reflector = UdpSocket::bind(target).unwrap();
        let sent = session.send(&channel, Clock::start(), &AtomicBool::new(false));
        assert_eq!(sent.unwrap().packets, 2);
        reflector.set_nonblocking(true).unwrap();
        let came = (0..9).filter(|_| reflector.recv(&mut [0; 100]).is_ok());
        assert_eq!(came.count(), 2);
    }

    #[test]
    fn a_packet_that_is_too_big_names_a_size_that_is_not() {
        let target = "127.0.0.1:9".parse().unwrap();
        let session = Session {
            target,
            payload_bytes: 65_508,
            ..session(1)
        };
        let channel = Channel::to(target, crate::channel::Carrier::Udp, None).unwrap();
        let sent = session.send(&channel, Clock::start(), &AtomicBool::new(false));
        let error = sent.unwrap_err().to_string();
        assert!(
            error.contains("do not fit the path") && error.contains("try --size"),
            "{error}"
        );
    }

    #[test]
    fn a_reflector_that_repeats_the_number_does_not_tell_where_packets_are_lost() {
        let of = |numbers: &[u32]| -> Vec<Answer> {
            numbers
                .iter()
                .map(|&number| answer(number, number, 0))
                .collect()
        };
        let whole = report(&of(&[0, 1, 2]), 3);
        assert_eq!(
            (whole.streams[0].lost, whole.streams[1].lost),
            (Some(0), Some(0))
        );
        let lossy = report(&of(&[0, 2]), 3);
        assert_eq!((lossy.streams[0].lost, lossy.streams[1].lost), (None, None));
        assert!(lossy.notes[0].starts_with("1 packets did not come back"));
        let nothing = report(&[], 3);
        assert!(nothing.streams.is_empty());
        assert!(nothing.notes[0].contains("with `--on`"), "{nothing:?}");
    }
}

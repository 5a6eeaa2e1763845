//! What a receiver makes of the packets that come: one run is measured, all else is counted.
//!
//! The first run heard is the one. It is over when its end marker has come and nothing more for a
//! while, since packets may be later than the marker; or when nothing of it has come for the idle
//! time. What other runs send meanwhile neither disturbs the measurement nor prolongs it.
//!
//! No socket and no clock here: packets and times are arguments.

use std::net::SocketAddr;
use std::time::Duration;

use super::numbering::Numbering;
use super::report::{Ignored, OtherStream, Report};
use super::stamp::{Kind, NotOurs, Stamp};
use super::stream::{Measured, Metrics};

/// How long the last packets may be behind the end marker, in nanoseconds.
const LINGER_NS: u64 = 1_000_000_000;
/// Other runs that are kept apart.
const OTHERS: usize = 16;

/// One received packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Received<'a> {
    /// Who sent it.
    pub(crate) from: SocketAddr,
    /// The number in the ICMP header; UDP has none.
    pub(crate) echo_number: Option<u16>,
    pub(crate) payload: &'a [u8],
}

/// Why a measurement came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The sender said so.
    Complete,
    /// Nothing came for the idle time.
    Idle,
    /// Nothing came at all in the time given.
    Nothing,
    /// Ctrl-C.
    Interrupted,
}

/// How long a receiver waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// For the next packet of a run.
    pub(crate) idle: Duration,
    /// For the first one; for ever where there is none.
    pub(crate) first: Option<Duration>,
}

/// A receiver's view of one measurement.
#[derive(Debug)]
pub(crate) struct Session {
    numbering: Numbering,
    metrics: Metrics,
    patience: Patience,
    started_ns: u64,
    measured: Option<(Measured, SocketAddr)>,
    /// When the sender was done.
    done_ns: Option<u64>,
    ignored: Ignored,
    /// Other runs by number, as in `ignored`.
    others: Vec<u64>,
}

impl Session {
    /// Measures order by `metrics`, of whichever run comes first.
    pub(crate) fn new(
        numbering: Numbering,
        metrics: Metrics,
        patience: Patience,
        now_ns: u64,
    ) -> Self {
        Session {
            numbering,
            metrics,
            patience,
            started_ns: now_ns,
            measured: None,
            done_ns: None,
            ignored: Ignored::default(),
            others: Vec::new(),
        }
    }

    /// Measures only the run `stream`, which a sender of echoes knows to be its own.
    pub(crate) fn of_own(mut self, stream: &Stamp, target: SocketAddr) -> Self {
        let ends = (Some(target.ip()), None);
        let measured = Measured::of_stamp(self.numbering, stream, ends, self.metrics);
        self.measured = Some((measured, target));
        self
    }

    /// Takes in a packet that came at `now_ns`.
    pub(crate) fn take(&mut self, received: &Received<'_>, now_ns: u64) {
        let stamp = match Stamp::parse(received.payload) {
            Ok(stamp) => stamp,
            Err(NotOurs::Stranger) => {
                self.ignored.strangers += 1;
                return;
            }
            Err(NotOurs::Malformed) => {
                self.ignored.malformed += 1;
                return;
            }
        };
        let known = self.measured.as_ref().map(|(measured, _)| measured.id());
        match (known, stamp.kind) {
            (None, Kind::Data) => {
                let ends = (Some(received.from.ip()), None);
                let measured = Measured::of_stamp(self.numbering, &stamp, ends, self.metrics);
                self.measured = Some((measured, received.from));
            }
            // The end of a run of which nothing was seen.
            (None, Kind::End) => return self.take_other(&stamp, received.from),
            (Some(id), Kind::Data | Kind::End) if id != Some(stamp.stream) => {
                return self.take_other(&stamp, received.from);
            }
            (Some(_), Kind::Data | Kind::End) => {}
        }
        let Some((measured, _)) = &mut self.measured else {
            return;
        };
        if !measured.fits(&stamp) {
            self.ignored.malformed += 1;
            return;
        }
        match stamp.kind {
            Kind::Data => {
                let wire = received.echo_number.map_or(stamp.number, u32::from);
                let bytes = u32::try_from(received.payload.len()).unwrap_or(u32::MAX);
                measured.take_stamp(&stamp, wire, bytes, now_ns);
            }
            Kind::End => self.sender_done(stamp.number, now_ns),
        }
    }

    /// The sender has sent so many packets and sends no more.
    pub(crate) fn sender_done(&mut self, sent: u32, now_ns: u64) {
        if let Some((measured, _)) = &mut self.measured {
            measured.end(sent);
            self.done_ns.get_or_insert(now_ns);
        }
    }

    fn take_other(&mut self, stamp: &Stamp, from: SocketAddr) {
        if let Some(at) = self.others.iter().position(|&id| id == stamp.stream) {
            let other = &mut self.ignored.other_streams[at];
            other.packets += 1;
            if stamp.kind == Kind::Data {
                other.only_end_of = None;
            }
        } else if self.others.len() < OTHERS {
            self.others.push(stamp.stream);
            self.ignored.other_streams.push(OtherStream {
                stream: format!("{:016x}", stamp.stream),
                from,
                packets: 1,
                only_end_of: (stamp.kind == Kind::End).then_some(stamp.number),
            });
        } else {
            self.ignored.other_packets += 1;
        }
    }

    /// Whether the measurement is over at `now_ns`.
    pub(crate) fn ended(&self, now_ns: u64) -> Option<Ending> {
        let Some((measured, _)) = &self.measured else {
            let limit_ns = nanoseconds(self.patience.first?);
            let waited_ns = now_ns.saturating_sub(self.started_ns);
            return (waited_ns >= limit_ns).then_some(Ending::Nothing);
        };
        let last_ns = measured.last_ns().unwrap_or(self.started_ns);
        let silent_ns = now_ns.saturating_sub(last_ns);
        if let Some(done_ns) = self.done_ns {
            let lingered_ns = silent_ns.min(now_ns.saturating_sub(done_ns));
            return (lingered_ns >= LINGER_NS).then_some(Ending::Complete);
        }
        (silent_ns >= nanoseconds(self.patience.idle)).then_some(Ending::Idle)
    }

    /// Data packets of the run so far, and how far it has come, from 0 to 1.
    pub(crate) fn progress(&self) -> f64 {
        self.measured
            .as_ref()
            .map_or(0.0, |(measured, _)| measured.progress())
    }

    /// Whether the measured run has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.measured.is_some()
    }

    /// Sums up. `at` says where this was, `socket_drops` what the kernel had no room for.
    pub(crate) fn report(mut self, at: String, ending: Ending, socket_drops: u64) -> Report {
        self.ignored.socket_drops = socket_drops;
        let streams: Vec<_> = self
            .measured
            .take()
            .map(|(measured, from)| measured.report(&format!("from {}", from.ip())))
            .filter(|stream| stream.received > 0)
            .into_iter()
            .collect();
        let received = streams.iter().map(|stream| stream.received).sum();
        let mut report = Report {
            at,
            ended: self.sentence(ending, received),
            notes: Vec::new(),
            streams,
            round_trip: None,
            ignored: self.ignored,
        };
        report.notes = notes(&report, ending);
        report
    }

    fn sentence(&self, ending: Ending, received: u64) -> String {
        match (ending, received) {
            (Ending::Interrupted, 0) => "interrupted; no packet of a measurement came".into(),
            (Ending::Interrupted, _) => "interrupted".into(),
            (Ending::Nothing | Ending::Idle | Ending::Complete, 0) => {
                "no packet of a measurement came".into()
            }
            (Ending::Complete, _) => "the sender is done".into(),
            (Ending::Idle | Ending::Nothing, _) => format!(
                "nothing more came for {}",
                humantime::format_duration(self.patience.idle)
            ),
        }
    }
}

/// What the numbers alone do not say.
fn notes(report: &Report, ending: Ending) -> Vec<String> {
    let mut notes = Vec::new();
    let ignored = &report.ignored;
    for stream in &report.streams {
        if stream.sent.is_none() && ending != Ending::Interrupted {
            notes.push(
                "the sender's end marker did not come: what was sent last, and lost, is unknown"
                    .into(),
            );
        }
        if let (Some(plan), Some(sent_pps)) = (stream.plan, stream.sent_pps)
            && (sent_pps / f64::from(plan.rate_pps) - 1.0).abs() > 0.01
        {
            notes.push(format!(
                "it was sent at {sent_pps:.0} packets a second instead of {}: displacement grows \
                 with the rate",
                plan.rate_pps
            ));
        }
    }
    if ignored.socket_drops > 0 {
        notes.push(format!(
            "this host dropped {} packets because the receiver's socket was full: they are lost \
             here, not on the way. Raise net.core.rmem_max, or run as root",
            ignored.socket_drops
        ));
    }
    let mut senders = Vec::new();
    for other in &ignored.other_streams {
        match other.only_end_of {
            Some(sent) => notes.push(format!(
                "of {sent} packets sent by {} none came, only the word that they were all: they \
                 were lost on the way, or sent before this receiver listened",
                other.from
            )),
            None => senders.push(format!("{} ({} packets)", other.from, other.packets)),
        }
    }
    if !senders.is_empty() {
        notes.push(format!(
            "another run was sent here meanwhile and is not measured: {}",
            senders.join(", ")
        ));
    }
    notes
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::stamp::Plan;
    use super::*;
    use mpt_core::metrics::Form;

    const SECOND: u64 = 1_000_000_000;

    fn session() -> Session {
        let metrics = Metrics {
            displacement_threshold: 200,
            occupancy_threshold: 200,
            form: Form::Corrected,
        };
        let patience = Patience {
            idle: Duration::from_secs(5),
            first: Some(Duration::from_secs(60)),
        };
        Session::new(Numbering::Udp, metrics, patience, 0)
    }

    fn give(session: &mut Session, kind: Kind, stream: u64, number: u32, now_ns: u64) {
        let stamp = Stamp {
            kind,
            stream,
            number,
            plan: Plan {
                count: 10,
                frame_bytes: 100,
                rate_pps: 10,
            },
            sent_ns: u64::from(number) * SECOND / 10,
        };
        let received = Received {
            from: SocketAddr::from(([10, 0, 0, stream as u8], 4000)),
            echo_number: None,
            payload: &stamp.bytes(),
        };
        session.take(&received, now_ns);
    }

    #[test]
    fn late_packets_are_waited_for_after_the_end_marker() {
        let mut session = session();
        for number in [0, 1, 3] {
            give(&mut session, Kind::Data, 1, number, SECOND);
        }
        give(&mut session, Kind::End, 1, 4, SECOND);
        assert_eq!(session.ended(SECOND + LINGER_NS - 1), None);
        give(&mut session, Kind::Data, 1, 2, SECOND + LINGER_NS - 1);
        assert_eq!(session.ended(SECOND + LINGER_NS), None);
        assert_eq!(
            session.ended(SECOND + 2 * LINGER_NS),
            Some(Ending::Complete)
        );
        let report = session.report("here".into(), Ending::Complete, 0);
        let stream = &report.streams[0];
        assert_eq!(
            (stream.sent, stream.received, stream.lost),
            (Some(4), 4, Some(0))
        );
        assert_eq!(stream.order.reordering.reordered, 1);
        assert_eq!(report.notes, Vec::<String>::new());
    }

    #[test]
    fn a_second_sender_and_strangers_are_counted_and_prolong_nothing() {
        let mut session = session();
        give(&mut session, Kind::Data, 1, 0, 0);
        for number in 0..5 {
            give(&mut session, Kind::Data, 2, number, SECOND);
        }
        for payload in [&b"hello"[..], b"MPTm but no more"] {
            let received = Received {
                from: SocketAddr::from(([10, 0, 0, 9], 53)),
                echo_number: None,
                payload,
            };
            session.take(&received, 2 * SECOND);
        }
        give(&mut session, Kind::End, 2, 5, 5 * SECOND);
        assert_eq!(session.ended(5 * SECOND), Some(Ending::Idle));
        let report = session.report("here".into(), Ending::Idle, 0);
        assert_eq!(report.streams[0].received, 1);
        assert_eq!(report.ignored.strangers, 1);
        assert_eq!(report.ignored.malformed, 1);
        assert_eq!(report.ignored.other_streams[0].packets, 6);
        assert!(
            report
                .notes
                .iter()
                .any(|note| note.contains("10.0.0.2:4000"))
        );
    }

    #[test]
    fn a_plan_does_not_change_within_a_run() {
        let mut session = session();
        give(&mut session, Kind::Data, 1, 0, SECOND);
        let plan = Plan {
            count: u32::MAX,
            frame_bytes: 100,
            rate_pps: 10,
        };
        for kind in [Kind::Data, Kind::End] {
            let stamp = Stamp {
                kind,
                stream: 1,
                number: 1_000_000,
                plan,
                sent_ns: 0,
            };
            let received = Received {
                from: SocketAddr::from(([10, 0, 0, 9], 4000)),
                echo_number: None,
                payload: &stamp.bytes(),
            };
            session.take(&received, SECOND);
        }
        assert_eq!(session.ended(2 * SECOND), None);
        let report = session.report("here".into(), Ending::Interrupted, 0);
        assert_eq!(report.streams[0].received, 1);
        assert_eq!(report.ignored.malformed, 2);
    }

    #[test]
    fn many_senders_take_no_more_memory_than_a_few() {
        let mut session = session();
        for stream in 0..1000 {
            give(&mut session, Kind::Data, stream, 0, 0);
        }
        assert_eq!(session.ignored.other_streams.len(), OTHERS);
        assert_eq!(session.ignored.other_packets, 999 - OTHERS as u64);
    }

    #[test]
    fn nothing_received_is_an_empty_report() {
        let mut session = session();
        assert_eq!(session.ended(59 * SECOND), None);
        assert_eq!(session.ended(60 * SECOND), Some(Ending::Nothing));
        give(&mut session, Kind::End, 1, 10, 0);
        let report = session.report("here".into(), Ending::Nothing, 0);
        assert_eq!(report.ended, "no packet of a measurement came");
        assert!(report.streams.is_empty());
        let note = &report.notes[0];
        assert!(note.starts_with("of 10 packets sent by 10.0.0.1:4000 none came"));
        assert!(!report.json().contains("null") && !report.json().contains("NaN"));
    }

    #[test]
    fn numbers_that_go_backwards_are_late_or_copies() {
        let mut session = session();
        for number in [5, 4, 3, 3, 2] {
            give(&mut session, Kind::Data, 1, number, SECOND);
        }
        let report = session.report("here".into(), Ending::Interrupted, 0);
        let stream = &report.streams[0];
        assert_eq!((stream.received, stream.duplicates), (4, 1));
        assert_eq!(stream.order.reordering.reordered, 3);
        assert_eq!(stream.lost, Some(2));
    }
}

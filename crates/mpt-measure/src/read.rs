//! Measures what a capture file holds: tunnels by GRE's sequence numbers, and our own streams.
//!
//! A tunnel has one sequence over all its paths, and each direction its own. So GRE is told apart by
//! source address: each address is one path of one direction, and its order is that path's. The
//! order *over all paths*, as a receiver's window sees it, needs to be told which addresses belong
//! together; the sessions in MPT's probes say so, and the report's note repeats it.
//!
//! Where the host joins datagrams (UDP_SEGMENT, UDP_GRO) a capture shows whole trains as one. They
//! are cut again by the length of the first packet inside.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::IpAddr;

use mpt_core::endpoint::DEFAULT_PORT;
use mpt_core::wire::gre::{self, Protocol};
use mpt_core::wire::probe::Message;

use super::capture::{Capture, CaptureError, Frame};
use super::follow::{Follow, Held, Verdict};
use super::frame::{self, Content, Datagram, Packet, Skip};
use super::icmp::Half;
use super::numbering::Numbering;
use super::report::{Ignored, Report, Unread};
use super::stamp::{Kind, NotOurs, Stamp};
use super::stream::{Measured, Metrics};

/// Streams that are measured side by side; each takes about half a megabyte.
const STREAMS: usize = 64;
/// Reasons to pass over a frame that are told apart: a capture has one or two link types, a hostile one 65,536.
const SKIPS: usize = 16;
/// GRE's longest header, in bytes: with less of a packet its number may be missing.
const GRE_BYTES: usize = 16;
/// The longest datagram that is surely no train, in bytes.
const JUMBO: usize = 9216;

/// What to look for in a capture.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    /// UDP ports of GRE-in-UDP; where there are none, it is told by its headers on any port.
    pub(crate) ports: Vec<u16>,
    /// Sources that are one stream; each by itself where there is none.
    pub(crate) from: Vec<IpAddr>,
    pub(crate) metrics: Metrics,
}

impl Wanted {
    fn is_gre(&self, datagram: &Datagram<'_>) -> bool {
        if !self.ports.is_empty() {
            return self.ports.contains(&datagram.to_port);
        }
        // On its own port also what is malformed is GRE.
        datagram.to_port == DEFAULT_PORT || is_numbered_gre(datagram.payload)
    }
}

/// Whether it begins as what a tunnel sends does: no bit but those of key and sequence number, and a
/// protocol that is carried. That are 30 bits which others do not happen to have.
fn is_numbered_gre(payload: &[u8]) -> bool {
    let Ok((header, _)) = gre::parse(payload, gre_key(payload)) else {
        return false;
    };
    header.sequence.is_some() || matches!(header.protocol, Protocol::Control | Protocol::Sealed)
}

/// What tells one stream from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Gre {
        from: IpAddr,
        to: IpAddr,
        key: Option<u32>,
    },
    Joined {
        key: Option<u32>,
    },
    Own {
        stream: u64,
        reply: bool,
    },
}

/// A stream with its place in the order in which streams were first seen.
#[derive(Debug)]
struct Stream {
    measured: Measured,
    follow: Follow,
}

/// Reads a whole capture and reports on it; `at` names it.
///
/// # Errors
/// When it is no capture at all. One that ends badly is reported as far as it goes.
pub(crate) fn read(
    at: String,
    source: impl Read + Send + 'static,
    wanted: Wanted,
) -> Result<Report, CaptureError> {
    let mut capture = Capture::open(source)?;
    let mut reading = Reading::new(wanted);
    let ended = loop {
        match capture.next(|frame| reading.take(&frame)) {
            Ok(true) => {}
            Ok(false) => break format!("read to its end, {} frames", capture.frames()),
            Err(error) => break format!("the file {error}"),
        }
    };
    Ok(reading.report(at, ended))
}

#[derive(Debug)]
struct Reading {
    wanted: Wanted,
    streams: Vec<(Key, Stream)>,
    places: BTreeMap<Key, usize>,
    skipped: BTreeMap<Skip, u64>,
    /// The session that each source's probes named last.
    sessions: BTreeMap<IpAddr, u64>,
    strangers: u64,
    malformed: u64,
    unnumbered: u64,
    /// Trains that cannot be cut into packets.
    uncut: u64,
    /// Packets of trains whose numbers the capture did not keep.
    beyond_snap: u64,
    /// Packets of streams beyond those that are measured.
    further: u64,
}

impl Reading {
    fn new(wanted: Wanted) -> Self {
        Reading {
            wanted,
            streams: Vec::new(),
            places: BTreeMap::new(),
            skipped: BTreeMap::new(),
            sessions: BTreeMap::new(),
            strangers: 0,
            malformed: 0,
            unnumbered: 0,
            uncut: 0,
            beyond_snap: 0,
            further: 0,
        }
    }

    fn take(&mut self, frame: &Frame<'_>) {
        let packet = match frame::parse(frame.link, frame.bytes) {
            Ok(packet) => packet,
            Err(skip) => {
                let is_known = self.skipped.contains_key(&skip);
                let skip = match is_known || self.skipped.len() < SKIPS {
                    true => skip,
                    false => Skip::Broken,
                };
                *self.skipped.entry(skip).or_default() += 1;
                return;
            }
        };
        let wanted = &self.wanted;
        if !wanted.from.is_empty() && !wanted.from.contains(&packet.from) {
            self.strangers += 1;
            return;
        }
        match packet.content {
            Content::Udp(datagram) if wanted.is_gre(&datagram) => {
                self.take_train(&packet, &datagram, frame.at_ns);
            }
            Content::Udp(datagram) => {
                self.take_own(
                    &packet,
                    datagram.payload,
                    datagram.length,
                    None,
                    frame.at_ns,
                );
            }
            Content::Echo(echo) => {
                let number = Some((echo.number, echo.half));
                self.take_own(&packet, echo.data, echo.data.len(), number, frame.at_ns);
            }
        }
    }

    fn take_own(
        &mut self,
        packet: &Packet<'_>,
        payload: &[u8],
        length: usize,
        echo: Option<(u16, Half)>,
        at_ns: u64,
    ) {
        let stamp = match Stamp::parse(payload) {
            Ok(stamp) => stamp,
            Err(NotOurs::Stranger) => {
                self.strangers += 1;
                return;
            }
            Err(NotOurs::Malformed) => {
                self.malformed += 1;
                return;
            }
        };
        let (wire, numbering) = match echo {
            None => (stamp.number, Numbering::Udp),
            Some((number, Half::Request)) => (number.into(), Numbering::IcmpRequest),
            Some((number, Half::Reply)) => (number.into(), Numbering::IcmpReply),
        };
        let key = Key::Own {
            stream: stamp.stream,
            reply: numbering == Numbering::IcmpReply,
        };
        let metrics = self.wanted.metrics;
        let ends = (Some(packet.from), Some(packet.to));
        let begin = || Measured::of_stamp(numbering, &stamp, ends, metrics);
        let Some(stream) = self.stream(key, begin) else {
            return;
        };
        if !stream.measured.fits(&stamp) {
            self.malformed += 1;
            return;
        }
        match stamp.kind {
            Kind::Data => {
                let bytes = u32::try_from(length).unwrap_or(u32::MAX);
                stream.measured.take_stamp(&stamp, wire, bytes, at_ns);
            }
            Kind::End => stream.measured.end(stamp.number),
        }
    }

    fn take_train(&mut self, packet: &Packet<'_>, datagram: &Datagram<'_>, at_ns: u64) {
        let mut rest = datagram.payload;
        let mut left = datagram.length;
        let segment = segment_bytes(rest).filter(|&bytes| bytes < left);
        if segment.is_none() && left > JUMBO {
            self.uncut += 1;
        }
        while left > 0 {
            let length = segment.map_or(left, |bytes| bytes.min(left));
            let seen = length.min(rest.len());
            if seen < length && seen < GRE_BYTES {
                self.beyond_snap += 1;
            } else {
                self.take_gre(packet, &rest[..seen], length, at_ns);
            }
            rest = &rest[seen..];
            left -= length;
        }
    }

    fn take_gre(&mut self, packet: &Packet<'_>, bytes: &[u8], length: usize, at_ns: u64) {
        let key = gre_key(bytes);
        let Ok((header, at)) = gre::parse(bytes, key) else {
            self.malformed += 1;
            return;
        };
        if header.protocol == Protocol::Control {
            if let Ok(message) = Message::parse(bytes.get(at..).unwrap_or_default()) {
                self.take_session(packet, key, message.session);
            }
            return;
        }
        if header.protocol == Protocol::Sealed && header.sequence.is_none() {
            // A control message that is sealed.
            return;
        }
        let Some(sequence) = header.sequence else {
            self.unnumbered += 1;
            return;
        };
        let held = Held {
            number: sequence.value(),
            bytes: u32::try_from(length - at.min(length)).unwrap_or(u32::MAX),
            at_ns,
        };
        let metrics = self.wanted.metrics;
        let ends = if self.wanted.from.is_empty() {
            (Some(packet.from), Some(packet.to))
        } else {
            (None, None)
        };
        let begin = || Measured::new(Numbering::Gre, ends, metrics);
        let key = self.key_of(packet, key);
        if let Some(stream) = self.stream(key, begin) {
            stream.take_gre(held);
        }
    }

    /// A new session of the same sender begins its numbers anew.
    fn take_session(&mut self, packet: &Packet<'_>, key: Option<u32>, session: u64) {
        let before = self.sessions.insert(packet.from, session);
        // Paths come and go; a table of sources must not grow without end.
        if self.sessions.len() > STREAMS {
            self.sessions.pop_first();
        }
        if before.is_none_or(|before| before == session) {
            return;
        }
        // Joined paths have one session: the first of them that tells of a new one is enough.
        let joined = self.wanted.from.iter().filter(|from| **from != packet.from);
        let told = joined.filter_map(|from| self.sessions.get(from));
        if told.into_iter().any(|&other| other == session) {
            return;
        }
        let key = self.key_of(packet, key);
        if let Some(&place) = self.places.get(&key) {
            let stream = &mut self.streams[place].1;
            let strays = stream.follow.forget();
            stream.measured.stray(strays);
            stream.measured.restart();
        }
    }

    fn key_of(&self, packet: &Packet<'_>, key: Option<u32>) -> Key {
        if self.wanted.from.is_empty() {
            Key::Gre {
                from: packet.from,
                to: packet.to,
                key,
            }
        } else {
            Key::Joined { key }
        }
    }

    fn stream(&mut self, key: Key, begin: impl FnOnce() -> Measured) -> Option<&mut Stream> {
        let place = match self.places.get(&key) {
            Some(&place) => place,
            None if self.streams.len() < STREAMS => {
                let stream = Stream {
                    measured: begin(),
                    follow: Follow::default(),
                };
                self.streams.push((key, stream));
                self.places.insert(key, self.streams.len() - 1);
                self.streams.len() - 1
            }
            None => {
                self.further += 1;
                return None;
            }
        };
        self.streams.get_mut(place).map(|(_, stream)| stream)
    }

    fn report(self, at: String, ended: String) -> Report {
        let mut notes = self.notes();
        if self.streams.is_empty() {
            let ports: Vec<String> = self.wanted.ports.iter().map(u16::to_string).collect();
            notes.push(match ports.is_empty() {
                true => "no numbered GRE-in-UDP and no measurement's packet is in it".to_owned(),
                false => format!(
                    "no numbered GRE to UDP port {} and no measurement's packet is in it",
                    ports.join(" or ")
                ),
            });
        }
        let from = &self.wanted.from;
        let streams = self.streams.into_iter().map(|(key, mut stream)| {
            let strays = stream.follow.drop_held();
            stream.measured.stray(strays);
            stream.measured.report(&key.name(from))
        });
        let frames = self.skipped.iter().map(|(skip, &frames)| Unread {
            why: skip.name(),
            frames,
        });
        Report {
            at,
            ended,
            notes,
            streams: streams.collect(),
            round_trip: None,
            ignored: Ignored {
                strangers: self.strangers,
                malformed: self.malformed,
                other_packets: self.further,
                frames: frames.collect(),
                ..Ignored::default()
            },
        }
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let mut ends: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        for (from, &session) in &self.sessions {
            ends.entry(session).or_default().push(from.to_string());
        }
        if self.wanted.from.is_empty() {
            for paths in ends.values().filter(|paths| paths.len() > 1) {
                notes.push(format!(
                    "{} are paths of one tunnel: `--from {}` measures them as its receiver sees \
                     them. By itself each lacks the numbers that went another way, which buffer \
                     occupancy waits for",
                    paths.join(" and "),
                    paths.join(",")
                ));
            }
        }
        for skip in self.skipped.keys() {
            if let Skip::LinkType(number) = skip {
                notes.push(format!(
                    "frames of link type {number} are not read; capture Ethernet, IP or \"any\""
                ));
            }
        }
        let steps = self.streams.iter();
        let steps = steps.filter_map(|(_, stream)| stream.measured.span().steps());
        if let Some((times, seconds)) = steps.reduce(|a, b| (a.0.max(b.0), a.1.max(b.1))) {
            let times = match times {
                1 => "once".to_owned(),
                times => format!("{times} times"),
            };
            notes.push(format!(
                "times in the capture step back within a stream, {times}, by up to {seconds:.1} s: the clock was set, \
                 or the file has several captures. Seconds and rates leave these steps out; delays and how late \
                 packets came are wrong"
            ));
        }
        if self.unnumbered > 0 {
            notes.push(format!(
                "{} GRE packets bear no sequence number: their order cannot be measured",
                self.unnumbered
            ));
        }
        if self.beyond_snap > 0 {
            notes.push(format!(
                "the capture kept the beginning of each train alone: {} packets behind it are \
                 missing here. Capture whole frames (`tcpdump -s 0`)",
                self.beyond_snap
            ));
        }
        if self.uncut > 0 {
            notes.push(format!(
                "{} datagrams are trains that cannot be cut, as what is in them is encrypted; \
                 capture with `ethtool -K DEV rx-gro-list off rx-udp-gro-forwarding off gro off`",
                self.uncut
            ));
        }
        notes
    }
}

impl Stream {
    fn take_gre(&mut self, held: Held) {
        match self.follow.judge(held) {
            Verdict::Take { strays } => {
                self.measured.stray(strays);
                self.measured.take(held.number, held.bytes, held.at_ns);
            }
            Verdict::Hold { strays } => self.measured.stray(strays),
            Verdict::Restart(packets) => {
                self.measured.restart();
                for held in packets {
                    self.measured.take(held.number, held.bytes, held.at_ns);
                }
            }
        }
    }
}

impl Key {
    fn name(&self, joined: &[IpAddr]) -> String {
        let keyed = |key: &Option<u32>| key.map_or(String::new(), |key| format!(", key {key}"));
        match self {
            Key::Gre { from, to, key } => format!("GRE {from} → {to}{}", keyed(key)),
            Key::Joined { key } => {
                let from: Vec<String> = joined.iter().map(IpAddr::to_string).collect();
                format!("GRE from {} together{}", from.join(" and "), keyed(key))
            }
            Key::Own { stream, reply } => {
                let reply = if *reply { ", replies" } else { "" };
                format!("measurement {stream:016x}{reply}")
            }
        }
    }
}

/// The key that a GRE packet bears, whichever that is.
fn gre_key(bytes: &[u8]) -> Option<u32> {
    let flags = u16::from_be_bytes(*bytes.first_chunk::<2>()?);
    let at = if flags & 0x8000 == 0 { 4 } else { 8 };
    let key = bytes.get(at..)?.first_chunk::<4>()?;
    (flags & 0x2000 != 0).then(|| u32::from_be_bytes(*key))
}

/// Length of the first GRE packet of what may be a train, from the IP packet in it.
fn segment_bytes(bytes: &[u8]) -> Option<usize> {
    let (header, at) = gre::parse(bytes, gre_key(bytes)).ok()?;
    let inner = bytes.get(at..)?;
    let half = |at: usize| {
        let half = inner.get(at..)?.first_chunk::<2>()?;
        Some(usize::from(u16::from_be_bytes(*half)))
    };
    let length = match header.protocol {
        Protocol::Ipv4 => half(2)?,
        Protocol::Ipv6 => 40 + half(4)?,
        Protocol::Control | Protocol::Sealed => return None,
    };
    // Shorter than its own header it says nothing.
    (length >= 20).then_some(at + length)
}

#[cfg(test)]
mod tests;

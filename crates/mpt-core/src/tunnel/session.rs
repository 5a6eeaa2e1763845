//! Whom to believe about sequence numbers.
//!
//! One forged or replayed packet must not move the reorder window far. There are two kinds of peer.
//!
//! One that probes has a session, random and new at each start. A new session is believed only when
//! its message echoes a message that we sent a moment ago, so that a recording cannot pass for a
//! restart; then numbering begins anew where that message says. A session that was just replaced
//! does not come back: what is still under way of it is not a restart. Within a session, only a probe's
//! watermark moves the window to another place, and only when it comes with a fresh echo, another one agrees a while
//! later, and nothing fits meanwhile: a path that takes a second longer than another one, which carries a gigabit, tells of
//! numbers that are as far away.
//!
//! One that does not probe (the kernel's GRE, the MPT-GRE software) can show a restart only by its
//! numbers. As RFC 3550 A.1 does, a jump is believed after several packets in a row that fit each
//! other: in a row on one path, since paths differ in delay. Going back is going back to the
//! beginning, as a sender does that starts anew (RFC 2890 §2.2); other old numbers are a recording.
//!
//! Either kind may lose more packets than the window believes at once. Such a jump ahead, still
//! within the same numbering, is believed after as many packets in a row, though not right after a
//! restart, when what is under way from before looks just like it.
//!
//! In a sealed tunnel nothing is forged, and the handshake tells the session ([`super::sealing`]).

use std::time::Duration;

use crate::path::{MAX_PATHS, PathId};
use crate::seq::Seq;
use crate::time::Time;

/// Packets in a row that confirm a jump of a peer that does not probe.
const CONFIRMATIONS: u32 = 4;
/// How far each of them may be ahead of the one before: paths differ in delay.
const CONFIRMATION_STRIDE: i32 = 1024;
/// A peer that still sends data but no probe for this long has been replaced by one that does not
/// probe.
const PROBES_EXPECTED_WITHIN: Duration = Duration::from_secs(10);

/// A watermark that is far away is believed when another one agrees this much later, and nothing fitted meanwhile. Half of
/// the time between two probes (DESIGN: `keepalive`, 200 ms): those that a link held up come together, in less.
const FAR_FOR: Duration = Duration::from_millis(100);

/// How long packets of a former session may be under way.
const FORMER_UNDER_WAY: Duration = Duration::from_secs(1);

/// What is known of the peer.
#[derive(Debug, Default)]
pub(super) struct Peer {
    session: Option<u64>,
    /// All that comes is sealed by the peer.
    authentic: bool,
    /// The session that the present one replaced.
    former: Option<u64>,
    /// When the present session proved itself.
    began: Option<Time>,
    last_message: Time,
    /// Whether the numbering is known.
    started: bool,
    /// The packets on each path that ask for a jump.
    candidates: [Option<Candidate>; MAX_PATHS],
    /// A watermark that was too far away to be believed alone, and when it came.
    far_watermark: Option<(Time, Seq)>,
}

/// Unbelievable packets in a row that fit each other.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    last: Seq,
    packets: u32,
}

/// Where an unbelievable number lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Where {
    /// Ahead, in the same numbering.
    Ahead,
    /// Far ahead: of another numbering, or after a very long silence.
    FarAhead,
    /// Behind: old, or the sender began anew.
    Behind,
}

/// What a packet with an unbelievable number is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Jump {
    /// Not believed: drop it.
    Refused,
    /// Confirmed: numbering goes on from here.
    Believed,
}

impl Peer {
    /// Everything is sealed by the peer: its numbers are believed however far ahead they are. Back
    /// they never go without a handshake.
    pub(super) fn set_authentic(&mut self) {
        self.authentic = true;
    }

    pub(super) fn session(&self) -> Option<u64> {
        self.session
    }

    /// Whether the peer is one that probes.
    pub(super) fn probes(&self) -> bool {
        self.session.is_some()
    }

    /// A message of the known session arrived.
    pub(super) fn heard(&mut self, now: Time) {
        self.last_message = now;
    }

    /// Whether this session was replaced so lately that its messages may still be under way.
    pub(super) fn is_former(&self, now: Time, session: u64) -> bool {
        self.former == Some(session) && self.is_young(now)
    }

    fn is_young(&self, now: Time) -> bool {
        self.began
            .is_some_and(|at| now.since(at) < FORMER_UNDER_WAY)
    }

    /// A session proved itself. Returns whether it replaces another one.
    pub(super) fn begin(&mut self, now: Time, session: u64) -> bool {
        self.last_message = now;
        self.began = Some(now);
        self.candidates = [None; MAX_PATHS];
        self.far_watermark = None;
        let before = self.session.replace(session);
        if before.is_some() {
            self.former = before;
        }
        before.is_some()
    }

    /// Something arrived that says where numbering is. Returns whether it is the very first.
    pub(super) fn is_first(&mut self) -> bool {
        !std::mem::replace(&mut self.started, true)
    }

    /// A data packet arrived; forgets the session of a peer that has long stopped probing, and says
    /// when that happened.
    /// `expected_since`: from when on it should probe at all, since the tunnel carries something.
    pub(super) fn notice_silence(&mut self, now: Time, expected_since: Time) -> bool {
        let silent_since = self.last_message.max(expected_since);
        let replaced = self.session.is_some() && now.since(silent_since) >= PROBES_EXPECTED_WITHIN;
        if replaced {
            self.session = None;
        }
        replaced
    }

    /// A packet with a believable number arrived on the path: what asked for a jump before was not
    /// in a row.
    #[inline]
    pub(super) fn fits(&mut self, path: PathId) {
        self.candidates[path.index()] = None;
        self.far_watermark = None;
    }

    /// A watermark is believable: one that was not is of a path that is far behind the others, or ahead of them.
    pub(super) fn watermark_fits(&mut self) {
        self.far_watermark = None;
    }

    /// A data packet has a number that the window does not believe, or knows already.
    pub(super) fn consider_jump(
        &mut self,
        now: Time,
        path: PathId,
        seq: Seq,
        place: Where,
    ) -> Jump {
        if self.authentic && place != Where::Behind {
            return Jump::Believed;
        }
        let possible = match place {
            Where::Ahead => !self.is_young(now),
            Where::FarAhead | Where::Behind => !self.probes(),
        };
        if !possible {
            return Jump::Refused;
        }
        let candidate = &mut self.candidates[path.index()];
        let packets = match *candidate {
            Some(Candidate { last, packets })
                if (1..=CONFIRMATION_STRIDE).contains(&seq.distance_from(last)) =>
            {
                packets + 1
            }
            _ if place == Where::Behind && seq.value() > CONFIRMATION_STRIDE as u32 => 0,
            _ => 1,
        };
        *candidate = (packets > 0).then_some(Candidate { last: seq, packets });
        if packets < CONFIRMATIONS {
            return Jump::Refused;
        }
        self.candidates = [None; MAX_PATHS];
        Jump::Believed
    }

    /// A watermark of the known session, with a fresh echo, is too far away. Believed when one that came [`FAR_FOR`]
    /// before was so too, and not ahead of it, and nothing has fitted since. What is sealed never goes back.
    pub(super) fn consider_watermark(&mut self, now: Time, watermark: Seq, place: Where) -> Jump {
        if self.authentic && place == Where::Behind {
            return Jump::Refused;
        }
        match self.far_watermark {
            Some((at, before)) if !before.is_after(watermark) => {
                if now.since(at) < FAR_FOR {
                    return Jump::Refused;
                }
                self.far_watermark = None;
                Jump::Believed
            }
            _ => {
                self.far_watermark = Some((now, watermark));
                Jump::Refused
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_nanos(10_000_000_000);

    /// The verdicts on `packets`, path and number.
    fn verdicts(peer: &mut Peer, now: Time, place: Where, packets: &[(usize, u32)]) -> Vec<bool> {
        let verdict = |&(path, seq): &(usize, u32)| {
            let path = PathId::new(path).unwrap();
            peer.consider_jump(now, path, Seq::new(seq), place) == Jump::Believed
        };
        packets.iter().map(verdict).collect()
    }

    #[test]
    fn a_jump_without_probes_needs_packets_in_a_row() {
        let million = 1_000_000;
        let packets = [0, 1, 1, 2, 3, 10].map(|n| (0, million + n)); // a replay confirms nothing
        let believed = verdicts(&mut Peer::default(), NOW, Where::FarAhead, &packets);
        assert_eq!(believed, [false, false, false, false, false, true]);
    }

    #[test]
    fn in_a_row_is_on_one_path() {
        let packets = [
            (0, 500),
            (1, 90),
            (0, 501),
            (1, 91),
            (0, 502),
            (1, 92),
            (0, 503),
        ];
        let believed = verdicts(&mut Peer::default(), NOW, Where::Behind, &packets);
        assert_eq!(believed, [false, false, false, false, false, false, true]);
        let mut peer = Peer::default();
        verdicts(&mut peer, NOW, Where::Behind, &packets[..5]);
        peer.fits(PathId::new(0).unwrap());
        assert_eq!(
            verdicts(&mut peer, NOW, Where::Behind, &packets[6..]),
            [false]
        );
    }

    #[test]
    fn going_back_is_going_back_to_the_beginning() {
        let packets: Vec<_> = (0..100).map(|n| (0, 5000 + n)).collect();
        let believed = verdicts(&mut Peer::default(), NOW, Where::Behind, &packets);
        assert!(!believed.contains(&true));
    }

    #[test]
    fn data_of_a_peer_that_probes_never_leave_the_numbering() {
        let mut peer = Peer::default();
        peer.begin(NOW - FORMER_UNDER_WAY, 7);
        let packets: Vec<_> = (0..100).map(|n| (0, n)).collect();
        for place in [Where::FarAhead, Where::Behind] {
            assert!(!verdicts(&mut peer, NOW, place, &packets).contains(&true));
        }
        assert!(verdicts(&mut peer, NOW, Where::Ahead, &packets).contains(&true));
    }

    #[test]
    fn what_is_under_way_of_a_former_session_moves_nothing() {
        let mut peer = Peer::default();
        peer.begin(NOW, 7);
        peer.begin(NOW, 8);
        let packets: Vec<_> = (0..100).map(|n| (0, 5000 + n)).collect();
        assert!(!verdicts(&mut peer, NOW, Where::Ahead, &packets).contains(&true));
        assert!(peer.is_former(NOW, 7) && !peer.is_former(NOW, 8));
        assert!(!peer.is_former(NOW + FORMER_UNDER_WAY, 7));
    }

    #[test]
    fn a_far_watermark_needs_a_second_one_that_agrees() {
        let mut peer = Peer::default();
        peer.begin(Time::ZERO, 7);
        let mut consider = |ms: u64, seq, fits| {
            if fits {
                peer.fits(PathId::new(0).unwrap());
            }
            let now = NOW + Duration::from_millis(ms);
            peer.consider_watermark(now, Seq::new(seq), Where::Behind) == Jump::Believed
        };
        assert!(!consider(0, 900_000, false));
        assert!(!consider(200, 100_000, false));
        assert!(!consider(210, 100_400, false), "at once");
        assert!(consider(400, 100_500, false));
        // Of a path that is far behind, while others fit.
        for ms in [1000, 1200, 1400] {
            assert!(!consider(ms, 50_000, true));
        }
        let mut sealed = Peer::default();
        sealed.set_authentic();
        sealed.begin(Time::ZERO, 7);
        for at in [0, 1, 2] {
            let now = NOW + FAR_FOR * at;
            let jump = sealed.consider_watermark(now, Seq::new(5), Where::Behind);
            assert_eq!(jump, Jump::Refused);
        }
    }
}

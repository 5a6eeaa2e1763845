//! Whom to believe about sequence numbers.
//!
//! One forged or replayed packet must not move the reorder window far. There are two kinds of peer.
//!
//! One that probes has a session, random and new at each start. A new session is believed only when
//! its message echoes a message that we sent a moment ago, so that a recording cannot pass for a
//! restart; then numbering begins anew where that message says. Within a session, only a probe's
//! watermark moves the window far, and only when the next probe agrees; never a data packet.
//!
//! One that does not probe (the kernel's GRE, the MPT-GRE software) can show a restart only by its
//! numbers. As RFC 3550 A.1 does, a jump is believed after several packets in a row that fit each
//! other.

use std::time::Duration;

use crate::seq::Seq;
use crate::time::Time;

/// Packets in a row that confirm a jump of a peer that does not probe.
const CONFIRMATIONS: u32 = 4;
/// How far each of them may be ahead of the one before: paths differ in delay.
const CONFIRMATION_STRIDE: i32 = 1024;
/// A peer that still sends data but no probe for this long has been replaced by one that does not
/// probe.
const PROBES_EXPECTED_WITHIN: Duration = Duration::from_secs(10);

/// What is known of the peer.
#[derive(Debug, Default)]
pub(super) struct Peer {
    session: Option<u64>,
    last_message: Time,
    /// Whether any sequence number has been accepted yet.
    started: bool,
    /// The last of the packets that ask for a jump, and how many there were in a row.
    candidate: Option<(Seq, u32)>,
    /// A watermark that was too far away to be believed alone.
    far_watermark: Option<Seq>,
}

/// What a packet with an unbelievable number is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Jump {
    /// Not believed: drop it.
    Refused,
    /// Confirmed: numbering goes on from this packet.
    Believed,
}

impl Peer {
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

    /// A session proved itself. Returns whether it replaces another one.
    pub(super) fn begin(&mut self, now: Time, session: u64) -> bool {
        self.last_message = now;
        self.candidate = None;
        self.far_watermark = None;
        self.session.replace(session).is_some()
    }

    /// A data packet arrived. Returns whether it is the very first, which sets the numbering.
    pub(super) fn is_first_packet(&mut self) -> bool {
        !std::mem::replace(&mut self.started, true)
    }

    /// A data packet arrived; forgets the session of a peer that has long stopped probing, and says
    /// when that happened.
    pub(super) fn notice_silence(&mut self, now: Time) -> bool {
        let replaced =
            self.session.is_some() && now.since(self.last_message) >= PROBES_EXPECTED_WITHIN;
        if replaced {
            self.session = None;
        }
        replaced
    }

    /// A data packet has a number that the window does not believe.
    pub(super) fn consider_jump(&mut self, seq: Seq) -> Jump {
        if self.probes() {
            return Jump::Refused;
        }
        let confirmed = match self.candidate {
            Some((last, times)) if (1..=CONFIRMATION_STRIDE).contains(&seq.distance_from(last)) => {
                times + 1
            }
            _ => 1,
        };
        if confirmed < CONFIRMATIONS {
            self.candidate = Some((seq, confirmed));
            return Jump::Refused;
        }
        self.candidate = None;
        Jump::Believed
    }

    /// A watermark of the known session is too far away. Believed when the one before was so too,
    /// and not ahead of it.
    pub(super) fn consider_watermark(&mut self, watermark: Seq) -> Jump {
        match self.far_watermark.take() {
            Some(before) if !before.is_after(watermark) => Jump::Believed,
            _ => {
                self.far_watermark = Some(watermark);
                Jump::Refused
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jump_without_probes_needs_packets_in_a_row() {
        let mut peer = Peer::default();
        for (seq, verdict) in [
            (1_000_000, Jump::Refused),
            (1_000_001, Jump::Refused),
            (1_000_001, Jump::Refused), // a replay does not confirm
            (1_000_002, Jump::Refused),
            (1_000_003, Jump::Refused),
            (1_000_010, Jump::Believed),
        ] {
            assert_eq!(peer.consider_jump(Seq::new(seq)), verdict, "{seq}");
        }
    }

    #[test]
    fn data_of_a_peer_that_probes_never_jump() {
        let mut peer = Peer::default();
        peer.begin(Time::ZERO, 7);
        for seq in 0..100 {
            assert_eq!(peer.consider_jump(Seq::new(1_000_000 + seq)), Jump::Refused);
        }
    }

    #[test]
    fn a_far_watermark_needs_a_second_one_that_agrees() {
        let mut peer = Peer::default();
        peer.begin(Time::ZERO, 7);
        assert_eq!(peer.consider_watermark(Seq::new(900_000)), Jump::Refused);
        assert_eq!(peer.consider_watermark(Seq::new(100_000)), Jump::Refused);
        assert_eq!(peer.consider_watermark(Seq::new(100_500)), Jump::Believed);
    }
}

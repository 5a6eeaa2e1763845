//! A data packet on its way to the reorder window, and what its arrival tells.

use super::Inbound;
use crate::control::drops::DropReason;
use crate::path::PathId;
use crate::receive::buffer::Stored;
use crate::receive::reorder::{MAX_DISTANCE, Verdict};
use crate::seq::Seq;
use crate::time::Time;
use crate::tunnel::event::Event;
use crate::tunnel::reporting::Received;
use crate::tunnel::session::{Jump, Where};
use crate::wire::mss;

impl Inbound {
    /// A data packet arrived on the path.
    #[inline]
    pub(super) fn hear_data(&mut self, now: Time, id: PathId) {
        if let Some(path) = &mut self.paths[id.index()]
            && path.rhythm.heard() != Some(now)
        {
            self.unsettled |= !path.is_waited_for(now);
            path.rhythm.hear(now);
            self.touch(now);
            self.notice_silence(now);
        }
    }

    fn notice_silence(&mut self, now: Time) {
        let expected_since = self.activity.expected_since();
        if self.opening.is_none() && self.peer.notice_silence(now, expected_since) {
            self.events.push(Event::PeerStoppedProbing);
            self.unsettled = true;
        }
    }

    /// A packet arrived at the path's socket, in a datagram of so many bytes. It counts for the path if it came `from_peer`: from
    /// where the path's peer is known to be.
    pub(super) fn handle_packet(
        &mut self,
        now: Time,
        path: PathId,
        sequence: Option<Seq>,
        mut packet: Stored,
        datagram_len: usize,
        from_peer: bool,
    ) {
        self.window.retain(packet);
        if self.clamps_mss {
            // What comes from the peer asks our side for segments: those must fit our way out.
            let mtu = self.shared.mtu();
            mss::clamp(self.window.packet_mut(packet), mtu, false);
        }
        let Some(seq) = sequence else {
            self.window.push(packet);
            return;
        };
        if self.peer.is_first() {
            self.window.begin(seq);
        }
        let missing_before = self.window.reorder().counters().gaps_seen;
        let counts_for = from_peer.then_some(path);
        let mut verdict = self.window.insert(now, counts_for, seq, packet);
        if let Some(place) = place_of(seq, self.window.reorder().next_expected(), verdict)
            && self.peer.consider_jump(now, path, seq, place) == Jump::Believed
        {
            match place {
                Where::Ahead => self.window.believe(seq),
                Where::FarAhead | Where::Behind => {
                    self.window.resync(now, seq);
                    self.order.begin_numbering();
                    packet.number = Some(self.order.number(seq));
                }
            }
            verdict = self.window.insert(now, counts_for, seq, packet);
        }
        if verdict != Verdict::Unbelievable {
            let number = self.order.number(seq);
            self.order.arrive(now, path, number, packet.len);
            if from_peer {
                let is_copy = verdict == Verdict::Duplicate;
                self.report_arrival(now, path, seq, datagram_len, is_copy, missing_before);
            }
        }
        let why = match verdict {
            Verdict::Taken => {
                self.peer.fits(path);
                self.window.pass(now, seq);
                return;
            }
            Verdict::Duplicate => DropReason::Duplicate,
            Verdict::LateDropped => DropReason::Late,
            Verdict::Unbelievable if self.window.push_unbelieved(packet) => return,
            Verdict::Unbelievable if self.window.reorder().next_expected().is_after(seq) => {
                DropReason::Stale
            }
            Verdict::Unbelievable => DropReason::Jump,
        };
        self.drops.count(why, 1);
        self.window.release(packet.buffer);
    }

    /// Reports tell of a packet that arrived.
    #[inline]
    pub(super) fn report_arrival(
        &mut self,
        now: Time,
        path: PathId,
        seq: Seq,
        bytes: usize,
        is_copy: bool,
        missing_before: u64,
    ) {
        let received = Received {
            seq,
            bytes,
            at: self.arrived,
        };
        let (reporting, reorder) = (&mut self.reporting, self.window.reorder());
        reporting.note_arrival(now, path, received, is_copy, missing_before, reorder);
    }
}

/// Where a packet asks the window to go: beyond what it believes, or, when it was delivered before,
/// perhaps to the beginning.
fn place_of(seq: Seq, expected: Seq, verdict: Verdict) -> Option<Where> {
    let ahead = seq.distance_from(expected);
    match verdict {
        Verdict::Taken | Verdict::LateDropped => None,
        Verdict::Duplicate => (ahead < 0).then_some(Where::Behind),
        Verdict::Unbelievable if ahead < 0 => Some(Where::Behind),
        Verdict::Unbelievable if ahead < MAX_DISTANCE as i32 => Some(Where::Ahead),
        Verdict::Unbelievable => Some(Where::FarAhead),
    }
}

//! Where a numbering begins, and which numbers are believed.

use super::account::Cause;
use super::{MAX_DISTANCE, Reorder};
use crate::seq::Seq;
use crate::time::Time;

impl<T: Copy + Default> Reorder<T> {
    /// `first` is the first number that was heard of, before anything was inserted, and less than a window ahead of the
    /// expected one: what lies between was perhaps sent to somebody else.
    pub fn hear_of(&mut self, first: Seq) {
        self.high = first;
        self.placed = first;
        self.first_known = first;
    }

    /// What was sent from `first` on was sent to this end.
    pub fn know_from(&mut self, first: Seq) {
        let first = first.later(self.next);
        if self.first_known.is_after(first) {
            let gaps = self.missing_between(first, self.first_known);
            self.account.counters.gaps_seen += u64::from(gaps);
            self.first_known = first;
        }
    }

    /// Expects `first`, before anything was inserted: numbers below it are late, not duplicates.
    pub fn begin_at(&mut self, first: Seq) {
        self.next = first;
        self.high = first;
        self.placed = first;
        self.announced = first;
        self.first_known = first;
        self.inference.reset(first);
    }

    /// Counts all numbers below the expected one as delivered: what comes late now was sent to
    /// somebody else, or is a recording.
    pub fn close_past(&mut self) {
        self.delivered.set_all();
    }

    /// Releases everything and expects `first`: the sender began anew. Numbers below `first` count
    /// as delivered: packets of the former numbering must not come again in the guise of late ones.
    pub fn resync(&mut self, now: Time, first: Seq, out: &mut impl FnMut(T)) {
        self.advance(now, self.high, Cause::InferredLost, out);
        self.begin_at(first);
        self.arrivals.clear();
        self.close_past();
    }

    /// Says that the packet with number `seq` has been sent, however unbelievable it looks. Only for
    /// numbers less than [`MAX_DISTANCE`] ahead; others ask for [`Reorder::resync`].
    pub fn believe(&mut self, seq: Seq) {
        if (0..MAX_DISTANCE as i32).contains(&seq.distance_from(self.next)) {
            self.announced = seq;
        }
    }

    /// Whether one packet with this number is enough to believe it.
    pub(super) fn is_believable(&self, seq: Seq) -> bool {
        let ahead = seq.distance_from(self.next);
        if ahead < 0 {
            return ahead > -(MAX_DISTANCE as i32);
        }
        seq.distance_from(self.known()) < self.config.believed as i32
    }

    /// One past the highest number that is known to have been sent.
    pub(super) fn known(&self) -> Seq {
        let beyond = self.announced.distance_from(self.high);
        // What was announced further away was announced 2^31 numbers ago.
        if (0..MAX_DISTANCE as i32).contains(&beyond) {
            self.announced
        } else {
            self.high
        }
    }
}

//! What a suspected path took is stranded there: it goes again over others, the oldest first, whether it is lost or not.

use super::{Recovery, is_missing};
use crate::path::PathId;
use crate::seq::Seq;
use crate::time::Time;

impl Recovery {
    /// `path` is suspected: what is under way on it is to be sent again over others.
    pub(crate) fn strand(&mut self, path: PathId) {
        let edge = self.paths[path.index()].edge.map(|(edge, ..)| edge);
        for (seq, kept) in self.kept.iter_mut() {
            let is_under_way = kept.path == path && !kept.bound && !kept.rescued;
            let is_told_of = edge.is_some_and(|edge| !seq.is_after(edge))
                && !is_missing(&self.missing, self.high, seq);
            if is_under_way && !is_told_of && !kept.stranded {
                kept.stranded = true;
                kept.due = false;
                self.stranded.push_back(seq);
            }
        }
        let kept = &self.kept;
        let is_due = |&seq: &Seq| kept.get(seq).is_some_and(|kept| kept.due);
        self.due.retain(is_due);
        let first = self.kept.first();
        let place = |&seq: &Seq| seq.distance_from(first);
        self.stranded.make_contiguous().sort_by_key(place);
    }

    /// `path` answers: what was to be sent again over others for it need not be.
    pub(crate) fn unstrand(&mut self, path: PathId) {
        let kept = &mut self.kept;
        self.stranded.retain(|&seq| match kept.get_mut(seq) {
            Some(kept) if kept.path == path => {
                kept.stranded = false;
                false
            }
            other => other.is_some(),
        });
    }

    /// How many packets are.
    pub(crate) fn stranded(&self) -> usize {
        self.stranded.len()
    }

    /// Whether any are.
    pub(crate) fn has_stranded(&self) -> bool {
        !self.stranded.is_empty()
    }

    /// The packet that is to be sent again first for the path that it is under way on: that path, its number
    /// and outer TOS. It is [`Recovery::packet`]. Say with [`Recovery::rescued`] where it went.
    pub(crate) fn next_stranded(&mut self) -> Option<(PathId, Seq, u8)> {
        while let Some(&seq) = self.stranded.front() {
            if let Some(kept) = self.kept.get_mut(seq) {
                let edge = self.paths[kept.path.index()].edge;
                let passed = edge.is_some_and(|(edge, ..)| !seq.is_after(edge));
                if !passed || is_missing(&self.missing, self.high, seq) {
                    return Some((kept.path, seq, kept.tos));
                }
                kept.stranded = false;
            }
            self.stranded.pop_front();
        }
        None
    }

    /// What [`Recovery::next_stranded`] said is not to be sent again.
    pub(crate) fn leave_stranded(&mut self, seq: Seq) {
        self.stranded.pop_front();
        if let Some(kept) = self.kept.get_mut(seq) {
            kept.stranded = false;
        }
    }

    /// What [`Recovery::next_stranded`] said was sent again, over `path`.
    pub(crate) fn rescued(&mut self, now: Time, seq: Seq, path: PathId) {
        self.stranded.pop_front();
        if let Some(kept) = self.kept.get_mut(seq) {
            self.paths[kept.path.index()].recovered += 1;
            kept.stranded = false;
            kept.rescued = true;
            kept.sent = now;
            kept.path = path;
            kept.tries += 1;
            self.counters.resent += 1;
            self.counters.resent_bytes += u64::from(kept.len);
        }
    }
}

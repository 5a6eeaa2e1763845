//! What is lost goes again, in its turn, and a silent tail is probed.

use super::{EARNED, MAX_DUE, MAX_PROBES, MAX_TRIES, REMEMBERED, Recovery, Resend, is_missing};
use crate::path::PathId;
use crate::time::{Time, earliest};

impl Recovery {
    /// No path that may have the packet is there now: it is judged again, as if it had been sent now.
    pub(crate) fn put_off(&mut self, now: Time, resend: Resend) {
        // One that probes the end of what was sent was not judged.
        if let Some(kept) = self.kept.get_mut(resend.seq).filter(|kept| kept.due) {
            (kept.due, kept.sent) = (false, now);
            self.counters.lost -= 1;
            let copies = 1 + u64::from(resend.is_twofold);
            self.allowance.earn(u64::from(kept.len) * copies, EARNED);
        }
    }

    /// The next packet to be sent again now, if there is one and the limits allow it: it is
    /// [`Recovery::packet`]. Say with [`Recovery::resent`] where it went.
    pub(crate) fn next_resend(&mut self) -> Option<Resend> {
        while let Some(&seq) = self.due.front() {
            let Some(&kept) = self.kept.get(seq) else {
                self.due.pop_front();
                continue;
            };
            let len = u64::from(kept.len);
            if !self.burst.allows() || !self.allowance.affords(len) {
                return None;
            }
            let edge = self.paths[kept.path.index()].edge;
            let goes_on =
                edge.is_some_and(|(edge, sent, _)| sent > kept.sent || edge.is_after(seq));
            let is_twofold = kept.tries > 0 && self.allowance.affords(len * 2);
            self.due.pop_front();
            self.burst.take();
            self.allowance.spend(if is_twofold { len * 2 } else { len });
            return Some(Resend {
                seq,
                tos: kept.tos,
                lost_on: (kept.tries > 0 || !goes_on).then_some(kept.path),
                is_twofold,
                is_probe: self.probed > self.last_report,
            });
        }
        None
    }

    /// A packet was sent again, over `path`.
    pub(crate) fn resent(&mut self, now: Time, resend: Resend, path: PathId) {
        let Some(kept) = self.kept.get_mut(resend.seq) else {
            return;
        };
        if !resend.is_probe {
            if self.resent.len() >= REMEMBERED {
                self.resent.pop_front();
            }
            // Found lost the first time since nothing that was sent later came.
            let is_silent = kept.tries == 0 && resend.lost_on.is_some();
            let passed_on = (!is_silent).then_some(kept.path);
            self.resent.push_back((resend.seq, passed_on));
            self.paths[kept.path.index()].recovered += 1;
        }
        kept.sent = now;
        kept.path = path;
        kept.tries += 1;
        kept.due = false;
        self.counters.resent += 1;
        self.counters.resent_bytes += u64::from(kept.len);
    }

    /// The second copy of a twofold one went, too. That one of them arrives after the other says nothing of
    /// a path.
    pub(crate) fn resent_copy(&mut self, resend: Resend) {
        self.resent.retain(|&(seq, _)| seq != resend.seq);
        if let Some(kept) = self.kept.get(resend.seq) {
            self.counters.resent += 1;
            self.counters.resent_bytes += u64::from(kept.len);
        }
    }

    /// A probe was in vain: all that no report said has arrived is to go again, the newest with the probe. Of 400
    /// links alone (`--family single --seed 7000`) 2.2 % were below 0.85 late without it, and 1.8 % are with it.
    fn resend_unanswered(&mut self) {
        let newest = self.kept.newest().map(|(newest, _)| newest);
        for (seq, kept) in self.kept.iter_mut() {
            let is_settled = kept.due || kept.bound || kept.stranded || kept.tries >= MAX_TRIES;
            if !is_settled
                && Some(seq) != newest
                && self.due.len() < MAX_DUE
                && is_missing(&self.missing, self.high, seq)
            {
                kept.due = true;
                self.due.push_back(seq);
                self.counters.lost += 1;
            }
        }
    }

    /// When [`Recovery::handle_timeout`] is to be called.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let refill =
            (!self.due.is_empty() && !self.burst.allows()).then_some(self.burst.refills_at());
        earliest(refill, earliest(self.recheck, self.probe_check))
    }

    /// Does what is due. A packet to be sent again as a probe, if the tail needs one.
    pub(crate) fn handle_timeout(&mut self, now: Time) -> Option<Resend> {
        if self.recheck.is_some_and(|at| at <= now) {
            self.judge(now);
        }
        self.burst.handle_timeout(now, self.quickest);
        if self.probe_check.is_none_or(|at| at > now) {
            return None;
        }
        self.probe_check = None;
        let (newest, &kept) = self.kept.newest()?;
        if self.high.is_after(newest) && self.missing.is_empty() {
            return None;
        }
        if kept.bound || kept.stranded {
            // It goes, or goes again, in its turn.
            self.probe_check = Some(now + self.tail_patience());
            return None;
        }
        let quiet_since = self.last_sent.max(self.last_report);
        let due = quiet_since + self.tail_patience() * 2u32.pow(self.probes);
        if due > now {
            self.probe_check = Some(due);
            return None;
        }
        if self.probes >= MAX_PROBES {
            return None;
        }
        self.probes += 1;
        self.last_sent = now;
        self.probe_check = Some(now + self.tail_patience() * 2u32.pow(self.probes));
        self.counters.probes += 1;
        let is_in_vain = self.probed > self.last_report;
        self.probed = now;
        if is_in_vain {
            self.resend_unanswered();
        }
        Some(Resend::unlost(newest, kept.tos))
    }
}

//! Paths that have fallen silent: packets go over others, and what is under way there goes again.
//!
//! [`Silence`] says which paths are suspected. What follows from that is here: what they took is stranded
//! until another path has room for it, and goes again, the oldest first; and a copy of a packet goes over
//! them now and then, to see whether it arrives.

use std::time::Duration;

use crate::path::{Answered, MAX_PATHS, PathId, PathSet};
use crate::send::classes::Classes;
use crate::send::committed::Committed;
use crate::send::recovery::Recovery;
use crate::send::scheduler::adaptive::Adaptive;
use crate::send::sent::SentLog;
use crate::send::silence::Silence;
use crate::send::slab::Slab;
use crate::send::turn::Turn;
use crate::seq::Seq;
use crate::time::{Time, earliest};
use crate::wire::ip::Packet;
use crate::wire::report::Report;

/// Which paths are suspected, and what was done about that.
#[derive(Debug, Default)]
pub(crate) struct Rescue {
    silence: Silence,
    /// Suspected paths that had no other beside them so far.
    unrescued: PathSet,
    /// Paths that were suspected when that was last looked at.
    was_suspected: PathSet,
    /// When what is under way on suspected paths goes on being sent again.
    goes_on: Option<Time>,
    /// Nothing goes again before.
    told_by: Time,
}

/// The line in takes less than this to tell the peer of a path that has come to be suspected. What goes again
/// follows that: else the answers to it would go over the path that the peer does not doubt yet, and nothing more
/// would come until the peer has noticed by itself.
const TELLING: Duration = Duration::from_millis(1);

impl Rescue {
    pub(crate) fn forget_path(&mut self, path: PathId) {
        self.silence.forget(path);
        self.unrescued.remove(path);
    }

    pub(crate) fn suspected(&self) -> PathSet {
        self.silence.suspected()
    }

    /// The paths that packets go over.
    pub(crate) fn trusted(&self, turn: &Turn<'_>) -> PathSet {
        let trusted = self.silence.trusted(turn.usable);
        let mut undoubted = trusted;
        for path in turn.doubted.iter() {
            undoubted.remove(path);
        }
        if undoubted.is_empty() {
            trusted
        } else {
            undoubted
        }
    }

    /// Whether it would be noticed soon that the path swallows what it is given now.
    pub(crate) fn is_told_of(&self, now: Time, path: PathId) -> bool {
        self.silence.is_told_of(now, path)
    }

    /// `path` took so many packets with numbers.
    #[inline]
    pub(crate) fn sent(&mut self, now: Time, path: PathId, packets: u32) {
        self.silence.sent(now, path, packets);
    }

    /// A probe came back.
    pub(crate) fn answered(&mut self, now: Time, path: PathId, probed: &Answered) {
        let jitter = Duration::from_nanos(probed.jitter_ns);
        let silence = &mut self.silence;
        silence.answered(now, path, probed.sent, probed.rtt, jitter);
    }

    /// A report tells of which paths deliver what `log` says was sent there.
    pub(crate) fn learn(&mut self, now: Time, report: &Report, log: &SentLog) {
        self.silence.heard(now);
        for entry in &report.paths {
            let Some(path) = PathId::new(usize::from(entry.path)) else {
                continue;
            };
            let newest = log.find(path, entry.edge);
            let next = || log.next_after(path, entry.edge);
            let newest = newest.map(|newest| (newest.time, next()));
            let held = report.sent.since(entry.edge_arrived);
            self.silence
                .reported(now, path, entry.packets, held, newest);
        }
    }

    /// Paths that are not suspected any more need no others.
    pub(crate) fn rehabilitate(&mut self, recovery: &mut Recovery) {
        let suspected = self.silence.suspected();
        for path in (0..MAX_PATHS).filter_map(PathId::new) {
            if !suspected.contains(path) && self.was_suspected.contains(path) {
                self.unrescued.remove(path);
                recovery.unstrand(path);
            }
        }
        self.was_suspected = suspected;
    }

    /// Nothing is expected of any path.
    pub(crate) fn rest(&mut self) {
        self.silence.forget_all();
        self.unrescued = PathSet::EMPTY;
    }

    /// Looks for paths that have fallen silent, and strands what is under way there. Returns whether one has
    /// just come to be suspected.
    pub(crate) fn watch(&mut self, turn: &Turn<'_>, recovery: &mut Recovery) -> bool {
        let silent = self.silence.handle_timeout(turn.now, turn.usable);
        for path in silent.iter() {
            self.unrescued.insert(path);
            self.told_by = turn.now + TELLING;
        }
        for path in self.unrescued.iter() {
            let mut others = self.trusted(turn);
            others.remove(path);
            if !others.is_empty() {
                self.unrescued.remove(path);
                recovery.strand(path);
            }
            if !turn.usable.contains(path) {
                self.unrescued.remove(path);
                self.silence.forget(path);
            }
        }
        !silent.is_empty()
    }

    /// Sends again what is stranded, the oldest first, as others have room.
    pub(crate) fn go_on(
        &mut self,
        turn: &mut Turn<'_>,
        paths: &mut Adaptive,
        recovery: &mut Recovery,
        committed: &mut Committed,
        classes: &mut Classes,
        slab: &mut Slab,
    ) {
        let now = turn.now;
        self.goes_on = None;
        if now < self.told_by && recovery.has_stranded() {
            self.goes_on = Some(self.told_by);
            return;
        }
        while let Some((swallowed_by, seq, tos)) = recovery.next_stranded() {
            let mut others = self.trusted(turn);
            others.remove(swallowed_by);
            if let Some(packet) = recovery.packet(seq) {
                let allowed = classes.allowed_for(slab.bytes(packet), others, others, paths);
                if allowed.is_empty() && !others.is_empty() {
                    recovery.leave_stranded(seq);
                    continue;
                }
                others = allowed;
            }
            let path = match paths.fastest_ready(now, others, recovery.stranded()) {
                Ok(path) => path,
                Err(ready) => {
                    if ready.is_none() {
                        // No other path is there: what this one has swallowed waits for it. Others' goes on.
                        recovery.unstrand(swallowed_by);
                        continue;
                    }
                    self.goes_on = ready;
                    return;
                }
            };
            if let Some(packet) = recovery.packet(seq)
                && let Ok(parsed) = Packet::parse(slab.bytes(packet))
            {
                let version = parsed.version();
                if committed.holds_before(path, seq) {
                    let packet = slab.share(packet);
                    committed.insert(path, turn.out.committed(seq, version, tos, packet));
                    recovery.rescued(now, seq, path);
                    recovery.bind(seq);
                    continue;
                }
                let packet = slab.bytes(packet);
                let len = turn.out.append_numbered(path, (seq, version), tos, packet);
                paths.took(now, path, seq, 1, len as u32);
                self.silence.sent(now, path, 1);
                let own = classes.own(classes.class_of(packet));
                self.try_suspected(turn, paths, own, (seq, tos), packet);
            }
            recovery.rescued(now, seq, path);
        }
    }

    /// A copy of the packet that was just sent, with this number and outer TOS, goes over those suspected paths that are of
    /// its `own`, now and then.
    pub(crate) fn try_suspected(
        &mut self,
        turn: &mut Turn<'_>,
        paths: &mut Adaptive,
        own: PathSet,
        (seq, tos): (Seq, u8),
        packet: &[u8],
    ) {
        if self.silence.suspected().is_empty() {
            return;
        }
        let now = turn.now;
        let tries = self.silence.tries(now, turn.usable);
        for path in tries.iter().filter(|&path| own.contains(path)) {
            if let Ok(parsed) = Packet::parse(packet) {
                let numbered = (seq, parsed.version());
                let len = turn.out.append_numbered(path, numbered, tos, packet);
                self.silence.tried(now, path, paths.lasts(path, len));
                paths.took(now, path, seq, 1, len as u32);
            }
        }
    }

    /// When [`Rescue::watch`] or [`Rescue::go_on`] has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        earliest(self.goes_on, self.silence.poll_timeout())
    }
}

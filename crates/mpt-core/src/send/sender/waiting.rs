//! What waits until a path takes it: in the queues, and with its number for the path that it is committed to.

use super::Sender;
use crate::control::drops::DropReason;
use crate::path::{MAX_PATHS, PathId, PathSet};
use crate::send::classes::{Priority, without_path};
use crate::send::committed::CommittedPacket;
use crate::send::lanes::Lane;
use crate::send::scheduler::adaptive::Choice;
use crate::send::segment::Segments;
use crate::send::slab::Stored;
use crate::send::turn::Turn;
use crate::time::{Time, earliest};
use crate::wire::ecn;
use crate::wire::ip::Packet;

impl Sender {
    /// Lets segments of a flow wait.
    pub(super) fn enqueue(
        &mut self,
        now: Time,
        lane: Lane,
        flow: u64,
        segments: &mut Segments<'_>,
    ) {
        self.sparse.note_spread(now);
        while segments.remaining() > 0 {
            let index = segments.segments() - segments.remaining();
            let len = segments.segment_len(index);
            let packet = self.slab.store(len, |out| {
                segments.write_next(out);
            });
            self.lanes.push(&mut self.slab, now, lane, flow, packet);
        }
    }

    /// Whether packets wait for a path.
    pub(crate) fn holds_packets(&self) -> bool {
        !self.lanes.is_empty() || !self.committed.is_empty()
    }

    /// Sends from the queue what the paths take.
    pub(crate) fn drain(&mut self, turn: &mut Turn<'_>) {
        self.wake = None;
        if self.recovery.has_stranded() {
            // That is older.
            return;
        }
        let now = turn.now;
        let usable = self.rescue.trusted(turn);
        if self.lanes.classes.is_empty() {
            self.send_committed(turn, usable);
            while self.drain_one(turn, Lane::Rest, usable) {}
        } else {
            self.drain_classes(turn, usable);
        }
        for path in self.committed.paths() {
            let ready = self.paths.ready_at(now, path);
            self.wake = earliest(self.wake, Some(ready));
        }
        self.count_losses(turn.drops);
    }

    /// Sends what waits by priority, of one priority in turn: what has its number goes before what has none, but for
    /// what goes by itself.
    fn drain_classes(&mut self, turn: &mut Turn<'_>, usable: PathSet) {
        self.drain_in_turn(turn, usable, &self.lanes.by_themselves());
        self.send_committed(turn, usable);
        for priority in Priority::ALL {
            self.drain_in_turn(turn, usable, &self.lanes.of_priority(priority));
        }
    }

    /// Sends one packet of each, again and again, while any goes.
    pub(super) fn drain_in_turn(&mut self, turn: &mut Turn<'_>, usable: PathSet, lanes: &[Lane]) {
        let mut goes = true;
        while goes {
            goes = false;
            for &lane in lanes {
                goes |= self.drain_one(turn, lane, usable);
            }
        }
    }

    /// Sends, or commits, one packet of a queue, if a path takes it.
    fn drain_one(&mut self, turn: &mut Turn<'_>, lane: Lane, trusted: PathSet) -> bool {
        let now = turn.now;
        if self.lanes.queue(lane).is_empty() {
            return false;
        }
        let classes = &mut self.lanes.classes;
        let usable = classes.allowed(lane.class(), trusted, turn.usable, &self.paths);
        let waiting = self.lanes.waiting_with(lane);
        // What goes by itself passes what is bound to a path.
        let unbound = [0; MAX_PATHS];
        let bound = match lane {
            Lane::ByItself(_) => &unbound,
            Lane::Rest | Lane::Class(_) => self.committed.bytes(),
        };
        let mut chosen = self.paths.choose(now, usable, waiting, bound);
        if matches!(chosen, Choice::Wait(_))
            && let Some(path) = self.binds_too(now, lane, usable, trusted)
        {
            chosen = Choice::Bind(path);
        }
        let (path, is_busy) = match chosen {
            Choice::Take(path, _) => (path, false),
            Choice::Bind(path) if matches!(lane, Lane::ByItself(_)) => {
                self.wake = earliest(self.wake, Some(self.paths.ready_at(now, path)));
                return false;
            }
            Choice::Bind(path) => (path, true),
            Choice::Wait(until) => {
                self.wake = earliest(self.wake, Some(until));
                return false;
            }
            Choice::Nowhere => {
                let left = self.lanes.clear(&mut self.slab, lane);
                turn.drops.count(without_path(trusted), left);
                return false;
            }
        };
        let Some(packet) = self.lanes.queue(lane).pop(&mut self.slab, now) else {
            return false;
        };
        if matches!(lane, Lane::ByItself(_)) {
            self.send_by_itself(turn, path, packet);
        } else if let Some(packet) = self.number(turn, path, packet) {
            if is_busy {
                self.committed.push(path, packet);
            } else {
                self.send_numbered(turn, path, packet);
                self.note_spread(now, trusted, path);
            }
        }
        true
    }

    /// The path to bind a packet to, if the class that it waits in may not use all paths and others bind theirs to that
    /// one: it would never see room there.
    fn binds_too(
        &self,
        now: Time,
        lane: Lane,
        usable: PathSet,
        trusted: PathSet,
    ) -> Option<PathId> {
        if usable == trusted || !matches!(lane, Lane::Class(_)) {
            return None;
        }
        let (path, _) = self.paths.fastest(now, usable)?;
        let bound = self.committed.bytes()[path.index()];
        let lasts = self.paths.lasts(path, bound).unwrap_or_default();
        let is_little = bound < self.paths.patient_bytes();
        let binds = bound > 0 && is_little && lasts < self.paths.spread(trusted);
        binds.then_some(path)
    }

    /// Sends a packet from the queue without a number.
    fn send_by_itself(&mut self, turn: &mut Turn<'_>, path: PathId, packet: Stored) {
        let bytes = self.slab.bytes(&packet);
        if let Ok(parsed) = Packet::parse(bytes) {
            let header = turn.out.unnumbered_header(parsed.version(), bytes.len());
            let tos = ecn::outer_tos(parsed.tos());
            let (out, len) = turn.out.append(path, &header, tos, bytes.len());
            out.copy_from_slice(bytes);
            self.paths.took_unnumbered(turn.now, path, len);
        } else {
            turn.drops.count(DropReason::NotIp, 1);
        }
        self.slab.release(packet);
    }

    /// Gives a packet from the queue its number, to be sent over `path`.
    fn number(
        &mut self,
        turn: &mut Turn<'_>,
        path: PathId,
        packet: Stored,
    ) -> Option<CommittedPacket> {
        let (now, slab) = (turn.now, &mut self.slab);
        let Ok(parsed) = Packet::parse(slab.bytes(&packet)) else {
            turn.drops.count(DropReason::NotIp, 1);
            slab.release(packet);
            return None;
        };
        let (version, tos) = (parsed.version(), ecn::outer_tos(parsed.tos()));
        let seq = turn.out.next_seq();
        turn.out.next_header(version, packet.len());
        if self.recovery.keeps(slab, now, packet.len()) {
            let kept = slab.share(&packet);
            self.recovery.keep(slab, now, seq, path, tos, kept);
            self.recovery.bind_newest();
        }
        Some(turn.out.committed(seq, version, tos, packet))
    }

    fn send_numbered(&mut self, turn: &mut Turn<'_>, path: PathId, committed: CommittedPacket) {
        let CommittedPacket { seq, tos, .. } = committed;
        let packet = committed.packet;
        let numbered = (seq, committed.version);
        let bytes = self.slab.bytes(&packet);
        let len = turn.out.append_numbered(path, numbered, tos, bytes);
        self.recovery.unbind(turn.now, seq, path);
        self.took(turn.now, path, seq, 1, len as u32);
        if !self.rescue.suspected().is_empty() {
            let bytes = self.slab.bytes(&packet);
            let classes = &self.lanes.classes;
            let mut own = classes.own(classes.class_of(bytes));
            own.remove(path);
            self.rescue
                .try_suspected(turn, &mut self.paths, own, (seq, tos), bytes);
        }
        self.slab.release(packet);
    }

    /// Sends what is committed to paths that can take it. To one that is usable and not `trusted` only what has no other
    /// is.
    fn send_committed(&mut self, turn: &mut Turn<'_>, trusted: PathSet) {
        self.recommit(turn, trusted);
        for path in turn.usable.iter() {
            if self.committed.bytes()[path.index()] == 0 {
                continue;
            }
            while self.paths.room(turn.now, path).is_some()
                && let Some(packet) = self.committed.pop(path)
            {
                self.send_numbered(turn, path, packet);
            }
        }
    }

    /// What is committed to a path that is none of these any more goes over another, if one may take it; what was moved
    /// from one of them, and waits still, goes over that one after all.
    fn recommit(&mut self, turn: &mut Turn<'_>, usable: PathSet) {
        self.committed.bring_back(usable);
        for path in (0..MAX_PATHS).filter_map(PathId::new) {
            if usable.contains(path) || self.committed.bytes()[path.index()] == 0 {
                continue;
            }
            for packet in self.committed.take(path) {
                let bytes = self.slab.bytes(&packet.packet);
                let classes = &mut self.lanes.classes;
                let allowed = classes.allowed_for(bytes, usable, turn.usable, &self.paths);
                let cheapest = self.paths.tiers.cheapest(allowed);
                if let Some((other, _)) = self.paths.fastest(turn.now, cheapest) {
                    self.committed.move_to(other, path, packet);
                    continue;
                }
                classes.count_dropped(bytes);
                turn.drops.count(without_path(usable), 1);
                self.recovery.leave(packet.seq);
                self.slab.release(packet.packet);
            }
        }
    }

    /// The paths' estimates are no longer to be followed: what is committed goes. What waits in the queue
    /// ([`Sender::take_queued`]) is to go as other packets do.
    pub(crate) fn release_committed(&mut self, turn: &mut Turn<'_>) {
        let usable = turn.usable;
        self.recommit(turn, usable);
        for path in usable.iter() {
            while let Some(packet) = self.committed.pop(path) {
                self.send_numbered(turn, path, packet);
            }
        }
    }

    /// Takes the next packet out of the queue, in place of what `out` holds. Whether there was one.
    pub(crate) fn take_queued(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        let Some(packet) = self.lanes.pop(&mut self.slab, now) else {
            return false;
        };
        out.clear();
        out.extend_from_slice(self.slab.bytes(&packet));
        self.slab.release(packet);
        true
    }
}

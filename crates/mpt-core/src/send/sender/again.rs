//! What was sent once goes again: what is lost, what a silent path swallowed, what a slow one takes too long for.

use super::Sender;
use crate::send::recovery::Resend;
use crate::send::turn::Turn;
use crate::wire::ip::Packet;

impl Sender {
    /// Probes the tail, if that is due.
    pub(crate) fn probe_tail(&mut self, turn: &mut Turn<'_>) {
        if let Some(probe) = self.recovery.handle_timeout(turn.now) {
            self.resend(turn, probe);
        }
    }

    /// Sends again what is lost, and what silent paths have swallowed; where estimates are not followed
    /// (`adapts`), no path is suspected. Returns whether one has just come to be.
    pub(crate) fn recover(&mut self, turn: &mut Turn<'_>, adapts: bool) -> bool {
        let fell_silent = adapts && self.rescue.watch(turn, &mut self.recovery);
        if !adapts {
            self.rescue.rest();
        }
        self.note_silence(turn.now);
        // While no path is up what is lost waits, for as long as it is kept.
        while !turn.usable.is_empty()
            && let Some(resend) = self.recovery.next_resend()
        {
            self.resend(turn, resend);
        }
        self.send_stranded(turn);
        if adapts {
            self.send_outpaced(turn);
        }
        fell_silent
    }

    /// Sends again what others are slow to bring, while nothing waits and the path that answers first has room.
    fn send_outpaced(&mut self, turn: &mut Turn<'_>) {
        if self.holds_packets() || self.recovery.has_stranded() {
            return;
        }
        let now = turn.now;
        let trusted = self.rescue.trusted(turn);
        let Some((fast, _)) = self.paths.fastest(now, self.cheapest(trusted)) else {
            return;
        };
        for seq in self.recovery.outpaced(now, fast) {
            if self.paths.room(now, fast).is_none() {
                return;
            }
            let Some(packet) = self.recovery.packet(seq) else {
                continue;
            };
            let bytes = self.slab.bytes(packet);
            let classes = &mut self.lanes.classes;
            let allowed = classes.allowed_for(bytes, trusted, turn.usable, &self.paths);
            let Ok(parsed) = Packet::parse(bytes) else {
                continue;
            };
            if !allowed.contains(fast) {
                continue;
            }
            let Some(resend) = self.recovery.outpace(seq) else {
                return;
            };
            let numbered = (seq, parsed.version());
            let bytes = turn.out.append_numbered(fast, numbered, resend.tos, bytes);
            self.paths.took_again(now, fast, bytes);
            self.recovery.resent(now, resend, fast);
        }
    }

    /// Sends again what is stranded, and before it what goes by itself.
    pub(super) fn send_stranded(&mut self, turn: &mut Turn<'_>) {
        if self.recovery.has_stranded() {
            let usable = self.rescue.trusted(turn);
            self.drain_in_turn(turn, usable, &self.lanes.by_themselves());
        }
        self.rescue.go_on(
            turn,
            &mut self.paths,
            &mut self.recovery,
            &mut self.committed,
            &mut self.lanes.classes,
            &mut self.slab,
        );
    }

    /// Sends a packet again, where it arrives first, or over two paths.
    fn resend(&mut self, turn: &mut Turn<'_>, resend: Resend) {
        let now = turn.now;
        let Some(packet) = self.recovery.packet(resend.seq) else {
            return;
        };
        let trusted = self.rescue.trusted(turn);
        let bytes = self.slab.bytes(packet);
        let classes = &mut self.lanes.classes;
        let allowed = classes.allowed_for(bytes, trusted, turn.usable, &self.paths);
        // What is lost on a cheaper path is no reason to use a dearer one.
        let mut usable = self.paths.tiers.cheapest(allowed);
        let mut others = usable;
        if let Some(path) = resend.lost_on {
            others.remove(path);
        }
        let surest = self.paths.surest(now, others);
        let Some(path) = surest.or_else(|| self.paths.surest(now, usable)) else {
            return self.recovery.put_off(now, resend);
        };
        usable.remove(path);
        let second = self.paths.surest(now, usable);
        let second = second.filter(|_| resend.is_twofold);
        let Ok(parsed) = Packet::parse(bytes) else {
            return;
        };
        let (seq, version) = (resend.seq, parsed.version());
        let mut waits = false;
        for path in [Some(path), second].into_iter().flatten() {
            if self.committed.holds_before(path, seq) {
                waits = true;
                let packet = self.slab.share(packet);
                let again = turn.out.committed(seq, version, resend.tos, packet);
                self.committed.insert(path, again);
            } else {
                let (numbered, bytes) = ((seq, version), self.slab.bytes(packet));
                let len = turn.out.append_numbered(path, numbered, resend.tos, bytes);
                self.paths.took_again(now, path, len);
            }
        }
        self.recovery.resent(now, resend, path);
        if second.is_some() {
            self.recovery.resent_copy(resend);
        }
        if waits {
            self.recovery.bind(seq);
        }
    }
}

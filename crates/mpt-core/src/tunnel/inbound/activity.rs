//! Whether the tunnel carries anything: what follows from that.

use super::Inbound;
use crate::time::Time;
use crate::tunnel::activity::unanswered_from;

impl Inbound {
    /// The line out has packets again after a pause ([`crate::tunnel::Outbound::poll_wake`]). Afterwards poll
    /// everything.
    pub fn wake(&mut self, now: Time) {
        self.follow_carried(now);
        self.handle_timeout(now);
    }

    /// The tunnel carries something.
    pub(super) fn touch(&mut self, now: Time) {
        if !self.activity.touch(now) {
            return;
        }
        self.shared.wake.stay();
        for path in self.paths.iter_mut().flatten() {
            path.set_quick(Some(now));
        }
        if let Some(opening) = &mut self.opening {
            opening.hurry(now);
        }
        self.unsettled = true;
    }

    fn follow_carried(&mut self, now: Time) {
        if self.activity.note_carried(self.shared.wake.carried()) {
            self.touch(now);
        }
    }

    /// Notes what the line out has carried, and when the tunnel has become idle.
    pub(super) fn follow_activity(&mut self, now: Time) {
        self.follow_carried(now);
        if !self.activity.rest(now) {
            return;
        }
        for path in self.paths.iter_mut().flatten() {
            path.set_quick(None);
        }
        self.give_memory_back();
        self.shared.wake.sleep();
        // What was carried in this moment woke nobody.
        self.follow_carried(now);
        self.unsettled = true;
    }

    /// Nothing comes: what packets need is not needed.
    fn give_memory_back(&mut self) {
        self.window.rest();
        self.outbox.rest();
        self.delivery.rest();
    }

    /// Lets the sessions know what they may make of silence, and how much handshakes matter. Returns when that changes by
    /// time alone.
    pub(super) fn tell_sessions(&mut self, now: Time) -> Option<Time> {
        let opening = self.opening.as_mut()?;
        let (owed_since, calm) = self.activity.calm(now, &self.paths);
        let silence = self.activity.silence(&self.paths);
        opening.set_calm(owed_since, silence, calm);
        let unanswered = owed_since.map(|owed| unanswered_from(owed, &self.paths));
        opening.set_unanswered(unanswered.filter(|from| *from <= now));
        unanswered.filter(|from| *from > now)
    }
}

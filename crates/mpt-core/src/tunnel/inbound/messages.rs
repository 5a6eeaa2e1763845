//! Control messages: what each kind is given to, and what is made of it; and how one is left to be sent.

use std::ops::Range;
use std::time::Duration;

use super::Inbound;
use crate::control::drops::DropReason;
use crate::path::{MAX_PATHS, PathId, PathSet, PathState};
use crate::time::Time;
use crate::tunnel::News;
use crate::tunnel::heard::Standing;
use crate::tunnel::outbox::{ControlDatagram, control_header};
use crate::tunnel::reporting::Reader;
use crate::wire::control::Control;
use crate::wire::edges::Edges;
use crate::wire::name::PathName;
use crate::wire::report::Report;

impl Inbound {
    /// Takes a control message of the path's peer, which stands at `place` in the buffer. Returns whether it
    /// is one.
    pub(super) fn handle_control(
        &mut self,
        now: Time,
        path: PathId,
        buffer: u32,
        place: Range<usize>,
    ) -> bool {
        let message = &self.window.buffer_mut(buffer)[place];
        match Control::parse(message) {
            Ok(Control::Probe(probe)) => {
                if let Some(name) = PathName::parse(message)
                    && let Some(path) = &mut self.paths[path.index()]
                    && self.opening.is_some()
                {
                    path.names.hear(name);
                }
                self.handle_message(now, path, &probe);
            }
            Ok(Control::Report(report)) => self.handle_report(now, path, report),
            Ok(Control::Edges(edges)) => self.handle_edges(now, &edges),
            Err(_) => {
                self.drops.count(DropReason::BadControl, 1);
                return false;
            }
        }
        true
    }

    /// Leaves a control message of `len` bytes, which `emit` writes, to be sent on the path. There has
    /// to be room for it.
    pub(super) fn queue_control(
        &mut self,
        path: PathId,
        len: usize,
        emit: impl FnOnce(&mut [u8]) -> usize,
    ) {
        let header = control_header(self.key);
        let mut datagram = ControlDatagram::new(header.buffer_len() + len);
        let start = header.emit(&mut datagram.bytes);
        emit(&mut datagram.bytes[start..]);
        let sent_len = self.control_len(len);
        self.shared.count_sent(path, 1, sent_len as u64);
        datagram.peer_path = self.paths[path.index()]
            .as_ref()
            .filter(|path| path.state == PathState::Up)
            .and_then(|path| path.place.peer_path());
        self.outbox.push(path, datagram);
    }

    /// Takes a report of the path's peer, for [`Inbound::poll_news`]. It is believed when it is of
    /// the peer's session, about ours, and newer than the last.
    fn handle_report(&mut self, now: Time, path: PathId, report: Report) {
        let is_the_peer_s =
            self.peer.session() == Some(report.session) && report.about == self.session;
        let standing = is_the_peer_s.then(|| self.heard.standing(now, path, report.number));
        let Some(standing) = standing.filter(|standing| *standing != Standing::Refused) else {
            self.drops.count(DropReason::StaleControl, 1);
            return;
        };
        self.control_packets += 1;
        self.notice_suspected(now);
        if standing == Standing::Overtaken {
            // Those that came over a quicker path meanwhile said more.
            return;
        }
        if self.heard.push(now, report) {
            self.control_packets -= 1;
            self.drops.count(DropReason::StaleControl, 1);
        }
        self.tell_edges(now);
    }

    /// What the line out has to know next: for [`crate::tunnel::Outbound::learn`]. What is not fetched waits: of keys,
    /// addresses and answers the newest, of the peer's reports a few, of which the oldest go.
    pub fn poll_news(&mut self) -> Option<News> {
        let news = self.poll_change().or_else(|| self.answers.pop());
        news.or_else(|| {
            self.heard
                .pop()
                .map(|(at, report)| News::Report(at, report))
        })
    }

    /// Sends the report that is due.
    pub(super) fn report_if_due(&mut self, now: Time) {
        if !self.reporting.take_due(now, self.window.reorder()) {
            return;
        }
        let (Some(session), Some(path)) = (self.peer.session(), self.way_back()) else {
            return;
        };
        let mut up = PathSet::EMPTY;
        self.up_paths().for_each(|path| up.insert(path));
        let paths = (0..MAX_PATHS).filter_map(PathId::new);
        let reader = Reader {
            own_session: self.session,
            session,
            path,
            up,
            rtt: self.quickest_rtt(),
            overhead: self.control_len(0),
            room: if self.may_speak() {
                self.outbox.room()
            } else {
                0
            },
            sent_bytes: paths.map(|path| self.shared.sent(path).1).sum(),
        };
        for (path, report) in &self.reporting.make(now, &reader, self.window.reorder()) {
            self.queue_control(*path, report.buffer_len(), |out| report.emit(out));
        }
    }

    /// The path that reports go over. The peer may know that its path is up before this end does, and send:
    /// then the one that brought it will do, or the peer would take it for dead at once.
    fn way_back(&self) -> Option<PathId> {
        let newest_on = || {
            let brought = self.reporting.newest_on()?;
            let path = self.paths[brought.index()].as_ref()?;
            let may_be_used = matches!(path.state, PathState::Probing | PathState::Down);
            path.peer.filter(|_| may_be_used).map(|_| brought)
        };
        self.quickest_path().or_else(newest_on)
    }

    fn up_paths(&self) -> impl Iterator<Item = PathId> {
        (0..MAX_PATHS).filter_map(PathId::new).filter(|id| {
            let path = self.paths[id.index()].as_ref();
            path.is_some_and(|path| path.is_up())
        })
    }

    /// The path that is up and answers first, of those that cost least, and that neither end suspects if there are any.
    pub(super) fn quickest_path(&self) -> Option<PathId> {
        let (suspected, doubted) = (self.shared.suspected(), self.watermarks.wary_of());
        self.up_paths().min_by_key(|&id| {
            let path = self.paths[id.index()].as_ref();
            let rtt = path.and_then(|path| path.rtt.smoothed());
            let rtt = rtt.unwrap_or(Duration::MAX);
            let cost = self.costs[id.index()];
            (suspected.contains(id), doubted.contains(id), cost, rtt, id)
        })
    }

    /// Its smoothed round-trip time.
    pub(super) fn quickest_rtt(&self) -> Option<Duration> {
        let quickest = self.paths[self.quickest_path()?.index()].as_ref()?;
        quickest.rtt.smoothed()
    }

    /// A path that has come to be suspected is probed at once.
    pub(super) fn notice_suspected(&mut self, now: Time) {
        let (new, is_told) = self.watermarks.notice(self.shared.suspected());
        for path in new.iter() {
            if let Some(path) = &mut self.paths[path.index()] {
                path.next_probe = path.next_probe.min(now);
            }
        }
        if is_told {
            self.tell_edges(now);
        }
    }

    /// Tells the peer of paths that no number has gone over since it was told last.
    fn tell_edges(&mut self, now: Time) {
        if !self.watermarks.is_due(now, &self.shared) {
            return;
        }
        let (Some(about), Some(quickest)) = (self.peer.session(), self.quickest_path()) else {
            return;
        };
        let Some((next, paths)) = self.watermarks.take(now, &self.shared) else {
            return;
        };
        if !self.may_speak() || self.outbox.room() == 0 {
            return;
        }
        let edges = Edges {
            next,
            session: self.session,
            about,
            paths,
        };
        self.queue_control(quickest, edges.buffer_len(), |out| edges.emit(out));
    }

    /// Takes the peer's word for which paths bring nothing more, if it is the peer's.
    fn handle_edges(&mut self, now: Time, edges: &Edges) {
        if self.peer.session() != Some(edges.session) || edges.about != self.session {
            self.drops.count(DropReason::StaleControl, 1);
            return;
        }
        self.control_packets += 1;
        let mut doubted = PathSet::EMPTY;
        for edge in &edges.paths {
            let Some(path) = self.reporting.path_of(edge.path) else {
                continue;
            };
            if edge.suspected {
                doubted.insert(path);
            }
            if edge
                .last
                .is_none_or(|last| self.reporting.has_reached(path, last))
            {
                // What is unbelievable changes nothing.
                let _ = self.window.announce(now, path, edges.next);
            }
        }
        self.reporting.note_losses(now, self.window.reorder());
        if self.watermarks.doubt(now, edges.next, doubted) {
            self.shared.tell_doubted(doubted);
        }
    }

    /// Ends doubts of which the peer said nothing more.
    pub(super) fn end_doubts(&mut self, now: Time) {
        if self.watermarks.end_doubts(now) {
            self.shared.tell_doubted(PathSet::EMPTY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seq::Seq;
    use crate::tunnel::{TunnelConfig, tunnel};

    #[test]
    fn a_peer_that_has_begun_anew_is_believed_that_it_suspects_no_path_any_more() {
        let (_, mut inbound) = tunnel(&TunnelConfig::of_test(1, 1464));
        let now = Time::ZERO;
        let none = PathSet::EMPTY;
        inbound.begin_session(now, 7, Seq::FIRST);
        let path = PathId::new(1).unwrap();
        let (early, late) = (Seq::new(90), Seq::new(100_000));
        assert!(inbound.watermarks.doubt(now, late, PathSet::only(path)));
        assert!(!inbound.watermarks.doubt(now, early, none), "overtaken");
        inbound.begin_session(now, 8, Seq::FIRST);
        assert!(inbound.watermarks.doubt(now, early, none));
    }
}

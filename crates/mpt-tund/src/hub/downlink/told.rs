//! What is written into the log of a hub's peers.

use mpt_core::hub::HubSlot;
use mpt_core::time::{Time, earliest};
use mpt_core::tunnel::Event;

use super::HubDownlink;
use crate::journal::Level;

impl HubDownlink {
    /// Notes something of a peer for the log.
    pub(super) fn log(&mut self, now: Time, slot: HubSlot, event: &Event, path_name: &str) {
        let Some(Some(journal)) = self.journals.get_mut(slot.number()) else {
            return;
        };
        let (thing, text) = match *event {
            Event::Path {
                path,
                state,
                reason,
            } => {
                let reason = reason.map(|reason| reason.to_string());
                journal.path(now, path, path_name, state, reason);
                if let Some(due) = journal.due() {
                    self.next_line = earliest(self.next_line, Some(due));
                    self.to_say.insert(slot);
                }
                return;
            }
            Event::PeerSession { restarted, .. } => match restarted {
                false => return,
                true => (
                    "restarted".to_owned(),
                    "it has restarted, or two hosts use its key: the newest is taken".to_owned(),
                ),
            },
            Event::PeerAddress { path: _, address } => (
                format!("{path_name} moved"),
                format!("path {path_name} is at {address} now"),
            ),
            Event::PathMtu { mtu, lowered, .. } => match lowered {
                false => return,
                true => {
                    let text =
                        format!("path {path_name} carries inner packets of {mtu} bytes at most");
                    (text.clone(), text)
                }
            },
            Event::Keys { .. }
            | Event::PeerStoppedProbing
            | Event::NotAnswered { .. }
            | Event::PathRests { .. }
            | Event::NoHandshake => return,
        };
        if let Some(line) = journal.happened(now, &thing, Level::Info, &text) {
            line.write();
        }
    }

    /// Writes the lines whose time has come.
    pub(super) fn say(&mut self, now: Time) {
        if self.next_line.is_none_or(|at| at > now) {
            return;
        }
        self.next_line = None;
        for slot in std::mem::take(&mut self.to_say) {
            let Some(Some(journal)) = self.journals.get_mut(slot.number()) else {
                continue;
            };
            while let Some(line) = journal.take(now) {
                line.write();
            }
            if let Some(due) = journal.due() {
                self.next_line = earliest(self.next_line, Some(due));
                self.to_say.insert(slot);
            }
        }
    }
}

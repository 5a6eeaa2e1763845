//! STAMP's Session-Reflector, stateful (RFC 8762 §4.3): each session's answers are numbered, so that the sender can tell
//! what was lost on the way there from what was lost on the way back.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Serialize;

use super::packet;
use crate::channel::{Channel, LARGEST_DATAGRAM};
use crate::clock::Clock;

/// Sessions that are numbered. Further ones are answered with their own numbers, as a stateless reflector does.
const MOST_SESSIONS: usize = 1024;
/// A session of which nothing came for so long makes room for another.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

/// What a reflector did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Reflected {
    /// Answers that were sent.
    pub(crate) packets: u64,
    /// Sessions that were numbered.
    pub(crate) sessions: u64,
    /// Answers with the sender's own number: more sessions at once than are kept.
    pub(crate) not_numbered: u64,
    /// What is no test packet, or comes from another reflector.
    pub(crate) ignored: u64,
    /// Answers that this host could not send.
    pub(crate) not_sent: u64,
}

/// The sessions, by who sends and what it calls the session.
#[derive(Debug, Default)]
struct Sessions {
    known: HashMap<(SocketAddr, u16), Session>,
}

#[derive(Debug, Clone, Copy)]
struct Session {
    next: u32,
    used_ns: u64,
}

impl Sessions {
    /// The number of the next answer, and whether the session is new; `None` where there is no room for it.
    fn number(&mut self, from: SocketAddr, id: u16, now_ns: u64) -> Option<(u32, bool)> {
        if let Some(session) = self.known.get_mut(&(from, id)) {
            let number = session.next;
            session.next = number.wrapping_add(1);
            session.used_ns = now_ns;
            return Some((number, false));
        }
        if self.known.len() >= MOST_SESSIONS {
            let oldest = self.known.iter().min_by_key(|(_, session)| session.used_ns);
            let (name, session) = oldest.map(|(name, session)| (*name, *session))?;
            let unused = Duration::from_nanos(now_ns.saturating_sub(session.used_ns));
            if unused < FORGOTTEN_AFTER {
                return None;
            }
            self.known.remove(&name);
        }
        let session = Session {
            next: 1,
            used_ns: now_ns,
        };
        self.known.insert((from, id), session);
        Some((0, true))
    }
}

/// Reflects until `stop` is set, or nothing came for `idle`.
pub(crate) fn reflect(
    channel: &Channel,
    idle: Option<Duration>,
    stop: &AtomicBool,
) -> io::Result<Reflected> {
    let clock = Clock::start();
    let own_port = channel.local().map(|local| local.port());
    let mut sessions = Sessions::default();
    let mut reflected = Reflected::default();
    let mut buffer = vec![0; LARGEST_DATAGRAM];
    let mut last_ns = 0;
    while !stop.load(Ordering::Relaxed) {
        let received = channel.receive(&mut buffer)?;
        let now_ns = clock.elapsed_ns();
        let Some(received) = received else {
            if idle.is_some_and(|idle| Duration::from_nanos(now_ns - last_ns) >= idle) {
                break;
            }
            continue;
        };
        last_ns = now_ns;
        let (from, length) = (received.from, received.payload.len());
        // Two reflectors would answer each other for ever.
        let is_reflector = Some(from.port()) == own_port;
        let test = packet::session_of(received.payload).filter(|_| !is_reflector);
        let Some((id, test_number)) = test else {
            reflected.ignored += 1;
            continue;
        };
        let number = match sessions.number(from, id, now_ns) {
            Some((number, is_new)) => {
                reflected.sessions += u64::from(is_new);
                number
            }
            None => {
                reflected.not_numbered += 1;
                test_number
            }
        };
        let answer = &mut buffer[..length];
        let sent_ns = clock.unix_ns(clock.elapsed_ns());
        packet::reflect(answer, number, clock.unix_ns(now_ns), sent_ns);
        match channel.answer(answer, from) {
            Ok(()) => reflected.packets += 1,
            Err(_) => reflected.not_sent += 1,
        }
    }
    Ok(reflected)
}

impl Reflected {
    /// For people.
    pub(crate) fn text(&self) -> String {
        let mut text = format!(
            "{} packets reflected, of {} sessions; {} ignored\n",
            self.packets, self.sessions, self.ignored
        );
        if self.not_numbered > 0 {
            text += &format!(
                "{} of them with the sender's number: more than {MOST_SESSIONS} sessions at once\n",
                self.not_numbered
            );
        }
        if self.not_sent > 0 {
            text += &format!("{} answers could not be sent by this host\n", self.not_sent);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(port: u16) -> SocketAddr {
        ([192, 0, 2, 1], port).into()
    }

    #[test]
    fn each_session_is_numbered_from_0() {
        let mut sessions = Sessions::default();
        assert_eq!(sessions.number(sender(1), 7, 0), Some((0, true)));
        assert_eq!(sessions.number(sender(1), 7, 0), Some((1, false)));
        assert_eq!(sessions.number(sender(1), 8, 0), Some((0, true)));
        assert_eq!(sessions.number(sender(2), 7, 0), Some((0, true)));
        assert_eq!(sessions.number(sender(1), 7, 0), Some((2, false)));
    }

    #[test]
    fn a_flood_of_sessions_takes_no_more_room_and_none_of_theirs() {
        let mut sessions = Sessions::default();
        sessions.number(sender(1), 7, 0);
        let flood = (0..5000).filter_map(|id| sessions.number(sender(2), id, 1_000_000_000));
        assert_eq!(flood.count(), MOST_SESSIONS - 1);
        assert_eq!(
            sessions.number(sender(1), 7, 2_000_000_000),
            Some((1, false))
        );
        // Those that are not used any more make room.
        let later = 62_000_000_000;
        sessions.number(sender(1), 7, later);
        assert_eq!(sessions.number(sender(3), 1, later), Some((0, true)));
        assert_eq!(sessions.known.len(), MOST_SESSIONS);
        assert_eq!(sessions.number(sender(1), 7, later), Some((3, false)));
    }
}

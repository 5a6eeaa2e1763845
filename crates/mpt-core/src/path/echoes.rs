//! Echoes: which of our messages came back, and which of the peer's is to be sent back.

use crate::time::Time;
use crate::wire::probe::{Echo, Message};

/// How many of our own last messages per path are remembered, so that an echo can be checked
/// against our record of when it was sent instead of believed.
const REMEMBERED: usize = 256;

/// The messages of one path, both ways.
pub(crate) struct Echoes {
    /// Number of the last message sent, and when each of the last ones was.
    number: u32,
    sent_at: Box<[Time; REMEMBERED]>,
    /// Highest of our numbers that has come back.
    echoed: u32,
    /// The newest message of the peer's session, to be echoed.
    newest: Option<Echo>,
}

impl Default for Echoes {
    fn default() -> Echoes {
        Echoes {
            number: 0,
            sent_at: Box::new([Time::ZERO; REMEMBERED]),
            echoed: 0,
            newest: None,
        }
    }
}

impl Echoes {
    /// The number for a message that is sent now.
    pub(super) fn number_sent(&mut self, now: Time) -> u32 {
        self.number = self.number.wrapping_add(1).max(1);
        self.sent_at[self.number as usize % REMEMBERED] = now;
        self.number
    }

    pub(crate) fn newest(&self) -> Option<Echo> {
        self.newest
    }

    /// When the message that `echo` speaks of was sent, if it is a recent one of ours that has not
    /// come back before.
    pub(crate) fn fresh(&self, session: u64, echo: Option<Echo>) -> Option<Time> {
        let echo = echo.filter(|echo| echo.session == session)?;
        let sent = echo.number != 0
            && echo.number <= self.number
            && echo.number > self.echoed
            && self.number - echo.number < REMEMBERED as u32;
        sent.then(|| self.sent_at[echo.number as usize % REMEMBERED])
    }

    /// When the newest of our messages that came back was sent, if it is a recent one: the peer was there then, whenever
    /// the echo came.
    pub(crate) fn answered(&self) -> Option<Time> {
        let is_recent = self.number.wrapping_sub(self.echoed) < REMEMBERED as u32;
        (self.echoed != 0 && is_recent).then(|| self.sent_at[self.echoed as usize % REMEMBERED])
    }

    /// Whether a message without a fresh echo may be heard: only when it continues those before it, so
    /// that one with an absurd number cannot make all that follow look old. A sealed one (`is_sealed`)
    /// has the peer's number, and need only be newer.
    pub(crate) fn continues(&self, message: &Message, is_sealed: bool) -> bool {
        let ahead = if is_sealed {
            i32::MAX
        } else {
            REMEMBERED as i32
        };
        self.newest.is_none_or(|newest| {
            let step = message.number.wrapping_sub(newest.number) as i32;
            newest.session != message.session || (1..=ahead).contains(&step)
        })
    }

    /// A message of the peer's session arrived, then: it will be echoed.
    pub(super) fn hear(&mut self, arrived: Time, message: &Message) {
        self.newest = Some(Echo {
            number: message.number,
            session: message.session,
            sent: message.sent,
            received: arrived,
        });
    }

    /// A message of ours came back.
    pub(super) fn came_back(&mut self, echo: Echo) {
        self.echoed = echo.number;
    }

    /// Forgets what belonged to the peer's former session.
    pub(super) fn forget_peer(&mut self) {
        self.newest = None;
    }
}

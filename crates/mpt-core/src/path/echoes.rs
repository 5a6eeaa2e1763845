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
    /// The numbers have begun anew: those above `number` were sent as well.
    has_wrapped: bool,
    /// The newest of our numbers that has come back.
    echoed: u32,
    /// The newest message of the peer's session, to be echoed.
    newest: Option<Echo>,
}

impl Default for Echoes {
    fn default() -> Echoes {
        Echoes {
            number: 0,
            sent_at: Box::new([Time::ZERO; REMEMBERED]),
            has_wrapped: false,
            echoed: 0,
            newest: None,
        }
    }
}

impl Echoes {
    /// The number for a message that is sent now.
    pub(super) fn number_sent(&mut self, now: Time) -> u32 {
        self.has_wrapped |= self.number == u32::MAX;
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
        let was_sent = echo.number != 0 && (self.has_wrapped || echo.number <= self.number);
        let age = self.age(echo.number);
        let is_newer = self.echoed == 0 || age < self.age(self.echoed);
        let is_fresh = was_sent && is_newer && age < REMEMBERED as u32;
        is_fresh.then(|| self.sent_at[echo.number as usize % REMEMBERED])
    }

    /// How many messages were sent after the one with this number, modulo 2³².
    fn age(&self, number: u32) -> u32 {
        self.number.wrapping_sub(number)
    }

    /// When the newest of our messages that came back was sent, if it is a recent one: the peer was there then, whenever
    /// the echo came.
    pub(crate) fn answered(&self) -> Option<Time> {
        let is_recent = self.age(self.echoed) < REMEMBERED as u32;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn echo(number: u32) -> Option<Echo> {
        let (session, sent, received) = (1, Time::ZERO, Time::ZERO);
        Some(Echo {
            number,
            session,
            sent,
            received,
        })
    }

    #[test]
    fn messages_come_back_when_their_numbers_have_begun_anew() {
        let mut echoes = Echoes {
            number: u32::MAX - 2,
            ..Echoes::default()
        };
        for _ in 0..2 {
            let number = echoes.number_sent(Time::ZERO);
            assert!(echoes.fresh(1, echo(number)).is_some(), "{number}");
            echoes.came_back(echo(number).unwrap());
        }
        assert_eq!(echoes.echoed, u32::MAX);
        for expected in 1..=3 {
            let number = echoes.number_sent(Time::ZERO);
            assert_eq!(number, expected);
            assert!(echoes.fresh(1, echo(u32::MAX)).is_none(), "it came before");
            assert!(echoes.fresh(1, echo(number)).is_some(), "{number}");
            echoes.came_back(echo(number).unwrap());
            assert!(echoes.answered().is_some());
        }
    }

    #[test]
    fn what_was_never_sent_does_not_come_back() {
        let mut echoes = Echoes::default();
        let number = echoes.number_sent(Time::ZERO);
        for strange in [0, number + 1, u32::MAX] {
            assert!(echoes.fresh(1, echo(strange)).is_none(), "{strange}");
        }
    }
}

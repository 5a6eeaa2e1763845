//! Where the peer of a path is, and which of the peer's paths this one leads to.
//!
//! Only a sealed tunnel learns either; what is said here holds there. Every control message says, under
//! the peer's seal, which of the peer's paths it was made for, and which of ours the peer takes that
//! to be. The socket that it came by says which of ours it is. Somebody who has one path in his hand can
//! put its messages before any socket. So the two have to agree before anything moves:
//!
//! * A path is *bound* to one of the peer's. What was made for another is refused, and so is what
//!   was made for this path of the peer's and comes by another socket.
//! * A path that is bound to none, or has fallen silent, may be bound to the path of a *caller*, once that
//!   one has shown that it hears what is sent to where it calls from.
//! * The peer of a bound path is elsewhere when its newest message says so and who is there has
//!   answered what was sent to there (RFC 9000 §8.2 and §9). Until then the old address is kept.
//!
//! When two of the peer's paths call at one of ours, or one at two, somebody on the way leads them there. What
//! comes from the configured address goes first, then the one that has the same place in the peer's
//! configuration as ours has here, then the one that was there before ([`Rank`]).
//!
//! While a path leads to none, or to one that is not found at the configured address, or is not answered, its end
//! calls there now and then: two ends that were led apart would not find each other otherwise.
//!
//! The answer to be given is a code that follows from the address, a secret and the time
//! ([`crate::crypto::Sessions::code`]): nothing has to be remembered of callers, and they cannot
//! crowd each other out.

use std::net::SocketAddr;
use std::time::Duration;

use crate::time::Time;

/// Time between two calls at the configured address while the path leads elsewhere.
const HOME_INTERVAL: Duration = Duration::from_secs(1);

/// What speaks for a caller, less to more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Rank {
    /// Nothing but that it calls.
    Caller,
    /// Its path has the same index at the peer as ours has here.
    SameIndex,
    /// It is where the path's peer is configured to be.
    Configured,
    /// Both.
    ConfiguredWithSameIndex,
}

/// A path of the peer's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Bound {
    peer_path: u8,
    rank: Rank,
}

/// A sealed message of kind 1 that has arrived: all that its place depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    /// Where it came from.
    pub(crate) from: SocketAddr,
    /// The peer's index of the path that it was made for.
    pub(crate) peer_path: u8,
    /// Its number among those of that path.
    pub(crate) number: u64,
    /// What speaks for it.
    pub(crate) rank: Rank,
    /// What is to be answered to who sent it.
    pub(crate) code: u64,
    /// It answers what was sent to where it comes from.
    pub(crate) answers: bool,
}

/// What is to be done with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ruling {
    /// It is this path's.
    Take,
    /// It is this path's and came from elsewhere: who is there is to be asked.
    TakeAndAsk,
    /// The path is bound to none or to another: who sent it is to be asked, and nothing is believed.
    Ask,
    /// It is this path's, and its peer is there from now on.
    Move,
    /// From now on the path is bound to the one that it was made for.
    Bind,
}

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    bound: Option<Bound>,
    /// Number of the newest message of kind 1.
    newest: Option<u64>,
    /// What the peer is to be answered.
    answer: u64,
    /// When the configured address is called next, if the path does not lead there.
    next_home: Time,
}

impl Place {
    /// The peer's index of the path that this one leads to.
    pub(crate) fn peer_path(&self) -> Option<u8> {
        self.bound.map(|bound| bound.peer_path)
    }

    /// What is to be answered to the peer, where it is.
    pub(crate) fn answer(&self) -> u64 {
        self.answer
    }

    /// Whether it leads to this path of the peer's.
    pub(crate) fn is_bound_to(&self, peer_path: u8) -> bool {
        self.peer_path() == Some(peer_path)
    }

    /// Whether a caller of this rank has to go elsewhere while the path works.
    pub(crate) fn withstands(&self, rank: Rank) -> bool {
        self.bound.is_some_and(|bound| bound.rank >= rank)
    }

    /// Whether the configured address is to be called, where `peer` is not; `works`: the path is answered.
    pub(crate) fn calls_home(&mut self, now: Time, works: bool) -> bool {
        let is_due = now >= self.next_home && !(works && self.withstands(Rank::Configured));
        if is_due {
            self.next_home = now + HOME_INTERVAL;
        }
        is_due
    }

    /// The peer's path has been found to lead to another of ours.
    pub(crate) fn release(&mut self) {
        *self = Place::default();
    }

    /// The peer numbers its messages anew.
    pub(crate) fn forget_numbers(&mut self) {
        self.newest = None;
    }

    /// Judges a message that may be for this path. `peer`: where its peer is now.
    pub(crate) fn judge(&mut self, peer: Option<SocketAddr>, call: &Call) -> Ruling {
        let Call {
            from, peer_path, ..
        } = *call;
        if !self.is_bound_to(peer_path) {
            if !call.answers {
                return Ruling::Ask;
            }
            *self = Place {
                bound: Some(Bound {
                    peer_path,
                    rank: call.rank,
                }),
                newest: Some(call.number),
                answer: call.code,
                next_home: self.next_home,
            };
            return Ruling::Bind;
        }
        let is_newest = self.newest.is_none_or(|newest| call.number > newest);
        if !is_newest {
            // Overtaken: it says nothing about where the peer is now.
            return Ruling::Take;
        }
        if peer == Some(from) {
            self.newest = Some(call.number);
            self.answer = call.code;
            return Ruling::Take;
        }
        if !call.answers {
            return Ruling::TakeAndAsk;
        }
        self.newest = Some(call.number);
        self.answer = call.code;
        Ruling::Move
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: SocketAddr = address(1);
    const AWAY: SocketAddr = address(2);

    const fn address(host: u8) -> SocketAddr {
        use std::net::{IpAddr, Ipv4Addr};
        SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, host)), 4754)
    }

    fn call(from: SocketAddr, peer_path: u8, number: u64, answers: bool) -> Call {
        Call {
            from,
            peer_path,
            number,
            rank: Rank::SameIndex,
            code: number,
            answers,
        }
    }

    fn bound() -> Place {
        let mut place = Place::default();
        assert_eq!(place.judge(None, &call(HOME, 1, 5, true)), Ruling::Bind);
        place
    }

    #[test]
    fn a_caller_that_has_not_answered_changes_nothing() {
        let mut place = Place::default();
        let before = place.clone();
        for number in 0..100 {
            let ruling = place.judge(None, &call(AWAY, 1, number, false));
            assert_eq!(ruling, Ruling::Ask);
        }
        assert_eq!(place, before);
        let mut place = bound();
        let before = place.clone();
        assert_eq!(
            place.judge(Some(HOME), &call(AWAY, 1, 6, false)),
            Ruling::TakeAndAsk
        );
        assert_eq!(place, before);
    }

    #[test]
    fn an_answer_from_there_moves_the_peer_and_the_newest_message_decides() {
        let mut place = bound();
        assert_eq!(
            place.judge(Some(HOME), &call(AWAY, 1, 4, true)),
            Ruling::Take,
            "overtaken"
        );
        assert_eq!(
            place.judge(Some(HOME), &call(AWAY, 1, 6, true)),
            Ruling::Move
        );
        assert_eq!(place.answer(), 6);
        assert_eq!(
            place.judge(Some(AWAY), &call(HOME, 1, 5, true)),
            Ruling::Take
        );
        assert_eq!(
            place.judge(Some(AWAY), &call(HOME, 1, 7, true)),
            Ruling::Move
        );
    }

    #[test]
    fn the_configured_address_is_called_while_the_path_leads_elsewhere() {
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        let mut place = bound();
        assert!(place.calls_home(at(1), true) && !place.calls_home(at(1), true));
        assert!(place.calls_home(at(2), true));
        let configured = Call {
            rank: Rank::Configured,
            ..call(HOME, 0, 1, true)
        };
        assert_eq!(place.judge(Some(AWAY), &configured), Ruling::Bind);
        assert!(!place.calls_home(at(9), true), "it has only moved");
        assert!(place.calls_home(at(9), false));
    }

    #[test]
    fn a_path_is_bound_to_one_of_the_peer_s() {
        let mut place = bound();
        assert!(place.is_bound_to(1) && !place.is_bound_to(0));
        assert!(place.withstands(Rank::Caller) && place.withstands(Rank::SameIndex));
        assert!(!place.withstands(Rank::Configured));
        assert_eq!(
            place.judge(Some(HOME), &call(AWAY, 0, 1, false)),
            Ruling::Ask
        );
        assert!(place.is_bound_to(1));
        assert_eq!(
            place.judge(Some(HOME), &call(AWAY, 0, 1, true)),
            Ruling::Bind
        );
        assert!(place.is_bound_to(0));
    }
}

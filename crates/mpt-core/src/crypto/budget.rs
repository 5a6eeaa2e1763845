//! How much a receiver does for initiations: the costly part, about 0.2 ms of public-key arithmetic
//! each, is spent within limits, whoever asks and however often.
//!
//! An initiation is worked on at once as long as few come. When more do, the receiver is under load,
//! and a sender has to prove its address by a cookie first. Those that have are limited by address
//! and together, so that neither one host nor many can take the processor. What comes from where the
//! peer is known to be draws on limits of its own: a flood from elsewhere cannot use those up. Answers and responses
//! have limits for each path: whoever controls one path uses up those of that path alone. The limits are numbers
//! in a table of fixed size; nothing is kept for an address.

use std::time::Duration;

use super::handshake::Sender;
use crate::path::{MAX_PATHS, PathId};
use crate::time::Time;

/// Hosts that are told apart; more share.
const HOSTS: usize = 256;
/// What one host may have worked on, once its address is proved.
const EACH_HOST: Limit = Limit::new(5, 5);

/// Addresses and ports that are told apart where they ask for cookies; more share.
const ASKERS: usize = 256;
/// Cookies that one of them gets: all together may have the 5,000 a second that there are. A cookie is good for two minutes,
/// so that one is enough; who asks on does not hear, and is not to have those of the others.
const EACH_ASKER: Limit = Limit::new(20, 10);

/// So many a second, and so many at once after a pause.
#[derive(Debug, Clone, Copy)]
struct Limit {
    interval: Duration,
    burst: u32,
}

impl Limit {
    const fn new(a_second: u64, burst: u32) -> Limit {
        Limit {
            interval: Duration::from_nanos(1_000_000_000 / a_second),
            burst,
        }
    }

    /// Takes one. `due` is when the next would come at the even rate (the generic cell rate
    /// algorithm of ATM).
    fn take(self, due: &mut Time, now: Time) -> bool {
        if due.since(now) > self.interval * (self.burst - 1) {
            return false;
        }
        *due = (*due).max(now) + self.interval;
        true
    }
}

/// A limit and where it stands.
#[derive(Debug)]
struct Meter {
    limit: Limit,
    due: Time,
}

impl Meter {
    const fn new(a_second: u64, burst: u32) -> Meter {
        Meter {
            limit: Limit::new(a_second, burst),
            due: Time::ZERO,
        }
    }

    fn take(&mut self, now: Time) -> bool {
        self.limit.take(&mut self.due, now)
    }
}

/// A limit for each path, and where each stands.
#[derive(Debug)]
struct PathMeters {
    limit: Limit,
    due: [Time; MAX_PATHS],
}

impl PathMeters {
    const fn new(a_second: u64, burst: u32) -> PathMeters {
        PathMeters {
            limit: Limit::new(a_second, burst),
            due: [Time::ZERO; MAX_PATHS],
        }
    }

    fn take(&mut self, now: Time, path: PathId) -> bool {
        self.limit.take(&mut self.due[path.index()], now)
    }
}

/// All limits of a receiver. The first of a pair is for senders elsewhere, the second for where the
/// peer is known to be.
#[derive(Debug)]
pub(super) struct Budget {
    each_host: Limit,
    unproven: [Meter; 2],
    proven: [Meter; 2],
    /// To senders elsewhere, over all paths: they can send to any.
    replies_elsewhere: Meter,
    replies_to_peer: PathMeters,
    responses: [PathMeters; 2],
    hosts: Box<[Time; HOSTS]>,
    askers: Box<[Time; ASKERS]>,
}

impl Budget {
    pub(super) fn new() -> Budget {
        Budget {
            each_host: EACH_HOST,
            unproven: [Meter::new(20, 20), Meter::new(20, 20)],
            proven: [Meter::new(100, 50), Meter::new(100, 50)],
            replies_elsewhere: Meter::new(5000, 500),
            replies_to_peer: PathMeters::new(2000, 200),
            responses: [PathMeters::new(100, 20), PathMeters::new(100, 20)],
            hosts: Box::new([Time::ZERO; HOSTS]),
            askers: Box::new([Time::ZERO; ASKERS]),
        }
    }

    /// One for as many peers as may come back at once when a hub starts, many of them behind one address. All that
    /// is granted in a second is a quarter of it on one core.
    pub(super) fn of_hub() -> Budget {
        Budget {
            each_host: Limit::new(200, 100),
            unproven: [Meter::new(200, 200), Meter::new(200, 200)],
            proven: [Meter::new(800, 200), Meter::new(800, 200)],
            ..Budget::new()
        }
    }

    /// Whether an initiation may be worked on though its sender's address is not proved: the
    /// receiver is not under load.
    pub(super) fn unproven(&mut self, now: Time, known: bool) -> bool {
        self.unproven[usize::from(known)].take(now)
    }

    /// Whether one from a proved address, of this host, may be worked on.
    pub(super) fn proven(&mut self, now: Time, known: bool, host: u8) -> bool {
        self.each_host.take(&mut self.hosts[usize::from(host)], now)
            && self.proven[usize::from(known)].take(now)
    }

    /// Whether a cookie may be sent to this address and port.
    pub(super) fn cookie(&mut self, now: Time, sender: Sender, asker: u8) -> bool {
        (sender.known || EACH_ASKER.take(&mut self.askers[usize::from(asker)], now))
            && self.reply(now, sender)
    }

    /// Whether an answer that costs little may be sent: a cookie, or the same response again.
    pub(super) fn reply(&mut self, now: Time, sender: Sender) -> bool {
        match sender.known {
            true => self.replies_to_peer.take(now, sender.path),
            false => self.replies_elsewhere.take(now),
        }
    }

    /// Whether a response may be worked on: false ones, which anybody can make who has seen the
    /// initiation, cost as much as the right one.
    pub(super) fn response(&mut self, now: Time, sender: Sender) -> bool {
        self.responses[usize::from(sender.known)].take(now, sender.path)
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    const NOW: Time = Time::from_nanos(5_000_000_000);

    fn sender(path: usize, known: bool) -> Sender {
        Sender {
            path: PathId::new(path).unwrap(),
            address: SocketAddr::from(([192, 0, 2, 1], 4754)),
            known,
        }
    }

    /// How many of 100,000 a second, from hosts in turn, are granted in ten seconds.
    fn granted(mut take: impl FnMut(Time, u8) -> bool) -> usize {
        let at = |n: u32| NOW + Duration::from_micros(10) * n;
        (0..1_000_000).filter(|n| take(at(*n), *n as u8)).count()
    }

    #[test]
    fn a_flood_gets_the_rate_and_one_burst() {
        let mut budget = Budget::new();
        let unproven = granted(|now, _| budget.unproven(now, false));
        assert!((200..=221).contains(&unproven), "{unproven}");
        let one_host = granted(|now, _| budget.proven(now, false, 7));
        assert!((50..=56).contains(&one_host), "{one_host}");
        let mut budget = Budget::new();
        let all_hosts = granted(|now, host| budget.proven(now, false, host));
        assert!((1000..=1051).contains(&all_hosts), "{all_hosts}");
    }

    #[test]
    fn a_flood_from_one_port_leaves_others_their_cookies() {
        let mut budget = Budget::new();
        let one_port = granted(|now, _| budget.cookie(now, sender(0, false), 7));
        assert!((200..=211).contains(&one_port), "{one_port}");
        assert!(budget.cookie(NOW + Duration::from_secs(10), sender(0, false), 8));
        let mut budget = Budget::new();
        let all = granted(|now, asker| budget.cookie(now, sender(0, false), asker));
        assert!((50_000..=50_501).contains(&all), "{all}");
    }

    #[test]
    fn a_flood_from_elsewhere_leaves_the_peer_its_share() {
        let mut budget = Budget::new();
        granted(|now, _| budget.unproven(now, false) | budget.reply(now, sender(0, false)));
        let now = NOW + Duration::from_micros(9_999_990);
        assert!(!budget.unproven(now, false) && budget.unproven(now, true));
        assert!(budget.reply(now, sender(0, true)));
    }

    #[test]
    fn a_flood_on_one_path_leaves_the_others_their_share() {
        let mut budget = Budget::new();
        let flood = |budget: &mut Budget, now| {
            let of_peer = sender(0, true);
            budget.reply(now, of_peer) | budget.response(now, of_peer)
        };
        granted(|now, _| flood(&mut budget, now));
        let now = NOW + Duration::from_micros(9_999_990);
        assert!(!flood(&mut budget, now));
        assert!(budget.reply(now, sender(1, true)) && budget.response(now, sender(1, true)));
        assert!(budget.response(now, sender(0, false)));
    }
}

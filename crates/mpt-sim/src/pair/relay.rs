//! Somebody who has one path in his hand: all that comes over it comes to him, and he can put any
//! datagram before any socket of either end, from any address.

use std::net::SocketAddr;
use std::time::Duration;

use mpt_core::time::Time;

use super::{Side, Wire};

/// Where the relay can be reached from every path.
pub const RELAY: SocketAddr = SocketAddr::new(
    std::net::IpAddr::V4(std::net::Ipv4Addr::new(198, 51, 100, 66)),
    4754,
);

/// A datagram that the relay has in his hand.
#[derive(Debug, Clone)]
pub struct Caught {
    /// Who sent it.
    pub from: Side,
    /// It was sent to [`RELAY`], not over the path that is his.
    pub to_relay: bool,
    /// What it is, and on which path it was sent.
    pub wire: Wire,
}

/// What the relay does with it: puts it before the socket that `to` has for `wire.path`, as if it came
/// `from` there.
#[derive(Debug, Clone)]
pub struct Passed {
    /// To whom.
    pub to: Side,
    /// As if from there.
    pub from: SocketAddr,
    /// How much later.
    pub after: Duration,
    /// What.
    pub wire: Wire,
}

/// What the relay makes of each datagram. `None`: it goes on as if nobody were there.
pub type Plan = Box<dyn FnMut(Caught) -> Option<Vec<Passed>>>;

/// The relay, and what he holds back.
pub(super) struct Relay {
    /// The path that is his.
    pub(super) path: usize,
    plan: Plan,
    held: Vec<(Time, Passed)>,
}

impl Relay {
    pub(super) fn new(path: usize, plan: Plan) -> Relay {
        Relay {
            path,
            plan,
            held: Vec::new(),
        }
    }

    /// Whether he keeps the datagram.
    pub(super) fn take(&mut self, now: Time, caught: Caught) -> bool {
        let Some(passed) = (self.plan)(caught) else {
            return false;
        };
        let held = passed
            .into_iter()
            .map(|passed| (now + passed.after, passed));
        self.held.extend(held);
        true
    }

    pub(super) fn next(&self) -> Option<Time> {
        self.held.iter().map(|(at, _)| *at).min()
    }

    /// The next datagram that is due, oldest first.
    pub(super) fn deliver(&mut self, now: Time) -> Option<Passed> {
        let due = self
            .held
            .iter()
            .enumerate()
            .filter(|(_, (at, _))| *at <= now);
        let (index, _) = due.min_by_key(|(_, (at, _))| *at)?;
        Some(self.held.remove(index).1)
    }
}

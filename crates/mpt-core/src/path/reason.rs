//! Why a path is down.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

/// Why a path is down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DownReason {
    /// No probe was answered for this long.
    NoAnswer(Duration),
    /// The device that the path leaves by is down or gone.
    LinkDown,
    /// An ICMP error came back, or the kernel could not send.
    Unreachable(Unreachable),
    /// The peer's operator has taken it out of service.
    OutOfServiceAtPeer,
}

/// What was unreachable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreachable {
    /// The peer's network.
    Network,
    /// The peer's host.
    Host,
    /// The peer's port: its host is there, its daemon is not.
    Port,
    /// The same, says somebody else on the way.
    PortAt(IpAddr),
    /// The same, where the peer is known only by having called from there.
    Gone,
    /// Filtered by an administrator on the way.
    Prohibited,
    /// Whoever is next on the link, a router or the peer: this host itself says so.
    NextHop,
}

impl fmt::Display for DownReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DownReason::NoAnswer(span) => write!(f, "no probe was answered for {span:?}"),
            DownReason::LinkDown => f.write_str("its network interface is down"),
            DownReason::Unreachable(what) => match what {
                Unreachable::Network => f.write_str("the peer's network is unreachable"),
                Unreachable::Host => f.write_str("the peer's host is unreachable"),
                Unreachable::Port => {
                    f.write_str(
                    "the peer's host, or the router before it, answers that nobody listens there: mpt-tund is not \
                     running, or the port is not forwarded",
                )
                }
                Unreachable::PortAt(who) => write!(
                    f,
                    "{who}, on the way to the peer, refuses it: nothing is forwarded from there"
                ),
                Unreachable::Gone => f.write_str(
                    "where the peer called from, its host or its router refuses: nobody is there now",
                ),
                Unreachable::Prohibited => f.write_str("a firewall on the way refuses it"),
                Unreachable::NextHop => {
                    f.write_str("nobody answers on its link, neither a router nor the peer")
                }
            },
            DownReason::OutOfServiceAtPeer => f.write_str("the peer has taken it out of service"),
        }
    }
}

//! Keeps the tunnel's own packets out of the tunnel, and sends each path by its own device.
//!
//! The kernel chooses a packet's device by its destination. With a tunnel that goes wrong in two ways.
//! Where `routes` cover the way to the peer, the tunnel's own datagrams go into the tunnel, for ever. And
//! all paths have much the same destination, so all leave by the device that the main table prefers.
//!
//! As wg-quick does, the tunnel's sockets carry a mark (`SO_MARK`), and rules and tables of the tunnel's own
//! look at it (`plan` says which and why). Everything of ours bears the number of a routing protocol that
//! nobody else uses, and stands where `block` says, so that it is found again: what is missing is put
//! back, what a daemon left behind that was killed is taken away, and nobody else's is ever touched.
//!
//! ```text
//! block   the numbers of a tunnel: mark, tables, priorities
//! claim   who may use them
//! host    rules, routes, links, as plain values
//! plan    what a tunnel needs on this host, and what is missing for that; pure
//! kernel  the same to the kernel and from it, by rtnetlink
//! ```
//!
//! Where the kernel has no policy routing, or does not permit it, everything goes on as with
//! `routing = "off"`, and status says which device the kernel takes.

mod block;
mod claim;
mod host;
mod kernel;
mod plan;
mod tunnel;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use rtnetlink::Handle;
use tokio::task::JoinHandle;
use tokio::time::Instant;

pub(crate) use host::Prefix;
pub(crate) use plan::{Need, PathNeed};
pub(crate) use tunnel::{TunnelRouting, Why};

use crate::netlink::{Change, RouteChange};
use claim::Claim;
use host::{Host, PROTOCOL, contains};
use plan::{Action, Plan};

/// Changes come in bursts: a device that comes up brings some ten. They are looked at together.
const SETTLE: Duration = Duration::from_millis(50);
/// Somebody who takes away again and again what is made is left for this time.
const TRUCE: Duration = Duration::from_secs(2);
/// Reading all routes may take no more than this part of the time: one in so many.
const REST: u32 = 10;
/// `RTPROT_KERNEL`: a route that the kernel made for an address or a device.
const BY_KERNEL: u8 = 2;

/// The host's routing, as all tunnels of a daemon share it.
pub(crate) struct Routing {
    handle: Handle,
    connection: JoinHandle<()>,
    /// Addresses that tunnels send to, by tunnel.
    outer: RefCell<BTreeMap<String, Vec<IpAddr>>>,
    /// Not before this is everything read again.
    next: Cell<Instant>,
    /// How often rules and routes have changed.
    changes: Cell<u64>,
}

impl Drop for Routing {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Routing {
    /// Connects and subscribes, and takes away what daemons that died have left.
    ///
    /// # Errors
    /// If there is no netlink socket to be had.
    pub(crate) async fn open() -> io::Result<Routing> {
        let (connection, handle, _) = rtnetlink::new_connection()?;
        let routing = Routing {
            handle,
            connection: tokio::spawn(connection),
            outer: RefCell::default(),
            next: Cell::new(Instant::now()),
            changes: Cell::new(0),
        };
        if let Err(error) = routing.sweep().await {
            tracing::debug!("rules and routes of earlier daemons cannot be looked for: {error}");
        }
        Ok(routing)
    }

    async fn sweep(&self) -> io::Result<()> {
        let host = kernel::observe(&self.handle).await?;
        for claim in Claim::left_behind(&host).await {
            let actions = plan::difference(&Plan::default(), &host, claim.block);
            tracing::info!(
                "{} rules and routes of a daemon that was killed are removed (mark {:#x})",
                actions.len(),
                claim.block.mark()
            );
            self.apply(&actions).await?;
        }
        Ok(())
    }

    /// Whether the change may matter to what tunnels need. A host with a full table of the Internet changes
    /// routes many times a second, and this is only a reason to look again at all of it.
    pub(crate) fn is_concerned(&self, change: &Change) -> bool {
        match change {
            Change::Route(route) => {
                let outer = self.outer.borrow();
                may_lead(route, outer.values().flatten())
            }
            Change::Link(_)
            | Change::Address { .. }
            | Change::Rule
            | Change::Filter
            | Change::Anything => true,
        }
    }

    /// What has changed is to be looked at.
    pub(crate) fn note(&self) {
        self.changes.set(self.changes.get() + 1);
    }

    /// How often that was so: with another number than before, [`TunnelRouting::mend`] is due.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.get()
    }

    /// When what has changed may be looked at.
    pub(crate) fn settled(&self) -> Instant {
        self.next.get().max(Instant::now() + SETTLE)
    }

    /// Lets some time pass before anything is looked at again.
    fn rest(&self) {
        self.next.set(self.next.get().max(Instant::now() + TRUCE));
    }

    async fn observe(&self) -> io::Result<Host> {
        let start = Instant::now();
        let host = kernel::observe(&self.handle).await;
        self.next.set(Instant::now() + start.elapsed() * REST);
        host
    }

    /// Does all of it; goes on after what fails, and returns the first failure.
    async fn apply(&self, actions: &[Action]) -> io::Result<()> {
        let mut result = Ok(());
        for action in actions {
            let done = kernel::apply(&self.handle, action).await;
            if let Err(error) = &done {
                tracing::debug!("the kernel refuses {action:?}: {error}");
            }
            result = result.and(done);
        }
        result
    }
}

/// Whether a route may matter to who sends to `outer`: a default route, one of the kernel's own making, one of
/// ours, and one that leads there.
fn may_lead<'a>(route: &RouteChange, mut outer: impl Iterator<Item = &'a IpAddr>) -> bool {
    route.destination.1 == 0
        || [BY_KERNEL, PROTOCOL].contains(&route.protocol)
        || outer.any(|ip| contains(route.destination, *ip))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_that_lead_elsewhere_are_passed_over() {
        let outer: [IpAddr; 2] = [
            "203.0.113.7".parse().unwrap(),
            "2001:db8::7".parse().unwrap(),
        ];
        let bird = 12;
        for (destination, length, protocol, expected) in [
            ("198.51.100.0", 24, bird, false),
            ("2001:db8:1::", 48, bird, false),
            ("203.0.113.0", 24, bird, true),
            ("2001:db8::", 48, bird, true),
            ("0.0.0.0", 0, bird, true),
            ("::", 0, bird, true),
            ("198.51.100.0", 24, BY_KERNEL, true),
            ("198.51.100.0", 24, PROTOCOL, true),
        ] {
            let route = RouteChange {
                destination: (destination.parse().unwrap(), length),
                table: 254,
                protocol,
                index: None,
            };
            assert_eq!(may_lead(&route, outer.iter()), expected, "{route:?}");
        }
    }
}

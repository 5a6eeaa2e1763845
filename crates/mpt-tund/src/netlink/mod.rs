//! What the tunnel asks of the kernel's network configuration, and what it hears from it.
//!
//! [`Netlink`] sets up the TUN interface: MTU, addresses, routes, up. All of it goes when the
//! interface goes, so there is nothing to undo at the end.
//!
//! [`LinkWatch`] hears of links, addresses, routes and rules that come, change and go. It is why a path
//! is given up the moment its cable is pulled and not only when probes have been silent for long enough,
//! and why what is configured and was taken away comes back within a moment. Its table of links and
//! addresses ([`Links`]) is what the configuration is compared with.
//!
//! ```text
//! configure  requests, through rtnetlink
//! error      what was refused, and what to do
//! watch      notifications: its own socket, initial state, recovery from lost notifications
//! links      the table of links and addresses that they keep current
//! filters    which devices filter what comes in
//! sockets    which Unix sockets have abstract names, and whose they are
//! wire       the few netlink messages and attributes that it takes, read from bytes
//! ```

mod configure;
mod error;
mod filters;
#[cfg(test)]
pub(crate) mod hostile;
mod links;
mod sockets;
mod watch;
mod wire;

pub(crate) use configure::{Netlink, Prefix, network};
pub(crate) use error::NetlinkError;
pub(crate) use filters::strict_devices;
#[cfg(test)]
pub(crate) use links::tests as links_tests;
pub(crate) use links::{Address, Change, Links, RouteChange};
pub(crate) use sockets::{AbstractSocket, abstract_sockets};
pub(crate) use watch::LinkWatch;

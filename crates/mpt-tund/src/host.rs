//! What the daemon works on.

use crate::files::Store;
use crate::netlink::{LinkWatch, Netlink};
use crate::routing::Routing;

/// What the daemon works on: its files, and the kernel's network configuration.
pub(crate) struct Host {
    pub(crate) files: Store,
    pub(crate) netlink: Netlink,
    pub(crate) links: LinkWatch,
    pub(crate) routing: Routing,
}

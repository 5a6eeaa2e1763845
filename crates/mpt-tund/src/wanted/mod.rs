//! What is configured is *wanted*, and what the host has is compared with it.
//!
//! Interfaces are unplugged, addresses change, somebody flushes a route: so that a tunnel is what its
//! file says, it does not carry out changes but mends differences. The comparisons here are pure; they say
//! what is to be done, and [`crate::tunnel::Tunnel::reconcile`] does it, at each change that netlink tells
//! of, at each reload and, where something could not be done, again and again.
//!
//! ```text
//! interface  the TUN interface's name, MTU, addresses and routes
//! binding    what a path's socket is to be bound to, or what it waits for
//! retry      when what failed is tried again, and how often at most anything is mended
//! ```

pub(crate) mod binding;
pub(crate) mod interface;
pub(crate) mod retry;

//! A hub: one interface, a few sockets, any number of sealed peers with many paths each.
//!
//! Each peer has what a sealed tunnel of two ends has, the two halves of [`crate::tunnel`]: its own sessions,
//! numbers, window, paths and scheduler. So nothing that one peer does is in another's way but for the time that it
//! takes. What they share is here:
//!
//! * [`AllowedIps`]: whose an inner address is, by the longest prefix. It says which peer a packet from the interface
//!   goes to, and whether one that a peer sent may come from where it says ([`Sources`]).
//! * [`HubInbound`]: finds the peer of what arrives. A sealed packet says by its index which it is; an initiation is
//!   opened once for all of them ([`crate::crypto::Reception`]) and found by the static key that comes out. A peer's
//!   halves are made when it has called, and go when nothing is agreed with it any more: one that is away costs a
//!   row in a table.
//! * [`HubOutbound`]: finds the peer of what the interface brings.
//!
//! Where a hub has several workers, there is a pair of them for each, with peers of its own ([`Worker`]), and what is for a
//! peer of another worker is handed over ([`Handed`]).
//!
//! Neither looks at all peers to find out what is due: `Schedule` knows the next. What packets take is out of one pool,
//! which `Memory` shares out. And when more comes than either can
//! handle, each peer gets its share of the processor: `Waiting` has a queue for each, served in turn.

mod allowed;
mod inbound;
mod limit;
mod memory;
mod outbound;
mod schedule;
#[cfg(test)]
mod tests;
mod waiting;
mod worker;

pub use allowed::{AllowedIps, Exchange, Overlap, Prefix, Sources};
pub use inbound::{Came, HubConfig, HubInbound, HubNews, PeerSummary};
pub(crate) use limit::RateLimit;
use memory::Memory;
pub use outbound::{HubOutbound, Taken};
use schedule::Schedule;
pub use worker::{Handed, Worker};

use crate::crypto::{PresharedKey, PublicKey};

pub use crate::crypto::HubSlot;

/// Who a peer is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerKeys {
    /// Its static key.
    pub public_key: PublicKey,
    /// A secret of it and the hub; [`PresharedKey::none`] where there is none.
    pub psk: PresharedKey,
}

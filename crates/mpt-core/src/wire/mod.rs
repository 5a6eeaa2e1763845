//! What is on the wire, outside and inside: parsers and emitters, each of one format, without state.
//!
//! * inner packets: [`ip`] and their `transport` headers, with [`checksum`]; the TUN's super-packets ([`vnet`]);
//!   what is done to a packet's own bytes: [`mss`], [`ecn`], [`fragment`]; the answer to one that is too
//!   big: [`icmp`];
//! * the tunnel's own: the header of each datagram ([`gre`]), and its control messages: [`control`], of the
//!   [`kind`]s [`probe`], [`report`], [`edges`]. Those of a sealed tunnel's handshake stand in [`crate::crypto`].

pub mod checksum;
pub mod control;
pub mod ecn;
pub mod edges;
pub mod fragment;
pub mod gre;
pub mod icmp;
pub mod ip;
pub mod kind;
pub mod mss;
pub mod name;
pub mod probe;
pub mod report;
#[cfg(test)]
pub(crate) mod sample;
pub(crate) mod transport;
pub mod vnet;

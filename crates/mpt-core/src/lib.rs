//! The multipath GRE-in-UDP tunnel without I/O: no sockets, no clock, no threads. Bytes and times
//! go in by `handle_*`, bytes and times come out by `poll_*`; `mpt-tund` moves them between the
//! kernel and here, `mpt-sim` between two tunnels in virtual time.
//!
//! The two lines that a packet takes, in the order of their files:
//!
//! * out: [`tunnel`] ([`tunnel::Outbound`]) → [`vnet`], [`segment`], or [`icmp`] and [`fragment`] for
//!   what does not fit → [`gre`] → [`scheduler`] → [`train`]
//! * in: [`tunnel`] ([`tunnel::Inbound`]) → [`gre`] → [`path`], [`probe`] → [`ecn`] →
//!   [`reorder`], in the memory of [`buffer`], or [`block_sort`] → [`coalesce`]
//! * back: what arrived, for the line out of the other end: [`report`]
//!
//! What both count on: [`ip`], [`seq`], [`time`], [`checksum`], [`drops`]. What
//! `mpt-ctl` sees: [`control`], [`setting`]. How far a stream is from its order: [`metrics`].
#![forbid(unsafe_code)]

pub mod block_sort;
pub mod buffer;
pub mod checksum;
pub mod coalesce;
pub mod control;
pub mod crypto;
pub mod drops;
pub mod ecn;
pub mod edges;
pub mod fragment;
pub mod gre;
pub mod icmp;
pub mod ip;
pub mod metrics;
pub mod mss;
mod order;
pub mod path;
mod peak;
pub mod probe;
mod queue;
mod recovery;
pub mod reorder;
pub mod report;
#[cfg(test)]
mod sample;
pub mod scheduler;
pub mod segment;
mod sent;
pub mod seq;
pub mod setting;
mod silence;
pub mod time;
pub mod train;
mod transport;
pub mod tunnel;
pub mod units;
pub mod vnet;

//! The multipath GRE-in-UDP tunnel without I/O.
#![forbid(unsafe_code)]

pub mod checksum;
pub mod coalesce;
pub mod control;
pub mod ecn;
pub mod fragment;
pub mod icmp;
pub mod ip;
#[cfg(test)]
mod sample;
pub mod segment;
mod transport;
pub mod vnet;

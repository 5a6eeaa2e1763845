//! The multipath GRE-in-UDP tunnel without I/O.
#![forbid(unsafe_code)]

pub mod control;
pub mod metrics;

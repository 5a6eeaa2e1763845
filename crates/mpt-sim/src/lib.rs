//! Virtual-time test bench of mpt-core.
//!
//! Everything here runs without sockets and without a clock: time is a `u64` of nanoseconds that
//! the caller moves, randomness comes from a seed, and so a run repeats to the last bit.
#![forbid(unsafe_code)]

pub mod campaign;
pub mod delay;
pub mod flow;
pub mod link;
pub mod loss;
pub mod packet;
pub mod pair;
pub mod recording;
pub mod rng;
pub mod source;
pub mod stream;

//! Faults of a tunnel over two NAT routers in which delay or long times matter.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

#[path = "faults/moving.rs"]
mod moving;

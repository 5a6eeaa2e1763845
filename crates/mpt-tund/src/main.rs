//! The MPT daemon.
fn main() {}

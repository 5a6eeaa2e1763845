//! Inspect and steer a running MPT tunnel.
fn main() {}

//! The MPT daemon.

#[expect(dead_code, reason = "the lines in and out will use it")]
mod tun;
#[expect(dead_code, unused_imports, reason = "the lines in and out will use it")]
mod udp;

fn main() {}

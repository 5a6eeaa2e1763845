//! The kernel's own GRE over FOU as a peer: what "speaks GRE-in-UDP" means in practice.
//!
//! docs/interoperability.md shows the same commands. `oseq` makes the kernel number what it sends;
//! without `iseq` it takes what comes in any order. It has no checksum of its own here, the UDP
//! checksum covers all.

use crate::link::{Family, Link};
use crate::namespace::Namespace;
use crate::settings::Side;

/// UDP port of GRE-in-UDP (RFC 8086).
const PORT: u16 = 4754;

/// Sets up interface `gre1` on one end of `link`, with that side's inner addresses.
pub fn set_up(host: &Namespace, side: Side, link: &Link) {
    let (local, remote) = match side {
        Side::A => (&link.address_a, &link.address_b),
        Side::B => (&link.address_b, &link.address_a),
    };
    // `encaplimit none`: no destination option between IPv6 and UDP, which few receivers expect.
    let (family, kind, more) = match link.family {
        Family::V4 => ("", "gre", "ttl 64 encap-csum"),
        Family::V6 => (
            "-6",
            "ip6gre",
            "hoplimit 64 encaplimit none encap-udp6-csum",
        ),
    };
    host.run(&format!("ip {family} fou add port {PORT} ipproto 47"));
    host.run(&format!(
        "ip link add gre1 type {kind} local {local} remote {remote} oseq \
         encap fou encap-sport {PORT} encap-dport {PORT} {more}"
    ));
    // 1500 less outer IP, UDP and GRE with a sequence number, as MPT's own tunnel has it.
    let mtu = 1500.0 - link.family.header_bytes() - 16.0;
    host.run(&format!("ip link set gre1 mtu {mtu} up"));
    let (v4, v6) = (side.inner_v4(), side.inner_v6());
    host.run(&format!("ip addr add {v4}/30 dev gre1"));
    host.run(&format!("ip addr add {v6}/64 dev gre1 nodad"));
}

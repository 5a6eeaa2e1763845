//! What a link can carry at most, the yardstick of the throughput tests.
//!
//! Netem's `rate` counts an IP packet plus 14 bytes of Ethernet header. A full-sized inner packet of
//! `MTU` bytes carries `MTU − 52` bytes of TCP payload (20 of IPv4, 32 of TCP with timestamps), and
//! on the link it is `MTU + 36 + 14` bytes long: 20 of outer IPv4, 8 of UDP, 8 of GRE with a sequence
//! number, 14 of Ethernet. So over links of rates R₁, R₂, … one flow gets at most
//! Σ Rᵢ · (MTU − 52) / (MTU + 36 + 14): 139.9 Mbit/s for 100 + 50 Mbit/s, the limit that Al-Imareen
//! and Lencse's measurements are held against. Outer IPv6 takes 20 bytes more, inner IPv6 too.

use crate::link::Family;

/// Ethernet header, as netem counts it.
const LINK_BYTES: f64 = 14.0;
/// UDP header, and GRE with a sequence number.
const UDP_GRE_BYTES: f64 = 8.0 + 8.0;
/// TCP header with the timestamp option, as Linux sends it.
const TCP_BYTES: f64 = 32.0;

/// What sealing adds: the key in GRE's header, the inner packet's type, and the tag.
const SEAL_BYTES: f64 = 4.0 + 2.0 + 16.0;

/// Greatest TCP goodput, in Mbit/s, of a plain tunnel with this MTU over links of these rates and
/// outer families, for inner packets of the family `inner`.
#[must_use]
pub fn goodput_limit_mbps(links: &[(f64, Family)], mtu: u32, inner: Family) -> f64 {
    limit_mbps(links, mtu, inner, 0.0)
}

/// The same of a sealed tunnel.
#[must_use]
pub fn sealed_goodput_limit_mbps(links: &[(f64, Family)], mtu: u32, inner: Family) -> f64 {
    limit_mbps(links, mtu, inner, SEAL_BYTES)
}

fn limit_mbps(links: &[(f64, Family)], mtu: u32, inner: Family, seal: f64) -> f64 {
    let mtu = f64::from(mtu);
    let payload = mtu - inner.header_bytes() - TCP_BYTES;
    links
        .iter()
        .map(|(rate, outer)| {
            let around = seal + UDP_GRE_BYTES + outer.header_bytes() + LINK_BYTES;
            rate * payload / (mtu + around)
        })
        .sum()
}

/// Greatest UDP payload rate, in Mbit/s, for datagrams of `payload` bytes inside IPv4.
#[must_use]
pub fn udp_limit_mbps(links: &[(f64, Family)], payload: u32) -> f64 {
    let payload = f64::from(payload);
    let inner = payload + 8.0 + Family::V4.header_bytes();
    links
        .iter()
        .map(|(rate, outer)| {
            rate * payload / (inner + outer.header_bytes() + UDP_GRE_BYTES + LINK_BYTES)
        })
        .sum()
}

/// Greatest TCP goodput, in Mbit/s, of a bare link with 1500-byte packets: 95.6 for 100 Mbit/s.
#[must_use]
pub fn raw_limit_mbps(rate: f64, family: Family) -> f64 {
    rate * (1500.0 - family.header_bytes() - TCP_BYTES) / (1500.0 + LINK_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_the_paper() {
        let limit = |second| {
            goodput_limit_mbps(
                &[(100.0, Family::V4), (second, Family::V4)],
                1464,
                Family::V4,
            )
        };
        assert!((limit(50.0) - 139.89).abs() < 0.01);
        assert!((limit(10.0) - 102.59).abs() < 0.01);
        assert!((limit(100.0) - 186.53).abs() < 0.01);
    }

    #[test]
    fn a_bare_link_carries_95_6_percent() {
        assert!((raw_limit_mbps(100.0, Family::V4) - 95.64).abs() < 0.01);
    }
}

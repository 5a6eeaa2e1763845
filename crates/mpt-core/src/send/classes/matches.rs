//! Which packets a class is made of: by DSCP, ports and destination.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use crate::wire::ip::{self, Packet};
use crate::wire::transport::PORTS;

/// Which packets: those that fit all that is given, and of each any.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Match {
    /// DSCPs, a bit for each; none: any.
    pub dscp: u64,
    /// Ports of TCP, UDP, UDP-Lite, SCTP or DCCP, the source's or the destination's; none: any. Fragments have none,
    /// not even the first, so that all of a packet is of one class.
    pub ports: Vec<RangeInclusive<u16>>,
    /// Where to, as address and prefix length; none: anywhere.
    pub to: Vec<(IpAddr, u8)>,
}

impl Match {
    /// Whether all that fits `other` fits this.
    #[must_use]
    pub fn covers(&self, other: &Match) -> bool {
        let dscp = self.dscp == 0 || other.dscp != 0 && other.dscp & !self.dscp == 0;
        let within = |range: &RangeInclusive<u16>| {
            let covers = |own: &RangeInclusive<u16>| {
                own.contains(range.start()) && own.contains(range.end())
            };
            self.ports.iter().any(covers)
        };
        let ports =
            self.ports.is_empty() || !other.ports.is_empty() && other.ports.iter().all(within);
        let inside = |&(address, length): &(IpAddr, u8)| {
            let own = self.to.iter();
            own.copied()
                .any(|own| own.1 <= length && is_in(address, own))
        };
        let to = self.to.is_empty() || !other.to.is_empty() && other.to.iter().all(inside);
        dscp && ports && to
    }

    /// Whether a packet that looks so is of it.
    pub(super) fn fits(&self, look: &Look) -> bool {
        (self.dscp == 0 || self.dscp >> look.dscp & 1 == 1)
            && (self.ports.is_empty() || look.ports.is_some_and(|ports| self.has_port(ports)))
            && (self.to.is_empty() || self.to.iter().any(|&to| is_in(look.destination, to)))
    }

    fn has_port(&self, ports: [u16; 2]) -> bool {
        let mut ranges = self.ports.iter();
        ranges.any(|range| ports.iter().any(|port| range.contains(port)))
    }
}

fn is_in(address: IpAddr, (network, length): (IpAddr, u8)) -> bool {
    match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            let differ = address.to_bits() ^ network.to_bits();
            length == 0 || differ >> (32 - u32::from(length.min(32))) == 0
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => {
            let differ = address.to_bits() ^ network.to_bits();
            length == 0 || differ >> (128 - u32::from(length.min(128))) == 0
        }
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
    }
}

/// What of a packet decides its class.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    dscp: u8,
    ports: Option<[u16; 2]>,
    destination: IpAddr,
}

impl Look {
    pub(super) fn at(packet: &Packet<'_>, looks_at_ports: bool) -> Look {
        Look {
            dscp: packet.tos() >> 2,
            ports: looks_at_ports.then(|| ports(packet)).flatten(),
            destination: packet.destination(),
        }
    }
}

/// The ports of source and destination, if the packet shows them and is no fragment.
fn ports(packet: &Packet<'_>) -> Option<[u16; 2]> {
    const WITH_PORTS: [u8; 5] = [ip::protocol::TCP, ip::protocol::UDP, 33, 132, 136];
    let transport = packet.transport().ok()?;
    if !WITH_PORTS.contains(&transport.protocol) || transport.fragment.is_some() {
        return None;
    }
    let ports = packet.bytes().get(transport.offset..)?.get(PORTS)?;
    Some([
        u16::from_be_bytes([ports[0], ports[1]]),
        u16::from_be_bytes([ports[2], ports[3]]),
    ])
}

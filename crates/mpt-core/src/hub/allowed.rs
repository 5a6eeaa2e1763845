//! Whose an inner address is: prefixes, each one peer's, of which the longest that fits decides.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::{Ipv4Net, Ipv6Net};
use prefix_trie::PrefixMap;

use crate::crypto::HubSlot;
use crate::wire::ip::Packet;

/// An address and the length of its prefix in bits.
pub type Prefix = (IpAddr, u8);

/// The prefixes of all peers.
#[derive(Debug, Clone, Default)]
pub struct AllowedIps {
    v4: PrefixMap<Ipv4Net, HubSlot>,
    v6: PrefixMap<Ipv6Net, HubSlot>,
}

/// A prefix is within another peer's, or another's is within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overlap {
    /// The other peer.
    pub with: HubSlot,
    /// Its prefix.
    pub prefix: Prefix,
}

impl AllowedIps {
    /// Gives a prefix to a peer. A prefix that is another's, or lies in it, or around it, would make it hang on
    /// lengths whose an address is. Only all addresses (a length of 0) may lie around others: they are the rest.
    ///
    /// # Errors
    /// The overlap; then nothing has changed. A length that no address has counts as the whole address.
    pub fn insert(&mut self, prefix: Prefix, peer: HubSlot) -> Result<(), Overlap> {
        match net(prefix) {
            Net::V4(net) => insert(&mut self.v4, net, peer, net.prefix_len() == 0, |other| {
                (other.addr().into(), other.prefix_len())
            }),
            Net::V6(net) => insert(&mut self.v6, net, peer, net.prefix_len() == 0, |other| {
                (other.addr().into(), other.prefix_len())
            }),
        }
    }

    /// Takes a prefix away again.
    pub fn remove(&mut self, prefix: Prefix) {
        match net(prefix) {
            Net::V4(net) => drop(self.v4.remove(&net)),
            Net::V6(net) => drop(self.v6.remove(&net)),
        }
    }

    /// The peer that an address is of.
    #[must_use]
    #[inline]
    pub fn peer_of(&self, address: IpAddr) -> Option<HubSlot> {
        match net((address, u8::MAX)) {
            Net::V4(net) => self.v4.get_lpm(&net).map(|(_, peer)| *peer),
            Net::V6(net) => self.v6.get_lpm(&net).map(|(_, peer)| *peer),
        }
    }
}

enum Net {
    V4(Ipv4Net),
    V6(Ipv6Net),
}

/// A prefix, host bits zero.
#[inline]
fn net((address, len): Prefix) -> Net {
    match address {
        IpAddr::V4(address) => Net::V4(Ipv4Net::new_assert(address, len.min(32)).trunc()),
        IpAddr::V6(address) => Net::V6(Ipv6Net::new_assert(address, len.min(128)).trunc()),
    }
}

fn insert<N: prefix_trie::Prefix + Copy>(
    map: &mut PrefixMap<N, HubSlot>,
    net: N,
    peer: HubSlot,
    is_rest: bool,
    told: impl Fn(N) -> Prefix,
) -> Result<(), Overlap> {
    let around = map.cover(&net);
    let within = map
        .children(&net)
        .take(if is_rest { 0 } else { usize::MAX });
    let same = map.get_key_value(&net);
    let mut others = around
        .filter(|(other, _)| other.prefix_len() > 0)
        .chain(within)
        .chain(same);
    if let Some((other, &with)) = others.find(|(_, other)| **other != peer) {
        let prefix = told(*other);
        return Err(Overlap { with, prefix });
    }
    map.insert(net, peer);
    Ok(())
}

/// Which inner packets a peer may send: those from addresses that are its own.
#[derive(Debug, Clone)]
pub struct Sources {
    allowed: Arc<AllowedIps>,
    peer: HubSlot,
}

impl Sources {
    /// Those of a peer.
    #[must_use]
    pub fn new(allowed: Arc<AllowedIps>, peer: HubSlot) -> Sources {
        Sources { allowed, peer }
    }

    /// Whether an inner packet may be taken.
    pub(crate) fn allow(&self, packet: &[u8]) -> bool {
        let source = Packet::parse(packet).ok().map(|packet| packet.source());
        source.is_some_and(|source| self.allowed.peer_of(source) == Some(self.peer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(number: usize) -> HubSlot {
        HubSlot::new(number).unwrap()
    }

    fn prefix(text: &str) -> Prefix {
        let (address, len) = text.split_once('/').unwrap();
        (address.parse().unwrap(), len.parse().unwrap())
    }

    #[test]
    fn an_address_is_of_the_longest_prefix() {
        let mut allowed = AllowedIps::default();
        for (text, peer) in [
            ("0.0.0.0/0", 1),
            ("10.0.0.0/8", 2),
            ("10.1.0.0/16", 2),
            ("192.0.2.7/32", 3),
            ("2001:db8::/64", 4),
        ] {
            assert_eq!(allowed.insert(prefix(text), slot(peer)), Ok(()), "{text}");
        }
        let of = |text: &str| allowed.peer_of(text.parse().unwrap());
        assert_eq!(of("10.1.2.3"), Some(slot(2)));
        assert_eq!(of("192.0.2.7"), Some(slot(3)));
        assert_eq!(of("192.0.2.8"), Some(slot(1)));
        assert_eq!(of("2001:db8::1"), Some(slot(4)));
        assert_eq!(of("2001:db8:0:1::1"), None);
        allowed.remove(prefix("192.0.2.7/32"));
        assert_eq!(allowed.peer_of("192.0.2.7".parse().unwrap()), Some(slot(1)));
    }

    #[test]
    fn overlaps_are_refused_either_way_but_with_the_rest() {
        for (first, second) in [
            ("10.99.0.2/32", "10.99.0.2/32"),
            ("10.99.0.0/24", "10.99.0.2/32"),
            ("10.99.0.2/32", "10.99.0.0/24"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("fd00::/8", "fd99::2/128"),
        ] {
            let mut allowed = AllowedIps::default();
            allowed.insert(prefix(first), slot(1)).unwrap();
            let overlap = allowed.insert(prefix(second), slot(2)).unwrap_err();
            assert_eq!(overlap.with, slot(1));
            assert_eq!(overlap.prefix, prefix(first));
            assert_eq!(allowed.insert(prefix(second), slot(1)), Ok(()), "its own");
        }
        for (first, second) in [
            ("0.0.0.0/0", "10.99.0.2/32"),
            ("10.99.0.2/32", "0.0.0.0/0"),
            ("10.99.0.2/32", "10.99.0.3/32"),
        ] {
            let mut allowed = AllowedIps::default();
            allowed.insert(prefix(first), slot(1)).unwrap();
            assert_eq!(allowed.insert(prefix(second), slot(2)), Ok(()));
        }
    }
}

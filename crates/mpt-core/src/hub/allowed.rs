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

    /// The peers that have all addresses which no other has.
    fn rest(&self) -> impl Iterator<Item = HubSlot> {
        let v4 = self.v4.get(&Ipv4Net::default()).copied();
        let v6 = self.v6.get(&Ipv6Net::default()).copied();
        v4.into_iter().chain(v6)
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

/// Prefixes of peers, in place of those that they had; a peer that is gone has none.
pub type Exchange = [(HubSlot, Arc<[Prefix]>)];

/// What a line of a hub knows of all peers' prefixes. A change costs what it changes, however many peers there are.
#[derive(Debug, Default)]
pub(super) struct Holdings {
    all: Arc<AllowedIps>,
    /// By slot.
    of: Vec<Option<Arc<[Prefix]>>>,
}

impl Holdings {
    /// The prefixes of all.
    #[inline]
    pub(super) fn all(&self) -> &AllowedIps {
        &self.all
    }

    /// The peers that have all addresses which no other has: two at most, one a family.
    pub(super) fn rest(&self) -> Vec<HubSlot> {
        self.all.rest().collect()
    }

    /// Exchanges prefixes. They may go from one of these peers to another; with those of others they do not overlap.
    /// Where [`Sources`] of peers that have the rest are kept, all prefixes are copied.
    pub(super) fn exchange(&mut self, exchange: &Exchange) {
        let all = Arc::make_mut(&mut self.all);
        for (slot, _) in exchange {
            let former = self.of.get_mut(slot.number()).and_then(Option::take);
            let former = former.iter().flat_map(|prefixes| prefixes.iter());
            former.for_each(|prefix| all.remove(*prefix));
        }
        for (slot, prefixes) in exchange {
            for prefix in prefixes.iter() {
                // The configuration has been checked for overlaps.
                let _ = all.insert(*prefix, *slot);
            }
            if self.of.len() <= slot.number() {
                self.of.resize(slot.number() + 1, None);
            }
            self.of[slot.number()] = Some(prefixes.clone()).filter(|prefixes| !prefixes.is_empty());
        }
    }

    /// What a peer may send. Since no other's prefix lies in its own, it need know no other's, unless it has the rest.
    pub(super) fn sources(&self, peer: HubSlot) -> Sources {
        let own = || {
            let mut own = AllowedIps::default();
            let prefixes = self.of.get(peer.number()).and_then(Option::as_deref);
            for prefix in prefixes.unwrap_or_default() {
                let _ = own.insert(*prefix, peer);
            }
            Arc::new(own)
        };
        let has_rest = self.all.rest().any(|rest| rest == peer);
        let allowed = if has_rest { self.all.clone() } else { own() };
        Sources { allowed, peer }
    }
}

/// Which inner packets a peer may send: those from addresses that are its own.
#[derive(Debug, Clone)]
pub struct Sources {
    allowed: Arc<AllowedIps>,
    peer: HubSlot,
}

impl Sources {
    /// None at all.
    pub(super) fn none(peer: HubSlot) -> Sources {
        let allowed = Arc::default();
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
    use proptest::prelude::*;

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

    /// Some of a peer's prefixes, by bits; one peer may have the rest besides.
    fn some(number: usize, bits: u8) -> Arc<[Prefix]> {
        let own = [
            format!("10.20.{number}.0/24"),
            format!("10.20.{number}.7/32"),
            format!("fd99::{number}/128"),
            "0.0.0.0/0".to_owned(),
        ];
        let has = |at: usize| bits & (1 << at) > 0 && (at < 3 || number == 3);
        let own = own.iter().enumerate().filter(|(at, _)| has(*at));
        own.map(|(_, text)| prefix(text)).collect()
    }

    proptest! {
        #[test]
        fn what_is_exchanged_bit_by_bit_is_as_if_all_were_told_at_once(
            steps in prop::collection::vec(prop::collection::btree_map(0..5_usize, 0..16_u8, 1..3), 1..12)
        ) {
            let mut holdings = Holdings::default();
            let mut last = [0; 5];
            for step in steps {
                let exchange = step.iter().map(|(&at, &bits)| (slot(at), some(at, bits)));
                holdings.exchange(&exchange.collect::<Vec<_>>());
                step.into_iter().for_each(|(at, bits)| last[at] = bits);
                let mut all = AllowedIps::default();
                for (number, bits) in last.into_iter().enumerate() {
                    for prefix in some(number, bits).iter() {
                        prop_assert_eq!(all.insert(*prefix, slot(number)), Ok(()));
                    }
                }
                for number in 0..5 {
                    let asked = [format!("10.20.{number}.7"), format!("10.20.{number}.8"), format!("fd99::{number}")];
                    for address in asked.map(|text| text.parse().unwrap()) {
                        let owner = all.peer_of(address);
                        prop_assert_eq!(holdings.all().peer_of(address), owner);
                        for peer in (0..5).map(slot) {
                            let may = holdings.sources(peer).allowed.peer_of(address) == Some(peer);
                            prop_assert_eq!(may, owner == Some(peer), "{} of {:?}", address, peer);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn two_peers_may_exchange_prefixes_at_once() {
        let [a, b]: [Arc<[Prefix]>; 2] =
            ["10.99.0.2/32", "10.99.0.3/32"].map(|text| Arc::new([prefix(text)]) as _);
        let mut holdings = Holdings::default();
        holdings.exchange(&[(slot(1), a.clone()), (slot(2), b.clone())]);
        holdings.exchange(&[(slot(1), b), (slot(2), a)]);
        let of = |text: &str| holdings.all().peer_of(text.parse().unwrap());
        assert_eq!(of("10.99.0.2"), Some(slot(2)));
        assert_eq!(of("10.99.0.3"), Some(slot(1)));
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

//! The host's links and addresses as last heard of, and what changed.
//!
//! The kernel repeats itself: a link message comes whenever anything about a link changes. Only
//! what a tunnel cares about makes a [`Change`]. Each entry remembers the dump in which it was last
//! seen, so that after a new dump those that are gone can be told.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use super::wire::Content;

/// A link of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    /// Interface name, such as `eth0`.
    pub(crate) name: String,
    /// It can carry packets: set up by the administrator, with a carrier, and ready.
    pub(crate) up: bool,
    /// The administrator has set it up.
    pub(crate) is_set_up: bool,
    /// Bytes.
    pub(crate) mtu: u32,
}

/// An address of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Address {
    /// The address.
    pub(crate) ip: IpAddr,
    /// Length of its prefix in bits.
    pub(crate) length: u8,
    /// IPv4: the address at the other end of the link, where one is set.
    pub(crate) peer: Option<IpAddr>,
    /// It is meant for more than its link.
    pub(crate) is_global: bool,
    /// IPv4: another one of the same network comes before it; IPv6: it is a temporary one (RFC 8981).
    pub(crate) is_secondary: bool,
    /// New connections should not begin with it.
    pub(crate) is_deprecated: bool,
    /// It is not, or no longer, suspected to be another host's.
    pub(crate) is_usable: bool,
}

/// A route that came, went or took another's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RouteChange {
    /// Destination, with the length of its prefix in bits.
    pub(crate) destination: (IpAddr, u8),
    /// The table.
    pub(crate) table: u32,
    /// Who made it: a number of `rtnetlink(7)`'s `rtm_protocol`.
    pub(crate) protocol: u8,
    /// Index of the link that it leads out of, where it is one.
    pub(crate) index: Option<u32>,
}

/// A link that appeared, changed or went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LinkEvent {
    /// Interface index.
    pub(crate) index: u32,
    /// Interface name.
    pub(crate) name: String,
    /// It can carry packets now.
    pub(crate) up: bool,
    /// It is gone.
    pub(crate) deleted: bool,
}

/// Something that a path may have to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// A link.
    Link(LinkEvent),
    /// An address came to a link or went from it.
    Address {
        /// The address.
        address: IpAddr,
        /// Index of the link.
        index: u32,
        /// It is there now, of whatever prefix, and can be used.
        present: bool,
    },
    /// A route.
    Route(RouteChange),
    /// A rule of policy routing.
    Rule,
    /// Which packets a device takes in, by the way their answers would leave.
    Filter,
    /// Everything was read anew: routes and rules may have changed unheard.
    Anything,
}

/// What tells an address of the host from all others: itself, the index of its link, the length of its prefix and its
/// peer. A link may have one address with several prefixes, each of which comes and goes by itself: so is a
/// prefix made longer or shorter.
type Key = (IpAddr, u32, u8, Option<IpAddr>);

/// Links by index, addresses by value; the kernel's own numbers bound both. Routes are not kept: a host
/// may have a million.
#[derive(Debug, Default)]
pub(crate) struct Links {
    links: BTreeMap<u32, (Link, u64)>,
    addresses: BTreeMap<Key, (Address, u64)>,
    changes: VecDeque<Change>,
    /// Number of the dump that is under way or was the last.
    dump: u64,
}

impl Links {
    /// The oldest change not yet taken.
    pub(super) fn take_change(&mut self) -> Option<Change> {
        self.changes.pop_front()
    }

    /// The link of that index.
    pub(crate) fn link(&self, index: u32) -> Option<&Link> {
        self.links.get(&index).map(|(link, _)| link)
    }

    /// Index of the link of that name.
    pub(crate) fn index_of(&self, name: &str) -> Option<u32> {
        let mut links = self.links.iter();
        links
            .find(|(_, (link, _))| link.name == name)
            .map(|(&index, _)| index)
    }

    /// Index of the link that has `address`, usable: if several have, one that is up, else the first.
    pub(crate) fn index_with(&self, address: IpAddr) -> Option<u32> {
        let with = || {
            let known = self.addresses.range((address, 0, 0, None)..);
            let known = known.take_while(move |((ip, ..), _)| *ip == address);
            let usable = known.filter(|(_, (address, _))| address.is_usable);
            usable.map(|(&(_, index, ..), _)| index)
        };
        with()
            .find(|&index| self.link(index).is_some_and(|link| link.up))
            .or_else(|| with().next())
    }

    /// All addresses, each with the index of its link, once for all of its prefixes.
    pub(crate) fn all_addresses(&self) -> impl Iterator<Item = (IpAddr, u32)> {
        let all = self.addresses.keys().map(|&(ip, index, ..)| (ip, index));
        let mut last = None;
        all.filter(move |one| last.replace(*one) != Some(*one))
    }

    /// Whether the link has the address, usable, of whatever prefix.
    fn has_usable(&self, ip: IpAddr, index: u32) -> bool {
        let known = self.addresses.range((ip, index, 0, None)..);
        let mut known = known.take_while(|((of, at, ..), _)| (*of, *at) == (ip, index));
        known.any(|(_, (address, _))| address.is_usable)
    }

    /// The addresses of a link, in the order of their numbers; one with several prefixes once for each.
    pub(crate) fn addresses_of(&self, index: u32) -> impl Iterator<Item = &Address> {
        self.addresses
            .iter()
            .filter(move |((_, of, ..), _)| *of == index)
            .map(|(_, (address, _))| address)
    }

    /// Takes in what a message says of links, addresses, routes and rules.
    pub(super) fn hear(&mut self, content: Content<'_>) {
        match content {
            Content::Link {
                index,
                deleted: true,
                ..
            } => self.remove_link(index),
            Content::Link { index, link, .. } => {
                let link = Link {
                    name: link.name.to_owned(),
                    up: link.up,
                    is_set_up: link.is_set_up,
                    mtu: link.mtu,
                };
                self.set_link(index, link);
            }
            Content::Address {
                index,
                address,
                deleted,
            } => self.set_address(address, index, !deleted),
            Content::Route(change) => self.tell(Change::Route(change)),
            Content::Rule => self.tell(Change::Rule),
            Content::Settings(settings) if settings.filter.is_some() => self.tell(Change::Filter),
            Content::Settings(_) | Content::Done | Content::Error(_) => {}
        }
    }

    /// A route or a rule, or all of them.
    pub(super) fn tell(&mut self, change: Change) {
        // A daemon of dynamic routing may tell the same many times over.
        if self.changes.back() != Some(&change) {
            self.changes.push_back(change);
        }
    }

    /// A link as it is now.
    pub(super) fn set_link(&mut self, index: u32, link: Link) {
        let up = link.up;
        let before = self.links.insert(index, (link.clone(), self.dump));
        if before.is_none_or(|(before, _)| before != link) {
            self.changes.push_back(Change::Link(LinkEvent {
                index,
                name: link.name,
                up,
                deleted: false,
            }));
        }
    }

    /// A link that is gone.
    pub(super) fn remove_link(&mut self, index: u32) {
        if let Some((link, _)) = self.links.remove(&index) {
            self.changes.push_back(Change::Link(LinkEvent {
                index,
                name: link.name,
                up: false,
                deleted: true,
            }));
        }
    }

    /// An address that a link has now, or no longer.
    pub(super) fn set_address(&mut self, address: Address, index: u32, present: bool) {
        let key = (address.ip, index, address.length, address.peer);
        let before = if present {
            self.addresses.insert(key, (address, self.dump))
        } else {
            self.addresses.remove(&key)
        };
        let before = before.map(|(before, _)| before);
        if before != present.then_some(address) && (present || before.is_some()) {
            self.changes.push_back(Change::Address {
                address: address.ip,
                index,
                present: self.has_usable(address.ip, index),
            });
        }
    }

    /// A dump of everything begins.
    pub(super) fn begin_dump(&mut self) {
        self.dump += 1;
    }

    /// The dump has ended. What it did not mention is gone, if it is `whole`; else that may be there all the same.
    pub(super) fn end_dump(&mut self, whole: bool) {
        if !whole {
            return self.tell(Change::Anything);
        }
        let dump = self.dump;
        let gone: Vec<_> = self
            .addresses
            .iter()
            .filter(|(_, (_, seen))| *seen < dump)
            .map(|(&(_, index, ..), &(address, _))| (address, index))
            .collect();
        for (address, index) in gone {
            self.set_address(address, index, false);
        }
        let gone: Vec<_> = self
            .links
            .iter()
            .filter(|(_, (_, seen))| *seen < dump)
            .map(|(&index, _)| index)
            .collect();
        for index in gone {
            self.remove_link(index);
        }
        self.tell(Change::Anything);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A link of an Ethernet.
    pub(crate) fn link(name: &str, up: bool) -> Link {
        Link {
            name: name.to_owned(),
            up,
            is_set_up: up,
            mtu: 1500,
        }
    }

    /// An ordinary address.
    pub(crate) fn address(ip: &str) -> Address {
        let ip: IpAddr = ip.parse().unwrap();
        Address {
            ip,
            length: if ip.is_ipv4() { 24 } else { 64 },
            peer: None,
            is_global: true,
            is_secondary: false,
            is_deprecated: false,
            is_usable: true,
        }
    }

    impl Links {
        /// These links, in their order from index 2 on, are up and have these addresses.
        pub(crate) fn of(links: &[(&str, &[&str])]) -> Links {
            let mut all = Links::default();
            for (index, (name, addresses)) in (2..).zip(links) {
                all.set_link(index, link(name, true));
                for ip in *addresses {
                    all.set_address(address(ip), index, true);
                }
            }
            all
        }

        /// Takes the link of that name away, and puts another in its place, with a new index.
        pub(crate) fn replace(&mut self, name: &str, index: u32) {
            if let Some(old) = self.index_of(name) {
                let addresses: Vec<_> = self.addresses_of(old).copied().collect();
                self.remove_link(old);
                for address in addresses {
                    self.set_address(address, old, false);
                    self.set_address(address, index, true);
                }
            }
            self.set_link(index, link(name, true));
        }

        /// An address comes or goes.
        pub(crate) fn put(&mut self, name: &str, ip: &str, present: bool) {
            let index = self.index_of(name).unwrap();
            self.set_address(address(ip), index, present);
        }

        /// A link goes, with its addresses.
        pub(crate) fn take(&mut self, name: &str) {
            let index = self.index_of(name).unwrap();
            let addresses: Vec<_> = self.addresses_of(index).copied().collect();
            for address in addresses {
                self.set_address(address, index, false);
            }
            self.remove_link(index);
        }
    }

    const HOME: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

    fn changes(links: &mut Links) -> usize {
        std::iter::from_fn(|| links.take_change()).count()
    }

    #[test]
    fn only_what_changed_is_told() {
        let mut links = Links::default();
        for (up, told) in [(true, 1), (true, 0), (false, 1), (false, 0)] {
            links.set_link(2, link("eth0", up));
            assert_eq!(changes(&mut links), told);
        }
        links.set_link(2, link("wan", false));
        assert_eq!(changes(&mut links), 1, "a new name is a change");
        for told in [1, 0] {
            links.remove_link(2);
            assert_eq!(changes(&mut links), told);
        }
        for (present, told) in [(false, 0), (true, 1), (true, 0), (false, 1)] {
            links.set_address(address("10.0.0.1"), 2, present);
            assert_eq!(changes(&mut links), told);
        }
    }

    #[test]
    fn an_address_leads_to_its_link_and_rather_to_one_that_is_up() {
        let mut links = Links::default();
        assert_eq!(links.index_with(HOME), None);
        links.set_link(2, link("eth0", false));
        links.set_link(3, link("eth1", true));
        links.set_address(address("10.0.0.1"), 2, true);
        assert_eq!(links.index_with(HOME), Some(2));
        links.set_address(address("10.0.0.1"), 3, true);
        assert_eq!(links.index_with(HOME), Some(3));
        links.set_address(address("10.0.0.1"), 3, false);
        assert_eq!(links.index_with(HOME), Some(2));
        assert_eq!(links.index_of("eth1"), Some(3));
    }

    /// `ip addr add 10.0.0.1/23 dev eth0; ip addr del 10.0.0.1/24 dev eth0`
    #[test]
    fn an_address_stays_while_one_of_its_prefixes_does() {
        let mut links = Links::default();
        links.set_link(2, link("eth0", true));
        let narrow = address("10.0.0.1");
        let wide = Address {
            length: 23,
            ..narrow
        };
        let to_peer = Address {
            length: 32,
            peer: Some(IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 9))),
            ..narrow
        };
        let to_other_peer = Address {
            peer: Some(IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 8))),
            ..to_peer
        };
        links.set_address(narrow, 2, true);
        for (old, new) in [
            (narrow, wide),
            (wide, to_peer),
            (to_peer, to_other_peer),
            (to_other_peer, narrow),
        ] {
            links.set_address(new, 2, true);
            assert_eq!(links.all_addresses().collect::<Vec<_>>(), [(HOME, 2)]);
            links.set_address(old, 2, false);
            assert_eq!(links.index_with(HOME), Some(2), "{new:?}");
            assert_eq!(links.addresses_of(2).collect::<Vec<_>>(), [&new]);
        }
        let is_gone = |change| matches!(change, Change::Address { present: false, .. });
        assert!(!std::iter::from_fn(|| links.take_change()).any(is_gone));
        links.begin_dump();
        links.set_link(2, link("eth0", true));
        links.set_address(wide, 2, true);
        links.end_dump(true);
        assert_eq!(links.addresses_of(2).collect::<Vec<_>>(), [&wide]);
        links.set_address(wide, 2, false);
        assert_eq!(links.index_with(HOME), None);
    }

    #[test]
    fn what_a_new_dump_does_not_mention_is_gone() {
        let mut links = Links::default();
        links.begin_dump();
        links.set_link(2, link("eth0", true));
        links.set_link(3, link("eth1", true));
        links.set_address(address("10.0.0.1"), 3, true);
        links.end_dump(true);
        assert_eq!(changes(&mut links), 4);
        links.begin_dump();
        links.set_link(2, link("eth0", true));
        links.end_dump(true);
        assert_eq!(changes(&mut links), 3);
        assert_eq!(
            (links.index_of("eth1"), links.index_with(HOME)),
            (None, None)
        );
    }

    #[test]
    fn what_a_dump_with_gaps_does_not_mention_stays_until_another_does_not() {
        let mut links = Links::default();
        links.begin_dump();
        links.set_link(2, link("eth0", true));
        links.end_dump(true);
        links.begin_dump();
        links.end_dump(false);
        assert_eq!(links.index_of("eth0"), Some(2));
        links.begin_dump();
        links.end_dump(true);
        assert_eq!(links.index_of("eth0"), None);
    }
}

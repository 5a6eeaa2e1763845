//! The host's links and addresses as last heard of, and what changed.
//!
//! The kernel repeats itself: a link message comes whenever anything about a link changes. Only
//! what a tunnel cares about makes a [`Change`]. Each entry remembers the dump in which it was last
//! seen, so that after a new dump those that are gone can be told.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

/// A link of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    /// Interface name, such as `eth0`.
    pub(crate) name: String,
    /// It can carry packets: set up by the administrator, with a carrier, and ready.
    pub(crate) up: bool,
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
        /// It is there now.
        present: bool,
    },
}

/// Links by index, addresses by value; the kernel's own numbers bound both.
#[derive(Debug, Default)]
pub(super) struct Links {
    links: BTreeMap<u32, (Link, u64)>,
    addresses: BTreeMap<(IpAddr, u32), u64>,
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
    pub(super) fn link(&self, index: u32) -> Option<&Link> {
        self.links.get(&index).map(|(link, _)| link)
    }

    /// Index of the link of that name.
    pub(super) fn index_of(&self, name: &str) -> Option<u32> {
        let mut links = self.links.iter();
        links
            .find(|(_, (link, _))| link.name == name)
            .map(|(&index, _)| index)
    }

    /// Index of the link that has `address`: if several have, one that is up, else the first.
    pub(super) fn index_with(&self, address: IpAddr) -> Option<u32> {
        let with = || {
            let range = (address, 0)..=(address, u32::MAX);
            self.addresses.range(range).map(|(&(_, index), _)| index)
        };
        with()
            .find(|&index| self.link(index).is_some_and(|link| link.up))
            .or_else(|| with().next())
    }

    /// A link as it is now.
    pub(super) fn set_link(&mut self, index: u32, name: &str, up: bool) {
        let link = Link {
            name: name.to_owned(),
            up,
        };
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
    pub(super) fn set_address(&mut self, address: IpAddr, index: u32, present: bool) {
        let key = (address, index);
        let was_present = if present {
            self.addresses.insert(key, self.dump).is_some()
        } else {
            self.addresses.remove(&key).is_some()
        };
        if was_present != present {
            self.changes.push_back(Change::Address {
                address,
                index,
                present,
            });
        }
    }

    /// A dump of everything begins.
    pub(super) fn begin_dump(&mut self) {
        self.dump += 1;
    }

    /// The dump is complete: what it did not mention is gone.
    pub(super) fn end_dump(&mut self) {
        let dump = self.dump;
        let gone: Vec<_> = self
            .addresses
            .iter()
            .filter(|&(_, &seen)| seen < dump)
            .map(|(&key, _)| key)
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

    fn changes(links: &mut Links) -> usize {
        std::iter::from_fn(|| links.take_change()).count()
    }

    #[test]
    fn only_what_changed_is_told() {
        let mut links = Links::default();
        for (up, told) in [(true, 1), (true, 0), (false, 1), (false, 0)] {
            links.set_link(2, "eth0", up);
            assert_eq!(changes(&mut links), told);
        }
        links.set_link(2, "wan", false);
        assert_eq!(changes(&mut links), 1, "a new name is a change");
        for told in [1, 0] {
            links.remove_link(2);
            assert_eq!(changes(&mut links), told);
        }
        for (present, told) in [(false, 0), (true, 1), (true, 0), (false, 1)] {
            links.set_address(HOME, 2, present);
            assert_eq!(changes(&mut links), told);
        }
    }

    #[test]
    fn an_address_leads_to_its_link_and_rather_to_one_that_is_up() {
        let mut links = Links::default();
        assert_eq!(links.index_with(HOME), None);
        links.set_link(2, "eth0", false);
        links.set_link(3, "eth1", true);
        links.set_address(HOME, 2, true);
        assert_eq!(links.index_with(HOME), Some(2));
        links.set_address(HOME, 3, true);
        assert_eq!(links.index_with(HOME), Some(3));
        links.set_address(HOME, 3, false);
        assert_eq!(links.index_with(HOME), Some(2));
        assert_eq!(links.index_of("eth1"), Some(3));
    }

    #[test]
    fn what_a_new_dump_does_not_mention_is_gone() {
        let mut links = Links::default();
        links.begin_dump();
        links.set_link(2, "eth0", true);
        links.set_link(3, "eth1", true);
        links.set_address(HOME, 3, true);
        links.end_dump();
        assert_eq!(changes(&mut links), 3);
        links.begin_dump();
        links.set_link(2, "eth0", true);
        links.end_dump();
        assert_eq!(changes(&mut links), 2);
        assert_eq!(
            (links.index_of("eth1"), links.index_with(HOME)),
            (None, None)
        );
    }
}

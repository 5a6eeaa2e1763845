//! The numbers of a tunnel: its mark, its tables, the priorities of its rules.
//!
//! There are [`BLOCKS`] sets of them on a host (to be exact: in a network namespace). A tunnel claims the
//! first that is free, and keeps it as long as its process lives (`claim`). So two daemons never use one
//! block, and whatever is found in a block that can be claimed was left by a daemon that died.
//!
//! | What | Numbers of block `n` |
//! |---|---|
//! | mark of the sockets | 0x1280 + n |
//! | the tunnel's table | 475400 + 100 n |
//! | table of path `i` | 475401 + 100 n + i |
//! | rules for the tunnel's own packets | priority 4754 + n |
//! | rules for all others, prefixes of `l` bits | priorities 15000 + 128 (128 − l) + 2 n, and one more |
//!
//! Longer prefixes come first, whichever tunnel's they are: as in one table.

use std::ops::Range;

use super::host::{Host, PROTOCOL, Rule};

/// Tunnels on a host that can have routing of their own. The priorities have room for no more.
pub(super) const BLOCKS: u32 = 64;
/// Every tunnel's mark has these bits under [`MARK_MASK`]: none that Kubernetes (0x4000, 0x8000),
/// Tailscale (0xff0000) or Calico (0xffff0000) look at.
pub(super) const MARKS: u32 = 0x1280;
/// What of a mark tells that it is a tunnel's, whichever.
pub(super) const MARK_MASK: u32 = !(BLOCKS - 1);
const FIRST_TABLE: u32 = 475_400;
const TABLES: u32 = 100;
/// Before Tailscale's 5210 and after l3mdev's 1000.
const OWN_PACKETS: u32 = 4754;
const OTHER_PACKETS: u32 = 15_000;

/// The numbers of a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block(u32);

impl Block {
    /// Number `index`, below [`BLOCKS`].
    pub(super) fn new(index: u32) -> Option<Block> {
        (index < BLOCKS).then_some(Block(index))
    }

    /// All blocks.
    pub(super) fn all() -> impl Iterator<Item = Block> {
        (0..BLOCKS).filter_map(Block::new)
    }

    /// Its number.
    pub(super) fn index(self) -> u32 {
        self.0
    }

    /// What the tunnel's sockets carry.
    pub(super) fn mark(self) -> u32 {
        MARKS + self.0
    }

    /// The table of the tunnel's routes.
    pub(super) fn tunnel_table(self) -> u32 {
        FIRST_TABLE + self.0 * TABLES
    }

    /// The table of a path.
    pub(super) fn path_table(self, path: usize) -> u32 {
        self.tunnel_table() + 1 + path as u32
    }

    /// Its tables.
    pub(super) fn tables(self) -> Range<u32> {
        self.tunnel_table()..self.tunnel_table() + TABLES
    }

    /// Of rules for the tunnel's own packets.
    pub(super) fn own_priority(self) -> u32 {
        OWN_PACKETS + self.0
    }

    /// Of the two rules for other packets to prefixes of `length` bits: main's longer prefixes first,
    /// then the tunnel's.
    pub(super) fn other_priorities(self, length: u8) -> [u32; 2] {
        let length = u32::from(length.min(128));
        let first = OTHER_PACKETS + (128 - length) * 2 * BLOCKS + 2 * self.0;
        [first, first + 1]
    }

    /// Whether a rule is one of this block's.
    pub(super) fn owns(self, rule: &Rule) -> bool {
        let is_of_block = if rule.priority < OTHER_PACKETS {
            rule.priority == self.own_priority()
        } else {
            let place = rule.priority - OTHER_PACKETS;
            place < 129 * 2 * BLOCKS && place % (2 * BLOCKS) / 2 == self.0
        };
        is_of_block && rule.protocol == PROTOCOL
    }

    /// Whether the host has a rule or a route of this block's.
    pub(super) fn is_in_use(self, host: &Host) -> bool {
        let mut routes = host.routes.iter();
        host.rules.iter().any(|rule| self.owns(rule))
            || routes
                .any(|route| route.protocol == PROTOCOL && self.tables().contains(&route.table))
    }

    /// Whether somebody else uses one of its numbers.
    pub(super) fn is_used_by_others(self, host: &Host) -> bool {
        let tables = self.tables();
        let has_mark = |rule: &Rule| {
            rule.mark
                .is_some_and(|(mark, mask)| mark & mask != 0 && self.mark() & mask == mark & mask)
        };
        let mut rules = host.rules.iter().filter(|rule| rule.protocol != PROTOCOL);
        let mut routes = host.routes.iter();
        rules.any(|rule| tables.contains(&rule.table) || has_mark(rule))
            || routes.any(|route| route.protocol != PROTOCOL && tables.contains(&route.table))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_blocks_share_a_number() {
        let (mut marks, mut numbers) = (BTreeSet::new(), BTreeSet::new());
        for block in Block::all() {
            assert_eq!(block.mark() & MARK_MASK, MARKS);
            assert!(marks.insert(block.mark()) && numbers.insert(block.own_priority()));
            for length in 0..=128 {
                for priority in block.other_priorities(length) {
                    assert!(numbers.insert(priority), "{block:?} /{length}");
                    assert!(priority < 32_766, "before the main table");
                    let rule = Rule::new(true, priority, block.tunnel_table());
                    let owners: Vec<Block> = Block::all().filter(|one| one.owns(&rule)).collect();
                    assert_eq!(owners, [block]);
                }
            }
            assert!(block.tables().contains(&block.path_table(15)));
        }
    }

    #[test]
    fn longer_prefixes_come_first_whichever_tunnels_they_are() {
        let (first, last) = (Block::new(0).unwrap(), Block::new(BLOCKS - 1).unwrap());
        for length in 1..=128 {
            let [main, own] = last.other_priorities(length);
            assert!(main < own && own < first.other_priorities(length - 1)[0]);
        }
    }

    #[test]
    fn a_block_that_others_use_is_left_to_them() {
        let block = Block::new(3).unwrap();
        let foreign = |rule: Rule| Host {
            rules: vec![Rule {
                protocol: 4,
                ..rule
            }],
            ..Host::default()
        };
        let table = Rule::new(true, 100, block.path_table(2));
        assert!(block.is_used_by_others(&foreign(table)));
        let marked = |mark, mask| Rule {
            mark: Some((mark, mask)),
            ..Rule::new(true, 100, 7)
        };
        assert!(block.is_used_by_others(&foreign(marked(block.mark(), u32::MAX))));
        assert!(block.is_used_by_others(&foreign(marked(0x80, 0x80))));
        assert!(!block.is_used_by_others(&foreign(marked(0x80000, 0xff0000))));
        let ours = Host {
            rules: vec![Rule::new(true, 4757, block.path_table(2))],
            ..Host::default()
        };
        assert!(!block.is_used_by_others(&ours));
    }
}

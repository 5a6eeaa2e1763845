//! Classes: what some packets are to have that others are not.
//!
//! A class names packets, by DSCP, ports and destination, and says what is to be done with them: over which paths they
//! go, before or behind what else, and whether copies go over two paths. A packet is of the first class that it fits;
//! what fits none goes as in a tunnel without classes.
//!
//! *Paths.* A class prefers its paths: while any of them is usable it goes over these alone, and over the others when none
//! is. A class that is [`ClassPolicy::Sparing`] goes over its own or not at all: where all of these have fallen silent, it
//! goes over them nevertheless, as a whole tunnel does whose paths all have. Else nothing would show that one is mended.
//!
//! *Copies.* What is [`ClassPolicy::Redundant`] goes at once over two paths, without a number, so that it waits for
//! nothing at the receiver. Its copies are one sealed datagram, of which the receiver opens the first and drops the
//! others by their number in the session; in a plain tunnel nothing would tell them, and none are made. Where the
//! faster path loses packets a third copy follows over it: else what is lost there would come as late as
//! the slower path delivers.
//!
//! *Priority.* Each class has a queue of its own. Those of high priority are emptied before all else, those of low
//! priority when nothing else can go.

mod copies;
mod matches;

pub use matches::Match;

use crate::control::classes::ClassStatus;
use crate::control::drops::DropReason;
use crate::path::{PathId, PathSet};
use crate::send::queue::Queue;
use crate::send::scheduler::adaptive::Adaptive;
use crate::send::segment::Segments;
use crate::send::turn::Turn;
use crate::time::Time;
use crate::wire::ip::Packet;
use matches::Look;

/// What is to be done with a class's packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClassPolicy {
    /// As all packets: where they arrive first.
    #[default]
    Adaptive,
    /// Over the path with the least delay alone, while there is one.
    Fastest,
    /// Over two paths at once.
    Redundant,
    /// Over the class's paths, or not at all.
    Sparing,
}

impl ClassPolicy {
    /// Every policy.
    pub const ALL: [ClassPolicy; 4] = [
        ClassPolicy::Adaptive,
        ClassPolicy::Fastest,
        ClassPolicy::Redundant,
        ClassPolicy::Sparing,
    ];

    /// The name in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ClassPolicy::Adaptive => "adaptive",
            ClassPolicy::Fastest => "fastest",
            ClassPolicy::Redundant => "redundant",
            ClassPolicy::Sparing => "sparing",
        }
    }
}

/// Which classes go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Priority {
    /// Before all others.
    High,
    /// As what is of no class.
    #[default]
    Normal,
    /// When nothing else can go.
    Low,
}

impl Priority {
    /// Every priority, in the order in which they go.
    pub const ALL: [Priority; 3] = [Priority::High, Priority::Normal, Priority::Low];

    /// The name in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Priority::High => "high",
            Priority::Normal => "normal",
            Priority::Low => "low",
        }
    }
}

/// What is configured of a class.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClassConfig {
    /// Its name, by which its counters are known.
    pub name: String,
    /// Which packets are of it.
    pub matches: Match,
    /// Over which paths they go.
    pub paths: PathSet,
    /// How.
    pub policy: ClassPolicy,
    /// And when.
    pub priority: Priority,
    /// With [`ClassPolicy::Redundant`], bytes a second that copies may take, headers of GRE and sealing included; what
    /// is beyond goes without copies.
    pub copies: u64,
}

/// A class, by its place in the list.
pub(crate) type ClassId = usize;

/// A class and what waits of it.
#[derive(Debug)]
pub(crate) struct Class {
    pub(crate) config: ClassConfig,
    /// What gets a number.
    pub(crate) queue: Queue,
    /// What goes by itself: datagrams of high priority.
    pub(crate) by_itself: Queue,
    /// Bytes of copies that may go, as of when.
    allowance: (f64, Time),
    /// The path with the least delay.
    nearest: Option<PathId>,
    pub(crate) counters: ClassStatus,
}

impl Class {
    fn new(config: ClassConfig) -> Class {
        Class {
            queue: Queue::new(),
            by_itself: Queue::new(),
            allowance: (0.0, Time::ZERO),
            nearest: None,
            counters: ClassStatus::new(&config),
            config,
        }
    }

    /// Of the paths that are `trusted`, those that the class goes over; a sparing one whose own are none of these goes
    /// over its own among those that are `usable`.
    pub(crate) fn allowed(
        &mut self,
        trusted: PathSet,
        usable: PathSet,
        paths: &Adaptive,
    ) -> PathSet {
        let own = self.config.paths.bits();
        let among = |paths: PathSet| PathSet::from_bits(paths.bits() & own);
        let allowed = match among(trusted) {
            none if none.is_empty() => match self.config.policy {
                ClassPolicy::Sparing => among(usable),
                ClassPolicy::Adaptive | ClassPolicy::Fastest | ClassPolicy::Redundant => trusted,
            },
            some => some,
        };
        if self.config.policy != ClassPolicy::Fastest {
            return allowed;
        }
        self.nearest = paths.nearest(allowed, self.nearest);
        self.nearest.map_or(PathSet::EMPTY, PathSet::only)
    }

    /// Whether none of these paths is the class's own.
    pub(crate) fn is_away(&self, paths: PathSet) -> bool {
        paths.bits() & self.config.paths.bits() == 0
    }

    /// What goes by itself first.
    pub(crate) fn queues(&mut self) -> [&mut Queue; 2] {
        [&mut self.by_itself, &mut self.queue]
    }

    /// Packets that wait, and their bytes.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        (
            self.queue.packets() + self.by_itself.packets(),
            self.queue.bytes() + self.by_itself.bytes(),
        )
    }
}

/// Why what no path takes is dropped, when these are usable.
pub(crate) fn without_path(usable: PathSet) -> DropReason {
    match usable.is_empty() {
        true => DropReason::NoPath,
        false => DropReason::ClassPaths,
    }
}

/// The classes of a tunnel, in the order in which packets are compared with them.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    pub(crate) list: Vec<Class>,
    looks_at_ports: bool,
}

impl Classes {
    /// Other classes from now on. Those that keep their name keep their counters. Returns the former ones.
    pub(crate) fn set(&mut self, configs: &[ClassConfig]) -> Vec<Class> {
        let former = std::mem::take(&mut self.list);
        self.looks_at_ports = configs.iter().any(|class| !class.matches.ports.is_empty());
        self.list = configs.iter().cloned().map(Class::new).collect();
        for class in &mut self.list {
            let known = former
                .iter()
                .find(|old| old.config.name == class.config.name);
            if let Some(known) = known {
                class.counters.keep_from(&known.counters);
            }
        }
        former
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Packets that were marked in place of being dropped.
    pub(crate) fn marked(&self) -> u64 {
        let marked = |class: &Class| class.queue.losses().marked + class.by_itself.losses().marked;
        self.list.iter().map(marked).sum()
    }

    /// The class of a packet.
    #[inline]
    pub(crate) fn of(&self, packet: &Packet<'_>) -> Option<ClassId> {
        if self.list.is_empty() {
            return None;
        }
        let look = Look::at(packet, self.looks_at_ports);
        let mut list = self.list.iter();
        list.position(|class| class.config.matches.fits(&look))
    }

    /// The paths of a class's own; all, of what is of none.
    pub(crate) fn own(&self, class: Option<ClassId>) -> PathSet {
        let class = class.and_then(|class| self.list.get(class));
        class.map_or(PathSet::from_bits(u16::MAX), |class| class.config.paths)
    }

    /// The class of a packet, which is of any kind.
    pub(crate) fn class_of(&self, packet: &[u8]) -> Option<ClassId> {
        if self.list.is_empty() {
            return None;
        }
        self.of(&Packet::parse(packet).ok()?)
    }

    /// Of these paths, those that a packet goes over: see [`Class::allowed`].
    pub(crate) fn allowed_for(
        &mut self,
        packet: &[u8],
        trusted: PathSet,
        usable: PathSet,
        paths: &Adaptive,
    ) -> PathSet {
        self.allowed(self.class_of(packet), trusted, usable, paths)
    }

    /// The same by its class.
    #[inline]
    pub(crate) fn allowed(
        &mut self,
        class: Option<ClassId>,
        trusted: PathSet,
        usable: PathSet,
        paths: &Adaptive,
    ) -> PathSet {
        match class.and_then(|class| self.list.get_mut(class)) {
            Some(class) => class.allowed(trusted, usable, paths),
            None => trusted,
        }
    }

    /// A packet that no path may take now is dropped.
    pub(crate) fn count_dropped(&mut self, packet: &[u8]) {
        let class = self.class_of(packet);
        if let Some(class) = class.and_then(|class| self.list.get_mut(class)) {
            class.counters.dropped_no_path += 1;
        }
    }

    /// The class's packets have come. Returns the paths that they go over; if there is none, they are counted as dropped.
    pub(crate) fn admit(
        &mut self,
        turn: &mut Turn<'_>,
        paths: &Adaptive,
        class: Option<ClassId>,
        trusted: PathSet,
        segments: &Segments<'_>,
    ) -> PathSet {
        let Some(class) = class.and_then(|class| self.list.get_mut(class)) else {
            return trusted;
        };
        let packets = segments.remaining() as u64;
        class.counters.packets += packets;
        class.counters.bytes += segments.remaining_bytes() as u64;
        let allowed = class.allowed(trusted, turn.usable, paths);
        if allowed.is_empty() {
            class.counters.dropped_no_path += packets;
            turn.drops.count(without_path(trusted), packets);
        } else if class.is_away(allowed) {
            class.counters.elsewhere += packets;
        }
        allowed
    }

    /// Packets that wait, and their bytes.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        let each = self.list.iter().map(Class::waiting);
        each.fold((0, 0), |sum, class| (sum.0 + class.0, sum.1 + class.1))
    }

    /// Bytes that wait of classes that go no later than `priority`.
    pub(crate) fn waiting_before(&self, priority: Priority) -> usize {
        let list = self.list.iter();
        let before = list.filter(|class| class.config.priority <= priority);
        before.map(|class| class.waiting().1).sum()
    }
}

#[cfg(test)]
mod tests;

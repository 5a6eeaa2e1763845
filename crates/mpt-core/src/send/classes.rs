//! Classes: what some packets are to have that others are not.
//!
//! A class names packets, by DSCP, ports and destination, and says what is to be done with them: over which paths they
//! go, before or behind what else, and whether copies go over two paths. A packet is of the first class that it fits;
//! what fits none goes as in a tunnel without classes.
//!
//! *Paths.* A class prefers its paths: while any of them is usable it goes over these alone, and over the others when none
//! is. A class that is [`ClassPolicy::Sparing`] goes over its own or not at all.
//!
//! *Copies.* What is [`ClassPolicy::Redundant`] goes at once over two paths, without a number, so that it waits for
//! nothing at the receiver. Its copies are one sealed datagram, of which the receiver opens the first and drops the
//! others by their number in the session; in a plain tunnel nothing would tell them, and none are made. Where the
//! faster path loses packets a third copy follows over it: else what is lost there would come as late as
//! the slower path delivers.
//!
//! *Priority.* Each class has a queue of its own. Those of high priority are emptied before all else, those of low
//! priority when nothing else can go.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::control::classes::ClassStatus;
use crate::path::{PathId, PathSet};
use crate::send::queue::Queue;
use crate::send::scheduler::adaptive::Adaptive;
use crate::time::Time;
use crate::wire::ip::{self, Packet};
use crate::wire::transport::PORTS;

/// A class may send copies at once that it earns in this time …
const COPIES_SAVED: Duration = Duration::from_millis(250);
/// … and two full packets at least.
const LEAST_SAVED: f64 = 3_000.0;
/// Where the faster path loses more than this share, a third copy goes. The hundredth that is latest is then not what it
/// lost.
const LOSSY_PPM: u32 = 5_000;

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

    fn fits(&self, look: &Look) -> bool {
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
struct Look {
    dscp: u8,
    ports: Option<[u16; 2]>,
    destination: IpAddr,
}

impl Look {
    fn at(packet: &Packet<'_>, looks_at_ports: bool) -> Look {
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

    /// Of these paths, those that the class goes over.
    pub(crate) fn allowed(&mut self, usable: PathSet, paths: &Adaptive) -> PathSet {
        let own = PathSet::from_bits(usable.bits() & self.config.paths.bits());
        let allowed = match own.is_empty() {
            true if self.config.policy != ClassPolicy::Sparing => usable,
            true | false => own,
        };
        if self.config.policy != ClassPolicy::Fastest {
            return allowed;
        }
        self.nearest = paths.nearest(allowed, self.nearest);
        self.nearest.map_or(PathSet::EMPTY, PathSet::only)
    }

    /// Whether none of the class's own paths is usable.
    pub(crate) fn is_away(&self, usable: PathSet) -> bool {
        usable.bits() & self.config.paths.bits() == 0
    }

    /// Whether copies of so many bytes may go now.
    pub(crate) fn takes_copies(&mut self, now: Time, bytes: usize) -> bool {
        let rate = self.config.copies as f64;
        let most = (rate * COPIES_SAVED.as_secs_f64()).max(LEAST_SAVED);
        let (allowance, then) = &mut self.allowance;
        let earned = now.since(*then).as_secs_f64() * rate;
        (*allowance, *then) = ((*allowance + earned).min(most), now);
        let takes = *allowance >= bytes as f64;
        if takes {
            *allowance -= bytes as f64;
        }
        takes
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

/// Whether a path loses so much that a third copy is to go over it.
pub(crate) fn is_lossy(loss_ppm: u32) -> bool {
    loss_ppm > LOSSY_PPM
}

/// The classes of a tunnel, in the order in which packets are compared with them.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    pub(crate) list: Vec<Class>,
    looks_at_ports: bool,
}

impl Classes {
    /// Other classes from now on. Those that keep their name keep their counters. Returns what waited in the former ones.
    pub(crate) fn set(&mut self, configs: &[ClassConfig]) -> Vec<Class> {
        let mut former = std::mem::take(&mut self.list);
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
        former.retain(|class| class.waiting().0 > 0);
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

    /// Of these paths, those that a packet goes over.
    pub(crate) fn allowed_for(
        &mut self,
        packet: &[u8],
        usable: PathSet,
        paths: &Adaptive,
    ) -> PathSet {
        if self.list.is_empty() {
            return usable;
        }
        let class = Packet::parse(packet)
            .ok()
            .and_then(|packet| self.of(&packet));
        self.allowed(class, usable, paths)
    }

    /// The same by its class.
    #[inline]
    pub(crate) fn allowed(
        &mut self,
        class: Option<ClassId>,
        usable: PathSet,
        paths: &Adaptive,
    ) -> PathSet {
        match class.and_then(|class| self.list.get_mut(class)) {
            Some(class) => class.allowed(usable, paths),
            None => usable,
        }
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn udp4(tos: u8, ports: [u16; 2], flags_offset: u16) -> Vec<u8> {
        let mut packet = vec![0; 28];
        (packet[0], packet[1], packet[3], packet[9]) = (0x45, tos, 28, 17);
        packet[6..8].copy_from_slice(&flags_offset.to_be_bytes());
        packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 1, 2, 3]);
        for (at, port) in [20, 22].into_iter().zip(ports) {
            packet[at..at + 2].copy_from_slice(&port.to_be_bytes());
        }
        packet
    }

    /// Behind so many destination options, and a fragment header if there is an offset.
    fn udp6(ports: [u16; 2], options: usize, fragment: Option<u16>) -> Vec<u8> {
        let mut chain = vec![60; options];
        chain.extend(fragment.map(|_| 44));
        chain.push(17);
        let mut packet = vec![0; 40];
        (packet[0], packet[6]) = (0x60, chain[0]);
        packet[24..40].copy_from_slice(&[0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
        for next in &chain[1..] {
            let mut header = [0; 8];
            header[0] = *next;
            if *next == 17
                && let Some(offset) = fragment
            {
                header[2..4].copy_from_slice(&offset.to_be_bytes());
            }
            packet.extend(header);
        }
        packet.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
        packet.extend([0, 8, 0, 0]);
        let len = (packet.len() - 40) as u16;
        packet[4..6].copy_from_slice(&len.to_be_bytes());
        packet
    }

    fn config(name: &str, matches: Match) -> ClassConfig {
        ClassConfig {
            name: name.to_owned(),
            matches,
            paths: PathSet::from_bits(0b11),
            ..ClassConfig::default()
        }
    }

    fn ports(ranges: &[RangeInclusive<u16>]) -> Match {
        Match {
            ports: ranges.to_vec(),
            ..Match::default()
        }
    }

    fn class_of(configs: &[ClassConfig], packet: &[u8]) -> Option<ClassId> {
        let mut classes = Classes::default();
        assert!(classes.set(configs).is_empty());
        classes.of(&Packet::parse(packet).unwrap())
    }

    #[test]
    fn the_first_class_that_a_packet_fits_is_its_own() {
        let classes = [
            config(
                "a",
                Match {
                    dscp: 1 << 46,
                    ..ports(&[5060..=5061])
                },
            ),
            config("b", ports(&[5060..=5060, 9000..=9999])),
            config(
                "c",
                Match {
                    to: vec![("10.1.0.0".parse().unwrap(), 16)],
                    ..Match::default()
                },
            ),
        ];
        let of = |tos, ports| class_of(&classes, &udp4(tos, ports, 0));
        assert_eq!(of(46 << 2, [1, 5060]), Some(0));
        assert_eq!(
            of(46 << 2 | 3, [5061, 1]),
            Some(0),
            "ECN is no DSCP; either port"
        );
        assert_eq!(of(0, [5060, 1]), Some(1));
        assert_eq!(of(0, [1, 9999]), Some(1));
        assert_eq!(of(0, [1, 1]), Some(2));
        let mut elsewhere = udp4(0, [1, 1], 0);
        elsewhere[17] = 2;
        assert_eq!(class_of(&classes, &elsewhere), None);
        assert_eq!(class_of(&[], &elsewhere), None);
    }

    #[test]
    fn fragments_have_no_ports_and_extension_headers_hide_none() {
        let classes = [
            config("a", ports(&[7..=7])),
            config("rest", Match::default()),
        ];
        // More fragments; an offset.
        for flags_offset in [0x2000, 0x0001] {
            let fragment = udp4(0, [7, 7], flags_offset);
            assert_eq!(class_of(&classes, &fragment), Some(1));
        }
        assert_eq!(class_of(&classes, &udp4(0, [7, 1], 0)), Some(0));
        for options in 0..3 {
            assert_eq!(class_of(&classes, &udp6([1, 7], options, None)), Some(0));
            for fragment in [0x0001, 0x0008] {
                let fragment = udp6([7, 7], options, Some(fragment));
                assert_eq!(class_of(&classes, &fragment), Some(1), "{options}");
            }
        }
        let mut icmp = udp4(0, [7, 7], 0);
        icmp[9] = 1;
        assert_eq!(class_of(&classes, &icmp), Some(1));
    }

    #[test]
    fn a_class_prefers_its_paths_and_a_sparing_one_has_no_others() {
        let paths = Adaptive::new(&crate::send::scheduler::law::Law::LAW);
        for (policy, instead) in [(ClassPolicy::Adaptive, 0b100), (ClassPolicy::Sparing, 0)] {
            let mut class = Class::new(ClassConfig {
                policy,
                ..config("a", Match::default())
            });
            let mut allowed = |usable| class.allowed(PathSet::from_bits(usable), &paths).bits();
            assert_eq!(
                (allowed(0b111), allowed(0b110), allowed(0b100)),
                (0b11, 0b10, instead)
            );
            assert_eq!(allowed(0), 0);
        }
    }

    #[test]
    fn classes_that_keep_their_name_keep_their_counters() {
        let mut classes = Classes::default();
        classes.set(&[config("a", Match::default()), config("b", Match::default())]);
        classes.list[1].counters.packets = 5;
        let other = ClassConfig {
            policy: ClassPolicy::Fastest,
            ..config("b", ports(&[1..=2]))
        };
        classes.set(&[other, config("c", Match::default())]);
        let counted: Vec<u64> = classes
            .list
            .iter()
            .map(|class| class.counters.packets)
            .collect();
        assert_eq!(counted, [5, 0]);
        assert_eq!(classes.list[0].counters.policy, "fastest");
    }

    fn any_match() -> impl Strategy<Value = Match> {
        let range = (0..30u16, 0..10u16).prop_map(|(first, more)| first..=first + more);
        let prefix = prop_oneof![
            (0..4u32, 28..=32u8).prop_map(|(host, len)| {
                let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
                (IpAddr::V4((0x0a01_0200 | host & mask).into()), len)
            }),
            Just((IpAddr::V4([0; 4].into()), 0)),
            Just((IpAddr::V6([0; 16].into()), 0)),
        ];
        let (ports, to) = (
            prop::collection::vec(range, 0..3),
            prop::collection::vec(prefix, 0..3),
        );
        (0..8u64, ports, to).prop_map(|(dscp, ports, to)| Match { dscp, ports, to })
    }

    proptest! {
        /// What a match covers, it fits as well.
        #[test]
        fn what_fits_the_covered_fits_the_covering(
            a in any_match(), b in any_match(),
            dscp in 0..3u8, port in 0..40u16, other in 0..40u16, host in 0..4u8,
        ) {
            let mut packet = udp4(dscp << 2, [port, other], 0);
            packet[19] = host;
            let look = Look::at(&Packet::parse(&packet).unwrap(), true);
            prop_assert!(a.covers(&a));
            if a.covers(&b) && b.fits(&look) {
                prop_assert!(a.fits(&look));
            }
        }

        /// Copies take no more than is configured, and what was saved up.
        #[test]
        fn copies_take_no_more_than_is_configured(
            rate in 1_000..10_000_000u64,
            steps in prop::collection::vec((0..50_000_000u64, 40..1500usize), 1..300),
        ) {
            let copies = ClassConfig { copies: rate, ..config("a", Match::default()) };
            let mut class = Class::new(copies);
            let (mut now, mut taken) = (0, 0);
            let start = now;
            for (step, bytes) in steps {
                now += step;
                if class.takes_copies(Time::from_nanos(now), bytes) {
                    taken += bytes;
                }
            }
            let saved = (rate as f64 / 4.0).max(LEAST_SAVED);
            let most = saved + rate as f64 * (now - start) as f64 / 1e9 + 1.0;
            prop_assert!(taken as f64 <= most, "{taken} of {most}");
        }

        /// Whatever the bytes, a packet has one class or none.
        #[test]
        fn any_packet_can_be_looked_at(mut bytes in prop::collection::vec(any::<u8>(), 40..120), v6: bool) {
            bytes[0] = if v6 { 0x60 } else { 0x45 };
            if let Ok(packet) = Packet::parse(&bytes) {
                let mut classes = Classes::default();
                classes.set(&[config("a", ports(&[0..=u16::MAX])), config("b", Match::default())]);
                prop_assert!(classes.of(&packet).is_some());
            }
        }
    }
}

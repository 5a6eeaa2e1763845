//! Rules, routes and links of the host, as plain values.

use std::collections::BTreeSet;
use std::net::IpAddr;

/// Who made a rule or a route, in the kernel's books (`rtm_protocol`): GRE's number in IP, which no
/// routing daemon uses (`/etc/iproute2/rt_protos`).
pub(super) const PROTOCOL: u8 = 47;
/// The table of all ordinary routes (`RT_TABLE_MAIN`).
pub(super) const MAIN: u32 = 254;
/// The table of the host's own addresses (`RT_TABLE_LOCAL`).
pub(super) const LOCAL: u32 = 255;
/// Priorities and tables of the rules that every host has.
const ORDINARY: [(u32, u32); 3] = [(0, LOCAL), (32_766, MAIN), (32_767, 253)];

/// A destination, with the length of its prefix in bits; bits beyond it are 0.
pub(crate) type Prefix = (IpAddr, u8);

/// Whether `address` lies in `prefix`.
pub(super) fn contains((network, length): Prefix, address: IpAddr) -> bool {
    match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            let beyond = 32 - u32::from(length.min(32));
            let differ = u32::from(network) ^ u32::from(address);
            differ.checked_shr(beyond).unwrap_or(0) == 0
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => {
            let beyond = 128 - u32::from(length.min(128));
            let differ = u128::from(network) ^ u128::from(address);
            differ.checked_shr(beyond).unwrap_or(0) == 0
        }
        _ => false,
    }
}

/// The prefix that is one address.
pub(super) fn single(address: IpAddr) -> Prefix {
    (address, if address.is_ipv4() { 32 } else { 128 })
}

/// What a route does with the packets that it is for (`rtm_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Sends them on by its device.
    Unicast,
    /// Refuses them, and whoever sends them is told (`RTN_UNREACHABLE`). It has no device.
    Unreachable,
}

/// A route over one device. One with several next hops is several of these. Routes that refuse packets are
/// known where they are ours alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) kind: Kind,
    pub(super) table: u32,
    pub(super) destination: Prefix,
    /// Sources that it is for alone, where it is so.
    pub(super) sources: Option<Prefix>,
    /// Index of the device; 0 for none.
    pub(super) device: u32,
    pub(super) gateway: Option<IpAddr>,
    /// The gateway is on the link whatever the prefixes say.
    pub(super) onlink: bool,
    /// The source address that the kernel prefers with it.
    pub(super) source: Option<IpAddr>,
    /// The least is the best, within a table and a prefix.
    pub(super) metric: u32,
    /// Who made it (`rtm_protocol`).
    pub(super) protocol: u8,
}

impl Route {
    pub(super) fn is_ipv4(&self) -> bool {
        self.destination.0.is_ipv4()
    }

    /// Leads the same packets the same way.
    pub(super) fn is_like(&self, other: &Route) -> bool {
        let key = |route: &Route| {
            let Route {
                kind,
                table,
                destination,
                device,
                gateway,
                onlink,
                source,
                ..
            } = *route;
            (kind, table, destination, device, gateway, onlink, source)
        };
        key(self) == key(other)
    }
}

/// A rule that leads to a table. Others are known as [`Host::has_foreign_rules`] alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) is_ipv4: bool,
    /// The least comes first.
    pub(super) priority: u32,
    pub(super) table: u32,
    pub(super) from: Option<Prefix>,
    pub(super) to: Option<Prefix>,
    /// For sockets that are bound to this device.
    pub(super) device: Option<String>,
    /// For packets with this mark, in the bits of this mask.
    pub(super) mark: Option<(u32, u32)>,
    /// For all packets but those.
    pub(super) inverted: bool,
    /// What the table says is not taken where the prefix has so many bits or fewer.
    pub(super) suppressed: Option<u32>,
    /// For UDP from this port.
    pub(super) udp_port: Option<u16>,
    /// Who made it; 0 from kernels that do not say (before 4.17).
    pub(super) protocol: u8,
    /// It asks for more than these fields hold.
    pub(super) is_other: bool,
}

impl Rule {
    /// A rule of ours for all packets, to be narrowed.
    pub(super) fn new(is_ipv4: bool, priority: u32, table: u32) -> Rule {
        Rule {
            is_ipv4,
            priority,
            table,
            from: None,
            to: None,
            device: None,
            mark: None,
            inverted: false,
            suppressed: None,
            udp_port: None,
            protocol: PROTOCOL,
            is_other: false,
        }
    }

    /// Whether every host has it.
    pub(super) fn is_ordinary(&self) -> bool {
        let plain = Rule {
            protocol: self.protocol,
            ..Rule::new(self.is_ipv4, self.priority, self.table)
        };
        ORDINARY.contains(&(self.priority, self.table)) && *self == plain
    }

    /// Does the same. Who made it is another question.
    pub(super) fn is_like(&self, other: &Rule) -> bool {
        let same = Rule {
            protocol: other.protocol,
            ..self.clone()
        };
        same == *other
    }
}

/// What the kernel has at a moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Host {
    pub(super) routes: Vec<Route>,
    pub(super) rules: Vec<Rule>,
    /// Whether there is policy routing, for IPv4 and for IPv6.
    pub(super) has_rules: [bool; 2],
    /// Indexes of devices with one host at the other end, so that no gateway is needed: PPP, LTE modems.
    pub(super) straight: BTreeSet<u32>,
    /// Indexes of devices that take an IPv4 packet only if the answer would leave by them (`rp_filter=1`).
    pub(super) strict: BTreeSet<u32>,
    /// Indexes of devices that lead to nobody: loopback, dummies, VRFs.
    pub(super) inward: BTreeSet<u32>,
}

impl Host {
    pub(super) fn has_rules(&self, is_ipv4: bool) -> bool {
        self.has_rules[usize::from(!is_ipv4)]
    }

    /// Whether somebody else's rules may lead packets anywhere.
    pub(super) fn has_foreign_rules(&self, is_ipv4: bool) -> bool {
        let family = self.rules.iter().filter(|rule| rule.is_ipv4 == is_ipv4);
        family
            .filter(|rule| rule.protocol != PROTOCOL)
            .any(|rule| !rule.is_ordinary())
    }

    /// The best route of a table for packets from `source` to `target`: the longest prefix, then the least
    /// metric. Without a target, the best default route. `device` is what it must leave by, if anything.
    pub(super) fn best(
        &self,
        table: u32,
        (source, target): (IpAddr, Option<IpAddr>),
        device: Option<u32>,
    ) -> Option<&Route> {
        let routes = self.candidates(table, (source, target), device);
        routes.min_by_key(|route| rank(route))
    }

    /// Whether packets from `source` to `target` leave by `device` for certain: of several routes that are equally
    /// good the kernel takes any.
    pub(super) fn leads_by(
        &self,
        table: u32,
        key: (IpAddr, Option<IpAddr>),
        bound_to: Option<u32>,
        device: u32,
    ) -> bool {
        let mut devices = self.devices(table, key, bound_to).peekable();
        devices.peek().is_some() && devices.all(|one| one == device)
    }

    /// The devices that packets from `source` to `target` may leave by; none where the table has no route for them.
    pub(super) fn devices(
        &self,
        table: u32,
        key: (IpAddr, Option<IpAddr>),
        bound_to: Option<u32>,
    ) -> impl Iterator<Item = u32> {
        let best = self.best(table, key, bound_to).map(rank);
        let candidates = self.candidates(table, key, bound_to);
        let equal = candidates.filter(move |route| Some(rank(route)) == best);
        equal.map(|route| route.device)
    }

    /// The routes of a table for such packets.
    fn candidates(
        &self,
        table: u32,
        (source, target): (IpAddr, Option<IpAddr>),
        device: Option<u32>,
    ) -> impl Iterator<Item = &Route> {
        self.routes
            .iter()
            .filter(move |route| route.table == table && route.is_ipv4() == source.is_ipv4())
            .filter(move |route| device.is_none_or(|device| route.device == device))
            .filter(move |route| {
                source.is_unspecified() || route.sources.is_none_or(|from| contains(from, source))
            })
            .filter(move |route| match target {
                Some(target) => contains(route.destination, target),
                None => route.destination.1 == 0,
            })
    }
}

/// The least is the one that the kernel takes.
fn rank(route: &Route) -> (u8, u32) {
    (u8::MAX - route.destination.1, route.metric)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_contains_what_its_bits_say() {
        for (prefix, address, is_inside) in [
            (("0.0.0.0", 0), "203.0.113.7", true),
            (("0.0.0.0", 1), "203.0.113.7", false),
            (("128.0.0.0", 1), "203.0.113.7", true),
            (("203.0.113.7", 32), "203.0.113.7", true),
            (("203.0.113.6", 32), "203.0.113.7", false),
            (("::", 0), "203.0.113.7", false),
            (("::", 0), "2001:db8::1", true),
            (("2001:db8::", 32), "2001:db8::1", true),
            (("2001:db9::", 32), "2001:db8::1", false),
        ] {
            let network = (prefix.0.parse().unwrap(), prefix.1);
            assert_eq!(
                contains(network, address.parse().unwrap()),
                is_inside,
                "{prefix:?} {address}"
            );
        }
    }

    #[test]
    fn rules_that_every_host_has_are_not_somebodys() {
        for (priority, table) in ORDINARY {
            let rule = Rule {
                protocol: 2,
                ..Rule::new(true, priority, table)
            };
            assert!(rule.is_ordinary());
            let narrowed = Rule {
                from: Some(single("192.0.2.1".parse().unwrap())),
                ..rule
            };
            assert!(!narrowed.is_ordinary());
        }
        assert!(!Rule::new(true, 100, MAIN).is_ordinary());
    }
}

//! Rules and routes to the kernel and from it.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "rules and routes have many attributes, and each kernel adds more"
)]

use std::io;
use std::net::IpAddr;

use futures_util::TryStreamExt as _;
use rtnetlink::packet_route::link::{InfoKind, LinkAttribute, LinkFlags, LinkInfo, LinkMessage};
use rtnetlink::packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourState};
use rtnetlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteNextHopFlags,
    RouteScope, RouteType, RouteVia,
};
use rtnetlink::packet_route::rule::{
    RuleAction, RuleAttribute, RuleFlags, RuleMessage, RulePortRange,
};
use rtnetlink::packet_route::{AddressFamily, IpProtocol};
use rtnetlink::{Handle, IpVersion};

use super::host::PROTOCOL;
use super::host::{Host, Kind, MAIN, Prefix, Route, Rule};
use super::plan::Action;
use crate::netlink;

/// "No prefix is suppressed", as the kernel says it.
const NOT_SUPPRESSED: u32 = u32::MAX;

/// Reads what the host has. A family without policy routing, or without addresses at all, has no rules.
///
/// # Errors
/// When the kernel does not answer.
pub(super) async fn observe(handle: &Handle) -> io::Result<Host> {
    let mut host = Host::default();
    for (is_ipv4, version) in [(true, IpVersion::V4), (false, IpVersion::V6)] {
        let rules = handle.rule().get(version).execute();
        let rules: Result<Vec<RuleMessage>, _> = rules.try_collect().await;
        match rules.map_err(kernel_error) {
            Ok(rules) => {
                // Every kernel with policy routing has rules; without, some answer with none.
                host.has_rules[usize::from(!is_ipv4)] = !rules.is_empty();
                host.rules
                    .extend(rules.iter().map(|rule| rule_of(rule, is_ipv4)));
            }
            Err(error) if is_missing(&error) => {}
            Err(error) => return Err(error),
        }
        let mut question = RouteMessage::default();
        question.header.address_family = family(is_ipv4);
        let mut routes = handle.route().get(question).execute();
        while let Some(route) = routes.try_next().await.map_err(kernel_error)? {
            routes_of(&route, is_ipv4, &mut host.routes);
        }
    }
    let mut links = handle.link().get().execute();
    while let Some(link) = links.try_next().await.map_err(kernel_error)? {
        let index = link.header.index;
        let devices = match beyond(link.header.flags, kind_of(&link)) {
            Beyond::Nobody => &mut host.inward,
            Beyond::OneHost => &mut host.straight,
            Beyond::Network => continue,
        };
        devices.insert(index);
    }
    host.strict = netlink::strict_devices().await;
    Ok(host)
}

/// Whom a device leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beyond {
    Nobody,
    /// One host at the other end, which takes whatever is sent.
    OneHost,
    /// Many hosts, each with an address on the link: it has to be known which of them is the gateway.
    Network,
}

/// `NOARP` alone does not say that a device leads nowhere: LTE modems that speak MBIM have it (`cdc_mbim`,
/// `sierra_net`), and so has IPVLAN in layer 3. The devices that do lead nowhere are known by their kind.
fn beyond(flags: LinkFlags, kind: Option<&InfoKind>) -> Beyond {
    let leads_nowhere = matches!(
        kind,
        Some(InfoKind::Dummy | InfoKind::Vrf | InfoKind::Ifb | InfoKind::Nlmon)
    );
    let is_silent = flags.contains(LinkFlags::Noarp);
    if flags.contains(LinkFlags::Pointopoint) {
        Beyond::OneHost
    } else if flags.contains(LinkFlags::Loopback) || is_silent && leads_nowhere {
        Beyond::Nobody
    } else if is_silent {
        Beyond::OneHost
    } else {
        Beyond::Network
    }
}

/// What the kernel calls the kind of a device; a modem or a card has none.
fn kind_of(link: &LinkMessage) -> Option<&InfoKind> {
    let infos = link
        .attributes
        .iter()
        .filter_map(|attribute| match attribute {
            LinkAttribute::LinkInfo(infos) => Some(infos),
            _ => None,
        });
    infos.flatten().find_map(|info| match info {
        LinkInfo::Kind(kind) => Some(kind),
        _ => None,
    })
}

/// The kernel has no policy routing, or not this family.
fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EOPNOTSUPP | libc::EAFNOSUPPORT | libc::ENOSYS)
    )
}

/// Does it. What is there already, or gone, is no error.
///
/// # Errors
/// What the kernel says.
pub(super) async fn apply(handle: &Handle, action: &Action) -> io::Result<()> {
    let (result, done) = match action {
        Action::AddRoute(route) => {
            let add = handle.route().add(route_message(route)).replace();
            (add.execute().await, libc::EEXIST)
        }
        Action::RemoveRoute(route) => {
            let remove = handle.route().del(route_message(route));
            (remove.execute().await, libc::ESRCH)
        }
        Action::AddRule(rule) => {
            let mut add = handle.rule().add();
            *add.message_mut() = rule_message(rule);
            (add.execute().await, libc::EEXIST)
        }
        Action::RemoveRule(rule) => {
            let remove = handle.rule().del(rule_message(rule));
            (remove.execute().await, libc::ENOENT)
        }
    };
    match result.map_err(kernel_error) {
        Err(error) if error.raw_os_error() == Some(done) => Ok(()),
        // A device that went takes its routes along.
        Err(error)
            if matches!(action, Action::RemoveRoute(_))
                && matches!(error.raw_os_error(), Some(libc::ENODEV | libc::EINVAL)) =>
        {
            Ok(())
        }
        other => other,
    }
}

/// A packet that somebody wants to send.
#[derive(Debug, Clone)]
pub(super) struct Packet {
    pub(super) source: IpAddr,
    pub(super) target: IpAddr,
    pub(super) mark: u32,
    pub(super) udp_port: u16,
    /// Index of the device that the socket is bound to.
    pub(super) bound_to: Option<u32>,
}

/// Where the kernel sends a packet next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hop {
    /// Index of the device.
    pub(crate) device: u32,
    /// The gateway, or the target itself.
    pub(crate) to: IpAddr,
}

/// Where the kernel sends it; `None` when it has no route.
pub(super) async fn hop_of(handle: &Handle, packet: &Packet) -> Option<Hop> {
    let is_ipv4 = packet.target.is_ipv4();
    let bits = if is_ipv4 { 32 } else { 128 };
    let mut question = RouteMessage::default();
    question.header.address_family = family(is_ipv4);
    question.header.destination_prefix_length = bits;
    let attributes = &mut question.attributes;
    attributes.push(RouteAttribute::Destination(packet.target.into()));
    // Of a socket that is bound to a device IPv6 looks at that alone, and here only where no source is named.
    let is_led_by_source = is_ipv4 || packet.bound_to.is_none();
    if !packet.source.is_unspecified() && is_led_by_source {
        question.header.source_prefix_length = bits;
        attributes.push(RouteAttribute::Source(packet.source.into()));
    }
    if packet.mark != 0 {
        attributes.push(RouteAttribute::Mark(packet.mark));
    }
    if let Some(device) = packet.bound_to {
        attributes.push(RouteAttribute::Oif(device));
    }
    attributes.push(RouteAttribute::IpProto(libc::IPPROTO_UDP as u8));
    attributes.push(RouteAttribute::Sport(packet.udp_port));
    let mut answers = handle.route().get(question).execute();
    let answer = answers.try_next().await.ok()??;
    let (mut device, mut to) = (None, packet.target);
    for attribute in &answer.attributes {
        match attribute {
            RouteAttribute::Oif(index) => device = Some(*index),
            RouteAttribute::Gateway(gateway) => to = ip(gateway).unwrap_or(to),
            RouteAttribute::Via(gateway) => to = ip_of_via(gateway).unwrap_or(to),
            _ => {}
        }
    }
    device.map(|device| Hop { device, to })
}

/// Whether the kernel has asked on the link who the next hop is, and nobody answered so far.
pub(super) async fn is_silent(handle: &Handle, hop: Hop) -> bool {
    let neighbours = handle.neighbours().get();
    let mut neighbours = neighbours
        .set_address_family(family(hop.to.is_ipv4()))
        .execute();
    while let Ok(Some(neighbour)) = neighbours.try_next().await {
        let is_it = |attribute: &NeighbourAttribute| match attribute {
            NeighbourAttribute::Destination(NeighbourAddress::Inet(ip)) => hop.to == *ip,
            NeighbourAttribute::Destination(NeighbourAddress::Inet6(ip)) => hop.to == *ip,
            _ => false,
        };
        if neighbour.header.ifindex == hop.device && neighbour.attributes.iter().any(is_it) {
            let state = neighbour.header.state;
            return matches!(state, NeighbourState::Failed | NeighbourState::Incomplete);
        }
    }
    false
}

fn kernel_error(error: rtnetlink::Error) -> io::Error {
    if let rtnetlink::Error::NetlinkError(message) = error {
        message.to_io()
    } else {
        io::Error::other(error)
    }
}

fn family(is_ipv4: bool) -> AddressFamily {
    if is_ipv4 {
        AddressFamily::Inet
    } else {
        AddressFamily::Inet6
    }
}

fn unspecified(is_ipv4: bool) -> IpAddr {
    if is_ipv4 {
        IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED)
    } else {
        IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED)
    }
}

fn rule_of(message: &RuleMessage, is_ipv4: bool) -> Rule {
    let header = &message.header;
    let mut rule = Rule {
        protocol: 0,
        inverted: header.flags.contains(RuleFlags::Invert),
        is_other: header.action != RuleAction::ToTable || header.tos != 0,
        ..Rule::new(is_ipv4, 0, header.table.into())
    };
    let (mut mark, mut mask) = (None, u32::MAX);
    for attribute in &message.attributes {
        match attribute {
            RuleAttribute::Priority(priority) => rule.priority = *priority,
            RuleAttribute::Table(table) => rule.table = *table,
            RuleAttribute::Source(address) => rule.from = Some((*address, header.src_len)),
            RuleAttribute::Destination(address) => rule.to = Some((*address, header.dst_len)),
            RuleAttribute::Oifname(name) => rule.device = Some(name.clone()),
            RuleAttribute::FwMark(value) => mark = Some(*value),
            RuleAttribute::FwMask(value) => mask = *value,
            RuleAttribute::SuppressPrefixLen(length) => {
                rule.suppressed = (*length != NOT_SUPPRESSED).then_some(*length);
            }
            RuleAttribute::SourcePortRange(range) if range.start == range.end => {
                rule.udp_port = Some(range.start);
            }
            RuleAttribute::IpProtocol(IpProtocol::Udp) => {}
            RuleAttribute::Protocol(protocol) => rule.protocol = (*protocol).into(),
            RuleAttribute::SuppressIfGroup(NOT_SUPPRESSED) => {}
            _ => rule.is_other = true,
        }
    }
    rule.mark = mark.map(|mark| (mark, mask));
    // Newer kernels say more of each rule than they were asked for, such as a mask of the ports.
    rule.is_other &= rule.protocol != PROTOCOL;
    rule
}

fn rule_message(rule: &Rule) -> RuleMessage {
    let mut message = RuleMessage::default();
    message.header.family = family(rule.is_ipv4);
    message.header.action = RuleAction::ToTable;
    if rule.inverted {
        message.header.flags = RuleFlags::Invert;
    }
    let mut attributes = vec![
        RuleAttribute::Priority(rule.priority),
        RuleAttribute::Table(rule.table),
        RuleAttribute::Protocol(rule.protocol.into()),
    ];
    if let Some((address, length)) = rule.from {
        message.header.src_len = length;
        attributes.push(RuleAttribute::Source(address));
    }
    if let Some((address, length)) = rule.to {
        message.header.dst_len = length;
        attributes.push(RuleAttribute::Destination(address));
    }
    if let Some(device) = &rule.device {
        attributes.push(RuleAttribute::Oifname(device.clone()));
    }
    if let Some((mark, mask)) = rule.mark {
        attributes.push(RuleAttribute::FwMark(mark));
        attributes.push(RuleAttribute::FwMask(mask));
    }
    if let Some(length) = rule.suppressed {
        attributes.push(RuleAttribute::SuppressPrefixLen(length));
    }
    if let Some(port) = rule.udp_port {
        let range = RulePortRange {
            start: port,
            end: port,
        };
        attributes.push(RuleAttribute::IpProtocol(IpProtocol::Udp));
        attributes.push(RuleAttribute::SourcePortRange(range));
    }
    message.attributes = attributes;
    message
}

/// The unicast routes of a message, one for each next hop; and of ours that which refuses packets.
fn routes_of(message: &RouteMessage, is_ipv4: bool, routes: &mut Vec<Route>) {
    let header = &message.header;
    let kind = match header.kind {
        RouteType::Unicast => Kind::Unicast,
        RouteType::Unreachable if u8::from(header.protocol) == PROTOCOL => Kind::Unreachable,
        _ => return,
    };
    // A kernel without one family answers with the routes of the other.
    if header.address_family != family(is_ipv4) || header.flags.contains(RouteFlags::Cloned) {
        return;
    }
    let any = unspecified(is_ipv4);
    let mut route = Route {
        kind,
        table: header.table.into(),
        destination: (any, header.destination_prefix_length),
        sources: (header.source_prefix_length > 0).then_some((any, header.source_prefix_length)),
        device: 0,
        gateway: None,
        onlink: header.flags.contains(RouteFlags::Onlink),
        source: None,
        metric: 0,
        protocol: header.protocol.into(),
    };
    let mut hops = Vec::new();
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Table(table) => route.table = *table,
            RouteAttribute::Destination(to) => route.destination.0 = ip(to).unwrap_or(any),
            RouteAttribute::Source(from) => {
                route.sources = ip(from).map(|ip| (ip, header.source_prefix_length));
            }
            // Of IPv6 such a route is said to lead to the loopback device.
            RouteAttribute::Oif(device) if kind == Kind::Unicast => route.device = *device,
            RouteAttribute::Gateway(gateway) => route.gateway = ip(gateway),
            RouteAttribute::Via(via) => route.gateway = ip_of_via(via),
            RouteAttribute::PrefSource(source) => route.source = ip(source),
            RouteAttribute::Priority(metric) => route.metric = *metric,
            RouteAttribute::MultiPath(next) => hops = next.clone(),
            _ => {}
        }
    }
    if hops.is_empty() {
        routes.push(route);
        return;
    }
    for hop in hops {
        let gateway = hop.attributes.iter().find_map(|attribute| match attribute {
            RouteAttribute::Gateway(gateway) => ip(gateway),
            RouteAttribute::Via(via) => ip_of_via(via),
            _ => None,
        });
        routes.push(Route {
            device: hop.interface_index,
            gateway,
            onlink: hop.flags.contains(RouteNextHopFlags::Onlink),
            ..route.clone()
        });
    }
}

fn route_message(route: &Route) -> RouteMessage {
    let (network, length): Prefix = route.destination;
    let is_ipv4 = network.is_ipv4();
    let mut message = RouteMessage::default();
    message.header = RouteHeader {
        address_family: family(is_ipv4),
        destination_prefix_length: length,
        table: if route.table == MAIN { MAIN as u8 } else { 0 },
        protocol: PROTOCOL.into(),
        kind: match route.kind {
            Kind::Unicast => RouteType::Unicast,
            Kind::Unreachable => RouteType::Unreachable,
        },
        scope: if is_ipv4 && route.gateway.is_none() && route.kind == Kind::Unicast {
            RouteScope::Link
        } else {
            RouteScope::Universe
        },
        flags: if route.onlink {
            RouteFlags::Onlink
        } else {
            RouteFlags::default()
        },
        ..RouteHeader::default()
    };
    let attributes = &mut message.attributes;
    attributes.push(RouteAttribute::Table(route.table));
    if length > 0 {
        attributes.push(RouteAttribute::Destination(network.into()));
    }
    if route.kind == Kind::Unicast {
        attributes.push(RouteAttribute::Oif(route.device));
    }
    match route.gateway {
        Some(IpAddr::V6(gateway)) if is_ipv4 => {
            attributes.push(RouteAttribute::Via(RouteVia::Inet6(gateway)));
        }
        Some(gateway) => attributes.push(RouteAttribute::Gateway(gateway.into())),
        None => {}
    }
    if let Some(source) = route.source {
        attributes.push(RouteAttribute::PrefSource(source.into()));
    }
    message
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(ip) => Some((*ip).into()),
        RouteAddress::Inet6(ip) => Some((*ip).into()),
        _ => None,
    }
}

fn ip_of_via(via: &RouteVia) -> Option<IpAddr> {
    match via {
        RouteVia::Inet(ip) => Some((*ip).into()),
        RouteVia::Inet6(ip) => Some((*ip).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_without_arp_leads_to_somebody_unless_its_kind_says_otherwise() {
        let ethernet = LinkFlags::Up | LinkFlags::Broadcast | LinkFlags::Multicast;
        let silent = ethernet | LinkFlags::Noarp;
        let ppp = LinkFlags::Up | LinkFlags::Pointopoint | LinkFlags::Noarp;
        for (flags, kind, expected) in [
            (LinkFlags::Up | LinkFlags::Loopback, None, Beyond::Nobody),
            (silent, Some(InfoKind::Dummy), Beyond::Nobody),
            (silent, Some(InfoKind::Vrf), Beyond::Nobody),
            (silent, Some(InfoKind::Ifb), Beyond::Nobody),
            (LinkFlags::Noarp, Some(InfoKind::Nlmon), Beyond::Nobody),
            // A modem that speaks MBIM, and IPVLAN in layer 3.
            (silent, None, Beyond::OneHost),
            (silent, Some(InfoKind::Wwan), Beyond::OneHost),
            (silent, Some(InfoKind::IpVlan), Beyond::OneHost),
            (ppp, None, Beyond::OneHost),
            (ppp, Some(InfoKind::Wireguard), Beyond::OneHost),
            (ethernet, None, Beyond::Network),
            (ethernet, Some(InfoKind::Veth), Beyond::Network),
        ] {
            assert_eq!(beyond(flags, kind.as_ref()), expected, "{flags:?} {kind:?}");
        }
    }

    #[test]
    fn the_kind_of_a_device_is_read_if_it_has_one() {
        let mut link = LinkMessage::default();
        link.attributes.push(LinkAttribute::Mtu(1500));
        assert_eq!(kind_of(&link), None);
        let kind = LinkInfo::Kind(InfoKind::Dummy);
        link.attributes.push(LinkAttribute::LinkInfo(vec![kind]));
        assert_eq!(kind_of(&link), Some(&InfoKind::Dummy));
    }
}

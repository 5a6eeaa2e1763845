//! Which rules and routes a tunnel needs, from what it is to do and what the host has. No I/O.
//!
//! **The tunnel's routes.** Those that cover an outer address, a path's remote or a name server, would lead
//! the tunnel's own packets into the tunnel. They stand in a table of the tunnel's own, which packets with
//! a tunnel's mark do not see; the others stand in the main table, where people look for them. The two
//! tables together work as one would: for each length of prefix in the tunnel's table two rules, the
//! first for what the main table has with longer prefixes, the second for the tunnel's table. With
//! `0.0.0.0/0` these are wg-quick's two rules.
//!
//! **A path's device.** The main table leads by destination alone, and all paths have much the same one.
//! Where it leads elsewhere than to the device that has the path's `local` address (or is its `interface`),
//! or where somebody else's rules may, the path gets a table with what the host knows about that device: its
//! prefixes, and the routes by it to the remote and to everywhere. A rule leads the path's own packets
//! there. What the table does not know goes on as before.
//!
//! **A path whose device has no route.** The main table may still lead its packets on, by what is left: an uplink of
//! another path, past that path's `cost` and `budget`. Then the path gets a table all the same, which refuses what goes
//! beyond the device's own networks, so that the path is down. Where the main table leads to any other device, it is
//! followed: somebody may mean it so.

use std::net::IpAddr;

use super::block::{Block, MARK_MASK, MARKS};
use super::host::{Host, Kind, LOCAL, MAIN, Prefix, Route, Rule, contains, single};

/// Routes that the kernel makes for its addresses (`RTPROT_KERNEL`).
const BY_KERNEL: u8 = 2;

/// What a tunnel is to do, as far as routing is concerned.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Need {
    /// Index of the TUN interface.
    pub(crate) tun: u32,
    /// Prefixes that are reached through it.
    pub(crate) routes: Vec<Prefix>,
    /// Its paths, those that wait for a device included.
    pub(crate) paths: Vec<PathNeed>,
    /// The name servers that are asked for its peers.
    pub(crate) name_servers: Vec<IpAddr>,
    /// Addresses of the host, with the index of the device of each.
    pub(crate) addresses: Vec<(IpAddr, u32)>,
}

/// A path, as far as routing is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathNeed {
    /// Its number in the tunnel, which chooses its table.
    pub(crate) slot: usize,
    /// The address of its socket; unspecified where the kernel chooses.
    pub(crate) local: IpAddr,
    /// The UDP port of its socket.
    pub(crate) port: u16,
    /// The device that its socket is bound to.
    pub(crate) interface: Option<String>,
    /// Index of the device that it is to leave by, if it is there.
    pub(crate) device: Option<u32>,
    /// The peer, if it is known.
    pub(crate) remote: Option<IpAddr>,
}

/// Everything that the kernel is to have for a tunnel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) rules: Vec<Rule>,
    pub(super) routes: Vec<Route>,
}

impl Plan {
    /// Adds these; of several to one prefix of one table the first.
    fn add_routes(&mut self, routes: impl Iterator<Item = Route>) {
        let place = |route: &Route| (route.table, route.destination);
        for route in routes {
            if !self
                .routes
                .iter()
                .any(|known| place(known) == place(&route))
            {
                self.routes.push(route);
            }
        }
    }
}

/// The tunnel's routes that stand in the main table: all but those that would catch its own packets, where rules can
/// keep these out.
pub(super) fn main_routes(need: &Need, host: &Host) -> Vec<Prefix> {
    let all = need.routes.iter().copied();
    all.filter(|&route| !is_own(need, host, route)).collect()
}

/// Whether the route stands in the tunnel's own table.
fn is_own(need: &Need, host: &Host, route: Prefix) -> bool {
    host.has_rules(route.0.is_ipv4()) && covers_outer(need, route)
}

/// What the tunnel needs on this host.
pub(super) fn plan(need: &Need, host: &Host, block: Block) -> Plan {
    let mut plan = Plan::default();
    let own = need.routes.iter().copied();
    let own: Vec<Prefix> = own.filter(|&route| is_own(need, host, route)).collect();
    for is_ipv4 in [true, false] {
        let family = own.iter().filter(|route| route.0.is_ipv4() == is_ipv4);
        tunnel_routes(need.tun, family, block, &mut plan);
    }
    for path in &need.paths {
        path_routes(need, path, &own, host, block, &mut plan);
    }
    for &server in &need.name_servers {
        answers_of(server, need, &own, host, block, &mut plan);
    }
    plan
}

/// Whether the route would catch the tunnel's own packets, or may: everybody's default route does.
pub(super) fn covers_outer(need: &Need, route: Prefix) -> bool {
    let remotes = need.paths.iter().filter_map(|path| path.remote);
    let mut outer = remotes.chain(need.name_servers.iter().copied());
    route.1 == 0 || outer.any(|address| contains(route, address))
}

/// The tunnel's own table, of one family, and the two rules for each length of prefix in it.
fn tunnel_routes<'a>(
    tun: u32,
    routes: impl Iterator<Item = &'a Prefix>,
    block: Block,
    plan: &mut Plan,
) {
    let routes: Vec<Prefix> = routes.copied().collect();
    let mut lengths: Vec<u8> = routes.iter().map(|route| route.1).collect();
    lengths.sort_unstable();
    lengths.dedup();
    let shortest = lengths.first().copied();
    for &length in lengths.iter().rev() {
        let is_ipv4 = routes[0].0.is_ipv4();
        let [first, second] = block.other_priorities(length);
        plan.rules.push(Rule {
            suppressed: Some(length.into()),
            ..Rule::new(is_ipv4, first, MAIN)
        });
        let has_shorter = shortest.is_some_and(|shortest| shortest < length);
        plan.rules.push(Rule {
            mark: Some((MARKS, MARK_MASK)),
            inverted: true,
            suppressed: has_shorter.then(|| u32::from(length) - 1),
            ..Rule::new(is_ipv4, second, block.tunnel_table())
        });
    }
    let routes = routes.into_iter();
    plan.routes
        .extend(routes.map(|route| over(tun, block.tunnel_table(), route)));
}

/// A route of ours without a gateway.
fn over(device: u32, table: u32, destination: Prefix) -> Route {
    Route {
        kind: Kind::Unicast,
        table,
        destination,
        sources: None,
        device,
        gateway: None,
        onlink: false,
        source: None,
        metric: 0,
        protocol: super::host::PROTOCOL,
    }
}

/// A path's table and rules, where the main table does not lead to its device, or not for certain.
fn path_routes(
    need: &Need,
    path: &PathNeed,
    own: &[Prefix],
    host: &Host,
    block: Block,
    plan: &mut Plan,
) {
    let is_ipv4 = path.local.is_ipv4();
    // Its device is part of a link-local address.
    if is_link_local(path.local) || !host.has_rules(is_ipv4) {
        return;
    }
    let Some(device) = device_of(need, path, host) else {
        return;
    };
    let Some(way) = way_by(device, path.local, path.remote, host) else {
        if is_led_to_another_path(need, path, host) {
            let refusal = Route {
                kind: Kind::Unreachable,
                ..over(0, block.path_table(path.slot), everywhere(is_ipv4))
            };
            plan.rules.push(path_rule(path, block));
            plan.add_routes(networks_of(device, path, host, block).chain([refusal]));
        }
        return;
    };
    // What comes in by a strict device is looked up as its answer would be, without a mark.
    let is_strict = is_ipv4 && host.strict.contains(&device);
    let is_caught = path
        .remote
        .is_some_and(|remote| own.iter().any(|&route| contains(route, remote)))
        || own
            .iter()
            .any(|route| route.1 == 0 && route.0.is_ipv4() == is_ipv4);
    let bound_to = path.interface.is_some().then_some(device);
    let key = (path.local, path.remote);
    let is_led_there = host.leads_by(MAIN, key, bound_to, device);
    let is_strict_and_led_elsewhere =
        is_strict && (is_caught || !host.leads_by(MAIN, key, None, device));
    if is_led_there && !host.has_foreign_rules(is_ipv4) && !is_strict_and_led_elsewhere {
        return;
    }
    let table = block.path_table(path.slot);
    let to_everywhere = way_by(device, path.local, None, host);
    let ways = [way].into_iter().chain(to_everywhere);
    let ways = ways.map(|way| in_table(&way, device, table));
    plan.add_routes(networks_of(device, path, host, block).chain(ways));
    plan.rules.push(path_rule(path, block));
    if is_strict {
        for address in addresses_of(need, path, device) {
            plan.rules.push(Rule {
                from: Some(single(address)),
                udp_port: Some(path.port),
                ..Rule::new(is_ipv4, block.own_priority(), table)
            });
        }
    }
}

/// The rule that leads a path's packets into its table.
fn path_rule(path: &PathNeed, block: Block) -> Rule {
    let table = block.path_table(path.slot);
    Rule {
        from: path.interface.is_none().then(|| single(path.local)),
        device: path.interface.clone(),
        mark: Some((block.mark(), u32::MAX)),
        ..Rule::new(path.local.is_ipv4(), block.own_priority(), table)
    }
}

/// The networks on a device, as they stand in a path's table.
fn networks_of(
    device: u32,
    path: &PathNeed,
    host: &Host,
    block: Block,
) -> impl Iterator<Item = Route> {
    let (is_ipv4, table) = (path.local.is_ipv4(), block.path_table(path.slot));
    let networks = host.routes.iter().filter(move |route| {
        route.table == MAIN
            && route.device == device
            && route.is_ipv4() == is_ipv4
            && route.protocol == BY_KERNEL
            && route.gateway.is_none()
    });
    networks.map(move |route| in_table(route, device, table))
}

/// The same way, as a route of ours in another table.
fn in_table(way: &Route, device: u32, table: u32) -> Route {
    Route {
        gateway: way.gateway,
        onlink: way.onlink,
        source: way.source,
        ..over(device, table, way.destination)
    }
}

/// Whether the main table leads a path whose own device has no route to the device of another path. A bound socket
/// leaves by its device alone. Before the peer is known there is nothing to send but answers to who calls, and those
/// go as the main table says.
fn is_led_to_another_path(need: &Need, path: &PathNeed, host: &Host) -> bool {
    if path.interface.is_some() || path.remote.is_none() {
        return false;
    }
    let mut devices = host.devices(MAIN, (path.local, path.remote), None);
    devices.any(|device| {
        let mut others = need.paths.iter().filter(|other| other.slot != path.slot);
        others.any(|other| device_of(need, other, host) == Some(device))
    })
}

fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

/// The device that a path is to leave by: the one with its address, unless that leads to nobody.
pub(super) fn device_of(need: &Need, path: &PathNeed, host: &Host) -> Option<u32> {
    path.device
        .filter(|device| !host.inward.contains(device) && *device != need.tun)
}

/// The host's best route by this device, to `target` or to everywhere: the main table's; else that of any
/// other, the lowest number first; else straight to the one host at the other end.
pub(super) fn way_by(
    device: u32,
    source: IpAddr,
    target: Option<IpAddr>,
    host: &Host,
) -> Option<Route> {
    let mut others: Vec<u32> = host
        .routes
        .iter()
        .filter(|route| route.device == device && route.protocol != super::host::PROTOCOL)
        .map(|route| route.table)
        .filter(|table| ![MAIN, LOCAL].contains(table))
        .collect();
    others.sort_unstable();
    others.dedup();
    let straight = || {
        let is_straight = host.straight.contains(&device);
        is_straight.then(|| over(device, MAIN, everywhere(source.is_ipv4())))
    };
    std::iter::once(MAIN)
        .chain(others)
        .find_map(|table| host.best(table, (source, target), Some(device)))
        .cloned()
        .or_else(straight)
}

/// The prefix of all addresses.
fn everywhere(is_ipv4: bool) -> Prefix {
    let any = if is_ipv4 {
        IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED)
    } else {
        IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED)
    };
    (any, 0)
}

/// The addresses that a path's packets may come from.
fn addresses_of(need: &Need, path: &PathNeed, device: u32) -> Vec<IpAddr> {
    if !path.local.is_unspecified() {
        return vec![path.local];
    }
    let of_device = need.addresses.iter().filter(|(_, index)| *index == device);
    let family = of_device.filter(|(address, _)| address.is_ipv4() == path.local.is_ipv4());
    family.map(|(address, _)| *address).collect()
}

/// Where a name server's answers come in by a strict device, they are looked up as a packet to it would be.
fn answers_of(
    server: IpAddr,
    need: &Need,
    own: &[Prefix],
    host: &Host,
    block: Block,
    plan: &mut Plan,
) {
    if !server.is_ipv4() || !own.iter().any(|&route| contains(route, server)) {
        return;
    }
    let any = IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);
    let Some(route) = host.best(MAIN, (any, Some(server)), None) else {
        return;
    };
    if !host.strict.contains(&route.device) {
        return;
    }
    let of_device = need
        .addresses
        .iter()
        .filter(|(address, index)| *index == route.device && address.is_ipv4());
    for (address, _) in of_device {
        plan.rules.push(Rule {
            from: Some(single(*address)),
            to: Some(single(server)),
            ..Rule::new(true, block.own_priority(), MAIN)
        });
    }
}

/// One thing to do to the kernel's tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    /// Add it, in place of one of ours to the same prefix.
    AddRoute(Route),
    AddRule(Rule),
    RemoveRule(Rule),
    RemoveRoute(Route),
}

/// What leads from the host as it is to the plan: what is missing first, so that no packet falls between.
pub(super) fn difference(plan: &Plan, host: &Host, block: Block) -> Vec<Action> {
    let tables = block.tables();
    let routes: Vec<&Route> = host
        .routes
        .iter()
        .filter(|route| route.protocol == super::host::PROTOCOL && tables.contains(&route.table))
        .collect();
    let rules: Vec<&Rule> = host.rules.iter().filter(|rule| block.owns(rule)).collect();
    let mut actions = Vec::new();
    for route in &plan.routes {
        if !routes.iter().any(|known| known.is_like(route)) {
            actions.push(Action::AddRoute(route.clone()));
        }
    }
    // A rule that stands there twice is one too many.
    let mut kept: Vec<&Rule> = Vec::new();
    for &rule in &rules {
        let is_wanted = plan.rules.iter().any(|wanted| wanted.is_like(rule));
        if is_wanted && !kept.iter().any(|kept| kept.is_like(rule)) {
            kept.push(rule);
        } else {
            actions.push(Action::RemoveRule(rule.clone()));
        }
    }
    for rule in &plan.rules {
        if !kept.iter().any(|known| known.is_like(rule)) {
            actions.push(Action::AddRule(rule.clone()));
        }
    }
    for route in routes {
        let is_wanted = plan.routes.iter().any(|wanted| wanted.is_like(route));
        // One that is replaced is gone by then.
        let is_replaced = || {
            let place = |route: &Route| (route.table, route.destination);
            let mut wanted = plan.routes.iter();
            wanted.any(|wanted| place(wanted) == place(route))
        };
        if !is_wanted && !is_replaced() {
            actions.push(Action::RemoveRoute(route.clone()));
        }
    }
    actions.sort_by_key(|action| match action {
        Action::AddRoute(_) => 0,
        Action::AddRule(_) => 1,
        Action::RemoveRule(_) => 2,
        Action::RemoveRoute(_) => 3,
    });
    actions
}

#[cfg(test)]
mod tests;

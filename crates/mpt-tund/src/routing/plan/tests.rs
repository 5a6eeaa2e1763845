use proptest::prelude::*;

use super::*;

const TUN: u32 = 9;
const FIBRE: u32 = 2;
const LTE: u32 = 3;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn prefix(text: &str) -> Prefix {
    let (network, length) = text.split_once('/').unwrap();
    (ip(network), length.parse().unwrap())
}

/// The host's own route: `PREFIX [GATEWAY]` by a device, with a metric.
fn route(destination: &str, gateway: Option<&str>, device: u32, metric: u32) -> Route {
    Route {
        gateway: gateway.map(ip),
        metric,
        protocol: if gateway.is_none() { BY_KERNEL } else { 4 },
        ..over(device, MAIN, prefix(destination))
    }
}

fn ordinary_rules() -> Vec<Rule> {
    let rules = |is_ipv4| {
        [(0, LOCAL), (32_766, MAIN), (32_767, 253)].map(|(priority, table)| Rule {
            protocol: 2,
            ..Rule::new(is_ipv4, priority, table)
        })
    };
    [rules(true), rules(false)].concat()
}

/// A host with a fibre and an LTE uplink, each with a router, the fibre preferred.
fn host() -> Host {
    Host {
        routes: vec![
            route("192.168.1.0/24", None, FIBRE, 0),
            route("192.168.2.0/24", None, LTE, 0),
            route("0.0.0.0/0", Some("192.168.1.1"), FIBRE, 100),
            route("0.0.0.0/0", Some("192.168.2.1"), LTE, 600),
            route("2001:db8:1::/64", None, FIBRE, 256),
            route("::/0", Some("fe80::1"), FIBRE, 1024),
        ],
        rules: ordinary_rules(),
        has_rules: [true; 2],
        inward: [1].into(),
        ..Host::default()
    }
}

fn path(slot: usize, local: &str, device: u32, remote: &str) -> PathNeed {
    PathNeed {
        slot,
        local: ip(local),
        port: 4754,
        interface: None,
        device: Some(device),
        remote: Some(ip(remote)),
    }
}

fn need(routes: &[&str]) -> Need {
    Need {
        tun: TUN,
        routes: routes.iter().map(|route| prefix(route)).collect(),
        paths: vec![
            path(0, "192.168.1.10", FIBRE, "203.0.113.7"),
            path(1, "192.168.2.10", LTE, "203.0.113.7"),
        ],
        ..Need::default()
    }
}

fn block() -> Block {
    Block::new(0).unwrap()
}

/// The host once the plan is carried out.
fn carried_out(need: &Need, host: &Host) -> Host {
    let plan = plan(need, host, block());
    let mut after = host.clone();
    for action in difference(&plan, host, block()) {
        act(&mut after, &action);
    }
    for route in main_routes(need, host) {
        after.routes.push(over(TUN, MAIN, route));
    }
    after
}

fn act(host: &mut Host, action: &Action) {
    match action {
        Action::AddRoute(route) => {
            let place = |route: &Route| (route.table, route.destination);
            host.routes.retain(|known| place(known) != place(route));
            host.routes.push(route.clone());
        }
        Action::RemoveRoute(route) => host.routes.retain(|known| !known.is_like(route)),
        Action::AddRule(rule) => host.rules.push(rule.clone()),
        Action::RemoveRule(rule) => {
            let mut rules = host.rules.iter();
            if let Some(at) = rules.position(|known| known == rule) {
                host.rules.remove(at);
            }
        }
    }
}

/// A packet as the kernel's rules see it.
#[derive(Debug, Clone)]
struct Flow {
    source: IpAddr,
    target: IpAddr,
    mark: u32,
    bound_to: Option<(u32, &'static str)>,
    udp_port: u16,
}

fn from(source: &str, target: &str, mark: u32) -> Flow {
    Flow {
        source: ip(source),
        target: ip(target),
        mark,
        bound_to: None,
        udp_port: 0,
    }
}

/// What the kernel does: rule by rule, in each table the longest prefix, and on where that is suppressed.
fn looked_up(host: &Host, flow: &Flow) -> Option<u32> {
    let mut rules: Vec<&Rule> = host.rules.iter().collect();
    rules.sort_by_key(|rule| rule.priority);
    let route = rules
        .into_iter()
        .filter(|rule| applies(rule, flow))
        .find_map(|rule| {
            let bound_to = flow.bound_to.map(|(index, _)| index);
            host.best(rule.table, (flow.source, Some(flow.target)), bound_to)
                .filter(|route| {
                    rule.suppressed
                        .is_none_or(|length| u32::from(route.destination.1) > length)
                })
        })?;
    (route.kind == Kind::Unicast).then_some(route.device)
}

fn applies(rule: &Rule, flow: &Flow) -> bool {
    let marked = |(mark, mask): (u32, u32)| (flow.mark ^ mark) & mask == 0;
    let selected = rule.from.is_none_or(|from| contains(from, flow.source))
        && rule.to.is_none_or(|to| contains(to, flow.target))
        && rule.mark.is_none_or(marked)
        && rule.udp_port.is_none_or(|port| port == flow.udp_port)
        && rule
            .device
            .as_deref()
            .is_none_or(|device| flow.bound_to.is_some_and(|(_, name)| name == device));
    rule.is_ipv4 == flow.target.is_ipv4() && selected != rule.inverted
}

#[test]
fn a_host_with_one_uplink_and_no_covering_route_needs_nothing() {
    let mut need = need(&["10.8.0.0/16"]);
    need.paths.truncate(1);
    let plan = plan(&need, &host(), block());
    assert_eq!((plan.rules.len(), plan.routes.len()), (0, 0), "{plan:?}");
    assert_eq!(main_routes(&need, &host()), [prefix("10.8.0.0/16")]);
}

#[test]
fn each_path_leaves_by_the_device_that_has_its_address() {
    let need = need(&[]);
    let after = carried_out(&need, &host());
    let mark = block().mark();
    let leaves_by = |source, mark| looked_up(&after, &from(source, "203.0.113.7", mark));
    assert_eq!(leaves_by("192.168.1.10", mark), Some(FIBRE));
    assert_eq!(leaves_by("192.168.2.10", mark), Some(LTE));
    assert_eq!(leaves_by("192.168.2.10", 0), Some(FIBRE), "nobody else's");
}

#[test]
fn of_routes_that_are_equally_good_none_is_left_to_chance() {
    let mut host = host();
    for route in &mut host.routes {
        route.metric = route.metric.min(100);
    }
    let plan = plan(&need(&[]), &host, block());
    for local in ["192.168.1.10", "192.168.2.10"] {
        let is_its = |rule: &Rule| rule.from == Some(single(ip(local)));
        assert!(plan.rules.iter().any(is_its), "{local}: {plan:?}");
    }
}

#[test]
fn a_default_route_catches_everything_but_the_tunnels_own_packets() {
    let after = carried_out(&need(&["0.0.0.0/0", "::/0"]), &host());
    let mark = block().mark();
    for (source, target, mark, device) in [
        ("0.0.0.0", "198.51.100.1", 0, TUN),
        ("0.0.0.0", "192.168.2.7", 0, LTE),
        ("::", "2001:db8:9::1", 0, TUN),
        ("::", "2001:db8:1::9", 0, FIBRE),
        ("0.0.0.0", "9.9.9.9", mark, FIBRE),
        ("::", "2620:fe::fe", mark, FIBRE),
        ("192.168.2.10", "203.0.113.7", mark, LTE),
        // Another tunnel's packets are none of this one's.
        ("0.0.0.0", "203.0.113.9", mark + 1, FIBRE),
    ] {
        let found = looked_up(&after, &from(source, target, mark));
        assert_eq!(found, Some(device), "{source} {target} {mark:#x}");
    }
}

#[test]
fn only_routes_that_cover_an_outer_address_leave_the_main_table() {
    let mut need = need(&[
        "0.0.0.0/1",
        "128.0.0.0/1",
        "203.0.113.0/24",
        "9.0.0.0/8",
        "10.8.0.0/16",
    ]);
    need.name_servers = vec![ip("9.9.9.9")];
    assert_eq!(main_routes(&need, &host()), [prefix("10.8.0.0/16")]);
    let after = carried_out(&need, &host());
    let mark = block().mark();
    for (target, mark, device) in [
        ("203.0.113.7", 0, TUN),
        ("203.0.113.7", mark, FIBRE),
        ("9.9.9.9", 0, TUN),
        ("9.9.9.9", mark, FIBRE),
        ("192.168.1.1", 0, FIBRE),
    ] {
        let found = looked_up(&after, &from("0.0.0.0", target, mark));
        assert_eq!(found, Some(device), "{target} {mark:#x}");
    }
}

#[test]
fn a_gateway_that_another_table_knows_is_used() {
    let mut host = host();
    host.routes
        .retain(|route| route.destination.1 != 0 || route.device != LTE);
    host.routes.push(Route {
        table: 102,
        ..route("0.0.0.0/0", Some("192.168.2.1"), LTE, 0)
    });
    let after = carried_out(&need(&[]), &host);
    let flow = from("192.168.2.10", "203.0.113.7", block().mark());
    assert_eq!(looked_up(&after, &flow), Some(LTE));
}

/// The fibre is there, with its address, and has no default route any more.
fn without_fibre() -> Host {
    let mut host = host();
    let is_its = |route: &Route| route.destination.1 == 0 && route.device == FIBRE;
    host.routes.retain(|route| !is_its(route));
    host
}

/// LTE may cost money, or have a budget that is used up.
#[test]
fn without_a_gateway_a_path_does_not_leave_by_the_uplink_of_another() {
    let before = without_fibre();
    let after = carried_out(&need(&[]), &before);
    let mark = block().mark();
    for (source, target, mark, device) in [
        ("192.168.1.10", "203.0.113.7", mark, None),
        ("192.168.1.10", "198.51.100.1", mark, None),
        // What is on the fibre's own link is reached.
        ("192.168.1.10", "192.168.1.1", mark, Some(FIBRE)),
        ("192.168.2.10", "203.0.113.7", mark, Some(LTE)),
        ("192.168.1.10", "203.0.113.7", 0, Some(LTE)),
    ] {
        let found = looked_up(&after, &from(source, target, mark));
        assert_eq!(found, device, "{source} {target} {mark:#x}");
    }
    // The route comes back: the refusal goes.
    let mut back = after.clone();
    back.routes
        .push(route("0.0.0.0/0", Some("192.168.1.1"), FIBRE, 100));
    let again = carried_out(&need(&[]), &back);
    let flow = from("192.168.1.10", "203.0.113.7", mark);
    assert_eq!(looked_up(&again, &flow), Some(FIBRE));
    let is_refusal = |route: &Route| route.kind == Kind::Unreachable;
    assert!(!again.routes.iter().any(is_refusal), "{again:?}");
}

#[test]
fn over_ipv6_a_path_does_not_leave_by_the_uplink_of_another_either() {
    let mut host = host();
    host.routes.push(route("2001:db8:2::/64", None, LTE, 256));
    let need = Need {
        paths: vec![
            path(0, "2001:db8:1::10", FIBRE, "2001:db8:7::7"),
            path(1, "2001:db8:2::10", LTE, "2001:db8:7::7"),
        ],
        ..need(&[])
    };
    let after = carried_out(&need, &host);
    let flow = from("2001:db8:2::10", "2001:db8:7::7", block().mark());
    assert_eq!(looked_up(&host, &flow), Some(FIBRE));
    assert_eq!(looked_up(&after, &flow), None);
}

#[test]
fn a_path_by_a_device_of_no_other_path_is_left_to_the_main_table() {
    const SECOND_FIBRE: u32 = 7;
    let mut host = without_fibre();
    let elsewhere = route("0.0.0.0/0", Some("192.168.3.1"), SECOND_FIBRE, 50);
    host.routes.push(elsewhere);
    let leaves_by = |need: &Need| {
        let flow = from("192.168.1.10", "203.0.113.7", block().mark());
        looked_up(&carried_out(need, &host), &flow)
    };
    assert_eq!(leaves_by(&need(&[])), Some(SECOND_FIBRE));
    // Equally good is as bad: the kernel takes any.
    let mut equal = without_fibre();
    let elsewhere = route("0.0.0.0/0", Some("192.168.3.1"), SECOND_FIBRE, 600);
    equal.routes.push(elsewhere);
    let flow = from("192.168.1.10", "203.0.113.7", block().mark());
    assert_eq!(looked_up(&carried_out(&need(&[]), &equal), &flow), None);
    // Answers to who calls go where they went before.
    let mut unknown = need(&[]);
    unknown.paths[0].remote = None;
    host = without_fibre();
    let flow = from("192.168.1.10", "203.0.113.7", block().mark());
    assert_eq!(looked_up(&carried_out(&unknown, &host), &flow), Some(LTE));
}

#[test]
fn to_one_host_at_the_other_end_no_gateway_is_needed() {
    let mut host = without_fibre();
    host.straight.insert(FIBRE);
    let flow = from("192.168.1.10", "203.0.113.7", block().mark());
    assert_eq!(
        looked_up(&carried_out(&need(&[]), &host), &flow),
        Some(FIBRE)
    );
}

#[test]
fn somebodys_rules_do_not_lead_a_path_astray() {
    let mut host = host();
    // A VPN for everything, by wg-quick.
    host.rules.push(Rule {
        mark: Some((51_820, u32::MAX)),
        inverted: true,
        protocol: 0,
        ..Rule::new(true, 32_765, 51_820)
    });
    host.routes.push(Route {
        table: 51_820,
        ..route("0.0.0.0/0", None, 7, 0)
    });
    let after = carried_out(&need(&[]), &host);
    let mark = block().mark();
    for (source, device) in [("192.168.1.10", FIBRE), ("192.168.2.10", LTE)] {
        let flow = from(source, "203.0.113.7", mark);
        assert_eq!(looked_up(&after, &flow), Some(device), "{source}");
    }
}

#[test]
fn a_socket_that_is_bound_to_its_device_finds_that_devices_routes() {
    let mut host = host();
    host.routes
        .retain(|route| route.destination.1 != 0 || route.device != LTE);
    host.routes.push(Route {
        table: 102,
        ..route("0.0.0.0/0", Some("192.168.2.1"), LTE, 0)
    });
    let mut need = need(&[]);
    need.paths[1].interface = Some("wwan0".to_owned());
    need.paths[1].local = ip("0.0.0.0");
    let flow = Flow {
        bound_to: Some((LTE, "wwan0")),
        ..from("0.0.0.0", "203.0.113.7", block().mark())
    };
    assert_eq!(looked_up(&host, &flow), None);
    assert_eq!(looked_up(&carried_out(&need, &host), &flow), Some(LTE));
}

#[test]
fn a_strict_device_finds_that_the_answer_leaves_by_it() {
    let mut host = host();
    host.strict = [FIBRE, LTE].into();
    let mut need = need(&["0.0.0.0/0"]);
    need.name_servers = vec![ip("9.9.9.9")];
    need.addresses = vec![(ip("192.168.1.10"), FIBRE), (ip("192.168.2.10"), LTE)];
    let after = carried_out(&need, &host);
    // As the kernel looks up what comes in: the other way round, and without a mark.
    for (local, device) in [("192.168.1.10", FIBRE), ("192.168.2.10", LTE)] {
        let answer = Flow {
            udp_port: 4754,
            ..from(local, "203.0.113.7", 0)
        };
        assert_eq!(looked_up(&after, &answer), Some(device), "{local}");
    }
    let name = from("192.168.1.10", "9.9.9.9", 0);
    assert_eq!(looked_up(&after, &name), Some(FIBRE));
    let anybodys = from("0.0.0.0", "9.9.9.9", 0);
    assert_eq!(looked_up(&after, &anybodys), Some(TUN));
}

#[test]
fn without_policy_routing_all_routes_stand_in_the_main_table() {
    let mut host = host();
    host.has_rules = [false, true];
    let need = need(&["0.0.0.0/0", "::/0"]);
    assert_eq!(main_routes(&need, &host), [prefix("0.0.0.0/0")]);
    let plan = plan(&need, &host, block());
    assert!(plan.rules.iter().all(|rule| !rule.is_ipv4));
}

#[test]
fn what_is_there_is_left_alone_and_what_is_gone_comes_back() {
    let need = need(&["0.0.0.0/0"]);
    let after = carried_out(&need, &host());
    let wanted = plan(&need, &after, block());
    assert_eq!(difference(&wanted, &after, block()), []);
    for at in 0..after.rules.len() {
        let mut less = after.clone();
        let rule = less.rules.remove(at);
        let expected = if block().owns(&rule) {
            vec![Action::AddRule(rule)]
        } else {
            continue;
        };
        assert_eq!(difference(&wanted, &less, block()), expected);
    }
}

#[test]
fn nobody_elses_rule_or_route_is_ever_removed() {
    let mut host = host();
    let foreign = Rule {
        protocol: 4,
        ..Rule::new(true, block().own_priority(), block().path_table(0))
    };
    host.rules.push(foreign);
    host.routes.push(Route {
        table: block().path_table(0),
        protocol: 4,
        ..route("0.0.0.0/0", Some("192.168.2.1"), LTE, 0)
    });
    assert_eq!(difference(&Plan::default(), &host, block()), []);
}

fn any_route() -> impl Strategy<Value = Route> {
    let destination = (any::<u32>(), 0_u8..=32).prop_map(|(bits, length)| {
        let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
        (IpAddr::from((bits & mask).to_be_bytes()), length)
    });
    let table = prop_oneof![4 => Just(MAIN), 1 => Just(102_u32)];
    (destination, FIBRE..=5_u32, 0_u32..3, table).prop_map(
        |(destination, device, metric, table)| Route {
            metric,
            protocol: 4,
            ..over(device, table, destination)
        },
    )
}

fn any_address() -> impl Strategy<Value = IpAddr> {
    any::<u32>().prop_map(|bits| IpAddr::from(bits.to_be_bytes()))
}

prop_compose! {
    fn any_host()(
        routes in prop::collection::vec(any_route(), 0..12),
        strict in prop::collection::btree_set(FIBRE..=5_u32, 0..4),
        straight in prop::collection::btree_set(FIBRE..=5_u32, 0..2),
    ) -> Host {
        Host { routes, strict, straight, ..host() }
    }
}

prop_compose! {
    fn any_need()(
        routes in prop::collection::vec(any_route(), 0..6),
        remotes in prop::collection::vec(prop::option::of(any_address()), 3),
        locals in prop::collection::vec(any_address(), 3),
        name_servers in prop::collection::vec(any_address(), 0..2),
        is_bound in any::<bool>(),
    ) -> Need {
        let paths = (0..3).map(|slot| PathNeed {
            slot,
            local: locals[slot],
            port: 4754,
            interface: (is_bound && slot == 0).then(|| "eth0".to_owned()),
            device: Some(FIBRE + slot as u32),
            remote: remotes[slot],
        });
        let mut routes: Vec<Prefix> = routes.iter().map(|route| route.destination).collect();
        routes.sort_unstable();
        routes.dedup();
        Need { tun: TUN, routes, paths: paths.collect(), name_servers, addresses: Vec::new() }
    }
}

proptest! {
    /// Whatever the host has and the tunnel wants: no packet of the tunnel's own goes into the tunnel, and
    /// each path leaves by its device where there is any way by it.
    #[test]
    fn own_packets_never_go_into_the_tunnel(host in any_host(), need in any_need()) {
        let after = carried_out(&need, &host);
        let mark = block().mark();
        for path in &need.paths {
            let Some(remote) = path.remote else { continue };
            let flow = Flow {
                source: path.local,
                target: remote,
                mark,
                bound_to: path.interface.is_some().then_some((FIBRE, "eth0")),
                udp_port: path.port,
            };
            let device = looked_up(&after, &flow);
            prop_assert_ne!(device, Some(TUN));
            if way_by(path.device.unwrap(), path.local, Some(remote), &host).is_some() {
                prop_assert_eq!(device, path.device, "{:?}", flow);
            } else {
                let is_anothers = need.paths.iter().any(|other| other.device == device);
                prop_assert!(!is_anothers, "{:?} {:?}", device, flow);
            }
        }
        for &server in &need.name_servers {
            let flow = Flow { source: ip("0.0.0.0"), ..from("0.0.0.0", &server.to_string(), mark) };
            prop_assert_ne!(looked_up(&after, &flow), Some(TUN));
        }
    }

    /// All other packets find their way as if the tunnel's routes stood in the main table, before others of
    /// the same length.
    #[test]
    fn other_packets_go_by_the_longest_prefix(
        host in any_host(),
        need in any_need(),
        targets in prop::collection::vec(any_address(), 8),
    ) {
        let after = carried_out(&need, &host);
        for target in targets {
            let flow = from("0.0.0.0", &target.to_string(), 0);
            let of_tunnel = need.routes.iter().filter(|&&route| contains(route, target));
            let longest = of_tunnel.map(|route| route.1).max();
            let of_host = host.best(MAIN, (flow.source, Some(target)), None);
            let expected = match (longest, of_host) {
                (Some(length), Some(route)) if route.destination.1 > length => Some(route.device),
                // Side by side in one table it is the metrics that decide, or the kernel refuses the second.
                (Some(length), Some(route)) if route.destination.1 == length && length > 0 => continue,
                (Some(_), _) => Some(TUN),
                (None, route) => route.map(|route| route.device),
            };
            prop_assert_eq!(looked_up(&after, &flow), expected, "{}", target);
        }
    }

    /// Once carried out there is nothing left to do, and nothing remains once all is taken away.
    #[test]
    fn what_was_made_is_taken_away_and_nothing_else(host in any_host(), need in any_need()) {
        let wanted = plan(&need, &host, block());
        let mut after = host.clone();
        for action in difference(&wanted, &host, block()) {
            act(&mut after, &action);
        }
        prop_assert_eq!(difference(&plan(&need, &after, block()), &after, block()), vec![]);
        for action in difference(&Plan::default(), &after, block()) {
            act(&mut after, &action);
        }
        prop_assert_eq!(after.rules, host.rules);
        prop_assert_eq!(after.routes, host.routes);
    }
}

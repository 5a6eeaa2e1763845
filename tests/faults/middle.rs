//! What happens between the ends: firewalls, NAT, links that swallow.

use std::time::Duration;

use net::{Fault, Files};

use super::{bench, can_run};

/// Each end says more than this of losses, and not always in the same order.
const LOSES: &str =
    "Path fibre loses … of what this host sends over it. What is lost is sent again as far";

/// Packets vanish in the middle or are refused, one way or both, on one path or all.
#[test]
fn the_middle_swallows_and_refuses() {
    let Some(_turn) = net::turn() else { return };
    if !can_run() {
        return;
    }
    let mut bench = bench(&Files::sealed());
    let both = |fault: Fault| {
        let fault = fault.client("path-down", "Path fibre is down");
        fault
            .server("path-down", "Path fibre is down")
            .stalls_at_most_ms(1500)
    };
    for (what, rules) in [
        (
            "one path swallows everything, both ways",
            &["iifname fibre drop", "oifname fibre drop"] as &[_],
        ),
        (
            "one path swallows what the client sends",
            &["iifname fibre drop"],
        ),
        (
            "one path swallows what the server sends",
            &["oifname fibre drop"],
        ),
        (
            "the server's port is filtered, toward it",
            &["udp dport 4754 ip daddr 203.0.113.7 drop"],
        ),
    ] {
        bench.run(
            &both(Fault::new(what)),
            |pair| rules.iter().for_each(|rule| pair.net.rule(rule)),
            |pair| pair.net.let_through(),
        );
    }
    bench.run(
        &Fault::new("a firewall refuses one path with ICMP")
            .client(
                "path-down",
                "Path fibre is down: a firewall on the way refuses it",
            )
            .server("path-down", "Path fibre is down")
            .stalls_at_most_ms(1500),
        |pair| {
            pair.net
                .rule("iifname fibre ip protocol udp reject with icmp admin-prohibited")
        },
        |pair| pair.net.let_through(),
    );
    bench.run(
        &Fault::new("all paths swallow everything")
            .client("no-path-up", "")
            .server("no-path-up", "")
            .lasts_ms(3000),
        |pair| pair.net.swallow("ip protocol udp"),
        |pair| pair.net.let_through(),
    );
    bench.run(
        &Fault::new("all paths swallow what the client sends")
            .client("no-path-up", "")
            .server("no-path-up", "")
            .lasts_ms(3000),
        |pair| pair.net.swallow("ip daddr 203.0.113.7"),
        |pair| pair.net.let_through(),
    );
    bench.run(
        &Fault::new("all paths swallow what the server sends")
            .client("no-path-up", "")
            .server("no-path-up", "")
            .lasts_ms(3000),
        |pair| pair.net.swallow("ip saddr 203.0.113.7"),
        |pair| pair.net.let_through(),
    );
    bench.finish("middle");
}

/// Routers forget their mappings, come up with other ports, and change them again and again.
#[test]
fn nat_forgets_and_changes() {
    let Some(_turn) = net::turn() else { return };
    if !can_run() {
        return;
    }
    let mut bench = bench(&Files::sealed());
    bench.run(
        &Fault::new("a router forgets its mappings, and makes the same again")
            .stalls_at_most_ms(1500),
        |pair| pair.net.forget_mappings(0),
        |_| {},
    );
    bench.run(
        &Fault::new("a router reboots: other ports").stalls_at_most_ms(1500),
        |pair| pair.net.new_ports(0, 20_000),
        |_| {},
    );
    bench.run(
        &Fault::new("both routers reboot at once: other ports"),
        |pair| {
            pair.net.new_ports(0, 21_000);
            pair.net.new_ports(1, 21_000);
        },
        |_| {},
    );
    bench.run(
        &Fault::new("a router gives another port four times in three seconds")
            .stalls_at_most_ms(1500),
        |pair| {
            for round in 0..4 {
                pair.net.new_ports(0, 22_000 + 1000 * round);
                std::thread::sleep(Duration::from_millis(750));
            }
        },
        |_| {},
    );
    bench.finish("nat");
}

/// Paths that get worse without dying, as far as a kernel without netem can make them.
#[test]
fn paths_lose_and_swallow() {
    let Some(_turn) = net::turn() else { return };
    if !can_run() {
        return;
    }
    let mut bench = bench(&Files::sealed());
    bench.run(
        &Fault::new("one path loses one packet in six, both ways")
            .client("path-loses", LOSES)
            .server("path-loses", LOSES),
        |pair| {
            pair.net.rule("iifname fibre numgen random mod 6 == 0 drop");
            pair.net.rule("oifname fibre numgen random mod 6 == 0 drop");
        },
        |pair| pair.net.let_through(),
    );
    bench.run(
        &Fault::new("both paths lose one packet in six, both ways")
            .client("path-loses", LOSES)
            .server("path-loses", LOSES),
        |pair| {
            pair.net
                .rule("ip protocol udp numgen random mod 6 == 0 drop")
        },
        |pair| pair.net.let_through(),
    );
    bench.finish("losses");
}

/// A router has a mapping that leads nowhere, and keeps it as long as packets come.
#[test]
fn a_mapping_leads_nowhere() {
    let Some(_turn) = net::turn() else { return };
    if !can_run() {
        return;
    }
    let mut bench = bench(&Files::sealed());
    bench.run(
        &Fault::new("a router's mapping of one path leads nowhere, for ever")
            .client("path-down", "Path fibre")
            .server("path-down", "Path fibre")
            .stalls_at_most_ms(1500)
            .back_within_ms(20_000),
        |pair| {
            for rule in [
                "iifname fibre udp sport 4754",
                "oifname fibre udp dport 4754",
            ] {
                pair.net.swallow(rule);
            }
        },
        |_| {},
    );
    bench.finish("mapping");
}

/// On all paths packets vanish that bear the client's ports: it goes on from others, while these stay dead.
#[test]
fn all_paths_are_dead_for_their_ports_and_back_from_others() {
    let Some(_turn) = net::turn() else { return };
    if !can_run() {
        return;
    }
    let bench = bench(&Files::sealed());
    let ports = || -> Vec<String> {
        let paths = bench.pair.server.status().paths.into_iter();
        paths.map(|path| path.remote.to_string()).collect()
    };
    let before = ports();
    for rule in [
        "ip daddr 203.0.113.7 udp sport 4754 drop",
        "ip saddr 203.0.113.7 udp dport 4754 drop",
    ] {
        bench.pair.net.rule(rule);
    }
    // They are down by then, and no answer is under way.
    std::thread::sleep(Duration::from_secs(2));
    assert!(!bench.calm(Duration::ZERO), "the ports are not dead");
    assert!(bench.calm(Duration::from_secs(8)), "{}", bench.told());
    println!("{before:?}, then {:?}", ports());
    bench.check();
}

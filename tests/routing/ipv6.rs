//! Paths over IPv6, where there is no IPv4 between the hosts.

use net::daemon::PATIENCE;
use net::settings::Side;
use net::uplinks::{By, SERVER, UPLINKS, Uplinked};
use net::{Daemon, Files, Namespace, Uplinks, wait_for};

use super::{BEYOND, BEYOND6, assert_reached, await_addresses, await_code, can, routing_of};

/// Both uplinks have IPv6 alone, and each provider drops what does not come from its own addresses.
#[test]
fn paths_over_ipv6_carry_everything() {
    let Some(_turn) = net::turn() else { return };
    if !can("this kernel has no policy routing") {
        return;
    }
    // Of one metric they are one route of two next hops.
    for (metrics, by) in [
        ([1024, 2048], By::Address),
        ([2048, 1024], By::Interface),
        ([1024, 1024], By::Address),
    ] {
        let net = internet_of_ipv6(metrics);
        let before = routing_of(&net.client);
        let mut tunnel = start_over_ipv6(net, by);
        tunnel.await_paths();
        for beyond in [Side::B.inner_v6(), BEYOND6, BEYOND] {
            assert_reached(&tunnel, beyond);
        }
        let what = format!("{metrics:?}, {by:?}");
        println!("{what}\n{}", routing_of(&tunnel.net.client));
        for (path, uplink) in tunnel.client.status().paths.iter().zip(UPLINKS) {
            assert_eq!(path.device.as_deref(), Some(uplink.device), "{path:?}");
            assert_eq!(path.device_wanted, None, "{path:?}");
        }
        let way = tunnel.net.client.run(&format!("ip -6 route get {SERVER6}"));
        assert!(way.contains("dev mpt0"), "{what}: {way}");

        // A router that announces itself anew, as they do every few minutes, and one with another address.
        let client = &tunnel.net.client;
        let before_that = default_over_ipv6(1, metrics[1]).replace("append", "del");
        client.run(&before_that);
        tunnel.net.routers[1].run("ip -6 addr add fe80::254/64 dev lan nodad");
        client.run("ip -6 route add default via fe80::254 dev wwan0 metric 1500");
        // A socket that is bound to a device needs no table of its own.
        if by == By::Address {
            wait_for("the new gateway", PATIENCE, || {
                let table = client.output("ip -6 route show table 475402").stdout;
                let table = String::from_utf8_lossy(&table).into_owned();
                table.contains("via fe80::254").then_some(())
            });
        }
        tunnel.await_paths();
        assert_reached(&tunnel, BEYOND6);
        client.run("ip -6 route del default via fe80::254 dev wwan0");
        client.run(&default_over_ipv6(1, metrics[1]));
        tunnel.await_paths();
        tunnel.client.terminate();
        assert_eq!(routing_of(&tunnel.net.client), before, "{what}");
    }
}

/// The network part of the addresses between client and router.
const NETWORKS6: [&str; 2] = ["2001:db8:a1", "2001:db8:a2"];
const SERVER6: &str = "2001:db8:7::7";

/// The same hosts, without IPv4 between them.
fn internet_of_ipv6(metrics: [u32; 2]) -> Uplinks {
    let net = Uplinks::new();
    for forwarding in [&net.routers[0], &net.routers[1], &net.middle] {
        forwarding.sysctl("net.ipv6.conf.all.forwarding", "1");
    }
    let give = |host: &Namespace, address: &str, device: &str| {
        host.run(&format!("ip -6 addr add {address} dev {device} nodad"));
    };
    give(&net.middle, "2001:db8:7::1/64", "server");
    give(&net.server, "2001:db8:7::7/64", "eth0");
    net.server.run("ip -6 route add default via 2001:db8:7::1");
    net.server.run("ip -4 addr flush dev eth0");
    net.server.run(&format!("ip addr add {BEYOND}/32 dev lo"));
    net.server
        .run(&format!("ip -6 addr add {BEYOND6}/128 dev lo"));
    for (number, uplink) in UPLINKS.iter().enumerate() {
        let (router, network) = (&net.routers[number], NETWORKS6[number]);
        net.remove_address(number);
        give(&net.client, &format!("{network}::10/64"), uplink.device);
        give(router, &format!("{network}::1/64"), "lan");
        give(router, "fe80::1/64", "lan");
        give(router, &format!("2001:db8:b{number}::2/64"), "wan");
        let middle = format!("2001:db8:b{number}::1");
        give(&net.middle, &format!("{middle}/64"), uplink.path);
        router.run(&format!("ip -6 route add default via {middle}"));
        net.middle.run(&format!(
            "ip -6 route add {network}::/64 via 2001:db8:b{number}::2"
        ));
        router.run("nft add table ip6 source");
        router
            .run("nft add chain ip6 source forward { type filter hook forward priority filter ; }");
        router.run(&format!(
            "nft add rule ip6 source forward iifname lan ip6 saddr != {network}::/64 drop"
        ));
        net.client.run(&default_over_ipv6(number, metrics[number]));
    }
    await_addresses(&net.client);
    net
}

fn default_over_ipv6(number: usize, metric: u32) -> String {
    let device = UPLINKS[number].device;
    format!("ip -6 route append default via fe80::1 dev {device} metric {metric}")
}

/// A tunnel that carries everything, over IPv6.
fn start_over_ipv6(net: Uplinks, by: By) -> Uplinked {
    let files = Files::sealed()
        .by(by)
        .tunnel(Side::A, "routes = [\"0.0.0.0/0\", \"::/0\"]");
    let over_ipv6 = |text: String| {
        let text = text.replace(&format!("{SERVER}:"), &format!("[{SERVER6}]:"));
        let text = text.replace("192.168.1.10", &format!("{}::10", NETWORKS6[0]));
        text.replace("192.168.2.10", &format!("{}::10", NETWORKS6[1]))
    };
    let start = |host: &Namespace, side: Side| {
        Daemon::start(host, "mpt0", |socket| over_ipv6(files.toml(side, socket)))
    };
    Uplinked {
        server: start(&net.server, Side::B),
        client: start(&net.client, Side::A),
        net,
    }
}

/// A path by `local` whose uplink lost its route: one that refuses takes its place, and gives it back.
#[test]
fn over_ipv6_a_path_without_a_route_does_not_leave_by_another_uplink() {
    let Some(_turn) = net::turn() else { return };
    if !can("this kernel has no policy routing") {
        return;
    }
    let net = internet_of_ipv6([1024, 2048]);
    let before = routing_of(&net.client);
    let mut tunnel = start_over_ipv6(net, By::Address);
    tunnel.await_paths();
    let client = &tunnel.net.client;
    let table = || client.run("ip -6 route show table 475402");
    for _ in 0..2 {
        let lte = default_over_ipv6(1, 2048);
        client.run(&lte.replace("append", "del"));
        await_code(&tunnel.client, "no-route");
        assert_eq!(tunnel.client.status().paths[1].device, None);
        assert!(table().contains("unreachable default"), "{}", table());
        client.run(&lte);
        tunnel.await_paths();
        let table = table();
        assert!(!table.contains("unreachable"), "{table}");
    }
    let log = tunnel.client.log();
    assert!(!log.contains("had been removed"), "{log}");
    tunnel.client.terminate();
    assert_eq!(routing_of(&tunnel.net.client), before);
}

//! Rules and routes of the tunnel's own: somebody takes them away, or nobody may make them.

use std::collections::BTreeSet;
use std::time::Duration;

use net::names::{self, NameServer};
use net::settings::Side;
use net::uplinks::By;
use net::{Bench, Fault, Files, Namespace, Uplinks, wait_for};

use super::settings::start_with;
use super::uplinks::gateway_is_gone;
use super::{bench, can_run};

/// Within this a rule that somebody deleted is there again, on a busy machine.
const SOON: Duration = Duration::from_secs(3);

/// Everything goes through the tunnel, whose peer has a name that only the uplinks can ask for.
#[test]
fn routing_of_the_tunnels_own_is_put_back() {
    let Some(_turn) = net::turn() else { return };
    if !can_route() {
        return;
    }
    let files = Files::sealed()
        .by(By::Address)
        .remote(names::NAME)
        .tunnel(Side::A, "routes = [\"0.0.0.0/0\"]");
    let net = Uplinks::new();
    let server = NameServer::start(&net.middle, [203, 0, 113, 7]);
    server.knows(true);
    let mut bench = Bench::new(net.tunnel(&files));
    for (what, lines) in [
        ("the tunnel's rules are deleted", &rule_deletions as Lines),
        (
            "the tunnel's routes are deleted, in all tables",
            &|_: &Namespace| vec!["ip route flush table all proto 47".to_owned()],
        ),
    ] {
        let whole = routing_of(&bench.pair.net.client);
        bench.run(
            &Fault::new(what)
                .unknown_to(Side::B)
                .stalls_at_most_ms(1500)
                .back_within_ms(2500),
            |pair| {
                for line in lines(&pair.net.client) {
                    // What is made again meanwhile may be deleted twice.
                    let _ = pair.net.client.output(&line);
                }
            },
            |pair| {
                wait_for("rules and routes as they were", SOON, || {
                    (routing_of(&pair.net.client) == whole).then_some(())
                });
            },
        );
    }
    bench.run(
        &Fault::new(
            "`routes = [\"0.0.0.0/0\"]`, a name as `remote`, and the client is started again",
        )
        .back_within_ms(5000),
        |pair| pair.client.restart(&pair.net.client),
        |_| {},
    );
    bench.run(
        &Fault::new("the same while the better uplink is unplugged")
            .client("path-waiting", "192.168.1.10")
            .server("path-down", "Path fibre")
            .back_within_ms(5000),
        |pair| {
            pair.net.unplug(0);
            pair.client.restart(&pair.net.client);
        },
        |pair| pair.net.plug(0),
    );
    bench.finish("routing");
}

/// With `routing = "off"` and no rule of the operator's, the second path leaves by the first one's uplink. With rules
/// it does not, also where its own uplink has no route any more. And a gateway is gone: of that the kernel tells a
/// socket that is bound to no device, and of others it is asked.
#[test]
fn paths_without_an_interface() {
    let Some(_turn) = net::turn() else { return };
    if !can_route() {
        return;
    }
    let mut bench = bench(&Files::sealed().by(By::Address));
    let before = std::fs::read_to_string(bench.pair.client.config()).unwrap();
    let after = before.replace("[tunnel]\n", "[tunnel]\nrouting = \"off\"\n");
    bench.run(
        &Fault::new("`routing = \"off\"`, no rules, and both paths leave by one uplink")
            .client("wrong-device", "leaves by eth0 and not by wwan0")
            .by_hand("`routing = \"auto\"`, or the command that status prints"),
        |pair| start_with(pair, Side::A, &after),
        |pair| start_with(pair, Side::A, &before),
    );
    bench.run(
        &Fault::new("an uplink's default route is gone, paths by `local`")
            .client("no-route", "eth0")
            .server("path-down", "Path fibre")
            .stalls_at_most_ms(1500)
            .back_within_ms(4000),
        |pair| pair.net.remove_default_route(0),
        |pair| pair.net.add_default_route(0),
    );
    gateway_is_gone(
        &mut bench,
        "the same gateway is gone for paths that name no interface",
    );
    bench.finish("device");
}

/// What is to be run in a host.
type Lines = &'static dyn Fn(&Namespace) -> Vec<String>;

/// A command for each rule that a kernel does not have by itself.
fn rule_deletions(host: &Namespace) -> Vec<String> {
    let places = rules(host);
    let places = places
        .iter()
        .filter_map(|line| line.split(':').next()?.parse::<u32>().ok());
    let own = places.filter(|place| (1..32_766).contains(place));
    own.map(|place| format!("ip rule del pref {place}"))
        .collect()
}

fn rules(host: &Namespace) -> BTreeSet<String> {
    let text = host.output("ip rule show").stdout;
    let text = String::from_utf8_lossy(&text);
    text.lines().map(str::to_owned).collect()
}

/// Rules and routes of IPv4, in no order.
fn routing_of(host: &Namespace) -> [BTreeSet<String>; 2] {
    let text = host.output("ip route show table all").stdout;
    let text = String::from_utf8_lossy(&text);
    let routes = text
        .lines()
        .filter(|line| !line.starts_with("local") && !line.contains("dev lo"));
    [rules(host), routes.map(str::to_owned).collect()]
}

fn can_route() -> bool {
    let can = can_run() && {
        let host = Namespace::new("rules");
        host.output("ip rule show").status.success()
    };
    if !can {
        net::skip("this kernel has no policy routing");
    }
    can
}

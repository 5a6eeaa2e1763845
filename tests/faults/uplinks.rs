//! Uplinks that come and go: devices, addresses, routes.

use net::{Bench, Fault, Files};

use super::{bench, can_run};

/// The fibre and the LTE uplink break in every way in which a modem, a cable or a lease can.
#[test]
fn uplinks_come_and_go() {
    let Some(_turn) = net::turn() else { return };
    if !can_run() {
        return;
    }
    let mut bench = bench(&Files::sealed());
    bench.run(
        &Fault::new("a modem is unplugged and plugged in again (new index)")
            .client("path-waiting", "eth0")
            .server("path-down", "Path fibre is down")
            .lasts_ms(2500)
            .stalls_at_most_ms(1500)
            .back_within_ms(2500),
        |pair| pair.net.unplug(0),
        |pair| pair.net.plug(0),
    );
    bench.run(
        &Fault::new("both modems are unplugged, one after the other comes back")
            .client("path-waiting", "eth0")
            .server("no-path-up", "")
            .lasts_ms(2500)
            .back_within_ms(2500),
        |pair| {
            pair.net.unplug(0);
            pair.net.unplug(1);
        },
        |pair| {
            pair.net.plug(1);
            pair.net.plug(0);
        },
    );
    bench.run(
        &Fault::new("a device is missing when the client starts")
            .client("path-waiting", "wwan0")
            .server("path-down", "Path lte")
            .back_within_ms(2500),
        |pair| {
            pair.net.unplug(1);
            pair.client.restart(&pair.net.client);
        },
        |pair| pair.net.plug(1),
    );
    bench.run(
        &Fault::new("an address is missing when the client starts")
            .client("path-waiting", "wwan0")
            .server("path-down", "Path lte")
            .back_within_ms(2500),
        |pair| {
            pair.net.remove_address(1);
            pair.client.restart(&pair.net.client);
        },
        |pair| pair.net.return_address(1),
    );
    bench.run(
        &Fault::new("`ip link set eth0 down`, and up")
            .client("path-down", "interface")
            .server("path-down", "Path fibre")
            .stalls_at_most_ms(1500)
            .back_within_ms(4000),
        |pair| {
            pair.net.client.run("ip link set eth0 down");
        },
        |pair| {
            pair.net.client.run("ip link set eth0 up");
            pair.net.add_default_route(0);
        },
    );
    bench.run(
        &Fault::new("the cable is pulled: no carrier")
            .client("path-down", "interface")
            .server("path-down", "Path fibre")
            .stalls_at_most_ms(1500)
            .back_within_ms(4000),
        |pair| {
            pair.net.routers[0].run("ip link set lan down");
        },
        |pair| {
            pair.net.routers[0].run("ip link set lan up");
        },
    );
    bench.run(
        &Fault::new("an address is taken away and comes back")
            .client("path-waiting", "address")
            .server("path-down", "Path fibre")
            .stalls_at_most_ms(1500)
            .back_within_ms(2500),
        |pair| pair.net.remove_address(0),
        |pair| pair.net.return_address(0),
    );
    bench.run(
        &Fault::new("DHCP gives another address")
            .stalls_at_most_ms(1500)
            .back_within_ms(2500),
        |pair| {
            pair.net.remove_address(0);
            pair.net.add_address(0, 77);
        },
        |_| {},
    );
    bench.run(
        &Fault::new("DHCP gives other addresses on both uplinks at once").back_within_ms(2500),
        |pair| {
            for uplink in [0, 1] {
                pair.net.remove_address(uplink);
                pair.net.add_address(uplink, 88);
            }
        },
        |_| {},
    );
    bench.run(
        &Fault::new("an uplink's default route is gone")
            .client("no-route", "eth0")
            .server("path-down", "Path fibre")
            .stalls_at_most_ms(1500)
            .back_within_ms(4000),
        |pair| pair.net.remove_default_route(0),
        |pair| pair.net.add_default_route(0),
    );
    gateway_is_gone(&mut bench, "a gateway is gone, its cable still in");
    bench.finish("uplinks");
}

/// Nobody answers on an uplink's link any more.
pub(super) fn gateway_is_gone(bench: &mut Bench, what: &str) {
    bench.run(
        &Fault::new(what)
            .client("path-down", "nobody answers on its link")
            .server("path-down", "Path fibre")
            .stalls_at_most_ms(1500)
            .back_within_ms(6000),
        |pair| {
            pair.net.routers[0].run("ip addr flush dev lan");
            pair.net.client.run("ip neigh flush dev eth0");
        },
        |pair| {
            pair.net.routers[0].run("ip addr add 192.168.1.1/24 dev lan");
        },
    );
}

//! Somebody takes the tunnel's own interface, addresses and routes away.

use net::settings::Side;
use net::{Fault, Files};

use super::{bench, can_run};

/// What is wanted and not there any more is made again, and nobody says that all is well meanwhile.
#[test]
fn what_is_ours_is_put_back() {
    let Some(_turn) = net::turn() else { return };
    if !can_run() {
        return;
    }
    let files = Files::sealed().tunnel(Side::A, "routes = [\"10.50.0.0/16\"]");
    let mut bench = bench(&files);
    for (what, line) in [
        ("`ip link set mpt0 down`", "ip link set mpt0 down"),
        ("`ip addr flush dev mpt0`", "ip addr flush dev mpt0"),
        (
            "a route of the tunnel is deleted",
            "ip route del 10.50.0.0/16",
        ),
        ("`ip link set mpt0 mtu 9000`", "ip link set mpt0 mtu 9000"),
        ("`ip link del mpt0`", "ip link del mpt0"),
    ] {
        bench.run(
            &Fault::new(what)
                .unknown_to(Side::B)
                .stalls_at_most_ms(1500)
                .back_within_ms(2500),
            |pair| {
                pair.net.client.run(line);
            },
            |pair| {
                net::wait_for(
                    "the interface as it was",
                    std::time::Duration::from_secs(3),
                    || is_whole(&pair.net.client).then_some(()),
                );
            },
        );
    }
    bench.finish("tunnel");
}

/// The interface is up, with both addresses, its MTU, and the route.
fn is_whole(host: &net::Namespace) -> bool {
    let text = |line: &str| String::from_utf8_lossy(&host.output(line).stdout).into_owned();
    let link = text("ip addr show dev mpt0");
    let addresses = [Side::A.inner_v4(), Side::A.inner_v6()];
    let routes = text("ip route show dev mpt0");
    link.contains(",UP,")
        && !link.contains("mtu 9000")
        && addresses.iter().all(|address| link.contains(address))
        && routes.contains("10.50.0.0/16")
}

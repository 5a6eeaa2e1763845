//! Port forwards that are made when both ends have called for long.
//!
//! Minutes pass until routers forget their mappings, so these run with `MPT_TEST_FORWARD=1` only.

use net::settings::Side;
use net::{Bench, Fault, Files, Uplinked, Uplinks};

use super::{can_run, network};

/// Of a plain tunnel both ends' routers have mappings that lead nowhere, and keep them as long as packets come;
/// of a sealed one the server's router has, and the client's packets keep it.
#[test]
fn a_port_forward_that_comes_later_mends_a_path() {
    let Some(_turn) = net::turn() else { return };
    if std::env::var_os("MPT_TEST_FORWARD").is_none() || !can_run() {
        println!("takes minutes: MPT_TEST_FORWARD=1 ./test port_forward");
        return;
    }
    let files = Files::plain();
    let mut plain = Bench::new(network(&files).tunnel(&files));
    plain.run(
        &Fault::new("plain: the routers forward no ports when both start, and then do")
            .client("no-path-up", "")
            .server("no-path-up", "")
            .lasts_ms(20_000)
            .back_within_ms(300_000),
        start_without_forwards,
        |pair| {
            for number in [0, 1] {
                pair.net.forward_port(number, 4754);
            }
        },
    );
    // The middle is the server's router, too, and has its address.
    let net = Uplinks::new();
    net.middle.run("nft add table ip home");
    net.middle
        .run("nft add chain ip home in { type nat hook prerouting priority dstnat ; }");
    forward(&net, "{ 4754, 4755 }");
    let mut sealed = Bench::new(net.tunnel(&Files::sealed().remote("203.0.113.1")));
    sealed.run(
        &Fault::new("sealed: the server's router forwards one path's port no more, and then does")
            .client("path-down", "the port is not forwarded")
            .server("path-down", "Path fibre")
            .stalls_at_most_ms(1500)
            .lasts_ms(5000)
            .back_within_ms(30_000),
        |pair| forget_forwards(pair, "4755"),
        |pair| forward(&pair.net, "4754"),
    );
    sealed.run(
        &Fault::new("sealed: the server's router forwards no port when both start, and then does")
            .client("no-path-up", "")
            .server("no-path-up", "")
            .lasts_ms(5000)
            .back_within_ms(90_000),
        |pair| {
            forget_forwards(pair, "1");
            for side in [Side::A, Side::B] {
                let (daemon, host) = match side {
                    Side::A => (&mut pair.client, &pair.net.client),
                    Side::B => (&mut pair.server, &pair.net.server),
                };
                daemon.restart(host);
            }
        },
        |pair| forward(&pair.net, "{ 4754, 4755 }"),
    );
    sealed.join(Some(plain)).finish("forward");
}

fn forward(net: &Uplinks, ports: &str) {
    net.middle.run(&format!(
        "nft add rule ip home in ip daddr 203.0.113.1 udp dport {ports} dnat to 203.0.113.7"
    ));
}

/// The server's router forwards these ports alone, and knows of no mapping.
fn forget_forwards(pair: &Uplinked, ports: &str) {
    let middle = &pair.net.middle;
    middle.run("nft flush chain ip home in");
    forward(&pair.net, ports);
    middle.run("conntrack -F");
}

/// Both begin anew, and the server speaks first: the routers take what it sends for their own.
fn start_without_forwards(pair: &mut Uplinked) {
    pair.client.terminate();
    pair.server.terminate();
    for number in [0, 1] {
        pair.net.routers[number].run("nft flush chain ip nat in");
        pair.net.forget_mappings(number);
    }
    pair.server.start_again(&pair.net.server);
    std::thread::sleep(std::time::Duration::from_secs(1));
    pair.client.start_again(&pair.net.client);
}

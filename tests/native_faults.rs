//! What a tunnel over two NAT routers does when something breaks, and what it says of it: docs/faults.md.
//!
//! `MPT_TEST_FAULTS_WRITE=1 INSTA_UPDATE=always ./test native_faults lab_faults` writes the rows of that page anew,
//! and the snapshots.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use net::settings::Side;
use net::traffic::ping;
use net::uplinks::{By, has_nat};
use net::{Bench, Files, Uplinks};

#[path = "faults/ends.rs"]
mod ends;
#[path = "faults/forward.rs"]
mod forward;
#[path = "faults/host.rs"]
mod host;
#[path = "faults/middle.rs"]
mod middle;
#[path = "faults/routing.rs"]
mod routing;
#[path = "faults/sequences.rs"]
mod sequences;
#[path = "faults/settings.rs"]
mod settings;
#[path = "faults/shared.rs"]
mod shared;
#[path = "faults/starts.rs"]
mod starts;
#[path = "faults/tunnel.rs"]
mod tunnel;
#[path = "faults/uplinks.rs"]
mod uplinks;

/// A sealed tunnel and a plain one come up through two NAT routers, and carry packets.
#[test]
fn a_tunnel_comes_up_through_two_nat_routers() {
    let Some(_turn) = net::turn() else { return };
    if !has_nat() {
        return net::skip("this kernel has no NAT by nftables");
    }
    for files in [
        Files::sealed(),
        Files::sealed().by(By::AddressAndInterface),
        Files::plain(),
    ] {
        let tunnel = network(&files).tunnel(&files);
        let seen = ping(&tunnel.net.client, Side::B.inner_v4(), 10, 20, "");
        assert_eq!(seen.received, 10, "{files:?}");
        let remotes: Vec<String> = (tunnel.server.status().paths.iter())
            .map(|path| path.remote.clone())
            .collect();
        println!("the server sees {}", remotes.join(" and "));
    }
}

/// The hosts; with ports forwarded where the tunnel is plain.
fn network(files: &Files) -> Uplinks {
    let net = Uplinks::new();
    if !files.is_sealed() {
        net.forward_port(0, 4754);
        net.forward_port(1, 4754);
    }
    net
}

/// A pair that runs, with pings through it.
fn bench(files: &Files) -> Bench {
    Bench::new(network(files).tunnel(files))
}

/// Whether tests over routers can run here.
fn can_run() -> bool {
    let can = has_nat();
    if !can {
        net::skip("this kernel has no NAT by nftables");
    }
    can
}

//! Two ends that do not agree, files with mistakes, names that are not found.

use net::names::{self, NameServer};
use net::settings::{self, Side};
use net::{Bench, Daemon, Fault, Files, Namespace, Uplinked, Uplinks};

use super::{bench, can_run};

/// Keys that do not fit, at one end or the other.
#[test]
fn keys_do_not_fit() {
    let Some(_turn) = net::turn() else { return };
    if !can_run() {
        return;
    }
    let mut bench = bench(&Files::sealed());
    let wrong = "handshake-wrong-key";
    for (side, fault) in [
        (
            Side::A,
            Fault::new("the client has another private key")
                .client(wrong, "for another public key")
                .server(wrong, settings::stranger()),
        ),
        (
            Side::B,
            Fault::new("the server has another private key")
                .client("handshake-unanswered", "mpt-ctl pubkey")
                .server(wrong, settings::stranger()),
        ),
    ] {
        bench.run(
            &fault.by_hand("the key that the other end knows"),
            |pair| {
                let (daemon, host) = end(pair, side);
                settings::take_key(daemon);
                daemon.restart(host);
            },
            |pair| {
                let (daemon, host) = end(pair, side);
                settings::return_key(daemon, side);
                daemon.restart(host);
            },
        );
    }
    for (side, fault) in [
        (
            Side::A,
            Fault::new("the client has another public key of the server")
                .client(wrong, settings::public_key(Side::B))
                .server(wrong, settings::public_key(Side::B)),
        ),
        (
            Side::B,
            Fault::new("the server has another public key of the client")
                .client("handshake-unanswered", "mpt-ctl pubkey")
                .server(wrong, settings::public_key(Side::A)),
        ),
    ] {
        let peer = settings::public_key(if side == Side::A { Side::B } else { Side::A });
        let fault = fault.by_hand("the key that `mpt-ctl pubkey` shows at the other end");
        disagree(&mut bench, &fault, side, |text| {
            text.replace(peer, settings::stranger())
        });
    }
    let psk = bench.pair.client.config().with_file_name("psk");
    std::fs::write(&psk, settings::stranger()).unwrap();
    disagree(
        &mut bench,
        &Fault::new("the client has a preshared key, the server none")
            .client("handshake-wrong-psk", "psk_file")
            .server("handshake-wrong-psk", "psk_file")
            .by_hand("the same preshared key at both ends"),
        Side::A,
        |text| {
            let line = format!("peer_public_key = \"{}\"", settings::public_key(Side::B));
            text.replace(&line, &format!("{line}\npsk_file = \"{}\"", psk.display()))
        },
    );
    bench.finish("keys");
}

/// One end seals and the other does not; or both are plain, with keys of GRE that do not fit.
#[test]
fn one_end_is_plain() {
    let Some(_turn) = net::turn() else { return };
    if !can_run() {
        return;
    }
    let mut bench = bench(&Files::plain());
    let sealed = Files::sealed();
    for (side, fault) in [
        (
            Side::A,
            Fault::new("the client seals, the server does not")
                .client("peer-not-sealed", "[crypto]")
                .server("peer-is-sealed", "[crypto]"),
        ),
        (
            Side::B,
            Fault::new("the server seals, the client does not")
                .client("no-path-up", "")
                .server("peer-not-sealed", "[crypto]"),
        ),
    ] {
        let (daemon, _) = end(&mut bench.pair, side);
        let socket = daemon.socket().display().to_string();
        let fault = fault.by_hand("keys at both ends, or at none");
        disagree(&mut bench, &fault, side, |_| sealed.toml(side, &socket));
    }
    disagree(
        &mut bench,
        &Fault::new("plain, and the client has another GRE key")
            .client("wrong-key", "key")
            .server("wrong-key", "key")
            .by_hand("the same `key` at both ends"),
        Side::A,
        |text| text.replace("[tunnel]\n", "[tunnel]\nkey = 7\n"),
    );
    bench.finish("plain");
}

/// Files with mistakes, and paths that cannot open: what runs goes on.
#[test]
fn files_have_mistakes() {
    let Some(_turn) = net::turn() else { return };
    if !can_run() {
        return;
    }
    let mut bench = bench(&Files::sealed());
    let before = std::fs::read_to_string(bench.pair.client.config()).unwrap();
    bench.run(
        &Fault::new("a reload with a mistake in the file")
            .lasts_ms(500)
            .stalls_at_most_ms(500),
        |pair| {
            std::fs::write(
                pair.client.config(),
                before.replace("name = \"lte\"", "nmae = \"lte\""),
            )
            .unwrap();
            let refused = pair.client.ctl_output(&["reload"]);
            let words = String::from_utf8_lossy(&refused.stderr).into_owned();
            assert!(
                !refused.status.success() && words.contains("nmae"),
                "{words}"
            );
        },
        |pair| std::fs::write(pair.client.config(), &before).unwrap(),
    );
    let third =
        "\n[[paths]]\nname = \"dsl\"\ninterface = \"ppp0\"\nremote = \"203.0.113.7:4756\"\n";
    bench.run(
        &Fault::new("a reload with a path whose device is not there")
            .client("path-waiting", "ppp0")
            .stalls_at_most_ms(500),
        |pair| {
            std::fs::write(pair.client.config(), format!("{before}{third}")).unwrap();
            let _ = pair.client.ctl_output(&["reload"]);
        },
        |pair| {
            std::fs::write(pair.client.config(), &before).unwrap();
            let _ = pair.client.ctl_output(&["reload"]);
        },
    );
    bench.finish("files");
}

/// The server's name is not known at the start, and then it is.
#[test]
fn a_name_is_not_found() {
    let Some(_turn) = net::turn() else { return };
    if !can_run() {
        return;
    }
    let files = Files::sealed().remote(names::NAME);
    let net = Uplinks::new();
    let server = NameServer::start(&net.middle, [203, 0, 113, 7]);
    server.knows(true);
    let mut bench = Bench::new(net.tunnel(&files));
    bench.run(
        &Fault::new("the server's name is not found when both start")
            .client("path-waiting", "office.example.net is not found")
            .server("path-probing", "has not called")
            .lasts_ms(2500)
            .back_within_ms(12_000),
        |pair| {
            server.knows(false);
            // A server that runs on would call the client where it was.
            pair.server.restart(&pair.net.server);
            pair.client.restart(&pair.net.client);
        },
        |_| server.knows(true),
    );
    bench.finish("names");
}

/// Runs one end with a changed file until both have said what is wrong with it, then with its own again.
fn disagree(bench: &mut Bench, fault: &Fault, side: Side, change: impl FnOnce(String) -> String) {
    let (daemon, _) = end(&mut bench.pair, side);
    let before = std::fs::read_to_string(daemon.config()).unwrap();
    let after = change(before.clone());
    assert_ne!(before, after);
    bench.run(
        &fault.clone().lasts_ms(2500),
        |pair| start_with(pair, side, &after),
        |pair| start_with(pair, side, &before),
    );
}

pub(super) fn start_with(pair: &mut Uplinked, side: Side, text: &str) {
    let (daemon, host) = end(pair, side);
    std::fs::write(daemon.config(), text).unwrap();
    daemon.restart(host);
}

fn end(pair: &mut Uplinked, side: Side) -> (&mut Daemon, &Namespace) {
    match side {
        Side::A => (&mut pair.client, &pair.net.client),
        Side::B => (&mut pair.server, &pair.net.server),
    }
}

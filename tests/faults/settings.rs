//! Two ends that do not agree, files with mistakes, names that are not found.

use net::settings::Side;
use net::{Bench, Daemon, Fault, Files, Namespace, Uplinked};

use super::{bench, can_run};

/// Plain ends with keys of GRE that do not fit.
#[test]
fn gre_keys_do_not_fit() {
    let Some(_turn) = net::turn() else { return };
    if !can_run() {
        return;
    }
    let mut bench = bench(&Files::plain());
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

fn start_with(pair: &mut Uplinked, side: Side, text: &str) {
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

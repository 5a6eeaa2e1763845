//! Two paths of the client that come to one port of the server.

use net::names::{self, NameServer};
use net::settings::Side;
use net::{Bench, Fault, Files, Uplinked, process};

use super::settings::start_with;
use super::{can_run, network};

const OWN_PORTS: &str = "a port of its own at the peer for each path";

/// Refused where the file shows it and no peer could tell them apart; else both ends say so.
#[test]
fn two_paths_come_to_one_port() {
    let Some(_turn) = net::turn() else { return };
    if !can_run() {
        return;
    }
    let mut section = None;
    for files in [Files::sealed(), Files::plain()] {
        let net = network(&files);
        let names = NameServer::start(&net.middle, [203, 0, 113, 7]);
        names.knows(true);
        let mut bench = Bench::new(net.tunnel(&files));
        let own = std::fs::read_to_string(bench.pair.client.config()).unwrap();
        let shared = own.replace("203.0.113.7:4755", "203.0.113.7:4754");
        // Under its name the file does not show that it is one.
        let by_name = shared.replacen("203.0.113.7:4754", &format!("{}:4754", names::NAME), 1);
        let what = match files.is_sealed() {
            true => "both paths of the client have one `remote`, of a server that is no hub",
            false => "the same, where one `remote` is a name and the other its address, plain",
        };
        if !files.is_sealed() {
            let refused = refusal(&bench.pair, &shared);
            bench.note(
                "both paths of the client have one `remote`, plain",
                &format!("no: {OWN_PORTS}"),
                [refused, "–".to_owned()],
            );
        }
        bench.run(
            &Fault::new(what)
                .client(
                    "shared-remote",
                    "Paths fibre and lte both lead to 203.0.113.7:4754",
                )
                .server("shared-remote", "Packets of two of the peer's paths")
                .by_hand(OWN_PORTS)
                .lasts_ms(2500),
            |pair| start_with(pair, Side::A, &by_name),
            |pair| start_with(pair, Side::A, &own),
        );
        if files.is_sealed() {
            redirect(&mut bench);
        }
        section = Some(bench.join(section));
    }
    section.unwrap().finish("shared");
}

/// Something on the way leads the second path to the first one's port.
fn redirect(bench: &mut Bench) {
    bench.run(
        &Fault::new("a redirection on the way leads both to one port of the server")
            .client("path-down", "Path lte")
            .server("shared-remote", "Packets of two of the peer's paths")
            .stalls_at_most_ms(1500)
            .lasts_ms(3000)
            .back_within_ms(20_000),
        |pair| {
            let middle = &pair.net.middle;
            middle.run("nft add table ip twist");
            middle.run("nft add chain ip twist in { type nat hook prerouting priority dstnat ; }");
            middle.run(
                "nft add rule ip twist in iifname lte udp dport 4755 dnat to 203.0.113.7:4754",
            );
            // The next packet makes the mapping, and it is to be one of the client's.
            pair.net.swallow("oifname lte");
            middle.run("conntrack -F");
            std::thread::sleep(std::time::Duration::from_millis(700));
            pair.net.let_through();
        },
        |pair| {
            pair.net.middle.run("nft delete table ip twist");
            pair.net.middle.run("conntrack -F");
        },
    );
}

/// What `mpt-tund --check` says of a file, without where that lies.
fn refusal(pair: &Uplinked, text: &str) -> String {
    let file = pair.client.config().with_file_name("shared.toml");
    std::fs::write(&file, text).unwrap();
    let mut check = std::process::Command::new(process::program("mpt-tund"));
    let output = process::output(check.arg("--check").arg("--config").arg(&file));
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let sentence = said.find("paths \"").map(|place| &said[place..]);
    let sentence = sentence.unwrap_or_else(|| panic!("{said}"));
    format!("`--check`: {}", sentence.lines().next().unwrap_or_default())
}

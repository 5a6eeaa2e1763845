//! What an operator sees of a daemon over time: its log, at a level that changes while it runs, and its last 24 hours.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use std::time::Duration;

use net::daemon::PATIENCE;
use net::settings::Side;
use net::traffic::ping;
use net::{Daemon, Hosts, Link, Settings, Shape, wait_for};
use serde_json::{Value, json};

fn two_links() -> Hosts {
    Hosts::new(&[Shape::unshaped(), Shape::unshaped()])
}

/// Nobody listens at the other end, so that each probe comes back as an ICMP error, which is said at debug.
#[test]
fn debug_lines_come_and_go_with_the_level() {
    let Some(_turn) = net::turn() else { return };
    let hosts = two_links();
    let links: Vec<&Link> = hosts.links.iter().collect();
    let settings = Settings::new();
    let daemon = Daemon::start(&hosts.a, "mpt0", |socket| {
        settings.toml(Side::A, "mpt0", &links, socket)
    });
    let decisions = || daemon.log().matches(", says Some(").count();
    let quiet = Duration::from_secs(1);
    std::thread::sleep(quiet);
    assert_eq!(decisions(), 0, "{}", daemon.log());
    assert_eq!(daemon.ctl(&["log"]), json!({"level": "info"}));

    let set = daemon.ctl(&["log", "debug"]);
    assert_eq!(set, json!({"level": "debug", "was": "info"}));
    wait_for("debug lines", PATIENCE, || (decisions() > 2).then_some(()));

    let text = daemon.ctl_text(&["log", "warn"]);
    assert_eq!(text, "The log level is warn now; it was debug.\n");
    // What is being written at that moment.
    std::thread::sleep(quiet / 10);
    let before = decisions();
    std::thread::sleep(quiet);
    assert_eq!(decisions(), before, "{}", daemon.log());
    let log = daemon.log();
    for said in ["was info, it is debug", "was debug, it is warn"] {
        assert!(log.contains(said), "{log}");
    }

    let refused = daemon.ctl_output(&["log", "loud"]);
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(words.contains("error, warn, info, debug, trace"), "{words}");
}

fn path<'a>(history: &'a Value, name: &str) -> &'a Value {
    let mut paths = history["paths"].as_array().unwrap().iter();
    paths.find(|path| path["name"] == name).unwrap()
}

fn sum(path: &Value, field: &str) -> u64 {
    let minutes = path["minutes"].as_array().unwrap().iter();
    minutes.map(|minute| minute[field].as_u64().unwrap()).sum()
}

/// Traffic is there a second later, also of a path that a reload takes away and brings back.
#[test]
fn the_last_minutes_are_remembered_over_a_reload() {
    let Some(_turn) = net::turn() else { return };
    let tunnel = two_links().tunnel(&Settings::new());
    let sent = ping(&tunnel.hosts.a, Side::B.inner_v4(), 40, 50, "-s 1000");
    assert_eq!(sent.received, 40);
    let names: Vec<String> = tunnel
        .a
        .status()
        .paths
        .into_iter()
        .map(|path| path.name)
        .collect();
    wait_for("a history", PATIENCE, || {
        let whole = &tunnel.a.ctl(&["history"])["whole"];
        (sum(whole, "tx_bytes") >= 20 * 1000).then_some(())
    });
    let history = tunnel.a.ctl(&["history"]);
    for name in &names {
        let path = path(&history, name);
        assert!(sum(path, "up_ms") > 0 && path["present"] == true, "{path}");
        let last = path["minutes"].as_array().unwrap().last().unwrap();
        assert!(
            last["rtt_us"].as_u64().is_some_and(|us| us < 1_000_000),
            "{last}"
        );
        assert!(
            last["tx_max_bps"].as_u64() >= last["tx_bps"].as_u64(),
            "{last}"
        );
    }
    let svg = tunnel.a.ctl_text(&["history", "--svg"]);
    assert!(svg.starts_with("<svg") && svg.contains(&names[1]), "{svg}");

    let file = tunnel.a.config();
    let both = std::fs::read_to_string(&file).unwrap();
    let second = both.rfind("[[paths]]").unwrap();
    std::fs::write(&file, &both[..second]).unwrap();
    tunnel.a.ctl(&["reload"]);
    let gone = wait_for("one path", PATIENCE, || {
        let history = tunnel.a.ctl(&["history", &names[1]]);
        let path = path(&history, &names[1]).clone();
        (path["present"] == false).then_some(path)
    });
    std::fs::write(&file, &both).unwrap();
    tunnel.a.ctl(&["reload"]);
    wait_for("both paths", PATIENCE, || {
        let history = tunnel.a.ctl(&["history", &names[1]]);
        let path = path(&history, &names[1]);
        let is_more = sum(path, "span_ms") > sum(&gone, "span_ms");
        (path["present"] == true && is_more).then_some(())
    });

    let unknown = tunnel.a.ctl_output(&["history", "nowhere"]);
    let words = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(words.contains(&names.join(", ")), "{words}");
}

//! Budgets as an operator meets them: what is counted beside what the interface counts, a restart, and what happens when
//! one is used up.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use mpt_core::control::budgets::{BudgetState, BudgetStatus};
use mpt_core::control::{PathState, PathStatus, Status};
use net::daemon::{Daemon, PATIENCE};
use net::settings::{Side, far_end_is_hub};
use net::topology::Tunnel;
use net::traffic::ping;
use net::{Hosts, Settings, Shape, wait_for};
use serde_json::Value;

/// Bytes of an Ethernet header, which a device counts and no provider (IEEE 802.3).
const ETHERNET: u64 = 14;

fn path<'a>(status: &'a Status, name: &str) -> &'a PathStatus {
    let mut paths = status.paths.iter();
    paths.find(|path| path.name == name).unwrap()
}

fn budget(daemon: &Daemon, name: &str) -> BudgetStatus {
    path(&daemon.status(), name).budget.clone().unwrap()
}

fn codes(daemon: &Daemon) -> Vec<String> {
    let messages = daemon.status().verdict.messages.into_iter();
    messages.map(|finding| finding.code).collect()
}

/// What A's device has counted of IP packets, both ways, in bytes.
fn counted(tunnel: &Tunnel, device: &str) -> u64 {
    let line = format!("ip -s -j link show dev {device}");
    let links: Value = serde_json::from_str(&tunnel.hosts.a.run(&line)).unwrap();
    let way = |way: &str| {
        let counters = &links[0]["stats64"][way];
        let number = |key: &str| counters[key].as_u64().unwrap();
        number("bytes") - number("packets") * ETHERNET
    };
    way("tx") + way("rx")
}

/// Echo requests of 1,300 bytes and their answers: how many came.
fn echoes(tunnel: &Tunnel, count: u32) -> u32 {
    ping(&tunnel.hosts.a, Side::B.inner_v4(), count, 2, "-s 1300").received
}

/// The files with these lines for each path, read again. A hub has none: it answers over any path.
fn reload(tunnel: &Tunnel, plain: &[String; 2], lines: [&str; 2]) {
    for (daemon, plain) in [&tunnel.a, &tunnel.b].into_iter().zip(plain) {
        if daemon.id() == tunnel.b.id() && far_end_is_hub() {
            continue;
        }
        let mut text = plain.clone();
        for (link, lines) in tunnel.hosts.links.iter().zip(lines) {
            let name = format!("name = \"{}\"\n", link.device);
            text = text.replace(&name, &format!("{name}{lines}\n"));
        }
        std::fs::write(daemon.config(), text).unwrap();
        let said = daemon.ctl_text(&["reload"]);
        assert!(said.contains("read again"), "{said}");
    }
}

/// What a path may carry, in a line.
fn month(bytes: u64) -> String {
    format!("budget = \"{} kB / month\"", bytes / 1000)
}

#[test]
fn a_budget_counts_as_the_interface_does_is_kept_and_ends_a_path() {
    let Some(_turn) = net::turn() else { return };
    let hosts = Hosts::new(&[Shape::unshaped(), Shape::unshaped()]);
    // A virtual device takes trains whole, and counts one header for all of one: a real one sees each packet.
    let settings = Settings::new().tunnel("offload = \"off\"");
    let mut tunnel = hosts.tunnel(&settings);
    let plain = [&tunnel.a, &tunnel.b].map(|end| std::fs::read_to_string(end.config()).unwrap());
    let [cheap, dear] = [0, 1].map(|at| tunnel.hosts.links[at].device.clone());
    let large = month(1_000_000_000);

    // Everything goes over the cheap one, and is counted.
    reload(&tunnel, &plain, [&large, "cost = 5"]);
    let before = (
        counted(&tunnel, &cheap),
        budget(&tunnel.a, &cheap).used_bytes,
    );
    let dear_before = path(&tunnel.a.status(), &dear).tx_bytes;
    assert_eq!(echoes(&tunnel, 800), 800);
    let device = counted(&tunnel, &cheap) - before.0;
    let used = budget(&tunnel.a, &cheap).used_bytes - before.1;
    println!("the device has counted {device} bytes, the budget {used}");
    assert!(used > 1_000_000, "{used}");
    assert!(used.abs_diff(device) * 100 < device, "{used} of {device}");
    let over_dear = path(&tunnel.a.status(), &dear).tx_bytes - dear_before;
    assert!(over_dear < 20_000, "{over_dear} over the dearer path");

    // Kept over a restart, and what was written over a crash.
    let used = budget(&tunnel.a, &cheap).used_bytes;
    tunnel.a.restart(&tunnel.hosts.a);
    let kept = budget(&tunnel.a, &cheap).used_bytes;
    assert!((used..used + 100_000).contains(&kept), "{kept} of {used}");
    tunnel.a.crash_and_restart(&tunnel.hosts.a);
    let kept = budget(&tunnel.a, &cheap).used_bytes;
    assert!((used..used + 100_000).contains(&kept), "{kept} of {used}");
    tunnel.await_paths();

    // From 80 % on there is a note.
    let used = budget(&tunnel.a, &cheap).used_bytes;
    let few = format!("{}\nreset_day = 31", month(used * 100 / 85));
    assert!(!codes(&tunnel.a).contains(&"budget-80".to_owned()));
    reload(&tunnel, &plain, [&few, "cost = 5"]);
    let noted = budget(&tunnel.a, &cheap);
    assert_eq!(noted.state, BudgetState::Open);
    assert!((80..90).contains(&noted.used_percent()), "{noted:?}");
    assert!(codes(&tunnel.a).contains(&"budget-80".to_owned()));
    // At 100 % it is the last resort: all goes over the other.
    wait_for("the budget to be used up", PATIENCE, || {
        echoes(&tunnel, 50);
        (budget(&tunnel.a, &cheap).state == BudgetState::LastResort).then_some(())
    });
    assert!(codes(&tunnel.a).contains(&"budget-used-up".to_owned()));
    let dear_before = path(&tunnel.a.status(), &dear).tx_bytes;
    assert_eq!(echoes(&tunnel, 100), 100);
    let status = tunnel.a.status();
    assert!(path(&status, &dear).tx_bytes - dear_before > 130_000);
    assert_eq!(path(&status, &cheap).state, PathState::Up);
    let text = tunnel.a.status_text();
    assert!(
        text.contains("used up: last resort") && text.contains("cost 5"),
        "{text}"
    );
    // It is one: the other is taken out.
    tunnel.a.ctl(&["path", "down", &dear]);
    wait_for("the last resort", PATIENCE, || {
        (echoes(&tunnel, 1) == 1).then_some(())
    });
    tunnel.a.ctl(&["path", "up", &dear]);

    // Off: nothing of either end.
    reload(
        &tunnel,
        &plain,
        ["budget = \"2 MB / month\"\nat_budget = \"off\"", "cost = 5"],
    );
    wait_for("the path to be off", PATIENCE, || {
        let is_off = path(&tunnel.a.status(), &cheap).state == PathState::AdminDown;
        (is_off && echoes(&tunnel, 1) == 1).then_some(())
    });
    assert_eq!(budget(&tunnel.a, &cheap).state, BudgetState::Off);
    let said = tunnel.a.ctl_text(&["path", "up", &cheap]);
    assert!(said.contains("used up"), "{said}");
    let before = counted(&tunnel, &cheap);
    assert_eq!(echoes(&tunnel, 200), 200);
    let probes = counted(&tunnel, &cheap) - before;
    println!("{probes} bytes over a path that is off");
    assert!(probes < 20_000, "{probes}");
    // And back by a larger budget.
    reload(&tunnel, &plain, [&large, ""]);
    wait_for("the path to be back", PATIENCE, || {
        (path(&tunnel.a.status(), &cheap).state == PathState::Up).then_some(())
    });
}

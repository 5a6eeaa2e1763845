//! `mode = "block"` in the daemon: a flow over two paths, a reload to it and back, and what `mpt-ctl` says.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use std::time::Duration;

use mpt_core::control::ReorderMode;
use net::daemon::PATIENCE;
use net::settings::{Side, far_end_is_hub};
use net::traffic::{Iperf, ping};
use net::{Daemon, Hosts, Settings, Shape, wait_for};

/// Gives the daemon's file another `[reorder]` line and lets it read the file again.
fn reload(daemon: &Daemon, from: &str, to: &str) {
    let text = std::fs::read_to_string(daemon.config()).unwrap();
    assert!(text.contains(from), "{text}");
    std::fs::write(daemon.config(), text.replace(from, to)).unwrap();
    daemon.ctl(&["reload"]);
}

#[test]
fn block_sort_comes_and_goes_by_a_reload_and_loses_nothing() {
    let Some(_turn) = net::turn() else { return };
    let settings = Settings::new().weights(&[100, 100]);
    let settings = settings.reorder_lines("mode = \"window\"");
    let tunnel = Hosts::new(&[Shape::unshaped(), Shape::unshaped()]).tunnel(&settings);
    let (hosts, receiver) = (&tunnel.hosts, &tunnel.b);
    let run = Iperf::udp(Side::B.inner_v4(), 4, 40.0, 1200).words("-w 400K");
    let flow = run.start(&hosts.a, &hosts.b);
    let mode = |wanted: ReorderMode| {
        wait_for("the other mode", PATIENCE, || {
            let reorder = receiver.status().reorder;
            (reorder.mode == wanted).then_some(reorder)
        })
    };
    std::thread::sleep(Duration::from_secs(1));
    reload(
        receiver,
        "mode = \"window\"",
        "mode = \"block\"\nblock_size = 64",
    );
    let reorder = mode(ReorderMode::Block);
    assert_eq!((reorder.block_size, reorder.window), (Some(64), 0));
    std::thread::sleep(Duration::from_secs(1));
    let before = receiver.status().reorder;
    assert_eq!((before.held, before.gaps_open), (0, 0));
    if !far_end_is_hub() {
        told_and_saved(receiver);
    }
    reload(
        receiver,
        "mode = \"block\"\nblock_size = 64",
        "mode = \"window\"",
    );
    assert!(mode(ReorderMode::Window).window > 0);
    let report = flow.finish();
    assert_eq!(report.lost, 0, "{report:?}");
}

/// What people see of it, what is refused, and what is kept of it; of a hub each peer has its own.
fn told_and_saved(receiver: &Daemon) {
    let text = receiver.status_text();
    assert!(
        text.contains("Block sort (mode = \"block\"), 64 packets"),
        "{text}"
    );
    let refused = receiver.ctl_output(&["reorder", "set", "window=64"]);
    assert!(!refused.status.success());
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(words.contains("sorts blocks"), "{words}");
    receiver.ctl(&["path", "set", "path0", "weight=60"]);
    receiver.ctl(&["save"]);
    let file = std::fs::read_to_string(receiver.config()).unwrap();
    let kept = file.contains("mode = \"block\"\nblock_size = 64") && file.contains("weight = 60");
    assert!(kept, "{file}");
}

/// Of order a hub tells nothing.
fn leaves_better_than_it_arrives(receiver: &Daemon) {
    let order = &receiver.ctl(&["reorder"])["order"];
    let [arriving, leaving] = ["arriving", "leaving"].map(|point| {
        let ratio = &order[point]["since_start"]["reordering"]["ratio"];
        ratio.as_f64().unwrap()
    });
    println!(
        "of the packets {:.2} % arrive reordered and {:.2} % leave so",
        100.0 * arriving,
        100.0 * leaving
    );
    assert!(leaving <= arriving);
}

/// A packet by itself, and bulk both ways, with nothing held: what is gathered is written in its turn.
#[test]
fn what_is_gathered_from_the_paths_does_not_stay() {
    let Some(_turn) = net::turn() else { return };
    for offload in ["auto", "off"] {
        let settings = Settings::new().tunnel(&format!("offload = \"{offload}\""));
        let settings = settings.reorder_lines("mode = \"block\"\nblock_size = 1024");
        let settings = settings.weights(&[100, 100]);
        let tunnel = Hosts::new(&[Shape::unshaped(), Shape::unshaped()]).tunnel(&settings);
        let hosts = &tunnel.hosts;
        let alone = ping(&hosts.a, Side::B.inner_v4(), 20, 20, "");
        assert_eq!(alone.received, 20, "{offload}");
        let flow = Iperf::tcp(Side::B.inner_v4(), 3).start(&hosts.a, &hosts.b);
        let beside = ping(&hosts.a, Side::B.inner_v4(), 50, 20, "");
        assert_eq!(beside.received, 50, "{offload}");
        let report = flow.finish();
        println!("{offload}: Mbit/s {}", report.intervals_text());
        if !far_end_is_hub() {
            leaves_better_than_it_arrives(&tunnel.b);
        }
        let reorder = tunnel.b.status().reorder;
        assert_eq!(
            (reorder.held_max, reorder.hold_us.max),
            (0, 0),
            "{reorder:?}"
        );
    }
}

mod codes;

use super::*;
use crate::control::drops::DropReason;
use crate::control::recent::{PathRecent, Recent};
use crate::control::{
    Handshake, HandshakeState, Missing, PathState, PathStatus, ReorderMode, ReorderStatus, Status,
    TunnelStatus,
};
use crate::path::DownReason;

fn path(name: &str) -> PathStatus {
    PathStatus {
        name: name.into(),
        state: PathState::Up,
        mtu: 1464,
        rx_bps: 75_000_000,
        receive_buffer_bytes: 4_194_304,
        receive_buffer_wanted_bytes: 4_194_304,
        ..PathStatus::default()
    }
}

/// Two paths that differ by 40 ms and a window that suffices, after 4 s with 10,000 packets each way.
fn healthy() -> Status {
    let mut paths = vec![path("fibre"), path("lte")];
    paths[0].rx_delay_us = Some(0);
    paths[1].rx_delay_us = Some(40_000);
    let counted = PathRecent {
        tx_packets: 5000,
        rx_packets: 5000,
        socket_drops: 0,
    };
    Status {
        hub: None,
        classes: Vec::new(),
        peers: Vec::new(),
        tunnel: TunnelStatus {
            peer_session: Some("1".into()),
            mtu: 1464,
            tx_packets: 1_000_000,
            rx_packets: 1_000_000,
            recovers: true,
            ..TunnelStatus::default()
        },
        reorder: ReorderStatus {
            window: 1024,
            max_buffer_delay_us: 300_000,
            window_needed: Some(600),
            ..ReorderStatus::default()
        },
        recent: Recent {
            span_ms: 4000,
            tx_packets: 10_000,
            rx_packets: 10_000,
            gaps_seen: 1000,
            paths: paths
                .iter()
                .map(|path| (path.name.clone(), counted.clone()))
                .collect(),
            ..Recent::default()
        },
        paths,
        verdict: Verdict::default(),
    }
}

/// The verdict after a change, a line each finding: level, code, sentence.
fn told(change: impl FnOnce(&mut Status)) -> String {
    let mut status = healthy();
    change(&mut status);
    let verdict = judge(&status);
    let worst = verdict.messages.iter().map(|finding| finding.level).max();
    assert_eq!(verdict.level, worst.unwrap_or(Level::Ok));
    let line = |finding: &Finding| {
        format!(
            "{:?} {}: {}",
            finding.level,
            finding.code,
            finding.sentence()
        )
    };
    let lines: Vec<String> = verdict.messages.iter().map(line).collect();
    lines.join("\n")
}

fn of_path(status: &mut Status, at: usize) -> &mut PathRecent {
    let name = &status.paths[at].name;
    status.recent.paths.get_mut(name).unwrap()
}

#[test]
fn a_healthy_tunnel_has_nothing_to_say() {
    assert_eq!(
        judge(&healthy()),
        Verdict {
            level: Level::Ok,
            messages: vec![]
        }
    );
}

#[test]
fn counters_since_start_say_nothing_about_now() {
    assert_eq!(
        told(|status| {
            for why in DropReason::ALL {
                status.tunnel.drops.insert(why.name().into(), 500_000);
            }
            status.reorder.gaps_seen = 500_000;
            status.reorder.gaps_timed_out = 500_000;
            status.reorder.gaps_overflowed = 500_000;
            status.reorder.late = 500_000;
            status.paths[0].socket_drops = 500_000;
            status.tunnel.recovery.spurious = 500_000;
        }),
        ""
    );
}

#[test]
fn a_peer_that_does_not_probe_is_no_fault() {
    insta::assert_snapshot!(told(|status| {
        status.tunnel.peer_session = None;
        for path in &mut status.paths {
            path.state = PathState::Probing;
        }
    }), @"Ok peer-sends-no-probes: The peer sends no probes: every path carries its share, and silence is not noticed.");
}

#[test]
fn a_tunnel_without_a_path_up_is_down_and_says_so_first() {
    insta::assert_snapshot!(told(|status| {
        status.paths[0].state = PathState::Down;
        status.paths[0].reason = Some("no answer for 1.2 s".into());
        status.paths[1].state = PathState::Probing;
        status.recent.drops.insert("bad_key".into(), 50);
    }), @r"
    Down no-path-up: No path is up: nothing gets through the tunnel. Is mpt-tund running at the other end, and is UDP let through to its port?
    Degraded path-down: Path fibre is down: no answer for 1.2 s.
    Degraded path-probing: Path lte is not up yet: no probe has been answered yet.
    Degraded wrong-key: In the last 4 s 50 packets carried no GRE key or a wrong one. `key` in [tunnel] must be the same at both ends.
    ");
    insta::assert_snapshot!(told(|status| status.paths.clear()), @"Down no-paths: The tunnel has no paths. Add [[paths]] to the configuration.");
}

#[test]
fn why_the_ends_do_not_speak_comes_first_and_only_while_no_path_is_up() {
    let apart = |status: &mut Status, state| {
        status.paths[0].state = PathState::Down;
        status.paths[0].reason = Some("no probe was answered for 1s".into());
        status.tunnel.handshake = Some(Handshake {
            state,
            text: "Handshakes arrive.".into(),
            remedy: "Compare keys.".into(),
        });
        status.recent.drops.insert("bad_handshake".into(), 50);
    };
    insta::assert_snapshot!(told(|status| {
        apart(status, HandshakeState::WrongKey);
        status.paths.truncate(1);
    }), @r"
    Down handshake-wrong-key: Handshakes arrive. Compare keys.
    Down no-path-up: No path is up: nothing gets through the tunnel.
    Degraded path-down: Path fibre is down: no probe was answered for 1s.
    ");
    assert!(!told(|status| apart(status, HandshakeState::WrongKey)).contains("wrong-key"));
    let waits = told(|status| {
        apart(status, HandshakeState::Waiting);
        status.paths.truncate(1);
    });
    assert!(waits.contains("Is mpt-tund running") && waits.contains("bad-handshakes"));
}

#[test]
fn two_paths_to_one_port_are_named_at_both_ends() {
    insta::assert_snapshot!(told(|status| {
        for path in &mut status.paths {
            path.remote = "203.0.113.7:4754".into();
        }
    }), @"Degraded shared-remote: Paths fibre and lte both lead to 203.0.113.7:4754: the peer takes them for one. Give each path a port of its own at the peer, and name it in `remote`.");
    let crossed = told(|status| {
        status.paths[0].remote = "198.51.100.2:4754".into();
        status.paths[1].remote = "unknown".into();
        status.paths[1].state = PathState::Probing;
        status.recent.drops.insert("other_path".into(), 20);
    });
    assert!(
        crossed.contains("shared-remote: Packets of two"),
        "{crossed}"
    );
}

#[test]
fn a_path_that_rests_says_so_while_it_is_not_answered() {
    insta::assert_snapshot!(told(|status| {
        status.paths[1].rests = true;
        status.paths[1].state = PathState::Probing;
    }), @r"
    Degraded path-probing: Path lte is not up yet: no probe has been answered yet.
    Ok path-rests: Path lte is asked for 5 s in every 74 s: a router on the way may keep a wrong mapping as long as anything comes. With [crypto] and without `port` it would go on from another port.
    ");
    assert_eq!(told(|status| status.paths[1].rests = true), "");
}

#[test]
fn a_path_that_is_not_up_is_named_with_its_reason() {
    insta::assert_snapshot!(told(|status| {
        status.paths[1].state = PathState::Down;
        status.paths[1].reason = Some("link of eth1 is down".into());
    }), @"Degraded path-down: Path lte is down: link of eth1 is down.");
}

#[test]
fn what_is_configured_and_not_there_is_named() {
    insta::assert_snapshot!(told(|status| {
        status.paths[1].state = PathState::Waiting;
        status.paths[1].reason = Some("interface wwan0 is not there".into());
        for (what, why) in [
            ("route 192.0.2.0/24", "there is one already"),
            ("path lte", "interface wwan0 is not there"),
        ] {
            status.tunnel.missing.push(Missing {
                what: what.into(),
                why: why.into(),
            });
        }
    }), @r"
    Degraded missing: What is configured is not all there: route 192.0.2.0/24: there is one already. It is tried again by itself.
    Degraded path-waiting: Path lte waits: interface wwan0 is not there. It opens by itself.
    ");
    insta::assert_snapshot!(told(|status| {
        status.tunnel.missing.push(Missing {
            what: "interface mpt0".into(),
            why: "its name is taken".into(),
        });
    }), @"Down missing: What is configured is not all there: interface mpt0: its name is taken. It is tried again by itself.");
}

#[test]
fn a_path_out_of_service_by_command_is_as_it_was_wanted() {
    insta::assert_snapshot!(told(|status| status.paths[1].state = PathState::AdminDown), @"Ok path-out-of-service: Path lte is out of service by command. `mpt-ctl path up lte` brings it back.");
    insta::assert_snapshot!(told(|status| {
        for path in &mut status.paths {
            path.state = PathState::AdminDown;
        }
    }), @r"
    Down no-path-up: No path is up: nothing gets through the tunnel.
    Ok path-out-of-service: Path fibre is out of service by command. `mpt-ctl path up fibre` brings it back.
    Ok path-out-of-service: Path lte is out of service by command. `mpt-ctl path up lte` brings it back.
    ");
}

#[test]
fn loss_is_a_note_where_it_is_sent_again_and_a_fault_from_5_percent_on() {
    insta::assert_snapshot!(told(|status| status.paths[1].loss = 0.02), @"Ok path-loses: Path lte loses 2.0 % of what this host sends over it. What is lost is sent again; that takes a round trip.");
    insta::assert_snapshot!(told(|status| status.paths[1].rx_loss = 0.16), @"Degraded path-loses: Path lte loses 16.0 % of what the peer sends over it. What is lost is sent again as far as it can be. Look at its link; `mpt-ctl path down lte` does without it.");
    insta::assert_snapshot!(told(|status| {
        status.paths[1].loss = 0.02;
        status.tunnel.recovers = false;
    }), @"Degraded path-loses: Path lte loses 2.0 % of what this host sends over it. Look at its link; `mpt-ctl path down lte` does without it.");
    assert_eq!(told(|status| status.paths[1].loss = 0.009), "");
}

#[test]
fn one_lost_probe_of_an_idle_path_is_no_loss() {
    assert_eq!(
        told(|status| {
            of_path(status, 1).tx_packets = 20;
            status.paths[1].loss = 1.0 / 16.0;
        }),
        ""
    );
}

#[test]
fn what_never_came_is_lost_for_good_and_what_came_late_is_not() {
    insta::assert_snapshot!(told(|status| status.recent.gaps_inferred_lost = 500), @"Degraded packets-lost: 4.8 % of what the peer sent in the last 4 s was lost for good. `mpt-ctl paths` at the peer shows which path loses them.");
    insta::assert_snapshot!(told(|status| status.recent.gaps_timed_out = 300), @"Degraded packets-lost: 2.9 % of what the peer sent in the last 4 s was lost for good. `mpt-ctl paths` at the peer shows which path loses them; a shorter max_buffer_delay makes the stalls shorter.");
    insta::assert_snapshot!(told(|status| {
        status.recent.gaps_timed_out = 300;
        status.recent.late = 295;
    }), @"Degraded packets-late: 2.9 % of the packets that came in the last 4 s came after they had been given up, with max_buffer_delay = 300 ms. Raise it with `mpt-ctl reorder set max_buffer_delay=auto`.");
    assert_eq!(told(|status| status.recent.gaps_inferred_lost = 9), "");
    let nothing_held = told(|status| {
        (status.recent.gaps_overflowed, status.recent.late) = (300, 300);
        (status.reorder.window, status.reorder.window_needed) = (0, None);
        status.paths[1].rx_delay_us = Some(0);
    });
    assert_eq!(nothing_held, "");
}

#[test]
fn a_window_below_the_need_is_named_with_one_that_would_do() {
    insta::assert_snapshot!(told(|status| status.reorder.window = 256), @"Degraded window-too-small: The reorder window of 256 is too small for paths that differ by 40.0 ms at 150 Mbit/s: it needs 600. `mpt-ctl reorder set window=1024` would do.");
    insta::assert_snapshot!(told(|status| status.reorder.window_needed = Some(1500)), @"Degraded window-too-small: The reorder window of 1024 is too small for paths that differ by 40.0 ms at 150 Mbit/s: it needs 1500. `mpt-ctl reorder set window=2048` would do.");
    insta::assert_snapshot!(told(|status| status.reorder.window_needed = Some(100_000)), @"Degraded window-too-small: The reorder window of 1024 is too small for paths that differ by 40.0 ms at 150 Mbit/s: it needs 100000. The largest is 32768, so take the slowest path out of service.");
}

#[test]
fn reordering_off_matters_only_where_paths_differ() {
    insta::assert_snapshot!(told(|status| status.reorder.window = 0), @"Degraded reordering-off: Reordering is off, yet the paths differ by 40.0 ms: packets leave the tunnel out of order. `mpt-ctl reorder set window=auto` puts them in order.");
    insta::assert_snapshot!(told(|status| {
        status.reorder.window = 0;
        status.reorder.mode = ReorderMode::Block;
    }), @r#"Degraded reordering-off: Block sort holds nothing, yet the paths differ by 40.0 ms: packets leave the tunnel out of order. mode = "window" in [reorder] puts them in order."#);
    let alike = told(|status| {
        status.reorder.window = 0;
        status.reorder.window_needed = None;
        status.paths[1].rx_delay_us = Some(200);
    });
    assert_eq!(alike, "");
    let flows_stay = told(|status| {
        status.reorder.window = 0;
        status.recent.gaps_seen = 0;
        status.tunnel.scheduler = "flow".into();
    });
    assert_eq!(flows_stay, "");
}

#[test]
fn a_path_that_carries_probes_alone_differs_from_none() {
    let told = |window, rx_bps| {
        told(|status| {
            (status.reorder.window, status.reorder.max_buffer_delay_us) = (window, 30_000);
            (status.paths[1].rx_bps, status.reorder.window_needed) = (rx_bps, None);
        })
    };
    for window in [0, 1024] {
        assert_eq!(told(window, 8_000), "");
        assert_ne!(told(window, 8_000_000), "");
    }
}

#[test]
fn gaps_that_overflow_ask_for_a_larger_window() {
    insta::assert_snapshot!(told(|status| status.recent.gaps_overflowed = 50), @"Degraded window-full: 5.0 % of gaps ended in the last 4 s because the reorder window of 1024 was full. `mpt-ctl reorder set window=2048` holds more.");
}

#[test]
fn a_hold_below_the_delay_difference_is_too_short() {
    insta::assert_snapshot!(told(|status| status.reorder.max_buffer_delay_us = 30_000), @"Degraded hold-too-short: max_buffer_delay of 30.0 ms is too short for paths that differ by 40.0 ms. `mpt-ctl reorder set max_buffer_delay=50ms` would do.");
    let nothing_missing = told(|status| {
        status.reorder.max_buffer_delay_us = 30_000;
        status.recent.gaps_seen = 0;
    });
    assert_eq!(nothing_missing, "");
}

#[test]
fn receive_buffers_name_the_sysctl_and_its_value() {
    insta::assert_snapshot!(told(|status| status.paths[1].receive_buffer_bytes = 425_984), @"Ok receive-buffer-small: The receive buffer of path lte is 426 kB where 4.2 MB are wanted: bursts may be lost. `sysctl -w net.core.rmem_max=4194304` and a restart of mpt-tund give it.");
    insta::assert_snapshot!(told(|status| {
        status.paths[1].receive_buffer_bytes = 425_984;
        of_path(status, 1).socket_drops = 77;
    }), @"Degraded receive-buffer-full: 77 datagrams overflowed the receive buffers in the last 4 s: 426 kB granted where 4.2 MB are wanted. `sysctl -w net.core.rmem_max=4194304` and a restart of mpt-tund give it.");
    insta::assert_snapshot!(told(|status| of_path(status, 0).socket_drops = 77), @"Degraded receive-buffer-full: 77 datagrams overflowed the receive buffers in the last 4 s, although all that was wanted is granted: this machine is too slow for what arrives.");
}

#[test]
fn a_peer_without_reports_degrades_the_tunnel() {
    insta::assert_snapshot!(told(|status| status.tunnel.unreported = true), @"Degraded no-reports: The peer sends no reports, so that weights decide what each path gets instead of what it delivers. Run this version of mpt-tund at both ends.");
}

#[test]
fn a_path_for_small_packets_alone_is_told() {
    insta::assert_snapshot!(told(|status| {
        status.paths[1].narrow = true;
        status.paths[1].mtu = 494;
    }), @"Degraded path-narrow: Path lte carries packets of 494 bytes at most and is left out. Something on its way drops larger ones; it is tried again from time to time.");
}

#[test]
fn needless_copies_are_told_from_a_twentieth_of_the_packets_on() {
    insta::assert_snapshot!(told(|status| status.recent.spurious = 600), @r#"Degraded needless-resends: 600 packets (6.0 % of those sent) went again in the last 4 s though nothing was lost. A path's delay varies by more than was measured; mode = "off" in [recovery] sends nothing again."#);
    assert_eq!(told(|status| status.recent.spurious = 400), "");
}

#[test]
fn strangers_are_a_note_while_all_paths_are_up() {
    let with = |state, count| {
        told(|status| {
            status.paths[1].state = state;
            status.recent.drops.insert("stranger".into(), count);
        })
    };
    assert_eq!(with(PathState::Up, 9), "");
    assert!(with(PathState::Up, 100).starts_with("Ok strangers"));
    assert!(with(PathState::Down, 100).contains("Degraded strangers"));
    let silent = told(|status| {
        (status.recent.tx_packets, status.recent.rx_packets) = (0, 0);
        status.recent.drops.insert("bad_key".into(), 1);
    });
    assert!(
        silent.contains("1 packet carried"),
        "where nothing else arrives, one is enough"
    );
}

#[test]
fn a_status_without_a_verdict_is_not_said_to_be_well() {
    let mut old = serde_json::to_value(healthy()).unwrap();
    old.as_object_mut().unwrap().remove("verdict");
    let status: Status = serde_json::from_value(old).unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&status.verdict).unwrap(), @r#"
    {
      "level": "degraded",
      "messages": [
        {
          "code": "not-judged",
          "level": "degraded",
          "text": "This mpt-tund gives no verdict: it is older than mpt-ctl.",
          "remedy": "`systemctl restart mpt` starts the new one."
        }
      ]
    }
    "#);
}

#[test]
fn absurd_numbers_are_survived() {
    let told = told(|status| {
        status.reorder.window = u32::MAX;
        status.reorder.window_needed = Some(u64::MAX);
        status.paths[0].rx_bps = u64::MAX;
        status.paths[1].rx_delay_us = Some(u64::MAX);
        for path in &mut status.paths {
            (path.loss, path.rx_loss) = (f64::NAN, 1e300);
        }
        of_path(status, 0).socket_drops = u64::MAX;
        of_path(status, 1).socket_drops = u64::MAX;
        status.recent.gaps_timed_out = u64::MAX;
        status.recent.gaps_inferred_lost = u64::MAX;
        status.recent.gaps_overflowed = u64::MAX;
        status.recent.span_ms = u64::MAX;
        for why in DropReason::ALL {
            status.recent.drops.insert(why.name().into(), u64::MAX);
        }
    });
    assert!(told.lines().count() > 10, "{told}");
}

#[test]
fn a_reload_that_was_refused_is_told_behind_what_is_worse() {
    let mut status = healthy();
    for paths in [2, 0] {
        status.paths.truncate(paths);
        let why = "restart mpt-tund to change the keys of [crypto]";
        let verdict = judge(&status).with_refused_reload(why);
        let codes: Vec<&str> = verdict.messages.iter().map(|found| &*found.code).collect();
        let (level, wanted) = match paths {
            2 => (Level::Degraded, vec!["reload-refused"]),
            _ => (Level::Down, vec!["no-paths", "reload-refused"]),
        };
        assert_eq!((verdict.level, codes), (level, wanted));
        insta::allow_duplicates! {
            insta::assert_snapshot!(verdict.messages.last().unwrap().sentence(), @"The last reload was refused, and all goes on as it was: restart mpt-tund to change the keys of [crypto]. This stands until a reload succeeds or mpt-tund starts again.");
        }
    }
}

#[test]
fn a_path_that_leaves_by_another_paths_device_is_named_with_what_mends_it() {
    let mut status = healthy();
    status.paths[0].device = Some("eth0".into());
    status.paths[1].device = Some("eth0".into());
    assert!(judge(&status).messages.is_empty(), "both belong there");
    status.paths[1].device_wanted = Some("wwan0".into());
    status.paths[1].device_remedy = Some("`ip route add …`".into());
    let verdict = judge(&status);
    assert_eq!(verdict.level, Level::Degraded);
    assert_eq!(verdict.messages[0].code, Code::WrongDevice.name());
    assert_eq!(
        verdict.messages[0].sentence(),
        "Path lte leaves by eth0 and not by wwan0, where it belongs. `ip route add …`"
    );
    // Alone there, and up: perhaps it is meant so.
    status.paths[0].device = Some("eth1".into());
    assert_eq!(judge(&status).level, Level::Ok);
    status.paths[1].state = PathState::Down;
    let messages = judge(&status).messages;
    assert!(
        messages
            .iter()
            .any(|one| one.code == "wrong-device" && one.level == Level::Degraded)
    );
}

#[test]
fn a_path_that_is_down_for_want_of_a_route_says_so_first() {
    let mut status = healthy();
    status.paths[1].routeless = Some("wwan0".into());
    assert!(judge(&status).messages.is_empty(), "it is up all the same");
    status.paths[1].state = PathState::Down;
    status.paths[1].remote = "203.0.113.7:4755".into();
    // As a path without `interface` would, which leaves where the main table leads.
    status.paths[1].device = Some("eth0".into());
    status.paths[1].device_wanted = Some("wwan0".into());
    let messages = judge(&status).messages;
    let codes: Vec<&str> = messages.iter().map(|one| one.code.as_str()).collect();
    assert_eq!(codes, [Code::NoRoute.name(), Code::PathDown.name()]);
    assert_eq!(
        messages[0].sentence(),
        "Path lte has no route: nothing leads to 203.0.113.7:4755 by wwan0. `ip route add default via GATEWAY dev \
         wwan0 metric 1000` with the address of wwan0's router for GATEWAY makes one, where nothing that runs here \
         brings it back."
    );
}

#[test]
fn a_path_whose_device_is_down_has_no_advice_on_routes() {
    let mut status = healthy();
    status.paths[1].state = PathState::Down;
    status.paths[1].reason = Some(DownReason::LinkDown.to_string());
    status.paths[1].routeless = Some("wwan0".into());
    status.paths[1].device = Some("eth0".into());
    status.paths[1].device_wanted = Some("wwan0".into());
    let messages = judge(&status).messages;
    let said: Vec<String> = messages.iter().map(|one| one.sentence()).collect();
    assert_eq!(said, ["Path lte is down: its network interface is down."]);
}

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::metrics::{MAX_PEER_PATHS, MAX_PEERS};
use mpt_core::control::budgets::BudgetStatus;
use mpt_core::control::classes::ClassStatus;
use mpt_core::control::drops::Drops;
use mpt_core::control::order::{OrderStatus, Spread};
use mpt_core::control::verdict::judge;
use mpt_core::control::{HubStatus, PathState, PeerStatus, Status};

fn path(name: &str) -> PathStatus {
    PathStatus {
        name: name.to_owned(),
        state: PathState::Up,
        rtt_us: Some(20_500),
        tx_bytes: 7,
        tx_limit_bps: Some(8_000_000),
        ..PathStatus::default()
    }
}

fn status(name: &str, paths: &[&str]) -> Status {
    let mut status = Status::default();
    status.tunnel.name = name.to_owned();
    status.tunnel.drops.insert("stranger".to_owned(), 3);
    status.paths = paths.iter().map(|name| path(name)).collect();
    status.verdict = judge(&status);
    status
}

fn two_ends() -> Sample {
    let order = OrderStatus {
        holds: Spread {
            counts: [vec![1, 2], vec![0; 12], vec![4]].concat(),
            sum_us: 1_500_000,
        },
        paths: BTreeMap::from([("lte".to_owned(), Default::default())]),
        ..OrderStatus::default()
    };
    let mut status = status("mpt0", &["fibre", "lte"]);
    status.paths[1].budget = Some(BudgetStatus {
        limit_bytes: 50_000_000_000,
        used_bytes: 7,
        ..BudgetStatus::default()
    });
    status.classes = vec![ClassStatus {
        name: "calls".to_owned(),
        ..ClassStatus::default()
    }];
    Sample::new(status, Some(Box::new(order)))
}

fn hub(peers: usize, paths: usize) -> Sample {
    let mut status = status("hub0", &["isp1"]);
    status.hub = Some(HubStatus {
        peers: peers as u64,
        handed_over: 7,
        ..HubStatus::default()
    });
    let mut drops = BTreeMap::new();
    Drops::default().add_to(&mut drops);
    let peer = |number| PeerStatus {
        name: format!("peer{number}"),
        // Whatever a peer calls its paths, twice the same included.
        paths: vec![path("up"); paths],
        drops: drops.clone(),
        ..PeerStatus::default()
    };
    status.peers = (0..peers).map(peer).collect();
    Sample::new(status, None)
}

fn text(samples: Vec<Sample>) -> String {
    write(samples, &[("served", 5), ("slow", 0)])
}

fn assert_has(text: &str, line: &str) {
    assert!(text.lines().any(|other| other == line), "{line}\n{text}");
}

/// The name of each family, with its kind and what is said of it.
fn described<T>(families: &[Family<T>]) -> Vec<(String, String, String)> {
    let one = |family: &Family<T>| {
        let suffix = match family.values.kind() {
            MetricType::Counter => "_total",
            MetricType::Info => "_info",
            MetricType::Gauge | MetricType::Histogram | MetricType::Unknown => "",
        };
        let kind = family.values.kind().as_str().to_owned();
        let name = format!("{PREFIX}_{}{suffix}", family.name);
        (name, kind, family.help.to_owned())
    };
    families.iter().map(one).collect()
}

fn all() -> Vec<(String, String, String)> {
    [
        described(OWN),
        described(tunnel::FAMILIES),
        described(tunnel::OF_RUNNING),
        described(tunnel::OF_TWO_ENDS),
        described(paths::FAMILIES),
        described(paths::SOCKETS),
        described(paths::BUDGETS),
        described(classes::FAMILIES),
        described(order::OF_TWO_ENDS),
        described(order::OF_A_POINT),
        described(order::OF_A_PATH),
        described(peers::OF_HUBS),
        described(paths::OF_HUBS),
        described(peers::FAMILIES),
    ]
    .concat()
}

#[test]
fn each_fact_has_its_labels_and_its_value_in_base_units() {
    let text = text(vec![two_ends()]);
    for line in [
        "# TYPE mpt_path_rtt_seconds gauge",
        "# UNIT mpt_path_rtt_seconds seconds",
        r#"mpt_path_rtt_seconds{tunnel="mpt0",path="lte"} 0.0205"#,
        r#"mpt_path_limit_bytes_per_second{tunnel="mpt0",path="lte"} 1000000"#,
        "# TYPE mpt_path_sent_bytes counter",
        r#"mpt_path_sent_bytes_total{tunnel="mpt0",path="fibre"} 7"#,
        r#"mpt_path_budget_bytes{tunnel="mpt0",path="lte"} 50000000000"#,
        r#"mpt_path_budget_used_bytes{tunnel="mpt0",path="lte"} 7"#,
        r#"mpt_path_state{tunnel="mpt0",path="fibre",state="up"} 1"#,
        r#"mpt_path_state{tunnel="mpt0",path="fibre",state="admin-down"} 0"#,
        r#"mpt_tunnel_verdict{tunnel="mpt0",level="ok"} 1"#,
        r#"mpt_tunnel_verdict{tunnel="mpt0",level="down"} 0"#,
        r#"mpt_tunnel_dropped_packets_total{tunnel="mpt0",reason="stranger"} 3"#,
        r#"mpt_metrics_connections_total{outcome="served"} 5"#,
        r#"mpt_reorder_info{mode="window",late="deliver",tunnel="mpt0"} 1"#,
        r#"mpt_reorder_hold_seconds_bucket{le="0.0005",tunnel="mpt0"} 3"#,
        r#"mpt_reorder_hold_seconds_bucket{le="+Inf",tunnel="mpt0"} 7"#,
        r#"mpt_reorder_hold_seconds_count{tunnel="mpt0"} 7"#,
        r#"mpt_reorder_hold_seconds_sum{tunnel="mpt0"} 1.5"#,
        r#"mpt_recovery_wait_seconds_count{tunnel="mpt0"} 0"#,
        r#"mpt_path_reordered_packets_total{tunnel="mpt0",path="lte"} 0"#,
        r#"mpt_order_packets_total{tunnel="mpt0",point="leaving"} 0"#,
    ] {
        assert_has(&text, line);
    }
    assert!(text.ends_with("# EOF\n"));
    assert!(!text.contains(r#"mpt_path_budget_bytes{tunnel="mpt0",path="fibre"}"#));
    assert!(
        !text.contains("mpt_hub") && !text.contains("mpt_peer"),
        "{text}"
    );
}

#[test]
fn a_tunnel_that_does_not_run_is_down_and_has_nothing_else() {
    let text = text(vec![Sample::of_none("mpt0")]);
    assert_has(&text, r#"mpt_tunnel_running{tunnel="mpt0"} 0"#);
    assert_has(&text, r#"mpt_tunnel_verdict{tunnel="mpt0",level="down"} 1"#);
    assert!(!text.contains("mpt_tunnel_mtu_bytes"), "{text}");
    assert!(!text.contains("not-judged"), "{text}");
}

/// A family begins once, whatever tunnels there are; no series is there twice.
#[test]
fn families_are_whole_and_series_are_there_once() {
    let mut second = two_ends();
    second.status.tunnel.name = "mpt1".to_owned();
    let text = text(vec![two_ends(), hub(20, 3), second]);
    let (mut families, mut series) = (BTreeSet::new(), BTreeSet::new());
    for line in text.lines() {
        if let Some(family) = line.strip_prefix("# TYPE ") {
            assert!(families.insert(family), "{family} begins twice");
        } else if !line.starts_with('#') {
            let (name, _) = line.rsplit_once(' ').unwrap();
            assert!(series.insert(name), "{name} is there twice");
        }
    }
    assert_has(
        &text,
        r#"mpt_path_state{tunnel="hub0",peer="peer7",path="up~2",state="up"} 1"#,
    );
    assert_has(
        &text,
        r#"mpt_hub_path_state{tunnel="hub0",path="isp1",state="up"} 1"#,
    );
    // What waits at a hub, or is sent again, is each peer's.
    for family in [
        "mpt_recovery_resent_packets_total",
        "mpt_tunnel_queue_packets",
    ] {
        assert_has(&text, &format!(r#"{family}{{tunnel="mpt0"}} 0"#));
        assert!(!text.contains(&format!(r#"{family}{{tunnel="hub0"}}"#)));
    }
    // Where peers call is no path to one of them, and says nothing of round trips.
    assert!(!text.contains(r#"mpt_path_rtt_seconds{tunnel="hub0",path="isp1"}"#));
}

#[test]
fn a_hub_of_ten_thousand_peers_has_a_bounded_number_of_series() {
    let text = text(vec![hub(10_000, 2)]);
    let series = text.lines().filter(|line| !line.starts_with('#')).count();
    let of_path: usize = 60;
    let of_peer: usize = 60;
    assert!(
        series < MAX_PEERS * of_peer + MAX_PEER_PATHS * of_path,
        "{series}"
    );
    println!("{series} series, {} bytes", text.len());
    assert_has(&text, r#"mpt_hub_peers{tunnel="hub0"} 10000"#);
    assert_has(
        &text,
        r#"mpt_hub_handed_over_packets_total{tunnel="hub0"} 7"#,
    );
    assert_has(
        &text,
        &format!(
            r#"mpt_hub_peers_left_out{{tunnel="hub0"}} {}"#,
            10_000 - MAX_PEERS
        ),
    );
}

#[test]
fn what_stands_in_a_label_is_escaped() {
    let mut sample = two_ends();
    sample.status.tunnel.config = "/a\"b\\c\nd".to_owned();
    assert!(text(vec![sample]).contains(r#"config="/a\"b\\c\nd""#));
}

/// Every family is in docs/watching.md, and each that stands there is one.
#[test]
fn the_document_lists_every_family() {
    let doc = include_str!("../../../../../docs/watching.md");
    let listed: Vec<&str> = doc
        .lines()
        .filter(|line| line.starts_with("| `mpt_"))
        .collect();
    let all = all();
    for (name, kind, help) in &all {
        let row = format!("| `{name}` | {kind} | {help} |");
        assert!(listed.contains(&&*row), "not in docs/watching.md:\n{row}");
    }
    assert_eq!(
        listed.len(),
        all.len(),
        "docs/watching.md has families that are none"
    );
}

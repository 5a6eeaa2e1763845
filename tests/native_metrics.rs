//! The metrics of running tunnels: to Prometheus, to whoever asks, and to who would rather harm.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use net::settings::{Side, keys, public_key};
use net::traffic::ping;
use net::{Daemon, Hosts, Link, Namespace, Settings, Shape, Tunnel, wait_for};
use serde_json::Value;

#[path = "metrics/prometheus.rs"]
mod prometheus;

use prometheus::{
    PROMETHEUS, api, asked_for, converse, get, of_prometheus, promtool, query, start,
};

/// How long what is looked at each second may take, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// Where the client's metrics are, within its own host.
const HERE: &str = "127.0.0.1:9754";

/// A file of this repository.
fn repository(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(file)
}

/// A client of two paths, and a hub that it calls, which another peer never does.
fn client_and_hub(metrics: [&str; 2]) -> Tunnel {
    let hosts = Hosts::new(&[Shape::unshaped(), Shape::unshaped()]);
    let path = |link: &Link, local: &str, remote: Option<&str>| {
        let remote = remote.map(|remote| format!("remote = \"{remote}\"\n"));
        let remote = remote.unwrap_or_default();
        format!(
            "[[paths]]\nname = \"{}\"\nlocal = \"{local}\"\n{remote}",
            link.device
        )
    };
    let head = |address: &str, socket: &str| {
        format!(
            "[tunnel]\nname = \"mpt0\"\naddresses = [\"{address}/24\"]\n[control]\nsocket = \"{socket}\"\n"
        )
    };
    let b = Daemon::start(&hosts.b, "mpt0", |socket| {
        let keys = keys(Side::B, socket);
        let keys = keys
            .lines()
            .filter(|line| !line.starts_with("peer_public_key"));
        let keys: Vec<&str> = keys.collect();
        let paths = hosts
            .links
            .iter()
            .map(|link| path(link, &link.address_b, None));
        let paths: String = paths.collect();
        let [alice, bob] = [public_key(Side::A), net::settings::stranger()];
        head("10.99.0.2", socket)
            + &keys.join("\n")
            + &format!(
                "\n{}\n{paths}[[peers]]\nname = \"alice\"\npublic_key = \"{alice}\"\n\
                 allowed_ips = [\"10.99.0.1/32\"]\nrate_limit = \"1 Gbit/s\"\n[[peers]]\nname = \"bob\"\n\
                 public_key = \"{bob}\"\nallowed_ips = [\"10.99.0.3/32\"]\n",
                metrics[1]
            )
    });
    let a = Daemon::start(&hosts.a, "mpt0", |socket| {
        let paths = hosts.links.iter();
        let paths = paths.map(|link| path(link, &link.address_a, Some(&link.address_b)));
        let paths: String = paths.collect();
        head("10.99.0.1", socket) + &keys(Side::A, socket) + metrics[0] + "\n" + &paths
    });
    let tunnel = Tunnel { a, b, hosts };
    wait_for("packets through the tunnel", PATIENCE, || {
        let heard = ping(&tunnel.hosts.a, Side::B.inner_v4(), 1, 20, "").received;
        let up = tunnel
            .a
            .status()
            .paths
            .iter()
            .all(|path| path.rtt_us.is_some());
        (heard == 1 && up).then_some(())
    });
    tunnel
}

/// Two ends with these lines in A's file; keys where all tests have some.
fn two_ends(lines: &str) -> Tunnel {
    let hosts = Hosts::new(&[Shape::unshaped(), Shape::unshaped()]);
    let links: Vec<&Link> = hosts.links.iter().collect();
    let settings = Settings::new();
    let text = |side, socket: &str| settings.toml(side, "mpt0", &links, socket);
    let b = Daemon::start(&hosts.b, "mpt0", |socket| text(Side::B, socket));
    let a = Daemon::start(&hosts.a, "mpt0", |socket| {
        format!("{}\n{lines}\n", text(Side::A, socket))
    });
    let tunnel = Tunnel { a, b, hosts };
    tunnel.await_paths();
    tunnel
}

fn folder_of(socket: &str) -> &str {
    socket.rsplit_once('/').unwrap().0
}

/// The metrics there, which have to be there.
fn metrics(host: &Namespace, address: &str) -> String {
    let (head, body) = get(host, address, "/metrics").unwrap();
    assert!(head.starts_with("HTTP/1.0 200"), "{head}");
    body
}

/// The value of a series, written as it stands on the page.
fn value(page: &str, series: &str) -> f64 {
    let named = page.lines().filter_map(|line| line.rsplit_once(' '));
    let found: Vec<f64> = named
        .filter(|(name, _)| *name == series)
        .map(|(_, value)| value.parse().unwrap())
        .collect();
    assert_eq!(found.len(), 1, "{series}\n{page}");
    found[0]
}

/// All queries of the dashboard, each with the title of its panel.
fn dashboard() -> Vec<(String, String)> {
    let text = std::fs::read_to_string(repository("packaging/grafana/mpt.json")).unwrap();
    let board: Value = serde_json::from_str(&text).unwrap();
    let mut queries = Vec::new();
    for panel in board["panels"].as_array().unwrap() {
        let targets = panel["targets"].as_array().into_iter().flatten();
        queries.extend(targets.map(|target| {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            (text(&panel["title"]), text(&target["expr"]))
        }));
    }
    queries
}

/// What is not there in the first seconds: an interval of ten seconds has to end, or a path's limit to be found.
const LATER: [&str; 3] = [
    "mpt_path_limit_bytes_per_second",
    "mpt_order_three_reordered_ratio",
    "mpt_path_delay_variation_seconds",
];

/// A client and a hub, looked at by Prometheus: it takes each page, every query of the dashboard finds something, a path
/// that fails is seen, and its alert is on the way.
#[test]
fn prometheus_takes_the_metrics_of_both_ends_and_the_dashboard_finds_them() {
    let Some(_turn) = net::turn() else { return };
    let Some(program) = of_prometheus("prometheus") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut tunnel = client_and_hub([
        "[metrics]\nlisten = \"127.0.0.1:9754\"",
        "[metrics]\nlisten = \"10.1.0.2:9754\"",
    ]);
    let there = "10.1.0.2:9754";
    let mut prometheus = start(&tunnel, &program, folder.path(), &[HERE, there]);
    let host = &tunnel.hosts.a;
    let traffic = host.start("ping -q -i 0.02 -c 2000 -s 1000 10.99.0.2");
    wait_for("Prometheus", PATIENCE, || {
        get(host, PROMETHEUS, "/-/ready").filter(|(head, _)| head.contains(" 200 "))
    });
    wait_for("both ends in Prometheus", PATIENCE, || {
        assert!(prometheus.ended().is_none(), "{}", prometheus.log());
        (query(host, "rate(mpt_tunnel_sent_bytes_total[5s]) > 10000").len() == 2).then_some(())
    });
    for target in api(host, "/api/v1/targets")["activeTargets"]
        .as_array()
        .unwrap()
    {
        assert_eq!(
            (target["health"].as_str(), target["lastError"].as_str()),
            (Some("up"), Some("")),
            "{target}"
        );
    }
    // OpenMetrics is what it asked for: only there counters have units.
    let data = api(host, "/api/v1/metadata?metric=mpt_path_sent_bytes");
    assert_eq!(data["mpt_path_sent_bytes"][0]["unit"], "bytes", "{data}");

    let mut found = 0;
    for (panel, expression) in dashboard() {
        let expression = expression
            .replace("$__rate_interval", "5s")
            .replace("$instance", ".*")
            .replace("$tunnel", "mpt0");
        assert!(!expression.contains('$'), "{expression}");
        let results = query(host, &expression).len();
        let is_later = LATER.iter().any(|name| expression.contains(name));
        assert!(
            results > 0 || is_later,
            "{panel}: nothing is found by {expression}"
        );
        found += usize::from(results > 0);
    }
    println!("{found} queries of the dashboard found something");

    for group in api(host, "/api/v1/rules")["groups"].as_array().unwrap() {
        for rule in group["rules"].as_array().unwrap() {
            assert_eq!(rule["health"], "ok", "{rule}");
        }
    }
    tunnel.hosts.links[0].down(host);
    wait_for("the path and its alert", PATIENCE, || {
        let path = query(
            host,
            r#"mpt_path_state{peer="",path="path0",state="down"} == 1"#,
        );
        let alert = query(
            host,
            r#"ALERTS{alertname="MptPathDown",path="path0",alertstate="pending"}"#,
        );
        (path.len() == 1 && alert.len() == 1).then_some(())
    });
    drop((traffic, prometheus));
    // Whoever is being asked ends all the same.
    tunnel.a.terminate();
}

/// promtool finds nothing to say of either end's page, of the rules and of their tests; what stands on the page is what
/// mpt-ctl says.
#[test]
fn promtool_has_nothing_to_say_and_the_numbers_are_those_of_status() {
    let Some(_turn) = net::turn() else { return };
    let tunnel = client_and_hub([
        "[metrics]\nlisten = \"127.0.0.1:9754\"",
        "[metrics]\nlisten = \"127.0.0.1:9754\"",
    ]);
    let before = tunnel.a.status();
    let page = metrics(&tunnel.hosts.a, HERE);
    let after = tunnel.a.status();
    for (at, path) in before.paths.iter().enumerate() {
        let name = &path.name;
        let sent = value(
            &page,
            &format!(r#"mpt_path_sent_bytes_total{{tunnel="mpt0",path="{name}"}}"#),
        );
        let [before, after] = [path.tx_bytes, after.paths[at].tx_bytes].map(|bytes| bytes as f64);
        assert!((before..=after).contains(&sent), "{before} {sent} {after}");
        assert_eq!(
            value(
                &page,
                &format!(r#"mpt_path_state{{tunnel="mpt0",path="{name}",state="up"}}"#)
            ),
            1.0
        );
    }
    assert_eq!(
        value(&page, r#"mpt_tunnel_verdict{tunnel="mpt0",level="ok"}"#),
        1.0
    );
    let mtu = f64::from(before.tunnel.mtu);
    assert_eq!(value(&page, r#"mpt_tunnel_mtu_bytes{tunnel="mpt0"}"#), mtu);

    let hubs = metrics(&tunnel.hosts.b, HERE);
    assert_eq!(value(&hubs, r#"mpt_hub_peers{tunnel="mpt0"}"#), 2.0);
    assert_eq!(value(&hubs, r#"mpt_hub_peers_up{tunnel="mpt0"}"#), 1.0);
    assert_eq!(
        value(
            &hubs,
            r#"mpt_peer_state{tunnel="mpt0",peer="bob",state="away"}"#
        ),
        1.0
    );
    let rtt = value(
        &hubs,
        r#"mpt_path_rtt_seconds{tunnel="mpt0",peer="alice",path="path1"}"#,
    );
    assert!(rtt > 0.0 && rtt < 1.0, "{rtt}");
    let limit = value(
        &hubs,
        r#"mpt_peer_rate_limit_bytes_per_second{tunnel="mpt0",peer="alice"}"#,
    );
    assert_eq!(limit, 125e6);

    let Some(program) = of_prometheus("promtool") else {
        return;
    };
    for page in [&page, &hubs] {
        assert_eq!(promtool(&program, &["check", "metrics"], page), "");
    }
    let rules = repository("packaging/prometheus/mpt.rules.yml");
    promtool(&program, &["check", "rules", rules.to_str().unwrap()], "");
    let tests = repository("packaging/prometheus/mpt.test.yml");
    promtool(&program, &["test", "rules", tests.to_str().unwrap()], "");
}

/// The names of a daemon's threads, with what each may do.
fn threads(id: u32) -> Vec<(String, String)> {
    let tasks = std::fs::read_dir(format!("/proc/{id}/task")).unwrap();
    let status =
        tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("status")).ok());
    let field = |text: &str, key: &str| {
        let line = text.lines().find(|line| line.starts_with(key)).unwrap();
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    status
        .map(|text| (field(&text, "Name:"), field(&text, "CapPrm:")))
        .collect()
}

fn of_metrics(id: u32) -> Vec<String> {
    let named = threads(id)
        .into_iter()
        .filter(|(name, _)| name == "mpt-metrics");
    named.map(|(_, bits)| bits).collect()
}

/// Without `[metrics]` there is nothing; a reload makes it, moves it and takes it away; what cannot be had is missing.
#[test]
fn metrics_are_where_the_configuration_says_and_nowhere_else() {
    let Some(_turn) = net::turn() else { return };
    let mut tunnel = two_ends("");
    let (host, id) = (&tunnel.hosts.a, tunnel.a.id());
    let listening = || host.run("ss -Hltn");
    assert_eq!((listening().as_str(), of_metrics(id).len()), ("", 0));
    let text = std::fs::read_to_string(tunnel.a.config()).unwrap();
    let change = |lines: &str| {
        std::fs::write(tunnel.a.config(), format!("{text}\n{lines}\n")).unwrap();
        tunnel.a.ctl_text(&["reload"])
    };
    change("[metrics]\nlisten = \"127.0.0.1:9754\"");
    wait_for("a page", PATIENCE, || get(host, HERE, "/metrics"));
    // Whoever connects there reaches a thread that may do nothing.
    assert_eq!(of_metrics(id), ["0000000000000000"]);
    assert!(tunnel.a.status().tunnel.missing.is_empty());

    let socket = tunnel.a.socket().with_file_name("metrics.sock");
    change(&format!(
        "[metrics]\nlisten = \"unix:{}\"\nmode = \"0660\"",
        socket.display()
    ));
    wait_for("the socket", PATIENCE, || UnixStream::connect(&socket).ok());
    assert_eq!(
        socket.metadata().unwrap().permissions().mode() & 0o777,
        0o660
    );
    assert_eq!((listening().as_str(), of_metrics(id).len()), ("", 1));
    let ask = || converse(UnixStream::connect(&socket).ok()?, &asked_for("/metrics"));
    assert!(
        ask()
            .unwrap()
            .1
            .contains("mpt_tunnel_running{tunnel=\"mpt0\"} 1\n")
    );
    // Whose file somebody has removed is there again.
    std::fs::remove_file(&socket).unwrap();
    wait_for("the socket again", PATIENCE, ask);

    // An address that comes later is waited for, and it is said so, by the reload that asks for it.
    let lacking = "missing, and tried again until it is there: place for metrics, 192.0.2.7:9754 (";
    let told = change("[metrics]\nlisten = \"192.0.2.7:9754\"");
    assert!(told.contains(lacking), "{told}");
    assert!(!socket.exists());
    let missing = tunnel.a.status();
    let what: Vec<&str> = missing
        .tunnel
        .missing
        .iter()
        .map(|one| one.what.as_str())
        .collect();
    assert_eq!(what, ["place for metrics, 192.0.2.7:9754"]);
    assert!(
        missing
            .verdict
            .messages
            .iter()
            .any(|message| message.code == "missing")
    );
    let told = change("[metrics]\nlisten = \"127.0.0.1:9754\"");
    assert!(!told.contains("missing"), "{told}");
    let told = change("[metrics]\nlisten = \"192.0.2.7:9754\"");
    assert!(told.contains(lacking), "{told}");
    // A reload tries it at once.
    host.run("ip address add 192.0.2.7/32 dev lo");
    let told = tunnel.a.ctl_text(&["reload"]);
    assert!(!told.contains("missing"), "{told}");
    host.run("ip address del 192.0.2.7/32 dev lo");
    // Without one it is tried by itself.
    let told = change("[metrics]\nlisten = \"192.0.2.7:9755\"");
    assert!(told.contains("missing"), "{told}");
    host.run("ip address add 192.0.2.7/32 dev lo");
    wait_for("a page there", PATIENCE, || {
        get(host, "192.0.2.7:9755", "/metrics")
    });
    wait_for("nothing missing", PATIENCE, || {
        tunnel.a.status().tunnel.missing.is_empty().then_some(())
    });

    change("");
    wait_for("nothing that listens", PATIENCE, || {
        (listening().is_empty() && of_metrics(id).is_empty()).then_some(())
    });
    // None of it has touched the tunnel.
    assert!(
        tunnel.a.log().lines().all(|line| !line.contains("ERROR")),
        "{}",
        tunnel.a.log()
    );
    tunnel.a.terminate();
}

/// Connections that say nothing, too much, or nonsense, a thousand of them: they cost a counter, and neither packets nor
/// who has a right to ask.
#[test]
fn who_would_rather_harm_costs_a_counter() {
    let Some(_turn) = net::turn() else { return };
    let mut tunnel = two_ends("[metrics]\nlisten = \"127.0.0.1:9754\"");
    let host = &tunnel.hosts.a;
    metrics(host, HERE);
    let before = tunnel.a.process().peak_resident_bytes();
    let pinging = host.start("ping -q -i 0.01 -c 200 10.99.0.2");
    let open = || host.inside(|| TcpStream::connect(HERE)).unwrap();
    // More than are served, and less than the kernel keeps waiting: others would be turned away by it.
    let silent: Vec<TcpStream> = (0..60).map(|_| open()).collect();
    let mut large = Vec::new();
    for round in 0..40 {
        for words in [
            "\0\0\0\0\r\n\r\n",
            "GET / HTTP/1.1\r\n\r\n",
            "POST /metrics HTTP/1.1\r\nContent-Length: 9999999\r\n\r\n",
        ] {
            let mut stream = open();
            let _ = stream.write_all(words.as_bytes());
            large.push(stream);
        }
        if round % 8 == 0 {
            let mut stream = open();
            let _ = stream.write_all(&vec![b'x'; 1 << 20]);
            large.push(stream);
        }
        // Whoever leaves makes room.
        large.drain(..large.len().saturating_sub(20));
    }
    let page = wait_for("a page beside them", PATIENCE, || {
        get(host, HERE, "/metrics")
    })
    .1;
    drop((silent, large));
    let counted = |outcome: &str| {
        value(
            &page,
            &format!(r#"mpt_metrics_connections_total{{outcome="{outcome}"}}"#),
        )
    };
    let counts = ["served", "not_found", "malformed", "slow", "cut_off"].map(counted);
    println!("served, not found, malformed, slow, cut off: {counts:?}");
    assert!(counts[4] >= 50.0, "{counts:?}");
    assert!(counts[1] + counts[2] >= 20.0, "{counts:?}");
    let files = std::fs::read_dir(format!("/proc/{}/fd", tunnel.a.id())).unwrap();
    assert!(files.count() < 60);
    let more = tunnel.a.process().peak_resident_bytes() - before;
    assert!(more < 8 << 20, "{more} bytes more");
    let mut pinging = pinging;
    pinging.wait(PATIENCE);
    let said = pinging.stdout();
    assert!(said.contains(" 0% packet loss"), "{said}");
}

/// With `user` the other process makes the socket for metrics as well.
#[test]
fn a_daemon_with_a_user_of_its_own_has_its_socket_made() {
    let Some(_turn) = net::turn() else { return };
    let uids = std::fs::read_to_string("/proc/self/uid_map").unwrap();
    if uids.split_whitespace().nth(2) == Some("1") {
        return net::skip("this user namespace has one user alone");
    }
    let host = Namespace::new("alone");
    let daemon = Daemon::start(&host, "mpt0", |socket| {
        format!(
            "user = \"65533:65533\"\n[tunnel]\nname = \"mpt0\"\n[control]\nsocket = \"{socket}\"\n[metrics]\n\
             listen = \"{}/metrics.sock\"\n[[paths]]\nname = \"a\"\nlocal = \"127.0.0.1\"\nremote = \"127.0.0.2\"\n",
            folder_of(socket)
        )
    });
    let socket = daemon.socket().with_file_name("metrics.sock");
    let page = || converse(UnixStream::connect(&socket).ok()?, &asked_for("/metrics"));
    let (_, page) = wait_for("a page", PATIENCE, page);
    assert_eq!(
        value(&page, r#"mpt_tunnel_verdict{tunnel="mpt0",level="down"}"#),
        1.0
    );
    let mut daemon = daemon;
    daemon.terminate();
    assert!(!socket.exists(), "the socket for metrics is left behind");
}

//! `mpt-ctl history` and `mpt-ctl log`.

use mpt_core::control::history::{History, Minute, PathHistory};
use mpt_core::control::{Answer, LogLevel, LogStatus, PathState, Reply, Request};
use serde_json::Value;

use crate::{Mock, run, text};

/// 2026-01-31 12:00 UTC.
const NOON_US: u64 = 1_769_860_800_000_000;

fn history() -> Reply {
    let minute = |number: u64| Minute {
        at_us: NOON_US + number * 60_000_000,
        span_ms: 60_000,
        up_ms: 60_000,
        state: PathState::Up,
        tx_bytes: 7_500_000,
        tx_bps: 1_000_000,
        tx_max_bps: 2_000_000,
        rtt_min_us: Some(9_000),
        rtt_us: Some(10_000),
        rtt_max_us: Some(12_000),
        loss: Some(0.0),
        ..Minute::default()
    };
    let path = PathHistory {
        name: "lte".into(),
        present: true,
        minutes: vec![minute(0), minute(1), minute(30)],
    };
    Reply::Ok(Answer::History(Box::new(History {
        tunnel: "mpt0".into(),
        at_us: NOON_US + 31 * 60_000_000,
        whole: None,
        paths: vec![path],
    })))
}

fn asked() -> Vec<Request> {
    let path = Some("lte".to_owned());
    vec![Request::History { path }]
}

#[test]
fn the_history_of_a_path_is_a_line_a_minute_and_gaps_are_left_out() {
    let daemon = Mock::answering(&history());
    let output = run(&daemon.socket, "history lte");
    let shown = text(&output.stdout);
    let times: Vec<&str> = shown.lines().skip(2).map(|line| &line[..5]).collect();
    assert_eq!(times, ["12:00", "12:01", "12:30"], "{shown}");
    assert_eq!(daemon.requests(), asked());
}

#[test]
fn the_history_is_drawn_where_it_is_wanted() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("lte.svg");
    let daemon = Mock::answering(&history());
    let here = text(&run(&daemon.socket, "history lte --svg").stdout);
    assert!(
        here.starts_with("<svg") && here.ends_with("</svg>\n"),
        "{here}"
    );
    assert!(here.contains("hours before 2026-01-31 12:31 UTC"), "{here}");
    let daemon = Mock::answering(&history());
    let beside = run(
        &daemon.socket,
        &format!("history lte --svg {}", file.display()),
    );
    assert!(text(&beside.stdout).contains("path lte"), "{beside:?}");
    assert_eq!(
        text(&beside.stderr),
        format!("mpt-ctl: drawn into {}\n", file.display())
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), here);
}

#[test]
fn a_path_behind_svg_is_not_taken_for_the_chart_s_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("eth0");
    std::fs::write(&file, "mine").unwrap();
    let words = format!("history --svg {}", file.display());
    let output = run(&dir.path().join("no-daemon"), &words);
    assert_eq!(output.status.code(), Some(64));
    let said = text(&output.stderr);
    assert!(
        said.contains("does not end in .svg") && said.contains("the path before --svg"),
        "{said}"
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
}

#[test]
fn the_history_is_json_for_scripts() {
    let daemon = Mock::answering(&history());
    let output = run(&daemon.socket, "--json history lte");
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let minutes = value["paths"][0]["minutes"].as_array().unwrap();
    assert_eq!(minutes.len(), 3);
    assert_eq!(minutes[2]["at_us"], NOON_US + 30 * 60_000_000);
    assert_eq!(minutes[0]["rtt_min_us"], 9_000);
}

#[test]
fn a_level_is_shown_changed_and_checked_before_anything_is_sent() {
    let (level, was) = (LogLevel::Debug, Some(LogLevel::Info));
    let daemon = Mock::answering(&Reply::Ok(Answer::Log(LogStatus { level, was })));
    let output = run(&daemon.socket, "log debug");
    assert_eq!(
        text(&output.stdout),
        "The log level is debug now; it was info.\n"
    );
    assert_eq!(daemon.requests(), [Request::Log { level: Some(level) }]);
    let nobody = tempfile::tempdir().unwrap();
    let wrong = run(&nobody.path().join("mpt0.sock"), "log loud");
    assert_eq!(wrong.status.code(), Some(64));
    let said = text(&wrong.stderr);
    assert!(said.contains("error, warn, info, debug, trace"), "{said}");
}

#[test]
fn the_columns_of_a_history_are_explained_where_they_are_printed() {
    let nobody = tempfile::tempdir().unwrap();
    let help = text(&run(&nobody.path().join("none"), "history --help").stdout);
    for column in ["UP", "SENT", "RECEIVED", "OUT, IN", "RTT", "LOSS", "AGAIN"] {
        assert!(help.contains(&format!("  {column} ")), "{column} in {help}");
    }
}

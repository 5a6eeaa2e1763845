//! `mpt-ctl trace`: why the rate of a path is what it is.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use mpt_core::control::trace::{Decision, RatePhase, Trace, Why};
use mpt_core::control::{Answer, Reply, Request};
use serde_json::{Value, json};

use crate::{Mock, ctl, interrupt, line, run, text};

fn decision(ms: u64, why: Why, rate_bps: Option<u64>) -> Decision {
    Decision {
        // 2026-01-31 12:34:56 UTC
        at_us: 1_769_862_896_000_000 + ms * 1000,
        phase: rate_bps.map_or(RatePhase::Open, |_| RatePhase::Cruise),
        why,
        rate_bps,
        capacity_bps: 20_000_000,
        delivered_bps: 19_000_000,
        queue_us: 31_000,
        target_us: 5000,
        loss: 0.0,
    }
}

fn reply(first: u64, decisions: Vec<Decision>) -> Reply {
    let path = "lte".into();
    Reply::Ok(Answer::Trace(Trace {
        path,
        first,
        decisions,
    }))
}

fn asked(from: u64) -> Request {
    let name = "lte".into();
    Request::Trace { name, from }
}

#[test]
fn a_trace_says_why_the_rate_fell_and_draws_it() {
    let dir = tempfile::tempdir().unwrap();
    let svg = dir.path().join("lte.svg");
    let decisions = vec![
        decision(0, Why::New, None),
        decision(1500, Why::Queue, Some(17_000_000)),
    ];
    let daemon = Mock::answering(&reply(0, decisions));
    let output = run(
        &daemon.socket,
        &format!("trace lte --svg {}", svg.display()),
    );
    assert!(output.status.success(), "{output:?}");
    let shown = text(&output.stdout);
    let fell = shown.lines().last().unwrap();
    assert!(
        fell.starts_with("12:34:57.500  cruise") && fell.contains(" queue: packets queue"),
        "{shown}"
    );
    assert_eq!(daemon.requests(), [asked(0)]);
    let drawn = std::fs::read_to_string(&svg).unwrap();
    assert!(
        drawn.contains("Rate of path lte since 2026-01-31T12:34:56"),
        "{drawn}"
    );
}

#[test]
fn a_trace_that_is_followed_goes_on_with_what_is_new() {
    let daemon = Mock::start(
        [
            reply(7, vec![decision(0, Why::New, None)]),
            reply(8, vec![]),
            reply(8, vec![decision(900, Why::Loss, Some(9_000_000))]),
        ]
        .iter()
        .map(line)
        .collect(),
    );
    let mut child = ctl(&daemon.socket, "trace lte --follow --json")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next()["why"], json!("new"));
    assert_eq!(next()["why"], json!("loss"));
    assert_eq!(daemon.requests(), [asked(0), asked(8), asked(8)]);
    // The daemon has gone by now, which may be what ends it.
    let ended = interrupt(&mut child);
    assert!(matches!(ended.code(), Some(0 | 3)), "{ended:?}");
}

#[test]
fn the_columns_of_a_trace_are_explained_where_they_are_printed() {
    let help = text(&run(Path::new("/nonexistent"), "trace --help").stdout);
    for column in [
        "PHASE", "Mbit/s", "CARRIES", "DELIVERS", "QUEUE", "AIM", "LOSS", "WHY",
    ] {
        assert!(help.contains(&format!("  {column} ")), "{column} in {help}");
    }
}

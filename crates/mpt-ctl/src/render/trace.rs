//! The decisions on a path's rate, a line each.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use mpt_core::control::trace::{COLUMNS, Decision, Trace};

/// All of it, or why there is nothing.
pub(crate) fn show(trace: &Trace) -> String {
    match trace.decisions.first() {
        Some(first) => head(&trace.path, first) + &lines(&trace.decisions),
        None => format!(
            "path {}: nothing was decided yet; its rate is found once packets go over it and the peer reports them\n",
            trace.path
        ),
    }
}

/// What stands above the first line.
pub(crate) fn head(path: &str, first: &Decision) -> String {
    let at = written(first.at_us);
    format!("path {path}, {} UTC\nTIME          {COLUMNS}\n", &at[..10])
}

/// A line for each decision.
pub(crate) fn lines(decisions: &[Decision]) -> String {
    let mut text = String::new();
    for decision in decisions {
        let _ = writeln!(text, "{}  {decision}", &written(decision.at_us)[11..23]);
    }
    text
}

/// A moment as `2026-01-31T12:34:56.789Z`, of 24 characters. What nobody's clock says is the end of the year 9999.
pub(crate) fn written(at_us: u64) -> String {
    let end = Duration::from_secs(253_402_300_799);
    let since = Duration::from_micros(at_us).min(end);
    humantime::format_rfc3339_millis(SystemTime::UNIX_EPOCH + since).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpt_core::control::trace::{RatePhase, Why};

    #[test]
    fn a_decision_is_a_line_under_its_columns() {
        let decision = Decision {
            at_us: 1_769_862_896_789_123,
            phase: RatePhase::Cruise,
            why: Why::Queue,
            rate_bps: Some(18_432_000),
            capacity_bps: 20_100_000,
            delivered_bps: 19_800_000,
            queue_us: 31_240,
            target_us: 5000,
            loss: 0.004,
        };
        let open = Decision {
            phase: RatePhase::Open,
            why: Why::New,
            rate_bps: None,
            capacity_bps: 0,
            ..decision
        };
        let trace = Trace {
            path: "lte".into(),
            first: 0,
            decisions: vec![open, decision],
        };
        insta::assert_snapshot!(show(&trace), @r"
        path lte, 2026-01-31 UTC
        TIME          PHASE   Mbit/s CARRIES DELIVERS  QUEUE ms  AIM ms  LOSS %  WHY
        12:34:56.789  open         –       –     19.8      31.2     5.0     0.4  new: nothing is known yet: it takes what there is
        12:34:56.789  cruise    18.4    20.1     19.8      31.2     5.0     0.4  queue: packets queue for longer than is aimed at: it gets less than it carries
        ");
        let none = Trace {
            decisions: vec![],
            ..trace
        };
        assert!(show(&none).contains("nothing was decided yet"));
        assert_eq!(written(u64::MAX).len(), 24);
    }
}

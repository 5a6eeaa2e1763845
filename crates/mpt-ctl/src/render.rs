//! The daemon's answers as text for people.
//!
//! What is wrong comes first, then what moves, then what seldom changes; a count that is there
//! only to be zero is left out. Scripts have `--json`, so that this text may change with what
//! people need.

mod density;
pub(crate) mod history;
mod log;
mod order;
mod paths;
mod peers;
mod reorder;
mod status;
pub(crate) mod trace;

use mpt_core::control::{Answer, PathState, PathStatus};

use mpt_core::control::units::{percent, time_us};
use mpt_measure::table::{Cell, Look, Tone, WIDTH, truncated};

/// Stands where nothing has been measured yet.
const UNKNOWN: &str = "–";

/// The answer as text that fits [`WIDTH`] columns.
pub(crate) fn text(answer: &Answer, look: Look) -> String {
    match answer {
        Answer::Status(status) => status::show(status, look),
        Answer::Paths(paths) => paths::show(paths, look),
        Answer::Peers(peers) => peers::show(peers, look),
        Answer::Peer(peer) => peers::show_one(peer, look),
        Answer::Reorder(reorder) => reorder::show(reorder, look),
        Answer::Trace(trace) => trace::show(trace),
        Answer::History(history) => history::show(history, false, look),
        Answer::Log(log) => log::show(*log),
        Answer::Done(sentence) => format!("{sentence}\n"),
    }
}

fn state(state: PathState) -> Cell {
    match state {
        PathState::Up => Cell::toned(Tone::Good, "up"),
        PathState::Down => Cell::toned(Tone::Bad, "down"),
        PathState::Probing => Cell::toned(Tone::Doubtful, "probing"),
        PathState::Waiting => Cell::toned(Tone::Doubtful, "waiting"),
        PathState::AdminDown => Cell::toned(Tone::Doubtful, "admin-down"),
    }
}

/// Where nothing was measured, as of a hub's own sockets, none is known.
fn loss(path: &PathStatus) -> Cell {
    if path.rtt_us.is_none() && path.loss == 0.0 {
        return UNKNOWN.into();
    }
    let tone = if path.loss >= 0.01 {
        Tone::Doubtful
    } else {
        Tone::Plain
    };
    Cell::toned(tone, percent(path.loss))
}

fn measured(time: Option<u64>) -> String {
    time.map_or(UNKNOWN.into(), time_us)
}

/// "local → remote on device", on two lines where one is too short.
fn endpoints(path: &PathStatus) -> Vec<String> {
    let device = path
        .interface
        .as_ref()
        .map(|name| format!(" on {name}"))
        .unwrap_or_default();
    let line = format!("{} → {}{device}", path.local, path.remote);
    if line.chars().count() <= WIDTH - 2 {
        return vec![line];
    }
    vec![
        path.local.clone(),
        truncated(&format!("→ {}{device}", path.remote), WIDTH - 2),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpt_core::control::verdict::judge;
    use mpt_core::control::{HoldTimes, ReorderStatus, Status, TunnelStatus};
    use mpt_measure::table::{Side, Table};

    pub(super) const PLAIN: Look = Look {
        colour: false,
        wrap: true,
    };

    /// A tunnel with a path that is well and one that is not.
    pub(super) fn example() -> Status {
        let path = PathStatus {
            name: "fibre".into(),
            state: PathState::Up,
            weight: 100,
            local: "10.1.0.1:4754".into(),
            remote: "10.1.0.2:4754".into(),
            interface: Some("eth0".into()),
            rtt_us: Some(10_340),
            rtt_min_us: Some(10_020),
            tx_packets: 1_234_567,
            tx_bytes: 1_812_345_678,
            rx_packets: 456_789,
            rx_bytes: 45_678_900,
            rx_delay_us: Some(0),
            tx_bps: 95_300_000,
            rx_bps: 2_100_000,
            mtu: 1464,
            receive_buffer_bytes: 4_194_304,
            receive_buffer_wanted_bytes: 4_194_304,
            ..PathStatus::default()
        };
        let satellite = PathStatus {
            name: "satellite-behind-the-barn-at-the-far-end".into(),
            state: PathState::Down,
            reason: Some("no answer for 1.2 s".into()),
            weight: 50,
            local: "[2001:db8:1234:5678:9abc:def0:1234:5678]:4754".into(),
            remote: "[2001:db8:8765:4321:9abc:def0:8765:4321]:4754".into(),
            interface: None,
            rtt_us: None,
            rtt_min_us: None,
            loss: 0.023,
            rx_delay_us: None,
            tx_bps: 0,
            rx_bps: 0,
            socket_drops: 17,
            ..path.clone()
        };
        let mut status = Status {
            tunnel: TunnelStatus {
                name: "mpt0".into(),
                mtu: 1464,
                session: "3f2a9c0d11e84b57".into(),
                peer_session: Some("77aa01b2c3d4e5f6".into()),
                uptime_s: 7980,
                tx_packets: 2_469_134,
                tx_bytes: 3_600_000_000,
                rx_packets: 913_578,
                rx_bytes: 91_000_000,
                drops: [
                    ("no_path".into(), 12),
                    ("too_big".into(), 0),
                    ("stranger".into(), 3),
                ]
                .into(),
                config: "/etc/mpt/mpt0.toml".into(),
                scheduler: "weighted".into(),
                offload: "plain".into(),
                ..TunnelStatus::default()
            },
            paths: vec![path, satellite],
            reorder: ReorderStatus {
                window: 1024,
                max_buffer_delay_us: 300_000,
                held: 12,
                held_max: 512,
                in_order: 900_000,
                reordered: 13_578,
                late: 4,
                duplicates: 1,
                passed: 2345,
                gaps_seen: 4722,
                gaps_open: 2,
                gaps_filled: 4700,
                gaps_recovered: 11,
                gaps_inferred_lost: 8,
                gaps_timed_out: 1,
                hold_us: HoldTimes {
                    p50: 1200,
                    p99: 12_000,
                    max: 24_500,
                },
                recovery_us: HoldTimes {
                    p50: 31_000,
                    p99: 38_000,
                    max: 52_000,
                },
                window_needed: Some(742),
                ..ReorderStatus::default()
            },
            ..Status::default()
        };
        status.verdict = judge(&status);
        status
    }

    #[test]
    fn everything_fits_80_columns_whatever_the_numbers() {
        let mut worst = example();
        for path in &mut worst.paths {
            path.name = "n".repeat(56);
            path.state = PathState::AdminDown;
            path.reason = Some("r".repeat(200));
            path.interface = Some("a-long-name-of-15".into());
            path.weight = u32::MAX;
            path.mtu = u32::MAX;
            path.loss = 0.999;
            path.rtt_us = Some(99_900_000);
            path.rtt_min_us = Some(99_900_000);
            path.rx_delay_us = Some(99_900_000);
            (path.tx_bps, path.rx_bps) = (u64::MAX, u64::MAX);
            (path.tx_packets, path.rx_packets) = (u64::MAX, u64::MAX);
            path.socket_drops = u64::MAX;
        }
        worst
            .tunnel
            .drops
            .values_mut()
            .for_each(|count| *count = u64::MAX);
        worst.reorder = ReorderStatus {
            in_order: u64::MAX,
            reordered: u64::MAX,
            gaps_filled: u64::MAX,
            gaps_timed_out: u64::MAX,
            ..worst.reorder
        };
        let shown = status::show(&worst, PLAIN)
            + &paths::show(&worst.paths, PLAIN)
            + &reorder::show(&worst.reorder, PLAIN);
        for line in shown.lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
    }

    #[test]
    fn a_loss_that_nobody_measured_is_unknown() {
        let shown = |path: &PathStatus| {
            let mut table = Table::new([("LOSS", Side::Left)]);
            table.row([loss(path)]);
            let text = table.show(PLAIN).to_string();
            text.lines().last().unwrap_or_default().trim().to_owned()
        };
        let mut path = PathStatus::default();
        assert_eq!(shown(&path), UNKNOWN);
        // A path that was given up after it had lost everything.
        path.loss = 1.0;
        assert_eq!(shown(&path), "100 %");
        (path.loss, path.rtt_us) = (0.0, Some(10_000));
        assert_eq!(shown(&path), "0 %");
    }
}

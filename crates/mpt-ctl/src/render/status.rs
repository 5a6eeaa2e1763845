//! `mpt-ctl status`: the tunnel as a whole.

use mpt_core::control::budgets::BudgetState;
use mpt_core::control::classes::ClassStatus;
use mpt_core::control::drops::DropReason;
use mpt_core::control::verdict::Level;
use mpt_core::control::{
    HubStatus, PathState, PathStatus, Protection, RecoveryStatus, Status, TunnelStatus,
};

use super::{UNKNOWN, endpoints, loss, measured, reorder, state};
use mpt_core::control::units::{bits_per_second, bytes, long_time_s};
use mpt_measure::table::{Cell, Look, Side, Table, Tone};

/// The tunnel as a whole.
pub(super) fn show(status: &Status, look: Look) -> String {
    let tunnel = &status.tunnel;
    let title = format!(
        "tunnel {}, running for {}",
        tunnel.name,
        long_time_s(tunnel.uptime_s)
    );
    let mut text = look.paint(Tone::Heading, &title) + "\n";
    text += &verdict(status, look);
    text += "\n";
    text += &match &status.hub {
        Some(hub) => hub_overview(hub, &status.paths).show(look),
        None => path_overview(&status.paths).show(look),
    };
    text += "\n";
    text += &tunnel_traffic(status).show(look);
    if !status.classes.is_empty() {
        text += "\n";
        text += &classes(&status.classes).show(look);
    }
    let dropped = drops(status);
    if let Some(dropped) = dropped {
        text += "\n";
        text += &dropped.show(look);
    }
    text += "\n";
    text + &settings(status, look)
}

/// What is wrong, each in a line that begins with `!`; or that nothing is. Then what there is to note.
fn verdict(status: &Status, look: Look) -> String {
    let mut text = String::new();
    let up = status
        .paths
        .iter()
        .filter(|path| path.state == PathState::Up);
    match (status.verdict.level, up.count()) {
        // What carries packets without being up has a note of its own.
        (Level::Degraded | Level::Down, _) | (Level::Ok, 0) => {}
        (Level::Ok, 1) => text += &look.sentence(Tone::Good, "", "All is well: 1 path up."),
        (Level::Ok, count) => {
            text += &look.sentence(Tone::Good, "", &format!("All is well: {count} paths up."));
        }
    }
    for finding in &status.verdict.messages {
        let (tone, mark) = match finding.level {
            Level::Ok => (Tone::Plain, "- "),
            Level::Degraded | Level::Down => (Tone::Bad, "! "),
        };
        text += &look.sentence(tone, mark, &finding.sentence());
    }
    text
}

fn path_overview(paths: &[PathStatus]) -> Table<7> {
    let mut table = Table::new([
        ("PATH", Side::Left),
        ("STATE", Side::Left),
        ("WEIGHT", Side::Right),
        ("RTT", Side::Right),
        ("LOSS", Side::Right),
        ("OUT", Side::Right),
        ("IN", Side::Right),
    ]);
    for path in paths {
        table.row([
            (&path.name).into(),
            state(path.state),
            path.weight.into(),
            measured(path.rtt_us).into(),
            loss(path),
            bits_per_second(path.tx_bps).into(),
            bits_per_second(path.rx_bps).into(),
        ]);
        endpoints(path)
            .into_iter()
            .chain(costs(path))
            .for_each(|line| table.below(line));
    }
    table
}

/// What a path costs and has carried of its budget, where there is something to say.
fn costs(path: &PathStatus) -> Vec<String> {
    let cost = (path.cost > 0).then(|| format!("cost {}", path.cost));
    let budget = path.budget.as_ref().map(|budget| {
        let forecast = budget.forecast_bytes.map_or_else(String::new, |forecast| {
            format!(", {} by then at this rate", bytes(forecast))
        });
        let is = match budget.state {
            BudgetState::Open => "",
            BudgetState::LastResort => ", used up: last resort",
            BudgetState::Off => ", used up: off",
        };
        format!(
            "budget {} of {} until {}{forecast}{is}",
            bytes(budget.used_bytes),
            bytes(budget.limit_bytes),
            budget.resets
        )
    });
    cost.into_iter().chain(budget).collect()
}

/// A hub's paths are where peers call; `mpt-ctl peers` shows the peers.
fn hub_overview(hub: &HubStatus, paths: &[PathStatus]) -> Table<3> {
    let mut table = Table::new([
        ("HUB", Side::Left),
        ("STATE", Side::Left),
        ("AT", Side::Left),
    ]);
    for path in paths {
        table.row([
            (&path.name).into(),
            state(path.state),
            path.local.as_str().into(),
        ]);
    }
    table.below(format!("{} of {} peers up", hub.up, hub.peers));
    if hub.unlisted > 0 {
        table.below(format!("{} are too many to be listed", hub.unlisted));
    }
    table
}

fn tunnel_traffic(status: &Status) -> Table<4> {
    let tunnel = &status.tunnel;
    let rate = |of: fn(&PathStatus) -> u64| {
        let rate = status.rate_bps(of);
        rate.map_or_else(|| UNKNOWN.to_owned(), bits_per_second)
    };
    let mut table = Table::new([
        ("TUNNEL", Side::Left),
        ("RATE", Side::Right),
        ("PACKETS", Side::Right),
        ("BYTES", Side::Right),
    ]);
    let out = rate(|path| path.tx_bps);
    table.row([
        "out".into(),
        out.into(),
        tunnel.tx_packets.into(),
        bytes(tunnel.tx_bytes).into(),
    ]);
    let inward = rate(|path| path.rx_bps);
    table.row([
        "in".into(),
        inward.into(),
        tunnel.rx_packets.into(),
        bytes(tunnel.rx_bytes).into(),
    ]);
    table
}

/// The classes, and what became of their packets.
fn classes(classes: &[ClassStatus]) -> Table<8> {
    let mut table = Table::new([
        ("CLASS", Side::Left),
        ("POLICY", Side::Left),
        ("PRIORITY", Side::Left),
        ("PATHS", Side::Left),
        ("PACKETS", Side::Right),
        ("BYTES", Side::Right),
        ("COPIES", Side::Right),
        ("DROPPED", Side::Right),
    ]);
    for class in classes {
        table.row([
            class.name.as_str().into(),
            class.policy.as_str().into(),
            class.priority.as_str().into(),
            class.paths.join(",").into(),
            class.packets.into(),
            bytes(class.bytes).into(),
            class.copies.into(),
            (class.dropped_no_path + class.dropped_queue).into(),
        ]);
    }
    table
}

/// The drops that happened, or nothing.
fn drops(status: &Status) -> Option<Table<3>> {
    let mut table = Table::new([
        ("DROPPED", Side::Left),
        ("PACKETS", Side::Right),
        ("", Side::Left),
    ]);
    let mut any = false;
    for (reason, &count) in status.tunnel.drops.iter().filter(|(_, count)| **count > 0) {
        any = true;
        let meaning = DropReason::named(reason).map_or("", DropReason::meaning);
        table.row([
            reason.into(),
            count.into(),
            Cell::toned(Tone::Faint, meaning),
        ]);
    }
    any.then_some(table)
}

fn settings(status: &Status, look: Look) -> String {
    let tunnel = &status.tunnel;
    let session = match &tunnel.peer_session {
        Some(peer) => format!("{}, the peer's {peer}", tunnel.session),
        None if status.hub.is_some() => tunnel.session.clone(),
        None => format!("{}, the peer sends no probes", tunnel.session),
    };
    let window = match status.hub {
        None => reorder::window(&status.reorder),
        Some(_) => "Each peer's by itself: `mpt-ctl peer show NAME`.".to_owned(),
    };
    let mut text = look.sentence(Tone::Plain, "reorder    ", &window);
    let scheduler = match tunnel.unreported {
        true => format!(
            "{}, but by weight: the peer sends no reports",
            tunnel.scheduler
        ),
        false => tunnel.scheduler.clone(),
    };
    let idle = match tunnel.idle {
        true => "nothing was carried for some seconds, so paths are probed seldom",
        false => "",
    };
    for (mark, value) in [
        ("idle       ", &idle.to_owned()),
        ("waiting    ", &waiting(tunnel)),
        ("recovery   ", &recovery(&tunnel.recovery)),
        ("mtu        ", &tunnel.mtu.to_string()),
        ("scheduler  ", &scheduler),
        ("offload    ", &tunnel.offload),
        ("protection ", &protection(tunnel.protection).to_owned()),
        ("session    ", &session),
        ("config     ", &tunnel.config),
    ] {
        if !value.is_empty() {
            text += &look.sentence(Tone::Plain, mark, value);
        }
    }
    text
}

fn protection(protection: Protection) -> &'static str {
    match protection {
        Protection::None => "none: anybody on the way can read and forge packets",
        Protection::Waiting => "waiting for the peer; nothing goes before its keys are agreed",
        Protection::Aes256Gcm => "sealed with AES-256-GCM",
        Protection::ChaCha20Poly1305 => "sealed with ChaCha20-Poly1305",
    }
}

/// What waits for a path; nothing when nothing does.
fn waiting(tunnel: &TunnelStatus) -> String {
    match tunnel.queue_packets {
        0 => String::new(),
        packets => format!(
            "{packets} packets, {}, until a path can take them",
            bytes(tunnel.queue_bytes)
        ),
    }
}

/// What was sent again; nothing while nothing was.
fn recovery(recovery: &RecoveryStatus) -> String {
    if recovery.resent + recovery.probes == 0 {
        return String::new();
    }
    format!(
        "{} packets found lost, {} sent again ({}), of these {} needlessly, and {} probes",
        recovery.lost,
        recovery.resent,
        bytes(recovery.resent_bytes),
        recovery.spurious,
        recovery.probes
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::tests::{PLAIN, example};
    use mpt_core::control::PeerStatus;
    use mpt_core::control::budgets::BudgetStatus;
    use mpt_core::control::verdict::judge;

    #[test]
    fn status_reads() {
        insta::assert_snapshot!(show(&example(), PLAIN), @r"
        tunnel mpt0, running for 2 h 13 min
        ! Path satellite-behind-the-barn-at-the-far-end is down: no answer for 1.2 s.

        PATH                      STATE  WEIGHT      RTT   LOSS          OUT          IN
        fibre                     up        100  10.3 ms    0 %  95.3 Mbit/s  2.1 Mbit/s
          10.1.0.1:4754 → 10.1.0.2:4754 on eth0
        satellite-behind-the-ba…  down       50        –  2.3 %      0 bit/s     0 bit/s
          [2001:db8:1234:5678:9abc:def0:1234:5678]:4754
          → [2001:db8:8765:4321:9abc:def0:8765:4321]:4754

        TUNNEL         RATE  PACKETS    BYTES
        out     95.3 Mbit/s  2469134   3.6 GB
        in       2.1 Mbit/s   913578  91.0 MB

        DROPPED   PACKETS
        no_path        12  no path was up
        stranger        3  not from the peer of the path

        reorder    Window 1024 packets, hold at most 300 ms, late packets are delivered.
        mtu        1464
        scheduler  weighted
        offload    plain
        protection none: anybody on the way can read and forge packets
        session    3f2a9c0d11e84b57, the peer's 77aa01b2c3d4e5f6
        config     /etc/mpt/mpt0.toml
        ");
    }

    #[test]
    fn costs_and_budgets_stand_below_their_path() {
        let budget = BudgetStatus {
            limit_bytes: 50_000_000_000,
            used_bytes: 12_345_678_901,
            resets: "2026-12-01".to_owned(),
            forecast_bytes: Some(16_200_000_000),
            ..BudgetStatus::default()
        };
        let mut path = PathStatus {
            budget: Some(budget),
            ..PathStatus::default()
        };
        let line = "budget 12.3 GB of 50.0 GB until 2026-12-01, 16.2 GB by then at this rate";
        assert_eq!(costs(&path), [line]);
        path.cost = 5;
        if let Some(budget) = &mut path.budget {
            (budget.forecast_bytes, budget.state) = (None, BudgetState::Off);
        }
        let line = "budget 12.3 GB of 50.0 GB until 2026-12-01, used up: off";
        assert_eq!(costs(&path), ["cost 5", line]);
        assert!(costs(&PathStatus::default()).is_empty());
    }

    #[test]
    fn a_hubs_rates_are_its_peers() {
        let path = |tx_bps| PathStatus {
            tx_bps,
            ..PathStatus::default()
        };
        let mut hub = Status {
            paths: vec![path(0)],
            hub: Some(HubStatus::default()),
            ..Status::default()
        };
        hub.peers.resize_with(2, || PeerStatus {
            paths: vec![path(2_000_000), path(1_000_000)],
            ..PeerStatus::default()
        });
        insta::assert_snapshot!(tunnel_traffic(&hub).show(PLAIN), @r"
        TUNNEL        RATE  PACKETS  BYTES
        out     6.0 Mbit/s        0    0 B
        in         0 bit/s        0    0 B
        ");
        // The rates of some of them are no sum.
        let listed = HubStatus {
            peers: 30_000,
            unlisted: 29_998,
            ..HubStatus::default()
        };
        hub.hub = Some(listed.clone());
        assert_eq!(hub.rate_bps(|path| path.tx_bps), None);
        insta::assert_snapshot!(hub_overview(&listed, &hub.paths).show(PLAIN), @r"
        HUB  STATE    AT
             probing
          0 of 30000 peers up
          29998 are too many to be listed
        ");
    }

    #[test]
    fn status_of_a_healthy_tunnel_shows_no_drops() {
        let mut healthy = example();
        healthy.paths.pop();
        healthy.tunnel.drops.clear();
        healthy.tunnel.peer_session = None;
        healthy.paths[0].receive_buffer_bytes = 425_984;
        healthy.verdict = judge(&healthy);
        insta::assert_snapshot!(show(&healthy, PLAIN), @r"
        tunnel mpt0, running for 2 h 13 min
        All is well: 1 path up.
        - The receive buffer of path fibre is 426 kB where 4.2 MB are wanted: bursts may
          be lost. `sysctl -w net.core.rmem_max=4194304` and a restart of mpt-tund give
          it.

        PATH   STATE  WEIGHT      RTT  LOSS          OUT          IN
        fibre  up        100  10.3 ms   0 %  95.3 Mbit/s  2.1 Mbit/s
          10.1.0.1:4754 → 10.1.0.2:4754 on eth0

        TUNNEL         RATE  PACKETS    BYTES
        out     95.3 Mbit/s  2469134   3.6 GB
        in       2.1 Mbit/s   913578  91.0 MB

        reorder    Window 1024 packets, hold at most 300 ms, late packets are delivered.
        mtu        1464
        scheduler  weighted
        offload    plain
        protection none: anybody on the way can read and forge packets
        session    3f2a9c0d11e84b57, the peer sends no probes
        config     /etc/mpt/mpt0.toml
        ");
    }
}

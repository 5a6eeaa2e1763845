//! `mpt-ctl peers` and `mpt-ctl peer show`: who is at a hub.

use mpt_core::control::drops::DropReason;
use mpt_core::control::units::{bits_per_second, bytes};
use mpt_core::control::{PathState, PathStatus, PeerReport, PeerState, PeerStatus};
use mpt_measure::table::{Cell, Look, Side, Table, Tone};

use super::{paths, reorder};

/// All peers, a line each.
pub(super) fn show(peers: &[PeerStatus], look: Look) -> String {
    if peers.is_empty() {
        return "The hub has no peers.\n".into();
    }
    let mut table = Table::new([
        ("PEER", Side::Left),
        ("STATE", Side::Left),
        ("PATHS", Side::Left),
        ("OUT", Side::Right),
        ("IN", Side::Right),
        ("SENT", Side::Right),
        ("RECEIVED", Side::Right),
    ]);
    for peer in peers {
        let rate = |of: fn(&PathStatus) -> u64| {
            bits_per_second(peer.paths.iter().map(of).fold(0, u64::saturating_add))
        };
        table.row([
            (&peer.name).into(),
            peer_state(peer.state),
            path_names(peer).as_str().into(),
            rate(|path| path.tx_bps).into(),
            rate(|path| path.rx_bps).into(),
            bytes(peer.tx_bytes).into(),
            bytes(peer.rx_bytes).into(),
        ]);
    }
    let up = peers.iter().filter(|peer| peer.state == PeerState::Up);
    format!(
        "{}\n{} of {} up\n",
        table.show(look),
        up.count(),
        peers.len()
    )
}

fn peer_state(state: PeerState) -> Cell {
    let tone = match state {
        PeerState::Up => Tone::Good,
        PeerState::Down => Tone::Bad,
        PeerState::Away => Tone::Doubtful,
    };
    Cell::toned(tone, word(state))
}

fn word(state: PeerState) -> &'static str {
    match state {
        PeerState::Up => "up",
        PeerState::Down => "down",
        PeerState::Away => "away",
    }
}

/// "fibre, lte (down)".
fn path_names(peer: &PeerStatus) -> String {
    let told = |path: &PathStatus| match path.state {
        PathState::Up => path.name.clone(),
        PathState::Probing => format!("{} (probing)", path.name),
        PathState::Down | PathState::Waiting | PathState::AdminDown => {
            format!("{} (down)", path.name)
        }
    };
    peer.paths.iter().map(told).collect::<Vec<_>>().join(", ")
}

/// One peer in full.
pub(super) fn show_one(report: &PeerReport, look: Look) -> String {
    let peer = &report.peer;
    let title = format!("peer {}, {}", peer.name, word(peer.state));
    let mut text = look.paint(Tone::Heading, &title) + "\n";
    for (mark, value) in [
        ("key        ", peer.public_key.clone()),
        ("addresses  ", peer.allowed_ips.join(", ")),
        (
            "rate limit ",
            match peer.rate_limit_bps {
                Some(rate) => format!("{} each way", bits_per_second(rate)),
                None => "none".to_owned(),
            },
        ),
    ] {
        text += &look.sentence(Tone::Plain, mark, &value);
    }
    if peer.state != PeerState::Away {
        text += "\n";
        text += &paths::show(&peer.paths, look);
        text += "\n";
        text += &reorder::show(&report.reorder, look);
    }
    let recovery = &report.recovery;
    let again = format!(
        "{} packets found lost, {} sent again",
        recovery.lost, recovery.resent
    );
    text += &look.sentence(Tone::Plain, "recovery   ", &again);
    let mut table = Table::new([
        ("DROPPED", Side::Left),
        ("PACKETS", Side::Right),
        ("", Side::Left),
    ]);
    for (name, count) in &peer.drops {
        let meaning = DropReason::named(name).map_or("", DropReason::meaning);
        table.row([name.as_str().into(), (*count).into(), meaning.into()]);
    }
    if !peer.drops.is_empty() {
        text += "\n";
        text += &table.show(look);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::tests::PLAIN;

    #[test]
    fn peers_read() {
        let path = |name: &str, state| PathStatus {
            name: name.into(),
            state,
            ..PathStatus::default()
        };
        let alice = PeerStatus {
            name: "alice".into(),
            state: PeerState::Up,
            paths: vec![path("fibre", PathState::Up), path("lte", PathState::Down)],
            tx_bytes: 3_600_000,
            ..PeerStatus::default()
        };
        let bob = PeerStatus {
            name: "bob".into(),
            ..PeerStatus::default()
        };
        insta::assert_snapshot!(show(&[alice, bob], PLAIN), @r"
        PEER   STATE  PATHS                  OUT       IN    SENT  RECEIVED
        alice  up     fibre, lte (down)  0 bit/s  0 bit/s  3.6 MB       0 B
        bob    away                      0 bit/s  0 bit/s     0 B       0 B

        1 of 2 up
        ");
    }
}

//! What the machine grants: receive buffers and packet sizes.

use super::{Code, Finding, counted, lately};
use crate::control::Status;
use crate::control::drops::DropReason;
use crate::control::units::bytes;

/// One datagram in so many that overflows a buffer is felt as loss.
const NOTABLE_DROPS: u64 = 1000;

pub(super) fn findings(status: &Status) -> Vec<Finding> {
    let mut found = Vec::new();
    found.extend(receive_buffers(status));
    found.extend(too_big(status));
    found
}

fn receive_buffers(status: &Status) -> Option<Finding> {
    let paths = &status.paths;
    let wanted = paths.iter().map(|path| path.receive_buffer_wanted_bytes);
    let wanted = wanted.max()?;
    let recent = status.recent.paths.values();
    let (dropped, received) = recent.fold((0_u64, 0_u64), |(dropped, received), path| {
        (
            dropped.saturating_add(path.socket_drops),
            received.saturating_add(path.rx_packets),
        )
    });
    let small = paths
        .iter()
        .find(|path| path.receive_buffer_bytes < path.receive_buffer_wanted_bytes);
    let remedy =
        format!("`sysctl -w net.core.rmem_max={wanted}` and a restart of mpt-tund give it.");
    let overflows = dropped > 0 && dropped >= received / NOTABLE_DROPS;
    let lost = || {
        let datagrams = counted(dropped, "datagram");
        let lately = lately(status);
        format!("{datagrams} overflowed the receive buffers {lately}")
    };
    match (small, overflows) {
        (None, false) => None,
        (Some(path), false) => Some(Finding::note(
            Code::ReceiveBufferSmall,
            format!(
                "The receive buffer of path {} is {} where {} are wanted: bursts may be lost.",
                path.name,
                bytes(path.receive_buffer_bytes),
                bytes(wanted)
            ),
            remedy,
        )),
        (Some(path), true) => Some(Finding::degraded(
            Code::ReceiveBufferFull,
            format!(
                "{}: {} granted where {} are wanted.",
                lost(),
                bytes(path.receive_buffer_bytes),
                bytes(wanted)
            ),
            remedy,
        )),
        (None, true) => Some(Finding::degraded(
            Code::ReceiveBufferFull,
            format!(
                "{}, although all that was wanted is granted: this machine is too slow for what \
                 arrives.",
                lost()
            ),
            "",
        )),
    }
}

fn too_big(status: &Status) -> Option<Finding> {
    let too_big = status.recent.dropped(DropReason::TooBig);
    (too_big > 0 && too_big >= status.recent.tx_packets / NOTABLE_DROPS).then(|| {
        Finding::note(
            Code::TooBig,
            format!(
                "{} {} too big for the paths {}; the senders were told.",
                counted(too_big, "packet"),
                if too_big == 1 { "was" } else { "were" },
                lately(status)
            ),
            "If it goes on they do not heed \"packet too big\": lower mtu in [tunnel], or clamp their TCP \
             MSS.",
        )
    })
}

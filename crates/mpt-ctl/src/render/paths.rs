//! `mpt-ctl paths`: each path in full.

use mpt_core::control::{PEERS_CALL, PathPhase, PathStatus};

use super::{UNKNOWN, endpoints, loss, measured, state};
use mpt_core::control::units::{bits_per_second, bytes, percent, time_us};
use mpt_measure::table::{Cell, Look, Side, Table, Tone, WIDTH, truncated};

/// Each path in full.
pub(super) fn show(paths: &[PathStatus], look: Look) -> String {
    if paths.is_empty() {
        return "The tunnel has no paths.\n".into();
    }
    let mut links = Table::new([
        ("PATH", Side::Left),
        ("STATE", Side::Left),
        ("WEIGHT", Side::Right),
        ("RTT", Side::Right),
        ("LEAST", Side::Right),
        ("LATER BY", Side::Right),
        ("LOSS", Side::Right),
        ("MTU", Side::Right),
    ]);
    for path in paths {
        links.row([
            (&path.name).into(),
            state(path.state),
            path.weight.into(),
            measured(path.rtt_us).into(),
            measured(path.rtt_min_us).into(),
            measured(path.rx_delay_us).into(),
            loss(path),
            path.mtu.into(),
        ]);
        endpoints(path)
            .into_iter()
            .for_each(|line| links.below(line));
        if let Some(reason) = &path.reason {
            links.below(truncated(reason, WIDTH - 2));
        }
        if path.socket_drops > 0 {
            let buffer = bytes(path.receive_buffer_bytes);
            links.below(format!(
                "{} datagrams lost at the receive buffer of {buffer}",
                path.socket_drops
            ));
        }
    }
    let mut text = format!("{}\n{}", links.show(look), traffic(paths).show(look));
    if let Some(estimates) = estimates(paths) {
        text += "\n";
        text += &estimates.show(look);
    }
    text
}

/// What the adaptive scheduler makes of the paths; nothing before it has learnt something.
fn estimates(paths: &[PathStatus]) -> Option<Table<6>> {
    let mut table = Table::new([
        ("PATH", Side::Left),
        ("TAKES", Side::Right),
        ("DELIVERS", Side::Right),
        ("QUEUE", Side::Right),
        ("LOSES", Side::Right),
        ("", Side::Left),
    ]);
    let known = |path: &&PathStatus| path.tx_delivered_bps > 0 || path.tx_limit_bps.is_some();
    let mut any = false;
    for path in paths.iter().filter(known) {
        any = true;
        let takes = path.tx_limit_bps.map_or("all".into(), bits_per_second);
        table.row([
            (&path.name).into(),
            takes.into(),
            bits_per_second(path.tx_delivered_bps).into(),
            time_us(path.tx_queue_us).into(),
            percent(path.tx_usual_loss).into(),
            Cell::toned(Tone::Faint, why(path.tx_phase)),
        ]);
    }
    any.then_some(table)
}

/// Why a path takes what it takes.
fn why(phase: PathPhase) -> &'static str {
    match phase {
        PathPhase::Open => "its limit has not shown",
        PathPhase::Limited => "paced at what it delivers",
        PathPhase::Draining => "run dry to measure its delay",
        PathPhase::Competing => "others fill its queue",
        PathPhase::Suspected => "suspected: nothing that it was given arrives",
    }
}

fn traffic(paths: &[PathStatus]) -> Table<5> {
    let mut table = Table::new([
        ("PATH", Side::Left),
        ("", Side::Left),
        ("RATE", Side::Right),
        ("DATAGRAMS", Side::Right),
        ("BYTES", Side::Right),
    ]);
    for path in paths {
        let name = &path.name;
        // The rates at a hub are its peers'.
        let rate = |bps| match path.remote.as_str() {
            PEERS_CALL => UNKNOWN.to_owned(),
            _ => bits_per_second(bps),
        };
        table.row([
            name.into(),
            "out".into(),
            rate(path.tx_bps).into(),
            path.tx_packets.into(),
            bytes(path.tx_bytes).into(),
        ]);
        table.row([
            "".into(),
            "in".into(),
            rate(path.rx_bps).into(),
            path.rx_packets.into(),
            bytes(path.rx_bytes).into(),
        ]);
        if path.control_tx_bytes + path.control_rx_bytes > 0 {
            table.below(format!(
                "of these for probes, reports and handshakes, with IP and UDP: {} out, {} in",
                bytes(path.control_tx_bytes),
                bytes(path.control_rx_bytes)
            ));
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::tests::{PLAIN, example};

    #[test]
    fn paths_read() {
        insta::assert_snapshot!(show(&example().paths, PLAIN), @r"
        PATH                      STATE  WEIGHT      RTT    LEAST  LATER BY   LOSS   MTU
        fibre                     up        100  10.3 ms  10.0 ms      0 µs    0 %  1464
          10.1.0.1:4754 → 10.1.0.2:4754 on eth0
        satellite-behind-the-ba…  down       50        –        –         –  2.3 %  1464
          [2001:db8:1234:5678:9abc:def0:1234:5678]:4754
          → [2001:db8:8765:4321:9abc:def0:8765:4321]:4754
          no answer for 1.2 s
          17 datagrams lost at the receive buffer of 4.2 MB

        PATH                                                  RATE  DATAGRAMS    BYTES
        fibre                                     out  95.3 Mbit/s    1234567   1.8 GB
                                                  in    2.1 Mbit/s     456789  45.7 MB
        satellite-behind-the-barn-at-the-far-end  out      0 bit/s    1234567   1.8 GB
                                                  in       0 bit/s     456789  45.7 MB
        ");
    }

    #[test]
    fn a_hubs_paths_have_no_rate() {
        let path = PathStatus {
            name: "isp".into(),
            remote: PEERS_CALL.into(),
            ..PathStatus::default()
        };
        insta::assert_snapshot!(traffic(&[path]).show(PLAIN), @r"
        PATH       RATE  DATAGRAMS  BYTES
        isp   out     –          0    0 B
              in      –          0    0 B
        ");
    }

    #[test]
    fn estimates_of_the_adaptive_scheduler_read() {
        let mut paths = example().paths;
        paths[0].tx_delivered_bps = 95_300_000;
        paths[0].tx_limit_bps = Some(96_100_000);
        paths[0].tx_queue_us = 4_900;
        paths[0].tx_phase = PathPhase::Limited;
        paths[1].tx_delivered_bps = 8_000_000;
        paths[1].tx_usual_loss = 0.012;
        let text = estimates(&paths).unwrap().show(PLAIN);
        insta::assert_snapshot!(text, @r"
        PATH                TAKES     DELIVERS   QUEUE  LOSES
        fibre         96.1 Mbit/s  95.3 Mbit/s  4.9 ms    0 %  paced at what it delivers
        satellite-b…          all   8.0 Mbit/s    0 µs  1.2 %  its limit has not shown
        ");
    }
}

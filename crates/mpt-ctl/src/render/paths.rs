//! `mpt-ctl paths`: each path in full.

use mpt_core::control::PathStatus;

use super::{endpoints, loss, measured, state};
use crate::table::{Look, Side, Table, WIDTH, truncated};
use crate::units::{bits_per_second, bytes};

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
    format!("{}\n{}", links.show(look), traffic(paths).show(look))
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
        table.row([
            name.into(),
            "out".into(),
            bits_per_second(path.tx_bps).into(),
            path.tx_packets.into(),
            bytes(path.tx_bytes).into(),
        ]);
        table.row([
            "".into(),
            "in".into(),
            bits_per_second(path.rx_bps).into(),
            path.rx_packets.into(),
            bytes(path.rx_bytes).into(),
        ]);
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
}

//! What is wrong with a tunnel, in sentences: the first thing an operator wants to know.
//!
//! Each rule looks at the numbers for one situation and says what it is, what it costs and what
//! would mend it. They stand in the order of their weight: a tunnel without a path needs no
//! advice on its window. Strangers knock at every open port, so counts that only they can raise
//! matter once they are a noticeable share of what arrives.

use mpt_core::control::{PathState, PathStatus, ReorderMode, ReorderStatus, Status};

use crate::units::{bits_per_second, bytes, percent, time_us};

/// Delay difference below which packets on different paths hardly overtake each other.
const SIGNIFICANT_DELAY_US: u64 = 1000;
/// Share of gaps from which their end by timeout or overflow is worth a word.
const NOTABLE_GAPS: f64 = 0.01;
/// Gaps below which a share means nothing.
const ENOUGH_GAPS: u64 = 100;
/// Drops are worth a word when they are at least one in this many packets.
const NOTABLE_DROPS: u64 = 1000;
/// A window that is proposed is at least this.
const LEAST_PROPOSAL: u64 = 1024;
/// The largest window that the daemon takes.
const LARGEST_WINDOW: u64 = 32_768;

/// The result of [`diagnose`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Findings {
    /// One sentence for each thing that is wrong, most important first.
    pub(crate) wrong: Vec<String>,
    /// What to say when nothing is.
    pub(crate) verdict: String,
}

/// Looks for everything that is known to go wrong.
pub(crate) fn diagnose(status: &Status) -> Findings {
    let mut wrong = Vec::new();
    wrong.extend(no_path_up(status));
    wrong.extend(
        status
            .paths
            .iter()
            .filter(|path| !is_used_unprobed(status, path))
            .filter_map(path_not_up),
    );
    wrong.extend(window(status));
    wrong.extend(timeouts(status));
    wrong.extend(socket_buffers(&status.paths));
    wrong.extend(mtu(status));
    wrong.extend(strangers(status));
    let unprobed = status
        .paths
        .iter()
        .any(|path| is_used_unprobed(status, path));
    let verdict = match up(&status.paths).count() {
        0 if unprobed => {
            "The peer sends no probes: every path carries its share, and silence is not noticed."
                .into()
        }
        1 => "All is well: 1 path up.".into(),
        count => format!("All is well: {count} paths up."),
    };
    Findings { wrong, verdict }
}

fn up(paths: &[PathStatus]) -> impl Iterator<Item = &PathStatus> {
    paths.iter().filter(|path| path.state == PathState::Up)
}

/// Whether the path carries packets of a peer that does not probe, and so never comes up.
fn is_used_unprobed(status: &Status, path: &PathStatus) -> bool {
    let silent_peer = status.tunnel.peer_session.is_none() && status.tunnel.rx_packets > 0;
    silent_peer && path.state == PathState::Probing
}

fn no_path_up(status: &Status) -> Option<String> {
    let paths = &status.paths;
    if paths.is_empty() {
        return Some("The tunnel has no paths: add [[paths]] to the configuration.".into());
    }
    let used = paths.iter().any(|path| is_used_unprobed(status, path));
    if used || up(paths).next().is_some() {
        return None;
    }
    Some("No path is up: nothing gets through the tunnel. Is mpt-tund running at the other end, and is UDP let through to its port?".into())
}

fn path_not_up(path: &PathStatus) -> Option<String> {
    let name = &path.name;
    let why = path
        .reason
        .as_deref()
        .map(|reason| format!(": {reason}"))
        .unwrap_or_default();
    match path.state {
        PathState::Up => None,
        PathState::Down => Some(format!("Path {name} is down{why}.")),
        PathState::Probing => {
            let why = if why.is_empty() {
                ": no probe has been answered yet"
            } else {
                &why
            };
            Some(format!("Path {name} is not up yet{why}."))
        }
        PathState::AdminDown => Some(format!(
            "Path {name} is out of service by command; `mpt-ctl path up {name}` brings it back."
        )),
    }
}

/// The greatest difference of delay between paths that are up, where it is known.
fn delay_difference_us(paths: &[PathStatus]) -> Option<u64> {
    let delays: Vec<u64> = up(paths).filter_map(|path| path.rx_delay_us).collect();
    let difference = delays.iter().max()? - delays.iter().min()?;
    (delays.len() > 1).then_some(difference)
}

/// At most one word on the window, so that one cause does not speak twice.
fn window(status: &Status) -> Option<String> {
    if status.reorder.window == 0 {
        return nothing_held(status);
    }
    window_too_small(status).or_else(|| window_overflows(&status.reorder))
}

fn nothing_held(status: &Status) -> Option<String> {
    let difference = delay_difference_us(&status.paths).unwrap_or(0);
    let needed = status.reorder.window_needed.unwrap_or(0);
    let several = up(&status.paths).count() > 1;
    // What differs by less than a block may be put in order within one.
    let harmless = status.reorder.block_size.map_or(1, u64::from);
    let matters = several && (difference >= SIGNIFICANT_DELAY_US || needed > harmless);
    let (what, remedy) = match status.reorder.mode {
        ReorderMode::Window => (
            "Reordering is off",
            "`mpt-ctl reorder set window=auto` puts them in order",
        ),
        ReorderMode::Block => (
            "Block sort holds nothing",
            "mode = \"window\" in [reorder] puts them in order",
        ),
    };
    matters.then(|| {
        format!(
            "{what}, yet the paths differ by {}: packets leave the tunnel out of order; {remedy}.",
            time_us(difference)
        )
    })
}

fn window_too_small(status: &Status) -> Option<String> {
    let have = status.reorder.window;
    if status.reorder.window_auto && u64::from(have) < status.reorder.window_limit {
        return None;
    }
    let needed = status
        .reorder
        .window_needed
        .filter(|needed| *needed > have.into())?;
    let difference = time_us(delay_difference_us(&status.paths).unwrap_or(0));
    let rates = up(&status.paths).map(|path| path.rx_bps);
    let rate = bits_per_second(rates.fold(0, u64::saturating_add));
    let remedy = if status.reorder.window_auto {
        "memory allows no more, so take the slowest path out of service".into()
    } else if needed <= LARGEST_WINDOW {
        let proposal = proposed_window(needed);
        format!("`mpt-ctl reorder set window={proposal}` would do")
    } else {
        format!("the largest is {LARGEST_WINDOW}, so take the slowest path out of service")
    };
    Some(format!(
        "The reorder window of {have} is too small for paths that differ by {difference} at \
         {rate}: it needs {needed}; {remedy}."
    ))
}

fn window_overflows(reorder: &ReorderStatus) -> Option<String> {
    let have = u64::from(reorder.window);
    let share = share_of_gaps(reorder, reorder.gaps_overflowed)?;
    (have < LARGEST_WINDOW && !reorder.window_auto).then(|| {
        format!(
            "{} of gaps ended because the reorder window of {have} was full; `mpt-ctl reorder set \
             window={}` holds more.",
            percent(share),
            proposed_window(have * 2)
        )
    })
}

/// A window that leaves room above what is needed: the next power of two that the daemon takes.
fn proposed_window(needed: u64) -> u64 {
    let needed = needed.clamp(LEAST_PROPOSAL, LARGEST_WINDOW);
    needed.next_power_of_two()
}

/// The share of gaps that ended in one way, where it is worth a word.
fn share_of_gaps(reorder: &ReorderStatus, ended: u64) -> Option<f64> {
    let share = ended as f64 / reorder.gaps_seen.max(1) as f64;
    (reorder.gaps_seen >= ENOUGH_GAPS && share >= NOTABLE_GAPS).then_some(share)
}

fn timeouts(status: &Status) -> Option<String> {
    let reorder = &status.reorder;
    let difference = delay_difference_us(&status.paths);
    let hold = reorder.max_buffer_delay_us;
    if reorder.max_buffer_delay_auto {
        return None;
    }
    if let Some(difference) =
        difference.filter(|difference| *difference >= hold && reorder.window > 0)
    {
        // A quarter more leaves room for jitter; whole milliseconds read better.
        let enough_ms = difference.saturating_add(difference / 4).div_ceil(1000);
        return Some(format!(
            "max_buffer_delay of {} is too short for paths that differ by {}; `mpt-ctl reorder set \
             max_buffer_delay={enough_ms}ms` would do.",
            time_us(hold),
            time_us(difference)
        ));
    }
    let share = percent(share_of_gaps(reorder, reorder.gaps_timed_out)?);
    let hold = time_us(hold);
    if reorder.late >= reorder.gaps_timed_out / 2 {
        return Some(format!(
            "{share} of gaps timed out after max_buffer_delay = {hold}, and packets came later \
             than that: raise it with `mpt-ctl reorder set max_buffer_delay=…`."
        ));
    }
    let differ = difference
        .map(|us| format!(", which differ by {}", time_us(us)))
        .unwrap_or_default();
    Some(format!(
        "{share} of gaps timed out after max_buffer_delay = {hold} with nothing coming later: \
         packets are lost on the paths{differ}; a shorter max_buffer_delay makes such stalls shorter."
    ))
}

fn socket_buffers(paths: &[PathStatus]) -> Option<String> {
    let wanted = paths
        .iter()
        .map(|path| path.receive_buffer_wanted_bytes)
        .max()?;
    let drops: u64 = paths
        .iter()
        .map(|path| path.socket_drops)
        .fold(0, u64::saturating_add);
    let small = paths
        .iter()
        .find(|path| path.receive_buffer_bytes < path.receive_buffer_wanted_bytes);
    let remedy =
        format!("`sysctl -w net.core.rmem_max={wanted}` and a restart of mpt-tund give it");
    match (small, drops) {
        (None, 0) => None,
        (Some(path), 0) => Some(format!(
            "The receive buffer of path {} is {} where {} are wanted: bursts will be lost; {remedy}.",
            path.name,
            bytes(path.receive_buffer_bytes),
            bytes(wanted)
        )),
        (Some(path), drops) => Some(format!(
            "{drops} datagrams were lost because receive buffers overflowed: {} granted where {} \
             are wanted; {remedy}.",
            bytes(path.receive_buffer_bytes),
            bytes(wanted)
        )),
        (None, drops) => Some(format!(
            "{drops} datagrams were lost because receive buffers overflowed, although all that was \
             wanted is granted: this machine is too slow for what arrives."
        )),
    }
}

fn mtu(status: &Status) -> Option<String> {
    let tunnel = &status.tunnel;
    let narrow = status
        .paths
        .iter()
        .filter(|path| path.mtu > 0 && path.mtu < tunnel.mtu);
    if let Some(path) = narrow.min_by_key(|path| path.mtu) {
        let mtu = path.mtu;
        return Some(format!(
            "Path {} carries packets of {mtu} bytes at most, the tunnel's MTU is {}: larger packets \
             are fragmented or refused; set mtu = {mtu} in [tunnel].",
            path.name, tunnel.mtu
        ));
    }
    let too_big = dropped(status, "too_big");
    notable(too_big, tunnel.tx_packets).then(|| {
        format!(
            "{too_big} packets were too big for the paths: their senders may not heed \"packet too \
             big\"; lower mtu in [tunnel], or clamp their TCP MSS."
        )
    })
}

/// Drops of what is not the peer's, or is not as both ends should have agreed.
fn strangers(status: &Status) -> Vec<String> {
    let rules = [
        (
            "bad_key",
            "carried no GRE key or a wrong one: `key` in [tunnel] must be the same at both ends.",
        ),
        (
            "stranger",
            "came from addresses that are no path's remote: the peer's source addresses or ports may differ from the configuration (NAT?)",
        ),
        (
            "bad_gre",
            "were not GRE: something else sends to the tunnel's port.",
        ),
        (
            "bad_checksum",
            "had a wrong GRE checksum: something on the way damages packets.",
        ),
        (
            "unknown_protocol",
            "carried neither IP nor control messages: is the other end an MPT tunnel with the same settings?",
        ),
        (
            "jump",
            "had sequence numbers far from the last: is the peer's tunnel used by two daemons?",
        ),
        (
            "tun_write",
            "were refused by the tunnel's interface: is it up?",
        ),
    ];
    let told = rules.iter().filter_map(|(reason, text)| {
        let count = dropped(status, reason);
        notable(count, status.tunnel.rx_packets)
            .then(|| format!("{count} datagrams received since start {text}"))
    });
    told.collect()
}

fn dropped(status: &Status, reason: &str) -> u64 {
    status.tunnel.drops.get(reason).copied().unwrap_or(0)
}

fn notable(drops: u64, packets: u64) -> bool {
    drops > 0 && drops >= packets / NOTABLE_DROPS
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpt_core::control::TunnelStatus;

    fn path(name: &str) -> PathStatus {
        PathStatus {
            name: name.into(),
            state: PathState::Up,
            mtu: 1464,
            rx_bps: 75_000_000,
            receive_buffer_bytes: 4_194_304,
            receive_buffer_wanted_bytes: 4_194_304,
            ..PathStatus::default()
        }
    }

    /// Two paths that differ by 40 ms and a window that suffices.
    fn healthy() -> Status {
        let mut paths = vec![path("fibre"), path("lte")];
        paths[0].rx_delay_us = Some(0);
        paths[1].rx_delay_us = Some(40_000);
        Status {
            tunnel: TunnelStatus {
                peer_session: Some("1".into()),
                mtu: 1464,
                tx_packets: 1_000_000,
                rx_packets: 1_000_000,
                drops: [("stranger".into(), 0), ("bad_key".into(), 0)].into(),
                ..TunnelStatus::default()
            },
            paths,
            reorder: ReorderStatus {
                window: 1024,
                max_buffer_delay_us: 300_000,
                gaps_seen: 10_000,
                window_needed: Some(600),
                ..ReorderStatus::default()
            },
        }
    }

    fn wrong(change: impl FnOnce(&mut Status)) -> Vec<String> {
        let mut status = healthy();
        change(&mut status);
        diagnose(&status).wrong
    }

    fn only(change: impl FnOnce(&mut Status)) -> String {
        let mut wrong = wrong(change);
        assert_eq!(wrong.len(), 1, "{wrong:#?}");
        wrong.remove(0)
    }

    #[test]
    fn a_healthy_tunnel_is_said_to_be_well() {
        assert_eq!(wrong(|_| {}), Vec::<String>::new());
        assert_eq!(diagnose(&healthy()).verdict, "All is well: 2 paths up.");
        let one = Status {
            paths: vec![path("only")],
            ..healthy()
        };
        assert_eq!(diagnose(&one).verdict, "All is well: 1 path up.");
    }

    #[test]
    fn a_peer_that_does_not_probe_is_no_fault() {
        let mut status = healthy();
        status.tunnel.peer_session = None;
        status.tunnel.rx_packets = 100;
        for path in &mut status.paths {
            path.state = PathState::Probing;
        }
        let findings = diagnose(&status);
        assert_eq!(findings.wrong, Vec::<String>::new());
        insta::assert_snapshot!(findings.verdict, @"The peer sends no probes: every path carries its share, and silence is not noticed.");
    }

    #[test]
    fn a_tunnel_without_a_path_up_says_so_first() {
        insta::assert_snapshot!(
            wrong(|status| {
                status.paths[0].state = PathState::Down;
                status.paths[0].reason = Some("no answer for 1.2 s".into());
                status.paths[1].state = PathState::Probing;
                status.tunnel.drops.insert("bad_key".into(), 5000);
            }).join("\n"),
            @r"
            No path is up: nothing gets through the tunnel. Is mpt-tund running at the other end, and is UDP let through to its port?
            Path fibre is down: no answer for 1.2 s.
            Path lte is not up yet: no probe has been answered yet.
            5000 datagrams received since start carried no GRE key or a wrong one: `key` in [tunnel] must be the same at both ends.
            "
        );
        insta::assert_snapshot!(only(|status| status.paths.clear()), @"The tunnel has no paths: add [[paths]] to the configuration.");
    }

    #[test]
    fn a_path_that_is_not_up_is_named_with_its_reason() {
        insta::assert_snapshot!(
            only(|status| {
                status.paths[1].state = PathState::Down;
                status.paths[1].reason = Some("link of eth1 is down".into());
            }),
            @"Path lte is down: link of eth1 is down."
        );
        insta::assert_snapshot!(only(|status| status.paths[1].state = PathState::AdminDown), @"Path lte is out of service by command; `mpt-ctl path up lte` brings it back.");
    }

    #[test]
    fn a_window_below_the_need_is_named_with_one_that_would_do() {
        insta::assert_snapshot!(only(|status| status.reorder.window = 256), @"The reorder window of 256 is too small for paths that differ by 40.0 ms at 150 Mbit/s: it needs 600; `mpt-ctl reorder set window=1024` would do.");
        insta::assert_snapshot!(
            only(|status| status.reorder.window_needed = Some(1500)),
            @"The reorder window of 1024 is too small for paths that differ by 40.0 ms at 150 Mbit/s: it needs 1500; `mpt-ctl reorder set window=2048` would do."
        );
        insta::assert_snapshot!(
            only(|status| status.reorder.window_needed = Some(100_000)),
            @"The reorder window of 1024 is too small for paths that differ by 40.0 ms at 150 Mbit/s: it needs 100000; the largest is 32768, so take the slowest path out of service."
        );
    }

    #[test]
    fn reordering_off_matters_only_where_paths_differ() {
        insta::assert_snapshot!(only(|status| status.reorder.window = 0), @"Reordering is off, yet the paths differ by 40.0 ms: packets leave the tunnel out of order; `mpt-ctl reorder set window=auto` puts them in order.");
        insta::assert_snapshot!(only(|status| {
            status.reorder.window = 0;
            status.reorder.mode = ReorderMode::Block;
        }), @r#"Block sort holds nothing, yet the paths differ by 40.0 ms: packets leave the tunnel out of order; mode = "window" in [reorder] puts them in order."#);
        let alike = wrong(|status| {
            status.reorder.window = 0;
            status.reorder.window_needed = None;
            status.paths[1].rx_delay_us = Some(200);
        });
        assert_eq!(alike, Vec::<String>::new());
    }

    #[test]
    fn gaps_that_overflow_ask_for_a_larger_window() {
        insta::assert_snapshot!(only(|status| status.reorder.gaps_overflowed = 500), @"5.0 % of gaps ended because the reorder window of 1024 was full; `mpt-ctl reorder set window=2048` holds more.");
    }

    #[test]
    fn gaps_that_time_out_tell_late_packets_from_lost_ones() {
        insta::assert_snapshot!(
            only(|status| {
                status.reorder.gaps_timed_out = 300;
                status.reorder.late = 290;
            }),
            @"3.0 % of gaps timed out after max_buffer_delay = 300 ms, and packets came later than that: raise it with `mpt-ctl reorder set max_buffer_delay=…`."
        );
        insta::assert_snapshot!(only(|status| status.reorder.gaps_timed_out = 300), @"3.0 % of gaps timed out after max_buffer_delay = 300 ms with nothing coming later: packets are lost on the paths, which differ by 40.0 ms; a shorter max_buffer_delay makes such stalls shorter.");
        assert_eq!(
            wrong(|status| status.reorder.gaps_timed_out = 50),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_hold_below_the_delay_difference_is_too_short() {
        insta::assert_snapshot!(
            only(|status| status.reorder.max_buffer_delay_us = 30_000),
            @"max_buffer_delay of 30.0 ms is too short for paths that differ by 40.0 ms; `mpt-ctl reorder set max_buffer_delay=50ms` would do."
        );
    }

    #[test]
    fn receive_buffers_name_the_sysctl_and_its_value() {
        insta::assert_snapshot!(
            only(|status| status.paths[1].receive_buffer_bytes = 425_984),
            @"The receive buffer of path lte is 426 kB where 4.2 MB are wanted: bursts will be lost; `sysctl -w net.core.rmem_max=4194304` and a restart of mpt-tund give it."
        );
        insta::assert_snapshot!(
            only(|status| {
                status.paths[1].receive_buffer_bytes = 425_984;
                status.paths[1].socket_drops = 77;
            }),
            @"77 datagrams were lost because receive buffers overflowed: 426 kB granted where 4.2 MB are wanted; `sysctl -w net.core.rmem_max=4194304` and a restart of mpt-tund give it."
        );
        insta::assert_snapshot!(only(|status| status.paths[0].socket_drops = 77), @"77 datagrams were lost because receive buffers overflowed, although all that was wanted is granted: this machine is too slow for what arrives.");
    }

    #[test]
    fn a_path_narrower_than_the_tunnel_names_the_mtu_to_set() {
        insta::assert_snapshot!(only(|status| status.paths[1].mtu = 1400), @"Path lte carries packets of 1400 bytes at most, the tunnel's MTU is 1464: larger packets are fragmented or refused; set mtu = 1400 in [tunnel].");
        insta::assert_snapshot!(
            only(|status| {
                status.tunnel.drops.insert("too_big".into(), 2000);
            }),
            @r#"2000 packets were too big for the paths: their senders may not heed "packet too big"; lower mtu in [tunnel], or clamp their TCP MSS."#
        );
    }

    #[test]
    fn drops_of_strangers_count_once_they_are_a_share_of_the_traffic() {
        let with = |reason: &str, count| {
            wrong(|status| {
                status.tunnel.drops.insert(reason.into(), count);
            })
        };
        assert_eq!(with("stranger", 12), Vec::<String>::new());
        let told: Vec<String> = [
            "bad_key",
            "stranger",
            "bad_gre",
            "bad_checksum",
            "unknown_protocol",
            "jump",
            "tun_write",
        ]
        .iter()
        .flat_map(|reason| with(reason, 1000))
        .collect();
        insta::assert_snapshot!(told.join("\n"), @r"
        1000 datagrams received since start carried no GRE key or a wrong one: `key` in [tunnel] must be the same at both ends.
        1000 datagrams received since start came from addresses that are no path's remote: the peer's source addresses or ports may differ from the configuration (NAT?)
        1000 datagrams received since start were not GRE: something else sends to the tunnel's port.
        1000 datagrams received since start had a wrong GRE checksum: something on the way damages packets.
        1000 datagrams received since start carried neither IP nor control messages: is the other end an MPT tunnel with the same settings?
        1000 datagrams received since start had sequence numbers far from the last: is the peer's tunnel used by two daemons?
        1000 datagrams received since start were refused by the tunnel's interface: is it up?
        ");
        let silent = wrong(|status| {
            status.tunnel.rx_packets = 0;
            status.tunnel.drops.insert("bad_key".into(), 1);
        });
        assert_eq!(silent.len(), 1, "where nothing else arrives, one is enough");
    }

    #[test]
    fn absurd_numbers_are_survived() {
        let told = wrong(|status| {
            status.reorder.window = u32::MAX;
            status.reorder.window_needed = Some(u64::MAX);
            status.paths[0].rx_bps = u64::MAX;
            status.paths[0].socket_drops = u64::MAX;
            status.paths[1].socket_drops = u64::MAX;
            status.paths[1].rx_delay_us = Some(u64::MAX);
        });
        assert_eq!(told.len(), 3, "{told:#?}");
    }
}

//! Each code has a rule, and each rule its words.

use super::*;

#[test]
fn every_reason_for_a_drop_has_a_sentence() {
    let each = DropReason::ALL.iter().map(|why| {
        let with = |count| {
            told(|status| {
                status.recent.drops.insert(why.name().into(), count);
                if *why == DropReason::Late {
                    status.recent.late = count;
                }
            })
        };
        assert_eq!(
            with(9),
            "",
            "{}: 9 of 10,000 are not worth a word",
            why.name()
        );
        format!("{}\n    {}", why.name(), with(2000))
    });
    insta::assert_snapshot!(each.collect::<Vec<_>>().join("\n"), @r#"
    tun_queue
        Degraded host-too-fast: In the last 4 s 2000 packets came faster from this host than mpt-tund reads them, and were dropped. This machine is too slow for what it sends.
    no_path
        Ok no-path-lately: In the last 4 s 2000 packets were dropped because no path was up.
    class_paths
        Ok class-paths: In the last 4 s 2000 packets were dropped because no path was up that their class may use. `policy = "sparing"` in [[classes]] wants it so; with another policy they go over the other paths.
    no_keys
        Ok no-keys: In the last 4 s 2000 packets were dropped because no keys were agreed with the peer.
    too_big
        Ok too-big: 2000 packets were too big for the paths in the last 4 s; the senders were told. If it goes on they do not heed "packet too big": lower mtu in [tunnel], or clamp their TCP MSS.
    not_ip
        Ok bad-packets: In the last 4 s 2000 packets from this host were not IP, and were dropped.
    bad_offload
        Ok bad-packets: In the last 4 s 2000 packets from this host were not IP, and were dropped.
    queue_aqm
        Degraded saturated: In the last 4 s 2000 packets did not fit what the paths carry, and were dropped. Something sends more than the paths carry, and does not slow down.
    queue_full
        Degraded saturated: In the last 4 s 2000 packets did not fit what the paths carry, and were dropped. Something sends more than the paths carry, and does not slow down.
    send_full
        Degraded send-drops: In the last 4 s 2000 packets were dropped by this host's own queues on the way out. `tc -s qdisc` shows where; a longer queue there, or a lower rate, helps.
    send_queue
        Degraded send-drops: In the last 4 s 2000 packets were dropped by this host's own queues on the way out. `tc -s qdisc` shows where; a longer queue there, or a lower rate, helps.
    send_error
        Degraded send-refused: In the last 4 s 2000 packets were refused by the kernel on sending. No route, no address, or a firewall of this host.
    stranger
        Ok strangers: In the last 4 s 2000 packets came from addresses that are no path's remote. If they are the peer's, its addresses or ports differ from the configuration (NAT?).
    truncated
        Ok truncated: In the last 4 s 2000 packets were longer than this tunnel takes. The peer's mtu in [tunnel] is greater than this end's.
    bad_gre
        Ok not-gre: In the last 4 s 2000 packets were not GRE. Something else sends to the tunnel's port.
    bad_key
        Ok wrong-key: In the last 4 s 2000 packets carried no GRE key or a wrong one. `key` in [tunnel] must be the same at both ends.
    bad_checksum
        Ok damaged: In the last 4 s 2000 packets arrived damaged. Something on the way changes packets.
    unknown_protocol
        Ok unknown-protocol: In the last 4 s 2000 packets carried neither IP nor control messages of this version. Is the other end an MPT tunnel with the same settings?
    bad_inner
        Ok damaged: In the last 4 s 2000 packets arrived damaged. Something on the way changes packets.
    not_sealed
        Ok not-sealed: In the last 4 s 2000 packets were not sealed, as this tunnel's are. If they are the peer's, it has no [crypto] section.
    unknown_session
        Ok not-opened: In the last 4 s 2000 packets were sealed, and not for this session. They are old copies, or somebody's who has not the keys.
    forged
        Ok not-opened: In the last 4 s 2000 packets were sealed, and not for this session. They are old copies, or somebody's who has not the keys.
    replayed
        Ok not-opened: In the last 4 s 2000 packets were sealed, and not for this session. They are old copies, or somebody's who has not the keys.
    bad_handshake
        Ok bad-handshakes: In the last 4 s 2000 packets began handshakes that are not the peer's, or too many. If they are the peer's, the keys do not match.
    handshake_limit
        Ok bad-handshakes: In the last 4 s 2000 packets began handshakes that are not the peer's, or too many. If they are the peer's, the keys do not match.
    other_path
        Ok other-path: In the last 4 s 2000 packets were made for another path than the one that they came by. Does one of the peer's paths lead to the port of another? If not, somebody on the way puts them there.
    bad_control
        Ok unknown-protocol: In the last 4 s 2000 packets carried neither IP nor control messages of this version. Is the other end an MPT tunnel with the same settings?
    stale_control
        Ok stale-control: In the last 4 s 2000 packets were probes or reports of another session. Does one of the peer's paths lead to the port of another, or do two daemons use its keys?
    jump
        Ok sequence-jumps: In the last 4 s 2000 packets had sequence numbers far from the last. Is the peer's tunnel used by two daemons?
    stale
        Ok sequence-jumps: In the last 4 s 2000 packets had sequence numbers far from the last. Is the peer's tunnel used by two daemons?
    duplicate
        Ok duplicates: 2000 packets (20.0 %) arrived twice in the last 4 s: the peer sends them again or over several paths, or the network doubles them.
    late
        Degraded packets-late: 20.0 % of the packets that came in the last 4 s came after they had been given up, with max_buffer_delay = 300 ms. Raise it with `mpt-ctl reorder set max_buffer_delay=auto`.
    ecn
        Ok congestion-marks: In the last 4 s 2000 packets were dropped for a congestion mark that their senders do not know. A queue on the way marks instead of dropping; nothing is wrong here.
    not_allowed
        Ok not-allowed: In the last 4 s 2000 packets came from inner addresses that are not their peer's, and were dropped. `mpt-ctl peer show NAME` counts them (not_allowed); what a peer may send from stands in its `allowed_ips`.
    no_peer
        Ok no-peer: In the last 4 s 2000 packets were dropped because they go to a peer that is not there, or to nobody's address. `mpt-ctl peers` shows who is there, and `allowed_ips` in [[peers]] say whose an address is.
    peer_away
        Ok no-peer: In the last 4 s 2000 packets were dropped because they go to a peer that is not there, or to nobody's address. `mpt-ctl peers` shows who is there, and `allowed_ips` in [[peers]] say whose an address is.
    rate_limit
        Ok rate-limited: In the last 4 s 2000 packets were beyond the rate limit of their peer, and were dropped. That is what `rate_limit` in [[peers]] is for; `mpt-ctl peer show NAME` counts them.
    peer_share
        Degraded host-too-fast: In the last 4 s 2000 packets were more than this hub handles, of peers that send more than their share, and were dropped. This machine is too slow for what its peers send.
    tun_write
        Degraded interface-refuses: In the last 4 s 2000 packets were refused by the tunnel's interface. Is it up?
    "#);
}

/// The codes in the first column of the tables of docs/status.md.
fn documented() -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/status.md");
    let page = std::fs::read_to_string(path).unwrap();
    let cells = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let codes = cells.filter_map(|cell| cell.split_once('`'));
    codes.map(|(code, _)| code.to_owned()).collect()
}

#[test]
fn every_code_stands_in_the_documentation_once_and_nothing_else_does() {
    let mut documented = documented();
    documented.sort();
    let mut known: Vec<String> = Code::ALL
        .iter()
        .map(|code| code.name().to_owned())
        .collect();
    known.sort();
    assert_eq!(documented, known);
}

#[test]
fn every_code_has_a_rule() {
    let rules = [
        include_str!("../../verdict.rs"),
        include_str!("../budgets.rs"),
        include_str!("../drops.rs"),
        include_str!("../handshake.rs"),
        include_str!("../hub.rs"),
        include_str!("../machine.rs"),
        include_str!("../order.rs"),
        include_str!("../paths.rs"),
    ]
    .concat();
    for code in Code::ALL {
        assert!(rules.contains(&format!("Code::{code:?},")), "{code:?}");
    }
}

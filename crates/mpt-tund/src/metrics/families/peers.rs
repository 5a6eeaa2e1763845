//! A hub and its peers.

use std::collections::BTreeSet;

use mpt_core::control::{PathStatus, PeerStatus};

use super::super::Sample;
use super::{Family, Things, Values, name_of, with};

/// Of a hub as such.
pub(super) const OF_HUBS: &[Family<Sample>] = &[
    Family {
        name: "hub_peers",
        help: "Peers that are configured.",
        values: Values::Gauge(|sample| Some(sample.status.hub.as_ref()?.peers as f64)),
    },
    Family {
        name: "hub_peers_up",
        help: "Peers that have a path up.",
        values: Values::Gauge(|sample| Some(sample.status.hub.as_ref()?.up as f64)),
    },
    Family {
        name: "hub_handed_over_packets",
        help: "Packets from the interface that came to another worker's queue than that of the peer's owner, and were handed over.",
        values: Values::Counter(|sample| Some(sample.status.hub.as_ref()?.handed_over)),
    },
    Family {
        name: "hub_refused_peer_files",
        help: "Files of peers that have a mistake and are not followed.",
        values: Values::Gauge(|sample| Some(sample.status.hub.as_ref()?.refused.len() as f64)),
    },
    Family {
        name: "hub_peers_left_out",
        help: "Peers that have no series here, being beyond the first 256 of the configuration; totals of the tunnel have them.",
        values: Values::Gauge(|sample| Some(sample.peers_left_out as f64)),
    },
    Family {
        name: "hub_peer_paths_left_out",
        help: "Paths of the peers here that have no series, being beyond the first 512.",
        values: Values::Gauge(|sample| Some(sample.peer_paths_left_out as f64)),
    },
];

/// Of each peer.
pub(super) const FAMILIES: &[Family<PeerStatus>] = &[
    Family {
        name: "peer_state",
        help: "1 at whether the peer is there, of away, down and up.",
        values: Values::State("state", &["away", "down", "up"], |peer| {
            name_of(&peer.state)
        }),
    },
    Family {
        name: "peer_mtu_bytes",
        help: "Largest inner packet that fits the peer's paths; 0 while it is away.",
        values: Values::Gauge(|peer| Some(f64::from(peer.mtu))),
    },
    Family {
        name: "peer_rate_limit_bytes_per_second",
        help: "What may go to the peer, and as much again come of it; absent where there is no limit.",
        values: Values::Gauge(|peer| Some(peer.rate_limit_bps? as f64 / 8.0)),
    },
    Family {
        name: "peer_sent_packets",
        help: "Packets that came from the tunnel's interface and were handed to the peer's paths.",
        values: Values::Counter(|peer| Some(peer.tx_packets)),
    },
    Family {
        name: "peer_sent_bytes",
        help: "Bytes of packets that came from the tunnel's interface and were handed to the peer's paths.",
        values: Values::Counter(|peer| Some(peer.tx_bytes)),
    },
    Family {
        name: "peer_received_packets",
        help: "Packets of the peer that were written to the tunnel's interface.",
        values: Values::Counter(|peer| Some(peer.rx_packets)),
    },
    Family {
        name: "peer_received_bytes",
        help: "Bytes of packets of the peer that were written to the tunnel's interface.",
        values: Values::Counter(|peer| Some(peer.rx_bytes)),
    },
    Family {
        name: "peer_dropped_packets",
        help: "Packets from the peer and to it dropped, by reason; those that there were.",
        values: Values::Counters("reason", |peer| {
            let drops = peer.drops.iter();
            drops
                .map(|(reason, count)| (reason.clone(), *count))
                .collect()
        }),
    },
];

/// The peers of hubs.
pub(super) fn all<'a>(hubs: &Things<'a, Sample>) -> Things<'a, PeerStatus> {
    let mut all = Vec::new();
    for (labels, sample) in hubs {
        for peer in &sample.status.peers {
            all.push((with(labels, "peer", &peer.name), peer));
        }
    }
    all
}

/// Their paths. What a peer calls two of its paths alike is told apart: a name twice would spoil the page.
pub(super) fn paths<'a>(hubs: &Things<'a, Sample>) -> Things<'a, PathStatus> {
    let mut paths = Vec::new();
    for (labels, peer) in all(hubs) {
        let mut names = BTreeSet::new();
        for path in &peer.paths {
            let mut name = path.name.clone();
            for number in 2.. {
                if names.insert(name.clone()) {
                    break;
                }
                name = format!("{}~{number}", path.name);
            }
            paths.push((with(&labels, "path", &name), path));
        }
    }
    paths
}

//! A tunnel as such, its recovery and its verdict.

use std::collections::BTreeMap;

use super::super::Sample;
use super::{Family, Values, name_of};

/// Of every tunnel that is to be there.
pub(super) const FAMILIES: &[Family<Sample>] = &[
    Family {
        name: "tunnel_running",
        help: "Whether the tunnel has its threads; it is started again by itself.",
        values: Values::Flag(|sample| sample.runs),
    },
    Family {
        name: "tunnel_verdict",
        help: "1 at the verdict of mpt-ctl status, of ok, degraded and down.",
        values: Values::State("level", &["ok", "degraded", "down"], |sample| {
            name_of(&sample.status.verdict.level)
        }),
    },
    Family {
        name: "tunnel_findings",
        help: "Messages of the verdict by their code; docs/status.md says what each means.",
        values: Values::Gauges("code", |sample| {
            let mut counts: BTreeMap<&str, f64> = BTreeMap::new();
            for finding in &sample.status.verdict.messages {
                *counts.entry(&finding.code).or_default() += 1.0;
            }
            let counts = counts.into_iter();
            counts
                .map(|(code, count)| (code.to_owned(), count))
                .collect()
        }),
    },
];

/// Of those that run.
pub(super) const OF_RUNNING: &[Family<Sample>] = &[
    Family {
        name: "tunnel",
        help: "What is known of the tunnel in words.",
        values: Values::Info(|sample| {
            let tunnel = &sample.status.tunnel;
            let protection = name_of(&tunnel.protection).unwrap_or_default();
            vec![
                ("config", tunnel.config.clone()),
                ("scheduler", tunnel.scheduler.clone()),
                ("protection", protection.into_owned()),
                ("offload", tunnel.offload.clone()),
                ("session", tunnel.session.clone()),
            ]
        }),
    },
    Family {
        name: "tunnel_uptime_seconds",
        help: "Time since the tunnel started.",
        values: Values::Gauge(|sample| Some(sample.status.tunnel.uptime_s as f64)),
    },
    Family {
        name: "tunnel_mtu_bytes",
        help: "MTU of the tunnel's interface.",
        values: Values::Gauge(|sample| Some(f64::from(sample.status.tunnel.mtu))),
    },
    Family {
        name: "tunnel_missing",
        help: "Things that are configured and not there now: routes, addresses, interfaces, sockets.",
        values: Values::Gauge(|sample| Some(sample.status.tunnel.missing.len() as f64)),
    },
    Family {
        name: "tunnel_sent_packets",
        help: "Packets that came from the tunnel's interface and were handed to a path.",
        values: Values::Counter(|sample| Some(sample.status.tunnel.tx_packets)),
    },
    Family {
        name: "tunnel_sent_bytes",
        help: "Bytes of packets that came from the tunnel's interface and were handed to a path.",
        values: Values::Counter(|sample| Some(sample.status.tunnel.tx_bytes)),
    },
    Family {
        name: "tunnel_received_packets",
        help: "Packets of the peer that were written to the tunnel's interface.",
        values: Values::Counter(|sample| Some(sample.status.tunnel.rx_packets)),
    },
    Family {
        name: "tunnel_received_bytes",
        help: "Bytes of packets of the peer that were written to the tunnel's interface.",
        values: Values::Counter(|sample| Some(sample.status.tunnel.rx_bytes)),
    },
    Family {
        name: "tunnel_dropped_packets",
        help: "Packets dropped, by reason; mpt-ctl status says what each reason means.",
        values: Values::Counters("reason", |sample| {
            let drops = sample.status.tunnel.drops.iter();
            drops
                .map(|(reason, count)| (reason.clone(), *count))
                .collect()
        }),
    },
    Family {
        name: "recovery_enabled",
        help: "Whether what is lost is sent again.",
        values: Values::Flag(|sample| sample.status.tunnel.recovers),
    },
];

/// Of those that run with two ends. A hub has them for each peer by itself.
pub(super) const OF_TWO_ENDS: &[Family<Sample>] = &[
    Family {
        name: "tunnel_idle",
        help: "Whether nothing was carried for some seconds, so that paths are probed seldom.",
        values: Values::Flag(|sample| sample.status.tunnel.idle),
    },
    Family {
        name: "tunnel_unreported",
        help: "Whether the adaptive scheduler gets no reports from the peer, so that weights decide.",
        values: Values::Flag(|sample| sample.status.tunnel.unreported),
    },
    Family {
        name: "tunnel_handshake",
        help: "1 at how it stands with the peer, where the tunnel is sealed or there is something to say.",
        values: Values::State(
            "state",
            &[
                "waiting",
                "agreed",
                "unanswered",
                "wrong-key",
                "wrong-psk",
                "peer-not-sealed",
                "peer-is-sealed",
                "peer-clock-behind",
            ],
            |sample| name_of(&sample.status.tunnel.handshake.as_ref()?.state),
        ),
    },
    Family {
        name: "tunnel_queue_packets",
        help: "Packets that wait until a path can take them.",
        values: Values::Gauge(|sample| Some(sample.status.tunnel.queue_packets as f64)),
    },
    Family {
        name: "tunnel_queue_bytes",
        help: "Bytes of packets that wait until a path can take them.",
        values: Values::Gauge(|sample| Some(sample.status.tunnel.queue_bytes as f64)),
    },
    Family {
        name: "tunnel_queue_marked_packets",
        help: "Packets marked as having met congestion because they had waited too long for a path.",
        values: Values::Counter(|sample| Some(sample.status.tunnel.queue_marked)),
    },
    Family {
        name: "recovery_lost_packets",
        help: "Packets found lost by the peer's reports, those that are lost again counted again.",
        values: Values::Counter(|sample| Some(sample.status.tunnel.recovery.lost)),
    },
    Family {
        name: "recovery_resent_packets",
        help: "Packets sent again.",
        values: Values::Counter(|sample| Some(sample.status.tunnel.recovery.resent)),
    },
    Family {
        name: "recovery_resent_bytes",
        help: "Inner bytes of packets sent again.",
        values: Values::Counter(|sample| Some(sample.status.tunnel.recovery.resent_bytes)),
    },
    Family {
        name: "recovery_needless_packets",
        help: "Packets sent again although the first had arrived.",
        values: Values::Counter(|sample| Some(sample.status.tunnel.recovery.spurious)),
    },
    Family {
        name: "recovery_probe_packets",
        help: "Packets sent again because no report came, to learn about the end of a burst.",
        values: Values::Counter(|sample| Some(sample.status.tunnel.recovery.probes)),
    },
    Family {
        name: "recovery_memory_bytes",
        help: "Memory in which sent packets are kept.",
        values: Values::Gauge(|sample| Some(sample.status.tunnel.recovery.memory_bytes as f64)),
    },
    Family {
        name: "recovery_report_bytes",
        help: "Bytes of this end's reports to the peer, with all headers.",
        values: Values::Counter(|sample| Some(sample.status.tunnel.recovery.report_bytes)),
    },
];

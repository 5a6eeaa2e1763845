//! Paths: those of the configuration, and those on which a hub's peers call.

use mpt_core::control::PathStatus;

use super::{Family, Values, name_of, seconds};

/// Of each path of the configuration, which has a socket here.
pub(super) const SOCKETS: &[Family<PathStatus>] = &[
    Family {
        name: "path_socket_dropped_packets",
        help: "Datagrams that the kernel dropped because the path's receive buffer was full.",
        values: Values::Counter(|path| Some(path.socket_drops)),
    },
    Family {
        name: "path_receive_buffer_bytes",
        help: "Receive buffer that the kernel granted.",
        values: Values::Gauge(|path| Some(path.receive_buffer_bytes as f64)),
    },
    Family {
        name: "path_receive_buffer_wanted_bytes",
        help: "Receive buffer that was asked for.",
        values: Values::Gauge(|path| Some(path.receive_buffer_wanted_bytes as f64)),
    },
];

/// Of each path of the configuration that leads to a peer.
pub(super) const BUDGETS: &[Family<PathStatus>] = &[
    Family {
        name: "path_cost",
        help: "What the path costs: cheaper paths are used first.",
        values: Values::Gauge(|path| Some(f64::from(path.cost))),
    },
    Family {
        name: "path_budget_bytes",
        help: "What the path may carry in a month, both ways, IP and UDP headers included, where that is configured.",
        values: Values::Gauge(|path| Some(path.budget.as_ref()?.limit_bytes as f64)),
    },
    Family {
        name: "path_budget_used_bytes",
        help: "What it has carried of that in this month.",
        values: Values::Gauge(|path| Some(path.budget.as_ref()?.used_bytes as f64)),
    },
    Family {
        name: "path_budget_forecast_bytes",
        help: "What it will have carried when the month ends, if it goes on as so far; not in the first hours.",
        values: Values::Gauge(|path| Some(path.budget.as_ref()?.forecast_bytes? as f64)),
    },
];

/// Of each path of a hub's configuration.
pub(super) const OF_HUBS: &[Family<PathStatus>] = &[Family {
    name: "hub_path_state",
    help: "1 at what a path of the hub's configuration is doing: waiting means that nobody can call there.",
    values: Values::State("state", STATES, |path| name_of(&path.state)),
}];

const STATES: &[&str] = &["up", "down", "probing", "waiting", "admin-down"];

/// Of each path that leads to a peer.
pub(super) const FAMILIES: &[Family<PathStatus>] = &[
    Family {
        name: "path_state",
        help: "1 at what the path is doing, of up, down, probing, waiting and admin-down.",
        values: Values::State("state", STATES, |path| name_of(&path.state)),
    },
    Family {
        name: "path_phase",
        help: "1 at how the adaptive scheduler treats the path.",
        values: Values::State(
            "phase",
            &["open", "limited", "draining", "competing", "suspected"],
            |path| name_of(&path.tx_phase),
        ),
    },
    Family {
        name: "path_weight",
        help: "Relative share of bytes that the path is to get.",
        values: Values::Gauge(|path| Some(f64::from(path.weight))),
    },
    Family {
        name: "path_mtu_bytes",
        help: "Largest inner packet that fits the path.",
        values: Values::Gauge(|path| Some(f64::from(path.mtu))),
    },
    Family {
        name: "path_narrow",
        help: "Whether the path carries so much less at once than others that it is left out.",
        values: Values::Flag(|path| path.narrow),
    },
    Family {
        name: "path_rests",
        help: "Whether nothing was answered for so long that the path is asked only now and then.",
        values: Values::Flag(|path| path.rests),
    },
    Family {
        name: "path_wrong_device",
        help: "Whether datagrams leave by another device than the path's own, or no route leads by that one.",
        values: Values::Flag(|path| path.device_wanted.is_some() || path.routeless.is_some()),
    },
    Family {
        name: "path_rtt_seconds",
        help: "Smoothed round-trip time.",
        values: Values::Gauge(|path| path.rtt_us.map(seconds)),
    },
    Family {
        name: "path_rtt_min_seconds",
        help: "Least round-trip time of the last minute.",
        values: Values::Gauge(|path| path.rtt_min_us.map(seconds)),
    },
    Family {
        name: "path_delay_behind_fastest_seconds",
        help: "How much later than on the fastest path packets arrive here, one way.",
        values: Values::Gauge(|path| path.rx_delay_us.map(seconds)),
    },
    Family {
        name: "path_queue_delay_seconds",
        help: "Queue on the way that this end's packets meet, as delay.",
        values: Values::Gauge(|path| Some(seconds(path.tx_queue_us))),
    },
    Family {
        name: "path_sent_loss_ratio",
        help: "Share of this end's packets that the peer misses on the path, recent, 0 to 1.",
        values: Values::Gauge(|path| Some(path.loss)),
    },
    Family {
        name: "path_received_loss_ratio",
        help: "Share of the peer's packets that are missing here on the path, recent, 0 to 1.",
        values: Values::Gauge(|path| Some(path.rx_loss)),
    },
    Family {
        name: "path_usual_loss_ratio",
        help: "Share of packets that the path loses at any rate, as the adaptive scheduler finds it, 0 to 1.",
        values: Values::Gauge(|path| Some(path.tx_usual_loss)),
    },
    Family {
        name: "path_sent_packets",
        help: "Datagrams sent on the path, probes included.",
        values: Values::Counter(|path| Some(path.tx_packets)),
    },
    Family {
        name: "path_sent_bytes",
        help: "Bytes of datagrams sent on the path, GRE header included.",
        values: Values::Counter(|path| Some(path.tx_bytes)),
    },
    Family {
        name: "path_received_packets",
        help: "Datagrams of the peer received on the path, probes included.",
        values: Values::Counter(|path| Some(path.rx_packets)),
    },
    Family {
        name: "path_received_bytes",
        help: "Bytes of datagrams received on the path, GRE header included.",
        values: Values::Counter(|path| Some(path.rx_bytes)),
    },
    Family {
        name: "path_control_sent_bytes",
        help: "Bytes of what was sent besides data (probes, reports, handshakes), IP and UDP headers included.",
        values: Values::Counter(|path| Some(path.control_tx_bytes)),
    },
    Family {
        name: "path_control_received_bytes",
        help: "Bytes of what was received besides data, IP and UDP headers included.",
        values: Values::Counter(|path| Some(path.control_rx_bytes)),
    },
    Family {
        name: "path_limit_bytes_per_second",
        help: "Most that the adaptive scheduler gives the path; absent while that is unlimited.",
        values: Values::Gauge(|path| Some(path.tx_limit_bps? as f64 / 8.0)),
    },
    Family {
        name: "path_delivered_bytes_per_second",
        help: "What the path delivered recently, by the peer's reports.",
        values: Values::Gauge(|path| Some(path.tx_delivered_bps as f64 / 8.0)),
    },
];

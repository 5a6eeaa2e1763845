//! What `mpt-ctl` says to `mpt-tund` and hears back: one JSON object a line, each way.
//!
//! A request names its command in the field `command`; the reply to it is one line, either
//! `{"ok": …}` with the answer or `{"error": "…"}` with a text that says what to do. A bad request
//! gets an error and the connection goes on.
//!
//! Numbers carry their unit in the field's name: `_us` microseconds, `_s` seconds, `_bps` bits a
//! second, `_bytes` bytes; `loss` is a fraction from 0 to 1. Fields may be added, never removed.

pub mod budgets;
pub mod classes;
pub mod drops;
mod handshake;
pub mod history;
mod log_level;
pub mod order;
mod peers;
pub mod recent;
pub mod setting;
mod status;
pub mod trace;
pub mod units;
pub mod verdict;

use serde::{Deserialize, Serialize};

pub use handshake::{Handshake, HandshakeState};
use history::History;
pub use log_level::{LogLevel, LogStatus};
pub use peers::{HubStatus, PEERS_CALL, PeerReport, PeerState, PeerStatus, RefusedPeer};
use setting::Setting;
pub use status::{
    HoldTimes, LatePolicy, Missing, PathPhase, PathState, PathStatus, Protection, RecoveryStatus,
    ReorderMode, ReorderStatus, Status, TunnelStatus,
};
use trace::Trace;

/// The longest line that either side accepts, in bytes.
pub const MAX_LINE_BYTES: usize = 32 * 1024 * 1024;

/// What a client asks of the daemon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Everything: answered by [`Answer::Status`].
    Status,
    /// The paths alone: answered by [`Answer::Paths`].
    Paths,
    /// A hub's peers: answered by [`Answer::Peers`].
    Peers,
    /// One of them with all that is known: answered by [`Answer::Peer`].
    PeerShow {
        /// The peer's name in the configuration.
        name: String,
    },
    /// Let another peer call at a hub, until the next reload.
    PeerAdd {
        /// Its name.
        name: String,
        /// Its public key, in base64.
        public_key: String,
        /// Its inner addresses, as prefixes.
        allowed_ips: Vec<String>,
        /// A secret of it and the hub, in base64.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        psk: Option<Secret>,
        /// Most that it may send, and be sent: `100 Mbit/s`, or `none`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rate_limit: Option<String>,
    },
    /// Change a peer of a hub, until the next reload.
    PeerSet {
        /// The peer's name.
        name: String,
        /// Its new public key, in base64.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        public_key: Option<String>,
        /// Its new inner addresses, as prefixes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        allowed_ips: Option<Vec<String>>,
        /// The secret of it and the hub, in base64, or `none`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        psk: Option<Secret>,
        /// Most that it may send, and be sent: `100 Mbit/s`, or `none`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rate_limit: Option<String>,
    },
    /// Take a peer away from a hub, until the next reload.
    PeerRemove {
        /// The peer's name.
        name: String,
    },
    /// The reorder window alone: answered by [`Answer::Reorder`].
    Reorder,
    /// What was decided about a path's rate, and why: answered by [`Answer::Trace`].
    Trace {
        /// The path's name in the configuration.
        name: String,
        /// Only decisions from this number on, 0 being the first since the start.
        #[serde(default)]
        from: u64,
    },
    /// The last 24 hours, minute by minute: answered by [`Answer::History`].
    History {
        /// Of this path alone; without it, of the tunnel as a whole and of each path.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
    },
    /// How much is logged, of all tunnels of the daemon: answered by [`Answer::Log`].
    Log {
        /// What is to be logged from now on; without it nothing changes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        level: Option<LogLevel>,
    },
    /// Put a path back in service.
    PathUp {
        /// The path's name in the configuration.
        name: String,
    },
    /// Take a path out of service until `path-up`.
    PathDown {
        /// The path's name in the configuration.
        name: String,
    },
    /// Change a path's settings while it runs.
    PathSet {
        /// The path's name in the configuration.
        name: String,
        /// New relative share of bytes, 1 to 1,000,000.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        weight: Option<u32>,
    },
    /// Change the reorder window while it runs.
    ReorderSet {
        /// New window in packets, 0 turns reordering off.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        window: Option<Setting<u32>>,
        /// New longest hold, in microseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_buffer_delay_us: Option<Setting<u64>>,
        /// What happens to late packets.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        late: Option<LatePolicy>,
    },
    /// Read the configuration file again, as on SIGHUP.
    Reload,
    /// Write the running settings into the configuration file.
    Save,
}

/// A key in base64, which `Debug` does not show.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(pub String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

/// One line of reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(
    clippy::large_enum_variant,
    reason = "one is made at a time, and written"
)]
pub enum Reply {
    /// The request was carried out.
    Ok(Answer),
    /// The request was refused; the text says why and what to do.
    Error(String),
}

/// What a successful request brings back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// To [`Request::Status`].
    Status(Box<Status>),
    /// To [`Request::Paths`].
    Paths(Vec<PathStatus>),
    /// To [`Request::Peers`].
    Peers(Vec<PeerStatus>),
    /// To [`Request::PeerShow`].
    Peer(Box<PeerReport>),
    /// To [`Request::Reorder`].
    Reorder(ReorderStatus),
    /// To [`Request::Trace`].
    Trace(Trace),
    /// To [`Request::History`].
    History(Box<History>),
    /// To [`Request::Log`].
    Log(LogStatus),
    /// To a change: one sentence that says what was done.
    Done(String),
}

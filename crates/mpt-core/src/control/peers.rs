//! A hub and its peers, as `mpt-ctl status` and `mpt-ctl peers` show them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{PathStatus, Protection, RecoveryStatus, ReorderStatus, Status};

/// What stands for the remote address of a hub's own path, to which its peers come.
pub const PEERS_CALL: &str = "peers call";

impl Status {
    /// A rate of all paths together: the tunnel's own, or those of a hub's peers. `None` where not all of these are here.
    #[must_use]
    pub fn rate_bps(&self, of: fn(&PathStatus) -> u64) -> Option<u64> {
        let sum = |sum: u64, path| sum.saturating_add(of(path));
        match &self.hub {
            None => Some(self.paths.iter().fold(0, sum)),
            Some(hub) if hub.unlisted > 0 => None,
            Some(_) => {
                let paths = self.peers.iter().flat_map(|peer| &peer.paths);
                Some(paths.fold(0, sum))
            }
        }
    }
}

/// A hub as such.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HubStatus {
    /// Peers that are configured.
    pub peers: u64,
    /// Of these, those that have a path up.
    pub up: u64,
    /// Packets from the interface that came to another worker's queue than that of the peer's owner, and were handed over.
    /// None where the kernel chooses queues by peer, but while a peer changes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub handed_over: u64,
    /// Peers that are not in the status, being too many.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unlisted: u64,
    /// Files of peers that are not followed, or the folder itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedPeer>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A file of a peer that has a mistake: what the peer was before goes on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RefusedPeer {
    /// `FILE:LINE:COLUMN`, or the file alone.
    pub file: String,
    /// What is wrong.
    pub why: String,
    /// What to do.
    pub remedy: String,
}

/// A peer of a hub, as `mpt-ctl peers --json` prints it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PeerStatus {
    /// Its name in the configuration.
    pub name: String,
    /// Its public key, in base64.
    pub public_key: String,
    /// The inner addresses that are its own.
    pub allowed_ips: Vec<String>,
    /// What may go to it, and as much again come of it, in bits a second of inner packets; absent where there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit_bps: Option<u64>,
    /// Whether it is there.
    pub state: PeerState,
    /// The paths that it has called on, by the names that it has told; `local` is the hub's end.
    pub paths: Vec<PathStatus>,
    /// Packets that came from the TUN and were handed to its paths.
    pub tx_packets: u64,
    /// Their bytes, inner headers included.
    pub tx_bytes: u64,
    /// Packets of it that were written to the TUN.
    pub rx_packets: u64,
    /// Their bytes, inner headers included.
    pub rx_bytes: u64,
    /// Largest inner packet that fits its paths, in bytes; 0 while it is away.
    pub mtu: u32,
    /// What seals.
    pub protection: Protection,
    /// Packets from it and to it dropped since start, by reason; those that there were.
    pub drops: BTreeMap<String, u64>,
}

/// All that is known of a peer of a hub.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PeerReport {
    /// As in the list.
    #[serde(flatten)]
    pub peer: PeerStatus,
    /// The reorder window of what it sends.
    pub reorder: ReorderStatus,
    /// What was sent to it again.
    pub recovery: RecoveryStatus,
}

/// Whether a peer of a hub is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PeerState {
    /// It has not called, or nothing has been agreed with it for minutes.
    #[default]
    Away,
    /// It has called, and no path is up.
    Down,
    /// A path is up.
    Up,
}

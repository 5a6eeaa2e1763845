//! The classes of a tunnel, as `mpt-ctl status` shows them.

use serde::{Deserialize, Serialize};

use crate::send::classes::ClassConfig;

/// One class, as `mpt-ctl status --json` prints it. Counters are since start, or since a reload brought the class.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ClassStatus {
    /// Its name in the configuration.
    pub name: String,
    /// Its policy.
    pub policy: String,
    /// Its priority.
    pub priority: String,
    /// The paths that are its own.
    pub paths: Vec<String>,
    /// Packets of the class that came from the TUN, those included that were dropped.
    pub packets: u64,
    /// Their bytes, inner headers included.
    pub bytes: u64,
    /// Datagrams that went besides the first of each packet.
    pub copies: u64,
    /// Their bytes, GRE header included.
    pub copy_bytes: u64,
    /// Packets that were to be copied, and went once: `copies` was used up, or there was one path only.
    pub uncopied: u64,
    /// Packets that went over other paths than the class's, since none of these was up.
    pub elsewhere: u64,
    /// Packets that were dropped since no path was up that the class goes over.
    pub dropped_no_path: u64,
    /// Packets that were dropped after they had waited too long, or since the queue was full.
    pub dropped_queue: u64,
    /// Packets that wait for a path.
    pub queue_packets: u64,
    /// Their bytes.
    pub queue_bytes: u64,
}

impl ClassStatus {
    pub(crate) fn new(config: &ClassConfig) -> ClassStatus {
        ClassStatus {
            name: config.name.clone(),
            policy: config.policy.name().to_owned(),
            priority: config.priority.name().to_owned(),
            ..ClassStatus::default()
        }
    }

    /// Goes on counting from what a former class of the name has counted.
    pub(crate) fn keep_from(&mut self, former: &ClassStatus) {
        let own = std::mem::take(self);
        *self = ClassStatus {
            name: own.name,
            policy: own.policy,
            priority: own.priority,
            ..former.clone()
        };
    }
}

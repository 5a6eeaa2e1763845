//! What the sender has at hand in one call.

use crate::control::drops::Drops;
use crate::path::PathSet;
use crate::send::datagrams::Datagrams;
use crate::time::Time;

/// The moment, what the line in says of the paths, and where packets go.
pub(crate) struct Turn<'a> {
    pub(crate) now: Time,
    /// Paths that may carry packets.
    pub(crate) usable: PathSet,
    /// Paths that the peer suspects.
    pub(crate) doubted: PathSet,
    pub(crate) out: &'a mut Datagrams,
    pub(crate) drops: &'a mut Drops,
}

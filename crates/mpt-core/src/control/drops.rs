//! Every way in which a packet can be dropped, counted.

use std::collections::BTreeMap;

macro_rules! reasons {
    ($($(#[doc = $doc:literal])* $variant:ident = $name:literal,)*) => {
        /// Why a packet was dropped.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Drop {
            $($(#[doc = $doc])* $variant,)*
        }

        impl Drop {
            /// Every reason.
            pub const ALL: &[Drop] = &[$(Drop::$variant),*];

            /// The reason's name in `mpt-ctl status --json`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Drop::$variant => $name,)* }
            }
        }
    };
}

reasons! {
    /// Out: the TUN's queue was full, before this program saw the packet; counted by the kernel.
    TunQueue = "tun_queue",
    /// Out: no path is usable.
    NoPath = "no_path",
    /// Out: the tunnel is sealed, and there is no session with the peer to seal in.
    NoKeys = "no_keys",
    /// Out: longer than the paths carry and not to be fragmented; the sender was told.
    TooBig = "too_big",
    /// Out: not an IP packet, or one whose lengths disagree.
    NotIp = "not_ip",
    /// Out: the TUN's header does not describe its packet.
    BadOffload = "bad_offload",
    /// Out: waited too long for a path, so that its flow slows down (CoDel, RFC 8289).
    QueueAqm = "queue_aqm",
    /// Out: the queue for the paths was full.
    QueueFull = "queue_full",
    /// Out: the socket's send buffer was full.
    SendFull = "send_full",
    /// Out: the interface's queue was full (`ENOBUFS`).
    SendQueue = "send_queue",
    /// Out: the kernel refused it for another reason.
    SendError = "send_error",
    /// In: not from the path's peer.
    Stranger = "stranger",
    /// In: longer than any packet that fits this tunnel.
    Truncated = "truncated",
    /// In: not GRE as RFC 2784 and RFC 2890 have it.
    BadGre = "bad_gre",
    /// In: another GRE key than the configured one.
    BadKey = "bad_key",
    /// In: the GRE checksum is wrong.
    BadChecksum = "bad_checksum",
    /// In: GRE, but neither IPv4, IPv6 nor a control message.
    UnknownProtocol = "unknown_protocol",
    /// In: what GRE carries is not the IP packet that it says it is.
    BadInner = "bad_inner",
    /// In: the tunnel is sealed, and this is not a sealed packet.
    NotSealed = "not_sealed",
    /// In: sealed for no session that there is: late, or of before a restart.
    UnknownSession = "unknown_session",
    /// In: not sealed by the peer, or changed on the way.
    Forged = "forged",
    /// In: a sealed packet or an initiation that came before, or is so old that nobody remembers.
    Replayed = "replayed",
    /// In: a handshake message that is not the peer's, or that nobody asked for.
    BadHandshake = "bad_handshake",
    /// In: an initiation beyond what is worked on, though perhaps answered with a cookie.
    HandshakeLimit = "handshake_limit",
    /// In: a control message that was made for another path.
    OtherPath = "other_path",
    /// In: a control message that makes no sense.
    BadControl = "bad_control",
    /// In: a control message that is no newer than the last, or of a session that did not prove
    /// itself.
    StaleControl = "stale_control",
    /// In: a sequence number too far away to be believed.
    Jump = "jump",
    /// In: a sequence number so old that nobody remembers whether it was delivered.
    Stale = "stale",
    /// In: delivered before.
    Duplicate = "duplicate",
    /// In: after its gap had ended, and the policy is to drop.
    Late = "late",
    /// In: marked "congestion experienced" on the way though the sender does not know ECN
    /// (RFC 6040 §4.2).
    Ecn = "ecn",
    /// In: the TUN did not take it.
    TunWrite = "tun_write",
}

/// How many packets were dropped, by reason.
#[derive(Debug, Clone)]
pub struct Drops([u64; Drop::ALL.len()]);

impl Default for Drops {
    fn default() -> Self {
        Drops([0; Drop::ALL.len()])
    }
}

impl Drops {
    /// Counts `packets` drops.
    pub fn count(&mut self, why: Drop, packets: u64) {
        self.0[why as usize] += packets;
    }

    /// The number of drops for this reason.
    #[must_use]
    pub fn of(&self, why: Drop) -> u64 {
        self.0[why as usize]
    }

    /// Adds these counts to a table by name; every reason appears.
    pub fn add_to(&self, table: &mut BTreeMap<String, u64>) {
        for &why in Drop::ALL {
            *table.entry(why.name().to_owned()).or_default() += self.of(why);
        }
    }
}

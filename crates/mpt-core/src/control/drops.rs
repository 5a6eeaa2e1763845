//! Every way in which a packet can be dropped, counted.

use std::collections::BTreeMap;

macro_rules! reasons {
    ($($(#[doc = $doc:literal])* $variant:ident = $name:literal: $meaning:literal,)*) => {
        /// Why a packet was dropped.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum DropReason {
            $($(#[doc = $doc])* $variant,)*
        }

        impl DropReason {
            /// Every reason.
            pub const ALL: &[DropReason] = &[$(DropReason::$variant),*];

            /// The reason's name in `mpt-ctl status --json`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(DropReason::$variant => $name,)* }
            }

            /// What it means, in a few words.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(DropReason::$variant => $meaning,)* }
            }

            /// The reason of this name; nothing for one that this version does not know.
            #[must_use]
            pub fn named(name: &str) -> Option<DropReason> {
                DropReason::ALL.iter().copied().find(|why| why.name() == name)
            }
        }
    };
}

reasons! {
    /// Out: the TUN's queue was full, before this program saw the packet; counted by the kernel.
    TunQueue = "tun_queue": "queue of the tunnel's interface full",
    /// Out: no path is usable.
    NoPath = "no_path": "no path was up",
    /// Out: no path is usable that the packet's class goes over.
    ClassPaths = "class_paths": "no path of its class was up",
    /// Out: the tunnel is sealed, and there is no session with the peer to seal in.
    NoKeys = "no_keys": "no keys were agreed with the peer",
    /// Out: longer than the paths carry and not to be fragmented; the sender was told.
    TooBig = "too_big": "did not fit any path; the sender was told",
    /// Out: not an IP packet, or one whose lengths disagree.
    NotIp = "not_ip": "neither IPv4 nor IPv6",
    /// Out: the TUN's header does not describe its packet.
    BadOffload = "bad_offload": "header of a super-packet makes no sense",
    /// Out: waited too long for a path, so that its flow slows down (CoDel, RFC 8289).
    QueueAqm = "queue_aqm": "waited too long for a path: its flow is to slow down",
    /// Out: the queue for the paths was full.
    QueueFull = "queue_full": "queue for the paths full",
    /// Out: the socket's send buffer was full.
    SendFull = "send_full": "send buffer of a path full",
    /// Out: the interface's queue was full (`ENOBUFS`).
    SendQueue = "send_queue": "queue of an interface full",
    /// Out: the kernel refused it for another reason.
    SendError = "send_error": "refused by the kernel on sending",
    /// In: not from the path's peer.
    Stranger = "stranger": "not from the peer of the path",
    /// In: longer than any packet that fits this tunnel.
    Truncated = "truncated": "longer than the receive buffer",
    /// In: not GRE as RFC 2784 and RFC 2890 have it.
    BadGre = "bad_gre": "not GRE as RFC 2784 and 2890 have it",
    /// In: another GRE key than the configured one.
    BadKey = "bad_key": "GRE key missing or wrong",
    /// In: the GRE checksum is wrong.
    BadChecksum = "bad_checksum": "GRE checksum wrong",
    /// In: GRE, but neither IPv4, IPv6 nor a control message.
    UnknownProtocol = "unknown_protocol": "GRE protocol type unknown",
    /// In: what GRE carries is not the IP packet that it says it is.
    BadInner = "bad_inner": "inner packet malformed",
    /// In: the tunnel is sealed, and this is not a sealed packet.
    NotSealed = "not_sealed": "not sealed, as this tunnel's packets are",
    /// In: sealed for no session that there is: late, or of before a restart.
    UnknownSession = "unknown_session": "sealed for keys that are no more",
    /// In: not sealed by the peer, or changed on the way.
    Forged = "forged": "not sealed by the peer",
    /// In: a sealed packet or an initiation that came before, or is so old that nobody remembers.
    Replayed = "replayed": "came before, or too late to tell",
    /// In: a handshake message that is not the peer's, or that nobody asked for.
    BadHandshake = "bad_handshake": "handshake message not of the peer",
    /// In: an initiation beyond what is worked on, though perhaps answered with a cookie.
    HandshakeLimit = "handshake_limit": "more handshakes begun than worked on",
    /// In: a control message that was made for another path.
    OtherPath = "other_path": "made for another path",
    /// In: a control message that makes no sense.
    BadControl = "bad_control": "probe or report malformed",
    /// In: a control message that is no newer than the last, or of a session that did not prove
    /// itself.
    StaleControl = "stale_control": "probe or report of an earlier session",
    /// In: a sequence number too far away to be believed.
    Jump = "jump": "sequence number not believed",
    /// In: a sequence number so old that nobody remembers whether it was delivered.
    Stale = "stale": "too old to know whether delivered",
    /// In: delivered before.
    Duplicate = "duplicate": "delivered before",
    /// In: after its gap had ended, and the policy is to drop.
    Late = "late": "after its gap had ended (late = \"drop\")",
    /// In: marked "congestion experienced" on the way though the sender does not know ECN
    /// (RFC 6040 §4.2).
    Ecn = "ecn": "congestion mark on traffic without ECN",
    /// In: from an inner address that the peer may not use.
    NotAllowed = "not_allowed": "from an address that is not the peer's to use",
    /// Out: to an inner address that no peer has.
    NoPeer = "no_peer": "to an address that no peer has",
    /// Out: to a peer that is not there.
    PeerAway = "peer_away": "to a peer that is away; the sender was told",
    /// Both ways: beyond the rate limit of a hub's peer.
    RateLimit = "rate_limit": "beyond the peer's rate limit",
    /// Either way, in a hub: more came than it handles, and this was of a peer that sent more than its share.
    PeerShare = "peer_share": "over a peer's share of what the hub can handle",
    /// In: the TUN did not take it.
    TunWrite = "tun_write": "refused by the TUN interface",
}

/// How many packets were dropped, by reason.
#[derive(Debug, Clone)]
pub struct Drops([u64; DropReason::ALL.len()]);

impl Default for Drops {
    fn default() -> Self {
        Drops([0; DropReason::ALL.len()])
    }
}

impl Drops {
    /// Counts `packets` drops.
    pub fn count(&mut self, why: DropReason, packets: u64) {
        self.0[why as usize] += packets;
    }

    /// The number of drops for this reason.
    #[must_use]
    pub fn of(&self, why: DropReason) -> u64 {
        self.0[why as usize]
    }

    /// Counts these as well.
    pub fn add(&mut self, others: &Drops) {
        for (count, more) in self.0.iter_mut().zip(others.0) {
            *count += more;
        }
    }

    /// Adds these counts to a table by name; every reason appears.
    pub fn add_to(&self, table: &mut BTreeMap<String, u64>) {
        for &why in DropReason::ALL {
            *table.entry(why.name().to_owned()).or_default() += self.of(why);
        }
    }
}

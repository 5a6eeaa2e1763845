//! The codes of findings: names that scripts may rely on.

macro_rules! codes {
    ($($(#[doc = $doc:literal])* $variant:ident = $name:literal,)*) => {
        /// What a [`Finding`](super::Finding) is about. `docs/status.md` explains each.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Code {
            $($(#[doc = $doc])* $variant,)*
        }

        impl Code {
            /// Every code.
            pub const ALL: &[Code] = &[$(Code::$variant),*];

            /// The code as `mpt-ctl status --json` prints it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Code::$variant => $name,)* }
            }
        }
    };
}

codes! {
    /// The daemon is older than verdicts.
    NotJudged = "not-judged",
    /// The configuration has no paths.
    NoPaths = "no-paths",
    /// No path is up.
    NoPathUp = "no-path-up",
    /// Handshakes are sent, and nothing comes.
    HandshakeUnanswered = "handshake-unanswered",
    /// One end has not the key that the other knows.
    HandshakeWrongKey = "handshake-wrong-key",
    /// The preshared keys differ.
    HandshakeWrongPsk = "handshake-wrong-psk",
    /// The peer does not seal, and this end does.
    PeerNotSealed = "peer-not-sealed",
    /// The peer seals, and this end does not.
    PeerIsSealed = "peer-is-sealed",
    /// The peer's handshakes bear an older date than its last.
    PeerClockBehind = "peer-clock-behind",
    /// Packets go to a peer of a hub that is not there, or to an address that none has.
    NoPeer = "no-peer",
    /// A peer of a hub sends from addresses that are not its own.
    NotAllowed = "not-allowed",
    /// Peers of a hub are not there.
    PeersAway = "peers-away",
    /// A peer of a hub sends, or is sent, more than its limit.
    RateLimited = "rate-limited",
    /// A file of a hub's peer has a mistake.
    PeerFile = "peer-file",
    /// A path is down.
    PathDown = "path-down",
    /// A path has not come up yet.
    PathProbing = "path-probing",
    /// Two paths lead to one port.
    SharedRemote = "shared-remote",
    /// A path that is not answered is asked only now and then.
    PathRests = "path-rests",
    /// A path has no socket yet: something on this host is not there.
    PathWaiting = "path-waiting",
    /// Something else that is configured is not there.
    Missing = "missing",
    /// The files are not followed: a reload was refused.
    ReloadRefused = "reload-refused",
    /// A path's datagrams leave by another device than the one with its address.
    WrongDevice = "wrong-device",
    /// No route leads to the peer by the device that a path belongs to.
    NoRoute = "no-route",
    /// A path was taken out of service here.
    PathOutOfService = "path-out-of-service",
    /// A path has carried most of what it may in its month.
    Budget80 = "budget-80",
    /// A path has carried all that it may.
    BudgetUsedUp = "budget-used-up",
    /// The peer is no mpt-tund, or an old one: it does not probe.
    PeerSendsNoProbes = "peer-sends-no-probes",
    /// The adaptive scheduler has nothing to go by.
    NoReports = "no-reports",
    /// A path loses packets.
    PathLoses = "path-loses",
    /// A path is not used, as it carries small packets alone.
    PathNarrow = "path-narrow",
    /// Packets from the peer are lost for good.
    PacketsLost = "packets-lost",
    /// Paths differ, and nothing puts packets in order.
    ReorderingOff = "reordering-off",
    /// The window cannot hold what the paths' difference asks for.
    WindowTooSmall = "window-too-small",
    /// Gaps end because the window is full.
    WindowFull = "window-full",
    /// `max_buffer_delay` is shorter than packets need.
    HoldTooShort = "hold-too-short",
    /// Packets come after they were given up.
    PacketsLate = "packets-late",
    /// What was sent again was not lost.
    NeedlessResends = "needless-resends",
    /// Packets arrive twice.
    Duplicates = "duplicates",
    /// A receive buffer is smaller than wanted.
    ReceiveBufferSmall = "receive-buffer-small",
    /// A receive buffer overflows.
    ReceiveBufferFull = "receive-buffer-full",
    /// Packets are longer than the paths carry.
    TooBig = "too-big",
    /// The paths carry less than is offered.
    Saturated = "saturated",
    /// The daemon cannot keep up with the host.
    HostTooFast = "host-too-fast",
    /// The host's own queues or buffers drop what is sent.
    SendDrops = "send-drops",
    /// The kernel refuses to send.
    SendRefused = "send-refused",
    /// Packets were dropped when no path was up.
    NoPathLately = "no-path-lately",
    /// Packets were dropped since no path was up that their class may use.
    ClassPaths = "class-paths",
    /// Packets were dropped for want of keys.
    NoKeys = "no-keys",
    /// What the host sent into the tunnel is not IP, or damaged.
    BadPackets = "bad-packets",
    /// Datagrams from elsewhere than the peer's addresses.
    Strangers = "strangers",
    /// Another GRE key.
    WrongKey = "wrong-key",
    /// Something else than GRE arrives.
    NotGre = "not-gre",
    /// GRE, but nothing that a tunnel sends.
    UnknownProtocol = "unknown-protocol",
    /// Packets arrive damaged.
    Damaged = "damaged",
    /// Datagrams longer than the tunnel takes.
    Truncated = "truncated",
    /// The peer does not seal.
    NotSealed = "not-sealed",
    /// What is sealed does not open.
    NotOpened = "not-opened",
    /// Handshakes that are not the peer's, or too many.
    BadHandshakes = "bad-handshakes",
    /// Control messages come by another path than the one that they were made for.
    OtherPath = "other-path",
    /// Probes and reports of another session.
    StaleControl = "stale-control",
    /// Sequence numbers that are not believed.
    SequenceJumps = "sequence-jumps",
    /// Marked on the way, though the sender does not know ECN.
    CongestionMarks = "congestion-marks",
    /// The TUN does not take packets.
    InterfaceRefuses = "interface-refuses",
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

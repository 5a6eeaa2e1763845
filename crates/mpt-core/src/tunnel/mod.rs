//! A tunnel's two halves.
//!
//! [`Outbound`] takes packets from the TUN and gives trains of datagrams for the paths; [`Inbound`]
//! takes datagrams and gives packets for the TUN in order, and besides keeps the paths: it sends
//! and answers probes and decides which paths are usable. Each half belongs to one thread. They
//! share a few atomics: which paths are usable, the tunnel's MTU, and what was sent so far.
//!
//! # The poll contract
//!
//! Neither half does I/O or reads a clock. After any `handle_*` call, take everything that the
//! half's `poll_*` functions have, until they return `None`. [`Inbound::poll_timeout`] says when to
//! call [`Inbound::handle_timeout`] at the latest, [`Outbound::poll_timeout`] the same of
//! [`Outbound::handle_timeout`]; it may change with any call. When [`Outbound::poll_wake`] says so, call
//! [`Inbound::wake`] of the same end. What [`Inbound::poll_news`] has goes to [`Outbound::learn`] of the same end.

mod activity;
mod delivery;
mod diagnosis;
mod event;
mod halves;
mod heard;
mod inbound;
mod look;
mod mtus;
mod news;
mod outbound;
mod outbox;
mod ready;
mod report_budget;
mod reporting;
mod sealing;
mod session;
mod sizing;
mod watermarks;
mod window;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

pub use event::Event;
use halves::{Numbers, Suspicion, Wake};
pub use inbound::{Datagram, Inbound};
pub use news::News;
pub use outbound::Outbound;
pub use sizing::ReorderSettings;

use crate::crypto::Sessions;
use crate::path::{MAX_PATHS, PathId, PathSet};
use crate::receive::coalesce::Accepts;
use crate::send::scheduler::Policy;
use crate::send::scheduler::law::Law;
use crate::seq::Seq;

/// What is configured of a tunnel as a whole.
#[derive(Debug, Clone, PartialEq)]
pub struct TunnelConfig {
    /// This end's session: random, new at each start, not 0.
    pub session: u64,
    /// GRE key, both ways.
    pub key: Option<u32>,
    /// Largest inner packet, in bytes: the MTU of the TUN.
    pub mtu: u16,
    /// How the receiving side keeps order; where it does not, nothing is numbered either.
    pub reorder: ReorderSettings,
    /// How packets are shared among paths.
    pub policy: Policy,
    /// Lost packets are sent again.
    pub recovery: bool,
    /// Which super-packets the TUN takes.
    pub accepts: Accepts,
    /// The sockets may hand over trains (`UDP_GRO`), so that buffers must have room for one.
    pub receives_trains: bool,
    /// How paths' rates are found, and which path takes a packet.
    pub law: &'static Law,
}

#[cfg(test)]
impl TunnelConfig {
    /// An adaptive tunnel that sends lost packets again, over sockets and a TUN that take packets one by one.
    pub(crate) fn of_test(session: u64, mtu: u16) -> TunnelConfig {
        TunnelConfig {
            session,
            key: None,
            mtu,
            reorder: ReorderSettings::default(),
            policy: Policy::Adaptive,
            recovery: true,
            accepts: Accepts::NONE,
            receives_trains: false,
            law: &Law::LAW,
        }
    }
}

/// Datagrams to be sent over one path.
#[derive(Debug, Clone, Copy)]
pub struct Transmit<'a> {
    /// The path.
    pub path: PathId,
    /// Whose socket it leaves by: the path's own, but in a hub any of the hub's.
    pub socket: PathId,
    /// Where to.
    pub to: SocketAddr,
    /// Outer TOS or Traffic Class: DSCP and ECN.
    pub tos: u8,
    /// Size in bytes of each datagram in `contents`; the last may be shorter.
    pub segment_size: usize,
    /// Number of datagrams.
    pub datagrams: usize,
    /// The datagrams, one behind the other.
    pub contents: &'a [u8],
}

impl Transmit<'_> {
    /// One datagram by itself, over a path by a socket.
    fn single(way: [PathId; 2], to: SocketAddr, contents: &[u8]) -> Transmit<'_> {
        let [path, socket] = way;
        Transmit {
            path,
            socket,
            to,
            tos: 0,
            segment_size: contents.len(),
            datagrams: 1,
            contents,
        }
    }
}

/// Makes the two halves of a tunnel without paths; add those to both.
#[must_use]
pub fn tunnel(config: &TunnelConfig) -> (Outbound, Inbound) {
    let shared = Arc::new(Shared::new(config.mtu));
    (
        Outbound::new(config, shared.clone()),
        Inbound::new(config, shared),
    )
}

/// Makes the two halves of a sealed tunnel without paths: all that they send is sealed, and nothing else
/// is taken. `sessions` are those with the peer, none yet; its session is that of `config`, whose GRE key
/// is not used.
#[must_use]
pub fn sealed_tunnel(config: &TunnelConfig, sessions: Sessions) -> (Outbound, Inbound) {
    let plain = TunnelConfig {
        key: None,
        ..config.clone()
    };
    let (mut outbound, mut inbound) = tunnel(&plain);
    outbound.seal();
    inbound.seal(sessions);
    (outbound, inbound)
}

/// What `halves.rs` is made of; loom's when loom tests it.
mod atomics {
    pub(super) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
}

/// What both halves see.
#[derive(Debug)]
struct Shared {
    /// Paths that may carry packets; written by the line in.
    usable: AtomicU32,
    /// Largest inner packet now; written by the line in.
    mtu: AtomicU32,
    numbers: Numbers<MAX_PATHS>,
    sent: [Sent; MAX_PATHS],
    suspicion: Suspicion,
    /// Paths that the peer suspects; written by the line in.
    doubted: AtomicU32,
    wake: Wake,
    /// The peer's session is known: it answers probes, and reports when it is asked.
    peer_known: AtomicBool,
}

/// What was sent on one path; both lines add to it.
#[derive(Debug, Default)]
struct Sent {
    packets: AtomicU64,
    bytes: AtomicU64,
}

impl Shared {
    fn new(mtu: u16) -> Shared {
        Shared {
            usable: AtomicU32::new(0),
            mtu: AtomicU32::new(u32::from(mtu)),
            numbers: Numbers::new(Seq::FIRST.value()),
            sent: Default::default(),
            suspicion: Suspicion::new(),
            doubted: AtomicU32::new(0),
            wake: Wake::new(),
            peer_known: AtomicBool::new(false),
        }
    }

    fn peer_is_known(&self) -> bool {
        self.peer_known.load(Ordering::Relaxed)
    }

    fn usable(&self) -> PathSet {
        PathSet::from_bits(self.usable.load(Ordering::Relaxed) as u16)
    }

    /// Paths that the line out suspects.
    fn suspected(&self) -> PathSet {
        PathSet::from_bits(self.suspicion.told().0)
    }

    /// The same, and those of them for which nothing is left to be sent again. To be asked after
    /// [`Shared::next_seq`].
    fn suspected_and_abandoned(&self) -> [PathSet; 2] {
        let (suspected, abandoned) = self.suspicion.told();
        [suspected, abandoned].map(PathSet::from_bits)
    }

    fn doubted(&self) -> PathSet {
        PathSet::from_bits(self.doubted.load(Ordering::Relaxed) as u16)
    }

    /// Tells the line out which paths the peer suspects.
    fn tell_doubted(&self, doubted: PathSet) {
        let bits = u32::from(doubted.bits());
        self.doubted.store(bits, Ordering::Relaxed);
    }

    /// Tells the line in which paths are suspected, and which of them abandoned.
    fn tell_suspected(&self, suspected: PathSet, abandoned: PathSet) {
        self.suspicion.tell(suspected.bits(), abandoned.bits());
    }

    fn mtu(&self) -> u16 {
        self.mtu.load(Ordering::Relaxed) as u16
    }

    fn count_sent(&self, path: PathId, packets: u64, bytes: u64) {
        let sent = &self.sent[path.index()];
        sent.packets.fetch_add(packets, Ordering::Relaxed);
        sent.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Packets and bytes sent on the path.
    fn sent(&self, path: PathId) -> (u64, u64) {
        let sent = &self.sent[path.index()];
        (
            sent.packets.load(Ordering::Relaxed),
            sent.bytes.load(Ordering::Relaxed),
        )
    }

    /// Everything below has been sent.
    fn next_seq(&self) -> Seq {
        Seq::new(self.numbers.next())
    }

    /// The highest number that was sent on the path, if any was.
    fn last_on(&self, path: PathId) -> Option<Seq> {
        self.numbers.last_on(path.index()).map(Seq::new)
    }

    fn set_last_on(&self, path: PathId, last: Seq) {
        self.numbers.set_last_on(path.index(), last.value());
    }

    fn forget_sent(&self, path: PathId) {
        self.numbers.forget(path.index());
        self.sent[path.index()].packets.store(0, Ordering::Relaxed);
        self.sent[path.index()].bytes.store(0, Ordering::Relaxed);
    }
}

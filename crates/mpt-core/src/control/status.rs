//! What `mpt-ctl status --json` prints: of a tunnel, of its paths, of its reorder window.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::budgets::BudgetStatus;
use super::classes::ClassStatus;
use super::order::OrderStatus;
use super::recent::Recent;
use super::verdict::Verdict;
use super::{Handshake, HubStatus, PeerStatus};

/// The whole of a tunnel, as `mpt-ctl status --json` prints it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Status {
    /// The tunnel as such.
    pub tunnel: TunnelStatus,
    /// Its paths, in the order of the configuration.
    pub paths: Vec<PathStatus>,
    /// Its classes, in the order of the configuration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassStatus>,
    /// The receiving side's reorder window.
    pub reorder: ReorderStatus,
    /// Where the tunnel is a hub: how many peers it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hub: Option<HubStatus>,
    /// Where the tunnel is a hub: its peers, in the order of the configuration, as far as a line has room for them.
    #[serde(default)]
    pub peers: Vec<PeerStatus>,
    /// What was counted in the last seconds.
    #[serde(default)]
    pub recent: Recent,
    /// Whether all is well, and if not, why.
    #[serde(default)]
    pub verdict: Verdict,
}

/// The tunnel as such.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TunnelStatus {
    /// TUN interface.
    pub name: String,
    /// MTU of the TUN interface, in bytes.
    pub mtu: u32,
    /// This end's session, new at each start, in hexadecimal.
    pub session: String,
    /// The peer's session, in hexadecimal; absent while the peer has sent no probes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_session: Option<String>,
    /// Whole seconds since the tunnel started.
    pub uptime_s: u64,
    /// Packets that came from the TUN and were handed to a path.
    pub tx_packets: u64,
    /// Their bytes, inner headers included.
    pub tx_bytes: u64,
    /// Packets that were written to the TUN.
    pub rx_packets: u64,
    /// Their bytes, inner headers included.
    pub rx_bytes: u64,
    /// Packets dropped since start, by reason; every reason is listed, also at 0.
    pub drops: BTreeMap<String, u64>,
    /// Configuration file.
    #[serde(default)]
    pub config: String,
    /// Scheduler in use.
    #[serde(default)]
    pub scheduler: String,
    /// The adaptive scheduler gets no reports from the peer, so that weights decide.
    #[serde(default)]
    pub unreported: bool,
    /// Packets that wait until a path can take them; 0 at a hub, where each peer has a queue.
    #[serde(default)]
    pub queue_packets: u64,
    /// Their bytes.
    #[serde(default)]
    pub queue_bytes: u64,
    /// Packets marked "congestion experienced" since start because they had waited too long.
    #[serde(default)]
    pub queue_marked: u64,
    /// What is lost is to be sent again.
    #[serde(default)]
    pub recovers: bool,
    /// What was sent again; nothing at a hub, where [`PeerReport`](super::PeerReport) has it of each peer.
    #[serde(default)]
    pub recovery: RecoveryStatus,
    /// TUN back end in use and why: "plain" or "offload (…)". Where a hub has several workers, also what the
    /// interface's queues go by.
    #[serde(default)]
    pub offload: String,
    /// Whether packets are sealed.
    #[serde(default)]
    pub protection: Protection,
    /// Whether the two ends have come to speak; absent in a plain tunnel that has nothing to say of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshake: Option<Handshake>,
    /// What is configured and is not there now. Each of it is tried again by itself.
    #[serde(default)]
    pub missing: Vec<Missing>,
    /// Nothing was carried for some seconds: paths are probed seldom.
    #[serde(default)]
    pub idle: bool,
}

/// Something that is configured and is not there.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Missing {
    /// What: `route 192.0.2.0/24`, `interface mpt0`, `path lte`.
    pub what: String,
    /// Why, and what to do about it, in words.
    pub why: String,
}

/// Whether, and with what, packets are sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Protection {
    /// They are not: anybody on the way can read and forge them.
    #[default]
    #[serde(rename = "none")]
    None,
    /// They will be: there are keys, but no session with the peer, and nothing goes until then.
    #[serde(rename = "waiting")]
    Waiting,
    /// With AES-256-GCM.
    #[serde(rename = "aes-256-gcm")]
    Aes256Gcm,
    /// With ChaCha20-Poly1305.
    #[serde(rename = "chacha20-poly1305")]
    ChaCha20Poly1305,
}

/// One path.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PathStatus {
    /// The path's name in the configuration.
    pub name: String,
    /// Up, down, probing, waiting or administratively down.
    pub state: PathState,
    /// Why it is not up, in words; absent when it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Relative share of bytes.
    pub weight: u32,
    /// What it costs: cheaper paths are used first.
    #[serde(default)]
    pub cost: u32,
    /// What it may carry in a month, where that is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetStatus>,
    /// Local address and port.
    pub local: String,
    /// Remote address and port.
    pub remote: String,
    /// What the peer calls it, where the peer calls and has told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_name: Option<String>,
    /// Device that the path is bound to, when one is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// Device that the kernel sends its datagrams by; absent where it has no route to the peer, or the peer
    /// is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Device that they are to leave by, where that is another one: the one that has the local address, or
    /// the configured one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_wanted: Option<String>,
    /// What mends that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_remedy: Option<String>,
    /// Device that they are to leave by, where no route leads to the peer by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routeless: Option<String>,
    /// Smoothed round-trip time; absent until measured.
    pub rtt_us: Option<u64>,
    /// Least round-trip time seen in the last minute; absent until measured.
    pub rtt_min_us: Option<u64>,
    /// Share of our packets that the peer reports missing on this path, 0 to 1, recent.
    pub loss: f64,
    /// Share of the peer's packets that are missing here on this path, 0 to 1, recent.
    #[serde(default)]
    pub rx_loss: f64,
    /// Datagrams sent on the path, probes included.
    pub tx_packets: u64,
    /// Their bytes, GRE header included.
    pub tx_bytes: u64,
    /// Datagrams of the peer received on the path, probes included.
    pub rx_packets: u64,
    /// Their bytes, GRE header included.
    pub rx_bytes: u64,
    /// How much later than on the fastest path packets arrive here, one way; absent until measured.
    #[serde(default)]
    pub rx_delay_us: Option<u64>,
    /// Bits a second sent here, mean of the last seconds.
    #[serde(default)]
    pub tx_bps: u64,
    /// Bits a second received here, mean of the last seconds.
    #[serde(default)]
    pub rx_bps: u64,
    /// How the adaptive scheduler treats it.
    #[serde(default)]
    pub tx_phase: PathPhase,
    /// What the adaptive scheduler gives it at most, in bits a second; absent while that is unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tx_limit_bps: Option<u64>,
    /// What it delivered recently, by the peer's reports.
    #[serde(default)]
    pub tx_delivered_bps: u64,
    /// Queue on the way, as delay.
    #[serde(default)]
    pub tx_queue_us: u64,
    /// Share of packets that it loses at any rate, 0 to 1.
    #[serde(default)]
    pub tx_usual_loss: f64,
    /// Packets that it lost, or that were under way on it when it fell silent, and that were sent again.
    #[serde(default)]
    pub tx_recovered: u64,
    /// Largest inner packet that fits this path, in bytes.
    #[serde(default)]
    pub mtu: u32,
    /// It carries so much less than others that packets go over those alone.
    #[serde(default)]
    pub narrow: bool,
    /// Nothing has been answered for so long that it is asked only now and then: a router on the way may keep a
    /// wrong mapping as long as anything comes.
    #[serde(default)]
    pub rests: bool,
    /// Datagrams that the kernel dropped because the receive buffer was full.
    #[serde(default)]
    pub socket_drops: u64,
    /// Receive buffer granted, in bytes.
    #[serde(default)]
    pub receive_buffer_bytes: u64,
    /// Receive buffer asked for, in bytes.
    #[serde(default)]
    pub receive_buffer_wanted_bytes: u64,
    /// Bytes of what was sent besides data (probes, reports, handshakes), IP and UDP headers included.
    #[serde(default)]
    pub control_tx_bytes: u64,
    /// Bytes of what was received besides data, IP and UDP headers included.
    #[serde(default)]
    pub control_rx_bytes: u64,
}

/// Recovery, in packets since start: at the sender, but for the reports.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RecoveryStatus {
    /// Found lost by the peer's reports; one that is lost again counts again.
    pub lost: u64,
    /// Sent again.
    pub resent: u64,
    /// Inner bytes of these.
    pub resent_bytes: u64,
    /// Of these, needless: the original arrived as well.
    pub spurious: u64,
    /// Sent again since no report came, to learn about the end of a burst.
    pub probes: u64,
    /// Memory that sent packets are kept in, without what is ready for more.
    pub memory_bytes: u64,
    /// Bytes of this end's reports to the peer, with all headers.
    #[serde(default)]
    pub report_bytes: u64,
}

/// How the adaptive scheduler treats a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PathPhase {
    /// It takes whatever there is: its limit was not found yet, or another scheduler is in force.
    #[default]
    Open,
    /// It is paced at what it delivers.
    Limited,
    /// It is paced below what it delivers for a moment, to measure its delay without a queue.
    Draining,
    /// Others fill its queue: it takes whatever there is, and the inner flows compete.
    Competing,
    /// Nothing that was sent over it lately is reported: until it answers, packets go over others.
    Suspected,
}

/// What a path is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PathState {
    /// No probe has been answered yet.
    #[default]
    Probing,
    /// Probes are answered; the path carries traffic.
    Up,
    /// The link is down, an error came back, or probes stay without answer.
    Down,
    /// Taken out of service by `mpt-ctl path down`.
    AdminDown,
    /// It has no socket yet, or no longer: something on this host is missing, which `reason` names.
    Waiting,
}

/// The receiving side's reorder window.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ReorderStatus {
    /// Sequence numbers that may be held; 0 when reordering is off.
    pub window: u32,
    /// Longest that a packet may be held.
    #[serde(default)]
    pub max_buffer_delay_us: u64,
    /// What happens to late packets.
    #[serde(default)]
    pub late_policy: LatePolicy,
    /// Packets held at this moment.
    pub held: u64,
    /// Most packets held at once since start.
    pub held_max: u64,
    /// Packets with a sequence number above all before them.
    pub in_order: u64,
    /// Packets with a sequence number below one seen before, but in time (RFC 4737 §3.3).
    pub reordered: u64,
    /// Packets that arrived after their gap had ended.
    pub late: u64,
    /// Packets that arrived again; never delivered twice.
    pub duplicates: u64,
    /// Packets that did not wait for lower numbers, since each continued its own TCP connection or only acknowledged.
    #[serde(default)]
    pub passed: u64,
    /// Sequence numbers that were missing when a later packet arrived; the gaps below add up to
    /// this, less those still open.
    #[serde(default)]
    pub gaps_seen: u64,
    /// Missing sequence numbers being waited for at this moment.
    #[serde(default)]
    pub gaps_open: u64,
    /// Missing sequence numbers that arrived in time.
    pub gaps_filled: u64,
    /// Missing sequence numbers that every path that is up had delivered past, and that the peer
    /// sent again in time.
    #[serde(default)]
    pub gaps_recovered: u64,
    /// Missing sequence numbers given up because every path that is up had delivered past them.
    pub gaps_inferred_lost: u64,
    /// Missing sequence numbers given up because `max_buffer_delay` had passed.
    pub gaps_timed_out: u64,
    /// Missing sequence numbers given up because the window was full.
    pub gaps_overflowed: u64,
    /// How long packets were held, of those that were.
    pub hold_us: HoldTimes,
    /// How long it took from the inference of a loss until the packet came again.
    #[serde(default)]
    pub recovery_us: HoldTimes,
    /// The window follows what is measured.
    #[serde(default)]
    pub window_auto: bool,
    /// So does `max_buffer_delay_us`.
    #[serde(default)]
    pub max_buffer_delay_auto: bool,
    /// Widest window that memory allows, in packets.
    #[serde(default)]
    pub window_limit: u64,
    /// From the earliest to the latest that packets come over any path, jitter included.
    #[serde(default)]
    pub delay_difference_us: u64,
    /// Most packets that came in a recent second.
    #[serde(default)]
    pub packets_per_s: u64,
    /// Window that the delay difference and [`Self::packets_per_s`] ask for; absent until known.
    #[serde(default)]
    pub window_needed: Option<u64>,
    /// How packets are put in order.
    #[serde(default)]
    pub mode: ReorderMode,
    /// Packets in a block, with [`ReorderMode::Block`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_size: Option<u16>,
    /// Order as it was measured; in the reply to [`Request::Reorder`](super::Request::Reorder) alone, for its length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Box<OrderStatus>>,
}

/// Percentiles of times.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct HoldTimes {
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Longest.
    pub max: u64,
}

/// How the receiving side puts packets in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReorderMode {
    /// They are held until those before them are there.
    #[default]
    Window,
    /// What arrives together is sorted, and nothing is held.
    Block,
}

/// What happens to a packet that arrives after its gap has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LatePolicy {
    /// Deliver it, unless it was delivered before.
    #[default]
    Deliver,
    /// Drop it, as RFC 2890 §2.2 and the MPT-GRE software do.
    Drop,
}

impl LatePolicy {
    /// Its name in the configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            LatePolicy::Deliver => "deliver",
            LatePolicy::Drop => "drop",
        }
    }

    /// The policy of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<LatePolicy> {
        let mut all = [LatePolicy::Deliver, LatePolicy::Drop].into_iter();
        all.find(|late| late.name() == name)
    }
}

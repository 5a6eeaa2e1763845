//! A link between two hosts, and how its two directions behave.

use std::fmt::Write as _;
use std::time::Duration;

use crate::namespace::Namespace;

/// Address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Length of its header, in bytes.
    #[must_use]
    pub fn header_bytes(self) -> f64 {
        match self {
            Self::V4 => 20.0,
            Self::V6 => 40.0,
        }
    }
}

/// What happens to packets in one direction of a link.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    rate_mbps: Option<f64>,
    delay: Duration,
    jitter: Duration,
    loss_percent: f64,
    queue_packets: u32,
    more: String,
}

impl Shape {
    /// As fast as the machine.
    #[must_use]
    pub fn unshaped() -> Self {
        Self {
            rate_mbps: None,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            loss_percent: 0.0,
            queue_packets: 1000,
            more: String::new(),
        }
    }

    /// This many Mbit/s (packets counted with 14 bytes of Ethernet header), netem's queue of 1000.
    #[must_use]
    pub fn mbps(rate: f64) -> Self {
        Self {
            rate_mbps: Some(rate),
            ..Self::unshaped()
        }
    }

    /// Delay in milliseconds, each way.
    #[must_use]
    pub fn delay_ms(mut self, delay: u64) -> Self {
        self.delay = Duration::from_millis(delay);
        self
    }

    /// Jitter in milliseconds: uniform within ± this much.
    #[must_use]
    pub fn jitter_ms(mut self, jitter: u64) -> Self {
        self.jitter = Duration::from_millis(jitter);
        self
    }

    /// Random loss in percent.
    #[must_use]
    pub fn loss(mut self, percent: f64) -> Self {
        self.loss_percent = percent;
        self
    }

    /// Packets that the queue holds, those under way included.
    #[must_use]
    pub fn queue(mut self, packets: u32) -> Self {
        self.queue_packets = packets;
        self
    }

    /// Further words for netem, as in tc-netem(8): `duplicate 1%`, `distribution normal`.
    #[must_use]
    pub fn netem(mut self, words: &str) -> Self {
        words.clone_into(&mut self.more);
        self
    }

    /// The rate in Mbit/s, when there is one.
    #[must_use]
    pub fn rate_mbps(&self) -> Option<f64> {
        self.rate_mbps
    }

    fn is_rate_alone(&self) -> bool {
        self.delay.is_zero() && self.loss_percent == 0.0 && self.more.is_empty()
    }

    fn netem_words(&self) -> String {
        let mut words = format!("netem limit {}", self.queue_packets);
        if !self.delay.is_zero() {
            let _ = write!(words, " delay {}us", self.delay.as_micros());
            if !self.jitter.is_zero() {
                let _ = write!(words, " {}us", self.jitter.as_micros());
            }
        }
        if self.loss_percent > 0.0 {
            let _ = write!(words, " loss {}%", self.loss_percent);
        }
        if let Some(rate) = self.rate_mbps {
            let _ = write!(words, " rate {}kbit", (rate * 1000.0).round());
        }
        format!("{words} {}", self.more)
    }

    /// Puts this shape on the egress of `device`, also in place of another, in mid-run.
    fn apply(&self, host: &Namespace, device: &str) {
        if self.rate_mbps.is_none() && self.is_rate_alone() {
            let _ = host.output(&format!("tc qdisc del dev {device} root"));
            return;
        }
        // `change` keeps what is queued; it works once a netem is there.
        let netem = self.netem_words();
        let change = host.output(&format!("tc qdisc change dev {device} root {netem}"));
        if change.status.success() {
            return;
        }
        let replace = host.output(&format!("tc qdisc replace dev {device} root {netem}"));
        if replace.status.success() {
            return;
        }
        let error = String::from_utf8_lossy(&replace.stderr).into_owned();
        match self.rate_mbps {
            Some(rate) if self.is_rate_alone() && error.contains("kind is unknown") => {
                // A kernel without netem can still limit a rate; bursts of ten packets.
                let bytes = self.queue_packets * 1514;
                host.run(&format!(
                    "tc qdisc replace dev {device} root tbf rate {}kbit burst 15140 limit {bytes}",
                    (rate * 1000.0).round()
                ));
            }
            Some(_) | None => {
                panic!("tc {netem} on {device}: {error}(./test runs this in the lab)")
            }
        }
    }
}

/// One veth pair between hosts A and B, named `path<index>` at both ends.
#[derive(Debug)]
pub struct Link {
    /// Name of the device, at both ends.
    pub device: String,
    /// Family of its addresses.
    pub family: Family,
    /// Address of A's end.
    pub address_a: String,
    /// Address of B's end.
    pub address_b: String,
    /// Shape of the direction from A to B.
    pub shape: Shape,
}

impl Link {
    /// Lays link number `index` between two hosts, with addresses of its own and both directions
    /// shaped alike.
    #[must_use]
    pub fn lay(a: &Namespace, b: &Namespace, index: usize, family: Family, shape: &Shape) -> Self {
        let device = format!("path{index}");
        let (address_a, address_b, prefix) = match family {
            Family::V4 => (format!("10.1.{index}.1"), format!("10.1.{index}.2"), 30),
            Family::V6 => (
                format!("fd00:1:{index}::1"),
                format!("fd00:1:{index}::2"),
                64,
            ),
        };
        let peer = b.name();
        a.run(&format!(
            "ip link add {device} type veth peer name {device} netns {peer}"
        ));
        for (host, address) in [(a, &address_a), (b, &address_b)] {
            // A real link carries packets of its MTU, not super-packets of 64 KiB, and checksums that
            // are done: veth would pass on half-done ones, to a capture or inside a tunnel, too.
            host.run(&format!(
                "ethtool -K {device} tso off gso off gro off tx off"
            ));
            let dad = if family == Family::V6 { "nodad" } else { "" };
            host.run(&format!(
                "ip addr add {address}/{prefix} dev {device} {dad}"
            ));
            host.run(&format!("ip link set {device} up"));
        }
        let link = Self {
            device,
            family,
            address_a,
            address_b,
            shape: shape.clone(),
        };
        link.reshape(a, shape);
        link.reshape(b, shape);
        link
    }

    /// Changes what happens to packets that leave `host` on this link.
    pub fn reshape(&self, host: &Namespace, shape: &Shape) {
        shape.apply(host, &self.device);
    }

    /// Sets the device of `host` down: the other end loses its carrier.
    pub fn down(&self, host: &Namespace) {
        host.run(&format!("ip link set {} down", self.device));
    }

    /// Sets the device of `host` up again.
    pub fn up(&self, host: &Namespace) {
        host.run(&format!("ip link set {} up", self.device));
    }
}

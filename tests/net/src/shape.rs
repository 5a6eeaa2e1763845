//! What one direction of a link does to packets: rate, delay, jitter, loss, queue.
//!
//! A shape is one netem. With a rate it keeps packets in order whatever the jitter: none leaves
//! before the one ahead of it, so that a packet that drew a long delay holds up those behind it, as a
//! radio link with retransmissions of its own does. Without a rate jitter reorders. netem's queue
//! holds what is under way as well as what waits: `limit` packets of both, so that a queue of 20
//! behind a long delay is no queue but a limit on the rate; [`Shape::buffer`] counts the waiting alone.

use std::fmt::Write as _;
use std::time::Duration;

use crate::namespace::Namespace;
use crate::process;

/// Bytes of a full-sized packet as netem counts it.
const FULL_PACKET_BYTES: f64 = 1514.0;

/// How the delays of packets spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Jitter {
    /// Uniform within ± this much.
    Uniform(Duration),
    /// Normal, of this standard deviation.
    Normal(Duration),
}

/// Which packets are lost.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Loss {
    /// Each by itself.
    Random { percent: f64 },
    /// In bursts: Gilbert's model, everything is lost in the bad state and nothing in the good one.
    Bursts { percent: f64, mean_packets: f64 },
}

/// How long the queue is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Queue {
    /// Packets, those under way included.
    Limit(u32),
    /// Full-sized packets that wait, besides those under way.
    Buffer(u32),
}

/// What happens to packets in one direction of a link.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    rate_mbps: Option<f64>,
    delay: Duration,
    jitter: Jitter,
    loss: Loss,
    queue: Queue,
    more: String,
}

impl Shape {
    /// As fast as the machine.
    #[must_use]
    pub fn unshaped() -> Self {
        Self {
            rate_mbps: None,
            delay: Duration::ZERO,
            jitter: Jitter::Uniform(Duration::ZERO),
            loss: Loss::Random { percent: 0.0 },
            queue: Queue::Limit(1000),
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

    /// The same in everything else at this many Mbit/s.
    #[must_use]
    pub fn at_mbps(mut self, rate: f64) -> Self {
        self.rate_mbps = Some(rate);
        self
    }

    /// Delay in milliseconds, each way.
    #[must_use]
    pub fn delay_ms(mut self, delay: u64) -> Self {
        self.delay = Duration::from_millis(delay);
        self
    }

    /// Delay, each way.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Jitter in milliseconds: uniform within ± this much.
    #[must_use]
    pub fn jitter_ms(mut self, jitter: u64) -> Self {
        self.jitter = Jitter::Uniform(Duration::from_millis(jitter));
        self
    }

    /// Jitter of a normal distribution with this standard deviation in milliseconds.
    #[must_use]
    pub fn normal_jitter_ms(self, deviation: u64) -> Self {
        self.normal_jitter(Duration::from_millis(deviation))
    }

    /// Jitter of a normal distribution with this standard deviation.
    #[must_use]
    pub fn normal_jitter(mut self, deviation: Duration) -> Self {
        self.jitter = Jitter::Normal(deviation);
        self
    }

    /// Random loss in percent.
    #[must_use]
    pub fn loss(mut self, percent: f64) -> Self {
        self.loss = Loss::Random { percent };
        self
    }

    /// Loss of this many percent in bursts of `mean_packets` on average (Gilbert-Elliott).
    #[must_use]
    pub fn burst_loss(mut self, percent: f64, mean_packets: f64) -> Self {
        self.loss = Loss::Bursts {
            percent,
            mean_packets,
        };
        self
    }

    /// Packets that the queue holds, those under way included.
    #[must_use]
    pub fn queue(mut self, packets: u32) -> Self {
        self.queue = Queue::Limit(packets);
        self
    }

    /// Full-sized packets that the queue holds besides those under way.
    #[must_use]
    pub fn buffer(mut self, packets: u32) -> Self {
        self.queue = Queue::Buffer(packets);
        self
    }

    /// Further words for netem, as in tc-netem(8): `duplicate 1%`.
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

    /// The delay, jitter apart.
    #[must_use]
    pub fn base_delay(&self) -> Duration {
        self.delay
    }

    /// Share of packets that are lost on the way, in percent.
    #[must_use]
    pub fn loss_percent(&self) -> f64 {
        match self.loss {
            Loss::Random { percent } | Loss::Bursts { percent, .. } => percent,
        }
    }

    /// How far delays spread: half the range, or the standard deviation.
    #[must_use]
    pub fn jitter(&self) -> Duration {
        match self.jitter {
            Jitter::Uniform(jitter) | Jitter::Normal(jitter) => jitter,
        }
    }

    fn is_rate_alone(&self) -> bool {
        self.delay.is_zero() && self.loss_percent() == 0.0 && self.more.is_empty()
    }

    /// Packets that the queue holds, those under way included.
    fn limit_packets(&self) -> u32 {
        match self.queue {
            Queue::Limit(packets) => packets,
            Queue::Buffer(packets) => {
                let rate = self.rate_mbps.unwrap_or(0.0) * 1e6 / 8.0 / FULL_PACKET_BYTES;
                // Jitter keeps packets longer: four deviations are hardly ever exceeded.
                let longest = self.delay + 4 * self.jitter();
                packets.saturating_add((rate * longest.as_secs_f64()).ceil() as u32)
            }
        }
    }

    /// netem's words for this shape, as `tc` takes them.
    #[must_use]
    pub fn netem_words(&self) -> String {
        let mut words = format!("netem limit {}", self.limit_packets());
        if !self.delay.is_zero() {
            let _ = write!(words, " delay {}us", self.delay.as_micros());
            if !self.jitter().is_zero() {
                let _ = write!(words, " {}us", self.jitter().as_micros());
                if matches!(self.jitter, Jitter::Normal(_)) {
                    words.push_str(" distribution normal");
                }
            }
        }
        match self.loss {
            Loss::Random { percent } if percent > 0.0 => {
                let _ = write!(words, " loss {percent}%");
            }
            Loss::Bursts {
                percent,
                mean_packets,
            } => {
                let leave = 100.0 / mean_packets.max(1.0);
                let enter = leave * percent / (100.0 - percent);
                let _ = write!(words, " loss gemodel {enter:.4}% {leave:.4}% 100% 0%");
            }
            Loss::Random { .. } => {}
        }
        if let Some(rate) = self.rate_mbps {
            let _ = write!(words, " rate {}kbit", (rate * 1000.0).round());
        }
        if !self.more.is_empty() {
            let _ = write!(words, " {}", self.more);
        }
        words
    }

    /// Puts this shape on `device` of namespace `host`, also in place of another, in mid-run.
    pub(crate) fn apply(&self, host: &str, device: &str) {
        let tc = |line: &str| {
            let mut command = Namespace::command_in(host, "tc");
            process::output(command.args(line.split_whitespace()))
        };
        if self.rate_mbps.is_none() && self.is_rate_alone() {
            let _ = tc(&format!("qdisc del dev {device} root"));
            return;
        }
        // `change` keeps what is queued; it works once a netem is there.
        let netem = self.netem_words();
        if tc(&format!("qdisc change dev {device} root {netem}"))
            .status
            .success()
        {
            return;
        }
        let replace = tc(&format!("qdisc replace dev {device} root {netem}"));
        if replace.status.success() {
            return;
        }
        let error = String::from_utf8_lossy(&replace.stderr).into_owned();
        match self.rate_mbps {
            Some(rate) if self.is_rate_alone() && error.contains("kind is unknown") => {
                // A kernel without netem can still limit a rate; bursts of ten packets.
                let bytes = self.limit_packets() * 1514;
                let kbit = (rate * 1000.0).round();
                let tbf = format!(
                    "qdisc replace dev {device} root tbf rate {kbit}kbit burst 15140 limit {bytes}"
                );
                assert!(tc(&tbf).status.success(), "tc {tbf}");
            }
            Some(_) | None => {
                panic!("tc {netem} on {device}: {error}(./test runs this in the lab)")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_are_gilberts_two_states() {
        let shape = Shape::mbps(50.0).delay_ms(20).burst_loss(1.0, 5.0);
        assert_eq!(
            shape.netem_words(),
            "netem limit 1000 delay 20000us loss gemodel 0.2020% 20.0000% 100% 0% rate 50000kbit"
        );
    }

    #[test]
    fn a_buffer_counts_what_waits_alone() {
        let shape = Shape::mbps(50.0).delay_ms(20).buffer(20);
        // 82.6 packets are under way.
        assert!(shape.netem_words().starts_with("netem limit 103 "));
    }

    #[test]
    fn normal_jitter_names_its_distribution() {
        let words = Shape::mbps(8.0)
            .delay_ms(30)
            .normal_jitter_ms(3)
            .netem_words();
        assert_eq!(
            words,
            "netem limit 1000 delay 30000us 3000us distribution normal rate 8000kbit"
        );
    }
}

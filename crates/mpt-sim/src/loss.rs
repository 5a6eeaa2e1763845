//! Which packets are lost.
//!
//! Loss comes alone, as bit errors do, or in bursts, as radio fades and route flaps do, and the two
//! hurt differently at the same rate: a burst ends a transmission round that single losses merely
//! dent. [`Loss::GilbertElliott`] is the usual two-state model; [`Loss::Bursts`] loses exact runs,
//! for tests that must know the length.

use rand::RngExt as _;

use crate::rng::SimRng;

/// A loss model. Probabilities are fractions from 0 to 1; what lies outside counts as the nearer end.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Loss {
    /// Nothing is lost.
    #[default]
    None,
    /// Each packet by itself.
    Independent {
        /// Probability that a packet is lost.
        probability: f64,
    },
    /// Two states that change from packet to packet, each with its own loss.
    GilbertElliott {
        /// Probability of going from good to bad, for each packet.
        to_bad: f64,
        /// Probability of going from bad to good, for each packet.
        to_good: f64,
        /// Probability of loss in the good state.
        loss_good: f64,
        /// Probability of loss in the bad state.
        loss_bad: f64,
    },
    /// Runs of a fixed number of packets.
    Bursts {
        /// Probability that a packet outside a burst begins one.
        start: f64,
        /// Packets that a burst takes, the first included.
        packets: u32,
    },
}

impl Loss {
    /// Gilbert's model (all is lost in the bad state, nothing in the good one) of a mean loss of
    /// `probability` in bursts of `mean_burst` packets on average, at least 1.
    #[must_use]
    pub fn gilbert(probability: f64, mean_burst: f64) -> Self {
        let probability = probability.clamp(0.0, 0.999);
        let to_good = 1.0 / mean_burst.max(1.0);
        Loss::GilbertElliott {
            to_bad: to_good * probability / (1.0 - probability),
            to_good,
            loss_good: 0.0,
            loss_bad: 1.0,
        }
    }

    /// The share of packets that it loses in the long run.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match *self {
            Loss::None => 0.0,
            Loss::Independent { probability } => probability,
            Loss::GilbertElliott {
                to_bad,
                to_good,
                loss_good,
                loss_bad,
            } => {
                let bad = to_bad / (to_bad + to_good).max(f64::MIN_POSITIVE);
                bad * loss_bad + (1.0 - bad) * loss_good
            }
            Loss::Bursts { start, packets } => {
                let lost = start * f64::from(packets);
                lost / (1.0 + lost)
            }
        }
    }
}

/// Decides packet by packet, and keeps what the model must remember between packets.
#[derive(Debug, Clone)]
pub struct LossSource {
    rng: SimRng,
    bad: bool,
    burst_left: u32,
}

impl LossSource {
    /// A source that draws from `rng` and begins in the good state.
    #[must_use]
    pub fn new(rng: SimRng) -> Self {
        LossSource {
            rng,
            bad: false,
            burst_left: 0,
        }
    }

    /// Whether the next packet is lost.
    pub fn is_lost(&mut self, model: &Loss) -> bool {
        match *model {
            Loss::None => false,
            Loss::Independent { probability } => self.happens(probability),
            Loss::GilbertElliott {
                to_bad,
                to_good,
                loss_good,
                loss_bad,
            } => {
                let change = if self.bad { to_good } else { to_bad };
                self.bad ^= self.happens(change);
                self.happens(if self.bad { loss_bad } else { loss_good })
            }
            Loss::Bursts { start, packets } => {
                if self.burst_left == 0 && self.happens(start) {
                    self.burst_left = packets;
                }
                let lost = self.burst_left > 0;
                self.burst_left = self.burst_left.saturating_sub(1);
                lost
            }
        }
    }

    fn happens(&mut self, probability: f64) -> bool {
        self.rng.random::<f64>() < probability
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::stream;

    /// Loss fraction and mean burst length over many packets.
    fn run(model: Loss) -> (f64, f64) {
        const PACKETS: usize = 500_000;
        let mut source = LossSource::new(stream(5, 0));
        let lost: Vec<bool> = (0..PACKETS).map(|_| source.is_lost(&model)).collect();
        let total = lost.iter().filter(|&&l| l).count();
        let bursts = lost.windows(2).filter(|w| !w[0] && w[1]).count();
        (
            total as f64 / PACKETS as f64,
            total as f64 / bursts.max(1) as f64,
        )
    }

    #[test]
    fn independent_loss_has_its_probability() {
        let (p, burst) = run(Loss::Independent { probability: 0.02 });
        assert!((p - 0.02).abs() < 0.001, "{p}");
        assert!(burst < 1.05, "{burst}");
    }

    #[test]
    fn gilbert_has_its_loss_and_burst_length() {
        let (p, burst) = run(Loss::gilbert(0.03, 5.0));
        assert!((p - 0.03).abs() < 0.002, "{p}");
        assert!((burst - 5.0).abs() < 0.3, "{burst}");
    }

    #[test]
    fn bursts_have_their_exact_length() {
        let (_, burst) = run(Loss::Bursts {
            start: 0.0005,
            packets: 8,
        });
        assert!((burst - 8.0).abs() < 0.1, "{burst}");
    }

    #[test]
    fn certain_loss_loses_all_and_no_loss_none() {
        assert_eq!(run(Loss::Independent { probability: 1.0 }).0, 1.0);
        assert_eq!(run(Loss::None).0, 0.0);
    }
}

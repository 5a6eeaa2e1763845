//! Random links.

use std::ops::RangeInclusive;

use rand::RngExt as _;

use crate::delay::{Delay, MS};
use crate::link::{LinkConfig, Order, QueueLimit};
use crate::loss::Loss;
use crate::pair::PathSpec;
use crate::rng::SimRng;

/// A range, in the unit of what is drawn from it.
pub(super) type Span = RangeInclusive<f64>;

/// How links of a family are distributed. Rates and delays are drawn evenly on a logarithmic scale, all else evenly.
#[derive(Debug, Clone)]
pub(super) struct Links {
    /// Mbit/s.
    pub(super) rate: Span,
    /// The way back has the same rate, or this share of it with this probability.
    pub(super) back: (Span, f64),
    /// One-way delay, in ms.
    pub(super) delay_ms: Span,
    /// What the queue holds, in ms at the link's rate.
    pub(super) queue_ms: Span,
    /// Probability of independent loss, and of Gilbert's; the shares that they lose; mean burst, packets.
    pub(super) independent: (f64, Span),
    pub(super) gilbert: (f64, Span, Span),
    /// Probability of jitter; its standard deviation, in ms; the share of it that overtakes.
    pub(super) jitter: (f64, Span, f64),
}

/// The least that a queue holds, in bytes: three packets.
const LEAST_QUEUE_BYTES: usize = 3 * 1500;

impl Links {
    /// Draws one path; both directions are alike but for the rate.
    pub(super) fn draw(&self, rng: &mut SimRng) -> PathSpec {
        let mbps = log_uniform(rng, &self.rate);
        let delay_ms = log_uniform(rng, &self.delay_ms);
        let queue_ms = uniform(rng, &self.queue_ms);
        let loss = self.loss(rng);
        let (jitter_ms, overtakes) = self.jitter(rng);
        let back = match rng.random::<f64>() < self.back.1 {
            true => uniform(rng, &self.back.0),
            false => 1.0,
        };
        let link = |mbps: f64| LinkConfig {
            rate_bps: Some((mbps * 1e6) as u64),
            queue: QueueLimit::Bytes(((mbps * 125.0 * queue_ms) as usize).max(LEAST_QUEUE_BYTES)),
            delay: match jitter_ms {
                Some(sd_ms) => Delay::Normal {
                    mean_ns: nanos(delay_ms),
                    sd_ns: nanos(sd_ms),
                },
                None => Delay::Constant {
                    ns: nanos(delay_ms),
                },
            },
            order: if overtakes {
                Order::ByDelay
            } else {
                Order::Kept
            },
            loss,
            ..LinkConfig::default()
        };
        PathSpec {
            weight: (mbps.round() as u32).max(1),
            v6: false,
            links: [link(mbps), link(mbps * back)],
        }
    }

    fn loss(&self, rng: &mut SimRng) -> Loss {
        let kind: f64 = rng.random();
        let (independent, gilbert) = (&self.independent, &self.gilbert);
        if kind < independent.0 {
            Loss::Independent {
                probability: uniform(rng, &independent.1),
            }
        } else if kind < independent.0 + gilbert.0 {
            let share = uniform(rng, &gilbert.1);
            Loss::gilbert(share, uniform(rng, &gilbert.2))
        } else {
            Loss::None
        }
    }

    /// Standard deviation in ms, and whether packets overtake.
    fn jitter(&self, rng: &mut SimRng) -> (Option<f64>, bool) {
        let (probability, sd_ms, overtaking) = &self.jitter;
        if rng.random::<f64>() >= *probability {
            return (None, false);
        }
        let sd = uniform(rng, sd_ms);
        (Some(sd), rng.random::<f64>() < *overtaking)
    }
}

pub(super) fn nanos(ms: f64) -> u64 {
    (ms * MS as f64) as u64
}

pub(super) fn uniform(rng: &mut SimRng, span: &Span) -> f64 {
    span.start() + (span.end() - span.start()) * rng.random::<f64>()
}

pub(super) fn log_uniform(rng: &mut SimRng, span: &Span) -> f64 {
    let (low, high) = (span.start().ln(), span.end().ln());
    (low + (high - low) * rng.random::<f64>()).exp()
}

//! Pairs of links, and what a tunnel over each pair is asked to carry.
//!
//! Whether a bond is worth having is a matter of which links are bonded. So the yardstick is a set of
//! pairs ([`table`]) of the kinds that people have: equal ones, a fast and a slow one, a near and a
//! far one, with jitter, loss, queues too long and too short, and what changes in mid-run. For each
//! pair one TCP CUBIC flow of 20 seconds goes over each link alone, then over a tunnel whose
//! configuration names addresses and nothing else ([`measure`]); the bounds compare the two.
//!
//! All of it is black-box: what netem does is known to the tunnel only by what it measures.

pub mod apart_figures;
pub mod download;
pub mod field;
pub mod figure;
pub mod measure;
pub mod recovery_figures;
pub mod steady_figures;
pub mod table;
pub mod traffic_figures;

use std::fmt;

use crate::limit::goodput_limit_mbps;
use crate::link::Family;
use crate::shape::Shape;

/// How long a measured flow goes on, in seconds, unless something else is said.
pub const SECONDS: u32 = 20;

/// One link of a pair.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// The direction that carries the flow.
    pub there: Shape,
    /// The direction that carries its acknowledgements.
    pub back: Shape,
    /// What happens to its rate in mid-run.
    pub dip: Option<Dip>,
    /// Whether a TCP CUBIC flow outside the tunnel uses it as well.
    pub shared: bool,
}

/// A rate that falls and comes back, in both directions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dip {
    /// What it falls to, as a share of the rate.
    pub to: f64,
    /// When, as a share of the flow's time.
    pub from: f64,
    /// When it is back.
    pub until: f64,
}

/// What is asked of the tunnel's goodput, as a share of something.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    /// Of the best link alone, in the same run.
    Best(f64),
    /// Of the sum of what the links can carry at most.
    Sum(f64),
    /// Of one link of the summed rate, the mean delay and the same loss.
    Ideal(f64),
}

/// A pair of links with the bounds that hold for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// Short, for `--only`.
    pub name: &'static str,
    /// The links.
    pub lines: [Line; 2],
    /// What is asked. `Best(0.95)` always is.
    pub bounds: Vec<Bound>,
}

impl Line {
    /// A link that is alike in both directions and in time.
    #[must_use]
    pub fn new(shape: Shape) -> Self {
        Self {
            there: shape.clone(),
            back: shape,
            dip: None,
            shared: false,
        }
    }

    /// With another shape for the way back.
    #[must_use]
    pub fn back(mut self, shape: Shape) -> Self {
        self.back = shape;
        self
    }

    /// With a rate that falls and comes back.
    #[must_use]
    pub fn dip(mut self, dip: Dip) -> Self {
        self.dip = Some(dip);
        self
    }

    /// Shared with a flow outside the tunnel.
    #[must_use]
    pub fn shared(mut self) -> Self {
        self.shared = true;
        self
    }

    /// Both directions.
    #[must_use]
    pub fn shapes(&self) -> [Shape; 2] {
        [self.there.clone(), self.back.clone()]
    }

    /// Mean rate over a run that one user of the link can have, in Mbit/s: half of a shared one.
    #[must_use]
    pub fn mean_rate_mbps(&self) -> f64 {
        let full = self.there.rate_mbps().unwrap_or(0.0);
        let missing = self
            .dip
            .map_or(0.0, |dip| (1.0 - dip.to) * (dip.until - dip.from));
        let users = if self.shared { 2.0 } else { 1.0 };
        full * (1.0 - missing) / users
    }

    /// All that a measurement over it alone depends on, in words.
    #[must_use]
    pub fn key(&self) -> String {
        let mut key = self.there.netem_words();
        if self.back != self.there {
            key = format!("{key} | {}", self.back.netem_words());
        }
        if let Some(dip) = self.dip {
            key = format!("{key} | x {} in {}..{}", dip.to, dip.from, dip.until);
        }
        if self.shared {
            key.push_str(" | shared");
        }
        key
    }

    /// Whether it stays as it is, for one flow alone, and is the same both ways.
    fn is_plain(&self) -> bool {
        self.dip.is_none() && !self.shared && self.back == self.there
    }
}

impl Profile {
    /// The same with this share of the rates, for less work: all that depends on times stays.
    #[must_use]
    pub fn at_share(mut self, share: f64) -> Self {
        for line in &mut self.lines {
            for shape in [&mut line.there, &mut line.back] {
                if let Some(mbps) = shape.rate_mbps() {
                    *shape = shape.clone().at_mbps(mbps * share);
                }
            }
        }
        self
    }

    /// What one link in the place of both would be: summed rate, mean delay, the first one's jitter and
    /// queue, the mean loss by rate. `None` where a link changes, is shared or has a way back of its own.
    #[must_use]
    pub fn ideal(&self) -> Option<Line> {
        if !self.lines.iter().all(Line::is_plain) {
            return None;
        }
        let rates = [0, 1].map(|line: usize| self.lines[line].there.rate_mbps().unwrap_or(0.0));
        let sum = rates[0] + rates[1];
        let of = |line: usize| &self.lines[line].there;
        let loss = (rates[0] * of(0).loss_percent() + rates[1] * of(1).loss_percent()) / sum;
        let delay = (of(0).base_delay() + of(1).base_delay()) / 2;
        let ideal = of(0).clone().at_mbps(sum).delay(delay);
        Some(Line::new(if of(0).loss_percent() == of(1).loss_percent() {
            ideal // with its kind of loss
        } else {
            ideal.loss(loss)
        }))
    }

    /// What the links can carry at most in a run, in Mbit/s of one flow's payload.
    #[must_use]
    pub fn sum_mbps(&self, mtu: u32) -> f64 {
        let rates: Vec<_> = self
            .lines
            .iter()
            .map(|line| (line.mean_rate_mbps(), Family::V4))
            .collect();
        goodput_limit_mbps(&rates, mtu, Family::V4)
    }

    /// The least delay that any packet has, one way there, in milliseconds.
    #[must_use]
    pub fn base_ms(&self) -> f64 {
        let delays = self.lines.iter().map(|line| line.there.base_delay());
        delays.min().unwrap_or_default().as_secs_f64() * 1e3
    }

    /// The links in a few words: `50/20 + 50/70±10 1%`, Mbit/s and milliseconds.
    #[must_use]
    pub fn text(&self) -> String {
        let [first, second] = &self.lines;
        format!("{first} + {second}")
    }
}

impl fmt::Display for Line {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape = &self.there;
        let rate = shape.rate_mbps().unwrap_or(0.0);
        write!(to, "{rate}/{}", shape.base_delay().as_millis())?;
        if !shape.jitter().is_zero() {
            write!(to, "±{}", shape.jitter().as_millis())?;
        }
        if shape.loss_percent() > 0.0 {
            write!(to, " {}%", shape.loss_percent())?;
        }
        if let Some(dip) = self.dip {
            write!(to, " x{}", dip.to)?;
        }
        if self.shared {
            to.write_str(" shared")?;
        }
        Ok(())
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Best(share) => write!(to, "{share} best"),
            Self::Sum(share) => write!(to, "{share} sum"),
            Self::Ideal(share) => write!(to, "{share} ideal"),
        }
    }
}

impl Bound {
    /// The least goodput that meets it, in Mbit/s; `None` without the measurement it refers to.
    #[must_use]
    pub fn least_mbps(self, best: f64, sum: f64, ideal: Option<f64>) -> Option<f64> {
        match self {
            Self::Best(share) => Some(share * best),
            Self::Sum(share) => Some(share * sum),
            Self::Ideal(share) => ideal.map(|mbps| share * mbps),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_has_a_name_of_its_own_and_is_never_to_be_worse() {
        let all = table::all();
        let mut names: Vec<_> = all.iter().map(|profile| profile.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all.len());
        assert!(names.len() >= 14);
        for profile in &all {
            let best = profile
                .bounds
                .iter()
                .any(|bound| matches!(bound, Bound::Best(share) if *share >= 0.95));
            assert!(best, "{}", profile.name);
        }
    }

    #[test]
    fn a_dip_takes_its_share_of_the_sum() {
        let dip = Dip {
            to: 0.2,
            from: 0.25,
            until: 0.5,
        };
        let line = Line::new(Shape::mbps(50.0)).dip(dip);
        assert!((line.mean_rate_mbps() - 40.0).abs() < 1e-9);
    }
}

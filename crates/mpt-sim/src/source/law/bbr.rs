//! BBR, first version (Cardwell et al., ACM Queue 14(5), 2016), with the constants of
//! net/ipv4/tcp_bbr.c.

use std::collections::VecDeque;
use std::time::Duration;

use mpt_core::time::Time;

use super::{Acked, INITIAL_WINDOW};

/// 2 / ln 2: the least gain that doubles the rate each round.
const HIGH_GAIN: f64 = 2.885;
const DRAIN_GAIN: f64 = 1.0 / HIGH_GAIN;
const WINDOW_GAIN: f64 = 2.0;
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Rounds over which the greatest rate is taken.
const RATE_ROUNDS: u64 = 10;
/// How long a least round-trip time counts, and for how long it is looked for anew.
const LEAST_RTT_SPAN: Duration = Duration::from_secs(10);
const PROBE_RTT_SPAN: Duration = Duration::from_millis(200);
const LEAST_WINDOW: f64 = 4.0;
/// The pipe is full when the rate grew by less than a quarter in each of three rounds.
const FULL_GROWTH: f64 = 1.25;
const FULL_ROUNDS: u32 = 3;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    Startup,
    Drain,
    ProbeBandwidth { step: usize, since: Time },
    ProbeRtt { until: Time, was_full: bool },
}

#[derive(Debug, Clone)]
pub(in crate::source) struct Bbr {
    phase: Phase,
    round: u64,
    rates: VecDeque<(u64, f64)>,
    least: Option<(Duration, Time)>,
    full: (f64, u32),
}

impl Bbr {
    pub(super) fn new() -> Bbr {
        Bbr {
            phase: Phase::Startup,
            round: 0,
            rates: VecDeque::new(),
            least: None,
            full: (0.0, 0),
        }
    }

    fn rate(&self) -> Option<f64> {
        self.rates.front().map(|&(_, rate)| rate)
    }

    /// Segments under way that fill the pipe and no more.
    fn pipe(&self) -> Option<f64> {
        Some(self.rate()? * self.least?.0.as_secs_f64())
    }

    pub(super) fn window(&self) -> f64 {
        let gain = match self.phase {
            Phase::Startup | Phase::Drain => HIGH_GAIN,
            Phase::ProbeBandwidth { .. } => WINDOW_GAIN,
            Phase::ProbeRtt { .. } => return LEAST_WINDOW,
        };
        self.pipe()
            .map_or(INITIAL_WINDOW, |pipe| (gain * pipe).max(INITIAL_WINDOW))
    }

    pub(super) fn pace(&self) -> Option<f64> {
        let gain = match self.phase {
            Phase::Startup => HIGH_GAIN,
            Phase::Drain => DRAIN_GAIN,
            Phase::ProbeBandwidth { step, .. } => CYCLE[step],
            Phase::ProbeRtt { .. } => 1.0,
        };
        Some(gain * self.rate()?)
    }

    pub(super) fn acked(&mut self, acked: &Acked) {
        let now = acked.now;
        if acked.ends_round {
            self.round += 1;
        }
        if let Some(rate) = acked.rate {
            while self.rates.back().is_some_and(|&(_, old)| old <= rate) {
                self.rates.pop_back();
            }
            self.rates.push_back((self.round, rate));
            let oldest = self.round.saturating_sub(RATE_ROUNDS);
            while self.rates.len() > 1 && self.rates.front().is_some_and(|&(at, _)| at < oldest) {
                self.rates.pop_front();
            }
        }
        let expired = self
            .least
            .is_some_and(|(_, at)| now.since(at) > LEAST_RTT_SPAN);
        if let Some(rtt) = acked.rtt
            && self.least.is_none_or(|(least, _)| rtt <= least || expired)
        {
            self.least = Some((rtt, now));
        }
        self.advance(acked, expired);
    }

    fn advance(&mut self, acked: &Acked, expired: bool) {
        let now = acked.now;
        match self.phase {
            Phase::Startup => {
                if acked.ends_round && self.is_full() {
                    self.phase = Phase::Drain;
                }
            }
            Phase::Drain => {
                if self
                    .pipe()
                    .is_none_or(|pipe| acked.under_way as f64 <= pipe)
                {
                    self.phase = Phase::ProbeBandwidth {
                        step: 2,
                        since: now,
                    };
                }
            }
            Phase::ProbeBandwidth { step, since } => {
                let least = self.least.map_or(Duration::ZERO, |(least, _)| least);
                if now.since(since) > least {
                    let step = (step + 1) % CYCLE.len();
                    self.phase = Phase::ProbeBandwidth { step, since: now };
                }
            }
            Phase::ProbeRtt { until, was_full } => {
                if now >= until {
                    self.phase = match was_full {
                        true => Phase::ProbeBandwidth {
                            step: 2,
                            since: now,
                        },
                        false => Phase::Startup,
                    };
                }
                return;
            }
        }
        if expired {
            let was_full = self.phase != Phase::Startup;
            let rtt = self.least.map_or(Duration::ZERO, |(least, _)| least);
            let until = now + PROBE_RTT_SPAN + rtt;
            self.phase = Phase::ProbeRtt { until, was_full };
        }
    }

    /// To be asked once a round.
    fn is_full(&mut self) -> bool {
        let rate = self.rate().unwrap_or(0.0);
        let (full, rounds) = &mut self.full;
        if rate >= *full * FULL_GROWTH {
            (*full, *rounds) = (rate, 0);
            return false;
        }
        *rounds += 1;
        *rounds >= FULL_ROUNDS
    }

    pub(super) fn silent(&mut self) {
        *self = Bbr {
            least: self.least,
            ..Bbr::new()
        };
    }
}

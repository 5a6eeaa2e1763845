//! How long a packet is under way.
//!
//! Two families. In the first every packet draws its own delay, as `netem` does: a packet that draws
//! a short one overtakes, and reordering grows with the spread against the packet spacing. The
//! spread is given as a *standard deviation*, so that distributions can be compared at the same
//! jitter; `netem`'s uniform takes half the range instead (√3 times as much) and is a variant of its
//! own, [`Delay::NetemUniform`].
//!
//! In the second, [`Delay::Switching`], the *path* has a delay and changes it now and then: packets
//! sent between two changes keep their order, and a change to a shorter delay lets what is sent after
//! it overtake all that is still under way. That is how route changes and load balancers reorder,
//! and the model of "Modeling and Simulation of Out-of-Order Impact in TCP Protocol".

use rand::RngExt as _;
use rand_distr::{Distribution as _, Exp1, StandardNormal};

use crate::rng::SimRng;

/// One millisecond in the unit of all times here.
pub const MS: u64 = 1_000_000;

/// A one-way delay model. All values are nanoseconds; a draw below zero counts as zero.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Delay {
    /// Every packet takes the same time.
    Constant {
        /// The delay.
        ns: u64,
    },
    /// Uniform over mean ± √3 standard deviations.
    Uniform {
        /// Mean delay.
        mean_ns: u64,
        /// Standard deviation.
        sd_ns: u64,
    },
    /// Uniform over mean ± half the range, which is what `netem delay MEAN JITTER` does.
    NetemUniform {
        /// Mean delay.
        mean_ns: u64,
        /// Half the range, netem's "jitter".
        half_range_ns: u64,
    },
    /// Gaussian.
    Normal {
        /// Mean delay.
        mean_ns: u64,
        /// Standard deviation.
        sd_ns: u64,
    },
    /// A least delay and an exponential wait on top, whose mean equals its standard deviation.
    Exponential {
        /// Least delay.
        least_ns: u64,
        /// Standard deviation.
        sd_ns: u64,
    },
    /// As [`Delay::Exponential`], redrawn until the wait is at most four times `sd_ns`, as a table
    /// of finite length makes it. `sd_ns` is that of the exponential before the cut.
    ExponentialCut {
        /// Least delay.
        least_ns: u64,
        /// Standard deviation before the cut; the wait is at most four times this.
        sd_ns: u64,
    },
    /// The path holds one delay and replaces it by a new draw at exponentially spaced times.
    Switching(Switching),
    /// A radio that gathers packets: what comes while it waits arrives at one moment, at the end of a wait drawn
    /// evenly, and the least delay later.
    Gathered {
        /// Delay of a packet that waits for nothing.
        least_ns: u64,
        /// The shortest wait.
        from_ns: u64,
        /// The longest wait.
        to_ns: u64,
    },
}

/// A path whose delay switches: normal draws, held for exponentially distributed times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Switching {
    /// Mean of the draws.
    pub mean_ns: u64,
    /// Standard deviation of the draws.
    pub sd_ns: u64,
    /// Draws below this count as this.
    pub least_ns: u64,
    /// Mean time between two switches.
    pub hold_ns: u64,
}

impl Switching {
    /// The path of the TCP out-of-order paper: delays N(200 α + 50 ms, 200 α / 3 ms) of at least
    /// 50 ms, switched after times of mean `beta_ms`. The paper uses α from 0 to 2, β 50 and 250.
    #[must_use]
    pub fn tcp_out_of_order(alpha: f64, beta_ms: u64) -> Self {
        let ms = |x: f64| (x * MS as f64).max(0.0) as u64;
        Switching {
            mean_ns: ms(200.0 * alpha + 50.0),
            sd_ns: ms(200.0 * alpha / 3.0),
            least_ns: 50 * MS,
            hold_ns: beta_ms * MS,
        }
    }
}

/// Draws delays from a model and keeps what the model must remember between packets.
#[derive(Debug, Clone)]
pub struct DelaySource {
    rng: SimRng,
    held: Option<Held>,
    /// When what a radio has gathered leaves.
    leaves_ns: u64,
}

/// The delay that a switching path has now, and until when.
#[derive(Debug, Clone, Copy)]
struct Held {
    model: Switching,
    delay_ns: u64,
    until_ns: u64,
}

impl DelaySource {
    /// A source that draws from `rng`.
    #[must_use]
    pub fn new(rng: SimRng) -> Self {
        DelaySource {
            rng,
            held: None,
            leaves_ns: 0,
        }
    }

    /// The delay, in nanoseconds, of a packet that enters the path at `now_ns`.
    pub fn draw(&mut self, model: &Delay, now_ns: u64) -> u64 {
        match *model {
            Delay::Constant { ns } => ns,
            Delay::Uniform { mean_ns, sd_ns } => {
                self.symmetric(mean_ns, sd_ns as f64 * 3f64.sqrt())
            }
            Delay::NetemUniform {
                mean_ns,
                half_range_ns,
            } => self.symmetric(mean_ns, half_range_ns as f64),
            Delay::Normal { mean_ns, sd_ns } => self.normal(mean_ns, sd_ns),
            Delay::Exponential { least_ns, sd_ns } => least_ns + self.exponential(sd_ns),
            Delay::ExponentialCut { least_ns, sd_ns } => least_ns + self.cut_exponential(sd_ns),
            Delay::Switching(path) => self.switching(path, now_ns),
            Delay::Gathered {
                least_ns,
                from_ns,
                to_ns,
            } => {
                if now_ns >= self.leaves_ns {
                    let unit: f64 = self.rng.random();
                    let wait = from_ns as f64 + unit * to_ns.saturating_sub(from_ns) as f64;
                    self.leaves_ns = now_ns.saturating_add(wait as u64);
                }
                least_ns + (self.leaves_ns - now_ns)
            }
        }
    }

    fn symmetric(&mut self, mean_ns: u64, half_range_ns: f64) -> u64 {
        let unit: f64 = self.rng.random();
        (mean_ns as f64 + (2.0 * unit - 1.0) * half_range_ns).max(0.0) as u64
    }

    fn normal(&mut self, mean_ns: u64, sd_ns: u64) -> u64 {
        let z: f64 = StandardNormal.sample(&mut self.rng);
        (mean_ns as f64 + z * sd_ns as f64).max(0.0) as u64
    }

    fn exponential(&mut self, mean_ns: u64) -> u64 {
        let e: f64 = Exp1.sample(&mut self.rng);
        (e * mean_ns as f64) as u64
    }

    /// By inversion of the cut distribution function: one draw, no loop.
    fn cut_exponential(&mut self, mean_ns: u64) -> u64 {
        let unit: f64 = self.rng.random();
        let kept = 1.0 - (-4f64).exp();
        (-(1.0 - unit * kept).ln() * mean_ns as f64) as u64
    }

    /// Exponential times have no memory and draws are independent, so after a pause of any length
    /// one new draw and one new time replace all the switches in between.
    fn switching(&mut self, model: Switching, now_ns: u64) -> u64 {
        if let Some(held) = self.held
            && held.model == model
            && now_ns < held.until_ns
        {
            return held.delay_ns;
        }
        let delay_ns = self.normal(model.mean_ns, model.sd_ns).max(model.least_ns);
        let until_ns = now_ns.saturating_add(self.exponential(model.hold_ns));
        self.held = Some(Held {
            model,
            delay_ns,
            until_ns,
        });
        delay_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::stream;

    const DRAWS: usize = 200_000;

    /// Mean, standard deviation, least and greatest of many draws, in milliseconds.
    fn moments(model: Delay) -> (f64, f64, f64, f64) {
        let mut source = DelaySource::new(stream(1, 0));
        let draws: Vec<f64> = (0..DRAWS)
            .map(|_| source.draw(&model, 0) as f64 / MS as f64)
            .collect();
        let n = draws.len() as f64;
        let mean = draws.iter().sum::<f64>() / n;
        let variance = draws.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / n;
        let least = draws.iter().copied().fold(f64::INFINITY, f64::min);
        let greatest = draws.iter().copied().fold(0.0, f64::max);
        (mean, variance.sqrt(), least, greatest)
    }

    fn close(a: f64, b: f64, relative: f64) -> bool {
        (a - b).abs() <= relative * b.abs()
    }

    #[test]
    fn jitter_is_the_standard_deviation() {
        let (mean_ns, sd_ns, least_ns) = (100 * MS, 5 * MS, 95 * MS);
        for model in [
            Delay::Uniform { mean_ns, sd_ns },
            Delay::Normal { mean_ns, sd_ns },
            Delay::Exponential { least_ns, sd_ns },
        ] {
            let (mean, sd, ..) = moments(model);
            assert!(close(mean, 100.0, 0.005), "{model:?}: mean {mean}");
            assert!(close(sd, 5.0, 0.02), "{model:?}: sd {sd}");
        }
    }

    #[test]
    fn netem_uniform_takes_half_the_range() {
        let (mean, sd, least, greatest) = moments(Delay::NetemUniform {
            mean_ns: 100 * MS,
            half_range_ns: 10 * MS,
        });
        assert!(close(mean, 100.0, 0.005) && close(sd, 10.0 / 3f64.sqrt(), 0.02));
        assert!(least >= 90.0 && greatest <= 110.0);
    }

    #[test]
    fn cut_exponential_ends_at_four() {
        let (mean, _, least, greatest) = moments(Delay::ExponentialCut {
            least_ns: 50 * MS,
            sd_ns: 10 * MS,
        });
        assert!(least >= 50.0 && greatest <= 90.0 && greatest > 89.0);
        let expected = 50.0 + 10.0 * (1.0 - 4.0 * (-4f64).exp() / (1.0 - (-4f64).exp()));
        assert!(close(mean, expected, 0.005), "mean {mean}");
    }

    #[test]
    fn a_draw_below_zero_is_zero() {
        let (_, _, least, _) = moments(Delay::Normal {
            mean_ns: MS,
            sd_ns: 10 * MS,
        });
        assert_eq!(least, 0.0);
    }

    #[test]
    fn what_a_radio_gathers_arrives_at_one_moment() {
        let mut source = DelaySource::new(stream(5, 0));
        let gathered = Delay::Gathered {
            least_ns: 2 * MS,
            from_ns: 5 * MS,
            to_ns: 20 * MS,
        };
        let mut arrivals: Vec<u64> = (0..10_000)
            .map(|n| n * MS / 10 + source.draw(&gathered, n * MS / 10))
            .collect();
        assert!(arrivals.is_sorted());
        arrivals.dedup();
        // A second of waits of 12.5 ms.
        assert!((70..=90).contains(&arrivals.len()), "{}", arrivals.len());
        let gaps = arrivals.windows(2).map(|w| w[1] - w[0]);
        assert!(
            gaps.clone()
                .all(|gap| (5 * MS..=20 * MS + MS / 10).contains(&gap))
        );
    }

    #[test]
    fn switching_path_holds_its_delay() {
        let path = Switching::tcp_out_of_order(1.0, 250);
        let mut source = DelaySource::new(stream(3, 0));
        let delays: Vec<u64> = (0..100_000)
            .map(|n| source.draw(&Delay::Switching(path), n * MS))
            .collect();
        let switches = delays.windows(2).filter(|w| w[0] != w[1]).count();
        assert!((320..=480).contains(&switches), "{switches} in 100 s");
        assert!(delays.iter().all(|&d| d >= 50 * MS));
    }
}

//! Links as people have them: satellites, radio, address translators and policers, as they are reported.
//!
//! A [`Weather`] is a named profile. It draws a link and what happens to it within a minute, both from the seed. What
//! goes down to the client is direction 0, from end A to end B. Rates, delays and times are those of the source that
//! [`Weather::source`] names; what no source says is chosen here and marked *assumed*.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use rand::RngExt as _;

use super::draw::{log_uniform, nanos, uniform};
use super::family::What;
use crate::delay::{Delay, MS};
use crate::link::{LinkConfig, Policer, QueueLimit};
use crate::loss::Loss;
use crate::pair::PathSpec;
use crate::rng::{SimRng, stream};

/// A kind of link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Weather {
    /// A satellite of 550 km: another one each 15 s, with a gap or a spike at the change, and losses in bursts.
    Starlink,
    /// A cell whose queue holds three seconds.
    LteBloated,
    /// A good cell.
    LteGood,
    /// A middling one.
    LteMedium,
    /// A bad one.
    LteBad,
    /// A leg at the edge of what works: it toggles between two delays and is mute for 15 s.
    Marginal,
    /// A cell from a moving car: the rate goes up and down within seconds, handovers leave gaps.
    Highway,
    /// A translator of addresses that gives the mapping another port, or lets one 5-tuple die for ever.
    Cgnat,
    /// A token bucket without a queue.
    Policer,
    /// UDP that is throttled to next to nothing, for this 5-tuple.
    Throttled,
    /// A line whose MTU is 1492 bytes and that tells nobody.
    Pppoe,
    /// Aggregation: nothing for some milliseconds, then all at once; and others on the air.
    Wifi,
    /// A slow way up.
    Dsl,
    /// A fast way down, and a slow way up.
    Cable,
    /// What a link should be.
    Fibre,
}

/// A link, and what happens to it.
#[derive(Debug, Clone)]
pub struct Forecast {
    /// The link.
    pub path: PathSpec,
    /// What happens to it, in order of time, counted from when the traffic begins.
    pub changes: Vec<(Duration, What)>,
}

/// A minute: nothing is foretold beyond it.
const FORETOLD: Duration = Duration::from_secs(60);
/// How long a spike of delay lasts. Assumed.
const SPIKE: Duration = Duration::from_millis(300);
/// A cell's round trip is drawn anew so often: ERRANT's emulator takes such a period as an option; its length is
/// assumed.
const REDRAWN: Duration = Duration::from_secs(5);
/// No one-way delay of a cell is less. Assumed.
const LEAST_CELL_MS: f64 = 10.0;
/// What a queue holds where no source says. Assumed.
pub(super) const QUEUE_MS: f64 = 150.0;
/// Bytes: PPPoE takes 8 of Ethernet's 1500 (RFC 2516 §7).
const PPPOE_MTU: usize = 1492;
/// What a throttled 5-tuple has before and after, in Mbit/s (glorytun issue 69).
const UNTHROTTLED_MBPS: f64 = 30.0;
const THROTTLED_MBPS: f64 = 0.001;

impl Weather {
    /// All of them.
    pub const ALL: [Weather; 15] = [
        Weather::Starlink,
        Weather::LteBloated,
        Weather::LteGood,
        Weather::LteMedium,
        Weather::LteBad,
        Weather::Marginal,
        Weather::Highway,
        Weather::Cgnat,
        Weather::Policer,
        Weather::Throttled,
        Weather::Pppoe,
        Weather::Wifi,
        Weather::Dsl,
        Weather::Cable,
        Weather::Fibre,
    ];

    /// As tables name it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Weather::Starlink => "starlink",
            Weather::LteBloated => "lte-bloated",
            Weather::LteGood => "lte-good",
            Weather::LteMedium => "lte-medium",
            Weather::LteBad => "lte-bad",
            Weather::Marginal => "marginal",
            Weather::Highway => "highway",
            Weather::Cgnat => "cgnat",
            Weather::Policer => "policer",
            Weather::Throttled => "throttled",
            Weather::Pppoe => "pppoe",
            Weather::Wifi => "wifi",
            Weather::Dsl => "dsl",
            Weather::Cable => "cable",
            Weather::Fibre => "fibre",
        }
    }

    /// Who reports it, and what of it is assumed.
    #[must_use]
    pub const fn source(self) -> &'static str {
        match self {
            Weather::Starlink => {
                "Huston, APNIC blog on Starlink; mqvpn benchmark_ntn; PEMI's gemodel; gaps and the queue are assumed"
            }
            Weather::LteBloated => {
                "openmptcprouter issue 2649: 200 to 1000 ms, spikes of 3 to 5 s; rates are assumed"
            }
            Weather::LteGood | Weather::LteMedium | Weather::LteBad => {
                "ERRANT's profiles: rates, mean and standard deviation of the round trip; the queue is assumed"
            }
            Weather::Marginal => "srtla_send issue 17; rates are assumed",
            Weather::Highway => {
                "Mahimahi's Orange 4G trace, 10 minutes; gaps, the delay and the rate up are assumed"
            }
            Weather::Cgnat => {
                "iroh issue 4424; nebula issue 889 and amneziawg-apple issue 47 for dead 5-tuples; rates are assumed"
            }
            Weather::Policer => {
                "Flach et al., SIGCOMM 2016; the burst, the delay and the rate up are assumed"
            }
            Weather::Throttled => "glorytun issue 69; kcptun issue 110; the delay is assumed",
            Weather::Pppoe => "openmptcprouter issue 3411; rates and delay are assumed",
            Weather::Wifi => "in-order aggregation of 5 to 20 ms; rates and contention are assumed",
            Weather::Dsl | Weather::Cable | Weather::Fibre => {
                "advertised rates; delay and queue are assumed"
            }
        }
    }

    /// The link and its next minute that follow from this seed.
    #[must_use]
    pub fn forecast(self, seed: u64) -> Forecast {
        self.draw(&mut stream(seed, 7_900))
    }

    /// Draws the link and its next minute.
    pub(super) fn draw(self, rng: &mut SimRng) -> Forecast {
        match self {
            Weather::Starlink => starlink(rng),
            Weather::LteBloated => still([20.0, 5.0], 30.0, 3_000.0),
            Weather::LteGood => cell(rng, [54.0, 21.0], 92.0, 46.0),
            Weather::LteMedium => cell(rng, [29.0, 4.2], 105.0, 57.0),
            Weather::LteBad => cell(rng, [3.3, 0.15], 113.0, 82.0),
            Weather::Marginal => marginal(rng),
            Weather::Highway => highway(rng),
            Weather::Cgnat => cgnat(rng),
            Weather::Policer => policer(rng),
            Weather::Throttled => {
                let left = THROTTLED_MBPS / UNTHROTTLED_MBPS;
                let at = uniform(rng, &(10.0..=40.0));
                Forecast {
                    changes: vec![(seconds(at), What::Tuple(left))],
                    ..still([UNTHROTTLED_MBPS, 10.0], 20.0, QUEUE_MS)
                }
            }
            Weather::Pppoe => {
                let mut forecast = still([50.0, 10.0], 12.0, QUEUE_MS);
                for link in &mut forecast.path.links {
                    link.mtu = PPPOE_MTU;
                }
                forecast
            }
            Weather::Wifi => wifi(rng),
            Weather::Dsl => still([50.0, 5.0], 15.0, QUEUE_MS),
            Weather::Cable => still([200.0, 10.0], 12.0, QUEUE_MS),
            Weather::Fibre => still([100.0, 100.0], 8.0, QUEUE_MS),
        }
    }
}

impl fmt::Display for Weather {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Weather {
    type Err = String;

    fn from_str(text: &str) -> Result<Weather, String> {
        let mut all = Weather::ALL.into_iter();
        all.find(|weather| weather.name() == text).ok_or_else(|| {
            let names = Weather::ALL.map(Weather::name).join(", ");
            format!("there is no weather {text:?}; there are {names}")
        })
    }
}

/// A link that stays as it is: Mbit/s down and up, one-way delay and queue in ms.
fn still(mbps: [f64; 2], delay_ms: f64, queue_ms: f64) -> Forecast {
    let link = |mbps: f64| LinkConfig {
        rate_bps: Some((mbps * 1e6) as u64),
        // A queue of less than two packets is none.
        queue: QueueLimit::Bytes(((mbps * 125.0 * queue_ms) as usize).max(3_000)),
        delay: Delay::Constant {
            ns: nanos(delay_ms),
        },
        ..LinkConfig::default()
    };
    Forecast {
        path: PathSpec {
            weight: (mbps[0].round() as u32).max(1),
            v6: false,
            links: mbps.map(link),
        },
        changes: Vec::new(),
    }
}

fn starlink(rng: &mut SimRng) -> Forecast {
    const SLOT: Duration = Duration::from_secs(15);
    let delay = |rng: &mut SimRng| uniform(rng, &(20.0..=45.0));
    let mut forecast = still([100.0, 15.0], 0.0, QUEUE_MS);
    let (first_ms, lost) = (delay(rng), uniform(rng, &(0.002..=0.01)));
    for link in &mut forecast.path.links {
        link.delay = Delay::Normal {
            mean_ns: nanos(first_ms),
            sd_ns: nanos(6.7),
        };
        // From the bad state in 8 of 100 packets: bursts of 12.5.
        link.loss = Loss::gilbert(lost, 12.5);
    }
    // Slots begin at the same second of a minute everywhere, and the traffic anywhere.
    let mut at = seconds(uniform(rng, &(0.0..=15.0)));
    while at < FORETOLD {
        let next_ms = delay(rng);
        if rng.random() {
            let gap = seconds(uniform(rng, &(0.05..=0.15)));
            forecast.changes.push((at, What::Up(false)));
            forecast.changes.push((at, What::DelayMs(next_ms)));
            forecast.changes.push((at + gap, What::Up(true)));
        } else {
            let spike_ms = uniform(rng, &(30.0..=50.0));
            forecast
                .changes
                .push((at, What::DelayMs(next_ms + spike_ms)));
            forecast.changes.push((at + SPIKE, What::DelayMs(next_ms)));
        }
        at += SLOT;
    }
    forecast
}

/// A cell by ERRANT's fit: Mbit/s down and up, mean and standard deviation of the round trip in ms.
fn cell(rng: &mut SimRng, mbps: [f64; 2], mean_ms: f64, sd_ms: f64) -> Forecast {
    let one_way = |rng: &mut SimRng| {
        let z: f64 = rand_distr::Distribution::sample(&rand_distr::StandardNormal, rng);
        ((mean_ms + z * sd_ms) / 2.0).max(LEAST_CELL_MS)
    };
    let mut forecast = still(mbps, one_way(rng), 2.0 * QUEUE_MS);
    let mut at = seconds(uniform(rng, &(0.0..=REDRAWN.as_secs_f64())));
    while at < FORETOLD {
        forecast.changes.push((at, What::DelayMs(one_way(rng))));
        at += REDRAWN;
    }
    forecast
}

fn marginal(rng: &mut SimRng) -> Forecast {
    const ONE_WAYS_MS: [f64; 2] = [50.0, 600.0];
    const MUTE: Duration = Duration::from_secs(15);
    let mut forecast = still([10.0, 5.0], ONE_WAYS_MS[0], 2.0 * QUEUE_MS);
    let begins = seconds(uniform(rng, &(5.0..=40.0)));
    for second in 1..FORETOLD.as_secs() {
        let delay = What::DelayMs(ONE_WAYS_MS[(second % 2) as usize]);
        forecast.changes.push((Duration::from_secs(second), delay));
    }
    forecast.changes.push((begins, What::Up(false)));
    forecast.changes.push((begins + MUTE, What::Up(true)));
    forecast.changes.sort_by_key(|change| change.0);
    forecast
}

fn highway(rng: &mut SimRng) -> Forecast {
    const STEP: Duration = Duration::from_millis(100);
    const LEAST: f64 = 40.0 / 220.0;
    let mut forecast = still([220.0, 50.0], 30.0, QUEUE_MS);
    let period = uniform(rng, &(4.0..=10.0));
    let begin = rng.random::<f64>();
    let mut at = Duration::ZERO;
    while at < FORETOLD {
        let turn = (begin + at.as_secs_f64() / period).fract();
        let place = 1.0 - (2.0 * turn - 1.0).abs();
        let share = LEAST + (1.0 - LEAST) * place;
        forecast.changes.push((at, What::Rate(share)));
        at += STEP;
    }
    let mut at = seconds(uniform(rng, &(3.0..=15.0)));
    while at < FORETOLD {
        let gap = seconds(uniform(rng, &(0.1..=1.0)));
        forecast.changes.push((at, What::Up(false)));
        forecast.changes.push((at + gap, What::Up(true)));
        at += seconds(uniform(rng, &(10.0..=20.0)));
    }
    forecast.changes.sort_by_key(|change| change.0);
    forecast
}

fn cgnat(rng: &mut SimRng) -> Forecast {
    let forecast = still([50.0, 10.0], 20.0, QUEUE_MS);
    let at = seconds(uniform(rng, &(8.0..=50.0)));
    let what = match rng.random() {
        true => What::Rebind,
        false => What::Tuple(0.0),
    };
    Forecast {
        changes: vec![(at, what)],
        ..forecast
    }
}

fn policer(rng: &mut SimRng) -> Forecast {
    let burst_bytes = log_uniform(rng, &(100e3..=1e6)) as usize;
    // Behind the policer there is room for more.
    let mut forecast = still([100.0, 20.0], 15.0, QUEUE_MS);
    forecast.path.weight = 20;
    forecast.path.links[0].policer = Some(Policer {
        rate_bps: 20_000_000,
        burst_bytes,
    });
    forecast
}

fn wifi(rng: &mut SimRng) -> Forecast {
    let mut forecast = still([100.0, 100.0], 0.0, QUEUE_MS);
    for link in &mut forecast.path.links {
        link.delay = Delay::Gathered {
            least_ns: 5 * MS,
            from_ns: 5 * MS,
            to_ns: 20 * MS,
        };
    }
    let mut at = Duration::ZERO;
    while at < FORETOLD {
        let share = uniform(rng, &(0.3..=1.0));
        forecast.changes.push((at, What::Rate(share)));
        at += seconds(uniform(rng, &(0.5..=3.0)));
    }
    forecast
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_weather_is_in_order_of_time_and_follows_from_the_seed() {
        for weather in Weather::ALL {
            for seed in 0..50 {
                let forecast = weather.draw(&mut stream(seed, 1));
                let times: Vec<Duration> = forecast.changes.iter().map(|change| change.0).collect();
                assert!(times.is_sorted(), "{weather}");
                assert!(
                    times
                        .iter()
                        .all(|&at| at < FORETOLD + Duration::from_secs(15))
                );
                let again = weather.draw(&mut stream(seed, 1));
                assert_eq!(format!("{forecast:?}"), format!("{again:?}"));
            }
        }
    }

    #[test]
    fn a_link_that_goes_comes_back() {
        for weather in Weather::ALL {
            let forecast = weather.draw(&mut stream(7, 1));
            let ups = |up| {
                let is = |change: &&(Duration, What)| change.1 == What::Up(up);
                forecast.changes.iter().filter(is).count()
            };
            assert_eq!(ups(false), ups(true), "{weather}");
        }
    }

    #[test]
    fn the_satellite_changes_each_15_s() {
        let forecast = Weather::Starlink.draw(&mut stream(3, 1));
        let mut slots: Vec<u64> = forecast
            .changes
            .iter()
            .map(|c| c.0.as_secs() / 15)
            .collect();
        slots.dedup();
        assert_eq!(slots, [0, 1, 2, 3]);
        let lost = forecast.path.links[0].loss.mean();
        assert!((0.002..=0.01).contains(&lost), "{lost}");
    }
}

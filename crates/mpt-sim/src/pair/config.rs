//! What a pair is made from: its two sides, its paths, and how both ends are configured.

use std::net::SocketAddr;
use std::time::Duration;

use mpt_core::crypto::{CryptoConfig, PresharedKey, PrivateKey, Sessions};
use mpt_core::path::PathConfig;
use mpt_core::receive::coalesce::Accepts;
use mpt_core::send::scheduler::Policy;
use mpt_core::send::scheduler::law::Law;
use mpt_core::time::Time;
use mpt_core::tunnel::{ReorderSettings, TunnelConfig};
use rand::Rng as _;

use super::End;
use crate::delay::{Delay, MS};
use crate::link::{LinkConfig, Order, QueueLimit};
use crate::loss::Loss;
use crate::rng::stream;

/// One of the two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// The first.
    A,
    /// The second.
    B,
}

impl Side {
    /// Both, A first.
    pub const BOTH: [Side; 2] = [Side::A, Side::B];

    /// The other end.
    #[must_use]
    pub const fn other(self) -> Side {
        match self {
            Side::A => Side::B,
            Side::B => Side::A,
        }
    }

    pub(super) const fn index(self) -> usize {
        self as usize
    }
}

/// One path.
#[derive(Debug, Clone)]
pub struct PathSpec {
    /// Relative share of bytes, at both ends.
    pub weight: u32,
    /// Outer addresses are IPv6.
    pub v6: bool,
    /// The link from A to B, and that from B to A.
    pub links: [LinkConfig; 2],
}

impl PathSpec {
    /// A path of so many Mbit/s and milliseconds each way, whose weight is its rate.
    #[must_use]
    pub fn symmetric(mbps: u64, delay_ms: u64) -> PathSpec {
        let link = LinkConfig {
            rate_bps: Some(mbps * 1_000_000),
            delay: Delay::Constant { ns: delay_ms * MS },
            ..LinkConfig::default()
        };
        PathSpec {
            weight: u32::try_from(mbps).unwrap_or(1),
            v6: false,
            links: [link.clone(), link],
        }
    }

    /// The same with room for so many packets in each way's queue.
    #[must_use]
    pub fn queueing(mut self, packets: usize) -> PathSpec {
        for link in &mut self.links {
            link.queue = QueueLimit::Packets(packets);
        }
        self
    }

    /// The same where each packet is lost with this probability, each way.
    #[must_use]
    pub fn losing(mut self, probability: f64) -> PathSpec {
        for link in &mut self.links {
            link.loss = match probability {
                0.0 => Loss::None,
                probability => Loss::Independent { probability },
            };
        }
        self
    }

    /// A path whose every packet takes its own delay, normally distributed with this standard
    /// deviation, and overtakes those that take longer.
    #[must_use]
    pub fn overtaking(mbps: u64, mean_ms: u64, sd_ms: u64) -> PathSpec {
        let mut path = PathSpec::symmetric(mbps, mean_ms);
        for link in &mut path.links {
            link.delay = Delay::Normal {
                mean_ns: mean_ms * MS,
                sd_ns: sd_ms * MS,
            };
            link.order = Order::ByDelay;
        }
        path
    }
}

/// Everything that a pair is made from.
#[derive(Debug, Clone)]
pub struct PairConfig {
    /// The paths, the same at both ends.
    pub paths: Vec<PathSpec>,
    /// Both ends' reorder window.
    pub reorder: ReorderSettings,
    /// How both ends share packets.
    pub policy: Policy,
    /// Both ends send lost packets again.
    pub recovery: bool,
    /// Both ends' MTU.
    pub mtu: u16,
    /// Both ends' GRE key.
    pub key: Option<u32>,
    /// Both ends have keys: all is sealed. By default see [`is_sealed`].
    pub sealed: bool,
    /// Datagrams that arrive at one moment are handed over in trains. Over links without a rate they
    /// arrive as they were sent.
    pub trains: bool,
    /// A receiver takes what has arrived only so often, all of it at once: as one whose network card
    /// holds interrupts back, or that is busy. Zero: at once.
    pub receives_every: Duration,
    /// The end that is not told where its peer is; only a sealed tunnel works then.
    pub waits_to_be_called: Option<Side>,
    /// Time between probes.
    pub keepalive: Duration,
    /// Silence after which a path is down.
    pub dead_after: Duration,
    /// All paths are metered.
    pub metered: bool,
    /// No path may go over to another port.
    pub keeps_ports: bool,
    /// What each end's clock shows at the simulation's zero.
    pub clocks: [Duration; 2],
    /// Both ends' law of the adaptive sender.
    pub law: &'static Law,
    /// All randomness follows from it.
    pub seed: u64,
}

/// Whether pairs are sealed by default: where the environment variable `MPT_SIM_SEALED` is set. Most that
/// a plain tunnel promises, a sealed one must keep.
#[must_use]
pub fn is_sealed() -> bool {
    std::env::var_os("MPT_SIM_SEALED").is_some()
}

impl PairConfig {
    /// The daemon's defaults over these paths, but weights share and nothing is sent again; the clocks are hours apart.
    #[must_use]
    pub fn new(paths: impl Into<Vec<PathSpec>>) -> PairConfig {
        let plain = PairConfig {
            paths: paths.into(),
            reorder: ReorderSettings::default(),
            policy: Policy::Weighted,
            recovery: false,
            mtu: 1464,
            key: None,
            sealed: false,
            trains: false,
            receives_every: Duration::ZERO,
            waits_to_be_called: None,
            keepalive: Duration::from_millis(200),
            dead_after: Duration::from_secs(1),
            metered: false,
            keeps_ports: false,
            clocks: [Duration::from_secs(3_600), Duration::from_secs(86_400)],
            law: &Law::LAW,
            seed: 1,
        };
        if is_sealed() { plain.sealed() } else { plain }
    }

    /// The daemon's defaults over these paths: what the paths deliver decides, and what is lost is sent again.
    #[must_use]
    pub fn adaptive(paths: impl Into<Vec<PathSpec>>) -> PairConfig {
        PairConfig {
            policy: Policy::Adaptive,
            recovery: true,
            ..PairConfig::new(paths)
        }
    }

    /// The same with keys, and with the MTU that this leaves over links of 1500 bytes.
    #[must_use]
    pub fn sealed(self) -> PairConfig {
        PairConfig {
            mtu: 1442,
            sealed: true,
            ..self
        }
    }

    pub(super) fn start(&self, side: Side, number: u64, now: Time) -> End {
        // Spread over 64 bits, so that either end may come to have the higher session.
        let session = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ self.seed << 1;
        let config = TunnelConfig {
            session: session | 1,
            key: self.key,
            mtu: self.mtu,
            reorder: self.reorder,
            policy: self.policy,
            recovery: self.recovery,
            accepts: Accepts::NONE,
            receives_trains: self.trains,
            law: self.law,
        };
        let paths: Vec<PathConfig> = (0..self.paths.len())
            .map(|path| PathConfig {
                remote: (self.waits_to_be_called != Some(side))
                    .then(|| self.address(side.other(), path)),
                weight: self.paths[path].weight,
                keepalive: self.keepalive,
                dead_after: self.dead_after,
                metered: self.metered,
                keeps_port: self.keeps_ports,
            })
            .collect();
        let clock = self.clocks[side.index()];
        let sessions = self
            .sealed
            .then(|| self.sessions(side, config.session, now));
        End::new(clock, now, &config, &paths, sessions)
    }

    /// What an end that starts `now` seals with.
    #[must_use]
    pub fn sessions(&self, side: Side, session: u64, now: Time) -> Sessions {
        let private = |side: Side| PrivateKey::from_random([side as u8 + 1; 32]);
        let config = CryptoConfig {
            private_key: private(side),
            peer_public_key: private(side.other()).public_key(),
            psk: PresharedKey::none(),
            session,
            hardware_aes: true,
        };
        let since_1970 = Duration::from_secs(1_700_000_000) + now.since(Time::ZERO);
        let mut random = stream(session, 0);
        let entropy = Box::new(move |out: &mut [u8]| random.fill_bytes(out));
        Sessions::new(config, now + self.clocks[side.index()], since_1970, entropy)
    }

    pub(super) fn address(&self, side: Side, path: usize) -> SocketAddr {
        let (net, host) = (path as u8 + 1, side as u8 + 1);
        if self.paths[path].v6 {
            let (net, host) = (u16::from(net), u16::from(host));
            SocketAddr::from(([0xfd01, net, 0, 0, 0, 0, 0, host], 4754))
        } else {
            SocketAddr::from(([10, 1, net, host], 4754))
        }
    }
}

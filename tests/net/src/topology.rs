//! Two hosts with links between them, and a tunnel over the links.

use std::time::Duration;

use mpt_core::control::{PathState, Protection};

use crate::daemon::Daemon;
use crate::limit::{goodput_limit_mbps, sealed_goodput_limit_mbps};
use crate::link::{Family, Link, Place};
use crate::namespace::Namespace;
use crate::settings::{Settings, Side};
use crate::shape::Shape;
use crate::wait_for;

/// Name of the TUN interface at both ends.
pub const TUNNEL: &str = "mpt0";

/// Hosts A and B with point-to-point links, both directions of each shaped alike.
#[derive(Debug)]
pub struct Hosts {
    /// The links, `path0` first.
    pub links: Vec<Link>,
    /// The first host.
    pub a: Namespace,
    /// The second host.
    pub b: Namespace,
}

impl Hosts {
    /// Two hosts and a link of each shape, all IPv4.
    #[must_use]
    pub fn new(shapes: &[Shape]) -> Self {
        let links: Vec<_> = shapes
            .iter()
            .map(|shape| (Family::V4, shape.clone()))
            .collect();
        Self::with_families(&links)
    }

    /// Two hosts and a link of each family and shape.
    #[must_use]
    pub fn with_families(links: &[(Family, Shape)]) -> Self {
        let (a, b) = (Namespace::new("a"), Namespace::new("b"));
        let links = links
            .iter()
            .enumerate()
            .map(|(index, (family, shape))| Link::lay(&a, &b, index, *family, shape))
            .collect();
        Self { links, a, b }
    }

    /// Two hosts and a link of each shape, which stands on the egress of the host that sends: a capture of
    /// all devices sees each packet once.
    #[must_use]
    pub fn near(shapes: &[Shape]) -> Self {
        let both = |shape: &Shape| [shape.clone(), shape.clone()];
        let links: Vec<_> = shapes.iter().map(both).collect();
        Self::with_directions(&links, Place::Near)
    }

    /// Two hosts and a link of each pair of shapes, there and back, with netem at this place.
    #[must_use]
    pub fn with_directions(links: &[[Shape; 2]], place: Place) -> Self {
        let (a, b) = (Namespace::new("a"), Namespace::new("b"));
        let links = links
            .iter()
            .enumerate()
            .map(|(index, [there, back])| {
                Link::lay_with(&a, &b, index, Family::V4, [there, back], place)
            })
            .collect();
        Self { links, a, b }
    }

    /// Changes both directions of a link.
    pub fn reshape(&self, link: usize, shape: &Shape) {
        self.links[link].reshape(&self.a, shape);
        self.links[link].reshape(&self.b, shape);
    }

    /// Starts an `mpt-tund` on each host over all links and waits until their paths are up.
    #[must_use]
    pub fn tunnel(self, settings: &Settings) -> Tunnel {
        let links: Vec<&Link> = self.links.iter().collect();
        let start = |host, side| {
            Daemon::start(host, TUNNEL, |socket| {
                settings.toml(side, TUNNEL, &links, socket)
            })
        };
        let a = start(&self.a, Side::A);
        let b = start(&self.b, Side::B);
        let tunnel = Tunnel { a, b, hosts: self };
        tunnel.await_paths();
        tunnel
    }

    /// Rate and family of each link, for the limit's formula. Unshaped links count nothing.
    #[must_use]
    pub fn rates(&self) -> Vec<(f64, Family)> {
        self.links
            .iter()
            .map(|link| (link.shape.rate_mbps().unwrap_or(0.0), link.family))
            .collect()
    }
}

/// A tunnel between two hosts. The daemons end before the hosts do.
#[derive(Debug)]
pub struct Tunnel {
    /// The daemon on host A.
    pub a: Daemon,
    /// The daemon on host B.
    pub b: Daemon,
    /// The hosts and their links.
    pub hosts: Hosts,
}

impl Tunnel {
    /// Waits until every path is up at both ends.
    pub fn await_paths(&self) {
        wait_for("all paths up at both ends", Duration::from_secs(10), || {
            let up = |daemon: &Daemon| {
                daemon
                    .status()
                    .paths
                    .iter()
                    .all(|path| path.state == PathState::Up)
            };
            (up(&self.a) && up(&self.b)).then_some(())
        });
    }

    /// What one TCP flow over this tunnel can get at most, in Mbit/s, for inner packets of `inner`.
    #[must_use]
    pub fn limit_mbps(&self, inner: Family) -> f64 {
        let tunnel = self.a.status().tunnel;
        let limit = match tunnel.protection {
            Protection::None => goodput_limit_mbps,
            Protection::Waiting | Protection::Aes256Gcm | Protection::ChaCha20Poly1305 => {
                sealed_goodput_limit_mbps
            }
        };
        limit(&self.hosts.rates(), tunnel.mtu, inner)
    }
}

//! Downloads: what people wait for who load something over a connection that is new.
//!
//! Whether two links are worth having shows long before a flow has filled them. For each of six pairs of links a
//! few files of four sizes are loaded, one after the other and each over a connection of its own: over each link
//! alone, by the kernel's MPTCP over both, and through the tunnel. What counts is the median from the first SYN
//! to the last byte. The tunnel may take no longer than the best link alone, whatever the size; and what is
//! large, no longer than MPTCP.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::profile::measure::Variant;
use crate::profile::{Line, Profile, table};
use crate::settings::Side;
use crate::shape::Shape;
use crate::stream::median;
use crate::transfer::{Source, Transport, allow_subflows};

/// Of the best link alone, the tunnel may take so much.
pub const OF_BEST: f64 = 1.05;
/// Files of so many bytes and more fill both links: the tunnel is to load them as fast as MPTCP.
pub const LARGE_BYTES: u64 = 30_000_000;
/// Between two downloads queues run dry.
const PAUSE: Duration = Duration::from_secs(1);

/// Files of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Files {
    /// Bytes of each.
    pub bytes: u64,
    /// How many of them are loaded.
    pub count: usize,
}

/// What is loaded: a page, a picture, a program, a film.
pub const ALL: [Files; 4] = [
    files(30_000, 10),
    files(300_000, 10),
    files(3_000_000, 5),
    files(LARGE_BYTES, 2),
];

/// The same in a few seconds.
pub const FEW: [Files; 3] = [files(30_000, 3), files(300_000, 3), files(3_000_000, 2)];

const fn files(bytes: u64, count: usize) -> Files {
    Files { bytes, count }
}

/// Over what files are loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Over {
    /// One link alone.
    Link(usize),
    /// MPTCP over both, the first connection over the first link.
    Mptcp,
    /// The tunnel.
    Tunnel,
}

/// How long files of one size took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Loaded {
    /// Bytes of each.
    pub bytes: u64,
    /// Milliseconds that each took.
    pub ms: Vec<f64>,
}

impl Loaded {
    /// The median, in milliseconds; NaN without any.
    #[must_use]
    pub fn median_ms(&self) -> f64 {
        median(&self.ms)
    }
}

/// The pairs of links.
#[must_use]
pub fn pairs() -> Vec<Profile> {
    let fast = |delay| Shape::mbps(50.0).delay_ms(delay);
    let lively = |mbps, delay, jitter| {
        let shape = Shape::mbps(mbps).delay_ms(delay);
        shape.normal_jitter_ms(jitter)
    };
    let pair = |name, first, second| Profile {
        name,
        lines: [Line::new(first), Line::new(second)],
        bounds: Vec::new(),
    };
    let mut all = vec![
        pair("load-even", fast(20), fast(20)),
        pair("load-apart", fast(20), fast(70)),
    ];
    all.extend(["fibre300-lte", "loss-0.5", "two-lte"].map(|name| {
        let profile = table::named(name).expect("a profile of the table");
        Profile {
            bounds: Vec::new(),
            ..profile
        }
    }));
    all.push(pair(
        "load-lively",
        lively(40.0, 35, 8),
        lively(100.0, 50, 25).loss(1.0),
    ));
    all
}

/// The pair of this name.
#[must_use]
pub fn pair_named(name: &str) -> Option<Profile> {
    pairs().into_iter().find(|pair| pair.name == name)
}

/// Loads these files; `None` where the kernel has no MPTCP.
#[must_use]
pub fn load(
    profile: &Profile,
    over: Over,
    all: &[Files],
    variant: &Variant,
) -> Option<Vec<Loaded>> {
    let cubic = |host, address: &str, transport| Source::open(host, address, transport, "cubic");
    match over {
        Over::Link(line) => {
            let hosts = variant.hosts(std::slice::from_ref(&profile.lines[line]));
            let source = cubic(&hosts.a, &hosts.links[0].address_a, Transport::Tcp);
            Some(load_from(&source, &hosts.b, all))
        }
        Over::Mptcp => {
            let hosts = variant.hosts(&profile.lines);
            if !Transport::Mptcp.is_there(&hosts.a) {
                return None;
            }
            allow_subflows(&hosts);
            let source = cubic(&hosts.a, &hosts.links[0].address_a, Transport::Mptcp);
            Some(load_from(&source, &hosts.b, all))
        }
        Over::Tunnel => {
            let tunnel = variant.tunnel(&profile.lines);
            let source = cubic(&tunnel.hosts.a, Side::A.inner_v4(), Transport::Tcp);
            Some(load_from(&source, &tunnel.hosts.b, all))
        }
    }
}

fn load_from(source: &Source, client: &crate::Namespace, all: &[Files]) -> Vec<Loaded> {
    // Hosts learn each other's addresses.
    let _ = source.fetch(client, 1);
    let one = |bytes| {
        std::thread::sleep(PAUSE);
        source.fetch(client, bytes).as_secs_f64() * 1e3
    };
    let loaded = |files: &Files| Loaded {
        bytes: files.bytes,
        ms: (0..files.count).map(|_| one(files.bytes)).collect(),
    };
    all.iter().map(loaded).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_of_two_is_their_mean() {
        let loaded = |ms: &[f64]| Loaded {
            bytes: 1,
            ms: ms.to_vec(),
        };
        assert_eq!(loaded(&[3.0, 1.0]).median_ms(), 2.0);
        assert_eq!(loaded(&[3.0, 1.0, 9.0]).median_ms(), 3.0);
        assert!(loaded(&[]).median_ms().is_nan());
    }

    #[test]
    fn six_pairs_have_names_of_their_own() {
        let names: Vec<_> = pairs().iter().map(|pair| pair.name).collect();
        assert_eq!(names.len(), 6);
        assert!(
            names
                .iter()
                .all(|name| names.iter().filter(|other| *other == name).count() == 1)
        );
    }
}

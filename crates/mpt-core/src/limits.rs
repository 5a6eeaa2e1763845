//! Every limit of a setting, once: for the core, which keeps to it, and for the daemon and `mpt-ctl`, which tell
//! who goes beyond it.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Most paths that a tunnel may have.
pub const MAX_PATHS: usize = 16;

/// Weight of a path. Scheduling credits stay far inside 64 bits (16 paths × 2^20 × 64 KiB).
pub const WEIGHTS: RangeInclusive<u32> = 1..=1_000_000;

/// Largest reorder window, in sequence numbers; 0 turns reordering off.
pub const MAX_WINDOW: u32 = 32_768;

/// How long a packet may be held.
pub const HOLDS: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(10);

/// Most classes of a tunnel: each packet is compared with all of them.
pub const MAX_CLASSES: usize = 8;

/// Most DSCPs, ranges of ports, and prefixes, each, of a class.
pub const MAX_MATCHES: usize = 64;

/// What copies of a class may take, in bits a second: 8 kbit/s, a packet in a second or two, to 1 Gbit/s.
pub const COPIES: RangeInclusive<u64> = 8_000..=1_000_000_000;

/// Rate limits of a hub's peer, in bits a second: 8 kbit/s, a packet in a second or two, to more than an interface carries.
pub const RATE_LIMITS: RangeInclusive<u64> = 8_000..=100_000_000_000;

/// Names that no tunnel's interface can have: `net.ipv4.conf` has settings `all` and `default`, and `lo` is there.
pub const RESERVED_INTERFACES: [&str; 3] = ["all", "default", "lo"];

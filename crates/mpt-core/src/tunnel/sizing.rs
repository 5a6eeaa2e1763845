//! The reorder window sized by what is measured.
//!
//! A packet on the slowest path is overtaken by all that the others bring meanwhile. So a window of
//! *difference of delays × packets a second* keeps order, and a hold of that difference suffices. What
//! is measured is never exact, and too large costs memory, too small costs order:
//!
//! * the difference is taken from the earliest to the latest that packets come, jitter included; the
//!   clocks' offset, which is the same on all paths, cancels;
//! * the window has room for twice as many, and a packet beyond it widens it at once, within the
//!   limit of memory ([`MEMORY_BYTES`]); it narrows when it was much too wide for a while;
//! * the hold adds the widest reordering window within a path, the time that the peer takes to send
//!   again what is lost, and the time until an idle path tells by a probe that nothing is under way
//!   on it. It is the last resort, for a path that has died and is not known to be dead: losses are
//!   inferred earlier.

use std::time::Duration;

use crate::control::LatePolicy;
use crate::control::setting::Setting;
use crate::path::{Path, Paths};
use crate::receive::reorder::{MAX_WINDOW, Reorder, ReorderConfig};
use crate::time::Time;
use crate::windowed::Windowed;

/// Memory for packets that an automatic window may ask for, in bytes.
const MEMORY_BYTES: usize = 32 << 20;
/// An automatic window is at least so wide.
pub(super) const LEAST_WINDOW: u32 = 1024;
/// An automatic hold is at least this long, so that a queue that fills between two probes makes nothing
/// late.
const SHORTEST_HOLD: Duration = Duration::from_millis(250);
/// An automatic hold is at most this long, whatever is measured.
const LONGEST_HOLD: Duration = Duration::from_secs(5);
/// One packet is believed to be as far ahead as the peer sends in this time. Of two paths without a limit one is that
/// much ahead when it is emptied first: a socket of 8 MiB holds 7 ms of 9 Gbit/s, and its thread waits for a
/// processor. With 1,024 numbers some were refused, and each gap that they left stopped the tunnel until a probe came:
/// a p99 of 42 ms where it is 4.6 (`benches/throughput --only "MPT, 4 paths" --only "ping beside"`).
const BELIEVED_FOR: Duration = Duration::from_millis(20);
/// The time between two counts of packets, at least.
const COUNT_INTERVAL: Duration = Duration::from_millis(100);
/// How far back the rate and the use of the window are remembered, at least.
const MEMORY_SPAN: Duration = Duration::from_secs(10);

/// What the receiving side is asked to do about order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReorderSettings {
    /// Sequence numbers that may be held, at most [`MAX_WINDOW`]; 0 turns reordering off.
    pub window: Setting<u32>,
    /// Longest that a packet may be held.
    pub max_buffer_delay: Setting<Duration>,
    /// What happens to late packets.
    pub late: LatePolicy,
    /// Block sort with so many packets in a block ([`crate::receive::block_sort`]): nothing is held, and what is
    /// said of the window and of late packets is not looked at.
    pub block: Option<u16>,
}

impl Default for ReorderSettings {
    fn default() -> Self {
        ReorderSettings {
            window: Setting::Auto,
            max_buffer_delay: Setting::Auto,
            late: LatePolicy::Deliver,
            block: None,
        }
    }
}

impl ReorderSettings {
    /// Whether packets are put in order, for which they need numbers.
    #[must_use]
    pub fn is_numbered(&self) -> bool {
        self.block.is_some() || self.window != 0
    }

    /// The window to begin with, before anything is measured.
    pub(super) fn at_first(&self) -> ReorderConfig {
        let settings = self.in_force();
        let window = settings.window.fixed().unwrap_or(LEAST_WINDOW);
        ReorderConfig {
            window,
            grows_to: None,
            believed: window,
            max_buffer_delay: settings.max_buffer_delay.fixed().unwrap_or(SHORTEST_HOLD),
            late: settings.late,
        }
    }

    /// What the window is to do: with block sort, let everything through and know what came before.
    fn in_force(self) -> ReorderSettings {
        match self.block {
            None => self,
            Some(_) => ReorderSettings {
                window: 0.into(),
                late: LatePolicy::Deliver,
                ..self
            },
        }
    }
}

/// What was measured for the size of the window.
#[derive(Debug)]
pub(super) struct Sizing {
    pub(super) settings: ReorderSettings,
    /// Packets that had come by then.
    counted: Option<(Time, u64)>,
    packets_per_s: Windowed<u64>,
    /// How far ahead packets were.
    ahead: Windowed<u32>,
    pub(super) difference: Duration,
}

impl Sizing {
    pub(super) fn new(settings: ReorderSettings) -> Sizing {
        Sizing {
            settings,
            counted: None,
            packets_per_s: Windowed::greatest(MEMORY_SPAN),
            ahead: Windowed::greatest(MEMORY_SPAN),
            difference: Duration::ZERO,
        }
    }

    /// Most packets that came in a recent second.
    pub(super) fn packets_per_s(&self) -> u64 {
        self.packets_per_s.get().unwrap_or(0)
    }

    /// Packets that come during the difference of delays.
    pub(super) fn overtaking(&self) -> u64 {
        let packets = self.packets_per_s() as f64 * self.difference.as_secs_f64();
        packets.ceil() as u64
    }

    fn count(&mut self, now: Time, packets: u64) {
        let Some((at, before)) = self.counted else {
            self.counted = Some((now, packets));
            return;
        };
        let span = now.since(at);
        if span >= COUNT_INTERVAL {
            let rate = packets.saturating_sub(before) as f64 / span.as_secs_f64();
            self.packets_per_s.note(now, rate.round() as u64);
            self.counted = Some((now, packets));
        }
    }

    /// The widest window that memory allows, of packets that take so many bytes; trains may take twice the
    /// room of their packets.
    pub(super) fn widest(packet_bytes: usize, in_trains: bool) -> u32 {
        let copies = if in_trains { 2 } else { 1 };
        let packets = MEMORY_BYTES / (copies * packet_bytes);
        u32::try_from(packets).unwrap_or(u32::MAX).min(MAX_WINDOW)
    }

    /// The settings are others. What the window is to do now; what is automatic goes on from where it is.
    pub(super) fn configure(
        &mut self,
        settings: ReorderSettings,
        mut config: ReorderConfig,
        widest: u32,
    ) -> ReorderConfig {
        self.settings = settings;
        let settings = settings.in_force();
        config.late = settings.late;
        config.max_buffer_delay = settings
            .max_buffer_delay
            .fixed()
            .unwrap_or(config.max_buffer_delay);
        (config.window, config.grows_to, config.believed) = match settings.window {
            Setting::Fixed(window) => (window, None, window),
            Setting::Auto => {
                let window = config.window.max(LEAST_WINDOW).min(widest);
                (window, Some(widest), self.believed())
            }
        };
        config
    }

    /// What the window is to do by what is measured, where the settings leave that to the tunnel. `recovery`:
    /// how long the peer's resends take, if it sends any.
    pub(super) fn follow<T: Copy + Default>(
        &mut self,
        now: Time,
        paths: &Paths,
        reorder: &mut Reorder<T>,
        recovery: Option<Duration>,
    ) -> ReorderConfig {
        let packets = paths.iter().flatten().map(|path| path.rx_packets);
        self.count(now, packets.sum());
        self.ahead.note(now, reorder.take_widest());
        let waited_for = || {
            let ids = reorder.waited_for().iter();
            ids.filter_map(|id| Some((id, paths[id.index()].as_deref()?)))
        };
        self.difference = delay_difference(waited_for().map(|(_, path)| path));
        let mut config = reorder.config();
        if let Some(widest) = config.grows_to {
            config.window = self.window(config.window, widest);
            config.believed = self.believed();
        }
        if self.settings.max_buffer_delay == Setting::Auto {
            let displacement = waited_for().map(|(id, _)| reorder.displacement(id));
            let until_probed = waited_for().map(|(_, path)| path.longest_until_probed());
            let needed = self.difference
                + displacement.max().unwrap_or_default()
                + until_probed.max().unwrap_or_default()
                + recovery.unwrap_or_default();
            config.max_buffer_delay = needed.clamp(SHORTEST_HOLD, LONGEST_HOLD);
        }
        config
    }

    /// How far beyond the highest number one packet is believed. Not by how wide the window is: one that grows by what it
    /// is shown must not make more believable.
    fn believed(&self) -> u32 {
        let packets = u128::from(self.packets_per_s()) * BELIEVED_FOR.as_nanos() / 1_000_000_000;
        u32::try_from(packets).unwrap_or(u32::MAX).min(MAX_WINDOW)
    }

    /// The window to have, from the one that there is.
    fn window(&self, window: u32, widest: u32) -> u32 {
        let wanted = self.overtaking().saturating_mul(2);
        let wanted = u32::try_from(wanted).unwrap_or(u32::MAX).max(LEAST_WINDOW);
        let wanted = wanted.min(MAX_WINDOW).next_power_of_two().min(widest);
        let used = self.ahead.get().unwrap_or(0).saturating_mul(4);
        if wanted < window && used >= window {
            window.min(widest)
        } else {
            wanted
        }
    }
}

/// From the earliest that packets come to the latest, over these paths.
fn delay_difference<'a>(paths: impl Iterator<Item = &'a Path>) -> Duration {
    let range = paths
        .filter_map(|path| path.one_way.range())
        .map(|range| (*range.start(), *range.end()))
        .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    Duration::from_nanos(range.map_or(0, |(from, to)| to.abs_diff(from)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seq::Seq;

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    fn measured(difference_ms: u64, packets_per_s: u64) -> Sizing {
        let mut sizing = Sizing::new(ReorderSettings::default());
        sizing.difference = Duration::from_millis(difference_ms);
        sizing.count(at(1000), 0);
        sizing.count(at(2000), packets_per_s);
        sizing
    }

    #[test]
    fn the_window_has_room_for_twice_what_overtakes() {
        let widest = 20_000;
        for (difference_ms, rate, window) in [
            (0, 0, 1024),
            (50, 10_000, 1024),
            (51, 10_100, 2048),
            (300, 15_000, 16_384),
            (600, 80_000, widest),
            (u64::MAX / 2_000_000, u64::MAX / 2, widest),
        ] {
            let sizing = measured(difference_ms, rate);
            assert_eq!(
                sizing.window(1024, widest),
                window,
                "{difference_ms}, {rate}"
            );
        }
    }

    #[test]
    fn the_window_stays_wide_while_it_is_used() {
        let mut sizing = measured(10, 1000);
        sizing.ahead.note(at(2000), 1024);
        assert_eq!(sizing.window(4096, MAX_WINDOW), 4096);
        assert_eq!(sizing.window(8192, MAX_WINDOW), 1024);
        sizing.ahead.pass(at(30_000));
        assert_eq!(sizing.window(4096, MAX_WINDOW), 1024);
    }

    #[test]
    fn the_rate_is_the_greatest_of_the_last_seconds() {
        let mut sizing = measured(10, 5000);
        sizing.count(at(2050), 1_000_000);
        assert_eq!(sizing.packets_per_s(), 5000, "too soon to tell");
        sizing.count(at(4000), 5100);
        assert_eq!(sizing.packets_per_s(), 5000);
        sizing.count(at(5000), 0);
        sizing.count(at(40_000), 35);
        assert_eq!(
            sizing.packets_per_s(),
            1,
            "a path was taken away, and time passed"
        );
    }

    #[test]
    fn one_packet_is_believed_as_far_as_the_peer_sends_in_20_ms() {
        for (rate, believed) in [
            (0, 0),
            (50_000, 1000),
            (940_322, 18_806),
            (u64::MAX, MAX_WINDOW),
        ] {
            let mut sizing = measured(0, rate);
            assert_eq!(sizing.believed(), believed, "{rate}");
            let settings = ReorderSettings {
                window: 2000.into(),
                ..ReorderSettings::default()
            };
            let at_first = ReorderSettings::default().at_first();
            assert_eq!(at_first.believed, LEAST_WINDOW);
            assert_eq!(sizing.configure(settings, at_first, 4000).believed, 2000);
            let auto = ReorderSettings::default();
            assert_eq!(sizing.configure(auto, at_first, 4000).believed, believed);

            let config = ReorderConfig {
                grows_to: Some(4000),
                ..at_first
            };
            let mut reorder = Reorder::<u32>::new(config, Seq::FIRST);
            let paths = Paths::default();
            let followed = sizing.follow(at(2050), &paths, &mut reorder, None);
            assert_eq!(followed.believed, believed);
        }
    }
}

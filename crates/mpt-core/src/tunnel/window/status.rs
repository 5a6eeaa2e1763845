//! The window as `mpt-ctl status` shows it.

use hdrhistogram::Histogram;

use super::Window;
use crate::control::order::Spread;
use crate::control::setting::Setting;
use crate::control::verdict::NO_TRAFFIC_BPS;
use crate::control::{HoldTimes, ReorderMode, ReorderStatus};
use crate::path::Paths;
use crate::time::micros;

/// Delay differences below this are noise, in nanoseconds.
const NOISE_NS: u64 = 500_000;

impl Window {
    /// The window as `mpt-ctl status` shows it.
    pub(in crate::tunnel) fn status(&self, paths: &Paths) -> ReorderStatus {
        let (config, counters) = (self.reorder.config(), self.reorder.counters());
        ReorderStatus {
            window: config.window,
            max_buffer_delay_us: micros(config.max_buffer_delay),
            late_policy: config.late,
            held: u64::from(self.reorder.held() - self.reorder.left()),
            held_max: u64::from(counters.held_max),
            in_order: counters.in_order,
            reordered: counters.reordered,
            late: counters.late,
            duplicates: counters.duplicates,
            passed: self.ready.passed(),
            gaps_seen: counters.gaps_seen,
            gaps_open: u64::from(self.reorder.gaps_open()),
            gaps_filled: counters.gaps_filled,
            gaps_recovered: counters.gaps_recovered,
            gaps_inferred_lost: counters.gaps_inferred_lost,
            gaps_timed_out: counters.gaps_timed_out,
            gaps_overflowed: counters.gaps_overflowed,
            hold_us: times(self.reorder.hold_us()),
            recovery_us: times(self.reorder.recovery_us()),
            window_auto: config.grows_to.is_some(),
            max_buffer_delay_auto: self.sizing.settings.max_buffer_delay == Setting::Auto,
            window_limit: u64::from(self.widest()),
            delay_difference_us: micros(self.sizing.difference),
            packets_per_s: self.sizing.packets_per_s(),
            window_needed: self.needed(paths),
            mode: match self.sizing.settings.block {
                None => ReorderMode::Window,
                Some(_) => ReorderMode::Block,
            },
            block_size: self.sizing.settings.block,
            order: None,
        }
    }

    /// For how long packets were held, in microseconds.
    pub(in crate::tunnel) fn holds(&self) -> Spread {
        spread(self.reorder.hold_us())
    }

    /// How long it took until what was lost came again, in microseconds.
    pub(in crate::tunnel) fn recoveries(&self) -> Spread {
        spread(self.reorder.recovery_us())
    }

    /// Delay difference × packets a second over all paths that carry data: as many arrive on the faster ones while one is
    /// under way on the slowest.
    fn needed(&self, paths: &Paths) -> Option<u64> {
        let paths = paths.iter().flatten();
        let carrying = paths.filter(|path| path.rx_rate.bps() >= NO_TRAFFIC_BPS);
        let delays = carrying.filter_map(|path| path.one_way.ns());
        let difference = delays.clone().max()?.abs_diff(delays.min()?);
        let packets = self.sizing.packets_per_s();
        if packets == 0 || difference < NOISE_NS {
            return None;
        }
        let needed = difference as f64 / 1e9 * packets as f64;
        Some(needed.ceil() as u64)
    }
}

fn times(histogram: Option<&Histogram<u64>>) -> HoldTimes {
    let told = histogram.map(|histogram| HoldTimes {
        p50: histogram.value_at_quantile(0.5),
        p99: histogram.value_at_quantile(0.99),
        max: histogram.max(),
    });
    told.unwrap_or_default()
}

fn spread(histogram: Option<&Histogram<u64>>) -> Spread {
    let told = histogram.map(|histogram| {
        let values = histogram.iter_recorded();
        let values = values.map(|step| {
            let value = histogram.lowest_equivalent(step.value_iterated_to());
            (value, step.count_at_value())
        });
        let sum = histogram.mean() * histogram.len() as f64;
        Spread::of(values, sum as u64)
    });
    told.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::path::{Path, PathConfig};
    use crate::time::Time;
    use crate::tunnel::ReorderSettings;

    #[test]
    fn days_of_small_packets_ask_for_no_larger_window() {
        let mut window = Window::new(ReorderSettings::default(), 1464, false);
        let mut paths = Paths::default();
        for (slot, delay_ns) in paths.iter_mut().zip([5_000_000, 15_000_000]) {
            let mut path = Path::new(PathConfig::of_test(), Time::ZERO);
            path.one_way.sample(delay_ns, 0);
            *slot = Some(Box::new(path));
        }
        let mut now = Time::ZERO;
        for (span_s, packets, bytes) in [(100_000, 10_000_000, 1_000_000_000), (1, 1000, 1_400_000)]
        {
            now = now + Duration::from_secs(span_s);
            for path in paths.iter_mut().flatten() {
                path.rx_packets += packets;
                path.rx_bytes += bytes;
                path.rx_rate.sample(now, path.rx_bytes);
            }
            window.follow(now, &paths, None);
        }
        // 10 ms at 2000 packets a second.
        assert_eq!(window.needed(&paths), Some(20));
        // What carries data on one path alone overtakes nothing.
        paths[0].as_mut().unwrap().rx_rate = Default::default();
        assert_eq!(window.needed(&paths), None);
    }
}
